/* The steps of a run and what they touch; then what needs what. */
#include "model.h"

#include <string.h>

#define NO_ITEM UINT32_MAX

vm_legal *vm_legal_new(const isa_alloc *al, unsigned nengines) {
  vm_legal *l = isa_zalloc(al, sizeof *l);
  if (!l) return NULL;
  l->al = *al;
  l->nengines = nengines;
  /* No engine has triggered it yet. */
  for (unsigned q = 0; q < LG_QUEUES; q++) l->queues[q].engine = UINT8_MAX;
  return l;
}

static void free_array(const vm_legal *l, void *p, size_t n, size_t size) {
  if (p) isa_free(&l->al, p, n * size);
}

void vm_legal_free(vm_legal *l) {
  if (!l) return;
  for (unsigned e = 0; e < l->nengines; e++) {
    vm_lg_engine *en = &l->eng[e];
    free_array(l, en->steps, en->cap_steps, sizeof *en->steps);
    free_array(l, en->items, en->cap_items, sizeof *en->items);
    free_array(l, en->flights, en->cap_flights, sizeof *en->flights);
    /* The four indices are one block (index_steps). */
    free_array(l, en->before, 4 * ((size_t)en->nsteps + 2), sizeof *en->before);
  }
  for (unsigned q = 0; q < LG_QUEUES; q++)
    free_array(l, l->queues[q].items, l->queues[q].cap, sizeof *l->queues[q].items);
  for (uint32_t f = 0; f < l->nflows; f++)
    free_array(l, l->flows[f].v, l->flows[f].cap, sizeof *l->flows[f].v);
  free_array(l, l->items, l->cap_items, sizeof *l->items);
  free_array(l, l->accesses, l->cap_accesses, sizeof *l->accesses);
  free_array(l, l->sorted, l->nsorted + 1, sizeof *l->sorted);
  free_array(l, l->alike, l->cap_alike, sizeof *l->alike);
  free_array(l, l->classes, l->nsorted + 1, sizeof *l->classes);
  free_array(l, l->flows, l->cap_flows, sizeof *l->flows);
  isa_alloc al = l->al;
  isa_free(&al, l, sizeof *l);
}

void vm_legal_give_up(vm_legal *l, const char *why) { l->why = why; }
const char *vm_legal_gave_up(const vm_legal *l) { return l->why; }
bool vm_legal_is_whole(const vm_legal *l) { return !l->no_memory; }

void vm_legal_give_keys(vm_legal *l, vm_legal_key *key, void *ud) {
  l->key = key;
  l->key_ud = ud;
}

void vm_legal_name_steps(vm_legal *l, void (*name)(void *ud, const vm_legal_step *s, isa_buf *out),
                         void *ud) {
  l->name = name;
  l->name_ud = ud;
}

void vm_legal_result_free(vm_legal_result *r) {
  isa_buf_free(&r->order[0]);
  isa_buf_free(&r->order[1]);
}

