/* Random lists of instructions give the bits of the same list with a full barrier after each
 * instruction and other engines, under several legal timings, and the checks have nothing to say.
 * Every tile is filled first, and then copied, added, multiplied, gathered in overlapping views, in
 * loops and out of them. The same seed gives the same list. */
#include "full.h"
#include "kernel_bed.h"

enum { KR_TILES = 5, KR_SUMS = 3, KR_COLS = 64, KR_PARTS = 128, KR_ROWS = 4 * KR_PARTS };

typedef struct krandom {
  kbed *b;
  uint64_t state;
  const char *target;
  uint32_t tile[KR_TILES], sum[KR_SUMS], half, index;
  uint32_t over[2];             /* tiles at fixed places, half of one over half of the other */
  uint32_t in, out, temp, step; /* tensors; step: a tile with one small integer */
  uint32_t reg;                 /* of the loop that is open, 0: none */
  unsigned left;                /* instructions */
} krandom;

static uint32_t kr_next(krandom *r, uint32_t n) {
  r->state ^= r->state << 13;
  r->state ^= r->state >> 7;
  r->state ^= r->state << 17;
  return (uint32_t)(r->state >> 33) % n;
}

typedef struct kview {
  uint32_t buffer;
  unsigned part, parts;
  int64_t col, cols, step;
} kview;

static soma_dtype kr_type(const krandom *r, uint32_t buffer) {
  return buffer == r->half ? SOMA_BFLOAT16 : SOMA_FLOAT32;
}

static void kr_put(krandom *r, kview v) {
  kbed *b = r->b;
  int moves = r->reg && v.buffer == r->tile[0] && v.step == 1 && v.cols <= 16 && kr_next(r, 2);
  kbed_word(b, moves ? 11 : 8);
  kbed_word(b, v.buffer);
  kbed_word(b, kr_type(r, v.buffer));
  kbed_word(b, v.part);
  kbed_word(b, v.parts);
  kbed_word(b, (moves ? 0 : v.col) * (int64_t)soma_dtype_size(kr_type(r, v.buffer)));
  kbed_word(b, 1);
  kbed_word(b, v.step);
  kbed_word(b, v.cols);
  if (!moves) return;
  kbed_word(b, SOMA_DYN_REGISTER);
  kbed_word(b, r->reg);
  kbed_word(b, 4);
}

/* A view of some tile: parts partitions, cols columns. */
static kview kr_view(krandom *r, unsigned part, unsigned parts, int64_t cols, int psum) {
  uint32_t t = psum ? r->sum[kr_next(r, KR_SUMS)] : r->tile[kr_next(r, KR_TILES)];
  int64_t step = cols * 2 <= KR_COLS && kr_next(r, 3) == 0 ? 2 : 1;
  int64_t room = KR_COLS - (cols - 1) * step;
  return (kview){t, part, parts, kr_next(r, (uint32_t)room), cols, step};
}

static void kr_shape(krandom *r, unsigned *part, unsigned *parts, int64_t *cols) {
  static const unsigned starts[] = {0, 0, 0, 64, 32}, counts[] = {128, 128, 64, 64, 32};
  unsigned i = kr_next(r, 5);
  *part = starts[i];
  *parts = counts[i];
  *cols = 1 + kr_next(r, 16);
  if (r->reg && *cols > 16) *cols = 16;
}

static int kr_psum(krandom *r) { return kr_next(r, 4) == 0; }

/* A record of an elementwise instruction may be refused (two sources in PSUM, a view over itself):
 * then the list does without it. */
static void kr_done(krandom *r) {
  if (kbed_try(r->b) == SOMA_OK && r->left) r->left--;
}

static void kr_copy(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "tensor_copy", -1, 0);
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kbed_word(r->b, 0);
  kr_done(r);
}

