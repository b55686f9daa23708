/* The event loop, the limits of a run, and its end. */
#include "cc.h"
#include "../message.h"
#include "../time/clock.h"
#include "../dma/dma.h"

#include <time.h>

enum { CLOCK_EVERY = 64 }; /* events between two readings of the host's clock; some take 10 ms */

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
double vm_host_now(void) { return seconds_of(CLOCK_MONOTONIC); }
double vm_cpu_now(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

/* The place of the event may be another one's as soon as the update is applied. */
static void run_update(vm_core *c, const vm_event *ev) {
  isa_update u = {.kind = ev->update, .sem = ev->sem, .value = ev->value};
  vm_where by = ev->by;
  /* Before the check sees the arrival: the cause is the updater's. */
  c->cause = ev->node;
  vm_tell_arrival(c, ev);
  vm_sem_apply(c, &u, by);
}

/* Runs the next event, whose place may be another one's as soon as it runs. Only what is needed is
 * copied: see place in event.c. */
static void run_next(vm_core *c, bool single) {
  vm_events *q = &c->events;
  const vm_event *ev = &q->v[q->first];
  const unsigned kind = ev->kind, who = ev->who;
  const uint32_t value = ev->value;
  /* Taken out first: what runs now may post events, and move the array. */
  q->first++;
  if (--q->n == 0) q->first = 0;
  switch (kind) {
  case VM_E_SEM: run_update(c, ev); break;
  case VM_E_DMA: vm_dma_event(c, who); break;
  case VM_E_DONE: vm_flight_done(c, who, value); break;
  case VM_E_START: vm_cc_start(c, who, value); break;
  case VM_E_PUT: vm_arrive(c, value); break;
  default: vm_seq_run(c, who, single); break;
  }
}

/* Stops for an interruption, once. */
static void poll_interrupt(vm_run *r) {
  if (!r->interrupt || !*r->interrupt) return;
  /* Cleared here, so that a resumed run is not stopped again by the same signal. */
  *r->interrupt = 0;
  vm_fault(r->cores[0], ISA_STOPPED, VM_NOWHERE, "interrupted");
}

/* Checks the limits of host and processor time and progress, every CLOCK_EVERY events or so. */
static void check_host_limits(vm_run *r) {
  vm_core *c = r->cores[0];
  /* Before anything returns: the next look is CLOCK_EVERY events away. */
  r->until_clock = CLOCK_EVERY;
  if (r->limits.seconds <= 0 && r->limits.cpu_seconds <= 0 && !r->hooks.progress) return;
  double now = vm_host_now(), ran = r->host_seconds + now - r->run_since;
  double most = r->limits.cpu_seconds,
         /* Reading the processor's clock takes a system call: only if there is such a limit. */
      used = most > 0 ? r->cpu_seconds + vm_cpu_now() - r->cpu_since : 0;
  if (r->limits.seconds > 0 && ran > r->limits.seconds)
    vm_fault(c, ISA_LIMIT, VM_NOWHERE, "%.1f s of host time have passed, the limit is %.1f s", ran,
             r->limits.seconds);
  else if (used > most)
    vm_fault(c, ISA_LIMIT, VM_NOWHERE, "%.1f s of processor time are used, the limit is %.1f s",
             used, most);
  else if (r->hooks.progress && now >= r->next_progress) {
    /* At most twenty times a second. */
    r->next_progress = now + 0.05;
    /* The callback may read tensors. */
    vm_batch_settle(c, NULL);
    if (r->hooks.progress(r->hooks.progress_ud, vm_run_instructions(r), vm_run_now(r)))
      vm_fault(c, ISA_STOPPED, VM_NOWHERE, "stopped by the progress callback");
  }
}

/* ---- Stacks ------------------------------------------------------------------------------- */

static inline bool comes_before(const vm_event *a, const vm_event *b) {
  if (a->time != b->time) return a->time < b->time;
  /* By class only: numbers of different cores cannot be compared. At equal class the first core of
   * the stack goes first. */
  return a->rank >> VM_RANK_CLASS < b->rank >> VM_RANK_CLASS;
}

/* The core whose next event comes first: by time, then class, then place on the stack. A run that
 * has ended takes no part. NULL: nothing is to come. */
static inline vm_core *first_core(const vm_stack *s) {
  /* Most runs have one core. */
  if (s->n == 1) {
    vm_core *c = s->cores[0];
    return c->events.n && !c->run->ended ? c : NULL;
  }
  vm_core *first = NULL;
  const vm_event *least = NULL;
  for (unsigned i = 0; i < s->n; i++) {
    vm_core *c = s->cores[i];
    const vm_event *ev = vm_next_event(c);
    if (!ev || c->run->ended || (least && !comes_before(ev, least))) continue;
    first = c;
    least = ev;
  }
  return first;
}

static void set_horizon(const vm_stack *s, vm_time horizon) {
  /* What register instructions may run ahead to. */
  for (unsigned i = 0; i < s->n; i++) s->cores[i]->horizon = horizon;
}

bool vm_stack_join(vm_run *r) {
  vm_stack *s = r->stack;
  if (r->joined) return true;
  /* Another run has the stack. */
  if (s->n + r->n > VM_STACK_CORES) return false;
  for (unsigned i = 0; i < r->n; i++) s->cores[s->n++] = r->cores[i];
  return r->joined = true;
}

/* What its DMA engines move counts no longer, though it may never end. */
void vm_stack_leave(vm_run *r) {
  vm_stack *s = r->stack;
  unsigned n = 0;
  if (!r->joined) return;
  for (unsigned i = 0; i < s->n; i++)
    if (s->cores[i]->run != r) s->cores[n++] = s->cores[i];
  s->n = n;
  r->joined = false;
}

vm_halt vm_stack_advance(vm_stack *s, vm_time until) {
  set_horizon(s, until);
  for (;;) {
    vm_core *c = first_core(s);
    if (!c) return VM_HALT_IDLE;
    vm_time at = vm_next_event(c)->time;
    /* Left for the next window: the event stays in its queue. */
    if (at > until) return VM_HALT_TIME;
    /* A core of the pair may have been brought forward already (finish_ring). */
    c->now = vm_time_later(c->now, at);
    run_next(c, false);
    if (c->run->ended || c->run->paused) return VM_HALT_RUN;
  }
}

vm_core *vm_stack_step(vm_stack *s, vm_time until, bool single) {
  set_horizon(s, until);
  vm_core *c = first_core(s);
  if (!c) return NULL;
  c->now = vm_time_later(c->now, vm_next_event(c)->time);
  run_next(c, single);
  return c;
}

/* ---- Runs --------------------------------------------------------------------------------- */

/* Runs events until the stop; en: of VM_UNTIL_ISSUE. */
static vm_halt loop(vm_run *r, vm_until what, const vm_engine *en, vm_time until) {
  uint64_t issued = en->instructions;
  /* An engine runs one instruction at a time where the caller stops between them. */
  bool single = what == VM_UNTIL_EVENT || what == VM_UNTIL_ISSUE;
  vm_time horizon = r->limits.time ? r->limits.time : UINT64_MAX;
  if (what == VM_UNTIL_TIME && until < horizon) horizon = until;
  /* The horizon is set even without limits: a core may keep an earlier run's. */
  set_horizon(r->stack, horizon);
  while (!r->ended) {
    vm_core *c = first_core(r->stack);
    /* A world's other runs go on; this one has nothing to come. */
    if (!c || (c->run != r && vm_run_is_idle(r))) return VM_HALT_IDLE;
    vm_time at = vm_next_event(c)->time;
    if (at > horizon) {
      /* The stop, and not the limit, is what it has met. */
      if (what == VM_UNTIL_TIME && at > until) return VM_HALT_TIME;
      vm_fault(r->cores[0], ISA_LIMIT, VM_NOWHERE, "simulated time reached its limit of %llu ns",
               (unsigned long long)(r->limits.time / VM_NS));
      return VM_HALT_RUN;
    }
    c->now = vm_time_later(c->now, at);
    run_next(c, single);
    /* After each event: it is one load. */
    poll_interrupt(r);
    if (--r->until_clock == 0) check_host_limits(r);
    if (r->paused) break;
    /* VM_UNTIL_ISSUE: until that engine has issued something. */
    if (single && (what == VM_UNTIL_EVENT || en->instructions != issued)) break;
  }
  return VM_HALT_RUN;
}

bool vm_run_rests(const vm_run *r) {
  for (unsigned i = 0; i < r->n; i++)
    for (unsigned e = 0; e < r->cores[i]->nseqs; e++)
      if (!vm_seq_rests(&r->cores[i]->eng[e])) return false;
  return true;
}

/* Nothing can happen any more: either the run has ended well, or some engine is stuck. */
void vm_run_finish(vm_run *r) {
  if (!vm_run_rests(r)) {
    vm_put_deadlock(r);
    return;
  }
  r->ended = true;
  vm_tell_finish(r->cores[0]);
}

/* A run that was only interrupted continues where it was. */
static void resume(vm_run *r) {
  /* A fault or the end are final. */
  if (r->fault.status != ISA_STOPPED) return;
  r->fault.status = ISA_OK;
  r->fault.insn.len = r->fault.text.len = 0;
  r->ended = false;
}

isa_status vm_run_until(vm_core *c, vm_until what, unsigned engine, vm_time until) {
  vm_run *r = c->run;
  resume(r);
  r->paused = false;
  vm_tell_resume(r->cores[0]);
  if (r->ended) return r->fault.status;
  vm_stack_join(r);
  r->run_since = vm_host_now();
  r->cpu_since = vm_cpu_now();
  r->running = true;
  vm_batch_begin(r);
  /* Nothing is to come, and nobody else will send anything: a world's runs are moved by
   * vm_stack_advance. */
  if (loop(r, what, &c->eng[engine], until) == VM_HALT_IDLE) vm_run_finish(r);
  /* A limit says more with who waits and who spins. */
  if (r->fault.status == ISA_LIMIT) vm_put_stuck(r, &r->fault.text);
  /* All bytes are there when the caller looks. */
  vm_batch_end(r);
  /* What was written past the caches is visible to other threads from here on. */
  vm_kern_streamed();
  r->running = false;
  if (what == VM_UNTIL_ISSUE) vm_tell_stepped(c, engine);
  r->host_seconds += vm_host_now() - r->run_since;
  r->cpu_seconds += vm_cpu_now() - r->cpu_since;
  return r->fault.status;
}
