/* Headers of .npy files (NumPy's format 1.0, 2.0 and 3.0), read as hostile input.
 *
 *   \x93NUMPY 1 0  118 0  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * A dtype that NumPy lacks is a structured type of one unsigned field with the dtype's name:
 * [('bfloat16', '<u2')]. */
#ifndef ISA_NPY_H
#define ISA_NPY_H

#include "program.h"

enum {
  ISA_NPY_FIRST = 10, /* bytes that say how long the first part is */
  ISA_NPY_HEAD = 12,  /* the most of that part: magic, version, length of the text */
  ISA_NPY_TEXT = 65536
};

typedef struct isa_npy {
  char descr[64]; /* as it stands in the file; of a structured type its field's */
  char kind;      /* b i u f V */
  bool big, fortran;
  int named; /* the dtype, if the file gives its name; else -1 */
  unsigned bytes, ndim;
  int64_t shape[ISA_TENSOR_DIMS];
} isa_npy;

/* The length of the first part of a file whose first bytes are given, n of them, 0 on refusal. */
unsigned isa_npy_begin(const uint8_t *file, size_t n, isa_error *e);
/* The length of the text after the first part, which is whole; at most ISA_NPY_TEXT, -1 when it
 * says more. */
int64_t isa_npy_length(const uint8_t head[ISA_NPY_HEAD], isa_error *e);
/* Reads the text, a Python dict with exactly the keys descr, fortran_order and shape. */
bool isa_npy_text(const char *text, size_t n, isa_npy *out, isa_error *e);

#endif
