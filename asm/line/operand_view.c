/* What may follow an operand:
 *
 *   .ap([[step,num],...], offset=n)   other dimensions over the same place: the free ones of a tile
 *                                     (its partitions stay), all of a tensor; offset in elements
 *   .view(dtype)                      the same bytes as another type; the last dimension scales
 *   .broadcast(dim, n)                a dimension of one element n times; a tile's partitions are 0
 *   .gather(idx, dim)                 DMA: an index vector instead of dimension dim (0 if left out)
 *   .peer                             DMA: the same place of the other core's SBUF
 *   .rank[tp.next]                    CC sequencers: the same tensor or place of another rank
 *   .indirect(idx, n)                 gen4: elements at the offsets of an index; n of them, in one
 *                                     dimension, instead of the operand's own shape */
#include "stmt.h"

#include <string.h>

#include "../../isa/view.h"

static bool view_ap(as_cur *c, as_operand *o, const as_tok *at) {
  int64_t pair[ISA_MAX_DIMS][2], offset = 0;
  /* Partitions take one of a tile's five dimensions. */
  unsigned n, max = as_operand_is_tile(o) ? ISA_MAX_DIMS - 1 : ISA_MAX_DIMS;
  if (!as_steps(c, pair, max, &n)) return false;
  if (as_take(c, ',')) {
    if (!as_take_name(c, "offset") || !as_take(c, '='))
      return as_expected(c->j, c->t, "`offset=` in `.ap`");
    /* 2^48: far beyond any tensor, and no overflow in bytes. */
    if (!as_int_in(c, "the offset", INT32_MIN, INT64_C(1) << 48, &offset)) return false;
  }
  if (o->ap.size_dim > 1)
    return as_error(c->j, at->pos, at->len,
                    "`.ap` cannot replace a dimension whose size is a register");
  /* The dimensions are replaced, the place stays. */
  for (unsigned d = 0; d < n; d++) o->dim[d] = (isa_dim){pair[d][0], (uint32_t)pair[d][1]};
  o->ndim = n;
  o->ap.offset += offset * (int64_t)isa_dtype_bytes(o->ap.dtype);
  return true;
}

/* The free dimensions and what moves them, without a tile's partitions. */
static soma_view view_of(const as_operand *o) {
  soma_view v = {.dtype = o->ap.dtype, .ndim = (uint8_t)o->ndim};
  v.offset = o->ap.offset / (int64_t)isa_dtype_bytes(o->ap.dtype);
  for (unsigned d = 0; d < o->ndim; d++) v.dim[d] = (soma_view_dim){o->dim[d].num, o->dim[d].step};
  /* Strides of registers are in elements as well. */
  for (; v.ndyn < o->ndyn; v.ndyn++)
    v.dyn[v.ndyn] = (soma_view_dyn){.kind = SOMA_DYN_REGISTER, .stride = o->ap.dyn[v.ndyn].stride};
  /* 1 is the partitions. */
  if (o->ap.size_dim > 1)
    v.dyn[v.ndyn++] = (soma_view_dyn){.kind = SOMA_DYN_SIZE, .dim = o->ap.size_dim - 2};
  return v;
}

static bool view_type(as_cur *c, as_operand *o, const as_tok *at) {
  const as_tok *t = c->t;
  int dtype = as_at_name(c) ? isa_dtype_find(t->text, strlen(t->text)) : -1;
  if (dtype < 0) return as_expected(c->j, t, "a data type in `.view`");
  c->t++;
  soma_view v = view_of(o);
  soma_view_error e = {0};
  /* The message is one's own: of the last dimension as it is written. */
  if (!soma_view_as(&v, (unsigned)dtype, &e) || (v.ndim && v.dim[v.ndim - 1].num > UINT32_MAX)) {
    isa_dim last = o->ndim ? o->dim[o->ndim - 1] : (isa_dim){1, 1};
    return as_error(
        c->j, at->pos, as_span_of(at, c->t),
        "%s cannot be viewed as %s: the last dimension (%u elements, step %lld) and the steps "
        "of the others must be whole elements of %u bytes",
        isa_dtypes[o->ap.dtype].name, isa_dtypes[dtype].name, last.num, (long long)last.step,
        isa_dtype_bytes((unsigned)dtype));
  }
  o->ap.dtype = (uint8_t)dtype;
  o->ndim = v.ndim;
  for (unsigned d = 0; d < v.ndim; d++)
    o->dim[d] = (isa_dim){v.dim[d].step, (uint32_t)v.dim[d].num};
  for (unsigned d = 0; d < o->ndyn; d++) o->ap.dyn[d].stride = v.dyn[d].stride;
  return true;
}

