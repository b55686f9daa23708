/* Queues, rings and DMA engines. A trigger makes a transfer of up to sixteen shares, one a ring;
 * each DMA engine serves the heads of its rings round robin, a packet at a time. */
#include "vm.h"

#include <string.h>

struct vm_slab {
  struct vm_slab *next;
  size_t size;
};

/* ---- Shares and transfers come from slabs, so that stepping seldom allocates --------------- */

static void *slab_new(vm_core *c, size_t item, unsigned n) {
  size_t size = sizeof(struct vm_slab) + 16 + item * n;
  struct vm_slab *s = isa_zalloc(&c->al, size);
  if (!s)
    return NULL;
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
  for (struct vm_slab *s = c->slabs, *next; s; s = next) {
    next = s->next;
    isa_free(&c->al, s, s->size);
  }
  c->slabs = NULL;
}

/* ---- Making a transfer -------------------------------------------------------------------- */

/* Elements of the share of ring r of n rings. SBUF decides by absolute partition, eight of them a
 * ring of sixteen; between HBM and HBM the outermost dimension is divided evenly. */
static void share_range(const vm_transfer *t, unsigned r, unsigned n, uint64_t *e0, uint64_t *e1) {
  const vm_view *by = t->dst.space == ISA_SBUF ? &t->dst : &t->src;
  if (by->space == ISA_SBUF) {
    uint32_t lo = (r * ISA_PMAX + n - 1) / n, hi = ((r + 1) * ISA_PMAX + n - 1) / n;
    uint32_t end = by->part + by->num[0];
    lo = lo < by->part ? by->part : lo > end ? end : lo;
    hi = hi < by->part ? by->part : hi > end ? end : hi;
    *e0 = (lo - by->part) * by->elems;
    *e1 = (hi - by->part) * by->elems;
    return;
  }
  uint64_t outer = 1;
  for (unsigned d = 1; d < by->ndim && outer == 1; d++)
    outer = by->num[d];
  uint64_t each = outer ? by->elems / outer : 0;
  *e0 = outer * r / n * each;
  *e1 = outer * (r + 1) / n * each;
}

/* The part of a view that holds elements e0 .. e1 - 1, as boxes see it: exact where the outermost
 * dimension divides it, the whole view elsewhere. */
static vm_view part_of(const vm_view *v, uint64_t e0, uint64_t e1) {
  vm_view p = *v;
  unsigned d = 0;
  uint64_t each = v->elems;
  for (; d + 1 < v->ndim && v->num[d] == 1; d++)
    each = v->num[d + 1] ? each / v->num[d + 1] : 0;
  if (each == 0 || e0 % each || e1 % each)
    return p;
  p.at += (int64_t)(e0 / each) * v->step[d];
  p.num[d] = (uint32_t)((e1 - e0) / each);
  if (d == 0)
    p.part = (uint16_t)(v->part + e0 / each);
  else
    p.elems = e1 - e0;
  return p;
}

