/* The arrival of messages from other ranks: bytes, and then an update. */
#include "../message.h"
#include "../dma/dma.h"
#include "../time/clock.h"

/* The bytes, as the end of a transfer writes them. */
static void put_bytes(vm_core *c, const vm_parcel *p, vm_view *to) {
  const vm_message *m = &p->m;
  const isa_ap *ap = vm_message_ap(c->run->peers->runs, m);
  vm_item it = {.start = c->now, .done = c->now, .ndst = 1, .core = c->number};
  uint8_t *base = ap->space == ISA_HBM ? c->run->blocks[m->tensor].data
                                       : c->mem.sbuf + ap->part * c->mem.sbuf_pitch;
  /* The sender's pattern over the receiver's memory: offset is from where its tensor or partition
   * begins. */
  vm_view_at(c, ap, base + m->offset, to);
  /* Only the elements of this share. */
  vm_dma_box_of(c, to, m->first, m->first + m->n, &it.dst[0]);
  uint64_t bytes = (uint64_t)m->n * to->esize;
  if (ap->space == ISA_HBM) c->hbm_write_bytes += bytes;
  vm_item_touch(c, &it);
  /* What was deferred and reads or writes these bytes comes first. */
  if (p->data) vm_batch_settle(c, &it);
  /* As any other write: who has started and reads these bytes keeps the old ones. Without an item
   * of its own, as it takes no time here. */
  vm_protect(c, it.dst, 1, NULL);
  /* A run without values: times and checks only. */
  if (!p->data) return;
  /* Zeros of the tensor that are not written yet. */
  vm_hbm_use(c, &it.dst[0], it.dst[0].hi - it.dst[0].lo == bytes);
  vm_dma_unpack(c, to, m->first, m->n, p->data);
}

void vm_arrive(vm_core *c, uint32_t slot) {
  /* A copy: the slot is free from here on. */
  vm_parcel p = c->inbox->v[slot];
  c->inbox->v[slot].m.dst = UINT32_MAX;
  c->inbox->left--;
  const vm_where by = {p.m.engine, -1, p.m.core, p.m.pc};
  c->cause = vm_path_peer(c, p.m.src, by, p.node);
  vm_view v;
  /* First the bytes: the update says that they are there. */
  if (p.m.ap) put_bytes(c, &p, &v);
  vm_tell_arrive(c, &p, p.m.ap ? &v : NULL);
  vm_parcel_free(&c->run->peers->al, &p);
  if (!p.m.updates) return;
  isa_update u = {.kind = ISA_UPD_add, .core = c->number, .sem = p.m.sem, .value = p.m.value};
  vm_sem_apply(c, &u,
               (vm_where){.engine = VM_BY_PEER, .dma = -1, .core = c->number, .pc = p.m.src});
}

void vm_inbox_free(vm_core *c) {
  vm_inbox *in = c->inbox;
  if (!in) return;
  for (uint32_t i = 0; i < in->n; i++)
    if (in->v[i].m.dst != UINT32_MAX) vm_parcel_free(&c->run->peers->al, &in->v[i]);
  isa_free(&c->al, in->v, in->cap * sizeof *in->v);
  isa_free(&c->al, in, sizeof *in);
  c->inbox = NULL;
}
