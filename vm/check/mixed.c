/* Semaphores that do more than count: what each wait for one can be sure of.
 *
 * For one semaphore, all orders are tried in which its updates can arrive and the waits for it can
 * pass. An update or a wait comes when everything has come that its clock knows of (must.c), a wait
 * only at a value that it waits for. A wait is sure of what all states in which it can pass have in
 * common. Clocks follow from that, and that follows from clocks: they begin as in the run and fall
 * until nothing changes.
 *
 * An update arrives later than its instruction is complete, and only an engine that has seen it in
 * the value knows of it: each source has a component of its own for that, after those of the
 * clocks. */
#include "../../isa/bytes.h"
#include "mixed.h"

#include <string.h>

enum {
  MOST_STATES = 1 << 15, /* of a semaphore */
  MOST_ROUNDS = 64,
  MOST_WORK = 1 << 28, /* components that are looked at */
  MOST_ROWS = 1 << 22  /* components of the clocks of all nodes of a semaphore */
};
#define NEVER UINT32_MAX

/* ---- Building ------------------------------------------------------------------------------ */

static bool room(vm_ck_mixed *x, void *array, uint32_t n, uint32_t *cap, size_t size) {
  if (x->failed) return false;
  if (n == *cap && !isa_array_grow(&x->c->al, array, n, cap, size)) x->failed = true;
  return !x->failed;
}

static mixed_sem *sem_of(vm_ck_mixed *x, unsigned sem) {
  for (uint32_t i = 0; i < x->nsems; i++)
    if (x->sems[i].sem == sem) return &x->sems[i];
  if (!room(x, &x->sems, x->nsems, &x->cap_sems, sizeof *x->sems)) return NULL;
  /* The log lacks what comes after the run, and what the host does. */
  x->sems[x->nsems] = (mixed_sem){.sem = sem, .open = !x->whole || x->c->check->log.host[sem]};
  return &x->sems[x->nsems++];
}

/* comp: of a source; for waits, the engine's OF_SEQ. No source whose updates take time to arrive
 * has the same one: the updates of control instructions have OF_SEQ with `flow`. */
static mixed_chain *chain_of(vm_ck_mixed *x, mixed_sem *s, bool flow, unsigned comp, bool both) {
  for (uint32_t i = 0; s && i < s->nchains; i++) {
    mixed_chain *h = &s->chains[i];
    if (h->flow == flow && h->comp == comp && h->both == both) return h;
  }
  if (!s || !room(x, &s->chains, s->nchains, &s->cap_chains, sizeof *s->chains)) return NULL;
  s->chains[s->nchains] =
      (mixed_chain){.flow = flow, .comp = (uint16_t)comp, .both = both, .rings = 1};
  return &s->chains[s->nchains++];
}

static void add_node(vm_ck_mixed *x, mixed_chain *h, uint32_t wait, const vm_ck_signal *u) {
  if (h && room(x, &h->v, h->n, &h->cap, sizeof *h->v))
    h->v[h->n++] = (mixed_node){.wait = wait, .update = u};
}

static bool tells_of_both(const vm_ck_signal *u) { return u->ring && u->twin; }

static void add_wait(vm_ck_mixed *x, uint32_t step) {
  const vm_ck_step *s = &x->g->steps[step];
  if (s->kind != VM_CK_HELD) return;
  unsigned comp = vm_ck_comp(s->engine, OF_SEQ);
  add_node(x, chain_of(x, sem_of(x, s->sem), false, comp, false), step + 1, NULL);
  x->row_of[step] = ++x->nrows;
}

static void add_set(vm_ck_mixed *x, const vm_ck_signal *u) {
  mixed_chain *h = chain_of(x, sem_of(x, u->sem), false, u->comp, false);
  /* A wait that sets the value at the same moment is one node: nothing comes between the two. */
  uint32_t wait = h && h->n ? h->v[h->n - 1].wait : 0;
  if (u->taken && wait && x->g->steps[wait - 1].seq + 1 == u->epoch)
    h->v[h->n - 1].update = u;
  else
    add_node(x, h, 0, u);
}

