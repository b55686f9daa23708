/* Recorded events, and what the writers share: the trace with its dependencies, and the sink.
 *
 *   record.c    the recorder
 *   trace.c     instructions of events, names, numbers; links.c which event signalled which wait
 *   transfer.c  transfers: triggers with their shares; pending ones and throughput over time
 *   memory.c    tiles in use over time
 *   fold.c      repeats of the critical path
 *   gaps.c      idle time of the engines, and what was late
 *   over.c      what went from rank to rank
 *   chrome.c chrome_counts.c table.c table_cc.c summary.c text.c explain.c html.c   the writers
 *   html_why.c  the page's part about time: figures, critical path, idle gaps
 *   html_world.c its part about all ranks of a world: links, collectives, the path over ranks */
#ifndef VM_RECORD_H
#define VM_RECORD_H

#include "../api/impl.h"
#include "../api/soma_world.h"

typedef struct vm_rec_event {
  vm_time start, end;
  uint64_t bytes;
  uint32_t pc, id, value;
  /* As in soma_event; engine VM_BY_HOST: the host's own update, VM_BY_PEER: one by rank pc; part:
   * the low bits. */
  uint32_t kind : 4, engine : 8, core : 1, by_core : 1, part : 16;
} vm_rec_event;
_Static_assert(ISA_MAX_CORES == 2 && VM_EV_MEET < 16, "fields of an event");

enum { VM_REC_BLOCK = 4096 };
struct soma_recorder {
  soma_recorder_options o;
  isa_alloc al;
  vm_rec_event **blocks;
  uint32_t nblocks, cap_blocks;
  uint32_t n, max, first; /* kept; most; the oldest once the ring is full, else 0 */
  uint64_t dropped;
  soma_stats stats;
  bool has_stats;
  soma_link_row *links; /* of a world; NULL: not known */
  soma_link_pass *passes;
  uint32_t nlinks, npasses;
  soma_collective *ccs; /* of a rank; NULL: not known */
  uint32_t nccs;
};

static inline const vm_rec_event *vm_rec_at(const soma_recorder *r, uint32_t i) {
  uint32_t left = r->n - r->first; /* places up to the ring's end */
  uint32_t at = i < left ? r->first + i : i - left;
  return &r->blocks[at / VM_REC_BLOCK][at % VM_REC_BLOCK];
}
/* What follows from `part`. Transfers that overlap in time have numbers close together: a ring's
 * queue is far shorter than the count. */
static inline bool vm_rec_moves(const vm_rec_event *v) {
  return v->kind == VM_EV_DMA || v->kind == VM_EV_TRIGGER;
}
/* Whether it is work of an engine's data path: an instruction, or the table that one needs. */
static inline bool vm_rec_is_work(const vm_rec_event *v) {
  return v->kind == VM_EV_INSN || v->kind == VM_EV_TABLE;
}
/* The sequencer whose instruction the event is about; ISA_NSEQS or more: none. */
static inline unsigned vm_rec_engine(const vm_rec_event *v) {
  return v->kind == VM_EV_DMA ? v->value : v->engine;
}
/* Engines, queues and semaphores of both cores are numbered together: core 0's, then core 1's.
 * After the engines come the CC sequencers of core 0, then those of core 1. */
