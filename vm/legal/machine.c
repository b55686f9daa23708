/* One execution: what can happen next, and what that changes. Time passes only by moves: a step
 * of a sequencer, an end in a data path, the end of a share, the arrival of an update at a
 * semaphore that does more than count. Starts follow at once: later starts would make nothing
 * else possible. */
#include "model.h"

#define NONE UINT32_MAX

static uint32_t *engine_at(uint32_t *v, unsigned e) { return v + LG_WORDS * e; }
static const uint32_t *engine_of(const uint32_t *v, unsigned e) { return v + LG_WORDS * e; }

/* The step's condition on the semaphore as this state has it. */
static bool wait_holds(const vm_legal *l, const uint32_t *v, const vm_legal_step *s) {
  return isa_cond_holds(s->cond, v[vm_lg_value_at(l, s->sem)], s->value);
}

/* Whether an engine's flights up to number f have ended.
 * 0 has ended from the beginning on. */
static bool ended_up_to(const vm_lg_engine *en, const uint32_t *ev, uint32_t f) {
  /* Weight loads end in an order of their own. */
  return en->next_main[ev[LG_D]] > f && en->next_load[ev[LG_W]] > f;
}

/* The next flight whose reading ends with a move of its own. */
static uint32_t next_read(const vm_legal *l, const vm_lg_engine *en, uint32_t read) {
  /* Beyond last_read no reading has a move of its own; it ends with the flight. */
  for (uint32_t f = read + 1; f <= en->last_read; f++) {
    const vm_legal_step *s = vm_lg_step_of(l, &l->items[en->flights[f - 1]]);
    /* A load's reading is a move only if it updates then. */
    if (!s->weights || s->at_read) return f;
  }
  return NONE;
}

static bool can_step(const vm_legal *l, const uint32_t *v, unsigned e, vm_lg_move *m) {
  const vm_lg_engine *en = &l->eng[e];
  const uint32_t *ev = engine_of(v, e);
  /* An engine at its end has no step; vm_lg_halted tells that from waiting. */
  if (ev[LG_POS] >= en->nsteps) return false;
  const vm_legal_step *s = &en->steps[ev[LG_POS]];
  m->number = ev[LG_POS];
  /* A wait comes before anything the step does. */
  if (!wait_holds(l, v, s)) return false;
  /* A drain waits for all flights before it, whatever they touch. */
  if (s->kind == VM_LEGAL_DRAIN) return ended_up_to(en, ev, en->before[ev[LG_POS]]);
  /* A touch waits only for flights that have its bytes. */
  if (s->kind == VM_LEGAL_TOUCH || (s->meets && s->kind == VM_LEGAL_FLIGHT))
    return ended_up_to(en, ev, l->items[en->items[ev[LG_POS]]].hazard);
  return true;
}

/* By what the flight is: loads end apart from the rest, in their own order. */
static bool can_end(const vm_legal *l, const uint32_t *v, unsigned e, vm_lg_move *m) {
  const vm_lg_engine *en = &l->eng[e];
  const uint32_t *ev = engine_of(v, e);
  switch (m->what) {
  case LG_END:
    /* A flight that has started, after the loads before it and after its own reading. */
    m->number = en->next_main[ev[LG_D]];
    return m->number <= ev[LG_S] && en->next_load[ev[LG_W]] > m->number &&
           next_read(l, en, ev[LG_R]) > m->number;
  case LG_READ_END:
    /* Reading, too, comes after the weights. */
    m->number = next_read(l, en, ev[LG_R]);
    return m->number <= ev[LG_S] && en->next_load[ev[LG_W]] > m->number;
  /* LG_LOADED: the next load, once it has started. */
  default: m->number = en->next_load[ev[LG_W]]; return m->number <= ev[LG_S];
  }
}

