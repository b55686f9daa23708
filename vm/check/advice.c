/* For two accesses that nothing orders: which has to come first, and what would ensure that.
 *
 * A read that knows of an earlier write of the same bytes has got what it needs: a write that
 * nothing orders after it comes too early and must wait for the reader, unless another read of
 * those bytes has already given them back to the writer. In that case, and when no earlier write is
 * known, the reader must wait. */
#include "check.h"
#include "judge.h"

enum {
  RANK_SURE,
  RANK_RAISE,
  RANK_AFTER,
  RANK_UNWRITTEN,
  RANK_REST,
  RANK_WRITES,
  RANK_STALE = VM_CK_UNSURE
};

/* ---- Who comes first ----------------------------------------------------------------------- */

/* Whether x is complete when y begins. */
static bool comes_before(const vm_core *c, const vm_ck_must *m, const vm_ck_access *x,
                         const vm_ck_access *y) {
  bool engines = x->comp < c->check->rings && y->comp < c->check->rings;
  if ((engines && x->engine == y->engine) || x->comp == y->comp) return x->at < y->at;
  return vm_ck_race_known(vm_ck_must_clock(m, y->step), x, y);
}

/* The read of an instruction that writes in place, if it overlaps `other`; else NULL. */
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

/* The last write of the bytes of both that the reader knows of; NULL: none. fresh: no write in
 * place, which makes its bytes from older ones. */
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
    if (comes_before(c, run, w, read)) return w;
  }
  return NULL;
}

/* Whether an access is that of a core_barrier, which hands bytes over and does not use them. */
static bool hands_over(const vm_core *c, const vm_ck_access *a) {
  return vm_ck_insn(c, a->engine, a->pc)->op == ISA_OP_core_barrier;
}

/* Whether a read after write `w` of those bytes is known to be over when `write` begins. */
static bool is_given_back(const vm_core *c, const vm_ck_must *run, const vm_ck_access *w,
                          const vm_ck_access *read, const vm_ck_access *write) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = w->logged; i < g->naccesses && g->accesses[i].at < write->at; i++) {
    const vm_ck_access *r = &g->accesses[i];
    if (r->writes || r == read || (r->pc == read->pc && r->epoch == read->epoch)) continue;
    if (hands_over(c, r)) continue;
    if (!vm_ck_race_meet(r, write) || !comes_before(c, run, w, r)) continue;
    if (comes_before(c, run, r, write)) return true;
  }
  return false;
}

static bool has_contents(const vm_core *c, const vm_ck_access *a) {
  uint32_t tensor = c->check->regions[a->region].tensor;
  return tensor && c->prog->tensors[tensor - 1].role != ISA_TEMP &&
         c->prog->tensors[tensor - 1].role != ISA_OUTPUT;
}

/* Whether a write is in place, or adds to a sum. */
static bool is_in_place(const vm_core *c, const vm_ck_access *write) {
  const isa_insn *in = vm_ck_insn(c, write->engine, write->pc);
  int acc = isa_insn_acc(in);
  if (acc >= 0) return acc != ISA_ACC_write && !isa_insn_turns(in) && !isa_insn_zeroes(in);
  return own_read(c, write, write) != NULL;
}

/* Whether an engine works on its own result: all writes from `w` to `write` are in place. */
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

/* Whether the instruction of an access signals that it is over, and no engine waits for that: one
 * should. */
static bool is_unheard(const vm_core *c, const vm_ck_access *a) {
  const isa_update *u = &vm_ck_insn(c, a->engine, a->pc)->upd;
  return a->queue == VM_CK_QUEUES && u->kind != ISA_UPD_none &&
         !c->check->log.waiters[vm_ck_sem(u->core, u->sem)];
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
  out->early = w ? (!goes_on(c, last, write) || is_unheard(c, read)) &&
                       !is_given_back(c, run, w, read, write)
                 : has_contents(c, read);
  out->unwritten = !w && !out->early;
  if (out->unwritten) out->rank = RANK_UNWRITTEN;
  out->first = out->early ? read : write;
  out->second = out->early ? write : read;
}

/* ---- What signals that the first is over --------------------------------------------------- */

/* What an engine has waited for when it comes to an access: the last wait for each semaphore. Those
 * from `since` on are next to the access: nothing else was done with memory in between. */
typedef struct waits {
  const vm_ck_step *last[VM_CK_SEMS];
  uint32_t since;
} waits;

