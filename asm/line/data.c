/* What a const tensor holds.
 *
 *   w tensor float32[4], const = [1, 2.5, times 2 0]      values; the count is one
 *                                                        token, or in parentheses
 *   w tensor bfloat16[2], const = {0x3f80, 0x4000}        bits of each element
 *   w tensor float32[4], const = incbin "w.bin", 64, 16   bytes of a file: offset, length
 *   w tensor float32[4], const = npy "w.npy"              type and shape must be the same
 *   w tensor float32[4], const                            or the lines after it, until it is full:
 *     float32 1, 2.5                                        values; uint32 gives their bits
 *     times 2 float32 0                                     a line n times
 *     incbin "w.bin", 0, 8                                  as above */
#include "stmt.h"

#include <string.h>

enum { MAX_CONST = 1 << 30 }; /* bytes */

static void store(uint8_t *to, uint64_t bits, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) to[i] = (uint8_t)(bits >> 8 * i);
}

/* ---- Elements ----------------------------------------------------------------------------- */

static bool int_bits(as_cur *c, const as_tok *at, unsigned dtype, int64_t i, uint64_t *out) {
  const isa_dtype_row *row = &isa_dtypes[dtype];
  bool sgn = row->cls == ISA_INT;
  unsigned bits = row->cls == ISA_BOOL ? 1 : row->bits;
  /* 2^63 would overflow: 64-bit types take what an int64_t holds. */
  int64_t hi = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - (sgn ? 1 : 0))) - 1;
  int64_t lo = sgn ? -hi - 1 : bits == 64 ? INT64_MIN : 0; /* uint64 by its bits */
  *out = (uint64_t)i;
  if (i >= lo && i <= hi) return true;
  return as_error(c->j, at->pos, as_span_of(at, c->t),
                  "%lld does not fit in %s, which holds %lld to %lld", (long long)i, row->name,
                  (long long)lo, (long long)hi);
}

/* A value as the bits of an element of a type. */
static bool element_bits(as_cur *c, unsigned dtype, uint64_t *out) {
  const as_tok *at = c->t;
  as_val v;
  if (!as_expr(c, &v)) return false;
  const isa_dtype_row *row = &isa_dtypes[dtype];
  bool whole = isa_dtype_is_int(dtype) || row->cls == ISA_BOOL;
  if (v.kind == AS_V_INT && whole) return int_bits(c, at, dtype, v.i, out);
  if ((v.kind == AS_V_INT || v.kind == AS_V_FLOAT) && row->cls == ISA_FLOAT) {
    double x = v.kind == AS_V_INT ? (double)v.i : v.f;
    *out = isa_from_f32(dtype, (float)x, 0);
    as_warn_infinite(c->j, at->pos, as_span_of(at, c->t), x, dtype);
    return true;
  }
  return as_error(c->j, at->pos, as_span_of(at, c->t), "an element of %s is %s", row->name,
                  whole                  ? "an integer"
                  : row->cls == ISA_PACK ? "written as its bits, in {...}"
                                         : "a number");
}

static bool raw_bits(as_cur *c, unsigned size, uint64_t *out) {
  int64_t raw, hi = size == 8 ? INT64_MAX : ((int64_t)1 << 8 * size) - 1;
  if (!as_int_in(c, "the bits of an element", size == 8 ? INT64_MIN : 0, hi, &raw)) return false;
  *out = (uint64_t)raw;
  return true;
}

static const isa_tensor *open_tensor(const as_cur *c) {
  return &c->j->program->tensors[c->j->unit->data.tensor - 1];
}

/* Room for n more elements. */
static bool room(as_cur *c, const as_tok *at, uint64_t n) {
  const as_open_data *d = &c->j->unit->data;
  const isa_tensor *t = open_tensor(c);
  unsigned size = isa_dtype_bytes(t->dtype);
  if (n <= (d->size - d->n) / size) return true;
  return as_error(c->j, at->pos, at->len, "more than the %llu elements of `%s`",
                  (unsigned long long)(d->size / size), t->name);
}

/* The count of `times N value`: one token, or an expression in parentheses, as the value follows
 * without a comma and may have a sign. */
static bool inline_count(as_cur *c, int64_t *out) {
  const as_tok *end = c->t;
  unsigned depth = 0;
  do {
    if (end->kind == AS_T_PUNCT && end->punct == '(') depth++;
    if (end->kind == AS_T_PUNCT && end->punct == ')') depth--;
    if (end->kind == AS_T_END) break;
    end++;
  } while (depth > 0);
  size_t n = (size_t)(end - c->t);
  as_tok *one = as_new(c->j, (n + 1) * sizeof *one);
  memcpy(one, c->t, n * sizeof *one);
  /* The tokens of the count alone, with an end of their own. */
  one[n] = *end;
  one[n].kind = AS_T_END;
  as_cur in = {c->j, one};
  c->t = end;
  return as_int_in(&in, "the count of times", 0, MAX_CONST, out) && as_need_end(&in, "the count");
}

