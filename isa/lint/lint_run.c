/* Follows the path of each engine: registers, branches, which waits can be passed. */
#include "impl.h"

#include <string.h>

enum { MOST_TRIGGERED = 1 << 16 }; /* transfers of one dma_trigger that are followed singly */

/* ---- Registers ----------------------------------------------------------------------------- */

static bool is_known(const lint_stream *s, uint8_t reg) { return s->known >> reg & 1; }

/* An unknown register reads as 0 and is never trusted. */
static void set(lint_stream *s, uint8_t reg, bool known, uint32_t v) {
  s->known &= ~(UINT64_C(1) << reg);
  s->known |= (uint64_t)known << reg;
  s->regs[reg] = known ? v : 0;
}

static bool value_of(const lint_stream *s, const isa_int *i, uint32_t *v) {
  *v = i->is_reg ? s->regs[i->v] : (uint32_t)i->v;
  return !i->is_reg || is_known(s, (uint8_t)i->v);
}

/* Runs a register instruction: *next is where it goes. False: the path is lost there.
 * Only registers are followed: what memory holds is data. */
static bool step_registers(lint_stream *s, const isa_insn *in, uint32_t *next) {
  uint32_t b = 0, r = 0;
  bool known;
  switch (isa_ops[in->op].form) {
  case ISA_FORM_MOV:
    known = value_of(s, &in->u.MOV.a, &b);
    set(s, in->u.MOV.rd, known, isa_reg_alu(in->op, 0, b, &r) ? r : 0);
    return true;
  case ISA_FORM_REGALU: {
    known = value_of(s, &in->u.REGALU.b, &b) && is_known(s, in->u.REGALU.ra);
    bool ok = isa_reg_alu(in->op, s->regs[in->u.REGALU.ra], b, &r);
    set(s, in->u.REGALU.rd, known, r);
    /* A division by a 0 that is known stops there. */
    return ok || !known;
  }
  case ISA_FORM_BRANCH:
    known = value_of(s, &in->u.BRANCH.b, &b) && is_known(s, in->u.BRANCH.ra);
    if (known && isa_branch_taken(in->op, s->regs[in->u.BRANCH.ra], b)) *next = in->u.BRANCH.to;
    return known;
  case ISA_FORM_JUMP: *next = in->u.JUMP.to; return true;
  case ISA_FORM_CALL:
    /* The register gets a pc, so a ret is followed as a jump to it. */
    set(s, in->u.CALL.rd, true, s->pc + 1);
    *next = in->u.CALL.to;
    return true;
  case ISA_FORM_REG: /* ret */ *next = s->regs[in->u.REG.r]; return is_known(s, in->u.REG.r);
  /* Each rank has a number of its own. */
  case ISA_FORM_RANK: set(s, in->u.RANK.rd, false, 0); return true;
  /* What memory holds is not followed. */
  case ISA_FORM_TENSOR_LOAD: set(s, in->u.TENSOR_LOAD.rd, false, 0); return true;
  default: return true;
  }
}

/* ---- Transfers ----------------------------------------------------------------------------- */

/* A transfer is split over the rings: each adds its 1. */
static uint64_t rings_of(const isa_core *core, const isa_insn *in) {
  int q = isa_insn_queue(in);
  return q >= 0 && (uint32_t)q < core->nqueues ? core->queues[q].rings : 0;
}

/* A loop's balance needs the number of one execution. */
uint64_t isa_lint_adds(const isa_core *core, const isa_insn *in) {
  switch (in->upd.kind) {
  case ISA_UPD_inc: return 1;
  case ISA_UPD_add: return in->upd.value;
  case ISA_UPD_dma: break;
  default: return 0;
  }
  if (!isa_op_is_dma(in->op)) return 0;
  if (in->op != ISA_OP_dma_trigger) return rings_of(core, in);
  const isa_int *n = &in->u.TRIGGER.count;
  return n->is_reg || n->v < 0 ? 0 : (uint64_t)n->v * rings_of(core, in);
}

static void run_static(lint *l, const lint_stream *s, const isa_insn *trigger, uint32_t i) {
  unsigned q = trigger->u.TRIGGER.queue;
  const isa_core *core = &l->p->cores[s->core];
  const isa_insn *in = &core->queues[q].statics[i];
  /* It moves the same each time.
   * Done once, its bytes are written: another time changes nothing. */
  if (!l->free && !l->statics_done[s->core][q][i]) isa_lint_access(l, s, in);
  l->statics_done[s->core][q][i] = 1;
  /* The trigger's own semaphore takes the place of the transfers' one. */
  if (trigger->upd.kind == ISA_UPD_none) isa_lint_update(l, s, in, &in->upd, rings_of(core, in));
}

