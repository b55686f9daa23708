/* What the log shows: pairs of accesses that nothing orders, with one finding for each cause. When
 * a pair is found, the order that its fix would make is assumed; what that orders as well needs no
 * finding of its own. The surest causes come first. */
#include "check.h"
#include "judge.h"

#include <string.h>

enum {
  MOST_PAIRS = 1 << 13,
  MOST_CAUSES = 1 << 11,
  MOST_ADVISED = 32,   /* causes that are compared each time */
  MOST_ASSUMED = 24,   /* after so many causes the rest is reported as it is */
  MOST_LATER = 32,     /* pairs that are asked whether a wait has to rise */
  MOST_ROUNDS = 256,   /* pairs of one cause whose order is assumed */
  MOST_TRIES = 200,    /* assumptions that are tried to find the one that explains the most */
  MOST_LOOKS = 1 << 26 /* updates and steps that are looked at for these */
};

typedef struct pair { /* numbers in the log */
  uint32_t old, a;
  uint32_t cause;
} pair;
typedef struct cause { /* two places */
  uint64_t key;
  uint32_t pair, other; /* the pair that represents it; the first with its places the other way
                           round */
  uint32_t last, n;     /* the last pair, how many there are */
  bool done, both;      /* both: there is one the other way round */
} cause;

struct vm_ck_judge {
  vm_ck_must *m, *run;
  pair *pairs;
  cause *causes;
  uint32_t npairs, ncauses;
  uint32_t *rounds, *runs; /* of each access: the round of its instruction, of how many */
  int32_t tries;           /* causes that are left */
  uint64_t looks;
  bool failed;                   /* out of memory */
  uint32_t before;               /* findings that were there before */
  uint32_t at;                   /* the replay's place */
  uint32_t until[VM_CK_ENGINES]; /* the last place of each engine */
};

static const vm_ck_access *access_of(const vm_core *c, uint32_t number) {
  return &c->check->log.accesses[number - 1];
}

/* ---- Pairs --------------------------------------------------------------------------------- */

static uint64_t place(const vm_ck_access *a) { return (uint64_t)a->engine << 28 | a->pc; }

/* One for each two places, whichever comes first. */
static uint64_t key_of(const vm_ck_access *a, const vm_ck_access *b) {
  uint64_t x = place(a), y = place(b);
  return x < y ? x << 32 | y : y << 32 | x;
}

static void add_pair(struct vm_ck_judge *j, const vm_ck_access *old, const vm_ck_access *a) {
  uint64_t key = key_of(old, a);
  uint32_t i = 0;
  while (i < j->ncauses && j->causes[i].key != key) i++;
  if (j->npairs == MOST_PAIRS || i == MOST_CAUSES) return;
  if (i == j->ncauses) j->causes[j->ncauses++] = (cause){.key = key};
  j->pairs[j->npairs++] = (pair){old->logged, a->logged, i};
}

static void put_access(const vm_core *c, const vm_ck_access *a, isa_buf *out);
static void put_advice(const vm_core *c, const vm_ck_advice *how, vm_finding *f);
static void begin_text(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                       vm_finding *f);

void vm_ck_judge_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a) {
  struct vm_ck_judge *j = c->check->judge;
  if (j && old->logged && a->logged) {
    if (!vm_ck_mixed_apart(vm_ck_must_mixed(j->m), j->m, old, a)) add_pair(j, old, a);
    return;
  }
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, a->engine, a->pc, old->engine, old->pc);
  if (!f) return;
  unsigned sem;
  int64_t value, waited;
  vm_ck_advice how = {.first = old, .second = a};
  begin_text(c, old, a, f);
  how.drain = old->comp < c->check->rings && a->queue < VM_CK_QUEUES && old->engine == a->engine;
  how.signals = vm_ck_clocks_signal(c, old->comp, old->epoch, &sem, &value) && value > 0 &&
                (sem >= ISA_NSEMS) == (a->engine >= ISA_NENGINES);
  if (how.signals) {
    waited = vm_ck_clocks_waited(c, a->engine, sem);
    how = (vm_ck_advice){.first = old,
                         .second = a,
                         .signals = true,
                         .value = waited >= value ? vm_ck_clocks_total(c, sem) : value,
                         .waits = waited >= 0,
                         .waited = waited,
                         .waited_pc = a->pc,
                         .sem = (uint16_t)sem};
  }
  if (!(a->transfer && a->transfer == old->transfer)) put_advice(c, &how, f);
}

