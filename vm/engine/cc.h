/* CC sequencers: they run no data path, only transfers and semaphores. Each has blocks of code, one
 * for each instruction that it serves: from `wait_start X` to `complete X`. An engine that comes to
 * X starts a collective and goes on; the sequencers of its core that have a block for X get the
 * trigger, take their triggers in order, and when all have come to `complete X` the collective is
 * complete: then X's own update is posted. */
#ifndef VM_CC_H
#define VM_CC_H

#include "engine.h"

typedef struct vm_collective {
  bool used;
  uint8_t engine, left; /* left: sequencers that have not completed it */
  uint32_t pc, node;    /* node: of its issue in the record of causes */
  vm_time issued;
} vm_collective;

typedef struct vm_cc_block { /* begins at `at`, for the engine's instruction at pc */
  uint8_t engine;
  uint32_t pc, at;
} vm_cc_block;

typedef struct vm_cc {
  vm_cc_block *blocks;
  uint32_t nblocks;
  uint8_t fifo[VM_COLLECTIVES]; /* slots of collectives, a ring; the first is at work */
  uint32_t first, n;
} vm_cc;

typedef struct vm_cc_done { /* a collective that is complete */
  uint8_t engine;
  uint32_t pc;
  vm_time issued, ended;
} vm_cc_done;

typedef struct vm_ccs {
  vm_cc cc[ISA_NCC];
  vm_cc_done *done; /* in the order of their ends */
  uint32_t ndone, cap_done;
  vm_collective v[VM_COLLECTIVES];
  uint32_t used;
  uint8_t crowded; /* engines that wait for a free slot, a bit for each */
} vm_ccs;

/* The blocks of a core whose program has code for CC sequencers; false: out of memory. */
bool vm_cc_load(vm_core *c);
void vm_cc_unload(vm_core *c);
/* A collective of engine e, which the other core's has met if it is one of both. VM_STALL: it waits
 * for an earlier one. */
vm_verdict vm_cc_issue(vm_core *c, unsigned e, const isa_insn *in);
/* A trigger comes to a sequencer: the event VM_E_START. */
void vm_cc_start(vm_core *c, unsigned e, uint32_t slot);
vm_verdict vm_cc_wait_start(vm_core *c, unsigned e, const isa_insn *in);
vm_verdict vm_cc_complete(vm_core *c, unsigned e, const isa_insn *in);
/* current_processing_rank_id. */
vm_verdict vm_cc_rank_of_round(vm_core *c, unsigned e, const isa_insn *in);
/* After `complete` has retired: the next trigger, if there is one. */
void vm_cc_next(vm_core *c, unsigned e);
/* Whether a sequencer has a block for a collective. */
bool vm_cc_serves(const vm_core *c, unsigned e, const vm_collective *x);
/* The collective that a sequencer works on; NULL: none. */
const vm_collective *vm_cc_at_work(const vm_core *c, unsigned e);

#endif
