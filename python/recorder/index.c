/* Index expressions: sums of axes times whole numbers. */
#include "recorder.h"

#include <string.h>

/* ---- What messages call it ------------------------------------------------------------------- */

enum { AXES = 6, MOST_DEPTH = 32 }; /* AXES: there is room for as many in each */

py_index *py_index_new(Py_ssize_t axes) {
  /* With room for a few axes each, one's memory serves for any other. */
  size_t bytes = sizeof(py_index) + AXES * sizeof(soma_view_axis);
  PyObject *x = axes <= AXES ? py_pool_new(&py.indices, py.index, AXES, bytes)
                             : PyType_GenericAlloc(py.index, axes);
  if (!x) return NULL;
  ((py_index *)x)->ob_base.ob_size = axes;
  ((py_index *)x)->format = PY_NFORMATS;
  return (py_index *)x;
}

PyObject *py_index_done(py_index *x, PyObject *said) {
  if (!said) {
    Py_XDECREF((PyObject *)x);
    return NULL;
  }
  if (!x) {
    Py_DECREF(said);
    return NULL;
  }
  x->from[0] = said;
  return (PyObject *)x;
}

PyObject *py_index_from(py_index *x, int format, const py_index *a, const py_index *b, int64_t k) {
  if (!x) return NULL;
  x->format = format;
  x->from[0] = Py_NewRef((PyObject *)a);
  x->from[1] = Py_XNewRef((PyObject *)b);
  x->k[0] = k;
  /* The text of a deep expression would recurse deeply, and all that it is made from would stay. */
  x->depth = 1 + (b && b->depth > a->depth ? b->depth : a->depth);
  if (x->depth < MOST_DEPTH) return (PyObject *)x;
  PyObject *said = py_said(x); /* what it is made from can go */
  if (said) {
    x->format = PY_NFORMATS;
    x->depth = 0;
    py_put(&x->from[0], said);
    py_put(&x->from[1], NULL);
    return (PyObject *)x;
  }
  Py_DECREF((PyObject *)x);
  return NULL;
}

/* Number i of what a text is made from. */
static PyObject *part_of_text(const py_index *x, int i) {
  bool range = x->format >= PY_ARANGE1, first = i == 0;
  if (x->format == PY_PRODUCT) first = !first; /* the number comes first */
  PyObject *from = range ? NULL : x->from[first ? 0 : 1];
  return from ? py_said((py_index *)from) : PyLong_FromLongLong(x->k[range ? i : 0]);
}

PyObject *py_said(const py_index *x) {
  if (x->format == PY_NFORMATS) return Py_NewRef(x->from[0] ? x->from[0] : py.empty);
  /* Two parts for a sum and the like, one to three numbers for arange(). */
  int n = x->format < PY_ARANGE1 ? 2 : x->format - PY_ARANGE1 + 1;
  PyObject *said = PyTuple_New(n + 1);
  for (int i = 0; said && i <= n; i++) {
    PyObject *part = i ? part_of_text(x, i - 1) : Py_NewRef(py.format[x->format]);
    if (!part || PyTuple_SetItem(said, i, part) < 0) Py_CLEAR(said);
  }
  return said;
}

PyObject *py_index_text(const py_index *x) {
  PyObject *said = py_said(x);
  PyObject *text = said ? PyObject_CallMethod((PyObject *)py.index, "string", "(O)", said) : NULL;
  Py_XDECREF(said);
  return text;
}

static void same_text(py_index *y, const py_index *x) {
  y->format = x->format;
  y->depth = x->depth;
  memcpy(y->k, x->k, sizeof y->k);
  for (int i = 0; i < 2; i++) y->from[i] = Py_XNewRef(x->from[i]);
}