enum { VM_REC_ENGINES = ISA_MAX_CORES * ISA_NENGINES, VM_REC_UNITS = ISA_MAX_CORES * ISA_NSEQS };
static inline unsigned vm_rec_unit(unsigned core, unsigned s) {
  return s < ISA_NENGINES ? core * ISA_NENGINES + s
                          : VM_REC_ENGINES + core * ISA_NCC + s - ISA_NENGINES;
}
static inline unsigned vm_rec_unit_core(unsigned u) {
  return u < VM_REC_ENGINES ? u / ISA_NENGINES : (u - VM_REC_ENGINES) / ISA_NCC;
}
static inline unsigned vm_rec_unit_seq(unsigned u) {
  return u < VM_REC_ENGINES ? u % ISA_NENGINES : ISA_NENGINES + (u - VM_REC_ENGINES) % ISA_NCC;
}
static inline unsigned vm_rec_queue(unsigned core, unsigned queue) {
  return core * ISA_MAX_QUEUES + queue;
}
static inline unsigned vm_rec_sem(unsigned core, unsigned sem) { return core * ISA_NSEMS + sem; }
/* The one on whose track the event is, in this numbering; VM_REC_UNITS: on none. */
static inline unsigned vm_rec_track(const vm_rec_event *v) {
  return v->engine < ISA_NSEQS && v->kind != VM_EV_DMA ? vm_rec_unit(v->by_core, v->engine)
                                                       : VM_REC_UNITS;
}

/* ---- The trace ---------------------------------------------------------------------------- */

/* A recorder's events seen with their program. */
typedef struct vm_rec_view {
  const soma_recorder *r;
  const isa_program *p;
  isa_alloc al;
  uint32_t n;
  vm_time begin; /* first start; 0 when there are no events */
  vm_time total; /* the run's end if its figures are known and all was kept, else the last end */
  bool part;     /* the recorder was asked for a part of the events, or dropped some */
  /* For each of them: the number of its first instruction; after the last one, how many there
   * are. */
  uint32_t base[VM_REC_UNITS + 1];
  isa_arena arena;
  const char **text; /* operands and clauses of an instruction, made when asked for */
  bool failed;       /* out of memory for one of them */
} vm_rec_view;

/* False if out of memory; then there is nothing to close. */
bool vm_rec_open(vm_rec_view *t, const soma_recorder *r, const soma_program *p);
void vm_rec_close(vm_rec_view *t);
/* An array with an element of `size` bytes for each event, zeroed (NULL: out of memory), as the
 * calls below return them; and its release. */
static inline void *vm_rec_new_array(const vm_rec_view *t, size_t size) {
  return isa_zalloc(&t->al, (size_t)t->n * size + 1);
}
static inline void vm_rec_free_array(const vm_rec_view *t, void *array, size_t size) {
  isa_free(&t->al, array, (size_t)t->n * size + 1);
}
/* The event's instruction (for a DMA share: what triggered it) and its number among all of the
 * program, UINT32_MAX; NULL if the program has none at that place. */
const isa_insn *vm_rec_insn(const vm_rec_view *t, const vm_rec_event *v, uint32_t *number);
isa_line vm_rec_line(const vm_rec_view *t, const vm_rec_event *v);
const char *vm_rec_file(const vm_rec_view *t, uint32_t file); /* "" for 0 */
/* Operands, wait and update as source text, "" if memory is out. Lives as long as t. */
const char *vm_rec_operands(vm_rec_view *t, const vm_rec_event *v);
/* Name of a semaphore or queue of a core; made up ("sem7", "queue3") if it has none. */
void vm_rec_put_sem(const vm_rec_view *t, unsigned core, uint32_t id, isa_buf *out);
void vm_rec_put_queue(const vm_rec_view *t, unsigned core, uint32_t id, isa_buf *out);
/* "core 1 " if the program has two cores, for things that both have. */
static inline const char *vm_rec_core(const isa_program *p, unsigned core) {
  return p->ncores < 2 ? "" : core ? "core 1 " : "core 0 ";
}

/* For each event the one it follows from, + 1, 0 for none: for a wait, the semaphore update that
 * ended it; for an update, the instruction or share that made it; for an instruction or share, the
 * wait just before it. */
uint32_t *vm_rec_links(const vm_rec_view *t);

/* How long it takes until a ring's write of a semaphore is seen, on its own core and on the other
 * one, measured where the share is known; 0: nowhere. */
void vm_rec_time_to_see(const vm_rec_view *t, const uint32_t *links, vm_time seen[2]);

