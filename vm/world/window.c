/* Windows: how far each LP may go. */
#include "world.h"
#include "../engine/engine.h"
#include "../time/clock.h"

#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------ */

static bool add_lps(vm_world *w) {
  w->lps = isa_zalloc(&w->al, w->nranks * sizeof *w->lps);
  w->lp_of = isa_zalloc(&w->al, w->nranks * sizeof *w->lp_of);
  if (!w->lps || !w->lp_of) return false;
  for (uint32_t r = 0; r < w->nranks; r++) {
    /* Ranks of one stack share HBM, so they are moved together. */
    uint32_t i = 0;
    while (i < w->nlps && w->lps[i].stack != w->runs[r]->stack) i++;
    if (i == w->nlps) w->lps[w->nlps++].stack = w->runs[r]->stack;
    w->lp_of[r] = i;
  }
  /* All of them, unless other processes have some. */
  w->lp1 = w->nlps;
  return true;
}

static void find_call(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  /* These instructions call what the host has given. */
  (void)engine, (void)pc;
  *(bool *)ud |= in->op == ISA_OP_custom_op || in->op == ISA_OP_device_print ||
                 in->op == ISA_OP_device_print_text || in->op == ISA_OP_device_print_value ||
                 in->op == ISA_OP_device_print_semaphore;
}

/* Whether a rank calls the host, which is called in one thread. */
static bool calls_host(const vm_run *r) {
  bool any = r->watchers[0] != NULL;
  for (unsigned i = 0; i < r->n; i++) isa_each_insn(r->cores[i]->code, find_call, &any);
  return any;
}

/* A message between any two ranks takes at least that long. */
static vm_time least_latency(const vm_world *w) {
  uint32_t ns = UINT32_MAX;
  for (uint32_t r = 0; r < w->nranks; r++)
    if (w->runs[r]->cost_values[VM_LINK_LAT] < ns) ns = w->runs[r]->cost_values[VM_LINK_LAT];
  return (vm_time)ns * VM_NS;
}

isa_status vm_world_open(vm_world *w, const isa_alloc *al, vm_run *const *runs, uint32_t nranks,
                         isa_error *e) {
  isa_status s = ISA_OK;
  w->al = *al;
  isa_buf_init(&w->report, al);
  w->nranks = nranks;
  w->runs = isa_zalloc(al, nranks * sizeof *w->runs);
  w->peers = isa_zalloc(al, nranks * sizeof *w->peers);
  /* What was opened is closed at the end, whatever failed. */
  if (!w->runs || !w->peers) s = ISA_NOMEM;
  if (s == ISA_OK) memcpy(w->runs, runs, nranks * sizeof *w->runs);
  if (s == ISA_OK && !add_lps(w)) s = ISA_NOMEM;
  for (uint32_t r = 0; r < nranks && s == ISA_OK; r++) {
    /* Each rank sends and gets by its own peers. */
    w->peers[r] = (vm_peers){.al = *al, .rank = r, .nranks = nranks, .runs = w->runs};
    w->runs[r]->peers = &w->peers[r];
    w->alone |= calls_host(w->runs[r]);
    s = vm_world_connect(w, r, e);
  }
  if (s == ISA_OK && !vm_world_promise_open(w)) s = ISA_NOMEM;
  if (s == ISA_OK && (w->latency = least_latency(w)) == 0) {
    isa_fail(e, ISA_ARG, ISA_NOFIELD, "LINK_LAT is 0 ns: ranks of a world need at least 1");
    s = ISA_ARG;
  }
  if (s == ISA_OK) s = vm_world_open_links(w, e);
  /* Late ranks begin with their delay. */
  for (uint32_t r = 0; r < nranks && s == ISA_OK && w->delays; r++)
    vm_run_delay(runs[r], w->delays[r]);
  if (s == ISA_NOMEM) isa_fail(e, s, ISA_NOFIELD, "out of host memory while making a world");
  if (s != ISA_OK) vm_world_close(w);
  return s;
}