/* To or from bfloat16, whose range is that of float32; now and then by DMA. */
static void kr_cast(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kview half = kr_view(r, p, n, cols, 0), full = kr_view(r, p, n, cols, kr_psum(r));
  int to = kr_next(r, 2) != 0, dma = kr_next(r, 4) == 0;
  half.buffer = r->half;
  kbed_begin(r->b, dma ? "dma_copy" : "tensor_copy", -1, dma ? SOMA_RECORD_SWDGE : 0);
  kr_put(r, to ? half : full);
  kr_put(r, to ? full : half);
  if (dma) kbed_word(r->b, -1);
  kbed_zeros(r->b, dma ? 3 : 1);
  kr_done(r);
}

static void kr_add(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "tensor_tensor", -1, 0);
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kr_put(r, kr_view(r, p, n, cols, 0));
  kbed_word(r->b, kr_next(r, 2) ? 6 : 2); /* max, add */
  kbed_word(r->b, 0);
  kr_done(r);
}

static void kr_scale(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "tensor_scalar", -1, 0);
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kbed_word(r->b, 4); /* mult */
  kbed_word(r->b, 3);
  kview v = kr_view(r, p, n, 1, 0);
  v.step = 1;
  kr_put(r, v);
  kbed_zeros(r->b, 5);
  kr_done(r);
}

static void kr_activate(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "activate", -1, 0);
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kbed_word(r->b, kr_next(r, 2) ? 12 : 3); /* tanh, relu */
  kbed_zeros(r->b, 4);
  kr_done(r);
}

static void kr_set(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "memset", -1, 0);
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kbed_word(r->b, 1);
  kbed_word(r->b, kbed_bits((float)kr_next(r, 9) - 4));
  kr_done(r);
}

static void kr_reduce(krandom *r) {
  unsigned p, n;
  int64_t cols;
  kr_shape(r, &p, &n, &cols);
  kbed_begin(r->b, "tensor_reduce", -1, 0);
  kr_put(r, kr_view(r, p, n, 1, 0));
  kr_put(r, kr_view(r, p, n, cols, kr_psum(r)));
  kbed_word(r->b, 6);
  kbed_zeros(r->b, 2);
  kr_done(r);
}

/* A new stationary operand, and a matmul that writes or adds. */
static void kr_matmul(krandom *r) {
  kview w = {r->tile[kr_next(r, KR_TILES)], 0, 128, 0, 64, 1};
  int64_t cols = 1 + kr_next(r, 16);
  kbed_begin(r->b, "ldweights", -1, 0);
  kr_put(r, w);
  kbed_zeros(r->b, 7);
  kr_done(r);
  kview dst = kr_view(r, 0, 64, cols, 1);
  unsigned acc = kr_next(r, 3); /* chosen, write, add */
  kbed_begin(r->b, "matmul", -1, acc ? 0 : SOMA_RECORD_ACCUMULATE);
  kr_put(r, dst);
  kr_put(r, kr_view(r, 0, 128, cols, 0));
  kbed_word(r->b, acc);
  kbed_zeros(r->b, 8);
  kr_done(r);
}

/* Between a tile and rows of a tensor, or two tensors. */
static void kr_dma(krandom *r) {
  static const uint32_t flags[] = {0, 0, 0, SOMA_RECORD_SWDGE, SOMA_RECORD_STATIC};
  unsigned parts = 1 + kr_next(r, 128), part = kr_next(r, 129 - parts), what = kr_next(r, 5);
  int64_t cols = 1 + kr_next(r, KR_COLS), row = kr_next(r, KR_ROWS + 1 - parts);
  int64_t col = kr_next(r, (uint32_t)(KR_COLS + 1 - cols));
  kview v = {r->tile[kr_next(r, KR_TILES)], part, parts, col, cols, 1};
  kview u = {r->tile[kr_next(r, KR_TILES)],
             kr_next(r, 129 - parts),
             parts,
             kr_next(r, (uint32_t)(KR_COLS + 1 - cols)),
             cols,
             1};
  uint32_t flag = flags[kr_next(r, 5)];
  if (r->reg && flag == SOMA_RECORD_STATIC) flag = 0;
  kbed_begin(r->b, "dma_copy", -1, flag);
  if (what == 0 || what == 1) {
    kr_put(r, v);
    kbed_hbm(r->b, what ? r->in : r->temp, SOMA_FLOAT32, KR_COLS, row, parts, col, cols);
  } else if (what == 2 || what == 3) {
    kbed_hbm(r->b, what == 2 ? r->out : r->temp, SOMA_FLOAT32, KR_COLS, row, parts, col, cols);
    kr_put(r, v);
  } else {
    kr_put(r, v);
    kr_put(r, u);
  }
  kbed_word(r->b, -1);
  kbed_zeros(r->b, 2);
  kbed_word(r->b, what < 2 && flag == SOMA_RECORD_SWDGE ? 2 : 0); /* op=add */
  kr_done(r);
}

