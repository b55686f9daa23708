/* The last call that returned a tile is held back: `x[...] = op()` lets its instructions write x at
 * once. What is held is (emit, tile, operands, matmul, multi): emit(dst, *operands) emits the
 * instructions; if that is one record, emit is (opcode, engine, (parts after dst ...)); of a matmul
 * it is bytes (matmul.c). multi: dst is written before all operands are read. */
#include "recorder.h"

typedef struct held {
  PyObject *emit, *operands;
  py_view *tile;
  bool multi;
} held;

static PyObject *item(PyObject *list, Py_ssize_t i) {
  return PyTuple_Check(list) ? PyTuple_GetItem(list, i) : PyList_GetItem(list, i);
}

static bool is_list(PyObject *x) { return PyTuple_Check(x) || PyList_Check(x); }

/* Its parts, which p keeps. */
static bool held_of(PyObject *p, held *h) {
  /* Made by Python, so nothing of it is taken for granted. */
  PyObject *tile = PyTuple_Check(p) && PyTuple_Size(p) == 5 ? PyTuple_GetItem(p, 1) : NULL;
  if (!tile || !PY_IS_VIEW(tile) || !is_list(PyTuple_GetItem(p, 2))) {
    PyErr_SetString(PyExc_TypeError, "what is held back is (emit, tile, operands, matmul, multi)");
    return false;
  }
  int multi = PyObject_IsTrue(PyTuple_GetItem(p, 4));
  *h = (held){PyTuple_GetItem(p, 0), PyTuple_GetItem(p, 2), (py_view *)tile, multi > 0};
  return multi >= 0;
}

static bool is_none(const PyObject *x) { return !x || x == Py_None; }

/* ---- Emitting it ----------------------------------------------------------------------------- */

static bool emit_record(py_recording *r, const held *h, py_view *dst) {
  PyObject *emit = h->emit, *rest = PyTuple_Size(emit) == 3 ? PyTuple_GetItem(emit, 2) : NULL;
  int64_t op, engine;
  py_words w;
  if (!rest || !PyTuple_Check(rest)) {
    PyErr_SetString(PyExc_TypeError, "a record that is held back has three parts");
    return false;
  }
  if (!py_number(PyTuple_GetItem(emit, 0), &op) || !py_number(PyTuple_GetItem(emit, 1), &engine))
    return false;
  bool fine = py_record_begin(&w, op, engine, 0) && py_words_add_view(&w, dst, true);
  for (Py_ssize_t i = 0; fine && i < PyTuple_Size(rest); i++)
    fine = py_words_add_part(&w, PyTuple_GetItem(rest, i));
  fine = fine && py_record_put(r, &w);
  py_words_end(&w);
  return fine;
}

static bool emit_calls(const held *h, py_view *dst) {
  /* held_of has seen that it is a list. */
  Py_ssize_t n = PyObject_Size(h->operands);
  PyObject *args = PyTuple_New(n + 1);
  for (Py_ssize_t i = 0; args && i <= n; i++) {
    PyObject *x = i ? item(h->operands, i - 1) : (PyObject *)dst;
    Py_XINCREF(x);
    if (!x || PyTuple_SetItem(args, i, x) < 0) Py_CLEAR(args);
  }
  PyObject *done = args ? PyObject_CallObject(h->emit, args) : NULL;
  Py_XDECREF(args);
  Py_XDECREF(done);
  return done;
}

/* Gives the error that is raised the place of the recording, if it is one of a kernel's. */
static void place_error(py_recording *r) {
  PyObject *type, *value, *trace;
  /* Other errors are not about the kernel, and have no place in it. */
  if (!PyErr_ExceptionMatches(py.error)) return;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *placed = PyObject_CallMethodObjArgs((PyObject *)r, py._placed, value, NULL);
  if (!placed) PyErr_Clear();
  Py_XDECREF(placed);
  PyErr_Restore(type, value, trace);
}

/* Emits p into dst, at the place of its call. */
static bool into(py_recording *r, PyObject *p, py_view *dst) {
  held h;
  if (!held_of(p, &h)) return false;
  /* The site of the tile is where the call stands that made it. */
  PyObject *site = py_storage_of(h.tile)->site, *before = r->at;
  PyObject *at = PyObject_GetAttr(site ? site : Py_None, py.at);
  if (!at) return false;
  /* The call below may let go of p and of dst in the recording. */
  Py_INCREF(p);
  Py_INCREF((PyObject *)dst);
  r->at = at;
  bool fine = PyTuple_Check(h.emit)   ? emit_record(r, &h, dst)
              : PyBytes_Check(h.emit) ? py_matmul_into(r, h.emit, h.operands, dst)
                                      : emit_calls(&h, dst);
  if (!fine) place_error(r);
  py_put(&r->at, before);
  Py_DECREF((PyObject *)dst);
  Py_DECREF(p);
  return fine;
}

static void hold(PyObject **field, PyObject *p) {
  Py_XINCREF(p);
  py_put(field, p);
}

