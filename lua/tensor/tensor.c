/* Tensor objects: memory, properties, single elements, views, conversions of the whole. */
#include "tensor.h"

#include <string.h>

bool lt_layout(lt_tensor *t) {
  int64_t bytes = isa_dtype_bytes(t->dtype), dense = bytes;
  bool empty = false, fits = true;
  t->size = 1;
  for (unsigned d = t->ndim; d-- > 0;) {
    int64_t n = t->shape[d];
    t->stride[d] = dense;
    if (n == 0) empty = true;
    if (n > 0 && dense > (PTRDIFF_MAX / 2) / n) fits = false;
    if (n > 0 && fits) dense *= n;
  }
  t->size = empty ? 0 : dense / bytes;
  return fits;
}

/* Pushes a tensor without memory. */
static lt_tensor *new_empty(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape) {
  lt_tensor *t = lua_newuserdatauv(L, sizeof *t, 1);
  memset(t, 0, sizeof *t);
  t->dtype = dtype;
  t->ndim = ndim;
  if (ndim > 0) memcpy(t->shape, shape, ndim * sizeof *shape);
  if (!lt_layout(t)) luaL_error(L, "%s is too large for this host", lt_push_type(L, t));
  return t;
}

lt_tensor *lt_new_on(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape, int storage,
                     unsigned char *data) {
  lt_tensor *t = new_empty(L, dtype, ndim, shape);
  t->data = data;
  lua_pushvalue(L, storage);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, LT_NAME);
  return t;
}

lt_tensor *lt_new(lua_State *L, unsigned dtype, unsigned ndim, const int64_t *shape) {
  lt_tensor *t = new_empty(L, dtype, ndim, shape);
  size_t bytes = (size_t)t->size * isa_dtype_bytes(dtype);
  t->data = lt_push_zeros(L, bytes > 0 ? bytes : 1);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, LT_NAME);
  return t;
}

lt_tensor *lt_alias(lua_State *L, int index) {
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
  for (unsigned d = t->ndim; d-- > 0; dense *= t->shape[d])
    if (t->shape[d] != 1 && t->stride[d] != dense) return false;
  return true;
}

lt_tensor *lt_make_dense(lua_State *L, int arg) {
  lt_tensor *t = lt_check(L, arg);
  if (lt_dense(t)) return t;
  lt_tensor *copy = lt_new(L, t->dtype, t->ndim, t->shape);
  lt_copy(L, copy, t, 0);
  lua_replace(L, arg);
  return copy;
}

const char *lt_push_type(lua_State *L, const lt_tensor *t) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, isa_dtypes[t->dtype].name);
  luaL_addchar(&b, '[');
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
  return (int)(axis < 0 ? axis + n : axis);
}

/* ---- Single elements ----------------------------------------------------------------------- */

static int64_t check_index(lua_State *L, int index, const lt_tensor *t, unsigned d) {
  int exact;
  lua_Integer i = lua_tointegerx(L, index, &exact);
  if (!exact || lua_type(L, index) != LUA_TNUMBER)
    luaL_error(L, "index %d is %s, not an integer", (int)d, luaL_tolstring(L, index, NULL));
  if (i < 0 || i >= t->shape[d])
    luaL_error(L, "index %I is outside dimension %d of %s (0 to %I)", (LUAI_UACINT)i, (int)d,
               lt_push_type(L, t), (LUAI_UACINT)t->shape[d] - 1);
  return i;
}

static void check_indices(lua_State *L, const lt_tensor *t, lua_Integer n) {
  if (n != (lua_Integer)t->ndim)
    luaL_error(L, "%I indices for %s, which has %d dimensions", (LUAI_UACINT)n, lt_push_type(L, t),
               (int)t->ndim);
}

/* Element at the n indices from stack position first, or in the table there. */
static unsigned char *element_at(lua_State *L, const lt_tensor *t, int first, int n) {
  unsigned char *p = t->data;
  bool table = n == 1 && lua_type(L, first) == LUA_TTABLE;
  check_indices(L, t, table ? (lua_Integer)lua_rawlen(L, first) : n);
  for (unsigned d = 0; d < t->ndim; d++) {
    if (table) lua_rawgeti(L, first, (lua_Integer)d + 1);
    p += t->stride[d] * check_index(L, table ? -1 : first + (int)d, t, d);
    if (table) lua_pop(L, 1);
  }
  return p;
}

/* t:get(i, j, ...) */
static int tensor_get(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  lt_push_element(L, t->dtype, element_at(L, t, 2, lua_gettop(L) - 1));
  return 1;
}

