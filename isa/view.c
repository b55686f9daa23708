/* Views of tensors and tiles: which elements, in which order. */
#include "view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "isa.h"
#include "view_impl.h"

/* ---- Messages -------------------------------------------------------------------------------- */

int isa_view_refuse(soma_view_error *e, const char *text, ...) {
  va_list ap;
  va_start(ap, text);
  vsnprintf(e->text, sizeof e->text, text, ap);
  va_end(ap);
  return 0;
}

int isa_view_too_far(soma_view_error *e) {
  return isa_view_refuse(e, "%s: its numbers do not fit in 61 bits", isa_view_name(e));
}

/* "[128, 64]", in a buffer of the caller's. */
enum { SHAPE_TEXT = 200 };
static const char *shape_of(const soma_view *v, char *text) {
  size_t n = 0;
  text[n++] = '[';
  for (unsigned d = 0; d < v->ndim && n < SHAPE_TEXT - 24; d++)
    n += (size_t)snprintf(text + n, SHAPE_TEXT - n, "%s%lld", d ? ", " : "",
                          (long long)v->dim[d].num);
  snprintf(text + n, SHAPE_TEXT - n, "]");
  return text;
}

static int no_dimension(const soma_view *v, unsigned d, soma_view_error *e) {
  if (v->ndim == 0) return isa_view_refuse(e, "%s has no dimensions", isa_view_name(e));
  return isa_view_refuse(e, "%s has dimensions %u to %u, not %lld", isa_view_name(e), e->from,
                         v->ndim + e->from - 1, (long long)d + e->from);
}

static long long shown(unsigned d, const soma_view_error *e) { return (long long)d + e->from; }

/* ---- Making one ----------------------------------------------------------------------------- */

int soma_view_make(soma_view *v, uint32_t buffer, unsigned dtype, int tile, unsigned ndim,
                   const int64_t *shape, soma_view_error *e) {
  soma_view made = {
      .buffer = buffer, .tile = tile != 0, .dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim};
  int64_t step = 1;
  if (!isa_dtype_valid(dtype)) return isa_view_refuse(e, "%u is not a data type", dtype);
  if (ndim < made.tile || ndim > SOMA_VIEW_DIMS)
    return isa_view_refuse(e, "%s has %u dimensions: there can be %u to %d", isa_view_name(e), ndim,
                           made.tile, SOMA_VIEW_DIMS);
  /* Steps of a dense order, innermost first. */
  for (unsigned d = ndim; d-- > 0;) {
    if (shape[d] < 1)
      return isa_view_refuse(e, "dimension %lld of %s has %lld elements", shown(d, e),
                             isa_view_name(e), (long long)shape[d]);
    /* Partitions count by themselves: the other steps are elements of one partition. */
    bool partitions = made.tile && d == 0;
    made.dim[d] = (soma_view_dim){shape[d], partitions ? 1 : step};
    if (shape[d] >= ISA_VIEW_FAR || (!partitions && !isa_view_times(step, shape[d], &step)))
      return isa_view_too_far(e);
  }
  if (!isa_view_times(step, isa_dtype_bytes(dtype), &made.bytes)) return isa_view_too_far(e);
  made.parts = made.tile ? shape[0] : 0;
  *v = made;
  return 1;
}

int64_t soma_view_elements(const soma_view *v) {
  int64_t n = 1;
  for (unsigned d = 0; d < v->ndim; d++)
    if (__builtin_mul_overflow(n, v->dim[d].num, &n)) return INT64_MAX;
  return n;
}

int soma_view_dense(const soma_view *v) {
  int64_t step = 1;
  for (unsigned d = v->ndim; d-- > v->tile;) {
    /* The step of a single element is never taken. */
    if (v->dim[d].num != 1 && v->dim[d].step != step) return 0;
    if (!isa_view_times(step, v->dim[d].num, &step)) return 0;
  }
  return 1;
}

/* ---- What a part known only at run time fixes ----------------------------------------------- */

