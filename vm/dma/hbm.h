/* Addresses in a device's HBM: who has which, and what is free.
 *
 * HBM is one linear range of addresses, its stacks one after another. Only addresses are kept here;
 * the bytes are host memory of whoever has a range, in pages taken as they are touched, so that HBM
 * may be larger than the host's memory. A range begins at a multiple of VM_HBM_ALIGN. It goes to
 * the lowest free address at which it lies in one stack, and across stacks when it fits in none.
 * Free blocks are the gaps between ranges: neighbours are one block by construction, and the same
 * calls give the same addresses. */
#ifndef VM_HBM_H
#define VM_HBM_H

#include "../../isa/isa.h"

enum {
  VM_HBM_ALIGN = 64, /* bytes: of a DMA descriptor (assumed; no public document gives it) */
  VM_HBM_STACKS = 8, /* the most any target has */
  VM_HBM_NAMED = 8   /* ranges that the report of exhausted HBM lists */
};

typedef enum vm_hbm_owner {
  VM_HBM_PROGRAM = 1, /* a tensor of a run's program */
  VM_HBM_TENSOR,      /* a device tensor */
  VM_HBM_CONST,       /* a program's const tensor that stays on the device */
  VM_HBM_RING         /* the static descriptors of a queue */
} vm_hbm_owner;

typedef struct vm_hbm_range {
  uint64_t at, bytes; /* bytes as asked; up to the next multiple of VM_HBM_ALIGN is padding */
  const char *name;   /* lives as long as the range */
  const void *who;    /* for vm_hbm_release_all */
  uint8_t owner;
} vm_hbm_range;

typedef struct vm_hbm {
  isa_alloc al;
  vm_hbm_range *v; /* by rising address */
  uint32_t n, cap;
  uint32_t packed;           /* there is no gap before range `packed` */
  uint32_t stacks;           /* of the target */
  uint64_t stack_size;       /* of each */
  uint64_t capacity;         /* in all, or less by an option */
  uint64_t used, high_water; /* bytes asked for; the most they have been */
  isa_buf refused;           /* the report of the last vm_hbm_alloc that gave ISA_LIMIT */
} vm_hbm;

/* An empty HBM of target t, of at most `limit` bytes (0: the target's). */
void vm_hbm_init(vm_hbm *h, const isa_alloc *al, const isa_target *t, uint64_t limit);
/* Makes it that of another target. False when a range lies beyond its end: nothing changes. */
bool vm_hbm_fit(vm_hbm *h, const isa_target *t, uint64_t limit);
void vm_hbm_free(vm_hbm *h);

/* Takes `bytes` (at least 1) for `who`; *at is their address. ISA_LIMIT when no free block holds
 * them: h->refused then has the sizes and the largest ranges. ISA_NOMEM: the host's memory is
 * out. */
isa_status vm_hbm_alloc(vm_hbm *h, uint64_t bytes, vm_hbm_owner owner, const char *name,
                        const void *who, uint64_t *at);
/* Gives back the range that begins at `at`; all that `who` has. */
void vm_hbm_release(vm_hbm *h, uint64_t at);
void vm_hbm_release_all(vm_hbm *h, const void *who);

/* "tensor", "device tensor", "device const", "ring"; "?" for no owner. */
const char *vm_hbm_owner_name(unsigned owner);

typedef struct vm_hbm_blocks {
  uint32_t n;             /* free blocks; one may reach over the end of a stack */
  uint64_t free, largest; /* bytes of all and of the largest */
} vm_hbm_blocks;
vm_hbm_blocks vm_hbm_free_blocks(const vm_hbm *h);
/* Bytes of stack i that exist, and that are asked for. */
uint64_t vm_hbm_stack_capacity(const vm_hbm *h, uint32_t i);
uint64_t vm_hbm_stack_used(const vm_hbm *h, uint32_t i);

#endif
