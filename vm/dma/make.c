/* From a DMA instruction to a transfer: operands are resolved, the source of a transpose is
 * permuted, index vectors are read, and the rate and the parts of each ring are decided. */
#include "../time/clock.h"
#include "../engine/engine.h"
#include "dma.h"
#include "hbm.h"

#include <string.h>

/* One struct for all forms, so that what follows knows none of them. */
vm_dma_ops vm_dma_ops_of(const vm_core *c, const isa_insn *in, unsigned piece) {
  vm_dma_ops o = {0};
  switch (in->op) {
  case ISA_OP_dma_copy_lists: return vm_dma_ops_of_piece(c, in, piece);
  case ISA_OP_dma_copy: {
    const struct isa_DMA_COPY *u = &in->u.DMA_COPY;
    o = (vm_dma_ops){.dst = u->dst,
                     .nsrc = 1,
                     .src[0] = u->src,
                     .queue = u->queue,
                     .oob = u->oob,
                     .prio = u->prio,
                     .op = u->op,
                     .accumulates = isa_reads_destination(in),
                     .pieces = 1};
    return o;
  }
  case ISA_OP_dma_transpose: {
    const struct isa_DMA_TRANSPOSE *u = &in->u.DMA_TRANSPOSE;
    o = (vm_dma_ops){.dst = u->dst,
                     .nsrc = 1,
                     .src[0] = u->src,
                     .queue = u->queue,
                     .oob = u->oob,
                     .prio = u->prio,
                     .pieces = 1};
    return o;
  }
  case ISA_OP_sendrecv: {
    const struct isa_SENDRECV *u = &in->u.SENDRECV;
    o = (vm_dma_ops){.dst = u->dst,
                     .nsrc = 1,
                     .src[0] = u->src,
                     .queue = u->queue,
                     .prio = u->prio,
                     .pieces = 1};
    return o;
  }
  default: {
    const struct isa_DMA_COMPUTE *u = &in->u.DMA_COMPUTE;
    o = (vm_dma_ops){.dst = u->dst,
                     .nsrc = u->srcs.count,
                     .queue = u->queue,
                     .oob = u->oob,
                     .prio = u->prio,
                     .op = u->op,
                     .pieces = 1};
    memcpy(o.src, isa_program_list(c->prog, u->srcs, ISA_K_APS), u->srcs.count * sizeof o.src[0]);
    return o;
  }
  }
}

static const isa_ap *pattern(const vm_core *c, uint32_t index) { return &c->code->aps[index - 1]; }

static vm_view *source(vm_transfer *t, unsigned k) { return k ? &t->more[k - 1] : &t->src; }

/* Number of the operand's field, for errors: dst, src or srcs. */
static int field_of(const isa_insn *in, unsigned operand) {
  const isa_form *f = isa_form_of(in->op);
  int n = 0;
  for (int i = 0; i < f->nfields; i++)
    if ((f->fields[i].kind == ISA_K_AP || f->fields[i].kind == ISA_K_APS) &&
        /* dst is the first operand field, the sources are the second. */
        n++ == (operand ? 1 : 0))
      return i;
  return ISA_NOFIELD;
}

/* ---- Views -------------------------------------------------------------------------------- */

/* Whether a size that is a register is within its bound: then, if the operand does not resolve, an
 * address is out of bounds. */
static bool size_fits(const vm_engine *e, const isa_ap *ap) {
  return !ap->size_dim || e->regs[ap->size_reg] <= isa_ap_most(ap);
  /* A register within its bound: what is wrong is the address. */
}

/* Resolves operand k (0: dst). An address out of bounds with oob=skip leaves an empty view and
 * sets *skipped. */
