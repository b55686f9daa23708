/* safetensors files: eight bytes with the header's length, a JSON header, the tensors' bytes one
 * after the other. Source of the rules: the format's README (huggingface/safetensors).
 *
 * Types that the format lacks are written as unsigned integers of their size; the entry
 * "soma.dtype.NAME" of the file's metadata then has the dtype. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

#define JSON_CLASS "soma.json"
#define METADATA "__metadata__"
#define OUR_KEY "soma.dtype."
#define MAX_HEADER 100000000 /* the format's own limit */

/* The format's types; `named` is -1 for those that the machine lacks.
 * The first row of a type is the one that is written. */
static const struct row {
  const char *name;
  char kind;
  unsigned bytes;
  int named;
} rows[] = {
    {"BOOL", 'b', 1, ISA_bool},
    {"U8", 'u', 1, ISA_uint8},
    {"I8", 'i', 1, ISA_int8},
    {"U16", 'u', 2, ISA_uint16},
    {"I16", 'i', 2, ISA_int16},
    {"U32", 'u', 4, ISA_uint32},
    {"I32", 'i', 4, ISA_int32},
    {"U64", 'u', 8, ISA_uint64},
    {"I64", 'i', 8, ISA_int64},
    {"F16", 'f', 2, ISA_float16},
    {"BF16", 'f', 2, ISA_bfloat16},
    {"F32", 'f', 4, ISA_float32},
    {"F64", 'f', 8, -1},
    {"F8_E4M3", 'f', 1, ISA_float8_e4m3fn},
    {"F8_E5M2", 'f', 1, ISA_float8_e5m2},
    {"F8_E8M0", 'f', 1, ISA_float8_e8m0fnu},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Whatever happens, the JSON is freed with its holder. */
static int json_gc(lua_State *L) {
  json_t **j = luaL_checkudata(L, 1, JSON_CLASS);
  json_decref(*j);
  *j = NULL;
  return 0;
}

/* Pushes a holder of JSON, empty. */
static json_t **new_json(lua_State *L) {
  json_t **j = lua_newuserdatauv(L, sizeof *j, 0);
  *j = NULL;
  luaL_setmetatable(L, JSON_CLASS);
  return j;
}

/* ---- The header ---------------------------------------------------------------------------- */

/* Strings and shapes point into the JSON. */
typedef struct entry {
  const char *name;
  const json_t *shape;
  const char *type;
  int64_t begin, end; /* in the data */
} entry;

/* What is known of a file once its header has been checked. */
typedef struct header {
  lt_source s;
  json_t *root;
  entry *list; /* by place */
  size_t n;
  int64_t start; /* of the data, in the file */
} header;

/* Pushes the holder of the header's JSON, an object. */
static json_t *read_json(lt_source *s) {
  /* Little-endian, 64 bits. */
  unsigned char count[8];
  json_error_t error;
  if (!lt_read(s, count, 8))
    lt_format_error(s, "%I bytes; the length of its header alone takes 8", (LUAI_UACINT)s->length);
  uint64_t n = lt_get_bits(count, 8);
  /* Before memory is taken for the header. */
  if (n > MAX_HEADER || (int64_t)n > s->length - 8)
    lt_format_error(s,
                    "a header of %s bytes; the file has %I after its length, the format allows %d",
                    n > INT64_MAX ? "more than 2^63" : lua_pushfstring(s->L, "%I", (LUAI_UACINT)n),
                    (LUAI_UACINT)(s->length - 8), MAX_HEADER);
  json_t **root = new_json(s->L);
  /* jansson takes a length, so nothing has to end the text. */
  char *text = lua_newuserdatauv(s->L, n + 1, 0);
  if (!lt_read(s, text, n)) lt_format_error(s, "it ends within its header of %d bytes", (int)n);
  if (n == 0 || text[0] != '{') lt_format_error(s, "its header does not begin with {");
  /* A name given twice would be read in one way here and in another elsewhere. */
  *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (*root == NULL) lt_format_error(s, "header: byte %d: %s", error.position, error.text);
  lua_pop(s->L, 1); /* the text */
  return *root;
}

/* The format allows no other values there. */
static void check_metadata(const lt_source *s, json_t *metadata) {
  const char *key;
  json_t *value;
  if (metadata == NULL) return;
  if (!json_is_object(metadata)) lt_format_error(s, METADATA " is not an object");
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      lt_format_error(s, METADATA ": the value of '%s' is not a string", key);
  }
}

