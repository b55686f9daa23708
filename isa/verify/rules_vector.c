/* Constraints of the vector engine's two-operator, selecting, scanning, statistical and searching
 * instructions, and of the scalar engine's activate2. The facts are those of the nki.isa reference
 * of each instruction. */
#include "rules.h"

#include <inttypes.h>

enum {
  BN_MOST = 512,    /* elements of bn_stats (nl.tile_size.bn_stats_fmax) */
  SEARCH_LEAST = 8, /* elements that max8 and find_index8 read */
  SEARCH_MOST = 16384,
  SEARCH_DIMS = 2, /* "up to 3-dimensional", the partitions being one */
  INDEX_BITS = 24  /* range_select's indices are exact in fp32 */
};

#define FP32_MIN_BITS UINT32_C(0xff7fffff)
/* The instructions' lists of types in the reference, as sets. */
#define T(name) ISA_CK_TYPE(ISA_##name)
#define TYPES_FP8 (T(float8_e3m4) | T(float8_e4m3) | T(float8_e4m3fn) | T(float8_e5m2))
#define TYPES_INT16 (T(uint8) | T(int8) | T(uint16) | T(int16))
#define TYPES_CUMUL (T(bfloat16) | T(float16) | T(float32) | TYPES_FP8 | TYPES_INT16)
#define TYPES_FLOAT (T(bfloat16) | T(float16) | T(float32) | T(tfloat32) | TYPES_FP8)
#define TYPES_INDEX (T(uint16) | T(uint32))

/* ---- Helpers ------------------------------------------------------------------------------ */

/* One of the two operands of an instruction that reads PSUM through a single port is in SBUF. */
static bool not_both_psum(const isa_ck *c, int f, int g) {
  if (isa_ck_at(c, f)->space != ISA_PSUM || isa_ck_at(c, g)->space != ISA_PSUM) return true;
  return isa_fail(c->e, ISA_ILLEGAL, g, "%s and %s are both in psum: one of them must be in sbuf",
                  c->form->fields[f].name, c->form->fields[g].name);
}

/* The operator must work on numbers. */
static bool arithmetic(const isa_ck *c, int f) {
  unsigned op = isa_ck_byte(c, f);
  if (!(isa_aluops[op].cls & ISA_OP_ARITH))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s works on bit patterns: %s takes arithmetic operators",
                    isa_aluops[op].name, c->row->name);
  return isa_ck_has_op(c, f);
}

/* Two operands: the stage combines two streams, so an operator of one has nothing to
 * do. */
static bool binary(const isa_ck *c, int f) {
  unsigned op = isa_ck_byte(c, f);
  if (!arithmetic(c, f)) return false;
  if (isa_aluops[op].arity != 2)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s takes one operand: %s needs an operator of two here",
                    isa_aluops[op].name, c->row->name);
  return true;
}

/* What is left out, and what a file holds for it. */
static bool is_zero(isa_num n) {
  return n.kind == ISA_NUM_none || (n.kind == ISA_NUM_imm && n.v == 0);
}

/* The scalar of a stage is there when its operator takes two operands, and only then. */
static bool stage_scalar(const isa_ck *c, int fop, int fimm, int frev) {
  const isa_aluop_row *row = &isa_aluops[isa_ck_byte(c, fop)];
  isa_num imm = isa_ck_num(c, fimm);
  bool reverse = isa_ck_byte(c, frev);
  if (row->arity == 2 && imm.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s is missing: %s takes two operands",
                    c->form->fields[fimm].name, row->name);
  if (row->arity == 1 && !is_zero(imm))
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s takes one operand: leave it out", row->name);
  if (row->arity == 1 && reverse)
    return isa_fail(c->e, ISA_ILLEGAL, frev, "%s takes one operand: nothing to reverse", row->name);
  return true;
}

/* CMD(idle) | CMD(reduce): each instruction has some of these commands, in its own
 * combination. */
/* The reduce command is one of a set, one bit each. */
#define CMD(name) (1u << ISA_CMD_##name)
static bool command(const isa_ck *c, int f, unsigned allowed, const char *names) {
  unsigned cmd = isa_ck_byte(c, f);
  if (allowed & (1u << cmd)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "reduce=%s: %s takes %s", isa_set_item(ISA_SET_CMD, cmd),
                  c->row->name, names);
}

