/* The descriptors of static transfers, which lie in HBM. */
#include "../time/clock.h"
#include "dma.h"
#include "hbm.h"

static const isa_ap *pattern(const vm_core *c, uint32_t index) { return &c->code->aps[index - 1]; }

static bool is_fixed(const isa_ap *ap) {
  return isa_ap_is_static(ap) && !ap->size_dim && !ap->index_kind;
}

/* Whether two patterns differ at most in where they begin. */
static bool same_shape(const isa_ap *a, const isa_ap *b) {
  bool same = a->dtype == b->dtype && a->space == b->space && a->nparts == b->nparts &&
              a->ndim == b->ndim && is_fixed(a) && is_fixed(b);
  for (unsigned d = 0; same && d < a->ndim; d++)
    same = a->dim[d].num == b->dim[d].num && a->dim[d].step == b->dim[d].step;
  return same;
}

/* Whether a transfer has as many descriptors as another, as nearly all of a collective have. */
static bool is_like(const vm_core *c, const isa_insn *in, const isa_insn *other) {
  if (in->op != other->op || (in->op != ISA_OP_dma_copy && in->op != ISA_OP_dma_compute))
    return false;
  vm_dma_ops a = vm_dma_ops_of(c, in, 0), b = vm_dma_ops_of(c, other, 0);
  bool like = a.nsrc == b.nsrc && a.accumulates == b.accumulates &&
              same_shape(pattern(c, a.dst), pattern(c, b.dst));
  for (unsigned k = 0; like && k < a.nsrc; k++)
    like = same_shape(pattern(c, a.src[k]), pattern(c, b.src[k]));
  return like;
}

/* Bytes of the static descriptors of a queue: one for each contiguous element of each source. */
static bool ring_bytes(vm_core *c, const isa_queue *q, uint64_t *bytes, isa_error *e) {
  uint64_t last = 0; /* of the transfer before */
  *bytes = 0;
  /* Made as it will be when the run triggers it, so that sizes agree. */
  for (uint32_t i = 0; i < q->nstatics; *bytes += last, i++) {
    if (i && is_like(c, &q->statics[i], &q->statics[i - 1])) continue;
    last = 0;
    for (unsigned piece = 0, pieces = 1; piece < pieces; piece++) {
      vm_transfer t = {.piece = (uint8_t)piece};
      isa_error why = {.status = ISA_NOMEM};
      if (!vm_dma_make(c, &c->eng[0], &q->statics[i], &t, &why))
        return isa_fail(e, why.status, ISA_NOFIELD, "static transfer %u of queue %.60s: %.400s", i,
                        q->name, why.text[0] ? why.text : "out of memory");
      uint64_t moved = t.elems * t.dst.esize;
      /* A transfer without bytes has a descriptor too, for its semaphore. */
      uint64_t runs = moved ? (moved + t.run_bytes - 1) / t.run_bytes : 1; /* sized as it runs */
      last += runs * t.nsrc * c->cost[VM_DMA_DESC];
      pieces = t.pieces;
      vm_dma_unmake(c, &t);
    }
  }
  return true;
}

isa_status vm_dma_place_rings(vm_core *c, isa_error *e) {
  for (uint32_t i = 0; i < c->code->nqueues; i++) {
    const isa_queue *q = &c->code->queues[i];
    uint64_t bytes, at;
    /* Rings in HBM take room there, as on the machine: a program may not fit because of them. */
    if (!ring_bytes(c, q, &bytes, e)) return e->status;
    isa_status s =
        bytes ? vm_hbm_alloc(c->run->stack->addresses, bytes, VM_HBM_RING, q->name, c->run, &at)
              : ISA_OK;
    if (s != ISA_OK) return s;
  }
  return ISA_OK;
}