static bool counts(const json_t *list) {
  /* Negative ones would be sizes of nothing. */
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_integer(json_array_get(list, i)) ||
        json_integer_value(json_array_get(list, i)) < 0)
      return false;
  return json_is_array(list);
}

/* Checks all but the type, which only who wants the tensor needs to know. */
static entry check_entry(const header *h, const char *name, json_t *value) {
  /* All that follows the header is data. */
  const lt_source *s = &h->s;
  int64_t bytes = s->length - h->start;
  const char *key;
  json_t *part, *offsets = json_object_get(value, "data_offsets");
  entry e = {.name = name,
             .shape = json_object_get(value, "shape"),
             .type = json_string_value(json_object_get(value, "dtype"))};
  /* json_object_get gives NULL for what is no object, so this is asked first of all
   * that is read. */
  if (!json_is_object(value)) lt_format_error(s, "tensor '%s' is not an object", name);
  json_object_foreach(value, key, part) {
    /* Keys that this reader does not know may change what the others mean. */
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      lt_format_error(s, "tensor '%s': key '%s' is unknown", name, key);
  }
  if (e.type == NULL) lt_format_error(s, "tensor '%s': dtype is not a string", name);
  if (!counts(e.shape))
    lt_format_error(s, "tensor '%s': shape is not a list of integers from 0", name);
  if (!counts(offsets) || json_array_size(offsets) != 2)
    lt_format_error(s, "tensor '%s': data_offsets are not two integers from 0", name);
  e.begin = json_integer_value(json_array_get(offsets, 0));
  e.end = json_integer_value(json_array_get(offsets, 1));
  /* Both are at least 0, as counts has shown. */
  if (e.begin > e.end || e.end > bytes)
    lt_format_error(s, "tensor '%s': data_offsets [%I, %I] are not within the %I bytes of data",
                    name, (LUAI_UACINT)e.begin, (LUAI_UACINT)e.end, (LUAI_UACINT)bytes);
  return e;
}

