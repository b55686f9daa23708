/* The steps of a critical path with their repeats folded, as --explain-time and the page show them.
 */
#include "record.h"

#include <string.h>

enum { LONGEST_LOOP = 256 };

/* Steps of one source line count as equal even if the preprocessor has unrolled a loop. */
static bool same_step(const soma_path_segment *a, const soma_path_segment *b) {
  bool same_place = a->line && b->line ? a->line == b->line && a->file == b->file : a->pc == b->pc;
  return same_place && a->core == b->core && a->rank == b->rank && a->name == b->name &&
         a->engine == b->engine && a->kind == b->kind && a->cause == b->cause &&
         a->semaphore == b->semaphore;
}

/* The loop at step i: the block whose repeats cover the most steps. */
static vm_rec_block loop_at(const soma_path_segment *s, uint32_t n, uint32_t i) {
  vm_rec_block best = {i, 1, 1};
  uint32_t covered = 1;
  /* Two rounds must fit, or nothing repeats. */
  for (uint32_t p = 1; p <= LONGEST_LOOP && i + 2 * p <= n; p++) {
    uint32_t alike = 0;
    /* Each step is compared with that of the next round. */
    while (i + p + alike < n && same_step(&s[i + alike], &s[i + p + alike])) alike++;
    uint32_t repeats = alike / p + 1;
    /* The one that covers most steps wins; among equals the shortest round, which came first. */
    if (repeats > 1 && repeats * p > covered) {
      best = (vm_rec_block){i, p, repeats};
      covered = repeats * p;
    }
  }
  return best;
}

bool vm_rec_fold_path(const isa_alloc *al, const soma_path_segment *s, uint32_t n,
                      vm_rec_fold *out) {
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < n;) {
    vm_rec_block b = loop_at(s, n, i);
    if (out->n == out->cap && !isa_array_grow(al, &out->v, out->n, &out->cap, sizeof *out->v)) {
      vm_rec_fold_free(al, out);
      return false;
    }
    out->v[out->n++] = b;
    out->rows += b.n;
    i += b.n * b.repeats;
  }
  return true;
}

void vm_rec_fold_free(const isa_alloc *al, vm_rec_fold *f) {
  isa_free(al, f->v, f->cap * sizeof *f->v);
  memset(f, 0, sizeof *f);
}
