/* t[key]: whole numbers, slices, ds(), index expressions. What else a key may have, and each error,
 * is Python's: View._index. */
#include "recorder.h"

/* What an entry of a key leaves of a dimension. */
typedef struct part {
  int64_t start, num, by;
  bool drop;
} part;

enum { FAILED = -1, OTHER = 0, TAKEN = 1 };

/* Moves a view by `by` steps of dimension d. */
static bool move(py_view *t, const py_view *v, int d, int64_t by) {
  int64_t far, *at = d == 0 && py_storage_of(v)->memory ? &t->part : &t->off;
  return by == 0 || (py_times(by, v->dim[d].step, &far) && py_plus(*at, far, at));
}

static int number(PyObject *k, int64_t n, int d, part *p) {
  int64_t at;
  if (!py_number(k, &at)) return FAILED;
  p->start = at < 0 ? at + n : at;
  p->num = 1;
  p->drop = true;
  if (p->start >= 0 && p->start < n) return TAKEN;
  py_error("index %lld of dimension %d, which has %lld elements", (long long)p->start, d,
           (long long)n);
  return FAILED;
}

/* Whether the end of a slice is open; else it is a number that is too large to be one. */
static int open_end(PyObject *k) {
  PyObject *stop = PyObject_GetAttr(k, py.stop);
  int open = stop ? stop == Py_None : FAILED;
  Py_XDECREF(stop);
  return open;
}

/* An error of a number in a key, which Python then says better. */
static int unless_stopped(void) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
  PyErr_Clear();
  return OTHER;
}

static int slice(PyObject *k, int64_t n, part *p) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(k, &start, &stop, &step) < 0) return unless_stopped();
  if (stop == PY_SSIZE_T_MAX) {
    int open = open_end(k);
    if (open <= 0) return open;
    stop = (Py_ssize_t)n;
  }
  if (start < 0 || start >= stop || stop > n || step < 1) return OTHER;
  p->start = start;
  p->num = (stop - start - 1) / step + 1;
  p->by = step;
  return TAKEN;
}

static int of_ds(const py_slice *k, int64_t n, part *p) {
  if (!PyLong_CheckExact(k->start) || !PyLong_CheckExact(k->size)) return OTHER;
  if (!py_number(k->start, &p->start) || !py_number(k->size, &p->num)) return unless_stopped();
  return p->start >= 0 && p->num >= 1 && p->start <= n - p->num ? TAKEN : OTHER;
}

static int part_of(PyObject *k, int64_t n, int d, part *p) {
  *p = (part){.by = 1};
  if (PySlice_Check(k)) return slice(k, n, p);
  if (PyLong_Check(k)) return number(k, n, d, p);
  return Py_TYPE(k) == py.slice ? of_ds((py_slice *)k, n, p) : OTHER;
}

/* A key of numbers, slices and ds(). The rest of the dimensions stays as it is. */
static int basic(const py_view *v, PyObject *const *keys, int n, py_view **out) {
  bool chip = py_storage_of(v)->memory;
  int to = 0, d = 0;
  py_view *t = *out = py_view_like(v);
  if (!t) return FAILED;
  for (; d < n; d++) {
    part p;
    int found = part_of(keys[d], v->dim[d].num, d, &p);
    if (found != TAKEN) return found;
    if (!move(t, v, d, p.start)) return FAILED;
    if (p.drop && !(d == 0 && chip)) continue;
    t->dim[to].num = p.num;
    t->dim[to].step = p.drop ? 1 : v->dim[d].step;
    if (!py_times(t->dim[to].step, p.by, &t->dim[to].step)) return FAILED;
    to++;
  }
  for (; d < v->ndim; d++) t->dim[to++] = v->dim[d];
  if (to < 2 && (chip || !to)) t->dim[to++] = (py_dim){1, 1};
  t->ndim = to;
  return TAKEN;
}

/* ---- Index expressions ----------------------------------------------------------------------- */

