/* Bit patterns and 32-bit integers over arrays. vm_alu_bits and vm_alu_i32 are the meaning of each
 * element; operators without a loop of their own call them. */
#include "kern_level.h"

#define EACH(value) \
  KERN_LOOP         \
  for (size_t i = 0; i < n; i++) a[i] = value

/* Shift distances are masked where they do not count, so that no shift is undefined. */
KERN_INLINE uint32_t shl(uint32_t a, uint32_t b, unsigned width) {
  return b < width ? a << (b & 31) : 0;
}
KERN_INLINE uint32_t shr(uint32_t a, uint32_t b, unsigned width) {
  return b < width ? a >> (b & 31) : 0;
}

static void bits(unsigned op, uint32_t *a, const uint32_t *b, size_t n, unsigned width,
                 bool is_signed) {
  switch (op) {
  case ISA_ALU_bypass: break;
  case ISA_ALU_bitwise_and: EACH(a[i] & b[i]); break;
  case ISA_ALU_bitwise_or: EACH(a[i] | b[i]); break;
  case ISA_ALU_bitwise_xor: EACH(a[i] ^ b[i]); break;
  case ISA_ALU_bitwise_not: EACH(~a[i]); break;
  case ISA_ALU_logical_shift_left:
  case ISA_ALU_arith_shift_left: EACH(shl(a[i], b[i], width)); break;
  case ISA_ALU_logical_shift_right: EACH(shr(a[i], b[i], width)); break;
  default: /* an arithmetic shift to the right */
    for (size_t i = 0; i < n; i++) a[i] = vm_alu_bits(op, a[i], b[i], width, is_signed);
    break;
  }
}

static void words(unsigned op, uint32_t *a, const uint32_t *b, size_t n, bool is_signed) {
  uint32_t flip = is_signed ? 0x80000000 : 0; /* to an unsigned order */
  switch (op) {
  case ISA_ALU_add: EACH(a[i] + b[i]); break;
  case ISA_ALU_subtract: EACH(a[i] - b[i]); break;
  case ISA_ALU_mult: EACH(a[i] * b[i]); break;
  case ISA_ALU_max: EACH((a[i] ^ flip) >= (b[i] ^ flip) ? a[i] : b[i]); break;
  case ISA_ALU_min: EACH((a[i] ^ flip) <= (b[i] ^ flip) ? a[i] : b[i]); break;
  case ISA_ALU_is_equal: EACH(a[i] == b[i]); break;
  case ISA_ALU_not_equal: EACH(a[i] != b[i]); break;
  case ISA_ALU_is_ge: EACH((a[i] ^ flip) >= (b[i] ^ flip)); break;
  case ISA_ALU_is_gt: EACH((a[i] ^ flip) > (b[i] ^ flip)); break;
  case ISA_ALU_is_le: EACH((a[i] ^ flip) <= (b[i] ^ flip)); break;
  case ISA_ALU_is_lt: EACH((a[i] ^ flip) < (b[i] ^ flip)); break;
  default:
    for (size_t i = 0; i < n; i++) a[i] = vm_alu_i32(op, a[i], b[i], is_signed);
    break;
  }
}

static void ramp(uint32_t *d, uint32_t from, uint32_t step, size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) d[i] = from + (uint32_t)i * step;
}

static void choose(uint32_t *d, const uint32_t *x, uint32_t fill, uint32_t from, uint32_t step,
                   const uint32_t keep[3], size_t n) {
  uint32_t negative = keep[0], zero = keep[1], positive = keep[2];
  KERN_LOOP
  for (size_t i = 0; i < n; i++) {
    uint32_t v = from + (uint32_t)i * step;
    uint32_t sign = kern_pick(v >> 31, negative, positive);
    uint32_t mask = kern_pick(v == 0, zero, sign);
    d[i] = (x[i] & mask) | (fill & ~mask);
  }
}

static void pick(uint32_t *d, const uint32_t *pred, const uint32_t *a, const uint32_t *b,
                 size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) d[i] = kern_pick(pred[i] != 0, a[i], b[i]);
}

void KERN(int_fill)(vm_kern *k) {
  k->bits = bits;
  k->words = words;
  k->ramp = ramp;
  k->choose = choose;
  k->pick = pick;
}
