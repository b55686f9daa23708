/* Engines of the instructions that left theirs open: one pass in the order of the list, each to the
 * engine where it would be done soonest. */
#include "impl.h"

typedef struct choice {
  as_kernel *k;
  uint64_t busy[ISA_NENGINES]; /* so far */
  uint8_t *writer; /* of each buffer: the engine that wrote it last; ISA_NENGINES: DMA */
} choice;

/* Elements of the longest operand in a partition, at one a cycle: without a model of costs. */
static uint64_t by_elements(const as_kernel *k, unsigned engine, const isa_core *c) {
  uint64_t n = 64;
  for (uint32_t i = 0; i < c->naps; i++)
    if (isa_ap_elems(&c->aps[i]) > n) n = isa_ap_elems(&c->aps[i]);
  return n * 1000000000u / k->target->khz[engine] * 1000;
}

/* in is bound in the scratch program. */
static uint64_t busy_on(as_kernel *k, unsigned engine, const isa_insn *in) {
  if (isa_op_is_control(in->op) || isa_op_is_dma(in->op)) return 0;
  if (k->o.costs.busy) return k->o.costs.busy(k->o.costs.ud, engine, k->scratch, in);
  return by_elements(k, engine, &k->scratch->cores[0]);
}

/* When engine e would be done with it. */
static uint64_t done_at(choice *c, unsigned e, const isa_insn *in, const k_use *uses, unsigned n) {
  uint64_t t = c->busy[e] + busy_on(c->k, e, in);
  for (unsigned u = 0; u < n; u++) {
    unsigned from = c->writer[k_op(c->k, uses[u].operand)->buffer - 1];
    if (uses[u].reads && from != e && from < ISA_NENGINES) t += c->k->o.costs.delay;
  }
  return t;
}

static unsigned lowest(unsigned mask) {
  unsigned e = 0;
  while (!(mask >> e & 1)) e++;
  return e;
}

static bool bind(as_kernel *k, const k_item *it, isa_insn *in) {
  k_binder b = {.k = k, .p = k->scratch};
  k->scratch->cores[0].naps = 0;
  return k_bind(&b, it, in) || k_nomem(k);
}

static bool choose(choice *c, k_item *it) {
  as_kernel *k = c->k;
  k_use uses[K_OPERANDS];
  isa_insn in;
  unsigned n = k_uses(k, it, uses), e = it->engine;
  if (!bind(k, it, &in)) return false;
  if (e == ISA_NENGINES) {
    e = lowest(it->engines);
    uint64_t best = done_at(c, e, &in, uses, n);
    for (unsigned g = e + 1; g < ISA_NENGINES && !(k->o.flags & AS_KERNEL_FIXED_ENGINES); g++) {
      if (!(it->engines >> g & 1)) continue;
      uint64_t t = done_at(c, g, &in, uses, n);
      if (t >= best) continue;
      best = t;
      e = g;
    }
    it->engine = (uint8_t)e;
  }
  c->busy[e] += busy_on(k, e, &in);
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes) c->writer[k_op(k, uses[u].operand)->buffer - 1] = (uint8_t)e;
  return true;
}

/* Control instructions with a result go where it is needed, others to sync. */
static void place_control(k_item *it) {
  const isa_form *f = isa_form_of(it->in.op);
  bool result = f->nfields && f->fields[0].kind == ISA_K_REG && !strcmp(f->fields[0].name, "rd");
  if (result)
    it->engine = ISA_NENGINES;
  else if (it->engine == ISA_NENGINES)
    it->engine = ISA_ENG_sync;
}

static void note_transfer(choice *c, const k_item *it) {
  k_use uses[K_OPERANDS];
  unsigned n = k_uses(c->k, it, uses);
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes) c->writer[k_op(c->k, uses[u].operand)->buffer - 1] = ISA_NENGINES;
}

bool k_choose_engines(as_kernel *k) {
  choice c = {.k = k};
  bool ok = true;
  c.writer = isa_zalloc(&k->al, (size_t)k->nbuffers + 1);
  if (!c.writer) return k_nomem(k);
  memset(c.writer, ISA_NENGINES, k->nbuffers);
  for (uint32_t i = 0; i < k->nitems && ok; i++) {
    k_item *it = &k->items[i];
    if (it->in.op >= ISA_NOPS) continue;
    k->figures.instructions++;
    if (isa_op_is_control(it->in.op))
      place_control(it);
    else if (isa_op_is_dma(it->in.op))
      note_transfer(&c, it);
    else
      ok = choose(&c, it);
  }
  memcpy(k->figures.busy, c.busy, sizeof c.busy);
  isa_free(&k->al, c.writer, (size_t)k->nbuffers + 1);
  return ok;
}
