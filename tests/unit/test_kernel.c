/* The builder: small kernels as lists of records, run under the checks. */
#include "kernel_bed.h"

#include <math.h>

static int code_of(const char *op, const char *field, const char *value) {
  soma_field f;
  for (uint32_t i = 0; soma_opcode_field((uint32_t)soma_opcode(op), i, &f) == SOMA_OK; i++) {
    const char *v;
    if (strcmp(f.name, field) != 0) continue;
    for (uint32_t c = 0; (v = soma_field_value(&f, c)) != NULL; c++)
      if (strcmp(v, value) == 0) return (int)c;
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
static void vector_add(const char *target) {
  enum { ROWS = 1024, COLS = 256, N = ROWS * COLS };
  kbed b;
  float *x = ramp(N, 0.5f), *y = ramp(N, 0.25f), *z = malloc(N * sizeof *z);
  kbed_open(&b, target, 0, KBED_CHECKS);
  uint32_t ta = kbed_tensor(&b, "a", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
  uint32_t tb = kbed_tensor(&b, "b", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
  uint32_t tc = kbed_tensor(&b, "c", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
  for (int64_t r = 0; r < ROWS; r += 128) {
    uint32_t u = kbed_tile(&b, "ta", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    uint32_t v = kbed_tile(&b, "tb", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    uint32_t w = kbed_tile(&b, "tc", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    kbed_load(&b, u, ta, SOMA_FLOAT32, COLS, r, 128, 0, COLS);
    kbed_load(&b, v, tb, SOMA_FLOAT32, COLS, r, 128, 0, COLS);
    tensor_tensor(&b, w, u, v, COLS, "add");
    kbed_store(&b, tc, w, SOMA_FLOAT32, COLS, r, 128, 0, COLS);
  }
  kbed_finish(&b);
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

/* c[M, N] = at[K, M]^T b[K, N]; small whole numbers, so that sums are exact. */
static void matmul_runs(void **state) {
  enum { M = 256, N = 512, K = 512 };
  (void)state;
  kbed b;
  float *at = malloc(sizeof *at * K * M), *x = malloc(sizeof *x * K * N),
        *c = malloc(sizeof *c * M * N);
  for (size_t i = 0; i < K * M; i++) at[i] = (float)((i * 7) % 5) - 2;
  for (size_t i = 0; i < K * N; i++) x[i] = (float)((i * 11) % 7) - 3;
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  uint32_t ta = kbed_tensor(&b, "at", SOMA_FLOAT32, K, M, SOMA_INPUT);
  uint32_t tb = kbed_tensor(&b, "b", SOMA_FLOAT32, K, N, SOMA_INPUT);
  uint32_t tc = kbed_tensor(&b, "c", SOMA_FLOAT32, M, N, SOMA_OUTPUT);
  for (int64_t m = 0; m < M; m += 128) {
    uint32_t sum = kbed_tile(&b, "sum", SOMA_PSUM, SOMA_FLOAT32, 128, N);
    uint32_t out = kbed_tile(&b, "out", SOMA_SBUF, SOMA_FLOAT32, 128, N);
    for (int64_t k = 0; k < K; k += 128) {
      uint32_t w = kbed_tile(&b, "w", SOMA_SBUF, SOMA_FLOAT32, 128, 128);
      uint32_t v = kbed_tile(&b, "v", SOMA_SBUF, SOMA_FLOAT32, 128, N);
      kbed_load(&b, w, ta, SOMA_FLOAT32, M, k, 128, m, 128);
      kbed_load(&b, v, tb, SOMA_FLOAT32, N, k, 128, 0, N);
      load_weights(&b, w);
      multiply(&b, sum, v, N);
    }
    tensor_copy(&b, out, sum, N);
    kbed_store(&b, tc, out, SOMA_FLOAT32, N, m, 128, 0, N);
  }
  kbed_finish(&b);
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

static void softmax_runs(void **state) {
  enum { ROWS = 2048, COLS = 512, N = ROWS * COLS };
  (void)state;
  kbed b;
  float *x = ramp(N, 0.0625f), *y = malloc(N * sizeof *y);
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  uint32_t tx = kbed_tensor(&b, "x", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
  uint32_t ty = kbed_tensor(&b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
  for (int64_t r = 0; r < ROWS; r += 128) softmax_block(&b, tx, ty, r, COLS);
  kbed_finish(&b);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vector_add_runs),
      cmocka_unit_test(matmul_runs),
      cmocka_unit_test(softmax_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
