/* The array of the tensor engine and its way into PSUM: what matmul and matmul_mx share. */
#ifndef VM_PE_H
#define VM_PE_H

#include "../work/work.h"
#include "op.h"

/* Rows or columns of a tile from an instruction's field: 0 means the whole array. */
unsigned vm_pe_size(unsigned given);
/* The tile at (row, column), multiples of 32; its k is 0 when none is loaded there. */
vm_stationary *vm_pe_tile(const vm_dp *d, unsigned row, unsigned col);
/* Makes `tile` the one at (row, column), replacing all tiles that shared a processing element with
 * it. The caller fills its weights. */
void vm_pe_load(vm_dp *d, unsigned row, unsigned col, vm_stationary tile);
/* Its weights [k][m] as fp32, VM_WEIGHTS floats per row; vm_pe_ready converts them from a raw
 * tile. */
float *vm_pe_weights(const vm_dp *d, unsigned row, unsigned col);
void vm_pe_ready(const vm_dp *d, unsigned row, unsigned col);
/* The elements from which it was loaded, *step bytes from partition to partition; none for pairs
 * and mx. */
const uint8_t *vm_pe_raw(const vm_weights *w, unsigned row, unsigned col, int64_t *step);
/* Notes a dense operand in SBUF that may be read later (d->job). */
void vm_pe_note(vm_unchanged *u, const vm_view *v);
/* Whether it is the operand of such a note. */
bool vm_pe_is_noted(const vm_unchanged *u, const vm_view *v);
/* Must come before bytes lo to hi - 1 of partitions of SBUF, which begins there, are written. */
void vm_pe_overwrite(vm_weights *w, const uint8_t *sbuf, size_t pitch, uint64_t lo, uint64_t hi);
/* For saved runs: row k of the weights; the elements of partition p as words, zero where no tile
 * has any; and back, the elements of all tiles from rows of such words in raw. */
void vm_pe_weights_row(const vm_dp *d, unsigned k, float out[ISA_PMAX]);
void vm_pe_words_row(const vm_weights *w, unsigned p, uint32_t out[ISA_PMAX]);
void vm_pe_from_words(vm_weights *w);
/* Marks the elements of a PSUM operand as not yet written by a matmul. */
void vm_pe_set_fresh(const vm_dp *d, const vm_view *v);
/* Computes a product of the tile at (row, column), whose weights, out and add are set here, into
 * the columns of dst from `first` on: it replaces the old values or is added to them, according to
 * acc (ISA_ACC_...). Its n is at most VM_COLUMNS; its x may be the scratch up to ISA_PMAX *
 * VM_COLUMNS. */
void vm_pe_product(vm_dp *d, unsigned row, unsigned col, vm_product *p, const vm_view *dst,
                   unsigned acc, uint64_t first);

/* ---- On several threads (product.c) ------------------------------------------------------- */

/* A product that other threads compute. It reads x and the weights as fp32, and writes out, until
 * vm_pe_finish. */
typedef struct vm_pe_job {
  bool open; /* it has begun, and is not finished */
  const vm_kern *k;
  vm_product p;
  vm_work_task *task;
} vm_pe_job;

/* Computes a product of the tile, on several threads if that is worthwhile; with `stays`, x and out
 * stay where they are, and it may be left open in d->job. */
void vm_pe_multiply(vm_dp *d, unsigned row, unsigned col, const vm_product *p, bool stays);
/* Must come before anything that writes x or the weights as fp32, or touches out. NULL: nothing to
 * do. */
void vm_pe_finish(vm_pe_job *j);

#endif
