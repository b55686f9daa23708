/* MX formats: quantize_mx, ldweights_mx and matmul_mx against references in double arithmetic. */
#include "opbed.h"

/* ---- Element types of a lane, from their definitions -------------------------------------- */

typedef struct lane_type {
  int dtype, bits, e, m, bias, emax;
  double max;
} lane_type;
static const lane_type lanes[] = {
    {ISA_float8_e4m3fn_x4, 8, 4, 3, 7, 8, 448},
    {ISA_float8_e5m2_x4, 8, 5, 2, 15, 15, 57344},
    {ISA_float4_e2m1fn_x4, 4, 2, 1, 1, 2, 6},
};
static const lane_type *lane_of(unsigned dtype) {
  for (unsigned i = 0; i < 3; i++)
    if (lanes[i].dtype == (int)dtype) return &lanes[i];
  fail_msg("no lanes");
  return NULL;
}
static double lane_value(const lane_type *t, uint32_t c) {
  uint32_t mag = c & ((1u << (t->bits - 1)) - 1);
  double s = c >> (t->bits - 1) & 1 ? -1 : 1;
  if (t->dtype == ISA_float8_e4m3fn_x4 && mag == 0x7f) return NAN;
  if (t->dtype == ISA_float8_e5m2_x4 && mag >= 0x7c) return mag == 0x7c ? s * INFINITY : NAN;
  int e = (int)(mag >> t->m);
  double f = mag & ((1u << t->m) - 1);
  return s * (e ? ldexp(f + ldexp(1, t->m), e - t->bias - t->m) : ldexp(f, 1 - t->bias - t->m));
}
/* The code nearest to x, the even one of two; x within the finite range. */
static uint32_t lane_code(const lane_type *t, double x) {
  uint32_t best = 0;
  double err = INFINITY;
  for (uint32_t c = 0; c < 1u << (t->bits - 1); c++) {
    double d = fabs(fabs(x) - lane_value(t, c));
    if (d < err || (d == err && c % 2 == 0)) err = d, best = c;
  }
  return best | (signbit(x) ? 1u << (t->bits - 1) : 0);
}

static uint32_t scale_part(uint32_t p) { return p / 32 * 32 + p % 32 / 8; }

/* ---- quantize_mx -------------------------------------------------------------------------- */

/* The group of partitions p .. p + 7, column j: largest magnitude, NaN when one is not finite. */
static double group_max(const vm_view *src, uint32_t p, uint64_t j) {
  double most = 0;
  for (unsigned i = 0; i < 32; i++) {
    double x = fabs((double)ref_decode(src->dtype, get(src, p + i / 4, 4 * j + i % 4)));
    if (!isfinite(x)) return NAN;
    if (x > most) most = x;
  }
  return most;
}

