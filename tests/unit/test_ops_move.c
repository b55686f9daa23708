/* transpose32, load_mask_register and shuffle, exponential. */
#include "opbed.h"

/* ---- transpose32 -------------------------------------------------------------------------- */

static void transpose_once(bed *b, const struct vm_TRANSPOSE32 *a, bool blocks, const char *what) {
  bed_expect(b);
  for (uint32_t p = 0; p < a->src.num[0]; p++) {
    for (uint64_t i = 0; i < a->src.elems; i++) {
      uint32_t q = (uint32_t)i, j = p;
      if (blocks) { /* each block in its own place */
        q = p / 32 * 32 + (uint32_t)i % 32;
        j = (uint32_t)i / 32 * 32 + p % 32;
      }
      expect(b, &a->dst, q, j, get(&a->src, p, i));
    }
  }
  if (vm_op_transpose32(&b->d, a) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

static void transpose32(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, part, parts;
    const char *src;
    unsigned to, out;
    const char *dst;
  } cases[] = {
      {ISA_float32, 0, 32, "32:1", 96, 32, "32:1"},
      {ISA_bfloat16, 0, 128, "96:1", 0, 128, "96:1"},
      {ISA_uint8, 64, 64, "2:40 32:1", 0, 64, "64:2"},
      {ISA_int16, 32, 1, "1:1", 0, 1, "1:1"},
      {ISA_float32, 0, 5, "7:3", 32, 7, "5:-1"},
      {ISA_int8, 0, 1, "32:1", 64, 32, "1:1"},
      {ISA_float32, 0, 32, "4:0 8:1", 0, 32, "32:1"},
      {ISA_float8_e5m2_x4, 0, 32, "64:1", 32, 32, "64:1"},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_TRANSPOSE32 a = {
        .src = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 1, 9, cases[i].src),
        .dst = sb(b, cases[i].dtype, cases[i].to, cases[i].out, 0, 9, cases[i].dst)};
    fill(b, &a.src); /* NaN payloads move as they are */
    transpose_once(b, &a, cases[i].parts % 32 == 0, cases[i].src);
  }
  free(b);
}

static void transpose_in_place(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  vm_view v = sb(b, ISA_float32, 0, 64, 0, 0, "64:1");
  vm_view before = sb(b, ISA_float32, 0, 64, 1, 0, "64:1");
  fill(b, &v);
  for (uint32_t p = 0; p < 64; p++)
    for (uint32_t i = 0; i < 64; i++) put(&before, p, i, get(&v, p, i));
  struct vm_TRANSPOSE32 a = {.dst = v, .src = v};
  assert_int_equal(vm_op_transpose32(&b->d, &a), VM_RETIRE);
  for (uint32_t p = 0; p < 64; p++)
    for (uint32_t i = 0; i < 64; i++)
      assert_int_equal(get(&v, p / 32 * 32 + i % 32, i / 32 * 32 + p % 32), get(&before, p, i));
  a.dst = ps(b, ISA_float32, 0, 64, 0, "64:1"); /* and to PSUM: back again */
  assert_int_equal(vm_op_transpose32(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.dst, 33, 63), get(&before, 33, 63));
  assert_int_equal(get(&a.dst, 2, 40), get(&before, 2, 40));
  a.dst.num[0] = 32;
  assert_int_equal(vm_op_transpose32(&b->d, &a), VM_FAULT);
  free(b);
}

/* ---- shuffle ------------------------------------------------------------------------------ */

static void load_mask(bed *b, const uint8_t *mask) {
  struct vm_MASK m = {.mask = {32, mask}};
  assert_int_equal(vm_op_load_mask_register(&b->d, &m), VM_RETIRE);
}

