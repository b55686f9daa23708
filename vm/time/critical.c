/* The record of causes: what determined the start of each instruction, share and wait. It is kept
 * only on request; a walk back from the last node gives the critical path. */
#include "../engine/engine.h"
#include "../message.h"
#include "clock.h"

uint32_t vm_path_append(vm_core *c, vm_node_kind kind, vm_where by, vm_time start, vm_time end,
                        vm_cause cause) {
  /* The record may be large: a fault says how large. */
  vm_path *p = c->path;
  if (p->n == p->cap && !isa_array_grow(&c->al, &p->v, p->n, &p->cap, sizeof *p->v)) {
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the record of causes, which has %u nodes",
             p->n);
    return 0;
  }
  /* A cause is never later than what it causes. */
  p->v[p->n++] = (vm_node){.start = start,
                           .end = end,
                           .bound = cause.time < start ? cause.time : start,
                           .cause = cause.node,
                           .pc = by.pc,
                           .kind = (uint8_t)kind,
                           .core = c->number,
                           .who = (uint8_t)(kind == VM_N_SHARE ? by.dma : by.engine),
                           .by = (uint8_t)by.engine,
                           .why = cause.why,
                           .sem = cause.sem};
  /* With the same end the newest: it is the one that ended the run. */
  if (p->last == 0 || end >= p->v[p->last - 1].end) p->last = p->n;
  return p->n;
}

void vm_path_delay(vm_core *c, uint32_t n, vm_time start, vm_time end) {
  vm_path *p = c->path;
  if (!p || !n) return;
  p->v[n - 1].start = start;
  p->v[n - 1].end = end;
  /* The delayed one may now end last. */
  if (end >= p->v[p->last - 1].end) p->last = n;
}

bool vm_path_start(vm_run *r) {
  vm_path *p = isa_zalloc(&r->al, sizeof *p);
  /* One record for all cores: causes cross between them. */
  for (unsigned i = 0; i < r->n; i++) r->cores[i]->path = p;
  return p != NULL;
}

void vm_path_free(vm_core *c) {
  if (!c->path) return;
  isa_free(&c->al, c->path->v, c->path->cap * sizeof *c->path->v);
  isa_free(&c->al, c->path, sizeof *c->path);
  c->path = NULL;
}

uint32_t vm_path_peer(vm_core *c, uint32_t from, vm_where by, uint32_t cause) {
  /* The sender keeps no record. */
  if (!c->path || !cause) return 0;
  vm_cause why = {.node = cause, .why = VM_WHY_PEER, .time = c->now};
  uint32_t n = vm_path_append(c, VM_N_SEQ, by, c->now, c->now, why);
  if (!n) return 0;
  /* From 1, since 0 is this rank's own record. */
  c->path->v[n - 1].peer = from + 1;
  c->path->v[n - 1].core = by.core;
  return n;
}

/* The core whose record has the cause of a node; NULL: the world has ended, or a saved one was
 * wrong. */
static const vm_core *cause_of(const vm_core *c, const vm_node *n) {
  if (!n->peer) return c;
  /* A rank's record is that of its core 0. */
  const vm_core *there = c->run->peers ? c->run->peers->runs[n->peer - 1]->cores[0] : NULL;
  return there && there->path && n->cause <= there->path->n ? there : NULL;
}

/* A walk back meets no node twice; in a saved world that was wrong causes could form a circle. */
static uint64_t nodes_of(const vm_core *c) {
  const vm_peers *w = c->run->peers;
  uint64_t n = w ? 0 : c->path->n;
  for (uint32_t r = 0; w && r < w->nranks; r++)
    if (w->runs[r]->cores[0]->path) n += w->runs[r]->cores[0]->path->n;
  return n;
}

void vm_path_walk(const vm_core *c, vm_path_fn *fn, void *ud) {
  const vm_path *p = c->path;
  vm_node sequencer = {.kind = VM_N_SEQ, .why = VM_WHY_START};
  vm_time until = p->last ? p->v[p->last - 1].end : 0;
  /* As many steps as there are nodes, at most. */
  uint64_t left = nodes_of(c);
  for (uint32_t at = p->last; at && left; left--) {
    const vm_node *n = &p->v[at - 1];
    const vm_core *there = cause_of(c, n);
    const vm_node *from = n->cause && there ? &there->path->v[n->cause - 1] : NULL;
    /* The node's own time, as far as nothing later has taken it. */
    if (n->start < until) fn(ud, c, n, n->start, until, false);
    until = n->start < until ? n->start : until;
    vm_time bound = n->bound, since = from ? from->end : 0;
    if (bound < until) { /* the sequencer's own instructions before it */
      sequencer.who = sequencer.by = n->by;
      sequencer.pc = n->pc;
      sequencer.core = n->core;
      fn(ud, c, &sequencer, bound, until, false);
      until = bound;
    }
    if (since < until) { /* from the cause to its effect; without a node a table, or the host */
      fn(ud, from ? there : c, n, since, until, true); /* a message's is its sender's */
      until = since;
    }
    /* The first node has no cause: the run's start. */
    at = from ? n->cause : 0;
    if (from) c = there, p = c->path;
  }
}
