/* t[key]: whole numbers, slices, ds(), index expressions. What else a key may have, and each error,
 * is Python's: View._index. */
#include "recorder.h"

/* What an entry of a key leaves of a dimension. */
typedef struct part {
  int64_t start, num, by;
  bool drop;
} part;

enum { FAILED = -1, OTHER = 0, TAKEN = 1 };

/* Whether an index vector chooses its rows, which then stay a dimension. */
static bool is_gathered(const py_view *v) {
  bool found = false;
  for (Py_ssize_t i = 0; v->dyn && i < PyTuple_Size(v->dyn); i++) {
    PyObject *d = PyTuple_GetItem(v->dyn, i);
    PyObject *kind = PyTuple_Check(d) && PyTuple_Size(d) ? PyTuple_GetItem(d, 0) : NULL;
    found = found ||
            (kind && PyUnicode_Check(kind) && !PyUnicode_CompareWithASCIIString(kind, "gather"));
  }
  return found;
}

void py_view_get(const py_view *v, soma_view *out) {
  out->buffer = 0;
  out->tile = py_storage_of(v)->memory != 0;
  out->dtype = (uint8_t)v->code;
  out->ndim = (uint8_t)v->ndim;
  out->ndyn = 0;
  out->part = v->part;
  out->offset = v->off;
  out->bytes = out->parts = 0; /* of ap, which is Python's */
  for (int d = 0; d < v->ndim; d++) out->dim[d] = v->dim[d]; /* few */
  if (v->dyn && is_gathered(v)) out->dyn[out->ndyn++] = (soma_view_dyn){.kind = SOMA_DYN_GATHER};
}

void py_view_put(py_view *t, const soma_view *s) {
  t->part = s->part;
  t->off = s->offset;
  t->ndim = s->ndim;
  for (int d = 0; d < s->ndim; d++) t->dim[d] = s->dim[d];
}

/* A tile has two dimensions or more, a tensor one. */
static void fill(soma_view *s, unsigned least) {
  if (s->ndim < least) s->dim[s->ndim++] = (soma_view_dim){1, 1};
}

static int number(PyObject *k, int64_t n, int d, part *p) {
  int64_t at;
  if (!py_number(k, &at)) return FAILED;
  /* As lists count: from the end where it is negative. */
  p->start = at < 0 ? at + n : at;
  p->num = 1;
  p->drop = true;
  if (p->start >= 0 && p->start < n) return TAKEN;
  py_error("index %lld of dimension %d, which has %lld elements", (long long)p->start, d,
           (long long)n);
  return FAILED;
}

/* An error of a number in a key, which Python then says better. */
static int unless_stopped(void) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
  PyErr_Clear();
  return OTHER;
}

/* A member of a slice; `open` where it is None. False: it is no number of Python's. */
static bool member(PyObject *k, int i, int64_t open, int64_t *out) {
  /* Looking for it by its name, or PySlice_Unpack(), takes longer than the rest. */
  PyObject *x = *(PyObject **)((char *)k + py.slice_at[i]);
  int over = 0;
  *out = open;
  if (x == Py_None) return true;
  if (!PyLong_CheckExact(x)) return false;
  *out = PyLong_AsLongLongAndOverflow(x, &over);
  /* As PySlice_Unpack() has it: what is too large is as large as can be. */
  if (over) *out = over < 0 ? INT64_MIN : INT64_MAX;
  return true;
}

static int slice(PyObject *k, int64_t n, part *p) {
  int64_t stop;
  if (!py.slice_at[0]) return OTHER; /* this Python does not tell where its members are */
  if (!member(k, 0, 0, &p->start) || !member(k, 1, n, &stop) || !member(k, 2, 1, &p->by))
    return OTHER;
  /* Negative starts, steps and ends beyond the dimension are Python's, with its messages. */
  if (p->start < 0 || p->start >= stop || stop > n || p->by < 1) return OTHER;
  p->num = p->by == 1 ? stop - p->start : (stop - p->start - 1) / p->by + 1;
  return TAKEN;
}

