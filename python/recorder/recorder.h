/* The recorder of kernels: a module of CPython in its limited API, over libsoma.
 *
 * Objects: Index and Mask (affine expressions over axes), Storage and View (memory and a view of
 * it, from which soma.tensor makes Storage and Tensor), Slice (ds()), Recording (what soma.record
 * makes Recorder from). What is a kernel's own business (names, styles, warnings) is Python's; a
 * call that none of the functions here decides goes to a method of the Python class.
 *
 * All run with the interpreter's lock. A function that fails has set Python's error. */
#ifndef SOMA_RECORDER_H
#define SOMA_RECORDER_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#include "../../vm/api/soma_kernel.h"

/* ---- Names and what the module takes from soma's Python (module.c) --------------------------- */

#define PY_NAMES(X)   \
  X(adds)             \
  X(asked)            \
  X(assign)           \
  X(at)               \
  X(begin_with_zeros) \
  X(check_bounds)     \
  X(code)             \
  X(declare)          \
  X(f_back)           \
  X(f_lasti)          \
  X(like)             \
  X(name)             \
  X(named)            \
  X(needed)           \
  X(settle)           \
  X(size)             \
  X(start)            \
  X(_assign)          \
  X(_dropped)         \
  X(_dyn_words)       \
  X(_failed)          \
  X(_file_of)         \
  X(_gathered_first)  \
  X(_index)           \
  X(_is_kept)         \
  X(_item)            \
  X(_keep_order)      \
  X(_placed)          \
  X(_set_item)        \
  X(_tell_older)      \
  X(written)          \
  X(info)             \
  X(tiles)

/* What makes expressions, as messages call them. Comparisons are in Python's order of them. */
#define PY_FORMATS(X)          \
  X(LESS, "%s < %s")           \
  X(LESS_EQUAL, "%s <= %s")    \
  X(EQUAL, "%s == %s")         \
  X(UNEQUAL, "%s != %s")       \
  X(GREATER, "%s > %s")        \
  X(GREATER_EQUAL, "%s >= %s") \
  X(SUM, "%s + %s")            \
  X(DIFFERENCE, "%s - (%s)")   \
  X(PRODUCT, "%s * (%s)")      \
  X(QUOTIENT, "(%s) // %s")    \
  X(REST, "%s %% %s")          \
  X(ARANGE1, "arange(%s)") X(ARANGE2, "arange(%s, %s)") X(ARANGE3, "arange(%s, %s, %s)")
enum {
#define X(name, format) PY_##name,
  PY_FORMATS(X)
#undef X
      PY_NFORMATS
};

/* Memory of objects of one class, to be used again: kernels make and drop many views and indices.
 * `whole`: its objects are as large as those of the class here. */
typedef struct py_pool {
  PyObject *kept[64];
  int n;
  bool whole;
} py_pool;
/* A new object, of which the first `bytes` are 0, the others maybe those of one before; it is not
 * tracked, unless its memory is new. */
PyObject *py_pool_new(py_pool *pool, PyTypeObject *type, Py_ssize_t items, size_t bytes);
/* Gives back the memory of an object, which nothing tracks any more. */
void py_pool_end(py_pool *pool, PyObject *x, bool usual);
/* The same without a pool. A class made in Python from one here may have the collector's header
 * though its base has none. */
static inline void py_release(PyObject *x) {
  if (PyType_GetFlags(Py_TYPE(x)) & Py_TPFLAGS_HAVE_GC)
    PyObject_GC_Del(x);
  else
    PyObject_Free(x);
}

/* Kinds of types. PY_NO_PREDICATE: that Python views as another before it is a predicate. */
enum { PY_FLOAT = 1, PY_NO_PREDICATE = 2 };

