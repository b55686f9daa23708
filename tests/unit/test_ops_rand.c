/* Random numbers. The XORWOW sequence is checked against published values, and everything else
 * against a generator written here from its definition. */
#include "opbed.h"

/* Marsaglia's example state and the numbers it is known to give. */
static const uint32_t start[6] = {123456789, 362436069, 521288629, 88675123, 5783321, 6615241};
static const uint32_t known[5] = {246875399, 3690007200, 1264581005, 3906711041, 1866187943};

static uint32_t ref_xorwow(uint32_t *s) {
  uint32_t t = s[0] ^ (s[0] >> 2);
  s[0] = s[1], s[1] = s[2], s[2] = s[3], s[3] = s[4];
  s[4] = (s[4] ^ (s[4] << 4)) ^ (t ^ (t << 1));
  return (s[5] += 362437) + s[4];
}

static bed *bed_on(unsigned engine, unsigned target) {
  bed *b = bed_new(engine);
  b->d.target = &isa_targets[target];
  return b;
}
static void set_state(bed *b, const vm_view *v) {
  struct vm_SRC a = {.src = *v};
  if (vm_op_rand_set_state(&b->d, &a) != VM_RETIRE) fail_msg("%s", b->d.fault);
}

/* ---- rng ---------------------------------------------------------------------------------- */

static void xorwow_known(void **state) {
  (void)state;
  bed *b = bed_on(ISA_ENG_gpsimd, ISA_trn2);
  vm_view s = sb(b, ISA_uint32, 32, 2, 1, 0, "6:1");
  struct vm_DST a = {.dst = sb(b, ISA_uint32, 32, 2, 0, 0, "5:1")}, get_state = {.dst = s};
  for (uint32_t p = 0; p < 2; p++)
    for (unsigned i = 0; i < 6; i++) put(&s, p, i, start[i]);
  set_state(b, &s);
  bed_expect(b);
  for (uint32_t p = 0; p < 2; p++)
    for (unsigned i = 0; i < 5; i++) expect(b, &a.dst, p, i, known[i]);
  assert_int_equal(vm_op_rng(&b->d, &a), VM_RETIRE);
  bed_check(b, "rng");
  uint32_t after[6];
  memcpy(after, start, sizeof after);
  for (unsigned i = 0; i < 5; i++) assert_int_equal(ref_xorwow(after), known[i]);
  assert_int_equal(vm_op_rand_get_state(&b->d, &get_state), VM_RETIRE);
  for (unsigned i = 0; i < 6; i++) assert_int_equal(get(&s, 1, i), after[i]);
  free(b);
}

/* Every integer type takes the low bits, whatever the layout; lanes count from the operand's first
 * partition. */
static void rng_types(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, part, parts;
    const char *dst;
  } cases[] = {
      {ISA_uint8, 0, 128, "33:1"},   {ISA_int8, 32, 5, "2100:1"},  {ISA_uint16, 64, 1, "1:1"},
      {ISA_int16, 0, 3, "4:20 5:2"}, {ISA_uint32, 96, 32, "7:-3"}, {ISA_int32, 0, 2, "2400:1"},
  };
  for (unsigned e = 0; e < 2; e++) {
    bed *b = bed_on(e ? ISA_ENG_vector : ISA_ENG_gpsimd, e ? ISA_trn3 : ISA_trn2);
    uint32_t lane[128][24];
    vm_view s = sb(b, ISA_uint32, 0, 128, 1, 0, e ? "24:1" : "6:1");
    fill(b, &s);
    for (uint32_t p = 0; p < 128; p++)
      for (unsigned i = 0; i < s.elems; i++) lane[p][i] = get(&s, p, i);
    set_state(b, &s);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
      unsigned part = cases[i].part, parts = cases[i].parts;
      struct vm_DST a = {.dst = sb(b, cases[i].dtype, part, parts, 0, 40, cases[i].dst)};
      bed_expect(b);
      for (uint32_t p = 0; p < a.dst.num[0]; p++)
        for (uint64_t j = 0; j < a.dst.elems; j++)
          expect(b, &a.dst, p, j, ref_xorwow(lane[p] + (e ? 6 * (j % 4) : 0)));
      assert_int_equal(vm_op_rng(&b->d, &a), VM_RETIRE);
      bed_check(b, cases[i].dst);
    }
    free(b);
  }
}

