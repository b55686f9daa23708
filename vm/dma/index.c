/* Index vectors of `.gather`, read by the trigger of a transfer. */
#include "../engine/engine.h"
#include "dma.h"

#include "../../isa/bytes.h"

/* Indices that the tensor has room for, and the bytes between its rows. The stride is the tensor's
 * own, whatever the step of the pattern. */
typedef struct table {
  const char *name;
  int64_t rows, stride;
} table;

static table table_of(const vm_core *c, const isa_ap *ap) {
  const isa_tensor *t = &c->prog->tensors[ap->base - 1];
  int64_t stride = isa_dtype_bytes(t->dtype), lo = 0, hi = 0;
  /* The pattern at index 0: how far it reaches from its offset. */
  isa_ap one = *ap;
  for (unsigned d = ap->index_dim + 1u; d < t->ndim; d++) stride *= t->shape[d];
  one.dim[ap->index_dim].num = 1;
  isa_ap_extent(&one, &lo, &hi); /* inside the tensor at index 0: the verifier has checked this */
  /* How many rows fit behind the pattern's offset: an index that is below the shape may still leave
   * the tensor. */
  int64_t fit = ((int64_t)t->bytes - ap->offset - hi) / stride + 1;
  int64_t shape = t->shape[ap->index_dim];
  return (table){t->name, fit < shape ? fit : shape, stride};
}

uint64_t vm_dma_nrows(const isa_ap *ap, const vm_view *v) { return v->num[ap->index_dim + 1]; }

static int64_t index_at(const vm_view *v, uint64_t k) {
  uint32_t bits;
  /* The order of a gather's index: down the partitions, then the next column. */
  vm_load_bits(&bits, v, (uint32_t)(k % v->num[0]), k / v->num[0], 1);
  return v->dtype == ISA_int32 ? (int64_t)(int32_t)bits : (int64_t)bits;
}

/* The earlier row with the same offset as row k; k if none exists. */
static uint64_t find_same_row(const int64_t *rows, uint64_t k) {
  uint64_t i = 0;
  while (i < k && rows[i] != rows[k]) i++;
  return i;
}

/* For a saved run, its rows instead: each lies in the tensor. */
static bool recall_rows(const table *t, const vm_recall *r, int64_t *rows, uint64_t n,
                        isa_error *err) {
  /* What a file says is not trusted: as many as the pattern has, each at a row's beginning. */
  if (r->nrows != n)
    return isa_fail(err, ISA_FORMAT, ISA_NOFIELD, "%llu rows, expected %llu",
                    (unsigned long long)r->nrows, (unsigned long long)n);
  for (uint64_t k = 0; k < n; k++) {
    rows[k] = (int64_t)isa_get64(r->rows + 8 * k);
    /* Rows that oob=skip left out when the run was saved. */
    if (rows[k] == VM_NO_ROW) continue;
    if (rows[k] < 0 || rows[k] % t->stride || rows[k] / t->stride >= t->rows)
      return isa_fail(err, ISA_FORMAT, ISA_NOFIELD, "row %llu begins at byte %lld of %s",
                      (unsigned long long)k, (long long)rows[k], t->name);
  }
  return true;
}

bool vm_dma_read_rows(vm_resolver *r, const isa_ap *ap, bool skip, bool unique, int64_t *rows,
                      uint64_t n) {
  vm_view v;
  table t = table_of(r->c, ap);
  /* Memory may have changed since the transfer began; the file has the rows that it began with. */
  if (r->e->recall) return recall_rows(&t, r->e->recall, rows, n, r->err);
  if (!vm_resolve_ap(r, ap->index, &v)) return false;
  /* Those who watch count this as a read by the sequencer. */
  vm_touch(r->c, r->e->dp.engine, &v, false);
  for (uint64_t k = 0; k < n; k++) {
    int64_t i = index_at(&v, k);
    uint32_t part = (uint32_t)(v.part + k % v.num[0]);
    /* A table's rows end where the pattern would leave the tensor. */
    bool out = i < 0 || i >= t.rows;
    if (out && !skip)
      return isa_fail(r->err, ISA_FAULT, ISA_NOFIELD,
                      "index %llu (partition %u, column %llu of the index vector) is %lld: %s has "
                      "0..%lld there",
                      (unsigned long long)k, part, (unsigned long long)(k / v.num[0]), (long long)i,
                      t.name, (long long)t.rows - 1);
    rows[k] = out ? VM_NO_ROW : i * t.stride;
    /* A scatter that sums needs each row once: two sums into one row would depend on their order.
     */
    uint64_t other = unique && !out ? find_same_row(rows, k) : k;
    if (other < k)
      return isa_fail(r->err, ISA_FAULT, ISA_NOFIELD,
                      "indices %llu and %llu (partition %u) are both %lld: an accumulation needs "
                      "unique indices",
                      (unsigned long long)other, (unsigned long long)k, part, (long long)i);
  }
  return true;
}

/* ---- Order with the engine's own data path ------------------------------------------------ */

static vm_moment pattern_hazard(vm_core *c, unsigned e, uint32_t index) {
  vm_view v;
  vm_box box;
  vm_resolver r = {.c = c, .e = &c->eng[e]};
  /* What does not resolve is reported when the transfer is made. */
  if (!vm_resolve_ap(&r, index, &v)) return (vm_moment){0};
  vm_view_box(c, &v, &box);
  return vm_own_hazard(c, e, (vm_boxes){&box, 1}, (vm_boxes){0}, c->now);
}

static vm_moment operands_hazard(vm_core *c, unsigned e, const vm_dma_ops *o) {
  vm_moment free = {0};
  for (unsigned k = 0; k <= o->nsrc; k++) {
    /* dst first, then the sources. */
    const isa_ap *ap = &c->code->aps[(k ? o->src[k - 1] : o->dst) - 1];
    if (ap->index_kind == ISA_INDEX_gather) free = vm_later(free, pattern_hazard(c, e, ap->index));
    for (unsigned i = 0; i < ISA_MAX_DYN; i++)
      if (ap->dyn[i].kind == ISA_DYN_elem)
        free = vm_later(free, pattern_hazard(c, e, ap->dyn[i].ap));
  }
  return free;
}

vm_moment vm_dma_operand_hazard(vm_core *c, unsigned e, const isa_insn *in) {
  vm_moment free = {0};
  /* Nothing is in flight, which is most often so. */
  if (c->eng[e].nflights == 0) return free;
  vm_dma_ops o = vm_dma_ops_of(c, in, 0);
  free = operands_hazard(c, e, &o);
  /* Pieces of lists of buffers have other operands each. */
  for (unsigned piece = 1; piece < o.pieces; piece++) {
    vm_dma_ops more = vm_dma_ops_of(c, in, piece);
    free = vm_later(free, operands_hazard(c, e, &more));
  }
  return free;
}
