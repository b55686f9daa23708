/* Deferred work: instructions and shares of transfers whose end has come, and whose bytes are
 * computed together a little later. For example
 *
 *   the shares of a load, a tensor_scalar, an activate, the shares of a store
 *
 * In all of these a partition depends only on the same partition. So what waits is done in slices:
 * partitions 0 to 15 of everything, in order, then 16 to 31, and so on. The slices are a job for
 * several of the host's threads, which so meet once for the list and not once for each
 * instruction. And a slice's bytes are still in the cache when the next instruction needs them: on
 * one thread a softmax with rows of 2048 takes 0.8 of the time that it takes instruction by
 * instruction.
 *
 * There are two such lists. `next` is being filled. `going` has been handed over: other threads
 * compute it while the caller simulates what comes next, so that a layernorm on two threads takes
 * 0.87 of its time with one list. A product that is left open (pe.h) is a list of its own.
 *
 * A list is done before anything that depends on it in another way, such as a matmul that reads
 * what it writes: code that touches memory during a run calls vm_batch_settle. So nothing can tell
 * that something has waited. In runs with checks, a debugger or a listener, which may look at
 * memory after each step, nothing waits; each large instruction is then a list of its own. What is
 * in a list depends on the number of threads, since one gains only from large tiles, and on when
 * they are done; what it computes does not. */
#include "../dma/dma.h"
#include "../op/pe.h"
#include "../work/work.h"
#include "engine.h"

#include <string.h>

/* Nanoseconds of one thread from which on more than one is used, or a list is begun: another
 * thread comes within 0.6 us if it has a core. From ENOUGH on a list is handed over, if the other
 * threads have nothing to do (30 and 120 us: the same within 2 %). */
enum { WORTH = 3000, ENOUGH = 60000, ENOUGH_ITEMS = 3 /* where everything is worth it */ };
/* Bytes of a transfer from which on its shares begin a list or are cut, and bytes that something
 * must move to begin one on one thread, where a tile that fits into the cache gains nothing. */
enum { WORTH_BYTES = 1 << 15, WORTH_ALONE = 1 << 19 };
/* Partitions of a slice: for up to FEW threads, and for more. */
enum { SLICE = 16, THIN = 8, FEW = 4 };
/* Bytes of a transfer that take 1 ns; nanoseconds for 1024 elements of instructions that lanes.def
 * does not list. */
enum { BYTES_NS = 8, WHOLE_NS = 50 };
enum { ITEMS = 256, REGIONS = 128, ARENA = 1 << 16, BOXES = 2 + VM_BOXES };
enum { NO_ENGINE = ISA_NENGINES, NO_PART = UINT16_MAX };

/* Something that may be cut by partitions: `fn` does n of lanes.rows, from its `first` on, on some
 * thread, whose memory is `room`. A share whose elements depend on no partition is cut into that
 * many equal parts. */
typedef struct list list;
typedef struct waiting {
  void (*fn)(list *l, const struct waiting *w, uint32_t first, uint32_t n, void *room);
  vm_core *c;
  vm_lanes lanes;
  const vm_item *item;    /* an instruction's is gone once it waits */
  const vm_transfer *own; /* of a share */
  const isa_insn *in;     /* an instruction: */
  const vm_operands *a;
  uint32_t pc;
  uint8_t engine;
  uint8_t wide; /* bits of its dst, then of its src: boxes that are not cut by these partitions */
  bool late;    /* the share is released when its bytes have moved */
} waiting;

/* Bytes of what waits. What else writes them, or reads what is written, must come before or after
 * the list, if one of the two is wide. But writes of one transfer are of distinct elements. */
typedef struct region {
  vm_box box;
  const vm_transfer *own; /* NULL: an instruction */
  bool writes, wide;
} region;

