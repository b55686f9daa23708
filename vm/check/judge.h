/* The judges of the log of a run: which orders every timing keeps, what semaphores that do more
 * than count guarantee, and the findings. */
#ifndef VM_CHECK_JUDGE_H
#define VM_CHECK_JUDGE_H

#include "impl.h"

/* must.c: what has happened before each step under every timing. */
typedef struct vm_ck_must vm_ck_must;
typedef struct vm_ck_mixed vm_ck_mixed;
/* in_run: what has happened before each step in this run. NULL if out of memory. */
vm_ck_must *vm_ck_must_new(vm_core *c, bool in_run);
void vm_ck_must_free(vm_core *c, vm_ck_must *m);
/* Computes the clocks again, with all steps of the log. False if out of memory. */
bool vm_ck_must_solve(vm_core *c, vm_ck_must *m);
/* The clock of a step; valid until the next solve. */
const uint32_t *vm_ck_must_clock(const vm_ck_must *m, uint32_t step);
/* Joins what an update proves to `to`. */
void vm_ck_must_join(const vm_ck_must *m, const vm_ck_signal *u, uint32_t *to);
/* What is known about the semaphores of the log that do more than count. */
vm_ck_mixed *vm_ck_must_mixed(const vm_ck_must *m);
/* Whether an engine that sees the update knows epoch of component comp. */
bool vm_ck_must_tells(const vm_ck_must *m, const vm_ck_signal *u, unsigned comp, uint32_t epoch);
/* Whether some step can never happen: the assumed orders form a circle. */
bool vm_ck_must_stuck(const vm_ck_must *m);
/* Puts a step before an access or a control instruction's update. The caller takes it back. */
typedef struct vm_ck_spot {
  const vm_ck_access *access; /* or NULL, and */
  const vm_ck_signal *update;
} vm_ck_spot;
bool vm_ck_must_insert(vm_core *c, const vm_ck_spot *spot, vm_ck_step what);

/* mixed.c: semaphores that do more than count. NULL if out of memory. */
vm_ck_mixed *vm_ck_mixed_new(vm_core *c);
void vm_ck_mixed_free(vm_ck_mixed *x);
/* Components of clocks, including those that say how many updates have arrived. */
uint32_t vm_ck_mixed_comps(const vm_ck_mixed *x);
/* Joins what the wait of a step of kind VM_CK_HELD acquires to `mine`; nothing if the semaphore is
 * undecided. */
void vm_ck_mixed_acquire(vm_ck_mixed *x, const vm_ck_must *m, uint32_t step, uint32_t *mine);
/* Whether a step of kind VM_CK_KNOW counts. */
bool vm_ck_mixed_knows(const vm_ck_mixed *x, uint32_t step);
/* The first pass over the steps is over: until then, waits acquire what they saw in the run. */
void vm_ck_mixed_passed(vm_ck_mixed *x);
/* Computes again what waits guarantee, from the clocks that m has now; false if nothing became
 * less, or memory ran out. */
bool vm_ck_mixed_lower(vm_ck_mixed *x, const vm_ck_must *m);
/* To be called last. False if it ran out of memory. */
bool vm_ck_mixed_settle(vm_ck_mixed *x);
bool vm_ck_mixed_decides(const vm_ck_mixed *x, unsigned sem);
/* Whether two accesses, which may come in either order, are never open at once, since the later one
 * has to wait: for example if two engines take one semaphore in turn. */
bool vm_ck_mixed_apart(vm_ck_mixed *x, const vm_ck_must *m, const vm_ck_access *a,
                       const vm_ck_access *b);

/* lucky.c: removes findings about semaphores whose waits all end in every order of the updates, and
 * reports the other semaphores. */
void vm_ck_judge_waits(vm_core *c, const vm_ck_must *m);

/* advice.c: which of two accesses that nothing orders has to come first, and what ensures that. */
/* No wait can be named, but a semaphore of its own orders the two; from VM_CK_UNSURE on nothing
 * does. VM_CK_ITSELF: of a finding about a semaphore that one engine uses in the wrong way, which
 * says more than what follows from it. */
