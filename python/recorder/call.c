/* Functions of nki that are one record when they are called as they mostly are:
 *
 *   nisa.tensor_scalar(dst=x, data=y, op0=nl.add, operand0=1.5)
 *
 * A Call stands for such a function of Python, which does all else, and says each error. Its fields
 * are those of the instruction's form, each from an argument; arguments that no field takes must be
 * left out. Without dst the record is held back for a new tile (pending.c). */
#include "recorder.h"

#include <float.h>
#include <string.h>

enum { MOST = 24 }; /* arguments; fields */

/* Where a field's words come from. */
typedef enum field_kind {
  VIEW,      /* an operand */
  NUMBER,    /* None, a number, a [P, 1] tile */
  IMMEDIATE, /* the same, of the operator in the field before it */
  CODE,      /* what a dict has for it */
  FLAG,      /* True or False */
  WORD       /* the same in each call */
} field_kind;
typedef struct field {
  field_kind kind;
  int argument;    /* its number; -1: none */
  PyObject *codes; /* of CODE: a dict */
  int64_t word;    /* of WORD */
} field;

/* What the operands must be like, so that one record is what the call means. */
#define CONDITIONS(X)                                                                    \
  X(FLOATS, "sources are floats")                                                        \
  X(ON_CHIP, "sources are on the chip and begin at partition 0")                         \
  X(IN_HBM, "sources are in HBM, and as many as a tile can take")                        \
  X(STATIC, "all places are known now")                                                  \
  X(STORES, "dst is in HBM, the source a tile of its shape in SBUF; no handle is given") \
  X(ORDER, "numbers that are tiles are declared before the operands")
enum {
#define X(name, text) name##_BIT,
  CONDITIONS(X)
#undef X
#define X(name, text) name = 1 << name##_BIT,
      CONDITIONS(X)
#undef X
};

typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

typedef struct call {
  PyObject ob_base;
  vectorcall call;
  PyObject *function; /* of Python, or another Call */
  PyObject *names, *defaults, *engines, *types;
  PyObject *op, *any; /* the opcode and the engine as Python's numbers */
  int64_t opcode, engine;
  int arguments, fields, conditions;
  int dst, name, mask, dtype, at_engine; /* numbers of arguments, or -1 */
  uint32_t taken;                        /* the arguments that are not left out */
  field field[MOST];
} call;

enum { FAILED = -1, OTHER = 0, TAKEN = 1 };

/* A call as it was given, with what its fields are worth. */
typedef struct given {
  PyObject *of[MOST]; /* the arguments; the caller has them */
  py_view *view[MOST];
  int64_t word[MOST][2];
  int words[MOST];
  int64_t engine;
  PyObject *engine_of;
} given;

/* ---- Arguments ------------------------------------------------------------------------------- */

static int number_of_name(const call *c, PyObject *name, int guess) {
  for (int i = 0; i < c->arguments; i++) {
    int k = (guess + i) % c->arguments; /* mostly in their order */
    if (PyTuple_GetItem(c->names, k) == name) return k;
  }
  return -1;
}

static bool bind(const call *c, PyObject *const *args, Py_ssize_t n, PyObject *names, given *g) {
  Py_ssize_t more = names ? PyTuple_Size(names) : 0;
  if (n > c->arguments) return false;
  for (int i = 0; i < c->arguments; i++)
    g->of[i] = i < n ? args[i] : PyTuple_GetItem(c->defaults, i);
  int k = (int)n - 1;
  for (Py_ssize_t i = 0; i < more; i++) {
    k = number_of_name(c, PyTuple_GetItem(names, i), k + 1);
    if (k < (int)n) return false; /* an argument that it has not, or has already */
    g->of[k] = args[n + i];
  }
  return true;
}

static bool is_left_out(const call *c, const given *g, int i) {
  return i < 0 || g->of[i] == PyTuple_GetItem(c->defaults, i);
}

/* What a dict has for a key that may have no hash. */
static int code_of(PyObject *codes, PyObject *key, PyObject **found) {
  *found = PyDict_GetItemWithError(codes, key);
  if (*found) return TAKEN;
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
  PyErr_Clear();
  return OTHER;
}

