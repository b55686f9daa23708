/* What the files of this room share: accesses, the log, and the state of all checks. Clocks and
 * semaphores are in clock.h, the judges of a log in judge.h, the checks of bytes in shadow.h. */
#ifndef VM_CHECK_IMPL_H
#define VM_CHECK_IMPL_H

#include "../engine/engine.h"
#include "../legal/legal.h"
#include "check.h"
#include "clock.h"
#include "cores.h"
#include "filler.h"

/* ---- Accesses ----------------------------------------------------------------------------- */

typedef struct vm_ck_access {
  isa_byteset set; /* bytes of a partition; host addresses in HBM */
  /* Partitions p0 .. p1 - 1; 0 and 1 in HBM. */
  uint16_t p0, p1;
  /* In which memory, and the component of the clock that says that it is complete: from epoch
   * `epoch` of it on. */
  uint16_t region, comp;
  uint32_t epoch;
  /* For a write: an engine that sees this epoch of that component of its engine knows that the
   * write is complete, since the engine's own read of the bytes had to wait for it. 0: there is
   * none. */
  uint32_t seen_epoch;
  uint16_t seen_comp;
  uint32_t first, last; /* buckets it is in */
  /* The search that looked at it last: an access that is in several buckets is looked at once. */
  uint32_t stamp;
  bool writes, alive;
  bool handed;    /* not read: a core_barrier of its engine names it */
  uint8_t engine; /* of the instruction */
  uint8_t queue;  /* of a share, else VM_CK_QUEUES */
  uint8_t ring;
  uint32_t transfer; /* for a share: the number of its transfer */
  uint32_t pc;
  /* When it begins. */
  vm_time time;
  uint32_t step, at, logged; /* in the log: its step, its place, its number (0: none) */
  uint32_t seq;              /* how far the sequencer had come that issued or triggered it */
  uint32_t push; /* of another rank: its number in vm_ck_twins.pushed, from 1; 0: none */
} vm_ck_access;
typedef struct vm_ck_bucket {
  /* Numbers of accesses: n of them, room for cap. */
  uint32_t *ids, n, cap;
} vm_ck_bucket;
/* SBUF, PSUM, each HBM tensor, then core 1's SBUF and PSUM, divided into buckets of 1 << shift
 * bytes. If several engines of a core use one pipe of sendrecvs, the pipes of each core come last:
 * a use of pipe n counts as a write of byte n. */
enum { VM_CK_PIPES = 256 };
typedef struct vm_ck_region {
  /* Bytes of a partition, or host addresses in HBM. */
  uint64_t lo, hi;
  uint8_t space, shift, core; /* space: 0 of pipes */
  bool written;               /* the program may write it: else reads need not be known */
  bool twins;                 /* in a replay: some writes to it have twins */
  bool pushed;                /* other ranks may write it */
  uint32_t tensor;            /* of HBM: 1-based */
  uint32_t nbuckets;
  vm_ck_bucket *buckets;
} vm_ck_region;

/* ---- The log ------------------------------------------------------------------------------ */

/* A step changes what its engine knows: a wait that held for a semaphore that only counts, or for
 * any other (HELD, which changes nothing itself: its updates follow); an update that such a wait
 * acquired; a drain; a trigger after another engine's; a sendrecv that has met the other core's, or
 * the begin of a CC sequencer's block; transfers of a queue (sem) that have left, at its end; what
 * a message of another rank knows, which is of no engine; an order that a finding assumes. `at` is
 * the place of each step, update and access in the order of the run. */
enum {
  VM_CK_START,
  VM_CK_WAIT,
  VM_CK_HELD,
  VM_CK_KNOW,
  VM_CK_DRAIN,
  VM_CK_QUEUE,
  VM_CK_MEET,
  VM_CK_LEFT,
  VM_CK_HEARD,
  VM_CK_ASSUME
};
typedef struct vm_ck_step {
  uint8_t kind, engine, cond; /* cond: of a wait that held */
  bool made;                  /* by a trial; a wait may have the access that it comes before as
                               * `other` */
  uint16_t sem;
  uint32_t prev;  /* the engine's previous step */
  uint32_t other; /* an update, the number of drained instructions, a step, or an access */
  uint32_t at, seq, pc;
  uint32_t value; /* of the wait, as written */
  int64_t want;   /* the sum of all increments that the wait needs; for an assumed order, an update
                   * that has been seen, or 0 */
} vm_ck_step;
/* What its sender knows: all of `step`, and of its own engine, of a ring and of the other half of a
 * sendrecv as much as these say. */
