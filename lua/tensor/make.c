/* Constructors: constants, ranges, random numbers, Lua tables, bytes, parts of other tensors. */
#include <string.h>

#include "dmath.h"
#include "tensor.h"

/* Options stand at `at`, after what may be left out: a table with names at one of the positions
 * from `first` on is moved there. Then nothing else may follow. */
static void options_at(lua_State *L, const char *what, int first, int at) {
  for (int i = first; i < at; i++) {
    /* A sequence is a shape or values, not options. */
    if (lua_type(L, i) != LUA_TTABLE || lua_rawlen(L, i) > 0) continue;
    lua_pushnil(L);
    if (lua_next(L, i) == 0) continue; /* an empty one is a shape */
    lua_pop(L, 2);
    /* What was left out becomes nil, so that all later positions are as documented. */
    for (; i < at; i++) {
      lua_pushnil(L);
      lua_insert(L, i);
    }
  }
  /* Trailing nils are allowed. */
  for (int i = lua_gettop(L); i > at; i--)
    if (!lua_isnil(L, i))
      luaL_error(L, "%s: argument %d, %s, is too many: the options come last", what, i,
                 luaL_tolstring(L, i, NULL));
}

/* The options of a constructor at `at` or before: the device it is for. */
static int plain_options(lua_State *L, int first, int at, const char *what) {
  static const char *const known[] = {"device", NULL};
  options_at(L, what, first, at);
  /* Without options a tensor is on the host. */
  return lb_options(L, at, what, known) ? lb_device_option(L, at, what) : LB_CPU;
}

/* How many elements of a new tensor are filled at a time, from element i on. */
static size_t part_of(const lt_tensor *t, int64_t i) {
  return t->size - i < LT_CHUNK ? (size_t)(t->size - i) : LT_CHUNK;
}

/* Pushes a new tensor, zeroed or filled with an element, where it shall be. */
static int make(lua_State *L, const char *what, int device, const lt_tensor *as,
                unsigned char *element) {
  if (device != LB_CPU) {
    lt_get_devices(L)->make(L, device, what, as, element);
    return 1;
  }
  lt_tensor one = {.data = element, .size = 1, .dtype = as->dtype};
  const lt_tensor *t = lt_new(L, as->dtype, as->ndim, as->shape);
  if (element != NULL) lt_copy(L, t, &one, 0);
  return 1;
}

static int make_zeroed(lua_State *L, const char *what) {
  int device = plain_options(L, 2, 3, what);
  lt_tensor as = {0};
  as.ndim = lt_check_shape(L, 1, as.shape);
  as.dtype = lb_dtype_or(L, 2, ISA_float32);
  return make(L, what, device, &as, NULL);
}

/* soma.zeros(shape, dtype="float32", {device}), and soma.empty, whose elements are zeros as well.
 */
static int make_zeros(lua_State *L) { return make_zeroed(L, "zeros"); }
static int make_empty(lua_State *L) { return make_zeroed(L, "empty"); }

static int make_filled(lua_State *L, int value, int dtype_arg, int device, const char *what) {
  lt_tensor as = {0};
  unsigned char element[8];
  as.ndim = lt_check_shape(L, 1, as.shape);
  as.dtype = lb_dtype_or(L, dtype_arg, ISA_float32);
  lt_set_element(L, value, as.dtype, element);
  return make(L, what, device, &as, element);
}

/* soma.full(shape, value, dtype="float32", {device}) */
static int make_full(lua_State *L) {
  int device = plain_options(L, 3, 4, "full");
  return make_filled(L, 2, 3, device, "full");
}

/* soma.ones(shape, dtype="float32", {device}) */
static int make_ones(lua_State *L) {
  int device = plain_options(L, 2, 3, "ones");
  /* The value comes behind the arguments. */
  lua_settop(L, 3);
  lua_pushinteger(L, 1);
  return make_filled(L, 4, 2, device, "ones");
}

/* soma.arange([start,] stop [, step] [, dtype] [, {device}]): start + i * step, below stop. int32
 * when all are Lua integers, else float32, unless a dtype is given. */