static bool resolve(vm_resolver *r, const isa_insn *in, unsigned k, uint32_t index, bool skip,
                    vm_view *v, bool *skipped) {
  const vm_recall *recall = r->e->recall;
  /* A skipped operand has no place, and nothing that follows needs one. */
  if (recall && recall->skipped) return *skipped = true;
  vm_resolver quiet = *r;
  /* A size over its bound is a mistake of the program, which oob=skip does not cover. */
  bool skips = skip && size_fits(r->e, pattern(r->c, index));
  if (skips) quiet.err = NULL; /* make no message that nobody reads */
  bool ok = vm_resolve_ap(&quiet, index, v);
  /* Elements that give offsets may still be written by the data path: the caller waits, and tries
   * again. */
  r->ready = quiet.ready;
  if (ok) return true;
  if (r->err) r->err->field = field_of(in, k);
  *skipped = skips;
  return skips;
}

/* A destination is a source exactly in place or shares no byte with it; that of a transpose shares
 * none. What is known at load is checked by the verifier. */
static bool check_overlap(const vm_core *c, const isa_insn *in, const vm_dma_ops *o,
                          const vm_transfer *t, isa_error *err) {
  const isa_ap *d = pattern(c, o->dst), *s = pattern(c, o->src[0]);
  /* What follows needs two plain patterns: peers, lists, sums and indices have rules of their own,
   * and two that no register moves were compared when the program was verified. */
  if (d->rank || o->elems || o->nsrc > 1 || d->index_kind || s->index_kind ||
      (isa_ap_is_static(d) && isa_ap_is_static(s)) || t->dst.elems == 0 || t->dst.num[0] == 0)
    return true;
  /* As patterns without registers, so that the exact comparison of the verifier serves here too. */
  isa_ap dst = vm_resolved_pattern(c, d, &t->dst), src = vm_resolved_pattern(c, s, &t->src);
  int meet = isa_ap_overlap(&dst, &src);
  /* A copy in place writes what it read; a transpose would read what it has written. */
  bool apart = in->op != ISA_OP_dma_copy && in->op != ISA_OP_dma_compute;
  if (meet == 0 || (meet == 2 && !apart)) return true;
  return isa_fail(err, ISA_FAULT, field_of(in, 0),
                  "bytes %lld.. overlap src, at bytes %lld..: a destination %sshares no byte with "
                  "its source",
                  (long long)dst.offset, (long long)src.offset,
                  in->op == ISA_OP_sendrecv ? "of a sendrecv "
                  : apart                   ? "of a transpose "
                                            : "is exactly in place or ");
}

/* [rank][i]: the source's axis that becomes axis i. Two axes are exchanged, three reversed; of four
 * the middle ones stay (the instruction's own order). */
static const uint8_t axes[5][4] = {{0}, {0}, {1, 0}, {2, 1, 0}, {3, 1, 2, 0}};

uint32_t vm_dma_num(const vm_transfer *t, unsigned operand, unsigned d) {
  if (operand == 0) return t->dst.num[d];
  if (!t->permuted) return operand == 1 ? t->src.num[d] : t->more[operand - 2].num[d];
  /* A tensor in HBM has dimension 0 in front of the pattern's own. */
  unsigned first = t->src.space == ISA_HBM ? 1 : 0, i = 0;
  while (i + 1 < t->src.ndim && first + axes[t->src.ndim][i] != d) i++;
  return t->src.num[i];
}

/* Permutes the source of a transpose to the order of its destination: axes reversed, of four [3, 1,
 * 2, 0]. row_dim follows. */
static void permute_source(vm_transfer *t) {
  vm_view was = t->src;
  unsigned first = was.space == ISA_HBM ? 1 : 0, rank = was.ndim - first;
  uint8_t row = t->row_dim;
  for (unsigned i = 0; i < rank; i++) {
    unsigned from = first + axes[rank][i];
    t->src.num[i] = was.num[from];
    t->src.step[i] = was.step[from];
    if (from == row) t->row_dim = (uint8_t)i;
  }
  t->src.ndim = (uint8_t)rank;
  t->permuted = true;
}

