/* Patterns of some of a pattern's elements. */
#include "plan.h"

static uint64_t less(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Takes as many whole rows of a dimension as begin at e; else goes on in the row in which e is. */
static bool take_rows(uint64_t inner, uint64_t num, uint64_t *e, uint64_t *n, uint64_t *i,
                      uint64_t *rows) {
  *i = *e / inner;
  *rows = 1;
  /* At the beginning of a row, with enough for one: whole rows. */
  if (*e % inner == 0 && *n >= inner) {
    *rows = less(*n / inner, num - *i);
    *n = *rows * inner;
    return true;
  }
  /* Else in this row, to its end at most. */
  *e %= inner;
  *n = less(*n, inner - *e);
  return false;
}

uint64_t vm_plan_cut(const isa_ap *ap, uint64_t e, uint64_t n, isa_ap *out) {
  isa_ap m;
  isa_ap_merge(ap, &m);
  uint64_t inner = isa_ap_elems(&m), i, rows;
  int64_t bytes = (int64_t)isa_dtype_bytes(m.dtype);
  bool whole = false;
  /* Partitions are the outermost dimension of a tile. */
  if (m.space != ISA_HBM) {
    whole = take_rows(inner, m.nparts, &e, &n, &i, &rows);
    m.part = (uint16_t)(m.part + i);
    m.nparts = (uint16_t)rows;
  }
  /* Inwards, until whole rows are taken. */
  for (unsigned d = 0; d < m.ndim && !whole; d++) {
    inner /= m.dim[d].num;
    whole = take_rows(inner, m.dim[d].num, &e, &n, &i, &rows);
    m.offset += (int64_t)i * m.dim[d].step * bytes;
    m.dim[d].num = (uint32_t)rows;
  }
  isa_ap_merge(&m, out);
  return n;
}
