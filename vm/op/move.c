/* Vector instructions that move elements between partitions: transpose32, shuffle. */
#include "op.h"

#include <string.h>

enum { QUADRANT = 32 };

/* ---- transpose32 -------------------------------------------------------------------------- */

/* The block of `rows` partitions from p and `cols` elements from i, transposed to q and j. It is
 * read as a whole first, so it may be in place. */
static void transpose_block(const struct vm_TRANSPOSE32 *a, uint32_t p, uint64_t i, uint32_t rows,
                            uint32_t cols, uint32_t q, uint64_t j) {
  uint32_t in[QUADRANT][QUADRANT], out[QUADRANT][QUADRANT];
  const unsigned esize = a->src.esize;
  const uint8_t *from = vm_row_at(&a->src, p, i);
  uint8_t *to = vm_row_at(&a->dst, q, j);
  /* A source that is not dense is gathered; a dense one is turned where it is. */
  for (uint32_t r = 0; r < rows && !from; r++) vm_load_raw(in[r], &a->src, p + r, i, cols);
  vm_kern_turn(out, sizeof out[0], from ? (const void *)from : in,
               from ? (ptrdiff_t)a->src.step[0] : (ptrdiff_t)sizeof in[0], rows, cols, esize);
  for (uint32_t c = 0; c < cols; c++) {
    if (to)
      memcpy(to + (int64_t)c * a->dst.step[0], out[c], rows * esize);
    else
      /* Into rows that are not dense. */
      vm_store_raw(&a->dst, q + c, j, out[c], rows);
  }
}

vm_verdict vm_op_transpose32(vm_dp *d, const struct vm_TRANSPOSE32 *a) {
  uint32_t parts = a->src.num[0];
  uint64_t elems = a->src.elems;
  if (elems == 0 || parts == 0) return VM_RETIRE;
  /* One block may have any shape up to 32 x 32; its result has the shape turned. */
  if (parts <= QUADRANT && elems <= QUADRANT && a->dst.num[0] == elems && a->dst.elems == parts) {
    transpose_block(a, 0, 0, parts, (uint32_t)elems, 0, 0);
    return VM_RETIRE;
  }
  /* Larger tiles are whole blocks, each turned in its own place. */
  if (parts % QUADRANT || elems % QUADRANT || a->dst.num[0] != parts || a->dst.elems != elems)
    return vm_dp_fault(d, "transpose32: the shapes of dst and src do not fit");
  for (uint32_t p = 0; p < parts; p += QUADRANT)
    for (uint64_t i = 0; i < elems; i += QUADRANT)
      transpose_block(a, p, i, QUADRANT, QUADRANT, p, i);
  return VM_RETIRE;
}

/* ---- shuffle ------------------------------------------------------------------------------ */

vm_verdict vm_op_load_mask_register(vm_dp *d, const struct vm_MASK *a) {
  if (a->mask.n != VM_MASK)
    return vm_dp_fault(d, "load_mask_register: a mask of %u entries", (unsigned)a->mask.n);
  memcpy(d->mask, a->mask.p, VM_MASK);
  d->has_mask = true;
  return VM_RETIRE;
}

/* Partitions of a quadrant that an operand has. */
static uint32_t in_quadrant(const vm_view *v, uint32_t quadrant) {
  uint32_t first = quadrant * QUADRANT;
  /* The last quadrant may be cut short. */
  return v->num[0] < first ? 0 : v->num[0] - first < QUADRANT ? v->num[0] - first : QUADRANT;
}

static vm_verdict check_mask(vm_dp *d, const struct vm_SHUFFLE *a, uint32_t quadrant) {
  uint32_t to = in_quadrant(&a->dst, quadrant), from = in_quadrant(&a->src, quadrant);
  for (uint32_t i = 0; i < to; i++) {
    /* A mask entry names a partition of its own quadrant: shuffles do not cross quadrants. */
    if (d->mask[i] != VM_KEEP && d->mask[i] >= from)
      return vm_dp_fault(d, "shuffle: mask[%u] is partition %u of quadrant %u, where src has %u",
                         (unsigned)i, d->mask[i], (unsigned)quadrant, (unsigned)from);
  }
  return VM_RETIRE;
}

/* A piece of all source partitions is read before any of it is written: it may be in place. */
static void shuffle_quadrant(const vm_dp *d, const struct vm_SHUFFLE *a, uint32_t quadrant) {
  enum { PIECE = 1024 }; /* bytes of a partition */
  uint8_t in[QUADRANT][PIECE];
  uint32_t first = quadrant * QUADRANT;
  /* What fits into a buffer of PIECE bytes for each partition. */
  size_t step = PIECE / a->dst.esize;
  for (uint64_t i = 0; i < a->dst.elems; i += step) {
    size_t n = a->dst.elems - i < step ? (size_t)(a->dst.elems - i) : step;
    for (uint32_t p = 0; p < in_quadrant(&a->src, quadrant); p++)
      vm_load_raw(in[p], &a->src, first + p, i, n);
    for (uint32_t p = 0; p < in_quadrant(&a->dst, quadrant); p++)
      if (d->mask[p] != VM_KEEP) vm_store_raw(&a->dst, first + p, i, in[d->mask[p]], n);
  }
}

vm_verdict vm_op_shuffle(vm_dp *d, const struct vm_SHUFFLE *a) {
  uint32_t quadrants = (a->dst.num[0] + QUADRANT - 1) / QUADRANT;
  if (a->dst.elems == 0 || a->dst.num[0] == 0) return VM_RETIRE;
  if (!d->has_mask)
    return vm_dp_fault(d, "shuffle: no mask is loaded: run load_mask_register first");
  if (a->src.elems != a->dst.elems)
    return vm_dp_fault(d, "shuffle: the shapes of dst and src do not fit");
  /* All quadrants are checked before any is moved: a fault leaves dst as it was. */
  for (uint32_t q = 0; q < quadrants; q++) {
    vm_verdict v = check_mask(d, a, q);
    if (v != VM_RETIRE) return v;
  }
  for (uint32_t q = 0; q < quadrants; q++) shuffle_quadrant(d, a, q);
  return VM_RETIRE;
}