/* Rows of the input by an index vector. */
static void kr_gather(krandom *r) {
  unsigned parts = 32;
  if (strcmp(r->target, "trn1") == 0) return;
  kbed_begin(r->b, "dma_copy", -1, SOMA_RECORD_SWDGE);
  kr_put(r, (kview){r->tile[1], 32 * kr_next(r, 4), parts, 0, KR_COLS, 1});
  size_t at = r->b->n;
  kbed_word(r->b, 0);
  kbed_word(r->b, kr_next(r, 2) ? r->in : r->temp);
  kbed_word(r->b, SOMA_FLOAT32);
  kbed_zeros(r->b, 3);
  kbed_word(r->b, 2);
  kbed_word(r->b, KR_COLS);
  kbed_word(r->b, parts);
  kbed_word(r->b, 1);
  kbed_word(r->b, KR_COLS);
  kbed_word(r->b, SOMA_DYN_GATHER);
  kbed_word(r->b, 0);
  kbed_ap(r->b, r->index, SOMA_INT32, 0, parts, 0, 1);
  r->b->w[at] = (int64_t)(r->b->n - at - 1);
  kbed_word(r->b, -1);
  kbed_zeros(r->b, 3);
  kr_done(r);
}

static void kr_iota(krandom *r, uint32_t tile, soma_dtype t, int64_t cols, int multiplier) {
  kbed_begin(r->b, "iota", -1, 0);
  kbed_ap(r->b, tile, t, 0, tile == r->step ? 1 : 128, 0, cols);
  kbed_word(r->b, 1);
  kbed_word(r->b, 1);
  kbed_word(r->b, cols);
  kbed_word(r->b, 0);
  kbed_word(r->b, 1 + kr_next(r, 5));
  kbed_word(r->b, multiplier);
  kbed_end(r->b);
}

static void kr_one(krandom *r);

static void kr_loop(krandom *r) {
  soma_kernel_range range = SOMA_KERNEL_RANGE_INIT;
  uint32_t outer = r->reg;
  range.start = (int32_t)kr_next(r, 3);
  range.stop = (int32_t)kr_next(r, 8);
  range.step = 1 + (int32_t)kr_next(r, 2);
  range.file = r->b->file;
  range.line = ++r->b->line;
  KBED_OK(r->b, soma_kernel_loop(r->b->k, &range, &r->reg));
  unsigned n = 1 + kr_next(r, 8);
  while (n-- > 0) kr_one(r);
  KBED_OK(r->b, soma_kernel_endloop(r->b->k));
  r->reg = outer;
}

/* A register from memory, and an instruction that it moves. */
static void kr_register(krandom *r) {
  uint32_t reg, outer = r->reg;
  KBED_OK(r->b, soma_kernel_register(r->b->k, &reg));
  kbed_begin(r->b, "tensor_load", -1, 0);
  kbed_word(r->b, reg);
  kbed_ap(r->b, r->step, SOMA_INT32, 0, 1, kr_next(r, 4), 1);
  kbed_end(r->b);
  if (outer) return;
  r->reg = reg;
  if (kr_next(r, 2))
    kr_copy(r);
  else
    kr_dma(r);
  r->reg = 0;
  if (kr_next(r, 2)) kr_iota(r, r->step, SOMA_INT32, 4, 1);
}

