/* The program of a CC sequencer: blocks from a wait_start to the complete of the same collective.
 *
 *           wait_start gpsimd.sum
 *           dma_trigger qcc, 1       $from.rank[tp.next]
 *           nop                      $from>=16
 *           complete   gpsimd.sum
 */
#include "../operand.h"
#include "rules.h"

#include <inttypes.h>

/* A wait_start or complete by itself: nothing is left to check but where it stands. */
bool isa_rule_ccblock(const isa_ck *c) {
  (void)c; /* the place is checked with the fields, the order of blocks with the section */
  return true;
}

typedef struct blocks {
  const isa_code *code;
  unsigned engine; /* of the section */
  isa_error *e;
  uint32_t pc, first; /* first: of the open block */
  bool open, any;
  isa_point of,
      last; /* of: the open block's; last: the latest collective of all, if there is any */
} blocks;

static bool same(isa_point a, isa_point b) { return a.engine == b.engine && a.pc == b.pc; }

/* The order of the text: engine by engine, each by its pcs. */
static bool is_after(isa_point a, isa_point b) {
  return a.engine > b.engine || (a.engine == b.engine && a.pc > b.pc);
}

static bool bad(const blocks *b, const char *rule) {
  return isa_fail(b->e, ISA_ILLEGAL, ISA_NOFIELD, "section %s: %s", isa_engines[b->engine].name,
                  rule);
}

static bool starts(blocks *b, isa_point of) {
  if (b->open) return bad(b, "wait_start, but the block before it has no complete");
  /* Blocks that ascend need no search, so a section of n of them takes n steps, not n *
   * n. */
  bool ascends = !b->any || is_after(of, b->last); /* as blocks do most often: none is the same */
  for (uint32_t pc = 0; !ascends && pc < b->pc; pc++)
    if (b->code->insns[pc].op == ISA_OP_wait_start && same(b->code->insns[pc].u.BLOCK.of, of))
      return bad(b, "a second block for the same collective");
  if (ascends) b->last = of;
  b->open = b->any = true;
  b->of = of;
  b->first = b->pc;
  return true;
}

static bool ends(blocks *b, isa_point of) {
  if (!b->open) return bad(b, "complete, but no wait_start is before it");
  if (!same(b->of, of)) return bad(b, "complete of another collective than its block's wait_start");
  b->open = false;
  return true;
}

/* A branch stays in its block, and does not go to its wait_start. */
/* Another block runs when another collective starts: a jump into it would run it too
 * early. */
static bool stays(const blocks *b, int64_t to) {
  uint32_t end = b->pc;
  /* -1: the instruction has no target. */
  if (to < 0) return true;
  while (end < b->code->n && b->code->insns[end].op != ISA_OP_complete) end++;
  if (to > b->first && to <= end) return true;
  return isa_fail(b->e, ISA_ILLEGAL, ISA_NOFIELD,
                  "section %s: a branch to %" PRId64 " leaves its block, which is %" PRIu32
                  "..%" PRIu32,
                  isa_engines[b->engine].name, to, b->first + 1, end);
}

static bool one(blocks *b) {
  const isa_insn *in = &b->code->insns[b->pc];
  if (in->op == ISA_OP_wait_start) return starts(b, in->u.BLOCK.of);
  if (in->op == ISA_OP_complete) return ends(b, in->u.BLOCK.of);
  if (!b->open)
    return bad(b, "an instruction outside of a block, which is from a wait_start to its complete");
  /* A hostile opcode has no target to ask for; check_code refuses it next. */
  return in->op >= ISA_NOPS || stays(b, isa_insn_target(in));
}

bool isa_ck_blocks(const isa_program *p, uint32_t core, unsigned engine, isa_place *at,
                   isa_error *e) {
  blocks b = {.code = &p->cores[core].code[engine], .engine = engine, .e = e};
  bool ok = true;
  /* Where it fails pc stays, for the message. */
  for (; ok && b.pc < b.code->n; b.pc += ok) ok = one(&b);
  if (ok && b.open) ok = bad(&b, "its last block has no complete");
  if (!ok && at) *at = (isa_place){(int)core, (int)engine, b.pc < b.code->n ? b.pc : b.code->n - 1};
  return ok;
}