/* `value` or `times N value`. */
static bool one_element(as_cur *c, unsigned dtype, bool bits) {
  as_open_data *d = &c->j->unit->data;
  unsigned size = isa_dtype_bytes(dtype);
  const as_tok *at = c->t;
  int64_t times = 1;
  uint64_t v = 0;
  if (as_take_name(c, "times") && !inline_count(c, &times)) return false;
  if (!room(c, at, (uint64_t)times)) return false;
  if (!(bits ? raw_bits(c, size, &v) : element_bits(c, dtype, &v))) return false;
  for (; times > 0; times--, d->n += size) store(d->bytes + d->n, v, size);
  return true;
}

/* `{bits, ...}` or `[values, ...]` */
static bool inline_list(as_cur *c) {
  bool bits = as_at_punct(c, '{'), first = true;
  unsigned close = bits ? '}' : ']';
  for (c->t++; !as_at_punct(c, close); first = false) {
    if (!first && !as_need(c, ',', "an element")) return false;
    if (!one_element(c, open_tensor(c)->dtype, bits)) return false;
  }
  c->t++;
  return true;
}

/* ---- Files -------------------------------------------------------------------------------- */

static const uint8_t *read_file(as_cur *c, const as_tok *word, size_t *n, const char **found) {
  const as_tok *at = c->t;
  if (at->kind != AS_T_STR) {
    as_expected(c->j, at, "a file name in quotes after `%s`", word->text);
    return NULL;
  }
  c->t++;
  return (const uint8_t *)as_src_read(c->j, at->pos, at->len, at->text, n, found);
}

/* `incbin "file"[, offset[, length]]` after the word. */
static bool add_bytes(as_cur *c, const as_tok *word) {
  as_open_data *d = &c->j->unit->data;
  const isa_tensor *t = open_tensor(c);
  const as_tok *at = c->t;
  const char *found;
  size_t n;
  int64_t offset = 0, length;
  const uint8_t *file = read_file(c, word, &n, &found);
  if (!file) return false;
  bool part = as_at_punct(c, ',');
  if (as_take(c, ',') && !as_int_in(c, "the offset", 0, (int64_t)n, &offset)) return false;
  length = (int64_t)n - offset;
  if (as_take(c, ',') && !as_int_in(c, "the length", 0, length, &length)) return false;
  /* A file that is given alone must fill the tensor. */
  bool whole = d->n == 0 && !part && n != d->size;
  if (whole || (uint64_t)length > d->size - d->n)
    return as_error(c->j, at->pos, at->len, "`%s` has %llu bytes%s, but `%s` has %llu%s", found,
                    (unsigned long long)length, part ? " in this part" : "", t->name,
                    (unsigned long long)(d->size - d->n), d->n ? " left" : "");
  if (length) memcpy(d->bytes + d->n, file + offset, (size_t)length);
  d->n += (uint64_t)length;
  return true;
}

static bool add_npy(as_cur *c, const as_tok *word) {
  as_open_data *d = &c->j->unit->data;
  const as_tok *at = c->t;
  const char *found;
  size_t n;
  const uint8_t *elements, *file = read_file(c, word, &n, &found);
  if (!file || !as_npy(c->j, at, found, file, n, open_tensor(c), &elements)) return false;
  if (d->n) {
    as_error(c->j, at->pos, at->len, "a .npy file fills a whole tensor; `%s` has data already",
             open_tensor(c)->name);
    return false;
  }
  memcpy(d->bytes, elements, (size_t)d->size);
  d->n = d->size;
  return true;
}

/* ---- The tensor --------------------------------------------------------------------------- */

static bool inline_data(as_cur *c) {
  const as_tok *word = c->t;
  if (as_take_name(c, "incbin")) return add_bytes(c, word);
  if (as_take_name(c, "npy")) return add_npy(c, word);
  if (as_at_punct(c, '{') || as_at_punct(c, '[')) return inline_list(c);
  return as_expected(c->j, c->t, "`[values]`, `{bits}`, `incbin` or `npy`");
}

