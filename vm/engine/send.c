/* Messages to other ranks: what a transfer or an update of a CC sequencer sends. */
#include "../message.h"
#include "../time/clock.h"
#include "engine.h"

/* ---- Receiving ---------------------------------------------------------------------------- */

static bool make_room(vm_core *c) {
  if (!c->inbox && !(c->inbox = isa_zalloc(&c->al, sizeof *c->inbox))) return false;
  vm_inbox *in = c->inbox;
  /* A slot that has become free, or one at the end. */
  if (in->left < in->n || in->n < in->cap) return true;
  return isa_array_grow(&c->al, &in->v, in->n, &in->cap, sizeof *in->v);
}

static uint32_t free_slot(vm_inbox *in) {
  if (in->left == in->n) return in->n++;
  /* Some slot is free, since left < n. */
  for (uint32_t i = 0;; i++)
    if (in->v[i].m.dst == UINT32_MAX) return i;
}

void vm_receive(vm_run *r, const vm_parcel *p) {
  vm_core *c = r->cores[p->m.core];
  /* A run that has ended takes no messages. */
  if (r->ended || !make_room(c)) {
    vm_parcel_free(&c->run->peers->al, p);
    if (!r->ended) vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for a message");
    return;
  }
  uint32_t slot = free_slot(c->inbox);
  c->inbox->v[slot] = *p;
  c->inbox->left++;
  vm_post_put(c, &p->m, slot);
}

/* ---- Sending ------------------------------------------------------------------------------ */

/* It waits in the run for who takes it. */
static void put_out(vm_core *c, const vm_parcel *p) {
  vm_peers *peers = c->run->peers;
  if (peers->nout == peers->cap_out &&
      !isa_array_grow(&c->al, &peers->out, peers->nout, &peers->cap_out, sizeof *peers->out)) {
    /* Nobody has the bytes now. */
    vm_parcel_free(&c->run->peers->al, p);
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for a message");
    return;
  }
  peers->out[peers->nout++] = *p;
}

/* Within a stack a message is an event of the receiver at once. */
static void send(vm_core *c, const vm_share *s, vm_where by, vm_parcel *p) {
  vm_peers *peers = c->run->peers;
  vm_run *to = peers->runs[p->m.dst];
  p->m.src = peers->rank;
  p->m.core = c->number;
  /* Numbers in the order of sending: they decide among messages of one arrival time. */
  p->m.seq = peers->sent++;
  p->node = c->cause;
  vm_tell_send(c, s, by, p);
  /* A world is cut along stacks: only what crosses between them is taken at the ends of windows. */
  if (to && to->stack == c->run->stack)
    vm_receive(to, p);
  else
    put_out(c, p);
}

static vm_message message_to(const vm_core *c, unsigned slot, vm_time at, vm_where by) {
  return (vm_message){
      .time = at, .dst = c->run->peers->ranks[slot - 1], .engine = (uint8_t)by.engine, .pc = by.pc};
}

/* s: the share that sends it; NULL: an instruction. */
static void send_update(vm_core *c, const vm_share *s, unsigned slot, unsigned sem, uint32_t value,
                        vm_time at, vm_where by) {
  vm_parcel p = {.m = message_to(c, slot, at, by)};
  p.m.updates = 1;
  p.m.sem = (uint8_t)sem;
  p.m.value = value;
  send(c, s, by, &p);
}

void vm_send_update(vm_core *c, unsigned slot, unsigned sem, uint32_t value, vm_time at,
                    vm_where by) {
  send_update(c, NULL, slot, sem, value, at, by);
}

/* The pattern, and which of its elements. */
static void address(const vm_core *c, const vm_share *s, int64_t offset, vm_message *m) {
  const vm_transfer *t = s->t;
  const isa_ap *ap = &c->code->aps[t->put_ap - 1];
  m->ap = t->put_ap;
  m->offset = offset;
  m->first = s->e0;
  m->n = (uint32_t)(s->e1 - s->e0);
  if (ap->space == ISA_HBM)
    /* The peer may have its tensors in another order: its own number of the same tensor. */
    m->tensor = c->run->peers->tensors[(t->put - 1u) * c->prog->ntensors + ap->base - 1];
}

/* When what a share sends now arrives, if it need not wait for links: the bytes travel, and then
 * the update is seen as one of a DMA engine is. */
static vm_time arrival(const vm_core *c) {
  vm_time seen = (vm_time)(c->cost[VM_DMA_SEM] + c->cost[VM_DMA_RESUME]) * VM_NS;
  return c->now + (vm_time)c->cost[VM_LINK_LAT] * VM_NS + seen;
}

void vm_send_packet(vm_core *c, const vm_share *s, vm_where by, int64_t offset, uint64_t bytes) {
  const vm_transfer *t = s->t;
  vm_peers *peers = c->run->peers;
  uint32_t before = (uint32_t)((s->sent - bytes) / t->dst.esize);
  vm_parcel p = {.m = message_to(c, t->put, arrival(c), by)};
  address(c, s, offset, &p.m);
  p.m.first += before;
  p.m.n = (uint32_t)(s->sent / t->dst.esize) - before;
  /* A packet may be smaller than an element, which a later one then has. */
  if (!p.m.n) return;
  p.m.updates = VM_MESSAGE_PACKET;
  p.m.src = peers->rank;
  p.m.core = c->number;
  p.m.seq = peers->sent++;
  put_out(c, &p);
}

void vm_send_share(vm_core *c, const vm_share *s, vm_where by, int64_t offset, uint8_t *data) {
  const vm_transfer *t = s->t;
  vm_time at = arrival(c);
  if (t->put && s->bytes) {
    vm_parcel p = {.m = message_to(c, t->put, at, by), .data = data, .bytes = data ? s->bytes : 0};
    address(c, s, offset, &p.m);
    /* One message for both, if they go to the same peer: the bytes are there before the update. */
    if (t->peer == t->put) p.m.updates = 1, p.m.sem = t->sem, p.m.value = 1;
    send(c, s, by, &p);
    if (p.m.updates) return;
  }
  /* The update goes elsewhere, or no bytes did. */
  if (t->peer) send_update(c, s, t->peer, t->sem, 1, at, by);
}
