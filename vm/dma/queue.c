/* Queues, rings and DMA engines. A trigger makes a transfer of up to sixteen shares, one per ring;
 * each DMA engine serves the heads of its rings by priority class and round robin, a packet at a
 * time. */
#include "../engine/engine.h"
#include "../time/clock.h"
#include "../check/check.h"
#include "../debug/debug.h"
#include "dma.h"

#include <string.h>

struct vm_slab {
  struct vm_slab *next;
  size_t size;
};

/* ---- Shares and transfers come from slabs, so that stepping seldom allocates --------------- */

static void *slab_new(vm_core *c, size_t item, unsigned n) {
  size_t size = sizeof(struct vm_slab) + 16 + item * n;
  struct vm_slab *s = isa_zalloc(&c->al, size);
  if (!s) return NULL;
  s->next = c->slabs;
  s->size = size;
  c->slabs = s;
  return (char *)s + (sizeof(struct vm_slab) + 15) / 16 * 16;
}

static vm_share *new_share(vm_core *c) {
  enum { AT_ONCE = 64 };
  if (!c->free_shares) {
    vm_share *block = slab_new(c, sizeof *block, AT_ONCE);
    for (unsigned i = 0; block && i < AT_ONCE; i++) {
      block[i].next = c->free_shares;
      c->free_shares = &block[i];
    }
  }
  vm_share *s = c->free_shares;
  if (s) {
    c->free_shares = s->next;
    memset(s, 0, sizeof *s);
  }
  return s;
}

static vm_transfer *new_transfer(vm_core *c) {
  enum { AT_ONCE = 16 };
  if (!c->free_transfers) {
    vm_transfer *block = slab_new(c, sizeof *block, AT_ONCE);
    for (unsigned i = 0; block && i < AT_ONCE; i++) {
      block[i].next_free = c->free_transfers;
      c->free_transfers = &block[i];
    }
  }
  vm_transfer *t = c->free_transfers;
  if (t) {
    c->free_transfers = t->next_free;
    memset(t, 0, sizeof *t);
  }
  return t;
}

void vm_dma_free(vm_core *c) {
  for (unsigned q = 0; q < ISA_MAX_QUEUES; q++)
    for (unsigned r = 0; r < ISA_NDMA; r++)
      for (vm_share *s = c->rings[q][r].head; s; s = s->next) vm_dma_unmake(c, s->t);
  for (struct vm_slab *s = c->slabs, *next; s; s = next) {
    next = s->next;
    isa_free(&c->al, s, s->size);
  }
  c->slabs = NULL;
}

vm_transfer *vm_dma_restore_transfer(vm_core *c) { return new_transfer(c); }

/* ---- Making a transfer -------------------------------------------------------------------- */

/* Each transfer has a share on each ring of its queue, in order: so the head of a ring is that many
 * before the last transfer. */
static uint32_t number_of_head(const vm_core *c, unsigned queue, unsigned r) {
  return c->queued[queue] - c->rings[queue][r].n;
}

static void append(vm_core *c, vm_transfer *t, vm_share *s, unsigned r) {
  vm_ring *ring = &c->rings[t->queue][r];
  s->t = t;
  s->bytes = (s->e1 - s->e0) * t->dst.esize;
  s->item.is_share = true;
  if (ring->tail)
    ring->tail->next = s;
  else
    ring->head = s;
  ring->tail = s;
  ring->n++;
  c->shares_alive++;
}

vm_share *vm_dma_restore_share(vm_core *c, vm_transfer *t, unsigned r) {
  vm_share *s = new_share(c);
  if (!s) return NULL;
  vm_dma_split(t, r, c->code->queues[t->queue].rings, &s->e0, &s->e1);
  append(c, t, s, r);
  t->left++;
  t->finished &= (uint16_t) ~(1u << r);
  uint32_t n = c->rings[t->queue][r].n;
  if (c->queued[t->queue] < n) c->queued[t->queue] = n;
  return s;
}

static void enqueue(vm_core *c, vm_transfer *t, vm_share *s, unsigned r) {
  append(c, t, s, r);
  vm_dma_engine *d = &c->dma[r];
  if (!d->busy && (!d->armed || s->ready < d->armed_at)) {
    d->armed = true;
    d->armed_at = s->ready;
    vm_post(c, VM_E_DMA, r, s->ready, 0);
  }
}

static void release_transfer(vm_core *c, vm_transfer *t) {
  vm_dma_unmake(c, t);
  t->next_free = c->free_transfers;
  c->free_transfers = t;
}