bool py_flush(py_recording *r) {
  held h;
  PyObject *p = r->pending;
  if (is_none(p)) return true;
  if (!held_of(p, &h)) return false;
  /* Nothing but p has the tile, or its storage, as views have: the kernel has dropped it. */
  bool dropped = Py_REFCNT((PyObject *)h.tile) == 1 && Py_REFCNT(h.tile->storage) == 1;
  Py_INCREF(p);
  PyObject *told =
      dropped ? PyObject_CallMethodObjArgs((PyObject *)r, py._dropped, h.tile->storage, NULL)
              : NULL;
  /* Before emission: what the instructions cause may ask again what is held. */
  hold(&r->pending, NULL);
  hold(&h.tile->pending, NULL);
  bool fine = (told || !dropped) && into(r, p, h.tile);
  Py_XDECREF(told);
  Py_DECREF(p);
  return fine;
}

/* ---- Letting it write elsewhere -------------------------------------------------------------- */

/* Asks Python a question about two objects. */
static int ask(PyObject *function, PyObject *a, PyObject *b) {
  PyObject *found = PyObject_CallFunctionObjArgs(function, a, b, NULL);
  int yes = found ? PyObject_IsTrue(found) : -1;
  Py_XDECREF(found);
  return yes;
}

/* Whether two views are the same elements in the same order; -1 with an error. */
static int same_view(py_view *a, py_view *b) {
  /* Type by identity: types are one object each. */
  if (a->storage != b->storage || a->part != b->part || a->off != b->off || a->dtype != b->dtype)
    return 0;
  /* Dynamic parts are compared in Python. */
  if (a->dyn || b->dyn) return ask(py.same_view, (PyObject *)a, (PyObject *)b);
  int i = 0, j = 0;
  for (;; i++, j++) {
    /* Dimensions of one element do not matter. */
    while (i < a->ndim && a->dim[i].num == 1) i++;
    while (j < b->ndim && b->dim[j].num == 1) j++;
    if (i == a->ndim || j == b->ndim) return i == a->ndim && j == b->ndim;
    if (a->dim[i].num != b->dim[j].num || a->dim[i].step != b->dim[j].step) return 0;
  }
}

/* Whether two storages are one memory, or lie at addresses that overlap. */
static int shares(py_view *a, py_view *b) {
  if (a->storage == b->storage) return 1;
  /* Only tiles whose place the kernel gives can overlap with others. */
  if (is_none(py_storage_of(a)->place) || is_none(py_storage_of(b)->place)) return 0;
  return ask(py.shares, a->storage, b->storage);
}

static int64_t free_size(const py_view *v) {
  int64_t n = 1;
  for (int d = 1; d < v->ndim; d++)
    if (__builtin_mul_overflow(n, v->dim[d].num, &n)) return -1;
  return n;
}

static bool same_shape(const py_view *a, const py_view *b) {
  bool same = a->ndim == b->ndim;
  for (int d = 0; d < a->ndim && same; d++) same = a->dim[d].num == b->dim[d].num;
  /* Else the same partitions, and as many elements in each, in whatever dimensions. */
  if (same || !a->ndim || !b->ndim) return same;
  return a->dim[0].num == b->dim[0].num && free_size(a) == free_size(b);
}

/* Whether an engine may write from its first partition on. */
static bool starts_well(const py_view *v) {
  int64_t n = v->ndim ? v->dim[0].num : 1;
  /* Up to 32 partitions begin at a multiple of 32, up to 64 at 0 or 64, more at 0. */
  return v->part % (n > 64 ? 128 : n > 32 ? 64 : 32) == 0;
}

enum { SBUF_SPACE = 1, PSUM_SPACE = 2 };

/* Whether what is held for value may write view instead, with the same bits; -1 with an error. */
static int may_write(const held *h, py_view *value, py_view *view) {
  int to = py_storage_of(view)->memory, from = py_storage_of(value)->memory;
  /* HBM is written by transfers alone; what fills PSUM may be a matmul, which writes nowhere else.
   */
  if (h->tile != value || !to || (from == PSUM_SPACE && to != PSUM_SPACE)) return 0;
  /* A result that is rounded twice has other bits, and float32 is what engines compute in. */
  if (value->dtype != view->dtype && value->code != SOMA_FLOAT32) return 0;
  if (!same_shape(value, view) || !starts_well(view)) return 0;
  for (Py_ssize_t i = 0; i < PyObject_Size(h->operands); i++) {
    PyObject *x = item(h->operands, i);
    if (!x || !PY_IS_VIEW(x)) continue;
    Py_INCREF(x);
    /* An operand that is written: only the very same elements, and only where each is read before
     * it is written. */
    int found = shares((py_view *)x, view);
    if (found > 0 && !h->multi) {
      int same = same_view((py_view *)x, view);
      found = same < 0 ? same : !same;
    }
    Py_DECREF(x);
    if (found) return found < 0 ? found : 0;
  }
  return 1;
}

/* Takes what is held from a tile, which is then never written. 0 if the kernel reads it all the
 * same, as an earlier build has learned. */
