/* The log of a run: what changes what an engine knows, updates, and accesses, so that order can be
 * judged when all of it is known. A log that grows too long is given up, and accesses are judged
 * as they come, by what is known then. */
#include "check.h"
#include "impl.h"

enum {
  MOST_STEPS = 1 << 16,
  MOST_UPDATES = 1 << 18, /* and as many that take effect at once */
  MOST_ACCESSES = 1 << 17,
  MOST_CLOCKS = 1 << 24 /* components of the clocks of all steps */
};

static vm_ck_log *log_of(const vm_core *c) { return &c->check->log; }

/* ---- Semaphores that only count ------------------------------------------------------------ */

static bool lowers(const isa_insn *in) {
  return in->upd.kind == ISA_UPD_dec || in->upd.kind == ISA_UPD_sub;
}

/* Looks at what engine e's instruction does to the semaphores that it names. */
static void scan_insn(struct vm_check *k, unsigned e, const isa_insn *in) {
  vm_ck_log *g = &k->log;
  bool data = !isa_op_is_control(in->op) && !isa_op_is_dma(in->op);
  bool waits = in->wait.cond != ISA_WAIT_none, updates = in->upd.kind != ISA_UPD_none;
  bool rises = in->wait.cond == ISA_WAIT_ge || in->wait.cond == ISA_WAIT_gt;
  bool at_once =
      in->op == ISA_OP_event_semaphore && waits && updates && in->upd.sem == in->wait.sem;
  if (data && updates && in->upd.at_read) k->tells_reads |= (uint8_t)(1u << e);
  if (waits) {
    g->waiters[in->wait.sem] |= (uint8_t)(1u << e);
    if (!rises) g->mixed[in->wait.sem] = true;
  }
  if (updates && at_once && rises && lowers(in))
    g->takers[in->upd.sem] |= (uint8_t)(1u << e);
  else if (updates && (at_once || lowers(in) || in->upd.kind == ISA_UPD_write))
    g->mixed[in->upd.sem] = true;
  for (unsigned i = 0; in->op == ISA_OP_sem_range_clear && i < in->u.SEM_RANGE.count; i++)
    g->mixed[in->u.SEM_RANGE.first + i] = true;
}

/* A semaphore counts when it only rises, and when the one engine that waits for it takes what it
 * has waited for in the same step: then the sum of its increments tells all. */
static void scan_program(const vm_core *c, vm_ck_log *g) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < c->code->code[e].n; pc++)
      scan_insn(c->check, e, &c->code->code[e].insns[pc]);
  for (unsigned s = 0; s < ISA_NSEMS; s++) {
    unsigned takers = g->takers[s];
    if (takers && (g->waiters[s] != takers || (takers & (takers - 1)))) g->mixed[s] = true;
  }
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

static void no_memory(vm_core *c) {
  vm_ck_log_end(c);
  vm_ck_out_of_memory(c);
}

static uint32_t add_step(vm_core *c, vm_ck_step s) {
  vm_ck_log *g = log_of(c);
  if (g->nsteps == MOST_STEPS || (uint64_t)g->nsteps * c->check->ncomps > MOST_CLOCKS) {
    vm_ck_log_give_up(c);
    return 0;
  }
  if (g->nsteps == g->cap_steps &&
      !isa_array_grow(&c->al, &g->steps, g->nsteps, &g->cap_steps, sizeof s)) {
    no_memory(c);
    return 0;
  }
  s.at = g->at++;
  g->steps[g->nsteps] = s;
  return g->nsteps++;
}

bool vm_ck_log_start(vm_core *c) {
  vm_ck_log *g = log_of(c);
  g->on = true;
  scan_program(c, g);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    g->last[e] = add_step(c, (vm_ck_step){.kind = VM_CK_START, .engine = (uint8_t)e});
  return g->on;
}

