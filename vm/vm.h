/* The virtual machine: a core's memories, its five sequencers, its DMA engines, and the event
 * loop that moves them through simulated time.
 *
 * README.md says which room does what; engine/engine.h, time/clock.h, dma/dma.h and check/check.h
 * are the interfaces between rooms.
 *
 * An instruction's operands are resolved when it issues. In simulated time it reads its sources at
 * `start` and its result appears at `done`; the host executes it at done, and a source that is
 * overwritten in between is copied first (vm_item). */
#ifndef VM_VM_H
#define VM_VM_H

#include "../isa/program.h"
#include "op/walk.h"

#include <stdatomic.h>

typedef uint64_t vm_time; /* femtoseconds */
static inline vm_time vm_time_later(vm_time a, vm_time b) { return b > a ? b : a; }

/* When something can continue, and the node of the record of causes that it waits for; 0: none. */
typedef struct vm_moment {
  vm_time time;
  uint32_t node;
} vm_moment;
/* The later of two: a if both have the same time. */
static inline vm_moment vm_later(vm_moment a, vm_moment b) { return b.time > a.time ? b : a; }

/* What causes something: engine's instruction at pc, perhaps through a DMA engine. */
typedef struct vm_where {
  int16_t engine; /* -1: none */
  int8_t dma;     /* -1: none */
  uint8_t peer;   /* 1: the engine is the other core's */
  uint32_t pc;
} vm_where;
#define VM_NOWHERE ((vm_where){.engine = -1, .dma = -1})
static inline vm_where vm_at_pc(unsigned engine, uint32_t pc) {
  return (vm_where){.engine = (int16_t)engine, .dma = -1, .pc = pc};
}

enum { VM_NS = 1000000 };    /* femtoseconds in a nanosecond */
enum { VM_COST_ROOM = 128 }; /* constants of the clock, at most */

/* ---- Memory ranges ------------------------------------------------------------------------ */

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
  struct vm_item *next, *prev;
  vm_time start, done;
  vm_box src[VM_BOXES], dst[2];
  uint8_t nsrc, ndst;
  uint8_t core; /* it belongs to */
  bool is_share;
  bool staged;                  /* its sources have been copied */
  struct vm_block_head *copies; /* blocks that live as long as the item (issue.c) */
} vm_item;

/* ---- Record of causes (critical.c) --------------------------------------------------------- */

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
  VM_WHY_MEET       /* the other core reached its sendrecv */
} vm_why;
typedef struct vm_cause {
  uint32_t node; /* 0: none */
  uint8_t why;
  vm_time time; /* when it took effect */
  uint8_t sem;  /* of VM_WHY_SEM */
} vm_cause;

/* ---- Engines ------------------------------------------------------------------------------ */

typedef union vm_operands {
#define FORM(id) struct vm_##id id;
#define FIELD(form, name, kind, mode, arg)
#define END(id)
#include "../isa/forms.def"
#undef FORM
#undef FIELD
#undef END
} vm_operands;

/* Work of the tensor engine: 2 * M * N * K, and the same in the time of 16-bit elements. */
typedef struct vm_flops {
  uint64_t logical, adjusted;
} vm_flops;

typedef struct vm_cost_span { /* of an instruction: all in cycles of its engine */
  uint64_t stream, issue, latency;
} vm_cost_span;

/* The time that an instruction takes and the bytes that it moves. They depend only on its operands'
 * types and shapes, not on where they are. */
typedef struct vm_effort {
  vm_cost_span span;
  vm_time stream, issue, latency; /* the span by the engine's clock */
  vm_time overhead;               /* issue without stream */
  vm_time read;                   /* from the start until the sources have been read */
  uint64_t traffic[2][2];         /* bytes of SBUF, of PSUM: that it reads, and writes */
  uint64_t fast;                  /* elements that vector streams in fewer cycles; 0: it does not */
  vm_flops flops;
} vm_effort;

