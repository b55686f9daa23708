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
#define T(name) ISA_CK_TYPE(ISA_##name)
#define TYPES_FP8 (T(float8_e3m4) | T(float8_e4m3) | T(float8_e4m3fn) | T(float8_e5m2))
#define TYPES_INT16 (T(uint8) | T(int8) | T(uint16) | T(int16))
#define TYPES_CUMUL (T(bfloat16) | T(float16) | T(float32) | TYPES_FP8 | TYPES_INT16)
#define TYPES_FLOAT (T(bfloat16) | T(float16) | T(float32) | T(tfloat32) | TYPES_FP8)
#define TYPES_INDEX (T(uint16) | T(uint32))

/* ---- Helpers ------------------------------------------------------------------------------ */

/* One of the two operands of an instruction that reads PSUM through a single port is in SBUF. */
static bool not_both_psum(const isa_ck *c, int f, uint32_t ia, int g, uint32_t ib) {
  if (isa_ck_ap(c, ia)->space != ISA_PSUM || isa_ck_ap(c, ib)->space != ISA_PSUM) return true;
  return isa_fail(c->e, ISA_ILLEGAL, g, "%s and %s are both in psum: one of them must be in sbuf",
                  c->form->fields[f].name, c->form->fields[g].name);
}

static bool arithmetic(const isa_ck *c, int f, unsigned op) {
  if (!(isa_aluops[op].cls & ISA_OP_ARITH))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s works on bit patterns: %s takes arithmetic operators",
                    isa_aluops[op].name, c->row->name);
  return isa_ck_has_op(c, f, op);
}

static bool binary(const isa_ck *c, int f, unsigned op) {
  if (!arithmetic(c, f, op)) return false;
  if (isa_aluops[op].arity != 2)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s takes one operand: %s needs an operator of two here",
                    isa_aluops[op].name, c->row->name);
  return true;
}

static bool is_zero(isa_num n) {
  return n.kind == ISA_NUM_none || (n.kind == ISA_NUM_imm && n.v == 0);
}

/* The scalar of a stage is there when its operator takes two operands, and only then. */
static bool stage_scalar(const isa_ck *c, unsigned op, int fimm, isa_num imm, int frev,
                         unsigned reverse) {
  const isa_aluop_row *row = &isa_aluops[op];
  if (row->arity == 2 && imm.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s is missing: %s takes two operands",
                    c->form->fields[fimm].name, row->name);
  if (row->arity == 1 && !is_zero(imm))
    return isa_fail(c->e, ISA_ILLEGAL, fimm, "%s takes one operand: leave it out", row->name);
  if (row->arity == 1 && reverse)
    return isa_fail(c->e, ISA_ILLEGAL, frev, "%s takes one operand: nothing to reverse", row->name);
  return true;
}

/* The reduce command is one of a set, one bit each. */
#define CMD(name) (1u << ISA_CMD_##name)
static bool command(const isa_ck *c, int f, unsigned cmd, unsigned allowed, const char *names) {
  if (allowed & (1u << cmd)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "reduce=%s: %s takes %s", isa_set_item(ISA_SET_CMD, cmd),
                  c->row->name, names);
}

/* The value that load_reduce puts into the registers: float32, and given with it only. */
static bool load_value(const isa_ck *c, int f, isa_num n, unsigned cmd) {
  if (cmd == ISA_CMD_load_reduce && n.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s is missing: reduce=load_reduce starts from it",
                    c->form->fields[f].name);
  if (cmd != ISA_CMD_load_reduce && n.kind != ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, f, "given: only reduce=load_reduce uses it");
  return isa_ck_vector_type(c, f, n, ISA_float32);
}

/* No size of a free dimension is a register. */
static bool fixed_row(const isa_ck *c, int f, uint32_t index) {
  if (isa_ck_ap(c, index)->size_dim <= 1) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "a size is a register: %s has fixed rows", c->row->name);
}

static bool max_dims(const isa_ck *c, int f, uint32_t index, unsigned most) {
  unsigned n = isa_ck_ap(c, index)->ndim;
  if (n <= most) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%u free dimensions: %s takes at most %u here", n,
                  c->row->name, most);
}