/* The value that load_reduce puts into the registers: float32, and given with it only. */
static bool load_value(const isa_ck *c, int f, unsigned cmd) {
  isa_num n = isa_ck_num(c, f);
  /* Without a value the registers would start from what was in them before. */
  if (cmd == ISA_CMD_load_reduce && n.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s is missing: reduce=load_reduce starts from it",
                    c->form->fields[f].name);
  if (cmd != ISA_CMD_load_reduce && n.kind != ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, f, "given: only reduce=load_reduce uses it");
  return isa_ck_vector_type(c, f, ISA_float32);
}

/* The number of elements decides the result's meaning (a mean, a position), so it is
 * fixed. */
/* No size of a free dimension is a register. */
static bool fixed_row(const isa_ck *c, int f) {
  if (isa_ck_at(c, f)->size_dim <= 1) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "a size is a register: %s has fixed rows", c->row->name);
}

static bool max_dims(const isa_ck *c, int f, unsigned most) {
  unsigned n = isa_ck_at(c, f)->ndim;
  if (n <= most) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%u free dimensions: %s takes at most %u here", n,
                  c->row->name, most);
}

static bool elements(const isa_ck *c, int f, uint64_t least, uint64_t most) {
  uint64_t n = isa_ap_elems(isa_ck_at(c, f));
  if (n >= least && n <= most) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  "%" PRIu64 " elements per partition: %s takes %" PRIu64 " to %" PRIu64, n,
                  c->row->name, least, most);
}

/* ---- Two operators ------------------------------------------------------------------------ */

/* dst = (src op0 imm0) op1 src1. */
bool isa_rule_stt(const isa_ck *c) {
  int dst = F(SCALAR_TENSOR_TENSOR, dst), src = F(SCALAR_TENSOR_TENSOR, src);
  int src1 = F(SCALAR_TENSOR_TENSOR, src1);
  return isa_ck_agree(c, src, dst) && isa_ck_agree(c, src1, dst) &&
         arithmetic(c, F(SCALAR_TENSOR_TENSOR, op0)) &&
         stage_scalar(c, F(SCALAR_TENSOR_TENSOR, op0), F(SCALAR_TENSOR_TENSOR, imm0),
                      F(SCALAR_TENSOR_TENSOR, reverse0)) &&
         binary(c, F(SCALAR_TENSOR_TENSOR, op1)) && not_both_psum(c, src, src1);
}

/* src0 and src1 stream side by side, so they cannot both come through the port of PSUM. */
bool isa_rule_scan(const isa_ck *c) {
  int dst = F(SCAN, dst), src0 = F(SCAN, src0), src1 = F(SCAN, src1);
  return isa_ck_agree(c, src0, dst) && isa_ck_agree(c, src1, dst) && binary(c, F(SCAN, op0)) &&
         binary(c, F(SCAN, op1)) && not_both_psum(c, src0, src1);
}

/* dst, src, the first operator, and the register's command and start: what cumulative and
 * reducing have in common. */
static bool scalar_and_register(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  int dst = F(TENSOR_SCALAR_REDUCE, dst), src = F(TENSOR_SCALAR_REDUCE, src);
  int imm0 = F(TENSOR_SCALAR_REDUCE, imm0);
  return isa_ck_agree(c, src, dst) && arithmetic(c, F(TENSOR_SCALAR_REDUCE, op0)) &&
         stage_scalar(c, F(TENSOR_SCALAR_REDUCE, op0), imm0, F(TENSOR_SCALAR_REDUCE, reverse0)) &&
         isa_ck_vector_type(c, imm0, ISA_float32) &&
         command(c, F(TENSOR_SCALAR_REDUCE, reduce),
                 CMD(reduce) | CMD(reset_reduce) | CMD(load_reduce),
                 "reduce, reset_reduce or load_reduce") &&
         load_value(c, F(TENSOR_SCALAR_REDUCE, imm1), u->reduce);
}

/* The running value is stored after each element, in the types that the reference
 * lists. */
bool isa_rule_cumul(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  if (!isa_ck_types(c, F(TENSOR_SCALAR_REDUCE, dst), TYPES_CUMUL) ||
      !isa_ck_types(c, F(TENSOR_SCALAR_REDUCE, src), TYPES_CUMUL) || !scalar_and_register(c))
    return false;
  switch (u->op1) {
  case ISA_ALU_add:
  case ISA_ALU_subtract:
  case ISA_ALU_mult:
  case ISA_ALU_max:
  case ISA_ALU_min: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR_REDUCE, op1),
                    "%s: the operator must be add, subtract, mult, max or min",
                    isa_aluops[u->op1].name);
  }
}

