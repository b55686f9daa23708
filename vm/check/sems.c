/* What updates a semaphore has had, and what waits for it can be sure of.
 *
 * `high` is the value that sources other than s could have brought a semaphore to: what it has now
 * and what is under way, minus what s added. A wait for v or more that holds was sure only of the
 * shortest prefix of the updates of s that lifts high to v; a wait for v or less likewise, of
 * decrements. That is true as long as updates that are triggered later could not have come before.
 * Where they could, and where a semaphore does more than count, the log is judged (must.c). */
#include "check.h"
#include "impl.h"

#include <string.h>

enum { FOLD_AT = 64 }; /* updates of a source between two looks at what can be forgotten */

/* ---- Logs of semaphores ------------------------------------------------------------------- */

static vm_ck_sem_log *log_of(vm_core *c, unsigned sem) {
  vm_ck_sem_log **l = &c->check->sems[sem];
  /* Most programs use few of them. */
  if (!*l && !(*l = isa_zalloc(&c->al, sizeof **l))) vm_ck_out_of_memory(c);
  return *l;
}

vm_ck_source *vm_ck_find_source(const vm_ck_sem_log *l, unsigned comp) {
  for (uint32_t i = 0; i < l->nsrc; i++)
    if (l->src[i].comp == comp) return &l->src[i];
  return NULL;
}

static vm_ck_source *source_of(vm_core *c, vm_ck_sem_log *l, unsigned comp) {
  vm_ck_source *s = vm_ck_find_source(l, comp);
  if (s) return s;
  if (l->nsrc == l->cap && !isa_array_grow(&c->al, &l->src, l->nsrc, &l->cap, sizeof *l->src)) {
    vm_ck_out_of_memory(c);
    return NULL;
  }
  s = &l->src[l->nsrc++];
  *s = (vm_ck_source){.comp = (uint16_t)comp};
  return s;
}

/* Forgets the oldest update of a source: it has arrived. */
static void forget(vm_core *c, vm_ck_source *s) {
  vm_ck_update *u = &s->v[s->head++];
  /* The sums are of those that are kept. */
  if (!u->writes) *(u->delta < 0 ? &s->down : &s->up) -= u->delta;
  vm_ck_drop(c, u->r.base);
  s->arrived--;
  /* The last: the array begins anew. */
  if (s->head < s->n) return;
  s->head = s->n = 0;
}

/* What all engines that wait for a semaphore know of a component. */
static uint32_t known_to_all(const vm_core *c, unsigned sem, unsigned comp) {
  /* No engine waits for it: everything may be forgotten. */
  uint32_t known = UINT32_MAX;
  for (unsigned left = c->check->waiters[sem]; left; left &= left - 1) {
    unsigned e = (unsigned)__builtin_ctz(left);
    /* An engine that has halted learns nothing more. */
    if (vm_ck_clock(c, e)[comp] < known && vm_ck_goes_on(c, e)) known = vm_ck_clock(c, e)[comp];
  }
  return known;
}

/* Forgets updates that all engines that wait for the semaphore know already: acquiring them changes
 * nothing, and they are counted in the value. */
static void fold(vm_core *c, vm_ck_sem_log *l, unsigned sem) {
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_source *s = &l->src[i];
    if (s->arrived == 0) continue;
    uint32_t known = known_to_all(c, sem, s->comp % VM_CK_BOTH);
    while (s->arrived && s->v[s->head].epoch <= known) {
      const vm_ck_release *r = &s->v[s->head].r;
      /* Both halves must be known. */
      if (s->comp >= VM_CK_BOTH && known_to_all(c, sem, r->twin) < r->twin_share) break;
      forget(c, s);
    }
  }
}

static bool room_for_update(vm_core *c, vm_ck_source *s) {
  if (s->n < s->cap) return true;
  /* Moving is cheaper while most of it is free. */
  if (s->head > s->n / 2) {
    memmove(s->v, s->v + s->head, (s->n - s->head) * sizeof *s->v);
    s->n -= s->head;
    s->head = 0;
    return true;
  }
  if (isa_array_grow(&c->al, &s->v, s->n, &s->cap, sizeof *s->v)) return true;
  vm_ck_out_of_memory(c);
  return false;
}

