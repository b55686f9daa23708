/* Selection: copy_predicated, select_reduce, range_select. What is not selected is never looked
 * at, so its NaNs do not spread. */
#include "op.h"

#include <string.h>

/* The least finite float: what range_select puts in place of what is out of range. */
#define FP32_MIN (-0x1.fffffep+127f)

static void reverse(uint32_t *pred, size_t n) {
  for (size_t i = 0; i < n; i++) pred[i] = pred[i] == 0;
}

static void load_pred(uint32_t *pred, const vm_view *v, bool reversed, uint32_t p, uint64_t i,
                      size_t n) {
  vm_load_bits(pred, v, p, i, n);
  if (reversed) reverse(pred, n);
}

vm_verdict op_copy_predicated(vm_dp *d, const struct vm_COPY_PREDICATED *a) {
  uint32_t pred[VM_ROW], x[VM_ROW], old[VM_ROW];
  if (a->src.at && a->src.dtype != a->dst.dtype)
    return vm_dp_fault(d, "copy_predicated: src is %s, dst %s: the types must agree",
                       isa_dtypes[a->src.dtype].name, isa_dtypes[a->dst.dtype].name);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    uint32_t value =
        a->src.at ? 0 : isa_from_f32(a->dst.dtype, vm_num_at(d, &a->imm, p, 0), d->cvt);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      load_pred(pred, &a->pred, a->reverse_pred, p, i, n);
      if (a->src.at)
        vm_load_bits(x, &a->src, p, i, n);
      else
        d->k->ramp(x, value, 0, n);
      vm_load_bits(old, &a->dst, p, i, n);
      d->k->pick(x, pred, x, old, n);
      vm_store_bits(&a->dst, p, i, x, n);
    }
  }
  return VM_RETIRE;
}

/* What select_reduce and range_select do with a predicate. */
typedef struct selection {
  const vm_view *dst, *on_true;
  float on_false; /* of this partition */
  bool reduces;
  float part[16]; /* of max, over the selected fp32 values */
} selection;

static void select_piece(vm_dp *d, selection *s, const uint32_t *pred, uint32_t p, uint64_t i,
                         size_t n) {
  uint32_t x[VM_ROW], other[VM_ROW];
  float *values = d->row[0];
  bool same = s->dst->dtype == s->on_true->dtype;
  if (!same || s->reduces) {
    vm_load(d, values, s->on_true, p, i, n);
    memcpy(x, values, n * sizeof *x);
    d->k->ramp(other, isa_f32_bits(s->on_false), 0, n);
    d->k->pick(x, pred, x, other, n);
    memcpy(values, x, n * sizeof *x);
    if (s->reduces) d->k->partial[ISA_ALU_max](s->part, values, n);
  }
  if (same) {
    vm_load_bits(x, s->on_true, p, i, n);
    d->k->ramp(other, isa_from_f32(s->dst->dtype, s->on_false, d->cvt), 0, n);
    d->k->pick(x, pred, x, other, n);
    vm_store_bits(s->dst, p, i, x, n);
  } else {
    vm_store(d, s->dst, p, i, values, n);
  }
}

static void selection_end(vm_dp *d, const selection *s, unsigned cmd, uint32_t p) {
  float row = s->reduces ? vm_kern_combine(ISA_ALU_max, s->part) : 0;
  vm_accumulate(&d->acc[s->on_true->part + p], cmd, ISA_ALU_max, 0, row);
}

vm_verdict op_select_reduce(vm_dp *d, const struct vm_SELECT_REDUCE *a) {
  uint32_t pred[VM_ROW];
  selection s = {.dst = &a->dst, .on_true = &a->on_true, .reduces = vm_cmd_reduces(a->reduce)};
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    s.on_false = vm_num_at(d, &a->on_false, p, 0);
    vm_partials_start(ISA_ALU_max, s.part);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      load_pred(pred, &a->pred, a->reverse_pred, p, i, n);
      select_piece(d, &s, pred, p, i, n);
    }
    selection_end(d, &s, a->reduce, p);
  }
  return VM_RETIRE;
}

/* Whether start + index, in fp32, meets both bounds, for n elements from i on. */
static void in_range(vm_dp *d, const struct vm_RANGE_SELECT *a, uint32_t *pred, uint32_t p,
                     uint64_t i, size_t n) {
  float *index = d->row[0], *met = d->row[1];
  float start = vm_num_at(d, &a->start, 0, 0), b0, b1;
  vm_load(d, &b0, &a->bound0, p, 0, 1);
  vm_load(d, &b1, &a->bound1, p, 0, 1);
  d->k->ramp(pred, (uint32_t)i, 1, n);
  d->k->load[ISA_int32](index, pred, n);
  d->k->alu_vs[ISA_ALU_add](index, index, start, n);
  d->k->alu_vs[a->op0](met, index, b0, n);
  d->k->alu_vs[a->op1](index, index, b1, n);
  d->k->alu_vv[ISA_ALU_logical_and](met, met, index, n);
  memcpy(pred, met, n * sizeof *pred);
}

vm_verdict op_range_select(vm_dp *d, const struct vm_RANGE_SELECT *a) {
  uint32_t pred[VM_ROW];
  selection s = {.dst = &a->dst, .on_true = &a->on_true, .reduces = vm_cmd_reduces(a->reduce)};
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    s.on_false = vm_num_at(d, &a->on_false, p, FP32_MIN);
    vm_partials_start(ISA_ALU_max, s.part);
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      in_range(d, a, pred, p, i, n);
      select_piece(d, &s, pred, p, i, n);
    }
    selection_end(d, &s, a->reduce, p);
  }
  return VM_RETIRE;
}
