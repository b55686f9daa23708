/* Patterns by the name of what they lie in: x[r0:+128], t[0:64, ::2].view(int32), t.ap([[1,16]]).
 * The assembler makes the same pattern of it. */
#include "print.h"
#include "slice.h"

#include <inttypes.h>

static bool is_whole(const isa_slice_dim *d, const isa_ap *ap) {
  return d->kept && d->dyn < 0 && d->sized == (d->rows >= 0) &&
         (!d->sized || ap->size_reg == d->rows) && d->start == 0 && d->step == 1 &&
         d->len == d->size;
}

/* "r0", "r0+5", "(idx[0, 3])-1" or a number. */
static void put_start(const isa_pr *pr, const isa_slice_dim *d, const isa_ap *ap, bool inner) {
  if (d->dyn < 0) {
    isa_buf_printf(pr->out, "%" PRId64, d->start);
    return;
  }
  const isa_dyn *dyn = &ap->dyn[d->dyn];
  if (dyn->kind == ISA_DYN_reg) {
    isa_buf_printf(pr->out, "r%d", dyn->reg);
  } else {
    isa_buf_puts(pr->out, "(");
    if (inner)
      isa_buf_puts(pr->out, "?"); /* not legal, as in print.c */
    else
      isa_pr_ap(pr, dyn->ap, true);
    isa_buf_puts(pr->out, ")");
  }
  if (d->start) isa_buf_printf(pr->out, "%+" PRId64, d->start);
}

static void put_item(const isa_pr *pr, const isa_slice_dim *d, const isa_ap *ap, bool inner) {
  if (is_whole(d, ap)) {
    isa_buf_puts(pr->out, ":");
    return;
  }
  /* `::2` says as much as `0:9:2`, and does not depend on the size. */
  bool to_end = d->step != 1 && d->start + d->len * d->step >= d->size && !d->sized && d->dyn < 0 &&
                d->rows < 0;
  if (!to_end || d->start || !d->kept) put_start(pr, d, ap, inner);
  if (!d->kept) return;
  if (d->dyn >= 0 || d->sized) {
    isa_buf_puts(pr->out, ":+");
    isa_pr_size(pr->out, d->sized, ap->size_reg, (uint32_t)d->len);
  } else if (to_end) {
    isa_buf_puts(pr->out, ":");
  } else {
    isa_buf_printf(pr->out, ":%" PRId64, d->start + (d->len - 1) * d->step + 1);
  }
  if (d->step != 1) isa_buf_printf(pr->out, ":%" PRId64, d->step);
}

static void put_items(const isa_pr *pr, const isa_slice *s, unsigned n, const isa_ap *ap,
                      bool inner) {
  /* Whole dimensions at the end are not written. */
  while (n > 0 && is_whole(&s->dim[n - 1], ap)) n--;
  for (unsigned d = 0; d < n; d++) {
    isa_buf_puts(pr->out, d ? ", " : "[");
    put_item(pr, &s->dim[d], ap, inner);
  }
  if (n) isa_buf_puts(pr->out, "]");
}

static void put_view(const isa_pr *pr, const isa_slice *s, const isa_ap *ap) {
  if (ap->dtype != s->dtype) isa_buf_printf(pr->out, ".view(%s)", isa_dtypes[ap->dtype].name);
}

static void put_broadcasts(const isa_pr *pr, const isa_slice *s) {
  unsigned n = 0; /* of the dimensions that are left */
  for (unsigned d = 0; d < s->ndim; d++) {
    if (s->dim[d].times) isa_buf_printf(pr->out, ".broadcast(%u, %" PRIu32 ")", n, s->dim[d].times);
    n += s->dim[d].kept;
  }
}

