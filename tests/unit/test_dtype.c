/* Conversions against slow references: the values of a type listed by their definition, and the
 * nearest one found by comparing distances. */
#include "../../isa/isa.h"

#include "f32_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* By hand from isa/README.md, Numbers: codes of the largest finite value, of overflow, and of NaN.
 */
typedef struct format {
  unsigned dtype, ebits, mbits;
  int bias;
  uint32_t max, over, nan;
  double largest;
} format;
static const format formats[] = {
    {ISA_float8_e3m4, 3, 4, 3, 0x6f, 0x70, 0x78, 15.5},
    {ISA_float8_e4m3, 4, 3, 7, 0x77, 0x78, 0x7c, 240},
    {ISA_float8_e4m3fn, 4, 3, 7, 0x7e, 0x7f, 0x7f, 448},
    {ISA_float8_e5m2, 5, 2, 15, 0x7b, 0x7c, 0x7e, 57344},
    {ISA_float16, 5, 10, 15, 0x7bff, 0x7c00, 0x7e00, 65504},
    {ISA_bfloat16, 8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x1.fep127},
    {ISA_float4_e2m1fn_x4, 2, 1, 1, 7, 7, 0, 6},
};
enum { NFORMATS = sizeof formats / sizeof *formats, NSCALAR = NFORMATS - 1 };

static double two_to(int e) {
  double v = 1;
  for (; e > 0; e--) v *= 2;
  for (; e < 0; e++) v /= 2;
  return v;
}

/* Value of a positive code, the one past the largest included as if the exponent continued. */
static double value_of(const format *f, uint32_t code) {
  uint32_t e = code >> f->mbits, m = code & ((1u << f->mbits) - 1);
  double unit = two_to((e ? (int)e : 1) - f->bias - (int)f->mbits);
  return (double)(m + (e ? 1u << f->mbits : 0)) * unit;
}

static double *values_of(const format *f) {
  double *v = malloc((f->max + 2) * sizeof *v);
  assert_non_null(v);
  for (uint32_t c = 0; c <= f->max + 1; c++) v[c] = value_of(f, c);
  return v;
}

/* Nearest code of a magnitude, ties to the even code; max + 1 when it overflows. */
static uint32_t nearest(const format *f, const double *v, double x) {
  uint32_t lo = 0, hi = f->max + 1;
  if (x >= v[hi]) return hi;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (v[mid] <= x)
      lo = mid;
    else
      hi = mid;
  }
  double below = x - v[lo], above = v[hi] - x;
  if (below < above) return lo;
  return above < below ? hi : lo % 2 == 0 ? lo : hi;
}

static uint32_t expected_code(const format *f, const double *v, uint32_t bits, bool saturate) {
  uint32_t mag = bits & 0x7fffffff;
  if (mag > 0x7f800000) return f->nan;
  uint32_t code = mag == 0x7f800000 ? f->max + 1 : nearest(f, v, (double)isa_bits_f32(mag));
  if (code > f->max) code = saturate ? f->max : f->over;
  if (code == f->nan && f->nan != 0) return code;
  return code | bits >> 31 << (f->ebits + f->mbits);
}

static void test_from_f32_nearest(void **state) {
  size_t n;
  uint32_t *cases = f32_cases(&n);
  (void)state;
  assert_non_null(cases);
  for (unsigned k = 0; k < NSCALAR; k++) {
    const format *f = &formats[k];
    double *v = values_of(f);
    assert_true(v[f->max] == f->largest);
    bool can_saturate = f->over == f->nan;
    for (size_t i = 0; i < n; i++) {
      float x = isa_bits_f32(cases[i]);
      uint32_t want = expected_code(f, v, cases[i], false), got = isa_from_f32(f->dtype, x, 0);
      if (got != want)
        fail_msg("%s of %08x: %x, not %x", isa_dtypes[f->dtype].name, cases[i], got, want);
      want = expected_code(f, v, cases[i], can_saturate);
      assert_int_equal(isa_from_f32(f->dtype, x, ISA_CVT_saturate), want);
    }
    free(v);
  }
  free(cases);
}

