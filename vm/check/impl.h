/* What the files of this room share. */
#ifndef VM_CHECK_IMPL_H
#define VM_CHECK_IMPL_H

#include "../engine/engine.h"
#include "../legal/legal.h"
#include "check.h"
#include "cores.h"

#include <string.h>

/* ---- Components of a clock ---------------------------------------------------------------- */

/* What another may know of an engine: how many of its data-path instructions are complete, have
 * read their sources, have loaded weights (which end out of turn with matmuls); and how far its
 * sequencer has come. Then, from vm_check.rings on, one for each ring of each queue: shares done.
 */
enum { OF_DONE, OF_READ, OF_WEIGHTS, OF_SEQ, OF_ENGINE };
static inline unsigned vm_ck_comp(unsigned engine, unsigned what) {
  return OF_ENGINE * engine + what;
}
static inline unsigned vm_ck_engine_of(unsigned comp) { return comp / OF_ENGINE; }

/* Raises the n components of a clock, an even number, to those of another; true: one was less. Most
 * are equal. */
static inline bool vm_ck_join(uint32_t *to, const uint32_t *from, uint32_t n) {
  bool more = false;
  for (uint32_t i = 0; i < n; i += 2) {
    uint64_t a, b;
    memcpy(&a, to + i, sizeof a);
    memcpy(&b, from + i, sizeof b);
    for (uint32_t j = i; a != b && j < i + 2; j++)
      if (from[j] > to[j]) {
        to[j] = from[j];
        more = true;
      }
  }
  return more;
}

/* A clock as it was, shared by the updates that were released with it. */
typedef struct vm_ck_snapshot {
  struct vm_ck_snapshot *next; /* of the free list */
  uint32_t refs;
  uint32_t number; /* in a file, when `saved` is that of the walk that writes it */
  uint64_t saved;
  uint32_t v[]; /* ncomps */
} vm_ck_snapshot;

/* What whoever sees an update knows: the snapshot, of the engine the newer `own`, and of ring
 * `ring` (0: none) the shares up to `share`. Of a sendrecv also component `twin` (0: none) of the
 * other core's half up to `twin_share`. */
typedef struct vm_ck_release {
  vm_ck_snapshot *base;
  uint32_t own[OF_ENGINE];
  uint32_t share, twin_share;
  uint32_t pc;     /* of the instruction that updates */
  uint32_t logged; /* its number in the log, 0: none */
  uint16_t ring, twin;
  uint8_t engine;
} vm_ck_release;

/* An update that has been triggered, in the order of its source. */
typedef struct vm_ck_update {
  vm_ck_release r;
  int64_t delta, total; /* total: of the semaphore when this and all before it have arrived */
  uint32_t epoch;       /* of the source's component */
  bool writes;          /* sets the value to delta */
} vm_ck_update;
typedef struct vm_ck_source {
  uint16_t comp;
  uint32_t head, n, cap, arrived; /* updates v[head .. n - 1]; the first `arrived` have arrived */
  vm_ck_update *v;
  int64_t up, down; /* sum of their increments, and of their decrements (negative) */
} vm_ck_source;

typedef struct vm_ck_held { /* the last wait of an engine on a semaphore that held */
  bool valid;
  uint8_t cond;
  uint32_t value, pc, epoch; /* epoch: of the engine's OF_SEQ */
  vm_time time;
} vm_ck_held;
typedef struct vm_ck_sem_log {
  vm_ck_source *src;
  uint32_t nsrc, cap;
  int64_t up, down; /* updates under way */
  bool was_written; /* by `write`, when its value was `before` */
  uint8_t writer;
  uint32_t before, set_to, written_pc;
  uint16_t write_comp; /* who knows this epoch of that component comes after it */
  uint32_t write_epoch;
  vm_time written_at;
  vm_ck_release write;
  vm_ck_held held[VM_CK_ENGINES];
  uint16_t from[VM_CK_ENGINES]; /* the source of all that an engine has acquired, FROM_MANY */
} vm_ck_sem_log;
enum { FROM_NOBODY = 0, FROM_MANY = UINT16_MAX }; /* else the component + 1 */

/* ---- Accesses ----------------------------------------------------------------------------- */

