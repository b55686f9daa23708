/* Engines that cannot use a memory at once are ordered where the machine says so, and only there.
 */
#include "kernel_bed.h"

enum { COLS = 512, N = 128 * COLS };

/* The number of the activation function copy. */
static uint32_t copy_code(void) {
  soma_field f;
  assert_int_equal(soma_opcode_field((uint32_t)soma_opcode("activate"), 2, &f), SOMA_OK);
  return (uint32_t)soma_field_code(&f, "copy");
}

static void copy(kbed *b, int engine, uint32_t dst, uint32_t src) {
  int scalar = engine == SOMA_SCALAR;
  kbed_begin(b, scalar ? "activate" : "tensor_copy", engine, 0);
  kbed_ap(b, dst, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(b, src, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_word(b, scalar ? copy_code() : 0);
  kbed_zeros(b, scalar ? 4 : 0);
  kbed_end(b);
}

/* Two chains that have no bytes in common, on two engines. */
static void two_chains(kbed *b, int one, int two, soma_memory mem) {
  uint32_t x = kbed_tensor(b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
  uint32_t y[2] = {kbed_tensor(b, "y", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT),
                   kbed_tensor(b, "z", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT)};
  int engine[2] = {one, two};
  uint32_t s[2], t[2];
  for (unsigned i = 0; i < 2; i++) {
    s[i] = kbed_tile(b, "s", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    t[i] = kbed_tile(b, "t", mem, SOMA_FLOAT32, 128, COLS);
    kbed_load(b, s[i], x, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
  }
  for (unsigned n = 0; n < 3; n++) {
    for (unsigned i = 0; i < 2; i++) copy(b, engine[i], t[i], s[i]);
    for (unsigned i = 0; i < 2; i++) copy(b, engine[i], s[i], t[i]);
  }
  for (unsigned i = 0; i < 2; i++) kbed_store(b, y[i], s[i], SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
}

/* Waits of one chain for the other. */
static unsigned ordered(kbed *b) {
  soma_kernel_wait w;
  unsigned n = 0;
  for (uint32_t i = 0; soma_kernel_get_wait(b->k, i, &w) == SOMA_OK; i++)
    n += !w.buffer && !w.reuse;
  return n;
}

static unsigned chains_run(const char *target, int one, int two, soma_memory mem, int loop) {
  static float x[N], y[N];
  soma_kernel_range range = SOMA_KERNEL_RANGE_INIT;
  uint32_t reg;
  kbed b;
  for (size_t i = 0; i < N; i++) x[i] = (float)(i % 101);
  kbed_open_at(&b, target, 0, KBED_CHECKS, 0); /* else the copies go */
  range.stop = 3;
  if (loop) KBED_OK(&b, soma_kernel_loop(b.k, &range, &reg));
  two_chains(&b, one, two, mem);
  if (loop) KBED_OK(&b, soma_kernel_endloop(b.k));
  kbed_finish(&b);
  kbed_bind(&b, "x", SOMA_FLOAT32, 128, COLS, x);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "z", y, sizeof y), SOMA_OK);
  assert_memory_equal(x, y, sizeof y);
  unsigned n = ordered(&b);
  kbed_close(&b);
  return n;
}

static void gen2_orders_what_shares_a_way(void **state) {
  (void)state;
  for (int loop = 0; loop < 2; loop++) {
    assert_true(chains_run("trn1", SOMA_VECTOR, SOMA_GPSIMD, SOMA_SBUF, loop) > 0);
    assert_true(chains_run("trn1", SOMA_VECTOR, SOMA_SCALAR, SOMA_PSUM, loop) > 0);
  }
}

static void what_shares_nothing_is_not_ordered(void **state) {
  static const char *const targets[] = {"trn2", "trn3"};
  (void)state;
  assert_int_equal(chains_run("trn1", SOMA_VECTOR, SOMA_SCALAR, SOMA_SBUF, 0), 0);
  assert_int_equal(chains_run("trn1", SOMA_SCALAR, SOMA_GPSIMD, SOMA_SBUF, 0), 0);
  for (unsigned t = 0; t < 2; t++) {
    assert_int_equal(chains_run(targets[t], SOMA_VECTOR, SOMA_GPSIMD, SOMA_SBUF, 0), 0);
    assert_int_equal(chains_run(targets[t], SOMA_VECTOR, SOMA_SCALAR, SOMA_PSUM, 0), 0);
  }
}

/* Where engines are chosen, a chain does not go to and fro between two that cannot go at once. */
static void engines_are_chosen_by_ways(void **state) {
  kbed b;
  soma_kernel_figures f;
  (void)state;
  kbed_open(&b, "trn1", 0, 0);
  uint32_t s = kbed_tile(&b, "s", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  for (unsigned i = 0; i < 20; i++) {
    uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    kbed_begin(&b, "memset", -1, 0);
    kbed_ap(&b, t, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_word(&b, 1);
    kbed_word(&b, 0);
    kbed_end(&b);
    copy(&b, -1, s, t);
  }
  kbed_finish(&b);
  soma_kernel_get_figures(b.k, &f, sizeof f);
  assert_true(f.busy[SOMA_GPSIMD] == 0 || f.busy[SOMA_VECTOR] == 0);
  kbed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gen2_orders_what_shares_a_way),
      cmocka_unit_test(what_shares_nothing_is_not_ordered),
      cmocka_unit_test(engines_are_chosen_by_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
