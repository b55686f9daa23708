/* The verifier's inside: what check*.c and rules*.c share. A rule runs after the generic checks
 * of all fields, so every index in the instruction is valid and every pattern legal by itself.
 *
 * Decided here, because public sources leave it open:
 * - the operands of a bit-pattern instruction have integers of one width: nothing converts;
 * - axes of tensor_reduce counts the trailing dimensions that are reduced, 0 means all;
 * - a control instruction and a DMA reach a pattern at any partition;
 * - a stride of a dynamic offset is at most ISA_CK_STRIDE bytes, so that an address computed from
 *   two 32-bit values cannot overflow 64 bits;
 * - a pattern that repeats elements (step 0) has no more of them than the largest memory has bytes,
 *   so that no instruction runs without end. */
#ifndef ISA_RULES_H
#define ISA_RULES_H

#include "../program.h"

#define ISA_CK_STRIDE ((int64_t)1 << 30) /* bytes */
#define ISA_CK_OFFSET ((int64_t)1 << 48) /* bytes, of a pattern with dynamic parts */
#define ISA_CK_STEP ((int64_t)1 << 40)   /* elements, in HBM */
#define ISA_CK_ELEMS ((uint64_t)1 << 18) /* of a partition */
#define ISA_CK_HBM_ELEMS ((uint64_t)1 << 38)

typedef struct isa_ck {
  const isa_program *p;
  const isa_core *core;
  unsigned engine;
  uint32_t code_n; /* 0: branch targets are not checked */
  const isa_insn *in;
  const isa_op_row *row;
  const isa_form *form;
  isa_error *e;
} isa_ck;

/* Numbers of fields: F(MATMUL, dst) is that of the destination among the fields of its form. */
#define F(form, field) ISA_F_##form##_##field
#define FORM(id) enum {
#define FIELD(form, name, kind, mode, arg) ISA_F_##form##_##name,
#define END(id)     \
  ISA_F_##id##_end_ \
  }                 \
  ;
#include "../forms.def"

typedef bool (*isa_rule_fn)(const isa_ck *c);

/* Pattern of a valid 1-based index. */
static inline const isa_ap *isa_ck_ap(const isa_ck *c, uint32_t index) {
  return &c->core->aps[index - 1];
}
static inline bool isa_ck_packed(unsigned dtype) { return isa_dtypes[dtype].cls == ISA_PACK; }
/* What a field of this instruction holds: its pattern, or the one of a number given as a [P, 1]
 * vector, which must be there; its number; the value of a field of one byte. */
static inline isa_num isa_ck_num(const isa_ck *c, int f) {
  return *(const isa_num *)isa_member_c(c->in, &c->form->fields[f]);
}
static inline const isa_ap *isa_ck_at(const isa_ck *c, int f) {
  const isa_field *fd = &c->form->fields[f];
  if (fd->kind == ISA_K_NUM) return isa_ck_ap(c, isa_ck_num(c, f).v);
  return isa_ck_ap(c, *(const isa_t_AP *)isa_member_c(c->in, fd));
}
static inline unsigned isa_ck_byte(const isa_ck *c, int f) {
  return *(const uint8_t *)isa_member_c(c->in, &c->form->fields[f]);
}
/* Partitions of an SBUF or PSUM pattern, 1 in HBM. */
static inline uint32_t isa_ck_parts(const isa_ap *ap) {
  return ap->space == ISA_HBM ? 1 : ap->nparts;
}

/* ---- check.c ---- */

/* The names of the engines in mask, with commas between them. */
void isa_ck_engines(unsigned mask, char *out, size_t n);

/* ---- check_ap.c ---- */

/* Field f takes the pattern of that 1-based index: engine, memory, dimensions, start partition,
 * type, and for a destination distinct elements. */
bool isa_ck_operand(const isa_ck *c, int f, uint32_t index, uint32_t flags);

/* ---- rules_indirect.c ---- */

/* The rules for `.indirect` operands of all instructions: the index, start partitions, engines. */
bool isa_ck_indirect(const isa_ck *c);

/* ---- rules_block.c ---- */

/* The section of a CC sequencer is a list of blocks, whatever their instructions are. */
bool isa_ck_blocks(const isa_program *p, uint32_t core, unsigned engine, isa_place *at,
                   isa_error *e);

/* ---- rules.c ---- */

/* The patterns of fields f and g have the same partitions, also where a register gives their
 * number. */
bool isa_ck_agree_parts(const isa_ck *c, int f, int g);
/* And the same elements in each. */
bool isa_ck_agree(const isa_ck *c, int f, int g);
/* The engine of this instruction has the operator that field f names. */
bool isa_ck_has_op(const isa_ck *c, int f);
/* A [P, 1] vector of field f has that type; other kinds of number pass. */
bool isa_ck_vector_type(const isa_ck *c, int f, unsigned dtype);

/* ---- rules_shape.c: helpers for operands that differ in shape ---- */

/* A set of data types, one bit each. */
#define ISA_CK_TYPE(dtype) (UINT32_C(1) << (dtype))
/* The pattern of field f has one of the types; and the same type as that of field g. */
bool isa_ck_types(const isa_ck *c, int f, uint32_t types);
bool isa_ck_same_type(const isa_ck *c, int f, int g);
/* None of its sizes is a register. */
bool isa_ck_fixed(const isa_ck *c, int f);
/* It shares no byte with that of field g; in place is not allowed either. */
bool isa_ck_apart(const isa_ck *c, int f, int g);
/* It has that many elements in a partition; its partitions are a multiple of `of`. */
bool isa_ck_count(const isa_ck *c, int f, uint64_t want);
bool isa_ck_parts_multiple(const isa_ck *c, int f, unsigned of);

/* ---- rules_dma.c ---- */

/* The class of service that field f names needs gen4. */
bool isa_ck_prio(const isa_ck *c, int f);
/* Queue of a DMA instruction that makes a transfer, -1 for other instructions. */
int isa_ck_dma_queue(const isa_insn *in);

/* The function of each constraint class; isa_rule_fields is that of the classes for which the
 * fields' own checks are all there is. */
#define RULE(id, function, types, lines) bool isa_rule_##function(const isa_ck *c);
#include "../rules.def"

#endif