enum { VM_FLIGHTS = 32 };
/* Memory ports an instruction streams through: SBUF's, and one per PSUM bank. */
enum { VM_PORT_SBUF = 1, VM_PORT_PSUM = 0xff00 };
typedef struct vm_flight { /* an instruction between issue and execution */
  vm_item item;
  const isa_insn *in;
  uint32_t pc;
  uint32_t node;                   /* of the run's record, 0 if none exists */
  bool finished;                   /* its end has come; it executes when those before it have */
  uint16_t ports;                  /* VM_PORT_... */
  vm_time streamed;                /* the last element has gone in: the ports are free */
  vm_time table_from, table_until; /* the load of an activation table before it; 0, 0: none */
  vm_time read;                    /* the sources have been read: the time of an @read update */
  uint8_t other;     /* for a sendrecv_gpsimd: the other core's engine that it met, and */
  uint32_t other_pc; /* the pc of its instruction there */
  vm_effort effort;
  vm_operands a;
} vm_flight;

/* What the processing elements are doing. The array has 4 x 4 cells of 32 x 32 elements, cell 4 *
 * row + column; a matmul or ldweights takes the cells of its tile. On gen4 transposes run in
 * parallel with matmuls, so a cell has two lanes. */
enum { VM_CELLS = 16 };
typedef struct vm_pe_clock {
  vm_moment issue_free; /* the next matmul may issue */
  vm_moment started;    /* of the last instruction: instructions start in order */
  vm_time done;         /* of the last: matmuls finish in order, and after their weights */
  vm_moment load_free;  /* the weight loader */
  vm_moment free[2][VM_CELLS], loaded[VM_CELLS];
  vm_time pass;        /* a float32 matmul with new weights may start, see MIN_FP32 */
  vm_time burst, busy; /* start of this burst of matmuls, end of the last one's streaming */
} vm_pe_clock;

/* An instruction in the form that the sequencer uses. */
typedef struct vm_uop {
  uint8_t op; /* VM_U_OP for a register instruction, VM_U_STOP if it leaves the fast loop */
  uint8_t rd, ra;
  uint8_t reg_op; /* VM_U_OP also if a semaphore clause stops it */
  int32_t b;      /* immediate, or register number */
  uint32_t to;    /* branch target */
} vm_uop;
/* A register instruction, and whether its b is a register. */
#define VM_U_OP(op, in_register) (2 * (op) + (in_register))
enum { VM_U_STOP = 63 }; /* a semaphore, memory, data path, DMA */

/* What an instruction's operands were resolved with when it issued, in addition to its engine's
 * registers: a saved run supplies it instead of memory as it is now. */
enum { VM_RECALLS = 34 }; /* operands of an instruction, at most: two lists of 16 and others */
typedef struct vm_recall {
  uint32_t n;
  uint32_t ap[VM_RECALLS];            /* a pattern, 1-based */
  int64_t displaced[VM_RECALLS];      /* bytes that its dynamic offsets came to */
  const uint8_t *offsets[VM_RECALLS]; /* of an `.indirect` one: of its elements, 4 bytes each */
  uint32_t noffsets[VM_RECALLS];
  bool skipped;        /* a transfer that oob=skip left out */
  const uint8_t *rows; /* of an indexed transfer: its row offsets, 8 bytes each */
  uint64_t nrows;
} vm_recall;

typedef enum vm_state {
  VM_READY,    /* has an event pending, or is running */
  VM_WAITING,  /* on a semaphore */
  VM_RINGFULL, /* its DMA trigger waits for a place in a ring */
  VM_HALTED,
  VM_MEETING /* at a sendrecv that the other core has not reached */
} vm_state;

