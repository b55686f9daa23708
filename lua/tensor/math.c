/* Elementwise functions of one tensor: computed in double (dmath.c), rounded once to float32.
 * Integer tensors keep their type under abs, negate, sign, square, relu and the rounding
 * functions, and become float32 under all others. */
#include <math.h>

#include "dmath.h"
#include "tensor.h"

/* One row for each function; the integer forms are missing where the result is no
 * integer. */
typedef struct unary_op {
  const char *name;
  double (*f)(double);
  int64_t (*i)(int64_t); /* NULL: integers become float32 */
  int64_t (*u)(int64_t); /* of unsigned types */
} unary_op;

/* In double, so that one rounding to float32 is all that happens. */
static double f_sqrt(double x) { return sqrt(x); }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_reciprocal(double x) { return 1 / x; }
static double f_square(double x) { return x * x; }
static double f_neg(double x) { return -x; }
/* A NaN stays one, and -0 becomes 0. */
static double f_relu(double x) { return x > 0 ? x : x != x ? x : 0; }
/* A zero keeps its sign, and a NaN stays one. */
static double f_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double f_floor(double x) { return dm_floor(x); }
/* The ceiling by the floor of the negative. */
static double f_ceil(double x) { return -dm_floor(-x); }
static double f_abs(double x) { return dm_abs(x); }