PyObject *py_index_over(py_index *x, Py_ssize_t axes) {
  Py_ssize_t more = axes - py_axes(x);
  if (more <= 0) return Py_NewRef((PyObject *)x);
  py_index *y = py_index_new(axes);
  if (!y) return NULL;
  for (Py_ssize_t a = 0; a < axes; a++)
    y->axis[a] = a < more ? (soma_view_axis){0, 1} : x->axis[a - more];
  y->at = x->at;
  same_text(y, x);
  return (PyObject *)y;
}

static bool too_far(void) {
  py_error("the numbers of an index do not fit in 61 bits");
  return false;
}

bool py_index_bounds(const py_index *x, int64_t *low, int64_t *high) {
  /* The sizes and coefficients come from the kernel: sums of them can be too large. */
  soma_view_expr e = py_expr(x);
  return soma_view_bounds(&e, low, high) || too_far();
}

/* ---- Making one ------------------------------------------------------------------------------ */

static bool numbers_of(PyObject *list, py_index *x, bool size) {
  for (Py_ssize_t a = 0; a < py_axes(x); a++) {
    PyObject *k = PySequence_GetItem(list, a);
    bool fine = k && py_number(k, size ? &x->axis[a].size : &x->axis[a].coef);
    Py_XDECREF(k);
    if (!fine) return false;
  }
  return true;
}

static PyObject *index_new(PyTypeObject *type, PyObject *args, PyObject *given) {
  static char *names[] = {"coef", "size", "const", "said", NULL};
  PyObject *coef, *size, *at, *said;
  if (!PyArg_ParseTupleAndKeywords(args, given, "OOOO", names, &coef, &size, &at, &said))
    return NULL;
  Py_ssize_t n = PySequence_Size(size);
  if (n < 0) return NULL;
  if (PySequence_Size(coef) != n) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "an index has a coefficient for each axis");
    return NULL;
  }
  py_index *x = type == py.index ? py_index_new(n) : (py_index *)PyType_GenericAlloc(type, n);
  if (!x) return NULL;
  x->format = PY_NFORMATS;
  x->from[0] = Py_NewRef(said);
  if (numbers_of(coef, x, false) && numbers_of(size, x, true) && py_number(at, &x->at))
    return (PyObject *)x;
  Py_DECREF((PyObject *)x);
  return NULL;
}

static void index_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  py_index *x = (py_index *)self;
  Py_CLEAR(x->from[0]);
  Py_CLEAR(x->from[1]);
  py_pool_end(&py.indices, self, type == py.index && py_axes(x) <= AXES);
  Py_DECREF(type);
}

/* The text of an arange() with other arguments than Python's own numbers, or with none. */
static PyObject *said_of_arange(PyObject *const *args, Py_ssize_t n) {
  PyObject *said = PyTuple_New(n + 1);
  for (Py_ssize_t i = 0; said && i <= n; i++) {
    PyObject *part = i ? args[i - 1] : py.format[PY_ARANGE1 + (n >= 1 && n <= 3 ? n - 1 : 0)];
    if (PyTuple_SetItem(said, i, Py_NewRef(part)) < 0) Py_CLEAR(said);
  }
  return said;
}

PyDoc_STRVAR(arange_doc, "arange($module, /, *args)\n--\n\n"
                         "The index 0 .. n - 1, or start .. stop - 1 with a step, over one axis.");
