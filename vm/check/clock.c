/* Happens-before. Each engine has a vector clock: what it may rely on having happened, anywhere. A
 * data-path instruction and a share of a transfer begin with the clock of the sequencer that issued
 * or triggered them. An update releases what its source has done by then. A wait acquires, of each
 * source, only what it could not have continued without (sems.c). */
#include "check.h"
#include "impl.h"
#include "meet.h"
#include "shadow.h"

#include <string.h>

/* ---- Snapshots ---------------------------------------------------------------------------- */

static size_t snapshot_bytes(const vm_core *c) {
  /* A clock of ncomps numbers after the head. */
  return sizeof(vm_ck_snapshot) + c->check->ncomps * sizeof(uint32_t);
}

void vm_ck_drop(vm_core *c, vm_ck_snapshot *s) {
  /* Kept for the next one: snapshots come and go with every update. */
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

vm_ck_snapshot *vm_ck_make_snapshot(vm_core *c) {
  vm_ck_snapshot *s = new_snapshot(c);
  if (s) memset(s->v, 0, c->check->ncomps * sizeof *s->v);
  return s;
}

/* Engine e's clock as it is, with a reference for the caller; NULL after a fault. */
static vm_ck_snapshot *snapshot_of(vm_core *c, unsigned e) {
  struct vm_check *k = c->check;
  /* Shared by all that are released before the clock changes. */
  if (!k->now[e]) {
    vm_ck_snapshot *s = new_snapshot(c);
    if (!s) return NULL;
    memcpy(s->v, vm_ck_clock(c, e), k->ncomps * sizeof *s->v);
    k->now[e] = s;
  }
  k->now[e]->refs++;
  return k->now[e];
}

static void changed(vm_core *c, unsigned e) {
  /* What has been released keeps its own reference. */
  vm_ck_drop(c, c->check->now[e]);
  c->check->now[e] = NULL;
}

void vm_ck_raise(vm_core *c, unsigned e, unsigned comp, uint32_t epoch) {
  uint32_t *v = vm_ck_clock(c, e) + comp;
  /* A clock only grows. */
  if (*v >= epoch) return;
  *v = epoch;
  if (comp != vm_ck_comp(e, OF_SEQ)) changed(c, e); /* releases carry that one themselves */
}

void vm_ck_acquire(vm_core *c, unsigned e, const vm_ck_release *r) {
  struct vm_check *k = c->check;
  uint32_t *mine = vm_ck_clock(c, e);
  if (!r->base) return;
  /* The log must be able to find out the same again. */
  if (k->log.knows) vm_ck_log_know(c, e, r);
  if (vm_ck_join(mine, r->base->v, k->ncomps)) changed(c, e);
  /* VM_CK_PEER has no components of its own here: its numbers are in base. */
  for (unsigned i = 0, comp = vm_ck_comp(r->engine, 0); i < OF_ENGINE && r->engine < VM_CK_PEER;
       i++, comp++)
    if (r->own[i] > mine[comp]) vm_ck_raise(c, e, comp, r->own[i]);
  /* For an update of a transfer: the shares of its ring. */
  if (r->ring) vm_ck_raise(c, e, r->ring, r->share);
  if (!r->twin) return;
  vm_ck_raise(c, e, r->twin, r->twin_share);
  /* An instruction of the other core's data path that is done has read, too. */
  if (r->twin < k->rings) vm_ck_raise(c, e, r->twin + (OF_READ - OF_DONE), r->twin_share);
}

bool vm_ck_release_now(vm_core *c, unsigned e, vm_ck_release *r) {
  memset(r, 0, sizeof *r);
  r->base = snapshot_of(c, e);
  r->engine = (uint8_t)e;
  r->pc = vm_ck_engine(c, e)->pc;
  memcpy(r->own, vm_ck_clock(c, e) + vm_ck_comp(e, 0), sizeof r->own);
  return r->base != NULL;
}

/* ---- Instructions and transfers ----------------------------------------------------------- */

uint32_t vm_ck_step_on(vm_core *c, unsigned e) {
  /* Each step of a sequencer has a number of its own, by which others name it. */
  unsigned seq = vm_ck_comp(e, OF_SEQ);
  vm_ck_raise(c, e, seq, vm_ck_clock(c, e)[seq] + 1);
  return vm_ck_clock(c, e)[seq];
}

void vm_check_update(vm_core *c, unsigned engine, const isa_update *u) {
  unsigned e = vm_ck_unit(c, engine);
  if (c->check->legal) vm_ck_legal_update(c, e, u);
  /* An update of another rank is sent, and told there. */
  if (!vm_ck_has(c, VM_CHECK_RACE) || u->kind == ISA_UPD_peer) return; /* vm_check_send */
  uint32_t epoch = vm_ck_step_on(c, e);
  vm_ck_release r;
  if (vm_ck_release_now(c, e, &r))
    vm_ck_note_update(c, vm_ck_sem(u->core, u->sem), u->kind, u->value, vm_ck_comp(e, OF_SEQ),
                      epoch, &r);
}

void vm_ck_data_path_known(vm_core *c, unsigned e, uint32_t to) {
  uint32_t twin = vm_ck_log_twin(c, e, to);
  /* All that the engine's data path has been given. */
  for (unsigned what = OF_DONE; what <= OF_WEIGHTS; what++)
    vm_ck_raise(c, e, vm_ck_comp(e, what), to);
  for (unsigned what = OF_DONE; what <= OF_READ && twin; what++)
    vm_ck_raise(c, e, vm_ck_twin_of(e) + what, twin);
  vm_ck_log_drain(c, e, to, twin);
}

void vm_check_drain(vm_core *c, unsigned engine) {
  unsigned e = vm_ck_unit(c, engine);
  if (c->check->legal) vm_ck_legal_drain(c, e);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_ck_data_path_known(c, e, c->check->issued[e]);
}

/* When an instruction is complete it has read and written, and so have those before it; when it has
 * read, those before it have read. Weights tell only about weights. */
static void log_flight(vm_core *c, unsigned e, const vm_flight *f) {
  const isa_update *u = &f->in->upd;
  bool weights = isa_ops[f->in->op].cost == ISA_COST_LDW;
  uint32_t i = c->check->issued[e];
  if (u->kind == ISA_UPD_none) return;
  vm_ck_release r;
  if (!vm_ck_release_now(c, e, &r)) return;
  r.pc = f->pc;
  /* Loads of weights end before matmuls that were issued earlier. */
  r.own[OF_WEIGHTS] = i;
  if (!weights) r.own[OF_READ] = i;
  /* An @read update proves completeness only of what its sources had to wait for. */
  uint32_t done = u->at_read ? c->check->hazard[e] : i;
  if (!weights && done > r.own[OF_DONE]) r.own[OF_DONE] = done;
  vm_ck_twin_flight(c, f, &r);
  unsigned what = u->at_read ? OF_READ : weights ? OF_WEIGHTS : OF_DONE;
  vm_ck_note_update(c, vm_ck_sem(u->core, u->sem), u->kind, u->value, vm_ck_comp(e, what), i, &r);
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
  /* Both go on from a new step: what either did before is known to the other from here on. */
  vm_ck_step_on(c, x);
  vm_ck_step_on(c, y);
  /* In turn: after the first raise both have the larger of the two. */
  for (uint32_t i = 0; i < c->check->ncomps; i++) {
    vm_ck_raise(c, x, i, vm_ck_clock(c, y)[i]);
    vm_ck_raise(c, y, i, vm_ck_clock(c, x)[i]);
  }
  vm_ck_log_meet(c, x, y);
}

/* Engine e triggers a queue, at the epoch its sequencer has now. */
static void note_trigger(vm_core *c, unsigned e, unsigned queue) {
  struct vm_check *k = c->check;
  unsigned last = k->trigger[queue];
  /* Another engine triggered it before, and this one does not know of that: the order in the rings
   * is by luck. */
  if (last < VM_CK_ENGINES && last != e &&
      vm_ck_clock(c, e)[vm_ck_comp(last, OF_SEQ)] < k->trigger_epoch[queue])
    vm_ck_report_trigger(c, e, queue);
  k->trigger[queue] = (uint8_t)e;
  k->trigger_pc[queue] = vm_ck_engine(c, e)->pc;
  k->trigger_time[queue] = c->now;
  k->trigger_epoch[queue] = vm_ck_clock(c, e)[vm_ck_comp(e, OF_SEQ)];
}

/* What the shares of a transfer begin with: the clock of engine e and, if another engine triggered
 * the queue before, what that one knew, since a ring keeps its order. */
static vm_ck_snapshot *base_of_queue(vm_core *c, unsigned e, unsigned queue) {
  struct vm_check *k = c->check;
  vm_ck_snapshot *last = k->queue_base[queue], *s = snapshot_of(c, e);
  /* The clocks of both: an element of the ring waits for what is before it. */
  if (s && last && k->trigger[queue] != e) {
    vm_ck_snapshot *both = new_snapshot(c);
    for (uint32_t i = 0; both && i < k->ncomps; i++)
      both->v[i] = s->v[i] > last->v[i] ? s->v[i] : last->v[i];
    vm_ck_drop(c, s);
    s = both;
  }
  vm_ck_drop(c, last);
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
  for (unsigned i = 0; i < OF_ENGINE; i++) r.own[i] = vm_ck_clock(c, e)[vm_ck_comp(e, i)];
  if (swaps) vm_ck_twin_share(c, t, comp, &r);
  /* One reference for each share's update. */
  base->refs++;
  vm_ck_note_update(c, vm_ck_sem(t->sem_core, t->sem), ISA_UPD_dma, 0, comp, share, &r);
}

void vm_check_transfer(vm_core *c, unsigned engine, const isa_insn *in, const vm_transfer *t,
                       const vm_share *shares) {
  struct vm_check *k = c->check;
  unsigned e = vm_ck_unit(c, engine), queue = vm_ck_queue(c, t->queue);
  vm_ck_twins_transfer(c, t, shares);
  if (k->legal) vm_ck_legal_transfer(c, e, in, t, shares);
  /* A piece of lists is told once, as one instruction. */
  if (vm_ck_has(c, VM_CHECK_OVERLAP) && t->piece == 0)
    vm_ck_tiles_issue(c, engine, in, c->eng[engine].pc);
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_ck_snapshot *base = base_of_queue(c, e, queue);
  unsigned ring = 0;
  vm_ck_step_on(c, e);
  unsigned last = k->trigger[queue];
  vm_ck_log_trigger(c, e, queue, last < VM_CK_ENGINES && last != e);
  note_trigger(c, e, queue);
  for (const vm_share *s = shares; s && base; s = s->next, ring++) {
    unsigned comp = vm_ck_ring_comp(k, queue, ring);
    uint32_t share = ++k->shares[comp - k->rings];
    vm_ck_race_share(c, e, t, s, ring);
    if (t->signals) log_share(c, e, t, comp, share, base, in->op == ISA_OP_sendrecv);
  }
  k->halved = true;
  if (base && (t->put || t->peer))
    vm_ck_pushes(c, e, t, k->shares[vm_ck_ring_comp(k, queue, 0) - k->rings], base);
  vm_ck_drop(c, base);
  unsigned sem = vm_ck_sem(t->sem_core, t->sem);
  vm_ck_sem_log *l = t->signals ? k->sems[sem] : NULL;
  /* Only after all shares are there is the value known that all of them together give. */
  for (unsigned r = 0; l && r < ring; r++) { /* only all of them together prove one */
    unsigned both = in->op == ISA_OP_sendrecv ? VM_CK_BOTH : 0;
    vm_ck_source *s = vm_ck_find_source(l, vm_ck_ring_comp(k, queue, r) | both);
    if (!s || s->n == s->head) continue;
    vm_ck_update *u = &s->v[s->n - 1];
    u->total = (int64_t)vm_ck_value(c, sem) + l->up + l->down;
    if (u->r.logged && k->log.on) k->log.updates[u->r.logged - 1].total = u->total;
  }
}

/* ---- Life cycle --------------------------------------------------------------------------- */

static bool start_clocks(vm_core *c) {
  struct vm_check *k = c->check;
  if (!vm_ck_has(c, VM_CHECK_RACE)) return true;
  k->rings = OF_ENGINE * k->nengines;
  /* A component for each engine's four, then one for each ring. */
  k->ncomps = k->rings + k->nqueues * ISA_NDMA;
  if (!vm_ck_peers_start(c) || !vm_ck_calls_start(c)) return false;
  k->shares = isa_zalloc(&c->al, VM_CK_QUEUES * ISA_NDMA * sizeof *k->shares);
  if (!k->shares) return false;
  /* VM_CK_ENGINES: nobody has triggered it yet. */
  memset(k->trigger, VM_CK_ENGINES, sizeof k->trigger);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    /* Which engines wait for which semaphore, by their code. */
    const isa_code *code = vm_ck_code(c, e);
    if (!(k->clock[e] = isa_zalloc(&c->al, k->ncomps * sizeof **k->clock))) return false;
    for (uint32_t pc = 0; pc < code->n; pc++)
      if (code->insns[pc].wait.cond != ISA_WAIT_none)
        k->waiters[vm_ck_sem(e >= ISA_NSEQS, code->insns[pc].wait.sem)] |= (uint16_t)(1u << e);
    vm_ck_note_barriers(c, e);
  }
  return vm_ck_log_start(c);
}

