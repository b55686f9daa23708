/* The virtual machine: a core's memories, its sequencers, its DMA engines, and the event
 * loop that moves them through simulated time.
 *
 * README.md says which room does what; engine/engine.h, time/clock.h, dma/dma.h and check/check.h
 * are the interfaces between rooms. Runs and cores stand here, and in the files beside this one
 * what they are made of.
 *
 * An instruction's operands are resolved when it issues. In simulated time it reads its sources at
 * `start` and its result appears at `done`; the host executes it at done, and a source that is
 * overwritten in between is copied first (vm_item). */
#ifndef VM_VM_H
#define VM_VM_H

#include "event.h"
#include "memory.h"
#include "sequencer.h"
#include "transfer.h"

#include <stdatomic.h>

typedef struct vm_limits {
  uint64_t instructions; /* and repeats; 0: no limit, as below */
  vm_time time;
  double seconds, cpu_seconds; /* of the host; of the process's threads on its processors */
  uint64_t hbm_bytes;
} vm_limits;

typedef struct vm_fault_record {
  isa_status status;
  unsigned core;
  int engine, dma_engine;
  uint32_t pc;
  vm_time time;
  bool has_pc;
  isa_buf insn, text;
} vm_fault_record;

/* The last values of a semaphore: update i is at i mod VM_SEM_LOG of each array. */
enum { VM_SEM_LOG = 16 };
typedef struct vm_sem_log {
  vm_time time[VM_SEM_LOG];
  uint32_t value[VM_SEM_LOG];
  vm_where by[VM_SEM_LOG];
  uint32_t n; /* updates in all; when it wraps it continues from VM_SEM_LOG */
} vm_sem_log;

/* A stack of HBM: where what lies in it has its addresses, and the cores that share its bandwidth.
 * They may belong to more than one run, and one loop moves all of them (sched.c). */
enum { VM_STACK_CORES = 2 };
typedef struct vm_stack {
  struct vm_hbm *addresses;
  struct vm_core *cores[VM_STACK_CORES]; /* of runs that have joined it */
  unsigned n;
} vm_stack;

/* What a machine lends to a run; threads, pool and given may be NULL. */
typedef struct vm_host {
  isa_alloc al;
  const vm_kern *kern;
  unsigned cvt; /* isa_cvt flags */
  vm_stack *stack;
  struct vm_work *threads; /* the host's, see work/work.h; NULL: the caller's alone */
  struct vm_pool *pool;    /* of blocks of tensors; a run holds a reference */
  /* The tensors that already have host memory; data NULL: this one has not. */
  const struct vm_block *given;
} vm_host;

enum { VM_WATCHERS = 8 }; /* of a run, at most: the checks, a debugger, a recorder, a few more */

/* A run of a program, on one core or on two: what it has only once. */
typedef struct vm_run {
  struct vm_core *cores[ISA_MAX_CORES];
  unsigned n;
  isa_alloc al;
  const isa_program *prog;
  vm_stack *stack;
  struct vm_work *threads; /* as in vm_host */
  struct vm_pool *pool;
  struct vm_batch *batch; /* what is computed a little later (batch.c); in core 0's memory */
  vm_kern kern;
  uint32_t cost_values[VM_COST_ROOM];
  vm_block *blocks; /* one per tensor of prog */
  uint32_t stale;   /* how many of them have stale bytes */
  bool watched;     /* the pieces of some are */
  bool timing_only; /* data paths and transfers take their time and move nothing */
  bool placed;      /* its tensors and descriptors have their addresses */
  bool joined;      /* its cores are among the stack's */
  bool running;     /* inside vm_run_until */
  bool ended;
  bool paused;   /* a watcher stops it: the loop ends after this event */
  vm_item items; /* list head */
  const struct vm_watch *watchers[VM_WATCHERS + 1]; /* watch.h; NULL after the last */
  vm_hooks hooks;
  vm_limits limits;
  vm_fault_record fault;
  uint32_t transfers; /* that have started */
  uint64_t trace_hash;
  uint64_t jitter; /* seed of a schedule, 0: none */
  uint64_t hbm_bytes;
  double host_seconds, run_since, next_progress; /* of the host, seconds */
  double cpu_seconds, cpu_since;                 /* of its processors, for this process */
  uint32_t until_clock;                          /* events until the host's clock is read next */
  atomic_int *interrupt;                         /* nonzero: stop; may be NULL */
  struct vm_peers *peers; /* message.h: the other ranks; NULL: there are none */
} vm_run;

