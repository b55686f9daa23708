/* Elementwise instructions: one or two operators, copies, fills. */
#include "op.h"

#include <string.h>

/* ---- Bit patterns ------------------------------------------------------------------------- */

/* Bitvec operators work at the operands' common width. If widths differ they work at 32 bits, each
 * source is extended according to the sign of its type, and the low bits are stored. */
static unsigned bits_width(const vm_view *a, const vm_view *b, const vm_view *dst) {
  bool same = a->esize == dst->esize && (!b || b->esize == dst->esize);
  return same ? 8u * dst->esize : 32;
}

static void sign_extend(uint32_t *x, size_t n, unsigned from) {
  uint32_t sign = (uint32_t)1 << (from - 1);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] ^ sign) - sign;
}

static void load_wide(uint32_t *x, const vm_view *v, uint32_t p, uint64_t first, size_t n,
                      unsigned width) {
  vm_load_bits(x, v, p, first, n);
  /* vm_load_bits extends by zeros; a signed type is extended by its sign. */
  if (8u * v->esize < width && isa_dtypes[v->dtype].cls == ISA_INT)
    sign_extend(x, n, 8u * v->esize);
}

static bool is_signed_type(const vm_view *v) { return isa_dtypes[v->dtype].cls == ISA_INT; }

/* ---- tensor_tensor ------------------------------------------------------------------------ */

static void tt_bits(const vm_dp *d, const struct vm_TENSOR_TENSOR *a) {
  uint32_t x[VM_ROW], y[VM_ROW];
  unsigned width = bits_width(&a->src0, &a->src1, &a->dst);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      load_wide(x, &a->src0, p, i, n, width);
      load_wide(y, &a->src1, p, i, n, width);
      d->k->bits(a->op, x, y, n, width, is_signed_type(&a->src0));
      vm_store_bits(&a->dst, p, i, x, n);
    }
  }
}

static bool is_word_int(const vm_view *v) {
  return v->dtype == ISA_int32 || v->dtype == ISA_uint32;
}

/* Native 32-bit integers. Compares, min, max and pow are signed when both sources are int32. */
static void tt_words(const vm_dp *d, const struct vm_TENSOR_TENSOR *a) {
  uint32_t x[VM_ROW], y[VM_ROW];
  bool is_signed = is_signed_type(&a->src0) && is_signed_type(&a->src1);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      vm_load_bits(x, &a->src0, p, i, n);
      vm_load_bits(y, &a->src1, p, i, n);
      d->k->words(a->op, x, y, n, is_signed);
      vm_store_bits(&a->dst, p, i, x, n);
    }
  }
}

/* Rows of at most so many elements, in whole octets: a call for each row would take as long as what
 * it does. */
enum { NARROW = 64 };
static bool is_narrow(size_t n) { return n <= NARROW && n % VM_OCTET == 0; }

/* o = x op y, n elements of each row; y may have a step of 0. */
static void narrow_rows(const vm_dp *d, unsigned op, vm_octets t, size_t n) {
  /* One octet of all rows, then the next: the kernel has no loop along a row. */
  for (size_t i = 0; i < n; i += VM_OCTET, t.d += VM_OCTET, t.a += VM_OCTET, t.b += VM_OCTET)
    d->k->alu_rows[op](&t);
}

/* tt_floats if every row is contiguous fp32: then nothing is looked up for each row, which would
 * take most of the time of narrow tiles. */
static bool tt_rows(const vm_dp *d, unsigned op, const vm_view *dst, const vm_view *src0,
                    const vm_view *src1) {
  vm_rows o, x, y;
  size_t n = (size_t)dst->elems;
  if (n > VM_ROW || !vm_rows_at(dst, &o) || !vm_rows_at(src0, &x) || !vm_rows_at(src1, &y))
    return false;
  if (is_narrow(n)) {
    narrow_rows(d, op, (vm_octets){o.at, x.at, y.at, o.step, x.step, y.step, dst->num[0]}, n);
    return true;
  }
  for (uint32_t p = 0; p < dst->num[0]; p++, o.at += o.step, x.at += x.step, y.at += y.step)
    d->k->alu_vv[op](o.at, x.at, y.at, n);
  return true;
}

