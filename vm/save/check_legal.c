/* The steps and accesses of a run that is judged under all schedules. What the judges make of them
 * is not saved: the steps are added again, one by one, each with its accesses after it. */
#include "../check/check.h"
#include "../check/impl.h"
#include "save.h"

enum { END, STEP, ACCESS }; /* what comes next */

/* The last step that was added, and the one before: what comes next must fit them. */
typedef struct last {
  vm_legal_step s, half; /* half: of a sendrecv whose other one has not come */
  bool any, is_half;
} last;

static void save_signed(vm_saver *s, int64_t *v) {
  uint64_t bits = (uint64_t)*v;
  vm_save_u64(s, &bits);
  *v = (int64_t)bits;
}

static bool is_step(const vm_core *c, const vm_legal_step *t) {
  const struct vm_check *k = c->check;
  if (t->kind > VM_LEGAL_TOUCH || t->engine >= k->nengines || t->pc >= vm_ck_code(c, t->engine)->n)
    return false;
  bool trigger = t->kind == VM_LEGAL_TRIGGER, flight = t->kind == VM_LEGAL_FLIGHT;
  bool update = t->update == ISA_UPD_none || t->update == ISA_UPD_add ||
                t->update == ISA_UPD_write || (t->update == ISA_UPD_dma && trigger);
  bool bounded = t->delta >= -(int64_t)UINT32_MAX && t->delta <= (int64_t)UINT32_MAX;
  bool queue =
      !trigger || (t->queue < k->nqueues && t->rings == vm_ck_queue_row(c, t->queue)->rings);
  bool alone = !(t->glued || t->at_once) || t->kind == VM_LEGAL_PLAIN;
  return t->cond <= ISA_WAIT_ne && t->sem < k->nsems && t->to < k->nsems && update && bounded &&
         queue && alone && (!t->meets || trigger || flight);
}

/* A sendrecv's two steps follow one another, and are of the two cores. */
static bool is_other_half(const vm_legal_step *a, const vm_legal_step *b) {
  return b->meets == a->engine + 1 && a->meets == b->engine + 1 && a->kind == b->kind &&
         a->pipe == b->pipe && a->rings == b->rings &&
         a->engine / ISA_NSEQS != b->engine / ISA_NSEQS;
}

static void walk_step(vm_saver *s, const vm_core *c, vm_legal_step *t) {
  vm_save_u8(s, &t->kind);
  vm_save_u8(s, &t->engine);
  vm_save_u8(s, &t->cond);
  vm_save_u16(s, &t->sem);
  vm_save_u32(s, &t->value);
  vm_save_u8(s, &t->update);
  vm_save_u16(s, &t->to);
  vm_save_bool(s, &t->at_once);
  vm_save_bool(s, &t->glued);
  vm_save_bool(s, &t->at_read);
  vm_save_bool(s, &t->weights);
  vm_save_u8(s, &t->queue);
  vm_save_u8(s, &t->rings);
  vm_save_u8(s, &t->pipe);
  vm_save_u8(s, &t->meets);
  save_signed(s, &t->delta);
  vm_save_u32(s, &t->pc);
  vm_save_time(s, &t->time);
  vm_saver_need(s, is_step(c, t), "a step for the judges is not valid");
}

static void walk_access(vm_saver *s, const vm_core *c, vm_legal_access *a) {
  uint16_t ring = (uint16_t)(a->ring + 1);
  vm_save_check_set(s, c, &a->region, &a->set);
  vm_save_u16(s, &a->p0);
  vm_save_u16(s, &a->p1);
  vm_save_bool(s, &a->writes);
  vm_save_u16(s, &ring);
  a->ring = (int16_t)(ring - 1);
  vm_saver_need(s, a->p0 < a->p1 && a->p1 <= ISA_PMAX, "an access for the judges is not valid");
}

/* ---- Writing ------------------------------------------------------------------------------- */

struct writer {
  vm_saver *s;
  const vm_core *c;
};
static void write_one(void *ud, const vm_legal_step *step, const vm_legal_access *access) {
  const struct writer *w = ud;
  vm_legal_step t = *step;
  vm_legal_access a;
  uint8_t what = access ? ACCESS : STEP;
  vm_save_u8(w->s, &what);
  if (!access) {
    walk_step(w->s, w->c, &t);
    return;
  }
  a = *access;
  walk_access(w->s, w->c, &a);
}

/* ---- Reading ------------------------------------------------------------------------------- */

static void read_step(vm_saver *s, vm_core *c, last *l) {
  vm_legal_step t = {0};
  walk_step(s, c, &t);
  if (s->failed) return;
  bool fits = !t.meets || !l->is_half || is_other_half(&l->half, &t);
  if (!vm_saver_need(s, fits, "a sendrecv for the judges has met no other one")) return;
  if (t.meets) {
    l->is_half = !l->is_half;
    l->half = t;
  }
  l->s = t;
  l->any = true;
  vm_legal_add_step(c->check->legal, &t);
}

static void read_access(vm_saver *s, vm_core *c, const last *l) {
  vm_legal_access a = {0};
  walk_access(s, c, &a);
  bool share = l->any && l->s.kind == VM_LEGAL_TRIGGER;
  bool fits = l->any && (share ? a.ring >= 0 && a.ring < l->s.rings
                               : a.ring == -1 &&
                                     (l->s.kind == VM_LEGAL_FLIGHT || l->s.kind == VM_LEGAL_TOUCH));
  if (!vm_saver_need(s, fits, "an access for the judges belongs to no step")) return;
  a.engine = l->s.engine;
  vm_legal_add_access(c->check->legal, &a);
}

static void read_all(vm_saver *s, vm_core *c) {
  last l = {.any = false};
  uint8_t what = END;
  do {
    vm_save_u8(s, &what);
    if (what == STEP) read_step(s, c, &l);
    if (what == ACCESS) read_access(s, c, &l);
    vm_saver_need(s, what <= ACCESS, "the steps for the judges are not valid");
  } while (what != END && !s->failed);
  vm_saver_need(s, !l.is_half, "a sendrecv for the judges has met no other one");
}

void vm_save_check_legal(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  bool by_host = vm_legal_gave_up(k->legal) != NULL;
  uint8_t end = END;
  vm_save_bool(s, &by_host);
  if (s->reads) {
    read_all(s, c);
    if (by_host) vm_ck_legal_by_host(c);
  } else {
    vm_legal_each(k->legal, write_one, &(struct writer){s, c});
    vm_save_u8(s, &end);
  }
  if (!vm_legal_is_whole(k->legal)) vm_saver_no_memory(s);
  for (unsigned e = 0; e < k->nengines && !s->failed; e++) {
    vm_save_bool(s, &k->has_pending[e]);
    if (!k->has_pending[e]) continue;
    walk_step(s, c, &k->pending[e]);
    vm_saver_need(s,
                  k->pending[e].engine == e && k->pending[e].kind != VM_LEGAL_FLIGHT &&
                      k->pending[e].kind != VM_LEGAL_TRIGGER,
                  "a step for the judges is not valid");
  }
}
