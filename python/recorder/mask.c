/* Masks: comparisons of index expressions. */
#include "recorder.h"

/* said: NULL if its terms are called so. */
static PyObject *mask_of(PyObject *terms, PyObject *said, bool equal) {
  py_mask *m = terms ? (py_mask *)PyType_GenericAlloc(py.mask, 0) : NULL;
  if (!m) {
    Py_XDECREF(terms);
    Py_XDECREF(said);
    return NULL;
  }
  Py_INCREF(Py_None);
  m->terms = terms;
  m->said = said;
  m->ranges = Py_None;
  m->equal = equal;
  return (PyObject *)m;
}

_Static_assert(PY_LESS == Py_LT && PY_LESS_EQUAL == Py_LE && PY_EQUAL == Py_EQ &&
                   PY_GREATER == Py_GT && PY_GREATER_EQUAL == Py_GE,
               "formats of comparisons are in Python's order");

/* ---- Comparisons ----------------------------------------------------------------------------- */

/* a - b - less, of which one may be the number k. */
static py_index *difference(PyObject *a, PyObject *b, int64_t k, int64_t less) {
  py_index *made = NULL;
  int64_t plus;
  /* term >= 0 for all comparisons: a > b is a - b - 1 >= 0, a <= b is b - a >= 0. */
  if (PyObject_TypeCheck(a, py.own_index) && PyObject_TypeCheck(b, py.own_index)) {
    PyObject *both = PyNumber_Subtract(a, b);
    made = both ? py_index_scaled((py_index *)both, 1, -less) : NULL;
    Py_XDECREF(both);
  } else if (PyObject_TypeCheck(a, py.own_index)) {
    if (py_times(k, -1, &plus) && py_plus(plus, -less, &plus))
      made = py_index_scaled((py_index *)a, 1, plus);
  } else if (py_plus(k, -less, &plus)) {
    made = py_index_scaled((py_index *)b, -1, plus);
  }
  return made;
}

/* self op other, as messages call it: other's own text if it is another kind of number. */
static PyObject *named(py_index *term, int op, PyObject *self, PyObject *other, int64_t k) {
  bool index = PyObject_TypeCheck(other, py.own_index);
  if (index || PyLong_CheckExact(other))
    return py_index_from(term, op, (py_index *)self, index ? (py_index *)other : NULL, k);
  PyObject *own = py_said((py_index *)self);
  PyObject *said = own ? PyTuple_Pack(3, py.format[op], own, other) : NULL;
  Py_XDECREF(own);
  return py_index_done(term, said);
}

