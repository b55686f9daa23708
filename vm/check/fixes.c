/* What could mend a cause, those that fit best first: a wait for the update that the first access
 * has, with the value and in the rounds that its pairs need; a drain; a wait before the instruction
 * that signals too early, or that adds to the same semaphore too early; a semaphore of its own.
 * trial.c finds out which of them hold. */
#include "check.h"
#include "trial.h"

#include <string.h>

enum {
  MOST_NEEDS = 32, /* rounds that are asked for the value they need */
  MOST_RELAYS = 3, /* instructions of one engine that signal too early */
  MOST_MORE = 4    /* updates of the same kind that a value may include in addition */
};

/* ---- What each round needs ------------------------------------------------------------------ */

typedef struct needs {
  uint32_t n, round[MOST_NEEDS];
  int64_t value[MOST_NEEDS];
  const vm_ck_access *from, *to; /* of the greatest value in the first round */
} needs;

static void add_need(needs *to, uint32_t round, int64_t value, const vm_ck_access *from,
                     const vm_ck_access *second) {
  uint32_t i = 0;
  while (i < to->n && to->round[i] < round) i++;
  if (i == 0 && (to->n == 0 || round < to->round[0] || value > to->value[0]))
    to->from = from, to->to = second;
  if (i < to->n && to->round[i] == round) {
    if (value > to->value[i]) to->value[i] = value;
    return;
  }
  if (to->n == MOST_NEEDS) return;
  memmove(&to->round[i + 1], &to->round[i], (to->n - i) * sizeof *to->round);
  memmove(&to->value[i + 1], &to->value[i], (to->n - i) * sizeof *to->value);
  to->round[i] = round;
  to->value[i] = value;
  to->n++;
}

/* Where the one that has to wait for `from` does so, for a pair, and in which round; 0: nowhere. */
static uint32_t spot_of(const vm_core *c, const struct vm_ck_judge *j, const vm_ck_advice *how,
                        const vm_ck_access *from, const vm_ck_access *to, vm_ck_spot *out) {
  const vm_ck_log *g = &c->check->log;
  uint32_t n = 0;
  *out = (vm_ck_spot){.access = to};
  for (uint32_t i = from->logged; how->next && i < g->naccesses; i++) {
    const vm_ck_access *a = out->access = &g->accesses[i];
    if (a->engine == how->engine && a->pc == how->pc && a->transfer != from->transfer)
      return j->rounds[i];
  }
  if (how->next) return 0;
  if (!how->relay) return j->rounds[to->logged - 1];
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    if (u->engine != how->engine || u->pc != how->pc) continue;
    n++;
    *out = (vm_ck_spot){.update = u};
    if (u->at > from->at) return n;
  }
  return 0;
}

/* The update of a semaphore that tells that an access is over. */
static const vm_ck_signal *signal_on(const vm_core *c, const struct vm_ck_judge *j, unsigned sem,
                                     const vm_ck_access *from, const vm_ck_access *to) {
  const vm_ck_signal *u[VM_CK_SIGNALS];
  unsigned n = vm_ck_signals(c, j->m, from, to, true, u);
  for (unsigned i = 0; i < n; i++)
    if (u[i]->sem == sem) return u[i];
  return NULL;
}

static void find_needs(const vm_core *c, struct vm_ck_judge *j, const cause *s,
                       const vm_ck_advice *how, int more, needs *out) {
  const vm_ck_access *from, *to, *last_from = NULL, *last_to = NULL;
  uint32_t asked = 0;
  out->n = 0;
  for (uint32_t i = 0; i < j->npairs && asked < MOST_NEEDS; i++) {
    vm_ck_spot spot;
    if (vm_ck_is_ordered(c, j, &j->pairs[i]) || !vm_ck_turn(c, j, s, how, i, &from, &to)) continue;
    /* The same transfer and round as before need the same: asked only once. */
    bool same = last_from && from->epoch == last_from->epoch && from->queue == last_from->queue &&
                j->rounds[to->logged - 1] == j->rounds[last_to->logged - 1];
    last_from = from;
    last_to = to;
    uint32_t round = same ? 0 : spot_of(c, j, how, from, to, &spot);
    const vm_ck_signal *u = round ? signal_on(c, j, how->sem, from, to) : NULL;
    asked += !same;
    if (u) add_need(out, round, vm_ck_value_for(c, j->m, u, from, to, &spot, more), from, to);
  }
  j->looks += (uint64_t)asked * (c->check->log.nupdates + c->check->log.nsteps);
}

