/* The activation functions against MPFR, at points written by hand, and level against level. */
#include "../ulp/exact.h"
#include "full.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The design asks for 1 ulp; these hold the functions to what they do. All but exp are evaluated
 * in double and rounded once, tanh by a shorter polynomial than the others. */
static double bound(unsigned fn) {
  return fn == ISA_FN_exp ? 0.78 : fn == ISA_FN_tanh ? 0.69 : 0.505;
}

static const float slope = 0.25f; /* of prelu */
static const float inf = HUGE_VALF;

static void check(exact *e, unsigned fn, float x) {
  float y = vm_actfn_f32(fn, x, slope);
  exact_eval(e, fn, x, slope);
  double d = exact_ulps(e, y);
  if (!(d <= bound(fn)))
    fail_msg("%s(%a) = %a is off by %g ulp", isa_actfns[fn].name, (double)x, (double)y, d);
}

/* ---- Points ------------------------------------------------------------------------------- */

typedef struct point {
  unsigned fn;
  float x, y;
} point;

static const point points[] = {
    {ISA_FN_copy, -0.0f, -0.0f},
    {ISA_FN_copy, 0x1p-149f, 0x1p-149f},
    {ISA_FN_square, -3, 9},
    {ISA_FN_square, 0x1p-75f, 0}, /* 2^-150: a tie, to even */
    {ISA_FN_square, 0x1p64f, inf},
    {ISA_FN_sigmoid, 0, 0.5f},
    {ISA_FN_sigmoid, -inf, 0},
    {ISA_FN_sigmoid, inf, 1},
    {ISA_FN_relu, -1, 0},
    {ISA_FN_relu, -0.0f, 0},
    {ISA_FN_relu, -inf, 0},
    {ISA_FN_relu, 7, 7},
    {ISA_FN_relu, inf, inf},
    {ISA_FN_prelu, -8, -2},
    {ISA_FN_prelu, -0.0f, -0.0f},
    {ISA_FN_prelu, 3, 3},
    {ISA_FN_prelu, -inf, -inf},
    {ISA_FN_gelu, 0, 0},
    {ISA_FN_gelu, -inf, -0.0f},
    {ISA_FN_gelu, inf, inf},
    {ISA_FN_gelu, 20, 20},
    {ISA_FN_gelu_dx, 0, 0.5f},
    {ISA_FN_gelu_dx, -inf, -0.0f},
    {ISA_FN_gelu_dx, inf, 1},
    {ISA_FN_gelu_apprx_tanh, 0, 0},
    {ISA_FN_gelu_apprx_tanh, -inf, -0.0f},
    {ISA_FN_gelu_apprx_tanh, inf, inf},
    {ISA_FN_gelu_apprx_sigmoid, 0, 0},
    {ISA_FN_gelu_apprx_sigmoid, -inf, -0.0f},
    {ISA_FN_gelu_apprx_sigmoid, inf, inf},
    {ISA_FN_gelu_apprx_sigmoid_dx, 0, 0.5f},
    {ISA_FN_gelu_apprx_sigmoid_dx, -inf, -0.0f},
    {ISA_FN_gelu_apprx_sigmoid_dx, inf, 1},
    {ISA_FN_silu, 0, 0},
    {ISA_FN_silu, -inf, -0.0f},
    {ISA_FN_silu, inf, inf},
    {ISA_FN_silu_dx, 0, 0.5f},
    {ISA_FN_silu_dx, -inf, -0.0f},
    {ISA_FN_silu_dx, inf, 1},
    {ISA_FN_tanh, 0, 0},
    {ISA_FN_tanh, -0.0f, -0.0f},
    {ISA_FN_tanh, 0x1p-149f, 0x1p-149f},
    {ISA_FN_tanh, -inf, -1},
    {ISA_FN_tanh, inf, 1},
    {ISA_FN_softplus, -inf, 0},
    {ISA_FN_softplus, inf, inf},
    {ISA_FN_softplus, 100, 100},
    {ISA_FN_mish, 0, 0},
    {ISA_FN_mish, -inf, -0.0f},
    {ISA_FN_mish, inf, inf},
    {ISA_FN_erf, 0, 0},
    {ISA_FN_erf, -0.0f, -0.0f},
    {ISA_FN_erf, -inf, -1},
    {ISA_FN_erf, inf, 1},
    {ISA_FN_erf_dx, -inf, 0},
    {ISA_FN_erf_dx, inf, 0},
    {ISA_FN_exp, 0, 1},
    {ISA_FN_exp, -0.0f, 1},
    {ISA_FN_exp, -inf, 0},
    {ISA_FN_exp, inf, inf},
    {ISA_FN_exp, 89, inf},
    {ISA_FN_exp, -103.9720764f, 0x1p-149f}, /* just above 2^-150 */
    {ISA_FN_exp, -103.9721f, 0},
    {ISA_FN_log, 1, 0},
    {ISA_FN_log, 0, -inf},
    {ISA_FN_log, -0.0f, -inf},
    {ISA_FN_log, inf, inf},
    {ISA_FN_sin, 0, 0},
    {ISA_FN_sin, -0.0f, -0.0f},
    {ISA_FN_sin, inf, inf},
    {ISA_FN_sin, -inf, -inf},
    {ISA_FN_sin, 0x1.921fb6p+1f, -0x1.777a5cp-24f}, /* pi's nearest float */
    {ISA_FN_arctan, -0.0f, -0.0f},
    {ISA_FN_arctan, inf, 0x1.921fb6p+0f},
    {ISA_FN_arctan, -inf, -0x1.921fb6p+0f},
    {ISA_FN_sqrt, 0x1p-149f, 0x1.6a09e6p-75f},
    {ISA_FN_sqrt, 9, 3},
    {ISA_FN_sqrt, -0.0f, -0.0f},
    {ISA_FN_sqrt, inf, inf},
    {ISA_FN_rsqrt, 4, 0.5f},
    {ISA_FN_rsqrt, 0, inf},
    {ISA_FN_rsqrt, inf, 0},
    {ISA_FN_reciprocal, -4, -0.25f},
    {ISA_FN_reciprocal, 0, inf},
    {ISA_FN_reciprocal, -0.0f, -inf},
    {ISA_FN_reciprocal, -inf, -0.0f},
    {ISA_FN_sign, 0, 0},
    {ISA_FN_sign, -0.0f, 0},
    {ISA_FN_sign, -0x1p-149f, -1},
    {ISA_FN_sign, inf, 1},
    {ISA_FN_abs, -0.0f, 0},
    {ISA_FN_abs, -inf, inf},
};