typedef struct vm_ck_signal { /* an update; it proves what its step knows, and more */
  uint32_t step, at, own[OF_ENGINE], share, twin_share, epoch, pc;
  uint32_t arrived; /* place, if the semaphore does more than count; 0: it has not arrived */
  uint16_t comp, ring, twin, sem;
  uint8_t engine;
  bool writes;          /* sets the value to delta */
  bool taken;           /* if it takes effect at once, together with the wait of its step */
  int64_t delta, total; /* total: of the semaphore when this and all before it have arrived */
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
  uint32_t of_update; /* + 1: the step of the next one; 0: its engine's last */
  int64_t taken[VM_CK_SEMS];
  bool knows;                                       /* what is acquired now must be logged */
  bool mixed[VM_CK_SEMS];                           /* does more than count */
  bool host[VM_CK_SEMS];                            /* the host has set it */
  uint16_t waiters[VM_CK_SEMS], takers[VM_CK_SEMS]; /* masks of engines */
} vm_ck_log;

/* ---- Twins -------------------------------------------------------------------------------- */

/* What a transfer has written: the sum of a hash of each element and its place, and how many
 * elements are left; less than 0: it can have no twin. */
typedef struct vm_ck_written {
  uint64_t sum;
  int64_t left;
} vm_ck_written;
typedef struct vm_ck_twins {
  vm_ck_written *v; /* of transfers 1 .. n; none if the log has ended */
  uint32_t n, cap;
  uint64_t pairs;   /* vm_check_twins */
  uint64_t *pushed; /* keys of what other ranks have written */
  uint32_t npushed, cap_pushed;
} vm_ck_twins;

/* ---- Ranks of a world --------------------------------------------------------------------- */

/* What another rank knows of this one is how far its CC sequencers and their queues have come: all
 * that leaves a rank is sent by these. So a message carries `n` numbers, the same of all ranks: for
 * each core of each rank the OF_SEQ of its CC sequencers, then how many transfers of each queue of
 * theirs have left in all rings. A clock of this rank has them too, from component `first` on;
 * those of the rank itself stay 0 there, as it has its own components.
 *
 * Before them come the channels: what the rings of a queue of another rank have written here. A
 * message of such a ring is an access, and an update, of its channel. */
typedef struct vm_ck_sent { /* what a CC sequencer knew when its OF_SEQ was `epoch`, and sent it */
  vm_ck_snapshot *base;
  uint32_t epoch, step;
} vm_ck_sent;
typedef struct vm_ck_push { /* a transfer to another rank: number `count` of its queue */
  vm_ck_snapshot *base;
  uint32_t transfer, count, epoch, left; /* epoch: of OF_SEQ; left: its rings that have not ended */
} vm_ck_push;
typedef struct vm_ck_heard { /* what came with messages number `count` of an entry */
  vm_ck_snapshot *base;      /* NULL: nothing yet */
  uint32_t count, step;
} vm_ck_heard;
typedef struct vm_ck_spoke { /* an instruction of another rank */
  uint32_t rank, pc;
  uint8_t core, engine;
  uint32_t next; /* of the same sequencer, at a lower pc: its number + 1; 0: none */
} vm_ck_spoke;
enum { VM_CK_NEWEST = 4 };
typedef struct vm_ck_peers {
  /* Its layout is the same in all ranks of a world, so that numbers can be compared without names.
   */
  uint32_t n, rank;    /* n: numbers of a message; 0: there is no world */
  uint32_t *of, nof;   /* [2 rank + core]: the first of them; one more at the end */
  uint32_t *channel;   /* of each entry that is a queue that sends here: the component of ring 0 */
  uint8_t *rings;      /* and how many; 0: none */
  uint32_t first;      /* component of the first number */
  vm_ck_heard *newest; /* VM_CK_NEWEST for each entry */
  uint32_t **heard;    /* n numbers each */
  uint32_t nheard, cap_heard;
  vm_ck_spoke *spoke;
  uint32_t *spoken; /* of each entry that is a sequencer: its first, + 1 */
  uint32_t nspoke, cap_spoke;
  vm_ck_sent *sent[VM_CK_ENGINES];
  uint32_t nsent[VM_CK_ENGINES], cap_sent[VM_CK_ENGINES];
  vm_ck_push *push;
  uint32_t npush, cap_push;
} vm_ck_peers;