/* By how much the value rises in each round from the first one on. */
static int64_t rise_of(const needs *v) {
  int64_t step = 0;
  for (uint32_t i = 1; i < v->n; i++) {
    int64_t n = (int64_t)v->round[i] - v->round[0], rise = v->value[i] - v->value[0];
    /* Rounded up: too high a value waits longer, too low a one not long enough. */
    if (rise > step * n) step = (rise + n - 1) / n;
  }
  return step;
}

/* ---- The fixes of a cause ------------------------------------------------------------------- */

typedef struct fixes {
  const vm_core *c;
  struct vm_ck_judge *j;
  const cause *of;
  uint32_t n;
  vm_ck_advice *v;
} fixes;

static void add_fix(fixes *f, const vm_ck_advice *how) {
  for (uint32_t i = 0; i < f->n; i++) {
    const vm_ck_advice *x = &f->v[i];
    if (x->sem == how->sem && x->value == how->value && x->step == how->step &&
        x->round == how->round && x->engine == how->engine && x->pc == how->pc &&
        x->signals == how->signals && x->take == how->take && x->raise == how->raise &&
        x->drain == how->drain)
      return;
  }
  if (f->n == MOST_FIXES) return;
  f->v[f->n] = *how;
  f->v[f->n++].tried = true;
}

/* The execution of the instruction of an access before it; NULL: it is the first. */
static const vm_ck_access *one_before(const vm_core *c, const struct vm_ck_judge *j,
                                      const vm_ck_access *a) {
  for (uint32_t i = a->logged - 1; i-- > 0;) {
    const vm_ck_access *x = access_of(c, i + 1);
    if (place(x) == place(a) && j->rounds[i] + 1 == j->rounds[a->logged - 1]) return x;
  }
  return NULL;
}

/* By how much the value rises that `first` needs from one round to the next; 0: it does not, or is
 * not known. */
static int64_t rise_before(const fixes *f, const vm_ck_advice *how, const needs *v) {
  const vm_ck_access *a = v->from, *b = one_before(f->c, f->j, a);
  const vm_ck_signal *u = b ? signal_on(f->c, f->j, how->sem, a, v->to) : NULL;
  const vm_ck_signal *w = u ? signal_on(f->c, f->j, how->sem, b, v->to) : NULL;
  vm_ck_spot at = {.access = v->to};
  if (!w) return 0;
  return vm_ck_value_for(f->c, f->j->m, u, a, v->to, &at, 0) -
         vm_ck_value_for(f->c, f->j->m, w, b, v->to, &at, 0);
}

/* Whether the round before the first one that needs a wait is known not to need one. */
static bool is_first(const fixes *f, const needs *v) {
  const vm_ck_access *a = one_before(f->c, f->j, v->from), *b = one_before(f->c, f->j, v->to);
  return a && b && vm_ck_race_known(vm_ck_must_clock(f->j->m, b->step), a, b);
}

/* Only the last of equal accesses is known: what one round needs, those before it may need as well,
 * with a lower value. */
static void add_each(fixes *f, vm_ck_advice how, const needs *v) {
  if (!how.again && v->n == 1) how.step = rise_before(f, &how, v);
  if (how.step <= 0) return;
  int64_t back = (how.value - 1) / how.step;
  if (back > v->round[0] - 1) back = v->round[0] - 1;
  if (back == 0) return;
  how.again = true;
  how.value -= back * how.step;
  how.round = v->round[0] - (uint32_t)back;
  if (how.round == 1) how.round = 0;
  add_fix(f, &how);
}

