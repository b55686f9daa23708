/* Array kernels: the numeric inner loops, one table per SIMD level, every level the same bits.
 *
 * Each file of level/ is compiled once per level (plain C; on x86-64 also avx2 and avx512) with
 * KERN(name) pasting the level into its symbols, so the loops are written once and no level can
 * drift. Floating-point contraction is off; a fused multiply-add is written as vm_fma. Scalar
 * meaning of operators and functions: alu.c and actfn.c, which are the oracle of these loops. */
#ifndef VM_KERN_H
#define VM_KERN_H

#include "../../isa/isa.h"

/* out[m][n] (ldo floats per row) = sum over ascending k of fma(w[k][m], x[k][n], sum), from +0
 * on; with `add` out + that sum. NaNs are canonical. w has ldw floats per row; x has rows
 * `step` bytes apart, of float32 or bfloat16. K <= 512 (MX), M <= 128; any N. out shares no
 * byte with w and x. */
typedef struct vm_product {
  float *out;
  size_t ldo, ldw;
  const float *w;
  const void *x;
  ptrdiff_t step;
  uint8_t dtype; /* of x */
  bool add;
  unsigned k, m, n;
} vm_product;

/* An activation function is applied to x * scale + bias, two roundings. With VM_ACT_AS_IS that is
 * x. */
typedef struct vm_act {
  float scale, bias;
  float param; /* prelu's slope for negative inputs; others ignore it */
} vm_act;
#define VM_ACT_AS_IS ((vm_act){1, -0.0f, 0})

/* Rows of VM_OCTET elements: those of d, a and b begin so many floats apart; with a step of 0 all
 * are the same row. */
enum { VM_OCTET = 8 };
typedef struct vm_octets {
  float *d;
  const float *a, *b;
  ptrdiff_t d_step, a_step, b_step;
  size_t rows;
} vm_octets;

typedef struct vm_kern {
  const char *name; /* "plain" "avx2" "avx512" */
  /* n contiguous elements to fp32 and back (isa/README.md's Numbers). cvt: isa_cvt flags. Types
   * without an fp32 meaning (packed, 64-bit) have NULL. */
  void (*load[ISA_NDTYPES])(float *dst, const void *src, size_t n);
  void (*store[ISA_NDTYPES])(void *dst, const float *src, size_t n, unsigned cvt);
  /* The same to bfloat16 with stochastic rounding, isa_from_f32_sr with random[i]. */
  void (*store_bf16_sr)(void *dst, const float *src, const uint32_t *random, size_t n);
  /* d[i] = hash of from + i * 0x9e3779b9: 32 bits, xor-shifted and multiplied twice. */
  void (*random)(uint32_t *d, uint32_t from, size_t n);
  /* n elements of esize (1, 2, 4, 8) bytes, step bytes apart, to contiguous ones that share no byte
   * with them; and back. */
  void (*gather)(void *dst, const void *src, ptrdiff_t step, size_t n, unsigned esize);
  void (*scatter)(void *dst, ptrdiff_t step, const void *src, size_t n, unsigned esize);
  /* Rows of 4 to 64 bytes between places that are steps apart, and that are either the same bytes
   * or share none. */
  void (*rows)(void *dst, ptrdiff_t dst_step, const void *src, ptrdiff_t src_step, size_t rows,
               size_t bytes);
  /* Arithmetic operators in fp32, one rounding each, NaN results canonical: d = a op b for
   * vectors, d = a op s and d = s op a for a scalar. Unary operators ignore the second. d may be
   * a or b. */
  void (*alu_vv[ISA_NALUOPS])(float *d, const float *a, const float *b, size_t n);
  void (*alu_vs[ISA_NALUOPS])(float *d, const float *a, float s, size_t n);
  void (*alu_sv[ISA_NALUOPS])(float *d, float s, const float *a, size_t n);
  /* alu_vv of bfloat16 elements at any address, rounded once more; NULL for unary and rare
   * operators. */
  void (*alu_halves[ISA_NALUOPS])(void *d, const void *a, const void *b, size_t n);
  /* alu_vv of each row, for tiles so narrow that a call per row would take most of the time. The
   * rows of d are those of a or b, in place, or share no byte with them. */
  void (*alu_rows[ISA_NALUOPS])(const vm_octets *t);
  /* d = x * scale + bias and d = (x + bias) * scale, two roundings each. d may be x. */
  void (*scale_bias)(float *d, const float *x, float scale, float bias, size_t n);
  void (*bias_scale)(float *d, const float *x, float bias, float scale, size_t n);
  /* d = fn(x * scale + bias). d may be x. */
  void (*actfn[ISA_NACTFNS])(float *d, const float *x, const vm_act *a, size_t n);
  /* The same with fn = exp, and the results added to sixteen partials as `partial` does; NULL if
   * that is no more than the two calls. */
  void (*exp_sum)(float *d, float part[16], const float *x, const vm_act *a, size_t n);
  /* Sixteen interleaved partials: part[i % 16] op= x[i]; x[0] belongs to part[0], so split a
   * long row at multiples of 16. A NaN partial comes back canonical. op is add, mult, max or min
   * (subtract: the caller's affair). */
  void (*partial[ISA_NALUOPS])(float part[16], const float *x, size_t n);
  /* out[r] = the combined partials of row r alone, n (at least 1) elements from x + r * step on. */
  void (*reduce[ISA_NALUOPS])(float *out, const float *x, ptrdiff_t step, size_t rows, size_t n);
  /* d[r * n + i] = s[r], i < n; n at most 16. */
  void (*spread)(float *d, const float *s, size_t rows, size_t n);
  void (*matmul)(const vm_product *p);
  /* a = a op b on bit patterns of `width` bits in 32-bit elements, the meaning of vm_alu_bits. The
   * bits of a and b above width are 0, those of the result unspecified. */
  void (*bits)(unsigned op, uint32_t *a, const uint32_t *b, size_t n, unsigned width,
               bool is_signed);
  /* a = a op b on 32-bit integers, the meaning of vm_alu_i32. */
  void (*words)(unsigned op, uint32_t *a, const uint32_t *b, size_t n, bool is_signed);
  /* d = from + i * step, wrapping. */
  void (*ramp)(uint32_t *d, uint32_t from, uint32_t step, size_t n);
  /* That ramp's value is taken as signed: keep[0] is the mask of the bits of x that d keeps where
   * it is negative, keep[1] where it is zero, keep[2] where it is positive; the other bits are
   * fill's. d may be x. */
  void (*choose)(uint32_t *d, const uint32_t *x, uint32_t fill, uint32_t from, uint32_t step,
                 const uint32_t keep[3], size_t n);
  /* mask[i] = all ones where element i of pred, esize (1, 2, 4) bytes each, is not 0, else 0; with
   * reverse the other way. */
  void (*mask)(uint32_t *mask, const void *pred, size_t n, unsigned esize, bool reverse);
  /* d = mask ? a : b, elements of esize (1, 2, 4) bytes at any address; mask is all ones or 0. d
   * may be a or b. */
  void (*merge)(void *d, const uint32_t *mask, const void *a, const void *b, size_t n,
                unsigned esize);
  /* The first i with x[i] == v (no NaN is equal, the two zeros are), n if none exists. */
  size_t (*find)(const float *x, float v, size_t n);
  /* Whether one of n numbers of 4 or 2 bytes, at any address, has all bits of `exponent`: an
   * infinity or a NaN. */
  bool (*special)(const void *x, size_t n, unsigned esize, uint32_t exponent);
  /* The sums of the elements with even and with odd number, or with spread of (x[i] - mean[i % 2])
   * squared; each by sixteen partials, with canonical NaNs. */
  void (*bn_sums)(float sum[2], const float *x, const float mean[2], bool spread, size_t n);
  /* n steps of state = a * state + b (two roundings, canonical) in each of `lanes` lanes; out is
   * the state after each step. a, b and out have the lanes of a step, then those of the next. */
  void (*scan)(float *out, float *state, const float *a, const float *b, size_t lanes, size_t n);
  /* Takes n elements into the eight largest so far, in descending order of keys: a float's key is
   * its bits, those below the sign flipped if it is set; a NaN's is INT32_MIN. */
  void (*top8)(int32_t top[8], const float *x, size_t n);
} vm_kern;

