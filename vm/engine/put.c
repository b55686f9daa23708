/* Messages between ranks: what a transfer or an update of a CC sequencer sends, and what arrives. */
#include "../message.h"
#include "../dma/dma.h"
#include "../time/clock.h"

/* ---- Sending ------------------------------------------------------------------------------ */

/* Within a stack a message is an event of the receiver at once; others wait in the run for who
 * takes them. */
static void send(vm_core *c, vm_parcel *p) {
  vm_peers *peers = c->run->peers;
  vm_run *to = peers->runs[p->m.dst];
  p->m.src = peers->rank;
  p->m.core = c->number;
  p->m.seq = peers->sent++;
  if (to && to->stack == c->run->stack) {
    vm_receive(to, p);
    return;
  }
  if (peers->nout == peers->cap_out &&
      !isa_array_grow(&c->al, &peers->out, peers->nout, &peers->cap_out, sizeof *peers->out)) {
    isa_free(&c->al, p->data, p->bytes);
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for a message");
    return;
  }
  peers->out[peers->nout++] = *p;
}

static vm_message message_to(const vm_core *c, unsigned slot, vm_time at, vm_where by) {
  return (vm_message){.time = at,
                      .dst = c->run->peers->ranks[slot - 1],
                      .engine = (uint8_t)by.engine,
                      .pc = by.pc};
}

void vm_send_update(vm_core *c, unsigned slot, unsigned sem, uint32_t value, vm_time at,
                    vm_where by) {
  vm_parcel p = {.m = message_to(c, slot, at, by)};
  p.m.updates = 1;
  p.m.sem = (uint8_t)sem;
  p.m.value = value;
  send(c, &p);
}

/* The pattern, and which of its elements. */
static void address(const vm_core *c, const vm_share *s, vm_message *m) {
  const vm_transfer *t = s->t;
  const isa_ap *ap = &c->code->aps[t->put_ap - 1];
  m->ap = t->put_ap;
  m->offset = t->dst.at - vm_ap_base(c, ap);
  m->first = s->e0;
  m->n = (uint32_t)(s->e1 - s->e0);
  if (ap->space == ISA_HBM)
    m->tensor = c->run->peers->tensors[(t->put - 1u) * c->prog->ntensors + ap->base - 1];
}

void vm_send_share(vm_core *c, vm_share *s, vm_where by) {
  const vm_transfer *t = s->t;
  const vm_time seen = (vm_time)(c->cost[VM_DMA_SEM] + c->cost[VM_DMA_RESUME]) * VM_NS;
  vm_time at = c->now + (vm_time)c->cost[VM_LINK_LAT] * VM_NS + seen;
  if (t->put && s->bytes) {
    vm_parcel p = {.m = message_to(c, t->put, at, by)};
    address(c, s, &p.m);
    if (t->peer == t->put) p.m.updates = 1, p.m.sem = t->sem, p.m.value = 1;
    if (!c->run->timing_only) {
      p.bytes = s->bytes;
      p.data = c->al.fn(c->al.ud, NULL, 0, (size_t)p.bytes);
      if (!p.data) {
        vm_fault(c, ISA_NOMEM, by, "no memory for the bytes of a message");
        return;
      }
      vm_dma_pack(c, s, p.data);
    }
    send(c, &p);
    if (p.m.updates) return;
  }
  if (t->peer) vm_send_update(c, t->peer, t->sem, 1, at, by);
}

/* ---- Arriving ----------------------------------------------------------------------------- */

static bool make_room(vm_core *c) {
  if (!c->inbox && !(c->inbox = isa_zalloc(&c->al, sizeof *c->inbox))) return false;
  vm_inbox *in = c->inbox;
  if (in->left < in->n || in->n < in->cap) return true;
  return isa_array_grow(&c->al, &in->v, in->n, &in->cap, sizeof *in->v);
}

static uint32_t free_slot(vm_inbox *in) {
  if (in->left == in->n) return in->n++;
  for (uint32_t i = 0;; i++)
    if (in->v[i].m.dst == UINT32_MAX) return i;
}

void vm_receive(vm_run *r, const vm_parcel *p) {
  vm_core *c = r->cores[p->m.core];
  if (r->ended || !make_room(c)) {
    isa_free(&c->al, p->data, p->bytes);
    if (!r->ended) vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for a message");
    return;
  }
  uint32_t slot = free_slot(c->inbox);
  c->inbox->v[slot] = *p;
  c->inbox->left++;
  vm_post_put(c, &p->m, slot);
}

/* The bytes, as the end of a transfer writes them. */
static void put_bytes(vm_core *c, const vm_parcel *p) {
  const vm_message *m = &p->m;
  const isa_ap *ap = &c->run->peers->runs[m->src]->prog->cores[m->core].aps[m->ap - 1];
  vm_view v;
  vm_item it = {.start = c->now, .done = c->now, .ndst = 1, .core = c->number};
  uint8_t *base = ap->space == ISA_HBM ? c->run->blocks[m->tensor].data
                                       : c->mem.sbuf + ap->part * c->mem.sbuf_pitch;
  vm_view_at(c, ap, base + m->offset, &v);
  vm_dma_box_of(c, &v, m->first, m->first + m->n, &it.dst[0]);
  uint64_t bytes = (uint64_t)m->n * v.esize;
  if (ap->space == ISA_HBM) c->hbm_written += bytes;
  vm_item_touch(c, &it);
  if (p->data) vm_batch_settle(c, &it);
  vm_protect(c, it.dst, 1, NULL);
  if (!p->data) return;
  vm_hbm_use(c, &it.dst[0], it.dst[0].hi - it.dst[0].lo == bytes);
  vm_dma_unpack(c, &v, m->first, m->n, p->data);
}

void vm_arrive(vm_core *c, uint32_t slot) {
  vm_parcel p = c->inbox->v[slot];
  c->inbox->v[slot].m.dst = UINT32_MAX;
  c->inbox->left--;
  c->cause = 0;
  if (p.m.ap) put_bytes(c, &p);
  isa_free(&c->al, p.data, p.bytes);
  if (!p.m.updates) return;
  isa_update u = {.kind = ISA_UPD_add, .core = c->number, .sem = p.m.sem, .value = p.m.value};
  vm_sem_apply(c, &u,
               (vm_where){.engine = VM_BY_PEER, .dma = -1, .core = c->number, .pc = p.m.src});
}

void vm_inbox_free(vm_core *c) {
  vm_inbox *in = c->inbox;
  if (!in) return;
  for (uint32_t i = 0; i < in->n; i++)
    if (in->v[i].m.dst != UINT32_MAX) isa_free(&c->al, in->v[i].data, in->v[i].bytes);
  isa_free(&c->al, in->v, in->cap * sizeof *in->v);
  isa_free(&c->al, in, sizeof *in);
  c->inbox = NULL;
}
