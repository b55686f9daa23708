/* Transfers that have started, in a saved run. */
#include "recall.h"

static bool is_skipped(const vm_transfer *t) { return !t->dst.at; }

/* A bit for each ring of a transfer's queue. */
static uint16_t rings_of(const vm_core *c, const vm_transfer *t) {
  return (uint16_t)((1u << c->code->queues[t->queue].rings) - 1);
}

static const vm_view *operand_of(const vm_transfer *t, unsigned k) {
  return k == 0 ? &t->dst : k == 1 ? &t->src : &t->more[k - 2];
}

/* Notes that operand k of t was resolved from that pattern of c. */
static void note_end(const vm_core *c, uint32_t index, const vm_transfer *t, unsigned k,
                     vm_save_recalled *rc) {
  const isa_ap *ap = &c->code->aps[index - 1];
  const vm_view *v = operand_of(t, k);
  vm_save_noted n = {v->at, NULL, vm_dma_num(t, k, 0) ? v->elems : 0,
                     /* 0 elements of a transfer whose view is empty. */
                     ap->size_dim ? vm_dma_num(t, k, ap->size_dim - 1u) : 0};
  vm_save_note_operand(c, rc, index, &n);
}

/* The destination that a sendrecv itself names is that of the other core's transfer. */
static void note_transfer(const vm_core *c, const isa_insn *in, const vm_transfer *t,
                          vm_save_recalled *rc, vm_save_met *m) {
  vm_dma_ops o = vm_dma_ops_of(c, in, t->piece);
  /* An address out of bounds was skipped: its operands do not resolve now either. */
  rc->r.skipped = is_skipped(t);
  /* Peers' transfers name this core's destination. */
  for (unsigned k = 0; k <= o.nsrc && !rc->r.skipped; k++)
    note_end(c, k ? o.src[k - 1] : o.dst, k || !t->twin ? t : t->twin, k, rc);
  if (m->insn) note_end(vm_core_at(c, m->at.core), vm_save_operand_there(m), t, 0, &m->rc);
  if (!t->rows) return;
  unsigned k = t->dst_indexed ? 0 : 1u + (unsigned)t->src_indexed;
  rc->r.nrows = vm_dma_num(t, k, c->code->aps[(k ? o.src[k - 1] : o.dst) - 1].index_dim + 1u);
}

static void walk_rows(vm_saver *s, vm_recall *r, const vm_transfer *t) {
  uint32_t n = (uint32_t)r->nrows;
  vm_saver_count(s, &n, UINT32_MAX, 8, "rows of a transfer");
  r->nrows = n;
  /* Rows are read where they lie in the file. */
  r->rows = s->at;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t row = s->reads ? 0 : (uint64_t)t->rows[i];
    vm_save_u64(s, &row);
  }
}

/* The instruction of a transfer of queue q; NULL if there is no such instruction. */
static const isa_insn *insn_of(const vm_core *c, unsigned q, const vm_transfer *t) {
  const isa_queue *queue = &c->code->queues[q];
  /* The instruction decides the operands; a hostile pc may be of any kind. */
  const isa_code *code = &c->code->code[t->engine];
  const isa_insn *in = &code->insns[t->pc];
  /* The transfer of a static queue is not the dma_trigger itself, but one of the queue's list. */
  if (queue->dge == ISA_DGE_none && in->op != ISA_OP_sendrecv)
    return t->descriptor < queue->nstatics ? &queue->statics[t->descriptor] : NULL;
  /* A trigger itself has no transfer of its own. */
  bool fits = isa_op_is_dma(in->op) && in->op != ISA_OP_dma_trigger;
  return fits && vm_dma_ops_of(c, in, 0).queue == q ? in : NULL;
}

/* Both ends of a sendrecv have the same number of elements. */
static bool same_elements(const vm_transfer *t) {
  return t->dst.dtype == t->src.dtype && t->dst.num[0] == t->src.num[0] &&
         t->dst.elems == t->src.elems;
}

static void restore_transfer(vm_saver *s, vm_core *c, const isa_insn *in, vm_transfer *t,
                             const vm_save_recalled *rc, const vm_save_met *m) {
  isa_error err = {0};
  vm_save_swapped w;
  vm_save_swap_in(&w, c, &c->eng[t->engine], rc, m);
  bool ok = vm_dma_make(c, &c->eng[t->engine], in, t, &err);
  vm_save_swap_out(&w);
  if (!ok) {
    vm_save_not_made(s, c, "a transfer", t->engine, t->pc, &err);
    return;
  }
  if (!m->insn) return;
  vm_saver_need(s, same_elements(t), "a sendrecv has met one of a different size");
  /* Rings count as done until a share of theirs comes (vm_dma_restore_share). */
  t->finished = rings_of(c, t); /* until their shares are read */
}

