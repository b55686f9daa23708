/* Shared by the files of lint.h. */
#ifndef ISA_LINT_IMPL_H
#define ISA_LINT_IMPL_H

#include "../flow.h"
#include "../operand.h"
#include "lint.h"

enum { LINT_STREAMS = ISA_MAX_CORES * ISA_NENGINES, LINT_SEMS = ISA_MAX_CORES * ISA_NSEMS };

typedef enum lint_state {
  LINT_RUNS,
  LINT_WAITS,
  LINT_HALTED,
  LINT_LOST /* its path is not known: everything that it can reach may run */
} lint_state;

enum { /* an instruction some of whose patterns lie where registers say */
       LINT_MOVES = 1,
       LINT_BLURRED = 2, /* in this pass they count as the whole of their tile or tensor */
       LINT_LEFT = 4     /* one has left it, which was reported */
};

typedef struct lint_stream { /* an engine of a core */
  const isa_code *code;
  unsigned core, engine;
  lint_state state;
  uint32_t pc, regs[ISA_NREGS];
  uint64_t known; /* registers whose value is known */
  bool given;     /* it has updated the other core's semaphore of the core_barrier at pc */
  uint64_t steps;
  uint32_t *count; /* [code->n] executions of each instruction, saturating */
  uint8_t *moves;  /* [code->n] of its patterns: LINT_MOVES and so on */
} lint_stream;

/* What the updates that have run allow a semaphore to be. */
typedef struct lint_sem {
  uint64_t ups, written;        /* sum of increments; greatest value that was written */
  uint64_t taken[LINT_STREAMS]; /* by event_semaphore, at once, of each stream */
  uint64_t least[LINT_STREAMS]; /* a value it has waited for, where nothing lowers it */
  uint32_t step;                /* greatest common divisor of all changes, 0: none */
  bool any;                     /* it may be anything */
  bool writes;
} lint_sem;

/* What the program's text does with a semaphore. */
typedef struct lint_text {
  bool updated, lowered, waited;
  isa_place update; /* the first */
} lint_text;

typedef struct lint {
  const isa_program *p;
  const isa_alloc *al;
  isa_findings *out;
  bool failed;    /* out of memory */
  uint64_t steps; /* of each engine, then its path counts as lost */
  lint_stream s[LINT_STREAMS];
  lint_sem sem[LINT_SEMS], total[LINT_SEMS]; /* of this pass; when no wait holds anyone up */
  lint_text text[LINT_SEMS];
  uint32_t statics_next[ISA_MAX_CORES][ISA_MAX_QUEUES];
  uint8_t triggers[ISA_MAX_CORES][ISA_MAX_QUEUES]; /* mask of engines that do */
  uint8_t *statics_done[ISA_MAX_CORES][ISA_MAX_QUEUES];
  bool free;   /* waits stop no engine */
  bool judges; /* of such a pass: waits that `total` cannot satisfy are reported */
  uint8_t wait_reported[LINT_STREAMS][LINT_SEMS]; /* they have been */
  const lint_stream *at; /* the stream whose reads are checked, and which runs last; NULL: none */
  uint8_t *written[ISA_MAX_CORES][2]; /* one bit per byte of SBUF and PSUM */
  size_t made[ISA_MAX_CORES][2]; /* bytes of a partition that have theirs; nothing wrote the rest */
  uint8_t **hbm;                 /* one bit per byte of a tensor without contents */
  uint64_t work;                 /* runs of patterns that were looked at, of this pass */
  uint8_t *reported;             /* by tile, then by tensor: its reads have been reported */
} lint;

/* lint.c */
void isa_lint_add(lint *l, unsigned kind, isa_place at, const char *fmt, ...) ISA_PRINTF(4, 5);
/* "`$loaded`" as in the source; buf has room. */
enum { LINT_NAME = 80 };
const char *isa_lint_sem_name(const lint *l, unsigned core, unsigned sem, char buf[LINT_NAME]);
/* "add.s:12" or "vector pc 12" */
const char *isa_lint_place(const lint *l, isa_place at, char buf[LINT_NAME]);
isa_place isa_lint_here(const lint_stream *s);

/* lint_run.c: one pass over all streams; false if out of memory. */
bool isa_lint_pass(lint *l);
/* How much instruction in adds to a semaphore each time; dma_trigger only with a number. 0 when
 * that is not known. */
uint64_t isa_lint_adds(const isa_core *core, const isa_insn *in);

/* lint_sem.c */
static inline unsigned isa_lint_key(unsigned core, unsigned sem) {
  return core % ISA_MAX_CORES * ISA_NSEMS + sem;
}
void isa_lint_update(lint *l, const lint_stream *s, const isa_insn *in, const isa_update *u,
                     uint64_t times);
void isa_lint_clear(lint *l, const lint_stream *s, const isa_insn *in);
void isa_lint_update_any(lint *l, unsigned core, const isa_insn *in);
/* Whether the wait can hold, with the semaphore as in `m` and what s itself has done. */
bool isa_lint_can_hold(const lint *l, const lint_stream *s, const isa_wait *w, const lint_sem *m);
void isa_lint_passed(lint *l, lint_stream *s, const isa_wait *w);
/* The wait that a stream is at: its barrier's, after that has updated the other core's semaphore.
 */
isa_wait isa_lint_wait(const lint_stream *s);
bool isa_lint_wait_value(const lint_stream *s, const isa_wait *w, uint32_t *value);
void isa_lint_scan_cc(lint *l); /* at the beginning of each pass */
void isa_lint_scan_text(lint *l);
/* s has reached a wait that the program's totals cannot satisfy. */
void isa_lint_judge_wait(lint *l, const lint_stream *s, const isa_wait *w);
void isa_lint_judge_unwaited(lint *l);

/* lint_circle.c: of a pass in which waits held. */
void isa_lint_judge_circles(lint *l);

/* lint_loop.c: after a pass in which no wait stopped an engine. */
void isa_lint_judge_balance(lint *l);

/* lint_mem.c */
bool isa_lint_memory_open(lint *l);
void isa_lint_memory_close(lint *l);
void isa_lint_memory_reset(lint *l);
void isa_lint_access(lint *l, const lint_stream *s, const isa_insn *in); /* reads, then writes */
void isa_lint_write_only(lint *l, const lint_stream *s, const isa_insn *in);
/* Whether registers that are known still decide where patterns lie; else there were too many. */
bool isa_lint_follows(const lint *l);
/* A tensor without contents, of which nothing has written the bytes from lo to hi, the first such
 * run, and `missing` bytes in all; false when none exist, or it is not looked at. */
bool isa_lint_hole(const lint *l, uint32_t tensor, uint64_t *lo, uint64_t *hi, uint64_t *missing);
/* The first instruction that writes to a tensor; *at stays when none does. */
void isa_lint_writer(const lint *l, uint32_t tensor, isa_place *at);

/* lint_move.c */
/* Whether the instruction has a pattern that registers move or size. */
bool isa_lint_moves(const lint *l, const lint_stream *s, const isa_insn *in);
/* The pattern as the registers of s have it now; false when that is not known, or not legal. */
bool isa_lint_still(const lint *l, const lint_stream *s, const isa_ap *ap, isa_ap *out);
/* Reports the first operand of the instruction that s is at that leaves its tile or tensor; returns
 * whether one does. */
bool isa_lint_leaves(lint *l, const lint_stream *s, const isa_insn *in);

/* lint_output.c: after a pass of all engines. */
void isa_lint_judge_outputs(lint *l);

/* lint_tile.c */
void isa_lint_judge_tiles(lint *l);

#endif
