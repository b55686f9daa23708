/* What mixed.c and lucky.c share: the semaphores of a log that do more than count. */
#ifndef VM_CHECK_MIXED_H
#define VM_CHECK_MIXED_H

#include "check.h"
#include "judge.h"

/* A wait that has passed, an update, or both at once. */
typedef struct mixed_node {
  uint32_t wait; /* step + 1; 0: none */
  const vm_ck_signal *update;
} mixed_node;

/* Nodes that come one after another: waits of one engine and those of its updates that take effect
 * at once, or the updates of one source. Rings with equal updates share a chain: each node stands
 * for `rings` updates. */
typedef struct mixed_chain {
  mixed_node *v;
  uint32_t n, cap;
  bool flow; /* updates of a source */
  bool both; /* of a ring: when both halves of a sendrecv are done */
  uint16_t comp;
  uint32_t rings;
  uint32_t first; /* number of its first node */
  uint32_t slot;  /* of a flow: the component that says how many have arrived */
  uint32_t seen;  /* nodes that had come where the first pass is now */
} mixed_chain;

typedef struct mixed_sem {
  unsigned sem;
  bool open; /* not decided: too many states, or the host has set the semaphore */
  mixed_chain *chains;
  uint32_t nchains, cap_chains, nnodes;
  uint32_t rows;       /* nodes that have: */
  uint32_t *know;      /* the clock of each */
  uint32_t *need;      /* how far each chain must have come before it */
  uint32_t *in_run;    /* updates that were seen where the first pass is now */
  uint32_t *at, *next; /* states: how far each chain has come, and the value */
  uint32_t *states, nstates, cap_states;
  uint32_t *table, ntable;
  const vm_ck_signal *below; /* an update that can take it below zero; NULL: none */
} mixed_sem;

struct vm_ck_mixed {
  vm_core *c;
  const vm_ck_log *g;
  mixed_sem *sems;
  uint32_t nsems, cap_sems;
  uint32_t n;             /* components, with those of arrivals */
  uint32_t nsteps, nrows; /* rows: one for each wait */
  uint32_t *row_of;       /* of a step, its row + 1 */
  uint32_t *kept, *fresh; /* rows: what the waits acquire; the same, computed again */
  uint32_t *cut;
  bool *sure; /* for each step: the wait guarantees the update */
  uint64_t work;
  uint32_t rounds;
  bool whole, began, failed; /* whole: the run has ended well; began: the first pass is over */
};

/* What has happened when the chains have come so far; valid until the next call. */
const uint32_t *vm_ck_mixed_cut(const vm_ck_mixed *x, const mixed_sem *s, const uint32_t *at);
/* Whether all has come that node i of chain h needs. */
bool vm_ck_mixed_met(const mixed_sem *s, const mixed_chain *h, uint32_t i, const uint32_t *at);
const uint32_t *vm_ck_mixed_state(const mixed_sem *s, uint32_t i);
/* How far its engine's sequencer has come at a wait, or at a value that it sets at once. */
uint32_t vm_ck_mixed_seq(const vm_ck_mixed *x, const mixed_node *d);

#endif
