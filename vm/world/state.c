/* The state of a world in a file: its ranks, and what is on links. Windows leave nothing behind. */
#include "../save/save.h"
#include "world.h"

#include <stdlib.h>

static void walk_link(vm_saver *s, vm_link *x) {
  vm_save_time(s, &x->free);
  vm_save_u64(s, &x->bytes);
  vm_save_u64(s, &x->messages);
  vm_save_u64(s, &x->waiting);
  vm_save_time(s, &x->busy);
  vm_save_time(s, &x->waited);
}

/* Whether a message may be at that link, as its route leads over it, and has that size. */
static bool flies(const vm_world *w, vm_flying *f) {
  const vm_links *l = &w->links;
  /* The size tells nothing new, but must be that which the program gives. */
  if (f->size != vm_links_size(l, vm_world_linked(w, &f->p.m, &f->before))) return false;
  uint32_t from = vm_links_device(l, f->p.m.src), to = vm_links_device(l, f->p.m.dst);
  const vm_link *x = from == to ? NULL : vm_links_route(l, from, to);
  /* At most as many links as there are. */
  for (uint32_t i = 0; x && i <= l->n; i++, x = vm_links_after(l, x, to))
    if ((uint32_t)(x - l->v) == f->at) return true;
  return false;
}

static void walk_flying(vm_saver *s, vm_world *w, vm_flying *f) {
  uint32_t dst = f->p.m.dst, core = f->p.m.core;
  vm_save_below(s, &dst, w->nranks, "rank that a message is for");
  vm_save_below(s, &core, w->runs[dst]->n, "core that a message is for");
  vm_save_time(s, &f->time);
  vm_save_time(s, &f->p.m.time);
  vm_save_u64(s, &f->size);
  vm_save_time(s, &f->spread);
  vm_save_below(s, &f->at, w->links.n, "link");
  vm_save_parcel(s, w->runs[dst]->cores[core], &f->p);
  vm_save_known(s, w->runs[dst]->cores[core], &f->p);
  vm_saver_need(s, s->failed || flies(w, f), "a message is on no link of its route");
}

static int compare(const void *a, const void *b) {
  return vm_links_is_before(a, b) ? -1 : vm_links_is_before(b, a);
}

/* In their order, which is also one of the heap. */
static void walk_heap(vm_saver *s, vm_world *w) {
  vm_links *l = &w->links;
  uint32_t n = l->nheap;
  vm_saver_count(s, &n, UINT32_MAX, 64, "messages on links");
  /* A heap whose array is sorted is a heap still. */
  if (!s->reads && n) qsort(l->heap, n, sizeof *l->heap, compare);
  vm_due last = {0};
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    vm_flying f = s->reads ? (vm_flying){0} : l->slots[l->heap[i].slot];
    walk_flying(s, w, &f);
    vm_due now = {.time = f.time, .seq = f.p.m.seq, .src = f.p.m.src};
    /* In any other order the file would not be what this writes. */
    vm_saver_need(s, s->failed || i == 0 || vm_links_is_before(&last, &now),
                  "messages on links are in no order");
    last = now;
    if (s->reads && !vm_links_add(l, &f)) { /* then its bytes are freed with the others */
      vm_parcel_free(&l->al, &f.p);
      vm_saver_no_memory(s);
    }
  }
}

void vm_world_walk_links(vm_world *w, vm_saver *s) {
  vm_links *l = &w->links;
  if (!w->net.of) return;
  for (uint32_t i = 0; i < l->n; i++) walk_link(s, &l->v[i]);
  vm_save_u32(s, &l->lost);
  vm_world_walk_change(s, &l->why);
  walk_heap(s, w);
}

void vm_world_walk_change(vm_saver *s, vm_link_change *c) {
  vm_save_u32(s, &c->a);
  vm_save_u32(s, &c->b);
  vm_save_below(s, &c->permille, 1001, "thousandths of a link's rate");
  vm_save_time(s, &c->at);
}

void vm_world_walk(vm_world *w, vm_saver *s) {
  /* Ranks first: messages name their instructions. */
  for (uint32_t r = 0; r < w->nranks && !s->failed; r++) vm_save_walk(s, w->runs[r]);
  if (!s->failed) vm_world_walk_links(w, s);
}