/* ---- Rate --------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Bytes of destination that each contiguous element carries. A transpose reads whole source rows
 * and turns them in the engine. */
static uint64_t run_bytes(const vm_transfer *t, const vm_view *unturned) {
  /* Descriptors are made for the source as it lies in memory. */
  vm_walk w;
  if (t->permuted) {
    vm_walk_open(&w, unturned, t->rows, unturned->space == ISA_HBM ? 1 : 0);
    return vm_walk_dense(&w) * t->dst.esize;
  }
  /* An element is contiguous only if it is so on all sides. */
  uint64_t n = least(vm_walk_dense(&t->walk[0]), vm_walk_dense(&t->walk[1]));
  for (unsigned k = 1; k < t->nsrc; k++) {
    vm_dma_walk_src(t, k, &w);
    n = least(n, vm_walk_dense(&w));
  }
  return n * t->dst.esize;
}

static bool near_memory(const vm_transfer *t) {
  /* The machine adds near SBUF only in place and without a conversion (DMA_SUM_SBUF). */
  return t->accumulates && t->dst.space == ISA_SBUF && t->dst.dtype == t->src.dtype &&
         (t->dst.dtype == ISA_float32 || t->dst.dtype == ISA_bfloat16);
}

static void set_rate(const vm_core *c, vm_transfer *t) {
  /* Bytes of HBM per element of dst, which share the stack's bandwidth. */
  unsigned read = 0, written = 0;
  for (unsigned k = 0; k < t->nsrc; k++)
    if (source(t, k)->space == ISA_HBM) read += source(t, k)->esize;
  /* An accumulating destination is read, too. What goes to a peer is written in the peer's HBM. */
  if (t->dst.space == ISA_HBM && !t->put) written = (1u + t->accumulates) * t->dst.esize;
  bool in = read > 0;
  t->hbm_bytes = (uint8_t)(read + written);
  /* Into SBUF and out of it have rates of their own (DMA_R_IN, DMA_R_OUT). */
  uint64_t rate = c->cost[t->dst.space == ISA_SBUF && in ? VM_DMA_R_IN : VM_DMA_R_OUT];
  /* The DMA engine reads each source, and an accumulating one its destination: they share its rate.
   */
  unsigned operands = t->nsrc + t->accumulates;
  if (t->permuted)
    rate = rate * c->cost[in ? VM_DMA_TURN : VM_DMA_TURN_SBUF] / 1000;
  else if (operands > 1)
    rate = rate * 2 * c->cost[near_memory(t) ? VM_DMA_SUM_SBUF : VM_DMA_SUM] / 1000 / operands;
  /* It is divided by, and costs that a caller sets may round it to nothing. */
  t->rate = rate ? (uint32_t)rate : 1;
}

/* ---- Parts of the rings -------------------------------------------------------------------- */

/* Element e of a view as an element of the transfer, which begins at the view's element `from`. */
static uint64_t element_at(const vm_transfer *t, uint64_t e, uint64_t from) {
  return e < from ? 0 : least(e - from, t->elems);
}

/* The view whose partitions decide which ring moves what; NULL: the elements are divided evenly. */
static const vm_view *split_by(const vm_transfer *t) {
  /* SBUF on the destination's side first; of a transpose only there, since its source's partitions
   * are turned. */
  const vm_view *by = &t->dst;
  for (unsigned k = 0; k < t->nsrc && by->space != ISA_SBUF && !t->permuted; k++)
    by = k ? &t->more[k - 1] : &t->src;
  return by->space == ISA_SBUF ? by : NULL;
}

/* The element at which the share of ring r of n begins, and that of ring r - 1 ends. */
static uint64_t split_at(const vm_transfer *t, const vm_view *by, unsigned r, unsigned n) {
  /* Between HBM and HBM there are no partitions to go by. */
  if (!by) return vm_quotient(t->elems * r, n);
  /* Ring r serves partitions from r * 128 / n on, rounded up. */
  uint32_t p = (r * ISA_PMAX + n - 1) / n, end = by->part + by->num[0];
  /* A tile that does not begin at partition 0 leaves some rings without a part. */
  p = p < by->part ? by->part : p > end ? end : p;
  /* A piece counts its elements from where its buffers begin in it. */
  return element_at(t, (p - by->part) * by->elems, t->from[by != &t->dst]);
}