static void find_waits(const vm_core *c, const vm_ck_access *a, waits *out) {
  const vm_ck_log *g = &c->check->log;
  *out = (waits){.since = 0};
  for (uint32_t i = 0; i < g->nsteps; i++) {
    const vm_ck_step *s = &g->steps[i];
    bool is_wait = s->kind == VM_CK_WAIT || s->kind == VM_CK_HELD;
    if (!is_wait || s->made || s->engine != a->engine || s->at >= a->at) continue;
    if (!out->last[s->sem] || s->at > out->last[s->sem]->at) out->last[s->sem] = s;
  }
  for (uint32_t i = a->logged - 1; i-- > 0 && !out->since;)
    if (g->accesses[i].engine == a->engine && g->accesses[i].pc != a->pc)
      out->since = g->accesses[i].at;
}

/* Whether an update was made by the instruction or the transfer of an access. */
static bool is_own(const vm_ck_signal *u, const vm_ck_access *a) {
  if (u->pc != a->pc || u->engine != a->engine) return false;
  return u->epoch == a->epoch || (u->ring && a->queue == VM_CK_QUEUES); /* it triggered it */
}

/* How well an update serves as what `second` waits for; the least is the best. An instruction's own
 * update serves whoever needs its result; an update that does nothing else is meant to be waited
 * for. */
enum { FITS_UNHEARD, FITS_OWN, FITS_PLACE, FITS_SIGNAL, FITS_OTHERS, FITS_LATER, FITS_AT_ALL };

static unsigned fit_of(const vm_core *c, const vm_ck_signal *u, const vm_ck_access *first,
                       const vm_ck_access *second, const waits *w) {
  unsigned heard = c->check->log.waiters[u->sem];
  bool by_second = heard >> second->engine & 1;
  if (is_own(u, first)) {
    if (by_second) return FITS_OWN;
    return heard ? FITS_OTHERS : FITS_UNHEARD;
  }
  const vm_ck_step *last = by_second ? w->last[u->sem] : NULL;
  if (last && last->at > w->since) return FITS_PLACE;
  unsigned op = vm_ck_insn(c, u->engine, u->pc)->op;
  if (!heard && (op == ISA_OP_nop || op == ISA_OP_event_semaphore)) return FITS_SIGNAL;
  return heard && (last || !by_second) ? FITS_AT_ALL : FITS_LATER;
}

/* Whether an update could tell `second` that `first` is over. any: also one that others wait for,
 * of another engine that knows it. */
static bool could_tell(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                       const vm_ck_access *first, const vm_ck_access *second, unsigned fit,
                       bool any) {
  bool ring = first->queue < VM_CK_QUEUES;
  bool own = ring ? u->ring == first->comp || u->twin == first->comp
                  : !u->ring && u->engine == first->engine;
  bool relay = (fit == FITS_SIGNAL || any) && u->engine != second->engine;
  unsigned others = c->check->log.takers[u->sem] & ~(1u << second->engine);
  if (u->engine == VM_CK_PEER && others) return false;                 /* it is theirs */
  bool there = (u->sem >= ISA_NSEMS) == (second->engine >= ISA_NSEQS); /* it can wait for it */
  return there && (own || relay || is_own(u, first)) &&
         vm_ck_must_tells(m, u, first->comp, first->epoch);
}

unsigned vm_ck_signals(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                       const vm_ck_access *second, bool any, const vm_ck_signal **out) {
  const vm_ck_log *g = &c->check->log;
  unsigned n = 0, most = VM_CK_SIGNALS, fits[VM_CK_SIGNALS];
  waits w;
  find_waits(c, second, &w);
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    unsigned at = 0, fit;
    while (at < n && out[at]->sem != u->sem) at++;
    fit = fit_of(c, u, first, second, &w);
    if (at < n && (fit > fits[at] || (fit == fits[at] && out[at]->at <= u->at))) continue;
    if (!could_tell(c, m, u, first, second, fit, any)) continue;
    if (at == n && n < most) n++;
    if (at == n && (fit > fits[--at] || (fit == fits[at] && out[at]->at <= u->at))) continue;
    for (; at > 0 && (fits[at - 1] > fit || (fits[at - 1] == fit && out[at - 1]->at > u->at));
         at--) {
      out[at] = out[at - 1];
      fits[at] = fits[at - 1];
    }
    out[at] = u;
    fits[at] = fit;
  }
  return n;
}

