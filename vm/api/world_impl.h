/* Inside the worlds of soma.h. */
#ifndef SOMA_WORLD_IMPL_H
#define SOMA_WORLD_IMPL_H

#include "impl.h"

#include "../../isa/instance.h"
#include "../world/plan.h"
#include "../world/world.h"

typedef struct rank {
  soma_machine *m;
  soma_program *given, *p; /* given: by soma_world_load; p: what runs, */
  soma_program *started;   /* made of that one */
  soma_run *run;
  bool taken;       /* the caller frees the run */
  bool here;        /* this process has moved it in the last world that was spread */
  bool borrowed;    /* the machine is the caller's */
  unsigned threads; /* that it had before */
} rank;

enum { SOMA_MOST_RANKS = 4096 };

struct soma_world {
  soma_world_options o;
  isa_alloc al;
  const isa_instance *instance;
  isa_target target;  /* of its ranks: that of the instance, or a hypothetical machine of it */
  uint32_t instances; /* so many of them, joined by EFA */
  char name[64];      /* "trn1.32xlarge x 4" */
  int algorithm;      /* vm_cc_algorithm, -1: by size */
  rank *ranks;
  vm_reserve *reserve; /* for the state of its cores; may be NULL */
  vm_work threads;
  atomic_int interrupted;
  vm_world w;
  vm_plan *plan;           /* of the ranks' collectives */
  vm_link_change *changes; /* of links; hold for all that runs from now on */
  uint32_t nchanges, cap_changes;
  vm_time *delays; /* by rank; NULL: none */
  vm_link *links;  /* of the last world that was open */
  uint32_t nlinks;
  vm_link_pass *passes;
  uint32_t npasses, cap_passes;
  vm_transport far;         /* size 0: there are no other processes */
  bool whole, again;        /* the next start is not spread; the last was, and failed */
  uint64_t calls, came;     /* of the last world that was open */
  struct soma_found *found; /* what the checks have found; NULL: nothing is known yet */
  bool open;                /* w has runs */
  bool running;
  soma_time time; /* of the last world that was open, as the next two */
  uint64_t hash, windows;
  isa_buf error;
};

/* Sets the error and gives s. */
soma_status soma_world_fail(soma_world *w, soma_status s, const char *fmt, ...) ISA_PRINTF(3, 4);

/* spread.c */
/* Before a world moves for the first time: lets its LPs be those of all processes, which must have
 * the same world. */
soma_status soma_world_meet(soma_world *w);
/* All ranks have ended well: each process gets those of the others, but for memories that are away:
 * SBUF, PSUM and temporary tensors, which come when they are asked for. */
soma_status soma_world_gather(soma_world *w);
/* All processes get what is away of all ranks. */
soma_status soma_world_bring_all(soma_world *w);

/* found.c: merges what the checks of the ranks have found, in place of what was there. False: out
 * of memory. */
bool soma_merge_findings(soma_world *w);
void soma_forget_findings(soma_world *w);

/* The world of w->w is over: what can still be asked about it is kept. And a rank's run. */
void soma_world_leave_ranks(soma_world *w);
void soma_world_drop_run(rank *x);
/* SOMA_OK if all ranks have machines, and programs if they need them, and no run that has not
 * ended.
 */
soma_status soma_world_ready(soma_world *w, bool programs);
/* Gives each rank its program with those of its CC sequencers, by these constants of the clock. */
soma_status soma_world_plan(soma_world *w, const uint32_t *cost);
/* Makes a world of the ranks' runs; begins: late ranks begin late. */
soma_status soma_world_connect(soma_world *w, bool begins);

/* Whether the world can be saved as it is. (world_save.c) */
soma_status soma_world_check_savable(soma_world *w);

/* instance.c */
/* "trn1.32xlarge", or "trn1.32xlarge x 4": four of them, in *count. NULL: no instance has that
 * name. */
const isa_instance *soma_instance_named(const char *name, uint32_t *count);
/* Finds the instance that the options name, or the smallest that holds the ranks. target: NULL,
 * any. */
soma_status soma_world_choose(soma_world *w, const char *target);

/* links.c */
/* What soma_world_start tells the world about links and delays. */
void soma_world_use_links(soma_world *w);
/* Keeps the counters of links of a world that is about to be closed. */
void soma_world_keep_links(soma_world *w);
void soma_world_free_links(soma_world *w);

#endif
