/* Scalar operators against values written by hand, NumPy's long double (pow) and exact fractions
 * (mod), and wide arithmetic (fma). All floats as bits. */
#include "../../vm/simd/loops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define ONE 0x3f800000u
#define NEG1 0xbf800000u
#define TWO 0x40000000u
#define INF 0x7f800000u
#define NINF 0xff800000u
#define NZERO 0x80000000u
#define QNAN 0x7fc00000u
#define ODDNAN 0xffabcdefu /* negative, with a payload */
#define MAXF 0x7f7fffffu
#define LEAST 0x00000001u

#if defined(__x86_64__)
__extension__ typedef __float128 wide;
#else
typedef long double wide;
#endif

typedef struct binary {
  uint32_t a, b, want;
} binary;

static uint32_t f32_op(unsigned op, uint32_t a, uint32_t b) {
  return isa_f32_bits(vm_alu_f32(op, isa_bits_f32(a), isa_bits_f32(b)));
}
static void check(unsigned op, uint32_t a, uint32_t b, uint32_t want) {
  uint32_t got = f32_op(op, a, b);
  if (got != want) fail_msg("%s(%08x, %08x): %08x, not %08x", isa_aluops[op].name, a, b, got, want);
}

static void test_arithmetic(void **state) {
  (void)state;
  check(ISA_ALU_add, ONE, TWO, 0x40400000);
  check(ISA_ALU_add, 0x4b800000, ONE, 0x4b800000); /* 2^24 + 1: tie to even */
  check(ISA_ALU_add, INF, NINF, QNAN);
  check(ISA_ALU_add, NZERO, NZERO, NZERO);
  check(ISA_ALU_subtract, ONE, ONE, 0);
  check(ISA_ALU_subtract, 0x00800000, LEAST, 0x007fffff);
  check(ISA_ALU_mult, 0x40400000, 0x40400000, 0x41100000);
  check(ISA_ALU_mult, 0, INF, QNAN);
  check(ISA_ALU_mult, MAXF, TWO, INF);
  check(ISA_ALU_divide, ONE, 0x40400000, 0x3eaaaaab);
  check(ISA_ALU_divide, ONE, NZERO, NINF);
  check(ISA_ALU_divide, 0, 0, QNAN);
  check(ISA_ALU_average, ONE, 0x40400000, TWO);
  check(ISA_ALU_average, LEAST, 0, 0); /* tie to even */
  check(ISA_ALU_average, 3, 0, 2);
  check(ISA_ALU_average, MAXF, MAXF, INF);
  check(ISA_ALU_reciprocal, 0x40400000, ODDNAN, 0x3eaaaaab);
  check(ISA_ALU_reciprocal, NZERO, 0, NINF);
  check(ISA_ALU_rsqrt, 0x40800000, 0, 0x3f000000);
  check(ISA_ALU_rsqrt, TWO, 0, 0x3f3504f3);
  check(ISA_ALU_rsqrt, 0x40400000, 0, 0x3f13cd3a);
  check(ISA_ALU_rsqrt, LEAST, 0, 0x64b504f3);
  check(ISA_ALU_rsqrt, 0, 0, INF);
  check(ISA_ALU_rsqrt, NZERO, 0, NINF);
  check(ISA_ALU_rsqrt, INF, 0, 0);
  check(ISA_ALU_rsqrt, NEG1, 0, QNAN);
  check(ISA_ALU_square, 0xc0400000, ODDNAN, 0x41100000);
  check(ISA_ALU_abs, 0xc0400000, 0, 0x40400000);
  check(ISA_ALU_abs, NZERO, 0, 0);
  check(ISA_ALU_relu, NEG1, 0, 0);
  check(ISA_ALU_relu, NZERO, 0, 0);
  check(ISA_ALU_relu, LEAST, 0, LEAST);
  check(ISA_ALU_bypass, NZERO, ONE, NZERO);
  check(ISA_ALU_bitwise_and, ONE, ONE, QNAN); /* not arithmetic */
}