/* A collective that is at work. */
typedef struct vm_ck_call {
  vm_ck_release r;           /* of its issue; then of those CC sequencers that have completed it */
  uint32_t step, seq, epoch; /* epoch: of the first that serves it, at its end */
  bool joined;               /* some CC sequencer has completed it */
} vm_ck_call;

/* ---- All together ------------------------------------------------------------------------- */

/* A byte for each byte of memory: 0 if nothing has written it; if the tile through which it was
 * last written is `own`, the mark of that tile; that of a filler (filler.h); VM_CK_ANYONE if it
 * counts as written through every tile; else VM_CK_WRITTEN. */
enum { VM_CK_WRITTEN = 1, VM_CK_OWNERS, VM_CK_ANYONE = 255 };
typedef struct vm_ck_shadow {
  uint8_t *at;
  uint64_t bytes;
  /* For an output that the program never reads, a byte for each VM_CK_PIECE bytes; 1: all of them
   * are written, whatever `at` says. So what is written in long runs touches no page of `at`. */
  uint8_t *whole;
  /* Bit i: the i-th of 64 parts of a partition may have marks; not used in HBM. */
  uint64_t touched;
} vm_ck_shadow;
enum { VM_CK_PIECE = 512 };

/* known.c: facts about the bytes of a row of SBUF or PSUM, of which n are kept. */
typedef struct vm_ck_fact vm_ck_fact;
typedef struct vm_ck_facts {
  vm_ck_fact *at;
  uint32_t n;
  uint32_t owed, owed_end; /* no other facts are owed */
} vm_ck_facts;
enum { VM_CK_IS_WRITTEN, VM_CK_IS_FINITE, VM_CK_KNOWN };

/* Two tiles that share bytes. */
typedef struct vm_ck_tile_pair {
  uint32_t tile[2]; /* 1-based */
  uint32_t written; /* the tile written last, 0: none */
  uint8_t by;       /* engine and instruction that wrote it */
  uint32_t pc;
} vm_ck_tile_pair;

/* PSUM of a core: for each fp32 slot one byte, and the number of the tile through which a matmul
 * wrote it last, and for each bank which instruction read it last. */
typedef struct vm_ck_banks {
  uint8_t *slots, *tiles[2]; /* the number's low and high byte */
  struct vm_ck_row *rows;    /* of each bank and partition: slots that are alike (psum.c) */
  uint8_t reader[ISA_PSUM_BYTES / ISA_PSUM_BANK];
  uint32_t reader_pc[ISA_PSUM_BYTES / ISA_PSUM_BANK];
  vm_time read_time[ISA_PSUM_BYTES / ISA_PSUM_BANK];
} vm_ck_banks;

enum { SEEN_PAIRS = 4096 }; /* pairs of places that were reported, so that a loop reports once */

