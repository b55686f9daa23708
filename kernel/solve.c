/* What waits for what. know[e] holds, for each source, the highest ordinal that sequencer e knows
 * complete at this point of its stream. A dependence that is known needs nothing; for another one
 * the engine waits, and then it knows all that the issuer of what it waited for knew. */
#include "impl.h"

#include <stdlib.h>

typedef struct solver {
  as_kernel *k;
  as_k_table table;
  as_k_ways ways;
  uint32_t know[ISA_NENGINES][K_SOURCES];
  uint32_t snapshot[ISA_NENGINES];            /* row of know[e], K_NONE: it has changed since */
  uint32_t count[K_SOURCES], last[K_SOURCES]; /* ordinals given, and the step of the last */
  uint16_t scope;
  uint32_t twins,
      length;        /* in the second pass over a body: its first pass's steps; else length 0 */
  uint32_t *step_of; /* of each item the first step; NULL: no orders are asked for */
  uint32_t met[K_MEETINGS]; /* 1 + the step of the last one of each kind */
} solver;

static bool take_snapshot(solver *s, unsigned e) {
  as_kernel *k = s->k;
  if (s->snapshot[e] != K_NONE) return true;
  size_t size = k->nsources * sizeof *k->snaps;
  if (!isa_array_room(&k->al, &k->snaps, k->nsnaps, &k->cap_snaps, size)) return as_k_nomem(k);
  uint32_t *row = k->snaps + (size_t)k->nsnaps * k->nsources;
  for (unsigned i = 0; i < k->nsources; i++) row[i] = s->know[e][k->sources[i]];
  s->snapshot[e] = k->nsnaps++;
  return true;
}

static void learn(solver *s, unsigned e, unsigned source, uint32_t ordinal) {
  if (s->know[e][source] >= ordinal) return;
  s->know[e][source] = ordinal;
  s->snapshot[e] = K_NONE;
}

/* Engine e has waited for a step. */
static void join(solver *s, unsigned e, const as_k_step *from) {
  const uint32_t *row = as_k_snap(s->k, from);
  /* All that the issuer knew when it issued the step, and the step itself. */
  for (unsigned i = 0; i < s->k->nsources; i++) learn(s, e, s->k->sources[i], row[i]);
  learn(s, e, from->source, from->ordinal);
  /* The array of weights is behind the tensor engine's data path. */
  if (from->source == K_DP + ISA_ENG_tensor) learn(s, e, K_WEIGHTS, from->weights);
}

static unsigned source_of(const as_k_item *it, unsigned engine, bool touches) {
  if (isa_op_is_dma(it->op)) return K_QUEUE + it->queue - 1u;
  if (as_k_is_collective(it)) return K_COLLECTIVES;
  /* One that touches no memory signals to nobody. */
  if (isa_op_is_control(it->op)) return touches ? K_SEQ + engine : (unsigned)K_SOURCES;
  return isa_ops[it->op].cost == ISA_COST_LDW ? (unsigned)K_WEIGHTS : K_DP + engine;
}

/* Whether a step of engine e comes after what that source did before, without a wait: a sequencer
 * is in order, and its data path keeps its own conflicting accesses in order. What runs on is not
 * ordered after the data path of the engine that begins it. */
static bool in_order(unsigned source, unsigned e, bool runs_on) {
  if (source == K_SEQ + e) return true;
  if (runs_on) return false;
  return source == K_DP + e || (source == K_WEIGHTS && e == ISA_ENG_tensor);
}

/* The sources that there are: queues and engines are known before the first step. */
static void find_sources(as_kernel *k) {
  uint32_t there = 0;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    if (it->op >= ISA_NOPS) continue;
    unsigned engines = it->engine < ISA_NENGINES ? 1u << it->engine : it->replicas;
    bool touches = as_k_verdict_of(k, it)->nuses > 0;
    for (; engines; engines &= engines - 1)
      there |= (uint32_t)(UINT64_C(1) << source_of(it, (unsigned)__builtin_ctz(engines), touches));
  }
  for (unsigned i = 0; i < K_SOURCES; i++) {
    k->column[i] = k->nsources;
    if (there >> i & 1) k->sources[k->nsources++] = (uint8_t)i;
  }
  if (!k->nsources) k->nsources = 1; /* rows have a size */
}

/* ---- Waits --------------------------------------------------------------------------------- */

