/* What a data-path handler sees: operands resolved to host memory, and its engine's state.
 *
 * A handler is a pure function of its operands and of the data-path state of its own engine, so
 * the scheduler may run it at any moment between its simulated start and end. There is one handler
 * per instruction: vm_verdict vm_op_NAME(vm_dp *, const struct vm_FORM *). */
#ifndef VM_OP_H
#define VM_OP_H

#include "../simd/loops.h"

enum { VM_DIMS = 6 };

/* An operand in memory. Dimension 0 is the partitions (num[0] of them, step[0] host bytes apart;
 * 1 and 0 in HBM), 1 .. ndim-1 the free dimensions as the program gave them, outermost first. */
typedef struct vm_view {
  uint8_t *at; /* the first element; NULL: the operand is absent */
  uint8_t dtype, space, ndim, esize;
  uint16_t part; /* start partition, 0 in HBM */
  uint16_t tile; /* for the checks: the tile that it names, 1-based; 0: none, or beyond 65535 */
  uint8_t core;  /* the core of the memory, 0 in HBM */
  uint32_t num[VM_DIMS];
  int64_t step[VM_DIMS]; /* bytes */
  uint64_t elems;        /* of one partition */
  /* The longest trailing part of the free dimensions that is one strided run: `run` elements,
   * run_step bytes apart. elems == run for most operands. */
  uint64_t run;
  int64_t run_step;
  /* Gen4's `.indirect`: element i of a partition is place[i] bytes from its first, whatever the
   * steps are, and run is 1; lo and hi are the least and the largest place. NULL: the steps
   * apply. */
  const int64_t *place;
  int32_t lo, hi;
} vm_view;

typedef struct vm_num { /* float immediate (also a register's bits) or a [P, 1] view */
  bool given;
  float imm;
  vm_view v; /* v.at != NULL: a vector, one element per partition */
} vm_num;
enum { VM_LIST = 16 }; /* most patterns of a list; the verifier refuses more */
typedef struct vm_views {
  uint32_t n;
  vm_view v[VM_LIST];
} vm_views;
typedef struct vm_steps {
  uint32_t n;
  isa_step s[4]; /* outermost first */
} vm_steps;
typedef struct vm_bytes {
  uint32_t n;
  const uint8_t *p;
} vm_bytes;
typedef struct vm_f32s {
  uint32_t n;
  const float *p;
} vm_f32s;

typedef uint8_t vm_t_REG;
typedef int32_t vm_t_INT;
typedef vm_num vm_t_NUM;
typedef vm_view vm_t_AP;
typedef uint8_t vm_t_U8;
typedef uint16_t vm_t_U16;
typedef uint32_t vm_t_U32;
typedef int32_t vm_t_I32;
typedef uint8_t vm_t_ENUM;
typedef uint8_t vm_t_ALU;
typedef uint8_t vm_t_ACTF;
typedef uint32_t vm_t_LABEL;
typedef uint8_t vm_t_QUEUE;
typedef uint8_t vm_t_SEM;
typedef uint8_t vm_t_GROUP;
typedef vm_bytes vm_t_STR;
typedef vm_bytes vm_t_BYTES;
typedef vm_steps vm_t_STEPS;
typedef vm_views vm_t_APS;
typedef vm_f32s vm_t_F32S;
typedef vm_bytes vm_t_I32S;
typedef vm_bytes vm_t_PAIRS;
typedef isa_point vm_t_PLACE;

/* The resolved operands of each form: struct vm_TENSOR_TENSOR and so on. */
#define FORM(id) struct vm_##id {
#define FIELD(form, name, kind, mode, arg) vm_t_##kind name;
#define END(id) \
  uint8_t end_; \
  }             \
  ;
#include "../../isa/forms.def"

typedef enum vm_verdict { VM_RETIRE, VM_STALL, VM_FAULT } vm_verdict;

/* Row buffers of a handler, and floats in one: long rows are processed in pieces. */
enum { VM_ROWS = 4, VM_ROW = 2048 };
/* Elements of a partition of a narrow tile: all elements of the tile fit into a row buffer. */
enum { VM_FEW = VM_ROW / ISA_PMAX };

/* PSUM in slots of an fp32 element, and the marks of the two halves of one. */
enum { VM_PSUM_SLOTS = ISA_PMAX * ISA_PSUM_BYTES / 4, VM_BOTH_HALVES = 3 };
enum { VM_BANK_SLOTS = ISA_PSUM_BANK / 4 };
/* The number of the slot that holds a byte of a partition: [bank][partition][VM_BANK_SLOTS], so
 * that what belongs to a bank is stored together. */
