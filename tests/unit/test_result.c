/* Results that are handed over, and the blocks that a machine keeps for its next runs. */
#include "../../vm/vm.h"
#include "vm_bed.h"

#include <pthread.h>
#include <string.h>

/* y[0] = x; the rest of y, of 1 MiB, stays zero. */
static const char source[] = "        target  trn2\n"
                             "x       tensor  float32[128, 4], input\n"
                             "y       tensor  float32[512, 128, 4], output\n"
                             "kept    tensor  float32[128, 4], output\n"
                             "t       tile    sbuf float32[128, 4]\n"
                             "loaded  sem\n"
                             "q       queue   dge=hwdge\n"
                             "section sync\n"
                             "        dma_copy  t, x, queue=q   $loaded\n"
                             "        dma_copy  y[0], t, queue=q   $loaded>=16 $loaded\n"
                             "        nop  $loaded>=32\n"
                             "        halt\n";
enum { SMALL = 128 * 4, LARGE = 512 * SMALL };
static float x[SMALL];

static void fill(void) {
  for (int i = 0; i < SMALL; i++) x[i] = (float)(i + 1);
}

static bed ended(const soma_options *o) {
  fill();
  bed b = bed_open(o, source);
  bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
  bed_run(&b, SOMA_OK);
  return b;
}

static soma_result *take(bed *b, const char *name) {
  soma_result *t;
  assert_int_equal(soma_take(b->r, name, &t), SOMA_OK);
  return t;
}

static void expect_y(soma_result *t) {
  const float *y = soma_result_data(t);
  assert_int_equal(soma_result_size(t), LARGE * sizeof *y);
  assert_memory_equal(y, x, sizeof x);
  for (int i = SMALL; i < LARGE; i++) assert_true(y[i] == 0);
}

static void outlives_run_and_machine(void **state) {
  (void)state;
  bed b = ended(NULL);
  soma_stats before, after;
  soma_run_stats(b.r, &before, sizeof before);
  soma_result *t = take(&b, "y"), *again = take(&b, "y"), *small = take(&b, "x");
  soma_run_stats(b.r, &after, sizeof after);
  assert_int_equal(after.device_to_host - before.device_to_host, 2 * LARGE * 4 + sizeof x);
  assert_ptr_equal(soma_result_data(t), soma_result_data(again));
  expect_y(t);
  ((float *)soma_result_data(t))[SMALL] = 7;
  float *seen = malloc(LARGE * sizeof *seen);
  assert_non_null(seen);
  assert_int_equal(soma_fetch(b.r, "y", seen, LARGE * sizeof *seen), SOMA_OK);
  assert_true(seen[SMALL] == 7); /* it is the run's memory */
  free(seen);
  ((float *)soma_result_data(t))[SMALL] = 0;
  soma_result_free(again);
  bed_close(&b);
  expect_y(t);
  assert_memory_equal(soma_result_data(small), x, sizeof x);
  soma_result_free(t);
  soma_result_free(small);
}

/* The run outlives its machine, and the result the run. */
static void outlives_in_any_order(void **state) {
  (void)state;
  bed b = ended(NULL);
  soma_machine_free(b.m);
  soma_result *t;
  assert_int_equal(soma_take(b.r, "y", &t), SOMA_OK);
  assert_int_equal(soma_take(b.r, "no", &t), SOMA_ARG);
  assert_int_equal(soma_take(b.r, NULL, &t), SOMA_ARG);
  assert_int_equal(soma_take(NULL, "y", &t), SOMA_ARG);
  assert_int_equal(soma_take(b.r, "y", &t), SOMA_OK);
  soma_result_free(t);
  soma_run_free(b.r);
  soma_program_free(b.p);
  expect_y(t); /* one of the two is left */
  soma_result_free(t);
  soma_result_free(NULL);
  assert_null(soma_result_data(NULL));
}

/* What can still change is copied: the run goes on where it was. */
static void copied_before_the_end(void **state) {
  (void)state;
  fill();
  bed b = bed_open(NULL, source);
  bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_SYNC, 0), SOMA_OK);
  soma_result *early = take(&b, "y");
  memset(soma_result_data(early), 0xff, soma_result_size(early));
  soma_machine_interrupt(b.m);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_STOPPED);
  soma_result *stopped = take(&b, "y");
  memset(soma_result_data(stopped), 0xff, soma_result_size(stopped));
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  soma_result *t = take(&b, "y");
  expect_y(t);
  bed_close(&b);
  soma_result_free(early);
  soma_result_free(stopped);
  soma_result_free(t);
}

