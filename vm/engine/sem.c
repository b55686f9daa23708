/* Semaphores: waits, updates, and the engines that they wake. */
#include "engine.h"
#include "../message.h"
#include "../time/clock.h"

bool vm_wait_holds(const vm_core *c, const vm_engine *e, const isa_wait *w) {
  uint32_t have = c->sem[w->sem], want = w->is_reg ? e->regs[w->value] : w->value;
  /* A register's value may have changed since the wait began: it is read each time. */
  return isa_cond_holds(w->cond, have, want);
}

isa_wait vm_wait_of(const vm_core *c, const vm_engine *e) {
  const isa_insn *in = &e->code->insns[e->pc];
  isa_barrier b;
  /* A core_barrier has two waits: its clause's, and after its update the wait that is part of it.
   */
  return e->triggered && isa_insn_barrier(in, c->number, &b) ? b.wait : in->wait;
}

void vm_wake(vm_core *c, unsigned sem) {
  for (unsigned e, left = c->sem_waiters[sem]; left; left &= left - 1) {
    /* From the lowest engine on, so that they are woken in a fixed order. */
    e = (unsigned)__builtin_ctz(left);
    vm_engine *en = &c->eng[e];
    const isa_wait *w = &en->code->insns[en->pc].wait;
    isa_wait inside; /* of an instruction that has begun: not of the one before it */
    if (en->triggered) {
      inside = vm_wait_of(c, en);
      w = &inside;
    }
    /* It stays in the set of waiters. */
    if (!vm_wait_holds(c, en, w)) continue;
    c->sem_waiters[sem] &= (uint16_t) ~(1u << e);
    en->state = VM_READY;
    vm_path_set_cause(en, (vm_moment){c->now, c->cause}, VM_WHY_SEM);
    /* Which semaphore, for the report and the path. */
    en->cause.sem = (uint8_t)sem;
    /* At this moment, but after the other updates: classes of events (event.c). */
    vm_post(c, VM_E_SEQ, e, c->now, 0);
  }
}

static void log_value(vm_core *c, unsigned sem, uint32_t value, vm_where by) {
  vm_sem_log *log = &c->sem_log[sem];
  unsigned i = log->n % VM_SEM_LOG;
  log->time[i] = c->now;
  log->value[i] = value;
  log->by[i] = by;
  /* It wraps after 2^32 updates, and then still says that the log is full. */
  if (++log->n == 0) log->n = VM_SEM_LOG;
}

void vm_sem_apply(vm_core *c, const isa_update *u, vm_where by) {
  /* 64 bits: an update may leave the range in either direction. */
  uint32_t old = c->sem[u->sem];
  int64_t next = old;
  switch (u->kind) {
  case ISA_UPD_inc: next += 1; break;
  case ISA_UPD_dec: next -= 1; break;
  case ISA_UPD_add: next += u->value; break;
  case ISA_UPD_sub: next -= u->value; break;
  case ISA_UPD_write: next = u->value; break;
  /* A transfer's share counts one, whatever the update's value means (queue and ring). */
  case ISA_UPD_dma: next += 1; break;
  default: return;
  }
  /* Nothing wraps: a program whose semaphore leaves its range is wrong. */
  if (next < 0 || next > ISA_SEM_MAX) {
    const char *name = c->code->sem_names[u->sem];
    vm_fault(c, ISA_FAULT, by,
             "semaphore %s (number %u) would go from %u to %lld; its values are 0..%d",
             name ? name : "without a name", u->sem, old, (long long)next, ISA_SEM_MAX);
    return;
  }
  c->sem[u->sem] = (uint32_t)next;
  vm_tell_change(c, u->sem, old, (uint32_t)next, by);
  log_value(c, u->sem, (uint32_t)next, by);
  vm_trace(c, &(vm_trace_event){.kind = VM_EV_SEM,
                                .where = by,
                                .id = u->sem,
                                .start = c->now,
                                .end = c->now,
                                .value = (uint32_t)next,
                                /* For traces: which ring of which queue; 0 for other updates. */
                                .part = u->kind == ISA_UPD_dma ? u->value + 1 : 0});
  vm_wake(c, u->sem);
}

vm_core *vm_sem_owner(vm_core *c, const isa_update *u) { return vm_core_at(c, u->core); }

void vm_sem_post(vm_core *c, const isa_update *u, vm_time t, vm_where by) {
  /* To another rank, over a link. */
  if (u->kind == ISA_UPD_peer) {
    vm_send_update(c, u->value, u->sem, 1, t + (vm_time)c->cost[VM_LINK_LAT] * VM_NS, by);
    return;
  }
  vm_core *to = vm_sem_owner(c, u);
  /* The other core's semaphores are seen later (SEM_PEER). */
  vm_post_sem(to, t + (vm_time)c->cost[to != c ? VM_SEM_PEER : VM_SEM_SEEN] * VM_NS, u, by);
}