/* All steps and updates in the order of the run. */
static void add_all(vm_ck_mixed *x) {
  const vm_ck_log *g = x->g;
  for (uint32_t i = 0, j = 0, k = 0; i < g->nsteps || j < g->nupdates || k < g->nsets;) {
    uint32_t step = i < g->nsteps ? g->steps[i].at : NEVER;
    uint32_t update = j < g->nupdates ? g->updates[j].at : NEVER;
    uint32_t set = k < g->nsets ? g->sets[k].at : NEVER;
    if (step < update && step < set) {
      add_wait(x, i++);
    } else if (update < set) {
      const vm_ck_signal *u = &g->updates[j++];
      /* Semaphores that only count are decided without orders, by their sums. */
      if (!g->mixed[u->sem]) continue;
      add_node(x, chain_of(x, sem_of(x, u->sem), true, u->comp, tells_of_both(u)), 0, u);
    } else {
      add_set(x, &g->sets[k++]);
    }
  }
}

static unsigned queue_of(const vm_ck_mixed *x, unsigned comp) {
  return (comp - x->c->check->rings) / ISA_NDMA;
}

/* How many chains from h on are those of the rings of one queue that advance together. */
static uint32_t rings_alike(const vm_ck_mixed *x, const mixed_chain *h, uint32_t n) {
  uint32_t r = 1;
  if (!h->flow || h->comp < x->c->check->rings) return 1;
  for (; r < n; r++) {
    const mixed_chain *o = &h[r];
    if (!o->flow || o->comp != h->comp + r || queue_of(x, o->comp) != queue_of(x, h->comp) ||
        o->n != h->n || o->both != h->both)
      return r;
    for (uint32_t i = 0; i < h->n; i++)
      /* A transfer's updates, one of each ring, stand side by side in the log. */
      if (o->v[i].update != h->v[i].update + r || o->v[i].update->step != h->v[i].update->step)
        return r;
  }
  return r;
}

/* It does not matter which of the rings have come, only how many: they are one chain. */
static void join_rings(vm_ck_mixed *x, mixed_sem *s) {
  uint32_t to = 0;
  for (uint32_t i = 0, n; i < s->nchains; i += n) {
    n = rings_alike(x, &s->chains[i], s->nchains - i);
    for (uint32_t r = 1; r < n; r++)
      isa_free(&x->c->al, s->chains[i + r].v, s->chains[i + r].cap * sizeof *s->chains->v);
    s->chains[to] = s->chains[i];
    s->chains[to++].rings = n;
  }
  s->nchains = to;
}

/* Numbers of nodes and components, and arrays for them. */
static void lay_out(vm_ck_mixed *x, mixed_sem *s) {
  join_rings(x, s);
  for (uint32_t i = 0; i < s->nchains; i++) {
    mixed_chain *h = &s->chains[i];
    h->first = s->nnodes;
    s->nnodes += h->n;
    /* Its arrivals are counted in a component of their own. */
    if (h->flow) h->slot = x->n++;
  }
}

static void *new_array(vm_ck_mixed *x, uint64_t n, size_t size) {
  void *p = x->failed ? NULL : isa_zalloc(&x->c->al, n * size + 1);
  if (!p) x->failed = true;
  return p;
}

static void free_array(const vm_ck_mixed *x, void *p, uint64_t n, size_t size) {
  if (p) isa_free(&x->c->al, p, n * size + 1);
}

static void make_room(vm_ck_mixed *x) {
  x->kept = new_array(x, (uint64_t)x->nrows * x->n, sizeof *x->kept);
  x->fresh = new_array(x, (uint64_t)x->nrows * x->n, sizeof *x->fresh);
  x->cut = new_array(x, x->n, sizeof *x->cut);
  for (uint32_t i = 0; i < x->nsems; i++) {
    mixed_sem *s = &x->sems[i];
    if ((uint64_t)s->nnodes * x->n > MOST_ROWS) s->open = true;
    /* One that is too large is left to what the run showed. */
    s->rows = s->open ? 0 : s->nnodes;
    s->know = new_array(x, (uint64_t)s->rows * x->n, sizeof *s->know);
    s->need = new_array(x, (uint64_t)s->rows * s->nchains, sizeof *s->need);
    s->in_run = new_array(x, x->n, sizeof *s->in_run);
    s->at = new_array(x, s->nchains + 1, sizeof *s->at);
    s->next = new_array(x, s->nchains + 1, sizeof *s->next);
  }
}