static void quantize_once(bed *b, const struct vm_QUANTIZE_MX *a, const char *what) {
  const lane_type *t = lane_of(a->dst.dtype);
  bed_expect(b);
  for (uint32_t p = 0; p < a->src.num[0]; p += 8) {
    for (uint64_t j = 0; j < a->dst.elems; j++) {
      double most = group_max(&a->src, p, j);
      int e = 0;
      frexp(most, &e); /* most = 0.5..1 * 2^e */
      int x = most == 0 ? -127 : e - 1 - (t->emax - 1);
      if (x < -127) x = -127;
      expect(b, &a->scale, scale_part(p), j, isnan(most) ? 255 : (uint32_t)(x + 127));
      for (uint32_t q = p; q < p + 8; q++) {
        uint32_t word = 0;
        for (unsigned i = 0; i < 4; i++) {
          double v = (double)ref_decode(a->src.dtype, get(&a->src, q, 4 * j + i));
          uint32_t nan = t->dtype == ISA_float8_e4m3fn_x4 ? 0x7f : 0x7e;
          word |= (isnan(most) ? nan : lane_code(t, ldexp(v, -x))) << (8 * i);
        }
        expect(b, &a->dst, q, j, word);
      }
    }
  }
  if (vm_op_quantize_mx(&b->d, a) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

static void quantize(void **state) {
  (void)state;
  static const struct {
    unsigned ts, td, tscale, part, parts, spart, sparts;
    const char *src, *dst, *scale;
  } cases[] = {
      {ISA_bfloat16, ISA_float8_e4m3fn_x4, ISA_float8_e8m0fnu, 0, 128, 0, 128, "40:1", "10:1",
       "10:1"},
      {ISA_float16, ISA_float8_e5m2_x4, ISA_uint8, 32, 32, 4, 4, "4:1", "1:1", "1:1"},
      {ISA_bfloat16, ISA_float8_e5m2_x4, ISA_uint8, 64, 64, 12, 36, "3:40 8:1", "6:2", "6:-1"},
      {ISA_float16, ISA_float8_e4m3fn_x4, ISA_uint8, 0, 96, 8, 96, "44:-1", "11:1", "11:1"},
      {ISA_float16, ISA_float8_e4m3fn_x4, ISA_uint8, 0, 32, 96, 32, "1200:1", "300:1", "300:1"},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned mode = 0; mode < 3; mode++) {
      struct vm_QUANTIZE_MX a;
      memset(&a, 0, sizeof a);
      a.src = sb(b, cases[i].ts, cases[i].part, cases[i].parts, 1, 60, cases[i].src);
      a.dst = sb(b, cases[i].td, cases[i].part, cases[i].parts, 0, 9, cases[i].dst);
      a.scale = sb(b, cases[i].tscale, cases[i].spart, cases[i].sparts, 2, 9, cases[i].scale);
      if (mode == 0) fill_tame(b, &a.src);
      if (mode == 1) fill(b, &a.src); /* all exponents; groups with NaN */
      for (uint32_t p = 0; mode == 2 && p < a.src.num[0]; p++)
        for (uint64_t j = 0; j < a.src.elems; j++) { /* tiny ones, and groups of zeros */
          uint32_t r = draw(b);
          put(&a.src, p, j, r >> 8 & (j / 4 % 2 ? 0x8000 : 0x87ff));
        }
      fill(b, &a.dst);
      fill(b, &a.scale);
      quantize_once(b, &a, cases[i].src);
    }
  }
  free(b);
}

/* Documented points: twice the OCP scale, 2^-127 for a group of zeros; the largest do not
 * saturate but round. */
static void quantize_by_hand(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  struct vm_QUANTIZE_MX a;
  memset(&a, 0, sizeof a);
  a.src = sb(b, ISA_bfloat16, 0, 32, 1, 0, "8:1");
  a.dst = sb(b, ISA_float8_e4m3fn_x4, 0, 32, 0, 0, "2:1");
  a.scale = sb(b, ISA_float8_e8m0fnu, 0, 4, 2, 0, "2:1");
  put(&a.src, 0, 0, 0x43e8); /* 464: the scale is 2^(8 - 7), 232 is a tie of 224 and 240 */
  put(&a.src, 7, 3, 0xbf80); /* -1 in the same group: -0.5 */
  put(&a.src, 8, 4, 0x8000); /* -0 in a group of zeros */
  assert_int_equal(vm_op_quantize_mx(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.scale, 0, 0), 128);
  assert_int_equal(get(&a.scale, 1, 1), 0);
  assert_int_equal(get(&a.dst, 0, 0), 0x76); /* 224: even of 0x76 and 0x77 */
  assert_int_equal(get(&a.dst, 7, 0), 0xb0000000);
  assert_int_equal(get(&a.dst, 8, 1), 0x80);
  a.dst.dtype = ISA_float8_e5m2_x4;
  assert_int_equal(vm_op_quantize_mx(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.scale, 0, 0), 127 + 8 - 14);
  a.scale.num[0] = 3;
  assert_int_equal(vm_op_quantize_mx(&b->d, &a), VM_FAULT);
  free(b);
}

/* ---- matmul_mx ---------------------------------------------------------------------------- */

/* One rounding to fp32 of an element times its scale. */
static float value(const vm_view *v, const vm_view *scale, uint32_t p, uint64_t j, unsigned i) {
  const lane_type *t = lane_of(v->dtype);
  uint32_t code = get(scale, scale_part(p), j);
  if (code == 255) return NAN;
  uint32_t c = get(v, p, j) >> (i * (unsigned)t->bits) & ((1u << t->bits) - 1);
  return (float)ldexp(lane_value(t, c), (int)code - 127);
}

typedef struct mx_pair {
  struct vm_LDWEIGHTS_MX l;
  struct vm_MATMUL_MX m;
} mx_pair;

static void matmul_once(bed *b, const mx_pair *q, bool fresh, const char *what) {
  const vm_view *dst = &q->m.dst;
  bed_expect(b);
  for (uint32_t m = 0; m < dst->num[0]; m++) {
    for (uint64_t n = 0; n < dst->elems; n++) {
      volatile float sum = 0;
      for (uint32_t p = 0; p < q->l.src.num[0]; p++)
        for (unsigned i = 0; i < 4; i++)
          sum = fmaf(value(&q->l.src, &q->l.scale, p, m, i), value(&q->m.src, &q->m.scale, p, n, i),
                     sum);
      if (q->m.acc == ISA_ACC_add || (q->m.acc == ISA_ACC_auto && !fresh))
        sum = ref_decode(dst->dtype, get(dst, m, n)) + sum;
      expect(b, dst, m, n, ref_encode(dst->dtype, sum));
    }
  }
  if (vm_op_ldweights_mx(&b->d, &q->l) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  if (vm_op_matmul_mx(&b->d, &q->m) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

/* Random elements; scales near 1, or with `wild` any code at all. */
static void fill_mx(bed *b, const vm_view *v, const vm_view *scale, bool wild) {
  fill(b, v);
  for (uint32_t p = 0; p < scale->num[0]; p++)
    for (uint64_t j = 0; j < scale->elems; j++)
      put(scale, p, j, wild ? draw(b) % 256 : 120 + draw(b) % 16);
  if (wild) return;
  for (uint32_t p = 0; p < v->num[0]; p++) /* no NaN and no infinity: exponents not all ones */
    for (uint64_t j = 0; j < v->elems; j++)
      put(v, p, j, get(v, p, j) & (v->dtype == ISA_float4_e2m1fn_x4 ? 0xffff : 0xbfbfbfbf));
}

static mx_pair pair_of(bed *b, unsigned tl, unsigned tm, unsigned k, unsigned part, unsigned m,
                       const char *l, const char *x, const char *out) {
  mx_pair q;
  memset(&q, 0, sizeof q);
  q.l.src = sb(b, tl, part, k, 0, 3, l);
  q.m.src = sb(b, tm, part, k, 1, 5, x);
  q.l.scale = sb(b, ISA_float8_e8m0fnu, 4, k > 96 ? 100 : k, 2, 3, l);
  q.m.scale = sb(b, ISA_uint8, 0, k, 2, 6000, x);
  q.m.dst = ps(b, ISA_float32, 0, m, 2, out);
  return q;
}

static void matmul(void **state) {
  (void)state;
  static const struct {
    unsigned tl, tm, k, part, m;
    const char *l, *x, *out;
  } cases[] = {
      {ISA_float8_e4m3fn_x4, ISA_float8_e4m3fn_x4, 128, 0, 16, "16:1", "33:1", "33:1"},
      {ISA_float8_e5m2_x4, ISA_float4_e2m1fn_x4, 32, 32, 128, "128:1", "5:1", "5:1"},
      {ISA_float4_e2m1fn_x4, ISA_float8_e5m2_x4, 64, 64, 2, "2:1", "300:1", "300:1"},
      {ISA_float4_e2m1fn_x4, ISA_float4_e2m1fn_x4, 96, 0, 4, "2:9 2:3", "4:20 3:2", "3:10 4:1"},
      {ISA_float8_e4m3fn_x4, ISA_float8_e5m2_x4, 32, 0, 2, "2:1", "1:1", "1:1"},
  };
  bed *b = bed_new(ISA_ENG_tensor);
  b->d.target = &isa_targets[ISA_trn3];
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    mx_pair q = pair_of(b, cases[i].tl, cases[i].tm, cases[i].k, cases[i].part, cases[i].m,
                        cases[i].l, cases[i].x, cases[i].out);
    memset(b->written, 0, sizeof b->written);
    fill_mx(b, &q.l.src, &q.l.scale, false);
    fill_mx(b, &q.m.src, &q.m.scale, false);
    matmul_once(b, &q, true, cases[i].x);
    matmul_once(b, &q, false, cases[i].x); /* adds */
    q.m.acc = ISA_ACC_write;
    matmul_once(b, &q, false, cases[i].x);
    fill_mx(b, &q.l.src, &q.l.scale, true);
    fill_mx(b, &q.m.src, &q.m.scale, true);
    matmul_once(b, &q, false, "any scale");
    q.m.dst = ps(b, ISA_bfloat16, 0, cases[i].m, 3, cases[i].out);
    q.m.acc = ISA_ACC_add;
    matmul_once(b, &q, false, "bf16 sums");
  }
  free(b);
}

/* Four row tiles at once, each with weights of its own, beside a plain matmul's. */
static void row_tiles(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  b->d.target = &isa_targets[ISA_trn3];
  mx_pair q[4];
  for (unsigned i = 0; i < 4; i++) {
    q[i] =
        pair_of(b, ISA_float8_e4m3fn_x4, ISA_float8_e4m3fn_x4, 32, 32 * i, 8, "8:1", "9:1", "9:1");
    q[i].l.tile_rows = q[i].m.tile_rows = 32;
    q[i].l.tile_row = q[i].m.tile_row = (uint8_t)(32 * i);
    q[i].m.dst = ps(b, ISA_float32, 0, 8, 100 * i, "9:1");
    fill_mx(b, &q[i].l.src, &q[i].l.scale, false);
    fill_mx(b, &q[i].m.src, &q[i].m.scale, false);
  }
  for (unsigned i = 0; i < 4; i++) matmul_once(b, &q[i], true, "tile");
  for (unsigned i = 0; i < 4; i++) { /* the weights are still there, untouched by the others' */
    bed_expect(b);
    for (uint32_t m = 0; m < 8; m++)
      for (uint64_t n = 0; n < 9; n++) {
        volatile float sum = 0;
        for (uint32_t p = 0; p < 32; p++)
          for (unsigned j = 0; j < 4; j++)
            sum = fmaf(value(&q[i].l.src, &q[i].l.scale, p, m, j),
                       value(&q[i].m.src, &q[i].m.scale, p, n, j), sum);
        expect(b, &q[i].m.dst, m, n, isa_f32_bits(getf(&q[i].m.dst, m, n) + sum));
      }
    if (vm_op_matmul_mx(&b->d, &q[i].m) != VM_RETIRE) fail_msg("%s", b->d.fault);
    bed_check(b, "again");
  }
  free(b);
}

/* The ends of the scale: 2^127, 2^-127, and NaN; a subnormal product rounds once. */
static void scales_by_hand(void **state) {
  (void)state;
  static const struct {
    uint32_t element, code, other;
    float want;
  } cases[] = {
      {0x38, 254, 0, 1},          {0x38, 127, 127, 1},       {0x01, 0, 254, 0x1p-9f},
      {0x7e, 254, 127, INFINITY}, {0x09, 0, 254, 0x1.2p-6f}, {0x38, 255, 127, NAN},
      {0x00, 255, 0, NAN},        {0x7f, 127, 127, NAN},     {0xb8, 126, 128, -1},
  };
  bed *b = bed_new(ISA_ENG_tensor);
  mx_pair q = pair_of(b, ISA_float8_e4m3fn_x4, ISA_float8_e4m3fn_x4, 32, 0, 2, "2:1", "1:1", "1:1");
  q.m.acc = ISA_ACC_write;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (uint32_t p = 0; p < 4; p++) { /* the other groups: finite */
      put(&q.l.scale, p, 0, p ? 127 : cases[i].code);
      put(&q.m.scale, p, 0, p ? 127 : cases[i].other);
    }
    put(&q.l.src, 3, 0, cases[i].element << 16);
    put(&q.m.src, 3, 0, 0x38 << 16); /* 1 in the same lane */
    assert_int_equal(vm_op_ldweights_mx(&b->d, &q.l), VM_RETIRE);
    assert_int_equal(vm_op_matmul_mx(&b->d, &q.m), VM_RETIRE);
    assert_int_equal(get(&q.m.dst, 0, 0), ref_encode(ISA_float32, cases[i].want));
  }
  free(b);
}

static void faults(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  mx_pair q = pair_of(b, ISA_float8_e4m3fn_x4, ISA_float8_e4m3fn_x4, 32, 0, 8, "8:1", "9:1", "9:1");
  struct vm_LDWEIGHTS l = {.src = sb(b, ISA_bfloat16, 0, 32, 0, 0, "8:1")};
  struct vm_MATMUL m = {.dst = q.m.dst, .src = sb(b, ISA_bfloat16, 0, 32, 1, 0, "9:1")};
#define FAULT(call, text)           \
  assert_int_equal(call, VM_FAULT); \
  assert_string_equal(b->d.fault, text)
  FAULT(vm_op_matmul_mx(&b->d, &q.m), "matmul_mx: no stationary operand is loaded at row 0");
  assert_int_equal(vm_op_ldweights(&b->d, &l), VM_RETIRE);
  FAULT(vm_op_matmul_mx(&b->d, &q.m), "matmul_mx: the stationary operand was loaded by ldweights");
  assert_int_equal(vm_op_ldweights_mx(&b->d, &q.l), VM_RETIRE);
  assert_int_equal(vm_op_matmul_mx(&b->d, &q.m), VM_RETIRE);
  FAULT(vm_op_matmul(&b->d, &m), "matmul: the stationary operand was loaded by ldweights_mx");
  q.m.dst.num[0] = 7;
  FAULT(vm_op_matmul_mx(&b->d, &q.m),
        "matmul_mx: dst has 7 partitions, the stationary operand 8 columns");
  q.m.tile_rows = 32;
  FAULT(vm_op_matmul_mx(&b->d, &q.m), "matmul_mx: a tile of 32 rows, but ldweights_mx used 128");
  q.l.scale.num[0] = 3;
  FAULT(vm_op_ldweights_mx(&b->d, &q.l),
        "ldweights_mx: 32 x 8 elements, scales 3 x 8, into 128 rows from 0");
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantize),  cmocka_unit_test(quantize_by_hand), cmocka_unit_test(matmul),
      cmocka_unit_test(row_tiles), cmocka_unit_test(scales_by_hand),   cmocka_unit_test(faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