static int engine_of(const call *c, given *g) {
  g->engine = c->engine;
  g->engine_of = c->any;
  if (is_left_out(c, g, c->at_engine)) return TAKEN;
  int found = code_of(c->engines, g->of[c->at_engine], &g->engine_of);
  if (found != TAKEN) return found;
  return py_number(g->engine_of, &g->engine) ? TAKEN : FAILED;
}

static int64_t bits_of(double x) {
  float f = (float)x;
  int32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

/* Whether a number is left out where it is that of the argument's default. */
static bool has_usual(const call *c, int i) {
  return PyFloat_CheckExact(PyTuple_GetItem(c->defaults, c->field[i].argument));
}

static int number(const call *c, given *g, int i) {
  const field *f = &c->field[i];
  PyObject *x = g->of[f->argument];
  /* An operator that is left out has no number, and any other has one. */
  bool immediate = f->kind == IMMEDIATE, has = !immediate || g->word[i - 1][0];
  g->word[i][0] = 0;
  g->words[i] = 1;
  if (!has) return TAKEN;
  if (x == Py_None) return immediate ? OTHER : TAKEN;
  if (PY_IS_VIEW(x)) {
    g->view[i] = (py_view *)x;
    g->word[i][0] = 3;
    return TAKEN;
  }
  if (!PyFloat_CheckExact(x) && (!py.float32 || Py_TYPE(x) != py.float32)) return OTHER;
  double value = PyFloat_AsDouble(x);
  if (value == -1 && PyErr_Occurred()) return FAILED;
  if (!(value >= -FLT_MAX && value <= FLT_MAX)) return OTHER;
  if (!immediate && value == 0 && !has_usual(c, i)) return OTHER; /* as if it were left out */
  PyObject *usual = PyTuple_GetItem(c->defaults, f->argument);
  if (!immediate && has_usual(c, i) && PyFloat_AsDouble(usual) == value) return TAKEN;
  g->word[i][0] = 1;
  g->word[i][1] = bits_of(value);
  g->words[i] = 2;
  return TAKEN;
}

static int code(const call *c, given *g, int i) {
  const field *f = &c->field[i];
  PyObject *x = g->of[f->argument], *found;
  g->words[i] = 1;
  g->word[i][0] = f->word; /* of what is left out */
  if (f->word >= 0 && is_left_out(c, g, f->argument)) return TAKEN;
  int status = code_of(f->codes, x, &found);
  if (status != TAKEN) return status;
  return py_number(found, &g->word[i][0]) ? TAKEN : FAILED;
}

static int value(const call *c, given *g, int i) {
  const field *f = &c->field[i];
  PyObject *x = f->argument < 0 ? NULL : g->of[f->argument];
  g->view[i] = NULL;
  g->words[i] = 0;
  if (f->argument >= 0 && !x) return OTHER;
  switch (f->kind) {
  case VIEW:
    if (i == 0 && (!x || x == Py_None)) return TAKEN; /* a new tile */
    if (!PY_IS_VIEW(x)) return OTHER;
    g->view[i] = (py_view *)x;
    return TAKEN;
  case NUMBER:
  case IMMEDIATE: return number(c, g, i);
  case CODE: return code(c, g, i);
  case FLAG:
    g->words[i] = 1;
    g->word[i][0] = x == Py_True;
    return x == Py_True || x == Py_False ? TAKEN : OTHER;
  case WORD: break;
  }
  g->words[i] = 1;
  g->word[i][0] = f->word;
  return TAKEN;
}

/* ---- What the operands are like -------------------------------------------------------------- */

static bool repeats(const py_view *v) {
  for (int d = 1; d < v->ndim; d++)
    if (v->dim[d].num > 1 && !v->dim[d].step) return true;
  return false;
}

static bool same_sizes(const py_view *a, const py_view *b) {
  bool same = a->ndim == b->ndim;
  for (int d = 0; d < a->ndim && same; d++) same = a->dim[d].num == b->dim[d].num;
  return same;
}

static bool suits(const call *c, const py_view *v) {
  int memory = py_storage_of(v)->memory;
  if ((c->conditions & FLOATS) && !py.floats[v->code & 255]) return false;
  if ((c->conditions & ON_CHIP) && (!memory || v->part)) return false;
  if ((c->conditions & IN_HBM) && (memory || v->ndim < 2 || v->dim[0].num > 128)) return false;
  return true;
}

static bool operands_suit(const call *c, const given *g) {
  const py_view *dst = g->view[0];
  for (int i = 0; i < c->fields; i++) {
    const py_view *v = g->view[i];
    if (!v) continue;
    if ((c->conditions & STATIC) && v->dyn) return false;
    if (!(c->conditions & (STATIC | STORES)) && v->ndim > 5) return false; /* in several parts */
    if (i && c->field[i].kind == VIEW && !suits(c, v)) return false;
  }
  if (!(c->conditions & STORES)) return !dst || (c->conditions & STATIC) || !repeats(dst);
  const py_view *from = g->view[1];
  return dst && !py_storage_of(dst)->memory && py_storage_of(from)->memory == 1 &&
         same_sizes(dst, from);
}

/* What is not left out must have a field. */
static bool only_taken(const call *c, const given *g) {
  for (int i = 0; i < c->arguments; i++)
    if (!(c->taken >> i & 1) && !is_left_out(c, g, i)) return false;
  return true;
}

/* ---- The record ------------------------------------------------------------------------------ */

static bool add_field(py_words *w, const given *g, int i) {
  if (g->words[i] && !py_words_add(w, g->word[i], (size_t)g->words[i])) return false;
  return !g->view[i] || py_words_add_view(w, g->view[i], true);
}

static PyObject *record(py_recording *r, const call *c, const given *g) {
  int64_t first = r->count;
  py_words w;
  bool fine = py_record_begin(&w, c->opcode, g->engine, 0);
  if (c->conditions & STATIC && !py_storage_of(g->view[0])->memory)
    fine = fine && PyObject_SetAttr(g->view[0]->storage, py.written, Py_True) == 0;
  for (int i = 0; i < c->fields && fine && (c->conditions & ORDER); i++)
    if (c->field[i].kind != VIEW && g->view[i]) fine = py_settle(g->view[i]);
  for (int i = 0; i < c->fields && fine; i++) fine = add_field(&w, g, i);
  fine = fine && py_record_put(r, &w);
  py_words_end(&w);
  if (!fine) return NULL;
  if (c->conditions & STORES) Py_RETURN_NONE;
  return py_handle(r, first, c->name < 0 ? NULL : g->of[c->name]);
}

/* ---- Without dst: it is held back ------------------------------------------------------------ */

static int type_of(const call *c, const given *g, const py_view *first, PyObject **type) {
  PyObject *asked = c->dtype < 0 ? Py_None : g->of[c->dtype];
  *type = first->dtype;
  if (asked != Py_None && Py_TYPE(asked) != Py_TYPE(first->dtype))
    return code_of(c->types, asked, type);
  if (asked != Py_None) *type = asked;
  return TAKEN;
}

/* Whether one record fills a new tile of the first source's shape. */
static bool may_hold(const call *c, const given *g, const py_view **first) {
  bool psum = true;
  int sources = 0;
  *first = NULL;
  for (int i = 1; i < c->fields; i++) {
    const py_view *v = g->view[i];
    if (c->field[i].kind != VIEW) {
      const py_storage *s = v ? py_storage_of(v) : NULL;
      /* A tile of numbers is float32, and declared: else it takes more records, or another order.
       */
      if (!s && c->field[i].kind == NUMBER && g->words[i] == 2 && !has_usual(c, i)) return false;
      if (s && (c->field[i].kind == IMMEDIATE || v->code != SOMA_FLOAT32 || !s->handle ||
                (s->zero && s->zero != Py_None)))
        return false;
      continue;
    }
    if (!v || v->bound || (*first && ((*first)->dtype != v->dtype || !same_sizes(*first, v))))
      return false;
    if (!*first) *first = v;
    psum = psum && py_storage_of(v)->memory == 2;
    sources++;
  }
  return *first && (*first)->ndim > 1 && !(psum && sources > 1);
}

static bool append(PyObject *list, PyObject *x) {
  bool fine = x && PyList_Append(list, x) == 0;
  Py_XDECREF(x);
  return fine;
}

/* The words from field i on up to the next operand, as bytes. */
static PyObject *bytes_from(const call *c, const given *g, int *i) {
  int64_t w[2 * MOST];
  Py_ssize_t n = 0;
  bool more = true;
  for (; *i < c->fields && more; ++*i) {
    if (c->field[*i].kind == VIEW) break;
    for (int k = 0; k < g->words[*i]; k++) w[n++] = g->word[*i][k];
    more = !g->view[*i];
  }
  return PyBytes_FromStringAndSize((const char *)w, n * (Py_ssize_t)sizeof *w);
}

/* (opcode, engine, parts after dst), and the operands. */
static PyObject *held(const call *c, const given *g, PyObject *tile) {
  PyObject *parts = PyList_New(0), *operands = PyList_New(0), *p = NULL;
  bool fine = parts && operands;
  for (int i = 1; i < c->fields && fine;) {
    int at = i;
    if (c->field[i].kind == VIEW)
      fine = append(parts, Py_NewRef((PyObject *)g->view[i++]));
    else
      fine = append(parts, bytes_from(c, g, &i));
    PyObject *last = (PyObject *)g->view[i - 1];
    if (fine && last && c->field[at].kind != VIEW) fine = append(parts, Py_NewRef(last));
    if (fine && last) fine = append(operands, Py_NewRef(last));
  }
  PyObject *tuple = fine ? PyList_AsTuple(parts) : NULL;
  PyObject *emit = tuple ? PyTuple_Pack(3, c->op, g->engine_of, tuple) : NULL;
  if (emit) p = PyTuple_Pack(5, emit, tile, operands, Py_False, Py_False);
  Py_XDECREF(emit);
  Py_XDECREF(tuple);
  Py_XDECREF(parts);
  Py_XDECREF(operands);
  return p;
}

/* NULL without an error: Python's function does it. */
static PyObject *hold(py_recording *r, const call *c, const given *g) {
  const py_view *first;
  PyObject *type, *made = NULL;
  if (!may_hold(c, g, &first)) return NULL;
  if (type_of(c, g, first, &type) != TAKEN) return NULL;
  PyObject *shape = py_list(&first->dim[0].num, first->ndim, 2, true);
  PyObject *tile = shape ? py_again(r, shape, type, py.sbuf) : NULL;
  Py_XDECREF(shape);
  if (tile && tile != Py_None) {
    PyObject *p = held(c, g, tile);
    made = p ? py_hold_call((PyObject *)r, p) : NULL;
    Py_XDECREF(p);
  }
  Py_XDECREF(tile);
  return made;
}

/* ---- A call ---------------------------------------------------------------------------------- */

static bool has(const given *g, int argument) {
  return argument >= 0 && g->of[argument] != Py_None;
}

/* Whether the mask that is given changes nothing. */
static int mask_leaves_all(const call *c, const given *g, bool into) {
  PyObject *mask = g->of[c->mask];
  int all = Py_TYPE(mask) == py.mask && (!into || (c->conditions & STORES));
  for (int i = 0; i < c->fields && all > 0; i++)
    if (g->view[i]) all = g->view[i]->bound ? 0 : py_mask_leaves_all((py_mask *)mask, g->view[i]);
  return all;
}

/* NULL without an error: Python's function does it. */
static PyObject *usual(const call *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  given g;
  PyObject *rec = PyList_GetItem(py.recorders, 0);
  if (!rec) return NULL;
  if (!PyObject_TypeCheck(rec, py.recording) || !bind(c, args, n, names, &g)) return NULL;
  py_recording *r = (py_recording *)rec;
  for (int i = 0; i < c->fields; i++)
    if (value(c, &g, i) != TAKEN) return NULL;
  if (!only_taken(c, &g) || engine_of(c, &g) != TAKEN || !operands_suit(c, &g)) return NULL;
  bool into = g.view[0];
  if (into ? r->older || has(&g, c->dtype) : has(&g, c->name)) return NULL;
  int all = has(&g, c->mask) ? mask_leaves_all(c, &g, into) : 1;
  if (all <= 0) return NULL;
  Py_INCREF(rec);
  char direct = r->direct;
  r->direct = 1;
  PyObject *made = into ? record(r, c, &g) : hold(r, c, &g);
  r->direct = direct;
  Py_DECREF(rec);
  return made;
}

static PyObject *call_it(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
  const call *c = (call *)self;
  Py_ssize_t n = (Py_ssize_t)(nargs & (SIZE_MAX >> 1)), more = names ? PyTuple_Size(names) : 0;
  PyObject *made = usual(c, args, n, names);
  if (made || PyErr_Occurred()) return made;
  if (Py_TYPE(c->function) == Py_TYPE(self)) return call_it(c->function, args, nargs, names);
  PyObject *positional = PyTuple_New(n), *named = more ? PyDict_New() : NULL;
  bool fine = positional && (named || !more);
  for (Py_ssize_t i = 0; i < n && fine; i++) {
    Py_INCREF(args[i]);
    fine = PyTuple_SetItem(positional, i, args[i]) == 0;
  }
  for (Py_ssize_t i = 0; i < more && fine; i++)
    fine = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[n + i]) == 0;
  if (fine) made = PyObject_Call(c->function, positional, named);
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return made;
}

