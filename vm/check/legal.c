/* What a run did, step by step, for the judges in ../legal, and their verdict as text. Bytes are
 * those that race.c finds for each access. */
#include "check.h"
#include "judge.h"

static bool start_legal(vm_core *c) {
  if (!vm_ck_has(c, VM_CHECK_LEGAL)) return true;
  c->check->legal = vm_legal_new(&c->al, c->check->nengines);
  return c->check->legal != NULL;
}

static void end_legal(vm_core *c) { vm_legal_free(c->check->legal); }

/* ---- Steps --------------------------------------------------------------------------------- */

static vm_legal_step step_at(const vm_core *c, unsigned e, uint32_t pc) {
  return (vm_legal_step){.kind = VM_LEGAL_PLAIN, .engine = (uint8_t)e, .pc = pc, .time = c->now};
}

/* The step that engine e has begun; an instruction that has several steps adds one more. */
static vm_legal_step *pending(vm_core *c, unsigned e) {
  struct vm_check *k = c->check;
  if (!k->has_pending[e]) k->pending[e] = step_at(c, e, vm_ck_engine(c, e)->pc);
  k->has_pending[e] = true;
  return &k->pending[e];
}

static void add(vm_core *c, unsigned e) {
  const vm_legal_step *s = pending(c, e);
  c->check->has_pending[e] = false;
  vm_legal_add_step(c->check->legal, s);
}

/* The step is complete; a step that neither waits nor does anything is left out. */
static void flush(vm_core *c, unsigned e) {
  const vm_legal_step *s = &c->check->pending[e];
  if (!c->check->has_pending[e]) return;
  if (s->cond != ISA_WAIT_none || s->update != ISA_UPD_none || s->kind != VM_LEGAL_PLAIN) add(c, e);
  c->check->has_pending[e] = false;
}

void vm_ck_legal_wait(vm_core *c, unsigned e, const isa_wait *w) {
  flush(c, e);
  vm_legal_step *s = pending(c, e);
  s->cond = w->cond;
  s->sem = (uint16_t)vm_ck_sem(e >= ISA_NSEQS, w->sem);
  if (w->cond != ISA_WAIT_none)
    s->value = w->is_reg ? vm_ck_engine(c, e)->regs[w->value] : w->value;
}

static void set_update(vm_legal_step *s, unsigned kind, unsigned sem, uint32_t value) {
  s->update = ISA_UPD_add;
  s->to = (uint16_t)sem;
  switch (kind) {
  case ISA_UPD_none: s->update = ISA_UPD_none; break;
  case ISA_UPD_inc: s->delta = 1; break;
  case ISA_UPD_dec: s->delta = -1; break;
  case ISA_UPD_sub: s->delta = -(int64_t)value; break;
  case ISA_UPD_write:
    s->update = ISA_UPD_write;
    s->delta = value;
    break;
  case ISA_UPD_dma: s->update = ISA_UPD_dma; break;
  default: s->delta = value; break;
  }
}

/* Which engine of the other core a sendrecv has met. */
static void set_met(const vm_core *c, unsigned e, const isa_insn *in, vm_legal_step *s) {
  s->meets = (uint8_t)(c->check->met[e] + 1);
  s->pipe = (uint8_t)isa_insn_pipe(in);
}

void vm_ck_legal_issue(vm_core *c, unsigned e, const vm_flight *f) {
  const isa_update *u = &f->in->upd;
  vm_legal_step *s = pending(c, e);
  s->kind = VM_LEGAL_FLIGHT;
  s->weights = isa_ops[f->in->op].cost == ISA_COST_LDW;
  s->at_read = u->kind != ISA_UPD_none && u->at_read;
  s->time = f->item.start;
  set_update(s, u->kind, vm_ck_sem(u->core, u->sem), u->value);
  if (f->in->op == ISA_OP_sendrecv_gpsimd) set_met(c, e, f->in, s);
  add(c, e);
  /* race.c finds the bytes, and gives them to vm_ck_legal_access while this is set. */
  c->check->recording = true;
  vm_ck_race_flight(c, e, f);
  c->check->recording = false;
}

