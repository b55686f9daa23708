/* Where tiles lie: next fit in a ring, in the order of first use. What was used last is given away
 * last, so that loads run ahead as far as memory allows. Where that does not do, large tiles are
 * put as high as they go, and others below the most that those take at once. */
#include "called.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LARGE = 16 }; /* a part of the memory */

/* The tiles that live now in one memory, by their place. */
typedef struct ring {
  as_kernel *k;
  unsigned space;
  uint32_t room, cursor;
  uint32_t large;         /* from so many bytes on a tile is put as high as it goes */
  uint32_t low;           /* the ring of other tiles ends here */
  uint32_t *live, n, cap; /* buffers, by offset */
  const uint32_t *fixed;  /* buffers with fixed places, by first item */
  uint32_t nfixed, next_fixed;
  as_k_spiller *spiller;              /* NULL: all have fitted so far */
  uint32_t *later, nlater, cap_later; /* what comes back, the first at the end */
} ring;

static uint32_t end_of(const as_k_buffer *b) { return b->offset + b->bytes; }

static bool insert(ring *r, uint32_t number) {
  const as_k_buffer *b = as_k_buf(r->k, number);
  if (!isa_array_room(&r->k->al, &r->live, r->n, &r->cap, sizeof *r->live)) return as_k_nomem(r->k);
  uint32_t at = r->n++;
  /* From the end down to its place by offset. */
  for (; at > 0 && as_k_buf(r->k, r->live[at - 1])->offset > b->offset; at--)
    r->live[at] = r->live[at - 1];
  r->live[at] = number;
  if (b->space == ISA_SBUF && end_of(b) > r->k->figures.sbuf_bytes)
    r->k->figures.sbuf_bytes = end_of(b);
  if (b->space == ISA_PSUM && end_of(b) > r->k->figures.psum_bytes)
    r->k->figures.psum_bytes = end_of(b);
  return true;
}

/* Forgets those that have ended before an item. */
static void expire(ring *r, uint32_t item) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n; i++)
    if (as_k_buf(r->k, r->live[i])->last >= item) r->live[n++] = r->live[i];
  r->n = n;
}

/* The lowest place at or after `from` where b may begin; a tile of PSUM stays in its bank where it
 * fits in one. */
static uint32_t aligned(const ring *r, const as_k_buffer *b, uint32_t from, uint32_t align) {
  uint32_t at = (from + align - 1) / align * align;
  /* A tile that is larger than a bank fits in none, and begins where a bank does. */
  if (r->space == ISA_PSUM && at / ISA_PSUM_BANK != (at + b->bytes - 1) / ISA_PSUM_BANK)
    at = (at + ISA_PSUM_BANK - 1) / ISA_PSUM_BANK * ISA_PSUM_BANK;
  return at;
}

/* The end of a fixed tile that comes to live while b does and would lie over [at, end); 0: none. */
static uint32_t fixed_over(const ring *r, const as_k_buffer *b, uint32_t at) {
  for (uint32_t i = r->next_fixed; i < r->nfixed; i++) {
    const as_k_buffer *f = as_k_buf(r->k, r->fixed[i]);
    /* They are sorted by first item: from here on all come too late to matter. */
    if (f->first > b->last) break;
    if (f->offset < at + b->bytes && at < end_of(f)) return end_of(f);
  }
  return 0;
}

/* A place for b in [from, to), K_NONE when none exists. */
static uint32_t fit(const ring *r, const as_k_buffer *b, uint32_t from, uint32_t to,
                    uint32_t align) {
  uint32_t at = aligned(r, b, from, align);
  /* Until nothing lies there: each move may run into another tile, or one at a fixed place. */
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < r->n; i++) {
      const as_k_buffer *o = as_k_buf(r->k, r->live[i]);
      if (o->offset >= at + b->bytes || end_of(o) <= at) continue;
      at = aligned(r, b, end_of(o), align);
      moved = true;
    }
    if (at + b->bytes > to) return K_NONE;
    uint32_t over = fixed_over(r, b, at);
    if (over) {
      at = aligned(r, b, over, align);
      moved = true;
    }
  }
  return at + b->bytes > to ? K_NONE : at;
}

