/* Engines of the instructions that left theirs open: one pass in the order of the list, each to the
 * engine where it would be done soonest. */
#include "impl.h"

typedef struct choice {
  as_kernel *k;
  uint64_t busy[ISA_NENGINES]; /* so far */
  uint64_t free[ISA_NENGINES]; /* when each is free: later than that where ways made it wait */
  uint64_t way_free[ISA_NWAYS];
  uint8_t way_user[ISA_NWAYS];
  uint8_t *writer; /* of each buffer: the engine that wrote it last; ISA_NENGINES: DMA */
  unsigned turn;   /* of AS_KERNEL_ROUND_ROBIN */
} choice;

/* When engine e would begin with it, which uses these ways. */
static uint64_t begin_at(const choice *c, unsigned e, unsigned ways) {
  uint64_t t = c->free[e];
  for (unsigned w = 0; ways >> w; w++) {
    uint64_t way = c->way_free[w] + c->k->o.costs.delay;
    if ((ways >> w & 1) && c->way_free[w] && c->way_user[w] != e && way > t) t = way;
  }
  return t;
}

/* When engine e would be done with it. */
static uint64_t done_at(choice *c, unsigned e, const as_k_item *it, const as_k_use *uses,
                        unsigned n) {
  uint64_t t = begin_at(c, e, as_k_ways_of(c->k, e, uses, n)) +
               (uint64_t)as_k_ruling_of(c->k, it)->busy[e] * 1000;
  for (unsigned u = 0; u < n; u++) {
    unsigned from = c->writer[as_k_op(c->k, uses[u].operand)->buffer - 1];
    if (uses[u].reads && from != e && from < ISA_NENGINES) t += c->k->o.costs.delay;
  }
  return t;
}

static unsigned lowest(unsigned mask) {
  unsigned e = 0;
  while (!(mask >> e & 1)) e++;
  return e;
}

/* The engine of a mask where it would be done soonest. */
static unsigned soonest(choice *c, unsigned mask, const as_k_item *it, const as_k_use *uses,
                        unsigned n) {
  unsigned e = lowest(mask);
  uint64_t best = done_at(c, e, it, uses, n);
  for (unsigned g = e + 1; g < ISA_NENGINES; g++) {
    if (!(mask >> g & 1)) continue;
    uint64_t t = done_at(c, g, it, uses, n);
    if (t >= best) continue;
    best = t;
    e = g;
  }
  return e;
}

/* The next of a mask, one after another. */
static unsigned next_turn(choice *c, unsigned mask) {
  do c->turn = (c->turn + 1) % ISA_NENGINES;
  while (!(mask >> c->turn & 1));
  return c->turn;
}

static void choose(choice *c, as_k_item *it) {
  as_kernel *k = c->k;
  const as_k_use *uses = as_k_used(k, it);
  const as_k_ruling *r = as_k_ruling_of(k, it);
  unsigned n = it->nuses, e = it->engine;
  if (e == ISA_NENGINES) {
    e = k->o.flags & AS_KERNEL_FIXED_ENGINES ? lowest(r->engines)
        : k->o.flags & AS_KERNEL_ROUND_ROBIN ? next_turn(c, r->engines)
                                             : soonest(c, r->engines, it, uses, n);
    it->engine = (uint8_t)e;
  }
  unsigned ways = as_k_ways_of(k, e, uses, n);
  c->free[e] = begin_at(c, e, ways) + (uint64_t)r->busy[e] * 1000;
  c->busy[e] += (uint64_t)r->busy[e] * 1000;
  for (unsigned w = 0; ways >> w; w++)
    if (ways >> w & 1) {
      c->way_free[w] = c->free[e];
      c->way_user[w] = (uint8_t)e;
    }
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes) c->writer[as_k_op(k, uses[u].operand)->buffer - 1] = (uint8_t)e;
}

/* Control instructions with a result go where it is needed, others to sync. */
static void place_control(as_k_item *it) {
  const isa_form *f = isa_form_of(it->in.op);
  bool result = f->nfields && f->fields[0].kind == ISA_K_REG && !strcmp(f->fields[0].name, "rd");
  if (result)
    it->engine = ISA_NENGINES;
  else if (it->engine == ISA_NENGINES)
    it->engine = ISA_ENG_sync;
}

static void note_transfer(choice *c, const as_k_item *it) {
  const as_k_use *uses = as_k_used(c->k, it);
  unsigned n = it->nuses;
  for (unsigned u = 0; u < n; u++)
    if (uses[u].writes) c->writer[as_k_op(c->k, uses[u].operand)->buffer - 1] = ISA_NENGINES;
}

bool as_k_choose_engines(as_kernel *k) {
  choice c = {.k = k};
  c.writer = isa_zalloc(&k->al, (size_t)k->nbuffers + 1);
  if (!c.writer) return as_k_nomem(k);
  memset(c.writer, ISA_NENGINES, k->nbuffers);
  for (uint32_t i = 0; i < k->nitems; i++) {
    as_k_item *it = &k->items[i];
    if (it->in.op >= ISA_NOPS) continue;
    k->figures.instructions += !it->added;
    if (isa_op_is_control(it->in.op))
      place_control(it);
    else if (isa_op_is_dma(it->in.op))
      note_transfer(&c, it);
    else
      choose(&c, it);
  }
  memcpy(k->figures.busy, c.busy, sizeof c.busy);
  isa_free(&k->al, c.writer, (size_t)k->nbuffers + 1);
  return true;
}
