/* Gathers, reductions over partitions and instructions that give positions, against references
 * written from their documentation. */
#include "opbed.h"

/* ---- local_gather ------------------------------------------------------------------------- */

typedef struct lg_case {
  const char *name;
  unsigned dtype, parts, each, valid; /* each, valid: as the program gives them */
  const char *dst, *src, *index;
  unsigned src_at;
} lg_case;

static void local_gather_once(bed *b, const lg_case *c) {
  struct vm_LOCAL_GATHER a = {.elems_per_index = (uint8_t)c->each,
                              .valid_indices = (uint16_t)c->valid};
  a.dst = sb(b, c->dtype, 0, c->parts, 0, 0, c->dst);
  a.src = sb(b, c->dtype, 0, c->parts, 1, c->src_at, c->src);
  a.index = sb(b, ISA_uint16, 0, c->parts, 2, 3, c->index);
  unsigned each = c->each ? c->each : 1;
  fill(b, &a.src);
  fill(b, &a.dst);
  for (uint32_t p = 0; p < c->parts; p++) {
    for (uint64_t i = 0; i < a.index.elems; i++) {
      bool valid = !c->valid || i * 16 + p % 16 < c->valid;
      uint32_t any = draw(b) % (uint32_t)(a.src.elems - each + 1);
      put(&a.index, p, i, valid ? any : 0xffff); /* the others are not looked at */
    }
  }
  bed_expect(b);
  for (uint32_t p = 0; p < c->parts; p++) {
    for (uint64_t o = 0; o < a.dst.elems; o++) {
      uint64_t k = o / each; /* the k-th index of the core: down the partitions first */
      uint32_t at = get(&a.index, p / 16 * 16 + (uint32_t)(k % 16), k / 16);
      expect(b, &a.dst, p, o, get(&a.src, p, at + o % each));
    }
  }
  if (vm_op_local_gather(&b->d, &a) != VM_RETIRE) fail_msg("%s: %s", c->name, b->d.fault);
  bed_check(b, c->name);
}

static void local_gather(void **state) {
  (void)state;
  static const lg_case cases[] = {
      {"documented shape", ISA_float32, 128, 1, 0, "64:1", "512:1", "4:1", 0},
      {"one core, default", ISA_bfloat16, 16, 0, 0, "16:1", "7:1", "1:1", 1},
      {"bytes, 32 each", ISA_uint8, 32, 32, 5, "160:1", "100:1", "1:1", 0},
      {"4 each, a part valid", ISA_int16, 48, 4, 37, "148:1", "65:1", "3:1", 2},
      {"one index", ISA_float32, 64, 2, 1, "2:1", "2:1", "1:1", 0},
      {"strides", ISA_float32, 16, 2, 20, "5:16 8:2", "3:50 10:-2", "2:4", 40},
      {"broadcast source", ISA_float16, 16, 1, 0, "32:1", "4:0 5:3", "2:1", 0},
      {"as many as fit", ISA_uint8, 16, 2, 4096, "8192:1", "65:100 99:1", "256:1", 0},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) local_gather_once(b, &cases[i]);
  free(b);
}

static void local_gather_bounds(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_gpsimd);
  struct vm_LOCAL_GATHER a = {.elems_per_index = 4};
  a.dst = sb(b, ISA_float32, 0, 32, 0, 0, "64:1");
  a.src = sb(b, ISA_float32, 0, 32, 1, 0, "10:1");
  a.index = sb(b, ISA_uint16, 0, 32, 2, 0, "1:1");
  put(&a.index, 19, 0, 6); /* 6 .. 9: the last that fits */
  assert_int_equal(vm_op_local_gather(&b->d, &a), VM_RETIRE);
  put(&a.index, 19, 0, 7);
  assert_int_equal(vm_op_local_gather(&b->d, &a), VM_FAULT);
  assert_string_equal(b->d.fault, "local_gather: index 7, in partition 19 column 0, with 4 "
                                  "elements per index: src has 10");
  a.elems_per_index = 1;
  assert_int_equal(vm_op_local_gather(&b->d, &a), VM_FAULT);
  assert_string_equal(b->d.fault, "local_gather: the shapes of dst, src and index do not fit");
  free(b);
}

/* ---- n_gather ----------------------------------------------------------------------------- */

