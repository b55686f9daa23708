/* What is in flight in a saved run. Resolved operands are not saved as they are: a file says with
 * which registers and dynamic offsets an instruction issued, and it is resolved again, with the
 * checks that issuing makes. */
#include "../engine/engine.h"
#include "../dma/dma.h"
#include "save.h"

#include <string.h>

/* ---- What operands were resolved with ------------------------------------------------------ */

typedef struct recalled {
  vm_recall r;
  const int64_t *place[VM_RECALLS]; /* when it writes: places of an `.indirect` operand */
  uint64_t given;                   /* mask of registers */
  uint32_t regs[ISA_NREGS];
} recalled;

_Static_assert(ISA_NREGS == 64, "a mask of registers has 64 bits");

static void note_register(recalled *rc, unsigned reg, uint32_t value) {
  rc->given |= UINT64_C(1) << reg;
  rc->regs[reg] = value;
}

/* An operand, where it has elements. size: of the dimension whose size is a register. */
typedef struct noted {
  const uint8_t *at;
  const int64_t *place;
  uint64_t elems; /* of a partition */
  uint32_t size;
} noted;

static void note_operand(const vm_core *c, recalled *rc, uint32_t index, const noted *v) {
  const isa_ap *ap = &c->code->aps[index - 1];
  uint32_t n = rc->r.n;
  if (ap->size_dim) note_register(rc, ap->size_reg, v->size);
  if (v->elems == 0 || !vm_ap_is_dynamic(ap) || vm_recall_of(c, &rc->r, index) >= 0) return;
  rc->r.ap[n] = index;
  rc->r.displaced[n] = v->at - vm_ap_base(c, ap) - ap->offset;
  rc->r.noffsets[n] = (uint32_t)v->elems;
  rc->place[n] = v->place;
  rc->r.n++;
}

/* The offsets that an operand's index gave. A single element lies where `displaced` says. */
static void walk_offsets(vm_saver *s, const isa_ap *ap, recalled *rc, uint32_t entry) {
  const int64_t *place = rc->place[entry];
  uint32_t *n = &rc->r.noffsets[entry];
  vm_saver_count(s, n, UINT32_MAX, 4, "offsets of an operand");
  rc->r.offsets[entry] = s->at;
  for (uint32_t i = 0; i < *n && !s->reads; i++) {
    uint32_t offset = place ? (uint32_t)(place[i] / (int)isa_dtype_bytes(ap->dtype)) : 0;
    vm_save_u32(s, &offset);
  }
  if (s->reads) s->at += (size_t)*n * 4;
}

static void walk_recalled(vm_saver *s, const vm_core *c, recalled *rc) {
  vm_save_u64(s, &rc->given);
  for (unsigned i = 0; i < ISA_NREGS; i++)
    if (rc->given >> i & 1) vm_save_u32(s, &rc->regs[i]);
  vm_saver_count(s, &rc->r.n, VM_RECALLS, 12, "dynamic operands");
  for (uint32_t i = 0; i < rc->r.n; i++) {
    uint64_t bytes = (uint64_t)rc->r.displaced[i];
    vm_save_u32(s, &rc->r.ap[i]);
    vm_save_u64(s, &bytes);
    rc->r.displaced[i] = (int64_t)bytes;
    if (!vm_saver_need(s, rc->r.ap[i] - 1 < c->code->naps, "an operand has no pattern")) return;
    const isa_ap *ap = &c->code->aps[rc->r.ap[i] - 1];
    if (ap->index_kind == ISA_INDEX_indirect) walk_offsets(s, ap, rc, i);
  }
}

/* ---- Sendrecvs ----------------------------------------------------------------------------- */

/* What one end of a sendrecv has, which is an operand of the one that it has met. */
typedef struct met {
  const isa_insn *insn; /* of the other core; NULL: this is no sendrecv */
  unsigned engine;
  recalled rc;
} met;

/* The operand of the other core that an instruction's end lies in: a transfer's destination, the
 * source of a gpsimd that moves the elements itself. */
static uint32_t operand_there(const met *m) {
  return m->insn->op == ISA_OP_sendrecv ? m->insn->u.SENDRECV.dst : m->insn->u.SENDRECV_GPSIMD.src;
}

