/* The log of a saved run with the race check: steps, updates and accesses by number. What follows
 * from the program alone is made again by vm_check_start. */
#include "../check/check.h"
#include "../check/impl.h"
#include "save.h"

static void save_signed(vm_saver *s, int64_t *v) {
  uint64_t bits = (uint64_t)*v;
  vm_save_u64(s, &bits);
  *v = (int64_t)bits;
}

static void walk_pc(vm_saver *s, const vm_core *c, unsigned engine, uint32_t *pc) {
  vm_save_u32(s, pc);
  vm_saver_need(s, engine < c->check->nengines && (*pc == 0 || *pc < vm_ck_code(c, engine)->n),
                "the log of a check names an instruction that is not there");
}

/* Room for one more element after n. */
static bool grow(vm_saver *s, const vm_core *c, void *v, uint32_t n, uint32_t *cap, size_t size) {
  if (!s->reads || n < *cap || vm_pool_room(c->run->pool, &c->al, v, n, cap, size)) return true;
  return vm_saver_no_memory(s);
}

static void walk_step(vm_saver *s, const vm_core *c, uint32_t i, vm_ck_step *t) {
  const vm_ck_log *g = &c->check->log;
  vm_save_u8(s, &t->kind);
  vm_save_u8(s, &t->engine);
  vm_save_u8(s, &t->cond);
  vm_save_u16(s, &t->sem);
  vm_save_u32(s, &t->prev);
  vm_save_u32(s, &t->other);
  vm_save_u32(s, &t->at);
  vm_save_u32(s, &t->seq);
  walk_pc(s, c, t->engine, &t->pc);
  save_signed(s, &t->want);
  vm_save_u32(s, &t->value);
  bool first = t->kind == VM_CK_START;
  bool ok = t->kind <= VM_CK_MEET && t->sem < c->check->nsems && (first || t->prev < i) &&
            t->at < g->at && (i == 0 || t->at > g->steps[i - 1].at) &&
            (t->kind != VM_CK_KNOW || t->other < g->nupdates) &&
            ((t->kind != VM_CK_QUEUE && t->kind != VM_CK_MEET) || t->other < i);
  ok = ok && (t->kind != VM_CK_DRAIN || t->want == 0 || c->check->nengines > ISA_NSEQS);
  vm_saver_need(s, ok, "a step of the log of a check is not valid");
}

static void walk_signal(vm_saver *s, const vm_core *c, vm_ck_signal *u) {
  const struct vm_check *k = c->check;
  vm_save_u32(s, &u->step);
  vm_save_u32(s, &u->at);
  for (unsigned i = 0; i < OF_ENGINE; i++) vm_save_u32(s, &u->own[i]);
  vm_save_u32(s, &u->share);
  vm_save_u32(s, &u->twin_share);
  vm_save_u32(s, &u->epoch);
  vm_save_u32(s, &u->arrived);
  save_signed(s, &u->delta);
  save_signed(s, &u->total);
  vm_save_u16(s, &u->comp);
  vm_save_u16(s, &u->ring);
  vm_save_u16(s, &u->twin);
  vm_save_u16(s, &u->sem);
  vm_save_u8(s, &u->engine);
  vm_save_bool(s, &u->writes);
  vm_save_bool(s, &u->taken);
  walk_pc(s, c, u->engine, &u->pc);
  bool ok = u->step < k->log.nsteps && u->comp < k->ncomps && u->ring < k->ncomps &&
            u->twin < k->ncomps && (u->ring == 0 || u->ring >= k->rings) && u->sem < k->nsems &&
            u->delta >= -(int64_t)UINT32_MAX && u->delta <= UINT32_MAX && u->arrived < k->log.at &&
            u->at < k->log.at;
  vm_saver_need(s, ok, "an update of the log of a check is not valid");
}

static void walk_logged_access(vm_saver *s, const vm_core *c, uint32_t i, vm_ck_access *a) {
  vm_save_check_access(s, c, a);
  vm_save_u32(s, &a->step);
  vm_save_u32(s, &a->at);
  vm_save_u32(s, &a->seq);
  a->logged = i + 1;
  vm_saver_need(s, a->step < c->check->log.nsteps, "an access of the log of a check is not valid");
}

