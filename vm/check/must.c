/* What has happened before each step of the log under every legal timing.
 *
 * What an engine knows at a wait on a semaphore that only counts: an event has happened if, without
 * it and all that needs it, the increments that can still come do not add up to the value. For each
 * component that is the least epoch such that the updates whose own clocks have no more of it add
 * up to the value: an order statistic of the clocks of the updates. An update that can only come
 * after the wait knows more than the wait itself, and so cannot lower it. The clocks are the
 * greatest that agree with one another: they begin as if nothing ever came, and fall until nothing
 * changes.
 *
 * In the run itself, a wait has seen the updates in the order in which they were started, up to its
 * value: this is what its author had in mind, even if few of them are certain. */
#include "check.h"
#include "judge.h"
#include "meet.h"

#include <string.h>

enum { MOST_PASSES = 64 };
#define NEVER UINT32_MAX

typedef struct group { /* updates of one source to one semaphore, in order */
  uint32_t first, n;   /* in `sorted` */
} group;
typedef struct candidate {
  const vm_ck_signal *u;
  const uint32_t *clock;
} candidate;

struct vm_ck_must {
  const vm_core *c;
  const struct vm_check *k;
  const vm_ck_log *g;
  uint32_t n;              /* components, with those of arrivals (mixed.c) */
  uint32_t *clocks, *mine; /* of each step; of the one that was found */
  bool *never;             /* steps that cannot come */
  uint32_t *order;         /* steps by place */
  uint32_t nsteps, nupdates;
  uint32_t nclocks, nnever, norder; /* elements that are allocated */
  uint32_t *sorted;                 /* updates by semaphore, source and place */
  int64_t *sum;                     /* of those before, within their group */
  group *groups;
  uint32_t ngroups, of_sem[VM_CK_SEMS + 1];
  candidate *candidates;
  bool in_run;
  uint32_t *joined;   /* in the run: how many updates each engine has seen of each semaphore */
  vm_ck_mixed *mixed; /* NULL: in the run */
  bool decided;       /* what is acquired from these semaphores has been found */
};

static uint32_t *clock_of(const vm_ck_must *m, uint32_t step) {
  return m->clocks + (size_t)step * m->n;
}

const uint32_t *vm_ck_must_clock(const vm_ck_must *m, uint32_t step) { return clock_of(m, step); }

/* Component comp of what any engine that sees update u knows. */
static uint32_t known_by(const vm_ck_must *m, const uint32_t *clock, const vm_ck_signal *u,
                         unsigned comp) {
  /* The snapshot of an update lacks the updating engine's own progress: that is in `own`. */
  uint32_t base = clock[comp], own = 0;
  if (comp < m->k->rings && vm_ck_engine_of(comp) == u->engine) own = u->own[comp % OF_ENGINE];
  if (u->ring && comp == u->ring) own = u->share;
  if (u->twin && vm_ck_is_twin(m->k, u->twin, comp)) own = u->twin_share;
  return own > base ? own : base;
}

bool vm_ck_must_stuck(const vm_ck_must *m) { return memchr(m->never, 1, m->nsteps) != NULL; }

bool vm_ck_must_tells(const vm_ck_must *m, const vm_ck_signal *u, unsigned comp, uint32_t epoch) {
  /* A step that can never come proves anything. */
  return m->never[u->step] || known_by(m, clock_of(m, u->step), u, comp) >= epoch;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static bool raise(uint32_t *mine, uint32_t to) {
  if (*mine >= to) return false;
  *mine = to;
  return true;
}

/* Raises all components to those of another clock. */
static void join(uint32_t *restrict to, const uint32_t *restrict clock, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) to[i] = to[i] > clock[i] ? to[i] : clock[i];
}

/* What update u says beyond the clock of its step. */
static void join_own(const vm_ck_must *m, const vm_ck_signal *u, uint32_t *to) {
  for (unsigned i = 0; i < OF_ENGINE && u->engine < VM_CK_ENGINES; i++)
    raise(&to[vm_ck_comp(u->engine, i)], u->own[i]);
  if (u->ring) raise(&to[u->ring], u->share);
  if (!u->twin) return;
  raise(&to[u->twin], u->twin_share);
  if (u->twin < m->k->rings) raise(&to[u->twin + (OF_READ - OF_DONE)], u->twin_share);
}