/* The stand-in for older vector engines, from its documentation (computed apart, seed 0, lane 3),
 * and a seed that fixes the sequence. */
static void older_vector(void **state) {
  (void)state;
  bed *b = bed_on(ISA_ENG_vector, ISA_trn1);
  struct vm_DST a = {.dst = sb(b, ISA_uint32, 0, 4, 0, 0, "3:1")};
  struct vm_SRC seed = {.src = sb(b, ISA_int32, 64, 1, 1, 0, "1:1")};
  static const uint32_t want[3] = {0x7337c8b3, 0xce1c59c3, 0xe1a77171};
  assert_int_equal(vm_op_rng(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 3; i++) assert_int_equal(get(&a.dst, 3, i), want[i]);
  assert_int_equal(vm_op_set_rng_seed(&b->d, &seed), VM_RETIRE); /* 0 */
  assert_int_equal(vm_op_rng(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 3; i++) assert_int_equal(get(&a.dst, 3, i), want[i]);
  put(&seed.src, 0, 0, 1);
  assert_int_equal(vm_op_set_rng_seed(&b->d, &seed), VM_RETIRE);
  assert_int_equal(vm_op_rng(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 3; i++) assert_int_not_equal(get(&a.dst, 3, i), want[i]);
  seed.src.num[0] = 2;
  assert_int_equal(vm_op_set_rng_seed(&b->d, &seed), VM_FAULT);
  free(b);
}

/* From gen4 a seed gives all 24 words of a lane (computed apart, seed 42). */
static void seed_words(void **state) {
  (void)state;
  bed *b = bed_on(ISA_ENG_vector, ISA_trn3);
  struct vm_SRC seed = {.src = ps(b, ISA_uint32, 0, 1, 1, "1:1")};
  struct vm_DST a = {.dst = sb(b, ISA_uint32, 0, 128, 0, 0, "24:1")};
  put(&seed.src, 0, 0, 42);
  assert_int_equal(vm_op_set_rng_seed(&b->d, &seed), VM_RETIRE);
  assert_int_equal(vm_op_rand_get_state(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.dst, 0, 0), 0x3805ea2c);
  assert_int_equal(get(&a.dst, 0, 1), 0xeb5cd984);
  assert_int_equal(get(&a.dst, 0, 23), 0x797ebc65);
  assert_int_equal(get(&a.dst, 5, 0), 0x259e6a4a);
  assert_int_equal(get(&a.dst, 5, 23), 0xf000e8d5);
  free(b);
}

/* A state that is read and set again gives the same numbers; other lanes are not touched. */
static void state_in_and_out(void **state) {
  (void)state;
  for (unsigned e = 0; e < 2; e++) {
    bed *b = bed_on(e ? ISA_ENG_vector : ISA_ENG_gpsimd, ISA_trn3);
    vm_view s = sb(b, ISA_uint32, 32, 32, 1, 0, e ? "4:7 6:1" : "6:-1");
    if (!e) s.at += 40;
    struct vm_DST all = {.dst = sb(b, ISA_uint32, 0, 128, 0, 0, "9:1")}, out = {.dst = s};
    uint32_t first[128][9];
    assert_int_equal(vm_op_rng(&b->d, &all), VM_RETIRE);
    assert_int_equal(vm_op_rand_get_state(&b->d, &out), VM_RETIRE);
    assert_int_equal(vm_op_rng(&b->d, &all), VM_RETIRE);
    for (uint32_t p = 0; p < 128; p++)
      for (unsigned i = 0; i < 9; i++) first[p][i] = get(&all.dst, p, i);
    set_state(b, &s);
    assert_int_equal(vm_op_rng(&b->d, &all), VM_RETIRE);
    for (uint32_t p = 0; p < 128; p++)
      for (unsigned i = 0; i < 9; i++) assert_int_equal(get(&all.dst, p, i) == first[p][i], p < 32);
    struct vm_SRC bad = {.src = sb(b, ISA_uint32, 0, 1, 1, 0, "5:1")};
    struct vm_DST bad_out = {.dst = bad.src};
    assert_int_equal(vm_op_rand_set_state(&b->d, &bad), VM_FAULT);
    assert_int_equal(vm_op_rand_get_state(&b->d, &bad_out), VM_FAULT);
    free(b);
  }
}

/* ---- rand2 -------------------------------------------------------------------------------- */

static void rand2(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, parts;
    const char *dst;
    float min, max;
  } cases[] = {
      {ISA_float32, 128, "512:1", 0, 1},         {ISA_bfloat16, 3, "2100:1", -3, 7.5f},
      {ISA_int8, 2, "40:2", -300, 300},          {ISA_float8_e4m3, 1, "3:9 5:1", 0.1f, 0.3f},
      {ISA_uint32, 5, "9:-1", 0, 4294967296.0f}, {ISA_tfloat32, 1, "1:1", 1, 1.0000001f},
  };
  bed *b = bed_on(ISA_ENG_vector, ISA_trn3);
  uint32_t lane[128][24];
  vm_view s = sb(b, ISA_uint32, 0, 128, 1, 0, "24:1");
  fill(b, &s);
  for (uint32_t p = 0; p < 128; p++)
    for (unsigned i = 0; i < 24; i++) lane[p][i] = get(&s, p, i);
  set_state(b, &s);
  for (unsigned i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
    struct vm_RAND2 a = {.min = imm(cases[i / 2].min), .max = imm(cases[i / 2].max)};
    a.dst = sb(b, cases[i / 2].dtype, 0, cases[i / 2].parts, 0, 30, cases[i / 2].dst);
    if (i % 2) { /* a range for each partition */
      a.min = vec(sb(b, ISA_float32, 0, cases[i / 2].parts, 2, 0, "1:1"));
      for (uint32_t p = 0; p < a.dst.num[0]; p++) putf(&a.min.v, p, 0, cases[i / 2].min - (float)p);
    }
    bed_expect(b);
    for (uint32_t p = 0; p < a.dst.num[0]; p++) {
      float min = i % 2 ? getf(&a.min.v, p, 0) : cases[i / 2].min;
      volatile float width = cases[i / 2].max - min, x;
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        x = ldexpf((float)(ref_xorwow(lane[p] + 6 * (j % 4)) >> 8), -24);
        x = width * x;
        x = min + x;
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, x));
      }
    }
    assert_int_equal(vm_op_rand2(&b->d, &a), VM_RETIRE);
    bed_check(b, cases[i / 2].dst);
  }
  struct vm_RAND2 bad = {.min = imm(1), .max = imm(1)};
  bad.dst = sb(b, ISA_float32, 32, 1, 0, 0, "1:1");
  assert_int_equal(vm_op_rand2(&b->d, &bad), VM_FAULT);
  assert_string_equal(b->d.fault, "rand2: min 1 is not below max 1 in partition 32");
  bad.max = imm(NAN);
  assert_int_equal(vm_op_rand2(&b->d, &bad), VM_FAULT);
  free(b);
}

