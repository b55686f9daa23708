/* GpSimd instructions that count: iota and affine_select. */
#include "op.h"

#include <string.h>

/* Walks the values offset + partition * multiplier + pattern of one partition in row-major order.
 * 32-bit arithmetic, wrapping; unsigned here, signed to the program. */
typedef struct ramp {
  const vm_steps *steps;
  uint32_t value; /* of the next element */
  uint32_t index[4];
  uint32_t inner_left; /* elements of the innermost dimension that are still to come */
} ramp;

static uint32_t innermost(const vm_steps *s) { return s->n ? s->s[s->n - 1].num : 1; }

static void ramp_start(ramp *r, const vm_steps *s, int32_t offset, int32_t multiplier, uint32_t p) {
  memset(r, 0, sizeof *r);
  r->steps = s;
  r->value = (uint32_t)offset + p * (uint32_t)multiplier;
  r->inner_left = innermost(s);
}

/* Goes to the first element of the next innermost row. The value is one step past the last. */
static void next_row(ramp *r) {
  const isa_step *s = r->steps->s;
  uint32_t last = r->steps->n ? r->steps->n - 1 : 0;
  /* Back to where the innermost dimension began; wraps, as the machine's 32-bit sums do. */
  r->value -= s[last].num * (uint32_t)s[last].step;
  for (uint32_t i = last; i-- > 0;) {
    r->value += (uint32_t)s[i].step;
    if (++r->index[i] < s[i].num) break;
    /* The index overflows: back to 0, and on to the dimension outside. */
    r->value -= s[i].num * (uint32_t)s[i].step;
    r->index[i] = 0;
  }
  r->inner_left = innermost(r->steps);
}

/* The next elements that are evenly spaced, at most n: how many, and the first's value. The step
 * between them is the innermost one. */
static size_t ramp_piece(ramp *r, size_t n, uint32_t *from, uint32_t *step) {
  if (r->inner_left == 0) next_row(r);
  size_t m = r->inner_left < n ? r->inner_left : n;
  *step = r->steps->n ? (uint32_t)r->steps->s[r->steps->n - 1].step : 0;
  *from = r->value;
  r->value += (uint32_t)m * *step;
  r->inner_left -= (uint32_t)m;
  return m;
}

static uint64_t ramp_elems(const vm_steps *s) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < s->n; i++) n *= s->s[i].num;
  return n;
}

static vm_verdict check_pattern(vm_dp *d, const char *insn, const vm_steps *s, const vm_view *dst) {
  /* The product of sizes may be in registers: only now is it known. */
  if (ramp_elems(s) == dst->elems) return VM_RETIRE;
  return vm_dp_fault(d, "%s: a pattern of %llu elements for %llu of dst", insn,
                     (unsigned long long)ramp_elems(s), (unsigned long long)dst->elems);
}

static bool is_word_int(const vm_view *v) {
  return v->dtype == ISA_int32 || v->dtype == ISA_uint32;
}

/* n elements of 32 bits where they are, if they are dense; else NULL. */
static uint32_t *words_at(const vm_view *v, uint32_t p, uint64_t first) {
  uint8_t *at = v->esize == 4 ? vm_row_at(v, p, first) : NULL;
  return (uintptr_t)at % sizeof(uint32_t) == 0 ? (uint32_t *)(void *)at : NULL;
}

vm_verdict vm_op_iota(vm_dp *d, const struct vm_IOTA *a) {
  uint32_t x[VM_ROW], from, step;
  ramp r;
  if (a->dst.elems == 0) return VM_RETIRE;
  vm_verdict v = check_pattern(d, "iota", &a->pattern, &a->dst);
  if (v != VM_RETIRE) return v;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    /* The partition of the whole instruction: a part of it on another thread counts on from
     * d->lane. */
    ramp_start(&r, &a->pattern, a->offset, a->multiplier, d->lane + p);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      /* A piece may take parts of several innermost rows. */
      for (size_t j = 0, m; j < n; j += m) {
        m = ramp_piece(&r, n - j, &from, &step);
        d->k->ramp(x + j, from, step, m);
      }
      /* 32-bit integers are stored as they are; other types through fp32, with one rounding. */
      if (is_word_int(&a->dst)) {
        vm_store_bits(&a->dst, p, i, x, n);
        continue;
      }
      d->k->load[ISA_int32](d->row[0], x, n);
      vm_store(d, &a->dst, p, i, d->row[0], n);
    }
  }
  return VM_RETIRE;
}

