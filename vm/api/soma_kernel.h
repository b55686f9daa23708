/* Kernels without semaphores: a list of instructions with sequential meaning becomes a program.
 * The part of soma.h for it; include that.
 *
 * The caller declares tensors and tiles, and emits instructions in the order in which they would
 * run one after another. soma_kernel_finish places the tiles, chooses engines and queues where the
 * caller left them open, finds what depends on what, and inserts the semaphores. The result is an
 * ordinary soma_program.
 *
 *   soma_kernel_new(m, NULL, &k);
 *   soma_kernel_tensor(k, "x", SOMA_FLOAT32, 2, shape, SOMA_INPUT, &x);
 *   soma_kernel_tensor(k, "y", SOMA_FLOAT32, 2, shape, SOMA_OUTPUT, &y);
 *   soma_kernel_tile(k, &tile, &t);
 *   soma_kernel_emit(k, words, n, &first);      three records: load, compute, store
 *   soma_kernel_finish(k, &program, NULL);
 *
 * vm/api/README.md has the example in full. Every call that can fail gives a soma_status, leaves
 * its message in soma_kernel_error, and changes nothing else. A kernel is used by one thread at a
 * time; it does not need its machine after soma_kernel_new. */
#ifndef SOMA_KERNEL_H
#define SOMA_KERNEL_H

#include "soma.h"
#include "soma_view.h" /* views, which make operands of records */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct soma_kernel soma_kernel;

enum {
  SOMA_KERNEL_SPILL = 1,         /* a tile that does not fit in SBUF may be kept in HBM for a
                                  * while; one of PSUM may move to SBUF for good */
  SOMA_KERNEL_KEEP_ORDER = 2,    /* each instruction waits for the one before it */
  SOMA_KERNEL_FIXED_ENGINES = 4, /* an instruction without an engine goes to its row's first one */
  SOMA_KERNEL_ADVICE = 32,       /* the report ends with advice: see soma_kernel_get_advice */
  SOMA_KERNEL_STATIC = 16,       /* static descriptors wherever they are legal, as the compiler's
                                  * --disable-dge */
  SOMA_KERNEL_COPIES = 8         /* an instruction that breaks a rule uses copies of its operands
                                    if that makes it legal: see soma_kernel_emit */
};

typedef struct soma_kernel_options {
  size_t size;           /* sizeof(soma_kernel_options) */
  const char *target;    /* as in soma_options; NULL: the machine's, else trn2 */
  uint32_t flags;        /* of SOMA_KERNEL_... */
  uint32_t sbuf_bytes;   /* of a partition that may be used, from 0; 0: all that the target has */
  uint32_t core;         /* in a program for two cores: the one that this kernel is for, 0 or 1 */
  uint32_t cores;        /* of the program: 1 (or 0), or 2: see soma_kernel_finish_pair */
  uint32_t optimize;     /* 0: the list as it is, with the engines and descriptors of front_end;
                            1: what the toolchain of front_end does to it;
                            2: the fastest of several policies: see soma_kernel_get_policy */
  const char *front_end; /* of kernel/fronts.def: "neuronxcc.nki" "nki" "import"; NULL:
                            "soma.kernel", to which all is done */
  uint32_t without;      /* SOMA_PASS_... that are left out all the same */
} soma_kernel_options;
#define SOMA_KERNEL_OPTIONS_INIT \
  { sizeof(soma_kernel_options), 0, 0, 0, 0, 0, 1, 0, 0 }

/* What becomes of a list before it is a program. Each pass gives the same bits; the report says,
 * line by line, what was left out. */
