/* Constraints of DMA and control instructions. */
#include "../bounds.h"
#include "../operand.h"
#include "rules.h"

#include <inttypes.h>

bool isa_rule_event(const isa_ck *c) {
  /* A line that neither waits nor tells anyone has no effect: the clause was most
   * likely forgotten. */
  if (c->in->wait.cond == ISA_WAIT_none && c->in->upd.kind == ISA_UPD_none)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "event_semaphore needs a wait or an update");
  return true;
}

bool isa_rule_semrange(const isa_ck *c) {
  const struct isa_SEM_RANGE *u = &c->in->u.SEM_RANGE;
  /* The first and how many: semaphores 250, 10 would run past the last one. */
  if (u->count == 0)
    return isa_fail(c->e, ISA_ILLEGAL, F(SEM_RANGE, count), "0 semaphores: the least is 1");
  if (u->first + u->count > ISA_NSEMS)
    return isa_fail(c->e, ISA_ILLEGAL, F(SEM_RANGE, count), "semaphores %d..%d: a core has 0..%d",
                    u->first, u->first + u->count - 1, ISA_NSEMS - 1);
  return true;
}

bool isa_rule_trigger(const isa_ck *c) {
  const struct isa_TRIGGER *u = &c->in->u.TRIGGER;
  const isa_queue *q = &c->core->queues[u->queue];
  /* Dynamic queues have no list of transfers to start. */
  if (q->dge != ISA_DGE_none)
    return isa_fail(c->e, ISA_ILLEGAL, F(TRIGGER, queue),
                    "queue %.60s has dge=%s: dma_trigger starts static transfers (dge=none)",
                    q->name, isa_set_item(ISA_SET_DGE, q->dge));
  if (q->nstatics == 0)
    return isa_fail(c->e, ISA_ILLEGAL, F(TRIGGER, queue), "queue %.60s has no static transfer",
                    q->name);
  /* first is 1-based; 0, or left out, means the one after the last that was started. */
  if (u->first > q->nstatics)
    return isa_fail(c->e, ISA_ILLEGAL, F(TRIGGER, first),
                    "first=%" PRIu32 ": queue %.60s has %" PRIu32 " static transfers, from 1 on",
                    u->first, q->name, q->nstatics);
  if (!u->count.is_reg && u->count.v < 0)
    return isa_fail(c->e, ISA_ILLEGAL, F(TRIGGER, count), "%" PRId32 " transfers: the least is 0",
                    u->count.v);
  return true;
}

/* ---- Transfers ---------------------------------------------------------------------------- */

int isa_ck_dma_queue(const isa_insn *in) {
  if (in->op >= ISA_NOPS || isa_ops[in->op].runs != ISA_RUNS_DMA) return -1;
  return isa_insn_queue(in);
}

/* Elements of the whole transfer. */
/* In HBM a pattern has no partitions, so [128, 64] there equals 128 partitions of 64
 * here. */
static uint64_t total(const isa_ap *ap) { return isa_ap_elems(ap) * isa_ck_parts(ap); }

static unsigned dge_of(const isa_ck *c) { return c->core->queues[isa_ck_dma_queue(c->in)].dge; }

static const char *dge_name(unsigned dge) { return isa_set_item(ISA_SET_DGE, dge); }

/* Both sides of a transfer have the same elements, whatever the registers hold. */
static bool same_sizes(const isa_ck *c, int f, const isa_ap *dst, const isa_ap *src) {
  if (total(dst) != total(src))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu64 " elements: dst has %" PRIu64, total(src),
                    total(dst));
  /* Both registers are the same, or a transfer would have two lengths. */
  if (!dst->size_dim && !src->size_dim) return true;
  if (!dst->size_dim != !src->size_dim)
    return isa_fail(c->e, ISA_ILLEGAL, f, "a size of %s is a register, but none of %s is",
                    dst->size_dim ? "dst" : "src", dst->size_dim ? "src" : "dst");
  if (dst->size_reg != src->size_reg || isa_ap_most(dst) != isa_ap_most(src))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "a size is r%d<=%" PRIu32 ": that of dst is r%d<=%" PRIu32, src->size_reg,
                    isa_ap_most(src), dst->size_reg, isa_ap_most(dst));
  return true;
}

