/* Arrays of tiles, and what calls return. */
#include "recorder.h"

/* ---- Arrays of tiles ------------------------------------------------------------------------- */

enum { MOST_LEAD = 4, MOST_FLAT = 4096 };

/* `tiles`: by the leading indices, of which there are `lead`. `flat`: the same in their order, if
 * they are all that there can be of so many sizes; made when an index first asks. */
typedef struct blocks {
  PyObject ob_base;
  PyObject *tiles;
  Py_ssize_t lead, n;
  PyObject **flat;
  int64_t size[MOST_LEAD];
  bool tried;
} blocks;

static int blocks_traverse(PyObject *self, visitproc visit, void *arg) {
  const blocks *b = (blocks *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(b->tiles);
  for (Py_ssize_t i = 0; b->flat && i < b->n; i++) Py_VISIT(b->flat[i]);
  return 0;
}

static void clear_flat(blocks *b) {
  PyObject **flat = b->flat;
  b->flat = NULL;
  b->tried = false;
  for (Py_ssize_t i = 0; flat && i < b->n; i++) Py_XDECREF(flat[i]);
  PyMem_Free(flat);
}

static int blocks_clear(PyObject *self) {
  Py_CLEAR(((blocks *)self)->tiles);
  clear_flat((blocks *)self);
  return 0;
}

static void blocks_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  blocks_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

/* ---- Tiles in their order -------------------------------------------------------------------- */

/* Key number d of x[keys]. */
static PyObject *key_at(PyObject *keys, Py_ssize_t d) {
  return PyTuple_Check(keys) ? PyTuple_GetItem(keys, d) : keys;
}

/* The place of the tile that the first keys name; -1 if they are no numbers of one. */
static Py_ssize_t place_of(const blocks *b, PyObject *keys) {
  Py_ssize_t at = 0;
  for (Py_ssize_t d = 0; d < b->lead; d++) {
    PyObject *k = key_at(keys, d);
    int over;
    if (!PyLong_CheckExact(k)) return -1;
    int64_t i = PyLong_AsLongLongAndOverflow(k, &over);
    if (over || i < 0 || i >= b->size[d]) return -1;
    at = at * (Py_ssize_t)b->size[d] + (Py_ssize_t)i;
  }
  return at;
}

/* Whether a key of `tiles` is so many numbers; makes the sizes large enough for it. */
static bool measure(blocks *b, PyObject *key) {
  if (!PyTuple_CheckExact(key) || PyTuple_Size(key) != b->lead) return false;
  for (Py_ssize_t d = 0; d < b->lead; d++) {
    PyObject *k = PyTuple_GetItem(key, d);
    int over;
    int64_t i = PyLong_CheckExact(k) ? PyLong_AsLongLongAndOverflow(k, &over) : -1;
    if (i < 0 || i >= MOST_FLAT) return false;
    if (i >= b->size[d]) b->size[d] = i + 1;
  }
  return true;
}

static void make_flat(blocks *b) {
  PyObject *key, *tile;
  Py_ssize_t n = 1, at = 0;
  b->tried = true;
  if (b->lead < 1 || b->lead > MOST_LEAD) return;
  for (Py_ssize_t d = 0; d < b->lead; d++) b->size[d] = 0;
  while (PyDict_Next(b->tiles, &at, &key, &tile))
    if (!measure(b, key)) return;
  for (Py_ssize_t d = 0; d < b->lead && n <= MOST_FLAT; d++) n *= (Py_ssize_t)b->size[d];
  if (n > MOST_FLAT || n != PyDict_Size(b->tiles)) return;
  PyObject **flat = PyMem_Calloc((size_t)n, sizeof *flat);
  if (!flat) return; /* it goes without */
  b->n = n;
  b->flat = flat;
  at = 0;
  while (PyDict_Next(b->tiles, &at, &key, &tile)) flat[place_of(b, key)] = Py_NewRef(tile);
}

/* The tile that a key of more than its numbers, or of just these, begins with: borrowed, or NULL
 * if Python finds it. */
static PyObject *tile_of(blocks *b, PyObject *key, Py_ssize_t *n) {
  if (!b->tiles || !PyDict_Check(b->tiles)) return NULL;
  if (!b->tried) make_flat(b);
  *n = PyTuple_Check(key) ? PyTuple_Size(key) : 1;
  Py_ssize_t at = b->flat && *n >= b->lead ? place_of(b, key) : -1;
  return at < 0 || !PY_IS_VIEW(b->flat[at]) ? NULL : b->flat[at];
}

/* tile[what of the key is left] */
static PyObject *rest_of(const blocks *b, PyObject *tile, PyObject *key, Py_ssize_t n) {
  PyObject *keys[PY_MAX_DIMS];
  Py_ssize_t rest = n - b->lead;
  if (!rest) return Py_NewRef(tile);
  if (rest > PY_MAX_DIMS) {
    PyObject *left = PyTuple_GetSlice(key, b->lead, n);
    PyObject *found = left ? PyObject_GetItem(tile, left) : NULL;
    Py_XDECREF(left);
    return found;
  }
  for (Py_ssize_t i = 0; i < rest; i++) keys[i] = PyTuple_GetItem(key, b->lead + i);
  Py_INCREF(tile);
  PyObject *found = py_view_at(tile, keys, rest, NULL);
  Py_DECREF(tile);
  return found;
}

static PyObject *blocks_item(PyObject *self, PyObject *key) {
  Py_ssize_t n;
  PyObject *tile = tile_of((blocks *)self, key, &n);
  if (!tile) return PyObject_CallMethodObjArgs(self, py._item, key, NULL);
  return rest_of((blocks *)self, tile, key, n);
}

static int blocks_set(PyObject *self, PyObject *key, PyObject *value) {
  Py_ssize_t n;
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "tiles of an array cannot be deleted");
    return -1;
  }
  PyObject *tile = tile_of((blocks *)self, key, &n), *rec = PyList_GetItem(py.recorders, 0);
  if (!rec) return -1;
  if (tile && py_is_recording(rec))
    return py_assign_to(rest_of((blocks *)self, tile, key, n), value);
  PyObject *done = PyObject_CallMethodObjArgs(self, py._set_item, key, value, NULL);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

