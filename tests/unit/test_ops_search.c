/* Searching handlers, activate2 and stochastic rounding against references of their own, over every
 * layout of operands; and the kernels under them at each level of this host. */
#include "opbed.h"

static float at(const vm_view *v, uint32_t p, uint64_t i) {
  return ref_decode(v->dtype, get(v, p, i));
}

/* ---- match_value_load, find_index8, match_replace8 ---------------------------------------- */

static const char *const rows[] = {"8:1", "64:1", "5000:1", "33:-1", "4:30 25:1", "40:3", "700:2"};
enum { NROWS = sizeof rows / sizeof *rows };

/* Values of a small set, so that they repeat, with zeros of both signs and NaN. */
static void fill_few(bed *b, const vm_view *v) {
  static const float few[] = {0, -0.0f, 1, 2, 3, -1, INFINITY, -7, 100, 12};
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0; i < v->elems; i++) {
      uint32_t r = draw(b) >> 8;
      put(v, p, i, r % 31 == 0 ? ref_encode(v->dtype, NAN) : ref_encode(v->dtype, few[r % 10]));
    }
}

/* Where register s is in the row, -1 nowhere: each takes the first place that no other register of
 * the same value has taken, in the order of the registers, or backwards. */
static void ref_places(const float *value, const vm_view *x, uint32_t p, bool down,
                       int64_t place[8]) {
  static bool taken[8192];
  memset(taken, 0, sizeof taken);
  for (int k = 0; k < 8; k++) {
    int s = down ? 7 - k : k;
    place[s] = -1;
    for (uint64_t i = 0; i < x->elems && place[s] < 0; i++)
      if (!taken[i] && at(x, p, i) == value[s]) taken[i] = true, place[s] = (int64_t)i;
  }
}

static void load_values(bed *b, unsigned part, unsigned parts, float value[][8]) {
  vm_view v = sb(b, ISA_bfloat16, part, parts, 2, 4900, "8:1");
  fill_few(b, &v);
  for (uint32_t p = 0; p < parts; p++)
    for (int s = 0; s < 8; s++) value[p][s] = at(&v, p, (uint64_t)s);
  const struct vm_MATCH_VALUE_LOAD a = {.src = v};
  assert_int_equal(vm_op_match_value_load(&b->d, &a), VM_RETIRE);
}

static void find_index8(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  float value[4][8];
  for (unsigned i = 0; i < 8 * NROWS; i++) {
    unsigned t = i % 3 == 0 ? ISA_bfloat16 : ISA_float16;
    struct vm_UNARY a = {.src = sb(b, t, 32, 4, 1, 64, rows[i % NROWS]),
                         .dst = sb(b, i & 1 ? ISA_uint16 : ISA_uint32, 32, 4, 0, 3, "8:2")};
    fill_few(b, &a.src);
    load_values(b, 32, 4, value);
    bed_expect(b);
    for (uint32_t p = 0; p < 4; p++) {
      int64_t place[8];
      ref_places(value[p], &a.src, p, false, place);
      for (uint64_t s = 0; s < 8; s++) expect(b, &a.dst, p, s, (uint32_t)place[s]);
    }
    assert_int_equal(vm_op_find_index8(&b->d, &a), VM_RETIRE);
    bed_check(b, rows[i % NROWS]);
  }
  free(b);
}

static void match_replace8(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  float value[3][8];
  for (unsigned i = 0; i < 12 * NROWS; i++) {
    const char *dims = rows[i % NROWS];
    unsigned t = i % 2 ? ISA_bfloat16 : ISA_float16, to = i % 3 ? t : ISA_float8_e5m2;
    struct vm_MATCH_REPLACE a = {.src = sb(b, t, 64, 3, 1, 64, dims), .imm = imm(i & 4 ? 3 : -9)};
    a.dst = i % 6 == 1 ? a.src : sb(b, to, 64, 3, 0, 64, dims);
    if (i % 5) a.dst_idx = sb(b, i & 1 ? ISA_uint32 : ISA_uint16, 64, 3, 2, 40, "8:1");
    fill_few(b, &a.src);
    load_values(b, 64, 3, value);
    bed_expect(b);
    for (uint32_t p = 0; p < 3; p++) {
      int64_t place[8];
      ref_places(value[p], &a.src, p, true, place);
      for (uint64_t j = 0; j < a.src.elems; j++) {
        bool hit = false;
        for (int s = 0; s < 8; s++) hit |= place[s] == (int64_t)j;
        uint32_t same = get(&a.src, p, j), cast = ref_encode(a.dst.dtype, at(&a.src, p, j));
        uint32_t keep = a.dst.dtype == a.src.dtype ? same : cast;
        expect(b, &a.dst, p, j, hit ? ref_encode(a.dst.dtype, a.imm.imm) : keep);
      }
      for (uint64_t s = 0; s < 8 && a.dst_idx.at; s++)
        expect(b, &a.dst_idx, p, s, (uint32_t)place[s]);
    }
    assert_int_equal(vm_op_match_replace8(&b->d, &a), VM_RETIRE);
    bed_check(b, dims);
  }
  free(b);
}