static void walk_numbers(vm_saver *s, struct vm_check *k) {
  vm_ck_log *g = &k->log;
  vm_save_u32(s, &g->at);
  for (unsigned e = 0; e < k->nengines; e++)
    vm_save_below(s, &g->last[e], g->nsteps, "step of a check");
  for (unsigned q = 0; q < k->nqueues; q++)
    vm_save_below(s, &g->queue[q], g->nsteps, "step of a check");
  for (unsigned i = 0; i < k->nsems; i++) {
    save_signed(s, &g->taken[i]);
    vm_save_bool(s, &g->mixed[i]);
    vm_save_bool(s, &g->host[i]);
  }
}

void vm_save_check_log(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_log *g = &k->log;
  uint32_t steps = g->nsteps, updates = g->nupdates, sets = g->nsets, accesses = g->naccesses;
  vm_save_bool(s, &g->on);
  if (!g->on) {
    if (s->reads) vm_ck_log_end(c);
    return;
  }
  vm_saver_count(s, &steps, UINT32_MAX / 2, 39, "steps of a check");
  vm_saver_count(s, &updates, UINT32_MAX / 2, 65, "updates of a check");
  vm_saver_count(s, &sets, UINT32_MAX / 2, 65, "updates of a check");
  if (!vm_saver_need(s, steps > 0, "the log of a check is empty")) return;
  g->nsteps = steps;
  g->nupdates = updates;
  g->nsets = sets;
  vm_save_u32(s, &k->judged);
  walk_numbers(s, k);
  for (uint32_t i = 0; i < steps && !s->failed; i++) {
    if (!grow(s, c, &g->steps, i, &g->cap_steps, sizeof *g->steps)) break;
    walk_step(s, c, i, &g->steps[i]);
  }
  for (uint32_t i = 0; i < updates && !s->failed; i++) {
    if (!grow(s, c, &g->updates, i, &g->cap_updates, sizeof *g->updates)) break;
    walk_signal(s, c, &g->updates[i]);
  }
  for (uint32_t i = 0; i < sets && !s->failed; i++) {
    if (!grow(s, c, &g->sets, i, &g->cap_sets, sizeof *g->sets)) break;
    walk_signal(s, c, &g->sets[i]);
  }
  vm_saver_count(s, &accesses, UINT32_MAX / 2, 60, "accesses of a check");
  for (uint32_t i = 0; i < accesses && !s->failed; i++) {
    if (!grow(s, c, &g->accesses, i, &g->cap_accesses, sizeof *g->accesses)) break;
    if (s->reads) g->accesses[i] = (vm_ck_access){0};
    walk_logged_access(s, c, i, &g->accesses[i]);
    if (s->reads) g->naccesses = i + 1;
  }
}

/* ---- Twins ---------------------------------------------------------------------------------- */

void vm_save_check_twins(vm_saver *s, vm_core *c) {
  vm_ck_twins *w = &c->check->twins;
  uint32_t n = w->n;
  vm_save_u64(s, &w->pairs);
  vm_saver_count(s, &n, c->run->transfers, 16, "transfers of a check");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads && i == w->cap && !isa_array_grow(&c->al, &w->v, i, &w->cap, sizeof *w->v)) {
      vm_saver_no_memory(s);
      return;
    }
    if (s->reads) w->v[w->n++] = (vm_ck_written){0};
    vm_save_u64(s, &w->v[i].sum);
    save_signed(s, &w->v[i].left);
  }
}

/* ---- Marks of loaded weights ---------------------------------------------------------------- */

void vm_save_check_weights(vm_saver *s, vm_core *c) {
  for (unsigned core = 0; core < c->prog->ncores && !s->failed; core++) {
    vm_ck_grid *w = &c->check->fillers.weights[core];
    uint32_t elems = w->at ? (uint32_t)w->elems : 0;
    vm_save_below(s, &w->parts, ISA_PMAX + 1, "rows of weights");
    vm_save_below(s, &elems, ISA_PSUM_BYTES, "columns of weights");
    if (s->failed || !elems || !w->parts) continue;
    w->elems = elems;
    if (s->reads && !(w->at = isa_zalloc(&c->al, w->parts * elems))) {
      s->failed = true;
      if (s->err) s->err->status = ISA_NOMEM;
    }
    if (w->at) vm_saver_bytes(s, w->at, w->parts * elems);
  }
}
