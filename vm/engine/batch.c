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
 * instruction. Transposes of the tensor engine are cut in the same way, by partitions of the
 * result, after what they turn has been done.
 *
 * There are two such batches. One is being filled. The other one has been handed
 * over: other threads compute it while the caller simulates what comes next, so that a layernorm on
 * two threads takes 0.76 of its time with one batch.
 *
 * A batch is done before anything that depends on it in another way, such as a matmul that reads
 * what it writes: code that touches memory during a run calls vm_batch_settle. So nothing can tell
 * that something has waited. In runs with checks, a debugger or a listener, which may look at
 * memory after each step, nothing waits; each large instruction is then a batch of its own. What is
 * in a batch depends on the number of threads, since one gains only from large tiles, and on when
 * they are done; what it computes does not. */
#include "deferred.h"

/* Nanoseconds of one thread from which on more than one is used, or a batch is begun: another
 * thread comes within 0.6 us if it has a core. Of a part of an instruction or transfer, on average;
 * and on one thread. */
enum { WORTH = 3000, PART = 600, PART_ALONE = 2000 };
/* Nanoseconds from which on a batch is handed over, if the other threads have nothing to do (30 and
 * 120 us: the same within 2 %); and how many items, if everything is worth them. */
enum { ENOUGH = 60000, ENOUGH_ITEMS = 3 };
/* Bytes of a transfer from which on its shares begin a batch, and bytes that something must move to
 * begin one on one thread, where a tile that fits into the cache gains nothing (transposes of [128,
 * 512] in 16 bits: 1.08 of the time). Of a share cut anywhere, a part has CUT at least. */
enum { WORTH_BYTES = 1 << 15, WORTH_ALONE = 1 << 19, CUT = 1 << 13 };
enum { WORTH_TURN = 1000 }; /* nanoseconds of a transpose from which on it begins a batch */
/* Partitions of a slice: for up to FEW threads, and for more. */
enum { SLICE = 16, THIN = 8, FEW = 4 };

struct vm_batch {
  vm_work *threads;
  vm_workspace *work;
  bool at_once;              /* nothing waits */
  bool eager;                /* everything is worth other threads */
  bool counts;               /* what is done: there are other threads */
  vm_deferred *next, *going; /* being filled; begun, and not yet finished */
  vm_deferred batches[2];
  vm_pe_job product; /* open: it comes before what is in `next`, and nothing is going */
  vm_item of_product;
};

struct vm_batch *vm_batch_new(const isa_alloc *al) {
  struct vm_batch *b = al->fn(al->ud, NULL, 0, sizeof *b);
  if (!b) return NULL;
  b->next = &b->batches[0];
  b->going = &b->batches[1];
  vm_deferred_empty(b->next);
  vm_deferred_empty(b->going);
  b->product.open = false;
  b->product.number = 0;
  return b;
}

void vm_batch_free(const isa_alloc *al, struct vm_batch *b) { isa_free(al, b, sizeof *b); }

void vm_batch_begin(vm_run *r) {
  struct vm_batch *b = r->batch;
  b->threads = r->threads;
  b->work = r->cores[0]->mem.work;
  b->at_once = r->watchers[0] != NULL;
  b->eager = b->threads && b->threads->eager;
  b->counts = b->threads && b->threads->threads > 1;
  vm_work_resume(b->threads);
}

void vm_batch_end(vm_run *r) {
  vm_batch_settle(r->cores[0], NULL);
  vm_work_pause(r->batch->threads);
}

static bool several(const struct vm_batch *b) { return !vm_work_alone(b->threads); }

/* ---- Doing it ----------------------------------------------------------------------------- */

/* How many slices what waits is cut into. */
static uint32_t slices_of(const struct vm_batch *b, bool shared) {
  const vm_deferred *p = b->next;
  uint32_t thin = shared && b->threads->threads > FEW ? THIN : SLICE;
  uint32_t n = ISA_PMAX / (p->least > thin ? p->least : thin), most = n;
  if (b->eager) return n;
  if (!shared && (!p->flights || p->parts < 2)) return 1;
  uint64_t each = p->ns / p->parts, part = shared ? PART : PART_ALONE;
  while (n > 1 && each / n < part) n /= 2;
  if (shared && n < 2 * b->threads->threads) n = 2 * b->threads->threads;
  while (n > most || ISA_PMAX % n) n--;
  return n;
}