static bool elements(const isa_ck *c, int f, uint32_t index, uint64_t least, uint64_t most) {
  uint64_t n = isa_ap_elems(isa_ck_ap(c, index));
  if (n >= least && n <= most) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  "%" PRIu64 " elements per partition: %s takes %" PRIu64 " to %" PRIu64, n,
                  c->row->name, least, most);
}

/* ---- Two operators ------------------------------------------------------------------------ */

bool isa_rule_stt(const isa_ck *c) {
  const struct isa_SCALAR_TENSOR_TENSOR *u = &c->in->u.SCALAR_TENSOR_TENSOR;
  int dst = ISA_F_SCALAR_TENSOR_TENSOR_dst, src = ISA_F_SCALAR_TENSOR_TENSOR_src;
  int src1 = ISA_F_SCALAR_TENSOR_TENSOR_src1;
  return isa_ck_agree(c, src, u->src, dst, u->dst) && isa_ck_agree(c, src1, u->src1, dst, u->dst) &&
         arithmetic(c, ISA_F_SCALAR_TENSOR_TENSOR_op0, u->op0) &&
         stage_scalar(c, u->op0, ISA_F_SCALAR_TENSOR_TENSOR_imm0, u->imm0,
                      ISA_F_SCALAR_TENSOR_TENSOR_reverse0, u->reverse0) &&
         binary(c, ISA_F_SCALAR_TENSOR_TENSOR_op1, u->op1) &&
         not_both_psum(c, src, u->src, src1, u->src1);
}

bool isa_rule_scan(const isa_ck *c) {
  const struct isa_SCAN *u = &c->in->u.SCAN;
  int dst = ISA_F_SCAN_dst, src0 = ISA_F_SCAN_src0, src1 = ISA_F_SCAN_src1;
  return isa_ck_agree(c, src0, u->src0, dst, u->dst) &&
         isa_ck_agree(c, src1, u->src1, dst, u->dst) && binary(c, ISA_F_SCAN_op0, u->op0) &&
         binary(c, ISA_F_SCAN_op1, u->op1) && not_both_psum(c, src0, u->src0, src1, u->src1);
}

/* dst, src, the first operator, and the register's command and start: what cumulative and
 * reducing have in common. */
static bool scalar_and_register(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  int dst = ISA_F_TENSOR_SCALAR_REDUCE_dst, src = ISA_F_TENSOR_SCALAR_REDUCE_src;
  int imm0 = ISA_F_TENSOR_SCALAR_REDUCE_imm0;
  return isa_ck_agree(c, src, u->src, dst, u->dst) &&
         arithmetic(c, ISA_F_TENSOR_SCALAR_REDUCE_op0, u->op0) &&
         stage_scalar(c, u->op0, imm0, u->imm0, ISA_F_TENSOR_SCALAR_REDUCE_reverse0, u->reverse0) &&
         isa_ck_vector_type(c, imm0, u->imm0, ISA_float32) &&
         command(c, ISA_F_TENSOR_SCALAR_REDUCE_reduce, u->reduce,
                 CMD(reduce) | CMD(reset_reduce) | CMD(load_reduce),
                 "reduce, reset_reduce or load_reduce") &&
         load_value(c, ISA_F_TENSOR_SCALAR_REDUCE_imm1, u->imm1, u->reduce);
}

bool isa_rule_cumul(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  if (!isa_ck_types(c, ISA_F_TENSOR_SCALAR_REDUCE_dst, u->dst, TYPES_CUMUL) ||
      !isa_ck_types(c, ISA_F_TENSOR_SCALAR_REDUCE_src, u->src, TYPES_CUMUL) ||
      !scalar_and_register(c))
    return false;
  switch (u->op1) {
  case ISA_ALU_add:
  case ISA_ALU_subtract:
  case ISA_ALU_mult:
  case ISA_ALU_max:
  case ISA_ALU_min: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TENSOR_SCALAR_REDUCE_op1,
                    "%s: the operator is add, subtract, mult, max or min", isa_aluops[u->op1].name);
  }
}

bool isa_rule_tsred(const isa_ck *c) {
  const struct isa_TENSOR_SCALAR_REDUCE *u = &c->in->u.TENSOR_SCALAR_REDUCE;
  if (!scalar_and_register(c)) return false;
  switch (u->op1) {
  case ISA_ALU_add:
  case ISA_ALU_mult:
  case ISA_ALU_max:
  case ISA_ALU_min: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TENSOR_SCALAR_REDUCE_op1,
                    "%s: the reduction is add, mult, max or min", isa_aluops[u->op1].name);
  }
}