/* Whether its place or size is only known as the program runs. */
static bool moves(const isa_ap *ap) { return !isa_ap_is_static(ap); }

/* What holds for every transfer of the queue: f is the operand's field. */
static bool check_mode(const isa_ck *c, int f, const isa_ap *ap) {
  unsigned dge = dge_of(c);
  if (ap->index_kind && (dge != ISA_DGE_swdge || c->p->target->gen < ISA_GEN3))
    return isa_fail(c->e, ISA_ILLEGAL, f, ".gather needs a queue with dge=swdge and gen3");
  /* A gather's rows go through descriptors that gpsimd writes by itself, from gen3 on. */
  /* Those of a CC sequencer are made when it starts them. */
  bool cc = isa_queue_is_cc(&c->core->queues[(unsigned)isa_insn_queue(c->in)]);
  if (dge == ISA_DGE_none && moves(ap) && !cc)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "a register or element in the pattern: transfers of a queue with dge=none "
                    "are made at load; those of dge=hwdge (sync, scalar) and dge=swdge (gpsimd) "
                    "as the program runs");
  return true;
}

bool isa_ck_prio(const isa_ck *c, int f) {
  unsigned prio = isa_ck_byte(c, f);
  /* Classes of service came with gen4. */
  if (prio && c->p->target->gen < ISA_GEN4)
    return isa_fail(c->e, ISA_ILLEGAL, f, "prio=%u needs gen4: %s is gen%d", prio,
                    c->p->target->name, c->p->target->gen);
  return true;
}

/* oob=skip leaves out what an index or a dynamic address puts out of bounds. */
static bool check_oob(const isa_ck *c, int f, unsigned oob, bool dynamic) {
  /* What is made at load cannot be out of bounds: it is checked here. */
  if (oob && dge_of(c) == ISA_DGE_none)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "oob=skip needs a dynamic transfer: the queue has dge=none");
  if (oob && !dynamic)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "oob=skip without an index vector or a dynamic address: nothing of this "
                    "transfer can be out of bounds");
  return true;
}

/* A `.gather` pattern: rows of a tensor by a vector of 32-bit indices. */
static bool check_gather(const isa_ck *c, int f, const isa_ap *ap) {
  const isa_tensor *t = &c->p->tensors[ap->base - 1];
  const isa_ap *index = isa_ck_ap(c, ap->index);
  if (ap->dyn[0].kind || ap->dyn[1].kind)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".gather and a dynamic offset in one pattern: it can have only one of them");
  if (ap->index_dim >= t->ndim)
    return isa_fail(c->e, ISA_ILLEGAL, f, ".gather of dimension %d: tensor %.60s has %d",
                    ap->index_dim, t->name, t->ndim);
  if (index->dtype != ISA_uint32 && index->dtype != ISA_int32)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index vector of .gather is %s: it must be uint32 or int32",
                    isa_dtypes[index->dtype].name);
  return true;
}

/* One index per partition. */
static bool check_index_column(const isa_ck *c, int f, const isa_ap *ap) {
  /* Row i of the pattern is chosen by the index in partition i. */
  const isa_ap *index = isa_ck_ap(c, ap->index);
  uint32_t rows = ap->dim[ap->index_dim].num;
  if (isa_ap_elems(index) != 1 || index->nparts != rows)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index vector of .gather is %d x %" PRIu64 ": dimension %d has %" PRIu32
                    " rows, so it must be %" PRIu32 " x 1",
                    index->nparts, isa_ap_elems(index), ap->index_dim, rows, rows);
  return true;
}

static bool check_gathers(const isa_ck *c, int f, const isa_ap *ap, const isa_ap *other) {
  if (!ap->index_kind) return true;
  /* Rows are read as others are written, in no fixed order: the result would depend on
   * it. */
  if (other->space == ISA_HBM && other->base == ap->base)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".gather of tensor %.60s, which is the other operand as well",
                    c->p->tensors[ap->base - 1].name);
  return check_gather(c, f, ap) && check_index_column(c, f, ap);
}

