/* What will happen, what has happened, and whom a run tells. */
#ifndef VM_EVENT_H
#define VM_EVENT_H

#include "sequencer.h"

typedef enum vm_event_kind {
  VM_E_SEM,
  VM_E_DMA,
  VM_E_DONE,
  VM_E_SEQ,
  VM_E_START, /* a trigger reaches a CC sequencer */
  VM_E_PUT    /* a message of another rank arrives */
} vm_event_kind;
typedef struct vm_event {
  vm_time time;
  /* At the same time: the class (messages, semaphores, DMA engines 0-15, sequencers: done before
   * the next) from bit VM_RANK_CLASS on. Below it how many were posted before; for a message its
   * sender and number, so that it does not matter when it was posted. */
  uint64_t rank;
  uint8_t kind, who;   /* who: sequencer or DMA engine, 0 of VM_E_SEM and VM_E_PUT */
  uint8_t update, sem; /* VM_E_SEM: the update's kind, and the semaphore */
  uint32_t value;      /* of a semaphore update; slot of a flight, a collective, a message */
  vm_where by;         /* VM_E_SEM: the instruction that makes the update, */
  uint32_t node;       /* and its cause */
} vm_event;
enum { VM_RANK_CLASS = 56 };
typedef struct vm_events { /* those to come, in order: v[first] is the next */
  vm_event *v;
  uint32_t first, n, cap;
  uint64_t posted;
} vm_events;

/* Something that has happened; see soma_event. */
typedef struct vm_trace_event {
  unsigned kind;  /* enum vm_event_tag */
  unsigned core;  /* where it happened */
  vm_where where; /* the instruction that caused it */
  uint32_t id;
  vm_time start, end;
  uint64_t bytes;
  uint32_t value;
  uint32_t part; /* as in soma_event */
} vm_trace_event;

/* The callbacks of a run; see soma.h for the meaning. */
typedef struct vm_hooks {
  void (*print)(void *ud, int to_stderr, const char *text, size_t n);
  int (*progress)(void *ud, uint64_t instructions, vm_time t);
  uint64_t (*custom_cycles)(void *ud, const struct vm_CUSTOM *a); /* what a custom_op costs */
  void *event_ud, *print_ud, *progress_ud, *custom_ud;
} vm_hooks;

enum vm_event_tag {
  VM_EV_INSN = 1,
  VM_EV_DMA,
  VM_EV_SEM,
  VM_EV_NOTIFY,
  VM_EV_WAIT,
  VM_EV_TABLE,
  VM_EV_TRIGGER,
  VM_EV_MEET
};

#endif
