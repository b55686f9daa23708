/* Transfers, the rings that they wait in, and the DMA engines that move them. */
#ifndef VM_TRANSFER_H
#define VM_TRANSFER_H

#include "op/walk.h"
#include "place.h"

/* A transfer, used by its shares and freed with the last: dst = op over its sources, or
 * dst = dst op source when it accumulates; op bypass copies. Every view has the elements of dst in
 * the order of dst: the source of a transpose has its dimensions permuted. */
typedef struct vm_transfer {
  vm_view dst, src;
  vm_view *more;    /* sources 1 .. nsrc - 1 of a dma_compute */
  uint8_t nsrc, op; /* op: isa_aluop */
  bool accumulates; /* dst is read when the share completes */
  /* Dimension row_dim of each indexed view has byte offset rows[i] at index i, VM_NO_ROW where
   * the index is out of bounds and skipped. */
  int64_t *rows;
  uint8_t row_dim;
  bool dst_indexed;
  int16_t src_indexed; /* the indexed source, -1 none */
  bool permuted;
  vm_box whole; /* of the permuted source, or of the indexed tensor */
  void *extra;  /* block of more and rows */
  size_t extra_bytes;
  /* For a sendrecv: the one that it has met; that one's transfer, which lives as long as this one;
   * and which rings of this one are done. */
  vm_where met;
  struct vm_transfer *twin;
  uint16_t finished;
  /* For a dma_copy_lists, whose instruction makes several transfers: the number of this one and how
   * many there are; the number of elements that it moves, at most as many as its views have, from
   * which element on in dst and src; and the rings that get their first elements of all in it. */
  uint8_t piece, pieces;
  uint16_t opens;
  uint64_t elems, from[2];
  uint32_t number; /* among all of the run, from 1 on */
  uint32_t left;   /* shares not done */
  uint32_t pc;     /* of the instruction that triggered it */
  uint32_t node;   /* of the trigger, in the record of causes */
  uint8_t engine, queue, prio;
  bool signals, is_static, stale[2]; /* stale: dst, its sources need vm_hbm_use */
  bool large;                        /* it writes an output that the host's caches do not hold */
  uint8_t hbm_bytes;                 /* read and written in HBM for an element of dst */
  uint8_t shares;                    /* that have elements */
  uint8_t sem, sem_core;             /* what it signals, and whose it is */
  /* Slots of the program's peers, 0 none: that gets its bytes, by pattern put_ap; that it signals.
   */
  uint16_t put, peer;
  uint32_t put_ap;
  uint32_t descriptor; /* of a static queue: its number there */
  uint32_t rate;       /* of one DMA engine, MBNS, of destination bytes */
  uint64_t run_bytes;  /* of a contiguous element, in destination bytes */
  /* The last time of a packet from a share's first byte on: its bytes, its descriptors, and the DMA
   * engines that had parts of the stack. */
  struct {
    uint64_t bytes, descriptors;
    uint32_t sharing;
    vm_time moves;
  } packet;
  uint64_t first[ISA_NDMA + 1]; /* elements of ring r's share: first[r] .. first[r + 1] - 1 */
  /* For its shares: walks over dst and src; and what all of their elements may touch, of which a
   * share touches rows of dimension `outer`, of that many elements (0: all of it). */
  vm_walk walk[2];
  vm_box all[2];
  uint64_t row[2];
  uint8_t outer[2];
  uint32_t late; /* shares that are done and whose bytes are yet to move (batch.c) */
  bool ended;    /* it is released with the last of these */
  struct vm_transfer *next_free;
} vm_transfer;

/* In an order in which what most shares use lies together: between two windows of a world the
 * host's caches lose it. */
typedef struct vm_share {
  _Alignas(64) vm_transfer *t;
  struct vm_share *next; /* in its ring, and in the free list */
  uint64_t e0, e1;       /* elements of the transfer in row-major order */
  uint64_t bytes;
  uint64_t sent; /* bytes served so far */
  vm_time ready; /* when its first data may move */
  bool started;
  vm_cause cause; /* of its start */
  vm_item item;
  uint8_t *snap; /* when item.staged: the sources' elements e0 .. e1 - 1, one after another */
} vm_share;
static inline vm_share *vm_share_of(const vm_item *it) {
  return (vm_share *)((uintptr_t)it - offsetof(vm_share, item));
}

typedef struct vm_ring {
  vm_share *head, *tail;
  uint32_t n;
  vm_time fetched; /* when the descriptors of what it has served were fetched */
} vm_ring;

typedef struct vm_dma_engine {
  uint8_t next_queue; /* round robin */
  uint8_t serving;    /* queue of the packet */
  bool busy, armed;   /* serving a packet; has an event to look for work */
  uint32_t queues;    /* a bit for each whose ring here has a share */
  uint64_t packet;    /* bytes of it */
  vm_time ends;       /* of the packet */
  vm_time armed_at;
  vm_time busy_time;
  uint32_t last_node; /* of the last share, in the record of causes */
} vm_dma_engine;

#endif
