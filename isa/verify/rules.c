/* Constraints of the elementwise, reducing and pattern instructions, one function per class. The
 * facts are those of the nki.isa reference; each function names nothing that a field's generic
 * checks cover. */
#include "rules.h"

#include <inttypes.h>

#define FIELD_NAME(c, f) ((c)->form->fields[f].name)

/* ---- Helpers ------------------------------------------------------------------------------ */

bool isa_ck_agree_parts(const isa_ck *c, int f, int g) {
  /* nparts is the most where a register gives the number: both bounds must agree too. */
  const isa_ap *a = isa_ck_at(c, f), *b = isa_ck_at(c, g);
  if (a->nparts != b->nparts)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d partitions: %s has %d", a->nparts, FIELD_NAME(c, g),
                    b->nparts);
  /* The register is compared, not its value: two registers may hold the same number in
   * one run and different ones in the next. */
  bool da = a->size_dim == 1, db = b->size_dim == 1;
  if (da != db)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the partition count of %s is a register, but that of %s is "
                    "not",
                    FIELD_NAME(c, da ? f : g), FIELD_NAME(c, da ? g : f));
  if (da && a->size_reg != b->size_reg)
    return isa_fail(c->e, ISA_ILLEGAL, f, "the partition count is r%d: that of %s is r%d",
                    a->size_reg, FIELD_NAME(c, g), b->size_reg);
  return true;
}

/* Sizes of free dimensions that a register gives: the same register and bound, or none. */
static bool agree_free_size(const isa_ck *c, int f, const isa_ap *a, int g, const isa_ap *b) {
  bool da = a->size_dim > 1, db = b->size_dim > 1;
  if (!da && !db) return true;
  if (da != db)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a size of %s is a register, but none of %s is",
                    FIELD_NAME(c, da ? f : g), FIELD_NAME(c, da ? g : f));
  /* size_dim 2 + d is dimension d, so its bound is the num of that dimension. */
  uint32_t na = a->dim[a->size_dim - 2].num, nb = b->dim[b->size_dim - 2].num;
  if (a->size_reg != b->size_reg || na != nb)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a size is r%d<=%" PRIu32 ": that of %s is r%d<=%" PRIu32,
                    a->size_reg, na, FIELD_NAME(c, g), b->size_reg, nb);
  return true;
}

bool isa_ck_agree(const isa_ck *c, int f, int g) {
  const isa_ap *a = isa_ck_at(c, f), *b = isa_ck_at(c, g);
  uint64_t na = isa_ap_elems(a), nb = isa_ap_elems(b);
  if (!isa_ck_agree_parts(c, f, g)) return false;
  /* The frequent mistake has a message of its own: a bias [P, 1] written where [P, n]
   * is needed. */
  if (na == 1 && nb > 1 && a->ndim > 0)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "1 element per partition: %s has %" PRIu64 "; .broadcast(%d, %" PRIu64
                    ") repeats it",
                    FIELD_NAME(c, g), nb, a->space == ISA_HBM ? a->ndim - 1 : a->ndim, nb);
  if (na != nb)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu64 " elements per partition: %s has %" PRIu64, na,
                    FIELD_NAME(c, g), nb);
  return agree_free_size(c, f, a, g, b);
}

/* The product of a STEPS list equals the elements of a partition of the pattern. */
static bool steps_fill(const isa_ck *c, int f, int g) {
  const isa_ap *ap = isa_ck_at(c, g);
  isa_ref steps = *(const isa_ref *)isa_member_c(c->in, &c->form->fields[f]);
  /* The strides are not looked at: only how many values the pattern gives. */
  const isa_step *s = isa_program_list(c->p, steps, ISA_K_STEPS);
  uint64_t n = 1;
  for (uint32_t i = 0; i < steps.count; i++) n *= s[i].num; /* at most four times 16 bits */
  if (n != isa_ap_elems(ap))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRIu64 " values: %s has %" PRIu64 " elements per partition", n,
                    FIELD_NAME(c, g), isa_ap_elems(ap));
  /* iota's pattern is in the program; a register could make dst smaller than it at run
   * time. */
  if (ap->size_dim > 1)
    return isa_fail(c->e, ISA_ILLEGAL, g, "a size is a register: a pattern's product is fixed");
  return true;
}

