/* The scalar engine: activate and its accumulator registers. */
#include "op.h"

/* One column of one element a partition: its elements are a row, and so are scale and bias. */
static bool activate_column(vm_dp *d, const struct vm_ACTIVATE *a) {
  vm_view dst, src, scale, bias;
  if (a->reduce != ISA_CMD_idle || !vm_turn(&dst, &a->dst) || !vm_turn(&src, &a->src)) return false;
  size_t n = (size_t)src.elems;
  const float *x = vm_in(d, d->row[0], &src, 0, 0, n);
  float *o = d->row[2];
  if (a->scale.v.at && vm_turn(&scale, &a->scale.v))
    d->k->alu_vv[ISA_ALU_mult](o, x, vm_in(d, d->row[1], &scale, 0, 0, n), n);
  else
    d->k->alu_vs[ISA_ALU_mult](o, x, vm_num_at(d, &a->scale, 0, 1), n);
  if (a->bias.v.at && vm_turn(&bias, &a->bias.v))
    d->k->alu_vv[ISA_ALU_add](o, o, vm_in(d, d->row[1], &bias, 0, 0, n), n);
  else
    d->k->alu_vs[ISA_ALU_add](o, o, vm_num_at(d, &a->bias, 0, -0.0f), n);
  d->k->actfn[a->fn](o, o, 0, n);
  vm_store(d, &dst, 0, 0, o, n);
  return true;
}

/* dst = fn(src * scale + bias) of partition p; the sum of the results before their conversion.
 * An absent scale is 1 and an absent bias -0: the operations that change nothing. */
static float activate_row(vm_dp *d, const struct vm_ACTIVATE *a, uint32_t p) {
  float scale = vm_num_at(d, &a->scale, p, 1), bias = vm_num_at(d, &a->bias, p, -0.0f);
  bool plain = !a->scale.given && !a->bias.given, sums = vm_cmd_reduces(a->reduce);
  float part[16] = {0};
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
    float *o = vm_out(d->row[1], &a->dst, p, i);
    if (!plain) d->k->scale_bias(o, x, scale, bias, n);
    d->k->actfn[a->fn](o, plain ? x : o, 0, n);
    if (sums) d->k->partial[ISA_ALU_add](part, o, n);
    vm_out_done(d, &a->dst, p, i, o, n);
  }
  return sums ? vm_kern_combine(ISA_ALU_add, part) : 0;
}

/* The register of a partition is that of the lane which reads it: the source's partition. */
vm_verdict op_activate(vm_dp *d, const struct vm_ACTIVATE *a) {
  if (a->round != ISA_ROUND_nearest)
    return vm_dp_fault(d, "activate: round=stochastic is not built");
  if (a->dst.elems == 0 || activate_column(d, a)) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float sum = activate_row(d, a, p);
    vm_accumulate(&d->acc[a->src.part + p], a->reduce, ISA_ALU_add, 0, sum);
  }
  return VM_RETIRE;
}

vm_verdict op_act_read_acc(vm_dp *d, const struct vm_READ_ACC *a) {
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    float x = d->acc[a->dst.part + p];
    if (a->negate) x = -x;
    vm_store(d, &a->dst, p, 0, &x, 1);
  }
  return VM_RETIRE;
}

/* The vector engine's own registers. */
vm_verdict op_dve_read_acc(vm_dp *d, const struct vm_READ_ACC *a) { return op_act_read_acc(d, a); }
