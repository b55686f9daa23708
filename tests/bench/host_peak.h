/* What one thread of this host does at most: fp32 fused multiply-adds in registers. */
#ifndef BENCH_HOST_PEAK_H
#define BENCH_HOST_PEAK_H

#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { PEAK_CHAINS = 12, PEAK_STEPS = 1 << 20 };

#define PEAK(name, features, type, width, set1, fmadd)                                     \
  __attribute__((target(features))) static double name(float x) {                          \
    type acc[PEAK_CHAINS], a = set1(x), b = set1(1 - x);                                   \
    struct timespec t0, t1;                                                                \
    for (int j = 0; j < PEAK_CHAINS; j++) acc[j] = set1((float)j);                         \
    clock_gettime(CLOCK_MONOTONIC, &t0);                                                   \
    for (int i = 0; i < PEAK_STEPS; i++)                                                   \
      for (int j = 0; j < PEAK_CHAINS; j++) acc[j] = fmadd(acc[j], a, b);                  \
    clock_gettime(CLOCK_MONOTONIC, &t1);                                                   \
    volatile float keep[16];                                                               \
    for (int j = 0; j < PEAK_CHAINS; j++) keep[0] = ((float *)&acc[j])[0];                 \
    (void)keep[0];                                                                         \
    double s = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9; \
    return 2.0 * width * PEAK_CHAINS * PEAK_STEPS / s;                                     \
  }
PEAK(peak_avx512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)
PEAK(peak_avx2, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps)
#undef PEAK

/* flop/s of the best SIMD level, the best of five; 0 where it is not known how to measure it. */
static double host_peak(void) {
  double best = 0;
  for (int i = 0; i < 5; i++) {
    double got = __builtin_cpu_supports("avx512f") ? peak_avx512(0.5f)
                 : __builtin_cpu_supports("fma")   ? peak_avx2(0.5f)
                                                   : 0;
    best = got > best ? got : best;
  }
  return best;
}
#else
static double host_peak(void) { return 0; }
#endif

#endif
