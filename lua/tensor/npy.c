/* NumPy's .npy files, versions 1 to 3 (numpy.lib.format), read as hostile input.
 *
 * dtypes that NumPy lacks are written as a structured type of one unsigned field with the dtype's
 * name, [('bfloat16', '<u2')], which NumPy opens and which reads back here. */
#include <stdlib.h>
#include <string.h>

#include "file.h"

enum { MAGIC = 6, MAX_HEADER = 1 << 16 };
static const char magic[] = "\x93NUMPY";

typedef struct npy_reader {
  lt_source *s;
  const char *start, *at, *end; /* of the header text */
  bool has_descr, has_order, has_shape;
  lt_stored e;
} npy_reader;

/* ---- The header, a Python dict ------------------------------------------------------------- */

static void skip_space(npy_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

static bool accept(npy_reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static void expect(npy_reader *r, char c) {
  if (!accept(r, c))
    lt_format_error(r->s, "header: '%c' was expected at byte %d", c, (int)(r->at - r->start));
}

static void read_string(npy_reader *r, char *out, size_t size) {
  skip_space(r);
  size_t n = 0;
  char quote = r->at < r->end ? *r->at : '\0';
  if (quote != '\'' && quote != '"') lt_format_error(r->s, "header: a string was expected");
  for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
    if (n + 1 >= size || *r->at == '\\' || (unsigned char)*r->at < ' ')
      lt_format_error(r->s, "header: a string is too long or has an unexpected character");
    out[n++] = *r->at;
  }
  out[n] = '\0';
  if (r->at == r->end) lt_format_error(r->s, "header: a string does not end");
  r->at++;
}

static bool accept_word(npy_reader *r, const char *word) {
  size_t n = strlen(word);
  skip_space(r);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

/* "<f4" and so on. */
static void parse_type(npy_reader *r, const char *text) {
  size_t n = strlen(text);
  char *rest = NULL;
  long bytes = n > 2 && text[2] >= '0' && text[2] <= '9' ? strtol(text + 2, &rest, 10) : 0;
  bool order = n > 2 && strchr("<>|=", text[0]) != NULL;
  if (order && ((text[1] == 'b' && bytes > 1) || (text[1] == 'f' && bytes < 2))) bytes = 0;
  if (!order || strchr("biufV", text[1]) == NULL || rest == NULL || *rest != '\0' || bytes < 1 ||
      bytes > 8 || (bytes & (bytes - 1)) != 0)
    lt_format_error(r->s, "type '%s' is not one that this reader has", text);
  r->e.big = text[0] == '>';
  r->e.kind = text[1];
  r->e.bytes = (unsigned)bytes;
}

static void read_descr(npy_reader *r) {
  char text[64], name[64];
  r->has_descr = true;
  if (!accept(r, '[')) {
    read_string(r, text, sizeof text);
    parse_type(r, text);
    return;
  }
  expect(r, '(');
  read_string(r, name, sizeof name);
  expect(r, ',');
  read_string(r, text, sizeof text);
  if (!accept(r, ')') || (accept(r, ','), !accept(r, ']')))
    lt_format_error(r->s, "structured types of several fields are not supported");
  parse_type(r, text);
  r->e.named = isa_dtype_find(name, strlen(name));
  if (r->e.named < 0 || isa_dtype_bytes((unsigned)r->e.named) != r->e.bytes || r->e.kind != 'u')
    lt_format_error(r->s, "field '%s' of type '%s' names no dtype of that size", name, text);
}

static void read_shape(npy_reader *r) {
  r->has_shape = true;
  expect(r, '(');
  while (!accept(r, ')')) {
    int64_t v = 0;
    skip_space(r);
    const char *start = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
      if (v > (INT64_MAX - 9) / 10) lt_format_error(r->s, "a dimension of the shape is too large");
      v = v * 10 + (*r->at - '0');
    }
    if (r->at == start) lt_format_error(r->s, "header: a dimension of the shape was expected");
    if (r->e.ndim == LT_DIMS)
      lt_format_error(r->s, "the shape has more than %d dimensions", LT_DIMS);
    r->e.shape[r->e.ndim++] = v;
    accept_word(r, "L"); /* written by Python 2 */
    if (!accept(r, ',')) {
      expect(r, ')');
      break;
    }
  }
}

static void read_dict(npy_reader *r) {
  char key[32];
  expect(r, '{');
  while (!accept(r, '}')) {
    read_string(r, key, sizeof key);
    expect(r, ':');
    if (strcmp(key, "descr") == 0 && !r->has_descr) {
      read_descr(r);
    } else if (strcmp(key, "fortran_order") == 0 && !r->has_order) {
      r->has_order = true;
      r->e.fortran = accept_word(r, "True");
      if (!r->e.fortran && !accept_word(r, "False"))
        lt_format_error(r->s, "fortran_order is not True or False");
    } else if (strcmp(key, "shape") == 0 && !r->has_shape) {
      read_shape(r);
    } else {
      lt_format_error(r->s, "header: key '%s' is unknown or given twice", key);
    }
    if (!accept(r, ',')) {
      expect(r, '}');
      break;
    }
  }
  skip_space(r);
  if (r->at != r->end) lt_format_error(r->s, "header: text after its end");
  if (!r->has_descr || !r->has_order || !r->has_shape)
    lt_format_error(r->s, "header: 'descr', 'fortran_order' and 'shape' are not all there");
}

/* Leaves the header's text on the stack. */
static void read_header(npy_reader *r) {
  lt_source *s = r->s;
  unsigned char head[12];
  if (!lt_read(s, head, 10) || memcmp(head, magic, MAGIC) != 0)
    lt_format_error(s, "it does not start with the .npy magic");
  if (head[6] < 1 || head[6] > 3 || head[7] != 0)
    lt_format_error(s, "version %d.%d is not 1.0, 2.0 or 3.0", head[6], head[7]);
  uint32_t n = head[8] | (uint32_t)head[9] << 8;
  if (head[6] > 1) {
    if (!lt_read(s, head + 10, 2)) lt_format_error(s, "it ends within its header");
    n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
  }
  if (n > MAX_HEADER)
    lt_format_error(s, "a header of %I bytes (at most %d)", (LUAI_UACINT)n, (int)MAX_HEADER);
  char *text = lua_newuserdatauv(s->L, n + 1, 0);
  if (!lt_read(s, text, n)) lt_format_error(s, "it ends within its header of %d bytes", (int)n);
  r->start = r->at = text;
  r->end = text + n;
  read_dict(r);
}

/* ---- The whole ----------------------------------------------------------------------------- */

void lt_read_npy(lt_source *s, unsigned asked) {
  unsigned char more;
  npy_reader r = {.s = s, .e = {.named = -1}};
  read_header(&r);
  unsigned dtype = lt_stored_dtype(s, &r.e, asked);
  int64_t want = lt_stored_size(s, &r.e);
  if (s->length >= 0 && s->length - s->at != want)
    lt_format_error(s, "%I bytes of data, but its shape and type need %I",
                    (LUAI_UACINT)(s->length - s->at), (LUAI_UACINT)want);
  lt_read_tensor(s, &r.e, dtype);
  lua_remove(s->L, -2); /* the header */
  if (s->map == 0 && lt_read(s, &more, 1)) lt_format_error(s, "there is more after its data");
}

/* soma.load_npy(path, {dtype, device, map}): a tensor; nil and a message when the file cannot be
 * opened. dtype names the type of files of raw bits (uint or void), or rounds float64. */
static int load_npy(lua_State *L) {
  static const char *const known[] = {"dtype", "device", "map", NULL};
  const char *path = lb_path(L, 1);
  lua_settop(L, 2);
  lt_loading o = lt_loading_options(L, 2, "load_npy", known);
  unsigned asked = lb_dtype_option(L, 2, "load_npy", 0);
  lb_file *f = lb_file_open(L, path);
  if (f == NULL) return 2;
  lt_source s = lt_file_source(L, f, path, ".npy");
  lt_map(&s, &o);
  lt_read_npy(&s, asked);
  lb_file_close(f);
  return lt_place(L, o.device, "load_npy");
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void type_text(unsigned dtype, char *out, size_t size) {
  unsigned bytes = isa_dtype_bytes(dtype);
  char order = bytes > 1 ? '<' : '|', kind = 'u';
  bool named = false;
  switch (isa_dtypes[dtype].cls) {
  case ISA_UINT: break;
  case ISA_INT: kind = 'i'; break;
  case ISA_BOOL: kind = 'b'; break;
  default:
    named = dtype != ISA_float16 && dtype != ISA_float32;
    if (!named) kind = 'f';
  }
  if (named)
    snprintf(out, size, "[('%s', '%c%c%u')]", isa_dtypes[dtype].name, order, kind, bytes);
  else
    snprintf(out, size, "'%c%c%u'", order, kind, bytes);
}

size_t lt_npy_head(const lt_tensor *t, unsigned char out[LT_NPY_HEAD]) {
  char type[64], *head = (char *)out + MAGIC + 4;
  size_t size = LT_NPY_HEAD - MAGIC - 4;
  type_text(t->dtype, type, sizeof type);
  int n = snprintf(head, size, "{'descr': %s, 'fortran_order': False, 'shape': (", type);
  for (unsigned d = 0; d < t->ndim; d++)
    n += snprintf(head + n, size - (size_t)n, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
  n += snprintf(head + n, size - (size_t)n, "%s), }", t->ndim == 1 ? "," : "");
  while ((MAGIC + 4 + n + 1) % 64 != 0) head[n++] = ' ';
  head[n++] = '\n';
  memcpy(out, magic, MAGIC);
  memcpy(out + MAGIC, (unsigned char[]){1, 0, (unsigned char)n, (unsigned char)(n >> 8)}, 4);
  return (size_t)n + MAGIC + 4;
}

/* Errors stay in f, for lb_file_commit. */
static void write_npy(FILE *f, const lt_tensor *t) {
  unsigned char head[LT_NPY_HEAD];
  size_t n = lt_npy_head(t, head);
  fwrite(head, 1, n, f);
  fwrite(t->data, 1, (size_t)t->size * isa_dtype_bytes(t->dtype), f);
}

/* t:save_npy(path): true; nil and a message when the file cannot be written. It appears complete or
 * not at all. */
static int save_npy(lua_State *L) {
  lua_settop(L, 2);
  const char *path = lb_path(L, 2);
  lt_tensor *t = lt_make_dense(L, 1);
  lb_file *f = lb_file_create(L, path);
  if (f != NULL) write_npy(f->f, t);
  if (f == NULL || !lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

const luaL_Reg lt_npy_functions[] = {{"load_npy", load_npy}, {NULL, NULL}};
const luaL_Reg lt_npy_methods[] = {{"save_npy", save_npy}, {NULL, NULL}};
