/* Index expressions against their values, listed; and the views that they make. */
#include "../../isa/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

static uint32_t rnd(uint32_t *s, uint32_t n) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s % n;
}

/* All expressions here are over the same four axes, of which one may have size 1. */
enum { AXES = 4, MOST = 256, F32 = 17 };

typedef struct listed {
  soma_view_axis axis[AXES];
  soma_view_expr x;
  int64_t value[MOST]; /* by the numbers of all axes, the last one fastest */
} listed;

static const int64_t sizes[AXES] = {3, 4, 1, 5};

static void point(int64_t i, int64_t *at) {
  for (int a = AXES - 1; a >= 0; a--) {
    at[a] = i % sizes[a];
    i /= sizes[a];
  }
}
static int64_t points(void) { return 60; }

static int64_t value_of(const soma_view_expr *x, const int64_t *at) {
  int64_t v = x->at;
  for (unsigned a = 0; a < x->n; a++) {
    int64_t i = at[AXES - x->n + a];
    v += x->axis[a].coef * (x->axis[a].size == 1 ? 0 : i);
  }
  return v;
}

static void check(const listed *l) {
  int64_t at[AXES], low = INT64_MAX, high = INT64_MIN, a, b;
  for (int64_t i = 0; i < points(); i++) {
    point(i, at);
    assert_int_equal(value_of(&l->x, at), l->value[i]);
    low = l->value[i] < low ? l->value[i] : low;
    high = l->value[i] > high ? l->value[i] : high;
  }
  assert_true(soma_view_bounds(&l->x, &a, &b));
  assert_int_equal(a, low);
  assert_int_equal(b, high);
}

/* arange(size) along one axis. */
static void arange(uint32_t *s, listed *l) {
  unsigned a = rnd(s, AXES);
  int64_t at[AXES];
  l->x = (soma_view_expr){(int64_t)rnd(s, 7) - 3, AXES - a, l->axis, NULL};
  for (unsigned i = 0; i < AXES - a; i++) l->axis[i] = (soma_view_axis){0, 1};
  l->axis[0] = (soma_view_axis){(int64_t)rnd(s, 7) - 3, sizes[a]};
  for (int64_t i = 0; i < points(); i++) {
    point(i, at);
    l->value[i] = l->x.at + l->axis[0].coef * at[a];
  }
}

static void scaled(uint32_t *s, listed *l) {
  soma_view_error e = {0};
  soma_view_axis axes[AXES];
  int64_t k = (int64_t)rnd(s, 7) - 3, plus = (int64_t)rnd(s, 7) - 3;
  assert_true(soma_view_scale(&l->x, k, plus, axes, &l->x.at, &e));
  memcpy(l->axis, axes, sizeof axes);
  for (int64_t i = 0; i < points(); i++) l->value[i] = l->value[i] * k + plus;
}

static void summed(uint32_t *s, listed *l) {
  soma_view_error e = {0};
  soma_view_axis axes[AXES];
  listed other;
  int sign = rnd(s, 2) ? 1 : -1;
  int64_t at;
  arange(s, &other);
  assert_true(soma_view_sum(&l->x, &other.x, sign, axes, &at, &e));
  l->x.n = other.x.n > l->x.n ? other.x.n : l->x.n;
  l->x.at = at;
  memcpy(l->axis, axes, sizeof axes);
  for (int64_t i = 0; i < points(); i++) l->value[i] += sign * other.value[i];
}

/* Python's // and %, by counting. */
static int64_t floor_of(int64_t a, int64_t b) {
  int64_t q = 0;
  while (b > 0 ? q * b > a : q * b < a) q--;
  while (b > 0 ? (q + 1) * b <= a : (q + 1) * b >= a) q++;
  return q;
}

/* Whether values are those of one step for each axis. */
static bool is_affine(const int64_t *value) {
  static const int64_t stride[AXES] = {20, 5, 5, 1};
  int64_t at[AXES];
  for (int64_t i = 0; i < points(); i++) {
    int64_t v = value[0];
    point(i, at);
    for (unsigned a = 0; a < AXES; a++)
      if (sizes[a] > 1) v += at[a] * (value[stride[a]] - value[0]);
    if (v != value[i]) return false;
  }
  return true;
}

