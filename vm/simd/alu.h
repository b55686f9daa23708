/* One element of each operator that vectorises: the text that vm_alu_f32 and the loops of
 * level/alu.c share. There are no branches, and every NaN result is canonical. pow and mod are in
 * pow.c. */
#ifndef VM_ALU_INL_H
#define VM_ALU_INL_H

#include "level.h"

/* max and min skip a NaN and order -0 below +0, so that they are associative. */
KERN_INLINE float alu_max(float a, float b) {
  uint32_t ua = isa_f32_bits(a), ub = isa_f32_bits(b);
  uint32_t rest = kern_pick(a == b, ua & ub, ub);
  return kern_canon(isa_bits_f32(kern_pick((a > b) | (b != b), ua, rest)));
}
KERN_INLINE float alu_min(float a, float b) {
  uint32_t ua = isa_f32_bits(a), ub = isa_f32_bits(b);
  uint32_t rest = kern_pick(a == b, ua | ub, ub);
  return kern_canon(isa_bits_f32(kern_pick((a < b) | (b != b), ua, rest)));
}

/* The operand of larger (smaller) magnitude with its sign, the second if equal; NaN skipped. */
KERN_INLINE float alu_abs_max(float a, float b) {
  uint32_t ua = isa_f32_bits(a), ub = isa_f32_bits(b);
  int32_t ma = a == a ? (int32_t)(ua & 0x7fffffff) : -1;
  int32_t mb = b == b ? (int32_t)(ub & 0x7fffffff) : -1;
  return kern_canon(isa_bits_f32(kern_pick(ma > mb, ua, ub)));
}
KERN_INLINE float alu_abs_min(float a, float b) {
  uint32_t ua = isa_f32_bits(a), ub = isa_f32_bits(b);
  int32_t ma = (int32_t)(ua & 0x7fffffff), mb = (int32_t)(ub & 0x7fffffff);
  return kern_canon(isa_bits_f32(kern_pick(ma < mb, ua, ub))); /* a NaN is above infinity */
}

KERN_INLINE float alu_abs(float a) {
  return kern_canon(isa_bits_f32(isa_f32_bits(a) & 0x7fffffff));
}
/* NaN stays NaN, -0 becomes +0. */
KERN_INLINE float alu_relu(float a) {
  uint32_t u = isa_f32_bits(a);
  return isa_bits_f32(kern_pick(a != a, KERN_NAN, kern_pick(a > 0, u, 0)));
}
/* Two roundings in double equal one in float here: no float is near enough to a tie. */
KERN_INLINE float alu_rsqrt(float a) { return kern_canon((float)(1.0 / kern_sqrt((double)a))); }

KERN_INLINE float alu_truth(bool b) { return isa_bits_f32(kern_pick(b, 0x3f800000, 0)); }

/* X(operator, value of a op b). The sum in average rounds (and may overflow); halving is then
 * exact, because a sum small enough for a subnormal half is exact. */
#define ALU_UNARY(X)                  \
  X(bypass, kern_canon(a))            \
  X(abs, alu_abs(a))                  \
  X(rsqrt, alu_rsqrt(a))              \
  X(reciprocal, kern_canon(1.0f / a)) \
  X(square, kern_canon(a *a))         \
  X(relu, alu_relu(a))
#define ALU_BINARY(X)                            \
  X(add, kern_canon(a + b))                      \
  X(subtract, kern_canon(a - b))                 \
  X(mult, kern_canon(a *b))                      \
  X(divide, kern_canon(a / b))                   \
  X(max, alu_max(a, b))                          \
  X(min, alu_min(a, b))                          \
  X(average, kern_canon((a + b) * 0.5f))         \
  X(is_equal, alu_truth(a == b))                 \
  X(not_equal, alu_truth(a != b))                \
  X(is_ge, alu_truth(a >= b))                    \
  X(is_gt, alu_truth(a > b))                     \
  X(is_le, alu_truth(a <= b))                    \
  X(is_lt, alu_truth(a < b))                     \
  X(logical_and, alu_truth((a != 0) & (b != 0))) \
  X(logical_or, alu_truth((a != 0) | (b != 0)))  \
  X(logical_xor, alu_truth((a != 0) ^ (b != 0))) \
  X(abs_max, alu_abs_max(a, b))                  \
  X(abs_min, alu_abs_min(a, b))
/* Rare operators, by a call per element. */
#define ALU_CALLED(X)      \
  X(pow, vm_pow_f32(a, b)) \
  X(mod, vm_mod_f32(a, b))

#endif