/* For which signs of the value `value cmp 0` holds: negative, zero, positive. */
static void signs_of(unsigned cmp, uint32_t keep[3]) {
  bool lt = cmp == ISA_ALU_is_lt || cmp == ISA_ALU_is_le || cmp == ISA_ALU_not_equal;
  bool eq = cmp == ISA_ALU_is_equal || cmp == ISA_ALU_is_ge || cmp == ISA_ALU_is_le;
  bool gt = cmp == ISA_ALU_is_gt || cmp == ISA_ALU_is_ge || cmp == ISA_ALU_not_equal;
  keep[0] = lt ? UINT32_MAX : 0;
  keep[1] = eq ? UINT32_MAX : 0;
  keep[2] = gt ? UINT32_MAX : 0;
}

static void choose(const vm_dp *d, unsigned cmp, uint32_t *o, const uint32_t *x, uint32_t fill,
                   ramp *r, size_t n) {
  uint32_t keep[3], from, step;
  signs_of(cmp, keep);
  for (size_t j = 0, m; j < n; j += m) {
    /* Pieces at a constant step: the kernel compares a ramp, not a value for each element. */
    m = ramp_piece(r, n - j, &from, &step);
    d->k->choose(o + j, x + j, fill, from, step, keep, m);
  }
}

/* If the types agree, the bits of src move as they are. */
static void select_bits(vm_dp *d, const struct vm_AFFINE_SELECT *a, uint32_t p, ramp *r) {
  uint32_t buf[VM_ROW];
  uint32_t fill = isa_from_f32(a->dst.dtype, vm_num_at(d, &a->fill, p, 0), d->cvt);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    /* In place where both are dense words; else through a buffer. */
    uint32_t *x = words_at(&a->src, p, i), *o = words_at(&a->dst, p, i);
    if (!x) vm_load_bits(x = buf, &a->src, p, i, n);
    choose(d, a->cmp, o ? o : buf, x, fill, r, n);
    if (!o) vm_store_bits(&a->dst, p, i, buf, n);
  }
}

static void select_floats(vm_dp *d, const struct vm_AFFINE_SELECT *a, uint32_t p, ramp *r) {
  uint32_t x[VM_ROW], fill = isa_f32_bits(vm_num_at(d, &a->fill, p, 0));
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    vm_load(d, d->row[0], &a->src, p, i, n);
    /* `choose` moves words: the bits of the floats, as they are. */
    memcpy(x, d->row[0], n * sizeof *x);
    choose(d, a->cmp, x, x, fill, r, n);
    memcpy(d->row[0], x, n * sizeof *x);
    vm_store(d, &a->dst, p, i, d->row[0], n);
  }
}

vm_verdict vm_op_affine_select(vm_dp *d, const struct vm_AFFINE_SELECT *a) {
  ramp r;
  if (a->dst.elems == 0) return VM_RETIRE;
  vm_verdict v = check_pattern(d, "affine_select", &a->pattern, &a->dst);
  if (v != VM_RETIRE) return v;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    ramp_start(&r, &a->pattern, a->offset, a->multiplier, d->lane + p);
    /* Equal types: nothing is converted, so that -0, NaNs and low bits are kept. */
    if (a->dst.dtype == a->src.dtype)
      select_bits(d, a, p, &r);
    else
      select_floats(d, a, p, &r);
  }
  return VM_RETIRE;
}