static void enqueue(vm_core *c, vm_transfer *t, vm_share *s, unsigned r, vm_time ready) {
  vm_ring *ring = &c->rings[t->queue][r];
  s->t = t;
  s->bytes = (s->e1 - s->e0) * t->dst.esize;
  s->ready = ready;
  s->item.is_share = true;
  if (ring->tail)
    ring->tail->next = s;
  else
    ring->head = s;
  ring->tail = s;
  ring->n++;
  c->shares_alive++;
  vm_dma_engine *d = &c->dma[r];
  if (!d->busy && (!d->armed || ready < d->armed_at)) {
    d->armed = true;
    d->armed_at = ready;
    vm_post(c, VM_E_DMA, r, ready, 0);
  }
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Starts one transfer at trigger time `at`: resolved operands in, shares in rings out. */
static bool start_transfer(vm_core *c, unsigned e, const isa_insn *in, vm_time at) {
  const struct isa_DMA_COPY *a = &in->u.DMA_COPY;
  const isa_queue *q = &c->code->queues[a->queue];
  vm_engine *en = &c->eng[e];
  vm_operands ops;
  isa_error err = {0};
  if (!vm_resolve(c, en, in, &ops, &err)) {
    vm_fault(c, err.status, (int)e, -1, en->pc, "operand %s: %s",
             err.field >= 0 ? isa_form_of(in->op)->fields[err.field].name : "?", err.text);
    return false;
  }
  vm_transfer *t = new_transfer(c);
  if (!t) {
    vm_fault(c, ISA_NOMEM, (int)e, -1, en->pc, "no memory for a transfer");
    return false;
  }
  t->dst = ops.DMA_COPY.dst;
  t->src = ops.DMA_COPY.src;
  t->queue = a->queue;
  t->engine = (uint8_t)e;
  t->pc = en->pc;
  t->is_static = q->dge == ISA_DGE_none;
  t->signals = in->upd.kind == ISA_UPD_dma;
  t->sem = in->upd.sem;
  t->touches_hbm = t->dst.space == ISA_HBM || t->src.space == ISA_HBM;
  t->rate = c->cost[t->dst.space == ISA_SBUF && t->src.space == ISA_HBM ? VM_DMA_R_IN : VM_DMA_R_OUT];
  uint64_t dst_run = t->dst.run_step == t->dst.esize ? t->dst.run : 1;
  uint64_t src_run = t->src.run_step == t->src.esize ? t->src.run : 1;
  t->run_bytes = least(dst_run, src_run) * t->dst.esize;
  t->left = q->rings;
  uint32_t first = c->cost[t->is_static ? VM_DMA_FIRST : VM_DMA_FIRST_DGE];
  for (unsigned r = 0; r < q->rings; r++) {
    vm_share *s = new_share(c);
    if (!s) {
      vm_fault(c, ISA_NOMEM, (int)e, -1, en->pc, "no memory for a share of a transfer");
      return false;
    }
    share_range(t, r, q->rings, &s->e0, &s->e1);
    enqueue(c, t, s, r, at + (vm_time)(first + r * c->cost[VM_DMA_STAGGER]) * VM_NS);
  }
  c->dma_transfers++;
  return true;
}

static bool rings_have_room(const vm_core *c, unsigned queue) {
  for (unsigned r = 0; r < c->code->queues[queue].rings; r++)
    if (c->rings[queue][r].n >= c->cost[VM_DMA_RING])
      return false;
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
    vm_fault(c, ISA_FAULT, (int)e, -1, en->pc, "dma_trigger of %d transfers", count);
    return VM_FAULT;
  }
  vm_time at = c->now + (vm_time)c->cost[VM_DMA_STATIC] * VM_NS;
  while (en->triggered < (uint32_t)count) {
    if (!rings_have_room(c, a->queue))
      return wait_for_room(c, e, a->queue);
    uint32_t *next = &c->statics_next[a->queue];
    isa_insn one = q->statics[*next];
    if (in->upd.kind == ISA_UPD_dma)
      one.upd = in->upd;
    if (!start_transfer(c, e, &one, at))
      return VM_FAULT;
    *next = (*next + 1) % q->nstatics;
    en->triggered++;
  }
  en->now = at;
  return VM_RETIRE;
}

/* When the descriptor generator of a queue's owner is free. */
static vm_time *generator(vm_engine *en, unsigned dge) {
  return dge == ISA_DGE_swdge ? &en->issue_free : &en->dge_free;
}

vm_verdict vm_dma_trigger(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  if (in->op == ISA_OP_dma_trigger)
    return trigger_static(c, e, in);
  const isa_queue *q = &c->code->queues[in->u.DMA_COPY.queue];
  vm_time *free_at = generator(en, q->dge);
  if (*free_at > c->now) {
    en->now = *free_at;
    vm_post(c, VM_E_SEQ, e, en->now, 0);
    return VM_STALL;
  }
  if (!rings_have_room(c, in->u.DMA_COPY.queue))
    return wait_for_room(c, e, in->u.DMA_COPY.queue);
  vm_time at = c->now;
  if (q->dge == ISA_DGE_swdge) {
    const isa_ap *dst = &c->code->aps[in->u.DMA_COPY.dst - 1];
    const isa_ap *src = &c->code->aps[in->u.DMA_COPY.src - 1];
    uint64_t rows = dst->space == ISA_SBUF ? dst->nparts : src->space == ISA_SBUF ? src->nparts : 1;
    vm_time takes = (vm_time)c->cost[VM_DMA_SW_BASE] * VM_NS +
                    rows * c->cost[VM_DMA_SW_ROW] * (VM_NS / 1000);
    at += takes;
    en->busy += takes;
    *free_at = at;
  } else {
    *free_at = at + (vm_time)c->cost[VM_DMA_HWDGE] * VM_NS;
  }
  return start_transfer(c, e, in, at) ? VM_RETIRE : VM_FAULT;
}

/* ---- Serving ------------------------------------------------------------------------------ */

/* Time of `bytes` of a share's contiguous elements at the rate of this moment. */
static vm_time packet_time(const vm_core *c, const vm_transfer *t, uint64_t bytes, bool first) {
  uint64_t rate = t->rate;
  if (t->touches_hbm && c->hbm_active) {
    uint64_t part = c->cost[VM_DMA_HBM] / c->hbm_active;
    rate = part < rate ? part : rate;
  }
  uint64_t run = t->run_bytes < bytes ? t->run_bytes : bytes;
  vm_time each = run / rate * 1000000000u + run % rate * 1000000000u / rate +
                 (vm_time)c->cost[VM_DMA_ELEMENT] * (VM_NS / 1000);
  vm_time floor = t->is_static ? (vm_time)c->cost[VM_DMA_MIN_DESC] * VM_NS : 0;
  each = each < floor ? floor : each;
  uint64_t runs = run ? (bytes + run - 1) / run : 0;
  return runs * each + (first ? (vm_time)c->cost[VM_DMA_TRANSFER] * VM_NS : 0);
}