/* ---- activate2 ---------------------------------------------------------------------------- */

static float ref_stage(unsigned op, float x, float s, bool reverse) {
  if (op == ISA_ALU_bypass) return x;
  return reverse ? ref_alu(op, s, x) : ref_alu(op, x, s);
}
static float ref_reduce(unsigned op, float a, float b) {
  bool larger = op == ISA_ALU_abs_max;
  if (op != ISA_ALU_abs_max && op != ISA_ALU_abs_min) return ref_alu(op, a, b);
  if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
  return (larger ? fabsf(a) > fabsf(b) : fabsf(a) < fabsf(b)) ? a : b;
}
static float ref_row(unsigned op, float first, const float *x, uint64_t n) {
  volatile float p[16];
  if (op == ISA_ALU_abs_max || op == ISA_ALU_abs_min) {
    for (uint64_t i = 0; i < n; i++) first = ref_reduce(op, first, x[i]);
    return first;
  }
  for (int j = 0; j < 16; j++) p[j] = first;
  for (uint64_t i = 0; i < n; i++) p[i % 16] = ref_alu(op, p[i % 16], x[i]);
  for (int h = 8; h; h /= 2)
    for (int j = 0; j < h; j++) p[j] = ref_alu(op, p[j], p[j + h]);
  return p[0];
}

