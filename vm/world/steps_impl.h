/* How lists of steps are made: inside steps.c and steps_pairs.c. */
#ifndef VM_WORLD_STEPS_IMPL_H
#define VM_WORLD_STEPS_IMPL_H

#include "steps.h"

typedef struct maker {
  const isa_alloc *al;
  const vm_cc_shape *s;
  vm_cc_list *out;
  uint32_t sent, received, total; /* pushes of a ring */
  const uint32_t *order;          /* of its places, NULL: as they are; */
  uint32_t at;                    /* where in it this one is */
  vm_cc_step spare;               /* where a step goes when memory is out */
} maker;

static inline vm_cc_piece piece(vm_cc_buffer buffer, uint32_t block) {
  return (vm_cc_piece){.buffer = buffer, .block = block & 0x3fffffff};
}

static inline vm_cc_step *add(maker *m, vm_cc_step_kind kind) {
  vm_cc_list *l = m->out;
  if (!isa_array_room(m->al, &l->v, l->n, &l->cap, sizeof *l->v)) l->failed = true;
  vm_cc_step *st = l->failed ? &m->spare : &l->v[l->n++];
  *st = (vm_cc_step){.kind = (uint8_t)kind, .count = 1};
  return st;
}

static inline void ready(maker *m, uint32_t peer, uint32_t sem) {
  vm_cc_step *st = add(m, VM_STEP_READY);
  st->peer = peer;
  st->sem = sem;
}

static inline void wait_ready(maker *m, uint32_t sem, uint32_t count) {
  vm_cc_step *st = add(m, VM_STEP_WAIT);
  st->sem = sem;
  st->count = count;
}

/* Says which data a step is about. */
static inline vm_cc_step *about(vm_cc_step *st, uint32_t block, uint32_t slice) {
  st->block = block;
  st->slice = slice;
  return st;
}

static inline vm_cc_step *push(maker *m, uint32_t peer, uint32_t from, vm_cc_piece dst,
                               vm_cc_piece src) {
  vm_cc_step *st = add(m, VM_STEP_PUSH);
  st->peer = peer;
  st->sem = m->out->ready + from;
  st->dst = dst;
  st->src[0] = src;
  st->nsrc = 1;
  return st;
}

static inline vm_cc_step *wait_push(maker *m, uint32_t from) {
  vm_cc_step *st = add(m, VM_STEP_WAIT);
  st->sem = m->out->ready + from;
  return st;
}

static inline vm_cc_step *compute(maker *m, vm_cc_piece dst, vm_cc_piece a, vm_cc_piece b) {
  vm_cc_step *st = add(m, VM_STEP_REDUCE);
  st->dst = dst;
  st->src[0] = a;
  st->src[1] = b;
  st->nsrc = 2;
  return st;
}

static inline vm_cc_step *copy(maker *m, vm_cc_piece dst, vm_cc_piece src) {
  vm_cc_step *st = add(m, VM_STEP_COPY);
  st->dst = dst;
  st->src[0] = src;
  st->nsrc = 1;
  return st;
}

#define EACH_SLICE(m, k) for (uint32_t k = (m)->s->first; k < (m)->s->first + (m)->s->slices; k++)

/* steps.c: a ring. Says that this place is ready; makes each place's sum of its own block; gives
 * the own block of each, which is in `own`, to all. */
void cc_begin_ring(maker *m, uint32_t rounds);
void cc_ring_scatter(maker *m);
void cc_ring_gather(maker *m, vm_cc_piece own);
/* steps_groups.c: rings in groups. */
void cc_groups(maker *m);
/* steps_pairs.c: KangaRing. */
void cc_pairs(maker *m);

#endif
