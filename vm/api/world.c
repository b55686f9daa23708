/* Worlds of ranks: a machine for each rank, and the loop that moves them (vm/world). */
#include "world_impl.h"

#include "../engine/cc.h"

#include <string.h>

#define fail soma_world_fail

soma_status soma_world_fail(soma_world *w, soma_status s, const char *fmt, ...) {
  va_list ap;
  w->error.len = 0;
  va_start(ap, fmt);
  isa_buf_vprintf(&w->error, fmt, ap);
  va_end(ap);
  return s;
}

const char *soma_world_error(const soma_world *w) {
  if (!w) return "the world is NULL";
  return w->error.failed ? soma_status_text(SOMA_NOMEM)
                         : isa_buf_str((isa_buf *)(uintptr_t)&w->error);
}

/* ---- Making ------------------------------------------------------------------------------- */

static soma_status choose_algorithm(soma_world *w) {
  const char *name = w->o.algorithm;
  w->algorithm = -1;
  for (int i = 0; name && i < VM_CC_NALGORITHMS; i++)
    if (strcmp(vm_cc_algorithm_names[i], name) == 0) w->algorithm = i;
  if (!name || w->algorithm >= 0 || strcmp(name, "auto") == 0) return SOMA_OK;
  fail(w, SOMA_ARG, "unknown algorithm '%s'; there are: auto, ", name);
  for (int i = 0; i < VM_CC_NALGORITHMS; i++)
    isa_buf_printf(&w->error, i ? ", %s" : "%s", vm_cc_algorithm_names[i]);
  return SOMA_ARG;
}

const char *soma_not_for_ranks(const soma_options *o) {
  if (o->schedule == SOMA_SCHEDULE_ALL)
    return "all schedules of a world of ranks are not built: their judge has the steps of one run; "
           "other seeds try other timings";
  return NULL;
}

static soma_status check_machine(soma_world *w, const soma_options *o) {
  enum { MOST_CHECKED = 256 }; /* each rank keeps what each other one may send it */
  const char *what = soma_not_for_ranks(o);
  if (o->checks && w->o.ranks > MOST_CHECKED)
    return fail(w, SOMA_UNBUILT, "checks of a world of %u ranks: at most %d can be checked",
                w->o.ranks, MOST_CHECKED);
  return what ? fail(w, SOMA_UNBUILT, "%s", what) : SOMA_OK;
}

static soma_status check_options(soma_world *w) {
  const soma_world_options *x = &w->o;
  if (x->ranks < 1 || x->ranks > SOMA_MOST_RANKS)
    return fail(w, SOMA_ARG, "ranks is %u; it is 1 to %d", x->ranks, SOMA_MOST_RANKS);
  if (x->lnc > 2) return fail(w, SOMA_ARG, "lnc is %u; it is 1 or 2", x->lnc);
  if (x->threads > VM_WORK_THREADS)
    return fail(w, SOMA_ARG, "threads is %u; it is 0 to %d", x->threads, VM_WORK_THREADS);
  return SOMA_OK;
}

/* The ranks whose cores share a stack of HBM. */
static uint32_t ranks_of_stack(const soma_world *w) {
  const isa_target *t = &w->target;
  uint32_t n = t->cores / t->hbm_stacks / w->o.lnc;
  return n ? n : 1;
}

void soma_world_leave_ranks(soma_world *w) {
  if (!w->open) return;
  w->time = vm_world_time(&w->w);
  w->hash = vm_world_hash(&w->w);
  w->windows = w->w.windows;
  soma_world_keep_links(w);
  vm_world_close(&w->w);
  w->open = false;
}

