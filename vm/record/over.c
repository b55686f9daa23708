/* What went from rank to rank: shares that pushed, and the updates of semaphores that came of them.
 *
 *   rank 0   a share of qcc0 ends at 5.20 us; its trigger adds to $from of rank 1
 *   rank 1   $from rises at 5.73 us, and a wait ends
 *
 * Messages of one rank to one semaphore of another come in the order in which they left. So where
 * as many came as shares were recorded, the first belongs to the first, and so on. Else (a ring
 * without a share's bytes only signals; the trace is a part) it is the last share that had ended.
 */
#include "record.h"

#include <stdlib.h>

/* The rank that the static transfer of a share writes. */
static uint32_t rank_written(const vm_rec_view *t, unsigned core, const isa_insn *in,
                             uint32_t rank) {
  vm_rec_access access[VM_REC_APS];
  uint32_t n = vm_rec_accesses(t->p, core, in, access);
  for (uint32_t i = 0; i < n; i++)
    if (access[i].writes && access[i].ap->rank)
      return isa_peer_rank(t->p, &t->p->peers[access[i].ap->rank - 1], rank);
  return UINT32_MAX;
}

/* How many transfers of the same trigger came before a share's: their triggers have one start.
 * UINT32_MAX: its own was not recorded. */
static uint32_t place_in_trigger(const vm_rec_view *t, const vm_rec_transfers *x, uint32_t share) {
  uint32_t transfer = x->of[share], own = x->v[transfer].trigger, k = 0;
  if (!own) return UINT32_MAX;
  const vm_rec_event *v = vm_rec_at(t->r, own - 1);
  for (; k < transfer; k++) {
    uint32_t before = x->v[transfer - k - 1].trigger;
    const vm_rec_event *w = before ? vm_rec_at(t->r, before - 1) : NULL;
    if (!w || w->pc != v->pc || w->id != v->id || w->core != v->core || w->start != v->start) break;
  }
  return k;
}

bool vm_rec_pushes(const vm_rec_view *t, const vm_rec_transfers *x, uint32_t share, uint32_t rank,
                   vm_rec_over_end *out) {
  const vm_rec_event *v = vm_rec_at(t->r, share);
  uint32_t number, to = UINT32_MAX;
  const isa_insn *in = vm_rec_insn(t, v, &number);
  if (!in || in->op != ISA_OP_dma_trigger || in->upd.kind != ISA_UPD_peer) return false;
  const isa_queue *q = &t->p->cores[v->core].queues[v->id];
  if (in->upd.value) {
    to = isa_peer_rank(t->p, &t->p->peers[in->upd.value - 1], rank);
  } else if (in->u.TRIGGER.first != UINT32_MAX) {
    uint32_t k = place_in_trigger(t, x, share), at = in->u.TRIGGER.first - 1 + k;
    if (k != UINT32_MAX && at < q->nstatics) to = rank_written(t, v->core, &q->statics[at], rank);
  }
  if (to == UINT32_MAX) return false;
  *out = (vm_rec_over_end){
      .from = rank, .to = to, .sem = (uint16_t)vm_rec_sem(v->core, in->upd.sem), .time = v->end};
  return true;
}

static int compare(const vm_rec_over_end *a, const vm_rec_over_end *b) {
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  return a->sem < b->sem ? -1 : a->sem > b->sem;
}

static int in_order(const void *x, const void *y) {
  const vm_rec_over_end *a = x, *b = y;
  int order = compare(a, b);
  if (order) return order;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Where the ends of the same ranks and semaphore as v[i] end. */
static uint32_t end_of(const vm_rec_over_end *v, uint32_t n, uint32_t i) {
  uint32_t end = i + 1;
  while (end < n && compare(&v[end], &v[i]) == 0) end++;
  return end;
}

/* NULL: none had left. */
static const vm_rec_over_end *last_before(const vm_rec_over_end *v, uint32_t n, vm_time t) {
  const vm_rec_over_end *last = NULL;
  for (uint32_t lo = 0, hi = n; lo < hi;) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (v[mid].time < t)
      last = &v[mid], lo = mid + 1;
    else
      hi = mid;
  }
  return last;
}

void vm_rec_over_pairs(vm_rec_over *x,
                       void (*fn)(void *ud, const vm_rec_over_end *push,
                                  const vm_rec_over_end *wait),
                       void *ud) {
  if (x->pushed.n) qsort(x->pushed.v, x->pushed.n, sizeof *x->pushed.v, in_order);
  if (x->came.n) qsort(x->came.v, x->came.n, sizeof *x->came.v, in_order);
  uint32_t p = 0;
  for (uint32_t i = 0, end; i < x->came.n; i = end) {
    const vm_rec_over_end *came = &x->came.v[i];
    end = end_of(x->came.v, x->came.n, i);
    while (p < x->pushed.n && compare(&x->pushed.v[p], came) < 0) p++;
    if (p == x->pushed.n || compare(&x->pushed.v[p], came)) continue;
    const vm_rec_over_end *pushed = &x->pushed.v[p];
    uint32_t n = end_of(x->pushed.v, x->pushed.n, p) - p;
    for (uint32_t k = 0; k < end - i; k++) {
      const vm_rec_over_end *of = n == end - i ? &pushed[k] : last_before(pushed, n, came[k].time);
      if (of && came[k].ends_wait && of->time < came[k].time) fn(ud, of, &came[k]);
    }
  }
}

bool vm_rec_over_add(vm_rec_over_list *l, const isa_alloc *al, const vm_rec_over_end *e) {
  if (!isa_array_room(al, &l->v, l->n, &l->cap, sizeof *l->v)) return false;
  l->v[l->n++] = *e;
  return true;
}

void vm_rec_over_free(vm_rec_over *x, const isa_alloc *al) {
  isa_free(al, x->pushed.v, x->pushed.cap * sizeof *x->pushed.v);
  isa_free(al, x->came.v, x->came.cap * sizeof *x->came.v);
}
