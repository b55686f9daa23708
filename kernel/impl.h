/* What the files of the builder share. */
#ifndef ASM_KERNEL_IMPL_H
#define ASM_KERNEL_IMPL_H

#include "kernel.h"

#include <string.h>

/* ---- What the caller gave ----------------------------------------------------------------- */

enum { K_ALIGN = 64, K_OPERANDS = 96 };
#define K_NONE UINT32_MAX /* no enumerator: those are of int */

typedef struct as_k_buffer {
  const char *name; /* of a tile; NULL: none was given */
  uint8_t space, dtype, ndim;
  bool fixed, ended, used, written;
  bool shared; /* what is written through other tiles counts as written through it */
  bool pinned; /* no version of it begins: it is fixed, or a loop at run time uses it */
  uint32_t shape[ISA_TILE_DIMS];
  uint16_t part, nparts; /* 0 in HBM */
  uint32_t bytes;        /* of a tile, in each partition */
  uint32_t offset;       /* of a fixed tile, else where it was placed */
  uint32_t tensor;       /* of HBM: 1-based, in program */
  uint32_t tile;         /* 1-based in the program made; 0: not there yet */
  uint32_t first, last;  /* items */
  uint32_t whole;        /* 1 + the item after which all of it is written; 0: none */
  uint32_t since;        /* 1 + the item from which on it holds what other tiles wrote; 0: none */
  uint32_t kept_in;      /* the temporary of HBM that it came back from; 0: none */
  uint32_t loaded;       /* 1 + the item whose load it came back by; 0: none */
  uint32_t class;        /* equal for tiles that differ only in name and line */
  uint32_t loop;         /* that it was declared in, 0: none; a new life in each of its rounds */
  uint32_t next;         /* the version of it that comes after, 0: none */
  uint32_t pattern[2];   /* in the program made, of all its partitions from their first byte on, */
  uint32_t shape_of[2];  /* of elements of this shape: the one made first, and last; 0: none yet */
  isa_line at;
  uint32_t called, iteration, iterations; /* which of the tiles of its name it is (called.h) */
} as_k_buffer;

/* The elements of an operand in one partition, or of one in HBM. Equal ones are kept once. */
typedef struct as_k_shape {
  uint8_t dtype, ndim;
  isa_dim dim[ISA_MAX_DIMS];
  isa_byteset set; /* from the operand's offset on; run 0: its extent overflows */
} as_k_shape;

/* An operand. It lies in the array `ops` of 8-byte units, and its number is 1 + its place there. */
typedef struct as_k_operand {
  uint32_t buffer, shape;
  uint32_t dyn;                      /* 1-based in dyns: the parts known at run time; 0: none */
  uint8_t part, nparts, space, zero; /* part from that of the memory */
  int64_t offset;
} as_k_operand;
_Static_assert(sizeof(as_k_operand) % 8 == 0, "operands lie in 8-byte units");

typedef struct as_k_dyn {
  uint8_t kind, index_kind, index_dim, size_dim; /* as in isa_ap */
  uint32_t reg, size_reg;                        /* kernel registers */
  uint32_t elem, index;                          /* operands */
  int64_t stride;
} as_k_dyn;

/* Items of the list: instructions by their row of isa_ops, and these. */
enum { K_LOOP = ISA_NOPS, K_WHILE, K_ENDLOOP };

typedef struct as_k_item {
  isa_line at;
  uint32_t number; /* as emitted; of one that was added: of the one it serves */
  uint32_t ops;    /* of an instruction: its operands are numbered from here on, see as_k_verdict */
  union {
    uint32_t verdict; /* of an instruction, 1-based */
    uint32_t loop;    /* of K_LOOP, K_WHILE, K_ENDLOOP, 1-based */
  };
  uint16_t op;
  uint16_t queue; /* of a transfer: 1-based; 0: not chosen */
  bool added;
  uint8_t replicas; /* mask of engines that run a control instruction */
  uint8_t engine;   /* that runs it, ISA_NENGINES: not chosen, or several */
  uint8_t flags;    /* AS_REC_ */
} as_k_item;

/* An item while it is made: what its verdict is to have is still its own. */
typedef struct as_k_draft {
  as_k_item it;
  isa_insn in;
  uint32_t regs[2];
} as_k_draft;