/* A sequencer writes what others read and move by. */
static void kr_poke(krandom *r) {
  uint32_t reg;
  KBED_OK(r->b, soma_kernel_register(r->b->k, &reg));
  kbed_begin(r->b, "mov", -1, 0);
  kbed_word(r->b, reg);
  kbed_word(r->b, 0);
  kbed_word(r->b, kr_next(r, 8));
  kbed_end(r->b);
  kbed_begin(r->b, "tensor_store", kr_next(r, 2) ? -1 : (int)kr_next(r, 5), 0);
  kbed_ap(r->b, r->step, SOMA_INT32, 0, 1, kr_next(r, 4), 1);
  kbed_word(r->b, reg);
  kbed_end(r->b);
}

/* Between tensors. */
static void kr_move(krandom *r) {
  int64_t rows = 1 + kr_next(r, 200), from = kr_next(r, (uint32_t)(KR_ROWS + 1 - rows));
  int64_t to = kr_next(r, (uint32_t)(KR_ROWS + 1 - rows));
  uint32_t dst = kr_next(r, 2) ? r->out : r->temp, src = kr_next(r, 2) ? r->in : r->temp;
  kbed_begin(r->b, "dma_copy", -1, 0);
  kbed_hbm(r->b, dst, SOMA_FLOAT32, KR_COLS, to, rows, 0, KR_COLS);
  kbed_hbm(r->b, src, SOMA_FLOAT32, KR_COLS, from, rows, 0, KR_COLS);
  kbed_word(r->b, -1);
  kbed_zeros(r->b, 3);
  kr_done(r);
}

/* A tile's whole to another. */
static void kr_copy_all(krandom *r, uint32_t to, uint32_t from) {
  kbed_begin(r->b, "tensor_copy", SOMA_VECTOR, 0);
  kr_put(r, (kview){to, 0, KR_PARTS, 0, KR_COLS, 1});
  kr_put(r, (kview){from, 0, KR_PARTS, 0, KR_COLS, 1});
  kbed_word(r->b, 0);
  kbed_end(r->b);
}

/* ---- What passes leave out or rename --------------------------------------------------------- */

static kview kr_all(uint32_t tile) { return (kview){tile, 0, KR_PARTS, 0, KR_COLS, 1}; }

static void kr_load_rows(krandom *r, kview to, uint32_t from, int64_t row) {
  kbed_begin(r->b, "dma_copy", -1, 0);
  kr_put(r, to);
  kbed_hbm(r->b, from, SOMA_FLOAT32, KR_COLS, row, to.parts, to.col, to.cols);
  kbed_word(r->b, -1);
  kbed_zeros(r->b, 3);
  kr_done(r);
}

/* All of a tile anew: the same few rows again and again, what is computed of another tile, a
 * number. */
static void kr_whole(krandom *r) {
  uint32_t to = r->tile[kr_next(r, KR_TILES)], from = r->tile[kr_next(r, KR_TILES)];
  unsigned what = kr_next(r, 6);
  if (what < 3) {
    kr_load_rows(r, kr_all(to), what ? r->in : r->temp, 128 * kr_next(r, 2));
    return;
  }
  kbed_begin(r->b, what == 3 ? "activate" : what == 4 ? "tensor_copy" : "memset", -1, 0);
  kr_put(r, kr_all(to));
  if (what < 5) kr_put(r, kr_all(from));
  if (what == 3) kbed_word(r->b, 3); /* relu */
  if (what == 5) kbed_word(r->b, 1);
  kbed_word(r->b, what == 5 ? kbed_bits(2) : 0);
  if (what == 3) kbed_zeros(r->b, 3);
  kr_done(r);
}

/* Two tiles with the same rows and the same of them, one after another: one may serve for both, but
 * for what is written between, to a part of a tile or to the rows. */