PyObject *py_index_compare(PyObject *self, PyObject *other, int op) {
  int64_t k = 0;
  bool index = PyObject_TypeCheck(other, py.own_index);
  if (op == Py_NE) Py_RETURN_NOTIMPLEMENTED;
  if (!index) {
    int found = py_whole(other, &k);
    if (found < 0) return NULL;
    if (!found) Py_RETURN_NOTIMPLEMENTED;
  }
  PyObject *terms = PyList_New(op == Py_EQ ? 2 : 1);
  /* Strict comparisons of whole numbers leave out one. */
  int64_t less = op == Py_LT || op == Py_GT;
  bool greater = op == Py_GT || op == Py_GE || op == Py_EQ;
  /* Equality is both a >= b and b >= a. */
  for (Py_ssize_t i = 0; terms && i < PyList_Size(terms); i++, greater = !greater) {
    py_index *made = greater ? difference(self, other, k, less) : difference(other, self, k, less);
    PyObject *term = made ? named(made, op, self, other, k) : NULL;
    if (!term || PyList_SetItem(terms, i, term) < 0) Py_CLEAR(terms);
  }
  if (!terms) return NULL;
  PyObject *mask = mask_of(terms, NULL, op == Py_EQ);
  /* `a < b and c < d`: Python asks the first for its truth, and it waits for the second one. */
  if (!mask || PyList_Size(py.waiting) == 0) return mask;
  PyObject *joined = PyObject_CallMethod(mask, "joined", NULL);
  Py_DECREF(mask);
  return joined;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static PyObject *mask_new(PyTypeObject *type, PyObject *args, PyObject *given) {
  static char *names[] = {"terms", "said", "equal", NULL};
  PyObject *terms, *said;
  int equal = 0;
  if (!PyArg_ParseTupleAndKeywords(args, given, "O!O|p", names, &PyList_Type, &terms, &said,
                                   &equal))
    return NULL;
  for (Py_ssize_t i = 0; i < PyList_Size(terms); i++)
    if (!PY_IS_INDEX(PyList_GetItem(terms, i))) {
      PyErr_SetString(PyExc_TypeError, "the terms of a mask are indices");
      return NULL;
    }
  (void)type; /* there is one class of masks */
  /* The caller may change its list later. */
  PyObject *own = PyList_GetSlice(terms, 0, PyList_Size(terms));
  return mask_of(own, Py_NewRef(said), equal);
}

static void mask_free(PyObject *self) {
  py_mask *m = (py_mask *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(m->terms);
  Py_CLEAR(m->said);
  Py_CLEAR(m->ranges);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

/* Texts have no references to masks. */
static int mask_traverse(PyObject *self, visitproc visit, void *arg) {
  py_mask *m = (py_mask *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(m->terms);
  Py_VISIT(m->ranges);
  return 0;
}

static int mask_clear(PyObject *self) {
  Py_CLEAR(((py_mask *)self)->ranges);
  return 0;
}

/* The term number i of a mask, whose list others may have changed. */
static py_index *term_of(const py_mask *m, Py_ssize_t i) {
  PyObject *t = PyList_GetItem(m->terms, i);
  if (!t || !PY_IS_INDEX(t)) {
    if (t) PyErr_SetString(PyExc_TypeError, "the terms of a mask are indices");
    return NULL;
  }
  return (py_index *)t;
}

/* The axes of all terms together, which end at the last one of each; -1 with an error. */
static Py_ssize_t axes_of(const py_mask *m) {
  Py_ssize_t n = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(m->terms); i++) {
    py_index *t = term_of(m, i);
    if (!t) return -1;
    n = py_axes(t) > n ? py_axes(t) : n;
  }
  return n;
}

static PyObject *get_size(PyObject *self, void *unused) {
  const py_mask *m = (py_mask *)self;
  Py_ssize_t n = axes_of(m);
  (void)unused;
  PyObject *found = n < 0 ? NULL : PyList_New(n);
  for (Py_ssize_t a = 0; found && a < n; a++) {
    int64_t size = 1;
    for (Py_ssize_t i = 0; i < PyList_Size(m->terms); i++) {
      py_index *t = term_of(m, i);
      Py_ssize_t own = t ? a - (n - py_axes(t)) : -1;
      if (own >= 0 && t->axis[own].size > size) size = t->axis[own].size;
    }
    PyObject *k = PyLong_FromLongLong(size);
    if (!k || PyList_SetItem(found, a, k) < 0) Py_CLEAR(found);
  }
  return found;
}

int py_mask_leaves_all(const py_mask *m, const soma_view_dim *dims, Py_ssize_t ndim) {
  Py_ssize_t axes = axes_of(m);
  int64_t low, high;
  if (axes < 0) return -1;
  for (Py_ssize_t i = 0; i < PyList_Size(m->terms); i++) {
    const py_index *t = term_of(m, i);
    if (!t || !py_index_bounds(t, &low, &high)) return -1;
    if (low < 0) return 0;
    for (Py_ssize_t a = 0, at = axes - py_axes(t); a < py_axes(t) && at < ndim; a++, at++)
      /* An axis along which nothing changes does not limit; beyond its size nothing is known. */
      if (t->axis[a].coef && t->axis[a].size > 1 && t->axis[a].size < dims[at].num) return 0;
  }
  return 1;
}

PyDoc_STRVAR(leaves_all_doc, "Whether it holds everywhere in all of these shapes, as far as each "
                             "bound alone shows, as loops' masks mostly do.");
static PyObject *leaves_all(PyObject *self, PyObject *const *shapes, Py_ssize_t nshapes) {
  int found = 1;
  for (Py_ssize_t s = 0; s < nshapes && found > 0; s++) {
    soma_view_dim dims[PY_MAX_DIMS];
    Py_ssize_t n = PyTuple_Check(shapes[s]) ? PyTuple_Size(shapes[s]) : PY_MAX_DIMS + 1;
    if (n > PY_MAX_DIMS) {
      PyErr_Format(PyExc_TypeError, "a shape is a tuple of at most %d sizes, not %R", PY_MAX_DIMS,
                   shapes[s]);
      return NULL;
    }
    for (Py_ssize_t a = 0; a < n; a++)
      if (!py_number(PyTuple_GetItem(shapes[s], a), &dims[a].num)) return NULL;
    found = py_mask_leaves_all((py_mask *)self, dims, n);
  }
  return found < 0 ? NULL : PyBool_FromLong(found);
}

/* Cuts the numbers of an axis, in a dict of (first, end), to low .. high - 1. 0 if none are left;
 * -1 with an error. */
static int cut(PyObject *ranges, unsigned axis, int64_t low, int64_t high) {
  PyObject *key = PyLong_FromLong((long)axis), *now = NULL, *known;
  int64_t lo, hi;
  int status = -1;
  if (key && (known = PyDict_GetItemWithError(ranges, key)) != NULL) {
    if (!py_number(PyTuple_GetItem(known, 0), &lo) || !py_number(PyTuple_GetItem(known, 1), &hi))
      goto done;
    low = lo > low ? lo : low;
    high = hi < high ? hi : high;
  }
  now = PyErr_Occurred() ? NULL : Py_BuildValue("(LL)", (long long)low, (long long)high);
  if (now && PyDict_SetItem(ranges, key, now) == 0) status = low < high;
done:
  Py_XDECREF(now);
  Py_XDECREF(key);
  return status;
}

PyDoc_STRVAR(limits_doc,
             "({axis: (first, end)}, terms over several axes, whether nothing is left).");
static PyObject *limits(PyObject *self, PyObject *none) {
  const py_mask *m = (py_mask *)self;
  PyObject *ranges = PyDict_New(), *rest = PyList_New(0), *found = NULL;
  Py_ssize_t axes = axes_of(m);
  int left = ranges && rest && axes >= 0 ? 1 : -1;
  (void)none;
  for (Py_ssize_t i = 0; left > 0 && i < PyList_Size(m->terms); i++) {
    /* Held: to make an object may run code that changes the list. */
    PyObject *term = Py_XNewRef((PyObject *)term_of(m, i));
    PyObject *t = term ? py_index_over((py_index *)term, axes) : NULL;
    unsigned axis = 0;
    int64_t low, high;
    soma_view_expr x = t ? py_expr((py_index *)t) : (soma_view_expr){.n = 0};
    unsigned varies = soma_view_limit(&x, &axis, &low, &high);
    if (!t)
      left = -1;
    else if (varies > 1)
      left = PyList_Append(rest, t) < 0 ? -1 : 1;
    else /* what is the same everywhere holds everywhere or nowhere */
      left = varies ? cut(ranges, axis, low, high) : low < high;
    Py_XDECREF(t);
    Py_XDECREF(term);
  }
  if (left >= 0)
    found =
        left ? Py_BuildValue("(OOO)", ranges, rest, Py_False) : Py_BuildValue("({}[]O)", Py_True);
  Py_XDECREF(ranges);
  Py_XDECREF(rest);
  return found;
}

static PyObject *get_said(PyObject *self, void *unused) {
  py_mask *m = (py_mask *)self;
  (void)unused;
  if (m->said) return Py_NewRef(m->said);
  py_index *first = term_of(m, 0);
  return first ? py_said(first) : NULL;
}

static PyGetSetDef fields[] = {
    {"said", get_said, NULL, "What messages call it.", NULL},
    {"size", get_size, NULL, "The sizes of the axes that it is over.", NULL},
    {0}};
static PyMemberDef members[] = {
    {"terms", T_OBJECT, offsetof(py_mask, terms), READONLY, "Indices, none of which is below 0."},
    {"equal", T_BOOL, offsetof(py_mask, equal), READONLY, "Whether it is a comparison by ==."},
    {"ranges", T_OBJECT, offsetof(py_mask, ranges), 0, "What mask_ranges has found, or None."},
    {0},
};
static PyMethodDef methods[] = {
    {"limits", limits, METH_NOARGS, limits_doc},
    {"leaves_all", (PyCFunction)(void (*)(void))leaves_all, METH_FASTCALL, leaves_all_doc},
    {0}};
static PyType_Slot slots[] = {
    {Py_tp_new, mask_new},           {Py_tp_dealloc, mask_free},
    {Py_tp_traverse, mask_traverse}, {Py_tp_clear, mask_clear},
    {Py_tp_getset, fields},          {Py_tp_members, members},
    {Py_tp_methods, methods},        {0},
};
static PyType_Spec spec = {"_soma.Mask", sizeof(py_mask), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

bool py_mask_add_types(PyObject *module) {
  return py_add_type(module, &spec, &py.own_mask, &py.mask);
}