static void test_lanes_from_f32(void **state) {
  static const unsigned packed[][2] = {
      {ISA_float8_e5m2_x4, 3}, {ISA_float8_e4m3fn_x4, 2}, {ISA_float4_e2m1fn_x4, 6}};
  size_t n;
  uint32_t *cases = f32_cases(&n);
  (void)state;
  assert_non_null(cases);
  for (unsigned k = 0; k < 3; k++) {
    const format *f = &formats[packed[k][1]];
    double *v = values_of(f);
    for (size_t i = 0; i < n; i++) {
      uint32_t want = expected_code(f, v, cases[i], true);
      assert_int_equal(isa_lane_from_f32(packed[k][0], isa_bits_f32(cases[i])), want);
    }
    free(v);
  }
  free(cases);
}

static void test_to_f32_every_code(void **state) {
  (void)state;
  for (unsigned k = 0; k < NSCALAR; k++) {
    const format *f = &formats[k];
    unsigned sign_bit = f->ebits + f->mbits;
    for (uint32_t code = 0; code < 2u << sign_bit; code++) {
      uint32_t mag = code & ((1u << sign_bit) - 1), sign = code >> sign_bit << 31;
      uint32_t want;
      if (mag <= f->max)
        want = isa_f32_bits((float)value_of(f, mag)) | sign;
      else if (mag == f->over && f->over != f->nan)
        want = 0x7f800000 | sign;
      else
        want = 0x7fc00000;
      assert_int_equal(isa_f32_bits(isa_to_f32(f->dtype, code)), want);
      if (k < 4) assert_int_equal(isa_f32_bits(isa_to_f32(f->dtype, code | 0xabcd00)), want);
    }
  }
}

static void test_lanes_to_f32(void **state) {
  static const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  (void)state;
  for (unsigned lane = 0; lane < 4; lane++)
    for (uint32_t c = 0; c < 16; c++) {
      uint32_t want = isa_f32_bits(fp4[c & 7]) | c >> 3 << 31;
      float got = isa_lane_to_f32(ISA_float4_e2m1fn_x4, c << (4 * lane), lane);
      assert_int_equal(isa_f32_bits(got), want);
    }
  /* 1.0 is 0x3c in e5m2 and 0x38 in e4m3fn; lane 0 is in the low byte. */
  assert_true(isa_lane_to_f32(ISA_float8_e5m2_x4, 0x003c0000, 2) == 1);
  assert_true(isa_lane_to_f32(ISA_float8_e5m2_x4, 0x003c0000, 1) == 0);
  assert_true(isa_lane_to_f32(ISA_float8_e4m3fn_x4, 0xb8000038, 0) == 1);
  assert_true(isa_lane_to_f32(ISA_float8_e4m3fn_x4, 0xb8000038, 3) == -1);
  assert_int_equal(isa_f32_bits(isa_lane_to_f32(ISA_float8_e4m3fn_x4, 0x7f00, 1)), 0x7fc00000);
}

static void test_tfloat32_and_float32(void **state) {
  size_t n;
  uint32_t *cases = f32_cases(&n);
  (void)state;
  assert_non_null(cases);
  for (size_t i = 0; i < n; i++) {
    uint32_t u = cases[i], mag = u & 0x7fffffff, low = mag & ~0x1fffu, high = low + 0x2000;
    double x = isa_bits_f32(mag), above = (double)isa_bits_f32(high) - x;
    if (high == 0x7f800000) above = two_to(128) - x;
    double below = x - (double)isa_bits_f32(low);
    uint32_t want = below < above || (below == above && !(low & 0x2000)) ? low : high;
    if (mag == 0x7f800000) want = mag;
    want = mag > 0x7f800000 ? 0x7fc00000 : want | (u & 0x80000000);
    assert_int_equal(isa_from_f32(ISA_tfloat32, isa_bits_f32(u), 0), want);
    assert_int_equal(isa_f32_bits(isa_to_f32(ISA_float32, u)), u);
    uint32_t stored = mag > 0x7f800000 ? 0x7fc00000 : u;
    assert_int_equal(isa_from_f32(ISA_float32, isa_bits_f32(u), 0), stored);
    uint32_t loaded = isa_f32_bits(isa_to_f32(ISA_tfloat32, u)), kept = u & 0xffffe000;
    assert_int_equal(loaded, (kept & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : kept);
  }
  free(cases);
}

static void test_e8m0(void **state) {
  (void)state;
  for (uint32_t c = 0; c < 255; c++) {
    double v = two_to((int)c - 127);
    assert_true((double)isa_to_f32(ISA_float8_e8m0fnu, c) == v);
    assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, (float)v, 0), c);
    /* 1.5 is the tie: to the even code. */
    assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, (float)(v * 1.5), 0), c + (c & 1));
    if (c > 2) {
      assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, (float)(v * 1.499), 0), c);
      assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, (float)(v * 1.501), 0), c + 1);
    }
  }
  assert_int_equal(isa_f32_bits(isa_to_f32(ISA_float8_e8m0fnu, 255)), 0x7fc00000);
  static const uint32_t nans[] = {0xbf800000, 0x80000001, 0x7f800000,
                                  0xff800000, 0x7fc00000, 0xffc00001};
  for (unsigned i = 0; i < 6; i++)
    assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, isa_bits_f32(nans[i]), 0), 255);
  assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, 0.0f, 0), 0);
  assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, -0.0f, 0), 0);
  assert_int_equal(isa_from_f32(ISA_float8_e8m0fnu, 0x1p-149f, 0), 0);
}