/* What waits, in order. */
struct list {
  uint32_t n, nregions, least, slice; /* least, slice: partitions */
  uint32_t lanes[2][ISA_NENGINES];    /* by core: 1 + the partition where its instructions begin */
  size_t used;
  uint64_t ns;     /* for one thread, about */
  vm_core *failed; /* by an error of a handler, at: */
  vm_where at;
  vm_work_task task;
  waiting v[ITEMS];
  region regions[REGIONS];
  _Alignas(16) char arena[ARENA]; /* operands */
};

struct vm_batch {
  vm_work *threads; /* NULL: there is one */
  vm_workspace *work;
  bool at_once;       /* nothing waits */
  bool eager;         /* everything is worth other threads */
  list *next, *going; /* being filled; begun, and not yet finished */
  list lists[2];
  vm_pe_job product; /* open: what is going */
};

static void empty(list *l) { memset(l, 0, offsetof(list, task)); }

struct vm_batch *vm_batch_new(const isa_alloc *al) {
  struct vm_batch *b = al->fn(al->ud, NULL, 0, sizeof *b);
  if (!b) return NULL;
  b->next = &b->lists[0];
  b->going = &b->lists[1];
  empty(b->next);
  empty(b->going);
  b->product.open = false;
  return b;
}

void vm_batch_free(const isa_alloc *al, struct vm_batch *b) { isa_free(al, b, sizeof *b); }

void vm_batch_begin(vm_run *r) {
  struct vm_batch *b = r->batch;
  b->threads = r->threads && r->threads->threads > 1 ? r->threads : NULL;
  b->work = r->cores[0]->mem.work;
  b->at_once = r->watchers[0] != NULL;
  b->eager = r->threads && r->threads->eager;
  vm_work_resume(b->threads);
}

void vm_batch_end(vm_run *r) {
  vm_batch_settle(r->cores[0], NULL);
  vm_work_pause(r->batch->threads);
}

static bool several(const struct vm_batch *b) { return !vm_work_alone(b->threads); }

/* ---- Doing it ----------------------------------------------------------------------------- */

static void do_flight(list *l, const waiting *w, uint32_t first, uint32_t n, void *room) {
  vm_dp *d = &w->c->eng[w->engine].dp;
  if (vm_run_lanes(d, w->in, w->a, &w->lanes, first, n, room) != VM_FAULT || first) return;
  l->failed = w->c; /* shapes do not fit: every part finds that, one tells it */
  l->at = vm_at_pc(w->c, w->engine, w->pc);
}

static void move_lanes(list *l, const waiting *w, uint32_t first, uint32_t n, void *room) {
  const uint32_t p0 = w->lanes.part + first;
  (void)l, (void)room;
  vm_dma_move_lanes(w->c, vm_share_of(w->item), p0, p0 + n);
}

static void move_elements(list *l, const waiting *w, uint32_t first, uint32_t n, void *room) {
  const vm_share *s = vm_share_of(w->item);
  const uint64_t elems = s->e1 - s->e0, parts = w->lanes.rows;
  (void)l, (void)room;
  vm_dma_move_elements(w->c, s, s->e0 + elems * first / parts, s->e0 + elems * (first + n) / parts);
}

static void do_slice(void *job, uint32_t number, void *room) {
  list *l = job;
  uint32_t lo = number * l->slice, hi = lo + l->slice;
  for (const waiting *w = l->v; w < l->v + l->n; w++) {
    const uint32_t part = w->lanes.part, last = part + w->lanes.rows;
    uint32_t p0 = part > lo ? part : lo, p1 = last < hi ? last : hi;
    if (p0 < p1) w->fn(l, w, p0 - part, p1 - p0, room);
  }
}

static void end(struct vm_batch *b, list *l) {
  vm_core *failed = l->failed;
  if (b->threads) vm_work_did(b->threads, l->ns);
  for (const waiting *w = l->v; w < l->v + l->n; w++)
    if (w->late) vm_dma_release_late(w->c, vm_share_of(w->item));
  empty(l);
  if (failed) vm_fault(failed, ISA_FAULT, l->at, "%s", failed->eng[l->at.engine].dp.fault);
}

