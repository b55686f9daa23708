/* Constraints of collectives: what the public reference asks of their operands. */
#include "../operand.h"
#include "rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Replica groups ----------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Sorted, equal ranks are neighbours: 65,536 of them take no n * n comparisons. */
/* Whether one of n ranks comes twice; *which is it. Sorts them. */
static bool twice(uint32_t *ranks, uint32_t n, uint32_t *which) {
  qsort(ranks, n, sizeof *ranks, by_rank);
  for (uint32_t i = 1; i < n; i++)
    if (ranks[i] == ranks[i - 1]) {
      *which = ranks[i];
      return true;
    }
  return false;
}

bool isa_check_group(const isa_group *g, isa_error *e) {
  static const char none[] = "a replica group has lists of at least one rank each";
  const isa_alloc al = isa_alloc_default();
  /* 64 bits: sizes come from a file, and 32 bits of them could wrap around to the right
   * sum. */
  uint64_t sum = 0;
  uint32_t rank = 0;
  if (g->nlists == 0 || g->nranks > ISA_MAX_RANKS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, none);
  for (uint32_t i = 0; i < g->nlists; i++) {
    if (g->sizes[i] == 0) return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, none);
    sum += g->sizes[i];
  }
  if (sum != g->nranks)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu32 " ranks, but its lists have %" PRIu64,
                    g->nranks, sum);
  uint32_t *sorted = isa_zalloc(&al, g->nranks * sizeof *sorted);
  if (!sorted) return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "no memory for replica groups");
  /* A copy is sorted: the order of the ranks in a list has a meaning. */
  for (uint32_t i = 0; i < g->nranks; i++) sorted[i] = g->ranks[i];
  bool bad = twice(sorted, g->nranks, &rank);
  isa_free(&al, sorted, g->nranks * sizeof *sorted);
  if (bad)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "rank %" PRIu32 " appears twice: a rank can be in only one list", rank);
  return true;
}

/* ---- Operands ----------------------------------------------------------------------------- */

typedef struct list {
  int f;
  uint32_t n;
  const uint32_t *ap;
} list;

/* By name, not by number: the forms of collectives have their lists at different
 * places. */
static list list_of(const isa_ck *c, const char *name) {
  list l = {.f = -1};
  for (int i = 0; i < c->form->nfields && l.f < 0; i++)
    if (c->form->fields[i].kind == ISA_K_APS && strcmp(c->form->fields[i].name, name) == 0) l.f = i;
  if (l.f < 0) return l;
  isa_ref r = *(const isa_ref *)isa_member_c(c->in, &c->form->fields[l.f]);
  l.n = r.count;
  l.ap = isa_program_list(c->p, r, ISA_K_APS);
  return l;
}

/* One buffer of a list. */
static const isa_ap *item(const isa_ck *c, const list *l, uint32_t i) {
  return isa_ck_ap(c, l->ap[i]);
}

/* Over all partitions: two shapes may differ as long as they have as many elements. */
static uint64_t total(const isa_ap *ap) { return isa_ap_elems(ap) * isa_ck_parts(ap); }

static const isa_group *group_of(const isa_ck *c) {
  int f = isa_field_of(c->in->op, ISA_K_GROUP, 0);
  return &c->p->groups[*(const isa_t_GROUP *)isa_member_c(c->in, &c->form->fields[f])];
}

/* The ranks of each list of the group; 0 after a refusal, when they differ. */
static uint32_t ranks_of(const isa_ck *c) {
  const isa_group *g = group_of(c);
  for (uint32_t i = 1; i < g->nlists; i++)
    /* Equal parts: rank i's part lies at i times its size, so a longer list would shift
     * all others. */
    if (g->sizes[i] != g->sizes[0]) {
      isa_fail(c->e, ISA_ILLEGAL, isa_field_of(c->in->op, ISA_K_GROUP, 0),
               "group %.60s has lists of %" PRIu32 " and of %" PRIu32
               " ranks: all lists must have equally many",
               g->name, g->sizes[0], g->sizes[i]);
      return 0;
    }
  return g->sizes[0];
}

/* src and dst in pairs: as many, of one type, in one memory, several in hbm alone, none that a
 * register moves. `times` dst's elements make src's times `of`. */
