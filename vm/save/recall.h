/* What operands were resolved with. Resolved operands are not saved: a file has the registers and
 * dynamic offsets with which an instruction issued, and it is resolved again, with the checks that
 * were made when it issued. */
#ifndef VM_SAVE_RECALL_H
#define VM_SAVE_RECALL_H

#include "../engine/engine.h"
#include "save.h"

typedef struct vm_save_recalled {
  vm_recall r;
  const int64_t *place[VM_RECALLS]; /* when it writes: places of an `.indirect` operand */
  uint64_t given;                   /* mask of registers */
  uint32_t regs[ISA_NREGS];
} vm_save_recalled;

/* An operand, if it has elements. size: of the dimension whose size is a register. */
typedef struct vm_save_noted {
  const uint8_t *at;
  const int64_t *place;
  uint64_t elems; /* of a partition */
  uint32_t size;
} vm_save_noted;

void vm_save_note_register(vm_save_recalled *rc, unsigned reg, uint32_t value);
/* What pattern `index` of c was resolved with. */
void vm_save_note_operand(const vm_core *c, vm_save_recalled *rc, uint32_t index,
                          const vm_save_noted *v);
void vm_save_recalled_walk(vm_saver *s, const vm_core *c, vm_save_recalled *rc);

/* The other end of a sendrecv: an operand of the one that it has met. */
typedef struct vm_save_met {
  const isa_insn *insn; /* of the other core; NULL: this is not a sendrecv */
  vm_where at;
  vm_save_recalled rc;
} vm_save_met;

/* The operand of the other core in which an instruction's data end: the destination of a transfer,
 * or the source if gpsimd moves the elements itself. */
uint32_t vm_save_operand_there(const vm_save_met *m);
/* Which sendrecv `in` of c has met: its engine and pc. */
void vm_save_met_walk(vm_saver *s, const vm_core *c, const isa_insn *in, vm_where *met,
                      vm_save_met *m);

/* What engines had before they got the registers of an earlier moment. */
typedef struct vm_save_swapped {
  vm_engine *en, *there;
  uint32_t regs[2][ISA_NREGS];
} vm_save_swapped;

/* Engine en of c, and the one that it has met, as they were when an instruction was resolved. */
void vm_save_swap_in(vm_save_swapped *w, const vm_core *c, vm_engine *en,
                     const vm_save_recalled *rc, const vm_save_met *m);
void vm_save_swap_out(const vm_save_swapped *w);

/* Notes that an instruction of engine e could not be resolved, or that memory is exhausted. */
void vm_save_not_made(vm_saver *s, const vm_core *c, const char *what, unsigned e, uint32_t pc,
                      const isa_error *err);

#endif
