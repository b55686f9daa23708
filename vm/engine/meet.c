/* Where the two cores of a pair meet: core_barrier, the two sendrecvs of a pipe, and a collective
 * of both. */
#include "engine.h"
#include "../time/clock.h"
#include "../dma/dma.h"

#include <string.h>

static vm_time ns(const vm_core *c, vm_cost_id id) { return (vm_time)c->cost[id] * VM_NS; }

static const isa_insn *at_pc(const vm_engine *en) { return &en->code->insns[en->pc]; }

/* ---- core_barrier -------------------------------------------------------------------------- */

vm_verdict vm_barrier(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  isa_barrier b;
  isa_insn_barrier(in, c->number, &b);
  if (!en->triggered) {
    vm_tell_barrier(c, e, in);
    en->now += ns(c, VM_SEM_SELF);
    c->cause = vm_path_add(c, VM_N_SEQ, vm_at_pc(c, e, en->pc), c->now, en->now, en->cause);
    vm_tell_update(c, e, &b.give);
    vm_sem_post(c, &b.give, en->now, vm_at_pc(c, e, en->pc));
    en->triggered = 1;
    en->wait_noted = false; /* the wait of its clause has been reported */
  }
  if (vm_blocked(c, e, &b.wait)) return VM_STALL;
  vm_tell_waited(c, e, &b.wait);
  vm_tell_applied(c, e, b.take.sem, b.take.kind);
  vm_sem_apply(c, &b.take, vm_at_pc(c, e, en->pc));
  return VM_RETIRE;
}

int vm_meet_key(const isa_insn *in) {
  /* Above all pipes, so that a sendrecv never meets a collective. */
  enum { COLLECTIVES = 1 << 8 };
  return isa_op_is_collective(in->op) ? COLLECTIVES + isa_collective_of(in).stream
                                      : isa_insn_pipe(in);
}

/* ---- Meetings ------------------------------------------------------------------------------ */

/* An engine of each core of a run comes to an instruction with one key, which for a sendrecv is its
 * pipe and for a collective its stream; when the last has come, they act together and go on. */
typedef struct side {
  vm_core *c;
  unsigned e;
  vm_engine *en;
  const isa_insn *in;
  vm_time heard;  /* when it knows that all have come */
  vm_view end[2]; /* of a sendrecv: dst, src */
} side;
typedef struct meeting {
  unsigned n;
  side side[ISA_MAX_CORES]; /* the last to come is the first here */
} meeting;

static side side_of(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  return (side){.c = c, .e = e, .en = en, .in = at_pc(en)};
}

static vm_where place_of(const side *s) { return vm_at_pc(s->c, s->e, s->en->pc); }

/* The engine of c that has waited longest at an instruction with that key, -1: none does. */
static int first_at(const vm_core *c, int key) {
  int first = -1;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const vm_engine *en = &c->eng[e];
    /* Each engine that meets stands at its instruction. */
    if (en->state != VM_MEETING || vm_meet_key(at_pc(en)) != key) continue;
    /* The longest wait first: two engines of a core may come to one pipe. */
    if (first < 0 || en->wait_since < c->eng[first].wait_since) first = (int)e;
  }
  return first;
}

/* When a side knows that all have come: of itself at once, of another core when a signal from there
 * could have arrived. */
static vm_time heard_of_all(const meeting *m, const side *s) {
  vm_time all = 0, self = ns(s->c, VM_SEM_SELF);
  for (const side *x = m->side; x < m->side + m->n; x++) {
    /* A signal from the other core takes SEM_PEER. */
    vm_time far = x == s ? 0 : ns(s->c, VM_SEM_PEER);
    all = vm_time_later(all, x->en->wait_since + self + far);
  }
  return all;
}

