#include "dmath.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* ln 2 = LN2_HI + LN2_LO, LN2_HI with 33 bits so that k * LN2_HI is exact. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define INV_LN2 0x1.71547652b82fep0
/* pi / 2 in parts of 33 bits. */
#define PIO2_1 0x1.921fb544p+0
#define PIO2_2 0x1.0b4611a6p-34
#define PIO2_3 0x1.3198a2e037073p-69
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define TWO_OVER_SQRT_PI 0x1.20dd750429b6dp0

/* Horner's scheme: one multiplication and one addition for each coefficient. */
static double polynomial(double x, const double *c, size_t n) { /* c[0] is the highest power's */
  double r = c[0];
  for (size_t i = 1; i < n; i++) r = r * x + c[i];
  return r;
}

double dm_rint(double x) {
  /* From here on doubles have no fraction, so that adding it rounds to an integer. */
  const double big = 0x1p52;
  double a = dm_abs(x);
  /* Also for NaN, which is not below. */
  if (!(a < big)) return x;
  double r = (a + big) - big;
  /* The sign by its bit, so that -0 stays -0. */
  return dm_bits(x) >> 63 ? -r : r;
}

double dm_floor(double x) {
  /* Rounding may have gone up; then one less is the floor. */
  double r = dm_rint(x);
  return r > x ? r - 1 : r;
}

/* 2^k for -1022 <= k <= 1023. */
static double power_of_two(int k) { return dm_from_bits((uint64_t)(k + 1023) << 52); }

/* exp(r) - 1 for |r| <= 0.35: the Taylor series, whose 15th term is below 1e-19 there.
 * The terms are added from the smallest on, which loses the least. */
static double expm1_small(double r) {
  double term = r, sum = 0;
  double terms[15];
  for (int i = 0; i < 15; i++) {
    terms[i] = term;
    term = term * r / (double)(i + 2);
  }
  for (int i = 14; i >= 0; i--) sum += terms[i];
  return sum;
}

double dm_exp(double x) {
  if (x != x) return x;
  /* The logarithm of the largest double is 709.78; that of half the smallest above 0, -745.13. */
  if (x > 709.8) return HUGE_VAL;
  if (x < -746) return 0;
  /* x = k ln 2 + r, with |r| at most half of ln 2. */
  double k = dm_rint(x * INV_LN2);
  double r = (x - k * LN2_HI) - k * LN2_LO;
  double v = 1 + expm1_small(r);
  /* In two factors: 2^k alone may be beyond what power_of_two gives. */
  int half = (int)k / 2;
  return v * power_of_two(half) * power_of_two((int)k - half);
}

/* Beyond 0.35 nothing is lost by the subtraction that matters in double. */
double dm_expm1(double x) { return dm_abs(x) <= 0.35 ? expm1_small(x) : dm_exp(x) - 1; }

/* 2 atanh(s) for |s| <= 0.172. */
static double log_series(double s) {
  double s2 = s * s, sum = 0;
  /* atanh(s) = s + s^3/3 + s^5/5 ...: odd powers only. */
  for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / i) * s2;
  return 2 * (s + s * sum);
}

double dm_log(double x) {
  /* The logarithm of infinity is infinity. */
  if (x != x || x == HUGE_VAL) return x;
  if (x < 0) return NAN;
  if (x == 0) return -HUGE_VAL;
  int e = 0;
  if (x < 0x1p-1022) {
    /* A subnormal's bits have no exponent to take out: this makes it a normal number. */
    x *= 0x1p54;
    e = -54;
  }
  /* The exponent without its bias. */
  e += (int)(dm_bits(x) >> 52) - 1023;
  double m = dm_from_bits((dm_bits(x) & 0xfffffffffffff) | (uint64_t)1023 << 52);
  /* Into sqrt(1/2) to sqrt(2), so that (m - 1) / (m + 1) is small. */
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    e++;
  }
  /* The large part and the small one apart, so that the sum keeps the small one's bits. */
  return e * LN2_HI + (log_series((m - 1) / (m + 1)) + e * LN2_LO);
}

/* log(1 + x) = 2 atanh(x / (2 + x)): no sum that would lose a small x. */
double dm_log1p(double x) { return dm_abs(x) < 0.29 ? log_series(x / (2 + x)) : dm_log(1 + x); }

double dm_tanh(double x) {
  double a = dm_abs(x);
  if (x != x || x == 0) return x;
  /* From 22 on 1 - tanh is less than half a last bit.
   * tanh(a) = (e^2a - 1) / (e^2a + 1), by expm1 for small a. */
  double t = dm_expm1(2 * a), r = a > 22 ? 1 : t / (t + 2);
  return x < 0 ? -r : r;
}