/* Only one value is kept, so an order-dependent subtract is not among these. */
bool isa_rule_tsred(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  if (!scalar_and_register(c)) return false;
  switch (u->op1) {
  case ISA_ALU_add:
  case ISA_ALU_mult:
  case ISA_ALU_max:
  case ISA_ALU_min: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, F(TENSOR_SCALAR_REDUCE, op1),
                    "%s: the reduction must be add, mult, max or min", isa_aluops[u->op1].name);
  }
}

/* ---- Selection ---------------------------------------------------------------------------- */

/* Two ways to say what is copied where pred is true: a tile, or one number for all. */
static bool pred_source(const isa_ck *c) {
  const struct isa_COPY_PREDICATED *u = &c->in->u.COPY_PREDICATED;
  int dst = F(COPY_PREDICATED, dst), src = F(COPY_PREDICATED, src);
  int imm = F(COPY_PREDICATED, imm);
  if (!u->src && u->imm.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, src, "src and imm are both missing: one of them is copied");
  if (u->src && u->imm.kind != ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, imm, "given together with src: one of them is copied");
  if (u->imm.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, imm, "a pattern: the value must be a number or a register");
  return !u->src || (isa_ck_agree(c, src, dst) && isa_ck_same_type(c, src, dst) &&
                     not_both_psum(c, src, F(COPY_PREDICATED, pred)));
}

bool isa_rule_pred(const isa_ck *c) {
  int pred = F(COPY_PREDICATED, pred);
  /* Integers: a predicate is zero or not, whatever its width. */
  return pred_source(c) && isa_ck_agree(c, pred, F(COPY_PREDICATED, dst)) &&
         isa_ck_types(c, pred, T(uint8) | T(uint16) | T(uint32));
}

/* The registers of the selecting instructions hold a maximum. */
static bool max_only(const isa_ck *c, int f) {
  unsigned op = isa_ck_byte(c, f);
  if (op == ISA_ALU_max || op == ISA_ALU_bypass) /* bypass: left out */
    return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s: %s reduces by max only", isa_aluops[op].name,
                  c->row->name);
}

bool isa_rule_selred(const isa_ck *c) {
  const struct isa_SELECT_REDUCE *u = &c->in->u.SELECT_REDUCE;
  int dst = F(SELECT_REDUCE, dst), on_true = F(SELECT_REDUCE, on_true);
  int pred = F(SELECT_REDUCE, pred);
  unsigned type = isa_ck_ap(c, u->on_true)->dtype;
  if (type == ISA_tfloat32 || type == ISA_int32 || type == ISA_uint32)
    return isa_fail(c->e, ISA_ILLEGAL, on_true,
                    "%s: on_true may have any type but tfloat32, int32 and uint32",
                    isa_dtypes[type].name);
  return isa_ck_agree(c, on_true, dst) && isa_ck_agree(c, pred, dst) &&
         isa_ck_types(c, pred, TYPES_INT16) && not_both_psum(c, on_true, pred) &&
         command(c, F(SELECT_REDUCE, reduce), CMD(idle) | CMD(reduce) | CMD(reset_reduce),
                 "idle, reduce or reset_reduce") &&
         max_only(c, F(SELECT_REDUCE, reduce_op));
}

/* A range has bounds; not_equal would give none. */
static bool range_op(const isa_ck *c, int f) {
  unsigned op = isa_ck_byte(c, f);
  switch (op) {
  case ISA_ALU_is_equal:
  case ISA_ALU_is_ge:
  case ISA_ALU_is_gt:
  case ISA_ALU_is_le:
  case ISA_ALU_is_lt: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: it must be is_equal, is_ge, is_gt, is_le or is_lt",
                    isa_aluops[op].name);
  }
}

/* Beyond 2^24 the next integer has no float32 of its own, and two indices would be
 * equal. */