/* Elements of each of n rings. SBUF is split by absolute partition, eight partitions for each of
 * sixteen rings; between HBM and HBM the elements are divided evenly. */
static void split(vm_transfer *t, unsigned n) {
  const vm_view *by = split_by(t);
  for (unsigned r = 0; r <= n; r++) t->first[r] = split_at(t, by, r, n);
  /* Only shares that move bytes count against the stack's bandwidth. */
  for (unsigned r = 0; t->hbm_bytes && r < n; r++)
    t->shares = (uint8_t)(t->shares + (t->first[r + 1] > t->first[r]));
}

/* ---- What it touches ----------------------------------------------------------------------- */

/* Elements of a row of dimension d of a view. */
static uint64_t row_of(const vm_view *v, unsigned d) {
  uint64_t n = 1;
  while (++d < v->ndim) n *= v->num[d];
  return n;
}

/* The first dimension from d on that has more than one index, or the last. */
static unsigned outer_of(const vm_view *v, unsigned d) {
  while (d + 1u < v->ndim && v->num[d] == 1) d++;
  return d;
}

/* What all elements of dst and src may touch, and how shares divide it. */
static void find_reach(const vm_core *c, vm_transfer *t) {
  for (unsigned k = 0; k < 2; k++) {
    const vm_view *v = k ? &t->src : &t->dst;
    /* An index or a turned source may touch any row: then no share has a box of its own. */
    bool whole = k ? t->permuted || t->src_indexed == 0 : t->dst_indexed;
    vm_view_box(c, v, &t->all[k]);
    if (whole) t->all[k] = t->whole;
    t->outer[k] = (uint8_t)outer_of(v, 0);
    t->row[k] = whole ? 0 : row_of(v, t->outer[k]);
    /* With several sources it is not worth finding out which. */
    t->stale[k] = vm_hbm_is_stale(c, &t->all[k]) || (k && t->nsrc > 1);
  }
  if (t->put) t->stale[0] = false;
}

/* ---- Making ------------------------------------------------------------------------------- */

static bool make_extra(vm_core *c, vm_transfer *t, unsigned nsrc, uint64_t nrows, isa_error *err) {
  /* One block: the sources after the first, then the rows. */
  size_t views = (nsrc > 1 ? nsrc - 1 : 0) * sizeof(vm_view);
  t->extra_bytes = views + (size_t)nrows * sizeof(int64_t);
  if (t->extra_bytes == 0) return true;
  t->extra = isa_zalloc(&c->al, t->extra_bytes);
  if (!t->extra) return isa_fail(err, ISA_NOMEM, ISA_NOFIELD, "no memory for a transfer");
  t->more = nsrc > 1 ? t->extra : NULL;
  t->rows = nrows ? (int64_t *)(void *)((char *)t->extra + views) : NULL;
  return true;
}

void vm_dma_unmake(vm_core *c, vm_transfer *t) {
  isa_free(&c->al, t->extra, t->extra_bytes);
  t->extra = NULL;
}

/* The operand with an index vector: 0 dst, 1 + k source k; -1 if none exists. In a
 * read-modify-write scatter the destination and a source have the same one. */
static int indexed_operand(const vm_core *c, const vm_dma_ops *o) {
  int found = pattern(c, o->dst)->index_kind ? 0 : -1;
  for (unsigned k = 0; k < o->nsrc && found < 0; k++)
    if (pattern(c, o->src[k])->index_kind) found = 1 + (int)k;
  return found;
}

