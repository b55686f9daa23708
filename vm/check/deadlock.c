/* The report of a run that cannot continue: who waits on what, the last values of that semaphore,
 * whether the wait has missed its moment, and who could still have changed it. */

#include "../engine/engine.h"
#include "check.h"
#include "../../isa/flow.h"

#include <string.h>

enum {
  MOST_GROUPS = 4,  /* groups of updates shown */
  MOST_PLACES = 3,  /* instructions shown of an engine that could update */
  LEAST_SPIN = 1000 /* register instructions in a row that are worth a line */
};

typedef struct report {
  const vm_core *c;
  isa_buf *out;
  uint8_t *reach[ISA_NENGINES]; /* by pc: it may still run; NULL: not known, or halted */
} report;

static const char *engine_name(unsigned e) { return isa_engines[e].name; }
static unsigned long long ns(vm_time t) { return t / VM_NS; }

/* ---- Who could change a semaphore ---------------------------------------------------------- */

static bool updates(const isa_insn *in, unsigned sem) {
  return in->upd.kind != ISA_UPD_none && in->upd.sem == sem && in->upd.core == 0;
}

static bool transfers_update(const isa_queue *q, unsigned sem) {
  for (uint32_t i = 0; i < q->nstatics; i++)
    if (updates(&q->statics[i], sem)) return true;
  return false;
}

static bool changes(const vm_core *c, const isa_insn *in, unsigned sem) {
  if (in->op == ISA_OP_sem_range_clear && sem - in->u.SEM_RANGE.first < in->u.SEM_RANGE.count)
    return true;
  if (in->op == ISA_OP_dma_trigger && in->upd.kind == ISA_UPD_none)
    return transfers_update(&c->code->queues[in->u.TRIGGER.queue], sem);
  return updates(in, sem);
}

/* Whether engine e, as it stands, has an instruction before it that changes the semaphore. */
static bool may_change(const report *r, unsigned e, unsigned sem) {
  const isa_code *code = &r->c->code->code[e];
  for (uint32_t pc = 0; r->reach[e] && pc < code->n; pc++)
    if (r->reach[e][pc] && changes(r->c, &code->insns[pc], sem)) return true;
  return false;
}

/* The places of engine e that change the semaphore and may run (or not, as asked). */
static unsigned put_changers(const report *r, unsigned e, unsigned sem, bool may, unsigned before,
                             const char *head) {
  const isa_code *code = &r->c->code->code[e];
  unsigned shown = 0;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    bool ahead = r->reach[e] && r->reach[e][pc];
    if (ahead != may || !changes(r->c, in, sem)) continue;
    if (shown++ == MOST_PLACES) break;
    if (shown == 1)
      isa_buf_printf(r->out, "%s%s (", before ? ", " : head, engine_name(e));
    else
      isa_buf_puts(r->out, ", ");
    vm_put_pc(r->c, e, pc, r->out);
    int q = isa_insn_queue(in);
    if (q >= 0) isa_buf_printf(r->out, " by queue %s", r->c->code->queues[q].name);
  }
  if (shown > MOST_PLACES) isa_buf_puts(r->out, " and more");
  if (shown) isa_buf_puts(r->out, ")");
  return shown;
}

static void put_suspects(const report *r, unsigned waiter, unsigned sem) {
  const vm_core *c = r->c;
  unsigned n = 0;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    bool any = put_changers(r, e, sem, true, n, "\n    it could still be changed by ") > 0;
    if (any && e == waiter) isa_buf_puts(r->out, " after this wait");
    n += any;
  }
  if (n) return;
  isa_buf_puts(r->out, "\n    nothing that could still run changes it");
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (put_changers(r, e, sem, false, n, ": ") == 0) continue;
    isa_buf_puts(r->out, c->eng[e].state == VM_HALTED ? " has halted" : " is past it");
    n++;
  }
  for (uint32_t q = 0; n == 0 && q < c->code->nqueues; q++)
    if (transfers_update(&c->code->queues[q], sem))
      isa_buf_printf(r->out, ": nothing triggers queue %s, whose transfers do",
                     c->code->queues[q].name);
}

