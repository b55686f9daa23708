/* Index expressions: sums of axes times whole numbers, and the views that they make. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "view.h"
#include "view_impl.h"

/* Example: 2 + 3 i - j with i of 4 and j of 5 values lies between -2 and 11. */
int soma_view_bounds(const soma_view_expr *x, int64_t *low, int64_t *high) {
  /* Each axis moves one end, by the sign of its factor. */
  *low = *high = x->at;
  if (x->at <= -ISA_VIEW_FAR || x->at >= ISA_VIEW_FAR) return 0;
  for (unsigned a = 0; a < x->n; a++) {
    int64_t far, *end = x->axis[a].coef < 0 ? low : high;
    /* An axis of one value only has 0. */
    if (x->axis[a].size < 2) continue;
    if (!isa_view_times(x->axis[a].coef, x->axis[a].size - 1, &far) ||
        !isa_view_plus(*end, far, end))
      return 0;
  }
  return 1;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

/* times and plus act on the constant and on each factor alike: the sum of axes stays
 * one. */
int soma_view_scale(const soma_view_expr *x, int64_t times, int64_t plus, soma_view_axis *axes,
                    int64_t *at, soma_view_error *e) {
  int64_t start;
  if (!isa_view_times(x->at, times, &start) || !isa_view_plus(start, plus, at))
    return isa_view_too_far(e);
  for (unsigned a = 0; a < x->n; a++) {
    axes[a].size = x->axis[a].size;
    if (!isa_view_times(x->axis[a].coef, times, &axes[a].coef)) return isa_view_too_far(e);
  }
  return 1;
}

int soma_view_sum(const soma_view_expr *x, const soma_view_expr *y, int sign, soma_view_axis *axes,
                  int64_t *at, soma_view_error *e) {
  /* The last axes belong together, as in NumPy. */
  unsigned n = x->n > y->n ? x->n : y->n, i = n - x->n, j = n - y->n;
  int64_t other;
  if (!isa_view_times(y->at, sign, &other) || !isa_view_plus(x->at, other, at))
    return isa_view_too_far(e);
  for (unsigned a = 0; a < n; a++) {
    /* A factor 0 and one value: an axis that the other expression has alone. */
    const soma_view_axis none = {0, 1};
    soma_view_axis p = a < i ? none : x->axis[a - i], q = a < j ? none : y->axis[a - j];
    if (p.size != q.size && p.size != 1 && q.size != 1)
      return isa_view_refuse(e, "one axis has %lld and %lld values", (long long)p.size,
                             (long long)q.size);
    axes[a].size = p.size == 1 ? q.size : p.size;
    if (!isa_view_times(q.coef, sign, &other) || !isa_view_plus(p.coef, other, &axes[a].coef))
      /* Sizes must agree or be 1, as NumPy broadcasts. */
      return isa_view_too_far(e);
  }
  return 1;
}

/* Rounded down, as Python's and Lua's `//`; and what is left, of the divisor's sign.
 * C rounds towards 0: -1 / 2 is 0 there, and -1 here. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t floor_rest(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

int soma_view_divide(const soma_view_expr *x, int64_t by, int rest, soma_view_axis *axes,
                     int64_t *at, soma_view_error *e) {
  int64_t low, high;
  if (by == 0) return isa_view_refuse(e, "an index expression is divided by 0");
  if (by <= -ISA_VIEW_FAR || by >= ISA_VIEW_FAR || !soma_view_bounds(x, &low, &high))
    return isa_view_too_far(e);
  /* All values have the same quotient, or the quotient moves along with them. */
  bool one = floor_div(low, by) == floor_div(high, by), even = true;
  /* i * 8 // 4 is i * 2; i // 4 is not affine unless all of its values have one
   * quotient. */
  for (unsigned a = 0; a < x->n; a++)
    even = even && (x->axis[a].size < 2 || x->axis[a].coef % by == 0);
  if (!one && !even)
    return isa_view_refuse(e, "it is not affine: an access pattern takes sums of indices times "
                              "whole numbers");
  /* Where all coefficients are multiples, the rest is that of the constant everywhere. */
  bool keep = rest ? one : !one;
  *at = rest ? (one ? x->at - floor_div(low, by) * by : floor_rest(x->at, by))
             : (one ? floor_div(low, by) : floor_div(x->at, by));
  for (unsigned a = 0; a < x->n; a++) {
    int64_t coef = x->axis[a].coef;
    if (x->axis[a].size < 2) coef = 0;
    axes[a] = (soma_view_axis){keep ? (rest ? coef : coef / by) : 0, x->axis[a].size};
  }
  return 1;
}

