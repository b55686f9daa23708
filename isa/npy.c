/* The reader of .npy headers. */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

/* The fixed part: magic and version, then the header's length, two bytes of it in
 * version 1. */
unsigned isa_npy_begin(const uint8_t *file, size_t n, isa_error *e) {
  if (n < ISA_NPY_FIRST || memcmp(file, "\x93NUMPY", 6) != 0)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "it does not start with the .npy magic");
  if (file[6] < 1 || file[6] > 3 || file[7] != 0)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "version %d.%d is not 1.0, 2.0 or 3.0", file[6],
                    file[7]);
  return file[6] == 1 ? ISA_NPY_FIRST : ISA_NPY_HEAD;
}

int64_t isa_npy_length(const uint8_t head[ISA_NPY_HEAD], isa_error *e) {
  uint32_t n = head[8] | (uint32_t)head[9] << 8;
  /* Version 1 has 16 bits for the length, later ones 32. */
  if (head[6] > 1) n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
  if (n <= ISA_NPY_TEXT) return n;
  isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "a header of %lu bytes (at most %d)", (unsigned long)n,
           ISA_NPY_TEXT);
  return -1;
}

/* ---- The text, a Python dict --------------------------------------------------------------- */

typedef struct reader {
  const char *start, *at, *end;
  bool has_descr, has_order, has_shape;
  isa_npy *out;
  isa_error *e;
} reader;

/* Newlines may pad the header: writers align the data to 64 bytes. */
static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

static bool accept(reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool expect(reader *r, char c) {
  return accept(r, c) ||
         isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "header: '%c' was expected at byte %d", c,
                  (int)(r->at - r->start));
}

static bool accept_word(reader *r, const char *word) {
  size_t n = strlen(word);
  skip_space(r);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

/* Into the caller's room, with its final 0. */
static bool read_string(reader *r, char *out, size_t size) {
  skip_space(r);
  size_t n = 0;
  char quote = r->at < r->end ? *r->at : '\0';
  if (quote != '\'' && quote != '"')
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "header: a string was expected");
  for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
    unsigned char c = (unsigned char)*r->at;
    /* No key or type of NumPy has an escape: one is a damaged file, or a trick. */
    if (n + 1 >= size || c == '\\' || c < ' ')
      return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD,
                      "header: a string is too long or has an unexpected character");
    out[n++] = *r->at;
  }
  out[n] = '\0';
  if (r->at == r->end)
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "header: a string does not end");
  r->at++;
  return true;
}

/* "<f4" and so on. */
static bool read_type(reader *r) {
  const char *text = r->out->descr;
  size_t n = strlen(text);
  char *rest = NULL;
  /* Digits only: strtol would take a sign or spaces as well. */
  long bytes = n > 2 && text[2] >= '0' && text[2] <= '9' ? strtol(text + 2, &rest, 10) : 0;
  bool order = n > 2 && strchr("<>|=", text[0]) != NULL;
  /* b is one byte, and no float has one. */
  if (order && ((text[1] == 'b' && bytes > 1) || (text[1] == 'f' && bytes < 2))) bytes = 0;
  if (!order || strchr("biufV", text[1]) == NULL || rest == NULL || *rest != '\0' || bytes < 1 ||
      bytes > 8 || (bytes & (bytes - 1)) != 0)
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "type '%s' is not one that this reader knows",
                    text);
  r->out->big = text[0] == '>';
  r->out->kind = text[1];
  r->out->bytes = (unsigned)bytes;
  return true;
}

static bool read_descr(reader *r) {
  char name[64];
  isa_npy *o = r->out;
  r->has_descr = true;
  /* A plain type is a string; a list is NumPy's type with fields. */
  if (!accept(r, '[')) return read_string(r, o->descr, sizeof o->descr) && read_type(r);
  if (!expect(r, '(') || !read_string(r, name, sizeof name) || !expect(r, ',') ||
      !read_string(r, o->descr, sizeof o->descr))
    return false;
  /* A comma may come after the only field. */
  if (!accept(r, ')') || (accept(r, ','), !accept(r, ']')))
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD,
                    "structured types of several fields are not supported");
  if (!read_type(r)) return false;
  /* A field of one: how types that NumPy lacks are written, such as [('bfloat16', '<u2')]. */
  o->named = isa_dtype_find(name, strlen(name));
  if (o->named < 0 || isa_dtype_bytes((unsigned)o->named) != o->bytes || o->kind != 'u')
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD,
                    "field '%s' of type '%s' names no dtype of that size", name, o->descr);
  return true;
}

static bool read_dimension(reader *r) {
  int64_t v = 0;
  skip_space(r);
  const char *start = r->at;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    /* Before the product, which would overflow. */
    if (v > (INT64_MAX - 9) / 10)
      return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "a dimension of the shape is too large");
    v = v * 10 + (*r->at - '0');
  }
  if (r->at == start)
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "header: a dimension of the shape was expected");
  if (r->out->ndim == ISA_TENSOR_DIMS)
    return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "the shape has more than %d dimensions",
                    ISA_TENSOR_DIMS);
  r->out->shape[r->out->ndim++] = v;
  accept_word(r, "L"); /* written by Python 2 */
  return true;
}

/* (), (3,) and (3, 4): a comma may come after the last. */
static bool read_shape(reader *r) {
  r->has_shape = true;
  if (!expect(r, '(')) return false;
  while (!accept(r, ')')) {
    if (!read_dimension(r)) return false;
    /* Without a comma it was the last one. */
    if (!accept(r, ',')) return expect(r, ')');
  }
  return true;
}

static bool read_order(reader *r) {
  r->has_order = true;
  /* Columns first: the caller turns it around. */
  r->out->fortran = accept_word(r, "True");
  return r->out->fortran || accept_word(r, "False") ||
         isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "fortran_order is not True or False");
}

static bool read_entry(reader *r) {
  char key[32];
  if (!read_string(r, key, sizeof key) || !expect(r, ':')) return false;
  /* Each once: a second descr would be a trick to read it differently from NumPy. */
  if (strcmp(key, "descr") == 0 && !r->has_descr) return read_descr(r);
  if (strcmp(key, "fortran_order") == 0 && !r->has_order) return read_order(r);
  if (strcmp(key, "shape") == 0 && !r->has_shape) return read_shape(r);
  return isa_fail(r->e, ISA_FORMAT, ISA_NOFIELD, "header: key '%s' is unknown or given twice", key);
}

bool isa_npy_text(const char *text, size_t n, isa_npy *out, isa_error *e) {
  reader r = {.start = text, .at = text, .end = text + n, .out = out, .e = e};
  *out = (isa_npy){.named = -1};
  if (!expect(&r, '{')) return false;
  while (!accept(&r, '}')) {
    if (!read_entry(&r)) return false;
    if (accept(&r, ',')) continue;
    if (!expect(&r, '}')) return false;
    break;
  }
  skip_space(&r);
  if (r.at != r.end) return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "header: text after its end");
  if (!r.has_descr || !r.has_order || !r.has_shape)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD,
                    "header: 'descr', 'fortran_order' and 'shape' must all be there");
  return true;
}
