/* Semaphores: one counter for each source that somebody waits for, and for transfers a pool whose
 * values go on growing. */
#include "pace.h"

/* Left for the sequencers that carry out collectives. */
enum { FOR_COLLECTIVES = 96 };

typedef struct pool {
  as_kernel *k;
  uint32_t next, end;        /* the first that is not taken; of those that there are */
  uint32_t users[ISA_NSEMS]; /* the transfer that had it last */
  uint32_t uses[ISA_NSEMS];
  uint16_t order[ISA_NSEMS]; /* taken ones, a ring: the one taken longest ago first */
  uint32_t head, n;
  uint32_t extra[ISA_NENGINES][K_SOURCES]; /* known by waits that only protect a reuse */
} pool;

static bool exhausted(as_kernel *k, isa_line at) {
  return as_k_fail(
      k, ISA_LIMIT, at,
      "the loops need more than the %d semaphores of a core: unroll less, or split them",
      ISA_NSEMS);
}

static bool take(pool *p, isa_line at, uint16_t *out) {
  if (p->next == p->end) return exhausted(p->k, at);
  *out = (uint16_t)p->next++;
  return true;
}

/* ---- Loops --------------------------------------------------------------------------------- */

/* Each source in the body that signals, and each transfer, has a semaphore of its own. */
static bool loop_scope(pool *p, uint32_t number) {
  as_kernel *k = p->k;
  as_k_scope *s = &k->scopes[number];
  isa_line at = k->loops[number - 1].range.at;
  for (unsigned i = 0; i < K_QUEUE; i++) s->counter[i] = K_NO_SEM;
  for (uint32_t i = s->first; i < s->end; i++) {
    as_k_step *t = &k->steps[i];
    if (!t->signals || t->dead || t->scope != number) continue;
    /* A transfer's semaphore counts once for each DMA engine. */
    if (t->source >= K_QUEUE) {
      if (!take(p, at, &t->sem)) return false;
      t->value = p->k->target->dma;
      continue;
    }
    uint16_t *sem = &s->counter[t->source];
    if (*sem == K_NO_SEM && !take(p, at, sem)) return false;
    t->sem = *sem;
    t->value = ++s->count[t->source];
  }
  return true;
}

/* ---- The top level ------------------------------------------------------------------------- */

static bool knows(const pool *p, const as_k_step *t, uint32_t old) {
  const as_k_step *o = &p->k->steps[old];
  /* Either from the program's waits, or from those that were put in for reuses. */
  return as_k_snap(p->k, t)[p->k->column[o->source]] >= o->ordinal ||
         p->extra[t->engine][o->source] >= o->ordinal;
}

static void learn(pool *p, unsigned e, const as_k_step *o) {
  const uint32_t *row = as_k_snap(p->k, o);
  for (unsigned i = 0; i < p->k->nsources; i++) {
    uint32_t *known = &p->extra[e][p->k->sources[i]];
    if (*known < row[i]) *known = row[i];
  }
  if (p->extra[e][o->source] < o->ordinal) p->extra[e][o->source] = o->ordinal;
}

static uint32_t user_at(const pool *p, uint32_t i) {
  return p->users[p->order[(p->head + i) % ISA_NSEMS]];
}

/* The place of one whose old transfer is known complete to who triggers the new one, among the
 * oldest few; p->n when none exists. */
static uint32_t find_known(const pool *p, const as_k_step *t) {
  /* To look at all would take time with the square of the transfers. */
  enum { LOOKED_AT = 32 };
  for (uint32_t i = 0; i < p->n && i < LOOKED_AT; i++)
    if (knows(p, t, user_at(p, i))) return i;
  return p->n;
}

/* Nothing is known: the engine waits. For a transfer that is not the oldest, so that what comes
 * next need not wait as well, if that covers an older one on its queue. */
static uint32_t wait_for_one(pool *p, as_k_step *t) {
  uint32_t step = user_at(p, p->n / 4);
  uint32_t saved[K_SOURCES];
  memcpy(saved, p->extra[t->engine], sizeof saved);
  learn(p, t->engine, &p->k->steps[step]);
  uint32_t i = find_known(p, t);
  if (i == p->n) {
    /* It did not help: back, and the oldest is waited for. */
    memcpy(p->extra[t->engine], saved, sizeof saved);
    step = user_at(p, 0);
    learn(p, t->engine, &p->k->steps[step]);
    i = 0;
  }
  t->reuse = step + 1;
  return i;
}