static void kr_twice(krandom *r) {
  uint32_t from = kr_next(r, 2) ? r->in : r->temp;
  int64_t row = 128 * kr_next(r, 2);
  for (unsigned i = 0; i < 2; i++) {
    uint32_t a = kbed_tile(r->b, "a", SOMA_SBUF, SOMA_FLOAT32, 128, KR_COLS);
    uint32_t c = kbed_tile(r->b, "c", SOMA_SBUF, SOMA_FLOAT32, 128, KR_COLS);
    kr_load_rows(r, kr_all(a), from, row);
    kbed_begin(r->b, "tensor_scalar", -1, 0);
    kr_put(r, kr_all(c));
    kr_put(r, kr_all(a));
    kbed_word(r->b, 4); /* mult */
    kbed_word(r->b, 1);
    kbed_word(r->b, kbed_bits(0.5f));
    kbed_zeros(r->b, 5);
    kr_done(r);
    kview part = {kr_next(r, 2) ? a : c, 0, 64, kr_next(r, 32), 8, 1}, to = part;
    to.buffer = r->tile[kr_next(r, KR_TILES)];
    int other_way = kr_next(r, 4) == 0;
    kbed_begin(r->b, "tensor_copy", -1, 0);
    kr_put(r, other_way ? part : to);
    kr_put(r, other_way ? to : part);
    kbed_word(r->b, 0);
    kr_done(r);
    if (kr_next(r, 3) == 0)
      kbed_store(r->b, r->temp, c, SOMA_FLOAT32, KR_COLS, 64 * kr_next(r, 5), 128, 0, KR_COLS);
    kr_copy_all(r, r->tile[kr_next(r, KR_TILES)], c);
  }
}

/* A part of a tile or of the temporary, all of which is written right after it. */
static void kr_dead(krandom *r) {
  unsigned what = kr_next(r, 4);
  uint32_t to = r->tile[kr_next(r, KR_TILES)], from = r->tile[kr_next(r, KR_TILES)];
  int64_t cols = 1 + kr_next(r, KR_COLS), row = 128 * kr_next(r, 2);
  if (what == 0) {
    kbed_begin(r->b, "memset", -1, 0);
    kr_put(r, (kview){to, 0, 64, 0, cols, 1});
    kbed_word(r->b, 1);
    kbed_word(r->b, kbed_bits(7));
    kr_done(r);
  } else if (what == 1) {
    kbed_store(r->b, r->temp, from, SOMA_FLOAT32, KR_COLS, row, 128, 0, KR_COLS);
  } else {
    kr_load_rows(r, (kview){to, 0, 64, 0, cols, 1}, r->in, row);
  }
  if (kr_next(r, 4) == 0) kr_copy(r); /* it may read what is written */
  if (what == 1)
    kbed_store(r->b, r->temp, to, SOMA_FLOAT32, KR_COLS, row, 128, 0, KR_COLS);
  else
    kr_load_rows(r, kr_all(to), r->in, 64 * kr_next(r, 3));
}

/* Sums that begin with a memset, in one place or two. */
static void kr_sums(krandom *r) {
  uint32_t p = kbed_tile(r->b, "p", SOMA_PSUM, SOMA_FLOAT32, 64, 32);
  unsigned halves = 1 + kr_next(r, 2), n = 1 + kr_next(r, 3);
  kbed_begin(r->b, "memset", SOMA_VECTOR, 0);
  kbed_ap(r->b, p, SOMA_FLOAT32, 0, 64, 0, 32);
  kbed_word(r->b, 1);
  kbed_word(r->b, 0);
  kbed_end(r->b);
  for (unsigned i = 0; i < n * halves; i++) {
    kbed_begin(r->b, "ldweights", -1, 0);
    kr_put(r, (kview){r->tile[kr_next(r, KR_TILES)], 0, 128, 0, 64, 1});
    kbed_zeros(r->b, 7);
    kr_done(r);
    kbed_begin(r->b, "matmul", -1, 0);
    kr_put(r, (kview){p, 0, 64, i % halves * 16, halves == 2 ? 16 : 32, 1});
    kr_put(r, (kview){r->tile[kr_next(r, KR_TILES)], 0, 128, kr_next(r, 32), halves == 2 ? 16 : 32,
                      1});
    kbed_word(r->b, 2);
    kbed_zeros(r->b, 8);
    kr_done(r);
    if (kr_next(r, 8)) continue;
    kbed_begin(r->b, "tensor_copy", SOMA_VECTOR, 0);
    kr_put(r, (kview){r->tile[kr_next(r, KR_TILES)], 0, 64, 0, 8, 1});
    kr_put(r, (kview){p, 0, 64, kr_next(r, 24), 8, 1});
    kbed_word(r->b, 0);
    kr_done(r);
  }
  kbed_begin(r->b, "tensor_copy", SOMA_VECTOR, 0);
  kr_put(r, (kview){r->tile[kr_next(r, KR_TILES)], 0, 64, 0, 32, 1});
  kr_put(r, (kview){p, 0, 64, 0, 32, 1});
  kbed_word(r->b, 0);
  kr_done(r);
}

