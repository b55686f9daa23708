/* Where the two cores of a pair meet: core_barrier, and the halves of a sendrecv. */
#include "check.h"
#include "impl.h"
#include "meet.h"

/* ---- core_barrier -------------------------------------------------------------------------- */

void vm_ck_note_barriers(vm_core *c, unsigned e) {
  const isa_code *code = vm_ck_code(c, e);
  unsigned core = e >= ISA_NSEQS;
  isa_barrier b;
  for (uint32_t pc = 0; pc < code->n; pc++)
    if (isa_insn_barrier(&code->insns[pc], core, &b))
      c->check->waiters[vm_ck_sem(core, b.wait.sem)] |= (uint16_t)(1u << e);
}

/* The bytes that it names are handed over: the engine's own transfers there must be over. */
void vm_check_barrier(vm_core *c, unsigned e, const isa_insn *in) {
  isa_error err = {0};
  vm_resolver r = {.c = c, .e = &c->eng[e], .err = &err};
  vm_view v;
  /* Without data it only orders the two. */
  if (!vm_ck_has(c, VM_CHECK_RACE) || !in->u.BARRIER.data) return;
  if (vm_resolve_ap(&r, in->u.BARRIER.data, &v)) vm_ck_race_handed(c, vm_ck_unit(c, e), &v);
}

void vm_check_waited(vm_core *c, unsigned e, const isa_wait *w) {
  if (c->check->legal) vm_ck_legal_wait(c, vm_ck_unit(c, e), w);
  if (vm_ck_has(c, VM_CHECK_RACE)) vm_ck_wait(c, vm_ck_unit(c, e), w);
}

/* ---- sendrecv ------------------------------------------------------------------------------ */

bool vm_ck_find_pipes(vm_core *c) {
  bool any = false;
  for (unsigned core = 0; core < c->prog->ncores; core++) {
    uint8_t comes[VM_CK_PIPES] = {0}; /* an engine, + 1 */
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      const isa_code *code = &c->prog->cores[core].code[e];
      for (uint32_t pc = 0; pc < code->n; pc++) {
        int pipe = isa_insn_pipe(&code->insns[pc]);
        if (pipe < 0) continue;
        /* Two engines at one pipe: which comes first matters. */
        bool shared = comes[pipe] && comes[pipe] != e + 1;
        comes[pipe] = (uint8_t)(e + 1);
        c->check->shared_pipe[core][pipe] |= shared;
        any |= shared;
      }
    }
  }
  return any;
}

/* Which of two engines of a core comes to a pipe first decides which one the other core meets: the
 * second must know that the first has met. */
static void come_to_pipe(vm_core *c, unsigned engine) {
  const vm_engine *en = &c->eng[engine];
  struct vm_check *k = c->check;
  int pipe = isa_insn_pipe(&en->code->insns[en->pc]);
  unsigned e = vm_ck_unit(c, engine);
  /* Alone at its pipe: its own order is enough. */
  if (!k->shared_pipe[c->number][pipe]) return;
  /* A write of the pipe's byte: two that nothing orders are a race. */
  vm_ck_access a = {.epoch = ++k->clock[e][vm_ck_comp(e, OF_SEQ)],
                    .comp = (uint16_t)vm_ck_comp(e, OF_SEQ),
                    .region = (uint16_t)(k->nregions - c->prog->ncores + c->number),
                    .p1 = 1,
                    .engine = (uint8_t)e,
                    .queue = VM_CK_QUEUES,
                    .pc = en->pc,
                    .writes = true,
                    .time = c->now};
  isa_byteset_make(pipe, 1, NULL, 0, &a.set);
  vm_ck_race_record(c, e, &a);
}

/* gpsimd comes to its own sendrecv when its data path is through with the operands. */
static void leave_operands(vm_core *c, unsigned engine, const vm_view end[2]) {
  unsigned e = vm_ck_unit(c, engine), done = vm_ck_comp(e, OF_DONE);
  struct vm_check *k = c->check;
  uint32_t last = vm_ck_last_touch(c, e, end, k->clock[e][done]);
  if (last > k->clock[e][done]) vm_ck_data_path_known(c, e, last);
}

void vm_check_meet(vm_core *c, const vm_where at[2], const vm_view *const end[2]) {
  vm_core *core[2] = {vm_core_at(c, at[0].core), vm_core_at(c, at[1].core)};
  unsigned e[2], unit[2];
  for (unsigned i = 0; i < 2; i++) {
    e[i] = (unsigned)at[i].engine;
    unit[i] = vm_ck_unit(core[i], e[i]);
    c->check->sent[at[i].core] = end[i][1];
  }
  c->check->met[unit[0]] = (uint8_t)unit[1];
  c->check->met[unit[1]] = (uint8_t)unit[0];
  /* Neither half has begun. */
  c->check->halved = false;
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  bool gpsimd = c->eng[e[0]].code->insns[at[0].pc].op == ISA_OP_sendrecv_gpsimd;
  for (unsigned i = 0; i < 2 && gpsimd; i++) leave_operands(core[i], e[i], end[i]);
  /* After the operands: the meeting itself is an access of the pipe. */
  for (unsigned i = 0; i < 2; i++) come_to_pipe(core[i], e[i]);
  vm_ck_clocks_meet(c, unit[0], unit[1]);
}

/* The number of the other half, of which `n` have started so far. */
static uint32_t number_of(vm_core *c, uint32_t n) { return n + !c->check->halved; }

/* An instruction and the other core's half end together, so the update of one, or of what ends
 * after it, proves both. */
void vm_ck_twin_flight(vm_core *c, const vm_flight *f, vm_ck_release *r) {
  unsigned twin = vm_ck_twin_of(r->engine);
  uint32_t number = vm_ck_log_twin(c, r->engine, r->own[OF_DONE]);
  if (f->in->op == ISA_OP_sendrecv_gpsimd)
    number = number_of(
        c, c->check->issued[vm_ck_unit(vm_core_at(c, f->met.core), (unsigned)f->met.engine)]);
  /* Its data path has met nobody yet. */
  if (number == 0) return;
  r->twin = (uint16_t)twin;
  r->twin_share = number;
}

/* A ring updates when both halves of it are done. */
void vm_ck_twin_share(vm_core *c, const vm_transfer *t, unsigned comp, vm_ck_release *r) {
  const struct vm_check *k = c->check;
  const isa_insn *there = &vm_core_at(c, t->met.core)->code->code[t->met.engine].insns[t->met.pc];
  unsigned queue = vm_ck_queue(vm_core_at(c, t->met.core), there->u.SENDRECV.queue);
  r->twin = (uint16_t)vm_ck_ring_comp(k, queue, (comp - k->rings) % ISA_NDMA);
  r->twin_share = number_of(c, k->shares[r->twin - k->rings]);
}
