/* Which links an instance has, and the routes over them. */
#include "link.h"

#include <string.h>

/* ---- Links -------------------------------------------------------------------------------- */

/* Those that begin at a device, but DOWN and IN, which end there. */
typedef enum port { X_UP, X_DOWN, Y_UP, Y_DOWN, Z_UP, Z_DOWN, UP, DOWN, OUT, IN, NPORTS } port;

static uint32_t size_of(const isa_instance *i, port p) {
  /* Ports up and down of a dimension are side by side. */
  return p <= X_DOWN ? i->x : p <= Y_DOWN ? i->y : i->z;
}

/* Two devices of a dimension have one link, not two. */
static bool has_port(const vm_links *l, port p) {
  const isa_instance *i = l->o.of;
  /* EFA is between instances. */
  if (p >= OUT) return l->o.instances > 1;
  if (p >= UP) return i->links == ISA_LINKS_SWITCH;
  if (i->links != ISA_LINKS_TORUS) return false;
  /* One device has no link in it, two have only the one upwards. */
  return size_of(i, p) > (p & 1 ? 2 : 1);
}

static uint32_t rate_of(const isa_instance *i, port p) {
  return p >= OUT ? i->efa : p == Z_UP || p == Z_DOWN ? i->z_rate : i->rate;
}

/* The device next to d. */
static uint32_t beside(const isa_instance *i, uint32_t d, port p) {
  /* Devices count in x first, then y, then z. */
  uint32_t step = p <= X_DOWN ? 1 : p <= Y_DOWN ? i->x : i->x * i->y, n = size_of(i, p);
  uint32_t at = d / step % n, to = p & 1 ? (at + n - 1) % n : (at + 1) % n;
  return d - at * step + to * step;
}

static vm_link *link_at(const vm_links *l, uint32_t device, port p) {
  uint32_t k = 0;
  /* Ports that there are, in their order. */
  for (unsigned q = 0; q < (unsigned)p; q++) k += has_port(l, (port)q);
  return has_port(l, p) ? &l->v[device * l->a_device + k] : NULL;
}

static void fill(vm_links *l) {
  for (uint32_t d = 0; d < l->n / l->a_device; d++)
    for (unsigned p = 0; p < NPORTS; p++) {
      vm_link *x = link_at(l, d, (port)p);
      if (!x) continue;
      *x = (vm_link){.from = d, .to = d, .rate = rate_of(l->o.of, (port)p)};
      if (p < UP)
        x->to = beside(l->o.of, d, (port)p);
      else if (p == UP || p == OUT)
        x->to = p == UP ? VM_LINK_SWITCH : VM_LINK_EFA;
      else
        x->from = p == DOWN ? VM_LINK_SWITCH : VM_LINK_EFA;
    }
}

static void put_end(uint32_t end, isa_buf *out) {
  if (end == VM_LINK_SWITCH || end == VM_LINK_EFA)
    isa_buf_puts(out, end == VM_LINK_EFA ? "efa" : "switch");
  else
    isa_buf_printf(out, "%u", end);
}

void vm_links_put(const vm_link *x, isa_buf *out) {
  put_end(x->from, out);
  isa_buf_puts(out, "-");
  put_end(x->to, out);
}

/* ---- Changes ------------------------------------------------------------------------------ */

bool vm_links_failed(const vm_links *l, const vm_link *x) {
  bool failed = false;
  /* A link that fails later is on routes, and stops what comes then. */
  for (uint32_t i = 0; i < l->o.nchanges; i++) { /* of two at one time the later one counts */
    const vm_link_change *c = &l->o.changes[i];
    if (c->at == 0 && vm_link_is_of(x, c)) failed = c->permille == 0;
  }
  return failed;
}