typedef struct vm_engine {
  uint32_t regs[ISA_NREGS];
  const vm_uop *uops;
  const isa_code *code;
  uint32_t pc, ring_queue; /* ring_queue: the queue that a VM_RINGFULL engine waits for */
  vm_state state;
  uint32_t *ran;      /* by pc: how often an instruction that leaves the fast loop has run */
  vm_time now;        /* the sequencer's own time */
  vm_time wait_since; /* of a waiting engine */
  bool wait_noted;    /* the wait's start has been noted for this instruction */
  bool waited;        /* its wait has held: after a stall it is not checked again */
  /* What the instruction at pc did before it stalled: the transfers that a dma_trigger has started;
   * 1 if a core_barrier has updated the other core's semaphore, or a sendrecv has met the other
   * core's. */
  uint32_t triggered;
  /* data path */
  vm_flight *flights; /* ring of VM_FLIGHTS */
  uint32_t first, nflights;
  struct vm_keep *keep;                      /* see keep.c; NULL: nothing is kept yet */
  vm_moment issue_free, last_done, dge_free; /* dge: the generator of descriptors */
  vm_pe_clock pe;                            /* tensor */
  int table;                                 /* scalar: function whose table is loaded, -1 none */
  uint64_t tables;                           /* scalar: how often one was loaded */
  vm_cause cause;                            /* what last let the sequencer continue, and when */
  vm_dp dp;
  const struct vm_recall *recall; /* while a saved run is loaded, else NULL */
  /* statistics */
  uint64_t instructions, data_instructions;
  uint64_t shared_at; /* instructions when it last touched shared state */
  vm_time busy, busy_until, waiting;
  uint64_t traffic[2][2]; /* bytes of SBUF, of PSUM: that instructions have read, and written */
  vm_time streaming;      /* taking in elements, times the share of the 128 partitions */
} vm_engine;

/* ---- DMA ---------------------------------------------------------------------------------- */

/* A transfer, used by its shares and freed with the last: dst = op over its sources, or
 * dst = dst op source when it accumulates; op bypass copies. Every view has the elements of dst in
 * the order of dst: the source of a transpose has its dimensions permuted. */
typedef struct vm_transfer {
  vm_view dst, src;
  vm_view *more;    /* sources 1 .. nsrc - 1 of a dma_compute */
  uint8_t nsrc, op; /* op: isa_aluop */
  bool accumulates; /* dst is read when the share completes */
  /* Dimension row_dim of each indexed view has byte offset rows[i] at index i, VM_NO_ROW where
   * the index is out of bounds and skipped. */
  int64_t *rows;
  uint8_t row_dim;
  bool dst_indexed;
  int16_t src_indexed; /* the indexed source, -1 none */
  bool permuted;
  vm_box whole; /* of the permuted source, or of the indexed tensor */
  void *extra;  /* block of more and rows */
  size_t extra_bytes;
  /* For a sendrecv: the transfer of the other core's sendrecv, which lives as long as this one;
   * that engine and the pc of its instruction; and which rings of this one are done. */
  struct vm_transfer *twin;
  uint8_t other;
  uint16_t finished;
  uint32_t other_pc;
  /* For a dma_copy_lists, whose instruction makes several transfers: the number of this one and how
   * many there are; the number of elements that it moves, at most as many as its views have, from
   * which element on in dst and src; and the rings that get their first elements of all in it. */
  uint8_t piece, pieces;
  uint16_t opens;
  uint64_t elems, from[2];
  uint32_t left; /* shares not done */
  uint32_t pc;   /* of the instruction that triggered it */
  uint32_t node; /* of the trigger, in the record of causes */
  uint8_t engine, queue, prio;
  bool signals, is_static, stale[2]; /* stale: dst, its sources need vm_hbm_use */
  bool large;                        /* it writes an output that the host's caches do not hold */
  uint8_t hbm_bytes;                 /* read and written in HBM for an element of dst */
  uint8_t shares; /* that have elements: that of ring r first[r] .. first[r + 1] - 1 */
  uint64_t first[ISA_NDMA + 1];
  uint8_t sem, sem_core; /* what it signals, and whose it is */
  uint32_t descriptor;   /* of a static queue: its number there */
  uint32_t rate;         /* of one DMA engine, MBNS, of destination bytes */
  uint64_t run_bytes;    /* of a contiguous element, in destination bytes */
  /* Of dst and src, for its shares: walks over them; and what all of their elements may touch, of
   * which a share touches rows of dimension `outer`, of that many elements (0: all of it). */
  vm_walk walk[2];
  vm_box all[2];
  uint64_t row[2];
  uint8_t outer[2];
  /* The last time of a packet from a share's first byte on: its bytes, its descriptors, and the DMA
   * engines that had parts of the stack. */
  struct {
    uint64_t bytes, descriptors;
    uint32_t sharing;
    vm_time moves;
  } packet;
  uint32_t late; /* shares that are done and whose bytes are yet to move (batch.c) */
  bool ended;    /* it is released with the last of these */
  struct vm_transfer *next_free;
} vm_transfer;