/* t:set(i, j, ..., value) */
static int tensor_set(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int top = lua_gettop(L);
  luaL_argcheck(L, top >= 2, 2, "indices and a value expected");
  lt_set_element(L, top, t->dtype, element_at(L, t, 2, top - 2));
  lua_settop(L, 1);
  return 1;
}

/* ---- Views --------------------------------------------------------------------------------- */

static lua_Integer range_part(lua_State *L, int range, int i, lua_Integer fallback, unsigned d) {
  int exact;
  if (lua_rawgeti(L, range, i) == LUA_TNIL) {
    lua_pop(L, 1);
    return fallback;
  }
  lua_Integer v = lua_tointegerx(L, -1, &exact);
  if (!exact) luaL_error(L, "slice: the range of dimension %d must hold integers", (int)d);
  lua_pop(L, 1);
  return v;
}

/* Narrows dimension d of t by the value at index: an integer drops it, {lo, hi, step} keeps. */
static void slice_dim(lua_State *L, int index, lt_tensor *t, unsigned d, const lt_tensor *from) {
  int64_t n = from->shape[d];
  if (lua_isnil(L, index)) index = 0;
  if (index != 0 && lua_type(L, index) == LUA_TNUMBER) {
    t->data += from->stride[d] * check_index(L, index, from, d);
    return;
  }
  int64_t lo = 0, hi = n, step = 1;
  if (index != 0) {
    if (lua_type(L, index) != LUA_TTABLE)
      luaL_error(L, "slice: dimension %d: an integer or {lo, hi, step} expected, got %s", (int)d,
                 luaL_typename(L, index));
    lo = range_part(L, index, 1, 0, d);
    hi = range_part(L, index, 2, n, d);
    step = range_part(L, index, 3, 1, d);
  }
  if (lo < 0 || lo > hi || hi > n || step < 1)
    luaL_error(L, "slice: {%I, %I, %I} of dimension %d of %s: needs 0 <= lo <= hi <= %I, step >= 1",
               (LUAI_UACINT)lo, (LUAI_UACINT)hi, (LUAI_UACINT)step, (int)d, lt_push_type(L, from),
               (LUAI_UACINT)n);
  if (hi > lo) t->data += from->stride[d] * lo;
  int64_t count = hi == lo ? 0 : (hi - lo - 1) / step + 1;
  t->shape[t->ndim] = count;
  t->stride[t->ndim] = count > 1 ? from->stride[d] * step : from->stride[d];
  t->ndim++;
}

static bool is_list_of_ranges(lua_State *L, int arg) {
  lua_Unsigned n = lua_rawlen(L, arg);
  bool found = false;
  for (lua_Unsigned i = 1; i <= n && !found; i++) {
    found = lua_rawgeti(L, arg, (lua_Integer)i) == LUA_TTABLE;
    lua_pop(L, 1);
  }
  return found;
}

static void recount(lt_tensor *t) {
  t->size = 1;
  for (unsigned d = 0; d < t->ndim; d++) t->size *= t->shape[d];
}

/* t:slice(range, ...), or one table of ranges. A range is {lo, hi}, {lo, hi, step}, {} for all,
 * or an integer, which drops the dimension; dimensions not named are kept whole. */
static int tensor_slice(lua_State *L) {
  lt_check(L, 1);
  if (lua_gettop(L) == 2 && lua_type(L, 2) == LUA_TTABLE && is_list_of_ranges(L, 2)) {
    int n = (int)lua_rawlen(L, 2);
    luaL_argcheck(L, n <= LT_DIMS, 2, "too many ranges");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
    lua_remove(L, 2);
  }
  const lt_tensor *from = lt_check(L, 1);
  int top = lua_gettop(L);
  if (top - 1 > (int)from->ndim)
    return luaL_error(L, "slice: %d ranges for %s", top - 1, lt_push_type(L, from));
  lt_tensor *t = lt_alias(L, 1);
  t->ndim = 0;
  lua_pushnil(L);
  for (unsigned d = 0; d < from->ndim; d++)
    slice_dim(L, (int)d + 2 <= top ? (int)d + 2 : top + 2, t, d, from);
  recount(t);
  lua_settop(L, top + 1);
  return 1;
}

