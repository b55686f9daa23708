/* The host's threads: a job is split into chunks, and threads that are free take some of them.
 *
 * For example a product of 512 columns as four chunks of 128: vm_work_do(w, multiply, &job, 4,
 * room) calls multiply(&job, 0 .. 3, its thread's room) once each, in any order, on this thread and
 * on others, and returns when all four have. Chunks must not depend on one another or on the
 * thread: then the number of threads changes no result. Arithmetic rounds everywhere as in the
 * caller.
 *
 * The threads belong to the process and serve every machine in it. They start with the first job,
 * are never more than the cores that the process may use, and end with the last vm_work_close. */
#ifndef VM_WORK_H
#define VM_WORK_H

#include "../../isa/isa.h"

#include <fenv.h>
#include <stdatomic.h>

enum { VM_WORK_THREADS = 256, VM_WORK_CHUNKS = 128 }; /* at most */

/* Whether other threads gain time on this host, found out by trying.
 *
 * They may not: another program has the cores, or the cores are so far from one another that what
 * one has written reaches the other late (two virtual cores whose messages take 0.4 us instead of
 * 0.08: a convolution on two threads then takes 1.3 of its time on one). So work is counted in
 * rounds, and two rounds now and then, a trial, are done the other way. For example
 *
 *   p.work = 3000000; vm_work_end_round(&p, 1800000)
 *
 * for a round with others, of which 1 ns of work took 0.6 ns. After four of them p.alone says that
 * a trial begins; if it takes 0.97 ns, p.alone is false again two rounds later. */
typedef struct vm_pace {
  bool alone;         /* other threads are not used in this round */
  uint64_t work;      /* of this round, counted by the caller in the same way for both */
  double cost[2];     /* the host's nanoseconds for one of work: with others, alone; 0: not known */
  bool prefers_alone; /* what the costs say; if `alone` differs, this round is one of a trial */
  unsigned rounds;    /* since a trial began or ended */
  unsigned wait;      /* so many rounds later the next one begins; 0: the first time */
} vm_pace;
/* Nanoseconds of work of a round, as estimated for one thread: the first of them pay for waking a
 * thread, which takes up to 100 us. */
enum { VM_PACE_ROUND = 2000000 };

/* A user of the threads, from one thread at a time. */
typedef struct vm_work {
  unsigned threads; /* that may work on a job, including the caller's; 0 and 1: only the caller's */
  bool eager;       /* every job is worth splitting (vm_work_pretend) */
  size_t room;
  vm_pace pace;
  int64_t since, host_ns; /* when the round began, if it had no pauses; its time before a pause */
} vm_work;

/* chunk: 0 .. chunks - 1; room: memory of the thread that calls, for anything until it returns. */
typedef void vm_work_fn(void *job, uint32_t chunk, void *room);

/* Cores that the process may use, at least 1. */
unsigned vm_work_cores(void);
/* For tests: from now on every vm_work_open finds n cores, and every job is worth splitting; 0: as
 * the host really is. */
void vm_work_pretend(unsigned n);
/* For tests: from now on other threads get nothing, so that what is left to them is done as late as
 * it may be. */
void vm_work_absent(bool absent);

/* *w may use `threads` threads, at most as many as there are cores; 0: that many. Each has `room`
 * bytes of its own; the number must be the same everywhere in a process. */
void vm_work_open(vm_work *w, unsigned threads, size_t room);
void vm_work_close(vm_work *w);

/* Whether a job should be split now that takes one thread about so many nanoseconds, if one of
 * `least` should. w may be NULL. */
bool vm_work_ready(const vm_work *w, uint64_t ns, uint64_t least);
/* Whether no job should be, however large. */
bool vm_work_alone(const vm_work *w);
/* What decides about it (vm_pace), with NULL or a w: the caller begins to work, for example a run
 * goes on; */
void vm_work_resume(vm_work *w);
/* it has done, alone or not, what takes one thread about so many nanoseconds; */
void vm_work_did(vm_work *w, uint64_t ns);
/* it does something else. */
void vm_work_pause(vm_work *w);
/* Does a job of 1 to VM_WORK_CHUNKS chunks; room is the caller's. */
void vm_work_do(vm_work *w, vm_work_fn *fn, void *job, uint32_t chunks, void *room);
/* The same in two steps, between which the caller does something else while other threads work. The
 * task and the job stay where they are until then; its fields are work.c's. */
typedef struct vm_work_task {
  vm_work_fn *fn;
  void *job;
  uint32_t chunks;
  unsigned threads;  /* among which the chunks are laid out */
  fenv_t arithmetic; /* the caller's: rounding and the like */
  atomic_uint left;  /* chunks that nobody has claimed */
  atomic_bool taken[VM_WORK_CHUNKS];
  unsigned offered; /* to so many threads: */
  struct vm_worker *by[VM_WORK_THREADS];
} vm_work_task;
void vm_work_begin(vm_work *w, vm_work_task *t, vm_work_fn *fn, void *job, uint32_t chunks);
/* Whether other threads have done all of it, so that vm_work_finish would take no time. */
bool vm_work_is_done(const vm_work_task *t);
void vm_work_finish(vm_work_task *t, void *room);
/* For vm_work_did: a round, of at least VM_PACE_ROUND, has taken so many nanoseconds of the host's.
 */
void vm_work_end_round(vm_pace *p, uint64_t host_ns);

#endif