typedef struct vm_ck_access {
  isa_byteset set; /* bytes of a partition; host addresses in HBM */
  uint16_t p0, p1;
  uint16_t region, comp;
  uint32_t epoch;
  /* Of a write: who sees this epoch of that component of its engine knows that it is complete,
   * since the engine's own read of the bytes had to wait for it. 0: nothing does. */
  uint32_t seen_epoch;
  uint16_t seen_comp;
  uint32_t first, last; /* buckets it is in */
  uint32_t stamp;
  bool writes, alive;
  bool handed;    /* not read, but named by a core_barrier of its engine */
  uint8_t engine; /* whose instruction it is */
  uint8_t queue;  /* of a share, else VM_CK_QUEUES */
  uint8_t ring;
  uint32_t transfer; /* of a share: the number of its transfer */
  uint32_t pc;
  vm_time time;
  uint32_t step, at, logged; /* in the log: its step, its place, its number (0: none) */
  uint32_t seq;              /* how far the sequencer had come that issued or triggered it */
} vm_ck_access;
typedef struct vm_ck_bucket {
  uint32_t *ids, n, cap;
} vm_ck_bucket;
/* SBUF, PSUM, each HBM tensor, then core 1's SBUF and PSUM: cut into buckets of 1 << shift bytes.
 * Last, where several engines of a core come to a pipe of sendrecvs, the pipes of each core: to
 * come to pipe n is to write byte n.
 */
enum { VM_CK_PIPES = 256 };
typedef struct vm_ck_region {
  uint64_t lo, hi;
  uint8_t space, shift, core; /* space: 0 of pipes */
  bool written;               /* the program may write it: else reads need not be known */
  uint32_t tensor;            /* of HBM: 1-based */
  uint32_t nbuckets;
  vm_ck_bucket *buckets;
} vm_ck_region;

/* ---- The log ------------------------------------------------------------------------------ */

/* A step changes what its engine knows: a wait that held on a semaphore that counts, or any other
 * (HELD, which changes nothing: its updates follow); an update that such a wait acquired; a drain;
 * a trigger after another engine's; a sendrecv that has met the other core's; an order that a
 * finding assumes. `at` is the place of each step, update and access in the order of the run. */
enum {
  VM_CK_START,
  VM_CK_WAIT,
  VM_CK_HELD,
  VM_CK_KNOW,
  VM_CK_DRAIN,
  VM_CK_QUEUE,
  VM_CK_MEET,
  VM_CK_ASSUME
};
typedef struct vm_ck_step {
  uint8_t kind, engine, cond; /* cond: of a wait that held */
  uint16_t sem;
  uint32_t prev;  /* the engine's step before */
  uint32_t other; /* an update, the instructions that are drained, a step, an access */
  uint32_t at, seq, pc;
  int64_t want;   /* the sum of all increments that the wait needs; of an order that is assumed, an
                   * update that is seen, or 0 */
  uint32_t value; /* of the wait as it stands */
} vm_ck_step;
typedef struct vm_ck_signal { /* an update; whoever sees it knows what its step knows, and more */
  uint32_t step, at, own[OF_ENGINE], share, twin_share, epoch, pc;
  uint32_t arrived;     /* place, of a semaphore that does more than count; 0: it has not */
  int64_t delta, total; /* total: of the semaphore when this and all before it have arrived */
  uint16_t comp, ring, twin, sem;
  uint8_t engine;
  bool writes; /* sets the value to delta */
  bool taken;  /* of one that takes effect at once: together with the wait of its step */
} vm_ck_signal;
typedef struct vm_ck_log {
  bool on;
  vm_ck_step *steps;
  vm_ck_signal *updates;
  vm_ck_signal *sets; /* that take effect at once, of semaphores that do more than count */
  vm_ck_access *accesses;
  uint32_t nsteps, cap_steps, nupdates, cap_updates, naccesses, cap_accesses, at;
  uint32_t nsets, cap_sets, most_steps;
  uint32_t last[VM_CK_ENGINES], queue[VM_CK_QUEUES]; /* steps */
  int64_t taken[VM_CK_SEMS];
  bool knows;                                       /* what is acquired now is to be logged */
  bool mixed[VM_CK_SEMS];                           /* does more than count */
  bool host[VM_CK_SEMS];                            /* the host has set it */
  uint16_t waiters[VM_CK_SEMS], takers[VM_CK_SEMS]; /* masks of engines */
} vm_ck_log;

