/* The part of soma.h for tensors in HBM; include that. */
#ifndef SOMA_DEVICE_H
#define SOMA_DEVICE_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Device tensors ----------------------------------------------------------------------- */

/* A tensor of zeros in the HBM of m that outlives runs; on failure *t is NULL. SOMA_LIMIT if HBM
 * is exhausted: the message has the sizes, and a line for each of the eight largest allocations.
 * The size of HBM is that of the options, else of the target, else of trn2. Host memory is used
 * only when it is touched, so a tensor may be larger than the host's memory. */
soma_status soma_tensor_new(soma_machine *m, soma_dtype dtype, uint32_t ndim, const int64_t *shape,
                            soma_tensor **t);
/* Names the tensor in listings; without a name they show its type and shape. 63 bytes are kept. */
void soma_tensor_name(soma_tensor *t, const char *name);
/* Frees the HBM as soon as no binding and no run needs it. Also after soma_machine_free. */
void soma_tensor_free(soma_tensor *t);
/* A dense tensor on a part of another's bytes, from byte `offset` on, a multiple of its element's
 * size; on failure *view is NULL. It takes no HBM, can be bound like any tensor, and keeps base's
 * memory until it is freed itself. */
soma_status soma_tensor_view(soma_tensor *base, uint64_t offset, soma_dtype dtype, uint32_t ndim,
                             const int64_t *shape, soma_tensor **view);
/* Copies n bytes, the tensor's size, from or to the host. SOMA_ARG once its machine is freed. */
soma_status soma_tensor_write(soma_tensor *t, const void *data, size_t n);
soma_status soma_tensor_read(soma_tensor *t, void *data, size_t n);
/* The same for n bytes from byte `offset` on. */
soma_status soma_tensor_write_part(soma_tensor *t, uint64_t offset, const void *data, size_t n);
soma_status soma_tensor_read_part(soma_tensor *t, uint64_t offset, void *data, size_t n);
/* Stores an element of `size` bytes `count` times from byte `offset` on. Nothing is copied from the
 * host or counted as copied; it takes no simulated time. */
soma_status soma_tensor_fill(soma_tensor *t, uint64_t offset, const void *element, size_t size,
                             uint64_t count);
/* Bytes copied between host and HBM since m was made, by runs and tensors. Either may be NULL. */
void soma_traffic(const soma_machine *m, uint64_t *to_device, uint64_t *to_host);
/* HBM that tensors of m, and its run that has not ended, take now. */
uint64_t soma_hbm_used(const soma_machine *m);
/* Copies the constants of p to m's HBM, where they stay from run to run; otherwise each run copies
 * them. The bytes are counted once, in soma_traffic. m holds a reference to p until they are
 * dropped. All or none are placed; SOMA_OK if they are there already. */
soma_status soma_move_to_device(soma_machine *m, soma_program *p);
/* Drops them, of p or of all programs when p is NULL; a run that uses them keeps them. */
void soma_drop_from_device(soma_machine *m, const soma_program *p);

/* ---- HBM ---------------------------------------------------------------------------------- */

/* Addresses in HBM: stacks come one after another. Each allocation has the lowest free address that
 * is a multiple of 64 bytes and keeps it in one stack, if there is one. Adjacent free blocks are
 * joined. */
typedef struct soma_hbm_stack {
  uint64_t capacity, used;
} soma_hbm_stack;
typedef struct soma_hbm_usage {
  uint64_t capacity;           /* bytes, as in the fields below */
  uint64_t used, high_water;   /* asked for now, and at most so far */
  uint64_t free, largest_free; /* in free blocks, in the largest; padding makes up the rest */
  uint32_t blocks, free_blocks, stacks;
  soma_hbm_stack stack[8]; /* the first `stacks` of them */
} soma_hbm_usage;
/* HBM as it is now. n is sizeof(soma_hbm_usage) of the caller. */
void soma_hbm_stats(const soma_machine *m, soma_hbm_usage *out, size_t n);
typedef enum soma_hbm_owner {
  SOMA_HBM_PROGRAM = 1, /* a tensor of the running program */
  SOMA_HBM_TENSOR,      /* a device tensor */
  SOMA_HBM_CONST,       /* a constant that soma_move_to_device has placed */
  SOMA_HBM_RING         /* static descriptors of a queue of the running program */
} soma_hbm_owner;
typedef struct soma_hbm_block {
  const char *name; /* lives as long as the block */
  soma_hbm_owner owner;
  uint32_t stack; /* where it begins */
  uint64_t address, bytes;
} soma_hbm_block;
/* Allocation i in the order of addresses. SOMA_ARG past the last. */
soma_status soma_hbm_allocation(const soma_machine *m, uint32_t i, soma_hbm_block *out);

#ifdef __cplusplus
}
#endif

#endif
