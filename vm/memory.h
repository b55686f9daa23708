/* The host's memory behind a core's memories and the tensors in HBM (engine/memory.c). */
#ifndef VM_MEMORY_H
#define VM_MEMORY_H

#include "sequencer.h"

struct vm_core;

/* Scratch memory of handlers, one per thread: nothing is kept in it between two handlers. */
typedef struct vm_workspace {
  float floats[VM_FLOATS]; /* for vm_dp_lend */
  vm_dp dp;                /* of a part of an instruction, with its operands */
  vm_operands operands;
} vm_workspace;

/* The tensor engine's large state, see vm_dp. It is kept from run to run, since new pages would
 * cost a small program more than all its work. */
typedef struct vm_array {
  bool used; /* a run may have computed on that engine: the next clears it */
  vm_weights weights;
  uint8_t psum_written[VM_PSUM_SLOTS];
} vm_array;

/* Memories of a core: they live as long as the machine and keep their bytes between runs. */
typedef struct vm_memory {
  uint8_t *sbuf, *psum;
  vm_workspace *work;
  vm_array *array;
  struct vm_batch *batch;        /* what a run computes a little later, of core 0 */
  size_t sbuf_pitch, psum_pitch; /* host bytes between partitions, never a multiple of 4 KiB */
  size_t sbuf_size, psum_size;   /* host bytes in all */
  uint64_t *reach; /* of SBUF, of PSUM: no partition was ever written from this byte on */
} vm_memory;

typedef struct vm_block { /* host memory of an HBM tensor */
  uint8_t *data;
  uint64_t bytes, address; /* address: in HBM */
  bool borrowed;           /* it outlives the run */
  bool placed;             /* if given: it has its address */
  bool filled;             /* if given without data: the caller will write all of it */
  bool lent;               /* to a result, which frees data */
  uint64_t stale;          /* bytes at its end that count as zero but are not: vm_hbm_use */
  uint64_t *pieces;        /* which of them have been written: vm_hbm_watch; NULL: not known */
} vm_block;

/* Memories of a target, zeroed, host pages taken as they are touched. */
bool vm_memory_new(const isa_alloc *al, const isa_target *t, vm_memory *out);
void vm_memory_free(const isa_alloc *al, vm_memory *m);
/* Sets SBUF and PSUM to zero: what has been written of them. */
void vm_memory_clear(vm_memory *m);
/* n zeroed bytes of host memory, given lazily if the allocator is malloc and n is large; freed with
 * the same allocator and n. */
void *vm_pages_new(const isa_alloc *al, uint64_t n);
void vm_pages_free(const isa_alloc *al, void *p, uint64_t n);

/* A tensor that begins as zeros in a block of an earlier run is set to zero piece by piece: each
 * piece before its first use, unless it is about to be overwritten. Everything that reads HBM must
 * first call one of these, for the bytes of a box or for a tensor. */
void vm_hbm_use(struct vm_core *c, const vm_box *box, bool overwrites);
void vm_hbm_use_all(struct vm_core *c, uint32_t tensor);

/* Whether a tensor is an output that leaves the host's caches before anybody reads it: it is
 * written past them. */
bool vm_hbm_is_large(const struct vm_core *c, uint32_t tensor);

/* For snapshots, which need to copy only what has changed: of each VM_PIECE bytes of a tensor that
 * is watched, the block has the number of a copy with the same bytes; VM_PIECE_ZEROS: they are
 * zeros; 0: they have been written since, or nothing is known. Who makes the copies gives the
 * numbers. */
enum { VM_PIECE = 1 << 16, VM_PIECE_ZEROS = 1 };
static inline size_t vm_pieces_of(uint64_t bytes) {
  return (size_t)((bytes + VM_PIECE - 1) / VM_PIECE);
}
/* Begins to watch a tensor; false if out of memory. */
bool vm_hbm_watch(struct vm_core *c, uint32_t tensor);
/* Bytes of the box are about to be written. */
void vm_hbm_wrote(struct vm_core *c, const vm_box *box);

/* Memory of tensors, and of logs: the first touch of a page costs the host more than most of what
 * is then done with it. A machine keeps freed blocks of 64 KiB to 256 MiB for its next runs: at
 * most 32 of them and 256 MiB; those not used for the longest time are freed first. A pool lives
 * until its last holder drops it; it may be used from several threads. Pools may be NULL in all of
 * these: then nothing is kept. */
typedef struct vm_pool vm_pool;
vm_pool *vm_pool_new(const isa_alloc *al); /* held once */
void vm_pool_hold(vm_pool *p);
void vm_pool_drop(vm_pool *p);
/* Gives its blocks back to the host; vm_pool_close also those it gets later, and drops it. */
void vm_pool_empty(vm_pool *p);
void vm_pool_close(vm_pool *p);
/* The state of many cores that take turns is in few huge pages: in others a turn costs the host
 * more for finding pages than for what it does with them (256 ranks in windows of 1 us: a tenth of
 * their time). A reserve is held once; NULL: it would be too small, or there is no memory, which
 * does not matter. A pool takes from the first that it is lent, and holds it. */
typedef struct vm_reserve vm_reserve;
vm_reserve *vm_reserve_new(uint64_t bytes);
void vm_reserve_drop(vm_reserve *r);
void vm_pool_lend(vm_pool *p, vm_reserve *r);
/* The same as vm_pool_take for less than VM_STATE_LESS bytes, of the pool's reserve while that has
 * room. */
enum { VM_STATE_LESS = 1 << 19 };
void *vm_pool_take_state(vm_pool *p, const isa_alloc *al, uint64_t n, bool zeroed);
/* n bytes, all zero if `zeroed`. al is the pool's, here and for vm_pool_give, which takes NULL. */
void *vm_pool_take(vm_pool *p, const isa_alloc *al, uint64_t n, bool zeroed);
/* A kept block of n bytes with its old contents; NULL: none exists. */
void *vm_pool_find(vm_pool *p, uint64_t n);
void vm_pool_give(vm_pool *p, const isa_alloc *al, void *data, uint64_t n);
/* The same for a block of which little is used: who has it sets that to zero before giving it. */
void *vm_pool_take_zeros(vm_pool *p, const isa_alloc *al, uint64_t n);
void vm_pool_give_zeros(vm_pool *p, const isa_alloc *al, void *data, uint64_t n);
/* Arrays of a pool that grow: room for element n of one with *cap elements of `size` bytes, whose
 * pointer is at array_ptr (new elements hold anything); and giving it back. */
bool vm_pool_room(vm_pool *p, const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap,
                  size_t size);
void vm_pool_give_array(vm_pool *p, const isa_alloc *al, void *data, uint32_t cap, size_t size);

#endif
