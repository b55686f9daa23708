/* Triggers. An instruction makes one transfer, or several for lists of buffers, each with a share
 * on every ring of its queue; the descriptors of a DGE take the time of its generator. */
#include "../engine/engine.h"
#include "../time/clock.h"
#include "dma.h"

/* Contiguous elements of a transfer, each of which has a descriptor. */
static uint64_t elements(const vm_transfer *t) {
  uint64_t bytes = t->elems * t->dst.esize;
  /* Nothing contiguous at all (a skipped transfer): one descriptor, for the semaphore. */
  return t->run_bytes ? (bytes + t->run_bytes - 1) / t->run_bytes : 1;
}

/* Keeps the generator of n descriptors busy from then on; returns when they are ready. gpsimd makes
 * them itself; the hardware of sync and scalar runs in parallel. */
static vm_time generate(vm_core *c, vm_engine *en, unsigned queue, uint64_t n, vm_time from) {
  /* Hardware: the engine goes on while it writes descriptors. */
  if (c->code->queues[queue].dge == ISA_DGE_hwdge) {
    vm_time least = (vm_time)c->cost[VM_DMA_HWDGE] * VM_NS;
    vm_time makes = n * c->cost[VM_DMA_HW_ROW] * (VM_NS / 1000);
    /* A later trigger of this engine waits for it. */
    en->dge_free.time = from + (makes > least ? makes : least);
    return from;
  }
  /* Software: gpsimd's data path is busy with it, which counts as its work. */
  vm_time at =
      from + (vm_time)c->cost[VM_DMA_SW_BASE] * VM_NS + n * c->cost[VM_DMA_SW_ROW] * (VM_NS / 1000);
  /* Not twice what is already counted as busy. */
  if (at > en->busy_until) {
    en->busy += at - vm_time_later(en->busy_until, from);
    en->busy_until = at;
  }
  en->issue_free.time = en->dge_free.time = at;
  return at;
}

/* Gives the rings' shares the time when each may begin. */
static void stagger(vm_core *c, const vm_transfer *t, vm_share *s, vm_time at) {
  /* Descriptors of a static ring are there already: its first data come after DMA_FIRST. */
  uint32_t wait = c->cost[t->is_static ? VM_DMA_FIRST : VM_DMA_FIRST_DGE];
  /* Rings begin one after another, as the trigger reaches them. */
  for (; s; s = s->next, wait += c->cost[VM_DMA_STAGGER])
    s->ready = at + vm_jitter(c, (vm_time)wait * VM_NS);
}

static void tell_trigger(vm_core *c, const vm_transfer *t, vm_time start, vm_time end,
                         uint64_t bytes) {
  /* Semaphores of the other core are numbered after one's own, as in soma_event. */
  uint32_t other = t->sem_core == c->number ? 0 : ISA_NSEMS;
  vm_trace_event ev = {.kind = VM_EV_TRIGGER,
                       .where = vm_at_pc(c, t->engine, t->pc),
                       .id = t->queue,
                       .start = start,
                       .end = end,
                       .bytes = bytes,
                       .value = t->signals ? t->sem + other : UINT32_MAX,
                       .part = c->queued[t->queue]++};
  vm_trace_beside(c, &ev);
}

/* The transfers of an instruction, one per piece: without shares, in no ring. */
typedef struct made {
  vm_transfer *t[VM_DMA_PIECES];
  unsigned n;
} made;

static void release_made(vm_core *c, made *m) {
  /* From the last one on: nothing has a share yet, so that the order does not matter. */
  while (m->n) vm_dma_release_transfer(c, m->t[--m->n]);
}

/* met: by a sendrecv. */
static vm_transfer *make_piece(vm_core *c, unsigned e, const isa_insn *in, vm_where met,
                               unsigned piece, isa_error *err) {
  vm_engine *en = &c->eng[e];
  vm_transfer *t = vm_dma_new_transfer(c);
  if (!t) {
    isa_fail(err, ISA_NOMEM, ISA_NOFIELD, "no memory for a transfer");
    return NULL;
  }
  t->piece = (uint8_t)piece;
  t->met = met;
  /* t is complete, or has given back what it took. */
  if (vm_dma_make(c, en, in, t, err)) return t;
  vm_dma_release_transfer(c, t);
  return NULL;
}

