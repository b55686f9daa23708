/* Rings, halvings and doublings along the links of a torus. For example all ranks of 16 devices, 4
 * x 4: device 3 is not beside device 4, so a ring of the devices as they are numbered would take
 * two links there, and half of the links would carry nothing. But a square torus has two rings
 * through all devices that have no link in common:
 *
 *   0 1 2 3 | 7 4 5 6 | 10 11 8 9 | 13 14 15 12      in rows, each begins below the last one's end
 *   0 4 8 12 | 13 1 5 9 | 10 14 2 6 | 7 11 15 3      the same with rows as columns
 *
 * In a third dimension the planes follow one another, every second one backwards. */
#include "plan_impl.h"

#include <string.h>

static bool is_square(const isa_instance *i) {
  /* An odd number of planes cannot end beside the first one. */
  return i && i->links == ISA_LINKS_TORUS && i->x == i->y && i->x > 2 &&
         (i->z == 1 || i->z % 2 == 0);
}

/* Where a device is in ring `which`. */
static uint32_t place_of(const isa_instance *i, uint32_t d, unsigned which) {
  uint32_t n = i->x, of = n * n, a = d / n % n, b = d % n, z = d / of;
  uint32_t at = which ? n * b + (a + b) % n : n * a + (a + b) % n;
  /* Every second plane backwards: the last place of one is beside the first of the next. */
  return z * of + (z & 1 ? of - 1 - at : at);
}

static bool has_all(const vm_plan *p, const cc_call *x) {
  /* The devices of the instance that the first rank is on. */
  uint32_t first = x->ranks[0] / p->of_device / p->instance->devices * p->instance->devices;
  for (uint32_t d = 0; d < p->instance->devices; d++) {
    bool any = false;
    for (uint32_t i = 0; i < x->ranks_n && !any; i++) any = x->ranks[i] / p->of_device == first + d;
    if (!any) return false;
  }
  for (uint32_t i = 0; i < x->ranks_n; i++)
    if (x->ranks[i] / p->of_device - first >= p->instance->devices) return false;
  return true;
}

/* ---- Halving and doubling ----------------------------------------------------------------- */

/* How many ranks of each device are in the list, one device after another from an aligned one on, a
 * power of two of each; 0: it is another list. */
static uint32_t ranks_each(const vm_plan *p, const cc_call *x) {
  uint32_t each = 0, n = x->ranks_n, first = x->ranks[0] / p->of_device;
  while (each < n && x->ranks[each] / p->of_device == first) each++;
  /* A power of two that begins at a multiple of itself: then masks stay inside. */
  if (n & (n - 1) || each & (each - 1) || first % (n / each)) return 0;
  for (uint32_t i = 0; i < n; i++)
    if (x->ranks[i] / p->of_device != first + i / each) return 0;
  return each;
}

/* Steps between instances come first in a doubling, then those between devices: of what is least
 * then. So an all_gather is one over the ranks of a number in all instances, and then one inside
 * each. In a dimension of four the second step is with the device at the other side, 0 with 3 and 1
 * with 2: so each is over one link, as in a hypercube. Ranks of a device gather in different
 * orders, so they use different links. */
void cc_masks_of(const vm_plan *p, const cc_call *x, uint32_t *masks) {
  uint32_t each = x->does == VM_CC_PERMUTE ? 0 : ranks_each(p, x), n = x->ranks_n, steps = 0, k = 0;
  bool fours = p->instance && p->instance->links == ISA_LINKS_TORUS && p->instance->x == 4;
  while (1u << (steps + 1) <= n) steps++;
  if (!each) each = n;
  uint32_t inner = (uint32_t)__builtin_ctz(each), outer = steps - inner, far = 0;
  uint32_t devices = p->instance ? p->instance->devices : 1;
  while (outer && 1u << (outer - 1) >= devices) far++, outer--; /* between instances */
  for (uint32_t i = 0; i < far; i++) masks[k++] = each << (outer + i);
  /* Where they add, all ranks have one order: it is that of what comes. */
  uint32_t turn = x->does == VM_CC_ALL_GATHER ? x->place % each : 0;
  /* They begin in different dimensions, by two bits of their place. */
  uint32_t by = outer ? (turn & 1 ? outer / 2 : 0) + (turn >> 1 & 1) : 0;
  for (uint32_t i = 0; i < outer; i++) {
    uint32_t bit = (i + by) % outer;
    masks[k++] = (fours && bit & 1 ? 3u << (bit - 1) : 1u << bit) * each;
  }
  for (uint32_t i = 0; i < inner; i++) masks[k++] = 1u << i;
}