/* Whom a sendrecv has met. */
static void walk_met(vm_saver *s, const vm_core *c, const isa_insn *in, uint8_t *other,
                     uint32_t *pc, met *m) {
  uint32_t engine = *other;
  vm_save_below(s, &engine, ISA_NENGINES, "engine of a sendrecv");
  const isa_code *code = &c->peer->code->code[engine];
  vm_save_below(s, pc, code->n, "instruction of a sendrecv");
  if (s->failed) return;
  *other = (uint8_t)engine;
  m->engine = engine;
  m->insn = &code->insns[*pc];
  vm_saver_need(s, m->insn->op == in->op && isa_insn_pipe(m->insn) == isa_insn_pipe(in),
                "a sendrecv has met none of its pipe");
}

/* The engine with the registers of that moment, and what it had. */
typedef struct swapped {
  vm_engine *en;
  uint32_t regs[ISA_NREGS];
} swapped;

static swapped swap_in(vm_engine *en, const recalled *rc) {
  swapped w = {.en = en};
  memcpy(w.regs, en->regs, sizeof w.regs);
  memcpy(en->regs, rc->regs, sizeof en->regs);
  en->recall = &rc->r;
  return w;
}

static void swap_out(const swapped *w) {
  memcpy(w->en->regs, w->regs, sizeof w->regs);
  w->en->recall = NULL;
}

static void not_made(vm_saver *s, const vm_core *c, const char *what, unsigned e, uint32_t pc,
                     const isa_error *err) {
  if (err->status == ISA_NOMEM || c->fault.status == ISA_NOMEM) {
    s->failed = true;
    if (s->err) s->err->status = ISA_NOMEM;
    return;
  }
  vm_saver_fail(s, "%s of %s, pc %u: %s", what, isa_engines[e].name, pc, err->text);
}

/* ---- Instructions -------------------------------------------------------------------------- */

static bool has_elements(const vm_view *v) { return v->at && v->elems && v->num[0]; }

struct note {
  const vm_core *c;
  recalled *rc;
  bool staged;
  met *m;
};
static void note_view(void *ud, const isa_operand *o, vm_view *v) {
  const struct note *w = ud;
  bool there = w->m->insn && (o->flags & AP_R);
  const vm_core *c = there ? w->c->peer : w->c;
  uint32_t index = there ? operand_there(w->m) : o->index;
  uint8_t size_dim = c->code->aps[index - 1].size_dim;
  noted n = {v->at, v->place, has_elements(v) ? v->elems : 0, size_dim ? v->num[size_dim - 1] : 0};
  if (w->staged && (o->flags & AP_R) && n.elems) n.at = vm_item_copied_from(v->at, &n.place);
  note_operand(c, there ? &w->m->rc : w->rc, index, &n);
}

static void note_flight(const vm_core *c, vm_flight *f, recalled *rc, met *m) {
  const isa_form *form = isa_form_of(f->in->op);
  struct note w = {c, rc, f->item.staged, m};
  for (unsigned i = 0; i < form->nfields; i++) {
    const void *at = vm_operand_at(f->in, &f->a, i);
    int reg = isa_field_register(f->in, &form->fields[i]);
    bool is_num = form->fields[i].kind == ISA_K_NUM;
    if (reg < 0) continue;
    uint32_t value =
        is_num ? isa_f32_bits(((const vm_num *)at)->imm) : (uint32_t) * (const int32_t *)at;
    note_register(rc, (unsigned)reg, value);
  }
  vm_each_view(c, f->in, &f->a, note_view, &w);
}

struct source_walk {
  vm_saver *s;
  vm_core *c;
  vm_item *it;
};

/* Bytes of num[0] * elems elements, UINT64_MAX when there are more. */
static uint64_t bytes_of(const vm_view *v) {
  uint64_t n;
  if (__builtin_mul_overflow(v->elems, (uint64_t)v->num[0] * v->esize, &n)) return UINT64_MAX;
  return n;
}