/* One operand of an item, with what the item does to it. */
typedef struct as_k_use {
  uint32_t operand; /* number n stands for operand it->ops + n */
  uint8_t field;
  bool reads, writes;
  bool covers; /* all its bytes are written, whatever the data */
} as_k_use;

/* What items that are alike share: their instruction, and what the verifier found of it. Their
 * records have the same words, but for the line, which of equal tiles they name, and where in a
 * tensor they lie. Number n of an operand is as_k_op(k, it->ops + n). */
typedef struct as_k_verdict {
  isa_insn in;          /* AP fields and NUM patterns are operands, APS lists places in ops */
  uint32_t regs[2];     /* of its REG fields, in their order: kernel registers */
  uint32_t key, words;  /* in keys; no words: no other item is known to be like it */
  uint32_t uses, sites; /* places in uses and sites */
  uint32_t next[2];     /* of what came after an item like this last, and before that */
  uint32_t with_acc[3]; /* the same with another `acc`, by ISA_ACC_; 0: none yet */
  uint32_t other; /* for the engine that has no such instruction (isa_insn_instead); 0: none */
  uint32_t busy[ISA_ENG_sync]; /* of a data path: ps on each of engines */
  uint64_t dma;                /* of a transfer: what the DMA engines take for its bytes, in fs */
  uint16_t queue;              /* that the caller chose, as in as_k_item */
  uint8_t engine;              /* as in as_k_item */
  uint8_t engines, avoid; /* masks of those that may run it; of those that compilers do not take */
  uint8_t modes;          /* of a transfer: mask of ISA_DGE_ that may */
  uint8_t ways[ISA_NENGINES]; /* masks of the ways of isa_ways that it uses on each engine */
  uint8_t nuses, nsites;
  uint8_t table; /* 1 + the function whose table scalar needs for it, 0: none */
  bool has_acc;  /* it is a matmul */
  bool simple;   /* its operands are its sites: they move no others and are in no lists */
  bool plain;    /* simple, and it has no registers and lists */
} as_k_verdict;

/* An operand of a simple verdict, as the first such item had it. */
typedef struct as_k_site {
  as_k_operand operand;
  uint16_t at;     /* the word of the record that names its buffer */
  uint16_t member; /* the byte of isa_insn where its number is */
} as_k_site;

/* The words of a record that its verdict depends on. */
enum { K_KEY_WORDS = 128, K_KEY_BUFFERS = 8 };
enum { K_OFFSET_AT = 4 }; /* of an operand: from the word of its buffer to that of its offset */
typedef struct as_k_key {
  int64_t w[K_KEY_WORDS];
  uint32_t n; /* 0: it is verified for itself */
  uint32_t hash, nbuffers, buffers[K_KEY_BUFFERS];
  bool simple;
  uint32_t nsites;
  as_k_site sites[K_KEY_BUFFERS];
} as_k_key;

typedef struct as_k_loop {
  as_kernel_range range;
  uint32_t reg;         /* the variable, or the condition of a while */
  uint32_t first, last; /* items K_LOOP and K_ENDLOOP */
  uint32_t parent;      /* 1-based, 0: none */
  unsigned engines;     /* that run the body */
  uint32_t origin;      /* the loop that it is a part of: its own number, but for parts */
  bool is_while;
  bool once, rest; /* parts: of at most one round; of all rounds but the first */
} as_k_loop;

typedef struct as_k_queue {
  uint8_t dge, engine, prio;
  uint8_t stream; /* of static loads of gen2: those of some tensors */
  uint8_t number; /* in the program, K_NO_QUEUE before */
  bool users;     /* of the caller's choice */
  uint16_t pipe;  /* 1 + the pipe of its sendrecvs; 0: it has other transfers. Those of a sendrecv
                     end when the other core's do, so no others are in order with them */
  uint64_t count;
} as_k_queue;

typedef struct as_k_spilled {
  const char *name; /* as the caller gave it */
  uint64_t bytes;
  isa_line after, before; /* the uses it is away between */
  uint8_t to;             /* AS_SPILL_ */
} as_k_spilled;

/* Instructions of a line that were left out; buffer: what they would have written, 0: none. */
typedef struct as_k_left {
  isa_line at;
  uint32_t buffer, left, of; /* of so many */
  uint16_t op;
  uint16_t why; /* AS_PASS_ */
} as_k_left;

typedef struct as_k_order {
  uint32_t later, earlier;
} as_k_order;