static void release_share(vm_core *c, vm_share *s) {
  s->next = c->free_shares;
  c->free_shares = s;
}

/* As many shares as the queue has rings, chained; NULL when memory is out. */
static vm_share *new_shares(vm_core *c, unsigned n) {
  vm_share *first = NULL;
  for (unsigned i = 0; i < n; i++) {
    vm_share *s = new_share(c);
    if (!s) {
      for (vm_share *next; first; first = next) {
        next = first->next;
        release_share(c, first);
      }
      return NULL;
    }
    s->next = first;
    first = s;
  }
  return first;
}

/* Contiguous elements of a transfer, each of which has a descriptor. */
static uint64_t elements(const vm_transfer *t) {
  uint64_t bytes = t->elems * t->dst.esize;
  return t->run_bytes ? (bytes + t->run_bytes - 1) / t->run_bytes : 1;
}

/* Keeps the generator of n descriptors busy from then on; gives when they are there. gpsimd makes
 * them itself, the hardware of sync and scalar runs beside them. */
static vm_time generate(vm_core *c, vm_engine *en, unsigned queue, uint64_t n, vm_time from) {
  if (c->code->queues[queue].dge == ISA_DGE_hwdge) {
    vm_time least = (vm_time)c->cost[VM_DMA_HWDGE] * VM_NS;
    vm_time makes = n * c->cost[VM_DMA_HW_ROW] * (VM_NS / 1000);
    en->dge_free.time = from + (makes > least ? makes : least);
    return from;
  }
  vm_time at =
      from + (vm_time)c->cost[VM_DMA_SW_BASE] * VM_NS + n * c->cost[VM_DMA_SW_ROW] * (VM_NS / 1000);
  if (at > en->busy_until) {
    en->busy += at - vm_time_later(en->busy_until, from);
    en->busy_until = at;
  }
  en->issue_free.time = en->dge_free.time = at;
  return at;
}

/* Gives the rings' shares their elements, and when each may begin; how many elements there are. */
static uint64_t divide(vm_core *c, const vm_transfer *t, vm_share *s, vm_time at) {
  unsigned rings = c->code->queues[t->queue].rings, r = 0;
  uint32_t first = c->cost[t->is_static ? VM_DMA_FIRST : VM_DMA_FIRST_DGE];
  uint64_t n = 0;
  for (; s; s = s->next, r++) {
    vm_dma_split(t, r, rings, &s->e0, &s->e1);
    vm_time wait = (vm_time)(first + r * c->cost[VM_DMA_STAGGER]) * VM_NS;
    s->ready = at + vm_jitter(c, wait);
    n += s->e1 - s->e0;
  }
  return n;
}

static void tell_trigger(vm_core *c, const vm_transfer *t, vm_time end, uint64_t bytes) {
  uint32_t other = t->sem_core == c->number ? 0 : ISA_NSEMS;
  vm_trace_event ev = {.kind = VM_EV_TRIGGER,
                       .where = vm_at_pc(t->engine, t->pc),
                       .id = t->queue,
                       .start = c->now,
                       .end = end,
                       .bytes = bytes,
                       .value = t->signals ? t->sem + other : UINT32_MAX,
                       .part = c->queued[t->queue]++};
  vm_trace_trigger(c, &ev);
}

/* The transfers of an instruction, a piece each: without shares, in no ring. */
typedef struct made {
  vm_transfer *t[VM_DMA_PIECES];
  unsigned n;
} made;

static void release_made(vm_core *c, made *m) {
  while (m->n) release_transfer(c, m->t[--m->n]);
}

/* other: of a sendrecv, the engine that it met. */
static vm_transfer *make_piece(vm_core *c, unsigned e, const isa_insn *in, unsigned other,
                               unsigned piece, isa_error *err) {
  vm_engine *en = &c->eng[e];
  vm_transfer *t = new_transfer(c);
  if (!t) {
    isa_fail(err, ISA_NOMEM, ISA_NOFIELD, "no memory for a transfer");
    return NULL;
  }
  t->piece = (uint8_t)piece;
  if (in->op == ISA_OP_sendrecv) {
    t->other = (uint8_t)other;
    t->other_pc = c->peer->eng[other].pc;
  }
  if (vm_dma_make(c, en, in, t, err)) return t;
  release_transfer(c, t);
  return NULL;
}

