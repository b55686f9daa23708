/* Of two accesses that nothing orders: who has to come first, and what would make it so.
 *
 * A read that knows of an earlier write of the same bytes has what it came for: a write that
 * nothing orders after it comes too early and must wait for the reader, unless another read of
 * those bytes has already given them back to the writer; then, and when no earlier write is known,
 * it is the reader that must wait. */
#include "check.h"
#include "impl.h"

enum { RANK_SURE, RANK_RAISE, RANK_AFTER, RANK_UNWRITTEN, RANK_REST, RANK_WRITES };

/* ---- Who comes first ----------------------------------------------------------------------- */

/* Whether x is complete when y begins. */
static bool comes_before(const vm_ck_must *m, const vm_ck_access *x, const vm_ck_access *y) {
  bool engines = x->comp < FIRST_RING && y->comp < FIRST_RING;
  if ((engines && x->engine == y->engine) || x->comp == y->comp) return x->at < y->at;
  return vm_ck_race_known(vm_ck_must_clock(m, y->step), x, y);
}

/* The last wait of an engine for a semaphore before a place of the log; NULL: none. */
static const vm_ck_step *last_wait(const vm_core *c, unsigned e, unsigned sem, uint32_t at) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_step *last = NULL;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    const vm_ck_step *s = &g->steps[i];
    bool waits = s->kind == VM_CK_WAIT || s->kind == VM_CK_HELD;
    if (waits && s->engine == e && s->sem == sem && s->at < at && (!last || s->at > last->at))
      last = s;
  }
  return last;
}

/* The read of an instruction that writes in place, which meets `other`; NULL: it has none. */
static const vm_ck_access *own_read(const vm_core *c, const vm_ck_access *x,
                                    const vm_ck_access *other) {
  enum { NEAR = 16 };
  const vm_ck_log *g = &c->check->log;
  uint32_t i = x->logged > NEAR ? x->logged - NEAR : 0;
  for (; i < g->naccesses && i < x->logged + NEAR; i++) {
    const vm_ck_access *r = &g->accesses[i];
    if (!r->writes && r->engine == x->engine && r->pc == x->pc && r->epoch == x->epoch &&
        r->transfer == x->transfer && vm_ck_race_meet(r, other))
      return r;
  }
  return NULL;
}

/* The last write of the bytes of both that the reader knows of; NULL: none. fresh: not one in
 * place, which has made its bytes of older ones. */
static const vm_ck_access *last_known_write(const vm_core *c, const vm_ck_must *run,
                                            const vm_ck_access *read, const vm_ck_access *write,
                                            bool fresh) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = read->logged - 1; i-- > 0;) {
    const vm_ck_access *w = &g->accesses[i];
    bool same = w->comp == write->comp && w->epoch == write->epoch;
    bool other_share = w->transfer && w->transfer == write->transfer;
    if (!w->writes || same || other_share || !vm_ck_race_meet(w, read) ||
        !vm_ck_race_meet(w, write))
      continue;
    if (fresh && own_read(c, w, w)) continue;
    if (comes_before(run, w, read)) return w;
  }
  return NULL;
}

/* Whether a read after write `w` of those bytes is known to be over when `write` begins. */
static bool is_given_back(const vm_core *c, const vm_ck_must *run, const vm_ck_access *w,
                          const vm_ck_access *read, const vm_ck_access *write) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = w->logged; i < g->naccesses && g->accesses[i].at < write->at; i++) {
    const vm_ck_access *r = &g->accesses[i];
    if (r->writes || r == read || (r->pc == read->pc && r->epoch == read->epoch)) continue;
    if (!vm_ck_race_meet(r, write) || !comes_before(run, w, r)) continue;
    if (comes_before(run, r, write)) return true;
  }
  return false;
}

static bool has_contents(const vm_core *c, const vm_ck_access *a) {
  uint32_t tensor = c->check->regions[a->region].tensor;
  return tensor && c->prog->tensors[tensor - 1].role != ISA_TEMP &&
         c->prog->tensors[tensor - 1].role != ISA_OUTPUT;
}

