/* Who watches a run: checks, a debugger, a recorder. Each is a table of the functions that it wants
 * to be called; watch.def lists them. For example a check that looks at each instruction's
 * operands:
 *
 *   static const vm_watch mine = {.issue = look};
 *   vm_watch_add(run, &mine);
 *
 * The machine knows nothing else of them. They are called in the order in which they were added,
 * and a run that nobody watches pays one test for what it would have told. */
#ifndef VM_WATCH_H
#define VM_WATCH_H

#include "vm.h"

struct vm_parcel; /* message.h */

typedef struct vm_watch {
#define HOOK(name, parameters, arguments) void(*name) parameters;
#include "watch.def"
  /* Engine e's instruction at its pc can issue. True: it must not issue now, the run pauses. */
  bool (*before)(vm_core *c, unsigned e);
  /* How many more instructions engine e may issue until `reached` is called. */
  uint64_t (*budget)(const vm_core *c, unsigned e);
  /* Whether engine e's register instructions are to be told one by one. */
  bool (*steps)(const vm_core *c, unsigned e);
} vm_watch;

/* At most VM_WATCHERS. Nothing happens if w is there already, or is not there. */
void vm_watch_add(vm_run *r, const vm_watch *w);
void vm_watch_remove(vm_run *r, const vm_watch *w);

/* vm_tell_NAME tells those who watch. (engine/watch.c) */
#define HOOK(name, parameters, arguments) void vm_watch_##name parameters;
#include "watch.def"
#define HOOK(name, parameters, arguments)        \
  static inline void vm_tell_##name parameters { \
    if (c->watchers) vm_watch_##name arguments;  \
  }
#include "watch.def"

/* Whether somebody holds it back; the least budget of all; whether somebody wants single steps. */
bool vm_watch_before(vm_core *c, unsigned e);
uint64_t vm_watch_budget(const vm_core *c, unsigned e);
bool vm_watch_steps(const vm_core *c, unsigned e);

#endif