typedef struct vm_share {
  vm_item item;
  vm_transfer *t;
  uint64_t e0, e1; /* elements of the transfer in row-major order */
  uint64_t bytes;
  uint64_t sent; /* bytes served so far */
  vm_time ready; /* when its first data may move */
  bool started;
  vm_cause cause; /* of its start */
  uint8_t *snap;  /* when item.staged: the sources' elements e0 .. e1 - 1, one after another */
  struct vm_share *next; /* in its ring, and in the free list */
} vm_share;

typedef struct vm_ring {
  vm_share *head, *tail;
  uint32_t n;
  vm_time fetched; /* when the descriptors of what it has served were fetched */
} vm_ring;

typedef struct vm_dma_engine {
  uint8_t next_queue; /* round robin */
  uint16_t queues;    /* a bit for each whose ring here has a share */
  bool busy, armed;   /* serving a packet; has an event to look for work */
  uint8_t serving;    /* queue of the packet */
  uint64_t packet;    /* bytes of it */
  vm_time ends;       /* of the packet */
  vm_time armed_at;
  vm_time busy_time;
  uint32_t last_node; /* of the last share, in the record of causes */
} vm_dma_engine;

/* ---- Events ------------------------------------------------------------------------------- */

typedef enum vm_event_kind { VM_E_SEM, VM_E_DMA, VM_E_DONE, VM_E_SEQ } vm_event_kind;
typedef struct vm_event {
  vm_time time;
  /* At the same time: the class (semaphores, DMA engines 0-15, engines: done before sequencer) from
   * bit VM_RANK_CLASS on, and below it how many were posted before. */
  uint64_t rank;
  uint8_t kind, who; /* who: engine or DMA engine, 0 of VM_E_SEM */
  /* VM_E_SEM: the update's kind, the semaphore, and the engine of the instruction at pc. */
  uint8_t update, sem, from;
  uint8_t peer;      /* VM_E_SEM: 1 if that engine is the other core's */
  uint32_t value;    /* of a semaphore update; slot of a flight */
  uint32_t pc, node; /* node: the cause of a semaphore update */
} vm_event;
enum { VM_RANK_CLASS = 56 };
typedef struct vm_events { /* those to come, in order: v[first] is the next */
  vm_event *v;
  uint32_t first, n, cap;
  uint64_t posted;
} vm_events;

/* Something that has happened; see soma_event. */
typedef struct vm_trace_event {
  unsigned kind; /* enum vm_event_tag */
  unsigned core; /* where it happened; where.peer: caused by the other core's instruction */
  vm_where where;
  uint32_t id;
  vm_time start, end;
  uint64_t bytes;
  uint32_t value;
  uint32_t part; /* as in soma_event */
} vm_trace_event;

/* The callbacks of a run; see soma.h for the meaning. */
typedef struct vm_hooks {
  void (*event)(void *ud, const vm_trace_event *ev);
  void (*print)(void *ud, int to_stderr, const char *text, size_t n);
  int (*progress)(void *ud, uint64_t instructions, vm_time t);
  uint64_t (*custom_cycles)(void *ud, const struct vm_CUSTOM *a); /* what a custom_op costs */
  void *event_ud, *print_ud, *progress_ud, *custom_ud;
} vm_hooks;

enum vm_event_tag {
  VM_EV_INSN = 1,
  VM_EV_DMA,
  VM_EV_SEM,
  VM_EV_NOTIFY,
  VM_EV_WAIT,
  VM_EV_TABLE,
  VM_EV_TRIGGER,
  VM_EV_MEET
};

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

/* Scratch memory of handlers, one per thread: nothing is kept in it between two handlers. */
typedef struct vm_workspace {
  float floats[VM_FLOATS]; /* for vm_dp_lend */
  vm_dp dp;                /* of a part of an instruction, with its operands */
  vm_operands operands;
} vm_workspace;

/* The tensor engine's large state, see vm_dp. It is kept from run to run, since new pages would
 * cost a small program more than all its work. */
typedef struct vm_array {
  bool used; /* used by a run: the next run clears it */
  vm_weights weights;
  uint8_t psum_written[VM_PSUM_SLOTS];
} vm_array;

