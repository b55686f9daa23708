/* Inside what makes programs of CC sequencers: the block that is being made. */
#ifndef VM_WORLD_PLAN_EMIT_H
#define VM_WORLD_PLAN_EMIT_H

#include "plan_impl.h"

typedef struct cc_emitter {
  vm_plan *p;
  isa_program *out;
  uint32_t rank;
  const cc_call *x;
  unsigned k;
  isa_line at;
  isa_error *e;
  cc_part part;
  const vm_cc_list *steps;
  uint32_t ready;        /* index in `spare` of its first */
  uint8_t pushes, local; /* queues */
  uint32_t land;         /* tensor, 1-based */
  uint64_t landed;       /* its bytes that the parts so far have */
  uint32_t moving;       /* transfers of its own that nothing has waited for */
  uint32_t rings;        /* of its pushes; what it moves at home takes as many as in a device */
  uint32_t together;     /* operands of a push's transfer */
  /* Pushes that are not started yet: transfers of their queue from `held` on, 1-based, 0: none.
   * They raise one semaphore, of several ranks if its value is 0. */
  uint32_t held;
  isa_update held_upd;
} cc_emitter;

bool cc_no_memory(cc_emitter *m); /* gives false */
bool cc_add(cc_emitter *m, const isa_insn *in);
/* The number of a peer in the program's table; 0 after a failure. */
uint32_t cc_slot_of(cc_emitter *m, uint32_t peer);
/* Starts the static transfers of a queue from `first` on. */
bool cc_start(cc_emitter *m, unsigned queue, uint32_t first, isa_update upd);
/* The call of this rank, or of a peer, whose rank is then *rank. */
const cc_call *cc_call_of(const cc_emitter *m, uint32_t peer, uint32_t *rank);
/* A pattern of a rank's call, as this rank's program has it. */
bool cc_pattern_of(cc_emitter *m, uint32_t rank, const cc_call *x, uint32_t number, isa_ap *ap);
/* The pattern of an operand of this rank, or of a peer's. */
bool cc_operand_of(cc_emitter *m, uint32_t peer, unsigned buffer, uint32_t operand, isa_ap *ap);
/* Its number in the program, at the peer of that slot; 0 after a failure. */
uint32_t cc_pattern(cc_emitter *m, const isa_ap *ap, uint32_t slot);

/* plan_counted.c */
/* Sends a place of the list what metadata says, or copies this rank's own part: COUNT elements of
 * src from FROM on go to this rank's part of dst, or where row 3 there says, and row 2 there gets
 * COUNT. */
bool cc_move_counted(cc_emitter *m, const vm_cc_step *st, unsigned queue, isa_update upd);
/* Tells a peer that it may write here, and where: this rank's row 3. */
bool cc_tell_place(cc_emitter *m, const vm_cc_step *st, isa_update upd);

#endif
