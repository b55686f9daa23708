/* Constraints of the gpsimd engine's gathers, reductions over partitions and instructions that
 * give positions (nki.isa: local_gather, nc_n_gather, tensor_partition_reduce, sequence_bounds,
 * nonzero_with_count, topk). */
#include "rules.h"

#include <inttypes.h>

enum { CORE_PARTS = 16 }; /* partitions behind one of the eight cores */

/* ---- Gathers ------------------------------------------------------------------------------ */

/* How many indices a core takes, and how many elements with each. */
static bool gather_counts(const isa_ck *c) {
  const struct isa_LOCAL_GATHER *u = &c->in->u.LOCAL_GATHER;
  unsigned each = u->elems_per_index ? u->elems_per_index : 1;
  uint64_t most = CORE_PARTS * isa_ap_elems(isa_ck_ap(c, u->index));
  uint64_t n = u->valid_indices ? u->valid_indices : most;
  if (each & (each - 1))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_LOCAL_GATHER_elems_per_index,
                    "%u: it must be 1, 2, 4, 8, 16 or 32", each);
  if (n > most)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_LOCAL_GATHER_valid_indices,
                    "%" PRIu64 ": sixteen partitions of index have %" PRIu64, n, most);
  if (n > 4096)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_LOCAL_GATHER_index,
                    "%" PRIu64 " indices in sixteen partitions: at most 4096", n);
  return isa_ck_count(c, ISA_F_LOCAL_GATHER_dst, u->dst, n * each);
}

bool isa_rule_lgather(const isa_ck *c) {
  const struct isa_LOCAL_GATHER *u = &c->in->u.LOCAL_GATHER;
  int dst = ISA_F_LOCAL_GATHER_dst, src = ISA_F_LOCAL_GATHER_src, index = ISA_F_LOCAL_GATHER_index;
  return isa_ck_types(c, index, u->index, ISA_CK_TYPE(ISA_uint16)) &&
         isa_ck_same_type(c, dst, u->dst, src, u->src) && isa_ck_fixed(c, dst, u->dst) &&
         isa_ck_fixed(c, src, u->src) && isa_ck_fixed(c, index, u->index) &&
         isa_ck_agree_parts(c, index, u->index, src, u->src) &&
         isa_ck_agree_parts(c, dst, u->dst, src, u->src) &&
         isa_ck_parts_multiple(c, src, u->src, CORE_PARTS) && gather_counts(c) &&
         isa_ck_apart(c, dst, u->dst, src, u->src);
}

bool isa_rule_ngather(const isa_ck *c) {
  const struct isa_N_GATHER *u = &c->in->u.N_GATHER;
  int dst = ISA_F_N_GATHER_dst, src = ISA_F_N_GATHER_src, index = ISA_F_N_GATHER_index;
  uint64_t n = isa_ap_elems(isa_ck_ap(c, u->index));
  if (!isa_ck_types(c, index, u->index, ISA_CK_TYPE(ISA_uint32)) ||
      !isa_ck_same_type(c, dst, u->dst, src, u->src) ||
      !isa_ck_agree(c, index, u->index, dst, u->dst) ||
      !isa_ck_agree_parts(c, src, u->src, dst, u->dst) ||
      !isa_ck_apart(c, dst, u->dst, src, u->src))
    return false;
  if (n > 512)
    return isa_fail(c->e, ISA_ILLEGAL, index,
                    "%" PRIu64 " indices a partition: one n_gather takes at most 512", n);
  return true;
}

/* ---- Reduction over partitions ------------------------------------------------------------ */

static bool reduces_partitions(unsigned op) {
  return op == ISA_ALU_add || op == ISA_ALU_average || op == ISA_ALU_max ||
         op == ISA_ALU_bitwise_or || op == ISA_ALU_bitwise_and;
}

bool isa_rule_preduce(const isa_ck *c) {
  const struct isa_PARTITION_REDUCE *u = &c->in->u.PARTITION_REDUCE;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  int fdst = ISA_F_PARTITION_REDUCE_dst, fsrc = ISA_F_PARTITION_REDUCE_src;
  if (!reduces_partitions(u->op))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_PARTITION_REDUCE_op,
                    "%s: it must be add, average, max, bitwise_or or bitwise_and",
                    isa_aluops[u->op].name);
  if (dst->nparts != 1)
    return isa_fail(c->e, ISA_ILLEGAL, fdst, "%d partitions: the result has 1", dst->nparts);
  if (!isa_ck_fixed(c, fdst, u->dst) || !isa_ck_count(c, fdst, u->dst, isa_ap_elems(src)))
    return false;
  if (src->size_dim > 1) return isa_ck_fixed(c, fsrc, u->src);
  if (isa_aluops[u->op].cls != ISA_OP_BIT) return true;
  if (!isa_dtype_is_int(src->dtype))
    return isa_fail(c->e, ISA_ILLEGAL, fsrc, "%s: %s works on bit patterns of integer types",
                    isa_dtypes[src->dtype].name, isa_aluops[u->op].name);
  return isa_ck_same_type(c, fdst, u->dst, fsrc, u->src);
}

