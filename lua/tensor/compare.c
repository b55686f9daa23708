/* allclose and equal, with a report of what differs. */
#include <math.h>
#include <string.h>

#include "dmath.h"
#include "tensor.h"

/* As many as fit on a screen with their indices. */
enum { WORST = 5 };
typedef struct difference {
  int64_t at; /* index in row-major order */
  double excess, by;
} difference;

/* What a comparison looks for, and what it has found so far. */
typedef struct comparison {
  double rtol, atol;
  bool equal_nan;
  int64_t count;
  difference worst[WORST];
  int n;
} comparison;

/* How far a is from b beyond the tolerance: not above 0 when close. *by: the difference. */
static double excess(const comparison *c, double a, double b, double *by) {
  /* Infinities of one sign are equal, though their difference is none. */
  *by = dm_abs(a - b);
  if (a == b) {
    *by = 0;
    return 0;
  }
  /* Only with the option, as a NaN is not equal to itself. */
  if (a != a && b != b && c->equal_nan) return 0;
  if (*by != *by || *by == HUGE_VAL) return HUGE_VAL; /* a NaN, or infinities apart */
  double tolerance = c->atol + c->rtol * dm_abs(b);
  return *by > tolerance ? *by - tolerance : 0;
}

/* Sorted, the worst first; of a full list the last falls out. */
static void keep_worst(comparison *c, difference d) {
  /* A full list looks for a place as well, which may be behind its end. */
  int i = c->n < WORST ? c->n++ : WORST;
  for (; i > 0 && c->worst[i - 1].excess < d.excess; i--)
    if (i < WORST) c->worst[i] = c->worst[i - 1];
  if (i < WORST) c->worst[i] = d;
}

static void compare(comparison *c, const lt_tensor *a, const lt_tensor *b) {
  const lt_tensor *ops[] = {a, b};
  /* Doubles cannot tell all integers of 64 bits apart. */
  bool wide = isa_dtypes[a->dtype].bits == 64 && isa_dtypes[b->dtype].bits == 64;
  int64_t at = 0;
  lt_walk w;
  lt_walk_init(&w, a->ndim, a->shape, 2, ops);
  /* Row-major order, so that `at` counts elements. */
  while (lt_walk_next(&w))
    for (size_t i = 0; i < w.n; i++, at++) {
      const unsigned char *pa = w.p[0] + (int64_t)i * w.step[0];
      const unsigned char *pb = w.p[1] + (int64_t)i * w.step[1];
      double x, y;
      lt_load_f64(a->dtype, pa, 0, 1, &x);
      lt_load_f64(b->dtype, pb, 0, 1, &y);
      difference d = {.at = at};
      d.excess = excess(c, x, y, &d.by);
      if (wide && x == y && memcmp(pa, pb, 8) != 0) { /* apart by less than a double shows */
        d.by = 1;
        d.excess = 1 > c->atol + c->rtol * dm_abs(y);
      }
      /* Written so that an excess that is not a number counts as none. */
      if (!(d.excess > 0)) continue;
      c->count++;
      keep_worst(c, d);
    }
}

/* Adds "[1, 2]" of element `at`; gives the element's address. */
static const unsigned char *add_index(luaL_Buffer *b, const lt_tensor *t, int64_t at) {
  int64_t index[LT_DIMS] = {0};
  const unsigned char *p = t->data;
  char text[32];
  /* From the last dimension on: the remainder is its index. */
  for (unsigned d = t->ndim; d-- > 0; at /= t->shape[d]) {
    index[d] = at % t->shape[d];
    p += index[d] * t->stride[d];
  }
  luaL_addstring(b, "  [");
  for (unsigned d = 0; d < t->ndim; d++) {
    /* Indices count from 0, as in scripts. */
    snprintf(text, sizeof text, "%s%lld", d > 0 ? ", " : "", (long long)index[d]);
    luaL_addstring(b, text);
  }
  luaL_addstring(b, "]  ");
  return p;
}

/* The shape is that of the first tensor, whose indices `at` counts. */
static const unsigned char *element_of(const lt_tensor *t, const lt_tensor *shape, int64_t at) {
  const unsigned char *p = t->data;
  /* Dimensions are aligned at their end, as in broadcasting. */
  for (unsigned d = t->ndim, e = shape->ndim; d-- > 0;) {
    e--;
    /* One element stands for all of a number. */
    if (t->shape[d] != 1) p += at % shape->shape[e] * t->stride[d];
    at /= shape->shape[e];
  }
  return p;
}

static void add_value(luaL_Buffer *b, const lt_tensor *t, const unsigned char *p) {
  char text[48];
  double v;
  if (lt_class_of(t->dtype) == LT_INT) {
    int64_t i;
    lt_load_i64(t->dtype, p, 0, 1, &i);
    /* The bit pattern is the one that int64 shares with it. */
    if (t->dtype == ISA_uint64)
      snprintf(text, sizeof text, "%llu", (unsigned long long)i);
    else
      snprintf(text, sizeof text, "%lld", (long long)i);
  } else if (lt_class_of(t->dtype) == LT_PACKED) {
    /* Packed elements have no single value. */
    snprintf(text, sizeof text, "0x%llx",
             (unsigned long long)lt_get_bits(p, isa_dtype_bytes(t->dtype)));
  } else {
    lt_load_f64(t->dtype, p, 0, 1, &v);
    /* Nine digits tell all float32 apart. */
    snprintf(text, sizeof text, "%.9g", v);
  }
  luaL_addstring(b, text);
}

