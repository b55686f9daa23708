/* The record of causes: what determined the start of each instruction, share and wait. It is kept
 * only on request; a walk back from the last node gives the critical path. */
#include "../engine/engine.h"
#include "clock.h"

uint32_t vm_path_append(vm_core *c, vm_node_kind kind, vm_where by, vm_time start, vm_time end,
                        vm_cause cause) {
  vm_path *p = c->path;
  if (p->n == p->cap && !isa_array_grow(&c->al, &p->v, p->n, &p->cap, sizeof *p->v)) {
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the record of causes, which has %u nodes",
             p->n);
    return 0;
  }
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
  if (p->last == 0 || end >= p->v[p->last - 1].end) p->last = p->n;
  return p->n;
}

void vm_path_delay(vm_core *c, uint32_t n, vm_time start, vm_time end) {
  vm_path *p = c->path;
  if (!p || !n) return;
  p->v[n - 1].start = start;
  p->v[n - 1].end = end;
  if (end >= p->v[p->last - 1].end) p->last = n;
}

bool vm_path_start(vm_run *r) {
  vm_path *p = isa_zalloc(&r->al, sizeof *p);
  for (unsigned i = 0; i < r->n; i++) r->cores[i]->path = p;
  return p != NULL;
}

void vm_path_free(vm_core *c) {
  if (!c->path) return;
  isa_free(&c->al, c->path->v, c->path->cap * sizeof *c->path->v);
  isa_free(&c->al, c->path, sizeof *c->path);
  c->path = NULL;
}

void vm_path_walk(const vm_path *p,
                  void (*fn)(void *ud, const vm_node *n, vm_time from, vm_time until, bool gap),
                  void *ud) {
  vm_node sequencer = {.kind = VM_N_SEQ, .why = VM_WHY_START};
  vm_time until = p->last ? p->v[p->last - 1].end : 0;
  for (uint32_t at = p->last; at;) {
    const vm_node *n = &p->v[at - 1];
    const vm_node *from = n->cause ? &p->v[n->cause - 1] : NULL;
    if (n->start < until) fn(ud, n, n->start, until, false);
    until = n->start < until ? n->start : until;
    vm_time bound = n->bound, since = from ? from->end : 0;
    if (bound < until) { /* the sequencer's own instructions before it */
      sequencer.who = sequencer.by = n->by;
      sequencer.pc = n->pc;
      sequencer.core = n->core;
      fn(ud, &sequencer, bound, until, false);
      until = bound;
    }
    if (since < until) { /* from the cause to its effect; without a node a table, or the host */
      fn(ud, n, since, until, true);
      until = since;
    }
    at = n->cause;
  }
}
