/* Tensor engine and the counting instructions of GpSimd. */
#include "opbed.h"

static float at(const vm_view *v, uint32_t p, uint64_t i) {
  return ref_decode(v->dtype, get(v, p, i));
}

/* Reference of the whole pair: what the marks were is kept beside, an element each. */
typedef struct pair {
  struct vm_LDWEIGHTS l;
  struct vm_MATMUL m;
} pair;

static float ref_dot(const pair *q, uint32_t m, uint64_t n) {
  unsigned lanes = q->l.perf ? 2 : 1;
  float sum = 0;
  for (uint32_t p = 0; p < q->l.src.num[0]; p++)
    for (unsigned j = 0; j < lanes; j++)
      sum = fmaf(at(&q->l.src, p, j * (q->l.src.elems / lanes) + m),
                 at(&q->m.src, p, j * (q->m.src.elems / lanes) + n), sum);
  return sum;
}

/* fresh: all elements of dst are fresh before, or none is. */
static void matmul_once(bed *b, const pair *q, bool fresh, const char *what) {
  const vm_view *dst = &q->m.dst;
  bed_expect(b);
  for (uint32_t m = 0; m < dst->num[0]; m++) {
    for (uint64_t n = 0; n < dst->elems; n++) {
      volatile float sum = ref_dot(q, m, n);
      if (q->m.acc == ISA_ACC_add || (q->m.acc == ISA_ACC_auto && !fresh))
        sum = at(dst, m, n) + sum;
      expect(b, dst, m, n, ref_encode(dst->dtype, sum));
    }
  }
  assert_int_equal(vm_op_ldweights(&b->d, &q->l), VM_RETIRE);
  if (vm_op_matmul(&b->d, &q->m) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

static pair pair_of(bed *b, unsigned tl, unsigned tm, unsigned k, const char *l, unsigned m,
                    const char *x, const char *out) {
  pair q;
  memset(&q, 0, sizeof q);
  q.l.src = sb(b, tl, 0, k, 0, 3, l);
  q.m.src = sb(b, tm, 0, k, 1, 5, x);
  q.m.dst = ps(b, ISA_float32, 0, m, 2, out);
  fill_tame(b, &q.l.src);
  fill_tame(b, &q.m.src);
  return q;
}

static void matmul_shapes(void **state) {
  (void)state;
  static const struct {
    unsigned tl, tm, k, m;
    const char *l, *x, *out;
  } cases[] = {
      {ISA_float32, ISA_float32, 1, 1, "1:1", "1:1", "1:1"},
      {ISA_float32, ISA_float32, 128, 128, "128:1", "65:1", "65:1"},
      {ISA_float32, ISA_float32, 128, 3, "3:1", "512:1", "512:1"},
      {ISA_bfloat16, ISA_float8_e5m2, 5, 7, "7:2", "9:3", "9:1"},
      {ISA_float16, ISA_bfloat16, 128, 3, "3:1", "33:-1", "33:2"},
      {ISA_tfloat32, ISA_float32, 17, 31, "31:1", "4:8 5:1", "5:10 4:1"},
      {ISA_float32, ISA_tfloat32, 64, 2, "2:0", "20:0 3:1", "60:-1"},
      {ISA_float8_e4m3, ISA_float8_e3m4, 33, 128, "8:16 16:1", "2:8 2:4 2:2 2:1", "16:1"},
      {ISA_float32, ISA_float32, 3, 2, "2:1", "1200:1", "1200:1"},
      {ISA_bfloat16, ISA_bfloat16, 2, 3, "3:1", "3:600 500:1", "1500:2"},
  };
  bed *b = bed_new(ISA_ENG_tensor);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    pair q = pair_of(b, cases[i].tl, cases[i].tm, cases[i].k, cases[i].l, cases[i].m, cases[i].x,
                     cases[i].out);
    if (strchr(cases[i].x, '-')) q.m.src.at += 100 * q.m.src.esize;
    if (strchr(cases[i].out, '-')) q.m.dst.at += 100 * q.m.dst.esize;
    memset(b->written, 0, sizeof b->written);
    matmul_once(b, &q, true, cases[i].x);
    matmul_once(b, &q, false, cases[i].x); /* the same place again: adds */
    q.m.acc = ISA_ACC_write;
    matmul_once(b, &q, false, cases[i].x);
    q.m.acc = ISA_ACC_add;
    matmul_once(b, &q, false, cases[i].x);
    fill(b, &q.l.src);
    fill(b, &q.m.src);
    matmul_once(b, &q, false, "hard values");
  }
  free(b);
}

/* Two windows of one row that overlap: what the first wrote is added to, the rest is fresh. */
static void fresh_bits(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  pair q = pair_of(b, ISA_float32, ISA_float32, 1, "1:1", 1, "6:1", "6:1");
  putf(&q.l.src, 0, 0, 1);
  for (unsigned i = 0; i < 6; i++) putf(&q.m.src, 0, i, (float)(i + 1));
  vm_view row = ps(b, ISA_float32, 0, 1, 0, "16:1");
  for (unsigned i = 0; i < 16; i++) putf(&row, 0, i, 100);
  assert_int_equal(vm_op_ldweights(&b->d, &q.l), VM_RETIRE);
  q.m.dst = ps(b, ISA_float32, 0, 1, 2, "6:1");
  assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
  q.m.dst = ps(b, ISA_float32, 0, 1, 4, "6:1");
  assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
  static const float want[16] = {100, 100, 1, 2, 4, 6, 8, 10, 5, 6, 100, 100, 100, 100, 100, 100};
  for (unsigned i = 0; i < 16; i++) assert_true(getf(&row, 0, i) == want[i]);
  /* psum_zero over every second element, then a strided window over them and one beside */
  q.m.psum_zero = ps(b, ISA_float32, 0, 1, 2, "4:2");
  q.m.dst = ps(b, ISA_float32, 0, 1, 2, "6:1");
  assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
  static const float after[8] = {1, 4, 3, 10, 5, 16, 5, 6};
  for (unsigned i = 0; i < 8; i++) assert_true(getf(&row, 0, 2 + i) == after[i]);
  assert_int_equal(b->written[8], 0); /* of psum_zero, not of dst */
  assert_int_equal(b->written[2], VM_BOTH_HALVES);
  q.m.psum_zero.at = NULL; /* add does not look at the bit, and clears it */
  q.m.acc = ISA_ACC_add;
  q.m.dst = ps(b, ISA_float32, 0, 1, 8, "6:1");
  assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
  assert_true(getf(&row, 0, 8) == 6 && getf(&row, 0, 10) == 103);
  assert_int_equal(b->written[8] & b->written[13], VM_BOTH_HALVES);
  assert_int_equal(b->written[14], 0);
  free(b);
}

/* bf16 sums: half a slot each, rounded every time. */
static void bf16_psum(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  b->d.target = &isa_targets[ISA_trn3];
  for (unsigned i = 0; i < 3; i++) {
    static const char *const outs[] = {"700:1", "700:2", "700:-1"};
    pair q = pair_of(b, ISA_bfloat16, ISA_bfloat16, 9, "4:1", 4, "700:1", "1:1");
    q.m.dst = ps(b, ISA_bfloat16, 32, 4, 701, outs[i]);
    memset(b->written, 0, sizeof b->written);
    matmul_once(b, &q, true, outs[i]);
    matmul_once(b, &q, false, outs[i]);
    if (i != 1) continue;
    q.m.dst = ps(b, ISA_bfloat16, 32, 4, 702, outs[i]); /* the elements between are still fresh */
    matmul_once(b, &q, true, "between");
    matmul_once(b, &q, false, "between");
  }
  free(b);
}

/* A small integer, which needs no rounding, as element i of the first partition. */
static void put_bf16(const vm_view *v, unsigned i, float x) { put(v, 0, i, isa_f32_bits(x) >> 16); }

/* Rows of bf16 sums of which some slots are half written. */
static void bf16_halves(void **state) {
  (void)state;
  static const struct {
    int zero, at; /* psum_zero: three elements, two apart, from here, or six from -zero; 0: none */
    float want[12];
  } steps[] = {
      {0, 2, {100, 100, 1, 2, 3, 4, 5, 6, 100, 100, 100, 100}},
      {0, 3, {100, 100, 1, 3, 5, 7, 9, 11, 6, 100, 100, 100}},
      {0, 4, {100, 100, 1, 3, 6, 9, 12, 15, 11, 6, 100, 100}},
      {5, 4, {100, 100, 1, 3, 7, 2, 15, 4, 16, 6, 100, 100}},
      {4, 4, {100, 100, 1, 3, 1, 4, 3, 8, 5, 12, 100, 100}},
      {-4, 4, {100, 100, 1, 3, 1, 2, 3, 4, 5, 6, 100, 100}},
  };
  bed *b = bed_new(ISA_ENG_tensor);
  b->d.target = &isa_targets[ISA_trn3];
  pair q = pair_of(b, ISA_bfloat16, ISA_bfloat16, 1, "1:1", 1, "6:1", "6:1");
  put_bf16(&q.l.src, 0, 1);
  for (unsigned i = 0; i < 6; i++) put_bf16(&q.m.src, i, (float)(i + 1));
  vm_view row = ps(b, ISA_bfloat16, 0, 1, 0, "12:1");
  for (unsigned i = 0; i < 12; i++) put_bf16(&row, i, 100);
  assert_int_equal(vm_op_ldweights(&b->d, &q.l), VM_RETIRE);
  for (unsigned s = 0; s < sizeof steps / sizeof *steps; s++) {
    int zero = steps[s].zero;
    if (zero > 0) q.m.psum_zero = ps(b, ISA_bfloat16, 0, 1, (unsigned)zero, "3:2");
    if (zero < 0) q.m.psum_zero = ps(b, ISA_bfloat16, 0, 1, (unsigned)-zero, "6:1");
    if (zero == 0) q.m.psum_zero.at = NULL;
    q.m.dst = ps(b, ISA_bfloat16, 0, 1, (unsigned)steps[s].at, "6:1");
    assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
    for (unsigned i = 0; i < 12; i++) {
      float got = isa_bits_f32((uint32_t)get(&row, 0, i) << 16);
      if (got != steps[s].want[i])
        fail_msg("step %u, element %u: %g, not %g", s, i, (double)got, (double)steps[s].want[i]);
    }
  }
  free(b);
}

static void double_row(void **state) {
  (void)state;
  static const unsigned ks[] = {1, 3, 64, 65, 128};
  bed *b = bed_new(ISA_ENG_tensor);
  for (unsigned i = 0; i < 5; i++) {
    pair q = pair_of(b, ISA_float8_e4m3, ISA_float8_e5m2, ks[i], "2:128 128:1", 128, "2:700 300:1",
                     "300:1");
    q.l.perf = q.m.perf = ISA_PERF_double_row;
    q.m.acc = ISA_ACC_write;
    matmul_once(b, &q, true, "double_row");
  }
  free(b);
}

/* Four tiles of the array at once; a larger one takes their place. */
static void tiles(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  pair q[4];
  for (unsigned i = 0; i < 4; i++) {
    q[i] = pair_of(b, ISA_float32, ISA_float32, 32, "20:1", 20, "50:1", "50:1");
    q[i].l.src = sb(b, ISA_float32, i * 32, 32, 0, 500, "20:1");
    q[i].m.src = sb(b, ISA_float32, i * 32, 32, 1, 500, "50:1");
    fill_tame(b, &q[i].l.src);
    fill_tame(b, &q[i].m.src);
    q[i].l.tile_row = q[i].m.tile_row = (uint8_t)(i * 32);
    q[i].l.tile_col = q[i].m.tile_col = (uint8_t)(i % 2 * 64);
    q[i].l.tile_rows = q[i].m.tile_rows = 32;
    q[i].l.tile_cols = q[i].m.tile_cols = 64;
    assert_int_equal(vm_op_ldweights(&b->d, &q[i].l), VM_RETIRE);
  }
  for (unsigned i = 0; i < 4; i++) {
    q[i].m.acc = ISA_ACC_write;
    assert_int_equal(vm_op_matmul(&b->d, &q[i].m), VM_RETIRE);
    for (unsigned j = 0; j < 20 * 50; j++)
      assert_true(getf(&q[i].m.dst, j / 50, j % 50) == ref_dot(&q[i], j / 50, j % 50));
  }
  struct vm_LDWEIGHTS big = q[0].l;
  big.tile_rows = 64;
  assert_int_equal(vm_op_ldweights(&b->d, &big), VM_RETIRE); /* rows 0..63, columns 0..63 */
  assert_int_equal(vm_op_matmul(&b->d, &q[0].m), VM_FAULT);
  assert_non_null(strstr(b->d.fault, "tile of 32 x 64, but ldweights used 64 x 64"));
  assert_int_equal(vm_op_matmul(&b->d, &q[1].m), VM_RETIRE); /* columns 64.. */
  assert_int_equal(vm_op_matmul(&b->d, &q[2].m), VM_RETIRE); /* rows 64.. */
  big.tile_cols = 128;
  assert_int_equal(vm_op_ldweights(&b->d, &big), VM_RETIRE);
  assert_int_equal(vm_op_matmul(&b->d, &q[1].m), VM_FAULT);
  free(b);
}

static void transposes(void **state) {
  (void)state;
  static const struct {
    unsigned t, td, one;
  } cases[] = {{ISA_float32, ISA_float32, 0x3f800000},
               {ISA_bfloat16, ISA_bfloat16, 0x3f80},
               {ISA_float16, ISA_float16, 0x3c00},
               {ISA_float8_e4m3, ISA_bfloat16, 0x38},
               {ISA_tfloat32, ISA_float32, 0x3f800000}};
  bed *b = bed_new(ISA_ENG_tensor);
  for (unsigned i = 0; i < 5; i++) {
    pair q = pair_of(b, cases[i].t, cases[i].t, 7, "5:2", 5, "7:1", "1:1");
    q.m.dst = ps(b, cases[i].td, 0, 5, 0, i % 2 ? "7:3" : "7:1");
    q.m.transpose = true;
    for (unsigned j = 0; j < 35; j++) put(&q.l.src, j / 5, j % 5, draw(b) | 0x7f800000);
    for (unsigned j = 0; j < 49; j++) put(&q.m.src, j / 7, j % 7, j % 8 ? 0 : cases[i].one);
    bed_expect(b);
    for (unsigned j = 0; j < 35; j++)
      expect(b, &q.m.dst, j % 5, j / 5, get(&q.l.src, j / 5, j % 5));
    assert_int_equal(vm_op_ldweights(&b->d, &q.l), VM_RETIRE);
    assert_int_equal(vm_op_matmul(&b->d, &q.m), VM_RETIRE);
    bed_check(b, isa_dtypes[cases[i].t].name);
  }
  free(b);
}

static void expect_fault(bed *b, const struct vm_MATMUL *m, const char *text) {
  assert_int_equal(vm_op_matmul(&b->d, m), VM_FAULT);
  if (!strstr(b->d.fault, text)) fail_msg("%s: no \"%s\"", b->d.fault, text);
}

static void pe_faults(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_tensor);
  pair q = pair_of(b, ISA_bfloat16, ISA_bfloat16, 8, "4:1", 4, "6:1", "6:1");
  expect_fault(b, &q.m, "no stationary operand");
  assert_int_equal(vm_op_ldweights(&b->d, &q.l), VM_RETIRE);
  struct vm_MATMUL m = q.m;
  m.src.num[0] = 7;
  expect_fault(b, &m, "moving operand has 7 partitions, the stationary one 8");
  m = q.m;
  m.dst.num[0] = 5;
  expect_fault(b, &m, "dst has 5 partitions, the stationary operand 4 columns");
  m = q.m;
  m.src.dtype = ISA_float32;
  expect_fault(b, &m, "moving float32 with stationary bfloat16");
  m = q.m;
  m.perf = ISA_PERF_double_row;
  expect_fault(b, &m, "double_row");
  m = q.m;
  m.tile_row = 64;
  m.tile_rows = 64;
  expect_fault(b, &m, "tile (64, 0)");
  m = q.m;
  m.src.elems = 5;
  expect_fault(b, &m, "dst has 6 columns, the moving operand 5");
  q.l.src.dtype = ISA_float8_e4m3;
  assert_int_equal(vm_op_ldweights(&b->d, &q.l), VM_RETIRE);
  m = q.m;
  m.src.dtype = ISA_float8_e4m3fn;
  expect_fault(b, &m, "do not mix");
  m = q.m;
  m.src.elems = m.dst.elems = 0;
  assert_int_equal(vm_op_matmul(&b->d, &m), VM_RETIRE);
  free(b);
}

