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
#ifndef VM_PACE_H
#define VM_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds of work of a round, as estimated for one thread: the first of them pay for waking a
 * thread, which takes up to 100 us. */
enum { VM_PACE_ROUND = 2000000 };

typedef struct vm_pace {
  bool alone;         /* other threads are not used in this round */
  uint64_t work;      /* of this round, counted by the caller in the same way for both */
  double cost[2];     /* the host's nanoseconds for one of work: with others, alone; 0: not known */
  bool prefers_alone; /* what the costs say; if `alone` differs, this round is one of a trial */
  unsigned rounds;    /* since a trial began or ended */
  unsigned wait;      /* so many rounds later the next one begins */
} vm_pace;

/* A round, of at least VM_PACE_ROUND, has taken so many nanoseconds of the host's. */
void vm_work_end_round(vm_pace *p, uint64_t host_ns);

#endif
