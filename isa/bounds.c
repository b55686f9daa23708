/* Bounds of patterns that registers move, as a person reads them. */
#include "bounds.h"
#include "slice.h"

bool isa_ap_stays(const isa_program *p, const isa_ap *ap, int64_t offset, isa_bounds *b) {
  const isa_ap *reach = ap;
  isa_ap own;
  /* An index puts elements elsewhere: what it reaches is checked by whoever reads the
   * index. */
  if (ap->index_kind) {
    own = *ap;
    if (ap->index_kind == ISA_INDEX_gather)
      own.dim[ap->index_dim].num = 1;
    else
      own.ndim = 0;
    reach = &own;
  }
  isa_ap_home(p, ap, b);
  return isa_ap_extent(reach, &b->first, &b->last) &&
         !__builtin_add_overflow(offset, b->first, &b->first) &&
         !__builtin_add_overflow(offset, b->last, &b->last) && b->first >= b->lo &&
         b->last <= b->hi;
}

/* "r0 = 896, r4 = 12": everything that moves or sizes the pattern.
 * The values are told, since the program's text has only the registers' names. */
static void put_given(const isa_program *p, unsigned core, const isa_ap *ap, uint32_t size,
                      const int64_t *moved, isa_buf *out) {
  const char *between = " with ";
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    if (ap->dyn[i].kind == ISA_DYN_none) continue;
    isa_buf_puts(out, between);
    if (ap->dyn[i].kind == ISA_DYN_reg)
      isa_buf_printf(out, "r%u", ap->dyn[i].reg);
    else
      isa_print_operand(p, core, ap->dyn[i].ap, out);
    isa_buf_printf(out, " = %lld", (long long)moved[i]);
    between = ", ";
  }
  if (ap->size_dim) isa_buf_printf(out, "%sr%u = %d", between, ap->size_reg, (int32_t)size);
}

/* Indices of a dimension, called what they are: rows and columns of a matrix. */
static void put_indices(const isa_slice *s, unsigned d, int64_t first, int64_t last, isa_buf *out) {
  /* More than two dimensions have no names that all would understand. */
  if (s->ndim <= 2)
    isa_buf_printf(out, " %s%s",
                   s->ndim == 1 ? "element"
                   : d          ? "column"
                                : "row",
                   first == last ? "" : "s");
  isa_buf_printf(out, " %lld", (long long)first);
  if (first != last) isa_buf_printf(out, "..%lld", (long long)last);
}

/* The first dimension whose indices go past its own, -1: none exists. */
static int dimension_left(const isa_slice *s, const int64_t *moved, int64_t *first, int64_t *last) {
  for (unsigned d = s->first; d < s->ndim; d++) {
    const isa_slice_dim *k = &s->dim[d];
    /* A dimension that is dropped (x[3]) has a place, and no length. */
    if (__builtin_add_overflow(k->start, k->dyn < 0 ? 0 : moved[k->dyn], first) ||
        __builtin_add_overflow(*first, k->kept ? (k->len - 1) * k->step : 0, last))
      return -1;
    if (*first < 0 || *last >= k->size) return (int)d;
  }
  return -1;
}

void isa_put_bounds(const isa_program *p, unsigned core, uint32_t index, uint32_t size,
                    const int64_t *moved, const isa_bounds *b, isa_buf *out) {
  isa_ap ap = p->cores[core].aps[index - 1];
  isa_slice s;
  int64_t first, last;
  isa_print_operand(p, core, index, out);
  if (moved) put_given(p, core, &ap, size, moved, out);
  /* The size that the register gives stands for the most that it may. */
  if (ap.size_dim) isa_ap_resize(&ap, size);
  bool known = moved && isa_slice_of(p, &ap, &s);
  /* The host may have given fewer rows than the declaration's most. */
  if (known && ap.space == ISA_HBM) s.dim[0].size = isa_tensor_rows(&p->tensors[ap.base - 1]);
  int d = known ? dimension_left(&s, moved, &first, &last) : -1;
  isa_buf_puts(out, " is");
  if (d >= 0) {
    put_indices(&s, (unsigned)d, first, last, out);
    if (s.ndim > 2) isa_buf_printf(out, " in dimension %d", d);
    isa_buf_printf(out, "; %s has", s.name);
    put_indices(&s, (unsigned)d, 0, s.dim[d].size - 1, out);
  } else {
    isa_buf_printf(out, " bytes %lld..%lld; %s has bytes %lld..%lld%s", (long long)b->first,
                   (long long)b->last - 1, b->name, (long long)b->lo, (long long)b->hi - 1,
                   ap.space == ISA_HBM ? "" : " of a partition");
  }
}
