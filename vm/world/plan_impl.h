/* Inside the planner. */
#ifndef VM_WORLD_PLAN_IMPL_H
#define VM_WORLD_PLAN_IMPL_H

#include "plan.h"

/* A collective of a rank: what its instruction says. */
typedef struct cc_call {
  uint8_t core, engine;
  uint32_t pc;
  uint16_t op; /* isa_op */
  vm_cc_op does;
  bool joins, both, by_channel;
  bool dense; /* in the call of its first rank: all ranks' operands are bytes in HBM side by side */
  uint8_t alu, dim, stream, prio, dtype;
  uint32_t ranks_n, place;          /* of the list with this rank; of a permute the pairs */
  const uint32_t *ranks;            /* its ranks; of a permute from and to of each pair */
  const uint32_t *dst, *src, *src1; /* patterns of the core, `n` each; src1 NULL: none */
  bool variable, tells, placed;     /* sizes are in metadata; its row 2 is written, row 3 read */
  uint32_t metadata;                /* pattern */
  uint32_t n, nth;                  /* nth: of its list and stream, from 0 on */
  uint32_t number;                  /* among all of its rank */
} cc_call;

typedef struct cc_rank {
  const isa_program *p;
  cc_call *calls;
  uint32_t n, cap;
} cc_rank;

/* What semaphores of one list, of one algorithm, are by which ranks say that they are ready. */
typedef struct cc_ready {
  const uint32_t *ranks;
  uint32_t n, count; /* count: semaphores of each CC sequencer */
  uint8_t algorithm, stream;
  bool rings;             /* two at once */
  uint32_t groups;        /* of a ring in groups */
  bool pairs, by_channel; /* as of calls: their rings may run the other way, so others are ready */
  uint32_t first;         /* index in `spare` */
} cc_ready;

typedef struct cc_order { /* rings of a list's places; v NULL: as they are */
  const uint32_t *ranks;
  uint32_t n, *v;
} cc_order;

enum {
  CC_PARTS = 2, /* CC sequencers of a core that share a collective: queues for more do not fit */
  CC_FROM = 16, /* semaphores of pushes of a CC sequencer: as many as 2^8 ranks take */
  CC_SEMS = CC_FROM + 2
};
struct vm_plan {
  isa_alloc al;
  cc_rank *ranks;
  uint32_t n;
  int algorithm;
  uint32_t ncc;                          /* CC sequencers of a core that are used */
  uint32_t rings, link_rings, of_device; /* as in vm_plan_options */
  uint64_t land[ISA_NCC];                /* bytes for what lands for each */
  vm_cc_list steps;                      /* the last that were made */
  vm_cc_shape counted;                   /* of which semaphores and blocks were counted last, */
  uint32_t count_ready, count_from, count_land; /* as in vm_cc_list */
  uint8_t spare[ISA_NSEMS]; /* semaphores that no program uses, from the highest on */
  uint32_t nspare;
  cc_ready *ready;
  uint32_t nready, cap_ready;
  const isa_instance *instance; /* NULL: not known */
  cc_order *orders;
  uint32_t norders, cap_orders;
  isa_buf image; /* of the program `of` */
  const isa_program *of;
};

/* Semaphores of CC sequencer k: of push number f; of what it moves itself; of a ready key's i. They
 * are indices in `spare`. */
static inline uint32_t cc_sem_from(const vm_plan *p, unsigned k, uint32_t f) {
  return p->spare[k * CC_SEMS + f];
}
static inline uint32_t cc_sem_done(const vm_plan *p, unsigned k) {
  return p->spare[k * CC_SEMS + CC_FROM];
}
/* By which the other core says that its part is done. */
static inline uint32_t cc_sem_both(const vm_plan *p, unsigned k) {
  return p->spare[k * CC_SEMS + CC_FROM + 1];
}

/* What a CC sequencer does of a call. */
typedef struct cc_part {
  vm_cc_shape shape;
  uint32_t nslices;  /* of each block, in all parts of all cores */
  uint32_t first, n; /* operands of the call */
} cc_part;