/* Whether a write is one in place, or adds to a sum. */
static bool is_in_place(const vm_core *c, const vm_ck_access *write) {
  const isa_insn *in = &c->code->code[write->engine].insns[write->pc];
  int acc = isa_insn_acc(in);
  if (acc >= 0) return acc != ISA_ACC_write && !isa_insn_turns(in);
  return own_read(c, write, write) != NULL;
}

/* Whether an engine works on its own result: all from write `w` to `write` is in place. */
static bool goes_on(const vm_core *c, const vm_ck_access *w, const vm_ck_access *write) {
  const vm_ck_log *g = &c->check->log;
  if (w->engine != write->engine || w->queue != write->queue || !is_in_place(c, write))
    return false;
  for (uint32_t i = w->logged; i + 1 < write->logged; i++)
    if (g->accesses[i].writes && vm_ck_race_meet(&g->accesses[i], write) &&
        !is_in_place(c, &g->accesses[i]))
      return false;
  return true;
}

static void decide(const vm_core *c, const vm_ck_must *run, const vm_ck_access *old,
                   const vm_ck_access *a, vm_ck_advice *out) {
  const vm_ck_access *read = old->writes ? a : old, *write = old->writes ? old : a;
  if (old->writes && a->writes) {
    read = own_read(c, a, old);
    if (!read && (read = own_read(c, old, a)) != NULL) write = a;
  }
  out->first = old;
  out->second = a;
  out->rank = read ? RANK_REST : RANK_WRITES;
  if (!read) return;
  const vm_ck_access *w = last_known_write(c, run, read, write, true);
  const vm_ck_access *last = w ? last_known_write(c, run, read, write, false) : NULL;
  out->early = w ? !goes_on(c, last, write) && !is_given_back(c, run, w, read, write)
                 : has_contents(c, read);
  if (!w && !out->early) out->rank = RANK_UNWRITTEN;
  out->first = out->early ? read : write;
  out->second = out->early ? write : read;
}

/* ---- What tells of the first --------------------------------------------------------------- */

/* Whether engine e does nothing with memory between a wait and an access but that access. */
static bool is_next(const vm_core *c, const vm_ck_step *wait, const vm_ck_access *a) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = a->logged - 1; i-- > 0 && g->accesses[i].at > wait->at;)
    if (g->accesses[i].engine == a->engine && g->accesses[i].pc != a->pc) return false;
  return true;
}

/* How well an update serves as what `second` waits for; the least is the best. An instruction's own
 * update is there for whoever needs its result, and one that does nothing else is there to be
 * waited for. */
enum { FITS_UNHEARD, FITS_OWN, FITS_PLACE, FITS_SIGNAL, FITS_OTHERS, FITS_LATER, FITS_AT_ALL };

static unsigned fit_of(const vm_core *c, const vm_ck_signal *u, const vm_ck_access *first,
                       const vm_ck_access *second) {
  unsigned heard = c->check->log.waiters[u->sem];
  bool by_second = heard >> second->engine & 1;
  if (u->pc == first->pc && u->engine == first->engine && u->epoch == first->epoch) {
    if (by_second) return FITS_OWN;
    return heard ? FITS_OTHERS : FITS_UNHEARD;
  }
  const vm_ck_step *w = by_second ? last_wait(c, second->engine, u->sem, second->at) : NULL;
  if (w && is_next(c, w, second)) return FITS_PLACE;
  unsigned op = c->code->code[u->engine].insns[u->pc].op;
  if (!heard && (op == ISA_OP_nop || op == ISA_OP_event_semaphore)) return FITS_SIGNAL;
  return heard && (w || !by_second) ? FITS_AT_ALL : FITS_LATER;
}

