/* tensor_reduce, activate and its registers against a reference of their own. */
#include "opbed.h"

static float at(const vm_view *v, uint32_t p, uint64_t i) {
  return ref_decode(v->dtype, get(v, p, i));
}

/* The order of sums, written out: sixteen partials, then halves. */
static float ref_sum16(unsigned op, const float *x, uint64_t n) {
  float start = op == ISA_ALU_mult  ? 1
                : op == ISA_ALU_max ? -INFINITY
                : op == ISA_ALU_min ? INFINITY
                                    : 0;
  volatile float p[16];
  for (int j = 0; j < 16; j++) p[j] = start;
  for (uint64_t i = 0; i < n; i++) p[i % 16] = ref_alu(op, p[i % 16], x[i]);
  for (int h = 8; h; h /= 2)
    for (int j = 0; j < h; j++) p[j] = ref_alu(op, p[j], p[j + h]);
  return p[0];
}

static float ref_reduce(unsigned op, const float *x, uint64_t n) {
  unsigned truths = 0;
  for (uint64_t i = 0; i < n; i++) truths += x[i] != 0;
  switch (op) {
  case ISA_ALU_subtract: return ref_alu(op, x[0], ref_sum16(ISA_ALU_add, x + 1, n - 1));
  case ISA_ALU_logical_and: return truths == n;
  case ISA_ALU_logical_or: return truths > 0;
  case ISA_ALU_logical_xor: return truths % 2 == 1;
  default: return ref_sum16(op, x, n);
  }
}

static void reduce_once(bed *b, const struct vm_TENSOR_REDUCE *a, const char *what) {
  static float x[8192];
  uint64_t n = a->src.elems / a->dst.elems;
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t o = 0; o < a->dst.elems; o++) {
      for (uint64_t i = 0; i < n; i++) x[i] = at(&a->src, p, o * n + i);
      float r = ref_reduce(a->op, x, n);
      expect(b, &a->dst, p, o, ref_encode(a->dst.dtype, a->negate ? -r : r));
    }
  }
  assert_int_equal(vm_op_tensor_reduce(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static const uint8_t reduce_ops[] = {ISA_ALU_add,        ISA_ALU_mult,       ISA_ALU_max,
                                     ISA_ALU_min,        ISA_ALU_subtract,   ISA_ALU_logical_and,
                                     ISA_ALU_logical_or, ISA_ALU_logical_xor};

static void reduce_shapes(void **state) {
  (void)state;
  static const struct {
    unsigned parts, axes;
    const char *src, *dst;
  } cases[] = {
      {1, 0, "1:1", "1:1"},
      {128, 1, "1:1", "1:1"},
      {128, 0, "33:1", "1:1"},
      {3, 1, "4:100 7:3", "4:2"},
      {2, 0, "4:100 7:3", "1:1"},
      {2, 2, "3:90 4:1 5:4", "3:-1"},
      {2, 1, "3:700 5:100 4:-1", "5:3 3:1"},
      {1, 0, "5000:1", "1:1"},
      {2, 1, "2:2500 2401:1", "2:1"},
      {4, 1, "300:2 2:1", "300:1"},
      {2, 0, "17:0", "1:1"},
      {1, 1, "150:16 16:1", "150:1"},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned j = 0; j < sizeof reduce_ops; j++) {
      for (unsigned tame = 0; tame < 2; tame++) {
        static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_float32, ISA_int32};
        unsigned ts = types[(i + j) % 4];
        if (i == 7 || i == 8) ts = ISA_float32; /* long: regions 1 and 2 */
        struct vm_TENSOR_REDUCE a = {
            .op = reduce_ops[j], .axes = (uint8_t)cases[i].axes, .negate = (i + j) % 3 == 0};
        a.src = sb(b, ts, 0, cases[i].parts, 1, 10, cases[i].src);
        a.dst = sb(b, types[j % 4], 0, cases[i].parts, 0, 9, cases[i].dst);
        if (tame)
          fill_tame(b, &a.src);
        else
          fill(b, &a.src);
        reduce_once(b, &a, isa_aluops[a.op].name);
      }
    }
  }
  free(b);
}