/* ---- All together ------------------------------------------------------------------------- */

/* A byte for each byte of memory: 0 when nothing has written it, the mark of the tile through which
 * it was written last when that tile is `own`, VM_CK_ANYONE when it is as good as written through
 * each, else VM_CK_WRITTEN. */
enum { VM_CK_WRITTEN = 1, VM_CK_OWNERS, VM_CK_ANYONE = 255 };
typedef struct vm_ck_shadow {
  uint8_t *at;
  uint64_t bytes;
} vm_ck_shadow;

/* Two tiles that share bytes. */
typedef struct vm_ck_tile_pair {
  uint32_t tile[2]; /* 1-based */
  uint32_t written; /* the tile written last, 0: none */
  uint8_t by;       /* engine and instruction that wrote it */
  uint32_t pc;
} vm_ck_tile_pair;

/* PSUM of a core: a byte an fp32 slot, and of each bank who read it last. */
typedef struct vm_ck_banks {
  uint8_t *slots;
  uint8_t reader[ISA_PSUM_BYTES / ISA_PSUM_BANK];
  uint32_t reader_pc[ISA_PSUM_BYTES / ISA_PSUM_BANK];
  vm_time read_time[ISA_PSUM_BYTES / ISA_PSUM_BANK];
} vm_ck_banks;

enum { SEEN_PAIRS = 4096 }; /* findings that are kept apart, so that a loop reports once */

struct vm_check {
  unsigned mask;
  unsigned nengines, nsems, nqueues; /* of both cores */
  char names[VM_CK_ENGINES][16];     /* "vector"; of two cores "core 1 vector" */
  uint64_t count;
  uint32_t nfindings;
  vm_finding findings[VM_FINDINGS];
  uint64_t seen[SEEN_PAIRS];
  /* clocks */
  uint32_t ncomps, rings;             /* rings: the first component of a ring */
  uint32_t *clock[VM_CK_ENGINES];     /* ncomps each */
  vm_ck_snapshot *now[VM_CK_ENGINES]; /* of the clock, NULL when it has changed since */
  vm_ck_snapshot *free;
  bool halved;                 /* of a sendrecv that has met another, the first half has started */
  vm_view sent[ISA_MAX_CORES]; /* and what each core sends */
  uint8_t met[VM_CK_ENGINES];  /* and the engine that each has met */
  bool shared_pipe[ISA_MAX_CORES][VM_CK_PIPES]; /* several engines of the core come to it */
  uint32_t issued[VM_CK_ENGINES];               /* data-path instructions */
  /* Of an engine with @read updates: the last instruction that has ended when the newest starts,
   * since one up to that touched the same bytes. */
  uint32_t hazard[VM_CK_ENGINES];
  uint16_t tells_reads; /* engines with @read updates */
  uint32_t *shares;     /* of each ring, by component */
  uint32_t transfers;
  uint8_t trigger[VM_CK_QUEUES]; /* engine that last triggered the queue, with that clock */
  uint32_t trigger_pc[VM_CK_QUEUES], trigger_epoch[VM_CK_QUEUES]; /* epoch: of OF_SEQ */
  vm_time trigger_time[VM_CK_QUEUES];
  vm_ck_snapshot *queue_base[VM_CK_QUEUES];
  vm_ck_sem_log *sems[VM_CK_SEMS];
  uint16_t waiters[VM_CK_SEMS]; /* engines whose code waits for it */
  vm_ck_release arriving;
  bool has_arriving;
  uint8_t change_by; /* engine of the change that comes, VM_CK_ENGINES: the host */
  uint32_t change_pc;
  vm_ck_log log;
  /* Order by the clocks as the run goes may not be all there is, or more than there is: what the
   * log shows is to be judged. Until then each access is looked at when it comes. */
  bool suspect;
  uint32_t judged; /* places of the log that were */
  /* Of the replay of a log: the clock of the access that is looked at. */
  const uint32_t *view;
  struct vm_ck_judge *judge;
  /* accesses */
  vm_ck_region *regions;
  uint32_t nregions, stamp;
  vm_ck_access *accesses;
  uint32_t naccesses, cap_accesses, alive, prune_at;
  uint32_t *free_ids, nfree, cap_free;
  /* shadows: SBUF and PSUM of each core, then tensors */
  vm_ck_shadow sbuf[ISA_MAX_CORES], psum[ISA_MAX_CORES], *hbm;
  bool shadowed;   /* reads of sbuf and psum are looked at */
  uint8_t *owners; /* of each tile, its mark; NULL: no tile is `own` */
  uint64_t *reads[VM_CK_ENGINES], *writes[VM_CK_ENGINES]; /* registers, by pc */
  uint64_t registers[VM_CK_ENGINES];                      /* written */
  uint16_t accumulators;                                  /* of each engine: they have been reset */
  vm_ck_banks banks[ISA_MAX_CORES];
  /* values: infinities and NaNs among the operands of what executes, and among all weights */
  unsigned had, weights_had[ISA_MAX_CORES];
  vm_ck_tile_pair *pairs; /* core 1's after core 0's, npairs each */
  uint32_t npairs, cap_pairs;
  uint64_t saves; /* walks that have written the state */
  /* Of VM_CHECK_LEGAL: what the run has done, the step of each engine that is not yet complete, and
   * whether accesses are for it. */
  vm_legal *legal;
  vm_legal_step pending[VM_CK_ENGINES];
  bool has_pending[VM_CK_ENGINES], recording;
};