static bool pairs(const isa_ck *c, const list *dst, const list *src, uint64_t times, uint64_t of) {
  if (src->n != dst->n)
    return isa_fail(c->e, ISA_ILLEGAL, src->f,
                    "%" PRIu32 " of %s, but %" PRIu32 " of dsts: there must be as many", src->n,
                    c->form->fields[src->f].name, dst->n);
  unsigned space = item(c, dst, 0)->space;
  for (uint32_t i = 0; i < src->n; i++) {
    const isa_ap *s = item(c, src, i), *d = item(c, dst, i);
    if (s->space != space || d->space != space)
      return isa_fail(c->e, ISA_ILLEGAL, src->f,
                      "operand %" PRIu32 ": all must be in hbm, or all in sbuf", i);
    if (!isa_ap_is_static(s) || !isa_ap_is_static(d))
      return isa_fail(c->e, ISA_ILLEGAL, src->f,
                      "operand %" PRIu32
                      ": operands of a collective are at fixed places, which no register moves",
                      i);
    if (s->dtype != d->dtype)
      return isa_fail(c->e, ISA_ILLEGAL, src->f,
                      "operand %" PRIu32 ": %s to %s: a collective does not "
                      "convert",
                      i, isa_dtypes[s->dtype].name, isa_dtypes[d->dtype].name);
    /* 0: the metadata says how many. */
    if (times && total(d) * times != total(s) * of)
      return isa_fail(c->e, ISA_ILLEGAL, src->f,
                      "operand %" PRIu32 ": %" PRIu64 " elements, but its dst has %" PRIu64
                      "; it needs %" PRIu64,
                      i, total(s), total(d), total(s) * of / times);
  }
  return true;
}