/* ---- Pairs -------------------------------------------------------------------------------- */

bool cc_spans_instances(const vm_plan *p, const cc_call *x) {
  uint32_t each = p->instance ? p->instance->devices * p->of_device : UINT32_MAX;
  /* Without an instance all are on one. */
  for (uint32_t i = 1; i < x->ranks_n; i++)
    if (x->ranks[i] / each != x->ranks[0] / each) return true;
  return false;
}

uint32_t cc_groups_of(const vm_plan *p, const cc_call *x, cc_call *part) {
  uint32_t of = p->instance ? p->instance->devices * p->of_device : UINT32_MAX, each = 0;
  /* The ranks of the first instance in the list: each other one must have the same, in the same
   * order. */
  while (each < x->ranks_n && x->ranks[each] / of == x->ranks[0] / of) each++;
  if (each < 2 || each == x->ranks_n || x->ranks_n % each) return 0;
  for (uint32_t i = 0; i < x->ranks_n; i++)
    if (x->ranks[i] % of != x->ranks[i % each] % of ||
        x->ranks[i] / of != x->ranks[i - i % each] / of)
      return 0;
  *part = *x;
  /* The own group. */
  part->ranks += x->place / each * each;
  part->ranks_n = each;
  return x->ranks_n / each;
}

const char *cc_no_pairs(const vm_plan *p, const cc_call *x) {
  if (x->does == VM_CC_PERMUTE) return NULL;
  if (cc_spans_instances(p, x)) return "its ranks are on several instances";
  if (p->of_device % 2) return "a device has an odd number of ranks, which are no pairs";
  /* Ranks of each device, side by side. */
  for (uint32_t i = 0, n; i < x->ranks_n; i += n) {
    uint32_t device = x->ranks[i] / p->of_device;
    for (n = 1; i + n < x->ranks_n && x->ranks[i + n] / p->of_device == device;) n++;
    if (n != p->of_device)
      return "it needs all ranks of each device that has one in the list, one after another";
  }
  return NULL;
}

/* ---- Rings -------------------------------------------------------------------------------- */

static const cc_order *find(const vm_plan *p, const cc_call *x) {
  for (uint32_t i = 0; i < p->norders; i++)
    if (p->orders[i].n == x->ranks_n &&
        memcmp(p->orders[i].ranks, x->ranks, x->ranks_n * sizeof *x->ranks) == 0)
      return &p->orders[i];
  return NULL;
}

const uint32_t *cc_order_of(const vm_plan *p, const cc_call *x, unsigned which) {
  const cc_order *o = x->does == VM_CC_PERMUTE ? NULL : find(p, x);
  return o && o->v ? o->v + which * o->n : NULL;
}

/* Places of the list by where their devices are in a ring. */
static void sort(const vm_plan *p, const cc_call *x, unsigned which, uint32_t *out) {
  uint32_t n = 0, all = p->instance->devices;
  for (uint32_t at = 0; at < all; at++)
    for (uint32_t i = 0; i < x->ranks_n; i++)
      if (place_of(p->instance, x->ranks[i] / p->of_device % all, which) == at) out[n++] = i;
}

bool cc_add_order(vm_plan *p, const cc_call *x) {
  /* It is there already, or has no ring of its own. */
  if (!is_square(p->instance) || x->does == VM_CC_PERMUTE || x->ranks_n < p->instance->devices ||
      find(p, x))
    return true;
  if (!isa_array_grow(&p->al, &p->orders, p->norders, &p->cap_orders, sizeof *p->orders))
    return false;
  cc_order *o = &p->orders[p->norders];
  *o = (cc_order){.ranks = x->ranks, .n = x->ranks_n};
  /* Without all devices it has no rings through them; the entry says so, so that it is looked at
   * once. */
  if (has_all(p, x)) {
    if (!(o->v = isa_zalloc(&p->al, 2 * (size_t)o->n * sizeof *o->v))) return false;
    for (unsigned which = 0; which < 2; which++) sort(p, x, which, o->v + which * o->n);
  }
  p->norders++;
  return true;
}

void cc_free_orders(vm_plan *p) {
  for (uint32_t i = 0; i < p->norders; i++)
    isa_free(&p->al, p->orders[i].v, 2 * (size_t)p->orders[i].n * sizeof *p->orders[i].v);
  isa_free(&p->al, p->orders, p->cap_orders * sizeof *p->orders);
}
