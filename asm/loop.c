/* Structured loops over a register:
 *
 *   loop rN, start, stop, step         mov rN, start
 *     body                             bge rN, stop, end      (unless both are numbers)
 *   endloop                       top: body
 *                                      add rN, rN, step
 *                                      blt rN, stop, top
 *                                 end:
 *
 * A negative step counts down to before stop: ble and bgt. The step is a number, 1 if left out. */
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

static bool parse_head(as_cur *c, as_loop_level *l, isa_int *start) {
  int reg = as_tok_reg(c->t);
  const as_tok *at = c->t;
  if (reg < 0) {
    as_error(c->j, at->pos, at->len, "expected the register of the loop, not %s",
             as_tok_show(c->j, at));
    return false;
  }
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
  if (step == 0) {
    as_error(c->j, at->pos, as_span_of(at, c->t), "the step of a loop is 0");
    return false;
  }
  l->step = (int32_t)step;
  if (!start->is_reg && !l->stop.is_reg &&
      (step > 0 ? start->v >= l->stop.v : start->v <= l->stop.v)) {
    as_error(c->j, l->pos, l->span, "the loop from %d to before %d by %d has no round", start->v,
             l->stop.v, l->step);
    return false;
  }
  return true;
}

void as_loop(as_cur *c) {
  struct as_unit *u = c->j->unit;
  const as_tok *name = c->t++;
  as_loop_level l = {
      .pos = name->pos, .span = name->len, .engine = (uint8_t)u->engine, .guard = -1};
  isa_int start;
  if (!parse_head(c, &l, &start)) {
    l.bad = true; /* its endloop still belongs to it */
  } else {
    bool guarded = start.is_reg || l.stop.is_reg;
    as_stmt st = open(name, guarded ? 2 : 1);
    st.part[0].op = ISA_OP_mov;
    st.part[0].u.MOV.rd = l.reg;
    st.part[0].u.MOV.a = start;
    st.part[1] = branch(l.step > 0 ? ISA_OP_bge : ISA_OP_ble, l.reg, l.stop, 0);
    l.bad = !as_clauses(c, &st) || !as_match_emit(c->j, &st);
    if (!l.bad) {
      l.top = as_program(c->j)->cores[0].code[u->engine].n;
      if (guarded) l.guard = (int64_t)l.top - 1;
    }
  }
  if (u->nloops == AS_MAX_LOOPS)
    as_fatal(c->j, name->pos, "loops are nested deeper than %d", AS_MAX_LOOPS);
  u->loops[u->nloops++] = l;
}

void as_endloop(as_cur *c) {
  struct as_unit *u = c->j->unit;
  const as_tok *name = c->t++;
  if (u->nloops == 0) {
    as_error(c->j, name->pos, name->len, "`endloop` without a `loop`");
    return;
  }
  as_loop_level l = u->loops[--u->nloops];
  if (l.bad) return;
  if (l.engine != u->engine) {
    as_error(c->j, name->pos, name->len, "`endloop` is in section %s, its `loop` in section %s",
             isa_engines[u->engine].name, isa_engines[l.engine].name);
    as_note(c->j, l.pos, "the loop starts here");
    return;
  }
  as_stmt st = open(name, 2);
  st.part[0].op = ISA_OP_add;
  st.part[0].u.REGALU.rd = l.reg;
  st.part[0].u.REGALU.ra = l.reg;
  st.part[0].u.REGALU.b.v = l.step;
  st.part[1] = branch(l.step > 0 ? ISA_OP_blt : ISA_OP_bgt, l.reg, l.stop, l.top);
  if (!as_clauses(c, &st) || !as_match_emit(c->j, &st)) return;
  isa_code *code = &as_program(c->j)->cores[0].code[u->engine];
  if (l.guard < 0) return;
  code->insns[l.guard].u.BRANCH.to = code->n;
  u->ended[u->engine] = false;
}

void as_loops_end(as_job *j) {
  for (unsigned i = 0; i < j->unit->nloops; i++)
    as_error(j, j->unit->loops[i].pos, j->unit->loops[i].span, "`loop` without an `endloop`");
}