static void activate2(void **state) {
  (void)state;
  static float o[4096];
  static const uint8_t pairs[][2] = {
      {ISA_ALU_mult, ISA_ALU_add},        {ISA_ALU_mult, ISA_ALU_subtract},
      {ISA_ALU_mult, ISA_ALU_bypass},     {ISA_ALU_add, ISA_ALU_bypass},
      {ISA_ALU_subtract, ISA_ALU_bypass}, {0, 0}};
  static const uint8_t reds[] = {ISA_ALU_add, ISA_ALU_max, ISA_ALU_min, ISA_ALU_abs_max,
                                 ISA_ALU_abs_min};
  static const float first[] = {0, -INFINITY, INFINITY, 0, INFINITY};
  static const uint8_t cmds[] = {ISA_CMD_idle, ISA_CMD_reset, ISA_CMD_reduce, ISA_CMD_reset_reduce};
  static const uint8_t types[] = {ISA_float32, ISA_bfloat16, ISA_float16, ISA_int16};
  bed *b = bed_new(ISA_ENG_scalar);
  float acc[ISA_PMAX] = {0};
  for (unsigned i = 0; i < NSHAPES * 40; i++) {
    const shape *s = &shapes[i % NSHAPES];
    unsigned red = draw(b) / 256 % 5;
    struct vm_ACTIVATE2 a = {.fn = i & 1 ? ISA_FN_prelu : ISA_FN_copy,
                             .op0 = pairs[i % 6][0],
                             .op1 = pairs[i % 6][1],
                             .reduce_op = reds[red],
                             .reduce = cmds[draw(b) / 256 % 4],
                             .relu_param = imm(0.375f)};
    a.src = sb(b, types[i % 4], s->part, s->parts, 1, s->a_at, s->a);
    a.dst = sb(b, types[i / 4 % 4], s->part, s->parts, 0, s->dst_at, s->dst);
    (i % 3 ? fill_tame : fill)(b, &a.src);
    vm_view col = sb(b, ISA_float32, s->part, s->parts, 2, 6, "1:1");
    if (a.op0) a.imm0 = i & 2 ? imm(1.7f) : vec(col), a.reverse0 = i >> 3 & 1;
    if (a.op1) a.imm1 = imm(-0.3f), a.reverse1 = i >> 4 & 1;
    if (i % 5 == 0) a.relu_param = vec(sb(b, ISA_bfloat16, s->part, s->parts, 2, 2, "1:1"));
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++) {
      float s0 = a.imm0.v.at ? getf(&col, p, 0) : 1.7f;
      float param = a.relu_param.v.at ? at(&a.relu_param.v, p, 0) : 0.375f;
      for (uint64_t j = 0; j < a.dst.elems; j++) {
        volatile float t = ref_stage(a.op0, at(&a.src, p, j), s0, a.reverse0);
        t = ref_stage(a.op1, t, -0.3f, a.reverse1);
        if (a.fn == ISA_FN_prelu && t < 0) t = t * param;
        o[j] = t;
        expect(b, &a.dst, p, j, ref_encode(a.dst.dtype, t));
      }
      float *r = &acc[p];
      if (a.reduce == ISA_CMD_reset || a.reduce == ISA_CMD_reset_reduce) *r = first[red];
      if (a.reduce == ISA_CMD_reduce || a.reduce == ISA_CMD_reset_reduce)
        *r = ref_reduce(a.reduce_op, *r, ref_row(a.reduce_op, first[red], o, a.dst.elems));
    }
    assert_int_equal(vm_op_activate2(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    for (unsigned p = 0; p < ISA_PMAX; p++)
      assert_int_equal(isa_f32_bits(b->d.acc[p]), ref_encode(ISA_float32, acc[p]));
  }
  free(b);
}

/* ---- Bytes and long rows ------------------------------------------------------------------ */

static void select_bytes(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned i = 0; i < NSHAPES * 4; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_COPY_PREDICATED a = {.reverse_pred = i & 1, .imm = imm(-3)};
    a.dst = sb(b, ISA_int8, s->part, s->parts, 0, s->dst_at, s->dst);
    a.pred = sb(b, ISA_uint8, s->part, s->parts, 2, s->b_at, s->b);
    fill(b, &a.dst);
    fill(b, &a.pred);
    for (uint64_t j = 0; j < a.dst.elems; j += 2) put(&a.pred, 0, j, 0);
    if (i & 2) a.src = sb(b, ISA_int8, s->part, s->parts, 1, s->a_at, s->a);
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        if ((get(&a.pred, p, j) != 0) != a.reverse_pred)
          expect(b, &a.dst, p, j, a.src.at ? get(&a.src, p, j) : 0xfd);
    assert_int_equal(vm_op_copy_predicated(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
  }
  free(b);
}

/* Equal groups give their own mean and spread, however many pieces they fill. */
static void many_groups(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_vector);
  struct vm_UNARY a = {.src = sb(b, ISA_bfloat16, 0, 2, 1, 0, "4800:1"),
                       .dst = sb(b, ISA_float32, 0, 2, 0, 0, "2:1")};
  for (uint32_t p = 0; p < 2; p++)
    for (uint64_t i = 0; i < 4800; i++)
      put(&a.src, p, i, ref_encode(ISA_bfloat16, i % 3 == 0 ? 4.0f : i % 3 == 1 ? 2.5f : 8.0f));
  assert_int_equal(vm_op_bn_aggr(&b->d, &a), VM_RETIRE);
  for (uint32_t p = 0; p < 2; p++) {
    assert_true(getf(&a.dst, p, 0) == 2.5f);
    assert_true(getf(&a.dst, p, 1) == 2.0f); /* 8 / 4 */
  }
  free(b);
}

/* Bounds and indices that are not numbers select nothing; infinite ones are ordered. */
static void range_edges(void **state) {
  (void)state;
  static const struct {
    float start, b0, b1;
    unsigned lo, hi; /* of 8 elements, is_ge b0 and is_lt b1 */
  } cases[] = {{0, 2, 5, 2, 5},
               {0, 2.5f, 4.5f, 3, 5},
               {0, NAN, 5, 0, 0},
               {NAN, 0, 5, 0, 0},
               {0, -INFINITY, INFINITY, 0, 8},
               {0, 5, 2, 0, 0},
               {16777215, 16777216, 3e8f, 1, 8},
               {INFINITY, 0, INFINITY, 0, 0},
               {-4, -4, 0, 0, 4},
               {1e30f, 1e30f, INFINITY, 0, 8},
               {0, 8, 9, 0, 0}};
  bed *b = bed_new(ISA_ENG_vector);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_RANGE_SELECT a = {.dst = sb(b, ISA_float32, 0, 1, 0, 0, "8:1"),
                                .on_true = sb(b, ISA_float32, 0, 1, 1, 0, "8:1"),
                                .bound0 = sb(b, ISA_float32, 0, 1, 2, 0, "1:1"),
                                .bound1 = sb(b, ISA_float32, 0, 1, 2, 1, "1:1"),
                                .op0 = ISA_ALU_is_ge,
                                .op1 = ISA_ALU_is_lt,
                                .start = imm(cases[i].start)};
    fill_tame(b, &a.on_true);
    putf(&a.bound0, 0, 0, cases[i].b0);
    putf(&a.bound1, 0, 0, cases[i].b1);
    bed_expect(b);
    for (uint64_t j = 0; j < 8; j++)
      expect(b, &a.dst, 0, j,
             j >= cases[i].lo && j < cases[i].hi ? get(&a.on_true, 0, j) : 0xff7fffff);
    assert_int_equal(vm_op_range_select(&b->d, &a), VM_RETIRE);
    bed_check(b, "range");
  }
  free(b);
}

