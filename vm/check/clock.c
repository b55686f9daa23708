/* Happens-before. Each engine has a vector clock: what it may rely on having happened anywhere. A
 * data-path instruction and a share of a transfer begin with the clock of the sequencer that issued
 * or triggered them; an update releases what its source has done by then; a wait acquires, of
 * each source, only what it could not have gone on without.
 *
 * The value that sources other than s could have brought a semaphore to is `high`: what it has now
 * and what is under way, less what s added. A wait for v or more that holds was sure only of the
 * shortest prefix of the updates of s that lifts high to v; a wait for v or less likewise, of
 * decrements. That holds as long as updates that are triggered later could not have come before:
 * where they could, and where a semaphore does more than count, the log is judged (must.c). */
#include "check.h"
#include "impl.h"
#include "meet.h"

#include <string.h>

enum { FOLD_AT = 64 }; /* updates of a source between two looks at what can be forgotten */

static uint32_t *clock_of(const vm_core *c, unsigned e) { return c->check->clock[e]; }

/* ---- Snapshots ---------------------------------------------------------------------------- */

static size_t snapshot_bytes(const vm_core *c) {
  return sizeof(vm_ck_snapshot) + c->check->ncomps * sizeof(uint32_t);
}

static void drop(vm_core *c, vm_ck_snapshot *s) {
  if (!s || --s->refs) return;
  s->next = c->check->free;
  c->check->free = s;
}

vm_ck_snapshot *vm_ck_new_snapshot(vm_core *c) {
  vm_ck_snapshot *s = isa_zalloc(&c->al, snapshot_bytes(c));
  if (!s) vm_ck_out_of_memory(c);
  return s;
}

static vm_ck_snapshot *new_snapshot(vm_core *c) {
  vm_ck_snapshot *s = c->check->free;
  if (s)
    c->check->free = s->next;
  else
    s = vm_ck_new_snapshot(c);
  if (s) s->refs = 1;
  return s;
}

/* Engine e's clock as it is, with a reference for the caller; NULL after a fault. */
static vm_ck_snapshot *snapshot_of(vm_core *c, unsigned e) {
  struct vm_check *k = c->check;
  if (!k->now[e]) {
    vm_ck_snapshot *s = new_snapshot(c);
    if (!s) return NULL;
    memcpy(s->v, clock_of(c, e), k->ncomps * sizeof *s->v);
    k->now[e] = s;
  }
  k->now[e]->refs++;
  return k->now[e];
}

static void changed(vm_core *c, unsigned e) {
  drop(c, c->check->now[e]);
  c->check->now[e] = NULL;
}

static void raise_to(vm_core *c, unsigned e, unsigned comp, uint32_t epoch) {
  uint32_t *v = clock_of(c, e) + comp;
  if (*v >= epoch) return;
  *v = epoch;
  if (comp != vm_ck_comp(e, OF_SEQ)) changed(c, e); /* releases carry that one themselves */
}

static void acquire(vm_core *c, unsigned e, const vm_ck_release *r) {
  struct vm_check *k = c->check;
  uint32_t *mine = clock_of(c, e);
  if (!r->base) return;
  if (k->log.knows) vm_ck_log_know(c, e, r);
  if (vm_ck_join(mine, r->base->v, k->ncomps)) changed(c, e);
  for (unsigned i = 0, comp = vm_ck_comp(r->engine, 0); i < OF_ENGINE; i++, comp++)
    if (r->own[i] > mine[comp]) raise_to(c, e, comp, r->own[i]);
  if (r->ring) raise_to(c, e, r->ring, r->share);
  if (!r->twin) return;
  raise_to(c, e, r->twin, r->twin_share);
  if (r->twin < k->rings) raise_to(c, e, r->twin + (OF_READ - OF_DONE), r->twin_share);
}

