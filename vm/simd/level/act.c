/* Activation functions over arrays, compiled once per SIMD level. */
#include "../actfn.h"

#include <string.h>

static bool as_is(const vm_act *a) {
  return a->scale == 1 && isa_f32_bits(a->bias) == isa_f32_bits(-0.0f);
}

#define ACT_LOOP(name, in) KERN_LOOP for (size_t i = 0; i < n; i++) d[i] = ACT_EVAL(name, in, param)

/* Several vectors at once, where there are registers for them: each is a long chain of dependent
 * steps, and a processor does not look far enough ahead to fill the waits with the next vector's.
 * In an array that overlaps nothing the compiler is free to take the steps of all of them in turn.
 */
#if defined(__AVX512F__) && !defined(__clang__) /* whose own order is better */
#define ACT_BLOCKS(name)                                                   \
  for (; n >= BLOCK; n -= BLOCK, x += BLOCK, d += BLOCK) {                 \
    float v[BLOCK];                                                        \
    memcpy(v, x, sizeof v);                                                \
    KERN_UNROLL(8)                                                         \
    for (size_t i = 0; i < BLOCK; i++) v[i] = ACT_EVAL(name, v[i], param); \
    memcpy(d, v, sizeof v);                                                \
  }
enum { BLOCK = 64 };
#else
#define ACT_BLOCKS(name)
#endif

/* Scale and bias are a loop of their own, only where they do something: inside a long loop they
 * cost 5 % of it, which is more than this. */
#define ACT_TABLE(name)                                              \
  if (!as_is(a)) {                                                   \
    KERN_LOOP                                                        \
    for (size_t i = 0; i < n; i++) d[i] = x[i] * a->scale + a->bias; \
    x = d;                                                           \
  }                                                                  \
  ACT_BLOCKS(name)                                                   \
  ACT_LOOP(name, x[i])
/* Simple arithmetic: a second pass would take as long as the first. */
#define ACT_NO_TABLE(name)                \
  float scale = a->scale, bias = a->bias; \
  if (as_is(a)) {                         \
    ACT_LOOP(name, x[i]);                 \
  } else {                                \
    ACT_LOOP(name, x[i] * scale + bias);  \
  }

#define ACTFN(name, code, lo, hi, gen, table)                                 \
  static void name##_n(float *d, const float *x, const vm_act *a, size_t n) { \
    float param = a->param;                                                   \
    (void)param;                                                              \
    ACT_##table(name);                                                        \
  }
#include "../../../isa/actfns.def"

#if defined(__AVX512F__)
/* ACT(exp) of several vectors of x * scale + bias, step by step for all of them, for the reason
 * above. The values are those of its operations: to clamp and to round are one instruction each, n
 * times the first part of ln2 is exact, and so is the first of its last two factors. */
enum { EXPS = 4 };
#pragma GCC diagnostic ignored \
    "-Wsign-conversion" /* in the header's macros, without optimisation */