/* Whichever operand is NaN, of whatever payload, arithmetic gives the canonical one. */
static void test_nan_is_canonical(void **state) {
  static const unsigned ops[] = {ISA_ALU_add,     ISA_ALU_subtract, ISA_ALU_mult, ISA_ALU_divide,
                                 ISA_ALU_average, ISA_ALU_pow,      ISA_ALU_mod};
  static const unsigned unary[] = {ISA_ALU_bypass,     ISA_ALU_abs,    ISA_ALU_rsqrt,
                                   ISA_ALU_reciprocal, ISA_ALU_square, ISA_ALU_relu};
  (void)state;
  for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++) {
    check(ops[i], ODDNAN, TWO, QNAN);
    check(ops[i], TWO, 0x7f800001, QNAN);
    check(ops[i], ODDNAN, 0x7fffffff, QNAN);
  }
  for (unsigned i = 0; i < sizeof unary / sizeof *unary; i++) check(unary[i], ODDNAN, TWO, QNAN);
}

static void test_order(void **state) {
  (void)state;
  check(ISA_ALU_max, NEG1, ONE, ONE);
  check(ISA_ALU_max, NZERO, 0, 0);
  check(ISA_ALU_max, 0, NZERO, 0);
  check(ISA_ALU_max, NZERO, NZERO, NZERO);
  check(ISA_ALU_max, ODDNAN, NINF, NINF);
  check(ISA_ALU_max, NINF, ODDNAN, NINF);
  check(ISA_ALU_max, ODDNAN, 0x7f800001, QNAN);
  check(ISA_ALU_min, NEG1, ONE, NEG1);
  check(ISA_ALU_min, NZERO, 0, NZERO);
  check(ISA_ALU_min, 0, NZERO, NZERO);
  check(ISA_ALU_min, 0, 0, 0);
  check(ISA_ALU_min, ODDNAN, INF, INF);
  check(ISA_ALU_min, INF, ODDNAN, INF);
  check(ISA_ALU_min, 0x7f800001, ODDNAN, QNAN);
  check(ISA_ALU_abs_max, 0xc0400000, TWO, 0xc0400000);
  check(ISA_ALU_abs_max, TWO, 0xc0400000, 0xc0400000);
  check(ISA_ALU_abs_max, NEG1, ONE, ONE); /* equal: the second */
  check(ISA_ALU_abs_max, ONE, NEG1, NEG1);
  check(ISA_ALU_abs_max, ODDNAN, 0, 0);
  check(ISA_ALU_abs_max, 0, ODDNAN, 0);
  check(ISA_ALU_abs_max, ODDNAN, ODDNAN, QNAN);
  check(ISA_ALU_abs_min, 0xc0400000, TWO, TWO);
  check(ISA_ALU_abs_min, NEG1, ONE, ONE);
  check(ISA_ALU_abs_min, INF, NINF, NINF);
  check(ISA_ALU_abs_min, ODDNAN, INF, INF);
  check(ISA_ALU_abs_min, NINF, ODDNAN, NINF);
  check(ISA_ALU_abs_min, ODDNAN, ODDNAN, QNAN);
}

static void test_truth(void **state) {
  /* for a < b, a == b, a > b, unordered */
  static const struct {
    unsigned op;
    uint32_t want[4];
  } rows[] = {
      {ISA_ALU_is_equal, {0, ONE, 0, 0}}, {ISA_ALU_not_equal, {ONE, 0, ONE, ONE}},
      {ISA_ALU_is_ge, {0, ONE, ONE, 0}},  {ISA_ALU_is_gt, {0, 0, ONE, 0}},
      {ISA_ALU_is_le, {ONE, ONE, 0, 0}},  {ISA_ALU_is_lt, {ONE, 0, 0, 0}},
  };
  (void)state;
  for (unsigned i = 0; i < 6; i++) {
    check(rows[i].op, NEG1, LEAST, rows[i].want[0]);
    check(rows[i].op, NZERO, 0, rows[i].want[1]);
    check(rows[i].op, LEAST, 0, rows[i].want[2]);
    check(rows[i].op, ODDNAN, ODDNAN, rows[i].want[3]);
  }
  static const uint32_t values[] = {0, NZERO, LEAST, NINF, ODDNAN};
  for (unsigned i = 0; i < 5; i++)
    for (unsigned j = 0; j < 5; j++) {
      bool a = i > 1, b = j > 1; /* the zeros are false */
      check(ISA_ALU_logical_and, values[i], values[j], a && b ? ONE : 0);
      check(ISA_ALU_logical_or, values[i], values[j], a || b ? ONE : 0);
      check(ISA_ALU_logical_xor, values[i], values[j], a != b ? ONE : 0);
    }
}