static bool add_wait(solver *s, as_k_step *step, const as_k_needs *n, unsigned source, bool reuse) {
  as_kernel *k = s->k;
  uint32_t on = n->step[source];
  uint8_t way = n->ways >> source & 1 ? n->space[source] : 0;
  /* In the second pass over a body a wait for a step of the first pass is for the round before. */
  bool twin = s->length && on >= s->twins && on < s->twins + s->length;
  bool left = k->steps[on].scope != step->scope; /* the last round of a loop that has ended */
  if (!K_GROW(k, waits, nwaits, cap_waits)) return false;
  k->waits[k->nwaits++] =
      (as_k_wait){twin ? on + s->length : on, n->buffer[source], way, twin || left, reuse};
  if (!twin) k->steps[on].signals = true;
  step->nwaits++;
  return true;
}

/* Waits for what is needed and not known, the latest first, since it may cover the others. */
static bool wait_for(solver *s, as_k_step *step, const as_k_needs *n, bool runs_on,
                     unsigned reuse) {
  unsigned e = step->engine;
  step->waits = s->k->nwaits;
  for (uint32_t left = n->mask;;) {
    unsigned best = K_SOURCES;
    for (uint32_t rest = left; rest; rest &= rest - 1) {
      unsigned i = (unsigned)__builtin_ctz(rest);
      /* Known or in order: nothing to wait for. */
      if (n->ordinal[i] <= s->know[e][i] || in_order(i, e, runs_on))
        left &= ~(UINT32_C(1) << i);
      else if (best == K_SOURCES || n->step[i] > n->step[best])
        best = i;
    }
    if (best == K_SOURCES) return true;
    if (!add_wait(s, step, n, best, best == reuse)) return false;
    /* What it waited for may cover others of the mask. */
    join(s, e, &s->k->steps[n->step[best]]);
  }
}

static void need(as_k_needs *n, const as_kernel *k, uint32_t step) {
  const as_k_step *t = &k->steps[step];
  if (t->source < K_SOURCES) as_k_need(n, t->source, t->ordinal, step, 0);
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The next step, which counts once it is filled; NULL: memory is out. */
static as_k_step *next_step(solver *s, uint32_t item, unsigned engine, unsigned kind) {
  as_kernel *k = s->k;
  if (!K_GROW(k, steps, nsteps, cap_steps)) return NULL;
  /* Not counted yet: who asks may still fail, and then it is as if it had not been. */
  as_k_step *step = &k->steps[k->nsteps];
  *step = (as_k_step){.item = item,
                      .scope = s->scope,
                      .engine = (uint8_t)engine,
                      .source = K_SOURCES,
                      .kind = (uint8_t)kind};
  return step;
}

/* The orders that the caller asked for, found by their later item. */
static void needs_orders(const solver *s, uint32_t item, as_k_needs *n) {
  const as_kernel *k = s->k;
  uint32_t low = 0, high = k->norders;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (k->orders[mid].later < item)
      low = mid + 1;
    else
      high = mid;
  }
  for (; low < k->norders && k->orders[low].later == item; low++) {
    uint32_t earlier = k->orders[low].earlier;
    /* All steps of the earlier item, one for each engine that runs it. */
    for (uint32_t t = s->step_of[earlier]; t < k->nsteps && k->steps[t].item == earlier; t++)
      need(n, k, t);
  }
}

static void needs_all(const solver *s, as_k_needs *n) {
  for (unsigned i = 0; i < K_SOURCES; i++)
    if (s->count[i]) need(n, s->k, s->last[i]);
}

/* In a loop a transfer has a semaphore of its own, so that of the round before must be complete,
 * and known to be by who triggers it. */
static unsigned needs_twin(solver *s, unsigned source, as_k_needs *n) {
  /* The body has the same steps in both passes, so its twin is `length` before. */
  uint32_t twin = s->k->nsteps - s->length;
  if (!s->length || source < K_QUEUE || source >= K_SOURCES) return K_SOURCES;
  const as_k_step *t = &s->k->steps[twin];
  if ((n->mask >> source & 1) && n->ordinal[source] >= t->ordinal) return K_SOURCES;
  need(n, s->k, twin);
  return source;
}

/* One comes to its meeting after the one before it, which another engine or queue may have: those
 * of one queue end in order on both cores. */
static void needs_meeting(solver *s, const as_k_item *it, unsigned source, as_k_needs *n) {
  unsigned kind = as_k_meeting_kind(s->k, it);
  if (kind == K_MEETINGS) return;
  uint32_t last = s->met[kind];
  /* Those of one source are in order anyway. */
  if (last && s->k->steps[last - 1].source != source) need(n, s->k, last - 1);
  s->met[kind] = s->k->nsteps + 1;
}