typedef struct py_shared {
#define X(name) PyObject *name;
  PY_NAMES(X)
#undef X
  PyObject *format[PY_NFORMATS];
  PyObject *error;      /* soma.errors.KernelError */
  PyObject *whole;      /* soma.checked.whole */
  PyObject *getframe;   /* sys._getframe */
  PyObject *one, *sbuf, *psum; /* numbers */
  PyObject *empty;      /* a string */
  PyObject *recorders;  /* the first: that of the kernel that is being built */
  PyObject *waiting;    /* masks on the left of an `and`: a list */
  /* The Python classes, once they are there. */
  PyTypeObject *index, *mask, *view, *storage, *slice;
  PyTypeObject *own_index, *own_mask, *own_view, *own_storage; /* the classes here, their bases */
  PyTypeObject *recording, *handle, *own_handle;
  PyTypeObject *recorder; /* the class of the last recording: Python's, made from that here */
  PyObject *same_view, *shares; /* functions of soma.tensor */
  PyObject *single;             /* the type float32 */
  PyObject *matmul;             /* that of nki.isa which does all matmuls */
  PyTypeObject *float32;        /* NumPy's */
  uint8_t floats[256];          /* by a soma_dtype: PY_FLOAT, PY_NO_PREDICATE, or 0 */
  Py_ssize_t slice_at[3];       /* where a slice has its start, stop and step; 0: not known */
  py_pool views, indices, handles;
} py_shared;
extern py_shared py;

/* Puts an object, of which the caller gives its reference, in the place of another. */
static inline void py_put(PyObject **field, PyObject *value) {
  PyObject *old = *field;
  *field = value;
  Py_XDECREF(old);
}

/* Raises KernelError. */
void py_error(const char *format, ...);
/* a * b and a + b; an error that names the number if it does not fit in 64 bits. */
bool py_times(int64_t a, int64_t b, int64_t *out);
bool py_plus(int64_t a, int64_t b, int64_t *out);

/* Reads a whole number of Python or NumPy: 1; 0 where x is something else; -1 with an error. */
int py_whole(PyObject *x, int64_t *out);
/* The same for what must be one that fits in 64 bits. */
bool py_number(PyObject *x, int64_t *out);
PyObject *py_list(const int64_t *numbers, Py_ssize_t n, Py_ssize_t step, bool tuple);
bool py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **own, PyTypeObject **used);

/* ---- Index expressions (index.c, mask.c) ------------------------------------------------------
 */

/* at + the sum over axes of coef * (0 .. size - 1).
 *
 * What messages call it is a string, or (format, parts ...): py_said(). Loops make many expressions
 * of which no message is made, so that usual ones have only what it is made from. */
typedef struct py_index {
  PyObject_VAR_HEAD PyObject *from[2]; /* two indices, an index and NULL for k[0]; or a text */
  int64_t at, k[3];
  int format, depth; /* PY_NFORMATS: from[0] is the text; depth: of what it is made from */
  soma_view_axis axis[];
} py_index;

#define PY_IS_INDEX(x) (Py_TYPE(x) == py.index)
/* The same as soma_view.h has it. */
static inline soma_view_expr py_expr(const py_index *x) {
  return (soma_view_expr){x->at, (uint32_t)x->ob_base.ob_size, x->axis, NULL};
}
static inline Py_ssize_t py_axes(const py_index *x) { return x->ob_base.ob_size; }

py_index *py_index_new(Py_ssize_t axes);
/* Its least and greatest value. */
bool py_index_bounds(const py_index *x, int64_t *low, int64_t *high);
/* x * times + plus, without a text. */
py_index *py_index_scaled(const py_index *x, int64_t times, int64_t plus);
/* Gives an index its text, which is taken over and may be NULL with an error set. */
PyObject *py_index_done(py_index *x, PyObject *said);
/* The same: the text is `format` of a and b, or of a and k where b is NULL. */
PyObject *py_index_from(py_index *x, int format, const py_index *a, const py_index *b, int64_t k);
/* What messages call it: a new reference. */
PyObject *py_said(const py_index *x);
/* The same as a string. */
PyObject *py_index_text(const py_index *x);
/* The same index with axes of one number before its own: a new reference. */
PyObject *py_index_over(py_index *x, Py_ssize_t axes);
PyObject *py_index_compare(PyObject *self, PyObject *other, int op);

/* A conjunction of `term >= 0`; `ranges`: what soma.masks has found. said: NULL if it is what the
 * first term is called. */
typedef struct py_mask {
  PyObject ob_base;
  PyObject *terms, *said, *ranges;
  char equal;
} py_mask;

