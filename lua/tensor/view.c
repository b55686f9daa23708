/* Views: slices, rows, other shapes and types of the same bytes, on the host and on a device. */
#include <string.h>

#include "tensor.h"

/* The tensor at 1, of the host or of a device, which has no data here. */
static const lt_tensor *check(lua_State *L) {
  const lt_tensor *t = lt_get_devices(L)->layout(L, 1);
  return t != NULL ? t : lt_check(L, 1);
}

/* Pushes what *as says of the bytes of the tensor at 1, from byte `shift` of its first element on.

 * The size follows from the shape; callers set only shape and strides. */
static int push_view(lua_State *L, lt_tensor *as, int64_t shift) {
  as->size = 1;
  for (unsigned d = 0; d < as->ndim; d++) as->size *= as->shape[d];
  const lt_tensor *t = lt_test(L, 1);
  if (t == NULL) {
    /* The device makes its own object. */
    lt_get_devices(L)->view(L, 1, as, shift);
    return 1;
  }
  as->data = t->data + shift;
  /* A second tensor on the same memory. */
  *lt_alias(L, 1) = *as;
  return 1;
}

static lua_Integer range_part(lua_State *L, int range, int i, lua_Integer fallback, unsigned d) {
  int exact;
  /* What is left out has a value that keeps everything. */
  if (lua_rawgeti(L, range, i) == LUA_TNIL) {
    lua_pop(L, 1);
    return fallback;
  }
  /* 2.0 is an integer, 2.5 is not. */
  lua_Integer v = lua_tointegerx(L, -1, &exact);
  if (!exact) luaL_error(L, "slice: the range of dimension %d must hold integers", (int)d);
  lua_pop(L, 1);
  return v;
}

/* Adds dimension d of from to t as the value at index narrows it: an integer drops it, {lo, hi,
 * step} keeps. Gives the bytes by which the first element moves. */
static int64_t slice_dim(lua_State *L, int index, lt_tensor *t, unsigned d, const lt_tensor *from) {
  int64_t n = from->shape[d];
  /* nil keeps the dimension whole. */
  if (lua_isnil(L, index)) index = 0;
  if (index != 0 && lua_type(L, index) == LUA_TNUMBER)
    /* The dimension is gone: nothing is added to t. */
    return from->stride[d] * lt_check_index(L, index, from, d);
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
  /* Rounded up: the last step may be a short one. */
  int64_t count = hi == lo ? 0 : (hi - lo - 1) / step + 1;
  t->shape[t->ndim] = count;
  /* A step between fewer than two is not taken, and might overflow. */
  t->stride[t->ndim] = count > 1 ? from->stride[d] * step : from->stride[d];
  t->ndim++;
  /* An empty range has no first element, so the place stays. */
  return hi > lo ? from->stride[d] * lo : 0;
}

static bool is_list_of_ranges(lua_State *L, int arg) {
  /* One table among the items is enough: a list of integers alone is a range itself. */
  lua_Unsigned n = lua_rawlen(L, arg);
  bool found = false;
  for (lua_Unsigned i = 1; i <= n && !found; i++) {
    found = lua_rawgeti(L, arg, (lua_Integer)i) == LUA_TTABLE;
    lua_pop(L, 1);
  }
  return found;
}

/* t:slice(range, ...), or one table of ranges. A range is {lo, hi}, {lo, hi, step}, {} for all,
 * or an integer, which drops the dimension; dimensions not named are kept whole. */
static int tensor_slice(lua_State *L) {
  /* For its error, before the ranges are looked at. */
  check(L);
  if (lua_gettop(L) == 2 && lua_type(L, 2) == LUA_TTABLE && is_list_of_ranges(L, 2)) {
    int n = (int)lua_rawlen(L, 2);
    luaL_argcheck(L, n <= LT_DIMS, 2, "too many ranges");
    /* Spread over the stack, as if they had been arguments. */
    for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
    lua_remove(L, 2);
  }
  const lt_tensor *from = check(L);
  int top = lua_gettop(L);
  if (top - 1 > (int)from->ndim)
    return luaL_error(L, "slice: %d ranges for %s", top - 1, lt_push_type(L, from));
  lt_tensor t = {.dtype = from->dtype};
  int64_t shift = 0;
  /* Stands for every dimension that was not named. */
  lua_pushnil(L);
  for (unsigned d = 0; d < from->ndim; d++)
    shift += slice_dim(L, (int)d + 2 <= top ? (int)d + 2 : top + 1, &t, d, from);
  return push_view(L, &t, shift);
}

int lt_row(lua_State *L, const lt_tensor *t) {
  /* The row's own place in the memory. */
  int64_t shift = t->stride[0] * lt_check_index(L, 2, t, 0);
  lt_tensor v = *t;
  v.ndim--;
  memmove(v.shape, v.shape + 1, v.ndim * sizeof *v.shape);
  memmove(v.stride, v.stride + 1, v.ndim * sizeof *v.stride);
  return push_view(L, &v, shift);
}

