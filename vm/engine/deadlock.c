/* The report of a run that cannot continue: who waits for what, the last values of that semaphore,
 * whether the wait has missed its moment, and who could still have changed it. */

#include "cc.h"

#include "../../isa/flow.h"

enum {
  MOST_GROUPS = 4,  /* groups of updates that are shown */
  MOST_PLACES = 3,  /* instructions that are shown of an engine that could update */
  LEAST_SPIN = 1000 /* register instructions in a row that are worth a line */
};

/* Sequencers of both cores are numbered together: that of number e of core 1 is ISA_NSEQS + e. */
enum { ENGINES = ISA_MAX_CORES * ISA_NSEQS };
typedef struct report {
  const vm_run *run;
  unsigned n; /* sequencers, with those that have no code */
  isa_buf *out;
  uint8_t *reach[ENGINES]; /* by pc: whether it may still run; NULL: not known, or halted */
} report;

static unsigned unit_of(vm_where at) { return at.core * (unsigned)ISA_NSEQS + (unsigned)at.engine; }
static const vm_core *core_of(const report *r, unsigned e) { return r->run->cores[e / ISA_NSEQS]; }
static const vm_engine *engine_of(const report *r, unsigned e) {
  return &core_of(r, e)->eng[e % ISA_NSEQS];
}
static void put_engine(isa_buf *out, unsigned e) {
  isa_buf_printf(out, "%s%s", e >= ISA_NSEQS ? "core 1 " : "", isa_engines[e % ISA_NSEQS].name);
}
static void put_pc(const report *r, unsigned e, uint32_t pc) {
  vm_put_pc(core_of(r, e), e % ISA_NSEQS, pc, r->out);
}
/* Whether it has code: a core without code of CC sequencers has none of them. */
static bool exists(const report *r, unsigned e) { return e % ISA_NSEQS < core_of(r, e)->nseqs; }
static unsigned long long ns(vm_time t) { return t / VM_NS; }

/* ---- Who could change a semaphore ---------------------------------------------------------- */

typedef struct target { /* semaphore sem of a core, or an arrival at a sendrecv of a pipe */
  unsigned core, sem;
  int pipe; /* -1: it is a semaphore */
} target;

static bool updates(const isa_insn *in, target t) {
  return in->upd.kind != ISA_UPD_none && in->upd.sem == t.sem && in->upd.core == t.core;
}

static bool transfers_update(const isa_queue *q, target t) {
  for (uint32_t i = 0; i < q->nstatics; i++)
    if (updates(&q->statics[i], t)) return true;
  return false;
}

/* Whether an instruction of core c changes the semaphore, or arrives at the pipe. */
static bool changes(const vm_core *c, const isa_insn *in, target t) {
  isa_barrier b;
  /* A pipe is reached on the other core only. */
  if (t.pipe >= 0) return c->number == t.core && vm_meet_key(in) == t.pipe;
  /* A core_barrier updates without a clause of its own. */
  if (isa_insn_barrier(in, c->number, &b) && b.give.core == t.core && b.give.sem == t.sem)
    return true;
  if (in->op == ISA_OP_sem_range_clear && c->number == t.core &&
      t.sem - in->u.SEM_RANGE.first < in->u.SEM_RANGE.count)
    return true;
  /* A trigger without a clause: the rows of its queue have theirs. */
  if (in->op == ISA_OP_dma_trigger && in->upd.kind == ISA_UPD_none)
    return transfers_update(&c->code->queues[in->u.TRIGGER.queue], t);
  return updates(in, t);
}

/* Whether engine e, where it stands, still has an instruction ahead that changes the semaphore. */
static bool may_change(const report *r, unsigned e, target t) {
  if (!exists(r, e)) return false;
  /* Without memory for `reach` the engine is silent, not suspected. */
  const isa_code *code = engine_of(r, e)->code;
  for (uint32_t pc = 0; r->reach[e] && pc < code->n; pc++)
    if (r->reach[e][pc] && changes(core_of(r, e), &code->insns[pc], t)) return true;
  return false;
}

