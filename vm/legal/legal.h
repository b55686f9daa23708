/* Every legal execution of what a run did, and whether its timing matters.
 *
 * The input is a list of steps for each engine, as one run executed them, and the bytes that they
 * touch. A legal execution starts each engine's steps in order, and lets each instruction and each
 * ring's share take any time. It keeps in order:
 *
 *   - the results of a data path, and the ends of its reading; tensor's matmuls and its weight
 *     loads have an order each, and a matmul ends after the weights that were loaded before it
 *   - what an engine's own accesses to the same bytes need
 *   - the shares of one ring
 *   - the updates of one source (an engine, a ring) to one semaphore
 *
 * The two steps of a sendrecv are one. Its flights end together; a ring signals the end of its
 * shares when both have ended.
 *
 * Two accesses of different sources race if they are open, started and not ended, at once in some
 * legal execution. Without a race every execution computes the same, so that one run's steps
 * represent all; the judges stop at the first race. Writes alike are no race. A wait is lucky if
 * some execution never passes it.
 *
 *   model.c    steps and accesses; which of them conflict
 *   machine.c  one execution: what can happen next, and what it changes
 *   count.c    the judge of semaphores that only count up: of any size
 *   states.c   the judge that goes through all states
 *   alike.c    writes of the two cores that need no order
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
  uint8_t kind, engine; /* engines, semaphores and queues are numbered over all cores */
  uint8_t cond;         /* ISA_WAIT_... */
  uint16_t sem;         /* of the wait */
  uint32_t value;
  uint8_t
      update;  /* ISA_UPD_none, ISA_UPD_add (by `delta`), ISA_UPD_write (of `delta`), ISA_UPD_dma */
  uint16_t to; /* semaphore of the update */
  bool at_once; /* the wait and the update are one, and the update needs no time to arrive */
  bool glued;   /* the next step of the engine is part of this one */
  bool at_read; /* for a flight: it updates when it has read */
  bool weights; /* for a flight: it loads weights */
  uint8_t queue, rings; /* of a trigger */
  /* For a sendrecv, which is a trigger or a flight: its pipe, and the engine that it has met, + 1;
   * 0: not a sendrecv. Both engines add their step one after the other, and both steps happen at
   * once. */
  uint8_t pipe, meets;
  uint32_t partner; /* that engine's step; the judges find it */
  int64_t delta;
  uint32_t pc;
  uint64_t time;
} vm_legal_step;

/* Bytes that the last step of an engine touches, as long as it is open. */
typedef struct vm_legal_access {
  isa_byteset set;
  uint16_t p0, p1, region; /* accesses to different regions never conflict */
  bool writes;
  uint8_t engine;
  int16_t ring; /* of a share, else -1 */
} vm_legal_access;

typedef struct vm_legal vm_legal;
/* For a run with this many engines, on one or two cores. NULL if out of memory. */
vm_legal *vm_legal_new(const isa_alloc *al, unsigned nengines);
void vm_legal_free(vm_legal *l);
/* Called in the order of the run. If they run out of memory the judges say so. */
void vm_legal_add_step(vm_legal *l, const vm_legal_step *s);
void vm_legal_add_access(vm_legal *l, const vm_legal_access *a);
/* The run did something that steps cannot describe, so no judge can decide; why: static text. NULL:
 * nothing of that kind. */
void vm_legal_give_up(vm_legal *l, const char *why);
const char *vm_legal_gave_up(const vm_legal *l);
/* A key for what a transfer wrote, 0: none. Writes of the two cores with one key write the same
 * bytes, and need no order (alike.c). transfer: its number among the triggers that were added, from
 * 1 on. Given before anything is judged. */
typedef uint64_t vm_legal_key(void *ud, const vm_legal_step *s, uint32_t transfer, uint16_t region);
void vm_legal_give_keys(vm_legal *l, vm_legal_key *key, void *ud);
/* What was added, in an order in which another vm_legal can be given the same: calls fn for each
 * step (access: NULL), then for each access of it. */
void vm_legal_each(const vm_legal *l,
                   void (*fn)(void *ud, const vm_legal_step *s, const vm_legal_access *access),
                   void *ud);

/* Whether all that was added is there; false: there was no memory. */
bool vm_legal_is_whole(const vm_legal *l);

typedef enum vm_legal_verdict {
  VM_LEGAL_SAME,    /* no execution differs */
  VM_LEGAL_RACE,    /* two accesses, or two triggers of a queue, are open at once */
  VM_LEGAL_LUCKY,   /* an execution stops: a wait never ends */
  VM_LEGAL_BELOW,   /* an execution takes a semaphore below zero */
  VM_LEGAL_UNKNOWN, /* too many states, or something that the steps do not describe */
  VM_LEGAL_NOMEM
} vm_legal_verdict;

/* A place: the step of an engine, and the ring if it is a share; with what it touches. */
typedef struct vm_legal_place {
  const vm_legal_step *step; /* NULL: none */
  int16_t ring;
  const vm_legal_access *access; /* NULL: none */
} vm_legal_place;
typedef struct vm_legal_result {
  vm_legal_verdict verdict;
  uint64_t states; /* how many were examined */
  /* For a race: the earlier place of the run, and the later. For a lucky wait: the wait in
   * place[0]. If there were too many states: where the run came furthest. */
  vm_legal_place place[2];
  bool alike;      /* for VM_LEGAL_SAME: only because writes alike need no order */
  bool triggers;   /* a race of two triggers */
  bool pipes;      /* a race of two sendrecvs of one core and one pipe */
  const char *why; /* for VM_LEGAL_UNKNOWN: static; NULL: too many states */
  /* For a race: an execution in which place[0] comes first, and one in which place[1] does. For
   * other verdicts the first is the execution that stops. */
  isa_buf order[2];
} vm_legal_result;

enum { VM_LEGAL_STATES = 1000000 };
/* Whether all semaphores only count up: then vm_legal_count can judge. */
bool vm_legal_counts(const vm_legal *l);
/* Whether timing matters. The caller frees the result. vm_legal_judge uses the one of the other two
 * that fits. vm_legal_count may be called only if vm_legal_counts. */
void vm_legal_judge(vm_legal *l, vm_legal_result *out);
void vm_legal_count(vm_legal *l, vm_legal_result *out);
void vm_legal_states(vm_legal *l, uint32_t most, vm_legal_result *out);
void vm_legal_result_free(vm_legal_result *r);
/* Gives each step of an execution its name: "vector a.s:12". */
void vm_legal_name_steps(vm_legal *l, void (*name)(void *ud, const vm_legal_step *s, isa_buf *out),
                         void *ud);

#endif
