/* Registers: which engines need each, and where they keep it. A control instruction runs on every
 * engine that needs its result. */
#include "impl.h"

static bool need(as_kernel *k, uint32_t reg, unsigned engines) {
  if (!reg || (k->reg_needs[reg] & engines) == engines) return false;
  k->reg_needs[reg] |= (uint8_t)engines;
  return true;
}

/* Registers that the operands of an item read. */
static bool need_operands(as_kernel *k, const as_k_item *it, unsigned engines) {
  bool more = false;
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    const as_k_dyn *d = o->dyn ? &k->dyns[o->dyn - 1] : NULL;
    if (d && d->kind == ISA_DYN_reg) more |= need(k, d->reg, engines);
    if (d && d->size_dim) more |= need(k, d->size_reg, engines);
  }
  return more;
}

uint32_t as_k_result_of(const as_kernel *k, const as_k_item *it) {
  const isa_form *f = isa_form_of(it->op);
  unsigned n = 0;
  for (unsigned i = 0; i < f->nfields; i++) {
    if (f->fields[i].kind != ISA_K_REG) continue;
    if (strcmp(f->fields[i].name, "rd") == 0) return as_k_verdict_of(k, it)->regs[n & 1];
    n++;
  }
  return 0;
}

static bool need_fields(as_kernel *k, const as_k_item *it, unsigned engines) {
  const isa_form *f = isa_form_of(it->op);
  const as_k_verdict *r = as_k_verdict_of(k, it);
  bool more = false;
  unsigned n = 0;
  for (unsigned i = 0; i < f->nfields; i++) {
    const void *m = isa_member_c(&r->in, &f->fields[i]);
    if (f->fields[i].kind == ISA_K_REG) {
      if (strcmp(f->fields[i].name, "rd") != 0) more |= need(k, r->regs[n & 1], engines);
      n++;
    } else if (f->fields[i].kind == ISA_K_INT) {
      const isa_int *v = m;
      if (v->is_reg) more |= need(k, (uint32_t)v->v, engines);
    } else if (f->fields[i].kind == ISA_K_NUM) {
      const isa_num *v = m;
      if (v->kind == ISA_NUM_reg) more |= need(k, v->v, engines);
    }
  }
  return more;
}

static bool need_loop(as_kernel *k, const as_k_loop *l) {
  bool more = need(k, l->reg, l->engines);
  if (!l->is_while) {
    more |= need(k, l->range.start_reg, l->engines);
    more |= need(k, l->range.stop_reg, l->engines);
  }
  return more;
}

/* Engines that run an item in a loop run the loop. */
static bool run_loops(as_kernel *k, uint32_t open, unsigned engines) {
  bool more = false;
  /* From the inside out. */
  for (; open; open = k->loops[open - 1].parent) {
    more = more || (engines & ~k->loops[open - 1].engines);
    k->loops[open - 1].engines |= engines;
  }
  return more;
}

/* One look at all items; whether anything new was needed. */
static bool spread(as_kernel *k) {
  bool more = false;
  uint32_t open = 0;
  /* Backwards, since what an item needs is made before it; but in a loop also after it, hence the
   * rounds in as_k_registers. */
  for (uint32_t i = k->nitems; i-- > 0;) {
    as_k_item *it = &k->items[i];
    if (it->op == K_ENDLOOP) open = it->loop;
    if (it->op == K_LOOP || it->op == K_WHILE) open = k->loops[it->loop - 1].parent;
    if (it->op >= ISA_NOPS) continue;
    uint32_t rd = isa_op_is_control(it->op) ? as_k_result_of(k, it) : 0;
    /* A control instruction with a result runs where that is needed, and nowhere if nobody needs
     * it. */
    unsigned engines = rd ? k->reg_needs[rd] : it->engine < ISA_NENGINES ? 1u << it->engine : 0;
    if (rd) it->replicas = (uint8_t)engines;
    more |= run_loops(k, open, engines);
    more |= need_operands(k, it, engines);
    more |= need_fields(k, it, engines);
  }
  for (uint32_t l = 0; l < k->nloops; l++) more |= need_loop(k, &k->loops[l]);
  return more;
}

/* ---- Places -------------------------------------------------------------------------------- */

typedef struct life {
  uint32_t first, last;
} life;

static void touch(life *l, uint32_t reg, uint32_t first, uint32_t last) {
  if (!reg) return;
  /* K_NONE, the largest, is the first of a register that nothing touches. */
  if (l[reg].first > first) l[reg].first = first;
  if (l[reg].last < last) l[reg].last = last;
}

