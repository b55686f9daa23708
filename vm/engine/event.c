/* The event heap: a binary heap ordered by (time, class, order of posting). */

#include "engine.h"
#include "../time/clock.h"
#include <string.h>

/* Without branches: which of two events comes first is not to be guessed. */
static inline unsigned before(const vm_event *a, const vm_event *b) {
  unsigned earlier = a->time < b->time, same = a->time == b->time, first = a->rank < b->rank;
  return earlier | (same & first);
}

/* Makes room for an event of that time and class, to be filled in where it lies: an event that is
 * copied just after it was written is read before its bytes have arrived. NULL after a fault. */
static vm_event *place(vm_core *c, vm_time at, uint32_t class) {
  vm_heap *h = &c->heap;
  if (h->n == h->cap && !isa_array_grow(&c->al, &h->v, h->n, &h->cap, sizeof *h->v)) {
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for an event");
    return NULL;
  }
  const uint64_t rank = (uint64_t) class << VM_RANK_CLASS | h->posted++;
  uint32_t i = h->n++;
  for (; i > 0; i = (i - 1) / 2) {
    const vm_event *above = &h->v[(i - 1) / 2];
    if (above->time < at || (above->time == at && above->rank < rank)) break;
    h->v[i] = *above;
  }
  h->v[i] = (vm_event){.time = at, .rank = rank};
  return &h->v[i];
}

/* Puts e, which is not in the heap, at place i or below it. */
static void sift_down(vm_heap *h, uint32_t i, const vm_event *e) {
  for (uint32_t child = 2 * i + 1; child < h->n; child = 2 * i + 1) {
    if (child + 1 < h->n) child += before(&h->v[child + 1], &h->v[child]);
    if (!before(&h->v[child], e)) break;
    h->v[i] = h->v[child];
    i = child;
  }
  h->v[i] = *e;
}

void vm_heap_pop(vm_heap *h, vm_event *top) {
  *top = h->v[0];
  if (--h->n) sift_down(h, 0, &h->v[h->n]);
}

/* Gives event i a later time. */
static void delay(vm_heap *h, uint32_t i, vm_time to) {
  vm_event e = h->v[i];
  e.time = to;
  sift_down(h, i, &e);
}

void vm_event_delay_done(vm_core *c, unsigned e, uint32_t slot, vm_time to) {
  vm_heap *h = &c->heap;
  for (uint32_t i = 0; i < h->n; i++)
    if (h->v[i].kind == VM_E_DONE && h->v[i].who == e && h->v[i].value == slot) {
      delay(h, i, to);
      return;
    }
}

void vm_event_delay_read(vm_core *c, unsigned e, uint32_t pc, vm_time read, vm_time by) {
  vm_heap *h = &c->heap;
  vm_time at = read + (vm_time)c->cost[VM_SEM_SEEN] * VM_NS;
  for (uint32_t i = 0; i < h->n; i++)
    if (h->v[i].kind == VM_E_SEM && !h->v[i].peer && h->v[i].from == e && h->v[i].pc == pc &&
        h->v[i].time == at) {
      delay(h, i, at + by);
      return;
    }
}

/* Order at the same time: semaphores, DMA engines, then each engine's completions and sequencer. */
static uint32_t class_of(vm_event_kind kind, unsigned who) {
  switch (kind) {
  case VM_E_SEM: return 0;
  case VM_E_DMA: return 1 + who;
  case VM_E_DONE: return 1 + ISA_NDMA + 2 * who;
  case VM_E_SEQ: return 2 + ISA_NDMA + 2 * who;
  }
  return UINT32_MAX;
}

void vm_post(vm_core *c, vm_event_kind kind, unsigned who, vm_time at, uint32_t value) {
  vm_event *e = place(c, at, class_of(kind, who));
  if (!e) return;
  e->kind = (uint8_t)kind;
  e->who = (uint8_t)who;
  e->value = value;
}

void vm_post_sem(vm_core *c, vm_time at, const isa_update *u, vm_where by) {
  vm_event *e = place(c, at, class_of(VM_E_SEM, 0));
  if (!e) return;
  e->kind = VM_E_SEM;
  e->update = u->kind;
  e->sem = u->sem;
  e->from = (uint8_t)by.engine;
  e->peer = by.peer;
  e->value = u->value;
  e->pc = by.pc;
  e->node = (by.peer ? c->peer : c)->cause;
}

void vm_post_restored(vm_core *c, const vm_event *restored) {
  vm_event *e = place(c, restored->time, class_of(restored->kind, restored->who));
  if (!e) return;
  uint64_t rank = e->rank;
  *e = *restored;
  e->rank = rank;
}
