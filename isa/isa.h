/* The instruction set: tables, decoded instructions, access patterns.
 *
 *   opcodes.def  forms.def          one row per instruction, one list per form
 *        |           |
 *   isa_insn (decoded)  <-- codec.c -->  64-byte record
 *        |                                     |
 *   print.c (text)                        image.c (file)
 *
 * Everything here is plain data: no function keeps state or prints, and a failure is only a result.
 */
#ifndef ISA_ISA_H
#define ISA_ISA_H

#include "base.h"

/* ---- Small tables ------------------------------------------------------------------------- */

enum { ISA_GEN2 = 2, ISA_GEN3 = 3, ISA_GEN4 = 4 };

enum isa_engine {
#define ENGINE(name, hw) ISA_ENG_##name,
#include "engines.def"
  ISA_NENGINES
};
/* The sequencers of a core: its engines, then its CC sequencers cc0, cc1 ..., which run the
 * programs of collectives. */
enum { ISA_NCC = 3, ISA_NSEQS = ISA_NENGINES + ISA_NCC };

/* Masks of engines, by the letters used in the tables. */
enum isa_engine_mask {
  ISA_MASK_T = 1 << ISA_ENG_tensor,
  ISA_MASK_V = 1 << ISA_ENG_vector,
  ISA_MASK_S = 1 << ISA_ENG_scalar,
  ISA_MASK_G = 1 << ISA_ENG_gpsimd,
  ISA_MASK_Y = 1 << ISA_ENG_sync,
  ISA_MASK_VS = ISA_MASK_V | ISA_MASK_S,
  ISA_MASK_VG = ISA_MASK_V | ISA_MASK_G,
  ISA_MASK_VSG = ISA_MASK_V | ISA_MASK_S | ISA_MASK_G,
  ISA_MASK_ANY = ISA_MASK_T | ISA_MASK_VSG | ISA_MASK_Y,
  ISA_MASK_C = ((1 << ISA_NCC) - 1) << ISA_NENGINES, /* the CC sequencers */
  ISA_MASK_ALL = ISA_MASK_ANY | ISA_MASK_C
};

typedef struct isa_engine_row {
  const char *name, *hw;
} isa_engine_row;
extern const isa_engine_row isa_engines[ISA_NSEQS]; /* and of the CC sequencers */

enum isa_space { ISA_SBUF = 1, ISA_PSUM, ISA_HBM };
const char *isa_space_name(unsigned space); /* "sbuf" "psum" "hbm"; "?" */

/* Facts of every generation (nki/guides/architecture). */
enum {
  ISA_PMAX = 128,           /* partitions of SBUF and PSUM */
  ISA_PSUM_BYTES = 16384,   /* of a PSUM partition, at most */
  ISA_PSUM_BANK = 2048,     /* bytes of a bank in a partition */
  ISA_NREGS = 64,           /* registers of a sequencer */
  ISA_NSEMS = 256,          /* semaphores of a core */
  ISA_SEM_MAX = 0x7fffffff, /* the profile's field is int32 */
  ISA_GP_PARTS = 16,        /* partitions of each of gpsimd's eight cores */
  ISA_NDMA = 16,            /* DMA engines of a core, at most */
  ISA_MAX_QUEUES = 24,      /* queues of a core */
  ISA_ENGINE_QUEUES = 16,   /* of these, of its engines; the others are of CC sequencers */
  ISA_MAX_CORES = 2,        /* cores of a logical core */
  ISA_TARGET_NAME = 240     /* bytes of a target's name, with its end */
};

typedef struct isa_target {
  char name[ISA_TARGET_NAME];
  uint8_t id; /* isa_target_id; of a hypothetical machine (target.h) that of its base */
  bool hypothetical;
  int gen;
  uint32_t sbuf_bytes, sbuf_usable; /* of a partition */
  uint32_t cores, hbm_stacks, hbm_gib, dma_engines, dma_rings;
  uint32_t khz[ISA_NENGINES]; /* sync's is the base clock, which runs all sequencers */
  bool hwdge;
  uint32_t mm_fp32, mm_bf16; /* most columns of a matmul's destination, by its type */
  uint32_t cc;               /* CC sequencers of a core */
  uint32_t psum_bytes;       /* of a partition */
  uint32_t dma;              /* DMA engines of a core: what a transfer adds to its semaphore */
} isa_target;

