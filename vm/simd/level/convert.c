/* Element types to fp32 and back, gather and scatter. The scalar definition is isa/dtype.c; the
 * arithmetic here is different, without branches, and gives the same bits. */
#include "../level.h"

#include <string.h>

#define INF32 0x7f800000u

/* Elements may lie at any byte address. */
#define READ(type, src, i) read_##type((const unsigned char *)(src) + (i) * sizeof(type))
#define WRITE(type, dst, i, v) write_##type((unsigned char *)(dst) + (i) * sizeof(type), (v))
#define ACCESS(type)                            \
  KERN_INLINE type read_##type(const void *p) { \
    type v;                                     \
    memcpy(&v, p, sizeof v);                    \
    return v;                                   \
  }                                             \
  KERN_INLINE void write_##type(void *p, type v) { memcpy(p, &v, sizeof v); }
ACCESS(uint8_t)
ACCESS(int8_t)
ACCESS(uint16_t)
ACCESS(int16_t)
ACCESS(uint32_t)
ACCESS(int32_t)
ACCESS(uint64_t)

/* n elements of dst = value, an expression in x, through 32-bit elements: done together, conversion
 * and packing take more registers than there are, and gcc spills. */
#define STORE_IN_BLOCKS(storage, value)                                              \
  uint32_t code[BLOCK];                                                              \
  for (size_t at = 0, some; at < n; at += some) {                                    \
    some = n - at < BLOCK ? n - at : BLOCK;                                          \
    KERN_LOOP                                                                        \
    for (size_t i = 0; i < some; i++) {                                              \
      float x = src[at + i];                                                         \
      code[i] = (uint32_t)(value);                                                   \
    }                                                                                \
    KERN_LOOP                                                                        \
    for (size_t i = 0; i < some; i++) WRITE(storage, dst, at + i, (storage)code[i]); \
  }
enum { BLOCK = 256 };

/* ---- Small floats ------------------------------------------------------------------------- */

/* SMALL(type, storage, exponent bits, mantissa bits, code of overflow, canonical NaN) */
#define SMALL_FLOATS(SMALL)                       \
  SMALL(float8_e3m4, uint8_t, 3, 4, 0x70, 0x78)   \
  SMALL(float8_e4m3, uint8_t, 4, 3, 0x78, 0x7c)   \
  SMALL(float8_e4m3fn, uint8_t, 4, 3, 0x7f, 0x7f) \
  SMALL(float8_e5m2, uint8_t, 5, 2, 0x7c, 0x7e)   \
  SMALL(float16, uint16_t, 5, 10, 0x7c00, 0x7e00)

/* Bits of a type with e exponent and m mantissa bits to those of fp32. A subnormal is moved
 * after a leading one, which a subtraction then takes away. `over` is the code of infinity, or
 * of NaN where it equals `nan`. */
KERN_INLINE uint32_t widen(uint32_t code, unsigned e, unsigned m, uint32_t over, uint32_t nan) {
  uint32_t rebias = (128u - (1u << (e - 1))) << 23;
  uint32_t mag = code & ((1u << (e + m)) - 1), sign = code >> (e + m) << 31;
  uint32_t shifted = mag << (23 - m), one = rebias + (1u << 23);
  uint32_t low = isa_f32_bits(isa_bits_f32(shifted + one) - isa_bits_f32(one));
  uint32_t u = sign | kern_pick(mag < 1u << m, low, shifted + rebias);
  u = kern_pick(mag == over, sign | INF32, u);
  return kern_pick((mag > over) | ((mag == over) & (over == nan)), KERN_NAN, u);
}

/* Bits of fp32 to a small float. Below the least normal value, the sum with a power of two whose
 * last place is the least subnormal does the rounding; above it, an integer addition does. `top` is
 * what overflow gives: over, or the largest finite code. */
