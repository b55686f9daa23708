/* Idle gaps: the time between the spans in which an engine's data path is busy. The wait that takes
 * most of a gap is its reason; the update that ended the wait shows what was late. */
#include "record.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct gap {
  vm_time start, end, waited, waits; /* waited: by the longest wait; waits: by all */
  uint32_t wait;                     /* the event + 1, 0: none */
  uint8_t engine, kind;
} gap;

typedef struct gaps {
  vm_rec_view t;
  const uint32_t *order;
  gap *v;
  uint32_t n, cap;
  bool failed;
} gaps;

static void add_gap(gaps *g, unsigned engine, unsigned kind, vm_time start, vm_time end) {
  /* Spans that touch leave no gap. */
  if (start >= end) return;
  if (g->n == g->cap && !isa_array_grow(&g->t.al, &g->v, g->n, &g->cap, sizeof *g->v)) {
    g->failed = true;
    return;
  }
  g->v[g->n++] =
      (gap){.start = start, .end = end, .engine = (uint8_t)engine, .kind = (uint8_t)kind};
}

/* The gaps of one engine in order of time; none if its data path did nothing. engine: numbered over
 * both cores.
 * begin: 0, or the first recorded event where the recorder has only a part. */
static void find_gaps(gaps *g, unsigned engine, vm_time begin, vm_time end) {
  vm_time busy = begin;
  bool ran = false;
  for (uint32_t k = 0; k < g->t.n; k++) {
    const vm_rec_event *v = vm_rec_at(g->t.r, g->order[k]);
    if (!vm_rec_is_work(v) || vm_rec_track(v) != engine) continue;
    add_gap(g, engine, SOMA_GAP_SEQUENCER, busy, v->start);
    /* Spans may overlap: the end only moves forward. */
    busy = v->end > busy ? v->end : busy;
    ran = true;
  }
  /* An engine that did nothing has no gaps. */
  if (ran) add_gap(g, engine, SOMA_GAP_END, busy, end);
}

/* Adds their longest waits to the gaps from `first` on, which belong to one engine. */
static void find_waits(gaps *g, unsigned engine, uint32_t first) {
  for (uint32_t k = 0; k < g->t.n; k++) {
    const vm_rec_event *v = vm_rec_at(g->t.r, g->order[k]);
    if (!vm_rec_is_wait(v) || vm_rec_track(v) != engine) continue;
    /* Gaps and waits are both in order of time. */
    while (first < g->n && g->v[first].end <= v->start) first++;
    /* A wait may reach over several gaps, as a gap may hold several waits. */
    for (uint32_t i = first; i < g->n && g->v[i].start < v->end; i++) {
      gap *x = &g->v[i];
      vm_time from = v->start > x->start ? v->start : x->start;
      vm_time to = v->end < x->end ? v->end : x->end;
      if (to <= from) continue;
      x->waits += to - from;
      /* The longest of several waits is the reason. */
      if (to - from <= x->waited) continue;
      x->waited = to - from;
      x->wait = g->order[k] + 1;
    }
  }
}

/* A gap belongs to its longest wait if waits take half of it or more.
 * Else the sequencer itself was slow: control instructions, hazards, tables. */
static void judge(const gaps *g, gap *x) {
  if (x->kind == SOMA_GAP_SEQUENCER && x->wait && x->waits >= (x->end - x->start) / 2) {
    bool meets = vm_rec_at(g->t.r, x->wait - 1)->kind == VM_EV_MEET;
    x->kind = meets ? SOMA_GAP_MEETING : SOMA_GAP_SEMAPHORE;
    return;
  }
  x->wait = 0;
  x->waited = 0;
}

/* The largest first; ties by time, so that the order is the same everywhere. */
static int by_length(const void *a, const void *b) {
  const gap *x = a, *y = b;
  vm_time lx = x->end - x->start, ly = y->end - y->start;
  if (lx != ly) return lx > ly ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return x->engine - y->engine;
}

/* ">=16", or ">=r3" where a register has the number. */
static void put_condition(const isa_wait *w, char *out, size_t room) {
  if (w->cond < ISA_NCONDS && w->cond != ISA_WAIT_none)
    snprintf(out, room, "%s%s%u", isa_cond_text(w->cond), w->is_reg ? "r" : "", (unsigned)w->value);
}

static const char *file_of(const gaps *g, isa_line at) {
  return at.file ? vm_rec_file(&g->t, at.file) : NULL;
}

/* The engine whose instruction event u is about: an update, or the other core's wait at a
 * sendrecv.
 * What was late is described by its instruction: by name, place and queue. */