/* Fills *out with the best table this host can run, at most `limit` ("plain", "avx2", "avx512",
 * NULL: no limit). False when limit names no level: *out is then untouched. */
bool vm_kern_select(const char *limit, vm_kern *out);
extern const char *const vm_kern_levels[]; /* from the lowest, ended by NULL */

/* Element c of row r of `from` becomes element r of row c of `to`, steps in bytes from row to row,
 * of rows x cols elements of esize (1, 2, 4, 8) bytes at any address. They share no byte. */
void vm_kern_turn(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                  size_t cols, unsigned esize);

/* Rows of that many bytes between places that are steps apart, and that are either the same bytes
 * or share none. bytes: at least 1; far: the source is probably in no cache. */
void vm_kern_copy(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                  size_t bytes, bool far);
/* The same past the caches; false if the host cannot do that, or not with such rows: nothing is
 * copied. And zeros. Another thread sees the bytes after vm_kern_streamed. */
bool vm_kern_stream(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                    size_t bytes);
void vm_kern_stream_zeros(void *to, size_t bytes);
void vm_kern_streamed(void);

/* The sixteen partials of `partial` combined: i with i+8, i+4, i+2, i+1. */
float vm_kern_combine(unsigned op, const float part[16]);
/* Starting value of a reduction: +0 for add and abs_max, 1 for mult, -inf for max, +inf for min and
 * abs_min. */
float vm_kern_identity(unsigned op);

/* Scalar meaning of an arithmetic operator (alu.c): one rounding, canonical NaN. Unary operators
 * ignore b; other operators give NaN. max, min, abs_max and abs_min skip a NaN; relu keeps it.
 * average is half the rounded sum; rsqrt is correctly rounded. Oracle of alu_vv and friends. */
float vm_alu_f32(unsigned op, float a, float b);
/* Bitvec operators on the low `bits` bits; is_signed matters to arith_shift_right only. Shifts
 * by the width or more give 0 (arithmetic: the sign). */
uint32_t vm_alu_bits(unsigned op, uint32_t a, uint32_t b, unsigned bits, bool is_signed);
/* Native 32-bit integers (tensor_tensor on gpsimd): wrapping. is_signed for compares, min, max.
 * divide truncates, mod has the divisor's sign, both are 0 for a zero divisor; average rounds
 * down; rsqrt and reciprocal go through fp32; bitvec operators as vm_alu_bits. */
uint32_t vm_alu_i32(unsigned op, uint32_t a, uint32_t b, bool is_signed);
/* Scalar meaning of an activation function (actfn.c): within 1 ulp over the valid range. */
float vm_actfn_f32(unsigned fn, float x, float param);
/* Parts of vm_alu_f32 (pow.c). pow: as IEEE 754 has it, within 1 ulp. mod: a - b * floor(a / b)
 * from the exact remainder, its sign that of b; NaN for infinite a or zero b. */
float vm_pow_f32(float a, float b);
float vm_mod_f32(float a, float b);
/* a * b + c rounded once, on every host; NaN canonical. */
float vm_fma(float a, float b, float c);

#endif
