/* Memory, views of it, and ds(). */
#include "recorder.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static int storage_traverse(PyObject *self, visitproc visit, void *arg) {
  py_storage *s = (py_storage *)self;
  /* A class made at run time is counted by each of its objects, so its collector must see it. */
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(s->site);
  Py_VISIT(s->zero);
  Py_VISIT(s->place);
  Py_VISIT(s->left);
  return 0;
}

static int storage_clear(PyObject *self) {
  Py_CLEAR(((py_storage *)self)->site);
  Py_CLEAR(((py_storage *)self)->zero);
  Py_CLEAR(((py_storage *)self)->place);
  Py_CLEAR(((py_storage *)self)->left);
  return 0;
}

static void storage_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  storage_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyMemberDef storage_members[] = {
    {"memory", T_INT, offsetof(py_storage, memory), 0, "0: HBM, 1: SBUF, 2: PSUM."},
    {"site", T_OBJECT, offsetof(py_storage, site), 0, "What tiles of its place have in common."},
    {"zero", T_OBJECT, offsetof(py_storage, zero), 0, "Its zeros that may be needed, or None."},
    {"place", T_OBJECT, offsetof(py_storage, place), 0,
     "(start partition, byte offset) that the kernel gives, or None."},
    {"left", T_OBJECT, offsetof(py_storage, left), 0,
     "Of a result under a mask: what assigns only the part that the mask leaves."},
    {"handle", T_LONGLONG, offsetof(py_storage, handle), 0, "The builder's number, or 0."},
    {"order", T_LONGLONG, offsetof(py_storage, order), 0, "Its place in the order of creation."},
    {"lent", T_BOOL, offsetof(py_storage, lent), 0, "Whether its instructions went elsewhere."},
    {0},
};
static PyType_Slot storage_slots[] = {
    {Py_tp_dealloc, storage_free},
    {Py_tp_traverse, storage_traverse},
    {Py_tp_clear, storage_clear},
    {Py_tp_members, storage_members},
    {0},
};
static PyType_Spec storage_spec = {"_soma.Storage", sizeof(py_storage), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                   storage_slots};

/* ---- ds() ------------------------------------------------------------------------------------ */

static PyObject *slice_of(PyObject *start, PyObject *size) {
  py_slice *x = (py_slice *)PyType_GenericAlloc(py.slice, 0);
  if (!x) return NULL;
  Py_INCREF(start);
  Py_INCREF(size);
  x->start = start;
  x->size = size;
  return (PyObject *)x;
}

PyDoc_STRVAR(ds_doc, "ds($module, /, start, size)\n--\n\n"
                     "The elements start .. start + size - 1, of which start may be a register.");
static PyObject *ds(PyObject *module, PyObject *args, PyObject *given) {
  static char *names[] = {"start", "size", NULL};
  PyObject *start, *size;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, given, "OO:ds", names, &start, &size)) return NULL;
  return slice_of(start, size);
}

static int slice_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((py_slice *)self)->start);
  Py_VISIT(((py_slice *)self)->size);
  return 0;
}

static int slice_clear(PyObject *self) {
  Py_CLEAR(((py_slice *)self)->start);
  Py_CLEAR(((py_slice *)self)->size);
  return 0;
}

static void slice_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  slice_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject *slice_text(PyObject *self) {
  return PyUnicode_FromFormat("ds(%S, %S)", ((py_slice *)self)->start, ((py_slice *)self)->size);
}

static PyMemberDef slice_members[] = {
    {"start", T_OBJECT, offsetof(py_slice, start), READONLY, "The first element."},
    {"size", T_OBJECT, offsetof(py_slice, size), READONLY, "How many there are."},
    {0},
};
static PyType_Slot slice_slots[] = {
    {Py_tp_dealloc, slice_free}, {Py_tp_traverse, slice_traverse}, {Py_tp_clear, slice_clear},
    {Py_tp_repr, slice_text},    {Py_tp_members, slice_members},   {0},
};
static PyType_Spec slice_spec = {
    "_soma.DynSlice", sizeof(py_slice), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slice_slots};

/* ---- Views ----------------------------------------------------------------------------------- */