/* ---- Selection ---------------------------------------------------------------------------- */

static bool pred_source(const isa_ck *c) {
  const struct isa_COPY_PREDICATED *u = &c->in->u.COPY_PREDICATED;
  int dst = ISA_F_COPY_PREDICATED_dst, src = ISA_F_COPY_PREDICATED_src;
  int imm = ISA_F_COPY_PREDICATED_imm;
  if (!u->src && u->imm.kind == ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, src, "src is missing, and imm: one is copied");
  if (u->src && u->imm.kind != ISA_NUM_none)
    return isa_fail(c->e, ISA_ILLEGAL, imm, "given together with src: one of them is copied");
  if (u->imm.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, imm, "a pattern: the value is a number or a register");
  return !u->src || (isa_ck_agree(c, src, u->src, dst, u->dst) &&
                     isa_ck_same_type(c, src, u->src, dst, u->dst) &&
                     not_both_psum(c, src, u->src, ISA_F_COPY_PREDICATED_pred, u->pred));
}

bool isa_rule_pred(const isa_ck *c) {
  const struct isa_COPY_PREDICATED *u = &c->in->u.COPY_PREDICATED;
  int pred = ISA_F_COPY_PREDICATED_pred;
  return pred_source(c) && isa_ck_agree(c, pred, u->pred, ISA_F_COPY_PREDICATED_dst, u->dst) &&
         isa_ck_types(c, pred, u->pred, T(uint8) | T(uint16) | T(uint32));
}

/* The registers of the selecting instructions hold a maximum. */
static bool max_only(const isa_ck *c, int f, unsigned op) {
  if (op == ISA_ALU_max || op == ISA_ALU_bypass) /* bypass: left out */
    return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s: %s reduces by max only", isa_aluops[op].name,
                  c->row->name);
}

bool isa_rule_selred(const isa_ck *c) {
  const struct isa_SELECT_REDUCE *u = &c->in->u.SELECT_REDUCE;
  int dst = ISA_F_SELECT_REDUCE_dst, on_true = ISA_F_SELECT_REDUCE_on_true;
  int pred = ISA_F_SELECT_REDUCE_pred;
  unsigned type = isa_ck_ap(c, u->on_true)->dtype;
  if (type == ISA_tfloat32 || type == ISA_int32 || type == ISA_uint32)
    return isa_fail(c->e, ISA_ILLEGAL, on_true,
                    "%s: on_true may have any type but tfloat32, int32 and uint32",
                    isa_dtypes[type].name);
  return isa_ck_agree(c, on_true, u->on_true, dst, u->dst) &&
         isa_ck_agree(c, pred, u->pred, dst, u->dst) &&
         isa_ck_types(c, pred, u->pred, TYPES_INT16) &&
         not_both_psum(c, on_true, u->on_true, pred, u->pred) &&
         command(c, ISA_F_SELECT_REDUCE_reduce, u->reduce,
                 CMD(idle) | CMD(reduce) | CMD(reset_reduce), "idle, reduce or reset_reduce") &&
         max_only(c, ISA_F_SELECT_REDUCE_reduce_op, u->reduce_op);
}

static bool range_op(const isa_ck *c, int f, unsigned op) {
  switch (op) {
  case ISA_ALU_is_equal:
  case ISA_ALU_is_ge:
  case ISA_ALU_is_gt:
  case ISA_ALU_is_le:
  case ISA_ALU_is_lt: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: it is is_equal, is_ge, is_gt, is_le or is_lt",
                    isa_aluops[op].name);
  }
}

/* Whole, and with the row's indices added within 2^24 in size. A register's value is not seen. */
static bool range_start(const isa_ck *c, isa_num n, uint64_t row) {
  int f = ISA_F_RANGE_SELECT_start;
  const int64_t limit = (int64_t)1 << INDEX_BITS;
  if (n.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a pattern: the value is a number or a register");
  float x = n.kind == ISA_NUM_imm ? isa_bits_f32(n.v) : 0;
  if (!(x >= -(float)limit && x <= (float)limit))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%g: the indices must be within 2^24", (double)x);
  int64_t start = (int64_t)x;
  if ((float)start != x)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%g: the first index is an integer", (double)x);
  if (start + (int64_t)row - 1 > limit)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRId64 ": with %" PRIu64 " elements, the indices must be within 2^24",
                    start, row);
  return true;
}