/* ---- dma_copy ----------------------------------------------------------------------------- */

static bool check_cast(const isa_ck *c, int f, unsigned d, unsigned s) {
  const char *from = isa_dtypes[s].name, *to = isa_dtypes[d].name;
  if (d == s) return true;
  /* It moves bytes and nothing else. */
  if (dge_of(c) == ISA_DGE_hwdge)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s to %s: a queue with dge=hwdge does not convert", from,
                    to);
  if (isa_ck_packed(d) || isa_ck_packed(s) || isa_dtype_bytes(d) == 8 || isa_dtype_bytes(s) == 8)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s to %s: packed and 64-bit types are copied, not converted", from, to);
  return true;
}

/* dst += src: near SBUF on gen4 by any queue, elsewhere in the DMA engine by descriptors that
 * gpsimd makes. */
/* Example: partial sums of a split matmul, each added into one tile as it arrives. */
static bool check_accumulation(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  const struct isa_DMA_COPY *u = &c->in->u.DMA_COPY;
  unsigned d = dst->dtype;
  bool wide = isa_dtype_bytes(d) == 8 || isa_ck_packed(d);
  bool near = c->p->target->gen >= ISA_GEN4 && dst->space == ISA_SBUF && d == src->dtype &&
              (d == ISA_float32 || d == ISA_bfloat16);
  /* bypass is what the field is when left out. */
  if (u->op == ISA_ALU_bypass) return true;
  if (u->op != ISA_ALU_add)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COPY, op), "op=%s: dma_copy accumulates with add only",
                    isa_aluops[u->op].name);
  if (wide)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COPY, op),
                    "op=add of %s: packed and 64-bit types are copied, not added",
                    isa_dtypes[d].name);
  if (!near && dge_of(c) != ISA_DGE_swdge)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COPY, op),
                    "op=add with dge=%s: only on gen4, into sbuf, with both types bfloat16 or both "
                    "float32; else the queue needs dge=swdge",
                    dge_name(dge_of(c)));
  return true;
}

bool isa_rule_dmacopy(const isa_ck *c) {
  const struct isa_DMA_COPY *u = &c->in->u.DMA_COPY;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  if (!check_mode(c, F(DMA_COPY, dst), dst) || !check_mode(c, F(DMA_COPY, src), src)) return false;
  /* A transfer has room for one index vector. */
  if (dst->index_kind && src->index_kind)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COPY, src),
                    ".gather on both sides: a transfer has one index vector");
  return check_oob(c, F(DMA_COPY, oob), u->oob, moves(dst) || moves(src)) &&
         isa_ck_prio(c, F(DMA_COPY, prio)) && check_gathers(c, F(DMA_COPY, dst), dst, src) &&
         check_gathers(c, F(DMA_COPY, src), src, dst) &&
         same_sizes(c, F(DMA_COPY, src), dst, src) &&
         check_cast(c, F(DMA_COPY, src), dst->dtype, src->dtype) && check_accumulation(c, dst, src);
}

/* ---- dma_transpose ------------------------------------------------------------------------ */

static unsigned rank_of(const isa_ap *ap) { return ap->ndim + (ap->space == ISA_HBM ? 0u : 1u); }

/* Size of axis i, partitions first. */
/* Axis 0 of an operand in SBUF is its partitions, in HBM its first dimension. */
static uint32_t axis(const isa_ap *ap, unsigned i) {
  if (ap->space == ISA_HBM) return ap->dim[i].num;
  return i == 0 ? ap->nparts : ap->dim[i - 1].num;
}

