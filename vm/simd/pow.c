/* The operators that need more than a line of arithmetic, without libm: pow and mod. */
#include "level.h"

#define INF 0x7f800000u

static double horner(const double *c, unsigned n, double x) {
  double sum = 0;
  for (unsigned i = 0; i < n; i++) sum = sum * x + c[i];
  return sum;
}

/* Logarithm to base 2 of a positive finite float, to about 2^-50 relative. With x = 2^e m,
 * m in [sqrt(1/2), sqrt(2)) and s = (m-1)/(m+1): log m = 2 atanh s, s^2 < 0.0295. */
static double log2_of(float x) {
  static const double atanh_c[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                   1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  uint64_t u = kern_f64_bits((double)x);
  int e = (int)(u >> 52) - 1023;
  double m = kern_bits_f64((u & 0x000fffffffffffff) | 0x3ff0000000000000);
  /* m in [sqrt(1/2), sqrt(2)), so that s is small and the series short. */
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    e++;
  }
  double s = (m - 1) / (m + 1);
  return e + s * horner(atanh_c, 12, s * s) * 0x1.71547652b82fep+1; /* 2 / log 2 */
}

/* 2^t rounded to float: zero and infinity beyond its range. Taylor in f log 2, |f| <= 1/2; the
 * 14th term is below 2^-57. */
static float exp2_of(double t) {
  static const double exp_c[] = {1.0 / 6227020800,
                                 1.0 / 479001600,
                                 1.0 / 39916800,
                                 1.0 / 3628800,
                                 1.0 / 362880,
                                 1.0 / 40320,
                                 1.0 / 5040,
                                 1.0 / 720,
                                 1.0 / 120,
                                 1.0 / 24,
                                 1.0 / 6,
                                 1.0 / 2,
                                 1.0,
                                 1.0}; /* 1 / k! */
  /* Beyond these the result is 0 or infinity anyway, and n stays in an int. */
  t = t < -200 ? -200 : t > 200 ? 200 : t;
  int n = (int)(t + (t < 0 ? -0.5 : 0.5));
  double f = (t - n) * 0x1.62e42fefa39efp-1;
  return (float)(horner(exp_c, 14, f) * kern_bits_f64((uint64_t)(1023 + n) << 52));
}

static bool is_integer(float y) {
  uint32_t mag = isa_f32_bits(y) & 0x7fffffff;
  /* No float of that size has a fraction. */
  if (mag >= 0x4b800000) return true; /* 2^24 and larger */
  return (float)(int32_t)y == y;
}

/* A positive or +0 base to a power that is not 0 or NaN. */
static float pow_positive(float x, float y) {
  bool grows = (x > 1) == (y > 0); /* towards infinity rather than zero, in the limit */
  /* C's special cases, in an order in which each may rely on those before. */
  uint32_t ymag = isa_f32_bits(y) & 0x7fffffff;
  if (x == 1) return 1;
  if (x == 0 || isa_f32_bits(x) == INF || ymag == INF) return isa_bits_f32(grows ? INF : 0);
  if (y == 2) return x * x; /* this may be a tie, which the logarithm would not detect */
  return exp2_of((double)y * log2_of(x));
}

float vm_pow_f32(float x, float y) {
  /* Even for a NaN, as C has it. */
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return isa_bits_f32(KERN_NAN);
  uint32_t u = isa_f32_bits(x);
  /* A positive base needs nothing of what follows. */
  if (u >> 31 == 0) return pow_positive(x, y);
  bool whole = is_integer(y), odd = whole && y > -0x1p24f && y < 0x1p24f && ((int32_t)y & 1);
  /* A negative finite base to a fraction. */
  if (!whole && x < 0 && u != (INF | 1u << 31)) return isa_bits_f32(KERN_NAN);
  uint32_t r = isa_f32_bits(pow_positive(isa_bits_f32(u & 0x7fffffff), y));
  return isa_bits_f32(odd ? r | 1u << 31 : r);
}

/* a mod b for finite a, b > 0 given as bits: shift and subtract, 32 bits of quotient per turn. */
static float remainder_of(uint32_t a, uint32_t b) {
  int ea = a >> 23 ? (int)(a >> 23) : 1, eb = b >> 23 ? (int)(b >> 23) : 1;
  uint64_t sa = a >> 23 ? (a & 0x7fffff) | 0x800000 : a;
  uint64_t sb = b >> 23 ? (b & 0x7fffff) | 0x800000 : b;
  /* a is smaller: it is the remainder. */
  if (ea < eb) return isa_bits_f32(a);
  uint64_t r = sa % sb;
  for (int left = ea - eb; left > 0; left -= 32) r = (r << (left < 32 ? left : 32)) % sb;
  /* One in the last place of b. */
  double unit = kern_bits_f64((uint64_t)(1023 + eb - 150) << 52);
  return (float)((double)r * unit); /* exact: r is below b and a multiple of b's last place */
}

float vm_mod_f32(float a, float b) {
  uint32_t ua = isa_f32_bits(a), ub = isa_f32_bits(b);
  uint32_t ma = ua & 0x7fffffff, mb = ub & 0x7fffffff;
  /* An infinite a or a zero b: no number. */
  if (ma >= INF || mb > INF || mb == 0) return isa_bits_f32(KERN_NAN);
  uint32_t r = mb == INF ? ma : isa_f32_bits(remainder_of(ma, mb));
  /* A remainder of zero has the divisor's sign: mod is floored. */
  if (r == 0) return isa_bits_f32(ub & 0x80000000);
  float signed_r = isa_bits_f32(r | (ua & 0x80000000));
  /* Opposite signs: the floored remainder is on the divisor's side. */
  return (ua ^ ub) >> 31 ? signed_r + b : signed_r;
}
