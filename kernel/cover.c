/* Which bytes of a buffer are written: a box, or runs of bytes by partition. */
#include "define.h"
#include "../isa/operand.h"

enum { MOST_RUNS = 1 << 16 };

/* ---- Covers -------------------------------------------------------------------------------- */

/* The cover of a buffer; NULL when nothing or all of it is written. */
as_k_cover *as_k_cover_of(const as_k_definer *d, uint32_t buffer) {
  uint32_t number = d->numbers[buffer - 1];
  return number && number != K_NONE ? &d->covers[number - 1] : NULL;
}

/* The same of one that is not all written, made when it is not there; NULL: memory is out. It lies
 * there until the next one is made. */
as_k_cover *as_k_make_cover(as_k_definer *d, uint32_t buffer) {
  as_k_cover *c = as_k_cover_of(d, buffer);
  if (c) return c;
  uint32_t number = d->free;
  if (number) {
    d->free = d->covers[number - 1].next;
  } else if (isa_array_room(&d->k->al, &d->covers, d->ncovers, &d->cap_covers, sizeof *c)) {
    number = ++d->ncovers;
  } else {
    as_k_nomem(d->k);
    return NULL;
  }
  d->numbers[buffer - 1] = number;
  d->covers[number - 1] = (as_k_cover){0};
  return &d->covers[number - 1];
}

static void free_strips(const as_k_definer *d, as_k_cover *c) {
  for (uint32_t b = 0; b < c->n; b++)
    isa_free(&d->k->al, c->strips[b].runs, c->strips[b].cap * sizeof(as_k_run));
  isa_free(&d->k->al, c->strips, c->cap * sizeof *c->strips);
  c->n = c->cap = 0;
  c->strips = NULL;
}

/* A buffer has no cover from here on: `number` is 0 or K_NONE. */
void as_k_drop_cover(as_k_definer *d, uint32_t buffer, uint32_t number) {
  as_k_cover *c = as_k_cover_of(d, buffer);
  if (c) {
    free_strips(d, c);
    c->next = d->free;
    d->free = d->numbers[buffer - 1];
  }
  d->numbers[buffer - 1] = number;
}

/* ---- Bands and runs ------------------------------------------------------------------------ */

static bool split(as_k_definer *d, as_k_cover *c, uint32_t i, uint16_t at) {
  if (!isa_array_room(&d->k->al, &c->strips, c->n, &c->cap, sizeof *c->strips))
    return as_k_nomem(d->k);
  memmove(&c->strips[i + 1], &c->strips[i], (c->n - i) * sizeof *c->strips);
  c->n++;
  as_k_strip *low = &c->strips[i], *high = &c->strips[i + 1];
  low->p1 = high->p0 = at;
  high->cap = high->n;
  high->runs = NULL;
  if (!high->n) return true;
  high->runs = isa_zalloc(&d->k->al, high->n * sizeof *high->runs);
  if (!high->runs) {
    high->n = high->cap = 0;
    return as_k_nomem(d->k);
  }
  memcpy(high->runs, low->runs, high->n * sizeof *high->runs);
  return true;
}

/* All partitions of a buffer, or of a memory. */
static as_k_strip extent_of(const as_k_definer *d, uint32_t buffer) {
  const as_k_buffer *b = buffer <= d->k->nbuffers ? as_k_buf(d->k, buffer) : NULL;
  if (!b) return (as_k_strip){.p1 = ISA_PMAX};
  if (b->space == ISA_HBM) return (as_k_strip){.p1 = 1};
  return (as_k_strip){.p0 = b->part, .p1 = (uint16_t)(b->part + b->nparts)};
}

