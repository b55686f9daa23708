/* For who looks on while a program runs: places where the run pauses, and a note of each
 * instruction that is done. For example, pause before vector's instruction 12 issues:
 *
 *   vm_debug_add(c, &(vm_stop){.kind = VM_STOP_PC, .engine = ISA_ENG_vector, .pc = 12}, &id);
 *
 * Nothing here changes what a run computes or when: with all of it the hash of the trace is the
 * same. A run that nobody looks at has debug == NULL and pays one test at each of the calls below.
 * Of a pair both cores have the same vm_debug, which is core 0's to free; the calls that take a
 * stop, and those of the run as a whole, take either core. */
#ifndef VM_DEBUG_H
#define VM_DEBUG_H

#include "../vm.h"

enum vm_stop_kind {
  VM_STOP_PC = 1, /* before engine's instruction at pc issues: its wait holds */
  VM_STOP_COUNT,  /* when engine has issued `count` instructions in all; once */
  VM_STOP_DONE,  /* when what engine issued at pc has its result, `count` times from now on; once */
  VM_STOP_SEM,   /* when the value of sem begins to satisfy cond and value */
  VM_STOP_WRITE, /* when bytes of the region have been written, */
  VM_STOP_READ   /* or read */
};

/* Bytes lo .. hi - 1 of partitions p0 .. p1 - 1 of a core's SBUF or PSUM, or of a tensor in HBM,
 * which has one partition. */
typedef struct vm_region {
  uint8_t space;
  uint32_t tensor; /* in HBM */
  uint32_t p0, p1;
  uint64_t lo, hi;
} vm_region;

/* What made a stop hold. */
typedef struct vm_hit {
  uint32_t stop;       /* its id */
  uint8_t core;        /* whose instruction `where` is */
  vm_where where;      /* whose doing it was; engine UINT8_MAX: the host's */
  vm_time start, time; /* of what has written or read: when it began; and now */
  uint32_t value;      /* of a semaphore */
  bool part; /* the instruction chooses what it writes, and may have left these bytes alone */
} vm_hit;

typedef struct vm_stop {
  uint32_t id;
  uint8_t kind, core, engine, cond, sem; /* core: whose engine, semaphore, SBUF or PSUM */
  bool quiet;                            /* the run goes on: only `last` and `hits` tell */
  uint32_t pc, value;
  uint64_t count;
  vm_region region;
  vm_hit last;
  uint64_t hits;
} vm_stop;

/* An instruction that is done: it has issued, and its data path or its transfer has ended. */
typedef struct vm_done {
  uint8_t core; /* whose instruction `where` is */
  vm_where where;
  vm_time start, end; /* of the data path; of others when it issued, or when its transfer ended */
  vm_time waited;     /* for its semaphore */
  int reg;            /* that it has written, -1: none */
  uint32_t value;     /* of reg */
  /* What it has written in memory, as numbers; elements 0: nothing. */
  uint64_t elements, nans;
  float min, max; /* of those that are no NaN */
} vm_done;

/* What is kept of a core's engines. */
typedef struct vm_debug_core {
  uint64_t told[ISA_NENGINES]; /* one more than the number of the instruction that was stopped at */
  vm_time waited[ISA_NENGINES], of_flight[ISA_NENGINES][VM_FLIGHTS];
} vm_debug_core;

enum { VM_HITS = 16 };
typedef struct vm_debug {
  vm_stop *v;
  uint32_t n, cap, last_id;
  bool paused; /* a stop holds: the loop ends after this event */
  vm_hit hit[VM_HITS];
  uint32_t nhits;
  void (*done)(void *ud, const vm_done *d); /* NULL: nobody is told */
  void *done_ud;
  vm_debug_core core[ISA_MAX_CORES];
} vm_debug;

/* stop.c: the list. A stop is copied, *id is its number; false when memory is out. */
bool vm_debug_add(vm_core *c, const vm_stop *s, uint32_t *id);
/* The stop of that number; NULL: there is none. */
vm_stop *vm_debug_find(const vm_core *c, uint32_t id);
void vm_debug_remove(vm_core *c, uint32_t id);
/* Tells fn of each instruction from now on; NULL: nobody. False when memory is out. */
bool vm_debug_tell(vm_core *c, void (*fn)(void *ud, const vm_done *d), void *ud);
/* Lets `to`, which has just been made of the same program, have what c has; ud: of its log. Both
 * are core 0 of their run. */
void vm_debug_move(vm_core *to, vm_core *c, void *ud);
void vm_debug_end(vm_core *c);
/* The run moves on: what held is forgotten. */
void vm_debug_resume(vm_core *c);
/* Engine e has just been stepped: its next instruction, if it can issue now, does not pause. */
void vm_debug_stepped(vm_core *c, unsigned e);
/* Whether that is so: then, or since the run has paused there. */
bool vm_debug_passes(const vm_core *c, unsigned e);

/* What happens in the machine, as its parts report it. */

/* Engine e's instruction at its pc can issue. True: it must not now, the run pauses. */
bool vm_debug_before(vm_core *c, unsigned e);
/* Engine e's instruction at pc has issued. */
void vm_debug_issued(vm_core *c, unsigned e, uint32_t pc);
/* Engine e has issued so many instructions as a count says. */
void vm_debug_count(vm_core *c, unsigned e);
/* How many more instructions engine e may issue until a count is reached; 0: it is, and nobody has
 * been told. */
uint64_t vm_debug_budget(const vm_core *c, unsigned e);
void vm_debug_change(vm_core *c, unsigned sem, uint32_t old, uint32_t next, vm_where by);
/* watch.c: a flight has issued, which says what it reads; it has executed; a share has read and
 * written; the sequencer itself has. */
void vm_debug_flies(vm_core *c, unsigned e, const vm_flight *f);
void vm_debug_executed(vm_core *c, unsigned e, const vm_flight *f);
void vm_debug_moved(vm_core *c, const vm_share *s, vm_where by);
void vm_debug_access(vm_core *c, unsigned e, const vm_view *v, bool writes);

/* For the files of this room: a hit by engine e's instruction at pc, which began at start, noted
 * now; and the note that a stop holds. */
vm_hit vm_debug_at(const vm_core *c, unsigned e, uint32_t pc, vm_time start);
void vm_debug_hit(vm_core *c, vm_stop *s, const vm_hit *h);

#endif