/* For large -x the exponential is infinite, and the quotient 0. */
double dm_sigmoid(double x) { return 1 / (1 + dm_exp(-x)); }

/* erf(x) = 2/sqrt(pi) exp(-x^2) sum over n of 2^n x^(2n+1) / (1 3 5 .. 2n+1): all terms positive.
 */
double dm_erf(double x) {
  double a = dm_abs(x);
  if (x != x || x == 0) return x;
  /* So is 1 - erf from 6 on. */
  if (a >= 6) return x < 0 ? -1 : 1;
  double term = a, sum = a;
  /* Until a term no longer changes the sum. */
  for (int n = 1; term > sum * 1e-18; n++) {
    term = term * (2 * a * a) / (2 * n + 1);
    sum += term;
  }
  double r = TWO_OVER_SQRT_PI * dm_exp(-a * a) * sum;
  /* Rounding may have gone past 1. */
  if (r > 1) r = 1;
  return x < 0 ? -r : r;
}

/* The series of sin (from x) or cos (from 1) for |x| <= pi/4. */
static double trig_series(double x, bool cosine) {
  double term = cosine ? 1 : x, sum = 0, terms[11];
  /* For cosine even powers, for sine odd ones. */
  for (int i = 0; i < 11; i++) {
    terms[i] = term;
    int k = 2 * i + (cosine ? 1 : 2);
    term = -term * x * x / (k * (k + 1));
  }
  /* From the smallest term on. */
  for (int i = 10; i >= 0; i--) sum += terms[i];
  return sum;
}

static double trig(double x, int quarter) {
  /* k has up to 20 bits: its products with the parts of 33 bits are exact. */
  if (!(dm_abs(x) <= 0x1p20)) return NAN;
  double k = dm_rint(x * TWO_OVER_PI);
  /* Subtracted part by part: k times the first two parts is exact. */
  double r = ((x - k * PIO2_1) - k * PIO2_2) - k * PIO2_3;
  /* The quarter of the circle tells which series, and its sign. */
  int q = (int)((int64_t)k + quarter) & 3;
  double v = trig_series(r, q & 1);
  return q & 2 ? -v : v;
}

/* -0 stays -0. */
double dm_sin(double x) { return x == 0 ? x : trig(x, 0); }
double dm_cos(double x) { return trig(x, 1); }

static double int_power(double x, int n) {
  double r = 1;
  /* By squares: each bit of n doubles the exponent. */
  for (unsigned k = (unsigned)(n < 0 ? -n : n); k > 0; k >>= 1) {
    if (k & 1) r *= x;
    x *= x;
  }
  return n < 0 ? 1 / r : r;
}

double dm_pow(double x, double y) {
  bool whole = dm_rint(y) == y;
  /* Small whole exponents are exact where the result is. */
  if (whole && dm_abs(y) <= 64) return int_power(x, (int)y);
  /* 1 to any power is 1, even to NaN. */
  if (x != x || y != y) return x == 1 ? 1 : NAN;
  if (dm_abs(y) == HUGE_VAL) {
    double a = dm_abs(x);
    return a == 1 ? 1 : (a > 1) == (y > 0) ? HUGE_VAL : 0;
  }
  if (x < 0 || dm_bits(x) >> 63) {
    /* Beyond 2^53 all doubles are even. */
    bool odd = whole && dm_abs(y) < 0x1p53 && dm_rint(y / 2) != y / 2;
    /* A negative number has only whole powers. */
    if (x < 0 && x != -HUGE_VAL && !whole) return NAN;
    double r = dm_pow(-x, y);
    return odd ? -r : r;
  }
  /* 0 to a positive power is 0, to a negative one infinite. */
  if (x == 0) return y > 0 ? 0 : HUGE_VAL;
  return dm_exp(y * dm_log(x));
}

double dm_normal_quantile(double p) {
  static const double num[3][8] = {
      {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
       13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608},
      {7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
       1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959,
       1.42343711074968357734},
      {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.2426609473880784386e-3,
       0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
       5.4637849111641143699, 6.6579046435011037772}};
  static const double den[3][8] = {
      {5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
       5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1},
      {1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
       0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
       2.05319162663775882187, 1},
      {2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
       7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
       0.59983220655588793769, 1}};
  double q = p - 0.5;
  /* The three ranges of AS 241: the middle, and two of the tails. */
  if (dm_abs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q * polynomial(r, num[0], 8) / polynomial(r, den[0], 8);
  }
  double r = sqrt(-dm_log(q < 0 ? p : 1 - p));
  int part = r <= 5 ? 1 : 2;
  r -= part == 1 ? 1.6 : 5;
  double v = polynomial(r, num[part], 8) / polynomial(r, den[part], 8);
  return q < 0 ? -v : v;
}