/* Exact to the bit, signs of zero included. */
static void test_points(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    const point *p = &points[i];
    float y = vm_actfn_f32(p->fn, p->x, slope);
    if (isa_f32_bits(y) != isa_f32_bits(p->y))
      fail_msg("%s(%a) = %a, not %a", isa_actfns[p->fn].name, (double)p->x, (double)y,
               (double)p->y);
  }
  float nine = vm_actfn_f32(ISA_FN_sin, 9, 0); /* the machine's published value, about 27.65 */
  assert_true(nine > 27.645f && nine < 27.655f);
}

static void test_nan(void **state) {
  (void)state;
  const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345, 0x7fffffff, 0xffffffff};
  for (unsigned fn = 0; fn < ISA_NACTFNS; fn++)
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++)
      assert_int_equal(isa_f32_bits(vm_actfn_f32(fn, isa_bits_f32(nans[i]), slope)), 0x7fc00000);
  const unsigned below_zero[] = {ISA_FN_log, ISA_FN_sqrt, ISA_FN_rsqrt};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(isa_f32_bits(vm_actfn_f32(below_zero[i], -1, 0)), 0x7fc00000);
    assert_int_equal(isa_f32_bits(vm_actfn_f32(below_zero[i], -inf, 0)), 0x7fc00000);
  }
  float nan = isa_bits_f32(0xff800001);
  assert_int_equal(isa_f32_bits(vm_actfn_f32(ISA_FN_prelu, -1, nan)), 0x7fc00000);
  assert_int_equal(isa_f32_bits(vm_actfn_f32(ISA_FN_prelu, -inf, 0)), 0x7fc00000);
  assert_true(vm_actfn_f32(ISA_FN_prelu, 1, nan) == 1);
  assert_int_equal(isa_f32_bits(vm_actfn_f32(ISA_NACTFNS, 1, 0)), 0x7fc00000);
}

