/* Operands: a named tensor or tile with slices and views, or the raw form, to a pattern of the
 * program. */
#include "stmt.h"

#include <string.h>

/* A look ahead: a number, a register and an operand begin differently. */
bool as_at_operand(const as_cur *c) {
  if (!as_at_name(c)) return false;
  /* The raw form: a type and a memory. */
  if (c->t[1].kind == AS_T_PUNCT && c->t[1].punct == '@' &&
      isa_dtype_find(c->t->text, strlen(c->t->text)) >= 0)
    return true;
  as_sym *s = as_sym_find(c->j, c->t->text, 0);
  return s && (s->kind == AS_S_TENSOR || s->kind == AS_S_TILE);
}

bool as_operand_dyn(as_cur *c, as_operand *o, isa_dyn d, const as_tok *at) {
  if (o->ndyn == ISA_MAX_DYN)
    return as_error(c->j, at->pos, as_span_of(at, c->t),
                    "an operand has at most %d dynamic offsets", ISA_MAX_DYN);
  o->ap.dyn[o->ndyn++] = d;
  return true;
}

/* The record has one register for a size. */
bool as_operand_size(as_cur *c, as_operand *o, unsigned dim, unsigned reg, const as_tok *at) {
  if (o->ap.size_dim)
    return as_error(c->j, at->pos, as_span_of(at, c->t),
                    "an operand has at most one size in a register");
  o->ap.size_dim = (uint8_t)dim;
  o->ap.size_reg = (uint8_t)reg;
  return true;
}

/* Bounds are those of the field, and the message names them. */
bool as_int_in(as_cur *c, const char *what, int64_t lo, int64_t hi, int64_t *out) {
  const as_tok *at = c->t;
  if (!as_expr_int(c, out)) return false;
  if (*out >= lo && *out <= hi) return true;
  as_error(c->j, at->pos, as_span_of(at, c->t), "%s is %lld; it must be from %lld to %lld", what,
           (long long)*out, (long long)lo, (long long)hi);
  return false;
}

bool as_size(as_cur *c, const char *what, int64_t hi, int *reg, int64_t *n) {
  *reg = as_tok_reg(c->t);
  if (*reg < 0) return as_int_in(c, what, 1, hi, n);
  const as_tok *at = c->t++;
  /* r4 alone would say nothing of the room it takes. */
  if (!as_take(c, AS_P_LE))
    return as_error(c->j, at->pos, at->len, "a size in a register needs its bound, as in `%s<=128`",
                    at->text);
  return as_int_in(c, what, 1, hi, n);
}

/* Pairs as NKI writes patterns: [[step, num], ...]. */
bool as_steps(as_cur *c, int64_t (*out)[2], unsigned max, unsigned *n) {
  *n = 0;
  if (!as_need(c, '[', "the list of [step, num] pairs")) return false;
  do {
    if (*n == max)
      return as_error(c->j, c->t->pos, c->t->len, "the list has more than %u pairs", max);
    if (!as_need(c, '[', "the start of a list of [step, num] pairs")) return false;
    int64_t *p = out[(*n)++];
    if (!as_int_in(c, "a step", INT32_MIN, INT32_MAX, &p[0])) return false;
    if (!as_need(c, ',', "the step")) return false;
    if (!as_int_in(c, "a num", 1, UINT32_MAX, &p[1])) return false;
    if (!as_need(c, ']', "the num")) return false;
  } while (as_take(c, ','));
  return as_need(c, ']', "the last [step, num] pair");
}

static void from_tensor(as_operand *o, uint32_t index, const isa_tensor *t) {
  o->ap = (isa_ap){.dtype = t->dtype, .space = ISA_HBM, .base = index};
  o->ndim = t->ndim;
  /* The register, or -1. */
  o->rows = t->rows - 1;
  /* Row major: the last dimension has step 1. */
  int64_t step = 1;
  for (unsigned d = t->ndim; d-- > 0;) {
    o->dim[d] = (isa_dim){step, (uint32_t)t->shape[d]};
    step *= t->shape[d];
  }
}

static void from_tile(as_operand *o, uint32_t index, const isa_tile *t) {
  o->ap = (isa_ap){.dtype = t->dtype,
                   .space = t->space,
                   /* A tile's partitions are not among its dimensions. */
                   .base = index,
                   .part = t->part,
                   .nparts = (uint16_t)t->shape[0],
                   .offset = t->offset};
  o->ndim = t->ndim - 1u;
  int64_t step = 1;
  for (unsigned d = t->ndim; d-- > 1;) {
    o->dim[d - 1] = (isa_dim){step, t->shape[d]};
    step *= t->shape[d];
  }
}

