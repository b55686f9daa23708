/* The activation functions by MPFR, from their textbook definitions: the oracle of `make ulp` and
 * of the unit test. Shares nothing with vm/simd/actfn.h. */
#ifndef TESTS_ULP_EXACT_H
#define TESTS_ULP_EXACT_H

#include "../../vm/simd/loops.h"

#include <math.h>
#include <mpfr.h>

enum { EXACT_BITS = 128 };

typedef struct exact {
  mpfr_t r, a, b; /* the result, and two to work in */
} exact;

static inline void exact_init(exact *e) { mpfr_inits2(EXACT_BITS, e->r, e->a, e->b, (mpfr_ptr)0); }
static inline void exact_free(exact *e) {
  mpfr_clears(e->r, e->a, e->b, (mpfr_ptr)0);
  mpfr_free_cache();
}

/* r = 1 / (1 + e^-z), z in r. */
static inline void exact_sigmoid(mpfr_t r) {
  mpfr_neg(r, r, MPFR_RNDN);
  mpfr_exp(r, r, MPFR_RNDN);
  mpfr_add_ui(r, r, 1, MPFR_RNDN);
  mpfr_ui_div(r, 1, r, MPFR_RNDN);
}

/* r = d/dz (z sigmoid(z)) = s + z s (1 - s) = s (1 + z s'), s' = sigmoid(-z); z in r. */
static inline void exact_silu_dx(exact *e) {
  mpfr_set(e->a, e->r, MPFR_RNDN);
  mpfr_neg(e->b, e->r, MPFR_RNDN);
  exact_sigmoid(e->r);
  exact_sigmoid(e->b);
  mpfr_mul(e->b, e->b, e->a, MPFR_RNDN);
  mpfr_add_ui(e->b, e->b, 1, MPFR_RNDN);
  mpfr_mul(e->r, e->r, e->b, MPFR_RNDN);
}

/* r = Phi(x), the normal distribution function; x in r. */
static inline void exact_phi(exact *e) {
  mpfr_sqrt_ui(e->a, 2, MPFR_RNDN);
  mpfr_div(e->r, e->r, e->a, MPFR_RNDN);
  mpfr_neg(e->r, e->r, MPFR_RNDN);
  mpfr_erfc(e->r, e->r, MPFR_RNDN);
  mpfr_div_2ui(e->r, e->r, 1, MPFR_RNDN);
}

static inline void exact_gelu(exact *e, double x) {
  exact_phi(e);
  mpfr_mul_d(e->r, e->r, x, MPFR_RNDN);
}

static inline void exact_gelu_dx(exact *e, double x) {
  exact_phi(e);
  mpfr_set_d(e->a, -x * x / 2, MPFR_RNDN); /* exact: x has 24 bits */
  mpfr_exp(e->a, e->a, MPFR_RNDN);
  mpfr_const_pi(e->b, MPFR_RNDN);
  mpfr_mul_2ui(e->b, e->b, 1, MPFR_RNDN);
  mpfr_sqrt(e->b, e->b, MPFR_RNDN);
  mpfr_div(e->a, e->a, e->b, MPFR_RNDN);
  mpfr_mul_d(e->a, e->a, x, MPFR_RNDN);
  mpfr_add(e->r, e->r, e->a, MPFR_RNDN);
}

/* r = x / (1 + e^-2w) = x (1 + tanh(w)) / 2, w = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline void exact_gelu_tanh(exact *e, double x) {
  mpfr_set_str(e->a, "0.044715", 10, MPFR_RNDN);
  mpfr_sqr(e->r, e->r, MPFR_RNDN);
  mpfr_mul(e->r, e->r, e->a, MPFR_RNDN);
  mpfr_add_ui(e->r, e->r, 1, MPFR_RNDN);
  mpfr_mul_d(e->r, e->r, x, MPFR_RNDN);
  mpfr_const_pi(e->a, MPFR_RNDN);
  mpfr_ui_div(e->a, 8, e->a, MPFR_RNDN);
  mpfr_sqrt(e->a, e->a, MPFR_RNDN);
  mpfr_mul(e->r, e->r, e->a, MPFR_RNDN);
  exact_sigmoid(e->r);
  mpfr_mul_d(e->r, e->r, x, MPFR_RNDN);
}

/* r = log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which does not overflow; x in r. */
static inline void exact_softplus(exact *e, double x) {
  mpfr_abs(e->r, e->r, MPFR_RNDN);
  mpfr_neg(e->r, e->r, MPFR_RNDN);
  mpfr_exp(e->r, e->r, MPFR_RNDN);
  mpfr_log1p(e->r, e->r, MPFR_RNDN);
  if (x > 0) mpfr_add_d(e->r, e->r, x, MPFR_RNDN);
}

/* The sine up to pi, then with d = |x| - pi the cubic d^3 / 6 - d with x's sign. */
static inline void exact_sin(exact *e, double x) {
  mpfr_const_pi(e->a, MPFR_RNDN);
  mpfr_abs(e->b, e->r, MPFR_RNDN);
  mpfr_sub(e->a, e->b, e->a, MPFR_RNDN);
  if (mpfr_sgn(e->a) <= 0) {
    mpfr_sin(e->r, e->r, MPFR_RNDN);
    return;
  }
  mpfr_pow_ui(e->b, e->a, 3, MPFR_RNDN);
  mpfr_div_ui(e->b, e->b, 6, MPFR_RNDN);
  mpfr_sub(e->r, e->b, e->a, MPFR_RNDN);
  if (x < 0) mpfr_neg(e->r, e->r, MPFR_RNDN);
}