/* ---- What the passes make ------------------------------------------------------------------ */

/* Sources of completion, each in order: the data paths, tensor's weight loads, the sequencers,
 * collectives, the queues. */
enum {
  K_DP = 0,
  K_WEIGHTS = ISA_ENG_sync, /* sync has no data path, its place is free */
  K_SEQ = ISA_NENGINES,
  K_COLLECTIVES = 2 * ISA_NENGINES,
  K_QUEUE,
  K_SOURCES = K_QUEUE + ISA_ENGINE_QUEUES
};

/* A step: an item on an engine, or what all engines do at the ends of a loop. */
enum { K_STEP_ITEM, K_STEP_MEET, K_STEP_TOP, K_STEP_BOTTOM };
typedef struct as_k_step {
  uint32_t item;
  uint32_t ordinal;  /* of its source, from 1 */
  uint32_t snapshot; /* of what its engine knew, in snaps */
  uint32_t weights;  /* of a matmul: weight loads before it */
  uint32_t waits;    /* in waits */
  uint32_t value;    /* of its semaphore once it is complete, in its scope */
  uint16_t nwaits, scope;
  uint32_t reuse;         /* 1 + step that had its semaphore before, which must be waited for */
  uint16_t sem;           /* when it signals */
  uint8_t engine, source; /* source K_SOURCES: none */
  uint8_t kind;           /* K_STEP_ */
  bool signals, dead;     /* dead: of the first pass over a loop's body */
} as_k_step;

typedef struct as_k_wait {
  uint32_t step;   /* waited for */
  uint32_t buffer; /* whose bytes, 0: none */
  uint8_t way;     /* the memory whose way is shared; 0: none */
  bool before;     /* of the round before this one, or of the last round of a loop */
  bool reuse;
} as_k_wait;
typedef struct as_k_waited { /* a wait as emitted */
  uint32_t pc, step;
  uint32_t wait; /* in waits; K_NONE: for the step that had this one's semaphore before */
} as_k_waited;

enum { K_DEPTH = 16 }; /* of loops in loops, at most */

/* Semaphores of the top level (scope 0) or of loop i (scope i). In a loop they rise by `count` or
 * 16 in each round, and go on where they were when it is entered again: setting one back could take
 * an update that is still to arrive. */
typedef struct as_k_scope {
  uint32_t first, end, left; /* its steps; those at its exit end before `left` */
  uint16_t counter[K_QUEUE]; /* semaphore of a source, K_NO_SEM: none */
  uint32_t count[K_QUEUE];   /* updates of it, in one round */
} as_k_scope;
enum { K_NO_SEM = 0xffff };

/* An access that later ones may conflict with. */
typedef struct as_k_access {
  int64_t lo, hi; /* bytes: of a partition, or of the tensor */
  uint32_t step, ordinal, operand, buffer, refs;
  uint16_t p0, p1;
  uint8_t source;
  bool writes, dense, alive;
} as_k_access;
/* An access as a page has it, with its bytes from the page's first one on: most of those in a page
 * do not meet, and are not looked at. */
typedef struct as_k_entry {
  uint32_t id, lo, hi;
} as_k_entry;
typedef struct as_k_page {
  as_k_entry *entries;
  uint32_t n, cap;
} as_k_page;
typedef struct as_k_region { /* SBUF, PSUM, a tensor */
  as_k_page *pages;
  uint32_t npages, wide; /* the last is of accesses that touch more than `wide` others */
  unsigned page_shift;
} as_k_region;

struct as_kernel {
  isa_alloc al;
  isa_arena arena;
  const isa_target *target;
  isa_target own_target; /* target, of a hypothetical machine */
  as_kernel_options o;
  as_kernel_error error;
  bool finished, made;       /* made: into a program */
  uint32_t *placed, nplaced; /* of each tensor of scratch: its number in the program made */

  isa_program *scratch; /* tensors and pool; its tiles and patterns are of the item verified */

