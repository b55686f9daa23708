/* Buffers, arenas and arrays, with an allocator that counts and can fail. */
#include "../../isa/program.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Fails at call number fail_at (counted from 1), and checks the sizes it is told. */
typedef struct meter {
  size_t live, calls, fail_at;
} meter;

static void *meter_fn(void *ud, void *p, size_t old, size_t n) {
  meter *m = ud;
  if (n == 0) {
    m->live -= old;
    free(p);
    return NULL;
  }
  if (++m->calls == m->fail_at || n > SIZE_MAX / 4) return NULL;
  void *q = realloc(p, n);
  if (q) m->live += n - old;
  return q;
}

static isa_alloc metered(meter *m) { return (isa_alloc){meter_fn, m}; }

static void test_status(void **state) {
  (void)state;
  assert_string_equal(isa_status_text(ISA_OK), "ok");
  assert_string_equal(isa_status_text(ISA_BUSY), "the core has a run that has not ended");
  assert_string_equal(isa_status_text(-1), "unknown status");
  assert_string_equal(isa_status_text(ISA_NSTATUS), "unknown status");
}

static void test_buf(void **state) {
  (void)state;
  meter m = {0, 0, 0};
  isa_alloc al = metered(&m);
  isa_buf b;
  isa_buf_init(&b, &al);
  assert_string_equal(isa_buf_str(&b), "");
  for (int i = 0; i < 1000; i++) isa_buf_printf(&b, "%d,", i);
  assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
  assert_memory_equal(isa_buf_str(&b), "0,1,2,3,", 8);
  assert_string_equal(isa_buf_str(&b) + b.len - 8, "998,999,");
  isa_buf_puts(&b, "");
  isa_buf_add(&b, "a\0b", 3);
  assert_memory_equal(b.data + b.len - 4, ",a\0b", 5);
  isa_buf_free(&b);
  assert_int_equal(m.live, 0);
  assert_string_equal(isa_buf_str(&b), "");
}

static void test_buf_failure_sticks(void **state) {
  (void)state;
  meter m = {0, 0, 2};
  isa_alloc al = metered(&m);
  isa_buf b;
  isa_buf_init(&b, &al);
  isa_buf_puts(&b, "abc");
  char big[200];
  memset(big, 'x', sizeof big);
  isa_buf_add(&b, big, sizeof big);
  assert_true(b.failed);
  isa_buf_puts(&b, "d");
  assert_int_equal(b.len, 3);
  assert_string_equal(isa_buf_str(&b), "");
  assert_null(isa_buf_grow(&b, SIZE_MAX));
  isa_buf_free(&b);
  assert_int_equal(m.live, 0);
}

static void test_buf_refuses_overflow(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  isa_buf_puts(&b, "x");
  assert_null(isa_buf_grow(&b, SIZE_MAX - 1));
  assert_true(b.failed);
  isa_buf_free(&b);
}

static void test_arena(void **state) {
  (void)state;
  meter m = {0, 0, 0};
  isa_alloc al = metered(&m);
  isa_arena a;
  isa_arena_init(&a, &al);
  unsigned char *p[300];
  for (size_t i = 0; i < 300; i++) {
    p[i] = isa_arena_alloc(&a, i * 7);
    assert_non_null(p[i]);
    assert_int_equal((uintptr_t)p[i] % _Alignof(max_align_t), 0);
    for (size_t j = 0; j < i * 7; j++) assert_int_equal(p[i][j], 0);
    memset(p[i], (int)(i & 255), i * 7);
  }
  for (size_t i = 0; i < 300; i++)
    for (size_t j = 0; j < i * 7; j++) assert_int_equal(p[i][j], i & 255);
  assert_string_equal(isa_arena_strn(&a, "hello", 4), "hell");
  assert_non_null(isa_arena_alloc(&a, 1000000));
  assert_int_equal(a.total, m.live);
  assert_null(isa_arena_alloc(&a, SIZE_MAX));
  assert_null(isa_arena_alloc(&a, SIZE_MAX - 100));
  m.fail_at = m.calls + 1;
  assert_null(isa_arena_alloc(&a, 100000));
  isa_arena_free(&a);
  assert_int_equal(m.live, 0);
}

