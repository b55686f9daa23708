/* The kernels of bench_plain as sequences of plain C instructions, tile for tile what the program
 * does. Inputs in the order of the program's tensors; out is the program's output. */
#ifndef BENCH_PLAIN_KERNELS_H
#define BENCH_PLAIN_KERNELS_H

#include "plain.h"

typedef struct sizes {
  int64_t m, n, k;
} sizes;
typedef void plain_kernel(const sizes *s, bool bf16, void *const in[], void *out);

enum { COLS = 2048 };
TILE(ta, P, P);
TILE(tb, P, W);
TILE(tc, P, W);
TILE(sum, P, W);
static uint16_t hb[P][W + 144];

/* The two buffers of each that the program of a matmul takes in turn. */
static float a2[2][P][P + 144], b2[2][P][W + 144], c2[2][P][W + 144], sum2[2][P][W + 144];
static uint16_t ha2[2][P][P + 16], hb2[2][P][W + 144];

static void load_tiles(const sizes *s, bool bf16, void *const in[], int64_t k,
                       const int64_t at[2]) {
  const unsigned i = (unsigned)(k / P % 2);
  const size_t a = (size_t)(k * s->m + at[0]), b = (size_t)(k * s->n + at[1]);
  const size_t size = bf16 ? 2 : 4, m = (size_t)s->m * size, n = (size_t)s->n * size;
  const char *x = (const char *)in[0] + a * size, *y = (const char *)in[1] + b * size;
  move_rows(bf16 ? (void *)ha2[i] : a2[i], bf16 ? sizeof ha2[0][0] : sizeof ta[0], x, m, P * size);
  move_rows(bf16 ? (void *)hb2[i] : b2[i], bf16 ? sizeof hb2[0][0] : sizeof tb[0], y, n, W * size);
  if (!bf16) return;
  ROWS widen(ta[r], ha2[i][r], P);
  ROWS widen(tb[r], hb2[i][r], W);
}

static void plain_matmul(const sizes *s, bool bf16, void *const in[], void *out) {
  for (int64_t m = 0; m < s->m; m += P)
    for (int64_t n = 0; n < s->n; n += W) {
      const unsigned o = (unsigned)(n / W % 2);
      for (int64_t k = 0; k < s->k; k += P) {
        const unsigned i = (unsigned)(k / P % 2);
        load_tiles(s, bf16, in, k, (int64_t[]){m, n});
        mm(sum2[o][0], W + 144, bf16 ? ta[0] : a2[i][0], P + 144, bf16 ? tb[0] : b2[i][0], W + 144,
           P, W, P, k > 0);
      }
      move_rows(c2[o], sizeof tc[0], sum2[o], sizeof sum[0], W * 4);
      move_rows((float *)out + m * s->n + n, (size_t)s->n * 4, c2[o], sizeof tc[0], W * 4);
    }
}

static float tx[2][P][COLS + 144], te[2][P][COLS + 144], ty[2][P][COLS + 144];
enum { WIDE = sizeof tx[0][0] };

static void plain_softmax(const sizes *s, bool bf16, void *const in[], void *out) {
  float top[P], total[P];
  (void)bf16;
  for (int64_t row = 0; row < s->m; row += P) {
    unsigned b = (unsigned)(row / P % 2);
    move_rows(tx[b], WIDE, (float *)in[0] + row * COLS, COLS * 4, COLS * 4);
    ROWS top[r] = -row_max(tx[b][r], COLS);
    ROWS total[r] = row_exp(te[b][r], tx[b][r], 1, top[r], COLS);
    ROWS total[r] = 1 / total[r];
    ROWS EACH_VEC(COLS) put(ty[b][r] + i, get(te[b][r] + i) * total[r]);
    move_rows((float *)out + row * COLS, COLS * 4, ty[b], WIDE, COLS * 4);
  }
}

