/* Engines of the instructions that left theirs open, each where its result would be there soonest,
 * once what it reads is written and what it writes is read; and how long the list would take. */
#include "pace.h"

/* A tile that several instructions write has parts of equal size, so that one engine may write its
 * columns beside another and a read waits for its own alone. */
enum { PARTS = 16 };

static bool count_parts(as_k_pace *c) {
  as_kernel *k = c->k;
  const as_k_use *uses;
  for (uint32_t i = 0; i < k->nitems; i++)
    for (unsigned u = 0, n = as_k_used(k, &k->items[i], &uses); u < n; u++)
      if (uses[u].writes) c->parts[as_k_use_op(k, &k->items[i], &uses[u])->buffer - 1]++;
  uint32_t all = 0;
  for (uint32_t b = 0; b < k->nbuffers; b++) {
    uint32_t parts = c->parts[b] > 1 && k->buffers[b].space != ISA_HBM ? PARTS : 1;
    c->parts[b] = all;
    all += parts;
  }
  c->parts[k->nbuffers] = all;
  c->touched = isa_zalloc(&k->al, ((size_t)all + 1) * sizeof *c->touched);
  return c->touched != NULL;
}

bool as_k_pace_open(as_k_pace *c, as_kernel *k) {
  *c = (as_k_pace){.k = k};
  c->parts = isa_zalloc(&k->al, ((size_t)k->nbuffers + 1) * sizeof *c->parts);
  if (c->parts && count_parts(c)) return true;
  as_k_pace_free(c);
  return as_k_nomem(k);
}

void as_k_pace_restart(as_k_pace *c) {
  memset(c->touched, 0, ((size_t)c->parts[c->k->nbuffers] + 1) * sizeof *c->touched);
  *c = (as_k_pace){.k = c->k, .parts = c->parts, .touched = c->touched};
}

void as_k_pace_close(as_k_pace *c) {
  if (c->touched) memcpy(c->k->figures.busy, c->busy, sizeof c->busy);
  c->k->figures.instructions += c->k->figures.left_out;
  as_k_pace_free(c);
}

void as_k_pace_free(as_k_pace *c) {
  const isa_alloc *al = &c->k->al;
  if (c->touched)
    isa_free(al, c->touched, ((size_t)c->parts[c->k->nbuffers] + 1) * sizeof *c->touched);
  isa_free(al, c->parts, ((size_t)c->k->nbuffers + 1) * sizeof *c->parts);
  c->parts = NULL;
  c->touched = NULL;
}

/* The parts that an operand touches. */
typedef struct parts {
  as_k_touch *first, *last;
} parts;

static parts parts_of(const as_k_pace *c, const as_k_item *it, const as_k_use *u) {
  const as_k_operand *o = as_k_use_op(c->k, it, u);
  uint32_t begin = c->parts[o->buffer - 1], n = c->parts[o->buffer] - begin;
  as_k_touch *t = &c->touched[begin];
  if (n == 1) return (parts){t, t};
  as_k_bytes x;
  as_k_bytes_of(c->k, o, &x);
  int64_t bytes = (int64_t)as_k_buf(c->k, o->buffer)->bytes;
  /* What cannot be told apart touches all. */
  if (x.lo < 0 || x.hi > bytes || x.hi <= x.lo) return (parts){t, t + n - 1};
  return (parts){t + x.lo * n / bytes, t + (x.hi - 1) * n / bytes};
}

/* A store does not wait for others to its tensor: as a rule each stores other rows. */
uint64_t as_k_ready_at(const as_k_pace *c, unsigned e, const as_k_item *it) {
  uint64_t t = 0, delay = c->k->o.costs.delay;
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(c->k, it, &uses); u < n; u++) {
    /* HBM is written by transfers, whose time is that of the DMA engines. */
    if (!uses[u].reads && as_k_use_op(c->k, it, &uses[u])->space == ISA_HBM) continue;
    parts p = parts_of(c, it, &uses[u]);
    for (const as_k_touch *l = p.first; l <= p.last; l++) {
      uint64_t written = l->written + (l->written && l->writer != e ? delay : 0);
      uint64_t read = l->read + (l->read && l->reader != e ? delay : 0);
      if (written > t) t = written;
      if (uses[u].writes && read > t) t = read;
    }
  }
  return t;
}

