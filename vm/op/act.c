/* The scalar engine: activate, activate2 and their accumulator registers. */
#include "op.h"

/* A narrow tile: all its elements become one row, and so do a scale and a bias of each
 * partition. */
static bool activate_narrow(vm_dp *d, const struct vm_ACTIVATE *a) {
  vm_view dst, src;
  uint32_t parts = a->src.num[0];
  /* A sum is of one partition, and stochastic rounding counts by partition: neither goes as one
   * row. */
  if (a->reduce != ISA_CMD_idle || d->stochastic || !vm_tile_as_row(&dst, &a->dst) ||
      !vm_tile_as_row(&src, &a->src))
    return false;
  size_t n = (size_t)src.elems;
  const float *x = vm_in(d, d->row[0], &src, 0, 0, n);
  float *o = d->row[2];
  vm_act same = VM_ACT_AS_IS;
  if (a->scale.v.at) {
    vm_nums_spread(d, d->row[1], &a->scale, parts, n / parts);
    d->k->alu_vv[ISA_ALU_mult](o, x, d->row[1], n);
    x = o;
  } else {
    same.scale = vm_num_at(d, &a->scale, 0, 1);
  }
  if (a->bias.v.at) {
    vm_nums_spread(d, d->row[1], &a->bias, parts, n / parts);
    /* Two roundings, as x * scale + bias has them in every other layout. */
    d->k->alu_vs[ISA_ALU_mult](o, x, same.scale, n);
    d->k->alu_vv[ISA_ALU_add](o, o, d->row[1], n);
    x = o;
    same.scale = 1;
  } else {
    same.bias = vm_num_at(d, &a->bias, 0, -0.0f);
  }
  d->k->actfn[a->fn](o, x, &same, n);
  vm_out_done(d, &dst, 0, 0, o, n);
  return true;
}

/* An absent scale is 1 and an absent bias -0: the operations that change nothing. */
typedef struct affine {
  float scale[ISA_PMAX], bias[ISA_PMAX];
} affine;

static void affine_of(const vm_dp *d, const struct vm_ACTIVATE *a, affine *f) {
  vm_nums(d, f->scale, &a->scale, a->dst.num[0], 1);
  vm_nums(d, f->bias, &a->bias, a->dst.num[0], -0.0f);
}

const float *vm_act_inputs(const vm_dp *d, const struct vm_ACTIVATE *a, uint32_t p, float *o,
                           const float *x, size_t n) {
  if (!a->scale.given && !a->bias.given) return x;
  d->k->scale_bias(o, x, vm_num_at(d, &a->scale, p, 1), vm_num_at(d, &a->bias, p, -0.0f), n);
  return o;
}

/* o = fn(x * scale + bias); the results are also added to the partials, if there are any. */
static void activate_piece(const vm_dp *d, unsigned fn, float *o, float *part, const float *x,
                           const vm_act *act, size_t n) {
  if (part && fn == ISA_FN_exp && d->k->exp_sum) {
    d->k->exp_sum(o, part, x, act, n);
    return;
  }
  d->k->actfn[fn](o, x, act, n);
  if (part) d->k->partial[ISA_ALU_add](part, o, n);
}

/* A partition of dst; also the sum of the results before their conversion. */
static float activate_row(vm_dp *d, const struct vm_ACTIVATE *a, const vm_act *act, uint32_t p) {
  bool sums = vm_cmd_reduces(a->reduce);
  float part[16] = {0};
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
    float *o = vm_out(d->row[1], &a->dst, p, i);
    activate_piece(d, a->fn, o, sums ? part : NULL, x, act, n);
    vm_out_done(d, &a->dst, p, i, o, n);
  }
  return sums ? vm_kern_combine(ISA_ALU_add, part) : 0;
}

/* The same of contiguous elements, where nothing is to be looked up. */
static float activate_dense(vm_dp *d, const struct vm_ACTIVATE *a, const vm_act *act, vm_dense o,
                            vm_dense x) {
  bool sums = vm_cmd_reduces(a->reduce);
  size_t n = (size_t)a->dst.elems;
  float part[16] = {0};
  float *from = x.direct ? (float *)(void *)x.at : d->row[0];
  float *to = o.direct ? (float *)(void *)o.at : d->row[0];
  if (!x.direct) d->k->load[a->src.dtype](from, x.at, n);
  activate_piece(d, a->fn, to, sums ? part : NULL, from, act, n);
  if (!o.direct) d->k->store[a->dst.dtype](o.at, to, n, d->cvt);
  return sums ? vm_kern_combine(ISA_ALU_add, part) : 0;
}