static int make_arange(lua_State *L) {
  int n = 0;
  /* Up to three numbers; what follows is the type or the options. */
  while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) n++;
  if (n == 0) luaL_typeerror(L, 1, "number");
  bool ints = true;
  for (int i = 1; i <= n; i++) ints = ints && lua_isinteger(L, i);
  int device = plain_options(L, n + 1, n + 2, "arange");
  unsigned dtype = lb_dtype_or(L, n + 1, ints ? ISA_int32 : ISA_float32);
  luaL_argcheck(L, lt_class_of(dtype) != LT_PACKED, n + 1, "arange cannot make packed types");
  double start = n > 1 ? lua_tonumber(L, 1) : 0, stop = lua_tonumber(L, n > 1 ? 2 : 1);
  double step = n > 2 ? lua_tonumber(L, 3) : 1;
  /* As many as fit below stop; a fraction counts as one more. */
  double exact = (stop - start) / step, count = dm_floor(exact);
  if (count < exact) count += 1;
  /* No host has room for more than 2^40 elements. */
  if (exact != exact || step == 0 || count > 0x1p40 || (step - step) != 0)
    return luaL_error(L, "arange: %f to %f by %f is not a finite range", start, stop, step);
  /* A range that goes the wrong way is empty. */
  int64_t shape[1] = {count > 0 ? (int64_t)count : 0};
  lt_tensor *t = lt_new(L, dtype, 1, shape);
  double v[LT_CHUNK];
  /* Part by part, so that no second array is needed. */
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t part = part_of(t, i);
    /* From the start each time: a sum would gather the errors of the steps before. */
    for (size_t k = 0; k < part; k++) v[k] = start + (double)(i + (int64_t)k) * step;
    lt_store_f64(dtype, t->data + i * t->stride[0], t->stride[0], part, v);
  }
  return lt_place(L, device, "arange");
}

/* ---- Random numbers ------------------------------------------------------------------------ */

/* xoshiro256** 1.0 (Blackman, Vigna), its state filled by splitmix64 from the seed. One 64-bit
 * number u per element, in row-major order; with p = (u >> 11) * 2^-53 in [0, 1):
 *   uniform  low + (high - low) * p, for integer types low + floor((high - low) * u / 2^64)
 *   randn    mean + std * quantile(p + 2^-54)
 * all in double, rounded once to the type. */
typedef struct random_state {
  uint64_t s[4];
} random_state;

/* Left rotation, which compilers turn into one instruction. */
static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static uint64_t random_next(random_state *r) {
  uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return result;
}

static random_state random_seed(uint64_t seed) {
  random_state r;
  /* splitmix64: any seed gives a good state, also 0. */
  for (int i = 0; i < 4; i++) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    r.s[i] = z ^ (z >> 31);
  }
  return r;
}

/* The upper 64 bits of a product of 128, from four of 32. */
static uint64_t high_product(uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (uint32_t)mid;
  return ah * bh + (mid >> 32) + (mid2 >> 32);
}

static lt_tensor *random_tensor(lua_State *L, const char *what, const char *const *known,
                                random_state *r, int *device) {
  int64_t shape[LT_DIMS] = {0};
  /* shape, dtype and then the options. */
  options_at(L, what, 2, 3);
  unsigned ndim = lt_check_shape(L, 1, shape), dtype = lb_dtype_or(L, 2, ISA_float32);
  luaL_argcheck(L, lt_class_of(dtype) != LT_PACKED, 2, "no packed types: use astype");
  /* A seed from the clock would make failures unrepeatable. */
  if (!lb_options(L, 3, what, known) || lb_option(L, 3, "seed") == LUA_TNIL)
    luaL_error(L, "%s: option 'seed' is required, so that runs can be repeated", what);
  *r = random_seed((uint64_t)lb_integer(L, 3, what, "seed", LUA_MININTEGER, LUA_MAXINTEGER, 0));
  *device = lb_device_option(L, 3, what);
  return lt_new(L, dtype, ndim, shape);
}