uint64_t as_k_begin_at(const as_k_pace *c, unsigned e, const as_k_verdict *r, uint64_t ready) {
  uint64_t t = c->free[e];
  for (unsigned w = 0, ways = r->ways[e]; ways >> w; w++) {
    uint64_t way = c->way_free[w] + c->k->o.costs.delay;
    if ((ways >> w & 1) && c->way_free[w] && c->way_user[w] != e && way > t) t = way;
  }
  if (ready > t) t = ready;
  bool loads = e == ISA_ENG_scalar && r->table && r->table != c->table;
  return loads ? t + c->k->o.costs.table : t;
}

/* From when an instruction begins on e until the next one can, and until its result is there. */
static uint64_t interval(const as_k_verdict *r, unsigned e) { return (uint64_t)r->busy[e] * 1000; }
static uint64_t duration(const as_k_pace *c, const as_k_verdict *r, unsigned e) {
  return interval(r, e) + c->k->o.costs.latency[e];
}

/* Notes that an item on e has read and written. */
static void note(as_k_pace *c, unsigned e, const as_k_item *it, uint64_t read, uint64_t written) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(c->k, it, &uses); u < n; u++) {
    parts p = parts_of(c, it, &uses[u]);
    for (as_k_touch *l = p.first; l <= p.last; l++) {
      if (uses[u].reads && read > l->read) {
        l->read = read;
        l->reader = (uint8_t)e;
      }
      if (uses[u].writes) {
        l->written = written;
        l->writer = (uint8_t)e;
      }
    }
  }
}

static unsigned lowest(unsigned mask) { return (unsigned)__builtin_ctz(mask); }

/* The engine of a mask where its result would be there soonest. */
static unsigned soonest(const as_k_pace *c, unsigned mask, const as_k_item *it) {
  const as_k_verdict *r = as_k_verdict_of(c->k, it);
  unsigned best = lowest(mask);
  uint64_t least = UINT64_MAX;
  if (!(mask & (mask - 1))) return best;
  for (; mask; mask &= mask - 1) {
    unsigned e = lowest(mask);
    uint64_t t = as_k_begin_at(c, e, r, as_k_ready_at(c, e, it)) + duration(c, r, e);
    if (t >= least) continue;
    least = t;
    best = e;
  }
  return best;
}

/* The engines that an item may be given. */
static unsigned engines_of(const as_k_pace *c, const as_k_item *it) {
  const as_k_verdict *r = as_k_verdict_of(c->k, it);
  if (it->engine < ISA_NENGINES) return 1u << it->engine;
  unsigned left = c->k->o.passes & AS_PASS_USUAL ? r->engines & ~(unsigned)r->avoid : 0;
  return left ? left : r->engines;
}

uint64_t as_k_soonest(const as_k_pace *c, const as_k_item *it, const uint64_t *ready) {
  const as_k_verdict *r = as_k_verdict_of(c->k, it);
  uint64_t least = UINT64_MAX;
  for (unsigned mask = engines_of(c, it); mask; mask &= mask - 1) {
    unsigned e = lowest(mask);
    uint64_t t = as_k_begin_at(c, e, r, ready[e]);
    if (t < least) least = t;
  }
  return least;
}

/* The next of a mask, one after another. */
static unsigned next_turn(as_k_pace *c, unsigned mask) {
  do c->turn = (c->turn + 1) % ISA_NENGINES;
  while (!(mask >> c->turn & 1));
  return c->turn;
}

/* An instruction runs on e. */
static void run(as_k_pace *c, const as_k_item *it, unsigned e) {
  const as_k_verdict *r = as_k_verdict_of(c->k, it);
  unsigned ways = r->ways[e];
  uint64_t begin = as_k_begin_at(c, e, r, as_k_ready_at(c, e, it));
  if (e == ISA_ENG_scalar && r->table) c->table = r->table;
  c->free[e] = begin + interval(r, e);
  c->busy[e] += interval(r, e);
  for (unsigned w = 0; ways >> w; w++)
    if (ways >> w & 1) {
      c->way_free[w] = c->free[e];
      c->way_user[w] = (uint8_t)e;
    }
  if (c->free[e] > c->end) c->end = c->free[e];
  note(c, e, it, c->free[e], begin + duration(c, r, e));
}

