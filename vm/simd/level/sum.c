/* Sixteen interleaved partials of a row: lane j takes elements j, j + 16, ... in order. The lanes
 * are one vector of 16, two of 8 or four of 4. The vectors are the compiler's, because the scalars
 * of a loop over sixteen do not stay in registers. */
#include "../level.h"

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
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

KERN_INLINE fvec load(const float *x) {
  fvec v;
  memcpy(&v, x, sizeof v);
  return v;
}
KERN_INLINE void store(float *x, fvec v) { memcpy(x, &v, sizeof v); }

/* n < 16 elements and, after them, `rest`. */
KERN_INLINE void pad(float row[16], const float *x, size_t n, float rest) {
  for (unsigned j = 0; j < 16; j++) row[j] = j < n ? x[j] : rest;
}

/* The vectors of the sixteen lanes, in an unrolled loop. */
#define EACH_VEC KERN_UNROLL(4) for (unsigned j = 0; j < VECS; j++)

/* A function for an operator: ENTER makes an accumulator of a vector, COMBINE takes in another one,
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
 * ascend from -inf over -0 and +0 to +inf. Those of the NaNs are beyond either end. Moving all keys
 * up by the number of NaNs on one side wraps these to the bottom, where everything is greater;
 * moving down wraps to the top. */
enum { NANS = 0x7fffff };
KERN_INLINE uvec flip(uvec u) { return u ^ ((uvec)((ivec)u >> 31) & INT32_MAX); }
KERN_INLINE ivec low_key(fvec v) { return (ivec)(flip((uvec)v) + NANS); }
KERN_INLINE fvec low_float(ivec key) { return canon((fvec)flip((uvec)key - NANS)); }
KERN_INLINE ivec high_key(fvec v) { return (ivec)(flip((uvec)v) - NANS); }
KERN_INLINE fvec high_float(ivec key) { return canon((fvec)flip((uvec)key + NANS)); }

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

PARTIAL(max, ivec, low_key, GREATER, low_float, isa_bits_f32(KERN_NAN))
PARTIAL(min, ivec, high_key, LESSER, high_float, isa_bits_f32(KERN_NAN))

enum { CHAINS = 4 }; /* rows at once: a row alone is one chain of dependent operations */

/* The lanes of four rows combined as vm_kern_combine does: each row's sixteen become four, which
 * are turned, so that the rest is done for four rows at once. */
typedef float fquad __attribute__((vector_size(16)));
typedef int32_t iquad __attribute__((vector_size(16)));
#define GREATER4(a, b) (((a) & (iquad)((a) > (b))) | ((b) & ~(iquad)((a) > (b))))
#define LESSER4(a, b) (((a) & (iquad)((a) < (b))) | ((b) & ~(iquad)((a) < (b))))
#define FOUR_ROWS(op, type, quad, COMBINE, LEAVE)                                             \
  KERN_INLINE void rows_##op(float *out, type p[CHAINS][VECS]) {                              \
    quad l[CHAINS][4], q[CHAINS], t[4];                                                       \
    type all = {0};                                                                           \
    memcpy(l, p, sizeof l);                                                                   \
    KERN_UNROLL(4)                                                                            \
    for (unsigned c = 0; c < CHAINS; c++)                                                     \
      q[c] = COMBINE(COMBINE(l[c][0], l[c][2]), COMBINE(l[c][1], l[c][3]));                   \
    t[0] = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);                                   \
    t[1] = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);                                   \
    t[2] = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);                                   \
    t[3] = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);                                   \
    q[0] = COMBINE(t[0], t[2]); /* elements 0 and 1 with 2 and 3: of rows 0 and 1, 2 and 3 */ \
    q[1] = COMBINE(t[1], t[3]);                                                               \
    t[0] = __builtin_shufflevector(q[0], q[1], 0, 1, 4, 5);                                   \
    t[1] = __builtin_shufflevector(q[0], q[1], 2, 3, 6, 7);                                   \
    t[0] = COMBINE(t[0], t[1]);                                                               \
    memcpy(&all, t, sizeof *t);                                                               \
    all = (type)LEAVE(all);                                                                   \
    memcpy(out, &all, sizeof *t);                                                             \
  }
FOUR_ROWS(add, fvec, fquad, ADD, canon)
FOUR_ROWS(mult, fvec, fquad, MULT, canon)
FOUR_ROWS(max, ivec, iquad, GREATER4, low_float)
FOUR_ROWS(min, ivec, iquad, LESSER4, high_float)

/* Rows as lanes if they are short: each element of sixteen rows is a vector, and the partials are
 * combined as vm_kern_combine does; what lies beyond n would change nothing. Many rows are turned
 * before the first vector is loaded, which would have to wait for the stores that it is made of. */
enum { SHORT = 128 }; /* rows at once */

