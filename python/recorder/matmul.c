/* A matmul is two records: what is loaded, unless it has just been, and what moves past it. */
#include "call.h"

#include <string.h>

/* Fields of the call: dst, stationary, moving, transpose, the two of onezero, accumulate. */
enum { DST, STATIONARY, MOVING, TRANSPOSE, ONEZERO, MOVED_ONEZERO, ACCUMULATE };
static const int64_t tiling[4];

static int64_t free_size(const py_view *v) {
  int64_t n = 1;
  for (int d = 1; d < v->ndim; d++)
    if (__builtin_mul_overflow(n, v->dim[d].num, &n)) return -1;
  return n;
}

/* The code that `accumulate` has for a value. */
static int64_t code_of(const py_call *c, PyObject *accumulate) {
  PyObject *code = PyDict_GetItemWithError(c->field[ACCUMULATE].codes.dict, accumulate);
  int64_t word = code ? PyLong_AsLongLong(code) : -1;
  PyErr_Clear(); /* the dict is that of nki.isa */
  return word;
}

static py_product product_of(const py_call *c, const py_given *g) {
  return (py_product){.load = c->then.opcode,
                      .op = c->opcode,
                      .acc = g->word[ACCUMULATE][0],
                      .write = code_of(c, Py_False),
                      .add = code_of(c, Py_True),
                      .transpose = g->word[TRANSPOSE][0],
                      .onezero = g->word[ONEZERO][0],
                      .moved = g->word[MOVED_ONEZERO][0]};
}

/* ---- The sum in dst -------------------------------------------------------------------------- */

/* Zeros that dst may need before it is added to; NULL: none. */
static PyObject *zeros_of(const py_view *dst) {
  PyObject *zero = py_storage_of(dst)->zero;
  return zero == Py_None ? NULL : zero;
}

/* Whether it is true, which is taken over. */
static int truth(PyObject *x) {
  int yes = x ? PyObject_IsTrue(x) : FAILED;
  Py_XDECREF(x);
  return yes;
}

static PyObject *accumulate_of(const py_product *p) {
  return p->acc < 0 ? Py_None : p->acc == p->add ? Py_True : Py_False;
}

/* Whether these zeros are needed now. */
static int needs_zeros(PyObject *zero, const py_product *p, py_view *dst) {
  Py_INCREF(zero); /* what is called may take it from the storage */
  int yes = truth(PyObject_CallMethodObjArgs(zero, py.needed, (PyObject *)dst, accumulate_of(p),
                                             NULL));
  Py_DECREF(zero);
  return yes;
}

/* Puts dst, whose zeros stay where they are, and finds what the first matmul in them does. */
static bool put_sum(py_words *w, const py_product *p, py_view *dst, int64_t *acc) {
  PyObject *zero = zeros_of(dst);
  *acc = p->acc;
  if (!zero) return py_words_add_view(w, dst, true);
  Py_INCREF(zero);
  py_put(&py_storage_of(dst)->zero, NULL); /* else the words would write them */
  bool fine = py_words_add_view(w, dst, true);
  PyObject *started =
      fine ? PyObject_CallMethodObjArgs(zero, py.start, (PyObject *)dst, NULL) : NULL;
  py_put(&py_storage_of(dst)->zero, Py_NewRef(zero));
  int first = truth(started), adds = first > 0 ? truth(PyObject_GetAttr(zero, py.adds)) : 0;
  Py_DECREF(zero);
  if (first < 0 || adds < 0) return false;
  if (first && p->acc < 0) *acc = p->write;
  if (first && p->acc == p->add && !adds) *acc = p->write;
  return true;
}

/* ---- The records ----------------------------------------------------------------------------- */

/* Whether Python's function would do just this: no error, no zeros that dst needs first. */
static int suits(const py_recording *r, const py_product *p, py_view *dst, const py_view *s,
                 const py_view *m) {
  PyObject *zero = zeros_of(dst);
  bool fits = s->ndim && m->ndim && dst->ndim && s->dim[0].num == m->dim[0].num &&
              dst->dim[0].num == free_size(s);
  /* In a loop at run time the builder has to find zeros first. */
  if (!fits || (p->acc < 0 && !zero && r->loops && PyObject_Size(r->loops)))
    return PyErr_Occurred() ? FAILED : OTHER;
  if (!zero) return TAKEN;
  int needed = needs_zeros(zero, p, dst);
  return needed < 0 ? FAILED : needed ? OTHER : TAKEN;
}

/* Loads what is stationary, unless that is what was loaded last; `key` is what is loaded. */
static bool load(py_recording *r, const py_product *p, py_view *stationary, PyObject **key) {
  py_words w;
  const int64_t how[] = {p->transpose, p->onezero, 0};
  bool fine = py_record_begin(&w, p->load, 0, 0);
  size_t head = w.n;
  fine = fine && py_words_add_view(&w, stationary, true) && py_words_add(&w, how, 3) &&
         py_words_add(&w, tiling, 4);
  const char *bytes = fine ? (const char *)(w.w + head) : NULL;
  size_t n = (w.n - head) * sizeof *w.w;
  bool same = fine && r->weights && PyBytes_Check(r->weights) && r->weights_at == r->count &&
              PyBytes_Size(r->weights) == (Py_ssize_t)n &&
              memcmp(PyBytes_AsString(r->weights), bytes, n) == 0;
  *key = !fine  ? NULL
         : same ? Py_NewRef(r->weights)
                : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
  fine = *key && (same || py_record_put(r, &w));
  py_words_end(&w);
  if (!fine) Py_CLEAR(*key);
  return fine;
}