/* Memory of others stays theirs: a device tensor, shared data of the host that nothing writes. */
static void copied_from_others(void **state) {
  (void)state;
  fill();
  bed b = bed_open(NULL, source);
  const int64_t shape[3] = {512, 128, 4}, small[2] = {128, 4};
  soma_tensor *y;
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 3, shape, &y), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "y", y), SOMA_OK);
  assert_int_equal(soma_bind_shared(b.m, b.p, "kept", SOMA_FLOAT32, 2, small, x), SOMA_OK);
  bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
  bed_run(&b, SOMA_OK);
  soma_result *t = take(&b, "y"), *kept = take(&b, "kept");
  expect_y(t);
  memset(soma_result_data(t), 0xff, 8);
  memset(soma_result_data(kept), 0xff, 8);
  float first;
  soma_result *again = take(&b, "y");
  expect_y(again);
  memcpy(&first, x, sizeof first);
  assert_true(first == 1);
  soma_tensor_free(y);
  bed_close(&b);
  soma_result_free(t);
  soma_result_free(again);
  soma_result_free(kept);
}

/* A freed block serves the next run: cleared, or filled with what is bound. */
static void blocks_come_back(void **state) {
  (void)state;
  bed b = ended(NULL);
  soma_result *t = take(&b, "y");
  void *data = soma_result_data(t);
  memset(data, 0xff, soma_result_size(t));
  soma_run_free(b.r);
  b.r = NULL;
  soma_result_free(t);
  for (int i = 0; i < 3; i++) {
    bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
    bed_run(&b, SOMA_OK);
    t = take(&b, "y");
    assert_ptr_equal(soma_result_data(t), data);
    expect_y(t);
    memset(data, 0xff, soma_result_size(t));
    soma_result_free(t);
    if (i == 0) soma_run_free(b.r);
    if (i == 0) b.r = NULL;
    if (i == 1) { /* an ended run that the next one replaces has its own */
      soma_run *old = b.r;
      bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
      bed_run(&b, SOMA_OK);
      t = take(&b, "y");
      assert_ptr_not_equal(soma_result_data(t), data);
      expect_y(t);
      soma_result_free(t);
      soma_run_free(b.r);
      b.r = NULL;
      soma_run_free(old); /* its block is used last */
    }
  }
  bed_close(&b);
}

/* A transfer writes and reads parts of a used block, in no order; early: also before the end. */
static const char parts[] = "        target  trn2\n"
                            "x       tensor  float32[128, 256], input\n"
                            "y       tensor  float32[1024, 256], output\n"
                            "z       tensor  float32[128, 256], output\n"
                            "s       sem\n"
                            "q       queue   rings=16, dge=hwdge\n"
                            "section sync\n"
                            "        dma_copy  y[256:384], x, queue=q  $s\n"
                            "        dma_copy  z, y[320:448], queue=q  $s>=16 $s\n"
                            "        dma_copy  y[640:768, 0:128], x[:, 0:128], queue=q  $s>=32 $s\n"
                            "        dma_copy  y[128:256], x, queue=q  $s>=48 $s\n"
                            "        dma_copy  y[890:954], x[64:128], queue=q  $s>=64 $s\n"
                            "        nop  $s>=80\n"
                            "        halt\n";

static float expected_of_parts(const float *in, int row, int col) {
  const int from = row >= 256 && row < 384   ? 256
                   : row >= 640 && row < 768 ? 640
                   : row >= 128 && row < 256 ? 128
                   : row >= 890 && row < 954 ? 890 - 64
                                             : -1;
  return from < 0 || (from == 640 && col >= 128) ? 0 : in[(row - from) * 256 + col];
}

static void used_blocks_are_zero(void **state) {
  enum { ROWS = 1024, COLS = 256 };
  static float in[128 * COLS], seen[ROWS * COLS];
  (void)state;
  for (int i = 0; i < 128 * COLS; i++) in[i] = (float)(i + 1);
  bed b = bed_open(NULL, parts);
  for (int run = 0; run < 3; run++) {
    bed_bind(&b, "x", SOMA_FLOAT32, 128, COLS, in);
    assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_OK);
    assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 0), SOMA_OK);
    if (run == 1) {
      assert_int_equal(soma_fetch(b.r, "y", seen, sizeof seen), SOMA_OK);
      for (int i = 0; i < ROWS * COLS; i++) assert_true(seen[i] == 0);
    }
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    soma_result *y = take(&b, "y"), *z = take(&b, "z");
    float *v = soma_result_data(y);
    for (int i = 0; i < ROWS * COLS; i++)
      assert_true(v[i] == expected_of_parts(in, i / COLS, i % COLS));
    for (int i = 0; i < 128 * COLS; i++)
      assert_true(((float *)soma_result_data(z))[i] == (i < 64 * COLS ? in[64 * COLS + i] : 0));
    memset(v, 0xff, soma_result_size(y));
    soma_result_free(y);
    soma_result_free(z);
    soma_run_free(b.r);
    b.r = NULL;
  }
  bed_close(&b);
}

static const char timed[] = "        target  trn2\n"
                            "x       tensor  float32[2048, 128], input\n"
                            "y       tensor  float32[2048, 128], output\n"
                            "section sync\n"
                            "        halt\n";