void vm_ck_judge_floor(const vm_core *c, uint32_t *floor) {
  const struct vm_check *k = c->check;
  const struct vm_ck_judge *j = k->judge;
  const vm_ck_log *g = &k->log;
  uint32_t now[VM_CK_ENGINES] = {0};
  for (unsigned e = 0; e < c->check->nengines; e++) now[e] = UINT32_MAX;
  for (uint32_t i = 0; i < g->nsteps && g->steps[i].at <= j->at; i++)
    if (g->steps[i].kind != VM_CK_QUEUE) now[g->steps[i].engine] = i;
  memset(floor, 0xff, k->ncomps * sizeof *floor);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    if (j->until[e] <= j->at || now[e] == UINT32_MAX) continue;
    const uint32_t *clock = vm_ck_must_clock(j->m, now[e]);
    for (uint32_t i = 0; i < k->ncomps; i++)
      if (clock[i] < floor[i]) floor[i] = clock[i];
  }
}

static void replay(vm_core *c, struct vm_ck_judge *j) {
  struct vm_check *k = c->check;
  vm_ck_log *g = &k->log;
  vm_ck_race_forget(c);
  k->prune_at = 1024;
  for (uint32_t i = 0; i < g->naccesses; i++) j->until[g->accesses[i].engine] = g->accesses[i].at;
  for (uint32_t i = 0; i < g->naccesses; i++) {
    vm_ck_access a = g->accesses[i];
    k->view = vm_ck_must_clock(j->m, a.step);
    j->at = a.at;
    vm_ck_race_look(c, &a);
  }
  k->view = NULL;
}

/* ---- Causes -------------------------------------------------------------------------------- */

static bool is_ordered(const vm_core *c, const struct vm_ck_judge *j, const pair *p) {
  const vm_ck_access *x = access_of(c, p->old), *y = access_of(c, p->a);
  return vm_ck_race_known(vm_ck_must_clock(j->m, y->step), x, y) ||
         vm_ck_race_known(vm_ck_must_clock(j->m, x->step), y, x);
}

static bool is_same_way(const vm_core *c, const pair *x, const pair *y) {
  return place(access_of(c, x->old)) == place(access_of(c, y->old));
}

/* Counts the pairs of each cause that is left; returns how many causes have no pairs any more. */
static uint32_t explained(const vm_core *c, struct vm_ck_judge *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->ncauses; i++) j->causes[i].n = j->causes[i].both = 0;
  for (uint32_t i = 0; i < j->npairs; i++) {
    cause *s = &j->causes[j->pairs[i].cause];
    if (s->done || is_ordered(c, j, &j->pairs[i])) continue;
    if (s->n++ == 0) s->pair = i;
    s->last = i;
    if (s->both || is_same_way(c, &j->pairs[s->pair], &j->pairs[i])) continue;
    s->other = i;
    s->both = true;
  }
  for (uint32_t i = 0; i < j->ncauses; i++) n += !j->causes[i].done && j->causes[i].n == 0;
  return n;
}

/* The order of an advice for pair i, in a round where its accesses are equally far apart; false:
 * they are not. */
static bool turn(const vm_core *c, const struct vm_ck_judge *j, const vm_ck_advice *how, uint32_t i,
                 const vm_ck_access **from, const vm_ck_access **to) {
  const uint32_t *round = j->rounds;
  uint32_t apart = round[how->second->logged - 1] - round[how->first->logged - 1];
  for (unsigned turned = 0; turned < 2; turned++) {
    *from = access_of(c, turned ? j->pairs[i].a : j->pairs[i].old);
    *to = access_of(c, turned ? j->pairs[i].old : j->pairs[i].a);
    if (place(*from) == place(how->first) &&
        round[(*to)->logged - 1] - round[(*from)->logged - 1] == apart)
      return true;
  }
  return false;
}

/* Orders to assume, each with the update that a wait for it would see. */
typedef struct order {
  const vm_ck_access *from, *to;
  const vm_ck_signal *by;
} order;