static bool move(py_recording *r, const py_product *p, py_view *dst, py_view *moving) {
  py_words w;
  int64_t acc;
  bool fine = py_record_begin(&w, p->op, 0, 0) && put_sum(&w, p, dst, &acc);
  if (fine && acc < 0) w.w[AT_FLAGS] = SOMA_RECORD_ACCUMULATE;
  const int64_t how[] = {fine && acc > 0 ? acc : 0, 0, p->transpose, p->moved, 0};
  fine = fine && py_words_add_view(&w, moving, true) && py_words_add(&w, how, 5) &&
         py_words_add(&w, tiling, 4) && py_record_put(r, &w);
  py_words_end(&w);
  return fine;
}

static int emit(py_recording *r, const py_product *p, py_view *dst, py_view *s, py_view *m) {
  PyObject *key;
  if (!py_flush(r)) return FAILED;
  int fits = suits(r, p, dst, s, m);
  if (fits != TAKEN) return fits;
  if (!load(r, p, s, &key)) return FAILED;
  if (!move(r, p, dst, m)) {
    Py_DECREF(key);
    return FAILED;
  }
  py_put(&r->weights, key);
  r->weights_at = r->count;
  return TAKEN;
}

int py_matmul(py_recording *r, const py_call *c, const py_given *g) {
  py_product p = product_of(c, g);
  return emit(r, &p, g->view[DST], g->view[STATIONARY], g->view[MOVING]);
}

/* ---- Without dst ----------------------------------------------------------------------------- */

void py_matmul_shift(const py_call *c, py_given *g) {
  PyObject **dst = &g->of[c->field[DST].argument];
  PyObject **stationary = &g->of[c->field[STATIONARY].argument];
  if (!py_call_left_out(c, g, c->field[MOVING].argument) || !*dst || *dst == Py_None) return;
  g->of[c->field[MOVING].argument] = *stationary;
  *stationary = *dst;
  *dst = Py_None;
}

int py_matmul_sizes(const py_given *g, int64_t *sizes) {
  const py_view *s = g->view[STATIONARY], *m = g->view[MOVING];
  /* What the engine does not read there, and what bounds say, is Python's. */
  if (!s || !m || py_storage_of(s)->memory != 1 || py_storage_of(m)->memory != 1 || s->bound ||
      m->bound || m->ndim < 2 || g->word[TRANSPOSE][0])
    return 0;
  for (int d = 1; d < m->ndim; d++) sizes[d] = m->dim[d].num;
  sizes[0] = free_size(s);
  return m->ndim;
}

PyObject *py_matmul_held(const py_call *c, const py_given *g, PyObject *tile) {
  py_product p = product_of(c, g);
  if (p.acc < 0) p.acc = p.write; /* a new tile, unless a sum takes it */
  PyObject *emit = PyBytes_FromStringAndSize((const char *)&p, sizeof p);
  PyObject *of = emit ? PyTuple_Pack(2, g->view[STATIONARY], g->view[MOVING]) : NULL;
  PyObject *held = of ? PyTuple_Pack(5, emit, tile, of, Py_True, Py_False) : NULL;
  Py_XDECREF(emit);
  Py_XDECREF(of);
  return held;
}

static bool read_product(PyObject *bytes, py_product *p) {
  if (PyBytes_Check(bytes) && PyBytes_Size(bytes) == sizeof *p) {
    memcpy(p, PyBytes_AsString(bytes), sizeof *p);
    return true;
  }
  PyErr_SetString(PyExc_TypeError, "a matmul that is held back is bytes of its own");
  return false;
}

bool py_matmul_into(py_recording *r, PyObject *bytes, PyObject *operands, py_view *dst) {
  py_product p;
  PyObject *s = PyTuple_Check(operands) ? PyTuple_GetItem(operands, 0) : NULL;
  PyObject *m = s ? PyTuple_GetItem(operands, 1) : NULL;
  if (!read_product(bytes, &p)) return false;
  if (!m || !PY_IS_VIEW(s) || !PY_IS_VIEW(m)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a matmul has two operands");
    return false;
  }
  int done = emit(r, &p, dst, (py_view *)s, (py_view *)m);
  if (done != OTHER) return done == TAKEN;
  PyObject *made = PyObject_CallFunction(py.matmul, "OOOOL(LL)", (PyObject *)dst, s, m,
                                         accumulate_of(&p),
                                         (long long)p.transpose, (long long)p.onezero,
                                         (long long)p.moved);
  Py_XDECREF(made);
  return made;
}

PyObject *py_matmul_adds(PyObject *module, PyObject *bytes) {
  py_product p;
  (void)module;
  if (!read_product(bytes, &p)) return NULL;
  p.acc = -1;
  return PyBytes_FromStringAndSize((const char *)&p, sizeof p);
}
