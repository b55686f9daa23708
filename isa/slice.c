/* Finds the slice that a pattern is. */
#include "slice.h"

#include <string.h>

/* Dimensions as declared, all whole. */
static bool declared(const isa_program *p, const isa_ap *ap, isa_slice *s) {
  int64_t stride = 1;
  if (ap->base == 0 || ap->base > (ap->space == ISA_HBM ? p->ntensors : p->ntiles)) return false;
  if (ap->space == ISA_HBM) {
    const isa_tensor *t = &p->tensors[ap->base - 1];
    s->name = t->name;
    s->ndim = t->ndim;
    s->dtype = t->dtype;
    for (unsigned d = 0; d < t->ndim && d < ISA_TENSOR_DIMS; d++) s->dim[d].size = t->shape[d];
  } else {
    const isa_tile *t = &p->tiles[ap->base - 1];
    s->name = t->name;
    s->ndim = t->ndim;
    s->dtype = t->dtype;
    s->first = 1;
    for (unsigned d = 0; d < t->ndim && d < ISA_TILE_DIMS; d++) s->dim[d].size = t->shape[d];
  }
  if (s->ndim < s->first || s->ndim > ISA_TENSOR_DIMS || !isa_dtype_valid(s->dtype) || !s->name)
    return false;
  /* Strides of a dense order, innermost first. */
  for (unsigned d = s->ndim; d-- > 0;) {
    isa_slice_dim *k = &s->dim[d];
    *k = (isa_slice_dim){
        .size = k->size, .stride = stride, .len = k->size, .step = 1, .dyn = -1, .rows = -1};
    /* The first dimension of a tile is its partitions, which have no stride. */
    if (k->size < 1 || (d >= s->first && __builtin_mul_overflow(stride, k->size, &stride)))
      return false;
  }
  /* The register that gives its rows, -1 without one. */
  if (!s->first) s->dim[0].rows = p->tensors[ap->base - 1].rows - 1;
  return true;
}

/* The pattern in elements of what it lies in, when it views them as another type. */
static bool unview(isa_ap *ap, unsigned dtype) {
  int64_t from = isa_dtype_bytes(dtype), to = isa_dtype_bytes(ap->dtype);
  if (from == 0 || to == 0 || ap->ndim == 0) return false;
  if (from == to) return true;
  isa_dim *last = &ap->dim[ap->ndim - 1];
  uint64_t bytes = (uint64_t)last->num * (uint64_t)to;
  /* Its innermost elements must be side by side and make whole ones of the other type. */
  if (last->step != 1 || bytes % (uint64_t)from || bytes / (uint64_t)from > UINT32_MAX ||
      ap->size_dim == ap->ndim + 1)
    return false;
  *last = (isa_dim){1, (uint32_t)(bytes / (uint64_t)from)};
  for (unsigned d = 0; d + 1 < ap->ndim; d++) {
    if (ap->dim[d].step == 0 || __builtin_mul_overflow(ap->dim[d].step, to, &ap->dim[d].step) ||
        ap->dim[d].step % from)
      return false;
    ap->dim[d].step /= from;
  }
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    if (__builtin_mul_overflow(ap->dyn[i].stride, to, &ap->dyn[i].stride) ||
        ap->dyn[i].stride % from)
      return false;
    ap->dyn[i].stride /= from;
  }
  return true;
}

/* Gives each dynamic offset the dimension whose stride it has, in order. */
static bool place_dynamic(isa_slice *s, const isa_ap *ap) {
  unsigned from = s->first;
  for (int i = 0; i < ISA_MAX_DYN; i++) {
    int found = -1;
    if (ap->dyn[i].kind == ISA_DYN_none) continue;
    /* Among equal strides the first dimension of more than one element. */
    for (unsigned d = from; d < s->ndim; d++)
      if (s->dim[d].stride == ap->dyn[i].stride && (found < 0 || s->dim[found].size == 1))
        found = (int)d;
    if (found < 0) return false;
    s->dim[found].dyn = i;
    from = (unsigned)found + 1;
  }
  return true;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* The start in each dimension; only one that moves may start before 0. */
static bool place_start(isa_slice *s, int64_t offset) {
  for (unsigned d = s->first; d < s->ndim; d++) {
    isa_slice_dim *k = &s->dim[d];
    if (k->dyn < 0)
      k->start = offset < 0 ? 0 : offset / k->stride;
    else
      k->start = floor_div(offset, k->stride);
    offset -= k->start * k->stride;
    if (k->dyn < 0 ? k->start >= k->size : k->start < -k->size || k->start > k->size) return false;
  }
  return offset == 0;
}

/* Whether a dimension of a pattern is a range of k; then takes it. */
static bool take(isa_slice_dim *k, const isa_dim *d) {
  k->times = 0;
  k->len = d->num;
  k->step = 1;
  if (d->step == 0) {
    /* One element, many times. */
    k->times = d->num;
    k->len = 1;
  } else if (d->num == 1) {
    /* A single element has the dimension's own step. */
    if (d->step != k->stride) return false;
  } else {
    if (d->step % k->stride || d->step < 0 || d->step / k->stride > INT32_MAX) return false;
    k->step = d->step / k->stride;
  }
  /* A start that moves is checked at run time. */
  return (k->dyn < 0 ? k->start : 0) + (k->len - 1) * k->step < k->size;
}

/* Assigns dimensions j on of the pattern to dimensions d on, in order; what is left has an index.
 */
static bool match(isa_slice *s, const isa_ap *ap, unsigned j, unsigned d) {
  if (d == s->ndim) return j == ap->ndim;
  isa_slice_dim *k = &s->dim[d];
  k->kept = true;
  k->sized = ap->size_dim == j + 2;
  if (j < ap->ndim && take(k, &ap->dim[j]) && match(s, ap, j + 1, d + 1)) return true;
  k->kept = k->sized = false;
  k->times = 0;
  /* More dimensions are left than the pattern has: this one has an index. */
  return s->ndim - d > ap->ndim - j && match(s, ap, j, d + 1);
}

static bool is_one_element(const isa_ap *ap) {
  return ap->ndim == 1 && ap->dim[0].num == 1 && ap->dim[0].step == 1 && ap->size_dim < 2;
}

static bool place_partitions(const isa_program *p, const isa_ap *ap, isa_slice *s) {
  if (!s->first) return true;
  isa_slice_dim *k = &s->dim[0];
  k->start = (int64_t)ap->part - p->tiles[ap->base - 1].part;
  k->len = ap->nparts;
  k->kept = true;
  k->sized = ap->size_dim == 1;
  return k->start >= 0 && k->len > 0 && k->start + k->len <= k->size;
}

bool isa_slice_of(const isa_program *p, const isa_ap *ap, isa_slice *out) {
  isa_ap own = *ap;
  memset(out, 0, sizeof *out);
  if (!declared(p, ap, out)) {
    out->name = NULL;
    return false;
  }
  int64_t size = isa_dtype_bytes(out->dtype), offset = ap->offset;
  if (out->first) offset -= p->tiles[ap->base - 1].offset;
  if (!isa_dtype_valid(ap->dtype) || ap->ndim > ISA_MAX_DIMS || !unview(&own, out->dtype) ||
      offset % size || !place_partitions(p, ap, out) || !place_dynamic(out, &own) ||
      !place_start(out, offset / size))
    return false;
  if (match(out, &own, 0, out->first)) return true;
  /* One element may have an index in each dimension. */
  if (!is_one_element(&own)) return false;
  own.ndim = 0;
  return match(out, &own, 0, out->first);
}