/* Which piece of its lists it is. */
static void walk_piece(vm_saver *s, const vm_core *c, const isa_insn *in, vm_transfer *t) {
  uint32_t piece = t->piece;
  vm_save_below(s, &piece, vm_dma_ops_of(c, in, 0).pieces, "piece of a transfer");
  t->piece = (uint8_t)piece;
}

/* What all pieces decide together: making one piece alone does not give it. */
static void walk_rings(vm_saver *s, vm_transfer *t) {
  uint32_t shares = t->shares;
  vm_save_below(s, &shares, ISA_NDMA + 1, "rings of a transfer");
  vm_save_u16(s, &t->opens);
  t->shares = (uint8_t)shares;
}

static void walk_transfer(vm_saver *s, vm_core *c, unsigned q, vm_transfer *t) {
  vm_save_recalled rc = {0};
  vm_save_met m = {0};
  uint32_t engine = t->engine;
  vm_save_below(s, &engine, c->nseqs, "engine of a transfer");
  t->engine = (uint8_t)engine;
  uint32_t n = c->code->code[engine].n;
  vm_save_below(s, &t->pc, n, "instruction of a transfer");
  vm_save_u32(s, &t->descriptor);
  vm_save_u32(s, &t->number);
  /* Numbers are 1 .. the run's count. */
  vm_saver_need(s, t->number - 1 < c->run->transfers, "a transfer has no number");
  vm_save_node(s, c, &t->node);
  vm_save_bool(s, &t->signals);
  vm_save_u8(s, &t->sem);
  vm_save_core(s, c, &t->sem_core);
  /* Only CC sequencers send to peers; of engines it would be a zero in each file. */
  if (engine >= ISA_NENGINES) vm_save_u16(s, &t->peer);
  vm_saver_need(s, t->peer <= c->prog->npeers, "a transfer signals no peer");
  const isa_insn *in = s->failed ? NULL : insn_of(c, q, t);
  if (!in) {
    vm_saver_fail(s, "a transfer belongs to no instruction");
    return;
  }
  if (in->op == ISA_OP_sendrecv) vm_save_met_walk(s, c, in, &t->met, &m);
  bool lists = in->op == ISA_OP_dma_copy_lists;
  if (lists) walk_piece(s, c, in, t);
  if (!s->reads) note_transfer(c, in, t, &rc, &m);
  vm_save_recalled_walk(s, c, &rc);
  vm_save_bool(s, &rc.r.skipped);
  walk_rows(s, &rc.r, t);
  if (m.insn) vm_save_recalled_walk(s, vm_core_at(c, m.at.core), &m.rc);
  if (s->reads && !s->failed) restore_transfer(s, c, in, t, &rc, &m);
  /* Pieces of lists depend on one another for this. */
  if (lists && !s->failed) walk_rings(s, t);
}

static uint64_t copied_bytes(const vm_share *sh) {
  uint64_t esizes = 0, n;
  for (unsigned k = 1; k <= sh->t->nsrc; k++) esizes += operand_of(sh->t, k)->esize;
  /* A hostile size multiplies to anything. */
  return __builtin_mul_overflow(sh->e1 - sh->e0, esizes, &n) ? UINT64_MAX : n;
}

static void walk_started(vm_saver *s, vm_core *c, vm_share *sh) {
  bool staged = sh->item.staged;
  if (s->reads) {
    /* In the order of first_data: later items are compared with what this one touches. */
    vm_dma_boxes(c, sh);
    vm_item_touch(c, &sh->item);
    vm_item_link(c, &sh->item);
  }
  vm_save_time(s, &sh->item.start);
  vm_save_bool(s, &staged);
  vm_saver_need(s, sh->item.start <= c->now, "a transfer starts after the saved moment");
  if (!staged || s->failed) return;
  if (s->reads) {
    if (!vm_saver_need(s, copied_bytes(sh) <= vm_saver_left(s), "a copied source is cut off"))
      return;
    sh->item.staged = true;
    /* It copies from memory as it is now; the file's bytes replace that. */
    vm_dma_stage(c, sh);
    if (!sh->snap) {
      vm_saver_no_memory(s);
      return;
    }
  }
  vm_saver_bytes(s, sh->snap, (size_t)copied_bytes(sh));
}