/* The smallest gap that takes b. */
static uint32_t best_fit(const ring *r, const as_k_buffer *b) {
  uint32_t best = K_NONE, least = UINT32_MAX, from = 0;
  /* `from` is the end of all tiles so far, `to` the beginning of the next one; the last gap reaches
   * to the end. */
  for (uint32_t i = 0; i <= r->n; i++) {
    uint32_t to = i < r->n ? as_k_buf(r->k, r->live[i])->offset : r->room;
    if (to > from && to - from < least && to - from >= b->bytes) {
      /* Its own type is alignment enough in a gap that is taken as the last resort. */
      uint32_t at =
          fit(r, b, from, to, isa_dtype_bytes(b->dtype) < 4 ? 4 : isa_dtype_bytes(b->dtype));
      if (at != K_NONE) {
        best = at;
        least = to - from;
      }
    }
    if (i < r->n && end_of(as_k_buf(r->k, r->live[i])) > from)
      from = end_of(as_k_buf(r->k, r->live[i]));
  }
  return best;
}

/* The highest place for b. */
static uint32_t highest_fit(const ring *r, const as_k_buffer *b) {
  uint32_t align = r->space == ISA_PSUM ? ISA_PSUM_BANK : K_ALIGN, best = K_NONE, from = 0;
  for (uint32_t i = 0; i <= r->n; i++) {
    uint32_t to = i < r->n ? as_k_buf(r->k, r->live[i])->offset : r->room;
    /* The highest place in the gap, rounded down. */
    uint32_t at = to >= b->bytes ? (to - b->bytes) / align * align : 0;
    if (to >= b->bytes && at >= from && !fixed_over(r, b, at)) best = at;
    if (i < r->n && end_of(as_k_buf(r->k, r->live[i])) > from)
      from = end_of(as_k_buf(r->k, r->live[i]));
  }
  return best;
}

/* ---- When nothing fits --------------------------------------------------------------------- */

enum { MOST_SHOWN = 8 };

