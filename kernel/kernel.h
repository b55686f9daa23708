/* The kernel builder: a list of instructions with sequential meaning becomes a program.
 *
 *   records --record.c--> instructions --verify.c--> legal ones, each with its place
 *     legal.c    copies that make others legal, where the client allows it
 *               alike.c: what is legal of one is legal of all that are like it
 *     define.c   bytes are written before they are read; what `acc` a matmul takes
 *               cover.c: bytes; areas.c: tiles that share bytes
 *     peel.c     the first round of a loop, where it must do something else
 *     trim.c     columns that nothing uses
 *     dead.c     what is overwritten unread       version.c  a tile overwritten is another one
 *               called.c: which of the tiles of one name it is
 *     value.c    what is there already            renew.c    the list without what goes
 *     merge.c    small transfers of a line are one
 *     kept.c     the list as it was, should its tiles not fit then
 *     lives.c    first and last instruction of each buffer
 *     engine.c   the engine of what left it open     queue.c   the queue of each transfer
 *     order.c    what comes next of what is ready
 *     place.c    where tiles lie                     regs.c    registers of each sequencer
 *     spill.c    tiles that do not fit go to HBM, those of PSUM to SBUF
 *     depend.c   which accesses conflict             way.c     which must not go at once
 *     solve.c    what waits for what
 *     group.c    collectives and their groups of ranks
 *     sems.c     semaphores                          emit.c    the program
 *     report.c   what was decided, as text           import.c   a program as a list
 *     pair.c     one program of the kernels of two cores
 *
 * There is no code for single instructions: what is read and written comes from the flags of
 * forms.def, engines and rules from the tables. vm/api/README.md documents the records; the public
 * names are soma_kernel_*. */
#ifndef ASM_KERNEL_KERNEL_H
#define ASM_KERNEL_KERNEL_H

#include "../isa/program.h"

typedef struct as_kernel as_kernel;

enum {
  AS_KERNEL_SPILL = 1,
  AS_KERNEL_KEEP_ORDER = 2,
  AS_KERNEL_FIXED_ENGINES = 4,
  AS_KERNEL_COPIES = 8,
  AS_KERNEL_STATIC = 16, /* static descriptors wherever they are legal */
  /* The choices that the builder does not make, for the chart in asm/README.md: */
  AS_KERNEL_ROUND_ROBIN = 1 << 16, /* engines in turn */
  AS_KERNEL_ONE_STREAM = 1 << 17,  /* stores on the loads' queue */
  AS_KERNEL_FIRST_FIT = 1 << 18,   /* the lowest place that is free */
  AS_KERNEL_MEASURED = AS_KERNEL_ROUND_ROBIN | AS_KERNEL_ONE_STREAM | AS_KERNEL_FIRST_FIT
};

/* What a list becomes before it is a program; each gives the bits of the list. */
enum {
  AS_PASS_MEMSETS = 1,   /* a memset whose bytes are written before anything reads them goes */
  AS_PASS_STORES = 2,    /* so do copies and transfers to tiles and temporaries */
  AS_PASS_VERSIONS = 4,  /* a tile that is overwritten whole is another tile from there on */
  AS_PASS_LOADS = 8,     /* bytes that are in a tile are not loaded or copied again */
  AS_PASS_VALUES = 16,   /* what was computed is not computed again */
  AS_PASS_ORDER = 32,    /* what is ready comes before what waits */
  AS_PASS_USUAL = 64,    /* engines that compilers do not take are not taken (isa/choice.def) */
  AS_PASS_TRIM = 128,    /* columns of a tile that nothing uses take no place */
  AS_PASS_FAR = 256,     /* LOADS and VALUES also count what was made before the last round */
  AS_PASS_SWDGE = 512,   /* gpsimd makes the descriptors of inputs and outputs, from gen3 on */
  AS_PASS_MERGES = 1024, /* transfers and copies of one line, round after round, are one */
  AS_PASS_CHOICES = AS_PASS_USUAL | AS_PASS_SWDGE, /* these change nothing of the list */
  AS_PASS_ALL = 511 & ~AS_PASS_USUAL               /* that make programs faster */
};
/* What things cost, in femtoseconds, asked of the caller. p holds the patterns of in. */
typedef struct as_kernel_costs {
  void *ud;
  /* The time that an instruction keeps an engine's data path. NULL: by elements. */
  uint64_t (*busy)(void *ud, unsigned engine, const isa_program *p, const isa_insn *in);
  uint64_t trigger[3];    /* what a trigger keeps its engine, by ISA_DGE_ */
  uint64_t delay;         /* from an update to the engine that waits for it */
  uint64_t table;         /* of scalar's load of a function's table */
  uint64_t latency[5];    /* of an engine: from when the next instruction can begin to the result */
  uint64_t transfer;      /* of a transfer: what it takes beside its bytes */
  uint64_t piece;         /* of a transfer: each stretch of bytes that lie together */
  uint64_t dma_byte_rate; /* bytes in a microsecond that one of the sixteen engines moves;
                             0: 20000 */
} as_kernel_costs;

