/* Tensor objects: memory, properties, single elements, views, conversions of the whole. */
#include "tensor.h"

#include <string.h>

bool lt_layout(lt_tensor *t) {
  int64_t bytes = isa_dtype_bytes(t->dtype), dense = bytes;
  bool empty = false, fits = true;
  t->size = 1;
  /* From the last dimension on, which lies closest together. */
  for (unsigned d = t->ndim; d-- > 0;) {
    int64_t n = t->shape[d];
    t->stride[d] = dense;
    if (n == 0) empty = true;
    /* A dimension of 0 does not hide that the others are too large.
     * Half of the range, so that strides can be added without overflow. */
    if (n > 0 && dense > (PTRDIFF_MAX / 2) / n) fits = false;
    if (n > 0 && fits) dense *= n;
  }
  t->size = empty ? 0 : dense / bytes;
  return fits;
}

/* Pushes a tensor without memory. */
static lt_tensor *new_empty(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape) {
  /* One user value: the memory. */
  lt_tensor *t = lua_newuserdatauv(L, sizeof *t, 1);
  memset(t, 0, sizeof *t);
  t->dtype = dtype;
  t->ndim = ndim;
  if (ndim > 0) memcpy(t->shape, shape, ndim * sizeof *shape);
  /* Before any memory is asked for. */
  if (!lt_layout(t)) luaL_error(L, "%s is too large for this host", lt_push_type(L, t));
  return t;
}

lt_tensor *lt_new_on(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape, int storage,
                     unsigned char *data) {
  lt_tensor *t = new_empty(L, dtype, ndim, shape);
  t->data = data;
  /* The storage lives as long as the last tensor on it. */
  lua_pushvalue(L, storage);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, LT_NAME);
  return t;
}

lt_tensor *lt_new(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape) {
  lt_tensor *t = new_empty(L, dtype, ndim, shape);
  size_t bytes = (size_t)t->size * isa_dtype_bytes(dtype);
  /* One byte for an empty tensor, so that data is never NULL. */
  t->data = lt_push_zeros(L, bytes > 0 ? bytes : 1);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, LT_NAME);
  return t;
}

lt_tensor *lt_alias(lua_State *L, int index) {
  /* Read before anything is pushed: the index may be relative. */
  const lt_tensor *from = lua_touserdata(L, index);
  index = lua_absindex(L, index);
  lt_tensor *t = lua_newuserdatauv(L, sizeof *t, 1);
  *t = *from;
  lua_getiuservalue(L, index, 1);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, LT_NAME);
  return t;
}

lt_tensor *lt_check(lua_State *L, int arg) { return luaL_checkudata(L, arg, LT_NAME); }
lt_tensor *lt_test(lua_State *L, int arg) { return luaL_testudata(L, arg, LT_NAME); }

bool lt_dense(const lt_tensor *t) {
  int64_t dense = isa_dtype_bytes(t->dtype);
  if (t->size == 0) return true;
  /* Strides of a dense tensor follow from the shape. */
  for (unsigned d = t->ndim; d-- > 0; dense *= t->shape[d])
    /* The stride of a single element is never taken. */
    if (t->shape[d] != 1 && t->stride[d] != dense) return false;
  return true;
}

lt_tensor *lt_make_dense(lua_State *L, int arg) {
  lt_tensor *t = lt_check(L, arg);
  if (lt_dense(t)) return t;
  lt_tensor *copy = lt_new(L, t->dtype, t->ndim, t->shape);
  lt_copy(L, copy, t, 0);
  /* The argument is replaced, so that the copy lives as long as it is needed. */
  lua_replace(L, arg);
  return copy;
}