static int by_size(const void *a, const void *b) {
  const as_k_buffer *x = *(const as_k_buffer *const *)a, *y = *(const as_k_buffer *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

static void show(const ring *r, isa_buf *out) {
  const as_k_buffer **all = isa_zalloc(&r->k->al, (r->n + 1) * sizeof *all);
  char where[160], tile[K_TILE];
  for (uint32_t i = 0; all && i < r->n; i++) all[i] = as_k_buf(r->k, r->live[i]);
  if (all) qsort(all, r->n, sizeof *all, by_size);
  for (uint32_t i = 0; all && i < r->n && i < MOST_SHOWN; i++)
    isa_buf_printf(out, "\n  %s: %" PRIu32 " bytes at %" PRIu32 ", from %s",
                   as_k_tile(r->k, all[i], "a tile", tile, sizeof tile), all[i]->bytes,
                   all[i]->offset,
                   as_k_where(r->k, all[i]->at.line ? all[i]->at : r->k->items[all[i]->first].at,
                              where, sizeof where));
  if (r->n > MOST_SHOWN) isa_buf_printf(out, "\n  and %" PRIu32 " more", r->n - MOST_SHOWN);
  if (all) isa_free(&r->k->al, all, (r->n + 1) * sizeof *all);
}

static bool overflow(ring *r, const as_k_buffer *b) {
  isa_buf text;
  char tile[K_TILE];
  uint64_t sum = 0;
  as_kernel *k = r->k;
  for (uint32_t i = 0; i < r->n; i++) sum += as_k_buf(k, r->live[i])->bytes;
  isa_buf_init(&text, &k->al);
  show(r, &text);
  as_k_fail(k, ISA_LIMIT, b->at.line ? b->at : k->items[b->first].at,
            "tile %s of %" PRIu32 " bytes in each partition does not fit in %s: of %" PRIu32
            " bytes %" PRIu64 " are taken by %" PRIu32 " tile%s in use here%s:%s",
            as_k_tile(k, b, "?", tile, sizeof tile), b->bytes, isa_space_name(r->space), r->room,
            sum, r->n, r->n == 1 ? "" : "s",
            k->o.flags & AS_KERNEL_SPILL ? ", none of which can be spilled" : "",
            isa_buf_str(&text));
  isa_buf_free(&text);
  return false;
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* Starts the fixed tiles that begin before or at an item. */
static bool start_fixed(ring *r, uint32_t item) {
  for (; r->next_fixed < r->nfixed; r->next_fixed++) {
    if (as_k_buf(r->k, r->fixed[r->next_fixed])->first > item) return true;
    if (!insert(r, r->fixed[r->next_fixed])) return false;
  }
  return true;
}

/* Notes a tile that comes back. */
static bool place_later(ring *r, uint32_t number) {
  as_kernel *k = r->k;
  if (!isa_array_room(&k->al, &r->later, r->nlater, &r->cap_later, sizeof *r->later))
    return as_k_nomem(k);
  uint32_t at = r->nlater++, first = as_k_buf(k, number)->first;
  /* The one that comes back first is at the end, where it is taken off. */
  for (; at > 0 && as_k_buf(k, r->later[at - 1])->first <= first; at--)
    r->later[at] = r->later[at - 1];
  r->later[at] = number;
  return true;
}

/* Lets a tile go for a while; false with an error. */
static bool make_room(ring *r, const as_k_buffer *b, uint32_t number) {
  as_kernel *k = r->k;
  uint32_t again, item = b->first;
  if (!(k->o.flags & AS_KERNEL_SPILL)) return overflow(r, b);
  if (!r->spiller) r->spiller = as_k_spill_open(k);
  if (!r->spiller) return false;
  k->error.status = ISA_OK;
  if (!as_k_spill(r->spiller, r->live, r->n, number, &again))
    /* Without an error of its own nothing could go. */
    return k->error.status == ISA_OK ? overflow(r, as_k_buf(k, number)) : false;
  expire(r, item);
  /* What comes back in another memory is placed with that. */
  return as_k_buf(k, again)->space != r->space || place_later(r, again);
}

static uint32_t find_place(const ring *r, const as_k_buffer *b) {
  uint32_t align = r->space == ISA_PSUM ? ISA_PSUM_BANK : K_ALIGN;
  /* Large tiles from above, others around the ring, then again from its start, then wherever they
   * fit. */
  uint32_t high = b->bytes >= r->large ? highest_fit(r, b) : K_NONE;
  if (high != K_NONE) return high;
  uint32_t at = fit(r, b, r->cursor, r->low, align);
  if (at == K_NONE) at = fit(r, b, 0, r->low, align);
  return at == K_NONE ? best_fit(r, b) : at;
}

static bool place_one(ring *r, uint32_t number) {
  const as_k_buffer *wanted = as_k_buf(r->k, number);
  uint32_t at;
  expire(r, wanted->first);
  if (!start_fixed(r, wanted->first)) return false;
  /* Each round lets one tile go, which adds tiles and may so move all of them in memory. */
  while ((at = find_place(r, as_k_buf(r->k, number))) == K_NONE)
    if (!make_room(r, as_k_buf(r->k, number), number)) return false;
  as_k_buffer *b = as_k_buf(r->k, number);
  b->offset = at;
  bool first = r->k->o.flags & AS_KERNEL_FIRST_FIT;
  if (b->bytes < r->large) r->cursor = !first && at + b->bytes < r->low ? at + b->bytes : 0;
  return insert(r, number);
}

/* The used tiles in the order of first use, those of one item in that of their numbers; how many.
 * at: a place for each item, which is 0. */
static uint32_t in_order(const as_kernel *k, uint32_t *at, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space != ISA_HBM && b->used) at[b->first]++;
  }
  /* From how many there are of each item to where they begin. */
  for (uint32_t i = 0; i < k->nitems; i++) {
    uint32_t here = at[i];
    at[i] = n;
    n += here;
  }
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space != ISA_HBM && b->used) out[at[b->first]++] = i + 1;
  }
  return n;
}