/* Tiles that share bytes by their places: half of the first is overwritten by the second. */
static void kr_over(krandom *r) {
  unsigned i = kr_next(r, 2);
  kview a = kr_all(r->over[i]), b = kr_all(r->over[!i]), to = kr_all(r->tile[kr_next(r, KR_TILES)]);
  kr_load_rows(r, a, r->in, 128 * kr_next(r, 2));
  kr_load_rows(r, b, r->in, 128 * kr_next(r, 2));
  a.col = i ? KR_COLS / 2 : 0;
  a.cols = to.cols = KR_COLS / 2;
  for (unsigned j = 0; j < 2; j++) {
    kbed_begin(r->b, "tensor_copy", SOMA_VECTOR, 0);
    kr_put(r, to);
    kr_put(r, j ? b : a);
    kbed_word(r->b, 0);
    kr_done(r);
    to = kr_all(r->tile[kr_next(r, KR_TILES)]);
  }
}

static void kr_one(krandom *r) {
  static void (*const kinds[])(krandom *) = {
      kr_copy, kr_copy,  kr_add,      kr_add,    kr_scale,  kr_set,  kr_reduce, kr_dma,
      kr_dma,  kr_dma,   kr_activate, kr_matmul, kr_gather, kr_poke, kr_move,   kr_register,
      kr_cast, kr_whole, kr_whole,    kr_twice,  kr_dead,   kr_sums, kr_over};
  kinds[kr_next(r, sizeof kinds / sizeof *kinds)](r);
}

static uint32_t kr_fixed(krandom *r, int32_t offset) {
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  uint32_t id = 0;
  i.name = "over";
  i.shape[0] = 128;
  i.shape[1] = KR_COLS;
  i.offset = offset;
  KBED_OK(r->b, soma_kernel_tile(r->b->k, &i, &id));
  return id;
}

static void kr_fill(krandom *r) {
  kbed *b = r->b;
  for (unsigned i = 0; i < KR_TILES; i++) {
    r->tile[i] = kbed_tile(b, "t", SOMA_SBUF, SOMA_FLOAT32, 128, KR_COLS);
    kbed_load(b, r->tile[i], r->in, SOMA_FLOAT32, KR_COLS, 64 * i, 128, 0, KR_COLS);
  }
  for (unsigned i = 0; i < KR_SUMS; i++) {
    r->sum[i] = kbed_tile(b, "s", SOMA_PSUM, SOMA_FLOAT32, 128, KR_COLS);
    kbed_begin(b, "memset", SOMA_VECTOR, 0);
    kbed_ap(b, r->sum[i], SOMA_FLOAT32, 0, 128, 0, KR_COLS);
    kbed_word(b, 1);
    kbed_word(b, 0);
    kbed_end(b);
  }
  for (unsigned i = 0; i < 2; i++) r->over[i] = kr_fixed(r, 150000 + 128 * (int)i);
  r->half = kbed_tile(b, "half", SOMA_SBUF, SOMA_BFLOAT16, 128, KR_COLS);
  kr_copy_all(r, r->half, r->tile[0]);
  r->index = kbed_tile(b, "index", SOMA_SBUF, SOMA_INT32, 128, 1);
  kr_iota(r, r->index, SOMA_INT32, 1, 3);
  r->step = kbed_tile(b, "step", SOMA_SBUF, SOMA_INT32, 1, 4);
  kr_iota(r, r->step, SOMA_INT32, 4, 1);
  for (unsigned i = 0; i < 4; i++)
    kbed_store(b, r->temp, r->tile[i], SOMA_FLOAT32, KR_COLS, 128 * i, 128, 0, KR_COLS);
}

