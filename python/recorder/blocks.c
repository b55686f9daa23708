/* Arrays of tiles, and what calls return. */
#include "recorder.h"

/* ---- Arrays of tiles ------------------------------------------------------------------------- */

/* `tiles`: by the leading indices, of which there are `lead`. */
typedef struct blocks {
  PyObject ob_base;
  PyObject *tiles;
  Py_ssize_t lead;
} blocks;

static int blocks_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((blocks *)self)->tiles);
  return 0;
}

static int blocks_clear(PyObject *self) {
  Py_CLEAR(((blocks *)self)->tiles);
  return 0;
}

static void blocks_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  blocks_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

/* The tile that the leading numbers of a key name, and the rest of the key, NULL if they are all
 * of it. The tile is NULL, without an error, if they name none. */
static bool split(blocks *b, PyObject *key, PyObject **tile, PyObject **rest) {
  *tile = *rest = NULL;
  /* `tiles` is what Python has put there. */
  if (!b->tiles || !PyDict_Check(b->tiles)) return true;
  PyObject *keys = PyTuple_Check(key) ? key : PyTuple_Pack(1, key);
  if (keys == key) Py_INCREF(key);
  Py_ssize_t n = keys ? PyTuple_Size(keys) : -1;
  PyObject *head = n < 0 ? NULL : PyTuple_GetSlice(keys, 0, b->lead);
  /* Fewer numbers name no single tile. */
  if (head && n >= b->lead) {
    *tile = PyDict_GetItemWithError(b->tiles, head);
    /* Slices and expressions have no hash. */
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
  }
  Py_XINCREF(*tile);
  if (*tile && n > b->lead) *rest = PyTuple_GetSlice(keys, b->lead, n);
  Py_XDECREF(head);
  Py_XDECREF(keys);
  if (!PyErr_Occurred()) return true;
  Py_CLEAR(*tile);
  Py_CLEAR(*rest);
  return false;
}

static PyObject *blocks_item(PyObject *self, PyObject *key) {
  PyObject *tile, *rest;
  if (!split((blocks *)self, key, &tile, &rest)) return NULL;
  /* Parts of the array are made in Python. */
  if (!tile) return PyObject_CallMethodObjArgs(self, py._item, key, NULL);
  if (!rest) return tile;
  PyObject *found = PyObject_GetItem(tile, rest);
  Py_DECREF(tile);
  Py_DECREF(rest);
  return found;
}

static int blocks_set(PyObject *self, PyObject *key, PyObject *value) {
  PyObject *tile, *rest;
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "tiles of an array cannot be deleted");
    return -1;
  }
  if (!split((blocks *)self, key, &tile, &rest)) return -1;
  if (!tile) {
    PyObject *done = PyObject_CallMethodObjArgs(self, py._set_item, key, value, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  /* Nothing left of the key is all of the tile. */
  int status = PyObject_SetItem(tile, rest ? rest : Py_Ellipsis, value);
  Py_DECREF(tile);
  Py_XDECREF(rest);
  return status;
}

static PyMemberDef blocks_members[] = {
    {"tiles", T_OBJECT, offsetof(blocks, tiles), 0, "The tiles by their leading indices."},
    {"leads", T_PYSSIZET, offsetof(blocks, lead), 0, "The number of leading indices."},
    {0},
};
static PyType_Slot blocks_slots[] = {
    {Py_tp_dealloc, blocks_free},
    {Py_tp_traverse, blocks_traverse},
    {Py_tp_clear, blocks_clear},
    {Py_tp_members, blocks_members},
    {Py_mp_subscript, blocks_item},
    {Py_mp_ass_subscript, blocks_set},
    {0},
};
static PyType_Spec blocks_spec = {"_soma.Blocks", sizeof(blocks), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  blocks_slots};

/* ---- What calls return ----------------------------------------------------------------------- */

/* A recorded call: its first and last instruction. */
typedef struct handle {
  PyObject ob_base;
  int64_t first, last;
} handle;

static void handle_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  py_release(self);
  Py_DECREF(type);
}

static PyMemberDef handle_members[] = {
    {"first", T_LONGLONG, offsetof(handle, first), READONLY, "Its first instruction."},
    {"last", T_LONGLONG, offsetof(handle, last), READONLY, "Its last instruction."},
    {0},
};
static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_free}, {Py_tp_members, handle_members}, {0}};
static PyType_Spec handle_spec = {"_soma.Handle", sizeof(handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, handle_slots};

static bool name_it(py_recording *r, PyObject *name, PyObject *made) {
  PyObject *named = PyObject_GetAttr((PyObject *)r, py.named);
  int status = named ? PyObject_SetItem(named, name, made) : -1;
  Py_XDECREF(named);
  return status == 0;
}

PyObject *py_handle(py_recording *r, int64_t first, PyObject *name) {
  if (!py.handle) {
    PyErr_SetString(PyExc_TypeError, "there is no class of handles");
    return NULL;
  }
  if (r->older) {
    PyObject *told = PyObject_CallMethodObjArgs((PyObject *)r, py._tell_older, NULL);
    if (!told) return NULL;
    Py_DECREF(told);
  }
  PyObject *made = PyType_GenericAlloc(py.handle, 0);
  if (!made) return NULL;
  ((handle *)made)->first = first;
  /* The last of its instructions is the one that was recorded last. */
  ((handle *)made)->last = r->count - 1;
  int named = name && name != Py_None ? PyObject_IsTrue(name) : 0;
  if (named < 0 || (named && !name_it(r, name, made))) Py_CLEAR(made);
  return made;
}

PyDoc_STRVAR(done_doc,
             "done(rec, first, name=None): the handle of a call whose instructions begin at number "
             "`first`.");
static PyObject *done(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  int64_t first;
  (void)module;
  if (n < 2 || n > 3 || !PyObject_TypeCheck(args[0], py.recording)) {
    PyErr_SetString(PyExc_TypeError, "done() takes a recording, a number and a name");
    return NULL;
  }
  if (!py_number(args[1], &first)) return NULL;
  return py_handle((py_recording *)args[0], first, n > 2 ? args[2] : NULL);
}

static PyMethodDef functions[] = {
    {"done", (PyCFunction)(void (*)(void))done, METH_FASTCALL, done_doc}, {0}};

bool py_blocks_add_types(PyObject *module) {
  PyTypeObject *arrays;
  bool fine = py_add_type(module, &blocks_spec, &arrays, NULL);
  if (fine) Py_DECREF((PyObject *)arrays);
  return fine && py_add_type(module, &handle_spec, &py.own_handle, &py.handle) &&
         PyModule_AddFunctions(module, functions) == 0;
}