/* Finishes what is going. */
static void finish(struct vm_batch *b) {
  if (!b->going->n) return;
  vm_work_finish(&b->going->task, b->work);
  b->product.open = false;
  end(b, b->going);
}

/* Begins what waits: leaves it to other threads, or does it if there are none for it. */
static void begin(struct vm_batch *b) {
  list *l = b->next;
  finish(b);
  if (!l->n) return;
  bool shared = vm_work_ready(b->threads, l->ns, WORTH);
  l->slice = shared && b->threads->threads > FEW ? THIN : SLICE;
  if (l->slice < l->least) l->slice = l->least;
  const uint32_t n = ISA_PMAX / l->slice;
  if (shared) {
    vm_work_begin(b->threads, &l->task, do_slice, l, n);
    b->next = b->going;
    b->going = l;
    return;
  }
  for (uint32_t i = 0; i < n; i++) do_slice(l, i, b->work);
  end(b, l);
}

static void flush(struct vm_batch *b) {
  begin(b);
  finish(b);
}

/* ---- What it touches ---------------------------------------------------------------------- */

static const vm_box *box_of(const vm_item *it, unsigned i) {
  return i < it->ndst ? &it->dst[i] : &it->src[i - it->ndst];
}

/* Whether x must come after what waits, and not slice by slice with it. An engine's lane p has an
 * accumulator, and works on partition p of an operand, counted from its first. */
static bool meets(const list *l, const waiting *x) {
  const vm_item *it = x->item;
  uint32_t lane = x->engine < NO_ENGINE ? l->lanes[x->c->number][x->engine] : 0;
  if (lane && lane != x->lanes.part + 1) return true;
  for (unsigned i = 0; i < it->ndst + it->nsrc; i++)
    for (const region *r = l->regions; r < l->regions + l->nregions; r++) {
      bool both_write = i < it->ndst && r->writes, own = r->own && r->own == x->own;
      if ((i < it->ndst || r->writes) && (r->wide || x->wide >> i & 1) && !(both_write && own) &&
          vm_box_meet(box_of(it, i), &r->box))
        return true;
    }
  return false;
}

/* Whether the boxes of a and b may be one: of a transfer, or the same of instructions. */
static bool are_one(const region *a, const region *b) {
  const vm_box *x = &a->box, *y = &b->box;
  return a->own == b->own && a->writes == b->writes && a->wide == b->wide && x->space == y->space &&
         x->core == y->core &&
         (a->own || (x->p0 == y->p0 && x->p1 == y->p1 && x->lo == y->lo && x->hi == y->hi));
}

static void note(list *l, const waiting *w) {
  for (unsigned i = 0; i < w->item->ndst + w->item->nsrc; i++) {
    const vm_box *box = box_of(w->item, i);
    const region new = {*box, w->own, i < w->item->ndst, w->wide >> i & 1};
    region *r = l->regions + l->nregions;
    while (r > l->regions && !are_one(r - 1, &new)) r--;
    if (r == l->regions) {
      l->regions[l->nregions++] = new;
      continue;
    }
    vm_box *all = &r[-1].box;
    all->p0 = all->p0 < box->p0 ? all->p0 : box->p0;
    all->p1 = all->p1 > box->p1 ? all->p1 : box->p1;
    all->lo = all->lo < box->lo ? all->lo : box->lo;
    all->hi = all->hi > box->hi ? all->hi : box->hi;
  }
}

static uint8_t all_of(const vm_item *it) { return (uint8_t)((1u << (it->ndst + it->nsrc)) - 1); }

/* The boxes that are not exactly an instruction's partitions: an operand of one, for all of them.
 */
static uint8_t wide_of(const vm_item *it, const vm_lanes *l) {
  uint8_t wide = 0;
  for (unsigned i = 0; i < it->ndst + it->nsrc; i++) {
    const vm_box *box = box_of(it, i);
    if (box->space == ISA_HBM || box->p0 != l->part || box->p1 != l->part + l->rows)
      wide |= (uint8_t)(1u << i);
  }
  return wide;
}

