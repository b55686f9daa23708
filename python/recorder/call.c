/* Functions of nki that are one record, or two, when they are called as they mostly are:
 *
 *   nisa.tensor_scalar(dst=x, data=y, op0=nl.add, operand0=1.5)
 *
 * A Call stands for such a function of Python, which does all else, and says each error. Its fields
 * are those of the instruction's form, each from an argument (fields.c); arguments that no field
 * takes must be left out. Without dst the record is held back for a new tile (pending.c). */
#include "call.h"

#include <string.h>

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

static bool suits(const py_call *c, const py_view *v) {
  int memory = py_storage_of(v)->memory;
  if ((c->conditions & FLOATS) && py.floats[v->code & 255] != PY_FLOAT) return false;
  if ((c->conditions & ON_CHIP) && (!memory || v->part)) return false;
  if ((c->conditions & IN_HBM) && (memory || v->ndim < 2 || v->dim[0].num > 128)) return false;
  return true;
}

/* Whether two views may be of the same memory. */
static bool may_share(const py_view *a, const py_view *b) {
  const PyObject *x = py_storage_of(a)->place, *y = py_storage_of(b)->place;
  return a->storage == b->storage || (x && x != Py_None && y && y != Py_None);
}

/* What is asked of dst, and of the last source. */
static bool dst_suits(const py_call *c, const py_given *g) {
  enum { PSUM = 2 };
  const py_view *dst = g->view[0], *last = NULL;
  if ((c->conditions & INTO) && !dst) return c->conditions & MATMUL;
  /* Without field 0, which is dst. */
  for (uint32_t m = g->views & c->operands & ~1u; m; m &= m - 1) {
    last = g->view[__builtin_ctz(m)];
    if ((c->conditions & APART) && may_share(dst, last)) return false;
  }
  if ((c->conditions & PREDICATE) && py.floats[last->code & 255] == PY_NO_PREDICATE) return false;
  bool zero = (g->word[1][1] & INT32_MAX) == 0; /* or -0 */
  return !(c->conditions & NO_ZEROS) || py_storage_of(dst)->memory != PSUM || !zero;
}

static bool operands_suit(const py_call *c, const py_given *g) {
  const py_view *dst = g->view[0];
  for (uint32_t m = g->views; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    const py_view *v = g->view[i];
    if ((c->conditions & STATIC) && v->dyn) return false;
    if (!(c->conditions & (STATIC | STORES)) && v->ndim > 5) return false; /* in several parts */
    if (i && c->field[i].kind == VIEW && !suits(c, v)) return false;
  }
  if (!dst_suits(c, g)) return false;
  if (!(c->conditions & STORES)) return !dst || (c->conditions & STATIC) || !repeats(dst);
  const py_view *from = g->view[1];
  return dst && !py_storage_of(dst)->memory && py_storage_of(from)->memory == 1 &&
         same_sizes(dst, from);
}

/* What is not left out must have a field. */
static bool only_taken(const py_call *c, const py_given *g) {
  for (uint32_t other = g->given & ~c->taken; other; other &= other - 1)
    if (!py_call_left_out(c, g, __builtin_ctz(other))) return false;
  return true;
}

/* ---- The record ------------------------------------------------------------------------------ */

static bool add_field(py_words *w, const py_given *g, int i) {
  if (g->words[i] && !py_words_add(w, g->word[i], (size_t)g->words[i])) return false;
  return !g->view[i] || py_words_add_view(w, g->view[i], true);
}

static bool one(py_recording *r, const py_call *c, const py_given *g) {
  py_words w;
  bool fine = py_record_begin(&w, c->opcode, g->engine, 0);
  if (c->conditions & STATIC && !py_storage_of(g->view[0])->memory)
    fine = fine && PyObject_SetAttr(g->view[0]->storage, py.written, Py_True) == 0;
  uint32_t first = c->conditions & ORDER ? g->views & ~c->operands : 0;
  for (; first && fine; first &= first - 1) fine = py_settle(g->view[__builtin_ctz(first)]);
  for (int i = 0; i < c->fields && fine; i++) fine = add_field(&w, g, i);
  fine = fine && py_record_put(r, &w);
  py_words_end(&w);
  return fine;
}

