/* Rings in groups of places, one after another, such as the ranks of several instances: each group
 * has a ring, and places of one number in all groups exchange what they have. So less goes between
 * groups than by one ring, and in a single step. For example an all_gather of groups (0, 1, 2) and
 * (3, 4, 5):
 *
 *   4: pushes its block to 1
 *      pushes it along the ring of 3, 4, 5, and passes on the blocks of 3 and 5
 *      when 1's block has come, does the same with blocks 0, 1, 2
 *
 * In a reduce_scatter the ring of 3, 4, 5 makes its sums of blocks 0, 1, 2 first, which they push
 * to 0, 1, 2; then those of its own, to which they add what has come. An all_reduce is both. */
#include "steps_impl.h"

typedef struct groups {
  maker *m, in;             /* in: of the ring of this place's group */
  uint32_t each, own, mine; /* places of a group, this one's number in it, and the group's */
  uint32_t from;            /* semaphore of what other groups push */
} groups;

/* Place `own` of the group k after this one. */
static uint32_t place_in(const groups *g, uint32_t k) {
  return (g->mine + k) % g->m->s->groups * g->each + g->own;
}

/* Steps from `first` on are of the ring: their peers are places of this group. */
static void place_peers(const groups *g, uint32_t first) {
  vm_cc_list *l = g->m->out;
  for (uint32_t i = first; i < l->n; i++) l->v[i].peer += g->mine * g->each;
}

static vm_cc_piece moved(vm_cc_piece p, uint32_t land, uint32_t dst, uint32_t src) {
  uint32_t by = p.buffer == VM_CC_LAND ? land : p.buffer == VM_CC_DST ? dst : src;
  return piece((vm_cc_buffer)p.buffer, p.block + by);
}

/* And they are about the blocks of the group k after this one. land: where theirs lands. */
static void place_blocks(const groups *g, uint32_t first, uint32_t k, uint32_t land) {
  vm_cc_list *l = g->m->out;
  const uint32_t by = place_in(g, k) - g->own;
  const uint32_t dst = g->m->s->op == VM_CC_REDUCE_SCATTER ? 0 : by; /* it has one block */
  const uint32_t src = g->m->s->op == VM_CC_ALL_GATHER ? 0 : by;
  for (uint32_t i = first; i < l->n; i++) {
    vm_cc_step *st = &l->v[i];
    st->block += by;
    st->dst = moved(st->dst, land, dst, src);
    for (unsigned j = 0; j < st->nsrc; j++) st->src[j] = moved(st->src[j], land, dst, src);
  }
}

/* dst = dst op the blocks of LAND from `first` on: in steps of at most VM_STEP_SOURCES operands. */
static void add_landed(maker *m, vm_cc_piece dst, uint32_t block, uint32_t first, uint32_t n,
                       uint32_t slice) {
  for (uint32_t i = 0; i < n;) {
    vm_cc_step *st = about(add(m, VM_STEP_REDUCE), block, slice);
    st->chained = true; /* the ring has added it */
    st->dst = dst;
    st->src[st->nsrc++] = dst;
    for (; i < n && st->nsrc < VM_STEP_SOURCES; i++)
      st->src[st->nsrc++] = piece(VM_CC_LAND, first + i);
  }
}

/* Which of the other groups' n - 1 parts group `from` has at group `to`. */
static uint32_t part(uint32_t from, uint32_t to) { return from < to ? from : from - 1; }

/* ---- Adding -------------------------------------------------------------------------------- */

/* The ring's sum of another group's block, which is no result here, goes to LAND. */
static void keep_sum(const groups *g, uint32_t first, vm_cc_piece to) {
  vm_cc_list *l = g->m->out;
  for (uint32_t i = first; i < l->n; i++)
    if (l->v[i].kind == VM_STEP_REDUCE && l->v[i].dst.buffer == VM_CC_DST) l->v[i].dst = to;
}

/* The ring's sum of this place's block of the group k after this one. In an all_reduce it is where
 * the whole sum will be. */