/* A narrow tile is one row, unless its own rows are whole octets: gathering them would take longer
 * than all the rest. */
static void tt_floats(vm_dp *d, const struct vm_TENSOR_TENSOR *a) {
  vm_view dst = a->dst, src0 = a->src0, src1 = a->src1, t0, t1;
  /* Whole octets are used where they are, whatever their number. */
  if (dst.elems % VM_OCTET == 0 && tt_rows(d, a->op, &dst, &src0, &src1)) return;
  /* Stochastic rounding counts by partition, so that partitions must stay apart. */
  if (!d->stochastic && vm_tile_as_row(&t0, &src0) && vm_tile_as_row(&t1, &src1) &&
      vm_tile_as_row(&dst, &a->dst))
    src0 = t0, src1 = t1;
  if (tt_rows(d, a->op, &dst, &src0, &src1)) return;
  for (uint32_t p = 0; p < dst.num[0]; p++) {
    for (uint64_t i = 0; i < dst.elems; i += VM_ROW) {
      size_t n = vm_piece(dst.elems, i);
      const float *x = vm_in(d, d->row[0], &src0, p, i, n);
      const float *y = vm_in(d, d->row[1], &src1, p, i, n);
      float *o = vm_out(d->row[2], &dst, p, i);
      d->k->alu_vv[a->op](o, x, y, n);
      vm_out_done(d, &dst, p, i, o, n);
    }
  }
}

/* tt_floats for bfloat16 in contiguous rows: no row buffers. */
static bool tt_halves(const vm_dp *d, const struct vm_TENSOR_TENSOR *a) {
  /* Narrow tiles take less as one row (tt_floats). */
  vm_dense o, x, y;
  if (d->stochastic || !d->k->alu_halves[a->op] || a->dst.elems <= VM_FEW ||
      a->dst.dtype != ISA_bfloat16 || a->src0.dtype != ISA_bfloat16 ||
      a->src1.dtype != ISA_bfloat16 || !vm_dense_at(&a->dst, &o) || !vm_dense_at(&a->src0, &x) ||
      !vm_dense_at(&a->src1, &y))
    return false;
  for (uint32_t p = 0; p < a->dst.num[0]; p++, o.at += o.step, x.at += x.step, y.at += y.step)
    d->k->alu_halves[a->op](o.at, x.at, y.at, (size_t)a->dst.elems);
  return true;
}

vm_verdict vm_op_tensor_tensor(vm_dp *d, const struct vm_TENSOR_TENSOR *a) {
  vm_round_begin(d, a->round);
  /* gpsimd has 32-bit integers of its own; the vector engine computes these through fp32. */
  if (isa_aluops[a->op].cls == ISA_OP_BIT)
    tt_bits(d, a);
  else if (d->engine == ISA_ENG_gpsimd && is_word_int(&a->dst) && is_word_int(&a->src0) &&
           is_word_int(&a->src1))
    tt_words(d, a);
  else if (!tt_halves(d, a))
    tt_floats(d, a);
  vm_round_end(d);
  return VM_RETIRE;
}

/* ---- tensor_scalar ------------------------------------------------------------------------ */

/* The integer that a bitvec operator takes from a scalar operand: the immediate's 32 bits as they
 * are, or the partition's element. */
static uint32_t num_bits(const vm_num *n, uint32_t p, unsigned width) {
  /* A bitvec operand that is not there is 0, as the operators that ignore it expect. */
  uint32_t x = 0;
  if (!n->given) return 0;
  if (!n->v.at) return isa_f32_bits(n->imm);
  load_wide(&x, &n->v, p, 0, 1, width);
  return x;
}

typedef struct words { /* n elements of `width` bits */
  uint32_t x[VM_ROW];
  size_t n;
  unsigned width;
  bool is_signed;
} words;