/* The source is read as a whole first: `from` is what it was. */
static void shuffle_once(bed *b, const struct vm_SHUFFLE *a, const uint8_t *mask,
                         const char *what) {
  static uint32_t from[128][3000];
  for (uint32_t p = 0; p < a->src.num[0]; p++)
    for (uint64_t i = 0; i < a->src.elems; i++) from[p][i] = get(&a->src, p, i);
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++)
    for (uint64_t i = 0; i < a->dst.elems; i++)
      if (mask[p % 32] != 255) expect(b, &a->dst, p, i, from[p / 32 * 32 + mask[p % 32]][i]);
  if (vm_op_shuffle(&b->d, a) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

static void shuffle(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, part, parts;
    const char *src;
    unsigned to, out;
    const char *dst;
  } cases[] = {
      {ISA_float32, 0, 128, "512:1", 0, 128, "512:1"},
      {ISA_uint8, 32, 32, "1:1", 96, 32, "1:1"},
      {ISA_bfloat16, 0, 64, "3:9 5:1", 64, 64, "15:-1"},
      {ISA_int32, 96, 32, "2500:1", 0, 20, "2500:1"},
      {ISA_float16, 0, 96, "33:0", 0, 96, "33:1"},
      {ISA_float4_e2m1fn_x4, 0, 32, "7:1", 0, 1, "7:2"},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_SHUFFLE a = {
        .src = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 1, 0, cases[i].src),
        .dst = sb(b, cases[i].dtype, cases[i].to, cases[i].out, 0, 20, cases[i].dst)};
    uint8_t mask[32];
    for (unsigned j = 0; j < 32; j++) mask[j] = draw(b) % 4 ? (uint8_t)(draw(b) % 32) : 255;
    fill(b, &a.src);
    fill(b, &a.dst);
    load_mask(b, mask);
    shuffle_once(b, &a, mask, cases[i].src);
  }
  free(b);
}

static void shuffle_in_place(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  uint8_t mask[32];
  for (unsigned j = 0; j < 32; j++) mask[j] = (uint8_t)(j + 31) % 32; /* rotate down by one */
  mask[7] = 255;
  load_mask(b, mask);
  struct vm_SHUFFLE a = {.src = sb(b, ISA_float32, 0, 64, 0, 0, "2400:1")};
  a.dst = a.src;
  fill(b, &a.src);
  shuffle_once(b, &a, mask, "in place");
  a.src = a.dst = ps(b, ISA_bfloat16, 64, 64, 3, "700:3");
  fill(b, &a.src);
  shuffle_once(b, &a, mask, "in place in PSUM");
  free(b);
}

static void shuffle_faults(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  struct vm_SHUFFLE a = {.src = sb(b, ISA_float32, 0, 40, 1, 0, "2:1"),
                         .dst = sb(b, ISA_float32, 0, 64, 0, 0, "2:1")};
  uint8_t mask[32] = {0};
  assert_int_equal(vm_op_shuffle(&b->d, &a), VM_FAULT);
  assert_string_equal(b->d.fault, "shuffle: no mask is loaded: run load_mask_register first");
  load_mask(b, mask);
  assert_int_equal(vm_op_shuffle(&b->d, &a), VM_RETIRE);
  mask[5] = 8;
  load_mask(b, mask);
  bed_expect(b);
  assert_int_equal(vm_op_shuffle(&b->d, &a), VM_FAULT);
  assert_string_equal(b->d.fault, "shuffle: mask[5] is partition 8 of quadrant 1, where src has 8");
  bed_check(b, "a fault writes nothing");
  a.dst.num[0] = 32 + 5; /* that entry is not used any more */
  assert_int_equal(vm_op_shuffle(&b->d, &a), VM_RETIRE);
  struct vm_MASK m = {.mask = {31, mask}};
  assert_int_equal(vm_op_load_mask_register(&b->d, &m), VM_FAULT);
  free(b);
}

/* ---- exponential -------------------------------------------------------------------------- */

/* exp itself is tested elsewhere, against MPFR: here it is taken as given. */
static float exp_sum(const struct vm_EXPONENTIAL *a, uint32_t p, float max, float *out) {
  volatile float part[16] = {0}, x;
  for (uint64_t i = 0; i < a->src.elems; i++) {
    x = ref_decode(a->src.dtype, get(&a->src, p, i)) - max;
    out[i] = vm_actfn_f32(ISA_FN_exp, x, 0);
    part[i % 16] = part[i % 16] + out[i];
  }
  for (int h = 8; h; h /= 2)
    for (int j = 0; j < h; j++) part[j] = part[j] + part[j + h];
  return part[0];
}

