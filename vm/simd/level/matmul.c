/* Matrix multiply in exact order: each output is one chain of fused multiply-adds over ascending
 * k, whatever the width of the vectors, because lanes are columns.
 *
 *            NR columns
 *      k  [ panel: x repacked, contiguous ]        The accumulators of an MR x NR tile stay in
 *      MR [ tile of out ] = w[k][m..] * panel      registers for all k; panel stays in L1.
 *
 * Repacking takes the pitch of SBUF partitions out of the inner loop, and pads the last panel
 * with zeros so that only whole tiles are computed. */
#include "../level.h"

#include <string.h>

/* Registers hold ROWS * VECS accumulators, VECS columns of the panel and one weight. */
#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 8, VECS = 3 };
typedef __m512 vec;
KERN_INLINE vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
KERN_INLINE vec vec_all(float x) { return _mm512_set1_ps(x); }
KERN_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
KERN_INLINE void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
#elif defined(__AVX2__) && defined(__FMA__)
enum { LANES = 8, ROWS = 6, VECS = 2 };
typedef __m256 vec;
KERN_INLINE vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
KERN_INLINE vec vec_all(float x) { return _mm256_set1_ps(x); }
KERN_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
KERN_INLINE void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
#elif defined(__aarch64__)
enum { LANES = 4, ROWS = 8, VECS = 3 };
typedef float32x4_t vec;
KERN_INLINE vec vec_load(const float *p) { return vld1q_f32(p); }
KERN_INLINE vec vec_all(float x) { return vdupq_n_f32(x); }
KERN_INLINE vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
KERN_INLINE void vec_store(float *p, vec v) { vst1q_f32(p, v); }
#else
#define MM_SCALAR
enum { LANES = 1, ROWS = 1, VECS = 64 };
#endif
enum { NR = LANES * VECS, MR = ROWS };

#ifdef MM_SCALAR
/* Without the instruction the emulation is the cost, so one row is enough. */
static void tile(float *out, size_t ldo, const float *w, size_t ldw, const float *panel,
                 unsigned k) {
  float acc[NR] = {0};
  (void)ldo;
  for (unsigned i = 0; i < k; i++) {
    float weight = w[i * ldw];
    const float *x = panel + (size_t)i * NR;
    KERN_LOOP
    for (unsigned j = 0; j < NR; j++) acc[j] = kern_fma(weight, x[j], acc[j]);
  }
  memcpy(out, acc, sizeof acc);
}
#else
static void tile(float *out, size_t ldo, const float *w, size_t ldw, const float *panel,
                 unsigned k) {
  vec acc[MR][VECS];
  KERN_UNROLL(8)
  for (unsigned r = 0; r < MR; r++) KERN_UNROLL(4)
  for (unsigned v = 0; v < VECS; v++) acc[r][v] = vec_all(0);
  for (unsigned i = 0; i < k; i++, w += ldw, panel += NR) {
    vec x[VECS];
    KERN_UNROLL(4)
    for (unsigned v = 0; v < VECS; v++) x[v] = vec_load(panel + v * LANES);
    KERN_UNROLL(8)
    for (unsigned r = 0; r < MR; r++) {
      vec weight = vec_all(w[r]);
      KERN_UNROLL(4)
      for (unsigned v = 0; v < VECS; v++) acc[r][v] = vec_fma(weight, x[v], acc[r][v]);
    }
  }
  KERN_UNROLL(8)
  for (unsigned r = 0; r < MR; r++) KERN_UNROLL(4)
  for (unsigned v = 0; v < VECS; v++) vec_store(out + r * ldo + v * LANES, acc[r][v]);
}
#endif

/* Columns of x to the panel: k rows of NR, the columns past n zero. */
static void pack(float *panel, const float *x, size_t ldx, unsigned k, unsigned n) {
  for (unsigned i = 0; i < k; i++, x += ldx, panel += NR) {
    if (n == NR) {
      memcpy(panel, x, NR * sizeof *x);
    } else {
      memcpy(panel, x, n * sizeof *x);
      memset(panel + n, 0, (NR - n) * sizeof *x);
    }
  }
}

/* Rows m, columns n of a tile computed in place or aside, into out with canonical NaNs (hosts
 * differ in the NaN a multiply-add gives). */
static void emit(float *out, size_t ldo, const float *from, size_t ldf, unsigned m, unsigned n) {
  for (unsigned r = 0; r < m; r++, out += ldo, from += ldf) {
    KERN_LOOP
    for (unsigned j = 0; j < n; j++) out[j] = kern_canon(from[j]);
  }
}

static void matmul(float *out, size_t ldo, const float *w, size_t ldw, const float *x, size_t ldx,
                   unsigned k, unsigned m, unsigned n) {
  float panel[4 * ISA_PMAX * NR], last[4 * ISA_PMAX * MR], aside[MR * NR];
  unsigned whole = m / MR * MR; /* rows in whole tiles; the others' weights go to `last` */
  for (unsigned i = 0; i < k; i++)
    for (unsigned r = 0; r < MR; r++) last[i * MR + r] = whole + r < m ? w[i * ldw + whole + r] : 0;
  for (unsigned j = 0; j < n; j += NR) {
    unsigned cols = n - j < NR ? n - j : NR;
    pack(panel, x + j, ldx, k, cols);
    for (unsigned r = 0; r < m; r += MR) {
      float *at = out + r * ldo + j;
      unsigned rows = r < whole ? MR : m - whole;
      bool fits = rows == MR && cols == NR;
      tile(fits ? at : aside, fits ? ldo : NR, r < whole ? w + r : last, r < whole ? ldw : MR,
           panel, k);
      emit(at, ldo, fits ? at : aside, fits ? ldo : NR, rows, cols);
    }
  }
}

void KERN(mm_fill)(vm_kern *k) { k->matmul = matmul; }