const vm_legal_step *vm_lg_step_of(const vm_legal *l, const vm_lg_item *it) {
  return &l->eng[it->engine].steps[it->step];
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* Room for one more element; false: none exists. */
static bool room(vm_legal *l, void *array, uint32_t n, uint32_t *cap, size_t size) {
  /* Once memory is out nothing is added: the judges say so. */
  if (l->no_memory) return false;
  if (n == *cap && !isa_array_grow(&l->al, array, n, cap, size)) l->no_memory = true;
  return !l->no_memory;
}

static uint32_t add_item(vm_legal *l, vm_lg_item it) {
  if (!room(l, &l->items, l->nitems, &l->cap_items, sizeof it)) return NO_ITEM;
  l->items[l->nitems] = it;
  return l->nitems++;
}

static uint32_t add_shares(vm_legal *l, const vm_legal_step *s, uint32_t step) {
  vm_lg_queue *q = &l->queues[s->queue];
  uint32_t first = l->nitems;
  /* The first transfer of a queue: its rings get their numbers. */
  if (q->engine == UINT8_MAX) {
    q->engine = s->engine;
    q->rings = s->rings;
    q->first = (uint16_t)l->nrings;
    for (unsigned r = 0; r < s->rings; r++) l->ring_queue[l->nrings++] = s->queue;
  } else if (q->engine != s->engine) {
    q->engine = LG_ENGINES;
  }
  if (!room(l, &q->items, q->n, &q->cap, sizeof *q->items)) return NO_ITEM;
  q->items[q->n++] = first;
  /* Numbered over all queues, as vm_legal_give_keys asks for them. */
  l->ntransfers++;
  for (unsigned r = 0; r < q->rings; r++)
    add_item(l, (vm_lg_item){.step = step,
                             .epoch = q->n,
                             .engine = s->engine,
                             .kind = VM_LEGAL_TRIGGER,
                             .ring = (int16_t)(q->first + r),
                             .transfer = l->ntransfers});
  return first;
}

/* The step of a sendrecv that is added after the other one's. */
static void pair_steps(vm_legal *l, unsigned e) {
  vm_lg_engine *en = &l->eng[e], *other = &l->eng[l->half_engine];
  /* The second half: the two steps name each other. */
  if (l->half) {
    en->steps[en->nsteps - 1].partner = other->nsteps - 1;
    other->steps[other->nsteps - 1].partner = en->nsteps - 1;
  }
  l->half = !l->half;
  l->half_engine = (uint8_t)e;
}

void vm_legal_add_step(vm_legal *l, const vm_legal_step *s) {
  vm_lg_engine *en = &l->eng[s->engine];
  if (!room(l, &en->steps, en->nsteps, &en->cap_steps, sizeof *s) ||
      !room(l, &en->items, en->nsteps, &en->cap_items, sizeof *en->items))
    return;
  uint32_t step = en->nsteps, item = NO_ITEM;
  if (s->kind == VM_LEGAL_FLIGHT) {
    if (!room(l, &en->flights, en->nflights, &en->cap_flights, sizeof *en->flights)) return;
    item = add_item(l, (vm_lg_item){.step = step,
                                    .epoch = en->nflights + 1,
                                    .engine = s->engine,
                                    .kind = s->kind,
                                    .ring = -1});
    en->flights[en->nflights++] = item;
    /* Up to this flight the end of reading is a moment of its own. */
    if (s->at_read) en->last_read = en->nflights;
  } else if (s->kind == VM_LEGAL_TRIGGER) {
    item = add_shares(l, s, step);
  } else if (s->kind == VM_LEGAL_TOUCH) {
    item = add_item(
        l, (vm_lg_item){
               .step = step, .epoch = step + 1, .engine = s->engine, .kind = s->kind, .ring = -1});
    en->touches = true;
  }
  if (l->no_memory) return;
  en->items[step] = item;
  en->steps[en->nsteps++] = *s;
  if (s->meets) pair_steps(l, s->engine);
}

static unsigned comp_of(const vm_lg_item *it, const vm_legal_step *s, bool writes) {
  if (it->ring >= 0) return LG_FIRST_RING + (unsigned)it->ring;
  unsigned of = LG_OF_ENGINE * it->engine;
  if (it->kind != VM_LEGAL_FLIGHT) return of + LG_SEQ;
  return of + (writes ? LG_DONE : s->weights ? LG_WEIGHTS : LG_READ);
}

static void add_access(vm_legal *l, const vm_legal_access *a, uint32_t item) {
  const vm_lg_item *it = &l->items[item];
  if (!room(l, &l->accesses, l->naccesses, &l->cap_accesses, sizeof *l->accesses)) return;
  l->accesses[l->naccesses] =
      (vm_lg_access){.a = *a,
                     .item = item,
                     .at = l->naccesses,
                     .comp = (uint16_t)comp_of(it, vm_lg_step_of(l, it), a->writes)};
  l->naccesses++;
}

void vm_legal_add_access(vm_legal *l, const vm_legal_access *a) {
  const vm_lg_engine *en = &l->eng[a->engine];
  if (l->no_memory || en->nsteps == 0) return;
  uint32_t item = en->items[en->nsteps - 1];
  /* The rings of a transfer are items one after another. */
  uint32_t ring = a->ring > 0 ? (uint16_t)a->ring : 0;
  if (item != NO_ITEM) add_access(l, a, item + ring);
}

void vm_legal_each(const vm_legal *l,
                   void (*fn)(void *ud, const vm_legal_step *s, const vm_legal_access *access),
                   void *ud) {
  uint32_t next[LG_ENGINES] = {0}, k = 0;
  for (uint32_t i = 0; i < l->nitems; i++) {
    const vm_lg_item *it = &l->items[i];
    const vm_lg_engine *en = &l->eng[it->engine];
    if (en->items[it->step] != i) continue; /* of another ring, or one that the judges added */
    while (next[it->engine] <= it->step) fn(ud, &en->steps[next[it->engine]++], NULL);
    for (; k < l->naccesses && l->accesses[k].a.region < LG_PIPE_REGION; k++) {
      const vm_lg_item *of = &l->items[l->accesses[k].item];
      if (of->engine != it->engine || of->step != it->step) break;
      fn(ud, &en->steps[it->step], &l->accesses[k].a);
    }
  }
  for (unsigned e = 0; e < l->nengines; e++)
    while (next[e] < l->eng[e].nsteps) fn(ud, &l->eng[e].steps[next[e]++], NULL);
}

/* ---- Semaphores ---------------------------------------------------------------------------- */

static void use_sem(vm_legal *l, unsigned sem) {
  for (unsigned i = 0; i < l->nsems; i++)
    if (l->sem_of[i] == sem) return;
  l->sem_at[sem] = (uint16_t)l->nsems;
  l->sem_of[l->nsems++] = (uint16_t)sem;
}

static bool lowers(const vm_legal_step *s) {
  return s->update == ISA_UPD_write || (s->update == ISA_UPD_add && s->delta < 0);
}

static bool rises(const vm_legal_step *s) {
  return s->cond == ISA_WAIT_ge || s->cond == ISA_WAIT_gt;
}

/* Increments at once are as good as later ones where nothing waits for less. */
static void add_later(vm_legal *l, unsigned sem) {
  for (unsigned e = 0; e < l->nengines; e++)
    for (uint32_t k = 0; k < l->eng[e].nsteps; k++) {
      vm_legal_step *s = &l->eng[e].steps[k];
      if (s->at_once && s->to == sem && !lowers(s)) s->at_once = false;
    }
}

/* A semaphore whose one waiter subtracts what it waited for counts too: then the sum of its
 * increments tells everything. */
static void take_as_counted(vm_legal *l, unsigned sem) {
  unsigned waiters = 0, takers = 0, adders = 0, e = 0;
  for (unsigned i = 0; i < l->nengines; i++)
    for (uint32_t k = 0; k < l->eng[i].nsteps; k++) {
      const vm_legal_step *s = &l->eng[i].steps[k];
      bool waits = s->cond != ISA_WAIT_none && s->sem == sem;
      bool updates = s->update != ISA_UPD_none && s->to == sem;
      /* A wait for less needs more than a sum. */
      if (waits && !rises(s)) return;
      if (updates && lowers(s)) {
        /* Only who takes at most what it waited for cannot bring the value below zero. */
        if (s->update != ISA_UPD_add || !s->at_once || !waits ||
            -s->delta > (int64_t)s->value + (s->cond == ISA_WAIT_gt))
          return;
        takers |= 1u << i;
      } else if (updates && s->at_once)
        adders |= 1u << i;
      if (waits) waiters |= 1u << i;
    }
  /* Several takers, or waiters that do not take: who comes first matters. */
  if (takers && (takers != waiters || (takers & (takers - 1)))) return;
  if (adders) add_later(l, sem);
  if (!takers) return;
  while (!(takers >> e & 1)) e++;
  /* What was taken before is added to each later wait: the semaphore then only rises. */
  int64_t taken = 0;
  for (uint32_t k = 0; k < l->eng[e].nsteps; k++) {
    vm_legal_step *s = &l->eng[e].steps[k];
    if (s->cond == ISA_WAIT_none || s->sem != sem) continue;
    s->value += (uint32_t)taken;
    if (!s->at_once || s->to != sem) continue;
    taken -= s->delta;
    s->update = ISA_UPD_none;
    s->at_once = false;
  }
}

/* Waits, on a semaphore that only rises, that say the same in other words: != 0, and == or <= the
 * most that it comes to. */
static void say_plainly(vm_legal_step *s, int64_t most) {
  if (s->cond == ISA_WAIT_ne && s->value == 0) s->cond = ISA_WAIT_gt;
  if (s->cond == ISA_WAIT_eq && most <= (int64_t)s->value) s->cond = ISA_WAIT_ge;
  if ((s->cond == ISA_WAIT_le && most <= (int64_t)s->value) ||
      (s->cond == ISA_WAIT_lt && most < (int64_t)s->value))
    s->cond = ISA_WAIT_none;
}

/* The most that each semaphore comes to; INT64_MAX where it does not only rise. */
static void find_most(const vm_legal *l, int64_t most[LG_SEMS]) {
  for (unsigned e = 0; e < l->nengines; e++)
    for (uint32_t k = 0; k < l->eng[e].nsteps; k++) {
      const vm_legal_step *s = &l->eng[e].steps[k];
      if (s->update == ISA_UPD_none || most[s->to] == INT64_MAX) continue;
      most[s->to] += s->update == ISA_UPD_dma ? s->rings : s->delta;
      if (lowers(s) || s->at_once) most[s->to] = INT64_MAX;
    }
}

static void simplify_waits(vm_legal *l) {
  int64_t most[LG_SEMS] = {0};
  find_most(l, most);
  for (unsigned e = 0; e < l->nengines; e++)
    for (uint32_t k = 0; k < l->eng[e].nsteps; k++) {
      vm_legal_step *s = &l->eng[e].steps[k];
      if (s->cond != ISA_WAIT_none && most[s->sem] != INT64_MAX) say_plainly(s, most[s->sem]);
    }
}

static void scan_sems(vm_legal *l) {
  memset(l->mixed, 0, sizeof l->mixed);
  for (unsigned e = 0; e < l->nengines; e++)
    for (uint32_t k = 0; k < l->eng[e].nsteps; k++) {
      const vm_legal_step *s = &l->eng[e].steps[k];
      if (s->cond != ISA_WAIT_none) {
        use_sem(l, s->sem);
        l->waited[s->sem] = true;
        if (!rises(s)) l->mixed[s->sem] = true;
      }
      if (s->update != ISA_UPD_none) {
        use_sem(l, s->to);
        if (lowers(s) || s->at_once) l->mixed[s->to] = true;
      }
    }
}

static vm_lg_flow *flow_of(vm_legal *l, unsigned comp, unsigned sem, unsigned twin) {
  for (uint32_t f = 0; f < l->nflows; f++)
    if (l->flows[f].comp == comp && l->flows[f].sem == sem && l->flows[f].twin == twin)
      return &l->flows[f];
  if (!room(l, &l->flows, l->nflows, &l->cap_flows, sizeof *l->flows)) return NULL;
  l->flows[l->nflows] =
      (vm_lg_flow){.comp = (uint16_t)comp, .sem = (uint16_t)sem, .twin = (uint16_t)twin};
  return &l->flows[l->nflows++];
}

static void add_flow(vm_legal *l, unsigned comp, uint32_t epoch, const vm_legal_step *s,
                     uint32_t step) {
  uint32_t twin_epoch = 0, twin = 0;
  /* The ring of the other half must have ended, too. */
  if (s->meets && s->kind == VM_LEGAL_TRIGGER)
    twin = LG_FIRST_RING + vm_lg_twin_ring(l, s, comp - LG_FIRST_RING, &twin_epoch);
  vm_lg_flow *f = flow_of(l, comp, s->to, twin);
  if (!f || !room(l, &f->v, f->n, &f->cap, sizeof *f->v)) return;
  f->v[f->n++] = (vm_lg_update){.epoch = epoch,
                                .twin_epoch = twin_epoch,
                                .delta = s->update == ISA_UPD_dma ? 1 : s->delta,
                                .writes = s->update == ISA_UPD_write,
                                .engine = s->engine,
                                .step = step};
}

/* The updates of a step that take time to arrive at a semaphore that does more than count. */
static void add_flows(vm_legal *l, unsigned e, uint32_t step) {
  const vm_lg_engine *en = &l->eng[e];
  const vm_legal_step *s = &en->steps[step];
  unsigned of = LG_OF_ENGINE * e;
  /* A semaphore that only counts needs no order of arrivals. */
  if (s->update == ISA_UPD_none || s->at_once || !l->mixed[s->to]) return;
  if (s->kind == VM_LEGAL_TRIGGER) {
    const vm_lg_queue *q = &l->queues[s->queue];
    const vm_lg_item *it = &l->items[en->items[step]];
    for (unsigned r = 0; r < q->rings; r++)
      add_flow(l, LG_FIRST_RING + q->first + r, it->epoch, s, step);
  } else if (s->kind == VM_LEGAL_FLIGHT) {
    unsigned comp = of + (s->at_read ? LG_READ : s->weights ? LG_WEIGHTS : LG_DONE);
    add_flow(l, comp, l->items[en->items[step]].epoch, s, step);
  } else {
    add_flow(l, of + LG_SEQ, step + 1, s, step);
  }
}

/* ---- Classes ------------------------------------------------------------------------------- */

/* The order of two accesses in all but time: bytes, component, direction. */
static int compare_class(const vm_lg_access *x, const vm_lg_access *y) {
  const isa_byteset *a = &x->a.set, *b = &y->a.set;
#define BY(p, q) \
  if ((p) != (q)) return (p) < (q) ? -1 : 1
  BY(x->a.region, y->a.region);
  BY(a->start, b->start);
  BY(x->a.p0, y->a.p0);
  BY(x->a.p1, y->a.p1);
  BY(a->run, b->run);
  BY(a->n, b->n);
  for (unsigned d = 0; d < a->n; d++) {
    BY(a->step[d], b->step[d]);
    BY(a->num[d], b->num[d]);
  }
  BY(x->comp, y->comp);
  BY(x->a.writes, y->a.writes);
  return 0;
}

static bool in_order(const vm_legal *l, uint32_t i, uint32_t j) {
  const vm_lg_access *x = &l->accesses[i], *y = &l->accesses[j];
  int by = compare_class(x, y);
  return by ? by < 0 : x->at < y->at;
}

static void sift(const vm_legal *l, uint32_t *v, uint32_t from, uint32_t n) {
  for (uint32_t at = from, child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && in_order(l, v[child], v[child + 1])) child++;
    if (!in_order(l, v[at], v[child])) return;
    uint32_t t = v[at];
    v[at] = v[child];
    v[child] = t;
  }
}

