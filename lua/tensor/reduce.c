/* Reductions and the matrix product. Sums are taken in double, in index order, and rounded once
 * to float32; of integers in 64 bits, giving int64 (uint64 of unsigned types). max and min keep
 * the type, skip NaN and order -0 below +0. */
#include <string.h>

#include "dmath.h"
#include "tensor.h"

/* One of the three is used: f for floats, i for integers, count for both. */
typedef struct accumulator {
  double f;
  int64_t i, count;
} accumulator;
typedef void (*accumulate_fn)(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                              const int64_t *i);

/* What a reduction keeps of its type, and whether nothing has a result. */
typedef struct reduction {
  const char *name;
  accumulate_fn add;
  bool keeps_type, is_float, is_bool, needs_elements;
} reduction;

static void add_sum(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                    const int64_t *i) {
  (void)is_unsigned;
  for (size_t k = 0; k < n; k++) /* Wraps in 64 bits, as integers do everywhere here. */
    if (f != NULL)
      acc->f += f[k];
    else
      acc->i = (int64_t)((uint64_t)acc->i + (uint64_t)i[k]);
}

static bool after(const accumulator *acc, bool is_unsigned, double f, int64_t i, bool is_float) {
  /* The bits of an unsigned number compare as unsigned. */
  if (!is_float) return is_unsigned ? (uint64_t)i > (uint64_t)acc->i : i > acc->i;
  /* A NaN so far gives way to anything. */
  if (acc->f != acc->f) return true;
  return f > acc->f || (f == acc->f && dm_bits(acc->f) >> 63 && !(dm_bits(f) >> 63));
}

static void add_max(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                    const int64_t *i) {
  for (size_t k = 0; k < n; k++) {
    /* Only one of the two is given. */
    double fv = f != NULL ? f[k] : 0;
    int64_t iv = f != NULL ? 0 : i[k];
    /* The first counts whatever it is: of NaNs alone the result is NaN. */
    if (acc->count + (int64_t)k == 0 || (fv == fv && after(acc, is_unsigned, fv, iv, f != NULL))) {
      acc->f = fv;
      acc->i = iv;
    }
  }
}

static void add_min(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                    const int64_t *i) {
  for (size_t k = 0; k < n; k++) {
    accumulator v = {.f = f != NULL ? f[k] : 0, .i = f != NULL ? 0 : i[k]};
    /* One comparison serves both: a is less than b where b is after a. */
    bool is_first = acc->count + (int64_t)k == 0, is_nan = v.f != v.f;
    bool replaces = acc->f != acc->f || after(&v, is_unsigned, acc->f, acc->i, f != NULL);
    if (is_first || (!is_nan && replaces)) {
      acc->f = v.f;
      acc->i = v.i;
    }
  }
}

static void add_any(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                    const int64_t *i) {
  (void)is_unsigned;
  for (size_t k = 0; k < n; k++) /* Once it is set it stays. */
    if (f != NULL ? f[k] != 0 : i[k] != 0) acc->i = 1;
}

/* acc->i counts the zeros. */
static void add_all(accumulator *acc, bool is_unsigned, size_t n, const double *f,
                    const int64_t *i) {
  (void)is_unsigned;
  for (size_t k = 0; k < n; k++)
    if (f != NULL ? f[k] == 0 : i[k] == 0) acc->i++;
}

/* Columns: keeps_type, is_float, is_bool, needs_elements. */
static const reduction sum_op = {"sum", add_sum, false, false, false, false};
static const reduction mean_op = {"mean", add_sum, false, true, false, true};
static const reduction max_op = {"max", add_max, true, false, false, true};
static const reduction min_op = {"min", add_min, true, false, false, true};
static const reduction any_op = {"any", add_any, false, false, true, false};
static const reduction all_op = {"all", add_all, false, false, true, false};

static void accumulate(const reduction *op, accumulator *acc, unsigned dtype,
                       const unsigned char *p, int64_t stride, int64_t n) {
  double f[LT_CHUNK];
  int64_t v[LT_CHUNK];
  bool is_float = lt_class_of(dtype) == LT_FLOAT;
  /* In chunks, so that one array on the stack is enough. */
  for (int64_t i = 0; i < n; i += LT_CHUNK) {
    size_t part = n - i < LT_CHUNK ? (size_t)(n - i) : LT_CHUNK;
    if (is_float)
      lt_load_f64(dtype, p + i * stride, stride, part, f);
    else
      lt_load_i64(dtype, p + i * stride, stride, part, v);
    /* The count so far tells whether an element is the first. */
    op->add(acc, lt_is_unsigned(dtype), part, is_float ? f : NULL, is_float ? NULL : v);
    acc->count += (int64_t)part;
  }
}