/* The places of engine e that change the semaphore and can still run (or cannot, as asked). */
static unsigned put_changers(const report *r, unsigned e, target t, bool may, unsigned before,
                             const char *head) {
  const vm_core *c = core_of(r, e);
  const isa_code *code = engine_of(r, e)->code;
  unsigned shown = 0;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    bool ahead = r->reach[e] && r->reach[e][pc];
    if (ahead != may || !changes(c, in, t)) continue;
    /* The rest is "and more". */
    if (shown++ == MOST_PLACES) break;
    if (shown == 1) {
      isa_buf_puts(r->out, before ? ", " : head);
      put_engine(r->out, e);
    }
    isa_buf_puts(r->out, shown == 1 ? " (" : ", ");
    put_pc(r, e, pc);
    int q = isa_insn_queue(in);
    /* A transfer updates on behalf of its queue. */
    if (q >= 0) isa_buf_printf(r->out, " by queue %s", c->code->queues[q].name);
  }
  if (shown > MOST_PLACES) isa_buf_puts(r->out, " and more");
  if (shown) isa_buf_puts(r->out, ")");
  return shown;
}

/* The collectives at work that change the semaphore when they are complete, and for the wait of a
 * CC sequencer the pushes of other ranks: how many sentences. */
static unsigned put_from_afar(const report *r, unsigned waiter, target t) {
  unsigned n = 0;
  for (unsigned k = 0; t.pipe < 0 && k < r->run->n; k++) {
    const vm_core *c = r->run->cores[k];
    for (unsigned i = 0; c->ccs && i < VM_COLLECTIVES; i++) {
      const vm_collective *x = &c->ccs->v[i];
      if (!x->used || !changes(c, &c->code->code[x->engine].insns[x->pc], t)) continue;
      isa_buf_puts(r->out,
                   n ? ", and " : "\n    it is changed when the collective is complete of ");
      n++;
      vm_put_place(c, x->engine, x->pc, r->out);
    }
  }
  if (n || !r->run->peers || waiter % ISA_NSEQS < ISA_NENGINES) return n;
  isa_buf_puts(r->out, "\n    pushes of other ranks change it");
  return 1;
}

static void put_suspects(const report *r, unsigned waiter, target t) {
  const char *may = t.pipe < 0 ? "\n    it could still be changed by " : "\n    still to come: ";
  unsigned n = 0;
  for (unsigned e = 0; e < r->n; e++) {
    if (!exists(r, e)) continue;
    bool any = put_changers(r, e, t, true, n, may) > 0;
    /* The waiter itself comes too late: it stands before that instruction. */
    if (any && e == waiter) isa_buf_puts(r->out, " after this wait");
    n += any;
  }
  if (n || put_from_afar(r, waiter, t)) return;
  isa_buf_puts(r->out, "\n    nothing that could still run ");
  if (t.pipe < 0)
    isa_buf_puts(r->out, "changes it");
  else
    isa_buf_printf(r->out, "on core %u reaches it", t.core);
  for (unsigned e = 0; e < r->n; e++) {
    /* Those that would have changed it, and why they no longer can. */
    if (!exists(r, e) || put_changers(r, e, t, false, n, ": ") == 0) continue;
    isa_buf_puts(r->out, engine_of(r, e)->state == VM_HALTED ? " has halted" : " is past it");
    n++;
  }
  /* Transfers of a static queue that nobody triggers are easily forgotten. */
  for (unsigned k = 0; n == 0 && t.pipe < 0 && k < r->n; k += ISA_NSEQS) {
    const isa_core *code = core_of(r, k)->code;
    for (uint32_t q = 0; q < code->nqueues; q++)
      if (transfers_update(&code->queues[q], t))
        isa_buf_printf(r->out, ": nothing triggers queue %s, whose transfers do",
                       code->queues[q].name);
  }
}

/* ---- What the semaphore has been ----------------------------------------------------------- */

/* Older values are gone. */
static uint32_t kept(const vm_sem_log *log) { return log->n < VM_SEM_LOG ? log->n : VM_SEM_LOG; }

/* "to 1..16 at 2012..2040 ns by sync (add.s:9)" for updates first to last of the log. */
static void put_group(const vm_core *c, const vm_sem_log *log, uint32_t first, uint32_t last,
                      isa_buf *out) {
  unsigned a = first % VM_SEM_LOG, b = last % VM_SEM_LOG;
  isa_buf_printf(out, "to %u", log->value[a]);
  if (a != b) isa_buf_printf(out, "..%u", log->value[b]);
  isa_buf_printf(out, " at %llu", ns(log->time[a]));
  if (ns(log->time[a]) != ns(log->time[b])) isa_buf_printf(out, "..%llu", ns(log->time[b]));
  isa_buf_puts(out, " ns by ");
  /* The host and other ranks have no place in the program. */
  if (!vm_by_engine(log->by[b])) {
    if (log->by[b].engine == VM_BY_PEER)
      isa_buf_printf(out, "rank %u", log->by[b].pc);
    else
      isa_buf_puts(out, "the host");
    return;
  }
  const vm_core *by = vm_core_at(c, log->by[b].core);
  put_engine(out, unit_of(log->by[b]));
  isa_buf_puts(out, " (");
  vm_put_pc(by, (unsigned)log->by[b].engine, log->by[b].pc, out);
  isa_buf_puts(out, ")");
}