static bool view_broadcast(as_cur *c, as_operand *o, const as_tok *at) {
  int64_t dim, n;
  bool tile = as_operand_is_tile(o);
  /* As in the source: x[128, 1, 64] has dimensions 0, 1 and 2. */
  int64_t ndim = (int64_t)o->ndim + (tile ? 1 : 0);
  /* A tile counts its partitions as dimension 0. */
  if (!as_int_in(c, "the dimension", 0, ndim - 1, &dim) || !as_need(c, ',', "the dimension") ||
      !as_int_in(c, "the count", 1, UINT32_MAX, &n))
    return false;
  if (tile && dim == 0) {
    as_error(c->j, at->pos, at->len, "partitions cannot be broadcast; the partition step is 1");
    return false;
  }
  isa_dim *d = &o->dim[dim - (tile ? 1 : 0)];
  /* Only one element can be repeated without a choice. */
  if (d->num != 1) {
    as_error(c->j, at->pos, at->len, "dimension %lld has %u elements; only one can be broadcast",
             (long long)dim, d->num);
    return false;
  }
  /* A step of 0 repeats the element. */
  *d = (isa_dim){0, (uint32_t)n};
  return true;
}

static bool view_index(as_cur *c, as_operand *o, const as_tok *at, unsigned kind) {
  if (o->ap.index_kind) return as_error(c->j, at->pos, at->len, "an operand has at most one index");
  int64_t dim = 0;
  if (!as_operand_parse(c, &o->ap.index)) return false;
  if (kind == ISA_INDEX_gather && as_take(c, ',') &&
      !as_int_in(c, "the dimension", 0, ISA_MAX_DIMS - 1, &dim))
    return false;
  if (kind == ISA_INDEX_indirect && as_take(c, ',')) {
    /* n offsets in place of the operand's own elements.
     * The index may select more elements than there are, or fewer. */
    int64_t n;
    if (!as_int_in(c, "the number of elements", 1, UINT16_MAX, &n)) return false;
    soma_view v = view_of(o);
    if (!soma_view_dense(&v) || o->ap.size_dim > 1)
      return as_error(
          c->j, at->pos, at->len,
          "`.indirect(INDEX, n)` needs dense elements before it, and no size in a register");
    o->dim[0] = (isa_dim){1, (uint32_t)n};
    o->ndim = 1;
  }
  o->ap.index_kind = (uint8_t)kind;
  o->ap.index_dim = (uint8_t)dim;
  return true;
}

static bool view_peer(as_cur *c, as_operand *o, const as_tok *at) {
  /* The reason is told: each memory has its own. */
  const char *why = o->ap.space == ISA_HBM    ? "both cores see one HBM"
                    : o->ap.space == ISA_PSUM ? "no transfer reaches the other core's PSUM"
                    : o->ap.peer              ? "it is given twice"
                                              : NULL;
  if (why) return as_error(c->j, at->pos, at->len, "`.peer` is the other core's SBUF: %s", why);
  o->ap.peer = 1;
  return true;
}

static bool view_rank(as_cur *c, as_operand *o, const as_tok *at) {
  uint32_t slot;
  if (o->ap.rank) return as_error(c->j, at->pos, at->len, "`.rank` is given twice");
  if (!as_peer(c, &slot)) return false;
  o->ap.rank = (uint16_t)slot;
  return true;
}

static bool one_view(as_cur *c, as_operand *o, const char *name, const as_tok *at) {
  if (strcmp(name, "ap") == 0) return view_ap(c, o, at);
  if (strcmp(name, "view") == 0) return view_type(c, o, at);
  if (strcmp(name, "broadcast") == 0) return view_broadcast(c, o, at);
  if (strcmp(name, "gather") == 0) return view_index(c, o, at, ISA_INDEX_gather);
  return view_index(c, o, at, ISA_INDEX_indirect);
}

bool as_operand_views(as_cur *c, as_operand *o) {
  static const char *const names[] = {"ap",       "view", "broadcast", "gather",
                                      "indirect", "peer", "rank"};
  /* Any number of views, from left to right. */
  while (as_at_punct(c, '.') && c->t[1].kind == AS_T_NAME) {
    const as_tok *at = c->t + 1;
    const char *name = at->text;
    c->t += 2;
    as_near w = as_near_open(name, strlen(name));
    bool known = false;
    /* All names are looked at, so that a slip finds its word. */
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
      known = known || strcmp(name, names[i]) == 0;
      as_near_try(&w, names[i]);
    }
    if (!known)
      return as_error(c->j, at->pos, at->len, "an operand has no `.%s`%s", name,
                      as_near_text(c->j, &w));
    /* These two have no arguments in parentheses. */
    if (strcmp(name, "peer") == 0) {
      if (!view_peer(c, o, at)) return false;
      continue;
    }
    if (strcmp(name, "rank") == 0) {
      if (!view_rank(c, o, at)) return false;
      continue;
    }
    if (!as_need(c, '(', "the name of a view") || !one_view(c, o, name, at) ||
        !as_need(c, ')', "the arguments of a view"))
      return false;
  }
  return true;
}
