/* Recurrences along the row: tensor_tensor_scan, tensor_scalar_cumulative. Each partition goes
 * strictly in order, in fp32; the lanes of the kernels are the partitions. */
#include "op.h"

#include <string.h>

/* o = a op b of all lanes, with reverse b op a. */
static void step(const vm_dp *d, unsigned op, float *o, const float *a, const float *b,
                 bool reverse, size_t lanes) {
  bool swap = reverse && isa_aluops[op].arity == 2;
  d->k->alu_vv[op](o, swap ? b : a, swap ? a : b, lanes);
}

static void load_nums(const vm_dp *d, float *out, const vm_num *n, uint32_t lanes) {
  for (uint32_t p = 0; p < lanes; p++) out[p] = vm_num_at(d, n, p, 0);
}

/* s = (src0 op0 s) op1 src1; dst = s. */
vm_verdict vm_op_tensor_tensor_scan(vm_dp *d, const struct vm_SCAN *a) {
  uint32_t lanes = a->dst.num[0];
  float *x = d->row[0], *y = d->row[1], *out = d->row[2], *state = d->row[3];
  const bool one_loop = a->op0 == ISA_ALU_mult && a->op1 == ISA_ALU_add; /* the most frequent */
  /* The state of each lane; init may be a column. */
  load_nums(d, state, &a->init, lanes);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_BLOCK) {
    size_t n = vm_columns(a->dst.elems, i);
    vm_load_block(d, x, &a->src0, i, n);
    vm_load_block(d, y, &a->src1, i, n);
    /* Else each step is a call of a kernel over the lanes: the order along the row is the result.
     */
    if (one_loop) d->k->scan(out, state, x, y, lanes, n);
    for (size_t j = 0; j < n && !one_loop; j++) {
      step(d, a->op0, state, x + j * lanes, state, a->reverse0, lanes);
      step(d, a->op1, state, state, y + j * lanes, a->reverse1, lanes);
      memcpy(out + j * lanes, state, lanes * sizeof *state);
    }
    vm_store_block(d, &a->dst, i, out, n);
  }
  return VM_RETIRE;
}

/* r = (src op0 imm0) op1 r; dst = r. The register starts at op1's identity, at imm1
 * (load_reduce) or where it was (reduce), and keeps the last r; idle starts at the identity and
 * leaves the register alone. */
vm_verdict vm_op_tensor_scalar_cumulative(vm_dp *d, const struct vm_TENSOR_SCALAR_REDUCE *a) {
  uint32_t lanes = a->dst.num[0];
  float *x = d->row[0], *out = d->row[1], *scalar = d->row[2], *r = d->row[3];
  float *acc = d->acc;
  if (lanes == 0 || a->dst.elems == 0) return VM_RETIRE;
  load_nums(d, scalar, &a->imm0, lanes);
  load_nums(d, r, &a->imm1, lanes);
  /* load_reduce keeps imm1, which is in r already. */
  for (uint32_t p = 0; p < lanes && a->reduce != ISA_CMD_load_reduce; p++)
    r[p] = a->reduce == ISA_CMD_reduce ? acc[p] : vm_kern_identity(a->op1);
  for (uint64_t i = 0; i < a->dst.elems; i += VM_BLOCK) {
    size_t n = vm_columns(a->dst.elems, i);
    vm_load_block(d, x, &a->src, i, n);
    for (size_t j = 0; j < n; j++) {
      /* The partitions of element i + j are side by side: one kernel call is one step of all lanes.
       */
      float *t = x + j * lanes;
      step(d, a->op0, t, t, scalar, a->reverse0, lanes);
      step(d, a->op1, r, t, r, false, lanes);
      memcpy(out + j * lanes, r, lanes * sizeof *r);
    }
    vm_store_block(d, &a->dst, i, out, n);
  }
  /* The registers keep the last r, for the next instruction of the engine or dve_read_acc. */
  if (a->reduce != ISA_CMD_idle) memcpy(acc, r, lanes * sizeof *r);
  return VM_RETIRE;
}