/* ---- Positions ---------------------------------------------------------------------------- */

bool isa_rule_seqb(const isa_ck *c) {
  const struct isa_UNARY *u = &c->in->u.UNARY;
  const uint32_t types = ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_int32);
  int dst = ISA_F_UNARY_dst, src = ISA_F_UNARY_src;
  if (!isa_ck_types(c, dst, u->dst, types) || !isa_ck_types(c, src, u->src, types) ||
      !isa_ck_fixed(c, dst, u->dst) || !isa_ck_fixed(c, src, u->src) ||
      !isa_ck_agree_parts(c, dst, u->dst, src, u->src))
    return false;
  if (isa_ck_ap(c, u->src)->nparts != 1)
    return isa_fail(c->e, ISA_ILLEGAL, src, "%d partitions: %s works on 1",
                    isa_ck_ap(c, u->src)->nparts, c->row->name);
  return isa_ck_count(c, dst, u->dst, 2 * isa_ap_elems(isa_ck_ap(c, u->src)));
}

bool isa_rule_nonzero(const isa_ck *c) {
  const struct isa_NONZERO *u = &c->in->u.NONZERO;
  int dst = ISA_F_NONZERO_dst, src = ISA_F_NONZERO_src;
  return isa_ck_types(c, dst, u->dst, ISA_CK_TYPE(ISA_int32)) &&
         isa_ck_types(c, src, u->src, ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_int32)) &&
         isa_ck_fixed(c, dst, u->dst) && isa_ck_fixed(c, src, u->src) &&
         isa_ck_agree_parts(c, dst, u->dst, src, u->src) &&
         isa_ck_count(c, dst, u->dst, isa_ap_elems(isa_ck_ap(c, u->src)) + 1);
}

static bool topk_counts(const isa_ck *c) {
  const struct isa_TOPK *u = &c->in->u.TOPK;
  uint64_t k = isa_ap_elems(isa_ck_ap(c, u->val_dst)), cols = isa_ap_elems(isa_ck_ap(c, u->src));
  if (u->n < 8 || u->n > 65535)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TOPK_n, "%" PRIu32 ": it must be 8 to 65535", u->n);
  if (k > 32767 || k > u->n)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TOPK_val_dst,
                    "%" PRIu64 " elements per partition: k "
                    "is at most %d and at most n=%" PRIu32,
                    k, 32767, u->n);
  if (CORE_PARTS * cols < u->n)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TOPK_src,
                    "%" PRIu64 " elements per partition: "
                    "sixteen partitions must hold n=%" PRIu32,
                    cols, u->n);
  return isa_ck_count(c, ISA_F_TOPK_idx_dst, u->idx_dst, k);
}

bool isa_rule_topk(const isa_ck *c) {
  const struct isa_TOPK *u = &c->in->u.TOPK;
  int val = ISA_F_TOPK_val_dst, idx = ISA_F_TOPK_idx_dst, src = ISA_F_TOPK_src;
  return isa_ck_types(c, val, u->val_dst, ISA_CK_TYPE(ISA_bfloat16)) &&
         isa_ck_types(c, idx, u->idx_dst, ISA_CK_TYPE(ISA_uint32)) &&
         isa_ck_types(c, src, u->src, ISA_CK_TYPE(ISA_bfloat16)) &&
         isa_ck_fixed(c, val, u->val_dst) && isa_ck_fixed(c, idx, u->idx_dst) &&
         isa_ck_fixed(c, src, u->src) && isa_ck_agree_parts(c, val, u->val_dst, src, u->src) &&
         isa_ck_agree_parts(c, idx, u->idx_dst, src, u->src) &&
         isa_ck_parts_multiple(c, src, u->src, CORE_PARTS) && topk_counts(c) &&
         isa_ck_apart(c, val, u->val_dst, src, u->src) &&
         isa_ck_apart(c, idx, u->idx_dst, val, u->val_dst);
}