/* plan.c */
/* "all_gather float32[64], float32[8] (b.py:14)", of what it sends; "0, 3, 1", of many some. */
void cc_put_call(const vm_plan *p, uint32_t rank, const cc_call *x, isa_buf *out);
void cc_put_ranks(const uint32_t *ranks, uint32_t n, isa_buf *out);
/* "rank 1: all_gather float32[64] (b.py:14): ..."; gives false. */
bool cc_refuse(const vm_plan *p, isa_error *e, uint32_t rank, const cc_call *x, const char *fmt,
               ...) ISA_PRINTF(5, 6);
const isa_ap *cc_ap(const vm_plan *p, uint32_t rank, const cc_call *x, uint32_t ap);
uint64_t cc_elems(const isa_ap *ap);
/* The call of another rank that belongs to x; NULL: it has none. */
const cc_call *cc_match(const vm_plan *p, const cc_call *x, uint32_t rank);
/* The rank that a step of x's shape means by a peer. */
uint32_t cc_peer(const cc_call *x, uint32_t peer);
const cc_ready *cc_ready_of(const vm_plan *p, const cc_call *x, const vm_cc_shape *s);
/* DMA rings of its transfers: by whether its ranks are on one device. */
uint32_t cc_rings(const vm_plan *p, const cc_call *x);

/* plan_shape.c. Bytes of the whole result. */
uint64_t cc_bytes_of(const vm_plan *p, uint32_t rank, const cc_call *x);
vm_cc_algorithm cc_algorithm_of(const vm_plan *p, uint32_t rank, const cc_call *x);
/* How many instances a ring is in, with one in each; 0: it is one of all ranks. */
uint32_t cc_ring_groups(const vm_plan *p, const cc_call *x, cc_call *part);
/* Its parts: part k is of CC sequencer k % p->ncc, which does its parts one after another. */
unsigned cc_parts(const vm_plan *p, uint32_t rank, const cc_call *x);
cc_part cc_part_of(const vm_plan *p, uint32_t rank, const cc_call *x, unsigned k);
/* Bytes of operand i's blocks where they land, and from where on. */
uint64_t cc_land_bytes(const vm_plan *p, uint32_t rank, const cc_call *x, const cc_part *part,
                       uint32_t operand);

/* plan_match.c. Whether every other rank of the list has a call that belongs to x, of the same
 * kind. A rank in no pair of a permute does nothing, and may leave it out. */
bool cc_check_match(const vm_plan *p, uint32_t rank, const cc_call *x, isa_error *e);

/* Whether all operands of all its ranks are dense; found once, for the list's first rank. */
void cc_find_dense(vm_plan *p, uint32_t rank, cc_call *x);
bool cc_is_dense(const vm_plan *p, const cc_call *x);

/* plan_overlap.c: false: dst and src share bytes, and what dst gets would depend on timing. */
bool cc_check_overlap(const vm_plan *p, uint32_t rank, const cc_call *x, isa_error *e);

/* plan_order.c */
/* Ring `which`, 0 or 1, of the places of x's list along links; NULL: they are in order. */
const uint32_t *cc_order_of(const vm_plan *p, const cc_call *x, unsigned which);
/* The masks of its halvings and doublings; of a power of two of ranks. */
void cc_masks_of(const vm_plan *p, const cc_call *x, uint32_t *masks);
bool cc_spans_instances(const vm_plan *p, const cc_call *x);
/* How many instances have as many ranks of its list, one after another, of the same numbers; 0: it
 * is another list. *part: the call with only the ranks of this one's instance. */
uint32_t cc_groups_of(const vm_plan *p, const cc_call *x, cc_call *part);
/* Why KangaRing cannot run it; NULL: it can, if it has the operation. */
const char *cc_no_pairs(const vm_plan *p, const cc_call *x);
/* Prepares a ring; false: out of memory. */
bool cc_add_order(vm_plan *p, const cc_call *x);
void cc_free_orders(vm_plan *p);

/* plan_emit.c: adds the block of a call for CC sequencer k, which has a part of it. */
bool cc_emit(vm_plan *p, isa_program *out, uint32_t rank, const cc_call *x, unsigned k,
             isa_error *e);

#endif