/* Nearest even in double, which holds every value here exactly. */
static int64_t expected_int(uint32_t bits, double lo, double hi) {
  double x = isa_bits_f32(bits);
  if (x != x) return 0;
  if (x <= lo) return (int64_t)lo;
  if (x >= hi) return (int64_t)hi;
  int64_t t = (int64_t)x;
  double rest = x - (double)t, size = rest < 0 ? -rest : rest;
  if (size > 0.5 || (size == 0.5 && t % 2 != 0)) t += rest < 0 ? -1 : 1;
  return t;
}

static void test_integers(void **state) {
  static const struct {
    unsigned dtype, bits;
    double lo, hi;
  } types[] = {{ISA_uint8, 8, 0, 255},
               {ISA_int8, 8, -128, 127},
               {ISA_uint16, 16, 0, 65535},
               {ISA_int16, 16, -32768, 32767},
               {ISA_uint32, 32, 0, 4294967295.0},
               {ISA_int32, 32, -2147483648.0, 2147483647.0}};
  size_t n;
  uint32_t *cases = f32_cases(&n);
  (void)state;
  assert_non_null(cases);
  for (unsigned k = 0; k < 6; k++) {
    uint32_t mask = types[k].bits == 32 ? UINT32_MAX : (1u << types[k].bits) - 1;
    for (size_t i = 0; i < n; i++) {
      uint32_t want = (uint32_t)expected_int(cases[i], types[k].lo, types[k].hi) & mask;
      assert_int_equal(isa_from_f32(types[k].dtype, isa_bits_f32(cases[i]), 0), want);
    }
    for (int64_t v = -70000; v < 70000; v++) {
      if ((double)v < types[k].lo || (double)v > types[k].hi) continue;
      assert_true(isa_to_f32(types[k].dtype, (uint32_t)v & mask) == (float)v);
    }
  }
  free(cases);
  assert_true(isa_to_f32(ISA_int32, 0x80000000) == -0x1p31f);
  assert_true(isa_to_f32(ISA_int32, 0x7fffffff) == 0x1p31f);
  assert_true(isa_to_f32(ISA_uint32, 0xffffffff) == 0x1p32f);
  assert_true(isa_to_f32(ISA_uint32, 0x01000001) == 16777216); /* ties to even */
  assert_true(isa_to_f32(ISA_uint32, 0x01000003) == 16777220);
  assert_true(isa_to_f32(ISA_int32, 0xfeffffff) == -16777216);
}

