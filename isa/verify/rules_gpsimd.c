/* Constraints of the gpsimd engine's gathers, reductions over partitions and instructions that
 * give positions (nki.isa: local_gather, nc_n_gather, tensor_partition_reduce, sequence_bounds,
 * nonzero_with_count, topk). */
#include "rules.h"

#include <inttypes.h>

/* ---- Gathers ------------------------------------------------------------------------------ */

/* How many indices a core takes, and how many elements with each. */
/* n indices of a core of 16 partitions, each of which moves `each` elements. */
static bool gather_counts(const isa_ck *c) {
  const struct isa_LOCAL_GATHER *u = &c->in->u.LOCAL_GATHER;
  /* Left out it is 1; valid_indices left out are all. */
  unsigned each = u->elems_per_index ? u->elems_per_index : 1;
  uint64_t most = ISA_GP_PARTS * isa_ap_elems(isa_ck_ap(c, u->index));
  uint64_t n = u->valid_indices ? u->valid_indices : most;
  /* One bit set: a power of two. The field's own limit is 32. */
  if (each & (each - 1))
    return isa_fail(c->e, ISA_ILLEGAL, F(LOCAL_GATHER, elems_per_index),
                    "%u: it must be 1, 2, 4, 8, 16 or 32", each);
  /* valid_indices may leave out the tail of the index tile, not reach beyond it. */
  if (n > most)
    return isa_fail(c->e, ISA_ILLEGAL, F(LOCAL_GATHER, valid_indices),
                    "%" PRIu64 ": sixteen partitions of index have %" PRIu64, n, most);
  /* The most that the reference lets one instruction gather. */
  if (n > 4096)
    return isa_fail(c->e, ISA_ILLEGAL, F(LOCAL_GATHER, index),
                    "%" PRIu64 " indices in sixteen partitions: at most 4096", n);
  return isa_ck_count(c, F(LOCAL_GATHER, dst), n * each);
}

/* Each core of gpsimd reads the indices of its own 16 partitions: hence partitions by
 * 16. */
bool isa_rule_lgather(const isa_ck *c) {
  int dst = F(LOCAL_GATHER, dst), src = F(LOCAL_GATHER, src), index = F(LOCAL_GATHER, index);
  return isa_ck_types(c, index, ISA_CK_TYPE(ISA_uint16)) && isa_ck_same_type(c, dst, src) &&
         isa_ck_fixed(c, dst) && isa_ck_fixed(c, src) && isa_ck_fixed(c, index) &&
         isa_ck_agree_parts(c, index, src) && isa_ck_agree_parts(c, dst, src) &&
         isa_ck_parts_multiple(c, src, ISA_GP_PARTS) && gather_counts(c) &&
         isa_ck_apart(c, dst, src);
}

/* Here an index is of its own partition: as many as dst has elements. */
bool isa_rule_ngather(const isa_ck *c) {
  const struct isa_N_GATHER *u = &c->in->u.N_GATHER;
  int dst = F(N_GATHER, dst), src = F(N_GATHER, src), index = F(N_GATHER, index);
  uint64_t n = isa_ap_elems(isa_ck_ap(c, u->index));
  if (!isa_ck_types(c, index, ISA_CK_TYPE(ISA_uint32)) || !isa_ck_same_type(c, dst, src) ||
      !isa_ck_agree(c, index, dst) || !isa_ck_agree_parts(c, src, dst) ||
      !isa_ck_apart(c, dst, src))
    return false;
  if (n > 512)
    return isa_fail(c->e, ISA_ILLEGAL, index,
                    "%" PRIu64 " indices per partition: one n_gather takes at most 512", n);
  return true;
}

/* ---- Reduction over partitions ------------------------------------------------------------ */

/* What the reference lists for partitions; a product of them is not among these. */
static bool reduces_partitions(unsigned op) {
  return op == ISA_ALU_add || op == ISA_ALU_average || op == ISA_ALU_max ||
         op == ISA_ALU_bitwise_or || op == ISA_ALU_bitwise_and;
}

