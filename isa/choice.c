/* Other ways to have an instruction's result, which compilers take (choice.def). */
#include "operand.h"

/* dst = src * scale + bias of a tensor_scalar, where it is that and needs no register.
 * (x * imm0) + imm1, x * imm0, or x + imm0: what activate computes before its function. */
static bool scale_and_bias(const struct isa_TENSOR_SCALAR *u, struct isa_ACTIVATE *to) {
  bool mult = u->op0 == ISA_ALU_mult, alone = u->op1 == ISA_ALU_bypass && !u->imm1.kind;
  if (mult && (alone || u->op1 == ISA_ALU_add)) {
    to->scale = u->imm0;
    to->bias = u->imm1;
  } else if (u->op0 == ISA_ALU_add && alone) {
    to->bias = u->imm0;
  } else {
    return false;
  }
  return to->scale.kind != ISA_NUM_reg && to->bias.kind != ISA_NUM_reg;
}

/* fn=copy: the function that changes nothing. */
static bool as_activate(const isa_insn *in, isa_insn *out) {
  struct isa_ACTIVATE *to = &out->u.ACTIVATE;
  to->fn = ISA_FN_copy;
  if (in->op == ISA_OP_tensor_scalar) {
    const struct isa_TENSOR_SCALAR *u = &in->u.TENSOR_SCALAR;
    to->dst = u->dst;
    to->src = u->src;
    to->round = u->round;
    return scale_and_bias(u, to);
  }
  const struct isa_COPY *u = &in->u.COPY;
  to->dst = u->dst;
  to->src = u->src;
  to->round = u->round;
  return true;
}

bool isa_insn_instead(const isa_insn *in, int gen, isa_insn *out, unsigned *engine) {
  static const struct {
    uint16_t op, other;
    uint8_t engine, first, last;
    bool (*make)(const isa_insn *in, isa_insn *out);
  } rows[] = {
#define INSTEAD(op, engine, first, last, other) \
  {ISA_OP_##op, ISA_OP_##other, ISA_ENG_##engine, ISA_##first, ISA_##last, as_##other},
#include "choice.def"
  };
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].op != in->op || gen < rows[i].first || gen > rows[i].last) continue;
    /* The first row that fits the generation counts. */
    *out = (isa_insn){.op = rows[i].other};
    *engine = rows[i].engine;
    return rows[i].make(in, out);
  }
  return false;
}
