/* The checks of a run: their life cycle, and what they are told together. */
#include "../engine/engine.h"
#include "../message.h"
#include "check.h"
#include "judge.h"
#include "shadow.h"

#include <stdio.h>
#include <string.h>

static const char *const names[VM_NCHECKS] = {
#define CHECK(code, name, values, usual, text) #name,
#include "../checks.def"
};

const char *vm_check_name(unsigned kind) { return kind < VM_NCHECKS ? names[kind] : NULL; }

/* A check of values can find nothing in a run that computes none. */
unsigned vm_check_possible(const vm_core *c, unsigned mask) {
  const unsigned of_values = 0
#define CHECK(code, name, values, usual, text) | (values) << VM_CHECK_##code
#include "../checks.def"
      ;
  return c->run->timing_only ? mask & ~of_values : mask;
}

uint64_t vm_check_twins(const vm_core *c) { return c->check ? c->check->twins.pairs : 0; }

unsigned vm_check_mask(const vm_core *c) { return c->check ? c->check->mask : 0; }

/* ---- Calls that more than one check uses -------------------------------------------------- */

void vm_check_begin(vm_core *c, unsigned e, const isa_insn *in) {
  unsigned unit = vm_ck_unit(c, e);
  if (c->check->legal) vm_ck_legal_wait(c, unit, &in->wait);
  /* The wait has just held: what it acquires is known from here on. */
  if (in->wait.cond != ISA_WAIT_none && vm_ck_has(c, VM_CHECK_RACE)) vm_ck_wait(c, unit, &in->wait);
  if (!vm_ck_registers_known(c->check, unit)) vm_check_step(c, e, c->eng[e].pc);
}

/* Device tensors have shadows of their own. */
void vm_check_host_wrote(vm_core *c, const vm_box *b) {
  if (c->check->shadowed && b->space != ISA_HBM) vm_ck_uninit_host(c, b); /* the device's tensor */
  vm_ck_unlearn(c, VM_CK_IS_FINITE, b);
}

void vm_check_host_register(vm_core *c, unsigned e, unsigned r) {
  /* The host's value is as good as an instruction's. */
  c->check->registers[vm_ck_unit(c, e)] |= 1ull << r;
}

void vm_check_execute(vm_core *c, unsigned e, const vm_flight *f) {
  if (c->run->timing_only) return;
  if (c->check->shadowed) vm_ck_uninit_execute(c, e, f);
  if (vm_ck_has(c, VM_CHECK_PSUM)) vm_ck_psum_execute(c, e, f);
  if (!vm_ck_has(c, VM_CHECK_RANGE)) return;
  vm_ck_convert_execute(c, e, f);
  vm_ck_value_execute(c, e, f);
}

static unsigned engine_of(const vm_core *c, const vm_flight *f) {
  unsigned e = 0;
  /* A flight is in the ring of its engine. */
  while (f < c->eng[e].flights || f >= c->eng[e].flights + VM_FLIGHTS) e++;
  return e;
}

void vm_check_stage(vm_core *c, const vm_item *it) {
  if (it->is_share) {
    /* As if it moved now: sources are read at this moment. */
    vm_check_move(c, vm_share_of(it));
    return;
  }
  /* Bytes are read now; the marks of its results come with its end. */
  const vm_flight *f = (const vm_flight *)it;
  unsigned e = engine_of(c, f);
  if (c->check->shadowed) vm_ck_uninit_reads(c, e, f);
  if (vm_ck_has(c, VM_CHECK_PSUM)) vm_ck_psum_reads(c, e, f);
}

void vm_check_executed(vm_core *c, unsigned e, const vm_flight *f) {
  if (c->run->timing_only) return;
  if (c->check->shadowed) vm_ck_uninit_executed(c, e, f);
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_ck_value_executed(c, e, f);
}

