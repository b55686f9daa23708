/* Patterns against brute force: each byte of each element listed by nested counting. */
#include "../../isa/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint32_t rnd(uint32_t *s, uint32_t n) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s % n;
}

enum { MOST = 4096, WORLD = 16384, MIDDLE = WORLD / 2 };

/* Byte offset of each element in order, from the definition; the number of elements. */
static size_t list(const isa_ap *ap, int64_t *out) {
  static const unsigned sizes[] = {1, 2, 4, 8};
  unsigned size = 0;
  for (unsigned i = 0; i < 4; i++)
    if (strcmp(isa_dtypes[ap->dtype].name,
               (const char *[]){"uint8", "bfloat16", "float32", "int64"}[i]) == 0)
      size = sizes[i];
  assert_true(size > 0);
  uint32_t i[ISA_MAX_DIMS] = {0};
  for (size_t n = 0;; n++) {
    int64_t at = 0;
    for (unsigned d = 0; d < ap->ndim; d++) at += (int64_t)i[d] * ap->dim[d].step;
    assert_true(n < MOST);
    out[n] = at * size;
    unsigned d = ap->ndim;
    while (d > 0 && ++i[d - 1] == ap->dim[d - 1].num) i[--d] = 0;
    if (d == 0) return n + 1;
  }
}

static isa_ap random_ap(uint32_t *s, bool hbm) {
  static const uint8_t types[] = {ISA_uint8, ISA_bfloat16, ISA_float32, ISA_int64};
  isa_ap a = {.dtype = types[rnd(s, 4)], .space = ISA_SBUF};
  a.ndim = (uint8_t)(rnd(s, 5));
  a.nparts = 1;
  if (hbm) {
    a.space = ISA_HBM;
    a.base = 1;
    a.nparts = 0;
    a.ndim = (uint8_t)rnd(s, 6);
  }
  a.offset = MIDDLE + (int64_t)rnd(s, 24);
  for (unsigned d = 0; d < a.ndim; d++) {
    a.dim[d].num = 1 + rnd(s, 4);
    a.dim[d].step = (int64_t)rnd(s, 16) - 5;
  }
  return a;
}

/* A pattern that walks a row-major matrix, so that dimensions often merge. */
static isa_ap dense_ap(uint32_t *s) {
  isa_ap a = random_ap(s, false);
  int64_t step = rnd(s, 2) ? 1 : -1;
  for (unsigned d = a.ndim; d-- > 0;) {
    a.dim[d].step = step;
    step *= (int64_t)(a.dim[d].num + (rnd(s, 4) == 0));
  }
  return a;
}

static isa_ap either(uint32_t *s, int i) { return i % 2 ? dense_ap(s) : random_ap(s, i % 3 == 0); }

static void test_extent(void **state) {
  (void)state;
  uint32_t s = 1;
  static int64_t at[MOST];
  for (int i = 0; i < 20000; i++) {
    isa_ap a = either(&s, i);
    size_t n = list(&a, at);
    int64_t lo = 0, hi = 0, min = 0, max = 0, size = (int64_t)isa_dtype_bytes(a.dtype);
    assert_int_equal(isa_ap_elems(&a), n);
    for (size_t k = 0; k < n; k++) {
      min = at[k] < min ? at[k] : min;
      max = at[k] > max ? at[k] : max;
    }
    assert_true(isa_ap_extent(&a, &lo, &hi));
    assert_int_equal(lo, min);
    assert_int_equal(hi, max + size);
  }
}

static void test_merge(void **state) {
  (void)state;
  uint32_t s = 2;
  static int64_t before[MOST], after[MOST];
  int merged = 0;
  for (int i = 0; i < 20000; i++) {
    isa_ap a = either(&s, i), m;
    isa_ap_merge(&a, &m);
    assert_true(m.ndim >= 1);
    assert_true(m.ndim <= (a.ndim ? a.ndim : 1));
    merged += m.ndim < a.ndim;
    size_t n = list(&a, before);
    assert_int_equal(list(&m, after), n);
    assert_memory_equal(before, after, n * sizeof before[0]);
    isa_ap again;
    isa_ap_merge(&m, &again);
    assert_true(isa_ap_equal(&m, &again));
  }
  assert_true(merged > 5000);
}

