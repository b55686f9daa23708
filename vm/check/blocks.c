/* Collectives: a CC sequencer's block begins with what the engine knew that issued the collective,
 * and its update tells what all CC sequencers that serve it knew at the ends of their blocks, when
 * all that their transfers read has left. */
#include "check.h"
#include "impl.h"

bool vm_ck_calls_start(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned i = 0; i < c->run->n; i++)
    if (c->run->cores[i]->ccs &&
        !(k->calls[i] = isa_zalloc(&c->al, VM_COLLECTIVES * sizeof **k->calls)))
      return false;
  return true;
}

void vm_ck_calls_end(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned i = 0; i < c->run->n; i++) {
    for (unsigned s = 0; k->calls[i] && s < VM_COLLECTIVES; s++)
      vm_ck_drop(c, k->calls[i][s].r.base);
    isa_free(&c->al, k->calls[i], k->calls[i] ? VM_COLLECTIVES * sizeof **k->calls : 0);
  }
}

void vm_ck_walk_calls(vm_ck_clock_walk *w) {
  struct vm_check *k = w->c->check;
  for (unsigned i = 0; i < w->c->run->n; i++)
    for (unsigned n = 0; k->calls[i] && n < VM_COLLECTIVES && !w->s->failed; n++) {
      vm_ck_call *x = &k->calls[i][n];
      bool used = x->r.base != NULL;
      vm_save_bool(w->s, &used);
      if (!used) continue;
      vm_ck_walk_release(w, &x->r);
      vm_save_u32(w->s, &x->step);
      vm_save_u32(w->s, &x->seq);
      vm_save_u32(w->s, &x->epoch);
      vm_save_bool(w->s, &x->joined);
      vm_saver_need(w->s, !k->log.on || x->step < k->log.nsteps, "a collective has no step");
      vm_saver_need(w->s, x->r.engine < k->nengines, "a collective is of no engine");
    }
}

static vm_ck_call *call_of(vm_core *c, uint32_t slot) {
  vm_ck_call *of = c->check->calls[c->number];
  return of && vm_ck_has(c, VM_CHECK_RACE) ? &of[slot] : NULL;
}

void vm_check_join(vm_core *c, const vm_where at[2]) {
  unsigned e[2];
  for (unsigned i = 0; i < 2; i++)
    e[i] = vm_ck_unit(vm_core_at(c, at[i].core), (unsigned)at[i].engine);
  if (vm_ck_has(c, VM_CHECK_RACE)) vm_ck_clocks_meet(c, e[0], e[1]);
}

void vm_check_collective(vm_core *c, unsigned engine, uint32_t slot) {
  vm_ck_call *x = call_of(c, slot);
  unsigned e = vm_ck_unit(c, engine);
  if (!x) return;
  vm_ck_drop(c, x->r.base);
  *x = (vm_ck_call){.seq = vm_ck_step_on(c, e), .step = c->check->log.last[e]};
  vm_ck_release_now(c, e, &x->r);
}

void vm_check_enter(vm_core *c, unsigned engine, uint32_t slot) {
  vm_ck_call *x = call_of(c, slot);
  unsigned e = vm_ck_unit(c, engine);
  if (!x || !x->r.base) return;
  c->check->log.knows = false;
  vm_ck_step_on(c, e);
  vm_ck_acquire(c, e, &x->r);
  vm_ck_log_enter(c, e, x->step, x->seq);
}

/* All transfers of a CC sequencer have left. */
static void note_left(vm_core *c, unsigned e, unsigned engine) {
  struct vm_check *k = c->check;
  for (unsigned q = 0; q < c->code->nqueues; q++) {
    unsigned queue = vm_ck_queue(c, q), comp = vm_ck_ring_comp(k, queue, 0);
    uint32_t count = k->shares[comp - k->rings];
    if (isa_queue_owner(&c->code->queues[q]) != engine) continue;
    /* Known already, as by an earlier block of its own. */
    if (vm_ck_clock(c, e)[comp + c->code->queues[q].rings - 1u] >= count) continue;
    for (unsigned r = 0; r < c->code->queues[q].rings; r++) vm_ck_raise(c, e, comp + r, count);
    vm_ck_log_left(c, e, queue, count);
  }
}

/* Adds what CC sequencer e knows to what the collective's update tells. */
static void join(vm_core *c, unsigned e, vm_ck_call *x) {
  struct vm_check *k = c->check;
  vm_ck_release mine;
  if (!vm_ck_release_now(c, e, &mine)) return;
  vm_ck_snapshot *both = x->joined ? vm_ck_make_snapshot(c) : NULL;
  for (uint32_t i = 0; both && i < k->ncomps; i++)
    both->v[i] = mine.base->v[i] > x->r.base->v[i] ? mine.base->v[i] : x->r.base->v[i];
  unsigned seq = vm_ck_comp(x->r.engine, OF_SEQ);
  /* The engine that issued the collective has come to the collective at least. */
  if (both && both->v[seq] < x->r.own[OF_SEQ]) both->v[seq] = x->r.own[OF_SEQ];
  x->step = x->joined ? vm_ck_log_both(c, e, x->step) : k->log.last[e];
  vm_ck_drop(c, x->r.base);
  if (both) {
    vm_ck_drop(c, mine.base);
    mine.base = both;
  }
  x->r = mine;
  x->joined = true;
}

void vm_check_complete(vm_core *c, unsigned engine, uint32_t slot, bool last) {
  vm_ck_call *x = call_of(c, slot);
  unsigned e = vm_ck_unit(c, engine);
  const vm_engine *en = &c->eng[engine];
  const isa_point *of = &en->code->insns[en->pc].u.BLOCK.of;
  unsigned first = (unsigned)__builtin_ctz(vm_cc_servers(c, of->engine, of->pc));
  if (!x || !x->r.base) return;
  /* The update has this sequencer's step as its source. */
  uint32_t epoch = vm_ck_step_on(c, e);
  note_left(c, e, engine);
  if (engine == first) x->epoch = epoch;
  join(c, e, x);
  if (!last) return;
  const isa_update *u = &c->code->code[of->engine].insns[of->pc].upd;
  vm_ck_release r = x->r;
  x->r.base = NULL;
  if (u->kind == ISA_UPD_none) {
    vm_ck_drop(c, r.base);
    return;
  }
  c->check->log.of_update = x->step + 1;
  vm_ck_note_update(c, vm_ck_sem(u->core, u->sem), u->kind, u->value,
                    vm_ck_comp(vm_ck_unit(c, first), OF_SEQ), x->epoch, &r);
  c->check->log.of_update = 0;
}