static int64_t delta_of(unsigned kind, uint32_t value) {
  switch (kind) {
  case ISA_UPD_inc:
  case ISA_UPD_dma: return 1;
  case ISA_UPD_dec: return -1;
  case ISA_UPD_sub: return -(int64_t)value;
  /* add, and write, whose value replaces. */
  default: return value;
  }
}

/* Whether an update could also have come before a wait that has acquired from other sources: then
 * these were not needed. */
static bool comes_too(const vm_core *c, const vm_ck_sem_log *l, unsigned sem, unsigned source,
                      const vm_ck_release *r) {
  for (unsigned e = 0, left = c->check->waiters[sem]; left; e++, left >>= 1)
    if ((left & 1) && l->from[e] != FROM_NOBODY && l->from[e] != source + 1 &&
        /* The update knows of the wait: it comes after it. */
        !vm_ck_includes(c->check, r, vm_ck_comp(e, OF_SEQ), l->held[e].epoch))
      return true;
  return false;
}

void vm_ck_note_update(vm_core *c, unsigned sem, unsigned kind, uint32_t value, unsigned comp,
                       uint32_t epoch, const vm_ck_release *r) {
  vm_ck_sem_log *l = log_of(c, sem);
  /* The updates of both halves have a source of their own. */
  unsigned source = r->ring && r->twin ? comp | VM_CK_BOTH : comp;
  vm_ck_source *s = l ? source_of(c, l, source) : NULL;
  if (!s || !room_for_update(c, s)) {
    vm_ck_drop(c, r->base);
    return;
  }
  /* Not each time: it looks at all sources. */
  if ((s->n - s->head) % FOLD_AT == FOLD_AT - 1) fold(c, l, sem);
  vm_ck_update *u = &s->v[s->n++];
  *u = (vm_ck_update){
      .r = *r, .delta = delta_of(kind, value), .epoch = epoch, .writes = kind == ISA_UPD_write};
  /* A write is no part of any sum. */
  if (!u->writes) {
    *(u->delta < 0 ? &s->down : &s->up) += u->delta;
    *(u->delta < 0 ? &l->down : &l->up) += u->delta;
  }
  /* What the semaphore has when all that is under way has arrived. */
  u->total = u->writes ? u->delta : (int64_t)vm_ck_value(c, sem) + l->up + l->down;
  u->r.logged = vm_ck_log_update(c, sem, comp, u);
  if (!c->check->suspect && comes_too(c, l, sem, source, r)) c->check->suspect = true;
  /* Only a decrement can bring it below zero. */
  if (u->delta < 0) vm_ck_check_below(c, l, sem, s);
}

/* The source that an arriving update belongs to. */
static unsigned source_of_event(const vm_core *c, const vm_event *ev) {
  const vm_core *by = vm_core_at(c, ev->by.core);
  const isa_insn *in = &by->code->code[ev->by.engine].insns[ev->by.pc];
  unsigned e = vm_ck_unit(by, (unsigned)ev->by.engine);
  /* Its last CC sequencer makes the update. */
  if (isa_op_is_collective(in->op)) { /* blocks.c */
    unsigned set = vm_cc_servers(by, (unsigned)ev->by.engine, ev->by.pc);
    return vm_ck_comp(vm_ck_unit(by, (unsigned)__builtin_ctz(set)), OF_SEQ);
  }
  if (ev->update == ISA_UPD_dma)
    return vm_ck_ring_comp(c->check, vm_ck_queue(by, ev->value / ISA_NDMA), ev->value % ISA_NDMA) |
           (in->op == ISA_OP_sendrecv ? VM_CK_BOTH : 0);
  if (isa_op_is_control(in->op)) return vm_ck_comp(e, OF_SEQ);
  if (in->upd.at_read) return vm_ck_comp(e, OF_READ);
  return vm_ck_comp(e, isa_ops[in->op].cost == ISA_COST_LDW ? OF_WEIGHTS : OF_DONE);
}