struct vm_check {
  /* VM_CHECK_..., a bit each. */
  unsigned mask;
  unsigned nengines, nsems, nqueues; /* of both cores */
  char names[VM_CK_SOURCES][16];     /* "vector"; with two cores "core 1 vector" */
  /* All that were found, also those beyond what is kept. */
  uint64_t count;
  uint32_t nfindings;
  vm_finding *findings; /* [VM_KEPT_FINDINGS]; NULL: there was none so far */
  uint64_t seen[SEEN_PAIRS];
  /* clocks */
  /* Components of a clock, a multiple of 4 (vm_ck_join). */
  uint32_t ncomps, rings;             /* rings: the first component of a ring */
  uint32_t *clock[VM_CK_ENGINES];     /* ncomps each */
  vm_ck_snapshot *now[VM_CK_ENGINES]; /* of the clock; NULL if it has changed since */
  vm_ck_snapshot *free;
  bool halved;                 /* the first half of a sendrecv that has met the other core's has
                                  started */
  vm_view sent[ISA_MAX_CORES]; /* and what each core sends, */
  uint8_t met[VM_CK_ENGINES];  /* and the engine that each has met */
  bool shared_pipe[ISA_MAX_CORES][VM_CK_PIPES]; /* several engines of the core use the pipe */
  uint32_t issued[VM_CK_ENGINES];               /* data-path instructions */
  /* For an engine with @read updates: the last instruction that must have ended when the newest
   * starts, since one up to that touched the same bytes. */
  uint32_t hazard[VM_CK_ENGINES];
  uint16_t tells_reads; /* engines with @read updates */
  uint32_t *shares;     /* of each ring, by component */
  vm_ck_twins twins;
  vm_ck_peers peers;
  vm_ck_call *calls[ISA_MAX_CORES]; /* VM_COLLECTIVES each; NULL: no code of CC sequencers */
  uint8_t trigger[VM_CK_QUEUES];    /* engine that last triggered the queue, with that clock */
  uint32_t trigger_pc[VM_CK_QUEUES], trigger_epoch[VM_CK_QUEUES]; /* epoch: of OF_SEQ */
  vm_time trigger_time[VM_CK_QUEUES];
  vm_ck_snapshot *queue_base[VM_CK_QUEUES];
  vm_ck_sem_log *sems[VM_CK_SEMS];
  uint16_t waiters[VM_CK_SEMS]; /* engines whose code waits for the semaphore */
  vm_ck_release arriving;
  bool has_arriving;
  uint8_t change_by; /* engine of the next change; VM_CK_ENGINES: the host */
  uint32_t change_pc;
  vm_ck_log log;
  /* The clocks during the run may miss an order or show one that is not certain, so the log must be
   * judged at the end. Until this is set each access is checked when it comes. */
  bool suspect;
  uint32_t judged;         /* places of the log that have been judged */
  const uint32_t *pushing; /* the clock of an access of VM_CK_PEER */
  /* In the replay of a log: the clock of the current access. */
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
  vm_ck_facts known[VM_CK_KNOWN][2][ISA_MAX_CORES]; /* of SBUF, of PSUM; NULL: none are kept */
  /* False: only outputs have shadows. */
  bool shadowed;   /* reads of sbuf and psum are checked */
  uint8_t *owners; /* the mark of each tile; NULL: no tile is `own` */
  bool anyone;     /* VM_CK_ANYONE may be somewhere */
  uint64_t *reads[VM_CK_ENGINES], *writes[VM_CK_ENGINES]; /* registers, by pc */
  uint64_t read_at_all[VM_CK_ENGINES];                    /* those that some instruction reads */
  uint64_t registers[VM_CK_ENGINES];                      /* written ones, among those read */
  uint16_t accumulators;                                  /* of each engine: its accumulators have
                                                             been reset */
  vm_ck_fillers fillers;
  vm_ck_banks banks[ISA_MAX_CORES];
  /* values: infinities and NaNs among the operands of what executes, and among all weights */
  unsigned had, weights_had[ISA_MAX_CORES];
  unsigned transfer_had; /* the same of the share that moves */
  uint8_t *kept; /* of what executes: nkept elements of a source that its destination overwrites;
                    NULL: it has none */
  uint64_t nkept;
  uint8_t kept_type;
  uint8_t *kept_in; /* where it is: room bytes, for the next one too */
  size_t room;
  vm_ck_tile_pair *pairs; /* core 1's after core 0's, npairs each */
  uint32_t npairs, cap_pairs;
  uint64_t saves; /* how many walks have written the state */
  /* For VM_CHECK_LEGAL: what the run has done, the step of each engine that is not complete yet,
   * and whether accesses are recorded for it. */
  vm_legal *legal;
  vm_legal_step pending[VM_CK_ENGINES];
  bool has_pending[VM_CK_ENGINES], recording;
};

/* Something that checks keep. Each of the three may be NULL, and knows of itself whether the run
 * needs it: start makes it (false: out of memory), and a check that has hooks of its own adds them
 * there (vm_watch_add); walk writes it to a saved run or reads it; end frees it, also after a start
 * that failed. */
typedef struct vm_ck_part {
  bool (*start)(vm_core *c);
  void (*walk)(vm_saver *s, vm_core *c);
  void (*end)(vm_core *c);
} vm_ck_part;
#define PART(name) extern const vm_ck_part vm_ck_part_##name;
#include "parts.def"