typedef struct vm_core {
  uint8_t number; /* in its run: 0 or 1 */
  vm_run *run;
  isa_alloc al; /* the run's, as the next two */
  const isa_target *target;
  const isa_program *prog;
  const isa_core *code;
  const uint32_t *cost; /* by vm_cost_id (time/clock.h), of the generation: the run's */
  vm_time reg_cycle;    /* of a register instruction; 0: not worked out yet */
  vm_memory mem;
  vm_uop *uops[ISA_NSEQS];
  uint32_t sem[ISA_NSEMS];
  uint16_t sem_waiters[ISA_NSEMS]; /* sets of sequencers, a bit for each */
  vm_sem_log sem_log[ISA_NSEMS];   /* for reports */
  vm_ring rings[ISA_MAX_QUEUES][ISA_NDMA];
  uint16_t ring_waiters[ISA_MAX_QUEUES]; /* likewise */
  uint32_t statics_next[ISA_MAX_QUEUES];
  uint8_t first_dma[ISA_MAX_QUEUES]; /* the DMA engine that serves ring 0 */
  vm_dma_engine dma[ISA_NDMA];
  uint32_t hbm_active; /* DMA engines whose packet reads or writes HBM */
  vm_share *free_shares;
  vm_transfer *free_transfers;
  struct vm_slab *slabs;           /* blocks from which the free lists are cut */
  uint32_t shares_alive;           /* in rings */
  uint32_t queued[ISA_MAX_QUEUES]; /* all transfers; when resumed also those then in flight */
  vm_events events;
  vm_time now;     /* of the event being run */
  vm_time horizon; /* how far an engine may go without an event: to a limit, or the stop */
#define COUNTER(name, unit, layout, text) uint64_t name;
#include "stats.def"
  uint64_t repeats; /* transfers that dma_triggers have started, without the first of each */
  vm_time dma_active, dma_since; /* union of shares at work; start of the share in progress */
  uint32_t shares_moving;
  uint64_t touched[2];                    /* furthest byte of a partition of SBUF and PSUM so far */
  uint64_t jitters;                       /* how many spans the run's jitter has changed */
  uint32_t cause;                         /* node that causes the semaphore updates posted now */
  const struct vm_watch *const *watchers; /* the run's; NULL: nobody watches it */
  struct vm_check *check; /* check.h; NULL: none. One for the run, as the next two */
  struct vm_debug *debug; /* debug.h; NULL: no debugger */
  struct vm_path *path;   /* time/clock.h; NULL: none is kept */
  struct vm_ccs *ccs;     /* engine/cc.h: its CC sequencers; NULL: the program gives them no code */
  struct vm_inbox *inbox; /* message.h: what has yet to arrive; NULL: nothing ever came */
  unsigned nseqs; /* sequencers, ISA_NENGINES without code of CC sequencers: others are not */
  vm_engine eng[ISA_NSEQS]; /* even there, since a core is large enough without them */
} vm_core;

/* ---- Life cycle (core.c) ------------------------------------------------------------------ */

/* Prepares in r, all zero, a run of a program that has passed isa_check_program: HBM tensors zeroed
 * (const data copied), engines at pc 0, semaphores and registers zero. mem: the memories of its
 * cores, which it does not free. The caller sets hooks, limits and interrupt before it runs. A
 * failure frees what it took. */
isa_status vm_run_start(vm_run *r, const vm_host *h, const isa_program *p, const vm_memory *mem,
                        isa_error *e);