/* The orders of one pair for all with the same places, in each round. */
static uint32_t find_orders(const vm_core *c, struct vm_ck_judge *j, const cause *s,
                            const vm_ck_advice *how, order *out) {
  const vm_ck_log *g = &c->check->log;
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->npairs && n < MOST_ROUNDS; i++) {
    order *o = &out[n], *last = n ? o - 1 : NULL;
    if (&j->causes[j->pairs[i].cause] != s || !turn(c, j, how, i, &o->from, &o->to)) continue;
    bool same = last && o->from->queue == last->from->queue &&
                o->from->engine == last->from->engine && o->from->epoch == last->from->epoch &&
                o->to->pc == last->to->pc && o->to->epoch == last->to->epoch;
    if (same) continue;
    bool look = how->signals && !how->stale && j->looks < MOST_LOOKS;
    o->by = look ? vm_ck_signal_of(c, j->m, o->from, o->to) : NULL;
    if (look) j->looks += g->nupdates + g->nsteps;
    n++;
  }
  return n;
}

static bool assume(vm_core *c, struct vm_ck_judge *j, const cause *s, const vm_ck_advice *how) {
  order orders[MOST_ROUNDS];
  uint32_t n = find_orders(c, j, s, how, orders);
  for (uint32_t i = 0; i < n; i++)
    if (!vm_ck_must_assume(c, orders[i].from, orders[i].to, orders[i].by)) j->failed = true;
  j->failed = j->failed || !vm_ck_must_solve(c, j->m);
  return !j->failed;
}

/* ---- Trials -------------------------------------------------------------------------------- */

/* What an assumption changes of the log. */
typedef struct state {
  uint32_t nsteps, *step; /* of each step, update and access */
} state;

static size_t places_of(const vm_ck_log *g, uint32_t nsteps) {
  return 2 * (size_t)nsteps + g->nupdates + g->naccesses + 1;
}

static bool save_state(vm_core *c, state *s) {
  const vm_ck_log *g = &c->check->log;
  s->nsteps = g->nsteps;
  s->step = isa_zalloc(&c->al, places_of(g, s->nsteps) * sizeof *s->step);
  uint32_t *to = s->step;
  for (uint32_t i = 0; to && i < g->nsteps; i++) {
    *to++ = g->steps[i].prev;
    *to++ = g->steps[i].other;
  }
  for (uint32_t i = 0; to && i < g->nupdates; i++) *to++ = g->updates[i].step;
  for (uint32_t i = 0; to && i < g->naccesses; i++) *to++ = g->accesses[i].step;
  return to != NULL;
}

static void restore_state(vm_core *c, const state *s) {
  vm_ck_log *g = &c->check->log;
  const uint32_t *from = s->step;
  g->nsteps = s->nsteps;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    g->steps[i].prev = *from++;
    g->steps[i].other = *from++;
  }
  for (uint32_t i = 0; i < g->nupdates; i++) g->updates[i].step = *from++;
  for (uint32_t i = 0; i < g->naccesses; i++) g->accesses[i].step = *from++;
}

static void free_state(vm_core *c, const state *s) {
  isa_free(&c->al, s->step, places_of(&c->check->log, s->nsteps) * sizeof *s->step);
}

/* How many causes stay unexplained by the order that is advised for one; a circle leaves more than
 * all of them. */
static uint32_t try_cause(vm_core *c, struct vm_ck_judge *j, const state *s, const cause *at,
                          const vm_ck_advice *how) {
  uint32_t left = UINT32_MAX;
  if (assume(c, j, at, how) && !vm_ck_must_stuck(j->m)) left = j->ncauses - explained(c, j);
  restore_state(c, s);
  return left;
}

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

/* The cause that explains the most, of those that are equally sure; NULL: none is left. */
static cause *next_cause(vm_core *c, struct vm_ck_judge *j, const state *s, vm_ck_advice *best) {
  option options[MOST_ADVISED];
  j->failed = j->failed || !vm_ck_must_solve(c, j->run);
  if (j->failed) return NULL;
  uint32_t n = find_options(c, j, options);
  const option *found = NULL;
  bool tries = n > 1 && j->tries > 0;
  for (uint32_t i = 0; i < n && !j->failed; i++) {
    option *o = &options[i];
    o->left = tries ? try_cause(c, j, s, o->of, &o->how) : 0;
    j->tries -= tries;
    if (!found || is_better(o, found)) found = o;
  }
  if (tries) j->failed = j->failed || !vm_ck_must_solve(c, j->m);
  if (j->failed || !found) return NULL;
  found->of->pair = found->pair;
  *best = found->how;
  return found->of;
}

