/* fp32 inputs for the tests of conversions: every exponent, with mantissas on, just below and just
 * above each value of the leading bits, which covers the ties of every narrower type. */
#ifndef TESTS_F32_CASES_H
#define TESTS_F32_CASES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Leading mantissa bits that are walked through: all of bfloat16's and of fp8's in every binade,
 * and those of fp16 and tfloat32 in the binades about 1, about fp16's subnormals and the first. */
static unsigned f32_case_depth(uint32_t exponent) {
  if (exponent < 2 || exponent == 254) return 12;
  if (exponent >= 101 && exponent <= 104) return 12;
  return exponent >= 111 && exponent <= 114   ? 12
         : exponent >= 126 && exponent <= 128 ? 12
         : exponent >= 141 && exponent <= 143 ? 12
                                              : 8;
}

/* All of them as bits, both signs; *count of them. Free with free. NULL when memory is out. */
static uint32_t *f32_cases(size_t *count) {
  size_t n = 0;
  for (uint32_t e = 0; e < 256; e++) n += (size_t)6 << f32_case_depth(e);
  uint32_t *v = malloc(n * sizeof *v);
  *count = 0;
  if (!v) return NULL;
  for (uint32_t e = 0; e < 256; e++) {
    unsigned depth = f32_case_depth(e);
    for (uint32_t m = 0; m < 1u << depth; m++)
      for (uint32_t side = 0; side < 6; side++) {
        uint32_t u = (e << 23 | m << (23 - depth)) + side % 3 - 1;
        v[(*count)++] = (u & 0x7fffffff) | (side / 3) << 31;
      }
  }
  return v;
}

#endif