static bool make_all(vm_core *c, unsigned e, const isa_insn *in, unsigned other, made *m) {
  isa_error err = {.field = ISA_NOFIELD};
  bool lists = in->op == ISA_OP_dma_copy_lists;
  bool ok = !lists || vm_dma_lists_apart(c, &c->eng[e], in, &err);
  for (unsigned pieces = 1; ok && m->n < pieces; m->n += ok) {
    vm_transfer *t = make_piece(c, e, in, other, m->n, &err);
    ok = t != NULL;
    m->t[m->n] = t;
    if (ok) pieces = t->pieces;
  }
  if (ok && lists) vm_dma_open_rings(c, m->t, m->n);
  if (ok) return true;
  vm_fault(c, err.status, vm_at_pc(e, c->eng[e].pc), "%s%s%s%s", err.field >= 0 ? "operand " : "",
           err.field >= 0 ? isa_form_of(in->op)->fields[err.field].name : "",
           err.field >= 0 ? ": " : "", err.text);
  release_made(c, m);
  return false;
}

/* Shares of a piece into the rings, at when the descriptors are there. The last piece signals. */
static bool launch(vm_core *c, unsigned e, const isa_insn *in, vm_transfer *t, vm_time at) {
  unsigned rings = c->code->queues[t->queue].rings;
  vm_share *s = new_shares(c, rings);
  if (!s) {
    vm_fault(c, ISA_NOMEM, vm_at_pc(e, c->eng[e].pc), "no memory for a transfer");
    return false;
  }
  t->signals = in->upd.kind == ISA_UPD_dma && t->piece + 1 == t->pieces;
  t->sem = in->upd.sem;
  t->sem_core = in->upd.core;
  t->left = rings;
  t->descriptor = t->is_static ? c->statics_next[t->queue] : 0;
  uint64_t moved = divide(c, t, s, at);
  tell_trigger(c, t, t->is_static ? at : c->eng[e].dge_free.time, moved * t->dst.esize);
  if (c->check) vm_check_transfer(c, e, in, t, s);
  for (unsigned r = 0; r < rings; r++) {
    vm_share *next = s->next;
    s->next = NULL;
    enqueue(c, t, s, r);
    s = next;
  }
  return true;
}

/* Starts what an instruction transfers; gives the last piece, NULL after a fault. at: when it is
 * triggered; of a static one, when its trigger is written. */
static vm_transfer *start_transfer(vm_core *c, unsigned e, const isa_insn *in, vm_time at,
                                   unsigned other) {
  vm_engine *en = &c->eng[e];
  made m;
  uint64_t descriptors = 0;
  m.n = 0;
  if (!make_all(c, e, in, other, &m)) return NULL;
  const vm_transfer *any = m.t[0];
  for (unsigned k = 0; k < m.n; k++) descriptors += elements(m.t[k]);
  if (!any->is_static) at = generate(c, en, any->queue, descriptors, at);
  /* A sendrecv is made when the other core comes to it, of which the engine hears later. */
  uint32_t node = vm_path_add(c, VM_N_SEQ, vm_at_pc(e, en->pc),
                              vm_time_later(c->now, en->cause.time), at, en->cause);
  en->dge_free.node = node;
  if (en->issue_free.time == at) en->issue_free.node = node; /* gpsimd made the descriptors */
  for (unsigned k = 0; k < m.n; k++) {
    vm_transfer *t = m.t[k];
    t->engine = (uint8_t)e;
    t->pc = en->pc;
    t->node = node;
    if (launch(c, e, in, t, at)) continue;
    while (m.n > k) release_transfer(c, m.t[--m.n]); /* the others are in the rings */
    return NULL;
  }
  c->dma_transfers++;
  return m.t[m.n - 1];
}

static bool rings_have_room(const vm_core *c, unsigned queue) {
  for (unsigned r = 0; r < c->code->queues[queue].rings; r++)
    if (c->rings[queue][r].n >= c->cost[VM_DMA_RING]) return false;
  return true;
}

static vm_verdict wait_for_room(vm_core *c, unsigned e, unsigned queue) {
  c->eng[e].state = VM_RINGFULL;
  c->eng[e].ring_queue = queue;
  return VM_STALL;
}