/* Memories of a core: they live as long as the machine and keep their bytes between runs. */
typedef struct vm_memory {
  uint8_t *sbuf, *psum;
  vm_workspace *work;
  vm_array *array;
  struct vm_batch *batch;        /* what a run computes a little later, of core 0 */
  size_t sbuf_pitch, psum_pitch; /* host bytes between partitions, never a multiple of 4 KiB */
  size_t sbuf_size, psum_size;   /* host bytes in all */
  uint64_t *reach; /* of SBUF, of PSUM: no partition was ever written from this byte on */
} vm_memory;

/* The last values of a semaphore: update i is at i mod VM_SEM_LOG of each array. */
enum { VM_SEM_LOG = 16 };
typedef struct vm_sem_log {
  vm_time time[VM_SEM_LOG];
  uint32_t value[VM_SEM_LOG], pc[VM_SEM_LOG];
  uint8_t engine[VM_SEM_LOG]; /* UINT8_MAX: the host */
  uint8_t peer[VM_SEM_LOG];   /* 1: the engine is the other core's */
  uint32_t n;                 /* updates in all; when it wraps it continues from VM_SEM_LOG */
} vm_sem_log;

typedef struct vm_block { /* host memory of an HBM tensor */
  uint8_t *data;
  uint64_t bytes, address; /* address: in HBM */
  bool borrowed;           /* it outlives the run */
  bool placed;             /* if given: it has its address */
  bool filled;             /* if given without data: the caller will write all of it */
  bool lent;               /* to a result, which frees data */
  uint64_t stale;          /* bytes at its end that count as zero but are not: vm_hbm_use */
  uint64_t *pieces;        /* which of them have been written: vm_hbm_watch; NULL: not known */
} vm_block;

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
  vm_item items; /* list head */
  vm_hooks hooks;
  vm_limits limits;
  vm_fault_record fault;
  uint64_t trace_hash;
  uint64_t jitter; /* seed of a schedule, 0: none */
  uint64_t hbm_bytes;
  double host_seconds, run_since, next_progress; /* of the host, seconds */
  double cpu_seconds, cpu_since;                 /* of its processors, for this process */
  uint32_t until_clock;                          /* events until the host's clock is read next */
  atomic_int *interrupt;                         /* nonzero: stop; may be NULL */
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
  vm_uop *uops[ISA_NENGINES];
  vm_engine eng[ISA_NENGINES];
  uint32_t sem[ISA_NSEMS];
  uint8_t sem_waiters[ISA_NSEMS]; /* mask of engines */
  vm_sem_log sem_log[ISA_NSEMS];  /* for reports */
  vm_ring rings[ISA_MAX_QUEUES][ISA_NDMA];
  uint8_t ring_waiters[ISA_MAX_QUEUES]; /* masks of engines */
  uint32_t statics_next[ISA_MAX_QUEUES];
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
  uint64_t instructions, dma_transfers, dma_bytes, dma_packets;
  uint64_t repeats; /* transfers that dma_triggers have started, without the first of each */
  vm_flops flops, transpose_flops;
  uint64_t hbm_read, hbm_written; /* by the DMA engines */
  vm_time dma_active, dma_since;  /* union of shares at work; start of the share in progress */
  uint32_t shares_moving;
  uint64_t touched[2];    /* furthest byte of a partition of SBUF and PSUM so far */
  uint64_t jitters;       /* how many spans the run's jitter has changed */
  uint32_t cause;         /* node that causes the semaphore updates posted now */
  struct vm_check *check; /* check.h; NULL: none. One for the run, as the next two */
  struct vm_debug *debug; /* debug.h; NULL: no debugger */
  struct vm_path *path;   /* time/clock.h; NULL: none is kept */
} vm_core;

/* ---- Host memory (memory.c) --------------------------------------------------------------- */

/* Memories of a target, zeroed, host pages taken as they are touched. */
bool vm_memory_new(const isa_alloc *al, const isa_target *t, vm_memory *out);
void vm_memory_free(const isa_alloc *al, vm_memory *m);
/* n zeroed bytes of host memory, given lazily if the allocator is malloc and n is large; freed with
 * the same allocator and n. */
