/* Further vector handlers against a reference of their own: two-operator forms, selections,
 * registers, scans, statistics, the eight largest. */
#include "opbed.h"

static float at(const vm_view *v, uint32_t p, uint64_t i) {
  return ref_decode(v->dtype, get(v, p, i));
}
static float num_at(const vm_num *n, uint32_t p) { return n->v.at ? at(&n->v, p, 0) : n->imm; }
static float ordered(unsigned op, float a, float b, bool reverse) {
  return reverse ? ref_alu(op, b, a) : ref_alu(op, a, b);
}
static float ref_sum16(unsigned op, const float *x, uint64_t n) {
  volatile float p[16];
  for (int j = 0; j < 16; j++)
    p[j] = op == ISA_ALU_mult  ? 1
           : op == ISA_ALU_max ? -INFINITY
           : op == ISA_ALU_min ? INFINITY
                               : 0;
  for (uint64_t i = 0; i < n; i++) p[i % 16] = ref_alu(op, p[i % 16], x[i]);
  for (int h = 8; h; h /= 2)
    for (int j = 0; j < h; j++) p[j] = ref_alu(op, p[j], p[j + h]);
  return p[0];
}
static void same_acc(const bed *b, const float *want) {
  for (unsigned p = 0; p < ISA_PMAX; p++)
    assert_int_equal(isa_f32_bits(b->d.acc[p]), ref_encode(ISA_float32, want[p]));
}

static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_float32, ISA_float16, ISA_int16};
static const uint8_t ops[] = {ISA_ALU_mult, ISA_ALU_add, ISA_ALU_subtract,
                              ISA_ALU_max,  ISA_ALU_min, ISA_ALU_is_ge};

static void operands(bed *b, const shape *s, bool tame, vm_view *dst, vm_view *x, vm_view *y) {
  *dst = sb(b, types[draw(b) % 5], s->part, s->parts, 0, s->dst_at, s->dst);
  *x = sb(b, types[draw(b) % 5], s->part, s->parts, 1, s->a_at, s->a);
  *y = sb(b, types[draw(b) % 5], s->part, s->parts, 2, s->b_at, s->b);
  (tame ? fill_tame : fill)(b, x);
  (tame ? fill_tame : fill)(b, y);
}

static void scalar_tensor_tensor(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 12; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_SCALAR_TENSOR_TENSOR a = {.op0 = ops[draw(b) % 6],
                                        .op1 = ops[draw(b) % 6],
                                        .reverse0 = draw(b) & 1,
                                        .reverse1 = draw(b) & 1};
    operands(b, s, i & 1, &a.dst, &a.src, &a.src1);
    if (i % 7 == 0) a.dst = a.src1; /* in place of either source */
    if (i % 7 == 1) a.dst = a.src;
    if ((i % 7 == 0 && strstr(s->b, ":0")) || (i % 7 == 1 && strstr(s->a, ":0"))) continue;
    a.imm0 = draw(b) & 1 ? imm(1.7f) : vec(sb(b, ISA_float32, s->part, s->parts, 1, 2, "1:1"));
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        float t = ordered(a.op0, at(&a.src, p, j), num_at(&a.imm0, p), a.reverse0);
        float r = ordered(a.op1, t, at(&a.src1, p, j), a.reverse1);
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, r));
      }
    assert_int_equal(vm_op_scalar_tensor_tensor(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

static void tensor_scalar_reduce(void **state) {
  (void)state;
  static float o[4096];
  static const uint8_t rops[] = {ISA_ALU_add, ISA_ALU_mult, ISA_ALU_max, ISA_ALU_min};
  static const float start[] = {0, 1, -INFINITY, INFINITY};
  bed *b = bed_new(ISA_ENG_vector);
  float acc[ISA_PMAX] = {0};
  for (unsigned i = 0; i < NSHAPES * 20; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_TENSOR_SCALAR_REDUCE a = {.op0 = ops[draw(b) % 6],
                                        .op1 = rops[i % 4],
                                        .imm0 = imm(0.9f),
                                        .imm1 = imm(-3),
                                        .reverse0 = draw(b) & 1,
                                        .reduce = (uint8_t)(i / 4 % 5)};
    vm_view y;
    operands(b, s, i % 3, &a.dst, &a.src, &y);
    if (i % 2) a.imm1 = vec(sb(b, ISA_float32, s->part, s->parts, 2, 4, "1:1"));
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        o[j] = ordered(a.op0, at(&a.src, p, j), 0.9f, a.reverse0);
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, o[j]));
      }
      float *r = &acc[p];
      if (a.reduce == ISA_CMD_reset || a.reduce == ISA_CMD_reset_reduce) *r = start[i % 4];
      if (a.reduce == ISA_CMD_load_reduce) *r = num_at(&a.imm1, p);
      if (a.reduce >= ISA_CMD_reduce) *r = ref_alu(a.op1, *r, ref_sum16(a.op1, o, a.dst.elems));
    }
    assert_int_equal(vm_op_tensor_scalar_reduce(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    same_acc(b, acc);
  }
  struct vm_READ_ACC read = {.dst = sb(b, ISA_float32, 64, 2, 0, 0, "1:1"), .negate = true};
  b->d.acc[1] = 3;
  assert_int_equal(vm_op_dve_read_acc(&b->d, &read), VM_RETIRE);
  assert_true(getf(&read.dst, 1, 0) == -3 && b->d.acc[1] == 3);
  free(b);
}