static vm_ck_release release_of(vm_core *c, unsigned e) {
  vm_ck_release r = {.base = snapshot_of(c, e), .engine = (uint8_t)e, .pc = vm_ck_engine(c, e)->pc};
  for (unsigned i = 0; i < OF_ENGINE; i++) r.own[i] = clock_of(c, e)[vm_ck_comp(e, i)];
  return r;
}

/* ---- Logs of semaphores ------------------------------------------------------------------- */

static vm_ck_sem_log *log_of(vm_core *c, unsigned sem) {
  vm_ck_sem_log **l = &c->check->sems[sem];
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
  if (!u->writes) *(u->delta < 0 ? &s->down : &s->up) -= u->delta;
  drop(c, u->r.base);
  s->arrived--;
  if (s->head < s->n) return;
  s->head = s->n = 0;
}

/* Forgets what all engines that wait for the semaphore know already: to acquire it changes
 * nothing, and it counts in the value. */
static void fold(vm_core *c, vm_ck_sem_log *l, unsigned sem) {
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_source *s = &l->src[i];
    if (s->arrived == 0) continue;
    uint32_t known = UINT32_MAX;
    for (unsigned left = c->check->waiters[sem]; left; left &= left - 1) {
      unsigned e = (unsigned)__builtin_ctz(left);
      if (clock_of(c, e)[s->comp] < known && vm_ck_engine(c, e)->state != VM_HALTED)
        known = clock_of(c, e)[s->comp];
    }
    while (s->arrived && s->v[s->head].epoch <= known) forget(c, s);
  }
}

static bool room_for_update(vm_core *c, vm_ck_source *s) {
  if (s->n < s->cap) return true;
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
  default: return value;
  }
}

/* Whether an update could also have come before a wait that has acquired of other sources: these
 * were not needed then. */
static bool comes_too(const vm_core *c, const vm_ck_sem_log *l, unsigned sem, unsigned comp,
                      const vm_ck_release *r) {
  for (unsigned e = 0, left = c->check->waiters[sem]; left; e++, left >>= 1)
    if ((left & 1) && l->from[e] != FROM_NOBODY && l->from[e] != comp + 1 &&
        !vm_ck_includes(c->check, r, vm_ck_comp(e, OF_SEQ), l->held[e].epoch))
      return true;
  return false;
}

/* Notes an update that has been triggered; takes over the reference in r. */
static void log_update(vm_core *c, unsigned sem, unsigned kind, uint32_t value, unsigned comp,
                       uint32_t epoch, const vm_ck_release *r) {
  vm_ck_sem_log *l = log_of(c, sem);
  vm_ck_source *s = l ? source_of(c, l, comp) : NULL;
  if (!s || !room_for_update(c, s)) {
    drop(c, r->base);
    return;
  }
  if ((s->n - s->head) % FOLD_AT == FOLD_AT - 1) fold(c, l, sem);
  vm_ck_update *u = &s->v[s->n++];
  *u = (vm_ck_update){
      .r = *r, .delta = delta_of(kind, value), .epoch = epoch, .writes = kind == ISA_UPD_write};
  if (!u->writes) {
    *(u->delta < 0 ? &s->down : &s->up) += u->delta;
    *(u->delta < 0 ? &l->down : &l->up) += u->delta;
  }
  u->total = u->writes ? u->delta : (int64_t)vm_ck_value(c, sem) + l->up + l->down;
  u->r.logged = vm_ck_log_update(c, sem, comp, u);
  if (!c->check->suspect && comes_too(c, l, sem, comp, r)) c->check->suspect = true;
  if (u->delta < 0) vm_ck_check_below(c, l, sem, s);
}

