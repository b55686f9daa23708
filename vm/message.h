/* What a run sends to another rank, and what has come from one. For example a CC sequencer of rank
 * 0 pushes a part of a tensor to rank 1: when its last byte has left, a message with a copy of the
 * bytes is posted, and rank 1 gets it LINK_LAT later as one event: the bytes, then the update of a
 * semaphore. Nothing is ever asked of another rank. */
#ifndef VM_MESSAGE_H
#define VM_MESSAGE_H

#include "vm.h"

/* At most that many ranks, and messages of one of them: they are in an event's rank. */
enum { VM_MESSAGE_SEQ = 40 };

/* In `updates`: a packet of a share of several, but the last. It takes its time on links, where
 * packets of several shares follow one another, and ends there: all bytes come with the last. */
enum { VM_MESSAGE_PACKET = 2 };

/* 64 bytes without an address, so that it can go to another process. */
typedef struct vm_message {
  vm_time time;      /* when it arrives */
  uint64_t seq;      /* of its sender, from 0 on */
  uint32_t src, dst; /* ranks; both cores have the same number */
  /* updates: 1: it adds `value` to that semaphore; or VM_MESSAGE_PACKET */
  uint8_t core, updates, sem;
  uint8_t engine; /* the sender's, at pc */
  uint32_t pc;
  /* Elements first .. first + n - 1 of pattern ap of the sender's core, which begins `offset` bytes
   * from where the receiver's tensor, or a partition, begins. ap 0: it has no bytes. */
  uint32_t ap, tensor;
  int64_t offset;
  uint64_t first;
  uint32_t n, value;
} vm_message;
_Static_assert(sizeof(vm_message) == 64, "a message has 64 bytes");

/* A message, and its elements one after another; data NULL: none, or a run without values. */
typedef struct vm_parcel {
  vm_message m;
  uint8_t *data;
  uint64_t bytes;  /* of data */
  uint32_t *known; /* what the checks of the sender know (check/peers.c); NULL: it has none */
  uint32_t nknown;
  uint32_t node; /* what sends it, in the sender's record of causes; 0: it keeps none */
} vm_parcel;

static inline void vm_parcel_free(const isa_alloc *al, const vm_parcel *p) {
  isa_free(al, p->data, p->bytes);
  if (p->known) isa_free(al, p->known, p->nknown * sizeof *p->known);
}

typedef struct vm_inbox { /* of a core: slot i is free if v[i].m.dst is UINT32_MAX */
  vm_parcel *v;
  uint32_t n, cap, left; /* left: slots that are not free */
} vm_inbox;

/* A run's place in a world, which the world owns. */
typedef struct vm_peers {
  isa_alloc al; /* of the bytes of messages, whoever sends and gets them */
  uint32_t rank, nranks;
  vm_run *const *runs;     /* by rank */
  const uint32_t *ranks;   /* by slot - 1 of the program's peers */
  const uint32_t *tensors; /* [slot - 1][tensor of the program]: the peer's; UINT32_MAX: none */
  uint32_t of_device;      /* ranks of a device, between which links are; 0: there are none */
  uint64_t sent;           /* messages so far */
  vm_parcel *out;          /* those to other stacks that have not been taken from here */
  uint32_t nout, cap_out;
} vm_peers;

/* The pattern of the sender's program that the elements of a message are of; NULL: it has none. */
static inline const isa_ap *vm_message_ap(vm_run *const *runs, const vm_message *m) {
  return m->ap ? &runs[m->src]->prog->cores[m->core].aps[m->ap - 1] : NULL;
}
/* Bytes of its elements, which a run without values does not send. */
static inline uint64_t vm_message_bytes(vm_run *const *runs, const vm_message *m) {
  return m->ap ? (uint64_t)m->n * isa_dtype_bytes(vm_message_ap(runs, m)->dtype) : 0;
}

/* engine/send.c */
/* Sends `value` to be added to semaphore sem of the peer in that slot, seen at `at`. */
void vm_send_update(vm_core *c, unsigned slot, unsigned sem, uint32_t value, vm_time at,
                    vm_where by);
/* A message has come for a run: it is an event from now on. The parcel's data are then the run's.
 */
void vm_receive(vm_run *r, const vm_parcel *p);

#endif