void *vm_pages_new(const isa_alloc *al, uint64_t n);
void vm_pages_free(const isa_alloc *al, void *p, uint64_t n);

/* A tensor that begins as zeros in a block of an earlier run is set to zero piece by piece: each
 * piece before its first use, unless it is about to be overwritten. Everything that reads HBM must
 * first call one of these, for the bytes of a box or for a tensor. */
void vm_hbm_use(struct vm_core *c, const vm_box *box, bool overwrites);
void vm_hbm_use_all(struct vm_core *c, uint32_t tensor);

/* Whether a tensor is an output that leaves the host's caches before anybody reads it: it is
 * written past them. */
bool vm_hbm_is_large(const struct vm_core *c, uint32_t tensor);

/* For snapshots, which need to copy only what has changed: of each VM_PIECE bytes of a tensor that
 * is watched, the block has the number of a copy with the same bytes; VM_PIECE_ZEROS: they are
 * zeros; 0: they have been written since, or nothing is known. Who makes the copies gives the
 * numbers. */
enum { VM_PIECE = 1 << 16, VM_PIECE_ZEROS = 1 };
static inline size_t vm_pieces_of(uint64_t bytes) {
  return (size_t)((bytes + VM_PIECE - 1) / VM_PIECE);
}
/* Begins to watch a tensor; false if out of memory. */
bool vm_hbm_watch(struct vm_core *c, uint32_t tensor);
/* Bytes of the box are about to be written. */
void vm_hbm_wrote(struct vm_core *c, const vm_box *box);

/* Memory of tensors, and of logs: the first touch of a page costs the host more than most of what
 * is then done with it. A machine keeps freed blocks of 64 KiB to 256 MiB for its next runs: at
 * most 32 of them and 256 MiB; those not used for the longest time are freed first. A pool lives
 * until its last holder drops it; it may be used from several threads. Pools may be NULL in all of
 * these: then nothing is kept. */
typedef struct vm_pool vm_pool;
vm_pool *vm_pool_new(const isa_alloc *al); /* held once */
void vm_pool_hold(vm_pool *p);
void vm_pool_drop(vm_pool *p);
/* Gives its blocks back to the host; vm_pool_close also those it gets later, and drops it. */
void vm_pool_empty(vm_pool *p);
void vm_pool_close(vm_pool *p);
/* n bytes, all zero if `zeroed`. al is the pool's, here and for vm_pool_give, which takes NULL. */
void *vm_pool_take(vm_pool *p, const isa_alloc *al, uint64_t n, bool zeroed);
/* A kept block of n bytes with its old contents; NULL: none exists. */
void *vm_pool_find(vm_pool *p, uint64_t n);
void vm_pool_give(vm_pool *p, const isa_alloc *al, void *data, uint64_t n);
/* Arrays of a pool that grow: room for element n of one with *cap elements of `size` bytes, whose
 * pointer is at array_ptr (new elements hold anything); and giving it back. */
bool vm_pool_room(vm_pool *p, const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap,
                  size_t size);
void vm_pool_give_array(vm_pool *p, const isa_alloc *al, void *data, uint32_t cap, size_t size);

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

/* Puts its cores among the stack's, which vm_run_start has done; false: the stack is full. And
 * takes them off: then what they move takes no bandwidth. */
bool vm_stack_join(vm_run *r);
void vm_stack_leave(vm_run *r);

/* That core of c's run. */
static inline vm_core *vm_core_at(const vm_core *c, unsigned number) {
  return c->run->cores[number];
}
/* The first host byte of that core's SBUF. */
static inline uint8_t *vm_sbuf_of(const vm_core *c, unsigned core) {
  return c->run->cores[core]->mem.sbuf;
}
/* The core that c of a pair meets; NULL: c is alone. */
static inline vm_core *vm_other_core(const vm_core *c) {
  return c->run->n > 1 ? c->run->cores[!c->number] : NULL;
}
/* Of all cores: the time that the run has reached, and the instructions that have issued. */
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
/* For a run that has no event to come, and to which nobody will send one: it ends, or it has a
 * deadlock. */
void vm_run_finish(vm_run *r);

#endif
