/* Addresses in a device's HBM: which are taken, by whom, and which are free.
 *
 * HBM is one linear range of addresses, its stacks one after another. Only addresses are kept here.
 * The bytes are host memory of the owner of a range, in pages that are taken when they are touched,
 * so that HBM may be larger than the host's memory. A range begins at a multiple of VM_HBM_ALIGN.
 * It gets the lowest free address that keeps it in one stack, and crosses stacks if it fits in
 * none. Free blocks are the gaps between ranges: adjacent ones are always one block, and the same
 * calls give the same addresses. */
#ifndef VM_HBM_H
#define VM_HBM_H

#include "../../isa/isa.h"

enum {
  VM_HBM_ALIGN = 64, /* bytes: of a DMA descriptor (assumed; no public document gives it) */
  VM_HBM_STACKS = 8, /* the most that any target has */
  VM_HBM_NAMED = 8   /* ranges that the report of exhausted HBM lists */
};

typedef enum vm_hbm_owner {
  VM_HBM_PROGRAM = 1, /* a tensor of a run's program */
  VM_HBM_TENSOR,      /* a device tensor */
  VM_HBM_CONST,       /* a program's const tensor that stays on the device */
  VM_HBM_RING         /* the static descriptors of a queue */
} vm_hbm_owner;

typedef struct vm_hbm_range {
  uint64_t at, bytes; /* bytes as requested; the rest up to the next multiple of VM_HBM_ALIGN is
                         padding */
  const char *name;   /* lives as long as the range */
  const void *who;    /* for vm_hbm_release_all */
  uint8_t owner;
} vm_hbm_range;

typedef struct vm_hbm {
  isa_alloc al;
  vm_hbm_range *v; /* by increasing address */
  uint32_t n, cap;
  uint32_t packed;           /* there is no gap before range `packed` */
  uint32_t stacks;           /* of the target */
  uint64_t stack_size;       /* of each */
  uint64_t capacity;         /* in all, or less by an option */
  uint64_t used, high_water; /* bytes requested now, and the most so far */
  isa_buf refused;           /* the report of the last vm_hbm_alloc that gave ISA_LIMIT */
} vm_hbm;

/* An empty HBM of target t, of at most `limit` bytes (0: the target's). */
void vm_hbm_init(vm_hbm *h, const isa_alloc *al, const isa_target *t, uint64_t limit);
/* Changes the target. False if a range lies beyond its end: then nothing changes. */
bool vm_hbm_fit(vm_hbm *h, const isa_target *t, uint64_t limit);
void vm_hbm_free(vm_hbm *h);

/* Takes `bytes` (at least 1) for `who`; *at is their address. ISA_LIMIT if no free block holds
 * them: h->refused then has the sizes and the largest ranges. ISA_NOMEM: the host is out of memory.
 */
isa_status vm_hbm_alloc(vm_hbm *h, uint64_t bytes, vm_hbm_owner owner, const char *name,
                        const void *who, uint64_t *at);
/* Frees the range that begins at `at`; all ranges of `who`. */
void vm_hbm_release(vm_hbm *h, uint64_t at);
void vm_hbm_release_all(vm_hbm *h, const void *who);

/* "tensor", "device tensor", "device const", "ring"; "?" if there is no owner. */
const char *vm_hbm_owner_name(unsigned owner);

typedef struct vm_hbm_blocks {
  uint32_t n;             /* free blocks; one may reach over the end of a stack */
  uint64_t free, largest; /* bytes of all and of the largest */
} vm_hbm_blocks;
vm_hbm_blocks vm_hbm_free_blocks(const vm_hbm *h);
/* Bytes of stack i in all, and those asked for. */
uint64_t vm_hbm_stack_capacity(const vm_hbm *h, uint32_t i);
uint64_t vm_hbm_stack_used(const vm_hbm *h, uint32_t i);

#endif