/* Whole, and with the row's indices added within 2^24 in size. A register's value is not seen. */
static bool range_start(const isa_ck *c, isa_num n, uint64_t row) {
  int f = F(RANGE_SELECT, start);
  const int64_t limit = (int64_t)1 << INDEX_BITS;
  if (n.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a pattern: the value must be a number or a register");
  float x = n.kind == ISA_NUM_imm ? isa_bits_f32(n.v) : 0;
  /* Written so that NaN is refused too. */
  if (!(x >= -(float)limit && x <= (float)limit))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%g: the indices must be within 2^24", (double)x);
  int64_t start = (int64_t)x;
  if ((float)start != x)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%g: the first index must be an integer", (double)x);
  /* The last element's index is start + row - 1. */
  if (start + (int64_t)row - 1 > limit)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRId64 ": with %" PRIu64 " elements, the indices must be within 2^24",
                    start, row);
  return true;
}

bool isa_rule_range(const isa_ck *c) {
  const struct isa_RANGE_SELECT *u = &c->in->u.RANGE_SELECT;
  int dst = F(RANGE_SELECT, dst), on_true = F(RANGE_SELECT, on_true);
  int b0 = F(RANGE_SELECT, bound0), b1 = F(RANGE_SELECT, bound1);
  /* Left out it is that value; another one has no path into the result. */
  if (u->on_false.kind && (u->on_false.kind != ISA_NUM_imm || u->on_false.v != FP32_MIN_BITS))
    return isa_fail(c->e, ISA_ILLEGAL, F(RANGE_SELECT, on_false),
                    "the machine only fills with the least float32, -0x1.fffffep+127");
  return isa_ck_agree(c, on_true, dst) && isa_ck_types(c, on_true, TYPES_FLOAT) &&
         isa_ck_agree_parts(c, b0, dst) && isa_ck_agree_parts(c, b1, dst) &&
         isa_ck_types(c, b0, T(float32)) && isa_ck_types(c, b1, T(float32)) &&
         range_op(c, F(RANGE_SELECT, op0)) && range_op(c, F(RANGE_SELECT, op1)) &&
         range_start(c, u->start, isa_ap_elems(isa_ck_ap(c, u->dst))) &&
         command(c, F(RANGE_SELECT, reduce),
                 CMD(idle) | CMD(reset) | CMD(reduce) | CMD(reset_reduce),
                 "idle, reset, reduce or reset_reduce") &&
         max_only(c, F(RANGE_SELECT, reduce_op));
}

/* ---- Statistics --------------------------------------------------------------------------- */

/* A row to a fixed number of results, the same partitions: bn_stats 6, bn_aggr 2, max8
 * 8. */
static bool row_to(const isa_ck *c, uint64_t results) {
  return isa_ck_agree_parts(c, F(UNARY, src), F(UNARY, dst)) && fixed_row(c, F(UNARY, src)) &&
         fixed_row(c, F(UNARY, dst)) && isa_ck_count(c, F(UNARY, dst), results);
}

/* Count, mean and sum of squared deviations, for the even elements and for the odd
 * ones. */
bool isa_rule_bnstats(const isa_ck *c) {
  return row_to(c, 6) && elements(c, F(UNARY, src), 1, BN_MOST);
}

bool isa_rule_bnaggr(const isa_ck *c) {
  uint64_t n = isa_ap_elems(isa_ck_ap(c, c->in->u.UNARY.src));
  if (!row_to(c, 2)) return false;
  /* Each triple is (count, mean, sum of squared deviations) of one part. */
  if (n % 3)
    return isa_fail(c->e, ISA_ILLEGAL, F(UNARY, src),
                    "%" PRIu64 " elements per partition: they must be a multiple of 3", n);
  return true;
}

/* ---- Searching ---------------------------------------------------------------------------- */

/* Rows of up to two free dimensions, as the reference says, and short enough for a
 * position. */
static bool search_row(const isa_ck *c, int f, uint64_t least) {
  return fixed_row(c, f) && max_dims(c, f, SEARCH_DIMS) && elements(c, f, least, SEARCH_MOST);
}

bool isa_rule_max8(const isa_ck *c) {
  return row_to(c, 8) && max_dims(c, F(UNARY, dst), 1) &&
         search_row(c, F(UNARY, src), SEARCH_LEAST);
}

/* Eight values to look for: what max8 gives. */
bool isa_rule_matchv(const isa_ck *c) {
  int f = F(MATCH_VALUE_LOAD, src);
  return fixed_row(c, f) && max_dims(c, f, SEARCH_DIMS) && isa_ck_count(c, f, 8);
}

bool isa_rule_find8(const isa_ck *c) {
  return row_to(c, 8) && max_dims(c, F(UNARY, dst), 1) &&
         search_row(c, F(UNARY, src), SEARCH_LEAST) && isa_ck_types(c, F(UNARY, dst), TYPES_INDEX);
}

