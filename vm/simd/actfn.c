/* The scalar meaning of the activation functions. */
#include "actfn.h"

float vm_actfn_f32(unsigned fn, float x, float param) {
  switch (fn) {
#define ACTFN(name, code, lo, hi, gen, table) \
  case code:                                  \
    return ACT_EVAL(name, x, param);
#include "../../isa/actfns.def"
#undef ACTFN
  default: return isa_bits_f32(KERN_NAN);
  }
}