static bool solve_on(solver *s, uint32_t item, unsigned e) {
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  unsigned nuses = as_k_used(k, it, &uses);
  bool runs_on = as_k_runs_on(it);
  as_k_needs n;
  as_k_box boxes[K_OPERANDS];
  as_k_step *step = next_step(s, item, e, K_STEP_ITEM);
  if (!step) return false;
  n.mask = n.ways = 0;
  step->source = (uint8_t)source_of(it, e, nuses > 0);
  unsigned ways = step->source < K_SEQ ? as_k_verdict_of(k, it)->ways[e] : 0;
  for (unsigned u = 0; u < nuses; u++)
    /* Conflicts with all that touched the same bytes, of the operands in turn. */
    as_k_table_find(&s->table, it->ops + uses[u].operand, uses[u].writes, &boxes[u], &n);
  if (k->norders) needs_orders(s, item, &n);
  needs_meeting(s, it, step->source, &n);
  if (k->o.flags & AS_KERNEL_KEEP_ORDER) needs_all(s, &n);
  unsigned reuse = needs_twin(s, step->source, &n);
  if (ways) as_k_ways_find(k, &s->ways, ways, e, &n);
  if (!wait_for(s, step, &n, runs_on, reuse)) return false;
  if (step->source < K_SOURCES) {
    /* A sequencer knows its own step at once, others when it has ended. */
    step->ordinal = ++s->count[step->source];
    if (step->source == K_SEQ + e) learn(s, e, step->source, step->ordinal);
    step->weights = s->count[K_WEIGHTS];
    if (!take_snapshot(s, e)) return false;
    step->snapshot = s->snapshot[e];
    s->last[step->source] = k->nsteps;
  }
  bool kills = step->source < K_SEQ || runs_on;
  uint32_t number = k->nsteps++;
  as_k_ways_note(&s->ways, ways, e, number);
  for (unsigned u = 0; u < nuses; u++)
    if (!as_k_table_note(&s->table, &boxes[u], number, kills)) return false;
  return true;
}

static bool solve_item(solver *s, uint32_t item) {
  as_kernel *k = s->k;
  const as_k_item *it = &k->items[item];
  if (s->step_of) s->step_of[item] = k->nsteps;
  if (it->engine < ISA_NENGINES) return solve_on(s, item, it->engine);
  /* A replicated one is a step of each engine. */
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if ((it->replicas >> e & 1) && !solve_on(s, item, e)) return false;
  return true;
}

/* ---- Loops --------------------------------------------------------------------------------- */

unsigned as_k_meeting(const as_kernel *k, const as_k_loop *l) {
  return l->parent ? k->loops[l->parent - 1].engines : k->engines;
}

unsigned as_k_depth(const as_kernel *k, const as_k_loop *l) {
  unsigned n = 0;
  for (; l->parent; l = &k->loops[l->parent - 1]) n++;
  return n;
}

/* The engines meet, each with its transfers and collectives complete and its data path empty:
 * everything is known to everybody. */
static bool meet(solver *s, uint32_t item) {
  as_kernel *k = s->k;
  unsigned engines = as_k_meeting(k, &k->loops[k->items[item].loop - 1]);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    as_k_needs n;
    if (!(engines >> e & 1)) continue;
    as_k_step *step = next_step(s, item, e, K_STEP_MEET);
    if (!step) return false;
    n.mask = n.ways = 0;
    for (uint32_t q = 0; q < k->nqueues; q++)
      /* Each engine waits for what it has begun itself; together that is all. */
      if (k->queues[q].engine == e && s->count[K_QUEUE + q]) need(&n, k, s->last[K_QUEUE + q]);
    if (s->count[K_COLLECTIVES] && k->steps[s->last[K_COLLECTIVES]].engine == e)
      need(&n, k, s->last[K_COLLECTIVES]);
    if (!wait_for(s, step, &n, true, K_SOURCES)) return false;
    k->nsteps++;
  }
  for (unsigned e = 0; e < ISA_NENGINES; e++) /* after the meeting everybody knows all */
    for (unsigned i = 0; i < K_SOURCES && (engines >> e & 1); i++) learn(s, e, i, s->count[i]);
  as_k_table_clear(&s->table);
  return true;
}

static bool ends(solver *s, uint32_t item, unsigned engines, unsigned kind) {
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (!(engines >> e & 1)) continue;
    if (!next_step(s, item, e, kind)) return false;
    s->k->nsteps++;
  }
  return true;
}

