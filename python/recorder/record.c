/* The recording of a kernel: what puts records into the builder. */
#include "recorder.h"

static int traverse(PyObject *self, visitproc visit, void *arg) {
  py_recording *r = (py_recording *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(r->pending);
  Py_VISIT(r->at);
  Py_VISIT(r->frame);
  Py_VISIT(r->loops);
  Py_VISIT(r->log);
  Py_VISIT(r->early);
  Py_VISIT(r->hints);
  Py_VISIT(r->sites);
  Py_VISIT(r->weights);
  for (size_t i = 0; i < r->capcodes; i++) Py_VISIT(r->codes[i].code);
  return py_tiles_traverse(r, visit, arg);
}

static int clear(PyObject *self) {
  py_recording *r = (py_recording *)self;
  py_code *codes = r->codes;
  size_t n = r->capcodes;
  r->codes = NULL;
  r->capcodes = r->ncodes = 0;
  for (size_t i = 0; i < n; i++) {
    PyMem_Free(codes[i].line);
    Py_XDECREF(codes[i].code);
  }
  PyMem_Free(codes);
  py_tiles_clear(r);
  Py_CLEAR(r->pending);
  Py_CLEAR(r->at);
  Py_CLEAR(r->frame);
  Py_CLEAR(r->loops);
  Py_CLEAR(r->log);
  Py_CLEAR(r->early);
  Py_CLEAR(r->hints);
  Py_CLEAR(r->sites);
  Py_CLEAR(r->weights);
  return 0;
}

static void release(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc free = (freefunc)PyType_GetSlot(type, Py_tp_free);
  PyObject_GC_UnTrack(self);
  clear(self);
  free(self);
  Py_DECREF(type);
}

/* ---- Records --------------------------------------------------------------------------------- */

enum { HEAD = 6 }; /* words before those of the fields */

static bool call(PyObject *self, PyObject *name, PyObject *argument) {
  PyObject *done = PyObject_CallMethodObjArgs(self, name, argument, NULL);
  Py_XDECREF(done);
  return done;
}

static bool given_place(PyObject *at, int64_t *file, int64_t *line) {
  if (PyTuple_Check(at) && PyTuple_Size(at) == 2)
    return py_number(PyTuple_GetItem(at, 0), file) && py_number(PyTuple_GetItem(at, 1), line);
  PyErr_SetString(PyExc_TypeError, "a place is (file, line)");
  return false;
}

/* In a loop at run time: 1 if the record was only compared with that of the round before. */
static int logged(py_recording *r, const py_words *w) {
  if (!r->loops || !PyList_Check(r->loops) || PyList_Size(r->loops) == 0) return 0;
  PyObject *same = PyObject_CallMethod((PyObject *)r, "_logged", "LLLLLy#", (long long)w->w[1],
                                       (long long)w->w[2], (long long)w->w[3], (long long)w->w[4],
                                       (long long)w->w[5], (const char *)(w->w + HEAD),
                                       (Py_ssize_t)((w->n - HEAD) * sizeof *w->w));
  int found = same ? PyObject_IsTrue(same) : -1;
  Py_XDECREF(same);
  return found;
}

bool py_record_begin(py_words *w, int64_t op, int64_t engine, int64_t flags) {
  py_words_begin(w);
  w->w[1] = op;
  w->w[2] = engine;
  w->w[3] = flags;
  w->n = HEAD; /* py_record_put() knows the length and the place */
  return true;
}

bool py_record_put(py_recording *r, py_words *w) {
  if (!py_flush(r)) return false;
  if (r->at && r->at != Py_None ? !given_place(r->at, &w->w[4], &w->w[5])
                                : !py_place(r, &w->w[4], &w->w[5]))
    return false;
  w->w[0] = (int64_t)w->n;
  int same = logged(r, w);
  if (same < 0) return false;
  if (!same && !r->kernel) {
    py_error("a record for a kernel that has ended");
    return false;
  }
  int status = same ? 0 : (int)soma_kernel_emit(r->kernel, w->w, w->n, NULL);
  if (status) {
    PyObject *number = PyLong_FromLong(status);
    if (number) call((PyObject *)r, py._failed, number);
    Py_XDECREF(number);
    if (!PyErr_Occurred()) py_error("the builder refuses a record (%d)", status);
    return false;
  }
  r->count++;
  return same || !r->ordered || call((PyObject *)r, py._keep_order, NULL);
}

PyDoc_STRVAR(emit_doc,
             "emit(op, engine, parts, flags=0): one instruction: its opcode, engine (-1: any), and "
             "its fields in order, each a tensor, words that are packed, or a tuple of numbers.");
static PyObject *emit(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  py_recording *r = (py_recording *)self;
  int64_t op, engine, flags = 0;
  py_words w;
  if (n < 3 || n > 4 || !(PyTuple_Check(args[2]) || PyList_Check(args[2]))) {
    PyErr_SetString(PyExc_TypeError, "emit() takes an opcode, an engine, and parts of a record");
    return NULL;
  }
  if (!py_number(args[0], &op) || !py_number(args[1], &engine) ||
      (n > 3 && !py_number(args[3], &flags)))
    return NULL;
  bool fine = py_record_begin(&w, op, engine, flags);
  bool tuple = PyTuple_Check(args[2]);
  Py_ssize_t parts = tuple ? PyTuple_Size(args[2]) : PyList_Size(args[2]);
  for (Py_ssize_t i = 0; i < parts && fine; i++) {
    PyObject *part = tuple ? PyTuple_GetItem(args[2], i) : PyList_GetItem(args[2], i);
    fine = part && py_words_add_part(&w, part);
  }
  fine = fine && py_record_put(r, &w);
  py_words_end(&w);
  if (!fine) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(where_doc,
             "(file number, line) of the innermost frame that is the user's, or what `at` says.");
static PyObject *where(PyObject *self, PyObject *none) {
  py_recording *r = (py_recording *)self;
  int64_t file, line;
  (void)none;
  if (r->at && r->at != Py_None) {
    Py_INCREF(r->at);
    return r->at;
  }
  if (!py_place(r, &file, &line)) return NULL;
  return Py_BuildValue("(LL)", (long long)file, (long long)line);
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

PyObject *py_again(py_recording *r, PyObject *shape, PyObject *dtype, PyObject *memory) {
  PyObject *self = (PyObject *)r;
  if (!r->sites || !PyDict_Check(r->sites)) Py_RETURN_NONE;
  PyObject *at = where(self, NULL);
  if (!at) return NULL;
  PyObject *site = PyDict_GetItemWithError(r->sites, at), *made = NULL;
  Py_XINCREF(site);
  Py_DECREF(at);
  if (!site && PyErr_Occurred()) return NULL;
  PyObject *before = site ? PyObject_GetAttr(site, py.asked) : NULL;
  PyObject *asked = before ? PyTuple_Pack(4, shape, dtype, memory, py.empty) : NULL;
  int same = asked ? PyObject_RichCompareBool(before, asked, Py_EQ) : 0;
  PyObject *like = same > 0 ? PyObject_GetAttr(site, py.like) : NULL;
  if (like) made = py_tile(self, like);
  Py_XDECREF(like);
  Py_XDECREF(asked);
  Py_XDECREF(before);
  Py_XDECREF(site);
  if (made || PyErr_Occurred()) return made;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(again_doc, "again(shape, dtype, memory): a new tile for a call that has asked for the "
                        "same before, from its place; else None.");
static PyObject *again(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (n == 3) return py_again((py_recording *)self, args[0], args[1], args[2]);
  PyErr_SetString(PyExc_TypeError, "again() takes a shape, a type and a memory");
  return NULL;
}

PyDoc_STRVAR(lend_doc, "Takes the held back instructions from a tile, which is then never written. "
                       "False if the kernel reads it all the same, as an earlier build has "
                       "learned.");

/* ---- The class ------------------------------------------------------------------------------- */

static int set_kernel(PyObject *self, PyObject *value, void *unused) {
  (void)unused;
  void *k = value && value != Py_None ? PyLong_AsVoidPtr(value) : NULL;
  if (PyErr_Occurred()) return -1;
  ((py_recording *)self)->kernel = k;
  return 0;
}

static PyObject *get_kernel(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(((py_recording *)self)->kernel);
}

static PyGetSetDef fields[] = {
    {"kernel", get_kernel, set_kernel, "The builder's address, None when it has ended.", NULL},
    {0}};
static PyMemberDef members[] = {
    {"pending", T_OBJECT, offsetof(py_recording, pending), 0, "Instructions not yet emitted."},
    {"at", T_OBJECT, offsetof(py_recording, at), 0, "The place, if it is not the call's."},
    {"frame", T_OBJECT, offsetof(py_recording, frame), 0, "The user's frame of the call before."},
    {"loops", T_OBJECT, offsetof(py_recording, loops), 0, "The loops at run time that are open."},
    {"log", T_OBJECT, offsetof(py_recording, log), 0, "What they record."},
    {"early", T_OBJECT, offsetof(py_recording, early), 0, "Numbers of tiles that begin as zeros."},
    {"count", T_LONGLONG, offsetof(py_recording, count), 0, "Instructions emitted."},
    {"numbering", T_LONGLONG, offsetof(py_recording, numbering), 0, "Storages made."},
    {"hints", T_OBJECT, offsetof(py_recording, hints), 0, "What earlier builds have learned."},
    {"sites", T_OBJECT, offsetof(py_recording, sites), 0, "What tiles of one place share."},
    {"weights", T_OBJECT, offsetof(py_recording, weights), 0, "Words of what was loaded last."},
    {"weights_at", T_LONGLONG, offsetof(py_recording, weights_at), 0, "`count` after its matmul."},
    {"old_style", T_BOOL, offsetof(py_recording, old_style), 0, "Whether calls return tiles."},
    {"older", T_BOOL, offsetof(py_recording, older), 0, "The kernel is one of neuronxcc.nki."},
    {"ordered", T_INT, offsetof(py_recording, ordered), 0, "Depth of no_reorder."},
    {0},
};
static PyMethodDef methods[] = {
    {"emit", (PyCFunction)(void (*)(void))emit, METH_FASTCALL, emit_doc},
    {"where", where, METH_NOARGS, where_doc},
    {"tile", py_tile, METH_O, "tile(like): a new tile like that one, of the same site."},
    {"keep_site", (PyCFunction)(void (*)(void))py_keep_site, METH_FASTCALL,
     "keep_site(at, site, again): the site of a place; again: other calls there may use it."},
    {"flush", py_flush_call, METH_NOARGS, "Emits what is held back."},
    {"hold", py_hold_call, METH_O, "Holds back a call's instructions; returns its tile."},
    {"_lend", py_lend_call, METH_O, lend_doc},
    {"_into", (PyCFunction)(void (*)(void))py_into_call, METH_FASTCALL,
     "Emits what was held back into a tensor, at the place of its call."},
    {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL, again_doc},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, release},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_getset, fields},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {0},
};
static PyType_Spec spec = {"_soma.Recording", sizeof(py_recording), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

bool py_record_add_types(PyObject *module) {
  return py_add_type(module, &spec, &py.recording, NULL) && (py.recorders = PyList_New(0)) &&
         PyModule_AddObjectRef(module, "recorders", py.recorders) == 0;
}