const vm_ck_signal *vm_ck_signal_of(const vm_core *c, const vm_ck_must *m,
                                    const vm_ck_access *first, const vm_ck_access *second) {
  const vm_ck_signal *u[VM_CK_SIGNALS];
  return vm_ck_signals(c, m, first, second, false, u) ? u[0] : NULL;
}

/* Sums of increments. natural: up to the update, or the last one of the same instruction or
 * transfer. others: of other sources, if they can come without it, plus one. all: of all that can
 * come before `second`. other: one update of those others. */
typedef struct sums {
  int64_t natural, others, all;
  const vm_ck_signal *other;
} sums;
/* 0: none, else the queue's number + 1. */
static unsigned queue_of(const vm_core *c, const vm_ck_signal *u) {
  return u->ring ? ((unsigned)u->ring - c->check->rings) / ISA_NDMA + 1 : 0;
}

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
    bool same = queue_of(c, u) == queue_of(c, by) && (by->ring || u->engine == by->engine);
    if (vm_ck_must_tells(m, u, first->comp, first->epoch)) continue;
    if (!s.other && (u->at > last || !same)) s.other = u;
    if (!same) s.others += u->delta;
  }
  return s;
}

/* Whether something lowers or sets a semaphore: then its value does not show how much was added. */
static bool is_set_back(const vm_core *c, unsigned sem) {
  for (unsigned e = 0; e < c->check->nengines; e++)
    for (uint32_t pc = 0; pc < vm_ck_code(c, e)->n; pc++) {
      const isa_insn *in = vm_ck_insn(c, e, pc);
      unsigned kind = in->upd.kind;
      bool lowers = kind == ISA_UPD_dec || kind == ISA_UPD_sub || kind == ISA_UPD_write;
      if (lowers && vm_ck_sem(in->upd.core, in->upd.sem) == sem) return true;
      unsigned first = vm_ck_sem(e >= ISA_NSEQS, in->u.SEM_RANGE.first);
      if (in->op == ISA_OP_sem_range_clear && sem >= first && sem < first + in->u.SEM_RANGE.count)
        return true;
    }
  return false;
}

/* The value to wait for of a semaphore that does more than count, as far as it is known. */
static void find_mixed(const vm_core *c, const vm_ck_signal *u, const vm_ck_step *w,
                       vm_ck_advice *out) {
  const vm_ck_log *g = &c->check->log;
  out->value = u->total;
  if (!w) return;
  unsigned cond = vm_ck_insn(c, out->second->engine, w->pc)->wait.cond;
  int64_t value = (int64_t)w->value - (cond == ISA_WAIT_lt);
  bool low = cond == ISA_WAIT_le || cond == ISA_WAIT_lt;
  out->falls = low && u->delta < 0;
  for (uint32_t i = 0; i < g->nupdates && out->falls; i++)
    if (g->updates[i].sem == u->sem && g->updates[i].total < out->value)
      out->value = g->updates[i].total;
  if (out->falls)
    out->stale = value <= out->value;
  else if (!low && cond != ISA_WAIT_ne)
    out->stale = value >= out->value || is_set_back(c, u->sem);
}

/* How much the engine of a wait has taken from its semaphore after it. */
static int64_t taken_after(const vm_core *c, const vm_ck_step *w) {
  if (!w) return 0;
  if (w->made) return w->want - (int64_t)w->value;
  const isa_insn *in = vm_ck_insn(c, w->engine, w->pc);
  int64_t taken = w->want - (int64_t)w->value - (in->wait.cond == ISA_WAIT_gt);
  bool takes = in->op == ISA_OP_event_semaphore && in->upd.kind != ISA_UPD_none &&
               vm_ck_sem(in->upd.core, in->upd.sem) == w->sem;
  if (takes && in->upd.kind == ISA_UPD_dec) taken++;
  if (takes && in->upd.kind == ISA_UPD_sub) taken += in->upd.value;
  return taken;
}

static void find_counted(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                         const vm_ck_step *w, vm_ck_advice *out) {
  sums s = add_up(c, m, u, out->first, out->second);
  int64_t taken = taken_after(c, w), before = w && !w->made ? w->want - (int64_t)w->value : taken;
  out->enough = out->waited >= s.natural - before;
  bool others = s.others > s.natural || out->enough;
  out->other = others ? s.other : NULL;
  out->value = (others ? s.all : s.natural) - taken;
}