static bool same_origin(const vm_sem_log *log, uint32_t i, uint32_t k) {
  i %= VM_SEM_LOG, k %= VM_SEM_LOG;
  const vm_where a = log->by[i], b = log->by[k];
  return a.engine == b.engine && a.core == b.core && a.pc == b.pc;
}

/* The last updates, oldest first; those of one instruction are shown together. */
static void put_updates(const vm_core *c, const vm_sem_log *log, isa_buf *out) {
  uint32_t oldest = log->n - kept(log), from = log->n, groups = 0;
  /* From the newest update back, in groups of one instruction. */
  while (from > oldest && groups < MOST_GROUPS) {
    for (from--; from > oldest && same_origin(log, from - 1, from);) from--;
    groups++;
  }
  if (log->n == 0) return;
  isa_buf_printf(out, "\n    %s: ", from > 0 ? "last updates" : "updates");
  for (uint32_t i = from, last; i < log->n; i = last + 1) {
    for (last = i; last + 1 < log->n && same_origin(log, last, last + 1);) last++;
    if (i > from) isa_buf_puts(out, ", ");
    put_group(c, log, i, last, out);
  }
}

/* A wait that would have held earlier: the last such time, and what ended it. */
static void put_missed(const vm_core *c, const vm_engine *en, const isa_wait *w, uint32_t want,
                       /* Looked for from the last value back: the latest moment at which the wait
                        * would have held. */
                       isa_buf *out) {
  const vm_sem_log *log = &c->sem_log[w->sem];
  uint32_t oldest = log->n - kept(log), i = log->n; /* value i - 1 stood until update i */
  if (log->n == 0) return;
  for (i--; i > oldest; i--)
    if (isa_cond_holds(w->cond, log->value[(i - 1) % VM_SEM_LOG], want)) break;
  /* Before the first update the value was 0, for as long as the log goes back to the start. */
  bool first = i == 0; /* the 0 of the start */
  if (i == oldest && (!first || !isa_cond_holds(w->cond, 0, want))) return;
  uint32_t value = first ? 0 : log->value[(i - 1) % VM_SEM_LOG];
  vm_time from = first ? 0 : log->time[(i - 1) % VM_SEM_LOG], until = log->time[i % VM_SEM_LOG];
  isa_buf_puts(out, "\n    it held earlier: ");
  vm_put_sem(c, w->sem, out);
  isa_buf_printf(out, " was %u from %llu to %llu ns", value, ns(from), ns(until));
  const vm_where by = log->by[i % VM_SEM_LOG];
  if (vm_by_engine(by)) {
    isa_buf_puts(out, ", when ");
    vm_put_place(vm_core_at(c, by.core), (unsigned)by.engine, by.pc, out);
    isa_buf_printf(out, " made it %u", log->value[i % VM_SEM_LOG]);
  }
  isa_buf_printf(out, "; this wait began at %llu ns", ns(en->wait_since));
}

/* ---- Waiters ------------------------------------------------------------------------------- */

static isa_wait wait_of(const report *r, unsigned e) {
  return vm_wait_of(core_of(r, e), engine_of(r, e));
}

/* What has to happen before engine e, which is in a semaphore's wait or a sendrecv, goes on. */
static target target_of(const report *r, unsigned e) {
  const vm_engine *en = engine_of(r, e);
  unsigned core = core_of(r, e)->number;
  if (en->state == VM_MEETING)
    return (target){.core = 1 - core, .pipe = vm_meet_key(&en->code->insns[en->pc])};
  return (target){.core = core, .sem = wait_of(r, e).sem, .pipe = -1};
}

static void put_meeting(const report *r, unsigned e) {
  target t = target_of(r, e);
  const vm_engine *en = engine_of(r, e);
  const isa_insn *in = &en->code->insns[en->pc];
  if (isa_op_is_collective(in->op))
    isa_buf_printf(r->out, " waits at its %s of both cores for core %u", isa_ops[in->op].name,
                   t.core);
  else
    isa_buf_printf(r->out, " waits at its sendrecv of pipe %d for core %u", t.pipe, t.core);
  put_suspects(r, e, t);
}