static bool check_axes(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  /* Rows by rank: [1, 0] for 2, [2, 1, 0] for 3, [3, 1, 2, 0] for 4; none for 0 and 1. */
  /* Which axis of src each axis of dst gets. */
  static const uint8_t axes[5][4] = {{0}, {0}, {1, 0}, {2, 1, 0}, {3, 1, 2, 0}};
  unsigned rank = rank_of(src);
  int f = F(DMA_TRANSPOSE, dst);
  if (rank < 2 || rank > 4)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_TRANSPOSE, src),
                    "%u dimensions: a transpose takes 2, 3 or 4", rank);
  if (rank_of(dst) != rank)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%u dimensions: src has %u", rank_of(dst), rank);
  for (unsigned i = 0; i < rank; i++)
    if (axis(dst, i) != axis(src, axes[rank][i]))
      return isa_fail(c->e, ISA_ILLEGAL, f,
                      "dimension %u has %" PRIu32
                      ": it gets dimension %d of src, which has %" PRIu32,
                      i, axis(dst, i), axes[rank][i], axis(src, axes[rank][i]));
  return true;
}

static bool check_turn_types(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  /* By a DGE only elements of 2 bytes; descriptors made at load handle 4 as well. */
  unsigned bytes = isa_dtype_bytes(src->dtype);
  bool dynamic = dge_of(c) != ISA_DGE_none;
  if (dst->dtype != src->dtype)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_TRANSPOSE, src),
                    "%s to %s: a transpose does not convert", isa_dtypes[src->dtype].name,
                    isa_dtypes[dst->dtype].name);
  if (bytes != 2 && (bytes != 4 || dynamic))
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_TRANSPOSE, src),
                    "%s has %u bytes: a transpose with dge=%s takes %s",
                    isa_dtypes[src->dtype].name, bytes, dge_name(dge_of(c)),
                    dynamic ? "2" : "2 or 4");
  return true;
}

static bool check_turn_hwdge(const isa_ck *c, const isa_ap *src) {
  unsigned rank = rank_of(src);
  uint32_t first = axis(src, 0), before_last = axis(src, rank - 2);
  int f = F(DMA_TRANSPOSE, src);
  if (rank == 2 && first != 16)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "dimension 0 has %" PRIu32 ": with dge=hwdge it must have 16", first);
  if (first > 16 || (first & (first - 1)))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "dimension 0 has %" PRIu32 ": with dge=hwdge it must have 1, 2, 4, 8 or 16",
                    first);
  if (first * before_last % 16)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "dimension 0 has %" PRIu32 ", the last but one %" PRIu32
                    ": with dge=hwdge their product must be a multiple of 16",
                    first, before_last);
  return true;
}

/* A gather-transpose: the indices, column by column, are the first dimension. */
/* Two steps in one: rows are gathered by the index, then the block of them is
 * transposed. */
static bool check_turn_indices(const isa_ck *c, const isa_ap *src) {
  const isa_ap *index = isa_ck_ap(c, src->index);
  uint64_t columns = isa_ap_elems(index);
  uint32_t rows = axis(src, 0);
  int f = F(DMA_TRANSPOSE, src);
  if (src->index_dim != 0)
    return isa_fail(c->e, ISA_ILLEGAL, f, ".gather of dimension %d: a transpose takes dimension 0",
                    src->index_dim);
  if (index->dtype != ISA_uint32)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index vector of a transpose is %s: it must be uint32",
                    isa_dtypes[index->dtype].name);
  if (index->nparts % 16 || (columns > 1 && index->nparts != ISA_PMAX))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index vector of a transpose is %d x %" PRIu64
                    ": its partitions must be a multiple of 16, with more than one column 128",
                    index->nparts, columns);
  /* Indices at the end of the last column may be left over, rows without an index may
   * not. */
  if (rows % 16 || index->nparts * columns < rows)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "dimension 0 has %" PRIu32
                    ": it must be a multiple of 16 and at most the %" PRIu64 " indices",
                    rows, index->nparts * columns);
  if (rank_of(src) == 4 && axis(src, 1) != 1 && axis(src, 2) != 1)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "dimensions 1 and 2 have %" PRIu32 " and %" PRIu32
                    ": one of them must have 1 with .gather",
                    axis(src, 1), axis(src, 2));
  return check_gather(c, f, src);
}

