/* The list of stops, and those that hold at an instruction or a semaphore. */
#include "../engine/engine.h"
#include "debug.h"

#include <string.h>

static void give_cores(const vm_run *r, vm_debug *d) {
  /* All cores of a run share one list, so that a stop ends all of them. */
  for (unsigned i = 0; i < r->n; i++) r->cores[i]->debug = d;
}

static const vm_watch watch; /* below */

static vm_debug *debug_of(vm_core *c) {
  if (!c->debug) give_cores(c->run, isa_zalloc(&c->al, sizeof *c->debug));
  if (c->debug) vm_watch_add(c->run, &watch);
  return c->debug;
}

/* Whether the stop is of that kind, about engine e of c. */
static bool is_of(const vm_stop *s, unsigned kind, const vm_core *c, unsigned e) {
  return s->kind == kind && s->core == c->number && s->engine == e;
}

/* The fast loop leaves at register instructions that a stop or the log needs, and only there. */
static void patch(vm_core *c, unsigned e, uint32_t pc) {
  const vm_debug *d = c->debug;
  vm_uop *u = &c->uops[e][pc];
  /* What it was before any stop. */
  u->op = vm_uop_of(&c->eng[e].code->insns[pc]).op;
  if (d->done) u->op = VM_U_STOP;
  for (uint32_t i = 0; i < d->n; i++)
    if (is_of(&d->v[i], VM_STOP_PC, c, e) && d->v[i].pc == pc) u->op = VM_U_STOP;
}
static void patch_at(vm_core *c, const vm_stop *s) {
  if (s->kind == VM_STOP_PC) patch(vm_core_at(c, s->core), s->engine, s->pc);
}

static void patch_all(const vm_run *r) {
  vm_core *c = r->cores[0];
  const vm_debug *d = c->debug;
  for (unsigned i = 0; i < r->n; c = r->cores[++i])
    for (unsigned e = 0; e < c->nseqs; e++) /* a log needs every one of them */
      for (uint32_t pc = 0; pc < c->eng[e].code->n; pc++)
        c->uops[e][pc].op = d->done ? VM_U_STOP : vm_uop_of(&c->eng[e].code->insns[pc]).op;
  for (uint32_t i = 0; i < d->n; i++) patch_at(r->cores[0], &d->v[i]);
}

bool vm_debug_add(vm_core *c, const vm_stop *s, uint32_t *id) {
  vm_debug *d = debug_of(c);
  if (!d || (d->n == d->cap && !isa_array_grow(&c->al, &d->v, d->n, &d->cap, sizeof *d->v)))
    return false;
  d->v[d->n] = *s;
  *id = d->v[d->n++].id = ++d->last_id;
  patch_at(c, s);
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
  /* A copy: the entry is overwritten by the next. */
  old = *s;
  memmove(s, s + 1, (size_t)(d->v + d->n - (s + 1)) * sizeof *s);
  d->n--;
  patch_at(c, &old);
}

bool vm_debug_tell(vm_core *c, void (*fn)(void *ud, const vm_done *d), void *ud) {
  vm_debug *d = fn || c->debug ? debug_of(c) : NULL;
  if (!d) return fn == NULL;
  /* Only where the log begins or ends do all instructions change. */
  bool as_before = !fn == !d->done;
  d->done = fn;
  d->done_ud = ud;
  if (!as_before) patch_all(c->run);
  return true;
}

void vm_debug_move(vm_core *to, vm_core *c, void *ud) {
  /* The list goes along with the run that goes on from a copy. */
  give_cores(to->run, c->debug);
  give_cores(c->run, NULL);
  vm_watch_remove(c->run, &watch);
  if (!to->debug) return;
  vm_watch_add(to->run, &watch);
  to->debug->done_ud = ud;
  memset(to->debug->core, 0, sizeof to->debug->core);
  to->debug->nhits = 0;
  patch_all(to->run);
}

static void end(vm_core *c) {
  isa_free(&c->al, c->debug->v, c->debug->cap * sizeof *c->debug->v);
  isa_free(&c->al, c->debug, sizeof *c->debug);
  give_cores(c->run, NULL);
}

static void resume(vm_core *c) { c->debug->nhits = 0; }

vm_hit vm_debug_at(const vm_core *c, unsigned e, uint32_t pc, vm_time start) {
  return (vm_hit){.where = vm_at_pc(c, e, pc), .start = start, .time = c->now, .from_rank = -1};
}

