/* Conversions between fp32 and every element type: the definition that the array kernels of vm/
 * must meet bit by bit. Written for clarity, one element at a time, in integers only. */
#include "isa.h"

#define F32_NAN 0x7fc00000u
#define F32_INF 0x7f800000u

/* A float of ebits exponent and mbits mantissa bits below a sign, bias 2^(ebits-1) - 1. `max` is
 * the code of the largest finite value, `over` what overflow and infinity give, `nan` the
 * canonical NaN. Codes between max and nan, apart from `over`, are NaNs too. */
typedef struct small_float {
  uint8_t ebits, mbits;
  uint32_t max, over, nan;
} small_float;

/* The largest finite code, then what overflow gives, then the NaN: a row says all that
 * differs. */
static const small_float e3m4 = {3, 4, 0x6f, 0x70, 0x78};
static const small_float e4m3 = {4, 3, 0x77, 0x78, 0x7c};
static const small_float e4m3fn = {4, 3, 0x7e, 0x7f, 0x7f}; /* no infinity */
static const small_float e5m2 = {5, 2, 0x7b, 0x7c, 0x7e};
static const small_float e2m1 = {2, 1, 0x7, 0x7, 0x0}; /* neither infinity nor NaN */
static const small_float half = {5, 10, 0x7bff, 0x7c00, 0x7e00};
static const small_float brain = {8, 7, 0x7f7f, 0x7f80, 0x7fc0};
static const small_float tensor = {8, 10, 0x3fbff, 0x3fc00, 0x3fe00};

/* How a conversion rounds: to nearest even, or up where `random` is below the dropped fraction. */
typedef struct rounding {
  bool stochastic, saturate;
  uint32_t random;
} rounding;

static const small_float *format_of(unsigned dtype) {
  switch (dtype) {
  case ISA_float8_e3m4: return &e3m4;
  case ISA_float8_e4m3: return &e4m3;
  case ISA_float8_e4m3fn:
  case ISA_float8_e4m3fn_x4: return &e4m3fn;
  case ISA_float8_e5m2:
  case ISA_float8_e5m2_x4: return &e5m2;
  case ISA_float4_e2m1fn_x4: return &e2m1;
  case ISA_float16: return &half;
  case ISA_bfloat16: return &brain;
  case ISA_tfloat32: return &tensor;
  default: return NULL;
  }
}

static unsigned bias_of(const small_float *f) { return (1u << (f->ebits - 1)) - 1; }
static unsigned sign_at(const small_float *f) { return (unsigned)f->ebits + f->mbits; }

static float widen(const small_float *f, uint32_t code) {
  uint32_t sign = (code >> sign_at(f) & 1) << 31;
  uint32_t mag = code & ((1u << sign_at(f)) - 1);
  uint32_t exponent = mag >> f->mbits, mantissa = mag & ((1u << f->mbits) - 1);
  /* Infinity, if the type has one, or a NaN.
   * e2m1 has neither: all codes are up to max. */
  if (mag > f->max)
    return isa_bits_f32(mag == f->over && f->over != f->nan ? sign | F32_INF : F32_NAN);
  /* The difference of the biases: fp32's exponent of the type's 1.0 is 127. */
  unsigned rebias = 127 - bias_of(f);
  /* With fp32's own exponents subnormals are shifted, too. */
  if (exponent > 0 || rebias == 0)
    return isa_bits_f32(sign | (exponent + rebias) << 23 | mantissa << (23 - f->mbits));
  /* mantissa * 2^(1 - bias - mbits): a product by a power of two is exact. */
  float unit = isa_bits_f32((rebias + 1 - f->mbits) << 23); /* the type's least subnormal */
  return isa_bits_f32(sign | isa_f32_bits((float)mantissa * unit));
}

