/* The stationary operands of the tensor engine: ldweights, and what saved runs hold of them. */
#include "pe.h"

#include <string.h>

unsigned vm_pe_size(unsigned given) { return given ? given : ISA_PMAX; }

vm_stationary *vm_pe_tile(const vm_dp *d, unsigned row, unsigned col) {
  return &d->weights->tile[row / 32][col / 32];
}

void vm_pe_load(vm_dp *d, unsigned row, unsigned col, vm_stationary tile) {
  for (unsigned r = 0; r < ISA_PMAX; r += 32) {
    for (unsigned c = 0; c < ISA_PMAX; c += 32) {
      vm_stationary *t = vm_pe_tile(d, r, c);
      if (t->k && r < row + tile.rows && row < r + t->rows && c < col + tile.cols &&
          col < c + t->cols)
        t->k = 0;
    }
  }
  *vm_pe_tile(d, row, col) = tile;
}

float *vm_pe_weights(const vm_dp *d, unsigned row, unsigned col) {
  return &d->weights->w[VM_LANES * row][col];
}

/* The place of the elements that a tile was loaded from. */
static uint8_t *raw_of(vm_weights *w, unsigned row, unsigned col) { return &w->raw[row][4 * col]; }

const uint8_t *vm_pe_raw(const vm_dp *d, unsigned row, unsigned col) {
  return raw_of(d->weights, row, col);
}

static bool is_raw_sort(const vm_stationary *t) { return t->k && !t->pairs && !t->mx; }

void vm_pe_convert(const vm_dp *d, unsigned row, unsigned col, unsigned first, unsigned n) {
  const vm_stationary *t = vm_pe_tile(d, row, col);
  for (unsigned k = 0; k < t->k; k++)
    d->k->load[t->dtype](vm_pe_weights(d, row, col) + k * VM_WEIGHTS + first,
                         raw_of(d->weights, row + k, col) + first * isa_dtype_bytes(t->dtype), n);
}

void vm_pe_ready(const vm_dp *d, unsigned row, unsigned col) {
  vm_stationary *t = vm_pe_tile(d, row, col);
  if (t->raw) vm_pe_convert(d, row, col, 0, t->m);
  t->raw = false;
}

vm_verdict vm_op_ldweights(vm_dp *d, const struct vm_LDWEIGHTS *a) {
  unsigned row = a->tile_row, col = a->tile_col;
  unsigned pairs = a->perf == ISA_PERF_double_row, lanes = pairs ? 2 : 1;
  size_t m = (size_t)(a->src.elems / lanes);
  uint32_t parts = a->src.num[0];
  if (m == 0 || parts == 0) return VM_RETIRE;
  vm_stationary t = {.k = (uint16_t)(parts * lanes),
                     .m = (uint16_t)m,
                     .rows = (uint8_t)vm_pe_size(a->tile_rows),
                     .cols = (uint8_t)vm_pe_size(a->tile_cols),
                     .dtype = a->src.dtype,
                     .pairs = pairs,
                     .raw = !pairs};
  if (parts > t.rows || m > t.cols || row + t.rows > ISA_PMAX || col + t.cols > ISA_PMAX)
    return vm_dp_fault(d, "ldweights: %u x %u elements into a tile of %u x %u at (%u, %u)",
                       (unsigned)parts, (unsigned)m, t.rows, t.cols, row, col);
  vm_pe_load(d, row, col, t);
  if (!pairs) {
    vm_view to;
    vm_view_dense(&to, &a->src, raw_of(d->weights, row, col));
    to.step[0] = sizeof d->weights->raw[0];
    vm_copy_bits(d->k, &to, &a->src);
    return VM_RETIRE;
  }
  vm_pe_finish(d->job);
  for (uint32_t p = 0; p < parts; p++)
    for (unsigned j = 0; j < lanes; j++)
      vm_load(d, vm_pe_weights(d, row, col) + (lanes * p + j) * VM_WEIGHTS, &a->src, p, j * m, m);
  return VM_RETIRE;
}

/* ---- Saved runs --------------------------------------------------------------------------- */

void vm_pe_weights_row(const vm_dp *d, unsigned k, float out[ISA_PMAX]) {
  memset(out, 0, ISA_PMAX * sizeof *out);
  for (unsigned row = 0; row < ISA_PMAX && VM_LANES * row <= k; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = vm_pe_tile(d, row, col);
      if (k - VM_LANES * row >= t->k) continue;
      vm_pe_ready(d, row, col);
      memcpy(out + col, &d->weights->w[k][col], t->m * sizeof *out);
    }
  }
}

void vm_pe_words_row(vm_weights *w, unsigned p, uint32_t out[ISA_PMAX]) {
  memset(out, 0, ISA_PMAX * sizeof *out);
  for (unsigned row = 0; row <= p; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = &w->tile[row / 32][col / 32];
      unsigned size = isa_dtype_bytes(t->dtype);
      if (!is_raw_sort(t) || p - row >= t->k) continue;
      for (unsigned i = 0; i < t->m; i++)
        memcpy(&out[col + i], raw_of(w, p, col) + i * size, size); /* little-endian hosts */
    }
  }
}

void vm_pe_from_words(vm_weights *w) {
  for (unsigned row = 0; row < ISA_PMAX; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = &w->tile[row / 32][col / 32];
      unsigned size = isa_dtype_bytes(t->dtype);
      for (unsigned k = 0; k < t->k && is_raw_sort(t); k++)
        for (unsigned i = 0; i < t->m; i++)
          memmove(raw_of(w, row + k, col) + i * size, raw_of(w, row + k, col + i), size);
    }
  }
}