/* The component whose turn an arriving update is. */
static unsigned comp_of_event(const vm_core *c, const vm_event *ev) {
  const vm_core *by = ev->peer ? c->peer : c;
  const isa_insn *in = &by->code->code[ev->from].insns[ev->pc];
  unsigned e = vm_ck_unit(by, ev->from);
  if (ev->update == ISA_UPD_dma)
    return vm_ck_ring_comp(c->check, vm_ck_queue(by, ev->value / ISA_NDMA), ev->value % ISA_NDMA);
  if (isa_op_is_control(in->op)) return vm_ck_comp(e, OF_SEQ);
  if (in->upd.at_read) return vm_ck_comp(e, OF_READ);
  return vm_ck_comp(e, isa_ops[in->op].cost == ISA_COST_LDW ? OF_WEIGHTS : OF_DONE);
}

/* The value is set: what had arrived before does not count any more. */
static void overwritten(vm_core *c, vm_ck_sem_log *l, unsigned sem, const vm_ck_release *by,
                        unsigned comp, uint32_t epoch) {
  drop(c, l->write.base);
  l->write = *by;
  if (l->write.base) l->write.base->refs++;
  l->was_written = true;
  l->before = vm_ck_value(c, sem);
  l->writer = by->engine;
  l->written_pc = by->pc;
  l->written_at = c->now;
  l->write_comp = (uint16_t)comp;
  l->write_epoch = epoch;
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_check_lost(c, l, sem, &l->src[i]);
    while (l->src[i].arrived) forget(c, &l->src[i]);
  }
}

void vm_check_arrival(vm_core *c, const vm_event *ev) {
  struct vm_check *k = c->check;
  k->has_arriving = false;
  k->change_by = ev->from < ISA_NENGINES ? (uint8_t)vm_ck_unit(ev->peer ? c->peer : c, ev->from)
                                         : VM_CK_ENGINES;
  k->change_pc = ev->pc;
  if (!vm_ck_has(c, VM_CHECK_RACE) || ev->from >= ISA_NENGINES) return;
  unsigned sem = vm_ck_sem(c->number, ev->sem);
  vm_ck_sem_log *l = k->sems[sem];
  vm_ck_source *s = l ? vm_ck_find_source(l, comp_of_event(c, ev)) : NULL;
  if (!s || s->head + s->arrived >= s->n) return;
  if (!k->log.mixed[sem]) { /* it can only rise */
    l->up -= s->v[s->head + s->arrived++].delta;
    return;
  }
  const vm_ck_update u = s->v[s->head + s->arrived++];
  vm_ck_log_arrival(c, u.r.logged);
  k->arriving = u.r;
  k->has_arriving = true;
  if (u.writes) {
    k->arriving.base->refs++; /* it may be forgotten with the rest */
    vm_ck_check_set_again(c, l, sem, &k->arriving, u.delta);
    overwritten(c, l, sem, &k->arriving, s->comp, u.epoch);
    l->set_to = (uint32_t)u.delta;
    drop(c, k->arriving.base); /* held by the log's `write` now */
  } else {
    *(u.delta < 0 ? &l->down : &l->up) -= u.delta;
    vm_ck_check_late(c, l, sem, &u.r);
  }
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
  bool host = engine >= ISA_NENGINES;
  unsigned e = host ? VM_CK_ENGINES : vm_ck_unit(c, engine), sem = vm_ck_sem(c->number, own_sem);
  k->has_arriving = false;
  k->change_by = (uint8_t)e;
  if (k->legal) vm_ck_legal_applied(c, e, sem, kind);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  if (host) {
    vm_ck_log_host(c, sem);
    return;
  }
  k->change_pc = vm_ck_engine(c, e)->pc;
  vm_ck_log_take(c, sem, kind, vm_ck_code(c, e)->insns[k->change_pc].upd.value);
  uint32_t epoch = clock_of(c, e)[vm_ck_comp(e, OF_SEQ)] + 1;
  raise_to(c, e, vm_ck_comp(e, OF_SEQ), epoch);
  log_set(c, e, sem, kind, epoch);
  vm_ck_sem_log *l = log_of(c, sem);
  if (l) l->held[e].valid = false; /* it took what it had waited for: nobody can come between */
  vm_ck_release r =
      l && (kind == ISA_UPD_write || l->was_written) ? release_of(c, e) : (vm_ck_release){0};
  if (r.base && kind == ISA_UPD_write) { /* sem_range_clear has no update, and its value is 0 */
    uint32_t value = vm_ck_code(c, e)->insns[k->change_pc].upd.value;
    vm_ck_check_set_again(c, l, sem, &r, value);
    overwritten(c, l, sem, &r, vm_ck_comp(e, OF_SEQ), epoch);
    l->set_to = value;
  } else if (r.base) {
    vm_ck_check_late(c, l, sem, &r);
  }
  drop(c, r.base);
}

