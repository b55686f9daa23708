/* NumPy's .npy files, versions 1 to 3 (numpy.lib.format), read as hostile input.
 *
 * dtypes that NumPy lacks are written as a structured type of one unsigned field with the dtype's
 * name, [('bfloat16', '<u2')], which NumPy opens and which reads back here. */
#include <string.h>

#include "../../isa/npy.h"
#include "file.h"

enum { MAGIC = 6 };
static const char magic[] = "\x93NUMPY";

/* Leaves the header's text on the stack.
 * The first bytes of a file say how long its header is. */
static isa_npy read_header(lt_source *s) {
  unsigned char head[ISA_NPY_HEAD];
  isa_npy h;
  isa_error e = {0};
  /* A file too short for that is refused by the same function. */
  unsigned n = isa_npy_begin(head, lt_read(s, head, ISA_NPY_FIRST) ? ISA_NPY_FIRST : 0, &e);
  if (n == 0) lt_format_error(s, "%s", e.text);
  /* Versions 2 and 3 have a longer length. */
  if (n > ISA_NPY_FIRST && !lt_read(s, head + ISA_NPY_FIRST, n - ISA_NPY_FIRST))
    lt_format_error(s, "it ends within its header");
  int64_t len = isa_npy_length(head, &e);
  if (len < 0) lt_format_error(s, "%s", e.text);
  /* On Lua's stack, so that an error frees it. */
  char *text = lua_newuserdatauv(s->L, (size_t)len + 1, 0);
  if (!lt_read(s, text, (size_t)len))
    lt_format_error(s, "it ends within its header of %d bytes", (int)len);
  if (!isa_npy_text(text, (size_t)len, &h, &e)) lt_format_error(s, "%s", e.text);
  return h;
}

/* ---- The whole ----------------------------------------------------------------------------- */

void lt_read_npy(lt_source *s, unsigned asked) {
  unsigned char more;
  isa_npy h = read_header(s);
  /* What the formats share, from what this one says. */
  lt_stored e = {.kind = h.kind,
                 .big = h.big,
                 .fortran = h.fortran,
                 .named = h.named,
                 .bytes = h.bytes,
                 .ndim = h.ndim};
  memcpy(e.shape, h.shape, sizeof h.shape);
  /* Before the size, as the type decides whether it can be read at all. */
  unsigned dtype = lt_stored_dtype(s, &e, asked);
  int64_t want = lt_stored_size(s, &e);
  /* A length that is known is checked before memory is taken for the tensor. */
  if (s->length >= 0 && s->length - s->at != want)
    lt_format_error(s, "%I bytes of data, but its shape and type need %I",
                    (LUAI_UACINT)(s->length - s->at), (LUAI_UACINT)want);
  lt_read_tensor(s, &e, dtype);
  lua_remove(s->L, -2); /* the header */
  /* In a mapping the length has been checked already. */
  if (s->map == 0 && lt_read(s, &more, 1)) lt_format_error(s, "there is more after its data");
}

/* soma.load_npy(path, {dtype, device, map}): a tensor; nil and a message when the file cannot be
 * opened. dtype names the type of files of raw bits (uint or void), or rounds float64. */
static int load_npy(lua_State *L) {
  static const char *const known[] = {"dtype", "device", "map", NULL};
  /* The path is checked before the file is opened. */
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

/* As NumPy writes types: byte order, kind, size. */
static void type_text(unsigned dtype, char *out, size_t size) {
  unsigned bytes = isa_dtype_bytes(dtype);
  /* A single byte has no order. */
  char order = bytes > 1 ? '<' : '|', kind = 'u';
  bool named = false;
  switch (isa_dtypes[dtype].cls) {
  case ISA_UINT: break;
  case ISA_INT: kind = 'i'; break;
  case ISA_BOOL: kind = 'b'; break;
  default:
    /* The two floats that NumPy knows. */
    named = dtype != ISA_float16 && dtype != ISA_float32;
    if (!named) kind = 'f';
  }
  if (named)
    snprintf(out, size, "[('%s', '%c%c%u')]", isa_dtypes[dtype].name, order, kind, bytes);
  else
    snprintf(out, size, "'%c%c%u'", order, kind, bytes);
}

/* Everything before the data, padded. */
size_t lt_npy_head(const lt_tensor *t, unsigned char out[LT_NPY_HEAD]) {
  char type[64], *head = (char *)out + MAGIC + 4;
  size_t size = LT_NPY_HEAD - MAGIC - 4;
  type_text(t->dtype, type, sizeof type);
  int n = snprintf(head, size, "{'descr': %s, 'fortran_order': False, 'shape': (", type);
  for (unsigned d = 0; d < t->ndim; d++) /* Python's tuples: (2, 3). */
    n += snprintf(head + n, size - (size_t)n, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
  /* A tuple of one element in Python: (3,). */
  n += snprintf(head + n, size - (size_t)n, "%s), }", t->ndim == 1 ? "," : "");
  /* Data begins at a multiple of 64 bytes, as NumPy aligns it. */
  while ((MAGIC + 4 + n + 1) % 64 != 0) head[n++] = ' ';
  head[n++] = '\n';
  memcpy(out, magic, MAGIC);
  /* Version 1.0, whose header's length has 16 bits. */
  memcpy(out + MAGIC, (unsigned char[]){1, 0, (unsigned char)n, (unsigned char)(n >> 8)}, 4);
  /* The length that the file states is that of the text alone. */
  return (size_t)n + MAGIC + 4;
}

/* Errors stay in f, for lb_file_commit.
 * A head and the elements as they lie in memory. */
static void write_npy(FILE *f, const lt_tensor *t) {
  unsigned char head[LT_NPY_HEAD];
  size_t n = lt_npy_head(t, head);
  fwrite(head, 1, n, f);
  fwrite(t->data, 1, (size_t)t->size * isa_dtype_bytes(t->dtype), f);
}

/* t:save_npy(path): true; nil and a message when the file cannot be written. It appears complete or
 * not at all. */
static int save_npy(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3, "save_npy takes no options");
  lua_settop(L, 2);
  const char *path = lb_path(L, 2);
  lt_tensor *t = lt_make_dense(L, 1);
  /* The name has to fit data; .gz would not. */
  lb_file *f = lb_fits_name(L, path, false) ? lb_file_create(L, path) : NULL;
  if (f != NULL) write_npy(f->f, t);
  if (f == NULL || !lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

const luaL_Reg lt_npy_functions[] = {{"load_npy", load_npy}, {NULL, NULL}};
const luaL_Reg lt_npy_methods[] = {{"save_npy", save_npy}, {NULL, NULL}};