/* The only tensor_scalar that gpsimd has. */
static bool ts_on_gpsimd(unsigned op0, unsigned op1) {
  return op0 == ISA_ALU_rsqrt && op1 == ISA_ALU_bypass;
}

/* Which engines have the operator of field f in c's instruction. */
static unsigned engines_with(const isa_ck *c, int f, const isa_aluop_row *row) {
  /* Two conditions: the engines that have the operator, and those that have the
   * instruction. */
  unsigned engines = row->engines & isa_ops[c->in->op].engines;
  unsigned op0 = f == F(TENSOR_SCALAR, op0) ? isa_ck_byte(c, f) : ISA_ALU_bypass;
  /* gpsimd is in the mask of tensor_scalar for its rsqrt alone. */
  if (c->form == &isa_forms[ISA_FORM_TENSOR_SCALAR] && !ts_on_gpsimd(op0, ISA_ALU_bypass))
    engines &= ~(1u << ISA_ENG_gpsimd);
  return engines;
}

bool isa_ck_has_op(const isa_ck *c, int f) {
  const isa_aluop_row *row = &isa_aluops[isa_ck_byte(c, f)];
  char names[64];
  if (row->engines & (1u << c->engine)) return true;
  unsigned engines = engines_with(c, f, row);
  isa_ck_engines(engines ? engines : row->engines, names, sizeof names);
  /* rsqrt as op1 of tensor_scalar, say: gpsimd has it as op0 alone, and the message
   * says so. */
  if (!engines)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "no engine has the operator %s as %s of %s: %s on %s has it", row->name,
                    FIELD_NAME(c, f), isa_ops[c->in->op].name,
                    row->arity == 2 ? "tensor_tensor" : "tensor_scalar op0", names);
  return isa_fail(c->e, ISA_ILLEGAL, f, "the %s engine does not have the operator %s: %s",
                  isa_engines[c->engine].name, row->name, names);
}

bool isa_ck_vector_type(const isa_ck *c, int f, unsigned dtype) {
  /* A number or a register is 32 bits of the type that the instruction works in. */
  if (isa_ck_num(c, f).kind != ISA_NUM_ap) return true;
  unsigned got = isa_ck_at(c, f)->dtype;
  if (got != dtype)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: a vector operand here is %s", isa_dtypes[got].name,
                    isa_dtypes[dtype].name);
  return true;
}

static unsigned dtype_of(const isa_ck *c, uint32_t index) { return isa_ck_ap(c, index)->dtype; }

/* Bit patterns: integers as wide as those of the first operand. */
static bool bits_type(const isa_ck *c, int f, unsigned first, unsigned op) {
  unsigned d = isa_ck_at(c, f)->dtype;
  /* Bits of a float as bits would hide a conversion that was meant. */
  if (!isa_dtype_is_int(d))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: %s works on bit patterns of integer types",
                    isa_dtypes[d].name, isa_aluops[op].name);
  if (isa_dtype_bytes(d) != isa_dtype_bytes(first))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s: %s does not convert: all types must be as wide as %s", isa_dtypes[d].name,
                    isa_aluops[op].name, isa_dtypes[first].name);
  return true;
}

static bool is_bits(unsigned op) { return isa_aluops[op].cls == ISA_OP_BIT; }

/* dst = f(src), element by element: src has the same partitions and elements in each. */
static bool one_to_one(const isa_ck *c, int dst, int src) { return isa_ck_agree(c, src, dst); }

/* ---- Copies and fills --------------------------------------------------------------------- */

bool isa_rule_copy(const isa_ck *c) {
  const struct isa_COPY *u = &c->in->u.COPY;
  unsigned d = dtype_of(c, u->dst), s = dtype_of(c, u->src);
  /* The reference gives the scalar engine a tensor_copy from gen3 on; before, activate
   * is the copy. */
  if (c->engine == ISA_ENG_scalar && c->p->target->gen < ISA_GEN3)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor_copy on the scalar engine needs gen3: use activate with fn=copy");
  if (!one_to_one(c, F(COPY, dst), F(COPY, src))) return false;
  /* x4 types are four numbers in one element: no engine converts them one by one. */
  if (d != s && (isa_ck_packed(d) || isa_ck_packed(s)))
    return isa_fail(c->e, ISA_ILLEGAL, F(COPY, src),
                    "%s to %s: packed types are copied, not converted", isa_dtypes[s].name,
                    isa_dtypes[d].name);
  return true;
}