static void copy_predicated(void **state) {
  (void)state;
  static const uint8_t preds[] = {ISA_uint8, ISA_uint16, ISA_uint32};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 12; i++) {
    const shape *s = &shapes[i % NSHAPES];
    unsigned t = types[i % 5];
    struct vm_COPY_PREDICATED a = {.reverse_pred = i / 2 % 2, .imm = imm(-2.6f)};
    a.dst = sb(b, t, s->part, s->parts, 0, s->dst_at, s->dst);
    vm_view x = sb(b, t, s->part, s->parts, 1, s->a_at, s->a);
    a.pred = sb(b, preds[i % 3], s->part, s->parts, 2, s->b_at, s->b);
    fill(b, &a.dst);
    fill(b, &x);
    fill(b, &a.pred);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j += 1 + draw(b) % 3) put(&a.pred, p, j, 0);
    if (i % 4) a.src = x;
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        if ((get(&a.pred, p, j) != 0) != a.reverse_pred)
          expect(b, &a.dst, p, j, a.src.at ? get(&x, p, j) : ref_encode(t, -2.6f));
    assert_int_equal(vm_op_copy_predicated(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

/* The common end of select_reduce and range_select. */
static void expect_selected(bed *b, const vm_view *dst, const vm_view *x, uint32_t p, uint64_t j,
                            bool take, float other, float *value) {
  *value = take ? at(x, p, j) : other;
  bool same = dst->dtype == x->dtype;
  expect(b, dst, p, j, take && same ? get(x, p, j) : ref_encode(dst->dtype, *value));
}
static void expect_max(float *r, unsigned cmd, const float *o, uint64_t n) {
  if (cmd == ISA_CMD_reset || cmd == ISA_CMD_reset_reduce) *r = -INFINITY;
  if (cmd >= ISA_CMD_reduce) *r = ref_alu(ISA_ALU_max, *r, ref_sum16(ISA_ALU_max, o, n));
}

static void select_reduce(void **state) {
  (void)state;
  static float o[4096];
  bed *b = bed_new(ISA_ENG_vector);
  float acc[ISA_PMAX] = {0};
  for (unsigned i = 0; i < NSHAPES * 12; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_SELECT_REDUCE a = {.reverse_pred = i & 1, .reduce = (uint8_t)(i / 2 % 4)};
    operands(b, s, i % 4 == 0, &a.dst, &a.on_true, &a.pred);
    a.pred = sb(b, i % 2 ? ISA_int8 : ISA_uint16, s->part, s->parts, 2, s->b_at, s->b);
    for (uint64_t j = 0; j < a.dst.elems; j += 2) put(&a.pred, 0, j, 0);
    if (i % 3 == 0)
      a.dst.dtype = a.on_true.dtype,
      a.dst = sb(b, a.on_true.dtype, s->part, s->parts, 0, s->dst_at, s->dst);
    a.on_false = i % 5 ? imm(i % 5 == 1 ? NAN : -1000.3f)
                       : vec(sb(b, ISA_float32, s->part, s->parts, 1, 3, "1:1"));
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect_selected(b, &a.dst, &a.on_true, p, j, (get(&a.pred, p, j) != 0) != a.reverse_pred,
                        num_at(&a.on_false, p), &o[j]);
      expect_max(&acc[p], a.reduce, o, a.dst.elems);
    }
    assert_int_equal(vm_op_select_reduce(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    same_acc(b, acc);
  }
  free(b);
}

static void range_select(void **state) {
  (void)state;
  static float o[4096];
  static const uint8_t cmps[] = {ISA_ALU_is_ge, ISA_ALU_is_lt, ISA_ALU_is_equal, ISA_ALU_is_le,
                                 ISA_ALU_is_gt};
  bed *b = bed_new(ISA_ENG_vector);
  float acc[ISA_PMAX] = {0};
  for (unsigned i = 0; i < NSHAPES * 12; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_RANGE_SELECT a = {.op0 = cmps[i % 5],
                                .op1 = cmps[(i / 5 + 1) % 5],
                                .reduce = (uint8_t)(i / 3 % 4),
                                .start = imm(i % 2 ? 0 : 16777215)};
    vm_view y;
    operands(b, s, i % 4 == 0, &a.dst, &a.on_true, &y);
    a.bound0 = sb(b, ISA_float32, s->part, s->parts, 2, 0, "1:1");
    a.bound1 = sb(b, ISA_float32, s->part, s->parts, 2, 7, "1:1");
    float other = i % 3 ? -0x1.fffffep+127f : -9;
    if (i % 3 == 0) a.on_false = imm(-9);
    for (uint32_t p = 0; p < s->parts; p++) {
      putf(&a.bound0, p, 0, num_at(&a.start, 0) + (float)(draw(b) % 9));
      putf(&a.bound1, p, 0, num_at(&a.start, 0) + (float)(draw(b) % 40));
    }
    if (a.dst.dtype == ISA_int16 || a.on_true.dtype == ISA_int16) continue;
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        volatile float index = num_at(&a.start, 0) + (float)j;
        bool take = ref_alu(a.op0, index, getf(&a.bound0, p, 0)) != 0 &&
                    ref_alu(a.op1, index, getf(&a.bound1, p, 0)) != 0;
        expect_selected(b, &a.dst, &a.on_true, p, j, take, other, &o[j]);
      }
      expect_max(&acc[p], a.reduce, o, a.dst.elems);
    }
    assert_int_equal(vm_op_range_select(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    same_acc(b, acc);
  }
  free(b);
}

static void scans(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 12; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_SCAN a = {.op0 = ops[draw(b) % 6],
                        .op1 = ops[draw(b) % 6],
                        .reverse0 = draw(b) & 1,
                        .reverse1 = draw(b) & 1};
    operands(b, s, i % 4, &a.dst, &a.src0, &a.src1);
    if (i % 5 == 0 && !strstr(s->a, ":0")) a.dst = a.src0;
    a.init = i & 1 ? imm(0.5f) : vec(sb(b, ISA_float32, s->part, s->parts, 2, 6, "1:1"));
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      float r = num_at(&a.init, p);
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        r = ordered(a.op0, at(&a.src0, p, j), r, a.reverse0);
        r = ordered(a.op1, r, at(&a.src1, p, j), a.reverse1);
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, r));
      }
    }
    assert_int_equal(vm_op_tensor_tensor_scan(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

static void cumulative(void **state) {
  (void)state;
  static const float start[] = {1, 0, 0, -INFINITY, INFINITY}; /* of ops */
  bed *b = bed_new(ISA_ENG_vector);
  float acc[ISA_PMAX] = {0};
  for (unsigned i = 0; i < NSHAPES * 15; i++) {
    const shape *s = &shapes[i % NSHAPES];
    unsigned k = i % 5;
    static const uint8_t cmds[] = {ISA_CMD_idle, ISA_CMD_reduce, ISA_CMD_reset_reduce,
                                   ISA_CMD_load_reduce};
    struct vm_TENSOR_SCALAR_REDUCE a = {.op0 = ops[draw(b) % 6],
                                        .op1 = ops[k],
                                        .imm0 = imm(1.25f),
                                        .imm1 = imm(4),
                                        .reverse0 = draw(b) & 1,
                                        .reduce = cmds[draw(b) % 4]};
    vm_view y;
    operands(b, s, i % 4, &a.dst, &a.src, &y);
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      float r = a.reduce == ISA_CMD_reduce        ? acc[p]
                : a.reduce == ISA_CMD_load_reduce ? 4
                                                  : start[k];
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        r = ref_alu(a.op1, ordered(a.op0, at(&a.src, p, j), 1.25f, a.reverse0), r);
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, r));
      }
      if (a.reduce != ISA_CMD_idle) acc[p] = r;
    }
    assert_int_equal(vm_op_tensor_scalar_cumulative(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    same_acc(b, acc);
  }
  free(b);
}