typedef struct as_kernel_options {
  const isa_alloc *alloc; /* NULL: malloc */
  const isa_target *target;
  uint32_t flags;  /* AS_KERNEL_ */
  uint32_t passes; /* AS_PASS_ */
  uint32_t extra;  /* more of them, on the instructions of one line */
  isa_line extra_at;
  uint32_t sbuf_bytes;  /* of a partition that may be used; 0: the target's */
  uint32_t sbuf_kept;   /* of a partition, by the toolchain for itself */
  unsigned core, cores; /* the kernel is of core 0 or 1 of a program of so many; 0: of one */
  as_kernel_costs costs;
} as_kernel_options;

/* Passes and memory of a front end (fronts.def); NULL: soma.kernel. False: no front
 * end has that name. */
bool as_kernel_front(const char *front_end, as_kernel_options *o);

typedef struct as_kernel_tile {
  const char *name; /* NULL: made up */
  uint8_t space, dtype, ndim;
  uint32_t shape[ISA_TILE_DIMS];
  int32_t part, offset; /* -1: chosen */
  uint32_t outside;     /* of so many of the open loops */
  isa_line at;
} as_kernel_tile;

typedef struct as_kernel_range {
  int32_t start, stop, step;
  uint32_t start_reg, stop_reg; /* 0: the number */
  isa_line at;
} as_kernel_range;

/* The last failure: status, text, and place (file 0: not known). */
typedef struct as_kernel_error {
  isa_status status;
  isa_line at;
  char text[1024];
} as_kernel_error;

/* Words of a record: its header. Kinds of dynamic parts are those of view.h. */
enum {
  AS_REC_WORDS,
  AS_REC_OP,
  AS_REC_ENGINE,
  AS_REC_FLAGS,
  AS_REC_FILE,
  AS_REC_LINE,
  AS_REC_FIELDS
};
enum { AS_REC_ACCUMULATE = 1, AS_REC_STATIC = 2, AS_REC_SWDGE = 4, AS_REC_HWDGE = 8 };

/* NULL if out of memory. as_kernel_free takes NULL. */
as_kernel *as_kernel_new(const as_kernel_options *o);
void as_kernel_free(as_kernel *k);
const as_kernel_error *as_kernel_last_error(const as_kernel *k);
const isa_target *as_kernel_target(const as_kernel *k);
/* The name of a file by its number, NULL if it has none. */
const char *as_kernel_file_name(const as_kernel *k, uint32_t file);

/* Each gives false with an error, and then nothing has changed. Numbers begin at 1. */
bool as_kernel_file(as_kernel *k, const char *name, uint32_t *file);
/* bytes of t are computed here; data is copied. A constant has no name: equal ones are one. */
bool as_kernel_tensor(as_kernel *k, const isa_tensor *t, uint32_t *buffer);
bool as_kernel_tile_new(as_kernel *k, const as_kernel_tile *t, uint32_t *buffer);
bool as_kernel_end(as_kernel *k, uint32_t buffer);
bool as_kernel_queue(as_kernel *k, unsigned dge, unsigned engine, unsigned prio, uint32_t *queue);
/* Replica groups of collectives; those with equal lists are one. */
bool as_kernel_group(as_kernel *k, const isa_group *g, uint32_t *group);
bool as_kernel_register(as_kernel *k, uint32_t *reg);
/* Records as soma_kernel.h documents them, all or none. */
bool as_kernel_emit(as_kernel *k, const int64_t *records, size_t words, uint32_t *first);
uint32_t as_kernel_count(const as_kernel *k);
/* AS_KERNEL_SPILL, of which the caller learns while it records. */
bool as_kernel_may_spill(as_kernel *k);
/* The engines that may run an instruction with the same bits, as a mask, but for those that
 * compilers do not take; and the time that it keeps each, in fs. A transfer has none, and busy[0]
 * is what the DMA engines take for it. Before as_kernel_finish. */
