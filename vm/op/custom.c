/* custom_op: a function of the host. vm/api/custom.c calls it. */
#include "op.h"

vm_verdict vm_op_custom_op(vm_dp *d, const struct vm_CUSTOM *a) {
  if (!d->custom)
    return vm_dp_fault(d, "custom_op \"%.*s\": no such operator is registered", (int)a->name.n,
                       (const char *)a->name.p);
  return d->custom(d->custom_ud, d, a);
}