/* All that the list left behind, to the second output. */
static void kr_keep(krandom *r, uint32_t kept) {
  for (unsigned i = 0; i < KR_TILES; i++)
    kbed_store(r->b, kept, r->tile[i], SOMA_FLOAT32, KR_COLS, 128 * i, 128, 0, KR_COLS);
  for (unsigned i = 0; i <= KR_SUMS; i++) {
    kr_copy_all(r, r->tile[0], i < KR_SUMS ? r->sum[i] : r->half);
    kbed_store(r->b, kept, r->tile[0], SOMA_FLOAT32, KR_COLS, 128 * (KR_TILES + i), 128, 0,
               KR_COLS);
  }
}

enum { KEPT = KR_PARTS * (KR_TILES + KR_SUMS + 1) };

typedef struct result {
  float out[KR_ROWS * KR_COLS], kept[KEPT * KR_COLS];
} result;

static void build(krandom *r, kbed *b, uint64_t seed, uint32_t flags) {
  *r = (krandom){
      .b = b, .state = seed * 0x9e3779b97f4a7c15u + 1, .target = soma_kernel_target(b->k)};
  unsigned n = 5 + (unsigned)(seed % 40);
  (void)flags;
  r->in = kbed_tensor(b, "x", SOMA_FLOAT32, KR_ROWS, KR_COLS, SOMA_INPUT);
  r->out = kbed_tensor(b, "y", SOMA_FLOAT32, KR_ROWS, KR_COLS, SOMA_OUTPUT);
  r->temp = kbed_tensor(b, "z", SOMA_FLOAT32, KR_ROWS, KR_COLS, SOMA_TEMP);
  uint32_t kept = kbed_tensor(b, "kept", SOMA_FLOAT32, KEPT, KR_COLS, SOMA_OUTPUT);
  kr_fill(r);
  for (unsigned i = 0; i < n; i++)
    if (kr_next(r, 12) == 0)
      kr_loop(r);
    else
      kr_one(r);
  kr_keep(r, kept);
}

/* Whether the list, in order, faults: a register may move a destination over its source. */
static int faults(kbed *b) {
  if (soma_run_start(b->m, b->p, &b->r) != SOMA_OK) fail_msg("%s", soma_error(b->m));
  int faulted = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0) == SOMA_FAULT;
  soma_run_free(b->r);
  b->r = NULL;
  return faulted;
}

/* How often each pass did something, by the bit of its SOMA_PASS_. */
enum { PASSES = 6 };
static uint64_t fired[PASSES];

static void count_passes(const soma_kernel *k) {
  soma_kernel_figures f;
  soma_kernel_left l;
  soma_kernel_get_figures(k, &f, sizeof f);
  fired[2] += f.versions;
  fired[5] += f.moved;
  for (uint32_t i = 0; soma_kernel_get_left(k, i, &l) == SOMA_OK; i++)
    for (unsigned p = 0; p < PASSES; p++)
      if (l.pass >> p & 1) fired[p] += l.left;
}

/* False when the tiles of a loop alone do not fit in what spilling leaves, and when the list faults
 * with a barrier after each instruction. */
