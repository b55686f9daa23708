/* A run in a file: the walk over its state (saver.h), and what its parts share. */
#ifndef VM_SAVE_H
#define VM_SAVE_H

#include "../dma/dma.h"
#include "../saver.h"
#include "../time/clock.h"

/* The options that a run was started with and continues with. */
typedef struct vm_save_options {
  uint32_t cvt; /* isa_cvt flags */
  bool timing_only, causes;
  uint64_t rounding_seed;
  uint32_t cost[VM_NCOSTS];
} vm_save_options;

/* save.c */

/* The options of a run c; when it reads, before the run is started. */
void vm_save_options_walk(vm_saver *s, vm_save_options *o);
/* The state of a run. To read, vm_run_start must just have made it for the same program, with SBUF
 * and PSUM zero and the options and the record of causes in place. After a failure to load, the run
 * can only be given to vm_run_end. */
void vm_save_walk(vm_saver *s, vm_run *r);
/* SBUF and PSUM of a core, as vm_saver_pages. */
void vm_save_memories(vm_saver *s, vm_core *c);

/* cc.c: CC sequencers; whether a trigger may be on its way to sequencer e; whether each collective
 * is left to as many sequencers as have triggers, coming[e]: on their way; a message of that event,
 * which it adds when it reads; one to c, whose bytes are then the caller's. */
void vm_save_ccs(vm_saver *s, vm_core *c);
bool vm_save_trigger_fits(const vm_core *c, unsigned e, uint32_t slot);
void vm_save_check_ccs(vm_saver *s, const vm_core *c, const uint64_t *coming);
void vm_save_message(vm_saver *s, vm_core *c, const vm_event *v);
struct vm_parcel;
void vm_save_parcel(vm_saver *s, vm_core *c, struct vm_parcel *p);
/* What the checks of its sender know comes after c's own checks. */
void vm_save_known(vm_saver *s, vm_core *c, struct vm_parcel *p);

/* flight.c: instructions that have issued. transfer.c: transfers that have started. */
void vm_save_flights(vm_saver *s, vm_core *c, unsigned e);
void vm_save_transfers(vm_saver *s, vm_core *c);
/* For a pair, after both cores' transfers: which of them belong to one sendrecv. */
void vm_save_swaps(vm_saver *s, vm_run *r);

#endif
