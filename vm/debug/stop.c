/* The list of stops, and those that hold at an instruction or a semaphore. */
#include "../engine/engine.h"
#include "debug.h"

#include <string.h>

static vm_debug *debug_of(vm_core *c) {
  if (!c->debug) c->debug = isa_zalloc(&c->al, sizeof *c->debug);
  return c->debug;
}

/* The fast loop leaves at register instructions where somebody looks, and only there. */
static void patch(vm_core *c, unsigned e, uint32_t pc) {
  const vm_debug *d = c->debug;
  vm_uop *u = &c->uops[e][pc];
  u->op = vm_uop_of(&c->eng[e].code->insns[pc]).op;
  if (d->done) u->op = VM_U_STOP;
  for (uint32_t i = 0; i < d->n; i++)
    if (d->v[i].kind == VM_STOP_PC && d->v[i].engine == e && d->v[i].pc == pc) u->op = VM_U_STOP;
}

static void patch_all(vm_core *c) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < c->eng[e].code->n; pc++)
      c->uops[e][pc].op = c->debug->done ? VM_U_STOP : vm_uop_of(&c->eng[e].code->insns[pc]).op;
  for (uint32_t i = 0; i < c->debug->n; i++)
    if (c->debug->v[i].kind == VM_STOP_PC) patch(c, c->debug->v[i].engine, c->debug->v[i].pc);
}

bool vm_debug_add(vm_core *c, const vm_stop *s, uint32_t *id) {
  vm_debug *d = debug_of(c);
  if (!d || (d->n == d->cap && !isa_array_grow(&c->al, &d->v, d->n, &d->cap, sizeof *d->v)))
    return false;
  d->v[d->n] = *s;
  *id = d->v[d->n++].id = ++d->last_id;
  if (s->kind == VM_STOP_PC) patch(c, s->engine, s->pc);
  return true;
}

vm_stop *vm_debug_find(const vm_core *c, uint32_t id) {
  for (uint32_t i = 0; c->debug && i < c->debug->n; i++)
    if (c->debug->v[i].id == id) return &c->debug->v[i];
  return NULL;
}

void vm_debug_remove(vm_core *c, uint32_t id) {
  vm_stop *s = vm_debug_find(c, id), old;
  if (!s) return;
  vm_debug *d = c->debug;
  old = *s;
  memmove(s, s + 1, (size_t)(d->v + d->n - (s + 1)) * sizeof *s);
  d->n--;
  if (old.kind == VM_STOP_PC) patch(c, old.engine, old.pc);
}

bool vm_debug_tell(vm_core *c, void (*fn)(void *ud, const vm_done *d), void *ud) {
  vm_debug *d = fn || c->debug ? debug_of(c) : NULL;
  if (!d) return fn == NULL;
  bool as_before = !fn == !d->done;
  d->done = fn;
  d->done_ud = ud;
  if (!as_before) patch_all(c);
  return true;
}

void vm_debug_move(vm_core *to, vm_core *c, void *ud) {
  to->debug = c->debug;
  c->debug = NULL;
  if (!to->debug) return;
  to->debug->done_ud = ud;
  memset(to->debug->told, 0, sizeof to->debug->told);
  vm_debug_resume(to);
  patch_all(to);
}

void vm_debug_end(vm_core *c) {
  if (!c->debug) return;
  isa_free(&c->al, c->debug->v, c->debug->cap * sizeof *c->debug->v);
  isa_free(&c->al, c->debug, sizeof *c->debug);
  c->debug = NULL;
}

void vm_debug_resume(vm_core *c) {
  if (!c->debug) return;
  c->debug->paused = false;
  c->debug->nhits = 0;
}

