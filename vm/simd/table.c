/* Chooses the array kernels for the host at run time. */
#include "level.h"

#include <string.h>

#define FILL(level)          \
  vm_##level##_cvt_fill(&k); \
  vm_##level##_alu_fill(&k); \
  vm_##level##_sum_fill(&k); \
  vm_##level##_mm_fill(&k);  \
  vm_##level##_int_fill(&k); \
  vm_##level##_act_fill(&k)

/* What the compiler may use by the flags of each level (Makefile). */
static bool host_has_avx2(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}
static bool host_has_avx512(void) {
#if defined(__x86_64__)
  return host_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

const char *const vm_kern_levels[] = {"plain", "avx2", "avx512", NULL};

bool vm_kern_select(const char *limit, vm_kern *out) {
  /* All pointers NULL first: a level may lack a kernel, and callers test for that. */
  vm_kern k = {0};
  unsigned level = 2;
  /* A name that is none of the levels: refused. */
  if (limit) {
    for (level = 0; vm_kern_levels[level] && strcmp(limit, vm_kern_levels[level]) != 0; level++)
      continue;
    if (!vm_kern_levels[level]) return false;
  }
  /* Never more than the host has: limit only lowers. */
  if (level == 2 && !host_has_avx512()) level = 1;
  if (level == 1 && !host_has_avx2()) level = 0;
  k.name = vm_kern_levels[level];
#if defined(__x86_64__)
  if (level == 2) {
    FILL(avx512);
  } else if (level == 1) {
    FILL(avx2);
  } else {
    FILL(plain);
  }
#else
  FILL(plain);
#endif
  *out = k;
  return true;
}