/* Messages that nobody has taken. */
static void free_parcels(vm_world *w, vm_peers *x) {
  for (uint32_t i = 0; i < x->nout; i++) vm_parcel_free(&w->al, &x->out[i]);
  x->nout = 0;
}

static void leave(vm_run *r) {
  if (!r->peers) return;
  for (unsigned i = 0; i < r->n; i++) vm_inbox_free(r->cores[i]);
  /* A rank that has not ended cannot go on without the others. */
  if (!r->ended)
    vm_fault(r->cores[0], ISA_FAULT, VM_NOWHERE, "its world ended before the rank did");
  r->peers = NULL;
}

void vm_world_close(vm_world *w) {
  if (w->links.o.of) vm_links_close(&w->links);
  if (w->runs) vm_world_promise_close(w);
  for (uint32_t r = 0; w->peers && w->runs && r < w->nranks; r++) {
    vm_peers *x = &w->peers[r];
    const isa_program *p = w->runs[r]->prog;
    size_t n = (size_t)p->npeers * p->ntensors;
    free_parcels(w, x);
    isa_free(&w->al, x->out, x->cap_out * sizeof *x->out);
    if (x->ranks) isa_free(&w->al, (void *)(uintptr_t)x->ranks, p->npeers * sizeof *x->ranks);
    if (x->tensors)
      isa_free(&w->al, (void *)(uintptr_t)x->tensors, (n ? n : 1) * sizeof *x->tensors);
    leave(w->runs[r]);
  }
  isa_free(&w->al, w->peers, w->nranks * sizeof *w->peers);
  isa_free(&w->al, w->runs, w->nranks * sizeof *w->runs);
  isa_free(&w->al, w->lps, w->nranks * sizeof *w->lps);
  isa_free(&w->al, w->lp_of, w->nranks * sizeof *w->lp_of);
  isa_buf_free(&w->report);
  w->peers = NULL;
  w->runs = NULL;
  w->lps = NULL;
  w->lp_of = NULL;
  w->nranks = w->nlps = 0;
}

/* ---- One LP ------------------------------------------------------------------------------- */

static void look_at(const vm_world *w, vm_lp *lp) {
  const vm_stack *s = lp->stack;
  /* No event: nothing to do, however long the window is. */
  lp->next = UINT64_MAX;
  lp->failed = lp->out = lp->changed = false;
  for (unsigned i = 0; i < s->n; i++) {
    const vm_core *c = s->cores[i];
    const vm_event *ev = vm_next_event(c);
    const vm_run *run = c->run;
    if (run->ended) /* An ended rank may have ended by a fault. */
      lp->failed |= run->fault.status != ISA_OK;
    else if (ev && ev->time < lp->next)
      lp->next = ev->time;
    if (c->ccs && run->peers) lp->out |= run->peers->nout > 0; /* only CC sequencers send */
  }
  /* The earliest time at which it may send something. */
  lp->sends = vm_world_promise(w, lp);
}

static void look_at_all(const vm_world *w) {
  for (uint32_t i = 0; i < w->nlps; i++) look_at(w, &w->lps[i]);
}

/* LPs in as many blocks as threads may work on them, so that each stays in one thread's caches. */
static uint32_t blocks_of(const vm_world *w) {
  uint32_t n = w->threads && !w->alone && w->threads->threads > 1 ? w->threads->threads : 1;
  /* A job has at most so many parts. */
  n = n > VM_WORK_CHUNKS ? VM_WORK_CHUNKS : n;
  return n < w->lp1 - w->lp0 ? n : w->lp1 - w->lp0;
}

static void run_block(void *job, uint32_t block, void *room) {
  vm_world *w = job;
  uint32_t blocks = blocks_of(w), n = w->lp1 - w->lp0, i = w->lp0 + block * n / blocks;
  (void)room;
  for (; i < w->lp0 + (block + 1) * n / blocks; i++) {
    /* Without a window the LP stays where it is. */
    if (!w->lps[i].until) continue;
    vm_stack_advance(w->lps[i].stack, w->lps[i].until - 1);
    look_at(w, &w->lps[i]);
  }
  vm_kern_streamed();
}

