/* Access patterns: size, extent, canonical form, overlap. */
#include "isa.h"

#include <string.h>

/* The question comes first: a sum that overflows has no defined value. */
static bool add_ok(int64_t a, int64_t b, int64_t *out) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
  *out = a + b;
  return true;
}

/* a * n; the one product that is refused without need is INT64_MIN itself.
 * The sign is kept apart, so that one comparison bounds both directions. */
static bool mul_ok(int64_t a, uint64_t n, int64_t *out) {
  uint64_t m = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
  if (m != 0 && n > (uint64_t)INT64_MAX / m) return false;
  *out = a < 0 ? -(int64_t)(m * n) : (int64_t)(m * n);
  return true;
}

/* UINT64_MAX: every limit then refuses it. */
uint64_t isa_ap_elems(const isa_ap *ap) {
  uint64_t n = 1;
  for (unsigned d = 0; d < ap->ndim; d++) {
    if (ap->dim[d].num != 0 && n > UINT64_MAX / ap->dim[d].num) return UINT64_MAX;
    n *= ap->dim[d].num;
  }
  return n;
}

bool isa_ap_extent(const isa_ap *ap, int64_t *lo, int64_t *hi) {
  /* Ends in bytes: hi is one past the element that is farthest. */
  uint64_t size = isa_dtype_bytes(ap->dtype);
  *lo = 0;
  *hi = (int64_t)size;
  for (unsigned d = 0; d < ap->ndim; d++) {
    uint64_t last = ap->dim[d].num > 0 ? ap->dim[d].num - 1 : 0;
    /* A step backwards moves the lower end, any other the upper one. */
    int64_t *end = ap->dim[d].step < 0 ? lo : hi, far;
    if (!mul_ok(ap->dim[d].step, last * size, &far) || !add_ok(*end, far, end)) return false;
  }
  return true;
}

void isa_ap_merge(const isa_ap *ap, isa_ap *out) {
  isa_ap r = *ap;
  *out = r;
  /* A register or an index speaks of a dimension by its number. */
  if (ap->size_dim >= 2 || ap->index_kind != ISA_INDEX_none) return; /* its dimensions have names */
  isa_dim kept[ISA_MAX_DIMS];                                        /* innermost first */
  unsigned n = 0;
  for (unsigned d = ap->ndim; d-- > 0;) {
    isa_dim outer = r.dim[d];
    int64_t next;
    /* A dimension of one element goes nowhere. */
    if (outer.num == 1) continue;
    /* The outer dimension goes on where the inner one ends: one longer dimension. */
    if (n > 0 && mul_ok(kept[n - 1].step, kept[n - 1].num, &next) && next == outer.step &&
        (uint64_t)kept[n - 1].num * outer.num <= UINT32_MAX)
      kept[n - 1].num *= outer.num;
    else
      kept[n++] = outer;
  }
  /* A single element. */
  if (n == 0) kept[n++] = (isa_dim){1, 1};
  memset(out->dim, 0, sizeof out->dim);
  out->ndim = (uint8_t)n;
  for (unsigned d = 0; d < n; d++) out->dim[d] = kept[n - 1 - d];
}

static bool same_dims(const isa_ap *a, const isa_ap *b) {
  if (a->ndim != b->ndim) return false;
  for (unsigned d = 0; d < a->ndim; d++)
    if (a->dim[d].step != b->dim[d].step || a->dim[d].num != b->dim[d].num) return false;
  return true;
}

static bool same_dyn(const isa_ap *a, const isa_ap *b) {
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *x = &a->dyn[i], *y = &b->dyn[i];
    if (x->kind != y->kind || x->reg != y->reg || x->ap != y->ap || x->stride != y->stride)
      return false;
  }
  return true;
}

static bool same_dynamics(const isa_ap *a, const isa_ap *b) {
  return a->index_kind == b->index_kind && a->index_dim == b->index_dim && a->index == b->index &&
         a->size_dim == b->size_dim && a->size_reg == b->size_reg && same_dyn(a, b);
}

