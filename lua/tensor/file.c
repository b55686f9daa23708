/* What the file formats of tensors share: sources of bytes, mapping, elements, names. */
#include "file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Sources ------------------------------------------------------------------------------- */

static size_t read_stream(lt_source *s, void *to, size_t n) {
  /* errno belongs to this call only if it was 0 before. */
  errno = 0;
  return fread(to, 1, n, s->from);
}

static const char *stream_error(lt_source *s) {
  /* The end of a file is no error. */
  return ferror((FILE *)s->from) ? strerror(errno) : NULL;
}

/* A pipe has no length: -1. */
lt_source lt_file_source(lua_State *L, const lb_file *f, const char *path, const char *format) {
  return (lt_source){.L = L,
                     .path = path,
                     .format = format,
                     .length = lb_file_length(f),
                     .read = read_stream,
                     .error = stream_error,
                     .from = f->f};
}

int lt_format_error(const lt_source *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  /* Lua frees the text when the error has been seen. */
  lua_pushvfstring(s->L, fmt, ap);
  va_end(ap);
  return luaL_error(s->L, "%s: not a valid %s file: %s", s->path, s->format,
                    lua_tostring(s->L, -1));
}

bool lt_read(lt_source *s, void *to, size_t n) {
  size_t got = n > 0 ? s->read(s, to, n) : 0;
  /* Where the next byte stands in the file, also after a short read. */
  s->at += (int64_t)got;
  if (got == n) return true;
  const char *error = s->error(s);
  if (error != NULL) luaL_error(s->L, "%s: %s", s->path, error);
  return false;
}

/* ---- Mapping ------------------------------------------------------------------------------- */

enum { MAP_FROM = 16 << 20 };

void lt_map(lt_source *s, const lt_loading *o) {
  /* Without the option only large files are mapped, where copying would take time. */
  bool wanted = s->length > 0 && (o->map < 0 ? s->length >= MAP_FROM : o->map > 0);
  int flags = MAP_PRIVATE;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE; /* only pages that are written to cost memory */
#endif
  /* The storage releases the mapping when the last tensor on it goes. */
  lt_storage *m = lt_push_storage(s->L);
  /* Pushed also where nothing is mapped: callers count on one value. */
  *m = (lt_storage){.bytes = (size_t)s->length, .release = lt_unmap};
  if (!wanted || (uint64_t)s->length > SIZE_MAX) return;
  void *p = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, flags, fileno(s->from), 0);
  /* What cannot be mapped is read instead. */
  if (p == MAP_FAILED) return;
  m->data = p;
  s->map = lua_gettop(s->L);
  lb_account(s->L, 1 << 20); /* address space is not endless either */
}

/* ---- Options ------------------------------------------------------------------------------- */

lt_loading lt_loading_options(lua_State *L, int arg, const char *what, const char *const *known) {
  lb_options(L, arg, what, known);
  lt_loading o = {.what = what, .arg = arg, .device = lb_device_option(L, arg, what), .map = -1};
  /* -1 leaves the choice to the file's length. */
  if (lb_option(L, arg, "map") != LUA_TNIL) o.map = lb_bool(L, arg, what, "map", false);
  lua_pop(L, 1);
  return o;
}

unsigned lt_loading_dtype(lua_State *L, const lt_loading *o, const char *name) {
  /* One type for all, or a table of types by name. */
  if (lb_option(L, o->arg, "dtype") != LUA_TTABLE) {
    lua_pop(L, 1);
    return lb_dtype_option(L, o->arg, o->what, 0);
  }
  unsigned dtype = 0;
  lua_pushstring(L, name);
  /* A name without a type in the table is read as it is stored. */
  if (lua_rawget(L, -2) != LUA_TNIL) {
    /* lb_dtype_option reads a field, so the value gets a table around it. */
    lua_createtable(L, 0, 1);
    lua_insert(L, -2);
    lua_setfield(L, -2, "dtype");
    dtype = lb_dtype_option(L, lua_gettop(L), o->what, 0);
  }
  lua_pop(L, 2);
  return dtype;
}

/* Pushes the strings of the sequence at index, the first few of many. */
static const char *push_list(lua_State *L, int index) {
  /* Enough to recognise the file by. */
  enum { MOST = 10 };
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  if (n == 0) luaL_addstring(&b, "nothing");
  for (lua_Integer i = 1; i <= n && i <= MOST; i++) {
    if (i > 1) luaL_addstring(&b, ", ");
    lua_rawgeti(L, index, i);
    luaL_addvalue(&b);
  }
  if (n > MOST) luaL_addstring(&b, ", ...");
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}

/* Pushes the table whose keys are the strings of the sequence at index.
 * For names that are looked up many times. */
static void push_set(lua_State *L, int index) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  lua_newtable(L);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
  }
}