static inline void exact_erf_dx(exact *e, double x) {
  mpfr_set_d(e->r, -x * x, MPFR_RNDN);
  mpfr_exp(e->r, e->r, MPFR_RNDN);
  mpfr_const_pi(e->a, MPFR_RNDN);
  mpfr_sqrt(e->a, e->a, MPFR_RNDN);
  mpfr_div(e->r, e->r, e->a, MPFR_RNDN);
  mpfr_mul_2ui(e->r, e->r, 1, MPFR_RNDN);
}

/* r = 1.702 x. */
static inline void exact_1702(exact *e) {
  mpfr_mul_ui(e->r, e->r, 1702, MPFR_RNDN);
  mpfr_div_ui(e->r, e->r, 1000, MPFR_RNDN);
}

/* e->r = fn(x) for finite x. Far from rounding: 128 bits of which cancellation takes at most 30. */
static inline void exact_eval(exact *e, unsigned fn, float x, float param) {
  mpfr_ptr r = e->r;
  mpfr_set_flt(r, x, MPFR_RNDN);
  switch (fn) {
  case ISA_FN_copy: break;
  case ISA_FN_square: mpfr_sqr(r, r, MPFR_RNDN); break;
  case ISA_FN_sigmoid: exact_sigmoid(r); break;
  case ISA_FN_relu:
    if (x < 0) mpfr_set_zero(r, 1);
    break;
  case ISA_FN_prelu:
    if (x < 0) mpfr_mul_d(r, r, param, MPFR_RNDN);
    break;
  case ISA_FN_gelu: exact_gelu(e, x); break;
  case ISA_FN_gelu_dx: exact_gelu_dx(e, x); break;
  case ISA_FN_gelu_apprx_tanh: exact_gelu_tanh(e, x); break;
  case ISA_FN_gelu_apprx_sigmoid:
    exact_1702(e);
    exact_sigmoid(r);
    mpfr_mul_d(r, r, x, MPFR_RNDN);
    break;
  case ISA_FN_gelu_apprx_sigmoid_dx:
    exact_1702(e);
    exact_silu_dx(e);
    break;
  case ISA_FN_silu:
    exact_sigmoid(r);
    mpfr_mul_d(r, r, x, MPFR_RNDN);
    break;
  case ISA_FN_silu_dx: exact_silu_dx(e); break;
  case ISA_FN_tanh: mpfr_tanh(r, r, MPFR_RNDN); break;
  case ISA_FN_softplus: exact_softplus(e, x); break;
  case ISA_FN_mish:
    exact_softplus(e, x);
    mpfr_tanh(r, r, MPFR_RNDN);
    mpfr_mul_d(r, r, x, MPFR_RNDN);
    break;
  case ISA_FN_erf: mpfr_erf(r, r, MPFR_RNDN); break;
  case ISA_FN_erf_dx: exact_erf_dx(e, x); break;
  case ISA_FN_exp: mpfr_exp(r, r, MPFR_RNDN); break;
  case ISA_FN_log: mpfr_log(r, r, MPFR_RNDN); break;
  case ISA_FN_sin: exact_sin(e, x); break;
  case ISA_FN_arctan: mpfr_atan(r, r, MPFR_RNDN); break;
  case ISA_FN_sqrt: mpfr_sqrt(r, r, MPFR_RNDN); break;
  case ISA_FN_rsqrt: mpfr_rec_sqrt(r, r, MPFR_RNDN); break;
  case ISA_FN_reciprocal: mpfr_ui_div(r, 1, r, MPFR_RNDN); break;
  case ISA_FN_sign: mpfr_set_si(r, (x > 0) - (x < 0), MPFR_RNDN); break;
  case ISA_FN_abs: mpfr_abs(r, r, MPFR_RNDN); break;
  default: mpfr_set_nan(r); break;
  }
}

/* Distance of y from e->r, in steps of fp32 at e->r. An infinite y counts as 2^128, so that
 * overflow is right from half a step below. A value without a number matches a NaN only. */
static inline double exact_ulps(exact *e, float y) {
  if (mpfr_nan_p(e->r) || isnan(y)) return mpfr_nan_p(e->r) && isnan(y) ? 0 : HUGE_VAL;
  if (mpfr_inf_p(e->r)) return isinf(y) && mpfr_sgn(e->r) == (y > 0 ? 1 : -1) ? 0 : HUGE_VAL;
  if (mpfr_zero_p(e->r)) return y == 0 ? 0 : HUGE_VAL;
  long exp = mpfr_get_exp(e->r) - 1; /* 2^exp <= |r| < 2^(exp + 1) */
  if (exp > 127 && isinf(y)) return mpfr_sgn(e->r) == (y > 0 ? 1 : -1) ? 0 : HUGE_VAL;
  if (exp < -126) exp = -126;
  double there = isinf(y) ? (y > 0 ? 0x1p128 : -0x1p128) : (double)y;
  mpfr_sub_d(e->a, e->r, there, MPFR_RNDN);
  mpfr_abs(e->a, e->a, MPFR_RNDN);
  mpfr_mul_2si(e->a, e->a, 23 - exp, MPFR_RNDN);
  return mpfr_get_d(e->a, MPFR_RNDU);
}

#endif