/* Makes m the machine of rank r. */
static soma_status join_machine(soma_world *w, uint32_t r, soma_machine *m) {
  uint32_t first = r / ranks_of_stack(w) * ranks_of_stack(w);
  rank *x = &w->ranks[r];
  if (m->world || (m->run && !m->run->run.ended))
    return fail(w, SOMA_BUSY, "the machine of rank %u %s", r,
                m->world ? "is a rank already" : "has a run that has not ended");
  soma_status s = m->away ? soma_bring_memories(m) : soma_fit_target(m, &w->target);
  if (s != SOMA_OK) return fail(w, s, "rank %u: %s", r, soma_error(m));
  if ((s = check_machine(w, &m->o)) != SOMA_OK) return s;
  x->m = m;
  m->world = w;
  vm_pool_lend(m->pool, w->reserve);
  /* Threads move whole ranks: one rank has one of them. */
  x->threads = m->threads.threads;
  m->threads.threads = 1;
  if (first == r) return s;
  m->hbm = w->ranks[first].m->hbm;
  m->stack = w->ranks[first].m->stack;
  return s;
}

/* HBM of a rank is one stack, unless the caller allows less. */
static soma_status add_machine(soma_world *w, uint32_t r, const soma_options *given) {
  char text[256] = "";
  const isa_target *t = &w->target;
  uint64_t stack = ((uint64_t)t->hbm_gib << 30) / t->hbm_stacks;
  soma_options o = *given;
  soma_machine *m;
  o.target = t->name;
  o.threads = 1;
  o.error = text;
  o.error_size = sizeof text;
  if (!o.max_hbm_bytes || o.max_hbm_bytes > stack) o.max_hbm_bytes = stack;
  soma_status s = soma_machine_new(&o, &m);
  if (s != SOMA_OK) return fail(w, s, "%s", text[0] ? text : soma_status_text(s));
  s = join_machine(w, r, m);
  if (s != SOMA_OK) soma_machine_free(m);
  return s;
}

static soma_status add_machines(soma_world *w, const soma_world_options *o,
                                const soma_options *machine) {
  enum { CORE = 5 << 18 }; /* host bytes of its state, about */
  soma_status s = SOMA_OK;
  w->reserve = vm_reserve_new((uint64_t)w->o.ranks * w->o.lnc * CORE);
  for (uint32_t r = 0; r < w->o.ranks && s == SOMA_OK; r++) {
    w->ranks[r].borrowed = o->machines != NULL;
    s = o->machines ? join_machine(w, r, o->machines[r]) : add_machine(w, r, machine);
  }
  return s;
}

/* The machine of a rank leaves the world. */
static void leave_machine(rank *x) {
  soma_machine *m = x->m;
  if (!m) return;
  x->m = NULL;
  m->world = NULL;
  m->hbm = &m->own_hbm;
  m->stack = &m->own_stack;
  m->threads.threads = x->threads;
  if (!x->borrowed) soma_machine_free(m);
}

/* Its machine is gone, and with it the stack that others may share. */
void soma_world_lose(soma_world *w, soma_machine *m) {
  soma_world_leave_ranks(w);
  /* From the last: those that share the stack of an earlier rank go before it. */
  for (uint32_t r = w->o.ranks; r-- > 0;)
    if (w->ranks[r].m && w->ranks[r].m->stack == m->stack) leave_machine(&w->ranks[r]);
}

static soma_status tell(const soma_world_options *o, soma_status s, const char *text) {
  return soma_tell(o->error, o->error_size, s, text);
}

/* Copies what the caller has of the options. */
static bool read_options(const soma_world_options *from, soma_world_options *o) {
  enum { LEAST = offsetof(soma_world_options, machine) };
  memset(o, 0, sizeof *o);
  if (!from || from->size < LEAST || from->size > sizeof *o) return false;
  memcpy(o, from, from->size);
  return true;
}