KERN_INLINE uint32_t narrow(uint32_t u, unsigned e, unsigned m, uint32_t over, uint32_t top,
                            uint32_t nan) {
  unsigned bias = (1u << (e - 1)) - 1, drop = 23 - m;
  uint32_t mag = u & 0x7fffffff, sign = u >> 31 << (e + m);
  uint32_t least = (128 - bias) << 23, magic = (127 - bias + 1 - m + 23) << 23;
  uint32_t low = isa_f32_bits(isa_bits_f32(mag) + isa_bits_f32(magic)) - magic;
  uint32_t up = ((1u << (drop - 1)) - 1) + (mag >> drop & 1);
  uint32_t high = (mag - ((127 - bias) << 23) + up) >> drop;
  uint32_t code = kern_pick(mag < least, low, high);
  code = kern_pick((mag >= INF32) | (code >= over), top, code);
  code = kern_pick(code == nan, nan, sign | code);
  return kern_pick(mag > INF32, nan, code);
}

#define SMALL(type, storage, e, m, over, nan)                                     \
  static void load_##type(float *dst, const void *src, size_t n) {                \
    KERN_LOOP                                                                     \
    for (size_t i = 0; i < n; i++)                                                \
      dst[i] = isa_bits_f32(widen(READ(storage, src, i), e, m, over, nan));       \
  }                                                                               \
  static void store_##type(void *dst, const float *src, size_t n, unsigned cvt) { \
    bool clamp = (over) == (nan) && (cvt & ISA_CVT_saturate);                     \
    uint32_t top = clamp ? (over)-1 : (over);                                     \
    STORE_IN_BLOCKS(storage, narrow(isa_f32_bits(x), e, m, over, top, nan))       \
  }
SMALL_FLOATS(SMALL)
#undef SMALL

/* ---- The other types ---------------------------------------------------------------------- */

/* A conversion each way for one element: LOAD's value of v, STORE's value of x. STORE_NARROW: to
 * less than 32 bits by more than a few operations. */
#define LOAD(type, storage, value)                                 \
  static void load_##type(float *dst, const void *src, size_t n) { \
    KERN_LOOP                                                      \
    for (size_t i = 0; i < n; i++) {                               \
      storage v = READ(storage, src, i);                           \
      dst[i] = value;                                              \
    }                                                              \
  }
#define STORE(type, storage, value)                                               \
  static void store_##type(void *dst, const float *src, size_t n, unsigned cvt) { \
    (void)cvt;                                                                    \
    KERN_LOOP                                                                     \
    for (size_t i = 0; i < n; i++) {                                              \
      float x = src[i];                                                           \
      WRITE(storage, dst, i, (storage)(value));                                   \
    }                                                                             \
  }
#define STORE_NARROW(type, storage, value)                                        \
  static void store_##type(void *dst, const float *src, size_t n, unsigned cvt) { \
    (void)cvt;                                                                    \
    STORE_IN_BLOCKS(storage, value)                                               \
  }

LOAD(uint8, uint8_t, (float)v)
LOAD(int8, int8_t, (float)v)
LOAD(uint16, uint16_t, (float)v)
LOAD(int16, int16_t, (float)v)
LOAD(uint32, uint32_t, (float)v)
LOAD(int32, int32_t, (float)v)
LOAD(bool, uint8_t, isa_bits_f32(kern_pick(v != 0, 0x3f800000, 0)))
LOAD(bfloat16, uint16_t, kern_canon(isa_bits_f32((uint32_t)v << 16)))
LOAD(tfloat32, uint32_t, kern_canon(isa_bits_f32(v & 0xffffe000)))

KERN_INLINE float widen_e8m0(uint32_t v) {
  uint32_t u = kern_pick(v == 0, 0x400000, v << 23);
  return isa_bits_f32(kern_pick(v == 255, KERN_NAN, u));
}
LOAD(float8_e8m0fnu, uint8_t, widen_e8m0(v))

static void load_float32(float *dst, const void *src, size_t n) {
  if (n > 0) memmove(dst, src, n * sizeof *dst);
}