/* Dimensions from the first on that stay as they are. */
unsigned isa_view_fixed(const soma_view *v) {
  unsigned n = 0;
  for (unsigned i = 0; i < v->ndyn; i++) {
    const soma_view_dyn *p = &v->dyn[i];
    if ((p->kind == SOMA_DYN_SIZE || p->kind == SOMA_DYN_GATHER) && p->dim + 1u > n)
      n = p->dim + 1u;
  }
  return n;
}

int isa_view_is_fixed(unsigned d, soma_view_error *e) {
  return isa_view_refuse(
      e,
      "dimension %lld of %s must stay as it is: a register gives a size, or an index "
      "chooses the rows",
      shown(d, e), isa_view_name(e));
}

/* Whether dimension d itself has a size or rows from a register or an index. */
static bool has_part(const soma_view *v, unsigned d) {
  for (unsigned i = 0; i < v->ndyn; i++)
    if ((v->dyn[i].kind == SOMA_DYN_SIZE || v->dyn[i].kind == SOMA_DYN_GATHER) &&
        v->dyn[i].dim == d)
      return true;
  return false;
}

/* ---- Slices --------------------------------------------------------------------------------- */

static int check_slice(const soma_view *v, unsigned d, int64_t count, int64_t step,
                       soma_view_error *e) {
  if (d >= v->ndim) return no_dimension(v, d, e);
  if (count < 1 || step == 0)
    return isa_view_refuse(
        e, "a slice of %s takes 1 element or more, and its step is not 0: %lld by %lld",
        isa_view_name(e), (long long)count, (long long)step);
  if (v->tile && d == 0 && step != 1 && count > 1)
    return isa_view_refuse(e, "partitions of %s are taken one after another, not by %lld",
                           isa_view_name(e), (long long)step);
  /* All of a dimension whose size or rows come at run time may be named, a part may not. */
  bool whole = count == v->dim[d].num && step == 1;
  return whole || !has_part(v, d) || isa_view_is_fixed(d, e);
}

/* The first and the last element of a slice lie in the dimension. */
static bool lies_in(const soma_view *v, unsigned d, int64_t start, int64_t count, int64_t step,
                    int64_t *last) {
  int64_t num = v->dim[d].num;
  bool fits = isa_view_times(count - 1, step, last) && isa_view_plus(*last, start, last);
  return fits && start >= 0 && start < num && *last >= 0 && *last < num;
}

static int outside(const soma_view *v, unsigned d, int64_t start, int64_t count, int64_t step,
                   soma_view_error *e) {
  char shape[SHAPE_TEXT];
  int64_t last;
  if (!isa_view_times(count - 1, step, &last) || !isa_view_plus(last, start, &last))
    return isa_view_refuse(e, "%lld elements by %lld in dimension %lld of %s%s: it has %lld",
                           (long long)count, (long long)step, shown(d, e), isa_view_name(e),
                           shape_of(v, shape), (long long)v->dim[d].num);
  return isa_view_refuse(e, "%lld to %lld of dimension %lld of %s%s: it has %lld", (long long)start,
                         (long long)last, shown(d, e), isa_view_name(e), shape_of(v, shape),
                         (long long)v->dim[d].num);
}

int soma_view_slice(soma_view *v, unsigned d, int64_t start, int64_t count, int64_t step,
                    soma_view_error *e) {
  int64_t last, by, at, *place = v->tile && d == 0 ? &v->part : &v->offset;
  if (!check_slice(v, d, count, step, e)) return 0;
  if (!lies_in(v, d, start, count, step, &last)) return outside(v, d, start, count, step, e);
  if (!isa_view_times(start, v->dim[d].step, &at) || !isa_view_plus(*place, at, &at) ||
      !isa_view_times(v->dim[d].step, step, &by))
    return isa_view_too_far(e);
  *place = at;
  v->dim[d] = (soma_view_dim){count, by};
  return 1;
}