void lt_loading_names(lua_State *L, const lt_loading *o, const char *path, int all) {
  int type = lb_option(L, o->arg, "names"), names = lua_gettop(L);
  /* All names, if none were asked for. */
  if (type == LUA_TNIL) {
    lua_pushvalue(L, all);
    lua_replace(L, names);
    return;
  }
  if (type != LUA_TTABLE)
    luaL_error(L, "%s: option 'names' must be a sequence of strings, not %s", o->what,
               luaL_typename(L, names));
  push_set(L, all);
  lua_Integer n = (lua_Integer)lua_rawlen(L, names);
  for (lua_Integer i = 1; i <= n; i++) {
    /* Checked one by one, so that the message names the entry. */
    if (lua_rawgeti(L, names, i) != LUA_TSTRING)
      luaL_error(L, "%s: option 'names' must be a sequence of strings; entry %I is %s", o->what,
                 (LUAI_UACINT)i, luaL_typename(L, -1));
    const char *name = lua_tostring(L, -1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, names + 1) == LUA_TNIL)
      luaL_error(L, "%s: there is no tensor '%s'; it has: %s", path, name, push_list(L, all));
    lua_pop(L, 2);
  }
  lua_settop(L, names);
}

/* ---- Elements ------------------------------------------------------------------------------ */

/* By size: 1, 2, 4 or 8 bytes. */
static int integer_dtype(unsigned bytes, bool is_signed) {
  switch (bytes) {
  case 1: return is_signed ? ISA_int8 : ISA_uint8;
  case 2: return is_signed ? ISA_int16 : ISA_uint16;
  case 4: return is_signed ? ISA_int32 : ISA_uint32;
  default: return is_signed ? ISA_int64 : ISA_uint64;
  }
}

static int plain_dtype(const lt_stored *e) {
  switch (e->kind) {
  /* -1: the machine has no such type, or the size does not say which. */
  case 'b': return e->bytes == 1 ? ISA_bool : -1;
  case 'i': return integer_dtype(e->bytes, true);
  case 'u': return integer_dtype(e->bytes, false);
  case 'f': return e->bytes == 2 ? ISA_float16 : e->bytes == 4 ? ISA_float32 : -1;
  default: return -1;
  }
}

static const char *push_stored_name(lua_State *L, const lt_stored *e) {
  /* A type by its own name, or as NumPy would call it. */
  if (e->named >= 0) return lua_pushstring(L, isa_dtypes[e->named].name);
  return lua_pushfstring(L, "%s%d",
                         e->kind == 'f'   ? "float"
                         : e->kind == 'u' ? "uint"
                         : e->kind == 'i' ? "int"
                         : e->kind == 'V' ? "void"
                                          : "bool",
                         (int)e->bytes * 8);
}

static bool is_double(const lt_stored *e) { return e->kind == 'f' && e->bytes == 8; }

unsigned lt_stored_dtype(const lt_source *s, const lt_stored *e, unsigned asked) {
  /* The type that the file says, if it is one of the machine's. */
  int own = e->named >= 0 ? e->named : plain_dtype(e);
  if (asked == 0 && own < 0)
    luaL_error(s->L,
               is_double(e) ? "%s: holds float64, which the machine lacks: store it as float32, or "
                              "load it with {dtype = \"float32\"}"
                            : "%s: its type has no name: give {dtype = ...}",
               s->path);
  /* The usual case: nothing to convert. */
  if (asked == 0 || (int)asked == own) return (unsigned)own;
  /* Raw bits are read as whatever type of that size the caller says they are. */
  bool raw = e->named < 0 && (e->kind == 'u' || e->kind == 'V');
  /* A double is rounded to the type that was asked for. */
  if (is_double(e) && lt_class_of(asked) == LT_FLOAT) return asked;
  if (raw && isa_dtype_bytes(asked) == e->bytes) return asked;
  luaL_error(s->L, "%s: holds %s, which cannot be read as %s: load it and use astype", s->path,
             push_stored_name(s->L, e), isa_dtypes[asked].name);
  return 0;
}

int64_t lt_stored_size(const lt_source *s, const lt_stored *e) {
  /* Computed as bytes of one each, so that the product is checked. */
  lt_tensor size = {.dtype = ISA_uint8, .ndim = e->ndim};
  memcpy(size.shape, e->shape, sizeof size.shape);
  /* Elements have up to 8 bytes. */
  if (!lt_layout(&size) || size.size > INT64_MAX / 16) lt_format_error(s, "its shape is too large");
  return size.size * e->bytes;
}

static void swap_bytes(unsigned char *p, int64_t n, unsigned bytes) {
  /* In place; each element by itself. */
  for (int64_t i = 0; i < n; i++, p += bytes)
    for (unsigned b = 0; b < bytes / 2; b++) {
      unsigned char t = p[b];
      p[b] = p[bytes - 1 - b];
      p[bytes - 1 - b] = t;
    }
}

static void read_exact(lt_source *s, void *to, size_t n) {
  /* Shorter than what its header says. */
  if (!lt_read(s, to, n)) lt_format_error(s, "it ends within its data");
}