/* soma.randn(shape, dtype="float32", {seed, mean=0, std=1}) */
static int make_randn(lua_State *L) {
  static const char *const known[] = {"seed", "mean", "std", "device", NULL};
  random_state r;
  int device;
  lt_tensor *t = random_tensor(L, "randn", known, &r, &device);
  double mean = lb_number(L, 3, "randn", "mean", 0), std = lb_number(L, 3, "randn", "std", 1);
  unsigned bytes = isa_dtype_bytes(t->dtype);
  double v[LT_CHUNK];
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t n = part_of(t, i);
    /* Half a step up: the quantile of 0 is infinite. */
    for (size_t k = 0; k < n; k++) {
      double p = (double)(random_next(&r) >> 11) * 0x1p-53 + 0x1p-54;
      /* The last p rounds to 1, whose quantile is infinite. */
      v[k] = mean + std * dm_normal_quantile(p < 1 ? p : 1 - 0x1p-53);
    }
    lt_store_f64(t->dtype, t->data + i * bytes, bytes, n, v);
  }
  return lt_place(L, device, "randn");
}

static void uniform_ints(lua_State *L, const lt_tensor *t, random_state *r) {
  lua_Integer lo = lb_integer(L, 3, "uniform", "low", LUA_MININTEGER, LUA_MAXINTEGER, 0);
  lua_Integer hi = lb_integer(L, 3, "uniform", "high", LUA_MININTEGER, LUA_MAXINTEGER, 2);
  /* An empty range has nothing to choose from. */
  if (lo >= hi)
    luaL_error(L, "uniform: needs low < high, got %I and %I", (LUAI_UACINT)lo, (LUAI_UACINT)hi);
  unsigned char element[8];
  /* Only to ask whether the type holds the ends of the range. */
  lua_pushinteger(L, lo);
  lt_set_element(L, -1, t->dtype, element);
  lua_pushinteger(L, hi - 1);
  lt_set_element(L, -1, t->dtype, element);
  lua_pop(L, 2);
  unsigned bytes = isa_dtype_bytes(t->dtype);
  int64_t v[LT_CHUNK];
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t n = part_of(t, i);
    for (size_t k = 0; k < n; k++) /* without a sign, where high - low may be beyond 2^63 */
      v[k] = (int64_t)((uint64_t)lo + high_product(random_next(r), (uint64_t)hi - (uint64_t)lo));
    lt_store_i64(t->dtype, t->data + i * bytes, bytes, n, v);
  }
}

/* soma.uniform(shape, dtype="float32", {seed, low=0, high=1}): from low up to high, which float
 * types may reach by rounding. Of integer types and bool low to high - 1, high=2 when not given. */
static int make_uniform(lua_State *L) {
  static const char *const known[] = {"seed", "low", "high", "device", NULL};
  random_state r;
  int device;
  lt_tensor *t = random_tensor(L, "uniform", known, &r, &device);
  if (lt_class_of(t->dtype) == LT_INT) {
    uniform_ints(L, t, &r);
    return lt_place(L, device, "uniform");
  }
  /* Written so that NaN is refused. */
  double lo = lb_number(L, 3, "uniform", "low", 0), hi = lb_number(L, 3, "uniform", "high", 1);
  if (!(lo < hi)) return luaL_error(L, "uniform: needs low < high, got %f and %f", lo, hi);
  unsigned bytes = isa_dtype_bytes(t->dtype);
  double v[LT_CHUNK];
  for (int64_t i = 0; i < t->size; i += LT_CHUNK) {
    size_t n = part_of(t, i);
    for (size_t k = 0; k < n; k++)
      v[k] = lo + (hi - lo) * ((double)(random_next(&r) >> 11) * 0x1p-53);
    lt_store_f64(t->dtype, t->data + i * bytes, bytes, n, v);
  }
  return lt_place(L, device, "uniform");
}

/* ---- From Lua values and bytes ------------------------------------------------------------- */