/* Takes dimension d away; parts name those after it by one less. */
static void drop(soma_view *v, unsigned d) {
  memmove(&v->dim[d], &v->dim[d + 1], (v->ndim - d - 1u) * sizeof *v->dim);
  v->ndim--;
  for (unsigned i = 0; i < v->ndyn; i++)
    if (v->dyn[i].dim > d) v->dyn[i].dim--;
}

int soma_view_index(soma_view *v, unsigned d, int64_t at, soma_view_error *e) {
  if (d < v->ndim && has_part(v, d)) return isa_view_is_fixed(d, e);
  if (!soma_view_slice(v, d, at, 1, 1, e)) return 0;
  /* A tile keeps its partitions, as a dimension of one. */
  if (!v->tile || d > 0) drop(v, d);
  return 1;
}

int soma_view_squeeze(soma_view *v, unsigned d, soma_view_error *e) {
  if (d >= v->ndim) return no_dimension(v, d, e);
  if (v->tile && d == 0)
    return isa_view_refuse(e, "dimension %lld of %s is the partitions, which stay", shown(d, e),
                           isa_view_name(e));
  if (v->dim[d].num != 1)
    return isa_view_refuse(e, "dimension %lld of %s has %lld elements, not 1", shown(d, e),
                           isa_view_name(e), (long long)v->dim[d].num);
  if (has_part(v, d)) return isa_view_is_fixed(d, e);
  drop(v, d);
  return 1;
}

static int check_room(const soma_view *v, unsigned more, soma_view_error *e) {
  if (v->ndim + more <= SOMA_VIEW_DIMS) return 1;
  return isa_view_refuse(e, "%s would have %u dimensions: there can be %d", isa_view_name(e),
                         v->ndim + more, SOMA_VIEW_DIMS);
}

int soma_view_expand(soma_view *v, unsigned d, soma_view_error *e) {
  if (d > v->ndim) return no_dimension(v, d, e);
  if (v->tile && d == 0)
    return isa_view_refuse(e, "dimension %lld of %s is the partitions, which stay the first",
                           shown(d, e), isa_view_name(e));
  /* A part names its dimension by number: what comes before it must not move. */
  if (d < isa_view_fixed(v)) return isa_view_is_fixed(d, e);
  if (!check_room(v, 1, e)) return 0;
  memmove(&v->dim[d + 1], &v->dim[d], (v->ndim - d) * sizeof *v->dim);
  /* One element never takes its step. */
  v->dim[d] = (soma_view_dim){1, 0};
  v->ndim++;
  return 1;
}

/* ---- Another order, another shape ------------------------------------------------------------ */

int soma_view_permute(soma_view *v, unsigned n, const uint32_t *order, soma_view_error *e) {
  soma_view_dim dims[SOMA_VIEW_DIMS];
  uint32_t seen = 0;
  if (n != v->ndim)
    return isa_view_refuse(e, "permute takes each dimension of %s once: %u, not %u",
                           isa_view_name(e), v->ndim, n);
  for (unsigned i = 0; i < n; i++) {
    if (order[i] >= n) return no_dimension(v, order[i], e);
    if (seen >> order[i] & 1)
      return isa_view_refuse(e, "permute takes each dimension of %s once: %lld comes twice",
                             isa_view_name(e), shown(order[i], e));
    seen |= UINT32_C(1) << order[i];
    dims[i] = v->dim[order[i]];
  }
  if (v->tile && order[0] != 0)
    return isa_view_refuse(e,
                           "permute: dimension %lld of %s is the partitions, which stay the first",
                           shown(0, e), isa_view_name(e));
  for (unsigned d = 0; d < isa_view_fixed(v); d++)
    if (order[d] != d) return isa_view_is_fixed(d, e);
  memcpy(v->dim, dims, n * sizeof *dims);
  return 1;
}

/* Steps of `to` over the elements that `from` has in that order; false if that needs a copy. Both
 * have as many elements. The shortest runs of both with equal products answer one another. */
