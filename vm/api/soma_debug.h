/* The part of soma.h for debuggers: the line and text of an instruction, where a run should stop,
 * what its engines do, and how to take it back; include soma.h.
 *
 * Nothing here changes what a run computes or when: with stops and a log it has the same trace_hash
 * as without. A program for two cores can be debugged on both; calls without a `core` are for
 * core 0. */
#ifndef SOMA_DEBUG_H
#define SOMA_DEBUG_H

#include "soma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The map: pc <-> line <-> text ---------------------------------------------------------- */

typedef struct soma_instruction {
  soma_engine engine;
  uint32_t pc, line; /* line 0: unknown */
  const char *file;  /* NULL: unknown; strings live as long as the program */
  const char *name;  /* mnemonic */
  const char *label; /* of this pc, NULL: none */
  int64_t target;    /* pc that it may branch to, -1: none */
  uint32_t call;     /* the macro call that produced it, see soma_program_call; 0: none */
} soma_instruction;
/* How many instructions an engine of core 0 or 1 of p has; 0 if p has no such core. */
uint32_t soma_program_instructions(const soma_program *p, unsigned core, soma_engine e);
/* The one at pc; SOMA_ARG past the last. n is sizeof(soma_instruction) of the caller. */
soma_status soma_program_instruction(const soma_program *p, unsigned core, soma_engine e,
                                     uint32_t pc, soma_instruction *out, size_t n);
/* The first instruction of the engine at `from` or after it that came from that line of a file.
 * `file` is its whole name, or the part after any `/`. soma_program_instructions if there is no
 * such instruction. */
uint32_t soma_program_line(const soma_program *p, unsigned core, soma_engine e, const char *file,
                           uint32_t line, uint32_t from);
/* The innermost loop around pc: from *top to the branch back at *end. SOMA_ARG: none exists. */
soma_status soma_program_loop(const soma_program *p, unsigned core, soma_engine e, uint32_t pc,
                              uint32_t *top, uint32_t *end);
/* Its text as the assembler takes it, operands by name. A block from malloc; free it with
 * soma_bytes_free. */
soma_status soma_instruction_text(const soma_program *p, unsigned core, soma_engine e, uint32_t pc,
                                  char **text, size_t *n);
/* A macro call, or an iteration of a %rep, that produced instructions; numbered from 1, SOMA_ARG
 * past the last. */
typedef struct soma_macro_call {
  const char *name;     /* the macro's; "" for a %rep */
  const char *file;     /* where it was called; NULL: unknown */
  uint32_t line, round; /* round: the iteration of a %rep, from 1, else 0 */
  uint32_t outer;       /* the call that contains this one, 0: none */
} soma_macro_call;
soma_status soma_program_call(const soma_program *p, uint32_t i, soma_macro_call *out, size_t n);
/* The label of that name; SOMA_ARG if p has none. Labels of several engines may have one name:
 * i counts them, from 0. */
soma_status soma_program_label(const soma_program *p, const char *name, uint32_t i, unsigned *core,
                               soma_engine *e, uint32_t *pc);
/* Names of semaphore and queue i of a core; NULL: it has no name, or does not exist. */
const char *soma_program_semaphore_name(const soma_program *p, unsigned core, uint32_t i);
const char *soma_program_queue_name(const soma_program *p, unsigned core, uint32_t i);
/* Which of the tiles that a kernel calls by one name tile i of a program is: the line that made or
 * overwrote it, and the iteration, as "of line 29, iteration 3"; "" where there are no others. It
 * gives as many bytes as there is room for, and a final 0. */
soma_status soma_program_tile_origin(const soma_program *p, uint32_t i, char *out, size_t n);

/* ---- Stops ---------------------------------------------------------------------------------- */