static int list_run(uint64_t seed, const char *target, uint32_t flags, uint32_t optimize,
                    uint64_t schedule, result *out) {
  static float x[KR_ROWS * KR_COLS];
  soma_options o = SOMA_OPTIONS_INIT;
  soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
  kbed b = {0};
  krandom r;
  o.target = target;
  o.schedule = schedule;
  /* Not `overlap`: it goes by whole tiles, and a tile may be given away while the last reader of
   * other bytes of it is at work. `uninit` and `race` go by bytes. */
  o.checks = 1 << SOMA_CHECK_UNINIT | 1 << SOMA_CHECK_RACE | 1 << SOMA_CHECK_PORT;
  ko.flags = flags;
  ko.optimize = optimize;
  if (flags & SOMA_KERNEL_SPILL) ko.sbuf_bytes = 1024;
  assert_int_equal(soma_machine_new(&o, &b.m), SOMA_OK);
  assert_int_equal(soma_kernel_new(b.m, &ko, &b.k), SOMA_OK);
  assert_int_equal(soma_kernel_file(b.k, "random.py", &b.file), SOMA_OK);
  for (size_t i = 0; i < KR_ROWS * KR_COLS; i++) x[i] = (float)((i * 29) % 61) * 0.125f - 3;
  build(&r, &b, seed, flags);
  soma_status s = soma_kernel_finish(b.k, &b.p, NULL);
  if (s == SOMA_LIMIT && (flags & SOMA_KERNEL_SPILL)) {
    kbed_close(&b);
    return 0;
  }
  if (s != SOMA_OK) fail_msg("%s", soma_kernel_error(b.k));
  if (optimize == 1) count_passes(b.k);
  kbed_bind(&b, "x", SOMA_FLOAT32, KR_ROWS, KR_COLS, x);
  if ((flags & SOMA_KERNEL_KEEP_ORDER) && faults(&b)) {
    kbed_close(&b);
    return 0;
  }
  kbed_bind(&b, "x", SOMA_FLOAT32, KR_ROWS, KR_COLS, x);
  kbed_run(&b);
  assert_int_equal(soma_fetch(b.r, "y", out->out, sizeof out->out), SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "kept", out->kept, sizeof out->kept), SOMA_OK);
  kbed_close(&b);
  return 1;
}

static void compare(const result *want, const result *got, uint64_t seed, const char *what) {
  if (memcmp(want, got, sizeof *want) != 0)
    fail_msg("list %llu %s: other bits", (unsigned long long)seed, what);
}

static void random_lists_keep_their_bits(void **state) {
  static const char *const targets[] = {"trn2", "trn1", "trn3"};
  static result want, got;
  const char *lists = getenv("SOMA_KERNEL_LISTS"), *from = getenv("SOMA_KERNEL_FIRST");
  uint64_t first = from ? strtoull(from, NULL, 10) : 1;
  uint64_t n = lists ? strtoull(lists, NULL, 10) : (uint64_t)full_or(1000, 200);
  uint64_t spilled = 0;
  (void)state;
  for (uint64_t seed = first; seed < first + n; seed++) {
    const char *target = targets[seed % 3];
    if (!list_run(seed, target, SOMA_KERNEL_KEEP_ORDER | SOMA_KERNEL_FIXED_ENGINES, 0, 0, &want))
      continue;
    for (uint64_t schedule = 0; schedule < 4; schedule += lists ? 1 : 3) {
      list_run(seed, target, 0, 1, schedule, &got);
      compare(&want, &got, seed, target);
    }
    for (uint32_t optimize = 0; optimize <= 2; optimize += 2) {
      list_run(seed, target, 0, optimize, seed % 4, &got);
      compare(&want, &got, seed, optimize ? "with optimize = 2" : "with optimize = 0");
    }
    if (!list_run(seed, target, SOMA_KERNEL_SPILL, 1, 0, &got)) continue;
    compare(&want, &got, seed, "with spilling");
    spilled++;
  }
  assert_true(n < 20 || spilled * 4 > n);
  for (unsigned p = 0; p < PASSES; p++) {
    if (lists) print_message("# pass %u: %llu times\n", 1u << p, (unsigned long long)fired[p]);
    assert_true(n < 20 || fired[p] * 4 > n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_lists_keep_their_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