static bool steps_over(const soma_view_dim *from, unsigned n, soma_view_dim *to, unsigned m) {
  unsigned i = n, j = m;
  int64_t after = 1; /* the step of one element: the size of what follows, as in a dense order */
  for (;;) {
    for (; j > 0 && to[j - 1].num == 1; j--) to[j - 1].step = after;
    for (; i > 0 && from[i - 1].num == 1;) i--;
    if (j == 0 || i == 0) return true;
    int64_t step = from[--i].step, have = from[i].num, want = to[--j].num;
    to[j].step = step;
    while (have != want) {
      if (want < have) {
        if (j == 0 || !isa_view_times(step, want, &to[j - 1].step)) return false;
        if (!isa_view_times(want, to[--j].num, &want)) return false;
      } else {
        for (; i > 0 && from[i - 1].num == 1;) i--;
        if (i == 0 || !isa_view_times(step, have, &after) || from[i - 1].step != after)
          return false;
        if (!isa_view_times(have, from[--i].num, &have)) return false;
      }
    }
    if (!isa_view_times(step, want, &after)) return false;
  }
}

static int needs_copy(const soma_view *v, const char *what, const soma_view *to,
                      soma_view_error *e) {
  char shape[SHAPE_TEXT], steps[SHAPE_TEXT], other[SHAPE_TEXT];
  soma_view s = *v;
  for (unsigned d = 0; d < s.ndim; d++) s.dim[d].num = s.dim[d].step;
  return isa_view_refuse(e, "%s of %s%s with steps %s to %s needs a copy", what, isa_view_name(e),
                         shape_of(v, shape), shape_of(&s, steps), shape_of(to, other));
}

int soma_view_reshape(soma_view *v, unsigned n, const int64_t *shape, soma_view_error *e) {
  unsigned keep = isa_view_fixed(v) > v->tile ? isa_view_fixed(v) : v->tile;
  char old[SHAPE_TEXT], new[SHAPE_TEXT];
  soma_view w = *v;
  int64_t have = soma_view_elements(v);
  if (n > SOMA_VIEW_DIMS) return check_room(v, n - v->ndim, e);
  if (v->ndim < v->tile) return no_dimension(v, 0, e);
  w.ndim = (uint8_t)n;
  for (unsigned d = 0; d < n; d++) {
    if (shape[d] < 1 || shape[d] >= ISA_VIEW_FAR)
      return isa_view_refuse(e, "reshape of %s: a size is %lld", isa_view_name(e),
                             (long long)shape[d]);
    w.dim[d].num = shape[d];
  }
  if (v->tile && (n == 0 || shape[0] != v->dim[0].num))
    return isa_view_refuse(e, "reshape of %s%s to %s: its partitions stay %lld", isa_view_name(e),
                           shape_of(v, old), shape_of(&w, new), (long long)v->dim[0].num);
  if (soma_view_elements(&w) != have || have == INT64_MAX)
    return isa_view_refuse(e, "reshape of %s%s to %s: it has %lld elements, not %lld",
                           isa_view_name(e), shape_of(v, old), shape_of(&w, new), (long long)have,
                           (long long)soma_view_elements(&w));
  for (unsigned d = v->tile; d < keep; d++)
    if (d >= n || shape[d] != v->dim[d].num) return isa_view_is_fixed(d, e);
  if (!steps_over(v->dim + keep, v->ndim - keep, w.dim + keep, n - keep))
    return needs_copy(v, "reshape", &w, e);
  *v = w;
  return 1;
}