/* ---- iota, affine_select ------------------------------------------------------------------ */

static const struct {
  unsigned parts;
  const char *dims;
  vm_steps s;
  int32_t offset, multiplier;
} ramps[] = {
    {1, "1:1", {1, {{5, 1}}}, -7, 3},
    {128, "33:1", {1, {{1, 33}}}, 0, 33},
    {3, "6:2", {2, {{10, 2}, {-1, 3}}}, 100, -50},
    {2, "5000:1", {1, {{3, 5000}}}, -7500, 1},
    {4, "24:1", {4, {{1000, 2}, {100, 3}, {10, 2}, {1, 2}}}, 0, 0},
    {2, "9:-1", {3, {{0, 3}, {7, 1}, {2, 3}}}, 0x7fffffff, 1},
    {128, "1:1", {1, {{0, 1}}}, 16777210, 1},
    {2, "2:2500 2400:1", {3, {{-1, 2}, {1, 1200}, {-600, 2}}}, INT32_MIN, INT32_MAX},
};
enum { NRAMPS = sizeof ramps / sizeof *ramps };

static int32_t ref_ramp(unsigned r, uint32_t p, uint64_t i) {
  int64_t x = ramps[r].offset + (int64_t)p * ramps[r].multiplier;
  for (uint32_t k = ramps[r].s.n; k-- > 0; i /= ramps[r].s.s[k].num)
    x += (int64_t)(i % ramps[r].s.s[k].num) * ramps[r].s.s[k].step;
  uint32_t u = (uint32_t)(uint64_t)x;
  int32_t v;
  memcpy(&v, &u, 4);
  return v;
}

