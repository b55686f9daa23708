/* Operands as the disassembler prints them (isa/print.c has the grammar):
 *   TYPE@sbuf[PART,COUNT,OFFSET,TILE][STEPS][NUMS]   TYPE@hbm[TENSOR,OFFSET][STEPS][NUMS] */
#include "stmt.h"

#include <string.h>

/* A literal with its sign: an expression would take the dynamic parts that follow.
 * 256+r3*4: an expression would read the register as a part of a sum. */
static bool literal(as_cur *c, const char *what, int64_t *out) {
  bool minus = as_take(c, '-');
  if (c->t->kind != AS_T_INT) return as_expected(c->j, c->t, "%s as a number", what);
  uint64_t v = (uint64_t)c->t++->v.ival;
  /* Through unsigned: the least integer has no positive counterpart. */
  *out = (int64_t)(minus ? 0 - v : v);
  return true;
}

/* Up to two dynamic parts, each with its stride. */
static bool raw_offset(as_cur *c, as_operand *o) {
  if (!literal(c, "the offset", &o->ap.offset)) return false;
  while (as_take(c, '+')) {
    isa_dyn d = {0};
    const as_tok *at = c->t;
    int reg = as_tok_reg(at);
    if (reg >= 0) {
      d.kind = ISA_DYN_reg;
      d.reg = (uint8_t)reg;
      c->t++;
    } else {
      d.kind = ISA_DYN_elem;
      if (!as_need(c, '(', "`+` in a raw operand, before its element") ||
          !as_operand_parse(c, &d.ap) || !as_need(c, ')', "the element"))
        return false;
    }
    if (!as_need(c, '*', "a dynamic offset") || !literal(c, "the stride", &d.stride) ||
        !as_operand_dyn(c, o, d, at))
      return false;
  }
  return true;
}

/* The name of the operand's tile or tensor, into base.
 * Raw operands name their tile, whose bounds they must keep. */
static bool raw_base(as_cur *c, as_operand *o, unsigned kind) {
  if (!as_at_name(c)) return as_expected(c->j, c->t, "the name of %s", as_sym_kind_name(kind));
  const as_sym *s = as_sym_need(c->j, c->t, 1u << kind);
  if (!s) return false;
  c->t++;
  o->ap.base = s->index;
  return true;
}

static bool raw_place(as_cur *c, as_operand *o) {
  /* HBM has no partitions, so the place is a tensor and an offset. */
  if (o->ap.space == ISA_HBM)
    return raw_base(c, o, AS_S_TENSOR) && as_need(c, ',', "the tensor") && raw_offset(c, o);
  int64_t part, n;
  int reg;
  if (!as_int_in(c, "the start partition", 0, ISA_PMAX - 1, &part) ||
      !as_need(c, ',', "the start partition"))
    return false;
  const as_tok *at = c->t;
  if (!as_size(c, "the number of partitions", ISA_PMAX, &reg, &n) ||
      (reg >= 0 && !as_operand_size(c, o, 1, (unsigned)reg, at)) ||
      !as_need(c, ',', "the number of partitions") || !raw_offset(c, o))
    return false;
  o->ap.part = (uint16_t)part;
  o->ap.nparts = (uint16_t)n;
  return !as_take(c, ',') || raw_base(c, o, AS_S_TILE);
}

/* Goes on in a bracketed list that has n items so far: true when an item follows.
 * Commas between items, none after the last. */
static bool list_next(as_cur *c, unsigned n, const char *what, bool *ok) {
  if (as_take(c, ']')) return false;
  *ok = n == 0 || as_need(c, ',', what);
  if (*ok && n == ISA_MAX_DIMS) {
    as_error(c->j, c->t->pos, c->t->len, "a pattern has at most %d dimensions", ISA_MAX_DIMS);
    *ok = false;
  }
  return *ok;
}

/* Innermost first, as a descriptor has them. */
static bool raw_steps(as_cur *c, int64_t *step, unsigned *n) {
  /* Both lists may be empty. */
  bool ok = as_need(c, '[', "the place of a raw operand");
  for (*n = 0; ok && list_next(c, *n, "a step", &ok); ++*n)
    if (!as_int_in(c, "a step", INT64_MIN, INT64_MAX, &step[*n])) return false;
  return ok;
}

/* *sized is the num that a register gives, -1 when none exists. */
static bool raw_nums(as_cur *c, as_operand *o, int64_t *num, unsigned *n, int *sized) {
  bool ok = as_need(c, '[', "the steps of a raw operand");
  *sized = -1;
  for (*n = 0; ok && list_next(c, *n, "a num", &ok); ++*n) {
    int reg;
    const as_tok *at = c->t;
    if (!as_size(c, "a num", UINT32_MAX, &reg, &num[*n])) return false;
    if (reg < 0) continue;
    *sized = (int)*n;
    /* Any dimension will do: raw_dims puts the right one when it has counted them. */
    if (!as_operand_size(c, o, 2, (unsigned)reg, at)) return false;
  }
  return ok;
}

/* Both lists are innermost first. */
static bool raw_dims(as_cur *c, as_operand *o) {
  int64_t step[ISA_MAX_DIMS], num[ISA_MAX_DIMS];
  unsigned nsteps, nnums;
  int sized;
  const as_tok *at = c->t;
  if (!raw_steps(c, step, &nsteps) || !raw_nums(c, o, num, &nnums, &sized)) return false;
  if (nsteps != nnums)
    return as_error(c->j, at->pos, as_span_of(at, c->t),
                    "%u steps and %u nums; a raw operand needs as many steps as nums", nsteps,
                    nnums);
  o->ndim = nnums;
  /* The source has the innermost first. */
  for (unsigned d = 0; d < nnums; d++) o->dim[nnums - 1 - d] = (isa_dim){step[d], (uint32_t)num[d]};
  /* Counted from the outermost, as in the pattern. */
  if (sized >= 0) o->ap.size_dim = (uint8_t)(2 + (int)nnums - 1 - sized);
  return true;
}

bool as_operand_raw(as_cur *c, as_operand *o) {
  const as_tok *t = c->t;
  int dtype = isa_dtype_find(t->text, strlen(t->text));
  if (dtype < 0) {
    as_near w = as_near_open(t->text, strlen(t->text));
    for (unsigned d = 1; d < ISA_NDTYPES; d++) as_near_try(&w, isa_dtypes[d].name);
    return as_error(c->j, t->pos, t->len, "unknown data type `%s`%s", t->text,
                    as_near_text(c->j, &w));
  }
  c->t += 2;
  o->ap.dtype = (uint8_t)dtype;
  for (unsigned s = ISA_SBUF; s <= ISA_HBM; s++)
    if (as_tok_is(c->t, isa_space_name(s))) o->ap.space = (uint8_t)s;
  if (!o->ap.space) return as_expected(c->j, c->t, "sbuf, psum or hbm after `@`");
  c->t++;
  return as_need(c, '[', "the memory of a raw operand") && raw_place(c, o) &&
         as_need(c, ']', "the place of a raw operand") && raw_dims(c, o);
}