soma_status soma_world_new(const soma_world_options *options, soma_world **out) {
  const soma_options defaults = SOMA_OPTIONS_INIT;
  soma_world_options o;
  if (!out) return SOMA_ARG;
  *out = NULL;
  if (!read_options(options, &o)) return SOMA_ARG;
  const soma_options *mo = o.machine ? o.machine : &defaults;
  isa_alloc al = mo->alloc ? (isa_alloc){mo->alloc, mo->alloc_ud} : isa_alloc_default();
  soma_world *w = isa_zalloc(&al, sizeof *w);
  if (!w) return tell(&o, SOMA_NOMEM, soma_status_text(SOMA_NOMEM));
  w->al = al;
  w->o = o;
  w->o.error = NULL;
  w->o.machine = NULL;
  isa_buf_init(&w->error, &w->al);
  w->o.machines = NULL;
  if (o.transport)
    w->far = (vm_transport){o.transport->rank, o.transport->size, o.transport->ud,
                            o.transport->share, o.transport->exchange};
  w->o.transport = NULL;
  soma_status s = check_options(w);
  if (s == SOMA_OK) s = choose_algorithm(w);
  w->o.algorithm = NULL;
  if (!w->o.lnc) w->o.lnc = 1;
  if (s == SOMA_OK) s = soma_world_choose(w, o.machines ? soma_target(o.machines[0]) : mo->target);
  vm_work_open(&w->threads, o.threads, sizeof(vm_workspace));
  if (s == SOMA_OK && !(w->ranks = isa_zalloc(&al, o.ranks * sizeof *w->ranks))) s = SOMA_NOMEM;
  if (s == SOMA_OK) s = add_machines(w, &o, mo);
  tell(&o, s, s == SOMA_OK ? "" : w->error.len ? soma_world_error(w) : soma_status_text(s));
  if (s != SOMA_OK)
    soma_world_free(w);
  else
    *out = w;
  return s;
}

void soma_world_leave(soma_world *w, const soma_run *run) {
  soma_world_leave_ranks(w);
  for (uint32_t r = 0; r < w->o.ranks; r++)
    if (w->ranks[r].run == run) w->ranks[r].run = NULL;
}

void soma_world_drop_run(rank *x) {
  soma_run *run = x->run;
  x->run = NULL;
  if (!x->taken) soma_run_free(run);
  soma_program_free(x->p);
  soma_program_free(x->started);
  x->p = x->started = NULL;
  x->taken = false;
}

void soma_world_free(soma_world *w) {
  if (!w || w->running) return;
  soma_world_leave_ranks(w);
  for (uint32_t r = w->ranks ? w->o.ranks : 0; r-- > 0;) {
    rank *x = &w->ranks[r];
    soma_world_drop_run(x);
    soma_program_free(x->given);
    leave_machine(x); /* those that share another's HBM come first */
  }
  if (w->ranks) isa_free(&w->al, w->ranks, w->o.ranks * sizeof *w->ranks);
  soma_forget_findings(w);
  vm_plan_free(w->plan);
  soma_world_free_links(w);
  vm_reserve_drop(w->reserve);
  vm_work_close(&w->threads);
  isa_buf_free(&w->error);
  isa_alloc al = w->al;
  isa_free(&al, w, sizeof *w);
}

/* ---- Programs and starts ------------------------------------------------------------------ */

static soma_status need_rank(soma_world *w, uint32_t r) {
  if (r < w->o.ranks) return SOMA_OK;
  return fail(w, SOMA_ARG, "rank %u does not exist: the world has %u ranks", r, w->o.ranks);
}

const char *soma_world_instance(const soma_world *w) { return w ? w->o.instance : NULL; }
const char *soma_world_trust(const soma_world *w) {
  return w ? isa_instance_trust(w->instance) : NULL;
}
uint32_t soma_world_ranks(const soma_world *w) { return w ? w->o.ranks : 0; }
soma_machine *soma_world_machine(soma_world *w, uint32_t r) {
  return w && r < w->o.ranks ? w->ranks[r].m : NULL;
}

soma_status soma_world_load(soma_world *w, uint32_t r, soma_program *p) {
  if (!w) return SOMA_ARG;
  if (!p) return fail(w, SOMA_ARG, "p is NULL");
  if (need_rank(w, r) != SOMA_OK) return SOMA_ARG;
  if (!isa_target_same(p->p->target, &w->target))
    return fail(w, SOMA_ARG, "the program of rank %u is for %s, but %s is of %s", r,
                p->p->target->name, w->instance->name, w->target.name);
  if (p->p->ncores != w->o.lnc)
    return fail(w, SOMA_ARG, "the program of rank %u is for %u core%s, but lnc is %u", r,
                p->p->ncores, p->p->ncores == 1 ? "" : "s", w->o.lnc);
  p->refs++;
  soma_program_free(w->ranks[r].given);
  w->ranks[r].given = p;
  return SOMA_OK;
}

