/* What the log shows: pairs of accesses that nothing orders, with one finding for each cause. When
 * a pair is found, the order that its fix would make is assumed; what that orders as well needs no
 * finding of its own. The surest causes come first. */
#include "check.h"
#include "judge.h"
#include "trial.h"

#include <string.h>

/* ---- Pairs --------------------------------------------------------------------------------- */

/* One for each two places, whichever comes first. */
static uint64_t key_of(const vm_ck_access *a, const vm_ck_access *b) {
  uint64_t x = place(a), y = place(b);
  return x < y ? x << 32 | y : y << 32 | x;
}

/* True if it is the first of its two places. */
static bool add_pair(struct vm_ck_judge *j, const vm_ck_access *old, const vm_ck_access *a) {
  uint64_t key = key_of(old, a);
  /* Few causes: a table would not pay. */
  uint32_t i = 0;
  while (i < j->ncauses && j->causes[i].key != key) i++;
  /* Beyond these limits nothing more is noted: what was found stands for it. */
  if (j->npairs == MOST_PAIRS || i == MOST_CAUSES) return false;
  bool first = i == j->ncauses;
  if (first) j->causes[j->ncauses++] = (cause){.key = key};
  j->pairs[j->npairs++] = (pair){old->logged, a->logged, i};
  return first;
}

/* The clocks of the run itself; NULL if out of memory. */
static const vm_ck_must *run_of(vm_core *c, struct vm_ck_judge *j) {
  /* Only made if something needs it. */
  if (!j->run && (j->run = vm_ck_must_new(c, true)) != NULL && !vm_ck_must_solve(c, j->run))
    j->failed = true;
  j->failed = j->failed || !j->run;
  return j->failed ? NULL : j->run;
}

/* Only the last access of one source to the same bytes is compared with what comes later:
 * those before it, from other places, want the same order, back to the one that is meant. */
static void add_earlier(vm_core *c, struct vm_ck_judge *j, const vm_ck_access *old,
                        const vm_ck_access *a) {
  uint32_t pc = old->pc;
  const vm_ck_must *run = run_of(c, j);
  for (uint32_t i = old->logged - 1; run && i-- > 0 && j->earlier < MOST_EARLIER; j->earlier++) {
    const vm_ck_access *x = access_of(c, i + 1);
    /* Each instruction once: its rounds want one order. */
    if (x->comp != old->comp || x->engine != old->engine || x->pc == pc ||
        x->writes != old->writes || x->handed != old->handed || !vm_ck_race_meet(x, old) ||
        !vm_ck_race_meet(x, a))
      continue;
    if (vm_ck_race_known(vm_ck_must_clock(run, a->step), x, a) ||
        vm_ck_race_known(vm_ck_must_clock(j->m, a->step), x, a) ||
        vm_ck_race_known(vm_ck_must_clock(j->m, x->step), a, x))
      /* From here back all is in order. */
      return;
    pc = x->pc;
    if (!vm_ck_twins_cover(c, j->twins, x, a)) add_pair(j, x, a);
  }
}

bool vm_ck_judge_before(const vm_core *c, const vm_ck_access *x, const vm_ck_access *y) {
  return x->logged < y->logged &&
         vm_ck_race_ordered(c, vm_ck_must_clock(c->check->judge->m, y->step), x, y);
}

uint32_t vm_ck_judge_twins(const vm_core *c, const vm_ck_access *a) {
  return c->check->judge ? vm_ck_twins_group(c->check->judge->twins, a) : 0;
}

static void put_access(const vm_core *c, const vm_ck_access *a, isa_buf *out);
static void put_advice(const vm_core *c, const vm_ck_advice *how, vm_finding *f);
static void begin_text(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                       vm_finding *f);