/* ---- Findings ------------------------------------------------------------------------------ */

static uint32_t round_of(const vm_core *c, const vm_ck_access *a) {
  const struct vm_ck_judge *j = c->check->judge;
  return j && a->logged && j->runs[a->logged - 1] > 1 ? j->rounds[a->logged - 1] : 0;
}

static const char *does(const vm_ck_access *a) {
  return a->writes ? "writes" : a->handed ? "hands over" : "reads";
}

static bool is_pipe(const vm_core *c, const vm_ck_access *a) {
  return c->check->regions[a->region].space == 0;
}

static void put_access(const vm_core *c, const vm_ck_access *a, isa_buf *out) {
  vm_ck_put_round(c, a->engine, a->pc, round_of(c, a), a->time, out);
  if (is_pipe(c, a)) return;
  isa_buf_printf(out, "\n    %s ", does(a));
  vm_ck_put_bytes(c, &c->check->regions[a->region], a, out);
  if (a->queue < VM_CK_QUEUES) isa_buf_printf(out, ", ring %u", a->ring);
}

/* Elements of one transfer that meet in different rings, by an index that names a row twice. */
static void put_twice(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                      isa_buf *out) {
  vm_ck_put_who(c, a, out);
  isa_buf_printf(out, " %s bytes in ring %u that its ring %u %s, and nothing orders the two",
                 a->writes ? "writes" : "reads", a->ring, old->ring,
                 old->writes ? "writes" : "reads");
  put_access(c, old, out);
  put_access(c, a, out);
  isa_buf_puts(out,
               "\n  fix: let the index vector name each row only once, or use a queue of one ring");
}

static void put_pipe(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                     isa_buf *out) {
  vm_ck_put_who(c, a, out);
  isa_buf_puts(out, " and ");
  vm_ck_put_who(c, old, out);
  isa_buf_printf(out,
                 " use pipe %d, and nothing orders the two: the other core meets whichever "
                 "comes first",
                 (int)a->set.start);
}

static void put_advice(const vm_core *c, const vm_ck_advice *how, vm_finding *f) {
  vm_ck_put_advice(c, how, f);
  if (is_pipe(c, how->first)) isa_buf_puts(&f->text, "; or one of the two takes another pipe");
}

static void begin_text(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                       vm_finding *f) {
  f->other_time = old->time;
  f->memory = (uint16_t)(a->region + 1);
  vm_ck_put_place(c, a->engine, a->pc, &f->text);
  isa_buf_puts(&f->text, ": race: ");
  if (a->transfer && a->transfer == old->transfer) {
    put_twice(c, old, a, &f->text);
    return;
  }
  if (is_pipe(c, a)) {
    put_pipe(c, old, a, &f->text);
  } else {
    vm_ck_put_who(c, a, &f->text);
    isa_buf_printf(&f->text, " %s what ", does(a));
    vm_ck_put_who(c, old, &f->text);
    isa_buf_printf(&f->text, " %s, and nothing orders the two%s", old->writes ? "writes" : "reads",
                   a->queue < VM_CK_QUEUES && a->queue == old->queue
                       ? ": each ring of a queue runs by itself"
                       : "");
  }
  put_access(c, old, &f->text);
  put_access(c, a, &f->text);
}

/* Whether what waits also waits in a later round, for a higher value. */
static bool is_later(const struct vm_ck_judge *j, const vm_ck_advice *how,
                     const vm_ck_advice *later) {
  return later->signals && later->sem == how->sem && later->value > how->value &&
         place(later->second) == place(how->second) &&
         j->rounds[later->second->logged - 1] > how->round &&
         (later->waited == how->waited || !how->there);
}

/* Whether the pair needs its wait in each round, and by how much the value to wait for rises. */
static void find_rise(const vm_core *c, const struct vm_ck_judge *j, const cause *s,
                      vm_ck_advice *how) {
  const vm_ck_log *g = &c->check->log;
  vm_ck_advice later;
  uint32_t left = MOST_LATER;
  how->round = j->rounds[how->second->logged - 1];
  if (!how->signals || how->stale || g->takers[how->sem] || g->mixed[how->sem]) return;
  for (uint32_t i = j->npairs; i-- > 0 && left > 0 && !how->again;) {
    const pair *p = &j->pairs[i];
    const vm_ck_access *from, *to;
    if (&j->causes[p->cause] != s || is_ordered(c, j, p) || !turn(c, j, how, i, &from, &to))
      continue;
    vm_ck_advise_order(c, j->m, from, to, &later);
    how->again = is_later(j, how, &later);
    left--;
  }
  if (!how->again) return;
  int64_t n = (int64_t)j->rounds[later.second->logged - 1] - how->round;
  int64_t rise = later.value - how->value;
  how->step = rise % n == 0 ? rise / n : 0;
}