static unsigned result_type(const reduction *op, unsigned dtype) {
  if (op->is_bool) return ISA_bool;
  /* The greatest element is one of the elements. */
  if (op->keeps_type) return dtype;
  if (op->is_float || lt_class_of(dtype) == LT_FLOAT) return ISA_float32;
  /* Sums of small integers do not fit their own type. */
  return dtype != ISA_bool && lt_is_unsigned(dtype) ? ISA_uint64 : ISA_int64;
}

static void finish(const reduction *op, const accumulator *acc, unsigned from, unsigned to,
                   unsigned char *p) {
  bool is_float = lt_class_of(from) == LT_FLOAT;
  double f = acc->f;
  /* Integers are summed exactly, and divided once. */
  if (op == &mean_op) {
    if (!is_float) f = from == ISA_uint64 ? (double)(uint64_t)acc->i : (double)acc->i;
    f /= (double)acc->count;
  }
  /* `all` counted the zeros. */
  if (op->is_bool)
    *p = op == &all_op ? acc->i == 0 : acc->i != 0;
  else if (lt_class_of(to) == LT_FLOAT)
    lt_store_f64(to, p, 0, 1, &f);
  else
    lt_store_i64(to, p, 0, 1, &acc->i);
}

static int reduce_all(lua_State *L, const reduction *op, const lt_tensor *t, bool keep) {
  accumulator acc = {0};
  unsigned type = result_type(op, t->dtype);
  lt_walk w;
  /* One run after the other, in index order. */
  lt_walk_init(&w, t->ndim, t->shape, 1, &t);
  while (lt_walk_next(&w)) accumulate(op, &acc, t->dtype, w.p[0], w.step[0], (int64_t)w.n);
  unsigned char element[8];
  finish(op, &acc, t->dtype, type, element);
  /* With as many dimensions as before, each of one element. */
  if (keep) {
    int64_t shape[LT_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(lt_new(L, type, t->ndim, shape)->data, element, isa_dtype_bytes(type));
  } else {
    lt_push_element(L, type, element);
  }
  return 1;
}

static int reduce_axis(lua_State *L, const reduction *op, const lt_tensor *t, int axis, bool keep) {
  lt_tensor base = *t;
  /* With one element along the axis the walk meets the first of each reduced run. */
  base.shape[axis] = 1;
  unsigned type = result_type(op, t->dtype);
  lt_tensor *out = lt_new(L, type, t->ndim, base.shape);
  /* The walk goes over the results; the reduced dimension is stepped by hand. */
  const lt_tensor *ops[] = {out, &base};
  lt_walk w;
  lt_walk_init(&w, t->ndim, base.shape, 2, ops);
  while (lt_walk_next(&w))
    for (size_t i = 0; i < w.n; i++) {
      accumulator acc = {0};
      /* Along the axis, with its own stride. */
      accumulate(op, &acc, t->dtype, w.p[1] + (int64_t)i * w.step[1], t->stride[axis],
                 t->shape[axis]);
      finish(op, &acc, t->dtype, type, w.p[0] + (int64_t)i * w.step[0]);
    }
  /* The elements stay where they are: only a dimension of one goes. */
  if (!keep) {
    out->ndim--;
    for (unsigned d = (unsigned)axis; d < out->ndim; d++) out->shape[d] = t->shape[d + 1];
    lt_layout(out);
  }
  return 1;
}

/* t:sum(axis, keepdims): without an axis the value itself, as a Lua number or boolean. */
static int reduce(lua_State *L, const reduction *op) {
  const lt_tensor *t = lt_check(L, 1);
  /* -1: no axis, so over everything. */
  int axis = lt_check_axis(L, 2, t);
  bool keep = false;
  if (!lua_isnoneornil(L, 3)) {
    luaL_checktype(L, 3, LUA_TBOOLEAN);
    keep = lua_toboolean(L, 3);
  }
  if (lt_class_of(t->dtype) == LT_PACKED)
    return luaL_error(L, "%s: no arithmetic on %s: use astype", op->name,
                      isa_dtypes[t->dtype].name);
  /* Empty sums are 0, but there is no mean of nothing. */
  int64_t n = axis < 0 ? t->size : t->shape[axis];
  if (n == 0 && op->needs_elements)
    return luaL_error(L, "%s: no elements in %s", op->name, lt_push_type(L, t));
  return axis < 0 ? reduce_all(L, op, t, keep) : reduce_axis(L, op, t, axis, keep);
}

static int op_sum(lua_State *L) { return reduce(L, &sum_op); }
static int op_mean(lua_State *L) { return reduce(L, &mean_op); }
static int op_max(lua_State *L) { return reduce(L, &max_op); }
static int op_min(lua_State *L) { return reduce(L, &min_op); }
static int op_any(lua_State *L) { return reduce(L, &any_op); }
static int op_all(lua_State *L) { return reduce(L, &all_op); }

/* ---- Matrix product ------------------------------------------------------------------------ */

/* A dense copy of t as doubles or as 64-bit integers, in a new userdata on the stack. */
static void *unpack(lua_State *L, const lt_tensor *t, bool ints) {
  /* Eight bytes an element, whatever its type. */
  size_t n = (size_t)t->size;
  if (n > SIZE_MAX / 16) luaL_error(L, "matmul: %s is too large", lt_push_type(L, t));
  /* Never of no bytes. */
  char *out = lua_newuserdatauv(L, n * 8 + 8, 0), *p = out;
  lt_walk w;
  lt_walk_init(&w, t->ndim, t->shape, 1, &t);
  for (; lt_walk_next(&w); p += w.n * 8)
    if (ints)
      lt_load_i64(t->dtype, w.p[0], w.step[0], w.n, (int64_t *)(void *)p);
    else
      lt_load_f64(t->dtype, w.p[0], w.step[0], w.n, (double *)(void *)p);
  return out;
}

/* Adds four steps of the contraction, in order, to n columns. In blocks, which compilers
 * vectorise.
 * Four rows of b at a time, so that `row` is read and written a quarter as often. */
static void add_steps(double *restrict row, const double a[4], const double *restrict b,
                      int64_t n) {
  enum { BLOCK = 8 };
  const double *b0 = b, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
  double a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
  int64_t j = 0;
  for (; j + BLOCK <= n; j += BLOCK)
    for (int64_t i = j; i < j + BLOCK; i++)
      row[i] = row[i] + a0 * b0[i] + a1 * b1[i] + a2 * b2[i] + a3 * b3[i];
  for (; j < n; j++) row[j] = row[j] + a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
}

static void product_f64(const double *a, const double *b, int64_t k, int64_t n, double *row) {
  /* The order of additions is that of the contraction, so results do not depend on the
   * blocks. */
  int64_t i = 0;
  for (int64_t j = 0; j < n; j++) row[j] = 0;
  for (; i + 4 <= k; i += 4) add_steps(row, a + i, b + i * n, n);
  for (; i < k; i++)
    for (int64_t j = 0; j < n; j++) row[j] += a[i] * b[i * n + j];
}

static void product_i64(const int64_t *a, const int64_t *b, int64_t k, int64_t n, int64_t *row) {
  for (int64_t j = 0; j < n; j++) row[j] = 0;
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < n; j++) /* Unsigned, where wrapping is defined. */
      row[j] = (int64_t)((uint64_t)row[j] + (uint64_t)a[i] * (uint64_t)b[i * n + j]);
}

