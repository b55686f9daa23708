/* What an instruction costs: the streaming time of each cost class, from costs.def and the shapes
 * of its operands. All in cycles of the engine (rounded up); 06-timing's formulas. */
#include "vm.h"

const vm_cost_row vm_cost_rows[VM_NCOSTS] = {
#define COST(name, g2, g3, g4, unit, tag, source) {#name, #unit, #tag, source, {g2, g3, g4}},
#include "costs.def"
#undef COST
};

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

vm_time vm_cycles(const vm_core *c, unsigned engine, uint64_t cycles) {
  /* floor(cycles * 10^12 / kHz) in fs; 10^12 / kHz is under 2^20, split to stay within 64 bits */
  uint64_t khz = c->target->khz[engine];
  return cycles / khz * 1000000000000u + cycles % khz * 1000000000000u / khz;
}

static uint64_t bytes_in(const vm_view *v, unsigned space) {
  return v->at && v->space == space ? v->elems * v->esize : 0;
}

/* True when the inner dimension is not dense, which halves the rate of the wide modes. */
static bool strided(const vm_view *v) { return v->run > 1 && v->run_step != v->esize; }

/* Vector: ports first, then the instruction's own limit of elements a cycle. limit is 1 for the
 * reducing instructions, 4 for the others. */
static uint64_t vector_stream(const vm_core *c, const vm_view *dst, const vm_view *a,
                              const vm_view *b, unsigned limit) {
  uint64_t n = max_of(a->at ? a->elems : 0, dst->elems);
  if (c->target->gen == ISA_GEN2) {
    uint64_t two = b && b->at && a->space == ISA_SBUF && b->space == ISA_SBUF ? 2 : 1;
    bool half = a->esize <= 2 && (!b || b->esize <= 2) && dst->esize <= 2 && !strided(a);
    return half && two == 2 ? n : n * two;
  }
  uint64_t sbuf = bytes_in(a, ISA_SBUF) + (b ? bytes_in(b, ISA_SBUF) : 0);
  uint64_t psum = max_of(bytes_in(a, ISA_PSUM) + (b ? bytes_in(b, ISA_PSUM) : 0),
                         bytes_in(dst, ISA_PSUM));
  if ((dst->esize == 1 || strided(a) || strided(dst) || (b && strided(b))) && limit > 2)
    limit = 2;
  return max_of(max_of(ceil_div(sbuf, 8), ceil_div(psum, 4)), ceil_div(n, limit));
}

static uint64_t matmul_stream(const vm_core *c, const struct vm_MATMUL *a) {
  bool wide = a->src.dtype == ISA_float32;
  uint64_t cycles_per_row = !wide ? 1 : a->onezero ? 2 : 4; /* two passes of two cycles */
  return max_of(c->cost[VM_MIN_MATMUL], a->src.elems * cycles_per_row);
}

/* Indices n of e elements each, by the reference's formula: n * e / C with
 * C = ((28 + 4 * e) / (4 * e)) / min(4 / bytes, e). */
static uint64_t local_gather_stream(const struct vm_LOCAL_GATHER *a) {
  uint64_t e = a->elems_per_index ? a->elems_per_index : 1;
  uint64_t wide = 4u / a->src.esize < e ? 4u / a->src.esize : e;
  return ceil_div(a->dst.elems * 4 * e * wide, 28 + 4 * e);
}

static uint64_t stream_of(const vm_core *c, unsigned engine, const isa_insn *in,
                          const vm_operands *a) {
  unsigned op = in->op;
  switch (isa_ops[op].cost) {
  case ISA_COST_LDW:
    return ceil_div(a->LDWEIGHTS.src.elems * (a->LDWEIGHTS.src.dtype == ISA_float32 ? 4 : 1), 4);
  case ISA_COST_MM: return matmul_stream(c, &a->MATMUL);
  case ISA_COST_ACT: return a->ACTIVATE.src.elems;
  case ISA_COST_ACC: return c->cost[VM_ACC_EXTRA];
  case ISA_COST_COPY:
    if (engine == ISA_ENG_vector)
      return vector_stream(c, &a->COPY.dst, &a->COPY.src, NULL, 4);
    return a->COPY.src.elems;
  case ISA_COST_SET:
    if (engine == ISA_ENG_vector && c->target->gen != ISA_GEN2)
      return vector_stream(c, &a->MEMSET.dst, &(vm_view){0}, NULL, 4);
    return a->MEMSET.dst.elems;
  case ISA_COST_TT:
    if (engine == ISA_ENG_vector)
      return vector_stream(c, &a->TENSOR_TENSOR.dst, &a->TENSOR_TENSOR.src0,
                           &a->TENSOR_TENSOR.src1, 4);
    return a->TENSOR_TENSOR.dst.elems;
  case ISA_COST_TS:
    if (engine == ISA_ENG_vector)
      return vector_stream(c, &a->TENSOR_SCALAR.dst, &a->TENSOR_SCALAR.src, NULL, 4);
    return a->TENSOR_SCALAR.dst.elems * (a->TENSOR_SCALAR.op0 == ISA_ALU_rsqrt ? 4 : 1);
  case ISA_COST_RED:
    return vector_stream(c, &a->TENSOR_REDUCE.dst, &a->TENSOR_REDUCE.src, NULL, 1);
  case ISA_COST_RCP: return 8 * a->UNARY.src.elems;
  case ISA_COST_GP: return a->IOTA.dst.elems;
  /* A packed element of quantize_mx is four. */
  case ISA_COST_QUAD: return op == ISA_OP_quantize_mx ? a->QUANTIZE_MX.dst.elems
                                                       : ceil_div(a->DST.dst.elems, 4);
  case ISA_COST_GATH:
    return op == ISA_OP_local_gather ? local_gather_stream(&a->LOCAL_GATHER)
                                     : a->N_GATHER.dst.elems;
  case ISA_COST_TOPK: return 4 * (uint64_t)a->TOPK.n + a->TOPK.val_dst.elems;
  default: return 0;
  }
}

vm_span vm_cost(const vm_core *c, unsigned engine, const isa_insn *in, const vm_operands *a) {
  static const uint8_t overhead[] = {VM_OVH_TENSOR, VM_OVH_VECTOR, VM_OVH_SCALAR, VM_OVH_GPSIMD};
  static const uint8_t latency[] = {VM_LAT_TENSOR, VM_LAT_VECTOR, VM_LAT_SCALAR, VM_LAT_GPSIMD};
  vm_span s = {.stream = stream_of(c, engine, in, a)};
  if (engine == ISA_ENG_sync) /* has no data path: the verifier lets nothing through */
    return s;
  bool loads_weights = isa_ops[in->op].cost == ISA_COST_LDW;
  s.issue = s.stream + (loads_weights ? 0 : c->cost[overhead[engine]]);
  s.latency = s.stream + (loads_weights ? 0 : c->cost[latency[engine]]);
  return s;
}