/* Nearest even of a value within int32: adding 2^23 leaves no place for a fraction. */
KERN_INLINE float to_whole(float x) {
  uint32_t sign = isa_f32_bits(x) & 0x80000000;
  float a = isa_bits_f32(isa_f32_bits(x) & 0x7fffffff);
  float r = isa_bits_f32(isa_f32_bits((a + 0x1p23f) - 0x1p23f) | sign);
  return kern_pick_f32(a < 0x1p23f, r, x);
}
/* Saturated to [lo, hi], exact in fp32, and rounded; NaN gives 0. */
KERN_INLINE int32_t to_int(float x, float lo, float hi) {
  float y = kern_pick_f32(x == x, x, 0);
  y = kern_pick_f32(y < lo, lo, y);
  return (int32_t)to_whole(kern_pick_f32(y > hi, hi, y));
}
/* 2147483520 is the largest float that int32 holds. */
KERN_INLINE int32_t to_int32(float x) {
  uint32_t v = (uint32_t)to_int(x, -0x1p31f, 2147483520.0f);
  return (int32_t)kern_pick(x >= 0x1p31f, INT32_MAX, v);
}
KERN_INLINE uint32_t to_uint32(float x) {
  bool high = x >= 0x1p31f;
  uint32_t v = (uint32_t)to_int(kern_pick_f32(high, x - 0x1p31f, x), 0, 2147483520.0f);
  v += kern_pick(high, 0x80000000, 0);
  return kern_pick(x >= 0x1p32f, UINT32_MAX, v);
}
STORE_NARROW(uint8, uint8_t, to_int(x, 0, 255))
STORE_NARROW(int8, int8_t, to_int(x, -128, 127))
STORE_NARROW(uint16, uint16_t, to_int(x, 0, 65535))
STORE_NARROW(int16, int16_t, to_int(x, -32768, 32767))
STORE(uint32, uint32_t, to_uint32(x))
STORE(int32, int32_t, to_int32(x))
STORE(bool, uint8_t, kern_pick(x != 0, 1, 0))
STORE(float32, uint32_t, isa_f32_bits(kern_canon(x)))

STORE(bfloat16, uint16_t, kern_round_at(kern_canon(x), 16) >> 16)
STORE(tfloat32, uint32_t, kern_round_at(kern_canon(x), 13) & 0xffffe000)

/* Rounds up if the dropped fraction times 2^32 is above the random number. */
static void store_bf16_sr(void *dst, const float *src, const uint32_t *random, size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) {
    uint32_t u = isa_f32_bits(src[i]);
    uint32_t code = (u >> 16) + (uint32_t)(random[i] < u << 16);
    WRITE(uint16_t, dst, i, (uint16_t)kern_pick(src[i] != src[i], KERN_NAN >> 16, code));
  }
}

KERN_INLINE uint32_t narrow_e8m0(float x) {
  uint32_t u = isa_f32_bits(x), mag = u & 0x7fffffff, m = mag & 0x7fffff;
  uint32_t code = (mag >> 23) + kern_pick((m > 0x400000) | ((mag & 0xffffff) == 0xc00000), 1, 0);
  code = kern_pick(mag < 0x800000, kern_pick(mag > 0x600000, 1, 0), code);
  return kern_pick((mag != 0) & (u >= INF32), 255, code);
}
STORE(float8_e8m0fnu, uint8_t, narrow_e8m0(x))

/* ---- Strided elements and rows ------------------------------------------------------------- */

#define HALF(type)                                                                      \
  static void gather_half_##type(void *restrict dst, const unsigned char *restrict src, \
                                 size_t n) {                                            \
    for (size_t i = 0; i < n; i++) WRITE(type, dst, i, READ(type, src, 2 * i));         \
  }
HALF(uint8_t)
HALF(uint16_t)
HALF(uint32_t)
HALF(uint64_t)

/* Rows of 16 and 32 bytes: vectors of the compiler's. */
typedef uint8_t row16 __attribute__((vector_size(16)));
typedef uint8_t row32 __attribute__((vector_size(32)));

/* n items of a type between places that are steps apart. Four loads come before their stores: a
 * store whose address has the same low bits as a later load would hold that load up. */
