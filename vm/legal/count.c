/* The judge of semaphores that only count up, with waits for a value or more. What can happen then
 * stays possible. Take one execution in which a component (a data path, a ring ...) stops for ever
 * before an access ends, and all else runs as far as it can: it shows all that can begin before
 * that access ends. Two accesses race if each can begin before the other ends. */
#include "model.h"

#include <string.h>

enum { MOST_CELLS = 1 << 26 }; /* components times items */
/* No number is reached: steps, flights and shares are fewer. */
#define NEVER UINT32_MAX

/* An execution in which components do not go beyond their limits. */
typedef struct run {
  vm_legal *l;
  uint32_t *v;
  /* Up to two components stop: one while needs are found, both for the execution that
   * is shown. */
  unsigned held[2];
  uint32_t limit[2];
  uint32_t *stack, n; /* engines and rings that may have something to do */
  bool *on_stack;
  uint64_t moves;
  uint32_t *need;   /* of each item; NULL: not asked for */
  vm_lg_path *path; /* where moves are noted, NULL: nowhere */
} run;

/* Without this a queue's rings would be pushed once for every trigger. */
static void push(run *x, uint32_t actor) {
  /* Each actor is on the stack once. */
  if (x->on_stack[actor]) return;
  x->on_stack[actor] = true;
  x->stack[x->n++] = actor;
}

/* At the beginning nothing is known of what can happen. */
static void push_all(run *x) {
  for (uint32_t i = 0; i < x->l->nengines + x->l->nrings; i++) push(x, i);
}

/* Engines that wait for a semaphore. */
static void wake(run *x, const vm_legal_step *s) {
  /* Only its waiters can have got something to do. */
  if (s->update == ISA_UPD_none) return;
  for (unsigned e = 0; e < x->l->nengines; e++) {
    uint32_t pos = x->v[LG_WORDS * e + LG_POS];
    const vm_lg_engine *en = &x->l->eng[e];
    if (pos < en->nsteps && en->steps[pos].cond != ISA_WAIT_none && en->steps[pos].sem == s->to)
      /* An engine waits at its current step only, so that is all there is to compare. */
      push(x, e);
  }
}

static void note(run *x, uint32_t item) {
  /* The least limit with which it starts, since limits only grow. */
  if (x->need && item != NEVER && x->need[item] == NEVER) x->need[item] = x->limit[0];
}

static bool is_held(const run *x, const vm_lg_move *m) {
  unsigned comp = vm_lg_comp_of(m);
  /* An end completes its number; steps and shares count from 0. */
  uint32_t to = m->number + (m->what == LG_STEP || m->what == LG_SHARE);
  /* The limit is the greatest number that the component may reach. */
  for (unsigned i = 0; i < 2; i++)
    if (comp == x->held[i] && to > x->limit[i]) return true;
  return false;
}

/* Notes where an engine was before the move.
 * A touch is open while its engine stands before the step, so it is noted when the
 * engine leaves. */
static void note_standing(run *x, const vm_lg_move *m) {
  if (m->what == LG_STEP) note(x, vm_lg_open_touch(x->l, x->v, m->who));
}

static bool make(run *x, vm_lg_move m) {
  vm_lg_move twin;
  /* The state may change only once all has been asked. */
  note_standing(x, &m);
  if (!vm_lg_can(x->l, x->v, &m)) return false;
  if (vm_lg_twin(x->l, &m, &twin)) {
    note_standing(x, &twin);
    /* Both halves must be free to move. */
    if (is_held(x, &twin)) return false;
  }
  if (is_held(x, &m) || !vm_lg_do(x->l, x->v, &m)) return false;
  if (x->path) vm_lg_path_add(x->l, x->path, &m);
  /* Told in the result, so that users see what the judge had to do. */
  x->moves++;
  return true;
}

static void run_ring(run *x, uint32_t r) {
  const vm_lg_queue *q = &x->l->queues[x->l->ring_queue[r]];
  /* A ring ends its shares one after the other. */
  vm_lg_move m = {.what = LG_SHARE, .who = (uint16_t)r};
  do {
    note(x, vm_lg_open_share(x->l, x->v, r));
    if (!make(x, m)) return;
    /* The share that has just ended. */
    uint32_t done = x->v[vm_lg_ring_at(x->l, r)] - 1;
    const vm_legal_step *s = vm_lg_step_of(x->l, &x->l->items[q->items[done]]);
    wake(x, s);
    /* The signal of a sendrecv may be sent by whichever half ends later. */
    if (s->meets) wake(x, vm_lg_partner(x->l, s));
  } while (true);
}

