/* The builder: small kernels as lists of records, run under the checks. */
#include "../../vm/api/impl.h"
#include "kernel_bed.h"

#include <math.h>

static int code_of(const char *op, const char *field, const char *value) {
  soma_field f;
  for (uint32_t i = 0; soma_opcode_field((uint32_t)soma_opcode(op), i, &f) == SOMA_OK; i++) {
    int code = strcmp(f.name, field) == 0 ? soma_field_code(&f, value) : -1;
    if (code >= 0) return code;
  }
  fail_msg("%s has no %s=%s", op, field, value);
  return -1;
}

static void tensor_tensor(kbed *b, uint32_t dst, uint32_t a, uint32_t c, int64_t cols,
                          const char *op) {
  kbed_begin(b, "tensor_tensor", -1, 0);
  kbed_ap(b, dst, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, a, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, c, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, code_of("tensor_tensor", "op", op));
  kbed_word(b, 0);
  kbed_end(b);
}

static float *ramp(size_t n, float scale) {
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) x[i] = scale * (float)((i * 37 + 11) % 101) - 1;
  return x;
}

static void fetch(kbed *b, const char *name, float *out, size_t n) {
  assert_int_equal(soma_fetch(b->r, name, out, n * sizeof *out), SOMA_OK);
}

/* c = a + b in blocks of 128 rows. */
static void build_add(kbed *b, int64_t rows, int64_t cols) {
  uint32_t ta = kbed_tensor(b, "a", SOMA_FLOAT32, rows, cols, SOMA_INPUT);
  uint32_t tb = kbed_tensor(b, "b", SOMA_FLOAT32, rows, cols, SOMA_INPUT);
  uint32_t tc = kbed_tensor(b, "c", SOMA_FLOAT32, rows, cols, SOMA_OUTPUT);
  for (int64_t r = 0; r < rows; r += 128) {
    uint32_t u = kbed_tile(b, "ta", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
    uint32_t v = kbed_tile(b, "tb", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
    uint32_t w = kbed_tile(b, "tc", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
    kbed_load(b, u, ta, SOMA_FLOAT32, cols, r, 128, 0, cols);
    kbed_load(b, v, tb, SOMA_FLOAT32, cols, r, 128, 0, cols);
    tensor_tensor(b, w, u, v, cols, "add");
    kbed_store(b, tc, w, SOMA_FLOAT32, cols, r, 128, 0, cols);
  }
  kbed_finish(b);
}

static void vector_add(const char *target) {
  enum { ROWS = 1024, COLS = 256, N = ROWS * COLS };
  kbed b;
  float *x = ramp(N, 0.5f), *y = ramp(N, 0.25f), *z = malloc(N * sizeof *z);
  kbed_open(&b, target, 0, KBED_CHECKS);
  build_add(&b, ROWS, COLS);
  kbed_bind(&b, "a", SOMA_FLOAT32, ROWS, COLS, x);
  kbed_bind(&b, "b", SOMA_FLOAT32, ROWS, COLS, y);
  kbed_run(&b);
  fetch(&b, "c", z, N);
  for (size_t i = 0; i < N; i++) assert_true(z[i] == x[i] + y[i]);
  kbed_close(&b);
  free(x);
  free(y);
  free(z);
}

static void vector_add_runs(void **state) {
  (void)state;
  vector_add("trn1");
  vector_add("trn2");
  vector_add("trn3");
}

static void load_weights(kbed *b, uint32_t tile) {
  kbed_begin(b, "ldweights", -1, 0);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, 128, 0, 128);
  kbed_zeros(b, 7);
  kbed_end(b);
}

static void multiply(kbed *b, uint32_t psum, uint32_t tile, int64_t cols) {
  kbed_begin(b, "matmul", -1, SOMA_RECORD_ACCUMULATE);
  kbed_ap(b, psum, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_zeros(b, 9);
  kbed_end(b);
}

static void tensor_copy(kbed *b, uint32_t dst, uint32_t src, int64_t cols) {
  kbed_begin(b, "tensor_copy", -1, 0);
  kbed_ap(b, dst, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, src, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, 0);
  kbed_end(b);
}

/* c[M, N] = at[K, M]^T b[K, N] */
static void build_matmul(kbed *b, int64_t rows, int64_t cols, int64_t depth) {
  uint32_t ta = kbed_tensor(b, "at", SOMA_FLOAT32, depth, rows, SOMA_INPUT);
  uint32_t tb = kbed_tensor(b, "b", SOMA_FLOAT32, depth, cols, SOMA_INPUT);
  uint32_t tc = kbed_tensor(b, "c", SOMA_FLOAT32, rows, cols, SOMA_OUTPUT);
  for (int64_t m = 0; m < rows; m += 128) {
    uint32_t sum = kbed_tile(b, "sum", SOMA_PSUM, SOMA_FLOAT32, 128, (uint32_t)cols);
    uint32_t out = kbed_tile(b, "out", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
    for (int64_t k = 0; k < depth; k += 128) {
      uint32_t w = kbed_tile(b, "w", SOMA_SBUF, SOMA_FLOAT32, 128, 128);
      uint32_t v = kbed_tile(b, "v", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
      kbed_load(b, w, ta, SOMA_FLOAT32, rows, k, 128, m, 128);
      kbed_load(b, v, tb, SOMA_FLOAT32, cols, k, 128, 0, cols);
      load_weights(b, w);
      multiply(b, sum, v, cols);
    }
    tensor_copy(b, out, sum, cols);
    kbed_store(b, tc, out, SOMA_FLOAT32, cols, m, 128, 0, cols);
  }
  kbed_finish(b);
}

/* Small whole numbers, so that sums are exact. */
static void matmul_runs(void **state) {
  enum { M = 256, N = 512, K = 512 };
  (void)state;
  kbed b;
  float *at = malloc(sizeof *at * K * M), *x = malloc(sizeof *x * K * N),
        *c = malloc(sizeof *c * M * N);
  for (size_t i = 0; i < K * M; i++) at[i] = (float)((i * 7) % 5) - 2;
  for (size_t i = 0; i < K * N; i++) x[i] = (float)((i * 11) % 7) - 3;
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  build_matmul(&b, M, N, K);
  kbed_bind(&b, "at", SOMA_FLOAT32, K, M, at);
  kbed_bind(&b, "b", SOMA_FLOAT32, K, N, x);
  kbed_run(&b);
  fetch(&b, "c", c, M * N);
  for (size_t m = 0; m < M; m += 17)
    for (size_t n = 0; n < N; n += 13) {
      float sum = 0;
      for (size_t k = 0; k < K; k++) sum += at[k * M + m] * x[k * N + n];
      assert_true(c[m * N + n] == sum);
    }
  kbed_close(&b);
  free(at);
  free(x);
  free(c);
}

static void softmax_block(kbed *b, uint32_t x, uint32_t y, int64_t row, int64_t cols) {
  uint32_t t = kbed_tile(b, "x", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
  uint32_t e = kbed_tile(b, "e", SOMA_SBUF, SOMA_FLOAT32, 128, (uint32_t)cols);
  uint32_t m = kbed_tile(b, "m", SOMA_SBUF, SOMA_FLOAT32, 128, 1);
  uint32_t s = kbed_tile(b, "s", SOMA_SBUF, SOMA_FLOAT32, 128, 1);
  kbed_load(b, t, x, SOMA_FLOAT32, cols, row, 128, 0, cols);
  kbed_begin(b, "tensor_reduce", -1, 0);
  kbed_ap(b, m, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_ap(b, t, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, code_of("tensor_reduce", "op", "max"));
  kbed_word(b, 1);
  kbed_word(b, 1); /* negate */
  kbed_end(b);
  kbed_begin(b, "activate", -1, 0);
  kbed_ap(b, e, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, t, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, code_of("activate", "fn", "exp"));
  kbed_word(b, 0);
  kbed_word(b, 3);
  kbed_ap(b, m, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_word(b, code_of("activate", "reduce", "reset_reduce"));
  kbed_word(b, 0);
  kbed_end(b);
  kbed_begin(b, "act_read_acc", -1, 0);
  kbed_ap(b, s, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_word(b, 0);
  kbed_end(b);
  kbed_begin(b, "reciprocal", -1, 0);
  kbed_ap(b, s, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_ap(b, s, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_end(b);
  kbed_begin(b, "tensor_scalar", -1, 0);
  kbed_ap(b, e, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(b, e, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, code_of("tensor_scalar", "op0", "mult"));
  kbed_word(b, 3);
  kbed_ap(b, s, SOMA_FLOAT32, 0, 128, 0, 1);
  kbed_zeros(b, 5);
  kbed_end(b);
  kbed_store(b, y, e, SOMA_FLOAT32, cols, row, 128, 0, cols);
}

static void build_softmax(kbed *b, int64_t rows, int64_t cols) {
  uint32_t x = kbed_tensor(b, "x", SOMA_FLOAT32, rows, cols, SOMA_INPUT);
  uint32_t y = kbed_tensor(b, "y", SOMA_FLOAT32, rows, cols, SOMA_OUTPUT);
  for (int64_t r = 0; r < rows; r += 128) softmax_block(b, x, y, r, cols);
  kbed_finish(b);
}

static void softmax_runs(void **state) {
  enum { ROWS = 2048, COLS = 512, N = ROWS * COLS };
  (void)state;
  kbed b;
  float *x = ramp(N, 0.0625f), *y = malloc(N * sizeof *y);
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  build_softmax(&b, ROWS, COLS);
  kbed_bind(&b, "x", SOMA_FLOAT32, ROWS, COLS, x);
  kbed_run(&b);
  fetch(&b, "y", y, N);
  for (size_t r = 0; r < ROWS; r += 97) {
    double sum = 0;
    for (size_t c = 0; c < COLS; c++) sum += exp((double)x[r * COLS + c]);
    for (size_t c = 0; c < COLS; c++)
      assert_true(fabs(y[r * COLS + c] - exp((double)x[r * COLS + c]) / sum) < 1e-6);
  }
  kbed_close(&b);
  free(x);
  free(y);
}

/* ---- Waits --------------------------------------------------------------------------------- */

/* Runs what is built with that wait taken out on a machine that only takes the time, since a race
 * is one of places and times; whether a check finds it. */
static bool is_found(soma_machine *m, kbed *b, const soma_kernel_wait *w) {
  soma_run *r;
  isa_insn *in = &b->p->p->cores[0].code[w->engine].insns[w->pc];
  isa_wait kept = in->wait;
  assert_int_not_equal(kept.cond, ISA_WAIT_none);
  in->wait = (isa_wait){0};
  assert_int_equal(soma_run_start(m, b->p, &r), SOMA_OK);
  soma_status s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  soma_run_free(r);
  in->wait = kept;
  return s == SOMA_CHECK;
}

/* The check finds each wait of a finished kernel that is taken away. */
static void each_is_found(kbed *b) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m;
  soma_kernel_wait w;
  uint32_t n = 0;
  o.checks = 1 << SOMA_CHECK_RACE;
  o.timing_only = 1;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  for (; soma_kernel_get_wait(b->k, n, &w) == SOMA_OK; n++) {
    if (w.reuse || !w.buffer || is_found(m, b, &w)) continue; /* only those for data */
    kbed_print(b);
    fail_msg("%s %u: its wait was taken out, and no check found it", soma_engine_name(w.engine),
             (unsigned)w.pc);
  }
  assert_true(n > 5);
  soma_machine_free(m);
}

static void each_wait_taken_out_is_found(void **state) {
  static const char *const targets[] = {"trn1", "trn2", "trn3"};
  kbed b;
  (void)state;
  for (unsigned t = 0; t < 3; t++) {
    kbed_open(&b, targets[t], 0, 1 << SOMA_CHECK_RACE);
    build_add(&b, 640, 8192); /* memory is used again */
    each_is_found(&b);
    kbed_close(&b);
    kbed_open(&b, targets[t], 0, 1 << SOMA_CHECK_RACE);
    build_matmul(&b, 256, 512, 1024);
    each_is_found(&b);
    kbed_close(&b);
    kbed_open(&b, targets[t], 0, 1 << SOMA_CHECK_RACE);
    build_softmax(&b, 1024, 8192);
    each_is_found(&b);
    kbed_close(&b);
  }
}

static void multiply_columns(kbed *b, uint32_t psum, uint32_t tile, int64_t col, int64_t cols) {
  kbed_begin(b, "matmul", -1, SOMA_RECORD_ACCUMULATE);
  kbed_ap(b, psum, SOMA_FLOAT32, 0, 128, col, cols);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, 128, col, cols);
  kbed_zeros(b, 9);
  kbed_end(b);
}

/* Matmuls over parts of a tile: the second finds half of its bytes written. */
static void sums_that_overlap_in_part(void **state) {
  enum { COLS = 64, N = 128 * COLS };
  (void)state;
  kbed b;
  float *x = ramp(128 * 128, 1), *y = ramp(N, 1), *z = malloc(N * sizeof *z);
  for (size_t i = 0; i < 128 * 128; i++) x[i] = (float)(i % 128 == i / 128); /* the identity */
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  uint32_t ta = kbed_tensor(&b, "x", SOMA_FLOAT32, 128, 128, SOMA_INPUT);
  uint32_t tb = kbed_tensor(&b, "y", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
  uint32_t tc = kbed_tensor(&b, "z", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
  uint32_t w = kbed_tile(&b, "w", SOMA_SBUF, SOMA_FLOAT32, 128, 128);
  uint32_t v = kbed_tile(&b, "v", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t out = kbed_tile(&b, "out", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t old = kbed_tile(&b, "old", SOMA_PSUM, SOMA_FLOAT32, 128, 4096);
  uint32_t sum = kbed_tile(&b, "sum", SOMA_PSUM, SOMA_FLOAT32, 128, COLS);
  kbed_load(&b, w, ta, SOMA_FLOAT32, 128, 0, 128, 0, 128);
  kbed_load(&b, v, tb, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
  load_weights(&b, w);
  multiply_columns(&b, old, v, 0, COLS); /* another tile's sums, where sum comes to lie */
  tensor_copy(&b, out, old, COLS);
  multiply_columns(&b, sum, v, 16, 16);  /* writes 16..31 */
  multiply_columns(&b, sum, v, 0, COLS); /* adds there, writes elsewhere */
  multiply_columns(&b, sum, v, 32, 32);  /* adds */
  tensor_copy(&b, out, sum, COLS);
  kbed_store(&b, tc, out, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
  kbed_finish(&b);
  kbed_bind(&b, "x", SOMA_FLOAT32, 128, 128, x);
  kbed_bind(&b, "y", SOMA_FLOAT32, 128, COLS, y);
  kbed_run(&b);
  fetch(&b, "z", z, N);
  for (size_t i = 0; i < N; i++) assert_true(z[i] == y[i] * (i % COLS < 16 ? 1.0f : 2.0f));
  kbed_close(&b);
  free(x);
  free(y);
  free(z);
}

/* More transfers than semaphores: those are used again, and nothing is accused. */
static void semaphores_are_used_again(void **state) {
  static const char *const targets[] = {"trn1", "trn2", "trn3"};
  enum { ROWS = 128 * 300, COLS = 8, N = ROWS * COLS };
  kbed b;
  soma_kernel_figures f;
  float *x = ramp(N, 0.5f), *z = malloc(N * sizeof *z);
  (void)state;
  for (unsigned t = 0; t < 3; t++) {
    kbed_open(&b, targets[t], 0, 1 << SOMA_CHECK_RACE | 1 << SOMA_CHECK_UNINIT);
    build_add(&b, ROWS, COLS);
    soma_kernel_get_figures(b.k, &f, sizeof f);
    assert_int_equal(f.transfers, 900);
    assert_int_equal(f.semaphores, 256);
    assert_true(f.reuse_waits * 20 <= f.waits);
    kbed_bind(&b, "a", SOMA_FLOAT32, ROWS, COLS, x);
    kbed_bind(&b, "b", SOMA_FLOAT32, ROWS, COLS, x);
    kbed_run(&b);
    fetch(&b, "c", z, N);
    for (size_t i = 0; i < N; i++) assert_true(z[i] == 2 * x[i]);
    kbed_close(&b);
  }
  free(x);
  free(z);
}

static void names_of_values_and_their_codes(void **state) {
  (void)state;
  soma_opcode_info op;
  soma_field f;
  const char *name;
  uint32_t values = 0;
  for (uint32_t i = 0; soma_opcode_row(i, &op) == SOMA_OK; i++)
    for (uint32_t k = 0; soma_opcode_field(op.number, k, &f) == SOMA_OK; k++) {
      assert_int_equal(soma_field_code(&f, "no_such_value"), -1);
      for (uint32_t c = 0; (name = soma_field_value(&f, c)) != NULL; c++, values++)
        assert_int_equal(soma_field_code(&f, name), c);
    }
  assert_true(values > 1000);
  assert_int_equal(soma_field_code(&f, NULL), -1);
  assert_int_equal(soma_field_code(NULL, "add"), -1);
}

static void words_of_the_language(void **state) {
  (void)state;
  static const char *const words[] = {"tensor", "else", "npy", "float32", "r0", "r9", "r63"};
  static const char *const others[] = {"t", "", "r", "r64", "r07", "r1a", "tensors", "memset"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_true(soma_is_word(words[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(soma_is_word(others[i]));
  assert_false(soma_is_word(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vector_add_runs),
      cmocka_unit_test(matmul_runs),
      cmocka_unit_test(softmax_runs),
      cmocka_unit_test(sums_that_overlap_in_part),
      cmocka_unit_test(each_wait_taken_out_is_found),
      cmocka_unit_test(semaphores_are_used_again),
      cmocka_unit_test(names_of_values_and_their_codes),
      cmocka_unit_test(words_of_the_language),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
