/* Structured control over a register:
 *
 *   loop rN, start, stop, step         mov rN, start
 *     body                             bge rN, stop, end      (unless both are numbers)
 *   endloop                       top: body
 *                                      add rN, rN, step
 *                                      blt rN, stop, top
 *                                 end:
 *
 * A negative step counts down, and the loop ends before stop: ble and bgt. The step is a number, 1
 * if left out.
 *
 *   if rN, lt, b                       bge rN, b, else
 *     body                             body
 *   else                               jmp end
 *     other                      else: other
 *   endif                         end:
 *
 * The conditions are eq ne lt le gt ge, signed, and ltu geu; or == != < <= > >=, without commas. */
#include "../../isa/flow.h"
#include "stmt.h"

#include <string.h>

static as_stmt open(const as_tok *name, unsigned nparts) {
  as_stmt st;
  memset(&st, 0, sizeof st);
  st.name = name;
  st.nparts = nparts;
  return st;
}

static isa_insn branch(unsigned op, unsigned reg, isa_int with, uint32_t to) {
  isa_insn in;
  memset(&in, 0, sizeof in);
  in.op = (uint16_t)op;
  in.u.BRANCH.ra = (uint8_t)reg;
  in.u.BRANCH.b = with;
  in.u.BRANCH.to = to;
  return in;
}

static bool parse_head(as_cur *c, as_block *l, isa_int *start) {
  int reg = as_tok_reg(c->t);
  const as_tok *at = c->t;
  if (reg < 0) return as_expected(c->j, at, "the register of the loop");
  c->t++;
  l->reg = (uint8_t)reg;
  if (!as_need(c, ',', "the register of the loop") || !as_int(c, start) ||
      !as_need(c, ',', "the start of the loop") || !as_int(c, &l->stop))
    return false;
  int64_t step = 1;
  at = c->t;
  if (as_take(c, ',')) {
    at = c->t;
    if (!as_int_in(c, "the step", INT32_MIN, INT32_MAX, &step)) return false;
  }
  if (step == 0)
    return as_error(c->j, at->pos, as_span_of(at, c->t),
                    "the step of a loop is 0: it would never end");
  l->step = (int32_t)step;
  if (!start->is_reg && !l->stop.is_reg &&
      (step > 0 ? start->v >= l->stop.v : start->v <= l->stop.v))
    return as_error(c->j, l->pos, l->span,
                    "the loop from %d to %d (excluded) in steps of %d never runs", start->v,
                    l->stop.v, l->step);
  return true;
}

/* Opens a block; past the limit the job ends. */
static void push(as_cur *c, const as_block *b) {
  struct as_unit *u = c->j->unit;
  unsigned core = u->core;
  if (u->nblocks[core] == AS_MAX_BLOCKS)
    as_fatal(c->j, b->pos, "loops and ifs are nested deeper than %d", AS_MAX_BLOCKS);
  /* Each core has blocks of its own, for sections of both. */
  u->blocks[core][u->nblocks[core]++] = *b;
}

static const char *const heads[] = {"loop", "if", "else"};

/* The innermost block, which the word at the cursor ends or continues with; NULL after an error, or
 * when an error in its head was reported. kinds: a mask. */
static as_block *innermost(as_cur *c, unsigned kinds) {
  struct as_unit *u = c->j->unit;
  const as_tok *name = c->t++;
  const char *head = kinds & 1 << AS_B_LOOP ? "loop" : "if";
  if (u->nblocks[u->core] == 0) {
    as_error(c->j, name->pos, name->len, "`%s` without %s `%s`", name->text,
             head[0] == 'i' ? "an" : "a", head);
    return NULL;
  }
  as_block *b = &u->blocks[u->core][u->nblocks[u->core] - 1];
  if (!(kinds >> b->kind & 1)) {
    as_error(c->j, name->pos, name->len, "`%s` is inside %s `%s`", name->text,
             b->kind == AS_B_LOOP ? "a" : "an", heads[b->kind]);
    as_note(c->j, b->pos, "which starts here");
    b->bad = true;
    return NULL;
  }
  /* An error of its head is enough. */
  if (b->bad) return b;
  if (b->section != u->section) {
    as_error(c->j, name->pos, name->len, "`%s` is in section %s, but its `%s` is in section %s",
             name->text, u->section < AS_NSECTIONS ? as_section_name(c->j, u->section) : "none",
             heads[b->kind], as_section_name(c->j, b->section));
    as_note(c->j, b->pos, "the %s starts here", heads[b->kind]);
    b->bad = true;
  }
  return b;
}