static vm_verdict trigger_static(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  const struct isa_TRIGGER *a = &in->u.TRIGGER;
  const isa_queue *q = &c->code->queues[a->queue];
  int32_t count = a->count.is_reg ? (int32_t)en->regs[a->count.v] : a->count.v;
  if (count < 0) {
    vm_fault(c, ISA_FAULT, vm_at_pc(e, en->pc), "dma_trigger of %d transfers", count);
    return VM_FAULT;
  }
  vm_time at = c->now + (vm_time)c->cost[VM_DMA_STATIC] * VM_NS;
  while (en->triggered < (uint32_t)count) {
    if (!rings_have_room(c, a->queue)) return wait_for_room(c, e, a->queue);
    if (en->triggered && vm_at_limit(c, e)) return VM_FAULT;
    uint32_t *next = &c->statics_next[a->queue];
    isa_insn one = q->statics[*next];
    if (in->upd.kind == ISA_UPD_dma) one.upd = in->upd;
    if (!start_transfer(c, e, &one, at, 0)) return VM_FAULT;
    *next = (*next + 1) % q->nstatics;
    c->repeats += en->triggered++ > 0;
  }
  en->now = at;
  return VM_RETIRE;
}

vm_verdict vm_dma_trigger(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  if (in->op == ISA_OP_dma_trigger) return trigger_static(c, e, in);
  if (in->op == ISA_OP_sendrecv && en->triggered) return VM_RETIRE; /* vm_dma_swap has run */
  vm_dma_ops o = vm_dma_ops_of(c, in, 0);
  unsigned dge = c->code->queues[o.queue].dge;
  vm_moment generator = en->dge_free, hazard = vm_dma_operand_hazard(c, e, in);
  if (dge == ISA_DGE_swdge) generator = vm_later(generator, en->issue_free);
  vm_moment free = vm_later(hazard, generator);
  if (free.time > c->now)
    return vm_stall(c, e, free, free.time == hazard.time ? VM_WHY_HAZARD : VM_WHY_GENERATOR);
  if (!rings_have_room(c, o.queue)) return wait_for_room(c, e, o.queue);
  if (in->op == ISA_OP_sendrecv) return vm_meet(c, e, in);
  return start_transfer(c, e, in, c->now, 0) ? VM_RETIRE : VM_FAULT;
}

/* One of the two transfers of a sendrecv, triggered at *from: then *from is when the sequencer goes
 * on. */
static vm_transfer *start_half(vm_core *c, unsigned e, unsigned other, vm_time *from) {
  const isa_insn *in = &c->eng[e].code->insns[c->eng[e].pc];
  if (c->code->queues[in->u.SENDRECV.queue].dge == ISA_DGE_none)
    *from += (vm_time)c->cost[VM_DMA_STATIC] * VM_NS;
  return start_transfer(c, e, in, *from, other);
}

bool vm_dma_swap(vm_core *c, unsigned e, unsigned other, vm_time from[2]) {
  vm_transfer *mine = start_half(c, e, other, &from[0]);
  vm_transfer *theirs = mine ? start_half(c->peer, other, e, &from[1]) : NULL;
  if (!theirs) return false;
  mine->twin = theirs;
  theirs->twin = mine;
  return true;
}

/* ---- Serving ------------------------------------------------------------------------------ */

/* Descriptors, one each contiguous element, that begin within a share's next `bytes`. */
static uint64_t descriptors(const vm_share *s, uint64_t bytes) {
  uint64_t run = s->t->run_bytes;
  return run ? (s->sent + bytes + run - 1) / run - (s->sent + run - 1) / run : 0;
}

/* Time of the engine for a share's next `bytes` at the rate of this moment. Engines at work, of
 * both cores of a pair, have equal parts of their stack, whose reads and writes are one traffic; a
 * transfer's own shares count from the start, since a DGE's share is one packet. A static ring's
 * packets are no faster than the engine can take descriptors; the share's semaphore update is the
 * last. */
static vm_time packet_time(const vm_core *c, const vm_share *s, uint64_t bytes, bool opens,
                           bool last) {
  const vm_transfer *t = s->t;
  uint64_t rate = t->rate, n = descriptors(s, bytes);
  if (t->hbm_bytes) {
    uint32_t active = c->hbm_active + (c->peer ? c->peer->hbm_active : 0);
    uint64_t sharing = active > t->shares ? active : t->shares;
    uint64_t part = (uint64_t)c->cost[VM_DMA_HBM] * t->dst.esize / (sharing * t->hbm_bytes);
    rate = part < rate ? part : rate;
  }
  vm_time moves = bytes / rate * 1000000000u + bytes % rate * 1000000000u / rate;
  moves += n * c->cost[VM_DMA_ELEMENT] * (VM_NS / 1000);
  if (opens) moves += (vm_time)c->cost[VM_DMA_TRANSFER] * VM_NS;
  vm_time taken = t->is_static ? (n + last) * c->cost[VM_DMA_ENG_DESC] * VM_NS : 0;
  return moves > taken ? moves : taken;
}