void vm_ck_must_join(const vm_ck_must *m, const vm_ck_signal *u, uint32_t *to) {
  join(to, clock_of(m, u->step), m->n);
  join_own(m, u, to);
}

static void join_update(vm_ck_must *m, const vm_ck_signal *u) { vm_ck_must_join(m, u, m->mine); }

vm_ck_mixed *vm_ck_must_mixed(const vm_ck_must *m) { return m->mixed; }

/* All of the instruction or transfer of an access is complete; so are the accesses before it. */
static void join_access(vm_ck_must *m, const vm_ck_access *a) {
  /* What the access itself began with comes along. */
  join(m->mine, clock_of(m, a->step), m->n);
  if (a->queue < VM_CK_QUEUES) {
    /* All rings of the queue: a transfer's instruction is over when all of them are. */
    for (unsigned r = 0; r < ISA_NDMA; r++)
      raise(&m->mine[vm_ck_ring_comp(m->k, a->queue, r)], a->epoch);
    return;
  }
  raise(&m->mine[a->comp], a->epoch);
  /* A complete instruction has read, written and loaded weights; the others say only their own. */
  bool all = a->comp < m->k->rings && a->comp % OF_ENGINE == OF_DONE;
  for (unsigned what = OF_DONE; all && what <= OF_WEIGHTS; what++)
    raise(&m->mine[vm_ck_comp(a->engine, what)], a->epoch);
}

/* The first update of a group that `mine` does not know of. */
static uint32_t first_unknown(const vm_ck_must *m, const group *g) {
  uint32_t lo = g->first, hi = g->first + g->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    const vm_ck_signal *u = &m->g->updates[m->sorted[mid]];
    /* An update of both halves is known only with the other one. */
    if (m->mine[u->comp] >= u->epoch && (!u->twin || m->mine[u->twin] >= u->twin_share))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Whether an update can only come after the wait of step s. One that a trial has put before an
 * access has no epoch of its own. */
static bool comes_after(const vm_ck_must *m, const vm_ck_signal *u, const vm_ck_step *s) {
  const uint32_t *clock = clock_of(m, u->step);
  if (m->never[u->step]) return true;
  /* A step of a trial lies among the engine's own: places decide. */
  if (s->made && u->engine == s->engine) return u->at >= s->at;
  uint32_t seq = known_by(m, clock, u, vm_ck_comp(s->engine, OF_SEQ));
  const vm_ck_access *a = s->made && s->other ? &m->g->accesses[s->other - 1] : NULL;
  /* Without an access of a data path the sequencer's number decides. */
  if (!a || a->comp >= m->k->rings || a->comp % OF_ENGINE == OF_SEQ) return seq >= s->seq;
  unsigned what = a->comp % OF_ENGINE == OF_WEIGHTS ? OF_WEIGHTS : OF_READ;
  return seq > s->seq || known_by(m, clock, u, vm_ck_comp(a->engine, what)) >= a->epoch;
}

/* Raises a component to the least epoch up to which the candidates add up to `need`. */
static void raise_comp(vm_ck_must *m, uint32_t n, unsigned comp, int64_t need) {
  /* They are certain already. */
  for (uint32_t i = 0; i < n && need > 0; i++)
    if (known_by(m, m->candidates[i].clock, m->candidates[i].u, comp) <= m->mine[comp])
      need -= m->candidates[i].u->delta;
  if (need <= 0) return;
  /* From what is known upwards, epoch by epoch, until the sum is there. */
  uint32_t at = m->mine[comp]; /* those up to it are counted */
  while (need > 0) {
    uint32_t next = NEVER;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t v = known_by(m, m->candidates[i].clock, m->candidates[i].u, comp);
      if (v > at && v < next) next = v;
    }
    /* Fewer updates than are needed: the component stays at the last of them. */
    if (next == NEVER) break;
    for (uint32_t i = 0; i < n; i++)
      if (known_by(m, m->candidates[i].clock, m->candidates[i].u, comp) == next)
        need -= m->candidates[i].u->delta;
    at = next;
  }
  m->mine[comp] = at;
}