static bool sort_accesses(vm_legal *l) {
  uint32_t n = l->naccesses;
  l->sorted = isa_zalloc(&l->al, (n + 1) * sizeof *l->sorted);
  l->classes = isa_zalloc(&l->al, (n + 1) * sizeof *l->classes);
  l->nsorted = n;
  if (!l->sorted || !l->classes) return false;
  for (uint32_t i = 0; i < n; i++) l->sorted[i] = i;
  for (uint32_t i = n / 2; i-- > 0;) sift(l, l->sorted, i, n);
  for (uint32_t i = n; i-- > 1;) {
    uint32_t t = l->sorted[0];
    l->sorted[0] = l->sorted[i];
    l->sorted[i] = t;
    sift(l, l->sorted, 0, i);
  }
  for (uint32_t i = 0; i < n; i++) {
    bool again =
        i && compare_class(&l->accesses[l->sorted[i - 1]], &l->accesses[l->sorted[i]]) == 0;
    if (!again) l->classes[l->nclasses++] = (vm_lg_class){i, 0};
    l->classes[l->nclasses - 1].n++;
  }
  return true;
}

bool vm_lg_meet(const vm_legal_access *a, const vm_legal_access *b) {
  return a->region == b->region && a->p0 < b->p1 && b->p0 < a->p1 &&
         isa_byteset_meet(&a->set, &b->set);
}