/* A source that has been copied: its elements, dense. */
static void walk_copy(void *ud, const isa_operand *o, vm_view *v) {
  struct source_walk *w = ud;
  if (!(o->flags & AP_R) || !has_elements(v) || w->s->failed) return;
  if (w->s->reads) {
    isa_error err = {.status = ISA_NOMEM};
    if (!vm_saver_need(w->s, bytes_of(v) <= vm_saver_left(w->s), "a copied source is cut off"))
      return;
    if (!vm_item_copy_view(w->c, w->it, v)) {
      not_made(w->s, w->c, "", 0, 0, &err);
      return;
    }
  }
  vm_saver_bytes(w->s, v->at, (size_t)bytes_of(v));
}

static bool is_data_path(const isa_insn *in) {
  return !isa_op_is_control(in->op) && !isa_op_is_dma(in->op);
}

/* A flight's operands, from the state in which it issued. */
static bool restore_flight(vm_saver *s, vm_core *c, unsigned e, vm_flight *f, const recalled *rc,
                           const met *m) {
  isa_error err = {0};
  if (!vm_saver_need(s, is_data_path(f->in), "an instruction in flight is not for a data path"))
    return false;
  swapped w = swap_in(&c->eng[e], rc), there;
  if (m->insn) there = swap_in(&c->peer->eng[m->engine], &m->rc);
  bool ok = vm_issue_restored(c, e, f, &err);
  if (m->insn) swap_out(&there);
  swap_out(&w);
  if (!ok) not_made(s, c, "an instruction in flight", e, f->pc, &err);
  return ok;
}

/* Of a sendrecv_gpsimd: whom it met, and where its source lies there. */
static void walk_flight_met(vm_saver *s, const vm_core *c, vm_flight *f, met *m) {
  if (f->in->op != ISA_OP_sendrecv_gpsimd) return;
  walk_met(s, c, f->in, &f->other, &f->other_pc, m);
}

static void walk_flight(vm_saver *s, vm_core *c, unsigned e, vm_flight *f) {
  recalled rc = {0};
  met m = {0};
  bool staged = f->item.staged;
  vm_save_below(s, &f->pc, c->eng[e].code->n, "instruction in flight");
  if (s->failed) return;
  f->in = &c->eng[e].code->insns[f->pc];
  walk_flight_met(s, c, f, &m);
  if (!s->reads) note_flight(c, f, &rc, &m);
  walk_recalled(s, c, &rc);
  if (m.insn) walk_recalled(s, c->peer, &m.rc);
  if (s->failed || (s->reads && !restore_flight(s, c, e, f, &rc, &m))) return;
  vm_save_time(s, &f->item.start);
  vm_save_time(s, &f->item.done);
  vm_save_time(s, &f->streamed);
  vm_save_time(s, &f->read);
  vm_save_time(s, &f->table_from);
  vm_save_time(s, &f->table_until);
  vm_save_u16(s, &f->ports);
  vm_save_node(s, c, &f->node);
  vm_save_bool(s, &f->finished);
  vm_save_bool(s, &staged);
  f->item.staged = staged;
  vm_saver_need(s, f->item.start <= f->item.done, "an instruction is done before it starts");
  if (staged) vm_each_view(c, f->in, &f->a, walk_copy, &(struct source_walk){s, c, &f->item});
}

void vm_save_flights(vm_saver *s, vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  uint32_t n = en->nflights;
  vm_save_below(s, &en->first, VM_FLIGHTS, "flight");
  vm_saver_count(s, &n, VM_FLIGHTS, 1, "instructions in flight");
  if (s->reads) en->nflights = 0;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    vm_flight *f = &en->flights[(en->first + i) % VM_FLIGHTS];
    if (s->reads) memset(f, 0, sizeof *f);
    walk_flight(s, c, e, f);
    if (s->reads) en->nflights++;
    vm_saver_need(s, i > 0 || !f->finished, "the first instruction in flight is over");
  }
}

/* ---- Transfers ----------------------------------------------------------------------------- */

static bool is_skipped(const vm_transfer *t) { return !t->dst.at; }

/* A bit for each ring of a transfer's queue. */
static uint16_t rings_of(const vm_core *c, const vm_transfer *t) {
  return (uint16_t)((1u << c->code->queues[t->queue].rings) - 1);
}

static const vm_view *operand_of(const vm_transfer *t, unsigned k) {
  return k == 0 ? &t->dst : k == 1 ? &t->src : &t->more[k - 2];
}