static void reduce_by_hand(void **state) {
  (void)state;
  static const struct {
    unsigned op, n;
    float x[3];
    uint32_t want;
  } cases[] = {
      {ISA_ALU_add, 1, {-0.0f}, 0},
      {ISA_ALU_max, 2, {-0.0f, 0}, 0},
      {ISA_ALU_min, 2, {0, -0.0f}, 0x80000000},
      {ISA_ALU_max, 3, {NAN, 1, NAN}, 0x3f800000},
      {ISA_ALU_subtract, 3, {10, 3, 2}, 0x40a00000},
      {ISA_ALU_add, 2, {INFINITY, -INFINITY}, 0x7fc00000},
      {ISA_ALU_logical_and, 1, {5}, 0x3f800000},
      {ISA_ALU_abs_max, 3, {1, -3, 2}, 0xc0400000},
      {ISA_ALU_abs_min, 3, {2, -1, 3}, 0xbf800000},
      {ISA_ALU_max, 1, {NAN}, 0xff800000},
      {ISA_ALU_subtract, 1, {-2}, 0xc0000000},
      {ISA_ALU_mult, 2, {0x1p-100f, 0x1p-40f}, 0x00000200},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_TENSOR_REDUCE a = {.op = (uint8_t)cases[i].op};
    char dims[8];
    snprintf(dims, sizeof dims, "%u:1", cases[i].n);
    a.src = sb(b, ISA_float32, 0, 1, 1, 0, dims);
    a.dst = sb(b, ISA_float32, 0, 1, 0, 0, "1:1");
    for (unsigned j = 0; j < cases[i].n; j++) putf(&a.src, 0, j, cases[i].x[j]);
    assert_int_equal(vm_op_tensor_reduce(&b->d, &a), VM_RETIRE);
    assert_int_equal(get(&a.dst, 0, 0), cases[i].want);
  }
  free(b);
}

static void reduce_bits(void **state) {
  (void)state;
  static const struct {
    unsigned op, ts, td;
    uint32_t x[3], want;
  } cases[] = {
      {ISA_ALU_bitwise_and, ISA_int32, ISA_int32, {0xfffffff0, 0x0fffffff, 0x12345678}, 0x02345670},
      {ISA_ALU_bitwise_or, ISA_uint8, ISA_uint8, {0x80, 0x01, 0x10}, 0x91},
      {ISA_ALU_bitwise_xor, ISA_uint16, ISA_uint16, {0x8000, 0xffff, 0x0001}, 0x7ffe},
      {ISA_ALU_bitwise_or, ISA_int8, ISA_int32, {0x80, 1, 2}, 0xffffff83},
      {ISA_ALU_bitwise_or, ISA_uint8, ISA_uint32, {0x80, 1, 2}, 0x83},
      {ISA_ALU_bitwise_and, ISA_int8, ISA_int16, {0xff, 0xff, 0xfe}, 0xfffe},
      {ISA_ALU_bitwise_xor, ISA_int32, ISA_uint16, {0x12345678, 0, 1}, 0x5679},
      {ISA_ALU_bitwise_and,
       ISA_uint32,
       ISA_uint32,
       {0xffffffff, 0xffffffff, 0xffffffff},
       0xffffffff},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_TENSOR_REDUCE a = {.op = (uint8_t)cases[i].op, .axes = 1};
    a.src = sb(b, cases[i].ts, 0, 2, 1, 0, "2:0 3:-1");
    a.src.at += 2 * a.src.esize;
    a.dst = sb(b, cases[i].td, 0, 2, 0, 0, "2:3");
    for (unsigned j = 0; j < 6; j++) put(&a.src, j / 3, j % 3, cases[i].x[j % 3]);
    assert_int_equal(vm_op_tensor_reduce(&b->d, &a), VM_RETIRE);
    for (unsigned j = 0; j < 4; j++) assert_int_equal(get(&a.dst, j / 2, j % 2), cases[i].want);
  }
  struct vm_TENSOR_REDUCE bad = {.op = ISA_ALU_add, .axes = 1};
  bad.src = sb(b, ISA_float32, 0, 2, 1, 0, "3:4 4:1");
  bad.dst = sb(b, ISA_float32, 0, 2, 0, 0, "4:1");
  assert_int_equal(vm_op_tensor_reduce(&b->d, &bad), VM_FAULT);
  assert_string_equal(b->d.fault, "tensor_reduce: 12 elements, 4 per result, into 4 results");
  free(b);
}

