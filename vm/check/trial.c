/* Fixes are tried on the log before they are told: the waits that a fix asks for are put into it,
 * and then the pairs of the cause must be in order, and each wait of the run must still end. Of the
 * fixes of one cause the one that leaves the fewest causes is taken, and of all causes the one
 * whose fix does. If no wait for what is signalled today holds, a semaphore of its own does. */
#include "trial.h"
#include "check.h"

#include <string.h>

enum {
  MOST_ROUNDS = 1 << 12, /* executions of the instruction that has to wait */
  MOST_LOOKS = 1 << 28,  /* steps and components that are looked at for all trials */
};
#define FAILS UINT32_MAX

/* ---- The log ------------------------------------------------------------------------------ */

static size_t places_of(const vm_ck_log *g, uint32_t nsteps) {
  /* Two numbers for each step, one for each update and access. */
  return 2 * (size_t)nsteps + g->nupdates + g->naccesses + 1;
}

bool vm_ck_save(vm_core *c, vm_ck_state *s) {
  const vm_ck_log *g = &c->check->log;
  s->nsteps = g->nsteps;
  s->step = isa_zalloc(&c->al, places_of(g, s->nsteps) * sizeof *s->step);
  s->want = isa_zalloc(&c->al, (s->nsteps + 1) * sizeof *s->want);
  if (!s->step || !s->want) {
    vm_ck_forget(c, s);
    *s = (vm_ck_state){0};
    return false;
  }
  /* Only the links change in a trial: all else of the log stays. */
  uint32_t *to = s->step;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    *to++ = g->steps[i].prev;
    *to++ = g->steps[i].other;
    s->want[i] = g->steps[i].want;
  }
  for (uint32_t i = 0; i < g->nupdates; i++) *to++ = g->updates[i].step;
  for (uint32_t i = 0; i < g->naccesses; i++) *to++ = g->accesses[i].step;
  return true;
}

void vm_ck_restore(vm_core *c, const vm_ck_state *s) {
  vm_ck_log *g = &c->check->log;
  const uint32_t *from = s->step;
  /* Steps that a trial has added are beyond. */
  g->nsteps = s->nsteps;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    g->steps[i].prev = *from++;
    g->steps[i].other = *from++;
    g->steps[i].want = s->want[i];
  }
  for (uint32_t i = 0; i < g->nupdates; i++) g->updates[i].step = *from++;
  for (uint32_t i = 0; i < g->naccesses; i++) g->accesses[i].step = *from++;
}

void vm_ck_forget(vm_core *c, const vm_ck_state *s) {
  if (s->step) isa_free(&c->al, s->step, places_of(&c->check->log, s->nsteps) * sizeof *s->step);
  if (s->want) isa_free(&c->al, s->want, (s->nsteps + 1) * sizeof *s->want);
}

/* ---- Causes -------------------------------------------------------------------------------- */

bool vm_ck_is_ordered(const vm_core *c, const struct vm_ck_judge *j, const pair *p) {
  const vm_ck_access *x = access_of(c, p->old), *y = access_of(c, p->a);
  return vm_ck_race_known(vm_ck_must_clock(j->m, y->step), x, y) ||
         vm_ck_race_known(vm_ck_must_clock(j->m, x->step), y, x);
}

static bool is_same_way(const vm_core *c, const pair *x, const pair *y) {
  return place(access_of(c, x->old)) == place(access_of(c, y->old));
}

uint32_t vm_ck_explained(const vm_core *c, struct vm_ck_judge *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->ncauses; i++) j->causes[i].n = j->causes[i].both = 0;
  for (uint32_t i = 0; i < j->npairs; i++) {
    cause *s = &j->causes[j->pairs[i].cause];
    if (s->done || vm_ck_is_ordered(c, j, &j->pairs[i])) continue;
    /* The first pair that is not in order stands for its cause. */
    if (s->n++ == 0) s->pair = i;
    /* The first pair that goes the other way round is kept, too. */
    if (s->both || is_same_way(c, &j->pairs[s->pair], &j->pairs[i])) continue;
    s->other = i;
    s->both = true;
  }
  for (uint32_t i = 0; i < j->ncauses; i++) n += !j->causes[i].done && j->causes[i].n == 0;
  return n;
}

/* How many causes have pairs that are not in order. */
static uint32_t left_over(const vm_core *c, struct vm_ck_judge *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->ncauses; i++) j->causes[i].mark = false;
  for (uint32_t i = 0; i < j->npairs; i++) {
    cause *s = &j->causes[j->pairs[i].cause];
    if (s->done || s->mark || vm_ck_is_ordered(c, j, &j->pairs[i])) continue;
    s->mark = true;
    n++;
  }
  return n;
}