void vm_lg_each_meeting(const vm_legal *l,
                        void (*fn)(void *ud, const vm_lg_class *a, const vm_lg_class *b),
                        void *ud) {
  for (uint32_t i = 0; i < l->nclasses; i++) {
    const vm_legal_access *a = &vm_lg_access_of(l, &l->classes[i], 0)->a;
    for (uint32_t j = i; j < l->nclasses; j++) {
      const vm_legal_access *b = &vm_lg_access_of(l, &l->classes[j], 0)->a;
      /* Sorted by their first bytes: no later class can meet this one. */
      if (b->region != a->region || b->set.start >= a->set.start + a->set.span[0]) break;
      if ((a->writes || b->writes) && vm_lg_meet(a, b)) fn(ud, &l->classes[i], &l->classes[j]);
    }
  }
}

/* What `later` does waits for what the same data path did before with the same bytes. */
static void note_hazards(vm_legal *l, const vm_lg_class *before, const vm_lg_class *later) {
  uint32_t k = 0, last = 0;
  for (uint32_t i = 0; i < later->n; i++) {
    vm_lg_item *it = &l->items[vm_lg_access_of(l, later, i)->item];
    if (it->kind == VM_LEGAL_FLIGHT && it->engine == ISA_ENG_tensor) return;
    for (; k < before->n; k++) {
      const vm_lg_item *old = vm_lg_item_of(l, vm_lg_access_of(l, before, k));
      /* Only what came before in the engine's order. */
      if (old->step >= it->step) break;
      last = old->epoch;
    }
    if (last > it->hazard) it->hazard = last;
  }
}