static inline unsigned vm_ck_ring_comp(const struct vm_check *k, unsigned queue, unsigned ring) {
  return k->rings + queue * ISA_NDMA + ring;
}
/* "core 1 ", "core 1's " of a program of two. */
static inline const char *vm_ck_core_text(const vm_core *c, unsigned core) {
  return c->prog->ncores < 2 ? "" : core ? "core 1 " : "core 0 ";
}
/* Whether a component is told of by a twin: an engine's complete instruction has read, too. */
static inline bool vm_ck_is_twin(const struct vm_check *k, unsigned twin, unsigned comp) {
  return comp == twin || (twin < k->rings && comp == twin + (OF_READ - OF_DONE));
}
static inline const char *vm_ck_whose(const vm_core *c, unsigned core) {
  return c->prog->ncores < 2 ? "" : core ? "core 1's " : "core 0's ";
}
static inline const char *vm_ck_name(const vm_core *c, unsigned e) { return c->check->names[e]; }

static inline bool vm_ck_has(const vm_core *c, unsigned kind) { return c->check->mask >> kind & 1; }

/* check.c: one finding. NULL when the same two places have had it, or too many are there. The
 * caller appends to its text what the values are; vm_ck_put_* format the pieces. Engines are of
 * both cores here and in these. */
vm_finding *vm_ck_found(vm_core *c, unsigned kind, unsigned e, uint32_t pc, unsigned other,
                        uint32_t other_pc);
/* Takes back the findings that are wrong. */
void vm_ck_take_back(vm_core *c, bool (*wrong)(const void *ud, const vm_finding *f),
                     const void *ud);
/* Memory ran out: the run ends, since the race check would be wrong. */
void vm_ck_out_of_memory(vm_core *c);
/* "\n  vector file.s:12, at 100.0 ns: instruction". */
void vm_ck_put_insn(const vm_core *c, unsigned e, uint32_t pc, vm_time t, isa_buf *out);
/* vm_put_place, vm_put_site and vm_put_sem of the engines and semaphores of both cores. */
void vm_ck_put_place(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out);
void vm_ck_put_site(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out);
void vm_ck_put_sem(const vm_core *c, unsigned sem, isa_buf *out);
/* The same with the round of a loop, from 1; 0: it is not known, or there is one alone. */
void vm_ck_put_round(const vm_core *c, unsigned e, uint32_t pc, uint32_t round, vm_time t,
                     isa_buf *out);
/* "bytes 0..63 of sbuf partitions 0..127 (tile a)". */
void vm_ck_put_bytes(const vm_core *c, const vm_ck_region *r, const vm_ck_access *a, isa_buf *out);
/* The same of a view, and of a box. */
void vm_ck_put_view(const vm_core *c, const vm_view *v, isa_buf *out);
void vm_ck_put_box(const vm_core *c, const vm_box *box, isa_buf *out);