/* ---- Waits -------------------------------------------------------------------------------- */

/* Acquires of each source the prefix without which the value would be below v. */
static void acquire_rise(vm_core *c, unsigned e, vm_ck_sem_log *l, unsigned sem, int64_t v) {
  int64_t high = (int64_t)vm_ck_value(c, sem) + l->up;
  for (uint32_t i = 0; i < l->nsrc; i++) {
    const vm_ck_source *s = &l->src[i];
    int64_t need = v - (high - s->up);
    const vm_ck_release *last = NULL;
    for (uint32_t k = s->head; k < s->head + s->arrived && need > 0; k++) {
      if (s->v[k].writes || s->v[k].delta < 0) continue;
      need -= s->v[k].delta;
      last = &s->v[k].r;
    }
    if (!last) continue;
    acquire(c, e, last);
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
    if (last) acquire(c, e, last);
  }
}

/* A write whose value alone makes the wait hold, when what it overwrote did not. */
static void acquire_write(vm_core *c, unsigned e, const vm_ck_sem_log *l, const vm_ck_held *h,
                          int64_t rest) {
  if (l->was_written && !isa_cond_holds(h->cond, l->before, h->value) &&
      !isa_cond_holds(h->cond, (int64_t)l->before + rest, h->value))
    acquire(c, e, &l->write);
}

void vm_ck_wait(vm_core *c, unsigned e, const isa_wait *w) {
  unsigned sem = vm_ck_sem(e >= ISA_NENGINES, w->sem);
  vm_ck_sem_log *l = log_of(c, sem);
  if (!l) return;
  unsigned seq = vm_ck_comp(e, OF_SEQ);
  uint32_t value = w->is_reg ? vm_ck_engine(c, e)->regs[w->value] : w->value;
  raise_to(c, e, seq, clock_of(c, e)[seq] + 1);
  vm_ck_held h = {true, w->cond, value, vm_ck_engine(c, e)->pc, clock_of(c, e)[seq], c->now};
  if (l->was_written && l->writer < VM_CK_ENGINES && l->writer != e && l->before != l->set_to &&
      isa_cond_holds(h.cond, l->before, value) &&
      clock_of(c, e)[vm_ck_comp(l->writer, OF_SEQ)] < l->write.own[OF_SEQ])
    vm_ck_report_reuse(c, e, sem, l, &h);
  c->check->log.knows = !vm_ck_log_wait(c, e, sem, w, value);
  int64_t rest = 0, v = value;
  for (uint32_t i = 0; i < l->nsrc; i++) rest += l->src[i].up + l->src[i].down;
  acquire_write(c, e, l, &h, rest);
  unsigned cond = w->cond;
  if (cond == ISA_WAIT_ne) cond = vm_ck_value(c, sem) > value ? ISA_WAIT_gt : ISA_WAIT_lt;
  if (cond == ISA_WAIT_ge || cond == ISA_WAIT_eq) acquire_rise(c, e, l, sem, v);
  if (cond == ISA_WAIT_gt) acquire_rise(c, e, l, sem, v + 1);
  if (cond == ISA_WAIT_le || cond == ISA_WAIT_eq) acquire_fall(c, e, l, sem, v);
  if (cond == ISA_WAIT_lt) acquire_fall(c, e, l, sem, v - 1);
  l->held[e] = h;
  fold(c, l, sem);
}