/* Control instructions with a result go where it is needed, others to sync; collectives to gpsimd,
 * since they wait for what others compute, and sync has the loads of what comes next. Barriers have
 * one semaphore, and collectives begin in the order of the list: all are on the engine of the
 * first. */
static void place_control(as_k_pace *c, as_k_item *it) {
  const isa_form *f = isa_form_of(it->op);
  bool result = f->nfields && f->fields[0].kind == ISA_K_REG && !strcmp(f->fields[0].name, "rd");
  if (result)
    it->engine = ISA_NENGINES;
  else if (it->engine == ISA_NENGINES)
    it->engine = as_k_is_collective(it) ? ISA_ENG_gpsimd : ISA_ENG_sync;
  bool barrier = it->op == ISA_OP_core_barrier;
  if (!barrier && !as_k_is_collective(it)) return;
  uint8_t *first = barrier ? &c->barriers : &c->collectives;
  if (!*first) *first = (uint8_t)(it->engine + 1);
  it->engine = (uint8_t)(*first - 1);
}

bool as_k_goes_to_hbm(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    if (uses[u].writes && as_k_use_op(k, it, &uses[u])->space == ISA_HBM) return true;
  return false;
}

/* An engine triggers one transfer after another, each once what it needs is there, and does nothing
 * else before. They are through once the bytes of all before them are. */
static void run_transfer(as_k_pace *c, const as_k_item *it) {
  as_kernel *k = c->k;
  const as_k_verdict *r = as_k_verdict_of(k, it);
  unsigned dge, e = as_k_trigger_engine(k, it, c->depth > 0, &dge);
  uint64_t ready = as_k_ready_at(c, ISA_NENGINES, it);
  uint64_t begin = c->free[e] > ready ? c->free[e] : ready;
  if (begin > c->end) c->end = begin;
  c->free[e] = begin + k->o.costs.trigger[dge];
  if (dge != ISA_DGE_hwdge) begin = c->free[e]; /* with hwdge it begins while e triggers it */
  c->dma += r->dma;
  uint64_t through = begin + r->dma > c->dma ? begin + r->dma : c->dma;
  note(c, ISA_NENGINES, it, through, through + k->o.costs.transfer);
}

static void take(as_k_pace *c, as_k_item *it) {
  as_kernel *k = c->k;
  const as_k_verdict *r = as_k_verdict_of(k, it);
  if (it->engine == ISA_NENGINES)
    it->engine =
        (uint8_t)(k->o.flags & AS_KERNEL_FIXED_ENGINES ? lowest(r->engines)
                  : k->o.flags & AS_KERNEL_ROUND_ROBIN ? next_turn(c, r->engines)
                                                       : soonest(c, engines_of(c, it), it));
  uint32_t other = it->engine == ISA_NENGINES ? 0 : r->other;
  if (other && (k->verdicts[other - 1].engines >> it->engine & 1)) {
    it->verdict = other;
    it->op = k->verdicts[other - 1].in.op;
  }
  run(c, it, it->engine);
}

void as_k_pace_take(as_k_pace *c, as_k_item *it) {
  c->depth += it->op == K_LOOP || it->op == K_WHILE;
  c->depth -= it->op == K_ENDLOOP;
  if (it->op >= ISA_NOPS) return;
  c->k->figures.instructions += !it->added;
  if (isa_op_is_control(it->op))
    place_control(c, it);
  else if (isa_op_is_dma(it->op))
    run_transfer(c, it);
  else
    take(c, it);
}

bool as_k_choose_engines(as_kernel *k) {
  as_k_pace c;
  bool ok = as_k_pace_open(&c, k);
  for (uint32_t i = 0; ok && i < k->nitems; i++) as_k_pace_take(&c, &k->items[i]);
  as_k_pace_close(&c);
  return ok;
}