static bool same_place(const isa_ap *a, const isa_ap *b) {
  return a->space == b->space && a->peer == b->peer && a->rank == b->rank && a->part == b->part &&
         a->nparts == b->nparts && a->offset == b->offset;
}

bool isa_ap_equal(const isa_ap *a, const isa_ap *b) {
  return a->dtype == b->dtype && a->base == b->base && same_place(a, b) && same_dims(a, b) &&
         same_dynamics(a, b);
}

/* Whether the pattern's first byte is known: a dynamic size only leaves out a part of it. */
static bool start_is_fixed(const isa_ap *ap) {
  for (unsigned i = 0; i < ISA_MAX_DYN; i++)
    if (ap->dyn[i].kind != ISA_DYN_none) return false;
  return ap->index_kind == ISA_INDEX_none;
}

bool isa_ap_is_static(const isa_ap *ap) { return ap->size_dim == 0 && start_is_fixed(ap); }

/* ---- Overlap ------------------------------------------------------------------------------ */

enum { OVERLAP_WORK = 1 << 20 }; /* boxes compared before the answer is "may meet" */

void isa_byteset_make(int64_t start, int64_t size, const isa_dim *dims, unsigned n,
                      isa_byteset *s) {
  isa_dim kept[ISA_MAX_DIMS];
  unsigned k = 0;
  s->start = start;
  s->run = size;
  for (unsigned d = 0; d < n; d++) {
    /* Neither adds a place. */
    if (dims[d].num <= 1 || dims[d].step == 0) continue;
    int64_t step = dims[d].step;
    /* The same places, from the other end. */
    if (step < 0) s->start += step * ((int64_t)dims[d].num - 1);
    isa_dim dim = {step < 0 ? -step : step, dims[d].num};
    unsigned at = k++; /* the longest step first */
    for (; at > 0 && kept[at - 1].step < dim.step; at--) kept[at] = kept[at - 1];
    kept[at] = dim;
  }
  for (; k > 0 && kept[k - 1].step <= s->run; k--) /* the runs touch: one longer run */
    s->run += kept[k - 1].step * ((int64_t)kept[k - 1].num - 1);
  s->n = k;
  s->span[k] = s->run;
  for (unsigned d = k; d-- > 0;) {
    s->step[d] = kept[d].step;
    s->num[d] = kept[d].num;
    s->span[d] = s->span[d + 1] + s->step[d] * (s->num[d] - 1);
  }
}

/* False when the places do not fit in 61 bits, so that no difference of two overflows. */
static bool to_byteset(const isa_ap *ap, isa_byteset *s) {
  int64_t lo, hi, far = INT64_MAX / 4, size = (int64_t)isa_dtype_bytes(ap->dtype);
  if (!isa_ap_extent(ap, &lo, &hi) || lo < -far || hi > far || ap->offset < -far ||
      ap->offset > far)
    return false;
  isa_dim dims[ISA_MAX_DIMS];
  for (unsigned d = 0; d < ap->ndim; d++)
    dims[d] = (isa_dim){ap->dim[d].num > 1 ? ap->dim[d].step * size : 0, ap->dim[d].num};
  isa_byteset_make(ap->offset, size, dims, ap->ndim, s);
  return true;
}

/* Whether the parts of a and b from dimensions da and db on meet when they start at pa and pb.
 * The longer box is cut along its outermost dimension, and only the pieces that reach the other
 * box are looked at. */
static bool meet(const isa_byteset *a, unsigned da, int64_t pa, const isa_byteset *b, unsigned db,
                 int64_t pb, uint32_t *work) {
  /* Their spans are apart. */
  if (pa + a->span[da] <= pb || pb + b->span[db] <= pa) return false;
  if (*work == 0) return true;
  --*work;
  if (da == a->n && db == b->n) return true;
  /* The longer one becomes a. */
  if (da == a->n || (db < b->n && b->span[db] > a->span[da]))
    return meet(b, db, pb, a, da, pa, work);
  int64_t step = a->step[da], before = pb - pa - a->span[da + 1];
  /* The first piece that ends after b's beginning, and the last one that begins before its end. */
  int64_t first = before < 0 ? 0 : before / step + 1;
  int64_t last = (pb + b->span[db] - 1 - pa) / step;
  if (last >= a->num[da]) last = a->num[da] - 1;
  for (int64_t i = first; i <= last; i++)
    if (meet(a, da + 1, pa + i * step, b, db, pb, work)) return true;
  return false;
}