bool isa_rule_preduce(const isa_ck *c) {
  const struct isa_PARTITION_REDUCE *u = &c->in->u.PARTITION_REDUCE;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  int fdst = F(PARTITION_REDUCE, dst), fsrc = F(PARTITION_REDUCE, src);
  if (!reduces_partitions(u->op))
    return isa_fail(c->e, ISA_ILLEGAL, F(PARTITION_REDUCE, op),
                    "%s: it must be add, average, max, bitwise_or or bitwise_and",
                    isa_aluops[u->op].name);
  /* All partitions of src go into one row. */
  if (dst->nparts != 1)
    return isa_fail(c->e, ISA_ILLEGAL, fdst, "%d partitions: the result has 1", dst->nparts);
  if (!isa_ck_fixed(c, fdst) || !isa_ck_count(c, fdst, isa_ap_elems(src))) return false;
  /* Columns must be fixed; how many partitions are added may come from a register. */
  if (src->size_dim > 1) return isa_ck_fixed(c, fsrc);
  if (isa_aluops[u->op].cls != ISA_OP_BIT) return true;
  if (!isa_dtype_is_int(src->dtype))
    return isa_fail(c->e, ISA_ILLEGAL, fsrc, "%s: %s works on bit patterns of integer types",
                    isa_dtypes[src->dtype].name, isa_aluops[u->op].name);
  return isa_ck_same_type(c, fdst, fsrc);
}

/* ---- Positions ---------------------------------------------------------------------------- */

/* Ids 7 7 0 5 give the starts 0 0 4 3 and the ends 2 2 -1 4: two results for each
 * element. */
bool isa_rule_seqb(const isa_ck *c) {
  const struct isa_UNARY *u = &c->in->u.UNARY;
  const uint32_t types = ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_int32);
  int dst = F(UNARY, dst), src = F(UNARY, src);
  if (!isa_ck_types(c, dst, types) || !isa_ck_types(c, src, types) || !isa_ck_fixed(c, dst) ||
      !isa_ck_fixed(c, src) || !isa_ck_agree_parts(c, dst, src))
    return false;
  if (isa_ck_ap(c, u->src)->nparts != 1)
    return isa_fail(c->e, ISA_ILLEGAL, src, "%d partitions: %s works on 1",
                    isa_ck_ap(c, u->src)->nparts, c->row->name);
  /* A start and an end for each. */
  return isa_ck_count(c, dst, 2 * isa_ap_elems(isa_ck_ap(c, u->src)));
}

/* dst has the positions, then padding, and in its last element their number: one more
 * than src. */
bool isa_rule_nonzero(const isa_ck *c) {
  const struct isa_NONZERO *u = &c->in->u.NONZERO;
  int dst = F(NONZERO, dst), src = F(NONZERO, src);
  return isa_ck_types(c, dst, ISA_CK_TYPE(ISA_int32)) &&
         isa_ck_types(c, src, ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_int32)) &&
         isa_ck_fixed(c, dst) && isa_ck_fixed(c, src) && isa_ck_agree_parts(c, dst, src) &&
         isa_ck_count(c, dst, isa_ap_elems(isa_ck_ap(c, u->src)) + 1);
}

/* k results in idx_dst and val_dst; n: how many candidates lie in the 16 partitions. */
static bool topk_counts(const isa_ck *c) {
  const struct isa_TOPK *u = &c->in->u.TOPK;
  uint64_t k = isa_ap_elems(isa_ck_ap(c, u->val_dst)), cols = isa_ap_elems(isa_ck_ap(c, u->src));
  if (u->n < 8 || u->n > 65535)
    return isa_fail(c->e, ISA_ILLEGAL, F(TOPK, n), "%" PRIu32 ": it must be 8 to 65535", u->n);
  if (k > 32767 || k > u->n)
    return isa_fail(c->e, ISA_ILLEGAL, F(TOPK, val_dst),
                    "%" PRIu64 " elements per partition: k "
                    "is at most %d and at most n=%" PRIu32,
                    k, 32767, u->n);
  /* Candidates lie 16 partitions deep, so a column holds 16 of them. */
  if (ISA_GP_PARTS * cols < u->n)
    return isa_fail(c->e, ISA_ILLEGAL, F(TOPK, src),
                    "%" PRIu64 " elements per partition: "
                    "sixteen partitions must hold n=%" PRIu32,
                    cols, u->n);
  return isa_ck_count(c, F(TOPK, idx_dst), k);
}

bool isa_rule_topk(const isa_ck *c) {
  int val = F(TOPK, val_dst), idx = F(TOPK, idx_dst), src = F(TOPK, src);
  return isa_ck_types(c, val, ISA_CK_TYPE(ISA_bfloat16)) &&
         isa_ck_types(c, idx, ISA_CK_TYPE(ISA_uint32)) &&
         isa_ck_types(c, src, ISA_CK_TYPE(ISA_bfloat16)) && isa_ck_fixed(c, val) &&
         isa_ck_fixed(c, idx) && isa_ck_fixed(c, src) && isa_ck_agree_parts(c, val, src) &&
         isa_ck_agree_parts(c, idx, src) && isa_ck_parts_multiple(c, src, ISA_GP_PARTS) &&
         topk_counts(c) && isa_ck_apart(c, val, src) && isa_ck_apart(c, idx, val);
}
