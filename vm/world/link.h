/* Links between devices, and the messages on them.
 *
 * A message from a device to another goes over the links of its route one after another. It arrives
 * at a link with its last byte at some time; the bytes before came as it did, so on a link that is
 * free it goes on at once. A link gives its bytes one after another, first come first served: one
 * that is busy lets it wait until all that came before has gone and its own bytes have too. For
 * example two messages of 48000 bytes that come to a link of 48 bytes/ns at 1000 ns leave it at
 * 1000 and 2000 ns.
 *
 * Links belong to no rank. Their events are carried out between windows, in the order of time,
 * sender, number of the message: up to the time before which no rank can send another message. So
 * nothing depends on threads or on where windows end. */
#ifndef VM_WORLD_LINK_H
#define VM_WORLD_LINK_H

#include "../../isa/instance.h"
#include "../message.h"

/* The ends of links that are no device: a switch, and the net between instances. */
enum { VM_LINK_SWITCH = 0x10000, VM_LINK_EFA };

typedef struct vm_link {
  uint32_t from, to; /* devices, or one of the two */
  uint32_t rate;     /* MBNS */
  vm_time free;      /* all that came has gone */
  /* counters; waiting: bytes that have come and not gone, most at once; waited: all messages' */
  uint64_t bytes, messages, waiting;
  vm_time busy, waited;
} vm_link;

/* From that time on the links of two devices, in both directions, have thousandths of their rate;
 * 0: they have failed. Links that have failed at time 0 are in no route; at later ones they stop
 * what comes. */
typedef struct vm_link_change {
  uint32_t a, b; /* b may be VM_LINK_SWITCH, VM_LINK_EFA */
  uint32_t permille;
  vm_time at;
} vm_link_change;

static inline bool vm_link_is_of(const vm_link *x, const vm_link_change *c) {
  return (x->from == c->a && x->to == c->b) || (x->from == c->b && x->to == c->a);
}

/* A message on a link: its last byte came, its bytes went from start to end. */
typedef struct vm_link_pass {
  uint32_t link, src, dst; /* src, dst: ranks */
  uint64_t bytes;
  vm_time came, start, end;
} vm_link_pass;

typedef struct vm_links_options {
  const isa_instance *of;
  uint32_t instances; /* how many of them */
  uint32_t ranks_of_device;
  uint32_t source;      /* MBNS at which a DMA engine brings a message */
  uint32_t least;       /* bytes of a message on a link, at least */
  vm_time hop;          /* for each link of a route after the first */
  vm_time latency, efa; /* after the last, within an instance and between them */
  const vm_link_change *changes;
  uint32_t nchanges;
  bool keep; /* passes */
} vm_links_options;

typedef struct vm_flying { /* a message on its way: its last byte is at link `at` at `time` */
  vm_parcel p;
  vm_time time;
  uint64_t size, before; /* before: bytes of its share in packets that went before it */
  vm_time spread;        /* its first byte came so long before */
  uint32_t at;           /* of a slot without a message: the next of these + 1 */
} vm_flying;

typedef struct vm_due { /* its place in the order in which messages come to links */
  vm_time time;
  uint64_t seq;
  uint32_t src, slot;
} vm_due;

typedef struct vm_links {
  isa_alloc al;
  vm_links_options o;
  vm_link *v;
  uint32_t n, a_device; /* a_device: links from each device, of those to it from others */
  uint32_t *next;       /* [instance][from][to], both in it: the first link of the route + 1 */
  vm_due *heap;         /* the earliest first: moving these costs less than moving messages */
  uint32_t nheap, cap;
  vm_flying *slots;
  uint32_t nslots, cap_slots, no_message; /* no_message: the first slot without one, + 1; 0: none */
  uint32_t lost;                          /* messages that a failed link has stopped */
  vm_link_pass *passes; /* the first 2^20, in the order of their times of coming */
  uint32_t npasses, cap_passes;
  vm_link_change why; /* of the first of them */
} vm_links;

/* Changes are copied; what they say must be links that exist. */
isa_status vm_links_open(vm_links *l, const isa_alloc *al, const vm_links_options *o, isa_error *e);
void vm_links_close(vm_links *l);

static inline uint32_t vm_links_device(const vm_links *l, uint32_t rank) {
  return rank / l->o.ranks_of_device;
}
/* What a message of so many bytes is on a link. */
static inline uint64_t vm_links_size(const vm_links *l, uint64_t bytes) {
  return bytes > l->o.least ? bytes : l->o.least;
}
/* The first link of the route between two devices; NULL: no way leads there. */
vm_link *vm_links_route(const vm_links *l, uint32_t from, uint32_t to);
/* The next link of a message to that device, after that one; NULL: it has come. */
vm_link *vm_links_after(const vm_links *l, const vm_link *x, uint32_t to);
/* Whether it has failed at time 0. */
bool vm_links_failed(const vm_links *l, const vm_link *x);
/* "3-7", "3-switch". */
void vm_links_put(const vm_link *x, isa_buf *out);

/* A message between devices that have a route, with so many bytes on links after those of the
 * packets before it, has left its sender at that time. False: out of memory; the message stays the
 * caller's. */
bool vm_links_enter(vm_links *l, const vm_parcel *p, uint64_t bytes, uint64_t before, vm_time sent);
/* The order in which messages come to links. */
bool vm_links_is_before(const vm_due *a, const vm_due *b);
/* A message on its way. False: out of memory; it stays the caller's. */
bool vm_links_add(vm_links *l, const vm_flying *f);
/* When the next message comes to a link; UINT64_MAX: none is on its way. */
vm_time vm_links_next(const vm_links *l);
/* The next message comes to its link. True: it leaves the last one, and *out arrives at
 * out->m.time.
 */
bool vm_links_step(vm_links *l, vm_parcel *out);

#endif