enum isa_target_id {
#define TARGET(name, ...) ISA_##name,
#include "targets.def"
  ISA_NTARGETS
};
extern const isa_target isa_targets[ISA_NTARGETS];
/* Index of the target of that name, -1 if none exists. The same shape for all find calls
 * below: name need not be terminated, n is its length. */
int isa_target_find(const char *name, size_t n);

/* Two engines that cannot use a memory at once. */
typedef struct isa_way {
  uint8_t first, last; /* generations */
  uint8_t engine[2];
  uint8_t space;
  bool bank;    /* only if they use the same bank */
  bool ordered; /* programs must order them; else one just starts later */
} isa_way;
enum {
#define WAY(...) +1
  ISA_NWAYS = 0
#include "ways.def"
};
extern const isa_way isa_ways[ISA_NWAYS];
/* The other engine of a way that e belongs to on that generation; ISA_NENGINES: e has no part in
 * it.
 */
static inline unsigned isa_way_other(const isa_way *w, int gen, unsigned e) {
  if (gen < w->first || gen > w->last) return ISA_NENGINES;
  return e == w->engine[0] ? w->engine[1] : e == w->engine[1] ? w->engine[0] : ISA_NENGINES;
}

/* What an engine keeps beside memory from one instruction to another (state.def). */
enum isa_state {
  ISA_STATE_none,
  ISA_STATE_WEIGHTS,
  ISA_STATE_SUMS,
  ISA_STATE_MATCH,
  ISA_STATE_MASK,
  ISA_STATE_RANDOM,
  ISA_STATE_HOST,
  ISA_NSTATES
};
enum { ISA_STATE_R = 1, ISA_STATE_W = 2, ISA_STATE_RW = 3 };
typedef struct isa_state_use {
  uint8_t state, access;
  bool by_reduce; /* only where its reduce command is not idle */
} isa_state_use;

enum isa_dtype_class { ISA_UINT = 1, ISA_INT, ISA_FLOAT, ISA_PACK, ISA_BOOL };
enum isa_dtype {
#define DTYPE(name, code, bits, cls, e, m, lanes) ISA_##name = code,
#include "dtypes.def"
  ISA_NDTYPES
};
typedef struct isa_dtype_row {
  const char *name; /* NULL for code 0 */
  uint8_t bytes, bits, cls, ebits, mbits, lanes;
} isa_dtype_row;
extern const isa_dtype_row isa_dtypes[ISA_NDTYPES];
int isa_dtype_find(const char *name, size_t n);
static inline bool isa_dtype_valid(unsigned d) { return d > 0 && d < ISA_NDTYPES; }
static inline unsigned isa_dtype_bytes(unsigned d) { return isa_dtypes[d].bytes; }
/* Whether memset fills a type with an integer's bits, not with a number that is converted. */
static inline bool isa_fills_bits(unsigned d) {
  return isa_dtypes[d].cls <= ISA_INT || isa_dtypes[d].cls == ISA_BOOL;
}
/* The integers of 64 bits that an integer type, or bool, holds. */
static inline int64_t isa_dtype_greatest(unsigned d) {
  if (isa_dtypes[d].cls == ISA_BOOL) return 1;
  if (isa_dtypes[d].bytes == 8) return INT64_MAX;
  return (INT64_C(1) << (8 * isa_dtypes[d].bytes - (isa_dtypes[d].cls == ISA_INT))) - 1;
}
static inline int64_t isa_dtype_least(unsigned d) {
  return isa_dtypes[d].cls == ISA_INT ? -isa_dtype_greatest(d) - 1 : 0;
}
static inline bool isa_dtype_is_int(unsigned d) {
  return isa_dtypes[d].cls == ISA_UINT || isa_dtypes[d].cls == ISA_INT;
}

enum isa_op_class { ISA_OP_BIT = 1, ISA_OP_ARITH = 2, ISA_OP_BOTH = 3 };
enum isa_aluop {
#define ALUOP(name, code, cls, arity, red, eng, gen, hw) ISA_ALU_##name = code,
#include "aluops.def"
  ISA_NALUOPS
};
typedef struct isa_aluop_row {
  const char *name;
  uint8_t cls, arity, engines, gen;
  bool reduces, in_hardware;
} isa_aluop_row;
extern const isa_aluop_row isa_aluops[ISA_NALUOPS];
int isa_aluop_find(const char *name, size_t n);