/* An input that is not bound, which only the clock allows, is zero, also in a used block. */
static void unbound_inputs_are_zero(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.timing_only = 1;
  bed b = bed_open(&o, timed);
  enum { N = 2048 * 128 };
  float *ones = malloc(N * sizeof *ones);
  assert_non_null(ones);
  for (int i = 0; i < N; i++) ones[i] = 1;
  for (int i = 0; i < 3; i++) {
    if (i < 2) {
      bed_bind(&b, "x", SOMA_FLOAT32, 2048, 128, ones);
      bed_bind(&b, "y", SOMA_FLOAT32, 2048, 128, ones);
    }
    bed_run(&b, SOMA_OK);
    soma_result *t[2] = {take(&b, "x"), take(&b, "y")};
    for (int k = 0; k < 2; k++) {
      const float *v = soma_result_data(t[k]);
      for (int j = 0; j < N; j++) assert_true(v[j] == (i < 2 ? 1 : 0));
      soma_result_free(t[k]);
    }
    soma_run_free(b.r);
    b.r = NULL;
  }
  free(ones);
  bed_close(&b);
}

static void saved_after_taking(void **state) {
  (void)state;
  bed b = ended(NULL);
  soma_result *t = take(&b, "y");
  void *saved;
  size_t n;
  assert_int_equal(soma_run_save(b.r, &saved, &n), SOMA_OK);
  bed_close(&b);
  memset(soma_result_data(t), 0xff, soma_result_size(t));
  bed a = {0};
  assert_int_equal(soma_machine_new(NULL, &a.m), SOMA_OK);
  assert_int_equal(soma_run_resume(a.m, saved, n, &a.p, &a.r), SOMA_OK);
  soma_result *u = take(&a, "y");
  expect_y(u);
  soma_bytes_free(saved);
  soma_result_free(t);
  bed_close(&a);
  soma_result_free(u);
}

/* ---- An allocator of the caller's ---------------------------------------------------------- */

static size_t live;

static void *counting(void *ud, void *p, size_t old, size_t n) {
  (void)ud;
  if (!p) old = 0;
  void *q = n ? realloc(p, n) : NULL;
  if (n == 0) free(p);
  if (n && !q) return NULL;
  live = live - old + n;
  return q;
}

static void given_back_to_the_allocator(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.alloc = counting;
  bed b = ended(&o);
  soma_result *t = take(&b, "y");
  bed_close(&b);
  expect_y(t);
  assert_true(live >= LARGE * 4);
  soma_result_free(t);
  assert_int_equal(live, 0);
}

static void *free_one(void *t) {
  soma_result_free(t);
  return NULL;
}

static void freed_in_another_thread(void **state) {
  (void)state;
  bed b = ended(NULL);
  for (int i = 0; i < 50; i++) {
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, free_one, take(&b, "y")), 0);
    soma_run_free(b.r);
    b.r = NULL;
    bed_bind(&b, "x", SOMA_FLOAT32, 128, 4, x);
    bed_run(&b, SOMA_OK);
    soma_result *t = take(&b, "y");
    expect_y(t);
    soma_result_free(t);
    assert_int_equal(pthread_join(th, NULL), 0);
  }
  bed_close(&b);
}

/* ---- What a pool keeps --------------------------------------------------------------------- */

static void bounded(void **state) {
  (void)state;
  enum { N = 1 << 20, BLOCKS = 20 };
  isa_alloc al = isa_alloc_default();
  vm_pool *p = vm_pool_new(&al);
  void *v[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) assert_non_null(v[i] = vm_pool_take(p, &al, N, true));
  for (int i = 0; i < BLOCKS; i++) vm_pool_give(p, &al, v[i], N);
  for (int i = BLOCKS - 1; i >= BLOCKS - 16; i--)
    assert_ptr_equal(vm_pool_take(p, &al, N, false), v[i]);
  void *other = vm_pool_take(p, &al, N, false); /* the first four have gone, so it is new: zero */
  for (int i = 0; i < N; i++) assert_int_equal(((uint8_t *)other)[i], 0);
  vm_pool_give(p, &al, other, N);
  const uint64_t large = 100 << 20; /* never touched */
  for (int i = 0; i < 3; i++) v[i] = vm_pool_take(p, &al, large, true);
  for (int i = 0; i < 3; i++) vm_pool_give(p, &al, v[i], large);
  assert_ptr_equal(vm_pool_take(p, &al, large, false), v[2]);
  assert_ptr_equal(vm_pool_take(p, &al, large, false), v[1]);
  vm_pool_give(p, &al, v[1], large);
  vm_pool_hold(p);
  vm_pool_close(p);
  vm_pool_give(p, &al, v[2], large); /* to the host: it keeps nothing more */
  for (int i = BLOCKS - 16; i < BLOCKS; i++) vm_pool_give(p, &al, v[i], N);
  vm_pool_drop(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outlives_run_and_machine), cmocka_unit_test(outlives_in_any_order),
      cmocka_unit_test(copied_before_the_end),    cmocka_unit_test(copied_from_others),
      cmocka_unit_test(blocks_come_back),         cmocka_unit_test(unbound_inputs_are_zero),
      cmocka_unit_test(saved_after_taking),       cmocka_unit_test(given_back_to_the_allocator),
      cmocka_unit_test(freed_in_another_thread),  cmocka_unit_test(bounded),
      cmocka_unit_test(used_blocks_are_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