/* Merges dimensions that are one run, so that a tensor of many dimensions fits a pattern. */
static void fold(as_operand *o) {
  /* Only while there are too many. */
  for (unsigned d = 0; d + 1 < o->ndim && o->ndim > ISA_MAX_DIMS;) {
    isa_dim *a = &o->dim[d], *b = a + 1;
    /* A size in a register is of one dimension: of two made one it would be a product. */
    bool sized = o->ap.size_dim == d + 2 || o->ap.size_dim == d + 3;
    uint64_t num = (uint64_t)a->num * b->num;
    /* Rows follow one another if the outer step is the inner one times its number. */
    if (sized || num > UINT32_MAX || (a->num != 1 && a->step != b->step * b->num)) {
      d++;
      continue;
    }
    *a = (isa_dim){b->step, (uint32_t)num};
    memmove(b, b + 1, (o->ndim - d - 2) * sizeof *b);
    /* The dimensions after it have moved. */
    if (o->ap.size_dim > d + 2) o->ap.size_dim--;
    o->ndim--;
  }
}

static bool finish(as_cur *c, as_operand *o, uint32_t *index) {
  fold(o);
  if (o->ndim > ISA_MAX_DIMS) {
    as_error(c->j, o->at->pos, as_span_of(o->at, c->t),
             "the operand has %u dimensions that cannot be merged; a pattern has at most %d",
             o->ndim, ISA_MAX_DIMS);
    return false;
  }
  memcpy(o->ap.dim, o->dim, o->ndim * sizeof *o->dim);
  o->ap.ndim = (uint8_t)o->ndim;
  /* A tensor may have up to eight dimensions until here. */
  *index = isa_program_ap(as_program(c->j), c->j->unit->core, &o->ap);
  if (*index == 0) as_nomem(c->j);
  return true;
}

static bool named(as_cur *c, as_operand *o, uint32_t *index) {
  as_sym *s = as_sym_need(c->j, c->t, AS_M_DATA);
  if (!s) return false;
  c->t++;
  const isa_program *p = as_program(c->j);
  if (s->kind == AS_S_TENSOR)
    from_tensor(o, s->index, &p->tensors[s->index - 1]);
  else
    from_tile(o, s->index, &p->tiles[s->index - 1]);
  bool whole = !as_at_punct(c, '[') && !as_at_punct(c, '.');
  uint32_t *known = &s->u.ap[c->j->unit->core];
  /* Most operands are whole tiles, named again and again.
   * The first time it is built, then its number is known. */
  if (whole && *known) {
    *index = *known;
    return true;
  }
  /* .ap replaces the dimensions, so the register's size goes with them. */
  bool steps = as_at_punct(c, '.') && as_tok_is(c->t + 1, "ap");
  if (as_at_punct(c, '[')) {
    if (!as_operand_slice(c, o)) return false;
  } else if (o->rows >= 0 && !steps) {
    /* The host gives the first dimension: its register is then the operand's size, too. */
    as_operand_size(c, o, 2, (unsigned)o->rows, o->at);
  }
  /* A single element is a dimension of one: patterns have at least one. */
  if (o->ndim == 0) o->dim[o->ndim++] = (isa_dim){1, 1};
  if (!as_operand_views(c, o) || !finish(c, o, index)) return false;
  if (whole) *known = *index;
  return true;
}

bool as_operand_parse(as_cur *c, uint32_t *index) {
  as_operand o;
  memset(&o, 0, sizeof o); /* padding too: patterns are compared as they are */
  o.at = c->t;
  o.rows = -1;
  if (!as_at_name(c)) return as_expected(c->j, c->t, "a tile or tensor");
  if (as_tok_reg(c->t) >= 0)
    return as_error(c->j, c->t->pos, c->t->len, "expected a tile or tensor, not the register `%s`",
                    c->t->text);
  /* TYPE@ begins the raw form. */
  if (c->t[1].kind != AS_T_PUNCT || c->t[1].punct != '@') return named(c, &o, index);
  return as_operand_raw(c, &o) && as_operand_views(c, &o) && finish(c, &o, index);
}