bool isa_rule_range(const isa_ck *c) {
  const struct isa_RANGE_SELECT *u = &c->in->u.RANGE_SELECT;
  int dst = ISA_F_RANGE_SELECT_dst, on_true = ISA_F_RANGE_SELECT_on_true;
  int b0 = ISA_F_RANGE_SELECT_bound0, b1 = ISA_F_RANGE_SELECT_bound1;
  if (u->on_false.kind && (u->on_false.kind != ISA_NUM_imm || u->on_false.v != FP32_MIN_BITS))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_RANGE_SELECT_on_false,
                    "the machine only fills with the least float32, -0x1.fffffep+127");
  return isa_ck_agree(c, on_true, u->on_true, dst, u->dst) &&
         isa_ck_types(c, on_true, u->on_true, TYPES_FLOAT) &&
         isa_ck_agree_parts(c, b0, u->bound0, dst, u->dst) &&
         isa_ck_agree_parts(c, b1, u->bound1, dst, u->dst) &&
         isa_ck_types(c, b0, u->bound0, T(float32)) && isa_ck_types(c, b1, u->bound1, T(float32)) &&
         range_op(c, ISA_F_RANGE_SELECT_op0, u->op0) &&
         range_op(c, ISA_F_RANGE_SELECT_op1, u->op1) &&
         range_start(c, u->start, isa_ap_elems(isa_ck_ap(c, u->dst))) &&
         command(c, ISA_F_RANGE_SELECT_reduce, u->reduce,
                 CMD(idle) | CMD(reset) | CMD(reduce) | CMD(reset_reduce),
                 "idle, reset, reduce or reset_reduce") &&
         max_only(c, ISA_F_RANGE_SELECT_reduce_op, u->reduce_op);
}

/* ---- Statistics --------------------------------------------------------------------------- */

static bool row_to(const isa_ck *c, uint64_t results) {
  const struct isa_UNARY *u = &c->in->u.UNARY;
  return isa_ck_agree_parts(c, ISA_F_UNARY_src, u->src, ISA_F_UNARY_dst, u->dst) &&
         fixed_row(c, ISA_F_UNARY_src, u->src) && fixed_row(c, ISA_F_UNARY_dst, u->dst) &&
         isa_ck_count(c, ISA_F_UNARY_dst, u->dst, results);
}

bool isa_rule_bnstats(const isa_ck *c) {
  return row_to(c, 6) && elements(c, ISA_F_UNARY_src, c->in->u.UNARY.src, 1, BN_MOST);
}

bool isa_rule_bnaggr(const isa_ck *c) {
  uint64_t n = isa_ap_elems(isa_ck_ap(c, c->in->u.UNARY.src));
  if (!row_to(c, 2)) return false;
  if (n % 3)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_UNARY_src,
                    "%" PRIu64 " elements per partition: they must be a multiple of 3", n);
  return true;
}

/* ---- Searching ---------------------------------------------------------------------------- */

static bool search_row(const isa_ck *c, int f, uint32_t index, uint64_t least) {
  return fixed_row(c, f, index) && max_dims(c, f, index, SEARCH_DIMS) &&
         elements(c, f, index, least, SEARCH_MOST);
}

bool isa_rule_max8(const isa_ck *c) {
  const struct isa_UNARY *u = &c->in->u.UNARY;
  return row_to(c, 8) && max_dims(c, ISA_F_UNARY_dst, u->dst, 1) &&
         search_row(c, ISA_F_UNARY_src, u->src, SEARCH_LEAST);
}

bool isa_rule_matchv(const isa_ck *c) {
  uint32_t src = c->in->u.MATCH_VALUE_LOAD.src;
  int f = ISA_F_MATCH_VALUE_LOAD_src;
  return fixed_row(c, f, src) && max_dims(c, f, src, SEARCH_DIMS) && isa_ck_count(c, f, src, 8);
}

