/* Constraints of the vector engine's movement between partitions, and of its exponential (nki.isa:
 * nc_transpose, nc_stream_shuffle, exponential). */
#include "rules.h"

#include <inttypes.h>

enum { QUADRANT = 32, KEEP = 255 };

/* ---- Movement ----------------------------------------------------------------------------- */

bool isa_rule_tr32(const isa_ck *c) {
  const struct isa_TRANSPOSE32 *u = &c->in->u.TRANSPOSE32;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  int fdst = F(TRANSPOSE32, dst), fsrc = F(TRANSPOSE32, src);
  /* n: free elements of src; out: those that dst must have. */
  uint64_t n = isa_ap_elems(src), out = isa_ap_elems(dst);
  if (!isa_ck_same_type(c, fdst, fsrc) || !isa_ck_fixed(c, fdst) || !isa_ck_fixed(c, fsrc))
    return false;
  /* At most one block: any shape up to 32 x 32. Above it blocks are transposed one by
   * one, each in its place, so that a shape that is no multiple of 32 has no meaning. */
  bool small = src->nparts <= QUADRANT && n <= QUADRANT;
  if (!small && (src->nparts % QUADRANT || n % QUADRANT))
    return isa_fail(c->e, ISA_ILLEGAL, fsrc,
                    "%d x %" PRIu64 ": a transpose is of whole 32 x 32 "
                    "blocks, or at most one",
                    src->nparts, n);
  /* A small one changes its sides; blocks keep the operand's shape. */
  uint64_t parts = small ? n : src->nparts, elems = small ? src->nparts : n;
  if (dst->nparts != parts || out != elems)
    return isa_fail(c->e, ISA_ILLEGAL, fdst, "%d x %" PRIu64 ": src gives %" PRIu64 " x %" PRIu64,
                    dst->nparts, out, parts, elems);
  return true;
}

bool isa_rule_mask(const isa_ck *c) {
  const struct isa_MASK *u = &c->in->u.MASK;
  /* check_list has seen to it that there are 32 of them. */
  const uint8_t *m = isa_program_list(c->p, u->mask, ISA_K_BYTES);
  for (unsigned i = 0; i < QUADRANT; i++)
    if (m[i] >= QUADRANT && m[i] != KEEP)
      return isa_fail(c->e, ISA_ILLEGAL, F(MASK, mask),
                      "entry %u is %d: a partition 0 to 31, or 255 to keep what is there", i, m[i]);
  return true;
}

/* The start-partition rule holds for both operands with the larger of their counts. */
static bool shuffle_start(const isa_ck *c, int f, const isa_ap *ap, unsigned active) {
  /* 33 partitions to 17 others: both operands are then as one of 64. */
  if (active <= 32 || (active == 64 && ap->part % 64 == 0) || ap->part == 0) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "start partition %d: with %u active partitions it is %s",
                  ap->part, active, active == 64 ? "0 or 64" : "0");
}

bool isa_rule_shuffle(const isa_ck *c) {
  const struct isa_SHUFFLE *u = &c->in->u.SHUFFLE;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  int fdst = F(SHUFFLE, dst), fsrc = F(SHUFFLE, src);
  unsigned most = dst->nparts > src->nparts ? dst->nparts : src->nparts;
  /* Whole quadrants are active. */
  unsigned active = (most + QUADRANT - 1) / QUADRANT * QUADRANT;
  return isa_ck_same_type(c, fdst, fsrc) && isa_ck_fixed(c, fdst) && isa_ck_fixed(c, fsrc) &&
         isa_ck_count(c, fdst, isa_ap_elems(src)) && shuffle_start(c, fsrc, src, active) &&
         shuffle_start(c, fdst, dst, active);
}

/* ---- exponential -------------------------------------------------------------------------- */

#define EXP_TYPES                                                                           \
  (ISA_CK_TYPE(ISA_float8_e4m3) | ISA_CK_TYPE(ISA_float8_e5m2) | ISA_CK_TYPE(ISA_float16) | \
   ISA_CK_TYPE(ISA_bfloat16) | ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_int8) |           \
   ISA_CK_TYPE(ISA_int16) | ISA_CK_TYPE(ISA_int32) | ISA_CK_TYPE(ISA_uint8) |               \
   ISA_CK_TYPE(ISA_uint16))

bool isa_rule_expo(const isa_ck *c) {
  /* The same list of types for dst and src but for one type each: tfloat32 is only
   * stored, uint32 only read. */
  const struct isa_EXPONENTIAL *u = &c->in->u.EXPONENTIAL;
  int dst = F(EXPONENTIAL, dst), src = F(EXPONENTIAL, src), init = F(EXPONENTIAL, init);
  if (!isa_ck_types(c, dst, EXP_TYPES | ISA_CK_TYPE(ISA_tfloat32)) ||
      !isa_ck_types(c, src, EXP_TYPES | ISA_CK_TYPE(ISA_uint32)) || !isa_ck_agree(c, src, dst) ||
      !isa_ck_vector_type(c, F(EXPONENTIAL, max), ISA_float32) ||
      !isa_ck_vector_type(c, init, ISA_float32))
    return false;
  if (u->reduce == ISA_CMD_reset)
    return isa_fail(c->e, ISA_ILLEGAL, F(EXPONENTIAL, reduce),
                    "reset: it must be idle, reset_reduce, reduce or load_reduce");
  /* 0 is where a sum starts anyway, so it is not refused. */
  bool zero = u->init.kind == ISA_NUM_none || (u->init.kind == ISA_NUM_imm && u->init.v == 0);
  if (u->reduce != ISA_CMD_load_reduce && !zero)
    return isa_fail(c->e, ISA_ILLEGAL, init,
                    "a starting value is for reduce=load_reduce: leave it out");
  return true;
}
