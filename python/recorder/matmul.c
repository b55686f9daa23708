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

/* Whether Python's function would do just this: no error, no zeros in dst that may be needed. */
static bool suits(const py_recording *r, const py_given *g) {
  const py_view *dst = g->view[DST], *s = g->view[STATIONARY], *m = g->view[MOVING];
  const PyObject *zero = py_storage_of(dst)->zero;
  if (zero && zero != Py_None) return false;
  if (g->word[ACCUMULATE][0] < 0 && r->loops && PyObject_Size(r->loops)) return false;
  return s->ndim && m->ndim && dst->ndim && s->dim[0].num == m->dim[0].num &&
         dst->dim[0].num == free_size(s);
}

/* Loads what is stationary, unless that is what was loaded last; `key` is what is loaded. */
static bool load(py_recording *r, const py_call *c, const py_given *g, PyObject **key) {
  py_words w;
  const int64_t how[] = {g->word[TRANSPOSE][0], g->word[ONEZERO][0], 0};
  bool fine = py_record_begin(&w, c->then.opcode, 0, 0);
  size_t head = w.n;
  fine = fine && py_words_add_view(&w, g->view[STATIONARY], true) && py_words_add(&w, how, 3) &&
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

static bool move(py_recording *r, const py_call *c, const py_given *g) {
  py_words w;
  int64_t acc = g->word[ACCUMULATE][0];
  const int64_t how[] = {acc < 0 ? 0 : acc, 0, g->word[TRANSPOSE][0], g->word[MOVED_ONEZERO][0], 0};
  bool fine = py_record_begin(&w, c->opcode, 0, acc < 0 ? SOMA_RECORD_ACCUMULATE : 0) &&
              py_words_add_view(&w, g->view[DST], true) &&
              py_words_add_view(&w, g->view[MOVING], true) && py_words_add(&w, how, 5) &&
              py_words_add(&w, tiling, 4) && py_record_put(r, &w);
  py_words_end(&w);
  return fine;
}

int py_matmul(py_recording *r, const py_call *c, const py_given *g) {
  PyObject *key;
  if (!suits(r, g)) return OTHER;
  if (!py_flush(r) || !load(r, c, g, &key)) return FAILED;
  if (!move(r, c, g)) {
    Py_DECREF(key);
    return FAILED;
  }
  py_put(&r->weights, key);
  r->weights_at = r->count;
  return TAKEN;
}
