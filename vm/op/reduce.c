/* Reduction along the free dimensions: tensor_reduce, tensor_scalar_reduce. */
#include "op.h"

/* How a row of fp32 becomes one value. Sums use the sixteen partials of isa/README.md's Numbers,
 * and so do operators whose result depends only on the set, if a kernel has them; the others go in
 * order. */
typedef struct sum {
  const vm_dp *d;
  unsigned op;
  bool started;   /* in-order operators: value holds the first element */
  uint64_t first; /* subtract: 1 until the first element has been taken */
  float value;
  float part[16];
} sum;

static bool by_partials(unsigned op) {
  /* Operators whose result does not depend on the order but for rounding; their partials are those
   * of the definition. */
  return op == ISA_ALU_add || op == ISA_ALU_mult || op == ISA_ALU_max || op == ISA_ALU_min;
}

/* a - b - c is a - (b + c): the elements after the first are summed. */
static unsigned partial_op(unsigned op) { return op == ISA_ALU_subtract ? ISA_ALU_add : op; }

static void sum_start(sum *s, const vm_dp *d, unsigned op) {
  s->d = d;
  s->op = op;
  s->started = false;
  s->value = 0;
  vm_partials_start(partial_op(op), s->part);
}

static void fold(sum *s, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    s->value = s->started ? vm_alu_f32(s->op, s->value, x[i]) : x[i];
    s->started = true;
  }
}

/* The next n elements. Every call but the last has a multiple of sixteen (for subtract, the first
 * call has one more: the first element is no part of the sum). */
static void sum_add(sum *s, const float *x, size_t n) {
  if (by_partials(s->op)) {
    s->d->k->partial[s->op](s->part, x, n);
  } else if (s->op == ISA_ALU_subtract) {
    /* The first element is what is subtracted from. */
    if (!s->started) s->value = *x++, s->started = true, n--;
    if (n) s->d->k->partial[ISA_ALU_add](s->part, x, n);
  } else {
    fold(s, x, n);
  }
}

static float sum_end(const sum *s) {
  switch (s->op) {
  case ISA_ALU_subtract: return vm_alu_f32(s->op, s->value, vm_kern_combine(ISA_ALU_add, s->part));
  case ISA_ALU_logical_and:
  case ISA_ALU_logical_or:
  case ISA_ALU_logical_xor: /* a single element is not yet a truth value */
    return s->value != 0 ? 1 : 0;
  default: return by_partials(s->op) ? vm_kern_combine(s->op, s->part) : s->value;
  }
}

/* Reduces the `inner` elements from `first` on of partition p, in pieces if there are many. */
static float reduce_long(vm_dp *d, const struct vm_TENSOR_REDUCE *a, uint32_t p, uint64_t first,
                         uint64_t inner) {
  sum s;
  sum_start(&s, d, a->op);
  /* VM_ROW - 15 is one more than a multiple of sixteen, as sum_add wants of subtract's first piece.
   */
  uint64_t take = a->op == ISA_ALU_subtract ? VM_ROW - 15 : VM_ROW;
  for (uint64_t i = 0; i < inner; take = VM_ROW) {
    size_t n = inner - i < take ? (size_t)(inner - i) : (size_t)take;
    sum_add(&s, vm_in(d, d->row[0], &a->src, p, first + i, n), n);
    i += n;
  }
  return sum_end(&s);
}

/* n results of `inner` elements each, one after another. */
static void reduce_short(const vm_dp *d, unsigned op, float *r, const float *x, size_t n,
                         size_t inner) {
  if (by_partials(op)) {
    d->k->reduce[op](r, x, (ptrdiff_t)inner, n, inner);
    return;
  }
  /* No kernel: result by result. */
  for (size_t j = 0; j < n; j++, x += inner) {
    sum s;
    sum_start(&s, d, op);
    sum_add(&s, x, inner);
    r[j] = sum_end(&s);
  }
}

static void finish(vm_dp *d, const struct vm_TENSOR_REDUCE *a, uint32_t p, uint64_t at, float *r,
                   size_t n) {
  /* On the fp32 result, before it is converted. */
  if (a->negate)
    for (size_t j = 0; j < n; j++) r[j] = -r[j];
  vm_store(d, &a->dst, p, at, r, n);
}

/* One result per partition, of rows that are laid out as a kernel wants them or of a narrow tile:
 * all at once. */
static bool reduce_rows(vm_dp *d, const struct vm_TENSOR_REDUCE *a, uint64_t inner) {
  struct vm_TENSOR_REDUCE column = *a;
  vm_view row;
  vm_rows x;
  uint32_t parts = a->src.num[0];
  /* Only such operators have a kernel that goes over rows. */
  if (a->dst.elems != 1 || !by_partials(a->op) || !vm_tile_as_row(&column.dst, &a->dst))
    return false;
  /* The rows are dense fp32, or the tile is narrow and is gathered: either way one call for all
   * partitions. */
  if (!vm_rows_at(&a->src, &x)) {
    if (!vm_tile_as_row(&row, &a->src)) return false;
    x.at = d->row[0];
    x.step = (ptrdiff_t)inner;
    vm_load(d, d->row[0], &row, 0, 0, (size_t)row.elems);
  }
  d->k->reduce[a->op](d->row[1], x.at, x.step, parts, (size_t)inner);
  finish(d, &column, 0, 0, d->row[1], parts);
  return true;
}