static bool of_flight(const vm_lg_access *a) {
  return a->comp < LG_FIRST_RING && a->comp % LG_OF_ENGINE != LG_SEQ;
}

static void find_hazards(void *ud, const vm_lg_class *a, const vm_lg_class *b) {
  vm_legal *l = ud;
  const vm_lg_access *x = vm_lg_access_of(l, a, 0), *y = vm_lg_access_of(l, b, 0);
  if (x->comp >= LG_FIRST_RING || y->comp >= LG_FIRST_RING || !vm_lg_same_source(x->comp, y->comp))
    return;
  if (of_flight(x)) note_hazards(l, a, b);
  if (of_flight(y) && a != b) note_hazards(l, b, a);
}

/* The place of an engine before a step that must not be open together with another engine's: as if
 * both wrote one byte of that region. */
static void add_standing(vm_legal *l, unsigned e, uint32_t step, unsigned region) {
  vm_legal_access a = {.region = (uint16_t)region, .p1 = 1, .writes = true};
  vm_lg_engine *en = &l->eng[e];
  uint32_t item = en->open[step];
  isa_byteset_make(0, 1, NULL, 0, &a.set);
  a.engine = (uint8_t)e;
  a.ring = -1;
  if (item == NO_ITEM)
    item = add_item(l, (vm_lg_item){.step = step,
                                    .epoch = step + 1,
                                    .engine = (uint8_t)e,
                                    .kind = VM_LEGAL_TRIGGER,
                                    .ring = -1});
  if (item == NO_ITEM) return;
  en->touches = true;
  en->open[step] = item;
  add_access(l, &a, item);
}

