/* The part of soma.h for recording a run and writing what was recorded; include that. */
#ifndef SOMA_TRACE_H
#define SOMA_TRACE_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps a run's events, 40 bytes each, for the writers below:
 *   soma_recorder_new(NULL, &rec);
 *   options.event = soma_recorder_event; options.event_ud = rec;
 * One recorder holds the events of one run: clear it before the next. It is used by the thread
 * that runs the machine. */
typedef struct soma_recorder_options {
  size_t size;           /* sizeof(soma_recorder_options) */
  uint64_t max_events;   /* 0: 2^32 - 2, which is the most */
  int keep_last;         /* nonzero: when full, the oldest events are dropped, else new ones */
  uint32_t kinds;        /* 1 << SOMA_EV_... of the events to keep; 0: all */
  uint32_t engines;      /* 1 << soma_engine: events of these engines' instructions; 0: all */
  soma_time from, until; /* events that end at from or later, and start before until; 0: all */
  soma_alloc_fn alloc;   /* NULL: malloc */
  void *alloc_ud;
} soma_recorder_options;
#define SOMA_RECORDER_OPTIONS_INIT \
  { sizeof(soma_recorder_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* A recorder; options may be NULL. On failure *r is NULL. */
soma_status soma_recorder_new(const soma_recorder_options *options, soma_recorder **r);
void soma_recorder_free(soma_recorder *r);
/* For soma_options.event, with the recorder as event_ud. */
void soma_recorder_event(void *recorder, const soma_event *e);
/* Drops the events and the statistics, keeps the memory. */
void soma_recorder_clear(soma_recorder *r);
/* How many events were kept, and how many were dropped because of max_events or lack of memory. */
uint64_t soma_recorder_count(const soma_recorder *r);
uint64_t soma_recorder_dropped(const soma_recorder *r);
/* Event i, oldest first, with the strings of p, the program that ran. SOMA_ARG past the last. */
soma_status soma_recorder_get(const soma_recorder *r, const soma_program *p, uint64_t i,
                              soma_event *out);
/* Makes summaries use the run's own figures; n is sizeof(soma_stats) of the caller. Without this
 * call totals are those of the kept events. */
void soma_recorder_stats(soma_recorder *r, const soma_stats *s, size_t n);

/* The writers. p is the program that ran. Each gives SOMA_OK, SOMA_NOMEM, SOMA_ARG, or SOMA_IO
 * if `write` returned nonzero; equal events give equal bytes.
 *
 * Chrome's trace event format, as ui.perfetto.dev opens it, has processes for engines (data path,
 * triggers of transfers, and waits), DMA queues (a slice for each transfer; counters of pending
 * transfers and of GB/s), DMA engines (a slice for each share, which names the semaphore that its
 * ring then writes; a mark where a ring without a share does so), semaphores and memory (counters).
 * Overlapping slices get tracks of their own. Arrows lead from a trigger to its transfer and the
 * transfer's shares, and from a signal to the wait that it ended. An instruction's operands are
 * shown only at the trigger, or at the transfer if that was not recorded. Each of two cores has
 * processes of its own. */
soma_status soma_write_chrome(const soma_recorder *r, const soma_program *p, soma_write_fn write,
                              void *ud);
struct soma_world; /* soma_world.h */
/* Makes the trace of a world with this recorder as rank 0's show what went over links: a process
 * "links" with a track for each, its GB/s and how much of its rate that is, and a slice for each
 * message. w is the world, after its run. Until the recorder is cleared. */
soma_status soma_recorder_links(soma_recorder *r, const struct soma_world *w);
/* Keeps the collectives that a rank has completed, for its tables CcOp and CcInstruction. w is the
 * world, after its run. Until the recorder is cleared. */
soma_status soma_recorder_collectives(soma_recorder *r, const struct soma_world *w, uint32_t rank);
/* The same of the ranks of a world, whose processes are named after them: "rank 3 engines". p[i] is
 * soma_world_program of rank i. No arrows lead from rank to rank. */
soma_status soma_write_world_chrome(const soma_recorder *const *r, const soma_program *const *p,
                                    uint32_t ranks, soma_write_fn write, void *ud);
/* Tables with the columns of the vendor's profile schema of the same name, version 7.4, as far as
 * a simulation has them. Their times are whole nanoseconds, rounded down; columns of our own
 * (start_fs, duration_fs) are exact. A row of INSTRUCTION is a data-path instruction or a trigger,
 * which has the queue, the semaphore with what all rings add to it, and when its transfer moved. A
 * row of DMA_PACKET is one ring's share of a transfer, or the 4 bytes that the ring then writes to
 * a semaphore (`variable` is its name, the duration 0). The rows of one transfer, and its trigger,
 * have one packet_aggregation_id. pcore_idx is the core; the summary of two cores adds them up,
 * with percentages of the total. CcOp has a collective (of soma_recorder_collectives; its start is
 * that of its trigger), CcInstruction a wait or a trigger of a CC sequencer, CcStream a stream with
 * the CC sequencers that serve it; stream_id is 256 pcore_idx + stream_index. */
typedef enum soma_table {
  SOMA_TABLE_INSTRUCTION,
  SOMA_TABLE_DMA_PACKET,
  SOMA_TABLE_SEMAPHORE_UPDATE,
  SOMA_TABLE_ACTIVE_TIME,
  SOMA_TABLE_SUMMARY,
  SOMA_TABLE_CC_OP,
  SOMA_TABLE_CC_INSTRUCTION,
  SOMA_TABLE_CC_STREAM,
  SOMA_TABLES
} soma_table;
typedef enum soma_table_format { SOMA_CSV, SOMA_JSON_LINES } soma_table_format;
/* "Instruction" and so on; NULL past the last. Static. */
const char *soma_table_name(soma_table t);
soma_status soma_write_table(const soma_recorder *r, const soma_program *p, soma_table t,
                             soma_table_format format, soma_write_fn write, void *ud);
/* A timeline of `width` ASCII columns (40 to 1000; 0: 80), one row per engine and per queue; two
 * cores come one after the other. */
soma_status soma_write_timeline(const soma_recorder *r, const soma_program *p, unsigned width,
                                soma_write_fn write, void *ud);
/* A page for a browser that needs no other file and no network. run: the recorded run, whose
 * critical path (with options.causes), fault and findings the page shows; NULL: it shows none.
 * title may be NULL. */
soma_status soma_write_html(const soma_recorder *r, const soma_program *p, const soma_run *run,
                            const char *title, soma_write_fn write, void *ud);

/* The same, with the time that each line of the source took. */
typedef struct soma_page_options {
  size_t size;       /* sizeof(soma_page_options) */
  const char *title; /* NULL: none */
  /* Gives the text of a source file, by the name that instructions have, and its length; NULL: not
   * known, then the page shows the instructions of each line. The text must stay until the page is
   * written. The program names the files: do not open those of a program that you do not trust. */
  const char *(*source)(void *ud, const char *file, size_t *n);
  void *source_ud;
} soma_page_options;
#define SOMA_PAGE_OPTIONS_INIT \
  { sizeof(soma_page_options), 0, 0, 0 }
/* options may be NULL. */
soma_status soma_write_page(const soma_recorder *r, const soma_program *p, const soma_run *run,
                            const soma_page_options *options, soma_write_fn write, void *ud);

/* One page of all ranks of a world: collectives with their rates, who waited for whose messages,
 * links with what they carried (soma_recorder_links), the critical path over ranks (with
 * options.causes), and one rank as above, which the reader chooses. r, p, run: of each rank;
 * p[i] is soma_world_program of rank i. w is the world, after its run. */
soma_status soma_write_world_page(const struct soma_world *w, const soma_recorder *const *r,
                                  const soma_program *const *p, const soma_run *const *run,
                                  const soma_page_options *options, soma_write_fn write, void *ud);

/* Idle time of an engine between two instructions of its data path (or before the first, or after
 * the last), and what was late. */
typedef enum soma_gap_kind {
  SOMA_GAP_SEMAPHORE = 1, /* the engine waited for semaphores for half of it or more */
  SOMA_GAP_SEQUENCER,     /* otherwise: control instructions, hazards, tables */
  SOMA_GAP_END,           /* after the engine's last instruction */
  SOMA_GAP_MEETING        /* as SOMA_GAP_SEMAPHORE, but for the other core's sendrecv */
} soma_gap_kind;
typedef struct soma_idle_gap {
  soma_gap_kind kind;
  soma_engine engine;
  soma_time start, end;
  soma_time waited;   /* for a wait: the part of the gap spent on the longest wait */
  int semaphore;      /* of that wait, else -1 */
  int late_engine;    /* soma_engine whose update or sendrecv ended it, -1 unknown */
  int late_queue;     /* the queue, if that was a transfer, else -1 */
  uint32_t reached;   /* the value of the semaphore that ended it */
  char condition[20]; /* what was waited for: ">=32", ">=r1" */
  uint32_t pc, line;  /* of the instruction that waited; line 0: unknown */
  uint32_t late_pc, late_line;
  uint16_t core, late_core; /* of the idle engine and its semaphore; of what was late: 0 or 1 */
  const char *semaphore_name, *queue_name; /* NULL: none */
  const char *file, *late_file;
  const char *late_name; /* mnemonic */
} soma_idle_gap;
/* The gaps of all engines whose data path ran, largest first: writes at most max of them and sets
 * *n to how many there are. Busy time and gaps of an engine add up to the run's time, or to the
 * time span that was kept. SOMA_NOMEM or SOMA_OK. */
soma_status soma_idle_gaps(const soma_recorder *r, const soma_program *p, soma_idle_gap *out,
                           uint32_t max, uint32_t *n);

#ifdef __cplusplus
}
#endif
#endif