static void touch_item(const as_kernel *k, const as_k_item *it, life *l, uint32_t a, uint32_t b) {
  const isa_form *f = isa_form_of(it->op);
  const as_k_verdict *r = as_k_verdict_of(k, it);
  const as_k_use *uses;
  unsigned regs = 0;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    const as_k_dyn *d = o->dyn ? &k->dyns[o->dyn - 1] : NULL;
    if (d && d->kind == ISA_DYN_reg) touch(l, d->reg, a, b);
    if (d && d->size_dim) touch(l, d->size_reg, a, b);
  }
  for (unsigned i = 0; i < f->nfields; i++) {
    const void *m = isa_member_c(&r->in, &f->fields[i]);
    /* Two readings of the member; its kind tells which one holds. */
    const isa_int *v = m;
    const isa_num *num = m;
    if (f->fields[i].kind == ISA_K_REG) touch(l, r->regs[regs++ & 1], a, b);
    if (f->fields[i].kind == ISA_K_INT && v->is_reg) touch(l, (uint32_t)v->v, a, b);
    if (f->fields[i].kind == ISA_K_NUM && num->kind == ISA_NUM_reg) touch(l, num->v, a, b);
  }
}

/* A register in a loop lives through the outermost one. */
static void find_lives(const as_kernel *k, life *l) {
  uint32_t outer = 0;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    if (it->op == K_LOOP || it->op == K_WHILE) {
      const as_k_loop *lp = &k->loops[it->loop - 1];
      /* The outermost loop that is open. */
      if (!outer) outer = it->loop;
      uint32_t a = k->loops[outer - 1].first, b = k->loops[outer - 1].last;
      touch(l, lp->reg, a, b);
      if (!lp->is_while) touch(l, lp->range.start_reg, a, b);
      if (!lp->is_while) touch(l, lp->range.stop_reg, a, b);
    } else if (it->op == K_ENDLOOP) {
      if (it->loop == outer) outer = 0;
    } else if (outer) {
      touch_item(k, it, l, k->loops[outer - 1].first, k->loops[outer - 1].last);
    } else {
      touch_item(k, it, l, i, i);
    }
  }
}

enum { MOST_REGS = 40 }; /* the rest is for the values of semaphores in loops */

static bool give_places(as_kernel *k, const life *l, unsigned e) {
  uint32_t until[ISA_NREGS] = {0};           /* one past the last item that uses it */
  for (uint32_t r = 1; r <= k->nregs; r++) { /* numbers rise with the first use, or nearly so */
    if (!(k->reg_needs[r] >> e & 1) || l[r].first == K_NONE) continue;
    unsigned at = 0;
    /* The lowest place that is free from the first use on. */
    while (at < MOST_REGS && until[at] > l[r].first) at++;
    if (at == MOST_REGS)
      return as_k_fail(k, ISA_LIMIT, k->items[l[r].first].at,
                       "more than %d registers are in use at once on %s", MOST_REGS,
                       isa_engines[e].name);
    until[at] = l[r].last + 1;
    k->reg_places[(size_t)r * ISA_NENGINES + e] = (uint8_t)at;
    if (k->reg_free[e] <= at) k->reg_free[e] = (uint8_t)(at + 1);
  }
  return true;
}

bool as_k_registers(as_kernel *k) {
  size_t n = (size_t)k->nregs + 1;
  k->reg_needs = isa_zalloc(&k->al, n);
  k->reg_places = isa_zalloc(&k->al, n * ISA_NENGINES);
  if (!k->reg_needs || !k->reg_places) return as_k_nomem(k);
  /* Needs only grow, so that this ends. */
  while ((k->nregs || k->nloops) && spread(k)) {
  }
  /* Engines that need no register run as well. */
  for (uint32_t i = 0; i < k->nitems; i++)
    if (k->items[i].engine < ISA_NENGINES) k->engines |= 1u << k->items[i].engine;
  if (k->nregs == 0) return true;
  life *l = isa_zalloc(&k->al, n * sizeof *l);
  if (!l) return as_k_nomem(k);
  for (size_t r = 0; r < n; r++) l[r].first = K_NONE;
  find_lives(k, l);
  bool ok = true;
  for (unsigned e = 0; e < ISA_NENGINES && ok; e++) ok = give_places(k, l, e);
  isa_free(&k->al, l, n * sizeof *l);
  return ok;
}
