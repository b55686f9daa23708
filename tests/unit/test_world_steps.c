/* Collectives as steps: each algorithm, of each number of ranks, carried out in random orders.
 * Ranks go on as they like, and each share of a push reads and writes at any time after those
 * before it on its ring: so what is right only by luck goes wrong here. */
#include "../../vm/world/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RINGS = 3, MOST_RANKS = 9, SLICES = 4, MOST_FLYING = 4096, ROUNDS = 3, SEMS = 64 };
enum { CELLS = SLICES * RINGS }; /* of a block: a ring has one of each slice */

typedef struct share { /* of a push, on its way */
  uint32_t from, ring, step;
} share;

typedef struct rank {
  vm_cc_list steps;
  uint32_t at, round, flying, waits; /* waits: of those merged, the sum so far */
  uint32_t sem[SEMS];
  uint64_t *buffer[4];
} rank;

typedef struct world {
  vm_cc_shape shape;
  uint32_t n, land, slow[2]; /* slow: a rank and its peer */
  rank r[MOST_RANKS];
  share flying[MOST_FLYING];
  uint32_t nflying;
  uint64_t seed;
} world;

static uint32_t random_below(world *w, uint32_t n) {
  w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((w->seed >> 33) % n);
}

static uint64_t given(uint32_t from, uint32_t which, uint32_t cell, uint32_t round) {
  uint64_t x = ((uint64_t)from << 40) + ((uint64_t)which << 36) + ((uint64_t)cell << 8) + round + 1;
  return x * 0x9e3779b97f4a7c15u;
}

static void fill(world *w, uint32_t i) {
  rank *r = &w->r[i];
  for (uint32_t c = 0; c < w->n * CELLS; c++) {
    r->buffer[VM_CC_SRC][c] = given(i, 0, c, r->round);
    r->buffer[VM_CC_SRC1][c] = given(i, 1, c, r->round);
    r->buffer[VM_CC_DST][c] = 0xdead;
  }
}

/* What cell c of rank i's dst must be; false: nothing. */
static bool wanted(const world *w, uint32_t i, uint32_t c, uint64_t *out) {
  const vm_cc_shape *s = &w->shape;
  uint32_t n = w->n, block = c / CELLS, cell = c % CELLS, round = w->r[i].round;
  *out = 0;
  switch (s->op) {
  case VM_CC_ALL_REDUCE:
    for (uint32_t q = 0; q < n; q++) *out += given(q, 0, c, round);
    return block < vm_cc_blocks(s);
  case VM_CC_REDUCE_SCATTER:
    for (uint32_t q = 0; q < n; q++) *out += given(q, 0, i * CELLS + cell, round);
    return block == 0;
  case VM_CC_ALL_GATHER: *out = given(block, 0, cell, round); return true;
  case VM_CC_ALL_TO_ALL: *out = given(block, 0, i * CELLS + cell, round); return true;
  case VM_CC_PERMUTE: break;
  }
  uint32_t from = (i + n - 1) % n;
  *out = given(from, 0, cell, round) + (s->joins ? given(from, 1, cell, round) : 0);
  return block == 0;
}

static vm_cc_shape shape_of(const world *w, uint32_t place) {
  vm_cc_shape s = w->shape;
  s.n = w->n;
  s.place = place;
  s.to = (place + 1) % w->n;
  s.from = (place + w->n - 1) % w->n;
  if (s.masks[0] && !s.whole && place & 1) { /* as ranks that take other links first */
    s.masks[0] = w->shape.masks[1];
    s.masks[1] = w->shape.masks[0];
  }
  return s;
}

/* That of block k of those that a step is about. */
static uint64_t *cell_of(world *w, uint32_t i, vm_cc_piece p, uint32_t k, uint32_t slice,
                         uint32_t ring) {
  assert_true(p.block + k < (p.buffer == VM_CC_LAND ? w->land : w->n));
  return &w->r[i].buffer[p.buffer][(p.block + k) * CELLS + slice * RINGS + ring];
}

static uint32_t peer_of(const world *w, const share *f) {
  return w->r[f->from].steps.v[f->step].peer;
}

static void deliver(world *w, uint32_t which) {
  share f = w->flying[which];
  rank *r = &w->r[f.from];
  const vm_cc_step *st = &r->steps.v[f.step];
  for (uint32_t k = 0; k <= st->more; k++)
    *cell_of(w, st->peer, st->dst, k, st->slice, f.ring) =
        *cell_of(w, f.from, st->src[0], k, st->slice, f.ring);
  w->r[st->peer].sem[st->sem]++;
  memmove(&w->flying[which], &w->flying[which + 1], (--w->nflying - which) * sizeof f);
  r->flying--;
}