static void iota(void **state) {
  (void)state;
  static const uint8_t types[] = {ISA_int32, ISA_uint32, ISA_float32, ISA_bfloat16,
                                  ISA_int16, ISA_uint8,  ISA_float16, ISA_tfloat32};
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < NRAMPS * 8; i++) {
    unsigned r = i % NRAMPS, t = types[i / NRAMPS];
    struct vm_IOTA a = {
        .pattern = ramps[r].s, .offset = ramps[r].offset, .multiplier = ramps[r].multiplier};
    if (r == 7 && isa_dtypes[t].bytes == 4) continue; /* longer than the bed's region */
    a.dst = sb(b, t, 0, ramps[r].parts, r == 3 ? 0 : 1, 8, ramps[r].dims);
    bed_expect(b);
    for (uint32_t p = 0; p < ramps[r].parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        int32_t x = ref_ramp(r, p, j);
        bool word = t == ISA_int32 || t == ISA_uint32;
        expect(b, &a.dst, p, j, word ? (uint32_t)x : ref_encode(t, (float)x));
      }
    assert_int_equal(vm_op_iota(&b->d, &a), VM_RETIRE);
    bed_check(b, isa_dtypes[t].name);
  }
  struct vm_IOTA bad = {.pattern = {1, {{1, 4}}}};
  bad.dst = sb(b, ISA_int32, 0, 2, 0, 0, "5:1");
  assert_int_equal(vm_op_iota(&b->d, &bad), VM_FAULT);
  assert_string_equal(b->d.fault, "iota: a pattern of 4 elements for 5 of dst");
  free(b);
}