  as_k_buffer *buffers; /* number i at [i - 1], as everything that is numbered */
  uint32_t nbuffers, cap_buffers;
  const char **files;
  uint32_t nfiles, cap_files;
  uint64_t *ops;
  uint32_t nops, cap_ops;
  as_k_dyn *dyns;
  uint32_t ndyns, cap_dyns;
  as_k_item *items;
  uint32_t nitems, cap_items;
  as_k_loop *loops;
  uint32_t nloops, cap_loops, open_loop;
  as_k_queue *queues;
  uint32_t nqueues, cap_queues;
  as_k_order *orders;
  uint32_t norders, cap_orders;
  uint32_t nregs;
  uint32_t nconsts;
  uint64_t last_row;       /* of the temporaries that as_k_repair makes */
  uint8_t takes[ISA_NOPS]; /* whether as_kernel_takes it: 1 yes, 2 no, 0 not asked */
  isa_index constants, classes, shape_index, verdict_index; /* buffers, buffers, shapes, verdicts */
  isa_index names, tensors;   /* called; tensors, by name */
  struct as_k_called *called; /* called.h */
  uint32_t ncalled, cap_called, turn;
  isa_line turn_at; /* the line of the last item or tile, and `turn`: how often it has changed */
  as_k_shape *shapes;
  uint32_t nshapes, cap_shapes;
  as_k_verdict *verdicts;
  uint32_t nverdicts, cap_verdicts, last_verdict; /* last: of the record that was read last */
  as_k_use *uses;
  uint32_t nuses, cap_uses;
  as_k_site *sites;
  uint32_t nsites, cap_sites;
  int64_t *keys;
  uint32_t nkeys, cap_keys;

  /* registers */
  uint8_t *reg_needs;             /* mask of engines, by register */
  uint8_t *reg_places;            /* by register and engine */
  uint8_t reg_free[ISA_NENGINES]; /* first one that no kernel register takes */

  /* passes */
  as_k_left *left; /* what was left out */
  uint32_t nleft, cap_left;
  as_k_spilled *spilled;
  uint32_t nspilled, cap_spilled;
  unsigned store_engine; /* that triggers stores */
  unsigned engines;      /* that have code */
  bool sides;            /* large tiles are placed from the memory's end */
  bool no_room;          /* what passes made did not fit: it is made of the list as written */
  as_k_step *steps;
  uint32_t nsteps, cap_steps;
  as_k_wait *waits;
  uint32_t nwaits, cap_waits;
  uint32_t *snaps; /* rows of the sources that there are */
  uint32_t nsnaps, cap_snaps;
  uint8_t sources[K_SOURCES], nsources, column[K_SOURCES]; /* column: of a source, in a row */
  as_k_scope *scopes;
  uint32_t cap_scopes;                                  /* 1 + nloops */
  uint16_t meet_arrive[K_DEPTH], meet_go[ISA_NENGINES]; /* arrive: by the depth of a loop */
  uint16_t barrier; /* the semaphore of every core_barrier: the same number on both cores */

  as_kernel_figures figures;
  as_k_waited *waited; /* by engine */
  uint32_t nwaited, cap_waited;
  as_kernel_unwritten *unwritten; /* what is read before it is written */
  uint32_t nunwritten, cap_unwritten;
};

/* What was known of each source that there is when a step was issued, by column. */
static inline const uint32_t *as_k_snap(const as_kernel *k, const as_k_step *s) {
  return k->snaps + (size_t)s->snapshot * k->nsources;
}

/* ---- kernel.c ---- */

/* Sets the error and gives false. */
bool as_k_fail(as_kernel *k, isa_status s, isa_line at, const char *fmt, ...) ISA_PRINTF(4, 5);
bool as_k_nomem(as_kernel *k);
/* `file:line`, or `item N` where no line is known. */
const char *as_k_where(const as_kernel *k, isa_line at, char *out, size_t n);
/* The tensor of that name, NULL when the kernel has none. */
const isa_tensor *as_k_find_tensor(const as_kernel *k, const char *name);
/* Adds a tensor whose name is free, with its buffer, of which all but `tensor` is given. */
bool as_k_add_tensor(as_kernel *k, const isa_tensor *t, const as_k_buffer *b, uint32_t *buffer);
/* Whether a is a constant and b has its data. */
bool as_k_same_constant(const isa_tensor *a, const isa_tensor *b);
/* Bytes of a partition of a memory; and those that tiles may take, without what the toolchain
 * keeps. Shares of a memory that passes may fill count by the first. */
uint32_t as_k_memory(const as_kernel *k, unsigned space);
uint32_t as_k_room(const as_kernel *k, unsigned space);
/* Whether something may be added still, and whether a place names a file of the kernel. */
bool as_k_is_open(as_kernel *k, isa_line at);
bool as_k_place_ok(as_kernel *k, isa_line at);
/* Makes room for one more element. */
#define K_GROW(k, array, n, cap) \
  (isa_array_room(&(k)->al, &(k)->array, (k)->n, &(k)->cap, sizeof *(k)->array) || as_k_nomem(k))