static void exponential_once(bed *b, const struct vm_EXPONENTIAL *a, const char *what) {
  static float y[5000];
  float acc[ISA_PMAX];
  memcpy(acc, b->d.acc, sizeof acc);
  bed_expect(b);
  for (uint32_t p = 0; p < a->src.num[0]; p++) {
    float max = a->max.v.at ? getf(&a->max.v, p, 0) : a->max.imm;
    float init = a->init.v.at ? getf(&a->init.v, p, 0) : a->init.imm;
    volatile float sum = exp_sum(a, p, max, y), *r = &acc[p];
    for (uint64_t i = 0; i < a->src.elems; i++)
      expect(b, &a->dst, p, i, ref_encode(a->dst.dtype, y[i]));
    if (a->reduce == ISA_CMD_reset_reduce) *r = 0.0f + sum;
    if (a->reduce == ISA_CMD_reduce) *r = *r + sum;
    if (a->reduce == ISA_CMD_load_reduce) *r = init + sum;
  }
  assert_int_equal(vm_op_exponential(&b->d, a), VM_RETIRE);
  bed_check(b, what);
  for (uint32_t p = 0; p < ISA_PMAX; p++) /* sums that are NaN are so in both */
    if (!(isnan(acc[p]) && isnan(b->d.acc[p])))
      assert_int_equal(isa_f32_bits(b->d.acc[p]), isa_f32_bits(acc[p]));
}

static void exponential(void **state) {
  (void)state;
  static const uint8_t cmds[] = {ISA_CMD_idle, ISA_CMD_reset_reduce, ISA_CMD_reduce,
                                 ISA_CMD_load_reduce};
  static const struct {
    unsigned ts, td, part, parts;
    const char *src, *dst;
  } cases[] = {
      {ISA_float32, ISA_float32, 0, 128, "512:1", "512:1"},
      {ISA_bfloat16, ISA_bfloat16, 32, 3, "2100:1", "2100:1"},
      {ISA_float16, ISA_float8_e4m3, 64, 2, "3:20 5:1", "15:2"},
      {ISA_int32, ISA_uint16, 0, 1, "1:1", "1:1"},
      {ISA_uint8, ISA_float32, 96, 32, "17:-1", "17:1"},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned j = 0; j < 8; j++) {
      struct vm_EXPONENTIAL a = {.reduce = cmds[j % 4], .max = imm(i ? 2.5f : 0)};
      a.src = sb(b, cases[i].ts, cases[i].part, cases[i].parts, 1, 20, cases[i].src);
      a.dst = sb(b, cases[i].td, cases[i].part, cases[i].parts, 0, 0, cases[i].dst);
      if (j & 1) {
        a.max = vec(sb(b, ISA_float32, cases[i].part, cases[i].parts, 2, 0, "1:1"));
        fill_tame(b, &a.max.v);
      }
      if (a.reduce == ISA_CMD_load_reduce) {
        a.init = vec(sb(b, ISA_float32, cases[i].part, cases[i].parts, 2, 7, "1:1"));
        fill_tame(b, &a.init.v);
      }
      if (j < 4)
        fill_tame(b, &a.src);
      else
        fill(b, &a.src);
      exponential_once(b, &a, cases[i].src);
    }
  }
  free(b);
}

static void exponential_by_hand(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  struct vm_EXPONENTIAL a = {.reduce = ISA_CMD_reset_reduce, .max = imm(1)};
  a.src = a.dst = sb(b, ISA_float32, 0, 1, 0, 0, "4:1"); /* in place */
  static const float x[4] = {1, -INFINITY, 2, 1};
  for (unsigned i = 0; i < 4; i++) putf(&a.src, 0, i, x[i]);
  assert_int_equal(vm_op_exponential(&b->d, &a), VM_RETIRE);
  assert_true(getf(&a.dst, 0, 0) == 1 && getf(&a.dst, 0, 1) == 0);
  assert_true(fabs((double)getf(&a.dst, 0, 2) - 2.718281828459045) < 2.4e-7);
  assert_true(fabs((double)b->d.acc[0] - 4.718281828459045) < 1e-6);
  /* The register sees the values before they are rounded to dst's type. */
  a.dst = sb(b, ISA_int8, 0, 1, 1, 0, "1:1");
  a.src = sb(b, ISA_float32, 0, 1, 0, 0, "1:1");
  putf(&a.src, 0, 0, 1.25f);
  assert_int_equal(vm_op_exponential(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.dst, 0, 0), 1);
  assert_true(fabs((double)b->d.acc[0] - 1.2840254166877414) < 1e-6);
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(transpose32),
                                     cmocka_unit_test(transpose_in_place),
                                     cmocka_unit_test(shuffle),
                                     cmocka_unit_test(shuffle_in_place),
                                     cmocka_unit_test(shuffle_faults),
                                     cmocka_unit_test(exponential),
                                     cmocka_unit_test(exponential_by_hand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
