/* The log of a run: what changes the knowledge of an engine, updates, and accesses, so that order
 * can be judged when all of it is known. If a log grows too long it is given up, and accesses are
 * judged as they come, by what is known then. */
#include "check.h"
#include "judge.h"
#include "meet.h"

enum {
  MOST_STEPS = 1 << 16,
  MOST_UPDATES = 1 << 18, /* and as many updates that take effect at once */
  MOST_ACCESSES = 1 << 17,
  MOST_BACK = 256,      /* steps that are looked at for a sendrecv */
  MOST_CLOCKS = 1 << 24 /* components of the clocks of all steps */
};

static vm_ck_log *log_of(const vm_core *c) { return &c->check->log; }

/* ---- Semaphores that only count ------------------------------------------------------------ */

static bool lowers(const isa_insn *in) {
  return in->upd.kind == ISA_UPD_dec || in->upd.kind == ISA_UPD_sub;
}

/* Whether an event_semaphore takes at most what it has waited for: then it cannot go below zero. */
static bool takes_waited(const isa_insn *in) {
  uint32_t taken = in->upd.kind == ISA_UPD_dec ? 1 : in->upd.value;
  /* `>` holds from one more on. */
  return !in->wait.is_reg && taken <= in->wait.value + UINT64_C(1) * (in->wait.cond == ISA_WAIT_gt);
}

/* Looks at what engine e's instruction does to the semaphores that it names. */
static void scan_insn(struct vm_check *k, unsigned e, const isa_insn *in) {
  unsigned core = e >= ISA_NSEQS, mask = 1u << e;
  unsigned waited = vm_ck_sem(core, in->wait.sem), updated = vm_ck_sem(in->upd.core, in->upd.sem);
  vm_ck_log *g = &k->log;
  bool data = !isa_op_is_control(in->op) && !isa_op_is_dma(in->op);
  bool waits = in->wait.cond != ISA_WAIT_none;
  bool updates = in->upd.kind != ISA_UPD_none && in->upd.kind != ISA_UPD_peer;
  bool rises = in->wait.cond == ISA_WAIT_ge || in->wait.cond == ISA_WAIT_gt;
  bool at_once = in->op == ISA_OP_event_semaphore && waits && updates && updated == waited;
  if (data && updates && in->upd.at_read) k->tells_reads |= (uint16_t)mask;
  if (waits) {
    g->waiters[waited] |= (uint16_t)mask;
    /* A wait for <=, == or != needs more than sums. */
    if (!rises) g->mixed[waited] = true;
  }
  /* The wait and the subtraction are one step, by one engine. */
  if (updates && at_once && rises && lowers(in) && takes_waited(in))
    g->takers[updated] |= (uint16_t)mask;
  /* Anything else that lowers or sets it: order matters. */
  else if (updates && (at_once || lowers(in) || in->upd.kind == ISA_UPD_write))
    g->mixed[updated] = true;
  isa_barrier b;
  if (isa_insn_barrier(in, core, &b)) { /* the update reaches the other core */
    g->waiters[vm_ck_sem(core, b.take.sem)] |= (uint16_t)mask;
    g->takers[vm_ck_sem(core, b.take.sem)] |= (uint16_t)mask;
  }
  /* A clear is a write. */
  for (unsigned i = 0; in->op == ISA_OP_sem_range_clear && i < in->u.SEM_RANGE.count; i++)
    g->mixed[vm_ck_sem(core, in->u.SEM_RANGE.first + i)] = true;
}

/* A semaphore only counts if it only rises, or if the one engine that waits for it subtracts what
 * it has waited for in the same step: then the sum of its increments tells everything. */