static int64_t i_same(int64_t x) { return x; }
/* Wraps at the lowest integer; in C a signed overflow has no meaning. */
static int64_t i_neg(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static int64_t i_abs(int64_t x) { return x < 0 ? i_neg(x) : x; }
static int64_t i_sign(int64_t x) { return (x > 0) - (x < 0); }
static int64_t u_sign(int64_t x) { return x != 0; }
/* Wraps, as integer products do everywhere here. */
static int64_t i_square(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
static int64_t i_relu(int64_t x) { return x > 0 ? x : 0; }

#define UNARY_OPS(X)                      \
  X(exp, dm_exp, NULL, NULL)              \
  X(expm1, dm_expm1, NULL, NULL)          \
  X(log, dm_log, NULL, NULL)              \
  X(log1p, dm_log1p, NULL, NULL)          \
  X(sqrt, f_sqrt, NULL, NULL)             \
  X(rsqrt, f_rsqrt, NULL, NULL)           \
  X(reciprocal, f_reciprocal, NULL, NULL) \
  X(tanh, dm_tanh, NULL, NULL)            \
  X(sigmoid, dm_sigmoid, NULL, NULL)      \
  X(erf, dm_erf, NULL, NULL)              \
  X(sin, dm_sin, NULL, NULL)              \
  X(cos, dm_cos, NULL, NULL)              \
  X(square, f_square, i_square, i_square) \
  X(abs, f_abs, i_abs, i_same)            \
  X(neg, f_neg, i_neg, i_neg)             \
  X(sign, f_sign, i_sign, u_sign)         \
  X(relu, f_relu, i_relu, i_same)         \
  X(floor, f_floor, i_same, i_same)       \
  X(ceil, f_ceil, i_same, i_same)         \
  X(round, dm_rint, i_same, i_same)

/* Tensor 0 is the result, tensor 1 the operand. */
static void run_float(const unary_op *op, lt_walk *w, unsigned dtype) {
  double v[LT_CHUNK];
  while (lt_walk_next(w))
    for (size_t i = 0; i < w->n; i += LT_CHUNK) {
      size_t n = w->n - i < LT_CHUNK ? w->n - i : LT_CHUNK;
      lt_load_f64(dtype, w->p[1] + (int64_t)i * w->step[1], w->step[1], n, v);
      for (size_t k = 0; k < n; k++) v[k] = op->f(v[k]);
      lt_store_f64(ISA_float32, w->p[0] + (int64_t)i * w->step[0], w->step[0], n, v);
    }
}

/* One element at a time: the functions are calls anyway. */
static void run_int(int64_t (*f)(int64_t), lt_walk *w, unsigned dtype) {
  while (lt_walk_next(w))
    for (size_t i = 0; i < w->n; i++) {
      int64_t v;
      lt_load_i64(dtype, w->p[1] + (int64_t)i * w->step[1], 0, 1, &v);
      v = f(v);
      lt_store_i64(dtype, w->p[0] + (int64_t)i * w->step[0], 0, 1, &v);
    }
}

static int unary(lua_State *L, const unary_op *op) {
  /* A device has its own functions, by the same names. */
  if (lt_test(L, 1) == NULL && lt_call_device(L, op->name)) return 1;
  const lt_tensor *t = lt_check(L, 1);
  enum lt_class cls = lt_class_of(t->dtype);
  if (cls == LT_PACKED)
    return luaL_error(L, "%s: no arithmetic on %s: use astype", op->name,
                      isa_dtypes[t->dtype].name);
  /* A bool is counted as a number, 0 or 1. */
  bool ints = cls == LT_INT && t->dtype != ISA_bool && op->i != NULL;
  /* A new dense tensor of the operand's shape. */
  lt_tensor *out = lt_new(L, ints ? t->dtype : ISA_float32, t->ndim, t->shape);
  const lt_tensor *ops[] = {out, t};
  lt_walk w;
  lt_walk_init(&w, t->ndim, t->shape, 2, ops);
  if (ints) {
    run_int(lt_is_unsigned(t->dtype) ? op->u : op->i, &w, t->dtype);
  } else {
    run_float(op, &w, t->dtype);
  }
  return 1;
}

#define X(id, ff, ii, uu)                         \
  static int op_##id(lua_State *L) {              \
    static const unary_op op = {#id, ff, ii, uu}; \
    return unary(L, &op);                         \
  }
UNARY_OPS(X)
#undef X

/* The operator `-t`. */
int lt_negate(lua_State *L) { return op_neg(L); }

static int64_t i_not(int64_t x) { return (int64_t) ~(uint64_t)x; }

int lt_bnot(lua_State *L) {
  const lt_tensor *t = lt_check(L, 1);
  if (lt_class_of(t->dtype) != LT_INT)
    return luaL_error(L, "bnot: needs integers, got %s", isa_dtypes[t->dtype].name);
  lt_tensor *out = lt_new(L, t->dtype, t->ndim, t->shape);
  const lt_tensor *ops[] = {out, t};
  lt_walk w;
  lt_walk_init(&w, t->ndim, t->shape, 2, ops);
  if (t->dtype == ISA_bool) { /* logical: ~0 and ~1 are both not zero */
    while (lt_walk_next(&w))
      for (size_t i = 0; i < w.n; i++)
        w.p[0][(int64_t)i * w.step[0]] = !w.p[1][(int64_t)i * w.step[1]];
    return 1;
  }
  run_int(i_not, &w, t->dtype);
  return 1;
}

/* Integers are never NaN and always finite; they go the same way. */
static int classify(lua_State *L, bool (*test)(double)) {
  const lt_tensor *t = lt_check(L, 1);
  if (lt_class_of(t->dtype) == LT_PACKED) return luaL_error(L, "packed types: use astype");
  lt_tensor *out = lt_new(L, ISA_bool, t->ndim, t->shape);
  const lt_tensor *ops[] = {out, t};
  lt_walk w;
  lt_walk_init(&w, t->ndim, t->shape, 2, ops);
  while (lt_walk_next(&w))
    for (size_t i = 0; i < w.n; i++) {
      double v;
      lt_load_f64(t->dtype, w.p[1] + (int64_t)i * w.step[1], 0, 1, &v);
      w.p[0][(int64_t)i * w.step[0]] = test(v);
    }
  return 1;
}

static bool test_nan(double x) { return x != x; }
/* Both infinities and NaN fail. */
static bool test_finite(double x) { return dm_abs(x) < HUGE_VAL; }
static int op_isnan(lua_State *L) { return classify(L, test_nan); }
static int op_isfinite(lua_State *L) { return classify(L, test_finite); }

#define X(id, ff, ii, uu) {#id, op_##id},
const luaL_Reg lt_math_functions[] = {
    UNARY_OPS(X){"isnan", op_isnan}, {"isfinite", op_isfinite}, {NULL, NULL}};
const luaL_Reg lt_math_methods[] = {
    UNARY_OPS(X){"isnan", op_isnan}, {"isfinite", op_isfinite}, {"bnot", lt_bnot}, {NULL, NULL}};
#undef X