int64_t vm_ck_value_for(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                        const vm_ck_access *first, const vm_ck_access *second,
                        const vm_ck_spot *spot, int more) {
  const vm_ck_log *g = &c->check->log;
  sums s = {.natural = 0};
  if (second) s = add_up(c, m, u, first, second);
  unsigned e = spot->access ? spot->access->engine : spot->update->engine;
  uint32_t at = spot->access ? spot->access->at : spot->update->at;
  const vm_ck_step *w = NULL;
  for (uint32_t i = 0; i < g->nsteps; i++) {
    const vm_ck_step *x = &g->steps[i];
    bool is_wait = x->kind == VM_CK_WAIT && x->engine == e && x->sem == u->sem && x->at < at;
    if (is_wait && (!w || x->at > w->at)) w = x;
  }
  int64_t unit = u->delta, v = s.natural;
  for (uint32_t i = 0; u->ring && i < g->nupdates; i++) {
    const vm_ck_signal *x = &g->updates[i];
    if (x != u && x->ring && x->pc == u->pc && x->step == u->step && x->epoch == u->epoch &&
        x->engine == u->engine && x->sem == u->sem)
      unit += x->delta;
  }
  if (more > 0) v = s.natural + more * unit < s.all ? s.natural + more * unit : s.all;
  if (more < 0) v = s.all;
  return v - taken_after(c, w);
}

/* What an update, if there is one, does for an order. */
static void find_by(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                    vm_ck_advice *out) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_access *first = out->first, *second = out->second;
  out->engine = second->engine;
  out->pc = second->pc;
  out->drain = first->queue == VM_CK_QUEUES && second->queue < VM_CK_QUEUES &&
               first->engine == second->engine;
  if (!u || (out->drain && !(g->waiters[u->sem] >> second->engine & 1))) return;
  waits before;
  find_waits(c, second, &before);
  const vm_ck_step *w = before.last[u->sem];
  out->there = w && w->at > before.since;
  out->drain = false;
  out->sem = u->sem;
  out->waits = w != NULL;
  out->waited = w ? (int64_t)w->value : -1;
  out->waited_pc = w ? w->pc : 0;
  if (g->mixed[u->sem])
    find_mixed(c, u, w, out);
  else
    find_counted(c, m, u, w, out);
  out->signals = out->value > 0 || out->falls; /* else it has been taken */
  out->stale = out->stale && out->signals;
  if (out->stale) out->rank = RANK_STALE;
  if (out->stale) return;
  const isa_insn *at = w ? vm_ck_insn(c, second->engine, w->pc) : NULL;
  out->takes = g->takers[u->sem] && at && at->op == ISA_OP_event_semaphore;
  out->alone = g->waiters[u->sem] == 0;
  bool own = u->pc == first->pc && u->engine == first->engine;
  bool unheard = own && !g->waiters[u->sem]; /* it signals, and no engine waits for it */
  if (!out->signals || (w ? out->waited >= out->value : !unheard)) return;
  out->rank = out->rank == RANK_UNWRITTEN ? RANK_SURE : own ? RANK_RAISE : RANK_AFTER;
}

static void find_signal(const vm_core *c, const vm_ck_must *m, vm_ck_advice *out) {
  find_by(c, m, vm_ck_signal_of(c, m, out->first, out->second), out);
}

void vm_ck_advise_by(const vm_core *c, const vm_ck_must *m, const vm_ck_signal *u,
                     const vm_ck_advice *how, vm_ck_advice *out) {
  *out = (vm_ck_advice){.rank = how->rank,
                        .first = how->first,
                        .second = how->second,
                        .early = how->early,
                        .unwritten = how->unwritten};
  find_by(c, m, u, out);
}

void vm_ck_advise_order(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                        const vm_ck_access *second, vm_ck_advice *out) {
  *out = (vm_ck_advice){.rank = RANK_REST, .first = first, .second = second};
  find_signal(c, m, out);
}