bool isa_rule_repl8(const isa_ck *c) {
  const struct isa_MATCH_REPLACE *u = &c->in->u.MATCH_REPLACE;
  int dst = F(MATCH_REPLACE, dst), src = F(MATCH_REPLACE, src);
  int idx = F(MATCH_REPLACE, dst_idx);
  if (u->imm.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATCH_REPLACE, imm),
                    "a pattern: the value must be a number or a register");
  /* The row may be shorter than eight here: values that do not occur replace nothing. */
  if (!isa_ck_agree(c, src, dst) || !search_row(c, src, 1)) return false;
  return !u->dst_idx ||
         (isa_ck_agree_parts(c, idx, dst) && fixed_row(c, idx) && isa_ck_count(c, idx, 8) &&
          max_dims(c, idx, 1) && isa_ck_types(c, idx, TYPES_INDEX) && isa_ck_apart(c, idx, dst));
}

/* ---- activate2 ---------------------------------------------------------------------------- */

/* activate2's stages are the multiplier and adder before the function: these pairs, no
 * others. */
static bool act2_pair(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  unsigned a = u->op0, b = u->op1;
  bool mult =
      a == ISA_ALU_mult && (b == ISA_ALU_add || b == ISA_ALU_subtract || b == ISA_ALU_bypass);
  bool one =
      (a == ISA_ALU_add || a == ISA_ALU_subtract || a == ISA_ALU_bypass) && b == ISA_ALU_bypass;
  if (mult || one) return true;
  return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE2, op1),
                  "op0=%s, op1=%s: the pairs are mult with add or subtract, and mult, add, "
                  "subtract or nothing alone",
                  isa_aluops[a].name, isa_aluops[b].name);
}

static bool act2_numbers(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  /* A scalar that is missing, or has no operator, in either stage. */
  if (!stage_scalar(c, F(ACTIVATE2, op0), F(ACTIVATE2, imm0), F(ACTIVATE2, reverse0)) ||
      !stage_scalar(c, F(ACTIVATE2, op1), F(ACTIVATE2, imm1), F(ACTIVATE2, reverse1)))
    return false;
  /* Other functions have no parameter, so a given one was meant for prelu. */
  if (u->fn != ISA_FN_prelu && !is_zero(u->relu_param))
    return isa_fail(c->e, ISA_ILLEGAL, F(ACTIVATE2, relu_param),
                    "given: %s has no parameter; only prelu has one", isa_actfns[u->fn].name);
  return u->imm0.kind != ISA_NUM_ap || u->imm1.kind != ISA_NUM_ap ||
         isa_ck_same_type(c, F(ACTIVATE2, imm1), F(ACTIVATE2, imm0));
}

static bool act2_reduce(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  int f = F(ACTIVATE2, reduce_op);
  if (!command(c, F(ACTIVATE2, reduce), CMD(idle) | CMD(reset) | CMD(reduce) | CMD(reset_reduce),
               "idle, reset, reduce or reset_reduce"))
    return false;
  switch (u->reduce_op) {
  case ISA_ALU_add:
  case ISA_ALU_max:
  case ISA_ALU_min:
  case ISA_ALU_abs_max:
  case ISA_ALU_abs_min: return true;
  case ISA_ALU_bypass: /* left out */
    if (u->reduce == ISA_CMD_idle) return true;
    return isa_fail(c->e, ISA_ILLEGAL, f, "reduce_op is missing: reduce=%s needs it",
                    isa_set_item(ISA_SET_CMD, u->reduce));
  default:
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s: the reduction must be add, max, min, abs_max or abs_min",
                    isa_aluops[u->reduce_op].name);
  }
}

/* copy, relu and the like are part of every table, so there is nothing to load. */
bool isa_rule_table(const isa_ck *c) {
  const struct isa_ACT_TABLE *u = &c->in->u.ACT_TABLE;
  return isa_actfns[u->fn].table ||
         isa_fail(c->e, ISA_ILLEGAL, ISA_F_ACT_TABLE_fn,
                  "%s has no table of its own: every table includes it", isa_actfns[u->fn].name);
}

bool isa_rule_act2(const isa_ck *c) {
  return isa_ck_agree(c, F(ACTIVATE2, src), F(ACTIVATE2, dst)) && act2_pair(c) && act2_numbers(c) &&
         act2_reduce(c);
}