/* For an integer type and bool, the value is an integer's bits. */
static bool check_filling(const isa_ck *c, unsigned type, uint32_t bits) {
  /* An immediate has 32 bits: -1 of int64 is 0xffffffff, extended by its sign. */
  int64_t v = isa_dtypes[type].cls == ISA_INT ? (int64_t)(int32_t)bits : (int64_t)bits;
  int64_t least = isa_dtype_least(type), greatest = isa_dtype_greatest(type);
  if (v >= least && v <= greatest) return true;
  return isa_fail(c->e, ISA_ILLEGAL, F(MEMSET, value),
                  "%" PRId64 ": %s holds %" PRId64 " to %" PRId64, v, isa_dtypes[type].name, least,
                  greatest);
}

bool isa_rule_memset(const isa_ck *c) {
  const struct isa_MEMSET *u = &c->in->u.MEMSET;
  unsigned type = dtype_of(c, u->dst);
  if (u->value.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, F(MEMSET, value),
                    "a pattern: the value must be a number or a register");
  /* 0.0 has the same bits in each packed type; another number would need to be packed. */
  if (isa_ck_packed(type) && (u->value.kind != ISA_NUM_imm || u->value.v != 0))
    return isa_fail(c->e, ISA_ILLEGAL, F(MEMSET, value), "%s can only be set to 0.0",
                    isa_dtypes[type].name);
  if (u->value.kind == ISA_NUM_imm && isa_fills_bits(type))
    return check_filling(c, type, u->value.v);
  return true;
}

bool isa_rule_unary(const isa_ck *c) { return one_to_one(c, F(UNARY, dst), F(UNARY, src)); }

/* ---- ALU instructions --------------------------------------------------------------------- */

bool isa_rule_tt(const isa_ck *c) {
  const struct isa_TENSOR_TENSOR *u = &c->in->u.TENSOR_TENSOR;
  unsigned first = dtype_of(c, u->src0);
  if (isa_aluops[u->op].arity != 2)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_TENSOR, op),
                    "%s takes one operand: tensor_tensor needs an operator of two",
                    isa_aluops[u->op].name);
  if (!isa_ck_has_op(c, F(TENSOR_TENSOR, op)) ||
      !one_to_one(c, F(TENSOR_TENSOR, dst), F(TENSOR_TENSOR, src0)) ||
      !one_to_one(c, F(TENSOR_TENSOR, dst), F(TENSOR_TENSOR, src1)))
    return false;
  /* The vector engine reads PSUM through one port. */
  if (isa_ck_ap(c, u->src0)->space == ISA_PSUM && isa_ck_ap(c, u->src1)->space == ISA_PSUM)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_TENSOR, src1),
                    "src0 and src1 are both in psum: one of them must be in sbuf");
  return !is_bits(u->op) || (bits_type(c, F(TENSOR_TENSOR, src0), first, u->op) &&
                             bits_type(c, F(TENSOR_TENSOR, src1), first, u->op) &&
                             bits_type(c, F(TENSOR_TENSOR, dst), first, u->op));
}

/* One stage of tensor_scalar: operator, scalar and order fit each other. */
static bool ts_stage(const isa_ck *c, int fop, int fimm, int frev) {
  unsigned op = isa_ck_byte(c, fop), reverse = isa_ck_byte(c, frev);
  isa_num imm = isa_ck_num(c, fimm);
  const isa_aluop_row *row = &isa_aluops[op];
  if (!isa_ck_has_op(c, fop)) return false;
  if (row->arity == 2 && imm.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s is missing: %s takes two operands",
                    FIELD_NAME(c, fimm), row->name);
  /* An immediate of 0 says no more than one that is left out: it passes. */
  if (row->arity == 1 && imm.kind != ISA_NUM_none && (imm.kind != ISA_NUM_imm || imm.v != 0))
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s takes one operand: leave it out", row->name);
  if (row->arity == 1 && reverse)
    return isa_fail(c->e, ISA_ILLEGAL, frev, "%s takes one operand: nothing to reverse", row->name);
  /* Arithmetic is in fp32: a vector of another type would need a conversion on its way
   * in. */
  if (!is_bits(op)) return isa_ck_vector_type(c, fimm, ISA_float32);
  /* For bits an immediate is an integer, which fits any width; a vector must have
   * src's. */
  return imm.kind != ISA_NUM_ap ||
         bits_type(c, fimm, isa_ck_at(c, F(TENSOR_SCALAR, src))->dtype, op);
}