void vm_batch_settle(vm_core *c, const vm_item *it) {
  struct vm_batch *b = c->run->batch;
  const waiting x = {.c = c, .item = it, .engine = NO_ENGINE, .wide = it ? all_of(it) : 0};
  if (!it || meets(b->next, &x))
    flush(b);
  else if (meets(b->going, &x))
    finish(b);
}

/* ---- Adding to it ------------------------------------------------------------------------- */

static uint64_t bytes_of(const vm_flight *f) {
  const uint64_t(*bytes)[2] = f->effort.traffic;
  return bytes[0][0] + bytes[0][1] + bytes[1][0] + bytes[1][1];
}

/* 1024 elements are 8 KiB, read and written. A product's multiplications are not in it. */
static uint64_t ns_of(const vm_flight *f) {
  unsigned ns = vm_lanes_rows[f->in->op].ns;
  return bytes_of(f) * (ns ? ns : WHOLE_NS) / 8192;
}

static void add(list *l, const waiting *w, uint64_t ns) {
  note(l, w);
  l->v[l->n++] = *w;
  l->ns += ns;
  if (l->least < w->lanes.least) l->least = w->lanes.least;
}

/* Adds something to what waits, which it must be possible to do with it slice by slice; or does it
 * at once, slices of it on several threads. */
