/* The arguments of a call, and the words of its fields. */
#include "call.h"

#include <float.h>
#include <string.h>

/* ---- Arguments ------------------------------------------------------------------------------- */

static int number_of_name(const py_call *c, PyObject *name, int guess) {
  for (int i = 0; i < c->arguments; i++) {
    /* The search begins where the last one ended. */
    int k = guess + i < c->arguments ? guess + i : guess + i - c->arguments; /* mostly in order */
    /* Names are interned, so one is the same object everywhere; another one is left to Python. */
    if (c->name_of[k] == name) return k;
  }
  return -1;
}

/* Finds which arguments n of them in order and those of these names are. */
static bool learn(py_call *c, Py_ssize_t n, PyObject *names) {
  Py_ssize_t more = names ? PyTuple_Size(names) : 0;
  c->last.n = -1;
  /* Too many arguments: Python says so. */
  if (n > c->arguments || more > c->arguments) return false;
  uint32_t given = (UINT32_C(1) << n) - 1;
  int k = (int)n - 1;
  for (Py_ssize_t i = 0; i < more; i++) {
    k = number_of_name(c, PyTuple_GetItem(names, i), k + 1 < c->arguments ? k + 1 : 0);
    if (k < 0 || (given >> k & 1)) return false; /* one that it has not, or has already */
    given |= UINT32_C(1) << k;
    c->last.at[i] = (uint8_t)k;
  }
  c->last.n = n;
  c->last.more = more;
  c->last.given = given;
  /* It is kept, so that no other tuple has its address. */
  py_put(&c->last.names, Py_XNewRef(names));
  return true;
}

bool py_call_bind(py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names, py_given *g) {
  /* The names of a call are one tuple of its code. */
  if ((names != c->last.names || n != c->last.n) && !learn(c, n, names)) return false;
  /* Defaults first, then positions, then names. */
  for (int i = 0; i < c->arguments; i++) g->of[i] = c->default_of[i];
  for (Py_ssize_t i = 0; i < n; i++) g->of[i] = args[i];
  for (Py_ssize_t i = 0; i < c->last.more; i++) g->of[c->last.at[i]] = args[n + i];
  g->given = c->last.given;
  return true;
}

/* By identity: to give the default is to leave it out. */
bool py_call_left_out(const py_call *c, const py_given *g, int i) {
  return i < 0 || g->of[i] == c->default_of[i];
}

/* A key may have no hash. What was found last stays, as most calls of a place are alike; the end of
 * what was there before may run anything, also this. */
int py_code_of(py_codes *codes, PyObject *key, PyObject **found, int64_t *word) {
  /* By identity: what was asked last is held, so no other object has its address. */
  if (codes->key == key) {
    *found = codes->found;
    *word = codes->word;
    return TAKEN;
  }
  *found = PyDict_GetItemWithError(codes->dict, key);
  if (!*found) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
    PyErr_Clear();
    return OTHER;
  }
  *word = 0;
  if (PyLong_Check(*found) && !py_number(*found, word)) return FAILED;
  PyObject *old = codes->key, *old_found = codes->found;
  codes->key = Py_NewRef(key);
  codes->found = Py_NewRef(*found);
  codes->word = *word;
  Py_XDECREF(old);
  Py_XDECREF(old_found);
  return TAKEN;
}