/* A wait for a value that rises as the rounds need it: from the first round on if it can. */
static void add_waits(fixes *f, vm_ck_advice how, int more) {
  needs v;
  const vm_ck_log *g = &f->c->check->log;
  /* Values of such a semaphore do not rise alone. */
  if (g->mixed[how.sem] || g->takers[how.sem] & ~(1u << how.engine)) return;
  find_needs(f->c, f->j, f->of, &how, more, &v);
  if (v.n == 0) return;
  how.step = rise_of(&v);
  how.again = how.step > 0;
  how.value = v.value[0];
  if (how.value <= 0) return;
  how.signals = true;
  how.stale = how.falls = how.drain = false;
  if (more == 0) how.other = NULL;
  bool takes = g->takers[how.sem] >> how.engine & 1;
  how.round = 0;
  if (takes && how.takes) {
    vm_ck_advice up = how;
    up.raise = true;
    up.again = false;
    up.value += how.waited;
    add_fix(f, &up);
  }
  if (takes && !how.again) {
    how.take = true;
    add_fix(f, &how);
    how.take = false;
  }
  /* Which of them is listed first is tried first, and told if it holds. */
  bool first = is_first(f, &v);
  if (!first && !takes) add_each(f, how, &v);
  if (!how.again) add_fix(f, &how);
  how.round = v.round[0];
  add_fix(f, &how);
  how.round = 0;
  if (first && !takes) add_each(f, how, &v);
}

/* The instructions after `first` on its engine whose signal `second` has already seen: they come
 * too early. */
static void add_relays(fixes *f, const vm_ck_advice *how, const vm_ck_signal *own) {
  const vm_ck_log *g = &f->c->check->log;
  const uint32_t *known = vm_ck_must_clock(f->j->m, how->second->step);
  unsigned n = 0;
  for (uint32_t i = 0; i < g->nupdates && n < MOST_RELAYS; i++) {
    const vm_ck_signal *u = &g->updates[i];
    /* By a sequencer's own update, which says nothing of its data path. */
    if (u->engine != how->first->engine || u->at <= how->first->at || u->ring) continue;
    if (u->comp % OF_ENGINE != OF_SEQ || known[u->comp] < u->epoch) continue;
    vm_ck_advice by = *how;
    by.relay = true;
    by.engine = u->engine;
    by.pc = u->pc;
    by.there = by.waits = false;
    by.other = NULL;
    n++;
    if (own && !g->mixed[own->sem]) {
      by.sem = own->sem;
      by.alone = !g->waiters[own->sem];
      add_waits(f, by, 0);
    } else if (how->first->queue == VM_CK_QUEUES) {
      by.drain = true;
      add_fix(f, &by);
    }
  }
}

/* The transfers after `first` that add to its semaphore before it is over, so that the value says
 * nothing of it. */
static void add_nexts(fixes *f, const vm_ck_advice *how, const vm_ck_signal *own) {
  const vm_ck_log *g = &f->c->check->log;
  uint32_t last = UINT32_MAX;
  unsigned n = 0;
  for (uint32_t i = 0; i < g->nupdates && n < MOST_RELAYS; i++) {
    const vm_ck_signal *u = &g->updates[i];
    bool same = u->pc == own->pc && u->step == own->step && u->epoch == own->epoch;
    if (!u->ring || u->sem != own->sem || u->engine != own->engine || u->at <= own->at || same ||
        u->pc == last)
      continue;
    vm_ck_advice by = *how;
    last = u->pc;
    by.next = true;
    by.engine = u->engine;
    by.pc = u->pc;
    by.there = by.waits = false;
    by.other = NULL;
    by.sem = own->sem;
    by.alone = false;
    n++;
    add_waits(f, by, 0);
  }
}