/* ---- Against MPFR ------------------------------------------------------------------------- */

/* The value of an fp16 bit pattern, finite ones only; from the format's definition. */
static float half(uint32_t bits) {
  int exp = (int)(bits >> 10 & 31);
  float m = (float)(bits & 1023);
  float v = exp ? ldexpf(m + 1024, exp - 25) : ldexpf(m, -24);
  return bits >> 15 ? -v : v;
}

/* Each function sees its own fifth, in short fiftieth, of the fp16 and of the bf16 values; `make
 * ulp` sees more. */
static void test_half_types(void **state) {
  (void)state;
  exact e;
  exact_init(&e);
  for (unsigned fn = 0; fn < ISA_NACTFNS; fn++)
    for (uint32_t i = fn % 5; i < 0x10000; i += full_or(5, 50)) {
      if ((i >> 10 & 31) != 31) check(&e, fn, half(i));
      if ((i >> 7 & 255) != 255) check(&e, fn, isa_bits_f32(i << 16));
    }
  exact_free(&e);
}

/* 2^14 patterns evenly over all floats, and 2^16 with magnitudes of 2^-16 to 2^7.3; in short every
 * eighth. */
static void test_log_spaced(void **state) {
  (void)state;
  exact e;
  exact_init(&e);
  for (unsigned fn = 0; fn < ISA_NACTFNS; fn++) {
    for (uint32_t i = 0; i < 1 << 14; i += full_or(1, 8)) {
      uint32_t bits = i * 0x3ffffu + fn;
      if ((bits >> 23 & 255) != 255) check(&e, fn, isa_bits_f32(bits));
    }
    const uint32_t lo = 0x37800000, hi = 0x431e0000;
    for (uint32_t i = 0; i < 1 << 15; i += full_or(1, 8)) {
      float x = isa_bits_f32(lo + (uint32_t)((uint64_t)(hi - lo) * i >> 15) + fn);
      check(&e, fn, x);
      check(&e, fn, -x);
    }
  }
  exact_free(&e);
}

/* Every float, in short every ninth, near the roots that are not at zero, and near where results
 * vanish or overflow. */
static void test_hard_places(void **state) {
  (void)state;
  const point places[] = {
      {ISA_FN_gelu_dx, -0.75179154f, 0},
      {ISA_FN_silu_dx, -1.2784645f, 0},
      {ISA_FN_gelu_apprx_sigmoid_dx, -0.75115424f, 0},
      {ISA_FN_log, 1, 0},
      {ISA_FN_sin, 0x1.921fb6p+1f, 0},
      {ISA_FN_sin, -0x1.921fb6p+1f, 0},
      {ISA_FN_sin, 0x1.921fb6p+0f, 0},
      {ISA_FN_arctan, 1, 0},
      {ISA_FN_exp, 88.722839f, 0},
      {ISA_FN_exp, -103.97208f, 0},
      {ISA_FN_exp, -87.33655f, 0},
      {ISA_FN_sigmoid, -103.97208f, 0},
      {ISA_FN_silu, -108.6f, 0},
      {ISA_FN_mish, -108.6f, 0},
      {ISA_FN_softplus, -103.97208f, 0},
      {ISA_FN_gelu, -14.28f, 0},
      {ISA_FN_gelu_dx, -14.5f, 0},
      {ISA_FN_erf, 3.92f, 0},
      {ISA_FN_erf_dx, 10.2f, 0},
      {ISA_FN_tanh, 9.01f, 0},
      {ISA_FN_tanh, 0.1732868f, 0}, /* e^2x passes to the next power of two */
  };
  exact e;
  exact_init(&e);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    for (uint32_t k = 2000 % full_or(1, 9); k < 4000; k += full_or(1, 9))
      check(&e, places[i].fn, isa_bits_f32(isa_f32_bits(places[i].x) - 2000 + k));
  exact_free(&e);
}