/* Calls fn for each view that a flight reads or writes, with the flags of its field; of a list over
 * sixteen partitions and of every sixteenth partition, with what of it is. */
void vm_ck_each_operand(const vm_core *c, const vm_flight *f,
                        void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud);

/* How long the list is that an AP_SNAKE operand of a flight holds, 0: as long as fits. */
uint64_t vm_ck_snake(const vm_flight *f, const vm_view *v, unsigned flags);

/* Calls fn for the number of each tensor that an instruction of the program reads (AP_R) or writes
 * (AP_W), as often as it is named. */
void vm_ck_each_tensor(const vm_core *c, unsigned flag, void (*fn)(void *ud, uint32_t tensor),
                       void *ud);

/* The same for one instruction. */
void vm_ck_insn_tensors(const vm_core *c, const isa_insn *in, unsigned flag,
                        void (*fn)(void *ud, uint32_t tensor), void *ud);

/* output.c */
bool vm_ck_output_start(vm_core *c);
void vm_ck_output_finish(vm_core *c);

/* clock.c */
bool vm_ck_clocks_start(vm_core *c);
void vm_ck_clocks_end(vm_core *c);
/* A snapshot of ncomps zeros, with no reference. NULL after a fault: out of memory. */
vm_ck_snapshot *vm_ck_new_snapshot(vm_core *c);
/* The wait w of engine e's instruction at its pc holds. */
void vm_ck_wait(vm_core *c, unsigned e, const isa_wait *w);

vm_ck_source *vm_ck_find_source(const vm_ck_sem_log *l, unsigned comp);

/* lost.c. Whether a release comes after epoch of component comp. */
bool vm_ck_includes(const struct vm_check *k, const vm_ck_release *r, unsigned comp,
                    uint32_t epoch);
/* What the value is set over must be known to who sets it: else it could come later and count. */
void vm_ck_check_lost(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s);
/* An update that arrives after the value was set: r is what it was released with. */
void vm_ck_check_late(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_release *r);
/* The value is set to `value` after another has set it. */
void vm_ck_check_set_again(vm_core *c, const vm_ck_sem_log *l, unsigned sem,
                           const vm_ck_release *by, int64_t value);
/* The newest update of source s lowers the value: whether that stays above zero when of the others'
 * increments only those have arrived that must have. */
void vm_ck_check_below(vm_core *c, const vm_ck_sem_log *l, unsigned sem, const vm_ck_source *s);
/* The update that tells of epoch of component comp, if one has been triggered and not forgotten:
 * its semaphore and the value to wait for. */
bool vm_ck_clocks_signal(const vm_core *c, unsigned comp, uint32_t epoch, unsigned *sem,
                         int64_t *value);
/* The value that a semaphore comes to when what is under way has arrived. */
int64_t vm_ck_clocks_total(const vm_core *c, unsigned sem);
/* The value that engine e last waited for on a semaphore, -1 when it has not. */
int64_t vm_ck_clocks_waited(const vm_core *c, unsigned e, unsigned sem);

/* report.c. Engine e waits, by h, for a semaphore that was reset with no order to the wait; its
 * wait h held on a value that passes to `next`; it triggers a queue that another one does; an
 * update by the engine's instruction at pc could come before l's last write or after it. */
void vm_ck_report_reuse(vm_core *c, unsigned e, unsigned sem, const vm_ck_sem_log *l,
                        const vm_ck_held *h);
void vm_ck_report_passing(vm_core *c, unsigned sem, unsigned e, const vm_ck_held *h, uint32_t next);
void vm_ck_report_trigger(vm_core *c, unsigned e, unsigned queue);
/* Update u takes a semaphore below zero unless `late` (NULL: one to come) has arrived. */
void vm_ck_report_below(vm_core *c, unsigned sem, const vm_ck_update *u, const vm_ck_release *late);
void vm_ck_report_lost(vm_core *c, unsigned sem, const vm_ck_sem_log *l, unsigned engine,
                       uint32_t pc);
