/* Selection: copy_predicated, select_reduce, range_select. What is not selected is never looked at,
 * so its NaNs do not spread. */
#include "op.h"

/* The least finite float: range_select puts it in place of what is out of range. */
#define FP32_MIN (-0x1.fffffep+127f)

/* A dense row of raw elements: in place, or gathered into buf. */
static const void *raw_row(void *buf, const vm_view *v, uint32_t p, uint64_t i, size_t n) {
  const uint8_t *row = vm_row_at(v, p, i);
  if (row) return row;
  vm_load_raw(buf, v, p, i, n);
  return buf;
}

/* n elements of esize bytes (4 at most) with the same bits. */
static void fill_raw(const vm_dp *d, uint32_t *row, uint32_t bits, size_t n, unsigned esize) {
  /* A word holds four bytes or two halves of the same bits: `ramp` with step 0 fills words. */
  if (esize == 1) bits = (bits & 0xff) * 0x01010101u;
  if (esize == 2) bits = (bits & 0xffff) * 0x00010001u;
  /* In whole words: the buffer has room for the last one. */
  d->k->ramp(row, bits, 0, (n * esize + 3) / 4);
}

/* dst = mask ? a : b from element i of partition p on, raw elements of dst's size. */
static void merge_row(const vm_dp *d, const vm_view *dst, const uint32_t *mask, const void *a,
                      const void *b, uint32_t p, uint64_t i) {
  uint32_t buf[VM_ROW];
  size_t n = vm_piece(dst->elems, i);
  uint8_t *row = vm_row_at(dst, p, i);
  d->k->merge(row ? row : (void *)buf, mask, a, b, n, dst->esize);
  if (!row) vm_store_raw(dst, p, i, buf, n);
}

static void load_mask(const vm_dp *d, uint32_t *mask, const vm_view *pred, bool reverse, uint32_t p,
                      uint64_t i, size_t n) {
  uint32_t buf[VM_ROW];
  d->k->mask(mask, raw_row(buf, pred, p, i, n), n, pred->esize, reverse);
}

/* Contiguous rows, where nothing is to be looked up; fill: what there is instead of src. */
static bool copy_rows(const vm_dp *d, const struct vm_COPY_PREDICATED *a, uint32_t *mask,
                      const uint32_t *fill) {
  vm_dense o, q, s;
  size_t n = (size_t)a->dst.elems;
  /* src may be an immediate: then `fill` has a row of it. */
  if (!vm_dense_at(&a->dst, &o) || !vm_dense_at(&a->pred, &q) ||
      (a->src.at && !vm_dense_at(&a->src, &s)))
    return false;
  for (uint32_t p = 0; p < a->dst.num[0]; p++, o.at += o.step, q.at += q.step) {
    const void *from = a->src.at ? (const void *)(s.at + (ptrdiff_t)p * s.step) : fill;
    d->k->mask(mask, q.at, n, a->pred.esize, a->reverse_pred);
    d->k->merge(o.at, mask, from, o.at, n, a->dst.esize);
  }
  return true;
}

vm_verdict vm_op_copy_predicated(vm_dp *d, const struct vm_COPY_PREDICATED *a) {
  _Alignas(64) uint32_t mask[VM_ROW], x[VM_ROW], old[VM_ROW];
  const void *from = x;
  if (a->src.at && a->src.dtype != a->dst.dtype)
    return vm_dp_fault(d, "copy_predicated: src is %s, dst %s: the types must agree",
                       isa_dtypes[a->src.dtype].name, isa_dtypes[a->dst.dtype].name);
  size_t width = a->dst.elems < VM_ROW ? (size_t)a->dst.elems : VM_ROW;
  /* An immediate: one row of it serves all partitions. */
  if (!a->src.at && width) {
    uint32_t bits = isa_from_f32(a->dst.dtype, vm_num_at(d, &a->imm, 0, 0), d->cvt);
    fill_raw(d, x, bits, width, a->dst.esize);
  }
  if (copy_rows(d, a, mask, x)) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      load_mask(d, mask, &a->pred, a->reverse_pred, p, i, n);
      if (a->src.at) from = raw_row(x, &a->src, p, i, n);
      merge_row(d, &a->dst, mask, from, raw_row(old, &a->dst, p, i, n), p, i);
    }
  }
  return VM_RETIRE;
}

/* ---- Selection with a maximum ------------------------------------------------------------- */

/* What select_reduce and range_select do with a mask, and the value of what is not selected, as
 * fp32 and as the destination's type. */
typedef struct selection {
  const vm_view *dst, *on_true;
  bool same; /* types: selected elements keep their bits */
  bool reduces;
  float part[16]; /* of max, over the fp32 values */
  uint32_t other[VM_ROW], other_raw[VM_ROW];
} selection;

static void selection_init(selection *s, const vm_view *dst, const vm_view *on_true, unsigned cmd) {
  s->dst = dst;
  s->on_true = on_true;
  s->same = dst->dtype == on_true->dtype;
  s->reduces = vm_cmd_reduces(cmd);
}

static void selection_fill(const vm_dp *d, selection *s, float on_false) {
  /* Only as wide as dst: most tiles are narrower than a buffer. */
  size_t n = s->dst->elems < VM_ROW ? (size_t)s->dst->elems : VM_ROW;
  uint32_t bits = isa_from_f32(s->dst->dtype, on_false, d->cvt);
  fill_raw(d, s->other, isa_f32_bits(on_false), n, 4);
  fill_raw(d, s->other_raw, bits, n, s->dst->esize);
}