/* sig / 2^drop as an integer, sig below 2^24. */
static uint32_t round_off(uint32_t sig, unsigned drop, rounding r) {
  /* Nothing is left of sig then; the shift stays below 64. */
  if (drop > 60) drop = 60;
  uint64_t whole = (uint64_t)sig >> drop;
  uint64_t rest = sig - (whole << drop), tie = (uint64_t)1 << drop >> 1;
  bool up = rest > tie || (rest == tie && drop > 0 && (whole & 1));
  /* The dropped fraction in 32 bits, as the random number.
   * The dropped bits as a fraction of 2^32, so that p(up) is the fraction itself. */
  if (r.stochastic) up = r.random < ((rest << 32) >> drop);
  return (uint32_t)whole + up;
}

static uint32_t narrow(const small_float *f, float x, rounding r) {
  uint32_t u = isa_f32_bits(x), mag = u & 0x7fffffff, sign = u >> 31 << sign_at(f);
  /* The sign of a NaN is dropped: there is one NaN. */
  if (mag > F32_INF) return f->nan;
  /* A subnormal has the exponent of the least normal number. */
  unsigned e = mag >> 23 ? mag >> 23 : 1;
  uint32_t sig = mag >> 23 ? (mag & 0x7fffff) | 0x800000 : mag;
  unsigned drop = 23u - f->mbits, rebias = 127 - bias_of(f), exponent = 1;
  if (e > rebias)
    exponent = e - rebias;
  else
    /* A value below the least normal one loses a bit more for each power of two. */
    drop += rebias + 1 - e; /* a subnormal of the type, or zero */
  /* The leading one of a normal value adds 1 to the exponent, as does a carry out of rounding. */
  uint32_t code = ((exponent - 1) << f->mbits) + round_off(sig, drop, r);
  /* Infinity, and what rounds past the largest. */
  if (mag == F32_INF || code > f->max) code = r.saturate ? f->max : f->over;
  /* Overflow may give the NaN, which has no sign. */
  return code == f->nan && f->nan != 0 ? code : sign | code;
}

/* Nearest power of two, ties to the even code; zero and less than 2^-127 are 2^-127. A negative
 * value, infinity and what rounds to 2^128 have no code near them: NaN. */
static uint32_t to_e8m0(float x, rounding r) {
  uint32_t u = isa_f32_bits(x), mag = u & 0x7fffffff;
  if (mag == 0) return 0;
  if (u >= F32_INF) return 255; /* also the negative ones */
  /* 2^-127 is the least code. */
  if (mag <= 0x400000) return 0;
  if (mag >= 0x800000) {
    /* The exponent is rounded, and odd codes go up: a tie to even there. */
    bool odd_tie = !r.stochastic && (mag & 0xffffff) == 0xc00000; /* round_off takes ties down */
    return (mag >> 23) + round_off(mag & 0x7fffff, 23, r) + odd_tie;
  }
  /* Between 2^-127 and 2^-126. */
  return round_off(mag - 0x400000, 22, r);
}

/* Nearest even, saturated to an integer of `bits` bits; NaN gives 0. */
static uint32_t to_int(float x, unsigned bits, bool is_signed) {
  uint32_t u = isa_f32_bits(x), mag = u & 0x7fffffff;
  bool negative = u >> 31;
  if (mag > F32_INF) return 0;
  /* There is one more negative integer than positive ones.
   * -128 fits int8, 128 does not. */
  uint64_t limit = is_signed ? ((uint64_t)1 << (bits - 1)) - !negative
                             : (negative ? 0 : ((uint64_t)1 << bits) - 1);
  unsigned e = mag >> 23;
  uint32_t sig = e ? (mag & 0x7fffff) | 0x800000 : mag;
  uint64_t v;
  /* Larger than any integer of 32 bits.
   * 150 is the exponent at which sig is a whole number: 127 + 23. */
  if (e >= 150 + 16)
    v = UINT64_MAX;
  else if (e >= 150)
    v = (uint64_t)sig << (e - 150);
  else
    v = round_off(sig, 150 - e, (rounding){0});
  if (v > limit) v = limit;
  return (uint32_t)(negative ? 0 - v : v) & (uint32_t)(((uint64_t)1 << bits) - 1);
}