/* Other dimensions over the same place. */
static bool put_steps(const isa_pr *pr, isa_slice *s, const isa_ap *ap, bool inner) {
  const isa_program *p = pr->p;
  int64_t size = isa_dtype_valid(ap->dtype) ? isa_dtype_bytes(ap->dtype) : 0;
  /* A pattern of a tile counts from the memory's beginning, a slice from the tile's. */
  int64_t offset = ap->offset - (s->first ? p->tiles[ap->base - 1].offset : 0);
  unsigned most = s->first ? ISA_MAX_DIMS - 1 : ISA_MAX_DIMS;
  /* What .ap() can say: whole elements of the tensor's own size, fixed, within the assembler's
   * numbers. */
  if (size == 0 || size != isa_dtype_bytes(s->dtype) || offset % size ||
      offset / size < INT32_MIN || offset / size > INT64_C(1) << 48 || ap->size_dim > 1 ||
      ap->dyn[0].kind != ISA_DYN_none || ap->ndim == 0 || ap->ndim > most)
    return false;
  for (unsigned d = 0; d < ap->ndim; d++)
    if (ap->dim[d].step < INT32_MIN || ap->dim[d].step > INT32_MAX || ap->dim[d].num == 0)
      return false;
  if (s->first) {
    isa_slice_dim *k = &s->dim[0];
    k->start = (int64_t)ap->part - p->tiles[ap->base - 1].part;
    k->len = ap->nparts;
    k->kept = true;
    k->sized = ap->size_dim == 1;
    if (k->start < 0 || k->len == 0 || k->start + k->len > k->size) return false;
  }
  isa_buf_puts(pr->out, s->name);
  put_items(pr, s, s->first, ap, inner);
  put_view(pr, s, ap);
  for (unsigned d = 0; d < ap->ndim; d++)
    isa_buf_printf(pr->out, "%s[%" PRId64 ",%" PRIu32 "]", d ? "," : ".ap([", ap->dim[d].step,
                   ap->dim[d].num);
  isa_buf_puts(pr->out, "]");
  if (offset) isa_buf_printf(pr->out, ", offset=%" PRId64, offset / size);
  isa_buf_puts(pr->out, ")");
  return true;
}

bool isa_pr_slice(const isa_pr *pr, const isa_ap *ap, bool inner) {
  isa_slice s;
  if (isa_slice_of(pr->p, ap, &s)) {
    isa_buf_puts(pr->out, s.name);
    put_items(pr, &s, s.ndim, ap, inner);
    put_view(pr, &s, ap);
    put_broadcasts(pr, &s);
  } else if (!s.name || !put_steps(pr, &s, ap, inner)) {
    return false;
  }
  isa_pr_index(pr, ap, inner);
  return true;
}

/* "[3, 64]": the element that a byte is of. */
static void put_element(const isa_tensor *t, uint64_t byte, isa_buf *out) {
  uint64_t size = isa_dtype_bytes(t->dtype), at = byte / size, below = isa_row_bytes(t) / size;
  for (unsigned d = 0; d < t->ndim; d++) {
    if (d) below /= (uint64_t)t->shape[d];
    isa_buf_printf(out, "%s%" PRIu64, d ? ", " : "[", at / below);
    at %= below;
  }
  isa_buf_puts(out, "]");
}

bool isa_slice_put_bytes(const isa_tensor *t, uint64_t lo, uint64_t hi, isa_buf *out) {
  uint64_t row = t->ndim > 1 ? isa_row_bytes(t) : 0;
  /* Whole rows are shorter to say than elements. */
  if (row && lo % row == 0 && hi % row == 0) {
    bool many = hi - lo > row;
    isa_buf_printf(out, "row%s %" PRIu64, many ? "s" : "", lo / row);
    if (many) isa_buf_printf(out, "..%" PRIu64, hi / row - 1);
    return many;
  }
  bool many = hi - lo > isa_dtype_bytes(t->dtype);
  put_element(t, lo, out);
  if (many) {
    isa_buf_puts(out, " to ");
    put_element(t, hi - 1, out);
  }
  return many;
}