void vm_debug_hit(vm_core *c, vm_stop *s, const vm_hit *h) {
  vm_debug *d = c->debug;
  s->last = *h;
  s->last.stop = s->id;
  s->hits++;
  /* It is counted alone, and the run goes on. */
  if (s->quiet) return;
  c->run->paused = true;
  /* More at one time than that are counted alone. */
  if (d->nhits < VM_HITS) d->hit[d->nhits++] = s->last;
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* Each instruction that an engine issues has a number, so that the run stops only once at it. */
static uint64_t number(const vm_engine *en) { return en->instructions + 1; }

void vm_debug_stepped(vm_core *c, unsigned e) {
  const vm_engine *en = &c->eng[e];
  if (!c->debug || en->state == VM_HALTED || en->state == VM_IDLE) return;
  const isa_wait *w = &en->code->insns[en->pc].wait;
  /* What stands at a wait has not been reached, and is told when it holds. */
  if (w->cond == ISA_WAIT_none || vm_wait_holds(c, en, w))
    c->debug->core[c->number].told[e] = number(en);
}

bool vm_debug_passes(const vm_core *c, unsigned e) {
  return c->debug && c->debug->core[c->number].told[e] == number(&c->eng[e]);
}

static bool before(vm_core *c, unsigned e) {
  vm_debug *d = c->debug;
  vm_debug_core *k = &d->core[c->number];
  const vm_engine *en = &c->eng[e];
  const isa_wait *w = &en->code->insns[en->pc].wait;
  if (w->cond != ISA_WAIT_none && !vm_wait_holds(c, en, w)) return false;
  /* How long it has waited, for the log. */
  k->waited[e] = en->wait_noted ? c->now - en->wait_since : 0;
  if (vm_debug_passes(c, e)) return false;
  vm_hit h = vm_debug_at(c, e, en->pc, c->now);
  for (uint32_t i = 0; i < d->n; i++) {
    vm_stop *s = &d->v[i];
    if (is_of(s, VM_STOP_PC, c, e) && s->pc == en->pc) vm_debug_hit(c, s, &h);
  }
  k->told[e] = number(en);
  return c->run->paused;
}

static void count(vm_core *c, unsigned e) {
  vm_debug *d = c->debug;
  const vm_engine *en = &c->eng[e];
  vm_hit h = vm_debug_at(c, e, en->pc, en->now);
  h.time = en->now;
  for (uint32_t i = 0; i < d->n; i++) {
    vm_stop *s = &d->v[i];
    /* A count is reached once. */
    if (is_of(s, VM_STOP_COUNT, c, e) && s->count == en->instructions && !s->hits)
      vm_debug_hit(c, s, &h);
  }
}

static uint64_t budget(const vm_core *c, unsigned e) {
  uint64_t least = UINT64_MAX, have = c->eng[e].instructions;
  for (uint32_t i = 0; i < c->debug->n; i++) {
    const vm_stop *s = &c->debug->v[i];
    if (is_of(s, VM_STOP_COUNT, c, e) && !s->hits && s->count >= have && s->count - have < least)
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

static void issued(vm_core *c, unsigned e, uint32_t pc) {
  vm_debug *d = c->debug;
  vm_debug_core *k = &d->core[c->number];
  const vm_engine *en = &c->eng[e];
  const isa_insn *in = &en->code->insns[pc];
  if (en->state == VM_HALTED) count(c, e);
  if (!d->done || isa_op_is_dma(in->op)) return;
  if (!isa_op_is_control(in->op)) { /* reported when it has executed */
    k->of_flight[e][(en->first + en->nflights - 1) % VM_FLIGHTS] = k->waited[e];
    return;
  }
  int reg = written_register(in);
  d->done(d->done_ud, &(vm_done){.where = vm_at_pc(c, e, pc),
                                 .start = c->now,
                                 .end = en->now,
                                 .waited = k->waited[e],
                                 .reg = reg,
                                 .value = reg >= 0 ? en->regs[reg] : 0});
}

/* ---- Semaphores --------------------------------------------------------------------------- */

static void change(vm_core *c, unsigned sem, uint32_t old, uint32_t next, vm_where by) {
  vm_hit h = {.where = by, .start = c->now, .time = c->now, .value = next, .from_rank = -1};
  if (by.engine == VM_BY_PEER) h.from_rank = (int32_t)by.pc;
  for (uint32_t i = 0; i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    if (s->kind != VM_STOP_SEM || s->core != c->number || s->sem != sem) continue;
    /* Only the change that makes it hold. */
    if (isa_cond_holds(s->cond, next, s->value) && !isa_cond_holds(s->cond, old, s->value))
      vm_debug_hit(c, s, &h);
  }
}

static const vm_watch watch = {.before = before,
                               .issued = issued,
                               .budget = budget,
                               .reached = count,
                               .accessed = vm_debug_accessed,
                               .issue = vm_debug_issue,
                               .executed = vm_debug_executed,
                               .ended = vm_debug_ended,
                               .arrive = vm_debug_arrive,
                               .change = change,
                               .resume = resume,
                               .stepped = vm_debug_stepped,
                               .end = end};