#define MOVE(type)                                                                    \
  static void move_##type(unsigned char *dst, ptrdiff_t to, const unsigned char *src, \
                          ptrdiff_t from, size_t n) {                                 \
    type a, b, c, d;                                                                  \
    for (; n >= 4; n -= 4, src += 4 * from, dst += 4 * to) {                          \
      memcpy(&a, src, sizeof a);                                                      \
      memcpy(&b, src + from, sizeof b);                                               \
      memcpy(&c, src + 2 * from, sizeof c);                                           \
      memcpy(&d, src + 3 * from, sizeof d);                                           \
      memcpy(dst, &a, sizeof a);                                                      \
      memcpy(dst + to, &b, sizeof b);                                                 \
      memcpy(dst + 2 * to, &c, sizeof c);                                             \
      memcpy(dst + 3 * to, &d, sizeof d);                                             \
    }                                                                                 \
    for (; n > 0; n--, src += from, dst += to) {                                      \
      memcpy(&a, src, sizeof a);                                                      \
      memcpy(dst, &a, sizeof a);                                                      \
    }                                                                                 \
  }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)
MOVE(row16)
MOVE(row32)

/* Copying every other element is a loop of its own, which becomes shuffles. */
static void gather(void *dst, const void *src, ptrdiff_t step, size_t n, unsigned esize) {
  bool half = step == 2 * (ptrdiff_t)esize;
#define GATHER(type)                                  \
  if (half)                                           \
    gather_half_##type(dst, src, n);                  \
  else                                                \
    move_##type(dst, (ptrdiff_t)esize, src, step, n); \
  break
  if (step == (ptrdiff_t)esize) {
    memmove(dst, src, n * esize);
    return;
  }
  switch (esize) {
  case 1: GATHER(uint8_t);
  case 2: GATHER(uint16_t);
  case 4: GATHER(uint32_t);
  default: GATHER(uint64_t);
  }
#undef GATHER
}

static void scatter(void *dst, ptrdiff_t step, const void *src, size_t n, unsigned esize) {
  if (step == (ptrdiff_t)esize) {
    memmove(dst, src, n * esize);
    return;
  }
  switch (esize) {
  case 1: move_uint8_t(dst, step, src, (ptrdiff_t)esize, n); break;
  case 2: move_uint16_t(dst, step, src, (ptrdiff_t)esize, n); break;
  case 4: move_uint32_t(dst, step, src, (ptrdiff_t)esize, n); break;
  default: move_uint64_t(dst, step, src, (ptrdiff_t)esize, n); break;
  }
}

/* A row whose length is not that of a type is copied in two parts, which overlap. */
static void move_rows(void *dst, ptrdiff_t to, const void *src, ptrdiff_t from, size_t rows,
                      size_t bytes) {
#define PARTS(type)                      \
  move_##type(dst, to, src, from, rows); \
  last = bytes - sizeof(type);           \
  if (last > 0)                          \
  move_##type((unsigned char *)dst + last, to, (const unsigned char *)src + last, from, rows)
  size_t last;
  if (bytes >= 32) {
    PARTS(row32);
  } else if (bytes >= 16) {
    PARTS(row16);
  } else if (bytes >= 8) {
    PARTS(uint64_t);
  } else {
    PARTS(uint32_t);
  }
#undef PARTS
}

void KERN(cvt_fill)(vm_kern *k) {
  k->store_bf16_sr = store_bf16_sr;
#define BOTH(type)                   \
  k->load[ISA_##type] = load_##type; \
  k->store[ISA_##type] = store_##type;
#define SMALL(type, storage, e, m, over, nan) BOTH(type)
  SMALL_FLOATS(SMALL)
#undef SMALL
  /* clang-format off */
  BOTH(uint8) BOTH(int8) BOTH(uint16) BOTH(int16) BOTH(uint32) BOTH(int32) BOTH(bool)
  BOTH(bfloat16) BOTH(tfloat32) BOTH(float32) BOTH(float8_e8m0fnu)
  /* clang-format on */
#undef BOTH
          k->gather = gather;
  k->scatter = scatter;
  k->rows = move_rows;
}
