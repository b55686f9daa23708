/* Every item is checked against the machine's rules when it is emitted, on each engine and by each
 * kind of queue that it may go to, with tiles at provisional places. */
#include "../isa/operand.h"
#include "simplify.h"

#include <stdio.h>

/* Queues that transfers are verified on. */
enum { Q_STATIC, Q_SWDGE, Q_SYNC, Q_SCALAR, Q_COUNT };
static const uint8_t dge_of[Q_COUNT] = {ISA_DGE_none, ISA_DGE_swdge, ISA_DGE_hwdge, ISA_DGE_hwdge};
static const uint8_t owner_of[Q_COUNT] = {ISA_NENGINES, ISA_ENG_gpsimd, ISA_ENG_sync,
                                          ISA_ENG_scalar};

static bool open_scratch(as_kernel *k) {
  isa_program *p = k->scratch;
  /* A place holder: as_k_bind writes the tiles and patterns of the instruction. */
  isa_tile t = {.name = "tile", .dtype = ISA_float32, .space = ISA_SBUF, .ndim = 1, .shape = {1}};
  while (p->ntiles < K_OPERANDS)
    if (!isa_program_tile(p, &t)) return as_k_nomem(k);
  while (p->cores[0].nqueues < Q_COUNT) {
    uint32_t i = p->cores[0].nqueues;
    isa_queue q = {
        .name = "q", .dge = dge_of[i], .rings = (uint8_t)k->target->dma, .owner = owner_of[i]};
    if (!isa_program_queue(p, 0, &q)) return as_k_nomem(k);
  }
  return true;
}

static void set_queue(isa_insn *in, unsigned queue) {
  isa_t_QUEUE *to = isa_member_of(in, ISA_K_QUEUE);
  if (to) *to = (isa_t_QUEUE)queue;
}

static bool refuse(as_kernel *k, const as_k_draft *d, const isa_error *e) {
  const isa_op_row *row = &isa_ops[d->in.op];
  const char *field = e->field >= 0 ? isa_form_of(d->in.op)->fields[e->field].name : NULL;
  return as_k_fail(k, e->status ? e->status : ISA_ILLEGAL, d->it.at, "%s%s%s: %s", row->name,
                   field ? " " : "", field ? field : "", e->text);
}

/* The engines that may run it. When none may, it is checked once more to find the reason. */
static bool on_engines(as_kernel *k, const as_k_draft *d, const isa_insn *in, as_k_verdict *r) {
  const as_k_item *it = &d->it;
  unsigned mask = it->engine < ISA_NENGINES ? 1u << it->engine : isa_ops[in->op].engines, first;
  isa_error e = {.status = ISA_OK};
  /* For a control instruction whose engine is open sync stands for all. */
  if (isa_op_is_control(in->op)) mask = it->engine < ISA_NENGINES ? mask : ISA_MASK_Y;
  for (unsigned g = 0; g < ISA_NENGINES; g++)
    if ((mask >> g & 1) && isa_check_insn(k->scratch, 0, g, in, 0, NULL))
      r->engines |= (uint8_t)(1u << g);
  for (first = 0; !(mask >> first & 1);) first++;
  if (!r->engines && !isa_check_insn(k->scratch, 0, first, in, 0, &e)) return refuse(k, d, &e);
  /* It may run wherever it is needed. */
  if (isa_op_is_control(in->op) && it->engine == ISA_NENGINES) r->engines = ISA_MASK_ANY;
  return true;
}

/* Random numbers have a state for each engine, and gpsimd's integers are exact: there the choice of
 * an engine would change the bits. */
static void keep_bits(const as_kernel *k, as_k_verdict *r) {
  const isa_core *c = &k->scratch->cores[0];
  unsigned mask = r->engines;
  if (isa_op_is_control(r->in.op) || !(mask & (mask - 1))) return;
  /* The lowest bit: always the same engine. */
  if (isa_ops[r->in.op].rule == ISA_RULE_RNG) r->engines = (uint8_t)(mask & (0u - mask));
  for (uint32_t i = 0; i < c->naps; i++)
    if (isa_dtype_is_int(c->aps[i].dtype) && isa_dtype_bytes(c->aps[i].dtype) == 4 &&
        (mask & ~(unsigned)ISA_MASK_G))
      r->engines &= (uint8_t)~ISA_MASK_G;
}