bool vm_ck_turn(const vm_core *c, const struct vm_ck_judge *j, const cause *s,
                const vm_ck_advice *how, uint32_t i, const vm_ck_access **from,
                const vm_ck_access **to) {
  const uint32_t *round = j->rounds;
  /* The pairs of one mistake are the same number of rounds apart. */
  uint32_t apart = round[how->second->logged - 1] - round[how->first->logged - 1];
  if (&j->causes[j->pairs[i].cause] != s) return false;
  for (unsigned turned = 0; turned < 2; turned++) {
    *from = access_of(c, turned ? j->pairs[i].a : j->pairs[i].old);
    *to = access_of(c, turned ? j->pairs[i].old : j->pairs[i].a);
    if (place(*from) == place(how->first) &&
        (!s->both || round[(*to)->logged - 1] - round[(*from)->logged - 1] == apart))
      return true;
  }
  return false;
}

/* ---- Putting a fix into the log ------------------------------------------------------------- */

/* Where each execution of the instruction that has to wait begins. */
static uint32_t find_spots(const vm_core *c, const struct vm_ck_judge *j, const vm_ck_advice *how,
                           vm_ck_spot *out) {
  const vm_ck_log *g = &c->check->log;
  uint32_t n = 0, last = 0;
  for (uint32_t i = 0; how->relay && i < g->nupdates && n < MOST_ROUNDS; i++) {
    /* A signal of first's engine that comes too early: its rounds. */
    const vm_ck_signal *u = &g->updates[i];
    if (u->engine == how->engine && u->pc == how->pc) out[n++] = (vm_ck_spot){.update = u};
  }
  for (uint32_t i = 0; !how->relay && i < g->naccesses && n < MOST_ROUNDS; i++) {
    const vm_ck_access *a = &g->accesses[i];
    /* Each round begins with the first of its accesses. */
    if (a->engine != how->engine || a->pc != how->pc || j->rounds[i] == last) continue;
    last = j->rounds[i];
    out[n++] = (vm_ck_spot){.access = a};
  }
  return n;
}

static uint32_t place_of(const vm_ck_spot *s) { return s->access ? s->access->at : s->update->at; }

/* What the engine has taken from the semaphore before a spot. */
static int64_t taken_before(const vm_core *c, const vm_ck_advice *how, const vm_ck_spot *spot) {
  /* The value that a wait for 0 would need, negative: what was taken. */
  return -vm_ck_value_for(c, NULL, &(vm_ck_signal){.sem = how->sem}, NULL, NULL, spot, 0);
}

static bool put_wait(vm_core *c, const vm_ck_advice *how, const vm_ck_spot *spot, int64_t value,
                     int64_t taken) {
  const vm_ck_access *a = spot->access;
  int64_t want = value + taken;
  return vm_ck_must_insert(c, spot,
                           (vm_ck_step){.kind = VM_CK_WAIT,
                                        .cond = ISA_WAIT_ge,
                                        .sem = how->sem,
                                        .seq = a ? a->seq : spot->update->own[OF_SEQ],
                                        .other = a ? a->logged : 0,
                                        .value = (uint32_t)value,
                                        .want = want});
}

/* What the engine waits for later includes what it has taken. */
static void take(vm_core *c, const vm_ck_advice *how, const vm_ck_spot *spot) {
  vm_ck_log *g = &c->check->log;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    vm_ck_step *s = &g->steps[i];
    if (s->kind == VM_CK_WAIT && !s->made && s->sem == how->sem && s->engine == how->engine &&
        /* Later waits of the engine see less. */
        s->at > place_of(spot))
      s->want += how->value;
  }
}

static bool put_waits(vm_core *c, struct vm_ck_judge *j, const vm_ck_advice *how) {
  vm_ck_spot spots[MOST_ROUNDS];
  int64_t taken[MOST_ROUNDS], took = 0;
  uint32_t n = find_spots(c, j, how, spots);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) taken[i] = taken_before(c, how, &spots[i]);
  /* From the round in which the wait is needed on. */
  for (uint32_t i = how->round > 1 ? how->round - 1 : 0; i < n && ok; i++) {
    int64_t more =
        /* Rises by `step` in each round. */
        how->again ? (int64_t)(i - (how->round > 1 ? how->round - 1 : 0)) * how->step : 0;
    ok = put_wait(c, how, &spots[i], how->value + more, taken[i] + took);
    if (!how->take) continue;
    /* The wait takes what it waits for: for sums it is a wait for 0. */
    c->check->log.steps[c->check->log.nsteps - 1].value = 0; /* it is taken */
    take(c, how, &spots[i]);
    took += how->value;
  }
  /* A measure of the work, not of time: results do not depend on the host. */
  j->looks += (uint64_t)n * (c->check->log.naccesses + c->check->log.nupdates);
  return ok;
}