enum {
  SOMA_PASS_MEMSETS = 1,  /* a memset whose bytes are written before anything reads them goes */
  SOMA_PASS_STORES = 2,   /* so do copies and transfers to tiles and temporaries */
  SOMA_PASS_VERSIONS = 4, /* a tile that is overwritten whole is another tile from there on */
  SOMA_PASS_LOADS = 8,    /* bytes that are in a tile are not loaded or copied again */
  SOMA_PASS_VALUES = 16,  /* what was computed is not computed again */
  SOMA_PASS_ORDER = 32,   /* what is ready comes before what waits */
  SOMA_PASS_USUAL = 64,   /* engines that compilers do not take are not taken (isa/choice.def) */
  SOMA_PASS_TRIM = 128,   /* columns of a tile that nothing uses take no place */
  SOMA_PASS_FAR = 256,    /* loads and values also count what was made before the last round */
  SOMA_PASS_SWDGE = 512,  /* gpsimd makes the descriptors of inputs and outputs, from gen3 on */
  SOMA_PASS_MERGES = 1024 /* transfers and copies of one line, round after round, are one */
};

/* A new kernel with m's allocator and m's costs. options may be NULL. On failure *k is NULL, and
 * the message is in m (soma_error). Free with soma_kernel_free, which takes NULL. */
soma_status soma_kernel_new(soma_machine *m, const soma_kernel_options *options, soma_kernel **k);
void soma_kernel_free(soma_kernel *k);
const char *soma_kernel_target(const soma_kernel *k);
/* The message of the last call on k that failed, "" if no call failed: `file:line: text` if the
 * place is known. Valid until the next call. */
const char *soma_kernel_error(const soma_kernel *k);
/* Returns its text without the place, and gives the place: *file is NULL and *line 0 if it is
 * unknown. Either pointer may be NULL. */
const char *soma_kernel_error_place(const soma_kernel *k, const char **file, uint32_t *line);

/* ---- Files, tensors, tiles ---------------------------------------------------------------- */

/* The number of a source file for records and tiles, from 1; the same name gives the same number.
 * 0 means "not known". */
soma_status soma_kernel_file(soma_kernel *k, const char *name, uint32_t *file);

/* Buffers are numbered from 1: tensors in HBM, tiles in SBUF and PSUM.
 * A tensor: name is what soma_bind and soma_fetch take. role: SOMA_INPUT, SOMA_OUTPUT, SOMA_TEMP.
 */
soma_status soma_kernel_tensor(soma_kernel *k, const char *name, soma_dtype dtype, uint32_t ndim,
                               const int64_t *shape, soma_role role, uint32_t *buffer);
/* A constant in HBM, its data copied; equal constants give one buffer. */
soma_status soma_kernel_constant(soma_kernel *k, soma_dtype dtype, uint32_t ndim,
                                 const int64_t *shape, const void *data, uint32_t *buffer);

typedef struct soma_kernel_tile_info {
  size_t size;        /* sizeof(soma_kernel_tile_info) */
  const char *name;   /* as in the caller's source; NULL: made up. Need not be unique. It may hold
                         any characters: all except letters, digits and _ become _ */
  soma_memory memory; /* SOMA_SBUF or SOMA_PSUM */
  soma_dtype dtype;
  uint32_t ndim;             /* counts the partition dimension: 1 to 5 */
  uint32_t shape[5];         /* shape[0] partitions, 1 to 128 */
  int32_t partition, offset; /* a fixed place: start partition, byte in it; -1: chosen */
  uint32_t file, line;       /* where it was declared; 0: not known */
  uint32_t outside;          /* how many of the open loops it was declared outside of: there it
                                keeps what an earlier iteration wrote */
} soma_kernel_tile_info;
#define SOMA_KERNEL_TILE_INIT \
  { sizeof(soma_kernel_tile_info), 0, SOMA_SBUF, SOMA_FLOAT32, 2, {0, 0, 0, 0, 0}, -1, -1, 0, 0, 0 }

/* A tile. It lives from its first to its last instruction; before and after, its bytes may belong
 * to other tiles. Tiles with fixed places that share bytes are one memory: what is written through
 * one can be read through another. If the builder chooses the place, the start partition is 0, and
 * a tile of PSUM stays within one bank if it fits in one. */
soma_status soma_kernel_tile(soma_kernel *k, const soma_kernel_tile_info *tile, uint32_t *buffer);
/* Ends a tile's life here: later instructions that use it are refused. Never needed; it helps to
 * find mistakes. */
soma_status soma_kernel_end(soma_kernel *k, uint32_t buffer);