/* Two's complement: the value below 0 is what is missing to 2^width. */
static float from_int(uint32_t bits, unsigned width, bool is_signed) {
  uint32_t mask = (uint32_t)(((uint64_t)1 << width) - 1);
  bits &= mask;
  return is_signed && bits >> (width - 1) ? -(float)(mask - bits + 1) : (float)bits;
}

float isa_to_f32(unsigned dtype, uint32_t bits) {
  if (!isa_dtype_valid(dtype)) return isa_bits_f32(F32_NAN);
  unsigned width = isa_dtypes[dtype].bits;
  if (isa_dtype_is_int(dtype) && width <= 32)
    return from_int(bits, width, isa_dtypes[dtype].cls == ISA_INT);
  switch (dtype) {
  case ISA_float32: return isa_bits_f32(bits);
  case ISA_bool: return (bits & 0xff) != 0 ? 1.0f : 0.0f;
  case ISA_float8_e8m0fnu:
    /* Code 0 is 2^-127, where fp32 has no normal number; other codes are fp32's
     * exponents. */
    bits &= 0xff;
    /* 2^-127 is a subnormal of fp32. */
    return isa_bits_f32(bits == 255 ? F32_NAN : bits == 0 ? 0x400000 : bits << 23);
  /* The low 13 bits do not exist in the type. */
  case ISA_tfloat32: return widen(&tensor, bits >> 13);
  default: break;
  }
  if (isa_dtypes[dtype].cls != ISA_FLOAT) return isa_bits_f32(F32_NAN);
  return widen(format_of(dtype), bits & ((1u << width) - 1));
}

static uint32_t convert(unsigned dtype, float x, rounding r) {
  if (!isa_dtype_valid(dtype)) return 0;
  unsigned width = isa_dtypes[dtype].bits;
  if (isa_dtype_is_int(dtype))
    return width > 32 ? 0 : to_int(x, width, isa_dtypes[dtype].cls == ISA_INT);
  switch (dtype) {
  /* All NaNs become one.
   * x != x holds for NaN alone. */
  case ISA_float32: return x != x ? F32_NAN : isa_f32_bits(x);
  case ISA_bool: return x != 0;
  case ISA_float8_e8m0fnu: return to_e8m0(x, r);
  case ISA_tfloat32: return narrow(&tensor, x, r) << 13;
  default: return isa_dtypes[dtype].cls == ISA_FLOAT ? narrow(format_of(dtype), x, r) : 0;
  }
}

/* Only this type may: the run's option says whether it has a NaN or the largest for
 * overflow. */
static bool saturates(unsigned dtype, unsigned cvt) {
  return dtype == ISA_float8_e4m3fn && (cvt & ISA_CVT_saturate);
}

uint32_t isa_from_f32(unsigned dtype, float x, unsigned cvt) {
  return convert(dtype, x, (rounding){.saturate = saturates(dtype, cvt)});
}

uint32_t isa_from_f32_sr(unsigned dtype, float x, unsigned cvt, uint32_t random) {
  rounding r = {.stochastic = true, .saturate = saturates(dtype, cvt), .random = random};
  return convert(dtype, x, r);
}

/* Four numbers in an element, lane 0 in the lowest bits. */
float isa_lane_to_f32(unsigned dtype, uint32_t bits, unsigned lane) {
  if (!isa_dtype_valid(dtype) || isa_dtypes[dtype].cls != ISA_PACK) return isa_bits_f32(F32_NAN);
  if (lane >= isa_dtypes[dtype].lanes) return isa_bits_f32(F32_NAN);
  unsigned width = isa_dtypes[dtype].bits / isa_dtypes[dtype].lanes;
  return widen(format_of(dtype), bits >> (lane * width) & ((1u << width) - 1));
}

uint32_t isa_lane_from_f32(unsigned dtype, float x) {
  /* An x4 type has no room for infinity, so its lanes always saturate. */
  if (!isa_dtype_valid(dtype) || isa_dtypes[dtype].cls != ISA_PACK) return 0;
  return narrow(format_of(dtype), x, (rounding){.saturate = true});
}