void vm_check_change(vm_core *c, unsigned own_sem, uint32_t old, uint32_t next) {
  struct vm_check *k = c->check;
  unsigned sem = vm_ck_sem(c->number, own_sem);
  vm_ck_sem_log *l = k->sems[sem];
  if (!vm_ck_has(c, VM_CHECK_RACE) || !l || !k->log.mixed[sem]) return;
  for (unsigned e = 0; e < c->check->nengines; e++) {
    vm_ck_held *h = &l->held[e];
    if (!h->valid || !isa_cond_holds(h->cond, old, h->value) ||
        isa_cond_holds(h->cond, next, h->value))
      continue;
    h->valid = false;
    if (k->change_by >= VM_CK_ENGINES) continue;
    unsigned seq = vm_ck_comp(e, OF_SEQ);
    bool ordered = k->has_arriving
                       ? vm_ck_includes(k, &k->arriving, seq, h->epoch)
                       : k->change_by == e || clock_of(c, k->change_by)[seq] >= h->epoch;
    if (!ordered) vm_ck_report_passing(c, sem, e, h, next);
  }
}

/* ---- Instructions and transfers ----------------------------------------------------------- */

/* The epoch of a sequencer's next step, which its clock has at once. */
static uint32_t step(vm_core *c, unsigned e) {
  unsigned seq = vm_ck_comp(e, OF_SEQ);
  raise_to(c, e, seq, clock_of(c, e)[seq] + 1);
  return clock_of(c, e)[seq];
}

void vm_check_update(vm_core *c, unsigned engine, const isa_update *u) {
  unsigned e = vm_ck_unit(c, engine);
  if (c->check->legal) vm_ck_legal_update(c, e, u);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  uint32_t epoch = step(c, e);
  vm_ck_release r = release_of(c, e);
  if (r.base)
    log_update(c, vm_ck_sem(u->core, u->sem), u->kind, u->value, vm_ck_comp(e, OF_SEQ), epoch, &r);
}

void vm_ck_data_path_known(vm_core *c, unsigned e, uint32_t to) {
  uint32_t twin = vm_ck_log_twin(c, e, to);
  for (unsigned what = OF_DONE; what <= OF_WEIGHTS; what++) raise_to(c, e, vm_ck_comp(e, what), to);
  for (unsigned what = OF_DONE; what <= OF_READ && twin; what++)
    raise_to(c, e, vm_ck_twin_of(e) + what, twin);
  vm_ck_log_drain(c, e, to, twin);
}

void vm_check_drain(vm_core *c, unsigned engine) {
  unsigned e = vm_ck_unit(c, engine);
  if (c->check->legal) vm_ck_legal_drain(c, e);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_ck_data_path_known(c, e, c->check->issued[e]);
}

/* Complete, an instruction has read and written, and so have those before it; when it has read,
 * they have read. Weights tell of weights alone. */
static void log_flight(vm_core *c, unsigned e, const vm_flight *f) {
  const isa_update *u = &f->in->upd;
  bool weights = isa_ops[f->in->op].cost == ISA_COST_LDW;
  uint32_t i = c->check->issued[e];
  if (u->kind == ISA_UPD_none) return;
  vm_ck_release r = release_of(c, e);
  if (!r.base) return;
  r.pc = f->pc;
  r.own[OF_WEIGHTS] = i;
  if (!weights) r.own[OF_READ] = i;
  uint32_t done = u->at_read ? c->check->hazard[e] : i;
  if (!weights && done > r.own[OF_DONE]) r.own[OF_DONE] = done;
  vm_ck_twin_flight(c, f, &r);
  unsigned what = u->at_read ? OF_READ : weights ? OF_WEIGHTS : OF_DONE;
  log_update(c, vm_ck_sem(u->core, u->sem), u->kind, u->value, vm_ck_comp(e, what), i, &r);
}

