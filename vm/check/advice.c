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

/* Whether the reader's engine has waited for as much as write `w` and all that came before it add:
 * it came for this one, even where what nothing holds back could stand in for it. */
static bool is_waited_for(const vm_core *c, const vm_ck_access *w, const vm_ck_access *read) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_signal *own = NULL;
  int64_t sum = 0;
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    bool same = u->comp == w->comp && u->epoch == w->epoch;
    if (same && (g->waiters[u->sem] >> read->engine & 1)) own = u;
  }
  const vm_ck_step *s = own ? last_wait(c, read->engine, own->sem, read->at) : NULL;
  if (!s || s->kind != VM_CK_WAIT) return false;
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    bool with = u->at <= own->at || (own->ring && u->pc == own->pc && u->epoch == own->epoch);
    if (u->sem == own->sem && u->delta > 0 && with) sum += u->delta;
  }
  return s->want >= sum;
}

/* The last write of the bytes of both that the reader knows of; NULL: none. */
static const vm_ck_access *last_known_write(const vm_core *c, const vm_ck_must *m,
                                            const vm_ck_access *read, const vm_ck_access *write) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = read->logged - 1; i-- > 0;) {
    const vm_ck_access *w = &g->accesses[i];
    bool same = w->comp == write->comp && w->epoch == write->epoch;
    bool other_share = w->transfer && w->transfer == write->transfer;
    if (!w->writes || same || other_share || !vm_ck_race_meet(w, read) ||
        !vm_ck_race_meet(w, write))
      continue;
    if (comes_before(m, w, read) || is_waited_for(c, w, read)) return w;
  }
  return NULL;
}

/* Whether a read after write `w` of those bytes is known to be over when `write` begins. */
static bool is_given_back(const vm_core *c, const vm_ck_must *m, const vm_ck_access *w,
                          const vm_ck_access *read, const vm_ck_access *write) {
  const vm_ck_log *g = &c->check->log;
  for (uint32_t i = w->logged; i < g->naccesses && g->accesses[i].at < write->at; i++) {
    const vm_ck_access *r = &g->accesses[i];
    if (r->writes || r == read || (r->pc == read->pc && r->epoch == read->epoch)) continue;
    if (vm_ck_race_meet(r, write) && comes_before(m, r, write)) return true;
  }
  return false;
}

static bool has_contents(const vm_core *c, const vm_ck_access *a) {
  uint32_t tensor = c->check->regions[a->region].tensor;
  return tensor && c->prog->tensors[tensor - 1].role != ISA_TEMP &&
         c->prog->tensors[tensor - 1].role != ISA_OUTPUT;
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

static void decide(const vm_core *c, const vm_ck_must *m, const vm_ck_access *old,
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
  const vm_ck_access *w = last_known_write(c, m, read, write);
  out->early = (w && !is_given_back(c, m, w, read, write)) || (!w && has_contents(c, read));
  if (!w && !out->early) out->rank = RANK_UNWRITTEN;
  out->first = out->early ? read : write;
  out->second = out->early ? write : read;
}

/* ---- What tells of the first --------------------------------------------------------------- */

/* The update to wait for: of a semaphore that the other engine waits for, where there is one, and
 * as soon as possible after the access. */
static const vm_ck_signal *signal_of(const vm_core *c, const vm_ck_must *m,
                                     const vm_ck_access *first, const vm_ck_access *second) {
  const vm_ck_log *g = &c->check->log;
  const vm_ck_signal *best = NULL;
  bool best_waits = false;
  for (uint32_t i = 0; i < g->nupdates; i++) {
    const vm_ck_signal *u = &g->updates[i];
    bool ring = first->queue < ISA_MAX_QUEUES;
    bool own = ring ? u->ring == first->comp : !u->ring && u->engine == first->engine;
    if (!own || !vm_ck_must_tells(m, u, first->comp, first->epoch)) continue;
    bool waits = g->waiters[u->sem] >> second->engine & 1;
    if (best && (best_waits || !waits) && (best_waits != waits || best->at <= u->at)) continue;
    best = u;
    best_waits = waits;
  }
  return best;
}

/* The sums of increments: up to the update and what tells of the same instruction or transfer; of
 * those of others that can come without it, and one more; and of all that can come before
 * `second`. */
typedef struct sums {
  int64_t natural, others, all;
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
    if (!same && !vm_ck_must_tells(m, u, first->comp, first->epoch)) s.others += u->delta;
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
    out->others = s.others > s.natural || out->waited >= s.natural - taken;
    out->value = (out->others ? s.all : s.natural) - taken;
  }
  if (out->value <= 0) out->signals = false; /* it has been taken */
  const isa_insn *at = w ? &c->code->code[second->engine].insns[w->pc] : NULL;
  out->takes = g->takers[u->sem] && at && at->op == ISA_OP_event_semaphore;
  bool own = u->pc == first->pc && u->engine == first->engine;
  bool unheard = own && !g->waiters[u->sem]; /* it tells, and nobody listens */
  if (!out->signals || (w ? out->waited >= out->value : !unheard)) return;
  out->rank = out->rank == RANK_UNWRITTEN ? RANK_SURE : own ? RANK_RAISE : RANK_AFTER;
}

void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_access *old,
                  const vm_ck_access *a, vm_ck_advice *out) {
  *out = (vm_ck_advice){.rank = RANK_REST};
  decide(c, m, old, a, out);
  bool sure = out->rank == RANK_UNWRITTEN;
  find_signal(c, m, out);
  if (sure || out->rank <= RANK_RAISE) return;
  /* A wait that is there for the other way, and too low, tells more than the bytes do. */
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
  if (a->again || a->takes) {
    isa_buf_printf(out, "%s (event_semaphore ", a->again ? ", and for more in each round" : "");
    vm_put_sem(c, a->sem, out);
    isa_buf_printf(out, ">=%lld ", (long long)a->value);
    vm_put_sem(c, a->sem, out);
    isa_buf_printf(out, "-=%lld takes it)", (long long)a->value);
  }
  if (!a->waits) {
    isa_buf_puts(out, "; it does not wait for it at all");
    return;
  }
  isa_buf_printf(out, "; it waits for %lld", (long long)a->waited);
  if (a->waited_pc == second->pc) return;
  isa_buf_puts(out, " at ");
  vm_put_place(c, second->engine, a->waited_pc, out);
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
  } else if (a->others) {
    isa_buf_puts(out, "others update ");
    vm_put_sem(c, a->sem, out);
    isa_buf_printf(out, " as well: %s must wait for all of them, ", waiter);
    vm_put_sem(c, a->sem, out);
    isa_buf_printf(out, " >= %lld here, or for a semaphore of its own", (long long)a->value);
  } else {
    put_wait(c, a, out);
  }
}