static void test_merge_keeps_dynamic(void **state) {
  (void)state;
  isa_ap m, a = {.dtype = ISA_float32, .space = ISA_SBUF, .ndim = 2, .nparts = 4};
  a.dim[0] = (isa_dim){8, 4};
  a.dim[1] = (isa_dim){1, 8};
  isa_ap_merge(&a, &m);
  assert_int_equal(m.ndim, 1);
  assert_int_equal(m.dim[0].num, 32);
  assert_int_equal(m.dim[0].step, 1);
  a.size_dim = 1;
  isa_ap_merge(&a, &m);
  assert_int_equal(m.ndim, 1);
  a.size_dim = 2;
  isa_ap_merge(&a, &m);
  assert_true(isa_ap_equal(&a, &m));
  a.size_dim = 0;
  a.dim[0] = (isa_dim){INT64_MAX, UINT32_MAX};
  a.dim[1] = (isa_dim){INT64_MAX / 2, 3};
  isa_ap_merge(&a, &m);
  assert_int_equal(m.ndim, 2);
}

/* The same bytes or not, by marking them. */
static int overlap_by_force(const isa_ap *a, const isa_ap *b) {
  static int64_t x[MOST], y[MOST];
  static unsigned char mark[WORLD];
  size_t na = list(a, x), nb = list(b, y);
  unsigned sa = isa_dtype_bytes(a->dtype), sb = isa_dtype_bytes(b->dtype);
  bool same = na == nb && sa == sb;
  for (size_t i = 0; same && i < na; i++) same = x[i] + a->offset == y[i] + b->offset;
  if (same) return 2;
  memset(mark, 0, sizeof mark);
  for (size_t i = 0; i < na; i++)
    for (unsigned k = 0; k < sa; k++) {
      int64_t at = a->offset + x[i] + k;
      assert_in_range(at, 0, WORLD - 1);
      mark[at] = 1;
    }
  for (size_t i = 0; i < nb; i++)
    for (unsigned k = 0; k < sb; k++) {
      int64_t at = b->offset + y[i] + k;
      assert_in_range(at, 0, WORLD - 1);
      if (mark[at]) return 1;
    }
  return 0;
}

static void test_overlap(void **state) {
  (void)state;
  uint32_t s = 3;
  int seen[3] = {0};
  for (int i = 0; i < 60000; i++) {
    isa_ap a = either(&s, i), b = either(&s, i);
    if (a.space != b.space) continue;
    if (i % 4 == 0) { /* columns of one matrix */
      b = a;
      b.offset += (int64_t)rnd(&s, 9) - 4;
    }
    if (i % 16 == 0) { /* the same bytes, cut into other dimensions */
      isa_ap_merge(&a, &b);
      if (b.ndim < 4 && b.dim[b.ndim - 1].num % 2 == 0) {
        isa_dim *last = &b.dim[b.ndim - 1];
        last[1] = (isa_dim){last->step, 2};
        last->num /= 2;
        last->step *= 2;
        b.ndim++;
      }
    }
    int want = overlap_by_force(&a, &b);
    seen[want]++;
    assert_int_equal(isa_ap_overlap(&a, &b), want);
    assert_int_equal(isa_ap_overlap(&b, &a), want);
  }
  assert_true(seen[0] > 2000 && seen[1] > 2000 && seen[2] > 2000);
}

static isa_ap matrix(uint32_t rows, uint32_t cols, int64_t pitch, int64_t at) {
  isa_ap a = {.dtype = ISA_float32, .space = ISA_HBM, .base = 1, .ndim = 2, .offset = 4 * at};
  a.dim[0] = (isa_dim){pitch, rows};
  a.dim[1] = (isa_dim){1, cols};
  return a;
}

static void test_overlap_of_places(void **state) {
  (void)state;
  isa_ap a = matrix(4, 4, 4, 0), b = a;
  assert_int_equal(isa_ap_overlap(&a, &b), 2);
  b.base = 2;
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  a.space = b.space = ISA_SBUF;
  a.part = 0, a.nparts = 32, b.part = 32, b.nparts = 32;
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  b.part = 31;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  b.part = 0;
  assert_int_equal(isa_ap_overlap(&a, &b), 2);
  b.dtype = ISA_int32;
  assert_int_equal(isa_ap_overlap(&a, &b), 2);
  b.space = ISA_PSUM;
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
}

