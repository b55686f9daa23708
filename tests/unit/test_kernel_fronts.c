/* What a front end says of a kernel (kernel/fronts.def): which passes go over it, who makes
 * descriptors, how much room it has; and the order where that room is short. */
#include "kernel_bed.h"

enum { COLS = 64 };

/* A kernel of these options; target: of the machine. */
static void open_with(kbed *b, const char *target, unsigned checks,
                      const soma_kernel_options *options) {
  soma_options o = SOMA_OPTIONS_INIT;
  memset(b, 0, sizeof *b);
  o.target = target;
  o.checks = checks;
  assert_int_equal(soma_machine_new(&o, &b->m), SOMA_OK);
  assert_int_equal(soma_kernel_new(b->m, options, &b->k), SOMA_OK);
  assert_int_equal(soma_kernel_file(b->k, "kernel.py", &b->file), SOMA_OK);
}

/* One round of `for m, for n, for k`: rows of x that m and k name (line 10), that n and k name
 * (20), that m and n name (30); what is computed of the first (40, 50). */
static void add_round(kbed *b, uint32_t x, uint32_t sum, int m, int n, int k) {
  const int rows[3] = {2 * m + k, 4 + 2 * n + k, 8 + 2 * m + n};
  uint32_t t[3], d = kbed_tile(b, "d", SOMA_SBUF, SOMA_FLOAT32, 8, COLS);
  for (int i = 0; i < 3; i++) {
    t[i] = kbed_tile(b, "t", SOMA_SBUF, SOMA_FLOAT32, 8, COLS);
    b->line = 9 + 10 * (uint32_t)i;
    kbed_load(b, t[i], x, SOMA_FLOAT32, COLS, 8 * rows[i], 8, 0, COLS);
  }
  b->line = 39;
  kbed_scalar(b, SOMA_VECTOR, d, t[0], 8, COLS, KBED_MULT, 2);
  uint32_t e = kbed_tile(b, "e", SOMA_SBUF, SOMA_FLOAT32, 8, COLS);
  b->line = 49;
  kbed_scalar(b, SOMA_VECTOR, e, t[1], 8, COLS, KBED_MULT, 3);
  const uint32_t all[] = {d, e, t[2]};
  for (int i = 0; i < 3; i++) {
    kbed_begin(b, "tensor_tensor", SOMA_VECTOR, 0);
    kbed_ap(b, sum, SOMA_FLOAT32, 0, 8, 0, COLS);
    kbed_ap(b, sum, SOMA_FLOAT32, 0, 8, 0, COLS);
    kbed_ap(b, all[i], SOMA_FLOAT32, 0, 8, 0, COLS);
    kbed_word(b, KBED_ADD);
    kbed_zeros(b, 1);
    kbed_end(b);
  }
}

/* What a front end's compiler takes out of which loop (fronts.def). Of 8 rounds: what n and k name
 * is loaded in the first of m alone, what m and n name for the first k; what m and k name for each
 * n, unless earlier rounds count too. What is computed of what is loaded again is computed again.
 */
static void a_front_end_says_which_rounds_count(void **state) {
  static const struct {
    const char *front_end;
    unsigned left[6]; /* by line / 10 */
  } rows[] = {
      {"neuronxcc.nki", {0, 0, 4, 4, 0, 0}}, {"soma.kernel", {0, 4, 4, 4, 4, 4}}, {"nki", {0}}};
  (void)state;
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
    soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
    soma_kernel_left left;
    unsigned got[6] = {0};
    kbed b;
    o.front_end = rows[r].front_end;
    o.without = SOMA_PASS_MERGES; /* of loads that are left */
    open_with(&b, "trn2", 0, &o);
    uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "out", SOMA_FLOAT32, 8, COLS, SOMA_OUTPUT);
    uint32_t sum = kbed_tile(&b, "sum", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    kbed_memset(&b, SOMA_VECTOR, sum, COLS, 0);
    for (int i = 0; i < 8; i++) add_round(&b, x, sum, i / 4, i / 2 % 2, i % 2);
    kbed_store(&b, y, sum, SOMA_FLOAT32, COLS, 0, 8, 0, COLS);
    kbed_finish(&b);
    for (uint32_t i = 0; soma_kernel_get_left(b.k, i, &left) == SOMA_OK; i++)
      if (left.line % 10 == 0 && left.line < 60) got[left.line / 10] += left.left;
    for (unsigned i = 0; i < 6; i++)
      if (got[i] != rows[r].left[i]) fail_msg("%s: line %u0: %u", rows[r].front_end, i, got[i]);
    kbed_close(&b);
  }
}

/* The engine that triggers a load of an input is gpsimd where descriptors are made by software;
 * what the kernel has between its inputs and outputs goes by hardware. At each level. */
