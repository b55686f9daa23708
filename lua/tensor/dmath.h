/* Functions of double for reference results, to about 1e-15 relative, the same bits on every
 * host: only + - * / and sqrt of IEEE 754, without the platform's math library. */
#ifndef LUA_DMATH_H
#define LUA_DMATH_H

#include <stdint.h>

double dm_exp(double x);
double dm_expm1(double x);
double dm_log(double x);
double dm_log1p(double x);
double dm_tanh(double x);
double dm_sigmoid(double x);
double dm_erf(double x);
/* NaN for |x| beyond 2^20, where the reduction of the argument would lose bits. */
double dm_sin(double x);
double dm_cos(double x);
/* Integer exponents up to 64 by products, others as exp(y log x). */
double dm_pow(double x, double y);
double dm_floor(double x);
double dm_rint(double x); /* ties to even */
/* The standard normal's quantile of 0 < p < 1 (Wichura, algorithm AS 241). */
double dm_normal_quantile(double p);

static inline double dm_from_bits(uint64_t u) {
  union {
    uint64_t u;
    double d;
  } v = {.u = u};
  return v.d;
}
static inline uint64_t dm_bits(double d) {
  union {
    double d;
    uint64_t u;
  } v = {.d = d};
  return v.u;
}
static inline double dm_abs(double x) { return dm_from_bits(dm_bits(x) & ~((uint64_t)1 << 63)); }

#endif