static vm_finding *add_finding(vm_core *c, struct vm_ck_judge *j, const cause *s,
                               vm_ck_advice *how) {
  const pair *p = &j->pairs[s->pair];
  const vm_ck_access *old = access_of(c, p->old), *a = access_of(c, p->a);
  bool twice = a->transfer && a->transfer == old->transfer;
  if (!twice) { /* what should have waited is what is wrong */
    old = how->first;
    a = how->second;
  }
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, a->engine, a->pc, old->engine, old->pc);
  if (!f) return NULL;
  find_rise(c, j, s, how);
  /* Of equal accesses only the last is known: rounds that are far apart are not the first ones. */
  if (how->round > j->rounds[how->first->logged - 1] + 1) how->round = 0;
  begin_text(c, old, a, f);
  f->time = a->time;
  if (!twice) put_advice(c, how, f);
  return f;
}

/* Whether a finding is explained by what is in order now. */
static bool is_explained(const void *ud, const vm_finding *f) {
  const vm_core *c = ud;
  const struct vm_ck_judge *j = c->check->judge;
  for (uint32_t i = 0; i < j->npairs; i++)
    for (unsigned turned = 0; turned < 2; turned++) {
      const vm_ck_access *w = access_of(c, turned ? j->pairs[i].a : j->pairs[i].old);
      const vm_ck_access *r = access_of(c, turned ? j->pairs[i].old : j->pairs[i].a);
      if (vm_ck_explains(c, f, w, r) && vm_ck_race_known(vm_ck_must_clock(j->m, r->step), w, r))
        return true;
    }
  return false;
}

/* Removes reads of unwritten bytes that have the same cause; returns the finding's new place. */
static vm_finding *merge_reads(vm_core *c, struct vm_ck_judge *j, vm_finding *f) {
  struct vm_check *k = c->check;
  uint32_t n = k->nfindings, at = f ? (uint32_t)(f - k->findings) : 0;
  if (!f) return NULL;
  vm_ck_take_back(c, is_explained, c);
  n -= k->nfindings; /* all of them came before */
  j->before -= n;
  f = &k->findings[at - n];
  if (n)
    isa_buf_puts(&f->text,
                 "\n  in this run the read came first: nothing had written the bytes yet");
  return f;
}

static void report_causes(vm_core *c, struct vm_ck_judge *j, state *s) {
  vm_ck_advice how;
  cause *at;
  explained(c, j);
  for (unsigned n = 0; (at = next_cause(c, j, s, &how)) != NULL; n++) {
    bool twice = how.first->transfer && how.first->transfer == how.second->transfer;
    vm_finding *f = add_finding(c, j, at, &how);
    if (f) f->rank = (uint8_t)how.rank;
    bool stuck = n >= MOST_ASSUMED || twice || !assume(c, j, at, &how) || vm_ck_must_stuck(j->m);
    at->done = true;
    if (j->failed) return;
    if (stuck) {
      restore_state(c, s);
      j->failed = !vm_ck_must_solve(c, j->m);
      continue;
    }
    f = merge_reads(c, j, f);
    uint32_t more = explained(c, j);
    for (uint32_t i = 0; i < j->ncauses; i++) j->causes[i].done |= j->causes[i].n == 0;
    free_state(c, s);
    if (f && more)
      isa_buf_printf(&f->text, "\n  this also orders %u more pair%s of places", more,
                     more > 1 ? "s" : "");
    j->failed = !save_state(c, s);
    if (j->failed) return;
  }
}

/* How an instruction makes an access: its executions are numbered separately for each. */
enum { BY_TRANSFER, BY_SEQUENCER, BY_DATA_PATH, WAYS };
static unsigned way_of(const vm_ck_access *a) {
  if (a->transfer) return BY_TRANSFER;
  return a->comp % OF_ENGINE == OF_SEQ ? BY_SEQUENCER : BY_DATA_PATH;
}

