/* The vector engine's exponential, with its sum in the accumulator registers. */
#include "op.h"

/* dst = exp(src - max) of partition p; also the sum of the results before their conversion. */
static float exponential_row(vm_dp *d, const struct vm_EXPONENTIAL *a, uint32_t p) {
  bool sums = vm_cmd_reduces(a->reduce);
  float part[16] = {0};
  vm_act less = {.scale = 1, .bias = -vm_num_at(d, &a->max, p, 0)}; /* x - max is x + -max */
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
    float *o = vm_out(d->row[1], &a->dst, p, i);
    /* One pass where the host has a kernel for it; the partials are the same. */
    if (sums && d->k->exp_sum)
      d->k->exp_sum(o, part, x, &less, n);
    else
      d->k->actfn[ISA_FN_exp](o, x, &less, n);
    if (sums && !d->k->exp_sum) d->k->partial[ISA_ALU_add](part, o, n);
    vm_out_done(d, &a->dst, p, i, o, n);
  }
  return vm_kern_combine(ISA_ALU_add, part);
}

/* The register of a partition is that of its lane, counted from the source's first partition. The
 * machine leaves the registers undefined after `idle`; here they keep what they hold. */
vm_verdict vm_op_exponential(vm_dp *d, const struct vm_EXPONENTIAL *a) {
  if (a->dst.elems == 0) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float init = vm_num_at(d, &a->init, p, 0); /* read first: dst may overlap it */
    float sum = exponential_row(d, a, p);
    vm_accumulate(&d->acc[p], a->reduce, ISA_ALU_add, init, sum);
  }
  return VM_RETIRE;
}