/* ---- What the semaphore has been ----------------------------------------------------------- */

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
  if (log->engine[b] >= ISA_NENGINES) {
    isa_buf_puts(out, "the host");
    return;
  }
  isa_buf_printf(out, "%s (", engine_name(log->engine[b]));
  vm_put_pc(c, log->engine[b], log->pc[b], out);
  isa_buf_puts(out, ")");
}

static bool same_origin(const vm_sem_log *log, uint32_t i, uint32_t k) {
  i %= VM_SEM_LOG, k %= VM_SEM_LOG;
  return log->engine[i] == log->engine[k] && log->pc[i] == log->pc[k];
}

/* The last updates, oldest first, those of one instruction together. */
static void put_updates(const vm_core *c, const vm_sem_log *log, isa_buf *out) {
  uint32_t oldest = log->n - kept(log), from = log->n, groups = 0;
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

static bool holds(unsigned cond, uint32_t have, uint32_t want) {
  switch (cond) {
  case ISA_WAIT_ge: return have >= want;
  case ISA_WAIT_gt: return have > want;
  case ISA_WAIT_eq: return have == want;
  case ISA_WAIT_le: return have <= want;
  case ISA_WAIT_lt: return have < want;
  case ISA_WAIT_ne: return have != want;
  default: return true;
  }
}

/* A wait that would have held at an earlier moment: the last such, and what ended it. */
static void put_missed(const vm_core *c, const vm_engine *en, const isa_wait *w, uint32_t want,
                       isa_buf *out) {
  const vm_sem_log *log = &c->sem_log[w->sem];
  uint32_t oldest = log->n - kept(log), i = log->n; /* value i - 1 stood until update i */
  if (log->n == 0) return;
  for (i--; i > oldest; i--)
    if (holds(w->cond, log->value[(i - 1) % VM_SEM_LOG], want)) break;
  bool first = i == 0; /* the 0 of the start */
  if (i == oldest && (!first || !holds(w->cond, 0, want))) return;
  uint32_t value = first ? 0 : log->value[(i - 1) % VM_SEM_LOG];
  vm_time from = first ? 0 : log->time[(i - 1) % VM_SEM_LOG], until = log->time[i % VM_SEM_LOG];
  isa_buf_puts(out, "\n    it held earlier: ");
  vm_put_sem(c, w->sem, out);
  isa_buf_printf(out, " was %u from %llu to %llu ns", value, ns(from), ns(until));
  if (log->engine[i % VM_SEM_LOG] < ISA_NENGINES) {
    isa_buf_puts(out, ", when ");
    vm_put_place(c, log->engine[i % VM_SEM_LOG], log->pc[i % VM_SEM_LOG], out);
    isa_buf_printf(out, " made it %u", log->value[i % VM_SEM_LOG]);
  }
  isa_buf_printf(out, "; this wait began at %llu ns", ns(en->wait_since));
}

/* ---- Waiters ------------------------------------------------------------------------------- */

static const isa_wait *wait_of(const vm_engine *en) { return &en->code->insns[en->pc].wait; }

static void put_waiter(const report *r, unsigned e) {
  const vm_core *c = r->c;
  const vm_engine *en = &c->eng[e];
  isa_buf_printf(r->out, "\n  %s at ", engine_name(e));
  vm_put_pc(c, e, en->pc, r->out);
  vm_put_round(c, e, en->pc, r->out);
  if (en->state == VM_RINGFULL) {
    isa_buf_printf(r->out, " waits for a place in the rings of queue %s",
                   c->code->queues[en->ring_queue].name);
    return;
  }
  const isa_wait *w = wait_of(en);
  uint32_t want = w->is_reg ? en->regs[w->value] : w->value, have = c->sem[w->sem];
  uint32_t least = w->cond == ISA_WAIT_gt && want < UINT32_MAX ? want + 1 : want;
  isa_buf_puts(r->out, " waits for ");
  vm_put_sem(c, w->sem, r->out);
  isa_buf_printf(r->out, "%s%u; ", isa_cond_text(w->cond), want);
  vm_put_sem(c, w->sem, r->out);
  isa_buf_printf(r->out, " is %u", have);
  if ((w->cond == ISA_WAIT_ge || w->cond == ISA_WAIT_gt) && have < least)
    isa_buf_printf(r->out, ", %u short", least - have);
  if (c->sem_log[w->sem].n == 0) isa_buf_puts(r->out, ", never updated");
  put_updates(c, &c->sem_log[w->sem], r->out);
  put_missed(c, en, w, want, r->out);
  put_suspects(r, e, w->sem);
}

/* The engine that e waits for when it is stuck as well: the first that could change what e waits
 * on. -1: none, or e does not wait on a semaphore. */
static int waits_for(const report *r, unsigned e) {
  if (r->c->eng[e].state != VM_WAITING) return -1;
  for (unsigned f = 0; f < ISA_NENGINES; f++)
    if (f != e && may_change(r, f, wait_of(&r->c->eng[e])->sem)) return (int)f;
  return -1;
}

/* Says so when engines wait for one another in a circle: follows waits_for until it comes back. */
static void put_circle(const report *r) {
  for (unsigned start = 0; start < ISA_NENGINES; start++) {
    int at = waits_for(r, start);
    unsigned steps = 1;
    while (at >= 0 && at != (int)start && steps <= ISA_NENGINES) {
      at = waits_for(r, (unsigned)at);
      steps++;
    }
    if (at != (int)start) continue;
    isa_buf_printf(r->out, "\n  they wait in a circle: %s", engine_name(start));
    for (unsigned i = 0; i < steps; i++) {
      at = waits_for(r, (unsigned)at);
      isa_buf_printf(r->out, " for %s", engine_name((unsigned)at));
    }
    return;
  }
}

/* ---- Reports ------------------------------------------------------------------------------- */

/* What may still run of each engine: after the instruction that it cannot pass. Without memory
 * the report does without. */
static void open_report(report *r, const vm_core *c, isa_buf *out) {
  *r = (report){.c = c, .out = out};
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const vm_engine *en = &c->eng[e];
    if (en->state == VM_HALTED) continue;
    r->reach[e] = isa_zalloc(&c->al, en->code->n);
    if (!r->reach[e] || isa_flow_reach(&c->al, en->code, en->pc, r->reach[e])) continue;
    isa_free(&c->al, r->reach[e], en->code->n);
    r->reach[e] = NULL;
  }
}