static int report(lua_State *L, const comparison *c, const lt_tensor *a, const lt_tensor *b) {
  luaL_Buffer buf;
  char text[160];
  /* False first, then the text. */
  lua_pushboolean(L, false);
  luaL_buffinit(L, &buf);
  snprintf(text, sizeof text,
           "not close: %lld of %lld elements differ by more than %g + %g * |expected|; the worst:",
           (long long)c->count, (long long)a->size, c->atol, c->rtol);
  luaL_addstring(&buf, text);
  for (int i = 0; i < c->n; i++) {
    luaL_addstring(&buf, "\n");
    add_value(&buf, a, add_index(&buf, a, c->worst[i].at));
    luaL_addstring(&buf, ", expected ");
    /* The expected value may be one number for all. */
    add_value(&buf, b, element_of(b, a, c->worst[i].at));
    snprintf(text, sizeof text, ", difference %.6g", c->worst[i].by);
    luaL_addstring(&buf, text);
  }
  luaL_pushresult(&buf);
  return 2;
}

static bool same_shape(const lt_tensor *a, const lt_tensor *b) {
  return a->ndim == b->ndim && memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

/* soma.allclose(a, b, {rtol=1e-5, atol=1e-8, equal_nan=false}): whether |a - b| <= atol +
 * rtol * |b| everywhere; else false and a text naming the worst elements. b may be a number. */
static int op_allclose(lua_State *L) {
  static const char *const known[] = {"rtol", "atol", "equal_nan", NULL};
  const lt_tensor *a = lt_check(L, 1), *b = lt_test(L, 2);
  /* A number becomes a tensor of no dimensions. */
  lt_tensor one = {.size = 1, .dtype = ISA_float32};
  unsigned char data[8];
  if (b == NULL) {
    if (!lua_isnumber(L, 2))
      return luaL_error(L, "allclose: operand 2 must be a tensor or a number, not %s",
                        lb_type_name(L, 2));
    one.data = data;
    lt_set_element(L, 2, ISA_float32, data);
  }
  lb_options(L, 3, "allclose", known);
  comparison c = {.rtol = lb_number(L, 3, "allclose", "rtol", 1e-5),
                  .atol = lb_number(L, 3, "allclose", "atol", 1e-8),
                  .equal_nan = lb_bool(L, 3, "allclose", "equal_nan", false)};
  /* A tolerance below zero would call equal values different. */
  if (c.rtol < 0 || c.atol < 0) return luaL_error(L, "allclose: a tolerance is negative");
  if (b != NULL && !same_shape(a, b)) {
    lua_pushboolean(L, false);
    /* The text takes the place of the two names that it was made of. */
    lua_pushfstring(L, "shapes differ: %s, expected %s", lt_push_type(L, a), lt_push_type(L, b));
    lua_replace(L, -3);
    lua_pop(L, 1);
    return 2;
  }
  if (b == NULL) b = &one;
  /* Four numbers in one element have no difference. */
  if (lt_class_of(a->dtype) == LT_PACKED || lt_class_of(b->dtype) == LT_PACKED)
    return luaL_error(L, "allclose: packed types: use astype, or soma.equal");
  compare(&c, a, b);
  if (c.count > 0) return report(L, &c, a, b);
  lua_pushboolean(L, true);
  return 1;
}

/* soma.equal(a, b): the same dtype, shape and bits; else false and a text with the first
 * difference. */
static int op_equal(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3, "equal takes no options; allclose has tolerances");
  const lt_tensor *a = lt_check(L, 1), *b = lt_check(L, 2);
  /* No conversion: the bits are compared. */
  if (a->dtype != b->dtype || !same_shape(a, b)) {
    const char *ta = lt_push_type(L, a), *tb = lt_push_type(L, b);
    lua_pushboolean(L, false);
    lua_pushfstring(L, "types differ: %s, expected %s", ta, tb);
    return 2;
  }
  const lt_tensor *ops[] = {a, b};
  size_t bytes = isa_dtype_bytes(a->dtype);
  /* The first difference is remembered, the others only counted. */
  int64_t at = 0, first = -1, count = 0;
  lt_walk w;
  lt_walk_init(&w, a->ndim, a->shape, 2, ops);
  while (lt_walk_next(&w))
    for (size_t i = 0; i < w.n; i++, at++) {
      int64_t k = (int64_t)i;
      /* A NaN is equal to a NaN of the same bits here. */
      if (memcmp(w.p[0] + k * w.step[0], w.p[1] + k * w.step[1], bytes) == 0) continue;
      if (count++ == 0) first = at;
    }
  lua_pushboolean(L, count == 0);
  if (count == 0) return 1;
  luaL_Buffer buf;
  char text[96];
  luaL_buffinit(L, &buf);
  snprintf(text, sizeof text, "%lld of %lld elements differ in their bits; the first:\n",
           (long long)count, (long long)a->size);
  luaL_addstring(&buf, text);
  const unsigned char *p = add_index(&buf, a, first), *q = element_of(b, a, first);
  add_value(&buf, a, p);
  luaL_addstring(&buf, ", expected ");
  add_value(&buf, b, q);
  /* Values alone may look alike. */
  snprintf(text, sizeof text, " (bits %llx, expected %llx)",
           (unsigned long long)lt_get_bits(p, (unsigned)bytes),
           (unsigned long long)lt_get_bits(q, (unsigned)bytes));
  luaL_addstring(&buf, text);
  luaL_pushresult(&buf);
  return 2;
}

const luaL_Reg lt_compare_functions[] = {
    {"allclose", op_allclose}, {"equal", op_equal}, {NULL, NULL}};
