/* Messages on links: first come first served. */
#include "link.h"

/* ---- Those on their way: a heap ------------------------------------------------------------- */

bool vm_links_is_before(const vm_due *a, const vm_due *b) {
  if (a->time != b->time) return a->time < b->time;
  /* Those of one time by sender and number: the order is the same whatever threads do. */
  return a->src != b->src ? a->src < b->src : a->seq < b->seq;
}

bool vm_links_add(vm_links *l, const vm_flying *f) {
  /* A slot that has become free, else a new one. */
  uint32_t i = l->nheap, slot = l->no_message ? l->no_message - 1 : l->nslots;
  vm_due d = {f->time, f->p.m.seq, f->p.m.src, slot};
  if (i == l->cap && !isa_array_grow(&l->al, &l->heap, i, &l->cap, sizeof *l->heap)) return false;
  if (slot == l->cap_slots &&
      !isa_array_grow(&l->al, &l->slots, slot, &l->cap_slots, sizeof *l->slots))
    return false;
  if (slot == l->nslots)
    l->nslots++;
  else
    l->no_message = l->slots[slot].at; /* the list of free ones goes on there */
  l->slots[slot] = *f;
  /* Up from the end, to below what comes before it. */
  for (l->nheap++; i && vm_links_is_before(&d, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
    l->heap[i] = l->heap[(i - 1) / 2];
  l->heap[i] = d;
  return true;
}

/* The first one of the heap is now `d`, which goes to its place. */
static void sink(vm_links *l, vm_due d) {
  uint32_t i = 0;
  for (uint32_t k; (k = 2 * i + 1) < l->nheap; i = k) {
    /* The earlier one of the two below it moves up. */
    if (k + 1 < l->nheap && vm_links_is_before(&l->heap[k + 1], &l->heap[k])) k++;
    if (vm_links_is_before(&d, &l->heap[k])) break;
    l->heap[i] = l->heap[k];
  }
  l->heap[i] = d;
}

/* The first one has left the links. */
static void drop_first(vm_links *l) {
  uint32_t slot = l->heap[0].slot;
  l->slots[slot].at = l->no_message;
  l->no_message = slot + 1;
  /* The last one of the heap begins at the top. */
  sink(l, l->heap[--l->nheap]);
}

/* ---- Links -------------------------------------------------------------------------------- */

/* Thousandths of a byte per ns: 10^9 fs. */
static vm_time time_of(uint64_t bytes, uint32_t rate) {
  enum { MOST = 1 << 30 }; /* so that the product has 64 bits */
  vm_time whole = bytes / MOST * ((vm_time)MOST * 1000000000u / rate);
  return whole + bytes % MOST * 1000000000u / rate;
}

bool vm_links_enter(vm_links *l, const vm_parcel *p, uint64_t bytes, uint64_t before,
                    vm_time sent) {
  uint32_t from = vm_links_device(l, p->m.src), to = vm_links_device(l, p->m.dst);
  /* The first link of the route; vm_world_open_links has seen that there is one. */
  vm_link *x = vm_links_route(l, from, to);
  vm_flying f = {.p = *p,
                 .time = sent,
                 .size = vm_links_size(l, bytes),
                 .before = before,
                 .spread = time_of(bytes, l->o.source),
                 .at = (uint32_t)(x - l->v)};
  return vm_links_add(l, &f);
}

vm_time vm_links_next(const vm_links *l) { return l->nheap ? l->heap[0].time : UINT64_MAX; }

/* What the changes up to that time leave of a link: MBNS, 0: it has failed, by *why. */
static uint32_t rate_at(const vm_links *l, const vm_link *x, vm_time t, vm_link_change *why) {
  uint64_t rate = x->rate;
  vm_time since = 0;
  for (uint32_t i = 0; i < l->o.nchanges; i++) {
    const vm_link_change *c = &l->o.changes[i];
    /* The latest change that counts already holds. */
    if (!vm_link_is_of(x, c) || c->at > t || c->at < since) continue;
    since = c->at;
    rate = (uint64_t)x->rate * c->permille / 1000;
    *why = *c;
  }
  return (uint32_t)rate;
}

/* Whether a packet of the message was stopped, as far as can be told from when the last one comes:
 * the link may be whole again. */
static bool has_lost(const vm_links *l, const vm_link *x, const vm_flying *f, vm_link_change *why) {
  uint32_t rate = x->rate < l->o.source ? x->rate : l->o.source;
  /* How long the packets before the last one take at the slower of sender and link. */
  vm_time took = f->before ? time_of(f->before, rate) : 0;
  for (uint32_t i = 0; took && i < l->o.nchanges; i++) {
    const vm_link_change *c = &l->o.changes[i];
    /* A failure that began while they came. */
    if (!vm_link_is_of(x, c) || c->permille || c->at > f->time || c->at + took <= f->time) continue;
    *why = *c;
    return true;
  }
  return false;
}

/* The message's last byte has come to link x. It goes with its last byte, and not before what a
 * link takes for it has passed since its first, or since the last byte of what came before. */
static void pass(vm_link *x, vm_flying *f, uint32_t rate) {
  vm_time takes = time_of(f->size, rate), go = f->time;
  vm_time first = f->spread < go ? go - f->spread : 0;
  /* Not before what was on the link has left it. */
  first = vm_time_later(first, x->free);
  go = vm_time_later(go, first + takes);
  /* Bytes that came and had to wait: rate is thousandths of a byte per ns. */
  uint64_t waiting = (go - f->time) / 1000 * rate / 1000000;
  x->free = go;
  x->busy += takes;
  x->bytes += f->size;
  /* Packets of a message count as one, with the last. */
  x->messages += f->p.m.updates != VM_MESSAGE_PACKET;
  x->waited += go - f->time;
  if (waiting > x->waiting) x->waiting = waiting;
  /* Its bytes are spread over what the slowest so far takes for them. */
  f->spread = vm_time_later(takes, f->spread);
  f->time = go;
}

/* What does not fit is not kept. */
static void keep(vm_links *l, const vm_link *x, const vm_flying *f, vm_time came, uint32_t rate) {
  enum { MOST = 1 << 20 };
  if (!l->o.keep || l->npasses == MOST) return;
  if (l->npasses == l->cap_passes &&
      !isa_array_grow(&l->al, &l->passes, l->npasses, &l->cap_passes, sizeof *l->passes))
    return;
  l->passes[l->npasses++] = (vm_link_pass){.link = (uint32_t)(x - l->v),
                                           .src = f->p.m.src,
                                           .dst = f->p.m.dst,
                                           .bytes = f->size,
                                           .came = came,
                                           .start = f->time - time_of(f->size, rate),
                                           .end = f->time};
}

bool vm_links_step(vm_links *l, vm_parcel *out) {
  vm_due d = l->heap[0];
  vm_flying *f = &l->slots[d.slot];
  vm_link *x = &l->v[f->at];
  vm_link_change why;
  uint32_t rate = rate_at(l, x, f->time, &why), to = vm_links_device(l, f->p.m.dst);
  if (rate == 0 || has_lost(l, x, f, &why)) {
    /* The first failure is what a deadlock is explained by. */
    if (l->lost++ == 0) l->why = why;
    vm_parcel_free(&l->al, &f->p);
    drop_first(l);
    return false;
  }
  const vm_time came = f->time;
  pass(x, f, rate);
  keep(l, x, f, came, rate);
  const vm_link *after = vm_links_after(l, x, to);
  if (after) {
    f->at = (uint32_t)(after - l->v); /* it is due later, and sinks in the heap */
    d.time = f->time += l->o.hop;
    sink(l, d);
    return false;
  }
  /* A packet that is not the last one only takes the link's time. */
  if (f->p.m.updates == VM_MESSAGE_PACKET) {
    drop_first(l);
    return false;
  }
  *out = f->p;
  out->m.time = f->time + (x->from == VM_LINK_EFA ? l->o.efa : l->o.latency);
  drop_first(l);
  return true;
}