void vm_ck_judge_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a) {
  struct vm_ck_judge *j = c->check->judge;
  if (j && old->logged && a->logged) {
    /* Never at once, whatever comes first: no order is needed. */
    if (vm_ck_mixed_apart(vm_ck_must_mixed(j->m), j->m, old, a)) return;
    /* Twins write the same. */
    if (vm_ck_twins_cover(c, j->twins, old, a)) return;
    if (add_pair(j, old, a)) add_earlier(c, j, old, a);
    return;
  }
  /* No log: what is known now has to do. */
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, a->engine, a->pc, old->engine, old->pc);
  if (!f) return;
  unsigned sem;
  int64_t value, waited;
  vm_ck_advice how = {.first = old, .second = a};
  begin_text(c, old, a, f);
  /* An engine's own transfer after its own data path. */
  how.drain = old->comp < c->check->rings && a->queue < VM_CK_QUEUES && old->engine == a->engine;
  how.signals = vm_ck_clocks_signal(c, old->comp, old->epoch, &sem, &value) && value > 0 &&
                a->engine < VM_CK_ENGINES && (sem >= ISA_NSEMS) == (a->engine >= ISA_NSEQS);
  if (how.signals) {
    waited = vm_ck_clocks_waited(c, a->engine, sem);
    how = (vm_ck_advice){.first = old,
                         .second = a,
                         .signals = true,
                         .value = waited >= value ? vm_ck_clocks_total(c, sem) : value,
                         /* All of it, if the wait already asks for that much. */
                         .waits = waited >= 0,
                         .waited = waited,
                         .waited_pc = a->pc,
                         .sem = (uint16_t)sem};
  }
  how.engine = a->engine;
  how.pc = a->pc;
  /* An index that names a row twice needs no wait. */
  if (!(a->transfer && a->transfer == old->transfer)) put_advice(c, &how, f);
}

void vm_ck_judge_floor(const vm_core *c, uint32_t *floor) {
  const struct vm_check *k = c->check;
  const struct vm_ck_judge *j = k->judge;
  const vm_ck_log *g = &k->log;
  uint32_t now[VM_CK_ENGINES] = {0};
  for (unsigned e = 0; e < c->check->nengines; e++) now[e] = UINT32_MAX;
  /* The last step of each engine at this place of the replay. */
  for (uint32_t i = 0; i < g->nsteps && g->steps[i].at <= j->at; i++)
    if (g->steps[i].kind != VM_CK_QUEUE && g->steps[i].engine < VM_CK_ENGINES)
      now[g->steps[i].engine] = i;
  memset(floor, 0xff, k->ncomps * sizeof *floor);
  for (unsigned e = 0; e < c->check->nengines; e++) {
    if (j->until[e] <= j->at || now[e] == UINT32_MAX) continue;
    const uint32_t *clock = vm_ck_must_clock(j->m, now[e]);
    for (uint32_t i = 0; i < k->ncomps; i++)
      if (clock[i] < floor[i]) floor[i] = clock[i];
  }
}

static void replay(vm_core *c, struct vm_ck_judge *j) {
  struct vm_check *k = c->check;
  vm_ck_log *g = &k->log;
  vm_ck_race_forget(c);
  k->prune_at = 1024;
  /* When each engine has made its last access. */
  for (uint32_t i = 0; i < g->naccesses; i++) j->until[g->accesses[i].engine] = g->accesses[i].at;
  for (uint32_t i = 0; i < g->naccesses; i++) {
    /* A copy: the replay uses the state of the live check anew. */
    vm_ck_access a = g->accesses[i];
    k->view = vm_ck_must_clock(j->m, a.step);
    j->at = a.at;
    vm_ck_race_look(c, &a);
  }
  k->view = NULL;
}

/* ---- Findings ------------------------------------------------------------------------------ */

static uint32_t round_of(const vm_core *c, const vm_ck_access *a) {
  const struct vm_ck_judge *j = c->check->judge;
  /* Only in a loop. */
  return j && a->logged && j->runs[a->logged - 1] > 1 ? j->rounds[a->logged - 1] : 0;
}

static const char *does(const vm_ck_access *a) {
  return a->writes ? "writes" : a->handed ? "hands over" : "reads";
}