static bool ref_compare(unsigned cmp, int32_t x) {
  switch (cmp) {
  case ISA_ALU_is_equal: return x == 0;
  case ISA_ALU_not_equal: return x != 0;
  case ISA_ALU_is_ge: return x >= 0;
  case ISA_ALU_is_gt: return x > 0;
  case ISA_ALU_is_le: return x <= 0;
  default: return x < 0;
  }
}

static void affine_select(void **state) {
  (void)state;
  static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_int8, ISA_int32};
  static const uint8_t cmps[] = {ISA_ALU_is_equal, ISA_ALU_not_equal, ISA_ALU_is_ge,
                                 ISA_ALU_is_gt,    ISA_ALU_is_le,     ISA_ALU_is_lt};
  static const float fills[] = {-INFINITY, NAN, 0, -1e9f, 0x1p-149f};
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < NRAMPS * 18; i++) {
    unsigned r = i % NRAMPS, td = types[i / NRAMPS % 4], ts = i % 3 ? td : types[i / 3 % 4];
    if (r == 3 || r == 7) td = ts = i % 2 ? ISA_bfloat16 : ISA_float16;
    struct vm_AFFINE_SELECT a = {.pattern = ramps[r].s,
                                 .offset = ramps[r].offset,
                                 .multiplier = ramps[r].multiplier,
                                 .cmp = cmps[i % 6],
                                 .fill = imm(fills[i % 5])};
    a.dst = sb(b, td, 0, ramps[r].parts, 1, 8, ramps[r].dims);
    a.src = i % 4 ? sb(b, ts, 0, ramps[r].parts, 0, 100, ramps[r].dims) : a.dst;
    fill(b, &a.src);
    bed_expect(b);
    for (uint32_t p = 0; p < ramps[r].parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        uint32_t kept = td == a.src.dtype ? get(&a.src, p, j) : ref_encode(td, at(&a.src, p, j));
        bool keep = ref_compare(a.cmp, ref_ramp(r, p, j));
        expect(b, &a.dst, p, j, keep ? kept : ref_encode(td, fills[i % 5]));
      }
    assert_int_equal(vm_op_affine_select(&b->d, &a), VM_RETIRE);
    bed_check(b, ramps[r].dims);
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matmul_shapes), cmocka_unit_test(fresh_bits), cmocka_unit_test(bf16_psum),
      cmocka_unit_test(bf16_halves),   cmocka_unit_test(double_row), cmocka_unit_test(tiles),
      cmocka_unit_test(transposes),    cmocka_unit_test(pe_faults),  cmocka_unit_test(iota),
      cmocka_unit_test(affine_select),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
