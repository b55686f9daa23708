/* NumPy's .npy files, versions 1 to 3 (numpy.lib.format), read as hostile input.
 *
 * dtypes that NumPy lacks are written as a structured type of one unsigned field with the dtype's
 * name, [('bfloat16', '<u2')], which NumPy opens and which reads back here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensor.h"

enum { MAGIC = 6, MAX_HEADER = 1 << 16 };
static const char magic[] = "\x93NUMPY";

typedef struct npy_reader {
  lua_State *L;
  const char *path;
  const char *start, *at, *end; /* of the header text */
  FILE *f;
  char kind; /* of the descr: b i u f V */
  unsigned bytes;
  bool big, fortran;
  bool has_descr, has_order, has_shape;
  int named; /* dtype of a structured descr, or -1 */
  unsigned ndim;
  int64_t shape[LT_DIMS];
} npy_reader;

static int bad(const npy_reader *r, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  lua_pushvfstring(r->L, fmt, ap);
  va_end(ap);
  return luaL_error(r->L, "%s: not a valid .npy file: %s", r->path, lua_tostring(r->L, -1));
}

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
  if (!accept(r, c)) bad(r, "header: '%c' was expected at byte %d", c, (int)(r->at - r->start));
}

static void read_string(npy_reader *r, char *out, size_t size) {
  skip_space(r);
  size_t n = 0;
  char quote = r->at < r->end ? *r->at : '\0';
  if (quote != '\'' && quote != '"') bad(r, "header: a string was expected");
  for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
    if (n + 1 >= size || *r->at == '\\' || (unsigned char)*r->at < ' ')
      bad(r, "header: a string is too long or has an unexpected character");
    out[n++] = *r->at;
  }
  out[n] = '\0';
  if (r->at == r->end) bad(r, "header: a string does not end");
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
    bad(r, "type '%s' is not one that this reader has", text);
  r->big = text[0] == '>';
  r->kind = text[1];
  r->bytes = (unsigned)bytes;
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
    bad(r, "structured types of several fields are not supported");
  parse_type(r, text);
  r->named = isa_dtype_find(name, strlen(name));
  if (r->named < 0 || isa_dtype_bytes((unsigned)r->named) != r->bytes || r->kind != 'u')
    bad(r, "field '%s' of type '%s' names no dtype of that size", name, text);
}

static void read_shape(npy_reader *r) {
  r->has_shape = true;
  expect(r, '(');
  while (!accept(r, ')')) {
    int64_t v = 0;
    skip_space(r);
    const char *start = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
      if (v > (INT64_MAX - 9) / 10) bad(r, "a dimension of the shape is too large");
      v = v * 10 + (*r->at - '0');
    }
    if (r->at == start) bad(r, "header: a dimension of the shape was expected");
    if (r->ndim == LT_DIMS) bad(r, "the shape has more than %d dimensions", LT_DIMS);
    r->shape[r->ndim++] = v;
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
      r->fortran = accept_word(r, "True");
      if (!r->fortran && !accept_word(r, "False")) bad(r, "fortran_order is not True or False");
    } else if (strcmp(key, "shape") == 0 && !r->has_shape) {
      read_shape(r);
    } else {
      bad(r, "header: key '%s' is unknown or given twice", key);
    }
    if (!accept(r, ',')) {
      expect(r, '}');
      break;
    }
  }
  skip_space(r);
  if (r->at != r->end) bad(r, "header: text after its end");
  if (!r->has_descr || !r->has_order || !r->has_shape)
    bad(r, "header: 'descr', 'fortran_order' and 'shape' are not all there");
}