/* Whether each bound of a mask alone holds in all of a shape; 0 if that takes a closer look; -1
 * with an error. */
int py_mask_leaves_all(const py_mask *m, const soma_view_dim *dims, Py_ssize_t ndim);

bool py_index_add_types(PyObject *module);
bool py_mask_add_types(PyObject *module);

/* ---- Memory and views (view.c, key.c, words.c) ------------------------------------------------
 */

typedef struct py_storage {
  PyObject ob_base;
  PyObject *site, *zero; /* zero: zeros that may be needed, a soma.zeros.ZeroState, or None */
  int64_t handle, order; /* handle: the builder's number, 0 before its first use */
  int memory;            /* 0: HBM, 1: SBUF, 2: PSUM */
  char lent;
  PyObject *place, *left; /* as soma.tensor.Storage says */
} py_storage;

enum { PY_MAX_DIMS = SOMA_VIEW_DIMS };

typedef struct py_view {
  PyObject ob_base;
  PyObject *storage, *dtype, *dyn, *bound, *pending, *weak;
  int64_t part, off;
  int ndim, size, code; /* bytes of an element; its soma_dtype */
  soma_view_dim dim[PY_MAX_DIMS];
} py_view;

#define PY_IS_VIEW(x) (Py_TYPE(x) == py.view)
static inline py_storage *py_storage_of(const py_view *v) { return (py_storage *)v->storage; }

/* start : start + size of an axis. */
typedef struct py_slice {
  PyObject ob_base;
  PyObject *start, *size;
} py_slice;

/* The view as soma_view.h has it, of its dynamic parts only that its rows are chosen by an index.
 */