/* Operand k of t was resolved from that pattern of c. */
static void note_end(const vm_core *c, uint32_t index, const vm_transfer *t, unsigned k,
                     recalled *rc) {
  const isa_ap *ap = &c->code->aps[index - 1];
  const vm_view *v = operand_of(t, k);
  noted n = {v->at, NULL, vm_dma_num(t, k, 0) ? v->elems : 0,
             ap->size_dim ? vm_dma_num(t, k, ap->size_dim - 1u) : 0};
  note_operand(c, rc, index, &n);
}

/* A sendrecv's own destination is where the other core's goes. */
static void note_transfer(const vm_core *c, const isa_insn *in, const vm_transfer *t, recalled *rc,
                          met *m) {
  vm_dma_ops o = vm_dma_ops_of(c, in);
  rc->r.skipped = is_skipped(t);
  for (unsigned k = 0; k <= o.nsrc && !rc->r.skipped; k++)
    note_end(c, k ? o.src[k - 1] : o.dst, k || !t->twin ? t : t->twin, k, rc);
  if (m->insn) note_end(c->peer, operand_there(m), t, 0, &m->rc);
  if (!t->rows) return;
  unsigned k = t->dst_indexed ? 0 : 1u + (unsigned)t->src_indexed;
  rc->r.nrows = vm_dma_num(t, k, c->code->aps[(k ? o.src[k - 1] : o.dst) - 1].index_dim + 1u);
}

static void walk_rows(vm_saver *s, vm_recall *r, const vm_transfer *t) {
  uint32_t n = (uint32_t)r->nrows;
  vm_saver_count(s, &n, UINT32_MAX, 8, "rows of a transfer");
  r->nrows = n;
  r->rows = s->at;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t row = s->reads ? 0 : (uint64_t)t->rows[i];
    vm_save_u64(s, &row);
  }
}

/* The instruction of a transfer of queue q; NULL when there is none like that. */
static const isa_insn *insn_of(const vm_core *c, unsigned q, const vm_transfer *t) {
  const isa_queue *queue = &c->code->queues[q];
  const isa_code *code = &c->code->code[t->engine];
  const isa_insn *in = &code->insns[t->pc];
  if (queue->dge == ISA_DGE_none && in->op != ISA_OP_sendrecv)
    return t->descriptor < queue->nstatics ? &queue->statics[t->descriptor] : NULL;
  bool fits = isa_op_is_dma(in->op) && in->op != ISA_OP_dma_trigger;
  return fits && vm_dma_ops_of(c, in).queue == q ? in : NULL;
}

/* Both ends of a sendrecv have the same elements. */
static bool same_elements(const vm_transfer *t) {
  return t->dst.dtype == t->src.dtype && t->dst.num[0] == t->src.num[0] &&
         t->dst.elems == t->src.elems;
}

static void restore_transfer(vm_saver *s, vm_core *c, const isa_insn *in, vm_transfer *t,
                             const recalled *rc, const met *m) {
  isa_error err = {0};
  swapped w = swap_in(&c->eng[t->engine], rc), there;
  if (m->insn) there = swap_in(&c->peer->eng[m->engine], &m->rc);
  bool ok = vm_dma_make(c, &c->eng[t->engine], in, t, &err);
  if (m->insn) swap_out(&there);
  swap_out(&w);
  if (!ok) {
    not_made(s, c, "a transfer", t->engine, t->pc, &err);
    return;
  }
  if (!m->insn) return;
  vm_saver_need(s, same_elements(t), "a sendrecv has met one of another size");
  t->finished = rings_of(c, t); /* until their shares are there */
}