/* The wait of a step can wait for ever, since the value can stay at `value`. */
void vm_ck_report_stuck(vm_core *c, const vm_ck_step *w, uint32_t value);
/* Update u can take its semaphore below zero. */
void vm_ck_report_too_low(vm_core *c, const vm_ck_signal *u);

/* Engines x and y have met. */
void vm_ck_clocks_meet(vm_core *c, unsigned x, unsigned y);

/* log.c: each returns at once when the log is off. */
bool vm_ck_log_start(vm_core *c);
void vm_ck_log_end(vm_core *c);
void vm_ck_log_give_up(vm_core *c);
/* False when the semaphore does more than count: then what it acquires is to be logged. */
bool vm_ck_log_wait(vm_core *c, unsigned e, unsigned sem, const isa_wait *w, uint32_t value);
void vm_ck_log_know(vm_core *c, unsigned e, const vm_ck_release *r);
void vm_ck_log_drain(vm_core *c, unsigned e, uint32_t to, uint32_t twin);
void vm_ck_log_meet(vm_core *c, unsigned x, unsigned y);
/* Engine e triggers a queue; other: another engine did before. */
void vm_ck_log_trigger(vm_core *c, unsigned e, unsigned queue, bool other);
/* The host sets a semaphore. */
void vm_ck_log_host(vm_core *c, unsigned sem);
void vm_ck_log_take(vm_core *c, unsigned sem, unsigned kind, uint32_t value);
/* Engine e sets a semaphore, or adds to it, at once; taken: it has waited for it by the same
 * instruction. */
void vm_ck_log_set(vm_core *c, unsigned e, unsigned sem, const vm_ck_update *u, bool taken);
/* Update number `logged` arrives. */
void vm_ck_log_arrival(vm_core *c, uint32_t logged);
/* The update's number. */
uint32_t vm_ck_log_update(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *u);
/* Numbers the access; false: there is no log. */
bool vm_ck_log_access(vm_core *c, vm_ck_access *a);

/* must.c: what has happened before each step under every timing. */
typedef struct vm_ck_must vm_ck_must;
typedef struct vm_ck_mixed vm_ck_mixed;
/* in_run: what has happened before each step in the run as it was. NULL when memory is out. */
vm_ck_must *vm_ck_must_new(vm_core *c, bool in_run);
void vm_ck_must_free(vm_core *c, vm_ck_must *m);
/* Finds the clocks anew, with all steps of the log. False when memory is out. */
bool vm_ck_must_solve(vm_core *c, vm_ck_must *m);
/* The clock of a step; valid until the next solve. */
const uint32_t *vm_ck_must_clock(const vm_ck_must *m, uint32_t step);
/* What an update tells joins `to`. */
void vm_ck_must_join(const vm_ck_must *m, const vm_ck_signal *u, uint32_t *to);
/* What is known of the semaphores of the log that do more than count. */
vm_ck_mixed *vm_ck_must_mixed(const vm_ck_must *m);
/* Whether whoever sees the update knows epoch of component comp. */
bool vm_ck_must_tells(const vm_ck_must *m, const vm_ck_signal *u, unsigned comp, uint32_t epoch);
/* Whether some step can never come: what was assumed closes a circle. */
bool vm_ck_must_stuck(const vm_ck_must *m);
/* Assumes that access `first` is complete before access `second` begins; by: that an update that
 * tells so has been seen, or NULL. */
bool vm_ck_must_assume(vm_core *c, const vm_ck_access *first, const vm_ck_access *second,
                       const vm_ck_signal *by);

/* mixed.c: semaphores that do more than count. NULL when memory is out. */
vm_ck_mixed *vm_ck_mixed_new(vm_core *c);
void vm_ck_mixed_free(vm_ck_mixed *x);
/* Components of clocks, with those that say how many updates have arrived. */
uint32_t vm_ck_mixed_comps(const vm_ck_mixed *x);
/* What the wait of a step of kind VM_CK_HELD acquires joins `mine`; of a semaphore that is not
 * decided, nothing. */
void vm_ck_mixed_acquire(vm_ck_mixed *x, const vm_ck_must *m, uint32_t step, uint32_t *mine);
/* Whether a step of kind VM_CK_KNOW counts. */
bool vm_ck_mixed_knows(const vm_ck_mixed *x, uint32_t step);
/* The first pass over the steps is over: until then waits acquire what they saw in the run. */
void vm_ck_mixed_passed(vm_ck_mixed *x);
/* Finds anew what waits are sure of, by the clocks that m has now; false: nothing is less than it
 * was, or memory is out. */
