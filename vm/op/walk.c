/* Walks: which elements of a view lie where. */
#include "walk.h"

static void open_at(vm_walk *w, const vm_view *v, uint8_t *base, const int64_t *rows) {
  w->base = base;
  w->esize = v->esize;
  w->dtype = v->dtype;
  w->skipped = false;
  w->rows = rows;
  w->row = -1;
  w->from = 0;
  w->n = 0;
}

void vm_walk_open(vm_walk *w, const vm_view *v, const int64_t *rows, unsigned row_dim) {
  open_at(w, v, v->at, rows);
  for (unsigned d = 0; d < v->ndim; d++) {
    /* From the outermost dimension to the innermost; w->n counts those that stay. */
    vm_walk_dim x = {.num = v->num[d], .step = v->step[d]};
    bool row = rows && d == row_dim;
    /* A dimension of one element moves nothing; that of the rows stays, for its offset. */
    if (x.num == 1 && !row) continue;
    vm_walk_dim *outer = w->n && w->row != w->n - 1 ? &w->dim[w->n - 1] : NULL;
    /* Two dimensions that follow one another in memory are one: fewer carries. */
    if (!row && outer && outer->step == x.step * (int64_t)x.num) {
      outer->num *= x.num;
      outer->step = x.step;
      continue;
    }
    if (row) w->row = w->n;
    w->dim[w->n++] = x;
  }
  /* A view of one element, or one whose innermost dimension goes by an index vector: the run is
   * then a single element. */
  if (w->n == 0 || w->row == w->n - 1) w->dim[w->n++] = (vm_walk_dim){.num = 1, .step = v->esize};
  w->step = w->dim[w->n - 1].step;
}

void vm_walk_partition(vm_walk *w, const vm_view *v, uint32_t p) {
  open_at(w, v, v->at + (int64_t)p * v->step[0], v->place);
  /* Indirect elements: each is a row of one element, at its own offset. */
  if (v->place) {
    w->row = 0;
    w->dim[w->n++] = (vm_walk_dim){.num = v->elems};
  } else if (v->run != v->elems) {
    /* How many runs the partition has: the dimensions outside of the run are those, from the
     * outermost on, whose sizes multiply to that. */
    uint64_t inner = v->elems / v->run;
    for (unsigned d = 1; inner > 1; inner /= v->num[d++])
      w->dim[w->n++] = (vm_walk_dim){.num = v->num[d], .step = v->step[d]};
  }
  w->dim[w->n++] = (vm_walk_dim){.num = v->run, .step = v->run_step};
  w->step = v->run_step;
}

/* Byte offset of index i of the dimension whose offsets are in rows. */
static inline int64_t row_offset(const vm_walk *w, uint64_t i) {
  /* A skipped row lies nowhere: its place is that of the first, and w->skipped keeps callers from
   * using it. */
  return w->rows[i] == VM_NO_ROW ? 0 : w->rows[i];
}

void vm_walk_seek(vm_walk *w, uint64_t e) {
  uint64_t r = e += w->from;
  w->run_at = w->base;
  /* One run: e is a multiplication away. */
  if (w->n > 1) {
    /* The last dimension is the run itself: it is walked by `step`, and needs no index. */
    uint64_t run = w->dim[w->n - 1].num, q = vm_quotient(e, run);
    r = e - q * run;
    for (int d = w->n - 1; d-- > 0;) {
      vm_walk_dim *x = &w->dim[d];
      /* Mostly it does, and a division costs more than the rest of the loop. */
      bool fits = q == 0 || q < x->num;
      x->index = fits ? q : q % x->num;
      q = fits ? 0 : q / x->num;
      w->run_at += d == w->row ? row_offset(w, x->index) : (int64_t)x->index * x->step;
    }
    w->skipped = w->row >= 0 && w->rows[w->dim[w->row].index] == VM_NO_ROW;
  }
  w->at = w->run_at + (int64_t)r * w->step;
  w->left = w->dim[w->n - 1].num - r;
}

void vm_walk_carry(vm_walk *w) {
  /* As an odometer: the innermost index that does not overflow ends it. */
  for (int d = w->n - 1; d-- > 0;) {
    vm_walk_dim *x = &w->dim[d];
    uint64_t was = x->index++;
    if (x->index == x->num) x->index = 0;
    if (d == w->row) {
      w->run_at += row_offset(w, x->index) - row_offset(w, was);
      w->skipped = w->rows[x->index] == VM_NO_ROW;
    } else {
      w->run_at += ((int64_t)x->index - (int64_t)was) * x->step;
    }
    /* It did not wrap: the dimensions outside stay. */
    if (x->index) break;
  }
}