/* Engine e comes; false: somebody is missing, and it waits. */
static bool come(vm_core *c, unsigned e, int key, meeting *m) {
  const vm_run *r = c->run;
  /* Until the meeting it waits in this state, which deadlocks report. */
  c->eng[e].state = VM_MEETING;
  c->eng[e].wait_since = c->now;
  m->n = 1;
  m->side[0] = side_of(c, e);
  for (unsigned i = 0; i < r->n; i++) {
    int first = r->cores[i] == c ? -1 : first_at(r->cores[i], key);
    if (first >= 0) m->side[m->n++] = side_of(r->cores[i], (unsigned)first);
  }
  if (m->n < r->n) return false;
  for (side *s = m->side; s < m->side + m->n; s++) {
    /* The other core may stand at an earlier time: it acts now. */
    s->c->now = vm_time_later(s->c->now, c->now);
    s->heard = heard_of_all(m, s);
  }
  return true;
}

/* `early` goes on because `late` has come. */
static void note_cause(const side *early, const side *late) {
  const vm_engine *en = late->en;
  uint32_t node =
      vm_path_add(late->c, VM_N_SEQ, place_of(late), late->c->now, late->c->now, en->cause);
  vm_path_set_cause(early->en, (vm_moment){early->heard, node}, VM_WHY_MEET);
}

static void tell_wait(const side *s, const side *other) {
  vm_trace_beside(s->c, &(vm_trace_event){.kind = VM_EV_MEET,
                                          .where = place_of(s),
                                          .id = (uint32_t)isa_insn_pipe(s->in),
                                          .start = s->en->wait_since,
                                          .end = s->heard,
                                          .value = other->en->pc,
                                          .part = other->e});
}

static void note_causes(const meeting *m) {
  const side *last = m->side;
  for (unsigned i = 1; i < m->n; i++) /* The last one has waited for nobody. */
    if (m->side[i].en->wait_since < last->c->now) note_cause(&m->side[i], last);
}

/* All have come, and are about to act. */
static void tell_meeting(const meeting *m) {
  const side *last = m->side;
  note_causes(m);
  for (unsigned i = 0; i < m->n; i++) tell_wait(&m->side[i], i ? last : &m->side[1]);
}

/* A side's sequencer goes on at `at`. */
static void go_on(const side *s, vm_time at) {
  s->en->state = VM_READY;
  /* Its instruction continues after the meeting, when it is tried again. */
  s->en->triggered = 1;
  s->en->now = at;
  s->en->waiting += s->heard - s->en->wait_since;
  vm_post(s->c, VM_E_SEQ, s->e, at, 0);
}

/* ---- sendrecv ------------------------------------------------------------------------------ */

/* dst and src of either kind of sendrecv. */
static uint32_t dst_of(const isa_insn *in) {
  return in->op == ISA_OP_sendrecv ? in->u.SENDRECV.dst : in->u.SENDRECV_GPSIMD.dst;
}
static uint32_t src_of(const isa_insn *in) {
  return in->op == ISA_OP_sendrecv ? in->u.SENDRECV.src : in->u.SENDRECV_GPSIMD.src;
}

static bool resolve(side *s) {
  isa_error err = {.field = ISA_NOFIELD};
  /* Errors are those of its own side: places of the other would confuse. */
  vm_resolver r = {.c = s->c, .e = s->en, .err = &err};
  const char *operand = "dst";
  if (vm_resolve_ap(&r, dst_of(s->in), &s->end[0])) {
    operand = "src";
    if (vm_resolve_ap(&r, src_of(s->in), &s->end[1])) return true;
  }
  vm_fault(s->c, err.status, place_of(s), "operand %s: %s", operand, err.text);
  return false;
}

/* The rings of a side's queue; 0 for gpsimd's own DMA. */
static unsigned rings_of(const side *s) {
  int queue = isa_insn_queue(s->in);
  /* gpsimd's own DMA has no rings. */
  return queue < 0 ? 0 : s->c->code->queues[queue].rings;
}

static void put_size(isa_buf *out, const side *s) {
  const vm_view *v = &s->end[0];
  isa_buf_printf(out, "%u x %llu of %s", v->num[0], (unsigned long long)v->elems,
                 isa_dtypes[v->dtype].name);
  if (rings_of(s)) isa_buf_printf(out, " by %u rings", rings_of(s));
}