enum isa_actfn {
#define ACTFN(name, code, lo, hi, gen, table) ISA_FN_##name = code,
#include "actfns.def"
  ISA_NACTFNS
};
typedef struct isa_actfn_row {
  const char *name;
  float lo, hi; /* valid inputs; of reciprocal, valid magnitudes */
  uint8_t gen;
  bool table; /* has a table of its own, which is loaded before its use */
} isa_actfn_row;
extern const isa_actfn_row isa_actfns[ISA_NACTFNS];
int isa_actfn_find(const char *name, size_t n);

enum isa_set {
#define SET(id, prose) ISA_SET_##id,
#include "enums.def"
  ISA_NSETS
};
/* Members of the sets, ISA_CMD_reset_reduce and so on: one enum per set, each from 0. */
enum {
  ISA_SETS_
#define SET(id, prose) \
  }                    \
  ;                    \
  enum isa_set_of_##id {
#define ITEM(set, name) ISA_##set##_##name,
#include "enums.def"
};
const char *isa_set_name(unsigned set);                /* prose name, or NULL */
const char *isa_set_item(unsigned set, unsigned item); /* NULL past the last */
int isa_set_find(unsigned set, const char *name, size_t n);
/* Whether the source language has the word for itself (a directive, a type, a register): nothing
 * can be called so. */
bool isa_is_word(const char *s);

/* ---- Decoded instructions ----------------------------------------------------------------- */

/* A wait: `sem` of core (0 or 1 of the logical core) compared with value or register. */
enum isa_cond {
  ISA_WAIT_none,
  ISA_WAIT_ge,
  ISA_WAIT_gt,
  ISA_WAIT_eq,
  ISA_WAIT_le,
  ISA_WAIT_lt,
  ISA_WAIT_ne,
  ISA_NCONDS
};
const char *isa_cond_text(unsigned cond); /* ">=" and so on; "" of none */
/* Whether a wait holds on a semaphore that is `have`; none holds always. */
static inline bool isa_cond_holds(unsigned cond, int64_t have, int64_t want) {
  switch (cond) {
  case ISA_WAIT_ge: return have >= want;
  case ISA_WAIT_gt: return have > want;
  case ISA_WAIT_eq: return have == want;
  case ISA_WAIT_le: return have <= want;
  case ISA_WAIT_lt: return have < want;
  case ISA_WAIT_ne: return have != want;
  default: return true;
  }
}
/* An update. ISA_UPD_dma is the completion semaphore of a DMA line: + 1 by each ring. ISA_UPD_peer
 * adds to a semaphore of a peer: + 1 by each ring of a dma_trigger once its bytes are there, + 1 by
 * another instruction. Its value is the peer's slot, or 0: that which each transfer writes. */
enum isa_upd {
  ISA_UPD_none,
  ISA_UPD_inc,
  ISA_UPD_dec,
  ISA_UPD_add,
  ISA_UPD_sub,
  ISA_UPD_write,
  ISA_UPD_dma,
  ISA_UPD_peer,
  ISA_NUPDS
};
typedef struct isa_wait {
  uint8_t cond, core, sem, is_reg;
  uint32_t value; /* at most ISA_SEM_MAX, or a register number */
} isa_wait;
typedef struct isa_update {
  uint8_t kind, at_read, core, sem;
  uint32_t value; /* of add, sub and write; of peer the 1-based number of the peer; else 0 */
} isa_update;

typedef struct isa_int { /* a 32-bit immediate or a register */
  bool is_reg;
  int32_t v;
} isa_int;

enum isa_num_kind { ISA_NUM_none, ISA_NUM_imm, ISA_NUM_reg, ISA_NUM_ap };
typedef struct isa_num { /* a float immediate's bits, a register, or a [P, 1] pattern */
  uint8_t kind;
  uint32_t v;
} isa_num;

typedef struct isa_point { /* an instruction of a core: number pc of an engine */
  uint8_t engine;
  uint32_t pc;
} isa_point;

typedef struct isa_ref { /* count elements at byte offset in the program's pool */
  uint32_t offset, count;
} isa_ref;

/* KIND(name, C type, bytes in the record). An AP is the 1-based index of a pattern of the core,
 * 0 for none. The lists live in the pool: STR and BYTES of bytes, STEPS of isa_step (8 bytes,
 * outermost first), APS of u32 pattern indices, F32S of float bits, I32S of int32, PAIRS of
 * isa_pair.
 */
