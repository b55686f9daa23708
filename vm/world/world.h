/* A world of ranks: runs that send one another messages, and the windows in which each can go on
 * without hearing of the others.
 *
 * What shares a stack of HBM is one part of the world (a logical process, LP): its events run in
 * one loop. Between LPs only messages go, and each arrives at least LINK_LAT after the event that
 * sent it. So an LP can run to the least time of what the others may still do, plus LINK_LAT: that
 * is its window. Afterwards messages are handed over, and the next windows begin. Events have the
 * same order wherever windows end (message.h), so a world gives the same bits for any of them, and
 * for any number of threads. */
#ifndef VM_WORLD_WORLD_H
#define VM_WORLD_WORLD_H

#include "../message.h"
#include "../work/work.h"
#include "link.h"
#include "transport.h"

/* All that is asked of it between windows, so that the state of its cores, which other LPs have
 * pushed out of the host's caches meanwhile, is not read for it. */
typedef struct vm_lp {
  vm_stack *stack;
  vm_time next;  /* its next event; UINT64_MAX: none */
  vm_time sends; /* no message of it is sent before, if none arrives */
  vm_time until; /* its window: events before that; 0: it has none to run */
  bool failed;   /* a run of it */
  bool out;      /* messages of it have not been taken */
  bool changed;  /* from outside: these are not what they were */
} vm_lp;

typedef struct vm_world {
  isa_alloc al;
  vm_run **runs;   /* by rank */
  vm_peers *peers; /* likewise */
  uint32_t nranks;
  vm_lp *lps;
  uint32_t nlps, *lp_of; /* lp_of: by rank */
  /* NULL: this process moves all LPs; else lp0 .. lp1 - 1, and others the others. */
  const vm_transport *far;
  uint32_t lp0, lp1;
  uint64_t rounds, came; /* calls of it, bytes of messages that have come by it */
  uint8_t **comes;       /* [rank][core][engine][pc]: whether a collective may still come there */
  vm_links_options net;  /* of: NULL where nothing but LINK_LAT lies between devices */
  vm_links links;
  const vm_time *delays;       /* by rank: how much later it begins; NULL: none. Until it is open */
  vm_time latency;             /* from an event to the arrival of what it sends, at least */
  vm_time grid;                /* windows also end at multiples of it; 0: only where they must */
  vm_work *threads;            /* NULL: the caller's alone */
  atomic_int *interrupt;       /* nonzero: stop after the window; may be NULL */
  double seconds, cpu_seconds; /* of the host, and of its processors, at most; 0: any number */
  double cpu_since;
  bool alone;           /* one thread: a rank calls the host */
  double next_progress; /* of the host, seconds */
  uint64_t windows;     /* so far */
  isa_status status;    /* ISA_OK, or how it ended or stopped */
  uint32_t failed;      /* the rank that ended it */
  isa_buf report;       /* the text of it */
} vm_world;

/* What is known of LPs between two windows: those of this process, then those of all. */
typedef struct vm_senders {
  vm_time next;                /* the next event of all */
  vm_time first, second;       /* the two least times at which an LP may send */
  vm_time failed_at;           /* of the fault that stops the world; UINT64_MAX: none */
  uint32_t who;                /* whose `first` is */
  uint32_t waits;              /* a rank waits, and no event is to come in the process */
  uint32_t status, failed, by; /* ISA_OK, or why the world stops, by which rank, process */
} vm_senders;

/* Connects runs that have started: what their programs call peers are ranks of the world, and
 * tensors of the peers' programs. On failure nothing is left. w is all zero but for grid, threads,
 * interrupt, alone, seconds, delays and net, of which its times come from the runs. */
isa_status vm_world_open(vm_world *w, const isa_alloc *al, vm_run *const *runs, uint32_t nranks,
                         isa_error *e);
/* Runs until all ranks have ended, time has come, or something stops it. The same as a run's
 * status; ISA_OK: all have ended, or the time has come (then some run is not ended). */
isa_status vm_world_go(vm_world *w, vm_time until);
/* The same, one event after another in the order of time and LP, so that all ranks stand at one
 * moment where a stop of one of them holds, or after an event or an instruction of an engine. Only
 * where no other process moves LPs. */
typedef struct vm_world_goal {
  vm_until what;
  uint32_t rank; /* rank, core, engine: of VM_UNTIL_ISSUE */
  unsigned core, engine;
} vm_world_goal;
isa_status vm_world_step(vm_world *w, const vm_world_goal *g, vm_time until);
/* The runs stay; they are ranks of no world any more. */
void vm_world_close(vm_world *w);
/* The hash of all events of all ranks; the time that the last of them has reached. */
uint64_t vm_world_hash(const vm_world *w);
vm_time vm_world_time(const vm_world *w);

/* process.c */
/* From now on LPs are those of several processes, if there are several and no rank calls the host.
 * All have opened the same world, and none has moved it. */
void vm_world_spread(vm_world *w, const vm_transport *far);
/* Makes of this process's senders those of all. False: the world stops, as w->status says. */
bool vm_world_meet(vm_world *w, vm_senders *s);
/* Hands messages over between processes, in place of vm_world_carry. A failure is w->status. */
void vm_world_exchange(vm_world *w);
/* Sends to[p] to each process p, and gives `take` what comes, process by process. */
bool vm_world_share(const isa_alloc *al, const vm_transport *far, isa_buf *to,
                    bool (*take)(void *ud, uint32_t process, const uint8_t *at, uint64_t n),
                    void *ud);
/* Whether this process moves the rank. */
static inline bool vm_world_has(const vm_world *w, uint32_t rank) {
  return w->lp_of[rank] >= w->lp0 && w->lp_of[rank] < w->lp1;
}

/* state.c */
struct vm_saver;
/* To or from a file: between two calls of vm_world_go. To read, the world has just been opened. */
void vm_world_walk(vm_world *w, struct vm_saver *s);
/* The part of it that is not of a rank. */
void vm_world_walk_links(vm_world *w, struct vm_saver *s);
void vm_world_walk_change(struct vm_saver *s, vm_link_change *c);

/* peers.c */
/* Fills in ranks and tensors of w->peers[rank]. */
isa_status vm_world_connect(vm_world *w, uint32_t rank, isa_error *e);

/* traffic.c */
/* The links of w->net, over which each peer can be reached. */
isa_status vm_world_open_links(vm_world *w, isa_error *e);
/* Hands over a message: to its receiver, or to the first link of its route. */
void vm_world_carry(vm_world *w, const vm_parcel *p);
/* Bytes of a message on links: of a share those of its last packet; *before: of the others. */
uint64_t vm_world_linked(const vm_world *w, const vm_message *m, uint64_t *before);
/* Messages on links go on, up to the time before which no LP sends another; true: some have come
 * to their receivers. */
bool vm_world_traffic(vm_world *w, vm_time sends);

/* promise.c */
/* What vm_world_promise looks at; false: out of memory. */
bool vm_world_promise_open(vm_world *w);
void vm_world_promise_close(vm_world *w);
/* Before that time an LP whose next event is known sends nothing, unless a message comes to it;
 * UINT64_MAX: never. */
vm_time vm_world_promise(const vm_world *w, const vm_lp *lp);

/* stuck.c: nothing is to come, and not all ranks have ended. */
void vm_world_stuck(vm_world *w);

#endif