/* ---- Views ----------------------------------------------------------------------------------- */

static const char *name_of(const soma_view_expr *x) { return x->name ? x->name : "an index"; }

/* Whether a key lies in its dimension, or may leave it: then its bit of *past is set. */
static int check_bounds(const soma_view *v, unsigned d, const soma_view_expr *x, uint32_t *past,
                        soma_view_error *e) {
  int64_t low, high;
  if (!soma_view_bounds(x, &low, &high)) return isa_view_too_far(e);
  if (low >= 0 && high < v->dim[d].num) return 1;
  if (!past)
    return isa_view_refuse(e, "%s runs from %lld to %lld: dimension %lld of %s has %lld",
                           name_of(x), (long long)low, (long long)high, (long long)d + e->from,
                           isa_view_name(e), (long long)v->dim[d].num);
  *past |= UINT32_C(1) << d;
  return 1;
}

/* Axis a of the result takes its steps from axis k of a key. */
static int take_axis(soma_view *w, const soma_view *v, unsigned d, const soma_view_expr *x,
                     unsigned a, soma_view_axis k, soma_view_error *e) {
  soma_view_dim *to = &w->dim[a];
  int64_t step;
  /* Two keys along one axis must run over equally many values. */
  if (k.size < 1 || (k.size != 1 && to->num != 1 && to->num != k.size))
    return isa_view_refuse(e, "%s: axis %u has %lld and %lld values", name_of(x), a,
                           (long long)to->num, (long long)k.size);
  /* An axis of one value stands for as many as another key has. */
  if (k.size > to->num) to->num = k.size;
  /* It gives the axis its size, but does not move along it. */
  if (!k.coef || k.size == 1) return 1;
  if (v->tile && d == 0)
    return (a == 0 && k.coef == 1) ||
           isa_view_refuse(e,
                           "%s of the partitions: its step must be 1, along axis 0, not %lld along "
                           "axis %u",
                           name_of(x), (long long)k.coef, a);
  if (v->tile && a == 0)
    return isa_view_refuse(
        e, "%s of dimension %lld cannot vary along axis 0, which is the partitions of the result",
        name_of(x), (long long)d + e->from);
  /* Steps of two keys along one axis add up: x[i, i] is the diagonal. */
  if (isa_view_times(k.coef, v->dim[d].step, &step) && isa_view_plus(to->step, step, &to->step))
    return 1;
  return isa_view_too_far(e);
}

/* Adds the key of dimension d: w's dimensions are the axes of all keys, ended at the last one.
 * Dimensions of w are the axes of all keys together: x[i, j] of two axes has the shape
 * of both. */
static int take_one(soma_view *w, const soma_view *v, unsigned d, const soma_view_expr *x,
                    uint32_t *past, soma_view_error *e) {
  unsigned from = w->ndim - x->n;
  int64_t move, *place = v->tile && d == 0 ? &w->part : &w->offset;
  if (!check_bounds(v, d, x, past, e)) return 0;
  if (!isa_view_times(x->at, v->dim[d].step, &move) || !isa_view_plus(*place, move, place))
    return isa_view_too_far(e);
  for (unsigned a = 0; a < x->n; a++)
    if (!take_axis(w, v, d, x, from + a, x->axis[a], e)) return 0;
  return 1;
}