void vm_check_access(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  if (c->check->legal) vm_ck_legal_touch(c, vm_ck_unit(c, e), v, writes);
  if (vm_ck_has(c, VM_CHECK_RACE)) vm_ck_race_sequencer(c, vm_ck_unit(c, e), v, writes);
  if (c->check->shadowed || (writes && vm_ck_has(c, VM_CHECK_OUTPUT)))
    vm_ck_uninit_access(c, e, v, writes);
  /* What is written by a register may be an infinity. */
  if (writes) vm_ck_unlearn_view(c, VM_CK_IS_FINITE, v);
}

void vm_check_move(vm_core *c, const vm_share *s) {
  if (c->check->shadowed) vm_ck_uninit_move(c, s);
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_ck_convert_move(c, s);
}

void vm_check_moved(vm_core *c, const vm_share *s) {
  if (s->t->put) return; /* its destination is another rank's */
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_ck_convert_moved(c, s);
  if (c->check->shadowed || vm_ck_has(c, VM_CHECK_OUTPUT)) vm_ck_uninit_moved(c, s);
  /* Its destination has new values. */
  vm_ck_unlearn(c, VM_CK_IS_FINITE, &s->t->all[0]);
  if (c->check->twins.n) vm_ck_twins_moved(c, s);
}

void vm_check_arrive(vm_core *c, const vm_parcel *p, const vm_view *v) {
  bool marks = c->check->shadowed || vm_ck_has(c, VM_CHECK_OUTPUT);
  if (v) vm_ck_unlearn_view(c, VM_CK_IS_FINITE, v);
  if (v && marks && !c->run->timing_only) vm_ck_uninit_pushed(c, v, p->m.first, p->m.n);
  vm_ck_hear(c, p, v);
}

void vm_check_port(vm_core *c, unsigned engine, const vm_flight *f, const isa_way *w,
                   const vm_flight *g, vm_time start, vm_time late) {
  if (!vm_ck_has(c, VM_CHECK_PORT)) return;
  /* Units number the engines of both cores. */
  unsigned other = vm_ck_unit(c, isa_way_other(w, c->target->gen, engine));
  unsigned e = vm_ck_unit(c, engine);
  vm_finding *r = vm_ck_found(c, VM_CHECK_PORT, e, f->pc, other, g->pc);
  /* Reported once for a pair of places, as all findings are. */
  if (!r) return;
  vm_ck_put_place(c, e, f->pc, &r->text);
  isa_buf_printf(&r->text, ": port: %s and %s need the port of %s at once; %s starts %llu ns later",
                 vm_ck_name(c, e), vm_ck_name(c, other), isa_space_name(w->space), vm_ck_name(c, e),
                 (unsigned long long)(late / VM_NS));
  vm_ck_put_insn(c, other, g->pc, g->item.start, &r->text);
  vm_ck_put_insn(c, e, f->pc, start, &r->text);
  isa_buf_puts(&r->text, "\n  fix: order the two by a semaphore");
}

static bool wants_steps(const vm_core *c, unsigned e) { return !vm_check_registers_known(c, e); }

static const vm_watch watch = {.begin = vm_check_begin,
                               .step = vm_check_step,
                               .steps = wants_steps,
                               .access = vm_check_access,
                               .drain = vm_check_drain,
                               .update = vm_check_update,
                               .applied = vm_check_applied,
                               .barrier = vm_check_barrier,
                               .waited = vm_check_waited,
                               .meet = vm_check_meet,
                               .issue = vm_check_issue,
                               .execute = vm_check_execute,
                               .executed = vm_check_executed,
                               .port = vm_check_port,
                               .stage = vm_check_stage,
                               .transfer = vm_check_transfer,
                               .move = vm_check_move,
                               .moved = vm_check_moved,
                               .ended = vm_check_ended,
                               .join = vm_check_join,
                               .collective = vm_check_collective,
                               .enter = vm_check_enter,
                               .complete = vm_check_complete,
                               .send = vm_check_send,
                               .arrive = vm_check_arrive,
                               .arrival = vm_check_arrival,
                               .change = vm_check_change,
                               .host_wrote = vm_check_host_wrote,
                               .host_register = vm_check_host_register,
                               .stop = vm_check_stop,
                               .finish = vm_check_finish,
                               .end = vm_check_end};

