/* Shares whose bytes move later. The shares of a transfer end one by one, nanoseconds apart; where
 * several threads may work, they move their bytes as one job: when the last has ended, or before
 * something else sees them. For example a load of bfloat16[128, 512] is sixteen shares of 8 KiB,
 * each too small to be worth a second thread.
 *
 * What is late never depends on one another: a share that meets a late one of another transfer, or
 * that its own transfer's shares have read or written, lets these move first. Instructions, copies
 * of sources, sequencers that look at memory, callbacks and the end of vm_run do the same
 * (vm_dma_settle), so nothing can tell. Runs with checks, a debugger or a listener, which may look
 * at memory after each share, have no late shares. */
#include "dma.h"

static void cover(vm_box *b, const vm_box *more) {
  if (more->p0 < b->p0) b->p0 = more->p0;
  if (more->p1 > b->p1) b->p1 = more->p1;
  if (more->lo < b->lo) b->lo = more->lo;
  if (more->hi > b->hi) b->hi = more->hi;
}

/* Whether what is late of t has to move before the item reads and writes. A transfer's own shares
 * write distinct elements: only others' writes count. */
static bool meets(const vm_transfer *t, const vm_item *it, bool own) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (vm_box_meet(&it->dst[i], &t->late_src) || (!own && vm_box_meet(&it->dst[i], &t->late_dst)))
      return true;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (vm_box_meet(&it->src[i], &t->late_dst)) return true;
  return false;
}

void vm_dma_settle_transfer(vm_core *c, vm_transfer *t) {
  const vm_share *v[ISA_NDMA];
  vm_core *lead = c->lead, *owner = t->late->item.core ? lead->peer : lead;
  unsigned n = 0, at = 0;
  for (const vm_share *s = t->late; s; s = s->next) v[n++] = s;
  vm_dma_move_shares(owner, v, n, true);
  for (vm_share *s = t->late, *next; s; s = next) {
    next = s->next;
    vm_dma_release_share(owner, s);
  }
  t->late = NULL;
  while (lead->late[at] != t) at++;
  for (lead->nlate--; at < lead->nlate; at++) lead->late[at] = lead->late[at + 1];
}

/* own: the transfer that the item is a share of; NULL: it is not a share. */
static void settle(vm_core *c, const vm_item *it, const vm_transfer *own) {
  vm_core *lead = c->lead;
  for (unsigned i = 0; i < lead->nlate;)
    if (!it || meets(lead->late[i], it, lead->late[i] == own))
      vm_dma_settle_transfer(c, lead->late[i]);
    else
      i++;
}

void vm_dma_settle_late(vm_core *c, const vm_item *it) { settle(c, it, NULL); }

/* Whether a share may be late: it is a copy or a conversion of one source in any order, and another
 * one of its transfer is late or is yet to end. */
static bool may_be_late(const vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  if (s->item.staged || s->item.nsrc != 1 || !vm_dma_in_any_order(s)) return false;
  if (t->late) return true;
  return t->left > 1 && !c->check && !c->debug && !c->lead->hooks.event &&
         vm_dma_worth_threads(c, t->elems * t->dst.esize);
}

static void keep(vm_core *c, vm_share *s) {
  vm_core *lead = c->lead;
  vm_transfer *t = s->t;
  if (t->late) {
    cover(&t->late_src, &s->item.src[0]);
    cover(&t->late_dst, &s->item.dst[0]);
  } else {
    if (lead->nlate == VM_LATE) vm_dma_settle_transfer(c, lead->late[0]);
    t->late_src = s->item.src[0];
    t->late_dst = s->item.dst[0];
    lead->late[lead->nlate++] = t;
  }
  s->next = t->late;
  t->late = s;
}

bool vm_dma_move(vm_core *c, vm_share *s) {
  const vm_share *alone = s;
  settle(c, &s->item, s->t);
  vm_dma_use(c, s);
  bool late = may_be_late(c, s);
  if (late)
    keep(c, s);
  else
    vm_dma_move_shares(c, &alone, 1, s->e1 - s->e0 > 1 && vm_dma_in_any_order(s));
  return late;
}