bool soma_world_check(const soma_machine *m, const isa_program *p, isa_place *at, isa_error *e) {
  *at = (isa_place){.core = -1, .engine = -1};
  return !p->npeers || m->world ||
         isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                  "the program sends to other ranks of a world: start one with `soma --ranks N "
                  "PROGRAM.s` or soma.world{ranks = N}");
}

/* What a rank runs: its program, with those of its CC sequencers if it has collectives. */
static soma_status plan_rank(soma_world *w, vm_plan *p, uint32_t r, isa_error *e) {
  rank *x = &w->ranks[r];
  x->started = x->given;
  x->started->refs++;
  if (vm_plan_rows(p, r) == 0) {
    x->p = x->given;
    x->p->refs++;
  } else {
    isa_program *planned = vm_plan_program(p, r, e);
    if (!planned) return (soma_status)e->status;
    if (!(x->p = soma_program_of(&w->al, planned))) return SOMA_NOMEM;
    /* Those of ranks that share a program differ in places and peers alone: one is checked. */
    x->p->planned = r > 0 && w->ranks[r - 1].given == x->given;
  }
  /* What has been bound to the user's program is bound to the planned one. */
  soma_rebind(x->m, x->given, x->p);
  return SOMA_OK;
}

/* A run without values has no metadata: it cannot know what these move. */
static soma_status need_values(soma_world *w, uint32_t r) {
  const isa_program *p = w->ranks[r].given->p;
  for (uint32_t c = 0; c < p->ncores && w->ranks[r].m->o.timing_only; c++)
    for (unsigned g = 0; g < ISA_NENGINES; g++)
      for (uint32_t pc = 0; pc < p->cores[c].code[g].n; pc++) {
        unsigned op = p->cores[c].code[g].insns[pc].op;
        if (isa_ops[op].form == ISA_FORM_COLLECTIVE_V)
          return fail(w, SOMA_UNBUILT,
                      "rank %u: %s: metadata says how much it moves, and timing_only has no values",
                      r, isa_ops[op].name);
      }
  return SOMA_OK;
}

/* The planner takes programs that keep the rules. */
static soma_status check_programs(soma_world *w) {
  const soma_program *last = NULL;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *x = &w->ranks[r];
    /* Ranks of one program stand together. */
    if (x->given == last) continue;
    last = x->given;
    soma_status s = soma_run_check(x->m, last);
    if (s != SOMA_OK) return fail(w, s, "rank %u: %s", r, soma_error(x->m));
    if ((s = need_values(w, r)) != SOMA_OK) return s;
  }
  return SOMA_OK;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

soma_status soma_world_plan(soma_world *w, const uint32_t *cost) {
  isa_error e = {.status = ISA_NOMEM, .text = "out of memory"};
  soma_status s = check_programs(w);
  if (s != SOMA_OK) return s;
  const isa_program **programs = isa_zalloc(&w->al, w->o.ranks * sizeof *programs);
  for (uint32_t r = 0; programs && r < w->o.ranks; r++) programs[r] = w->ranks[r].given->p;
  const isa_target *t = &w->target;
  vm_plan_options o = {.programs = programs,
                       .ranks = w->o.ranks,
                       .algorithm = w->algorithm,
                       .rings = least(cost[VM_CC_RINGS], t->dma),
                       .link_rings = least(cost[VM_CC_LINK_RINGS], t->dma),
                       .of_device = t->cores / w->o.lnc,
                       .instance = w->instance};
  vm_plan_free(w->plan);
  w->plan = programs ? vm_plan_new(&w->al, &o, &e) : NULL;
  s = w->plan ? SOMA_OK : (soma_status)e.status;
  for (uint32_t r = 0; r < w->o.ranks && s == SOMA_OK; r++) s = plan_rank(w, w->plan, r, &e);
  isa_free(&w->al, programs, w->o.ranks * sizeof *programs);
  return s == SOMA_OK ? s : fail(w, s, "%s", e.text);
}