/* Indices of events by start, ties in order of recording. */
uint32_t *vm_rec_by_start(const vm_rec_view *t);

/* Events that overlap get lanes of their own, 0 up: data-path instructions of an engine, its
 * triggers, shares of a DMA engine; 0 for other events. used is the number of lanes of engine e, of
 * its triggers at VM_REC_TRIGGERS + e, of DMA engine d at VM_REC_DMA_ENGINES + core * ISA_NDMA + d.
 */
enum {
  VM_REC_LANES = 14,
  VM_REC_TRIGGERS = VM_REC_UNITS,
  VM_REC_DMA_ENGINES = 2 * VM_REC_UNITS,
  VM_REC_TRACKS = VM_REC_DMA_ENGINES + ISA_MAX_CORES * ISA_NDMA
};
uint8_t *vm_rec_lanes(const vm_rec_view *t, const uint32_t *by_start, uint32_t used[VM_REC_TRACKS]);

/* Transfers, numbered from 0. (transfer.c) */
typedef struct vm_rec_transfer {
  uint32_t trigger, share; /* the event + 1, of the first share; 0: none was recorded */
  uint32_t shares;         /* recorded */
  vm_time start, end;      /* of the first and the last share */
  uint64_t bytes;          /* of the shares */
} vm_rec_transfer;
typedef struct vm_rec_transfers {
  vm_rec_transfer *v;
  uint32_t n;
  uint32_t *of; /* by event: the number of a trigger's or a share's transfer */
} vm_rec_transfers;
bool vm_rec_transfers_of(const vm_rec_view *t, vm_rec_transfers *out);
void vm_rec_transfers_free(const vm_rec_view *t, vm_rec_transfers *x);
/* Queue and ring of the transfer that wrote an event of kind VM_EV_SEM; false: none did. */
static inline bool vm_rec_written_by_ring(const vm_rec_event *v, unsigned *queue, unsigned *ring) {
  *queue = (v->part - 1u) / ISA_NDMA;
  *ring = (v->part - 1u) % ISA_NDMA;
  return v->kind == VM_EV_SEM && v->part > 0 && *queue < ISA_MAX_QUEUES;
}
/* Whether an engine waited: for a semaphore, or at a sendrecv for the other core's. */
static inline bool vm_rec_is_wait(const vm_rec_event *v) {
  return v->kind == VM_EV_WAIT || v->kind == VM_EV_MEET;
}
/* The semaphore that the rings of a trigger's transfer add to, and whether there is one. */
static inline bool vm_rec_trigger_signals(const vm_rec_event *v) {
  return v->value < ISA_MAX_CORES * ISA_NSEMS;
}
static inline unsigned vm_rec_signal_core(const vm_rec_event *v) {
  return v->core ^ (v->value >= ISA_NSEMS);
}
static inline void vm_rec_put_signal(const vm_rec_view *t, const vm_rec_event *v, isa_buf *out) {
  vm_rec_put_sem(t, vm_rec_signal_core(v), v->value % ISA_NSEMS, out);
}
/* For a core: how many transfers have been triggered and still have bytes to move. Points in order
 * of time. */
typedef struct vm_rec_pending {
  struct vm_rec_pending_point {
    vm_time t;
    int64_t n;
  } * v;
  uint32_t n;
  size_t room; /* bytes of v */
} vm_rec_pending;
bool vm_rec_pending_of(const vm_rec_view *t, const vm_rec_transfers *x, unsigned core,
                       vm_rec_pending *out);
void vm_rec_pending_free(const vm_rec_view *t, vm_rec_pending *p);
/* Adds to bytes[k] what the shares of a core moved from k * width to (k + 1) * width, of n; a share
 * moves its bytes evenly. */
void vm_rec_moved(const vm_rec_view *t, unsigned core, vm_time width, uint32_t n, double *bytes);