/* Whether the change is about a link; if not, the error says which the device has. */
static bool exists(const vm_links *l, const vm_link_change *c, isa_error *e) {
  isa_buf b;
  bool any = false;
  for (uint32_t i = 0; i < l->n; i++)
    if (vm_link_is_of(&l->v[i], c)) return true;
  isa_buf_init(&b, &l->al);
  isa_buf_puts(&b, "there is no link ");
  put_end(c->a, &b);
  isa_buf_puts(&b, "-");
  put_end(c->b, &b);
  isa_buf_printf(&b, " in %s", l->o.of->name);
  for (uint32_t i = 0; i < l->n; i++) {
    if (l->v[i].from != c->a) continue;
    isa_buf_puts(&b, any ? ", " : "; device ");
    if (!any) isa_buf_printf(&b, "%u has links to ", c->a);
    put_end(l->v[i].to, &b);
    any = true;
  }
  isa_fail(e, ISA_ARG, ISA_NOFIELD, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return false;
}

static isa_status copy_changes(vm_links *l, const vm_links_options *o, isa_error *e) {
  size_t bytes = o->nchanges * sizeof *o->changes;
  if (!bytes) return ISA_OK;
  vm_link_change *c = isa_zalloc(&l->al, bytes);
  if (!c) return isa_fail(e, ISA_NOMEM, ISA_NOFIELD, "out of host memory"), ISA_NOMEM;
  memcpy(c, o->changes, bytes);
  l->o.changes = c;
  l->o.nchanges = o->nchanges;
  for (uint32_t i = 0; i < o->nchanges; i++)
    if (!exists(l, &c[i], e)) return ISA_ARG;
  return ISA_OK;
}

/* ---- Routes ------------------------------------------------------------------------------- */

static uint32_t *next_of(const vm_links *l, uint32_t from, uint32_t to) {
  uint32_t n = l->o.of->devices;
  /* Only inside of an instance: to another one all go by EFA. */
  return &l->next[from * n + to % n];
}

/* The shorter way in the first dimension in which the devices differ; a tie goes up from even
 * coordinates, down from odd ones: always up would load half of the links twice. */
static port first_port(const isa_instance *i, uint32_t from, uint32_t to) {
  for (unsigned p = X_UP; p < UP; p += 2) {
    uint32_t step = p == X_UP ? 1 : p == Y_UP ? i->x : i->x * i->y, n = size_of(i, (port)p);
    uint32_t at = from / step % n, up = (to / step % n + n - at) % n;
    if (up == 0) continue;
    if (2 * up == n) return (port)(n > 2 && at & 1 ? p + 1 : p);
    return (port)(2 * up < n ? p : p + 1);
  }
  return NPORTS;
}

/* The first links of the routes to one device of an instance: from those next to it outwards.
 * far: room for each of its devices. */
static void routes_to(vm_links *l, uint32_t to, uint32_t *far) {
  const isa_instance *i = l->o.of;
  uint32_t first = to / i->devices * i->devices;
  /* Breadth first: at distance `at` from the device, those next to it. */
  for (uint32_t d = 0; d < i->devices; d++) far[d] = UINT32_MAX;
  far[to - first] = 0;
  for (uint32_t at = 0, any = 1; any; at++) {
    any = 0;
    for (uint32_t d = 0; d < i->devices; d++) {
      if (far[d] != UINT32_MAX) continue;
      /* The way that dimensions say comes first, then any other that is as short. */
      port best = first_port(i, d, to - first);
      for (unsigned k = 0; k <= UP && far[d] == UINT32_MAX; k++) {
        /* best may be NPORTS, which has no link. */
        vm_link *x = link_at(l, first + d, k ? (port)(k - 1) : best);
        if (!x || x->to >= VM_LINK_SWITCH || far[x->to % i->devices] != at || vm_links_failed(l, x))
          continue;
        *next_of(l, first + d, to) = (uint32_t)(x - l->v) + 1;
        far[d] = at + 1;
        any = 1;
      }
    }
  }
}

static bool add_routes(vm_links *l) {
  const isa_instance *i = l->o.of;
  uint32_t all = i->devices * l->o.instances;
  /* A switch and EFA need no table. */
  if (i->links != ISA_LINKS_TORUS) return true;
  l->next = isa_zalloc(&l->al, (size_t)all * i->devices * sizeof *l->next);
  uint32_t *far = isa_zalloc(&l->al, i->devices * sizeof *far);
  for (uint32_t d = 0; l->next && far && d < all; d++) routes_to(l, d, far);
  bool ok = l->next && far;
  isa_free(&l->al, far, i->devices * sizeof *far);
  return ok;
}

static vm_link *working(const vm_links *l, vm_link *x) {
  return x && !vm_links_failed(l, x) ? x : NULL;
}

vm_link *vm_links_route(const vm_links *l, uint32_t from, uint32_t to) {
  const isa_instance *i = l->o.of;
  if (from / i->devices != to / i->devices) {
    /* Both the way out and the way in must work. */
    vm_link *in = working(l, link_at(l, to, IN));
    return in ? working(l, link_at(l, from, OUT)) : NULL;
  }
  if (i->links == ISA_LINKS_SWITCH) {
    vm_link *down = working(l, link_at(l, to, DOWN));
    return down ? working(l, link_at(l, from, UP)) : NULL;
  }
  uint32_t at = l->next ? *next_of(l, from, to) : 0;
  return at ? &l->v[at - 1] : NULL;
}

vm_link *vm_links_after(const vm_links *l, const vm_link *x, uint32_t to) {
  if (x->to == VM_LINK_SWITCH) return link_at(l, to, DOWN);
  if (x->to == VM_LINK_EFA) return link_at(l, to, IN);
  return x->to == to ? NULL : vm_links_route(l, x->to, to);
}

/* ---- Opening ------------------------------------------------------------------------------ */

isa_status vm_links_open(vm_links *l, const isa_alloc *al, const vm_links_options *o,
                         isa_error *e) {
  *l = (vm_links){.al = *al, .o = *o};
  /* copy_changes takes a copy of its own. */
  l->o.changes = NULL;
  l->o.nchanges = 0;
  for (unsigned p = 0; p < NPORTS; p++) l->a_device += has_port(l, (port)p);
  l->n = l->a_device * o->of->devices * o->instances;
  l->v = l->n ? isa_zalloc(al, l->n * sizeof *l->v) : NULL;
  isa_status s = l->n && !l->v ? ISA_NOMEM : ISA_OK;
  if (s == ISA_OK && l->n) fill(l);
  if (s == ISA_OK) s = copy_changes(l, o, e);
  if (s == ISA_OK && !add_routes(l)) s = ISA_NOMEM;
  if (s == ISA_NOMEM) isa_fail(e, s, ISA_NOFIELD, "out of host memory for links");
  if (s != ISA_OK) vm_links_close(l);
  return s;
}

void vm_links_close(vm_links *l) {
  size_t routes = (size_t)l->o.of->devices * l->o.of->devices * l->o.instances;
  for (uint32_t i = 0; i < l->nheap; i++) vm_parcel_free(&l->al, &l->slots[l->heap[i].slot].p);
  isa_free(&l->al, l->slots, l->cap_slots * sizeof *l->slots);
  isa_free(&l->al, l->heap, l->cap * sizeof *l->heap);
  isa_free(&l->al, l->passes, l->cap_passes * sizeof *l->passes);
  isa_free(&l->al, l->v, l->n * sizeof *l->v);
  isa_free(&l->al, l->next, routes * sizeof *l->next);
  isa_free(&l->al, (void *)(uintptr_t)l->o.changes, l->o.nchanges * sizeof *l->o.changes);
  *l = (vm_links){0};
}
