/* Engines of the instructions that left theirs open: one pass in the order of the list, each to the
 * engine where it would be done soonest, once what it reads is written and what it writes is read.
 */
#include "impl.h"

/* When a buffer was last written and read, and by which engine; ISA_NENGINES: DMA. */
typedef struct life {
  uint64_t written, read;
  uint8_t writer, reader;
} life;

typedef struct choice {
  as_kernel *k;
  uint64_t busy[ISA_NENGINES]; /* so far */
  uint64_t free[ISA_NENGINES]; /* when each is free: later than that where ways made it wait */
  uint64_t way_free[ISA_NWAYS];
  uint8_t way_user[ISA_NWAYS];
  life *lives;   /* of each buffer */
  uint64_t dma;  /* when all transfers so far are through the DMA engines */
  unsigned turn; /* of AS_KERNEL_ROUND_ROBIN */
  bool met;      /* there was a core_barrier; all are on this engine */
  uint8_t barriers;
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

static life *life_of(const choice *c, const as_k_item *it, const as_k_use *u) {
  return &c->lives[as_k_use_op(c->k, it, u)->buffer - 1];
}

/* When what an item on e uses is there: what it reads is written, what it writes is read. */
static uint64_t ready_at(const choice *c, unsigned e, const as_k_item *it) {
  uint64_t t = 0, delay = c->k->o.costs.delay;
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(c->k, it, &uses); u < n; u++) {
    const life *l = life_of(c, it, &uses[u]);
    uint64_t written = l->written + (l->written && l->writer != e ? delay : 0);
    uint64_t read = l->read + (l->read && l->reader != e ? delay : 0);
    if (written > t) t = written;
    if (uses[u].writes && read > t) t = read;
  }
  return t;
}

/* When engine e would be done with it. */
static uint64_t done_at(const choice *c, unsigned e, const as_k_item *it) {
  const as_k_ruling *r = as_k_ruling_of(c->k, it);
  uint64_t begin = begin_at(c, e, r->ways[e]), ready = ready_at(c, e, it);
  return (begin > ready ? begin : ready) + (uint64_t)r->busy[e] * 1000;
}

/* Notes that an item on e is done at a time. */
static void note(const choice *c, unsigned e, const as_k_item *it, uint64_t done) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(c->k, it, &uses); u < n; u++) {
    life *l = life_of(c, it, &uses[u]);
    if (uses[u].reads && done > l->read) {
      l->read = done;
      l->reader = (uint8_t)e;
    }
    if (uses[u].writes) {
      l->written = done;
      l->writer = (uint8_t)e;
    }
  }
}

static unsigned lowest(unsigned mask) {
  unsigned e = 0;
  while (!(mask >> e & 1)) e++;
  return e;
}

/* The engine of a mask where it would be done soonest. */
static unsigned soonest(choice *c, unsigned mask, const as_k_item *it) {
  unsigned e = lowest(mask);
  if (!(mask & (mask - 1))) return e;
  uint64_t best = done_at(c, e, it);
  for (unsigned g = e + 1; g < ISA_NENGINES; g++) {
    if (!(mask >> g & 1)) continue;
    uint64_t t = done_at(c, g, it);
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
  const as_k_ruling *r = as_k_ruling_of(k, it);
  unsigned e = it->engine;
  if (e == ISA_NENGINES) {
    e = k->o.flags & AS_KERNEL_FIXED_ENGINES ? lowest(r->engines)
        : k->o.flags & AS_KERNEL_ROUND_ROBIN ? next_turn(c, r->engines)
                                             : soonest(c, r->engines, it);
    it->engine = (uint8_t)e;
  }
  unsigned ways = r->ways[e];
  c->free[e] = done_at(c, e, it);
  c->busy[e] += (uint64_t)r->busy[e] * 1000;
  for (unsigned w = 0; ways >> w; w++)
    if (ways >> w & 1) {
      c->way_free[w] = c->free[e];
      c->way_user[w] = (uint8_t)e;
    }
  note(c, e, it, c->free[e]);
}

/* Control instructions with a result go where it is needed, others to sync. Barriers have one
 * semaphore, and all are on the engine of the first. */
static void place_control(choice *c, as_k_item *it) {
  const isa_form *f = isa_form_of(it->op);
  bool result = f->nfields && f->fields[0].kind == ISA_K_REG && !strcmp(f->fields[0].name, "rd");
  if (result)
    it->engine = ISA_NENGINES;
  else if (it->engine == ISA_NENGINES)
    it->engine = ISA_ENG_sync;
  if (it->op != ISA_OP_core_barrier) return;
  if (!c->met) c->barriers = it->engine;
  c->met = true;
  it->engine = c->barriers;
}

/* Transfers are through once the bytes of all before them are. */
static void note_transfer(choice *c, const as_k_item *it) {
  uint64_t ready = ready_at(c, ISA_NENGINES, it);
  c->dma += as_k_ruling_of(c->k, it)->dma;
  note(c, ISA_NENGINES, it, ready > c->dma ? ready : c->dma);
}

bool as_k_choose_engines(as_kernel *k) {
  choice c = {.k = k};
  size_t size = ((size_t)k->nbuffers + 1) * sizeof *c.lives;
  c.lives = isa_zalloc(&k->al, size);
  if (!c.lives) return as_k_nomem(k);
  for (uint32_t i = 0; i < k->nitems; i++) {
    as_k_item *it = &k->items[i];
    if (it->op >= ISA_NOPS) continue;
    k->figures.instructions += !it->added;
    if (isa_op_is_control(it->op))
      place_control(&c, it);
    else if (isa_op_is_dma(it->op))
      note_transfer(&c, it);
    else
      choose(&c, it);
  }
  memcpy(k->figures.busy, c.busy, sizeof c.busy);
  isa_free(&k->al, c.lives, size);
  return true;
}