static bool put_drains(vm_core *c, const struct vm_ck_judge *j, const vm_ck_advice *how) {
  vm_ck_spot spots[MOST_ROUNDS];
  const vm_ck_log *g = &c->check->log;
  uint32_t n = find_spots(c, j, how, spots);
  for (uint32_t i = 0; i < n; i++) {
    const vm_ck_access *a = spots[i].access;
    uint32_t issued = 0;
    /* All that its data path had been given before this place. */
    for (uint32_t k = 0; k < g->naccesses && g->accesses[k].at < place_of(&spots[i]); k++) {
      const vm_ck_access *x = &g->accesses[k];
      bool data = x->comp < c->check->rings && x->comp % OF_ENGINE != OF_SEQ;
      if (x->engine == how->engine && data && x->epoch > issued) issued = x->epoch;
    }
    if (!vm_ck_must_insert(
            c, &spots[i],
            (vm_ck_step){.kind = VM_CK_DRAIN,
                         .seq = a ? g->steps[a->step].seq : g->steps[spots[i].update->step].seq,
                         .other = issued}))
      return false;
  }
  return true;
}

/* The order of all pairs, as a semaphore of its own would make it. */
static bool put_orders(vm_core *c, struct vm_ck_judge *j, const cause *s, const vm_ck_advice *how) {
  const vm_ck_access *from, *to, *last_from = NULL, *last_to = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->npairs && n < MOST_ROUNDS; i++) {
    if (!vm_ck_turn(c, j, s, how, i, &from, &to)) continue;
    bool same = last_from && from->queue == last_from->queue && from->epoch == last_from->epoch &&
                to->pc == last_to->pc && to->epoch == last_to->epoch;
    last_from = from;
    last_to = to;
    if (same) continue;
    vm_ck_step what = {/* As if an order of its own were there. */
                       .kind = VM_CK_ASSUME,
                       .other = from->logged - 1,
                       .seq = c->check->log.steps[to->step].seq};
    if (!vm_ck_must_insert(c, &(vm_ck_spot){.access = to}, what)) return false;
    n++;
  }
  j->looks += (uint64_t)n * (c->check->log.naccesses + c->check->log.nupdates);
  return true;
}

/* Raises a wait that takes what it waits for. */
static bool raise_takes(vm_core *c, const vm_ck_advice *how) {
  vm_ck_log *g = &c->check->log;
  int64_t more = how->value - how->waited, took = 0;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    vm_ck_step *s = &g->steps[i];
    if (s->kind != VM_CK_WAIT || s->made || s->sem != how->sem || s->engine != how->engine)
      continue;
    /* Its own wait, and what is missing after it has taken more. */
    if (s->pc == how->waited_pc) s->want += more;
    s->want += took;
    if (s->pc == how->waited_pc) took += more;
  }
  return true;
}

bool vm_ck_assume(vm_core *c, struct vm_ck_judge *j, const cause *s, const vm_ck_advice *how) {
  bool ok;
  /* No wait holds: a semaphore of its own would. */
  if (!how->tried || (!how->drain && !how->signals) || how->stale)
    ok = put_orders(c, j, s, how);
  else if (how->raise)
    ok = raise_takes(c, how);
  else
    ok = how->drain ? put_drains(c, j, how) : put_waits(c, j, how);
  /* Solved with the fix in the log. */
  j->failed = !ok || j->failed || !vm_ck_must_solve(c, j->m);
  j->looks += (uint64_t)c->check->log.nsteps * c->check->ncomps;
  return !j->failed;
}

/* How many causes a fix leaves; FAILS: it does not hold. */
static uint32_t try_fix(vm_core *c, struct vm_ck_judge *j, const vm_ck_state *state, const cause *s,
                        const vm_ck_advice *how) {
  const vm_ck_access *from, *to;
  bool holds = vm_ck_assume(c, j, s, how) && !vm_ck_must_stuck(j->m);
  /* It must order what it was made for, in every round. */
  for (uint32_t i = 0; i < j->npairs && holds; i++)
    if (vm_ck_turn(c, j, s, how, i, &from, &to))
      holds = vm_ck_race_known(vm_ck_must_clock(j->m, to->step), from, to);
  uint32_t left = holds ? left_over(c, j) : FAILS;
  /* Back to the state before this trial. */
  vm_ck_restore(c, state);
  return left;
}

/* ---- The fix of a cause ---------------------------------------------------------------------- */

/* Finds the fix of a cause that leaves the fewest causes, for one order of its two places; FAILS:
 * none holds, and *how stays. */