/* The other half has gone on as well. */
static void push_partner(run *x, const vm_legal_step *s) {
  if (!s->meets) return;
  /* meets is the engine's number + 1. */
  push(x, s->meets - 1u);
  wake(x, vm_lg_partner(x->l, s));
  /* Its rings have a share to end now as well. */
  const vm_lg_queue *q = &x->l->queues[vm_lg_partner(x->l, s)->queue];
  if (s->kind == VM_LEGAL_TRIGGER)
    for (unsigned r = 0; r < q->rings; r++) push(x, x->l->nengines + q->first + r);
}

static void stepped(run *x, unsigned e) {
  const vm_legal_step *s = &x->l->eng[e].steps[x->v[LG_WORDS * e + LG_POS] - 1];
  /* The engine has just left this step. */
  push_partner(x, s);
  if (s->kind == VM_LEGAL_TRIGGER) {
    const vm_lg_queue *q = &x->l->queues[s->queue];
    for (unsigned r = 0; r < q->rings; r++) push(x, x->l->nengines + q->first + r);
  } else if (s->kind != VM_LEGAL_FLIGHT) {
    wake(x, s);
  }
}

static void run_engine(run *x, unsigned e) {
  /* Each end is a move on its own, with the word of the state that it counts up. */
  static const uint8_t ends[] = {LG_LOADED, LG_READ_END, LG_END};
  static const uint8_t word[] = {LG_W, LG_R, LG_D};
  /* Until nothing moves: an end may let the sequencer go on, and a step may start a
   * flight. */
  const vm_lg_engine *en = &x->l->eng[e];
  for (bool more = true; more;) {
    more = false;
    while (make(x, (vm_lg_move){.what = LG_STEP, .who = (uint16_t)e})) {
      stepped(x, e);
      more = true;
    }
    /* Starts cost no move; they are noted as they happen. */
    for (uint32_t item; (item = vm_lg_start(x->l, x->v, e)) != NEVER;) note(x, item);
    for (unsigned i = 0; i < 3; i++)
      while (make(x, (vm_lg_move){.what = ends[i], .who = (uint16_t)e})) {
        uint32_t f = x->v[LG_WORDS * e + word[i]];
        const vm_legal_step *s = vm_lg_step_of(x->l, &x->l->items[en->flights[f - 1]]);
        wake(x, s);
        push_partner(x, s);
        more = true;
      }
  }
}

/* Runs as far as it can.
 * The order of actors does not matter: what can happen stays possible. */
static void run_on(run *x) {
  while (x->n) {
    uint32_t actor = x->stack[--x->n];
    x->on_stack[actor] = false;
    if (actor < x->l->nengines)
      run_engine(x, actor);
    else
      run_ring(x, actor - x->l->nengines);
  }
}

static void begin(run *x, unsigned comp, unsigned other) {
  /* From the beginning each time: a state with higher limits cannot be taken back. */
  memset(x->v, 0, vm_lg_words(x->l) * sizeof *x->v);
  x->held[0] = comp;
  x->held[1] = other;
  x->n = 0;
  push_all(x);
}

static void close_run(run *x) {
  /* Arrays that were never had are passed over, so this also ends an open that failed. */
  size_t actors = x->l->nengines + x->l->nrings;
  vm_lg_free_state(x->l, x->v);
  if (x->stack) isa_free(&x->l->al, x->stack, actors * sizeof *x->stack);
  if (x->on_stack) isa_free(&x->l->al, x->on_stack, actors * sizeof *x->on_stack);
}

static bool open_run(run *x, vm_legal *l) {
  size_t actors = l->nengines + l->nrings;
  *x = (run){.l = l, .v = vm_lg_new_state(l)};
  x->stack = isa_zalloc(&l->al, actors * sizeof *x->stack);
  x->on_stack = isa_zalloc(&l->al, actors * sizeof *x->on_stack);
  if (x->v && x->stack && x->on_stack) return true;
  close_run(x);
  return false;
}

