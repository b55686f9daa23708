/* Bounds of loops at run time that their bodies write; and a loop whose first round differs: there
 * a matmul that adds later on finds nothing to add to. The loop becomes two, one of at most one
 * round and one of the others:
 *
 *   for i = a; i < b; i += s          for i = a; i < min(a + s, b); i += s
 *                                     for i = a + s; i < b; i += s
 */
#include "impl.h"

/* ---- Items that are put in ------------------------------------------------------------------ */

bool as_k_open_gap(as_kernel *k, uint32_t at, uint32_t n) {
  while (k->cap_items - k->nitems < n)
    if (!isa_array_grow(&k->al, &k->items, k->cap_items, &k->cap_items, sizeof *k->items))
      return as_k_nomem(k);
  memmove(&k->items[at + n], &k->items[at], (k->nitems - at) * sizeof *k->items);
  k->nitems += n;
  /* A loop around the gap grows; one that begins at it moves. */
  for (uint32_t l = 0; l < k->nloops; l++) {
    k->loops[l].first += k->loops[l].first >= at ? n : 0;
    k->loops[l].last += k->loops[l].last >= at ? n : 0;
  }
  for (uint32_t o = 0; o < k->norders; o++) {
    k->orders[o].earlier += k->orders[o].earlier >= at ? n : 0;
    k->orders[o].later += k->orders[o].later >= at ? n : 0;
  }
  return true;
}

/* ---- Copies --------------------------------------------------------------------------------- */

typedef struct stretch { /* of items, and where its copy is */
  uint32_t first, last, by;
} stretch;

static bool within(const stretch *s, uint32_t item) { return s->first <= item && item <= s->last; }

/* The copy does what the items do, in the same order. */
static bool copy_orders(as_kernel *k, const stretch *s) {
  for (uint32_t o = 0, n = k->norders; o < n; o++) {
    as_k_order c = k->orders[o];
    bool earlier = within(s, c.earlier), later = within(s, c.later);
    if (!earlier && !later) continue;
    c.earlier += earlier ? s->by : 0;
    c.later += later ? s->by : 0;
    if (!K_GROW(k, orders, norders, cap_orders)) return false;
    k->orders[k->norders++] = c;
  }
  return true;
}

/* Loops of the copy have numbers from `n` on, in the order of those that they copy. */
static bool copy_loops(as_kernel *k, const stretch *s, uint32_t n) {
  for (uint32_t l = 0; l < n; l++) {
    if (!within(s, k->loops[l].first)) continue;
    as_k_loop c = k->loops[l];
    /* The copy of its parent: it was copied before it, since parents have smaller numbers. */
    for (uint32_t m = n; m < k->nloops; m++)
      if (c.parent && k->loops[m].first == k->loops[c.parent - 1].first + s->by) {
        c.parent = m + 1;
        break;
      }
    c.first += s->by;
    c.last += s->by;
    if (!K_GROW(k, loops, nloops, cap_loops)) return false;
    k->loops[k->nloops++] = c;
    /* Both ends of the copied loop name the copy. */
    k->items[c.first].loop = k->items[c.last].loop = k->nloops;
  }
  return true;
}

