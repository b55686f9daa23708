/* Sixteen interleaved partials of a row: lane j takes elements j, j + 16, ... in order. The lanes
 * are one vector of 16, two of 8 or four of 4: vectors of the compiler's, for a loop over sixteen
 * scalars does not stay in registers. */
#include "kern_level.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { VECS = 16 / LANES };

typedef float fvec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

KERN_INLINE fvec load(const float *x) {
  fvec v;
  memcpy(&v, x, sizeof v);
  return v;
}
KERN_INLINE void store(float *x, fvec v) { memcpy(x, &v, sizeof v); }

/* n < 16 elements and, behind them, `rest`. */
KERN_INLINE void pad(float row[16], const float *x, size_t n, float rest) {
  for (unsigned j = 0; j < 16; j++) row[j] = j < n ? x[j] : rest;
}

/* The vectors of the sixteen lanes, in a loop that is unrolled. */
#define EACH_VEC KERN_UNROLL(4) for (unsigned j = 0; j < VECS; j++)

/* A function for an operator: ENTER makes an accumulator of a vector, COMBINE takes in another,
 * LEAVE gives the result. `rest` changes nothing that it is combined with. */
#define PARTIAL(op, type, ENTER, COMBINE, LEAVE, rest)                                           \
  static void partial_##op(float part[16], const float *x, size_t n) {                           \
    type p[VECS];                                                                                \
    EACH_VEC p[j] = ENTER(load(part + j * LANES));                                               \
    for (; n >= 16; n -= 16, x += 16) EACH_VEC p[j] = COMBINE(p[j], ENTER(load(x + j * LANES))); \
    if (n > 0) {                                                                                 \
      float row[16];                                                                             \
      pad(row, x, n, rest);                                                                      \
      EACH_VEC p[j] = COMBINE(p[j], ENTER(load(row + j * LANES)));                               \
    }                                                                                            \
    EACH_VEC store(part + j * LANES, LEAVE(p[j]));                                               \
  }

KERN_INLINE fvec choose(ivec mask, fvec a, fvec b) {
  return (fvec)((mask & (ivec)a) | (~mask & (ivec)b));
}
KERN_INLINE fvec all_nan(void) { return (fvec)((ivec){0} + (int32_t)KERN_NAN); }

/* A NaN is made canonical once at the end, whatever payload it travelled with. The padding of a
 * sum is -0: x + -0 is x, also for the zeros. */
#define SAME(v) (v)
#define ADD(a, b) ((a) + (b))
#define MULT(a, b) ((a) * (b))
KERN_INLINE fvec canon(fvec v) { return choose((ivec)(v != v), all_nan(), v); }
PARTIAL(add, fvec, SAME, ADD, canon, -0.0f)
PARTIAL(mult, fvec, SAME, MULT, canon, 1.0f)

/* max and min by the order of integers, whose comparison takes one cycle: the keys of all floats
 * ascend from -inf over -0 and +0 to +inf; a NaN is at the far end so that anything replaces it. */
KERN_INLINE ivec key_of(fvec v, int32_t nan) {
  ivec i = (ivec)v, is_nan = (ivec)(v != v);
  return ((i ^ ((i >> 31) & INT32_MAX)) & ~is_nan) | (is_nan & nan);
}
KERN_INLINE fvec float_of(ivec key, int32_t nan) {
  return choose((ivec)(key == nan), all_nan(), (fvec)(key ^ ((key >> 31) & INT32_MAX)));
}
#define LOW_KEY(v) key_of(v, INT32_MIN)
#define LOW_FLOAT(k) float_of(k, INT32_MIN)
#define HIGH_KEY(v) key_of(v, INT32_MAX)
#define HIGH_FLOAT(k) float_of(k, INT32_MAX)

#if defined(__AVX512F__)
#define GREATER(a, b) ((ivec)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define LESSER(a, b) ((ivec)_mm512_min_epi32((__m512i)(a), (__m512i)(b)))
#elif defined(__AVX2__)
#define GREATER(a, b) ((ivec)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define LESSER(a, b) ((ivec)_mm256_min_epi32((__m256i)(a), (__m256i)(b)))
#else
#define CHOOSE(mask, a, b) (((a) & (ivec)(mask)) | ((b) & ~(ivec)(mask)))
#define GREATER(a, b) CHOOSE((a) > (b), a, b)
#define LESSER(a, b) CHOOSE((a) < (b), a, b)
#endif

PARTIAL(max, ivec, LOW_KEY, GREATER, LOW_FLOAT, isa_bits_f32(KERN_NAN))
PARTIAL(min, ivec, HIGH_KEY, LESSER, HIGH_FLOAT, isa_bits_f32(KERN_NAN))

/* Both halves of bn_stats at once: the even lanes of two rows of sixteen are those of the even
 * elements. */
static void bn_sums(float lane[32], const float *x, const float mean[2], bool spread, size_t n) {
  enum { ALL = 2 * VECS };
  fvec p[ALL], m;
  for (unsigned j = 0; j < LANES; j++) m[j] = mean[j % 2];
  for (unsigned j = 0; j < ALL; j++) p[j] = load(lane + j * LANES);
  size_t whole = n & ~(size_t)31;
  if (spread) {
    for (size_t i = 0; i < whole; i += 32) KERN_UNROLL(8) for (unsigned j = 0; j < ALL; j++) {
        fvec away = load(x + i + j * LANES) - m;
        p[j] += away * away;
      }
  } else {
    for (size_t i = 0; i < whole; i += 32)
      KERN_UNROLL(8) for (unsigned j = 0; j < ALL; j++) p[j] += load(x + i + j * LANES);
  }
  for (unsigned j = 0; j < ALL; j++) store(lane + j * LANES, p[j]);
  for (size_t i = whole; i < n; i++) {
    float away = x[i] - mean[i % 2];
    lane[i % 32] += spread ? away * away : x[i];
  }
}

void KERN(sum_fill)(vm_kern *k) {
  k->bn_sums = bn_sums;
  k->partial[ISA_ALU_add] = partial_add;
  k->partial[ISA_ALU_mult] = partial_mult;
  k->partial[ISA_ALU_max] = partial_max;
  k->partial[ISA_ALU_min] = partial_min;
}