/* Static transfers in order; when the order or the number is not known, all of the queue. */
static void trigger(lint *l, const lint_stream *s, const isa_insn *in) {
  unsigned q = in->u.TRIGGER.queue, mask = l->triggers[s->core][q];
  const isa_core *core = &l->p->cores[s->core];
  uint32_t n = 0, statics = core->queues[q].nstatics;
  /* When several engines start transfers of a queue their order is not known. */
  bool known = value_of(s, &in->u.TRIGGER.count, &n) && (mask & (mask - 1)) == 0;
  if (statics == 0) return;
  /* All that any of them may do. */
  if (!known || n > MOST_TRIGGERED) {
    for (uint32_t i = 0; i < statics; i++) {
      if (!l->free) isa_lint_write_only(l, s, &core->queues[q].statics[i]);
      if (in->upd.kind == ISA_UPD_none)
        isa_lint_update_any(l, s->core, &core->queues[q].statics[i]);
    }
    /* The number is known even where the order is not. */
    if (value_of(s, &in->u.TRIGGER.count, &n) && n <= INT32_MAX)
      isa_lint_update(l, s, in, &in->upd, n * rings_of(core, in));
    else
      isa_lint_update_any(l, s->core, in);
    return;
  }
  isa_lint_update(l, s, in, &in->upd, n * rings_of(core, in));
  uint32_t *next = &l->statics_next[s->core][q];
  /* first counts from 1; 0 goes on where the last one ended. */
  if (in->u.TRIGGER.first) *next = in->u.TRIGGER.first - 1;
  for (uint32_t k = 0; k < n; k++) {
    run_static(l, s, in, *next);
    *next = (*next + 1) % statics;
  }
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The path of s is lost at its pc: whatever it reaches may have run, any number of times.
 * After a branch on a value from memory, or after too many steps. */
static void lose_path(lint *l, lint_stream *s) {
  s->state = LINT_LOST;
  uint8_t *seen = isa_zalloc(l->al, s->code->n);
  if (!seen || !isa_flow_reach(l->al, s->code, s->pc, seen)) l->failed = true;
  const isa_core *core = &l->p->cores[s->core];
  for (uint32_t pc = 0; !l->failed && pc < s->code->n; pc++) {
    const isa_insn *in = &s->code->insns[pc];
    if (!seen[pc]) continue;
    /* UINT32_MAX rounds: any number of times. */
    if (s->count[pc] == 0) s->count[pc] = UINT32_MAX;
    isa_lint_update_any(l, s->core, in);
    if (!l->free) isa_lint_write_only(l, s, in);
    if (in->op != ISA_OP_dma_trigger) continue;
    const isa_queue *q = &core->queues[in->u.TRIGGER.queue];
    for (uint32_t i = 0; i < q->nstatics; i++) {
      isa_lint_update_any(l, s->core, &q->statics[i]);
      if (!l->free) isa_lint_write_only(l, s, &q->statics[i]);
    }
  }
  if (seen) isa_free(l->al, seen, s->code->n);
}

/* What an instruction does to memory: the first time, and again while registers move its patterns.
 */
static void touch(lint *l, lint_stream *s, const isa_insn *in) {
  uint8_t *moves = &s->moves[s->pc];
  /* Registers in a loop move a pattern each round; bytes that stay need one look. */
  bool again = *moves & LINT_MOVES && !(*moves & LINT_BLURRED);
  if (again && !isa_lint_follows(l)) *moves |= LINT_BLURRED;
  if (s == l->at && *moves & LINT_MOVES && !(*moves & LINT_LEFT) && isa_lint_leaves(l, s, in))
    *moves |= LINT_LEFT;
  if (again || s->count[s->pc] == 1) isa_lint_access(l, s, in);
}

/* Effects of an instruction other than those on registers. */
static void act(lint *l, lint_stream *s, const isa_insn *in) {
  const isa_core *core = &l->p->cores[s->core];
  /* The passes without waits look at no memory. */
  if (!l->free) touch(l, s, in);
  if (in->op == ISA_OP_dma_trigger)
    trigger(l, s, in);
  else if (in->op == ISA_OP_sem_range_clear)
    isa_lint_clear(l, s, in);
  if (in->op != ISA_OP_dma_trigger && in->upd.kind != ISA_UPD_none)
    isa_lint_update(l, s, in, &in->upd, isa_op_is_dma(in->op) ? rings_of(core, in) : 1);
}

/* Whether s gets past a wait. */
static bool passes_wait(lint *l, lint_stream *s, const isa_wait *w) {
  unsigned key = isa_lint_key(w->core, w->sem);
  /* Judging: could it ever hold, with all updates of the program? */
  bool holds = isa_lint_can_hold(l, s, w, l->judges ? &l->total[key] : &l->sem[key]);
  /* A pass that judges reports it and goes on. */
  if (!holds && !l->judges) {
    s->state = LINT_WAITS;
    return false;
  }
  if (holds)
    isa_lint_passed(l, s, w);
  else
    isa_lint_judge_wait(l, s, w);
  return true;
}

static inline bool passes(lint *l, lint_stream *s, const isa_wait *w) {
  return !w->cond || (l->free && !l->judges) || passes_wait(l, s, w);
}

/* Whether s gets past its core_barrier, if it is at one; it updates the other core's semaphore
 * only once.
 */
static bool passes_barrier(lint *l, lint_stream *s, const isa_insn *in) {
  isa_barrier b;
  if (!isa_insn_barrier(in, s->core, &b)) return true;
  /* The other core must hear of it before this one waits, or both would wait for ever. */
  if (!s->given) isa_lint_update(l, s, in, &b.give, 1);
  s->given = true;
  if (!passes(l, s, &b.wait)) return false;
  isa_lint_update(l, s, in, &b.take, 1);
  s->given = false;
  return true;
}

/* One instruction. False when s cannot continue. */
static bool step(lint *l, lint_stream *s) {
  const isa_insn *in = &s->code->insns[s->pc];
  uint32_t next = s->pc + 1;
  /* In the middle of a barrier its own wait has been passed. */
  if ((!s->given && !passes(l, s, &in->wait)) || !passes_barrier(l, s, in)) return false;
  /* Too many steps: a loop that may never end. */
  if (s->steps++ == l->steps) {
    lose_path(l, s);
    return false;
  }
  if (s->count[s->pc] < UINT32_MAX) s->count[s->pc]++;
  act(l, s, in);
  if (in->op == ISA_OP_halt) {
    s->state = LINT_HALTED;
    return false;
  }
  if (!step_registers(s, in, &next) || next >= s->code->n) {
    lose_path(l, s);
    return false;
  }
  s->pc = next;
  return true;
}

/* Runs everyone but l->at as far as they can. Whether anyone has moved.
 * Round robin until a whole round moves nobody; an engine runs until it is held up. */
static bool run_others(lint *l) {
  bool moved = false, again = true;
  while (again && !l->failed) {
    again = false;
    for (unsigned i = 0; i < l->p->ncores * ISA_NENGINES; i++) {
      lint_stream *s = &l->s[i];
      if (s == l->at || s->state > LINT_WAITS) continue;
      s->state = LINT_RUNS;
      uint64_t steps = s->steps;
      /* A step count that grew: it has moved. */
      while (step(l, s) && !l->failed) {
      }
      again = again || s->steps != steps;
    }
    moved = moved || again;
  }
  return moved;
}

static void reset(lint *l) {
  memset(l->sem, 0, sizeof l->sem);
  memset(l->statics_next, 0, sizeof l->statics_next);
  for (unsigned c = 0; c < l->p->ncores; c++)
    for (unsigned q = 0; q < l->p->cores[c].nqueues; q++)
      if (l->statics_done[c][q])
        memset(l->statics_done[c][q], 0, l->p->cores[c].queues[q].nstatics);
  for (unsigned i = 0; i < LINT_STREAMS; i++) {
    lint_stream *s = &l->s[i];
    s->state = s->code && s->code->n ? LINT_RUNS : LINT_HALTED;
    s->pc = 0;
    s->given = false;
    s->steps = 0;
    /* Registers begin at 0, but those with a tensor's size begin with what the host
     * gives. */
    s->known = ~isa_program_rows(l->p); /* others begin at 0 */
    memset(s->regs, 0, sizeof s->regs);
    if (s->count) memset(s->count, 0, s->code->n * sizeof *s->count);
    for (uint32_t pc = 0; s->moves && pc < s->code->n; pc++) s->moves[pc] &= (uint8_t)~LINT_BLURRED;
  }
  l->work = 0;
  if (!l->free) isa_lint_memory_reset(l);
  isa_lint_scan_cc(l);
}

bool isa_lint_pass(lint *l) {
  reset(l);
  lint_stream *last = NULL;
  for (unsigned i = 0; i < LINT_STREAMS; i++)
    if (&l->s[i] == l->at) last = &l->s[i];
  /* The others first, then one step of this one, and the others again. */
  run_others(l);
  while (last && last->state <= LINT_WAITS && !l->failed) {
    last->state = LINT_RUNS;
    /* The others may have been waiting for just that step. */
    if (step(l, last)) {
      run_others(l);
      continue;
    }
    /* Nobody moves any more. */
    if (!run_others(l) && last->state <= LINT_WAITS) break;
  }
  return !l->failed;
}