/* The core of a place of VM_CK_PEER, and what it is. */
const vm_core *vm_ck_peer_core(const vm_core *c, uint32_t pc, vm_ck_spoke *at);
/* The instruction at a place, of this rank or of another. */
const isa_insn *vm_ck_insn(const vm_core *c, unsigned e, uint32_t pc);
static inline uint32_t *vm_ck_clock(const vm_core *c, unsigned e) { return c->check->clock[e]; }
static inline unsigned vm_ck_ring_comp(const struct vm_check *k, unsigned queue, unsigned ring) {
  return k->rings + queue * ISA_NDMA + ring;
}
/* "core 1 ", "core 1's " in a program for two cores. */
static inline const char *vm_ck_core_text(const vm_core *c, unsigned core) {
  return c->prog->ncores < 2 ? "" : core ? "core 1 " : "core 0 ";
}
/* Whether a twin proves a component: a complete instruction of an engine has also read. */
static inline bool vm_ck_is_twin(const struct vm_check *k, unsigned twin, unsigned comp) {
  return comp == twin || (twin < k->rings && comp == twin + (OF_READ - OF_DONE));
}
static inline const char *vm_ck_whose(const vm_core *c, unsigned core) {
  return c->prog->ncores < 2 ? "" : core ? "core 1's " : "core 0's ";
}
static inline const char *vm_ck_name(const vm_core *c, unsigned e) { return c->check->names[e]; }

static inline bool vm_ck_has(const vm_core *c, unsigned kind) { return c->check->mask >> kind & 1; }
static inline bool vm_ck_registers_known(const struct vm_check *k, unsigned e) {
  return (k->read_at_all[e] & ~k->registers[e]) == 0;
}

/* check.c: adds a finding. NULL if these two places were reported before, or if there are too many
 * findings. The caller appends the values to its text; vm_ck_put_* format the pieces. Engines are
 * numbered over both cores here and below. */
vm_finding *vm_ck_found(vm_core *c, unsigned kind, unsigned e, uint32_t pc, unsigned other,
                        uint32_t other_pc);
/* Room for findings; false: out of memory. */
bool vm_ck_findings_start(vm_core *c);
/* In a saved run: whether a number names an engine, or places of other ranks of which some are
 * there; an instruction that a report may name, 0 also if its engine has none; the same with its
 * engine. */
bool vm_ck_has_engine(const vm_core *c, uint32_t e);
void vm_ck_walk_pc(vm_saver *s, const vm_core *c, unsigned engine, uint32_t *pc);
void vm_ck_walk_place(vm_saver *s, const vm_core *c, uint8_t *engine, uint32_t *pc);
/* Removes the findings that proved wrong. */
void vm_ck_take_back(vm_core *c, bool (*wrong)(const void *ud, const vm_finding *f),
                     const void *ud);
/* Memory ran out: the run ends, since the race check would give wrong answers. */
void vm_ck_out_of_memory(vm_core *c);
/* "\n  vector file.s:12, at 100.0 ns: instruction". */
void vm_ck_put_insn(const vm_core *c, unsigned e, uint32_t pc, vm_time t, isa_buf *out);
/* vm_put_place, vm_put_site and vm_put_sem of the engines and semaphores of both cores. */
void vm_ck_put_place(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out);
void vm_ck_put_site(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out);
void vm_ck_put_sem(const vm_core *c, unsigned sem, isa_buf *out);
/* The same with the iteration of a loop, from 1 on; 0: not known, or there is only one. */
void vm_ck_put_round(const vm_core *c, unsigned e, uint32_t pc, uint32_t round, vm_time t,
                     isa_buf *out);
/* "bytes 0..63 of sbuf partitions 0..127 (tile a)". */
void vm_ck_put_bytes(const vm_core *c, const vm_ck_region *r, const vm_ck_access *a, isa_buf *out);
/* "element [77, 0] of tile t": element i of partition p of a view, in the tile that it names. */
void vm_ck_put_element(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i, isa_buf *out);
/* The same of the element that is at `at`; "element [3, 5] of tensor a" in HBM. */
void vm_ck_put_element_at(const vm_core *c, const vm_view *v, const uint8_t *at, isa_buf *out);
/* The same for a view, and for a box. */
void vm_ck_put_view(const vm_core *c, const vm_view *v, isa_buf *out);
void vm_ck_put_box(const vm_core *c, const vm_box *box, isa_buf *out);

/* Calls fn for each view that a flight reads or writes, with the flags of its field. For a list
 * over sixteen partitions, or every sixteenth partition, the view is only the part that is used. */
void vm_ck_each_operand(const vm_core *c, const vm_flight *f,
                        void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud);

/* The length of the list that an AP_SNAKE operand of a flight holds; 0: as long as fits. */
uint64_t vm_ck_snake(const vm_flight *f, const vm_view *v, unsigned flags);