#define REDUCE(op, type, ENTER, COMBINE, LEAVE, rest)                                             \
  static void short_##op(float *out, const float *x, ptrdiff_t step, size_t rows, size_t n) {     \
    float block[16][SHORT], last[16];                                                             \
    type p[16][VECS], none = ENTER((fvec){0} + vm_kern_identity(ISA_ALU_##op));                   \
    for (size_t i = 0; i < n; i++)                                                                \
      for (size_t r = rows; r % 16; r++) block[i][r] = 0;                                         \
    vm_kern_turn(block, sizeof *block, x, step *(ptrdiff_t)sizeof *x, rows, n, sizeof *x);        \
    for (size_t r = 0; r < rows; r += 16) {                                                       \
      for (size_t i = 0; i < n; i++)                                                              \
        EACH_VEC p[i][j] = COMBINE(none, ENTER(load(block[i] + r + j * LANES)));                  \
      for (size_t half = 8; half > 0; half /= 2)                                                  \
        for (size_t i = 0; i < half && i + half < n; i++)                                         \
          EACH_VEC p[i][j] = COMBINE(p[i][j], p[i + half][j]);                                    \
      EACH_VEC store(rows - r < 16 ? last + j * LANES : out + r + j * LANES, LEAVE(p[0][j]));     \
    }                                                                                             \
    if (rows % 16) memcpy(out + rows / 16 * 16, last, rows % 16 * sizeof *out);                   \
  }                                                                                               \
  static void long_##op(float *out, const float *x, ptrdiff_t step, size_t n) {                   \
    float row[16];                                                                                \
    type p[CHAINS][VECS];                                                                         \
    size_t i = 0;                                                                                 \
    for (unsigned c = 0; c < CHAINS; c++)                                                         \
      EACH_VEC p[c][j] = ENTER((fvec){0} + vm_kern_identity(ISA_ALU_##op));                       \
    for (; i + 16 <= n; i += 16) KERN_UNROLL(4)                                                   \
    for (unsigned c = 0; c < CHAINS; c++)                                                         \
      EACH_VEC p[c][j] = COMBINE(p[c][j], ENTER(load(x + c * step + i + j * LANES)));             \
    for (unsigned c = 0; c < CHAINS && i < n; c++) {                                              \
      pad(row, x + c * step + i, n - i, rest);                                                    \
      EACH_VEC p[c][j] = COMBINE(p[c][j], ENTER(load(row + j * LANES)));                          \
    }                                                                                             \
    rows_##op(out, p);                                                                            \
  }                                                                                               \
  static void reduce_##op(float *out, const float *x, ptrdiff_t step, size_t rows, size_t n) {    \
    size_t r = 0;                                                                                 \
    for (; n <= 16 && r < rows; r += SHORT)                                                       \
      short_##op(out + r, x + (ptrdiff_t)r * step, step, rows - r < SHORT ? rows - r : SHORT, n); \
    for (; r + CHAINS <= rows; r += CHAINS) long_##op(out + r, x + (ptrdiff_t)r * step, step, n); \
    for (; r < rows; r++) {                                                                       \
      float part[16];                                                                             \
      for (unsigned j = 0; j < 16; j++) part[j] = vm_kern_identity(ISA_ALU_##op);                 \
      partial_##op(part, x + (ptrdiff_t)r * step, n);                                             \
      out[r] = vm_kern_combine(ISA_ALU_##op, part);                                               \
    }                                                                                             \
  }
REDUCE(add, fvec, SAME, ADD, canon, -0.0f)
REDUCE(mult, fvec, SAME, MULT, canon, 1.0f)
REDUCE(max, ivec, low_key, GREATER, low_float, isa_bits_f32(KERN_NAN))
REDUCE(min, ivec, high_key, LESSER, high_float, isa_bits_f32(KERN_NAN))

/* Sixteen stores per row whatever n is: those of the next row overwrite the excess. */
static void spread(float *d, const float *s, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; r++, d += n) {
    if ((rows - r) * n >= 16) {
      for (unsigned j = 0; j < 16; j++) d[j] = s[r];
    } else {
      for (size_t j = 0; j < n; j++) d[j] = s[r];
    }
  }
}

/* Both halves of bn_stats at once: the even lanes of two rows of sixteen are those of the even
 * elements, and halving the thirty-two lanes until two are left combines each half's sixteen. */
enum { ALL = 2 * VECS };

KERN_INLINE void bn_tail(fvec p[ALL], const float *x, const float mean[2], bool spread, size_t n) {
  float lane[32];
  for (unsigned j = 0; j < ALL; j++) store(lane + j * LANES, p[j]);
  for (size_t i = 0; i < n; i++) {
    float away = x[i] - mean[i % 2];
    lane[i] += spread ? away * away : x[i];
  }
  for (unsigned j = 0; j < ALL; j++) p[j] = load(lane + j * LANES);
}

KERN_INLINE void bn_combine(float sum[2], const fvec p[ALL]) {
  fvec both[VECS];
  fquad l[4], q;
  EACH_VEC both[j] = p[j] + p[j + VECS];
  memcpy(l, both, sizeof l);
  q = (l[0] + l[2]) + (l[1] + l[3]);
  q = q + __builtin_shufflevector(q, q, 2, 3, 0, 1);
  sum[0] = kern_canon(q[0]);
  sum[1] = kern_canon(q[1]);
}

static void bn_sums(float sum[2], const float *x, const float mean[2], bool spread, size_t n) {
  fvec p[ALL], m;
  for (unsigned j = 0; j < LANES; j++) m[j] = mean[j % 2];
  for (unsigned j = 0; j < ALL; j++) p[j] = (fvec){0};
  for (; n >= 32; n -= 32, x += 32) {
    KERN_UNROLL(8)
    for (unsigned j = 0; j < ALL; j++) {
      fvec v = load(x + j * LANES), away = v - m;
      p[j] += spread ? away * away : v;
    }
  }
  if (n) bn_tail(p, x, mean, spread, n);
  bn_combine(sum, p);
}

/* ---- Recurrences and the largest eight ---------------------------------------------------- */

/* `count` vectors of lanes. Their states stay in registers. A NaN among them is made canonical only
 * where it leaves: what follows from it is a NaN anyhow. */
KERN_INLINE void scan_lanes(float *out, float *state, const float *a, const float *b, size_t lanes,
                            size_t n, unsigned count) {
  fvec s[2];
  KERN_UNROLL(2) for (unsigned v = 0; v < count; v++) s[v] = load(state + v * LANES);
  for (; n > 0; n--, a += lanes, b += lanes, out += lanes) {
    KERN_UNROLL(2) for (unsigned v = 0; v < count; v++) {
      s[v] = load(a + v * LANES) * s[v] + load(b + v * LANES);
      store(out + v * LANES, canon(s[v]));
    }
  }
  KERN_UNROLL(2) for (unsigned v = 0; v < count; v++) store(state + v * LANES, canon(s[v]));
}

static void scan(float *out, float *state, const float *a, const float *b, size_t lanes, size_t n) {
  size_t i = 0;
  for (; i + 2 * LANES <= lanes; i += 2 * LANES)
    scan_lanes(out + i, state + i, a + i, b + i, lanes, n, 2);
  for (; i + LANES <= lanes; i += LANES) scan_lanes(out + i, state + i, a + i, b + i, lanes, n, 1);
  for (; i < lanes; i++)
    for (size_t j = i; j < n * lanes; j += lanes)
      out[j] = state[i] = kern_canon(a[j] * state[i] + b[j]);
}

/* Bit j: key[j] is above `least`. */
KERN_INLINE uint32_t above(const int32_t key[16], int32_t least) {
#if defined(__AVX512F__)
  return _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(key), _mm512_set1_epi32(least));
#else
  uint32_t bits = 0;
  for (unsigned j = 0; j < 16; j++) bits |= (0u - (uint32_t)(key[j] > least)) & 1u << j;
  return bits;
#endif
}

/* Each key takes its place without a branch: a place keeps its own, or takes the lesser of the key
 * and what was before it. So a key that is not above the least one changes nothing. */
typedef int32_t ieight __attribute__((vector_size(32)));
KERN_INLINE void insert(ieight *t, int32_t key) {
  ieight top = *t, before = __builtin_shufflevector(top, top, 0, 0, 1, 2, 3, 4, 5, 6);
#if defined(__AVX2__)
  __m256i most = _mm256_set1_epi32(INT32_MAX), all = _mm256_set1_epi32(key);
  __m256i lesser = _mm256_min_epi32(_mm256_blend_epi32((__m256i)before, most, 1), all);
  *t = (ieight)_mm256_max_epi32((__m256i)top, lesser);
#else
  before[0] = INT32_MAX;
  before = ((before < key) & before) | (~(before < key) & key);
  *t = ((top > before) & top) | (~(top > before) & before);
#endif
}

static void top8(int32_t top[8], const float *x, size_t n) {
  ieight t;
  memcpy(&t, top, sizeof t);
  for (size_t some; n > 0; n -= some, x += some) {
    int32_t key[16];
    some = n < 16 ? n : 16;
    for (size_t j = 0; j < some; j++) {
      uint32_t u = isa_f32_bits(x[j]), k = u ^ (uint32_t)((int32_t)u >> 31 & INT32_MAX);
      key[j] = (int32_t)kern_pick(x[j] != x[j], 0x80000000u, k);
    }
    for (size_t j = some; j < 16; j++) key[j] = INT32_MIN;
    for (uint32_t m = above(key, t[7]); m; m &= m - 1) insert(&t, key[__builtin_ctz(m)]);
  }
  memcpy(top, &t, sizeof t);
}

void KERN(sum_fill)(vm_kern *k) {
  k->scan = scan;
  k->top8 = top8;
  k->bn_sums = bn_sums;
  k->spread = spread;
  k->partial[ISA_ALU_add] = partial_add;
  k->reduce[ISA_ALU_add] = reduce_add;
  k->partial[ISA_ALU_mult] = partial_mult;
  k->reduce[ISA_ALU_mult] = reduce_mult;
  k->partial[ISA_ALU_max] = partial_max;
  k->reduce[ISA_ALU_max] = reduce_max;
  k->partial[ISA_ALU_min] = partial_min;
  k->reduce[ISA_ALU_min] = reduce_min;
}
