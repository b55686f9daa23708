/* Elements that a kernel leaves out: a memset with filler=true stands for them. They may be moved,
 * and computed with element by element, as long as no result needs them. */
#ifndef VM_CHECK_FILLER_H
#define VM_CHECK_FILLER_H

#include "../op/op.h"
#include "../saver.h"
#include "check.h"

/* Marks in a shadow: such an element, by the filler that it comes from. They end below
 * VM_CK_ANYONE; fillers that are too many share the last. */
enum { VM_CK_FILLS = 32, VM_CK_FILL = 255 - VM_CK_FILLS };
static inline bool vm_ck_is_fill(uint8_t mark) {
  return (uint8_t)(mark - VM_CK_FILL) < VM_CK_FILLS;
}

/* A mark for each element of an operand, 0 for those that are known. */
typedef struct vm_ck_grid {
  uint32_t parts;
  uint64_t elems;
  uint8_t *at;
} vm_ck_grid;

enum { VM_CK_TAINTS = 4 };
typedef struct vm_ck_fillers {
  bool any; /* the program has fillers */
  uint32_t n;
  uint32_t pc[VM_CK_FILLS]; /* where each is */
  uint8_t unit[VM_CK_FILLS];
  /* What executes now will write these marks: an instruction, or a share of a transfer. */
  vm_view view[VM_CK_TAINTS];
  vm_ck_grid grid[VM_CK_TAINTS];
  unsigned ngrids;
  uint8_t *share;
  size_t nshare;
  vm_ck_grid weights[ISA_MAX_CORES]; /* at NULL: all are known */
} vm_ck_fillers;

/* Around the execution of a flight; what it writes has its usual marks before the second. */
void vm_ck_fill_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_fill_executed(vm_core *c, unsigned e, const vm_flight *f);
/* Around the move of a share. */
void vm_ck_fill_move(vm_core *c, const vm_share *s);
void vm_ck_fill_moved(vm_core *c, const vm_share *s);
/* The sequencer reads a number or an address. */
void vm_ck_fill_access(vm_core *c, unsigned unit, uint32_t pc, const vm_view *v);
/* Whether a view has such elements, and the mark of one, 0 if it is known. */
bool vm_ck_has_fill(const vm_core *c, const vm_view *v);
uint8_t vm_ck_fill_at(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i);

#endif
