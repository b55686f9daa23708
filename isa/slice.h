/* A pattern as a person writes it: a slice of its tile or tensor.
 *
 *   float32@hbm[x,0+r0*64][1,64][64,128]     of x tensor float32[1000, 64]
 *   x[r0:+128]                               is its slice; the second dimension is whole */
#ifndef ISA_SLICE_H
#define ISA_SLICE_H

#include "program.h"

/* What is taken of one dimension: `len` elements (the bound, when a register gives the size), each
 * `step` after the one before, the first at `start` plus the value of a dynamic offset. */
typedef struct isa_slice_dim {
  int64_t size, stride; /* of the dimension: its elements, and elements from one to the next */
  int64_t start, len, step;
  int dyn;        /* number of the pattern's dynamic offset, -1: none */
  int rows;       /* the register that gives the dimension's size, with `size` the most; -1: none */
  bool kept;      /* else one index, and the dimension is dropped */
  bool sized;     /* a register gives the size */
  uint32_t times; /* of a dimension of one element that is broadcast; else 0 */
} isa_slice_dim;

typedef struct isa_slice {
  const char *name;
  unsigned ndim, first; /* first: 1 of a tile, whose dimension 0 is its partitions; else 0 */
  isa_slice_dim dim[ISA_TENSOR_DIMS];
  uint8_t dtype; /* of the tile or tensor; the pattern may view it as another */
} isa_slice;

/* False if the pattern has no name or is not a slice of what it names. Then *out still has, for a
 * pattern with a name, the declaration; without a name out->name is NULL. */
bool isa_slice_of(const isa_program *p, const isa_ap *ap, isa_slice *out);

/* Which part of a tensor the bytes lo to hi - 1 are: "row 5", "rows 384..511", "[3]",
 * "[0, 60] to [0, 63]". Returns whether it is more than one row or element. */
bool isa_slice_put_bytes(const isa_tensor *t, uint64_t lo, uint64_t hi, isa_buf *out);

#endif
