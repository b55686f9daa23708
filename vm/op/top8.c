/* Eight values of a row: max8 finds the largest, find_index8 and match_replace8 look for those that
 * match_value_load has put into the match registers. */
#include "op.h"

/* The value of a key of vm_kern's top8. */
static float float_of(int32_t key) {
  /* The least key is that of every NaN: it sorts below -infinity. */
  if (key == INT32_MIN) return isa_bits_f32(0x7fc00000);
  return isa_bits_f32(key < 0 ? 0x80000000u | (uint32_t)(-1 - key) : (uint32_t)key);
}

vm_verdict vm_op_max8(vm_dp *d, const struct vm_UNARY *a) {
  for (uint32_t p = 0; p < a->dst.num[0] && a->src.elems; p++) {
    int32_t top[8];
    float out[8];
    /* Fewer than eight elements: what is missing is NaN. */
    for (int i = 0; i < 8; i++) top[i] = INT32_MIN;
    for (uint64_t i = 0; i < a->src.elems; i += VM_ROW) {
      size_t n = vm_piece(a->src.elems, i);
      d->k->top8(top, vm_in(d, d->row[0], &a->src, p, i, n), n);
    }
    /* Keys are ordered as values, with -0 below +0; the value is what they stand for. */
    for (int i = 0; i < 8; i++) out[i] = float_of(top[i]);
    vm_store(d, &a->dst, p, 0, out, 8);
  }
  return VM_RETIRE;
}

/* ---- Match values ------------------------------------------------------------------------- */

/* A partition's values are those of its lane, counted from the operand's first partition. */
vm_verdict vm_op_match_value_load(vm_dp *d, const struct vm_MATCH_VALUE_LOAD *a) {
  if (a->src.elems != VM_MATCH)
    return vm_dp_fault(d, "match_value_load: %llu elements per partition, there are 8 registers",
                       (unsigned long long)a->src.elems);
  for (uint32_t p = 0; p < a->src.num[0]; p++) {
    vm_load(d, d->match[p], &a->src, p, 0, VM_MATCH);
    d->has_match[p] = true;
  }
  return VM_RETIRE;
}

/* Where each value of a partition occurs: equal as fp32, so both zeros match either zero and a NaN
 * matches nothing. A value that is there several times takes successive occurrences. */
enum { MISSING = -1 };
typedef struct hits {
  const float *value;
  uint32_t skip[VM_MATCH]; /* occurrences that belong to other registers of the same value */
  int64_t at[VM_MATCH];
} hits;

/* Register i comes after those before it, or with `down` after those after it. */
static void hits_start(hits *h, const float *value, bool down) {
  h->value = value;
  for (unsigned i = 0; i < VM_MATCH; i++) {
    h->at[i] = MISSING;
    h->skip[i] = 0;
    for (unsigned j = 0; j < VM_MATCH; j++)
      /* A register of the same value takes the occurrence before this one. */
      if (value[j] == value[i] && (down ? j > i : j < i)) h->skip[i]++;
  }
}

/* Element x[0] has number `first`. */
static void hits_look(const vm_dp *d, hits *h, const float *x, uint64_t first, size_t n) {
  for (unsigned s = 0; s < VM_MATCH; s++) {
    /* find gives the next equal element, n - i if there is none. */
    for (size_t i = 0; h->at[s] == MISSING; i++) {
      i += d->k->find(x + i, h->value[s], n - i);
      if (i >= n) break;
      /* The earlier ones are those of other registers with this value. */
      if (h->skip[s]-- == 0) h->at[s] = (int64_t)(first + i);
    }
  }
}

static void hits_find(vm_dp *d, hits *h, const vm_view *src, uint32_t p, bool down) {
  hits_start(h, d->match[p], down);
  for (uint64_t i = 0; i < src->elems; i += VM_ROW) {
    size_t n = vm_piece(src->elems, i);
    hits_look(d, h, vm_in(d, d->row[0], src, p, i, n), i, n);
  }
}

/* A value that does not occur gives all ones, also in 16 bits. */
static void hits_store(const hits *h, const vm_view *dst, uint32_t p) {
  uint32_t out[VM_MATCH];
  /* MISSING is -1, all ones in any width. */
  for (unsigned i = 0; i < VM_MATCH; i++) out[i] = (uint32_t)h->at[i];
  vm_store_bits(dst, p, 0, out, VM_MATCH);
}

/* Each lane that is used has values of its own. */
static vm_verdict need_match(vm_dp *d, const char *insn, const vm_view *src) {
  /* A match of another partition would not do: lanes are separate. */
  for (uint32_t p = 0; p < src->num[0]; p++)
    if (!d->has_match[p])
      return vm_dp_fault(d, "%s: no values are loaded, run match_value_load first: lane %u", insn,
                         (unsigned)p);
  return VM_RETIRE;
}

vm_verdict vm_op_find_index8(vm_dp *d, const struct vm_UNARY *a) {
  hits h;
  if (need_match(d, "find_index8", &a->src) != VM_RETIRE) return VM_FAULT;
  for (uint32_t p = 0; p < a->dst.num[0] && a->src.elems; p++) {
    /* find_index8: the first register of a value gets its first occurrence. */
    hits_find(d, &h, &a->src, p, false);
    hits_store(&h, &a->dst, p);
  }
  return VM_RETIRE;
}

static void copy_row(vm_dp *d, const vm_view *dst, const vm_view *src, uint32_t p) {
  for (uint64_t i = 0; i < dst->elems; i += VM_ROW) {
    size_t n = vm_piece(dst->elems, i);
    /* Equal types move bits, as tensor_copy does. */
    if (dst->dtype == src->dtype) {
      vm_load_raw(d->row[0], src, p, i, n);
      vm_store_raw(dst, p, i, d->row[0], n);
    } else {
      vm_store(d, dst, p, i, vm_in(d, d->row[0], src, p, i, n), n);
    }
  }
}

/* Matches are those of src as it was: a value that imm brings in is not replaced again. */
vm_verdict vm_op_match_replace8(vm_dp *d, const struct vm_MATCH_REPLACE *a) {
  hits h;
  float imm = vm_num_at(d, &a->imm, 0, 0);
  if (need_match(d, "match_replace8", &a->src) != VM_RETIRE) return VM_FAULT;
  for (uint32_t p = 0; p < a->dst.num[0] && a->dst.elems; p++) {
    /* match_replace8 counts from the other end: the last register of a value gets the first
     * occurrence. */
    hits_find(d, &h, &a->src, p, true);
    /* Only now: dst may be src, in which the values were looked for. */
    copy_row(d, &a->dst, &a->src, p);
    for (unsigned i = 0; i < VM_MATCH; i++)
      if (h.at[i] != MISSING) vm_store(d, &a->dst, p, (uint64_t)h.at[i], &imm, 1);
    if (a->dst_idx.at) hits_store(&h, &a->dst_idx, p);
  }
  return VM_RETIRE;
}