/* x = x op s, or s op x. */
static void bits_scalar(const vm_dp *d, unsigned op, words *w, uint32_t s, bool reverse) {
  uint32_t y[VM_ROW];
  bool swap = reverse && isa_aluops[op].arity == 2;
  /* An op1 that the program leaves out is bypass. */
  if (op == ISA_ALU_bypass) return;
  /* With the sides swapped the scalar is the first operand: x is moved out of its way. */
  if (swap) memcpy(y, w->x, w->n * sizeof *y);
  d->k->ramp(swap ? w->x : y, s, 0, w->n);
  d->k->bits(op, w->x, y, w->n, w->width, w->is_signed);
}

static void ts_bits(const vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  words w;
  w.width = bits_width(&a->src, NULL, &a->dst);
  w.is_signed = is_signed_type(&a->src);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    uint32_t s0 = num_bits(&a->imm0, p, w.width), s1 = num_bits(&a->imm1, p, w.width);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      w.n = vm_piece(a->dst.elems, i);
      load_wide(w.x, &a->src, p, i, w.n, w.width);
      bits_scalar(d, a->op0, &w, s0, a->reverse0);
      bits_scalar(d, a->op1, &w, s1, a->reverse1);
      vm_store_bits(&a->dst, p, i, w.x, w.n);
    }
  }
}

/* o = x op s for a narrow tile: x has n elements of all partitions, s may have one of each. */
static void narrow_scalar(vm_dp *d, unsigned op, float *o, const float *x, const vm_num *s,
                          bool reverse, size_t n) {
  float *y = d->row[1];
  /* An operator of one argument, or a scalar that is the same for all: a row is a row. */
  if (isa_aluops[op].arity == 1 || !s->v.at) {
    vm_alu_scalar(d, op, o, x, vm_num_at(d, s, 0, 0), reverse, n);
    return;
  }
  /* One scalar for each element, since partitions are now side by side in one row. */
  vm_nums_spread(d, y, s, s->v.num[0], n / s->v.num[0]);
  d->k->alu_vv[op](o, reverse ? y : x, reverse ? x : y, n);
}

/* The same for rows of whole octets, where they are: o = x op s. A row of s for each of x goes into
 * the buffer, or one for all. */
static void octets_scalar(vm_dp *d, unsigned op, const vm_rows *o, const vm_rows *x,
                          const vm_num *s, bool reverse, const vm_view *dst) {
  float *y = d->row[1];
  size_t n = (size_t)dst->elems;
  /* Step 0: the one row serves all partitions. */
  ptrdiff_t step = s->v.at ? (ptrdiff_t)n : 0;
  vm_octets t = {o->at, x->at, y, o->step, x->step, step, dst->num[0]};
  if (s->v.at)
    vm_nums_spread(d, y, s, dst->num[0], n);
  else
    for (size_t i = 0; i < n; i++) y[i] = vm_num_at(d, s, 0, 0);
  if (reverse && isa_aluops[op].arity == 2) {
    t.a = y, t.a_step = step;
    t.b = x->at, t.b_step = x->step;
  }
  narrow_rows(d, op, t, n);
}

static bool ts_octets(vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  vm_rows o, x;
  /* The scalars of all partitions must fit into one row buffer, so at most VM_FEW elements. */
  if (a->dst.elems > VM_FEW || !is_narrow((size_t)a->dst.elems) || !vm_rows_at(&a->dst, &o) ||
      !vm_rows_at(&a->src, &x))
    return false;
  octets_scalar(d, a->op0, &o, &x, &a->imm0, a->reverse0, &a->dst);
  if (a->op1 != ISA_ALU_bypass) octets_scalar(d, a->op1, &o, &o, &a->imm1, a->reverse1, &a->dst);
  return true;
}

static bool ts_narrow(vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  vm_view dst, src;
  /* Both must be narrow, dense in each partition, and have as many elements. */
  if (!vm_tile_as_row(&dst, &a->dst) || !vm_tile_as_row(&src, &a->src)) return false;
  size_t n = (size_t)dst.elems;
  const float *x = vm_in(d, d->row[0], &src, 0, 0, n);
  narrow_scalar(d, a->op0, d->row[2], x, &a->imm0, a->reverse0, n);
  if (a->op1 != ISA_ALU_bypass)
    narrow_scalar(d, a->op1, d->row[2], d->row[2], &a->imm1, a->reverse1, n);
  vm_out_done(d, &dst, 0, 0, d->row[2], n);
  return true;
}