static void test_overlap_large(void **state) {
  (void)state;
  /* halves of the columns, and quarters that meet only in the last row */
  isa_ap a = matrix(1 << 20, 512, 1024, 0), b = matrix(1 << 20, 512, 1024, 512);
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  b.offset -= 4;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  b = matrix(1, 1, 1, ((1 << 20) - 1) * (int64_t)1024 + 511);
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  b.offset += 4;
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  /* steps without a common divisor: 1000 i = 1 + 1001 j first at i = 1000, j = 999 */
  a = matrix(1000, 1, 1000, 0), b = matrix(1000, 1, 1001, 1);
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  a.dim[0].num = 1001;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  a.dim[0].num = 1000;
  a.dim[0].step = INT64_MAX / 4;
  assert_int_equal(isa_ap_overlap(&a, &b), 1); /* does not fit: taken to meet */
}

static void test_overlap_dynamic(void **state) {
  (void)state;
  isa_ap a = matrix(4, 4, 4, 0), b = matrix(4, 4, 4, 16);
  a.dyn[0] = (isa_dyn){ISA_DYN_reg, 3, 0, 16};
  assert_int_equal(isa_ap_overlap(&a, &a), 2);
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  b.dyn[0] = a.dyn[0]; /* both move alike */
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  b.offset -= 4;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  b.offset += 4;
  b.dyn[0].reg = 4;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  a.space = b.space = ISA_SBUF;
  a.nparts = b.nparts = 128;
  b.base = 2; /* another tile */
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  b.base = 0;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  memset(a.dyn, 0, sizeof a.dyn);
  memset(b.dyn, 0, sizeof b.dyn);
  b.size_dim = 2; /* a part of a place that is apart */
  assert_int_equal(isa_ap_overlap(&a, &b), 0);
  assert_false(isa_ap_is_static(&b));
  assert_true(isa_ap_is_static(&a));
  a.index_kind = ISA_INDEX_gather;
  assert_int_equal(isa_ap_overlap(&a, &b), 1);
  assert_false(isa_ap_is_static(&a));
}

static void test_limits(void **state) {
  (void)state;
  isa_ap a = matrix(UINT32_MAX, UINT32_MAX, INT64_MAX, 0);
  int64_t lo, hi;
  assert_false(isa_ap_extent(&a, &lo, &hi));
  a.dim[0].step = INT64_MIN;
  assert_false(isa_ap_extent(&a, &lo, &hi));
  assert_true(isa_ap_elems(&a) == (uint64_t)UINT32_MAX * UINT32_MAX);
  a.ndim = 3;
  a.dim[2].num = 2;
  assert_true(isa_ap_elems(&a) == UINT64_MAX);
  a.ndim = 1;
  a.dim[0] = (isa_dim){-1, 3};
  assert_true(isa_ap_extent(&a, &lo, &hi));
  assert_int_equal(lo, -8);
  assert_int_equal(hi, 4);
}

static void test_equal(void **state) {
  (void)state;
  isa_ap a = matrix(4, 4, 4, 0), b = a;
  b.dim[2].num = 9; /* after ndim */
  assert_true(isa_ap_equal(&a, &b));
  b.dim[1].num = 3;
  assert_false(isa_ap_equal(&a, &b));
  b = a, b.dtype = ISA_int32;
  assert_false(isa_ap_equal(&a, &b));
  b = a, b.dyn[1].stride = 1;
  assert_false(isa_ap_equal(&a, &b));
  b = a, b.size_reg = 1;
  assert_false(isa_ap_equal(&a, &b));
  b = a, b.base = 7;
  assert_false(isa_ap_equal(&a, &b));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_extent),
      cmocka_unit_test(test_merge),
      cmocka_unit_test(test_merge_keeps_dynamic),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_overlap_of_places),
      cmocka_unit_test(test_overlap_large),
      cmocka_unit_test(test_overlap_dynamic),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
