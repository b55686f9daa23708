/* Elementwise handlers against a reference of their own, over shapes, types and hard values. */
#include "opbed.h"

static const uint8_t float_types[] = {
    ISA_float32,       ISA_bfloat16,    ISA_float16,  ISA_float8_e3m4, ISA_float8_e4m3,
    ISA_float8_e4m3fn, ISA_float8_e5m2, ISA_tfloat32, ISA_int32,       ISA_uint32,
    ISA_int16,         ISA_uint16,      ISA_int8,     ISA_uint8};
enum { NTYPES = sizeof float_types };

/* A shape's operands, in regions 0, 1, 2, filled. */
static void operands(bed *b, const shape *s, unsigned td, unsigned ta, unsigned tb, vm_view *dst,
                     vm_view *x, vm_view *y) {
  *dst = sb(b, td, s->part, s->parts, 0, s->dst_at, s->dst);
  *x = sb(b, ta, s->part, s->parts, 1, s->a_at, s->a);
  *y = sb(b, tb, s->part, s->parts, 2, s->b_at, s->b);
  fill(b, x);
  fill(b, y);
}

static float at(const vm_view *v, uint32_t p, uint64_t i) {
  return ref_decode(v->dtype, get(v, p, i));
}

static void tensor_tensor_once(bed *b, const struct vm_TENSOR_TENSOR *a, const char *what) {
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++)
    for (uint64_t i = 0; i < a->dst.elems; i++)
      expect(b, &a->dst, p, i,
             ref_encode(a->dst.dtype, ref_alu(a->op, at(&a->src0, p, i), at(&a->src1, p, i))));
  assert_int_equal(vm_op_tensor_tensor(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static void tensor_tensor_shapes(void **state) {
  (void)state;
  static const uint8_t ops[] = {ISA_ALU_add,       ISA_ALU_subtract,   ISA_ALU_mult,
                                ISA_ALU_max,       ISA_ALU_min,        ISA_ALU_is_ge,
                                ISA_ALU_not_equal, ISA_ALU_logical_xor};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES; i++) {
    struct vm_TENSOR_TENSOR a = {.op = ops[i % sizeof ops]};
    operands(b, &shapes[i], ISA_float32, ISA_float32, ISA_float32, &a.dst, &a.src0, &a.src1);
    tensor_tensor_once(b, &a, shapes[i].name);
    operands(b, &shapes[i], ISA_bfloat16, ISA_float32, ISA_float16, &a.dst, &a.src0, &a.src1);
    tensor_tensor_once(b, &a, shapes[i].name);
  }
  free(b);
}

static void tensor_tensor_types(void **state) {
  (void)state;
  static const uint8_t ops[] = {ISA_ALU_add, ISA_ALU_mult, ISA_ALU_min, ISA_ALU_subtract};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NTYPES * 3; i++) {
    struct vm_TENSOR_TENSOR a = {.op = ops[i % 4]};
    const shape *s = &shapes[i % 2 ? 2 : 4];
    operands(b, s, float_types[i % NTYPES], float_types[(i * 3 + 1) % NTYPES],
             float_types[(i / NTYPES + i) % NTYPES], &a.dst, &a.src0, &a.src1);
    tensor_tensor_once(b, &a, isa_dtypes[a.dst.dtype].name);
  }
  free(b);
}

static void tensor_tensor_in_place(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < 6; i++) {
    static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_int32};
    struct vm_TENSOR_TENSOR a = {.op = i < 3 ? ISA_ALU_subtract : ISA_ALU_max};
    unsigned t = types[i % 3];
    const char *dims = i % 2 ? "700:3" : "2500:1";
    a.dst = a.src0 = sb(b, t, 0, 3, 0, 0, dims);
    a.src1 = i == 4 ? a.dst : sb(b, ISA_float32, 0, 3, 1, 0, i % 2 ? "700:1" : "2500:1");
    fill(b, &a.src0);
    fill(b, &a.src1);
    tensor_tensor_once(b, &a, dims);
  }
  free(b);
}