/* The update to wait for: the one that fits best, and of several the first. */
static const vm_ck_signal *signal_of(const vm_core *c, const vm_ck_must *m,
                                     const vm_ck_access *first, const vm_ck_access *second) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_signal *best = NULL;
  unsigned least = 0;
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    bool ring = first->queue < ISA_MAX_QUEUES;
    bool own = ring ? u->ring == first->comp : !u->ring && u->engine == first->engine;
    if (!vm_ck_must_tells(m, u, first->comp, first->epoch)) continue;
    unsigned fit = fit_of(c, u, first, second);
    if (!own && (fit != FITS_SIGNAL || u->engine == second->engine)) continue;
    if (best && (fit > least || (fit == least && best->at <= u->at))) continue;
    best = u;
    least = fit;
  }
  return best;
}

/* The sums of increments: up to the update and what tells of the same instruction or transfer; of
 * those of others that can come without it, and one more; and of all that can come before
 * `second`. other: one of those others. */
typedef struct sums {
  int64_t natural, others, all;
  const vm_ck_signal *other;
} sums;
static sums add_up(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *by,
                   const vm_ck_access *first, const vm_ck_access *second) {
  const vm_ck_log *g = &c->check->log;
  sums s = {.others = 1};
  uint32_t last = by->at;
  for (uint32_t i = 0; i < g->nupdates && by->ring; i++)
    if (g->updates[i].ring && g->updates[i].pc == by->pc && g->updates[i].step == by->step &&
        g->updates[i].epoch == by->epoch && g->updates[i].engine == by->engine)
      last = g->updates[i].at > last ? g->updates[i].at : last;
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    if (u->sem != by->sem || u->delta <= 0) continue;
    if (u->at <= last) s.natural += u->delta;
    bool after = vm_ck_must_tells(m, u, second->comp, second->epoch) ||
                 (u->engine == second->engine && u->at > second->at);
    if (after) continue;
    s.all += u->delta;
    bool same = by->ring ? u->ring / ISA_NDMA == by->ring / ISA_NDMA : u->engine == by->engine;
    if (same || vm_ck_must_tells(m, u, first->comp, first->epoch)) continue;
    s.others += u->delta;
    if (!s.other) s.other = u;
  }
  return s;
}

static void find_signal(const vm_core *c, const vm_ck_must *m, vm_ck_advice *out) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_access *first = out->first, *second = out->second;
  const vm_ck_signal *u = signal_of(c, m, first, second);
  out->drain = first->queue == ISA_MAX_QUEUES && second->queue < ISA_MAX_QUEUES &&
               first->engine == second->engine;
  if (!u || (out->drain && !(g->waiters[u->sem] >> second->engine & 1))) return;
  const vm_ck_step *w = last_wait(c, second->engine, u->sem, second->at);
  out->drain = false;
  out->signals = true;
  out->sem = (uint8_t)u->sem;
  out->waits = w != NULL;
  out->waited = w ? (int64_t)w->value : -1;
  out->waited_pc = w ? w->pc : 0;
  if (g->mixed[u->sem]) {
    out->value = u->total;
  } else {
    sums s = add_up(c, m, u, first, second);
    int64_t taken = w ? w->want - w->value : 0;
    out->enough = out->waited >= s.natural - taken;
    bool others = s.others > s.natural || out->enough;
    out->other = others ? s.other : NULL;
    out->value = (others ? s.all : s.natural) - taken;
  }
  if (out->value <= 0) out->signals = false; /* it has been taken */
  const isa_insn *at = w ? &c->code->code[second->engine].insns[w->pc] : NULL;
  out->takes = g->takers[u->sem] && at && at->op == ISA_OP_event_semaphore;
  out->alone = !(g->waiters[u->sem] & ~(1u << second->engine));
  bool own = u->pc == first->pc && u->engine == first->engine;
  bool unheard = own && !g->waiters[u->sem]; /* it tells, and nobody listens */
  if (!out->signals || (w ? out->waited >= out->value : !unheard)) return;
  out->rank = out->rank == RANK_UNWRITTEN ? RANK_SURE : own ? RANK_RAISE : RANK_AFTER;
}