/* The batch has been done. */
static void end(struct vm_batch *b, vm_deferred *p) {
  vm_work_did(b->threads, p->work);
  vm_core *failed = p->failed;
  for (const vm_waiting *w = p->v; w < p->v + p->n; w++)
    if (w->late) vm_dma_release_late(w->c, vm_share_of(w->item));
  vm_deferred_empty(p);
  if (failed) vm_fault(failed, ISA_FAULT, p->at, "%s", failed->eng[p->at.engine].dp.fault);
}

static void finish_going(struct vm_batch *b) {
  if (!b->going->n) return;
  vm_work_finish(&b->going->task, b->work);
  end(b, b->going);
}

/* Begins what waits, and leaves it to other threads. */
static void hand_over(struct vm_batch *b) {
  vm_deferred *p = b->next;
  vm_pe_finish(&b->product);
  finish_going(b);
  uint32_t n = slices_of(b, true);
  p->slice = ISA_PMAX / n;
  vm_work_begin(b->threads, &p->task, vm_deferred_do_slice, p, n);
  b->next = b->going;
  b->going = p;
}

/* Does all that waits. */
static void flush(struct vm_batch *b) {
  vm_deferred *p = b->next;
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
  for (uint32_t i = 0; i < n; i++) vm_deferred_do_slice(p, i, b->work);
  end(b, p);
}

/* Makes room for what must not be done together with what waits. */
static void rotate(struct vm_batch *b) {
  if (vm_work_ready(b->threads, b->next->ns, WORTH))
    hand_over(b);
  else
    flush(b);
}

/* Other threads should not be idle while enough waits. */
static void keep_busy(struct vm_batch *b) {
  const vm_deferred *p = b->next;
  bool enough = b->eager ? p->n >= ENOUGH_ITEMS : p->ns >= ENOUGH;
  if (!several(b) || b->at_once || !enough || b->product.open) return;
  if (b->going->n && !vm_work_is_done(&b->going->task)) return;
  if (vm_work_ready(b->threads, p->ns, WORTH)) hand_over(b);
}

static bool nothing_waits(const struct vm_batch *b) { return !b->next->n && !b->going->n; }

/* ---- What it touches ---------------------------------------------------------------------- */

/* Finishes the open product if that item depends on it. */
static void settle_product(struct vm_batch *b, const vm_item *it) {
  if (b->product.open && vm_deferred_items_meet(it, &b->of_product)) vm_pe_finish(&b->product);
}

