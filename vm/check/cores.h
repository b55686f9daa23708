/* Numbers of what exists twice in a pair. */
#ifndef VM_CHECK_CORES_H
#define VM_CHECK_CORES_H

#include "check.h"
#include "../engine/engine.h"

/* A pair has one set of clocks, one log and one list of accesses. Engines, semaphores and queues
 * are numbered together, core 0's and then core 1's: an engine `e`, a `sem` and a `queue` are such
 * numbers in the files of the race check. The calls of check.h, and the files that look only at one
 * core's memory, have the numbers of core c. */
enum {
  VM_CK_ENGINES = VM_NO_ENGINE,   /* also: no engine */
  VM_CK_PEER = VM_PEER_ENGINE,    /* in place of an engine: a place of another rank (peers.c) */
  VM_CK_SOURCES = VM_ALL_ENGINES, /* of updates and accesses: with the two above */
  VM_CK_SEMS = ISA_MAX_CORES * ISA_NSEMS,
  VM_CK_QUEUES = ISA_MAX_CORES * ISA_MAX_QUEUES /* also: no queue */
};
static inline unsigned vm_ck_unit(const vm_core *c, unsigned engine) {
  return c->number ? ISA_NSEQS + engine : engine;
}
static inline unsigned vm_ck_sem(unsigned core, unsigned sem) { return core * ISA_NSEMS + sem; }
static inline unsigned vm_ck_queue(const vm_core *c, unsigned queue) {
  return c->number ? c->prog->cores[0].nqueues + queue : queue;
}
static inline const vm_core *vm_ck_core(const vm_core *c, unsigned number) {
  return vm_core_at(c, number);
}
static inline const vm_core *vm_ck_core_of(const vm_core *c, unsigned e) {
  return vm_ck_core(c, e >= ISA_NSEQS);
}
/* A CC sequencer without code has no state (vm_core.nseqs): it has halted. */
static inline const vm_engine *vm_ck_engine(const vm_core *c, unsigned e) {
  static const vm_engine none = {.state = VM_HALTED};
  const vm_core *of = vm_ck_core_of(c, e);
  return e % ISA_NSEQS < of->nseqs ? &of->eng[e % ISA_NSEQS] : &none;
}
static inline const isa_code *vm_ck_code(const vm_core *c, unsigned e) {
  return &c->prog->cores[e >= ISA_NSEQS].code[e % ISA_NSEQS];
}
/* Whether a sequencer may do more: a CC sequencer begins with what an engine knows that does. */
static inline bool vm_ck_goes_on(const vm_core *c, unsigned e) {
  const vm_engine *en = vm_ck_engine(c, e);
  return en->state != VM_HALTED && (en->state != VM_IDLE || !vm_cc_rests(vm_ck_core_of(c, e)));
}
static inline uint32_t vm_ck_value(const vm_core *c, unsigned sem) {
  return vm_ck_core(c, sem >= ISA_NSEMS)->sem[sem % ISA_NSEMS];
}
static inline const isa_queue *vm_ck_queue_row(const vm_core *c, unsigned queue) {
  uint32_t first = c->prog->cores[0].nqueues;
  return queue < first ? &c->prog->cores[0].queues[queue]
                       : &c->prog->cores[1].queues[queue - first];
}

#endif