/* Sendrecvs of a pipe by several engines of a core conflict: the other core meets the first. */
static void add_pipes(vm_legal *l) {
  uint8_t comes[ISA_MAX_CORES * LG_PIPES]; /* an engine; LG_ENGINES: several do */
  memset(comes, UINT8_MAX, sizeof comes);
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned e = 0; e < l->nengines; e++)
      for (uint32_t k = 0; k < l->eng[e].nsteps && !l->no_memory; k++) {
        const vm_legal_step *s = &l->eng[e].steps[k];
        unsigned pipe = e / ISA_NSEQS * LG_PIPES + s->pipe;
        if (!s->meets) continue;
        if (pass == 0)
          comes[pipe] = comes[pipe] == UINT8_MAX || comes[pipe] == e ? (uint8_t)e : LG_ENGINES;
        else if (comes[pipe] == LG_ENGINES)
          add_standing(l, e, k, LG_PIPE_REGION + pipe);
      }
}

/* Triggers of a queue by several engines conflict. */
static void add_triggers(vm_legal *l) {
  for (unsigned q = 0; q < LG_QUEUES; q++) {
    if (l->queues[q].engine != LG_ENGINES) continue;
    for (uint32_t t = 0; t < l->queues[q].n && !l->no_memory; t++) {
      const vm_lg_item it = l->items[l->queues[q].items[t]];
      add_standing(l, it.engine, it.step, LG_QUEUE_REGION + q);
    }
  }
}

