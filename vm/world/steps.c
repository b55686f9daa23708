/* Collectives as steps: rings, meshes, halving and doubling. */
#include "steps_impl.h"

const char *const vm_cc_algorithm_names[VM_CC_NALGORITHMS] = {"ring", "mesh", "mesh-single", "rdh",
                                                              "kangaring"};

enum {
  WINDOW = 8 /* pushes of a ring that may be on their way: each has its own semaphore */
};

/* ---- Rings -------------------------------------------------------------------------------- */

/* The place k before this one, along the ring. */
static uint32_t before(const maker *m, uint32_t k) {
  uint32_t n = m->s->n, to = m->s->back ? (m->at + k) % n : (m->at + n - k % n) % n;
  return m->order ? m->order[to] : to;
}

/* The peer has one semaphore for each push that may be on its way. It says when it has waited for
 * half of them. */
static vm_cc_step *push_next(maker *m, vm_cc_piece dst, vm_cc_piece src) {
  uint32_t i = m->sent++;
  if (i == 0 || (i >= WINDOW && i % (WINDOW / 2) == 0)) wait_ready(m, 0, 1);
  return push(m, before(m, m->s->n - 1), i % m->out->from, dst, src);
}

static void wait_before(maker *m, uint32_t block, uint32_t slice) {
  uint32_t i = m->received++;
  about(wait_push(m, i % m->out->from), block, slice);
  if ((i + 1) % (WINDOW / 2) == 0 && i + 1 + WINDOW / 2 < m->total) ready(m, before(m, 1), 0);
}

void cc_begin_ring(maker *m, uint32_t rounds) {
  m->total = rounds * m->s->slices;
  m->out->ready = 1;
  m->out->from = m->total < WINDOW ? m->total : WINDOW;
  ready(m, before(m, 1), 0);
}

/* Round t brings the sum so far of the block of the place t + 2 before this one. The last is the
 * own. Those sums are kept in dst, or where they came. */
static vm_cc_piece sum_of(const maker *m, uint32_t t) {
  if (m->s->op == VM_CC_ALL_REDUCE) return piece(VM_CC_DST, before(m, t + 2));
  return t + 2 == m->s->n ? piece(VM_CC_DST, 0) : piece(VM_CC_LAND, t);
}

void cc_ring_scatter(maker *m) {
  uint32_t n = m->s->n;
  m->out->land = n - 1;
  EACH_SLICE(m, k) {
    uint32_t b = before(m, 1);
    about(push_next(m, piece(VM_CC_LAND, 0), piece(VM_CC_SRC, b)), b, k);
  }
  for (uint32_t t = 0; t + 1 < n; t++) EACH_SLICE(m, k) {
      uint32_t b = before(m, t + 2);
      wait_before(m, b, k);
      about(compute(m, sum_of(m, t), piece(VM_CC_LAND, t), piece(VM_CC_SRC, b)), b, k);
      if (t + 2 < n) about(push_next(m, piece(VM_CC_LAND, t + 1), sum_of(m, t)), b, k);
    }
}

void cc_ring_gather(maker *m, vm_cc_piece own) {
  uint32_t n = m->s->n, p = m->s->place;
  vm_cc_piece mine = piece(VM_CC_DST, p);
  EACH_SLICE(m, k) about(push_next(m, mine, own), p, k);
  if (own.buffer != VM_CC_DST) EACH_SLICE(m, k) about(copy(m, mine, own), p, k);
  for (uint32_t t = 0; t + 1 < n; t++) EACH_SLICE(m, k) {
      uint32_t b = before(m, t + 1);
      wait_before(m, b, k);
      if (t + 2 < n) about(push_next(m, piece(VM_CC_DST, b), piece(VM_CC_DST, b)), b, k);
    }
}

static void one_ring(maker *m) {
  uint32_t n = m->s->n;
  bool scatters = m->s->op != VM_CC_ALL_GATHER, gathers = m->s->op != VM_CC_REDUCE_SCATTER;
  cc_begin_ring(m, (n - 1) * ((uint32_t)scatters + gathers));
  if (scatters) cc_ring_scatter(m);
  if (gathers) cc_ring_gather(m, scatters ? piece(VM_CC_DST, m->s->place) : piece(VM_CC_SRC, 0));
}

