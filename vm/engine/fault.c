/* Faults of the simulated program. */
#include "engine.h"

/* The message has the line; the macro calls that it came from follow, each on a line of its own. */
static void put_origin(vm_core *c, const isa_code *code, uint32_t pc) {
  /* Programs built from values have no lines. */
  isa_line at = code->lines && pc < code->n ? code->lines[pc] : (isa_line){0};
  if (!at.file || !at.call) return;
  isa_buf_printf(&c->run->fault.text, "\n  at %s:%u", c->prog->files[at.file - 1], at.line);
  isa_print_calls(c->prog, at, &c->run->fault.text);
}

void vm_fault(vm_core *c, isa_status status, vm_where at, const char *fmt, ...) {
  vm_fault_record *f = &c->run->fault;
  bool goes_on = status == ISA_STOPPED;
  /* A run that goes on afterwards is not told that it stops. */
  if (f->status == ISA_OK && !goes_on) vm_tell_stop(c); /* this may itself raise a fault */
  if (f->status != ISA_OK) return;                      /* the first fault is the one to read */
  /* A fault of the other core's instruction is printed from that core's code. */
  const vm_core *of = at.engine >= 0 ? vm_core_at(c, at.core) : c;
  f->status = status;
  f->core = of->number;
  f->engine = at.engine;
  f->dma_engine = at.dma;
  f->pc = at.pc;
  f->time = c->now;
  f->has_pc = at.engine >= 0;
  /* The pc of a hostile saved run may be anything. */
  if (at.engine >= 0 && at.pc < of->code->code[at.engine].n)
    isa_print_insn(c->prog, of->number, (unsigned)at.engine,
                   &of->code->code[at.engine].insns[at.pc], &f->insn);
  va_list ap;
  va_start(ap, fmt);
  isa_buf_vprintf(&f->text, fmt, ap);
  va_end(ap);
  /* Refusals of the host (limits, memory) have no place in a macro. */
  if (f->insn.len && status == ISA_FAULT) put_origin(c, &of->code->code[at.engine], at.pc);
  c->run->ended = true;
}

static void put_line(const vm_core *c, isa_line at, isa_buf *out) {
  isa_buf_printf(out, "%s:%u", c->prog->files[at.file - 1], at.line);
  isa_print_calls(c->prog, at, out);
}

void vm_put_pc(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out) {
  const isa_code *code = &c->code->code[engine];
  if (code->lines && pc < code->n && code->lines[pc].file)
    put_line(c, code->lines[pc], out);
  else
    isa_buf_printf(out, "pc %u", pc);
}

void vm_put_site(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out) {
  const isa_code *code = &c->code->code[engine];
  if (code->lines && pc < code->n && code->lines[pc].file)
    isa_buf_printf(out, "%s:%u", c->prog->files[code->lines[pc].file - 1], code->lines[pc].line);
  else
    isa_buf_printf(out, "%s pc %u", isa_engines[engine].name, pc);
}

void vm_put_place(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out) {
  const isa_code *code = &c->code->code[engine];
  if (!code->lines || pc >= code->n || !code->lines[pc].file)
    isa_buf_printf(out, "%s%s ", c->number ? "core 1 " : "", isa_engines[engine].name);
  vm_put_pc(c, engine, pc, out);
}

void vm_put_sem(const vm_core *c, unsigned sem, isa_buf *out) {
  if (c->code->sem_names[sem])
    isa_buf_printf(out, "$%s", c->code->sem_names[sem]);
  else
    isa_buf_printf(out, "$S[%u]", sem);
}