static bool make_rows(vm_core *c, const vm_engine *e, const isa_insn *in, const vm_dma_ops *o,
                      vm_transfer *t, unsigned operand, isa_error *err) {
  const isa_ap *ap = pattern(c, operand ? o->src[operand - 1] : o->dst);
  vm_view *v = operand ? source(t, operand - 1) : &t->dst;
  /* Two rows that are the same would be summed in an order that the machine does not promise. */
  bool scatter_sum = operand == 0 && o->op != ISA_ALU_bypass;
  vm_resolver r = {.c = c, .e = e, .err = err};
  if (!vm_dma_read_rows(&r, ap, o->oob == ISA_OOB_skip, scatter_sum, t->rows,
                        vm_dma_nrows(ap, v))) {
    if (err) err->field = field_of(in, operand);
    return false;
  }
  t->row_dim = (uint8_t)(ap->index_dim + 1);
  t->dst_indexed = operand == 0;
  for (unsigned k = 0; k < o->nsrc; k++)
    /* A scatter that reads what it adds to has the index on both sides. */
    if (pattern(c, o->src[k])->index_kind) t->src_indexed = (int16_t)k;
  /* Which rows it touches follows from the index: the box is the whole tensor. */
  const vm_block *b = &c->run->blocks[ap->base - 1];
  uint64_t at = (uint64_t)(uintptr_t)b->data;
  t->whole = (vm_box){.space = ISA_HBM, .p1 = 1, .lo = at, .hi = at + b->bytes};
  return true;
}

static bool make_views(vm_core *c, const vm_engine *e, const isa_insn *in, const vm_dma_ops *o,
                       vm_transfer *t, bool *skipped, isa_error *err) {
  bool skip = o->oob == ISA_OOB_skip;
  /* More sources than an item has boxes share one, which is no tensor's: they are in use now. */
  vm_resolver r = {.c = c, .e = e, .err = err, .later = o->nsrc <= VM_BOXES};
  if (!resolve(&r, in, 0, o->dst, skip, &t->dst, skipped)) return false;
  for (unsigned k = 0; k < o->nsrc; k++)
    if (!resolve(&r, in, 1 + k, o->src[k], skip, source(t, k), skipped)) return false;
  return true;
}

/* A sendrecv moves its source to the destination of the one that it has met. Its own destination
 * gets what the other one sends, and shares no byte with its source. */
static bool turn_to_other(vm_core *c, const isa_insn *in, const vm_dma_ops *o, vm_transfer *t,
                          isa_error *err) {
  if (!check_overlap(c, in, o, t, err)) return false;
  const vm_engine *other = &vm_core_at(c, t->met.core)->eng[t->met.engine];
  vm_resolver r = {.c = vm_core_at(c, t->met.core), .e = other, .err = err};
  return vm_resolve_ap(&r, other->code->insns[t->met.pc].u.SENDRECV.dst, &t->dst);
}