void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_must *run,
                  const vm_ck_access *old, const vm_ck_access *a, vm_ck_advice *out) {
  *out = (vm_ck_advice){.rank = RANK_REST};
  decide(c, run, old, a, out);
  bool sure = out->rank == RANK_UNWRITTEN;
  find_signal(c, m, out);
  if (sure || out->rank <= RANK_RAISE) return;
  /* What changes its bytes in place is a part of what the reader waits for: a wait that is there
   * and too low tells more than the bytes do. */
  if (!out->early || !own_read(c, out->second, out->first)) return;
  vm_ck_advice turned = {.rank = RANK_REST, .first = out->second, .second = out->first};
  turned.early = !turned.first->writes;
  find_signal(c, m, &turned);
  if (turned.rank == RANK_RAISE) *out = turned;
}

/* ---- Text ---------------------------------------------------------------------------------- */

void vm_ck_put_who(const vm_core *c, const vm_ck_access *a, isa_buf *out) {
  if (a->queue < ISA_MAX_QUEUES)
    isa_buf_printf(out, "a transfer of queue %s", c->code->queues[a->queue].name);
  else
    isa_buf_puts(out, isa_engines[a->engine].name);
}

static void put_wait(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  const vm_ck_access *second = a->second;
  isa_buf_printf(out, "%s must wait for ", isa_engines[second->engine].name);
  vm_put_sem(c, a->sem, out);
  isa_buf_printf(out, " >= %lld before ", (long long)a->value);
  vm_put_place(c, second->engine, second->pc, out);
  if (a->again) {
    isa_buf_puts(out, ", and for ");
    if (a->step > 0) isa_buf_printf(out, "%lld ", (long long)a->step);
    isa_buf_puts(out, "more in each round");
  }
  if (!a->waits) isa_buf_puts(out, "; it does not wait for it at all");
  if (!a->waits) return;
  isa_buf_printf(out, "; it waits for %lld", (long long)a->waited);
  if (a->waited_pc == second->pc) return;
  isa_buf_puts(out, " at ");
  vm_put_place(c, second->engine, a->waited_pc, out);
}

/* A wait that takes what it has waited for serves every round. */
static void put_take(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  if (!a->takes && !(a->again && a->step == a->value && a->alone)) return;
  isa_buf_puts(out, ". One way: event_semaphore ");
  vm_put_sem(c, a->sem, out);
  isa_buf_printf(out, ">=%lld ", (long long)a->value);
  vm_put_sem(c, a->sem, out);
  isa_buf_printf(out, "-=%lld", (long long)a->value);
}

/* Why the value is that of all updates, and what can be done in place of waiting for all. */
static void put_other(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  isa_buf_puts(out, a->waits ? ", which " : "; less than that ");
  vm_put_place(c, a->other->engine, a->other->pc, out);
  isa_buf_puts(out, " can bring as well. A semaphore of its own would do too");
}

void vm_ck_put_advice(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  const vm_ck_access *first = a->first, *second = a->second;
  const char *waiter = isa_engines[second->engine].name;
  isa_buf_puts(out, "\n  fix: ");
  if (a->early && second->writes) {
    vm_put_place(c, second->engine, second->pc, out);
    isa_buf_puts(out, " overwrites too early what ");
    vm_put_place(c, first->engine, first->pc, out);
    isa_buf_puts(out, " reads: ");
  }
  if (a->drain) {
    isa_buf_printf(out, "%s must drain before it triggers the transfer", waiter);
  } else if (!a->signals) {
    vm_put_place(c, first->engine, first->pc, out);
    isa_buf_printf(out, " must update a semaphore, and %s wait for it before ", waiter);
    vm_put_place(c, second->engine, second->pc, out);
  } else {
    put_wait(c, a, out);
    if (a->other) put_other(c, a, out);
    put_take(c, a, out);
  }
}