/* Leaves room above for the most bytes that large tiles take at once. */
static bool keep_apart(ring *r) {
  as_kernel *k = r->k;
  size_t size = ((size_t)k->nitems + 1) * sizeof(uint32_t);
  uint32_t *more = isa_zalloc(&k->al, size), now = 0, most = 0;
  if (!more) return as_k_nomem(k);
  r->large = r->room / LARGE;
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    const as_k_buffer *b = &k->buffers[i];
    if (b->space != r->space || !b->used || b->bytes < r->large) continue;
    /* The difference at each item: what begins there less what has ended before. */
    more[b->first] += b->bytes;
    more[b->last + 1] -= b->bytes;
  }
  for (uint32_t i = 0; i < k->nitems; i++) {
    now += more[i];
    if (now > most) most = now;
  }
  r->low = most < r->room ? r->room - most : r->room;
  isa_free(&k->al, more, size);
  return true;
}

/* tiles: n of all memories, in order. */
static bool place_memory(as_kernel *k, unsigned space, const uint32_t *tiles, uint32_t n) {
  size_t size = 0;
  for (uint32_t i = 0; i < n; i++) size += as_k_buf(k, tiles[i])->fixed;
  uint32_t *fixed = isa_zalloc(&k->al, (size + 1) * sizeof *fixed);
  ring r = {.k = k, .space = space, .room = as_k_room(k, space), .fixed = fixed};
  bool ok = fixed || as_k_nomem(k);
  r.large = UINT32_MAX;
  r.low = r.room;
  if (ok && k->sides && space == ISA_SBUF) ok = keep_apart(&r);
  for (uint32_t i = 0; ok && i < n; i++) {
    const as_k_buffer *b = as_k_buf(k, tiles[i]);
    if (b->space == space && b->fixed) fixed[r.nfixed++] = tiles[i];
  }
  /* What comes back is placed in its turn among the others. */
  for (uint32_t i = 0; ok && (i < n || r.nlater);) {
    const as_k_buffer *b = i < n ? as_k_buf(k, tiles[i]) : NULL;
    if (b && (b->space != space || b->fixed))
      i++;
    else if (r.nlater && (!b || as_k_buf(k, r.later[r.nlater - 1])->first <= b->first))
      ok = place_one(&r, r.later[--r.nlater]);
    else
      ok = place_one(&r, tiles[i++]);
  }
  /* All that are left of the fixed ones count for the figures too. */
  if (ok) ok = start_fixed(&r, K_NONE);
  if (ok && r.spiller) ok = as_k_spill_apply(r.spiller);
  as_k_spill_close(r.spiller);
  isa_free(&k->al, fixed, (size + 1) * sizeof *fixed);
  isa_free(&k->al, r.live, r.cap * sizeof *r.live);
  isa_free(&k->al, r.later, r.cap_later * sizeof *r.later);
  return ok;
}

static bool place(as_kernel *k, bool sbuf, bool psum) {
  size_t items = (size_t)k->nitems + 1, n = (size_t)k->nbuffers + 1;
  uint32_t *at = isa_zalloc(&k->al, items * sizeof *at);
  uint32_t *tiles = isa_zalloc(&k->al, n * sizeof *tiles);
  uint32_t used = at && tiles ? in_order(k, at, tiles) : 0;
  isa_free(&k->al, at, items * sizeof *at);
  bool ok = at && tiles ? true : as_k_nomem(k);
  /* PSUM first: what it gives away goes to SBUF. */
  if (ok && psum) ok = place_memory(k, ISA_PSUM, tiles, used);
  if (ok && sbuf) ok = place_memory(k, ISA_SBUF, tiles, used);
  isa_free(&k->al, tiles, n * sizeof *tiles);
  return ok;
}

/* Where tiles may leave PSUM, they come to SBUF in an order of its own. */
bool as_k_place(as_kernel *k) {
  bool spill = k->o.flags & AS_KERNEL_SPILL;
  k->figures.sbuf_bytes = k->figures.psum_bytes = 0;
  return spill ? place(k, false, true) && place(k, true, false) : place(k, true, true);
}