static void walk_transfer(vm_saver *s, vm_core *c, unsigned q, vm_transfer *t) {
  recalled rc = {0};
  met m = {0};
  uint32_t engine = t->engine;
  vm_save_below(s, &engine, ISA_NENGINES, "engine of a transfer");
  t->engine = (uint8_t)engine;
  uint32_t n = c->code->code[engine].n;
  vm_save_below(s, &t->pc, n, "instruction of a transfer");
  vm_save_u32(s, &t->descriptor);
  vm_save_node(s, c, &t->node);
  vm_save_bool(s, &t->signals);
  vm_save_u8(s, &t->sem);
  vm_save_core(s, c, &t->sem_core);
  const isa_insn *in = s->failed ? NULL : insn_of(c, q, t);
  if (!in) {
    vm_saver_fail(s, "a transfer belongs to no instruction");
    return;
  }
  if (in->op == ISA_OP_sendrecv) walk_met(s, c, in, &t->other, &t->other_pc, &m);
  if (!s->reads) note_transfer(c, in, t, &rc, &m);
  walk_recalled(s, c, &rc);
  vm_save_bool(s, &rc.r.skipped);
  walk_rows(s, &rc.r, t);
  if (m.insn) walk_recalled(s, c->peer, &m.rc);
  if (s->reads && !s->failed) restore_transfer(s, c, in, t, &rc, &m);
}

static uint64_t copied_bytes(const vm_share *sh) {
  uint64_t esizes = 0, n;
  for (unsigned k = 1; k <= sh->t->nsrc; k++) esizes += operand_of(sh->t, k)->esize;
  return __builtin_mul_overflow(sh->e1 - sh->e0, esizes, &n) ? UINT64_MAX : n;
}

static void walk_started(vm_saver *s, vm_core *c, vm_share *sh) {
  bool staged = sh->item.staged;
  if (s->reads) {
    vm_dma_boxes(c, sh);
    vm_item_link(c, &sh->item);
  }
  vm_save_time(s, &sh->item.start);
  vm_save_bool(s, &staged);
  vm_saver_need(s, sh->item.start <= c->now, "a transfer starts after the saved moment");
  if (!staged || s->failed) return;
  if (s->reads) {
    isa_error err = {.status = ISA_NOMEM};
    if (!vm_saver_need(s, copied_bytes(sh) <= vm_saver_left(s), "a copied source is cut off"))
      return;
    sh->item.staged = true;
    vm_dma_stage(c, sh);
    if (!sh->snap) {
      not_made(s, c, "", 0, 0, &err);
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
  if (!vm_saver_need(s, sh->started ? sh->bytes && sh->sent <= sh->bytes : sh->sent == 0,
                     "a transfer has moved what it does not have"))
    sh->started = false;
  if (sh->started && s->reads) c->shares_moving++;
  if (sh->started && !s->failed) walk_started(s, c, sh);
}

/* Shares of a ring: its transfers are the last ones of the queue's, in their order. */
static void walk_ring(vm_saver *s, vm_core *c, unsigned q, unsigned r, vm_transfer **t,
                      uint32_t transfers) {
  vm_ring *ring = &c->rings[q][r];
  uint32_t n = ring->n;
  vm_share *sh = ring->head;
  vm_saver_count(s, &n, transfers, 34, "shares in a ring");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads && !(sh = vm_dma_restore_share(c, t[transfers - n + i], r))) {
      not_made(s, c, "", 0, 0, &(isa_error){.status = ISA_NOMEM});
      return;
    }
    walk_share(s, c, sh);
    sh = sh->next;
  }
}

static vm_ring *longest_ring(vm_core *c, unsigned q) {
  vm_ring *longest = &c->rings[q][0];
  for (unsigned r = 1; r < c->code->queues[q].rings; r++)
    if (c->rings[q][r].n > longest->n) longest = &c->rings[q][r];
  return longest;
}

/* Transfers of queue q that have not ended, oldest first, then the shares of each ring. */
static void walk_list(vm_saver *s, vm_core *c, unsigned q, vm_transfer **t, uint32_t n) {
  vm_share *sh = longest_ring(c, q)->head;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads && !(t[i] = vm_dma_restore_transfer(c))) {
      not_made(s, c, "", 0, 0, &(isa_error){.status = ISA_NOMEM});
      return;
    }
    if (!s->reads) {
      t[i] = sh->t;
      sh = sh->next;
    }
    walk_transfer(s, c, q, t[i]);
  }
  for (unsigned r = 0; r < c->code->queues[q].rings && !s->failed; r++) walk_ring(s, c, q, r, t, n);
}