#define ISA_KINDS(KIND)    \
  KIND(REG, uint8_t, 1)    \
  KIND(INT, isa_int, 5)    \
  KIND(NUM, isa_num, 5)    \
  KIND(AP, uint32_t, 4)    \
  KIND(U8, uint8_t, 1)     \
  KIND(U16, uint16_t, 2)   \
  KIND(U32, uint32_t, 4)   \
  KIND(I32, int32_t, 4)    \
  KIND(ENUM, uint8_t, 1)   \
  KIND(ALU, uint8_t, 1)    \
  KIND(ACTF, uint8_t, 1)   \
  KIND(LABEL, uint32_t, 4) \
  KIND(QUEUE, uint8_t, 1)  \
  KIND(STR, isa_ref, 8)    \
  KIND(BYTES, isa_ref, 8)  \
  KIND(STEPS, isa_ref, 8)  \
  KIND(APS, isa_ref, 8)    \
  KIND(F32S, isa_ref, 8)   \
  KIND(I32S, isa_ref, 8)   \
  KIND(SEM, uint8_t, 1)    \
  KIND(GROUP, uint8_t, 1)  \
  KIND(PAIRS, isa_ref, 8)  \
  KIND(PLACE, isa_point, 5)

enum isa_kind {
#define KIND(name, type, bytes) ISA_K_##name,
  ISA_KINDS(KIND)
#undef KIND
      ISA_NKINDS
};
#define KIND(name, type, bytes) typedef type isa_t_##name;
ISA_KINDS(KIND)
#undef KIND
extern const uint8_t isa_kind_bytes[ISA_NKINDS];
extern const uint8_t isa_kind_elem[ISA_NKINDS]; /* bytes of a list's element, 0 for the others */

typedef struct isa_step {
  int32_t step;
  uint32_t num;
} isa_step;

typedef struct isa_pair { /* of ranks */
  uint32_t from, to;
} isa_pair;

/* The operand struct of each form, struct isa_TENSOR_TENSOR and so on. */
#define FORM(id) struct isa_##id {
#define FIELD(form, name, kind, mode, arg) isa_t_##kind name;
#define END(id) \
  uint8_t end_; \
  }             \
  ;
#include "forms.def"

typedef struct isa_insn {
  uint16_t op; /* index into isa_ops, not the opcode's number */
  isa_wait wait;
  isa_update upd;
  union {
#define FORM(id) struct isa_##id id;
#include "forms.def"
  } u;
} isa_insn;

/* Access flags of an AP field; the low three bits are the most free dimensions. */
enum isa_access {
  AP_DIMS = 7,
  AP_R = 1 << 3,
  AP_W = 1 << 4,
  AP_S = 1 << 5,
  AP_M = 1 << 6,
  AP_H = 1 << 7,
  AP_COL = 1 << 8,
  AP_ELEM = 1 << 9,
  AP_IND = 1 << 10,
  AP_GATHER = 1 << 11,
  AP_PACK = 1 << 12,
  AP_64 = 1 << 13,
  AP_CHOSEN = 1 << 14, /* from here on: it is read or written in part, see forms.def */
  AP_KEEPS = 1 << 15,
  AP_SIXTEENTH = 1 << 16,
  AP_SNAKE = 1 << 17,
  AP_SCALES = 1 << 18,
  AP_FREED = 1 << 19,
  AP_HOST = 1 << 20,
  AP_ELSE = 1 << 21, /* of a NUM */
  AP_PEER = 1 << 22,
  AP_RANK = 1 << 23,
  AP_IN_PART = AP_CHOSEN | AP_KEEPS | AP_SIXTEENTH | AP_SNAKE | AP_SCALES | AP_FREED | AP_HOST
};
enum isa_mode { ISA_MODE_P, ISA_MODE_K, ISA_MODE_D };

typedef struct isa_field {
  const char *name;
  uint8_t kind, mode;
  uint8_t at;      /* byte offset in the record */
  uint16_t offset; /* of the member in isa_insn */
  uint32_t arg;
} isa_field;

typedef struct isa_form {
  const char *name;
  const isa_field *fields;
  uint8_t nfields;
  uint16_t memory, enums; /* bit i: field i may name memory; is an ENUM */
} isa_form;

enum isa_form_id {
#define FORM(id) ISA_FORM_##id,
#include "forms.def"
  ISA_NFORMS
};
extern const isa_form isa_forms[ISA_NFORMS];

