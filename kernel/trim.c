/* Columns of a tile that no instruction uses take no place: [128, 512] of which all instructions
 * use the first 128 columns becomes [128, 128]. Only the outermost free dimension is cut, so that
 * what stays lies where it lay. */
#include "simplify.h"

/* Bytes of a partition of each buffer up to the last one that is used. */
static void find_ends(const as_kernel *k, int64_t *end) {
  const as_k_use *uses;
  as_k_bytes x;
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, n = as_k_used(k, &k->items[i], &uses); u < n; u++) {
      const as_k_operand *o = as_k_use_op(k, &k->items[i], &uses[u]);
      if (o->space == ISA_HBM) continue;
      as_k_bytes_of(k, o, &x);
      if (x.hi > end[o->buffer - 1]) end[o->buffer - 1] = x.hi;
    }
}

static bool cut(as_kernel *k, uint32_t number, int64_t end) {
  as_k_buffer *b = as_k_buf(k, number);
  if (b->ndim < 2 || b->shape[1] < 2) return true;
  uint32_t row = b->bytes / b->shape[1];
  /* Rows of the outermost dimension that hold all that is used. */
  uint32_t rows = (uint32_t)((end + row - 1) / row);
  /* A row that is not a whole number of bytes, or nothing to cut. */
  if (row * b->shape[1] != b->bytes || rows >= b->shape[1]) return true;
  /* Its class depends on its size. */
  if (!isa_index_room(&k->al, &k->classes)) return as_k_nomem(k);
  b->shape[1] = rows;
  b->bytes = rows * row;
  as_k_classify(k, b, number);
  k->figures.trimmed++;
  return true;
}

bool as_k_trim_tiles(as_kernel *k) {
  if (!(k->o.passes & AS_PASS_TRIM)) return true;
  size_t size = ((size_t)k->nbuffers + 1) * sizeof(int64_t);
  int64_t *end = isa_zalloc(&k->al, size);
  bool ok = end || as_k_nomem(k);
  if (ok) find_ends(k, end);
  for (uint32_t i = 0; ok && i < k->nbuffers; i++)
    if (k->buffers[i].space != ISA_HBM && !k->buffers[i].fixed && end[i] > 0)
      ok = cut(k, i + 1, end[i]);
  isa_free(&k->al, end, size);
  return ok;
}
