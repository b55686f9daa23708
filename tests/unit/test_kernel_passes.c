/* What the builder leaves out and renames, and where it must not. Each case is run, with the
 * checks, beside the same list with all that is in it. */
#include "kernel_bed.h"

enum { COLS = 64, WIDE = 128 * COLS };

typedef struct list {
  kbed b;
  uint32_t x, y, z, out; /* an input, a temporary, outputs */
} list;

static uint32_t tile(list *l, const char *name, soma_memory m) {
  return kbed_tile(&l->b, name, m, SOMA_FLOAT32, 128, COLS);
}
static void load(list *l, uint32_t to, uint32_t from) {
  kbed_load(&l->b, to, from, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
}
static void store(list *l, uint32_t to, uint32_t from) {
  kbed_store(&l->b, to, from, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
}
static void set(list *l, uint32_t t, int64_t cols, float value) {
  kbed_memset(&l->b, SOMA_VECTOR, t, cols, value);
}
/* to = from * 2, or of the first columns; `add`: to += from */
static void twice(list *l, uint32_t to, uint32_t from, int64_t cols, int add) {
  kbed_begin(&l->b, add ? "tensor_tensor" : "tensor_scalar", SOMA_VECTOR, 0);
  kbed_ap(&l->b, to, SOMA_FLOAT32, 0, 128, 0, cols);
  if (add) kbed_ap(&l->b, to, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(&l->b, from, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(&l->b, add ? 2 : 4); /* add, mult */
  if (!add) kbed_word(&l->b, 1);
  if (!add) kbed_word(&l->b, kbed_bits(2));
  kbed_zeros(&l->b, add ? 1 : 5);
  kbed_end(&l->b);
}

static void versions(list *l, int variant) { /* 1: a part; 2: it is read; 3: in a loop */
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t t = tile(l, "t", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF), reg;
  load(l, t, l->x);
  twice(l, s, t, COLS, 0);
  r.stop = 2;
  if (variant == 3) KBED_OK(&l->b, soma_kernel_loop(l->b.k, &r, &reg));
  if (variant == 2)
    twice(l, t, t, COLS, 1);
  else
    twice(l, t, s, variant == 1 ? COLS / 2 : COLS, 0);
  twice(l, s, t, COLS, 1);
  if (variant == 3) KBED_OK(&l->b, soma_kernel_endloop(l->b.k));
  store(l, l->out, s);
}

/* 1: the rows are written between; 2: the first tile is; 3: the second one is afterwards; 4: the
 * caller orders the two */
static void loads(list *l, int variant) {
  uint32_t a = tile(l, "a", SOMA_SBUF), c = tile(l, "c", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  set(l, s, COLS, 3);
  store(l, l->z, s);
  load(l, a, l->z);
  twice(l, s, a, COLS, 1);
  if (variant == 1) store(l, l->z, s);
  if (variant == 2) twice(l, a, s, COLS / 2, 0);
  load(l, c, l->z);
  uint32_t last = soma_kernel_count(l->b.k) - 1;
  if (variant == 4) KBED_OK(&l->b, soma_kernel_order(l->b.k, last - 2, last));
  if (variant == 3) twice(l, c, s, COLS / 2, 0);
  twice(l, s, a, COLS, 1);
  twice(l, s, c, COLS, 1);
  store(l, l->out, s);
}

static uint32_t fixed_tile(list *l, int32_t offset) {
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  uint32_t id;
  i.name = "fixed";
  i.shape[0] = 128;
  i.shape[1] = COLS;
  i.offset = offset;
  KBED_OK(&l->b, soma_kernel_tile(l->b.k, &i, &id));
  return id;
}

/* 1: the source is written between, in part; 2: so it is through a tile that shares its bytes */
static void values(list *l, int variant) {
  uint32_t s = tile(l, "s", SOMA_SBUF);
  uint32_t t = variant == 2 ? fixed_tile(l, 131072) : tile(l, "t", SOMA_SBUF);
  uint32_t over = variant == 2 ? fixed_tile(l, 131072 + 128) : 0;
  load(l, t, l->x);
  load(l, s, l->x);
  for (int i = 0; i < 2; i++) {
    uint32_t u = tile(l, "u", SOMA_SBUF);
    if (variant == 1 && i) set(l, t, 1, 9);
    if (variant == 2 && i) set(l, over, COLS, 9);
    twice(l, u, t, COLS, 0);
    twice(l, s, u, COLS, 1);
  }
  store(l, l->out, s);
}

static void copy(list *l, uint32_t to, uint32_t from, int64_t cols) {
  kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
  kbed_ap(&l->b, to, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_ap(&l->b, from, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(&l->b, 0);
  kbed_end(&l->b);
}

/* A copy of a tile. 1: the tile changes while its copy is used; 2: by the last that uses it; 3: the
 * copy changes; 4: it is of a part; 5: in PSUM; 6: the caller orders it; 7: in a loop; 8: of a tile
 * that shares bytes; 9: the tile changes later on. 10: of a copy whose tile changes later on. */
static void copies(list *l, int variant) {
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t a = variant == 8 ? fixed_tile(l, 131072) : tile(l, "a", SOMA_SBUF), reg;
  uint32_t over = variant == 8 ? fixed_tile(l, 131072 + COLS) : 0;
  uint32_t c = tile(l, "c", variant == 5 ? SOMA_PSUM : SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  uint32_t d = variant == 10 ? tile(l, "d", SOMA_SBUF) : 0;
  r.stop = 2;
  load(l, a, l->x);
  twice(l, s, a, COLS, 0);
  if (variant == 9) twice(l, a, s, COLS / 2, 1);
  if (variant == 4) set(l, c, COLS, 3);
  if (variant == 7) KBED_OK(&l->b, soma_kernel_loop(l->b.k, &r, &reg));
  copy(l, c, a, variant == 4 ? COLS / 2 : COLS);
  if (variant == 7) KBED_OK(&l->b, soma_kernel_endloop(l->b.k));
  if (variant == 1) twice(l, a, s, COLS / 2, 0);
  if (variant == 3) twice(l, c, s, COLS / 2, 0);
  if (variant == 6) KBED_OK(&l->b, soma_kernel_order(l->b.k, 1, 2));
  if (variant == 8) set(l, over, COLS, 5);
  twice(l, variant == 2 ? a : s, c, COLS, 1);
  if (variant == 10) copy(l, d, c, COLS);
  if (variant == 9 || variant == 10) twice(l, a, s, COLS / 2, 0);
  twice(l, s, variant == 10 ? d : a, COLS, 1);
  store(l, l->out, s);
}

/* 1: a part is read; 2: only a part is overwritten; 3: the host sees it; 4: it is read through a
 * tile that shares its bytes; 5: the caller orders it */
static void dead(list *l, int variant) {
  uint32_t s = tile(l, "s", SOMA_SBUF);
  uint32_t t = variant == 4 ? fixed_tile(l, 131072) : tile(l, "t", SOMA_SBUF);
  uint32_t over = variant == 4 ? fixed_tile(l, 131072) : 0;
  set(l, s, COLS, 1);
  set(l, t, COLS, 5);
  if (variant == 1) twice(l, s, t, 1, 1);
  if (variant == 3) store(l, l->out, s);
  if (variant == 4) twice(l, s, over, COLS, 1);
  if (variant == 2)
    twice(l, t, s, COLS / 2, 0);
  else
    load(l, t, l->x);
  if (variant == 5) KBED_OK(&l->b, soma_kernel_order(l->b.k, 1, 2));
  twice(l, s, t, COLS, 1);
  store(l, l->out, s);
}

/* A sum of products of w with itself, in 64 partitions of p. acc: 1 write, 2 add */
static void product(list *l, uint32_t p, uint32_t w, int64_t col, int acc) {
  kbed_begin(&l->b, "ldweights", -1, 0);
  kbed_ap(&l->b, w, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_zeros(&l->b, 7);
  kbed_end(&l->b);
  kbed_begin(&l->b, "matmul", -1, 0);
  kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, col, COLS / 2);
  kbed_ap(&l->b, w, SOMA_FLOAT32, 0, 128, 0, COLS / 2);
  kbed_word(&l->b, acc);
  kbed_zeros(&l->b, 8);
  kbed_end(&l->b);
}

/* Sums after zeros. 1: the second one overlaps the first in part; 2: after ones; 3: after zeros
 * that something else is written over; 4: after zeros over a sum that nothing has read, where to
 * begin another one is a finding; 5: half of which is read. 6: all is, one half after another.
 * 7: after ones, half of which zeros are written over. 8: each twice, in a loop at run time. */
static void sums(list *l, int variant) {
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t reg;
  uint32_t p = tile(l, "p", SOMA_PSUM), w = tile(l, "w", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  load(l, w, l->x);
  if (variant > 4 && variant < 7) set(l, s, COLS, 0);
  for (int i = 0; variant > 3 && variant < 7 && i < 2; i++) product(l, p, w, i * COLS / 2, 1);
  for (int i = 0; variant < 7 && i < variant - 4; i++) {
    kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
    kbed_ap(&l->b, s, SOMA_FLOAT32, 0, COLS, i * COLS / 2, COLS / 2);
    kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, i * COLS / 2, COLS / 2);
    kbed_word(&l->b, 0);
    kbed_end(&l->b);
    store(l, l->z, s);
  }
  if (variant == 7) set(l, p, COLS, 1);
  set(l, p, variant == 7 ? COLS / 2 : COLS, variant == 2 ? 1 : 0);
  if (variant == 3) twice(l, p, w, COLS, 0);
  r.stop = 2;
  if (variant == 8) KBED_OK(&l->b, soma_kernel_loop(l->b.k, &r, &reg));
  for (int i = 0; i < 2; i++)
    product(l, p, w, i * (variant == 1 ? COLS / 4 : COLS / 2), 2);
  if (variant == 8) KBED_OK(&l->b, soma_kernel_endloop(l->b.k));
  if (variant > 3 && variant < 7) set(l, p, COLS, 3); /* so that the zeros go if the sums begin without them */
  kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
  kbed_ap(&l->b, s, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_ap(&l->b, p, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_word(&l->b, 0);
  kbed_end(&l->b);
  store(l, l->out, s);
}

/* The same product twice. 1: of other weights. */
static void products(list *l, int variant) {
  uint32_t w = tile(l, "w", SOMA_SBUF), v = tile(l, "v", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  load(l, w, l->x);
  twice(l, v, w, COLS, 0);
  load(l, s, l->x);
  for (int i = 0; i < 2; i++) {
    uint32_t p = kbed_tile(&l->b, "p", SOMA_PSUM, SOMA_FLOAT32, COLS, COLS);
    uint32_t u = kbed_tile(&l->b, "u", SOMA_SBUF, SOMA_FLOAT32, COLS, COLS);
    kbed_begin(&l->b, "ldweights", -1, 0);
    kbed_ap(&l->b, i && variant ? v : w, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_zeros(&l->b, 7);
    kbed_end(&l->b);
    kbed_begin(&l->b, "matmul", -1, SOMA_RECORD_ACCUMULATE);
    kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_ap(&l->b, w, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_zeros(&l->b, 9);
    kbed_end(&l->b);
    kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
    kbed_ap(&l->b, u, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_word(&l->b, 0);
    kbed_end(&l->b);
    kbed_begin(&l->b, "tensor_tensor", SOMA_VECTOR, 0);
    kbed_ap(&l->b, s, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_ap(&l->b, s, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_ap(&l->b, u, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_word(&l->b, 2); /* add */
    kbed_zeros(&l->b, 1);
    kbed_end(&l->b);
  }
  store(l, l->out, s);
}

static void part_of_array(list *l, const char *op, uint32_t dst, uint32_t src, int row) {
  kbed_begin(&l->b, op, -1, 0);
  if (dst) kbed_ap(&l->b, dst, SOMA_FLOAT32, 0, COLS, 0, COLS);
  kbed_ap(&l->b, src, SOMA_FLOAT32, (unsigned)row, 64, 0, COLS);
  kbed_zeros(&l->b, dst ? 5 : 3); /* acc: write; no psum_zero */
  kbed_word(&l->b, row);
  kbed_word(&l->b, 0);
  kbed_word(&l->b, 64);
  kbed_word(&l->b, 128);
  kbed_end(&l->b);
}

/* The weights of a part of the array, from what is there late; those of another part, from what is
 * there early; a product with each. */
static void parts(list *l, int variant) {
  uint32_t w = tile(l, "w", SOMA_SBUF), v = tile(l, "v", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  (void)variant;
  set(l, v, COLS, 2);
  load(l, w, l->x);
  twice(l, w, w, COLS, 1);
  part_of_array(l, "ldweights", 0, w, 0);
  part_of_array(l, "ldweights", 0, v, 64);
  for (int i = 0; i < 2; i++) {
    uint32_t p = kbed_tile(&l->b, "p", SOMA_PSUM, SOMA_FLOAT32, COLS, COLS);
    part_of_array(l, "matmul", p, v, 64 * i);
    kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
    kbed_ap(&l->b, s, SOMA_FLOAT32, (unsigned)(64 * i), COLS, 0, COLS);
    kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_word(&l->b, 0);
    kbed_end(&l->b);
  }
  part_of_array(l, "ldweights", 0, v, 0); /* more weights, so that those are not the last */
  part_of_array(l, "matmul", kbed_tile(&l->b, "q", SOMA_PSUM, SOMA_FLOAT32, COLS, COLS), v, 0);
  store(l, l->out, s);
}

/* Weights that are there early are used after a loop has begun, those before them are there late. */
static void runs(list *l, int variant) {
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  uint32_t w = tile(l, "w", SOMA_SBUF), v = tile(l, "v", SOMA_SBUF), s = tile(l, "s", SOMA_SBUF);
  uint32_t p = tile(l, "p", SOMA_PSUM), reg;
  (void)variant;
  set(l, v, COLS, 2);
  set(l, p, COLS, 0);
  load(l, w, l->x);
  twice(l, w, w, COLS, 1);
  product(l, p, w, 0, 1);
  kbed_begin(&l->b, "ldweights", -1, 0);
  kbed_ap(&l->b, v, SOMA_FLOAT32, 0, 128, 0, COLS);
  kbed_zeros(&l->b, 7);
  kbed_end(&l->b);
  r.stop = 1;
  KBED_OK(&l->b, soma_kernel_loop(l->b.k, &r, &reg));
  kbed_begin(&l->b, "matmul", -1, 0);
  kbed_ap(&l->b, p, SOMA_FLOAT32, 0, COLS, COLS / 2, COLS / 2);
  kbed_ap(&l->b, v, SOMA_FLOAT32, 0, 128, 0, COLS / 2);
  kbed_word(&l->b, 1);
  kbed_zeros(&l->b, 8);
  kbed_end(&l->b);
  KBED_OK(&l->b, soma_kernel_endloop(l->b.k));
  copy(l, s, p, COLS);
  store(l, l->out, s);
}

/* Two tiles that share bytes, at other columns of each: the second write is there first. */
static void places(list *l, int variant) {
  uint32_t a = fixed_tile(l, 131072), c = fixed_tile(l, 131072 + 2 * COLS);
  uint32_t s = tile(l, "s", SOMA_SBUF);
  (void)variant;
  set(l, a, COLS, 1);
  load(l, s, l->x);
  twice(l, s, s, COLS, 1);
  kbed_begin(&l->b, "tensor_copy", SOMA_VECTOR, 0);
  kbed_ap(&l->b, a, SOMA_FLOAT32, 0, 128, COLS / 2, COLS / 2);
  kbed_ap(&l->b, s, SOMA_FLOAT32, 0, 128, 0, COLS / 2);
  kbed_word(&l->b, 0);
  kbed_end(&l->b);
  kbed_memset(&l->b, SOMA_GPSIMD, c, COLS / 2, 9);
  store(l, l->out, a);
}

typedef struct variant {
  void (*make)(list *l, int variant);
  int number;
  uint32_t pass;
  unsigned times; /* that the pass does something */
} variant;

static void run(const variant *v, uint32_t optimize, float *out) {
  static float x[WIDE];
  list l;
  soma_kernel_figures f;
  soma_kernel_left left;
  unsigned times = 0;
  for (size_t i = 0; i < WIDE; i++) x[i] = (float)(i % 61) - 30;
  /* a sum that nothing began is a finding of `psum`, and stays one where the pass lets it be */
  int begun = v->make == sums && (v->number < 4 || v->number > 6);
  unsigned checks = KBED_CHECKS & ~(begun ? 1u << SOMA_CHECK_PSUM : 0);
  kbed_open_at(&l.b, "trn2", 0, checks, optimize);
  l.x = kbed_tensor(&l.b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
  l.z = kbed_tensor(&l.b, "z", SOMA_FLOAT32, 128, COLS, SOMA_TEMP);
  l.out = kbed_tensor(&l.b, "out", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
  v->make(&l, v->number);
  kbed_finish(&l.b);
  soma_kernel_get_figures(l.b.k, &f, sizeof f);
  for (uint32_t i = 0; soma_kernel_get_left(l.b.k, i, &left) == SOMA_OK; i++) {
    assert_string_equal(left.file, "kernel.py");
    assert_true(left.left <= left.of && left.line > 0);
    if (left.pass == v->pass) times += left.left;
  }
  if (v->pass == SOMA_PASS_VERSIONS) times = (unsigned)f.versions;
  assert_int_equal(times, optimize ? v->times : 0);
  kbed_bind(&l.b, "x", SOMA_FLOAT32, 128, COLS, x);
  kbed_run(&l.b);
  assert_int_equal(soma_fetch(l.b.r, "out", out, sizeof x), SOMA_OK);
  kbed_close(&l.b);
}

static void a_pass_does_what_it_may(void **state) {
  static const variant all[] = {
      {versions, 0, SOMA_PASS_VERSIONS, 1}, {versions, 1, SOMA_PASS_VERSIONS, 0},
      {versions, 2, SOMA_PASS_VERSIONS, 0}, {versions, 3, SOMA_PASS_VERSIONS, 0},
      {loads, 0, SOMA_PASS_LOADS, 1},       {loads, 1, SOMA_PASS_LOADS, 0},
      {loads, 2, SOMA_PASS_LOADS, 0},       {loads, 3, SOMA_PASS_LOADS, 0},
      {loads, 4, SOMA_PASS_LOADS, 0},

      {copies, 0, SOMA_PASS_LOADS, 1},      {copies, 1, SOMA_PASS_LOADS, 0},
      {copies, 2, SOMA_PASS_LOADS, 0},      {copies, 3, SOMA_PASS_LOADS, 0},
      {copies, 4, SOMA_PASS_LOADS, 0},      {copies, 5, SOMA_PASS_LOADS, 0},
      {copies, 6, SOMA_PASS_LOADS, 0},      {copies, 7, SOMA_PASS_LOADS, 0},
      {copies, 8, SOMA_PASS_LOADS, 0},      {copies, 9, SOMA_PASS_LOADS, 1},
      {copies, 10, SOMA_PASS_LOADS, 1},

      {values, 0, SOMA_PASS_VALUES, 1},     {values, 1, SOMA_PASS_VALUES, 0},
      {values, 2, SOMA_PASS_VALUES, 0},

      {dead, 0, SOMA_PASS_MEMSETS, 1},      {dead, 1, SOMA_PASS_MEMSETS, 0},
      {dead, 2, SOMA_PASS_MEMSETS, 0},      {dead, 3, SOMA_PASS_STORES, 0},
      {dead, 4, SOMA_PASS_MEMSETS, 0},      {dead, 5, SOMA_PASS_MEMSETS, 0},
      {sums, 0, SOMA_PASS_MEMSETS, 0},      {sums, 1, SOMA_PASS_MEMSETS, 0},
      {sums, 2, SOMA_PASS_MEMSETS, 0},      {sums, 3, SOMA_PASS_MEMSETS, 1},
      {sums, 4, SOMA_PASS_MEMSETS, 0},      {sums, 5, SOMA_PASS_MEMSETS, 0},
      {sums, 6, SOMA_PASS_MEMSETS, 1},      {sums, 7, SOMA_PASS_MEMSETS, 0},
      {sums, 8, SOMA_PASS_MEMSETS, 0},
      {products, 0, SOMA_PASS_VALUES, 2},   {products, 1, SOMA_PASS_VALUES, 0},
      {parts, 0, SOMA_PASS_ORDER, 0},       {runs, 0, SOMA_PASS_ORDER, 0},
      {places, 0, SOMA_PASS_ORDER, 0},
  };
  static float want[WIDE], got[WIDE];
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    run(&all[i], 0, want);
    run(&all[i], 1, got);
    if (memcmp(want, got, sizeof want) != 0) fail_msg("case %zu: other bits", i);
  }
}

/* The bits of a sum after zeros, of products that are all too small for float32 and negative. */
static uint32_t tiny_sum(uint32_t optimize, unsigned terms) {
  static uint32_t out[WIDE];
  list l;
  kbed_open_at(&l.b, "trn2", 0, 0, optimize);
  l.out = kbed_tensor(&l.b, "out", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
  uint32_t p = tile(&l, "p", SOMA_PSUM), s = tile(&l, "s", SOMA_SBUF);
  uint32_t w = tile(&l, "w", SOMA_SBUF), v = tile(&l, "v", SOMA_SBUF);
  set(&l, p, COLS, 0);
  set(&l, s, COLS, 0);
  set(&l, w, COLS, 1e-30f);
  set(&l, v, COLS, -1e-30f);
  for (unsigned i = 0; i < terms; i++) {
    kbed_begin(&l.b, "ldweights", -1, 0);
    kbed_ap(&l.b, w, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_zeros(&l.b, 7);
    kbed_end(&l.b);
    kbed_begin(&l.b, "matmul", -1, 0);
    kbed_ap(&l.b, p, SOMA_FLOAT32, 0, COLS, 0, COLS);
    kbed_ap(&l.b, v, SOMA_FLOAT32, 0, 128, 0, COLS);
    kbed_word(&l.b, 2); /* acc=add */
    kbed_zeros(&l.b, 8);
    kbed_end(&l.b);
  }
  kbed_begin(&l.b, "tensor_copy", SOMA_VECTOR, 0);
  kbed_ap(&l.b, s, SOMA_FLOAT32, 0, COLS, 0, COLS);
  kbed_ap(&l.b, p, SOMA_FLOAT32, 0, COLS, 0, COLS);
  kbed_word(&l.b, 0);
  kbed_end(&l.b);
  store(&l, l.out, s);
  kbed_finish(&l.b);
  kbed_run(&l.b);
  assert_int_equal(soma_fetch(l.b.r, "out", out, sizeof out), SOMA_OK);
  kbed_close(&l.b);
  return out[0];
}

/* The one bit that a pass may change, as start.c says: the first matmul writes, and -0 stays. */
static void a_sum_that_underflows_keeps_its_sign(void **state) {
  (void)state;
  for (unsigned terms = 1; terms <= 2; terms++) {
    assert_int_equal(tiny_sum(0, terms), 0);
    assert_int_equal(tiny_sum(1, terms), 0x80000000u);
  }
}

/* What another core can write is loaded again after each barrier, also one of other data. */
static void a_barrier_stands_between_loads(void **state) {
  (void)state;
  for (int barrier = 0; barrier < 3; barrier++) {
    soma_options o = SOMA_OPTIONS_INIT;
    soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
    soma_kernel_left left;
    list l[2] = {{.b = {.n = 0}}, {.b = {.n = 0}}};
    o.target = "trn2";
    ko.cores = 2;
    assert_int_equal(soma_machine_new(&o, &l[0].b.m), SOMA_OK);
    for (unsigned c = 0; c < 2; c++) {
      kbed *b = &l[c].b;
      ko.core = c;
      assert_int_equal(soma_kernel_new(l[0].b.m, &ko, &b->k), SOMA_OK);
      l[c].x = kbed_tensor(b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
      l[c].z = kbed_tensor(b, "z", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
      l[c].out = kbed_tensor(b, c ? "v" : "u", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
      uint32_t s = tile(&l[c], "s", SOMA_SBUF), t = tile(&l[c], "t", SOMA_SBUF);
      load(&l[c], s, l[c].x);
      twice(&l[c], t, s, COLS, 0);
      if (barrier) {
        kbed_begin(b, "core_barrier", -1, 0);
        kbed_word(b, 0);
        kbed_hbm(b, barrier == 1 ? l[c].x : l[c].z, SOMA_FLOAT32, COLS, 0, 128, 0, COLS);
        kbed_end(b);
      }
      uint32_t again = tile(&l[c], "again", SOMA_SBUF);
      load(&l[c], again, l[c].x);
      twice(&l[c], t, again, COLS, 1);
      store(&l[c], l[c].out, t);
    }
    assert_int_equal(soma_kernel_finish_pair(l[0].b.k, l[1].b.k, &l[0].b.p, NULL), SOMA_OK);
    for (unsigned c = 0; c < 2; c++) {
      assert_int_equal(soma_kernel_get_left(l[c].b.k, 0, &left) == SOMA_OK, !barrier);
      soma_kernel_free(l[c].b.k);
    }
    soma_program_free(l[0].b.p);
    soma_machine_free(l[0].b.m);
  }
}

/* An instruction that could run at once stays after one that waits for a load. */
static void what_the_caller_ordered_stays_in_order(void **state) {
  list l;
  soma_kernel_wait w;
  int found = 0;
  (void)state;
  kbed_open(&l.b, "trn2", 0, 0);
  l.x = kbed_tensor(&l.b, "x", SOMA_FLOAT32, 128, COLS, SOMA_INPUT);
  l.out = kbed_tensor(&l.b, "out", SOMA_FLOAT32, 128, COLS, SOMA_OUTPUT);
  uint32_t s = tile(&l, "s", SOMA_SBUF), t = tile(&l, "t", SOMA_SBUF), u = tile(&l, "u", SOMA_SBUF);
  load(&l, s, l.x);
  twice(&l, t, s, COLS, 0);
  uint32_t earlier = soma_kernel_count(l.b.k) - 1;
  kbed_memset(&l.b, SOMA_GPSIMD, u, COLS, 1);
  KBED_OK(&l.b, soma_kernel_order(l.b.k, earlier, earlier + 1));
  twice(&l, t, u, COLS, 1);
  store(&l, l.out, t);
  kbed_finish(&l.b);
  for (uint32_t i = 0; soma_kernel_get_wait(l.b.k, i, &w) == SOMA_OK; i++)
    found += w.later == earlier + 1 && w.earlier == earlier;
  assert_int_equal(found, 1);
  kbed_close(&l.b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_pass_does_what_it_may),
                                     cmocka_unit_test(a_sum_that_underflows_keeps_its_sign),
                                     cmocka_unit_test(a_barrier_stands_between_loads),
                                     cmocka_unit_test(what_the_caller_ordered_stays_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