void vm_run_end(vm_run *r);
/* Frees the run's addresses in HBM, and takes its cores off the stack; its bytes can still be
 * read. */
void vm_run_release(vm_run *r);

/* A run that has just started begins so much later. */
void vm_run_delay(vm_run *r, vm_time by);
/* Puts its cores among the stack's, which vm_run_start has done; false: the stack is full. And
 * takes them off: then what they move takes no bandwidth. */
bool vm_stack_join(vm_run *r);
void vm_stack_leave(vm_run *r);

/* The DMA engine of a queue's ring, and the other way round. */
static inline unsigned vm_dma_of_ring(const vm_core *c, unsigned queue, unsigned ring) {
  unsigned d = c->first_dma[queue] + ring;
  return d < c->target->dma ? d : d - c->target->dma;
}
static inline unsigned vm_ring_of_dma(const vm_core *c, unsigned queue, unsigned dma) {
  unsigned first = c->first_dma[queue];
  return dma < first ? dma + c->target->dma - first : dma - first;
}

/* The instruction at pc of engine e of c. */
static inline vm_where vm_at_pc(const vm_core *c, unsigned e, uint32_t pc) {
  return (vm_where){.engine = (int16_t)e, .dma = -1, .core = c->number, .pc = pc};
}
/* That core of c's run. */
static inline vm_core *vm_core_at(const vm_core *c, unsigned number) {
  return c->run->cores[number];
}
/* The first host byte of that core's SBUF. */
static inline uint8_t *vm_sbuf_of(const vm_core *c, unsigned core) {
  return c->run->cores[core]->mem.sbuf;
}
/* The time that the run has reached, and the instructions that have issued, of all its cores. */
static inline vm_time vm_run_now(const vm_run *r) {
  vm_time now = 0;
  for (unsigned i = 0; i < r->n; i++) now = vm_time_later(now, r->cores[i]->now);
  return now;
}
static inline uint64_t vm_run_instructions(const vm_run *r) {
  uint64_t n = 0;
  for (unsigned i = 0; i < r->n; i++) n += r->cores[i]->instructions;
  return n;
}

static inline bool vm_run_is_idle(const vm_run *r) {
  for (unsigned i = 0; i < r->n; i++)
    if (r->cores[i]->events.n) return false;
  return true;
}

typedef enum vm_until { VM_UNTIL_END, VM_UNTIL_EVENT, VM_UNTIL_ISSUE, VM_UNTIL_TIME } vm_until;
/* Runs c's run until the stop, the end, or a fault; see soma_run_until. engine: of c. */
isa_status vm_run_until(vm_core *c, vm_until what, unsigned engine, vm_time time);

/* Runs the events of a stack that come no later than `until`, whichever run they belong to. It
 * looks at no clock of the host, no interrupt and no limit, and leaves what waits in a batch as it
 * is: the caller has called vm_batch_begin. */
typedef enum vm_halt {
  VM_HALT_TIME, /* the next event comes later */
  VM_HALT_IDLE, /* nothing is to come */
  VM_HALT_RUN   /* a run has ended or pauses */
} vm_halt;
vm_halt vm_stack_advance(vm_stack *s, vm_time until);
/* Runs the next event of the stack: the core that it was of, NULL: none is to come. An engine may
 * go on after it until there, one instruction at most if `single`. */
vm_core *vm_stack_step(vm_stack *s, vm_time until, bool single);
/* Whether all engines have halted and nothing triggers a CC sequencer. */
bool vm_run_rests(const vm_run *r);
static inline bool vm_seq_rests(const vm_engine *en) {
  return en->state == VM_HALTED || en->state == VM_IDLE;
}
/* For a run that has no event to come, and to which nobody will send one: it ends, or it has a
 * deadlock. */
void vm_run_finish(vm_run *r);
/* Seconds of the host's clock, and of its processors for this process. */
double vm_host_now(void);
double vm_cpu_now(void);

#endif
