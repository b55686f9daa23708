/* Calls to those who watch a run. */
#include "engine.h"

static void give_cores(vm_run *r) {
  /* NULL costs a run that nobody watches one test for each event. */
  for (unsigned i = 0; i < r->n; i++) r->cores[i]->watchers = r->watchers[0] ? r->watchers : NULL;
}

void vm_watch_remove(vm_run *r, const vm_watch *w) {
  unsigned n = 0;
  for (unsigned i = 0; r->watchers[i]; i++)
    if (r->watchers[i] != w) r->watchers[n++] = r->watchers[i];
  r->watchers[n] = NULL;
  give_cores(r);
}

void vm_watch_add(vm_run *r, const vm_watch *w) {
  unsigned n = 0;
  /* Not twice in the list. */
  vm_watch_remove(r, w);
  while (r->watchers[n]) n++;
  /* VM_WATCHERS is more than all kinds of watchers together. */
  if (n < VM_WATCHERS) r->watchers[n] = w;
  give_cores(r);
}

#define HOOK(name, parameters, arguments)                             \
  void vm_watch_##name parameters {                                   \
    for (const vm_watch *const *watch = c->watchers; *watch; watch++) \
      if ((*watch)->name) (*watch)->name arguments;                   \
  }
#include "../watch.def"

bool vm_watch_before(vm_core *c, unsigned e) {
  /* All of them are asked, even after one has said yes: each may note what it stops. */
  bool held = false;
  for (const vm_watch *const *w = c->watchers; *w; w++) held |= (*w)->before && (*w)->before(c, e);
  return held;
}

uint64_t vm_watch_budget(const vm_core *c, unsigned e) {
  uint64_t least = UINT64_MAX;
  for (const vm_watch *const *w = c->watchers; *w; w++) {
    uint64_t n = (*w)->budget ? (*w)->budget(c, e) : least;
    if (n < least) least = n;
  }
  return least;
}

bool vm_watch_steps(const vm_core *c, unsigned e) {
  for (const vm_watch *const *w = c->watchers; *w; w++)
    if ((*w)->steps && (*w)->steps(c, e)) return true;
  return false;
}