static bool is_pipe(const vm_core *c, const vm_ck_access *a) {
  return c->check->regions[a->region].space == 0;
}

static void put_access(const vm_core *c, const vm_ck_access *a, isa_buf *out) {
  vm_ck_put_round(c, a->engine, a->pc, round_of(c, a), a->time, out);
  if (is_pipe(c, a)) return;
  isa_buf_printf(out, "\n    %s ", does(a));
  vm_ck_put_bytes(c, &c->check->regions[a->region], a, out);
  if (a->queue < VM_CK_QUEUES) isa_buf_printf(out, ", ring %u", a->ring);
}

/* Elements of one transfer that meet in different rings, by an index that names a row twice. */
static void put_twice(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                      isa_buf *out) {
  vm_ck_put_who(c, a, out);
  isa_buf_printf(out, " %s bytes in ring %u that its ring %u %s, and nothing orders the two",
                 a->writes ? "writes" : "reads", a->ring, old->ring,
                 old->writes ? "writes" : "reads");
  put_access(c, old, out);
  put_access(c, a, out);
  isa_buf_puts(out,
               "\n  fix: let the index vector name each row only once, or use a queue of one ring");
}

static void put_pipe(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                     isa_buf *out) {
  vm_ck_put_who(c, a, out);
  isa_buf_puts(out, " and ");
  vm_ck_put_who(c, old, out);
  isa_buf_printf(out,
                 " use pipe %d, and nothing orders the two: the other core meets whichever "
                 "comes first",
                 (int)a->set.start);
}

static void put_advice(const vm_core *c, const vm_ck_advice *how, vm_finding *f) {
  vm_ck_put_advice(c, how, f);
  if (is_pipe(c, how->first)) isa_buf_puts(&f->text, "; or one of the two takes another pipe");
}

static void begin_text(const vm_core *c, const vm_ck_access *old, const vm_ck_access *a,
                       vm_finding *f) {
  f->other_time = old->time;
  f->memory = (uint16_t)(a->region + 1);
  vm_ck_put_place(c, a->engine, a->pc, &f->text);
  isa_buf_puts(&f->text, ": race: ");
  if (a->transfer && a->transfer == old->transfer) {
    put_twice(c, old, a, &f->text);
    return;
  }
  if (is_pipe(c, a)) {
    put_pipe(c, old, a, &f->text);
  } else {
    vm_ck_put_who(c, a, &f->text);
    isa_buf_printf(&f->text, " %s what ", does(a));
    vm_ck_put_who(c, old, &f->text);
    isa_buf_printf(&f->text, " %s, and nothing orders the two%s", old->writes ? "writes" : "reads",
                   a->queue < VM_CK_QUEUES && a->queue == old->queue
                       ? ": each ring of a queue runs by itself"
                       : "");
  }
  put_access(c, old, &f->text);
  put_access(c, a, &f->text);
}

static vm_finding *add_finding(vm_core *c, struct vm_ck_judge *j, const cause *s,
                               const vm_ck_advice *how) {
  const pair *p = &j->pairs[s->pair];
  const vm_ck_access *old = access_of(c, p->old), *a = access_of(c, p->a);
  /* Elements of one transfer: it is its index that is wrong. */
  bool twice = a->transfer && a->transfer == old->transfer;
  if (!twice) { /* what should have waited is what is wrong */
    old = how->first;
    a = how->second;
  }
  vm_finding *f = vm_ck_found(c, VM_CHECK_RACE, a->engine, a->pc, old->engine, old->pc);
  if (!f) return NULL;
  begin_text(c, old, a, f);
  f->time = a->time;
  if (!twice) put_advice(c, how, f);
  return f;
}

/* Whether a finding is explained by what is in order now. */
static bool is_explained(const void *ud, const vm_finding *f) {
  const vm_core *c = ud;
  const struct vm_ck_judge *j = c->check->judge;
  for (uint32_t i = 0; i < j->npairs; i++)
    for (unsigned turned = 0; turned < 2; turned++) {
      const vm_ck_access *w = access_of(c, turned ? j->pairs[i].a : j->pairs[i].old);
      const vm_ck_access *r = access_of(c, turned ? j->pairs[i].old : j->pairs[i].a);
      if (vm_ck_explains(c, f, w, r) && vm_ck_race_known(vm_ck_must_clock(j->m, r->step), w, r))
        return true;
    }
  return false;
}