/* Coalesced collectives are in hbm; what they write is apart. */
static bool coalesced(const isa_ck *c, const list *dst) {
  /* In HBM several tensors may go in one collective, as one message; SBUF has one
   * operand. */
  if (dst->n > 1 && item(c, dst, 0)->space != ISA_HBM)
    return isa_fail(c->e, ISA_ILLEGAL, dst->f,
                    "%" PRIu32 " operands in sbuf: there can be only one", dst->n);
  /* Two results in one place would leave the one that happens to come last. */
  for (uint32_t i = 0; i < dst->n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (isa_ap_overlap(item(c, dst, i), item(c, dst, k)))
        return isa_fail(c->e, ISA_ILLEGAL, dst->f,
                        "operands %" PRIu32 " and %" PRIu32
                        " share bytes: each byte must be written once",
                        k, i);
  return true;
}

static bool one_in_hbm(const isa_ck *c, const list *dst, const list *src) {
  /* These take no lists: one buffer on each side. */
  if (dst->n == 1 && src->n == 1) return true;
  return isa_fail(c->e, ISA_ILLEGAL, dst->n == 1 ? src->f : dst->f, "%s has one src and one dst",
                  c->row->name);
}

static bool check_op(const isa_ck *c, int f, bool wanted) {
  /* A collective that only moves data has the field too, as forms are shared. */
  unsigned op = isa_ck_byte(c, f);
  if (!wanted && op != ISA_ALU_bypass)
    return isa_fail(c->e, ISA_ILLEGAL, f, "op=%s: %s computes nothing", isa_aluops[op].name,
                    c->row->name);
  if (wanted && op != ISA_ALU_add && op != ISA_ALU_min && op != ISA_ALU_max)
    return isa_fail(c->e, ISA_ILLEGAL, f, "op=%s: %s has add, min and max", isa_aluops[op].name,
                    c->row->name);
  return true;
}

static bool sums(const isa_ck *c, const list *dst) {
  unsigned dtype = item(c, dst, 0)->dtype;
  /* Four numbers in an element would be added as one integer. */
  if (!isa_ck_packed(dtype)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, dst->f, "%s: packed types are not summed",
                  isa_dtypes[dtype].name);
}

static bool check_dim(const isa_ck *c, unsigned most) {
  unsigned dim = isa_ck_byte(c, F(COLLECTIVE, dim));
  if (dim <= most) return true;
  return isa_fail(c->e, ISA_ILLEGAL, F(COLLECTIVE, dim), "dim=%u: %s takes %s here", dim,
                  c->row->name, most ? "0 or 1" : "0");
}

/* ---- Classes ------------------------------------------------------------------------------- */

bool isa_rule_ccred(const isa_ck *c) {
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  return pairs(c, &dst, &src, 1, 1) && coalesced(c, &dst) && sums(c, &dst) &&
         check_op(c, F(COLLECTIVE, op), true) && check_dim(c, 0) &&
         isa_ck_prio(c, F(COLLECTIVE, prio));
}

bool isa_rule_ccgath(const isa_ck *c) {
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  uint32_t n = ranks_of(c);
  /* dst has the elements of all n ranks. */
  return n && pairs(c, &dst, &src, 1, n) && coalesced(c, &dst) &&
         check_op(c, F(COLLECTIVE, op), false) &&
         check_dim(c, item(c, &dst, 0)->space == ISA_SBUF ? 1 : 0) &&
         isa_ck_prio(c, F(COLLECTIVE, prio));
}

bool isa_rule_ccscat(const isa_ck *c) {
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  uint32_t n = ranks_of(c);
  /* dst has one part of n. */
  return n && pairs(c, &dst, &src, n, 1) && coalesced(c, &dst) && sums(c, &dst) &&
         check_op(c, F(COLLECTIVE, op), true) && check_dim(c, 0) &&
         isa_ck_prio(c, F(COLLECTIVE, prio));
}

bool isa_rule_ccall(const isa_ck *c) {
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  uint32_t n = ranks_of(c);
  if (!n || !pairs(c, &dst, &src, 1, 1) || !coalesced(c, &dst)) return false;
  if (item(c, &dst, 0)->space != ISA_HBM)
    return isa_fail(c->e, ISA_ILLEGAL, dst.f,
                    "operands in sbuf: those of all_to_all must be in hbm");
  for (uint32_t i = 0; i < src.n; i++)
    if (total(item(c, &src, i)) % n)
      return isa_fail(c->e, ISA_ILLEGAL, src.f,
                      "operand %" PRIu32 ": %" PRIu64 " elements for %" PRIu32
                      " ranks: each must get the same number",
                      i, total(item(c, &src, i)), n);
  return check_op(c, F(COLLECTIVE, op), false) && check_dim(c, 0) &&
         isa_ck_prio(c, F(COLLECTIVE, prio));
}

/* Elements that are next to one another, in order. */
/* The metadata are read as a row of words; a stride between them would be a second
 * pattern. */
static bool is_dense(const isa_ap *ap) {
  isa_ap m;
  isa_ap_merge(ap, &m);
  return m.ndim == 0 || (m.ndim == 1 && (m.dim[0].step == 1 || m.dim[0].num == 1));
}

bool isa_rule_ccv(const isa_ck *c) {
  /* Rows of metadata: send counts and their displacements, receive counts, and with
   * has_rdispls the receiver's displacements. */
  const struct isa_COLLECTIVE_V *u = &c->in->u.COLLECTIVE_V;
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  const isa_ap *m = isa_ck_ap(c, u->metadata);
  uint32_t n = ranks_of(c), rows = u->has_rdispls ? 4 : 3;
  bool gathers = c->in->op == ISA_OP_all_gather_v;
  int f = F(COLLECTIVE_V, metadata);
  if (!n || !one_in_hbm(c, &dst, &src) || !pairs(c, &dst, &src, 0, 0)) return false;
  if (gathers && n != 4)
    return isa_fail(c->e, ISA_ILLEGAL, F(COLLECTIVE_V, group),
                    "lists of %" PRIu32 " ranks: all_gather_v takes 4", n);
  if (gathers && u->has_rdispls)
    return isa_fail(c->e, ISA_ILLEGAL, F(COLLECTIVE_V, has_rdispls),
                    "has_rdispls: all_gather_v does not take it");
  if (u->has_rdispls && c->p->target->gen < ISA_GEN4)
    return isa_fail(c->e, ISA_ILLEGAL, F(COLLECTIVE_V, has_rdispls),
                    "has_rdispls needs gen4: %s is gen%d", c->p->target->name, c->p->target->gen);
  if (m->dtype != ISA_uint32)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: metadata must be uint32", isa_dtypes[m->dtype].name);
  if (m->space == ISA_SBUF && m->nparts != 1)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d partitions: metadata in sbuf must lie in one",
                    m->nparts);
  uint64_t have = isa_ap_elems(m); /* a fourth row may be there without has_rdispls */
  bool fits = have == (uint64_t)rows * n || (!gathers && have == (uint64_t)4 * n);
  if (!isa_ap_is_static(m) || !is_dense(m) || !fits)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRIu64 " elements: metadata has %" PRIu32 "%s rows of %" PRIu32
                    " ranks, one after another",
                    have, rows, rows == 3 && !gathers ? " or 4" : "", n);
  return isa_ck_prio(c, F(COLLECTIVE_V, prio));
}