static void bn(void **state) {
  (void)state;
  static const char *const dims[] = {"1:1",  "2:1",     "3:2",  "512:1",
                                     "7:-1", "4:8 5:1", "33:0", "511:1"};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < 16; i++) {
    static float half[2][512];
    struct vm_UNARY st = {.dst = sb(b, ISA_float32, 0, 9, 0, 1, "6:1")}, ag = {0};
    st.src = sb(b, i & 1 ? ISA_bfloat16 : ISA_float32, 0, 9, 1, 40, dims[i % 8]);
    if (i < 8)
      fill_tame(b, &st.src);
    else
      fill(b, &st.src);
    bed_expect(b);
    for (uint32_t p = 0; p < 9; p++) {
      for (unsigned h = 0; h < 2; h++) {
        unsigned n = ((unsigned)st.src.elems + 1 - h) / 2;
        for (unsigned j = 0; j < n; j++) half[h][j] = at(&st.src, p, 2 * j + h);
        volatile float mean = n ? ref_sum16(ISA_ALU_add, half[h], n) / (float)n : 0;
        for (unsigned j = 0; j < n; j++) {
          volatile float d = half[h][j] - mean;
          half[h][j] = d * d;
        }
        expect(b, &st.dst, p, 3 * h, ref_encode(ISA_float32, (float)n));
        expect(b, &st.dst, p, 3 * h + 1, ref_encode(ISA_float32, mean));
        expect(b, &st.dst, p, 3 * h + 2,
               ref_encode(ISA_float32, ref_sum16(ISA_ALU_add, half[h], n)));
      }
    }
    assert_int_equal(vm_op_bn_stats(&b->d, &st), VM_RETIRE);
    bed_check(b, dims[i % 8]);
    ag.src = st.dst;
    ag.dst = sb(b, ISA_float32, 0, 9, 2, 0, "2:1");
    assert_int_equal(vm_op_bn_aggr(&b->d, &ag), VM_RETIRE);
    for (uint32_t p = 0; p < 9 && i < 8; p++) { /* against the plain definition, in double */
      double sum = 0, var = 0, n = (double)st.src.elems;
      for (uint64_t j = 0; j < st.src.elems; j++) sum += at(&st.src, p, j);
      for (uint64_t j = 0; j < st.src.elems; j++) var += pow(at(&st.src, p, j) - sum / n, 2);
      assert_true(fabs(getf(&ag.dst, p, 0) - sum / n) < 1e-5);
      assert_true(fabs(getf(&ag.dst, p, 1) - var / n) < 1e-3);
    }
  }
  /* by hand: groups (1, 2, 0), (3, 6, 6), (0, 9, 0): mean 5, variance (0 + 9 + 6 + 3) / 4 */
  static const float g[9] = {1, 2, 0, 3, 6, 6, 0, 9, 0};
  struct vm_UNARY a = {.dst = sb(b, ISA_bfloat16, 0, 1, 0, 0, "2:1"),
                       .src = sb(b, ISA_float32, 0, 1, 1, 0, "9:1")};
  for (unsigned j = 0; j < 9; j++) putf(&a.src, 0, j, g[j]);
  assert_int_equal(vm_op_bn_aggr(&b->d, &a), VM_RETIRE);
  assert_int_equal(get(&a.dst, 0, 0), 0x40a0);
  assert_int_equal(get(&a.dst, 0, 1), 0x4090);
  a.src = sb(b, ISA_float32, 0, 1, 1, 0, "8:1");
  assert_int_equal(vm_op_bn_aggr(&b->d, &a), VM_FAULT);
  free(b);
}