bool vm_ck_mixed_lower(vm_ck_mixed *x, const vm_ck_must *m);
/* After the last time. False when memory was out. */
bool vm_ck_mixed_settle(vm_ck_mixed *x);
bool vm_ck_mixed_decides(const vm_ck_mixed *x, unsigned sem);
/* Whether two accesses, which may come in either order, are never open at once, since who comes
 * later has to wait: as of two that take one semaphore in turn. */
bool vm_ck_mixed_apart(vm_ck_mixed *x, const vm_ck_must *m, const vm_ck_access *a,
                       const vm_ck_access *b);

/* lucky.c: takes back what was found of semaphores whose waits all end, in whatever order updates
 * come, and reports those of which that is not so. */
void vm_ck_judge_waits(vm_core *c, const vm_ck_must *m);

/* advice.c: who of two accesses that nothing orders has to come first, and what makes it so. */
enum { VM_CK_UNSURE = 100 }; /* a rank, and those after it: no wait can be named */
typedef struct vm_ck_advice {
  const vm_ck_access *first, *second;
  unsigned rank; /* the least is the surest */
  bool early;    /* second overwrites what first still needs */
  bool enough;   /* second waits for as much as first brings, yet others can bring it */
  bool drain, signals, waits, again, takes;
  bool falls; /* the wait is for <=, on a value that falls */
  bool stale; /* the wait held, and yet does not tell */
  bool there; /* its wait stands at second itself */
  bool alone; /* no other engine waits for the semaphore */
  uint16_t sem;
  int64_t value, waited, step; /* step: by which value rises in each round, 0: by no one number */
  const vm_ck_signal *other; /* an update that could stand in for the one that is meant, or NULL */
  uint32_t waited_pc, round; /* round: of second, 0: it is not known */
} vm_ck_advice;
void vm_ck_advise(const vm_core *c, const vm_ck_must *m, const vm_ck_must *run,
                  const vm_ck_access *old, const vm_ck_access *a, vm_ck_advice *out);
/* What makes the order of the two. */
void vm_ck_advise_order(const vm_core *c, const vm_ck_must *m, const vm_ck_access *first,
                        const vm_ck_access *second, vm_ck_advice *out);
/* The update to wait for: the one that fits best, and of several the first; NULL: none tells. */
const vm_ck_signal *vm_ck_signal_of(const vm_core *c, const vm_ck_must *m,
                                    const vm_ck_access *first, const vm_ck_access *second);
void vm_ck_put_advice(const vm_core *c, const vm_ck_advice *a, isa_buf *out);
/* "vector", or "a transfer of queue q". */
void vm_ck_put_who(const vm_core *c, const vm_ck_access *a, isa_buf *out);

/* merge.c: whether a finding is that a read came too early, and what it missed is this write. */
bool vm_ck_explains(const vm_core *c, const vm_finding *f, const vm_ck_access *write,
                    const vm_ck_access *read);

/* judge.c: what the log shows, as findings; at the end of a run, or when the log is given up. */
void vm_ck_judge(vm_core *c);
/* The least of what all engines that still continue know, where the replay is. */
void vm_ck_judge_floor(const vm_core *c, uint32_t *floor);
/* Two accesses that nothing orders, of a replay. */
void vm_ck_judge_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a);