/* Constraint classes (rules.def) and cost classes (times.def). */
enum isa_rule {
#define RULE(name, function, types, lines) ISA_RULE_##name,
#include "rules.def"
  ISA_NRULES
};
enum isa_cost {
#define TIME(name, function, modes, lines) ISA_COST_##name,
#include "times.def"
  ISA_NCOSTS
};
/* Where an instruction runs (opcodes.def): in the sequencer, alone (REG) or in simulated time, in
 * the rings of a queue, or in the engine's data path. */
enum isa_runs { ISA_RUNS_REG, ISA_RUNS_SEQ, ISA_RUNS_TRIG, ISA_RUNS_DMA, ISA_RUNS_PATH };
enum isa_built { ISA_DONE = 1, ISA_PLANNED };

enum isa_op {
#define INSN(name, number, eng, gen, form, rule, runs, cost, status, prof, text) ISA_OP_##name,
#include "opcodes.def"
  ISA_NOPS
};
typedef struct isa_op_row {
  const char *name, *profile_name, *meaning;
  uint16_t number;
  uint8_t engines, gen, form, rule, runs, cost, status;
} isa_op_row;
extern const isa_op_row isa_ops[ISA_NOPS];
extern const isa_state_use isa_state_uses[ISA_NOPS];
/* A mask of the engines that are not taken for an instruction of a generation when another can be
 * (choice.def). */
unsigned isa_op_avoids(unsigned op, int gen);
/* Another instruction that gives the same on an engine which has none like `in`; false: there is
 * none (choice.def). Its operands are those of in; whether it is legal is not known. */
bool isa_insn_instead(const isa_insn *in, int gen, isa_insn *out, unsigned *engine);
int isa_op_find(const char *name, size_t n);
/* The manual's prose (manual.def, rules.def, times.def), lines without a newline at the end;
 * static. What an instruction does, NULL if its meaning says all; what was decided about it because
 * sources differ, NULL if they do not; the rules of a constraint class in addition to those of
 * every instruction, which are those of class NONE; its operands' types, NULL if it has none; the
 * time of a cost class. */
const char *isa_op_pseudo(unsigned op);
const char *isa_op_decided(unsigned op);
/* What the public reference says about an operator that it does not support in that instruction
 * (ISA_NOPS: in any); NULL if it does. */
const char *isa_op_unsupported(unsigned op, unsigned alu);
const char *isa_rule_text(unsigned rule);
const char *isa_rule_types(unsigned rule);
const char *isa_cost_text(unsigned cost);
int isa_op_by_number(unsigned number); /* -1 when no opcode has it */
static inline const isa_form *isa_form_of(unsigned op) { return &isa_forms[isa_ops[op].form]; }
/* The member of in that a field describes. */
static inline void *isa_member(isa_insn *in, const isa_field *f) { return (char *)in + f->offset; }
static inline const void *isa_member_c(const isa_insn *in, const isa_field *f) {
  return (const char *)in + f->offset;
}
/* Whether a transfer may leave out rows of any of its operands: oob=skip. */
bool isa_skips_rows(const isa_insn *in);
/* True for the DMA instructions, whose update is a completion semaphore. */
static inline bool isa_op_is_dma(unsigned op) {
  return isa_ops[op].runs == ISA_RUNS_DMA || isa_ops[op].runs == ISA_RUNS_TRIG;
}
/* True for what CC sequencers do for an engine: it is started there, and complete when they are. */
static inline bool isa_op_is_collective(unsigned op) {
  return op < ISA_NOPS && isa_ops[op].form >= ISA_FORM_COLLECTIVE &&
         isa_ops[op].form <= ISA_FORM_RING_REDUCE;
}
/* True if execution never continues with the next instruction. */
static inline bool isa_op_ends(unsigned op) {
  return op == ISA_OP_halt || op == ISA_OP_jmp || op == ISA_OP_ret;
}
/* True when the instruction runs in the sequencer itself, without the data path or a DMA. */
static inline bool isa_op_is_control(unsigned op) { return isa_ops[op].runs <= ISA_RUNS_TRIG; }

/* Edit distance of two names, at most limit + 1. Shared by every did-you-mean. */
unsigned isa_edit_distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit);

/* ---- Access patterns ---------------------------------------------------------------------- */

enum { ISA_MAX_DIMS = 5, ISA_MAX_DYN = 2 };