static bool check_turn_mode(const isa_ck *c, const isa_ap *src) {
  unsigned dge = dge_of(c);
  uint32_t last = axis(src, rank_of(src) - 1);
  int f = F(DMA_TRANSPOSE, src);
  /* gpsimd's library has no plain transpose. */
  if (dge == ISA_DGE_swdge && !src->index_kind)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "a transpose without .gather: a queue with dge=swdge makes only "
                    "gather-transposes; take dge=hwdge or dge=none");
  /* The last dimension becomes dst's first one, which in SBUF are the partitions. */
  if (dge != ISA_DGE_none && last > ISA_PMAX)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the last dimension has %" PRIu32 ": at most %d with dge=%s", last, ISA_PMAX,
                    dge_name(dge));
  if (dge == ISA_DGE_hwdge) return check_turn_hwdge(c, src);
  return !src->index_kind || check_turn_indices(c, src);
}

bool isa_rule_dmatr(const isa_ck *c) {
  /* In place it would overwrite elements that it has still to read. */
  const struct isa_DMA_TRANSPOSE *u = &c->in->u.DMA_TRANSPOSE;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  if (dst->size_dim || src->size_dim)
    return isa_fail(c->e, ISA_ILLEGAL,
                    src->size_dim ? F(DMA_TRANSPOSE, src) : F(DMA_TRANSPOSE, dst),
                    "the size of an operand of a transpose cannot be a register");
  if (!moves(dst) && !moves(src) && isa_ap_overlap(dst, src))
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_TRANSPOSE, dst),
                    "overlaps src: a transpose is never in place");
  return check_mode(c, F(DMA_TRANSPOSE, dst), dst) && check_mode(c, F(DMA_TRANSPOSE, src), src) &&
         check_oob(c, F(DMA_TRANSPOSE, oob), u->oob, moves(dst) || moves(src)) &&
         isa_ck_prio(c, F(DMA_TRANSPOSE, prio)) && check_axes(c, dst, src) &&
         check_turn_types(c, dst, src) && check_turn_mode(c, src);
}

/* ---- sendrecv ----------------------------------------------------------------------------- */

/* Half of the instruction runs on the other core. */
static bool check_pair(const isa_ck *c) {
  if (c->p->ncores > 1) return true;
  return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                  "%s: the program has one core; this needs the two of a logical core",
                  c->row->name);
}

bool isa_rule_sendrecv(const isa_ck *c) {
  /* Both halves are checked each by itself; that they fit each other is seen when they
   * meet. */
  const struct isa_SENDRECV *u = &c->in->u.SENDRECV;
  int dst = F(SENDRECV, dst), src = F(SENDRECV, src);
  return check_pair(c) && check_mode(c, dst, isa_ck_ap(c, u->dst)) &&
         check_mode(c, src, isa_ck_ap(c, u->src)) && isa_ck_prio(c, F(SENDRECV, prio)) &&
         isa_ck_same_type(c, src, dst) && isa_ck_agree(c, src, dst) && isa_ck_apart(c, dst, src);
}

bool isa_rule_swapgp(const isa_ck *c) {
  /* 256 elements: what gpsimd's own DMA moves in one go. */
  enum { MOST = 256 };
  int dst = F(SENDRECV_GPSIMD, dst), src = F(SENDRECV_GPSIMD, src);
  if (!check_pair(c) || !isa_ck_same_type(c, src, dst) || !isa_ck_agree(c, src, dst) ||
      !isa_ck_apart(c, dst, src))
    return false;
  if (c->in->upd.at_read)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "@read: %s finishes with src and dst together, on both cores", c->row->name);
  const isa_ap *ap = isa_ck_at(c, src);
  uint64_t n = isa_ap_elems(ap);
  if (n > MOST)
    return isa_fail(c->e, ISA_ILLEGAL, src,
                    "%" PRIu64 " elements of %s in a partition: gpsimd's own DMA takes at most %d, "
                    "%u bytes; sendrecv takes any number",
                    n, isa_dtypes[ap->dtype].name, MOST, MOST * isa_dtype_bytes(ap->dtype));
  return true;
}

/* data only says what the two cores hand over; the machine does nothing with it. */
bool isa_rule_barrier(const isa_ck *c) {
  uint32_t data = c->in->u.BARRIER.data;
  if (!check_pair(c)) return false;
  if (data && moves(isa_ck_ap(c, data)))
    return isa_fail(c->e, ISA_ILLEGAL, F(BARRIER, data),
                    "a register or element in the pattern: a barrier names what lies at a fixed "
                    "place");
  return true;
}