/* ---- Needs --------------------------------------------------------------------------------- */

/* need[slot of a component][item]: the least limit of the component with which the item starts.
 * A table of slots by items, filled with NEVER where an item cannot start at all before
 * the component ends. */
typedef struct needs {
  vm_legal *l;
  uint32_t *slot; /* of each component, from 1 on; 0: no access of it overlaps another's */
  uint32_t ncomps, nslots;
  uint32_t *v;
  const vm_lg_access *best[2];
  vm_lg_excuse excuse;
} needs;

static const uint32_t *need_of(const needs *n, unsigned comp) {
  return n->v + (size_t)(n->slot[comp] - 1) * n->l->nitems;
}

/* Only components of which some access overlaps another's need a row. */
static void mark_slots(void *ud, const vm_lg_class *a, const vm_lg_class *b) {
  needs *n = ud;
  unsigned x = vm_lg_access_of(n->l, a, 0)->comp, y = vm_lg_access_of(n->l, b, 0)->comp;
  /* One source keeps its own order. */
  if (vm_lg_same_source(x, y)) return;
  if (!n->slot[x]) n->slot[x] = ++n->nslots;
  if (!n->slot[y]) n->slot[y] = ++n->nslots;
}

static void hold(run *x, unsigned comp, uint32_t limit) {
  /* Nothing new can happen under the same limit.
   * Accesses of one component come in the order of their limits. */
  if (limit == x->limit[0]) return;
  x->limit[0] = limit;
  /* Only the component that was held can have something new to do; the rest follows
   * from it. */
  push(x, comp < LG_FIRST_RING ? comp / LG_OF_ENGINE : x->l->nengines + comp - LG_FIRST_RING);
  run_on(x);
}

/* Stops one component before each of its accesses in turn. */
static void find_needs(run *x, const needs *n, unsigned comp) {
  /* The row of the component in the table. */
  const vm_legal *l = n->l;
  x->need = n->v + (size_t)(n->slot[comp] - 1) * l->nitems;
  begin(x, comp, NEVER);
  /* Filled in by the first hold. */
  x->limit[0] = NEVER;
  /* A sequencer may be stopped at any step, since touches are where it stands. */
  if (comp < LG_FIRST_RING && comp % LG_OF_ENGINE == LG_SEQ) {
    for (uint32_t i = 0; i < l->eng[comp / LG_OF_ENGINE].nsteps; i++) hold(x, comp, i);
    return;
  }
  for (uint32_t i = 0; i < l->naccesses; i++)
    /* One before the access's own number: it starts, but does not end. */
    if (l->accesses[i].comp == comp) hold(x, comp, vm_lg_item_of(l, &l->accesses[i])->epoch - 1);
}

/* Whether y begins only when x has ended.
 * Unless the limit lets the other one begin, it comes after the end. */
static bool before(const needs *n, const vm_lg_access *x, const vm_lg_access *y) {
  return vm_lg_item_of(n->l, x)->epoch <= need_of(n, x->comp)[y->item];
}

/* The own write surely before the read; the two writes in no order. */
static bool saves(void *ud, const vm_lg_access *mine, const vm_lg_access *write,
                  const vm_lg_access *read) {
  return before(ud, mine, read) && !before(ud, mine, write) && !before(ud, write, mine);
}

/* A race is as late as its later access; the run's first race is the one to tell. */
static bool is_earlier(const needs *n, const vm_lg_access *x, const vm_lg_access *y) {
  uint32_t at = x->at > y->at ? x->at : y->at;
  return !n->best[0] || n->best[0]->at > at || n->best[1]->at > at;
}