static inline const as_k_operand *as_k_op(const as_kernel *k, uint32_t number) {
  return (const as_k_operand *)(const void *)&k->ops[number - 1];
}
static inline const as_k_shape *as_k_shape_of(const as_kernel *k, const as_k_operand *o) {
  return &k->shapes[o->shape - 1];
}
static inline const as_k_verdict *as_k_verdict_of(const as_kernel *k, const as_k_item *it) {
  return &k->verdicts[it->verdict - 1];
}
/* The operands of an instruction, index vectors and elements of offsets included, and what it does
 * to each; how many. Of a loop's begin or end 0. */
static inline unsigned as_k_used(const as_kernel *k, const as_k_item *it, const as_k_use **uses) {
  const as_k_verdict *r = it->op < ISA_NOPS ? as_k_verdict_of(k, it) : NULL;
  *uses = r ? k->uses + r->uses : NULL;
  return r ? r->nuses : 0;
}
static inline const as_k_operand *as_k_use_op(const as_kernel *k, const as_k_item *it,
                                              const as_k_use *u) {
  return as_k_op(k, it->ops + u->operand);
}
static inline as_k_wait as_k_wait_of(const as_kernel *k, const as_k_step *s, uint32_t wait) {
  return wait == K_NONE ? (as_k_wait){.step = s->reuse - 1, .reuse = true} : k->waits[wait];
}
static inline as_k_buffer *as_k_buf(const as_kernel *k, uint32_t number) {
  return &k->buffers[number - 1];
}

/* ---- alike.c: what is kept once ---- */

/* The number of a shape, 0 if out of memory. */
uint32_t as_k_find_shape(as_kernel *k, uint8_t dtype, uint8_t ndim, const isa_dim *dim);
/* Sets the class of a tile, whose number will be `number`; there is room in classes. */
void as_k_classify(as_kernel *k, as_k_buffer *b, uint32_t number);
/* Makes a word of the key that names a buffer the same for equal buffers. */
void as_k_key_buffer(const as_kernel *k, as_k_key *key, size_t at, uint32_t buffer);
/* The same for the word that is the offset of an operand without dynamic parts. */
void as_k_key_offset(const as_kernel *k, as_k_key *key, size_t at, const as_k_operand *o);
/* The number of the verdict that was kept for an item alike; 0: none was kept. */
uint32_t as_k_find_verdict(const as_kernel *k, as_k_key *key);
/* Keeps a verdict; ops: of the item that it was found of. */
bool as_k_add_verdict(as_kernel *k, const as_k_key *key, const as_k_verdict *found, uint32_t ops,
                      uint32_t *number);
/* Keeps what `found` has, with other instructions for its item, as the other of a verdict. */
bool as_k_add_other(as_kernel *k, const as_k_verdict *found, uint32_t ops, uint32_t number);
/* Gives an item a verdict with this `acc`, which the others like it do not get with it. */
bool as_k_set_acc(as_kernel *k, as_k_item *it, unsigned acc);
/* Gives an item a verdict of its own, to be changed; as_k_find_uses then finds its uses anew. */
as_k_verdict *as_k_own_verdict(as_kernel *k, as_k_item *it);
bool as_k_find_uses(as_kernel *k, as_k_verdict *r, uint32_t ops);
/* Adds the item of a record of at most n words, if it is like one that came after the last one's
 * like; else false, and nothing has changed. */
bool as_k_predict(as_kernel *k, const int64_t *w, size_t n);
/* Notes the verdict of a record that as_k_predict did not take. */
void as_k_note_verdict(as_kernel *k, uint32_t number);

/* ---- list.c: items ---- */

/* Meetings with the other core, each kind in the order of the list: sendrecvs by their pipe,
 * gpsimd's own among them, and barriers. K_MEETINGS: it does not meet the other core. */
enum { K_BARRIERS = 256, K_MEETINGS };
unsigned as_k_meeting_kind(const as_kernel *k, const as_k_item *it);

/* Adds an item, or gives false. */
bool as_k_add_item(as_kernel *k, const as_k_item *it);

/* ---- group.c: collectives ---- */