/* Distance in units of the last place of two finite floats of one sign. */
static uint32_t ulps(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

static void test_pow_values(void **state) {
  static const binary rows[] = {
      {0x3f71c41c, 0x43944afd, 0x3337d18f}, {0x3706de47, 0x40b6b304, 0x0f2598dc},
      {0x3f210918, 0x421a473c, 0x3293a63a}, {0x3f86cea7, 0x416bc010, 0x40095358},
      {0x399ac039, 0xc0c4b626, 0x6387a4e9}, {0x00000df2, 0xbe7065be, 0x4f93f6ae},
      {0x3f6e8166, 0x4397f98d, 0x2ff90928}, {0x40400000, 0xc2b50000, 0x0000002f},
      {0x39965aac, 0x4021adf6, 0x309a8771}, {0x3f820b3a, 0x429fe300, 0x40631486},
      {0x38b34365, 0xc06b6019, 0x58501cbd}, {0x00001eae, 0xbfb63019, 0x7f800000},
      {0x3f6ee11f, 0x43b9927c, 0x2cf50e4d}, {0x4cbc8868, 0xc02d518f, 0x1b86f59f},
      {0x31bb3e86, 0xc01eff35, 0x6192cf41}, {0x3f851db2, 0x435f9c96, 0x45c7e2ec},
      {0x31b13c17, 0x3f26b30c, 0x3686a471}, {0x311741fd, 0x3dfe56af, 0x3dac4264},
      {0x3f839429, 0x43c23ff0, 0x472f8757}, {0x3889007b, 0x40a0ba33, 0x1c906f5b},
      {0x4a268b69, 0x40920ecd, 0x703fd885}, {0x3f66836c, 0xc1c34640, 0x414eece1},
      {0x4d5c7ad1, 0xbf56ed41, 0x33cc1fec}, {0x4889a533, 0x3f17a171, 0x44d35e11},
  };
  (void)state;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    check(ISA_ALU_pow, rows[i].a, rows[i].b, rows[i].want);
  /* Powers that wide arithmetic has exactly, over many bases. */
  for (uint32_t u = 0x3a000000; u < 0x45000000; u += 104729) {
    float x = isa_bits_f32(u);
    wide p = x;
    for (unsigned n = 2; n <= 4; n++) {
      p *= x;
      wide q = 1 / p;
      float r = vm_alu_f32(ISA_ALU_pow, x, (float)n);
      assert_true(ulps(isa_f32_bits(r), isa_f32_bits((float)p)) <= 1);
      r = vm_alu_f32(ISA_ALU_pow, x, -(float)n);
      assert_true(ulps(isa_f32_bits(r), isa_f32_bits((float)q)) <= 1);
    }
    check(ISA_ALU_pow, u, ONE, u);
    check(ISA_ALU_pow, u, TWO, isa_f32_bits(x * x));
  }
}

static void test_pow_special(void **state) {
  static const uint32_t half = 0x3f000000, three = 0x40400000, minus_three = 0xc0400000;
  (void)state;
  check(ISA_ALU_pow, ODDNAN, 0, ONE);
  check(ISA_ALU_pow, NINF, NZERO, ONE);
  check(ISA_ALU_pow, ONE, ODDNAN, ONE);
  check(ISA_ALU_pow, NEG1, INF, ONE);
  check(ISA_ALU_pow, NEG1, NINF, ONE);
  check(ISA_ALU_pow, 0xc0000000, three, 0xc1000000);
  check(ISA_ALU_pow, 0xc0000000, minus_three, 0xbe000000);
  check(ISA_ALU_pow, 0xc0000000, TWO, 0x40800000);
  check(ISA_ALU_pow, 0xc0000000, half, QNAN);
  check(ISA_ALU_pow, 0, three, 0);
  check(ISA_ALU_pow, NZERO, three, NZERO);
  check(ISA_ALU_pow, NZERO, TWO, 0);
  check(ISA_ALU_pow, NZERO, half, 0);
  check(ISA_ALU_pow, NZERO, minus_three, NINF);
  check(ISA_ALU_pow, 0, minus_three, INF);
  check(ISA_ALU_pow, NZERO, 0xc0000000, INF);
  check(ISA_ALU_pow, NZERO, NINF, INF);
  check(ISA_ALU_pow, INF, half, INF);
  check(ISA_ALU_pow, INF, 0xbf000000, 0);
  check(ISA_ALU_pow, NINF, three, NINF);
  check(ISA_ALU_pow, NINF, minus_three, NZERO);
  check(ISA_ALU_pow, NINF, half, INF);
  check(ISA_ALU_pow, NINF, 0xbf000000, 0);
  check(ISA_ALU_pow, TWO, INF, INF);
  check(ISA_ALU_pow, TWO, NINF, 0);
  check(ISA_ALU_pow, half, INF, 0);
  check(ISA_ALU_pow, 0xbf000000, NINF, INF);
  check(ISA_ALU_pow, TWO, 0x43000000, INF);          /* 2^128 */
  check(ISA_ALU_pow, TWO, 0xc3150000, LEAST);        /* 2^-149 */
  check(ISA_ALU_pow, TWO, 0xc3160000, 0);            /* 2^-150: tie to even */
  check(ISA_ALU_pow, 0xc0000000, 0xc3170000, NZERO); /* (-2)^-151 */
  check(ISA_ALU_pow, NEG1, 0x4b800001, ONE);         /* 2^24 + 2 */
  check(ISA_ALU_pow, NEG1, 0x4b7fffff, NEG1);        /* 2^24 - 1 */
}

static void test_mod(void **state) {
  static const binary rows[] = {
      {0x4c931963, 0xbb4bfa38, 0xbac34370},
      {0xc3e96390, 0x40b7b7a3, 0x407fdc6c},
      {0x4fc59667, 0x41a111b7, 0x40a5d5e0},
      {0x5d395966, 0x3b1c7175, 0x3af34a48},
      {0xbaeed79d, 0x40b17c6f, 0x40b16d82},
      {0xc19ce2fe, 0xbc00d25e, 0xbab401e0},
      {0x47908241, 0x3e81d821, 0x3ddc1e68},
      {0x5d14f332, 0x3b880248, 0x3ac17520},
      {0x47740651, 0xbe2348db, 0xbd93d290},
      {0x5c6a7229, 0xb99fd63b, 0xb990d553},
      {0x3e845f38, 0xc0ae7a12, 0xc0a6341e},
      {0x49069cfb, 0x3a50cc91, 0x3a269133},
      {0x40e00000, 0x40400000, ONE},
      {0xc0e00000, 0x40400000, TWO},
      {0x40e00000, 0xc0400000, 0xc0000000},
      {0xc0e00000, 0xc0400000, NEG1},
      {0x40c00000, 0xc0400000, NZERO},
      {0xc0c00000, 0x40400000, 0},
      {NZERO, ONE, 0},
      {ONE, INF, ONE},
      {NEG1, INF, INF},
      {INF, ONE, QNAN},
      {ONE, 0, QNAN},
      {0x007fffff, 0x00000010, 0x0000000f},
  };
  (void)state;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
    check(ISA_ALU_mod, rows[i].a, rows[i].b, rows[i].want);
  /* (2^24 - 1) 2^253 mod 3, in units of 2^-149: 2^24 - 1 is a multiple of 3. */
  check(ISA_ALU_mod, MAXF, 3, 0);
  check(ISA_ALU_mod, 0x7f7ffffe, 3, 1); /* (2^24 - 2) 2^253 = 2 * 2 = 1 mod 3 */
}

static uint32_t next_random(uint32_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s;
}

static void test_fma(void **state) {
  (void)state;
  /* A product on a tie, which a far smaller addend decides: rounding twice would lose it. */
  float a = 0x1.001p0f; /* a * a = 1 + 2^-11 + 2^-24 */
  assert_true(vm_fma(a, a, 0x1p-149f) == 0x1.002002p0f);
  assert_true(vm_fma(a, a, -0x1p-149f) == 0x1.002p0f);
  assert_true(vm_fma(a, a, 0) == 0x1.002p0f);
  assert_true(vm_fma(-a, a, -0x1p-149f) == -0x1.002002p0f);
  /* Subnormal results round once too: 2^-149 * (1/2 + a little) is up, exactly 1/2 to even. */
  assert_true(vm_fma(0x1p-75f, 0x1p-75f, 0) == 0);
  assert_true(vm_fma(0x1p-75f, 0x1.000002p-75f, 0) == 0x1p-149f);
  assert_true(vm_fma(0x1p-75f, 0x1p-75f, 0x1p-149f) == 0x1p-148f);
  assert_int_equal(isa_f32_bits(vm_fma(1, 0, -0.0f)), 0);
  assert_int_equal(isa_f32_bits(vm_fma(-1, 0, -0.0f)), NZERO);
  assert_int_equal(isa_f32_bits(vm_fma(-1, 1, 1)), 0);
  assert_int_equal(isa_f32_bits(vm_fma(0x1p127f, 2, -0x1.fffffep127f)), 0x73800000);
  assert_int_equal(isa_f32_bits(vm_fma(0x1p127f, 2, -0x1p103f)), INF); /* tie to even */
  assert_int_equal(isa_f32_bits(vm_fma(isa_bits_f32(INF), 1, isa_bits_f32(NINF))), QNAN);
  assert_int_equal(isa_f32_bits(vm_fma(isa_bits_f32(INF), 0, 1)), QNAN);
  assert_int_equal(isa_f32_bits(vm_fma(1, 1, isa_bits_f32(ODDNAN))), QNAN);
  assert_int_equal(isa_f32_bits(vm_fma(1, isa_bits_f32(NINF), 1)), NINF);
  uint32_t s = 2463534242u;
  for (unsigned i = 0; i < 300000; i++) { /* exponents near each other: exact in 113 bits */
    float x = isa_bits_f32(next_random(&s) % 0x0a000000 + 0x3b000000);
    float y = isa_bits_f32(next_random(&s) % 0x0a000000 + 0x3b000000);
    float z = isa_bits_f32((next_random(&s) % 0x0a000000 + 0x3b000000) | (s & 0x80000000));
    float want = (float)((wide)x * (wide)y + (wide)z);
    assert_int_equal(isa_f32_bits(vm_fma(x, y, z)), isa_f32_bits(want));
  }
}

static void test_bits(void **state) {
  (void)state;
  assert_int_equal(vm_alu_bits(ISA_ALU_bitwise_and, 0xffff, 0x1234, 8, false), 0x34);
  assert_int_equal(vm_alu_bits(ISA_ALU_bitwise_or, 0x0f00, 0x00f0, 16, false), 0x0ff0);
  assert_int_equal(vm_alu_bits(ISA_ALU_bitwise_xor, 0xff, 0x0f, 8, true), 0xf0);
  assert_int_equal(vm_alu_bits(ISA_ALU_bitwise_not, 0x0f, 0, 8, true), 0xf0);
  assert_int_equal(vm_alu_bits(ISA_ALU_bitwise_not, 0, 0, 32, false), UINT32_MAX);
  assert_int_equal(vm_alu_bits(ISA_ALU_bypass, 0x1ff, 0, 8, false), 0xff);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_left, 0x81, 1, 8, false), 2);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_left, 0x81, 1, 8, true), 2);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_left, 1, 8, 8, false), 0);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_left, 1, 31, 32, false), 0x80000000);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_left, 1, 32, 32, false), 0);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_right, 0x80, 7, 8, true), 1);
  assert_int_equal(vm_alu_bits(ISA_ALU_logical_shift_right, 0x80, UINT32_MAX, 32, true), 0);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x80, 3, 8, true), 0xf0);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x80, 3, 8, false), 0x10);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x80, 0, 8, true), 0x80);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x8000, 16, 16, true), 0xffff);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x4000, 99, 16, true), 0);
  assert_int_equal(vm_alu_bits(ISA_ALU_arith_shift_right, 0x80000000, 31, 32, true), UINT32_MAX);
}

