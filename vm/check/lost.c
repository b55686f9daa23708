/* What the logs of semaphores show: updates that can come too early or too late for one that sets
 * or lowers the value; and what can be waited for. */
#include "check.h"
#include "impl.h"

bool vm_ck_includes(const struct vm_check *k, const vm_ck_release *r, unsigned comp,
                    uint32_t epoch) {
  if (!r->base) return false;
  /* An engine's own steps are newer than its snapshot. */
  if (comp < k->rings && vm_ck_engine_of(comp) == r->engine)
    return r->own[comp % OF_ENGINE] >= epoch;
  if (r->ring && comp == r->ring) return r->share >= epoch;
  if (r->twin && vm_ck_is_twin(k, r->twin, comp)) return r->twin_share >= epoch;
  return r->base->v[comp] >= epoch;
}

void vm_ck_check_lost(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s) {
  unsigned comp = s->comp % VM_CK_BOTH;
  /* Only updates that somebody waits for can be missed. */
  for (uint32_t i = s->head; i < s->head + s->arrived && c->check->waiters[sem]; i++)
    if (!s->v[i].writes && !vm_ck_includes(c->check, &l->write, comp, s->v[i].epoch))
      vm_ck_report_lost(c, sem, l, s->v[i].r.engine, s->v[i].r.pc);
}

void vm_ck_check_late(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_release *r) {
  /* Nobody waits: the value does not matter. */
  if (l->was_written && l->writer < VM_CK_ENGINES && c->check->waiters[sem] &&
      !vm_ck_includes(c->check, r, l->write_comp, l->write_epoch))
    vm_ck_report_lost(c, sem, l, r->engine, r->pc);
}

void vm_ck_check_set_again(vm_core *c, const vm_ck_sem_log *l, unsigned sem,
                           const vm_ck_release *by, int64_t value) {
  /* The same value again: whichever comes last. */
  if ((int64_t)vm_ck_value(c, sem) != value) vm_ck_check_late(c, l, sem, by);
}

void vm_ck_check_below(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s) {
  const vm_ck_update *u = &s->v[s->n - 1];
  /* With all that is under way. */
  int64_t least = (int64_t)vm_ck_value(c, sem) + l->up + l->down;
  const vm_ck_release *late = NULL;
  for (uint32_t i = 0; i < l->nsrc; i++)
    for (uint32_t k = l->src[i].head; k < l->src[i].n; k++) {
      const vm_ck_update *other = &l->src[i].v[k];
      bool before = vm_ck_includes(c->check, &u->r, l->src[i].comp % VM_CK_BOTH, other->epoch);
      /* What may come later does not help. */
      if (other->writes || other->delta < 0 || before) continue;
      least -= other->delta;
      late = &other->r;
    }
  if (least < 0) vm_ck_report_below(c, sem, u, late);
}

/* ---- Questions ---------------------------------------------------------------------------- */

bool vm_ck_clocks_signal(const vm_core *c, unsigned comp, uint32_t epoch, unsigned *sem,
                         int64_t *value) {
  for (unsigned i = 0; i < c->check->nsems; i++) {
    const vm_ck_sem_log *l = c->check->sems[i];
    const vm_ck_source *s = l ? vm_ck_find_source(l, comp) : NULL;
    for (uint32_t u = s ? s->head : 0; s && u < s->n; u++)
      if (s->v[u].epoch >= epoch) {
        *sem = i;
        *value = s->v[u].total;
        return true;
      }
  }
  return false;
}

int64_t vm_ck_clocks_total(const vm_core *c, unsigned sem) {
  const vm_ck_sem_log *l = c->check->sems[sem];
  return (int64_t)vm_ck_value(c, sem) + (l ? l->up + l->down : 0);
}

int64_t vm_ck_clocks_waited(const vm_core *c, unsigned e, unsigned sem) {
  const vm_ck_sem_log *l = c->check->sems[sem];
  return l && l->held[e].epoch ? (int64_t)l->held[e].value : -1;
}