static void describe_late(const gaps *g, const vm_rec_event *u, soma_idle_gap *out) {
  uint32_t number;
  const isa_core *core = &g->t.p->cores[u->by_core];
  const isa_insn *in = vm_rec_insn(&g->t, u, &number);
  isa_line at = vm_rec_line(&g->t, u);
  out->reached = u->value;
  if (!in) return; /* the host's own update */
  out->late_engine = u->engine;
  out->late_core = u->by_core;
  out->late_pc = u->pc;
  out->late_line = at.line;
  out->late_file = file_of(g, at);
  out->late_name = isa_ops[in->op].name;
  out->late_queue = isa_insn_queue(in);
  if (out->late_queue >= 0 && (uint32_t)out->late_queue < core->nqueues)
    out->queue_name = core->queues[out->late_queue].name;
}

static soma_idle_gap describe(const gaps *g, const uint32_t *from, const gap *x) {
  soma_idle_gap out = {.kind = (soma_gap_kind)x->kind,
                       .engine = (soma_engine)(x->engine % ISA_NENGINES),
                       .core = x->engine / ISA_NENGINES,
                       .start = x->start,
                       .end = x->end,
                       .waited = x->waited,
                       .semaphore = -1,
                       .late_engine = -1,
                       .late_queue = -1};
  /* A gap without a wait has only its times. */
  if (!x->wait) return out;
  uint32_t number;
  const vm_rec_event *w = vm_rec_at(g->t.r, x->wait - 1);
  const isa_insn *in = vm_rec_insn(&g->t, w, &number);
  isa_line at = vm_rec_line(&g->t, w);
  out.pc = w->pc;
  out.line = at.line;
  out.file = file_of(g, at);
  if (w->kind == VM_EV_MEET) { /* its own event may have been dropped */
    const vm_rec_event late = {.kind = VM_EV_MEET,
                               .core = w->core ? 0 : 1,
                               .by_core = w->by_core ? 0 : 1,
                               .engine = w->part & 255u,
                               /* On one core nobody can meet. */
                               .pc = w->value};
    if (g->t.p->ncores > 1) describe_late(g, &late, &out);
    out.late_queue = -1; /* the engine that came late */
    out.queue_name = NULL;
    return out;
  }
  out.semaphore = (int)w->id;
  if (w->id < ISA_NSEMS) out.semaphore_name = g->t.p->cores[w->core].sem_names[w->id];
  if (in) put_condition(&in->wait, out.condition, sizeof out.condition);
  if (from[x->wait - 1]) describe_late(g, vm_rec_at(g->t.r, from[x->wait - 1] - 1), &out);
  return out;
}

/* Whom the engine waited for, as a number: put_idle adds up by it. */
unsigned vm_rec_gap_for(const soma_idle_gap *g) {
  if (g->kind == SOMA_GAP_END) return VM_REC_FOR_END;
  if (g->kind == SOMA_GAP_SEQUENCER) return VM_REC_FOR_ITSELF;
  if (g->late_queue >= 0 && g->late_queue < ISA_MAX_QUEUES)
    return vm_rec_queue(g->late_core, (unsigned)g->late_queue);
  if (g->late_engine < 0) return VM_REC_FOR_HOST;
  return VM_REC_FOR_ENGINE + vm_rec_unit(g->late_core, (unsigned)g->late_engine);
}

soma_status soma_idle_gaps(const soma_recorder *r, const soma_program *p, soma_idle_gap *out,
                           uint32_t max, uint32_t *n) {
  if (!r || !p || !n || (!out && max)) return SOMA_ARG;
  gaps g = {0};
  *n = 0;
  if (!vm_rec_open(&g.t, r, p)) return SOMA_NOMEM;
  uint32_t *order = vm_rec_by_start(&g.t), *from = vm_rec_links(&g.t);
  /* From 0 for a whole run: an engine that starts late has been idle since then. */
  vm_time begin = g.t.part ? g.t.begin : 0;
  g.order = order;
  for (unsigned e = 0; order && from && e < VM_REC_ENGINES; e++) {
    uint32_t first = g.n;
    find_gaps(&g, e, begin, g.t.total);
    find_waits(&g, e, first);
    for (uint32_t i = first; i < g.n; i++) judge(&g, &g.v[i]);
  }
  soma_status s = order && from && !g.failed ? SOMA_OK : SOMA_NOMEM;
  if (g.n) qsort(g.v, g.n, sizeof *g.v, by_length);
  /* *n is the number of all gaps, so a caller can ask for the room first. */
  for (uint32_t i = 0; s == SOMA_OK && i < g.n && i < max; i++)
    out[i] = describe(&g, from, &g.v[i]);
  if (s == SOMA_OK) *n = g.n;
  vm_rec_free_array(&g.t, order, sizeof *order);
  vm_rec_free_array(&g.t, from, sizeof *from);
  isa_free(&g.t.al, g.v, g.cap * sizeof *g.v);
  vm_rec_close(&g.t);
  return s;
}