/* ---- activate ----------------------------------------------------------------------------- */

static float ref_fn(unsigned fn, float x) {
  volatile float r = x * x;
  switch (fn) {
  case ISA_FN_square: return r;
  case ISA_FN_abs: return fabsf(x);
  case ISA_FN_relu: return isnan(x) ? x : x > 0 ? x : 0;
  default: return x;
  }
}

static float num_at(const vm_num *n, uint32_t p) { return n->v.at ? at(&n->v, p, 0) : n->imm; }

static void activate_once(bed *b, const struct vm_ACTIVATE *a, const char *what) {
  static float o[8192];
  float acc[ISA_PMAX];
  memcpy(acc, b->d.acc, sizeof acc);
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i++) {
      volatile float x = at(&a->src, p, i);
      if (a->scale.given) x = x * num_at(&a->scale, p);
      if (a->bias.given) x = x + num_at(&a->bias, p);
      o[i] = ref_fn(a->fn, x);
      expect(b, &a->dst, p, i, ref_encode(a->dst.dtype, o[i]));
    }
    volatile float *r = &acc[p];
    if (a->reduce == ISA_CMD_reset || a->reduce == ISA_CMD_reset_reduce) *r = 0;
    if (a->reduce == ISA_CMD_reduce || a->reduce == ISA_CMD_reset_reduce)
      *r = *r + ref_sum16(ISA_ALU_add, o, a->dst.elems);
  }
  assert_int_equal(vm_op_activate(&b->d, a), VM_RETIRE);
  bed_check(b, what);
  for (unsigned p = 0; p < ISA_PMAX; p++)
    if (isnan(acc[p]))
      assert_int_equal(isa_f32_bits(b->d.acc[p]), 0x7fc00000);
    else
      assert_int_equal(isa_f32_bits(b->d.acc[p]), isa_f32_bits(acc[p]));
}

static void activate_all(void **state) {
  (void)state;
  static const uint8_t fns[] = {ISA_FN_copy, ISA_FN_square, ISA_FN_relu, ISA_FN_abs};
  static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_float32, ISA_float8_e5m2,
                                  ISA_int32,   ISA_float16,  ISA_uint8};
  bed *b = bed_new(ISA_ENG_scalar);
  for (unsigned i = 0; i < NSHAPES * 20; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_ACTIVATE a = {.fn = fns[i % 4], .reduce = (uint8_t)(i / NSHAPES % 4)};
    a.dst = sb(b, types[i % 7], s->part, s->parts, 0, s->dst_at, s->dst);
    a.src = sb(b, types[i * 3 % 7], s->part, s->parts, 1, s->a_at, s->a);
    vm_view scale = sb(b, ISA_float32, s->part, s->parts, 2, 0, "1:1");
    vm_view bias = sb(b, types[i % 4], s->part, s->parts, 2, 8, "1:1");
    if (i % 3) a.scale = i % 3 == 1 ? vec(scale) : imm(1.1f);
    if (i % 5) a.bias = i % 5 < 3 ? vec(bias) : imm(i % 2 ? 0 : -0.7f);
    if (i < NSHAPES * 10) {
      fill(b, &a.src);
      fill(b, &scale);
      fill(b, &bias);
    } else {
      memset(b->d.acc, 0, sizeof b->d.acc);
      fill_tame(b, &a.src);
      fill_tame(b, &scale);
      fill_tame(b, &bias);
    }
    activate_once(b, &a, s->name);
  }
  free(b);
}