/* Shape and kind of leaves of the nested table on the top, along its first elements. */
static unsigned nested_shape(lua_State *L, int64_t *shape, unsigned *dtype) {
  /* The first element of each level tells; the others are checked when they are stored. */
  unsigned ndim = 0;
  int top = lua_gettop(L);
  luaL_checkstack(L, LT_DIMS + 4, "tensor");
  while (lua_type(L, -1) == LUA_TTABLE) {
    if (ndim == LT_DIMS) luaL_error(L, "tensor: tables nested deeper than 8 dimensions");
    shape[ndim] = (int64_t)lua_rawlen(L, -1);
    /* Deeper levels are on top while the loop goes on. */
    lua_rawgeti(L, -1, 1);
    /* An empty table has no first element to look at. */
    if (shape[ndim++] == 0) break;
  }
  /* Only without a dtype that was given. */
  if (lua_type(L, -1) == LUA_TBOOLEAN && *dtype == 0) *dtype = ISA_bool;
  lua_settop(L, top);
  return ndim;
}

/* Stores the nested tables on the top of the stack at *p on, checking their lengths.
 * Recursion goes one level deeper for each dimension. */
static void fill_nested(lua_State *L, const lt_tensor *t, unsigned d, unsigned char **p) {
  /* A leaf. */
  if (d == t->ndim) {
    lt_set_element(L, -1, t->dtype, *p);
    *p += isa_dtype_bytes(t->dtype);
    return;
  }
  if (lua_type(L, -1) != LUA_TTABLE)
    luaL_error(L, "tensor: a table of %I was expected in dimension %d, got %s",
               (LUAI_UACINT)t->shape[d], (int)d, luaL_typename(L, -1));
  /* All tables of a level have one length. */
  if ((int64_t)lua_rawlen(L, -1) != t->shape[d])
    luaL_error(L, "tensor: ragged: a table of %I in dimension %d where the first has %I",
               (LUAI_UACINT)lua_rawlen(L, -1), (int)d, (LUAI_UACINT)t->shape[d]);
  for (int64_t i = 1; i <= t->shape[d]; i++) {
    lua_rawgeti(L, -1, i);
    fill_nested(L, t, d + 1, p);
    lua_pop(L, 1);
  }
}

/* soma.tensor(nested, dtype, shape, {device}): from nested tables, or from a flat one with a shape;
 * a number gives no dimensions. dtype: bool when the first leaf is a boolean, else float32. */
static int make_tensor(lua_State *L) {
  int64_t shape[LT_DIMS] = {0}, want[LT_DIMS] = {0};
  int device = plain_options(L, 2, 4, "tensor");
  unsigned dtype = lb_dtype_or(L, 2, 0);
  bool shaped = !lua_isnoneornil(L, 3);
  /* Without a shape the nesting is the shape. */
  unsigned nwant = shaped ? lt_check_shape(L, 3, want) : 0;
  luaL_checkany(L, 1);
  lua_settop(L, 3);
  lua_pushvalue(L, 1);
  unsigned ndim = nested_shape(L, shape, &dtype);
  lt_tensor *t = lt_new(L, dtype == 0 ? ISA_float32 : dtype, ndim, shape);
  /* The tensor goes below the copy of the values. */
  lua_insert(L, -2);
  unsigned char *p = t->data;
  fill_nested(L, t, 0, &p);
  lua_pop(L, 1);
  if (!shaped) return lt_place(L, device, "tensor");
  lt_tensor as = {.dtype = t->dtype, .ndim = nwant};
  memcpy(as.shape, want, sizeof want);
  /* The same number of elements, laid out anew. */
  if (!lt_layout(&as) || as.size != t->size)
    return luaL_error(L, "tensor: %s does not hold the %I values given", lt_push_type(L, &as),
                      (LUAI_UACINT)t->size);
  /* The memory stays that of t's user value. */
  as.data = t->data;
  *t = as;
  return lt_place(L, device, "tensor");
}

