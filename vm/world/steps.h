/* What one rank does for a collective, as a list of steps on blocks of its operands. Knows nothing
 * of instructions: emit.c makes a CC sequencer's program of it.
 *
 * For example place 0 of two, in a ring all_reduce of one slice:
 *
 *   ready  -> 1               the rank before may write here
 *   wait   ready 1            and the rank after is ready
 *   push   src[1] -> 1: land[0]
 *   wait   from[0]            its block 0 has come
 *   reduce dst[0] = land[0] + src[0]
 *   push   dst[0] -> 1: dst[0]
 *   wait   from[1]            dst[1] is whole
 *
 * Semaphores are numbers of the list's own: first those by which others say that they are ready,
 * then those that pushes raise. A push is 16 shares that arrive in any order among those of other
 * pushes: so a wait is for all pushes that can be on their way to its semaphore. */
#ifndef VM_WORLD_STEPS_H
#define VM_WORLD_STEPS_H

#include "../../isa/base.h"

typedef enum vm_cc_op {
  VM_CC_ALL_REDUCE,
  VM_CC_ALL_GATHER,
  VM_CC_REDUCE_SCATTER,
  VM_CC_ALL_TO_ALL,
  VM_CC_PERMUTE /* also the implicit ones */
} vm_cc_op;

typedef enum vm_cc_algorithm { /* intranode-collective-comm.rst */
                               VM_CC_RING,
                               VM_CC_MESH,     /* all at once; an all_reduce scatters first, then
                                                  gathers */
                               VM_CC_MESH_ONE, /* an all_reduce whose ranks send all to all */
                               VM_CC_RDH,   /* recursive halving, then doubling: a power of two of
                                               ranks */
                               VM_CC_PAIRS, /* KangaRing: a ring of every second rank, which do the
                                               work of their pairs: an even number of ranks */
                               VM_CC_NALGORITHMS
} vm_cc_algorithm;
extern const char *const vm_cc_algorithm_names[VM_CC_NALGORITHMS];

enum { VM_CC_MASKS = 12 }; /* of 4096 ranks */
#define VM_CC_NOBODY UINT32_MAX
typedef struct vm_cc_shape {
  vm_cc_op op;
  vm_cc_algorithm algorithm;
  uint32_t n, place; /* ranks of the list, and this one's place in it */
  bool back;         /* the ring runs from places to those before them */
  bool second;       /* PAIRS: of each pair the second does the work */
  /* RING: places in the order of the ring, NULL: as they are. With a second order two rings run,
   * the second the other way, each with half of the slices. PAIRS: the first is of pairs, that of
   * places 0 and 1 of it and so on; there is no second. */
  const uint32_t *order[2];
  /* RING: so many groups of places, one after another, with a ring each (order[0] has its places);
   * places of one number in all groups exchange what is theirs. 0: one ring. */
  uint32_t groups;
  /* RDH: step s of a doubling is with the place ^ masks[s], a halving goes the other way. All 0: 1,
   * 2, 4 ... Each of the log2 n masks has another highest bit. Two places that meet in a step have
   * the same masks before it, in any order. */
  uint32_t masks[VM_CC_MASKS];
  /* RDH of an all_reduce: slices are parts of the operand, each of all blocks, and all places have
   * the same masks. So a step is about blocks that follow one another: one push, one sum. */
  bool whole;
  bool joins;             /* PERMUTE: what is sent is src op src1 */
  uint32_t first, slices; /* of each block, the parts first .. first + slices - 1 are moved here */
  uint32_t to, from;      /* PERMUTE: places, VM_CC_NOBODY: none */
} vm_cc_shape;

/* Operands of a rank as blocks: one for each place, in order, or a single one. */
typedef enum vm_cc_buffer { VM_CC_SRC, VM_CC_SRC1, VM_CC_DST, VM_CC_LAND } vm_cc_buffer;
typedef struct vm_cc_piece { /* small: a step has up to seventeen */
  uint32_t buffer : 2, block : 30;
} vm_cc_piece;

typedef enum vm_cc_step_kind {
  VM_STEP_READY, /* adds 1 to the peer's semaphore */
  VM_STEP_WAIT,  /* until the semaphore has `count`: then it loses them. Waits that follow one
                    another on one semaphore are one wait for the sum */
  VM_STEP_PUSH,  /* the peer's dst = src[0], then its semaphore */
  VM_STEP_COPY,  /* dst = src[0] */
  VM_STEP_REDUCE /* dst = src[0] op src[1] op ... */
} vm_cc_step_kind;
enum { VM_STEP_SOURCES = 16 }; /* of a REDUCE, as of a dma_compute */
typedef struct vm_cc_step {
  uint8_t kind, nsrc;
  bool chained;              /* of a REDUCE: it goes on with what the one before has made */
  uint32_t sem, peer, count; /* peer: a place of the list */
  /* Which data it is about: that slice of the block. One without elements is not pushed, and not
   * waited for. Pieces are as long: a block of LAND holds any of them. */
  uint32_t slice, block, more; /* more: blocks that follow, in all its pieces */
  vm_cc_piece dst, src[VM_STEP_SOURCES];
} vm_cc_step;

typedef struct vm_cc_list {
  vm_cc_step *v;
  uint32_t n, cap;
  uint32_t ready, from; /* semaphores: the first `ready`, then `from` of pushes */
  uint32_t land;        /* blocks of scratch memory that peers write */
  bool failed;          /* out of memory */
  struct {
    vm_cc_step *v;
    uint32_t cap;
  } half[2]; /* room for those of two rings */
} vm_cc_list;

/* The list is all zero, or that of an earlier call, whose room it takes. False: out of memory. The
 * caller frees it with vm_cc_free, also then. Where dst and src share bytes the shape's algorithm
 * is not VM_CC_MESH_ONE. */
bool vm_cc_make(const isa_alloc *al, const vm_cc_shape *s, vm_cc_list *out);
void vm_cc_free(const isa_alloc *al, vm_cc_list *l);

/* The algorithm for so many bytes, all ranks' together: by the documented ranges. */
vm_cc_algorithm vm_cc_choose(vm_cc_op op, uint32_t n, uint64_t bytes);
/* How many blocks an operand of all ranks' data has: n or 1. */
uint32_t vm_cc_blocks(const vm_cc_shape *s);
/* Whether that algorithm has that operation of n ranks. */
bool vm_cc_has(vm_cc_algorithm a, vm_cc_op op, uint32_t n);

#endif
