/* The engine that triggers the stores which leave it open. It waits for their data, and what comes
 * after them on it waits too:
 *
 *   gpsimd   store o[0], t; memset e      the memset waits until t is there
 *
 * So the list is timed with each. */
#include "pace.h"

enum { TIMED = 1 << 13 }; /* items that are looked at */

unsigned as_k_collectives_engine(const as_kernel *k) {
  for (uint32_t i = 0; i < k->nitems; i++)
    if (as_k_is_collective(&k->items[i]))
      return k->items[i].engine < ISA_NENGINES ? k->items[i].engine : (unsigned)ISA_ENG_gpsimd;
  return ISA_NENGINES;
}

typedef struct timing {
  uint64_t end, busy[ISA_NENGINES]; /* of as_k_pace, and how long each engine works */
} timing;

/* The first n items with an engine that triggers stores; `kept` is what they were. */
static void time_with(as_k_pace *c, unsigned engine, const as_k_item *kept, uint32_t n, timing *t) {
  as_kernel *k = c->k;
  as_kernel_figures figures = k->figures;
  k->store_engine = engine;
  as_k_pace_restart(c);
  /* Choices of queues and engines are made while the list is timed, and undone after it. */
  for (uint32_t i = 0; i < n; i++) as_k_pace_take(c, &k->items[i]);
  t->end = c->end;
  memcpy(t->busy, c->busy, sizeof t->busy);
  k->figures = figures;
  memcpy(k->items, kept, n * sizeof *kept);
}

static const uint8_t engines[] = {ISA_ENG_gpsimd, ISA_ENG_scalar, ISA_ENG_tensor, ISA_ENG_vector};
enum { ENGINES = sizeof engines };

/* The place of the one with the least to do, without vector. */
static unsigned idlest(const timing *t, unsigned other) {
  unsigned best = ENGINES;
  /* The last of the list is vector. */
  for (unsigned i = 0; i + 1 < ENGINES; i++)
    if (engines[i] != other && (best == ENGINES || t->busy[engines[i]] < t->busy[engines[best]]))
      best = i;
  return best;
}

/* That one, unless the list ends sooner by a tenth with another. */
static bool choose(as_kernel *k, const as_k_item *kept, uint32_t n) {
  unsigned other = as_k_collectives_engine(k); /* a store would hold the next one */
  timing t[ENGINES];
  as_k_pace c;
  if (!as_k_pace_open(&c, k)) return false;
  for (unsigned i = 0; i < ENGINES; i++) time_with(&c, engines[i], kept, n, &t[i]);
  as_k_pace_free(&c);
  unsigned best = idlest(&t[0], other);
  uint64_t least = t[best].end - t[best].end / 10;
  for (unsigned i = 0; i < ENGINES; i++) {
    if (engines[i] == other || t[i].end >= least) continue;
    least = t[i].end;
    best = i;
  }
  k->store_engine = engines[best];
  return true;
}

bool as_k_choose_store_engine(as_kernel *k) {
  /* The first items stand for all. */
  uint32_t n = k->nitems < TIMED ? k->nitems : TIMED;
  if (n == 0) return true;
  size_t size = n * sizeof(as_k_item);
  as_k_item *kept = isa_zalloc(&k->al, size);
  if (!kept) return as_k_nomem(k);
  memcpy(kept, k->items, n * sizeof *kept);
  bool ok = choose(k, kept, n);
  isa_free(&k->al, kept, size);
  return ok;
}