/* soma.frombytes(string, dtype, shape, {device}): row-major, little-endian. */
static int make_frombytes(lua_State *L) {
  size_t n;
  int64_t shape[LT_DIMS] = {0};
  int device = plain_options(L, 3, 4, "frombytes");
  const char *bytes = luaL_checklstring(L, 1, &n);
  unsigned dtype = lb_dtype(L, 2), each = isa_dtype_bytes(dtype), ndim = 1;
  if (lua_isnoneornil(L, 3)) /* As many elements as fit; a rest is refused below. */
    shape[0] = (int64_t)(n / each);
  else
    ndim = lt_check_shape(L, 3, shape);
  lt_tensor as = {.dtype = dtype, .ndim = ndim};
  memcpy(as.shape, shape, sizeof shape);
  if (!lt_layout(&as))
    return luaL_error(L, "frombytes: %s is too large for this host", lt_push_type(L, &as));
  /* Exactly, so that neither side is cut. */
  if ((uint64_t)as.size * each != n)
    return luaL_error(L, "frombytes: %s does not have %I bytes, but %I", lt_push_type(L, &as),
                      (LUAI_UACINT)n, (LUAI_UACINT)(as.size * each));
  lt_tensor *t = lt_new(L, dtype, ndim, shape);
  /* An empty string has nothing to copy. */
  if (n > 0) memcpy(t->data, bytes, n);
  /* Any byte but 0 is true, and true is 1. */
  if (dtype == ISA_bool)
    for (size_t i = 0; i < n; i++) t->data[i] = t->data[i] != 0;
  return lt_place(L, device, "frombytes");
}

/* ---- Joining ------------------------------------------------------------------------------- */

static void check_joinable(lua_State *L, const lt_tensor *a, const lt_tensor *b, int axis, int i) {
  /* The axis may differ; everything else must not. */
  bool same = a->ndim == b->ndim && a->dtype == b->dtype;
  for (unsigned d = 0; same && d < a->ndim; d++)
    same = (int)d == axis || a->shape[d] == b->shape[d];
  if (!same)
    luaL_error(L, "concat: tensor %d is %s, which does not join %s along axis %d", i,
               lt_push_type(L, b), lt_push_type(L, a), axis);
}

/* soma.concat({tensor, ...} [, axis=0] [, {device}]) */
static int make_concat(lua_State *L) {
  int device = plain_options(L, 2, 3, "concat");
  lua_settop(L, 3);
  luaL_checktype(L, 1, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 1), axis = 0;
  int64_t shape[LT_DIMS] = {0};
  lt_tensor first = {0};
  /* First all are looked at, since the size of the result is their sum. */
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    const lt_tensor *t = lt_test(L, -1);
    if (t == NULL) return luaL_error(L, "concat: element %d is not a tensor", i);
    if (i == 1) {
      first = *t;
      axis = lua_isnoneornil(L, 2) ? 0 : lt_check_axis(L, 2, t);
      if (t->ndim == 0) return luaL_error(L, "concat: tensors of no dimensions cannot be joined");
      memcpy(shape, t->shape, sizeof shape);
    } else {
      check_joinable(L, &first, t, axis, i);
      shape[axis] += t->shape[axis];
    }
    lua_pop(L, 1);
  }
  if (n == 0) return luaL_error(L, "concat: no tensors given");
  lt_tensor *out = lt_new(L, first.dtype, first.ndim, shape), part = *out;
  /* Then each is copied to its place. */
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    const lt_tensor *t = lt_check(L, -1);
    /* `part` is a window on out that moves along the axis. */
    part.shape[axis] = t->shape[axis];
    lt_copy(L, &part, t, 0);
    part.data += part.shape[axis] * part.stride[axis];
    lua_pop(L, 1);
  }
  return lt_place(L, device, "concat");
}

const luaL_Reg lt_make_functions[] = {{"zeros", make_zeros},
                                      {"empty", make_empty},
                                      {"full", make_full},
                                      {"ones", make_ones},
                                      {"arange", make_arange},
                                      {"randn", make_randn},
                                      {"uniform", make_uniform},
                                      {"tensor", make_tensor},
                                      {"frombytes", make_frombytes},
                                      {"concat", make_concat},
                                      {NULL, NULL}};