/* ---- dropout ------------------------------------------------------------------------------ */

static void dropout_once(bed *b, const struct vm_DROPOUT *a, uint32_t lane[128][24],
                         const char *what) {
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    float rate = a->prob.v.at ? ref_decode(a->prob.v.dtype, get(&a->prob.v, p, 0)) : a->prob.imm;
    for (uint64_t i = 0; i < a->dst.elems; i++) {
      uint32_t u = ref_xorwow(lane[p] + 6 * (i % 4)) >> 8;
      bool hit = (double)u < (double)rate * 16777216.0;
      bool keep = a->threshold == ISA_DROP_keep_rate ? hit : !hit;
      expect(b, &a->dst, p, i, keep ? get(&a->src, p, i) : 0);
    }
  }
  assert_int_equal(vm_op_dropout(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static void dropout(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, part, parts;
    const char *dst, *src;
    float prob;
  } cases[] = {
      {ISA_float32, 0, 128, "512:1", "512:1", 0.5f},
      {ISA_bfloat16, 32, 3, "2100:1", "2100:1", 0.1f},
      {ISA_int32, 0, 5, "3:9 5:1", "15:-1", 0},
      {ISA_float8_e5m2, 64, 2, "7:2", "7:0", 1},
      {ISA_float16, 0, 1, "1:1", "1:1", 0.25f},
      {ISA_uint8, 0, 9, "40:1", "40:1", 0.75f},
  };
  bed *b = bed_on(ISA_ENG_vector, ISA_trn3);
  uint32_t lane[128][24];
  vm_view s = sb(b, ISA_uint32, 0, 128, 1, 0, "24:1");
  fill(b, &s);
  for (uint32_t p = 0; p < 128; p++)
    for (unsigned i = 0; i < 24; i++) lane[p][i] = get(&s, p, i);
  set_state(b, &s);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned j = 0; j < 4; j++) {
      struct vm_DROPOUT a = {.prob = imm(cases[i].prob), .threshold = j & 1};
      a.dst = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 0, 40, cases[i].dst);
      a.src = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 1, 40, cases[i].src);
      fill(b, &a.src); /* NaNs, infinities: kept with their bits, or 0 */
      if (j & 2) {
        a.prob = vec(sb(b, isa_dtypes[a.src.dtype].cls == ISA_FLOAT ? ISA_bfloat16 : ISA_float32,
                        cases[i].part, cases[i].parts, 2, 0, "1:1"));
        for (uint32_t p = 0; p < a.dst.num[0]; p++)
          put(&a.prob.v, p, 0, ref_encode(a.prob.v.dtype, (float)p / 8));
        if (a.dst.esize == a.src.esize && strcmp(cases[i].dst, cases[i].src) == 0) a.dst = a.src;
      }
      dropout_once(b, &a, lane, cases[i].src);
    }
  }
  free(b);
}