/* By place, then by name, so that tensors without bytes have an order too. */
static int compare_places(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* The tensors fill the data, one after the other. */
static void check_places(const header *h) {
  const lt_source *s = &h->s;
  int64_t at = 0;
  for (size_t i = 0; i < h->n; i++) {
    /* The place of the first byte that no tensor has had. */
    const entry *e = &h->list[i];
    if (e->begin < at)
      lt_format_error(s, "tensor '%s' begins at byte %I of the data, within '%s', which ends at %I",
                      e->name, (LUAI_UACINT)e->begin, h->list[i - 1].name, (LUAI_UACINT)at);
    if (e->begin > at)
      lt_format_error(s, "bytes %I to %I of the data, before '%s', belong to no tensor",
                      (LUAI_UACINT)at, (LUAI_UACINT)e->begin - 1, e->name);
    at = e->end;
  }
  if (at != s->length - h->start)
    lt_format_error(s, "bytes %I to %I of the data belong to no tensor", (LUAI_UACINT)at,
                    (LUAI_UACINT)(s->length - h->start - 1));
}

/* Reads and checks the header; pushes what holds it. */
static void read_header(header *h) {
  const char *name;
  json_t *value;
  /* The holder stays on the stack as long as the header is used. */
  h->root = read_json(&h->s);
  h->start = h->s.at;
  check_metadata(&h->s, json_object_get(h->root, METADATA));
  h->n = 0;
  /* One more than the names, as metadata may not be there. */
  h->list = lua_newuserdatauv(h->s.L, (json_object_size(h->root) + 1) * sizeof *h->list, 0);
  /* Names and shapes are those in root, which the stack holds. */
  json_object_foreach(h->root, name, value) {
    if (strcmp(name, METADATA) != 0) h->list[h->n++] = check_entry(h, name, value);
  }
  qsort(h->list, h->n, sizeof *h->list, compare_places);
  check_places(h);
}

/* Pushes the file; false with nil and a message pushed when it cannot be opened. */
static bool open_file(lua_State *L, header *h, const char *path) {
  lb_file *f = lb_file_open(L, path);
  if (f == NULL) return false;
  h->s = lt_file_source(L, f, path, "safetensors");
  /* The end of the data is known only of a file with a length. */
  if (h->s.length < 0) luaL_error(L, "%s: a safetensors file must be a regular file", path);
  return true;
}

/* Pushes the sequence of the tensors' names, in the order of their data. */
static void push_names(const header *h) {
  lua_newtable(h->s.L);
  for (size_t i = 0; i < h->n; i++) {
    lua_pushstring(h->s.L, h->list[i].name);
    lua_rawseti(h->s.L, -2, (lua_Integer)i + 1);
  }
}

/* ---- Tensors ------------------------------------------------------------------------------- */

/* The dtype that our metadata gives a tensor of unsigned integers; -1 for none. */
static int our_dtype(const header *h, const entry *e, const struct row *row) {
  lua_State *L = h->s.L;
  /* A file of this format that was written elsewhere has none. */
  const char *key = lua_pushfstring(L, OUR_KEY "%s", e->name);
  const char *name = json_string_value(json_object_get(json_object_get(h->root, METADATA), key));
  lua_pop(L, 1);
  if (name == NULL) return -1;
  int dtype = isa_dtype_find(name, strlen(name));
  /* Only unsigned integers stand in for types that the format lacks. */
  if (dtype < 0 || row->kind != 'u' || isa_dtype_bytes((unsigned)dtype) != row->bytes)
    lt_format_error(&h->s, METADATA " says that '%s' is %s, but its dtype is %s", e->name, name,
                    row->name);
  return dtype;
}

static lt_stored describe(const header *h, const entry *e) {
  size_t i = 0, ndim = json_array_size(e->shape);
  /* Types that nobody asks for may be unknown. */
  while (i < ROWS && strcmp(e->type, rows[i].name) != 0) i++;
  if (i == ROWS)
    lt_format_error(&h->s, "tensor '%s': type '%s' is not one that this reader knows", e->name,
                    e->type);
  if (ndim > LT_DIMS)
    lt_format_error(&h->s, "tensor '%s' has %d dimensions, more than %d", e->name, (int)ndim,
                    LT_DIMS);
  lt_stored r = {.kind = rows[i].kind, .bytes = rows[i].bytes, .ndim = (unsigned)ndim};
  r.named = our_dtype(h, e, &rows[i]);
  /* Integers and bools are found by their kind.
   * A dtype in our metadata comes first. */
  if (r.named < 0 && r.kind == 'f') r.named = rows[i].named;
  for (size_t d = 0; d < ndim; d++) r.shape[d] = json_integer_value(json_array_get(e->shape, d));
  return r;
}

/* Pushes the tensor. */
static void load_tensor(header *h, const entry *e, unsigned asked) {
  /* A copy, so that each tensor has its own place and name. */
  lt_source s = h->s;
  s.path = lua_pushfstring(s.L, "%s: tensor '%s'", h->s.path, e->name);
  lt_stored r = describe(h, e);
  unsigned dtype = lt_stored_dtype(&s, &r, asked);
  int64_t need = lt_stored_size(&s, &r);
  if (need != e->end - e->begin)
    lt_format_error(&s, "its data_offsets [%I, %I] hold %I bytes, but its shape and type need %I",
                    (LUAI_UACINT)e->begin, (LUAI_UACINT)e->end, (LUAI_UACINT)(e->end - e->begin),
                    (LUAI_UACINT)need);
  s.at = h->start + e->begin;
  /* In a mapping nothing is read, but the place is the same. */
  if (fseeko(s.from, (off_t)s.at, SEEK_SET) != 0) lt_format_error(&s, "it ends within its data");
  lt_read_tensor(&s, &r, dtype);
  lua_remove(s.L, -2); /* the path */
}

/* Pushes the metadata, without our part of it, as a table. */
static void push_metadata(const header *h) {
  const char *key;
  json_t *value;
  lua_newtable(h->s.L);
  json_object_foreach(json_object_get(h->root, METADATA), key, value) {
    /* Our part says how tensors were written, which the reader has used. */
    if (strncmp(key, OUR_KEY, sizeof OUR_KEY - 1) == 0) continue;
    lua_pushstring(h->s.L, json_string_value(value));
    lua_setfield(h->s.L, -2, key);
  }
}

/* Pushes a table of entries (as light userdata) by name. */
static void push_entries(const header *h) {
  lua_createtable(h->s.L, 0, h->n < 1 << 20 ? (int)h->n : 0);
  for (size_t i = 0; i < h->n; i++) {
    /* Valid as long as the list, which is below on the stack. */
    lua_pushlightuserdata(h->s.L, &h->list[i]);
    lua_setfield(h->s.L, -2, h->list[i].name);
  }
}

/* soma.load_safetensors(path, {names, dtype, device, map}): a table of tensors by name, and the
 * table of the file's metadata; nil and a message when the file cannot be opened. */
static int load_safetensors(lua_State *L) {
  static const char *const known[] = {"names", "dtype", "device", "map", NULL};
  const char *path = lb_path(L, 1);
  header h;
  lua_settop(L, 2);
  lt_loading o = lt_loading_options(L, 2, "load_safetensors", known);
  if (!open_file(L, &h, path)) return 2;
  /* Closed at the end, or by the collector after an error. */
  lb_file *f = lua_touserdata(L, -1);
  read_header(&h);
  lt_map(&h.s, &o);
  push_entries(&h);
  push_names(&h);
  /* Names in the order of their data, so that the file is read forwards. */
  int names = lua_gettop(L) + 1, entries = names - 2, out = names + 1;
  lt_loading_names(L, &o, path, names - 1);
  lua_newtable(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, names);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, names, i);
    lua_pushvalue(L, -1);
    lua_rawget(L, entries);
    /* lt_loading_names has checked that each is there. */
    const entry *e = lua_touserdata(L, -1);
    lua_pop(L, 1);
    load_tensor(&h, e, lt_loading_dtype(L, &o, e->name));
    lt_place(L, o.device, "load_safetensors");
    lua_rawset(L, out);
  }
  push_metadata(&h);
  lb_file_close(f);
  return 2;
}