static PyObject *arange(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  int64_t k[3] = {0, 0, 0}, span, count = 0;
  bool fine = n >= 1 && n <= 3, exact = true;
  (void)module;
  for (Py_ssize_t i = 0; i < n && fine; i++) {
    int found = py_whole(args[i], &k[i]);
    if (found < 0) return NULL;
    fine = found;
    exact = exact && PyLong_CheckExact(args[i]);
  }
  /* One argument is the end. */
  int64_t start = n == 1 ? 0 : k[0], stop = n == 1 ? k[0] : k[1], step = n == 3 ? k[2] : 1;
  /* The span itself may not fit in 64 bits. */
  fine = fine && step && !__builtin_sub_overflow(stop, start, &span);
  /* As Python's range counts: rounded up, and none where the step leads away from the end. */
  if (fine && span && (span > 0) == (step > 0)) count = span / step + (span % step != 0);
  /* With plain numbers the text is made only when a message needs it. */
  PyObject *said = count && exact ? NULL : said_of_arange(args, n);
  if (said && !count) { /* which says why */
    PyObject *never = PyObject_CallMethod((PyObject *)py.index, "no_arange", "(O)", said);
    Py_XDECREF(never);
    Py_DECREF(said);
    return NULL;
  }
  py_index *x = said || (count && exact) ? py_index_new(1) : NULL;
  if (!x) return py_index_done(NULL, said);
  x->axis[0] = (soma_view_axis){step, count};
  x->at = start;
  if (said) return py_index_done(x, said);
  x->format = PY_ARANGE1 + (int)n - 1;
  memcpy(x->k, k, sizeof k);
  return (PyObject *)x;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

/* x * times + plus. */
py_index *py_index_scaled(const py_index *x, int64_t times, int64_t plus) {
  py_index *y = py_index_new(py_axes(x));
  soma_view_expr of = py_expr(x);
  soma_view_error e;
  e.name = NULL;
  if (!y || soma_view_scale(&of, times, plus, y->axis, &y->at, &e)) return y;
  Py_DECREF((PyObject *)y);
  too_far();
  return NULL;
}

/* The error of a sum that does not fit, with its text. */
static void refuse_sum(int format, const py_index *x, const py_index *y, const char *why) {
  /* An index without axes is enough to carry a text. */
  PyObject *made = py_index_from(py_index_new(0), format, x, y, 0);
  PyObject *text = made ? py_index_text((py_index *)made) : NULL;
  if (text) py_error("%U: %s", text, why);
  Py_XDECREF(text);
  Py_XDECREF(made);
}

/* x + sign * y; the axes of both end at the last one. */
static PyObject *combined(const py_index *x, const py_index *y, int sign, int format) {
  py_index *z = py_index_new(py_axes(x) > py_axes(y) ? py_axes(x) : py_axes(y));
  soma_view_expr a = py_expr(x), b = py_expr(y);
  soma_view_error e;
  e.name = "the sum";
  if (!z || soma_view_sum(&a, &b, sign, z->axis, &z->at, &e))
    return py_index_from(z, format, x, y, 0);
  refuse_sum(format, x, y, e.text);
  Py_DECREF((PyObject *)z);
  return NULL;
}

/* x * times + plus, called `format` of x and the number. */
static PyObject *of_number(const py_index *x, int64_t times, int64_t plus, int format) {
  return py_index_from(py_index_scaled(x, times, plus), format, x, NULL,
                       format == PY_PRODUCT ? times : plus);
}

static PyObject *index_add(PyObject *a, PyObject *b) {
  /* Python calls this for `number + index` as well. */
  if (!PyObject_TypeCheck(a, py.own_index)) { /* a number + b */
    PyObject *swap = a;
    a = b;
    b = swap;
  }
  py_index *x = (py_index *)a;
  if (PyObject_TypeCheck(b, py.own_index)) return combined(x, (py_index *)b, 1, PY_SUM);
  int64_t k;
  int found = py_whole(b, &k);
  if (found < 0) return NULL;
  if (!found) Py_RETURN_NOTIMPLEMENTED;
  return of_number(x, 1, k, PY_SUM);
}

static PyObject *negative(PyObject *self) { return of_number((py_index *)self, -1, 0, PY_PRODUCT); }

static PyObject *index_subtract(PyObject *a, PyObject *b) {
  int64_t k;
  py_index *x = (py_index *)a, *y = (py_index *)b;
  if (PyObject_TypeCheck(a, py.own_index) && PyObject_TypeCheck(b, py.own_index))
    return combined(x, y, -1, PY_DIFFERENCE);
  bool reversed = !PyObject_TypeCheck(a, py.own_index);
  int found = py_whole(reversed ? a : b, &k);
  if (found < 0) return NULL;
  if (!found) Py_RETURN_NOTIMPLEMENTED;
  if (!reversed) {
    /* x - k is x + -k, but the least number has no negative. */
    if (!py_times(k, -1, &k)) return NULL;
    return of_number(x, 1, k, PY_SUM);
  }
  /* k - y is -y + k. */
  PyObject *minus = negative(b), *sum = minus ? index_add(minus, a) : NULL;
  Py_XDECREF(minus);
  return sum;
}

static PyObject *index_multiply(PyObject *a, PyObject *b) {
  if (!PyObject_TypeCheck(a, py.own_index)) {
    PyObject *swap = a;
    a = b;
    b = swap;
  }
  int64_t k;
  /* A product of two indices is not affine; the class has the message. */
  if (PyObject_TypeCheck(b, py.own_index)) return PyObject_CallMethod(a, "refuse", "sO", "*", b);
  int found = py_whole(b, &k);
  if (found < 0) return NULL;
  if (!found) Py_RETURN_NOTIMPLEMENTED;
  return of_number((py_index *)a, k, 0, PY_PRODUCT);
}

/* x // k or x % k, where that is an index again; the class has the message. */
static PyObject *divided(PyObject *a, PyObject *b, int rest) {
  int64_t k = 0;
  if (!PyObject_TypeCheck(a, py.own_index)) Py_RETURN_NOTIMPLEMENTED;
  int found = py_whole(b, &k);
  if (found < 0) return NULL;
  py_index *x = (py_index *)a, *y = found ? py_index_new(py_axes(x)) : NULL;
  soma_view_expr of = py_expr(x);
  soma_view_error e;
  if (found && !y) return NULL;
  if (y && soma_view_divide(&of, k, rest, y->axis, &y->at, &e))
    return py_index_from(y, rest ? PY_REST : PY_QUOTIENT, x, NULL, k);
  Py_XDECREF((PyObject *)y);
  return PyObject_CallMethod(a, "refuse", "sO", rest ? "%" : "//", b);
}

static PyObject *index_quotient(PyObject *a, PyObject *b) { return divided(a, b, 0); }
static PyObject *index_rest(PyObject *a, PyObject *b) { return divided(a, b, 1); }

static PyObject *index_compare(PyObject *self, PyObject *other, int op) {
  return py_index_compare(self, other, op);
}

/* ---- New axes -------------------------------------------------------------------------------- */

/* Whether an entry of a key is `:`. -1 with an error. */
static int is_all(PyObject *k) {
  Py_ssize_t start, stop, step;
  if (!PySlice_Check(k)) return 0;
  if (PySlice_Unpack(k, &start, &stop, &step) < 0) return -1;
  return start == 0 && stop == PY_SSIZE_T_MAX && step == 1;
}

/* x[:, None]: the key may have `:`, None, and one ellipsis for the `:` that are missing. */
static PyObject *index_subscript(PyObject *self, PyObject *key) {
  py_index *x = (py_index *)self;
  bool single = !PyTuple_Check(key);
  Py_ssize_t n = single ? 1 : PyTuple_Size(key), axes = py_axes(x), fixed = 0, dots = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *k = single ? key : PyTuple_GetItem(key, i);
    fixed += k != Py_None && k != Py_Ellipsis;
    dots += k == Py_Ellipsis;
  }
  Py_ssize_t more = axes > fixed ? axes - fixed : 0; /* stand for the ellipsis, or at the end */
  py_index *y = py_index_new(n - dots + more);
  Py_ssize_t at = 0, to = 0;
  /* The round after the last entry stands for the axes that no entry has named. */
  for (Py_ssize_t i = 0; y && i <= n; i++) {
    PyObject *k = i == n ? Py_Ellipsis : single ? key : PyTuple_GetItem(key, i);
    int all = k == Py_None || k == Py_Ellipsis ? 0 : is_all(k);
    /* What a key is not is said below, better than by the error of a slice's number. */
    if (all < 0 && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    if (k == Py_None) {
      /* An axis of one element is broadcast by those that it meets. */
      y->axis[to++] = (soma_view_axis){0, 1};
    } else if (k == Py_Ellipsis && (i == n || dots == 1)) {
      for (; more; more--) y->axis[to++] = x->axis[at++];
    } else if (all > 0 && at < axes) {
      y->axis[to++] = x->axis[at++];
    } else {
      if (!PyErr_Occurred()) py_error("an index takes `:` and None, not %R", k);
      Py_CLEAR(y);
    }
  }
  if (!y) return NULL;
  y->at = x->at;
  same_text(y, x);
  return (PyObject *)y;
}

/* ---- What others ask of it ------------------------------------------------------------------- */

PyDoc_STRVAR(bounds_doc, "Least and greatest value.");
static PyObject *bounds(PyObject *self, PyObject *none) {
  int64_t low, high;
  (void)none;
  if (!py_index_bounds((py_index *)self, &low, &high)) return NULL;
  return Py_BuildValue("(LL)", (long long)low, (long long)high);
}

static PyObject *get_coef(PyObject *self, void *tuple) {
  (void)tuple;
  return py_list(&((py_index *)self)->axis[0].coef, Py_SIZE(self), 2, false);
}

static PyObject *get_size(PyObject *self, void *tuple) {
  return py_list(&((py_index *)self)->axis[0].size, Py_SIZE(self), 2, tuple != NULL);
}

static PyObject *get_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromSsize_t(Py_SIZE(self));
}