void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_must *run,
                  const vm_ck_access *old, const vm_ck_access *a, vm_ck_advice *out) {
  *out = (vm_ck_advice){.rank = RANK_REST};
  decide(c, run, old, a, out);
  if (out->second->engine == VM_CK_PEER) { /* it waits in another rank */
    out->engine = VM_CK_PEER;
    out->pc = out->second->pc;
    return;
  }
  bool sure = out->rank == RANK_UNWRITTEN;
  find_signal(c, m, out);
  if (out->stale && out->first != old) { /* then only their order in the run is known */
    vm_ck_advice plain;
    vm_ck_advise_order(c, m, old, a, &plain);
    if (plain.stale) *out = plain;
  }
  if (sure || out->rank <= RANK_RAISE || out->first->engine == VM_CK_PEER) return;
  /* What changes its bytes in place is one part of what the reader waits for: an existing wait that
   * is too low says more than the bytes do. */
  if (!out->early || !own_read(c, out->second, out->first)) return;
  vm_ck_advice turned = {.rank = RANK_REST, .first = out->second, .second = out->first};
  turned.early = !turned.first->writes;
  find_signal(c, m, &turned);
  if (turned.rank == RANK_RAISE) *out = turned;
}

/* ---- Text ---------------------------------------------------------------------------------- */

void vm_ck_put_who(const vm_core *c, const vm_ck_access *a, isa_buf *out) {
  vm_ck_spoke at;
  if (a->engine == VM_CK_PEER) {
    vm_ck_peer_core(c, a->pc, &at);
    isa_buf_printf(out, "a push of rank %u", at.rank);
    return;
  }
  if (a->queue < VM_CK_QUEUES)
    isa_buf_printf(out, "a transfer of %squeue %s", vm_ck_whose(c, a->engine >= ISA_NSEQS),
                   vm_ck_queue_row(c, a->queue)->name);
  else
    isa_buf_puts(out, vm_ck_name(c, a->engine));
}

/* "; it waits for 15 at p.s:3". */
static void put_waited(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  if (!a->waits) isa_buf_puts(out, "; it does not wait for it at all");
  if (!a->waits) return;
  unsigned cond = vm_ck_insn(c, a->engine, a->waited_pc)->wait.cond;
  isa_buf_puts(out, "; it waits for ");
  if (cond != ISA_WAIT_ge) isa_buf_printf(out, "%s ", isa_cond_text(cond));
  isa_buf_printf(out, "%lld", (long long)a->waited);
  if (a->waited_pc == a->pc) return;
  isa_buf_puts(out, " at ");
  vm_ck_put_site(c, a->engine, a->waited_pc, out);
}

/* Why the value must include all updates. */
static void put_other(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  const vm_ck_access *first = a->first;
  isa_buf_puts(out, ", since ");
  vm_ck_put_site(c, a->other->engine, a->other->pc, out);
  bool again = a->other->pc == first->pc && a->other->engine == first->engine;
  isa_buf_puts(out, again ? " adds to it again" : " adds to it as well");
}

/* " in round 2, and for 16 more in each round after it". */
static void put_rounds(const vm_ck_advice *a, isa_buf *out) {
  if (a->round > 1) isa_buf_printf(out, " in round %u", a->round);
  if (!a->again) return;
  isa_buf_puts(out, ", and for ");
  if (a->step > 0) isa_buf_printf(out, "%lld ", (long long)a->step);
  isa_buf_puts(out, "more in each round");
  if (a->round > 1) isa_buf_puts(out, " after it");
}

static void put_wait(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  isa_buf_printf(out, "%s must wait for ", vm_ck_name(c, a->engine));
  vm_ck_put_sem(c, a->sem, out);
  isa_buf_printf(out, " %s %lld before ", a->falls ? "<=" : ">=", (long long)a->value);
  vm_ck_put_site(c, a->engine, a->pc, out);
  put_rounds(a, out);
  if (a->take) return;
  if (a->other) put_other(c, a, out);
  put_waited(c, a, out);
  if (a->other) isa_buf_puts(out, ". A semaphore of its own would do too");
}

/* Whether each wait of the engine could use that value, given the sum of all increments. */
static bool is_there_enough(const vm_core *c, const vm_ck_advice *a) {
  const vm_ck_log *g = &c->check->log;
  int64_t all = 0;
  for (uint32_t i = 0; i < g->nupdates; i++)
    if (g->updates[i].sem == a->sem && g->updates[i].delta > 0) all += g->updates[i].delta;
  for (uint32_t i = 0; i < g->nsteps; i++)
    if (g->steps[i].kind == VM_CK_WAIT && g->steps[i].sem == a->sem) all -= a->value;
  return all >= 0;
}