/* ---- Monotone ----------------------------------------------------------------------------- */

typedef struct slopes {
  unsigned fn;
  float lo, hi;
  int dir;
} slopes;

/* Orders floats as integers. */
static int64_t rank_of(float x) {
  uint32_t u = isa_f32_bits(x);
  return u >> 31 ? -(int64_t)(u & INT32_MAX) : (int64_t)u;
}
static float of_rank(int64_t r) {
  return r < 0 ? -isa_bits_f32((uint32_t)-r) : isa_bits_f32((uint32_t)r);
}

/* Runs of 64 adjacent floats, 700 of them spread over lo .. hi. */
static void check_monotone(const slopes *s) {
  int64_t lo = rank_of(s->lo), hi = rank_of(s->hi), stride = (hi - lo) / 700 + 1;
  float last = s->dir > 0 ? -inf : inf;
  for (int64_t start = lo; start <= hi; start += stride)
    for (int64_t r = start; r < start + 64 && r <= hi; r++) {
      float y = vm_actfn_f32(s->fn, of_rank(r), slope);
      if (s->dir > 0 ? y < last : y > last)
        fail_msg("%s is not monotone at %a", isa_actfns[s->fn].name, (double)of_rank(r));
      last = y;
    }
}

static void test_monotone(void **state) {
  (void)state;
  const slopes all[] = {
      {ISA_FN_sigmoid, -inf, inf, 1},
      {ISA_FN_relu, -inf, inf, 1},
      {ISA_FN_prelu, -inf, inf, 1},
      {ISA_FN_gelu, -inf, -0.7518f, -1},
      {ISA_FN_gelu, -0.7517f, inf, 1},
      {ISA_FN_gelu_dx, -inf, -1.4143f, -1},
      {ISA_FN_gelu_dx, -1.4142f, 1.4142f, 1},
      {ISA_FN_gelu_dx, 1.4143f, inf, -1},
      {ISA_FN_gelu_apprx_tanh, -inf, -0.76f, -1},
      {ISA_FN_gelu_apprx_tanh, -0.74f, inf, 1},
      {ISA_FN_gelu_apprx_sigmoid, -inf, -0.7512f, -1},
      {ISA_FN_gelu_apprx_sigmoid, -0.7511f, inf, 1},
      {ISA_FN_silu, -inf, -1.2785f, -1},
      {ISA_FN_silu, -1.2784f, inf, 1},
      {ISA_FN_silu_dx, -inf, -2.4f, -1},
      {ISA_FN_silu_dx, -2.3993f, 2.3993f, 1},
      {ISA_FN_silu_dx, 2.4f, inf, -1},
      {ISA_FN_tanh, -inf, inf, 1},
      {ISA_FN_tanh, -1, 1, 1},
      {ISA_FN_softplus, -inf, inf, 1},
      {ISA_FN_mish, -inf, -1.193f, -1},
      {ISA_FN_mish, -1.192f, inf, 1},
      {ISA_FN_erf, -inf, inf, 1},
      {ISA_FN_erf, -4, 4, 1},
      {ISA_FN_erf_dx, -inf, 0, 1},
      {ISA_FN_erf_dx, 0, inf, -1},
      {ISA_FN_exp, -inf, inf, 1},
      {ISA_FN_exp, 0.25f, 90, 1},
      {ISA_FN_exp, -105, -0.25f, 1},
      {ISA_FN_log, 0, inf, 1},
      {ISA_FN_log, 0.5f, 2, 1},
      {ISA_FN_sin, -0x1.921fb4p+0f, 0x1.921fb4p+0f, 1},
      {ISA_FN_sin, 0x1.921fb6p+0f, 4.5557f, -1}, /* falls on to pi + sqrt2 */
      {ISA_FN_sin, 4.5559f, inf, 1},
      {ISA_FN_arctan, -inf, inf, 1},
      {ISA_FN_arctan, 0.5f, 2, 1},
      {ISA_FN_sqrt, 0, inf, 1},
      {ISA_FN_rsqrt, 0, inf, -1},
      {ISA_FN_reciprocal, 0, inf, -1},
      {ISA_FN_sign, -inf, inf, 1},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_monotone(&all[i]);
}

/* ---- Level against level ------------------------------------------------------------------ */

enum { MANY = 1 << 17 };

static uint32_t next_random(uint32_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  return *s ^= *s << 5;
}

/* Any bit pattern, then patterns with exponents near 1, then round numbers and specials. */
static void fill(float *x) {
  uint32_t s = 2463534242u;
  for (uint32_t i = 0; i < MANY; i++) {
    uint32_t u = next_random(&s);
    if (i % 4 == 1) u = (u & 0x87ffffff) | 0x38000000;
    if (i % 4 == 2) u &= 0xfff00000;
    if (i % 64 == 3) u = (u & 0x80000000) | (u & 1 ? 0x7f800000 : 0);
    x[i] = isa_bits_f32(u);
  }
}

/* Element by element the bits of the scalar function, in place or not, nothing beyond the end. */
static void check_array(const vm_kern *k, unsigned fn, const float *x, size_t n, bool in_place,
                        float *d) {
  if (in_place) memcpy(d, x, n * sizeof *d);
  d[n] = 12345;
  k->actfn[fn](d, in_place ? d : x, &(vm_act){1, -0.0f, slope}, n);
  assert_true(d[n] == 12345);
  for (size_t i = 0; i < n; i++) {
    uint32_t want = isa_f32_bits(vm_actfn_f32(fn, x[i], slope));
    if (isa_f32_bits(d[i]) != want)
      fail_msg("%s %s(%a), element %zu of %zu: bits %08x, scalar %08x", k->name,
               isa_actfns[fn].name, (double)x[i], i, n, (unsigned)isa_f32_bits(d[i]),
               (unsigned)want);
  }
}

/* With a scale and a bias: the function of the twice rounded x * scale + bias; and sums of exp. */
static void check_affine(const vm_kern *k, unsigned fn, const float *x, size_t n, float *d) {
  const vm_act a = {.scale = 0.75f, .bias = -0.3f, .param = slope};
  float t[70], want[70], part[16] = {0}, sum[16] = {0};
  assert_true(n <= 70);
  for (size_t i = 0; i < n; i++) {
    float product = x[i] * a.scale;
    t[i] = product + a.bias;
    want[i] = vm_actfn_f32(fn, t[i], slope);
  }
  k->actfn[fn](d, x, &a, n);
  assert_memory_equal(d, want, n * sizeof *d);
  if (fn != ISA_FN_exp || !k->exp_sum) return;
  k->exp_sum(d, part, x, &a, n);
  assert_memory_equal(d, want, n * sizeof *d);
  k->partial[ISA_ALU_add](sum, want, n);
  assert_memory_equal(part, sum, sizeof sum);
}

static void test_levels(void **state) {
  (void)state;
  const char *names[] = {"plain", "avx2", "avx512"};
  float *x = malloc(MANY * sizeof *x), *d = malloc((MANY + 1) * sizeof *d);
  assert_true(x && d);
  fill(x);
  for (size_t level = 0; level < 3; level++) {
    vm_kern k;
    assert_true(vm_kern_select(names[level], &k));
    if (strcmp(k.name, names[level]) != 0) continue; /* the host has less */
    for (unsigned fn = 0; fn < ISA_NACTFNS; fn++) {
      check_array(&k, fn, x, MANY, false, d);
      for (size_t n = 0; n < 70; n++) {
        check_array(&k, fn, x + n, n, n % 2, d + 1);
        check_affine(&k, fn, x + 64 * n, n, d);
      }
    }
  }
  free(d);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_points),      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_half_types),  cmocka_unit_test(test_log_spaced),
      cmocka_unit_test(test_hard_places), cmocka_unit_test(test_monotone),
      cmocka_unit_test(test_levels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