static void activate_by_hand(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_scalar);
  struct vm_ACTIVATE a = {.fn = ISA_FN_exp, .reduce = ISA_CMD_reset_reduce};
  a.src = sb(b, ISA_float32, 32, 2, 1, 0, "3:1");
  a.dst = sb(b, ISA_bfloat16, 32, 2, 0, 0, "3:1");
  static const float x[6] = {0, -INFINITY, 0, -INFINITY, -INFINITY, INFINITY};
  for (unsigned i = 0; i < 6; i++) putf(&a.src, i / 3, i % 3, x[i]);
  b->d.acc[0] = 77;
  b->d.acc[32] = 78;
  assert_int_equal(vm_op_activate(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.dst, 0, 0), 0x3f80);
  assert_int_equal(get(&a.dst, 0, 1), 0);
  assert_int_equal(get(&a.dst, 1, 2), 0x7f80);
  assert_true(b->d.acc[0] == 2 && b->d.acc[1] == INFINITY && b->d.acc[32] == 78);
  /* two roundings: 3 * (1 + 2^-23) is a tie, rounds to 3 + 2^-21, and then -3 */
  struct vm_ACTIVATE two = {.fn = ISA_FN_copy, .scale = imm(1 + 0x1p-23f), .bias = imm(-3)};
  two.src = sb(b, ISA_float32, 0, 1, 1, 0, "2:1");
  two.dst = sb(b, ISA_float32, 0, 1, 0, 0, "2:1");
  putf(&two.src, 0, 0, 3);
  assert_int_equal(vm_op_activate(&b->d, &two), VM_RETIRE);
  assert_true(getf(&two.dst, 0, 0) == 0x1p-21f);
  /* an absent bias leaves -0, one of 0 does not */
  struct vm_ACTIVATE zero = {.fn = ISA_FN_copy, .scale = imm(1)};
  zero.src = zero.dst = two.src;
  putf(&zero.src, 0, 0, -0.0f);
  assert_int_equal(vm_op_activate(&b->d, &zero), VM_RETIRE);
  assert_int_equal(get(&zero.dst, 0, 0), 0x80000000);
  zero.bias = imm(0);
  assert_int_equal(vm_op_activate(&b->d, &zero), VM_RETIRE);
  assert_int_equal(get(&zero.dst, 0, 0), 0);
  free(b);
}

static void read_acc(void **state) {
  (void)state;
  static const uint8_t types[] = {ISA_float32, ISA_bfloat16,    ISA_float16,  ISA_int32,
                                  ISA_uint8,   ISA_float8_e4m3, ISA_tfloat32, ISA_int8};
  bed *b = bed_new(ISA_ENG_scalar);
  for (unsigned i = 0; i < 16; i++) {
    unsigned part = i % 4 * 32, parts = part ? 32 : 128;
    struct vm_READ_ACC a = {.negate = i >= 8};
    if (i % 2)
      a.dst = ps(b, types[i % 8], part, parts, 3, "1:1");
    else
      a.dst = sb(b, types[i % 8], part, parts, 0, 3, "1:1");
    for (unsigned p = 0; p < ISA_PMAX; p++) b->d.acc[p] = isa_bits_f32(hard_bits(b, ISA_float32));
    bed_expect(b);
    for (uint32_t p = 0; p < parts; p++) {
      float x = b->d.acc[p];
      expect(b, &a.dst, p, 0, ref_encode(types[i % 8], a.negate ? -x : x));
    }
    assert_int_equal(vm_op_act_read_acc(&b->d, &a), VM_RETIRE);
    bed_check(b, isa_dtypes[types[i % 8]].name);
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reduce_shapes),    cmocka_unit_test(reduce_by_hand),
      cmocka_unit_test(reduce_bits),      cmocka_unit_test(activate_all),
      cmocka_unit_test(activate_by_hand), cmocka_unit_test(read_acc),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
