/* Control flow of one engine's code. */
#ifndef ISA_FLOW_H
#define ISA_FLOW_H

#include "program.h"

/* a shifted right by b, the sign moving in. */
static inline uint32_t isa_shift_signed(uint32_t a, uint32_t b) {
  uint32_t n = b >= 32 ? 31 : b, sign = a >> 31 ? UINT32_MAX : 0;
  return n == 0 ? a : a >> n | sign << (32 - n);
}
/* The result of a register instruction of a and b (registers.def). False when it is not one that
 * computes, or divides by zero: *r is 0. */
bool isa_reg_alu(unsigned op, uint32_t a, uint32_t b, uint32_t *r);
/* Whether a conditional branch of a and b is taken. */
bool isa_branch_taken(unsigned op, uint32_t a, uint32_t b);
/* Whether a comparison of the set COMPARE holds. */
bool isa_compare_holds(unsigned compare, uint32_t a, uint32_t b);
/* The branch that is taken when a comparison does not hold: bge for lt. */
unsigned isa_branch_around(unsigned compare);

/* Marks in seen[code->n] what may run once the engine is at pc `from`; what is already marked is
 * not followed again. A `ret` leads after every call, or anywhere when a register that some ret
 * reads is written by more than calls. False if out of memory. */
bool isa_flow_reach(const isa_alloc *al, const isa_code *code, uint32_t from, uint8_t *seen);

/* The innermost loop around pc: the code between a branch back, at `end`, and where it goes. */
typedef struct isa_loop {
  uint32_t top, end;
  uint32_t head; /* the instruction with its line: top, or the `mov` of a `loop` line before it */
  bool nested;   /* in another */
} isa_loop;
bool isa_loop_around(const isa_code *code, uint32_t pc, isa_loop *out);

#endif
