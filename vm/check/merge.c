/* A read that came before its write in this run is a finding of `uninit`, and the two are also a
 * race: one cause gives one finding. */
#include "check.h"
#include "judge.h"
#include "shadow.h"

#include <string.h>

/* The shadow of a memory, by the number of its region; at is NULL where none exists. */
static vm_ck_shadow shadow_of(const vm_core *c, unsigned region, size_t *pitch) {
  const struct vm_check *k = c->check;
  const vm_ck_region *r = &k->regions[region];
  *pitch = r->space == ISA_SBUF ? c->mem.sbuf_pitch : r->space == ISA_PSUM ? c->mem.psum_pitch : 0;
  if (r->space != ISA_HBM) return r->space == ISA_SBUF ? k->sbuf[r->core] : k->psum[r->core];
  return k->hbm ? k->hbm[r->tensor - 1] : (vm_ck_shadow){0};
}

/* Whether dimensions d and on of a set, from byte `at` of a shadow on, are all written now. */
static bool run_is_written(const vm_ck_shadow *s, const isa_byteset *b, unsigned d, uint64_t at) {
  /* Beyond the end nothing is ever written. */
  if (d == b->n || d == ISA_MAX_DIMS)
    return at + (uint64_t)b->run <= s->bytes && !memchr(s->at + at, 0, (size_t)b->run);
  for (int64_t i = 0; i < b->num[d]; i++)
    if (!run_is_written(s, b, d + 1, at + (uint64_t)(i * b->step[d]))) return false;
  return true;
}

static bool is_written(const vm_core *c, const vm_ck_access *a) {
  size_t pitch;
  vm_ck_shadow s = shadow_of(c, a->region, &pitch);
  uint64_t at = (uint64_t)a->set.start - c->check->regions[a->region].lo;
  for (unsigned p = a->p0; s.at && p < a->p1; p++)
    if (!run_is_written(&s, &a->set, 0, at + p * pitch)) return false;
  return true;
}

/* Whether all that the instruction of a read reads has been written by now. */
static bool is_made_good(const vm_core *c, const vm_ck_access *read) {
  const vm_ck_log *g = &c->check->log;
  vm_ck_pay_all(c);
  /* An instruction with several reads is not made good by one of them. */
  for (uint32_t i = 0; i < g->naccesses; i++) {
    const vm_ck_access *a = &g->accesses[i];
    bool same = a->engine == read->engine && a->pc == read->pc && a->transfer == read->transfer &&
                a->queue == read->queue;
    if (same && !a->writes && (a->transfer || a->epoch == read->epoch) && !is_written(c, a))
      return false;
  }
  return true;
}

bool vm_ck_explains(const vm_core *c, const vm_finding *f, const vm_ck_access *write,
                    const vm_ck_access *read) {
  vm_ck_access hole = {.p0 = f->part, .p1 = (uint16_t)(f->part + 1), .region = write->region};
  if (f->kind != VM_CHECK_UNINIT || f->memory != write->region + 1 || !write->writes ||
      read->writes || f->engine != read->engine || f->pc != read->pc)
    return false;
  int64_t at = (int64_t)(c->check->regions[write->region].lo + f->byte);
  isa_byteset_make(at, 1, NULL, 0, &hole.set);
  if (c->check->regions[write->region].space == ISA_HBM) hole.p0 = 0, hole.p1 = 1;
  return vm_ck_race_meet(&hole, write) && is_made_good(c, read);
}