bool as_k_is_collective(const as_k_item *it);
/* Whether an item ends only after its engine has gone on: a transfer, a collective. */
bool as_k_runs_on(const as_k_item *it);
/* Whether an operand is in an input or output, which both cores and the caller see. */
bool as_k_is_given(const as_kernel *k, const as_k_operand *o);
/* Marks operations on what both cores see that are in both kernels: they are one. */
bool as_k_pair_collectives(as_kernel *first, as_kernel *second, as_kernel **failed);

/* ---- legal.c ---- */

/* Adds an item that was refused, with copies that make it legal; false with its error. */
bool as_k_repair(as_kernel *k, const as_k_draft *d);
/* An operand like o with these elements; its number. */
bool as_k_put_operand(as_kernel *k, as_k_operand o, uint8_t dtype, unsigned ndim,
                      const isa_dim *dim, uint32_t *number);

/* ---- spill.c ---- */

/* What is known of one memory while its tiles are placed; NULL with an error. */
typedef struct as_k_spiller as_k_spiller;
as_k_spiller *as_k_spill_open(as_kernel *k);
void as_k_spill_close(as_k_spiller *s);
/* Lets one of n tiles that live go, so that `wanted` may fit: its life ends before. again: the tile
 * as which it comes back, placed like others from its first item on. False when none can go, with
 * an error when something else was wrong. */
bool as_k_spill(as_k_spiller *s, const uint32_t *live, uint32_t n, uint32_t wanted,
                uint32_t *again);
/* Puts what moves those tiles into the list, and finds all lives anew. */
bool as_k_spill_apply(as_k_spiller *s);
/* A tensor for what is in a tile, named by base and a number after *last, which it becomes. */
bool as_k_temporary(as_kernel *k, const char *base, const as_k_buffer *b, uint64_t *last,
                    uint32_t *buffer);

/* ---- peel.c ---- */

/* Makes room for n items before item `at`; loops and orders go on naming the same items. */
bool as_k_open_gap(as_kernel *k, uint32_t at, uint32_t n);
/* Makes the first round of a loop a loop of its own. */
bool as_k_peel(as_kernel *k, uint32_t loop);

/* ---- record.c ---- */

/* Reads one record of at most n words; operands go to ops. */
bool as_k_read_record(as_kernel *k, const int64_t *w, size_t n, as_k_draft *d, as_k_key *key);
/* Room for n units at the end of ops, which the caller fills; NULL if out of memory. */
void *as_k_take_units(as_kernel *k, uint32_t n, uint32_t *number);

/* ---- access.c ---- */

/* What as_k_used gives, of an instruction of the item whose operands begin at ops. */
unsigned as_k_uses(const as_kernel *k, const isa_insn *in, uint32_t ops, as_k_use out[K_OPERANDS]);
/* The bytes of an operand, from its buffer's first; of one that moves all that it can reach. */
typedef struct as_k_bytes {
  uint16_t p0, p1;
  int64_t lo, hi;
  const isa_byteset *set; /* from lo on; NULL: all of lo .. hi - 1 */
} as_k_bytes;
void as_k_bytes_of(const as_kernel *k, const as_k_operand *o, as_k_bytes *out);
/* Whether its bytes are known: no register, element or index moves it. */
static inline bool as_k_moves(const as_kernel *k, const as_k_operand *o) {
  const as_k_dyn *d = o->dyn ? &k->dyns[o->dyn - 1] : NULL;
  return d && (d->kind || d->index_kind);
}
static inline uint64_t as_k_buffer_bytes(const as_kernel *k, const as_k_buffer *b) {
  return b->space == ISA_HBM ? k->scratch->tensors[b->tensor - 1].bytes : b->bytes;
}

/* ---- bind.c ---- */

/* Turns an item's operands into patterns of a program. */
typedef struct as_k_binder {
  as_kernel *k;
  isa_program *p;
  bool final; /* tiles have their places, registers are those of engine; k's core */
  unsigned engine;
  uint32_t nslots, slots[K_OPERANDS]; /* verifying: buffers of the item */
  uint32_t nregs, regs[ISA_NREGS];    /* verifying: registers */
} as_k_binder;
/* A verdict's instruction with the item's operands from ops on; false: memory or slots are out. */
bool as_k_bind(as_k_binder *b, const as_k_verdict *r, uint32_t ops, isa_insn *out);