/* Both move the same number of elements of one type, in the same way; otherwise a has the fault. */
static bool agree(const side *a, const side *b) {
  const vm_view *x = &a->end[0], *y = &b->end[0];
  if (a->in->op == b->in->op && x->dtype == y->dtype && x->num[0] == y->num[0] &&
      x->elems == y->elems && rings_of(a) == rings_of(b))
    return true;
  isa_buf text;
  isa_buf_init(&text, &a->c->al);
  isa_buf_printf(&text, "%s of pipe %d moves ", isa_ops[a->in->op].name, isa_insn_pipe(a->in));
  put_size(&text, a);
  isa_buf_printf(&text, ", but core %u meets it with %s, ", b->c->number, isa_ops[b->in->op].name);
  put_size(&text, b);
  isa_buf_printf(&text, ", on %s at ", isa_engines[b->e].name);
  vm_put_pc(b->c, b->e, b->en->pc, &text);
  vm_fault(a->c, ISA_FAULT, place_of(a), "%s", isa_buf_str(&text));
  isa_buf_free(&text);
  return false;
}

/* Its own source was checked when it came (not_ready). */
bool vm_meet_operands(vm_resolver *r, vm_flight *f) {
  struct vm_SENDRECV_GPSIMD *a = &f->a.SENDRECV_GPSIMD;
  vm_core *c = vm_core_at(r->c, f->met.core);
  const vm_engine *other = &c->eng[f->met.engine];
  vm_resolver there = {.c = c, .e = other, .err = r->err};
  memset(a, 0, sizeof *a);
  a->pipe = f->in->u.SENDRECV_GPSIMD.pipe;
  return vm_resolve_ap(r, dst_of(f->in), &a->dst) &&
         /* The destination with this engine's registers, the source with the other's. */
         vm_resolve_ap(&there, src_of(&other->code->insns[f->met.pc]), &a->src);
}

static vm_flight *newest(vm_engine *en) {
  return &en->flights[(en->first + en->nflights - 1) % VM_FLIGHTS];
}

static bool issue_half(const side *s, const side *other, vm_time at) {
  vm_engine *en = s->en;
  vm_flight *f = &en->flights[(en->first + en->nflights) % VM_FLIGHTS];
  f->met = place_of(other);
  /* Not before both have come. */
  en->issue_free = vm_later(en->issue_free, (vm_moment){at, en->cause.node});
  if (vm_issue(s->c, s->e, s->in) != VM_RETIRE) return false;
  /* A flight of both: see swap_by_gpsimd. */
  /* The engine's own source is read by the other one's flight, until this one is done as well. */
  vm_view_box(s->c, &s->end[1], &f->item.src[f->item.nsrc++]);
  return true;
}

/* Both flights, from `at` on; they start, read and are done together. */
static bool swap_by_gpsimd(const side *a, const side *b, vm_time at) {
  const side *both[2] = {a, b};
  if (!issue_half(a, b, at) || !issue_half(b, a, at)) return false;
  /* Copies: the loop changes the flights. */
  const vm_flight x = *newest(a->en), y = *newest(b->en);
  const vm_time done = vm_time_later(x.item.done, y.item.done);
  for (unsigned i = 0; i < 2; i++) {
    vm_engine *en = both[i]->en;
    vm_flight *f = newest(en);
    f->item.start = vm_time_later(x.item.start, y.item.start);
    f->streamed = vm_time_later(x.streamed, y.streamed);
    f->read = vm_time_later(x.read, y.read);
    /* The path records the common times. */
    vm_path_delay(both[i]->c, f->node, f->item.start, done);
    /* The one that is done last needs nothing. */
    if (f->item.done == done) continue;
    f->item.done = en->last_done.time = done;
    /* Its end is in the queue of events already, for an earlier time. */
    vm_event_delay_done(both[i]->c, both[i]->e, (uint32_t)(f - en->flights), done);
  }
  return true;
}

/* When the data path of a gpsimd that comes to its sendrecv no longer uses the operands, and could
 * begin; time 0: now. */
