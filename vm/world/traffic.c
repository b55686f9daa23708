/* The messages between LPs: at once to their receivers, or by way of links. */
#include "world.h"
#include "../engine/engine.h"
#include "../time/clock.h"

/* ---- Opening ------------------------------------------------------------------------------ */

static isa_status no_route(const vm_world *w, uint32_t from, uint32_t to, isa_error *e) {
  const vm_links *l = &w->links;
  isa_buf b;
  isa_buf_init(&b, &w->al);
  for (uint32_t i = 0; i < l->n; i++) {
    const vm_link *x = &l->v[i];
    /* A link that has failed is there in both directions: one is enough. */
    if (!vm_links_failed(l, x) || x->from > x->to) continue;
    isa_buf_puts(&b, b.len ? ", " : "");
    vm_links_put(x, &b);
  }
  isa_fail(e, ISA_ARG, ISA_NOFIELD,
           "rank %u sends to rank %u, but there is no route from device %u to device %u of %s: "
           "failed are the links %s",
           from, to, vm_links_device(l, from), vm_links_device(l, to), l->o.of->name,
           isa_buf_str(&b));
  isa_buf_free(&b);
  return ISA_ARG;
}

isa_status vm_world_open_links(vm_world *w, isa_error *e) {
  const uint32_t *cost = w->runs[0]->cost_values;
  vm_links *l = &w->links;
  if (!w->net.of) return ISA_OK;
  w->net.source = cost[VM_DMA_R_OUT];
  w->net.hop = (vm_time)cost[VM_LINK_HOP] * VM_NS;
  w->net.latency = (vm_time)cost[VM_LINK_LAT] * VM_NS;
  w->net.efa = (vm_time)cost[VM_EFA_LAT] * VM_NS;
  w->net.least = cost[VM_LINK_LEAST];
  isa_status s = vm_links_open(l, &w->al, &w->net, e);
  for (uint32_t r = 0; r < w->nranks; r++) w->peers[r].of_device = w->net.ranks_of_device;
  /* Each peer that a program names is reached, or nothing starts. */
  for (uint32_t r = 0; r < w->nranks && s == ISA_OK; r++)
    for (uint32_t i = 0; w->peers[r].ranks && i < w->runs[r]->prog->npeers && s == ISA_OK; i++) {
      uint32_t to = w->peers[r].ranks[i], a = vm_links_device(l, r), b = vm_links_device(l, to);
      if (a != b && !vm_links_route(l, a, b)) s = no_route(w, r, to, e);
    }
  return s;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* A message for a time that its receiver has passed shows that a promise was wrong. */
static void deliver(vm_world *w, const vm_parcel *p) {
  vm_run *to = w->runs[p->m.dst];
  vm_lp *lp = &w->lps[w->lp_of[p->m.dst]];
  if (!vm_world_has(w, p->m.dst)) return; /* its process has it */
  if (p->m.time < lp->until)
    vm_fault(
        to->cores[0], ISA_FAULT, VM_NOWHERE,
        "an error of Soma: rank %u sends rank %u a message for %llu fs, but that rank is at %llu",
        p->m.src, p->m.dst, (unsigned long long)p->m.time, (unsigned long long)lp->until);
  vm_receive(to, p);
  lp->changed = true;
}

uint64_t vm_world_linked(const vm_world *w, const vm_message *m, uint64_t *before) {
  const uint64_t bytes = vm_message_bytes(w->runs, m);
  const uint64_t packet = w->runs[m->src]->cost_values[VM_CC_PACKET];
  *before = 0;
  if (!bytes || m->updates == VM_MESSAGE_PACKET) return bytes;
  uint64_t each = isa_dtype_bytes(vm_message_ap(w->runs, m)->dtype);
  *before = (bytes - 1) / packet * packet / each * each; /* packets of whole elements */
  return bytes - *before;
}

void vm_world_carry(vm_world *w, const vm_parcel *p) {
  vm_links *l = &w->links;
  if (!l->o.of || vm_links_device(l, p->m.src) == vm_links_device(l, p->m.dst)) {
    deliver(w, p);
    return;
  }
  vm_time latency = (vm_time)w->runs[p->m.src]->cost_values[VM_LINK_LAT] * VM_NS;
  uint64_t before, bytes = vm_world_linked(w, &p->m, &before);
  if (vm_links_enter(l, p, bytes, before, p->m.time - latency)) return;
  vm_parcel_free(&w->al, p);
  vm_fault(w->runs[p->m.dst]->cores[0], ISA_NOMEM, VM_NOWHERE, "no memory for a message");
  w->lps[w->lp_of[p->m.dst]].changed = true;
}

bool vm_world_traffic(vm_world *w, vm_time sends) {
  bool any = false;
  vm_parcel p;
  while (vm_links_next(&w->links) < sends) {
    if (!vm_links_step(&w->links, &p)) continue;
    deliver(w, &p);
    any = true;
    if (p.m.time < sends) sends = p.m.time; /* its receiver may answer at once */
  }
  return any;
}
