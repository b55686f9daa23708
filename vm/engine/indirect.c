/* Gen4's `.indirect` operands: the places of their elements, read from the index when the
 * instruction issues, and whether a scatter is allowed. */
#include "engine.h"
#include "../../isa/bytes.h"

#include <string.h>

static int32_t signed_index(unsigned dtype, uint32_t bits) {
  switch (dtype) {
  case ISA_int8: return (int8_t)bits;
  case ISA_int16: return (int16_t)bits;
  default: return (int32_t)bits;
  }
}

/* Offset i of the index is its element [i mod group, i / group]. */
static int64_t offset_at(const vm_view *index, uint64_t i, unsigned group) {
  uint32_t bits = 0;
  /* Only the first `group` partitions of the index are read. */
  vm_load_bits(&bits, index, (uint32_t)(i % group), i / group, 1);
  return index->dtype == ISA_uint32 ? (int64_t)bits : signed_index(index->dtype, bits);
}

bool vm_indirect(vm_resolver *r, const vm_reach *in, const vm_view *index, vm_view *v) {
  vm_core *c = r->c;
  unsigned group = isa_index_group(r->e->dp.engine);
  int64_t *place = (int64_t *)(void *)vm_item_block(c, r->item, v->elems * sizeof *place);
  if (!place) return isa_fail(r->err, ISA_NOMEM, ISA_NOFIELD, "no memory for its offsets");
  v->lo = INT32_MAX;
  v->hi = INT32_MIN;
  for (uint64_t i = 0; i < v->elems; i++) {
    /* Times do not depend on where elements are. */
    int64_t offset = c->run->timing_only ? 0
                     : in->given         ? (int32_t)isa_get32(in->given + 4 * i)
                                         : offset_at(index, i, group);
    /* In bytes of a partition, from the tile's own beginning. */
    int64_t at = in->offset + offset * v->esize;
    if (at < in->lo || at + v->esize > in->hi)
      return isa_fail(r->err, ISA_FAULT, ISA_NOFIELD,
                      "offset %lld, number %llu of the index: byte %lld is outside %s, which has "
                      "bytes %lld..%lld of a partition",
                      (long long)offset, (unsigned long long)i, (long long)at, in->name,
                      (long long)in->lo, (long long)in->hi - 1);
    /* Relative to the operand's first element, as a view wants it. */
    place[i] = offset * v->esize;
    if (place[i] < v->lo) v->lo = (int32_t)place[i];
    if (place[i] > v->hi) v->hi = (int32_t)place[i];
  }
  v->run = 1;
  v->run_step = v->esize;
  /* One element needs no list of places. */
  if (v->elems > 1) {
    v->place = place;
  } else {
    v->at += place[0];
    v->lo = v->hi = 0;
  }
  return true;
}

/* ---- Scatters ----------------------------------------------------------------------------- */

/* The byte of a partition at which the view begins. */
static size_t base_byte(const vm_core *c, const vm_view *v) {
  bool sbuf = v->space == ISA_SBUF;
  return (size_t)(v->at - (sbuf ? c->mem.sbuf : c->mem.psum)) %
         (sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch);
}

/* Marks the first byte of each element (that is enough: elements are aligned to their size, and
 * `span` bytes are looked at from there); returns the first element that finds a mark, else
 * elems. */
static uint64_t find_or_mark(const vm_core *c, const vm_view *v, uint64_t *bits, bool mark) {
  size_t base = base_byte(c, v);
  for (uint64_t i = 0; i < v->elems; i++) {
    size_t first = base + (size_t)(vm_at(v, 0, i) - v->at);
    for (size_t b = first; b < first + v->esize; b++) {
      if (bits[b / 64] >> (b % 64) & 1) return i;
      if (mark) bits[b / 64] |= (uint64_t)1 << (b % 64);
    }
  }
  return v->elems;
}

static bool same_places(const vm_view *a, const vm_view *b) {
  if (a->at != b->at || a->esize != b->esize || a->elems != b->elems || !a->place || !b->place)
    return false;
  return memcmp(a->place, b->place, (size_t)a->elems * sizeof *a->place) == 0;
}

/* bits: zeros, one for each byte of a partition. */
static bool check_scatter(const vm_core *c, const vm_view *dst, const vm_view *const *src,
                          const char *const *names, unsigned n, uint64_t *bits, isa_error *err) {
  vm_box d, s;
  vm_view_box(c, dst, &d);
  uint64_t twice = find_or_mark(c, dst, bits, true);
  if (twice < dst->elems)
    return isa_fail(err, ISA_FAULT, ISA_NOFIELD,
                    "element %llu of the destination coincides with an earlier one: each must be "
                    "written once",
                    (unsigned long long)twice);
  for (unsigned i = 0; i < n; i++) {
    vm_view_box(c, src[i], &s);
    if (!vm_box_meet(&d, &s) || (!dst->place && !src[i]->place) || same_places(dst, src[i]))
      continue;
    if (find_or_mark(c, src[i], bits, false) < src[i]->elems)
      return isa_fail(err, ISA_FAULT, ISA_NOFIELD,
                      "overlaps %s: a destination must have exactly the elements of a source or "
                      "share no byte with it",
                      names[i]);
  }
  return true;
}

bool vm_check_scatter(const vm_core *c, const vm_view *dst, const vm_view *const *src,
                      const char *const *names, unsigned n, isa_error *err) {
  if (dst->elems == 0 || dst->num[0] == 0 || c->run->timing_only) return true;
  /* By the machine's own size: a hypothetical one may have partitions of 1 MiB. */
  size_t pitch = dst->space == ISA_SBUF ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  size_t bytes = (pitch / 64 + 1) * sizeof(uint64_t);
  uint64_t *bits = isa_zalloc(&c->al, bytes);
  if (!bits) return isa_fail(err, ISA_NOMEM, ISA_NOFIELD, "no memory to check its elements");
  bool ok = check_scatter(c, dst, src, names, n, bits, err);
  isa_free(&c->al, bits, bytes);
  return ok;
}
