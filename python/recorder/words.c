/* Words of records (soma_kernel.h). */
#include "recorder.h"

#include <string.h>

void py_words_begin(py_words *w) {
  w->w = w->own;
  w->n = 0;
  w->cap = sizeof w->own / sizeof *w->own;
}

void py_words_end(py_words *w) {
  /* Words that did not fit in the structure were allocated. */
  if (w->w != w->own) PyMem_Free(w->w);
}

/* Makes room for n more. */
bool py_words_room(py_words *w, size_t n) {
  size_t cap = w->cap;
  /* Doubled until they fit. */
  while (cap - w->n < n) cap *= 2;
  int64_t *more = PyMem_Malloc(cap * sizeof *more);
  if (!more) {
    PyErr_NoMemory();
    return false;
  }
  memcpy(more, w->w, w->n * sizeof *more);
  py_words_end(w);
  w->w = more;
  w->cap = cap;
  return true;
}

static inline bool room(py_words *w, size_t n) { return w->cap - w->n >= n || py_words_room(w, n); }

bool py_words_add_number(py_words *w, PyObject *x) {
  int64_t k;
  /* NumPy's numbers and the like come by way of __index__. */
  if (!PyLong_Check(x)) {
    if (!PyIndex_Check(x)) {
      py_error("%R is not a whole number", x);
      return false;
    }
    PyObject *number = PyNumber_Index(x);
    bool fine = number && py_words_add_number(w, number);
    Py_XDECREF(number);
    return fine;
  }
  return py_number(x, &k) && py_words_add(w, &k, 1);
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* Gives a tile its number, if that is all that Recorder.declare() would do: earlier tiles of its
 * place have been declared, and nothing is known of it that changes how. */
static int declare_tile(py_recording *r, py_storage *s) {
  Py_buffer info = {0};
  uint32_t handle = 0;
  /* In a loop at run time, or with hints of an earlier build, declare() has more to do. */
  if (!s->memory || s->lent || !s->site || !r->kernel || (r->loops && PyObject_Size(r->loops)) ||
      (r->hints && PyObject_Size(r->hints)))
    return PyErr_Occurred() ? -1 : 0;
  PyObject *of_site = PyObject_GetAttr(s->site, py.info);
  PyObject *tiles =
      of_site && of_site != Py_None ? PyObject_GetAttr((PyObject *)r, py.tiles) : NULL;
  /* 1 where it is not known, so that nothing below is done. */
  int done = tiles && PyList_Check(tiles) ? PyObject_GetBuffer(of_site, &info, PyBUF_SIMPLE) : 1;
  if (!done && info.len == sizeof(soma_kernel_tile_info) &&
      soma_kernel_tile(r->kernel, info.buf, &handle) == SOMA_OK)
    s->handle = handle;
  if (!done) PyBuffer_Release(&info);
  /* declare() keeps the same list. */
  done = s->handle ? (PyList_Append(tiles, (PyObject *)s) < 0 ? -1 : 1) : PyErr_Occurred() ? -1 : 0;
  Py_XDECREF(tiles);
  Py_XDECREF(of_site);
  return done;
}

bool py_settle_now(py_view *v) {
  py_storage *s = py_storage_of(v);
  PyObject *done = NULL;
  if (v->bound) {
    done = PyObject_CallMethodObjArgs((PyObject *)v, py.check_bounds, NULL);
    if (!done) return false;
    Py_DECREF(done);
  }
  if (!s->handle) {
    /* That of the kernel which is being built. */
    PyObject *rec = PyList_GetItem(py.recorders, 0);
    if (!rec) return false;
    Py_INCREF(rec);
    int declared = py_is_recording(rec) ? declare_tile((py_recording *)rec, s) : 0;
    if (!declared) done = PyObject_CallMethodObjArgs(rec, py.declare, (PyObject *)s, NULL);
    Py_DECREF(rec);
    if (declared < 0 || (!declared && !done)) return false;
    Py_XDECREF(done);
  }
  if (s->zero && s->zero != Py_None) {
    PyObject *zero = s->zero;
    Py_INCREF(zero);
    done = PyObject_CallMethodObjArgs(zero, py.settle, NULL);
    Py_DECREF(zero);
    if (!done) return false;
    Py_DECREF(done);
  }
  return true;
}

/* Which of the tensor's dimensions an index vector chooses rows of: 0 or 1; -1 for none. */
static bool gathered(py_view *v, int64_t *dim) {
  PyObject *found = PyObject_CallMethodObjArgs((PyObject *)v, py._gathered_first, NULL);
  bool fine = found && py_number(found, dim);
  Py_XDECREF(found);
  return fine;
}

static bool add_dynamic(py_words *w, py_view *v) {
  PyObject *more = PyObject_CallMethodObjArgs((PyObject *)v, py._dyn_words, NULL);
  bool fine = more && py_words_add_part(w, more);
  Py_XDECREF(more);
  return fine;
}

bool py_words_add_view(py_words *w, py_view *v, bool merge) {
  const py_storage *s = py_storage_of(v);
  enum { HEAD = 7 };
  int64_t dim = -1, at;
  int n = 0, first = s->memory && v->ndim ? 1 : 0;
  /* Room for the most dimensions, so that the rest writes without asking. */
  if (!py_settle(v) || !py_times(v->off, v->size, &at) || !room(w, HEAD + 2 * (PY_MAX_DIMS + 2)))
    return false;
  int64_t *words = w->w + w->n, *pairs = words + HEAD;
  /* What an engine takes is partitions side by side; one partition has no step. */
  if (s->memory && v->ndim && v->dim[0].step != 1 && v->dim[0].num != 1) {
    py_error("the partitions of an operand follow one another: their step must be 1, not %lld",
             (long long)v->dim[0].step);
    return false;
  }
  if (!s->memory && v->dyn) {
    if (!gathered(v, &dim)) return false;
    /* The rows of dimension 1 are chosen: one more dimension of one element comes first. */
    if (dim > 0) pairs[0] = pairs[1] = n = 1;
    if (dim >= 0) { /* its dimension is the first, as it is */
      pairs[2 * n] = v->dim[0].step;
      pairs[2 * n++ + 1] = v->dim[0].num;
      first = 1;
    }
  }
  n += (int)soma_view_pairs(v->dim + first, (unsigned)(v->ndim - first), merge, pairs + 2 * n);
  /* An operand without dimensions is one element. */
  if (!n) {
    pairs[0] = pairs[1] = 1;
    n = 1;
  }
  /* The length is known at the end. */
  size_t start = w->n;
  /* As soma_kernel.h has an operand: buffer, type, first partition, partitions, byte offset,
   * dimensions, and pairs of steps and sizes. */
  words[1] = s->handle;
  words[2] = v->code;
  words[3] = s->memory ? v->part : 0;
  words[4] = s->memory && v->ndim ? v->dim[0].num : 0;
  words[5] = at;
  words[6] = n;
  w->n += HEAD + 2 * (size_t)n;
  /* This may allocate: `words` is no longer valid after it. */
  if (v->dyn && !add_dynamic(w, v)) return false;
  w->w[start] = (int64_t)(w->n - start) - 1;
  return true;
}

bool py_words_add_part(py_words *w, PyObject *part) {
  if (PY_IS_VIEW(part)) {
    Py_INCREF(part); /* a list may be all that has it */
    bool fine = py_words_add_view(w, (py_view *)part, true);
    Py_DECREF(part);
    return fine;
  }
  if (PyBytes_Check(part)) {
    char *bytes;
    Py_ssize_t n;
    /* Packed by words(): they are whole words. */
    if (PyBytes_AsStringAndSize(part, &bytes, &n) < 0) return false;
    if (n % (Py_ssize_t)sizeof *w->w) {
      PyErr_SetString(PyExc_ValueError, "words have eight bytes each");
      return false;
    }
    size_t words = (size_t)n / sizeof *w->w;
    if (!room(w, words)) return false;
    memcpy(w->w + w->n, bytes, (size_t)n);
    w->n += words;
    return true;
  }
  if (!PyTuple_Check(part)) return py_words_add_number(w, part);
  for (Py_ssize_t i = 0; i < PyTuple_Size(part); i++)
    if (!py_words_add_number(w, PyTuple_GetItem(part, i))) return false;
  return true;
}