static bool make(vm_core *c, const vm_engine *e, const isa_insn *in, const vm_dma_ops *o,
                 vm_transfer *t, isa_error *err) {
  int indexed = indexed_operand(c, o);
  uint64_t nrows = 0;
  bool skipped = false;
  /* Before the views: the block's size depends on the number of indices. */
  if (indexed >= 0) {
    const isa_ap *ap = pattern(c, indexed ? o->src[indexed - 1] : o->dst);
    nrows = ap->dim[ap->index_dim].num;
  }
  if (!make_extra(c, t, o->nsrc, nrows, err) || !make_views(c, e, in, o, t, &skipped, err))
    return false;
  /* An operand out of bounds under oob=skip: the transfer still signals, with no bytes. */
  if (skipped) { /* nothing moves; the rings signal */
    t->dst = t->src = (vm_view){.esize = 1};
    t->nsrc = 1;
    t->rows = NULL;
    return true;
  }
  /* A piece of lists moves a part of its buffers only. */
  t->elems = o->elems ? o->elems : t->dst.elems * t->dst.num[0];
  t->put = pattern(c, o->dst)->rank;
  t->put_ap = o->dst;
  /* A message names elements by 32-bit numbers, and has a copy of them: there is nothing at the
   * peer that could be read. */
  if (t->put && (t->elems > UINT32_MAX || indexed >= 0 || t->accumulates))
    return isa_fail(err, ISA_FAULT, field_of(in, 0),
                    "a destination at a peer has at most 2^32 - 1 elements, no index, and is not "
                    "read");
  if (indexed >= 0 && !make_rows(c, e, in, o, t, (unsigned)indexed, err)) return false;
  if (in->op == ISA_OP_sendrecv) {
    if (!turn_to_other(c, in, o, t, err)) return false;
  } else if (!check_overlap(c, in, o, t, err)) {
    return false;
  }
  /* The rate of a transpose goes by how its source lies in memory. */
  vm_view unturned = t->src;
  if (in->op == ISA_OP_dma_transpose) {
    /* Else make_rows has set it to the whole tensor. */
    if (!t->rows) vm_view_box(c, &t->src, &t->whole);
    permute_source(t);
  }
  vm_dma_open_walks(t);
  find_reach(c, t);
  t->run_bytes = run_bytes(t, &unturned);
  t->large =
      t->dst.space == ISA_HBM && !t->put && vm_hbm_is_large(c, pattern(c, o->dst)->base - 1u);
  set_rate(c, t);
  return true;
}

bool vm_dma_make(vm_core *c, const vm_engine *e, const isa_insn *in, vm_transfer *t,
                 isa_error *err) {
  vm_dma_ops o = vm_dma_ops_of(c, in, t->piece);
  const isa_queue *q = &c->code->queues[o.queue];
  t->pieces = o.pieces;
  /* Until vm_dma_open_rings says otherwise: each ring opens in this transfer. */
  t->opens = UINT16_MAX;
  t->from[0] = o.from[0];
  t->from[1] = o.from[1];
  t->nsrc = (uint8_t)o.nsrc;
  t->op = o.op;
  t->accumulates = o.accumulates;
  t->src_indexed = -1;
  t->queue = o.queue;
  /* The instruction's class, or else its queue's. */
  t->prio = o.prio ? o.prio : q->prio;
  t->is_static = q->dge == ISA_DGE_none;
  if (make(c, e, in, &o, t, err)) {
    split(t, q->rings);
    return true;
  }
  vm_dma_unmake(c, t);
  return false;
}

/* ---- Shares ------------------------------------------------------------------------------- */

/* Makes of the box of a view that of rows first .. last - 1 of its dimension d. */
static void narrow(vm_box *b, const vm_view *v, unsigned d, uint64_t first, uint64_t last) {
  if (d == 0) {
    b->p0 = (uint16_t)(v->part + first);
    b->p1 = (uint16_t)(v->part + last);
    return;
  }
  /* Bytes before the first row, and after the last. */
  int64_t step = v->step[d], before = step * (int64_t)first;
  int64_t after = step * (int64_t)(v->num[d] - last);
  /* A negative step goes down from the view's first element. */
  b->lo += (uint64_t)(step < 0 ? -after : before);
  b->hi += (uint64_t)(step < 0 ? before : -after);
}

/* Makes of the box of a view that of its elements e0 .. e1 - 1: whole rows of the innermost
 * dimension that has more than one element per row and divides the part, and the rows of the
 * dimension outside of it in which the part begins and ends. d: the outermost that has more than
 * one row, of `each` elements. */
