/* Totals of a trace. */
#include "record.h"

#include <string.h>

/* The union of spans that come in order of their starts: what [start, end) adds to what ended at
 * *until. */
static vm_time cover(vm_time *until, vm_time start, vm_time end) {
  vm_time from = start > *until ? start : *until;
  if (end <= from) return 0;
  *until = end;
  return end - from;
}

typedef struct busy_ends {
  vm_time engine[VM_REC_UNITS], dge[VM_REC_QUEUES], dma, any;
} busy_ends;

/* Work of a data path, by its own engine and by all together. */
static void add_work(const vm_rec_view *t, vm_rec_summary *s, busy_ends *u, const vm_rec_event *v) {
  uint32_t number;
  const isa_insn *in = v->kind == VM_EV_INSN ? vm_rec_insn(t, v, &number) : NULL;
  unsigned e = vm_rec_track(v);
  if (e >= VM_REC_UNITS) return;
  s->engine[e].count += v->kind == VM_EV_INSN;
  s->engine[e].sum += v->end - v->start;
  s->engine[e].active += cover(&u->engine[e], v->start, v->end);
  s->active += cover(&u->any, v->start, v->end);
  if (in && isa_ops[in->op].cost == ISA_COST_MM) s->matmuls++;
  if (in && isa_ops[in->op].cost == ISA_COST_ACT) {
    s->activations++;
    s->activation_time += v->end - v->start;
  }
}

static void add_share(const vm_rec_view *t, vm_rec_summary *s, busy_ends *u,
                      const vm_rec_event *v) {
  const isa_core *core = &t->p->cores[v->core];
  /* A queue that the program lacks counts as one of static transfers. */
  unsigned q = v->id < core->nqueues ? core->queues[v->id].dge % VM_REC_QUEUES : ISA_DGE_none;
  vm_rec_ends ends = vm_rec_ends_of(t, v);
  s->dge[q].count++;
  s->dge[q].sum += v->end - v->start;
  s->dge[q].active += cover(&u->dge[q], v->start, v->end);
  s->dge_bytes[q] += v->bytes;
  s->dma_active += cover(&u->dma, v->start, v->end);
  s->active += cover(&u->any, v->start, v->end);
  s->dma_bytes += v->bytes;
  s->dma_shares++;
  s->hbm_read += ends.src == ISA_HBM ? v->bytes : 0;
  s->hbm_written += ends.dst == ISA_HBM ? v->bytes : 0;
}

bool vm_rec_summarise(const vm_rec_view *t, const uint32_t *by_start, vm_rec_summary *s) {
  busy_ends u = {0};
  memset(s, 0, sizeof *s);
  vm_rec_transfers transfers;
  /* Transfers, unlike events, must be put together first. */
  if (!vm_rec_transfers_of(t, &transfers)) return false;
  s->dma_transfers = transfers.n;
  vm_rec_transfers_free(t, &transfers);
  for (uint32_t k = 0; k < t->n; k++) {
    const vm_rec_event *v = vm_rec_at(t->r, by_start[k]);
    if (vm_rec_is_work(v))
      add_work(t, s, &u, v);
    else if (v->kind == VM_EV_DMA)
      add_share(t, s, &u, v);
    else if (v->kind == VM_EV_SEM)
      s->updates++;
    else if (vm_rec_is_wait(v) && v->engine < ISA_NSEQS)
      s->engine[vm_rec_track(v)].waiting += v->end - v->start;
  }
  return true;
}