static void test_native_integers(void **state) {
  static const uint32_t least = 0x80000000, minus1 = UINT32_MAX;
  static const struct {
    unsigned op;
    uint32_t a, b, with_sign, without;
  } rows[] = {
      {ISA_ALU_add, 0x7fffffff, 1, 0x80000000, 0x80000000},
      {ISA_ALU_subtract, 0, 1, UINT32_MAX, UINT32_MAX},
      {ISA_ALU_mult, 0x10001, 0x10001, 0x20001, 0x20001},
      {ISA_ALU_divide, 0xfffffff9, 2, 0xfffffffd, 0x7ffffffc}, /* -7 / 2 */
      {ISA_ALU_divide, 7, 0, 0, 0},
      {ISA_ALU_divide, 0x80000000, UINT32_MAX, 0x80000000, 0},
      {ISA_ALU_mod, 0xfffffff9, 3, 2, 0},          /* -7, 4294967289 mod 3 */
      {ISA_ALU_mod, 7, 0xfffffffd, 0xfffffffe, 7}, /* 7 mod -3 = -2 */
      {ISA_ALU_mod, 7, 0, 0, 0},
      {ISA_ALU_average, 0xfffffffd, 0, 0xfffffffe, 0x7ffffffe}, /* -1.5 down */
      {ISA_ALU_average, 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff},
      {ISA_ALU_pow, 3, 5, 243, 243},
      {ISA_ALU_pow, 3, UINT32_MAX, 0, 0xaaaaaaab}, /* the inverse of 3 mod 2^32 */
      {ISA_ALU_max, 0x80000000, 1, 1, 0x80000000},
      {ISA_ALU_min, 0x80000000, 1, 0x80000000, 1},
      {ISA_ALU_abs_max, 0xfffffffb, 5, 5, 0xfffffffb}, /* equal: the second */
      {ISA_ALU_abs_min, 0xfffffffb, 6, 0xfffffffb, 6},
      {ISA_ALU_is_lt, UINT32_MAX, 0, 1, 0},
      {ISA_ALU_is_le, UINT32_MAX, 0, 1, 0},
      {ISA_ALU_is_gt, UINT32_MAX, 0, 0, 1},
      {ISA_ALU_is_ge, 4, 4, 1, 1},
      {ISA_ALU_is_equal, 4, 4, 1, 1},
      {ISA_ALU_not_equal, 4, 4, 0, 0},
      {ISA_ALU_logical_and, 2, 4, 1, 1},
      {ISA_ALU_logical_or, 0, 4, 1, 1},
      {ISA_ALU_logical_xor, 2, 4, 0, 0},
      {ISA_ALU_relu, UINT32_MAX, 0, 0, UINT32_MAX},
      {ISA_ALU_square, 0x10000, 0, 0, 0},
      {ISA_ALU_reciprocal, 1, 0, 1, 1},
      {ISA_ALU_reciprocal, 0, 0, 0x7fffffff, UINT32_MAX},
      {ISA_ALU_bitwise_xor, 5, 3, 6, 6},
      {ISA_ALU_arith_shift_right, 0x80000000, 4, 0xf8000000, 0x08000000},
  };
  (void)state;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(vm_alu_i32(rows[i].op, rows[i].a, rows[i].b, true), rows[i].with_sign);
    assert_int_equal(vm_alu_i32(rows[i].op, rows[i].a, rows[i].b, false), rows[i].without);
  }
  assert_int_equal(vm_alu_i32(ISA_ALU_abs, minus1, 0, true), 1);
  assert_int_equal(vm_alu_i32(ISA_ALU_abs, least, 0, true), least);
  assert_int_equal(vm_alu_i32(ISA_ALU_abs, minus1, 0, false), minus1);
}