static uint16_t again(pool *p, as_k_step *t) {
  uint32_t at = find_known(p, t);
  if (at == p->n) at = wait_for_one(p, t);
  /* It is taken out of the ring; those before it move up by one. */
  uint16_t sem = p->order[(p->head + at) % ISA_NSEMS];
  for (uint32_t i = at; i > 0; i--)
    p->order[(p->head + i) % ISA_NSEMS] = p->order[(p->head + i - 1) % ISA_NSEMS];
  p->head = (p->head + 1) % ISA_NSEMS;
  p->n--;
  return sem;
}

static void give(pool *p, uint32_t step) {
  as_k_step *t = &p->k->steps[step];
  /* As long as there are new ones nothing is used again. */
  t->sem = p->next < p->end ? (uint16_t)p->next++ : again(p, t);
  t->value = p->k->target->dma * ++p->uses[t->sem];
  p->users[t->sem] = step;
  p->order[(p->head + p->n++) % ISA_NSEMS] = t->sem;
}

static bool top_scope(pool *p) {
  as_kernel *k = p->k;
  as_k_scope *s = &k->scopes[0];
  isa_line at = {0};
  for (unsigned i = 0; i < K_QUEUE; i++) s->counter[i] = K_NO_SEM;
  /* First all that engines need, so that transfers get what is left. */
  for (uint32_t i = 0; i < k->nsteps; i++) {
    const as_k_step *t = &k->steps[i];
    if (!t->signals || t->dead || t->scope || t->source >= K_QUEUE) continue;
    uint16_t *sem = &s->counter[t->source];
    if (*sem == K_NO_SEM && !take(p, at, sem)) return false;
  }
  if (p->next == p->end) return exhausted(k, at);
  for (uint32_t i = 0; i < k->nsteps; i++) {
    as_k_step *t = &k->steps[i];
    if (!t->signals || t->dead || t->scope) continue;
    if (t->source >= K_QUEUE) {
      give(p, i);
      continue;
    }
    t->sem = s->counter[t->source];
    t->value = ++s->count[t->source];
  }
  return true;
}

static bool meeting(pool *p) {
  as_kernel *k = p->k;
  isa_line at = k->nloops ? k->loops[0].range.at : (isa_line){0};
  unsigned depth = 0;
  for (unsigned d = 0; d < K_DEPTH; d++) k->meet_arrive[d] = K_NO_SEM;
  for (uint32_t l = 0; l < k->nloops; l++) {
    unsigned d = as_k_depth(k, &k->loops[l]) + 1;
    if (d > K_DEPTH)
      return as_k_fail(k, ISA_LIMIT, k->loops[l].range.at,
                       "loops are nested too deeply: at most %d", K_DEPTH);
    if (d > depth) depth = d;
  }
  /* One semaphore for each depth at which engines arrive, one for each engine to go on. */
  for (unsigned d = 0; d < depth; d++)
    if (!take(p, at, &k->meet_arrive[d])) return false;
  for (unsigned e = 0; e < ISA_NENGINES && depth; e++)
    if ((k->engines >> e & 1) && !take(p, at, &k->meet_go[e])) return false;
  return true;
}

/* The first, so that it has the same number on both cores. */
static bool barriers(pool *p) {
  as_kernel *k = p->k;
  k->barrier = K_NO_SEM;
  for (uint32_t i = 0; i < k->nitems; i++)
    if (k->items[i].op == ISA_OP_core_barrier) return take(p, k->items[i].at, &k->barrier);
  return true;
}

bool as_k_semaphores(as_kernel *k) {
  pool *p = isa_zalloc(&k->al, sizeof *p);
  if (!p) return as_k_nomem(k);
  p->k = k;
  p->end = ISA_NSEMS;
  /* The last ones of the core are for collectives. */
  if (as_k_collectives_engine(k) < ISA_NENGINES) p->end -= FOR_COLLECTIVES;
  bool ok = barriers(p) && meeting(p);
  for (uint32_t l = 1; l <= k->nloops && ok; l++) ok = loop_scope(p, l);
  ok = ok && top_scope(p);
  k->figures.semaphores = p->next;
  isa_free(&k->al, p, sizeof *p);
  return ok;
}