/* Makes the list of one of two rings, whose steps are in the room of `out`. */
static vm_cc_list half_of(const maker *m, unsigned which, vm_cc_shape *s) {
  vm_cc_list l = {.v = m->out->half[which].v, .cap = m->out->half[which].cap};
  *s = *m->s;
  s->slices = which ? m->s->slices - m->s->slices / 2 : m->s->slices / 2;
  if (which) s->first += m->s->slices / 2;
  if (which) s->back = !s->back;
  maker half = {.al = m->al, .s = s, .out = &l, .order = s->order[which]};
  while (half.order[half.at] != s->place) half.at++;
  one_ring(&half);
  m->out->half[which].v = l.v;
  m->out->half[which].cap = l.cap;
  return l;
}

static vm_cc_piece moved(vm_cc_piece p, uint32_t land) {
  if (p.buffer == VM_CC_LAND) return piece(VM_CC_LAND, p.block + land);
  return p;
}

/* Adds step i of the second of two rings, or the first, of which the second has other semaphores
 * and other blocks of scratch memory. */
static void add_step(maker *m, const vm_cc_list *l, unsigned which, uint32_t i) {
  if (i >= l->n) return;
  vm_cc_step st = l->v[i], *to = add(m, VM_STEP_WAIT);
  st.sem += st.sem < l->ready ? which * l->ready : l->ready + which * l->from;
  st.dst = moved(st.dst, which * l->land);
  for (unsigned k = 0; k < st.nsrc; k++) st.src[k] = moved(st.src[k], which * l->land);
  *to = st;
}

/* Two rings at once, step by step. Each step needs only earlier ones of others, so they never wait
 * for one another in a circle. */
static void two_rings(maker *m) {
  vm_cc_shape s[2];
  vm_cc_list l[2];
  for (unsigned k = 0; k < 2; k++) {
    l[k] = half_of(m, k, &s[k]);
    m->out->failed |= l[k].failed;
    m->out->ready += l[k].ready;
    m->out->from += l[k].from;
    m->out->land += l[k].land;
  }
  for (uint32_t i = 0; i < l[0].n || i < l[1].n; i++)
    for (unsigned k = 0; k < 2; k++) add_step(m, &l[k], k, i);
}

static void ring(maker *m) {
  if (m->s->groups > 1) {
    cc_groups(m);
    return;
  }
  if (m->s->order[1]) {
    two_rings(m);
    return;
  }
  m->order = m->s->order[0];
  m->at = m->order ? 0 : m->s->place;
  while (m->order && m->order[m->at] != m->s->place) m->at++;
  one_ring(m);
}

/* ---- Meshes ------------------------------------------------------------------------------- */

/* The peer k places on: ranks begin with different peers, so that none gets all at once. */
static uint32_t on(const maker *m, uint32_t k) { return (m->s->place + k) % m->s->n; }

/* Where the data of place `from` lands at place `to`. */
static vm_cc_piece landing(uint32_t from, uint32_t to) {
  return piece(VM_CC_LAND, from < to ? from : from - 1);
}

static void begin_mesh(maker *m, uint32_t from) {
  uint32_t n = m->s->n;
  m->out->ready = 1;
  m->out->from = from;
  for (uint32_t k = 1; k < n; k++) ready(m, on(m, k), 0);
  wait_ready(m, 0, n - 1);
}

static void mesh_gather(maker *m, vm_cc_piece own, uint32_t from) {
  uint32_t n = m->s->n, p = m->s->place;
  vm_cc_piece mine = piece(VM_CC_DST, p);
  for (uint32_t k = 1; k < n; k++) EACH_SLICE(m, i) about(push(m, on(m, k), from, mine, own), p, i);
  if (own.buffer != VM_CC_DST) EACH_SLICE(m, i) about(copy(m, mine, own), p, i);
  for (uint32_t k = 1; k < n; k++) EACH_SLICE(m, i) about(wait_push(m, from), on(m, k), i);
}

/* dst = op over what has landed and the own part: in steps of at most VM_STEP_SOURCES operands. */
static void mesh_reduce(maker *m, vm_cc_piece dst, uint32_t block, const vm_cc_piece *src,
                        uint32_t n, uint32_t slice) {
  for (uint32_t i = 0; i < n;) {
    vm_cc_step *st = about(add(m, VM_STEP_REDUCE), block, slice);
    st->dst = dst;
    if ((st->chained = i > 0)) st->src[st->nsrc++] = dst;
    while (i < n && st->nsrc < VM_STEP_SOURCES) st->src[st->nsrc++] = src[i++];
  }
}

