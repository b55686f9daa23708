/* Conversions (dtype.c): isa/README.md's Numbers, in C. Part of isa.h. */
#ifndef ISA_CONVERT_H
#define ISA_CONVERT_H

#include <stdint.h>

/* Options of a conversion to a narrower float. */
enum isa_cvt { ISA_CVT_saturate = 1 }; /* float8_e4m3fn overflow gives 448, not NaN */
/* Element bits (in the low end) to fp32. 32-bit integers round to nearest even; NaN becomes the
 * canonical 7fc00000 for float types except float32, whose payload is kept (the arithmetic that
 * follows canonicalises). Not for packed and 64-bit types: gives NaN. */
float isa_to_f32(unsigned dtype, uint32_t bits);
/* fp32 to element bits: round to nearest even, integers saturate (NaN gives 0), floats overflow
 * to infinity or NaN (isa/README.md), NaN becomes the type's canonical NaN. bool: 1 unless x is 0.
 * float8_e8m0fnu: the nearest power of two, ties to the even code, zero to 2^-127; NaN for negative
 * values and above 1.5 * 2^127. */
uint32_t isa_from_f32(unsigned dtype, float x, unsigned cvt);
/* The same with stochastic rounding to the floats of 19 bits and less: up when random is below the
 * dropped fraction times 2^32. Other types as isa_from_f32. */
uint32_t isa_from_f32_sr(unsigned dtype, float x, unsigned cvt, uint32_t random);
/* One lane of a packed type, lane 0 lowest: its fp32 value, and back (round to nearest even;
 * infinity and overflow give the largest finite value, NaN the type's NaN, in float4 zero). */
float isa_lane_to_f32(unsigned dtype, uint32_t bits, unsigned lane);
uint32_t isa_lane_from_f32(unsigned dtype, float x);

static inline uint32_t isa_f32_bits(float x) {
  union {
    float f;
    uint32_t u;
  } v = {.f = x};
  return v.u;
}
static inline float isa_bits_f32(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {.u = u};
  return v.f;
}

#endif