/* Whether the key of dimension d is all of it, along axis d. */
static bool is_all(const soma_view *v, unsigned d, const soma_view_expr *x, unsigned axes) {
  bool all = x->n == axes && d < axes && x->at == 0 && x->axis[d].size == v->dim[d].num;
  for (unsigned a = 0; a < x->n && all; a++)
    all = x->axis[a].coef == (a == d) || x->axis[a].size < 2;
  return all;
}

/* Whether axis 0 of a tile's view is its partitions, or has one number.
 * Otherwise rows of the result would be taken out of one partition, which no pattern
 * does. */
static bool first_is_partitions(const soma_view *w, const soma_view_expr *x) {
  return w->dim[0].num == 1 || (x->n == w->ndim && x->axis[0].coef && x->axis[0].size > 1);
}

int soma_view_take(soma_view *v, unsigned n, const soma_view_expr *keys, uint32_t *past,
                   soma_view_error *e) {
  soma_view w; /* its head and dimensions: much of a view is not copied */
  /* A tile's view keeps a partition dimension, whatever the keys are. */
  unsigned axes = v->tile;
  if (past) *past = 0;
  if (n != v->ndim)
    return isa_view_refuse(e, "%u indices for the %u dimensions of %s", n, v->ndim,
                           isa_view_name(e));
  for (unsigned d = 0; d < n; d++) axes = keys[d].n > axes ? keys[d].n : axes;
  if (axes > SOMA_VIEW_DIMS)
    return isa_view_refuse(e, "%s would have %u dimensions: there can be %d", isa_view_name(e),
                           axes, SOMA_VIEW_DIMS);
  /* Rows that come at run time are not numbers yet: all of them stay, or none can be picked. */
  for (unsigned d = 0; d < isa_view_fixed(v); d++)
    if (!is_all(v, d, &keys[d], axes)) return isa_view_is_fixed(d, e);
  memcpy(&w, v, offsetof(soma_view, dim));
  w.ndim = (uint8_t)axes;
  for (unsigned a = 0; a < axes; a++) w.dim[a] = (soma_view_dim){1, 0};
  for (unsigned d = 0; d < n; d++)
    if (!take_one(&w, v, d, &keys[d], past, e)) return 0;
  if (v->tile) {
    if (!first_is_partitions(&w, &keys[0]))
      return isa_view_refuse(e,
                             "axis 0 of the result is the partitions of %s: use it to index "
                             "them",
                             isa_view_name(e));
    w.dim[0].step = 1;
  }
  /* Its parts known only at run time stay.
   * Only after all keys were accepted: on refusal v is as it was. */
  memcpy(v, &w, offsetof(soma_view, dim));
  memcpy(v->dim, w.dim, axes * sizeof *w.dim);
  return 1;
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

/* For loops over a mask such as i < n: along which axis, and from where to where it
 * holds. */
unsigned soma_view_limit(const soma_view_expr *x, unsigned *axis, int64_t *low, int64_t *high) {
  unsigned varies = 0;
  for (unsigned a = 0; a < x->n; a++) {
    /* Axes along which nothing changes do not count. */
    if (!x->axis[a].coef || x->axis[a].size < 2) continue;
    if (varies++ == 0) *axis = a;
  }
  *low = 0;
  *high = varies ? x->axis[*axis].size : x->at >= 0;
  if (varies != 1) return varies;
  int64_t coef = x->axis[*axis].coef;
  /* at + coef * i >= 0: from -at / coef on, rounded up; or up to at / -coef, rounded down. */
  if (coef > 0 && x->at < 0) {
    *low = x->at == INT64_MIN ? *high : (-x->at - 1) / coef + 1;
  } else if (coef < 0) {
    int64_t last = x->at < 0 ? -1 : coef == INT64_MIN ? 0 : x->at / -coef;
    if (last < *high - 1) *high = last + 1;
  }
  if (*low > *high) *low = *high;
  return varies;
}