int soma_view_split(soma_view *v, unsigned d, unsigned n, const int64_t *sizes,
                    soma_view_error *e) {
  soma_view w = *v;
  int64_t all = 1;
  if (d >= v->ndim) return no_dimension(v, d, e);
  if (n == 0)
    return isa_view_refuse(e, "a dimension of %s is split into 1 or more, not 0", isa_view_name(e));
  if (v->tile && d == 0 && n > 1)
    return isa_view_refuse(e, "dimension %lld of %s is the partitions, which stay one", shown(d, e),
                           isa_view_name(e));
  if (n > SOMA_VIEW_DIMS || !check_room(v, n - 1, e)) return check_room(v, n - 1, e);
  bool fits = true;
  for (unsigned i = n; i-- > 0 && fits;) {
    w.dim[d + i].num = sizes[i];
    fits = sizes[i] > 0 && isa_view_times(v->dim[d].step, all, &w.dim[d + i].step) &&
           isa_view_times(all, sizes[i], &all);
  }
  /* The product of those after a size that is none may be right by chance. */
  if (!fits || all != v->dim[d].num) {
    char text[SHAPE_TEXT];
    soma_view to = {.ndim = (uint8_t)n};
    for (unsigned i = 0; i < n; i++) to.dim[i].num = sizes[i];
    return isa_view_refuse(e, "dimension %lld of %s has %lld elements: %s does not make these",
                           shown(d, e), isa_view_name(e), (long long)v->dim[d].num,
                           shape_of(&to, text));
  }
  if (n > 1 && d < isa_view_fixed(v)) return isa_view_is_fixed(d, e);
  memcpy(w.dim + d + n, v->dim + d + 1, (v->ndim - d - 1u) * sizeof *v->dim);
  w.ndim = (uint8_t)(v->ndim + n - 1);
  *v = w;
  return 1;
}

int soma_view_merge(soma_view *v, unsigned first, unsigned last, soma_view_error *e) {
  soma_view w = {.ndim = 1, .dim = {{1, 0}}};
  if (last >= v->ndim) return no_dimension(v, last, e);
  if (first > last)
    return isa_view_refuse(e, "dimensions %lld to %lld of %s are none", shown(first, e),
                           shown(last, e), isa_view_name(e));
  if (first == last) return 1;
  if (v->tile && first == 0)
    return isa_view_refuse(e, "dimension %lld of %s is the partitions, which stay", shown(0, e),
                           isa_view_name(e));
  if (first < isa_view_fixed(v)) return isa_view_is_fixed(first, e);
  for (unsigned d = first; d <= last; d++)
    if (!isa_view_times(w.dim[0].num, v->dim[d].num, &w.dim[0].num)) return isa_view_too_far(e);
  if (!steps_over(v->dim + first, last - first + 1, w.dim, 1)) return needs_copy(v, "merge", &w, e);
  memmove(v->dim + first + 1, v->dim + last + 1, (v->ndim - last - 1u) * sizeof *v->dim);
  v->dim[first] = w.dim[0];
  v->ndim = (uint8_t)(v->ndim - (last - first));
  return 1;
}

int soma_view_broadcast(soma_view *v, unsigned d, int64_t n, soma_view_error *e) {
  if (d >= v->ndim) return no_dimension(v, d, e);
  if (n < 1 || n >= ISA_VIEW_FAR)
    return isa_view_refuse(e, "a dimension of %s is repeated 1 time or more, not %lld",
                           isa_view_name(e), (long long)n);
  if (v->tile && d == 0)
    return isa_view_refuse(e, "partitions of %s are not repeated by a view; load or copy them",
                           isa_view_name(e));
  if (v->dim[d].num != 1)
    return isa_view_refuse(e, "dimension %lld of %s has %lld elements, not 1", shown(d, e),
                           isa_view_name(e), (long long)v->dim[d].num);
  if (has_part(v, d)) return isa_view_is_fixed(d, e);
  v->dim[d] = (soma_view_dim){n, 0};
  return 1;
}

/* ---- Another type ---------------------------------------------------------------------------- */

/* A number of elements of `from` bytes as one of `to` bytes. */
static bool rescale(int64_t *n, int64_t from, int64_t to) {
  int64_t bytes;
  if (!isa_view_times(*n, from, &bytes) || bytes % to) return false;
  *n = bytes / to;
  return true;
}