/* Cuts the strips so that [p0, p1) is made of whole ones. */
static bool cut(as_k_definer *d, as_k_cover *c, uint32_t buffer, uint16_t p0, uint16_t p1) {
  if (c->n == 0) {
    if (!isa_array_room(&d->k->al, &c->strips, 0, &c->cap, sizeof *c->strips))
      return as_k_nomem(d->k);
    c->strips[0] = extent_of(d, buffer);
    c->n = 1;
  }
  for (uint32_t i = 0; i < c->n; i++) {
    if (c->strips[i].p0 < p0 && p0 < c->strips[i].p1 && !split(d, c, i, p0)) return false;
    if (c->strips[i].p0 < p1 && p1 < c->strips[i].p1 && !split(d, c, i, p1)) return false;
  }
  return true;
}

/* The first run of a strip that ends at lo or later. */
static uint32_t find(const as_k_strip *b, int64_t lo) {
  uint32_t low = 0, high = b->n;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (b->runs[mid].hi < lo)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool add_run(as_k_definer *d, as_k_strip *b, as_k_run r) {
  uint32_t at = find(b, r.lo), end = at;
  for (; end < b->n && b->runs[end].lo <= r.hi; end++) {
    if (b->runs[end].lo < r.lo) r.lo = b->runs[end].lo;
    if (b->runs[end].hi > r.hi) r.hi = b->runs[end].hi;
  }
  if (end == at) {
    if (!isa_array_room(&d->k->al, &b->runs, b->n, &b->cap, sizeof *b->runs))
      return as_k_nomem(d->k);
    memmove(&b->runs[at + 1], &b->runs[at], (b->n - at) * sizeof *b->runs);
    b->n++;
  } else {
    memmove(&b->runs[at + 1], &b->runs[end], (b->n - end) * sizeof *b->runs);
    b->n -= end - at - 1;
  }
  b->runs[at] = r;
  return true;
}

/* Bytes of [lo, hi) that a strip has. */
static int64_t had(const as_k_strip *b, int64_t lo, int64_t hi) {
  int64_t n = 0;
  for (uint32_t i = find(b, lo); i < b->n && b->runs[i].lo < hi; i++) {
    int64_t from = b->runs[i].lo > lo ? b->runs[i].lo : lo;
    int64_t to = b->runs[i].hi < hi ? b->runs[i].hi : hi;
    if (to > from) n += to - from;
  }
  return n;
}

/* Goes on to the next run of some bytes: i counts each dimension, *at is where it begins. */
static bool next_run(const isa_byteset *b, int64_t *i, int64_t *at) {
  for (unsigned d = b ? b->n : 0; d-- > 0;) {
    *at += b->step[d];
    if (++i[d] < b->num[d]) return true;
    *at -= b->step[d] * b->num[d];
    i[d] = 0;
  }
  return false;
}

/* Beyond so many runs bytes are taken as if they were dense. */
static bool too_many_runs(const isa_byteset *s) {
  int64_t n = 1;
  for (unsigned d = 0; s && d < s->n; d++) n = n > MOST_RUNS ? n : n * s->num[d];
  return n > MOST_RUNS;
}

/* The box as strips. */
static bool unpack(as_k_definer *d, as_k_cover *c, uint32_t buffer) {
  if (c->n || c->p0 == c->p1) return true;
  if (!cut(d, c, buffer, c->p0, c->p1)) return false;
  for (uint32_t i = 0; i < c->n; i++)
    if (c->strips[i].p0 == c->p0 && !add_run(d, &c->strips[i], (as_k_run){c->lo, c->hi}))
      return false;
  return true;
}

bool as_k_in_box(const as_k_cover *c, const as_k_bytes *b) {
  return c->lo <= b->lo && b->hi <= c->hi && c->p0 <= b->p0 && b->p1 <= c->p1;
}

/* Adds dense bytes to the box when the two together are one. */
static bool grow_box(as_k_cover *c, const as_k_bytes *b) {
  if (c->p0 == c->p1 || (b->lo <= c->lo && c->hi <= b->hi && b->p0 <= c->p0 && c->p1 <= b->p1)) {
    c->lo = b->lo;
    c->hi = b->hi;
    c->p0 = b->p0;
    c->p1 = b->p1;
  } else if (c->p0 == b->p0 && c->p1 == b->p1 && b->lo <= c->hi && c->lo <= b->hi) {
    c->lo = b->lo < c->lo ? b->lo : c->lo;
    c->hi = b->hi > c->hi ? b->hi : c->hi;
  } else if (c->lo == b->lo && c->hi == b->hi && b->p0 <= c->p1 && c->p0 <= b->p1) {
    c->p0 = b->p0 < c->p0 ? b->p0 : c->p0;
    c->p1 = b->p1 > c->p1 ? b->p1 : c->p1;
  } else {
    return as_k_in_box(c, b);
  }
  return true;
}

static int64_t run_of(const as_k_bytes *b) { return b->set ? b->set->run : b->hi - b->lo; }

bool as_k_write_bytes(as_k_definer *d, as_k_cover *c, uint32_t buffer, const as_k_bytes *bytes) {
  const isa_byteset *s = too_many_runs(bytes->set) ? NULL : bytes->set;
  int64_t length = s ? s->run : bytes->hi - bytes->lo;
  if (!c->n && (as_k_in_box(c, bytes) || (!s && grow_box(c, bytes)))) return true;
  if (!unpack(d, c, buffer) || !cut(d, c, buffer, bytes->p0, bytes->p1)) return false;
  for (uint32_t i = 0; i < c->n; i++) {
    int64_t at = bytes->lo, index[ISA_MAX_DIMS] = {0};
    if (c->strips[i].p0 < bytes->p0 || c->strips[i].p1 > bytes->p1) continue;
    do
      if (!add_run(d, &c->strips[i], (as_k_run){at, at + length})) return false;
    while (next_run(s, index, &at));
  }
  return true;
}

/* The first byte of [lo, hi) that a strip lacks; hi: it has them all. */
static int64_t lacks(const as_k_strip *b, int64_t lo, int64_t hi) {
  for (uint32_t i = find(b, lo); i < b->n && b->runs[i].lo <= lo; i++)
    if (b->runs[i].hi > lo) lo = b->runs[i].hi;
  return lo < hi ? lo : hi;
}

/* How much of the bytes is written; *part, *byte: partition and byte of the first that is not.
 * K_FAILED: memory is out. */
int as_k_state_of(as_k_definer *d, uint32_t buffer, const as_k_bytes *bytes, unsigned *part,
                  int64_t *byte) {
  as_k_cover *c = as_k_cover_of(d, buffer);
  *part = bytes->p0;
  *byte = bytes->lo;
  if (d->numbers[buffer - 1] == K_NONE) return K_ALL;
  if (!c || (!c->n && c->p0 == c->p1)) return K_NOTHING;
  if (!c->n && as_k_in_box(c, bytes)) return K_ALL;
  if (!unpack(d, c, buffer)) return K_FAILED;
  bool some = false, all = c->n > 0;
  int64_t length = run_of(bytes);
  /* Nothing exact is known of so many runs: what has been written is enough. */
  if (too_many_runs(bytes->set)) return c->writer ? K_ALL : K_NOTHING;
  for (uint32_t i = 0; i < c->n; i++) {
    const as_k_strip *b = &c->strips[i];
    int64_t at = bytes->lo, index[ISA_MAX_DIMS] = {0};
    if (b->p1 <= bytes->p0 || b->p0 >= bytes->p1) continue;
    do {
      int64_t n = had(b, at, at + length);
      some = some || n > 0;
      if (n == length || !all) continue;
      all = false;
      *part = b->p0 > bytes->p0 ? b->p0 : bytes->p0;
      *byte = lacks(b, at, at + length);
    } while ((all || !some) && next_run(bytes->set, index, &at));
  }
  return all ? K_ALL : some ? K_SOME : K_NOTHING;
}

void as_k_close_covers(as_k_definer *d) {
  const isa_alloc *al = &d->k->al;
  for (uint32_t i = 0; i < d->ncovers; i++) free_strips(d, &d->covers[i]);
  isa_free(al, d->covers, d->cap_covers * sizeof *d->covers);
  isa_free(al, d->numbers, ((size_t)d->k->nbuffers + K_MEMORIES) * sizeof *d->numbers);
}
