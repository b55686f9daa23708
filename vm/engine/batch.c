/* Work that waits: instructions and shares of transfers whose end has come, and whose bytes are
 * computed together a little later. For example
 *
 *   the shares of a load, a tensor_scalar, an activate, the shares of a store
 *
 * In all of these a partition depends only on the same partition. So the batch is done in slices:
 * partitions 0 to 15 of everything, in order, then 16 to 31, and so on. The slices are a job for
 * several of the host's threads, which so meet once for the batch and not once for each
 * instruction. And a slice's bytes are still in the cache when the next instruction needs them: on
 * one thread a softmax with rows of 2048 takes 0.8 of the time that it takes instruction by
 * instruction.
 *
 * There are two such batches, here called piles. One is being filled. The other one has been handed
 * over: other threads compute it while the caller simulates what comes next, so that a layernorm on
 * two threads takes 0.76 of its time with one pile.
 *
 * A pile is done before anything that depends on it in another way, such as a matmul that reads
 * what it writes: code that touches memory during a run calls vm_batch_settle. So nothing can tell
 * that something has waited. In runs with checks, a debugger or a listener, which may look at
 * memory after each step, nothing waits; each large instruction is then a pile of its own. What is
 * in a pile depends on the number of threads, since one gains only from large tiles, and on when
 * they are done; what it computes does not. */
#include "engine.h"
#include "../dma/dma.h"
#include "../op/pe.h"
#include "../work/work.h"

#include <string.h>

enum { ITEMS = 256, WIDE = 32, ARENA = 1 << 16 };
/* Nanoseconds of one thread from which on more than one is used, or a pile is begun: another thread
 * comes within 0.6 us if it has a core. Of a part of an instruction or transfer, on average; and on
 * one thread. */
enum { WORTH = 3000, PART = 600, PART_ALONE = 2000 };
/* Nanoseconds from which on a pile is handed over, if the other threads have nothing to do (30 and
 * 120 us: the same within 2 %); and how many items, if everything is worth them. */
enum { ENOUGH = 60000, ENOUGH_ITEMS = 3 };
/* Bytes of a transfer from which on its shares begin a pile, and bytes that something must move to
 * begin one on one thread, where a tile that fits into the cache gains nothing (transposes of [128,
 * 512] in 16 bits: 1.08 of the time); of a cut of a share; and that take 1 ns. */
enum { WORTH_BYTES = 1 << 15, WORTH_ALONE = 1 << 19, CUT = 1 << 13, BYTES_NS = 8 };
/* Partitions of a slice: for up to FEW threads, and for more. */
enum { SLICE = 16, THIN = 8, FEW = 4 };

/* An instruction or a share. Its boxes are the item's; a share's live in the share. */
typedef struct waiting {
  vm_core *c;
  const vm_item *item;
  uint32_t p0, p1;
  vm_share *share; /* NULL: an instruction */
  bool late;       /* the share is released when its bytes have moved */
  bool whole;      /* it is not cut by partitions: any element in any slice */
  uint8_t engine;  /* from here on of an instruction */
  uint32_t pc;
  const isa_insn *in;
  const vm_operands *a;
  const vm_lanes *lanes;
} waiting;

/* Bytes that depend on other partitions, or are no partition's: other work that writes them, or
 * reads what is written, must come before or after the batch. */
typedef struct wide {
  vm_box box;
  bool writes;
  const vm_transfer *of; /* NULL: an instruction */
} wide;

/* What waits, in order, and what it touches. */
typedef struct pile {
  bool eager;
  uint32_t n, nwide, flights, parts; /* parts: flights and transfers */
  uint32_t least, slice;             /* partitions */
  size_t used;
  uint64_t ns;
  uint8_t engines[2];              /* by core: those whose instructions wait */
  uint16_t first[2][ISA_NENGINES]; /* the partition at which these begin */
  uint64_t touched[2][2][2];       /* by core, PSUM, written: parts of its memory */
  const waiting *failed;           /* by an error of the handler */
  vm_work_task task;
  waiting v[ITEMS];
  wide wides[WIDE];
  _Alignas(16) char arena[ARENA]; /* operands, boxes */
} pile;

struct vm_batch {
  vm_work *threads;
  vm_workspace *work;
  bool at_once;        /* nothing waits */
  bool several, eager; /* threads; everything is worth them */
  pile *next, *going;  /* being filled; begun, and not yet finished */
  pile piles[2];
  vm_pe_job product; /* open: it comes before what is in `next`, and nothing is going */
  vm_item of_product;
};