/* max and min of two partials among fourteen that change nothing: NaNs, zeros, infinities. */
static void test_combine_order(void **state) {
  static const uint32_t bits[] = {0,          0x80000000, 1,          0x80000001, 0x3f800000,
                                  0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                  0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, QNAN};
  enum { N = sizeof bits / sizeof *bits };
  (void)state;
  for (unsigned c = 0; c < 2 * N * N; c++) {
    unsigned op = c % 2 ? ISA_ALU_max : ISA_ALU_min;
    float p[16], rest = vm_kern_identity(op), a = isa_bits_f32(bits[c / 2 % N]),
                 b = isa_bits_f32(bits[c / 2 / N]);
    for (unsigned i = 0; i < 16; i++) p[i] = rest;
    p[c % 16] = a;
    p[(c + 5) % 16] = b;
    uint32_t want = isa_f32_bits(vm_alu_f32(op, vm_alu_f32(op, a, b), rest));
    uint32_t got = isa_f32_bits(vm_kern_combine(op, p));
    if (got != want)
      fail_msg("%s of %08x and %08x: %08x, not %08x", isa_aluops[op].name, isa_f32_bits(a),
               isa_f32_bits(b), got, want);
  }
}

/* Adds whose result depends on the order: 16 partials of which 0 and 8 cancel. */
static void test_combine(void **state) {
  float p[16] = {0};
  (void)state;
  p[0] = 0x1p30f;
  p[8] = -0x1p30f;
  p[1] = 1;
  assert_true(vm_kern_combine(ISA_ALU_add, p) == 1);
  p[8] = 0;
  p[4] = -0x1p30f;
  p[2] = 1; /* 0 + 4 before + 2 before + 1 */
  assert_true(vm_kern_combine(ISA_ALU_add, p) == 2);
  p[4] = 0;
  p[1] = -0x1p30f; /* the 1 of lane 2 is lost before lane 1 comes */
  assert_true(vm_kern_combine(ISA_ALU_add, p) == 0);
  for (unsigned i = 0; i < 16; i++) p[i] = (float)(int)i - 20;
  assert_true(vm_kern_combine(ISA_ALU_max, p) == -5);
  assert_true(vm_kern_combine(ISA_ALU_min, p) == -20);
  p[3] = isa_bits_f32(ODDNAN);
  assert_true(vm_kern_combine(ISA_ALU_max, p) == -5);
  assert_int_equal(isa_f32_bits(vm_kern_combine(ISA_ALU_add, p)), QNAN);
  for (unsigned i = 0; i < 16; i++) p[i] = i < 4 ? 2.0f : 1.0f;
  assert_true(vm_kern_combine(ISA_ALU_mult, p) == 16);
  assert_true(vm_kern_identity(ISA_ALU_mult) == 1);
  assert_int_equal(isa_f32_bits(vm_kern_identity(ISA_ALU_add)), 0);
  assert_int_equal(isa_f32_bits(vm_kern_identity(ISA_ALU_max)), NINF);
  assert_int_equal(isa_f32_bits(vm_kern_identity(ISA_ALU_min)), INF);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_nan_is_canonical),
      cmocka_unit_test(test_order),      cmocka_unit_test(test_truth),
      cmocka_unit_test(test_pow_values), cmocka_unit_test(test_pow_special),
      cmocka_unit_test(test_mod),        cmocka_unit_test(test_fma),
      cmocka_unit_test(test_bits),       cmocka_unit_test(test_native_integers),
      cmocka_unit_test(test_combine),    cmocka_unit_test(test_combine_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
