/* Ways to a memory that two engines share and that programs must order, as isa/ways.def has them:
 * who uses one waits for what the other engine did there last. */
#include "impl.h"

void as_k_find_ways(const as_kernel *k, as_k_verdict *r, uint32_t ops) {
  unsigned spaces = 0;
  for (unsigned u = 0; u < r->nuses; u++)
    spaces |= 1u << as_k_op(k, ops + k->uses[r->uses + u].operand)->space;
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (unsigned w = 0; w < ISA_NWAYS; w++) {
      const isa_way *way = &isa_ways[w];
      bool shares = way->ordered && isa_way_other(way, k->target->gen, e) < ISA_NENGINES;
      if (shares && (spaces >> way->space & 1)) r->ways[e] |= (uint8_t)(1u << w);
    }
}

/* The place of e among the two engines of a way. */
static unsigned side(unsigned way, unsigned e) { return isa_ways[way].engine[1] == e; }

void as_k_ways_find(const as_kernel *k, const as_k_ways *w, unsigned ways, unsigned e,
                    as_k_needs *n) {
  n->ways = 0;
  for (unsigned i = 0; ways >> i; i++) {
    uint32_t other = ways >> i & 1 ? w->last[i][!side(i, e)] : 0;
    if (!other) continue;
    const as_k_step *t = &k->steps[other - 1];
    if ((n->mask >> t->source & 1) && n->ordinal[t->source] >= t->ordinal) continue;
    as_k_need(n, t->source, t->ordinal, other - 1, 0);
    n->ways |= UINT32_C(1) << t->source;
    n->space[t->source] = isa_ways[i].space;
  }
}

void as_k_ways_note(as_k_ways *w, unsigned ways, unsigned e, uint32_t step) {
  for (unsigned i = 0; ways >> i; i++)
    if (ways >> i & 1) w->last[i][side(i, e)] = step + 1;
}