void vm_check_issue(vm_core *c, unsigned engine, const vm_flight *f) {
  unsigned e = vm_ck_unit(c, engine);
  c->check->issued[e]++;
  if (c->check->legal) vm_ck_legal_issue(c, e, f);
  if (vm_ck_has(c, VM_CHECK_RACE)) {
    vm_ck_race_flight(c, e, f);
    log_flight(c, e, f);
    c->check->halved = true;
  }
  if (vm_ck_has(c, VM_CHECK_PSUM)) vm_ck_psum_issue(c, engine, f);
  if (vm_ck_has(c, VM_CHECK_OVERLAP)) vm_ck_tiles_issue(c, engine, f->in, f->pc);
}

void vm_ck_clocks_meet(vm_core *c, unsigned x, unsigned y) {
  step(c, x);
  step(c, y);
  for (uint32_t i = 0; i < c->check->ncomps; i++) {
    raise_to(c, x, i, clock_of(c, y)[i]);
    raise_to(c, y, i, clock_of(c, x)[i]);
  }
  vm_ck_log_meet(c, x, y);
}

/* Engine e triggers a queue, at the epoch its sequencer has now. */
static void note_trigger(vm_core *c, unsigned e, unsigned queue) {
  struct vm_check *k = c->check;
  unsigned last = k->trigger[queue];
  if (last < VM_CK_ENGINES && last != e &&
      clock_of(c, e)[vm_ck_comp(last, OF_SEQ)] < k->trigger_epoch[queue])
    vm_ck_report_trigger(c, e, queue);
  k->trigger[queue] = (uint8_t)e;
  k->trigger_pc[queue] = vm_ck_engine(c, e)->pc;
  k->trigger_time[queue] = c->now;
  k->trigger_epoch[queue] = clock_of(c, e)[vm_ck_comp(e, OF_SEQ)];
}

/* What the shares of a transfer begin with: the clock of engine e, and where another engine
 * triggered the queue before, what that one knew: a ring keeps its order. */
static vm_ck_snapshot *base_of_queue(vm_core *c, unsigned e, unsigned queue) {
  struct vm_check *k = c->check;
  vm_ck_snapshot *last = k->queue_base[queue], *s = snapshot_of(c, e);
  if (s && last && k->trigger[queue] != e) {
    vm_ck_snapshot *both = new_snapshot(c);
    for (uint32_t i = 0; both && i < k->ncomps; i++)
      both->v[i] = s->v[i] > last->v[i] ? s->v[i] : last->v[i];
    drop(c, s);
    s = both;
  }
  drop(c, last);
  if (s) s->refs++;
  k->queue_base[queue] = s;
  return s;
}

static void log_share(vm_core *c, unsigned e, const vm_transfer *t, unsigned comp, uint32_t share,
                      vm_ck_snapshot *base, bool swaps) {
  vm_ck_release r = {.base = base,
                     .engine = (uint8_t)e,
                     .ring = (uint16_t)comp,
                     .share = share,
                     .pc = vm_ck_engine(c, e)->pc};
  for (unsigned i = 0; i < OF_ENGINE; i++) r.own[i] = clock_of(c, e)[vm_ck_comp(e, i)];
  if (swaps) vm_ck_twin_share(c, t, comp, &r);
  base->refs++;
  log_update(c, vm_ck_sem(t->sem_core, t->sem), ISA_UPD_dma, 0, comp, share, &r);
}

