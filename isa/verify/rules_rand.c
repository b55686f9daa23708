/* Constraints of the random generators and of dropout (nki.isa: rng, set_rng_seed, rand_set_state,
 * rand_get_state, rand2, dropout). */
#include "rules.h"

#include <inttypes.h>

#define INT_TYPES                                                            \
  (ISA_CK_TYPE(ISA_int8) | ISA_CK_TYPE(ISA_int16) | ISA_CK_TYPE(ISA_int32) | \
   ISA_CK_TYPE(ISA_uint8) | ISA_CK_TYPE(ISA_uint16) | ISA_CK_TYPE(ISA_uint32))

/* XORWOW has six words; a partition of the vector engine has four such states. */
enum { STATE = 6, STATES = 24 }; /* words of a lane on gpsimd and on vector */

/* The table of opcodes has one generation for all engines; some engines came later. */
static bool engine_gen(const isa_ck *c, int gen) {
  if (c->p->target->gen >= gen) return true;
  return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "%s on %s needs gen%d: %s is gen%d", c->row->name,
                  isa_engines[c->engine].name, gen, c->p->target->name, c->p->target->gen);
}

/* Random bits: no type is converted to, so there are integers only. */
static bool rng(const isa_ck *c) {
  return engine_gen(c, c->engine == ISA_ENG_gpsimd ? ISA_GEN3 : ISA_GEN2) &&
         isa_ck_types(c, F(DST, dst), INT_TYPES);
}

/* One seed for all: each lane's state is a hash of it and of the lane's number. */
static bool set_rng_seed(const isa_ck *c) {
  const isa_ap *src = isa_ck_ap(c, c->in->u.SRC.src);
  if (src->nparts != 1 || isa_ap_elems(src) != 1)
    return isa_fail(c->e, ISA_ILLEGAL, F(SRC, src), "%d x %" PRIu64 ": a seed must be one element",
                    src->nparts, isa_ap_elems(src));
  if (isa_dtype_bytes(src->dtype) != 4)
    return isa_fail(c->e, ISA_ILLEGAL, F(SRC, src), "%s: a seed has 32 bits",
                    isa_dtypes[src->dtype].name);
  return isa_ck_fixed(c, F(SRC, src));
}

/* Whole states only: a part of one would leave a lane half old, half new. */
/* The operand of rand_set_state and rand_get_state. */
static bool state(const isa_ck *c, int f) {
  const isa_ap *ap = isa_ck_at(c, f);
  if (!engine_gen(c, c->engine == ISA_ENG_gpsimd ? ISA_GEN3 : ISA_GEN4) ||
      !isa_ck_types(c, f, ISA_CK_TYPE(ISA_uint32)))
    return false;
  if (c->in->op == ISA_OP_rand_set_state && ap->space != ISA_SBUF)
    return isa_fail(c->e, ISA_ILLEGAL, f, "in %s: a state is set from sbuf",
                    isa_space_name(ap->space));
  /* isa_ck_fixed refuses: the count of words cannot depend on a register. */
  if (ap->size_dim > 1) return isa_ck_fixed(c, f);
  return isa_ck_count(c, f, c->engine == ISA_ENG_gpsimd ? STATE : STATES);
}

static bool rand2(const isa_ck *c) {
  const struct isa_RAND2 *u = &c->in->u.RAND2;
  const uint32_t types = INT_TYPES | ISA_CK_TYPE(ISA_float8_e4m3) | ISA_CK_TYPE(ISA_float8_e5m2) |
                         ISA_CK_TYPE(ISA_float16) | ISA_CK_TYPE(ISA_bfloat16) |
                         ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_tfloat32);
  if (!isa_ck_types(c, F(RAND2, dst), types) ||
      !isa_ck_vector_type(c, F(RAND2, min), ISA_float32) ||
      !isa_ck_vector_type(c, F(RAND2, max), ISA_float32))
    return false;
  /* Vectors and registers are compared by nobody: their values are known when it runs. */
  if (u->min.kind != ISA_NUM_imm || u->max.kind != ISA_NUM_imm ||
      isa_bits_f32(u->min.v) < isa_bits_f32(u->max.v))
    return true;
  /* "min not below max" also catches a NaN among the two. */
  return isa_fail(c->e, ISA_ILLEGAL, F(RAND2, min), "%g: it must be below max, which is %g",
                  (double)isa_bits_f32(u->min.v), (double)isa_bits_f32(u->max.v));
}

bool isa_rule_rng(const isa_ck *c) {
  switch (c->in->op) {
  case ISA_OP_rng: return rng(c);
  case ISA_OP_set_rng_seed: return set_rng_seed(c);
  case ISA_OP_rand2: return rand2(c);
  case ISA_OP_rand_set_state: return state(c, F(SRC, src));
  default: return state(c, F(DST, dst));
  }
}

bool isa_rule_dropout(const isa_ck *c) {
  const struct isa_DROPOUT *u = &c->in->u.DROPOUT;
  int dst = F(DROPOUT, dst), src = F(DROPOUT, src), prob = F(DROPOUT, prob);
  if (!isa_ck_same_type(c, dst, src) || !isa_ck_agree(c, src, dst)) return false;
  if (u->prob.kind != ISA_NUM_ap) return true;
  unsigned data = isa_ck_ap(c, u->src)->dtype, type = isa_ck_ap(c, u->prob.v)->dtype;
  if (isa_dtypes[data].cls != ISA_FLOAT) return isa_ck_vector_type(c, prob, ISA_float32);
  if (isa_dtypes[type].cls != ISA_FLOAT)
    return isa_fail(c->e, ISA_ILLEGAL, prob, "%s: a probability must have a float type",
                    isa_dtypes[type].name);
  return true;
}