/* The value is set: what had arrived before does not count any more. */
static void overwritten(vm_core *c, vm_ck_sem_log *l, unsigned sem, const vm_ck_release *by,
                        unsigned comp, uint32_t epoch) {
  /* A reference of its own. */
  vm_ck_drop(c, l->write.base);
  l->write = *by;
  if (l->write.base) l->write.base->refs++;
  l->was_written = true;
  /* For waits that held on the value before. */
  l->before = vm_ck_value(c, sem);
  l->writer = by->engine;
  l->written_pc = by->pc;
  l->written_at = c->now;
  l->write_comp = (uint16_t)comp;
  l->write_epoch = epoch;
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_check_lost(c, l, sem, &l->src[i]);
    /* They are part of no value any more. */
    while (l->src[i].arrived) forget(c, &l->src[i]);
  }
}

void vm_ck_arrived(vm_core *c, unsigned sem, unsigned comp) {
  struct vm_check *k = c->check;
  vm_ck_sem_log *l = k->sems[sem];
  vm_ck_source *s = l ? vm_ck_find_source(l, comp) : NULL;
  /* It was triggered before the log of this semaphore began. */
  if (!s || s->head + s->arrived >= s->n) return;
  if (!k->log.mixed[sem]) { /* it can only rise */
    l->up -= s->v[s->head + s->arrived++].delta;
    return;
  }
  /* A copy: what follows may move the array. */
  const vm_ck_update u = s->v[s->head + s->arrived++];
  vm_ck_log_arrival(c, u.r.logged);
  k->arriving = u.r;
  k->has_arriving = true;
  if (u.writes) {
    k->arriving.base->refs++; /* it may be forgotten together with the others */
    vm_ck_check_set_again(c, l, sem, &k->arriving, u.delta);
    overwritten(c, l, sem, &k->arriving, s->comp % VM_CK_BOTH, u.epoch);
    l->set_to = (uint32_t)u.delta;
    vm_ck_drop(c, k->arriving.base); /* held by the log's `write` from now on */
  } else {
    *(u.delta < 0 ? &l->down : &l->up) -= u.delta;
    vm_ck_check_late(c, l, sem, &u.r);
  }
}

void vm_check_arrival(vm_core *c, const vm_event *ev) {
  struct vm_check *k = c->check;
  k->has_arriving = false;
  const vm_where by = ev->by;
  k->change_by = vm_by_engine(by) ? (uint8_t)vm_ck_unit(vm_core_at(c, by.core), (unsigned)by.engine)
                                  : VM_CK_ENGINES;
  k->change_pc = by.pc;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !vm_by_engine(by)) return;
  vm_ck_arrived(c, vm_ck_sem(c->number, ev->sem), source_of_event(c, ev));
}

/* For the log: engine e's instruction sets a semaphore at once. */
static void log_set(vm_core *c, unsigned e, unsigned sem, unsigned kind, uint32_t epoch) {
  const isa_insn *in = &vm_ck_code(c, e)->insns[vm_ck_engine(c, e)->pc];
  bool cleared = in->op == ISA_OP_sem_range_clear; /* it has no update */
  vm_ck_update u = {.r = {.engine = (uint8_t)e, .pc = vm_ck_engine(c, e)->pc},
                    .delta = cleared ? 0 : delta_of(kind, in->upd.value),
                    .epoch = epoch,
                    .writes = kind == ISA_UPD_write};
  u.r.own[OF_SEQ] = epoch;
  vm_ck_log_set(c, e, sem, &u, !cleared);
}

void vm_check_applied(vm_core *c, unsigned engine, unsigned own_sem, unsigned kind) {
  struct vm_check *k = c->check;
  bool host = engine >= ISA_NSEQS;
  unsigned e = host ? VM_CK_ENGINES : vm_ck_unit(c, engine), sem = vm_ck_sem(c->number, own_sem);
  k->has_arriving = false;
  k->change_by = (uint8_t)e;
  if (k->legal) vm_ck_legal_applied(c, e, sem, kind);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  /* The host's order with the program is not known. */
  if (host) {
    vm_ck_log_host(c, sem);
    return;
  }
  k->change_pc = vm_ck_engine(c, e)->pc;
  /* `taken` is what waits must add to what they wait for. */
  vm_ck_log_take(c, sem, kind, vm_ck_code(c, e)->insns[k->change_pc].upd.value);
  uint32_t epoch = vm_ck_clock(c, e)[vm_ck_comp(e, OF_SEQ)] + 1;
  /* Applied at once, it is a step of its own. */
  vm_ck_raise(c, e, vm_ck_comp(e, OF_SEQ), epoch);
  log_set(c, e, sem, kind, epoch);
  vm_ck_sem_log *l = log_of(c, sem);
  if (l) l->held[e].valid = false; /* it took what it had waited for: nothing can come between */
  vm_ck_release r = {0};
  /* A release is only needed where a set value is compared. */
  if (l && (kind == ISA_UPD_write || l->was_written)) vm_ck_release_now(c, e, &r);
  if (r.base && kind == ISA_UPD_write) { /* sem_range_clear has no update, and its value is 0 */
    uint32_t value = vm_ck_code(c, e)->insns[k->change_pc].upd.value;
    vm_ck_check_set_again(c, l, sem, &r, value);
    overwritten(c, l, sem, &r, vm_ck_comp(e, OF_SEQ), epoch);
    l->set_to = value;
  } else if (r.base) {
    vm_ck_check_late(c, l, sem, &r);
  }
  vm_ck_drop(c, r.base);
}