void vm_batch_settle(vm_core *c, const vm_item *it) {
  struct vm_batch *b = c->run->batch;
  if (!it || vm_deferred_meets(b->next, it, NULL)) {
    flush(b);
  } else {
    if (vm_deferred_meets(b->going, it, NULL)) finish_going(b);
    settle_product(b, it);
  }
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* What was handed over neither meets the instruction nor has the threads that it may need. */
static void run_now(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  vm_dp *d = &c->eng[e].dp;
  uint32_t products = b->product.number;
  if (f->item.copies) /* they go with the flight: no product may read them later */
    vm_pe_finish(&b->product);
  else
    settle_product(b, &f->item);
  d->job = b->at_once || f->item.copies ? NULL : &b->product;
  if (vm_run_handler(d, f->in->op, &f->a) == VM_FAULT)
    vm_fault(c, d->no_memory ? ISA_NOMEM : ISA_FAULT, vm_at_pc(c, e, f->pc), "%s", d->fault);
  if (b->product.number != products) b->of_product = f->item;
  if (b->counts) vm_work_did(b->threads, vm_deferred_work_of(f));
}

/* An instruction that is not cut: what it meets and what its engine has yet to do come first. So
 * does what has been handed over: the instruction may need the other threads. Only ldweights needs
 * none, and transposes that wait do not read what it writes. */
static void run_whole(struct vm_batch *b, vm_core *c, unsigned e, const vm_flight *f) {
  if (f->in->op == ISA_OP_ldweights)
    vm_batch_settle(c, &f->item);
  else if (b->next->engines[c->number] >> e & 1 || vm_deferred_meets(b->next, &f->item, NULL))
    flush(b);
  else
    finish_going(b);
  if (!c->run->ended) run_now(b, c, e, f);
}

/* Whether it begins no batch, seen without its operands: it takes less than WORTH even if all that
 * it moves are bytes. */
static bool is_brief(const struct vm_batch *b, const vm_flight *f) {
  uint64_t most = vm_deferred_bytes_of(f);
  if (isa_insn_turns(f->in)) return vm_deferred_work_of(f) < WORTH_TURN;
  return most * vm_lanes_rows[f->in->op].ns < (uint64_t)WORTH * 1024 ||
         (!several(b) && most < WORTH_ALONE);
}

void vm_batch_flight(vm_core *c, unsigned e, const vm_flight *f) {
  struct vm_batch *b = c->run->batch;
  vm_turn turn;
  vm_lanes l;
  /* A matmul that only moves what its weights were loaded from is cut by partitions of its result:
   * nothing that waits writes these. */
  bool turns = f->in->op == ISA_OP_matmul && several(b) && !b->at_once &&
               vm_pe_turn_of(&c->eng[e].dp, &f->a.MATMUL, &turn);
  bool starts = nothing_waits(b) && !b->eager;
  bool cut = (turns || vm_lanes_rows[f->in->op].least) && !(starts && is_brief(b, f));
  cut = cut && (turns ? vm_deferred_turn_lanes(c, e, f, &l) : vm_lanes_of(c, f, &l));
  cut = cut && (!starts || turns || l.ns >= WORTH);
  bool waits = cut && (turns || (!b->at_once && l.straight && !f->item.copies));
  if (!cut && nothing_waits(b)) {
    run_now(b, c, e, f);
  } else if (!cut || (!waits && !several(b))) {
    run_whole(b, c, e, f);
  } else if (waits) {
    if (!vm_deferred_has_room(b->next) || vm_deferred_crosses(b->next, c, e, f, &l)) rotate(b);
    vm_deferred_add_flight(b->next, c, e, f, &l, turns ? &turn : NULL);
    keep_busy(b);
  } else {
    flush(b);
    l.part = 0; /* its parts are counted from its first partition */
    vm_deferred_add_flight(b->next, c, e, f, &l, NULL);
    flush(b);
  }
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* Whether a transfer is too small for its shares to begin a batch. */
static bool is_light(const struct vm_batch *b, const vm_transfer *t) {
  uint64_t least = b->eager ? 0 : several(b) ? WORTH_BYTES : WORTH_ALONE;
  return t->elems * t->dst.esize < least;
}

bool vm_batch_share(vm_core *c, vm_share *s) {
  struct vm_batch *b = c->run->batch;
  bool starts = nothing_waits(b), waits = !b->at_once && !s->item.staged;
  bool lanes = waits && vm_dma_has_lanes(c, s), free = several(b) && vm_dma_in_any_order(s);
  waits = waits && (lanes || (free && s->item.nsrc == 1));
  if ((starts && is_light(b, s->t)) ||
      (!waits && !(free && s->bytes >= (b->eager ? 2 : WORTH_BYTES)))) {
    vm_batch_settle(c, &s->item);
    vm_dma_move_elements(c, s, s->e0, s->e1);
    vm_work_did(b->threads, vm_deferred_share_work_of(s));
    return false;
  }
  if (!waits)
    flush(b);
  else if (!vm_deferred_has_room(b->next) ||
           (lanes ? vm_deferred_meets_wide(b->next, &s->item, s->t)
                  : vm_deferred_meets(b->next, &s->item, s->t)))
    rotate(b);
  vm_deferred_add_share(b->next, c, s, lanes, b->eager ? 0 : CUT, waits);
  s->t->late += waits;
  if (waits)
    keep_busy(b);
  else
    flush(b);
  return waits;
}