int py_call_engine(py_call *c, py_given *g) {
  g->engine = c->engine;
  g->engine_of = c->any;
  if (py_call_left_out(c, g, c->at_engine)) return TAKEN;
  int found = py_code_of(&c->engines, g->of[c->at_engine], &g->engine_of, &g->engine);
  if (found != TAKEN) return found;
  return PyLong_Check(g->engine_of) ? TAKEN : OTHER;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int one_word(py_given *g, int i, int64_t word) {
  g->word[i][0] = word;
  g->words[i] = 1;
  return TAKEN;
}

static int64_t bits_of(double x) {
  float f = (float)x;
  int32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

/* Whether x is a number that float32 has room for. */
static int real_of(PyObject *x, double *value) {
  enum { EXACT = 53 }; /* bits of a double */
  int64_t whole;
  if (PyLong_CheckExact(x)) {
    int over;
    whole = PyLong_AsLongLongAndOverflow(x, &over);
    if (whole == -1 && PyErr_Occurred()) return FAILED;
    /* Beyond 2^53 a double would round what Python's own path does not. */
    if (over || whole > INT64_C(1) << EXACT || whole < -(INT64_C(1) << EXACT)) return OTHER;
    *value = (double)whole;
    return TAKEN;
  }
  /* A float32 of NumPy is one too; other types are Python's. */
  if (!PyFloat_CheckExact(x) && (!py.float32 || Py_TYPE(x) != py.float32)) return OTHER;
  *value = PyFloat_AsDouble(x);
  if (*value == -1 && PyErr_Occurred()) return FAILED;
  /* NaN and infinities fail both comparisons, and go to Python too. */
  return *value >= -FLT_MAX && *value <= FLT_MAX ? TAKEN : OTHER;
}

static int number(const py_call *c, py_given *g, int i) {
  const py_field *f = &c->field[i];
  PyObject *x = g->of[f->argument];
  double value;
  /* An operator that is left out has no number, and any other has one. */
  bool immediate = f->kind == IMMEDIATE, has = !immediate || g->word[i - 1][0];
  one_word(g, i, 0);
  if (!has) return TAKEN;
  if (x == Py_None) return immediate ? OTHER : TAKEN;
  if (PY_IS_VIEW(x)) {
    /* The view of a number follows the record's word that says so. */
    g->view[i] = (py_view *)x;
    return one_word(g, i, 3);
  }
  int found = real_of(x, &value);
  if (found != TAKEN) return found;
  /* 0 means that there is none, which Python says in its own way. */
  if (f->zero_is_none && value == 0) return OTHER;
  if (!immediate && f->has_usual && f->usual == value) return TAKEN;
  g->word[i][0] = 1;
  g->word[i][1] = bits_of(value);
  g->words[i] = 2;
  return TAKEN;
}

/* The number that fills a tile: whole for a type of whole numbers. */
static int fill(const py_call *c, py_given *g, int i) {
  const py_view *dst = g->view[0];
  PyObject *x = g->of[c->field[i].argument];
  double value;
  /* For whole numbers and other types the bits are Python's business. */
  int found = dst && py.floats[dst->code & 255] == PY_FLOAT ? real_of(x, &value) : OTHER;
  if (found != TAKEN) return found;
  g->word[i][0] = 1;
  g->word[i][1] = bits_of(value);
  g->words[i] = 2;
  return TAKEN;
}

static int code(py_call *c, py_given *g, int i) {
  py_field *f = &c->field[i];
  bool left_out = py_call_left_out(c, g, f->argument);
  /* Its operator is left out, and so it has no code. */
  if (f->kind == IF_CODE && !g->word[i - 1][0]) return one_word(g, i, 0);
  /* Only one value of the argument is known here: that of the default, or of the same code. */
  if (f->kind == ONLY && left_out) return TAKEN;
  if (f->kind != ONLY && f->word >= 0 && left_out) return one_word(g, i, f->word);
  PyObject *found;
  int64_t word;
  int status = py_code_of(&f->codes, g->of[f->argument], &found, &word);
  if (status != TAKEN) return status;
  if (f->kind == ONLY) return word == f->word ? TAKEN : OTHER;
  return one_word(g, i, word);
}

static int whole(PyObject *x, int64_t *out) {
  if (!PyLong_CheckExact(x)) return OTHER;
  int over;
  *out = PyLong_AsLongLongAndOverflow(x, &over);
  /* Fields of records have 32 bits. */
  return over || *out > INT32_MAX || *out < INT32_MIN ? OTHER : TAKEN;
}

static PyObject *item(PyObject *x, Py_ssize_t i) {
  return PyList_CheckExact(x) ? PyList_GetItem(x, i) : PyTuple_GetItem(x, i);
}

/* The length of a list or a tuple; -1: it is something else. */
static Py_ssize_t length(PyObject *x) {
  return PyList_CheckExact(x) ? PyList_Size(x) : PyTuple_CheckExact(x) ? PyTuple_Size(x) : -1;
}

static int steps(py_given *g, int i, PyObject *pattern) {
  enum { PAIRS = 4 };
  Py_ssize_t n = length(pattern);
  if (n < 0 || n > PAIRS) return OTHER;
  for (Py_ssize_t d = 0; d < n; d++) {
    PyObject *pair = item(pattern, d);
    if (length(pair) != 2) return OTHER;
    for (int k = 0; k < 2; k++)
      if (whole(item(pair, k), &g->word[i][1 + 2 * d + k]) != TAKEN) return OTHER;
  }
  g->word[i][0] = n;
  g->words[i] = 1 + 2 * (int)n;
  return TAKEN;
}

/* The second of two dimensions: 1, [1], or counted from the end. */
static int axes(const py_call *c, py_given *g, int i) {
  const py_view *from = g->view[1];
  PyObject *x = g->of[c->field[i].argument];
  int64_t axis;
  /* An axis may be a list of one. */
  if (length(x) == 1) x = item(x, 0);
  if (whole(x, &axis) != TAKEN || (axis != 1 && axis != -1)) return OTHER;
  if (!from || from->ndim != 2 || from->dim[1].num < 2) return OTHER;
  return one_word(g, i, c->field[i].word);
}

static int view(const py_call *c, py_given *g, int i, PyObject *x) {
  (void)c;
  /* Only the first view may be left out: the tile that the call returns. */
  if (i == 0 && (!x || x == Py_None)) return TAKEN; /* a new tile */
  if (!PY_IS_VIEW(x)) return OTHER;
  g->view[i] = (py_view *)x;
  return TAKEN;
}

int py_call_value(py_call *c, py_given *g, int i) {
  const py_field *f = &c->field[i];
  PyObject *x = f->argument < 0 ? NULL : g->of[f->argument];
  int found;
  g->view[i] = NULL;
  g->words[i] = 0;
  /* An argument that must be given and is not: Python says so. */
  if (f->argument >= 0 && !x) return OTHER;
  switch (f->kind) {
  case VIEW: return view(c, g, i, x);
  case NUMBER:
  case IMMEDIATE: return number(c, g, i);
  case FILL: return fill(c, g, i);
  case CODE:
  case IF_CODE:
  case ONLY: return code(c, g, i);
  case FLAG: return x == Py_True || x == Py_False ? one_word(g, i, x == Py_True) : OTHER;
  case STEPS: return steps(g, i, x);
  case OFFSET:
    g->word[i][0] = 0;
    found = whole(x, &g->word[i][1]);
    g->words[i] = 2;
    return found;
  case WHOLE:
    found = whole(x, &g->word[i][0]);
    g->words[i] = 1;
    return found;
  case AXES: return axes(c, g, i);
  case WORD: break;
  }
  return one_word(g, i, f->word);
}
