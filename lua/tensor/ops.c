/* Elementwise operators on two tensors, or a tensor and a number, with broadcasting.
 *
 * Types. Two floats, or a float and anything: computed in double, rounded once to float32, so
 * that float32 + float32 is the IEEE sum; astype continues from there as the machine's instructions
 * do. Two integers: the one that holds both ranges, computed in 64 bits and wrapped; bool counts
 * as int32. "/" always gives float32. A Lua number takes the tensor's kind: an integer with an
 * integer tensor has its type (and must fit), all others are float32.
 * Comparisons give bool; they are exact for integers. maximum and minimum skip NaN and order -0
 * below +0, as on the machine. */
#include <math.h>
#include <string.h>

#include "dmath.h"
#include "tensor.h"

/* The type in which integers are computed; failed: an operation had no result. */
typedef struct int_type {
  unsigned bits;
  bool is_unsigned, failed;
} int_type;
typedef void (*float_fn)(size_t n, const double *a, const double *b, double *out);
typedef void (*int_fn)(size_t n, const int64_t *a, const int64_t *b, int64_t *out, int_type *t);

/* A loop for each operator, so that no call is made for each element. */
#define FLOAT_FN(name, expr)                                                      \
  static void f_##name(size_t n, const double *a, const double *b, double *out) { \
    for (size_t i = 0; i < n; i++) {                                              \
      double x = a[i], y = b[i];                                                  \
      out[i] = (expr);                                                            \
    }                                                                             \
  }
#define INT_FN(name, expr)                                                                        \
  static void i_##name(size_t n, const int64_t *a, const int64_t *b, int64_t *out, int_type *t) { \
    (void)t;                                                                                      \
    for (size_t i = 0; i < n; i++) {                                                              \
      int64_t x = a[i], y = b[i];                                                                 \
      out[i] = (int64_t)(expr);                                                                   \
    }                                                                                             \
  }

static double larger(double x, double y) {
  /* NaN gives way to a number. */
  if (x != x) return y;
  /* Equal: the same number, or two zeros of which one may be negative. */
  if (x == y) return dm_bits(x) >> 63 ? y : x;
  return y > x ? y : x;
}
static double smaller(double x, double y) {
  if (x != x) return y;
  if (x == y) return dm_bits(x) >> 63 ? x : y;
  return y < x ? y : x;
}

static bool less(int64_t x, int64_t y, const int_type *t) {
  return t->is_unsigned ? (uint64_t)x < (uint64_t)y : x < y;
}

/* x - floor(x / y) * y, with the sign of y, exact: the remainder by repeated subtraction of
 * y times powers of two. */