vm_ck_mixed *vm_ck_mixed_new(vm_core *c) {
  vm_ck_mixed *x = isa_zalloc(&c->al, sizeof *x);
  if (!x) return NULL;
  x->c = c;
  x->g = &c->check->log;
  x->n = c->check->ncomps;
  x->nsteps = x->g->nsteps;
  /* Whether all that could still update a semaphore is in the log. */
  x->whole = c->run->fault.status == ISA_OK;
  for (unsigned e = 0; e < c->check->nengines; e++) x->whole &= !vm_ck_goes_on(c, e);
  x->row_of = new_array(x, x->nsteps, sizeof *x->row_of);
  x->sure = new_array(x, x->nsteps, sizeof *x->sure);
  if (!x->failed) add_all(x);
  for (uint32_t i = 0; i < x->nsems && !x->failed; i++) lay_out(x, &x->sems[i]);
  make_room(x);
  if (!x->failed) return x;
  vm_ck_mixed_free(x);
  return NULL;
}

static void free_sem(const vm_ck_mixed *x, mixed_sem *s) {
  const isa_alloc *al = &x->c->al;
  for (uint32_t i = 0; i < s->nchains; i++)
    isa_free(al, s->chains[i].v, s->chains[i].cap * sizeof *s->chains->v);
  free_array(x, s->know, (uint64_t)s->rows * x->n, sizeof *s->know);
  free_array(x, s->need, (uint64_t)s->rows * s->nchains, sizeof *s->need);
  free_array(x, s->in_run, x->n, sizeof *s->in_run);
  free_array(x, s->at, s->nchains + 1, sizeof *s->at);
  free_array(x, s->next, s->nchains + 1, sizeof *s->next);
  isa_free(al, s->states, (size_t)s->cap_states * (s->nchains + 1) * sizeof *s->states);
  isa_free(al, s->table, s->ntable * sizeof *s->table);
  isa_free(al, s->chains, s->cap_chains * sizeof *s->chains);
}

void vm_ck_mixed_free(vm_ck_mixed *x) {
  if (!x) return;
  for (uint32_t i = 0; i < x->nsems; i++) free_sem(x, &x->sems[i]);
  free_array(x, x->kept, (uint64_t)x->nrows * x->n, sizeof *x->kept);
  free_array(x, x->fresh, (uint64_t)x->nrows * x->n, sizeof *x->fresh);
  free_array(x, x->cut, x->n, sizeof *x->cut);
  free_array(x, x->row_of, x->nsteps, sizeof *x->row_of);
  free_array(x, x->sure, x->nsteps, sizeof *x->sure);
  isa_free(&x->c->al, x->sems, x->cap_sems * sizeof *x->sems);
  isa_free(&x->c->al, x, sizeof *x);
}

/* ---- What is known ------------------------------------------------------------------------- */

static uint32_t *row(uint32_t *v, const vm_ck_mixed *x, uint32_t i) { return v + (size_t)i * x->n; }