/* A queue of the caller's choice for the field `queue` of DMA records, from 1. dge: 0 static, 1
 * swdge, 2 hwdge (as the set DGE numbers them); engine: its owner, which triggers its transfers.
 * Records with queue -1 leave the choice to the builder. */
soma_status soma_kernel_queue(soma_kernel *k, uint32_t dge, soma_engine engine, uint32_t prio,
                              uint32_t *queue);

/* Replica groups of collectives, for the field `group` of their records, from 1: `lists` lists, of
 * sizes[i] ranks each, and all their ranks one after another. No rank is in two lists. Equal groups
 * have one number. */
soma_status soma_kernel_group(soma_kernel *k, uint32_t lists, const uint32_t *sizes,
                              const uint32_t *ranks, uint32_t *group);

/* A register, from 1. Its value is kept on each engine that needs it: the instructions that compute
 * it (mov, add, tensor_load ...) are repeated there. It must be written before it is read. */
soma_status soma_kernel_register(soma_kernel *k, uint32_t *reg);

/* ---- Instructions ------------------------------------------------------------------------- */

/* Emits the records that fill `words` words, all or none of them. *first (may be NULL) becomes the
 * number of the first one; instructions are numbered from 0. Each is verified at once, as if its
 * tiles were placed already: SOMA_ILLEGAL names its file and line, the operand and the rule.
 *
 * A record is a list of 64-bit words:
 *    0  words of this record, this one included
 *    1  opcode: soma_opcode("tensor_copy")
 *    2  engine, or -1: chosen
 *    3  flags: SOMA_RECORD_...
 *    4  file: of soma_kernel_file, or 0
 *    5  line, or 0
 *    6  the fields of the opcode's form, in the order of soma_opcode_field. Every field is there:
 *       REG                        register
 *       INT                        0 value | 1 register
 *       NUM                        0 (left out) | 1 bits | 2 register | 3 operand
 *       AP                         operand
 *       U8 U16 U32 I32             value
 *       ENUM ALU ACTF              code: soma_field_value names them
 *       QUEUE                      -1 (chosen) | queue
 *       GROUP                      group, of soma_kernel_group
 *       SEM                        0: the builder makes the semaphores
 *       STR BYTES I32S F32S        count, then as many bytes, integers, or bits of float32
 *       STEPS                      count, then as many pairs: step, num; outermost first
 *       PAIRS                      count, then as many pairs of ranks: from, to
 *       APS                        count, then as many operands
 *    `bits` are those of a float32, or an integer where memset takes one; negative integers are
 *    taken as 32 bits too. Other numbers must fit in their field: an INT and an I32 are signed.
 *    Zero in a field of one word means that its keyword is left out; at the end of a record such
 *    words may be missing.
 *
 * An operand begins with the number of words that follow; 0 means that it is left out:
 *    0  words that follow
 *    1  buffer
 *    2  dtype of the view: soma_dtype
 *    3  first partition, from that of the tile (0 in HBM)
 *    4  partitions (0 in HBM)
 *    5  byte offset: in each partition of the tile, or in the tensor
 *    6  free dimensions n, 0 to 5
 *    7  n pairs: step in elements, num; outermost first
 *    .. dynamic parts, each begins with its kind, until the words are used up:
 *         SOMA_DYN_REGISTER  register, stride        + register * stride elements
 *         SOMA_DYN_ELEMENT   stride, operand         + that 1 x 1 int32 element of SBUF * stride
 *         SOMA_DYN_SIZE      dimension, register     the register is the size of free dimension
 *                                                    0 .. n - 1 (-1: partitions); num is the bound
 *         SOMA_DYN_GATHER    dimension, operand      .gather: index vector of that dimension
 *         SOMA_DYN_INDIRECT  operand                 .indirect: index vector
 *
 * tensor_copy of 128 x 512 float32 from tile 3 to tile 4, line 17 of file 1, any engine:
 *    { 25, soma_opcode("tensor_copy"), -1, 0, 1, 17,
 *      8, 4, SOMA_FLOAT32, 0, 128, 0, 1, 1, 512,         dst
 *      8, 3, SOMA_FLOAT32, 0, 128, 0, 1, 1, 512,         src
 *      0 }                                               round: nearest
 * That is 6 + 9 + 9 + 1 = 25 words.
 *
 * With SOMA_KERNEL_COPIES an instruction that is refused is tried again with operands in tiles of
 * their own, copied there before it or from there after it: two sources in PSUM, a transfer to or
 * from PSUM, an operand of an engine in HBM, a start partition or a pattern that the engine does
 * not have, a type that the queue does not convert, one partition where many are needed. Copies are
 * numbered like instructions; *first is then the instruction, not a copy before it. If no copy
 * helps, the error is that of the instruction as given.
 *
 * The builder itself makes branches, call, ret, halt, event_semaphore, sem_range_clear, dma_trigger
 * and drain; they cannot be emitted. Control instructions (mov, add, tensor_load ...) work on the
 * kernel's registers; give them engine -1. */
