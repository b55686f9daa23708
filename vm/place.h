/* Times, places and ranges of memory: what all rooms of the machine speak of. */
#ifndef VM_PLACE_H
#define VM_PLACE_H

#include "../isa/program.h"

typedef uint64_t vm_time; /* femtoseconds */
static inline vm_time vm_time_later(vm_time a, vm_time b) { return b > a ? b : a; }

/* When something can continue, and the node of the record of causes that it waits for; 0: none. */
typedef struct vm_moment {
  vm_time time;
  uint32_t node;
} vm_moment;
/* The later of two: a if both have the same time. */
static inline vm_moment vm_later(vm_moment a, vm_moment b) { return b.time > a.time ? b : a; }

/* What causes something: the instruction at pc of a core's engine, perhaps through a DMA engine. */
typedef struct vm_where {
  int16_t engine; /* -1: none */
  int8_t dma;     /* -1: none */
  uint8_t core;   /* in its run */
  uint32_t pc;
} vm_where;
#define VM_NOWHERE ((vm_where){.engine = -1, .dma = -1})
/* In place of an engine: the host; another rank, whose number is then the pc. */
enum { VM_BY_PEER = UINT8_MAX - 1, VM_BY_HOST = UINT8_MAX };
static inline bool vm_by_engine(vm_where at) { return at.engine >= 0 && at.engine < VM_BY_PEER; }

enum { VM_NS = 1000000 };    /* femtoseconds in a nanosecond */
enum { VM_COST_ROOM = 128 }; /* constants of the clock, at most */

/* Bytes an access may touch: a box of partitions x bytes, or an interval of HBM by host address. */
typedef struct vm_box {
  uint8_t space;   /* 0: none */
  uint8_t core;    /* the core of the memory; 0 in HBM */
  uint16_t p0, p1; /* partitions p0 .. p1 - 1; 0 and 1 in HBM */
  uint64_t lo, hi; /* bytes of the partition; host addresses in HBM */
} vm_box;
static inline bool vm_box_meet(const vm_box *a, const vm_box *b) {
  return a->space == b->space && a->core == b->core && a->lo < b->hi && b->lo < a->hi &&
         a->p0 < b->p1 && b->p0 < a->p1;
}

/* Something that reads at start and writes at done: an instruction in a data path or a share of a
 * transfer. It is linked from when it issues until it executes. */
enum { VM_BOXES = 6 };
typedef struct vm_item {
  vm_time start, done;
  struct vm_item *next, *prev;
  uint8_t nsrc, ndst;
  uint8_t core; /* it belongs to */
  bool is_share;
  bool staged;                  /* its sources have been copied */
  struct vm_block_head *copies; /* blocks that live as long as the item (issue.c) */
  vm_box dst[2], src[VM_BOXES];
} vm_item;

/* Why something began when it did and not earlier. */
typedef enum vm_why {
  VM_WHY_START,     /* nothing delayed it: the run began */
  VM_WHY_SEM,       /* a semaphore update arrived */
  VM_WHY_ENGINE,    /* the data path was busy with the instruction before */
  VM_WHY_HAZARD,    /* an earlier instruction of the same engine touched the same bytes */
  VM_WHY_WEIGHTS,   /* a matmul's weights were loading */
  VM_WHY_PORT,      /* another engine held the memory port */
  VM_WHY_TABLE,     /* an activation table was loading */
  VM_WHY_DEPTH,     /* the sequencer was as far ahead as it is allowed to be */
  VM_WHY_DRAIN,     /* a drain */
  VM_WHY_TRIGGER,   /* a DMA trigger, and the time until its first data */
  VM_WHY_DMA,       /* the DMA engine was busy with another share */
  VM_WHY_RING,      /* a ring was full */
  VM_WHY_GENERATOR, /* the descriptor generator was busy */
  VM_WHY_MEET,      /* the other core reached its sendrecv */
  VM_WHY_PEER       /* a message of another rank arrived */
} vm_why;
typedef struct vm_cause {
  uint32_t node; /* 0: none */
  uint8_t why;
  uint8_t sem;  /* of VM_WHY_SEM */
  vm_time time; /* when it took effect */
} vm_cause;

#endif