uint32_t as_kernel_engines(const as_kernel *k, uint32_t item, uint64_t busy[ISA_NENGINES]);
bool as_kernel_order(as_kernel *k, uint32_t earlier, uint32_t later);
bool as_kernel_loop(as_kernel *k, const as_kernel_range *r, uint32_t *reg);
bool as_kernel_while(as_kernel *k, uint32_t reg, isa_line at);
bool as_kernel_endloop(as_kernel *k);

/* Declares and adds what a program does, loops unrolled; k is empty before. */
bool as_kernel_import(as_kernel *k, const isa_program *p);

/* The program, the caller's to free; NULL with an error. Once. */
isa_program *as_kernel_finish(as_kernel *k);
/* The program of two kernels, one of each core. Inputs, outputs and equal constants of both are
 * one tensor; temporaries are each core's own. NULL with an error of *failed, one of the two. */
isa_program *as_kernel_finish_pair(as_kernel *first, as_kernel *second, as_kernel **failed);
/* Whether instructions of the program with that opcode can be emitted. */
bool as_kernel_takes(unsigned op);

enum { AS_BOUND_DMA = ISA_NENGINES };
typedef struct as_kernel_figures {
  uint64_t instructions, made, nops, dependences, waits, reuse_waits;
  uint64_t transfers, queues, semaphores, tiles;
  uint64_t sbuf_bytes, psum_bytes, spills, spilled_bytes;
  uint64_t busy[ISA_NENGINES], dma_busy;
  unsigned bound; /* an engine, or AS_BOUND_DMA */
  uint64_t copies;
  uint64_t trimmed;                   /* tiles, AS_PASS_TRIM */
  uint64_t versions, left_out, moved; /* tiles that were made of others; instructions; those that
                                         come before one that stood before them */
} as_kernel_figures;
const as_kernel_figures *as_kernel_get_figures(const as_kernel *k);
/* Instructions of a line that were left out. */
typedef struct as_kernel_left {
  isa_line at;
  unsigned op;
  uint32_t left, of; /* of, with those that stayed */
  const char *name;  /* of the tile or tensor that they write */
  uint32_t why;      /* AS_PASS_ */
} as_kernel_left;
/* The i-th line of them, false when there are fewer. */
bool as_kernel_get_left(const as_kernel *k, uint32_t i, as_kernel_left *out);
/* Why, for people. */
const char *as_kernel_left_text(uint32_t why);
typedef struct as_kernel_life {
  const char *name;
  uint8_t space;
  uint32_t part, parts, offset, bytes, first, last;
  bool used;
} as_kernel_life;
bool as_kernel_get_life(const as_kernel *k, uint32_t buffer, as_kernel_life *out);
typedef struct as_kernel_wait {
  unsigned engine;
  uint32_t pc, later, earlier, buffer;
  uint8_t way; /* a memory */
  bool reuse;
} as_kernel_wait;
bool as_kernel_get_wait(const as_kernel *k, uint32_t i, as_kernel_wait *out);
/* A tile or tensor of which a failed as_kernel_finish found that an instruction reads what nothing
 * has written; the text is that of the error. The first of all is the error itself. */
typedef struct as_kernel_unwritten {
  uint32_t buffer;
  const char *text;
  isa_line at;
} as_kernel_unwritten;
bool as_kernel_get_unwritten(const as_kernel *k, uint32_t i, as_kernel_unwritten *out);
/* A spill: where the tile is used before it goes and where next. HBM had it from before, or it was
 * stored there; what was in PSUM stays in SBUF from then on; or what loaded it does so again. */
enum { AS_SPILL_KEPT, AS_SPILL_STORED, AS_SPILL_SBUF, AS_SPILL_LOADED };
typedef struct as_kernel_spill {
  const char *name;
  uint64_t bytes;
  isa_line after, before;
  uint8_t to;
} as_kernel_spill;
bool as_kernel_get_spill(const as_kernel *k, uint32_t i, as_kernel_spill *out);
/* What stands in a list of spills between their bytes, `after` and `before`. */
const char *as_kernel_spill_text(const as_kernel_spill *s, bool before);
void as_kernel_report(const as_kernel *k, isa_buf *out);

#endif
