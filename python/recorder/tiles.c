/* New tiles. The calls of one place mostly ask for the same tile again, so that what it was made
 * like is kept by the place. */
#include "recorder.h"

static bool begins_with_zeros(PyObject *recording, PyObject *storage) {
  PyObject *done = PyObject_CallMethodObjArgs(recording, py.begin_with_zeros, storage, NULL);
  Py_XDECREF(done);
  return done;
}

/* A view of new storage that is like that of `like`, which is number `order`. */
static py_view *tile_like(const py_view *like, int64_t order) {
  const py_storage *old = py_storage_of(like);
  py_storage *s = (py_storage *)PyType_GenericAlloc(py.storage, 0);
  py_view *t = s ? py_view_like(like) : NULL;
  if (!t) {
    Py_XDECREF((PyObject *)s);
    return NULL;
  }
  s->memory = old->memory;
  s->order = order;
  Py_XINCREF(old->site);
  s->site = old->site;
  py_put(&t->storage, (PyObject *)s);
  t->ndim = like->ndim;
  for (int d = 0; d < like->ndim; d++) t->dim[d] = like->dim[d];
  return t;
}

PyObject *py_tile(PyObject *self, PyObject *like) {
  py_recording *r = (py_recording *)self;
  if (!PY_IS_VIEW(like)) {
    PyErr_SetString(PyExc_TypeError, "a tile is made like another one");
    return NULL;
  }
  py_view *t = tile_like((py_view *)like, ++r->numbering);
  if (!t || !r->early || !PyAnySet_Check(r->early) || PySet_Size(r->early) == 0)
    return (PyObject *)t;
  PyObject *order = PyLong_FromLongLong(r->numbering);
  int early = order ? PySequence_Contains(r->early, order) : -1;
  Py_XDECREF(order);
  if (early < 0 || (early && !begins_with_zeros(self, t->storage))) Py_CLEAR(t);
  return (PyObject *)t;
}

/* ---- By places ------------------------------------------------------------------------------- */

static py_made *slot_of(py_recording *r, int64_t line) { return &r->made[line & (PY_MADE - 1)]; }

static void forget(py_made *m) {
  Py_CLEAR(m->asked);
  Py_CLEAR(m->like);
}

int py_tiles_traverse(py_recording *r, visitproc visit, void *arg) {
  for (int i = 0; i < PY_MADE; i++) {
    Py_VISIT(r->made[i].asked);
    Py_VISIT((PyObject *)r->made[i].like);
  }
  return 0;
}

void py_tiles_clear(py_recording *r) {
  for (int i = 0; i < PY_MADE; i++) forget(&r->made[i]);
}

PyObject *py_keep_site(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  py_recording *r = (py_recording *)self;
  int64_t file, line;
  if (n != 3 || !PyTuple_Check(args[0]) || PyTuple_Size(args[0]) != 2 || !r->sites ||
      !PyDict_Check(r->sites)) {
    PyErr_SetString(PyExc_TypeError, "keep_site() takes a place, a site, and True or False");
    return NULL;
  }
  if (!py_number(PyTuple_GetItem(args[0], 0), &file) ||
      !py_number(PyTuple_GetItem(args[0], 1), &line) ||
      PyDict_SetItem(r->sites, args[0], args[1]) < 0)
    return NULL;
  py_made *m = slot_of(r, line);
  forget(m);
  PyObject *asked = PyObject_GetAttr(args[1], py.asked);
  PyObject *like = asked ? PyObject_GetAttr(args[1], py.like) : NULL;
  bool keep = like && args[2] == Py_True && PY_IS_VIEW(like) && PyTuple_Check(asked) &&
              PyTuple_Size(asked) == 4 && PyTuple_Check(PyTuple_GetItem(asked, 0));
  if (keep) *m = (py_made){file, line, Py_NewRef(asked), (py_view *)Py_NewRef(like)};
  Py_XDECREF(asked);
  Py_XDECREF(like);
  if (!like) return NULL;
  Py_RETURN_NONE;
}

/* Whether it is what was asked for: the same objects, and a shape of the same sizes. */
static bool is_like(const py_made *m, const int64_t *sizes, int ndim, PyObject *dtype,
                    PyObject *memory, PyObject *name) {
  bool same = m->like->ndim == ndim && PyTuple_Size(PyTuple_GetItem(m->asked, 0)) == ndim &&
              PyTuple_GetItem(m->asked, 1) == dtype && PyTuple_GetItem(m->asked, 2) == memory &&
              PyTuple_GetItem(m->asked, 3) == name;
  for (int d = 0; d < ndim && same; d++) same = m->like->dim[d].num == sizes[d];
  return same;
}

PyObject *py_tile_again(py_recording *r, const int64_t *sizes, int ndim, PyObject *dtype,
                        PyObject *memory, PyObject *name) {
  int64_t file, line;
  if (r->at && r->at != Py_None) return NULL; /* the place is not that of the call */
  if (!py_place(r, &file, &line)) return NULL;
  const py_made *m = slot_of(r, line);
  if (!m->like || m->line != line || m->file != file) return NULL;
  if (!is_like(m, sizes, ndim, dtype, memory, name)) return NULL;
  PyObject *like = Py_NewRef((PyObject *)m->like), *made = py_tile((PyObject *)r, like);
  Py_DECREF(like);
  return made;
}
