/* Bit patterns and 32-bit integers over arrays. vm_alu_bits and vm_alu_i32 are the meaning of each
 * element; operators without a loop of their own call them. */
#include "../level.h"

#include <string.h>

#define EACH(value) \
  KERN_LOOP         \
  for (size_t i = 0; i < n; i++) a[i] = value

/* Shift distances are masked where they do not matter, so that no shift is undefined. */
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

/* Elements lie at any address. */
#define ELEMENT(type)                                                                      \
  static void mask_##type(uint32_t *mask, const void *pred, size_t n, uint32_t flip) {     \
    const unsigned char *from = pred;                                                      \
    KERN_LOOP                                                                              \
    for (size_t i = 0; i < n; i++) {                                                       \
      type v;                                                                              \
      memcpy(&v, from + i * sizeof v, sizeof v);                                           \
      mask[i] = (0u - (uint32_t)(v != 0)) ^ flip;                                          \
    }                                                                                      \
  }                                                                                        \
  static void merge_##type(unsigned char *d, const uint32_t *mask, const unsigned char *a, \
                           const unsigned char *b, size_t n) {                             \
    KERN_LOOP                                                                              \
    for (size_t i = 0; i < n; i++) {                                                       \
      type x, y, m = (type)mask[i];                                                        \
      memcpy(&x, a + i * sizeof x, sizeof x);                                              \
      memcpy(&y, b + i * sizeof y, sizeof y);                                              \
      x = (type)((x & m) | (y & (type)~m));                                                \
      memcpy(d + i * sizeof x, &x, sizeof x);                                              \
    }                                                                                      \
  }
ELEMENT(uint8_t)
ELEMENT(uint16_t)
ELEMENT(uint32_t)

static void mask(uint32_t *m, const void *pred, size_t n, unsigned esize, bool reverse) {
  uint32_t flip = reverse ? UINT32_MAX : 0;
  switch (esize) {
  case 1: mask_uint8_t(m, pred, n, flip); break;
  case 2: mask_uint16_t(m, pred, n, flip); break;
  default: mask_uint32_t(m, pred, n, flip); break;
  }
}

static void merge(void *d, const uint32_t *m, const void *a, const void *b, size_t n,
                  unsigned esize) {
  switch (esize) {
  case 1: merge_uint8_t(d, m, a, b, n); break;
  case 2: merge_uint16_t(d, m, a, b, n); break;
  default: merge_uint32_t(d, m, a, b, n); break;
  }
}

/* Blocks without a match are skipped; the block that has one is searched. */
static size_t find(const float *x, float v, size_t n) {
  enum { BLOCK = 64 };
  size_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    uint32_t any = 0;
    for (size_t j = 0; j < BLOCK; j++) any |= (uint32_t)(x[i + j] == v);
    if (any) break;
  }
  while (i < n && x[i] != v) i++;
  return i;
}

static void randoms(uint32_t *d, uint32_t from, size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) {
    uint32_t x = from + (uint32_t)i * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    d[i] = x ^ x >> 16;
  }
}

/* The largest of what follows the sign: carried over, an exponent of ones is a bit. */
#define ANY(type)                                                                  \
  do {                                                                             \
    enum { BLOCK = 1024 };                                                         \
    const type low = (type)((type)-1 >> 1), step = (type)((exponent & -exponent)); \
    for (size_t i = 0; i < n;) {                                                   \
      const size_t end = n - i < BLOCK ? n : i + BLOCK;                            \
      type all = 0;                                                                \
      KERN_LOOP                                                                    \
      for (; i < end; i++) {                                                       \
        type v;                                                                    \
        memcpy(&v, at + i * sizeof v, sizeof v);                                   \
        all |= (type)((v & low) + step);                                           \
      }                                                                            \
      if (all > low) return true;                                                  \
    }                                                                              \
    return false;                                                                  \
  } while (0)

static bool special(const void *x, size_t n, unsigned esize, uint32_t exponent) {
  const uint8_t *at = x;
  if (esize == 2) ANY(uint16_t);
  ANY(uint32_t);
}

void KERN(int_fill)(vm_kern *k) {
  k->random = randoms;
  k->bits = bits;
  k->words = words;
  k->ramp = ramp;
  k->choose = choose;
  k->mask = mask;
  k->merge = merge;
  k->find = find;
  k->special = special;
}