/* What an argument for sums of rows is given for: they are read from the engine's registers. */
static bool read_sums(py_recording *r, const py_call *c, const py_given *g) {
  PyObject *into = c->then.argument < 0 ? Py_None : g->of[c->then.argument];
  if (into == Py_None) return true;
  py_words w;
  int64_t negate = c->then.negate >= 0 && g->of[c->then.negate] == Py_True;
  bool fine = py_record_begin(&w, c->then.opcode, c->then.engine, 0) &&
              py_words_add_view(&w, (py_view *)into, true) && py_words_add(&w, &negate, 1) &&
              py_record_put(r, &w);
  py_words_end(&w);
  return fine;
}

/* Whether what is given for sums is such that read_sums() does it. */
static bool sums_suit(const py_call *c, const py_given *g) {
  PyObject *into = c->then.argument < 0 ? Py_None : g->of[c->then.argument];
  PyObject *negate = c->then.negate < 0 ? Py_False : g->of[c->then.negate];
  if (into == Py_None) return true;
  return g->view[0] && into && PY_IS_VIEW(into) && (negate == Py_True || negate == Py_False);
}

/* NULL without an error: Python's function does it. */
static PyObject *record(py_recording *r, const py_call *c, const py_given *g) {
  int64_t first = r->count;
  if (c->conditions & MATMUL) {
    if (py_matmul(r, c, g) != TAKEN) return NULL;
  } else if (!one(r, c, g) || !read_sums(r, c, g)) {
    return NULL;
  }
  if (c->conditions & STORES) Py_RETURN_NONE;
  return py_handle(r, first, c->name < 0 ? NULL : g->of[c->name]);
}

/* ---- Without dst: it is held back ------------------------------------------------------------ */

/* A type by another name of it, which may have no hash. */
static int found_type(const py_call *c, PyObject *asked, PyObject **type) {
  *type = PyDict_GetItemWithError(c->types, asked);
  if (*type) return TAKEN;
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return FAILED;
  PyErr_Clear();
  return OTHER;
}

/* The type that a new tile is to have, else the usual one. */
static int type_of(const py_call *c, const py_given *g, PyObject *usual_one, PyObject **type) {
  PyObject *asked = c->dtype < 0 ? Py_None : g->of[c->dtype];
  *type = usual_one;
  if (asked != Py_None && Py_TYPE(asked) != Py_TYPE(usual_one)) return found_type(c, asked, type);
  if (asked != Py_None) *type = asked;
  return TAKEN;
}

