/* What waits: instructions and shares, in order, and what they touch (batch.c says when). */
#ifndef VM_DEFERRED_H
#define VM_DEFERRED_H

#include "../dma/dma.h"
#include "../op/pe.h"
#include "../work/work.h"
#include "engine.h"

enum { VM_DEFERRED_ITEMS = 256, VM_DEFERRED_WIDE = 32, VM_DEFERRED_ARENA = 1 << 16 };

/* Something that may be cut by partitions p0 .. p1 - 1: `fn` does n of them, from its `first` on,
 * on some thread, whose memory is `room`. A share whose elements depend on no partition is cut into
 * that many equal parts. */
typedef struct vm_waiting vm_waiting;
typedef struct vm_deferred vm_deferred;
struct vm_waiting {
  void (*fn)(vm_deferred *p, const vm_waiting *w, uint32_t first, uint32_t n, void *room);
  vm_core *c;
  const vm_item *item; /* its boxes; of a share it is the share's own */
  uint32_t p0, p1;
  const void *of; /* for fn, of an instruction */
  bool late;      /* the share is released when its bytes have moved */
};

/* Bytes that depend on other partitions, or are no partition's: other work that writes them, or
 * reads what is written, must come before or after the batch. */
typedef struct vm_wide {
  vm_box box;
  bool writes;
  const vm_transfer *of; /* NULL: an instruction */
} vm_wide;

/* What waits, in order, and what it touches. */
struct vm_deferred {
  uint32_t n, nwide, flights, parts; /* parts: flights and transfers */
  uint32_t least, slice;             /* partitions */
  size_t used;
  uint64_t ns, work;               /* to decide whether and how it is cut, and for vm_work_did */
  uint8_t engines[2];              /* by core: those whose instructions wait */
  uint16_t first[2][ISA_NENGINES]; /* the partition at which these begin */
  uint64_t touched[2][2][2];       /* by core, PSUM, written: parts of its memory */
  vm_core *failed;                 /* by an error of a handler, at: */
  vm_where at;
  vm_work_task task;
  vm_waiting v[VM_DEFERRED_ITEMS];
  vm_wide wides[VM_DEFERRED_WIDE];
  _Alignas(16) char arena[VM_DEFERRED_ARENA]; /* operands, boxes */
};

void vm_deferred_empty(vm_deferred *p);
/* A function of a job (work.h): slice `number` of all that waits, in order. The batch's `slice`
 * says how large it is. */
void vm_deferred_do_slice(void *deferred, uint32_t number, void *room);

/* Whether an item must come after what waits. own: a transfer that it is a share of, or NULL. */
bool vm_deferred_meets(const vm_deferred *p, const vm_item *it, const vm_transfer *own);
/* The same of bytes that depend on other partitions, which the item may have in its own. */
bool vm_deferred_meets_wide(const vm_deferred *p, const vm_item *it, const vm_transfer *own);
/* Whether partitions of an instruction depend on other partitions of what waits. */
bool vm_deferred_crosses(const vm_deferred *p, const vm_core *c, unsigned e, const vm_flight *f,
                         const vm_lanes *l);
/* Whether an item writes what the other one touches, or reads what that writes. */
bool vm_deferred_items_meet(const vm_item *a, const vm_item *b);

/* Callers of what follows make sure of it first. */
bool vm_deferred_has_room(const vm_deferred *p);
/* An instruction by partitions, as `l` says; turn: it is that transpose, else NULL. */
void vm_deferred_add_flight(vm_deferred *p, vm_core *c, unsigned e, const vm_flight *f,
                            const vm_lanes *l, const vm_turn *turn);
/* Where a transpose of the tensor engine may be cut: anywhere. Returns true, as vm_lanes_of. */
bool vm_deferred_turn_lanes(const vm_core *c, unsigned e, const vm_flight *f, vm_lanes *l);
/* A share: with `lanes` by partitions, since one end is in HBM and the other one in SBUF; else its
 * elements depend on no partition, and a part has `least` bytes at least. late: it is released when
 * it has been done. */
void vm_deferred_add_share(vm_deferred *p, vm_core *c, vm_share *s, bool lanes, uint64_t least,
                           bool late);

/* Bytes that an instruction reads and writes. */
uint64_t vm_deferred_bytes_of(const vm_flight *f);
/* Nanoseconds that something takes one thread, about, in or outside of a batch, for vm_work_did; a
 * product's multiplications are not in it (product.c). */
uint64_t vm_deferred_work_of(const vm_flight *f);
uint64_t vm_deferred_share_work_of(const vm_share *s);

#endif
