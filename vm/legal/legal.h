/* Every legal execution of what a run did, and whether its timing matters.
 *
 * In goes a list of steps for each engine, as one run went through them, and the bytes that they
 * touch. A legal execution starts each engine's steps in order, and lets each instruction and each
 * ring's share take any time. It keeps in order:
 *
 *   - the results of a data path, and the ends of its reading; tensor's matmuls and its weight
 *     loads have an order each, and a matmul ends after the weights that were loaded before it
 *   - what an engine's own accesses to the same bytes need
 *   - the shares of one ring
 *   - the updates of one source (an engine, a ring) to one semaphore
 *
 * The two steps of a sendrecv are one. Its flights end together; a ring tells of its shares when
 * both have ended.
 *
 * Two accesses of different sources race when they are open, started and not ended, at once in some
 * legal execution. Without a race every execution computes the same, so that one run's steps stand
 * for all; the judges stop at the first. A wait is lucky when some execution never passes it.
 *
 *   model.c    steps and accesses; which of them meet
 *   machine.c  one execution: what can happen next, and what it changes
 *   count.c    the judge of semaphores that only count up: of any size
 *   states.c   the judge that goes through all states
 *   order.c    the steps of one execution, for a reader */
#ifndef VM_LEGAL_H
#define VM_LEGAL_H

#include "../../isa/isa.h"

typedef enum vm_legal_kind {
  VM_LEGAL_PLAIN,   /* the sequencer alone */
  VM_LEGAL_FLIGHT,  /* an instruction of the data path */
  VM_LEGAL_TRIGGER, /* a share for each ring of a queue */
  VM_LEGAL_DRAIN,   /* until the engine's data path has ended all */
  VM_LEGAL_TOUCH    /* the sequencer reads or writes bytes itself */
} vm_legal_kind;

/* A step of an engine: a wait, then what it does, then its update. */
typedef struct vm_legal_step {
  uint8_t kind, engine; /* engines, semaphores and queues: of all cores in one count */
  uint8_t cond;         /* ISA_WAIT_... */
  uint16_t sem;         /* of the wait */
  uint32_t value;
  uint8_t
      update;  /* ISA_UPD_none, ISA_UPD_add (by `delta`), ISA_UPD_write (of `delta`), ISA_UPD_dma */
  uint16_t to; /* semaphore of the update */
  bool at_once; /* the wait and the update are one, and the update needs no time to arrive */
  bool glued;   /* the next step of the engine is part of this one */
  bool at_read; /* of a flight: it updates when it has read */
  bool weights; /* of a flight: it loads weights */
  uint8_t queue, rings; /* of a trigger */
  /* Of a sendrecv, a trigger or a flight: its pipe, and the engine that it has met, + 1; 0: it is
   * none. Both add their step one after the other, and both steps are made at once. */
  uint8_t pipe, meets;
  uint32_t partner; /* that engine's step; the judges find it */
  int64_t delta;
  uint32_t pc;
  uint64_t time;
} vm_legal_step;

/* Bytes that the last step of an engine touches: as long as it is open. */
typedef struct vm_legal_access {
  isa_byteset set;
  uint16_t p0, p1, region; /* accesses to different regions never meet */
  bool writes;
  uint8_t engine;
  int16_t ring; /* of a share, else -1 */
} vm_legal_access;

typedef struct vm_legal vm_legal;
/* Of a run with so many engines, on one or two cores. NULL when memory is out. */
vm_legal *vm_legal_new(const isa_alloc *al, unsigned nengines);
void vm_legal_free(vm_legal *l);
/* Each in the order of the run. When memory is out the judges say so. */
void vm_legal_add_step(vm_legal *l, const vm_legal_step *s);
void vm_legal_add_access(vm_legal *l, const vm_legal_access *a);
/* What the run did that a list of steps does not say, static text: no judge can tell. */
void vm_legal_give_up(vm_legal *l, const char *why);

typedef enum vm_legal_verdict {
  VM_LEGAL_SAME,    /* no execution differs */
  VM_LEGAL_RACE,    /* two accesses, or two triggers of a queue, are open at once */
  VM_LEGAL_LUCKY,   /* an execution stands still */
  VM_LEGAL_BELOW,   /* an execution takes a semaphore below zero */
  VM_LEGAL_UNKNOWN, /* too many states, or what the steps do not say */
  VM_LEGAL_NOMEM
} vm_legal_verdict;

/* A place: the step of an engine, and the ring when it is a share; with what it touches. */
typedef struct vm_legal_place {
  const vm_legal_step *step; /* NULL: none */
  int16_t ring;
  const vm_legal_access *access; /* NULL: none */
} vm_legal_place;
typedef struct vm_legal_result {
  vm_legal_verdict verdict;
  uint64_t states; /* that were looked at */
  /* Of a race: the earlier place of the run, and the later. Of a lucky wait: the wait in place[0].
   * When there were too many states: where the run came furthest. */
  vm_legal_place place[2];
  bool triggers;   /* a race of two triggers */
  bool pipes;      /* a race of two sendrecvs of one core and one pipe */
  const char *why; /* of VM_LEGAL_UNKNOWN: static; NULL: too many states */
  /* Of a race: an execution in which place[0] comes first, and one in which place[1] does. Of the
   * others the first is the execution that stands still. */
  isa_buf order[2];
} vm_legal_result;

enum { VM_LEGAL_STATES = 1000000 };
/* Whether all semaphores only count up: then vm_legal_count can judge. */
bool vm_legal_counts(const vm_legal *l);
/* Whether timing matters. The result is the caller's to free. vm_legal_judge takes the one of the
 * other two that is fit. vm_legal_count may be asked only when vm_legal_counts. */
void vm_legal_judge(vm_legal *l, vm_legal_result *out);
void vm_legal_count(vm_legal *l, vm_legal_result *out);
void vm_legal_states(vm_legal *l, uint32_t most, vm_legal_result *out);
void vm_legal_result_free(vm_legal_result *r);
/* Gives each step of an execution its name: "vector a.s:12". */
void vm_legal_name_steps(vm_legal *l, void (*name)(void *ud, const vm_legal_step *s, isa_buf *out),
                         void *ud);

#endif