static bool make_all(vm_core *c, unsigned e, const isa_insn *in, vm_where met, made *m) {
  isa_error err = {.field = ISA_NOFIELD};
  bool lists = in->op == ISA_OP_dma_copy_lists;
  /* For lists: what registers have moved must be apart before any piece is made. */
  bool ok = !lists || vm_dma_lists_apart(c, &c->eng[e], in, &err);
  /* How many pieces there are is known with the first. */
  for (unsigned pieces = 1; ok && m->n < pieces; m->n += ok) {
    vm_transfer *t = make_piece(c, e, in, met, m->n, &err);
    ok = t != NULL;
    m->t[m->n] = t;
    if (ok) pieces = t->pieces;
  }
  if (ok && lists) vm_dma_open_rings(c, m->t, m->n);
  if (ok) return true;
  /* The operand that is wrong, if it is one. */
  vm_fault(c, err.status, vm_at_pc(c, e, c->eng[e].pc), "%s%s%s%s",
           err.field >= 0 ? "operand " : "",
           err.field >= 0 ? isa_form_of(in->op)->fields[err.field].name : "",
           err.field >= 0 ? ": " : "", err.text);
  release_made(c, m);
  return false;
}

/* Puts the shares of a piece into the rings; start: of its trigger, at: when the descriptors are
 * ready. The last piece signals. */
static bool launch(vm_core *c, unsigned e, const isa_insn *in, vm_transfer *t, vm_time start,
                   vm_time at) {
  unsigned rings = c->code->queues[t->queue].rings;
  vm_share *s = vm_dma_new_shares(c, t, rings);
  if (!s) {
    vm_fault(c, ISA_NOMEM, vm_at_pc(c, e, c->eng[e].pc), "no memory for a transfer");
    return false;
  }
  /* Rings take their pieces in order: the last piece's update means all of them. */
  bool last = t->piece + 1 == t->pieces;
  t->signals = in->upd.kind == ISA_UPD_dma && last;
  /* Slot 0 in the clause: the peer that gets the bytes. */
  t->peer = in->upd.kind == ISA_UPD_peer && last ? (uint16_t)in->upd.value : 0;
  if (in->upd.kind == ISA_UPD_peer && last && !in->upd.value) t->peer = t->put;
  t->sem = in->upd.sem;
  t->sem_core = in->upd.core;
  t->left = rings;
  c->eng[e].moving++;
  t->number = ++c->run->transfers;
  /* Descriptors of a static queue have numbers, for the trace; a DGE makes them for this transfer
   * only. */
  t->descriptor = t->is_static ? c->statics_next[t->queue] : 0;
  stagger(c, t, s, at);
  uint64_t moved = t->first[rings] - t->first[0];
  tell_trigger(c, t, start, t->is_static ? at : c->eng[e].dge_free.time, moved * t->dst.esize);
  vm_tell_transfer(c, e, in, t, s);
  for (unsigned r = 0; r < rings; r++) {
    /* A share in a ring is chained there. */
    vm_share *next = s->next;
    s->next = NULL;
    vm_dma_enqueue(c, s, r);
    s = next;
  }
  return true;
}

/* Starts the transfers of an instruction; returns the last piece, NULL after a fault. start: of its
 * trigger; at: the same, or for a static one when the trigger is written. */
static vm_transfer *start_transfer(vm_core *c, unsigned e, const isa_insn *in, vm_time start,
                                   vm_time at, vm_where met) {
  vm_engine *en = &c->eng[e];
  made m;
  uint64_t descriptors = 0;
  m.n = 0;
  if (!make_all(c, e, in, met, &m)) return NULL;
  const vm_transfer *any = m.t[0];
  /* For all pieces: the generator makes them at once. */
  for (unsigned k = 0; k < m.n; k++) descriptors += elements(m.t[k]);
  /* A static queue has none to make. */
  if (!any->is_static) at = generate(c, en, any->queue, descriptors, at);
  /* A sendrecv is made when the other core comes to it, which tells the engine later. */
  uint32_t node = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, en->pc),
                              vm_time_later(c->now, en->cause.time), at, en->cause);
  en->dge_free.node = node;
  if (en->issue_free.time == at) en->issue_free.node = node; /* gpsimd made the descriptors */
  for (unsigned k = 0; k < m.n; k++) {
    vm_transfer *t = m.t[k];
    /* Known before any share can end. */
    t->engine = (uint8_t)e;
    t->pc = en->pc;
    t->node = node;
    if (launch(c, e, in, t, start, at)) continue;
    while (m.n > k)
      vm_dma_release_transfer(c, m.t[--m.n]); /* the others are already in the
                                                 rings */
    return NULL;
  }
  c->dma_transfers++;
  return m.t[m.n - 1];
}