/* When the descriptors of the next `bytes` of a ring's head are there: a static ring fetches one
 * every DMA_RING_DESC. The fetch of the semaphore update, the last of a share, delays the share
 * that follows. */
static vm_time fetch(const vm_core *c, vm_ring *ring, uint64_t bytes, bool last) {
  const vm_share *s = ring->head;
  vm_time each = (vm_time)c->cost[VM_DMA_RING_DESC] * VM_NS;
  if (!s->t->is_static) return 0;
  if (s->sent == 0 && ring->fetched < c->now) ring->fetched = c->now;
  vm_time at = ring->fetched + descriptors(s, bytes) * each;
  ring->fetched = last ? at + each : at;
  return at;
}

/* What determines that a share starts now: its trigger, or the engine that was at work. */
static void note_cause(vm_core *c, unsigned dma, vm_share *s) {
  bool waited = c->now > s->ready;
  s->cause = (vm_cause){.node = waited ? c->dma[dma].last_node : s->t->node,
                        .why = waited ? VM_WHY_DMA : VM_WHY_TRIGGER,
                        .time = c->now};
}

static void first_data(vm_core *c, unsigned dma, vm_share *s) {
  note_cause(c, dma, s);
  s->started = true;
  s->item.start = c->now;
  vm_dma_boxes(c, s);
  vm_item_link(c, &s->item);
  if (c->shares_moving++ == 0) c->dma_since = c->now;
}

/* Bytes that a share reads from HBM and writes there. */
static void count_hbm(vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  uint64_t elements = s->e1 - s->e0;
  if (t->src.space == ISA_HBM) c->hbm_read += elements * t->src.esize;
  for (unsigned i = 0; i + 1 < t->nsrc; i++)
    if (t->more[i].space == ISA_HBM) c->hbm_read += elements * t->more[i].esize;
  if (t->dst.space != ISA_HBM) return;
  c->hbm_written += elements * t->dst.esize;
  if (t->accumulates) c->hbm_read += elements * t->dst.esize;
}

static void wake_ringfull(vm_core *c, unsigned queue) {
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (c->eng[e].state != VM_RINGFULL || c->eng[e].ring_queue != queue) continue;
    c->eng[e].state = VM_READY;
    vm_path_set_cause(&c->eng[e], (vm_moment){c->now, c->cause}, VM_WHY_RING);
    vm_post(c, VM_E_SEQ, e, c->now, 0);
  }
}

/* The semaphore of a transfer of c will see that ring's share. */
static void signal(vm_core *c, const vm_transfer *t, unsigned ring) {
  vm_where by = {.engine = t->engine, .dma = (int8_t)ring, .pc = t->pc};
  isa_update u = {.kind = ISA_UPD_dma,
                  .core = t->sem_core,
                  .sem = t->sem,
                  .value = (uint32_t)t->queue * ISA_NDMA + ring};
  if (!t->signals) return;
  vm_core *to = vm_sem_owner(c, &u);
  by.peer = to != c;
  vm_post_sem(to, c->now + (vm_time)(c->cost[VM_DMA_SEM] + c->cost[VM_DMA_RESUME]) * VM_NS, &u, by);
}

/* A ring's share of t is done. Of a sendrecv both cores hear of it when the twin's is as well: then
 * what the core has sent has left, and what it gets is there. */
static void finish_ring(vm_core *c, vm_transfer *t, unsigned ring) {
  if (!t->twin) {
    signal(c, t, ring);
    if (--t->left == 0) release_transfer(c, t);
    return;
  }
  vm_core *peer = c->peer;
  t->finished |= (uint16_t)(1u << ring);
  if (t->twin->finished >> ring & 1) {
    peer->now = vm_time_later(peer->now, c->now);
    peer->cause = c->cause;
    signal(c, t, ring);
    signal(peer, t->twin, ring);
  }
  if (--t->left || t->twin->left) return;
  release_transfer(peer, t->twin);
  release_transfer(c, t);
}