/* t:reshape(shape): one dimension may be -1. Shares memory when t is dense, else a copy. */
static int tensor_reshape(lua_State *L) {
  lt_tensor *t = lt_check(L, 1);
  int64_t shape[LT_DIMS] = {0}, known = 1;
  int open = -1;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Unsigned n = lua_rawlen(L, 2);
  luaL_argcheck(L, n <= LT_DIMS, 2, "more than 8 dimensions");
  for (unsigned d = 0; d < n; d++) {
    int exact;
    lua_rawgeti(L, 2, (lua_Integer)d + 1);
    shape[d] = lua_tointegerx(L, -1, &exact);
    luaL_argcheck(L, exact && shape[d] >= -1, 2, "a dimension is not an integer of at least -1");
    luaL_argcheck(L, shape[d] != -1 || open < 0, 2, "more than one dimension is -1");
    if (shape[d] == -1)
      open = (int)d;
    else if (shape[d] > 1 && known > PTRDIFF_MAX / shape[d])
      known = -1;
    else if (known >= 0)
      known *= shape[d];
    lua_pop(L, 1);
  }
  if (open >= 0 && known > 0) {
    shape[open] = t->size / known;
    known *= shape[open];
  }
  lt_tensor want = {.dtype = t->dtype, .ndim = (unsigned)n};
  memcpy(want.shape, shape, n * sizeof *shape);
  if (known != t->size || (open >= 0 && shape[open] < 0) || !lt_layout(&want))
    return luaL_error(L, "reshape: %s has %I elements, which are not those of %s",
                      lt_push_type(L, t), (LUAI_UACINT)t->size, lt_push_type(L, &want));
  want.data = lt_make_dense(L, 1)->data;
  *lt_alias(L, 1) = want;
  return 1;
}

/* t:transpose(axis, ...): dimension i of the result is dimension axis i of t; without arguments
 * the order is reversed. Shares memory. */
static int tensor_transpose(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int n = lua_gettop(L) - 1, first = 2;
  if (n == 1 && lua_type(L, 2) == LUA_TTABLE) {
    n = (int)lua_rawlen(L, 2);
    luaL_argcheck(L, n <= LT_DIMS, 2, "too many axes");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
    first = 3;
  }
  if (n > 0 && n != (int)t->ndim)
    return luaL_error(L, "transpose: %d axes for %s", n, lt_push_type(L, t));
  unsigned seen = 0;
  int axes[LT_DIMS] = {0};
  for (int d = 0; d < (int)t->ndim; d++) {
    axes[d] = n > 0 ? lt_check_axis(L, first + d, t) : (int)t->ndim - 1 - d;
    luaL_argcheck(L, axes[d] >= 0 && !(seen >> axes[d] & 1), 2,
                  "an axis is missing or given twice");
    seen |= 1u << axes[d];
  }
  lt_tensor *v = lt_alias(L, 1);
  for (unsigned d = 0; d < t->ndim; d++) {
    v->shape[d] = t->shape[axes[d]];
    v->stride[d] = t->stride[axes[d]];
  }
  return 1;
}

/* t:view(dtype): the same bytes as another type. With another element size the last dimension
 * grows or shrinks, and must be dense. */
static int tensor_view(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  unsigned dtype = lb_dtype(L, 2);
  int64_t from = isa_dtype_bytes(t->dtype), to = isa_dtype_bytes(dtype);
  lt_tensor *v = lt_alias(L, 1);
  v->dtype = dtype;
  if (from == to) return 1;
  unsigned last = t->ndim - 1;
  if (t->ndim == 0 || (t->shape[last] != 1 && t->stride[last] != from) ||
      t->shape[last] * from % to != 0)
    return luaL_error(L, "view: the last dimension of %s is not a dense multiple of %d bytes",
                      lt_push_type(L, t), (int)to);
  v->shape[last] = t->shape[last] * from / to;
  v->stride[last] = to;
  recount(v);
  return 1;
}

/* ---- Conversions of the whole -------------------------------------------------------------- */