/* t:reshape(shape): one dimension may be -1. Shares memory when t is dense, else a copy. */
static int tensor_reshape(lua_State *L) {
  const lt_tensor *t = check(L);
  int64_t shape[LT_DIMS] = {0}, known = 1;
  /* -1: no dimension is left open. */
  int open = -1;
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Unsigned n = lua_rawlen(L, 2);
  luaL_argcheck(L, n <= LT_DIMS, 2, "more than 8 dimensions");
  for (unsigned d = 0; d < n; d++) {
    int exact;
    lua_rawgeti(L, 2, (lua_Integer)d + 1);
    shape[d] = lua_tointegerx(L, -1, &exact);
    luaL_argcheck(L, exact && shape[d] >= -1, 2, "a dimension is not an integer of at least -1");
    /* Two open dimensions could be chosen in many ways. */
    luaL_argcheck(L, shape[d] != -1 || open < 0, 2, "more than one dimension is -1");
    if (shape[d] == -1)
      open = (int)d;
    else if (shape[d] > 1 && known > PTRDIFF_MAX / shape[d])
      /* Too many: no tensor has -1 elements, so that it is refused below. */
      known = -1;
    else if (known >= 0)
      known *= shape[d];
    lua_pop(L, 1);
  }
  /* Zero elements would leave the open dimension undecided. */
  if (open >= 0 && known > 0) {
    shape[open] = t->size / known;
    known *= shape[open];
  }
  lt_tensor want = {.dtype = t->dtype, .ndim = (unsigned)n};
  memcpy(want.shape, shape, n * sizeof *shape);
  /* lt_layout also refuses a shape that is too large. */
  if (known != t->size || (open >= 0 && shape[open] < 0) || !lt_layout(&want))
    return luaL_error(L, "reshape: %s has %I elements, which are not those of %s",
                      lt_push_type(L, t), (LUAI_UACINT)t->size, lt_push_type(L, &want));
  if (lt_test(L, 1) != NULL)
    /* A dense copy takes t's place on the stack; views of it share that copy. */
    lt_make_dense(L, 1);
  else if (!lt_dense(t))
    /* There is no copy of a device tensor to make here. */
    return luaL_error(L, "reshape: %s is a view that is not dense: use t:copy() first",
                      lt_push_type(L, t));
  return push_view(L, &want, 0);
}

/* t:transpose(axis, ...): dimension i of the result is dimension axis i of t; without arguments
 * the order is reversed. Shares memory. */
static int tensor_transpose(lua_State *L) {
  const lt_tensor *t = check(L);
  /* Axes as arguments, or one table of them. */
  int n = lua_gettop(L) - 1, first = 2;
  if (n == 1 && lua_type(L, 2) == LUA_TTABLE) {
    n = (int)lua_rawlen(L, 2);
    luaL_argcheck(L, n <= LT_DIMS, 2, "too many axes");
    for (int i = 1; i <= n; i++) lua_rawgeti(L, 2, i);
    first = 3;
  }
  /* Each dimension has to come once. */
  if (n > 0 && n != (int)t->ndim)
    return luaL_error(L, "transpose: %d axes for %s", n, lt_push_type(L, t));
  /* A bit for each axis. */
  unsigned seen = 0;
  int axes[LT_DIMS] = {0};
  for (int d = 0; d < (int)t->ndim; d++) {
    axes[d] = n > 0 ? lt_check_axis(L, first + d, t) : (int)t->ndim - 1 - d;
    luaL_argcheck(L, axes[d] >= 0 && !(seen >> axes[d] & 1), 2,
                  "an axis is missing or given twice");
    seen |= 1u << axes[d];
  }
  /* Shapes and strides change places; the memory does not. */
  lt_tensor v = *t;
  for (unsigned d = 0; d < t->ndim; d++) {
    v.shape[d] = t->shape[axes[d]];
    v.stride[d] = t->stride[axes[d]];
  }
  return push_view(L, &v, 0);
}

/* t:view(dtype): the same bytes as another type. With another element size the last dimension
 * grows or shrinks, and must be dense. */
static int tensor_view(lua_State *L) {
  const lt_tensor *t = check(L);
  unsigned dtype = lb_dtype(L, 2);
  /* Sizes in bytes of one element. */
  int64_t from = isa_dtype_bytes(t->dtype), to = isa_dtype_bytes(dtype);
  lt_tensor v = *t;
  v.dtype = dtype;
  /* Sizes equal, strides stay, dense or not. */
  if (from == to) return push_view(L, &v, 0);
  unsigned last = t->ndim - 1;
  /* Only a dense row can be cut anew. */
  if (t->ndim == 0 || (t->shape[last] != 1 && t->stride[last] != from) ||
      t->shape[last] * from % to != 0)
    return luaL_error(L, "view: the last dimension of %s is not a dense multiple of %d bytes",
                      lt_push_type(L, t), (int)to);
  v.shape[last] = t->shape[last] * from / to;
  /* The other strides are in bytes already. */
  v.stride[last] = to;
  return push_view(L, &v, 0);
}

const luaL_Reg lt_view_methods[] = {{"slice", tensor_slice},
                                    {"reshape", tensor_reshape},
                                    {"transpose", tensor_transpose},
                                    {"view", tensor_view},
                                    {NULL, NULL}};
