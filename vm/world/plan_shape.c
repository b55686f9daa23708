/* The planner: which algorithm a collective has, and what each CC sequencer does of it. */
#include "plan_impl.h"

#include "../../isa/operand.h"

/* ---- Shapes ------------------------------------------------------------------------------- */

enum { SMALL = 65536 }; /* bytes of a block: one CC sequencer, one slice. CC_PACKET of the clock */

uint64_t cc_bytes_of(const vm_plan *p, uint32_t rank, const cc_call *x) {
  uint64_t sum = 0;
  /* A gather is as large as its result. */
  const uint32_t *of = x->does == VM_CC_ALL_GATHER ? x->dst : x->src;
  for (uint32_t i = 0; i < x->n; i++)
    sum += cc_elems(cc_ap(p, rank, x, of[i])) * isa_dtype_bytes(x->dtype);
  return sum;
}

/* Ranks that run it together: of a permute those of a pair. */
static uint32_t ranks_of(const cc_call *x) { return x->does == VM_CC_PERMUTE ? 1 : x->ranks_n; }

/* Any destination over any source, as operands may share memory. */
static bool in_place(const vm_plan *p, uint32_t rank, const cc_call *x) {
  for (uint32_t i = 0; i < x->n; i++)
    for (uint32_t k = 0; k < x->n; k++)
      if (isa_ap_overlap(cc_ap(p, rank, x, x->dst[i]), cc_ap(p, rank, x, x->src[k]))) return true;
  return false;
}

/* Only these are made of parts that groups can have. */
uint32_t cc_ring_groups(const vm_plan *p, const cc_call *x, cc_call *part) {
  bool adds = x->does == VM_CC_ALL_REDUCE || x->does == VM_CC_REDUCE_SCATTER;
  return (adds || x->does == VM_CC_ALL_GATHER) && !x->variable ? cc_groups_of(p, x, part) : 0;
}

vm_cc_algorithm cc_algorithm_of(const vm_plan *p, uint32_t rank, const cc_call *x) {
  uint32_t n = ranks_of(x);
  /* The usual choice first; what follows has reasons against it. */
  vm_cc_algorithm a = vm_cc_choose(x->does, n, cc_bytes_of(p, rank, x));
  /* A mesh would send all to all over EFA; a doubling sends each part once, as do rings in groups.
   */
  bool grouped = a == VM_CC_RING && cc_ring_groups(p, x, &(cc_call){0});
  if (x->does != VM_CC_PERMUTE && vm_cc_has(VM_CC_RDH, x->does, n) && cc_spans_instances(p, x) &&
      !grouped)
    a = VM_CC_RDH;
  if (a == VM_CC_RING && vm_cc_has(VM_CC_PAIRS, x->does, n) && !cc_no_pairs(p, x)) a = VM_CC_PAIRS;
  /* What the user asks for comes last, if the operation has it. */
  if (p->algorithm >= 0 && vm_cc_has((vm_cc_algorithm)p->algorithm, x->does, n))
    a = (vm_cc_algorithm)p->algorithm;
  /* Blocks that arrive must not overwrite what is still to be sent. */
  for (uint32_t i = 0; a == VM_CC_MESH_ONE && i < x->ranks_n; i++) {
    const cc_call *y = cc_match(p, x, x->ranks[i]);
    if (y && in_place(p, x->ranks[i], y)) a = VM_CC_MESH;
  }
  if (x->variable) return VM_CC_MESH;
  return x->does == VM_CC_PERMUTE ? VM_CC_RING : a;
}

unsigned cc_parts(const vm_plan *p, uint32_t rank, const cc_call *x) {
  /* Each channel is a part of its own. */
  if (x->by_channel) return x->n;
  if (x->variable) return 1;
  /* Small blocks are not worth a second CC sequencer. */
  return cc_bytes_of(p, rank, x) / ranks_of(x) < SMALL || p->ncc < 2 ? 1 : 2;
}

static bool is_ring(vm_cc_algorithm a) { return a == VM_CC_RING || a == VM_CC_PAIRS; }

static void set_pairs(const cc_call *x, vm_cc_shape *s) {
  /* Ranks outside of all pairs have nobody. */
  s->to = s->from = VM_CC_NOBODY;
  if (x->by_channel) {
    s->n = x->ranks_n;
    s->to = (x->place + 1) % x->ranks_n;
    s->from = (x->place + x->ranks_n - 1) % x->ranks_n;
    return;
  }
  /* Pairs are from and to, one after the other. */
  for (uint32_t i = 0; i < x->ranks_n; i += 2) {
    if (x->ranks[i] == x->place) s->to = x->ranks[i + 1];
    if (x->ranks[i + 1] == x->place) s->from = x->ranks[i];
  }
}

/* The blocks are cut into slices for the cores that share the work, their CC sequencers, and two
 * of each where one is moved while the other is added. */
cc_part cc_part_of(const vm_plan *p, uint32_t rank, const cc_call *x, unsigned k) {
  cc_part part = {.n = x->n, .nslices = 1};
  vm_cc_shape *s = &part.shape;
  uint32_t parts = cc_parts(p, rank, x), slices = 1;
  *s = (vm_cc_shape){.op = x->does, .n = ranks_of(x), .place = x->place, .joins = x->joins};
  s->algorithm = cc_algorithm_of(p, rank, x);
  s->slices = 1;
  if (x->does == VM_CC_PERMUTE) set_pairs(x, s);
  if (x->by_channel) { /* one operand each */
    part.first = k;
    part.n = 1;
    parts = 1;
    k = 0;
  } else if (is_ring(s->algorithm) && cc_bytes_of(p, rank, x) / s->n >= SMALL) {
    slices = 2;
  }
  if (s->algorithm == VM_CC_RDH) cc_masks_of(p, x, s->masks);
  s->whole = s->algorithm == VM_CC_RDH && s->op == VM_CC_ALL_REDUCE && cc_is_dense(p, x);
  if (s->algorithm == VM_CC_PAIRS) { /* all CC sequencers have all four ways round, if they can */
    s->order[0] = cc_order_of(p, x, k & 1);
    s->second = k & 1;
  }
  cc_call group;
  if (s->algorithm == VM_CC_RING && (s->groups = cc_ring_groups(p, x, &group))) /* as of pairs */
    s->order[0] = cc_order_of(p, &group, k & 1);
  else if (s->algorithm == VM_CC_RING && !x->by_channel)
    s->order[0] = cc_order_of(p, x, 0);
  if (s->order[0] && slices > 1 && !s->groups) {
    s->order[1] = cc_order_of(p, x, 1);
    slices = 4;
  }
  uint32_t cores = x->both ? p->ranks[rank].p->ncores : 1, core = x->both ? x->core : 0;
  /* As many slices as all that share the work take together. */
  part.nslices = cores * parts * slices;
  s->first = (core * parts + k) * slices;
  s->slices = slices;
  s->back = !x->by_channel && k & 1;
  if (s->algorithm == VM_CC_PAIRS) s->back ^= core & 1;
  return part;
}

/* The largest block of an operand: where it lands each has as much. */
uint64_t cc_land_bytes(const vm_plan *p, uint32_t rank, const cc_call *x, const cc_part *part,
                       uint32_t operand) {
  uint64_t n = cc_elems(cc_ap(p, rank, x, x->src[operand])), blocks = vm_cc_blocks(&part->shape);
  if (x->does == VM_CC_ALL_GATHER) blocks = 1;
  uint64_t bytes = (n + blocks - 1) / blocks * isa_dtype_bytes(x->dtype);
  /* Rounded up to 64 bytes. */
  return (bytes + 63) / 64 * 64;
}