static bool solve_items(solver *s, uint32_t first, uint32_t end);

/* The body is solved twice: after nothing, and after its own end, which is what every later round
 * follows. The second solution counts; what it waits for in the round before has come in the first
 * round as well. */
static bool solve_loop(solver *s, uint32_t number) {
  as_kernel *k = s->k;
  const as_k_loop *l = &k->loops[number - 1];
  /* A copy of the state outside, for its scope and twins. */
  solver outer = *s;
  if (!l->engines) return true; /* nothing to do in it */
  if (!meet(s, l->first)) return false;
  s->scope = (uint16_t)number;
  s->length = 0;
  if (!ends(s, l->first, l->engines, K_STEP_TOP)) return false;
  uint32_t first = k->nsteps, waits = k->nwaits;
  if (!solve_items(s, l->first + 1, l->last)) return false;
  /* The first solution's steps are not made; the second refers to them only as those of the round
   * before. */
  for (uint32_t i = first; i < k->nsteps; i++) k->steps[i].dead = true;
  uint32_t length = k->nsteps - first;
  s->twins = first;
  s->length = length;
  if (!solve_items(s, l->first + 1, l->last)) return false;
  /* Waits for the round before were noted with the second pass's number, which has its step now. */
  for (uint32_t i = waits; i < k->nwaits; i++)
    if (k->waits[i].before && k->waits[i].step < k->nsteps)
      k->steps[k->waits[i].step].signals = true;
  k->scopes[number].first = first + length;
  k->scopes[number].end = k->nsteps;
  if (!ends(s, l->last, l->engines, K_STEP_BOTTOM)) return false;
  s->scope = outer.scope;
  s->twins = outer.twins;
  s->length = outer.length;
  if (!meet(s, l->last)) return false;
  k->scopes[number].left = k->nsteps;
  return true;
}

static bool solve_items(solver *s, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    const as_k_item *it = &s->k->items[i];
    if (it->op == K_LOOP || it->op == K_WHILE) {
      if (!solve_loop(s, it->loop)) return false;
      /* solve_loop has done its items. */
      i = s->k->loops[it->loop - 1].last;
    } else if (!solve_item(s, i)) {
      return false;
    }
  }
  return true;
}

static int by_later(const void *a, const void *b) {
  const as_k_order *x = a, *y = b;
  return (x->later > y->later) - (x->later < y->later);
}

static bool open_orders(solver *s) {
  as_kernel *k = s->k;
  if (!k->norders) return true;
  qsort(k->orders, k->norders, sizeof *k->orders, by_later);
  s->step_of = isa_zalloc(&k->al, k->nitems * sizeof *s->step_of);
  return s->step_of || as_k_nomem(k);
}

/* An item has about one step, one wait and one snapshot, but for loops. */
static bool reserve(as_kernel *k) {
  uint32_t n = k->nitems;
  return (isa_array_reserve(&k->al, &k->steps, n, &k->cap_steps, sizeof *k->steps) &&
          isa_array_reserve(&k->al, &k->waits, n, &k->cap_waits, sizeof *k->waits) &&
          isa_array_reserve(&k->al, &k->snaps, n, &k->cap_snaps, k->nsources * sizeof *k->snaps)) ||
         as_k_nomem(k);
}

bool as_k_solve(as_kernel *k) {
  if (k->nloops > UINT16_MAX) /* the scope of a step */
    return as_k_fail(k, ISA_LIMIT, k->loops[UINT16_MAX].range.at,
                     "a kernel has at most %d loops at run time", UINT16_MAX);
  solver *s = isa_zalloc(&k->al, sizeof *s);
  if (!s) return as_k_nomem(k);
  s->k = k;
  k->cap_scopes = k->nloops + 1;
  k->scopes = isa_zalloc(&k->al, k->cap_scopes * sizeof *k->scopes);
  for (unsigned e = 0; e < ISA_NENGINES; e++) s->snapshot[e] = K_NONE;
  bool ok = k->scopes ? as_k_table_open(&s->table, k) : as_k_nomem(k);
  find_sources(k);
  ok = ok && reserve(k) && open_orders(s) && solve_items(s, 0, k->nitems);
  if (k->scopes) k->scopes[0].end = k->nsteps;
  as_k_table_close(&s->table);
  isa_free(&k->al, s->step_of, k->nitems * sizeof *s->step_of);
  isa_free(&k->al, s, sizeof *s);
  return ok;
}
