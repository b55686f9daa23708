/* A tile that an instruction overwrites whole, and does not read, is another tile from there on:
 *
 *   xs = tile                      xs = tile, xs' = tile
 *   load xs, x[0]; use xs          load xs, x[0];  use xs
 *   load xs, x[1]; use xs          load xs', x[1]; use xs'
 *
 * so that the second load need not wait for the last use of what the first one loaded. A tile at a
 * fixed place keeps it, and what a loop at run time uses is one place for all of its rounds. */
#include "called.h"
#include "simplify.h"

typedef struct writing {
  uint32_t item, turn; /* turn: of the lines (called.c); 0: not yet written */
} writing;

/* Lets a tile be called by the line that writes it. */
static bool begin(as_kernel *k, uint32_t number, const writing *w) {
  as_k_buffer *b = as_k_buf(k, number);
  return !b->name || as_k_begin_tile(k, b, false, k->items[w->item].at, w->turn);
}

/* The tile that stands for `number` from that write on. first: of all; NULL: `number` is a version
 * itself, and called already. */
static uint32_t new_version(as_kernel *k, uint32_t number, const writing *first, const writing *w) {
  if (!K_GROW(k, buffers, nbuffers, cap_buffers)) return 0;
  if (first && !begin(k, number, first)) return 0;
  as_k_buffer *b = &k->buffers[k->nbuffers];
  /* A copy of the tile in all but its life. */
  *b = *as_k_buf(k, number);
  b->next = 0;
  b->whole = w->item + 1;
  as_k_buf(k, number)->next = ++k->nbuffers;
  k->figures.versions++;
  return begin(k, k->nbuffers, w) ? k->nbuffers : 0;
}

typedef struct renamer {
  as_kernel *k;
  uint32_t *now, n; /* by buffer of the caller's: its version */
  writing *first;   /* by buffer of the caller's: that wrote it first */
} renamer;

static bool begin_versions(renamer *r, uint32_t item) {
  as_kernel *k = r->k;
  const as_k_item *it = &k->items[item];
  const as_k_use *uses;
  writing now = {item, as_k_turn(k, it->at)};
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    uint32_t b = as_k_use_op(k, it, &uses[u])->buffer;
    if (!uses[u].writes || as_k_buf(k, b)->pinned || as_k_buf(k, b)->space == ISA_HBM) continue;
    /* The first write begins the tile itself. */
    if (r->first[b - 1].turn && as_k_may(k, it, AS_PASS_VERSIONS) &&
        as_k_overwrites(k, it, &uses[u])) {
      uint32_t old = r->now[b - 1];
      uint32_t v = new_version(k, old, old == b ? &r->first[b - 1] : NULL, &now);
      if (!v) return false;
      r->now[b - 1] = v;
    }
    if (!r->first[b - 1].turn) r->first[b - 1] = now;
  }
  return true;
}

bool as_k_make_versions(as_kernel *k) {
  if (!as_k_asked(k, AS_PASS_VERSIONS)) return true;
  size_t n = (size_t)k->nbuffers + 1;
  renamer r = {.k = k, .n = k->nbuffers};
  r.now = isa_zalloc(&k->al, n * sizeof *r.now);
  r.first = isa_zalloc(&k->al, n * sizeof *r.first);
  bool ok = (r.now && r.first) || as_k_nomem(k);
  /* Each stands for itself before it is overwritten. */
  for (uint32_t i = 0; ok && i < r.n; i++) r.now[i] = i + 1;
  for (uint32_t i = 0; ok && i < k->nitems; i++) {
    ok = begin_versions(&r, i);
    /* Nothing to rename before the first version. */
    if (ok && k->figures.versions) as_k_rename(k, &k->items[i], r.now, r.n);
  }
  isa_free(&k->al, r.now, n * sizeof *r.now);
  isa_free(&k->al, r.first, n * sizeof *r.first);
  return ok;
}
