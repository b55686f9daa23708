/* The planner: whether the collectives of the ranks agree. */
#include "plan_impl.h"

#include <inttypes.h>

static bool same_shapes(const vm_plan *p, uint32_t rank, const cc_call *x, uint32_t other,
                        const cc_call *y) {
  /* All that the steps depend on must be the same. */
  if (x->op != y->op || x->alu != y->alu || x->dtype != y->dtype || x->n != y->n ||
      x->dim != y->dim || x->both != y->both || x->placed != y->placed)
    return false;
  for (uint32_t i = 0; i < x->n; i++) {
    /* Operand by operand: as many elements, in the same kind of memory. */
    const isa_ap *a = cc_ap(p, rank, x, x->src[i]), *b = cc_ap(p, other, y, y->src[i]);
    if (cc_elems(a) != cc_elems(b) || a->space != b->space) return false;
  }
  return true;
}

static bool takes_part(const cc_call *x, uint32_t rank) {
  /* A permute's pairs name ranks that only send or only get. */
  for (uint32_t i = 0; i < x->ranks_n; i++)
    if (x->ranks[i] == rank) return true;
  return false;
}

/* A call of the same operation of the other rank, which no rank's call belongs to; NULL: none. */
static const cc_call *find_similar(const vm_plan *p, const cc_call *x, uint32_t rank,
                                   uint32_t other) {
  const cc_rank *r = &p->ranks[other];
  for (uint32_t i = 0; i < r->n; i++) /* one without a partner was likely meant */
    if (r->calls[i].op == x->op && !cc_match(p, &r->calls[i], rank)) return &r->calls[i];
  return NULL;
}

/* Another rank of its list has no call that belongs to x. */
static bool refuse_alone(const vm_plan *p, uint32_t rank, const cc_call *x, uint32_t other,
                         isa_error *e) {
  const cc_call *y = find_similar(p, x, rank, other);
  /* The text is built first, as refusals take one format. */
  isa_buf b;
  isa_buf_init(&b, &p->al);
  isa_buf_printf(&b, "it is number %" PRIu32 " of ranks ", x->nth + 1);
  cc_put_ranks(x->ranks, x->ranks_n, &b);
  if (x->stream) isa_buf_printf(&b, " in stream %u", (unsigned)x->stream);
  isa_buf_printf(&b, ", and rank %" PRIu32 " has no such collective", other);
  /* What it has instead often shows the mistake. */
  if (y) {
    isa_buf_puts(&b, "; its ");
    cc_put_call(p, other, y, &b);
    isa_buf_puts(&b, " is of ranks ");
    cc_put_ranks(y->ranks, y->ranks_n, &b);
    if (y->stream != x->stream) isa_buf_printf(&b, " in stream %u", (unsigned)y->stream);
    if (y->core != x->core) isa_buf_printf(&b, " on core %u", (unsigned)y->core);
  }
  cc_refuse(p, e, rank, x, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return false;
}

/* One run of bytes in HBM, however many dimensions say so. */
static bool is_dense(const isa_ap *ap) {
  isa_ap m;
  isa_ap_merge(ap, &m);
  return m.space == ISA_HBM && (m.ndim == 0 || (m.ndim == 1 && m.dim[0].step == 1));
}

static bool are_dense(const vm_plan *p, uint32_t rank, const cc_call *x) {
  for (uint32_t k = 0; k < x->n; k++)
    if (!is_dense(cc_ap(p, rank, x, x->dst[k])) || !is_dense(cc_ap(p, rank, x, x->src[k])))
      return false;
  return true;
}

void cc_find_dense(vm_plan *p, uint32_t rank, cc_call *x) {
  bool dense = true;
  if (x->ranks_n == 0 || rank != x->ranks[0]) return; /* the first one's call has it */
  /* The first rank's call keeps the answer for all of them. */
  for (uint32_t i = 0; dense && i < x->ranks_n; i++) {
    const cc_call *y = cc_match(p, x, x->ranks[i]);
    dense = !y || are_dense(p, x->ranks[i], y);
  }
  x->dense = dense;
}

bool cc_is_dense(const vm_plan *p, const cc_call *x) {
  /* Without a match there is no answer, and so no. */
  const cc_call *first = x->ranks_n ? cc_match(p, x, x->ranks[0]) : NULL;
  return first && first->dense;
}

bool cc_check_match(const vm_plan *p, uint32_t rank, const cc_call *x, isa_error *e) {
  isa_buf b;
  /* Ranks outside of the pairs do nothing. */
  if (!takes_part(x, rank)) return true;
  for (uint32_t i = 0; i < x->ranks_n; i++) {
    uint32_t other = x->ranks[i];
    /* A rank belongs with itself. */
    if (other == rank) continue;
    const cc_call *y = cc_match(p, x, other);
    /* The other one has too few, or has them in another order. */
    if (!y) return refuse_alone(p, rank, x, other, e);
    if (same_shapes(p, rank, x, other, y)) continue;
    isa_buf_init(&b, &p->al);
    cc_put_call(p, other, y, &b);
    cc_refuse(p, e, rank, x,
              "it is number %" PRIu32 " of its ranks and stream, but rank %" PRIu32 " has %s",
              x->nth + 1, other, isa_buf_str(&b));
    isa_buf_free(&b);
    return false;
  }
  return true;
}
