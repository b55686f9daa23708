/* Semaphores: what updates allow, and waits that no order of them can satisfy. */
#include "impl.h"

static unsigned index_of(const lint *l, const lint_stream *s) { return (unsigned)(s - l->s); }

/* ---- Updates ------------------------------------------------------------------------------- */

static uint32_t gcd(uint32_t a, uint32_t b) {
  while (b) {
    uint32_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* Greatest value: all increments, whoever does them and whenever. */
static void raise_by(lint_sem *m, uint64_t each, uint64_t times) {
  if (each == 0 || times == 0) return;
  /* All values that it can have are multiples of what it changes by. */
  m->step = gcd(m->step, (uint32_t)each);
  /* A loop whose end is not known may be counted as very many rounds. */
  m->ups = m->ups + each * times < m->ups ? UINT64_MAX : m->ups + each * times;
}

void isa_lint_update(lint *l, const lint_stream *s, const isa_insn *in, const isa_update *u,
                     uint64_t times) {
  if (u->kind == ISA_UPD_none) return;
  lint_sem *m = &l->sem[isa_lint_key(u->core, u->sem)];
  uint32_t down = u->kind == ISA_UPD_dec ? 1 : u->value;
  switch (u->kind) {
  case ISA_UPD_inc:
  case ISA_UPD_dma: raise_by(m, 1, times); break;
  case ISA_UPD_add: raise_by(m, u->value, times); break;
  case ISA_UPD_dec:
  case ISA_UPD_sub:
    m->step = gcd(m->step, down);
    /* What an engine takes back itself, in one step with its wait, it cannot see a second time. A
     * barrier takes at its end: its own update is not that. */
    if (in->op == ISA_OP_core_barrier ? u != &in->upd
                                      : in->op == ISA_OP_event_semaphore && in->wait.cond &&
                                            in->wait.sem == u->sem && in->wait.core == u->core)
      /* `event_semaphore $s>=3 $s-=3` takes what it waited for. */
      m->taken[index_of(l, s)] += down;
    break;
  default:
    m->writes = true;
    m->step = gcd(m->step, u->value);
    if (u->value > m->written) m->written = u->value;
    break;
  }
}

/* A whole range goes to 0: what was there is gone. */
void isa_lint_clear(lint *l, const lint_stream *s, const isa_insn *in) {
  const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
  for (unsigned i = a->first; i < (unsigned)a->first + a->count && i < ISA_NSEMS; i++)
    /* To clear is to write 0. */
    l->sem[isa_lint_key(s->core, i)].writes = true;
}

/* By an instruction whose turn or number is not known. */
void isa_lint_update_any(lint *l, unsigned core, const isa_insn *in) {
  isa_barrier b;
  if (isa_insn_barrier(in, core, &b))
    for (unsigned c = 0; c < ISA_MAX_CORES; c++) l->sem[isa_lint_key(c, b.wait.sem)].any = true;
  if (in->upd.kind != ISA_UPD_none) l->sem[isa_lint_key(in->upd.core, in->upd.sem)].any = true;
  if (in->op != ISA_OP_sem_range_clear) return;
  const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
  for (unsigned i = a->first; i < (unsigned)a->first + a->count && i < ISA_NSEMS; i++)
    l->sem[isa_lint_key(core, i)].any = true;
}

/* ---- Waits --------------------------------------------------------------------------------- */

/* At a core_barrier the second wait counts, once the other core has been told. */
isa_wait isa_lint_wait(const lint_stream *s) {
  const isa_insn *in = &s->code->insns[s->pc];
  isa_barrier b;
  return s->given && isa_insn_barrier(in, s->core, &b) ? b.wait : in->wait;
}

bool isa_lint_wait_value(const lint_stream *s, const isa_wait *w, uint32_t *value) {
  *value = w->is_reg ? s->regs[w->value] : w->value;
  /* Register 64 and more cannot come: the program was checked. */
  return !w->is_reg || s->known >> w->value % ISA_NREGS & 1;
}

/* The greatest value that s can see. */
static uint64_t most_of(const lint *l, const lint_stream *s, const lint_sem *m, unsigned key) {
  uint64_t most = m->ups + m->written < m->ups ? UINT64_MAX : m->ups + m->written;
  uint64_t own = l->sem[key].taken[index_of(l, s)];
  /* A write forgets what has been taken before it. */
  if (m->writes || most == UINT64_MAX) return most;
  return most > own ? most - own : 0;
}

bool isa_lint_can_hold(const lint *l, const lint_stream *s, const isa_wait *w, const lint_sem *m) {
  unsigned key = isa_lint_key(w->core, w->sem);
  /* By names of the program: a semaphore of each core has an own key. */
  uint32_t want;
  /* What is not known is never reported: a finding of lint holds in every run. */
  if (!isa_lint_wait_value(s, w, &want) || m->any) return true;
  uint64_t most = most_of(l, s, m, key), least = l->sem[key].least[index_of(l, s)];
  switch (w->cond) {
  case ISA_WAIT_ge: return most >= want;
  case ISA_WAIT_gt: return most > want;
  case ISA_WAIT_le: return least <= want;
  case ISA_WAIT_lt: return least < want;
  case ISA_WAIT_ne: return most != want || least != want;
  /* == : it must be among the steps too. */
  default: return most >= want && least <= want && (m->step == 0 || want % m->step == 0);
  }
}

/* Where nothing lowers a semaphore, what has been waited for stays.
 * least is a bound for later waits: below it this engine will never see the semaphore. */
void isa_lint_passed(lint *l, lint_stream *s, const isa_wait *w) {
  unsigned key = isa_lint_key(w->core, w->sem);
  uint32_t want;
  if (!isa_lint_wait_value(s, w, &want) || l->text[key].lowered) return;
  uint64_t *least = &l->sem[key].least[index_of(l, s)];
  uint64_t now = w->cond == ISA_WAIT_gt ? (uint64_t)want + 1 : want;
  if ((w->cond == ISA_WAIT_ge || w->cond == ISA_WAIT_gt || w->cond == ISA_WAIT_eq) && now > *least)
    *least = now;
}

/* ---- The program's text -------------------------------------------------------------------- */

/* Over the text, executed or not: only what can never happen is judged by it. */
static void scan_update(lint *l, const isa_update *u, isa_place at) {
  if (u->kind == ISA_UPD_none) return;
  lint_text *t = &l->text[isa_lint_key(u->core, u->sem)];
  if (!t->updated) t->update = at;
  t->updated = true;
  if (u->kind == ISA_UPD_dec || u->kind == ISA_UPD_sub || u->kind == ISA_UPD_write)
    t->lowered = true;
}

static void scan_insn(lint *l, const lint_stream *s, uint32_t pc) {
  const isa_insn *in = &s->code->insns[pc];
  isa_place at = {(int)s->core, (int)s->engine, pc};
  scan_update(l, &in->upd, at);
  if (in->wait.cond) l->text[isa_lint_key(in->wait.core, in->wait.sem)].waited = true;
  isa_barrier b;
  if (isa_insn_barrier(in, s->core, &b)) {
    scan_update(l, &b.give, at);
    scan_update(l, &b.take, at);
    l->text[isa_lint_key(b.wait.core, b.wait.sem)].waited = true;
  }
  /* Which engines start transfers of a queue. */
  if (in->op == ISA_OP_dma_trigger)
    l->triggers[s->core][in->u.TRIGGER.queue] |= (uint8_t)(1u << s->engine);
  if (in->op != ISA_OP_sem_range_clear) return;
  const struct isa_SEM_RANGE *a = &in->u.SEM_RANGE;
  for (unsigned i = a->first; i < (unsigned)a->first + a->count && i < ISA_NSEMS; i++)
    l->text[isa_lint_key(s->core, i)].lowered = true;
}

void isa_lint_scan_text(lint *l) {
  for (unsigned i = 0; i < LINT_STREAMS; i++)
    for (uint32_t pc = 0; l->s[i].code && pc < l->s[i].code->n; pc++) scan_insn(l, &l->s[i], pc);
  for (unsigned c = 0; c < l->p->ncores; c++)
    for (unsigned q = 0; q < l->p->cores[c].nqueues; q++)
      for (uint32_t k = 0; k < l->p->cores[c].queues[q].nstatics; k++)
        scan_update(l, &l->p->cores[c].queues[q].statics[k].upd, (isa_place){(int)c, -1, 0});
}

/* What CC sequencers touch, here or at other ranks, which run the same program or another: these
 * semaphores may be anything, and what their transfers write is written.
 * Which rank signals is another program's matter. */
static void scan_cc_section(lint *l, unsigned c, const isa_code *code) {
  for (uint32_t pc = 0; pc < code->n; pc++) {
    const isa_insn *in = &code->insns[pc];
    unsigned keys[2] = {isa_lint_key(c, in->wait.sem), isa_lint_key(in->upd.core, in->upd.sem)};
    for (unsigned i = 0; i < 2; i++)
      if (i ? in->upd.kind : in->wait.cond) {
        l->sem[keys[i]].any = true;
        l->text[keys[i]].updated = l->text[keys[i]].waited = l->text[keys[i]].lowered = true;
      }
    if (in->op == ISA_OP_sem_range_clear) isa_lint_update_any(l, c, in);
  }
}

void isa_lint_scan_cc(lint *l) {
  for (unsigned c = 0; c < l->p->ncores; c++) {
    const isa_core *core = &l->p->cores[c];
    /* Any of the core: no register of it is used. */
    const lint_stream *any = &l->s[c * ISA_NENGINES];
    for (unsigned k = ISA_NENGINES; k < ISA_NSEQS; k++) scan_cc_section(l, c, &core->code[k]);
    for (uint32_t q = 0; q < core->nqueues && !l->free; q++)
      for (uint32_t i = 0; isa_queue_is_cc(&core->queues[q]) && i < core->queues[q].nstatics; i++)
        isa_lint_write_only(l, any, &core->queues[q].statics[i]);
  }
}

/* ---- Judgement: waits ---------------------------------------------------------------------- */

/* "; fix: ..." where one number would do.
 * "; fix: wait for 16": where the total is just another number than the one waited for. */
static void put_fix(const isa_wait *w, uint64_t most, uint64_t own, isa_buf *out) {
  if (w->is_reg || own || most == 0) return;
  if (w->cond == ISA_WAIT_ge) isa_buf_printf(out, "; fix: wait for %llu", (unsigned long long)most);
  if (w->cond == ISA_WAIT_gt)
    isa_buf_printf(out, "; fix: wait for more than %llu", (unsigned long long)most - 1);
}

/* Why a wait cannot hold even when no one else is held up. */
static void explain(const lint *l, const lint_stream *s, const isa_wait *w, uint32_t want,
                    isa_buf *out) {
  unsigned key = isa_lint_key(w->core, w->sem);
  const lint_sem *m = &l->total[key];
  uint64_t most = most_of(l, s, m, key), own = l->sem[key].taken[index_of(l, s)];
  uint64_t least = l->sem[key].least[index_of(l, s)];
  /* It cannot come down to what is wanted. */
  bool low = w->cond == ISA_WAIT_le || w->cond == ISA_WAIT_lt || w->cond == ISA_WAIT_ne ||
             (w->cond == ISA_WAIT_eq && least > want);
  if (low && w->cond != ISA_WAIT_ne) {
    isa_buf_printf(out,
                   "it is at least %llu, as this engine has waited for that and nothing lowers it",
                   (unsigned long long)least);
  } else if (w->cond == ISA_WAIT_ne) {
    isa_buf_printf(out, "it is always %u", want);
  } else if (w->cond == ISA_WAIT_eq && most >= want) {
    isa_buf_printf(out, "it changes in steps of %u", m->step);
  } else {
    isa_buf_printf(out, "all updates together bring it to %llu",
                   (unsigned long long)(m->writes ? most : most + own));
    if (own && !m->writes)
      isa_buf_printf(out, ", of which this engine has taken %llu", (unsigned long long)own);
    put_fix(w, most, own, out);
  }
}

static void judge_impossible(lint *l, const lint_stream *s, const isa_wait *w) {
  char name[LINT_NAME];
  uint32_t want, before = s->count[s->pc];
  isa_buf why;
  isa_buf_init(&why, l->al);
  isa_lint_wait_value(s, w, &want);
  explain(l, s, w, want, &why);
  isa_lint_sem_name(l, w->core, w->sem, name);
  /* In a loop the first rounds may have held: the message says which one does not. */
  if (before)
    isa_lint_add(l, ISA_LINT_impossible, isa_lint_here(s),
                 "this wait, now %s%s%u, cannot hold a %u. time: %s", name, isa_cond_text(w->cond),
                 want, before + 1, isa_buf_str(&why));
  else
    isa_lint_add(l, ISA_LINT_impossible, isa_lint_here(s), "the wait %s%s%u cannot hold: %s", name,
                 isa_cond_text(w->cond), want, isa_buf_str(&why));
  l->failed = l->failed || why.failed;
  isa_buf_free(&why);
}

/* Once per engine and semaphore: further waits fail for the same reason. */
void isa_lint_judge_wait(lint *l, const lint_stream *s, const isa_wait *w) {
  unsigned key = isa_lint_key(w->core, w->sem);
  uint8_t *wait_reported = &l->wait_reported[index_of(l, s)][key];
  char name[LINT_NAME];
  if (*wait_reported) return;
  *wait_reported = 1;
  if (l->text[key].updated)
    judge_impossible(l, s, w);
  else
    isa_lint_add(l, ISA_LINT_signalled, isa_lint_here(s),
                 "nothing updates the semaphore `%s`, so this wait never ends",
                 /* Without the dollar sign. */
                 isa_lint_sem_name(l, w->core, w->sem, name) + 1);
}

/* An update for nobody is most often a name that was mistyped. */
void isa_lint_judge_unwaited(lint *l) {
  char name[LINT_NAME];
  for (unsigned k = 0; k < LINT_SEMS; k++) {
    const lint_text *t = &l->text[k];
    if (t->updated && !t->waited)
      isa_lint_add(l, ISA_LINT_waited, t->update, "nothing waits for the semaphore `%s`",
                   isa_lint_sem_name(l, k / ISA_NSEMS, k % ISA_NSEMS, name) + 1);
  }
}
