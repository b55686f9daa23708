/* Control flow of one engine's code. */
#include "flow.h"
#include "operand.h"

#include <string.h>

/* Registers are 32 bits; registers.def has each result, signed or not, as one row. */
bool isa_reg_alu(unsigned op, uint32_t a, uint32_t b, uint32_t *r) {
  int32_t sa = (int32_t)a, sb = (int32_t)b;
  *r = 0;
  switch (op) {
#define ALU(name, result) \
  case ISA_OP_##name:     \
    *r = result;          \
    return true;
#define DIVIDE(name, result) \
  case ISA_OP_##name:        \
    *r = b ? result : 0;     \
    return b != 0;
#include "registers.def"
  default: return false;
  }
}

bool isa_branch_taken(unsigned op, uint32_t a, uint32_t b) {
  int32_t sa = (int32_t)a, sb = (int32_t)b;
  switch (op) {
#define BRANCH(name, taken) \
  case ISA_OP_##name:       \
    return taken;
#include "registers.def"
#undef BRANCH
  default: return false;
  }
}

/* branch = beq + comparison, which the two tables' order must allow. */
_Static_assert(ISA_OP_bgeu - ISA_OP_beq == ISA_COMPARE_geu, "a branch for each comparison");

bool isa_compare_holds(unsigned compare, uint32_t a, uint32_t b) {
  return isa_branch_taken((unsigned)ISA_OP_beq + compare, a, b);
}

/* The opposite of a comparison: `if` jumps around its body when it does not hold. */
unsigned isa_branch_around(unsigned compare) {
  static const uint16_t around[] = {
      [ISA_COMPARE_eq] = ISA_OP_bne,   [ISA_COMPARE_ne] = ISA_OP_beq,
      [ISA_COMPARE_lt] = ISA_OP_bge,   [ISA_COMPARE_le] = ISA_OP_bgt,
      [ISA_COMPARE_gt] = ISA_OP_ble,   [ISA_COMPARE_ge] = ISA_OP_blt,
      [ISA_COMPARE_ltu] = ISA_OP_bgeu, [ISA_COMPARE_geu] = ISA_OP_bltu};
  return around[compare];
}

static uint64_t bit_of(uint8_t reg) { return UINT64_C(1) << (reg % 64); }

/* The register that an instruction other than a call writes, as a mask.
 * Not the call: its register holds a return address, which a ret may use. */
static uint64_t writes_reg(const isa_insn *in) {
  switch (isa_ops[in->op].form) {
  case ISA_FORM_MOV: return bit_of(in->u.MOV.rd);
  case ISA_FORM_REGALU: return bit_of(in->u.REGALU.rd);
  case ISA_FORM_TENSOR_LOAD: return bit_of(in->u.TENSOR_LOAD.rd);
  /* ret reads its register; all others of this form write it. */
  case ISA_FORM_REG: return in->op == ISA_OP_ret ? 0 : bit_of(in->u.REG.r);
  default: return 0;
  }
}

/* Whether some ret may go elsewhere than after a call.
 * True if the register of a ret is also set by something other than a call. */
static bool computed(const isa_code *code) {
  uint64_t written = 0, returns = 0;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    written |= writes_reg(in);
    if (in->op == ISA_OP_ret) returns |= bit_of(in->u.REG.r);
  }
  return (written & returns) != 0;
}

/* Depth first, without recursion: a section may have a million instructions. */
typedef struct walk {
  const isa_code *code;
  uint8_t *seen;
  uint32_t *stack, n; /* each pc is pushed once */
} walk;

static void visit(walk *w, int64_t pc) {
  if (pc < 0 || pc >= w->code->n || w->seen[pc]) return;
  w->seen[pc] = 1;
  w->stack[w->n++] = (uint32_t)pc;
}

/* Return addresses are those after the calls; which one it is, no one asks here. */
static void visit_returns(walk *w) {
  for (uint32_t pc = 0; pc < w->code->n; pc++)
    if (w->code->insns[pc].op == ISA_OP_call) visit(w, (int64_t)pc + 1);
}

static void follow(walk *w) {
  bool returned = false;
  while (w->n) {
    uint32_t pc = w->stack[--w->n];
    unsigned op = w->code->insns[pc].op;
    visit(w, isa_insn_target(&w->code->insns[pc]));
    /* Any call may be the one that is returned from: once is enough, since all are visited. */
    if (op == ISA_OP_ret && !returned) visit_returns(w);
    returned = returned || op == ISA_OP_ret;
    /* After a call comes its target, and what follows it only by a ret. */
    if (!isa_op_ends(op) && op != ISA_OP_call) visit(w, (int64_t)pc + 1);
  }
}

bool isa_flow_reach(const isa_alloc *al, const isa_code *code, uint32_t from, uint8_t *seen) {
  if (from >= code->n) return true;
  size_t bytes = (size_t)code->n * sizeof(uint32_t);
  walk w = {.code = code, .seen = seen, .stack = isa_zalloc(al, bytes)};
  if (!w.stack) return false;
  visit(&w, from);
  follow(&w);
  bool returns = false;
  for (uint32_t pc = 0; pc < code->n && !returns; pc++)
    returns = seen[pc] && code->insns[pc].op == ISA_OP_ret;
  /* A register that something else writes may lead anywhere. */
  if (returns && computed(code)) memset(seen, 1, code->n);
  isa_free(al, w.stack, bytes);
  return true;
}

/* `endloop` is an addition and the branch on one line.
 * The assembler's for-loop: mov, body, add, branch, the last two from one line. */
static bool is_block(const isa_code *code, uint32_t top, uint32_t end) {
  const isa_line *line = code->lines;
  /* Before the loop its counter is set, at its end it is added to. */
  return line && top && end > top && code->insns[top - 1].op == ISA_OP_mov &&
         code->insns[end - 1].op == ISA_OP_add && line[end].line &&
         line[end - 1].line == line[end].line && line[end - 1].file == line[end].file;
}

bool isa_loop_around(const isa_code *code, uint32_t pc, isa_loop *out) {
  bool found = false;
  *out = (isa_loop){0};
  /* Each backward branch behind pc, from the nearest on. */
  for (uint32_t end = pc; end < code->n; end++) {
    int64_t top = isa_insn_target(&code->insns[end]);
    /* A backward branch over pc is a loop around it; a call comes back. */
    if (top < 0 || top > pc || code->insns[end].op == ISA_OP_call) continue;
    /* The innermost loop is the one that begins last. */
    if (!found || (uint32_t)top > out->top) {
      *out = (isa_loop){.top = (uint32_t)top, .end = end, .nested = found};
      found = true;
    } else if ((uint32_t)top < out->top) {
      /* One that begins earlier lies around it. */
      out->nested = true;
    } else {
      /* Another branch to the same top: the loop reaches to the last. */
      out->end = end;
    }
  }
  /* The mov belongs to the loop for a reader: messages begin there. */
  out->head = found && is_block(code, out->top, out->end) ? out->top - 1 : out->top;
  return found;
}