/* What the ranks have sent of a block, in the order of places, but the own part first if `own`. */
static vm_cc_piece *landed(maker *m, vm_cc_piece mine, bool own) {
  uint32_t n = m->s->n, p = m->s->place, k = 0;
  vm_cc_piece *v = isa_zalloc(m->al, n * sizeof *v);
  if (!v) {
    m->out->failed = true;
    return NULL;
  }
  if (own) v[k++] = mine;
  for (uint32_t q = 0; q < n; q++)
    if (q != p)
      v[k++] = landing(q, p);
    else if (!own)
      v[k++] = mine;
  return v;
}

/* one: all ranks reduce the whole operand, in one order. */
static void mesh_scatter(maker *m, bool one) {
  uint32_t n = m->s->n, p = m->s->place, mine = one ? 0 : p;
  m->out->land = n - 1;
  for (uint32_t k = 1; k < n; k++) {
    uint32_t q = on(m, k), b = one ? 0 : q;
    EACH_SLICE(m, i) about(push(m, q, 0, landing(p, q), piece(VM_CC_SRC, b)), b, i);
  }
  for (uint32_t k = 1; k < n; k++) EACH_SLICE(m, i) about(wait_push(m, 0), mine, i);
  vm_cc_piece *src = landed(m, piece(VM_CC_SRC, mine), !one);
  vm_cc_piece dst = piece(VM_CC_DST, m->s->op == VM_CC_ALL_REDUCE ? mine : 0);
  for (uint32_t i = m->s->first; src && i < m->s->first + m->s->slices; i++)
    mesh_reduce(m, dst, mine, src, n, i);
  if (src) isa_free(m->al, src, n * sizeof *src);
}

static void all_to_all(maker *m) {
  uint32_t n = m->s->n, p = m->s->place;
  begin_mesh(m, 1);
  for (uint32_t k = 1; k < n; k++) {
    uint32_t q = on(m, k);
    EACH_SLICE(m, i) about(push(m, q, 0, piece(VM_CC_DST, p), piece(VM_CC_SRC, q)), q, i);
  }
  EACH_SLICE(m, i) about(copy(m, piece(VM_CC_DST, p), piece(VM_CC_SRC, p)), p, i);
  for (uint32_t k = 1; k < n; k++) EACH_SLICE(m, i) about(wait_push(m, 0), on(m, k), i);
}

static void mesh(maker *m) {
  bool one = m->s->algorithm == VM_CC_MESH_ONE, all = m->s->op == VM_CC_ALL_REDUCE && !one;
  if (m->s->op == VM_CC_ALL_TO_ALL) {
    all_to_all(m);
    return;
  }
  begin_mesh(m, all ? 2 : 1);
  if (m->s->op == VM_CC_ALL_GATHER) {
    mesh_gather(m, piece(VM_CC_SRC, 0), 0);
    return;
  }
  mesh_scatter(m, one);
  if (all) mesh_gather(m, piece(VM_CC_DST, m->s->place), 1);
}

/* ---- Halving and doubling ----------------------------------------------------------------- */

static uint32_t mask_of(const maker *m, uint32_t step) {
  return m->s->masks[0] ? m->s->masks[step] : 1u << step;
}

/* The masks of the first `steps` steps in the order of their highest bits: *mask is that with the
 * bit; false: none has it. Ranks may have them in another order, but the same ones wherever they
 * meet, so they number blocks alike. */
static bool has_mask(const maker *m, uint32_t steps, uint32_t bit, uint32_t *mask) {
  for (uint32_t step = 0; step < steps; step++)
    if ((*mask = mask_of(m, step)) >> bit == 1) return true;
  return false;
}

/* Place c of the 2^steps that place p reaches by the first steps. */
static uint32_t reached(const maker *m, uint32_t p, uint32_t steps, uint32_t c) {
  for (uint32_t bit = 0, mask; c; bit++) {
    if (!has_mask(m, steps, bit, &mask)) continue;
    if (c & 1) p ^= mask;
    c >>= 1;
  }
  return p;
}

/* The c of a place that p reaches. */
static uint32_t number_of(const maker *m, uint32_t p, uint32_t steps, uint32_t place) {
  uint32_t c = 0, x = p ^ place;
  for (uint32_t bit = VM_CC_MASKS, mask; bit-- > 0;) {
    if (!has_mask(m, steps, bit, &mask)) continue;
    c = c << 1 | (x >> bit & 1);
    if (x >> bit & 1) x ^= mask;
  }
  return c;
}