/* Calls fn for the number of each tensor that an instruction of the program reads (AP_R) or writes
 * (AP_W), as often as it is named. */
void vm_ck_each_tensor(const vm_core *c, unsigned flag, void (*fn)(void *ud, uint32_t tensor),
                       void *ud);

/* The same for one instruction. */
void vm_ck_insn_tensors(const vm_core *c, const isa_insn *in, unsigned flag,
                        void (*fn)(void *ud, uint32_t tensor), void *ud);

/* output.c */
void vm_ck_output_finish(vm_core *c);
/* Marks n bytes of a shadow, which is `row` on, as written. */
void vm_ck_output_write(vm_ck_shadow *s, uint8_t *row, size_t n);
/* Puts all that is known into s->at. */
void vm_ck_output_fill(vm_ck_shadow *s);
/* Frees a shadow of a tensor. */
void vm_ck_shadow_free(const isa_alloc *al, vm_ck_shadow *s);

/* log.c: each returns at once if the log is off. */
bool vm_ck_log_start(vm_core *c);
void vm_ck_log_end(vm_core *c);
void vm_ck_log_give_up(vm_core *c);
/* False if the semaphore does more than count: then what the wait acquires must be logged too. */
bool vm_ck_log_wait(vm_core *c, unsigned e, unsigned sem, const isa_wait *w, uint32_t value);
void vm_ck_log_know(vm_core *c, unsigned e, const vm_ck_release *r);
void vm_ck_log_drain(vm_core *c, unsigned e, uint32_t to, uint32_t twin);
void vm_ck_log_meet(vm_core *c, unsigned x, unsigned y);
/* CC sequencer e begins a block: it knows what another step knows, whose engine's OF_SEQ was seq.
 */
void vm_ck_log_enter(vm_core *c, unsigned e, uint32_t other, uint32_t seq);
/* Its queue's transfers have left, `count` of them. */
void vm_ck_log_left(vm_core *c, unsigned e, unsigned queue, uint32_t count);
/* A step, of no other effect, that knows what e's last and step `other` know; its number. */
uint32_t vm_ck_log_both(vm_core *c, unsigned e, uint32_t other);
/* What a message knows: number `heard`; the step's number. */
uint32_t vm_ck_log_heard(vm_core *c, uint32_t heard);
/* Engine e triggers a queue; other: the engine that triggered it before. */
void vm_ck_log_trigger(vm_core *c, unsigned e, unsigned queue, bool other);
/* The host sets a semaphore. */
void vm_ck_log_host(vm_core *c, unsigned sem);
void vm_ck_log_take(vm_core *c, unsigned sem, unsigned kind, uint32_t value);
/* Engine e sets a semaphore, or adds to it, at once; taken: the same instruction has waited for it.
 */
void vm_ck_log_set(vm_core *c, unsigned e, unsigned sem, const vm_ck_update *u, bool taken);
/* Update number `logged` arrives. */
void vm_ck_log_arrival(vm_core *c, uint32_t logged);
/* The update's number. */
uint32_t vm_ck_log_update(vm_core *c, unsigned sem, unsigned comp, const vm_ck_update *u);
/* Numbers the access; false if there is no log. */
bool vm_ck_log_access(vm_core *c, vm_ck_access *a);

/* What the room is told: see watch.def. Each file has those that are its own, check.c the others.
 */
#define HOOK(name, parameters, arguments) void vm_check_##name parameters;
#include "../watch.def"
/* Whether engine e has nothing left to check: every register that is read has been written. */
bool vm_check_registers_known(const vm_core *c, unsigned e);

/* peers.c */
bool vm_ck_peers_start(vm_core *c);
void vm_ck_peers_end(vm_core *c);
/* In a saved run: what ranks know of one another, among the clocks. What is named by numbers comes
 * before all else (parts.def). */
void vm_ck_walk_peers(vm_ck_clock_walk *w);
/* What a CC sequencer sent when its OF_SEQ was `epoch`; NULL: nothing. */
const vm_ck_sent *vm_ck_sent_at(const struct vm_check *k, unsigned e, uint32_t epoch);
/* What an entry of this rank is: a sequencer, and *queue VM_CK_QUEUES, or a queue. False: it is of
 * another rank. */
bool vm_ck_entry_is_own(const vm_core *c, uint32_t entry, unsigned *e, unsigned *queue);
/* A CC sequencer's transfer that another rank gets something of: number `count` of its queue. */
void vm_ck_pushes(vm_core *c, unsigned e, const vm_transfer *t, uint32_t count,
                  vm_ck_snapshot *base);