/* How far a component has come. */
static uint32_t count_of(const vm_legal *l, const uint32_t *v, unsigned comp) {
  static const uint8_t word[LG_OF_ENGINE] = {
      [LG_DONE] = LG_D, [LG_READ] = LG_R, [LG_WEIGHTS] = LG_W, [LG_SEQ] = LG_POS};
  /* Components from LG_FIRST_RING on are rings. */
  if (comp >= LG_FIRST_RING) return v[vm_lg_ring_at(l, comp - LG_FIRST_RING)];
  return engine_of(v, comp / LG_OF_ENGINE)[word[comp % LG_OF_ENGINE]];
}

uint32_t vm_lg_open_share(const vm_legal *l, const uint32_t *v, uint32_t r) {
  /* Rings of a queue are numbered one after another. */
  const vm_lg_queue *q = &l->queues[l->ring_queue[r]];
  uint32_t done = v[vm_lg_ring_at(l, r)];
  /* All transfers that the run triggered have ended on this ring. */
  if (done >= q->n) return NONE;
  uint32_t item = q->items[done] + (r - q->first);
  const vm_lg_item *it = &l->items[item];
  /* Its trigger must have been passed. */
  return engine_of(v, it->engine)[LG_POS] > it->step ? item : NONE;
}

/* Whether an update of a flow can arrive: the updates of one engine to one semaphore that are under
 * way arrive in the order of its steps. (One that ends later than the next is posted could also
 * arrive later: then it ends later.) */
static bool can_arrive(const vm_legal *l, const uint32_t *v, uint32_t f, vm_lg_move *m) {
  const vm_lg_flow *flow = &l->flows[f];
  /* Updates of one flow arrive in their order, so there is one that is next. */
  m->number = v[vm_lg_flow_at(l, f)];
  if (m->number >= flow->n || flow->v[m->number].epoch > count_of(l, v, flow->comp)) return false;
  /* Both halves must have ended. */
  if (flow->twin && flow->v[m->number].twin_epoch > count_of(l, v, flow->twin)) return false;
  /* Only an engine has several components that may update one semaphore; a ring has
   * itself alone. */
  for (uint32_t i = 0; i < l->nflows && flow->comp < LG_FIRST_RING; i++) {
    const vm_lg_flow *other = &l->flows[i];
    uint32_t next = v[vm_lg_flow_at(l, i)];
    if (i == f || other->sem != flow->sem || other->comp >= LG_FIRST_RING ||
        !vm_lg_same_source(other->comp, flow->comp) || next >= other->n)
      continue;
    const vm_lg_update *u = &other->v[next];
    /* An earlier step's update that is under way comes first. */
    if (u->step < flow->v[m->number].step && u->epoch <= count_of(l, v, other->comp)) return false;
  }
  return true;
}

/* For one half of a sendrecv, or for a move that has no other half. */
static bool can_alone(const vm_legal *l, const uint32_t *v, vm_lg_move *m) {
  switch (m->what) {
  case LG_STEP: return can_step(l, v, m->who, m);
  case LG_SHARE:
    m->number = v[vm_lg_ring_at(l, m->who)];
    return vm_lg_open_share(l, v, m->who) != NONE;
  case LG_ARRIVE: return can_arrive(l, v, m->who, m);
  default: return can_end(l, v, m->who, m);
  }
}

/* The judges have the number of the other step since both were added. */
const vm_legal_step *vm_lg_partner(const vm_legal *l, const vm_legal_step *s) {
  return &l->eng[s->meets - 1].steps[s->partner];
}

/* Flights are numbered from 1. */
static const vm_legal_step *flight_step(const vm_legal *l, unsigned e, uint32_t f) {
  return vm_lg_step_of(l, &l->items[l->eng[e].flights[f - 1]]);
}

uint32_t vm_lg_twin_ring(const vm_legal *l, const vm_legal_step *s, uint32_t r, uint32_t *epoch) {
  const vm_lg_queue *q = &l->queues[s->queue];
  const vm_lg_item *it =
      &l->items[l->eng[s->meets - 1].items[s->partner] + (r - q->first)]; /* one for each ring */
  *epoch = it->epoch;
  return (uint32_t)it->ring;
}

