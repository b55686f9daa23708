/* Activation functions of one element, inline: the only source of vm_actfn_f32 and of the array
 * kernels (private to actfn.c and level/act.c).
 *
 * Everything but exp and the trivial functions is evaluated in double with only +, -, *, / and
 * sqrt, and rounded once to float. Without a fused multiply-add, all hosts get the same bits.
 * Nothing here branches: the array loops must become vector code. A choice between two computed
 * values is a choice between bits, because compilers will not move arithmetic that could raise a
 * floating-point flag out of a branch.
 *
 * A polynomial is a minimax fit; its comment gives its interval and its largest relative error.
 * Clamps compare bits as integers: compilers know a minimum of integers, while a clamp of floats to
 * a constant makes them split the loop. A NaN does not survive a clamp; ACT_EVAL restores it. */
#ifndef VM_ACTFN_H
#define VM_ACTFN_H

#include "level.h"

#include <math.h>

#if defined(__GNUC__)
#define ACT_UNUSED __attribute__((unused))
#else
#define ACT_UNUSED
#endif

/* float act_fn_NAME(float x, float param): ACT_EVAL makes its result canonical. For a NaN it may
 * return any value. */
#define ACT(name) KERN_INLINE float act_fn_##name(float x, ACT_UNUSED float param)
#define ACT_EVAL(name, x, param) act_result(x, act_fn_##name(x, param))

KERN_INLINE float act_result(float x, float y) {
  return isa_bits_f32(kern_pick(isunordered(x, y), KERN_NAN, isa_f32_bits(y)));
}

/* ---- Parts -------------------------------------------------------------------------------- */

KERN_INLINE double act_pick(bool c, double a, double b) {
  uint64_t m = (uint64_t)0 - (uint64_t)c;
  return kern_bits_f64((kern_f64_bits(a) & m) | (kern_f64_bits(b) & ~m));
}
/* The magnitude of m with the sign of x. */
KERN_INLINE float act_signed(double m, float x) {
  return isa_bits_f32((isa_f32_bits((float)m) & INT32_MAX) | (isa_f32_bits(x) & 0x80000000u));
}

/* Not below -low; not above high; |x|, not above high. low, high > 0. */
KERN_INLINE float act_floor(float x, float low) {
  uint32_t u = isa_f32_bits(x), v = isa_f32_bits(-low);
  return isa_bits_f32(u < v ? u : v); /* the sign bit puts all negative numbers on top */
}
KERN_INLINE float act_ceil(float x, float high) {
  int32_t u = (int32_t)isa_f32_bits(x), v = (int32_t)isa_f32_bits(high);
  return isa_bits_f32((uint32_t)(u < v ? u : v));
}
KERN_INLINE float act_mag(float x, float high) {
  return act_ceil(isa_bits_f32(isa_f32_bits(x) & INT32_MAX), high);
}

KERN_INLINE float act_above(float x, float low) { /* max(x, low), x >= 0 */
  uint32_t u = isa_f32_bits(x), v = isa_f32_bits(low);
  return isa_bits_f32(u > v ? u : v);
}

/* a + b x + c x^2 + ... A polynomial below is two of these, of its even and its odd powers: the
 * chain of dependent operations is half as long as in Horner's rule over all powers. */
KERN_INLINE double act_h2(double x, double a, double b) { return a + b * x; }
KERN_INLINE double act_h3(double x, double a, double b, double c) {
  return a + act_h2(x, b, c) * x;
}
KERN_INLINE double act_h4(double x, double a, double b, double c, double d) {
  return a + act_h3(x, b, c, d) * x;
}
KERN_INLINE double act_h6(double x, double a, double b, double c, double d, double e, double f) {
  return a + (b + act_h4(x, c, d, e, f) * x) * x;
}
KERN_INLINE double act_h7(double x, double a, double b, double c, double d, double e, double f,
                          double g) {
  return a + act_h6(x, b, c, d, e, f, g) * x;
}

KERN_INLINE float act_pow2(int32_t n) { /* a normal float's exponent */
  return isa_bits_f32((uint32_t)(n + 127) << 23);
}