/* Removes reads of unwritten bytes that have the same cause; returns the finding's new place. */
static vm_finding *merge_reads(vm_core *c, struct vm_ck_judge *j, vm_finding *f) {
  struct vm_check *k = c->check;
  uint32_t n = k->nfindings, at = f ? (uint32_t)(f - k->findings) : 0;
  if (!f) return NULL;
  vm_ck_take_back(c, is_explained, c);
  /* Reads that were reported before the judge came. */
  n -= k->nfindings; /* all of them came before */
  j->before -= n;
  f = &k->findings[at - n];
  if (n)
    isa_buf_puts(&f->text,
                 "\n  in this run the read came first: nothing had written the bytes yet");
  return f;
}

static void report_causes(vm_core *c, struct vm_ck_judge *j, vm_ck_state *s) {
  vm_ck_advice how;
  cause *at;
  vm_ck_explained(c, j);
  for (unsigned n = 0; (at = vm_ck_next_cause(c, j, s, &how)) != NULL; n++) {
    bool twice = how.first->transfer && how.first->transfer == how.second->transfer;
    vm_finding *f = add_finding(c, j, at, &how);
    if (f) f->rank = (uint8_t)how.rank;
    /* A fix that makes some step impossible is no explanation. */
    bool stuck =
        n >= MOST_ASSUMED || twice || !vm_ck_assume(c, j, at, &how) || vm_ck_must_stuck(j->m);
    at->done = true;
    if (j->failed) return;
    /* Its order is taken back, and the cause stays told. */
    if (stuck) {
      vm_ck_restore(c, s);
      j->failed = !vm_ck_must_solve(c, j->m);
      continue;
    }
    f = merge_reads(c, j, f);
    uint32_t more = vm_ck_explained(c, j);
    /* What has no pair left was explained by this one. */
    for (uint32_t i = 0; i < j->ncauses; i++) j->causes[i].done |= j->causes[i].n == 0;
    vm_ck_forget(c, s);
    if (f && more) /* One finding for all that it explains. */
      isa_buf_printf(&f->text, "\n  this also orders %u more pair%s of places", more,
                     more > 1 ? "s" : "");
    j->failed = !vm_ck_save(c, s);
    if (j->failed) return;
  }
}

/* How an instruction makes an access: its executions are numbered separately for each. */
enum { BY_TRANSFER, BY_SEQUENCER, BY_DATA_PATH, WAYS };
static unsigned way_of(const vm_ck_access *a) {
  /* A flight, a share, and the sequencer itself may make accesses at one pc. */
  if (a->transfer) return BY_TRANSFER;
  return a->comp % OF_ENGINE == OF_SEQ ? BY_SEQUENCER : BY_DATA_PATH;
}

/* The round of the instruction of each access. */
static bool count_rounds(vm_core *c, struct vm_ck_judge *j) {
  const vm_ck_log *g = &c->check->log;
  j->rounds = isa_zalloc(&c->al, (g->naccesses + 1) * sizeof *j->rounds);
  j->runs = isa_zalloc(&c->al, (g->naccesses + 1) * sizeof *j->runs);
  bool ok = j->rounds && j->runs;
  for (unsigned e = 0; e < c->check->nengines && ok; e++) {
    uint32_t n = vm_ck_code(c, e)->n * WAYS;
    uint32_t *count = isa_zalloc(&c->al, 2 * (n + 1) * sizeof *count), *last = count + n;
    ok = count != NULL;
    for (uint32_t i = 0; ok && i < g->naccesses; i++) {
      /* An execution is known by its epoch, or by its transfer. */
      const vm_ck_access *a = &g->accesses[i];
      uint32_t which = (a->transfer ? a->transfer : a->epoch) + 1, at = a->pc * WAYS + way_of(a);
      if (a->engine != e) continue;
      if (last[at] != which) count[at]++;
      last[at] = which;
      j->rounds[i] = count[at];
    }
    for (uint32_t i = 0; ok && i < g->naccesses; i++)
      if (g->accesses[i].engine == e)
        j->runs[i] = count[g->accesses[i].pc * WAYS + way_of(&g->accesses[i])];
    isa_free(&c->al, count, 2 * (n + 1) * sizeof *count);
  }
  return ok;
}