/* A message has come. */
void vm_ck_hear(vm_core *c, const struct vm_parcel *from, const vm_view *v);
/* Gives an access, which is what a message has written to v, its key. */
void vm_ck_twins_pushed(vm_core *c, const struct vm_message *m, const vm_view *v, vm_ck_access *a);
/* Regions that other ranks may write. */
void vm_ck_note_pushed(vm_core *c);

/* blocks.c */
bool vm_ck_calls_start(vm_core *c);
void vm_ck_calls_end(vm_core *c);
void vm_ck_walk_calls(vm_ck_clock_walk *w);

/* legal.c: reports what happens to the judges; each returns at once if VM_CHECK_LEGAL is off. */
void vm_ck_legal_wait(vm_core *c, unsigned e, const isa_wait *w);
void vm_ck_legal_issue(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_legal_transfer(vm_core *c, unsigned e, const isa_insn *in, const vm_transfer *t,
                          const vm_share *shares);
void vm_ck_legal_touch(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_ck_legal_drain(vm_core *c, unsigned e);
void vm_ck_legal_update(vm_core *c, unsigned e, const isa_update *u);
void vm_ck_legal_applied(vm_core *c, unsigned e, unsigned sem, unsigned kind);
/* An access of race.c, while k->recording. */
void vm_ck_legal_access(vm_core *c, const vm_ck_access *a);
/* The host has set a semaphore, which no step describes. */
void vm_ck_legal_by_host(vm_core *c);

/* twins.c: a transfer begins; a share of it has moved. */
void vm_ck_twins_transfer(vm_core *c, const vm_transfer *t, const vm_share *shares);
void vm_ck_twins_moved(vm_core *c, const vm_share *s);
void vm_ck_twins_end(vm_core *c);
/* Equal keys have writes of one line that wrote the same; false: the access has no twin. */
bool vm_ck_twins_key(const vm_core *c, const vm_ck_access *a, uint64_t *key);

/* access.c */
enum { VM_CK_PRUNE = 1024 }; /* accesses that are kept before any is looked for to forget */
/* Keeps an access whose buckets are set; forgets one by its number, false if it has to stay, which
 * only costs time; forgets all. */
void vm_ck_access_keep(vm_core *c, const vm_ck_access *a);
bool vm_ck_access_forget(vm_core *c, uint32_t id);
void vm_ck_race_forget(vm_core *c);
/* In a saved run: an access; a set of bytes of a region, counted from the region's first byte. */
void vm_ck_walk_access(vm_saver *s, const vm_core *c, vm_ck_access *a);
void vm_ck_walk_set(vm_saver *s, const vm_core *c, uint16_t *region, isa_byteset *b);

/* race.c */
/* Looks at an access now. */
void vm_ck_race_look(vm_core *c, vm_ck_access *a);
/* Whether access x is complete for y, which begins with this clock. */
bool vm_ck_race_known(const uint32_t *clock, const vm_ck_access *x, const vm_ck_access *y);
/* The region of a view. */
uint16_t vm_ck_race_region(const vm_core *c, const vm_view *v);
/* Whether `old` happens before `a`, whose engine has this clock. An engine's own accesses are in
 * order, and so are the shares of a ring. */
bool vm_ck_race_ordered(const vm_core *c, const uint32_t *clock, const vm_ck_access *old,
                        const vm_ck_access *a);
bool vm_ck_race_meet(const vm_ck_access *a, const vm_ck_access *b);
/* An access: judged when the log is judged, or now. */
void vm_ck_race_record(vm_core *c, unsigned e, vm_ck_access *a);
void vm_ck_race_flight(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_race_sequencer(vm_core *c, unsigned e, const vm_view *v, bool writes);
/* Bytes that engine e hands over to the other core by a barrier: its own transfers there must be
 * over. */
void vm_ck_race_handed(vm_core *c, unsigned e, const vm_view *v);
/* Elements first .. first + n - 1 of a view that a message has written; a: its source. */
void vm_ck_race_pushed(vm_core *c, const vm_view *v, uint64_t first, uint64_t n, vm_ck_access *a);
void vm_ck_race_share(vm_core *c, unsigned e, const vm_transfer *t, const vm_share *s,
                      unsigned ring);

#endif