static inline size_t vm_psum_slot(size_t part, size_t byte) {
  return (byte / ISA_PSUM_BANK * ISA_PMAX + part) * VM_BANK_SLOTS + byte % ISA_PSUM_BANK / 4;
}
/* A matmul processes its columns in blocks of VM_COLUMNS. */
enum { VM_COLUMNS = 512, VM_SCRATCH = 2 * ISA_PMAX * VM_COLUMNS };

/* What ldweights left in a tile of the array; k = 0: nothing. */
typedef struct vm_stationary {
  uint16_t k, m;      /* rows of the contraction (for each partition two for double_row, four for
                         MX); columns */
  uint8_t rows, cols; /* size of the tile; 128 if the array is not tiled */
  uint8_t dtype;
  bool pairs; /* double_row */
  bool mx;    /* loaded by ldweights_mx */
  bool raw;   /* its elements are not converted to fp32 yet: no product has needed them */
} vm_stationary;

/* Rows of the contraction that one partition may hold: an MX element has four. */
enum { VM_LANES = 4 };

/* Floats from row to row of the weights: 576 bytes, since with 512 bytes the rows that a tile of a
 * product reads would share an eighth of the cache's sets. */
enum { VM_WEIGHTS = ISA_PMAX + 16 };
/* Bytes from row to row of the elements before conversion. */
enum { VM_RAW_ROW = 4 * ISA_PMAX };

/* An operand in SBUF that has not been written since it was read: rows that are dense, `step` bytes
 * apart. */
typedef struct vm_unchanged {
  const uint8_t *at; /* NULL: none, or it has been written */
  int64_t step;
  size_t bytes; /* of a row */
  uint16_t part, rows;
  uint8_t dtype;
} vm_unchanged;

/* The stationary operands of the tensor engine. A tile at (row, column) of the array, which are
 * multiples of 32, is described by tile[row / 32][column / 32]. Its values as fp32 begin at
 * w[VM_LANES * row][column], and its elements before conversion, dense in each partition, at
 * raw[row][4 * column] (not kept for pairs and mx). Those of the last tile may still be only where
 * they were loaded from. */
typedef struct vm_weights {
  vm_unchanged source; /* of the tile at (source_row, source_col); NULL: all are in raw */
  uint8_t source_row, source_col;
  vm_unchanged identity;                    /* a moving operand that turned out to be one */
  float w[VM_LANES * ISA_PMAX][VM_WEIGHTS]; /* [k][m] */
  uint8_t raw[ISA_PMAX][VM_RAW_ROW];
  vm_stationary tile[ISA_PMAX / 32][ISA_PMAX / 32];
} vm_weights;

/* Bytes of a shuffle's mask, and the byte for a partition that stays as it is. */
enum { VM_MASK = 32, VM_KEEP = 255 };
/* Match values of a partition. */
enum { VM_MATCH = 8 };
/* Words of a XORWOW state, of which a vector lane has four, and words of a lane in all. */
enum { VM_XORWOW = 6, VM_RNG = 4 * VM_XORWOW };

/* Data-path state of one engine. Each engine has its own; fields that an engine does not use
 * stay zero. */
typedef struct vm_dp {
  const vm_kern *k;
  /* Lane p of an engine works on partition p of an operand, counted from the operand's first. */
  const isa_target *target;
  uint8_t engine;
  unsigned cvt;        /* isa_cvt flags of the run */
  float acc[ISA_PMAX]; /* accumulator registers (scalar, vector) */
  vm_weights *weights; /* tensor engine; zeroed at load */
  /* tensor: one byte per slot, at vm_psum_slot. Bit 0: a matmul has written the slot's low 16 bits,
   * bit 1: its high ones (a bf16 element is half a slot). What is not written is fresh, as
   * everything is at load. */
  uint8_t *psum_written;
  uint8_t *psum; /* host address of PSUM, and bytes between partitions there */
  size_t psum_pitch;
  float (*row)[VM_ROW]; /* VM_ROWS rows for any handler */
  float *scratch;       /* VM_SCRATCH floats: blocks of operands and of sums, or what topk sorts */
  /* vector: in a shuffle, where each partition of a quadrant comes from; once a mask is loaded. */
  uint8_t mask[VM_MASK];
  bool has_mask;
  /* vector: the values that find_index8 and match_replace8 look for, in the lanes into which they
   * were loaded. */
  float match[ISA_PMAX][VM_MATCH];
  bool has_match[ISA_PMAX];
  /* Stochastic rounding: the run's seed, how many instructions of this engine have used it, and for
   * the current instruction its key and whether it uses it (vm_round_begin). */
  uint64_t rounding_seed, rounding_count, rounding_key;
  bool stochastic;
  /* The partition of the whole instruction at which the operands of this handler begin: not 0 if
   * the handler does only a part (lanes.def). */
  uint32_t lane;
  struct vm_work *threads; /* for work that a handler splits itself; NULL: it does not */
  struct vm_pe_job *job;   /* tensor: a product may be left open there; NULL: it may not (pe.h) */
  /* vector, gpsimd: state of the random generator, valid once seeded (rand.c). */
  bool seeded;
  uint32_t rng[ISA_PMAX][VM_RNG];
  /* gpsimd: runs a custom_op; NULL: none exists. */
  vm_verdict (*custom)(void *ud, struct vm_dp *d, const struct vm_CUSTOM *a);
  void *custom_ud;
  char fault[240]; /* text of the last VM_FAULT */
  bool no_memory;  /* the fault means that the host is out of memory */
} vm_dp;

