/* Activation functions over arrays, compiled once per SIMD level. */
#include "../actfn.h"

static bool as_is(const vm_act *a) {
  return a->scale == 1 && isa_f32_bits(a->bias) == isa_f32_bits(-0.0f);
}

#define ACT_LOOP(name, in) KERN_LOOP for (size_t i = 0; i < n; i++) d[i] = ACT_EVAL(name, in, param)

/* Scale and bias are a loop of their own, only where they do something: inside a long loop they
 * cost 5 % of it, which is more than this. */
#define ACT_TABLE(name)                                              \
  if (!as_is(a)) {                                                   \
    KERN_LOOP                                                        \
    for (size_t i = 0; i < n; i++) d[i] = x[i] * a->scale + a->bias; \
    x = d;                                                           \
  }                                                                  \
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
#undef ACTFN

#if defined(__AVX512F__)
/* ACT(exp) of x * scale + bias, operation for operation. Its last two factors are one here: the
 * first of them is exact, and this instruction rounds once, as the second does. */
KERN_INLINE __m512 exp_lanes(__m512 x, __m512 scale, __m512 bias) {
#define ALL(c) _mm512_set1_ps(c)
#define FAR(c) _mm512_castps_si512(ALL(c))
  __m512 in = _mm512_add_ps(_mm512_mul_ps(x, scale), bias);
  __m512i low_end = _mm512_min_epu32(_mm512_castps_si512(in), FAR(-ACT_FAR));
  __m512 z = _mm512_castsi512_ps(_mm512_min_epi32(low_end, FAR(ACT_FAR)));
  __m512 n = _mm512_add_ps(_mm512_mul_ps(z, ALL(0x1.715476p+0f)), ALL(0x1.8p+23f));
  n = _mm512_sub_ps(n, ALL(0x1.8p+23f));
  __m512 t = _mm512_sub_ps(z, _mm512_mul_ps(n, ALL(0x1.62e4p-1f)));
  __m512 u = _mm512_mul_ps(n, ALL(0x1.7f7d1cp-20f)), r = _mm512_sub_ps(t, u);
  __m512 low = _mm512_sub_ps(_mm512_sub_ps(t, r), u);
  __m512 p = ALL(0x1.6a236ap-10f);
  p = _mm512_add_ps(_mm512_mul_ps(p, r), ALL(0x1.123a6ap-7f));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), ALL(0x1.5558f4p-5f));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), ALL(0x1.55549p-3f));
  p = _mm512_add_ps(_mm512_mul_ps(p, r), ALL(0x1.fffffcp-2f));
  p = _mm512_add_ps(low, _mm512_mul_ps(_mm512_mul_ps(r, r), p));
  __m512 sum = _mm512_add_ps(ALL(1), r), lost = _mm512_sub_ps(r, _mm512_sub_ps(sum, ALL(1)));
  __m512 y = _mm512_scalef_ps(_mm512_add_ps(sum, _mm512_add_ps(lost, p)), n);
  __mmask16 nan = _mm512_cmp_ps_mask(in, in, _CMP_UNORD_Q);
  return _mm512_mask_mov_ps(y, nan, ALL(isa_bits_f32(KERN_NAN)));
#undef ALL
#undef FAR
}

/* sums: NULL, or sixteen partials. */
KERN_INLINE void exp_row(float *d, float *part, const float *x, const vm_act *a, size_t n) {
  __m512 scale = _mm512_set1_ps(a->scale), bias = _mm512_set1_ps(a->bias), sum = scale;
  if (part) sum = _mm512_loadu_ps(part);
  for (; n >= 16; n -= 16, x += 16, d += 16) {
    __m512 y = exp_lanes(_mm512_loadu_ps(x), scale, bias);
    _mm512_storeu_ps(d, y);
    if (part) sum = _mm512_add_ps(sum, y);
  }
  __mmask16 rest = (__mmask16)((1u << n) - 1);
  if (rest) {
    __m512 y = exp_lanes(_mm512_maskz_loadu_ps(rest, x), scale, bias);
    _mm512_mask_storeu_ps(d, rest, y);
    if (part) sum = _mm512_mask_add_ps(sum, rest, sum, y);
  }
  if (part) _mm512_storeu_ps(part, sum);
}

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
#undef ACTFN
  k->actfn[ISA_FN_exp] = exp_only;
  k->exp_sum = exp_with_sum;
}
