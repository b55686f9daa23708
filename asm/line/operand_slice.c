/* `[...]` after the name of a tensor or tile: one item per dimension, missing ones whole.
 *
 *   :                               the whole dimension
 *   expr  rN  rN+expr  (ELEMENT)    one element; the dimension is dropped
 *   a:b  a:b:s                      from a to before b
 *   a:+n  a:+n:s                    n elements from a
 *   rN:+n                           from a register
 *   a:+rN<=n                        as many as a register says, at most n */
#include "stmt.h"

typedef struct item {
  const as_tok *at;
  bool ranged, has_stop, has_len;
  isa_dyn dyn; /* stride is filled in later */
  int64_t start, stop, len, step;
  int len_reg; /* -1: none */
} item;

typedef struct dim { /* of the tensor or tile, before the slice */
  unsigned index;    /* as the source counts: 0 is a tile's partitions */
  bool partition;
  int64_t n, step;
  int rows; /* the register that gives its size, of which n is the most; -1: n is its size */
} dim;

static bool start_dynamic(as_cur *c, item *it) {
  int reg = as_tok_reg(c->t);
  if (reg >= 0) {
    c->t++;
    it->dyn = (isa_dyn){.kind = ISA_DYN_reg, .reg = (uint8_t)reg};
  } else {
    c->t++;
    it->dyn.kind = ISA_DYN_elem;
    if (!as_operand_parse(c, &it->dyn.ap) || !as_need(c, ')', "the element")) return false;
  }
  /* A sign after the register: `r0-5` is one start, not a difference of two. */
  bool minus = as_at_punct(c, '-');
  if (!minus && !as_at_punct(c, '+')) return true;
  c->t++;
  if (!as_int_in(c, "the offset", 0, UINT32_MAX, &it->start)) return false;
  if (minus) it->start = -it->start;
  return true;
}

static bool parse_start(as_cur *c, item *it) {
  /* `(` may begin an expression as well as an element. */
  as_cur in = {c->j, c->t + 1};
  bool elem = as_at_punct(c, '(') && as_at_operand(&in);
  if (elem || as_tok_reg(c->t) >= 0) return start_dynamic(c, it);
  return as_int_in(c, "the start", 0, UINT32_MAX, &it->start);
}

static bool parse_item(as_cur *c, item *it) {
  *it = (item){.at = c->t, .step = 1, .len_reg = -1};
  if (!as_at_punct(c, ':') && !parse_start(c, it)) return false;
  if (!as_take(c, ':')) return true;
  it->ranged = true;
  if (as_take(c, '+')) {
    it->has_len = true;
    if (!as_size(c, "the length", UINT32_MAX, &it->len_reg, &it->len)) return false;
  } else if (as_tok_reg(c->t) >= 0) {
    as_error(c->j, c->t->pos, c->t->len,
             "a slice does not end at a register; give a length, as in `:+%s<=128`", c->t->text);
    return false;
  } else if (!as_at_punct(c, ':') && !as_at_punct(c, ',') && !as_at_punct(c, ']')) {
    it->has_stop = true;
    if (!as_int_in(c, "the end", 0, UINT32_MAX, &it->stop)) return false;
  }
  return !as_take(c, ':') || as_int_in(c, "the step", 1, INT32_MAX, &it->step);
}

static bool bad(as_cur *c, const item *it, const dim *d, const char *what, int64_t v) {
  return as_error(c->j, it->at->pos, as_span_of(it->at, c->t),
                  "%s %lld does not fit dimension %u, which has %lld", what, (long long)v, d->index,
                  (long long)d->n);
}

/* How many elements a range takes, 0 after an error. */
static int64_t count(as_cur *c, const item *it, const dim *d) {
  /* A dynamic start is checked when it runs. */
  int64_t start = it->dyn.kind ? 0 : it->start;
  if (it->has_len) {
    /* The last element is in the dimension. */
    int64_t last = (it->len - 1) * it->step;
    if (start + last < d->n) return it->len;
    bad(c, it, d, it->dyn.kind ? "the length" : "the end", start + last + 1);
    return 0;
  }
  if (it->dyn.kind) {
    as_error(c->j, it->at->pos, as_span_of(it->at, c->t),
             "a slice from a dynamic start needs a length, as in `[r0:+128]`");
    return 0;
  }
  /* What is left after the start is not known now, and an access pattern has one size. */
  if (d->rows >= 0 && !it->has_stop && (start || it->step != 1)) {
    as_error(c->j, it->at->pos, as_span_of(it->at, c->t),
             "the size of dimension %u is r%d, known when the program runs: give the slice a "
             "length, as in `0:+r%d<=%lld`",
             d->index, d->rows, d->rows, (long long)d->n);
    return 0;
  }
  int64_t stop = it->has_stop ? it->stop : d->n;
  if (stop > d->n) {
    bad(c, it, d, "the end", stop);
    return 0;
  }
  if (start >= stop) {
    as_error(c->j, it->at->pos, as_span_of(it->at, c->t), "the slice %lld:%lld is empty",
             (long long)start, (long long)stop);
    return 0;
  }
  return (stop - start + it->step - 1) / it->step;
}