/* Adds one over dimension d to a view whose axes end at the last one. */
static int add_index(py_view *t, const py_view *v, int d, const py_index *x) {
  int at = t->ndim - (int)py_axes(x);
  bool first = d == 0 && py_storage_of(v)->memory;
  int64_t low, high, step;
  if (!py_index_bounds(x, &low, &high)) return FAILED;
  if (low < 0 || high >= v->dim[d].num) return OTHER; /* unless a mask limits it */
  if (!move(t, v, d, x->at)) return FAILED;
  for (int a = 0; a < py_axes(x); a++) {
    const py_axis *axis = &x->axis[a];
    py_dim *to = &t->dim[at + a];
    if (axis->size != 1 && to->num != 1 && to->num != axis->size) return OTHER;
    if (axis->size > to->num) to->num = axis->size;
    if (!axis->coef || axis->size == 1) continue;
    if (first && (at + a || axis->coef != 1)) return OTHER;
    if (!first &&
        (!py_times(axis->coef, v->dim[d].step, &step) || !py_plus(to->step, step, &to->step)))
      return FAILED;
  }
  return TAKEN;
}

/* Whether axis 0 of x is what chooses the partitions. */
static bool varies_first(const py_view *t, const py_index *x) {
  return py_axes(x) == t->ndim && x->axis[0].coef && x->axis[0].size > 1;
}

/* A key of index expressions and numbers, for all dimensions. */
static int affine(const py_view *v, PyObject *const *keys, int axes, py_view **out) {
  bool chip = py_storage_of(v)->memory, by_first = false;
  py_view *t = *out = py_view_like(v);
  if (!t) return FAILED;
  t->ndim = axes;
  for (int a = 0; a < axes; a++) t->dim[a] = (py_dim){1, 0};
  for (int d = 0; d < v->ndim; d++) {
    int found;
    part p = {.by = 1};
    if (PY_IS_INDEX(keys[d])) {
      found = add_index(t, v, d, (py_index *)keys[d]);
      if (d == 0) by_first = varies_first(t, (py_index *)keys[d]);
    } else {
      found = PyLong_Check(keys[d]) ? number(keys[d], v->dim[d].num, d, &p) : OTHER;
      if (found == TAKEN && !move(t, v, d, p.start)) return FAILED;
    }
    if (found != TAKEN) return found;
  }
  if (chip) {
    if (t->dim[0].num != 1 && !by_first) return OTHER;
    t->dim[0].step = 1;
    if (axes < 2) t->dim[t->ndim++] = (py_dim){1, 1};
  }
  return TAKEN;
}

static bool same(const py_view *a, const py_view *b) {
  bool alike = a->ndim == b->ndim && a->part == b->part && a->off == b->off;
  for (int d = 0; d < a->ndim && alike; d++)
    alike = a->dim[d].num == b->dim[d].num && a->dim[d].step == b->dim[d].step;
  return alike;
}

/* ---- t[key] ---------------------------------------------------------------------------------- */

static PyObject *ask(PyObject *self, PyObject *key) {
  return PyObject_CallMethodObjArgs(self, py._index, key, NULL);
}

PyObject *py_view_subscript(PyObject *self, PyObject *key) {
  py_view *v = (py_view *)self, *t = NULL;
  PyObject *keys[PY_MAX_DIMS];
  bool tuple = PyTuple_Check(key);
  Py_ssize_t n = tuple ? PyTuple_Size(key) : 1, axes = 0, indices = 0;
  if (n > v->ndim || v->bound || v->dyn) return ask(self, key);
  if (key == Py_Ellipsis) {
    Py_INCREF(self);
    return self;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    keys[i] = tuple ? PyTuple_GetItem(key, i) : key;
    if (!PY_IS_INDEX(keys[i])) continue;
    indices++;
    axes = Py_SIZE(keys[i]) > axes ? Py_SIZE(keys[i]) : axes;
  }
  if (indices && (n < v->ndim || axes > PY_MAX_DIMS)) return ask(self, key);
  int found = indices ? affine(v, keys, (int)axes, &t) : basic(v, keys, (int)n, &t);
  if (found == TAKEN && indices == 2 && n == 2 && same(t, v)) { /* all of it: the tile itself */
    Py_INCREF(self);
    Py_DECREF((PyObject *)t);
    return self;
  }
  if (found == TAKEN) return (PyObject *)t;
  Py_XDECREF((PyObject *)t);
  return found == OTHER ? ask(self, key) : NULL;
}