static void first_data(vm_core *c, vm_share *s) {
  vm_view dst = part_of(&s->t->dst, s->e0, s->e1), src = part_of(&s->t->src, s->e0, s->e1);
  s->started = true;
  s->item.start = c->now;
  s->item.nsrc = s->item.ndst = 1;
  vm_view_box(c, &src, &s->item.src[0]);
  vm_view_box(c, &dst, &s->item.dst[0]);
  vm_item_link(c, &s->item);
}

static void wake_ringfull(vm_core *c, unsigned queue) {
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (c->eng[e].state != VM_RINGFULL || c->eng[e].ring_queue != queue)
      continue;
    c->eng[e].state = VM_READY;
    vm_post(c, VM_E_SEQ, e, c->now, 0);
  }
}

/* The head share of a ring is done: its bytes arrive and its semaphore will be seen. */
static void finish_share(vm_core *c, unsigned dma, unsigned queue) {
  vm_ring *ring = &c->rings[queue][dma];
  vm_share *s = ring->head;
  vm_transfer *t = s->t;
  ring->head = s->next;
  if (!ring->head)
    ring->tail = NULL;
  ring->n--;
  if (s->bytes) {
    s->item.done = c->now;
    vm_protect(c, s->item.dst, 1, &s->item);
    vm_dma_move(c, &t->dst, s->item.staged ? &s->snap : &t->src, s->e0, s->e1);
    vm_item_unlink(c, &s->item);
    vm_trace(c, VM_EV_DMA, dma, t->pc, queue, s->item.start, c->now, s->bytes, t->engine);
    c->dma_bytes += s->bytes;
  }
  if (t->signals)
    vm_post_sem(c, c->now + (vm_time)(c->cost[VM_DMA_SEM] + c->cost[VM_DMA_RESUME]) * VM_NS,
                t->sem, ISA_UPD_dma, 0, t->engine, t->pc);
  s->next = c->free_shares;
  c->free_shares = s;
  c->shares_alive--;
  if (--t->left == 0) {
    t->next_free = c->free_transfers;
    c->free_transfers = t;
  }
  wake_ringfull(c, queue);
}

static void end_packet(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  vm_share *s = c->rings[d->serving][dma].head;
  d->busy = false;
  c->hbm_active -= s->t->touches_hbm;
  s->sent += d->packet;
  if (s->sent == s->bytes)
    finish_share(c, dma, d->serving);
}

/* Queue whose head share is ready, round robin; -1 and the earliest later time when none is. */
static int pick(const vm_core *c, unsigned dma, vm_time *later) {
  *later = UINT64_MAX;
  for (unsigned i = 0; i < c->code->nqueues; i++) {
    unsigned q = (c->dma[dma].next_queue + i) % c->code->nqueues;
    const vm_share *s = c->rings[q][dma].head;
    if (s && s->ready <= c->now)
      return (int)q;
    if (s && s->ready < *later)
      *later = s->ready;
  }
  return -1;
}

static void begin_packet(vm_core *c, unsigned dma, unsigned queue) {
  vm_dma_engine *d = &c->dma[dma];
  vm_share *s = c->rings[queue][dma].head;
  bool first = !s->started;
  uint64_t left = s->bytes - s->sent;
  d->next_queue = (uint8_t)((queue + 1) % c->code->nqueues);
  d->serving = (uint8_t)queue;
  d->packet = s->t->is_static ? least(left, c->cost[VM_DMA_PACKET]) : left;
  if (first)
    first_data(c, s);
  d->busy = true;
  c->hbm_active += s->t->touches_hbm;
  vm_time takes = packet_time(c, s->t, d->packet, first);
  d->ends = c->now + takes;
  d->busy_time += takes;
  c->dma_packets++;
  vm_post(c, VM_E_DMA, dma, d->ends, 0);
}

void vm_dma_event(vm_core *c, unsigned dma) {
  vm_dma_engine *d = &c->dma[dma];
  vm_time later;
  if (d->busy && c->now < d->ends)
    return; /* it was armed for a share that came while a packet was moving */
  if (d->busy)
    end_packet(c, dma);
  d->armed = d->armed && d->armed_at > c->now;
  for (int q; (q = pick(c, dma, &later)) >= 0 && !c->ended;) {
    if (c->rings[q][dma].head->bytes) {
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