static int lend(py_recording *r, py_view *tile) {
  if (r->hints && PyDict_Check(r->hints) && PyDict_Size(r->hints) > 0) {
    PyObject *kept = PyObject_CallMethodObjArgs((PyObject *)r, py._is_kept, tile->storage, NULL);
    int yes = kept ? PyObject_IsTrue(kept) : -1;
    Py_XDECREF(kept);
    if (yes) return yes < 0 ? yes : 0;
  }
  py_storage_of(tile)->lent = 1;
  hold(&r->pending, NULL);
  hold(&tile->pending, NULL);
  return 1;
}

/* The error of writing view instead stays, unless nothing was emitted and it is of another memory,
 * which an engine may not reach. */
static bool only_memory(const py_recording *r, int64_t count, const py_view *value,
                        const py_view *view) {
  return PyErr_ExceptionMatches(py.error) && r->count == count &&
         py_storage_of(value)->memory != py_storage_of(view)->memory;
}

int py_retarget(py_recording *r, py_view *value, py_view *view) {
  held h;
  PyObject *p = value->pending;
  /* What is held now may be that of another call, made since. */
  if (is_none(p) || p != r->pending) return 0;
  if (!held_of(p, &h)) return -1;
  Py_INCREF(p);
  /* Whether anything has been emitted is told by the count. */
  int64_t count = r->count;
  int found = may_write(&h, value, view);
  if (found > 0) found = lend(r, value);
  if (found > 0 && !into(r, p, view)) {
    found = only_memory(r, count, value, view) ? 0 : -1;
    /* As if it had not been tried: the copy that the kernel asks for will do it. */
    if (!found) {
      PyErr_Clear();
      hold(&r->pending, p);
      hold(&value->pending, p);
      py_storage_of(value)->lent = 0;
    }
  }
  Py_DECREF(p);
  return found;
}

/* ---- x[key] = value -------------------------------------------------------------------------- */

/* What assigns only the part of a result that its mask leaves; NULL if there is no such thing. */
static int assign_left(py_view *view, py_view *value) {
  PyObject *left = py_storage_of(value)->left;
  if (is_none(left)) return 0;
  Py_INCREF(left);
  PyObject *done = PyObject_CallFunctionObjArgs(left, (PyObject *)view, (PyObject *)value, NULL);
  Py_DECREF(left);
  Py_XDECREF(done);
  return done ? 1 : -1;
}

static int assign(py_recording *r, py_view *view, PyObject *given) {
  if (PY_IS_VIEW(given)) {
    py_view *value = (py_view *)given;
    /* x[...] = x[...] does nothing, as for `x += y`, which Python ends with such an assignment. */
    int done = value->storage == view->storage ? same_view(value, view) : 0;
    if (!done && !is_none(value->pending)) {
      done = py_retarget(r, value, view);
      if (!done) done = assign_left(view, value);
    }
    if (done) return done < 0 ? -1 : 0;
  }
  PyObject *done =
      PyObject_CallMethodObjArgs((PyObject *)r, py.assign, (PyObject *)view, given, NULL);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

int py_assign_to(PyObject *view, PyObject *value) {
  PyObject *rec = PyList_GetItem(py.recorders, 0);
  int status = -1;
  if (rec && view && PY_IS_VIEW(view)) {
    Py_INCREF(rec);
    status = assign((py_recording *)rec, (py_view *)view, value);
    Py_DECREF(rec);
  }
  Py_XDECREF(view);
  return status;
}

int py_view_assign(PyObject *self, PyObject *key, PyObject *value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
    return -1;
  }
  PyObject *rec = PyList_GetItem(py.recorders, 0);
  if (!rec) return -1;
  /* Masks, and recorders that are not of this module, are Python's. */
  if (Py_TYPE(key) == py.mask || !py_is_recording(rec)) {
    PyObject *done = PyObject_CallMethodObjArgs(self, py._assign, key, value, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  return py_assign_to(py_view_subscript(self, key), value);
}

/* ---- Methods of the recording ---------------------------------------------------------------- */

PyObject *py_flush_call(PyObject *self, PyObject *none) {
  (void)none;
  if (!py_flush((py_recording *)self)) return NULL;
  Py_RETURN_NONE;
}

PyObject *py_into_call(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (n != 2 || !PY_IS_VIEW(args[1])) {
    PyErr_SetString(PyExc_TypeError, "_into(what is held, a tensor)");
    return NULL;
  }
  if (!into((py_recording *)self, args[0], (py_view *)args[1])) return NULL;
  Py_RETURN_NONE;
}

PyObject *py_hold_call(PyObject *self, PyObject *p) {
  py_recording *r = (py_recording *)self;
  held h;
  /* At most one is held: what was held before is emitted now. */
  if (!held_of(p, &h) || !py_flush(r)) return NULL;
  hold(&r->pending, p);
  hold(&h.tile->pending, p);
  r->old_style = 1;
  Py_INCREF((PyObject *)h.tile);
  return (PyObject *)h.tile;
}

PyObject *py_lend_call(PyObject *self, PyObject *tile) {
  if (!PY_IS_VIEW(tile)) {
    PyErr_SetString(PyExc_TypeError, "_lend() takes a tile");
    return NULL;
  }
  int lent = lend((py_recording *)self, (py_view *)tile);
  return lent < 0 ? NULL : PyBool_FromLong(lent);
}