static soma_status start_rank(soma_world *w, uint32_t r) {
  rank *x = &w->ranks[r];
  soma_status s = soma_run_start(x->m, x->p, &x->run);
  return s == SOMA_OK ? s : fail(w, s, "rank %u: %s", r, soma_error(x->m));
}

soma_status soma_world_connect(soma_world *w, bool begins) {
  isa_error e = {0};
  soma_status s = SOMA_OK;
  vm_run **runs = isa_zalloc(&w->al, w->o.ranks * sizeof *runs);
  if (!runs) return fail(w, SOMA_NOMEM, "out of memory");
  for (uint32_t r = 0; r < w->o.ranks; r++) runs[r] = &w->ranks[r].run->run;
  memset(&w->w, 0, sizeof w->w);
  w->w.grid = w->o.window;
  soma_world_use_links(w);
  /* In a saved world they have had their effect. */
  if (!begins) w->w.delays = NULL;
  w->w.threads = &w->threads;
  w->w.interrupt = &w->interrupted;
  w->w.seconds = w->ranks[0].m->o.max_seconds;
  w->w.cpu_seconds = w->ranks[0].m->o.max_cpu_seconds;
  /* An allocator of the user's need not be safe to call from several threads. */
  for (uint32_t r = 0; r < w->o.ranks; r++) w->w.alone |= w->ranks[r].m->o.alloc != NULL;
  s = (soma_status)vm_world_open(&w->w, &w->al, runs, w->o.ranks, &e);
  w->open = s == SOMA_OK;
  for (uint32_t r = 0; r < w->o.ranks && s == SOMA_OK && begins; r++) /* they look at all ranks */
    if (!soma_start_checks(w->ranks[r].m, runs[r])) s = SOMA_NOMEM;
  isa_free(&w->al, runs, w->o.ranks * sizeof *runs);
  return s == SOMA_OK ? s : fail(w, s, "%s", e.text[0] ? e.text : soma_status_text(s));
}

soma_status soma_world_ready(soma_world *w, bool programs) {
  if (w->running) return fail(w, SOMA_BUSY, "soma_world_until is at work");
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    const rank *x = &w->ranks[r];
    if (!x->m) return fail(w, SOMA_ARG, "the machine of rank %u has been freed", r);
    if (programs && !x->given) return fail(w, SOMA_ARG, "rank %u has no program", r);
    if (x->run && !x->taken && !x->run->run.ended)
      return fail(w, SOMA_BUSY, "the ranks of the world before have not ended");
  }
  return SOMA_OK;
}

