/* The report of a world that cannot go on: which ranks wait in which collective for which. */
#include "world.h"
#include "../engine/cc.h"

/* ---- Who raises a semaphore of another rank ------------------------------------------------ */

/* Whether an instruction of `from` adds to that semaphore of rank `to`, by itself or by the
 * transfers that it triggers. */
static bool raises(const vm_run *from, const isa_core *code, const isa_insn *in, unsigned sem,
                   uint32_t to) {
  const isa_update *u = &in->upd;
  if (u->kind != ISA_UPD_peer || u->sem != sem) return false;
  /* One rank's, or, with 0, that of each transfer's own peer. */
  if (u->value) return from->peers->ranks[u->value - 1] == to;
  const isa_queue *q = &code->queues[in->u.TRIGGER.queue];
  uint32_t i, end = isa_trigger_range(in, q->nstatics, &i);
  for (; i < end; i++) {
    uint32_t slot = isa_static_peer(from->prog, code, &q->statics[i]);
    if (slot && from->peers->ranks[slot - 1] == to) return true;
  }
  return false;
}

/* The first such instruction of core `core` of a run. */
static bool find_raiser(const vm_run *from, unsigned core, unsigned sem, uint32_t to,
                        vm_where *at) {
  if (core >= from->n || !from->peers->ranks) return false;
  /* Only CC sequencers raise semaphores of other ranks. */
  const isa_core *code = from->cores[core]->code;
  for (unsigned e = ISA_NENGINES; e < ISA_NSEQS; e++)
    for (uint32_t pc = 0; pc < code->code[e].n; pc++)
      if (raises(from, code, &code->code[e].insns[pc], sem, to)) {
        *at = vm_at_pc(from->cores[core], e, pc);
        return true;
      }
  return false;
}

/* ---- Ranks --------------------------------------------------------------------------------- */

/* A sequencer of the run that waits, a CC sequencer at work if there is one. */
static bool waits_at(const vm_run *r, vm_where *at) {
  bool any = false;
  for (unsigned i = 0; i < r->n; i++)
    for (unsigned e = 0; e < r->cores[i]->nseqs; e++) {
      const vm_engine *en = &r->cores[i]->eng[e];
      /* A waiting engine is told only if no CC sequencer waits. */
      if (vm_seq_rests(en) || (any && e < ISA_NENGINES)) continue;
      *at = vm_at_pc(r->cores[i], e, en->pc);
      if (e >= ISA_NENGINES) return true;
      any = true;
    }
  return any;
}

/* "waits in all_reduce (a.s:14)", "waits at b.s:9 for $loaded>=32", "has ended". */
static void put_state(const vm_run *r, isa_buf *out) {
  vm_where at;
  if (!waits_at(r, &at)) {
    isa_buf_puts(out, "has ended");
    return;
  }
  const vm_core *c = r->cores[at.core];
  const vm_engine *en = &c->eng[at.engine];
  if (at.engine >= ISA_NENGINES) {
    const vm_collective *x = vm_cc_at_work(c, (unsigned)at.engine);
    isa_buf_printf(out, "waits in %s (", isa_ops[c->code->code[x->engine].insns[x->pc].op].name);
    vm_put_place(c, x->engine, x->pc, out);
    isa_buf_puts(out, ")");
    return;
  }
  isa_buf_puts(out, "waits at ");
  vm_put_place(c, (unsigned)at.engine, at.pc, out);
  if (en->state != VM_WAITING) return;
  isa_wait w = vm_wait_of(c, en);
  isa_buf_puts(out, " for ");
  vm_put_sem(c, w.sem, out);
  isa_buf_printf(out, "%s%u", isa_cond_text(w.cond), w.is_reg ? en->regs[w.value] : w.value);
}

enum { SHOWN = 4 }; /* ranks and those they wait for: of 64 that wait for one, all would be 4096 */

/* The i-th rank, of 2 n, in the order in which they are told: whoever is in no collective is why
 * the others are. False: it has another place. */
