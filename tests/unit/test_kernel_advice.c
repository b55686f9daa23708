/* soma_kernel_get_advice: what an entry has, kernels without advice, and loops at run time. */
#include "kernel_bed.h"

enum { COLS = 512, BLOCKS = 8, ROWS = 128 * BLOCKS };

typedef struct advised {
  kbed b;
  uint32_t x, w, y;
} advised;

static void open_with(advised *a, uint32_t flags, const char *front_end) {
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  kbed_open(&a->b, "trn2", 0, 0);
  soma_kernel_free(a->b.k);
  o.flags = flags;
  o.front_end = front_end;
  assert_int_equal(soma_kernel_new(a->b.m, &o, &a->b.k), SOMA_OK);
  KBED_OK(&a->b, soma_kernel_file(a->b.k, "kernel.py", &a->b.file));
  a->x = kbed_tensor(&a->b, "x", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
  a->w = kbed_tensor(&a->b, "w", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
  a->y = kbed_tensor(&a->b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
}

/* y = x + w, with w loaded for each block, at line 20. */
static void add_blocks(advised *a, int n) {
  for (int i = 0; i < n; i++) {
    kbed *b = &a->b;
    int64_t row = i % BLOCKS * 128;
    uint32_t t = kbed_tile(b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    uint32_t u = kbed_tile(b, "u", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    b->line = 10;
    kbed_load(b, t, a->x, SOMA_FLOAT32, COLS, row, 128, 0, COLS);
    b->line = 19;
    kbed_load(b, u, a->w, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_begin(b, "tensor_tensor", SOMA_VECTOR, 0);
    kbed_ap(b, t, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_ap(b, t, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_ap(b, u, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_word(b, 2); /* add */
    kbed_zeros(b, 1);
    kbed_end(b);
    kbed_store(b, a->y, t, SOMA_FLOAT32, COLS, row, 128, 0, COLS);
    KBED_OK(b, soma_kernel_end(b->k, u));
  }
}

static int collect(void *ud, const char *text, size_t n) {
  strncat(ud, text, n);
  return 0;
}

static void a_load_is_told_with_its_place(void **state) {
  static char report[1 << 16];
  advised a;
  soma_kernel_advice x, y;
  (void)state;
  open_with(&a, SOMA_KERNEL_ADVICE, "nki");
  add_blocks(&a, BLOCKS);
  assert_int_equal(soma_kernel_get_advice(a.b.k, 0, &x, sizeof x), SOMA_ARG); /* not finished */
  kbed_finish(&a.b);
  KBED_OK(&a.b, soma_kernel_get_advice(a.b.k, 0, &x, sizeof x));
  assert_int_equal(x.kind, SOMA_ADVICE_LOAD);
  assert_int_equal(x.line, 20);
  assert_string_equal(x.file, "kernel.py");
  assert_string_equal(x.name, "u");
  assert_string_equal(x.instruction, "dma_copy");
  assert_int_equal(x.times, BLOCKS);
  assert_true(x.saved > 0);
  KBED_OK(&a.b, soma_kernel_report(a.b.k, collect, report));
  assert_non_null(strstr(report, "kernel.py:20 (u): dma_copy: 8 times, 7 of them"));
  memset(&y, 0x55, sizeof y);
  KBED_OK(&a.b, soma_kernel_get_advice(a.b.k, 0, &y, offsetof(soma_kernel_advice, instruction)));
  assert_true(y.saved == x.saved && y.line == 0x55555555);
  uint32_t n = 0;
  while (soma_kernel_get_advice(a.b.k, n, &x, sizeof x) == SOMA_OK) n++;
  assert_true(n < 10);
  kbed_close(&a.b);
}

static void there_is_none(void **state) {
  static char report[1 << 16];
  soma_kernel_advice x;
  (void)state;
  for (int i = 0; i < 2; i++) { /* 0: no flag; 1: all passes are on */
    advised a;
    open_with(&a, i ? SOMA_KERNEL_ADVICE : 0, i ? NULL : "nki");
    add_blocks(&a, BLOCKS);
    kbed_finish(&a.b);
    report[0] = 0;
    KBED_OK(&a.b, soma_kernel_report(a.b.k, collect, report));
    if (i)
      assert_non_null(strstr(report, "\nadvice: none of "));
    else
      assert_null(strstr(report, "advice"));
    assert_int_equal(soma_kernel_get_advice(a.b.k, 0, &x, sizeof x), SOMA_ARG);
    kbed_close(&a.b);
  }
}

/* A kernel of 100000 instructions has advice, as far as the trials go that it may take; a larger
 * one has none. */
static void more_than_100000_instructions_have_none(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    advised a;
    soma_kernel_advice x = {0};
    open_with(&a, SOMA_KERNEL_ADVICE, "nki");
    add_blocks(&a, 25000 + more);
    kbed_finish(&a.b);
    soma_status s = soma_kernel_get_advice(a.b.k, 0, &x, sizeof x);
    assert_int_equal(s, more ? SOMA_ARG : SOMA_OK);
    if (!more) assert_int_equal(x.kind, SOMA_ADVICE_LOAD);
    kbed_close(&a.b);
  }
}

/* t = every eighth element of rows of x */
static void load_far_apart(advised *a, uint32_t t) {
  kbed_begin(&a->b, "dma_copy", -1, 0);
  kbed_ap(&a->b, t, SOMA_FLOAT32, 0, 128, 0, 64);
  const int64_t x[] = {10, a->x, SOMA_FLOAT32, 0, 0, 0, 2, COLS, 128, 8, 64};
  for (unsigned i = 0; i < sizeof x / sizeof *x; i++) kbed_word(&a->b, x[i]);
  kbed_word(&a->b, -1);
  kbed_zeros(&a->b, 3);
  kbed_end(&a->b);
}

/* Elements that are far apart are told, but not where a loop at run time moves them: its rounds are
 * not told apart. */
static void loops_at_run_time(void **state) {
  (void)state;
  for (int loop = 0; loop < 2; loop++) {
    advised a;
    soma_kernel_advice x;
    soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
    uint32_t reg;
    unsigned rows = 0;
    open_with(&a, SOMA_KERNEL_ADVICE, "nki");
    r.stop = 3;
    if (loop) KBED_OK(&a.b, soma_kernel_loop(a.b.k, &r, &reg));
    uint32_t t = kbed_tile(&a.b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, 64);
    load_far_apart(&a, t);
    kbed_store(&a.b, a.y, t, SOMA_FLOAT32, COLS, 0, 128, 0, 64);
    if (loop) KBED_OK(&a.b, soma_kernel_endloop(a.b.k));
    kbed_finish(&a.b);
    for (uint32_t i = 0; soma_kernel_get_advice(a.b.k, i, &x, sizeof x) == SOMA_OK; i++)
      rows += x.kind == SOMA_ADVICE_ROWS;
    assert_int_equal(rows, !loop);
    kbed_close(&a.b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_load_is_told_with_its_place),
                                     cmocka_unit_test(there_is_none),
                                     cmocka_unit_test(more_than_100000_instructions_have_none),
                                     cmocka_unit_test(loops_at_run_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