/* What went from rank to rank of a world (over.c): the end of a share that pushes, or the arrival
 * of an update from another rank, and the wait that it ended. */
typedef struct vm_rec_over_end {
  uint32_t from, to; /* ranks */
  uint16_t sem;      /* of rank `to`, as vm_rec_sem numbers them */
  bool ends_wait;
  unsigned pid, tid; /* the track of the share or the wait, */
  vm_time time, at;  /* and where its arrow begins or ends */
} vm_rec_over_end;
typedef struct vm_rec_over_list {
  vm_rec_over_end *v;
  uint32_t n, cap;
} vm_rec_over_list;
typedef struct vm_rec_over {
  vm_rec_over_list pushed, came;
} vm_rec_over;
/* Whether a share of this rank pushes to another one whose semaphore then rises; sets ranks,
 * semaphore and time. */
bool vm_rec_pushes(const vm_rec_view *t, const vm_rec_transfers *x, uint32_t share, uint32_t rank,
                   vm_rec_over_end *out);
bool vm_rec_over_add(vm_rec_over_list *l, const isa_alloc *al, const vm_rec_over_end *e);
/* Calls fn for each wait that a push has ended. */
void vm_rec_over_pairs(vm_rec_over *x,
                       void (*fn)(void *ud, const vm_rec_over_end *push,
                                  const vm_rec_over_end *wait),
                       void *ud);
void vm_rec_over_free(vm_rec_over *x, const isa_alloc *al);

/* The patterns that an instruction names, with what it does with them. At most VM_REC_APS. */
enum { VM_REC_APS = 40 };
typedef struct vm_rec_access {
  const isa_ap *ap;
  bool writes;
} vm_rec_access;
uint32_t vm_rec_accesses(const isa_program *p, unsigned core, const isa_insn *in,
                         vm_rec_access out[VM_REC_APS]);

/* For a core: bytes of all partitions that hold something. A whole tile counts from the start of
 * its write until the last read before it is written again; accesses that name no tile do not
 * count. Points in order of time, for SBUF and PSUM. */
typedef struct vm_rec_usage_point {
  vm_time t;
  uint64_t bytes[2]; /* SBUF, PSUM */
} vm_rec_usage_point;
typedef struct vm_rec_usage {
  vm_rec_usage_point *v;
  uint32_t n, cap;
  uint64_t peak[2];
} vm_rec_usage;
bool vm_rec_usage_of(const vm_rec_view *t, const uint32_t *by_start, unsigned core,
                     vm_rec_usage *out);
void vm_rec_usage_free(const vm_rec_view *t, vm_rec_usage *u);

/* ---- Summary ------------------------------------------------------------------------------ */

enum { VM_REC_QUEUES = 3 }; /* static, swdge, hwdge: enum of DGE */
typedef struct vm_rec_summary {
  struct {
    uint64_t count;
    vm_time sum, active, waiting; /* durations added; their union; waits */
  } engine[VM_REC_UNITS], dge[VM_REC_QUEUES];
  uint64_t dge_bytes[VM_REC_QUEUES];
  vm_time dma_active, active; /* of any share; of anything */
  uint64_t dma_bytes, dma_shares, dma_transfers, hbm_read, hbm_written, matmuls, activations;
  vm_time activation_time;
  uint64_t updates;
} vm_rec_summary;
bool vm_rec_summarise(const vm_rec_view *t, const uint32_t *by_start, vm_rec_summary *s);

/* Memories at the ends of a DMA event: ISA_HBM, ISA_SBUF or 0. *tensor: the HBM tensor's name, or
 * that of the tile; "". */
typedef struct vm_rec_ends {
  uint8_t src, dst;
  const char *tensor;
} vm_rec_ends;
vm_rec_ends vm_rec_ends_of(const vm_rec_view *t, const vm_rec_event *v);