soma_status soma_kernel_emit(soma_kernel *k, const int64_t *records, size_t words, uint32_t *first);
enum {
  /* For matmul, matmul_mx: the builder chooses the field acc. It is `write` if nothing of dst has
   * been written in this life of its tile, `add` if all of it has, else `auto` with bytes set to
   * zero before. In a loop the first iteration may need another value than the rest: then the
   * program has two loops. A tile declared in a loop begins a new life in each iteration. */
  SOMA_RECORD_ACCUMULATE = 1,
  /* For DMA records with queue -1: how descriptors are made; without a flag the builder chooses. */
  SOMA_RECORD_STATIC = 2,
  SOMA_RECORD_SWDGE = 4,
  SOMA_RECORD_HWDGE = 8
};
/* Instructions emitted so far. */
uint32_t soma_kernel_count(const soma_kernel *k);
/* Makes instruction `later` wait for instruction `earlier`, even if they share no bytes. */
soma_status soma_kernel_order(soma_kernel *k, uint32_t earlier, uint32_t later);

/* SOMA_KERNEL_SPILL, for a caller that learns only from the list whether it may be. A kernel that
 * fits is built and tuned as without it. */
soma_status soma_kernel_may_spill(soma_kernel *k);

/* Loops at run time. The caller unrolls loops whose iterations differ. */
typedef struct soma_kernel_range {
  size_t size;                            /* sizeof(soma_kernel_range) */
  int32_t start, stop, step;              /* step is not 0; a negative one counts down */
  uint32_t start_register, stop_register; /* not 0: that register's value instead */
  uint32_t file, line;
} soma_kernel_range;
#define SOMA_KERNEL_RANGE_INIT \
  { sizeof(soma_kernel_range), 0, 0, 1, 0, 0, 0, 0 }
/* What is emitted up to soma_kernel_endloop runs for each value of *reg, a new register. */
soma_status soma_kernel_loop(soma_kernel *k, const soma_kernel_range *range, uint32_t *reg);
/* The same as long as a register is not 0; it is tested before each iteration. */
soma_status soma_kernel_while(soma_kernel *k, uint32_t reg, uint32_t file, uint32_t line);
/* Ends the innermost loop. */
soma_status soma_kernel_endloop(soma_kernel *k);

/* ---- The program -------------------------------------------------------------------------- */

/* Builds the program, once; afterwards k only gives reports. The caller frees *p. *d (d may be
 * NULL) has errors and warnings with their places, or is NULL. SOMA_LIMIT if tiles do not fit: the
 * text shows what is live there and from which lines. */
soma_status soma_kernel_finish(soma_kernel *k, soma_program **p, soma_diagnostics **d);

/* The same for two kernels with cores = 2, one for core 0 and one for core 1: one program, in which
 * both cores start at once (a logical core of LNC=2; targets from generation 3). Tiles, registers,
 * queues and semaphores are each core's own. An input or an output in HBM that both kernels have is
 * one tensor, with the same name, type, shape and role. Temporaries are each core's own, even under
 * one name. The cores wait for each other only at sendrecv, sendrecv_gpsimd and core_barrier, which
 * pair in the order of the two lists; a core_barrier separates accesses to its `data` before it and
 * after it. The message of a failure is in `first`, and says which core it is about. Afterwards
 * each kernel reports on its core. */