/* The round of the instruction of each access. */
static bool count_rounds(vm_core *c, struct vm_ck_judge *j) {
  const vm_ck_log *g = &c->check->log;
  j->rounds = isa_zalloc(&c->al, (g->naccesses + 1) * sizeof *j->rounds);
  j->runs = isa_zalloc(&c->al, (g->naccesses + 1) * sizeof *j->runs);
  bool ok = j->rounds && j->runs;
  for (unsigned e = 0; e < c->check->nengines && ok; e++) {
    uint32_t n = vm_ck_code(c, e)->n * WAYS;
    uint32_t *count = isa_zalloc(&c->al, 2 * (n + 1) * sizeof *count), *last = count + n;
    ok = count != NULL;
    for (uint32_t i = 0; ok && i < g->naccesses; i++) {
      const vm_ck_access *a = &g->accesses[i];
      uint32_t which = (a->transfer ? a->transfer : a->epoch) + 1, at = a->pc * WAYS + way_of(a);
      if (a->engine != e) continue;
      if (last[at] != which) count[at]++;
      last[at] = which;
      j->rounds[i] = count[at];
    }
    for (uint32_t i = 0; ok && i < g->naccesses; i++)
      if (g->accesses[i].engine == e)
        j->runs[i] = count[g->accesses[i].pc * WAYS + way_of(&g->accesses[i])];
    isa_free(&c->al, count, 2 * (n + 1) * sizeof *count);
  }
  return ok;
}

/* Findings from `first` on go before the others, the surest first; those that only show that a
 * semaphore is used for too much stay at the end. */
static void to_front(struct vm_check *k, uint32_t first) {
  uint32_t moved = 0;
  for (uint32_t i = first; i < k->nfindings; i++) {
    vm_finding f = k->findings[i];
    uint32_t to = 0;
    if (f.rank >= VM_CK_UNSURE) continue;
    while (to < moved && k->findings[to].rank <= f.rank) to++;
    memmove(&k->findings[to + 1], &k->findings[to], (i - to) * sizeof f);
    k->findings[to] = f;
    moved++;
  }
}

static void judge(vm_core *c, struct vm_ck_judge *j) {
  struct vm_check *k = c->check;
  state s = {0}, before = {0}; /* the log stays as it was */
  k->judge = j;
  vm_ck_judge_waits(c, j->m);
  j->before = k->nfindings;
  replay(c, j);
  if (j->ncauses) j->run = vm_ck_must_new(c, true);
  if (j->ncauses)
    j->failed = !j->run || !count_rounds(c, j) || !save_state(c, &before) || !save_state(c, &s);
  if (j->ncauses && !j->failed) report_causes(c, j, &s);
  if (before.step) restore_state(c, &before);
  if (before.step) free_state(c, &before);
  if (s.step) free_state(c, &s);
  isa_free(&c->al, j->rounds, j->rounds ? (k->log.naccesses + 1) * sizeof *j->rounds : 0);
  isa_free(&c->al, j->runs, j->runs ? (k->log.naccesses + 1) * sizeof *j->runs : 0);
  k->judge = NULL;
  k->judged = k->log.at;
  to_front(k, j->before);
}

void vm_ck_judge(vm_core *c) {
  struct vm_check *k = c->check;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !k->log.on || k->judge || k->judged == k->log.at) return;
  if (!k->suspect) {
    k->judged = k->log.at;
    return;
  }
  struct vm_ck_judge j = {.tries = MOST_TRIES};
  j.pairs = isa_zalloc(&c->al, MOST_PAIRS * sizeof *j.pairs);
  j.causes = isa_zalloc(&c->al, MOST_CAUSES * sizeof *j.causes);
  j.m = vm_ck_must_new(c, false);
  j.failed = !j.pairs || !j.causes || !j.m || !vm_ck_must_solve(c, j.m);
  if (!j.failed) judge(c, &j);
  vm_ck_must_free(c, j.m);
  vm_ck_must_free(c, j.run);
  isa_free(&c->al, j.pairs, MOST_PAIRS * sizeof *j.pairs);
  isa_free(&c->al, j.causes, MOST_CAUSES * sizeof *j.causes);
  if (!j.failed) return;
  k->judged = k->log.at;
  vm_ck_out_of_memory(c);
}