void vm_ck_legal_transfer(vm_core *c, unsigned e, const isa_insn *in, const vm_transfer *t,
                          const vm_share *shares) {
  vm_legal_step *s = pending(c, e);
  unsigned ring = 0;
  s->kind = VM_LEGAL_TRIGGER;
  s->queue = (uint8_t)vm_ck_queue(c, t->queue);
  s->rings = c->code->queues[t->queue].rings;
  if (t->signals) set_update(s, ISA_UPD_dma, vm_ck_sem(t->sem_core, t->sem), 0);
  if (in->op == ISA_OP_sendrecv) set_met(c, e, in, s);
  add(c, e);
  c->check->recording = true;
  for (const vm_share *x = shares; x; x = x->next) vm_ck_race_share(c, e, t, x, ring++);
  c->check->recording = false;
}

void vm_ck_legal_touch(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  flush(c, e);
  pending(c, e)->kind = VM_LEGAL_TOUCH;
  add(c, e);
  c->check->recording = true;
  vm_ck_race_sequencer(c, e, v, writes);
  c->check->recording = false;
}

void vm_ck_legal_access(vm_core *c, const vm_ck_access *a) {
  const vm_legal_access to = {.set = a->set,
                              .p0 = a->p0,
                              .p1 = a->p1,
                              .region = a->region,
                              .writes = a->writes,
                              .engine = a->engine,
                              .ring = a->queue < VM_CK_QUEUES ? a->ring : -1};
  vm_legal_add_access(c->check->legal, &to);
}

void vm_ck_legal_drain(vm_core *c, unsigned e) { pending(c, e)->kind = VM_LEGAL_DRAIN; }

void vm_ck_legal_update(vm_core *c, unsigned e, const isa_update *u) {
  if (pending(c, e)->update != ISA_UPD_none) add(c, e); /* a barrier's, which has taken before */
  set_update(pending(c, e), u->kind, vm_ck_sem(u->core, u->sem), u->value);
}

void vm_ck_legal_by_host(vm_core *c) {
  vm_legal_give_up(c->check->legal, "the host has set a semaphore while the program ran");
}

/* The steps of an instruction that sets several semaphores at once belong together. */
void vm_ck_legal_applied(vm_core *c, unsigned e, unsigned sem, unsigned kind) {
  if (e >= VM_CK_ENGINES) {
    vm_ck_legal_by_host(c);
    return;
  }
  const isa_insn *in = &vm_ck_code(c, e)->insns[vm_ck_engine(c, e)->pc];
  bool cleared = in->op == ISA_OP_sem_range_clear;
  if (pending(c, e)->update != ISA_UPD_none) {
    pending(c, e)->glued = true;
    add(c, e);
  }
  vm_legal_step *s = pending(c, e);
  s->at_once = true;
  set_update(s, kind, sem, cleared ? 0 : in->upd.value);
}

/* ---- Twins --------------------------------------------------------------------------------- */

