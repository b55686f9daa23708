/* For debuggers: places where a run pauses, and a call for each instruction that is done. For
 * example, pause before vector's instruction 12 issues:
 *
 *   vm_debug_add(c, &(vm_stop){.kind = VM_STOP_PC, .engine = ISA_ENG_vector, .pc = 12}, &id);
 *
 * Nothing here changes what a run computes or when: the hash of the trace is the same. It watches
 * the run (watch.h) from the first of these calls on; until then debug is NULL.
 * Both cores of a pair have the same vm_debug, which core 0 frees; the calls that take a stop, and
 * those for the run as a whole, take either core. */
#ifndef VM_DEBUG_H
#define VM_DEBUG_H

#include "../watch.h"

enum vm_stop_kind {
  VM_STOP_PC = 1, /* before engine's instruction at pc issues: its wait holds */
  VM_STOP_COUNT,  /* when engine has issued `count` instructions in all; once */
  VM_STOP_DONE,   /* when the instruction at pc has written its result, the count-th time; once */
  VM_STOP_SEM,    /* when the value of sem begins to satisfy cond and value */
  VM_STOP_WRITE,  /* when bytes of the region have been written, */
  VM_STOP_READ    /* or read */
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
  vm_where where;      /* the instruction that caused it; engine VM_BY_HOST: the host */
  vm_time start, time; /* when the read or write began; and now */
  uint32_t value;      /* of a semaphore */
  int32_t from_rank;   /* that has sent it, -1: none; where is then the sender's */
  bool part; /* the instruction chooses what it writes, and may not have touched these bytes */
} vm_hit;

typedef struct vm_stop {
  uint32_t id;
  uint8_t kind, core, engine, cond, sem; /* core: of the engine, semaphore, SBUF or PSUM */
  bool quiet;                            /* the run goes on: only `last` and `hits` change */
  uint32_t pc, value;
  uint64_t count;
  vm_region region;
  vm_hit last;
  uint64_t hits;
} vm_stop;

/* An instruction that is done: it has issued, and its data path or its transfer has ended. */
typedef struct vm_done {
  vm_where where;
  vm_time start, end; /* of the data path; else when it issued, or when its transfer ended */
  vm_time waited;     /* for its semaphore */
  int reg;            /* that it has written, -1: none */
  uint32_t value;     /* of reg */
  /* What it has written in memory, as numbers; elements 0: nothing. */
  uint64_t elements, nans;
  float min, max; /* without NaNs */
} vm_done;

/* What is kept for a core's engines. */
typedef struct vm_debug_core {
  uint64_t told[ISA_NSEQS]; /* one more than the number of the instruction that was stopped at */
  vm_time waited[ISA_NSEQS], of_flight[ISA_NENGINES][VM_FLIGHTS];
} vm_debug_core;

enum { VM_HITS = 16 };
typedef struct vm_debug {
  vm_stop *v;
  uint32_t n, cap, last_id;
  vm_hit hit[VM_HITS];
  uint32_t nhits;
  void (*done)(void *ud, const vm_done *d); /* NULL: no log */
  void *done_ud;
  vm_debug_core core[ISA_MAX_CORES];
} vm_debug;

/* stop.c: the list. A stop is copied, *id is its number; false if out of memory. */
bool vm_debug_add(vm_core *c, const vm_stop *s, uint32_t *id);
/* The stop of that number; NULL: none exists. */
vm_stop *vm_debug_find(const vm_core *c, uint32_t id);
void vm_debug_remove(vm_core *c, uint32_t id);
/* Calls fn for each instruction from now on; NULL: no more calls. False if out of memory. */
bool vm_debug_tell(vm_core *c, void (*fn)(void *ud, const vm_done *d), void *ud);
/* Moves what c has to `to`, which has just been made for the same program; ud: for its log. Both
 * are core 0 of their run. */
void vm_debug_move(vm_core *to, vm_core *c, void *ud);
/* Engine e has just been stepped: its next instruction, if it can issue now, does not pause. */
void vm_debug_stepped(vm_core *c, unsigned e);
/* Whether engine e's next instruction does not pause: after a step, or since the run has paused
 * there. */
bool vm_debug_passes(const vm_core *c, unsigned e);

/* For the files of this room: makes a hit by engine e's instruction at pc, which began at start;
 * and notes that a stop holds. */
vm_hit vm_debug_at(const vm_core *c, unsigned e, uint32_t pc, vm_time start);
void vm_debug_hit(vm_core *c, vm_stop *s, const vm_hit *h);
/* watch.c, see watch.def. */
void vm_debug_issue(vm_core *c, unsigned e, const vm_flight *f);
void vm_debug_executed(vm_core *c, unsigned e, const vm_flight *f);
void vm_debug_accessed(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_debug_ended(vm_core *c, const vm_share *s, vm_where by);
void vm_debug_arrive(vm_core *c, const struct vm_parcel *p, const vm_view *v);

#endif