/* ---- verify.c ---- */

/* Whether an item is legal somewhere; gives it its verdict. */
bool as_k_verify(as_kernel *k, as_k_draft *d, as_k_key *key);

/* ---- the passes; each false with an error ---- */

bool as_k_copy_bounds(as_kernel *k); /* of loops whose bodies write them: once, before the loop */
bool as_k_define(as_kernel *k);
bool as_k_lives(as_kernel *k);
bool as_k_choose_engines(as_kernel *k);
bool as_k_choose_queues(as_kernel *k);
/* What the DMA engines take for the bytes that a transfer writes, in fs. */
uint64_t as_k_dma_time(const as_kernel *k, const as_k_verdict *r, uint32_t ops);
/* Chooses the queue of one transfer that is made after that; not in a loop at run time. */
bool as_k_choose_queue(as_kernel *k, as_k_item *it);
bool as_k_registers(as_kernel *k);
uint32_t as_k_result_of(const as_kernel *k, const as_k_item *it); /* a register; 0: none */
bool as_k_place(as_kernel *k);
bool as_k_solve(as_kernel *k);
bool as_k_semaphores(as_kernel *k);
/* All of them: what a program is made of, whose registers and places are known then. */
bool as_k_prepare(as_kernel *k);

/* ---- solve.c ---- */

/* The engines that meet at the ends of a loop: those that run what it stands in. They count in a
 * semaphore of its depth, since others may wait at the end of a loop around it already. */
unsigned as_k_meeting(const as_kernel *k, const as_k_loop *l);
/* The loops that a loop stands in. */
unsigned as_k_depth(const as_kernel *k, const as_k_loop *l);

/* ---- depend.c ---- */

typedef struct as_k_table {
  as_kernel *k;
  as_k_region *regions; /* 0 SBUF, 1 PSUM, 2 + tensor */
  uint32_t nregions;
  as_k_access *accesses;
  uint32_t naccesses, cap_accesses, free;
} as_k_table;
/* For each source in the mask the step that must be complete first: its ordinal, step, buffer. */
typedef struct as_k_needs {
  uint32_t mask;
  uint32_t ordinal[K_SOURCES], step[K_SOURCES], buffer[K_SOURCES];
  uint32_t ways; /* sources that only a way asks for, and to which memory */
  uint8_t space[K_SOURCES];
} as_k_needs;
bool as_k_table_open(as_k_table *t, as_kernel *k);
void as_k_table_close(as_k_table *t);
void as_k_table_clear(as_k_table *t);
/* Notes that a step of a source must be complete first. */
static inline void as_k_need(as_k_needs *n, unsigned source, uint32_t ordinal, uint32_t step,
                             uint32_t buffer) {
  if ((n->mask >> source & 1) && n->ordinal[source] >= ordinal) return;
  n->mask |= UINT32_C(1) << source;
  n->ordinal[source] = ordinal;
  n->step[source] = step;
  n->buffer[source] = buffer;
}
_Static_assert(K_SOURCES <= 32, "sources have a bit each");
/* The bytes of a use, in its memory. */
typedef struct as_k_box {
  as_k_region *region;
  as_k_bytes at;
  uint32_t operand, first, last; /* first, last: pages */
  bool writes, moves, constant;  /* constant: of a tensor that nothing writes */
} as_k_box;
/* What the use of an operand conflicts with; fills b. */
void as_k_table_find(as_k_table *t, uint32_t operand, bool writes, as_k_box *b, as_k_needs *needs);
/* Notes a use of a step by its box. kills: who waits for it knows whatever it covers. */
bool as_k_table_note(as_k_table *t, const as_k_box *b, uint32_t step, bool kills);

/* ---- way.c ---- */

/* Finds the ways of isa_ways that an instruction uses on each engine and that must be ordered. */
void as_k_find_ways(const as_kernel *k, as_k_verdict *r, uint32_t ops);
typedef struct as_k_ways {
  uint32_t last[ISA_NWAYS][2]; /* 1 + the step of each of the engines that used it last */
} as_k_ways;
/* Adds to n what those ways ask for; the last to add. */
void as_k_ways_find(const as_kernel *k, const as_k_ways *w, unsigned ways, unsigned e,
                    as_k_needs *n);
void as_k_ways_note(as_k_ways *w, unsigned ways, unsigned e, uint32_t step);

#endif