/* A semaphore of its own, and the rounds in which it is waited for: of equal accesses only the last
 * is known, so those before wait as well. */
static void add_own(fixes *f, vm_ck_advice how) {
  const vm_ck_access *from, *to;
  const struct vm_ck_judge *j = f->j;
  uint32_t last = 0, of = 0;
  const isa_insn *in = vm_ck_insn(f->c, how.first->engine, how.first->pc);
  bool here = (in->upd.core != 0) == (how.first->engine >= ISA_NSEQS);
  if (how.first->engine == VM_CK_PEER) here = true;
  bool moves = how.first->queue < VM_CK_QUEUES || how.first->engine == VM_CK_PEER;
  if (moves && in->upd.kind != ISA_UPD_none && here) return;
  how.signals = how.drain = how.again = how.take = false;
  how.round = 0;
  how.engine = how.second->engine;
  how.pc = how.second->pc;
  for (uint32_t i = 0; i < j->npairs; i++) {
    if (vm_ck_is_ordered(f->c, j, &j->pairs[i]) || !vm_ck_turn(f->c, j, f->of, &how, i, &from, &to))
      continue;
    uint32_t round = j->rounds[to->logged - 1], other = j->rounds[from->logged - 1];
    if (round < last || (round == last && other < of)) continue;
    last = round;
    of = other;
  }
  bool many = last && j->runs[how.first->logged - 1] > 1 && j->runs[how.second->logged - 1] > 1;
  how.again = many && last >= of;
  /* Rounds before the first that needs it must not wait: nothing has signalled then. */
  how.round = how.again ? last - of + 1 : many ? last : 0;
  how.step = how.again;
  add_fix(f, &how);
}

/* Waits for each update that tells of `first`: for its value; more: for more, up to all. */
static void add_signals(fixes *f, const vm_ck_advice *base, const vm_ck_signal *const *u,
                        unsigned n, bool more) {
  for (unsigned i = 0; i < n; i++) {
    vm_ck_advice by;
    vm_ck_advise_by(f->c, f->j->m, u[i], base, &by);
    by.sem = u[i]->sem;
    if (!more) add_waits(f, by, 0);
    for (int k = 1; more && k <= MOST_MORE; k++) add_waits(f, by, k < MOST_MORE ? k : -1);
  }
}

static void list_fixes(fixes *f, const vm_ck_advice *base) {
  const vm_core *c = f->c;
  const vm_ck_signal *u[VM_CK_SIGNALS], *any[VM_CK_SIGNALS], *own = NULL;
  unsigned n = vm_ck_signals(c, f->j->m, base->first, base->second, false, u);
  unsigned all = vm_ck_signals(c, f->j->m, base->first, base->second, true, any);
  for (unsigned i = 0; i < n && !own; i++)
    if (u[i]->engine == base->first->engine) own = u[i];
  vm_ck_advice drained = *base;
  drained.drain = base->first->queue == VM_CK_QUEUES && base->second->queue < VM_CK_QUEUES &&
                  base->first->engine == base->second->engine;
  drained.signals = drained.stale = false;
  if (!base->drain) {
    add_signals(f, base, u, n, false);
    add_signals(f, base, any, all, false);
  }
  if (drained.drain) add_fix(f, &drained);
  vm_ck_advice plain = *base;
  plain.signals = plain.stale = plain.falls = plain.drain = false;
  add_relays(f, &plain, own);
  add_signals(f, base, u, n, true);
  if (own && own->ring && own->engine < VM_CK_ENGINES && !c->check->log.mixed[own->sem])
    add_nexts(f, &plain, own);
  add_own(f, *base);
}

uint32_t vm_ck_list_fixes(const vm_core *c, struct vm_ck_judge *j, const cause *s,
                          const vm_ck_advice *base, vm_ck_advice *out) {
  fixes f = {.c = c, .j = j, .of = s, .v = out};
  list_fixes(&f, base);
  return f.n;
}
