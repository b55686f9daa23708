/* Views of views: another shape, order or type of the same elements, by soma_view. */
#include "recorder.h"

#include <stdio.h>
#include <string.h>

/* The methods, how many of their numbers are dimensions, and how many numbers there are in all;
 * ANY: as many as the view or the call has. */
#define CHANGES(X)       \
  X(reshape, 0, ANY)     \
  X(permute, 0, ANY)     \
  X(reshape_dim, 1, ANY) \
  X(flatten_dims, 2, 2)  \
  X(broadcast, 1, 2)     \
  X(expand_dim, 0, 1)    \
  X(squeeze_dim, 1, 1)   \
  X(select, 1, 2)        \
  X(cut, 1, 3)           \
  X(view, 0, 1)          \
  X(ap, 0, ANY)
enum { ANY = -1, MOST = 5 + 2 * SOMA_VIEW_DIMS };
enum change {
#define X(name, dims, numbers) TO_##name,
  CHANGES(X)
#undef X
      NCHANGES
};
static const struct {
  const char *name;
  int dims, numbers;
} known[] = {
#define X(name, dims, numbers) {#name, dims, numbers},
    CHANGES(X)
#undef X
};

/* Makes the numbers that are dimensions those from the first on, where they count from the end. */
static bool dimensions(const soma_view *v, enum change what, int64_t *k, soma_view_error *e) {
  for (int i = 0; i < known[what].dims; i++) {
    int64_t d = k[i] < 0 ? k[i] + v->ndim : k[i];
    if (d < 0 || d >= v->ndim) {
      snprintf(e->text, sizeof e->text, "dimension %lld of a tensor with %d", (long long)k[i],
               v->ndim);
      return false;
    }
    k[i] = d;
  }
  return true;
}

/* One size of -1 becomes what the others leave of `all`. */
static int64_t *closed(int64_t *sizes, unsigned n, int64_t all) {
  int64_t *open = NULL;
  for (unsigned i = 0; i < n; i++) {
    if (sizes[i] == -1 && !open)
      open = &sizes[i];
    else if (sizes[i] > 0)
      all /= sizes[i];
  }
  if (open) *open = all;
  return sizes;
}

/* k: type, first partition and element, partitions and bytes that there are, pairs of step and
 * size. */
static int explicit(soma_view *v, unsigned n, const int64_t *k, soma_view_error *e) {
  soma_view_dim dims[SOMA_VIEW_DIMS];
  v->dtype = k[0] < 0 || k[0] > UINT8_MAX ? 0 : (uint8_t)k[0];
  v->part = k[1];
  v->offset = k[2];
  v->parts = k[3];
  v->bytes = k[4];
  for (unsigned d = 0; d < n; d++) dims[d] = (soma_view_dim){k[6 + 2 * d], k[5 + 2 * d]};
  return soma_view_ap(v, 0, n, dims, e);
}

static int change(soma_view *v, enum change what, unsigned n, int64_t *k, soma_view_error *e) {
  uint32_t order[MOST];
  if (!dimensions(v, what, k, e)) return 0;
  unsigned d = n && k[0] >= 0 && k[0] < UINT8_MAX ? (unsigned)k[0] : UINT8_MAX;
  switch (what) {
  case TO_reshape: return soma_view_reshape(v, n, closed(k, n, soma_view_elements(v)), e);
  case TO_permute:
    for (unsigned i = 0; i < n; i++)
      order[i] = k[i] < 0 || k[i] > UINT8_MAX ? UINT8_MAX : (uint32_t)k[i];
    return soma_view_permute(v, n, order, e);
  case TO_reshape_dim: return soma_view_split(v, d, n - 1, closed(k + 1, n - 1, v->dim[d].num), e);
  case TO_flatten_dims: return soma_view_merge(v, d, (unsigned)k[1], e);
  case TO_broadcast: return soma_view_broadcast(v, d, k[1], e);
  case TO_expand_dim: return soma_view_expand(v, d, e);
  case TO_squeeze_dim: return soma_view_squeeze(v, d, e);
  case TO_select: return soma_view_index(v, d, k[1], e);
  case TO_cut: return soma_view_slice(v, d, k[1], k[2], 1, e);
  case TO_view: return soma_view_as(v, d, e);
  case TO_ap: return explicit(v, (n - 5) / 2, k, e);
  default: return 0;
  }
}

/* ---- The method ------------------------------------------------------------------------------ */

/* The change of that name, if it takes so many numbers. */
static enum change change_of(PyObject *name, Py_ssize_t n) {
  for (int i = 0; i < NCHANGES && PyUnicode_Check(name); i++) {
    if (PyUnicode_CompareWithASCIIString(name, known[i].name)) continue;
    bool fine = known[i].numbers == ANY ? n >= known[i].dims : n == known[i].numbers;
    if (fine && (i != TO_ap || (n >= 5 && n % 2))) return i;
  }
  PyErr_SetString(PyExc_TypeError, "_other() takes what becomes of the view, and its numbers");
  return NCHANGES;
}

static bool numbers_of(PyObject *const *args, Py_ssize_t n, PyObject *name, int64_t *out) {
  if (n > MOST) {
    py_error("%U: a view has %d dimensions at most, not %zd", name, PY_MAX_DIMS, n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    int found = py_whole(args[i], &out[i]);
    if (!found) py_error("%U: %R is not a whole number", name, args[i]);
    if (found <= 0) return false;
  }
  return true;
}

/* The error of a change that is refused, with the name of the view. */
static void refuse(py_view *v, const soma_view *s, enum change what, unsigned n, int64_t *k) {
  soma_view w = *s;
  PyObject *keep;
  soma_view_error e = {.name = py_view_name(v, &keep)};
  if (!change(&w, what, n, k, &e)) {
    /* Some begin with the method's name. */
    bool named = !strncmp(e.text, known[what].name, strlen(known[what].name));
    py_error("%s%s%s", named ? "" : known[what].name, named ? "" : ": ", e.text);
  }
  Py_XDECREF(keep);
}

PyObject *py_view_other(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  py_view *v = (py_view *)self, *t;
  int64_t k[MOST] = {0}, used[MOST]; /* a change closes open sizes */
  soma_view s, w;
  soma_view_error e = {0};
  enum change what = change_of(n ? args[0] : Py_None, n - 1);
  if (what == NCHANGES || !numbers_of(args + 1, n - 1, args[0], k)) return NULL;
  if (v->bound) {
    /* Elements that do not exist cannot be put elsewhere. */
    PyObject *done = PyObject_CallMethodObjArgs(self, py.check_bounds, NULL);
    if (!done) return NULL;
    Py_DECREF(done);
  }
  py_view_get(v, &s);
  w = s;
  memcpy(used, k, sizeof k);
  if (!change(&w, what, (unsigned)n - 1, used, &e)) {
    refuse(v, &s, what, (unsigned)n - 1, k);
    return NULL;
  }
  if ((t = py_view_like(v)) == NULL) return NULL;
  t->dyn = Py_XNewRef(v->dyn);
  py_view_put(t, &w);
  return (PyObject *)t;
}