static int of_ds(const py_slice *k, int64_t n, part *p) {
  /* A register is no plain integer, so here all is known. */
  if (!PyLong_CheckExact(k->start) || !PyLong_CheckExact(k->size)) return OTHER;
  if (!py_number(k->start, &p->start) || !py_number(k->size, &p->num)) return unless_stopped();
  /* n - num cannot overflow, as start + num could. */
  return p->start >= 0 && p->num >= 1 && p->start <= n - p->num ? TAKEN : OTHER;
}

static int part_of(PyObject *k, int64_t n, int d, part *p) {
  *p = (part){.by = 1};
  if (PySlice_Check(k)) return slice(k, n, p);
  if (PyLong_Check(k)) return number(k, n, d, p);
  return Py_TYPE(k) == py.slice ? of_ds((py_slice *)k, n, p) : OTHER;
}

const char *py_view_name(const py_view *v, PyObject **keep) {
  Py_ssize_t size;
  *keep = PyObject_GetAttr(v->storage, py.name);
  bool named = *keep && PyUnicode_Check(*keep) && PyUnicode_GetLength(*keep);
  const char *name = named ? PyUnicode_AsUTF8AndSize(*keep, &size) : NULL;
  PyErr_Clear(); /* it goes without */
  return name;
}

/* A number drops its dimension, but a tile keeps its partitions. */
static int cut(soma_view *s, unsigned d, const part *p, soma_view_error *e) {
  if (p->drop) return soma_view_index(s, d, p->start, e);
  if (p->num == s->dim[d].num && p->by == 1) return 1; /* as `:` is: it stays */
  return soma_view_slice(s, d, p->start, p->num, p->by, e);
}

/* A key of numbers, slices and ds(). The rest of the dimensions stays as it is. */
static int basic(const py_view *v, PyObject *const *keys, int n, soma_view *s) {
  bool tile = py_storage_of(v)->memory;
  unsigned to = 0;
  soma_view_error e;
  e.name = NULL;
  e.from = 0;
  for (int d = 0; d < n; d++) {
    part p;
    int found = part_of(keys[d], v->dim[d].num, d, &p);
    if (found != TAKEN) return found;
    if (!cut(s, to, &p, &e)) {
      PyObject *keep;
      e.name = py_view_name(v, &keep);
      cut(s, to, &p, &e); /* the message once more, with the name */
      py_error("%s", e.text);
      Py_XDECREF(keep);
      return FAILED;
    }
    if (!p.drop || (tile && d == 0)) to++;
  }
  /* A tensor keeps one dimension at least. */
  fill(s, tile ? 2 : s->ndim == 0);
  return TAKEN;
}

/* The error of a key that is refused, in the words of its expressions. */
static void refuse_keys(const py_view *v, PyObject *const *keys, soma_view_expr *x, soma_view *s) {
  PyObject *texts[PY_MAX_DIMS] = {NULL}, *keep;
  soma_view_error e = {.name = py_view_name(v, &keep)};
  uint32_t past;
  Py_ssize_t size;
  for (int d = 0; d < v->ndim && !PyErr_Occurred(); d++) {
    PyObject *text = PY_IS_INDEX(keys[d]) ? py_index_text((py_index *)keys[d]) : NULL;
    texts[d] = text ? PyUnicode_FromFormat("index %U", text) : NULL;
    x[d].name = texts[d] ? PyUnicode_AsUTF8AndSize(texts[d], &size) : NULL;
    Py_XDECREF(text);
  }
  if (!PyErr_Occurred() && !soma_view_take(s, (unsigned)v->ndim, x, &past, &e))
    py_error("%s", e.text);
  for (int d = 0; d < v->ndim; d++) Py_XDECREF(texts[d]);
  Py_XDECREF(keep);
}

/* [(size of a dimension, the index that leaves it)], over the axes of the view. */
static PyObject *bound_of(const py_view *v, PyObject *const *keys, uint32_t past, int axes) {
  PyObject *bound = PyList_New(0);
  for (int d = 0; d < v->ndim && bound; d++) {
    if (!(past >> d & 1)) continue;
    PyObject *index = py_index_over((py_index *)keys[d], axes);
    PyObject *one = index ? Py_BuildValue("(LO)", (long long)v->dim[d].num, index) : NULL;
    if (!one || PyList_Append(bound, one) < 0) Py_CLEAR(bound);
    Py_XDECREF(one);
    Py_XDECREF(index);
  }
  return bound;
}