static void n_gather(void **state) {
  (void)state;
  static const struct {
    unsigned dtype, part, parts;
    const char *dst, *src, *index;
  } cases[] = {
      {ISA_float32, 0, 128, "512:1", "2000:1", "512:1"},
      {ISA_uint8, 32, 5, "2:9 3:1", "2:5 3:1", "6:1"},
      {ISA_bfloat16, 64, 1, "1:1", "1:1", "1:1"},
      {ISA_int32, 0, 3, "7:-2", "5:-3", "7:0"},
      {ISA_float16, 96, 32, "33:1", "3:0 11:2", "33:-1"},
      {ISA_int8, 0, 2, "2500:1", "300:1", "2500:1"},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_N_GATHER a;
    memset(&a, 0, sizeof a);
    a.dst = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 0, 40, cases[i].dst);
    a.src = sb(b, cases[i].dtype, cases[i].part, cases[i].parts, 1, 20, cases[i].src);
    a.index = sb(b, ISA_uint32, cases[i].part, cases[i].parts, 2, 40, cases[i].index);
    fill(b, &a.src);
    for (uint32_t p = 0; p < cases[i].parts; p++)
      for (uint64_t j = 0; j < a.index.elems; j++)
        put(&a.index, p, j, draw(b) % (uint32_t)a.src.elems);
    bed_expect(b);
    for (uint32_t p = 0; p < cases[i].parts; p++)
      for (uint64_t j = 0; j < a.dst.elems; j++)
        expect(b, &a.dst, p, j, get(&a.src, p, get(&a.index, p, j)));
    assert_int_equal(vm_op_n_gather(&b->d, &a), VM_RETIRE);
    bed_check(b, cases[i].dst);
    put(&a.index, 0, 0, (uint32_t)a.src.elems);
    assert_int_equal(vm_op_n_gather(&b->d, &a), VM_FAULT);
    assert_non_null(strstr(b->d.fault, "column 0: src has"));
  }
  free(b);
}

/* ---- partition_reduce --------------------------------------------------------------------- */

static uint32_t ref_partitions(const struct vm_PARTITION_REDUCE *a, uint64_t i) {
  volatile float sum = a->op == ISA_ALU_max ? -INFINITY : 0;
  uint32_t bits = get(&a->src, 0, i);
  for (uint32_t p = 0; p < a->src.num[0]; p++) {
    uint32_t x = get(&a->src, p, i);
    bits = a->op == ISA_ALU_bitwise_or ? bits | x : bits & x;
    unsigned op = a->op == ISA_ALU_max ? ISA_ALU_max : ISA_ALU_add;
    sum = ref_alu(op, sum, ref_decode(a->src.dtype, x));
  }
  if (a->op == ISA_ALU_bitwise_or || a->op == ISA_ALU_bitwise_and) return bits;
  if (a->op == ISA_ALU_average) sum = sum / (float)a->src.num[0];
  return ref_encode(a->dst.dtype, sum);
}

static void partition_reduce(void **state) {
  (void)state;
  static const struct {
    unsigned op, ts, td, part, parts;
    const char *src, *dst;
  } cases[] = {
      {ISA_ALU_add, ISA_float32, ISA_float32, 0, 128, "512:1", "512:1"},
      {ISA_ALU_add, ISA_bfloat16, ISA_float32, 64, 7, "2100:1", "2100:1"},
      {ISA_ALU_average, ISA_float32, ISA_bfloat16, 0, 3, "4:9 5:1", "20:-1"},
      {ISA_ALU_average, ISA_int32, ISA_int32, 0, 10, "9:3", "9:1"},
      {ISA_ALU_max, ISA_float32, ISA_float16, 32, 32, "33:1", "33:2"},
      {ISA_ALU_max, ISA_float32, ISA_float32, 0, 1, "5:1", "5:1"},
      {ISA_ALU_bitwise_or, ISA_uint8, ISA_uint8, 0, 6, "10:1", "10:1"},
      {ISA_ALU_bitwise_and, ISA_int32, ISA_int32, 0, 2, "2100:1", "2100:1"},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (unsigned tame = 0; tame < 2; tame++) {
      struct vm_PARTITION_REDUCE a = {.op = (uint8_t)cases[i].op};
      a.src = sb(b, cases[i].ts, cases[i].part, cases[i].parts, 1, 9, cases[i].src);
      a.dst = sb(b, cases[i].td, 0, 1, 0, 30, cases[i].dst);
      if (tame)
        fill_tame(b, &a.src);
      else
        fill(b, &a.src);
      bed_expect(b);
      for (uint64_t j = 0; j < a.dst.elems; j++) expect(b, &a.dst, 0, j, ref_partitions(&a, j));
      assert_int_equal(vm_op_partition_reduce(&b->d, &a), VM_RETIRE);
      bed_check(b, isa_aluops[a.op].name);
    }
  }
  free(b);
}

