/* A program in memory, and its file. The assembler fills one, the loader reads one; both go
 * through the same checks. Everything in it lives in its arena and is freed with it. */
#ifndef ISA_PROGRAM_H
#define ISA_PROGRAM_H

#include "target.h"

/* A remote tensor is one that only peers have: it takes no memory here. */
enum isa_role { ISA_TEMP, ISA_INPUT, ISA_OUTPUT, ISA_CONST, ISA_REMOTE, ISA_NROLES };
const char *isa_role_name(unsigned role); /* "temp" "input" "output" "const" "remote" */

enum { ISA_TENSOR_DIMS = 8, ISA_TILE_DIMS = 5 };

typedef struct isa_tensor { /* in HBM, row-major, dense */
  const char *name;
  uint8_t dtype, role, ndim;
  uint8_t rows; /* 1 + the register that has the size of the first dimension when a run starts:
                 * the host gives it, and shape[0] is the most; 0: shape[0] is the size */
  int64_t shape[ISA_TENSOR_DIMS]; /* each at least 1 */
  uint64_t bytes;                 /* of this shape; in a run, of the size that the host gave */
  const uint8_t *data;            /* of a const tensor: bytes bytes; else NULL */
} isa_tensor;

typedef struct isa_tile { /* in SBUF or PSUM: partitions, then up to four free dimensions */
  const char *name;
  uint8_t dtype, space, ndim;    /* ndim counts the partition dimension: 1 to 5 */
  uint16_t part;                 /* start partition */
  uint32_t shape[ISA_TILE_DIMS]; /* shape[0] partitions */
  uint32_t offset, bytes;        /* place and size within each partition */
  const char *overlay;           /* group whose tiles share bytes, or NULL */
  bool own; /* its bytes count as written only when last written through it: for the checks */
  /* Where the source calls several by one name: the line that made or overwrote it, 0: it is the
   * only one; where that line did so several times: the first of them that it is of, from 1, and of
   * how many it is, else 0. numbered: the line may have made several at once. */
  uint32_t line, iteration, iterations;
  bool numbered;
} isa_tile;
/* " (of line 29, iteration 3)", nothing for line 0. Gives out, of ISA_ITERATION bytes or more. */
enum { ISA_ITERATION = 80 };
const char *isa_iteration(const isa_tile *t, char *out, size_t n);
/* Its name, and that. */
void isa_put_tile(const isa_tile *t, isa_buf *out);
/* Whether two have bytes in common: declared or not, that is for the caller. */
static inline bool isa_tiles_share(const isa_tile *a, const isa_tile *b) {
  return a->space == b->space && a->part < b->part + b->shape[0] &&
         b->part < a->part + a->shape[0] && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

typedef struct isa_group { /* replica groups of collectives: lists of ranks, no rank in two */
  const char *name;
  uint32_t nlists, nranks; /* each at least 1 */
  const uint32_t *sizes;   /* [nlists], each at least 1 */
  const uint32_t *ranks;   /* [nranks], list after list */
} isa_group;
enum { ISA_MAX_GROUPS = 256, ISA_MAX_RANKS = 65536 };

/* Another rank, as a CC sequencer's program names it. rank: the rank `value` of the world; next and
 * prev: the neighbours in the own list of a group; place: place `value` of it; xor: the own place
 * ^ value. group is 1-based, 0 of rank. */
enum isa_peer_how {
  ISA_PEER_rank,
  ISA_PEER_next,
  ISA_PEER_prev,
  ISA_PEER_place,
  ISA_PEER_xor,
  ISA_NPEERS
};
typedef struct isa_peer {
  uint8_t how;
  uint32_t group, value; /* value: 0 of next and prev */
} isa_peer;
enum { ISA_MAX_PEERS = 65535 };

enum { ISA_ANY_OWNER = ISA_NENGINES }; /* each engine of the core may trigger it */
typedef struct isa_queue {
  const char *name;
  uint8_t dge, rings;
  uint8_t owner; /* the engine that may trigger it, ISA_ANY_OWNER, or that + 1 + k: of cc{k} */
  uint8_t prio;
  isa_insn *statics; /* transfers of a queue with dge=none, dma_copy / compute, in order */
  uint32_t nstatics, cap_statics;
} isa_queue;
/* The sequencer that owns a queue, ISA_NSEQS: any engine; and the owner for a sequencer. */
static inline unsigned isa_queue_owner(const isa_queue *q) {
  if (q->owner == ISA_ANY_OWNER) return ISA_NSEQS;
  return q->owner < ISA_ANY_OWNER ? q->owner : q->owner - 1u;
}
static inline uint8_t isa_owner_of(unsigned sequencer) {
  return (uint8_t)(sequencer < ISA_NENGINES ? sequencer : sequencer + 1);
}
static inline bool isa_queue_is_cc(const isa_queue *q) { return q->owner > ISA_ANY_OWNER; }

typedef struct isa_line { /* where an instruction came from; file is 1-based, 0 unknown */
  uint32_t file, line;
  uint32_t call; /* 1-based: the macro call or iteration of a %rep that produced it; 0: none */
} isa_line;

typedef struct isa_call { /* a macro call, or a round of a %rep */
  const char *name;       /* the macro's; "" of a %rep */
  uint32_t file, line;    /* where it was called, where the %rep is */
  uint32_t outer;         /* the call before this one that produced that line, 0 none */
  uint32_t round;         /* the iteration of a %rep, from 1; else 0 */
} isa_call;

typedef struct isa_code {
  isa_insn *insns;
  isa_line *lines; /* as many as insns, or NULL */
  uint32_t n, cap, cap_lines;
} isa_code;

typedef struct isa_core {
  isa_code code[ISA_NSEQS];
  isa_ap *aps; /* pattern i of the text is aps[i - 1]; deduplicated, in order of first use */
  uint32_t naps, cap_aps;
  isa_index ap_index;  /* of the first ap_indexed of aps, while building: of all but those that */
  uint32_t ap_indexed; /* isa_program_new_ap added */
  isa_queue queues[ISA_MAX_QUEUES];
  uint32_t nqueues;
  const char *sem_names[ISA_NSEMS]; /* NULL: not named */
} isa_core;

typedef struct isa_symbol { /* a code label, or exported name */
  const char *name;
  uint8_t core, engine, global;
  uint32_t pc;
} isa_symbol;

typedef struct isa_program {
  isa_arena arena;
  const isa_target *target;
  isa_target own_target; /* target, of a hypothetical machine */
  isa_core cores[ISA_MAX_CORES];
  uint32_t ncores;
  isa_tensor *tensors;
  uint32_t ntensors, cap_tensors;
  isa_tile *tiles;
  uint32_t ntiles, cap_tiles;
  isa_group *groups;
  uint32_t ngroups, cap_groups;
  isa_peer *peers; /* peer i of a pattern or an update is peers[i - 1] */
  uint32_t npeers, cap_peers;
  isa_symbol *symbols;
  uint32_t nsymbols, cap_symbols;
  const char **files; /* file i is files[i - 1] */
  uint32_t nfiles, cap_files;
  isa_call *calls; /* call i is calls[i - 1] */
  uint32_t ncalls, cap_calls;
  isa_buf pool;
  isa_ref *pool_runs; /* offset and bytes of what isa_program_pool put there */
  uint32_t npool_runs, cap_pool_runs;
  isa_index pool_index; /* of the first pool_index.n of pool_runs */
  uint64_t hash;        /* content hash; set by read and write */
} isa_program;

/* A new, empty program of one core; NULL if out of memory. Free with isa_program_free, which
 * takes NULL. al is copied. */
isa_program *isa_program_new(const isa_alloc *al, const isa_target *target);
void isa_program_free(isa_program *p);

/* Each adds one and gives its 1-based index, 0 if out of memory. Contents are copied, strings
 * into the arena. isa_program_ap gives the index of an equal pattern that is already there. */
uint32_t isa_program_tensor(isa_program *p, const isa_tensor *t);
uint32_t isa_program_tile(isa_program *p, const isa_tile *t);
uint32_t isa_program_ap(isa_program *p, unsigned core, const isa_ap *ap);
/* Adds a pattern of which the caller knows that no equal one is there or will be asked for. */
uint32_t isa_program_new_ap(isa_program *p, unsigned core, const isa_ap *ap);
/* From here on isa_program_ap finds all patterns of a core, those too; or those that are left, for
 * a caller that has taken the last ones away. */
void isa_program_index_anew(isa_program *p, unsigned core);
uint32_t isa_program_file(isa_program *p, const char *name);
uint32_t isa_program_call(isa_program *p, const isa_call *call);
uint32_t isa_program_symbol(isa_program *p, const isa_symbol *s);
uint32_t isa_program_group(isa_program *p, const isa_group *g);
/* The list of a group that has the rank, with its ranks and the rank's place; NULL: none has. */
const uint32_t *isa_group_list(const isa_group *g, uint32_t rank, uint32_t *n, uint32_t *place);
/* The rank that a peer of p names, seen from `rank`; UINT32_MAX if there is no such place. */
uint32_t isa_peer_rank(const isa_program *p, const isa_peer *peer, uint32_t rank);
uint32_t isa_program_peer(isa_program *p, const isa_peer *peer); /* an equal one if there is */
/* The index of a group with the same lists, whatever its name, from `from` on; else ngroups. */
uint32_t isa_program_find_group(const isa_program *p, const isa_group *g, uint32_t from);
/* How many queues of the kind of q a core may have, of an engine or of a CC sequencer; 0: it has
 * room for one more. */
unsigned isa_queue_limit(const isa_core *c, const isa_queue *q);
uint32_t isa_program_queue(isa_program *p, unsigned core, const isa_queue *q);
bool isa_program_insn(isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                      isa_line at);
/* Adds one that the caller fills where it lies; NULL if out of memory. */
isa_insn *isa_program_next_insn(isa_program *p, unsigned core, unsigned engine, isa_line at);
/* Room for n instructions of an engine, for a caller that knows how many there will be. */
bool isa_program_reserve(isa_program *p, unsigned core, unsigned engine, uint32_t n);
bool isa_program_static(isa_program *p, unsigned core, unsigned queue, const isa_insn *in);
/* Appends count elements of size bytes each to the pool, 8-byte aligned, reusing an equal run.
 * False if out of memory. */
bool isa_program_pool(isa_program *p, const void *data, uint32_t count, unsigned size,
                      isa_ref *out);
/* The pool's bytes of a list field of that kind; NULL when it does not fit in the pool. */
const void *isa_program_list(const isa_program *p, isa_ref r, unsigned kind);

/* Index of the tensor of that name, -1 if none exists. */
int isa_program_find_tensor(const isa_program *p, const char *name, size_t n);
/* Bit i: register i has a tensor's size when a run starts. */
uint64_t isa_program_rows(const isa_program *p);
/* Whether it has sections or queues of CC sequencers, peers or remote tensors. */
bool isa_program_is_world(const isa_program *p);
/* Bytes of an element of the first dimension, and how many of them a tensor's bytes are. */
static inline uint64_t isa_row_bytes(const isa_tensor *t) {
  uint64_t bytes = isa_dtype_bytes(t->dtype);
  for (unsigned d = 1; d < t->ndim; d++) bytes *= (uint64_t)t->shape[d];
  return bytes;
}
static inline int64_t isa_tensor_rows(const isa_tensor *t) {
  return (int64_t)(t->bytes / isa_row_bytes(t));
}

/* ---- Codec: one instruction, one pattern -------------------------------------------------- */

enum { ISA_RECORD = 64, ISA_AP_RECORD = 128 };
/* Writes the record of in. in must be valid for isa_check_insn's ranges of fields (register
 * numbers and so on), else the result is unspecified but nothing else is touched. */
void isa_encode(const isa_insn *in, uint8_t out[ISA_RECORD]);
/* Decodes a record. Refuses an unknown opcode, a field out of its range, and any nonzero byte
 * without meaning: isa_encode of the result gives the same bytes. */
bool isa_decode(const uint8_t in[ISA_RECORD], isa_insn *out, isa_error *e);
void isa_encode_ap(const isa_ap *ap, uint8_t out[ISA_AP_RECORD]);
bool isa_decode_ap(const uint8_t in[ISA_AP_RECORD], isa_ap *out, isa_error *e);

/* ---- Text --------------------------------------------------------------------------------- */

/* How operands are printed: as slices of their tiles and tensors if they are slices (x[0:64]), or
 * all in raw form, which shows every number. The assembler makes the same of both. */
enum isa_operand_text { ISA_TEXT_NAMED, ISA_TEXT_RAW };
/* Source text of an instruction of a core, without label or newline, as the assembler accepts it:
 * mnemonic, operands by name, `$name` clauses. A label prints as `name`, or `L12`
 * if none exists at that pc (print.c prints the pc's own label the same way). */
void isa_print_insn(const isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                    isa_buf *out);
void isa_print_ap(const isa_program *p, unsigned core, uint32_t ap, isa_buf *out); /* raw */
void isa_print_operand(const isa_program *p, unsigned core, uint32_t ap,
                       isa_buf *out); /* by name */
/* What both cores have as one: `NAME sem 3, core=*`. The name that both give to a semaphore, NULL
 * when they do not. The first of core 1's queues from `from` on that is core 0's queue i as well;
 * when core 1 has no such queue, how many queues it has. */
const char *isa_shared_sem(const isa_program *p, unsigned sem);
uint32_t isa_shared_queue(const isa_program *p, uint32_t i, uint32_t from);
/* "[64, 3]" with that between two sizes; "[r10<=64, 3]" if the host gives the first dimension. */
void isa_print_shape(const isa_tensor *t, const char *between, isa_buf *out);
/* " (macro LOAD from a.s:30, round 2 of %rep at a.s:29)": what produced a line, innermost first, at
 * most four calls and the outermost; nothing if no macro did. */
void isa_print_calls(const isa_program *p, isa_line at, isa_buf *out);
/* The whole program as source that assembles to the same bytes. */
void isa_print_program(const isa_program *p, enum isa_operand_text operands, isa_buf *out);

/* ---- Rules (verify/check.c) ---------------------------------------------------------------- */

/* Whether instruction pc of an engine of a core is legal: engine, generation, operand memories,
 * partitions, shapes, types, ranges, branch target, queue and semaphore. code_n is the number of
 * instructions of that engine (0: targets are not checked). On refusal e names the operand, the
 * rule and the values. */
bool isa_check_insn(const isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                    uint32_t code_n, isa_error *e);
/* Replica groups: their lists contain all ranks, each in only one list. */
bool isa_check_group(const isa_group *g, isa_error *e);
/* A pattern by itself: type, memory, bounds within its tile or tensor, steps and counts. */
bool isa_check_ap(const isa_program *p, unsigned core, uint32_t ap, isa_error *e);

/* A place in a program for a message about it. */
typedef struct isa_place {
  int core, engine; /* -1: the program as a whole */
  uint32_t pc;
} isa_place;
/* The verifier: every table and instruction of p, PLANNED instructions refused as ISA_UNBUILT. */
bool isa_check_program(const isa_program *p, isa_place *at, isa_error *e);

/* ---- File (image.c): .sbc ----------------------------------------------------------------- */

/* The first four bytes of a file; no path begins with them. */
#define ISA_IMAGE_MAGIC "\x7fSBC"
/* Appends the file's bytes; the same program gives the same bytes. False if out of memory. */
bool isa_image_write(isa_program *p, isa_buf *out);
/* Reads a file's bytes as hostile input: every count, offset, string and index is bounded before
 * use. The result has passed the structural checks, not isa_check_program. NULL on refusal. */
isa_program *isa_image_read(const isa_alloc *al, const void *data, size_t n, isa_error *e);

#endif
