/* KangaRing: of each pair of ranks of a device one does the work of both, and only these are in the
 * ring. So a block takes half as many hops. For example an all_gather of pairs (0, 1), (2, 3), in
 * which 0 and 2 do the work:
 *
 *   0: pushes its block to 1 and 2; when 1's has come, pushes that to 2
 *      when 2's and 3's blocks have come, pushes each to 1
 *   1: pushes its block to 0, and waits for the others
 *
 * Where ranks add, the first of a pair gets all blocks of the second as well, and adds three: what
 * came along the ring, its own, the second's. */
#include "steps_impl.h"

/* Pushes from a rank to another that may be on their way, each with its own semaphore: along the
 * ring, where all send two blocks of at most four slices before they wait for what comes; within a
 * pair. */
enum { ALONG = 12, WITHIN = 4 };

/* From this rank to a peer, or from a peer to this one. */
typedef struct channel {
  uint32_t peer, ready, from; /* semaphores: its receiver is ready; the first of its pushes */
  uint32_t window, unit;      /* its receiver says so again when it has waited for `unit` */
  uint32_t moved, total;      /* pushes so far, in all */
} channel;

typedef struct pairs {
  maker *m;
  uint32_t n, at; /* pairs, and where in the ring this one is */
  bool works;     /* this rank does the work of its pair */
  channel in, out, to_other, from_other;
} pairs;

static uint32_t member(const maker *m, uint32_t pair, bool other) {
  /* The first of a pair does the work, with `second` the other one. */
  uint32_t i = 2 * pair + (m->s->second != other);
  return m->s->order[0] ? m->s->order[0][i] : i;
}

/* The first, or the other, of the pair k before this one along the ring. */
static uint32_t before(const pairs *g, uint32_t k, bool other) {
  return member(g->m, (g->at + (g->m->s->back ? k : g->n - k % g->n)) % g->n, other);
}

static void send(pairs *g, channel *c, vm_cc_piece dst, vm_cc_piece src, uint32_t block,
                 uint32_t slice) {
  uint32_t i = c->moved++;
  /* The first window needs one word, then each unit one. */
  if (i == 0 || (i >= c->window && (i - c->window) % c->unit == 0)) wait_ready(g->m, c->ready, 1);
  about(push(g->m, c->peer, c->from + i % c->window, dst, src), block, slice);
}

static void hear(pairs *g, channel *c, uint32_t block, uint32_t slice) {
  uint32_t i = c->moved++;
  about(wait_push(g->m, c->from + i % c->window), block, slice);
  /* The last ones are not followed by more. */
  bool more = i + 1 + c->window - c->unit < c->total;
  if ((i + 1) % c->unit == 0 && more) ready(g->m, c->peer, c->ready);
}

static void open_channels(pairs *g, uint32_t along, uint32_t to_first, uint32_t to_other) {
  enum { RING, OTHER }; /* semaphores by which a receiver is ready */
  uint32_t slices = g->m->s->slices, mate = before(g, 0, g->works);
  g->m->out->ready = 2;
  g->m->out->from = ALONG + WITHIN;
  /* Who works gets from the other what it adds, or its block, and gives back the rest. */
  uint32_t sends = g->works ? to_other : to_first, gets = g->works ? to_first : to_other;
  g->to_other = (channel){mate, OTHER, ALONG, WITHIN, WITHIN / 2, .total = sends * slices};
  g->from_other = (channel){mate, OTHER, ALONG, WITHIN, WITHIN / 2, .total = gets * slices};
  if (gets) ready(g->m, mate, OTHER);
  /* The other is in no ring. */
  if (!g->works) return;
  g->out =
      (channel){before(g, g->n - 1, false), RING, 0, ALONG, ALONG / 3, .total = along * slices};
  g->in = (channel){before(g, 1, false), RING, 0, ALONG, ALONG / 3, .total = along * slices};
  ready(g->m, g->in.peer, RING);
}

/* ---- Adding ------------------------------------------------------------------------------- */

/* Where the sum so far of a block of the pair k before comes: along the ring, k from 2 on; and what
 * the other of the pair has of it. k = g->n is this pair. */
static vm_cc_piece along(uint32_t k, bool other) { return piece(VM_CC_LAND, 2 * (k - 2) + other); }
static vm_cc_piece from_other(const pairs *g, uint32_t k, bool other) {
  return piece(VM_CC_LAND, 2 * (g->n - 1) + 2 * (k - 1) + other);
}