/* Whether one record fills a new tile of the first source's shape. */
static bool may_hold(const py_call *c, const py_given *g, const py_view **first) {
  bool psum = true;
  int sources = 0;
  *first = NULL;
  for (int i = 1; i < c->fields; i++) {
    const py_view *v = g->view[i];
    if (c->field[i].kind != VIEW) {
      const py_storage *s = v ? py_storage_of(v) : NULL;
      /* A tile of numbers is float32, and declared: else it takes more records, or another order.
       */
      if (!s && c->field[i].kind == NUMBER && g->words[i] == 2 && !c->field[i].has_usual)
        return false;
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

/* The words from field i on up to the next operand, as bytes. */
static PyObject *bytes_from(const py_call *c, const py_given *g, int *i) {
  int64_t w[2 * PY_MOST];
  Py_ssize_t n = 0;
  bool more = true;
  for (; *i < c->fields && more; ++*i) {
    if (c->field[*i].kind == VIEW) break;
    for (int k = 0; k < g->words[*i]; k++) w[n++] = g->word[*i][k];
    more = !g->view[*i];
  }
  return PyBytes_FromStringAndSize((const char *)w, n * (Py_ssize_t)sizeof *w);
}

/* A tuple of these objects, which it takes over. */
static PyObject *tuple_of(PyObject **of, int n) {
  PyObject *made = PyTuple_New(n);
  for (int i = 0; i < n; i++) {
    if (!made)
      Py_XDECREF(of[i]);
    else if (!of[i] || PyTuple_SetItem(made, i, of[i]) < 0)
      Py_CLEAR(made);
  }
  return made;
}

/* (opcode, engine, parts after dst), and the operands. */
static PyObject *held(const py_call *c, const py_given *g, PyObject *tile) {
  PyObject *parts[2 * PY_MOST], *operands[PY_MOST], *p = NULL;
  int nparts = 0, noperands = 0;
  for (int i = 1; i < c->fields;) {
    if (c->field[i].kind != VIEW)
      parts[nparts++] = bytes_from(c, g, &i);
    else
      i++;
    PyObject *last = (PyObject *)g->view[i - 1];
    if (!last) continue;
    parts[nparts++] = Py_NewRef(last);
    operands[noperands++] = Py_NewRef(last);
  }
  PyObject *tuple = tuple_of(parts, nparts), *others = tuple_of(operands, noperands);
  PyObject *emit = tuple && others ? PyTuple_Pack(3, c->op, g->engine_of, tuple) : NULL;
  if (emit) p = PyTuple_Pack(5, emit, tile, others, Py_False, Py_False);
  Py_XDECREF(emit);
  Py_XDECREF(tuple);
  Py_XDECREF(others);
  return p;
}

/* A new tile, if its place has made one like it; else None. */
static PyObject *new_tile(py_recording *r, const int64_t *sizes, int n, PyObject *type,
                          PyObject *memory) {
  PyObject *tile = py_tile_again(r, sizes, n, type, memory, py.empty);
  if (tile || PyErr_Occurred()) return tile;
  PyObject *shape = py_list(sizes, n, 1, true);
  tile = shape ? py_again(r, shape, type, memory) : NULL;
  Py_XDECREF(shape);
  return tile;
}

/* Holds back what fills a tile, unless that is None; takes the tile over. */
static PyObject *hold_for(py_recording *r, const py_call *c, const py_given *g, PyObject *tile,
                          PyObject *(*make)(const py_call *, const py_given *, PyObject *)) {
  PyObject *p = tile && tile != Py_None ? make(c, g, tile) : NULL;
  PyObject *made = p ? py_hold_call((PyObject *)r, p) : NULL;
  Py_XDECREF(p);
  Py_XDECREF(tile);
  return made;
}

/* The same of a matmul, whose tile is in PSUM. */
static PyObject *hold_matmul(py_recording *r, const py_call *c, const py_given *g) {
  int64_t sizes[PY_MAX_DIMS];
  PyObject *type;
  int n = py_matmul_sizes(g, sizes);
  if (!n || !py.single || type_of(c, g, py.single, &type) != TAKEN) return NULL;
  return hold_for(r, c, g, new_tile(r, sizes, n, type, py.psum), py_matmul_held);
}

/* NULL without an error: Python's function does it. */
static PyObject *hold(py_recording *r, const py_call *c, const py_given *g) {
  const py_view *first;
  PyObject *type;
  int64_t sizes[PY_MAX_DIMS];
  if (c->conditions & MATMUL) return hold_matmul(r, c, g);
  if (!may_hold(c, g, &first)) return NULL;
  if (type_of(c, g, first->dtype, &type) != TAKEN) return NULL;
  for (int d = 0; d < first->ndim; d++) sizes[d] = first->dim[d].num;
  return hold_for(r, c, g, new_tile(r, sizes, first->ndim, type, py.sbuf), held);
}

/* ---- A call ---------------------------------------------------------------------------------- */

static bool has(const py_given *g, int argument) {
  return argument >= 0 && g->of[argument] != Py_None;
}

/* Whether the mask that is given changes nothing. */
static int mask_leaves_all(const py_call *c, const py_given *g, bool into) {
  PyObject *mask = g->of[c->mask];
  int all = Py_TYPE(mask) == py.mask && (!into || (c->conditions & STORES));
  for (int i = 0; i < c->fields && all > 0; i++)
    if (g->view[i])
      all = g->view[i]->bound
                ? 0
                : py_mask_leaves_all((py_mask *)mask, g->view[i]->dim, g->view[i]->ndim);
  return all;
}

/* Does it with the user's frame as the innermost. */
static PyObject *directly(py_recording *r, const py_call *c, const py_given *g,
                          PyObject *(*make)(py_recording *, const py_call *, const py_given *)) {
  char direct = r->direct;
  Py_INCREF((PyObject *)r);
  r->direct = 1;
  PyObject *made = make(r, c, g);
  r->direct = direct;
  Py_DECREF((PyObject *)r);
  return made;
}

enum { SHAPE, DTYPE, BUFFER, NAME }; /* arguments of what makes a tile */

/* A tile as the place of this call has made before. NULL without an error: Python makes it. */
static PyObject *tile_of(py_recording *r, const py_call *c, const py_given *g) {
  (void)c;
  PyObject *shape = g->of[SHAPE];
  int64_t sizes[PY_MAX_DIMS];
  Py_ssize_t n = PyTuple_CheckExact(shape) ? PyTuple_Size(shape) : 0;
  if (n < 2 || n > PY_MAX_DIMS) return NULL;
  for (Py_ssize_t d = 0; d < n; d++) {
    PyObject *k = PyTuple_GetItem(shape, d);
    int over;
    if (!PyLong_CheckExact(k)) return NULL;
    sizes[d] = PyLong_AsLongLongAndOverflow(k, &over); /* no tile has -1 */
  }
  return py_tile_again(r, sizes, (int)n, g->of[DTYPE], g->of[BUFFER], g->of[NAME]);
}

/* NULL without an error: Python's function does it. */
static PyObject *usual(py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  py_given g;
  PyObject *rec = PyList_GetItem(py.recorders, 0);
  if (!rec) return NULL;
  if (!py_is_recording(rec) || !py_call_bind(c, args, n, names, &g)) return NULL;
  py_recording *r = (py_recording *)rec;
  if (c->conditions & TILE) return only_taken(c, &g) ? directly(r, c, &g, tile_of) : NULL;
  if (c->conditions & MATMUL) py_matmul_shift(c, &g);
  g.views = 0;
  for (int i = 0; i < c->fields; i++) {
    if (py_call_value(c, &g, i) != TAKEN) return NULL;
    if (g.view[i]) g.views |= UINT32_C(1) << i;
  }
  if (!only_taken(c, &g) || py_call_engine(c, &g) != TAKEN || !operands_suit(c, &g) ||
      !sums_suit(c, &g))
    return NULL;
  bool into = g.view[0], older = r->older && !(c->conditions & STORES);
  if (into ? older || has(&g, c->dtype) : has(&g, c->name)) return NULL;
  int all = has(&g, c->mask) ? mask_leaves_all(c, &g, into) : 1;
  if (all <= 0) return NULL;
  return directly(r, c, &g, into ? record : hold);
}

static PyObject *call_it(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
  py_call *c = (py_call *)self;
  Py_ssize_t n = (Py_ssize_t)(nargs & (SIZE_MAX >> 1));
  PyObject *made = usual(c, args, n, names);
  if (made || PyErr_Occurred()) return made;
  Py_ssize_t more = names ? PyTuple_Size(names) : 0;
  if (Py_TYPE(c->function) == Py_TYPE(self)) return call_it(c->function, args, nargs, names);
  PyObject *positional = PyTuple_New(n), *named = more ? PyDict_New() : NULL;
  bool fine = positional && (named || !more);
  for (Py_ssize_t i = 0; i < n && fine; i++)
    fine = PyTuple_SetItem(positional, i, Py_NewRef(args[i])) == 0;
  for (Py_ssize_t i = 0; i < more && fine; i++)
    fine = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[n + i]) == 0;
  if (fine) made = PyObject_Call(c->function, positional, named);
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return made;
}

/* f(*args, **named) */
static PyObject *call_with(PyObject *self, PyObject *args, PyObject *named) {
  return PyObject_Call(((py_call *)self)->function, args, named);
}

/* ---- The class ------------------------------------------------------------------------------- */

static int traverse(PyObject *self, visitproc visit, void *arg) {
  py_call *c = (py_call *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->function);
  Py_VISIT(c->names);
  Py_VISIT(c->defaults);
  Py_VISIT(c->engines.dict);
  Py_VISIT(c->engines.key);
  Py_VISIT(c->engines.found);
  Py_VISIT(c->types);
  Py_VISIT(c->last.names);
  Py_VISIT(c->op);
  Py_VISIT(c->any);
  for (int i = 0; i < c->fields; i++) {
    Py_VISIT(c->field[i].codes.dict);
    Py_VISIT(c->field[i].codes.key);
    Py_VISIT(c->field[i].codes.found);
  }
  return 0;
}

static void clear_codes(py_codes *codes) {
  Py_CLEAR(codes->dict);
  Py_CLEAR(codes->key);
  Py_CLEAR(codes->found);
}

static int clear(PyObject *self) {
  py_call *c = (py_call *)self;
  Py_CLEAR(c->function);
  Py_CLEAR(c->names);
  Py_CLEAR(c->defaults);
  clear_codes(&c->engines);
  Py_CLEAR(c->types);
  Py_CLEAR(c->last.names);
  Py_CLEAR(c->op);
  Py_CLEAR(c->any);
  for (int i = 0; i < c->fields; i++) clear_codes(&c->field[i].codes);
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

static bool has_codes(py_kind kind) { return kind == CODE || kind == IF_CODE || kind == ONLY; }

/* What must be before a field: an operator before its number, a source of two dimensions ... */
static bool in_order(const py_call *c, int i, py_kind kind) {
  py_kind before = i ? c->field[i - 1].kind : VIEW;
  if (!i) return kind == VIEW; /* the first is what is written */
  if (kind == IMMEDIATE) return before == CODE || before == WORD;
  if (kind == IF_CODE) return before == CODE;
  return kind != AXES || c->field[1].kind == VIEW;
}

/* (kind, number of the argument or -1, dict or None, word, whether 0 is none) */
static int set_field(py_call *c, int i, PyObject *of) {
  py_field *f = &c->field[i];
  PyObject *codes;
  long long word;
  int kind, zero_is_none;
  if (!PyArg_ParseTuple(of, "iiOLp", &kind, &f->argument, &codes, &word, &zero_is_none)) return -1;
  if (kind < VIEW || kind > WORD || has_codes((py_kind)kind) != PyDict_Check(codes))
    return wrong("kind");
  if (f->argument < -1 || f->argument >= c->arguments) return wrong("argument");
  if (f->argument < 0 && kind != WORD && (kind != VIEW || i)) return wrong("field");
  if (!in_order(c, i, (py_kind)kind)) return wrong("order");
  f->kind = (py_kind)kind;
  if (kind == VIEW) c->operands |= UINT32_C(1) << i;
  f->word = word;
  f->zero_is_none = zero_is_none;
  if (has_codes(f->kind)) f->codes.dict = Py_NewRef(codes);
  if (f->argument < 0) return 0;
  c->taken |= UINT32_C(1) << f->argument;
  f->has_usual = PyFloat_CheckExact(c->default_of[f->argument]);
  if (f->has_usual) f->usual = PyFloat_AsDouble(c->default_of[f->argument]);
  return 0;
}

/* What the conditions need of the fields. */
static bool conditions_fit(const py_call *c) {
  static const py_kind matmul[] = {VIEW, VIEW, VIEW, FLAG, FLAG, FLAG, CODE};
  bool fits = !(c->conditions & (STORES | PREDICATE)) || c->field[1].kind == VIEW;
  fits = fits && (!(c->conditions & NO_ZEROS) || c->field[1].kind == FILL);
  fits = fits && (!(c->conditions & (APART | NO_ZEROS)) || (c->conditions & INTO));
  if (!(c->conditions & MATMUL)) return fits;
  int n = (int)(sizeof matmul / sizeof *matmul);
  fits = fits && (c->conditions & INTO) && c->fields == n;
  for (int i = 0; i < n && fits; i++) fits = c->field[i].kind == matmul[i];
  return fits;
}

static int set_fields(py_call *c, PyObject *fields) {
  if (c->conditions & TILE) {
    c->taken |= 1 << SHAPE | 1 << DTYPE | 1 << BUFFER | 1 << NAME;
    return c->arguments > NAME ? 0 : wrong("arguments");
  }
  if (!PyTuple_Check(fields) || PyTuple_Size(fields) < 2 || PyTuple_Size(fields) > PY_MOST)
    return wrong("fields");
  for (int i = 0; i < (int)PyTuple_Size(fields); i++) {
    c->fields = i + 1;
    PyObject *of = PyTuple_GetItem(fields, i);
    if (!PyTuple_Check(of)) return wrong("field");
    if (set_field(c, i, of) < 0) return -1;
  }
  return conditions_fit(c) ? 0 : wrong("source");
}

static int set_others(py_call *c) {
  const int of[] = {c->name, c->mask, c->dtype, c->at_engine, c->then.argument, c->then.negate};
  for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
    if (of[i] < -1 || of[i] >= c->arguments) return wrong("argument");
    if (of[i] >= 0) c->taken |= UINT32_C(1) << of[i];
  }
  return 0;
}

static int set_names(py_call *c) {
  c->arguments = (int)PyTuple_Size(c->names);
  if (c->arguments < 1 || c->arguments > PY_MOST || PyTuple_Size(c->defaults) != c->arguments)
    return wrong("arguments");
  for (int i = 0; i < c->arguments; i++) {
    c->name_of[i] = PyTuple_GetItem(c->names, i);
    c->default_of[i] = PyTuple_GetItem(c->defaults, i);
  }
  return 0;
}

/* Call(function, names, defaults, op, engine, fields, engines, types, (name, mask, dtype, engine),
 *      conditions, (op, engine, argument, negate) of a second record) */
static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *named) {
  PyObject *function, *names, *defaults, *op, *any, *fields, *engines, *types;
  long long then_op, then_engine;
  py_call *c = (py_call *)PyType_GenericAlloc(type, 0);
  if (!c) return NULL;
  c->call = call_it;
  c->last.n = -1;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!O!O!(iiii)i(LLii)", &function, &PyTuple_Type, &names,
                        &PyTuple_Type, &defaults, &PyLong_Type, &op, &PyLong_Type, &any,
                        &PyTuple_Type, &fields, &PyDict_Type, &engines, &PyDict_Type, &types,
                        &c->name, &c->mask, &c->dtype, &c->at_engine, &c->conditions, &then_op,
                        &then_engine, &c->then.argument, &c->then.negate) ||
      (named && PyDict_Size(named) && wrong("keyword") < 0) || !py_number(op, &c->opcode) ||
      !py_number(any, &c->engine)) {
    Py_DECREF((PyObject *)c);
    return NULL;
  }
  c->then.opcode = then_op;
  c->then.engine = then_engine;
  c->function = Py_NewRef(function);
  c->names = Py_NewRef(names);
  c->defaults = Py_NewRef(defaults);
  c->engines.dict = Py_NewRef(engines);
  c->types = Py_NewRef(types);
  c->op = Py_NewRef(op);
  c->any = Py_NewRef(any);
  if (set_names(c) == 0 && set_others(c) == 0 && set_fields(c, fields) == 0) return (PyObject *)c;
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
  return PyObject_GetAttr(((py_call *)self)->function, name);
}

