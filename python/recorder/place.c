/* Where the user's call is: file and line of the innermost frame that is the user's. A frame's line
 * takes a walk through a table of its code, so the lines that were found are kept. */
#include "recorder.h"

#include <string.h>

enum { MOST_LINES = 1 << 24 };

static size_t slot_of(const py_recording *r, const void *code) {
  uint64_t h = (uint64_t)(uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15);
  size_t i = (size_t)(h >> 32) & (r->capcodes - 1);
  while (r->codes[i].code && r->codes[i].code != code) i = (i + 1) & (r->capcodes - 1);
  return i;
}

static bool grow(py_recording *r) {
  py_recording old = *r;
  r->capcodes = old.capcodes ? 2 * old.capcodes : 64;
  r->codes = PyMem_Calloc(r->capcodes, sizeof *r->codes);
  if (!r->codes) {
    r->codes = old.codes;
    r->capcodes = old.capcodes;
    PyErr_NoMemory();
    return false;
  }
  for (size_t i = 0; i < old.capcodes; i++)
    if (old.codes[i].code) r->codes[slot_of(r, old.codes[i].code)] = old.codes[i];
  PyMem_Free(old.codes);
  return true;
}

/* What is known of a code. It is kept, so that no other gets its address. */
static py_code *of_code(py_recording *r, PyObject *code) {
  if (r->capcodes && r->codes[slot_of(r, code)].code) return &r->codes[slot_of(r, code)];
  int64_t file;
  PyObject *number = PyObject_CallMethodObjArgs((PyObject *)r, py._file_of, code, NULL);
  bool fine = number && py_number(number, &file);
  Py_XDECREF(number);
  if (!fine || (2 * r->ncodes >= r->capcodes && !grow(r))) return NULL;
  py_code *c = &r->codes[slot_of(r, code)];
  if (c->code) return c; /* the call above has found it */
  Py_INCREF(code);
  *c = (py_code){.code = code, .file = file};
  r->ncodes++;
  return c;
}

/* What an attribute of frames calls: looking for it by its name takes longer than the rest. */
static getter getter_of(PyObject *frame, const char *name) {
  const PyGetSetDef *of = PyType_GetSlot(Py_TYPE(frame), Py_tp_getset);
  while (of && of->name && strcmp(of->name, name) != 0) of++;
  return of && of->name ? of->get : NULL;
}

/* The number of the instruction that a frame is at. */
static PyObject *last_of(PyObject *frame) {
  static getter get; /* there is one class of frames */
  if (!get) get = getter_of(frame, "f_lasti");
  return get ? get(frame, NULL) : PyObject_GetAttr(frame, py.f_lasti);
}

static bool line_of(py_code *c, PyObject *frame, int64_t *line) {
  PyObject *last = last_of(frame);
  Py_ssize_t at = last ? PyLong_AsSsize_t(last) : -1;
  Py_XDECREF(last);
  if (at == -1 && PyErr_Occurred()) return false;
  size_t i = at < 0 ? 0 : (size_t)at / 2;
  if (i >= MOST_LINES) {
    *line = PyFrame_GetLineNumber((PyFrameObject *)frame);
    return true;
  }
  if (i >= c->nlines) {
    size_t n = i + 64 + i / 2;
    int32_t *more = PyMem_Realloc(c->line, n * sizeof *more);
    if (!more) {
      PyErr_NoMemory();
      return false;
    }
    memset(more + c->nlines, 0, (n - c->nlines) * sizeof *more);
    c->line = more;
    c->nlines = n;
  }
  if (!c->line[i]) c->line[i] = PyFrame_GetLineNumber((PyFrameObject *)frame);
  *line = c->line[i];
  return true;
}

static void keep_frame(py_recording *r, PyObject *frame) {
  if (r->frame == frame) {
    Py_DECREF(frame);
    return;
  }
  py_put(&r->frame, frame);
}

/* The frame that the user's may be, or one within it. */
static PyObject *innermost(const py_recording *r) {
  /* A function of nki has a frame of its own, which nobody needs as an object. */
  if (!r->direct) return PyObject_CallFunctionObjArgs(py.getframe, py.one, NULL);
  PyObject *frame = (PyObject *)PyEval_GetFrame();
  frame = frame ? frame : Py_None;
  Py_INCREF(frame);
  return frame;
}

bool py_place(py_recording *r, int64_t *file, int64_t *line) {
  PyObject *frame = innermost(r);
  if (!frame) { /* what calls is at the bottom of its thread */
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) return false;
    PyErr_Clear();
    *file = *line = 0;
    return true;
  }
  while (frame != Py_None) {
    PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
    py_code *c = of_code(r, (PyObject *)code);
    Py_DECREF((PyObject *)code);
    if (!c || (c->file >= 0 && !line_of(c, frame, line))) {
      Py_DECREF(frame);
      return false;
    }
    if (c->file >= 0) {
      *file = c->file;
      keep_frame(r, frame);
      return true;
    }
    PyObject *back = PyObject_GetAttr(frame, py.f_back);
    Py_DECREF(frame);
    if (!(frame = back)) return false;
    if (PyErr_Occurred()) { /* f_back is None when there is no memory */
      Py_DECREF(frame);
      return false;
    }
  }
  Py_DECREF(frame);
  *file = *line = 0;
  return true;
}
