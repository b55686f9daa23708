/* The planner: operands of a collective that share bytes.
 *
 * An algorithm may write a part of dst before all of src has been sent. That is right where each
 * element of src lies where the same element of dst does: what is written there depends on what was
 * sent from there. Every other overlap depends on timing, and is refused. */
#include "plan_impl.h"

#include "../../isa/operand.h"

#include <inttypes.h>

/* Whether elements from `at` on of a are where the first n of b are. */
static bool same_elements(const isa_ap *a, uint64_t at, const isa_ap *b, uint64_t n) {
  isa_ap x, y;
  for (uint64_t e = 0, got; e < n; e += got) {
    got = vm_plan_cut(a, at + e, n - e, &x);
    uint64_t other = vm_plan_cut(b, e, got, &y);
    /* The shorter run of both is compared. */
    if (other < got) got = vm_plan_cut(a, at + e, other, &x);
    if (got != other || !isa_ap_equal(&x, &y)) return false;
  }
  return true;
}

/* Whether src is exactly this rank's part of dst, which is gathered along its free dimension. */
static bool same_columns(const cc_call *x, const isa_ap *dst, const isa_ap *src) {
  isa_ap d, s;
  isa_ap_merge(dst, &d);
  isa_ap_merge(src, &s);
  if (d.ndim != 1 || s.ndim > 1) return false;
  /* This rank's columns of dst. */
  uint32_t n = (uint32_t)(isa_ap_elems(&d) / x->ranks_n);
  d.dim[0].num = n;
  d.offset += (int64_t)x->place * n * d.dim[0].step * (int64_t)isa_dtype_bytes(d.dtype);
  isa_ap_merge(&d, &d);
  return isa_ap_equal(&d, &s);
}

/* Whether an operand may overlap its own src, as it does. */
static bool is_in_place(const cc_call *x, const isa_ap *dst, const isa_ap *src) {
  uint64_t n = cc_elems(src), part = n / x->ranks_n;
  switch (x->does) {
  case VM_CC_ALL_REDUCE: return same_elements(dst, 0, src, n);
  case VM_CC_REDUCE_SCATTER:
    return n % x->ranks_n == 0 && same_elements(src, x->place * part, dst, part);
  case VM_CC_ALL_GATHER:
    if (x->variable) return false;
    /* Its own part of dst is what it gives. */
    return x->dim == 1 ? same_columns(x, dst, src) : same_elements(dst, x->place * n, src, n);
  default: return false;
  }
}

/* A permute's rank that only sends or only gets does not read and write. */
static bool reads_and_writes(const cc_call *x, uint32_t rank) {
  bool sends = false, gets = false;
  if (isa_ops[x->op].form != ISA_FORM_PERMUTE) return x->ranks_n > 1;
  for (uint32_t i = 0; i < x->ranks_n; i += 2) {
    /* A pair with itself is a copy. */
    if (x->ranks[i] == x->ranks[i + 1]) continue;
    sends |= x->ranks[i] == rank;
    gets |= x->ranks[i + 1] == rank;
  }
  return sends && gets;
}

static const char *allowed(const cc_call *x) {
  if (x->does == VM_CC_ALL_REDUCE) return "dst may be src itself, not a part of it";
  if (x->does == VM_CC_ALL_GATHER && !x->variable)
    return "src may be this rank's part of dst, no other";
  if (x->does == VM_CC_REDUCE_SCATTER) return "dst may be this rank's part of src, no other";
  return "others may write dst before src is sent: use another tensor";
}

bool cc_check_overlap(const vm_plan *p, uint32_t rank, const cc_call *x, isa_error *e) {
  if (!reads_and_writes(x, rank)) return true;
  for (uint32_t i = 0; i < x->n; i++)
    for (uint32_t k = 0; k < x->n; k++) {
      const isa_ap *dst = cc_ap(p, rank, x, x->dst[i]), *src = cc_ap(p, rank, x, x->src[k]);
      if (x->joins && isa_ap_overlap(dst, cc_ap(p, rank, x, x->src1[k])))
        return cc_refuse(p, e, rank, x, "dst overlaps src1: %s", allowed(x));
      /* Only an operand's own src may lie there. */
      if (!isa_ap_overlap(dst, src) || (i == k && is_in_place(x, dst, src))) continue;
      if (x->n == 1) return cc_refuse(p, e, rank, x, "dst overlaps src: %s", allowed(x));
      return cc_refuse(p, e, rank, x,
                       "operand %" PRIu32 " of dst overlaps operand %" PRIu32 " of src: %s", i, k,
                       allowed(x));
    }
  return true;
}