/* legal.c: what happens, for the judges; each returns at once when nobody asked. */
bool vm_ck_legal_start(vm_core *c);
void vm_ck_legal_end(vm_core *c);
void vm_ck_legal_wait(vm_core *c, unsigned e, const isa_wait *w);
void vm_ck_legal_issue(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_legal_transfer(vm_core *c, unsigned e, const isa_insn *in, const vm_transfer *t,
                          const vm_share *shares);
void vm_ck_legal_touch(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_ck_legal_drain(vm_core *c, unsigned e);
void vm_ck_legal_update(vm_core *c, unsigned e, const isa_update *u);
void vm_ck_legal_applied(vm_core *c, unsigned e, unsigned sem, unsigned kind);
/* An access of race.c's, while k->recording. */
void vm_ck_legal_access(vm_core *c, const vm_ck_access *a);

/* race.c */
/* Looks at an access now; forgets all. */
void vm_ck_race_look(vm_core *c, vm_ck_access *a);
void vm_ck_race_forget(vm_core *c);
/* Whether access x is complete for y, which begins with this clock. */
bool vm_ck_race_known(const uint32_t *clock, const vm_ck_access *x, const vm_ck_access *y);
bool vm_ck_race_meet(const vm_ck_access *a, const vm_ck_access *b);
/* An access: judged when the log is, or now. */
void vm_ck_race_record(vm_core *c, unsigned e, vm_ck_access *a);
bool vm_ck_races_start(vm_core *c);
void vm_ck_races_end(vm_core *c);
void vm_ck_race_flight(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_race_sequencer(vm_core *c, unsigned e, const vm_view *v, bool writes);
/* Bytes that engine e hands to the other core by a barrier: its own transfers must be over. */
void vm_ck_race_handed(vm_core *c, unsigned e, const vm_view *v);
void vm_ck_race_share(vm_core *c, unsigned e, const vm_transfer *t, const vm_share *s,
                      unsigned ring);

/* uninit.c, psum.c, value.c, tile.c */
bool vm_ck_shadows_start(vm_core *c);
bool vm_ck_uninit_start(vm_core *c);
void vm_ck_uninit_end(vm_core *c);
void vm_ck_uninit_execute(vm_core *c, unsigned e, const vm_flight *f);
/* Before a flight executes, or its sources are copied; and before it executes. */
void vm_ck_uninit_reads(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_uninit_executed(vm_core *c, const vm_flight *f);
void vm_ck_uninit_access(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_ck_uninit_host(vm_core *c, const vm_box *b);
void vm_ck_uninit_move(vm_core *c, const vm_share *s);
void vm_ck_uninit_moved(vm_core *c, const vm_share *s);
/* The same view of the shadow; NULL at where the memory has none. */
vm_view vm_ck_shadow_of(const vm_core *c, const vm_view *v);
/* The first of n bytes of a shadow that whoever reads through `owner` (0: no tile that is `own`)
 * must not find there; NULL: all may be read. */
const uint8_t *vm_ck_wrong(const vm_core *c, const uint8_t *at, size_t n, uint8_t owner);
/* The first partition of a view with such a byte; -1: no partition has one. */
int64_t vm_ck_unwritten(const vm_core *c, const vm_view *v);
/* The mark of a view's tile, 0: it is not `own`; and of what is written through the view. */
static inline uint8_t vm_ck_owner(const vm_core *c, const vm_view *v) {
  return c->check->owners && v->tile ? c->check->owners[v->tile - 1] : 0;
}
static inline uint8_t vm_ck_mark_of(const vm_core *c, const vm_view *v) {
  uint8_t owner = vm_ck_owner(c, v);
  return owner ? owner : VM_CK_WRITTEN;
}

/* part.c */
/* As vm_ck_each_operand, but only what is read or written of each, where the form fixes that. */
void vm_ck_each_part(const vm_core *c, const vm_flight *f,
                     void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud);
/* Of a view with AP_CHOSEN: the first partition of the destination that gets a wrong byte, or -1;
 * and that byte of the shadow. */
int64_t vm_ck_chosen_unwritten(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src,
                               uint8_t *wrong);
/* Whether an instruction writes what is chosen of its destination and leaves the rest; and for a
 * flight of such a one, which is about to execute: notes what it writes. */
bool vm_ck_writes_chosen(unsigned op);
void vm_ck_mark_chosen(vm_core *c, unsigned e, const vm_flight *f);
bool vm_ck_psum_start(vm_core *c);
void vm_ck_psum_end(vm_core *c);
void vm_ck_psum_issue(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_psum_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_psum_reads(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_value_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_value_executed(vm_core *c, unsigned e, const vm_flight *f);
bool vm_ck_tiles_start(vm_core *c);
void vm_ck_tiles_end(vm_core *c);
void vm_ck_tiles_issue(vm_core *c, unsigned e, const isa_insn *in, uint32_t pc);

#endif