static bool told_at(const vm_world *w, uint32_t i, uint32_t *r) {
  vm_where at;
  *r = i % w->nranks;
  bool inside = waits_at(w->runs[*r], &at) && at.engine >= ISA_NENGINES;
  /* Those outside of collectives in the first n, the others in the second. */
  return inside == (i >= w->nranks);
}

/* Appends "for rank 1, which ..." for those that could raise what rank r waits for. */
static void put_awaited(const vm_world *w, uint32_t r, isa_buf *out) {
  vm_where at, by;
  unsigned n = 0;
  if (!waits_at(w->runs[r], &at)) return;
  const vm_core *c = w->runs[r]->cores[at.core];
  const vm_engine *en = &c->eng[at.engine];
  if (en->state != VM_WAITING) return;
  isa_wait wait = vm_wait_of(c, en);
  for (uint32_t i = 0, k; i < 2 * w->nranks; i++) {
    if (!told_at(w, i, &k) || !find_raiser(w->runs[k], at.core, wait.sem, r, &by)) continue;
    /* Counted all the same. */
    if (n++ >= SHOWN) continue;
    isa_buf_printf(out, "%s rank %u (%s ", n > 1 ? ", for" : " for", k,
                   isa_engines[by.engine].name);
    vm_put_pc(w->runs[k]->cores[by.core], (unsigned)by.engine, by.pc, out);
    isa_buf_puts(out, "), which ");
    put_state(w->runs[k], out);
  }
  if (n > SHOWN) isa_buf_printf(out, ", for %u more", n - SHOWN);
  /* An engine may wait for what no rank raises, as for its own transfers. */
  if (n == 0 && at.engine >= ISA_NENGINES)
    isa_buf_puts(out, ", and no rank sends to the semaphore that it waits for");
}

/* Ends each run, and appends why those that are told cannot go on. */
static void put_runs(vm_world *w) {
  unsigned n = 0;
  for (uint32_t i = 0, r; i < 2 * w->nranks; i++) {
    if (!told_at(w, i, &r)) continue;
    if (vm_run_rests(w->runs[r])) continue;
    vm_put_deadlock(w->runs[r]);
    if (n++ < SHOWN)
      isa_buf_printf(&w->report, "\nrank %u: %s", r, isa_buf_str(&w->runs[r]->fault.text));
  }
  /* The others have ended well. */
  for (uint32_t r = 0; r < w->nranks; r++)
    if (vm_run_rests(w->runs[r])) vm_run_finish(w->runs[r]);
}

/* "; link 3-7 has failed at 1200 ns and stopped 5 messages". */
static void put_lost(vm_world *w) {
  const vm_links *l = &w->links;
  if (!l->lost) return;
  const vm_link x = {.from = l->why.a, .to = l->why.b};
  isa_buf_puts(&w->report, "; link ");
  vm_links_put(&x, &w->report);
  isa_buf_printf(&w->report, " failed at %.3f ns, and %u message%s stopped there or at others",
                 (double)l->why.at / VM_NS, l->lost, l->lost == 1 ? "" : "s");
}

void vm_world_stuck(vm_world *w) {
  unsigned n = 0;
  w->status = ISA_DEADLOCK;
  w->report.len = 0;
  isa_buf_puts(&w->report, "the world cannot go on:");
  for (uint32_t i = 0, r; i < 2 * w->nranks; i++) {
    if (!told_at(w, i, &r) || vm_run_rests(w->runs[r])) continue;
    /* The first that is told is who has failed. */
    if (n == 0) w->failed = r;
    if (n++ >= SHOWN) continue;
    isa_buf_printf(&w->report, "%s rank %u ", n > 1 ? ";" : "", r);
    put_state(w->runs[r], &w->report);
    put_awaited(w, r, &w->report);
  }
  if (n > SHOWN) isa_buf_printf(&w->report, "; %u more ranks wait", n - SHOWN);
  put_lost(w);
  put_runs(w);
}