const char *lt_push_type(lua_State *L, const lt_tensor *t) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, isa_dtypes[t->dtype].name);
  luaL_addchar(&b, '[');
  /* As Python writes types: name[shape]. */
  for (unsigned d = 0; d < t->ndim; d++) {
    char text[32];
    snprintf(text, sizeof text, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
    luaL_addstring(&b, text);
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}

unsigned lt_check_shape(lua_State *L, int arg, int64_t *shape) {
  /* A number is a vector's length. */
  if (lua_type(L, arg) == LUA_TNUMBER) {
    shape[0] = luaL_checkinteger(L, arg);
    luaL_argcheck(L, shape[0] >= 0, arg, "a dimension is negative");
    return 1;
  }
  luaL_checktype(L, arg, LUA_TTABLE);
  lua_Unsigned n = lua_rawlen(L, arg);
  luaL_argcheck(L, n <= LT_DIMS, arg, "more than 8 dimensions");
  for (unsigned d = 0; d < n; d++) {
    int exact;
    lua_rawgeti(L, arg, (lua_Integer)d + 1);
    shape[d] = lua_tointegerx(L, -1, &exact);
    /* Strings that look like numbers are refused. */
    bool number = lua_type(L, -1) == LUA_TNUMBER;
    if (!exact || !number || shape[d] < 0)
      luaL_argerror(L, arg,
                    lua_pushfstring(L, "dimension %d is %s%s, not an integer of at least 0", (int)d,
                                    number ? "" : "the ",
                                    number ? luaL_tolstring(L, -1, NULL) : luaL_typename(L, -1)));
    lua_pop(L, 1);
  }
  return (unsigned)n;
}

int lt_check_axis(lua_State *L, int arg, const lt_tensor *t) {
  if (lua_isnoneornil(L, arg)) return -1;
  lua_Integer axis = luaL_checkinteger(L, arg), n = t->ndim;
  if (axis < -n || axis >= n)
    luaL_argerror(
        L, arg,
        lua_pushfstring(L, "axis %I of a tensor with %d dimensions", (LUAI_UACINT)axis, (int)n));
  /* From the end: -1 is the last. */
  return (int)(axis < 0 ? axis + n : axis);
}

/* ---- Single elements ----------------------------------------------------------------------- */

int64_t lt_check_index(lua_State *L, int index, const lt_tensor *t, unsigned d) {
  int exact;
  lua_Integer i = lua_tointegerx(L, index, &exact);
  /* Strings that look like numbers are refused here as well. */
  if (!exact || lua_type(L, index) != LUA_TNUMBER)
    luaL_error(L, "index %d is %s, not an integer", (int)d, luaL_tolstring(L, index, NULL));
  if (i < 0 || i >= t->shape[d])
    luaL_error(L, "index %I is outside dimension %d of %s (0 to %I)", (LUAI_UACINT)i, (int)d,
               /* Both ends of what is allowed. */
               lt_push_type(L, t), (LUAI_UACINT)t->shape[d] - 1);
  return i;
}

static void check_indices(lua_State *L, const lt_tensor *t, lua_Integer n) {
  /* An element needs all of its indices. */
  if (n != (lua_Integer)t->ndim)
    luaL_error(L, "%I indices for %s, which has %d dimensions", (LUAI_UACINT)n, lt_push_type(L, t),
               (int)t->ndim);
}

/* Says so where the table at index has no element, but is what means rows in soma.kernel: {first,
 * count}. */
static void refuse_range(lua_State *L, const lt_tensor *t, int index) {
  lua_Integer part[2] = {0, 0};
  /* Two numbers could be a range of rows. */
  int exact = lua_rawlen(L, index) == 2;
  for (int i = 0; i < 2 && exact; i++) {
    lua_rawgeti(L, index, i + 1);
    part[i] = lua_tointegerx(L, -1, &exact);
    lua_pop(L, 1);
  }
  lua_Integer from = part[0], n = part[1], rows = t->ndim ? t->shape[0] : 0;
  if (!exact || from < 0 || n < 1 || from > rows || n > rows - from) return;
  /* What could be an element as well may be meant as one.
   * A row and a column that exist. */
  if (t->ndim == 2 && from < rows && n < t->shape[1]) return;
  luaL_error(L,
             "%s has no element {%I, %I}; for %I rows from row %I on write t:slice {%I, %I} (only "
             "in soma.kernel is t[{first, count}] rows)",
             lt_push_type(L, t), (LUAI_UACINT)from, (LUAI_UACINT)n, (LUAI_UACINT)n,
             (LUAI_UACINT)from, (LUAI_UACINT)from, (LUAI_UACINT)(from + n));
}

int64_t lt_element_at(lua_State *L, const lt_tensor *t, int first, int n) {
  int64_t at = 0;
  bool table = n == 1 && lua_type(L, first) == LUA_TTABLE;
  if (table) refuse_range(L, t, first);
  /* Indices one by one, or all in a table. */
  check_indices(L, t, table ? (lua_Integer)lua_rawlen(L, first) : n);
  for (unsigned d = 0; d < t->ndim; d++) {
    if (table) lua_rawgeti(L, first, (lua_Integer)d + 1);
    at += t->stride[d] * lt_check_index(L, table ? -1 : first + (int)d, t, d);
    if (table) lua_pop(L, 1);
  }
  return at;
}

/* t:get(i, j, ...) */
static int tensor_get(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  /* Behind the tensor all arguments are indices. */
  lt_push_element(L, t->dtype, t->data + lt_element_at(L, t, 2, lua_gettop(L) - 1));
  return 1;
}

/* t:set(i, j, ..., value) */
static int tensor_set(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int top = lua_gettop(L);
  luaL_argcheck(L, top >= 2, 2, "indices and a value expected");
  /* The last argument is the value. */
  lt_set_element(L, top, t->dtype, t->data + lt_element_at(L, t, 2, top - 2));
  lua_settop(L, 1);
  return 1;
}

/* ---- Conversions of the whole -------------------------------------------------------------- */

/* Packs four elements of the last dimension into one, or takes them apart. */
static void convert_packed(const lt_tensor *d, const lt_tensor *s) {
  bool pack = lt_class_of(d->dtype) == LT_PACKED;
  unsigned type = pack ? d->dtype : s->dtype, bytes = isa_dtype_bytes(type);
  unsigned lanes = isa_dtypes[type].lanes, width = isa_dtypes[type].bits / lanes;
  /* The type of one lane decides how wide the other side is. */
  unsigned wide = isa_dtype_bytes(pack ? s->dtype : d->dtype);
  int64_t n = pack ? d->size : s->size;
  for (int64_t i = 0; i < n; i++) {
    /* Packed words hold their lanes with the first in the low bits. */
    uint64_t bits = pack ? 0 : lt_get_bits(s->data + i * bytes, bytes);
    for (unsigned lane = 0; lane < lanes; lane++) {
      int64_t at = (i * lanes + lane) * wide;
      if (pack) {
        double v;
        lt_load_f64(s->dtype, s->data + at, 0, 1, &v);
        bits |= (uint64_t)isa_lane_from_f32(type, (float)v) << (lane * width);
      } else {
        double v = (double)isa_lane_to_f32(type, (uint32_t)bits, lane);
        lt_store_f64(d->dtype, d->data + at, 0, 1, &v);
      }
    }
    if (pack) lt_put_bits(d->data + i * bytes, bytes, bits);
  }
}

static int astype_packed(lua_State *L, unsigned dtype) {
  /* Packing goes over the bytes in order, so they have to be dense. */
  lt_tensor *s = lt_make_dense(L, 1);
  bool pack = lt_class_of(dtype) == LT_PACKED;
  int64_t shape[LT_DIMS], lanes = isa_dtypes[pack ? dtype : s->dtype].lanes;
  memcpy(shape, s->shape, sizeof shape);
  /* Two packed types have no common lanes. */
  if (pack && lt_class_of(s->dtype) == LT_PACKED)
    return luaL_error(L, "astype: from %s to %s: go through float32", isa_dtypes[s->dtype].name,
                      isa_dtypes[dtype].name);
  if (s->ndim == 0 || (pack && shape[s->ndim - 1] % lanes != 0))
    return luaL_error(L,
                      "astype: the last dimension of %s is not a multiple of %d, the lanes of %s",
                      lt_push_type(L, s), (int)lanes, isa_dtypes[dtype].name);
  /* Four elements become one, or one four. */
  int64_t *last = &shape[s->ndim - 1];
  *last = pack ? *last / lanes : *last * lanes;
  convert_packed(lt_new(L, dtype, s->ndim, shape), s);
  return 1;
}

/* t:astype(dtype, {saturate}): a new tensor, converted as the machine does. Packed types hold
 * four elements of the last dimension in one. */
static int tensor_astype(lua_State *L) {
  static const char *const known[] = {"saturate", NULL};
  const lt_tensor *t = lt_check(L, 1);
  unsigned dtype = lb_dtype(L, 2);
  lb_options(L, 3, "astype", known);
  unsigned cvt = lb_bool(L, 3, "astype", "saturate", false) ? ISA_CVT_saturate : 0;
  bool packed = lt_class_of(dtype) == LT_PACKED || lt_class_of(t->dtype) == LT_PACKED;
  /* The same packed type is only copied. */
  if (packed && dtype != t->dtype) return astype_packed(L, dtype);
  lt_copy(L, lt_new(L, dtype, t->ndim, t->shape), t, cvt);
  return 1;
}

/* t:copy(): a dense copy with memory of its own. */
static int tensor_copy(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  lt_copy(L, lt_new(L, t->dtype, t->ndim, t->shape), t, 0);
  return 1;
}

/* t:fill(value) */
static int tensor_fill(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  /* One element that the copy repeats. */
  lt_tensor one = {.size = 1, .dtype = t->dtype};
  unsigned char element[8];
  lt_set_element(L, 2, t->dtype, element);
  one.data = element;
  lt_copy(L, t, &one, 0);
  lua_settop(L, 1);
  return 1;
}

/* t:assign(source): copies, broadcasting and converting; t may be a slice. */
static int tensor_assign(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1), *s = lt_check(L, 2);
  int64_t shape[LT_DIMS];
  /* The source may be smaller, not the target. */
  unsigned ndim = lt_broadcast(L, "assign", t, s, shape);
  if (ndim != t->ndim || memcmp(shape, t->shape, ndim * sizeof *shape) != 0)
    return luaL_error(L, "assign: %s does not fit in %s", lt_push_type(L, s), lt_push_type(L, t));
  lua_getiuservalue(L, 1, 1);
  lua_getiuservalue(L, 2, 1);
  /* The same memory under both: overlapping parts would read what was just written. */
  if (lua_rawequal(L, -1, -2)) { /* they may overlap */
    lt_tensor *copy = lt_new(L, s->dtype, s->ndim, s->shape);
    lt_copy(L, copy, s, 0);
    s = copy;
  }
  lt_copy(L, t, s, 0);
  lua_settop(L, 1);
  return 1;
}