enum { VM_CK_OWN = 99, VM_CK_UNSURE, VM_CK_ITSELF };
typedef struct vm_ck_advice {
  const vm_ck_access *first, *second;
  unsigned rank;  /* the lower, the surer */
  bool early;     /* second overwrites what first still needs */
  bool unwritten; /* nothing is known to have written what second reads before first has */
  bool enough;    /* second waits for as much as first adds, but others can add it too */
  bool drain, signals, waits, again, takes;
  bool falls; /* the wait is for <=, for a value that falls */
  bool stale; /* the wait held, but does not prove the order */
  bool there; /* second itself has the wait */
  bool alone; /* no engine waits for the semaphore */
  bool relay; /* what has to wait is an instruction of first's engine that signals too early, */
  bool next;  /* or a transfer that adds to the same semaphore too early */
  bool take;  /* and it has to take what it waits for */
  bool raise; /* the wait at waited_pc, which takes, has to wait for more and take it */
  bool tried; /* what it says orders the two, and all waits end then */
  uint16_t sem;
  unsigned engine; /* what has to wait: this engine, before this instruction */
  uint32_t pc;
  int64_t value, waited, step; /* step: by how much value rises in each iteration; 0: it varies */
  const vm_ck_signal *other; /* an update that could take the place of the intended one, or NULL */
  uint32_t waited_pc, round; /* round: the iteration of what has to wait, 0: not known */
} vm_ck_advice;
void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_must *run,
                  const vm_ck_access *old, const vm_ck_access *a, vm_ck_advice *out);
/* What ensures the order of the two. */
void vm_ck_advise_order(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                        const vm_ck_access *second, vm_ck_advice *out);
/* The same by a given update, or NULL, for the two of `how`. */
void vm_ck_advise_by(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                     const vm_ck_advice *how, vm_ck_advice *out);
/* The update to wait for: the first of those that fit best; NULL if no update proves it. */
const vm_ck_signal *vm_ck_signal_of(const vm_core *c, const vm_ck_must *m,
                                    const vm_ck_access *first, const vm_ck_access *second);
/* The same for each semaphore, those that fit best first; returns how many. any: also updates of
 * other engines that know of it. */
enum { VM_CK_SIGNALS = 8 };
unsigned vm_ck_signals(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                       const vm_ck_access *second, bool any, const vm_ck_signal **out);
/* The value to wait for at a place so that an update is in it, and as many more updates of its
 * kind; less than 0: all that can come before `second`. Without `second`: minus what has been taken
 * before it. */
int64_t vm_ck_value_for(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                        const vm_ck_access *first, const vm_ck_access *second,
                        const vm_ck_spot *spot, int more);
/* Ends the text of a race. */
void vm_ck_put_advice(const vm_core *c, const vm_ck_advice *a, vm_finding *f);
/* "vector", or "a transfer of queue q". */
void vm_ck_put_who(const vm_core *c, const vm_ck_access *a, isa_buf *out);

/* twins.c: the writes of the log that are twins; NULL if out of memory. */
typedef struct vm_ck_groups vm_ck_groups;
vm_ck_groups *vm_ck_groups_new(vm_core *c);
/* Also counts the pairs. */
void vm_ck_groups_free(vm_core *c, vm_ck_groups *g);
/* Equal for twins; 0: the access has no twin. */
uint32_t vm_ck_twins_group(const vm_ck_groups *g, const vm_ck_access *a);
/* Whether two accesses that nothing orders need no order, and notes them if so. */
bool vm_ck_twins_cover(vm_core *c, vm_ck_groups *g, const vm_ck_access *a, const vm_ck_access *b);

/* merge.c: whether a finding is that a read came too early, and what it missed is this write. */
bool vm_ck_explains(const vm_core *c, const vm_finding *f, const vm_ck_access *write,
                    const vm_ck_access *read);

/* report.c: the wait of a step may never end, since the value can stay at `value`. */
void vm_ck_report_stuck(vm_core *c, const vm_ck_step *w, uint32_t value);
/* What would order two accesses of which one is a push of another rank, when nothing does. */
void vm_ck_put_missing_push(const vm_core *c, const vm_ck_advice *a, isa_buf *out);
/* Update u can take its semaphore below zero. */
void vm_ck_report_too_low(vm_core *c, const vm_ck_signal *u);

/* judge.c: turns the log into findings, at the end of a run or when the log is full. */
void vm_ck_judge(vm_core *c);
/* What all engines that still run have in common at this point of the replay. */
void vm_ck_judge_floor(const vm_core *c, uint32_t *floor);
/* Whether access x of the log comes before y. */
bool vm_ck_judge_before(const vm_core *c, const vm_ck_access *x, const vm_ck_access *y);
/* Equal for twins of the log that is judged; 0: the access has none. */
uint32_t vm_ck_judge_twins(const vm_core *c, const vm_ck_access *a);
/* In a replay: two accesses that nothing orders. */
void vm_ck_judge_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a);

#endif