py_view *py_view_like(const py_view *v) {
  bool again = py.views.n > 0;
  py_view *t = (py_view *)py_pool_new(&py.views, py.view, 0, 0);
  if (!t) return NULL;
  t->dyn = t->bound = t->pending = t->weak = NULL; /* as view_free() has left them */
  t->storage = Py_NewRef(v->storage);
  t->dtype = Py_NewRef(v->dtype);
  t->ndim = 0;
  t->size = v->size;
  t->code = v->code;
  t->part = v->part;
  t->off = v->off;
  /* What the pool kept is not tracked; what is new is. */
  if (again) PyObject_GC_Track(t);
  return t;
}

static int set_dtype(PyObject *self, PyObject *dtype, void *unused) {
  py_view *v = (py_view *)self;
  int64_t size = 0, code = 0;
  (void)unused;
  PyObject *s = dtype ? PyObject_GetAttr(dtype, py.size) : NULL;
  PyObject *c = s ? PyObject_GetAttr(dtype, py.code) : NULL;
  bool fine = c && py_number(s, &size) && py_number(c, &code);
  if (fine && (size < 1 || size > 64 || code < 1 || code > 255)) {
    PyErr_SetString(PyExc_TypeError, "the type of a view is an element type");
    fine = false;
  }
  Py_XDECREF(s);
  Py_XDECREF(c);
  if (!fine) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a view has a type");
    return -1;
  }
  v->size = (int)size;
  v->code = (int)code;
  Py_INCREF(dtype);
  py_put(&v->dtype, dtype);
  return 0;
}

/* Puts a tuple of numbers into the sizes or the steps. */
static int set_dims(PyObject *self, PyObject *numbers, void *steps) {
  py_view *v = (py_view *)self;
  int64_t found[PY_MAX_DIMS];
  Py_ssize_t n = numbers ? PySequence_Size(numbers) : -1;
  if (n < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a view has a shape and steps");
    return -1;
  }
  if (n > PY_MAX_DIMS) {
    py_error("a view of %zd dimensions: there can be %d", n, PY_MAX_DIMS);
    return -1;
  }
  /* All are read before any is put, so that a list that fails leaves the view as it was. */
  for (Py_ssize_t d = 0; d < n; d++) {
    PyObject *k = PySequence_GetItem(numbers, d);
    bool fine = k && py_number(k, &found[d]);
    Py_XDECREF(k);
    if (!fine) return -1;
  }
  for (Py_ssize_t d = 0; d < n; d++) *(steps ? &v->dim[d].step : &v->dim[d].num) = found[d];
  if (!steps) v->ndim = (int)n;
  return 0;
}

static PyObject *get_dims(PyObject *self, void *steps) {
  py_view *v = (py_view *)self;
  /* The numbers of dim, every second one: num and step lie side by side. */
  return py_list(steps ? &v->dim[0].step : &v->dim[0].num, v->ndim, 2, true);
}

static int set_place(PyObject *self, PyObject *value, void *off) {
  py_view *v = (py_view *)self;
  int64_t k;
  if (!value || !py_number(value, &k)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a view has a place");
    return -1;
  }
  *(off ? &v->off : &v->part) = k;
  return 0;
}

static PyObject *get_place(PyObject *self, void *off) {
  py_view *v = (py_view *)self;
  return PyLong_FromLongLong(off ? v->off : v->part);
}

static PyObject *get_dtype(PyObject *self, void *unused) {
  py_view *v = (py_view *)self;
  (void)unused;
  Py_INCREF(v->dtype);
  return v->dtype;
}

static bool take(PyObject **field, PyObject *value) {
  Py_INCREF(value);
  py_put(field, value);
  return true;
}

