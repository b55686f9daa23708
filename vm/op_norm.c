/* Statistics of a row: bn_stats, bn_aggr. */
#include "op.h"

static float row_sum(const vm_dp *d, const float *x, size_t n) {
  float part[16] = {0};
  d->k->partial[ISA_ALU_add](part, x, n);
  return vm_kern_combine(ISA_ALU_add, part);
}

/* Count, mean, and variance times count of n elements; zeros when there are none. x is
 * overwritten. */
static void half_stats(const vm_dp *d, float out[3], float *x, size_t n) {
  out[0] = (float)n;
  out[1] = out[2] = 0;
  if (n == 0) return;
  out[1] = vm_alu_f32(ISA_ALU_divide, row_sum(d, x, n), out[0]);
  d->k->alu_vs[ISA_ALU_subtract](x, x, out[1], n);
  d->k->alu_vv[ISA_ALU_mult](x, x, x, n);
  out[2] = row_sum(d, x, n);
}

/* Even elements, then odd ones. The machine takes at most 512 elements. */
vm_verdict op_bn_stats(vm_dp *d, const struct vm_UNARY *a) {
  float stats[6], *even = d->row[1], *odd = d->row[2];
  size_t n = (size_t)a->src.elems;
  if (a->src.elems > VM_ROW)
    return vm_dp_fault(d, "bn_stats: %llu elements a partition, at most 512 are allowed",
                       (unsigned long long)a->src.elems);
  if (n == 0) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    const float *x = vm_in(d, d->row[0], &a->src, p, 0, n);
    d->k->gather(even, x, 2 * sizeof *x, (n + 1) / 2, sizeof *x);
    d->k->gather(odd, x + 1, 2 * sizeof *x, n / 2, sizeof *x);
    half_stats(d, stats, even, (n + 1) / 2);
    half_stats(d, stats + 3, odd, n / 2);
    vm_store(d, &a->dst, p, 0, stats, 6);
  }
  return VM_RETIRE;
}

/* Groups of count, mean, variance times count, merged in order: the mean weighted by count, and
 * the variance of the population, sum(m2 + count * (mean - merged mean)^2) / sum(count). */
static void merge(const float *x, size_t groups, float out[2]) {
  float count = 0, sum = 0, m2 = 0;
  for (size_t i = 0; i < groups; i++) {
    count = vm_alu_f32(ISA_ALU_add, count, x[3 * i]);
    sum = vm_alu_f32(ISA_ALU_add, sum, vm_alu_f32(ISA_ALU_mult, x[3 * i], x[3 * i + 1]));
  }
  out[0] = vm_alu_f32(ISA_ALU_divide, sum, count);
  for (size_t i = 0; i < groups; i++) {
    float away = vm_alu_f32(ISA_ALU_subtract, x[3 * i + 1], out[0]);
    float square = vm_alu_f32(ISA_ALU_mult, away, away);
    m2 = vm_alu_f32(ISA_ALU_add, m2, x[3 * i + 2]);
    m2 = vm_alu_f32(ISA_ALU_add, m2, vm_alu_f32(ISA_ALU_mult, x[3 * i], square));
  }
  out[1] = vm_alu_f32(ISA_ALU_divide, m2, count);
}

vm_verdict op_bn_aggr(vm_dp *d, const struct vm_UNARY *a) {
  float out[2];
  size_t n = (size_t)a->src.elems;
  if (a->src.elems > VM_ROW || n % 3)
    return vm_dp_fault(d, "bn_aggr: %llu elements a partition: groups of 3, at most %d elements",
                       (unsigned long long)a->src.elems, VM_ROW);
  if (n == 0) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    merge(vm_in(d, d->row[0], &a->src, p, 0, n), n / 3, out);
    vm_store(d, &a->dst, p, 0, out, 2);
  }
  return VM_RETIRE;
}
