/* Calls that are one record, or two: see call.c. */
#ifndef SOMA_RECORDER_CALL_H
#define SOMA_RECORDER_CALL_H

#include "recorder.h"

enum { PY_MOST = 24 }; /* arguments; fields */

/* Where a field's words come from. */
#define PY_FIELDS(X)                                                                       \
  X(VIEW, "an operand")                                                                    \
  X(NUMBER, "None, a number, a [P, 1] tile")                                               \
  X(IMMEDIATE, "the same, of the operator in the field before it")                         \
  X(FILL, "a number, as bits of dst's type")                                               \
  X(CODE, "what a dict has for it")                                                        \
  X(IF_CODE, "the same, or 0 if the field before it is 0")                                 \
  X(ONLY, "no words: what a dict has for it must be the field's own, or it is left out")   \
  X(FLAG, "True or False")                                                                 \
  X(STEPS, "[[step, count], ...]")                                                         \
  X(OFFSET, "a whole number, which could be a register")                                   \
  X(WHOLE, "a whole number")                                                               \
  X(AXES, "how many free axes: the source has two dimensions, and the axis is the second") \
  X(WORD, "the same in each call")
typedef enum py_kind {
#define X(name, text) name,
  PY_FIELDS(X)
#undef X
} py_kind;

/* What the operands must be like, so that the record is what the call means. */
#define PY_CONDITIONS(X)                                                                 \
  X(FLOATS, "sources are floats")                                                        \
  X(ON_CHIP, "sources are on the chip and begin at partition 0")                         \
  X(IN_HBM, "sources are in HBM, and as many as a tile can take")                        \
  X(STATIC, "all places are known now")                                                  \
  X(STORES, "dst is in HBM, the source a tile of its shape in SBUF; no handle is given") \
  X(ORDER, "numbers that are tiles are declared before the operands")                    \
  X(INTO, "dst is given")                                                                \
  X(APART, "dst is of other memory than the sources")                                    \
  X(PREDICATE, "the last source is of a type of predicates")                             \
  X(NO_ZEROS, "dst is not in PSUM, or the number not 0")                                 \
  X(MATMUL, "matmul.c makes it, of dst, stationary, moving ...")                         \
  X(TILE, "no record: a new tile; the arguments are a shape, a type, a memory, a name")
enum {
#define X(name, text) name##_BIT,
  PY_CONDITIONS(X)
#undef X
#define X(name, text) name = 1 << name##_BIT,
      PY_CONDITIONS(X)
#undef X
};

enum { FAILED = -1, OTHER = 0, TAKEN = 1 };

/* A dict, and what was asked of it last. */
typedef struct py_codes {
  PyObject *dict, *key, *found;
  int64_t word;
} py_codes;

typedef struct py_field {
  py_kind kind;
  int argument;      /* its number; -1: none */
  py_codes codes;    /* of CODE ... */
  int64_t word;      /* of WORD, ONLY, AXES; of what is left out */
  bool has_usual;    /* of a number: the default is a number, and stands for none */
  bool zero_is_none; /* 0 stands for none */
  double usual;
} py_field;

typedef PyObject *(*py_vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

typedef struct py_call {
  PyObject ob_base;
  py_vectorcall call;
  PyObject *function; /* of Python, or another py_call */
  PyObject *names, *defaults, *types;
  PyObject *name_of[PY_MOST], *default_of[PY_MOST]; /* those of the two tuples */
  PyObject *op, *any; /* the opcode and the engine as Python's numbers */
  int64_t opcode, engine;
  int arguments, fields, conditions;
  int dst, name, mask, dtype, at_engine; /* numbers of arguments, or -1 */
  uint32_t taken;                        /* the arguments that are not left out */
  uint32_t operands;                     /* the fields that are VIEW */
  struct { /* how arguments were given last: calls of a place all name the same */
    PyObject *names;
    Py_ssize_t n, more;  /* in order, -1 before the first call; by name */
    uint32_t given;      /* which */
    uint8_t at[PY_MOST]; /* those that are named */
  } last;
  py_codes engines;
  struct { /* a second record, if an argument is given: it reads sums into that */
    int64_t opcode, engine;
    int argument, negate;
  } then;
  py_field field[PY_MOST];
} py_call;

/* A call as it was given, with what its fields are worth. */
typedef struct py_given {
  PyObject *of[PY_MOST]; /* the arguments; the caller has them */
  py_view *view[PY_MOST];
  int64_t word[PY_MOST][12];
  int words[PY_MOST];
  uint32_t given; /* which arguments are */
  uint32_t views; /* the fields that have one */
  int64_t engine;
  PyObject *engine_of;
} py_given;

/* The arguments of a call; false: Python's function takes or refuses them. */
bool py_call_bind(py_call *c, PyObject *const *args, Py_ssize_t n, PyObject *names,
                  py_given *g);
bool py_call_left_out(const py_call *c, const py_given *g, int argument);
/* TAKEN, and what a dict has for a key, as an object and as a number; OTHER if it has nothing. */
int py_code_of(py_codes *codes, PyObject *key, PyObject **found, int64_t *word);
/* What field i, and the engine, are worth. */
int py_call_value(py_call *c, py_given *g, int i);
int py_call_engine(py_call *c, py_given *g);
/* matmul.c: the records of a matmul. OTHER, FAILED, TAKEN. */
int py_matmul(py_recording *r, const py_call *c, const py_given *g);
/* nc_matmul(stationary, moving), the older style: its arguments are one place before their own. */
void py_matmul_shift(const py_call *c, py_given *g);
/* The sizes of the tile that a call without dst returns, and how many; 0: that is Python's. */
int py_matmul_sizes(const py_given *g, int64_t *sizes);
/* What is held back for it (pending.c). */
PyObject *py_matmul_held(const py_call *c, const py_given *g, PyObject *tile);
#endif