/* A row with both operators; in one pass where they are a factor and a summand, in either order. */
static void ts_row(const vm_dp *d, const struct vm_TENSOR_SCALAR *a, float *o, const float *x,
                   const float s[2], size_t n) {
  bool adds = a->op0 == ISA_ALU_add || (a->op0 == ISA_ALU_subtract && !a->reverse0);
  /* In one pass, with the same two roundings; x - s is x + -s, bit for bit. */
  if (a->op0 == ISA_ALU_mult && a->op1 == ISA_ALU_add) {
    d->k->scale_bias(o, x, s[0], s[1], n);
  } else if (adds && a->op1 == ISA_ALU_mult) {
    d->k->bias_scale(o, x, a->op0 == ISA_ALU_add ? s[0] : -s[0], s[1], n);
  } else {
    vm_alu_scalar(d, a->op0, o, x, s[0], a->reverse0, n);
    if (a->op1 != ISA_ALU_bypass) vm_alu_scalar(d, a->op1, o, o, s[1], a->reverse1, n);
  }
}

static bool ts_rows(const vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  vm_rows o, x;
  size_t n = (size_t)a->dst.elems;
  if (n > VM_ROW || !vm_rows_at(&a->dst, &o) || !vm_rows_at(&a->src, &x)) return false;
  float s0[ISA_PMAX], s1[ISA_PMAX];
  /* All scalars before the first row is written: dst may be where they are. */
  vm_nums(d, s0, &a->imm0, a->dst.num[0], 0);
  vm_nums(d, s1, &a->imm1, a->dst.num[0], 0);
  for (uint32_t p = 0; p < a->dst.num[0]; p++, o.at += o.step, x.at += x.step)
    ts_row(d, a, o.at, x.at, (float[2]){s0[p], s1[p]}, n);
  return true;
}

static void ts_floats(vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    const float s[2] = {vm_num_at(d, &a->imm0, p, 0), vm_num_at(d, &a->imm1, p, 0)};
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
      float *o = vm_out(d->row[1], &a->dst, p, i);
      ts_row(d, a, o, x, s, n);
      vm_out_done(d, &a->dst, p, i, o, n);
    }
  }
}

vm_verdict vm_op_tensor_scalar(vm_dp *d, const struct vm_TENSOR_SCALAR *a) {
  vm_round_begin(d, a->round);
  /* The ways below by cost: dense rows of whole octets, a narrow tile as one row, dense rows,
   * anything. */
  if (isa_aluops[a->op0].cls == ISA_OP_BIT || isa_aluops[a->op1].cls == ISA_OP_BIT)
    ts_bits(d, a);
  else if (!ts_octets(d, a) && (d->stochastic || !ts_narrow(d, a)) && !ts_rows(d, a))
    ts_floats(d, a);
  vm_round_end(d);
  return VM_RETIRE;
}

vm_verdict vm_op_scalar_tensor_tensor(vm_dp *d, const struct vm_SCALAR_TENSOR_TENSOR *a) {
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float s = vm_num_at(d, &a->imm0, p, 0);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
      const float *y = vm_in(d, d->row[1], &a->src1, p, i, n);
      float *t = d->row[2], *o = vm_out(d->row[3], &a->dst, p, i); /* dst may be src1 */
      vm_alu_scalar(d, a->op0, t, x, s, a->reverse0, n);
      bool swap = a->reverse1 && isa_aluops[a->op1].arity == 2;
      d->k->alu_vv[a->op1](o, swap ? y : t, swap ? t : y, n);
      vm_out_done(d, &a->dst, p, i, o, n);
    }
  }
  return VM_RETIRE;
}

/* ---- Copies and fills --------------------------------------------------------------------- */

/* Contiguous rows of which one side is fp32: one conversion where they are. What is not fp32 has no
 * NaN that must become canonical once it is. */