static vm_moment not_ready(vm_core *c, unsigned e, const isa_insn *in, isa_error *err) {
  vm_engine *en = &c->eng[e];
  vm_moment m = vm_too_far_ahead(c, en);
  vm_resolver r = {.c = c, .e = en, .err = err};
  const uint32_t ap[2] = {dst_of(in), src_of(in)};
  /* The data path is busy with what was issued before. */
  m = vm_later(m, en->issue_free.time > c->now ? en->issue_free : (vm_moment){0});
  for (unsigned i = 0; i < 2; i++) {
    vm_view v;
    vm_box box;
    bool ok = vm_resolve_ap(&r, ap[i], &v);
    /* The offset is not written yet: nothing more can be said. */
    if (r.ready.time > c->now) return vm_later(m, r.ready);
    if (!ok) {
      err->field = (int)i;
      return m;
    }
    vm_view_box(c, &v, &box);
    const vm_boxes one = {&box, 1}, none = {0};
    /* The destination must not be in use, the source must have been written. */
    m = vm_later(m, vm_own_hazard(c, e, i ? one : none, i ? none : one, c->now));
  }
  return m;
}

/* Whether e's data path is ready for a sendrecv_gpsimd. VM_RETIRE: it is. */
static vm_verdict data_path_ready(vm_core *c, unsigned e, const isa_insn *in) {
  isa_error err = {.field = ISA_NOFIELD};
  vm_moment m = not_ready(c, e, in, &err);
  if (m.time > c->now) return vm_stall(c, e, m, VM_WHY_HAZARD);
  if (err.field == ISA_NOFIELD) return VM_RETIRE;
  vm_fault(c, err.status, vm_at_pc(c, e, c->eng[e].pc), "operand %s: %s", err.field ? "src" : "dst",
           err.text);
  return VM_FAULT;
}

vm_verdict vm_meet(vm_core *c, unsigned e, const isa_insn *in) {
  meeting m;
  if (c->eng[e].triggered) return VM_RETIRE;
  if (in->op == ISA_OP_sendrecv_gpsimd) {
    vm_verdict ready = data_path_ready(c, e, in);
    if (ready != VM_RETIRE) return ready;
  }
  if (!come(c, e, isa_insn_pipe(in), &m)) return VM_STALL;
  side *me = &m.side[0], *you = &m.side[1];
  vm_time at[2] = {me->heard, you->heard};
  const vm_where both[2] = {place_of(me), place_of(you)};
  /* In this order, so that the first to fault is the later of the two cores. */
  if (!resolve(me) || !resolve(you) || !agree(me, you)) return VM_FAULT;
  vm_tell_meet(c, both, (const vm_view *const[2]){me->end, you->end});
  tell_meeting(&m);
  if (in->op == ISA_OP_sendrecv_gpsimd) {
    /* gpsimd's transfer is one of both, and starts when both know. */
    at[0] = at[1] = vm_time_later(at[0], at[1]);
    if (!swap_by_gpsimd(me, you, at[0])) return VM_FAULT;
  } else if (!vm_dma_swap(c->run, both, at)) {
    return VM_FAULT;
  }
  go_on(me, at[0]);
  /* Both engines go on by events at their own times. */
  go_on(you, at[1]);
  return VM_STALL;
}

/* ---- Collectives of both cores -------------------------------------------------------------- */

/* A collective of both is one of the rank: each core's CC sequencers do a part of it, and begin
 * when both engines have come to it. */
vm_verdict vm_meet_collective(vm_core *c, unsigned e, const isa_insn *in) {
  meeting m;
  if (!come(c, e, vm_meet_key(in), &m)) return VM_STALL;
  const side *me = &m.side[0], *you = &m.side[1];
  /* The verifier sees each core alone. */
  if (me->in->op != you->in->op) {
    vm_fault(c, ISA_FAULT, place_of(me), "core %u meets this %s of both cores with %s",
             you->c->number, isa_ops[me->in->op].name, isa_ops[you->in->op].name);
    return VM_FAULT;
  }
  note_causes(&m);
  vm_tell_join(c, (const vm_where[2]){place_of(me), place_of(you)});
  for (unsigned i = 0; i < m.n; i++) go_on(&m.side[i], m.side[i].heard);
  return VM_STALL;
}
