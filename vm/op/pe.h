/* The array of the tensor engine and its way into PSUM: what matmul and matmul_mx share. */
#ifndef VM_PE_H
#define VM_PE_H

#include "op.h"

/* Rows or columns of a tile as an instruction gives them: 0 means all of the array. */
unsigned vm_pe_size(unsigned given);
/* The tile at (row, column), multiples of 32; its k is 0 when none is loaded there. */
vm_stationary *vm_pe_tile(const vm_dp *d, unsigned row, unsigned col);
/* Makes `tile` the one at (row, column), in place of all that shared a processing element with
 * it. The caller fills its weights. */
void vm_pe_load(vm_dp *d, unsigned row, unsigned col, vm_stationary tile);
/* Its weights [k][m] as fp32, ISA_PMAX floats a row. */
float *vm_pe_weights(const vm_dp *d, unsigned row, unsigned col);
/* Marks the elements of a PSUM operand as not yet written by a matmul. */
void vm_pe_set_fresh(const vm_dp *d, const vm_view *v);
/* Puts n finished sums of row m in place, from element `first` on: over the old values, or added
 * to them, by acc (ISA_ACC_...). n at most VM_COLUMNS. */
void vm_pe_put(vm_dp *d, const vm_view *dst, unsigned acc, uint32_t m, uint64_t first,
               const float *sum, size_t n);

#endif