static void a_front_end_says_who_makes_descriptors(void **state) {
  static const struct {
    const char *target, *front_end,
        *queues[3]; /* of the load, of a store and a load of a temporary */
  } rows[] = {{"trn2", "neuronxcc.nki", {"q_swdge_gpsimd", "q_hwdge_scalar", "q_hwdge_sync"}},
              {"trn2", "nki", {"q_hwdge_sync", "q_hwdge_scalar", "q_hwdge_sync"}},
              {"trn1", "neuronxcc.nki", {"q_static_sync", "q_static_gpsimd", "q_static_sync"}},
              {"trn3", "soma.kernel", {"q_hwdge_sync", "q_hwdge_scalar", "q_hwdge_sync"}}};
  (void)state;
  for (unsigned r = 0; r < 2 * sizeof rows / sizeof *rows; r++) {
    soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
    kbed b;
    char *text;
    size_t size;
    o.front_end = rows[r / 2].front_end;
    o.optimize = r % 2;
    open_with(&b, rows[r / 2].target, 0, &o);
    uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "out", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
    uint32_t temp = kbed_tensor(&b, "temp", SOMA_FLOAT32, 128, COLS, SOMA_TEMP);
    uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    uint32_t u = kbed_tile(&b, "u", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    kbed_load(&b, t, x, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_store(&b, temp, t, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_load(&b, u, temp, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_store(&b, y, u, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_finish(&b);
    assert_int_equal(soma_disassemble(b.m, b.p, &text, &size), SOMA_OK);
    for (unsigned q = 0; q < 3; q++)
      if (!strstr(text, rows[r / 2].queues[q])) fail_msg("%s\n%s", rows[r / 2].queues[q], text);
    soma_bytes_free(text);
    kbed_close(&b);
  }
}

/* Two tiles at once, of so many bytes of a partition: what the compiler of neuronxcc.nki keeps is
 * not theirs, and of a small hypothetical machine it keeps an eighth. A limit of the caller's is
 * from 0 on. */
static void a_front_end_says_how_much_room_there_is(void **state) {
  static const struct {
    const char *target, *front_end;
    uint32_t bytes, limit;
    int fits;
  } rows[] = {{"trn2", "neuronxcc.nki", 106496, 0, 1},
              {"trn2", "neuronxcc.nki", 106560, 0, 0},
              {"trn2", "soma.kernel", 114688, 0, 1},
              {"trn2", "nki", 114688, 0, 1},
              {"trn1", "neuronxcc.nki", 90112, 0, 1},
              {"trn1", "neuronxcc.nki", 90176, 0, 0},
              {"trn1", "soma.kernel", 98304, 0, 1},
              {"trn2", "neuronxcc.nki", 65536, 131072, 1},
              {"trn2", "neuronxcc.nki", 65600, 131072, 0},
              {"trn2, sbuf_kib=64", "neuronxcc.nki", 28672, 0, 1},
              {"trn2, sbuf_kib=64", "neuronxcc.nki", 28736, 0, 0}};
  (void)state;
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
    soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
    kbed b;
    uint32_t t[2], cols = rows[r].bytes / 4;
    o.target = rows[r].target;
    o.front_end = rows[r].front_end;
    o.sbuf_bytes = rows[r].limit;
    open_with(&b, "trn2", 0, &o);
    uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, 16, cols, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "out", SOMA_FLOAT32, 16, cols, SOMA_OUTPUT);
    for (int i = 0; i < 2; i++) {
      t[i] = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 8, cols);
      kbed_load(&b, t[i], x, SOMA_FLOAT32, cols, 8 * i, 8, 0, cols);
    }
    for (int i = 0; i < 2; i++) kbed_store(&b, y, t[1 - i], SOMA_FLOAT32, cols, 8 * i, 8, 0, cols);
    soma_status s = soma_kernel_finish(b.k, &b.p, NULL);
    if (s != (rows[r].fits ? SOMA_OK : SOMA_LIMIT))
      fail_msg("row %u: %d, %s", r, (int)s, soma_kernel_error(b.k));
    kbed_close(&b);
  }
}

/* In these kernels tiles do not fit when loads run far ahead, and do when they run less far ahead;
 * so the list is not left in the order of the caller. */
static void what_does_not_fit_runs_less_far_ahead(void **state) {
  static const uint32_t rows[][4] = {
      {11264, 432, 832, 32}, {4352, 304, 96, 64}, {7168, 608, 32, 544}}; /* bytes; columns */
  (void)state;
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
    soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
    soma_kernel_figures f;
    enum { ROWS = 96, WIDTH = 1024 };
    static float given[ROWS * WIDTH], got[ROWS * WIDTH];
    uint32_t t[3], cols = WIDTH, most = 0;
    kbed b;
    o.sbuf_bytes = rows[r][0];
    open_with(&b, "trn2", KBED_CHECKS, &o);
    uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, ROWS, cols, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "out", SOMA_FLOAT32, ROWS, cols, SOMA_OUTPUT);
    for (int i = 0; i < ROWS / 8; i++) {
      const uint32_t *w = rows[r] + 1;
      for (int j = 0; j < 3; j++) {
        t[j] = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 8, w[j]);
        kbed_load(&b, t[j], x, SOMA_FLOAT32, cols, 8 * i, 8, 0, w[j]);
        if (w[j] > most) most = w[j];
      }
      for (int j = 0; j < 3; j++) {
        uint32_t u = kbed_tile(&b, "u", SOMA_SBUF, SOMA_FLOAT32, 8, w[j]);
        kbed_scalar(&b, SOMA_VECTOR, u, t[j], 8, w[j], KBED_MULT, 2);
        kbed_store(&b, y, u, SOMA_FLOAT32, cols, 8 * i, 8, 0, w[j]);
      }
    }
    kbed_finish(&b);
    soma_kernel_get_figures(b.k, &f, sizeof f);
    if (f.moved < 30 || f.moved > 84) fail_msg("row %u: %d are moved", r, (int)f.moved);
    for (int i = 0; i < ROWS * WIDTH; i++) given[i] = (float)(i % 8191);
    kbed_bind(&b, "x", SOMA_FLOAT32, ROWS, WIDTH, given);
    kbed_run(&b);
    assert_int_equal(soma_fetch(b.r, "out", got, sizeof got), SOMA_OK);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
      if (i % WIDTH < most && got[i] != 2 * given[i])
        fail_msg("row %u: element %u is %g", r, (unsigned)i, got[i]);
    kbed_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_front_end_says_which_rounds_count),
                                     cmocka_unit_test(a_front_end_says_who_makes_descriptors),
                                     cmocka_unit_test(a_front_end_says_how_much_room_there_is),
                                     cmocka_unit_test(what_does_not_fit_runs_less_far_ahead)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