static void add_block(pairs *g, uint32_t k, bool other, uint32_t slice) {
  maker *m = g->m;
  uint32_t b = before(g, k, other);
  bool all = m->s->op == VM_CC_ALL_REDUCE, last = k == g->n;
  vm_cc_piece dst = from_other(g, k, other);
  /* The last block is the own pair's, and ends in dst. */
  if (last && (all || !other)) dst = piece(VM_CC_DST, all ? b : 0);
  hear(g, &g->from_other, b, slice);
  if (k > 1) hear(g, &g->in, b, slice);
  vm_cc_step *st = about(compute(m, dst, piece(VM_CC_SRC, b), from_other(g, k, other)), b, slice);
  if (k > 1) st->src[st->nsrc++] = along(k, other);
  /* On along the ring, with what came and both own parts in it. */
  if (!last) send(g, &g->out, along(k + 1, other), dst, b, slice);
  if (last && other && !all) send(g, &g->to_other, piece(VM_CC_DST, 0), dst, b, slice);
}

static void scatter(pairs *g) {
  maker *m = g->m;
  m->out->land = 4 * g->n - 2;
  for (uint32_t k = 1; k <= g->n; k++)
    for (unsigned other = 0; other < 2; other++) EACH_SLICE(m, i) {
        uint32_t b = before(g, k, other);
        if (g->works)
          add_block(g, k, other, i);
        else
          send(g, &g->to_other, from_other(g, k, other), piece(VM_CC_SRC, b), b, i);
      }
  if (g->works || m->s->op == VM_CC_ALL_REDUCE) return;
  EACH_SLICE(m, i) hear(g, &g->from_other, before(g, 0, true), i);
}

/* ---- Gathering ---------------------------------------------------------------------------- */

static void pass_on(pairs *g, uint32_t k, bool other, vm_cc_piece src, bool back) {
  maker *m = g->m;
  uint32_t b = before(g, k, other);
  EACH_SLICE(m, i) {
    if (k > 0) hear(g, &g->in, b, i);
    /* The last place has them from the one before it, and passes them no further. */
    if (k + 1 < g->n) send(g, &g->out, piece(VM_CC_DST, b), src, b, i);
    if (back) send(g, &g->to_other, piece(VM_CC_DST, b), src, b, i);
  }
}

static void gather(pairs *g, bool added) {
  maker *m = g->m;
  uint32_t own = before(g, 0, false), others = before(g, 0, true);
  vm_cc_piece src = added ? piece(VM_CC_DST, own) : piece(VM_CC_SRC, 0);
  pass_on(g, 0, false, src, true);
  /* The other's block has come; with sums it has been made here. */
  if (!added) {
    EACH_SLICE(m, i) about(copy(m, piece(VM_CC_DST, own), src), own, i);
    EACH_SLICE(m, i) hear(g, &g->from_other, others, i);
  }
  pass_on(g, 0, true, piece(VM_CC_DST, others), added);
  for (uint32_t k = 1; k < g->n; k++)
    for (unsigned other = 0; other < 2; other++)
      pass_on(g, k, other, piece(VM_CC_DST, before(g, k, other)), true);
}

/* The other of a pair sends its block, if nothing was added, and gets those of the rest. */
static void wait_for_all(pairs *g, bool added) {
  maker *m = g->m;
  uint32_t own = before(g, 0, true);
  vm_cc_piece dst = piece(VM_CC_DST, own), src = piece(VM_CC_SRC, 0);
  EACH_SLICE(m, i) {
    if (added) break;
    send(g, &g->to_other, dst, src, own, i);
    about(copy(m, dst, src), own, i);
  }
  for (uint32_t k = 0; k < g->n; k++)
    for (unsigned other = 0; other < 2; other++) {
      /* Its own block it has already. */
      if (k == 0 && other && !added) continue;
      EACH_SLICE(m, i) hear(g, &g->from_other, before(g, k, other), i);
    }
}

void cc_pairs(maker *m) {
  pairs g = {.m = m, .n = m->s->n / 2};
  bool adds = m->s->op != VM_CC_ALL_GATHER, gathers = m->s->op != VM_CC_REDUCE_SCATTER;
  /* Where its pair is along the ring. */
  while (member(m, g.at, false) != m->s->place && member(m, g.at, true) != m->s->place) g.at++;
  g.works = member(m, g.at, false) == m->s->place;
  uint32_t each = 2 * (g.n - 1), all = 2 * g.n;
  open_channels(&g, each * ((uint32_t)adds + gathers), adds ? all : 1,
                gathers ? (adds ? all : all - 1) : 1);
  if (adds) scatter(&g);
  if (gathers && g.works) gather(&g, adds);
  if (gathers && !g.works) wait_for_all(&g, adds);
}