static void empty(pile *p) {
  p->n = p->nwide = p->flights = p->parts = p->least = 0;
  p->used = 0;
  p->ns = 0;
  p->failed = NULL;
  memset(p->engines, 0, sizeof p->engines);
  memset(p->touched, 0, sizeof p->touched);
}

struct vm_batch *vm_batch_new(const isa_alloc *al) {
  struct vm_batch *b = al->fn(al->ud, NULL, 0, sizeof *b);
  if (!b) return NULL;
  b->next = &b->piles[0];
  b->going = &b->piles[1];
  empty(b->next);
  empty(b->going);
  b->product.open = false;
  b->product.number = 0;
  return b;
}

void vm_batch_free(const isa_alloc *al, struct vm_batch *b) { isa_free(al, b, sizeof *b); }

void vm_batch_begin(vm_core *lead) {
  struct vm_batch *b = lead->mem.batch;
  b->threads = lead->mem.threads;
  b->work = lead->mem.work;
  b->at_once = lead->check || lead->debug || lead->hooks.event;
  b->several = b->threads && b->threads->threads > 1;
  b->eager = b->threads && b->threads->eager;
  b->next->eager = b->going->eager = b->eager;
}

/* ---- Doing it ----------------------------------------------------------------------------- */

/* The part of a share that belongs to slice `number` of n, if it is not cut by partitions. */
static void move_slice(const pile *p, const waiting *w, uint32_t number, uint32_t n) {
  const vm_share *s = w->share;
  uint64_t elems = s->e1 - s->e0;
  if (s->bytes >= (uint64_t)n * CUT || p->eager)
    vm_dma_move_elements(w->c, s, s->e0 + elems * number / n, s->e0 + elems * (number + 1) / n);
  else if ((size_t)(w - p->v) % n == number)
    vm_dma_move_elements(w->c, s, s->e0, s->e1);
}

static void do_slice(void *job, uint32_t number, void *room) {
  pile *p = job;
  uint32_t lo = number * p->slice, hi = lo + p->slice;
  for (const waiting *w = p->v; w < p->v + p->n; w++) {
    uint32_t p0 = w->p0 > lo ? w->p0 : lo, p1 = w->p1 < hi ? w->p1 : hi;
    if (w->whole) {
      move_slice(p, w, number, ISA_PMAX / p->slice);
    } else if (p0 >= p1) {
      continue;
    } else if (w->share) {
      vm_dma_move_lanes(w->c, w->share, p0, p1);
    } else {
      vm_dp *d = &w->c->eng[w->engine].dp;
      vm_verdict v = vm_run_lanes(d, w->in, w->a, w->lanes, p0 - w->p0, p1 - p0, room);
      if (v == VM_FAULT && p0 == w->p0) p->failed = w;
    }
  }
}

/* How many slices what waits is cut into. */
static uint32_t slices_of(const struct vm_batch *b, bool several) {
  const pile *p = b->next;
  uint32_t thin = b->several && b->threads->threads > FEW ? THIN : SLICE;
  uint32_t n = ISA_PMAX / (p->least > thin ? p->least : thin), most = n;
  if (b->eager) return n;
  if (!several && (!p->flights || p->parts < 2)) return 1;
  uint64_t each = p->ns / p->parts, part = several ? PART : PART_ALONE;
  while (n > 1 && each / n < part) n /= 2;
  if (several && n < 2 * b->threads->threads) n = 2 * b->threads->threads;
  while (n > most || ISA_PMAX % n) n--;
  return n;
}

/* The pile has been done. */
static void end(pile *p) {
  const waiting *failed = p->failed;
  for (const waiting *w = p->v; w < p->v + p->n; w++)
    if (w->late) vm_dma_release_late(w->c, w->share);
  empty(p);
  if (failed)
    vm_fault(failed->c, ISA_FAULT, vm_at_pc(failed->engine, failed->pc), "%s",
             failed->c->eng[failed->engine].dp.fault);
}

static void finish_going(struct vm_batch *b) {
  if (!b->going->n) return;
  vm_work_finish(b->threads, &b->going->task, b->work);
  end(b->going);
}

/* Begins what waits, and leaves it to other threads. */
static void hand_over(struct vm_batch *b) {
  pile *p = b->next;
  vm_pe_finish(&b->product);
  finish_going(b);
  uint32_t n = slices_of(b, true);
  p->slice = ISA_PMAX / n;
  vm_work_begin(b->threads, &p->task, do_slice, p, n);
  b->next = b->going;
  b->going = p;
}