/* ---- Waits -------------------------------------------------------------------------------- */

/* Acquires from each source the prefix without which the value would be below v. */
static void acquire_rise(vm_core *c, unsigned e, vm_ck_sem_log *l, unsigned sem, int64_t v) {
  int64_t high = (int64_t)vm_ck_value(c, sem) + l->up;
  for (uint32_t i = 0; i < l->nsrc; i++) {
    const vm_ck_source *s = &l->src[i];
    /* What this source must have contributed, if all others have given all they could. */
    int64_t need = v - (high - s->up);
    const vm_ck_release *last = NULL;
    /* Only those that have arrived: the wait has seen nothing else. */
    for (uint32_t k = s->head; k < s->head + s->arrived && need > 0; k++) {
      if (s->v[k].writes || s->v[k].delta < 0) continue;
      need -= s->v[k].delta;
      last = &s->v[k].r;
    }
    if (!last) continue;
    vm_ck_acquire(c, e, last);
    /* From more than one source: see comes_too. */
    if (l->from[e] != s->comp + 1)
      l->from[e] = l->from[e] == FROM_NOBODY ? (uint16_t)(s->comp + 1) : FROM_MANY;
  }
}

static void acquire_fall(vm_core *c, unsigned e, const vm_ck_sem_log *l, unsigned sem, int64_t v) {
  int64_t low = (int64_t)vm_ck_value(c, sem) + l->down;
  for (uint32_t i = 0; i < l->nsrc; i++) {
    const vm_ck_source *s = &l->src[i];
    int64_t over = low - s->down - v;
    const vm_ck_release *last = NULL;
    for (uint32_t k = s->head; k < s->head + s->arrived && over > 0; k++) {
      if (s->v[k].writes || s->v[k].delta >= 0) continue;
      over += s->v[k].delta;
      last = &s->v[k].r;
    }
    if (last) vm_ck_acquire(c, e, last);
  }
}

/* A write whose value alone makes the wait hold, if the value before did not. */
static void acquire_write(vm_core *c, unsigned e, const vm_ck_sem_log *l, const vm_ck_held *h,
                          int64_t rest) {
  /* The rest of the updates would have sufficed. */
  if (l->was_written && !isa_cond_holds(h->cond, l->before, h->value) &&
      !isa_cond_holds(h->cond, (int64_t)l->before + rest, h->value))
    vm_ck_acquire(c, e, &l->write);
}