/* A key of index expressions and numbers, for all dimensions. *bound: NULL, or what a mask has to
 * limit. */
static int affine(const py_view *v, PyObject *const *keys, soma_view *s, PyObject **bound) {
  /* An expression for each dimension; a number is one without axes. */
  soma_view_expr x[PY_MAX_DIMS];
  soma_view_error e;
  uint32_t past;
  e.name = NULL;
  e.from = 0;
  for (int d = 0; d < v->ndim; d++) {
    part p = {.by = 1};
    int found = PY_IS_INDEX(keys[d])    ? TAKEN
                : PyLong_Check(keys[d]) ? number(keys[d], v->dim[d].num, d, &p)
                                        : OTHER;
    if (found != TAKEN) return found;
    x[d] = PY_IS_INDEX(keys[d]) ? py_expr((py_index *)keys[d]) : (soma_view_expr){.at = p.start};
  }
  if (!soma_view_take(s, (unsigned)v->ndim, x, &past, &e)) {
    refuse_keys(v, keys, x, s);
    return FAILED;
  }
  if (past && !(*bound = bound_of(v, keys, past, s->ndim))) return FAILED;
  if (py_storage_of(v)->memory) fill(s, 2);
  return TAKEN;
}

static bool same(const soma_view *a, const py_view *b) {
  bool alike = a->ndim == b->ndim && a->part == b->part && a->offset == b->off;
  for (int d = 0; d < b->ndim && alike; d++)
    alike = a->dim[d].num == b->dim[d].num && a->dim[d].step == b->dim[d].step;
  return alike;
}

/* ---- t[key] ---------------------------------------------------------------------------------- */

/* key: NULL if it is the tuple of these keys. */
static PyObject *ask(PyObject *self, PyObject *const *keys, Py_ssize_t n, PyObject *key) {
  PyObject *made = key ? Py_NewRef(key) : PyTuple_New(n);
  for (Py_ssize_t i = 0; !key && made && i < n; i++)
    if (PyTuple_SetItem(made, i, Py_NewRef(keys[i])) < 0) Py_CLEAR(made);
  PyObject *found = made ? PyObject_CallMethodObjArgs(self, py._index, made, NULL) : NULL;
  Py_XDECREF(made);
  return found;
}

PyObject *py_view_at(PyObject *self, PyObject *const *keys, Py_ssize_t n, PyObject *key) {
  py_view *v = (py_view *)self, *t;
  soma_view s;
  Py_ssize_t indices = 0;
  PyObject *bound = NULL;
  /* Views with bounds have rules of their own. */
  if (n > v->ndim || v->bound) return ask(self, keys, n, key);
  for (Py_ssize_t i = 0; i < n; i++) indices += PY_IS_INDEX(keys[i]);
  /* Expressions have to name all dimensions, since they say which of the result each makes. */
  if (indices && n < v->ndim) return ask(self, keys, n, key);
  py_view_get(v, &s);
  int found = indices ? affine(v, keys, &s, &bound) : basic(v, keys, (int)n, &s);
  if (found == OTHER) return ask(self, keys, n, key);
  if (found == FAILED) return NULL;
  if (indices == 2 && n == 2 && !bound && same(&s, v)) return Py_NewRef(self); /* all of it */
  if ((t = py_view_like(v)) == NULL) {
    Py_XDECREF(bound);
    return NULL;
  }
  py_view_put(t, &s);
  t->dyn = Py_XNewRef(v->dyn);
  t->bound = bound;
  return (PyObject *)t;
}

PyObject *py_view_subscript(PyObject *self, PyObject *key) {
  const py_view *v = (py_view *)self;
  PyObject *keys[PY_MAX_DIMS];
  bool tuple = PyTuple_Check(key);
  Py_ssize_t n = tuple ? PyTuple_Size(key) : 1;
  if (n > v->ndim || v->bound) return ask(self, NULL, 0, key);
  if (key == Py_Ellipsis) return Py_NewRef(self);
  for (Py_ssize_t i = 0; i < n; i++) keys[i] = tuple ? PyTuple_GetItem(key, i) : key;
  return py_view_at(self, keys, n, key);
}