/* Queries and keys transposed, [128, n]; bfloat16 wherever the program has it. */
static void plain_attention(const sizes *s, bool bf16, void *const in[], void *out) {
  const float scale = 0.08838834764831845f;
  static uint16_t hq[P][COLS + 144], hk[P][COLS + 144], hv[COLS][P + 16], hp[P][COLS + 144];
  static uint16_t turned[P][P + 16];
  static float fk[P][COLS + 144], fq[P][P + 144], fp[P][P + 144], fv[P][P + 144];
  float top[P], total[P];
  (void)bf16;
  move_rows(hq, sizeof hq[0], in[0], (size_t)s->m * 2, (size_t)s->m * 2);
  move_rows(hk, sizeof hk[0], in[1], COLS * 2, COLS * 2);
  for (int i = 0; i < COLS; i++) memcpy(hv[i], (uint16_t *)in[2] + i * P, P * 2);
  for (int64_t q = 0; q < s->m; q += P) {
    ROWS widen(fq[r], hq[r] + q, P);
    for (int j = 0; j < COLS; j += W) {
      ROWS widen(fk[r] + j, hk[r] + j, W);
      mm(tx[0][0] + j, COLS + 144, fq[0], P + 144, fk[0] + j, COLS + 144, P, W, P, false);
    }
    ROWS top[r] = -scale * row_max(tx[0][r], COLS);
    ROWS {
      float e[COLS];
      total[r] = row_exp(e, tx[0][r], scale, top[r], COLS);
      narrow(hp[r], e, COLS);
    }
    for (int c = 0; c < COLS; c += P) {
      transpose16(turned[0], P + 16, hp[0] + c, COLS + 144);
      ROWS widen(fp[r], turned[r], P);
      ROWS widen(fv[r], hv[c + r], P);
      mm(sum[0], W + 144, fp[0], P + 144, fv[0], P + 144, P, P, P, c > 0);
    }
    ROWS total[r] = 1 / total[r];
    ROWS EACH_VEC(P) put(tc[r] + i, get(sum[r] + i) * total[r]);
    move_rows((float *)out + q * P, P * 4, tc, sizeof tc[0], P * 4);
  }
}

static void plain_layernorm(const sizes *s, bool bf16, void *const in[], void *out) {
  float both[P][2], root[P];
  (void)bf16;
  ROWS memcpy(tb[r], in[1], W * 4), memcpy(tc[r], in[2], W * 4);
  for (int64_t row = 0; row < s->m; row += P) {
    move_rows(sum, sizeof sum[0], (float *)in[0] + row * W, W * 4, W * 4);
    ROWS row_stats(both[r], sum[r], W);
    ROWS root[r] = 1 / sqrtf(both[r][1] + 1e-5f);
    ROWS EACH_VEC(W) put(sum[r] + i, (get(sum[r] + i) - both[r][0]) * root[r]);
    ROWS EACH_VEC(W) put(sum[r] + i, get(sum[r] + i) * get(tb[r] + i));
    ROWS EACH_VEC(W) put(sum[r] + i, get(sum[r] + i) + get(tc[r] + i));
    move_rows((float *)out + row * W, W * 4, sum, sizeof sum[0], W * 4);
  }
}