static void test_array(void **state) {
  (void)state;
  meter m = {0, 0, 0};
  isa_alloc al = metered(&m);
  uint32_t *a = NULL, cap = 0, n = 0;
  for (; n < 1000; n++) {
    assert_true(isa_array_grow(&al, &a, n, &cap, sizeof *a));
    assert_int_equal(a[n], 0);
    a[n] = n + 1;
  }
  for (uint32_t i = 0; i < n; i++) assert_int_equal(a[i], i + 1);
  assert_true(m.calls < 20);
  m.fail_at = m.calls + 1;
  uint32_t *before = a, old = cap;
  assert_false(isa_array_grow(&al, &a, cap, &cap, sizeof *a));
  assert_ptr_equal(a, before);
  assert_int_equal(cap, old);
  uint32_t huge = UINT32_MAX;
  assert_false(isa_array_grow(&al, &a, UINT32_MAX, &huge, sizeof *a));
  isa_free(&al, a, cap * sizeof *a);
  assert_int_equal(m.live, 0);
}

static void test_fail(void **state) {
  (void)state;
  isa_error e;
  assert_false(isa_fail(&e, ISA_ILLEGAL, 3, "%d is over %s", 7, "six"));
  assert_int_equal(e.status, ISA_ILLEGAL);
  assert_int_equal(e.field, 3);
  assert_string_equal(e.text, "7 is over six");
  assert_false(isa_fail(NULL, ISA_ARG, ISA_NOFIELD, "x"));
  assert_false(isa_fail(&e, ISA_ARG, ISA_NOFIELD, "%600d", 1));
  assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

/* ---- Programs ----------------------------------------------------------------------------- */

static isa_ap some_ap(uint32_t i) {
  isa_ap a = {.dtype = ISA_float32, .space = ISA_SBUF, .ndim = 1, .nparts = 128};
  a.offset = 4 * (int64_t)i;
  a.dim[0] = (isa_dim){1, 512};
  return a;
}

static void test_patterns_once(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  assert_non_null(p);
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < 20000; i++) {
      isa_ap a = some_ap(i);
      a.dim[4].num = (uint32_t)round; /* after ndim: without meaning */
      assert_int_equal(isa_program_ap(p, 0, &a), i + 1);
    }
  assert_int_equal(p->cores[0].naps, 20000);
  isa_program_free(p);
  isa_program_free(NULL);
}

static void test_pool_once(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  isa_ref r, s;
  assert_true(isa_program_pool(p, "abc", 3, 1, &r));
  assert_true(isa_program_pool(p, (uint32_t[]){1, 2}, 2, 4, &s));
  assert_int_equal(r.offset, 0);
  assert_int_equal(r.count, 3);
  assert_int_equal(s.offset, 8);
  assert_int_equal(s.count, 2);
  assert_memory_equal(isa_program_list(p, r, ISA_K_STR), "abc", 3);
  assert_true(isa_program_pool(p, "abc", 3, 1, &r));
  assert_int_equal(r.offset, 0);
  assert_true(isa_program_pool(p, "ab", 2, 1, &r));
  assert_int_equal(r.offset, 16);
  assert_true(isa_program_pool(p, NULL, 0, 4, &r));
  assert_int_equal(r.offset, 0);
  assert_int_equal(p->pool.len, 18);
  assert_memory_equal(p->pool.data, "abc\0\0\0\0\0\1\0\0\0\2\0\0\0ab", 18);
  assert_non_null(isa_program_list(p, (isa_ref){0, 0}, ISA_K_APS));
  assert_non_null(isa_program_list(p, (isa_ref){8, 10}, ISA_K_BYTES));
  assert_null(isa_program_list(p, (isa_ref){8, 11}, ISA_K_BYTES));
  assert_null(isa_program_list(p, (isa_ref){8, 3}, ISA_K_APS));
  assert_null(isa_program_list(p, (isa_ref){0, UINT32_MAX}, ISA_K_STEPS));
  assert_null(isa_program_list(p, (isa_ref){4, 1}, ISA_K_APS));
  assert_null(isa_program_list(p, (isa_ref){0, 1}, ISA_K_AP));
  for (uint32_t i = 0; i < 20000; i++) {
    assert_true(isa_program_pool(p, &i, 1, 4, &r));
    assert_true(isa_program_pool(p, &i, 1, 4, &s));
    assert_int_equal(r.offset, s.offset);
  }
  isa_program_free(p);
}