void vm_ck_wait(vm_core *c, unsigned e, const isa_wait *w) {
  unsigned sem = vm_ck_sem(e >= ISA_NSEQS, w->sem);
  vm_ck_sem_log *l = log_of(c, sem);
  if (!l) return;
  unsigned seq = vm_ck_comp(e, OF_SEQ);
  uint32_t value = w->is_reg ? vm_ck_engine(c, e)->regs[w->value] : w->value;
  /* The wait itself is a step, by which later updates know that they came after it. */
  vm_ck_raise(c, e, seq, vm_ck_clock(c, e)[seq] + 1);
  vm_ck_held h = {true, w->cond, value, vm_ck_engine(c, e)->pc, vm_ck_clock(c, e)[seq], c->now};
  /* A value of before the write would have held: the wait may have seen that one. */
  if (l->was_written && l->writer < VM_CK_ENGINES && l->writer != e && l->before != l->set_to &&
      isa_cond_holds(h.cond, l->before, value) &&
      vm_ck_clock(c, e)[vm_ck_comp(l->writer, OF_SEQ)] < l->write.own[OF_SEQ])
    vm_ck_report_reuse(c, e, sem, l, &h);
  c->check->log.knows = !vm_ck_log_wait(c, e, sem, w, value);
  int64_t rest = 0, v = value;
  for (uint32_t i = 0; i < l->nsrc; i++) rest += l->src[i].up + l->src[i].down;
  acquire_write(c, e, l, &h, rest);
  unsigned cond = w->cond;
  /* `!=` holds on one side or the other of the value. */
  if (cond == ISA_WAIT_ne) cond = vm_ck_value(c, sem) > value ? ISA_WAIT_gt : ISA_WAIT_lt;
  /* `==` needs both: risen to it, and not beyond. */
  if (cond == ISA_WAIT_ge || cond == ISA_WAIT_eq) acquire_rise(c, e, l, sem, v);
  if (cond == ISA_WAIT_gt) acquire_rise(c, e, l, sem, v + 1);
  if (cond == ISA_WAIT_le || cond == ISA_WAIT_eq) acquire_fall(c, e, l, sem, v);
  if (cond == ISA_WAIT_lt) acquire_fall(c, e, l, sem, v - 1);
  /* A later change may end what the wait has seen (vm_check_change). */
  l->held[e] = h;
  fold(c, l, sem);
}

void vm_check_change(vm_core *c, unsigned own_sem, uint32_t old, uint32_t next, vm_where by) {
  (void)by;
  struct vm_check *k = c->check;
  unsigned sem = vm_ck_sem(c->number, own_sem);
  vm_ck_sem_log *l = k->sems[sem];
  if (!vm_ck_has(c, VM_CHECK_RACE) || !l || !k->log.mixed[sem]) return;
  for (unsigned e = 0; e < c->check->nengines; e++) {
    vm_ck_held *h = &l->held[e];
    /* Only changes that end it. */
    if (!h->valid || !isa_cond_holds(h->cond, old, h->value) ||
        isa_cond_holds(h->cond, next, h->value))
      continue;
    /* Said once for each wait. */
    h->valid = false;
    if (k->change_by >= VM_CK_ENGINES) continue;
    unsigned seq = vm_ck_comp(e, OF_SEQ);
    /* The change is in order if who makes it knows of the wait. */
    bool ordered = k->has_arriving
                       ? vm_ck_includes(k, &k->arriving, seq, h->epoch)
                       : k->change_by == e || vm_ck_clock(c, k->change_by)[seq] >= h->epoch;
    if (!ordered) vm_ck_report_passing(c, sem, e, h, next);
  }
}

/* ---- The end ------------------------------------------------------------------------------ */

static void end_log(vm_core *c, vm_ck_sem_log *l) {
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_source *s = &l->src[i];
    for (uint32_t u = s->head; u < s->n; u++) vm_ck_drop(c, s->v[u].r.base);
    isa_free(&c->al, s->v, s->cap * sizeof *s->v);
  }
  vm_ck_drop(c, l->write.base);
  isa_free(&c->al, l->src, l->cap * sizeof *l->src);
  isa_free(&c->al, l, sizeof *l);
}

void vm_ck_sems_end(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned i = 0; i < k->nsems; i++)
    if (k->sems[i]) end_log(c, k->sems[i]);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

void vm_ck_walk_release(vm_ck_clock_walk *w, vm_ck_release *r) {
  vm_saver *s = w->s;
  vm_ck_walk_snapshot(w, &r->base);
  for (unsigned i = 0; i < OF_ENGINE; i++) vm_save_u32(s, &r->own[i]);
  vm_save_u32(s, &r->share);
  vm_save_u32(s, &r->twin_share);
  vm_save_u16(s, &r->ring);
  vm_save_u16(s, &r->twin);
  vm_save_u8(s, &r->engine);
  if (r->logged > w->c->check->log.nupdates) r->logged = 0; /* the log has ended */
  vm_save_u32(s, &r->logged);
  vm_saver_need(s, r->logged <= w->c->check->log.nupdates, "an update is not in the log");
  vm_saver_need(s,
                r->base && vm_ck_has_engine(w->c, r->engine) && r->ring < w->c->check->ncomps &&
                    r->twin < w->c->check->ncomps,
                "an update releases nothing");
  vm_ck_walk_pc(s, w->c, s->failed ? 0 : r->engine, &r->pc);
}