/* ---- dma_compute -------------------------------------------------------------------------- */

typedef struct sources {
  uint32_t n;
  const isa_ap *ap[16];
} sources;

/* At most 16 patterns: check_list has bounded them before. */
static sources sources_of(const isa_ck *c, isa_ref r) {
  const uint32_t *list = isa_program_list(c->p, r, ISA_K_APS);
  sources s = {.n = r.count};
  for (uint32_t i = 0; i < r.count; i++) s.ap[i] = isa_ck_ap(c, list[i]);
  return s;
}

/* The field exists because the reference has it; the DMA engine multiplies by nothing
 * but 1. */
static bool check_scales(const isa_ck *c, uint32_t nsrc) {
  isa_ref r = c->in->u.DMA_COMPUTE.scales;
  const float *scale = r.count ? isa_program_list(c->p, r, ISA_K_F32S) : NULL;
  int f = F(DMA_COMPUTE, scales);
  if (r.count && r.count != nsrc)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu32 " scales: there are %" PRIu32 " sources",
                    r.count, nsrc);
  for (uint32_t i = 0; i < r.count; i++)
    if (isa_f32_bits(scale[i]) != isa_f32_bits(1.0f))
      return isa_fail(c->e, ISA_ILLEGAL, f, "scale %" PRIu32 " is %g: every scale must be 1.0", i,
                      (double)scale[i]);
  return true;
}

/* Read-modify-write by an index vector: the indexed tensor is dst and a source, with the other
 * source in SBUF; or dst in SBUF is a source, and the other is indexed. */
static bool check_indexed_sum(const isa_ck *c, const isa_ap *dst, const sources *s) {
  int f = F(DMA_COMPUTE, srcs);
  if (s->n != 2)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu32 " sources: with .gather there are exactly 2",
                    s->n);
  if (c->in->u.DMA_COMPUTE.op != ISA_ALU_add)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COMPUTE, op), "op=%s: with .gather it must be add",
                    isa_aluops[c->in->u.DMA_COMPUTE.op].name);
  /* dst += src[index], or dst[index] += src: one of the two sources is dst itself. */
  int same = isa_ap_equal(s->ap[0], dst) ? 0 : isa_ap_equal(s->ap[1], dst) ? 1 : -1;
  if (same < 0)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "no source is dst: with .gather one must be, as it accumulates");
  /* Which of the two patterns has the index decides which side must be in SBUF. */
  const isa_ap *other = s->ap[1 - same], *indexed = dst->index_kind ? dst : other;
  const isa_ap *plain = dst->index_kind ? other : dst;
  if (!indexed->index_kind || plain->index_kind || plain->space != ISA_SBUF)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "one side of the sum must be indexed, and the other in sbuf");
  return check_gather(c, f, indexed) && check_index_column(c, f, indexed);
}

static bool check_plain_sum(const isa_ck *c, const isa_ap *dst, const sources *s) {
  unsigned op = c->in->u.DMA_COMPUTE.op;
  if (dge_of(c) != ISA_DGE_none)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COMPUTE, queue),
                    "the queue has dge=%s: without .gather dma_compute needs dge=none",
                    dge_name(dge_of(c)));
  if (op != ISA_ALU_add && op != ISA_ALU_min && op != ISA_ALU_max)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COMPUTE, op),
                    "op=%s: dma_compute has add, min and max", isa_aluops[op].name);
  /* In place is allowed (2): each element is read before it is written. */
  for (uint32_t i = 0; i < s->n; i++)
    if (isa_ap_overlap(dst, s->ap[i]) == 1)
      return isa_fail(c->e, ISA_ILLEGAL, F(DMA_COMPUTE, dst),
                      "overlaps source %" PRIu32 ": a destination must have exactly the elements "
                      "of a source or share no byte with it",
                      i);
  return true;
}