/* Which pairs the engine has: gpsimd rsqrt alone, gen3's scalar engine three pairs. */
static bool ts_engine(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR *u = &c->in->u.TENSOR_SCALAR;
  unsigned op0 = u->op0, op1 = u->op1;
  int gen = c->p->target->gen;
  if (c->engine == ISA_ENG_gpsimd && !ts_on_gpsimd(op0, op1))
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR, op0),
                    "%s, %s: tensor_scalar on gpsimd has only op0=rsqrt", isa_aluops[op0].name,
                    isa_aluops[op1].name);
  if (c->engine != ISA_ENG_scalar) return true;
  if (gen < ISA_GEN3)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor_scalar on the scalar engine needs gen3: use activate with scale");
  /* What the engine's activate has anyway, src * scale + bias, under another name. */
  bool pair = (op0 == ISA_ALU_mult && (op1 == ISA_ALU_add || op1 == ISA_ALU_bypass)) ||
              (op0 == ISA_ALU_add && op1 == ISA_ALU_bypass);
  if (gen == ISA_GEN3 && !pair)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR, op0),
                    "%s, %s: the scalar engine of gen3 has mult, add, and mult with add",
                    isa_aluops[op0].name, isa_aluops[op1].name);
  return true;
}

bool isa_rule_ts(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR *u = &c->in->u.TENSOR_SCALAR;
  const isa_aluop_row *r0 = &isa_aluops[u->op0], *r1 = &isa_aluops[u->op1];
  unsigned first = dtype_of(c, u->src);
  if (!one_to_one(c, F(TENSOR_SCALAR, dst), F(TENSOR_SCALAR, src)) || !ts_engine(c)) return false;
  /* cls is a set of bits: bypass is in both, so it goes with either. */
  if (!(r0->cls & r1->cls))
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR, op1),
                    "%s and %s: both operators work on numbers or both on bit patterns", r0->name,
                    r1->name);
  if (!ts_stage(c, F(TENSOR_SCALAR, op0), F(TENSOR_SCALAR, imm0), F(TENSOR_SCALAR, reverse0)))
    return false;
  /* Left out altogether it is no stage, and asks nothing. */
  bool second = u->op1 != ISA_ALU_bypass || u->imm1.kind || u->reverse1;
  if (second && c->engine != ISA_ENG_gpsimd &&
      !ts_stage(c, F(TENSOR_SCALAR, op1), F(TENSOR_SCALAR, imm1), F(TENSOR_SCALAR, reverse1)))
    return false;
  if (second && c->engine == ISA_ENG_gpsimd)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR, imm1), "there is no op1 to use it");
  /* bypass, on the other hand, asks nothing: the stage that works on bits decides. */
  unsigned bits = is_bits(u->op0) ? u->op0 : u->op1;
  return !is_bits(bits) || (bits_type(c, F(TENSOR_SCALAR, src), first, bits) &&
                            bits_type(c, F(TENSOR_SCALAR, dst), first, bits));
}

/* Elements that are left when the trailing axes of src are reduced. */
static uint64_t kept(const isa_ap *src, unsigned axes) {
  uint64_t n = 1;
  for (unsigned d = 0; d + axes < src->ndim; d++) n *= src->dim[d].num; /* within a memory: fits */
  return n;
}