/* A program with something in every table; false when memory ran out. */
static bool build(isa_program *p) {
  isa_insn in = {.op = ISA_OP_halt};
  isa_ap a = some_ap(1);
  isa_ref r;
  return isa_program_tensor(p, &(isa_tensor){.name = "t",
                                             .dtype = ISA_uint8,
                                             .role = ISA_CONST,
                                             .ndim = 1,
                                             .shape = {3},
                                             .bytes = 3,
                                             .data = (const uint8_t *)"xyz"}) &&
         isa_program_tile(p, &(isa_tile){.name = "s", .dtype = ISA_uint8, .overlay = "o"}) &&
         isa_program_ap(p, 0, &a) && isa_program_file(p, "f.s") &&
         isa_program_symbol(p, &(isa_symbol){.name = "main"}) &&
         isa_program_queue(p, 0, &(isa_queue){.name = "q", .rings = 16}) &&
         isa_program_insn(p, 0, ISA_ENG_sync, &in, (isa_line){1, 2, 0}) &&
         isa_program_static(p, 0, 0, &in) && isa_program_pool(p, "abc", 3, 1, &r);
}

static void test_program_failures(void **state) {
  (void)state;
  bool done = false;
  for (size_t fail_at = 1; !done; fail_at++) {
    meter m = {0, 0, fail_at};
    isa_alloc al = metered(&m);
    isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
    done = p && build(p);
    assert_true(done == (m.calls < fail_at));
    isa_program_free(p);
    assert_int_equal(m.live, 0);
  }
}

static void test_program_copies(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  char name[] = "tensor", data[] = "xyz";
  isa_tensor t = {.name = name,
                  .dtype = ISA_uint8,
                  .role = ISA_CONST,
                  .ndim = 1,
                  .shape = {3},
                  .bytes = 3,
                  .data = (const uint8_t *)data};
  assert_int_equal(isa_program_tensor(p, &t), 1);
  t.name = "other";
  t.data = NULL;
  assert_int_equal(isa_program_tensor(p, &t), 2);
  name[0] = data[0] = '?';
  assert_string_equal(p->tensors[0].name, "tensor");
  assert_memory_equal(p->tensors[0].data, "xyz", 3);
  assert_int_equal(isa_program_find_tensor(p, "other", 5), 1);
  assert_int_equal(isa_program_find_tensor(p, "othe", 4), -1);
  for (uint32_t i = 0; i < ISA_MAX_QUEUES; i++)
    assert_int_equal(isa_program_queue(p, 0, &(isa_queue){.name = "q", .rings = 1}), i + 1);
  assert_int_equal(isa_program_queue(p, 0, &(isa_queue){.name = "q", .rings = 1}), 0);
  assert_string_equal(isa_role_name(ISA_CONST), "const");
  assert_string_equal(isa_role_name(ISA_NROLES), "?");
  isa_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status),
      cmocka_unit_test(test_buf),
      cmocka_unit_test(test_buf_failure_sticks),
      cmocka_unit_test(test_buf_refuses_overflow),
      cmocka_unit_test(test_arena),
      cmocka_unit_test(test_array),
      cmocka_unit_test(test_fail),
      cmocka_unit_test(test_patterns_once),
      cmocka_unit_test(test_pool_once),
      cmocka_unit_test(test_program_failures),
      cmocka_unit_test(test_program_copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