/* What engine e sees at a wait in the run: the updates from the first one, in order. */
static void see_updates(vm_ck_must *m, const vm_ck_step *s) {
  uint32_t *seen = &m->joined[s->engine * VM_CK_SEMS + s->sem];
  uint32_t end = m->of_sem[s->sem + 1];
  /* Each engine sees an update once. */
  for (uint32_t i = m->of_sem[s->sem] + *seen; i < end && m->sum[i] < s->want; i++, ++*seen)
    join_update(m, &m->g->updates[m->sorted[i]]);
}

/* False if the wait can never hold, by what is known. */
static bool find_wait(vm_ck_must *m, const vm_ck_step *s) {
  int64_t need = s->want, total = 0;
  uint32_t n = 0;
  const group *first = m->groups + m->of_sem[s->sem], *end = m->groups + m->of_sem[s->sem + 1];
  for (const group *g = first; g < end; g++) {
    uint32_t at = first_unknown(m, g);
    /* Updates that the engine knows of are part of the value whatever happens. */
    if (at > g->first) need -= m->sum[at - 1] + m->g->updates[m->sorted[at - 1]].delta;
  }
  /* No further update is needed. */
  if (need <= 0) return true;
  for (const group *g = first; g < end; g++) {
    int64_t left = need;
    for (uint32_t i = first_unknown(m, g); i < g->first + g->n && left > 0; i++) {
      const vm_ck_signal *u = &m->g->updates[m->sorted[i]];
      if (comes_after(m, u, s)) break; /* and so do those after it */
      m->candidates[n++] = (candidate){u, clock_of(m, u->step)};
      left -= u->delta;
      total += u->delta;
    }
  }
  /* Not enough increments exist that can come before: it never holds. */
  if (total < need) return false;
  /* Then all components of all of them are known. */
  if (total == need) { /* each is needed */
    for (uint32_t i = 0; i < n; i++) {
      const candidate *x = &m->candidates[i];
      /* The rings of a transfer have one clock. */
      if (i == 0 || x->clock != x[-1].clock) join(m->mine, x->clock, m->n); /* not for each ring */
      join_own(m, x->u, m->mine);
    }
    return true;
  }
  for (uint32_t comp = 0; comp < m->n; comp++) raise_comp(m, n, comp, need);
  return true;
}

/* What a message knows (peers.c); false: what it answers is never sent. */
static bool find_heard(vm_ck_must *m, const vm_ck_step *s) {
  const vm_ck_peers *p = &m->k->peers;
  const uint32_t *numbers = p->heard[s->other];
  unsigned e, queue;
  memset(m->mine, 0, m->n * sizeof *m->mine);
  for (uint32_t i = 0; i < p->n; i++) {
    /* Nothing of that rank. */
    if (!numbers[i]) continue;
    /* Another rank's progress: its own component here. */
    if (!vm_ck_entry_is_own(m->c, i, &e, &queue)) {
      raise(&m->mine[p->first + i], numbers[i]);
      continue;
    }
    /* How many transfers of a queue have left, in all rings. */
    for (unsigned r = 0; queue < VM_CK_QUEUES && r < vm_ck_queue_row(m->c, queue)->rings; r++)
      raise(&m->mine[vm_ck_ring_comp(m->k, queue, r)], numbers[i]);
    if (queue < VM_CK_QUEUES) continue;
    const vm_ck_sent *sent = vm_ck_sent_at(m->k, e, numbers[i]);
    /* It sent nothing then: the number alone says nothing. */
    if (!sent) continue;
    if (m->never[sent->step]) return false;
    join(m->mine, clock_of(m, sent->step), m->n);
    raise(&m->mine[vm_ck_comp(e, OF_SEQ)], numbers[i]);
  }
  return true;
}

