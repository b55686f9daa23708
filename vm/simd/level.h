/* What the files compiled once per SIMD level share (private to level/, alu.c and actfn.c).
 *
 * A level is a set of compiler flags and -DKERN_LEVEL=plain|avx2|avx512, whose name KERN() pastes
 * into each external symbol. Loops are plain C for the compiler to vectorise: no branch, no call
 * that is not inlined, and KERN_LOOP in front, since a destination may be one of the sources
 * (the same elements, never shifted ones), which no alias analysis can know. */
#ifndef VM_KERN_LEVEL_H
#define VM_KERN_LEVEL_H

#include "loops.h"

#include <float.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if FLT_EVAL_METHOD != 0
#error "float arithmetic must be done in float: excess precision changes results"
#endif

#define KERN_PASTE2(level, name) vm_##level##_##name
#define KERN_PASTE(level, name) KERN_PASTE2(level, name)
#define KERN(name) KERN_PASTE(KERN_LEVEL, name)

/* Each file of level/ sets its own part of the table, and only that. */
#define KERN_DECLARE(level)                      \
  void KERN_PASTE(level, cvt_fill)(vm_kern * k); \
  void KERN_PASTE(level, alu_fill)(vm_kern * k); \
  void KERN_PASTE(level, sum_fill)(vm_kern * k); \
  void KERN_PASTE(level, mm_fill)(vm_kern * k);  \
  void KERN_PASTE(level, int_fill)(vm_kern * k); \
  void KERN_PASTE(level, act_fill)(vm_kern * k);
KERN_DECLARE(plain)
#if defined(__x86_64__)
KERN_DECLARE(avx2)
KERN_DECLARE(avx512)
#endif

#define KERN_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KERN_LOOP KERN_PRAGMA(clang loop vectorize(assume_safety))
#pragma clang diagnostic ignored "-Wpass-failed" /* sanitized builds do not vectorise */
#define KERN_UNROLL(n) KERN_PRAGMA(clang loop unroll_count(n))
#define KERN_STEP_LOOP KERN_PRAGMA(clang loop vectorize(disable) unroll(disable))
#elif defined(__GNUC__)
#define KERN_LOOP KERN_PRAGMA(GCC ivdep)
#define KERN_UNROLL(n) KERN_PRAGMA(GCC unroll n)
#define KERN_STEP_LOOP /* a loop over whole vectors, which is to stay one */
#else
#define KERN_LOOP
#define KERN_UNROLL(n)
#define KERN_STEP_LOOP
#endif

#if defined(__GNUC__)
#define KERN_INLINE static inline __attribute__((always_inline, unused))
/* A function that needs all registers: inlined, it would share them with its caller. */
#define KERN_ALONE static __attribute__((noinline))
#else
#define KERN_INLINE static inline
#define KERN_ALONE static
#endif

#define KERN_NAN 0x7fc00000u

/* c ? a : b of bits. It is written as a mask: gcc turns a chain of ?: into a web of conditions that
 * takes several times as long. */
KERN_INLINE uint32_t kern_pick(bool c, uint32_t a, uint32_t b) {
  uint32_t m = 0u - (uint32_t)c;
  return (a & m) | (b & ~m);
}
KERN_INLINE float kern_pick_f32(bool c, float a, float b) {
  return isa_bits_f32(kern_pick(c, isa_f32_bits(a), isa_f32_bits(b)));
}

/* The value with any NaN made canonical. */
KERN_INLINE float kern_canon(float x) {
  return isa_bits_f32(kern_pick(x != x, KERN_NAN, isa_f32_bits(x)));
}

/* fp32, any NaN canonical, to nearest even at bit `drop`: the bits from there on are the result's,
 * the caller removes the others. A canonical NaN stays one. */
KERN_INLINE uint32_t kern_round_at(float x, unsigned drop) {
  uint32_t u = isa_f32_bits(x);
  return u + ((1u << (drop - 1)) - 1) + (u >> drop & 1);
}

KERN_INLINE uint64_t kern_f64_bits(double x) {
  union {
    double f;
    uint64_t u;
  } v = {.f = x};
  return v.u;
}
KERN_INLINE double kern_bits_f64(uint64_t u) {
  union {
    uint64_t u;
    double f;
  } v = {.u = u};
  return v.f;
}

/* a * b + c rounded once, inline (vm_fma). Without the instruction: the product is exact in
 * double, and rounding the sum to odd keeps what the last rounding needs to know (Boldo and
 * Melquiond, "Emulation of a FMA and correctly rounded sums"). A NaN's payload is unspecified. */
KERN_INLINE float kern_fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  double p = (double)a * (double)b, q = c;
  double s = p + q, v = s - p;
  double err = (p - (s - v)) + (q - v); /* exact; NaN when s is not finite */
  uint64_t u = kern_f64_bits(s);
  /* If s is even and inexact, it steps to its odd neighbour on the side of err. */
  bool up = (err > 0) == (s > 0);
  uint64_t odd = up ? u | 1 : u - 1;
  bool step = ((err > 0) | (err < 0)) & ((u & 1) == 0);
  return (float)kern_bits_f64(step ? odd : u);
#endif
}

/* The IEEE square root, without a call to libm where the host has the instruction. */
KERN_INLINE double kern_sqrt(double x) {
#if defined(__x86_64__) && !defined(__NO_MATH_ERRNO__)
  return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));
#elif defined(__aarch64__) && !defined(__NO_MATH_ERRNO__)
  return vget_lane_f64(vsqrt_f64(vdup_n_f64(x)), 0);
#else
  return __builtin_sqrt(x);
#endif
}

#endif