void vm_ck_log_end(vm_core *c) {
  vm_ck_log *g = log_of(c);
  isa_free(&c->al, g->steps, g->cap_steps * sizeof *g->steps);
  isa_free(&c->al, g->updates, g->cap_updates * sizeof *g->updates);
  isa_free(&c->al, g->sets, g->cap_sets * sizeof *g->sets);
  isa_free(&c->al, g->accesses, g->cap_accesses * sizeof *g->accesses);
  g->on = false;
  g->steps = NULL;
  g->updates = g->sets = NULL;
  g->accesses = NULL;
  g->nsteps = g->cap_steps = g->nupdates = g->cap_updates = g->naccesses = g->cap_accesses = 0;
  g->nsets = g->cap_sets = 0;
}

void vm_ck_log_give_up(vm_core *c) {
  if (!log_of(c)->on) return;
  vm_ck_judge(c);
  vm_ck_log_end(c);
}

/* ---- What is logged ------------------------------------------------------------------------ */

static void go_on(vm_core *c, unsigned e, vm_ck_step s) {
  vm_ck_log *g = log_of(c);
  if (!g->on) return;
  s.engine = (uint8_t)e;
  s.prev = g->last[e];
  s.pc = c->eng[e].pc;
  s.seq = c->check->clock[e][vm_ck_comp(e, OF_SEQ)];
  uint32_t step = add_step(c, s);
  if (g->on) g->last[e] = step;
}

bool vm_ck_log_wait(vm_core *c, unsigned e, const isa_wait *w, uint32_t value) {
  vm_ck_log *g = log_of(c);
  if (!g->on) return true;
  if (g->mixed[w->sem]) {
    go_on(c, e, (vm_ck_step){.kind = VM_CK_HELD, .cond = w->cond, .sem = w->sem, .value = value});
    return false;
  }
  int64_t want = (int64_t)value + (w->cond == ISA_WAIT_gt);
  go_on(c, e,
        (vm_ck_step){
            .kind = VM_CK_WAIT, .sem = w->sem, .value = value, .want = want + g->taken[w->sem]});
  return true;
}

void vm_ck_log_know(vm_core *c, unsigned e, const vm_ck_release *r) {
  if (r->logged)
    go_on(c, e,
          (vm_ck_step){.kind = VM_CK_KNOW,
                       .sem = log_of(c)->updates[r->logged - 1].sem,
                       .other = r->logged - 1});
}

void vm_ck_log_drain(vm_core *c, unsigned e) {
  go_on(c, e, (vm_ck_step){.kind = VM_CK_DRAIN, .other = c->check->issued[e]});
}

void vm_ck_log_trigger(vm_core *c, unsigned e, unsigned queue, bool other) {
  vm_ck_log *g = log_of(c);
  uint32_t step = g->last[e];
  if (!g->on) return;
  if (other) /* another engine's transfers went before: its rings keep their order */
    step = add_step(c, (vm_ck_step){.kind = VM_CK_QUEUE,
                                    .engine = (uint8_t)e,
                                    .prev = g->last[e],
                                    .other = g->queue[queue],
                                    .pc = c->eng[e].pc,
                                    .seq = c->check->clock[e][vm_ck_comp(e, OF_SEQ)]});
  if (g->on) g->queue[queue] = step;
}

void vm_ck_log_host(vm_core *c, unsigned sem) {
  vm_ck_log *g = log_of(c);
  bool used = false;
  for (uint32_t i = 0; i < g->nsteps; i++)
    used |= g->steps[i].kind == VM_CK_WAIT && g->steps[i].sem == sem;
  g->mixed[sem] = g->host[sem] = true;
  if (used) vm_ck_log_give_up(c);
}

void vm_ck_log_take(vm_core *c, unsigned sem, unsigned kind, uint32_t value) {
  if (kind == ISA_UPD_dec) log_of(c)->taken[sem]++;
  if (kind == ISA_UPD_sub) log_of(c)->taken[sem] += value;
}

