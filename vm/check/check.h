/* Checks on request: they find uses of what the machine leaves undefined while a program runs. A
 * core without them has check == NULL and pays one test at each of the calls below. Nothing here
 * changes what a run computes or how long it takes; findings are collected, and the run continues.
 *
 *   check.c         life cycle, findings and their text
 *   clock.c         happens-before: vector clocks of engines
 *   sems.c          updates of semaphores, and what a wait acquires
 *   race.c          accesses to memory and whether they are ordered
 *   lost.c          semaphores that are set or lowered: updates that can come too early, too late
 *   mixed.c         these and others that do more than count: what their waits guarantee
 *   lucky.c         whether such waits end in every order of the updates
 *   report.c        their findings about semaphores and triggers
 *   meet.c          where the two cores of a pair meet
 *   uninit.c        shadow bytes: what nothing wrote; registers
 *   part.c          instructions that read or write a part of an operand
 *   psum.c          accumulation groups
 *   value.c         ranges of activation functions, infinities and NaNs that appear
 *   tile.c          tiles that share bytes
 *   merge.c         reads that came before their write, and the race that explains them
 *   legal.c         what the run did, for the judges of all schedules */
#ifndef VM_CHECK_H
#define VM_CHECK_H

#include "../vm.h"

enum vm_check_kind {
  VM_CHECK_UNINIT,
  VM_CHECK_RACE,
  VM_CHECK_PSUM,
  VM_CHECK_OVERLAP,
  VM_CHECK_RANGE,
  VM_CHECK_PORT,
  VM_CHECK_OUTPUT,
  VM_NCHECKS,
  VM_CHECK_LEGAL = VM_NCHECKS /* not a check: keeps what vm_check_schedules needs */
};
/* "uninit" and so on; NULL past the last. Static. */
const char *vm_check_name(unsigned kind);

/* Engines of both cores are numbered together: core 1's come after core 0's. This number means no
 * engine. */
enum { VM_NO_ENGINE = ISA_MAX_CORES * ISA_NENGINES };

/* Findings kept; the rest are counted. */
enum { VM_FINDINGS = 64 };
typedef struct vm_finding {
  uint8_t kind, engine; /* of the instruction at pc, the later of the two */
  uint8_t other_engine; /* VM_NO_ENGINE: there is no other */
  uint8_t rank;         /* of a race: the lower the rank, the surer the fix */
  /* The first byte that nothing has written: memory (1: sbuf, 2: psum, then the tensors, then core
   * 1's sbuf and psum; 0: the finding is about something else), partition, byte. Of a race between
   * two accesses only the memory is known. */
  uint16_t memory, part;
  uint64_t byte;
  uint16_t sem; /* 1-based; 0: the finding is not about a semaphore */
  uint32_t pc, other_pc;
  vm_time time, other_time;
  /* Bytes of the text that say which signal is missing between the two cores; both 0: none is. */
  uint32_t fix, fix_end;
  isa_buf text;
} vm_finding;

/* The checks of a mask of 1 << vm_check_kind that c can make: a core that computes no values cannot
 * check them. */
unsigned vm_check_possible(const vm_core *c, unsigned mask);
/* Turns on the checks of a mask, as far as they are possible, for a core that has just started.
 * False if out of memory; vm_check_end frees either way. */
bool vm_check_start(vm_core *c, unsigned mask);
/* The checks that are on. */
unsigned vm_check_mask(const vm_core *c);
void vm_check_end(vm_core *c);
/* The run ends with a fault: judges what it has shown so far. */
void vm_check_stop(vm_core *c);
/* The run has ended well: if there are findings its status becomes ISA_CHECK, with the first text.
 */
void vm_check_finish(vm_core *c);
/* Findings so far, and those kept: oldest first, NULL past the last. */
uint64_t vm_check_count(const vm_core *c);
const vm_finding *vm_check_finding(const vm_core *c, uint32_t i);

/* Whether the run, which was started with 1 << VM_CHECK_LEGAL and has ended well, would do the same
 * under every legal timing. The caller frees the text, which is empty if out of memory. */
