/* Semaphores of loops: totals that drift from round to round. */
#include "impl.h"

/* What the repeated instructions do to a semaphore in a round. Only loops of equally many rounds
 * are judged, so that nothing has to be known about their nesting. */
typedef struct rounds {
  uint32_t n;        /* rounds of updates, 0: none is repeated */
  bool mixed;        /* other numbers of rounds, updates of unknown size, or waits that move */
  bool once;         /* an update outside of the loops, too */
  uint64_t up, down; /* in a round */
  uint32_t waits;    /* rounds of the waits */
  uint32_t want;     /* what they wait for, at least */
  isa_place wait, lower;
} rounds;

static void note_round(rounds *r, uint32_t count) {
  /* It is not repeated. */
  if (count < 2) {
    r->once = true;
    return;
  }
  /* UINT32_MAX: how often it runs is not known. */
  r->mixed = r->mixed || count == UINT32_MAX || (r->n && r->n != count);
  r->n = count;
}

static void note_update(const lint *l, const lint_stream *s, uint32_t pc, rounds *all) {
  const isa_insn *in = &s->code->insns[pc];
  const isa_update *u = &in->upd;
  if (u->kind == ISA_UPD_none) return;
  rounds *r = &all[isa_lint_key(u->core, u->sem)];
  uint64_t up = isa_lint_adds(&l->p->cores[s->core], in);
  bool lowers = u->kind == ISA_UPD_dec || u->kind == ISA_UPD_sub;
  note_round(r, s->count[pc]);
  /* Writes, and updates of a size that is not known. */
  r->mixed = r->mixed || (!lowers && up == 0);
  if (s->count[pc] < 2) return;
  r->up += lowers ? 0 : up;
  if (!lowers) return;
  /* The first that takes, for the message. */
  if (r->down == 0) r->lower = (isa_place){(int)s->core, (int)s->engine, pc};
  r->down += u->kind == ISA_UPD_dec ? 1 : u->value;
}

static void note_wait(const lint_stream *s, uint32_t pc, rounds *all) {
  const isa_wait *w = &s->code->insns[pc].wait;
  uint32_t count = s->count[pc];
  if (w->cond == ISA_WAIT_none || count == 0) return;
  rounds *r = &all[isa_lint_key(w->core, w->sem)];
  /* Above n is n + 1 at least. */
  uint32_t want = w->cond == ISA_WAIT_gt ? w->value + 1 : w->value;
  bool plain = !w->is_reg && (w->cond == ISA_WAIT_ge || w->cond == ISA_WAIT_gt);
  if (!plain || count < 2 || (r->waits && (r->waits != count || r->want != want))) r->mixed = true;
  if (r->waits == 0) r->wait = (isa_place){(int)s->core, (int)s->engine, pc};
  r->waits = count;
  r->want = want;
}

/* Static transfers with a semaphore of their own, and cleared ranges. */
static void note_others(const lint *l, rounds *all) {
  for (unsigned c = 0; c < l->p->ncores; c++)
    for (unsigned q = 0; q < l->p->cores[c].nqueues; q++)
      for (uint32_t k = 0; k < l->p->cores[c].queues[q].nstatics; k++) {
        const isa_update *u = &l->p->cores[c].queues[q].statics[k].upd;
        if (u->kind) all[isa_lint_key(u->core, u->sem)].mixed = true;
      }
  for (unsigned i = 0; i < LINT_STREAMS; i++) /* a barrier takes what the other core's gives */
    for (uint32_t pc = 0; l->s[i].code && pc < l->s[i].code->n; pc++) {
      isa_barrier b;
      if (!isa_insn_barrier(&l->s[i].code->insns[pc], l->s[i].core, &b)) continue;
      all[isa_lint_key(b.give.core, b.give.sem)].mixed = true;
      all[isa_lint_key(b.take.core, b.take.sem)].mixed = true;
    }
  for (unsigned k = 0; k < LINT_SEMS; k++)
    if (l->sem[k].writes || l->sem[k].any) all[k].mixed = true;
}

static void judge(lint *l, unsigned key, const rounds *r) {
  char name[LINT_NAME], place[LINT_NAME];
  /* Only where updates and waits are in equally many rounds. */
  if (r->mixed || r->n < 2 || r->waits != r->n) return;
  isa_lint_sem_name(l, key / ISA_NSEMS, key % ISA_NSEMS, name);
  if (r->down && r->up > r->down)
    isa_lint_add(
        l, ISA_LINT_unbalanced, r->wait,
        "each of %u rounds adds %llu to %s and takes %llu (%s), so that this wait holds too "
        "early; fix: take %llu",
        r->n, (unsigned long long)r->up, name, (unsigned long long)r->down,
        isa_lint_place(l, r->lower, place), (unsigned long long)r->up);
  else if (!r->down && !r->once && r->want && r->want <= r->up)
    isa_lint_add(l, ISA_LINT_unbalanced, r->wait,
                 "each of %u rounds adds %llu to %s and nothing takes it: from the second round on "
                 "this wait for %u holds at once; fix: wait for %llu more each round",
                 r->n, (unsigned long long)r->up, name, r->want, (unsigned long long)r->up);
}

void isa_lint_judge_balance(lint *l) {
  rounds *all = isa_zalloc(l->al, LINT_SEMS * sizeof *all);
  if (!all) {
    l->failed = true;
    return;
  }
  for (unsigned i = 0; i < LINT_STREAMS; i++)
    for (uint32_t pc = 0; l->s[i].code && pc < l->s[i].code->n; pc++) {
      if (l->s[i].count[pc] == 0) continue;
      note_update(l, &l->s[i], pc, all);
      note_wait(&l->s[i], pc, all);
    }
  note_others(l, all);
  for (unsigned k = 0; k < LINT_SEMS && !l->failed; k++) judge(l, k, &all[k]);
  isa_free(l->al, all, LINT_SEMS * sizeof *all);
}