/* No rank is twice among those that send, nor among those that receive. */
/* A rank that received twice would have its buffer written by two at once. */
static bool check_permutation(const isa_ck *c, const isa_pair *p, uint32_t n) {
  const isa_alloc al = isa_alloc_default();
  static const char *const verbs[2] = {"sends", "receives"};
  uint32_t *ranks = isa_zalloc(&al, n * sizeof *ranks), rank = 0;
  bool bad = false;
  if (!ranks) return isa_fail(c->e, ISA_NOMEM, ISA_NOFIELD, "no memory for pairs of ranks");
  for (unsigned k = 0; k < 2 && !bad; k++) {
    for (uint32_t i = 0; i < n; i++) ranks[i] = k ? p[i].to : p[i].from;
    bad = twice(ranks, n, &rank);
    if (bad)
      isa_fail(c->e, ISA_ILLEGAL, F(PERMUTE, pairs), "rank %" PRIu32 " %s twice", rank, verbs[k]);
  }
  isa_free(&al, ranks, n * sizeof *ranks);
  return !bad;
}

bool isa_rule_ccperm(const isa_ck *c) {
  const struct isa_PERMUTE *u = &c->in->u.PERMUTE;
  list dst = list_of(c, "dsts"), src = list_of(c, "srcs");
  return one_in_hbm(c, &dst, &src) && pairs(c, &dst, &src, 1, 1) &&
         check_permutation(c, isa_program_list(c->p, u->pairs, ISA_K_PAIRS), u->pairs.count) &&
         isa_ck_prio(c, F(PERMUTE, prio));
}

/* Channels 0, 1, ... and as many operands. */
static bool check_channels(const isa_ck *c, int f, isa_ref r, const list *dst) {
  const int32_t *channel = isa_program_list(c->p, r, ISA_K_I32S);
  uint32_t n = r.count ? r.count : 1;
  for (uint32_t i = 0; i < r.count; i++)
    if (channel[i] != (int32_t)i)
      return isa_fail(c->e, ISA_ILLEGAL, f,
                      "channel %" PRId32 " at place %" PRIu32 ": channels are 0, 1 and so on",
                      channel[i], i);
  if (dst->n == n) return true;
  return isa_fail(c->e, ISA_ILLEGAL, dst->f,
                  "%" PRIu32 " operands for %" PRIu32 " channel%s: there must be one for each",
                  dst->n, n, n > 1 ? "s" : "");
}

bool isa_rule_ccring(const isa_ck *c) {
  list dst = list_of(c, "dsts");
  /* Both kinds of ring share this rule: the one that sums has two sources for each
   * destination. */
  if (c->row->form == ISA_FORM_RING) {
    list src = list_of(c, "srcs");
    return check_channels(c, F(RING, channels), c->in->u.RING.channels, &dst) &&
           pairs(c, &dst, &src, 1, 1) && isa_ck_prio(c, F(RING, prio));
  }
  list a = list_of(c, "srcs0"), b = list_of(c, "srcs1");
  return check_channels(c, F(RING_REDUCE, channels), c->in->u.RING_REDUCE.channels, &dst) &&
         pairs(c, &dst, &a, 1, 1) && pairs(c, &dst, &b, 1, 1) && sums(c, &dst) &&
         check_op(c, F(RING_REDUCE, op), true) && isa_ck_prio(c, F(RING_REDUCE, prio));
}