bool vm_lg_twin(const vm_legal *l, const vm_lg_move *m, vm_lg_move *twin) {
  const vm_legal_step *s;
  if (m->what == LG_STEP)
    s = &l->eng[m->who].steps[m->number];
  else if (m->what == LG_END)
    s = flight_step(l, m->who, m->number);
  else
    /* Shares and arrivals have no twin of their own: see post_share. */
    return false;
  if (!s->meets) return false;
  *twin = (vm_lg_move){.what = m->what, .who = (uint16_t)(s->meets - 1), .number = s->partner};
  /* The other half is a flight too, of the other engine. */
  if (m->what == LG_END) twin->number = l->items[l->eng[twin->who].items[s->partner]].epoch;
  return true;
}

bool vm_lg_can(const vm_legal *l, const uint32_t *v, vm_lg_move *m) {
  vm_lg_move twin;
  /* The own half is asked first, as it fills in the number. */
  if (!can_alone(l, v, m)) return false;
  if (!vm_lg_twin(l, m, &twin)) return true;
  /* The other half must stand at this very step. */
  const uint32_t number = twin.number;
  return can_alone(l, v, &twin) && twin.number == number;
}

/* A step's update takes effect, unless it takes time to arrive.
 * A mixed semaphore gets its updates through flows, one by one. */
static void post(const vm_legal *l, uint32_t *v, const vm_legal_step *s) {
  if (s->update == ISA_UPD_none || l->mixed[s->to]) return;
  /* A transfer's update is one for each ring, when its share ends. */
  v[vm_lg_value_at(l, s->to)] += s->update == ISA_UPD_dma ? 1 : (uint32_t)s->delta;
}

/* An update takes effect.
 * A write sets the value; an addition may be negative. */
static bool apply(const vm_legal *l, uint32_t *v, unsigned sem, bool writes, int64_t delta) {
  uint32_t *value = &v[vm_lg_value_at(l, sem)];
  int64_t next = writes ? delta : *value + delta;
  /* The judge reports it; the state is not used after that. */
  if (next < 0) return false;
  *value = (uint32_t)next;
  return true;
}

static bool do_step(const vm_legal *l, uint32_t *v, unsigned e) {
  const vm_lg_engine *en = &l->eng[e];
  uint32_t *ev = engine_at(v, e);
  for (bool more = true; more;) {
    /* The position goes on before the effect, as nothing looks at it in between. */
    const vm_legal_step *s = &en->steps[ev[LG_POS]++];
    /* A group of glued steps is one move. */
    more = s->glued && ev[LG_POS] < en->nsteps;
    /* What these do comes with their ends. */
    if (s->kind == VM_LEGAL_FLIGHT || s->kind == VM_LEGAL_TRIGGER) continue;
    if (!s->at_once) post(l, v, s);
    /* At once: the update must not wait for its turn. */
    else if (!apply(l, v, s->to, s->update == ISA_UPD_write, s->delta))
      return false;
  }
  return true;
}

/* A share has ended; that of a sendrecv proves nothing before the other half's has ended. */
static void post_share(const vm_legal *l, uint32_t *v, const vm_legal_step *s, uint32_t ring) {
  uint32_t epoch;
  if (!s->meets) {
    post(l, v, s);
  } else if (v[vm_lg_ring_at(l, vm_lg_twin_ring(l, s, ring, &epoch))] >= epoch) {
    post(l, v, s);
    post(l, v, vm_lg_partner(l, s));
  }
}

