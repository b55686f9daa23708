/* Statistics of a row: bn_stats, bn_aggr. */
#include "op.h"

/* Count, mean, and variance times count of the even elements, then of the odd ones; zeros of a half
 * that has none. */
static void row_stats(const vm_dp *d, float out[6], const float *x, size_t n) {
  float sum[2], mean[2], spread[2];
  const size_t count[2] = {(n + 1) / 2, n / 2};
  d->k->bn_sums(sum, x, (float[2]){0, 0}, false, n);
  for (unsigned half = 0; half < 2; half++)
    mean[half] = count[half] ? vm_alu_f32(ISA_ALU_divide, sum[half], (float)count[half]) : 0;
  d->k->bn_sums(spread, x, mean, true, n);
  for (unsigned half = 0; half < 2; half++) {
    out[3 * half] = (float)count[half];
    out[3 * half + 1] = mean[half];
    out[3 * half + 2] = spread[half];
  }
}

/* The machine takes at most 512 elements. */
vm_verdict vm_op_bn_stats(vm_dp *d, const struct vm_UNARY *a) {
  float stats[6];
  size_t n = (size_t)a->src.elems;
  if (a->src.elems > VM_ROW)
    return vm_dp_fault(d, "bn_stats: %llu elements per partition, at most 512 are allowed",
                       (unsigned long long)a->src.elems);
  if (n == 0) return VM_RETIRE;
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    row_stats(d, stats, vm_in(d, d->row[0], &a->src, p, 0, n), n);
    vm_store(d, &a->dst, p, 0, stats, 6);
  }
  return VM_RETIRE;
}

/* ---- bn_aggr ------------------------------------------------------------------------------ */

/* Groups of count, mean, variance times count are merged in order. */
typedef struct merged {
  float count, sum, mean, m2;
} merged;

static void merge_counts(merged *m, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += 3) {
    m->count = vm_alu_f32(ISA_ALU_add, m->count, x[i]);
    m->sum = vm_alu_f32(ISA_ALU_add, m->sum, vm_alu_f32(ISA_ALU_mult, x[i], x[i + 1]));
  }
}

static void merge_spread(merged *m, const float *x, size_t n) {
  for (size_t i = 0; i < n; i += 3) {
    float away = vm_alu_f32(ISA_ALU_subtract, x[i + 1], m->mean);
    float square = vm_alu_f32(ISA_ALU_mult, away, away);
    m->m2 = vm_alu_f32(ISA_ALU_add, m->m2, x[i + 2]);
    m->m2 = vm_alu_f32(ISA_ALU_add, m->m2, vm_alu_f32(ISA_ALU_mult, x[i], square));
  }
}

enum { GROUPS = VM_ROW / 3 * 3 }; /* elements of a piece */

static void over_row(const vm_dp *d, float *buf, const vm_view *v, uint32_t p, merged *m,
                     void (*merge)(merged *m, const float *x, size_t n)) {
  for (uint64_t i = 0; i < v->elems; i += GROUPS) {
    size_t n = v->elems - i < GROUPS ? (size_t)(v->elems - i) : GROUPS;
    merge(m, vm_in(d, buf, v, p, i, n), n);
  }
}

/* The mean weighted by count, and the variance of the population, sum(m2 + count * (mean - merged
 * mean)^2) / sum(count). */
vm_verdict vm_op_bn_aggr(vm_dp *d, const struct vm_UNARY *a) {
  if (a->src.elems % 3)
    return vm_dp_fault(d, "bn_aggr: %llu elements per partition, not a multiple of 3",
                       (unsigned long long)a->src.elems);
  for (uint32_t p = 0; p < a->dst.num[0] && a->src.elems; p++) {
    merged m = {0};
    over_row(d, d->row[0], &a->src, p, &m, merge_counts);
    m.mean = vm_alu_f32(ISA_ALU_divide, m.sum, m.count);
    over_row(d, d->row[0], &a->src, p, &m, merge_spread);
    float out[2] = {m.mean, vm_alu_f32(ISA_ALU_divide, m.m2, m.count)};
    vm_store(d, &a->dst, p, 0, out, 2);
  }
  return VM_RETIRE;
}