/* f(*args, **named) */
static PyObject *call_with(PyObject *self, PyObject *args, PyObject *named) {
  return PyObject_Call(((call *)self)->function, args, named);
}

/* ---- The class ------------------------------------------------------------------------------- */

static int traverse(PyObject *self, visitproc visit, void *arg) {
  call *c = (call *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->function);
  Py_VISIT(c->names);
  Py_VISIT(c->defaults);
  Py_VISIT(c->engines);
  Py_VISIT(c->types);
  Py_VISIT(c->op);
  Py_VISIT(c->any);
  for (int i = 0; i < c->fields; i++) Py_VISIT(c->field[i].codes);
  return 0;
}

static int clear(PyObject *self) {
  call *c = (call *)self;
  Py_CLEAR(c->function);
  Py_CLEAR(c->names);
  Py_CLEAR(c->defaults);
  Py_CLEAR(c->engines);
  Py_CLEAR(c->types);
  Py_CLEAR(c->op);
  Py_CLEAR(c->any);
  for (int i = 0; i < c->fields; i++) Py_CLEAR(c->field[i].codes);
  return 0;
}

static void release(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static int wrong(const char *what) {
  PyErr_Format(PyExc_ValueError, "a call has no such %s", what);
  return -1;
}

/* (kind, number of the argument or -1, dict or None, word) */
static int set_field(call *c, int i, PyObject *of) {
  field *f = &c->field[i];
  PyObject *codes;
  long long word;
  int kind;
  if (!PyArg_ParseTuple(of, "iiOL", &kind, &f->argument, &codes, &word)) return -1;
  if (kind < VIEW || kind > WORD || (kind == CODE) != PyDict_Check(codes)) return wrong("kind");
  if (f->argument < -1 || f->argument >= c->arguments) return wrong("argument");
  if (f->argument < 0 && kind != WORD && (kind != VIEW || i)) return wrong("field");
  field_kind before = i ? f[-1].kind : VIEW; /* the first is what is written */
  if ((kind == IMMEDIATE && before != CODE && before != WORD) || (!i && kind != VIEW))
    return wrong("order");
  f->kind = (field_kind)kind;
  f->word = word;
  if (kind == CODE) f->codes = Py_NewRef(codes);
  if (f->argument >= 0) c->taken |= UINT32_C(1) << f->argument;
  return 0;
}

static int set_fields(call *c, PyObject *fields) {
  if (!PyTuple_Check(fields) || PyTuple_Size(fields) < 2 || PyTuple_Size(fields) > MOST)
    return wrong("fields");
  for (int i = 0; i < (int)PyTuple_Size(fields); i++) {
    c->fields = i + 1;
    PyObject *of = PyTuple_GetItem(fields, i);
    if (!PyTuple_Check(of)) return wrong("field");
    if (set_field(c, i, of) < 0) return -1;
  }
  return (c->conditions & STORES) && c->field[1].kind != VIEW ? wrong("source") : 0;
}

static int set_others(call *c) {
  const int of[] = {c->name, c->mask, c->dtype, c->at_engine};
  for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
    if (of[i] < -1 || of[i] >= c->arguments) return wrong("argument");
    if (of[i] >= 0) c->taken |= UINT32_C(1) << of[i];
  }
  return 0;
}

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  PyObject *function, *names, *defaults, *op, *any, *fields, *engines, *types;
  call *c = (call *)PyType_GenericAlloc(type, 0);
  if (!c) return NULL;
  c->call = call_it;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!O!O!(iiii)i", &function, &PyTuple_Type, &names,
                        &PyTuple_Type, &defaults, &PyLong_Type, &op, &PyLong_Type, &any,
                        &PyTuple_Type, &fields, &PyDict_Type, &engines, &PyDict_Type, &types,
                        &c->name, &c->mask, &c->dtype, &c->at_engine, &c->conditions) ||
      (named && PyDict_Size(named) && wrong("keyword") < 0) || !py_number(op, &c->opcode) ||
      !py_number(any, &c->engine)) {
    Py_DECREF((PyObject *)c);
    return NULL;
  }
  c->function = Py_NewRef(function);
  c->names = Py_NewRef(names);
  c->defaults = Py_NewRef(defaults);
  c->engines = Py_NewRef(engines);
  c->types = Py_NewRef(types);
  c->op = Py_NewRef(op);
  c->any = Py_NewRef(any);
  c->arguments = (int)PyTuple_Size(names);
  bool fine = c->arguments > 0 && c->arguments <= MOST && PyTuple_Size(defaults) == c->arguments;
  if ((fine || wrong("arguments") == 0) && set_others(c) == 0 && set_fields(c, fields) == 0)
    return (PyObject *)c;
  Py_DECREF((PyObject *)c);
  return NULL;
}