/* ---- Stochastic rounding ------------------------------------------------------------------ */

/* The documented generator, written again. */
static uint64_t ref_mix(uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
static uint32_t ref_random(uint64_t seed, unsigned engine, uint64_t count, uint32_t p, uint64_t i) {
  uint64_t key = ref_mix(ref_mix(seed + engine) + count);
  uint32_t x = (uint32_t)(ref_mix(key + p) >> 32) + (uint32_t)i * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

static void stochastic(void **state) {
  (void)state;
  static const uint8_t types[] = {ISA_bfloat16, ISA_float16, ISA_float8_e4m3,
                                  ISA_tfloat32, ISA_float32, ISA_int16};
  bed *b = bed_new(ISA_ENG_vector);
  b->d.rounding_seed = 77;
  for (unsigned i = 0; i < NSHAPES * 6; i++) {
    const shape *s = &shapes[i % NSHAPES];
    struct vm_TENSOR_SCALAR a = {
        .dst = sb(b, types[i / NSHAPES], s->part, s->parts, 0, s->dst_at, s->dst),
        .src = sb(b, ISA_float32, s->part, s->parts, 1, s->a_at, s->a),
        .op0 = ISA_ALU_mult,
        .imm0 = imm(1),
        .round = ISA_ROUND_stochastic};
    fill(b, &a.src);
    bed_expect(b);
    for (uint32_t p = 0; p < s->parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect(b, &a.dst, p, j,
               isa_from_f32_sr(a.dst.dtype, ref_decode(ISA_float32, get(&a.src, p, j)), 0,
                               ref_random(77, ISA_ENG_vector, i + 1, p, j)));
    assert_int_equal(vm_op_tensor_scalar(&b->d, &a), VM_RETIRE);
    bed_check(b, s->name);
    assert_false(b->d.stochastic);
  }
  free(b);
}

/* ---- Kernels ------------------------------------------------------------------------------ */

/* One infinity or NaN among the largest finite numbers, at any place of an array at any address. */
static void finds_what_is_special(const vm_kern *k) {
  static const struct {
    unsigned esize;
    uint32_t exponent, finite, special[4];
  } types[] = {{4, 0x7f800000, 0xff7fffff, {0x7f800000, 0xff800000, 0x7f800001, 0xffffffff}},
               {2, 0x7f80, 0xff7f, {0x7f80, 0xff80, 0x7f81, 0xffff}},
               {2, 0x7c00, 0xfbff, {0x7c00, 0xfc00, 0x7c01, 0xffff}}};
  enum { N = 2100 };
  uint8_t room[4 * N + 4];
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t n = 1; n <= N; n = n * 5 / 3 + 1) {
      uint8_t *x = room + n % 4;
      unsigned esize = types[t].esize;
      for (size_t i = 0; i < n; i++) memcpy(x + i * esize, &types[t].finite, esize);
      assert_false(k->special(x, n, esize, types[t].exponent));
      for (size_t i = 0; i < n; i += i % 7 + 1) {
        memcpy(x + i * esize, &types[t].special[i % 4], esize);
        assert_true(k->special(x, n, esize, types[t].exponent));
        assert_int_equal(k->special(x, i, esize, types[t].exponent), false);
        memcpy(x + i * esize, &types[t].finite, esize);
      }
    }
}

static void kernels(void **state) {
  (void)state;
  static const char *const levels[] = {"plain", "avx2", "avx512"};
  enum { N = 1000 };
  uint32_t mask[N];
  uint8_t pred[4 * N + 1], x[4 * N + 1], y[4 * N + 1], d[4 * N + 1];
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned l = 0; l < 3; l++) {
    vm_kern k;
    assert_true(vm_kern_select(levels[l], &k));
    for (unsigned esize = 1; esize <= 4; esize *= 2) {
      for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (uint8_t)(draw(b) >> 9);
        y[i] = (uint8_t)(draw(b) >> 9);
        pred[i] = draw(b) >> 9 & 1 ? 0 : (uint8_t)(draw(b) >> 9);
      }
      for (size_t n = 0; n < N; n = n * 2 + 1) { /* at an odd address */
        k.mask(mask, pred + 1, n, esize, n & 2);
        k.merge(d + 1, mask, x + 1, y + 1, n, esize);
        for (size_t i = 0; i < n; i++) {
          const uint8_t *q = pred + 1 + i * esize;
          bool set = q[0] || (esize > 1 && q[1]) || (esize > 2 && (q[2] || q[3]));
          bool take = set != !!(n & 2);
          assert_int_equal(mask[i], take ? UINT32_MAX : 0);
          assert_memory_equal(d + 1 + i * esize, (take ? x : y) + 1 + i * esize, esize);
        }
      }
    }
    float few[200] = {0};
    few[150] = 3;
    few[64] = NAN;
    assert_int_equal(k.find(few, 3, 200), 150);
    assert_int_equal(k.find(few, 3, 150), 150);
    assert_int_equal(k.find(few, NAN, 200), 200);
    assert_int_equal(k.find(few + 1, -0.0f, 200 - 1), 0);
    assert_int_equal(k.find(few, 1, 0), 0);
    finds_what_is_special(&k);
  }
  free(b);
}