static void select_piece(vm_dp *d, selection *s, const uint32_t *mask, uint32_t p, uint64_t i,
                         size_t n) {
  uint32_t buf[VM_ROW];
  float *values = d->row[0];
  /* The values are needed as fp32 to be converted, or to find their maximum. */
  if (!s->same || s->reduces) {
    const float *x = vm_in(d, values, s->on_true, p, i, n);
    d->k->merge(values, mask, x, s->other, n, 4);
    if (s->reduces) d->k->partial[ISA_ALU_max](s->part, values, n);
  }
  /* Equal types move bits; a NaN that is selected stays as it is. */
  if (s->same)
    merge_row(d, s->dst, mask, raw_row(buf, s->on_true, p, i, n), s->other_raw, p, i);
  else
    vm_store(d, s->dst, p, i, values, n);
}

static void selection_end(vm_dp *d, const selection *s, unsigned cmd, uint32_t p) {
  /* Only of max: both instructions reduce with it. */
  float row = s->reduces ? vm_kern_combine(ISA_ALU_max, s->part) : 0;
  vm_accumulate(&d->acc[p], cmd, ISA_ALU_max, 0, row);
}

vm_verdict vm_op_select_reduce(vm_dp *d, const struct vm_SELECT_REDUCE *a) {
  uint32_t mask[VM_ROW];
  selection s;
  selection_init(&s, &a->dst, &a->on_true, a->reduce);
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    /* The same for all partitions, unless it is a column. */
    if (p == 0 || a->on_false.v.at) selection_fill(d, &s, vm_num_at(d, &a->on_false, p, 0));
    vm_partials_start(ISA_ALU_max, s.part);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      load_mask(d, mask, &a->pred, a->reverse_pred, p, i, n);
      select_piece(d, &s, mask, p, i, n);
    }
    selection_end(d, &s, a->reduce, p);
  }
  return VM_RETIRE;
}

/* ---- range_select ------------------------------------------------------------------------- */

/* The row's indices, start + i in fp32, never descend: those that meet a bound form an interval. */
typedef struct interval {
  uint64_t lo, hi; /* elements lo .. hi - 1 */
} interval;

static bool below(float start, uint64_t i, float bound, bool or_equal) {
  float index = start + (float)i;
  return index < bound || (or_equal && index == bound);
}

/* How many of n indices are below the bound. The difference is right if it is exact, and close if
 * it is not. */
static uint64_t count_below(float start, float bound, bool or_equal, uint64_t n) {
  /* Where start + i reaches the bound, if fp32 did not round it: the two loops below correct it. */
  double guess = (double)bound - (double)start;
  uint64_t k = !(guess > 0) ? 0 : guess >= (double)n ? n : (uint64_t)guess;
  /* A few steps: rounding moves the place by at most the spacing of the floats near the bound. */
  while (k > 0 && !below(start, k - 1, bound, or_equal)) k--;
  while (k < n && below(start, k, bound, or_equal)) k++;
  return k;
}

static interval meets(unsigned op, float start, float bound, uint64_t n) {
  /* Nothing compares with a NaN. */
  if (start != start || bound != bound) return (interval){0, 0};
  /* is_lt and is_le hold for the first indices, is_gt and is_ge for the last. */
  switch (op) {
  case ISA_ALU_is_lt: return (interval){0, count_below(start, bound, false, n)};
  case ISA_ALU_is_le: return (interval){0, count_below(start, bound, true, n)};
  case ISA_ALU_is_gt: return (interval){count_below(start, bound, true, n), n};
  case ISA_ALU_is_ge: return (interval){count_below(start, bound, false, n), n};
  default: /* is_equal */
    return (interval){count_below(start, bound, false, n), count_below(start, bound, true, n)};
  }
}

/* Both bounds of partition p. */
static interval in_range(const vm_dp *d, const struct vm_RANGE_SELECT *a, uint32_t p) {
  /* start is one value for all partitions, the bounds are columns. */
  float start = vm_num_at(d, &a->start, 0, 0), b0, b1;
  vm_load(d, &b0, &a->bound0, p, 0, 1);
  vm_load(d, &b1, &a->bound1, p, 0, 1);
  interval x = meets(a->op0, start, b0, a->dst.elems), y = meets(a->op1, start, b1, a->dst.elems);
  x.lo = x.lo > y.lo ? x.lo : y.lo;
  x.hi = x.hi < y.hi ? x.hi : y.hi;
  /* No index meets both bounds. */
  if (x.hi < x.lo) x.hi = x.lo;
  return x;
}

static size_t within(uint64_t at, uint64_t first, size_t n) {
  return at <= first ? 0 : at - first < n ? (size_t)(at - first) : n;
}

/* The mask of the n elements from `first`. */
static void interval_mask(const vm_dp *d, uint32_t *mask, interval r, uint64_t first, size_t n) {
  /* Below, inside and above the interval, as far as they are in this piece. */
  size_t lo = within(r.lo, first, n), hi = within(r.hi, first, n);
  d->k->ramp(mask, 0, 0, lo);
  d->k->ramp(mask + lo, UINT32_MAX, 0, hi - lo);
  d->k->ramp(mask + hi, 0, 0, n - hi);
}

vm_verdict vm_op_range_select(vm_dp *d, const struct vm_RANGE_SELECT *a) {
  uint32_t mask[VM_ROW];
  selection s;
  selection_init(&s, &a->dst, &a->on_true, a->reduce);
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    /* The default is the least float: a maximum ignores it. */
    if (p == 0 || a->on_false.v.at) selection_fill(d, &s, vm_num_at(d, &a->on_false, p, FP32_MIN));
    interval r = in_range(d, a, p);
    vm_partials_start(ISA_ALU_max, s.part);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      interval_mask(d, mask, r, i, n);
      select_piece(d, &s, mask, p, i, n);
    }
    selection_end(d, &s, a->reduce, p);
  }
  return VM_RETIRE;
}