static void walk_share(vm_saver *s, vm_core *c, vm_share *sh) {
  vm_save_u64(s, &sh->sent);
  vm_save_time(s, &sh->ready);
  vm_save_cause(s, c, &sh->cause);
  vm_save_bool(s, &sh->started);
  /* A share that has begun has bytes, and one that has not has moved none. */
  if (!vm_saver_need(s, sh->started ? sh->bytes && sh->sent <= sh->bytes : sh->sent == 0,
                     "a transfer has moved more bytes than it has"))
    sh->started = false;
  /* Counted while reading. */
  if (sh->started && s->reads) c->shares_moving++;
  if (sh->started && !s->failed) walk_started(s, c, sh);
}

/* Shares of a ring: its transfers are the last ones of the queue, in their order. */
static void walk_ring(vm_saver *s, vm_core *c, unsigned q, unsigned r, vm_transfer **t,
                      uint32_t transfers) {
  vm_ring *ring = &c->rings[q][r];
  uint32_t n = ring->n;
  vm_share *sh = ring->head;
  /* A ring cannot have a share of a transfer that is not in the queue: so its shares are the last
   * n. */
  vm_saver_count(s, &n, transfers, 34, "shares in a ring");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    /* Shares are of the last n transfers, in order. */
    if (s->reads && !(sh = vm_dma_restore_share(c, t[transfers - n + i], r))) {
      vm_saver_no_memory(s);
      return;
    }
    walk_share(s, c, sh);
    sh = sh->next;
  }
}

static vm_ring *longest_ring(vm_core *c, unsigned q) {
  vm_ring *longest = &c->rings[q][0];
  /* Every transfer that has not ended has its share in the ring that is furthest behind. */
  for (unsigned r = 1; r < c->code->queues[q].rings; r++)
    if (c->rings[q][r].n > longest->n) longest = &c->rings[q][r];
  return longest;
}

/* Transfers of queue q that have not ended, oldest first, then the shares of each ring. */
static void walk_list(vm_saver *s, vm_core *c, unsigned q, vm_transfer **t, uint32_t n) {
  vm_share *sh = longest_ring(c, q)->head;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads && !(t[i] = vm_dma_new_transfer(c))) {
      vm_saver_no_memory(s);
      return;
    }
    if (!s->reads) {
      t[i] = sh->t;
      sh = sh->next;
    }
    walk_transfer(s, c, q, t[i]);
  }
  for (unsigned r = 0; r < c->code->queues[q].rings && !s->failed; r++) walk_ring(s, c, q, r, t, n);
  /* For CC sequencers, whose `complete` waits for them. */
  for (uint32_t i = 0; i < n && s->reads && !s->failed; i++) c->eng[t[i]->engine].moving++;
}

static void walk_queue(vm_saver *s, vm_core *c, unsigned q) {
  /* As many transfers as the longest ring has shares. */
  uint32_t n = longest_ring(c, q)->n, nstatics = c->code->queues[q].nstatics;
  vm_save_below(s, &c->statics_next[q], nstatics ? nstatics : 1, "static transfer");
  for (unsigned r = 0; r < c->code->queues[q].rings; r++) vm_save_time(s, &c->rings[q][r].fetched);
  vm_saver_count(s, &n, UINT32_MAX, 16, "transfers");
  if (n == 0) return;
  vm_transfer **t = isa_zalloc(&c->al, n * sizeof *t);
  if (!t) {
    vm_saver_no_memory(s);
    return;
  }
  walk_list(s, c, q, t, n);
  for (uint32_t i = 0; s->reads && i < n; i++)
    /* Nothing would ever end it, and its queue would be counted as at work. */
    if (t[i] && t[i]->left == 0) { /* in no ring, where it would be freed */
      vm_dma_unmake(c, t[i]);
      vm_saver_fail(s, "a transfer without shares");
    }
  isa_free(&c->al, t, n * sizeof *t);
}

static void walk_dma_engine(vm_saver *s, vm_core *c, unsigned d) {
  vm_dma_engine *e = &c->dma[d];
  uint32_t queues = c->code->nqueues ? c->code->nqueues : 1, next = e->next_queue,
           serving = e->serving;
  vm_save_below(s, &next, queues, "queue");
  vm_save_below(s, &serving, queues, "queue");
  e->next_queue = (uint8_t)next;
  e->serving = (uint8_t)serving;
  vm_save_bool(s, &e->busy);
  vm_save_bool(s, &e->armed);
  vm_save_u64(s, &e->packet);
  vm_save_time(s, &e->ends);
  vm_save_time(s, &e->armed_at);
  vm_save_time(s, &e->busy_time);
  vm_save_node(s, c, &e->last_node);
  if (!s->reads || s->failed || !e->busy) return;
  const vm_share *sh = c->rings[serving][vm_ring_of_dma(c, serving, d)].head;
  /* What it serves must be there, with as many bytes left. */
  if (!vm_saver_need(s, sh && sh->started && e->packet <= sh->bytes - sh->sent,
                     "a DMA engine is busy without a share"))
    return;
  /* Engines that are at work share the bandwidth of the stack. */
  c->hbm_active += sh->t->hbm_bytes > 0;
}