soma_status soma_kernel_finish_pair(soma_kernel *first, soma_kernel *second, soma_program **p,
                                    soma_diagnostics **d);

/* After soma_kernel_finish: tiles over time, loads of the engines, what bounds the kernel, which
 * dependence each wait serves, as text. */
soma_status soma_kernel_report(const soma_kernel *k, soma_write_fn write, void *ud);

typedef enum soma_kernel_bound { /* where most of the estimated time goes */
                                 SOMA_BOUND_TENSOR,
                                 SOMA_BOUND_VECTOR,
                                 SOMA_BOUND_SCALAR,
                                 SOMA_BOUND_GPSIMD,
                                 SOMA_BOUND_SYNC,
                                 SOMA_BOUND_DMA
} soma_kernel_bound;
typedef struct soma_kernel_figures {
  uint64_t instructions; /* emitted by the caller */
  uint64_t made;         /* of the program, with those the builder added */
  uint64_t nops;         /* added because one instruction has one wait */
  uint64_t dependences;  /* pairs that conflict, found by bytes */
  uint64_t waits;        /* in the program */
  uint64_t reuse_waits;  /* those that only protect the reuse of a semaphore */
  uint64_t transfers, queues, semaphores, tiles;
  uint64_t sbuf_bytes, psum_bytes; /* of a partition: up to the last byte that a tile uses */
  uint64_t spills, spilled_bytes;  /* transfers to and from HBM that spilling added, their bytes */
  soma_time busy[SOMA_ENGINES];    /* data path, estimated without waits */
  soma_time dma_busy;              /* of the sixteen engines together, estimated */
  soma_kernel_bound bound;
  uint64_t copies;   /* instructions that SOMA_KERNEL_COPIES added */
  uint64_t versions; /* tiles that SOMA_PASS_VERSIONS made of others */
  uint64_t left_out; /* instructions that passes left out */
  uint64_t trimmed;  /* tiles of which SOMA_PASS_TRIM cut columns off */
  uint64_t moved;    /* instructions that come before one that stood before them */
} soma_kernel_figures;
/* n is sizeof(soma_kernel_figures) of the caller. */
void soma_kernel_get_figures(const soma_kernel *k, soma_kernel_figures *out, size_t n);

typedef struct soma_kernel_life {
  const char *name; /* in the program */
  soma_memory memory;
  uint32_t partition, partitions, offset, bytes; /* where it was placed */
  uint32_t first, last;                          /* instructions, numbered as emitted */
  int used;                                      /* 0: no instruction uses it; the rest is then 0 */
} soma_kernel_life;
/* The life and the place of a tile. SOMA_ARG if there is no such buffer. */
soma_status soma_kernel_get_life(const soma_kernel *k, uint32_t buffer, soma_kernel_life *out);

typedef struct soma_kernel_wait {
  soma_engine engine;      /* that waits */
  uint32_t pc;             /* in the program */
  uint32_t later, earlier; /* instructions as emitted: `later` waits for `earlier` */
  uint32_t buffer; /* whose bytes they share; 0: soma_kernel_order, a loop's end, a reuse, or two
                      engines that cannot use a memory at once */
  int reuse;       /* not 0: it only protects the reuse of a semaphore */
} soma_kernel_wait;
/* Wait i of the program, in the order of the instructions; SOMA_ARG past the last. */
soma_status soma_kernel_get_wait(const soma_kernel *k, uint32_t i, soma_kernel_wait *out);

typedef struct soma_kernel_left {
  uint32_t opcode, line;
  const char *file;  /* NULL: not known */
  const char *name;  /* the tile or tensor that they would have written; NULL: none */
  uint32_t left, of; /* instructions of that line: left out, of how many */
  uint32_t pass;     /* SOMA_PASS_..., by which */
} soma_kernel_left;
/* Line i of those with instructions that were left out; SOMA_ARG past the last. */
soma_status soma_kernel_get_left(const soma_kernel *k, uint32_t i, soma_kernel_left *out);