/* The number of a place by its masks, that of step s as bit s: those that it reaches by the first
 * steps have numbers side by side. */
static uint32_t label_of(const maker *m, uint32_t p) {
  uint32_t label = 0, steps = (uint32_t)__builtin_ctz(m->s->n);
  for (uint32_t bit = steps; bit-- > 0;)
    for (uint32_t step = 0; p >> bit & 1; step++) {
      if (mask_of(m, step) >> bit != 1) continue;
      p ^= mask_of(m, step);
      label |= 1u << step;
    }
  return label;
}

/* Block c of those that place p reaches by the first steps. */
static uint32_t block_at(const maker *m, uint32_t p, uint32_t steps, uint32_t c) {
  return m->s->whole ? (label_of(m, p) >> steps << steps) + c : reached(m, p, steps, c);
}

/* Blocks of a push, or a sum, of 2^steps: all of them or each alone. */
static uint32_t at_once(const maker *m, uint32_t steps) { return m->s->whole ? 1u << steps : 1; }

static void about_all(vm_cc_step *st, uint32_t block, uint32_t blocks, uint32_t slice) {
  about(st, block, slice)->more = blocks - 1;
}

/* The block of LAND in which that of block_at(c) comes at a step of a halving. */
static uint32_t came_at(const maker *m, uint32_t step, uint32_t c) {
  return m->s->n - (2u << step) + c;
}

/* Where the sum of block b is before that step: in src at first, then in dst, or where it came at
 * the step before. */
static vm_cc_piece halved(const maker *m, uint32_t step, uint32_t b) {
  if (2u << step == m->s->n) return piece(VM_CC_SRC, b);
  if (m->s->op == VM_CC_ALL_REDUCE) return piece(VM_CC_DST, b);
  return piece(VM_CC_LAND, came_at(m, step + 1, number_of(m, m->s->place, step + 1, b)));
}

/* At each step a rank sends the half of its blocks that the peer keeps, and adds what it gets to
 * the other half. */
static void halving(maker *m, uint32_t steps) {
  uint32_t p = m->s->place;
  m->out->land = m->s->n - 1;
  for (uint32_t step = steps; step-- > 0;) {
    uint32_t half = 1u << step, q = p ^ mask_of(m, step), by = at_once(m, step);
    wait_ready(m, step, 1);
    for (uint32_t c = 0; c < half; c += by) EACH_SLICE(m, i) {
        uint32_t b = block_at(m, q, step, c);
        vm_cc_piece to = piece(VM_CC_LAND, came_at(m, step, c));
        about_all(push(m, q, step, to, halved(m, step, b)), b, by, i);
      }
    for (uint32_t c = 0; c < half; c += by)
      EACH_SLICE(m, i) about_all(wait_push(m, step), block_at(m, p, step, c), by, i);
    for (uint32_t c = 0; c < half; c += by) {
      uint32_t b = block_at(m, p, step, c);
      vm_cc_piece came = piece(VM_CC_LAND, came_at(m, step, c)), dst = came;
      if (m->s->op == VM_CC_ALL_REDUCE)
        dst = piece(VM_CC_DST, b);
      else if (step == 0)
        dst = piece(VM_CC_DST, 0);
      EACH_SLICE(m, i) about_all(compute(m, dst, came, halved(m, step, b)), b, by, i);
    }
  }
}

/* At each step a rank sends all that it has. */
static void doubling(maker *m, uint32_t steps, vm_cc_piece own, uint32_t from) {
  uint32_t p = m->s->place;
  if (own.buffer != VM_CC_DST) EACH_SLICE(m, i) about(copy(m, piece(VM_CC_DST, p), own), p, i);
  for (uint32_t step = 0; step < steps; step++) {
    uint32_t half = 1u << step, q = p ^ mask_of(m, step), by = at_once(m, step);
    if (!from) wait_ready(m, step, 1);
    for (uint32_t c = 0; c < half; c += by) EACH_SLICE(m, i) {
        uint32_t b = block_at(m, p, step, c);
        vm_cc_piece dst = piece(VM_CC_DST, b);
        about_all(push(m, q, from + step, dst, dst), b, by, i);
      }
    for (uint32_t c = 0; c < half; c += by)
      EACH_SLICE(m, i) about_all(wait_push(m, from + step), block_at(m, q, step, c), by, i);
  }
}