/* Integers of 32 bits: exact and wrapping on gpsimd, through fp32 on vector. */
static void tensor_tensor_words(void **state) {
  (void)state;
  static const struct {
    unsigned op, t;
    uint32_t a, b, gpsimd, vector;
  } cases[] = {
      {ISA_ALU_add, ISA_int32, 0x7fffffff, 1, 0x80000000, 0x7fffffff},
      {ISA_ALU_add, ISA_int32, 16777217, 1, 16777218, 16777216},
      {ISA_ALU_subtract, ISA_uint32, 1, 2, 0xffffffff, 0},
      {ISA_ALU_mult, ISA_int32, 65537, 65537, 131073, 0x7fffffff},
      {ISA_ALU_max, ISA_int32, 0xffffffff, 3, 3, 3},
      {ISA_ALU_max, ISA_uint32, 0xffffffff, 3, 0xffffffff, 0xffffffff},
      {ISA_ALU_is_lt, ISA_int32, 0x80000000, 0, 1, 1},
      {ISA_ALU_is_lt, ISA_uint32, 0x80000000, 0, 0, 0},
      {ISA_ALU_is_equal, ISA_int32, 16777217, 16777216, 0, 1},
  };
  bed *g = bed_new(ISA_ENG_gpsimd), *v = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned where = 0; where < 2; where++) {
      bed *b = where ? v : g;
      struct vm_TENSOR_TENSOR a = {.op = (uint8_t)cases[i].op};
      a.dst = sb(b, cases[i].t, 32, 2, 0, 0, "3:2");
      a.src0 = sb(b, cases[i].t, 32, 2, 1, 0, "3:0");
      a.src1 = sb(b, cases[i].t, 32, 2, 2, 0, "3:1");
      for (unsigned j = 0; j < 6; j++) put(&a.src0, j / 3, j % 3, cases[i].a);
      for (unsigned j = 0; j < 6; j++) put(&a.src1, j / 3, j % 3, cases[i].b);
      assert_int_equal(vm_op_tensor_tensor(&b->d, &a), VM_RETIRE);
      for (unsigned j = 0; j < 6; j++)
        assert_int_equal(get(&a.dst, j / 3, j % 3), where ? cases[i].vector : cases[i].gpsimd);
    }
  }
  free(g);
  free(v);
}

/* Types of dst, src0, src1; operands; result. Widths that differ are worked at 32 bits. */
static void tensor_tensor_bits(void **state) {
  (void)state;
  static const struct {
    unsigned op, td, t0, t1;
    uint32_t a, b, want;
  } cases[] = {
      {ISA_ALU_bitwise_and, ISA_int32, ISA_int32, ISA_int32, 0xff00ff00, 0x0ff00ff0, 0x0f000f00},
      {ISA_ALU_bitwise_or, ISA_uint16, ISA_uint16, ISA_uint16, 0x8001, 0x0110, 0x8111},
      {ISA_ALU_bitwise_xor, ISA_uint8, ISA_uint8, ISA_uint8, 0xaa, 0xff, 0x55},
      {ISA_ALU_bitwise_not, ISA_int8, ISA_int8, ISA_int8, 0x0f, 0, 0xf0},
      {ISA_ALU_logical_shift_left, ISA_uint8, ISA_uint8, ISA_uint8, 0x81, 1, 0x02},
      {ISA_ALU_logical_shift_right, ISA_int8, ISA_int8, ISA_int8, 0x80, 1, 0x40},
      {ISA_ALU_arith_shift_right, ISA_int8, ISA_int8, ISA_int8, 0x80, 1, 0xc0},
      {ISA_ALU_arith_shift_right, ISA_uint8, ISA_uint8, ISA_uint8, 0x80, 1, 0x40},
      {ISA_ALU_arith_shift_right, ISA_int32, ISA_int32, ISA_int32, 0x80000000, 40, 0xffffffff},
      {ISA_ALU_logical_shift_right, ISA_int32, ISA_int32, ISA_int32, 0xffffffff, 32, 0},
      {ISA_ALU_logical_shift_left, ISA_int16, ISA_int16, ISA_int16, 0x7fff, 16, 0},
      {ISA_ALU_bitwise_or, ISA_int32, ISA_int8, ISA_uint8, 0x80, 0x80, 0xffffff80},
      {ISA_ALU_bitwise_and, ISA_uint16, ISA_int8, ISA_uint32, 0xff, 0x12345678, 0x5678},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_TENSOR_TENSOR a = {.op = (uint8_t)cases[i].op};
    a.dst = sb(b, cases[i].td, 0, 2, 0, 0, "2100:1");
    a.src0 = sb(b, cases[i].t0, 0, 2, 1, 0, "2100:-1");
    a.src0.at += 2099 * a.src0.esize;
    a.src1 = sb(b, cases[i].t1, 0, 2, 2, 0, "2100:0");
    for (unsigned j = 0; j < 4200; j++) put(&a.src0, j / 2100, j % 2100, cases[i].a);
    for (unsigned j = 0; j < 2; j++) put(&a.src1, j, 0, cases[i].b);
    assert_int_equal(vm_op_tensor_tensor(&b->d, &a), VM_RETIRE);
    for (unsigned j = 0; j < 4200; j += 61)
      assert_int_equal(get(&a.dst, j / 2100, j % 2100), cases[i].want);
  }
  free(b);
}