/* A policy that optimize = 2 has tried. */
typedef struct soma_kernel_policy {
  const char *name; /* static */
  soma_time time;   /* of a run without values */
  int done;         /* 0: it gave no program, or one that did not end; time is 0 */
  int chosen;
} soma_kernel_policy;
/* With optimize = 2, soma_kernel_finish builds the kernel by several policies, runs each program
 * without values (an address, a size or a branch that depends on data takes what zeros give), and
 * keeps the fastest, of equals the first. Policy i, the first being that of optimize = 1: the first
 * n bytes of *out; SOMA_ARG past the last. None was tried, and the program is that of optimize = 1,
 * if the kernel has more than 100000 instructions or does not end with zeros. */
soma_status soma_kernel_get_policy(const soma_kernel *k, uint32_t i, soma_kernel_policy *out,
                                   size_t n);

/* Something that would make the kernel faster. */
typedef enum soma_kernel_advice_kind {
  SOMA_ADVICE_ENGINE, /* another engine for the instructions of a line, with the same bits */
  SOMA_ADVICE_LOAD,   /* a load of what a tile has already */
  SOMA_ADVICE_VALUE,  /* what was computed already */
  SOMA_ADVICE_TILE,   /* one tile that each round overwrites: a tile for each */
  SOMA_ADVICE_UNREAD, /* what is overwritten before anything reads it */
  SOMA_ADVICE_ROWS,   /* short rows of transfers */
  SOMA_ADVICE_ORDER   /* the order of the instructions */
} soma_kernel_advice_kind;
typedef struct soma_kernel_advice {
  soma_kernel_advice_kind kind;
  soma_time saved;         /* of a run without values, by this alone */
  const char *instruction; /* NULL: it is about all of the kernel, and the following are 0 */
  uint32_t line;           /* as in the records; 0: not known */
  const char *file;        /* NULL: not known */
  const char *name;        /* of the tile or tensor that they write; NULL: it has none */
  uint32_t times;          /* instructions of that line */
  soma_engine engine;      /* of SOMA_ADVICE_ENGINE */
  const char *text;        /* for people */
} soma_kernel_advice;
/* After soma_kernel_finish of a kernel with SOMA_KERNEL_ADVICE: the first call, or the first
 * soma_kernel_report, builds and runs variants of the program, and keeps those that save a
 * hundredth of its time or more. Advice i, what saves most first: the first n bytes of *out, whose
 * texts live as long as the kernel. SOMA_ARG past the last. Of two cores the first one's kernel has
 * it for both, and the second must have been made with that flag too. A kernel of more than 100000
 * instructions has none; of a large one not all variants are tried. */
soma_status soma_kernel_get_advice(soma_kernel *k, uint32_t i, soma_kernel_advice *out, size_t n);

typedef struct soma_kernel_unwritten {
  uint32_t buffer;
  const char *text; /* of the error; it lives as long as the kernel, as `file` does */
  const char *file; /* NULL: not known */
  uint32_t line;
} soma_kernel_unwritten;
/* After a soma_kernel_finish that failed because an instruction reads bytes that nothing has
 * written: tile or tensor i of those that are read so, in the order of the instructions. SOMA_ARG
 * past the last. */
soma_status soma_kernel_get_unwritten(const soma_kernel *k, uint32_t i, soma_kernel_unwritten *out);

/* ---- Findings in a kernel's own words ----------------------------------------------------- */

/* The other, earlier place of a finding that has two. */
typedef struct soma_place {
  soma_engine engine;
  uint32_t core, pc, line; /* line 0: not known */
  const char *file;        /* NULL: not known */
} soma_place;
/* Gives the other place of finding i of a run: the first n bytes of *out. SOMA_ARG if it has one
 * place. */
soma_status soma_run_finding_other(const soma_run *r, uint32_t i, soma_place *out, size_t n);