/* The first race of two classes, if it is earlier than the best. */
static void compare(void *ud, const vm_lg_class *a, const vm_lg_class *b) {
  needs *n = ud;
  const vm_legal *l = n->l;
  /* Classes have one component each, so the first access tells it. */
  unsigned c = vm_lg_access_of(l, a, 0)->comp, d = vm_lg_access_of(l, b, 0)->comp;
  if (vm_lg_same_source(c, d)) return;
  const uint32_t *before_a = need_of(n, c), *before_b = need_of(n, d);
  /* Both classes are in the order of their components: two marks go once through b. */
  uint32_t lo = 0, hi = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    const vm_lg_access *x = vm_lg_access_of(l, a, i);
    uint32_t epoch = vm_lg_item_of(l, x)->epoch, need = before_b[x->item];
    /* hi: y before it can begin while x is open. */
    while (hi < b->n && before_a[vm_lg_access_of(l, b, hi)->item] < epoch) hi++;
    /* lo: y before it have surely ended when x begins. */
    while (lo < b->n && vm_lg_item_of(l, vm_lg_access_of(l, b, lo))->epoch <= need) lo++;
    for (uint32_t j = lo; j < hi; j++) {
      const vm_lg_access *y = vm_lg_access_of(l, b, j);
      /* Later pairs of this x come later in the run. */
      if (!is_earlier(n, x, y)) break;
      /* An excused pair says nothing of the later ones. */
      if (vm_lg_excused(l, &n->excuse, x, y)) continue;
      n->best[0] = x;
      n->best[1] = y;
      break;
    }
  }
}

static bool open_needs(needs *n, vm_legal *l) {
  /* Engines' components come first, then one for each ring. */
  *n = (needs){.l = l, .ncomps = LG_FIRST_RING + l->nrings, .excuse = {.saves = saves, .ud = n}};
  n->slot = isa_zalloc(&l->al, n->ncomps * sizeof *n->slot);
  if (n->slot) vm_lg_each_meeting(l, mark_slots, n);
  return n->slot != NULL;
}

/* Cells are passed in, because slots may have been counted for a table that was too
 * large. */
static void close_needs(needs *n, size_t cells) {
  if (n->v) isa_free(&n->l->al, n->v, cells * sizeof *n->v);
  if (n->slot) isa_free(&n->l->al, n->slot, n->ncomps * sizeof *n->slot);
}

/* An execution in which both accesses are open. */
static void tell(vm_legal *l, run *x, const vm_lg_access *a, const vm_lg_access *b,
                 vm_legal_result *out) {
  vm_lg_path path = {0};
  /* The execution is for the reader; needs are known by then. */
  x->need = NULL;
  x->path = &path;
  /* Each component stops just before the end of its access. */
  x->limit[0] = vm_lg_item_of(l, a)->epoch - 1;
  x->limit[1] = vm_lg_item_of(l, b)->epoch - 1;
  begin(x, a->comp, b->comp);
  run_on(x);
  vm_lg_report_race(l, &path, a, b, out);
  vm_lg_path_free(l, &path);
}

void vm_legal_count(vm_legal *l, vm_legal_result *out) {
  needs n;
  run x = {0};
  /* The result is cleared first, so that it can be freed whatever happens. */
  vm_lg_clear_result(l, out);
  if (!vm_lg_prepare(l) || !open_needs(&n, l)) {
    out->verdict = VM_LEGAL_NOMEM;
    return;
  }
  /* One more, so that nothing is asked for with size zero. */
  size_t cells = (size_t)n.nslots * l->nitems + 1;
  /* Too many cells: rather not judged than too slowly. */
  bool fits = cells <= MOST_CELLS, ok = true;
  if (fits) n.v = isa_zalloc(&l->al, cells * sizeof *n.v);
  /* All bytes 0xff make NEVER. */
  if (n.v) memset(n.v, 0xff, cells * sizeof *n.v);
  ok = n.v && open_run(&x, l);
  out->verdict = !fits ? VM_LEGAL_UNKNOWN : !ok ? VM_LEGAL_NOMEM : VM_LEGAL_SAME;
  if (!fits) out->why = "the run is too long";
  if (ok) {
    /* One execution for each component that matters. */
    for (unsigned comp = 0; comp < n.ncomps; comp++)
      if (n.slot[comp]) find_needs(&x, &n, comp);
    vm_lg_each_meeting(l, compare, &n);
    out->states = x.moves;
    out->alike = n.excuse.any;
    /* A race decides even if too much had to be excused: it was found by an order that
     * exists. */
    if (n.best[0]) {
      tell(l, &x, n.best[0], n.best[1], out);
    } else if (n.excuse.tired) {
      out->verdict = VM_LEGAL_UNKNOWN;
      out->why = VM_LG_TIRED;
    }
    close_run(&x);
  }
  close_needs(&n, cells);
}