static void defer(struct vm_batch *b, waiting *w, uint64_t ns, bool waits) {
  const size_t bytes = w->in ? vm_operands_size(w->in->op) : 0;
  const list *l = b->next;
  if (!waits)
    flush(b);
  else if (l->n == ITEMS || l->nregions + BOXES > REGIONS || l->used + bytes + 16 > ARENA ||
           meets(l, w))
    begin(b);
  if (w->in) {
    vm_dp *d = &w->c->eng[w->engine].dp;
    w->a = memcpy(b->next->arena + b->next->used, w->a, bytes);
    b->next->used += (bytes + 15) / 16 * 16;
    w->lanes.rounding_count = d->rounding_count;
    d->rounding_count += w->lanes.rounds;
    b->next->lanes[w->c->number][w->engine] = 1 + w->lanes.part;
  }
  add(b->next, w, ns);
  if (!waits)
    flush(b);
  else if (several(b) && (b->eager ? b->next->n >= ENOUGH_ITEMS : b->next->ns >= ENOUGH) &&
           (!b->going->n || vm_work_is_done(&b->going->task)))
    begin(b); /* other threads should not be idle while enough waits */
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* What waits has been done as far as the instruction depends on it. A product may be left open: it
 * is then what is going. */
static void run_now(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  vm_dp *d = &c->eng[e].dp;
  bool free = !b->going->n || b->product.open; /* so that its task may be the product's */
  b->product.task = &b->going->task;
  /* What was copied goes with the flight: no product may read it later. */
  d->job = b->at_once || f->item.copies || !free ? NULL : &b->product;
  if (vm_run_handler(d, f->in->op, &f->a) == VM_FAULT)
    vm_fault(c, d->no_memory ? ISA_NOMEM : ISA_FAULT, vm_at_pc(c, e, f->pc), "%s", d->fault);
  if (b->product.open && !b->going->n) {
    waiting w = {.c = c, .item = &f->item, .engine = NO_ENGINE, .wide = all_of(&f->item)};
    add(b->going, &w, 0);
  }
  if (b->threads) vm_work_did(b->threads, ns_of(f));
}

/* An instruction that is not cut: what it meets and what its engine has yet to do come first. So
 * does, of a product, what is going: it may need the other threads. */
static void run_whole(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  if (b->next->n || b->going->n) {
    const waiting x = {.c = c,
                       .item = &f->item,
                       .engine = (uint8_t)e,
                       .lanes.part = NO_PART,
                       .wide = all_of(&f->item)};
    bool alone = f->item.copies || (e == ISA_ENG_tensor && f->item.ndst && !isa_insn_turns(f->in));
    if (meets(b->next, &x))
      flush(b);
    else if (alone || meets(b->going, &x))
      finish(b);
    if (c->run->ended) return;
  }
  run_now(b, c, e, f);
}

/* Whether an instruction begins no list. */
static bool is_brief(const struct vm_batch *b, const vm_flight *f) {
  return ns_of(f) < WORTH || (!several(b) && bytes_of(f) < WORTH_ALONE);
}

static bool nothing_waits(const struct vm_batch *b) {
  return !b->next->n && (!b->going->n || b->product.open);
}

void vm_batch_flight(vm_core *c, unsigned e, const vm_flight *f) {
  struct vm_batch *b = c->run->batch;
  vm_lanes l;
  bool brief = nothing_waits(b) && !b->eager && is_brief(b, f);
  bool cut = vm_lanes_rows[f->in->op].least && !brief && vm_lanes_of(c, f, &l);
  bool waits = cut && !b->at_once && l.straight && !f->item.copies;
  if (!waits && !(cut && several(b))) {
    run_whole(b, c, e, f);
    return;
  }
  waiting w = {.fn = do_flight,
               .c = c,
               .lanes = l,
               .item = &f->item,
               .in = f->in,
               .a = &f->a,
               .pc = f->pc,
               .engine = (uint8_t)e,
               .wide = wide_of(&f->item, &l)};
  if (!waits) w.lanes.part = 0; /* its parts are counted from its first partition */
  defer(b, &w, ns_of(f), waits);
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* How a share may be cut. With one end in HBM and the other one in SBUF: by the partitions of that
 * one. Else its elements depend on no partition; and a small share is in one slice, which is
 * another one for the next share. */
static waiting share_of(const struct vm_batch *b, vm_core *c, vm_share *s, bool by_lanes) {
  const vm_item *it = &s->item;
  waiting w = {.fn = move_elements,
               .c = c,
               .item = it,
               .own = s->t,
               .engine = NO_ENGINE,
               .wide = all_of(it)};
  if (by_lanes) {
    bool loads = it->src[0].space == ISA_HBM;
    const vm_box *near = loads ? &it->dst[0] : &it->src[0];
    w.fn = move_lanes;
    w.lanes.part = near->p0;
    w.lanes.rows = near->p1 - near->p0;
    w.wide &= (uint8_t) ~(loads ? 1u : 1u << it->ndst);
  } else {
    w.lanes.rows = b->eager || s->bytes >= WORTH_BYTES ? ISA_PMAX : 1;
    if (w.lanes.rows == 1) w.lanes.part = SLICE * b->next->n % ISA_PMAX;
  }
  return w;
}

bool vm_batch_share(vm_core *c, vm_share *s) {
  struct vm_batch *b = c->run->batch;
  const uint64_t ns = s->bytes / BYTES_NS, all = s->t->elems * s->t->dst.esize;
  /* The shares of a small transfer begin no list. */
  bool light = nothing_waits(b) && !b->eager && all < (several(b) ? WORTH_BYTES : WORTH_ALONE);
  bool waits = !b->at_once && !s->item.staged;
  bool lanes = waits && vm_dma_has_lanes(c, s), free = several(b) && vm_dma_in_any_order(s);
  waits = waits && (lanes || (free && s->item.nsrc == 1));
  if (light || (!waits && !(free && (b->eager || s->bytes >= WORTH_BYTES)))) {
    vm_batch_settle(c, &s->item);
    vm_dma_move_elements(c, s, s->e0, s->e1);
    if (b->threads) vm_work_did(b->threads, ns);
    return false;
  }
  waiting w = share_of(b, c, s, lanes);
  w.late = waits;
  s->t->late += waits;
  defer(b, &w, ns, waits);
  return waits;
}