/* What an engine's steps are looked up by. */
static bool index_steps(vm_legal *l, unsigned e) {
  vm_lg_engine *en = &l->eng[e];
  uint32_t n = en->nsteps, room_for = n + 2, load = UINT32_MAX, other = UINT32_MAX;
  en->before = isa_zalloc(&l->al, 4 * (size_t)room_for * sizeof *en->before);
  if (!en->before) return false;
  en->next_load = en->before + room_for;
  en->next_main = en->next_load + room_for;
  en->open = en->next_main + room_for;
  for (uint32_t k = 0, flights = 0; k <= n; k++) {
    en->before[k] = flights;
    flights += k < n && en->steps[k].kind == VM_LEGAL_FLIGHT;
    en->open[k] = k < n && en->steps[k].kind == VM_LEGAL_TOUCH ? en->items[k] : NO_ITEM;
  }
  for (uint32_t f = en->nflights + 1; f-- > 0;) {
    en->next_load[f] = load;
    en->next_main[f] = other;
    if (f == 0) break;
    if (en->steps[l->items[en->flights[f - 1]].step].weights)
      load = f;
    else
      other = f;
  }
  for (uint32_t k = 0; k < n; k++) add_flows(l, e, k);
  return true;
}

bool vm_lg_prepare(vm_legal *l) {
  if (l->ready) return !l->no_memory;
  l->ready = true;
  /* What counts is found first, so that fewer semaphores are mixed. */
  for (unsigned sem = 0; sem < LG_SEMS; sem++) take_as_counted(l, sem);
  simplify_waits(l);
  scan_sems(l);
  for (unsigned e = 0; e < l->nengines && !l->no_memory; e++)
    if (!index_steps(l, e)) l->no_memory = true;
  if (!l->no_memory) add_triggers(l);
  if (!l->no_memory) add_pipes(l);
  for (uint32_t i = 0; i < l->naccesses; i++) { /* where nothing reports the reading alone */
    vm_lg_access *a = &l->accesses[i];
    bool reads = a->comp < LG_FIRST_RING && a->comp % LG_OF_ENGINE == LG_READ;
    if (reads && vm_lg_item_of(l, a)->epoch > l->eng[a->comp / LG_OF_ENGINE].last_read)
      a->comp += LG_DONE - LG_READ;
  }
  if (l->no_memory || !sort_accesses(l) || !vm_lg_find_alike(l)) {
    l->no_memory = true;
    return false;
  }
  vm_lg_each_meeting(l, find_hazards, l);
  return true;
}

bool vm_legal_counts(const vm_legal *l) {
  for (unsigned sem = 0; sem < LG_SEMS; sem++)
    if (l->mixed[sem]) return false;
  return true;
}