void vm_debug_hit(vm_core *c, vm_stop *s, const vm_hit *h) {
  vm_debug *d = c->debug;
  s->last = *h;
  s->last.stop = s->id;
  s->hits++;
  if (s->quiet) return;
  d->paused = true;
  if (d->nhits < VM_HITS) d->hit[d->nhits++] = s->last;
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* Each instruction that an engine issues has a number, so that it is stopped at once only. */
static uint64_t number(const vm_engine *en) { return en->instructions + 1; }

void vm_debug_stepped(vm_core *c, unsigned e) {
  const vm_engine *en = &c->eng[e];
  if (!c->debug || en->state == VM_HALTED) return;
  const isa_wait *w = &en->code->insns[en->pc].wait;
  if (w->cond == ISA_WAIT_none || vm_wait_holds(c, en, w)) c->debug->told[e] = number(en);
}

bool vm_debug_before(vm_core *c, unsigned e) {
  vm_debug *d = c->debug;
  const vm_engine *en = &c->eng[e];
  const isa_wait *w = &en->code->insns[en->pc].wait;
  if (w->cond != ISA_WAIT_none && !vm_wait_holds(c, en, w)) return false;
  d->waited[e] = en->wait_noted ? c->now - en->wait_since : 0;
  if (d->told[e] == number(en)) return false;
  vm_hit h = {.where = vm_at_pc(e, en->pc), .start = c->now, .time = c->now};
  for (uint32_t i = 0; i < d->n; i++) {
    vm_stop *s = &d->v[i];
    if (s->kind == VM_STOP_PC && s->engine == e && s->pc == en->pc) vm_debug_hit(c, s, &h);
  }
  d->told[e] = number(en);
  return d->paused;
}

void vm_debug_count(vm_core *c, unsigned e) {
  vm_debug *d = c->debug;
  const vm_engine *en = &c->eng[e];
  vm_hit h = {.where = vm_at_pc(e, en->pc), .start = en->now, .time = en->now};
  for (uint32_t i = 0; i < d->n; i++) {
    vm_stop *s = &d->v[i];
    if (s->kind == VM_STOP_COUNT && s->engine == e && s->count == en->instructions && !s->hits)
      vm_debug_hit(c, s, &h);
  }
}

uint64_t vm_debug_budget(const vm_core *c, unsigned e) {
  uint64_t least = UINT64_MAX, have = c->eng[e].instructions;
  for (uint32_t i = 0; i < c->debug->n; i++) {
    const vm_stop *s = &c->debug->v[i];
    if (s->kind == VM_STOP_COUNT && s->engine == e && !s->hits && s->count >= have &&
        s->count - have < least)
      least = s->count - have;
  }
  return least;
}

/* The register that an instruction writes, -1: none. */
static int written_register(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (form->fields[i].kind == ISA_K_REG && strcmp(form->fields[i].name, "rd") == 0)
      return *(const uint8_t *)isa_member_c(in, &form->fields[i]);
  return -1;
}

void vm_debug_issued(vm_core *c, unsigned e, uint32_t pc) {
  vm_debug *d = c->debug;
  const vm_engine *en = &c->eng[e];
  const isa_insn *in = &en->code->insns[pc];
  if (en->state == VM_HALTED) vm_debug_count(c, e);
  if (!d->done || isa_op_is_dma(in->op)) return;
  if (!isa_op_is_control(in->op)) { /* told when it has executed */
    d->of_flight[e][(en->first + en->nflights - 1) % VM_FLIGHTS] = d->waited[e];
    return;
  }
  int reg = written_register(in);
  d->done(d->done_ud, &(vm_done){.where = vm_at_pc(e, pc),
                                 .start = c->now,
                                 .end = en->now,
                                 .waited = d->waited[e],
                                 .reg = reg,
                                 .value = reg >= 0 ? en->regs[reg] : 0});
}

/* ---- Semaphores --------------------------------------------------------------------------- */

void vm_debug_change(vm_core *c, unsigned sem, uint32_t old, uint32_t next, vm_where by) {
  vm_hit h = {.where = by, .start = c->now, .time = c->now, .value = next};
  for (uint32_t i = 0; i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    if (s->kind == VM_STOP_SEM && s->sem == sem && isa_cond_holds(s->cond, next, s->value) &&
        !isa_cond_holds(s->cond, old, s->value))
      vm_debug_hit(c, s, &h);
  }
}