static void end_clocks(vm_core *c) {
  struct vm_check *k = c->check;
  /* start_clocks was never called, or failed at once. */
  if (!k->ncomps) return;
  vm_ck_sems_end(c);
  vm_ck_log_end(c);
  vm_ck_peers_end(c);
  vm_ck_calls_end(c);
  for (unsigned q = 0; q < k->nqueues; q++) vm_ck_drop(c, k->queue_base[q]);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    changed(c, e);
    isa_free(&c->al, k->clock[e], k->ncomps * sizeof **k->clock);
  }
  /* Snapshots in use have come back by now. */
  for (vm_ck_snapshot *s = k->free, *next; s; s = next) {
    next = s->next;
    isa_free(&c->al, s, snapshot_bytes(c));
  }
  isa_free(&c->al, k->shares, VM_CK_QUEUES * ISA_NDMA * sizeof *k->shares);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

static bool add_snapshot(vm_ck_clock_walk *w) {
  const isa_alloc *al = &w->c->al;
  if (!isa_array_grow(al, &w->v, w->n, &w->cap, sizeof *w->v) ||
      !(w->v[w->n] = vm_ck_new_snapshot(w->c))) {
    vm_saver_no_memory(w->s);
    return false;
  }
  w->n++;
  return true;
}

/* The number of a snapshot that is written, 0 for NULL. */
static uint32_t number_of(vm_ck_clock_walk *w, vm_ck_snapshot *p) {
  uint64_t saves = w->c->check->saves;
  if (!p) return 0;
  /* Numbers are of one walk: the next one begins anew. */
  if (p->saved != saves) {
    p->saved = saves;
    p->number = w->n + 1;
  }
  return p->number;
}