/* Threads are worth it only if several LPs have something to do. */
static void run_windows(vm_world *w) {
  uint32_t blocks = blocks_of(w), busy = 0;
  for (uint32_t i = w->lp0; i < w->lp1; i++) busy += w->lps[i].until > 0;
  if (blocks > 1 && busy > 1)
    vm_work_do(w->threads, run_block, w, blocks, w->runs[0]->cores[0]->mem.work);
  else
    for (uint32_t b = 0; b < blocks; b++) run_block(w, b, NULL);
}

/* ---- Windows ------------------------------------------------------------------------------ */

/* Times may be beyond all events: sums stop at the largest. */
static vm_time plus(vm_time a, vm_time b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* The time of the fault that has stopped the world; UINT64_MAX: it was none. */
static vm_time failed_at(const vm_world *w) {
  const vm_fault_record *f = &w->runs[w->failed]->fault;
  return w->status != ISA_OK && f->status == w->status ? f->time : UINT64_MAX;
}

/* Ranks that rest need nobody to go on. */
static bool any_waits(const vm_world *w) {
  for (uint32_t r = 0; r < w->nranks; r++)
    if (vm_world_has(w, r) && !vm_run_rests(w->runs[r])) return true;
  return false;
}

/* False: another process stops the world. */
static bool find_senders(vm_world *w, vm_senders *s) {
  /* The two earliest senders: an LP's bound is that of the others. */
  *s = (vm_senders){.next = UINT64_MAX, .first = UINT64_MAX, .second = UINT64_MAX};
  for (uint32_t i = w->lp0; i < w->lp1; i++) {
    vm_lp *lp = &w->lps[i];
    /* What came between windows may have changed it. */
    if (lp->changed) look_at(w, lp);
    if (lp->next < s->next) s->next = lp->next;
    if (lp->sends < s->first) {
      s->second = s->first;
      s->first = lp->sends;
      s->who = i;
    } else if (lp->sends < s->second) {
      s->second = lp->sends;
    }
  }
  /* Without any event some may still wait, which is a deadlock. */
  s->waits = s->next == UINT64_MAX && any_waits(w);
  if (!w->far) return true;
  s->status = (uint32_t)w->status;
  s->failed = w->failed;
  s->failed_at = failed_at(w);
  return vm_world_meet(w, s);
}

/* No message comes to LP i before that: of the others, or an answer of theirs to its own. */
static vm_time bound(const vm_world *w, const vm_senders *s, uint32_t i) {
  vm_time others = i == s->who ? s->second : s->first;
  /* An answer comes there and back again. */
  vm_time own = plus(plus(w->lps[i].sends, w->latency), w->latency);
  vm_time links = vm_links_next(&w->links);
  vm_time bound = plus(links < others ? links : others, w->latency);
  /* Alone it can go as far as it likes. */
  if (w->nlps == 1) return UINT64_MAX;
  return own < bound ? own : bound;
}

/* Windows end at multiples of the grid, where one was asked for. */
static vm_time to_grid(const vm_world *w, vm_time next, vm_time end) {
  if (!w->grid || next == UINT64_MAX) return end;
  vm_time cut = (next / w->grid + 1) * w->grid;
  return cut < end ? cut : end;
}

/* The longest window, so that an interrupt is looked at; about 10 ms of the host at most. */
#define MOST ((vm_time)100000 * VM_NS)

/* False: nobody has an event before `until`, or another process stops the world. */
static bool open_windows(vm_world *w, vm_time until) {
  vm_senders s;
  if (!find_senders(w, &s)) return false;
  /* Traffic that moves may have made new messages. */
  if (vm_world_traffic(w, s.first) && !find_senders(w, &s)) return false;
  for (uint32_t i = w->lp0; i < w->lp1; i++) {
    vm_lp *lp = &w->lps[i];
    vm_time end = to_grid(w, s.next, bound(w, &s, i));
    if (end > s.next + MOST) end = s.next + MOST;
    if (end > until) end = until;
    /* 0: it has nothing in this window. */
    lp->until = lp->next < end ? end : 0;
  }
  return s.next < until;
}

static void hand_over(vm_world *w) {
  /* Messages to other processes go by the exchange. */
  if (w->far) {
    vm_world_exchange(w);
    return;
  }
  for (uint32_t r = 0; r < w->nranks; r++) {
    /* Only LPs that have sent something are looked at. */
    if (!w->lps[w->lp_of[r]].out) continue;
    vm_peers *x = &w->peers[r];
    for (uint32_t i = 0; i < x->nout; i++) vm_world_carry(w, &x->out[i]);
    x->nout = 0;
  }
  for (uint32_t i = 0; i < w->nlps; i++) w->lps[i].out = false;
}

/* ---- Ends --------------------------------------------------------------------------------- */

/* The report of a rank's fault: its place, what is wrong, and the instruction. */
static void put_fault(vm_world *w, const vm_fault_record *f) {
  isa_buf *out = &w->report;
  /* A report of an earlier moment is replaced. */
  out->len = 0;
  isa_buf_printf(out, "rank %u: ", w->failed);
  if (f->status == ISA_FAULT && f->has_pc) {
    vm_put_site(w->runs[w->failed]->cores[f->core], (unsigned)f->engine, f->pc, out);
    isa_buf_puts(out, ": ");
  }
  isa_buf_puts(out, isa_buf_str((isa_buf *)(uintptr_t)&f->text));
  if (f->status == ISA_FAULT && f->insn.len)
    isa_buf_printf(out, "\n  %s", isa_buf_str((isa_buf *)(uintptr_t)&f->insn));
}

/* The first fault by time and rank ends the world: true. */
static bool has_failed(vm_world *w) {
  const vm_fault_record *first = NULL;
  for (uint32_t r = 0; r < w->nranks; r++) {
    const vm_lp *lp = &w->lps[w->lp_of[r]];
    /* Only ranks that may have failed since the last look. */
    if (!lp->failed && !lp->changed) continue;
    const vm_fault_record *f = &w->runs[r]->fault;
    if (f->status == ISA_OK || (first && f->time >= first->time)) continue;
    first = f;
    w->failed = r;
  }
  if (!first) return false;
  w->status = first->status;
  put_fault(w, first);
  return true;
}

/* Taken once, so that the world can go on afterwards. */
static bool take(atomic_int *flag) {
  if (!flag || !*flag) return false;
  *flag = 0;
  return true;
}

/* The world, or one of its ranks: after each of some windows, unless a rank calls the host, which
 * may have done it. */
static bool is_interrupted(vm_world *w) {
  enum { EVERY = 16 };
  bool any = take(w->interrupt);
  if (!w->alone && w->windows % EVERY) return any;
  for (uint32_t r = 0; r < w->nranks; r++) any |= take(w->runs[r]->interrupt);
  return any;
}

static uint64_t instructions_of(const vm_world *w) {
  uint64_t n = 0;
  for (uint32_t r = 0; r < w->nranks; r++) n += vm_run_instructions(w->runs[r]);
  return n;
}

/* Between two windows: true if the world stops.
 * Faults first: they say why. */
static bool must_stop(vm_world *w, double since) {
  if (has_failed(w) || w->status != ISA_OK) return true;
  w->report.len = 0;
  if (is_interrupted(w)) {
    w->status = ISA_STOPPED;
    isa_buf_puts(&w->report, "interrupted");
    return true;
  }
  const vm_hooks *hooks = &w->runs[0]->hooks;
  if (w->seconds <= 0 && w->cpu_seconds <= 0 && !hooks->progress) return false;
  double now = vm_host_now();
  /* Twenty times a second at most. */
  if (hooks->progress && now >= w->next_progress) {
    w->next_progress = now + 0.05;
    if (hooks->progress(hooks->progress_ud, instructions_of(w), vm_world_time(w))) {
      w->status = ISA_STOPPED;
      isa_buf_puts(&w->report, "stopped by the progress callback");
      return true;
    }
  }
  if (w->cpu_seconds > 0 && vm_cpu_now() - w->cpu_since > w->cpu_seconds) {
    w->status = ISA_LIMIT;
    isa_buf_printf(&w->report, "%.1f s of processor time are used, which is the limit",
                   w->cpu_seconds);
    return true;
  }
  if (w->seconds <= 0 || now - since <= w->seconds) return false;
  w->status = ISA_LIMIT;
  isa_buf_printf(&w->report, "%.1f s of host time have passed, which is the limit", w->seconds);
  return true;
}

/* Nothing is to come: all ranks have ended, or some wait for what nobody sends. */
static void finish(vm_world *w, bool waits) {
  if (waits && !w->far) {
    vm_world_stuck(w);
    return;
  }
  if (waits) { /* no process knows all that wait: who wants to tell it runs the world whole */
    w->status = ISA_DEADLOCK;
    isa_buf_puts(&w->report, "the world cannot go on");
    return;
  }
  for (uint32_t r = 0; r < w->nranks; r++) /* What an end changes is seen at once. */
    if (vm_world_has(w, r) && !w->runs[r]->ended) vm_run_finish(w->runs[r]);
  look_at_all(w);
  has_failed(w); /* a check that found something at the end */
}

static vm_time limit_of(const vm_world *w) {
  vm_time t = w->runs[0]->limits.time;
  return t ? t : UINT64_MAX;
}

/* Everything that a run does at the beginning of a stretch. */
static void begin(vm_world *w) {
  for (uint32_t r = 0; r < w->nranks; r++) {
    vm_run *run = w->runs[r];
    run->running = true;
    run->paused = false;
    vm_tell_resume(run->cores[0]);
    vm_batch_begin(run);
  }
}

static void pause_all(vm_world *w, double seconds) {
  for (uint32_t r = 0; r < w->nranks; r++) {
    vm_run *run = w->runs[r];
    vm_batch_end(run);
    run->running = false;
    run->host_seconds += seconds;
  }
  vm_kern_streamed();
}

/* All that comes up to that time is done, but for what the world has stopped at. Register
 * instructions that ran ahead have left the time of a core somewhere before it, as windows have cut
 * them; what has nothing to come keeps its last. */
static void reach(vm_world *w, vm_time time) {
  for (uint32_t r = 0; r < w->nranks; r++)
    for (unsigned i = 0; i < w->runs[r]->n; i++) {
      vm_core *c = w->runs[r]->cores[i];
      if (c->events.n && !w->runs[r]->ended) c->now = vm_time_later(c->now, time);
    }
}

/* ---- Events one by one -------------------------------------------------------------------- */

/* The LP whose next event comes first, NULL: none is to come; *others: the next one of all others.
 */
static vm_lp *first_lp(vm_world *w, vm_time *others) {
  vm_lp *first = NULL;
  *others = UINT64_MAX;
  for (uint32_t i = 0; i < w->nlps; i++) {
    vm_lp *lp = &w->lps[i];
    if (lp->changed) look_at(w, lp);
    if (lp->next == UINT64_MAX) continue;
    vm_time later = lp->next;
    /* The earliest, and how early all others are. */
    if (!first || lp->next < first->next) {
      later = first ? first->next : UINT64_MAX;
      first = lp;
    }
    if (later < *others) *others = later;
  }
  return first;
}

/* How far an LP may go on with its event while all others stand still, and nothing that it sends
 * arrives. */
static vm_time alone_until(const vm_world *w, const vm_lp *lp, vm_time others, vm_time end) {
  vm_time until = plus(lp->next, w->latency);
  if (others < until) until = others;
  if (end < until) until = end;
  return until > lp->next ? until - 1 : lp->next;
}

/* Runs the next event. False: none comes before `end`; then links are as windows leave them. */
static bool step(vm_world *w, vm_time end, bool single, vm_core **at) {
  vm_time others;
  vm_lp *lp;
  do lp = first_lp(w, &others);
  while (vm_world_traffic(w, lp ? lp->next : UINT64_MAX));
  if (!lp || lp->next >= end) return open_windows(w, end);
  lp->until = lp->next;
  *at = vm_stack_step(lp->stack, alone_until(w, lp, others, end), single);
  /* Its own event is done: it looks at what is next. */
  look_at(w, lp);
  hand_over(w);
  return true;
}

enum { LOOK_EVERY = 64 }; /* events between two looks at the clock and at all ranks */

/* False: nobody has an event before `end`. */
static bool run_steps(vm_world *w, const vm_world_goal *g, double since, vm_time end) {
  vm_core *goal = g->what == VM_UNTIL_ISSUE ? w->runs[g->rank]->cores[g->core] : NULL, *at = NULL;
  const vm_engine *en = goal ? &goal->eng[g->engine] : NULL;
  const uint64_t issued = en ? en->instructions : 0;
  const bool single = en || g->what == VM_UNTIL_EVENT;
  const bool alone = w->alone;
  bool any = true, done = false, stops = false;
  /* Interrupts are looked at as if it were one run. */
  w->alone = true; /* an interrupt of any rank counts */
  for (uint32_t n = 0; any && !done; n++) {
    stops = n % LOOK_EVERY == 0 && must_stop(w, since);
    if (stops) break;
    any = step(w, end, single, &at);
    if (!at) continue;
    done = at->run->paused || at->run->ended || g->what == VM_UNTIL_EVENT ||
           (en && en->instructions != issued); /* ended: by a fault */
  }
  w->alone = alone;
  /* A stop by a limit leaves the goal unreached. */
  if (stops) return true;
  if (goal) vm_tell_stepped(goal, g->engine);
  if (done && !has_failed(w)) reach(w, at->now);
  return any;
}

static bool run_all_windows(vm_world *w, double since, vm_time end) {
  bool any = true;
  /* No process stops before the others know why. */
  while ((!must_stop(w, since) || w->far) && (any = open_windows(w, end))) {
    run_windows(w);
    hand_over(w);
    w->windows++;
  }
  return any;
}

/* ---- Going -------------------------------------------------------------------------------- */

/* g: NULL, by windows. */
static isa_status go(vm_world *w, const vm_world_goal *g, vm_time until) {
  /* The end of the window is exclusive, the limit is not. */
  const double since = vm_host_now();
  const vm_time limit = limit_of(w), end = until < limit ? plus(until, 1) : plus(limit, 1);
  /* After a fault the world does not go on. */
  if (w->status != ISA_OK && w->status != ISA_STOPPED) return w->status;
  w->status = ISA_OK;
  w->cpu_since = vm_cpu_now();
  begin(w);
  look_at_all(w);
  bool any = g ? run_steps(w, g, since, end) : run_all_windows(w, since, end);
  vm_senders s;
  /* No event before the end: the end itself is reached, or there is nothing more. */
  if (w->status == ISA_OK && !any && find_senders(w, &s)) {
    if (s.next != UINT64_MAX) reach(w, end - 1);
    if (s.next == UINT64_MAX) {
      finish(w, s.waits);
    } else if (s.next > limit) {
      w->status = ISA_LIMIT;
      isa_buf_printf(&w->report, "simulated time reached its limit of %llu ns",
                     (unsigned long long)(limit / VM_NS));
    }
  }
  pause_all(w, vm_host_now() - since);
  return w->status;
}

isa_status vm_world_go(vm_world *w, vm_time until) { return go(w, NULL, until); }
isa_status vm_world_step(vm_world *w, const vm_world_goal *g, vm_time until) {
  return go(w, g, until);
}

/* ---- The whole ---------------------------------------------------------------------------- */

uint64_t vm_world_hash(const vm_world *w) {
  /* Order matters: the same hashes of other ranks are another world. */
  uint64_t h = w->nranks;
  for (uint32_t r = 0; r < w->nranks; r++) {
    h ^= w->runs[r]->trace_hash;
    h *= 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

/* The latest of all ranks. */
vm_time vm_world_time(const vm_world *w) {
  vm_time now = 0;
  for (uint32_t r = 0; r < w->nranks; r++) now = vm_time_later(now, vm_run_now(w->runs[r]));
  return now;
}
