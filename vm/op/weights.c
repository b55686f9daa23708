/* The stationary operands of the tensor engine: ldweights, and what saved runs hold of them. */
#include "pe.h"

#include <string.h>

unsigned vm_pe_size(unsigned given) { return given ? given : ISA_PMAX; }

vm_stationary *vm_pe_tile(const vm_dp *d, unsigned row, unsigned col) {
  return &d->weights->tile[row / 32][col / 32];
}

/* ---- Elements ----------------------------------------------------------------------------- */

/* Their place in raw. */
/* Four bytes for each column, whatever the type: tiles of different types stand side by side. */
static uint8_t *raw_of(vm_weights *w, unsigned row, unsigned col) { return &w->raw[row][4 * col]; }

const uint8_t *vm_pe_raw(const vm_weights *w, unsigned row, unsigned col, int64_t *step) {
  /* Only of the last tile may the elements still be in SBUF: those of others have been copied. */
  bool there = w->source.at && w->source_row == row && w->source_col == col;
  *step = there ? w->source.step : VM_RAW_ROW;
  return there ? w->source.at : &w->raw[row][4 * col];
}

void vm_pe_note(vm_unchanged *u, const vm_view *v) {
  *u = (vm_unchanged){.at = v->at,
                      .step = v->step[0],
                      .bytes = (size_t)v->elems * v->esize,
                      .part = v->part,
                      .rows = (uint16_t)v->num[0],
                      .dtype = v->dtype};
}

/* The elements of every tile are in raw then. */
static void take_source(vm_weights *w) {
  const vm_unchanged *s = &w->source;
  /* Before SBUF changes under it, or another tile becomes the last. */
  for (unsigned p = 0; s->at && p < s->rows; p++)
    memcpy(raw_of(w, w->source_row + p, w->source_col), s->at + p * s->step, s->bytes);
  /* Whoever asks from now on is sent to raw. */
  w->source.at = NULL;
}

/* The same place and the same shape; that its bytes are the same is what vm_pe_overwrite watches.
 */
bool vm_pe_is_noted(const vm_unchanged *u, const vm_view *v) {
  return u->at == v->at && vm_row_at(v, 0, 0) && u->step == v->step[0] &&
         u->bytes == v->elems * v->esize && u->rows == v->num[0] && u->dtype == v->dtype;
}

static bool meets(const vm_unchanged *u, const uint8_t *sbuf, size_t pitch, uint64_t lo,
                  uint64_t hi) {
  if (!u->at) return false;
  uint64_t first = (uint64_t)(u->at - sbuf) - u->part * pitch; /* in each partition */
  return lo < first + u->bytes && first < hi;
}

void vm_pe_overwrite(vm_weights *w, const uint8_t *sbuf, size_t pitch, uint64_t lo, uint64_t hi) {
  /* A copy now, or the weights would change with the operand. */
  if (meets(&w->source, sbuf, pitch, lo, hi)) take_source(w);
  /* An identity needs no copy: it is looked at again when it is used. */
  if (meets(&w->identity, sbuf, pitch, lo, hi)) w->identity.at = NULL;
}

/* ---- Tiles -------------------------------------------------------------------------------- */

void vm_pe_load(vm_dp *d, unsigned row, unsigned col, vm_stationary tile) {
  vm_weights *w = d->weights;
  /* Two rectangles of the array share a cell: the tile that was there is gone. */
  for (unsigned r = 0; r < ISA_PMAX; r += 32) {
    for (unsigned c = 0; c < ISA_PMAX; c += 32) {
      vm_stationary *t = vm_pe_tile(d, r, c);
      if (t->k && r < row + tile.rows && row < r + t->rows && c < col + tile.cols &&
          col < c + t->cols)
        t->k = 0;
    }
  }
  /* The tile that is still only in SBUF stays loaded (the new one is beside it): its elements are
   * taken over before the note is used for the new one. */
  if (w->source.at && vm_pe_tile(d, w->source_row, w->source_col)->k) take_source(w);
  w->source.at = NULL;
  *vm_pe_tile(d, row, col) = tile;
}

float *vm_pe_weights(const vm_dp *d, unsigned row, unsigned col) {
  return &d->weights->w[VM_LANES * row][col];
}

/* Pairs and MX are converted when they are loaded, and keep no elements. */
static bool is_raw_sort(const vm_stationary *t) { return t->k && !t->pairs && !t->mx; }

