/* The host's threads: a job is cut into chunks, and threads that are free take some of them.
 *
 * For example a product of 512 columns as four chunks of 128: vm_work_do(w, multiply, &job, 4,
 * room) calls multiply(&job, 0 .. 3, its thread's room) once each, in any order, on this thread and
 * on others, and returns when all four have. Chunks must not depend on one another, nor on the
 * thread: then no number of threads changes anything. Arithmetic rounds everywhere as in the
 * caller.
 *
 * The threads belong to the process and serve every machine in it. They start with the first job,
 * are never more than the cores that the process may use, and end with the last vm_work_close. */
#ifndef VM_WORK_H
#define VM_WORK_H

#include "../../isa/isa.h"

enum { VM_WORK_THREADS = 256, VM_WORK_CHUNKS = 128 }; /* at most */

/* A user of the threads, from one thread at a time. */
typedef struct vm_work {
  unsigned threads; /* that may work on a job, the caller's too; 0 and 1: only the caller's */
  bool eager;       /* every job is worth cutting (vm_work_pretend) */
  size_t room;
  /* What the others have saved of late, less what they have cost, in nanoseconds; and until when
   * the caller works alone, since that fell below zero. */
  int64_t balance, alone_until;
} vm_work;

/* chunk: 0 .. chunks - 1; room: memory of the thread that calls, for anything until it returns. */
typedef void vm_work_fn(void *job, uint32_t chunk, void *room);

/* Cores that the process may use, at least 1. */
unsigned vm_work_cores(void);
/* For tests: who opens from now on finds n cores, and every job worth cutting; 0: as it is. */
void vm_work_pretend(unsigned n);

/* *w may use `threads` threads, 0: as many as there are cores; more than that are as many. Each has
 * `room` bytes of its own, the same number for all of a process. */
void vm_work_open(vm_work *w, unsigned threads, size_t room);
void vm_work_close(vm_work *w);

/* Whether a job of that size is worth cutting now, where one of `least` is. w may be NULL. The
 * other cores may be taken: then what has been lost is not tried again for some time. */
bool vm_work_ready(const vm_work *w, uint64_t size, uint64_t least);
/* Does a job of 1 to VM_WORK_CHUNKS chunks; room is the caller's. */
void vm_work_do(vm_work *w, vm_work_fn *fn, void *job, uint32_t chunks, void *room);

#endif