/* What it has not itself is the function's: its name, its code ...; and what its class has, too. */
static PyObject *attribute(PyObject *self, PyObject *name) {
  bool of_class = PyUnicode_Check(name) && (!PyUnicode_CompareWithASCIIString(name, "__module__") ||
                                            !PyUnicode_CompareWithASCIIString(name, "__doc__"));
  PyObject *found = of_class ? NULL : PyObject_GenericGetAttr(self, name);
  if (found || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError))) return found;
  PyErr_Clear();
  return PyObject_GetAttr(((call *)self)->function, name);
}

static PyObject *text(PyObject *self) { return PyObject_Repr(((call *)self)->function); }

/* In a class it is a method, as a function is. */
static PyObject *bound(PyObject *self, PyObject *object, PyObject *type) {
  PyObject *function = ((call *)self)->function;
  if (!object) return Py_NewRef(self);
  return PyObject_CallMethod(function, "__get__", "OO", object, type ? type : Py_None);
}

/* By its name, as functions are pickled and copied. */
static PyObject *reduce(PyObject *self, PyObject *none) {
  (void)none;
  return PyObject_GetAttrString(self, "__qualname__");
}

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(call, function), READONLY, "Python's function."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(call, call), READONLY, NULL},
    {0},
};
static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {
    {Py_tp_new, call_new},
    {Py_tp_dealloc, release},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, call_with},
    {Py_tp_getattro, attribute},
    {Py_tp_repr, text},
    {Py_tp_descr_get, bound},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {0},
};
/* The limited API has this flag, with this value, from 3.12 on. */
enum { HAVE_VECTORCALL = 1 << 11 };
static PyType_Spec spec = {"_soma.Call", sizeof(call), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAVE_VECTORCALL, slots};

bool py_call_add_types(PyObject *module) {
  PyTypeObject *type;
  if (!py_add_type(module, &spec, &type, NULL)) return false;
  Py_DECREF((PyObject *)type);
#define X(name, text) \
  if (PyModule_AddIntConstant(module, #name, name) < 0) return false;
  CONDITIONS(X)
#undef X
  static const char *const kinds[] = {"VIEW", "NUMBER", "IMMEDIATE", "CODE", "FLAG", "WORD"};
  for (int i = VIEW; i <= WORD; i++)
    if (PyModule_AddIntConstant(module, kinds[i], i) < 0) return false;
  return true;
}