static void reduce_floats(vm_dp *d, const struct vm_TENSOR_REDUCE *a, uint64_t inner) {
  float *r = d->row[1];
  if (reduce_rows(d, a, inner)) return;
  /* As many results at once as one piece has elements for. */
  uint64_t group = inner <= VM_ROW ? VM_ROW / inner : 1;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t o = 0; o < a->dst.elems; o += group) {
      size_t n = a->dst.elems - o < group ? (size_t)(a->dst.elems - o) : (size_t)group;
      /* A result longer than a piece: element by element of dst. */
      if (inner > VM_ROW) {
        r[0] = reduce_long(d, a, p, o * inner, inner);
      } else {
        const float *x = vm_in(d, d->row[0], &a->src, p, o * inner, n * (size_t)inner);
        reduce_short(d, a->op, r, x, n, (size_t)inner);
      }
      finish(d, a, p, o, r, n);
    }
  }
}

static uint32_t reduce_bits_row(unsigned op, uint32_t r, const uint32_t *x, size_t n) {
  for (size_t i = 0; i < n; i++) r = vm_alu_bits(op, r, x[i], 32, false);
  return r;
}

/* Bit patterns; a narrow signed source is sign-extended if dst is wider. */
static void reduce_bits(const struct vm_TENSOR_REDUCE *a, uint64_t inner) {
  uint32_t x[VM_ROW];
  bool is_signed = isa_dtypes[a->src.dtype].cls == ISA_INT;
  uint32_t sign = is_signed ? (uint32_t)1 << (8u * a->src.esize - 1) : 0;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t o = 0; o < a->dst.elems; o++) {
      /* The value that changes nothing: of and all ones, of or and xor zeros. */
      uint32_t r = a->op == ISA_ALU_bitwise_and ? UINT32_MAX : 0;
      for (uint64_t i = 0; i < inner; i += VM_ROW) {
        size_t n = vm_piece(inner, i);
        vm_load_bits(x, &a->src, p, o * inner + i, n);
        r = reduce_bits_row(a->op, r, x, n);
      }
      r &= a->src.esize == 4 ? UINT32_MAX : ((uint32_t)1 << (8u * a->src.esize)) - 1;
      /* Extends the sign; without one `sign` is 0, and nothing changes. */
      r = (r ^ sign) - sign;
      vm_store_bits(&a->dst, p, o, &r, 1);
    }
  }
}

/* Elements that become one: the last `axes` free dimensions, 0 meaning all. */
static uint64_t reduced_elems(const vm_view *v, unsigned axes) {
  uint64_t n = 1;
  for (unsigned i = v->ndim; i-- > 1;) /* axes counts from the innermost dimension. */
    if (axes == 0 || i + axes >= v->ndim) n *= v->num[i];
  return n;
}

vm_verdict vm_op_tensor_reduce(vm_dp *d, const struct vm_TENSOR_REDUCE *a) {
  uint64_t inner = reduced_elems(&a->src, a->axes);
  if (a->dst.elems == 0 || a->src.elems == 0 || a->src.num[0] == 0) return VM_RETIRE;
  /* A size in a register may not fit. */
  if (inner * a->dst.elems != a->src.elems)
    return vm_dp_fault(d, "tensor_reduce: %llu elements, %llu per result, into %llu results",
                       (unsigned long long)a->src.elems, (unsigned long long)inner,
                       (unsigned long long)a->dst.elems);
  if (isa_aluops[a->op].cls == ISA_OP_BIT)
    reduce_bits(a, inner);
  else
    reduce_floats(d, a, inner);
  return VM_RETIRE;
}

/* dst = src op0 imm0, and op1 over the fp32 results into the registers of src's partitions. */
static float scalar_reduce_row(vm_dp *d, const struct vm_TENSOR_SCALAR_REDUCE *a, uint32_t p) {
  float s = vm_num_at(d, &a->imm0, p, 0), part[16];
  bool reduces = vm_cmd_reduces(a->reduce);
  vm_partials_start(a->op1, part);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
    float *o = vm_out(d->row[1], &a->dst, p, i);
    vm_alu_scalar(d, a->op0, o, x, s, a->reverse0, n);
    if (reduces) d->k->partial[a->op1](part, o, n);
    vm_out_done(d, &a->dst, p, i, o, n);
  }
  return reduces ? vm_kern_combine(a->op1, part) : 0;
}

vm_verdict vm_op_tensor_scalar_reduce(vm_dp *d, const struct vm_TENSOR_SCALAR_REDUCE *a) {
  /* With reduce=idle op1 is not used, so that any operator may stand there. */
  if (!by_partials(a->op1) && vm_cmd_reduces(a->reduce))
    return vm_dp_fault(d, "tensor_scalar_reduce: %s is not a reduction here: add, mult, max or min",
                       isa_aluops[a->op1].name);
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    float init = vm_num_at(d, &a->imm1, p, 0), row = scalar_reduce_row(d, a, p);
    vm_accumulate(&d->acc[p], a->reduce, a->op1, init, row);
  }
  return VM_RETIRE;
}