#define ALL(c) _mm512_set1_ps(c)
#define EACH KERN_UNROLL(4) for (int j = 0; j < m; j++)
KERN_INLINE void exp_lanes(__m512 *v, int m, __m512 scale, __m512 bias) {
  __m512 n[EXPS], r[EXPS], low[EXPS], p[EXPS];
  __mmask16 nan[EXPS];
  EACH v[j] = _mm512_add_ps(_mm512_mul_ps(v[j], scale), bias);
  EACH nan[j] = _mm512_cmp_ps_mask(v[j], v[j], _CMP_UNORD_Q);
  EACH v[j] = _mm512_range_ps(v[j], ALL(ACT_FAR), 2); /* the lesser magnitude, with v's sign */
  EACH n[j] = _mm512_roundscale_ps(_mm512_mul_ps(v[j], ALL(0x1.715476p+0f)), 8);
  EACH v[j] = _mm512_fnmadd_ps(n[j], ALL(0x1.62e4p-1f), v[j]);
  EACH low[j] = _mm512_mul_ps(n[j], ALL(0x1.7f7d1cp-20f));
  EACH r[j] = _mm512_sub_ps(v[j], low[j]);
  EACH low[j] = _mm512_sub_ps(_mm512_sub_ps(v[j], r[j]), low[j]);
  EACH p[j] = _mm512_add_ps(_mm512_mul_ps(ALL(0x1.6a236ap-10f), r[j]), ALL(0x1.123a6ap-7f));
  EACH p[j] = _mm512_add_ps(_mm512_mul_ps(p[j], r[j]), ALL(0x1.5558f4p-5f));
  EACH p[j] = _mm512_add_ps(_mm512_mul_ps(p[j], r[j]), ALL(0x1.55549p-3f));
  EACH p[j] = _mm512_add_ps(_mm512_mul_ps(p[j], r[j]), ALL(0x1.fffffcp-2f));
  EACH p[j] = _mm512_add_ps(low[j], _mm512_mul_ps(_mm512_mul_ps(r[j], r[j]), p[j]));
  EACH v[j] = _mm512_add_ps(ALL(1), r[j]);
  EACH p[j] = _mm512_add_ps(_mm512_sub_ps(r[j], _mm512_sub_ps(v[j], ALL(1))), p[j]);
  EACH v[j] = _mm512_scalef_ps(_mm512_add_ps(v[j], p[j]), n[j]);
  EACH v[j] = _mm512_mask_mov_ps(v[j], nan[j], ALL(isa_bits_f32(KERN_NAN)));
}
#undef ALL

/* sums: NULL, or sixteen partials. */
KERN_INLINE void exp_row(float *d, float *part, const float *x, const vm_act *a, size_t n) {
  __m512 scale = _mm512_set1_ps(a->scale), bias = _mm512_set1_ps(a->bias), sum = scale, v[EXPS];
  const int m = EXPS;
  if (part) sum = _mm512_loadu_ps(part);
  for (; n >= 16 * EXPS; n -= 16 * EXPS, x += 16 * EXPS, d += 16 * EXPS) {
    EACH v[j] = _mm512_loadu_ps(x + 16 * j);
    exp_lanes(v, EXPS, scale, bias);
    EACH _mm512_storeu_ps(d + 16 * j, v[j]);
    if (part) EACH sum = _mm512_add_ps(sum, v[j]);
  }
  for (; n > 0; x += 16, d += 16) {
    size_t some = n < 16 ? n : 16;
    __mmask16 these = (__mmask16)((1u << some) - 1);
    v[0] = _mm512_maskz_loadu_ps(these, x);
    exp_lanes(v, 1, scale, bias);
    _mm512_mask_storeu_ps(d, these, v[0]);
    if (part) sum = _mm512_mask_add_ps(sum, these, sum, v[0]);
    n -= some;
  }
  if (part) _mm512_storeu_ps(part, sum);
}
#undef EACH

static void exp_only(float *d, const float *x, const vm_act *a, size_t n) {
  exp_row(d, NULL, x, a, n);
}
static void exp_with_sum(float *d, float part[16], const float *x, const vm_act *a, size_t n) {
  exp_row(d, part, x, a, n);
  for (int i = 0; i < 16; i++) part[i] = kern_canon(part[i]);
}
#else
/* As for simple arithmetic: a softmax has both, and in this loop they cost nothing. */
static void exp_only(float *d, const float *x, const vm_act *a, size_t n) {
  float param = 0;
  ACT_NO_TABLE(exp);
}
#define exp_with_sum NULL
#endif

void KERN(act_fill)(vm_kern *k) {
#define ACTFN(name, code, lo, hi, gen, table) k->actfn[code] = name##_n;
#include "../../../isa/actfns.def"
  k->actfn[ISA_FN_exp] = exp_only;
  k->exp_sum = exp_with_sum;
}