/* Complete, an instruction has read and written, and so have those before it; when it has read,
 * they have read. Weights tell of weights alone, and the sequencer of itself. */
static bool tells_of(unsigned comp, unsigned what) {
  unsigned of = comp % OF_ENGINE;
  return of == OF_DONE || (of == OF_READ && what != OF_DONE) ||
         (of == OF_WEIGHTS && what == OF_WEIGHTS);
}

/* Room for one more of the n updates in *v; false: there is none, and the log has ended. */
static bool room(vm_core *c, vm_ck_signal **v, uint32_t n, uint32_t *cap) {
  if (n == MOST_UPDATES) {
    vm_ck_log_give_up(c);
    return false;
  }
  if (n < *cap || isa_array_grow(&c->al, v, n, cap, sizeof **v)) return true;
  no_memory(c);
  return false;
}

static vm_ck_signal signal_of(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *from) {
  vm_ck_log *g = log_of(c);
  const vm_ck_release *r = &from->r;
  vm_ck_signal u = {.step =
                        r->ring ? g->queue[(r->ring - FIRST_RING) / ISA_NDMA] : g->last[r->engine],
                    .at = g->at++,
                    .share = r->share,
                    .epoch = from->epoch,
                    .pc = r->pc,
                    .delta = from->delta,
                    .comp = (uint16_t)comp,
                    .ring = r->ring,
                    .sem = (uint16_t)sem,
                    .engine = r->engine,
                    .writes = from->writes};
  u.own[OF_SEQ] = r->own[OF_SEQ];
  for (unsigned what = OF_DONE; what <= OF_WEIGHTS && !r->ring; what++)
    if (tells_of(comp, what)) u.own[what] = from->epoch;
  if (comp < FIRST_RING && comp % OF_ENGINE == OF_READ)
    u.own[OF_DONE] = c->check->hazard[r->engine];
  return u;
}

uint32_t vm_ck_log_update(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *u) {
  vm_ck_log *g = log_of(c);
  if (!g->on || !room(c, &g->updates, g->nupdates, &g->cap_updates)) return 0;
  g->updates[g->nupdates] = signal_of(c, sem, comp, u);
  return ++g->nupdates;
}

void vm_ck_log_set(vm_core *c, unsigned e, unsigned sem, const vm_ck_update *u, bool taken) {
  vm_ck_log *g = log_of(c);
  if (!g->on || !g->mixed[sem] || !room(c, &g->sets, g->nsets, &g->cap_sets)) return;
  vm_ck_signal s = signal_of(c, sem, vm_ck_comp(e, OF_SEQ), u);
  s.taken = taken;
  s.arrived = s.at;
  g->sets[g->nsets++] = s;
}

void vm_ck_log_arrival(vm_core *c, uint32_t logged) {
  vm_ck_log *g = log_of(c);
  if (g->on && logged && g->mixed[g->updates[logged - 1].sem])
    g->updates[logged - 1].arrived = g->at++;
}

bool vm_ck_log_access(vm_core *c, const vm_ck_access *a) {
  vm_ck_log *g = log_of(c);
  if (!g->on) return false;
  if (g->naccesses == MOST_ACCESSES) {
    vm_ck_log_give_up(c);
    return false;
  }
  if (g->naccesses == g->cap_accesses &&
      !isa_array_grow(&c->al, &g->accesses, g->naccesses, &g->cap_accesses, sizeof *g->accesses)) {
    no_memory(c);
    return true;
  }
  vm_ck_access *to = &g->accesses[g->naccesses];
  *to = *a;
  to->step = a->queue < ISA_MAX_QUEUES ? g->queue[a->queue] : g->last[a->engine];
  to->at = g->at++;
  to->seq = c->check->clock[a->engine][vm_ck_comp(a->engine, OF_SEQ)];
  to->logged = ++g->naccesses;
  return true;
}