static void put_waiter(const report *r, unsigned e) {
  const vm_core *c = core_of(r, e);
  const vm_engine *en = engine_of(r, e);
  isa_buf_puts(r->out, "\n  ");
  put_engine(r->out, e);
  isa_buf_puts(r->out, " at ");
  put_pc(r, e, en->pc);
  vm_put_round(c, e % ISA_NSEQS, en->pc, r->out);
  if (en->state == VM_RINGFULL) {
    isa_buf_printf(r->out, " waits for a place in the rings of queue %s",
                   c->code->queues[en->ring_queue].name);
    return;
  }
  if (en->state == VM_MEETING) {
    put_meeting(r, e);
    return;
  }
  if (en->state == VM_LEAVING || en->state == VM_CROWDED) {
    isa_buf_puts(r->out, en->state == VM_LEAVING
                             ? " waits for its transfers"
                             : " waits until an earlier collective is complete");
    return;
  }
  const isa_wait own = wait_of(r, e), *w = &own;
  uint32_t want = w->is_reg ? en->regs[w->value] : w->value, have = c->sem[w->sem];
  /* `> 5` is short of 6. */
  uint32_t least = w->cond == ISA_WAIT_gt && want < UINT32_MAX ? want + 1 : want;
  bool barrier = en->triggered && en->code->insns[en->pc].op == ISA_OP_core_barrier;
  isa_buf_puts(r->out, " waits ");
  if (barrier) isa_buf_printf(r->out, "at its core_barrier for core %u: ", 1u - c->number);
  if (!barrier) isa_buf_puts(r->out, "for ");
  vm_put_sem(c, w->sem, r->out);
  isa_buf_printf(r->out, "%s%u; ", isa_cond_text(w->cond), want);
  vm_put_sem(c, w->sem, r->out);
  isa_buf_printf(r->out, " is %u", have);
  if ((w->cond == ISA_WAIT_ge || w->cond == ISA_WAIT_gt) && have < least)
    isa_buf_printf(r->out, ", %u short", least - have);
  if (c->sem_log[w->sem].n == 0) isa_buf_puts(r->out, ", never updated");
  put_updates(c, &c->sem_log[w->sem], r->out);
  put_missed(c, en, w, want, r->out);
  put_suspects(r, e, target_of(r, e));
}

/* The engine that e waits for when it is stuck as well: the first that could change what e waits
 * on. -1: none, or e does not wait on a semaphore. */
static int waits_for(const report *r, unsigned e) {
  const vm_engine *en = engine_of(r, e);
  if (!exists(r, e) || (en->state != VM_WAITING && en->state != VM_MEETING)) return -1;
  /* The first that could: a report follows one chain, not all. */
  for (unsigned f = 0; f < r->n; f++)
    if (f != e && may_change(r, f, target_of(r, e))) return (int)f;
  return -1;
}

/* Says so when engines wait for one another in a circle: follows waits_for until it comes back. */
static void put_circle(const report *r) {
  for (unsigned start = 0; start < r->n; start++) {
    int at = waits_for(r, start);
    unsigned steps = 1;
    /* At most as many steps as there are engines: a chain may run into a circle that start is not
     * part of. */
    while (at >= 0 && at != (int)start && steps <= r->n) {
      at = waits_for(r, (unsigned)at);
      steps++;
    }
    if (at != (int)start) continue;
    isa_buf_puts(r->out, "\n  they wait in a circle: ");
    put_engine(r->out, start);
    for (unsigned i = 0; i < steps; i++) {
      at = waits_for(r, (unsigned)at);
      isa_buf_puts(r->out, " for ");
      put_engine(r->out, (unsigned)at);
    }
    return;
  }
}

/* ---- Reports ------------------------------------------------------------------------------- */

/* Engine e's instruction at pc has issued and still has something to do. */
static void mark(report *r, unsigned e, uint32_t pc) {
  const isa_code *code = engine_of(r, e)->code;
  /* An engine that has halted may still have instructions in its data path. */
  if (!r->reach[e]) r->reach[e] = isa_zalloc(&r->run->al, code->n);
  if (r->reach[e]) r->reach[e][pc] = 1;
}