/* Descending; NaN last, -0 after +0. */
static int larger_first(const void *pa, const void *pb) {
  float a, b;
  memcpy(&a, pa, 4);
  memcpy(&b, pb, 4);
  if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
  if (a == b) return signbit(a) - signbit(b) ? (signbit(a) ? 1 : 0) - (signbit(b) ? 1 : 0) : 0;
  return a > b ? -1 : 1;
}

static void max8(void **state) {
  (void)state;
  static float o[4096];
  static const char *const dims[] = {"8:1",         "9:2",  "512:1",   "2500:1",
                                     "4:100 20:-1", "64:0", "2:0 8:1", "31:1"};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < 24; i++) {
    struct vm_UNARY a = {.dst = sb(b, types[i % 4], 32, 3, 0, 2, i & 1 ? "8:2" : "8:1")};
    a.src = sb(b, types[i / 2 % 5], 32, 3, 1, 20, dims[i % 8]);
    fill(b, &a.src);
    bed_expect(b);
    for (uint32_t p = 0; p < 3; p++) {
      for (uint64_t j = 0; j < a.src.elems; j++) o[j] = at(&a.src, p, j);
      qsort(o, (size_t)a.src.elems, sizeof *o, larger_first);
      for (unsigned j = 0; j < 8; j++) expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, o[j]));
    }
    assert_int_equal(vm_op_max8(&b->d, &a), VM_RETIRE);
    bed_check(b, dims[i % 8]);
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scalar_tensor_tensor),
      cmocka_unit_test(tensor_scalar_reduce),
      cmocka_unit_test(copy_predicated),
      cmocka_unit_test(select_reduce),
      cmocka_unit_test(range_select),
      cmocka_unit_test(scans),
      cmocka_unit_test(cumulative),
      cmocka_unit_test(bn),
      cmocka_unit_test(max8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