/* The register of a partition is that of its lane, counted from the source's first partition. */
vm_verdict vm_op_activate(vm_dp *d, const struct vm_ACTIVATE *a) {
  vm_round_begin(d, a->round);
  affine f;
  bool done = a->dst.elems == 0 || activate_narrow(d, a);
  if (!done) affine_of(d, a, &f);
  vm_dense o, x;
  /* Stochastic rounding takes its numbers by partition and place (store_stochastic). */
  bool dense = !d->stochastic && vm_dense_at(&a->dst, &o) && vm_dense_at(&a->src, &x);
  for (uint32_t p = 0; p < a->dst.num[0] && !done; p++) {
    const vm_act act = {.scale = f.scale[p], .bias = f.bias[p]};
    float sum = dense ? activate_dense(d, a, &act, o, x) : activate_row(d, a, &act, p);
    vm_accumulate(&d->acc[p], a->reduce, ISA_ALU_add, 0, sum);
    if (dense) o.at += o.step, x.at += x.step;
  }
  vm_round_end(d);
  return VM_RETIRE;
}

/* ---- activate2 ---------------------------------------------------------------------------- */

/* A reduction of activate2 over a row: by sixteen partials. Only abs_max and abs_min are done in
 * order: their result is an operand, and if magnitudes tie it depends on the order. */
typedef struct reduction {
  unsigned op;
  bool in_order;
  float value, part[16];
} reduction;

static void reduction_start(reduction *r, unsigned op) {
  r->op = op;
  r->in_order = op == ISA_ALU_abs_max || op == ISA_ALU_abs_min;
  r->value = vm_kern_identity(op);
  vm_partials_start(op, r->part);
}

static void reduction_add(const vm_dp *d, reduction *r, const float *x, size_t n) {
  if (!r->in_order) d->k->partial[r->op](r->part, x, n);
  for (size_t i = 0; i < n && r->in_order; i++) r->value = vm_alu_f32(r->op, r->value, x[i]);
}

static float reduction_end(const reduction *r) {
  return r->in_order ? r->value : vm_kern_combine(r->op, r->part);
}

const float *vm_act2_inputs(const vm_dp *d, const struct vm_ACTIVATE2 *a, uint32_t p, float *o,
                            const float *x, size_t n) {
  if (a->op0 != ISA_ALU_bypass) {
    vm_alu_scalar(d, a->op0, o, x, vm_num_at(d, &a->imm0, p, 0), a->reverse0, n);
    x = o;
  }
  if (a->op1 != ISA_ALU_bypass) {
    vm_alu_scalar(d, a->op1, o, x, vm_num_at(d, &a->imm1, p, 0), a->reverse1, n);
    x = o;
  }
  return x;
}

/* Operators that are a scale and a bias are the function's own. */
static bool act2_affine(const vm_dp *d, const struct vm_ACTIVATE2 *a, uint32_t p, vm_act *act) {
  if ((a->op0 != ISA_ALU_mult && a->op0 != ISA_ALU_bypass) ||
      (a->op1 != ISA_ALU_add && a->op1 != ISA_ALU_bypass))
    return false;
  if (a->op0 == ISA_ALU_mult) act->scale = vm_num_at(d, &a->imm0, p, 0);
  if (a->op1 == ISA_ALU_add) act->bias = vm_num_at(d, &a->imm1, p, 0);
  return true;
}

static float activate2_row(vm_dp *d, const struct vm_ACTIVATE2 *a, uint32_t p) {
  bool reduces = vm_cmd_reduces(a->reduce);
  vm_act act = VM_ACT_AS_IS;
  bool as_affine = act2_affine(d, a, p, &act);
  reduction r;
  act.param = vm_num_at(d, &a->relu_param, p, 0);
  reduction_start(&r, a->reduce_op);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
    float *o = vm_out(d->row[1], &a->dst, p, i);
    d->k->actfn[a->fn](o, as_affine ? x : vm_act2_inputs(d, a, p, o, x, n), &act, n);
    if (reduces) reduction_add(d, &r, o, n);
    vm_out_done(d, &a->dst, p, i, o, n);
  }
  return reduces ? reduction_end(&r) : 0;
}

vm_verdict vm_op_activate2(vm_dp *d, const struct vm_ACTIVATE2 *a) {
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    float row = activate2_row(d, a, p);
    vm_accumulate(&d->acc[p], a->reduce, a->reduce_op, 0, row);
  }
  return VM_RETIRE;
}

/* Tables only matter to the clock: functions are computed without them. */
vm_verdict vm_op_load_act_table(vm_dp *d, const struct vm_ACT_TABLE *a) {
  (void)d;
  (void)a;
  return VM_RETIRE;
}

/* ---- Accumulator registers ---------------------------------------------------------------- */

vm_verdict vm_op_act_read_acc(vm_dp *d, const struct vm_READ_ACC *a) {
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    float x = d->acc[p];
    if (a->negate) x = -x;
    vm_store(d, &a->dst, p, 0, &x, 1);
  }
  return VM_RETIRE;
}

/* The vector engine's own registers. */
vm_verdict vm_op_dve_read_acc(vm_dp *d, const struct vm_READ_ACC *a) {
  return vm_op_act_read_acc(d, a);
}