static float num_at(const vm_num *n, uint32_t p) { return n->v.at ? at(&n->v, p, 0) : n->imm; }

static void tensor_scalar_once(bed *b, const struct vm_TENSOR_SCALAR *a, const char *what) {
  bed_expect(b);
  for (uint32_t p = 0; p < a->dst.num[0]; p++) {
    for (uint64_t i = 0; i < a->dst.elems; i++) {
      float x = at(&a->src, p, i), s0 = num_at(&a->imm0, p), s1 = num_at(&a->imm1, p);
      x = a->reverse0 && isa_aluops[a->op0].arity == 2 ? ref_alu(a->op0, s0, x)
                                                       : ref_alu(a->op0, x, s0);
      x = a->reverse1 && isa_aluops[a->op1].arity == 2 ? ref_alu(a->op1, s1, x)
                                                       : ref_alu(a->op1, x, s1);
      expect(b, &a->dst, p, i, ref_encode(a->dst.dtype, x));
    }
  }
  assert_int_equal(vm_op_tensor_scalar(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static void tensor_scalar_all(void **state) {
  (void)state;
  static const uint8_t ops[] = {ISA_ALU_mult,  ISA_ALU_subtract, ISA_ALU_max, ISA_ALU_abs,
                                ISA_ALU_is_gt, ISA_ALU_bypass,   ISA_ALU_add};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 40; i++) {
    const shape *s = &shapes[i % NSHAPES];
    uint32_t r = draw(b);
    struct vm_TENSOR_SCALAR a = {
        .op0 = ops[r % 7], .op1 = ops[r / 8 % 7], .reverse0 = r >> 10 & 1, .reverse1 = r >> 11 & 1};
    vm_view y;
    operands(b, s, r >> 12 & 1 ? ISA_float32 : float_types[i % NTYPES],
             r >> 13 & 1 ? ISA_float32 : float_types[(i + 4) % NTYPES], ISA_float32, &a.dst, &a.src,
             &y);
    vm_view c0 = sb(b, ISA_float32, s->part, s->parts, 2, 1, "1:1");
    vm_view c1 = sb(b, ISA_float32, s->part, s->parts, 2, 0, "1:1");
    if (r >> 14 & 3) a.imm0 = r >> 14 & 1 ? vec(c0) : imm(1.0f / 3);
    if (r >> 16 & 3) a.imm1 = r >> 16 & 1 ? vec(c1) : imm(-0x1.8p-130f);
    tensor_scalar_once(b, &a, s->name);
  }
  free(b);
}

static void tensor_scalar_in_place(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_scalar);
  static const char *const dims[] = {"1:1", "2048:1", "2049:1", "512:5"};
  for (unsigned i = 0; i < 8; i++) {
    struct vm_TENSOR_SCALAR a = {
        .op0 = ISA_ALU_mult, .op1 = ISA_ALU_add, .imm0 = imm(0.1f), .imm1 = imm(7)};
    a.dst = a.src = sb(b, i < 4 ? ISA_float32 : ISA_bfloat16, 0, 128, 0, 0, dims[i % 4]);
    if (i == 0) a.imm1 = vec(a.src); /* the scalar is the element itself */
    fill(b, &a.src);
    tensor_scalar_once(b, &a, dims[i % 4]);
  }
  free(b);
}

static void tensor_scalar_bits(void **state) {
  (void)state;
  static const struct {
    unsigned op0, op1, t;
    uint32_t x, s0, s1;
    bool r0;
    uint32_t want;
  } cases[] = {
      {ISA_ALU_bitwise_and, ISA_ALU_logical_shift_right, ISA_int32, 0xdeadbeef, 0xffff0000, 16, 0,
       0xdead},
      {ISA_ALU_bitwise_and, ISA_ALU_bypass, ISA_int32, 0x00c00001, 0xffffffff, 0, 0, 0x00c00001},
      {ISA_ALU_logical_shift_left, ISA_ALU_bypass, ISA_int32, 4, 3, 0, 1, 48},
      {ISA_ALU_bitwise_not, ISA_ALU_bitwise_xor, ISA_uint8, 0xf0, 0, 0xff, 1, 0xf0},
      {ISA_ALU_arith_shift_right, ISA_ALU_bypass, ISA_int16, 0x8000, 15, 0, 0, 0xffff},
      {ISA_ALU_arith_shift_right, ISA_ALU_bypass, ISA_uint16, 0x8000, 15, 0, 0, 1},
      {ISA_ALU_bypass, ISA_ALU_bitwise_or, ISA_uint32, 0x7fa00001, 0, 2, 0, 0x7fa00003},
      {ISA_ALU_logical_shift_left, ISA_ALU_bypass, ISA_int8, 0xff, 8, 0, 0, 0},
  };
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned column = 0; column < 2; column++) {
      struct vm_TENSOR_SCALAR a = {
          .op0 = (uint8_t)cases[i].op0, .op1 = (uint8_t)cases[i].op1, .reverse0 = cases[i].r0};
      a.dst = sb(b, cases[i].t, 0, 3, 0, 0, "5:2");
      a.src = sb(b, cases[i].t, 0, 3, 1, 0, "5:1");
      vm_view c = sb(b, cases[i].t, 0, 3, 2, 0, "1:1");
      for (unsigned j = 0; j < 15; j++) put(&a.src, j / 5, j % 5, cases[i].x);
      for (unsigned j = 0; j < 3; j++) put(&c, j, 0, cases[i].s0);
      a.imm0 = column ? vec(c) : imm(isa_bits_f32(cases[i].s0));
      a.imm1 = imm(isa_bits_f32(cases[i].s1));
      assert_int_equal(vm_op_tensor_scalar(&b->d, &a), VM_RETIRE);
      for (unsigned j = 0; j < 15; j++) assert_int_equal(get(&a.dst, j / 5, j % 5), cases[i].want);
    }
  }
  free(b);
}

