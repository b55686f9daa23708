/* The memory that an instruction names: one walk for all callers that ask what it reads and writes.
 *
 *   tensor_scalar t, a[r1 * 4:8], op0=add, imm0=b
 *
 * has the operands t (written), a and b (read), and the patterns of these and of each element or
 * index vector that one of them uses. */
#ifndef ISA_OPERAND_H
#define ISA_OPERAND_H

#include "program.h"

/* How an instruction names a pattern. The first three are operands of its form. */
enum isa_via {
  ISA_VIA_AP,    /* the field is a pattern */
  ISA_VIA_NUM,   /* a number that is given as a [P, 1] column */
  ISA_VIA_APS,   /* element `nth` of the field's list */
  ISA_VIA_INDEX, /* the index vector of the field's pattern */
  ISA_VIA_OFFSET /* the element that gives a dynamic offset of the field's pattern */
};

typedef struct isa_operand {
  const isa_ap *ap;
  uint32_t index; /* of ap in the core's patterns, 1-based */
  uint32_t flags; /* enum isa_access: the field's; AP_R and AP_COL of a column, AP_R of an index
                   * vector, AP_R and AP_ELEM of an offset's element */
  uint32_t nth;   /* place in the field's list, else 0 */
  uint8_t field, via;
} isa_operand;

typedef void isa_operand_fn(void *ud, const isa_operand *o);

/* Calls fn for each operand of an instruction of a core of p that lies in memory, in the order of
 * its form. Operands that are left out are not visited, nor are numbers of patterns that the core
 * does not have: p need not have passed the verifier. The operand is fn's only until it returns. */
void isa_each_operand(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud);
/* The same with what each operand depends on, before it: elements of offsets, then the index
 * vector. Their `field` is the operand's. */
void isa_each_pattern(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud);

/* Copies an instruction of the program `from` into `to`: each pattern that it names, by a field
 * or a list, becomes the one that fn gives for its number, and its lists go to the pool of `to`.
 * `from` needs only a pool. False when fn gives 0 or memory is out. */
typedef uint32_t isa_renumber_fn(void *ud, uint32_t ap);
bool isa_insn_take(isa_program *to, const isa_program *from, isa_insn *in, isa_renumber_fn *fn,
                   void *ud);

/* Whether an instruction that writes its destination reads it too: a dma_copy with an operator. */
bool isa_reads_destination(const isa_insn *in);
/* The register that a field names, or that an operand gives instead of a number; -1: none. */
int isa_field_register(const isa_insn *in, const isa_field *f);
/* The number of a field in the form of an opcode: the first of that kind, of ENUM the first of the
 * set `arg`, of AP the first with one of the flags `arg`; -1: its form has none. */
int isa_field_of(unsigned op, unsigned kind, uint32_t arg);
/* The field of that name; NULL: its form has none. */
const isa_field *isa_field_named(unsigned op, const char *name);
/* What a matmul does with the sums of its destination, of the set ACC; -1: it is not a matmul. */
int isa_insn_acc(const isa_insn *in);
/* What an instruction uses beside memory, ISA_STATE_none or another state, and how: ISA_STATE_R,
 * W or RW. */
unsigned isa_insn_state(const isa_insn *in, unsigned *access);
/* The function whose table scalar loads before an instruction, where another one's is loaded; -1:
 * none. */
int isa_insn_table(const isa_insn *in);
/* Whether a matmul moves its operand unchanged to its destination: transpose=true. */
static inline bool isa_insn_turns(const isa_insn *in) {
  return in->op == ISA_OP_matmul && in->u.MATMUL.transpose;
}
/* Whether a matmul starts new sums: it names psum_zero. */
bool isa_insn_zeroes(const isa_insn *in);
/* What a core_barrier of a core does with the semaphores of its number, in this order: it adds 1 on
 * the other core, waits for its own, and subtracts that when the wait ends. False: `in` is another
 * instruction. */
typedef struct isa_barrier {
  isa_update give;
  isa_wait wait;
  isa_update take;
} isa_barrier;
void isa_barrier_of(const isa_insn *in, unsigned core, isa_barrier *out);
static inline bool isa_insn_barrier(const isa_insn *in, unsigned core, isa_barrier *out) {
  if (in->op != ISA_OP_core_barrier) return false;
  isa_barrier_of(in, core, out);
  return true;
}
/* The pipe of a sendrecv or sendrecv_gpsimd, -1 of other instructions. */
int isa_insn_pipe(const isa_insn *in);
/* What a collective says, in whichever form. */
typedef struct isa_collective {
  int group;                        /* -1: it has pairs */
  isa_ref dsts, srcs, srcs1, pairs; /* srcs1: what a ring that reduces adds to srcs */
  uint32_t metadata;                /* pattern, 0: none */
  uint8_t op, dim, stream, prio;
  bool both, counts_known, has_rdispls;
} isa_collective;
isa_collective isa_collective_of(const isa_insn *in);
/* The peer (1-based, 0: none) whose memory a static transfer writes; of a dma_copy_lists that of
 * its last operand, with which it ends. */
uint32_t isa_static_peer(const isa_program *p, const isa_core *c, const isa_insn *in);
/* The transfers that a dma_trigger may start, of n in its queue: from *first on; returns the end.
 */
static inline uint32_t isa_trigger_range(const isa_insn *in, uint32_t n, uint32_t *first) {
  const struct isa_TRIGGER *t = &in->u.TRIGGER;
  bool all = !t->first || t->count.is_reg;
  *first = t->first ? t->first - 1 : 0;
  return all || *first > n || (uint32_t)t->count.v > n - *first ? n : *first + (uint32_t)t->count.v;
}
/* The number of the queue that an instruction names, -1 if it names none; likewise the pc that
 * its label is. */
int isa_insn_queue(const isa_insn *in);
int64_t isa_insn_target(const isa_insn *in);
/* The member of an instruction's first field of that kind, NULL when its form has none. */
static inline void *isa_member_of(isa_insn *in, unsigned kind) {
  int i = isa_field_of(in->op, kind, 0);
  return i < 0 ? NULL : isa_member(in, &isa_form_of(in->op)->fields[i]);
}

/* Calls fn for each instruction of a core: the code of its engines, then the static transfers of
 * its queues, for which engine is ISA_NSEQS and pc the transfer's number in its queue. */
typedef void isa_insn_fn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc);
void isa_each_insn(const isa_core *core, isa_insn_fn *fn, void *ud);

#endif
