/* What engines know about one another during the run: clocks, and updates of semaphores. */
#ifndef VM_CHECK_CLOCK_H
#define VM_CHECK_CLOCK_H

#include "../saver.h"
#include "cores.h"

#include <string.h>

/* ---- Components of a clock ---------------------------------------------------------------- */

/* An engine has four components: how many of its data-path instructions are complete, how many have
 * read their sources, how many have loaded weights (which do not end in order with matmuls), and
 * how far its sequencer has come. Then, from vm_check.rings on, each ring of each queue has one:
 * shares done. */
enum { OF_DONE, OF_READ, OF_WEIGHTS, OF_SEQ, OF_ENGINE };
static inline unsigned vm_ck_comp(unsigned engine, unsigned what) {
  return OF_ENGINE * engine + what;
}
static inline unsigned vm_ck_engine_of(unsigned comp) { return comp / OF_ENGINE; }

/* Raises the n components of a clock, a multiple of 4, to those of another; true if one was less.
 * Most are equal. */
static inline bool vm_ck_join(uint32_t *to, const uint32_t *from, uint32_t n) {
  bool more = false;
  for (uint32_t i = 0; i < n; i += 4) {
    uint64_t a[2], b[2];
    memcpy(a, to + i, sizeof a);
    memcpy(b, from + i, sizeof b);
    if (((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0) continue;
    for (uint32_t j = i; j < i + 4; j++)
      if (from[j] > to[j]) {
        to[j] = from[j];
        more = true;
      }
  }
  return more;
}

/* A clock at an earlier moment, shared by the updates that were released with it. */
typedef struct vm_ck_snapshot {
  struct vm_ck_snapshot *next; /* next in the free list */
  uint32_t refs;
  uint32_t number; /* its number in a file, if `saved` is that of the walk that writes it */
  uint64_t saved;
  uint32_t v[]; /* ncomps */
} vm_ck_snapshot;

/* What an engine knows after it has seen an update: the snapshot, the newer `own` of the updating
 * engine, and the shares of ring `ring` (0: none) up to `share`. For a sendrecv also component
 * `twin` (0: none), the other core's half, up to `twin_share`. */
typedef struct vm_ck_release {
  vm_ck_snapshot *base;
  uint32_t own[OF_ENGINE];
  uint32_t share, twin_share;
  uint32_t pc;     /* of the instruction that updates */
  uint32_t logged; /* its number in the log, 0: none */
  uint16_t ring, twin;
  uint8_t engine;
} vm_ck_release;

/* ---- Semaphores --------------------------------------------------------------------------- */

/* An update that has been triggered, in the order of its source. */
typedef struct vm_ck_update {
  vm_ck_release r;
  int64_t delta, total; /* total: the value of the semaphore when this update and all before it have
                           arrived */
  uint32_t epoch;       /* of the source's component */
  bool writes;          /* sets the value to delta */
} vm_ck_update;
/* Both halves of a sendrecv end together in a data path, but not in a ring: its update then comes
 * when both are done, perhaps after those of later shares of the ring, and is of a source of its
 * own. */
enum { VM_CK_BOTH = 0x8000 };
typedef struct vm_ck_source {
  uint16_t comp;                  /* a component; for updates of both halves with VM_CK_BOTH */
  uint32_t head, n, cap, arrived; /* updates v[head .. n - 1]; the first `arrived` of them have
                                     arrived */
  vm_ck_update *v;
  int64_t up, down; /* sum of their increments, and of their decrements (negative) */
} vm_ck_source;

typedef struct vm_ck_held { /* the last wait of an engine for a semaphore that held */
  bool valid;
  uint8_t cond;
  uint32_t value, pc, epoch; /* epoch: of the engine's component OF_SEQ */
  vm_time time;
} vm_ck_held;
typedef struct vm_ck_sem_log {
  vm_ck_source *src;
  uint32_t nsrc, cap;
  int64_t up, down; /* updates that have not arrived */
  bool was_written; /* of `write`, when its value was `before` */
  uint8_t writer;
  uint32_t before, set_to, written_pc;
  uint16_t write_comp; /* an engine that knows this epoch of that component comes after the write */
  uint32_t write_epoch;
  vm_time written_at;
  vm_ck_release write;
  vm_ck_held held[VM_CK_ENGINES];
  uint16_t from[VM_CK_ENGINES]; /* the source of all that an engine has acquired, FROM_MANY */
} vm_ck_sem_log;
enum { FROM_NOBODY = 0, FROM_MANY = UINT16_MAX }; /* else the component + 1 */

/* ---- clock.c ------------------------------------------------------------------------------ */

/* A snapshot of ncomps zeros, without a reference. NULL after a fault: out of memory. */
vm_ck_snapshot *vm_ck_new_snapshot(vm_core *c);
/* Drops a reference; NULL is allowed. */
void vm_ck_drop(vm_core *c, vm_ck_snapshot *s);
/* Engine e now knows that epoch of a component; it now knows all that r proves. */
void vm_ck_raise(vm_core *c, unsigned e, unsigned comp, uint32_t epoch);
void vm_ck_acquire(vm_core *c, unsigned e, const vm_ck_release *r);
/* What an update by the instruction at engine e's pc proves, with a reference; false, and its base
 * is NULL, after a fault. */
bool vm_ck_release_now(vm_core *c, unsigned e, vm_ck_release *r);
/* The epoch of a sequencer's next step, which its clock has at once. */
uint32_t vm_ck_step_on(vm_core *c, unsigned e);
/* A new snapshot, all zero, with a reference. NULL after a fault. */
vm_ck_snapshot *vm_ck_make_snapshot(vm_core *c);
/* Engines x and y have met. */
void vm_ck_clocks_meet(vm_core *c, unsigned x, unsigned y);
/* In a saved run: snapshots are shared, so each is written where it occurs first, and has a number
 * from then on. */
typedef struct vm_ck_clock_walk {
  vm_saver *s;
  vm_core *c;
  vm_ck_snapshot **v; /* when it reads */
  uint32_t n, cap;
} vm_ck_clock_walk;
/* A reference to a snapshot; NULL is allowed. */
void vm_ck_walk_snapshot(vm_ck_clock_walk *w, vm_ck_snapshot **p);
/* sems.c */
void vm_ck_walk_sems(vm_ck_clock_walk *w);
void vm_ck_walk_release(vm_ck_clock_walk *w, vm_ck_release *r);

/* ---- sems.c ------------------------------------------------------------------------------- */

/* Notes an update that has been triggered, number `epoch` of a component; takes over the reference
 * in r. */
void vm_ck_note_update(vm_core *c, unsigned sem, unsigned kind, uint32_t value, unsigned comp,
                       uint32_t epoch, const vm_ck_release *r);
/* The wait w of engine e's instruction at its pc holds. */
void vm_ck_wait(vm_core *c, unsigned e, const isa_wait *w);
/* The next update of a source arrives. */
void vm_ck_arrived(vm_core *c, unsigned sem, unsigned comp);
vm_ck_source *vm_ck_find_source(const vm_ck_sem_log *l, unsigned comp); /* comp: of a source */
void vm_ck_sems_end(vm_core *c);

/* ---- lost.c ------------------------------------------------------------------------------- */

/* Whether a release comes after epoch of component comp. */
bool vm_ck_includes(const struct vm_check *k, const vm_ck_release *r, unsigned comp,
                    uint32_t epoch);
/* When a value is set, the engine must know of every update before it: else one of them could come
 * later and count. */
void vm_ck_check_lost(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s);
/* An update that arrives after the value was set: r is what it was released with. */
void vm_ck_check_late(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_release *r);
/* The value is set to `value` after it was set to something else. */
void vm_ck_check_set_again(vm_core *c, const vm_ck_sem_log *l, unsigned sem,
                           const vm_ck_release *by, int64_t value);
/* The newest update of source s lowers the value: does it stay at zero or above if, of the
 * increments of other sources, only those have arrived that must have? */
void vm_ck_check_below(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s);
/* The update that proves that epoch of component comp, if one has been triggered and is still kept:
 * its semaphore and the value to wait for. */
bool vm_ck_clocks_signal(const vm_core *c, unsigned comp, uint32_t epoch, unsigned *sem,
                         int64_t *value);
/* The value that a semaphore will have when all its triggered updates have arrived. */
int64_t vm_ck_clocks_total(const vm_core *c, unsigned sem);
/* The value that engine e last waited for on a semaphore, -1 if it never waited. */
int64_t vm_ck_clocks_waited(const vm_core *c, unsigned e, unsigned sem);

/* ---- report.c ----------------------------------------------------------------------------- */

/* Findings. Engine e waits, by h, for a semaphore that was reset with no order to the wait; its
 * wait h held on a value that passes to `next`; it triggers a queue that another engine triggers;
 * an update by the engine's instruction at pc could come before l's last write or after it. */
void vm_ck_report_reuse(vm_core *c, unsigned e, unsigned sem, const vm_ck_sem_log *l,
                        const vm_ck_held *h);
void vm_ck_report_passing(vm_core *c, unsigned sem, unsigned e, const vm_ck_held *h, uint32_t next);
void vm_ck_report_trigger(vm_core *c, unsigned e, unsigned queue);
/* Update u takes a semaphore below zero unless `late` (NULL: an update to come) has arrived. */
void vm_ck_report_below(vm_core *c, unsigned sem, const vm_ck_update *u, const vm_ck_release *late);
void vm_ck_report_lost(vm_core *c, unsigned sem, const vm_ck_sem_log *l, unsigned engine,
                       uint32_t pc);

#endif
