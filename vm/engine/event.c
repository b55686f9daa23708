/* The events to come, in the order in which they run: by time, class, and order of posting. An
 * array and not a heap, since most events are posted for later than almost all others: then one is
 * added at the end, and the next is taken at the front. For example the end of a packet comes after
 * what the other DMA engines have begun, and the update of a semaphore after that. */

#include "engine.h"
#include "../message.h"
#include "../time/clock.h"
#include <string.h>

static bool comes_before(const vm_event *a, vm_time time, uint64_t rank) {
  /* Equal times go by rank, which no two events share. */
  return a->time < time || (a->time == time && a->rank < rank);
}

enum { NEAR = 8 }; /* events from an end on that are looked at one by one */

/* How many of the n events at v come before one of that time and rank. */
static uint32_t before_it(const vm_event *v, uint32_t n, vm_time time, uint64_t rank) {
  uint32_t lo = 0, hi = n, half = n / 2;
  /* Half of the array decides which end is near: most events belong close to one of them. */
  if (n && !comes_before(&v[half], time, rank)) {
    for (hi = half; lo < hi && lo < NEAR; lo++)
      if (!comes_before(&v[lo], time, rank)) return lo;
  } else {
    for (lo = n ? half + 1 : 0; hi > lo && n - hi < NEAR; hi--)
      if (comes_before(&v[hi - 1], time, rank)) return hi;
  }
  /* Neither end was near. */
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (comes_before(&v[mid], time, rank))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Makes room for an event at the end: the array grows unless half of it is free at its front. */
static bool make_room(vm_core *c) {
  vm_events *q = &c->events;
  uint32_t end = q->first + q->n;
  /* The events that have run leave room at the front: moving costs less than growing, and happens
   * once for each half of the array. */
  if (q->first > q->cap / 2) {
    memmove(q->v, &q->v[q->first], q->n * sizeof *q->v);
    q->first = 0;
    return true;
  }
  if (isa_array_grow(&c->al, &q->v, end, &q->cap, sizeof *q->v)) return true;
  vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for an event");
  return false;
}

/* Makes a gap among those to come for one that does not come after all of them. */
static vm_event *open_gap(vm_events *q, vm_time time, uint64_t rank) {
  vm_event *at = q->v + q->first;
  uint32_t i = before_it(at, q->n, time, rank), after = q->n++ - i;
  /* The shorter side moves. */
  if (after > i && q->first > 0) {
    q->first--;
    if (i) memmove(at - 1, at, i * sizeof *at);
    return at - 1 + i;
  }
  memmove(at + i + 1, at + i, after * sizeof *at);
  return at + i;
}

/* Makes room for an event of that time and rank, to be filled in where it lies: an event that is
 * copied just after it was written is read before its bytes have arrived. NULL after a fault. */
static inline vm_event *place_ranked(vm_core *c, vm_time at, uint64_t rank) {
  vm_events *q = &c->events;
  if (q->first + q->n >= q->cap && !make_room(c)) return NULL;
  vm_event *e = &q->v[q->first + q->n];
  /* Nearly always: the event comes after all that are to come. */
  if (q->n == 0 || comes_before(e - 1, at, rank))
    q->n++;
  else
    e = open_gap(q, at, rank);
  *e = (vm_event){.time = at, .rank = rank};
  return e;
}

static inline vm_event *place(vm_core *c, vm_time at, uint32_t class) {
  return place_ranked(c, at, (uint64_t) class << VM_RANK_CLASS | c->events.posted++);
}

/* Gives an event a later time. */
static void delay(vm_events *q, vm_event *from, vm_time to) {
  /* A copy: its place is overwritten by those that it lets pass. */
  vm_event e = *from;
  const vm_event *last = &q->v[q->first + q->n - 1];
  e.time = to;
  /* Others of the same time stay behind it or before it, by rank. */
  for (; from < last && comes_before(from + 1, to, e.rank); from++) *from = from[1];
  *from = e;
}

void vm_event_delay_done(vm_core *c, unsigned e, uint32_t slot, vm_time to) {
  vm_event *v = c->events.v + c->events.first;
  for (uint32_t i = 0; i < c->events.n; i++) /* Each slot of a flight has at most one such event. */
    if (v[i].kind == VM_E_DONE && v[i].who == e && v[i].value == slot) {
      delay(&c->events, &v[i], to);
      return;
    }
}

static bool same_place(vm_where a, vm_where b) {
  return a.core == b.core && a.engine == b.engine && a.pc == b.pc;
}

void vm_event_delay_read(vm_core *c, unsigned e, uint32_t pc, vm_time read, vm_time by) {
  vm_event *v = c->events.v + c->events.first;
  vm_time at = read + (vm_time)c->cost[VM_SEM_SEEN] * VM_NS;
  for (uint32_t i = 0; i < c->events.n; i++)
    /* Its own update at that moment: an instruction posts at most one. */
    if (v[i].kind == VM_E_SEM && v[i].time == at && same_place(v[i].by, vm_at_pc(c, e, pc))) {
      delay(&c->events, &v[i], at + by);
      return;
    }
}

/* Order at the same time: messages, semaphores, DMA engines, then each engine's completions (a CC
 * sequencer's triggers) and sequencer. */
static uint32_t class_of(vm_event_kind kind, unsigned who) {
  switch (kind) {
  case VM_E_PUT: return 0;
  /* A second class for an engine's completions and a third for its sequencer, so that a sequencer
   * sees what has just completed. */
  case VM_E_SEM: return 1;
  case VM_E_DMA: return 2 + who;
  case VM_E_DONE:
  case VM_E_START: return 2 + ISA_NDMA + 2 * who;
  case VM_E_SEQ: return 3 + ISA_NDMA + 2 * who;
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
  e->by = by;
  e->value = u->value;
  /* Who makes the update says why; the semaphore may be the other core's. */
  e->node = vm_core_at(c, by.core)->cause;
}

void vm_post_put(vm_core *c, const vm_message *m, uint32_t slot) {
  /* Neither c's counter nor the class: messages sort before all others, by sender and number,
   * whichever order they were handed over in. */
  vm_event *e = place_ranked(c, m->time, (uint64_t)m->src << VM_MESSAGE_SEQ | m->seq);
  if (!e) return;
  e->kind = VM_E_PUT;
  e->value = slot;
}

bool vm_post_restored(vm_core *c, const vm_event *restored) {
  vm_event *e = place(c, restored->time, class_of(restored->kind, restored->who));
  /* The run has faulted already: nothing more is to be said. */
  if (!e) return true;
  /* Its order among equals is that of the file. */
  uint64_t rank = e->rank;
  *e = *restored;
  e->rank = rank;
  /* At the end: it came after all others, as it must. */
  return e == &c->events.v[c->events.first + c->events.n - 1];
}
