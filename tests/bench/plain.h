/* Instructions of the machine as plain C for this host, without a machine: each goes over its whole
 * tile before the next begins, as in a program. Tiles of float, some of bfloat16, rows apart by a
 * pitch. Compiled for this host with contraction; values agree with the machine's to about 1e-6. A
 * kernel's tiles are as many as its program has, since they share the caches. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "../../vm/simd/actfn.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { P = 128, W = 512 }; /* partitions, columns of a moving operand */

#ifdef __AVX512F__
enum { LANES = 16, MR = 8, NV = 3 };
#else
enum { LANES = 8, MR = 4, NV = 3 };
#endif
#ifdef __clang__
#define UNROLL(n) _Pragma("unroll")
#else
#define UNROLL(n) _Pragma("GCC unroll 8")
#endif
enum { NR = LANES * NV };
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4)));

static inline vec get(const float *x) { return *(const vec *)(const void *)x; }
static inline void put(float *x, vec v) { *(vec *)(void *)x = v; }
static inline vec all(float x) { return (vec){0} + x; }
static inline vec larger(vec a, vec b) {
  ivec first = a > b;
  return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

/* A tile: rows of n floats, 576 bytes apart from a power of two as those of SBUF are. */
#define TILE(name, rows, n) static float name[rows][(n) + 144]
#define ROWS for (int r = 0; r < P; r++)
#define EACH_VEC(n) for (int i = 0; i < (n); i += LANES)

/* ---- Transfers and conversions ------------------------------------------------------------ */

static void move_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                      size_t bytes) {
  ROWS memcpy((char *)to + (size_t)r * to_pitch, (const char *)from + (size_t)r * from_pitch,
              bytes);
}

static void widen(float *to, const uint16_t *from, size_t n) {
  uint32_t *bits = (uint32_t *)(void *)to;
  for (size_t i = 0; i < n; i++) bits[i] = (uint32_t)from[i] << 16;
}

static void narrow(uint16_t *to, const float *from, size_t n) {
  const uint32_t *bits = (const uint32_t *)(const void *)from;
  for (size_t i = 0; i < n; i++) to[i] = (uint16_t)((bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16);
}

/* ---- Matmul ------------------------------------------------------------------------------- */

/* MR rows and NR columns of sum += w' panel. */
static void mm_tile(float *out, size_t ldo, const float *w, size_t ldw, const float *panel, int k,
                    bool add) {
  vec acc[MR][NV] = {0};
  for (; k > 0; k--, w += ldw, panel += NR) {
    UNROLL(8)
    for (unsigned r = 0; r < MR; r++) UNROLL(4)
    for (unsigned v = 0; v < NV; v++) acc[r][v] += w[r] * get(panel + v * LANES);
  }
  UNROLL(8)
  for (unsigned r = 0; r < MR; r++) UNROLL(4)
  for (unsigned v = 0; v < NV; v++) {
    float *to = out + r * ldo + v * LANES;
    put(to, add ? get(to) + acc[r][v] : acc[r][v]);
  }
}

/* sum[m][n] (+)= w[k][m]' x[k][n]; m a multiple of MR. The columns past the last whole panel go
 * aside. */
static void mm(float *sum, size_t ldo, const float *w, size_t ldw, const float *x, size_t ldx,
               int m, int n, int k, bool add) {
  static float panel[P * NR];
  float aside[MR * NR];
  for (int j = 0; j < n; j += NR) {
    int cols = n - j < NR ? n - j : NR;
    for (int i = 0; i < k; i++) memcpy(panel + i * NR, x + (size_t)i * ldx + j, (size_t)cols * 4);
    for (int r = 0; r < m; r += MR) {
      float *to = sum + (size_t)r * ldo + j;
      bool whole = cols == NR;
      mm_tile(whole ? to : aside, whole ? ldo : NR, w + r, ldw, panel, k, whole && add);
      for (int i = 0; !whole && i < MR; i++)
        for (int c = 0; c < cols; c++)
          to[(size_t)i * ldo + (size_t)c] =
              (add ? to[(size_t)i * ldo + (size_t)c] : 0) + aside[i * NR + c];
    }
  }
}

static void transpose(float *to, size_t ldo, const float *from, size_t ldx) {
  enum { B = 16 };
  for (int r = 0; r < P; r += B)
    for (int c = 0; c < P; c += B)
      for (int i = 0; i < B; i++)
        for (int j = 0; j < B; j++)
          to[(size_t)(c + i) * ldo + (size_t)(r + j)] =
              from[(size_t)(r + j) * ldx + (size_t)(c + i)];
}

static void transpose16(uint16_t *to, size_t ldo, const uint16_t *from, size_t ldx) {
  enum { B = 32 };
  for (int r = 0; r < P; r += B)
    for (int c = 0; c < P; c += B)
      for (int i = 0; i < B; i++)
        for (int j = 0; j < B; j++)
          to[(size_t)(c + i) * ldo + (size_t)(r + j)] =
              from[(size_t)(r + j) * ldx + (size_t)(c + i)];
}

/* ---- Functions: about 2 units in the last place of their largest value -------------------- */

/* 2^n times a polynomial of the rest; -87 <= x <= 88. */
static inline vec exp_vec(vec x) {
  x = larger(x, all(-87.0f));
  vec shift = x * 0x1.715476p0f + 0x1.8p23f, n = shift - 0x1.8p23f;
  vec r = x - n * 0x1.62e400p-1f - n * 0x1.7f7d1cp-20f;
  vec y = r * (1 / 720.0f) + 1 / 120.0f;
  y = y * r + 1 / 24.0f;
  y = y * r + 1 / 6.0f;
  y = y * r + 0.5f;
  y = y * r * r + r + 1.0f;
  return (vec)((ivec)y + ((ivec)shift << 23));
}
/* x Phi(x), the error function by Abramowitz and Stegun's 7.1.26: 1.5e-7. */
static inline vec gelu_vec(vec x) {
  vec a = larger(x, -x) * 0.70710678f, t = 1 / (1 + 0.3275911f * a);
  vec p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
           0.254829592f) *
          t * exp_vec(-(a * a)) * 0.5f;
  ivec up = x > all(0);
  return x * (vec)((up & (ivec)(1 - p)) | (~up & (ivec)p));
}