/* The head share of a ring is done: its bytes arrive and its semaphore will be seen. */
static void finish_share(vm_core *c, unsigned dma, unsigned queue) {
  vm_ring *ring = &c->rings[queue][dma];
  vm_share *s = ring->head;
  vm_transfer *t = s->t;
  vm_where by = {.engine = t->engine, .dma = (int8_t)dma, .pc = t->pc};
  uint32_t part = number_of_head(c, queue, dma);
  ring->head = s->next;
  if (!ring->head) ring->tail = NULL;
  ring->n--;
  if (s->bytes) {
    s->item.done = c->now;
    vm_protect(c, s->item.dst, 1, &s->item);
    if (c->check) vm_check_move(c, s);
    if (!c->timing_only) vm_dma_move(c, s);
    if (c->check) vm_check_moved(c, s);
    vm_item_unlink(c, &s->item);
    vm_trace(c, &(vm_trace_event){.kind = VM_EV_DMA,
                                  .where = by,
                                  .id = queue,
                                  .start = s->item.start,
                                  .end = c->now,
                                  .bytes = s->bytes,
                                  .part = part});
    c->dma_bytes += s->bytes;
    count_hbm(c, s);
    if (--c->shares_moving == 0) c->dma_active += c->now - c->dma_since;
  }
  if (c->debug) vm_debug_moved(c, s, by);
  if (!s->started) note_cause(c, dma, s);
  c->cause = vm_path_add(c, VM_N_SHARE, by, s->started ? s->item.start : c->now, c->now, s->cause);
  if (s->started) c->dma[dma].last_node = c->cause;
  release_share(c, s);
  c->shares_alive--;
  finish_ring(c, t, dma);
  wake_ringfull(c, queue);
}

static void end_packet(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  vm_share *s = c->rings[d->serving][dma].head;
  d->busy = false;
  c->hbm_active -= s->t->hbm_bytes > 0;
  s->sent += d->packet;
  if (s->sent == s->bytes && s->ready <= c->now) finish_share(c, dma, d->serving);
}

/* Queue whose head share is ready: of the lowest priority class, round robin within it. -1 and the
 * earliest later time when none is. */
static int pick(const vm_core *c, unsigned dma, vm_time *later) {
  int best = -1;
  unsigned class = UINT8_MAX;
  *later = UINT64_MAX;
  for (unsigned i = 0; i < c->code->nqueues; i++) {
    unsigned q = (c->dma[dma].next_queue + i) % c->code->nqueues;
    const vm_share *s = c->rings[q][dma].head;
    if (s && s->ready <= c->now && s->t->prio < class) {
      best = (int)q;
      class = s->t->prio;
    } else if (s && s->ready > c->now && s->ready < *later) {
      *later = s->ready;
    }
  }
  return best;
}

static void begin_packet(vm_core *c, unsigned dma, unsigned queue) {
  vm_dma_engine *d = &c->dma[dma];
  vm_share *s = c->rings[queue][dma].head;
  bool first = !s->started;
  uint64_t left = s->bytes - s->sent;
  d->next_queue = (uint8_t)((queue + 1) % c->code->nqueues);
  d->serving = (uint8_t)queue;
  d->packet = left;
  if (s->t->is_static && left > c->cost[VM_DMA_PACKET]) d->packet = c->cost[VM_DMA_PACKET];
  if (first) first_data(c, dma, s);
  d->busy = true;
  c->hbm_active += s->t->hbm_bytes > 0;
  bool last = d->packet == left && s->t->piece + 1 == s->t->pieces;
  bool opens = first && (s->t->opens >> dma & 1);
  vm_time takes = vm_jitter(c, packet_time(c, s, d->packet, opens, last));
  vm_time fetched = fetch(c, &c->rings[queue][dma], d->packet, last);
  d->ends = c->now + takes;
  s->ready = fetched > d->ends ? fetched : d->ends;
  d->busy_time += takes;
  c->dma_packets++;
  vm_post(c, VM_E_DMA, dma, d->ends, 0);
}

void vm_dma_event(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  vm_time later;
  if (d->busy && c->now < d->ends)
    return; /* it was armed for a share that came while a packet was moving */
  if (d->busy) end_packet(c, dma);
  d->armed = d->armed && d->armed_at > c->now;
  for (int q; (q = pick(c, dma, &later)) >= 0 && !c->ended;) {
    const vm_share *s = c->rings[q][dma].head;
    if (s->sent < s->bytes) {
      begin_packet(c, dma, (unsigned)q);
      return;
    }
    finish_share(c, dma, (unsigned)q); /* an idle ring signals as well */
  }
  if (later != UINT64_MAX && (!d->armed || later < d->armed_at)) {
    d->armed = true;
    d->armed_at = later;
    vm_post(c, VM_E_DMA, dma, later, 0);
  }
}