static int set_dyn(PyObject *self, PyObject *dyn, void *unused) {
  (void)unused;
  if (!dyn || !PyTuple_Check(dyn)) {
    PyErr_SetString(PyExc_TypeError, "the dynamic parts of a view are a tuple");
    return -1;
  }
  /* No dynamic parts are NULL, so that most views have nothing to look at. */
  if (PyTuple_Size(dyn)) return take(&((py_view *)self)->dyn, dyn) ? 0 : -1;
  Py_CLEAR(((py_view *)self)->dyn);
  return 0;
}

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *given) {
  static char *names[] = {"storage", "dtype", "shape", "steps", "part",
                          "off",     "dyn",   "bound", NULL};
  PyObject *storage, *dtype, *shape, *steps, *part = NULL, *off = NULL, *dyn = NULL, *bound = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, given, "O!OOO|OOOO", names, py.own_storage, &storage,
                                   &dtype, &shape, &steps, &part, &off, &dyn, &bound))
    return NULL;
  PyObject *self = PyType_GenericAlloc(type, 0);
  py_view *v = (py_view *)self;
  if (!v) return NULL;
  take(&v->storage, storage);
  if (bound && bound != Py_None) take(&v->bound, bound);
  /* Sizes before steps: the sizes set the number of dimensions. */
  if (set_dtype(self, dtype, NULL) == 0 && set_dims(self, shape, NULL) == 0 &&
      set_dims(self, steps, (void *)"steps") == 0 && (!part || set_place(self, part, NULL) == 0) &&
      (!off || set_place(self, off, (void *)"off") == 0) && (!dyn || set_dyn(self, dyn, NULL) == 0))
    return self;
  Py_DECREF(self);
  return NULL;
}