/* Does all that waits. */
static void flush(struct vm_batch *b) {
  pile *p = b->next;
  vm_pe_finish(&b->product);
  finish_going(b);
  if (!p->n) return;
  if (vm_work_ready(b->threads, p->ns, WORTH)) {
    hand_over(b);
    finish_going(b);
    return;
  }
  uint32_t n = slices_of(b, false);
  p->slice = ISA_PMAX / n;
  for (uint32_t i = 0; i < n; i++) do_slice(p, i, b->work);
  end(p);
}

/* Makes room for what must not be done together with what waits. */
static void roll(struct vm_batch *b) {
  if (vm_work_ready(b->threads, b->next->ns, WORTH))
    hand_over(b);
  else
    flush(b);
}

/* Other threads should not be idle while enough waits. */
static void keep_busy(struct vm_batch *b) {
  const pile *p = b->next;
  bool enough = b->eager ? p->n >= ENOUGH_ITEMS : p->ns >= ENOUGH;
  if (!b->several || b->at_once || !enough || b->product.open) return;
  if (b->going->n && !vm_work_is_done(&b->going->task)) return;
  if (vm_work_ready(b->threads, p->ns, WORTH)) hand_over(b);
}

static bool nothing_waits(const struct vm_batch *b) { return !b->next->n && !b->going->n; }

/* ---- What it touches ---------------------------------------------------------------------- */

/* A memory's partitions in 64 pieces: those of a box. */
static uint64_t pieces_of(const vm_box *box) {
  unsigned shift = box->space == ISA_PSUM ? 8 : 12;
  uint64_t lo = box->lo >> shift, hi = (box->hi - 1) >> shift;
  lo = lo < 63 ? lo : 63;
  hi = hi < 63 ? hi : 63;
  return (UINT64_MAX << lo) & (UINT64_MAX >> (63 - hi));
}

static bool in_hbm(const vm_box *box) { return box->space == ISA_HBM; }

static inline void note(pile *p, const vm_box *box, bool writes) {
  if (!in_hbm(box) && box->lo < box->hi)
    p->touched[box->core][box->space == ISA_PSUM][writes] |= pieces_of(box);
}

static void note_item(pile *p, const vm_item *it) {
  for (unsigned i = 0; i < it->nsrc; i++) note(p, &it->src[i], false);
  for (unsigned i = 0; i < it->ndst; i++) note(p, &it->dst[i], true);
}

/* Writes of one transfer are of distinct elements: own is the transfer of the box, or NULL. */
static bool meets_wide(const pile *p, const vm_box *box, bool writes, const vm_transfer *own) {
  for (const wide *w = p->wides; w < p->wides + p->nwide; w++) {
    bool same = writes && w->writes && own && w->of == own;
    if ((writes || w->writes) && !same && vm_box_meet(box, &w->box)) return true;
  }
  return false;
}

static bool meets_item(const vm_item *it, const vm_box *box, bool writes, bool own) {
  for (unsigned i = 0; i < it->ndst && !(writes && own); i++)
    if (vm_box_meet(box, &it->dst[i])) return true;
  for (unsigned i = 0; i < it->nsrc && writes; i++)
    if (vm_box_meet(box, &it->src[i])) return true;
  return false;
}

/* Whether something in the pile writes the box or, if `writes` is set, reads it. */
static bool meets(const pile *p, const vm_box *box, bool writes, const vm_transfer *own) {
  if (box->lo >= box->hi) return false;
  if (in_hbm(box)) return meets_wide(p, box, writes, own);
  const uint64_t *touched = p->touched[box->core][box->space == ISA_PSUM];
  if (!((touched[1] | (writes ? touched[0] : 0)) & pieces_of(box))) return false;
  for (const waiting *w = p->v; w < p->v + p->n; w++)
    if (meets_item(w->item, box, writes, own && w->share && w->share->t == own)) return true;
  return false;
}

static bool meets_any(const pile *p, const vm_item *it, const vm_transfer *own) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (meets(p, &it->dst[i], true, own)) return true;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (meets(p, &it->src[i], false, own)) return true;
  return false;
}

/* Finishes the open product if that item depends on it. */
static void settle_product(struct vm_batch *b, const vm_item *it) {
  bool meets = false;
  if (!b->product.open) return;
  for (unsigned i = 0; i < it->ndst; i++)
    meets |= meets_item(&b->of_product, &it->dst[i], true, false);
  for (unsigned i = 0; i < it->nsrc; i++)
    meets |= meets_item(&b->of_product, &it->src[i], false, false);
  if (meets) vm_pe_finish(&b->product);
}