int soma_view_as(soma_view *v, unsigned dtype, soma_view_error *e) {
  char shape[SHAPE_TEXT];
  soma_view w = *v;
  if (!isa_dtype_valid(dtype) || !isa_dtype_valid(v->dtype))
    return isa_view_refuse(e, "%u is not a data type", isa_dtype_valid(dtype) ? v->dtype : dtype);
  if (w.ndim < w.tile) return no_dimension(v, 0, e);
  int64_t from = isa_dtype_bytes(v->dtype), to = isa_dtype_bytes(dtype);
  w.dtype = (uint8_t)dtype;
  if (from == to) {
    *v = w;
    return 1;
  }
  /* A single element without dimensions gets one. */
  if (w.ndim == w.tile) {
    if (!check_room(v, 1, e)) return 0;
    w.dim[w.ndim++] = (soma_view_dim){1, 1};
  }
  unsigned last = w.ndim - 1u;
  bool fits = (w.dim[last].step == 1 || w.dim[last].num == 1) && !has_part(v, last) &&
              rescale(&w.dim[last].num, from, to) && rescale(&w.offset, from, to);
  /* A step that is never taken need not fit. */
  for (unsigned d = w.tile; d < last && fits; d++)
    fits = rescale(&w.dim[d].step, from, to) || w.dim[d].num == 1;
  for (unsigned i = 0; i < w.ndyn && fits; i++)
    fits = w.dyn[i].kind > SOMA_DYN_ELEMENT || rescale(&w.dyn[i].stride, from, to);
  if (!fits)
    return isa_view_refuse(
        e,
        "%s%s of %s cannot be viewed as %s: the last dimension (step %lld), the steps "
        "of the others and the first element (%lld) must be whole elements of %lld "
        "bytes",
        isa_view_name(e), shape_of(v, shape), isa_dtypes[v->dtype].name, isa_dtypes[dtype].name,
        (long long)w.dim[last].step, (long long)v->offset, (long long)to);
  w.dim[last].step = 1;
  *v = w;
  return 1;
}

/* ---- Explicit dimensions --------------------------------------------------------------------- */

/* First and last element, from the view's own start. */
static bool reach(const soma_view *v, int64_t *low, int64_t *high) {
  *low = *high = 0;
  for (unsigned d = v->tile; d < v->ndim; d++) {
    int64_t far, *end = v->dim[d].step < 0 ? low : high;
    if (!isa_view_times(v->dim[d].num - 1, v->dim[d].step, &far) || !isa_view_plus(*end, far, end))
      return false;
  }
  return true;
}

static int check_inside(const soma_view *v, soma_view_error *e) {
  int64_t low, high, parts, all = v->bytes > 0 ? v->bytes / isa_dtype_bytes(v->dtype) : 0;
  if (!reach(v, &low, &high) || !isa_view_plus(v->offset, low, &low) ||
      !isa_view_plus(v->offset, high, &high))
    return isa_view_too_far(e);
  if (low < 0 || high >= all)
    return isa_view_refuse(e, "elements %lld to %lld of %s: %s has 0 to %lld", (long long)low,
                           (long long)high, isa_view_name(e),
                           v->tile ? "a partition" : "the tensor", (long long)all - 1);
  if (v->tile &&
      (v->part < 0 || !isa_view_plus(v->part, v->dim[0].num, &parts) || parts > v->parts))
    return isa_view_refuse(e, "%lld partitions of %s from %lld on: it has %lld",
                           (long long)v->dim[0].num, isa_view_name(e), (long long)v->part,
                           (long long)v->parts);
  return 1;
}

int soma_view_ap(soma_view *v, int64_t offset, unsigned n, const soma_view_dim *dims,
                 soma_view_error *e) {
  soma_view w = *v;
  if (n < v->tile || n > SOMA_VIEW_DIMS)
    return isa_view_refuse(e, "%s cannot have %u dimensions: there can be %u to %d",
                           isa_view_name(e), n, v->tile, SOMA_VIEW_DIMS);
  if (!isa_dtype_valid(v->dtype)) return isa_view_refuse(e, "%u is not a data type", v->dtype);
  if (isa_view_fixed(v)) return isa_view_is_fixed(isa_view_fixed(v) - 1, e);
  for (unsigned d = 0; d < n; d++) {
    w.dim[d] = dims[d];
    if (dims[d].num < 1)
      return isa_view_refuse(e, "dimension %lld of %s has %lld elements", shown(d, e),
                             isa_view_name(e), (long long)dims[d].num);
    if (v->tile && d == 0 && dims[d].step != 1 && dims[d].num > 1)
      return isa_view_refuse(e, "partitions of %s follow one another, not by %lld",
                             isa_view_name(e), (long long)dims[d].step);
  }
  w.ndim = (uint8_t)n;
  if (!isa_view_plus(w.offset, offset, &w.offset)) return isa_view_too_far(e);
  if (!check_inside(&w, e)) return 0;
  *v = w;
  return 1;
}

