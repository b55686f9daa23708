/* The module, what it shares, and whole numbers. */
#include "recorder.h"

#include <string.h>

py_shared py;

void py_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyErr_FormatV(py.error, format, args);
  va_end(args);
}

static bool too_large(PyObject *(*op)(PyObject *, PyObject *), int64_t a, int64_t b) {
  PyObject *x = PyLong_FromLongLong(a), *y = PyLong_FromLongLong(b);
  PyObject *z = x && y ? op(x, y) : NULL;
  if (z) py_error("the number %S does not fit in 64 bits", z);
  Py_XDECREF(x);
  Py_XDECREF(y);
  Py_XDECREF(z);
  return false;
}

bool py_times(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out) || too_large(PyNumber_Multiply, a, b);
}

bool py_plus(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out) || too_large(PyNumber_Add, a, b);
}

static bool of_long(PyObject *x, int64_t *out) {
  int over = 0;
  *out = PyLong_AsLongLongAndOverflow(x, &over);
  if (over) py_error("the number %S does not fit in 64 bits", x);
  return !over && !(*out == -1 && PyErr_Occurred());
}

int py_whole(PyObject *x, int64_t *out) {
  if (PyLong_CheckExact(x)) return of_long(x, out) ? 1 : -1;
  PyObject *k = PyObject_CallFunctionObjArgs(py.whole, x, NULL);
  if (!k) return -1;
  int found = k == Py_None ? 0 : of_long(k, out) ? 1 : -1;
  Py_DECREF(k);
  return found;
}

bool py_number(PyObject *x, int64_t *out) {
  if (PyLong_Check(x)) return of_long(x, out);
  int found = py_whole(x, out);
  if (!found) py_error("%R is not a whole number", x);
  return found > 0;
}

PyObject *py_list(const int64_t *numbers, Py_ssize_t n, Py_ssize_t step, bool tuple) {
  PyObject *found = tuple ? PyTuple_New(n) : PyList_New(n);
  for (Py_ssize_t i = 0; found && i < n; i++) {
    PyObject *k = PyLong_FromLongLong(numbers[i * step]);
    if (!k || (tuple ? PyTuple_SetItem(found, i, k) : PyList_SetItem(found, i, k)) < 0)
      Py_CLEAR(found);
  }
  return found;
}

PyObject *py_pool_new(py_pool *pool, PyTypeObject *type, Py_ssize_t items, size_t bytes) {
  if (!pool->n) return PyType_GenericAlloc(type, items);
  PyObject *x = pool->kept[--pool->n];
  if (bytes) memset(x, 0, bytes);
  return PyObject_Init(x, type);
}

void py_pool_end(py_pool *pool, PyObject *x, bool usual) {
#ifndef __SANITIZE_ADDRESS__ /* which finds what is used after its end */
  if (usual && pool->whole && pool->n < (int)(sizeof pool->kept / sizeof *pool->kept)) {
    pool->kept[pool->n++] = x;
    return;
  }
#endif
  (void)pool, (void)usual;
  py_release(x);
}

bool py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **own, PyTypeObject **used) {
  *own = (PyTypeObject *)PyType_FromSpec(spec);
  if (!*own) return false;
  if (used) { /* until use() gives another */
    Py_INCREF((PyObject *)*own);
    *used = *own;
  }
  return PyModule_AddType(module, *own) == 0;
}

/* ---- The module ------------------------------------------------------------------------------ */

/* One of the Python classes, which must be made from the class here. */
static bool take_class(PyObject *given, const char *name, PyTypeObject *base, PyTypeObject **out) {
  PyObject *found = PyDict_GetItemString(given, name);
  if (!found) return true;
  if (!PyType_Check(found) || !PyType_IsSubtype((PyTypeObject *)found, base)) {
    PyErr_Format(PyExc_TypeError, "%s is not made from _soma.%s", name, name);
    return false;
  }
  Py_INCREF(found);
  py_put((PyObject **)out, found);
  return true;
}

/* Whether objects of a class are as large as those of its base, so that one can be where another
 * was. */
static bool set_whole(py_pool *pool, PyTypeObject *type, PyTypeObject *base) {
  PyObject *a = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
  PyObject *b = a ? PyObject_GetAttrString((PyObject *)base, "__basicsize__") : NULL;
  int same = b ? PyObject_RichCompareBool(a, b, Py_EQ) : -1;
  Py_XDECREF(a);
  Py_XDECREF(b);
  pool->whole = same > 0;
  return same >= 0;
}

