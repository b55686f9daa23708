/* Bytes of a memory in use over time. Stretches of items are the leaves of a tree: to add to a run
 * of them and to ask for its maximum take about its depth. */
#include "simplify.h"

enum { LEAVES = 4096 };

/* The tree over leaves of which each has what is added there; with what ends at each subtracted. */
static void sum_up(as_k_room_use *r) {
  int64_t *leaf = r->most + r->leaves;
  for (uint32_t i = 1; i < r->leaves; i++) leaf[i] += leaf[i - 1];
  for (uint32_t n = r->leaves - 1; n > 0; n--)
    r->most[n] = r->most[2 * n] > r->most[2 * n + 1] ? r->most[2 * n] : r->most[2 * n + 1];
}

bool as_k_room_open(as_kernel *k, unsigned space, as_k_room_use *r) {
  /* Leaf i stands for items i << shift and on: at most LEAVES of them, and a power of 2. */
  *r = (as_k_room_use){.leaves = 1};
  while (k->nitems >> r->shift >= LEAVES) r->shift++;
  while (r->leaves <= k->nitems >> r->shift) r->leaves *= 2;
  r->most = isa_zalloc(&k->al, 2 * (size_t)r->leaves * sizeof *r->most);
  r->more = isa_zalloc(&k->al, 2 * (size_t)r->leaves * sizeof *r->more);
  if (!r->most || !r->more) return as_k_nomem(k);
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space != space || !b->used || b->last < b->first) continue;
    /* One tree for all of them, not a walk for each. */
    r->most[r->leaves + (b->first >> r->shift)] += b->bytes;
    if (b->last >> r->shift < r->leaves - 1)
      r->most[r->leaves + (b->last >> r->shift) + 1] -= b->bytes;
  }
  sum_up(r);
  return true;
}

void as_k_room_close(as_kernel *k, as_k_room_use *r) {
  isa_free(&k->al, r->most, 2 * (size_t)r->leaves * sizeof *r->most);
  isa_free(&k->al, r->more, 2 * (size_t)r->leaves * sizeof *r->more);
}

typedef struct run {
  uint32_t lo, hi; /* leaves, hi included */
} run;

static int64_t most_in(const as_k_room_use *r, uint32_t node, run at, run want) {
  if (at.hi < want.lo || want.hi < at.lo) return 0;
  /* more[node] is for all below it, and most[node] has it already. */
  if (want.lo <= at.lo && at.hi <= want.hi) return r->most[node];
  uint32_t mid = at.lo + (at.hi - at.lo) / 2;
  int64_t a = most_in(r, 2 * node, (run){at.lo, mid}, want);
  int64_t b = most_in(r, 2 * node + 1, (run){mid + 1, at.hi}, want);
  /* What was added to the whole node is above what its halves have. */
  return (a > b ? a : b) + r->more[node];
}

static void add_to(as_k_room_use *r, uint32_t node, run at, run to, int64_t bytes) {
  if (at.hi < to.lo || to.hi < at.lo) return;
  if (to.lo <= at.lo && at.hi <= to.hi) {
    r->most[node] += bytes;
    r->more[node] += bytes;
    return;
  }
  uint32_t mid = at.lo + (at.hi - at.lo) / 2;
  add_to(r, 2 * node, (run){at.lo, mid}, to, bytes);
  add_to(r, 2 * node + 1, (run){mid + 1, at.hi}, to, bytes);
  int64_t a = r->most[2 * node], b = r->most[2 * node + 1];
  r->most[node] = (a > b ? a : b) + r->more[node];
}

int64_t as_k_room_most(const as_k_room_use *r, uint32_t first, uint32_t last) {
  if (last < first) return 0;
  return most_in(r, 1, (run){0, r->leaves - 1}, (run){first >> r->shift, last >> r->shift});
}

void as_k_room_add(as_k_room_use *r, uint32_t first, uint32_t last, int64_t bytes) {
  if (last < first) return;
  add_to(r, 1, (run){0, r->leaves - 1}, (run){first >> r->shift, last >> r->shift}, bytes);
}
