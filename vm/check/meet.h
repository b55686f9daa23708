/* What the race check knows about data paths that wait for their own results, and about the
 * meetings of the two cores. */
#ifndef VM_CHECK_MEET_H
#define VM_CHECK_MEET_H

#include "impl.h"

/* hazard.c. Sets k->hazard[e] to what the newest instruction of engine e had to wait for: the last
 * one before it that touched the same bytes, if one of the two writes them. Needs the log. */
void vm_ck_note_hazard(vm_core *c, unsigned e);
/* The last instruction of e's data path after number `after` that must have ended before another
 * instruction writes end[0] and reads end[1], one of which may have no elements; 0: none exists,
 * or it is not in the log. */
uint32_t vm_ck_last_touch(vm_core *c, unsigned e, const vm_view end[2], uint32_t after);
/* race.c. The bytes of a view as an access. */
void vm_ck_race_set(const vm_core *c, const vm_view *v, vm_ck_access *a);
/* clock.c. The sequencer of e knows that its data path has ended up to instruction `to`. */
void vm_ck_data_path_known(vm_core *c, unsigned e, uint32_t to);
/* meet.c. Finds the pipes that several engines of a core use; false: none exist. */
bool vm_ck_find_pipes(vm_core *c);
/* What the update of one half of a sendrecv proves about the other half: for a flight or one after
 * it, and for a share with that component. The third call notes the engines of core_barriers as
 * waiters. */
void vm_ck_twin_flight(vm_core *c, const vm_flight *f, vm_ck_release *r);
void vm_ck_twin_share(vm_core *c, const vm_transfer *t, unsigned comp, vm_ck_release *r);
void vm_ck_note_barriers(vm_core *c, unsigned e);
/* log.c. The other half of the last sendrecv_gpsimd of e up to instruction `to`: its number on the
 * other core's gpsimd; 0: none exists. */
uint32_t vm_ck_log_twin(const vm_core *c, unsigned e, uint32_t to);
static inline unsigned vm_ck_twin_of(unsigned e) {
  return vm_ck_comp((e + ISA_NSEQS) % (2 * ISA_NSEQS), OF_DONE);
}

#endif
