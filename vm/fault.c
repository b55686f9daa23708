/* Faults of the simulated program, and the report of a deadlock. */
#include "vm.h"

#include <string.h>

void vm_fault(vm_core *c, isa_status status, int engine, int dma, uint32_t pc, const char *fmt,
              ...) {
  vm_fault_record *f = &c->fault;
  if (f->status != ISA_OK) return; /* the first fault is the one to read */
  f->status = status;
  f->engine = engine;
  f->dma_engine = dma;
  f->pc = pc;
  f->time = c->now;
  f->has_pc = engine >= 0;
  if (engine >= 0 && pc < c->code->code[engine].n)
    isa_print_insn(c->prog, 0, (unsigned)engine, &c->code->code[engine].insns[pc], &f->insn);
  va_list ap;
  va_start(ap, fmt);
  isa_buf_vprintf(&f->text, fmt, ap);
  va_end(ap);
  c->ended = true;
}

static const char *sem_name(const vm_core *c, unsigned sem, char *buf, size_t n) {
  isa_buf b;
  isa_buf_init(&b, &c->al);
  if (c->code->sem_names[sem])
    isa_buf_printf(&b, "$%s", c->code->sem_names[sem]);
  else
    isa_buf_printf(&b, "$S[%u]", sem);
  size_t len = b.len < n - 1 ? b.len : n - 1;
  memcpy(buf, isa_buf_str(&b), len);
  buf[len] = 0;
  isa_buf_free(&b);
  return buf;
}

/* "add.s:12" or "vector pc 12" of an instruction. */
static void put_place(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out) {
  const isa_code *code = &c->code->code[engine];
  if (code->lines && pc < code->n && code->lines[pc].file)
    isa_buf_printf(out, "%s:%u", c->prog->files[code->lines[pc].file - 1], code->lines[pc].line);
  else
    isa_buf_printf(out, "%s pc %u", isa_engines[engine].name, pc);
}

static bool changes_sem(const isa_insn *in, unsigned sem) {
  if (in->op == ISA_OP_sem_range_clear && sem - in->u.SEM_RANGE.first < in->u.SEM_RANGE.count)
    return true;
  return in->upd.kind != ISA_UPD_none && in->upd.sem == sem && in->upd.core == 0;
}

/* Engines that have not halted and whose code changes the semaphore. */
static void put_suspects(const vm_core *c, unsigned sem, isa_buf *out) {
  bool any = false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const isa_code *code = &c->code->code[e];
    if (c->eng[e].state == VM_HALTED) continue;
    for (uint32_t pc = 0; pc < code->n; pc++) {
      if (!changes_sem(&code->insns[pc], sem)) continue;
      isa_buf_printf(out, "%s%s (", any ? ", " : "; it is updated by ", isa_engines[e].name);
      put_place(c, e, pc, out);
      isa_buf_puts(out, ")");
      any = true;
      break; /* the first place of each engine is enough to find it */
    }
  }
  if (!any) isa_buf_puts(out, "; no engine that could still run updates it");
}

static void put_waiter(const vm_core *c, unsigned e, isa_buf *out) {
  static const char *const conds[] = {"", ">=", ">", "==", "<=", "<", "!="};
  const vm_engine *en = &c->eng[e];
  isa_buf_printf(out, "\n  %s at ", isa_engines[e].name);
  put_place(c, e, en->pc, out);
  if (en->state == VM_RINGFULL) {
    isa_buf_printf(out, " waits for a place in the rings of queue %s",
                   c->code->queues[en->ring_queue].name);
    return;
  }
  const isa_wait *w = &c->code->code[e].insns[en->pc].wait;
  char name[80];
  sem_name(c, w->sem, name, sizeof name);
  isa_buf_printf(out, " waits for %s%s%u; %s is %u", name, conds[w->cond],
                 w->is_reg ? en->regs[w->value] : w->value, name, c->sem[w->sem]);
  if (c->sem_last_engine[w->sem] < ISA_NENGINES) {
    isa_buf_puts(out, ", last updated by ");
    put_place(c, c->sem_last_engine[w->sem], c->sem_last_pc[w->sem], out);
  } else {
    isa_buf_puts(out, c->sem[w->sem] ? ", last set by the host" : ", never updated");
  }
  put_suspects(c, w->sem, out);
}

void vm_deadlock(vm_core *c) {
  isa_buf text;
  isa_buf_init(&text, &c->al);
  int first = -1;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (c->eng[e].state == VM_HALTED) continue;
    if (first < 0) first = (int)e;
    put_waiter(c, e, &text);
  }
  vm_fault(c, ISA_DEADLOCK, first, -1, first < 0 ? 0 : c->eng[first].pc,
           "no engine can move and no transfer is in flight%s", isa_buf_str(&text));
  isa_buf_free(&text);
}