typedef enum vm_verdict_of {
  VM_SCHEDULES_SAME,
  VM_SCHEDULES_DIFFER,
  VM_SCHEDULES_UNKNOWN
} vm_verdict_of;
typedef struct vm_schedules {
  vm_verdict_of verdict;
  uint64_t states;
  /* Two places, or one and VM_NO_ENGINE; for `unknown`, where the judge stopped. */
  uint8_t engine, other_engine;
  uint32_t pc, other_pc;
  isa_buf text; /* the verdict and its details */
} vm_schedules;
void vm_check_schedules(vm_core *c, vm_schedules *out);

/* ---- What happens in the machine, as its parts report it ----------------------------------- */

/* The wait of engine e's instruction at its pc, which the fast loop leaves to others, holds: it
 * begins. */
void vm_check_begin(vm_core *c, unsigned e, const isa_insn *in);
/* A data-path instruction has issued: its operands, boxes and times are known. */
void vm_check_issue(vm_core *c, unsigned e, const vm_flight *f);
/* Before its handler runs, and after. */
void vm_check_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_check_executed(vm_core *c, unsigned e, const vm_flight *f);
/* The sequencer itself reads or writes memory, now. */
void vm_check_access(vm_core *c, unsigned e, const vm_view *v, bool writes);
/* A control instruction at pc posts its update, or (taken) has applied it at once. */
void vm_check_update(vm_core *c, unsigned e, const isa_update *u);
void vm_check_applied(vm_core *c, unsigned e, unsigned sem, unsigned kind);
void vm_check_drain(vm_core *c, unsigned e);
/* Engine e reaches its core_barrier; the wait that is part of it holds. */
void vm_check_barrier(vm_core *c, unsigned e, const isa_insn *in);
void vm_check_waited(vm_core *c, unsigned e, const isa_wait *w);
/* Engine e and engine `other` of the other core have met at their sendrecvs, which start now, e's
 * half first. The views are the dst and src of each. */
void vm_check_meet(vm_core *c, unsigned e, const vm_view end[2], unsigned other,
                   const vm_view other_end[2]);
/* A transfer of engine e has its shares, in a chain: the first goes to ring 0, and so on. */
void vm_check_transfer(vm_core *c, unsigned e, const isa_insn *in, const vm_transfer *t,
                       const vm_share *shares);
/* The sources of an unfinished item are about to be copied, since something else is about to write
 * them: it counts as reading now, and uses the copies later. */
void vm_check_stage(vm_core *c, const vm_item *it);
/* A share is about to move its bytes; it has moved them. */
void vm_check_move(vm_core *c, const vm_share *s);
void vm_check_moved(vm_core *c, const vm_share *s);
/* A posted update arrives; its vm_check_change follows. */
void vm_check_arrival(vm_core *c, const vm_event *ev);
void vm_check_change(vm_core *c, unsigned sem, uint32_t old, uint32_t next);
/* The host writes memory or a register during the run. */
void vm_check_host_wrote(vm_core *c, const vm_box *b);
void vm_check_host_register(vm_core *c, unsigned e, unsigned r);
/* Engine e runs the register instruction at pc: reports reads of registers that nothing wrote. */
void vm_check_registers(vm_core *c, unsigned e, uint32_t pc);
/* Whether engine e has nothing left to check: every register that is read has been written. */
bool vm_check_registers_known(const vm_core *c, unsigned e);
/* Engine e's flight f could have started at `start`, but has to wait `late` for a port that flight
 * g of the other engine uses, and that programs must share in order. */
void vm_check_port(vm_core *c, unsigned e, const vm_flight *f, const isa_way *w, const vm_flight *g,
                   vm_time start, vm_time late);

/* deadlock.c: which engine waits for what, why, and what could still have changed it. */
void vm_check_deadlock(vm_run *r);
/* Each engine that waits, as in the report of a deadlock; nothing if none waits. */
void vm_check_put_waits(const vm_run *r, isa_buf *out);
/* For a run that a limit ends: engines that run only register instructions, and then those that
 * wait. Adds nothing if none exist. */
void vm_check_put_stuck(const vm_core *c, isa_buf *out);

#endif