/* Packs four elements of the last dimension into one, or takes them apart. */
static void convert_packed(const lt_tensor *d, const lt_tensor *s) {
  bool pack = lt_class_of(d->dtype) == LT_PACKED;
  unsigned type = pack ? d->dtype : s->dtype, bytes = isa_dtype_bytes(type);
  unsigned lanes = isa_dtypes[type].lanes, width = isa_dtypes[type].bits / lanes;
  unsigned wide = isa_dtype_bytes(pack ? s->dtype : d->dtype);
  int64_t n = pack ? d->size : s->size;
  for (int64_t i = 0; i < n; i++) {
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
  lt_tensor *s = lt_make_dense(L, 1);
  bool pack = lt_class_of(dtype) == LT_PACKED;
  int64_t shape[LT_DIMS], lanes = isa_dtypes[pack ? dtype : s->dtype].lanes;
  memcpy(shape, s->shape, sizeof shape);
  if (pack && lt_class_of(s->dtype) == LT_PACKED)
    return luaL_error(L, "astype: from %s to %s: go through float32", isa_dtypes[s->dtype].name,
                      isa_dtypes[dtype].name);
  if (s->ndim == 0 || (pack && shape[s->ndim - 1] % lanes != 0))
    return luaL_error(L,
                      "astype: the last dimension of %s is not a multiple of %d, the lanes of %s",
                      lt_push_type(L, s), (int)lanes, isa_dtypes[dtype].name);
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
  unsigned ndim = lt_broadcast(L, "assign", t, s, shape);
  if (ndim != t->ndim || memcmp(shape, t->shape, ndim * sizeof *shape) != 0)
    return luaL_error(L, "assign: %s does not fit in %s", lt_push_type(L, s), lt_push_type(L, t));
  lua_getiuservalue(L, 1, 1);
  lua_getiuservalue(L, 2, 1);
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
  const lt_tensor *t = lt_make_dense(L, 1);
  lua_pushlstring(L, (const char *)t->data, (size_t)t->size * isa_dtype_bytes(t->dtype));
  return 1;
}

static void push_list(lua_State *L, const lt_tensor *t, unsigned d, const unsigned char *p) {
  if (d == t->ndim) {
    lt_push_element(L, t->dtype, p);
    return;
  }
  luaL_checkstack(L, 2, "tolist");
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
  if (type == LUA_TNUMBER && t->ndim > 1) {
    unsigned char *row = t->data + t->stride[0] * check_index(L, 2, t, 0);
    lt_tensor *v = lt_alias(L, 1);
    v->data = row;
    v->ndim--;
    memmove(v->shape, v->shape + 1, v->ndim * sizeof *v->shape);
    memmove(v->stride, v->stride + 1, v->ndim * sizeof *v->stride);
    recount(v);
    return 1;
  }
  if (type == LUA_TNUMBER || type == LUA_TTABLE) {
    lt_push_element(L, t->dtype, element_at(L, t, 2, 1));
    return 1;
  }
  if (type != LUA_TSTRING)
    return luaL_error(L, "a tensor has no index of type %s", luaL_typename(L, 2));
  if (lt_push_property(L, t, lua_tostring(L, 2))) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return luaL_error(L, "a tensor has no field or method '%s'", lua_tostring(L, 2));
}

static int tensor_newindex(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  int type = lua_type(L, 2);
  if (type != LUA_TNUMBER && type != LUA_TTABLE)
    return luaL_error(L, "a tensor's fields cannot be set");
  lt_set_element(L, 3, t->dtype, element_at(L, t, 2, 1));
  return 0;
}

/* #t: the first dimension. */
static int tensor_len(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  if (t->ndim == 0) return luaL_error(L, "a tensor of no dimensions has no length");
  lua_pushinteger(L, t->shape[0]);
  return 1;
}

const luaL_Reg lt_view_methods[] = {{"get", tensor_get},
                                    {"set", tensor_set},
                                    {"slice", tensor_slice},
                                    {"reshape", tensor_reshape},
                                    {"transpose", tensor_transpose},
                                    {"view", tensor_view},
                                    {"astype", tensor_astype},
                                    {"copy", tensor_copy},
                                    {"fill", tensor_fill},
                                    {"assign", tensor_assign},
                                    {"bytes", tensor_bytes},
                                    {"tolist", tensor_tolist},
                                    {NULL, NULL}};

#define MOVER "soma.tensor_mover"
typedef struct mover { /* a userdata: a function of C may not lie in a light one */
  lt_move_fn *to_device;
} mover;

int lt_place(lua_State *L, int device, const char *what) {
  if (device == LB_CPU) return 1;
  lua_getfield(L, LUA_REGISTRYINDEX, MOVER);
  const mover *m = lua_touserdata(L, -1);
  lua_pop(L, 1); /* the registry keeps it */
  m->to_device(L, device, what);
  return 1;
}

void lt_open(lua_State *L, const luaL_Reg *more, lt_move_fn *to_device) {
  static const luaL_Reg meta[] = {{"__newindex", tensor_newindex},
                                  {"__len", tensor_len},
                                  {"__tostring", lt_tostring},
                                  {NULL, NULL}};
  lt_open_storage(L);
  luaL_newmetatable(L, LT_NAME);
  luaL_setfuncs(L, meta, 0);
  luaL_setfuncs(L, lt_op_meta, 0);
  lua_newtable(L);
  luaL_setfuncs(L, lt_view_methods, 0);
  luaL_setfuncs(L, lt_op_methods, 0);
  luaL_setfuncs(L, lt_math_methods, 0);
  luaL_setfuncs(L, lt_reduce_methods, 0);
  luaL_setfuncs(L, lt_print_methods, 0);
  luaL_setfuncs(L, lt_npy_methods, 0);
  luaL_setfuncs(L, more, 0);
  lua_pushcclosure(L, tensor_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "protected");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
  mover *m = lua_newuserdatauv(L, sizeof *m, 0);
  m->to_device = to_device;
  lua_setfield(L, LUA_REGISTRYINDEX, MOVER);
}