static void walk_queue(vm_saver *s, vm_core *c, unsigned q) {
  uint32_t n = longest_ring(c, q)->n, nstatics = c->code->queues[q].nstatics;
  vm_save_below(s, &c->statics_next[q], nstatics ? nstatics : 1, "static transfer");
  for (unsigned r = 0; r < c->code->queues[q].rings; r++) vm_save_time(s, &c->rings[q][r].fetched);
  vm_saver_count(s, &n, UINT32_MAX, 16, "transfers");
  if (n == 0) return;
  vm_transfer **t = isa_zalloc(&c->al, n * sizeof *t);
  if (!t) {
    if (!s->reads) s->out->failed = true;
    not_made(s, c, "", 0, 0, &(isa_error){.status = ISA_NOMEM});
    return;
  }
  walk_list(s, c, q, t, n);
  for (uint32_t i = 0; s->reads && i < n; i++)
    if (t[i] && t[i]->left == 0) { /* in no ring, which would free it */
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
  const vm_share *sh = c->rings[serving][d].head;
  if (!vm_saver_need(s, sh && sh->started && e->packet <= sh->bytes - sh->sent,
                     "a DMA engine serves nothing"))
    return;
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
        if (is_swap(c, sh->t) && n++ < w->n) w->v[n - 1] = sh->t;
    if (fill || n == 0) break;
    w->v = isa_zalloc(&c->al, n * sizeof *w->v);
    w->n = w->v ? n : 0;
    if (w->v) continue;
    if (!s->reads) s->out->failed = true;
    not_made(s, c, "", 0, 0, &(isa_error){.status = ISA_NOMEM});
    return false;
  }
  return true;
}

/* a of core c and b of the other one. */
static void link_swap(vm_saver *s, const vm_core *c, vm_transfer *a, vm_transfer *b) {
  bool fits = !a->twin && !b->twin && a->other == b->engine && a->other_pc == b->pc &&
              b->other == a->engine && b->other_pc == a->pc &&
              rings_of(c, a) == rings_of(c->peer, b);
  if (!vm_saver_need(s, fits, "two transfers are not of one sendrecv")) return;
  a->twin = b;
  b->twin = a;
}

/* The transfer of c that a, of the other core, has met, and that has moved all it had to. */
static void walk_ended(vm_saver *s, vm_core *c, vm_transfer *a) {
  vm_transfer *t = s->reads ? vm_dma_restore_transfer(c) : a->twin;
  uint32_t q = t ? t->queue : 0;
  if (!t) {
    not_made(s, c, "", 0, 0, &(isa_error){.status = ISA_NOMEM});
    return;
  }
  vm_save_below(s, &q, c->code->nqueues, "queue");
  if (s->failed) return;
  walk_transfer(s, c, q, t);
  if (s->reads && !s->failed) link_swap(s, c, t, a);
  if (s->reads && s->failed) vm_dma_unmake(c, t); /* it is in no ring, which would free it */
}

/* A transfer of core 0: its number among those of core 1, from 1; 0: that one has ended. */
static void walk_swap(vm_saver *s, vm_core *lead, vm_transfer *a, const swaps *there) {
  uint32_t n = 0;
  if (!s->reads && a->twin->left)
    while (there->v[n++] != a->twin) {
    }
  vm_save_below(s, &n, there->n + 1, "transfer of a sendrecv");
  if (s->failed) return;
  if (n == 0)
    walk_ended(s, lead->peer, a);
  else if (s->reads)
    link_swap(s, lead, a, there->v[n - 1]);
}

/* Where both have not ended, and then each of core 1's whose other one has. */
void vm_save_swaps(vm_saver *s, vm_core *lead) {
  swaps here, there = {0};
  if (find_swaps(s, lead, &here) && find_swaps(s, lead->peer, &there)) {
    for (uint32_t i = 0; i < here.n && !s->failed; i++) walk_swap(s, lead, here.v[i], &there);
    for (uint32_t i = 0; i < there.n && !s->failed; i++)
      if (s->reads ? !there.v[i]->twin : !there.v[i]->twin->left) walk_ended(s, lead, there.v[i]);
  }
  if (here.n) isa_free(&lead->al, here.v, here.n * sizeof *here.v);
  if (there.n) isa_free(&lead->al, there.v, there.n * sizeof *there.v);
}