/* e^-FAR, times anything of moderate size, is zero as a float. A function with a factor x limits x
 * to -FAR, so that its limit at -infinity is a (negative) zero. */
#define ACT_FAR 150.0f

/* y = n ln2 + r: 2^n and e^r - 1, |r| <= ln2 / 2, for |y| <= 700. With n = 0, r is y itself, so
 * that e^y - 1 keeps its relative precision down to zero. */
typedef struct act_split {
  double scale, part;
} act_split;

KERN_INLINE act_split act_exp_split(double y) {
  /* Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
  double k = y * 0x1.71547652b82fep+0 + 0x1.8p+52;
  double r = y - (k - 0x1.8p+52) * 0x1.62e42fefa39efp-1;
  uint64_t scale = (kern_f64_bits(k) << 52) + 0x3ff0000000000000u;
  /* (e^r - 1) / r: 2^-32 on |r| <= ln2 / 2. */
  double rr = r * r;
  double p = act_h4(rr, 0x1.0000000022679p+0, 0x1.555554c5f5043p-3, 0x1.1111a64238d21p-7,
                    0x1.a01a7933c4a95p-13) +
             r * act_h3(rr, 0x1.000000283aa52p-1, 0x1.5554ad5f4a139p-5, 0x1.6d74cc765f4afp-10);
  return (act_split){kern_bits_f64(scale), p * r};
}
KERN_INLINE double act_exp_join(act_split e) { return e.scale * e.part + e.scale; }
KERN_INLINE double act_expm1_join(act_split e) { return e.scale * e.part + (e.scale - 1); }
KERN_INLINE double act_exp_d(double y) { return act_exp_join(act_exp_split(y)); }
KERN_INLINE double act_expm1_d(double y) { return act_expm1_join(act_exp_split(y)); }

/* erfc(a / sqrt2) / 2 * e^(a^2 / 2) by u = (a - 4) / (a + 4): 2^-33 on 0 <= a <= 15. */
KERN_INLINE double act_mills(double u) {
  double uu = u * u;
  return act_h7(uu, 0x1.82b4bb8d1fa49p-4, 0x1.fd7519d828b40p-4, 0x1.f9b07896309acp-6,
                0x1.09fdaa15f1975p-11, -0x1.863fa19ebea39p-13, 0x1.b1f2c8f9eef90p-16,
                -0x1.512a7ccf72cdbp-20) +
         u * act_h6(uu, -0x1.5cf97b0eac538p-3, -0x1.25b6a8e4d15f0p-4, -0x1.1645a2d1a5fbep-7,
                    0x1.4f32d5d71c611p-11, -0x1.887157e360c7dp-15, 0x1.663bdb750c0e8p-18);
}

/* (act_mills - a / sqrt(2 pi)) / (a - a0) by the same u, a0 being the only root of the dividend:
 * 2^-35 on 0 <= a <= 15. Fitting the quotient keeps the derivative of gelu precise at its root. */
KERN_INLINE double act_mills_slope(double u) {
  double uu = u * u;
  return act_h6(uu, -0x1.d94de78440682p-2, -0x1.ef4ff793955d7p-5, -0x1.377572dc47857p-7,
                0x1.448c1edf81107p-13, 0x1.1c4b3819dbfafp-16, -0x1.656c31b7ccaf5p-19) +
         u * act_h6(uu, 0x1.a763001ec5651p-4, 0x1.cc1e2397ea468p-6, 0x1.d4c9ade3e9414p-10,
                    -0x1.85ba7fd6fcd7ep-13, 0x1.2d558ced7da08p-16, -0x1.dd3b9eac52a46p-20);
}

/* With s(z) = z sigmoid(z), the derivative s'(kx). Let z = -k|x| and t = e^z, then
 * s'(z) = t (1 + t + z) / (1 + t)^2 and s'(-z) = 1 - s'(z). The root of 1 + t + z is -z0; around it
 * y = z + z0 and 1 + t + z = e^-z0 (e^y - 1) + y, two terms of one sign. root is z0 / k, in two
 * doubles. */