static bool rings_have_room(const vm_core *c, unsigned queue) {
  /* Any ring that is full holds up the trigger, as all get a share. */
  for (unsigned r = 0; r < c->code->queues[queue].rings; r++)
    if (c->rings[queue][r].n >= c->cost[VM_DMA_RING]) return false;
  return true;
}

static vm_verdict wait_for_room(vm_core *c, unsigned e, unsigned queue) {
  /* wake_ringfull tries the instruction again. */
  c->eng[e].state = VM_RINGFULL;
  c->eng[e].ring_queue = queue;
  c->ring_waiters[queue] |= (uint16_t)(1u << e);
  return VM_STALL;
}

static vm_verdict trigger_static(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  const struct isa_TRIGGER *a = &in->u.TRIGGER;
  const isa_queue *q = &c->code->queues[a->queue];
  /* A register may say how many. */
  int32_t count = a->count.is_reg ? (int32_t)en->regs[a->count.v] : a->count.v;
  if (count < 0) {
    vm_fault(c, ISA_FAULT, vm_at_pc(c, e, en->pc), "dma_trigger of %d transfers", count);
    return VM_FAULT;
  }
  /* On the engine: two writes to the queue's doorbells. */
  vm_time at = c->now + (vm_time)c->cost[VM_DMA_STATIC] * VM_NS;
  uint32_t *next = &c->statics_next[a->queue];
  /* The first time only: a trigger that was held up goes on where it was. */
  if (a->first && en->triggered == 0) *next = a->first - 1;
  while (en->triggered < (uint32_t)count) {
    /* Transfers that have been started stay: en->triggered counts them. */
    if (!rings_have_room(c, a->queue)) return wait_for_room(c, e, a->queue);
    /* A count in a register may be huge. */
    if (en->triggered && vm_at_limit(c, e)) return VM_FAULT;
    isa_insn one = q->statics[*next];
    /* The trigger's own clause replaces that of the transfer's row. */
    if (in->upd.kind != ISA_UPD_none) one.upd = in->upd;
    if (!start_transfer(c, e, &one, c->now, at, VM_NOWHERE)) return VM_FAULT;
    /* A queue of static transfers is a ring: after the last one comes the first. */
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
  /* gpsimd's data path makes software descriptors. */
  if (dge == ISA_DGE_swdge) generator = vm_later(generator, en->issue_free);
  vm_moment free = vm_later(hazard, generator);
  if (free.time > c->now) /* The later of the two is why it waits. */
    return vm_stall(c, e, free, free.time == hazard.time ? VM_WHY_HAZARD : VM_WHY_GENERATOR);
  if (!rings_have_room(c, o.queue)) return wait_for_room(c, e, o.queue);
  if (in->op == ISA_OP_sendrecv) return vm_meet(c, e, in);
  return start_transfer(c, e, in, c->now, c->now, VM_NOWHERE) ? VM_RETIRE : VM_FAULT;
}

/* One of the two transfers of a sendrecv, triggered at *from: then *from is when the sequencer goes
 * on. */
static vm_transfer *start_half(vm_run *r, vm_where at, vm_where met, vm_time *from) {
  vm_core *c = r->cores[at.core];
  unsigned e = (unsigned)at.engine;
  const isa_insn *in = &c->eng[e].code->insns[at.pc];
  vm_time start = *from;
  if (c->code->queues[in->u.SENDRECV.queue].dge == ISA_DGE_none)
    /* Both sides write their doorbells after they have met. */
    *from += (vm_time)c->cost[VM_DMA_STATIC] * VM_NS;
  return start_transfer(c, e, in, start, *from, met);
}

bool vm_dma_swap(vm_run *r, const vm_where at[2], vm_time from[2]) {
  vm_transfer *a = start_half(r, at[0], at[1], &from[0]);
  vm_transfer *b = a ? start_half(r, at[1], at[0], &from[1]) : NULL;
  if (!b) return false;
  a->twin = b;
  b->twin = a;
  return true;
}