static bool find_step(vm_ck_must *m, uint32_t step) {
  const vm_ck_log *g = m->g;
  const vm_ck_step *s = &g->steps[step];
  if (s->kind == VM_CK_HEARD) return find_heard(m, s);
  if (s->kind == VM_CK_START) {
    memset(m->mine, 0, m->n * sizeof *m->mine);
    return true;
  }
  /* What comes after a step that never comes does not come either. */
  if (m->never[s->prev]) return false;
  memcpy(m->mine, clock_of(m, s->prev), m->n * sizeof *m->mine);
  if (s->engine < VM_CK_ENGINES) raise(&m->mine[vm_ck_comp(s->engine, OF_SEQ)], s->seq);
  switch (s->kind) {
  case VM_CK_WAIT:
    if (!m->in_run) return find_wait(m, s);
    see_updates(m, s);
    return true;
  /* In the run: nothing is certain of such semaphores. */
  case VM_CK_HELD:
    if (m->mixed) vm_ck_mixed_acquire(m->mixed, m, step, m->mine);
    return true;
  case VM_CK_KNOW:
    if (m->mixed && !vm_ck_mixed_knows(m->mixed, step)) return true;
    if (m->never[g->updates[s->other].step]) return false;
    join_update(m, &g->updates[s->other]);
    return true;
  case VM_CK_DRAIN:
    /* `other` instructions have drained; `want` of the other core with them. */
    for (unsigned what = OF_DONE; what <= OF_WEIGHTS; what++)
      raise(&m->mine[vm_ck_comp(s->engine, what)], s->other);
    for (unsigned what = OF_DONE; what <= OF_READ && s->want; what++)
      raise(&m->mine[vm_ck_twin_of(s->engine) + what], (uint32_t)s->want);
    return true;
  case VM_CK_LEFT:
    for (unsigned r = 0; r < vm_ck_queue_row(m->c, s->sem)->rings; r++)
      raise(&m->mine[vm_ck_ring_comp(m->k, s->sem, r)], s->other);
    return true;
  case VM_CK_MEET:
  case VM_CK_QUEUE:
    if (m->never[s->other]) return false;
    join(m->mine, clock_of(m, s->other), m->n);
    if (s->kind == VM_CK_MEET)
      raise(&m->mine[vm_ck_comp(g->steps[s->other].engine, OF_SEQ)], s->value);
    return true;
  /* An order that a finding assumes. */
  default:
    if (m->never[g->accesses[s->other].step]) return false;
    join_access(m, &g->accesses[s->other]);
    if (s->want && !m->never[g->updates[s->want - 1].step])
      join_update(m, &g->updates[s->want - 1]);
    return true;
  }
}