/* ---- Life cycle --------------------------------------------------------------------------- */

/* A saved run has these core by core. */
static void walk_cores(vm_saver *s, vm_core *c) {
  for (unsigned i = 0; i < c->run->n; i++) {
    vm_ck_psum_walk(s, c->run->cores[i]);
    vm_ck_values_walk(s, c->run->cores[i]);
  }
}

const vm_ck_part vm_ck_part_cores = {vm_ck_psum_start, walk_cores, vm_ck_psum_end};

static const vm_ck_part *const parts[] = {
#define PART(name) &vm_ck_part_##name,
#include "parts.def"
};
enum { PARTS = sizeof parts / sizeof *parts };

/* The numbers of both cores; the other core has the same checks. */
static void count(vm_core *c) {
  struct vm_check *k = c->check;
  k->nengines = c->prog->ncores * ISA_NSEQS;
  k->nsems = c->prog->ncores * ISA_NSEMS;
  for (unsigned core = 0; core < c->prog->ncores; core++)
    k->nqueues += c->prog->cores[core].nqueues;
  for (unsigned e = 0; e < k->nengines; e++)
    snprintf(k->names[e], sizeof k->names[e], "%s%s", vm_ck_core_text(c, e >= ISA_NSEQS),
             isa_engines[e % ISA_NSEQS].name);
  snprintf(k->names[VM_CK_PEER], sizeof k->names[0], "another rank");
  for (unsigned i = 0; i < c->run->n; i++) c->run->cores[i]->check = k;
}

bool vm_check_start(vm_core *c, unsigned mask) {
  bool ok = true;
  mask = vm_check_possible(c, mask);
  if (!mask) return true;
  c->check = isa_zalloc(&c->al, sizeof *c->check);
  if (!c->check) return false;
  c->check->mask = mask;
  count(c);
  vm_watch_add(c->run, &watch);
  for (unsigned i = 0; i < PARTS && ok; i++) ok = !parts[i]->start || parts[i]->start(c);
  return ok;
}

void vm_check_walk(vm_saver *s, vm_core *c) {
  uint32_t mask = vm_check_mask(c);
  vm_save_below(s, &mask, 2u << VM_CHECK_TWINS, "mask of checks");
  if (!mask) return;
  if (s->reads && !vm_check_start(c, mask)) {
    vm_saver_no_memory(s);
    return;
  }
  if (s->reads) c->check->anyone = true; /* the host may have written before */
  if (!vm_saver_need(s, vm_check_mask(c) == mask, "a run without values checks values")) return;
  for (unsigned i = 0; i < PARTS && !s->failed; i++)
    if (parts[i]->walk) parts[i]->walk(s, c);
}

void vm_check_end(vm_core *c) {
  for (unsigned i = 0; i < PARTS; i++)
    if (parts[i]->end) parts[i]->end(c);
  isa_free(&c->al, c->check, sizeof *c->check);
  for (unsigned i = 0; i < c->run->n; i++) c->run->cores[i]->check = NULL;
}

void vm_check_stop(vm_core *c) { vm_ck_judge(c); }

void vm_check_finish(vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_judge(c);
  if (vm_ck_has(c, VM_CHECK_OUTPUT)) vm_ck_output_finish(c);
  vm_ck_log_end(c); /* its memory is for the next run */
  if (k->nfindings == 0) return;
  vm_finding *f = &k->findings[0];
  vm_where at = VM_NOWHERE;
  if (f->engine < VM_CK_ENGINES)
    at = vm_at_pc(vm_ck_core_of(c, f->engine), f->engine % ISA_NSEQS, f->pc);
  vm_fault(c, ISA_CHECK, at, "%s", isa_buf_str(&f->text));
  if (k->count > 1)
    isa_buf_printf(&c->run->fault.text, "\n(the first of %llu findings)",
                   (unsigned long long)k->count);
}