soma_status soma_world_start(soma_world *w) {
  if (!w) return SOMA_ARG;
  soma_status s = soma_world_ready(w, true);
  if (s != SOMA_OK) return s;
  soma_world_leave_ranks(w);
  soma_forget_findings(w);
  w->interrupted = 0;
  for (uint32_t r = 0; r < w->o.ranks; r++) soma_world_drop_run(&w->ranks[r]);
  s = soma_world_plan(w, w->ranks[0].m->costs.v[w->instance->target->gen - ISA_GEN2]);
  for (uint32_t r = 0; r < w->o.ranks && s == SOMA_OK; r++) s = start_rank(w, r);
  if (s == SOMA_OK) s = soma_world_connect(w, true);
  for (uint32_t r = 0; r < w->o.ranks && s != SOMA_OK; r++) soma_world_drop_run(&w->ranks[r]);
  return s;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* g: NULL, by windows. */
static soma_status go(soma_world *w, const vm_world_goal *g, soma_time time) {
  soma_status s = (soma_status)(g ? vm_world_step(&w->w, g, time) : vm_world_go(&w->w, time));
  /* The host's speed cannot be repeated. */
  bool of_host = s == SOMA_LIMIT && (w->w.seconds > 0 || w->w.cpu_seconds > 0);
  if (s != SOMA_OK) fail(w, s, "%s", isa_buf_str(&w->w.report));
  if (!w->w.far) return s;
  w->again = s != SOMA_OK && s != SOMA_STOPPED && !of_host;
  return s == SOMA_OK ? soma_world_gather(w) : s;
}

int soma_world_again(soma_world *w) {
  if (!w || !w->again) return 0;
  w->again = false;
  w->whole = true;
  return 1;
}

void soma_world_traffic(const soma_world *w, uint64_t *calls, uint64_t *bytes) {
  if (calls) *calls = !w ? 0 : w->open ? w->w.rounds : w->calls;
  if (bytes) *bytes = !w ? 0 : w->open ? w->w.came : w->came;
}

/* All together, when nothing more can be found. */
static soma_status tell_findings(soma_world *w, soma_status s) {
  bool all = true;
  for (uint32_t r = 0; r < w->o.ranks; r++) all &= w->ranks[r].run->run.ended;
  if (!all && s == SOMA_OK) return s;
  soma_world_finding first;
  if (!soma_merge_findings(w)) return fail(w, SOMA_NOMEM, "no memory for findings");
  uint32_t n = soma_world_findings(w);
  if (s != SOMA_CHECK || soma_world_finding_at(w, 0, &first, sizeof first) != SOMA_OK) return s;
  fail(w, s, "%.*s", (int)strlen(first.first.text) - 1, first.first.text);
  if (n > 1) isa_buf_printf(&w->error, "\n(the first of %u findings)", n);
  return s;
}

static soma_status can_move(soma_world *w) {
  if (w->running) return fail(w, SOMA_BUSY, "soma_world_until is at work");
  return w->open ? SOMA_OK : fail(w, SOMA_ARG, "soma_world_start has not started the ranks");
}

static soma_status move(soma_world *w, const vm_world_goal *g, soma_time time) {
  w->running = true;
  for (uint32_t r = 0; r < w->o.ranks; r++) w->ranks[r].m->running = true;
  /* Only a run to its end is spread: on the way all would have to be sent at each stop. */
  soma_status s = time == SOMA_TIME_END && !g ? soma_world_meet(w) : SOMA_OK;
  if (s == SOMA_OK && !w->w.far) s = soma_world_bring_all(w);
  if (s == SOMA_OK) s = go(w, g, time);
  for (uint32_t r = 0; r < w->o.ranks; r++) w->ranks[r].m->running = false;
  w->running = false;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *x = &w->ranks[r];
    if (x->run->run.ended && s != SOMA_STOPPED) soma_release(x->run);
  }
  return tell_findings(w, s);
}

/* Whether a rank has stops or a log: what they need is told in order, in one thread. */
static bool is_debugged(const soma_world *w) {
  bool any = false;
  for (uint32_t r = 0; r < w->o.ranks; r++) any |= w->ranks[r].run->run.cores[0]->debug != NULL;
  return any;
}

soma_status soma_world_until(soma_world *w, soma_time time) {
  if (!w) return SOMA_ARG;
  soma_status s = can_move(w);
  if (s != SOMA_OK) return s;
  return move(w, is_debugged(w) ? &(vm_world_goal){.what = VM_UNTIL_TIME} : NULL, time);
}

soma_status soma_world_step(soma_world *w, soma_until what, uint32_t r, unsigned core,
                            soma_engine engine, soma_time time) {
  if (!w) return SOMA_ARG;
  soma_status s = can_move(w);
  if (s != SOMA_OK) return s;
  if ((unsigned)what > SOMA_TIME)
    return fail(w, SOMA_ARG, "soma_world_step: what is %u; it is at most %d", (unsigned)what,
                SOMA_TIME);
  if (what == SOMA_ISSUE) {
    if (need_rank(w, r) != SOMA_OK) return SOMA_ARG;
    const vm_run *run = &w->ranks[r].run->run;
    if (core >= run->n || (unsigned)engine >= run->cores[core]->nseqs)
      return fail(w, SOMA_ARG, "core %u of rank %u has no engine %d", core, r, (int)engine);
  }
  if (w->w.far)
    return fail(w, SOMA_UNBUILT, "a world that several processes move cannot be stepped");
  vm_world_goal g = {(vm_until)what, r, core, (unsigned)engine};
  return move(w, &g, what == SOMA_TIME ? time : SOMA_TIME_END);
}