static void close_report(report *r) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (r->reach[e]) isa_free(&r->c->al, r->reach[e], r->c->code->code[e].n);
}

void vm_check_deadlock(vm_core *c) {
  isa_buf text;
  report r;
  int first = -1;
  isa_buf_init(&text, &c->al);
  open_report(&r, c, &text);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    if (c->eng[e].state == VM_HALTED) continue;
    if (first < 0) first = (int)e;
    put_waiter(&r, e);
  }
  put_circle(&r);
  close_report(&r);
  vm_fault(c, ISA_DEADLOCK, first < 0 ? VM_NOWHERE : vm_at_pc((unsigned)first, c->eng[first].pc),
           "no engine can move and no transfer is in flight%s", isa_buf_str(&text));
  isa_buf_free(&text);
}

void vm_check_put_stuck(const vm_core *c, isa_buf *out) {
  bool spins = false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const vm_engine *en = &c->eng[e];
    uint64_t n = en->instructions - en->shared_at;
    if (en->state != VM_READY || n < LEAST_SPIN) continue;
    isa_buf_printf(out, "\n  %s at ", engine_name(e));
    vm_put_pc(c, e, en->pc, out);
    isa_buf_printf(out, " spun %llu instructions without touching shared state",
                   (unsigned long long)n);
    spins = true;
  }
  if (!spins) return;
  report r;
  open_report(&r, c, out);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (c->eng[e].state == VM_WAITING || c->eng[e].state == VM_RINGFULL) put_waiter(&r, e);
  close_report(&r);
}