bool isa_rule_reduce(const isa_ck *c) {
  const struct isa_TENSOR_REDUCE *u = &c->in->u.TENSOR_REDUCE;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  const isa_aluop_row *row = &isa_aluops[u->op];
  /* axes=0 is the default: all free dimensions, one result in each partition. */
  unsigned axes = u->axes ? u->axes : src->ndim;
  int fop = F(TENSOR_REDUCE, op), fdst = F(TENSOR_REDUCE, dst), fsrc = F(TENSOR_REDUCE, src);
  if (!row->reduces) return isa_fail(c->e, ISA_ILLEGAL, fop, "%s is not a reduction", row->name);
  if (!isa_ck_has_op(c, fop) || !isa_ck_agree_parts(c, fsrc, fdst)) return false;
  if (axes > src->ndim)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_REDUCE, axes),
                    "%u axes: src has %d free dimensions", axes, src->ndim);
  if (isa_ap_elems(dst) != kept(src, axes))
    return isa_fail(c->e, ISA_ILLEGAL, fdst,
                    "%" PRIu64 " elements per partition: reducing the last %u "
                    "dimensions of src leaves %" PRIu64,
                    isa_ap_elems(dst), axes, kept(src, axes));
  /* A size that is reduced away is src's alone; one that is kept must be in dst too. */
  /* src [r1<=8, 64] reduced over its last axis keeps the register; over both it does
   * not. */
  bool reduced = src->size_dim > 1 && src->size_dim - 2u + axes >= src->ndim;
  if (reduced && dst->size_dim > 1)
    return isa_fail(c->e, ISA_ILLEGAL, fdst, "a size is a register: that of src is reduced");
  if (!reduced && !agree_free_size(c, fsrc, src, fdst, dst)) return false;
  if (!is_bits(u->op)) return true;
  /* negate is an arithmetic minus on the result. */
  if (u->negate)
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_REDUCE, negate),
                    "%s works on bit patterns: only numbers are negated", row->name);
  return bits_type(c, fsrc, src->dtype, u->op) && bits_type(c, fdst, src->dtype, u->op);
}

/* ---- Scalar engine ------------------------------------------------------------------------ */

bool isa_rule_act(const isa_ck *c) {
  const struct isa_ACTIVATE *u = &c->in->u.ACTIVATE;
  bool gen2 = c->p->target->gen < ISA_GEN3;
  if (!one_to_one(c, F(ACTIVATE, dst), F(ACTIVATE, src)) ||
      !isa_ck_vector_type(c, F(ACTIVATE, scale), ISA_float32))
    return false;
  /* activate has no field for a parameter. */
  if (u->fn == ISA_FN_prelu)
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE, fn),
                    "prelu has a parameter: it is a function of activate2");
  /* gen2 takes the bias from memory alone. */
  if (gen2 && (u->bias.kind == ISA_NUM_imm || u->bias.kind == ISA_NUM_reg))
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE, bias),
                    "a number: on gen2 the bias is a [P, 1] vector or left out");
  if (gen2 && u->fn == ISA_FN_reciprocal && u->bias.kind)
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE, bias), "fn=reciprocal takes no bias on gen2");
  /* The reference's list of a bias's types lacks this one. */
  if (u->bias.kind == ISA_NUM_ap && dtype_of(c, u->bias.v) == ISA_tfloat32)
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE, bias),
                    "tfloat32: a bias may have any type but this");
  if (u->reduce == ISA_CMD_load_reduce)
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE, reduce),
                    "load_reduce is not a command of the scalar engine");
  return true;
}

/* ---- GpSimd ------------------------------------------------------------------------------- */

bool isa_rule_iota(const isa_ck *c) { return steps_fill(c, F(IOTA, pattern), F(IOTA, dst)); }

bool isa_rule_affine(const isa_ck *c) {
  const struct isa_AFFINE_SELECT *u = &c->in->u.AFFINE_SELECT;
  if (!one_to_one(c, F(AFFINE_SELECT, dst), F(AFFINE_SELECT, src)) ||
      !steps_fill(c, F(AFFINE_SELECT, pattern), F(AFFINE_SELECT, dst)))
    return false;
  if (u->fill.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, F(AFFINE_SELECT, fill),
                    "a pattern: the value must be a number or a register");
  /* The codes of the comparisons are next to one another in aluops.def. */
  if (u->cmp < ISA_ALU_is_equal || u->cmp > ISA_ALU_is_lt)
    return isa_fail(c->e, ISA_ILLEGAL, F(AFFINE_SELECT, cmp), "%s is not a comparison",
                    isa_aluops[u->cmp].name);
  return true;
}
