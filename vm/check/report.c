/* What the race check reports about semaphores and triggers. */
#include "check.h"
#include "judge.h"

void vm_ck_report_reuse(vm_core *c, unsigned e, unsigned sem, const vm_ck_sem_log *l,
                        const vm_ck_held *h) {
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, e, h->pc, l->writer, l->written_pc);
  if (!f) return;
  f->sem = (uint16_t)(sem + 1);
  vm_ck_put_place(c, e, h->pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s waits for ", vm_ck_name(c, e));
  vm_ck_put_sem(c, sem, &f->text);
  isa_buf_printf(&f->text,
                 ", which had the value %u before it was set to another, and nothing "
                 "orders the two: an earlier wait would have passed",
                 l->before);
  vm_ck_put_insn(c, e, h->pc, c->now, &f->text);
  vm_ck_put_insn(c, l->writer, l->written_pc, l->written_at, &f->text);
  isa_buf_puts(&f->text, "\n  fix: use the semaphore for one purpose, or order its reset before "
                         "the wait by another");
}

void vm_ck_report_passing(vm_core *c, unsigned sem, unsigned e, const vm_ck_held *h,
                          uint32_t next) {
  const struct vm_check *k = c->check;
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, k->change_by, k->change_pc, e, h->pc);
  if (!f) return;
  f->sem = (uint16_t)(sem + 1);
  vm_ck_put_place(c, e, h->pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s waits for ", vm_ck_name(c, e));
  vm_ck_put_sem(c, sem, &f->text);
  isa_buf_printf(&f->text,
                 " %s %u, which holds only by luck of timing: nothing orders the wait before the "
                 "update that makes it %u",
                 isa_cond_text(h->cond), h->value, next);
  vm_ck_put_insn(c, e, h->pc, h->time, &f->text);
  vm_ck_put_insn(c, k->change_by, k->change_pc, c->now, &f->text);
  isa_buf_puts(&f->text, "\n  fix: ");
  if (k->change_by == e) f->rank = VM_CK_ITSELF;
  if (k->change_by == e)
    isa_buf_puts(&f->text, "its own update had not arrived yet: one event_semaphore that waits and "
                           "updates takes effect at once");
  else if (h->cond == ISA_WAIT_eq)
    isa_buf_puts(&f->text, "wait with >=, or let the waiter signal that it has seen it");
  else {
    isa_buf_printf(&f->text, "%s must signal that it has seen the value, and ", vm_ck_name(c, e));
    if (k->change_by < VM_CK_ENGINES) {
      isa_buf_printf(&f->text, "%s wait for that before ", vm_ck_name(c, k->change_by));
      vm_ck_put_place(c, k->change_by, k->change_pc, &f->text);
    } else {
      isa_buf_puts(&f->text, "the host wait for that");
    }
  }
}

void vm_ck_report_trigger(vm_core *c, unsigned e, unsigned queue) {
  const struct vm_check *k = c->check;
  unsigned other = k->trigger[queue];
  uint32_t pc = vm_ck_engine(c, e)->pc;
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, e, pc, other, k->trigger_pc[queue]);
  if (!f) return;
  vm_ck_put_place(c, e, pc, &f->text);
  isa_buf_printf(&f->text,
                 ": race: %s and %s trigger queue %s, and nothing orders the two: each starts the "
                 "transfers whose turn it is",
                 vm_ck_name(c, e), vm_ck_name(c, other), vm_ck_queue_row(c, queue)->name);
  vm_ck_put_insn(c, other, k->trigger_pc[queue], k->trigger_time[queue], &f->text);
  vm_ck_put_insn(c, e, pc, c->now, &f->text);
  isa_buf_printf(&f->text, "\n  fix: %s must update a semaphore after ", vm_ck_name(c, other));
  vm_ck_put_site(c, other, k->trigger_pc[queue], &f->text);
  isa_buf_printf(&f->text, ", and %s wait for it before ", vm_ck_name(c, e));
  vm_ck_put_site(c, e, pc, &f->text);
  isa_buf_puts(&f->text, ", or use a queue of its own");
}

void vm_ck_report_lost(vm_core *c, unsigned sem, const vm_ck_sem_log *l, unsigned engine,
                       uint32_t pc) {
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, l->writer, l->written_pc, engine, pc);
  if (!f) return;
  f->sem = (uint16_t)(sem + 1);
  vm_ck_put_place(c, l->writer, l->written_pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s sets ", vm_ck_name(c, l->writer));
  vm_ck_put_sem(c, sem, &f->text);
  isa_buf_printf(
      &f->text,
      " and %s updates it, and nothing orders the two: an update that comes first is lost",
      engine == l->writer ? "something that it has started itself" : vm_ck_name(c, engine));
  vm_ck_put_insn(c, l->writer, l->written_pc, l->written_at, &f->text);
  vm_ck_put_insn(c, engine, pc, c->now, &f->text);
  isa_buf_printf(&f->text,
                 "\n  fix: set it when all updates have been waited for, and let %s wait "
                 "for another semaphore before it updates it again",
                 vm_ck_name(c, engine));
}