static double float_mod(double x, double y) {
  double a = dm_abs(x), b = dm_abs(y);
  /* No remainder of an infinity, of NaN or by zero. */
  if (!(a < HUGE_VAL) || y != y || b == 0) return NAN;
  /* By infinity x is its own remainder, or infinity if the signs differ. */
  if (b == HUGE_VAL) return x == 0 || (x < 0) == (y < 0) ? x : y;
  double s = b;
  /* The greatest y times a power of two that is not above a. */
  while (s <= a / 2) s *= 2;
  for (; s >= b; s /= 2)
    if (a >= s) a -= s;
  /* The sign of x so far. */
  double r = x < 0 ? -a : a;
  /* One more y where the signs differ. */
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t int_idiv(int64_t x, int64_t y, int_type *t) {
  /* The caller raises the error, once for the whole tensor. */
  if (y == 0) {
    t->failed = true;
    return 0;
  }
  if (t->is_unsigned) return (int64_t)((uint64_t)x / (uint64_t)y);
  /* The processor traps at the lowest integer over -1; it wraps. */
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  /* C rounds to zero, Lua down. */
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static uint64_t shift_left(int64_t x, int64_t y, const int_type *t) {
  /* Shifts by the width and more leave nothing; a negative count is a large one. */
  return (uint64_t)y >= t->bits ? 0 : (uint64_t)x << y;
}
/* Arithmetic for signed types. Operands come sign or zero extended to 64 bits. */
static int64_t shift_right(int64_t x, int64_t y, const int_type *t) {
  bool negative = x < 0 && !t->is_unsigned;
  if ((uint64_t)y >= t->bits) return negative ? -1 : 0;
  /* Ones come in from the left where the complement gets zeros. */
  uint64_t u = negative ? ~(uint64_t)x : (uint64_t)x;
  u >>= y;
  return (int64_t)(negative ? ~u : u);
}
static uint64_t int_power(uint64_t x, int64_t y, int_type *t) {
  /* By squares: each bit of the exponent doubles it. */
  uint64_t r = 1;
  if (y < 0 && !t->is_unsigned) t->failed = true;
  /* No power is computed of what is an error. */
  for (uint64_t k = t->failed ? 0 : (uint64_t)y; k > 0; k >>= 1) {
    if (k & 1) r *= x;
    x *= x;
  }
  return r;
}

FLOAT_FN(add, x + y)
FLOAT_FN(sub, x - y)
FLOAT_FN(mul, x *y)
FLOAT_FN(div, x / y)
FLOAT_FN(idiv, dm_floor(x / y))
FLOAT_FN(mod, float_mod(x, y))
FLOAT_FN(pow, dm_pow(x, y))
FLOAT_FN(maximum, larger(x, y))
FLOAT_FN(minimum, smaller(x, y))
FLOAT_FN(eq, x == y)
FLOAT_FN(ne, x != y)
FLOAT_FN(lt, x < y)
FLOAT_FN(le, x <= y)
FLOAT_FN(gt, x > y)
FLOAT_FN(ge, x >= y)
INT_FN(add, (uint64_t)x + (uint64_t)y)
INT_FN(sub, (uint64_t)x - (uint64_t)y)
INT_FN(mul, (uint64_t)x *(uint64_t)y)
INT_FN(idiv, int_idiv(x, y, t))
INT_FN(mod, (uint64_t)x - (uint64_t)int_idiv(x, y, t) * (uint64_t)y)
INT_FN(pow, int_power((uint64_t)x, y, t))
INT_FN(maximum, less(x, y, t) ? y : x)
INT_FN(minimum, less(y, x, t) ? y : x)
INT_FN(eq, x == y)
INT_FN(ne, x != y)
INT_FN(lt, less(x, y, t))
INT_FN(le, !less(y, x, t))
INT_FN(gt, less(y, x, t))
INT_FN(ge, !less(x, y, t))
INT_FN(band, (uint64_t)x &(uint64_t)y)
INT_FN(bor, (uint64_t)x | (uint64_t)y)
INT_FN(bxor, (uint64_t)x ^ (uint64_t)y)
INT_FN(shl, shift_left(x, y, t))
INT_FN(shr, shift_right(x, y, t))

typedef struct binary_op {
  const char *name;
  float_fn f; /* NULL: integers only */
  int_fn i;   /* NULL: integers become float32 */
  bool compares;
} binary_op;

#define BINARY_OPS(X)                     \
  X(add, f_add, i_add, false)             \
  X(sub, f_sub, i_sub, false)             \
  X(mul, f_mul, i_mul, false)             \
  X(div, f_div, NULL, false)              \
  X(idiv, f_idiv, i_idiv, false)          \
  X(mod, f_mod, i_mod, false)             \
  X(pow, f_pow, i_pow, false)             \
  X(maximum, f_maximum, i_maximum, false) \
  X(minimum, f_minimum, i_minimum, false) \
  X(eq, f_eq, i_eq, true)                 \
  X(ne, f_ne, i_ne, true)                 \
  X(lt, f_lt, i_lt, true)                 \
  X(le, f_le, i_le, true)                 \
  X(gt, f_gt, i_gt, true)                 \
  X(ge, f_ge, i_ge, true)                 \
  X(band, NULL, i_band, false)            \
  X(bor, NULL, i_bor, false)              \
  X(bxor, NULL, i_bxor, false)            \
  X(shl, NULL, i_shl, false)              \
  X(shr, NULL, i_shr, false)

/* ---- Operands and result types ------------------------------------------------------------- */

/* A Lua number or boolean as an operand beside a tensor of dtype other. */
static void scalar_operand(lua_State *L, int arg, const char *what, unsigned other, lt_tensor *t,
                           /* It has no dimensions, so it is broadcast to any shape. */
                           unsigned char *data) {
  int type = lua_type(L, arg);
  if (type != LUA_TNUMBER && type != LUA_TBOOLEAN)
    luaL_error(L, "%s: operand %d must be a tensor or a number, not %s", what, arg,
               lb_type_name(L, arg));
  unsigned dtype = ISA_float32;
  if (type == LUA_TBOOLEAN)
    dtype = ISA_bool;
  else if (lua_isinteger(L, arg) && lt_class_of(other) == LT_INT)
    /* Beside bools an integer is more than one of them. */
    dtype = other == ISA_bool ? ISA_int32 : other;
  /* The element's bytes belong to the caller. */
  *t = (lt_tensor){.data = data, .size = 1, .dtype = dtype};
  lt_set_element(L, arg, dtype, data);
}

static unsigned common_int(lua_State *L, const char *what, unsigned a, unsigned b) {
  /* Bools count as numbers here. */
  if (a == ISA_bool) a = ISA_int32;
  if (b == ISA_bool) b = ISA_int32;
  unsigned abits = isa_dtypes[a].bits, bbits = isa_dtypes[b].bits;
  bool au = lt_is_unsigned(a), bu = lt_is_unsigned(b);
  if (au == bu) return abits >= bbits ? a : b;
  unsigned u = au ? a : b, s = au ? b : a;
  /* A wider signed type holds all of the unsigned one. */
  if (isa_dtypes[s].bits > isa_dtypes[u].bits) return s;
  /* The next wider signed type holds both. */
  switch (isa_dtypes[u].bits) {
  case 8: return ISA_int16;
  case 16: return ISA_int32;
  case 32: return ISA_int64;
  default:
    luaL_error(L, "%s: no integer type holds both %s and %s: use astype", what, isa_dtypes[a].name,
               isa_dtypes[b].name);
    return 0;
  }
}

/* The type in which op computes on a and b: an integer type, or float32 for doubles. */
static unsigned operand_type(lua_State *L, const binary_op *op, unsigned a, unsigned b) {
  enum lt_class ca = lt_class_of(a), cb = lt_class_of(b);
  if (ca == LT_PACKED || cb == LT_PACKED)
    luaL_error(L, "%s: no arithmetic on %s: use astype", op->name,
               isa_dtypes[ca == LT_PACKED ? a : b].name);
  /* A bool is an integer in this sense. */
  bool ints = ca == LT_INT && cb == LT_INT;
  if (op->f == NULL && !ints)
    luaL_error(L, "%s: needs integers, got %s and %s", op->name, isa_dtypes[a].name,
               isa_dtypes[b].name);
  /* Logical operators on bools stay bool. */
  if (a == ISA_bool && b == ISA_bool && op->f == NULL) return ISA_bool;
  return ints && op->i != NULL ? common_int(L, op->name, a, b) : ISA_float32;
}

static void run_float(const binary_op *op, lt_walk *w, unsigned od, unsigned ad, unsigned bd) {
  double a[LT_CHUNK], b[LT_CHUNK], out[LT_CHUNK];
  while (lt_walk_next(w)) /* In chunks that fit the processor's cache. */
    for (size_t i = 0; i < w->n; i += LT_CHUNK) {
      size_t n = w->n - i < LT_CHUNK ? w->n - i : LT_CHUNK;
      int64_t at = (int64_t)i;
      lt_load_f64(ad, w->p[1] + at * w->step[1], w->step[1], n, a);
      lt_load_f64(bd, w->p[2] + at * w->step[2], w->step[2], n, b);
      op->f(n, a, b, out);
      lt_store_f64(od, w->p[0] + at * w->step[0], w->step[0], n, out);
    }
}

static bool run_int(const binary_op *op, lt_walk *w, unsigned od, unsigned ad, unsigned bd,
                    unsigned type) {
  int64_t a[LT_CHUNK], b[LT_CHUNK], out[LT_CHUNK];
  int_type t = {isa_dtypes[type].bits, lt_is_unsigned(type), false};
  while (lt_walk_next(w))
    for (size_t i = 0; i < w->n; i += LT_CHUNK) {
      size_t n = w->n - i < LT_CHUNK ? w->n - i : LT_CHUNK;
      int64_t at = (int64_t)i;
      lt_load_i64(ad, w->p[1] + at * w->step[1], w->step[1], n, a);
      lt_load_i64(bd, w->p[2] + at * w->step[2], w->step[2], n, b);
      op->i(n, a, b, out, &t);
      lt_store_i64(od, w->p[0] + at * w->step[0], w->step[0], n, out);
    }
  /* One failed element fails the whole. */
  return !t.failed;
}

static int binary(lua_State *L, const binary_op *op) {
  lua_settop(L, 2);
  lt_tensor *ta = lt_test(L, 1), *tb = lt_test(L, 2), sa, sb;
  unsigned char da[8], db[8];
  /* One of the operands may be on a device, the other a number. */
  if ((ta == NULL || tb == NULL) && lt_call_device(L, op->name)) return 1;
  if (ta == NULL && tb == NULL) luaL_typeerror(L, 1, "tensor");
  /* The number's type depends on the tensor beside it. */
  if (ta == NULL) scalar_operand(L, 1, op->name, tb->dtype, ta = &sa, da);
  if (tb == NULL) scalar_operand(L, 2, op->name, ta->dtype, tb = &sb, db);
  unsigned type = operand_type(L, op, ta->dtype, tb->dtype);
  /* Comparisons give bool, whatever they compare. */
  unsigned result = op->compares ? ISA_bool : type;
  int64_t shape[LT_DIMS];
  unsigned ndim = lt_broadcast(L, op->name, ta, tb, shape);
  lt_tensor *out = lt_new(L, result, ndim, shape);
  const lt_tensor *ops[] = {out, ta, tb};
  lt_walk w;
  /* The result is operand 0 of the walk. */
  lt_walk_init(&w, ndim, shape, 3, ops);
  if (lt_class_of(type) == LT_FLOAT)
    run_float(op, &w, result, ta->dtype, tb->dtype);
  else if (!run_int(op, &w, result, ta->dtype, tb->dtype, type))
    return luaL_error(
        L, op->i == i_pow ? "pow: a negative integer exponent" : "%s: an integer divided by zero",
        op->name);
  return 1;
}

static const binary_op all_ops[] = {
#define X(id, ff, ii, cmp) {#id, ff, ii, cmp},
    BINARY_OPS(X)
#undef X
};
enum {
#define X(id, ff, ii, cmp) OP_##id,
  BINARY_OPS(X)
#undef X
};

/* host.binary_type(name, a, b), where a and b are dtypes or numbers: the type in which that
 * operator computes, and that of its result. */
int lt_binary_type(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  unsigned char data[8];
  unsigned type[2] = {0};
  lt_tensor number;
  for (int i = 0; i < 2; i++) /* Names stand for types, numbers for themselves. */
    if (lua_type(L, i + 2) == LUA_TSTRING) type[i] = lb_dtype(L, i + 2);
  /* A number's type depends on the other operand's, which must be known first. */
  for (int i = 0; i < 2; i++) {
    if (type[i] != 0) continue;
    scalar_operand(L, i + 2, name, type[!i], &number, data);
    type[i] = number.dtype;
  }
  const binary_op *op = all_ops;
  /* The name is one of the list: only arithmetic.lua calls this. */
  while (strcmp(op->name, name) != 0) op++;
  unsigned computes = operand_type(L, op, type[0], type[1]);
  lua_pushstring(L, isa_dtypes[computes].name);
  lua_pushstring(L, isa_dtypes[op->compares ? ISA_bool : computes].name);
  return 2;
}

#define X(id, ff, ii, cmp) \
  static int op_##id(lua_State *L) { return binary(L, &all_ops[OP_##id]); }
BINARY_OPS(X)
#undef X

/* ---- where --------------------------------------------------------------------------------- */

/* soma.where(condition, a, b): a where the condition is not zero, else b. Equal types are copied
 * bit by bit; else the type is the one a + b would have. */
static int op_where(lua_State *L) {
  /* Never computed: only its types are asked for. */
  static const binary_op choose = {"where", f_add, i_add, false};
  lua_settop(L, 3);
  if (lt_call_device(L, "where")) return 1;
  const lt_tensor *c = lt_check(L, 1);
  lt_tensor *ta = lt_test(L, 2), *tb = lt_test(L, 3), sa, sb;
  /* Each number's bytes. */
  unsigned char da[8], db[8];
  if (ta == NULL) scalar_operand(L, 2, "where", tb ? tb->dtype : ISA_float32, ta = &sa, da);
  if (tb == NULL) scalar_operand(L, 3, "where", ta->dtype, tb = &sb, db);
  if (c->dtype != ISA_bool)
    return luaL_error(L, "where: the condition must be bool, not %s", isa_dtypes[c->dtype].name);
  unsigned type =
      ta->dtype == tb->dtype ? ta->dtype : operand_type(L, &choose, ta->dtype, tb->dtype);
  int64_t shape[LT_DIMS];
  lt_tensor both = {.dtype = type};
  both.ndim = lt_broadcast(L, "where", ta, tb, shape);
  memcpy(both.shape, shape, sizeof shape);
  /* Three shapes, two at a time. */
  unsigned ndim = lt_broadcast(L, "where", c, &both, shape);
  lt_tensor *out = lt_new(L, type, ndim, shape);
  const lt_tensor *ops[] = {out, c, ta, tb};
  lt_walk w;
  lt_walk_init(&w, ndim, shape, 4, ops);
  while (lt_walk_next(&w))
    for (size_t i = 0; i < w.n; i++) {
      int64_t at = (int64_t)i;
      int from = w.p[1][at * w.step[1]] ? 2 : 3;
      lt_run dst = {type, w.p[0] + at * w.step[0], 0};
      lt_convert(dst, (lt_run){ops[from]->dtype, w.p[from] + at * w.step[from], 0}, 1, 0);
    }
  return 1;
}

const luaL_Reg lt_op_functions[] = {
    {"maximum", op_maximum}, {"minimum", op_minimum}, {"where", op_where}, {NULL, NULL}};

const luaL_Reg lt_op_methods[] = {
#define X(id, ff, ii, cmp) {#id, op_##id},
    BINARY_OPS(X)
#undef X
        {NULL, NULL}};

const luaL_Reg lt_op_meta[] = {{"__add", op_add},    {"__sub", op_sub},   {"__mul", op_mul},
                               {"__div", op_div},    {"__idiv", op_idiv}, {"__mod", op_mod},
                               {"__pow", op_pow},    {"__band", op_band}, {"__bor", op_bor},
                               {"__bxor", op_bxor},  {"__shl", op_shl},   {"__shr", op_shr},
                               {"__unm", lt_negate}, {"__bnot", lt_bnot}, {NULL, NULL}};