static uint64_t key_of(void *ud, const vm_legal_step *s, uint32_t transfer, uint16_t region) {
  const vm_ck_access a = {
      .writes = true, .transfer = transfer, .region = region, .engine = s->engine, .pc = s->pc};
  uint64_t key;
  return vm_ck_twins_key(ud, &a, &key) ? key : 0;
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void name_step(void *ud, const vm_legal_step *s, isa_buf *out) {
  const vm_core *c = ud;
  isa_buf_printf(out, "%s ", vm_ck_name(c, s->engine));
  vm_ck_put_place(c, s->engine, s->pc, out);
}

/* The place in the form of an access of race.c, for the words that describe one. */
static vm_ck_access access_of(const vm_legal_place *p) {
  const vm_legal_access *x = p->access;
  return (vm_ck_access){.set = x->set,
                        .p0 = x->p0,
                        .p1 = x->p1,
                        .region = x->region,
                        .writes = x->writes,
                        .engine = p->step->engine,
                        .queue = p->ring < 0 ? VM_CK_QUEUES : p->step->queue,
                        .ring = p->ring < 0 ? 0 : (uint8_t)p->ring};
}

static void put_insn(const vm_core *c, const vm_legal_step *s, isa_buf *out) {
  vm_ck_put_insn(c, s->engine, s->pc, s->time, out);
}

static void put_access(const vm_core *c, const vm_legal_place *p, isa_buf *out) {
  vm_ck_access a = access_of(p);
  put_insn(c, p->step, out);
  isa_buf_printf(out, "\n    %s ", a.writes ? "writes" : "reads");
  vm_ck_put_bytes(c, &c->check->regions[a.region], &a, out);
  if (p->ring >= 0) isa_buf_printf(out, ", ring %d", p->ring);
}

static void put_at(const vm_core *c, const vm_legal_step *s, isa_buf *out) {
  isa_buf_puts(out, " at ");
  vm_ck_put_place(c, s->engine, s->pc, out);
}

static void put_order(const vm_core *c, const vm_legal_place *p, isa_buf *order, isa_buf *out) {
  isa_buf_puts(out, "\n  a schedule in which ");
  name_step((void *)(uintptr_t)c, p->step, out);
  isa_buf_printf(out, "%s comes first: %s", p->ring >= 0 ? "'s transfer" : "", isa_buf_str(order));
}

static void put_race(const vm_core *c, vm_legal_result *r, isa_buf *out) {
  const vm_legal_place *p = &r->place[0], *q = &r->place[1];
  if (r->triggers) {
    isa_buf_printf(out, "%s", vm_ck_name(c, p->step->engine));
    put_at(c, p->step, out);
    isa_buf_printf(out, " and %s", vm_ck_name(c, q->step->engine));
    put_at(c, q->step, out);
    if (r->pipes)
      isa_buf_printf(out, " use pipe %u, and nothing orders the two", p->step->pipe);
    else
      isa_buf_printf(out, " trigger queue %s, and nothing orders the two",
                     vm_ck_queue_row(c, p->step->queue)->name);
    put_insn(c, p->step, out);
    put_insn(c, q->step, out);
  } else {
    vm_ck_access a = access_of(p), b = access_of(q);
    vm_ck_put_who(c, &b, out);
    isa_buf_printf(out, " %s", b.writes ? "writes" : "reads");
    put_at(c, q->step, out);
    isa_buf_puts(out, " what ");
    vm_ck_put_who(c, &a, out);
    isa_buf_printf(out, " %s", a.writes ? "writes" : "reads");
    put_at(c, p->step, out);
    isa_buf_puts(out, ", and nothing orders the two");
    put_access(c, p, out);
    put_access(c, q, out);
  }
  put_order(c, p, &r->order[0], out);
  put_order(c, q, &r->order[1], out);
}

static void put_lucky(const vm_core *c, vm_legal_result *r, isa_buf *out) {
  const vm_legal_step *s = r->place[0].step;
  bool below = r->verdict == VM_LEGAL_BELOW;
  isa_buf_puts(out, vm_ck_name(c, s->engine));
  if (below) {
    isa_buf_puts(out, " can take ");
    vm_ck_put_sem(c, s->to, out);
    isa_buf_puts(out, " below zero");
  } else {
    isa_buf_puts(out, " can wait for ever for ");
    vm_ck_put_sem(c, s->sem, out);
    isa_buf_printf(out, " %s %u", isa_cond_text(s->cond), s->value);
  }
  put_at(c, s, out);
  put_insn(c, s, out);
  isa_buf_printf(out, "\n  a schedule in which it does: %s", isa_buf_str(&r->order[0]));
}

static void put_verdict(const vm_core *c, vm_legal_result *r, vm_schedules *out) {
  isa_buf *text = &out->text;
  switch (r->verdict) {
  case VM_LEGAL_SAME:
    out->verdict = VM_SCHEDULES_SAME;
    isa_buf_printf(text, "does not depend on timing%s (%llu states)",
                   r->alike ? ", twins aside" : "", (unsigned long long)r->states);
    return;
  case VM_LEGAL_UNKNOWN:
    out->verdict = VM_SCHEDULES_UNKNOWN;
    isa_buf_puts(text, "not decided: ");
    if (r->why) {
      isa_buf_puts(text, r->why);
      return;
    }
    isa_buf_printf(text, "stopped after %llu states", (unsigned long long)r->states);
    if (r->place[0].step) put_at(c, r->place[0].step, text);
    return;
  default: break;
  }
  out->verdict = VM_SCHEDULES_DIFFER;
  isa_buf_puts(text, "depends on timing: ");
  if (r->verdict == VM_LEGAL_RACE)
    put_race(c, r, text);
  else
    put_lucky(c, r, text);
}

void vm_check_schedules(vm_core *c, vm_schedules *out) {
  struct vm_check *k = c->check;
  vm_legal_result r;
  *out = (vm_schedules){.engine = VM_CK_ENGINES, .other_engine = VM_CK_ENGINES};
  isa_buf_init(&out->text, &c->al);
  for (unsigned e = 0; e < k->nengines; e++) flush(c, e);
  vm_legal_name_steps(k->legal, name_step, c);
  vm_legal_give_keys(k->legal, key_of, c);
  vm_legal_judge(k->legal, &r);
  out->states = r.states;
  if (r.place[0].step) {
    out->engine = r.place[0].step->engine;
    out->pc = r.place[0].step->pc;
  }
  if (r.place[1].step) {
    out->other_engine = r.place[1].step->engine;
    out->other_pc = r.place[1].step->pc;
  }
  if (r.verdict == VM_LEGAL_NOMEM)
    out->text.failed = true;
  else
    put_verdict(c, &r, out);
  vm_legal_result_free(&r);
}

/* ---- In a saved run ------------------------------------------------------------------------ */
/* The steps and accesses. What the judges make of them is not saved: the steps are added again, one
 * by one, each with its accesses after it. */

enum { END, STEP, ACCESS }; /* what comes next */

/* The last step that was added, and the one before: what comes next must fit them. */
typedef struct last {
  vm_legal_step s, half; /* half: of a sendrecv whose other one has not come */
  bool any, is_half;
} last;

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
  vm_save_i64(s, &t->delta);
  vm_save_u32(s, &t->pc);
  vm_save_time(s, &t->time);
  vm_saver_need(s, is_step(c, t), "a step for the judges is not valid");
}

static void walk_access(vm_saver *s, const vm_core *c, vm_legal_access *a) {
  /* -1, of no ring, is 0 in the file. */
  uint16_t ring = (uint16_t)(a->ring + 1);
  vm_ck_walk_set(s, c, &a->region, &a->set);
  vm_save_u16(s, &a->p0);
  vm_save_u16(s, &a->p1);
  vm_save_bool(s, &a->writes);
  vm_save_u16(s, &ring);
  a->ring = (int16_t)(ring - 1);
  vm_saver_need(s, a->p0 < a->p1 && a->p1 <= ISA_PMAX, "an access for the judges is not valid");
}

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

static void read_step(vm_saver *s, vm_core *c, last *l) {
  vm_legal_step t = {0};
  walk_step(s, c, &t);
  if (s->failed) return;
  bool fits = !t.meets || !l->is_half || is_other_half(&l->half, &t);
  /* Halves come in pairs, one right after the other. */
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

static void walk_legal(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  if (!k->legal) return;
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

const vm_ck_part vm_ck_part_legal = {.start = start_legal, .walk = walk_legal, .end = end_legal};
