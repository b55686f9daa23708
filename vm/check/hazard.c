/* What an engine's data path must have finished before it goes on: the log shows who touched the
 * same bytes. */
#include "check.h"
#include "impl.h"
#include "meet.h"

void vm_ck_note_hazard(vm_core *c, unsigned e) {
  struct vm_check *k = c->check;
  const vm_ck_access *v = k->log.accesses;
  uint32_t n = k->log.naccesses, now = k->issued[e];
  /* From the newest access back to the last known hazard. */
  for (uint32_t i = n; i-- > 0 && k->log.on;) {
    const vm_ck_access *old = &v[i];
    if (old->engine != e || old->queue < VM_CK_QUEUES || old->comp % OF_ENGINE == OF_SEQ) continue;
    if (old->epoch <= k->hazard[e]) return;
    /* Later ones of this engine that touch the same bytes. */
    for (uint32_t j = n; old->epoch < now && j-- > i;) {
      const vm_ck_access *a = &v[j];
      /* Accesses of the instruction that is about to start come last. */
      bool mine = a->engine == e && a->queue == VM_CK_QUEUES && a->comp % OF_ENGINE != OF_SEQ;
      if (mine && a->epoch < now) break;
      if (mine && (a->writes || old->writes) && vm_ck_race_meet(a, old)) {
        k->hazard[e] = old->epoch;
        return;
      }
    }
  }
}

enum { NEAR = 1 << 12 }; /* accesses that are looked back at */

uint32_t vm_ck_last_touch(vm_core *c, unsigned e, const vm_view end[2], uint32_t after) {
  const vm_ck_log *g = &c->check->log;
  vm_ck_access a[2] = {{.writes = true}, {.writes = false}};
  uint32_t last = 0;
  /* An operand that goes by an index may touch anything. */
  for (unsigned i = 0; i < 2; i++)
    if (end[i].place) return 0;
  /* Nothing has issued that is not known to be complete. */
  if (c->check->issued[e] <= after) return 0;
  bool there[2];
  for (unsigned i = 0; i < 2; i++) {
    there[i] = end[i].elems && end[i].num[0];
    if (there[i]) vm_ck_race_set(c, &end[i], &a[i]);
  }
  /* A bound on the time: a sendrecv comes soon after what it waits for. */
  uint32_t n = g->naccesses, oldest = n > NEAR ? n - NEAR : 0;
  for (uint32_t i = n; i-- > oldest && g->on && last == 0;) {
    const vm_ck_access *old = &g->accesses[i];
    if (old->engine != e || old->queue < VM_CK_QUEUES || old->comp % OF_ENGINE == OF_SEQ) continue;
    /* Older instructions are complete already. */
    if (old->epoch <= after) break;
    for (unsigned k = 0; k < 2; k++)
      if (there[k] && (a[k].writes || old->writes) && vm_ck_race_meet(&a[k], old))
        last = old->epoch;
  }
  return last;
}