void vm_save_transfers(vm_saver *s, vm_core *c) {
  for (unsigned q = 0; q < c->code->nqueues && !s->failed; q++) walk_queue(s, c, q);
  for (unsigned d = 0; d < ISA_NDMA && !s->failed; d++) walk_dma_engine(s, c, d);
}

/* ---- The two transfers of a sendrecv -------------------------------------------------------- */

static bool is_swap(const vm_core *c, const vm_transfer *t) {
  return c->code->code[t->engine].insns[t->pc].op == ISA_OP_sendrecv;
}

/* The transfers of c that belong to sendrecvs and have not ended, in their order. */
typedef struct swaps {
  vm_transfer **v;
  uint32_t n;
} swaps;

static bool find_swaps(vm_saver *s, vm_core *c, swaps *w) {
  *w = (swaps){0};
  for (unsigned fill = 0; fill < 2; fill++) {
    uint32_t n = 0;
    for (unsigned q = 0; q < c->code->nqueues; q++)
      for (vm_share *sh = longest_ring(c, q)->head; sh; sh = sh->next)
        /* Counted first, then filled. */
        if (is_swap(c, sh->t) && n++ < w->n) w->v[n - 1] = sh->t;
    if (fill || n == 0) break;
    w->v = isa_zalloc(&c->al, n * sizeof *w->v);
    w->n = w->v ? n : 0;
    if (w->v) continue;
    vm_saver_no_memory(s);
    return false;
  }
  return true;
}

/* a of core c and b of the other one. */
static void link_swap(vm_saver *s, const vm_core *c, vm_transfer *a, vm_transfer *b) {
  /* They must name one another. */
  bool fits = !a->twin && !b->twin && a->met.engine == b->engine && a->met.pc == b->pc &&
              b->met.engine == a->engine && b->met.pc == a->pc &&
              rings_of(c, a) == rings_of(vm_core_at(c, a->met.core), b);
  if (!vm_saver_need(s, fits, "two transfers do not belong to one sendrecv")) return;
  a->twin = b;
  b->twin = a;
}

/* The transfer of c that a, of the other core, has met and that has already moved everything. */
static void walk_ended(vm_saver *s, vm_core *c, vm_transfer *a) {
  vm_transfer *t = s->reads ? vm_dma_new_transfer(c) : a->twin;
  uint32_t q = t ? t->queue : 0;
  if (!t) {
    vm_saver_no_memory(s);
    return;
  }
  vm_save_below(s, &q, c->code->nqueues, "queue");
  if (s->failed) return;
  walk_transfer(s, c, q, t);
  if (s->reads && !s->failed) link_swap(s, c, t, a);
  if (s->reads && s->failed) vm_dma_unmake(c, t); /* it is in no ring, where it would be freed */
}

/* A transfer of core 0: its number among those of core 1, from 1 on; 0: that one has ended. */
static void walk_swap(vm_saver *s, vm_core *c, vm_transfer *a, const swaps *there) {
  uint32_t n = 0;
  /* Which of core 1's it is; all that have not ended are in the list. */
  if (!s->reads && a->twin->left)
    while (there->v[n++] != a->twin) {
    }
  vm_save_below(s, &n, there->n + 1, "transfer of a sendrecv");
  if (s->failed) return;
  if (n == 0)
    walk_ended(s, vm_core_at(c, a->met.core), a);
  else if (s->reads)
    link_swap(s, c, a, there->v[n - 1]);
}

/* First those where both have not ended, then each of core 1's whose other one has ended. */
void vm_save_swaps(vm_saver *s, vm_run *r) {
  vm_core *c = r->cores[0];
  swaps here, there = {0};
  if (find_swaps(s, c, &here) && find_swaps(s, r->cores[1], &there)) {
    for (uint32_t i = 0; i < here.n && !s->failed; i++) walk_swap(s, c, here.v[i], &there);
    for (uint32_t i = 0; i < there.n && !s->failed; i++)
      /* Core 1's whose other half has ended: that one is in no list. */
      if (s->reads ? !there.v[i]->twin : !there.v[i]->twin->left) walk_ended(s, c, there.v[i]);
  }
  if (here.n) isa_free(&r->al, here.v, here.n * sizeof *here.v);
  if (there.n) isa_free(&r->al, there.v, there.n * sizeof *there.v);
}