static void scan_program(const vm_core *c, vm_ck_log *g) {
  for (unsigned e = 0; e < c->check->nengines; e++)
    for (uint32_t pc = 0; pc < vm_ck_code(c, e)->n; pc++)
      scan_insn(c->check, e, &vm_ck_code(c, e)->insns[pc]);
  for (unsigned s = 0; s < c->check->nsems; s++) {
    unsigned takers = g->takers[s];
    /* Two that take, or one that waits without taking: who comes first decides. */
    if (takers && (g->waiters[s] != takers || (takers & (takers - 1)))) g->mixed[s] = true;
  }
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

/* Without the log nothing can be judged: the run ends. */
static void no_memory(vm_core *c) {
  vm_ck_log_end(c);
  vm_ck_out_of_memory(c);
}

/* Room for element n of an array of the log. */
static bool grow(const vm_core *c, void *array_ptr, uint32_t n, uint32_t *cap, size_t size) {
  return n < *cap || vm_pool_room(c->run->pool, &c->al, array_ptr, n, cap, size);
}

/* Room for a step; NULL: the log has ended. */
static vm_ck_step *new_step(vm_core *c) {
  vm_ck_log *g = log_of(c);
  if (!g->on) return NULL;
  /* Clocks of that many steps would be too large to judge. */
  if (g->nsteps == g->most_steps) {
    vm_ck_log_give_up(c);
    return NULL;
  }
  if (!grow(c, &g->steps, g->nsteps, &g->cap_steps, sizeof *g->steps)) {
    no_memory(c);
    return NULL;
  }
  return &g->steps[g->nsteps++];
}

/* A step of engine e, which does not become its last yet; NULL: the log has ended. */
static vm_ck_step *add_step(vm_core *c, unsigned e, unsigned kind) {
  vm_ck_log *g = log_of(c);
  vm_ck_step *s = new_step(c);
  if (!s) return NULL;
  *s = (vm_ck_step){.kind = (uint8_t)kind,
                    .engine = (uint8_t)e,
                    .prev = g->last[e],
                    .at = g->at++,
                    .seq = c->check->clock[e][vm_ck_comp(e, OF_SEQ)],
                    .pc = vm_ck_engine(c, e)->pc};
  return s;
}

/* The same, and it becomes the engine's last. */
static vm_ck_step *go_on(vm_core *c, unsigned e, unsigned kind) {
  vm_ck_step *s = add_step(c, e, kind);
  if (s) log_of(c)->last[e] = log_of(c)->nsteps - 1;
  return s;
}

bool vm_ck_log_start(vm_core *c) {
  vm_ck_log *g = log_of(c);
  g->on = true;
  /* The judge has a clock for each step: with many components fewer steps fit. */
  g->most_steps = MOST_CLOCKS / c->check->ncomps + 1;
  if (g->most_steps > MOST_STEPS) g->most_steps = MOST_STEPS;
  scan_program(c, g);
  for (unsigned e = 0; e < c->check->nengines; e++) go_on(c, e, VM_CK_START);
  return g->on;
}

void vm_ck_log_end(vm_core *c) {
  vm_ck_log *g = log_of(c);
  vm_pool_give_array(c->run->pool, &c->al, g->steps, g->cap_steps, sizeof *g->steps);
  vm_pool_give_array(c->run->pool, &c->al, g->updates, g->cap_updates, sizeof *g->updates);
  vm_pool_give_array(c->run->pool, &c->al, g->sets, g->cap_sets, sizeof *g->sets);
  vm_pool_give_array(c->run->pool, &c->al, g->accesses, g->cap_accesses, sizeof *g->accesses);
  /* The judges of `legal` need them still. */
  if (!c->check->legal) vm_ck_twins_end(c);
  g->on = false;
  g->steps = NULL;
  g->updates = g->sets = NULL;
  g->accesses = NULL;
  g->nsteps = g->cap_steps = g->nupdates = g->cap_updates = g->naccesses = g->cap_accesses = 0;
  g->nsets = g->cap_sets = 0;
}

void vm_ck_log_give_up(vm_core *c) {
  if (!log_of(c)->on) return;
  /* With what is known up to here. */
  vm_ck_judge(c);
  vm_ck_log_end(c);
}

/* ---- What is logged ------------------------------------------------------------------------ */

bool vm_ck_log_wait(vm_core *c, unsigned e, unsigned sem, const isa_wait *w, uint32_t value) {
  vm_ck_log *g = log_of(c);
  bool mixed = g->mixed[sem];
  vm_ck_step *s = go_on(c, e, mixed ? VM_CK_HELD : VM_CK_WAIT);
  if (!s) return true;
  s->cond = w->cond;
  s->sem = (uint16_t)sem;
  s->value = value;
  if (mixed) /* What it acquired is only known by the judge. */
    c->check->suspect = true;
  else
    /* Increments in all, with what was taken from it before. */
    s->want = (int64_t)value + (w->cond == ISA_WAIT_gt) + g->taken[sem];
  return !mixed;
}

void vm_ck_log_know(vm_core *c, unsigned e, const vm_ck_release *r) {
  vm_ck_step *s = r->logged ? go_on(c, e, VM_CK_KNOW) : NULL;
  /* An update before the log began says nothing. */
  if (!s) return;
  s->sem = log_of(c)->updates[r->logged - 1].sem;
  s->other = r->logged - 1;
}

void vm_ck_log_drain(vm_core *c, unsigned e, uint32_t to, uint32_t twin) {
  vm_ck_step *s = go_on(c, e, VM_CK_DRAIN);
  if (s) s->other = to, s->want = twin;
}

/* The flights of a sendrecv_gpsimd, which come next: x's number, and below it y's; else 0. */
static int64_t by_gpsimd(const vm_core *c, unsigned x, unsigned y) {
  const isa_insn *in = &vm_ck_code(c, x)->insns[vm_ck_engine(c, x)->pc];
  const uint32_t *issued = c->check->issued;
  if (in->op != ISA_OP_sendrecv_gpsimd) return 0;
  return (int64_t)(((uint64_t)issued[x] + 1) << 32 | (issued[y] + 1));
}

void vm_ck_log_meet(vm_core *c, unsigned x, unsigned y) {
  vm_ck_log *g = log_of(c);
  uint32_t here = g->last[x], there = g->last[y];
  const struct vm_check *k = c->check;
  uint32_t seq[2] = {k->clock[x][vm_ck_comp(x, OF_SEQ)], k->clock[y][vm_ck_comp(y, OF_SEQ)]};
  vm_ck_step *s = go_on(c, x, VM_CK_MEET);
  /* Each knows what the other knew before, and how far its sequencer is. */
  if (s) s->other = there, s->value = seq[1], s->want = by_gpsimd(c, x, y);
  s = go_on(c, y, VM_CK_MEET);
  if (s) s->other = here, s->value = seq[0], s->want = by_gpsimd(c, y, x);
}

void vm_ck_log_enter(vm_core *c, unsigned e, uint32_t other, uint32_t seq) {
  vm_ck_step *s = go_on(c, e, VM_CK_MEET);
  if (s) s->other = other, s->value = seq;
}

void vm_ck_log_left(vm_core *c, unsigned e, unsigned queue, uint32_t count) {
  vm_ck_step *s = go_on(c, e, VM_CK_LEFT);
  if (s) s->sem = (uint16_t)queue, s->other = count;
}

uint32_t vm_ck_log_both(vm_core *c, unsigned e, uint32_t other) {
  vm_ck_step *s = add_step(c, e, VM_CK_QUEUE);
  if (!s) return 0;
  s->other = other;
  return log_of(c)->nsteps - 1;
}

uint32_t vm_ck_log_heard(vm_core *c, uint32_t heard) {
  vm_ck_step *s = new_step(c);
  if (!s) return 0;
  *s = (vm_ck_step){
      .kind = VM_CK_HEARD, .engine = VM_CK_PEER, .other = heard, .at = log_of(c)->at++};
  return log_of(c)->nsteps - 1;
}

uint32_t vm_ck_log_twin(const vm_core *c, unsigned e, uint32_t to) {
  const vm_ck_log *g = &c->check->log;
  uint32_t at = g->last[e];
  /* Only gpsimd meets in its data path. */
  if (!g->on || c->run->n == 1 || e % ISA_NSEQS != ISA_ENG_gpsimd) return 0;
  /* Back along the engine's own steps. */
  for (unsigned i = 0; i < MOST_BACK && g->steps[at].kind != VM_CK_START; i++) {
    const vm_ck_step *s = &g->steps[at];
    if (s->kind == VM_CK_MEET && s->want && (uint64_t)s->want >> 32 <= to) return (uint32_t)s->want;
    at = s->prev;
  }
  return 0;
}

void vm_ck_log_trigger(vm_core *c, unsigned e, unsigned queue, bool other) {
  vm_ck_log *g = log_of(c);
  uint32_t step = g->last[e];
  if (!g->on) return;
  if (other) { /* another engine's transfers came before: its rings keep the order */
    vm_ck_step *s = add_step(c, e, VM_CK_QUEUE);
    if (!s) return;
    s->other = g->queue[queue];
    step = g->nsteps - 1;
  }
  g->queue[queue] = step;
}

void vm_ck_log_host(vm_core *c, unsigned sem) {
  vm_ck_log *g = log_of(c);
  /* The host has set it after somebody has waited: sums are wrong from here on. */
  bool used = false;
  for (uint32_t i = 0; i < g->nsteps; i++)
    used |= g->steps[i].kind == VM_CK_WAIT && g->steps[i].sem == sem;
  /* It does more than count from now on; what was judged so far stands. */
  g->mixed[sem] = g->host[sem] = c->check->suspect = true;
  if (used) vm_ck_log_give_up(c);
}

void vm_ck_log_take(vm_core *c, unsigned sem, unsigned kind, uint32_t value) {
  if (kind == ISA_UPD_dec) log_of(c)->taken[sem]++;
  if (kind == ISA_UPD_sub) log_of(c)->taken[sem] += value;
}

/* When an instruction is complete it has read and written, and so have those before it; when it has
 * read, those before it have read. Weights tell only about weights, and the sequencer only about
 * itself. */
static bool tells_of(unsigned comp, unsigned what) {
  unsigned of = comp % OF_ENGINE;
  return of == OF_DONE || (of == OF_READ && what != OF_DONE) ||
         (of == OF_WEIGHTS && what == OF_WEIGHTS);
}

/* Room for one more of the n updates in *v; false: none exists, and the log has ended. */
static bool room(vm_core *c, vm_ck_signal **v, uint32_t n, uint32_t *cap) {
  /* A bound on memory: the log is then judged as it is. */
  if (n == MOST_UPDATES) {
    vm_ck_log_give_up(c);
    return false;
  }
  if (grow(c, v, n, cap, sizeof **v)) return true;
  no_memory(c);
  return false;
}

static void note_signal(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *from,
                        vm_ck_signal *u) {
  vm_ck_log *g = log_of(c);
  const vm_ck_release *r = &from->r;
  uint32_t step = g->of_update ? g->of_update - 1
                  : r->ring    ? g->queue[(r->ring - c->check->rings) / ISA_NDMA]
                               : g->last[r->engine];
  *u = (vm_ck_signal){.step = step,
                      .at = g->at++,
                      .share = r->share,
                      .twin = r->twin,
                      .twin_share = r->twin_share,
                      .epoch = from->epoch,
                      .pc = r->pc,
                      .delta = from->delta,
                      .total = from->total,
                      .comp = (uint16_t)comp,
                      .ring = r->ring,
                      .sem = (uint16_t)sem,
                      .engine = r->engine,
                      .writes = from->writes};
  /* The sequencer's own step comes with every update. */
  u->own[OF_SEQ] = r->own[OF_SEQ];
  if (r->ring || comp % OF_ENGINE == OF_SEQ) return;
  for (unsigned what = OF_DONE; what <= OF_WEIGHTS; what++)
    /* It says nothing about earlier instructions of a kind that it does not follow. */
    if (tells_of(comp, what)) u->own[what] = from->epoch;
  /* An @read update proves what its operands had to wait for. */
  if (comp % OF_ENGINE == OF_READ) u->own[OF_DONE] = c->check->hazard[r->engine];
}

uint32_t vm_ck_log_update(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *u) {
  vm_ck_log *g = log_of(c);
  if (!g->on || !room(c, &g->updates, g->nupdates, &g->cap_updates)) return 0;
  c->check->suspect |= g->mixed[sem];
  note_signal(c, sem, comp, u, &g->updates[g->nupdates]);
  return ++g->nupdates;
}

void vm_ck_log_set(vm_core *c, unsigned e, unsigned sem, const vm_ck_update *u, bool taken) {
  vm_ck_log *g = log_of(c);
  if (!g->on || !g->mixed[sem] || !room(c, &g->sets, g->nsets, &g->cap_sets)) return;
  c->check->suspect = true;
  vm_ck_signal *s = &g->sets[g->nsets++];
  note_signal(c, sem, vm_ck_comp(e, OF_SEQ), u, s);
  s->taken = taken;
  s->arrived = s->at;
}

void vm_ck_log_arrival(vm_core *c, uint32_t logged) {
  vm_ck_log *g = log_of(c);
  /* Places of arrivals matter only where sums do not decide. */
  if (g->on && logged && g->mixed[g->updates[logged - 1].sem])
    g->updates[logged - 1].arrived = g->at++;
}

bool vm_ck_log_access(vm_core *c, vm_ck_access *a) {
  vm_ck_log *g = log_of(c);
  if (!g->on) return false;
  if (g->naccesses == MOST_ACCESSES) {
    vm_ck_log_give_up(c);
    return false;
  }
  if (!grow(c, &g->accesses, g->naccesses, &g->cap_accesses, sizeof *g->accesses)) {
    no_memory(c);
    return true;
  }
  bool here = a->engine < VM_CK_ENGINES; /* one of another rank has its step */
  /* A share belongs to the step of its trigger. */
  if (here) a->step = a->queue < VM_CK_QUEUES ? g->queue[a->queue] : g->last[a->engine];
  a->at = g->at++;
  a->seq = here ? c->check->clock[a->engine][vm_ck_comp(a->engine, OF_SEQ)] : 0;
  a->logged = g->naccesses + 1;
  g->accesses[g->naccesses++] = *a;
  return true;
}

/* ---- In a saved run ------------------------------------------------------------------------ */

/* The same when the log is read. */
static bool grow_read(vm_saver *s, const vm_core *c, void *v, uint32_t n, uint32_t *cap,
                      size_t size) {
  return !s->reads || grow(c, v, n, cap, size) || vm_saver_no_memory(s);
}

static void walk_step(vm_saver *s, const vm_core *c, uint32_t i, vm_ck_step *t) {
  const vm_ck_log *g = &c->check->log;
  vm_save_u8(s, &t->kind);
  vm_save_u8(s, &t->engine);
  vm_save_u8(s, &t->cond);
  vm_save_u16(s, &t->sem);
  vm_save_u32(s, &t->prev);
  vm_save_u32(s, &t->other);
  vm_save_u32(s, &t->at);
  vm_save_u32(s, &t->seq);
  vm_ck_walk_pc(s, c, t->engine, &t->pc);
  vm_save_i64(s, &t->want);
  vm_save_u32(s, &t->value);
  bool first = t->kind == VM_CK_START, heard = t->kind == VM_CK_HEARD;
  bool ok = t->kind <= VM_CK_HEARD && (first || t->prev < i) && t->at < g->at &&
            (heard ? t->engine == VM_CK_PEER : t->engine < c->check->nengines) &&
            t->sem < (t->kind == VM_CK_LEFT ? c->check->nqueues : c->check->nsems) &&
            (i == 0 || t->at > g->steps[i - 1].at) &&
            /* References to what is read before it: the log is read in order. */
            (!heard || t->other < c->check->peers.nheard) &&
            (t->kind != VM_CK_KNOW || t->other < g->nupdates) &&
            ((t->kind != VM_CK_QUEUE && t->kind != VM_CK_MEET) || t->other < i);
  ok = ok && (t->kind != VM_CK_DRAIN || t->want == 0 || c->check->nengines > ISA_NSEQS);
  vm_saver_need(s, ok, "a step of the log of a check is not valid");
}

static void walk_signal(vm_saver *s, const vm_core *c, vm_ck_signal *u) {
  const struct vm_check *k = c->check;
  vm_save_u32(s, &u->step);
  vm_save_u32(s, &u->at);
  for (unsigned i = 0; i < OF_ENGINE; i++) vm_save_u32(s, &u->own[i]);
  vm_save_u32(s, &u->share);
  vm_save_u32(s, &u->twin_share);
  vm_save_u32(s, &u->epoch);
  vm_save_u32(s, &u->arrived);
  vm_save_i64(s, &u->delta);
  vm_save_i64(s, &u->total);
  vm_save_u16(s, &u->comp);
  vm_save_u16(s, &u->ring);
  vm_save_u16(s, &u->twin);
  vm_save_u16(s, &u->sem);
  vm_save_u8(s, &u->engine);
  vm_save_bool(s, &u->writes);
  vm_save_bool(s, &u->taken);
  vm_ck_walk_pc(s, c, u->engine, &u->pc);
  bool ok = vm_ck_has_engine(c, u->engine) && u->step < k->log.nsteps && u->comp < k->ncomps &&
            u->ring < k->ncomps && u->twin < k->ncomps && (u->ring == 0 || u->ring >= k->rings) &&
            u->sem < k->nsems && u->delta >= -(int64_t)UINT32_MAX && u->delta <= UINT32_MAX &&
            u->arrived < k->log.at && u->at < k->log.at;
  vm_saver_need(s, ok, "an update of the log of a check is not valid");
}

static void walk_logged_access(vm_saver *s, const vm_core *c, uint32_t i, vm_ck_access *a) {
  vm_ck_walk_access(s, c, a);
  vm_save_u32(s, &a->step);
  vm_save_u32(s, &a->at);
  vm_save_u32(s, &a->seq);
  a->logged = i + 1;
  vm_saver_need(s, a->step < c->check->log.nsteps, "an access of the log of a check is not valid");
}

static void walk_numbers(vm_saver *s, struct vm_check *k) {
  vm_ck_log *g = &k->log;
  vm_save_u32(s, &g->at);
  for (unsigned e = 0; e < k->nengines; e++)
    vm_save_below(s, &g->last[e], g->nsteps, "step of a check");
  for (unsigned q = 0; q < k->nqueues; q++)
    vm_save_below(s, &g->queue[q], g->nsteps, "step of a check");
  for (unsigned i = 0; i < k->nsems; i++) {
    vm_save_i64(s, &g->taken[i]);
    vm_save_bool(s, &g->mixed[i]);
    vm_save_bool(s, &g->host[i]);
  }
}

static void walk_log(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_log *g = &k->log;
  uint32_t steps = g->nsteps, updates = g->nupdates, sets = g->nsets, accesses = g->naccesses;
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_save_bool(s, &g->on);
  if (!g->on) {
    /* The reader has begun one. */
    if (s->reads) vm_ck_log_end(c);
    return;
  }
  vm_saver_count(s, &steps, UINT32_MAX / 2, 39, "steps of a check");
  vm_saver_count(s, &updates, UINT32_MAX / 2, 65, "updates of a check");
  vm_saver_count(s, &sets, UINT32_MAX / 2, 65, "updates of a check");
  /* Each engine has a first step. */
  if (!vm_saver_need(s, steps > 0, "the log of a check is empty")) return;
  /* Counts first: steps refer to updates by number. */
  g->nsteps = steps;
  g->nupdates = updates;
  g->nsets = sets;
  vm_save_u32(s, &k->judged);
  walk_numbers(s, k);
  for (uint32_t i = 0; i < steps && !s->failed; i++) {
    if (!grow_read(s, c, &g->steps, i, &g->cap_steps, sizeof *g->steps)) break;
    walk_step(s, c, i, &g->steps[i]);
  }
  for (uint32_t i = 0; i < updates && !s->failed; i++) {
    if (!grow_read(s, c, &g->updates, i, &g->cap_updates, sizeof *g->updates)) break;
    walk_signal(s, c, &g->updates[i]);
  }
  for (uint32_t i = 0; i < sets && !s->failed; i++) {
    if (!grow_read(s, c, &g->sets, i, &g->cap_sets, sizeof *g->sets)) break;
    walk_signal(s, c, &g->sets[i]);
  }
  vm_saver_count(s, &accesses, UINT32_MAX / 2, 60, "accesses of a check");
  for (uint32_t i = 0; i < accesses && !s->failed; i++) {
    if (!grow_read(s, c, &g->accesses, i, &g->cap_accesses, sizeof *g->accesses)) break;
    if (s->reads) g->accesses[i] = (vm_ck_access){0};
    walk_logged_access(s, c, i, &g->accesses[i]);
    if (s->reads) g->naccesses = i + 1;
  }
}

const vm_ck_part vm_ck_part_log = {.walk = walk_log};