void py_view_get(const py_view *v, soma_view *out);
/* What messages call it, or NULL; *keep has the text. */
const char *py_view_name(const py_view *v, PyObject **keep);
/* Puts what a view became into a new one. */
void py_view_put(py_view *t, const soma_view *s);
/* Another view of the storage of v, without dimensions, dynamic parts or bounds. */
py_view *py_view_like(const py_view *v);
bool py_view_add_types(PyObject *module);
/* v._other(what, numbers ...): another view of the same elements (shape.c). */
PyObject *py_view_other(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *py_view_subscript(PyObject *self, PyObject *key);
/* The same of n keys; key: the object that has them, or NULL if that is a tuple of them. */
PyObject *py_view_at(PyObject *self, PyObject *const *keys, Py_ssize_t n, PyObject *key);

/* Words of a record. `more`: for those that do not fit. */
typedef struct py_words {
  int64_t *w;
  size_t n, cap;
  int64_t own[256];
} py_words;

void py_words_begin(py_words *w);
void py_words_end(py_words *w);
bool py_words_room(py_words *w, size_t n);
static inline bool py_words_add(py_words *w, const int64_t *from, size_t n) {
  if (w->cap - w->n < n && !py_words_room(w, n)) return false;
  for (size_t i = 0; i < n; i++) w->w[w->n++] = from[i]; /* they are few */
  return true;
}
bool py_words_add_number(py_words *w, PyObject *x);
/* What must have happened before a view's memory is used: it is declared, zeros are there ... */
bool py_settle_now(py_view *v);
static inline bool py_settle(py_view *v) {
  const py_storage *s = py_storage_of(v);
  bool settled = s->handle && !v->bound && (!s->zero || s->zero == Py_None);
  return settled || py_settle_now(v);
}
/* An operand as the builder takes it: merge joins dimensions where it can. */
bool py_words_add_view(py_words *w, py_view *v, bool merge);
/* A part of a record: a View, bytes of words, a number, or a tuple of numbers. */
bool py_words_add_part(py_words *w, PyObject *part);

/* ---- The recording (record.c, place.c) --------------------------------------------------------
 */

typedef struct py_code {
  PyObject *code;
  int64_t file; /* -1: not the user's */
  int32_t *line;
  size_t nlines;
} py_code;

/* What tiles of a place are made like, and what was asked for: (shape, type, memory, name). */
typedef struct py_made {
  int64_t file, line;
  PyObject *asked;
  py_view *like;
} py_made;

enum { PY_MADE = 64 };

typedef struct py_recording {
  PyObject ob_base;
  PyObject *pending, *at, *frame, *loops, *log, *early, *hints, *sites;
  PyObject *weights; /* words of what the tensor engine has loaded, when count was weights_at */
  soma_kernel *kernel;
  int64_t count, numbering, weights_at;
  int ordered;
  char old_style, older;
  char direct;    /* the innermost frame is the user's, not that of a function of nki */
  py_code *codes; /* by the address of a code */
  size_t ncodes, capcodes;
  py_made made[PY_MADE]; /* by the line */
} py_recording;

/* Whether it is a recording. */
static inline bool py_is_recording(PyObject *x) {
  if (Py_TYPE(x) == py.recorder) return true;
  if (!PyObject_TypeCheck(x, py.recording)) return false;
  py_put((PyObject **)&py.recorder, Py_NewRef((PyObject *)Py_TYPE(x)));
  return true;
}

/* The place of the user's call: the innermost frame that is the user's. */
bool py_place(py_recording *r, int64_t *file, int64_t *line);
enum { AT_FLAGS = 3 }; /* the word of a record that has them */
/* Begins a record; gives it to the builder, with its place. */
bool py_record_begin(py_words *w, int64_t op, int64_t engine, int64_t flags);
bool py_record_put(py_recording *r, py_words *w);
/* A new tile for a call that has asked for the same before, from its place; else None. */
PyObject *py_again(py_recording *r, PyObject *shape, PyObject *dtype, PyObject *memory);
bool py_record_add_types(PyObject *module);

/* ---- Tiles (tiles.c) --------------------------------------------------------------------------
 */

/* A new tile like those that the place of this call made when it asked for the same; NULL, without
 * an error, if that is not known. */
PyObject *py_tile_again(py_recording *r, const int64_t *sizes, int ndim, PyObject *dtype,
                        PyObject *memory, PyObject *name);
/* Methods of Recording. */
PyObject *py_tile(PyObject *self, PyObject *like);
PyObject *py_keep_site(PyObject *self, PyObject *const *args, Py_ssize_t n);
int py_tiles_traverse(py_recording *r, visitproc visit, void *arg);
void py_tiles_clear(py_recording *r);

/* ---- Matmuls that are held back (matmul.c) ----------------------------------------------------
 */

/* What there is beside the operands; it is held back as bytes. */
typedef struct py_product {
  int64_t load, op; /* opcodes */
  int64_t acc, transpose, onezero, moved;
  int64_t write, add; /* codes of acc; less than 0: what the builder finds */
} py_product;
/* Emits it into dst. */
bool py_matmul_into(py_recording *r, PyObject *bytes, PyObject *operands, py_view *dst);
/* adds(bytes): the same, added to a sum. */
PyObject *py_matmul_adds(PyObject *module, PyObject *bytes);

/* ---- What is held back (pending.c) ------------------------------------------------------------
 */

/* Emits what is held back. */
bool py_flush(py_recording *r);
/* Lets the held back instructions of `value` write `view` instead. 1; 0 if they cannot, or if the
 * result would not have the same bits; -1 with an error. */
int py_retarget(py_recording *r, py_view *value, py_view *view);
/* x[key] = value. */
int py_view_assign(PyObject *self, PyObject *key, PyObject *value);
/* The same where `view`, which it takes over, is x[key]; NULL with an error. */
int py_assign_to(PyObject *view, PyObject *value);
/* Methods of Recording. */
PyObject *py_flush_call(PyObject *self, PyObject *none);
PyObject *py_hold_call(PyObject *self, PyObject *p);
PyObject *py_lend_call(PyObject *self, PyObject *tile);
PyObject *py_into_call(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* ---- Arrays of tiles, handles (blocks.c) ------------------------------------------------------
 */

/* The handle of a call whose instructions begin at number `first`; name: NULL or None for none. */
PyObject *py_handle(py_recording *r, int64_t first, PyObject *name);
bool py_blocks_add_types(PyObject *module);

/* ---- Calls that are one record (call.c) -------------------------------------------------------
 */

bool py_call_add_types(PyObject *module);
#endif