static PyObject *get_tiles(PyObject *self, void *unused) {
  (void)unused;
  PyObject *tiles = ((blocks *)self)->tiles;
  return Py_NewRef(tiles ? tiles : Py_None);
}

static int set_tiles(PyObject *self, PyObject *tiles, void *unused) {
  (void)unused;
  clear_flat((blocks *)self);
  py_put(&((blocks *)self)->tiles, Py_XNewRef(tiles));
  return 0;
}

static PyObject *get_leads(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromSsize_t(((blocks *)self)->lead);
}

static int set_leads(PyObject *self, PyObject *leads, void *unused) {
  int64_t lead;
  (void)unused;
  if (!leads || !py_number(leads, &lead)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an array has leading indices");
    return -1;
  }
  clear_flat((blocks *)self);
  ((blocks *)self)->lead = (Py_ssize_t)lead;
  return 0;
}

static PyGetSetDef blocks_fields[] = {
    {"tiles", get_tiles, set_tiles, "The tiles by their leading indices; it does not change.",
     NULL},
    {"leads", get_leads, set_leads, "The number of leading indices.", NULL},
    {0},
};
static PyType_Slot blocks_slots[] = {
    {Py_tp_dealloc, blocks_free},
    {Py_tp_traverse, blocks_traverse},
    {Py_tp_clear, blocks_clear},
    {Py_tp_getset, blocks_fields},
    {Py_mp_subscript, blocks_item},
    {Py_mp_ass_subscript, blocks_set},
    {0},
};
static PyType_Spec blocks_spec = {"_soma.Blocks", sizeof(blocks), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  blocks_slots};

/* ---- What calls return ----------------------------------------------------------------------- */

/* A recorded call: its first and last instruction. */
typedef struct handle {
  PyObject ob_base;
  int64_t first, last;
} handle;

static void handle_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  py_pool_end(&py.handles, self, type == py.handle);
  Py_DECREF(type);
}

static PyMemberDef handle_members[] = {
    {"first", T_LONGLONG, offsetof(handle, first), READONLY, "Its first instruction."},
    {"last", T_LONGLONG, offsetof(handle, last), READONLY, "Its last instruction."},
    {0},
};
static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_free}, {Py_tp_members, handle_members}, {0}};
static PyType_Spec handle_spec = {"_soma.Handle", sizeof(handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, handle_slots};

static bool name_it(py_recording *r, PyObject *name, PyObject *made) {
  PyObject *named = PyObject_GetAttr((PyObject *)r, py.named);
  int status = named ? PyObject_SetItem(named, name, made) : -1;
  Py_XDECREF(named);
  return status == 0;
}

PyObject *py_handle(py_recording *r, int64_t first, PyObject *name) {
  if (!py.handle) {
    PyErr_SetString(PyExc_TypeError, "there is no class of handles");
    return NULL;
  }
  if (r->older) {
    PyObject *told = PyObject_CallMethodObjArgs((PyObject *)r, py._tell_older, NULL);
    if (!told) return NULL;
    Py_DECREF(told);
  }
  PyObject *made = py_pool_new(&py.handles, py.handle, 0, sizeof(handle));
  if (!made) return NULL;
  ((handle *)made)->first = first;
  /* The last of its instructions is the one that was recorded last. */
  ((handle *)made)->last = r->count - 1;
  int named = name && name != Py_None ? PyObject_IsTrue(name) : 0;
  if (named < 0 || (named && !name_it(r, name, made))) Py_CLEAR(made);
  return made;
}

PyDoc_STRVAR(done_doc,
             "done(rec, first, name=None): the handle of a call whose instructions begin at number "
             "`first`.");
static PyObject *done(PyObject *module, PyObject *const *args, Py_ssize_t n) {
  int64_t first;
  (void)module;
  if (n < 2 || n > 3 || !py_is_recording(args[0])) {
    PyErr_SetString(PyExc_TypeError, "done() takes a recording, a number and a name");
    return NULL;
  }
  if (!py_number(args[1], &first)) return NULL;
  return py_handle((py_recording *)args[0], first, n > 2 ? args[2] : NULL);
}

static PyMethodDef functions[] = {
    {"done", (PyCFunction)(void (*)(void))done, METH_FASTCALL, done_doc}, {0}};

bool py_blocks_add_types(PyObject *module) {
  PyTypeObject *arrays;
  bool fine = py_add_type(module, &blocks_spec, &arrays, NULL);
  if (fine) Py_DECREF((PyObject *)arrays);
  return fine && py_add_type(module, &handle_spec, &py.own_handle, &py.handle) &&
         PyModule_AddFunctions(module, functions) == 0;
}