void vm_batch_settle(vm_core *c, const vm_item *it) {
  struct vm_batch *b = c->lead->mem.batch;
  if (!it || meets_any(b->next, it, NULL)) {
    flush(b);
  } else {
    if (meets_any(b->going, it, NULL)) finish_going(b);
    settle_product(b, it);
  }
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* Nothing has been handed over. */
static void run_now(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  vm_dp *d = &c->eng[e].dp;
  uint32_t products = b->product.number;
  if (f->item.copies) /* they go with the flight: no product may read them later */
    vm_pe_finish(&b->product);
  else
    settle_product(b, &f->item);
  d->job = b->at_once || f->item.copies ? NULL : &b->product;
  if (vm_run_handler(d, f->in->op, &f->a) == VM_FAULT)
    vm_fault(c, d->no_memory ? ISA_NOMEM : ISA_FAULT, vm_at_pc(e, f->pc), "%s", d->fault);
  if (b->product.number != products) b->of_product = f->item;
}

/* n bytes that live as long as the pile is not empty. */
static void *room_for(pile *p, size_t n) {
  void *at = p->arena + p->used;
  p->used += (n + 15) / 16 * 16;
  return at;
}

static void *keep(pile *p, const void *from, size_t n) { return memcpy(room_for(p, n), from, n); }

static bool has_room(const pile *p) {
  size_t most = sizeof(vm_item) + sizeof(vm_operands) + sizeof(vm_lanes) + 64;
  return p->n < ITEMS && p->nwide + VM_ACROSS <= WIDE && p->used + most <= ARENA;
}

static void add_flight(pile *p, vm_core *c, unsigned e, const vm_flight *f, vm_lanes *l) {
  l->rounding_count = c->eng[e].dp.rounding_count;
  if (l->rounds) c->eng[e].dp.rounding_count++;
  for (unsigned i = 0; i < l->nacross; i++) p->wides[p->nwide++] = (wide){.box = l->across[i]};
  p->v[p->n++] = (waiting){.c = c,
                           .item = keep(p, &f->item, sizeof f->item),
                           .p0 = l->part,
                           .p1 = l->part + l->rows,
                           .engine = (uint8_t)e,
                           .pc = f->pc,
                           .in = f->in,
                           .a = keep(p, &f->a, vm_operands_size(f->in->op)),
                           .lanes = keep(p, l, sizeof *l)};
  p->engines[c->number] |= (uint8_t)(1u << e);
  p->first[c->number][e] = (uint16_t)l->part;
  p->least = l->least > p->least ? l->least : p->least;
  p->ns += l->ns;
  p->flights++;
  p->parts++;
  note_item(p, &f->item);
}

/* Whether partitions of an instruction depend on other partitions of what waits. An engine's lane p
 * has an accumulator, and works on partition p of an operand, counted from its first. */
static bool crosses(const pile *p, const vm_core *c, unsigned e, const vm_flight *f,
                    const vm_lanes *l) {
  bool waits = p->engines[c->number] >> e & 1;
  if (waits && p->first[c->number][e] != l->part) return true;
  for (unsigned i = 0; i < f->item.ndst; i++)
    if (meets_wide(p, &f->item.dst[i], true, NULL)) return true;
  for (unsigned i = 0; i < f->item.nsrc; i++)
    if (meets_wide(p, &f->item.src[i], false, NULL)) return true;
  for (unsigned i = 0; i < l->nacross; i++)
    if (meets(p, &l->across[i], false, NULL)) return true;
  return false;
}

/* An instruction that is not cut: what it meets and what its engine has yet to do come first. So
 * does what has been handed over: the instruction may need the other threads. */
static void run_whole(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  if (b->next->engines[c->number] >> e & 1 || meets_any(b->next, &f->item, NULL))
    flush(b);
  else
    finish_going(b);
  if (!c->ended) run_now(b, c, e, f);
}

/* Whether it begins no pile: it takes less than WORTH even if all that it moves are bytes. */
static bool is_brief(const struct vm_batch *b, const vm_flight *f) {
  const uint64_t(*bytes)[2] = f->effort.traffic;
  uint64_t most = bytes[0][0] + bytes[0][1] + bytes[1][0] + bytes[1][1];
  return most * vm_lanes_rows[f->in->op].ns < (uint64_t)WORTH * 1024 ||
         (!b->several && most < WORTH_ALONE);
}

void vm_batch_flight(vm_core *c, unsigned e, const vm_flight *f) {
  struct vm_batch *b = c->lead->mem.batch;
  vm_lanes l;
  bool cut = vm_lanes_rows[f->in->op].least > 0, starts = nothing_waits(b) && !b->eager;
  if (starts && (!cut || is_brief(b, f))) {
    run_now(b, c, e, f);
    return;
  }
  cut = cut && vm_lanes_of(c, f, &l) && (!starts || l.ns >= WORTH);
  bool waits = cut && !b->at_once && l.straight && !f->item.copies;
  if (!cut || (!waits && !b->several)) {
    run_whole(b, c, e, f);
  } else if (waits) {
    if (!has_room(b->next) || crosses(b->next, c, e, f, &l)) roll(b);
    add_flight(b->next, c, e, f, &l);
    keep_busy(b);
  } else {
    flush(b);
    l.part = 0; /* its parts are counted from its first partition */
    add_flight(b->next, c, e, f, &l);
    flush(b);
  }
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* Notes an end of a share; true: the pile had none of that transfer. */
static bool add_wide(pile *p, const vm_box *box, bool writes, const vm_transfer *of) {
  for (wide *w = p->wides + p->nwide; w-- > p->wides;) {
    if (w->of != of || w->writes != writes || w->box.space != box->space ||
        w->box.core != box->core)
      continue;
    w->box.p0 = w->box.p0 < box->p0 ? w->box.p0 : box->p0;
    w->box.p1 = w->box.p1 > box->p1 ? w->box.p1 : box->p1;
    w->box.lo = w->box.lo < box->lo ? w->box.lo : box->lo;
    w->box.hi = w->box.hi > box->hi ? w->box.hi : box->hi;
    return false;
  }
  p->wides[p->nwide++] = (wide){*box, writes, of};
  return true;
}

static waiting *add_share(pile *p, vm_core *c, vm_share *s, bool first) {
  waiting *w = &p->v[p->n++];
  w->c = c;
  w->item = &s->item;
  w->share = s;
  p->parts += first;
  p->ns += s->bytes / BYTES_NS;
  return w;
}

/* Whether a transfer is too small for its shares to begin a pile. */
static bool is_light(const struct vm_batch *b, const vm_transfer *t) {
  uint64_t least = b->eager ? 0 : b->several ? WORTH_BYTES : WORTH_ALONE;
  return t->elems * t->dst.esize < least;
}

/* A share by partitions: one end is in HBM, and near, the other one, in SBUF. False: it does not
 * wait, and nothing waits. */
static bool add_lanes(struct vm_batch *b, vm_core *c, vm_share *s) {
  bool in = s->t->dst.space == ISA_SBUF;
  const vm_box *src = &s->item.src[0], *dst = &s->item.dst[0], *near = in ? dst : src;
  pile *p = b->next;
  if (!has_room(p) || meets_wide(p, dst, true, s->t) || meets_wide(p, src, false, s->t)) roll(b);
  if (nothing_waits(b) && is_light(b, s->t)) return false;
  p = b->next;
  waiting *w = add_share(p, c, s, add_wide(p, in ? src : dst, !in, s->t));
  w->p0 = near->p0;
  w->p1 = near->p1;
  w->whole = false;
  w->late = true;
  note(p, near, in);
  return true;
}

/* A share whose elements depend on no partition. */
static void add_whole(struct vm_batch *b, vm_core *c, vm_share *s, bool late) {
  const vm_item *it = &s->item;
  bool first = false;
  if (!late)
    flush(b);
  else if (!has_room(b->next) || meets_any(b->next, it, s->t))
    roll(b);
  pile *p = b->next;
  for (unsigned i = 0; i < it->nsrc; i++) first |= add_wide(p, &it->src[i], false, s->t);
  for (unsigned i = 0; i < it->ndst; i++) first |= add_wide(p, &it->dst[i], true, s->t);
  waiting *w = add_share(p, c, s, first);
  w->whole = true;
  w->late = late;
  note_item(p, it);
}

bool vm_batch_share(vm_core *c, vm_share *s) {
  struct vm_batch *b = c->lead->mem.batch;
  if (nothing_waits(b) && is_light(b, s->t)) {
    settle_product(b, &s->item);
    vm_dma_move_elements(c, s, s->e0, s->e1);
    return false;
  }
  bool waits = !b->at_once && !s->item.staged;
  if (waits && vm_dma_has_lanes(c, s) && add_lanes(b, c, s)) {
    s->t->late++;
    keep_busy(b);
    return true;
  }
  bool free = b->several && vm_dma_in_any_order(s);
  waits = waits && free && s->item.nsrc == 1 && (!nothing_waits(b) || !is_light(b, s->t));
  if (waits || (free && s->bytes >= (b->eager ? 2 : WORTH_BYTES))) {
    add_whole(b, c, s, waits);
    s->t->late += waits;
    if (waits)
      keep_busy(b);
    else
      flush(b);
  } else {
    vm_batch_settle(c, &s->item);
    vm_dma_move_elements(c, s, s->e0, s->e1);
  }
  return waits;
}
