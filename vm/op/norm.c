/* Statistics of a row: bn_stats, bn_aggr. */
#include "op.h"

#include <string.h>

/* Count, mean, and variance times count of the even elements, then of the odd ones; zeros for a
 * half without elements. */
static void row_stats(const vm_dp *d, float out[6], const float *x, size_t n) {
  float sum[2], mean[2], spread[2];
  const size_t count[2] = {(n + 1) / 2, n / 2};
  /* Both halves at once: the kernel sums even and odd elements in one pass. */
  d->k->bn_sums(sum, x, (float[2]){0, 0}, false, n);
  for (unsigned half = 0; half < 2; half++)
    mean[half] = count[half] ? vm_alu_f32(ISA_ALU_divide, sum[half], (float)count[half]) : 0;
  /* Squares of the differences from the mean, in a second pass: one pass would cancel for means far
   * from 0. */
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
  /* The verifier refuses more than the machine takes; this is the buffer, for sizes in registers.
   */
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

/* Groups of count, mean, variance times count are merged in order, with the partitions as lanes. */
typedef struct merged {
  float count[ISA_PMAX], sum[ISA_PMAX], mean[ISA_PMAX], m2[ISA_PMAX];
} merged;

static void merge_counts(const vm_dp *d, merged *m, const float *x, uint32_t lanes) {
  float t[ISA_PMAX];
  d->k->alu_vv[ISA_ALU_add](m->count, m->count, x, lanes);
  /* A group is three lanes' worth: count at x, mean at x + lanes, variance times count at x + 2 *
   * lanes. */
  d->k->alu_vv[ISA_ALU_mult](t, x, x + lanes, lanes);
  d->k->alu_vv[ISA_ALU_add](m->sum, m->sum, t, lanes);
}

static void merge_spread(const vm_dp *d, merged *m, const float *x, uint32_t lanes) {
  float t[ISA_PMAX];
  d->k->alu_vv[ISA_ALU_subtract](t, x + lanes, m->mean, lanes);
  d->k->alu_vv[ISA_ALU_mult](t, t, t, lanes);
  d->k->alu_vv[ISA_ALU_mult](t, x, t, lanes);
  d->k->alu_vv[ISA_ALU_add](m->m2, m->m2, x + 2 * lanes, lanes);
  d->k->alu_vv[ISA_ALU_add](m->m2, m->m2, t, lanes);
}

enum { GROUPS = VM_BLOCK / 3 * 3 }; /* elements of a block of whole groups */

static void over_groups(const vm_dp *d, const vm_view *v, merged *m,
                        void (*merge)(const vm_dp *d, merged *m, const float *x, uint32_t lanes)) {
  float *x = d->row[0];
  uint32_t lanes = v->num[0];
  for (uint64_t i = 0; i < v->elems; i += GROUPS) {
    size_t n = v->elems - i < GROUPS ? (size_t)(v->elems - i) : GROUPS;
    vm_load_block(d, x, v, i, n);
    for (size_t j = 0; j < n; j += 3) merge(d, m, x + j * lanes, lanes);
  }
}

/* The mean weighted by count, and the variance of the population, sum(m2 + count * (mean - merged
 * mean)^2) / sum(count). */
vm_verdict vm_op_bn_aggr(vm_dp *d, const struct vm_UNARY *a) {
  uint32_t lanes = a->dst.num[0];
  merged m = {{0}, {0}, {0}, {0}};
  float *out = d->row[1];
  if (a->src.elems % 3)
    return vm_dp_fault(d, "bn_aggr: %llu elements per partition, not a multiple of 3",
                       (unsigned long long)a->src.elems);
  if (a->src.elems == 0 || lanes == 0) return VM_RETIRE;
  /* Two passes: the spread needs the merged mean. */
  over_groups(d, &a->src, &m, merge_counts);
  d->k->alu_vv[ISA_ALU_divide](m.mean, m.sum, m.count, lanes);
  over_groups(d, &a->src, &m, merge_spread);
  memcpy(out, m.mean, lanes * sizeof *out);
  d->k->alu_vv[ISA_ALU_divide](out + lanes, m.m2, m.count, lanes);
  vm_store_block(d, &a->dst, 0, out, 2);
  return VM_RETIRE;
}
