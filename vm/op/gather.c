/* Elements of a partition at positions that another operand names: local_gather, n_gather. */
#include "op.h"

#include <string.h>

enum { CORE_INDICES = 4096 }; /* the most indices that the partitions of one core of gpsimd share */

/* Elements index[0 .. n-1] of partition p, as they are, to a dense row. */
static void take(uint8_t *out, const vm_view *src, uint32_t p, const uint32_t *index, size_t n) {
  /* Then an element is one multiplication away; else a walk finds it. */
  bool line = src->run == src->elems;
  const uint8_t *row = line ? vm_at(src, p, 0) : NULL;
  for (size_t i = 0; i < n; i++, out += src->esize) {
    const uint8_t *at = line ? row + (int64_t)index[i] * src->run_step : vm_at(src, p, index[i]);
    switch (src->esize) {
    case 1: *out = *at; break;
    case 2: memcpy(out, at, 2); break;
    default: memcpy(out, at, 4); break;
    }
  }
}

/* ---- local_gather ------------------------------------------------------------------------- */

/* The indices of one core, partition by partition of each column. */
static vm_verdict core_indices(vm_dp *d, const struct vm_LOCAL_GATHER *a, uint32_t core,
                               uint32_t *list, uint32_t n, uint32_t each) {
  /* Index i of a core is in partition i % 16, column i / 16: the sixteen partitions of a core of
   * gpsimd share one list. */
  uint32_t column[CORE_INDICES / ISA_GP_PARTS], columns = (n + ISA_GP_PARTS - 1) / ISA_GP_PARTS;
  for (uint32_t q = 0; q < ISA_GP_PARTS; q++) {
    vm_load_bits(column, &a->index, ISA_GP_PARTS * core + q, 0, columns);
    for (uint32_t c = 0; c < columns; c++) list[ISA_GP_PARTS * c + q] = column[c];
  }
  /* All of a core before any of them is used. */
  for (uint32_t i = 0; i < n; i++) {
    /* An index names the first of `each` elements: all of them must be in the row. */
    if (list[i] + each > a->src.elems)
      return vm_dp_fault(
          d,
          "local_gather: index %u, in partition %u column %u, with %u elements "
          "per index: src has %llu",
          (unsigned)list[i], (unsigned)(a->index.part + ISA_GP_PARTS * core + i % ISA_GP_PARTS),
          (unsigned)(i / ISA_GP_PARTS), (unsigned)each, (unsigned long long)a->src.elems);
  }
  return VM_RETIRE;
}

static void gather_core(const struct vm_LOCAL_GATHER *a, uint32_t core, const uint32_t *list,
                        uint32_t each) {
  uint32_t index[VM_ROW], row[VM_ROW];
  for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
    size_t n = vm_piece(a->dst.elems, i);
    /* Element i + j of the result is number (i + j) % each of those that index (i + j) / each
     * names. */
    for (size_t j = 0; j < n; j++) index[j] = list[(i + j) / each] + (uint32_t)((i + j) % each);
    /* All partitions of the core take the same elements. */
    for (uint32_t p = ISA_GP_PARTS * core; p < ISA_GP_PARTS * (core + 1); p++) {
      take((uint8_t *)row, &a->src, p, index, n);
      vm_store_raw(&a->dst, p, i, row, n);
    }
  }
}

vm_verdict vm_op_local_gather(vm_dp *d, const struct vm_LOCAL_GATHER *a) {
  uint32_t list[CORE_INDICES], each = a->elems_per_index ? a->elems_per_index : 1;
  /* 0 in the field means all indices that the operand has. */
  uint64_t n = a->valid_indices ? a->valid_indices : ISA_GP_PARTS * a->index.elems;
  uint32_t parts = a->dst.num[0];
  if (n == 0 || parts == 0) return VM_RETIRE;
  /* Sizes that are in registers have passed no verifier. */
  if (n > CORE_INDICES || n > ISA_GP_PARTS * a->index.elems || n * each != a->dst.elems ||
      parts % ISA_GP_PARTS || a->src.num[0] != parts || a->index.num[0] != parts)
    return vm_dp_fault(d, "local_gather: the shapes of dst, src and index do not fit");
  for (uint32_t core = 0; core < parts / ISA_GP_PARTS; core++) {
    vm_verdict v = core_indices(d, a, core, list, (uint32_t)n, each);
    if (v != VM_RETIRE) return v;
    /* Core after core: a fault in the indices of a later one leaves the earlier ones written. */
    gather_core(a, core, list, each);
  }
  return VM_RETIRE;
}

/* ---- n_gather ----------------------------------------------------------------------------- */

vm_verdict vm_op_n_gather(vm_dp *d, const struct vm_N_GATHER *a) {
  /* Each partition has its own indices. */
  uint32_t index[VM_ROW], row[VM_ROW];
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i += VM_ROW) {
      size_t n = vm_piece(a->dst.elems, i);
      vm_load_bits(index, &a->index, p, i, n);
      /* All indices of a piece before any of its elements is stored. */
      for (size_t j = 0; j < n; j++)
        if (index[j] >= a->src.elems)
          return vm_dp_fault(d,
                             "n_gather: index %u, in partition %u column %llu: src has %llu "
                             "elements",
                             (unsigned)index[j], (unsigned)(a->index.part + p),
                             (unsigned long long)(i + j), (unsigned long long)a->src.elems);
      take((uint8_t *)row, &a->src, p, index, n);
      vm_store_raw(&a->dst, p, i, row, n);
    }
  }
  return VM_RETIRE;
}