/* Takes the row buffers and the scratch from VM_FLOATS floats. They begin where a cache line does:
 * vectors across two lines take twice as long, and no allocator promises more than 16 bytes. */
enum { VM_FLOATS = VM_ROWS * VM_ROW + VM_SCRATCH + 16 };
static inline void vm_dp_lend(vm_dp *d, float *floats) {
  float *at = floats + (64 - (uintptr_t)floats % 64) % 64 / sizeof *floats;
  d->row = (float(*)[VM_ROW])(void *)at;
  d->scratch = at + VM_ROWS * VM_ROW;
}

/* Records a fault's text and gives VM_FAULT. */
vm_verdict vm_dp_fault(vm_dp *d, const char *fmt, ...) ISA_PRINTF(2, 3);

/* out is like v with its elements in order at `at`, partition after partition. */
void vm_view_dense(vm_view *out, const vm_view *v, uint8_t *at);

/* Fills run and run_step of a view from its num and step: the longest trailing part of the free
 * dimensions that is one strided run, dimensions of one element left out. */
void vm_view_runs(vm_view *v);

/* Elements first .. first + n - 1 of partition p as they are, esize bytes each, to a dense row and
 * back. Any type, and any n of at least 1. The dense row may be the elements' own memory. */
void vm_load_raw(void *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n);
void vm_store_raw(const vm_view *v, uint32_t p, uint64_t first, const void *src, size_t n);
/* The rows of a view if they are contiguous fp32, `step` floats apart, as kernels take them; false
 * if they are not. */
typedef struct vm_rows {
  float *at;
  ptrdiff_t step;
} vm_rows;
bool vm_rows_at(const vm_view *v, vm_rows *r);
/* The same of any type, `step` bytes apart. A kernel reads fp32 where it is and writes it there
 * (`direct`); the others go through a buffer. */
typedef struct vm_dense {
  uint8_t *at;
  ptrdiff_t step;
  bool direct;
} vm_dense;
bool vm_dense_at(const vm_view *v, vm_dense *r);
/* Address of element first of partition p if the partition's elements are dense and in order, else
 * NULL. */
uint8_t *vm_row_at(const vm_view *v, uint32_t p, uint64_t first);

/* Elements first .. first + n - 1 of partition p as fp32, and back with one conversion. n at most
 * VM_ROW for any view; not for packed types. */
void vm_load(const vm_dp *d, float *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n);
void vm_store(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first, const float *src,
              size_t n);
/* The same for a kernel that can work in place: a dense float32 row is used where it is (bits
 * unchanged), anything else is copied through buf. vm_out gives where the kernel must write,
 * vm_out_done then stores what is not yet in memory. */
const float *vm_in(const vm_dp *d, float *buf, const vm_view *v, uint32_t p, uint64_t first,
                   size_t n);
float *vm_out(float *buf, const vm_view *v, uint32_t p, uint64_t first);
void vm_out_done(const vm_dp *d, const vm_view *v, uint32_t p, uint64_t first, const float *out,
                 size_t n);
/* The same elements as raw bits, zero-extended to 32 (types of up to 4 bytes). n at most
 * VM_ROW. */
void vm_load_bits(uint32_t *dst, const vm_view *v, uint32_t p, uint64_t first, size_t n);
void vm_store_bits(const vm_view *v, uint32_t p, uint64_t first, const uint32_t *src, size_t n);
/* Host address of element i of partition p. */
uint8_t *vm_at(const vm_view *v, uint32_t p, uint64_t i);
/* The value of a scalar operand for partition p; `absent` if it is not given. */
float vm_num_at(const vm_dp *d, const vm_num *n, uint32_t p, float absent);
/* The values for partitions 0 .. lanes - 1. */
void vm_nums(const vm_dp *d, float *out, const vm_num *n, uint32_t lanes, float absent);
/* Copies all elements of src to dst bit by bit (equal sizes of element, equal counts). In-place
 * overlap must be exact. k: the host's kernels. */