static void walk_update(vm_ck_clock_walk *w, vm_ck_update *u) {
  vm_saver *s = w->s;
  vm_ck_walk_release(w, &u->r);
  vm_save_i64(s, &u->delta);
  vm_save_i64(s, &u->total);
  vm_save_u32(s, &u->epoch);
  vm_save_bool(s, &u->writes);
  vm_saver_need(s, u->delta >= -(int64_t)UINT32_MAX && u->delta <= UINT32_MAX,
                "an update adds too much");
}

/* The sums of an update that is read: those of its source and, until it has arrived, those of its
 * semaphore. */
static void add_up(vm_ck_sem_log *l, vm_ck_source *src, const vm_ck_update *u, bool arrived) {
  if (u->writes) return;
  *(u->delta < 0 ? &src->down : &src->up) += u->delta;
  if (!arrived) *(u->delta < 0 ? &l->down : &l->up) += u->delta;
}

static void walk_source(vm_ck_clock_walk *w, vm_ck_sem_log *l, vm_ck_source *src) {
  vm_saver *s = w->s;
  uint32_t n = src->n - src->head;
  vm_save_u16(s, &src->comp);
  vm_save_u32(s, &src->arrived);
  vm_saver_count(s, &n, UINT32_MAX / 2, 48, "updates of a semaphore");
  vm_saver_need(s, src->comp % VM_CK_BOTH < w->c->check->ncomps && src->arrived <= n,
                "updates of a semaphore have no source");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &w->c->al, &src->v, src->n, &src->cap, sizeof *src->v)) return;
    src->n += s->reads;
    vm_ck_update *u = &src->v[src->head + i];
    walk_update(w, u);
    /* An update that has arrived is in the value already. */
    if (s->reads && !s->failed) add_up(l, src, u, i < src->arrived);
  }
}

static void walk_held(vm_saver *s, const vm_core *c, unsigned e, vm_ck_held *h) {
  vm_save_bool(s, &h->valid);
  vm_save_u8(s, &h->cond);
  vm_save_u32(s, &h->value);
  vm_save_u32(s, &h->epoch);
  vm_save_time(s, &h->time);
  vm_ck_walk_pc(s, c, e, &h->pc);
  vm_saver_need(s, h->cond < ISA_NCONDS, "the condition of a wait is not valid");
}

static void walk_sem_log(vm_ck_clock_walk *w, vm_ck_sem_log *l) {
  vm_saver *s = w->s;
  uint32_t n = l->nsrc;
  vm_saver_count(s, &n, w->c->check->ncomps, 10, "sources of a semaphore");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &w->c->al, &l->src, l->nsrc, &l->cap, sizeof *l->src)) return;
    l->nsrc += s->reads;
    walk_source(w, l, &l->src[i]);
  }
  vm_save_bool(s, &l->was_written);
  vm_save_u32(s, &l->before);
  vm_save_u32(s, &l->set_to);
  vm_ck_walk_place(s, w->c, &l->writer, &l->written_pc);
  vm_save_time(s, &l->written_at);
  vm_save_u16(s, &l->write_comp);
  vm_save_u32(s, &l->write_epoch);
  vm_saver_need(s, l->write_comp < w->c->check->ncomps, "the value of a semaphore has no writer");
  if (l->was_written && !s->failed) vm_ck_walk_release(w, &l->write);
  for (unsigned e = 0; e < w->c->check->nengines; e++) {
    walk_held(s, w->c, e, &l->held[e]);
    vm_save_u16(s, &l->from[e]);
  }
}

void vm_ck_walk_sems(vm_ck_clock_walk *w) {
  struct vm_check *k = w->c->check;
  for (unsigned i = 0; i < k->nsems && !w->s->failed; i++) {
    bool kept = k->sems[i] != NULL;
    vm_save_bool(w->s, &kept);
    if (!kept) continue;
    if (w->s->reads && !(k->sems[i] = isa_zalloc(&w->c->al, sizeof *k->sems[i]))) {
      vm_saver_no_memory(w->s);
      return;
    }
    walk_sem_log(w, k->sems[i]);
  }
}