KERN_INLINE double act_silu_slope(float x, double k, double root, double root_low) {
  double y = k * ((root - act_mag(x, ACT_FAR)) + root_low);
  act_split e = act_exp_split(y);
  const double t0 = 0x1.1d25cf210482ep-2; /* e^-z0 */
  double t = t0 * act_exp_join(e), top = t0 * act_expm1_join(e) + y;
  double v = t * top / ((1 + t) * (1 + t));
  return act_pick(x > 0, 1 - v, v);
}

/* ---- The functions, in the order of actfns.def -------------------------------------------- */

ACT(copy) { return x; }
ACT(square) { return x * x; }
ACT(sigmoid) { return (float)(1 / (1 + act_exp_d(-act_ceil(act_floor(x, ACT_FAR), ACT_FAR)))); }

/* max(x, +0) with -0 below +0; a NaN stays. */
ACT(relu) { return isa_bits_f32(isa_f32_bits(x) & ((uint32_t)(x <= 0) - 1)); }

ACT(prelu) {
  uint32_t m = (uint32_t)0 - (uint32_t)(x < 0);
  return isa_bits_f32((isa_f32_bits(x * param) & m) | (isa_f32_bits(x) & ~m));
}

/* x Phi(x), Phi the normal distribution function. */
ACT(gelu) {
  double a = act_mag(x, 15);
  double q = act_exp_d(a * a * -0.5) * act_mills((a - 4) / (a + 4));
  return (float)((double)act_floor(x, 15) * act_pick(x < 0, q, 1 - q));
}

/* Phi(x) + x phi(x), phi the normal density; of -x: 1 - that. */
ACT(gelu_dx) {
  double a = act_mag(x, 15);
  double from_root = (a - 0x1.80ead197f00b4p-1) + 0x1.13e74c58cada8p-56;
  double q = act_exp_d(a * a * -0.5) * (from_root * act_mills_slope((a - 4) / (a + 4)));
  return (float)act_pick(x > 0, 1 - q, q);
}

/* x (1 + tanh w) / 2 = x / (1 + e^-2w), w = sqrt(2 / pi) (x + 0.044715 x^3). */
ACT(gelu_apprx_tanh) {
  float low = act_floor(x, 15);
  double z = act_ceil(low, 15), w2 = z * (0x1.9884533d43651p+0 + 0x1.2444f2a4d8b4bp-4 * (z * z));
  return (float)(low / (1 + act_exp_d(-w2)));
}

ACT(gelu_apprx_sigmoid) {
  float low = act_floor(x, ACT_FAR);
  return (float)(low / (1 + act_exp_d(-1.702 * act_ceil(low, ACT_FAR))));
}

ACT(gelu_apprx_sigmoid_dx) {
  return (float)act_silu_slope(x, 1.702, 0x1.80974a62be3dfp-1, -0x1.b12c858d26bf0p-55);
}

ACT(silu) {
  float low = act_floor(x, ACT_FAR);
  return (float)(low / (1 + act_exp_d(-act_ceil(low, ACT_FAR))));
}

ACT(silu_dx) { return (float)act_silu_slope(x, 1, 0x1.474973c84120bp+0, 0x1.f8d74bc9ac154p-54); }

/* (1 - t) / (1 + t), t = e^-2|x|, with 1 - t computed directly: shorter than act_expm1_d, since it
 * may be less precise. */
ACT(tanh) {
  double a = act_mag(x, 20), k = a * -0x1.71547652b82fep+1 + 0x1.8p+52;
  double r = a * -2 - (k - 0x1.8p+52) * 0x1.62e42fefa39efp-1, rr = r * r;
  double scale = kern_bits_f64((kern_f64_bits(k) << 52) + 0x3ff0000000000000u);
  /* (e^r - 1) / r: 2^-26.4 on |r| <= ln2 / 2. */
  double p = act_h3(rr, 0x1.0000002dc88c6p+0, 0x1.55547d8dfa2d7p-3, 0x1.123d229eeaa4ap-7) +
             r * act_h3(rr, 0x1.fffffebce081ap-2, 0x1.555651eb724c8p-5, 0x1.6c16a60d66c54p-10);
  double m = scale * (p * r) + (scale - 1);
  return act_signed(m / (2 + m), x);
}