/* One of those that are first on their rank's ring between two ranks; of one pair they take long.
 */
static void deliver_any(world *w) {
  for (;;) {
    uint32_t which = random_below(w, w->nflying), first = 0;
    const share *f = &w->flying[which];
    uint32_t to = peer_of(w, f);
    while (w->flying[first].from != f->from || w->flying[first].ring != f->ring ||
           peer_of(w, &w->flying[first]) != to)
      first++;
    if (first != which) continue;
    if (f->from == w->slow[0] && to == w->slow[1] && random_below(w, 200)) {
      if (random_below(w, 4) == 0) return;
      continue;
    }
    deliver(w, which);
    return;
  }
}

static void local(world *w, uint32_t i, const vm_cc_step *st) {
  for (uint32_t c = 0; c < RINGS * (st->more + 1); c++) {
    uint64_t sum = 0;
    uint32_t b = c / RINGS, ring = c % RINGS;
    for (unsigned k = 0; k < st->nsrc; k++) sum += *cell_of(w, i, st->src[k], b, st->slice, ring);
    *cell_of(w, i, st->dst, b, st->slice, ring) = sum;
  }
}

/* What rank i waits for from its step on, as one sum. */
static bool wait_holds(world *w, uint32_t i, uint32_t *next, uint32_t *sum) {
  rank *r = &w->r[i];
  const vm_cc_step *st = &r->steps.v[r->at];
  *sum = 0;
  for (*next = r->at; *next < r->steps.n; (*next)++) {
    const vm_cc_step *other = &r->steps.v[*next];
    if (other->kind != VM_STEP_WAIT || other->sem != st->sem) break;
    *sum += other->sem < r->steps.ready ? other->count : other->count * RINGS;
  }
  return r->sem[st->sem] >= *sum;
}

static bool go_on(world *w, uint32_t i) {
  rank *r = &w->r[i];
  const vm_cc_step *st = &r->steps.v[r->at];
  uint32_t next = r->at + 1, sum = 0;
  switch (st->kind) {
  case VM_STEP_READY: w->r[st->peer].sem[st->sem]++; break;
  case VM_STEP_WAIT:
    if (!wait_holds(w, i, &next, &sum)) return false;
    r->sem[st->sem] -= sum;
    break;
  case VM_STEP_PUSH:
    if (w->nflying + RINGS > MOST_FLYING) return false;
    for (uint32_t ring = 0; ring < RINGS; ring++)
      w->flying[w->nflying++] = (share){.from = i, .ring = ring, .step = r->at};
    r->flying += RINGS;
    break;
  default: local(w, i, st);
  }
  r->at = next;
  return true;
}

/* A collective of rank i is complete: it uses the result, and begins the next. */
static void complete(world *w, uint32_t i) {
  rank *r = &w->r[i];
  for (uint32_t c = 0; c < w->n * CELLS; c++) {
    uint64_t want;
    if (wanted(w, i, c, &want) && r->buffer[VM_CC_DST][c] != want)
      fail_msg("op %d by %s of %u ranks, round %u: rank %u, block %u, cell %u", (int)w->shape.op,
               vm_cc_algorithm_names[w->shape.algorithm], w->n, r->round, i, c / CELLS, c % CELLS);
  }
  r->at = 0;
  if (++r->round < ROUNDS) fill(w, i);
}

static bool step_once(world *w) {
  uint32_t first = random_below(w, w->n);
  if (w->nflying && random_below(w, 3) == 0) {
    deliver_any(w);
    return true;
  }
  for (uint32_t k = 0; k < w->n; k++) {
    uint32_t i = (first + k) % w->n;
    rank *r = &w->r[i];
    if (r->round == ROUNDS) continue;
    if (r->at == r->steps.n) {
      if (r->flying) continue;
      complete(w, i);
      return true;
    }
    if (go_on(w, i)) return true;
  }
  if (!w->nflying) return false;
  deliver_any(w);
  return true;
}

static void open_world(world *w, const isa_alloc *al) {
  for (uint32_t i = 0; i < w->n; i++) {
    rank *r = &w->r[i];
    vm_cc_shape s = shape_of(w, i);
    assert_true(vm_cc_make(al, &s, &r->steps));
    assert_true(r->steps.ready + r->steps.from <= SEMS);
    if (r->steps.land > w->land) w->land = r->steps.land;
  }
  for (uint32_t i = 0; i < w->n; i++)
    for (unsigned b = 0; b < 4; b++) {
      uint32_t blocks = b == VM_CC_LAND ? w->land + 1 : w->n;
      w->r[i].buffer[b] = calloc(blocks * CELLS, sizeof(uint64_t));
      assert_non_null(w->r[i].buffer[b]);
    }
  for (uint32_t i = 0; i < w->n; i++) fill(w, i);
}