/* t:bytes(): the elements in row-major order, little-endian. */
static int tensor_bytes(lua_State *L) {
  /* A copy in the right order, if it is not so already. */
  const lt_tensor *t = lt_make_dense(L, 1);
  lua_pushlstring(L, (const char *)t->data, (size_t)t->size * isa_dtype_bytes(t->dtype));
  return 1;
}

static void push_list(lua_State *L, const lt_tensor *t, unsigned d, const unsigned char *p) {
  if (d == t->ndim) {
    lt_push_element(L, t->dtype, p);
    return;
  }
  /* One more table on the stack for each dimension. */
  luaL_checkstack(L, 2, "tolist");
  /* The size is only a hint: a huge one must not take the memory at once. */
  lua_createtable(L, t->shape[d] < 1 << 20 ? (int)t->shape[d] : 0, 0);
  for (int64_t i = 0; i < t->shape[d]; i++) {
    push_list(L, t, d + 1, p + i * t->stride[d]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* t:tolist(): nested tables. */
static int tensor_tolist(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  push_list(L, t, 0, t->data);
  return 1;
}

/* ---- Properties ---------------------------------------------------------------------------- */

bool lt_push_property(lua_State *L, const lt_tensor *t, const char *key) {
  /* Fields first, then methods. */
  if (strcmp(key, "shape") == 0)
    lb_push_shape(L, t->ndim, t->shape);
  else if (strcmp(key, "dtype") == 0)
    lua_pushstring(L, isa_dtypes[t->dtype].name);
  else if (strcmp(key, "ndim") == 0)
    lua_pushinteger(L, t->ndim);
  else if (strcmp(key, "size") == 0)
    lua_pushinteger(L, t->size);
  else if (strcmp(key, "nbytes") == 0)
    lua_pushinteger(L, t->size * isa_dtype_bytes(t->dtype));
  else if (strcmp(key, "device") == 0)
    lua_pushliteral(L, "cpu");
  else
    return false;
  return true;
}

/* t.property, t.method; t[i] is element i of a vector, else a view of row i; t[{i, j}]. */
static int tensor_index(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int type = lua_type(L, 2);
  /* A row of a matrix is a tensor on the same memory. */
  if (type == LUA_TNUMBER && t->ndim > 1) return lt_row(L, t);
  if (type == LUA_TNUMBER || type == LUA_TTABLE) {
    lt_push_element(L, t->dtype, t->data + lt_element_at(L, t, 2, 1));
    return 1;
  }
  if (type != LUA_TSTRING)
    return luaL_error(L, "a tensor has no index of type %s", luaL_typename(L, 2));
  if (lt_push_property(L, t, lua_tostring(L, 2))) return 1;
  lua_pushvalue(L, 2);
  /* Methods are in the upvalue's table. */
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return luaL_error(L, "a tensor has no field or method '%s'", lua_tostring(L, 2));
}

static int tensor_newindex(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int type = lua_type(L, 2);
  /* A name would hide a field that is computed. */
  if (type != LUA_TNUMBER && type != LUA_TTABLE)
    return luaL_error(L, "a tensor's fields cannot be set");
  lt_set_element(L, 3, t->dtype, t->data + lt_element_at(L, t, 2, 1));
  return 0;
}

/* #t: the first dimension. */
static int tensor_len(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  if (t->ndim == 0) return luaL_error(L, "a tensor of no dimensions has no length");
  lua_pushinteger(L, t->shape[0]);
  return 1;
}

static const luaL_Reg methods[] = {
    {"get", tensor_get},     {"set", tensor_set},       {"astype", tensor_astype},
    {"copy", tensor_copy},   {"fill", tensor_fill},     {"assign", tensor_assign},
    {"bytes", tensor_bytes}, {"tolist", tensor_tolist}, {NULL, NULL}};

/* ---- Devices ------------------------------------------------------------------------------- */

#define DEVICES "soma.tensor_devices"

/* One table of functions for the whole state. */
const lt_devices *lt_get_devices(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, DEVICES);
  const lt_devices *d = lua_touserdata(L, -1);
  lua_pop(L, 1); /* the registry keeps it */
  return d;
}

int lt_place(lua_State *L, int device, const char *what) {
  /* Nothing to do for the host. */
  if (device != LB_CPU) lt_get_devices(L)->move(L, device, what);
  return 1;
}

bool lt_call_device(lua_State *L, const char *name) {
  const lt_devices *d = lt_get_devices(L);
  int top = lua_gettop(L);
  bool any = false;
  /* The first device tensor decides. */
  for (int i = 1; i <= top && !any; i++) any = d->is_device(L, i);
  if (any) d->call(L, name, top);
  return any;
}

/* Called once, with the methods of other folders. */
void lt_open(lua_State *L, const luaL_Reg *more, const lt_devices *devices) {
  static const luaL_Reg meta[] = {{"__newindex", tensor_newindex},
                                  {"__len", tensor_len},
                                  {"__tostring", lt_tostring},
                                  {NULL, NULL}};
  lt_open_storage(L);
  const luaL_Reg *const lists[] = {methods,
                                   lt_view_methods,
                                   lt_op_methods,
                                   lt_math_methods,
                                   lt_reduce_methods,
                                   lt_print_methods,
                                   lt_npy_methods,
                                   more,
                                   NULL};
  lb_object(L, LT_NAME, meta, tensor_index, lists);
  luaL_getmetatable(L, LT_NAME);
  luaL_setfuncs(L, lt_op_meta, 0);
  lua_pop(L, 1);
  lt_devices *d = lua_newuserdatauv(L, sizeof *d, 0);
  *d = *devices;
  lua_setfield(L, LUA_REGISTRYINDEX, DEVICES);
}
