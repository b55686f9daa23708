/* Constraints of DMA and control instructions. */
#include "rules.h"

#include <inttypes.h>

bool isa_rule_event(const isa_ck *c) {
  if (c->in->wait.cond == ISA_WAIT_none && c->in->upd.kind == ISA_UPD_none)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "event_semaphore needs a wait or an update");
  return true;
}

bool isa_rule_semrange(const isa_ck *c) {
  const struct isa_SEM_RANGE *u = &c->in->u.SEM_RANGE;
  if (u->count == 0)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_SEM_RANGE_count, "0 semaphores: at least 1");
  if (u->first + u->count > ISA_NSEMS)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_SEM_RANGE_count,
                    "semaphores %d..%d: a core has 0..%d", u->first, u->first + u->count - 1,
                    ISA_NSEMS - 1);
  return true;
}

bool isa_rule_trigger(const isa_ck *c) {
  const struct isa_TRIGGER *u = &c->in->u.TRIGGER;
  const isa_queue *q = &c->core->queues[u->queue];
  if (q->dge != ISA_DGE_none)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TRIGGER_queue,
                    "queue %.60s has dge=%s: dma_trigger starts static transfers (dge=none)",
                    q->name, isa_set_item(ISA_SET_DGE, q->dge));
  if (q->nstatics == 0)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TRIGGER_queue, "queue %.60s has no static transfer",
                    q->name);
  if (!u->count.is_reg && u->count.v < 0)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_TRIGGER_count, "%" PRId32 " transfers: at least 0",
                    u->count.v);
  return true;
}

/* Elements of the whole transfer. */
static uint64_t total(const isa_ap *ap) { return isa_ap_elems(ap) * isa_ck_parts(ap); }

static uint32_t size_bound(const isa_ap *ap) {
  return ap->size_dim == 1 ? ap->nparts : ap->dim[ap->size_dim - 2].num;
}

static bool dma_sizes(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  int f = ISA_F_DMA_COPY_src;
  if (total(dst) != total(src))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu64 " elements: dst has %" PRIu64, total(src),
                    total(dst));
  if (!dst->size_dim && !src->size_dim)
    return true;
  if (!dst->size_dim != !src->size_dim)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a size of %s is a register, none of %s is",
                    dst->size_dim ? "dst" : "src", dst->size_dim ? "src" : "dst");
  if (dst->size_reg != src->size_reg || size_bound(dst) != size_bound(src))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "a size is r%d<=%" PRIu32 ": that of dst is r%d<=%" PRIu32, src->size_reg,
                    size_bound(src), dst->size_reg, size_bound(dst));
  return true;
}

static bool dma_types(const isa_ck *c, unsigned d, unsigned s, unsigned dge) {
  int f = ISA_F_DMA_COPY_src;
  const char *from = isa_dtypes[s].name, *to = isa_dtypes[d].name;
  if (d == s)
    return true;
  if (dge == ISA_DGE_hwdge)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s to %s: a queue with dge=hwdge does not convert", from,
                    to);
  if (isa_ck_packed(d) || isa_ck_packed(s) || isa_dtype_bytes(d) == 8 || isa_dtype_bytes(s) == 8)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s to %s: packed and 64-bit types are copied, not converted", from, to);
  return true;
}

/* What the maker of the queue's descriptors can do. */
static bool dma_queue(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  const struct isa_DMA_COPY *u = &c->in->u.DMA_COPY;
  unsigned dge = c->core->queues[u->queue].dge;
  bool gather = dst->index_kind || src->index_kind;
  if (dge == ISA_DGE_none) {
    if (!isa_ap_is_static(dst) || !isa_ap_is_static(src))
      return isa_fail(c->e, ISA_ILLEGAL, isa_ap_is_static(dst) ? ISA_F_DMA_COPY_src
                                                               : ISA_F_DMA_COPY_dst,
                      "a register or element in the pattern: transfers of a queue with dge=none "
                      "are made at load");
    if (u->oob)
      return isa_fail(c->e, ISA_ILLEGAL, ISA_F_DMA_COPY_oob,
                      "oob=skip needs a dynamic transfer: the queue has dge=none");
  }
  if (gather && (dge != ISA_DGE_swdge || c->p->target->gen < ISA_GEN3))
    return isa_fail(c->e, ISA_ILLEGAL, src->index_kind ? ISA_F_DMA_COPY_src : ISA_F_DMA_COPY_dst,
                    ".gather needs a queue with dge=swdge and gen3");
  if (u->prio && c->p->target->gen < ISA_GEN4)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_DMA_COPY_prio, "prio=%d needs gen4: %s is gen%d",
                    u->prio, c->p->target->name, c->p->target->gen);
  return true;
}

bool isa_rule_dmacopy(const isa_ck *c) {
  const struct isa_DMA_COPY *u = &c->in->u.DMA_COPY;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  return dma_queue(c, dst, src) && dma_sizes(c, dst, src) &&
         dma_types(c, dst->dtype, src->dtype, c->core->queues[u->queue].dge);
}