static void divided(uint32_t *s, listed *l) {
  soma_view_error e = {0};
  soma_view_axis axes[AXES] = {{0, 0}};
  int64_t k = (int64_t)rnd(s, 13) - 6, value[MOST], at;
  int rest = (int)rnd(s, 2);
  if (k == 0) {
    assert_false(soma_view_divide(&l->x, k, rest, axes, &at, &e));
    return;
  }
  for (int64_t i = 0; i < points(); i++) {
    int64_t q = floor_of(l->value[i], k);
    value[i] = rest ? l->value[i] - q * k : q;
  }
  if (!soma_view_divide(&l->x, k, rest, axes, &at, &e)) { /* it does not find all that are */
    assert_true(!is_affine(value) || l->x.n > 1 || value[0] != value[1]);
    return;
  }
  assert_true(is_affine(value));
  l->x.at = at;
  memcpy(l->axis, axes, sizeof axes);
  memcpy(l->value, value, sizeof value);
}

/* Where the expression is not negative, along the axis of which it depends. */
static void limited(const listed *l) {
  unsigned axis = 0, varies = 0;
  int64_t low, high, at[AXES];
  for (unsigned a = 0; a < l->x.n; a++) varies += l->axis[a].coef && l->axis[a].size > 1;
  assert_int_equal(soma_view_limit(&l->x, &axis, &low, &high), varies);
  if (varies > 1) return;
  for (int64_t i = 0; i < points(); i++) {
    point(i, at);
    int64_t k = varies ? at[AXES - l->x.n + axis] : 0;
    assert_int_equal(l->value[i] >= 0, k >= low && k < high);
  }
}

static void test_expressions(void **state) {
  static void (*const ops[])(uint32_t *, listed *) = {scaled, summed, divided};
  (void)state;
  for (uint32_t round = 0; round < 25000; round++) {
    uint32_t s = round * 2654435761u + 1;
    listed l;
    arange(&s, &l);
    for (int i = 0; i < 4; i++) {
      ops[rnd(&s, 3)](&s, &l);
      check(&l);
      limited(&l);
      if (l.value[0] > 100000 || l.value[0] < -100000) break;
    }
  }
}

/* ---- v[keys] -----------------------------------------------------------------------------------
 */

/* Element [i, j, k, l] of the view is the element of v at the keys' values there. */
static void test_take(void **state) {
  int taken = 0;
  (void)state;
  for (uint32_t round = 0; round < 30000; round++) {
    uint32_t s = round * 2654435761u + 1;
    soma_view_error e = {0};
    soma_view v, w;
    listed key[2];
    int tile = (int)rnd(&s, 2);
    assert_true(soma_view_make(&v, 1, F32, tile, 2, (int64_t[]){12, 30}, &e));
    for (int d = 0; d < 2; d++) {
      arange(&s, &key[d]);
      if (d || !tile) summed(&s, &key[d]);
      scaled(&s, &key[d]);
    }
    if (tile && rnd(&s, 2)) { /* partitions along axis 0 */
      key[0].x = (soma_view_expr){rnd(&s, 12), AXES, key[0].axis, NULL};
      for (unsigned a = 0; a < AXES; a++) key[0].axis[a] = (soma_view_axis){a == 0, a ? 1 : 3};
      for (int64_t i = 0; i < points(); i++) key[0].value[i] = key[0].x.at + i / 20;
    }
    uint32_t outside = 0, past = 99;
    for (int64_t i = 0; i < points(); i++)
      for (int d = 0; d < 2; d++)
        if (key[d].value[i] < 0 || key[d].value[i] >= v.dim[d].num) outside |= 1u << d;
    bool inside = !outside;
    w = v;
    if (soma_view_take(&w, 2, (soma_view_expr[]){key[0].x, key[1].x}, &past, &e))
      assert_int_equal(past, outside); /* a mask has to limit these */
    else
      assert_true(tile);
    w = v;
    if (!soma_view_take(&w, 2, (soma_view_expr[]){key[0].x, key[1].x}, NULL, &e)) {
      assert_true(!inside || tile);
      assert_memory_equal(&w, &v, sizeof v);
      continue;
    }
    assert_true(inside);
    taken++;
    for (int64_t i = 0; i < points(); i++) {
      int64_t at[AXES], part = w.part, off = w.offset;
      point(i, at);
      for (unsigned d = 0; d < w.ndim; d++) {
        int64_t k = w.dim[d].num == 1 ? 0 : at[AXES - w.ndim + d];
        *(tile && d == 0 ? &part : &off) += k * w.dim[d].step;
      }
      assert_int_equal(part, tile ? key[0].value[i] : 0);
      assert_int_equal(off, (tile ? 0 : 30 * key[0].value[i]) + key[1].value[i]);
    }
  }
  assert_true(taken > 2000);
}