void vm_check_transfer(vm_core *c, unsigned engine, const isa_insn *in, const vm_transfer *t,
                       const vm_share *shares) {
  struct vm_check *k = c->check;
  unsigned e = vm_ck_unit(c, engine), queue = vm_ck_queue(c, t->queue);
  if (k->legal) vm_ck_legal_transfer(c, e, in, t, shares);
  if (vm_ck_has(c, VM_CHECK_OVERLAP) && t->piece == 0)
    vm_ck_tiles_issue(c, engine, in, c->eng[engine].pc);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_ck_snapshot *base = base_of_queue(c, e, queue);
  unsigned ring = 0;
  step(c, e);
  unsigned last = k->trigger[queue];
  vm_ck_log_trigger(c, e, queue, last < VM_CK_ENGINES && last != e);
  note_trigger(c, e, queue);
  k->transfers++;
  for (const vm_share *s = shares; s && base; s = s->next, ring++) {
    unsigned comp = vm_ck_ring_comp(k, queue, ring);
    uint32_t share = ++k->shares[comp - k->rings];
    vm_ck_race_share(c, e, t, s, ring);
    if (t->signals) log_share(c, e, t, comp, share, base, in->op == ISA_OP_sendrecv);
  }
  k->halved = true;
  drop(c, base);
  unsigned sem = vm_ck_sem(t->sem_core, t->sem);
  vm_ck_sem_log *l = t->signals ? k->sems[sem] : NULL;
  for (unsigned r = 0; l && r < ring; r++) { /* all of them have to arrive to tell of one */
    vm_ck_source *s = vm_ck_find_source(l, vm_ck_ring_comp(k, queue, r));
    if (!s || s->n == s->head) continue;
    vm_ck_update *u = &s->v[s->n - 1];
    u->total = (int64_t)vm_ck_value(c, sem) + l->up + l->down;
    if (u->r.logged && k->log.on) k->log.updates[u->r.logged - 1].total = u->total;
  }
}

/* ---- Life cycle --------------------------------------------------------------------------- */

bool vm_ck_clocks_start(vm_core *c) {
  struct vm_check *k = c->check;
  k->rings = OF_ENGINE * k->nengines;
  k->ncomps = k->rings + k->nqueues * ISA_NDMA;
  k->shares = isa_zalloc(&c->al, VM_CK_QUEUES * ISA_NDMA * sizeof *k->shares);
  if (!k->shares) return false;
  memset(k->trigger, VM_CK_ENGINES, sizeof k->trigger);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    const isa_code *code = vm_ck_code(c, e);
    if (!(k->clock[e] = isa_zalloc(&c->al, k->ncomps * sizeof **k->clock))) return false;
    for (uint32_t pc = 0; pc < code->n; pc++)
      if (code->insns[pc].wait.cond != ISA_WAIT_none)
        k->waiters[vm_ck_sem(e >= ISA_NENGINES, code->insns[pc].wait.sem)] |= (uint16_t)(1u << e);
    vm_ck_note_barriers(c, e);
  }
  return vm_ck_log_start(c);
}

static void end_log(vm_core *c, vm_ck_sem_log *l) {
  for (uint32_t i = 0; i < l->nsrc; i++) {
    vm_ck_source *s = &l->src[i];
    for (uint32_t u = s->head; u < s->n; u++) drop(c, s->v[u].r.base);
    isa_free(&c->al, s->v, s->cap * sizeof *s->v);
  }
  drop(c, l->write.base);
  isa_free(&c->al, l->src, l->cap * sizeof *l->src);
  isa_free(&c->al, l, sizeof *l);
}

void vm_ck_clocks_end(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned i = 0; i < k->nsems; i++)
    if (k->sems[i]) end_log(c, k->sems[i]);
  vm_ck_log_end(c);
  for (unsigned q = 0; q < k->nqueues; q++) drop(c, k->queue_base[q]);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    changed(c, e);
    isa_free(&c->al, k->clock[e], k->ncomps * sizeof **k->clock);
  }
  for (vm_ck_snapshot *s = k->free, *next; s; s = next) {
    next = s->next;
    isa_free(&c->al, s, snapshot_bytes(c));
  }
  isa_free(&c->al, k->shares, VM_CK_QUEUES * ISA_NDMA * sizeof *k->shares);
}