void vm_pe_ready(const vm_dp *d, unsigned row, unsigned col) {
  vm_stationary *t = vm_pe_tile(d, row, col);
  int64_t step;
  const uint8_t *raw = vm_pe_raw(d->weights, row, col, &step);
  for (unsigned k = 0; t->raw && k < t->k; k++, raw += step)
    d->k->load[t->dtype](vm_pe_weights(d, row, col) + k * VM_WEIGHTS, raw, t->m);
  t->raw = false;
}

/* The elements of the tile at (row, col): where they are if that may be read later (d->job), since
 * a transpose needs them only once. */
static void load_raw(vm_dp *d, unsigned row, unsigned col, const vm_view *src) {
  vm_weights *w = d->weights;
  /* Nothing is copied yet. The note is only kept if vm_pe_overwrite will be told of every write to
   * these bytes. */
  if (d->job && src->space == ISA_SBUF && vm_row_at(src, 0, 0)) {
    vm_pe_note(&w->source, src);
    w->source_row = (uint8_t)row;
    w->source_col = (uint8_t)col;
    return;
  }
  vm_view to;
  vm_view_dense(&to, src, raw_of(w, row, col));
  /* Rows of raw are further apart than the elements of one. */
  to.step[0] = sizeof w->raw[0];
  vm_copy_bits(d->k, &to, src);
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
  /* Sizes may be in registers. */
  if (parts > t.rows || m > t.cols || row + t.rows > ISA_PMAX || col + t.cols > ISA_PMAX)
    return vm_dp_fault(d, "ldweights: %u x %u elements into a tile of %u x %u at (%u, %u)",
                       (unsigned)parts, (unsigned)m, t.rows, t.cols, row, col);
  vm_pe_load(d, row, col, t);
  if (!pairs) {
    load_raw(d, row, col, &a->src);
    return VM_RETIRE;
  }
  /* An open product of an earlier tile may still read the rows that are written below. */
  vm_pe_finish(d->job);
  for (uint32_t p = 0; p < parts; p++)
    for (unsigned j = 0; j < lanes; j++)
      /* The two elements of a pair lie m apart in the partition, and become neighbouring rows. */
      vm_load(d, vm_pe_weights(d, row, col) + (lanes * p + j) * VM_WEIGHTS, &a->src, p, j * m, m);
  return VM_RETIRE;
}

/* ---- Saved runs --------------------------------------------------------------------------- */

void vm_pe_weights_row(const vm_dp *d, unsigned k, float out[ISA_PMAX]) {
  memset(out, 0, ISA_PMAX * sizeof *out);
  /* Row k belongs to the tiles that begin at or above it. */
  for (unsigned row = 0; row < ISA_PMAX && VM_LANES * row <= k; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = vm_pe_tile(d, row, col);
      if (k - VM_LANES * row >= t->k) continue;
      /* A saved run has fp32 in one form, whether or not a product has needed them. */
      vm_pe_ready(d, row, col);
      memcpy(out + col, &d->weights->w[k][col], t->m * sizeof *out);
    }
  }
}

void vm_pe_words_row(const vm_weights *w, unsigned p, uint32_t out[ISA_PMAX]) {
  memset(out, 0, ISA_PMAX * sizeof *out);
  for (unsigned row = 0; row <= p; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = &w->tile[row / 32][col / 32];
      unsigned size = isa_dtype_bytes(t->dtype);
      /* Pairs and MX have no elements to save: their fp32 rows are all there is. */
      if (!is_raw_sort(t) || p - row >= t->k) continue;
      int64_t step;
      const uint8_t *raw = vm_pe_raw(w, row, col, &step) + (p - row) * step;
      for (unsigned i = 0; i < t->m; i++) /* little-endian hosts */
        memcpy(&out[col + i], raw + i * size, size);
    }
  }
}

void vm_pe_from_words(vm_weights *w) {
  for (unsigned row = 0; row < ISA_PMAX; row += 32) {
    for (unsigned col = 0; col < ISA_PMAX; col += 32) {
      const vm_stationary *t = &w->tile[row / 32][col / 32];
      unsigned size = isa_dtype_bytes(t->dtype);
      /* From words to elements side by side: memmove, since element i moves to the left within its
       * own row. */
      for (unsigned k = 0; k < t->k && is_raw_sort(t); k++)
        for (unsigned i = 0; i < t->m; i++)
          memmove(raw_of(w, row + k, col) + i * size, raw_of(w, row + k, col + i), size);
    }
  }
}