static PyObject *get_varies(PyObject *self, void *unused) {
  py_index *x = (py_index *)self;
  int64_t found[PY_MAX_DIMS * 4];
  Py_ssize_t n = 0;
  (void)unused;
  for (Py_ssize_t a = 0; a < py_axes(x) && n < PY_MAX_DIMS * 4; a++)
    if (x->axis[a].coef && x->axis[a].size > 1) found[n++] = a;
  return py_list(found, n, 1, false);
}

static PyObject *get_said(PyObject *self, void *unused) {
  (void)unused;
  return py_said((py_index *)self);
}

static PyGetSetDef fields[] = {
    {"said", get_said, NULL, "What messages call it.", NULL},
    {"coef", get_coef, NULL, "The coefficient of each axis.", NULL},
    {"size", get_size, NULL, "The size of each axis.", NULL},
    {"shape", get_size, NULL, "The sizes of the axes as a tuple.", (void *)"tuple"},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"varies", get_varies, NULL, "The axes along which it is not the same everywhere.", NULL},
    {0},
};
static PyMemberDef members[] = {
    {"const", T_LONGLONG, offsetof(py_index, at), READONLY, "Its value where all axes are 0."},
    {0},
};
static PyMethodDef methods[] = {{"bounds", bounds, METH_NOARGS, bounds_doc}, {0}};
static PyType_Slot slots[] = {
    {Py_tp_new, index_new},
    {Py_tp_dealloc, index_free},
    {Py_nb_add, index_add},
    {Py_nb_subtract, index_subtract},
    {Py_nb_multiply, index_multiply},
    {Py_nb_negative, negative},
    {Py_nb_floor_divide, index_quotient},
    {Py_nb_remainder, index_rest},
    {Py_mp_subscript, index_subscript},
    {Py_tp_richcompare, index_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_getset, fields},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {0},
};
static PyType_Spec spec = {"_soma.Index", sizeof(py_index), sizeof(soma_view_axis),
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
static PyMethodDef functions[] = {
    {"arange", (PyCFunction)(void (*)(void))arange, METH_FASTCALL, arange_doc}, {0}};

bool py_index_add_types(PyObject *module) {
  return py_add_type(module, &spec, &py.own_index, &py.index) &&
         PyModule_AddFunctions(module, functions) == 0;
}