static void tensor_copy_all(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < NSHAPES * NTYPES; i++) {
    const shape *s = &shapes[i % NSHAPES];
    unsigned td = float_types[i % NTYPES], ts = i % 3 ? td : float_types[(i / 3) % NTYPES];
    struct vm_COPY a = {.round = ISA_ROUND_nearest};
    vm_view y;
    operands(b, s, td, ts, ISA_float32, &a.dst, &a.src, &y);
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect(b, &a.dst, p, j, td == ts ? get(&a.src, p, j) : ref_encode(td, at(&a.src, p, j)));
    assert_int_equal(vm_op_tensor_copy(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

/* Other sizes of element, places and in-place; a copy onto itself changes nothing. */
static void tensor_copy_bits(void **state) {
  (void)state;
  static const uint8_t types[] = {ISA_float8_e4m3fn_x4, ISA_float4_e2m1fn_x4, ISA_bool, ISA_int64};
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < 4; i++) {
    struct vm_COPY a = {.round = ISA_ROUND_nearest};
    a.src = sb(b, types[i], 0, 2, 0, 4, "3:10 2:2");
    a.dst = sb(b, types[i], 0, 2, 1, 0, "2:3 3:1");
    for (unsigned j = 0; j < 2000; j++) b->sbuf[j] = (uint8_t)draw(b);
    bed_expect(b);
    for (uint32_t p = 0; p < 2; p++)
      for (uint64_t j = 0; j < 6; j++)
        memcpy(b->want + (elem_at(&a.dst, p, j) - b->sbuf), elem_at(&a.src, p, j), a.src.esize);
    assert_int_equal(vm_op_tensor_copy(&b->d, &a), VM_RETIRE);
    bed_check(b, isa_dtypes[types[i]].name);
    a.dst = a.src;
    assert_int_equal(vm_op_tensor_copy(&b->d, &a), VM_RETIRE);
    bed_check(b, "onto itself");
  }
  free(b);
}

static void copy_goes_to_psum(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  struct vm_COPY a = {.src = sb(b, ISA_float32, 64, 3, 0, 0, "9:1"),
                      .dst = ps(b, ISA_bfloat16, 0, 3, 7, "9:-1")};
  a.dst.at += 16;
  fill(b, &a.src);
  bed_expect(b);
  for (uint32_t p = 0; p < 3; p++)
    for (uint64_t j = 0; j < 9; j++)
      expect(b, &a.dst, p, j, ref_encode(ISA_bfloat16, at(&a.src, p, j)));
  assert_int_equal(vm_op_tensor_copy(&b->d, &a), VM_RETIRE);
  bed_check(b, "psum");
  free(b);
}

static void memset_all(void **state) {
  (void)state;
  static const float values[] = {0, -0.0f, 1.5f, -3.25f, 300, 1e30f, -INFINITY, NAN, 0x1p-140f};
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < NSHAPES * NTYPES; i++) {
    const shape *s = &shapes[i % NSHAPES];
    unsigned t = float_types[i % NTYPES];
    bool bits = isa_dtype_is_int(t);
    float x = bits ? isa_bits_f32(0x81234567u * i) : values[i % 9];
    struct vm_MEMSET a = {.dst = sb(b, t, s->part, s->parts, 0, s->dst_at, s->dst),
                          .value = imm(x)};
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect(b, &a.dst, p, j, bits ? 0x81234567u * i : ref_encode(t, x));
    assert_int_equal(vm_op_memset(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  struct vm_MEMSET x4 = {.dst = sb(b, ISA_float8_e5m2_x4, 0, 2, 0, 0, "9:1"), .value = imm(0)};
  assert_int_equal(vm_op_memset(&b->d, &x4), VM_RETIRE);
  assert_int_equal(get(&x4.dst, 1, 8), 0);
  free(b);
}

static void reciprocal_all(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 4; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_UNARY a;
    vm_view y;
    memset(&a, 0, sizeof a);
    operands(b, s, i % 2 ? ISA_float32 : float_types[i % NTYPES],
             i % 3 ? ISA_float32 : float_types[(i + 5) % NTYPES], ISA_float32, &a.dst, &a.src, &y);
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect(b, &a.dst, p, j,
               ref_encode(a.dst.dtype, ref_alu(ISA_ALU_reciprocal, at(&a.src, p, j), 0)));
    assert_int_equal(vm_op_reciprocal(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

/* Nothing happens where a register made a size 0. */
static void no_elements(void **state) {
  (void)state;
  static const char *const dims[] = {"0:1", "3:5 0:1", "0:1 3:1"};
  bed *b = bed_new(ISA_ENG_vector);
  bed_expect(b);
  for (unsigned i = 0; i < 4; i++) {
    unsigned parts = i < 3 ? 2 : 0;
    vm_view v = sb(b, ISA_float32, 0, parts, 0, 0, i < 3 ? dims[i] : "4:1");
    struct vm_TENSOR_TENSOR tt = {.dst = v, .src0 = v, .src1 = v, .op = ISA_ALU_add};
    struct vm_TENSOR_SCALAR ts = {.dst = v, .src = v, .op0 = ISA_ALU_add, .imm0 = imm(1)};
    struct vm_COPY copy = {.dst = v, .src = v};
    struct vm_MEMSET set = {.dst = v, .value = imm(1)};
    struct vm_TENSOR_REDUCE red = {.dst = v, .src = v, .op = ISA_ALU_add};
    struct vm_ACTIVATE act = {.dst = v, .src = v, .reduce = ISA_CMD_reset_reduce};
    assert_int_equal(vm_op_tensor_tensor(&b->d, &tt), VM_RETIRE);
    assert_int_equal(vm_op_tensor_scalar(&b->d, &ts), VM_RETIRE);
    assert_int_equal(vm_op_tensor_copy(&b->d, &copy), VM_RETIRE);
    assert_int_equal(vm_op_memset(&b->d, &set), VM_RETIRE);
    assert_int_equal(vm_op_tensor_reduce(&b->d, &red), VM_RETIRE);
    assert_int_equal(vm_op_activate(&b->d, &act), VM_RETIRE);
  }
  bed_check(b, "no elements");
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensor_tensor_shapes),   cmocka_unit_test(tensor_tensor_types),
      cmocka_unit_test(tensor_tensor_in_place), cmocka_unit_test(tensor_tensor_words),
      cmocka_unit_test(tensor_tensor_bits),     cmocka_unit_test(tensor_scalar_all),
      cmocka_unit_test(tensor_scalar_in_place), cmocka_unit_test(tensor_scalar_bits),
      cmocka_unit_test(tensor_copy_all),        cmocka_unit_test(tensor_copy_bits),
      cmocka_unit_test(copy_goes_to_psum),      cmocka_unit_test(memset_all),
      cmocka_unit_test(reciprocal_all),         cmocka_unit_test(no_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
