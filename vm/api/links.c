/* Links of a world: what happens to them, late ranks, and counters. */
#include "world_impl.h"

static uint32_t devices_of(const soma_world *w) { return w->instance->devices * w->instances; }
static uint32_t ranks_of_device(const soma_world *w) { return w->target.cores / w->o.lnc; }

/* ---- What happens ------------------------------------------------------------------------- */

/* Devices by their number; the switch and EFA have numbers above all of them. */
static uint32_t end_of(int device) {
  return device == SOMA_SWITCH ? VM_LINK_SWITCH
         : device == SOMA_EFA  ? VM_LINK_EFA
                               : (uint32_t)device;
}

soma_status soma_world_slow_link(soma_world *w, int a, int b, double factor, soma_time at) {
  isa_error e = {0};
  vm_links l;
  if (!w) return SOMA_ARG;
  /* Written so that NaN is refused. */
  if (!(factor >= 0 && factor <= 1))
    return soma_world_fail(w, SOMA_ARG, "the factor of a link's rate is %g; it is 0 to 1", factor);
  /* The world counts in thousandths. */
  uint32_t permille = (uint32_t)(factor * 1000 + 0.5);
  if (factor > 0 && permille == 0)
    return soma_world_fail(w, SOMA_ARG,
                           "the factor of a link's rate is %g; 0.001 is the least, 0 "
                           "a failed link",
                           factor);
  /* The change is tried on links of its own, which are thrown away. */
  vm_link_change c = {.a = end_of(a), .b = end_of(b), .permille = permille, .at = at};
  vm_links_options o = {.of = w->instance, .instances = w->instances, .changes = &c, .nchanges = 1};
  o.ranks_of_device = ranks_of_device(w);
  /* Opened only to be told whether there is such a link. */
  soma_status s = (soma_status)vm_links_open(&l, &w->al, &o, &e);
  if (s != SOMA_OK) return soma_world_fail(w, s, "%s", e.text);
  vm_links_close(&l);
  if (!isa_array_grow(&w->al, &w->changes, w->nchanges, &w->cap_changes, sizeof c))
    return soma_world_fail(w, SOMA_NOMEM, "out of host memory");
  /* It holds for the next start of the world. */
  w->changes[w->nchanges++] = c;
  return SOMA_OK;
}

soma_status soma_world_fail_link(soma_world *w, int a, int b, soma_time at) {
  return soma_world_slow_link(w, a, b, 0, at);
}

soma_status soma_world_delay_rank(soma_world *w, uint32_t r, soma_time by) {
  if (!w) return SOMA_ARG;
  if (r >= w->o.ranks)
    return soma_world_fail(w, SOMA_ARG, "rank %u does not exist: the world has %u ranks", r,
                           w->o.ranks);
  /* Made when the first rank is late. */
  if (!w->delays) w->delays = isa_zalloc(&w->al, w->o.ranks * sizeof *w->delays);
  if (!w->delays) return soma_world_fail(w, SOMA_NOMEM, "out of host memory");
  w->delays[r] = by;
  return SOMA_OK;
}

/* ---- The world ---------------------------------------------------------------------------- */

/* Only then is it worth keeping each message's way. */
static bool records(const soma_world *w) {
  for (uint32_t r = 0; r < w->o.ranks; r++)
    if (w->ranks[r].m->o.event) return true;
  return false;
}

void soma_world_use_links(soma_world *w) {
  w->w.delays = w->delays;
  /* A world of one device has no links. */
  w->w.net = (vm_links_options){.of = devices_of(w) > 1 ? w->instance : NULL,
                                .instances = w->instances,
                                .ranks_of_device = ranks_of_device(w),
                                .changes = w->changes,
                                .nchanges = w->nchanges,
                                .keep = records(w)};
}

/* Counters are asked for when the runs have gone, too. */
void soma_world_keep_links(soma_world *w) {
  isa_free(&w->al, w->links, w->nlinks * sizeof *w->links);
  w->links = w->w.links.v;
  w->nlinks = w->w.links.n;
  w->w.links.v = NULL;
  w->w.links.n = 0;
  isa_free(&w->al, w->passes, w->cap_passes * sizeof *w->passes);
  w->passes = w->w.links.passes;
  w->npasses = w->w.links.npasses;
  w->cap_passes = w->w.links.cap_passes;
  w->w.links.passes = NULL;
  w->w.links.npasses = w->w.links.cap_passes = 0;
}

/* Also of a world that was never started. */
void soma_world_free_links(soma_world *w) {
  isa_free(&w->al, w->links, w->nlinks * sizeof *w->links);
  isa_free(&w->al, w->passes, w->cap_passes * sizeof *w->passes);
  isa_free(&w->al, w->changes, w->cap_changes * sizeof *w->changes);
  isa_free(&w->al, w->delays, w->delays ? w->o.ranks * sizeof *w->delays : 0);
}

/* ---- Counters ----------------------------------------------------------------------------- */

static int device_of(uint32_t end) {
  return end == VM_LINK_SWITCH ? SOMA_SWITCH : end == VM_LINK_EFA ? SOMA_EFA : (int)end;
}

uint32_t soma_world_links(const soma_world *w) {
  return !w ? 0 : w->open ? w->w.links.n : w->nlinks;
}

soma_status soma_world_link(const soma_world *w, uint32_t i, soma_link_row *out) {
  if (!out || i >= soma_world_links(w)) return SOMA_ARG;
  const vm_link *x = &(w->open ? w->w.links.v : w->links)[i];
  *out = (soma_link_row){.from = device_of(x->from),
                         .to = device_of(x->to),
                         .bytes = x->bytes,
                         .messages = x->messages,
                         .waiting = x->waiting,
                         .busy = x->busy,
                         .waited = x->waited,
                         .rate = x->rate / 1000.0};
  /* Averages over all of the simulated time. */
  double ns = (double)soma_world_time(w) / (double)VM_NS;
  if (ns > 0) out->gbs = (double)x->bytes / ns;
  if (ns > 0) out->percent = 100 * (double)x->busy / (double)VM_NS / ns;
  return SOMA_OK;
}

uint32_t soma_world_passes(const soma_world *w) {
  return !w ? 0 : w->open ? w->w.links.npasses : w->npasses;
}

soma_status soma_world_pass(const soma_world *w, uint32_t i, soma_link_pass *out) {
  if (!out || i >= soma_world_passes(w)) return SOMA_ARG;
  const vm_link_pass *x = &(w->open ? w->w.links.passes : w->passes)[i];
  *out = (soma_link_pass){.link = x->link,
                          .from = x->src,
                          .to = x->dst,
                          .bytes = x->bytes,
                          .came = x->came,
                          .start = x->start,
                          .end = x->end};
  return SOMA_OK;
}