void vm_ck_walk_snapshot(vm_ck_clock_walk *w, vm_ck_snapshot **p) {
  vm_saver *s = w->s;
  uint32_t ncomps = w->c->check->ncomps, number = s->reads ? 0 : number_of(w, *p);
  /* At most one more than are known: a new one has the next number. */
  vm_save_below(s, &number, w->n + 2, "clock");
  bool fresh = number > w->n;
  /* Before memory is taken. */
  if (fresh && s->reads &&
      (!vm_saver_need(s, ncomps <= vm_saver_left(s) / 4, "a clock is cut off") || !add_snapshot(w)))
    return;
  if (fresh && !s->reads) w->n++;
  if (s->reads && number) {
    *p = w->v[number - 1];
    (*p)->refs++;
  }
  for (uint32_t i = 0; fresh && i < ncomps; i++) vm_save_u32(s, &(*p)->v[i]);
}

static void walk_queue(vm_ck_clock_walk *w, unsigned q) {
  vm_saver *s = w->s;
  /* What is not triggered has no place. */
  struct vm_check *k = w->c->check;
  bool triggered = k->trigger[q] < VM_CK_ENGINES;
  for (unsigned r = 0; r < ISA_NDMA; r++) vm_save_u32(s, &k->shares[q * ISA_NDMA + r]);
  vm_ck_walk_snapshot(w, &k->queue_base[q]);
  vm_save_bool(s, &triggered);
  if (!triggered) return;
  vm_ck_walk_place(s, w->c, &k->trigger[q], &k->trigger_pc[q]);
  vm_save_u32(s, &k->trigger_epoch[q]);
  vm_save_time(s, &k->trigger_time[q]);
}

static void walk_clocks(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_clock_walk w = {.s = s, .c = c};
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  /* Each walk that writes has a number, by which snapshots know that theirs is old. */
  k->saves++;
  vm_save_bool(s, &k->suspect);
  for (unsigned e = 0; e < k->nengines && !s->failed; e++) {
    for (uint32_t i = 0; i < k->ncomps; i++) vm_save_u32(s, &k->clock[e][i]);
    vm_ck_walk_snapshot(&w, &k->now[e]);
  }
  for (unsigned q = 0; q < k->nqueues && !s->failed; q++) walk_queue(&w, q);
  vm_ck_walk_sems(&w);
  vm_ck_walk_calls(&w);
  vm_ck_walk_peers(&w);
  isa_free(&c->al, w.v, w.cap * sizeof *w.v);
}

static void walk_counts(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u32(s, &k->issued[e]);
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u32(s, &k->hazard[e]);
}

const vm_ck_part vm_ck_part_clocks = {
    .start = start_clocks, .walk = walk_counts, .end = end_clocks};

const vm_ck_part vm_ck_part_orders = {.walk = walk_clocks};