static vm_cc_piece ring_sum(const groups *g, uint32_t k, uint32_t first) {
  uint32_t sums = g->m->s->groups * (g->each - 1);
  if (g->m->s->op == VM_CC_ALL_REDUCE) return piece(VM_CC_DST, place_in(g, k));
  if (k == 0) return piece(VM_CC_DST, 0);
  keep_sum(g, first, piece(VM_CC_LAND, sums + k - 1));
  return piece(VM_CC_LAND, sums + k - 1);
}

static void scatter_to_groups(groups *g) {
  maker *m = g->m;
  uint32_t n = m->s->groups, rounds = g->each - 1, p = m->s->place;
  uint32_t came = n * rounds + n - 1;
  vm_cc_piece sum;
  for (uint32_t k = n; k-- > 0;) { /* the own blocks last: others' are on their way meanwhile */
    uint32_t first = m->out->n, other = (g->mine + k) % n;
    cc_ring_scatter(&g->in);
    place_peers(g, first);
    place_blocks(g, first, k, k * rounds);
    sum = ring_sum(g, k, first);
    if (k == n - 1) wait_ready(m, 1, n - 1);
    vm_cc_piece to = piece(VM_CC_LAND, came + part(g->mine, other));
    EACH_SLICE(m, i) if (k) about(push(m, place_in(g, k), g->from, to, sum), place_in(g, k), i);
  }
  m->out->land = came + n - 1;
  for (uint32_t k = 1; k < n; k++) EACH_SLICE(m, i) about(wait_push(m, g->from), p, i);
  EACH_SLICE(m, i) add_landed(m, sum, p, came, n - 1, i);
}

/* ---- Gathering ----------------------------------------------------------------------------- */

/* own: where the own block is. */
static void gather_from_groups(groups *g, vm_cc_piece own) {
  maker *m = g->m;
  uint32_t p = m->s->place, n = m->s->groups, from = g->from;
  bool added = own.buffer == VM_CC_DST; /* then the others have said that they are ready */
  if (added) from++;
  if (!added) wait_ready(m, 1, n - 1);
  for (uint32_t k = 1; k < n; k++)
    EACH_SLICE(m, i) about(push(m, place_in(g, k), from, piece(VM_CC_DST, p), own), p, i);
  for (uint32_t k = 0; k < n; k++) {
    /* What comes from other groups comes while the own ring turns. */
    for (uint32_t j = 1; k == 1 && j < n; j++)
      EACH_SLICE(m, i) about(wait_push(m, from), place_in(g, j), i);
    uint32_t first = m->out->n;
    cc_ring_gather(&g->in, k || added ? piece(VM_CC_DST, g->own) : own);
    place_peers(g, first);
    place_blocks(g, first, k, 0);
  }
}

void cc_groups(maker *m) {
  uint32_t n = m->s->groups, each = m->s->n / n, own = m->s->place % each;
  bool adds = m->s->op != VM_CC_ALL_GATHER, gathers = m->s->op != VM_CC_REDUCE_SCATTER;
  vm_cc_shape s = *m->s;
  groups g = {.m = m, .each = each, .own = own, .mine = m->s->place / each};
  g.in = (maker){.al = m->al, .s = &s, .out = m->out, .order = s.order[0], .at = own};
  s.n = each;
  s.place = own;
  for (uint32_t i = 0; g.in.order && i < each; i++)
    if (g.in.order[i] == own) g.in.at = i;
  cc_begin_ring(&g.in, ((uint32_t)adds + gathers) * n * (each - 1));
  place_peers(&g, 0);
  m->out->ready = 2;
  for (uint32_t k = 1; k < n; k++) ready(m, place_in(&g, k), 1);
  g.from = m->out->from;
  if (adds) scatter_to_groups(&g);
  if (gathers) gather_from_groups(&g, piece(adds ? VM_CC_DST : VM_CC_SRC, adds ? m->s->place : 0));
  m->out->from = g.from + adds + gathers; /* until here it was the ring's alone */
}