soma_run *soma_world_run(soma_world *w, uint32_t r) {
  if (!w || r >= w->o.ranks) return NULL;
  w->ranks[r].taken = w->ranks[r].run != NULL;
  return w->ranks[r].run;
}

soma_program *soma_world_program(soma_world *w, uint32_t r) {
  soma_program *p = w && r < w->o.ranks ? w->ranks[r].p : NULL;
  if (p) p->refs++;
  return p;
}

soma_time soma_world_time(const soma_world *w) {
  return !w ? 0 : w->open ? vm_world_time(&w->w) : w->time;
}
uint64_t soma_world_hash(const soma_world *w) {
  return !w ? 0 : w->open ? vm_world_hash(&w->w) : w->hash;
}
uint64_t soma_world_windows(const soma_world *w) {
  return !w ? 0 : w->open ? w->w.windows : w->windows;
}
void soma_world_interrupt(soma_world *w) {
  if (w) w->interrupted = 1;
}

/* ---- Collectives -------------------------------------------------------------------------- */

/* The i-th collective of a rank and, in *core, its core; a collective of both cores counts once.
 * NULL: the rank has not so many. */
static const vm_cc_done *done_at(const soma_world *w, uint32_t r, uint32_t i, unsigned *core) {
  const vm_run *run = w && r < w->o.ranks && w->ranks[r].run ? &w->ranks[r].run->run : NULL;
  for (unsigned k = 0; run && k < run->n; k++) {
    const vm_core *c = run->cores[k];
    for (uint32_t n = 0; c->ccs && n < c->ccs->ndone; n++) {
      const vm_cc_done *d = &c->ccs->done[n];
      /* It has been counted on core 0. */
      if (k && isa_collective_of(&c->code->code[d->engine].insns[d->pc]).both) continue;
      *core = k;
      if (i-- == 0) return d;
    }
  }
  return NULL;
}

uint32_t soma_world_collectives(const soma_world *w, uint32_t r) {
  uint32_t n = 0;
  unsigned core;
  while (done_at(w, r, n, &core)) n++;
  return n;
}

static void put_rates(soma_collective *x, vm_cc_op op) {
  double ns = (double)(x->end - x->issued) / (double)VM_NS, n = x->ranks;
  /* As nccl-tests defines busbw, of n ranks. */
  double part = op == VM_CC_PERMUTE ? 1 : (op == VM_CC_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
  x->algbw = ns > 0 ? (double)x->bytes / ns : 0;
  x->busbw = x->algbw * part;
}

soma_status soma_world_collective(const soma_world *w, uint32_t r, uint32_t i,
                                  soma_collective *out) {
  unsigned core;
  const vm_cc_done *d = out ? done_at(w, r, i, &core) : NULL;
  if (!d) return SOMA_ARG;
  const isa_program *p = w->ranks[r].p->p;
  const isa_code *code = &p->cores[core].code[d->engine];
  *out = (soma_collective){.op = isa_ops[code->insns[d->pc].op].name,
                           .algorithm = "section",
                           .pc = d->pc,
                           .core = core,
                           .engine = (soma_engine)d->engine,
                           .issued = d->issued,
                           .end = d->ended};
  if (code->lines && code->lines[d->pc].file) {
    out->file = p->files[code->lines[d->pc].file - 1];
    out->line = code->lines[d->pc].line;
  }
  vm_plan_row row;
  if (!vm_plan_row_at(w->plan, r, (isa_place){(int)core, d->engine, d->pc}, &row)) return SOMA_OK;
  out->algorithm = vm_cc_algorithm_names[row.shape.algorithm];
  out->ranks = row.shape.n;
  out->bytes = row.bytes;
  put_rates(out, row.shape.op);
  return SOMA_OK;
}