/* What the item asks of its queue. */
static bool allows(const as_kernel *k, const as_k_item *it, unsigned q) {
  static const uint8_t flag[] = {AS_REC_STATIC, AS_REC_SWDGE, AS_REC_HWDGE};
  unsigned wanted = it->flags & (AS_REC_STATIC | AS_REC_SWDGE | AS_REC_HWDGE);
  const as_k_queue *own = it->queue ? &k->queues[it->queue - 1] : NULL;
  if (dge_of[q] == ISA_DGE_hwdge && !k->target->hwdge) return false;
  if (own)
    return own->dge == dge_of[q] && (owner_of[q] == ISA_NENGINES || owner_of[q] == own->engine);
  if (wanted && !(wanted & flag[dge_of[q]])) return false;
  return it->engine == ISA_NENGINES || owner_of[q] == ISA_NENGINES || owner_of[q] == it->engine;
}

static bool on_queue(as_kernel *k, isa_insn *in, unsigned q, isa_error *e) {
  set_queue(in, q);
  return isa_check_insn(k->scratch, 0, owner_of[q] < ISA_NENGINES ? owner_of[q] : ISA_ENG_sync, in,
                        0, e);
}

static bool on_queues(as_kernel *k, const as_k_draft *d, isa_insn *in, as_k_verdict *r) {
  static const uint8_t order[Q_COUNT] = {Q_SYNC, Q_SCALAR, Q_STATIC, Q_SWDGE};
  isa_error e = {.status = ISA_OK};
  unsigned first = Q_COUNT;
  const as_k_item *it = &d->it;
  const as_k_queue *own = it->queue ? &k->queues[it->queue - 1] : NULL;
  if (own && it->engine < ISA_NENGINES && own->engine != it->engine)
    return as_k_fail(k, ISA_ARG, it->at, "%s: the engine is %s, but its queue's is %s",
                     isa_ops[in->op].name, isa_engines[it->engine].name,
                     isa_engines[own->engine].name);
  for (unsigned i = 0; i < Q_COUNT; i++) {
    unsigned q = order[i];
    if (!allows(k, it, q)) continue;
    if (first == Q_COUNT) first = q;
    bool known = q == Q_SCALAR && (r->modes >> ISA_DGE_hwdge & 1); /* the rules are sync's */
    if (!known && !on_queue(k, in, q, NULL)) continue;
    r->modes |= (uint8_t)(1u << dge_of[q]);
    r->engines |= (uint8_t)(owner_of[q] < ISA_NENGINES ? 1u << owner_of[q] : ISA_MASK_ANY);
  }
  if (r->modes) return true;
  if (first == Q_COUNT) /* what was asked for leaves none */
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s: %s has no queue of that kind which the engine %s may trigger",
                     isa_ops[in->op].name, k->target->name,
                     it->engine < ISA_NENGINES ? isa_engines[it->engine].name : "given");
  on_queue(k, in, first, &e);
  return refuse(k, d, &e);
}

/* Elements of the longest operand in a partition, at one a cycle: without a model of costs. */
static uint64_t by_elements(const as_kernel *k, unsigned engine) {
  const isa_core *c = &k->scratch->cores[0];
  uint64_t n = 64;
  for (uint32_t i = 0; i < c->naps; i++) /* at least 64 cycles */
    if (isa_ap_elems(&c->aps[i]) > n) n = isa_ap_elems(&c->aps[i]);
  return n * 1000000000u / k->target->khz[engine] * 1000;
}

static void find_costs(const as_kernel *k, const isa_insn *in, as_k_verdict *r) {
  const as_kernel_costs *c = &k->o.costs;
  for (unsigned g = 0; g < ISA_ENG_sync; g++) {
    if (!(r->engines >> g & 1) || isa_op_is_control(in->op)) continue;
    uint64_t fs = c->busy ? c->busy(c->ud, g, k->scratch, in) : by_elements(k, g);
    /* Picoseconds, as many as fit. */
    r->busy[g] = fs / 1000 < UINT32_MAX ? (uint32_t)(fs / 1000) : UINT32_MAX;
  }
}