static void test_refused(void **state) {
  soma_view_error e = {.name = "x"};
  soma_view_axis row[2] = {{1, 128}, {0, 1}}, column[2] = {{0, 1}, {2, 40}}, out[2];
  soma_view_expr i = {0, 2, row, NULL}, j = {1, 2, column, "index f"},
                 turned = {0, 2, column, NULL};
  soma_view v;
  int64_t at;
  (void)state;
  assert_true(soma_view_make(&v, 1, F32, 1, 2, (int64_t[]){128, 64}, &e));
  assert_false(soma_view_take(&v, 2, (soma_view_expr[]){i, j}, NULL, &e));
  assert_string_equal(e.text, "index f runs from 1 to 79: dimension 1 of x has 64");
  assert_false(soma_view_take(&v, 1, &i, NULL, &e));
  assert_string_equal(e.text, "1 indices for the 2 dimensions of x");
  assert_false(soma_view_take(&v, 2, (soma_view_expr[]){turned, i}, NULL, &e));
  assert_string_equal(
      e.text, "an index of the partitions: its step must be 1, along axis 0, not 2 along axis 1");
  column[1].size = 10; /* x[p, p + 2 * f] is no view: an operand's partitions are alike */
  column[0] = (soma_view_axis){1, 128};
  assert_false(soma_view_take(&v, 2, (soma_view_expr[]){i, j}, NULL, &e));
  column[0] = (soma_view_axis){1, 40};
  row[0].size = 40;
  assert_false(soma_view_take(&v, 2, (soma_view_expr[]){i, j}, NULL, &e));
  assert_string_equal(e.text,
                      "index f of dimension 1 cannot vary along axis 0, which is the partitions "
                      "of the result");
  column[0] = (soma_view_axis){0, 1};
  column[1].size = 40;
  assert_false(soma_view_divide(&j, 4, 0, out, &at, &e));
  assert_string_equal(
      e.text, "it is not affine: an access pattern takes sums of indices times whole numbers");
  row[1].size = 3;
  assert_false(soma_view_sum(&i, &j, 1, out, &at, &e));
  assert_string_equal(e.text, "one axis has 3 and 40 values");
}

static void test_hostile(void **state) {
  static const int64_t far[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 2, INT64_MAX, INT64_C(1) << 60};
  uint32_t s = 9;
  (void)state;
  for (int k = 0; k < 100000; k++) {
    soma_view_error e = {0};
    soma_view_axis a[2], b[2], out[2];
    for (int d = 0; d < 2; d++) {
      a[d] = (soma_view_axis){far[rnd(&s, 8)], far[rnd(&s, 8)]};
      b[d] = (soma_view_axis){far[rnd(&s, 8)], far[rnd(&s, 8)]};
    }
    soma_view_expr x = {far[rnd(&s, 8)], 2, a, NULL},
                   y = {far[rnd(&s, 8)], 1 + rnd(&s, 2), b, NULL};
    int64_t at, low, high;
    unsigned axis;
    soma_view v;
    assert_true(soma_view_make(&v, 1, F32, (int)rnd(&s, 2), 2, (int64_t[]){4, 4}, &e));
    soma_view_bounds(&x, &low, &high);
    soma_view_sum(&x, &y, -1, out, &at, &e);
    soma_view_scale(&x, far[rnd(&s, 8)], far[rnd(&s, 8)], out, &at, &e);
    soma_view_divide(&x, far[rnd(&s, 8)], (int)rnd(&s, 2), out, &at, &e);
    soma_view_limit(&x, &axis, &low, &high);
    soma_view_take(&v, 2, (soma_view_expr[]){x, y}, NULL, &e);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_expressions),
      cmocka_unit_test(test_take),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_hostile),
  };
  return cmocka_run_group_tests_name("view_index", tests, NULL, NULL);
}