/* ---- Rows --------------------------------------------------------------------------------- */

static inline float vec_top(vec v) {
  float top = v[0];
  for (int i = 1; i < LANES; i++) top = v[i] > top ? v[i] : top;
  return top;
}
static inline float vec_sum(vec v) {
  float sum = 0;
  for (int i = 0; i < LANES; i++) sum += v[i];
  return sum;
}

static float row_max(const float *x, int n) {
  vec most[4];
  memcpy(most, x, sizeof most);
  for (int i = 0; i < n; i += 4 * LANES)
    for (int v = 0; v < 4; v++) most[v] = larger(get(x + i + v * LANES), most[v]);
  return vec_top(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

static float row_sum(const float *x, int n) {
  vec total[4] = {{0}};
  for (int i = 0; i < n; i += 4 * LANES)
    for (int v = 0; v < 4; v++) total[v] += get(x + i + v * LANES);
  return vec_sum((total[0] + total[1]) + (total[2] + total[3]));
}

/* e = exp(x * scale + bias), and its sum. */
static float row_exp(float *e, const float *x, float scale, float bias, int n) {
  vec total[4] = {{0}};
  for (int i = 0; i < n; i += 4 * LANES)
    for (int v = 0; v < 4; v++) {
      vec a = exp_vec(get(x + i + v * LANES) * scale + bias);
      put(e + i + v * LANES, a);
      total[v] += a;
    }
  return vec_sum((total[0] + total[1]) + (total[2] + total[3]));
}

/* Mean and variance of a row. */
static void row_stats(float out[2], const float *x, int n) {
  float mean = row_sum(x, n) / (float)n;
  vec total[4] = {{0}};
  for (int i = 0; i < n; i += 4 * LANES)
    for (int v = 0; v < 4; v++) {
      vec d = get(x + i + v * LANES) - mean;
      total[v] += d * d;
    }
  out[0] = mean;
  out[1] = vec_sum((total[0] + total[1]) + (total[2] + total[3])) / (float)n;
}

/* The eight largest of a row, in order. */
static void row_top8(float top[8], const float *x, int n) {
  for (int i = 0; i < 8; i++) top[i] = -INFINITY;
  for (int i = 0; i < n; i += LANES) {
    ivec any = get(x + i) > all(top[7]);
    bool some = false;
    for (int j = 0; j < LANES; j++) some |= any[j] != 0;
    for (int j = 0; some && j < LANES; j++) {
      float v = x[i + j];
      if (v <= top[7]) continue;
      int at = 7;
      for (; at > 0 && top[at - 1] < v; at--) top[at] = top[at - 1];
      top[at] = v;
    }
  }
}

/* h = a h + x for sixteen rows at once: the rows are the lanes. */
static void scan_rows(float *h, const float *a, const float *x, size_t pitch, int n) {
  enum { B = 16 };
  float state[P] = {0}, block[2][B][P];
  for (int i = 0; i < n; i += B) {
    ROWS for (int j = 0; j < B; j++) {
      block[0][j][r] = a[(size_t)r * pitch + (size_t)(i + j)];
      block[1][j][r] = x[(size_t)r * pitch + (size_t)(i + j)];
    }
    for (int j = 0; j < B; j++)
      for (int r = 0; r < P; r++)
        block[0][j][r] = state[r] = block[0][j][r] * state[r] + block[1][j][r];
    ROWS for (int j = 0; j < B; j++) h[(size_t)r * pitch + (size_t)(i + j)] = block[0][j][r];
  }
}

#endif