/* soma.matmul(a, b): [M, K] times [K, N], contraction in order in double, float32 out; of two
 * integer tensors in 64 bits, int64 out. */
static int op_matmul(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3, "matmul takes no options");
  if (lt_call_device(L, "matmul")) return 1;
  /* Not a view of its operands: they are unpacked first. */
  const lt_tensor *a = lt_check(L, 1), *b = lt_check(L, 2);
  if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0])
    return luaL_error(L, "matmul: needs [M, K] and [K, N], got %s and %s", lt_push_type(L, a),
                      lt_push_type(L, b));
  if (lt_class_of(a->dtype) == LT_PACKED || lt_class_of(b->dtype) == LT_PACKED)
    return luaL_error(L, "matmul: no arithmetic on packed types: use astype");
  bool ints = lt_class_of(a->dtype) == LT_INT && lt_class_of(b->dtype) == LT_INT;
  int64_t shape[2] = {a->shape[0], b->shape[1]}, k = a->shape[1], n = shape[1];
  lt_tensor *out = lt_new(L, ints ? ISA_int64 : ISA_float32, 2, shape);
  void *va = unpack(L, a, ints), *vb = unpack(L, b, ints);
  /* One row of the result, rounded when it is complete. */
  double *row = lua_newuserdatauv(L, (size_t)n * 8 + 8, 0);
  for (int64_t m = 0; m < shape[0]; m++) {
    unsigned char *to = out->data + m * out->stride[0];
    if (ints) {
      product_i64((const int64_t *)va + m * k, vb, k, n, (int64_t *)(void *)row);
      lt_store_i64(ISA_int64, to, 8, (size_t)n, (const int64_t *)(void *)row);
    } else {
      product_f64((const double *)va + m * k, vb, k, n, row);
      lt_store_f64(ISA_float32, to, 4, (size_t)n, row);
    }
  }
  /* `out`, below the two operands and the row. */
  lua_pushvalue(L, -4);
  return 1;
}

const luaL_Reg lt_reduce_functions[] = {{"matmul", op_matmul}, {NULL, NULL}};
const luaL_Reg lt_reduce_methods[] = {{"sum", op_sum},       {"mean", op_mean}, {"max", op_max},
                                      {"min", op_min},       {"any", op_any},   {"all", op_all},
                                      {"matmul", op_matmul}, {NULL, NULL}};