static inline void narrow_to(vm_box *b, const vm_view *v, unsigned d, uint64_t each, uint64_t e0,
                             /* `each` elements in a row of dimension d; row_of is 1 for the
                              * innermost. */
                             uint64_t e1) {
  for (; each && e0 < e1; each = row_of(v, d)) {
    uint64_t first = vm_quotient(e0, each), last = vm_quotient(e1, each);
    uint64_t begin = e0 - first * each, more = e1 - last * each;
    /* Partitions are not cut: a box has whole ones or all of them. */
    if (d == 0 && (begin || more)) return;
    last += more > 0;
    /* All of the part within one row: its box is found one dimension further in. */
    narrow(b, v, d, first, last);
    if (d == 0 || d + 1 >= v->ndim || last - first != 1) return;
    e1 -= e0 - begin; /* a part of one row: of the dimension inside of it */
    e0 = begin;
    d = outer_of(v, d + 1);
  }
}

void vm_dma_box_of(const vm_core *c, const vm_view *v, uint64_t e0, uint64_t e1, vm_box *out) {
  unsigned d = outer_of(v, 0);
  /* For an arriving message, which has no transfer. */
  vm_view_box(c, v, out);
  narrow_to(out, v, d, row_of(v, d), e0, e1);
}

/* The box of dst, 0, or src, 1, is written where it will be: copied at once, it would be read
 * before its narrow parts have arrived. */
static void box_of(const vm_share *s, unsigned k, vm_box *b) {
  const vm_transfer *t = s->t;
  const uint64_t from = t->from[k];
  *b = t->all[k];
  narrow_to(b, k ? &t->src : &t->dst, t->outer[k], t->row[k], from + s->e0, from + s->e1);
}

/* That of another source. */
static void box_of_more(const vm_core *c, const vm_share *s, unsigned k, vm_box *b) {
  const vm_transfer *t = s->t;
  const vm_view *v = &t->more[k - 1];
  unsigned d = outer_of(v, 0);
  vm_view_box(c, v, b);
  if (t->src_indexed == (int)k)
    *b = t->whole;
  else
    narrow_to(b, v, d, row_of(v, d), s->e0, s->e1);
}

/* A box without a space is empty. */
static void cover(vm_box *b, const vm_box *more) {
  if (!b->space) {
    *b = *more;
    return;
  }
  b->p0 = b->p0 < more->p0 ? b->p0 : more->p0;
  b->p1 = b->p1 > more->p1 ? b->p1 : more->p1;
  b->lo = b->lo < more->lo ? b->lo : more->lo;
  b->hi = b->hi > more->hi ? b->hi : more->hi;
}

static void box_of_source(const vm_core *c, const vm_share *s, unsigned k, vm_box *b) {
  if (k)
    box_of_more(c, s, k, b);
  else
    box_of(s, 1, b);
}

/* More sources than boxes: for each memory one box that covers them. */
static void cover_sources(const vm_core *c, vm_share *s) {
  vm_item *it = &s->item;
  /* Two boxes: on chip, and in HBM. */
  it->nsrc = 2;
  it->src[0] = it->src[1] = (vm_box){0};
  for (unsigned k = 0; k < s->t->nsrc; k++) {
    vm_box b;
    box_of_source(c, s, k, &b);
    cover(&it->src[b.space == ISA_HBM], &b);
  }
}

bool vm_dma_reads(const vm_core *c, const vm_share *s, const vm_box *v, unsigned n) {
  for (unsigned k = 0; k < s->t->nsrc; k++) {
    vm_box b;
    box_of_source(c, s, k, &b);
    for (unsigned i = 0; i < n; i++)
      if (vm_box_meet(&v[i], &b)) return true;
  }
  return false;
}

/* What a share sends to a peer writes nothing here. */
void vm_dma_boxes(const vm_core *c, vm_share *s) {
  vm_item *it = &s->item;
  it->ndst = s->t->put ? 0 : 1;
  it->nsrc = s->t->nsrc;
  box_of(s, 0, &it->dst[0]);
  box_of(s, 1, &it->src[0]);
  for (unsigned k = 1; k < it->nsrc && k < VM_BOXES; k++) box_of_more(c, s, k, &it->src[k]);
  if (it->nsrc > VM_BOXES) cover_sources(c, s);
}