static PyObject *text(PyObject *self) { return PyObject_Repr(((py_call *)self)->function); }

/* In a class it is a method, as a function is. */
static PyObject *bound(PyObject *self, PyObject *object, PyObject *type) {
  PyObject *function = ((py_call *)self)->function;
  if (!object) return Py_NewRef(self);
  return PyObject_CallMethod(function, "__get__", "OO", object, type ? type : Py_None);
}

/* By its name, as functions are pickled and copied. */
static PyObject *reduce(PyObject *self, PyObject *none) {
  (void)none;
  return PyObject_GetAttrString(self, "__qualname__");
}

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(py_call, function), READONLY, "Python's function."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(py_call, call), READONLY, NULL},
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
static PyType_Spec spec = {"_soma.Call", sizeof(py_call), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | HAVE_VECTORCALL, slots};

bool py_call_add_types(PyObject *module) {
  PyTypeObject *type;
  if (!py_add_type(module, &spec, &type, NULL)) return false;
  Py_DECREF((PyObject *)type);
#define X(name, text) \
  if (PyModule_AddIntConstant(module, #name, name) < 0) return false;
  PY_CONDITIONS(X)
#undef X
#define X(name, text) \
  if (PyModule_AddIntConstant(module, #name, name) < 0) return false;
  PY_FIELDS(X)
#undef X
  return true;
}