typedef struct isa_dim {
  int64_t step; /* in elements, may be 0 or negative; int16 for SBUF and PSUM */
  uint32_t num; /* at least 1; uint16 for SBUF and PSUM */
} isa_dim;

/* A dynamic offset: the signed 32-bit value of a register or of a 1x1 SBUF element, times stride
 * elements. A pattern with one has it in dyn[0]. */
enum isa_dyn_kind { ISA_DYN_none, ISA_DYN_reg, ISA_DYN_elem };
typedef struct isa_dyn {
  uint8_t kind, reg;
  uint32_t ap; /* 1-based pattern of the element */
  int64_t stride;
} isa_dyn;

enum isa_index_kind { ISA_INDEX_none, ISA_INDEX_gather, ISA_INDEX_indirect };

typedef struct isa_ap {
  uint8_t dtype, space, ndim;    /* ndim free dimensions (HBM: all dimensions), outermost first */
  uint8_t index_kind, index_dim; /* gather: the dimension that the index vector replaces */
  uint8_t size_dim; /* 0 none; 1 partitions; 2 + d dimension d: its size is register size_reg */
  uint8_t size_reg; /* its num (or nparts) is then the static bound */
  uint8_t peer;     /* 1: of the other core's SBUF, of an operand of a transfer */
  uint16_t rank;    /* 1-based peer whose memory it is, of a CC sequencer's dst; 0: its own */
  uint16_t part, nparts; /* start partition and count; 0 in HBM */
  uint32_t base;         /* 1-based tile (SBUF, PSUM; 0: the whole memory) or tensor (HBM) */
  uint32_t index;        /* 1-based pattern of the index vector */
  int64_t offset;        /* bytes: within the partition, or within the tensor */
  isa_dim dim[ISA_MAX_DIMS];
  isa_dyn dyn[ISA_MAX_DYN];
} isa_ap;

/* Offset i of `.indirect` on that engine is element [i mod G, i / G] of the index: G.
 * (verify/rules_indirect.c) */
unsigned isa_index_group(unsigned engine);
/* Elements of one partition (of the whole pattern in HBM). Saturates at UINT64_MAX. */
uint64_t isa_ap_elems(const isa_ap *ap);
/* Lowest and one past the highest byte touched relative to ap->offset, dynamic offsets taken as
 * 0: lo <= 0 < hi. False when that overflows int64. */
bool isa_ap_extent(const isa_ap *ap, int64_t *lo, int64_t *hi);
/* Writes the same pattern with adjacent dimensions merged where that keeps the order, unit
 * dimensions dropped (at least one dimension is left). */
void isa_ap_merge(const isa_ap *ap, isa_ap *out);
/* Whether the bytes of two static patterns of one memory overlap: 0 no, 1 yes, 2 they are the same
 * bytes in the same order with the same element size ("exact in-place"). Different partitions do
 * not overlap. Patterns with dynamic parts give 1 if they may overlap. If one moves by an offset
 * that the other does not have, two different tiles count as disjoint, since a pattern stays in its
 * tile: for tiles that share bytes (overlay) the caller compares the whole tiles. Exact, except for
 * sets so complicated that 2^20 boxes do not decide: then 1. */
int isa_ap_overlap(const isa_ap *a, const isa_ap *b);

/* Bytes as a set: runs of `run` bytes at start + the sum of i[d] * step[d], 0 <= i[d] < num[d],
 * steps positive and falling. span[d] is the length of the box that holds dimensions d and on. */
typedef struct isa_byteset {
  int64_t start, run;
  unsigned n;
  int64_t step[ISA_MAX_DIMS], num[ISA_MAX_DIMS], span[ISA_MAX_DIMS + 1];
} isa_byteset;
/* The set of elements of `size` bytes at start and n <= ISA_MAX_DIMS dimensions of steps in bytes;
 * places must fit in 61 bits. */
void isa_byteset_make(int64_t start, int64_t size, const isa_dim *dims, unsigned n,
                      isa_byteset *out);
/* Whether two sets overlap. Exact within isa_ap_overlap's bound. */
bool isa_byteset_meet(const isa_byteset *a, const isa_byteset *b);
/* The same of a when it starts at pa and b when it starts at pb. */
bool isa_byteset_meet_at(const isa_byteset *a, int64_t pa, const isa_byteset *b, int64_t pb);
bool isa_ap_equal(const isa_ap *a, const isa_ap *b);
bool isa_ap_is_static(const isa_ap *ap);

#include "convert.h"

#endif