typedef enum soma_stop_kind {
  SOMA_STOP_PC = 1,    /* before engine's instruction at pc issues: its wait holds */
  SOMA_STOP_COUNT,     /* when engine has issued `count` instructions in all; once */
  SOMA_STOP_DONE,      /* when the engine's instruction at pc has written its result, the count-th
                          time from now on; once. Never for control instructions */
  SOMA_STOP_SEMAPHORE, /* when a semaphore's value begins to satisfy the condition */
  SOMA_STOP_WRITE,     /* when an instruction or a share of a transfer has written the bytes */
  SOMA_STOP_READ       /* or reads them: when it issues; a transfer when it has moved them */
} soma_stop_kind;
typedef struct soma_stop {
  soma_stop_kind kind;
  int quiet; /* nonzero: the run goes on; see soma_run_stop_last */
  soma_engine engine;
  uint32_t pc;
  uint64_t count;
  uint32_t semaphore;
  const char *condition; /* ">=" ">" "==" "<=" "<" "!=" */
  uint32_t value;
  /* Bytes offset .. offset + bytes - 1 of partitions of SBUF or PSUM; or, if `tensor` is given, of
   * that tensor in HBM, which has no partitions. */
  const char *tensor;
  soma_memory memory;
  uint32_t partition, partitions;
  uint64_t offset, bytes;
  unsigned core; /* of the engine, semaphore, SBUF or PSUM: 0 or 1 */
} soma_stop;
/* What made a stop hold. */
typedef struct soma_hit {
  uint32_t stop;  /* its id */
  int engine;     /* of the instruction, -1: the host */
  int dma_engine; /* for a share of a transfer 0-15, else -1 */
  uint32_t pc;
  soma_time start, time; /* of the read or write: when it began; when it was noted */
  uint32_t value;        /* of a semaphore */
  int part;              /* nonzero: the instruction chooses parts of its operand by a mask or an
                            index, and may not have touched these bytes */
  unsigned core;         /* of the instruction: 0 or 1 */
  int from_rank;         /* whose instruction it is, which has sent a message; -1: its own rank's.
                            Of a semaphore engine is then -1 */
} soma_hit;
/* Adds a stop to r and sets *id to its number, from 1 on. n is sizeof(soma_stop) of the caller.
 * SOMA_ARG says which part of it does not exist. */
soma_status soma_run_stop_add(soma_run *r, const soma_stop *s, size_t n, uint32_t *id);
soma_status soma_run_stop_remove(soma_run *r, uint32_t id);
/* How often it has held, and the last time; SOMA_ARG: there is no such stop. */
soma_status soma_run_stop_last(const soma_run *r, uint32_t id, uint64_t *hits, soma_hit *last,
                               size_t n);
/* How many stops made the last soma_run_until pause; 0: none. Hit i, from 0; SOMA_ARG past the
 * last. When the run continues, it does not pause at the same instruction again. */
uint32_t soma_run_hits(const soma_run *r);
soma_status soma_run_hit(const soma_run *r, uint32_t i, soma_hit *out, size_t n);

/* ---- What the engines do -------------------------------------------------------------------- */

typedef enum soma_engine_status {
  SOMA_ENGINE_READY,   /* it has work */
  SOMA_ENGINE_WAITING, /* on a semaphore */
  SOMA_ENGINE_RING,    /* its DMA trigger waits for a place in a ring */
  SOMA_ENGINE_HALTED,
  SOMA_ENGINE_MEETING, /* at a sendrecv that the other core has not reached */
  SOMA_ENGINE_IDLE,    /* a CC sequencer: no collective has started that it serves */
  SOMA_ENGINE_LEAVING, /* at its `complete`, until what its transfers read has left */
  SOMA_ENGINE_CROWDED  /* at a collective, until an earlier one is complete */
} soma_engine_status;
typedef struct soma_engine_state {
  soma_engine_status status;
  uint32_t pc; /* of the next instruction */
  uint64_t instructions;
  soma_time time;        /* the sequencer's own, which may be ahead of the run's */
  soma_time since;       /* for SOMA_ENGINE_WAITING: when the wait began */
  int semaphore;         /* that the next instruction waits for, -1: none */
  const char *condition; /* of its wait */
  uint32_t want, have;
  int queue;          /* for SOMA_ENGINE_RING, else -1 */
  uint32_t in_flight; /* instructions in its data path */
  int passes; /* nonzero: the run has paused at its next instruction and will not pause there again
               */
} soma_engine_state;
soma_status soma_run_engine(const soma_run *r, soma_engine e, soma_engine_state *out, size_t n);
/* The same for an engine of core 0 or 1; SOMA_ARG if the program has no such core. */
soma_status soma_core_engine(const soma_run *r, unsigned core, soma_engine e,
                             soma_engine_state *out, size_t n);
/* Runs until an engine of that core has issued an instruction, as soma_run_until with SOMA_ISSUE
 * does for core 0. */