static bool pass(vm_ck_must *m) {
  bool changed = false;
  /* In order of places, so that most clocks are right after one pass. */
  for (uint32_t i = 0; i < m->nsteps; i++) {
    uint32_t step = m->order[i], *clock = clock_of(m, step);
    if (!find_step(m, step)) continue; /* it stays as it was: it never comes */
    if (!m->never[step] && memcmp(clock, m->mine, m->n * sizeof *clock) == 0) continue;
    memcpy(clock, m->mine, m->n * sizeof *clock);
    m->never[step] = false;
    changed = true;
  }
  return changed;
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

static void *new_array(const vm_core *c, size_t size, uint32_t n) {
  /* One byte more: no array has size 0. */
  return isa_zalloc(&c->al, (size_t)n * size + 1);
}

static void free_array(const vm_core *c, void *p, size_t size, uint32_t n) {
  if (p) isa_free(&c->al, p, (size_t)n * size + 1);
}

/* A new array of `to` elements in place of one of *n. */
static void *again(const vm_core *c, void *old, size_t size, uint32_t *n, uint32_t to) {
  free_array(c, old, size, *n);
  *n = to;
  return new_array(c, size, to);
}

static bool same_source(const vm_ck_signal *u, const vm_ck_signal *v) {
  /* Updates of both halves are a source of their own, like in vm_ck_source. */
  return u->comp == v->comp && (!u->ring || !u->twin == !v->twin);
}

/* Groups the updates: a stable sort by semaphore and source. */
static void sort_updates(vm_ck_must *m) {
  const vm_ck_signal *u = m->g->updates;
  uint32_t n = m->nupdates, at = 0;
  bool has[VM_CK_SEMS] = {false};
  /* Semaphores that do more than count are mixed.c's. */
  for (uint32_t i = 0; i < n; i++) has[u[i].sem] = !m->g->mixed[u[i].sem];
  for (unsigned sem = 0; sem < m->k->nsems; sem++) {
    m->of_sem[sem] = m->ngroups;
    for (uint32_t i = 0; i < n && has[sem]; i++) {
      if (u[i].sem != sem) continue;
      uint32_t g = m->of_sem[sem];
      while (g < m->ngroups && !same_source(&u[m->sorted[m->groups[g].first]], &u[i])) g++;
      if (g == m->ngroups) {
        m->groups[m->ngroups++] = (group){at, 0};
        /* The rest of this source's updates at once, in order. */
        for (uint32_t k = i; k < n; k++)
          if (u[k].sem == sem && same_source(&u[k], &u[i])) m->sorted[at++] = k;
      }
      group *to = &m->groups[g];
      m->sum[to->first + to->n] =
          to->n ? m->sum[to->first + to->n - 1] + u[m->sorted[to->first + to->n - 1]].delta : 0;
      to->n++;
    }
  }
  m->of_sem[m->k->nsems] = m->ngroups;
}

/* Sorts updates by semaphore alone, with the sums of those before. */
static void list_updates(vm_ck_must *m) {
  uint32_t at = 0;
  bool has[VM_CK_SEMS] = {false};
  for (uint32_t i = 0; i < m->nupdates; i++) has[m->g->updates[i].sem] = true;
  for (unsigned sem = 0; sem < m->k->nsems; sem++) {
    int64_t sum = 0;
    m->of_sem[sem] = at;
    for (uint32_t i = 0; i < m->nupdates && has[sem] && !m->g->mixed[sem]; i++) {
      const vm_ck_signal *u = &m->g->updates[i];
      if (u->sem != sem) continue;
      m->sorted[at] = i;
      m->sum[at++] = sum;
      /* Decrements are not waited for. */
      if (u->delta > 0) sum += u->delta;
    }
  }
  m->of_sem[m->k->nsems] = at;
}

vm_ck_must *vm_ck_must_new(vm_core *c, bool in_run) {
  vm_ck_must *m = isa_zalloc(&c->al, sizeof *m);
  if (!m) return NULL;
  const vm_ck_log *g = &c->check->log;
  m->c = c;
  m->k = c->check;
  m->g = g;
  /* In the run nothing is guaranteed: no bounds are needed. */
  m->mixed = in_run ? NULL : vm_ck_mixed_new(c);
  m->n = m->mixed ? vm_ck_mixed_comps(m->mixed) : c->check->ncomps;
  m->nupdates = g->nupdates;
  m->mine = new_array(c, sizeof *m->mine, m->n);
  m->sorted = new_array(c, sizeof *m->sorted, m->nupdates);
  m->sum = new_array(c, sizeof *m->sum, m->nupdates);
  m->groups = new_array(c, sizeof *m->groups, m->nupdates);
  m->candidates = new_array(c, sizeof *m->candidates, m->nupdates);
  m->in_run = in_run;
  m->joined = new_array(c, sizeof *m->joined, in_run ? VM_CK_ENGINES * VM_CK_SEMS : 0);
  bool whole = m->mine && m->sorted && m->sum && m->groups && m->candidates && m->joined;
  if (whole && (in_run || m->mixed)) {
    if (in_run)
      list_updates(m);
    else
      sort_updates(m);
    return m;
  }
  vm_ck_must_free(c, m);
  return NULL;
}

void vm_ck_must_free(vm_core *c, vm_ck_must *m) {
  if (!m) return;
  vm_ck_mixed_free(m->mixed);
  free_array(c, m->mine, sizeof *m->mine, m->n);
  free_array(c, m->sorted, sizeof *m->sorted, m->nupdates);
  free_array(c, m->sum, sizeof *m->sum, m->nupdates);
  free_array(c, m->groups, sizeof *m->groups, m->nupdates);
  free_array(c, m->joined, sizeof *m->joined, m->in_run ? VM_CK_ENGINES * VM_CK_SEMS : 0);
  free_array(c, m->candidates, sizeof *m->candidates, m->nupdates);
  free_array(c, m->clocks, sizeof *m->clocks * m->n, m->nclocks);
  free_array(c, m->never, sizeof *m->never, m->nnever);
  free_array(c, m->order, sizeof *m->order, m->norder);
  isa_free(&c->al, m, sizeof *m);
}

/* Sorts steps by place. Assumed ones were added at the end; they go before the step, update or
 * access at the same place. */
static void sort_steps(vm_ck_must *m, uint32_t logged) {
  uint32_t n = 0;
  /* The log itself is in order. */
  for (uint32_t i = 0; i < logged; i++) m->order[n++] = i;
  for (uint32_t i = logged; i < m->nsteps; i++, n++) {
    uint32_t at = n;
    while (at > 0 && m->g->steps[m->order[at - 1]].at > m->g->steps[i].at) {
      m->order[at] = m->order[at - 1];
      at--;
    }
    m->order[at] = i;
  }
}

static bool solve(vm_ck_must *m) {
  /* As if nothing ever came: clocks only fall from here. */
  memset(m->clocks, 0xff, (size_t)m->nsteps * m->n * sizeof *m->clocks);
  memset(m->never, true, m->nsteps * sizeof *m->never);
  /* One pass with what the run saw, then until nothing changes. */
  bool more = pass(m);
  vm_ck_mixed_passed(m->mixed);
  /* A limit on the time: what has not settled by then is still a bound. */
  for (unsigned i = 1; i < MOST_PASSES && more; i++) more = pass(m);
  /* Trials change orders, not what semaphores guarantee. */
  if (m->decided) return true;
  while (vm_ck_mixed_lower(m->mixed, m))
    for (unsigned i = 0; i < MOST_PASSES && pass(m); i++) continue;
  m->decided = true;
  return vm_ck_mixed_settle(m->mixed);
}

static void solve_in_run(vm_ck_must *m) {
  memset(m->joined, 0, VM_CK_ENGINES * VM_CK_SEMS * sizeof *m->joined);
  memset(m->clocks, 0, (size_t)m->nsteps * m->n * sizeof *m->clocks);
  memset(m->never, false, m->nsteps * sizeof *m->never);
  pass(m);
}

bool vm_ck_must_solve(vm_core *c, vm_ck_must *m) {
  uint32_t to = m->g->nsteps, logged = 0;
  /* Trials add steps: the arrays grow with them. */
  if (m->nsteps != to) {
    m->nsteps = 0;
    m->clocks = again(c, m->clocks, sizeof *m->clocks * m->n, &m->nclocks, to);
    m->never = again(c, m->never, sizeof *m->never, &m->nnever, to);
    m->order = again(c, m->order, sizeof *m->order, &m->norder, to);
  }
  if (!m->clocks || !m->never || !m->order) return false;
  m->nsteps = to;
  while (logged < to && !m->g->steps[logged].made) logged++;
  sort_steps(m, logged);
  if (!m->in_run) return solve(m);
  solve_in_run(m);
  return true;
}

/* ---- Trials -------------------------------------------------------------------------------- */

bool vm_ck_must_insert(vm_core *c, const vm_ck_spot *spot, vm_ck_step what) {
  vm_ck_log *g = &c->check->log;
  const vm_ck_access *a = spot->access;
  uint32_t from = a ? a->step : spot->update->step, at = a ? a->at : spot->update->at;
  uint32_t step = g->nsteps;
  unsigned e = a ? a->engine : spot->update->engine;
  bool ring = a && a->queue < VM_CK_QUEUES;
  /* It only grows; trials take their steps back by the count. */
  if (!vm_pool_room(c->run->pool, &c->al, &g->steps, step, &g->cap_steps, sizeof *g->steps))
    return false;
  what.made = true;
  what.engine = (uint8_t)e;
  what.prev = from;
  what.at = at;
  g->steps[g->nsteps++] = what;
  /* What follows the new step at this place goes by its clock. */
  for (uint32_t i = 0; i < g->naccesses; i++) {
    vm_ck_access *x = &g->accesses[i];
    if (x->step == from && x->at >= at && x->engine == e) x->step = step;
  }
  for (uint32_t i = 0; i < g->nupdates; i++) {
    vm_ck_signal *u = &g->updates[i];
    if (u->step == from && u->at >= at && u->engine == e) u->step = step;
  }
  for (uint32_t i = 0; i < step; i++) {
    vm_ck_step *next = &g->steps[i];
    /* Links of the engine's own chain, and of those that refer to it. */
    if (next->prev == from && next->at >= at && next->engine == e && next->kind) next->prev = step;
    bool follows = (ring && next->kind == VM_CK_QUEUE) || next->kind == VM_CK_MEET;
    if (follows && next->other == from && next->at >= at) next->other = step;
  }
  return true;
}