void as_data_close(as_job *j) {
  as_open_data *d = &j->unit->data;
  if (d->name && !d->bad && d->n != d->size) {
    const isa_tensor *t = &j->program->tensors[d->tensor - 1];
    unsigned size = isa_dtype_bytes(t->dtype);
    as_error(j, d->name->pos, d->name->len, "`%s` has %llu elements, but %llu are given", t->name,
             (unsigned long long)(d->size / size), (unsigned long long)(d->n / size));
    if (d->n == 0)
      as_note(j, (as_pos){0},
              "as in `= [1.5, 2]`, `= {0x3fc00000}`, `= incbin \"f\"`, `= npy \"f\"`, "
              "or in the lines after it");
  }
  *d = (as_open_data){0};
}

void as_const(as_cur *c, isa_tensor *t, const as_tok *name) {
  as_open_data *d = &c->j->unit->data;
  bool here = as_take(c, '=');
  as_tok *copy = as_new(c->j, sizeof *copy);
  *copy = *name;
  /* bad until all is there, so that errors are not followed by others. */
  *d = (as_open_data){.name = copy, .bad = true, .size = t->bytes};
  if (!here && !as_need_end(c, "a const tensor")) return;
  if (t->bytes > MAX_CONST) {
    as_error(c->j, name->pos, name->len, "a const tensor of %llu bytes; the limit is %d",
             (unsigned long long)t->bytes, MAX_CONST);
    return;
  }
  isa_program *p = as_program(c->j);
  /* The name is known only now: the tensor cannot use itself. */
  as_sym *s = as_sym_define(c->j, AS_S_TENSOR, name);
  if (!s) return;
  d->bytes = isa_arena_alloc(&p->arena, (size_t)t->bytes);
  d->tensor = s->index = isa_program_tensor(p, t);
  if (!d->bytes || !s->index) as_nomem(c->j);
  p->tensors[s->index - 1].data = d->bytes;
  d->bad = here && (!inline_data(c) || !as_need_end(c, "the data"));
  /* Without `=` the lines after it give the data. */
  if (here) as_data_close(c->j);
}

/* ---- Lines of data ------------------------------------------------------------------------ */

/* The type that a line says: the tensor's own, or the unsigned one of its size for bits. */
static bool line_type(as_cur *c, bool *bits) {
  const isa_tensor *t = open_tensor(c);
  const as_tok *at = c->t;
  int dtype = as_at_name(c) ? isa_dtype_find(at->text, at->len) : -1;
  if (dtype < 0) {
    as_expected(c->j, at, "a data type");
    return false;
  }
  c->t++;
  /* The bits, when the type is not the tensor's own. */
  *bits = dtype != t->dtype;
  if (!*bits ||
      (isa_dtypes[dtype].cls == ISA_UINT && isa_dtypes[dtype].bytes == isa_dtypes[t->dtype].bytes))
    return true;
  return as_error(c->j, at->pos, at->len, "the elements of `%s` are %s, not %s", t->name,
                  isa_dtypes[t->dtype].name, at->text);
}

static bool values(as_cur *c) {
  bool bits;
  if (!line_type(c, &bits)) return false;
  do
    if (!one_element(c, open_tensor(c)->dtype, bits)) return false;
  while (as_take(c, ','));
  return true;
}

/* `times N TYPE ...`: what the line gives is copied N - 1 times. */
static bool repeated(as_cur *c) {
  as_open_data *d = &c->j->unit->data;
  const as_tok *at = c->t;
  int64_t times;
  uint64_t from = d->n;
  if (!as_int_in(c, "the count of times", 0, MAX_CONST, &times) || !values(c)) return false;
  uint64_t n = d->n - from;
  /* What the line gave is taken back. */
  if (times == 0) {
    memset(d->bytes + from, 0, (size_t)n);
    d->n = from;
    return true;
  }
  for (; times > 1; times--, d->n += n) {
    if (!room(c, at, n / isa_dtype_bytes(open_tensor(c)->dtype))) return false;
    memcpy(d->bytes + d->n, d->bytes + from, (size_t)n);
  }
  return true;
}

void as_data_line(as_cur *c) {
  as_open_data *d = &c->j->unit->data;
  const as_tok *word = c->t;
  if (!d->name) {
    as_error(c->j, word->pos, word->len, "`%s` gives data, but there is no const tensor before it",
             word->text);
    as_note(c->j, (as_pos){0}, "as in `w tensor float32[4], const`, then `float32 1, 2, 3, 4`");
    return;
  }
  if (d->bad) return;
  bool ok = as_take_name(c, "times")    ? repeated(c)
            : as_take_name(c, "incbin") ? add_bytes(c, word)
            : as_take_name(c, "npy")    ? add_npy(c, word)
                                        : values(c);
  d->bad = !ok || !as_need_end(c, "the data");
  if (!d->bad) as_list_line(c->j, word->pos);
}