static void put_taking(const vm_core *c, unsigned sem, int64_t n, isa_buf *out) {
  isa_buf_puts(out, "\n  fix: wait for the value and take it at once: event_semaphore ");
  vm_ck_put_sem(c, sem, out);
  isa_buf_printf(out, ">=%lld ", (long long)n);
  vm_ck_put_sem(c, sem, out);
  isa_buf_printf(out, "-=%lld", (long long)n);
}

void vm_ck_report_below(vm_core *c, unsigned sem, const vm_ck_update *u,
                        const vm_ck_release *late) {
  unsigned other = late ? late->engine : VM_CK_ENGINES;
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, u->r.engine, u->r.pc, other, late ? late->pc : 0);
  if (!f) return;
  f->sem = (uint16_t)(sem + 1);
  vm_ck_put_place(c, u->r.engine, u->r.pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s takes %lld from ", vm_ck_name(c, u->r.engine),
                 (long long)-u->delta);
  vm_ck_put_sem(c, sem, &f->text);
  isa_buf_puts(&f->text, ", which can go below zero: nothing orders it after ");
  if (!late)
    isa_buf_puts(&f->text, "the updates that raise it");
  else if (other == u->r.engine)
    isa_buf_puts(&f->text, "an update of its own that has not arrived yet");
  else
    isa_buf_printf(&f->text, "the update by %s that it needs", vm_ck_name(c, other));
  if (late) vm_ck_put_insn(c, late->engine, late->pc, c->now, &f->text);
  vm_ck_put_insn(c, u->r.engine, u->r.pc, c->now, &f->text);
  put_taking(c, sem, -u->delta, &f->text);
}

void vm_ck_report_stuck(vm_core *c, const vm_ck_step *w, uint32_t value) {
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, w->engine, w->pc, VM_CK_ENGINES, 0);
  if (!f) return;
  f->sem = (uint16_t)(w->sem + 1);
  vm_ck_put_place(c, w->engine, w->pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s waits for ", vm_ck_name(c, w->engine));
  vm_ck_put_sem(c, w->sem, &f->text);
  isa_buf_printf(
      &f->text,
      " %s %u, which holds only by luck of timing: when its updates come in another order "
      "it can stay at %u, and the wait never ends",
      isa_cond_text(w->cond), w->value, value);
  vm_ck_put_insn(c, w->engine, w->pc, c->now, &f->text);
  isa_buf_puts(&f->text, "\n  fix: order the updates of the semaphore by another one, or use one "
                         "for each purpose");
}

void vm_ck_report_too_low(vm_core *c, const vm_ck_signal *u) {
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, u->engine, u->pc, VM_CK_ENGINES, 0);
  if (!f) return;
  f->sem = (uint16_t)(u->sem + 1);
  vm_ck_put_place(c, u->engine, u->pc, &f->text);
  isa_buf_printf(&f->text, ": race: %s takes %lld from ", vm_ck_name(c, u->engine),
                 (long long)-u->delta);
  vm_ck_put_sem(c, u->sem, &f->text);
  isa_buf_puts(&f->text, ", which can go below zero: nothing orders it after what raises it");
  vm_ck_put_insn(c, u->engine, u->pc, c->now, &f->text);
  put_taking(c, u->sem, -u->delta, &f->text);
}

void vm_ck_put_missing_push(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  const vm_ck_access *first = a->first, *second = a->second;
  vm_ck_spoke at;
  if (second->engine == VM_CK_PEER) {
    vm_ck_peer_core(c, second->pc, &at);
    isa_buf_printf(out, "rank %u must wait before ", at.rank);
    vm_ck_put_site(c, second->engine, second->pc, out);
    isa_buf_puts(out, " for a semaphore that says that ");
    vm_ck_put_site(c, first->engine, first->pc, out);
    isa_buf_puts(out, " is over");
    return;
  }
  vm_ck_peer_core(c, first->pc, &at);
  isa_buf_printf(out, "rank %u must update a semaphore of this rank by what it pushes at ",
                 at.rank);
  vm_ck_put_site(c, first->engine, first->pc, out);
  isa_buf_printf(out, ", and %s wait for it before ", vm_ck_name(c, second->engine));
  vm_ck_put_site(c, second->engine, second->pc, out);
}
