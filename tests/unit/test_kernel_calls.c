/* The builder: errors at the call, loops at run time, orders, fixed places, accumulation, and the
 * waits that it puts in. */
#include "kernel_bed.h"

enum { COLS = 64 };

static void expect(kbed *b, soma_status s, const char *part) {
  if (!strstr(soma_kernel_error(b->k), part))
    fail_msg("expected \"%s\" in: %s", part, soma_kernel_error(b->k));
  assert_int_not_equal(s, SOMA_OK);
}

static void copy_record(kbed *b, uint32_t dst, uint32_t src, unsigned parts, int64_t cols) {
  kbed_begin(b, "tensor_copy", -1, 0);
  kbed_ap(b, dst, SOMA_FLOAT32, 0, parts, 0, cols);
  kbed_ap(b, src, SOMA_FLOAT32, 0, parts, 0, cols);
  kbed_word(b, 0);
}

static void fill(kbed *b, uint32_t tile, unsigned parts, int64_t col, int64_t cols, float x) {
  kbed_begin(b, "memset", -1, 0);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, parts, col, cols);
  kbed_word(b, 1);
  kbed_word(b, kbed_bits(x));
  kbed_end(b);
}

/* ---- Errors -------------------------------------------------------------------------------- */

static void an_illegal_instruction_is_refused_at_the_call(void **state) {
  kbed b;
  const char *file;
  uint32_t line;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  uint32_t s = kbed_tile(&b, "x", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t p = kbed_tile(&b, "sum", SOMA_PSUM, SOMA_FLOAT32, 128, COLS);
  uint32_t t = kbed_tile(&b, "y", SOMA_SBUF, SOMA_FLOAT32, 64, COLS);
  copy_record(&b, t, s, 128, COLS);
  expect(&b, kbed_try(&b), "kernel.py:1: tensor_copy dst: partitions 0..127: tile y has 0..63");
  soma_kernel_error_place(b.k, &file, &line);
  assert_string_equal(file, "kernel.py");
  assert_int_equal(line, 1);
  copy_record(&b, s, s, 128, COLS + 1);
  expect(&b, kbed_try(&b), "bytes 0..259: tile x has 0..255");
  kbed_begin(&b, "tensor_copy", SOMA_TENSOR, 0);
  kbed_ap(&b, s, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(&b, s, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_word(&b, 0);
  expect(&b, kbed_try(&b), "not an instruction of the tensor engine");
  kbed_begin(&b, "tensor_tensor", -1, 0);
  kbed_ap(&b, s, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(&b, p, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(&b, p, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_zeros(&b, 1);
  b.w[b.n - 1] = 2;
  kbed_word(&b, 0);
  expect(&b, kbed_try(&b), "both in psum");
  assert_int_equal(soma_kernel_count(b.k), 0);
  kbed_close(&b);
}

static void a_broken_record_is_refused(void **state) {
  kbed b;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  uint32_t s = kbed_tile(&b, "x", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  int64_t few[] = {6, 1};
  expect(&b, soma_kernel_emit(b.k, few, 2, NULL), "its header has 6");
  copy_record(&b, s, 77, 128, COLS);
  expect(&b, kbed_try(&b), "no buffer of that number (77)");
  copy_record(&b, s, s, 128, COLS);
  b.n -= 3;
  expect(&b, kbed_try(&b), "tensor_copy src");
  copy_record(&b, s, s, 128, COLS);
  kbed_word(&b, 5);
  expect(&b, kbed_try(&b), "words after the last field");
  kbed_begin(&b, "halt", -1, 0);
  expect(&b, kbed_try(&b), "halt is made by the builder");
  kbed_begin(&b, "wait_start", -1, 0);
  expect(&b, kbed_try(&b), "wait_start is for CC sequencers alone");
  kbed_begin(&b, "mov", -1, 0);
  kbed_word(&b, 1);
  kbed_zeros(&b, 2);
  expect(&b, kbed_try(&b), "no register of that number");
  kbed_close(&b);
}

static soma_status load_row(kbed *b, uint32_t tile, uint32_t tensor, int64_t row) {
  kbed_begin(b, "dma_copy", -1, 0);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_hbm(b, tensor, SOMA_FLOAT32, COLS, row, 128, 0, COLS);
  kbed_word(b, -1);
  kbed_zeros(b, 3);
  return kbed_try(b);
}

/* What the verifier found of one record is taken for others that are alike. */
static void of_alike_records_the_bad_ones_are_refused(void **state) {
  kbed b;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  uint32_t x = kbed_tensor(&b, "x", SOMA_FLOAT32, 512, COLS, SOMA_INPUT);
  uint32_t y = kbed_tensor(&b, "y", SOMA_FLOAT32, 384, COLS, SOMA_INPUT);
  uint32_t s = kbed_tile(&b, "s", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t narrow = kbed_tile(&b, "narrow", SOMA_SBUF, SOMA_FLOAT32, 128, COLS - 1);
  for (int64_t row = 0; row <= 384; row += 64) KBED_OK(&b, load_row(&b, row % 128 ? s : t, x, row));
  expect(&b, load_row(&b, s, x, 385), "tensor x has 0..131071");
  expect(&b, load_row(&b, s, x, -1), "tensor x has 0..131071");
  KBED_OK(&b, load_row(&b, s, y, 256));
  expect(&b, load_row(&b, s, y, 384), "tensor y has");
  expect(&b, load_row(&b, narrow, x, 0), "tile narrow has");
  for (int64_t to = 256; to >= 0; to -= 64) { /* rows of one tensor: apart, then over each other */
    kbed_begin(&b, "dma_copy", -1, 0);
    kbed_hbm(&b, x, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
    kbed_hbm(&b, x, SOMA_FLOAT32, COLS, to, 128, 0, COLS);
    kbed_word(&b, -1);
    kbed_zeros(&b, 3);
    if (to == 64)
      expect(&b, kbed_try(&b), "overlaps src");
    else
      kbed_end(&b);
  }
  for (int64_t from = COLS / 2; from >= 0; from -= COLS / 4) { /* the same of a tile */
    kbed_begin(&b, "tensor_copy", -1, 0);
    kbed_ap(&b, s, SOMA_FLOAT32, 0, 128, 0, COLS / 2);
    kbed_ap(&b, from % (COLS / 2) ? s : t, SOMA_FLOAT32, 0, 128, from, COLS / 2);
    kbed_word(&b, 0);
    if (from % (COLS / 2))
      expect(&b, kbed_try(&b), "overlaps src");
    else
      kbed_end(&b);
  }
  kbed_close(&b);
}

/* They are alike from the second one on, and the kernel has no operand yet. */
static void records_without_operands_are_taken(void **state) {
  kbed b;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  for (unsigned i = 0; i < 4; i++) {
    kbed_begin(&b, "notify", SOMA_VECTOR, 0);
    kbed_zeros(&b, 2);
    kbed_end(&b);
  }
  kbed_close(&b);
}

static void all_records_of_a_call_are_taken_or_none(void **state) {
  kbed b;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  uint32_t s = kbed_tile(&b, "x", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  kbed_begin(&b, "memset", -1, 0);
  kbed_ap(&b, s, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_zeros(&b, 1);
  b.w[b.n - 1] = 1;
  kbed_zeros(&b, 1);
  b.w[0] = (int64_t)b.n;
  size_t n = b.n;
  memcpy(b.w + n, b.w, n * sizeof *b.w);
  b.w[n + 2] = 9; /* no such engine */
  expect(&b, soma_kernel_emit(b.k, b.w, 2 * n, NULL), "no engine has this number");
  assert_int_equal(soma_kernel_count(b.k), 0);
  assert_int_equal(soma_kernel_emit(b.k, b.w, n, NULL), SOMA_OK);
  assert_int_equal(soma_kernel_count(b.k), 1);
  kbed_close(&b);
}

static void a_read_of_what_nobody_wrote_names_both_lines(void **state) {
  kbed b;
  soma_diagnostics *d = NULL;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  uint32_t s = kbed_tile(&b, "x", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t t = kbed_tile(&b, "y", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  fill(&b, s, 128, 0, COLS - 1, 1);
  copy_record(&b, t, s, 128, COLS);
  kbed_end(&b);
  uint32_t v = kbed_tile(&b, "z", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  copy_record(&b, t, v, 128, COLS);
  kbed_end(&b);
  copy_record(&b, t, v, 128, COLS); /* the same tile: not again */
  kbed_end(&b);
  char want[200];
  snprintf(want, sizeof want,
           "kernel.py:2: tensor_copy src: reads byte %d of partition 0 of tile x (element [0, "
           "%d]), which nothing has written before; other bytes of it are written at kernel.py:1",
           4 * (COLS - 1), COLS - 1);
  expect(&b, soma_kernel_finish(b.k, &b.p, &d), want);
  assert_null(b.p);
  soma_kernel_unwritten u;
  assert_int_equal(soma_kernel_get_unwritten(b.k, 0, &u), SOMA_OK);
  assert_true(u.buffer == s && u.line == 2 && strstr(want, u.text));
  assert_int_equal(soma_kernel_get_unwritten(b.k, 1, &u), SOMA_OK);
  assert_true(u.buffer == v && u.line == 3 &&
              strstr(u.text, "reads byte 0 of partition 0 of tile z (element [0, 0])"));
  assert_int_equal(soma_kernel_get_unwritten(b.k, 2, &u), SOMA_ARG);
  assert_int_equal(soma_diagnostics_errors(d), 1);
  soma_diagnostics_free(d);
  kbed_close(&b);
}

static void memory_that_overflows_shows_what_lives(void **state) {
  kbed b;
  uint32_t t[8];
  (void)state;
  kbed_open_at(&b, "trn2", 0, 0, 0);
  for (unsigned i = 0; i < 8; i++) {
    b.line = 100 + i;
    t[i] = kbed_tile(&b, "big", SOMA_SBUF, SOMA_FLOAT32, 128, 8192);
    fill(&b, t[i], 128, 0, 8192, 1);
  }
  for (unsigned i = 0; i < 8; i++) {
    copy_record(&b, t[i], t[(i + 1) % 8], 128, 8192);
    kbed_end(&b);
  }
  expect(&b, soma_kernel_finish(b.k, &b.p, NULL),
         "kernel.py:107: tile big of 32768 bytes in each partition does not fit in sbuf: of 229376 "
         "bytes 229376 are taken by 7 tiles");
  assert_non_null(strstr(soma_kernel_error(b.k), "big: 32768 bytes at 0, from kernel.py:100"));
  kbed_close(&b);
}

/* A small tile that comes after a large one would lie in the middle, and leave no room for one of
 * three quarters of SBUF: large ones lie above it then. */
static void small_tiles_leave_room_for_large_ones(void **state) {
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  kbed b;
  soma_kernel_life life;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  soma_kernel_free(b.k);
  o.sbuf_bytes = 4096;
  assert_int_equal(soma_kernel_new(b.m, &o, &b.k), SOMA_OK);
  KBED_OK(&b, soma_kernel_file(b.k, "kernel.py", &b.file));
  uint32_t y = kbed_tensor(&b, "y", SOMA_FLOAT32, 128, 32, SOMA_OUTPUT);
  uint32_t large = kbed_tile(&b, "large", SOMA_SBUF, SOMA_FLOAT32, 128, 256);
  uint32_t small = kbed_tile(&b, "small", SOMA_SBUF, SOMA_FLOAT32, 128, 32);
  uint32_t larger = kbed_tile(&b, "larger", SOMA_SBUF, SOMA_FLOAT32, 128, 768);
  kbed_memset(&b, SOMA_VECTOR, large, 256, 1);
  kbed_scalar(&b, SOMA_VECTOR, small, large, 128, 32, KBED_MULT, 2);
  kbed_memset(&b, SOMA_VECTOR, larger, 768, 3);
  kbed_scalar(&b, SOMA_VECTOR, larger, larger, 128, 768, KBED_MULT, 2);
  kbed_begin(&b, "tensor_tensor", SOMA_VECTOR, 0);
  kbed_ap(&b, small, SOMA_FLOAT32, 0, 128, 0, 32);
  kbed_ap(&b, small, SOMA_FLOAT32, 0, 128, 0, 32);
  kbed_ap(&b, larger, SOMA_FLOAT32, 0, 128, 736, 32);
  kbed_word(&b, KBED_ADD);
  kbed_zeros(&b, 1);
  kbed_end(&b);
  kbed_store(&b, y, small, SOMA_FLOAT32, 32, 0, 128, 0, 32);
  kbed_finish(&b);
  KBED_OK(&b, soma_kernel_get_life(b.k, larger, &life));
  assert_int_equal(life.offset, 1024);
  KBED_OK(&b, soma_kernel_get_life(b.k, small, &life));
  assert_true(life.offset + 128 <= 1024);
  kbed_close(&b);
}

/* ---- Loops --------------------------------------------------------------------------------- */

static uint32_t input(kbed *b, const char *name, int64_t rows) {
  return kbed_tensor(b, name, SOMA_FLOAT32, rows, COLS, SOMA_INPUT);
}

/* An operand of 128 rows of a tensor from register * 128 on. */
static void rows_by(kbed *b, uint32_t tensor, uint32_t reg) {
  int64_t w[] = {13, tensor, SOMA_FLOAT32,      0,   0,   0, 2, COLS, 128,
                 1,  COLS,   SOMA_DYN_REGISTER, reg, COLS};
  for (size_t i = 0; i < sizeof w / sizeof *w; i++) kbed_word(b, w[i]);
}

static uint32_t rows_loop(kbed *b, int64_t rows) {
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t reg = 0;
  r.stop = (int32_t)rows;
  r.step = 128;
  r.file = b->file;
  r.line = ++b->line;
  KBED_OK(b, soma_kernel_loop(b->k, &r, &reg));
  return reg;
}

static void body(kbed *b, uint32_t x, uint32_t y, uint32_t u, uint32_t v, uint32_t reg) {
  kbed_begin(b, "dma_copy", -1, 0);
  kbed_ap(b, u, SOMA_FLOAT32, 0, 128, 0, COLS);
  rows_by(b, x, reg);
  kbed_word(b, -1);
  kbed_zeros(b, 3);
  kbed_end(b);
  kbed_begin(b, "activate", -1, 0);
  kbed_ap(b, v, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(b, u, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_word(b, 1); /* square */
  kbed_zeros(b, 4);
  kbed_end(b);
  kbed_begin(b, "dma_copy", -1, 0);
  rows_by(b, y, reg);
  kbed_ap(b, v, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_word(b, -1);
  kbed_zeros(b, 3);
  kbed_end(b);
}

static void a_loop_at_run_time(const char *target) {
  enum { ROWS = 2048, N = ROWS * COLS };
  kbed b;
  static float x[N], y[N];
  for (size_t i = 0; i < N; i++) x[i] = (float)(i % 17);
  kbed_open(&b, target, 0, KBED_CHECKS);
  uint32_t tx = input(&b, "x", ROWS);
  uint32_t ty = kbed_tensor(&b, "y", SOMA_FLOAT32, ROWS, COLS, SOMA_OUTPUT);
  uint32_t u = kbed_tile(&b, "u", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t v = kbed_tile(&b, "v", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t reg = rows_loop(&b, ROWS);
  body(&b, tx, ty, u, v, reg);
  KBED_OK(&b, soma_kernel_endloop(b.k));
  kbed_finish(&b);
  kbed_bind(&b, "x", SOMA_FLOAT32, ROWS, COLS, x);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "y", y, sizeof y), SOMA_OK);
  for (size_t i = 0; i < N; i++) assert_true(y[i] == x[i] * x[i]);
  kbed_close(&b);
}

static void loops_run_on_every_target(void **state) {
  (void)state;
  a_loop_at_run_time("trn1");
  a_loop_at_run_time("trn2");
  a_loop_at_run_time("trn3");
}

/* while (n != 0) { y += 1; n = n - 1; } where n comes from memory. */
static void a_while_counts_down_what_memory_holds(void **state) {
  kbed b;
  uint32_t n;
  int32_t x[1] = {5};
  float y[COLS];
  int64_t one[2] = {1, 1};
  (void)state;
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  uint32_t tx = kbed_tensor(&b, "n", SOMA_INT32, 1, 1, SOMA_INPUT);
  uint32_t ty = kbed_tensor(&b, "y", SOMA_FLOAT32, 1, COLS, SOMA_OUTPUT);
  uint32_t t = kbed_tile(&b, "count", SOMA_SBUF, SOMA_INT32, 1, 1);
  uint32_t v = kbed_tile(&b, "v", SOMA_SBUF, SOMA_FLOAT32, 1, COLS);
  kbed_load(&b, t, tx, SOMA_INT32, 1, 0, 1, 0, 1);
  fill(&b, v, 1, 0, COLS, 0);
  KBED_OK(&b, soma_kernel_register(b.k, &n));
  kbed_begin(&b, "tensor_load", -1, 0);
  kbed_word(&b, n);
  kbed_ap(&b, t, SOMA_INT32, 0, 1, 0, 1);
  kbed_end(&b);
  KBED_OK(&b, soma_kernel_while(b.k, n, b.file, b.line));
  kbed_scalar(&b, -1, v, v, 1, COLS, KBED_ADD, 1);
  kbed_begin(&b, "sub", -1, 0);
  kbed_word(&b, n);
  kbed_word(&b, n);
  kbed_word(&b, 0);
  kbed_word(&b, 1);
  kbed_end(&b);
  KBED_OK(&b, soma_kernel_endloop(b.k));
  kbed_store(&b, ty, v, SOMA_FLOAT32, COLS, 0, 1, 0, COLS);
  kbed_finish(&b);
  assert_int_equal(soma_bind(b.m, b.p, "n", SOMA_INT32, 2, one, x), SOMA_OK);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "y", y, sizeof y), SOMA_OK);
  for (size_t i = 0; i < COLS; i++) assert_true(y[i] == 5);
  kbed_close(&b);
}

/* ---- Placement and order ------------------------------------------------------------------- */

static void fixed_places_are_kept_and_others_avoid_them(void **state) {
  kbed b;
  soma_kernel_life life, other;
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  uint32_t fixed = 0, t;
  (void)state;
  kbed_open(&b, "trn2", 0, 0);
  i.shape[0] = 128;
  i.shape[1] = COLS;
  i.offset = 512;
  i.name = "here!";
  assert_int_equal(soma_kernel_tile(b.k, &i, &fixed), SOMA_OK);
  t = kbed_tile(&b, "there", SOMA_SBUF, SOMA_FLOAT32, 128, 200);
  fill(&b, t, 128, 0, 200, 1);
  fill(&b, fixed, 128, 0, COLS, 1);
  copy_record(&b, fixed, t, 128, COLS);
  kbed_end(&b);
  kbed_finish(&b);
  assert_int_equal(soma_kernel_get_life(b.k, fixed, &life), SOMA_OK);
  assert_int_equal(soma_kernel_get_life(b.k, t, &other), SOMA_OK);
  assert_int_equal(life.offset, 512);
  assert_string_equal(life.name, "here_");
  assert_int_equal(life.first, 1);
  assert_int_equal(life.last, 2);
  assert_true(other.offset >= 512 + 256 || other.offset + other.bytes <= 512);
  kbed_close(&b);
}

static void an_order_becomes_a_wait(void **state) {
  kbed b;
  soma_kernel_wait w;
  soma_kernel_figures f;
  (void)state;
  kbed_open(&b, "trn2", SOMA_KERNEL_FIXED_ENGINES, 0);
  uint32_t t = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, COLS);
  uint32_t u = kbed_tile(&b, "u", SOMA_SBUF, SOMA_INT32, 128, COLS);
  fill(&b, t, 128, 0, COLS, 1);
  kbed_begin(&b, "iota", -1, 0);
  kbed_ap(&b, u, SOMA_INT32, 0, 128, 0, COLS);
  kbed_word(&b, 1);
  kbed_word(&b, 1);
  kbed_word(&b, COLS);
  kbed_zeros(&b, 3);
  kbed_end(&b);
  assert_int_equal(soma_kernel_order(b.k, 1, 0), SOMA_ARG);
  assert_int_equal(soma_kernel_order(b.k, 0, 1), SOMA_OK);
  kbed_finish(&b);
  soma_kernel_get_figures(b.k, &f, sizeof f);
  assert_int_equal(f.waits, 1);
  assert_int_equal(soma_kernel_get_wait(b.k, 0, &w), SOMA_OK);
  assert_int_equal(w.engine, SOMA_GPSIMD);
  assert_int_equal(w.earlier, 0);
  assert_int_equal(w.later, 1);
  assert_int_equal(soma_kernel_get_wait(b.k, 1, &w), SOMA_ARG);
  kbed_close(&b);
}

/* ---- Spilling ------------------------------------------------------------------------------ */

/* Ten tiles of 32 KiB per partition, of which seven fit: each is loaded, used twice, written
 * between, and stored at the end. */
static void what_does_not_fit_is_spilled(void **state) {
  enum { TILES = 10, WIDE = 8192, ROWS = TILES * 128 };
  kbed b;
  soma_kernel_figures f;
  uint32_t t[TILES];
  (void)state;
  float *x = malloc(sizeof *x * ROWS * WIDE), *y = malloc(sizeof *y * ROWS * WIDE);
  assert_true(x && y);
  for (size_t i = 0; i < (size_t)ROWS * WIDE; i++) x[i] = (float)(i % 1013);
  kbed_open(&b, "trn2", 0, KBED_CHECKS);
  KBED_OK(&b, soma_kernel_may_spill(b.k)); /* as a caller that learns late that it may */
  uint32_t tx = kbed_tensor(&b, "x", SOMA_FLOAT32, ROWS, WIDE, SOMA_INPUT);
  uint32_t ty = kbed_tensor(&b, "y", SOMA_FLOAT32, ROWS, WIDE, SOMA_OUTPUT);
  for (unsigned i = 0; i < TILES; i++) {
    t[i] = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, WIDE);
    kbed_load(&b, t[i], tx, SOMA_FLOAT32, WIDE, 128 * i, 128, 0, WIDE);
  }
  for (unsigned round = 0; round < 2; round++)
    for (unsigned i = 0; i < TILES; i += 1 + round)
      kbed_scalar(&b, -1, t[i], t[i], 128, WIDE, KBED_ADD, 1);
  for (unsigned i = 0; i < TILES; i++)
    kbed_store(&b, ty, t[i], SOMA_FLOAT32, WIDE, 128 * i, 128, 0, WIDE);
  kbed_finish(&b);
  soma_kernel_get_figures(b.k, &f, sizeof f);
  assert_in_range(f.spills, 6, 40);
  assert_true(f.spilled_bytes == f.spills * 128 * WIDE * sizeof *x);
  kbed_bind(&b, "x", SOMA_FLOAT32, ROWS, WIDE, x);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "y", y, sizeof *y * ROWS * WIDE), SOMA_OK);
  for (size_t i = 0; i < (size_t)ROWS * WIDE; i++)
    assert_true(y[i] == x[i] + ((i / WIDE / 128) % 2 ? 1 : 2));
  kbed_close(&b);
  free(x);
  free(y);
}

/* The engine that brings the tile back has nothing else to do, and meets the others all the same.
 */
static void what_a_loop_needs_comes_back_before_it(void **state) {
  enum { TILES = 8, WIDE = 8192 };
  kbed b;
  soma_kernel_figures f;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t t[TILES], i;
  float *y = malloc(sizeof *y * 128 * WIDE);
  (void)state;
  assert_non_null(y);
  kbed_open_at(&b, "trn2", SOMA_KERNEL_SPILL, KBED_CHECKS, 0);
  uint32_t ty = kbed_tensor(&b, "y", SOMA_FLOAT32, 128, WIDE, SOMA_OUTPUT);
  for (unsigned n = 0; n < TILES; n++) {
    t[n] = kbed_tile(&b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, WIDE);
    fill(&b, t[n], 128, 0, WIDE, (float)n);
  }
  for (unsigned n = 1; n < TILES; n++) kbed_scalar(&b, -1, t[n], t[n], 128, WIDE, KBED_ADD, 1);
  r.stop = 3;
  KBED_OK(&b, soma_kernel_loop(b.k, &r, &i));
  kbed_scalar(&b, -1, t[0], t[0], 128, WIDE, KBED_ADD, 1);
  KBED_OK(&b, soma_kernel_endloop(b.k));
  kbed_store(&b, ty, t[0], SOMA_FLOAT32, WIDE, 0, 128, 0, WIDE);
  kbed_finish(&b);
  soma_kernel_get_figures(b.k, &f, sizeof f);
  assert_in_range(f.spills, 2, 4);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "y", y, sizeof *y * 128 * WIDE), SOMA_OK);
  for (size_t at = 0; at < (size_t)128 * WIDE; at++) assert_true(y[at] == 3);
  kbed_close(&b);
  free(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_illegal_instruction_is_refused_at_the_call),
      cmocka_unit_test(a_broken_record_is_refused),
      cmocka_unit_test(of_alike_records_the_bad_ones_are_refused),
      cmocka_unit_test(records_without_operands_are_taken),
      cmocka_unit_test(all_records_of_a_call_are_taken_or_none),
      cmocka_unit_test(a_read_of_what_nobody_wrote_names_both_lines),
      cmocka_unit_test(memory_that_overflows_shows_what_lives),
      cmocka_unit_test(small_tiles_leave_room_for_large_ones),
      cmocka_unit_test(loops_run_on_every_target),
      cmocka_unit_test(a_while_counts_down_what_memory_holds),
      cmocka_unit_test(fixed_places_are_kept_and_others_avoid_them),
      cmocka_unit_test(an_order_becomes_a_wait),
      cmocka_unit_test(what_does_not_fit_is_spilled),
      cmocka_unit_test(what_a_loop_needs_comes_back_before_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