static int view_traverse(PyObject *self, visitproc visit, void *arg) {
  py_view *v = (py_view *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(v->storage);
  Py_VISIT(v->dyn);
  Py_VISIT(v->bound);
  Py_VISIT(v->pending);
  return 0;
}

/* The storage stays: whoever still has the view takes it for granted. */
static int view_clear(PyObject *self) {
  py_view *v = (py_view *)self;
  Py_CLEAR(v->dyn);
  Py_CLEAR(v->bound);
  Py_CLEAR(v->pending);
  return 0;
}

static void view_free(PyObject *self) {
  py_view *v = (py_view *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (v->weak) PyObject_ClearWeakRefs(self);
  view_clear(self);
  Py_CLEAR(v->storage);
  Py_CLEAR(v->dtype);
  py_pool_end(&py.views, self, type == py.view);
  Py_DECREF(type);
}

/* Dynamic parts: a tuple, () if there are none. */
static PyObject *get_dyn(PyObject *self, void *unused) {
  py_view *v = (py_view *)self;
  (void)unused;
  if (!v->dyn) return PyTuple_New(0);
  Py_INCREF(v->dyn);
  return v->dyn;
}

static int set_bound(PyObject *self, PyObject *bound, void *unused) {
  (void)unused;
  Py_CLEAR(((py_view *)self)->bound);
  if (bound && bound != Py_None) take(&((py_view *)self)->bound, bound);
  return 0;
}

static PyObject *get_bound(PyObject *self, void *unused) {
  py_view *v = (py_view *)self;
  (void)unused;
  PyObject *found = v->bound ? v->bound : Py_None;
  Py_INCREF(found);
  return found;
}

static PyObject *get_size(PyObject *self, void *free) {
  py_view *v = (py_view *)self;
  int64_t n = 1;
  /* In SBUF and PSUM dimension 0 is partitions, and not free. */
  for (int d = free && py_storage_of(v)->memory ? 1 : 0; d < v->ndim; d++)
    if (!py_times(n, v->dim[d].num, &n)) return NULL;
  return PyLong_FromLongLong(n);
}

static PyObject *get_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(((py_view *)self)->ndim);
}

/* Whether some of its elements coincide. */
static PyObject *get_repeats(PyObject *self, void *unused) {
  py_view *v = (py_view *)self;
  bool found = false;
  (void)unused;
  for (int d = 1; d < v->ndim; d++) found = found || (v->dim[d].num > 1 && !v->dim[d].step);
  return PyBool_FromLong(found);
}

static PyObject *get_memory(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(py_storage_of((py_view *)self)->memory);
}

static PyGetSetDef fields[] = {
    {"dtype", get_dtype, set_dtype, "The type of its elements.", NULL},
    {"shape", get_dims, set_dims, "The size of each dimension.", NULL},
    {"steps", get_dims, set_dims, "The step of each dimension, in elements.", (void *)"steps"},
    {"part", get_place, set_place, "Its first partition.", NULL},
    {"off", get_place, set_place, "Its first element, in a partition or in HBM.", (void *)"off"},
    {"dyn", get_dyn, set_dyn, "What is known when the kernel runs.", NULL},
    {"bound", get_bound, set_bound, "What has to lie in a dimension, or None.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"free_size", get_size, NULL, "Elements in each partition (in HBM: all).", (void *)"free"},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"repeats", get_repeats, NULL, "Whether elements of a partition coincide.", NULL},
    {"memory", get_memory, NULL, "0: HBM, 1: SBUF, 2: PSUM.", NULL},
    {0},
};
static PyMemberDef members[] = {
    {"storage", T_OBJECT, offsetof(py_view, storage), READONLY, "The memory."},
    {"pending", T_OBJECT, offsetof(py_view, pending), 0, "The instruction that will write it."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(py_view, weak), READONLY, NULL},
    {0},
};

/* ---- As operands ----------------------------------------------------------------------------- */

static PyObject *bytes_of(PyObject *self, bool merge) {
  py_words w;
  PyObject *found = NULL;
  py_words_begin(&w);
  if (py_words_add_view(&w, (py_view *)self, merge))
    found = PyBytes_FromStringAndSize((const char *)w.w, (Py_ssize_t)(w.n * sizeof *w.w));
  py_words_end(&w);
  return found;
}

PyDoc_STRVAR(words_doc, "The operand in the builder's words (soma_kernel.h), packed, dimensions "
                        "merged where they can be.");
static PyObject *words(PyObject *self, PyObject *none) {
  (void)none;
  return bytes_of(self, true);
}

PyDoc_STRVAR(exact_words_doc,
             "The same with every free dimension as it is (in HBM: every dimension).");
static PyObject *exact_words(PyObject *self, PyObject *none) {
  (void)none;
  return bytes_of(self, false);
}

PyDoc_STRVAR(numbers_doc, "The numbers that words() packs.");
static PyObject *numbers(PyObject *self, PyObject *none) {
  py_words w;
  PyObject *found = NULL;
  (void)none;
  py_words_begin(&w);
  if (py_words_add_view(&w, (py_view *)self, true)) found = py_list(w.w, (Py_ssize_t)w.n, 1, true);
  py_words_end(&w);
  return found;
}

PyDoc_STRVAR(dense_doc, "Whether the elements (of a partition) lie densely in row-major order.");
static PyObject *is_contiguous(PyObject *self, PyObject *none) {
  soma_view v;
  (void)none;
  py_view_get((py_view *)self, &v);
  return PyBool_FromLong(soma_view_dense(&v));
}

PyDoc_STRVAR(other_doc, "_other(what, numbers ...): another view of the same elements.");
static PyMethodDef methods[] = {
    {"is_contiguous", is_contiguous, METH_NOARGS, dense_doc},
    {"_other", (PyCFunction)(void (*)(void))py_view_other, METH_FASTCALL, other_doc},
    {"words", words, METH_NOARGS, words_doc},
    {"exact_words", exact_words, METH_NOARGS, exact_words_doc},
    {"numbers", numbers, METH_NOARGS, numbers_doc},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_new, view_new},
    {Py_tp_dealloc, view_free},
    {Py_tp_traverse, view_traverse},
    {Py_tp_clear, view_clear},
    {Py_tp_getset, fields},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_mp_subscript, py_view_subscript},
    {Py_mp_ass_subscript, py_view_assign},
    {0},
};
static PyType_Spec spec = {"_soma.View", sizeof(py_view), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

static PyMethodDef functions[] = {
    {"ds", (PyCFunction)(void (*)(void))ds, METH_VARARGS | METH_KEYWORDS, ds_doc}, {0}};

bool py_view_add_types(PyObject *module) {
  return py_add_type(module, &spec, &py.own_view, &py.view) &&
         py_add_type(module, &storage_spec, &py.own_storage, &py.storage) &&
         py_add_type(module, &slice_spec, &py.slice, NULL) &&
         PyModule_AddFunctions(module, functions) == 0;
}