/* NumPy's float32, and which types are floats: a byte for each soma_dtype. */
static bool take_floats(PyObject *given) {
  PyObject *type = PyDict_GetItemString(given, "float32");
  PyObject *floats = PyDict_GetItemString(given, "floats");
  if (type && !PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "float32 is no class");
    return false;
  }
  Py_XINCREF(type);
  if (type) py_put((PyObject **)&py.float32, type);
  if (!floats) return true;
  if (!PyBytes_Check(floats) || PyBytes_Size(floats) != sizeof py.floats) {
    PyErr_SetString(PyExc_TypeError, "floats has a byte for each type");
    return false;
  }
  memcpy(py.floats, PyBytes_AsString(floats), sizeof py.floats);
  return true;
}

static bool take_function(PyObject *given, const char *name, PyObject **out) {
  PyObject *found = PyDict_GetItemString(given, name);
  Py_XINCREF(found);
  if (found) py_put(out, found);
  return true;
}

PyDoc_STRVAR(use_doc, "use(Index=, Mask=, View=, Storage=): the classes that objects are made of.");
static PyObject *use(PyObject *module, PyObject *args, PyObject *given) {
  (void)module;
  if (PyTuple_Size(args) || !given) {
    PyErr_SetString(PyExc_TypeError, "use() takes classes by their names");
    return NULL;
  }
  if (!take_class(given, "Index", py.own_index, &py.index) ||
      !take_class(given, "Mask", py.own_mask, &py.mask) ||
      !take_class(given, "View", py.own_view, &py.view) ||
      !take_class(given, "Storage", py.own_storage, &py.storage) ||
      !take_class(given, "Handle", py.own_handle, &py.handle) ||
      !take_function(given, "same_view", &py.same_view) ||
      !take_function(given, "shares", &py.shares) ||
      !take_function(given, "matmul", &py.matmul) ||
      !take_function(given, "single", &py.single) || !take_floats(given) ||
      !set_whole(&py.views, py.view, py.own_view) ||
      !set_whole(&py.indices, py.index, py.own_index) ||
      !set_whole(&py.handles, py.handle, py.own_handle))
    return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"use", (PyCFunction)(void (*)(void))use, METH_VARARGS | METH_KEYWORDS, use_doc},
    {"adds", py_matmul_adds, METH_O, "adds(bytes): a matmul that is held back, added to a sum."},
    {0},
};

static bool import(const char *module, const char *name, PyObject **out) {
  PyObject *m = PyImport_ImportModule(module);
  *out = m ? PyObject_GetAttrString(m, name) : NULL;
  Py_XDECREF(m);
  return *out;
}

/* Where the members of a slice lie, which its type tells. */
static void find_slice(void) {
  static const char *const names[] = {"start", "stop", "step"};
  const PyMemberDef *of = PyType_GetSlot(&PySlice_Type, Py_tp_members);
  Py_ssize_t at[3] = {0, 0, 0};
  for (; of && of->name; of++)
    for (int i = 0; i < 3; i++)
      if (of->type == T_OBJECT && strcmp(of->name, names[i]) == 0) at[i] = of->offset;
  if (at[0] && at[1] && at[2]) memcpy(py.slice_at, at, sizeof at);
  PyErr_Clear(); /* without them slices are Python's */
}

static bool share(PyObject *module) {
  find_slice();
#define X(name) \
  if (!(py.name = PyUnicode_InternFromString(#name))) return false;
  PY_NAMES(X)
#undef X
  static const char *const formats[] = {
#define X(name, format) format,
      PY_FORMATS(X)
#undef X
  };
  for (int i = 0; i < PY_NFORMATS; i++)
    if (!(py.format[i] = PyUnicode_InternFromString(formats[i]))) return false;
  return import("soma.errors", "KernelError", &py.error) &&
         import("soma.checked", "whole", &py.whole) && import("sys", "_getframe", &py.getframe) &&
         (py.one = PyLong_FromLong(1)) && (py.sbuf = PyLong_FromLong(1)) &&
         (py.psum = PyLong_FromLong(2)) &&
         (py.empty = PyUnicode_FromString("")) && (py.waiting = PyList_New(0)) &&
         PyModule_AddObjectRef(module, "waiting", py.waiting) == 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_soma",    .m_doc = "The recorder of kernels over libsoma.",
    .m_size = -1,          .m_methods = methods,
};

PyMODINIT_FUNC PyInit__soma(void);
PyMODINIT_FUNC PyInit__soma(void) {
  PyObject *module = PyModule_Create(&definition);
  if (module && share(module) && py_index_add_types(module) && py_mask_add_types(module) &&
      py_view_add_types(module) && py_record_add_types(module) && py_blocks_add_types(module) &&
      py_call_add_types(module))
    return module;
  Py_XDECREF(module);
  return NULL;
}
