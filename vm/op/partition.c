/* Reduction over partitions: partition_reduce. Partitions are taken in ascending order. */
#include "op.h"

static void reduce_bits(vm_dp *d, const struct vm_PARTITION_REDUCE *a) {
  uint32_t acc[VM_ROW], x[VM_ROW];
  unsigned width = 8u * a->src.esize;
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    /* Partition 0 begins: no identity is needed. */
    vm_load_bits(acc, &a->src, 0, i, n);
    for (uint32_t p = 1; p < a->src.num[0]; p++) {
      vm_load_bits(x, &a->src, p, i, n);
      d->k->bits(a->op, acc, x, n, width, false);
    }
    vm_store_bits(&a->dst, 0, i, acc, n);
  }
}

/* The average is the sum over the count, each rounded. */
static void reduce_floats(vm_dp *d, const struct vm_PARTITION_REDUCE *a) {
  float *acc = d->row[0];
  /* An average is a sum until the division. */
  unsigned op = a->op == ISA_ALU_average ? ISA_ALU_add : a->op;
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    /* From the identity on: a single partition goes through the operator too. */
    for (size_t j = 0; j < n; j++) acc[j] = vm_kern_identity(op);
    for (uint32_t p = 0; p < a->src.num[0]; p++)
      d->k->alu_vv[op](acc, acc, vm_in(d, d->row[1], &a->src, p, i, n), n);
    if (a->op == ISA_ALU_average) d->k->alu_vs[ISA_ALU_divide](acc, acc, (float)a->src.num[0], n);
    vm_store(d, &a->dst, 0, i, acc, n);
  }
}

vm_verdict vm_op_partition_reduce(vm_dp *d, const struct vm_PARTITION_REDUCE *a) {
  if (a->dst.elems == 0 || a->src.num[0] == 0) return VM_RETIRE;
  if (a->src.elems != a->dst.elems)
    return vm_dp_fault(d, "partition_reduce: the shapes of dst and src do not fit");
  if (isa_aluops[a->op].cls == ISA_OP_BIT)
    reduce_bits(d, a);
  else
    reduce_floats(d, a);
  return VM_RETIRE;
}