/* In a run that goes on: data paths, transfers, and updates that nobody has seen yet. */
static void mark_under_way(report *r) {
  for (unsigned core = 0; core < r->run->n; core++) {
    const vm_core *c = r->run->cores[core];
    const unsigned first = c->number * (unsigned)ISA_NSEQS;
    for (unsigned e = 0; e < c->nseqs; e++)
      for (uint32_t i = 0; i < c->eng[e].nflights; i++)
        mark(r, first + e, c->eng[e].flights[(c->eng[e].first + i) % VM_FLIGHTS].pc);
    for (unsigned q = 0; q < c->code->nqueues; q++)
      for (unsigned d = 0; d < ISA_NDMA; d++)
        for (const vm_share *s = c->rings[q][d].head; s; s = s->next)
          mark(r, first + s->t->engine, s->t->pc);
    for (uint32_t i = 0; i < c->events.n; i++) {
      /* An update that is on its way comes from an instruction that has ended. */
      const vm_event *ev = &c->events.v[c->events.first + i];
      if (ev->kind != VM_E_SEM || !vm_by_engine(ev->by)) continue;
      mark(r, unit_of(ev->by), ev->by.pc);
    }
  }
}

/* What may still run of each engine: after the instruction that it cannot pass; and what is under
 * way. Without memory the report does without. */
static void open_report(report *r, const vm_run *run, isa_buf *out) {
  *r = (report){.run = run, .n = ISA_NSEQS * run->n, .out = out};
  for (unsigned e = 0; e < r->n; e++) {
    const vm_engine *en = engine_of(r, e);
    if (!exists(r, e) || en->state == VM_HALTED) continue;
    r->reach[e] = isa_zalloc(&run->al, en->code->n);
    /* The code after the place where it stands. */
    if (!r->reach[e] || isa_flow_reach(&run->al, en->code, en->pc, r->reach[e])) continue;
    isa_free(&run->al, r->reach[e], en->code->n);
    r->reach[e] = NULL;
  }
  mark_under_way(r);
}

static void close_report(report *r) {
  for (unsigned e = 0; e < r->n; e++)
    if (r->reach[e]) isa_free(&r->run->al, r->reach[e], engine_of(r, e)->code->n);
}

void vm_put_deadlock(vm_run *run) {
  isa_buf text;
  report r;
  int first = -1;
  isa_buf_init(&text, &run->al);
  open_report(&r, run, &text);
  for (unsigned e = 0; e < r.n; e++) {
    if (!exists(&r, e) || vm_seq_rests(engine_of(&r, e))) continue;
    if (first < 0) first = (int)e;
    put_waiter(&r, e);
  }
  put_circle(&r);
  close_report(&r);
  /* A number from ISA_NSEQS on is core 1's. */
  vm_core *c = run->cores[first >= ISA_NSEQS];
  vm_where at = VM_NOWHERE;
  if (first >= 0) at = vm_at_pc(c, (unsigned)first % ISA_NSEQS, engine_of(&r, (unsigned)first)->pc);
  vm_fault(c, ISA_DEADLOCK, at, "no engine can move and no transfer is in flight%s",
           isa_buf_str(&text));
  isa_buf_free(&text);
}

void vm_put_waits(const vm_run *run, isa_buf *out) {
  report r;
  open_report(&r, run, out);
  for (unsigned e = 0; e < r.n; e++) {
    const vm_state state = exists(&r, e) ? engine_of(&r, e)->state : VM_HALTED;
    if (state != VM_READY && state != VM_HALTED && state != VM_IDLE) put_waiter(&r, e);
  }
  close_report(&r);
}

void vm_put_stuck(const vm_run *run, isa_buf *out) {
  bool spins = false;
  report r;
  open_report(&r, run, out);
  for (unsigned e = 0; e < r.n; e++) {
    const vm_engine *en = engine_of(&r, e);
    if (!exists(&r, e)) continue;
    uint64_t n = en->instructions - en->shared_at;
    /* It may simply have been at work: only long stretches without shared state are spins. */
    if (en->state != VM_READY || n < LEAST_SPIN) continue;
    isa_buf_puts(out, "\n  ");
    put_engine(out, e);
    isa_buf_puts(out, " at ");
    put_pc(&r, e, en->pc);
    isa_buf_printf(out, " spun through %llu instructions without touching shared state",
                   (unsigned long long)n);
    spins = true;
  }
  /* Who waits for the one that spins. */
  for (unsigned e = 0; spins && e < r.n; e++) {
    const vm_engine *en = engine_of(&r, e);
    if (exists(&r, e) && en->state != VM_READY && !vm_seq_rests(en)) put_waiter(&r, e);
  }
  close_report(&r);
}
