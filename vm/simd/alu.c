/* Scalar meaning of the ALU operators, and how partial sums are combined. */
#include "alu.h"

#include <string.h>

float vm_fma(float a, float b, float c) { return kern_canon(kern_fma(a, b, c)); }

float vm_alu_f32(unsigned op, float a, float b) {
  switch (op) {
#define X(name, value) \
  case ISA_ALU_##name: return value;
    ALU_UNARY(X)
    ALU_BINARY(X)
    ALU_CALLED(X)
#undef X
  default: return isa_bits_f32(KERN_NAN);
  }
}

uint32_t vm_alu_bits(unsigned op, uint32_t a, uint32_t b, unsigned bits, bool is_signed) {
  /* 64 bits: bits may be 32. */
  uint32_t mask = (uint32_t)(((uint64_t)1 << bits) - 1);
  a &= mask;
  b &= mask;
  bool negative = is_signed && a >> (bits - 1);
  switch (op) {
  case ISA_ALU_bypass: return a;
  case ISA_ALU_bitwise_and: return a & b;
  case ISA_ALU_bitwise_or: return a | b;
  case ISA_ALU_bitwise_xor: return a ^ b;
  case ISA_ALU_bitwise_not: return ~a & mask;
  case ISA_ALU_logical_shift_left:
  case ISA_ALU_arith_shift_left: return b < bits ? a << b & mask : 0;
  case ISA_ALU_logical_shift_right: return b < bits ? a >> b : 0;
  case ISA_ALU_arith_shift_right:
    /* An arithmetic shift by the width or more is all signs. */
    if (b >= bits) return negative ? mask : 0;
    return negative ? (a >> b | ~(mask >> b)) & mask : a >> b;
  default: return 0;
  }
}

/* The sign and magnitude of 32 bits, so that no signed arithmetic can overflow. */
typedef struct magnitude {
  bool negative;
  uint32_t v;
} magnitude;
static magnitude magnitude_of(uint32_t u, bool is_signed) {
  bool negative = is_signed && u >> 31;
  return (magnitude){negative, negative ? 0 - u : u};
}

/* Truncated quotient (divide) or remainder with the divisor's sign (mod); 0 when b is 0. */
static uint32_t divide_i32(unsigned op, uint32_t a, uint32_t b, bool is_signed) {
  magnitude x = magnitude_of(a, is_signed), y = magnitude_of(b, is_signed);
  bool differ = x.negative != y.negative;
  if (y.v == 0) return 0;
  uint32_t q = x.v / y.v, r = x.v % y.v;
  if (op == ISA_ALU_divide) return differ ? 0 - q : q;
  /* Floored: on the divisor's side. */
  if (r != 0 && differ) r = y.v - r;
  return y.negative ? 0 - r : r;
}

static uint32_t pow_i32(uint32_t a, uint32_t b, bool is_signed) {
  if (is_signed && b >> 31) /* 1 / a^-b, truncated */
    return a == 1 || (a == UINT32_MAX && b % 2 == 0) ? 1 : a == UINT32_MAX ? a : 0;
  uint32_t r = 1;
  /* Powers by squaring, modulo 2^32. */
  for (; b; b >>= 1, a *= a)
    if (b & 1) r *= a;
  return r;
}

/* Half the sum, towards minus infinity, as a wider type would have it. */
static uint32_t average_i32(uint32_t a, uint32_t b, bool is_signed) {
  uint32_t flip = is_signed ? 0x80000000 : 0; /* to an unsigned order and back */
  return (uint32_t)(((uint64_t)(a ^ flip) + (b ^ flip)) >> 1) ^ flip;
}

static uint32_t compare_i32(unsigned op, uint32_t a, uint32_t b, bool is_signed) {
  uint32_t flip = is_signed ? 0x80000000 : 0, x = a ^ flip, y = b ^ flip;
  uint32_t ma = magnitude_of(a, is_signed).v, mb = magnitude_of(b, is_signed).v;
  switch (op) {
  case ISA_ALU_max: return x >= y ? a : b;
  case ISA_ALU_min: return x <= y ? a : b;
  /* On a tie the second operand, with its sign (isa/README.md). */
  case ISA_ALU_abs_max: return ma > mb ? a : b;
  case ISA_ALU_abs_min: return ma < mb ? a : b;
  case ISA_ALU_is_ge: return x >= y;
  case ISA_ALU_is_gt: return x > y;
  case ISA_ALU_is_le: return x <= y;
  default: return x < y; /* is_lt */
  }
}