/* log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|; log(1 + t) = 2 artanh(t / (2 + t)). */
ACT(softplus) {
  double t = act_exp_d(-act_mag(x, ACT_FAR)), u = t / (2 + t), v = u * u;
  /* 2 artanh(u) / u by v = u^2: 2^-33 on 0 <= u <= 1/3. */
  double vv = v * v;
  double p = act_h3(vv, 0x1.ffffffff271b2p+0, 0x1.99962abe9c853p-2, 0x1.b62148b9ed9a7p-3) +
             v * act_h3(vv, 0x1.555559939f793p-1, 0x1.25138bbd86b4bp-2, 0x1.f3feb86cfc323p-3);
  return (float)(act_fn_relu(x, 0) + u * p);
}

/* x tanh(log(1 + t)) = x t (t + 2) / (t (t + 2) + 2), t = e^x. */
ACT(mish) {
  float low = act_floor(x, ACT_FAR);
  double t = act_exp_d(act_ceil(low, ACT_FAR)), w = t * (t + 2);
  return (float)(low * (w / (w + 2)));
}

/* erf(a) = 1 - e^-(a q(a)): one form keeps relative precision at 0 and approaches 1. At 4 the
 * distance to 1 is a quarter of a float's step there. */
ACT(erf) {
  double a = act_mag(x, 4);
  /* q(a) = -log(erfc(a)) / a: on 0 <= a <= 4, 2^-33 of the resulting erf. */
  double aa = a * a;
  double q = act_h6(aa, 0x1.20dd7503beec0p+0, 0x1.a4f47a152bc53p-4, -0x1.da356e314ae94p-13,
                    -0x1.5d7308b44aa05p-11, 0x1.20b9c42226135p-17, 0x1.968897c215b6dp-20) +
             a * act_h6(aa, 0x1.45f30764d0b72p-1, -0x1.395757b533effp-6, 0x1.c89eb32a55083p-10,
                        0x1.c43cdbf1226e0p-14, -0x1.08c91b22489eep-17, -0x1.c79c6fa2b638ep-24);
  return act_signed(act_expm1_d(-(a * q)), x);
}

ACT(erf_dx) {
  double z = act_mag(x, 12);
  return (float)(0x1.20dd750429b6dp+0 * act_exp_d(-(z * z)));
}

/* In float, for speed: twice as fast as in double, at 0.78 ulp. x = n ln2 + r + low, where r and
 * low come from ln2 in two parts, the first short enough for an exact product; 1 + r is summed
 * without error; 2^n is applied in two factors, since 2^n may not be a float. */
ACT(exp) {
  float z = act_ceil(act_floor(x, ACT_FAR), ACT_FAR);
  float shifted = z * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;
  float t = z - n * 0x1.62e4p-1f, u = n * 0x1.7f7d1cp-20f;
  float r = t - u, low = (t - r) - u;
  /* (e^r - 1 - r) / r^2: 2^-28 of the resulting e^r on |r| <= ln2 / 2. */
  float p = 0x1.6a236ap-10f;
  p = p * r + 0x1.123a6ap-7f;
  p = p * r + 0x1.5558f4p-5f;
  p = p * r + 0x1.55549p-3f;
  p = p * r + 0x1.fffffcp-2f;
  float sum = 1 + r, lost = r - (sum - 1);
  float y = sum + (lost + (low + r * r * p));
  int32_t k = (int32_t)(isa_f32_bits(shifted) - 0x4b400000u), half = k >> 1;
  return y * act_pow2(half) * act_pow2(k - half);
}

