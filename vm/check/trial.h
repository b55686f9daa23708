/* The causes of what judge.c finds, and the trials of their fixes. */
#ifndef VM_CHECK_TRIAL_H
#define VM_CHECK_TRIAL_H

#include "judge.h"

enum {
  MOST_PAIRS = 1 << 13,
  MOST_CAUSES = 1 << 11,
  MOST_ADVISED = 32,      /* causes that are compared each time */
  MOST_ASSUMED = 24,      /* after so many causes the rest is reported as it is */
  MOST_EARLIER = 1 << 24, /* accesses that are looked at for pairs that were not compared */
  MOST_FIXES = 48         /* that are tried for a cause */
};

typedef struct pair { /* numbers in the log */
  uint32_t old, a;
  uint32_t cause;
} pair;
typedef struct cause { /* two places */
  uint64_t key;
  uint32_t pair, other; /* the pair that represents it; the first with its places the other way
                           round */
  uint32_t n;           /* how many there are */
  bool done, both;      /* both: there is one the other way round */
  bool mark;
} cause;

struct vm_ck_judge {
  vm_ck_must *m, *run;
  vm_ck_groups *twins;
  pair *pairs;
  cause *causes;
  uint32_t npairs, ncauses;
  uint32_t *rounds, *runs; /* of each access: the round of its instruction, of how many */
  uint64_t earlier;
  uint64_t looks;                /* steps and components that trials have looked at */
  bool failed;                   /* out of memory */
  uint32_t before;               /* findings that were there before */
  uint32_t at;                   /* the replay's place */
  uint32_t until[VM_CK_SOURCES]; /* the last place of each engine */
};

static inline const vm_ck_access *access_of(const vm_core *c, uint32_t number) {
  return &c->check->log.accesses[number - 1];
}
static inline uint64_t place(const vm_ck_access *a) { return (uint64_t)a->engine << 28 | a->pc; }

/* What a trial changes of the log. */
typedef struct vm_ck_state {
  uint32_t nsteps, *step; /* of each step, update and access */
  int64_t *want;          /* of each step */
} vm_ck_state;
bool vm_ck_save(vm_core *c, vm_ck_state *s);
void vm_ck_restore(vm_core *c, const vm_ck_state *s);
void vm_ck_forget(vm_core *c, const vm_ck_state *s);

bool vm_ck_is_ordered(const vm_core *c, const struct vm_ck_judge *j, const pair *p);
/* The order of an advice for pair i; of a cause that has pairs both ways, in a round where its
 * accesses are equally far apart. False: it says nothing of this pair. */
bool vm_ck_turn(const vm_core *c, const struct vm_ck_judge *j, const cause *s,
                const vm_ck_advice *how, uint32_t i, const vm_ck_access **from,
                const vm_ck_access **to);
/* fixes.c: what could mend a cause; up to MOST_FIXES, by the clocks without any of them. */
uint32_t vm_ck_list_fixes(const vm_core *c, struct vm_ck_judge *j, const cause *s,
                          const vm_ck_advice *base, vm_ck_advice *out);

/* Counts the pairs of each cause that is left; returns how many causes have no pairs any more. */
uint32_t vm_ck_explained(const vm_core *c, struct vm_ck_judge *j);
/* The cause whose fix explains the most, of those that are equally sure; NULL: none is left. */
cause *vm_ck_next_cause(vm_core *c, struct vm_ck_judge *j, const vm_ck_state *s,
                        vm_ck_advice *best);
/* Changes the log as the fix of a cause would have changed the run. False: out of memory. */
bool vm_ck_assume(vm_core *c, struct vm_ck_judge *j, const cause *s, const vm_ck_advice *how);

#endif