/* What an engine waited for while it was idle: a queue, an engine, or neither. */
enum {
  /* below this: the number of a queue; from here on that of an engine */
  VM_REC_FOR_ENGINE = ISA_MAX_CORES * ISA_MAX_QUEUES,
  VM_REC_FOR_HOST = VM_REC_FOR_ENGINE + VM_REC_UNITS, /* an update that was not recorded */
  VM_REC_FOR_ITSELF,
  VM_REC_FOR_END, /* after its last instruction */
  VM_REC_FOR_ALL
};
unsigned vm_rec_gap_for(const soma_idle_gap *g);

/* ---- The critical path, folded (fold.c) --------------------------------------------------- */

typedef struct vm_rec_block { /* steps first .. first + n - 1, and repeats - 1 more of the same */
  uint32_t first, n, repeats;
} vm_rec_block;
typedef struct vm_rec_fold {
  vm_rec_block *v;
  uint32_t n, cap, rows; /* rows: steps of all blocks, once each */
} vm_rec_fold;
bool vm_rec_fold_path(const isa_alloc *al, const soma_path_segment *s, uint32_t n,
                      vm_rec_fold *out);
void vm_rec_fold_free(const isa_alloc *al, vm_rec_fold *f);

/* ---- The sink ----------------------------------------------------------------------------- */

typedef struct vm_rec_sink {
  isa_buf b;
  soma_write_fn fn;
  void *ud;
  bool refused;
} vm_rec_sink;
void vm_rec_sink_open(vm_rec_sink *o, const isa_alloc *al, soma_write_fn fn, void *ud);
/* Between rows: writes what has been collected, if it is a lot. False: stop. */
bool vm_rec_sink_row(vm_rec_sink *o);
/* Frees a buffer whose text went into the output; if the buffer failed, so has the output. */
void vm_rec_sink_part(vm_rec_sink *o, isa_buf *part);
/* Writes the rest and frees. t: the view that the output was made from; may be NULL. */
soma_status vm_rec_sink_close(vm_rec_sink *o, const vm_rec_view *t);
/* A time in units of 10^digits fs, exact, without trailing zeros. */
void vm_rec_put_time(isa_buf *b, vm_time t, int digits);
/* A time for people: "1.24 us". */
void vm_rec_put_span(isa_buf *b, vm_time t);

/* ---- The page (html.c, html_why.c) -------------------------------------------------------- */

typedef struct vm_rec_html {
  vm_rec_view t;
  vm_rec_sink out;
  const soma_program *program;
  const soma_run *run; /* NULL: not given */
  const char *title;
  const char *(*source)(void *ud, const char *file, size_t *n); /* as in soma_page_options */
  void *source_ud;
  uint32_t *order, *from;
  uint32_t *code; /* by number of an instruction: its place in the page's list + 1 */
  uint32_t ncode;
  soma_path_segment *path; /* NULL: the run's causes were not kept */
  uint32_t npath, room;    /* room: segments that path has room for */
} vm_rec_html;
/* Puts v's instruction on the page's list, unless it is there or v has none. */
void vm_rec_html_code(vm_rec_html *h, const vm_rec_event *v);
/* Its place in that list, -1: none. */
long vm_rec_html_code_of(const vm_rec_html *h, const vm_rec_event *v);
/* Fetches the critical path; false: out of memory. */
bool vm_rec_html_open_path(vm_rec_html *h);
void vm_rec_html_drop_path(vm_rec_html *h);
/* Writes the instructions of the path to the list of instructions. */
void vm_rec_html_path_code(vm_rec_html *h);
/* Writes figures, path, idle gaps, the fault and findings as members of the page's object. False:
 * out of memory. */
bool vm_rec_html_why(vm_rec_html *h);
/* Begins the object of a world's page, up to the objects of its ranks; first: the recorder of rank
 * 0, which has the links. */
void vm_rec_html_world(vm_rec_sink *o, const soma_world *w, const soma_recorder *first,
                       const soma_run *const *runs);

#endif