uint32_t vm_alu_i32(unsigned op, uint32_t a, uint32_t b, bool is_signed) {
  unsigned type = is_signed ? ISA_int32 : ISA_uint32;
  switch (op) {
  case ISA_ALU_abs: return magnitude_of(a, is_signed).v;
  case ISA_ALU_add: return a + b;
  case ISA_ALU_subtract: return a - b;
  case ISA_ALU_mult: return a * b;
  case ISA_ALU_divide:
  case ISA_ALU_mod: return divide_i32(op, a, b, is_signed);
  case ISA_ALU_average: return average_i32(a, b, is_signed);
  case ISA_ALU_pow: return pow_i32(a, b, is_signed);
  case ISA_ALU_is_equal: return a == b;
  case ISA_ALU_not_equal: return a != b;
  case ISA_ALU_logical_and: return a && b;
  case ISA_ALU_logical_or: return a || b;
  case ISA_ALU_logical_xor: return !a != !b;
  case ISA_ALU_square: return a * a;
  case ISA_ALU_relu: return is_signed && a >> 31 ? 0 : a;
  case ISA_ALU_rsqrt: /* no integer has these: as in fp32 */
  case ISA_ALU_reciprocal: return isa_from_f32(type, vm_alu_f32(op, isa_to_f32(type, a), 0), 0);
  case ISA_ALU_max:
  case ISA_ALU_min:
  case ISA_ALU_abs_max:
  case ISA_ALU_abs_min:
  case ISA_ALU_is_ge:
  case ISA_ALU_is_gt:
  case ISA_ALU_is_le:
  case ISA_ALU_is_lt: return compare_i32(op, a, b, is_signed);
  /* Operators on bits do not depend on the type's meaning. */
  default: return vm_alu_bits(op, a, b, 32, is_signed);
  }
}

float vm_kern_identity(unsigned op) {
  switch (op) {
  case ISA_ALU_mult: return 1;
  /* -infinity and +infinity: NaN operands are skipped, so that they are below and above these. */
  case ISA_ALU_max: return isa_bits_f32(0xff800000);
  case ISA_ALU_min:
  case ISA_ALU_abs_min: return isa_bits_f32(0x7f800000);
  default: return 0;
  }
}

/* Pairwise: the second half is added to the first until one is left. The vectors are the
 * compiler's, of four partials each. */
typedef float quad __attribute__((vector_size(16)));

#define COMBINE(name, OP)                                  \
  static float name(const float part[16]) {                \
    quad p[4];                                             \
    memcpy(p, part, sizeof p);                             \
    quad q = OP(OP(p[0], p[2]), OP(p[1], p[3]));           \
    return kern_canon(OP(OP(q[0], q[2]), OP(q[1], q[3]))); \
  }
#define ADD(a, b) ((a) + (b))
#define MULT(a, b) ((a) * (b))
COMBINE(combine_add, ADD)
COMBINE(combine_mult, MULT)

/* max and min do not depend on the order. They use integers that ascend as the floats do, with -0
 * below +0; all NaNs are moved to the bottom, for min to the top, as in level/sum.c. */
enum { NANS = 0x7fffff };
static uint32_t flip(uint32_t u) { return u & 0x80000000u ? u ^ INT32_MAX : u; }

static float combine_max(const float part[16]) {
  int32_t most = INT32_MIN;
  for (unsigned i = 0; i < 16; i++) {
    /* Wrapping moves the NaNs of positive sign below -infinity, too. */
    int32_t key = (int32_t)(flip(isa_f32_bits(part[i])) + NANS);
    most = key > most ? key : most;
  }
  return kern_canon(isa_bits_f32(flip((uint32_t)most - NANS)));
}
static float combine_min(const float part[16]) {
  int32_t least = INT32_MAX;
  for (unsigned i = 0; i < 16; i++) {
    int32_t key = (int32_t)(flip(isa_f32_bits(part[i])) - NANS);
    least = key < least ? key : least;
  }
  return kern_canon(isa_bits_f32(flip((uint32_t)least + NANS)));
}

float vm_kern_combine(unsigned op, const float part[16]) {
  switch (op) {
  case ISA_ALU_add: return combine_add(part);
  case ISA_ALU_mult: return combine_mult(part);
  case ISA_ALU_max: return combine_max(part);
  case ISA_ALU_min: return combine_min(part);
  default: return isa_bits_f32(KERN_NAN);
  }
}