static bool do_alone(const vm_legal *l, uint32_t *v, const vm_lg_move *m) {
  const vm_legal_step *s;
  switch (m->what) {
  case LG_STEP: return do_step(l, v, m->who);
  /* A step does all it does by one function, with the steps glued to it. */
  case LG_SHARE:
    s = vm_lg_step_of(l, &l->items[l->queues[l->ring_queue[m->who]].items[m->number]]);
    /* The share counts as done before its semaphore rises. */
    v[vm_lg_ring_at(l, m->who)]++;
    post_share(l, v, s, m->who);
    return true;
  case LG_ARRIVE: {
    const vm_lg_flow *f = &l->flows[m->who];
    v[vm_lg_flow_at(l, m->who)]++;
    return apply(l, v, f->sem, f->v[m->number].writes, f->v[m->number].delta);
  }
  default: break;
  }
  /* Ends are left; all of them are about a flight. */
  s = flight_step(l, m->who, m->number);
  uint32_t *ev = engine_at(v, m->who);
  /* Where a flight tells of its reading, its end tells nothing more. */
  bool tells = s->at_read ? m->what == LG_READ_END : m->what == (s->weights ? LG_LOADED : LG_END);
  ev[m->what == LG_END ? LG_D : m->what == LG_LOADED ? LG_W : LG_R] = m->number;
  if (tells) post(l, v, s);
  return true;
}

bool vm_lg_do(const vm_legal *l, uint32_t *v, const vm_lg_move *m) {
  /* Asked before the move, since that changes the state. */
  vm_lg_move twin;
  bool two = vm_lg_twin(l, m, &twin);
  return do_alone(l, v, m) && (!two || do_alone(l, v, &twin));
}

uint32_t vm_lg_start(const vm_legal *l, uint32_t *v, unsigned e) {
  const vm_lg_engine *en = &l->eng[e];
  uint32_t *ev = engine_at(v, e);
  /* Only flights that the sequencer has passed can start. */
  if (en->nflights == 0 || ev[LG_S] >= en->before[ev[LG_POS]]) return NONE;
  uint32_t item = en->flights[ev[LG_S]];
  /* A hazard holds it back, and with it all that come after it. */
  if (!ended_up_to(en, ev, l->items[item].hazard)) return NONE;
  ev[LG_S]++;
  return item;
}

uint32_t vm_lg_open_touch(const vm_legal *l, const uint32_t *v, unsigned e) {
  const vm_lg_engine *en = &l->eng[e];
  const uint32_t *ev = engine_of(v, e);
  /* Most engines have no touches: asked first. */
  if (!en->touches || ev[LG_POS] >= en->nsteps) return NONE;
  uint32_t item = en->open[ev[LG_POS]];
  /* Before the wait holds nothing is touched. */
  if (item == NONE || !wait_holds(l, v, &en->steps[ev[LG_POS]])) return NONE;
  return ended_up_to(en, ev, l->items[item].hazard) ? item : NONE;
}

bool vm_lg_ended(const vm_legal *l, const uint32_t *v, const vm_lg_access *a) {
  /* Numbers of a component only grow, so one comparison is enough. */
  return count_of(l, v, a->comp) >= l->items[a->item].epoch;
}

bool vm_lg_started(const vm_legal *l, const uint32_t *v, const vm_lg_item *it) {
  const uint32_t *ev = engine_of(v, it->engine);
  /* Each kind has its own counter: flights started, steps passed, shares done. */
  if (it->kind == VM_LEGAL_FLIGHT) return ev[LG_S] >= it->epoch;
  if (it->ring < 0) return ev[LG_POS] >= it->epoch;
  /* The share before it has ended, and its trigger has been passed. */
  return v[vm_lg_ring_at(l, (uint32_t)it->ring)] + 1 >= it->epoch && ev[LG_POS] > it->step;
}

bool vm_lg_halted(const vm_legal *l, const uint32_t *v) {
  /* Flights and shares may still be under way: they wait for nobody then. */
  for (unsigned e = 0; e < l->nengines; e++)
    if (engine_of(v, e)[LG_POS] < l->eng[e].nsteps) return false;
  return true;
}

unsigned vm_lg_comp_of(const vm_lg_move *m) {
  static const uint8_t of[] = {
      [LG_STEP] = LG_SEQ, [LG_END] = LG_DONE, [LG_READ_END] = LG_READ, [LG_LOADED] = LG_WEIGHTS};
  if (m->what == LG_SHARE) return LG_FIRST_RING + (unsigned)m->who;
  /* An arrival changes no component: it can never be held. */
  if (m->what == LG_ARRIVE) return UINT32_MAX;
  return (unsigned)LG_OF_ENGINE * m->who + of[m->what];
}
