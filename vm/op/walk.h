/* A walk over the elements of a view, in row-major order, run by run. For example [4, 8] of float32
 * with rows 64 bytes apart: four runs of eight elements, 4 bytes apart. */
#ifndef VM_OP_WALK_H
#define VM_OP_WALK_H

#include "op.h"

#define VM_NO_ROW INT64_MIN /* offset of a row that is skipped: its index is out of bounds */

typedef struct vm_walk_dim {
  uint64_t num, index;
  int64_t step; /* bytes */
} vm_walk_dim;

typedef struct vm_walk {
  uint8_t *at;   /* the element */
  uint64_t left; /* elements left in its run, with this one */
  int64_t step;  /* bytes between elements of a run */
  bool skipped;  /* the run's row is VM_NO_ROW */
  uint8_t esize, dtype;
  uint8_t *run_at; /* first element of the run */
  uint8_t *base;
  const int64_t *rows; /* byte offsets of the indices of dimension `row`, instead of its step */
  int row;             /* -1: every dimension has a step */
  uint64_t from;       /* the element that is number 0 for vm_walk_seek */
  int n;               /* dimensions; the last is the run */
  vm_walk_dim dim[VM_DIMS + 1];
} vm_walk;

/* Division of what most often has 32 bits: on many hosts that takes half as long, or less. */
static inline uint64_t vm_quotient(uint64_t a, uint64_t b) {
  return (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
}

/* A walk over all of v. Dimensions that continue one another become one. Dimension row_dim has its
 * byte offsets in rows (NULL: no dimension does). The walk has no position before vm_walk_seek. */
void vm_walk_open(vm_walk *w, const vm_view *v, const int64_t *rows, unsigned row_dim);
/* The same over partition p, whose last dimensions already form one run (vm_view_runs). */
void vm_walk_partition(vm_walk *w, const vm_view *v, uint32_t p);
/* Moves to element e of those that it walks over, counted from `from`. */
void vm_walk_seek(vm_walk *w, uint64_t e);
/* The next index of the dimensions outside the run. */
void vm_walk_carry(vm_walk *w);

static inline void vm_walk_next_run(vm_walk *w) {
  int d = w->n - 2; /* most often only the innermost index changes */
  if (d >= 0 && d != w->row && w->dim[d].index + 1 < w->dim[d].num) {
    w->dim[d].index++;
    w->run_at += w->dim[d].step;
  } else {
    vm_walk_carry(w);
  }
  w->at = w->run_at;
  w->left = w->dim[w->n - 1].num;
}

/* n elements further, at most to the next run. */
static inline void vm_walk_advance(vm_walk *w, uint64_t n) {
  w->left -= n;
  if (w->left == 0)
    vm_walk_next_run(w);
  else
    w->at += (int64_t)n * w->step;
}

/* Elements that lie next to each other in memory, run after run. */
static inline uint64_t vm_walk_dense(const vm_walk *w) {
  return w->step == w->esize ? w->dim[w->n - 1].num : 1;
}

#endif