static void rdh(maker *m) {
  uint32_t steps = (uint32_t)__builtin_ctz(m->s->n);
  bool all = m->s->op == VM_CC_ALL_REDUCE;
  m->out->ready = steps;
  m->out->from = all ? 2 * steps : steps;
  for (uint32_t k = 0; k < steps; k++) ready(m, m->s->place ^ mask_of(m, k), k);
  if (m->s->op != VM_CC_ALL_GATHER) halving(m, steps);
  if (all) doubling(m, steps, piece(VM_CC_DST, block_at(m, m->s->place, 0, 0)), steps);
  if (m->s->op == VM_CC_ALL_GATHER) doubling(m, steps, piece(VM_CC_SRC, 0), 0);
}

/* ---- Permutations, and ranks alone -------------------------------------------------------- */

static void permute(maker *m) {
  const vm_cc_shape *s = m->s;
  vm_cc_piece src = piece(VM_CC_SRC, 0), dst = piece(VM_CC_DST, 0), joint = piece(VM_CC_LAND, 0);
  bool self = s->to == s->place, sends = s->to != VM_CC_NOBODY && !self;
  bool gets = s->from != VM_CC_NOBODY && !self;
  m->out->ready = m->out->from = 1;
  if (gets) ready(m, s->from, 0);
  if (s->joins) {
    m->out->land = self ? 0 : 1;
    EACH_SLICE(m, i)
    about(compute(m, self ? dst : joint, src, piece(VM_CC_SRC1, 0)), 0, i);
    src = joint;
  } else if (self) {
    EACH_SLICE(m, i) about(copy(m, dst, src), 0, i);
  }
  if (sends) wait_ready(m, 0, 1);
  EACH_SLICE(m, i) if (sends) about(push(m, s->to, 0, dst, src), 0, i);
  EACH_SLICE(m, i) if (gets) about(wait_push(m, 0), 0, i);
}

bool vm_cc_make(const isa_alloc *al, const vm_cc_shape *s, vm_cc_list *out) {
  maker m = {.al = al, .s = s, .out = out};
  vm_cc_list room = {.v = out->v, .cap = out->cap, .half = {out->half[0], out->half[1]}};
  *out = room;
  if (s->op == VM_CC_PERMUTE)
    permute(&m);
  else if (s->n == 1)
    EACH_SLICE(&m, i) about(copy(&m, piece(VM_CC_DST, 0), piece(VM_CC_SRC, 0)), 0, i);
  else if (s->algorithm == VM_CC_RDH)
    rdh(&m);
  else if (s->algorithm == VM_CC_RING)
    ring(&m);
  else if (s->algorithm == VM_CC_PAIRS)
    cc_pairs(&m);
  else
    mesh(&m);
  return !out->failed;
}

void vm_cc_free(const isa_alloc *al, vm_cc_list *l) {
  isa_free(al, l->v, l->cap * sizeof *l->v);
  for (unsigned k = 0; k < 2; k++) isa_free(al, l->half[k].v, l->half[k].cap * sizeof *l->v);
  *l = (vm_cc_list){0};
}

uint32_t vm_cc_blocks(const vm_cc_shape *s) {
  return s->op == VM_CC_PERMUTE || (s->algorithm == VM_CC_MESH_ONE && s->op == VM_CC_ALL_REDUCE)
             ? 1
             : s->n;
}

bool vm_cc_has(vm_cc_algorithm a, vm_cc_op op, uint32_t n) {
  if (op == VM_CC_PERMUTE) return true;
  if (op == VM_CC_ALL_TO_ALL) return a == VM_CC_MESH;
  if (a == VM_CC_MESH_ONE) return op == VM_CC_ALL_REDUCE;
  if (a == VM_CC_PAIRS) return n >= 4 && n % 2 == 0;
  return a != VM_CC_RDH || (n & (n - 1)) == 0;
}

/* From 1 MB on halving and doubling, above 56 MB rings; in between where the ranks are no power of
 * two, rings. */
vm_cc_algorithm vm_cc_choose(vm_cc_op op, uint32_t n, uint64_t bytes) {
  enum { MB = 1000000, MESH_MOST = 1, RDH_MOST = 56 };
  if (op == VM_CC_ALL_TO_ALL || bytes < (uint64_t)MESH_MOST * MB) return VM_CC_MESH;
  return bytes <= (uint64_t)RDH_MOST * MB && vm_cc_has(VM_CC_RDH, op, n) ? VM_CC_RDH : VM_CC_RING;
}
