/* The planner: programs of CC sequencers for the collectives of a world's programs.
 *
 * For example `all_reduce dsts=[y], srcs=[x], group=tp, op=add` of gpsimd becomes a block of cc0,
 * from `wait_start gpsimd.L3` to `complete gpsimd.L3`, static transfers in queues of that
 * sequencer, and a tensor for what the other ranks write here. All of it is an ordinary program: it
 * is printed, checked, run and saved as one. */
#ifndef VM_WORLD_PLAN_H
#define VM_WORLD_PLAN_H

#include "../../isa/instance.h"
#include "../../isa/program.h"
#include "steps.h"

typedef struct vm_plan vm_plan;

typedef struct vm_plan_options {
  const isa_program *const *programs; /* by rank; equal pointers: one program of many ranks */
  uint32_t ranks;
  int algorithm; /* vm_cc_algorithm of all collectives that have it, -1: by size */
  /* DMA rings of a push between ranks of one device, and of several; ranks of a device. */
  uint32_t rings, link_rings, of_device;
  const isa_instance *instance; /* whose links rings follow; NULL: places are in order */
} vm_plan_options;

/* Matches the collectives of all ranks with one another: the n-th of a list of ranks, of a stream,
 * with the n-th of each other rank in the list, in the order of engines and of their text. NULL
 * with e when they do not agree, or when there is no room. al is copied; programs outlive it. */
vm_plan *vm_plan_new(const isa_alloc *al, const vm_plan_options *o, isa_error *e);
void vm_plan_free(vm_plan *p);

/* Whether a program has collectives for which none of its CC sequencers has a block. */
bool vm_plan_needed(const isa_program *p);

/* The program of a rank with its CC sections, which the caller frees; NULL with e. */
isa_program *vm_plan_program(vm_plan *p, uint32_t rank, isa_error *e);

/* A collective as it was planned. */
typedef struct vm_plan_row {
  vm_cc_shape shape;
  uint64_t bytes; /* of the whole result: all ranks' together */
} vm_plan_row;
uint32_t vm_plan_rows(const vm_plan *p, uint32_t rank);
/* That of an instruction of a rank's program; false: the plan has none. */
bool vm_plan_row_at(const vm_plan *p, uint32_t rank, isa_place at, vm_plan_row *out);

/* The pattern of elements e, e + 1, ... of ap, at most n: how many it has. n is at least 1, and
 * ap has as many. */
uint64_t vm_plan_cut(const isa_ap *ap, uint64_t e, uint64_t n, isa_ap *out);

#endif