static bool cast_rows(const vm_dp *d, const vm_view *dst, const vm_view *src) {
  vm_dense o, x;
  size_t n = (size_t)dst->elems;
  /* Both fp32 or neither: there is nothing to convert in place, or no side that a kernel can use
   * directly. */
  if (d->stochastic || n <= VM_FEW || !vm_dense_at(dst, &o) || !vm_dense_at(src, &x) ||
      o.direct == x.direct)
    return false;
  for (uint32_t p = 0; p < dst->num[0]; p++, o.at += o.step, x.at += x.step) {
    if (o.direct)
      d->k->load[src->dtype]((float *)(void *)o.at, x.at, n);
    else
      d->k->store[dst->dtype](o.at, (const float *)(void *)x.at, n, d->cvt);
  }
  return true;
}

static void cast_copy(vm_dp *d, const vm_view *to, const vm_view *from) {
  vm_view dst = *to, src = *from, t;
  if (cast_rows(d, to, from)) return;
  /* Only if both are narrow; then `dst` is the row already. */
  if (!d->stochastic && vm_tile_as_row(&t, from) && vm_tile_as_row(&dst, to)) src = t;
  for (uint32_t p = 0; p < dst.num[0]; p++) {
    for (uint64_t i = 0; i < dst.elems; i += VM_ROW) {
      size_t n = vm_piece(dst.elems, i);
      vm_store(d, &dst, p, i, vm_in(d, d->row[0], &src, p, i, n), n);
    }
  }
}

vm_verdict vm_op_tensor_copy(vm_dp *d, const struct vm_COPY *a) {
  vm_round_begin(d, a->round);
  /* Equal types move bits: a copy does not make a NaN canonical. */
  if (a->dst.dtype == a->src.dtype)
    vm_copy_bits(d->k, &a->dst, &a->src);
  else
    cast_copy(d, &a->dst, &a->src);
  vm_round_end(d);
  return VM_RETIRE;
}

/* Its source is the other core's: vm_meet_source. */
vm_verdict vm_op_sendrecv_gpsimd(vm_dp *d, const struct vm_SENDRECV_GPSIMD *a) {
  vm_copy_bits(d->k, &a->dst, &a->src);
  return VM_RETIRE;
}

/* The bits that fill dst: for an integer type those given; packed types hold only 0 here. */
static uint32_t fill_bits(const vm_dp *d, const vm_view *dst, float value) {
  /* The verifier has seen that the value is 0. */
  if (isa_dtypes[dst->dtype].cls == ISA_PACK) return 0;
  /* Nonzero is true, as in a comparison's result. */
  if (dst->dtype == ISA_bool) return isa_f32_bits(value) != 0;
  return isa_fills_bits(dst->dtype) ? isa_f32_bits(value) : isa_from_f32(dst->dtype, value, d->cvt);
}

static void fill_row(void *row, uint32_t bits, unsigned esize, size_t n) {
  uint8_t b[8] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                  (uint8_t)(bits >> 24)};
  uint8_t *out = row;
  for (size_t i = 0; i < n; i++) memcpy(out + i * esize, b, esize);
}

vm_verdict vm_op_memset(vm_dp *d, const struct vm_MEMSET *a) {
  /* One row of the value serves all partitions. */
  size_t width = a->dst.elems < VM_ROW ? (size_t)a->dst.elems : VM_ROW;
  fill_row(d->row[0], fill_bits(d, &a->dst, a->value.imm), a->dst.esize, width);
  for (uint32_t p = 0; p < a->dst.num[0]; p++)
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW)
      vm_store_raw(&a->dst, p, i, d->row[0], vm_piece(a->dst.elems, i));
  return VM_RETIRE;
}

vm_verdict vm_op_reciprocal(vm_dp *d, const struct vm_UNARY *a) {
  vm_view dst = a->dst, src = a->src, t;
  if (vm_tile_as_row(&t, &src) && vm_tile_as_row(&dst, &a->dst)) src = t;
  for (uint32_t p = 0; p < dst.num[0]; p++) {
    for (uint64_t i = 0; i < dst.elems; i += VM_ROW) {
      size_t n = vm_piece(dst.elems, i);
      float *o = vm_out(d->row[1], &dst, p, i);
      d->k->alu_vs[ISA_ALU_reciprocal](o, vm_in(d, d->row[0], &src, p, i, n), 0, n);
      vm_out_done(d, &dst, p, i, o, n);
    }
  }
  return VM_RETIRE;
}