static uint32_t find_fix_of(vm_core *c, struct vm_ck_judge *j, const vm_ck_state *state,
                            const cause *s, vm_ck_advice *how) {
  vm_ck_advice fixes[MOST_FIXES];
  uint32_t best = FAILS;
  /* No more trials: what is known has to do. */
  if (j->looks >= MOST_LOOKS || !vm_ck_must_solve(c, j->m)) return FAILS;
  uint32_t n = vm_ck_list_fixes(c, j, s, how, fixes);
  if (n && fixes[0].signals && how->signals && !how->stale && fixes[0].sem == how->sem) {
    *how = fixes[0]; /* if none holds: the rounds are known at least */
    how->tried = false;
  }
  /* None left is the best there is. */
  for (uint32_t i = 0; i < n && best > 0 && !j->failed && j->looks < MOST_LOOKS; i++) {
    uint32_t left = try_fix(c, j, state, s, &fixes[i]);
    if (left >= best) continue;
    best = left;
    *how = fixes[i];
  }
  return best;
}

/* Whether an engine waits for the wrong thing: its own wait is what makes the semaphore do more
 * than count, and the advice is another one in its place. */
static bool waits_wrongly(const vm_core *c, const vm_ck_advice *how) {
  if (!how->signals || !how->waits || how->stale || !c->check->log.mixed[how->sem]) return false;
  unsigned cond = vm_ck_insn(c, how->second->engine, how->waited_pc)->wait.cond;
  return cond != ISA_WAIT_ge && cond != ISA_WAIT_gt;
}

/* The same; the other way round if none holds. */
static uint32_t find_fix(vm_core *c, struct vm_ck_judge *j, const vm_ck_state *state,
                         const cause *s, vm_ck_advice *how) {
  /* The waiting is on the other side. */
  if (how->second->engine == VM_CK_PEER) return FAILS; /* nothing here can hold it back */
  if (waits_wrongly(c, how)) return try_fix(c, j, state, s, how);
  vm_ck_advice turned = {
      .rank = how->rank, .first = how->second, .second = how->first, .early = !how->second->writes};
  uint32_t left = find_fix_of(c, j, state, s, how);
  bool once = how->enough || how->unwritten || turned.second->engine == VM_CK_PEER;
  if (left != FAILS || once) return left;
  left = find_fix_of(c, j, state, s, &turned);
  if (left != FAILS) *how = turned;
  return left;
}

/* ---- The best of all ------------------------------------------------------------------------ */

/* Advice for one pair of a cause that is left. */
typedef struct option {
  cause *of;
  uint32_t pair, left; /* left: the causes that it leaves unexplained */
  vm_ck_advice how;
} option;

static uint32_t find_options(const vm_core *c, struct vm_ck_judge *j, option *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->ncauses; i++) {
    cause *s = &j->causes[i];
    /* Advice for one order, and for the other if pairs go both ways. */
    unsigned most = s->both ? 1 : 0;
    for (unsigned other = 0; other <= most && !s->done && n < MOST_ADVISED; other++) {
      option *o = &out[n++];
      *o = (option){.of = s, .pair = other ? s->other : s->pair};
      const pair *p = &j->pairs[o->pair];
      vm_ck_advise(c, j->m, j->run, access_of(c, p->old), access_of(c, p->a), &o->how);
    }
  }
  return n;
}

/* A wait whose value is high enough, except for updates that come too early, is a consequence. */
static bool is_better(const option *a, const option *b) {
  if (a->how.enough != b->how.enough) return b->how.enough;
  if (a->left != b->left) return a->left < b->left;
  if (a->how.rank != b->how.rank) return a->how.rank < b->how.rank;
  return a->how.second->at < b->how.second->at;
}

cause *vm_ck_next_cause(vm_core *c, struct vm_ck_judge *j, const vm_ck_state *s,
                        vm_ck_advice *best) {
  option options[MOST_ADVISED];
  j->failed = j->failed || !vm_ck_must_solve(c, j->run);
  if (j->failed) return NULL;
  uint32_t n = find_options(c, j, options);
  const option *found = NULL;
  for (uint32_t i = 0; i < n && !j->failed; i++) {
    option *o = &options[i];
    o->left = find_fix(c, j, s, o->of, &o->how);
    if (!found || is_better(o, found)) found = o;
  }
  /* With the fixes of earlier causes only. */
  j->failed = j->failed || !vm_ck_must_solve(c, j->m);
  if (j->failed || !found) return NULL;
  found->of->pair = found->pair;
  *best = found->how;
  /* Nothing can be waited for, but a semaphore of its own was tried and holds. */
  if (best->tried && best->rank >= VM_CK_UNSURE) best->rank = VM_CK_OWN;
  return found->of;
}