/* A number equal to the rate does not count as below it; a dropped NaN is 0. */
static void dropout_edge(void **state) {
  (void)state;
  bed *b = bed_on(ISA_ENG_vector, ISA_trn3);
  vm_view s = sb(b, ISA_uint32, 0, 1, 1, 0, "24:1");
  struct vm_DROPOUT a = {.src = sb(b, ISA_float32, 0, 1, 0, 0, "1:1")};
  a.dst = sb(b, ISA_float32, 0, 1, 0, 5, "1:1");
  put(&a.src, 0, 0, 0x7fc12345);
  for (unsigned i = 0; i < 4; i++) {
    for (unsigned j = 0; j < 24; j++) put(&s, 0, j, start[j % 6]);
    set_state(b, &s);
    a.prob = imm(ldexpf((float)(known[0] >> 8) + (float)(i & 1), -24));
    a.threshold = i / 2 ? ISA_DROP_keep_rate : ISA_DROP_drop_rate;
    assert_int_equal(vm_op_dropout(&b->d, &a), VM_RETIRE);
    assert_int_equal(get(&a.dst, 0, 0), (i & 1) == i / 2 ? 0x7fc12345 : 0);
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(xorwow_known),     cmocka_unit_test(rng_types),
      cmocka_unit_test(older_vector),     cmocka_unit_test(seed_words),
      cmocka_unit_test(state_in_and_out), cmocka_unit_test(rand2),
      cmocka_unit_test(dropout),          cmocka_unit_test(dropout_edge)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