static void read_header(npy_reader *r) {
  unsigned char head[12];
  if (fread(head, 1, 10, r->f) != 10 || memcmp(head, magic, MAGIC) != 0)
    bad(r, "it does not start with the .npy magic");
  if (head[6] < 1 || head[6] > 3 || head[7] != 0)
    bad(r, "version %d.%d is not 1.0, 2.0 or 3.0", head[6], head[7]);
  uint32_t n = head[8] | (uint32_t)head[9] << 8;
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, r->f) != 2) bad(r, "it ends within its header");
    n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
  }
  if (n > MAX_HEADER) bad(r, "a header of %I bytes (at most %d)", (LUAI_UACINT)n, (int)MAX_HEADER);
  char *text = lua_newuserdatauv(r->L, n + 1, 0); /* stays on the stack while it is parsed */
  if (fread(text, 1, n, r->f) != n) bad(r, "it ends within its header of %d bytes", (int)n);
  r->start = r->at = text;
  r->end = text + n;
  read_dict(r);
}

/* ---- The data ------------------------------------------------------------------------------ */

static int plain_dtype(const npy_reader *r) {
  switch (r->kind) {
  case 'b': return r->bytes == 1 ? ISA_bool : -1;
  case 'i':
    return r->bytes == 1   ? ISA_int8
           : r->bytes == 2 ? ISA_int16
           : r->bytes == 4 ? ISA_int32
                           : ISA_int64;
  case 'u':
    return r->bytes == 1   ? ISA_uint8
           : r->bytes == 2 ? ISA_uint16
           : r->bytes == 4 ? ISA_uint32
                           : ISA_uint64;
  case 'f': return r->bytes == 2 ? ISA_float16 : r->bytes == 4 ? ISA_float32 : -1;
  default: return -1;
  }
}

/* The dtype of the result: the file's, or the one asked for where the file has raw bits or
 * float64. */
static unsigned choose_dtype(const npy_reader *r, unsigned asked) {
  bool is_double = r->kind == 'f' && r->bytes == 8;
  int own = r->named >= 0 ? r->named : plain_dtype(r);
  if (asked == 0 && own < 0)
    luaL_error(r->L,
               is_double ? "%s: holds float64, which the machine lacks: give {dtype = "
                           "\"float32\"} to round it"
                         : "%s: its type has no name: give {dtype = ...}",
               r->path);
  if (asked == 0 || (int)asked == own) return (unsigned)own;
  bool raw = r->named < 0 && (r->kind == 'u' || r->kind == 'V');
  if (is_double && lt_class_of(asked) == LT_FLOAT) return asked;
  if (raw && isa_dtype_bytes(asked) == r->bytes) return asked;
  luaL_error(r->L, "%s: holds %s%d, which cannot be read as %s: load it and use astype", r->path,
             r->kind == 'f'   ? "float"
             : r->kind == 'u' ? "uint"
             : r->kind == 'i' ? "int"
             : r->kind == 'V' ? "void"
                              : "bool",
             (int)r->bytes * 8, isa_dtypes[asked].name);
  return 0;
}

static void check_length(const npy_reader *r, int64_t want) {
  struct stat st;
  long at = ftell(r->f);
  if (fstat(fileno(r->f), &st) != 0 || !S_ISREG(st.st_mode) || at < 0) return;
  if ((int64_t)st.st_size - at != want)
    bad(r, "%I bytes of data, but its shape and type need %I",
        (LUAI_UACINT)((int64_t)st.st_size - at), (LUAI_UACINT)want);
}

static void swap_bytes(unsigned char *p, int64_t n, unsigned bytes) {
  for (int64_t i = 0; i < n; i++, p += bytes)
    for (unsigned b = 0; b < bytes / 2; b++) {
      unsigned char t = p[b];
      p[b] = p[bytes - 1 - b];
      p[bytes - 1 - b] = t;
    }
}

static void read_exact(const npy_reader *r, void *to, size_t n) {
  if (n == 0) return;
  errno = 0;
  if (fread(to, 1, n, r->f) == n) return;
  if (ferror(r->f)) luaL_error(r->L, "%s: %s", r->path, strerror(errno));
  bad(r, "it ends within its data");
}

