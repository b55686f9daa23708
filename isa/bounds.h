/* The bounds of a pattern, and the message when registers have moved it out of them:
 *
 *   x[r0:+128] with r0 = 896 is rows 896..1023; x has rows 0..999 */
#ifndef ISA_BOUNDS_H
#define ISA_BOUNDS_H

#include "program.h"

typedef struct isa_bounds {
  const char *name;
  int64_t first, last; /* bytes that a pattern touches, one past the last */
  int64_t lo, hi;      /* those that it may */
} isa_bounds;

/* The tile, the tensor or the partition of a memory that contains a pattern of p. */
static inline void isa_ap_home(const isa_program *p, const isa_ap *ap, isa_bounds *b) {
  b->lo = 0;
  b->name = isa_space_name(ap->space);
  /* A tensor, else a tile that the pattern names, else the whole partition. */
  if (ap->space == ISA_HBM) {
    b->hi = (int64_t)p->tensors[ap->base - 1].bytes;
    b->name = p->tensors[ap->base - 1].name;
  } else if (ap->base) {
    const isa_tile *t = &p->tiles[ap->base - 1];
    b->lo = t->offset;
    b->hi = (int64_t)t->offset + t->bytes;
    b->name = t->name;
  } else {
    b->hi = ap->space == ISA_PSUM ? p->target->psum_bytes : p->target->sbuf_usable;
  }
}

/* Whether the pattern stays there with its first element at `offset`. Where the rows of a gather
 * lie, and the elements of `.indirect`, is a matter of the index: only the first one counts. */
bool isa_ap_stays(const isa_program *p, const isa_ap *ap, int64_t offset, isa_bounds *b);

/* The largest size of the dimension that a register sizes. */
static inline uint32_t isa_ap_most(const isa_ap *ap) {
  return ap->size_dim == 1 ? ap->nparts : ap->dim[ap->size_dim - 2].num;
}
/* Sets the size of that dimension of *ap; false if it is too large. */
static inline bool isa_ap_resize(isa_ap *ap, uint32_t size) {
  if (size > isa_ap_most(ap)) return false;
  /* size_dim 1 is the partitions, 2 the first of dim[]. */
  if (ap->size_dim == 1)
    ap->nparts = (uint16_t)size;
  else
    ap->dim[ap->size_dim - 2].num = size;
  return true;
}
/* Moves *offset, in bytes, by a dynamic offset of that value: false when it overflows. */
static inline bool isa_ap_move(const isa_ap *ap, const isa_dyn *d, int64_t value, int64_t *offset) {
  int64_t bytes;
  return !__builtin_mul_overflow(d->stride, (int64_t)isa_dtype_bytes(ap->dtype), &bytes) &&
         !__builtin_mul_overflow(bytes, value, &bytes) &&
         !__builtin_add_overflow(*offset, bytes, offset);
}

/* The message, of pattern `index` (1-based) of a core: size is what its register gives, moved the
 * values of its dynamic offsets, NULL when they are not known. */
void isa_put_bounds(const isa_program *p, unsigned core, uint32_t index, uint32_t size,
                    const int64_t *moved, const isa_bounds *b, isa_buf *out);

#endif