static void raise_all(const vm_ck_mixed *x, uint32_t *to, const uint32_t *from) {
  for (uint32_t i = 0; i < x->n; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

uint32_t vm_ck_mixed_seq(const vm_ck_mixed *x, const mixed_node *d) {
  return d->wait ? x->g->steps[d->wait - 1].seq : d->update->own[OF_SEQ];
}

/* The clock with which a node comes, without what the node itself acquires. */
static const uint32_t *clock_before(const vm_ck_mixed *x, const mixed_sem *s, const vm_ck_must *m,
                                    const mixed_chain *h, uint32_t i) {
  const mixed_node *d = &h->v[i];
  if (h->flow) return s->know + (size_t)(h->first + i) * x->n;
  return vm_ck_must_clock(m, d->wait ? x->g->steps[d->wait - 1].prev : d->update->step);
}

/* Whether update u of one data path or sequencer can arrive only after v of the same engine: v is
 * the earlier one, and is known to be complete when u is posted. */
static bool follows(const vm_ck_mixed *x, const vm_ck_signal *u, const uint32_t *clock,
                    const vm_ck_signal *v) {
  uint32_t rings = x->c->check->rings;
  return v->comp < rings && u->comp < rings && u->engine == v->engine && v->at < u->at &&
         clock[v->comp] >= v->epoch;
}

/* How many nodes of chain o must have come before node i of chain h; at least `so_far`. */
static uint32_t needed(const vm_ck_mixed *x, const mixed_chain *h, uint32_t i, const mixed_chain *o,
                       const uint32_t *clock, uint32_t so_far) {
  if (o == h) return so_far;
  if (o->flow) {
    uint32_t n = clock[o->slot] > so_far ? clock[o->slot] : so_far;
    while (h->flow && n < o->n && follows(x, h->v[i].update, clock, o->v[n].update)) n++;
    return n;
  }
  while (so_far < o->n && vm_ck_mixed_seq(x, &o->v[so_far]) <= clock[o->comp]) so_far++;
  return so_far;
}

/* What each node knows, and how far the other chains must have come for it. */
static void find_needs(const vm_ck_mixed *x, mixed_sem *s, const vm_ck_must *m) {
  for (uint32_t i = 0; i < s->nchains; i++) {
    const mixed_chain *h = &s->chains[i];
    for (uint32_t k = 0; k < h->n; k++) {
      const mixed_node *d = &h->v[k];
      uint32_t *know = row(s->know, x, h->first + k);
      memset(know, 0, x->n * sizeof *know);
      if (d->wait) raise_all(x, know, vm_ck_must_clock(m, d->wait - 1));
      if (!d->update) continue;
      vm_ck_signal u = *d->update;
      if (h->rings > 1) u.ring = u.twin = 0; /* any of them */
      vm_ck_must_join(m, &u, know);
    }
  }
  for (uint32_t i = 0; i < s->nchains; i++)
    for (uint32_t k = 0; k < s->chains[i].n; k++) {
      const mixed_chain *h = &s->chains[i];
      uint32_t *need = s->need + (size_t)(h->first + k) * s->nchains;
      const uint32_t *clock = clock_before(x, s, m, h, k);
      for (uint32_t o = 0; o < s->nchains; o++)
        /* What must have come for a node must have come for the next one too. */
        need[o] = needed(x, h, k, &s->chains[o], clock, k ? (need - s->nchains)[o] : 0);
    }
}

bool vm_ck_mixed_met(const mixed_sem *s, const mixed_chain *h, uint32_t i, const uint32_t *at) {
  const uint32_t *need = s->need + (size_t)(h->first + i) * s->nchains;
  for (uint32_t o = 0; o < s->nchains; o++)
    if (at[o] < need[o]) return false;
  return true;
}

/* What `n` nodes of a chain prove. If the rings have begun `levels` transfers, each has ended at
 * least those that the others cannot make up. */
static void raise_chain(const vm_ck_mixed *x, const mixed_sem *s, const mixed_chain *h,
                        const uint32_t *at, uint32_t *to) {
  /* n ends belong to at least so many transfers. */
  uint32_t n = at[h - s->chains], last = (n + h->rings - 1) / h->rings, levels = last;
  if (n == 0) return;
  raise_all(x, to, s->know + (size_t)(h->first + last - 1) * x->n);
  if (!h->flow) return;
  to[h->slot] = n > to[h->slot] ? n : to[h->slot];
  if (h->rings == 1) return;
  while (levels < h->n && vm_ck_mixed_met(s, h, levels, at)) levels++;
  if (n <= (h->rings - 1) * levels) return;
  const vm_ck_signal *u = h->v[n - (h->rings - 1) * levels - 1].update;
  for (uint32_t r = 0; r < h->rings; r++) {
    uint32_t *ring = &to[h->comp + r];
    *ring = u[r].share > *ring ? u[r].share : *ring;
    if (u[r].twin && u[r].twin_share > to[u[r].twin]) to[u[r].twin] = u[r].twin_share;
  }
}

const uint32_t *vm_ck_mixed_cut(const vm_ck_mixed *x, const mixed_sem *s, const uint32_t *at) {
  memset(x->cut, 0, x->n * sizeof *x->cut);
  for (uint32_t i = 0; i < s->nchains; i++) raise_chain(x, s, &s->chains[i], at, x->cut);
  return x->cut;
}

/* ---- States -------------------------------------------------------------------------------- */

const uint32_t *vm_ck_mixed_state(const mixed_sem *s, uint32_t i) {
  return s->states + (size_t)i * (s->nchains + 1);
}

static bool grow_table(vm_ck_mixed *x, mixed_sem *s) {
  uint32_t n = s->ntable ? 2 * s->ntable : 64;
  /* At most half full, so that searches are short. */
  if (2 * s->nstates < s->ntable) return true;
  uint32_t *table = isa_zalloc(&x->c->al, n * sizeof *table);
  if (!table) return false;
  for (uint32_t i = 0; i < s->nstates; i++) {
    uint64_t h = isa_hash_words(vm_ck_mixed_state(s, i), s->nchains + 1);
    while (table[h % n]) h++;
    table[h % n] = i + 1;
  }
  isa_free(&x->c->al, s->table, s->ntable * sizeof *table);
  s->table = table;
  s->ntable = n;
  return true;
}

/* Keeps s->next, unless it has been there. */
static void keep(vm_ck_mixed *x, mixed_sem *s) {
  size_t words = s->nchains + 1;
  bool grown = s->nstates < s->cap_states || isa_array_grow(&x->c->al, &s->states, s->nstates,
                                                            &s->cap_states, words * sizeof *s->at);
  if (!grown || !grow_table(x, s)) {
    x->failed = true;
    return;
  }
  uint64_t h = isa_hash_words(s->next, (uint32_t)words);
  for (; s->table[h % s->ntable]; h++)
    if (!memcmp(vm_ck_mixed_state(s, s->table[h % s->ntable] - 1), s->next,
                words * sizeof *s->next))
      return;
  memcpy(s->states + s->nstates * words, s->next, words * sizeof *s->next);
  s->table[h % s->ntable] = ++s->nstates;
  s->open |= s->nstates == MOST_STATES;
}

/* A wait can pass in state s->at. */
static void pass_wait(vm_ck_mixed *x, const mixed_sem *s, uint32_t step) {
  const uint32_t *cut = vm_ck_mixed_cut(x, s, s->at);
  uint32_t *to = row(x->fresh, x, x->row_of[step] - 1);
  for (uint32_t i = 0; i < x->n; i++) to[i] = cut[i] < to[i] ? cut[i] : to[i];
  x->work += (uint64_t)x->n * s->nchains;
}

/* The next node of a chain comes in state s->at, if it can. */
static void follow(vm_ck_mixed *x, mixed_sem *s, uint32_t i) {
  const mixed_chain *h = &s->chains[i];
  /* The next end is of that transfer at the earliest. */
  uint32_t k = s->at[i] / h->rings, *value = &s->next[s->nchains];
  if (k == h->n || !vm_ck_mixed_met(s, h, k, s->at)) return;
  const mixed_node *d = &h->v[k];
  const vm_ck_step *w = d->wait ? &x->g->steps[d->wait - 1] : NULL;
  memcpy(s->next, s->at, (s->nchains + 1) * sizeof *s->next);
  if (w && !isa_cond_holds(w->cond, *value, w->value)) return;
  if (w) pass_wait(x, s, d->wait - 1);
  int64_t next = *value;
  if (d->update) next = d->update->writes ? d->update->delta : next + d->update->delta;
  /* A value below zero is a fault in that order, which goes no further. */
  if (next < 0) {
    s->below = d->update;
    return;
  }
  *value = (uint32_t)next;
  s->next[i]++;
  keep(x, s);
}

static void explore(vm_ck_mixed *x, mixed_sem *s, const vm_ck_must *m) {
  find_needs(x, s, m);
  s->nstates = 0;
  s->below = NULL;
  if (s->table) memset(s->table, 0, s->ntable * sizeof *s->table);
  memset(s->next, 0, (s->nchains + 1) * sizeof *s->next);
  keep(x, s);
  /* States that are found are added at the end, and looked at in their turn. */
  for (uint32_t i = 0; i < s->nstates && !s->open && !x->failed; i++) {
    memcpy(s->at, vm_ck_mixed_state(s, i), (s->nchains + 1) * sizeof *s->at);
    for (uint32_t h = 0; h < s->nchains; h++) follow(x, s, h);
    x->work += s->nchains;
    s->open |= x->work > MOST_WORK;
  }
}

/* ---- Clocks -------------------------------------------------------------------------------- */

static uint32_t place_of(const vm_ck_mixed *x, const mixed_node *d) {
  return d->wait ? x->g->steps[d->wait - 1].at : d->update->at;
}

/* In the first pass: what has arrived and passed before this wait in the run. */
static void see_run(vm_ck_mixed *x, const vm_ck_must *m, mixed_sem *s, uint32_t step) {
  uint32_t at = x->g->steps[step].at;
  for (uint32_t i = 0; i < s->nchains; i++) {
    mixed_chain *h = &s->chains[i];
    for (; !h->flow && h->seen < h->n && place_of(x, &h->v[h->seen]) < at; h->seen++)
      if (h->v[h->seen].update) vm_ck_must_join(m, h->v[h->seen].update, s->in_run);
    for (; h->flow && h->seen < h->n; h->seen++) {
      const vm_ck_signal *u = h->v[h->seen].update;
      /* Only as far as all rings of a transfer have come; see_rest has what is beyond. */
      bool all = true;
      for (uint32_t r = 0; r < h->rings; r++) all &= u[r].arrived && u[r].arrived < at;
      if (!all) break;
      for (uint32_t r = 0; r < h->rings; r++) vm_ck_must_join(m, &u[r], s->in_run);
      s->in_run[h->slot] = (h->seen + 1) * h->rings;
    }
  }
}

/* If some of the rings have come, all that they could have proved: a bound is enough. */
static void see_rest(const vm_ck_mixed *x, const vm_ck_must *m, const mixed_sem *s, uint32_t step,
                     uint32_t *to) {
  uint32_t at = x->g->steps[step].at;
  for (uint32_t i = 0; i < s->nchains; i++) {
    const mixed_chain *h = &s->chains[i];
    for (uint32_t k = h->seen; h->flow && h->rings > 1 && k < h->n; k++)
      for (uint32_t r = 0; r < h->rings; r++) {
        const vm_ck_signal *u = h->v[k].update + r;
        if (!u->arrived || u->arrived > at) continue;
        vm_ck_must_join(m, u, to);
        to[h->slot] = (k + 1) * h->rings;
      }
  }
}

void vm_ck_mixed_passed(vm_ck_mixed *x) { x->began = true; }

uint32_t vm_ck_mixed_comps(const vm_ck_mixed *x) { return x->n; }

bool vm_ck_mixed_decides(const vm_ck_mixed *x, unsigned sem) {
  for (uint32_t i = 0; x && i < x->nsems; i++)
    if (x->sems[i].sem == sem) return !x->sems[i].open;
  return false;
}

void vm_ck_mixed_acquire(vm_ck_mixed *x, const vm_ck_must *m, uint32_t step, uint32_t *mine) {
  mixed_sem *s = sem_of(x, x->g->steps[step].sem);
  if (!s || s->open) return;
  uint32_t *to = row(x->kept, x, x->row_of[step] - 1);
  if (!x->began) {
    see_run(x, m, s, step);
    raise_all(x, to, s->in_run);
    see_rest(x, m, s, step, to);
  }
  raise_all(x, mine, to);
  if (!x->began) raise_all(x, s->in_run, mine);
}

bool vm_ck_mixed_knows(const vm_ck_mixed *x, uint32_t step) {
  const vm_ck_step *s = &x->g->steps[step];
  return !vm_ck_mixed_decides(x, s->sem) || x->sure[step];
}

/* Takes over what the waits of a semaphore are sure of; true if it is less than before. */
static bool fall(vm_ck_mixed *x, mixed_sem *s) {
  bool changed = false;
  for (uint32_t i = 0; i < s->nchains; i++)
    for (uint32_t k = 0; k < s->chains[i].n; k++) {
      uint32_t wait = s->chains[i].v[k].wait;
      if (!wait) continue;
      uint32_t *to = row(x->kept, x, x->row_of[wait - 1] - 1);
      const uint32_t *from = row(x->fresh, x, x->row_of[wait - 1] - 1);
      s->open |= from[0] == NEVER; /* no order lets it pass, yet it has passed: leave it */
      for (uint32_t j = 0; j < x->n && !s->open; j++)
        if (from[j] < to[j]) {
          to[j] = from[j];
          changed = true;
        }
    }
  return changed || s->open;
}

bool vm_ck_mixed_lower(vm_ck_mixed *x, const vm_ck_must *m) {
  bool changed = false;
  x->rounds++;
  /* Each state in which a wait can pass lowers its row to what that state proves. */
  memset(x->fresh, 0xff, (size_t)x->nrows * x->n * sizeof *x->fresh);
  for (uint32_t i = 0; i < x->nsems && !x->failed; i++) {
    mixed_sem *s = &x->sems[i];
    if (s->open) continue;
    explore(x, s, m);
    bool fell = fall(x, s);
    changed |= fell;
    /* Not settled in so many rounds: undecided, rather than half fallen. */
    s->open |= fell && x->rounds == MOST_ROUNDS;
  }
  return changed && !x->failed;
}

/* ---- Two accesses -------------------------------------------------------------------------- */

/* In the states in which an access is open, how far a chain has come: at least *lo nodes, and at
 * most *hi. */
static void narrow(const vm_ck_mixed *x, const mixed_sem *s, const mixed_chain *h,
                   const vm_ck_must *m, const vm_ck_access *a, uint32_t *lo, uint32_t *hi) {
  const uint32_t *clock = vm_ck_must_clock(m, a->step);
  bool own = !h->flow && h->comp == vm_ck_comp(a->engine, OF_SEQ);
  uint32_t known = clock[h->flow ? h->slot : h->comp], n = 0;
  /* The engine itself has come to its access. */
  if (own && a->seq > known) known = a->seq;
  while (!h->flow && n < h->n && vm_ck_mixed_seq(x, &h->v[n]) <= known) n++;
  if (h->flow) n = known;
  if (n > *lo) *lo = n;
  for (uint32_t i = 0; i < h->n && i * h->rings < *hi; i++) {
    const uint32_t *know = s->know + (size_t)(h->first + i) * x->n;
    /* What knows that the access is over comes after it. */
    if (know[a->comp] >= a->epoch || (a->seen_epoch && know[a->seen_comp] >= a->seen_epoch))
      *hi = i * h->rings;
  }
}

static bool never_both(vm_ck_mixed *x, mixed_sem *s, const vm_ck_must *m, const vm_ck_access *a,
                       const vm_ck_access *b) {
  /* explore has ended, and both arrays are free. */
  uint32_t *lo = s->at, *hi = s->next;
  for (uint32_t i = 0; i < s->nchains; i++) {
    const mixed_chain *h = &s->chains[i];
    lo[i] = 0;
    hi[i] = h->n * h->rings;
    narrow(x, s, h, m, a, &lo[i], &hi[i]);
    narrow(x, s, h, m, b, &lo[i], &hi[i]);
  }
  for (uint32_t k = 0; k < s->nstates; k++) {
    const uint32_t *at = vm_ck_mixed_state(s, k);
    uint32_t i = 0;
    while (i < s->nchains && at[i] >= lo[i] && at[i] <= hi[i]) i++;
    if (i == s->nchains) return false;
  }
  x->work += (uint64_t)s->nstates * s->nchains;
  return true;
}

bool vm_ck_mixed_apart(vm_ck_mixed *x, const vm_ck_must *m, const vm_ck_access *a,
                       const vm_ck_access *b) {
  for (uint32_t i = 0; i < x->nsems; i++)
    if (!x->sems[i].open && x->work < MOST_WORK && never_both(x, &x->sems[i], m, a, b)) return true;
  return false;
}

/* ---- The end ------------------------------------------------------------------------------- */

/* An update that a wait has seen in the run, and of which it is sure. */
static bool is_sure(const vm_ck_mixed *x, uint32_t wait, const vm_ck_signal *u) {
  for (uint32_t i = 0; i < x->nsems; i++)
    for (uint32_t k = 0; k < x->sems[i].nchains && x->sems[i].sem == u->sem; k++) {
      const mixed_chain *h = &x->sems[i].chains[k];
      if (!h->flow || u->comp < h->comp || u->comp >= h->comp + h->rings ||
          h->both != tells_of_both(u))
        continue;
      uint32_t n = row(x->kept, x, x->row_of[wait] - 1)[h->slot];
      return n && h->v[(n - 1) / h->rings].update->at >= u->at;
    }
  return false;
}

bool vm_ck_mixed_settle(vm_ck_mixed *x) {
  uint32_t last[VM_CK_ENGINES] = {0};
  for (uint32_t i = 0; i < x->nsteps; i++) {
    const vm_ck_step *s = &x->g->steps[i];
    if (s->kind == VM_CK_HELD) last[s->engine] = i;
    if (s->kind == VM_CK_KNOW && x->row_of[last[s->engine]] && vm_ck_mixed_decides(x, s->sem))
      x->sure[i] = is_sure(x, last[s->engine], &x->g->updates[s->other]);
  }
  return !x->failed;
}