static int greater_first(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x < y) - (x > y);
}

static float any_float(bed *b) { /* often a NaN, an infinity, a zero or what was there before */
  static const uint32_t few[] = {0x7f800000, 0xff800000, 0, 0x80000000, 0x7f812345, 0xffc00001};
  uint32_t u = draw(b) << 16 ^ draw(b) ^ draw(b) << 31;
  return isa_bits_f32(u % 8 < 6 ? (u & 0x8fffffff) | 0x30000000 : few[u / 8 % 6]);
}

/* scan and top8 of any number of lanes and elements, against vm_alu_f32 and a sort. */
static void recurrences(void **state) {
  (void)state;
  static const char *const levels[] = {"plain", "avx2", "avx512"};
  enum { LANES = 77, STEPS = 5, N = LANES * STEPS };
  float x[N], y[N], out[N], s[LANES], t[LANES];
  bed *b = bed_new(ISA_ENG_vector);
  for (unsigned l = 0; l < 3; l++) {
    vm_kern k;
    assert_true(vm_kern_select(levels[l], &k));
    for (size_t lanes = 1; lanes <= LANES; lanes++) {
      for (size_t i = 0; i < N; i++) x[i] = any_float(b), y[i] = any_float(b);
      for (size_t i = 0; i < lanes; i++) s[i] = t[i] = (float)i;
      k.scan(out, s, x, y, lanes, STEPS);
      for (size_t i = 0; i < lanes * STEPS; i++) {
        float *was = &t[i % lanes];
        *was = vm_alu_f32(ISA_ALU_add, vm_alu_f32(ISA_ALU_mult, x[i], *was), y[i]);
        assert_int_equal(isa_f32_bits(out[i]), isa_f32_bits(*was));
      }
      assert_memory_equal(s, t, lanes * sizeof *s);
    }
    for (size_t n = 0; n < N; n += 1 + n / 16) {
      int32_t top[8] = {3, 2, 1, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN}, all[N + 8];
      memcpy(all, top, sizeof top);
      for (size_t i = 0; i < n; i++) {
        int32_t u = (int32_t)isa_f32_bits(x[i]);
        all[8 + i] = isnan(x[i]) ? INT32_MIN : u < 0 ? u ^ INT32_MAX : u;
      }
      k.top8(top, x, n);
      qsort(all, n + 8, sizeof *all, greater_first);
      assert_memory_equal(top, all, sizeof top);
    }
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(find_index8), cmocka_unit_test(match_replace8),
      cmocka_unit_test(activate2),   cmocka_unit_test(select_bytes),
      cmocka_unit_test(many_groups), cmocka_unit_test(range_edges),
      cmocka_unit_test(stochastic),  cmocka_unit_test(kernels),
      cmocka_unit_test(recurrences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
