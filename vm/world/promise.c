/* When an LP may send its next message at the earliest, if none comes to it. For example an engine
 * that computes and then comes to an all_reduce: until it does nothing is sent, and then CC_START
 * passes before a CC sequencer begins. So others need not stop for it in the meantime. */
#include "world.h"
#include "../engine/cc.h"
#include "../time/clock.h"
#include "../../isa/operand.h"

static bool has_any(const isa_code *code) {
  for (uint32_t pc = 0; pc < code->n; pc++)
    if (isa_op_is_collective(code->insns[pc].op)) return true;
  return false;
}

/* Marks where a collective may still come in the code of an engine; a ret leads anywhere. */
static void mark(const isa_code *code, uint8_t *comes) {
  bool more = true;
  for (uint32_t pc = 0; pc < code->n; pc++) comes[pc] = isa_op_is_collective(code->insns[pc].op);
  /* Where a ret goes is not known here. */
  for (uint32_t pc = 0; pc < code->n; pc++)
    if (code->insns[pc].op == ISA_OP_ret) comes[pc] = 1;
  while (more) {
    more = false;
    /* From the end on, since most jumps go forward: few rounds. */
    for (uint32_t pc = code->n; pc-- > 0;) {
      const isa_insn *in = &code->insns[pc];
      int64_t to = isa_insn_target(in);
      if (comes[pc]) continue;
      if (to >= 0 && to < code->n) comes[pc] |= comes[to];
      if (!isa_op_ends(in->op) && pc + 1 < code->n) comes[pc] |= comes[pc + 1];
      more |= comes[pc];
    }
  }
}

bool vm_world_promise_open(vm_world *w) {
  /* A table for each engine; NULL where it has no collective. */
  size_t n = (size_t)w->nranks * ISA_MAX_CORES * ISA_NENGINES;
  if (!(w->comes = isa_zalloc(&w->al, n * sizeof *w->comes))) return false;
  for (uint32_t r = 0; r < w->nranks; r++)
    for (unsigned i = 0; i < w->runs[r]->n; i++)
      for (unsigned e = 0; e < ISA_NENGINES; e++) {
        const isa_code *code = &w->runs[r]->cores[i]->code->code[e];
        uint8_t **at = &w->comes[(r * ISA_MAX_CORES + i) * ISA_NENGINES + e];
        if (!has_any(code)) continue;
        if (!(*at = isa_zalloc(&w->al, code->n))) return false;
        mark(code, *at);
      }
  return true;
}

void vm_world_promise_close(vm_world *w) {
  for (uint32_t r = 0; w->comes && r < w->nranks; r++)
    for (unsigned i = 0; i < w->runs[r]->n; i++)
      for (unsigned e = 0; e < ISA_NENGINES; e++)
        isa_free(&w->al, w->comes[(r * ISA_MAX_CORES + i) * ISA_NENGINES + e],
                 w->runs[r]->cores[i]->code->code[e].n);
  isa_free(&w->al, w->comes, (size_t)w->nranks * ISA_MAX_CORES * ISA_NENGINES * sizeof *w->comes);
  w->comes = NULL;
}

/* Whether an engine of the core may come to a collective. */
static bool may_issue(const vm_world *w, const vm_core *c) {
  uint8_t *const *comes =
      &w->comes[(c->run->peers->rank * ISA_MAX_CORES + c->number) * ISA_NENGINES];
  /* A halted engine issues nothing any more. */
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (comes[e] && c->eng[e].state != VM_HALTED && comes[e][c->eng[e].pc]) return true;
  return false;
}

vm_time vm_world_promise(const vm_world *w, const vm_lp *lp) {
  vm_time start = UINT64_MAX;
  for (unsigned i = 0; i < lp->stack->n; i++) {
    const vm_core *c = lp->stack->cores[i];
    if (c->run->ended || !c->ccs) continue;
    /* A CC sequencer at work may send at once. */
    if (c->ccs->used) return lp->next;
    vm_time least = (vm_time)c->cost[VM_CC_START] * VM_NS;
    if (may_issue(w, c) && least < start) start = least;
  }
  /* UINT64_MAX: none of them can send. */
  return lp->next > UINT64_MAX - start ? UINT64_MAX : lp->next + start;
}