bool isa_rule_find8(const isa_ck *c) {
  const struct isa_UNARY *u = &c->in->u.UNARY;
  return row_to(c, 8) && max_dims(c, ISA_F_UNARY_dst, u->dst, 1) &&
         search_row(c, ISA_F_UNARY_src, u->src, SEARCH_LEAST) &&
         isa_ck_types(c, ISA_F_UNARY_dst, u->dst, TYPES_INDEX);
}

bool isa_rule_repl8(const isa_ck *c) {
  const struct isa_MATCH_REPLACE *u = &c->in->u.MATCH_REPLACE;
  int dst = ISA_F_MATCH_REPLACE_dst, src = ISA_F_MATCH_REPLACE_src;
  int idx = ISA_F_MATCH_REPLACE_dst_idx;
  if (u->imm.kind == ISA_NUM_ap)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_MATCH_REPLACE_imm,
                    "a pattern: the value is a number or a register");
  if (!isa_ck_agree(c, src, u->src, dst, u->dst) || !search_row(c, src, u->src, 1)) return false;
  return !u->dst_idx ||
         (isa_ck_agree_parts(c, idx, u->dst_idx, dst, u->dst) && fixed_row(c, idx, u->dst_idx) &&
          isa_ck_count(c, idx, u->dst_idx, 8) && max_dims(c, idx, u->dst_idx, 1) &&
          isa_ck_types(c, idx, u->dst_idx, TYPES_INDEX) &&
          isa_ck_apart(c, idx, u->dst_idx, dst, u->dst));
}

/* ---- activate2 ---------------------------------------------------------------------------- */

static bool act2_pair(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  unsigned a = u->op0, b = u->op1;
  bool mult =
      a == ISA_ALU_mult && (b == ISA_ALU_add || b == ISA_ALU_subtract || b == ISA_ALU_bypass);
  bool one =
      (a == ISA_ALU_add || a == ISA_ALU_subtract || a == ISA_ALU_bypass) && b == ISA_ALU_bypass;
  if (mult || one) return true;
  return isa_fail(c->e, ISA_ILLEGAL, ISA_F_ACTIVATE2_op1,
                  "op0=%s, op1=%s: the pairs are mult with add or subtract, and mult, add, "
                  "subtract or nothing alone",
                  isa_aluops[a].name, isa_aluops[b].name);
}

static bool act2_numbers(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  if (!stage_scalar(c, u->op0, ISA_F_ACTIVATE2_imm0, u->imm0, ISA_F_ACTIVATE2_reverse0,
                    u->reverse0) ||
      !stage_scalar(c, u->op1, ISA_F_ACTIVATE2_imm1, u->imm1, ISA_F_ACTIVATE2_reverse1,
                    u->reverse1))
    return false;
  if (u->fn != ISA_FN_prelu && !is_zero(u->relu_param))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_ACTIVATE2_relu_param,
                    "given: %s has no parameter, only prelu has", isa_actfns[u->fn].name);
  return u->imm0.kind != ISA_NUM_ap || u->imm1.kind != ISA_NUM_ap ||
         isa_ck_same_type(c, ISA_F_ACTIVATE2_imm1, u->imm1.v, ISA_F_ACTIVATE2_imm0, u->imm0.v);
}

static bool act2_reduce(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  int f = ISA_F_ACTIVATE2_reduce_op;
  if (!command(c, ISA_F_ACTIVATE2_reduce, u->reduce,
               CMD(idle) | CMD(reset) | CMD(reduce) | CMD(reset_reduce),
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
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: the reduction is add, max, min, abs_max or abs_min",
                    isa_aluops[u->reduce_op].name);
  }
}

bool isa_rule_table(const isa_ck *c) {
  const struct isa_ACT_TABLE *u = &c->in->u.ACT_TABLE;
  return isa_actfns[u->fn].table ||
         isa_fail(c->e, ISA_ILLEGAL, ISA_F_ACT_TABLE_fn,
                  "%s has no table: it is arithmetic that every table comes with",
                  isa_actfns[u->fn].name);
}

bool isa_rule_act2(const isa_ck *c) {
  const struct isa_ACTIVATE2 *u = &c->in->u.ACTIVATE2;
  return isa_ck_agree(c, ISA_F_ACTIVATE2_src, u->src, ISA_F_ACTIVATE2_dst, u->dst) &&
         act2_pair(c) && act2_numbers(c) && act2_reduce(c);
}