/* The branch around a block leads to the next instruction. */
static void close_guard(as_job *j, const as_block *b, as_pos at) {
  struct as_unit *u = j->unit;
  isa_code *code = as_code(j, b->section);
  if (b->guard < 0) return;
  isa_insn *in = &code->insns[b->guard];
  if (in->op == ISA_OP_jmp)
    in->u.JUMP.to = code->n;
  else
    in->u.BRANCH.to = code->n;
  u->ended[b->section] = false;
  u->block_end[b->section] = (as_block_end){code->n, at};
}

/* ---- Loops -------------------------------------------------------------------------------- */

void as_loop(as_cur *c) {
  struct as_unit *u = c->j->unit;
  const as_tok *name = c->t++;
  as_block l = {.pos = name->pos, .span = name->len, .section = (uint8_t)u->section, .guard = -1};
  isa_int start;
  if (!parse_head(c, &l, &start)) {
    l.bad = true; /* its endloop still belongs to it */
  } else {
    bool guarded = start.is_reg || l.stop.is_reg;
    as_stmt st = open(name, guarded ? 2 : 1);
    st.part[0].op = ISA_OP_mov;
    st.part[0].u.MOV.rd = l.reg;
    st.part[0].u.MOV.a = start;
    /* With two numbers it is known that the loop runs. */
    if (guarded) st.part[1] = branch(l.step > 0 ? ISA_OP_bge : ISA_OP_ble, l.reg, l.stop, 0);
    l.bad = !as_clauses(c, &st) || !as_match_emit(c->j, &st);
    if (!l.bad) {
      l.top = as_code(c->j, u->section)->n;
      /* The branch that leads around the loop, whose target is its end. */
      if (guarded) l.guard = (int64_t)l.top - 1;
    }
  }
  push(c, &l);
}

void as_endloop(as_cur *c) {
  const as_tok *name = c->t;
  as_block *l = innermost(c, 1 << AS_B_LOOP);
  if (!l) return;
  c->j->unit->nblocks[c->j->unit->core]--;
  if (l->bad) return;
  as_stmt st = open(name, 2);
  st.part[0].op = ISA_OP_add;
  st.part[0].u.REGALU.rd = l->reg;
  st.part[0].u.REGALU.ra = l->reg;
  st.part[0].u.REGALU.b.v = l->step;
  st.part[1] = branch(l->step > 0 ? ISA_OP_blt : ISA_OP_bgt, l->reg, l->stop, l->top);
  if (as_clauses(c, &st) && as_match_emit(c->j, &st)) close_guard(c->j, l, name->pos);
}

/* ---- Conditions --------------------------------------------------------------------------- */

static const uint16_t puncts[] = {
    [ISA_COMPARE_eq] = AS_P_EQ, [ISA_COMPARE_ne] = AS_P_NE, [ISA_COMPARE_lt] = '<',
    [ISA_COMPARE_le] = AS_P_LE, [ISA_COMPARE_gt] = '>',     [ISA_COMPARE_ge] = AS_P_GE,
    [ISA_COMPARE_ltu] = 0,      [ISA_COMPARE_geu] = 0};
enum { NCONDS = sizeof puncts / sizeof puncts[0] };

static const char *cond_name(int i) { return isa_set_item(ISA_SET_COMPARE, (unsigned)i); }

int as_comparison(const as_cur *c) {
  for (int i = 0; i < NCONDS; i++)
    if (puncts[i] && as_at_punct(c, puncts[i])) return i;
  return -1;
}