soma_status soma_core_issue(soma_run *r, unsigned core, soma_engine e);
/* If the engine's next instruction can issue now, the run does not pause at it, as if it had paused
 * there already, which soma_run_restore forgets. Without effect if the run never had a stop. */
soma_status soma_core_pass(soma_run *r, unsigned core, soma_engine e);
/* Instruction i of those in the data path, the oldest first; SOMA_ARG past the last. */
typedef struct soma_flight {
  uint32_t pc;
  soma_time start, done;
} soma_flight;
soma_status soma_run_flight(const soma_run *r, soma_engine e, uint32_t i, soma_flight *out,
                            size_t n);
soma_status soma_core_flight(const soma_run *r, unsigned core, soma_engine e, uint32_t i,
                             soma_flight *out, size_t n);
/* Transfer i that is not complete, by queue, the oldest first; SOMA_ARG past the last. */
typedef struct soma_transfer {
  soma_engine engine;
  uint32_t pc, queue;
  uint32_t shares;         /* that are not done */
  uint64_t bytes, moved;   /* of these shares */
  int semaphore;           /* that each share adds 1 to, -1: none */
  unsigned semaphore_core; /* the core of that semaphore: 0 or 1 */
} soma_transfer;
soma_status soma_run_transfer(const soma_run *r, uint32_t i, soma_transfer *out, size_t n);
soma_status soma_core_transfer(const soma_run *r, unsigned core, uint32_t i, soma_transfer *out,
                               size_t n);
/* Which engine waits for what, and which instructions can still change it, as in the text of a
 * deadlock; empty if no engine waits. */
soma_status soma_write_waits(const soma_run *r, soma_write_fn write, void *ud);

/* ---- Going back ----------------------------------------------------------------------------- */

/* Takes *r back (or forward) to a state that soma_run_save gave for a run of the same program, also
 * after *r has ended with a fault: *r becomes another handle, and the old one is freed. Stops and
 * the log stay. Its machine must exist; SBUF and PSUM are replaced. SOMA_ARG if the state is that
 * of another program, or while a device tensor is bound; on failure *r does not change. */
soma_status soma_run_restore(soma_run **r, const void *data, size_t n);

/* The same within a process, for going back often: a snapshot shares with an earlier one of the
 * same run, `before`, which may be NULL, the memory that has not changed since, and is checked by
 * no hash. Each is freed by its owner, in any order; those that share are one thread's. */
typedef struct soma_snapshot soma_snapshot;
soma_status soma_run_snapshot(soma_run *r, const soma_snapshot *before, soma_snapshot **out);
/* As soma_run_restore. SOMA_ARG when the snapshot is of a run of another program. */
soma_status soma_run_return(soma_run **r, const soma_snapshot *s);
/* Bytes of the host that it takes, those that it shares divided among their holders. */
uint64_t soma_snapshot_bytes(const soma_snapshot *s);
void soma_snapshot_free(soma_snapshot *s);

/* ---- A log ---------------------------------------------------------------------------------- */

/* An instruction that is done: it has issued, and its data path or its transfer has ended. */
typedef struct soma_logged {
  soma_engine engine;
  uint32_t pc;
  soma_time start, end; /* of the data path, of a transfer's last share; else when it issued */
  soma_time waited;     /* for its semaphore; 0 for transfers */
  int reg;              /* that it has written, -1: none */
  uint32_t value;       /* of reg */
  /* What an instruction of a data path has written, as numbers; elements 0: nothing. */
  uint64_t elements, nans;
  double min, max; /* without NaNs; min > max: all are NaN */
  unsigned core;   /* of the engine: 0 or 1 */
} soma_logged;
typedef void (*soma_log_fn)(void *ud, const soma_logged *l);
/* Calls fn, like a callback, for each instruction that is done from now on; NULL: no more calls. */
soma_status soma_run_log(soma_run *r, soma_log_fn fn, void *ud);
/* One as a line of text without its newline, as `soma --log` prints it: time in ns, engine, pc,
 * file:line, the instruction, and what else is known. n is sizeof(soma_logged) of the caller. */
soma_status soma_write_logged(const soma_program *p, const soma_logged *l, size_t n,
                              soma_write_fn write, void *ud);

#ifdef __cplusplus
}
#endif
#endif