bool isa_rule_dmacomp(const isa_ck *c) {
  const struct isa_DMA_COMPUTE *u = &c->in->u.DMA_COMPUTE;
  const isa_ap *dst = isa_ck_ap(c, u->dst);
  sources s = sources_of(c, u->srcs);
  bool indexed = dst->index_kind != ISA_INDEX_none;
  if (!check_mode(c, F(DMA_COMPUTE, dst), dst)) return false;
  /* Any indexed operand makes it the kind that reads, adds and writes by an index. */
  for (uint32_t i = 0; i < s.n; i++) {
    indexed = indexed || s.ap[i]->index_kind;
    if (!check_mode(c, F(DMA_COMPUTE, srcs), s.ap[i]) ||
        !same_sizes(c, F(DMA_COMPUTE, srcs), dst, s.ap[i]))
      return false;
  }
  return check_oob(c, F(DMA_COMPUTE, oob), u->oob, indexed) &&
         isa_ck_prio(c, F(DMA_COMPUTE, prio)) && check_scales(c, s.n) &&
         (indexed ? check_indexed_sum(c, dst, &s) : check_plain_sum(c, dst, &s));
}

/* ---- dma_copy_lists ----------------------------------------------------------------------- */

/* Elements of a list; 0 after a refusal. */
/* Both lists are one row of elements each, cut into buffers anywhere. */
static uint64_t check_buffers(const isa_ck *c, int f, const sources *l) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const isa_ap *ap = l->ap[i], *first = l->ap[0];
    if (!check_mode(c, f, ap)) return 0;
    /* Where a buffer ends must be known, as the next one begins there. */
    if (ap->size_dim) {
      isa_fail(c->e, ISA_ILLEGAL, f,
               "buffer %" PRIu32 ": a size is a register; here all sizes must be fixed", i);
      return 0;
    }
    if (ap->dtype != first->dtype) {
      isa_fail(c->e, ISA_ILLEGAL, f,
               "buffer %" PRIu32 " is %s, but buffer 0 is %s: a list must have one type", i,
               isa_dtypes[ap->dtype].name, isa_dtypes[first->dtype].name);
      return 0;
    }
    n += total(ap);
  }
  return n;
}

static bool check_apart(const isa_ck *c, int f, const isa_ap *dst, uint32_t i, const isa_ap *other,
                        const char *name, uint32_t k) {
  /* What a register moves is compared when it runs (vm_dma_lists_apart). */
  if (moves(dst) || moves(other) || !isa_ap_overlap(dst, other)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  "buffer %" PRIu32 " shares bytes with buffer %" PRIu32
                  " of %s: a destination must share no byte with another buffer",
                  i, k, name);
}

bool isa_rule_dmalists(const isa_ck *c) {
  const struct isa_DMA_LISTS *u = &c->in->u.DMA_LISTS;
  sources dst = sources_of(c, u->dsts), src = sources_of(c, u->srcs);
  int f = F(DMA_LISTS, dsts), g = F(DMA_LISTS, srcs);
  if (dge_of(c) == ISA_DGE_hwdge)
    return isa_fail(c->e, ISA_ILLEGAL, F(DMA_LISTS, queue),
                    "the queue has dge=hwdge: lists of buffers need dge=none or dge=swdge");
  uint64_t to = check_buffers(c, f, &dst), from = to ? check_buffers(c, g, &src) : 0;
  if (!to || !from) return false;
  /* The lists may be cut at other places (lists.c), but move the same elements. */
  if (to != from)
    return isa_fail(c->e, ISA_ILLEGAL, g, "%" PRIu64 " elements: dsts have %" PRIu64, from, to);
  /* Each destination against those before it, then against all sources. */
  for (uint32_t i = 0; i < dst.n; i++) {
    for (uint32_t k = 0; k < i; k++)
      if (!check_apart(c, f, dst.ap[i], i, dst.ap[k], "dsts", k)) return false;
    for (uint32_t k = 0; k < src.n; k++)
      if (!check_apart(c, f, dst.ap[i], i, src.ap[k], "srcs", k)) return false;
  }
  return check_cast(c, g, dst.ap[0]->dtype, src.ap[0]->dtype) && isa_ck_prio(c, F(DMA_LISTS, prio));
}
