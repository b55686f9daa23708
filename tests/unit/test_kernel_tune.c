/* optimize = 2: what it chooses is the fastest of what it has tried, and gives the same bits. */
#include "../../vm/api/recipe.h"
#include "kernel_bed.h"

enum { COLS = 512, BLOCKS = 4, ROWS = 128 * BLOCKS };

static void double_tile(kbed *b, int engine, uint32_t to, uint32_t from) {
  kbed_scalar(b, engine, to, from, 128, COLS, KBED_MULT, 2);
}

/* One tile for all blocks of x, each loaded twice. */
static void blocks(kbed *b) {
  uint32_t x = kbed_tensor(b, "x", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
  uint32_t y = kbed_tensor(b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
  uint32_t t = kbed_tile(b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t u = kbed_tile(b, "u", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  for (int i = 0; i < 2 * BLOCKS; i++) {
    b->line = 10;
    kbed_load(b, t, x, SOMA_FLOAT32, COLS, i / 2 * 128, 128, 0, COLS);
    double_tile(b, SOMA_VECTOR, u, t);
    kbed_store(b, y, u, SOMA_FLOAT32, COLS, i / 2 * 128, 128, 0, COLS);
  }
}

/* The time of a run of what was built, and its result. */
static soma_time result_of(kbed *b, float *out) {
  static float x[ROWS * COLS];
  soma_stats s;
  for (size_t i = 0; i < ROWS * COLS; i++) x[i] = (float)(i % 61) - 30;
  kbed_bind(b, "x", SOMA_FLOAT32, ROWS, COLS, x);
  kbed_run(b);
  assert_int_equal(soma_fetch(b->r, "y", out, ROWS * COLS * sizeof *out), SOMA_OK);
  soma_run_stats(b->r, &s, sizeof s);
  return s.time;
}

static void the_fastest_is_chosen(void **state) {
  static float want[ROWS * COLS], got[ROWS * COLS];
  soma_kernel_policy p, least = {0};
  kbed b;
  uint32_t n = 0, chosen = 0;
  (void)state;
  kbed_open_at(&b, "trn2", 0, KBED_CHECKS, 0);
  blocks(&b);
  kbed_finish(&b);
  assert_int_equal(soma_kernel_get_policy(b.k, 0, &p, sizeof p), SOMA_ARG);
  soma_time slow = result_of(&b, want);
  kbed_close(&b);
  kbed_open_at(&b, "trn2", 0, KBED_CHECKS, 2);
  blocks(&b);
  kbed_finish(&b);
  for (; soma_kernel_get_policy(b.k, n, &p, sizeof p) == SOMA_OK; n++) {
    assert_int_equal(p.done, 1);
    chosen += p.chosen != 0;
    if (!n || p.time < least.time) least = p;
  }
  assert_true(n >= 6);
  assert_int_equal(chosen, 1);
  assert_int_equal(least.chosen, 1); /* the first of equals */
  assert_true(result_of(&b, got) == least.time);
  assert_true(least.time < slow);
  assert_memory_equal(want, got, sizeof want);
  kbed_close(&b);
}

static size_t bytes_of(kbed *b, void **data) {
  size_t n;
  assert_int_equal(soma_program_save(b->m, b->p, data, &n), SOMA_OK);
  return n;
}

static void the_same_kernel_gives_the_same_program(void **state) {
  void *bytes[2];
  size_t n[2];
  (void)state;
  for (int i = 0; i < 2; i++) {
    kbed b;
    kbed_open_at(&b, "trn2", SOMA_KERNEL_ADVICE, 0, 2);
    blocks(&b);
    kbed_finish(&b);
    n[i] = bytes_of(&b, &bytes[i]);
    kbed_close(&b);
  }
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(bytes[0], bytes[1], n[0]);
  for (int i = 0; i < 2; i++) soma_bytes_free(bytes[i]);
}

/* All that a kernel can be made of, with both kinds of loops: made again it is the same program. */
static void what_is_made_again_is_the_same(void **state) {
  (void)state;
  for (uint32_t optimize = 0; optimize < 3; optimize++) {
    static float data[4] = {1, 2, 3, 4};
    int64_t shape[1] = {4};
    kbed b;
    kbed_open_at(&b, "trn2", SOMA_KERNEL_COPIES, KBED_CHECKS, optimize);
    uint32_t c[2], queue, reg, loop, x, t, u;
    soma_kernel_range range = SOMA_KERNEL_RANGE_INIT;
    for (int i = 0; i < 2; i++)
      KBED_OK(&b, soma_kernel_constant(b.k, SOMA_FLOAT32, 1, shape, data, &c[i]));
    assert_int_equal(c[0], c[1]);
    x = kbed_tensor(&b, "x", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
    t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    u = kbed_tile(&b, NULL, SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    KBED_OK(&b, soma_kernel_queue(b.k, 2, SOMA_SCALAR, 0, &queue));
    kbed_begin(&b, "dma_copy", -1, 0); /* refused: the tile has no such partitions */
    kbed_ap(&b, t, SOMA_FLOAT32, 100, 128, 0, COLS);
    kbed_hbm(&b, x, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_word(&b, -1);
    kbed_zeros(&b, 3);
    assert_int_not_equal(kbed_try(&b), SOMA_OK);
    kbed_load(&b, t, x, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    KBED_OK(&b, soma_kernel_register(b.k, &reg));
    kbed_begin(&b, "mov", -1, 0);
    kbed_word(&b, reg);
    kbed_word(&b, 0);
    kbed_word(&b, 2);
    kbed_end(&b);
    range.stop = 3;
    KBED_OK(&b, soma_kernel_loop(b.k, &range, &loop));
    double_tile(&b, -1, u, t);
    double_tile(&b, -1, t, u);
    KBED_OK(&b, soma_kernel_endloop(b.k));
    KBED_OK(&b, soma_kernel_while(b.k, reg, b.file, 77));
    double_tile(&b, -1, u, t);
    kbed_begin(&b, "sub", -1, 0);
    kbed_word(&b, reg);
    kbed_word(&b, reg);
    kbed_word(&b, 0);
    kbed_word(&b, 1);
    kbed_end(&b);
    KBED_OK(&b, soma_kernel_endloop(b.k));
    double_tile(&b, -1, u, t);
    KBED_OK(&b, soma_kernel_order(b.k, 0, soma_kernel_count(b.k) - 1));
    for (int i = 0; i < BLOCKS; i++)
      kbed_store(&b, y, u, SOMA_FLOAT32, COLS, i * 128, 128, 0, COLS);
    KBED_OK(&b, soma_kernel_end(b.k, u));
    kbed_finish(&b);
    static float want[ROWS * COLS], got[ROWS * COLS];
    soma_time time = result_of(&b, got);
    if (!optimize) memcpy(want, got, sizeof want);
    assert_memory_equal(want, got, sizeof want);
    soma_kernel_policy p;
    for (uint32_t i = 0; soma_kernel_get_policy(b.k, i, &p, sizeof p) == SOMA_OK; i++) {
      assert_int_equal(p.done, 1);
      assert_true(p.time >= time);
    }
    kbed_close(&b);
  }
}

/* A kernel whose rounds depend on data does not end with zeros: it is built as by optimize = 1. */
static void what_does_not_end_is_not_tried(void **state) {
  kbed b;
  uint32_t reg, x, t;
  soma_kernel_policy p;
  (void)state;
  kbed_open_at(&b, "trn2", 0, 0, 2);
  x = kbed_tensor(&b, "x", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
  t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  KBED_OK(&b, soma_kernel_register(b.k, &reg));
  kbed_begin(&b, "mov", -1, 0);
  kbed_word(&b, reg);
  kbed_word(&b, 0);
  kbed_word(&b, 1);
  kbed_end(&b);
  kbed_memset(&b, SOMA_VECTOR, t, COLS, 0);
  KBED_OK(&b, soma_kernel_while(b.k, reg, b.file, 1));
  double_tile(&b, SOMA_VECTOR, t, t);
  KBED_OK(&b, soma_kernel_endloop(b.k));
  kbed_store(&b, x, t, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
  kbed_finish(&b);
  assert_int_equal(soma_kernel_get_policy(b.k, 0, &p, sizeof p), SOMA_OK);
  assert_int_equal(p.done, 0);
  assert_int_equal(p.chosen, 1);
  assert_int_equal(soma_kernel_get_policy(b.k, 1, &p, sizeof p), SOMA_ARG);
  kbed_close(&b);
}

static void more_than_100000_instructions_are_not_tried(void **state) {
  (void)state;
  for (int more = 0; more < 2; more++) {
    kbed b;
    soma_kernel_policy p;
    kbed_open_at(&b, "trn2", 0, 0, 2);
    uint32_t y = kbed_tensor(&b, "y", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
    uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    for (int i = 0; i < 99999 + more; i++) kbed_memset(&b, SOMA_VECTOR, t, COLS, 0);
    kbed_store(&b, y, t, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_finish(&b);
    assert_int_equal(soma_kernel_get_policy(b.k, 0, &p, sizeof p), more ? SOMA_ARG : SOMA_OK);
    kbed_close(&b);
  }
}

static void both_cores_are_tried_together(void **state) {
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  soma_kernel *k[2];
  kbed b;
  soma_kernel_policy p;
  static float want[ROWS * COLS], got[ROWS * COLS];
  (void)state;
  kbed_open_at(&b, "trn2", 0, 0, 0);
  blocks(&b);
  kbed_finish(&b);
  result_of(&b, want);
  soma_run_free(b.r);
  soma_program_free(b.p);
  soma_kernel_free(b.k);
  o.cores = 2;
  o.optimize = 2;
  for (int core = 0; core < 2; core++) {
    o.core = (uint32_t)core;
    assert_int_equal(soma_kernel_new(b.m, &o, &k[core]), SOMA_OK);
    b.k = k[core];
    KBED_OK(&b, soma_kernel_file(b.k, "kernel.py", &b.file));
    uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, ROWS, COLS, SOMA_INPUT);
    uint32_t y = kbed_tensor(&b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
    uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
    for (int i = core; i < BLOCKS; i += 2) {
      kbed_load(&b, t, x, SOMA_FLOAT32, COLS, i * 128, 128, 0, COLS);
      double_tile(&b, -1, t, t);
      kbed_store(&b, y, t, SOMA_FLOAT32, COLS, i * 128, 128, 0, COLS);
    }
  }
  b.k = k[0];
  b.r = NULL;
  KBED_OK(&b, soma_kernel_finish_pair(k[0], k[1], &b.p, NULL));
  assert_int_equal(soma_kernel_get_policy(k[0], 5, &p, sizeof p), SOMA_OK);
  soma_time time = result_of(&b, got);
  for (uint32_t i = 0; soma_kernel_get_policy(k[0], i, &p, sizeof p) == SOMA_OK; i++)
    assert_true(p.chosen ? p.time == time : p.time >= time);
  assert_memory_equal(want, got, sizeof want);
  soma_kernel_free(k[1]);
  kbed_close(&b);
}

static uint32_t any(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Records of a few places, of 6 to 129 words, some of which differ from those of the round before. */
static size_t some_record(uint32_t *seed, int64_t words[129]) {
  static const unsigned lengths[] = {6, 7, 40, 63, 64, 65, 127, 128, 100, 129};
  unsigned line = any(seed) % 80;
  size_t n = lengths[line % 10];
  for (size_t i = 0; i < n; i++) words[i] = (int64_t)(i * 31 + line);
  words[AS_REC_WORDS] = (int64_t)n;
  words[AS_REC_OP] = line % 3;
  words[AS_REC_LINE] = line;
  for (unsigned changes = any(seed) % 12; changes; changes--)
    words[6 + any(seed) % (n - 5)] = (int64_t)any(seed) << 20;
  return n;
}

static void packed_records_are_what_they_were(void **state) {
  as_kernel_options o = {.target = &isa_targets[0]};
  isa_alloc al = isa_alloc_default();
  vm_costs costs;
  soma_entry a, b;
  (void)state;
  vm_costs_default(&costs);
  for (uint32_t round = 1; round <= 20; round++) {
    soma_recipe *r[] = {soma_recipe_new(&al, &o, &costs), soma_recipe_new(&al, &o, &costs)};
    uint32_t seed = round, n = 0;
    int64_t words[130];
    r[0]->packed = r[0]->keeps = r[1]->keeps = true;
    for (uint32_t i = 0; i < 500; i++) {
      size_t length = some_record(&seed, words);
      for (int k = 0; k < 2; k++) {
        if (i % 9 == 0) soma_recipe_numbers(r[k], SOMA_RECIPE_ORDER, i, i + 1, 0);
        soma_recipe_records(r[k], true, words, length, i);
      }
    }
    assert_true(r[0]->nunits < r[1]->nunits / 4 * 3);
    assert_true(soma_recipe_unpack(r[0]));
    for (; soma_recipe_at(r[0], n, &a); n = a.next) {
      assert_true(soma_recipe_at(r[1], n, &b));
      assert_int_equal(a.kind, b.kind);
      assert_int_equal(a.n, b.n);
      assert_memory_equal(a.words, b.words, a.n * sizeof *a.words);
    }
    assert_false(soma_recipe_at(r[1], n, &b));
    for (int k = 0; k < 2; k++) soma_recipe_free(r[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_fastest_is_chosen),
                                     cmocka_unit_test(the_same_kernel_gives_the_same_program),
                                     cmocka_unit_test(what_is_made_again_is_the_same),
                                     cmocka_unit_test(what_does_not_end_is_not_tried),
                                     cmocka_unit_test(more_than_100000_instructions_are_not_tried),
                                     cmocka_unit_test(packed_records_are_what_they_were),
                                     cmocka_unit_test(both_cores_are_tried_together)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