/* Findings from `first` on go before the others, the surest first; those that only show that a
 * semaphore is used for too much stay at the end. */
static void to_front(struct vm_check *k, uint32_t first) {
  uint32_t moved = 0;
  unsigned most = VM_CK_UNSURE;
  for (uint32_t i = 0; i < first; i++)
    /* A semaphore that is used in the wrong way says more than races that follow from it. */
    if (k->findings[i].rank == VM_CK_ITSELF) most = VM_CK_OWN;
  for (uint32_t i = first; i < k->nfindings; i++) {
    vm_finding f = k->findings[i];
    uint32_t to = 0;
    if (f.rank >= most) continue;
    /* Insertion keeps the order among equals. */
    while (to < moved && k->findings[to].rank <= f.rank) to++;
    memmove(&k->findings[to + 1], &k->findings[to], (i - to) * sizeof f);
    k->findings[to] = f;
    moved++;
  }
}

static void judge(vm_core *c, struct vm_ck_judge *j) {
  struct vm_check *k = c->check;
  /* The state before all, and that after the causes so far. */
  vm_ck_state s = {0}, before = {0}; /* the log stays as it was */
  k->judge = j;
  vm_ck_judge_waits(c, j->m);
  j->before = k->nfindings;
  replay(c, j);
  if (j->ncauses)
    j->failed =
        !run_of(c, j) || !count_rounds(c, j) || !vm_ck_save(c, &before) || !vm_ck_save(c, &s);
  if (j->ncauses && !j->failed) report_causes(c, j, &s);
  /* Whoever looks at the log afterwards sees the run. */
  if (before.step) vm_ck_restore(c, &before);
  if (before.step) vm_ck_forget(c, &before);
  if (s.step) vm_ck_forget(c, &s);
  isa_free(&c->al, j->rounds, j->rounds ? (k->log.naccesses + 1) * sizeof *j->rounds : 0);
  isa_free(&c->al, j->runs, j->runs ? (k->log.naccesses + 1) * sizeof *j->runs : 0);
  k->judge = NULL;
  k->judged = k->log.at;
  to_front(k, j->before);
}

void vm_ck_judge(vm_core *c) {
  struct vm_check *k = c->check;
  if (!vm_ck_has(c, VM_CHECK_RACE) || !k->log.on || k->judge || k->judged == k->log.at) return;
  /* No suspicion, or nothing new since. */
  if (!k->suspect) {
    k->judged = k->log.at;
    return;
  }
  struct vm_ck_judge j = {.failed = false};
  j.pairs = isa_zalloc(&c->al, MOST_PAIRS * sizeof *j.pairs);
  j.causes = isa_zalloc(&c->al, MOST_CAUSES * sizeof *j.causes);
  j.m = vm_ck_must_new(c, false);
  j.twins = vm_ck_groups_new(c);
  j.failed = !j.pairs || !j.causes || !j.m || !j.twins || !vm_ck_must_solve(c, j.m);
  if (!j.failed) judge(c, &j);
  vm_ck_must_free(c, j.m);
  vm_ck_must_free(c, j.run);
  vm_ck_groups_free(c, j.twins);
  isa_free(&c->al, j.pairs, MOST_PAIRS * sizeof *j.pairs);
  isa_free(&c->al, j.causes, MOST_CAUSES * sizeof *j.causes);
  if (!j.failed) return;
  k->judged = k->log.at;
  vm_ck_out_of_memory(c);
}
