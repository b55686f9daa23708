/* Activation functions over arrays, compiled once per SIMD level. */
#include "../actfn.h"

#define ACTFN(name, code, lo, hi, gen, table)                                    \
  static void name##_n(float *d, const float *x, float param, size_t n) {        \
    (void)param;                                                                 \
    KERN_LOOP for (size_t i = 0; i < n; i++) d[i] = ACT_EVAL(name, x[i], param); \
  }
#include "../../../isa/actfns.def"
#undef ACTFN

void KERN(act_fill)(vm_kern *k) {
#define ACTFN(name, code, lo, hi, gen, table) k->actfn[code] = name##_n;
#include "../../../isa/actfns.def"
#undef ACTFN
}