/* A race between the two cores. Kernels have no semaphores: who has other words for the fix puts
 * them in the place of bytes fix to fix_end - 1 of the finding's text. The side of the finding
 * itself, which its engine and line name, has to come after the other one. */
typedef struct soma_unsignalled {
  const char *tensor; /* that both touch; NULL: it is not one in HBM */
  uint32_t core, other_core;
  const char *other_file; /* NULL: not known */
  uint32_t other_line;
  size_t fix, fix_end;
} soma_unsignalled;
/* Gives that of finding i of a run: the first n bytes of *out. SOMA_ARG if it is about something
 * else. */
soma_status soma_run_unsignalled(const soma_run *r, uint32_t i, soma_unsignalled *out, size_t n);

/* ---- The instruction set, for making records ---------------------------------------------- */

/* Number of the instruction of that name, as in isa/manual.md; -1 if none exists. */
int soma_opcode(const char *name);
typedef struct soma_opcode_info {
  const char *name, *meaning; /* static */
  uint32_t number;
  uint32_t engines;    /* 1 << soma_engine of those that have it */
  uint32_t generation; /* the first: 2 trn1, 3 trn2, 4 trn3 */
  uint32_t fields;
  int control;  /* runs in the sequencer */
  int dma;      /* starts a transfer */
  int recorded; /* soma_kernel_emit takes it */
} soma_opcode_info;
/* Row i of the table of instructions. SOMA_ARG past the last. */
soma_status soma_opcode_row(uint32_t i, soma_opcode_info *out);

typedef enum soma_field_kind {
  SOMA_FIELD_REG,
  SOMA_FIELD_INT,
  SOMA_FIELD_NUM,
  SOMA_FIELD_AP,
  SOMA_FIELD_U8,
  SOMA_FIELD_U16,
  SOMA_FIELD_U32,
  SOMA_FIELD_I32,
  SOMA_FIELD_ENUM,
  SOMA_FIELD_ALU,
  SOMA_FIELD_ACTF,
  SOMA_FIELD_LABEL,
  SOMA_FIELD_QUEUE,
  SOMA_FIELD_STR,
  SOMA_FIELD_BYTES,
  SOMA_FIELD_STEPS,
  SOMA_FIELD_APS,
  SOMA_FIELD_F32S,
  SOMA_FIELD_I32S,
  SOMA_FIELD_SEM, /* a semaphore's number */
  SOMA_FIELD_GROUP,
  SOMA_FIELD_PAIRS,
  SOMA_FIELD_PLACE
} soma_field_kind;
/* "REG" for SOMA_FIELD_REG and so on; NULL for a number that is not a kind. Static. */
const char *soma_field_kind_name(soma_field_kind kind);
enum { SOMA_FIELD_POSITIONAL, SOMA_FIELD_KEYWORD, SOMA_FIELD_OPTIONAL };
typedef struct soma_field {
  const char *name; /* static */
  soma_field_kind kind;
  uint32_t mode;            /* positional, keyword, or keyword that may be left out */
  uint32_t reads, writes;   /* for AP and APS: 1 or 0 */
  uint32_t sbuf, psum, hbm; /* memories that it may be in */
  uint32_t column, element; /* [P, 1]; a single element */
  uint32_t dims;            /* most free dimensions */
  uint32_t most;            /* for U8, U16, U32: largest value; for lists: most items */
  uint32_t set;             /* for ENUM: its set */
} soma_field;
/* Field i of that opcode (a number of soma_opcode). SOMA_ARG past the last. */
soma_status soma_opcode_field(uint32_t opcode, uint32_t i, soma_field *out);
/* The name of code i of a field of kind ENUM, ALU or ACTF; NULL for any other kind and past the
 * last. Static. */
const char *soma_field_value(const soma_field *f, uint32_t i);
/* The code of that name, -1 if the field has none. */
int soma_field_code(const soma_field *f, const char *name);
/* Whether the assembler has the word for itself, as `tensor` or `r1`: a program with something that
 * is called so cannot be assembled again under this name. */
int soma_is_word(const char *name);

#ifdef __cplusplus
}
#endif

#endif
