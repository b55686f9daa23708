/* Collectives: operations of several ranks, and the groups that they name. */
#include "names.h"
#include "../isa/operand.h"

bool as_k_is_collective(const as_k_item *it) {
  return it->op < ISA_NOPS && isa_op_is_collective(it->op);
}

bool as_k_runs_on(const as_k_item *it) {
  return it->op < ISA_NOPS && (isa_op_is_dma(it->op) || isa_op_is_collective(it->op));
}

bool as_kernel_group(as_kernel *k, const isa_group *g, uint32_t *group) {
  isa_error e = {.status = ISA_OK};
  isa_line none = {0};
  if (!as_k_is_open(k, none)) return false;
  if (!isa_check_group(g, &e)) return as_k_fail(k, e.status, none, "a group: %s", e.text);
  uint32_t at = isa_program_find_group(k->scratch, g, 0);
  if (at == ISA_MAX_GROUPS)
    return as_k_fail(k, ISA_LIMIT, none, "a kernel has at most %d replica groups", ISA_MAX_GROUPS);
  *group = at < k->scratch->ngroups ? at + 1 : isa_program_group(k->scratch, g);
  return *group || as_k_nomem(k);
}

bool as_k_put_groups(as_kernel *k, isa_program *p, as_k_names *names) {
  for (uint32_t i = 0; i < k->scratch->ngroups; i++) {
    isa_group g = k->scratch->groups[i];
    if (isa_program_find_group(p, &g, 0) < p->ngroups) continue;
    if (p->ngroups == ISA_MAX_GROUPS)
      return as_k_fail(k, ISA_LIMIT, (isa_line){0}, "a program has at most %d replica groups",
                       ISA_MAX_GROUPS);
    g.name = as_k_names_take(names, g.name);
    if (!g.name || !isa_program_group(p, &g)) return as_k_nomem(k);
  }
  return true;
}