void vm_copy_bits(const vm_kern *k, const vm_view *dst, const vm_view *src);
/* o = x op s, with reverse s op x. o may be x. Unary operators ignore s. */
void vm_alu_scalar(const vm_dp *d, unsigned op, float *o, const float *x, float s, bool reverse,
                   size_t n);
/* A reduction along the row (see Numbers in isa/README.md) into a partition's register: reset and
 * reset_reduce set *acc to the operator's identity, load_reduce to init; those with "reduce" then
 * apply op to *acc and row. op is add, mult, max, min, abs_max or abs_min. */
void vm_accumulate(float *acc, unsigned cmd, unsigned op, float init, float row);
static inline bool vm_cmd_reduces(unsigned cmd) {
  return cmd == ISA_CMD_reduce || cmd == ISA_CMD_reset_reduce || cmd == ISA_CMD_load_reduce;
}
/* The inputs of the function of an activate in partition p: x * scale + bias; for an activate2: (x
 * op0 imm0) op1 imm1. Returns where they are: in o, or in x if there is nothing to do. */
const float *vm_act_inputs(const vm_dp *d, const struct vm_ACTIVATE *a, uint32_t p, float *o,
                           const float *x, size_t n);
const float *vm_act2_inputs(const vm_dp *d, const struct vm_ACTIVATE2 *a, uint32_t p, float *o,
                            const float *x, size_t n);
/* Starting values of the sixteen partials of simd/loops.h. */
void vm_partials_start(unsigned op, float part[16]);
/* Between these two, vm_store and vm_out_done round as `round` (ISA_ROUND_...) says. Stochastic
 * rounding is a function of the run's seed, the engine, how many of its instructions have used it
 * before, the partition and the element's number in it, so it does not depend on the order of
 * execution: element i of partition p takes vm_kern's random of from + i * 0x9e3779b9, from the
 * upper half of mix(key + p), key = mix(mix(seed + engine) + count), count = 1, 2, ..., where
 * mix is SplitMix64's finaliser of its argument times 0x9e3779b97f4a7c15. */
void vm_round_begin(vm_dp *d, unsigned round);
void vm_round_end(vm_dp *d);
/* Elements of the piece that starts at i: handlers process a row in pieces of VM_ROW. */
static inline size_t vm_piece(uint64_t elems, uint64_t i) {
  return elems - i < VM_ROW ? (size_t)(elems - i) : VM_ROW;
}
/* Elements i .. i + n - 1 of all partitions with the partitions as lanes: those of element i + j
 * begin at block[j * partitions]. n is at most VM_BLOCK, so that a block is a row buffer; the
 * scratch is used. */
enum { VM_BLOCK = VM_ROW / ISA_PMAX };
static inline size_t vm_columns(uint64_t elems, uint64_t i) {
  return elems - i < VM_BLOCK ? (size_t)(elems - i) : VM_BLOCK;
}
void vm_load_block(const vm_dp *d, float *block, const vm_view *v, uint64_t i, size_t n);
void vm_store_block(const vm_dp *d, const vm_view *v, uint64_t i, const float *block, size_t n);
/* A view of at most VM_FEW elements per partition as one partition with all of them, so that a
 * narrow tile costs only the work of one row. False, with *out unchanged, if v is not such a tile.
 * Not for results with stochastic rounding, which depends on the partition. */
bool vm_tile_as_row(vm_view *out, const vm_view *v);
/* The scalars of all partitions, each `elems` times, for use with such a row. */
void vm_nums_spread(const vm_dp *d, float *out, const vm_num *n, uint32_t lanes, size_t elems);

#define DECLARE_DONE(name, form) vm_verdict vm_op_##name(vm_dp *d, const struct vm_##form *a);
#define DECLARE_PLANNED DECLARE_DONE /* may not exist yet: nothing calls it */
#define INSN(name, number, eng, gen, form, rule, runs, cost, status, prof, text) \
  HANDLED_##runs(DECLARE_##status, name, form)
/* Handlers belong to the instructions of data paths. */
#define HANDLED_REG(what, name, form)
#define HANDLED_SEQ(what, name, form)
#define HANDLED_TRIG(what, name, form)
#define HANDLED_DMA(what, name, form)
#define HANDLED_PATH(what, name, form) what(name, form)
#include "../../isa/opcodes.def"

#endif