static void test_bool_and_types_without_fp32(void **state) {
  static const unsigned none[] = {0,
                                  ISA_uint64,
                                  ISA_int64,
                                  ISA_float8_e5m2_x4,
                                  ISA_float8_e4m3fn_x4,
                                  ISA_float4_e2m1fn_x4,
                                  ISA_NDTYPES,
                                  255};
  (void)state;
  assert_true(isa_to_f32(ISA_bool, 0) == 0 && isa_to_f32(ISA_bool, 1) == 1);
  assert_true(isa_to_f32(ISA_bool, 0x80) == 1);
  assert_int_equal(isa_from_f32(ISA_bool, -0.0f, 0), 0);
  assert_int_equal(isa_from_f32(ISA_bool, 0x1p-149f, 0), 1);
  assert_int_equal(isa_from_f32(ISA_bool, isa_bits_f32(0x7fc00000), 0), 1);
  for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
    assert_int_equal(isa_f32_bits(isa_to_f32(none[i], 1)), 0x7fc00000);
    assert_int_equal(isa_from_f32(none[i], 1.0f, 0), 0);
  }
  assert_int_equal(isa_f32_bits(isa_lane_to_f32(ISA_float16, 0, 0)), 0x7fc00000);
  assert_int_equal(isa_f32_bits(isa_lane_to_f32(ISA_float8_e5m2_x4, 0, 4)), 0x7fc00000);
  assert_int_equal(isa_lane_from_f32(ISA_float16, 1), 0);
}

/* Up exactly when random is below the dropped fraction times 2^32. */
static void test_stochastic(void **state) {
  (void)state;
  float x = isa_bits_f32(0x3f804000); /* 1 and a quarter of bfloat16's last place */
  assert_int_equal(isa_from_f32_sr(ISA_bfloat16, x, 0, 0), 0x3f81);
  assert_int_equal(isa_from_f32_sr(ISA_bfloat16, x, 0, 0x3fffffff), 0x3f81);
  assert_int_equal(isa_from_f32_sr(ISA_bfloat16, x, 0, 0x40000000), 0x3f80);
  assert_int_equal(isa_from_f32_sr(ISA_bfloat16, -x, 0, 0x3fffffff), 0xbf81);
  assert_int_equal(isa_from_f32_sr(ISA_bfloat16, 1.0f, 0, 0), 0x3f80);
  x = isa_bits_f32(0x3f801000);
  assert_int_equal(isa_from_f32_sr(ISA_tfloat32, x, 0, 0x7fffffff), 0x3f802000);
  assert_int_equal(isa_from_f32_sr(ISA_tfloat32, x, 0, 0x80000000), 0x3f800000);
  /* Half of the least subnormal of fp16, and a 2^-32nd part of it. */
  assert_int_equal(isa_from_f32_sr(ISA_float16, 0x1p-25f, 0, 0x7fffffff), 1);
  assert_int_equal(isa_from_f32_sr(ISA_float16, 0x1p-25f, 0, 0x80000000), 0);
  assert_int_equal(isa_from_f32_sr(ISA_float16, 0x1p-56f, 0, 0), 1);
  assert_int_equal(isa_from_f32_sr(ISA_float16, 0x1p-57f, 0, 0), 0);
  assert_int_equal(isa_from_f32_sr(ISA_float16, 0x1p-149f, 0, 0), 0);
  /* Overflow, infinity, NaN. */
  assert_int_equal(isa_from_f32_sr(ISA_float8_e4m3fn, 464, 0, 0x7fffffff), 0x7f);
  assert_int_equal(isa_from_f32_sr(ISA_float8_e4m3fn, 464, ISA_CVT_saturate, 0x7fffffff), 0x7e);
  assert_int_equal(isa_from_f32_sr(ISA_float8_e4m3fn, 464, 0, 0x80000000), 0x7e);
  assert_int_equal(isa_from_f32_sr(ISA_float16, isa_bits_f32(0xff800000), 0, 5), 0xfc00);
  assert_int_equal(isa_from_f32_sr(ISA_float16, isa_bits_f32(0xffc00001), 0, 5), 0x7e00);
  assert_int_equal(isa_from_f32_sr(ISA_float8_e8m0fnu, 1.25f, 0, 0x3fffffff), 128);
  assert_int_equal(isa_from_f32_sr(ISA_float8_e8m0fnu, 1.25f, 0, 0x40000000), 127);
  assert_int_equal(isa_from_f32_sr(ISA_int8, 2.75f, 0, 0xffffffff), 3); /* integers: nearest */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_from_f32_nearest),
      cmocka_unit_test(test_lanes_from_f32),
      cmocka_unit_test(test_to_f32_every_code),
      cmocka_unit_test(test_lanes_to_f32),
      cmocka_unit_test(test_tfloat32_and_float32),
      cmocka_unit_test(test_e8m0),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_bool_and_types_without_fp32),
      cmocka_unit_test(test_stochastic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