/* ---- sequence_bounds ---------------------------------------------------------------------- */

static float id_at(const vm_view *v, uint64_t i) { return ref_decode(v->dtype, get(v, 0, i)); }

static void sequence_once(bed *b, const struct vm_UNARY *a, const char *what) {
  uint64_t n = a->src.elems;
  bed_expect(b);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i, end = i + 1;
    while (first > 0 && id_at(&a->src, first - 1) == id_at(&a->src, i)) first--;
    while (end < n && id_at(&a->src, end) == id_at(&a->src, i)) end++;
    bool pad = id_at(&a->src, i) == 0;
    expect(b, &a->dst, 0, i, ref_encode(a->dst.dtype, pad ? (float)n : (float)first));
    expect(b, &a->dst, 0, n + i, ref_encode(a->dst.dtype, pad ? -1 : (float)end));
  }
  assert_int_equal(vm_op_sequence_bounds(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static void sequence_bounds(void **state) {
  (void)state;
  static const struct {
    unsigned ts, td, longest;
    const char *src, *dst;
  } cases[] = {
      {ISA_int32, ISA_int32, 9, "8:1", "2:8 8:1"},
      {ISA_float32, ISA_int32, 3, "512:1", "1024:1"},
      {ISA_int32, ISA_float32, 1, "33:-2", "2:40 33:1"},
      {ISA_float32, ISA_float32, 1, "1:1", "2:1"},
      {ISA_float32, ISA_float32, 40, "5:30 20:1", "200:2"},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_UNARY a = {.dst = sb(b, cases[i].td, 0, 1, 0, 0, cases[i].dst),
                         .src = sb(b, cases[i].ts, 0, 1, 1, 100, cases[i].src)};
    uint32_t id = 0;
    for (uint64_t j = 0; j < a.src.elems; j++) {
      if (draw(b) % cases[i].longest == 0) id = draw(b) % 4;
      put(&a.src, 0, j, ref_encode(a.src.dtype, (float)id));
    }
    sequence_once(b, &a, cases[i].src);
  }
  free(b);
}

/* Longer than a piece: runs that cross its border, or are all of it. */
static void sequence_bounds_long(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned run = 1; run < 6000; run = 3 * run + 1) {
    struct vm_UNARY a = {.dst = sb(b, ISA_int32, 0, 1, 1, 0, "5000:1"),
                         .src = sb(b, ISA_int32, 0, 1, 0, 0, "2500:1")};
    for (uint64_t j = 0; j < a.src.elems; j++) put(&a.src, 0, j, (uint32_t)(j + 100) / run % 3);
    a.dst.at = b->sbuf + REGION; /* two regions long */
    sequence_once(b, &a, "long");
  }
  free(b);
}

static void sequence_bounds_by_hand(void **state) {
  (void)state;
  static const uint32_t ids[10] = {1, 1, 0, 2, 2, 2, 0, 0, 2, 1};
  static const int32_t want[20] = {0, 0, 10, 3, 3, 3, 10, 10, 8, 9,
                                   2, 2, -1, 6, 6, 6, -1, -1, 9, 10};
  bed *b = bed_new(ISA_ENG_gpsimd);
  struct vm_UNARY a = {.dst = sb(b, ISA_int32, 0, 1, 0, 0, "2:10 10:1"),
                       .src = sb(b, ISA_int32, 0, 1, 1, 0, "10:1")};
  for (unsigned i = 0; i < 10; i++) put(&a.src, 0, i, ids[i]);
  assert_int_equal(vm_op_sequence_bounds(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 20; i++) assert_int_equal((int32_t)get(&a.dst, 0, i), want[i]);
  /* -0 is padding, a NaN is its own segment, ids over 2^24 are told apart as int32. */
  a.src = sb(b, ISA_float32, 0, 1, 1, 0, "4:1");
  a.dst = sb(b, ISA_int32, 0, 1, 0, 0, "8:1");
  static const uint32_t odd[4] = {0x80000000, 0x7fc00000, 0x7fc00000, 1};
  static const int32_t odd_want[8] = {4, 1, 2, 3, -1, 2, 3, 4};
  for (unsigned i = 0; i < 4; i++) put(&a.src, 0, i, odd[i]);
  assert_int_equal(vm_op_sequence_bounds(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 8; i++) assert_int_equal((int32_t)get(&a.dst, 0, i), odd_want[i]);
  a.src = sb(b, ISA_int32, 0, 1, 1, 0, "2:1");
  a.dst = sb(b, ISA_float32, 0, 1, 0, 0, "4:1");
  put(&a.src, 0, 0, 0x1000000);
  put(&a.src, 0, 1, 0x1000001);
  assert_int_equal(vm_op_sequence_bounds(&b->d, &a), VM_RETIRE);
  assert_true(getf(&a.dst, 0, 0) == 0 && getf(&a.dst, 0, 1) == 1);
  assert_true(getf(&a.dst, 0, 2) == 1 && getf(&a.dst, 0, 3) == 2);
  free(b);
}

/* ---- nonzero_with_count ------------------------------------------------------------------- */

static void nonzero_once(bed *b, const struct vm_NONZERO *a, const char *what) {
  uint64_t total = a->src.elems;
  bed_expect(b);
  for (uint32_t p = 0; p < a->src.num[0]; p += 16) {
    uint32_t n = 0;
    for (uint64_t i = 0; i < total; i++)
      if (ref_decode(a->src.dtype, get(&a->src, p, i)) != 0)
        expect(b, &a->dst, p, n++, (uint32_t)i + (uint32_t)a->index_offset);
    expect(b, &a->dst, p, total, n);
    for (uint64_t i = n; i < total; i++) expect(b, &a->dst, p, i, (uint32_t)a->padding);
  }
  assert_int_equal(vm_op_nonzero_with_count(&b->d, a), VM_RETIRE);
  bed_check(b, what);
}

static void nonzero(void **state) {
  (void)state;
  static const struct {
    unsigned type, part, parts, one_in;
    int32_t offset;
    const char *src, *dst;
  } cases[] = {
      {ISA_float32, 0, 128, 2, 0, "100:1", "101:1"},
      {ISA_int32, 0, 128, 9, 1000, "1:1", "2:1"},
      {ISA_int32, 32, 17, 1, -5, "7:-1", "2:9 4:1"},
      {ISA_float32, 64, 64, 50, 0, "2400:1", "2401:1"},
      {ISA_float32, 96, 1, 2, INT32_MAX, "3:50 20:1", "61:2"},
      {ISA_int32, 0, 16, 1, 0, "2048:1", "2049:1"},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  b->d.target = &isa_targets[ISA_trn2];
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_NONZERO a = {.index_offset = cases[i].offset, .padding = -1 - (int32_t)i};
    a.src = sb(b, cases[i].type, cases[i].part, cases[i].parts, 1, 8, cases[i].src);
    a.dst = sb(b, ISA_int32, cases[i].part, cases[i].parts, 0, 0, cases[i].dst);
    fill(b, &a.src); /* NaNs count, -0 does not */
    for (uint32_t p = 0; p < a.src.num[0]; p++)
      for (uint64_t j = 0; j < a.src.elems; j++)
        if (draw(b) % cases[i].one_in)
          put(&a.src, p, j, a.src.dtype == ISA_float32 ? 0x80000000 : 0);
    nonzero_once(b, &a, cases[i].src);
  }
  free(b);
}

static void nonzero_documented(void **state) {
  (void)state;
  static const float x[8] = {0, 1, 1, 0, 0, 1, 0, 0};
  static const int32_t want[9] = {17, 18, 21, -1, -1, -1, -1, -1, 3};
  bed *b = bed_new(ISA_ENG_gpsimd);
  struct vm_NONZERO a = {.index_offset = 16, .padding = -1};
  a.src = sb(b, ISA_float32, 0, 1, 1, 0, "8:1");
  a.dst = sb(b, ISA_int32, 0, 1, 0, 0, "9:1");
  for (unsigned i = 0; i < 8; i++) putf(&a.src, 0, i, x[i]);
  assert_int_equal(vm_op_nonzero_with_count(&b->d, &a), VM_RETIRE);
  for (unsigned i = 0; i < 9; i++) assert_int_equal((int32_t)get(&a.dst, 0, i), want[i]);
  free(b);
}

/* ---- topk --------------------------------------------------------------------------------- */

/* Whether element i stands above element j: greater, +0 above -0, numbers above NaN, then the
 * earlier of the two. */
static bool above(uint32_t xi, uint32_t i, uint32_t xj, uint32_t j) {
  float a = ref_decode(ISA_bfloat16, xi), c = ref_decode(ISA_bfloat16, xj);
  if (isnan(a) || isnan(c)) return isnan(a) == isnan(c) ? i < j : isnan(c);
  if (a != c) return a > c;
  if (signbit(a) != signbit(c)) return signbit(c);
  return i < j;
}

static void topk_once(bed *b, const struct vm_TOPK *a, const char *what) {
  uint32_t k = (uint32_t)a->val_dst.elems;
  bed_expect(b);
  for (uint32_t core = 0; core < a->src.num[0]; core += 16) {
    for (uint32_t i = 0; i < a->n; i++) {
      uint32_t higher = 0, x = get(&a->src, core + i % 16, i / 16);
      for (uint32_t j = 0; j < a->n; j++)
        higher += above(get(&a->src, core + j % 16, j / 16), j, x, i);
      if (higher >= k) continue;
      uint32_t o = k - 1 - higher;
      expect(b, &a->val_dst, core + o % 16, o / 16, x);
      expect(b, &a->idx_dst, core + o % 16, o / 16, i);
    }
  }
  if (vm_op_topk(&b->d, a) != VM_RETIRE) fail_msg("%s: %s", what, b->d.fault);
  bed_check(b, what);
}

static void topk(void **state) {
  (void)state;
  static const struct {
    unsigned parts, n, few;
    const char *k, *src;
  } cases[] = {
      {128, 42, 0, "8:1", "3:1"},   {16, 8, 0, "8:1", "1:1"},     {16, 1000, 0, "1:1", "63:1"},
      {32, 500, 5, "37:1", "32:1"}, {48, 33, 1, "33:-2", "4:-1"}, {16, 300, 0, "16:3", "4:10 5:2"},
      {64, 100, 0, "17:1", "7:1"},
  };
  bed *b = bed_new(ISA_ENG_gpsimd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vm_TOPK a = {.n = cases[i].n};
    a.src = sb(b, ISA_bfloat16, 0, cases[i].parts, 1, 20, cases[i].src);
    a.val_dst = sb(b, ISA_bfloat16, 0, cases[i].parts, 0, 80, cases[i].k);
    a.idx_dst = sb(b, ISA_uint32, 0, cases[i].parts, 2, 80, cases[i].k);
    fill(b, &a.src);
    fill(b, &a.val_dst);
    if (cases[i].few) /* many equal ones, among them both zeros, NaNs and infinities */
      for (uint32_t p = 0; p < a.src.num[0]; p++)
        for (uint64_t j = 0; j < a.src.elems; j++) {
          static const uint16_t some[] = {0, 0x8000, 0x7fc0, 0x3f80, 0x7f80, 0xff80, 0xbf80};
          put(&a.src, p, j, some[draw(b) % (cases[i].few == 1 ? 1 : 7)]);
        }
    topk_once(b, &a, cases[i].src);
  }
  free(b);
}

/* The largest n: every value of bf16 once, in a scrambled order. */
static void topk_large(void **state) {
  (void)state;
  bed *b = bed_new(ISA_ENG_gpsimd);
  struct vm_TOPK a = {.n = 65535};
  a.src = sb(b, ISA_bfloat16, 0, 16, 0, 0, "4096:1");
  a.val_dst = sb(b, ISA_bfloat16, 0, 16, 1, 0, "1000:1");
  a.idx_dst = sb(b, ISA_uint32, 0, 16, 2, 0, "1000:1");
  for (uint32_t i = 0; i < 65536; i++) put(&a.src, i % 16, i / 16, i * 40503 & 0xffff);
  assert_int_equal(vm_op_topk(&b->d, &a), VM_RETIRE);
  for (uint32_t o = 0; o < 1000; o++) { /* infinity is the greatest, then down by one code each */
    uint32_t code = 0x7f80 - (999 - o);
    uint32_t i = get(&a.idx_dst, o % 16, o / 16);
    assert_int_equal(get(&a.val_dst, o % 16, o / 16), code);
    assert_int_equal(i * 40503 & 0xffff, code);
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(local_gather),
                                     cmocka_unit_test(local_gather_bounds),
                                     cmocka_unit_test(n_gather),
                                     cmocka_unit_test(partition_reduce),
                                     cmocka_unit_test(sequence_bounds),
                                     cmocka_unit_test(sequence_bounds_long),
                                     cmocka_unit_test(sequence_bounds_by_hand),
                                     cmocka_unit_test(nonzero),
                                     cmocka_unit_test(nonzero_documented),
                                     cmocka_unit_test(topk),
                                     cmocka_unit_test(topk_large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