/* The condition, with its commas when it is a word; its index, -1 after an error. */
static int parse_cond(as_cur *c) {
  bool word = as_take(c, ',');
  /* A word stands between commas, a sign without them. */
  int sign = word ? -1 : as_comparison(c);
  if (sign >= 0) {
    c->t++;
    return sign;
  }
  as_near w = as_near_open(as_at_name(c) ? c->t->text : "", as_at_name(c) ? c->t->len : 0);
  for (int i = 0; i < NCONDS; i++) {
    if (word && as_tok_is(c->t, cond_name(i))) {
      c->t++;
      return as_need(c, ',', "the condition") ? i : -1;
    }
    as_near_try(&w, cond_name(i));
  }
  as_error(c->j, c->t->pos, c->t->len, "expected %s, not %s%s",
           word ? "eq, ne, lt, le, gt, ge, ltu or geu" : "a comparison or `,`",
           as_tok_show(c->j, c->t), as_near_text(c->j, &w));
  return -1;
}

static bool parse_if(as_cur *c, as_stmt *st) {
  int reg = as_tok_reg(c->t);
  isa_int with;
  if (reg < 0) return as_expected(c->j, c->t, "the register that `if` compares");
  c->t++;
  int cond = parse_cond(c);
  if (cond < 0 || !as_int(c, &with)) return false;
  st->part[0] = branch(isa_branch_around((unsigned)cond), (unsigned)reg, with, 0);
  return as_clauses(c, st);
}

void as_if(as_cur *c) {
  struct as_unit *u = c->j->unit;
  const as_tok *name = c->t++;
  as_stmt st = open(name, 1);
  as_block b = {.kind = AS_B_IF,
                .pos = name->pos,
                .span = name->len,
                .section = (uint8_t)u->section,
                .guard = -1};
  b.bad = !parse_if(c, &st) || !as_match_emit(c->j, &st);
  /* The branch to what comes after it, or to its else. */
  if (!b.bad) b.guard = (int64_t)as_code(c->j, u->section)->n - 1;
  push(c, &b);
}

/* A body whose end is never reached needs no jump around the other one. */
void as_else(as_cur *c) {
  const as_tok *name = c->t;
  as_block *b = innermost(c, 1 << AS_B_IF);
  if (!b) return;
  b->kind = AS_B_ELSE;
  if (b->bad || !as_need_end(c, "`else`")) return;
  /* Its branch leads to the else, and the jump of the first body to the end. */
  as_block head = *b;
  b->guard = -1;
  if (c->j->unit->ended[b->section]) {
    as_list_line(c->j, name->pos);
  } else {
    as_stmt st = open(name, 1);
    st.part[0].op = ISA_OP_jmp;
    b->bad = !as_match_emit(c->j, &st);
    b->guard = (int64_t)as_code(c->j, b->section)->n - 1;
  }
  close_guard(c->j, &head, name->pos);
}

void as_endif(as_cur *c) {
  const as_tok *name = c->t;
  as_block *b = innermost(c, 1 << AS_B_IF | 1 << AS_B_ELSE);
  if (!b) return;
  c->j->unit->nblocks[c->j->unit->core]--;
  if (b->bad || !as_need_end(c, "`endif`")) return;
  close_guard(c->j, b, name->pos);
  as_list_line(c->j, name->pos);
}

void as_blocks_end(as_job *j) {
  static const char *const ends[] = {"endloop", "endif", "endif"};
  const struct as_unit *u = j->unit;
  for (unsigned n = 0; n < ISA_MAX_CORES * AS_MAX_BLOCKS; n++) {
    unsigned core = n / AS_MAX_BLOCKS, i = n % AS_MAX_BLOCKS;
    /* The blocks of a core that are still open. */
    if (i >= u->nblocks[core]) continue;
    const as_block *b = &u->blocks[core][i];
    as_error(j, b->pos, b->span, "`%s` without an `%s`", b->kind == AS_B_LOOP ? "loop" : "if",
             ends[b->kind]);
  }
}