static void read_doubles(const npy_reader *r, const lt_tensor *t) {
  unsigned char raw[8 * LT_CHUNK];
  double v[LT_CHUNK];
  unsigned bytes = isa_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t n = t->size - i < LT_CHUNK ? (size_t)(t->size - i) : LT_CHUNK;
    read_exact(r, raw, n * 8);
    if (r->big) swap_bytes(raw, (int64_t)n, 8);
    for (size_t k = 0; k < n; k++) {
      uint64_t u = lt_get_bits(raw + 8 * k, 8);
      memcpy(&v[k], &u, 8);
    }
    lt_store_f64(t->dtype, t->data + i * bytes, bytes, n, v);
  }
}

static void check_bools(const npy_reader *r, const lt_tensor *t) {
  for (int64_t i = 0; i < t->size; i++)
    if (t->data[i] > 1)
      bad(r, "element %I of type bool is %d, not 0 or 1", (LUAI_UACINT)i, t->data[i]);
}

/* Pushes the tensor. Fortran order is read as the transpose and turned by its strides. */
static void read_data(npy_reader *r, unsigned dtype) {
  int64_t shape[LT_DIMS];
  for (unsigned d = 0; d < r->ndim; d++) shape[d] = r->shape[r->fortran ? r->ndim - 1 - d : d];
  lt_tensor size = {.dtype = dtype, .ndim = r->ndim};
  memcpy(size.shape, r->shape, sizeof size.shape);
  if (!lt_layout(&size) || size.size > INT64_MAX / 8) bad(r, "its shape is too large");
  check_length(r, size.size * r->bytes);
  lt_tensor *t = lt_new(r->L, dtype, r->ndim, shape);
  if (r->kind == 'f' && r->bytes == 8) {
    read_doubles(r, t);
  } else {
    read_exact(r, t->data, (size_t)t->size * r->bytes);
    if (r->big) swap_bytes(t->data, t->size, r->bytes);
  }
  if (fgetc(r->f) != EOF) bad(r, "there is more after its data");
  if (dtype == ISA_bool) check_bools(r, t);
  if (!r->fortran) return;
  lt_tensor turned = *t;
  for (unsigned d = 0; d < r->ndim; d++) {
    turned.shape[d] = t->shape[r->ndim - 1 - d];
    turned.stride[d] = t->stride[r->ndim - 1 - d];
  }
  *t = turned;
}

/* soma.load_npy(path, {dtype, device}): a tensor; nil and a message when the file cannot be opened.
 * dtype names the type of files of raw bits (uint or void), or rounds float64. */
static int load_npy(lua_State *L) {
  static const char *const known[] = {"dtype", "device", NULL};
  npy_reader r = {.L = L, .path = lb_path(L, 1), .named = -1};
  lb_options(L, 2, "load_npy", known);
  unsigned asked = lb_dtype_option(L, 2, "load_npy", 0);
  int device = lb_device_option(L, 2, "load_npy");
  lb_file *f = lb_file_open(L, r.path);
  if (f == NULL) return 2;
  r.f = f->f;
  read_header(&r);
  read_data(&r, choose_dtype(&r, asked));
  lb_file_close(f);
  return lb_place(L, device, "load_npy");
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

/* Errors stay in f, for lb_file_commit. */
static void write_npy(FILE *f, const lt_tensor *t) {
  char head[512], type[64];
  type_text(t->dtype, type, sizeof type);
  int n = snprintf(head, sizeof head, "{'descr': %s, 'fortran_order': False, 'shape': (", type);
  for (unsigned d = 0; d < t->ndim; d++)
    n += snprintf(head + n, sizeof head - (size_t)n, "%s%lld", d > 0 ? ", " : "",
                  (long long)t->shape[d]);
  n += snprintf(head + n, sizeof head - (size_t)n, "%s), }", t->ndim == 1 ? "," : "");
  while ((MAGIC + 4 + n + 1) % 64 != 0) head[n++] = ' ';
  head[n++] = '\n';
  unsigned char start[4] = {1, 0, (unsigned char)n, (unsigned char)(n >> 8)};
  size_t bytes = (size_t)t->size * isa_dtype_bytes(t->dtype);
  fwrite(magic, 1, MAGIC, f);
  fwrite(start, 1, 4, f);
  fwrite(head, 1, (size_t)n, f);
  fwrite(t->data, 1, bytes, f);
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