/* A wait that also subtracts what it has waited for is right in every round. */
static void put_take(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  bool rises = a->again && a->step == a->value && a->alone && a->round <= 1;
  bool way = a->tried ? a->raise || rises : rises || (a->takes && is_there_enough(c, a));
  if (!way && !a->take) return;
  isa_buf_puts(out, a->take ? " and take it: event_semaphore " : ". One way: event_semaphore ");
  vm_ck_put_sem(c, a->sem, out);
  isa_buf_printf(out, ">=%lld ", (long long)a->value);
  vm_ck_put_sem(c, a->sem, out);
  isa_buf_printf(out, "-=%lld", (long long)a->value);
}

/* The wait has held, and what it waits for does not tell of the first. */
static void put_stale(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  unsigned e = a->second->engine, cond = vm_ck_insn(c, e, a->waited_pc)->wait.cond;
  isa_buf_printf(out, "what %s waits for at ", vm_ck_name(c, e));
  vm_ck_put_site(c, e, a->waited_pc, out);
  isa_buf_puts(out, ", ");
  vm_ck_put_sem(c, a->sem, out);
  isa_buf_printf(out, " %s %lld, can hold before ", isa_cond_text(cond), (long long)a->waited);
  vm_ck_put_site(c, a->first->engine, a->first->pc, out);
  isa_buf_puts(out, " is over: ");
  if (!a->tried) isa_buf_puts(out, "signal it with a semaphore of its own that only counts up");
}

/* What has to signal that the first access is over, when nothing does. */
static void put_missing(const vm_core *c, const vm_ck_advice *a, isa_buf *out) {
  const vm_ck_access *first = a->first, *second = a->second;
  const isa_update *u = &vm_ck_insn(c, first->engine, first->pc)->upd;
  unsigned core = first->engine >= ISA_NSEQS, other = second->engine >= ISA_NSEQS;
  bool has = u->kind != ISA_UPD_none && first->queue == VM_CK_QUEUES;
  if (core != other)
    isa_buf_printf(out, "core %u must update a semaphore of core %u when ", core, other);
  else if (has && !u->at_read)
    isa_buf_printf(out, "%s must drain and update a semaphore of its own after ",
                   vm_ck_name(c, first->engine));
  vm_ck_put_site(c, first->engine, first->pc, out);
  if (core != other)
    isa_buf_puts(out, " is over, and ");
  else if (has && u->at_read)
    isa_buf_puts(out, " must update its semaphore when it is complete, without @read, and ");
  else
    isa_buf_puts(out, has ? ", and " : " must update a semaphore, and ");
  isa_buf_printf(out, "%s wait for it before ", vm_ck_name(c, second->engine));
  vm_ck_put_site(c, second->engine, second->pc, out);
  if (core == other) put_rounds(a, out);
}

void vm_ck_put_advice(const vm_core *c, const vm_ck_advice *a, vm_finding *f) {
  const vm_ck_access *first = a->first, *second = a->second;
  isa_buf *out = &f->text;
  bool pushed = first->engine == VM_CK_PEER || second->engine == VM_CK_PEER;
  isa_buf_puts(out, "\n  fix: ");
  if (a->early && second->writes && !a->stale) {
    vm_ck_put_site(c, second->engine, second->pc, out);
    isa_buf_puts(out, " overwrites too early what ");
    vm_ck_put_site(c, first->engine, first->pc, out);
    isa_buf_puts(out, " reads: ");
  }
  uint32_t start = (uint32_t)out->len;
  if (a->relay || a->next) {
    vm_ck_put_site(c, a->engine, a->pc, out);
    isa_buf_puts(out, a->next ? " adds to its semaphore before " : " signals before ");
    vm_ck_put_site(c, first->engine, first->pc, out);
    isa_buf_puts(out, " is over: ");
  }
  if (a->drain) {
    isa_buf_printf(out, "%s must drain before ", vm_ck_name(c, a->engine));
    if (a->relay)
      vm_ck_put_site(c, a->engine, a->pc, out);
    else
      isa_buf_puts(out, "it triggers the transfer");
  } else if (!a->signals || a->stale) {
    if (a->stale) put_stale(c, a, out);
    if (pushed)
      vm_ck_put_missing_push(c, a, out);
    else if (!a->stale || a->tried)
      put_missing(c, a, out);
  } else {
    put_wait(c, a, out);
    put_take(c, a, out);
  }
  if (pushed || first->engine / ISA_NSEQS == second->engine / ISA_NSEQS) return;
  f->fix = start;
  f->fix_end = (uint32_t)out->len;
}