static void read_doubles(lt_source *s, const lt_stored *e, const lt_tensor *t) {
  unsigned char raw[8 * LT_CHUNK];
  double v[LT_CHUNK];
  /* In pieces, as a file may be larger than memory twice over. */
  unsigned bytes = isa_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t n = t->size - i < LT_CHUNK ? (size_t)(t->size - i) : LT_CHUNK;
    read_exact(s, raw, n * 8);
    if (e->big) swap_bytes(raw, (int64_t)n, 8);
    for (size_t k = 0; k < n; k++) {
      /* By bytes, so that the host's order does not matter. */
      uint64_t u = lt_get_bits(raw + 8 * k, 8);
      memcpy(&v[k], &u, 8);
    }
    lt_store_f64(t->dtype, t->data + i * bytes, bytes, n, v);
  }
}

static void check_bools(const lt_source *s, const lt_tensor *t) {
  /* All bytes are collected first, which is fast. */
  unsigned all = 0;
  for (int64_t i = 0; i < t->size; i++) all |= t->data[i];
  /* One pass without branches for the files that are right. */
  if (all <= 1) return;
  for (int64_t i = 0; i < t->size; i++)
    if (t->data[i] > 1)
      lt_format_error(s, "element %I of type bool is %d, not 0 or 1", (LUAI_UACINT)i, t->data[i]);
}

/* The transpose: what Fortran order is when it is read row by row.
 * Shape and strides change places; no element moves. */
static void turn(lt_tensor *t) {
  lt_tensor from = *t;
  for (unsigned d = 0; d < t->ndim; d++) {
    t->shape[d] = from.shape[t->ndim - 1 - d];
    t->stride[d] = from.stride[t->ndim - 1 - d];
  }
}

/* The next n bytes where they are in the mapping; NULL when they must be copied. */
static unsigned char *mapped(const lt_source *s, const lt_stored *e, int64_t n) {
  /* Elements that have to be changed, or lie at odd places, are copied. */
  if (s->map == 0 || e->big || is_double(e) || s->at % e->bytes != 0) return NULL;
  /* A file that ends too early is refused by the reader. */
  if (n > s->length - s->at) return NULL;
  const lt_storage *m = lua_touserdata(s->L, s->map);
  return (unsigned char *)m->data + s->at;
}

void lt_read_tensor(lt_source *s, const lt_stored *e, unsigned dtype) {
  int64_t shape[LT_DIMS], n = lt_stored_size(s, e);
  /* Fortran order is row-major order of the reversed shape; turned around at the end. */
  for (unsigned d = 0; d < e->ndim; d++) shape[d] = e->shape[e->fortran ? e->ndim - 1 - d : d];
  unsigned char *in_place = mapped(s, e, n);
  lt_tensor *t = in_place != NULL ? lt_new_on(s->L, dtype, e->ndim, shape, s->map, in_place)
                                  : lt_new(s->L, dtype, e->ndim, shape);
  if (in_place != NULL) {
    /* Skipped in the source, as if it had been read. */
    s->at += n;
  } else if (is_double(e)) {
    read_doubles(s, e, t);
  } else {
    read_exact(s, t->data, (size_t)n);
    if (e->big) swap_bytes(t->data, t->size, e->bytes);
  }
  /* In a mapping too: other bytes than 0 and 1 would count as true in some operations
   * only. */
  if (dtype == ISA_bool) check_bools(s, t);
  if (e->fortran) turn(t);
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* By bytes, so that equal tables give equal files. */
static int compare_names(const void *a, const void *b) {
  return strcmp(((const lt_named *)a)->name, ((const lt_named *)b)->name);
}

static const char *check_name(lua_State *L, const char *what) {
  /* Pairs of a table are at -2 and -1. */
  if (lua_type(L, -2) != LUA_TSTRING)
    luaL_error(L, "%s: a name of a tensor is %s, not a string", what, luaL_typename(L, -2));
  size_t n;
  const char *name = lua_tolstring(L, -2, &n);
  /* Formats end names with a zero byte. */
  if (n == 0 || strlen(name) != n)
    luaL_error(L, "%s: a name of a tensor is empty or has a zero byte", what);
  if (lt_test(L, -1) == NULL)
    luaL_error(L, "%s: '%s': a tensor was expected, got %s", what, name, lb_type_name(L, -1));
  return name;
}

lt_named *lt_check_named(lua_State *L, int arg, const char *what, size_t *n) {
  luaL_checktype(L, arg, LUA_TTABLE);
  luaL_checkstack(L, 8, what);
  /* Counted first: the array must not grow while the names in it are checked. */
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, arg) != 0; lua_pop(L, 1)) {
    check_name(L, what);
    count++;
  }
  /* A hint for the size only. */
  lua_createtable(L, count < INT_MAX ? (int)count : 0, 0);
  /* The dense tensors stay here while the list points to them. */
  int held = lua_gettop(L);
  lt_named *list = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *list, 0);
  *n = 0;
  /* The table may have changed in between only by a metamethod; the count bounds it. */
  for (lua_pushnil(L); lua_next(L, arg) != 0 && *n < (size_t)count;) {
    list[*n].name = check_name(L, what);
    list[*n].t = lt_make_dense(L, lua_gettop(L));
    lua_rawseti(L, held, (lua_Integer)++ * n);
  }
  lua_settop(L, held + 1);
  qsort(list, *n, sizeof *list, compare_names);
  return list;
}