static bool slice_partitions(as_cur *c, as_operand *o, const item *it, const dim *d) {
  if (it->dyn.kind) {
    as_error(c->j, it->at->pos, as_span_of(it->at, c->t),
             "the start partition of a tile is static; a register cannot give it");
    return false;
  }
  if (it->step != 1) {
    as_error(c->j, it->at->pos, as_span_of(it->at, c->t),
             "the step over partitions is %lld; it is always 1", (long long)it->step);
    return false;
  }
  /* An index is one partition. */
  if (!it->ranged && it->start >= d->n) return bad(c, it, d, "the index", it->start);
  int64_t n = it->ranged ? count(c, it, d) : 1;
  if (n == 0) return false;
  o->ap.part = (uint16_t)(o->ap.part + it->start);
  o->ap.nparts = (uint16_t)n;
  return it->len_reg < 0 || as_operand_size(c, o, 1, (unsigned)it->len_reg, it->at);
}

/* Adds what is left of the dimension to o, whose dims before it are done. */
static bool slice_dim(as_cur *c, as_operand *o, item *it, const dim *d) {
  if (d->partition) return slice_partitions(c, o, it, d);
  if (it->dyn.kind) {
    /* The register may be anything; an offset as large as the dimension cannot be meant. */
    if (it->start > d->n || it->start < -d->n) return bad(c, it, d, "the offset", it->start);
    it->dyn.stride = d->step;
    if (!as_operand_dyn(c, o, it->dyn, it->at)) return false;
  } else if (!it->ranged && it->start >= d->n) {
    return bad(c, it, d, "the index", it->start);
  }
  o->ap.offset += it->start * d->step * (int64_t)isa_dtype_bytes(o->ap.dtype);
  if (!it->ranged) return true;
  int64_t n = count(c, it, d);
  if (n == 0) return false;
  /* One element has no stride of its own; the product of more stays within the tensor. */
  o->dim[o->ndim++] = (isa_dim){n == 1 ? d->step : d->step * it->step, (uint32_t)n};
  /* All of a dimension whose size is in a register: that register is the size here too. */
  if (d->rows >= 0 && !it->has_stop && !it->has_len) it->len_reg = d->rows;
  return it->len_reg < 0 || as_operand_size(c, o, 1 + o->ndim, (unsigned)it->len_reg, it->at);
}

bool as_operand_slice(as_cur *c, as_operand *o) {
  dim dims[ISA_TENSOR_DIMS + 1];
  unsigned n = 0;
  const as_tok *open = c->t++;
  /* A tile's partitions are its first dimension. */
  if (as_operand_is_tile(o)) dims[n++] = (dim){0, true, o->ap.nparts, 0, -1};
  for (unsigned d = 0; d < o->ndim; d++, n++)
    /* Only the first dimension of a tensor has a register. */
    dims[n] = (dim){n, false, o->dim[d].num, o->dim[d].step, n ? -1 : o->rows};
  o->ndim = 0;
  unsigned i = 0;
  do {
    item it;
    if (i == n)
      return as_error(c->j, c->t->pos, c->t->len,
                      "the slice has more items than `%s` has dimensions, %u", o->at->text, n);
    if (!parse_item(c, &it) || !slice_dim(c, o, &it, &dims[i++])) return false;
  } while (as_take(c, ','));
  if (!as_at_punct(c, ']')) {
    as_expected(c->j, c->t, "`,` or `]` in the slice");
    as_note(c->j, open->pos, "the slice starts here");
    return false;
  }
  c->t++;
  /* Dimensions without an item are whole. */
  for (; i < n; i++)
    if (!dims[i].partition) o->dim[o->ndim++] = (isa_dim){dims[i].step, (uint32_t)dims[i].n};
  return true;
}