static void run(vm_cc_shape shape, uint32_t n, uint64_t seed) {
  static world w;
  isa_alloc al = isa_alloc_default();
  memset(&w, 0, sizeof w);
  w.shape = shape;
  w.shape.n = n;
  w.n = n;
  w.seed = seed;
  for (unsigned k = 0; k < 2; k++) w.slow[k] = random_below(&w, n);
  open_world(&w, &al);
  while (step_once(&w)) continue;
  for (uint32_t i = 0; i < n; i++) {
    if (w.r[i].round != ROUNDS)
      fail_msg("op %d by %s of %u ranks: rank %u stands at step %u of %u", (int)shape.op,
               vm_cc_algorithm_names[shape.algorithm], n, i, w.r[i].at, w.r[i].steps.n);
    for (uint32_t k = 0; k < SEMS; k++) assert_int_equal(w.r[i].sem[k], 0);
    vm_cc_free(&al, &w.r[i].steps);
    for (unsigned b = 0; b < 4; b++) free(w.r[i].buffer[b]);
  }
}

/* Places of the ring in another order, and two rings at once. */
static void run_in_orders(vm_cc_shape s, uint32_t n, uint64_t seed) {
  uint32_t order[2][MOST_RANKS];
  for (unsigned k = 0; k < 2; k++) {
    for (uint32_t i = 0; i < n; i++) order[k][i] = i;
    for (uint32_t i = n; i > 1; i--) {
      uint32_t at = (uint32_t)((seed * 2654435761u >> (i + k)) % i), t = order[k][at];
      order[k][at] = order[k][i - 1];
      order[k][i - 1] = t;
    }
    s.order[k] = order[k];
    run(s, n, seed);
    if (s.algorithm == VM_CC_PAIRS) return;
  }
}

static void test_random_orders(void **state) {
  (void)state;
  for (int op = 0; op <= VM_CC_PERMUTE; op++)
    for (int a = 0; a < VM_CC_NALGORITHMS; a++)
      for (uint32_t n = 1; n <= MOST_RANKS; n++) {
        vm_cc_shape s = {.op = (vm_cc_op)op, .algorithm = (vm_cc_algorithm)a, .slices = SLICES};
        if (!vm_cc_has(s.algorithm, s.op, n)) continue;
        for (uint64_t seed = 1; seed <= 20; seed++) {
          s.back = seed & 1;
          s.joins = seed & 2;
          s.second = seed & 4;
          run(s, n, seed);
          if (s.algorithm == VM_CC_RING || s.algorithm == VM_CC_PAIRS) run_in_orders(s, n, seed);
          static const uint32_t masks[] = {6, 2, 1};
          vm_cc_shape other = s;
          memcpy(other.masks, masks, sizeof masks);
          if (s.algorithm == VM_CC_RDH && n == 8) run(other, n, seed);
          s.groups = n % 3 == 0 && seed & 1 ? 3 : 2;
          if (s.algorithm == VM_CC_RING && op <= VM_CC_REDUCE_SCATTER && n > 3 && n % s.groups == 0)
            run(s, n, seed);
          s.groups = 0;
          other.whole = s.whole = op == VM_CC_ALL_REDUCE;
          if (s.algorithm == VM_CC_RDH && s.whole) run(s, n, seed);
          if (s.algorithm == VM_CC_RDH && s.whole && n == 8) run(other, n, seed);
          s.whole = false;
        }
      }
}

static void test_choice(void **state) {
  (void)state;
  assert_int_equal(vm_cc_choose(VM_CC_ALL_REDUCE, 16, 8192), VM_CC_MESH);
  assert_int_equal(vm_cc_choose(VM_CC_ALL_REDUCE, 16, 2u << 20), VM_CC_RDH);
  assert_int_equal(vm_cc_choose(VM_CC_ALL_REDUCE, 12, 2u << 20), VM_CC_RING);
  assert_int_equal(vm_cc_choose(VM_CC_ALL_REDUCE, 16, 512u << 20), VM_CC_RING);
  assert_int_equal(vm_cc_choose(VM_CC_ALL_TO_ALL, 16, 512u << 20), VM_CC_MESH);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_orders),
      cmocka_unit_test(test_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