/* m features to n and back. */
static void plain_mlp(const sizes *s, bool bf16, void *const in[], void *out) {
  enum { MOST = 16 };
  static uint16_t hx[MOST][P][W + 16], hw1[MOST][P][2048 + 16], hw2[MOST][P][512 + 16];
  static uint16_t hidden[MOST][P][W + 16];
  const int64_t blocks = s->m / P, inner = s->n / P;
  (void)bf16;
  for (int64_t k = 0; k < blocks; k++) {
    move_rows(hx[k], sizeof hx[0][0], (uint16_t *)in[0] + k * P * W, W * 2, W * 2);
    move_rows(hw1[k], sizeof hw1[0][0], (uint16_t *)in[1] + k * P * s->n, (size_t)s->n * 2,
              (size_t)s->n * 2);
  }
  for (int64_t k = 0; k < inner; k++)
    move_rows(hw2[k], sizeof hw2[0][0], (uint16_t *)in[3] + k * P * s->m, (size_t)s->m * 2,
              (size_t)s->m * 2);
  for (int64_t j = 0; j < inner; j++) {
    for (int64_t k = 0; k < blocks; k++) {
      ROWS widen(ta[r], hw1[k][r] + j * P, P);
      ROWS widen(tb[r], hx[k][r], W);
      mm(sum[0], W + 144, ta[0], P + 144, tb[0], W + 144, P, W, P, k > 0);
    }
    ROWS {
      float bias = ((float *)in[2])[j * P + r];
      EACH_VEC(W) put(tc[r] + i, gelu_vec(get(sum[r] + i) + bias));
      narrow(hidden[j][r], tc[r], W);
    }
  }
  for (int64_t j = 0; j < blocks; j++) {
    for (int64_t k = 0; k < inner; k++) {
      ROWS widen(ta[r], hw2[k][r] + j * P, P);
      ROWS widen(tb[r], hidden[k][r], W);
      mm(sum[0], W + 144, ta[0], P + 144, tb[0], W + 144, P, W, P, k > 0);
    }
    ROWS {
      float bias = ((float *)in[4])[j * P + r];
      EACH_VEC(W) put(tc[r] + i, get(sum[r] + i) + bias);
    }
    move_rows((float *)out + j * P * W, W * 4, tc, sizeof tc[0], W * 4);
  }
}

static void plain_scan(const sizes *s, bool bf16, void *const in[], void *out) {
  (void)bf16;
  for (int64_t row = 0; row < s->m; row += P) {
    move_rows(tx[0], WIDE, (float *)in[0] + row * COLS, COLS * 4, COLS * 4);
    move_rows(te[0], WIDE, (float *)in[1] + row * COLS, COLS * 4, COLS * 4);
    scan_rows(ty[0][0], tx[0][0], te[0][0], COLS + 144, COLS);
    move_rows((float *)out + row * COLS, COLS * 4, ty[0], WIDE, COLS * 4);
  }
}

/* 3 x 3 over 128 channels, an image of m + 2 by 66. */
static void plain_conv(const sizes *s, bool bf16, void *const in[], void *out) {
  enum { ROW = 66, MOST = 130, R = 8, C = 64 };
  static uint16_t image[P][MOST * ROW + 16], taps[P][9 * P + 16];
  const size_t bytes = (size_t)(s->m + 2) * ROW * 2;
  (void)bf16;
  move_rows(image, sizeof image[0], in[0], bytes, bytes);
  move_rows(taps, sizeof taps[0], in[1], 9 * P * 2, 9 * P * 2);
  for (int64_t n = 0; n < s->m; n += R) {
    for (int t = 0; t < 9; t++) {
      ROWS widen(ta[r], taps[r] + t * P, P);
      ROWS for (int i = 0; i < R; i++)
          widen(tb[r] + i * C, image[r] + (n + t / 3 + i) * ROW + t % 3, C);
      mm(sum[0], W + 144, ta[0], P + 144, tb[0], W + 144, P, W, P, t > 0);
    }
    move_rows(tc, sizeof tc[0], sum, sizeof sum[0], W * 4);
    move_rows((float *)out + n * C, (size_t)(s->m * C) * 4, tc, sizeof tc[0], W * 4);
  }
}

static void plain_transpose(const sizes *s, bool bf16, void *const in[], void *out) {
  static uint16_t turned[P][4][P], moved[P][4][P];
  const size_t row = (size_t)s->m * 2;
  (void)bf16;
  for (int64_t r0 = 0; r0 < s->m; r0 += P)
    for (int64_t c0 = 0; c0 < s->m; c0 += W) {
      move_rows(hb, sizeof hb[0], (uint16_t *)in[0] + r0 * s->m + c0, row, W * 2);
      for (int k = 0; k < 4; k++) transpose16(turned[0][k], 4 * P, hb[0] + k * P, W + 144);
      move_rows(moved, sizeof moved[0], turned, sizeof turned[0], sizeof turned[0]);
      for (int k = 0; k < 4; k++)
        move_rows((uint16_t *)out + (c0 + k * P) * s->m + r0, row, moved[0][k], sizeof moved[0],
                  P * 2);
    }
}

#endif
