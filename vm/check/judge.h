/* What judges the log of a run: which orders every timing keeps, what semaphores that do more than
 * count are sure of, and what is told of it. */
#ifndef VM_CHECK_JUDGE_H
#define VM_CHECK_JUDGE_H

#include "impl.h"

/* must.c: what has happened before each step under every timing. */
typedef struct vm_ck_must vm_ck_must;
typedef struct vm_ck_mixed vm_ck_mixed;
/* in_run: what has happened before each step in the run as it was. NULL when memory is out. */
vm_ck_must *vm_ck_must_new(vm_core *c, bool in_run);
void vm_ck_must_free(vm_core *c, vm_ck_must *m);
/* Finds the clocks anew, with all steps of the log. False when memory is out. */
bool vm_ck_must_solve(vm_core *c, vm_ck_must *m);
/* The clock of a step; valid until the next solve. */
const uint32_t *vm_ck_must_clock(const vm_ck_must *m, uint32_t step);
/* What an update tells joins `to`. */
void vm_ck_must_join(const vm_ck_must *m, const vm_ck_signal *u, uint32_t *to);
/* What is known of the semaphores of the log that do more than count. */
vm_ck_mixed *vm_ck_must_mixed(const vm_ck_must *m);
/* Whether whoever sees the update knows epoch of component comp. */
bool vm_ck_must_tells(const vm_ck_must *m, const vm_ck_signal *u, unsigned comp, uint32_t epoch);
/* Whether some step can never come: what was assumed closes a circle. */
bool vm_ck_must_stuck(const vm_ck_must *m);
/* Assumes that access `first` is complete before access `second` begins; by: that an update that
 * tells so has been seen, or NULL. */
bool vm_ck_must_assume(vm_core *c, const vm_ck_access *first, const vm_ck_access *second,
                       const vm_ck_signal *by);

/* mixed.c: semaphores that do more than count. NULL when memory is out. */
vm_ck_mixed *vm_ck_mixed_new(vm_core *c);
void vm_ck_mixed_free(vm_ck_mixed *x);
/* Components of clocks, with those that say how many updates have arrived. */
uint32_t vm_ck_mixed_comps(const vm_ck_mixed *x);
/* What the wait of a step of kind VM_CK_HELD acquires joins `mine`; of a semaphore that is not
 * decided, nothing. */
void vm_ck_mixed_acquire(vm_ck_mixed *x, const vm_ck_must *m, uint32_t step, uint32_t *mine);
/* Whether a step of kind VM_CK_KNOW counts. */
bool vm_ck_mixed_knows(const vm_ck_mixed *x, uint32_t step);
/* The first pass over the steps is over: until then waits acquire what they saw in the run. */
void vm_ck_mixed_passed(vm_ck_mixed *x);
/* Finds anew what waits are sure of, by the clocks that m has now; false: nothing is less than it
 * was, or memory is out. */
bool vm_ck_mixed_lower(vm_ck_mixed *x, const vm_ck_must *m);
/* After the last time. False when memory was out. */
bool vm_ck_mixed_settle(vm_ck_mixed *x);
bool vm_ck_mixed_decides(const vm_ck_mixed *x, unsigned sem);
/* Whether two accesses, which may come in either order, are never open at once, since who comes
 * later has to wait: as of two that take one semaphore in turn. */
bool vm_ck_mixed_apart(vm_ck_mixed *x, const vm_ck_must *m, const vm_ck_access *a,
                       const vm_ck_access *b);

/* lucky.c: takes back what was found of semaphores whose waits all end, in whatever order updates
 * come, and reports those of which that is not so. */
void vm_ck_judge_waits(vm_core *c, const vm_ck_must *m);

/* advice.c: who of two accesses that nothing orders has to come first, and what makes it so. */
enum { VM_CK_UNSURE = 100 }; /* a rank, and those after it: no wait can be named */
typedef struct vm_ck_advice {
  const vm_ck_access *first, *second;
  unsigned rank; /* the least is the surest */
  bool early;    /* second overwrites what first still needs */
  bool enough;   /* second waits for as much as first brings, yet others can bring it */
  bool drain, signals, waits, again, takes;
  bool falls; /* the wait is for <=, on a value that falls */
  bool stale; /* the wait held, and yet does not tell */
  bool there; /* its wait stands at second itself */
  bool alone; /* no other engine waits for the semaphore */
  uint16_t sem;
  int64_t value, waited, step; /* step: by which value rises in each round, 0: by no one number */
  const vm_ck_signal *other; /* an update that could stand in for the one that is meant, or NULL */
  uint32_t waited_pc, round; /* round: of second, 0: it is not known */
} vm_ck_advice;
void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_must *run,
                  const vm_ck_access *old, const vm_ck_access *a, vm_ck_advice *out);
/* What makes the order of the two. */
void vm_ck_advise_order(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                        const vm_ck_access *second, vm_ck_advice *out);
/* The update to wait for: the one that fits best, and of several the first; NULL: none tells. */
const vm_ck_signal *vm_ck_signal_of(const vm_core *c, const vm_ck_must *m,
                                    const vm_ck_access *first, const vm_ck_access *second);
void vm_ck_put_advice(const vm_core *c, const vm_ck_advice *a, isa_buf *out);
/* "vector", or "a transfer of queue q". */
void vm_ck_put_who(const vm_core *c, const vm_ck_access *a, isa_buf *out);

/* merge.c: whether a finding is that a read came too early, and what it missed is this write. */
bool vm_ck_explains(const vm_core *c, const vm_finding *f, const vm_ck_access *write,
                    const vm_ck_access *read);

/* report.c. The wait of a step can wait for ever, since the value can stay at `value`. */
void vm_ck_report_stuck(vm_core *c, const vm_ck_step *w, uint32_t value);
/* Update u can take its semaphore below zero. */
void vm_ck_report_too_low(vm_core *c, const vm_ck_signal *u);

/* judge.c: what the log shows, as findings; at the end of a run, or when the log is given up. */
void vm_ck_judge(vm_core *c);
/* The least of what all engines that still continue know, where the replay is. */
void vm_ck_judge_floor(const vm_core *c, uint32_t *floor);
/* Two accesses that nothing orders, of a replay. */
void vm_ck_judge_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a);

#endif
