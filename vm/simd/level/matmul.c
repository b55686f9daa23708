/* Matrix multiply in exact order: each output is one chain of fused multiply-adds over ascending
 * k, whatever the width of the vectors, because lanes are columns.
 *
 *            NR columns
 *      k  [ panel: x repacked, contiguous ]        The accumulators of an MR x NR tile stay in
 *      MR [ tile of out ] = w[k][m..] * panel      registers for all k; panel stays in L1.
 *
 * Repacking widens 16-bit elements, takes the pitch of SBUF partitions out of the inner loop, and
 * pads the last panel with zeros up to a whole number of vectors: of 128 columns in panels of three
 * vectors of 16 the last one has two. Sums go from the registers to where they are kept, added to
 * what is there where that is asked for. */
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
KERN_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
KERN_INLINE vec vec_canon(vec v) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v,
                              vec_all(isa_bits_f32(0x7fc00000)));
}
#elif defined(__AVX2__) && defined(__FMA__)
enum { LANES = 8, ROWS = 6, VECS = 2 };
typedef __m256 vec;
KERN_INLINE vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
KERN_INLINE vec vec_all(float x) { return _mm256_set1_ps(x); }
KERN_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
KERN_INLINE void vec_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
KERN_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
KERN_INLINE vec vec_canon(vec v) {
  return _mm256_blendv_ps(v, vec_all(isa_bits_f32(0x7fc00000)), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
#elif defined(__aarch64__)
enum { LANES = 4, ROWS = 8, VECS = 3 };
typedef float32x4_t vec;
KERN_INLINE vec vec_load(const float *p) { return vld1q_f32(p); }
KERN_INLINE vec vec_all(float x) { return vdupq_n_f32(x); }
KERN_INLINE vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
KERN_INLINE void vec_store(float *p, vec v) { vst1q_f32(p, v); }
KERN_INLINE vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
KERN_INLINE vec vec_canon(vec v) {
  return vbslq_f32(vceqq_f32(v, v), v, vec_all(isa_bits_f32(0x7fc00000)));
}
#else
#define MM_SCALAR
enum { LANES = 1, ROWS = 1, VECS = 64 };
#endif
enum { NR = LANES * VECS, MR = ROWS };

/* Rows m, columns n of sums into out or added to it, with canonical NaNs (hosts differ in the NaN
 * that an operation gives). */
static void emit(float *out, size_t ldo, const float *sums, unsigned m, unsigned n, bool add) {
  for (unsigned r = 0; r < m; r++, out += ldo, sums += NR) {
    KERN_LOOP
    for (unsigned j = 0; j < n; j++) out[j] = kern_canon(add ? out[j] + sums[j] : sums[j]);
  }
}

/* A tile of out, whose columns are whole vectors, `vecs` of them: the sums, or what is there plus
 * them. */
#ifdef MM_SCALAR
/* Without the instruction the emulation takes the time, so one row is enough. */
static void tile(float *out, size_t ldo, const float *w, size_t ldw, const float *panel, unsigned k,
                 bool add, unsigned vecs) {
  float acc[NR] = {0};
  for (unsigned i = 0; i < k; i++) {
    float weight = w[i * ldw];
    const float *x = panel + (size_t)i * NR;
    KERN_LOOP
    for (unsigned j = 0; j < vecs; j++) acc[j] = kern_fma(weight, x[j], acc[j]);
  }
  emit(out, ldo, acc, MR, vecs, add);
}
#else
KERN_INLINE void tile_of(unsigned vecs, float *out, size_t ldo, const float *w, size_t ldw,
                         const float *panel, unsigned k, bool add) {
  vec acc[MR][VECS];
  KERN_UNROLL(8)
  for (unsigned r = 0; r < MR; r++) KERN_UNROLL(4)
  /* Zero, not the old value: the sum of a product is added to it once at the end (isa/README.md,
   * Numbers). */
  for (unsigned v = 0; v < vecs; v++) acc[r][v] = vec_all(0);
  for (unsigned i = 0; i < k; i++, w += ldw, panel += NR) {
    vec x[VECS];
    KERN_UNROLL(4)
    for (unsigned v = 0; v < vecs; v++) x[v] = vec_load(panel + v * LANES);
    KERN_UNROLL(8)
    for (unsigned r = 0; r < MR; r++) {
      /* One weight for a row of the tile, broadcast over the columns. */
      vec weight = vec_all(w[r]);
      KERN_UNROLL(4)
      for (unsigned v = 0; v < vecs; v++) acc[r][v] = vec_fma(weight, x[v], acc[r][v]);
    }
  }
  KERN_UNROLL(8)
  for (unsigned r = 0; r < MR; r++, out += ldo) {
    KERN_UNROLL(4)
    for (unsigned v = 0; v < vecs; v++) {
      /* One addition per element, after the chain. */
      vec sum = add ? vec_add(vec_load(out + v * LANES), acc[r][v]) : acc[r][v];
      vec_store(out + v * LANES, vec_canon(sum));
    }
  }
}

KERN_ALONE void tile(float *out, size_t ldo, const float *w, size_t ldw, const float *panel,
                     unsigned k, bool add, unsigned vecs) {
  /* The number of vectors is a constant in each copy, so that the accumulators are registers. */
  if (vecs == VECS)
    tile_of(VECS, out, ldo, w, ldw, panel, k, add);
  else if (VECS > 2 && vecs == 2)
    tile_of(2, out, ldo, w, ldw, panel, k, add);
  else
    tile_of(1, out, ldo, w, ldw, panel, k, add);
}
#endif

/* n elements of a row of x as fp32, zeros up to `wide`. A NaN may keep its payload: sums become
 * canonical. */
KERN_INLINE void pack_row(float *panel, const uint8_t *x, unsigned n, unsigned wide, bool bf16) {
  if (bf16) {
    KERN_LOOP
    for (unsigned j = 0; j < n; j++) {
      /* A NaN's payload does not matter, see above. */
      uint16_t bits;
      memcpy(&bits, x + 2 * j, sizeof bits);
      panel[j] = isa_bits_f32((uint32_t)bits << 16);
    }
  } else {
    memcpy(panel, x, n * sizeof *panel);
  }
  if (n < wide) memset(panel + n, 0, (wide - n) * sizeof *panel);
}

/* Columns of x from `at` on to the panel: k rows of NR, the columns past n zero up to `wide`. */
static void pack(float *panel, const vm_product *p, const uint8_t *at, unsigned n, unsigned wide) {
  bool bf16 = p->dtype == ISA_bfloat16;
  for (unsigned i = 0; i < p->k; i++, at += p->step, panel += NR) {
    /* Constant sizes for the usual panel: the loop is unrolled. */
    if (n == NR && bf16)
      pack_row(panel, at, NR, NR, true);
    else if (n == NR)
      pack_row(panel, at, NR, NR, false);
    else
      pack_row(panel, at, n, wide, bf16);
  }
}

static void matmul(const vm_product *p) {
  float panel[4 * ISA_PMAX * NR], last[4 * ISA_PMAX * MR], aside[MR * NR];
  const uint8_t *x = p->x;
  size_t esize = isa_dtype_bytes(p->dtype);
  unsigned k = p->k, m = p->m;
  unsigned whole = m / MR * MR; /* rows in whole tiles; the others' weights go to `last` */
  for (unsigned i = 0; i < k && whole < m; i++)
    for (unsigned r = 0; r < MR; r++)
      last[i * MR + r] = whole + r < m ? p->w[i * p->ldw + whole + r] : 0;
  for (unsigned j = 0; j < p->n; j += NR) {
    unsigned cols = p->n - j < NR ? p->n - j : NR;
    unsigned vecs = (cols + LANES - 1) / LANES;
    pack(panel, p, x + j * esize, cols, vecs * LANES);
    for (unsigned r = 0; r < m; r += MR) {
      float *at = p->out + r * p->ldo + j;
      const float *w = r < whole ? p->w + r : last;
      size_t ldw = r < whole ? p->ldw : MR;
      unsigned rows = r < whole ? MR : m - whole;
      if (rows == MR && cols == vecs * LANES) {
        tile(at, p->ldo, w, ldw, panel, k, p->add, vecs);
      } else {
        tile(aside, NR, w, ldw, panel, k, false, vecs);
        emit(at, p->ldo, aside, rows, cols, p->add);
      }
    }
  }
}

void KERN(mm_fill)(vm_kern *k) { k->matmul = matmul; }
