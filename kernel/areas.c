/* Tiles at places that the caller gave. Those with bytes in common are one memory: what is written
 * through one is there for the others. */
#include "define.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b) {
  const as_k_area *x = a, *y = b;
  int64_t d = (int64_t)x->space - y->space;
  if (!d) d = (int64_t)x->lo - y->lo;
  if (!d) d = (int64_t)x->hi - y->hi;
  if (!d) d = (int64_t)x->p0 - y->p0;
  if (!d) d = (int64_t)x->p1 - y->p1;
  if (!d) d = (int64_t)x->tile - y->tile;
  return (d > 0) - (d < 0);
}

static bool same_place(const as_k_area *x, const as_k_area *y) {
  return x->space == y->space && x->lo == y->lo && x->hi == y->hi && x->p0 == y->p0 &&
         x->p1 == y->p1;
}

static bool meet(const as_k_area *x, const as_k_area *y) {
  return x->space == y->space && x->lo < y->hi && y->lo < x->hi && x->p0 < y->p1 && y->p0 < x->p1;
}

/* Tiles with the same place become one area. */
static void unite(as_k_definer *d) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->nareas; i++) {
    const as_k_area a = d->areas[i];
    as_k_area *last = n ? &d->areas[n - 1] : NULL;
    if (last && same_place(last, &a)) {
      isa_line x = as_k_buf(d->k, last->tile)->at, y = as_k_buf(d->k, a.tile)->at;
      last->shared = true;
      /* Two tiles of one line at one place are one tile of a loop's rounds. */
      last->meant = last->meant || x.file != y.file || x.line != y.line;
    } else {
      d->areas[n++] = a;
    }
    d->area_of[a.tile - 1] = n;
  }
  d->nareas = n;
}

/* Tiles that have some bytes in common are meant to share them. */
static void find_shared(as_k_definer *d) {
  for (uint32_t i = 0; i < d->nareas; i++)
    for (uint32_t j = i + 1; j < d->nareas; j++) {
      as_k_area *x = &d->areas[i], *y = &d->areas[j];
      /* Sorted by their beginnings: those that follow begin later still. */
      if (y->space != x->space || y->lo >= x->hi) break;
      if (meet(x, y)) x->shared = y->shared = x->meant = y->meant = true;
    }
}

bool as_k_open_areas(as_k_definer *d) {
  as_kernel *k = d->k;
  uint32_t fixed = 0;
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    fixed += k->buffers[i].fixed;
    k->buffers[i].since = 0;
    k->buffers[i].shared = false;
  }
  /* One alone shares its bytes with nobody. */
  if (fixed < 2) return true;
  d->cap_areas = fixed;
  d->areas = isa_zalloc(&k->al, fixed * sizeof *d->areas);
  d->area_of = isa_zalloc(&k->al, (size_t)k->nbuffers * sizeof *d->area_of);
  if (!d->areas || !d->area_of) return as_k_nomem(k);
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->fixed)
      d->areas[d->nareas++] = (as_k_area){.space = b->space,
                                          .p0 = b->part,
                                          .p1 = (uint16_t)(b->part + b->nparts),
                                          .lo = b->offset,
                                          .hi = b->offset + b->bytes,
                                          .tile = i + 1};
  }
  qsort(d->areas, d->nareas, sizeof *d->areas, by_place);
  unite(d);
  find_shared(d);
  for (uint32_t i = 0; i < k->nbuffers; i++)
    k->buffers[i].shared = d->area_of[i] && d->areas[d->area_of[i] - 1].meant;
  return true;
}

void as_k_close_areas(as_k_definer *d) {
  isa_free(&d->k->al, d->areas, d->cap_areas * sizeof *d->areas);
  isa_free(&d->k->al, d->area_of, (size_t)d->k->nbuffers * sizeof *d->area_of);
}

as_k_area *as_k_area_of(const as_k_definer *d, uint32_t buffer) {
  uint32_t number = d->area_of ? d->area_of[buffer - 1] : 0;
  return number && d->areas[number - 1].shared ? &d->areas[number - 1] : NULL;
}

/* The number that a memory has among the buffers. */
static uint32_t memory_of(const as_k_definer *d, const as_k_area *a) {
  return d->k->nbuffers + 1 + (a->space == ISA_PSUM);
}

static as_k_bytes moved(const as_k_area *a, const as_k_bytes *bytes) {
  as_k_bytes b = *bytes;
  b.lo += a->lo;
  b.hi += a->lo;
  return b;
}

/* The first item of the outermost loop that is open, or the item. */
static uint32_t begin_of(const as_k_definer *d, uint32_t item) {
  for (uint32_t l = d->open; l; l = d->k->loops[l - 1].parent) item = d->k->loops[l - 1].first;
  return item;
}

bool as_k_area_write(as_k_definer *d, as_k_area *a, uint32_t item, const as_k_bytes *bytes,
                     bool whole) {
  /* In a loop at run time the round before may have written it. */
  uint32_t begin = 1 + begin_of(d, item);
  if ((whole && !d->open) || !a->since || begin < a->since) a->since = begin;
  if (!bytes) {
    a->vague = true;
    return true;
  }
  as_k_bytes there = moved(a, bytes);
  as_k_cover *c = as_k_make_cover(d, memory_of(d, a));
  return c && as_k_write_bytes(d, c, memory_of(d, a), &there);
}

int as_k_area_read(as_k_definer *d, const as_k_area *a, uint32_t buffer, const as_k_bytes *bytes,
                   bool *vague, unsigned *part, int64_t *byte) {
  as_k_buffer *b = as_k_buf(d->k, buffer);
  as_k_bytes there = moved(a, bytes);
  int state = as_k_state_of(d, memory_of(d, a), &there, part, byte);
  *byte -= a->lo;
  for (uint32_t i = 0; i < d->nareas; i++) {
    const as_k_area *o = &d->areas[i];
    if (!o->since || !meet(a, o)) continue;
    *vague = *vague || o->vague;
    if (!b->since || o->since < b->since) b->since = o->since;
  }
  b->shared = true;
  return state;
}
