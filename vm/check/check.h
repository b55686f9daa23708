/* Checks on request: they find uses of what the machine leaves undefined while a program runs. They
 * watch the run (watch.h); a run without them has check == NULL. Nothing here changes what a run
 * computes or how long it takes; findings are collected, and the run continues. At its end, if
 * there are any, its status becomes ISA_CHECK, with the text of the first.
 *
 *   check.c         life cycle, and what several checks are told
 *   finding.c       findings and their text
 *   clock.c         happens-before: vector clocks of engines
 *   sems.c          updates of semaphores, and what a wait acquires
 *   race.c          accesses to memory and whether they are ordered
 *   access.c        those that are kept
 *   twins.c         writes of both cores that are the same
 *   lost.c          semaphores that are set or lowered: updates that can come too early, too late
 *   mixed.c         these and others that do more than count: what their waits guarantee
 *   lucky.c         whether such waits end in every order of the updates
 *   report.c        their findings about semaphores and triggers
 *   meet.c          where the two cores of a pair meet
 *   blocks.c        collectives and the blocks of CC sequencers
 *   peers.c         what ranks of a world know of one another
 *   shadow.c        shadow bytes: what wrote each byte
 *   uninit.c        reads of what nothing wrote; registers
 *   part.c          instructions that read or write a part of an operand
 *   psum.c          accumulation groups
 *   value.c         ranges of activation functions, infinities and NaNs that appear
 *   known.c         bytes that need no second look: they are written, they are finite
 *   tile.c          tiles that share bytes
 *   merge.c         reads that came before their write, and the race that explains them
 *   legal.c         what the run did, for the judges of all schedules */
#ifndef VM_CHECK_H
#define VM_CHECK_H

#include "../vm.h"

enum vm_check_kind {
#define CHECK(code, name, values, usual, text) VM_CHECK_##code,
#include "../checks.def"
  VM_NCHECKS,
  /* Not checks: keeps what vm_check_schedules needs; twins are no race (twins.c). */
  VM_CHECK_LEGAL = VM_NCHECKS,
  VM_CHECK_TWINS
};
/* "uninit" and so on; NULL past the last. Static. */
const char *vm_check_name(unsigned kind);

/* Engines and CC sequencers of both cores are numbered together: core 1's come after core 0's. This
 * number means none of them. */
enum { VM_NO_ENGINE = ISA_MAX_CORES * ISA_NSEQS };

/* In place of such a number: an instruction of another rank. Its pc is then a number among those
 * whose messages have come. */
enum { VM_PEER_ENGINE = VM_NO_ENGINE + 1, VM_ALL_ENGINES };

/* Findings that are told; of the rest some are kept, since those that tell the cause come last, and
 * take the place of what follows from it. */
enum { VM_FINDINGS = 64, VM_KEPT_FINDINGS = 1024 };
typedef struct vm_finding {
  uint8_t kind, engine; /* of the instruction at pc, the later of the two */
  uint8_t other_engine; /* VM_NO_ENGINE: there is no other */
  /* For instructions of other ranks, the later of the two and the other: */
  struct vm_finding_peer {
    uint32_t rank; /* 1-based; 0: it is of this rank */
    uint32_t pc, line;
    uint8_t core, engine;
    const char *file; /* NULL: not known, or no file of this rank's program */
  } peer[2];
  uint8_t rank; /* of a race: the lower the rank, the surer the fix */
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
 * False if out of memory; the run's end frees either way. */
bool vm_check_start(vm_core *c, unsigned mask);
/* The checks of a run and what they have seen, in a saved run; turns them on when it reads. */
struct vm_saver;
void vm_check_walk(struct vm_saver *s, vm_core *c);
/* What comes with a message for core c, whose own walk is over. */
struct vm_parcel;
void vm_check_walk_known(struct vm_saver *s, vm_core *c, struct vm_parcel *m);
/* The checks that are on. */
unsigned vm_check_mask(const vm_core *c);
/* How many pairs of transfers are no race only because they, or two writes, are twins. */
uint64_t vm_check_twins(const vm_core *c);
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

#endif