/* soma.safetensors_names(path): the sequence of the tensors' names in the order of their data; nil
 * and a message when the file cannot be opened. */
static int safetensors_names(lua_State *L) {
  header h;
  if (!open_file(L, &h, lb_path(L, 1))) return 2;
  lb_file *f = lua_touserdata(L, -1);
  read_header(&h);
  push_names(&h);
  lb_file_close(f);
  return 1;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static int of_dtype(unsigned dtype) {
  /* 0 in a row of the table is no dtype, so no tensor finds it. */
  for (int i = 0; i < ROWS; i++)
    if (rows[i].named == (int)dtype) return i;
  return -1;
}

static const char *type_name(const lt_tensor *t) {
  int i = of_dtype(t->dtype);
  if (i >= 0) return rows[i].name;
  /* As many bytes without a meaning. */
  unsigned bytes = isa_dtype_bytes(t->dtype);
  return bytes == 1 ? "U8" : bytes == 2 ? "U16" : bytes == 4 ? "U32" : "U64";
}

static int64_t size_of(const lt_tensor *t) { return t->size * isa_dtype_bytes(t->dtype); }

/* Wide types first, so that every tensor lies at a multiple of its element. */
static int compare_widths(const void *a, const void *b) {
  const lt_named *x = a, *y = b;
  unsigned wx = isa_dtype_bytes(x->t->dtype), wy = isa_dtype_bytes(y->t->dtype);
  if (wx != wy) return wx > wy ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Adds value, which is taken over, to the object. False without memory, or when key is not UTF-8.
 */
static bool add(json_t *object, const char *key, json_t *value) {
  return value != NULL && json_object_set_new(object, key, value) == 0;
}

/* Adds the user's metadata, the table at index; raises an error for what is not strings. */
static void add_metadata(lua_State *L, int index, json_t *metadata) {
  /* Only strings: the format has nothing else. */
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    size_t n, m;
    if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
      luaL_error(L, "save_safetensors: metadata must be strings by name, not %s by %s",
                 luaL_typename(L, -1), luaL_typename(L, -2));
    const char *key = lua_tolstring(L, -2, &n), *value = lua_tolstring(L, -1, &m);
    /* A user's entry would say something false of a tensor. */
    if (strncmp(key, OUR_KEY, sizeof OUR_KEY - 1) == 0)
      luaL_error(L, "save_safetensors: metadata '%s': names that begin with " OUR_KEY " are taken",
                 key);
    if (strlen(key) != n || strlen(value) != m || !add(metadata, key, json_string(value)))
      luaL_error(L, "save_safetensors: metadata '%s' is not UTF-8 without zero bytes", key);
  }
}

static void add_tensor(lua_State *L, json_t *root, json_t *metadata, const lt_named *e,
                       int64_t at) {
  const lt_tensor *t = e->t;
  /* add below frees it with the tensor's entry. */
  json_t *shape = json_array();
  bool good = shape != NULL;
  for (unsigned d = 0; d < t->ndim && good; d++)
    good = json_array_append_new(shape, json_integer(t->shape[d])) == 0;
  json_t *value = json_pack("{s:s,s:o,s:[I,I]}", "dtype", type_name(t), "shape", shape,
                            "data_offsets", (json_int_t)at, (json_int_t)(at + size_of(t)));
  /* In this order: value is taken over, or freed, whatever went wrong before. */
  good = add(root, e->name, value) && good;
  /* The type that the format lacks, by the tensor's name. */
  if (good && of_dtype(t->dtype) < 0)
    good = add(metadata, lua_pushfstring(L, OUR_KEY "%s", e->name),
               json_string(isa_dtypes[t->dtype].name));
  if (!good || strcmp(e->name, METADATA) == 0)
    luaL_error(L,
               "save_safetensors: no tensor can be called '%s': names must be UTF-8, and "
               "not " METADATA,
               e->name);
}

/* Pushes the header as a string, padded so that the data begins at a multiple of eight. metadata:
 * stack position, 0 for none. */
static void push_header(lua_State *L, int metadata, const lt_named *list, size_t n) {
  json_t **root = new_json(L), **about = new_json(L);
  int64_t at = 0;
  /* Two objects: the header, and the metadata within it. */
  *root = json_object();
  *about = json_object();
  if (*root == NULL || *about == NULL) luaL_error(L, "save_safetensors: out of memory");
  if (metadata != 0) add_metadata(L, metadata, *about);
  /* Offsets follow from the order of the list. */
  for (size_t i = 0; i < n; i++) {
    add_tensor(L, *root, *about, &list[i], at);
    at += size_of(list[i].t);
  }
  if (json_object_size(*about) > 0 && json_object_set(*root, METADATA, *about) != 0)
    luaL_error(L, "save_safetensors: out of memory");
  /* Asked for without a buffer, it gives the length.
   * Keys in order: equal tensors give equal files. */
  size_t size = json_dumpb(*root, NULL, 0, JSON_COMPACT | JSON_SORT_KEYS);
  size_t padded = (size + 7) / 8 * 8;
  char *text = lua_newuserdatauv(L, padded + 1, 0);
  /* Blanks at the end are allowed, and make the data aligned. */
  memset(text, ' ', padded);
  if (size == 0 || json_dumpb(*root, text, size, JSON_COMPACT | JSON_SORT_KEYS) != size)
    luaL_error(L, "save_safetensors: out of memory");
  lua_pushlstring(L, text, padded);
}

/* soma.save_safetensors(path, {name = tensor, ...}, {metadata}): true; nil and a message when the
 * file cannot be written. It appears complete or not at all. */
static int save_safetensors(lua_State *L) {
  static const char *const known[] = {"metadata", NULL};
  const char *path = lb_path(L, 1);
  unsigned char count[8];
  size_t n, length;
  lua_settop(L, 3);
  lb_options(L, 3, "save_safetensors", known);
  int type = lb_option(L, 3, "metadata");
  if (type != LUA_TNIL && type != LUA_TTABLE)
    return luaL_error(L, "save_safetensors: option 'metadata' must be a table, not %s",
                      luaL_typename(L, 4));
  lt_named *list = lt_check_named(L, 2, "save_safetensors", &n);
  /* The order of the data, not that of the names. */
  qsort(list, n, sizeof *list, compare_widths);
  push_header(L, type == LUA_TNIL ? 0 : 4, list, n);
  const char *text = lua_tolstring(L, -1, &length);
  lb_file *f = lb_file_create(L, path);
  if (f == NULL) return 2;
  lt_put_bits(count, 8, length);
  fwrite(count, 1, 8, f->f);
  fwrite(text, 1, length, f->f);
  /* Errors of writing show when the file is committed. */
  for (size_t i = 0; i < n; i++) fwrite(list[i].t->data, 1, (size_t)size_of(list[i].t), f->f);
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

const luaL_Reg lt_safetensors_functions[] = {{"load_safetensors", load_safetensors},
                                             {"safetensors_names", safetensors_names},
                                             {"save_safetensors", save_safetensors},
                                             {NULL, NULL}};

void lt_open_safetensors(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", json_gc}, {NULL, NULL}};
  lb_class(L, JSON_CLASS, meta, NULL);
}