static bool copy_items(as_kernel *k, const stretch *s) {
  uint32_t n = s->last + 1 - s->first;
  if (!as_k_open_gap(k, s->last + 1, n)) return false;
  memcpy(&k->items[s->first + s->by], &k->items[s->first], n * sizeof *k->items);
  /* They are counted as the builder's, not as the caller's. */
  for (uint32_t i = 0; i < n; i++) k->items[s->first + s->by + i].added = true;
  return copy_loops(k, s, k->nloops) && copy_orders(k, s);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

static bool put_control(as_kernel *k, uint32_t at, const isa_insn *in, uint32_t rd, uint32_t ra) {
  as_k_draft d = {.it = {.engine = ISA_NENGINES, .added = true}, .in = *in, .regs = {rd, ra}};
  as_k_key key = {.n = 0};
  d.it.at = k->items[at].at;
  d.it.number = k->items[at].number;
  /* A key without words is in no table of verdicts: this one is made anew. */
  if (!as_k_verify(k, &d, &key) || !as_k_open_gap(k, at, 1)) return false;
  k->items[at] = d.it;
  return true;
}

static bool put_mov(as_kernel *k, uint32_t at, uint32_t rd, isa_int from) {
  isa_insn in = {.op = ISA_OP_mov};
  in.u.MOV.a = from;
  return put_control(k, at, &in, rd, 0);
}

static bool put_alu(as_kernel *k, uint32_t at, unsigned op, uint32_t rd, isa_int b) {
  isa_insn in = {.op = (uint16_t)op};
  in.u.REGALU.b = b;
  return put_control(k, at, &in, rd, rd);
}

/* Where a bound is in a register, where the second round begins and the first loop ends. */
static bool bounds_in_registers(as_kernel *k, uint32_t first, const as_kernel_range *r,
                                uint32_t *second, uint32_t *end) {
  /* start + step and min(stop, start + step): as instructions before the loop, on registers of
   * their own. */
  isa_int start = {r->start_reg != 0, r->start_reg ? (int32_t)r->start_reg : r->start};
  isa_int stop = {r->stop_reg != 0, r->stop_reg ? (int32_t)r->stop_reg : r->stop};
  *second = ++k->nregs;
  *end = ++k->nregs;
  return put_mov(k, first, *second, start) &&
         put_alu(k, first + 1, ISA_OP_add, *second, (isa_int){false, r->step}) &&
         put_mov(k, first + 2, *end, stop) &&
         put_alu(k, first + 3, r->step > 0 ? ISA_OP_min : ISA_OP_max, *end,
                 (isa_int){true, (int32_t)*second});
}

static bool writes_register(const as_kernel *k, const as_k_loop *l, uint32_t reg) {
  for (uint32_t i = l->first; i < l->last; i++) {
    const as_k_item *it = &k->items[i];
    if (it->op < ISA_NOPS && isa_op_is_control(it->op) && as_k_result_of(k, it) == reg) return true;
  }
  return false;
}

/* for i = a; i < r; ...  in whose body r is written:  copy = r;  for i = a; i < copy; ... */
bool as_k_copy_bounds(as_kernel *k) {
  for (uint32_t i = 0; i < k->nloops; i++) {
    as_k_loop *l = &k->loops[i];
    uint32_t stop = l->is_while ? 0 : l->range.stop_reg;
    if (!stop || !writes_register(k, l, stop)) continue;
    l->range.stop_reg = ++k->nregs;
    if (!put_mov(k, l->first, k->nregs, (isa_int){true, (int32_t)stop})) return false;
  }
  return true;
}

bool as_k_peel(as_kernel *k, uint32_t loop) {
  as_kernel_range r = k->loops[loop - 1].range, one = r;
  uint32_t second = 0, end = 0;
  if (r.start_reg || r.stop_reg) {
    if (!bounds_in_registers(k, k->loops[loop - 1].first, &r, &second, &end)) return false;
    /* The first loop ends where the second begins, or at its own end. */
    one.stop_reg = end;
    r.start_reg = second;
  } else {
    int64_t next = (int64_t)r.start + r.step; /* may lie beyond 32 bits */
    bool more = r.step > 0 ? next < r.stop : next > r.stop;
    /* Else the loop has one round at most, and the second loop has none. */
    if (more) one.stop = (int32_t)next;
    r.start = more ? (int32_t)next : r.stop;
  }
  const as_k_loop *l = &k->loops[loop - 1];
  stretch s = {l->first, l->last, l->last + 1 - l->first};
  uint32_t copy = k->nloops;
  if (!copy_items(k, &s)) return false;
  while (k->loops[copy].first != s.first + s.by) copy++;
  k->loops[loop - 1].range = one;
  k->loops[loop - 1].once = true;
  k->loops[copy].range = r;
  k->loops[copy].rest = true;
  return true;
}