static bool rule(as_kernel *k, const as_k_draft *d, as_k_verdict *r) {
  as_k_binder b = {.k = k, .p = k->scratch};
  isa_insn in;
  if (d->in.op == ISA_OP_core_barrier && !d->in.u.BARRIER.data)
    return as_k_fail(k, ISA_ILLEGAL, d->it.at,
                     "core_barrier needs data in a kernel: what one core writes before it and the "
                     "other reads after it; only accesses to that are ordered");
  if (!open_scratch(k)) return false;
  k->scratch->cores[0].naps = 0;
  if (!as_k_bind(&b, r, d->it.ops, &in)) return as_k_nomem(k);
  if (isa_op_is_dma(in.op)) return on_queues(k, d, &in, r);
  if (!on_engines(k, d, &in, r)) return false;
  keep_bits(k, r);
  find_costs(k, &in, r);
  /* One engine is no choice: it is taken at once. */
  if (d->it.engine == ISA_NENGINES && !(r->engines & (r->engines - 1)))
    for (unsigned g = 0; g < ISA_NENGINES; g++)
      if (r->engines >> g & 1) r->engine = (uint8_t)g;
  return true;
}

uint32_t as_kernel_engines(const as_kernel *k, uint32_t item, uint64_t busy[ISA_NENGINES]) {
  const as_k_item *it = &k->items[item];
  const as_k_verdict *r = as_k_verdict_of(k, it);
  memset(busy, 0, ISA_NENGINES * sizeof *busy);
  if (isa_op_is_dma(it->op)) busy[0] = as_k_dma_time(k, r, it->ops);
  if (isa_op_is_dma(it->op) || isa_op_is_control(it->op)) return 0;
  for (unsigned e = 0; e < ISA_ENG_sync; e++) busy[e] = (uint64_t)r->busy[e] * 1000;
  /* No kernel can ask for those of the other. */
  unsigned others = r->other ? k->verdicts[r->other - 1].engines : 0;
  return r->engines & ~(unsigned)r->avoid & ~others;
}

/* Numbers that every engine takes to float32 as they are; a NaN that a copy brings keeps its bits
 * only where it is copied as it is. */
static bool converts(const as_kernel *k, unsigned op) {
  const isa_core *c = &k->scratch->cores[0];
  for (uint32_t i = 0; i < c->naps; i++)
    if (isa_dtypes[c->aps[i].dtype].cls != ISA_FLOAT || isa_dtype_bytes(c->aps[i].dtype) < 2)
      return false;
  if (op != ISA_OP_tensor_copy || c->aps[0].dtype != c->aps[1].dtype) return true;
  return c->aps[1].space == ISA_PSUM;
}

/* The instruction that stands for an item's on an engine which has none like it, if compilers take
 * that; its cost there becomes one of r. Not where the list is to stay as it was recorded. */
static bool find_other(as_kernel *k, const as_k_draft *d, as_k_verdict *r, as_k_verdict *other) {
  as_k_binder b = {.k = k, .p = k->scratch};
  unsigned e;
  isa_insn in;
  if (d->it.engine != ISA_NENGINES || !(k->o.passes & AS_PASS_USUAL) ||
      !as_k_asked(k, ~(uint32_t)AS_PASS_CHOICES))
    return false;
  *other = *r;
  /* Nothing stands for it, the engine runs the item itself, or its bits would differ. */
  if (!isa_insn_instead(&d->in, k->target->gen, &other->in, &e) || (r->engines >> e & 1) ||
      !converts(k, d->in.op))
    return false;
  k->scratch->cores[0].naps = 0;
  other->engines = (uint8_t)(1u << e);
  if (!as_k_bind(&b, other, d->it.ops, &in) || !isa_check_insn(k->scratch, 0, e, &in, 0, NULL))
    return false;
  find_costs(k, &in, other);
  r->engines |= other->engines;
  r->busy[e] = other->busy[e];
  r->engine = ISA_NENGINES;
  return true;
}

bool as_k_verify(as_kernel *k, as_k_draft *d, as_k_key *key) {
  as_k_item *it = &d->it;
  it->op = d->in.op;
  /* Without a known verdict the rules are asked. */
  it->verdict = as_k_find_verdict(k, key);
  if (!it->verdict) {
    as_k_verdict r = {.in = d->in, .engine = it->engine, .queue = it->queue}, other;
    memcpy(r.regs, d->regs, sizeof r.regs);
    if (!rule(k, d, &r)) return false;
    bool more = find_other(k, d, &r, &other);
    if (!as_k_add_verdict(k, key, &r, it->ops, &it->verdict)) return false;
    if (more && !as_k_add_other(k, &other, it->ops, it->verdict)) return false;
  }
  it->engine = as_k_verdict_of(k, it)->engine;
  return true;
}