/* x = 2^k m with m within a factor sqrt2 of 1: k ln2 + 2 artanh(u), u = (m - 1) / (m + 1). */
ACT(log) {
  const uint64_t half = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u; /* sqrt(1/2), 1 */
  uint64_t bits = kern_f64_bits(x) + (one - half);
  double k = kern_bits_f64((bits >> 52) | 0x4330000000000000u) - (0x1p+52 + 1023);
  double m = kern_bits_f64((bits & 0xfffffffffffffu) + half);
  double u = (m - 1) / (m + 1), v = u * u;
  /* 2 artanh(u) / u by v = u^2: 2^-37 on |u| <= 0.1716. */
  double vv = v * v;
  double p = act_h3(vv, 0x1.0000000004a43p+1, 0x1.999a9ce546b2ap-2, 0x1.e3b2d78065914p-3) +
             v * act_h2(vv, 0x1.555554da9b6f8p-1, 0x1.2432ab1f83ec6p-2);
  float y = (float)(k * 0x1.62e42fefa39efp-1 + u * p);
  /* log(0) = -inf; NaN below zero; inf and NaN unchanged. */
  uint32_t r = kern_pick(x > 0, isa_f32_bits(y), kern_pick(x < 0, KERN_NAN, 0xff800000u));
  return isa_bits_f32(kern_pick(x < isa_bits_f32(0x7f800000u), r, isa_f32_bits(x)));
}

/* No reduction of the argument: beyond pi, with d = |x| - pi, the cubic d^3 / 6 - d that the
 * machine's last piece extrapolates. pi in two doubles, so that d is precise next to pi. */
ACT(sin) {
  float a = isa_bits_f32(isa_f32_bits(x) & INT32_MAX);
  double d = (a - 0x1.921fb54442d18p+1) - 0x1.1a62633145c07p-53;
  double z = act_pick(a < 1.5f, a, -d), v = z * z;
  /* sin(z) / z by v = z^2: 2^-35 on 0 <= z <= pi / 2. */
  double vv = v * v;
  double p = act_h3(vv, 0x1.ffffffffd17d3p-1, 0x1.11110b74a774fp-7, 0x1.716ba492d982ep-19) +
             v * act_h3(vv, -0x1.555555417598dp-3, -0x1.a017a8fb48df2p-13, -0x1.9a0e0ebaebbe9p-26);
  double m = act_pick(a > 0x1.921fb4p+1f, d * (d * d * 0x1.5555555555555p-3 - 1), z * p);
  return isa_bits_f32(isa_f32_bits((float)m) ^ (isa_f32_bits(x) & 0x80000000u));
}

/* arctan(a) = pi / 2 - arctan(1 / a) beyond 1. */
ACT(arctan) {
  float a = isa_bits_f32(isa_f32_bits(x) & INT32_MAX), low = act_ceil(a, 1);
  double z = low / (double)act_above(a, 1), v = z * z;
  /* arctan(z) / z by v = z^2: 2^-34 on 0 <= z <= 1. */
  double vv = v * v;
  double p = act_h6(vv, 0x1.ffffffff800ebp-1, 0x1.999924007455fp-3, 0x1.c6614ffcec176p-4,
                    0x1.28ca8059c3abdp-4, 0x1.184086cb2c597p-5, 0x1.3de3096db6561p-8) +
             v * act_h6(vv, -0x1.5555542874a21p-2, -0x1.248937b9f01aep-3, -0x1.6fd576cff934ep-4,
                        -0x1.bcab2b0ea69a2p-5, -0x1.07f8971573746p-6, -0x1.66f7ff5dd84fcp-11);
  p = p * z;
  return act_signed(act_pick(a > 1, 0x1.921fb54442d18p+0 - p, p), x);
}

/* Exact or rounded once: the double root or quotient of floats rounds to the right float. */
ACT(sqrt) { return (float)kern_sqrt(x); }
ACT(rsqrt) { return (float)(1 / kern_sqrt(x)); }
ACT(reciprocal) { return 1 / x; }

/* -1, 0 or 1; +0 for either zero. */
ACT(sign) {
  uint32_t r = kern_pick(x > 0, 0x3f800000u, kern_pick(x < 0, 0xbf800000u, 0));
  return isa_bits_f32(kern_pick(x != x, KERN_NAN, r));
}
ACT(abs) { return isa_bits_f32(isa_f32_bits(x) & INT32_MAX); }

#endif