/* a modulo b > 0, from 0 on. Most steps are powers of two, and a division is slow.
 * For a negative a, too: -3 mod 8 is 5. */
static int64_t modulo(int64_t a, int64_t b) {
  if ((b & (b - 1)) == 0) return a & (b - 1);
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b != 0) {
    /* Equal steps are common, and need no division. */
    int64_t r = a == b ? 0 : modulo(a, b);
    a = b;
    b = r;
  }
  return a;
}

/* All places are equal modulo the steps' common divisor g, so two runs whose residues do not
 * meet never do: even and odd elements, different columns of one matrix.
 * Example: a has elements 0 4 8 of two bytes, b has 2 6 10: g is 4, and 2 mod 4 keeps
 * them apart. */
static bool apart_by_residue(const isa_byteset *a, const isa_byteset *b, int64_t distance) {
  int64_t g = 0;
  for (unsigned d = 0; d < a->n; d++) g = gcd(a->step[d], g);
  for (unsigned d = 0; d < b->n; d++) g = gcd(b->step[d], g);
  /* Two single runs: meet compares them. */
  if (g == 0) return false;
  int64_t gap = modulo(distance, g); /* from a's run to the next run of b */
  /* The runs of b lie wholly between those of a. */
  return gap >= a->run && gap + b->run <= g;
}

/* The cheap question first: it answers most pairs of columns. */
bool isa_byteset_meet_at(const isa_byteset *a, int64_t pa, const isa_byteset *b, int64_t pb) {
  uint32_t work = OVERLAP_WORK;
  return !apart_by_residue(a, b, pb - pa) && meet(a, 0, pa, b, 0, pb, &work);
}

bool isa_byteset_meet(const isa_byteset *a, const isa_byteset *b) {
  return isa_byteset_meet_at(a, a->start, b, b->start);
}

/* Whether the distance of the two is known: neither moves, or both by the same bytes.
 * Elements of one register, but strides in elements of different size, move apart. */
static bool known_distance(const isa_ap *a, const isa_ap *b) {
  if (start_is_fixed(a) && start_is_fixed(b)) return true;
  return a->index_kind == ISA_INDEX_none && b->index_kind == ISA_INDEX_none && same_dyn(a, b) &&
         isa_dtype_bytes(a->dtype) == isa_dtype_bytes(b->dtype);
}

/* After merging: [4, 8] of a dense tile and [32] are the same bytes in the same order. */
static bool same_bytes(const isa_ap *a, const isa_ap *b) {
  isa_ap x, y;
  isa_ap_merge(a, &x);
  isa_ap_merge(b, &y);
  return isa_dtype_bytes(a->dtype) == isa_dtype_bytes(b->dtype) && same_place(a, b) &&
         same_dims(&x, &y) && same_dynamics(a, b);
}

int isa_ap_overlap(const isa_ap *a, const isa_ap *b) {
  /* Other memories have no byte in common. */
  if (a->space != b->space || a->peer != b->peer || a->rank != b->rank) return 0;
  /* Nor have other tensors, and other partitions. */
  if (a->space == ISA_HBM ? a->base != b->base
                          : a->part >= b->part + b->nparts || b->part >= a->part + a->nparts)
    return 0;
  if (same_bytes(a, b)) return 2;
  bool still = known_distance(a, b);
  /* A pattern stays in its own tile or tensor, wherever a register moves it. */
  if (!still && a->base != b->base && a->base != 0 && b->base != 0) return 0;
  isa_byteset x, y;
  /* 1: they may meet. */
  if (!still || !to_byteset(a, &x) || !to_byteset(b, &y)) return 1;
  return isa_byteset_meet(&x, &y);
}