/* ---- What is known only at run time ---------------------------------------------------------- */

/* Which of an operand's parts a kind is: it has one of each. */
static int place_of(unsigned kind) {
  return kind <= SOMA_DYN_ELEMENT ? 0 : kind == SOMA_DYN_SIZE ? 1 : 2;
}

static int check_part(const soma_view *v, const soma_view_dyn *part, soma_view_error *e) {
  static const char *const what[] = {
      "is moved by a register or an element already: add what moves it first",
      "has a size from a register already", "has an index already"};
  if (part->kind < SOMA_DYN_REGISTER || part->kind > SOMA_DYN_INDIRECT)
    return isa_view_refuse(e, "no part known at run time has the kind %u", part->kind);
  for (unsigned i = 0; i < v->ndyn; i++)
    if (place_of(v->dyn[i].kind) == place_of(part->kind))
      return isa_view_refuse(e, "%s %s", isa_view_name(e), what[place_of(part->kind)]);
  bool by_register = part->kind == SOMA_DYN_REGISTER || part->kind == SOMA_DYN_SIZE;
  if (by_register) return 1;
  if (!part->operand)
    return isa_view_refuse(e, "an index or an element of %s is left out", isa_view_name(e));
  if (part->operand->ndyn == 0) return 1;
  return isa_view_refuse(e, "what %s goes by is known only at run time itself: load it first",
                         isa_view_name(e));
}

int soma_view_slice_at(soma_view *v, unsigned d, const soma_view_dyn *at, int64_t start,
                       int64_t count, int64_t step, soma_view_error *e) {
  int64_t last, by, stride, first;
  if (!check_slice(v, d, count, step, e)) return 0;
  /* Where it begins is known at run time, so only its length is checked. */
  if (count > v->dim[d].num || !isa_view_times(count - 1, step, &last))
    return outside(v, d, 0, count, step, e);
  if (v->tile && d == 0)
    return isa_view_refuse(e, "the first partition of %s cannot come from a register",
                           isa_view_name(e));
  if (!isa_view_times(at->stride, v->dim[d].step, &stride) ||
      !isa_view_times(v->dim[d].step, step, &by) ||
      !isa_view_times(start, v->dim[d].step, &first) || !isa_view_plus(v->offset, first, &first))
    return isa_view_too_far(e);
  /* With a stride of 0 nothing moves. */
  if (stride != 0) {
    if (at->kind > SOMA_DYN_ELEMENT)
      return isa_view_refuse(e, "a slice of %s begins at a register or an element",
                             isa_view_name(e));
    if (!check_part(v, at, e)) return 0;
    v->dyn[v->ndyn] = *at;
    v->dyn[v->ndyn].dim = 0;
    v->dyn[v->ndyn++].stride = stride;
  }
  v->offset = first;
  v->dim[d] = (soma_view_dim){count, by};
  return 1;
}

int soma_view_add(soma_view *v, const soma_view_dyn *part, soma_view_error *e) {
  if (!check_part(v, part, e)) return 0;
  bool named = part->kind == SOMA_DYN_SIZE || part->kind == SOMA_DYN_GATHER;
  if (named && part->dim >= v->ndim) return no_dimension(v, part->dim, e);
  if (part->kind == SOMA_DYN_GATHER && v->tile && part->dim == 0)
    return isa_view_refuse(e, "partitions of %s are not chosen by an index vector",
                           isa_view_name(e));
  v->dyn[v->ndyn++] = *part;
  return 1;
}
