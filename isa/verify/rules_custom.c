/* Constraints of custom_op: the host declares everything else about its operands. */
#include "rules.h"

#include <inttypes.h>
#include <string.h>

static uint32_t item(const isa_ck *c, isa_ref list, uint32_t i) {
  uint32_t index;
  memcpy(&index, (const uint8_t *)isa_program_list(c->p, list, ISA_K_APS) + 4 * i, 4);
  return index;
}

bool isa_rule_custom(const isa_ck *c) {
  const struct isa_CUSTOM *u = &c->in->u.CUSTOM;
  if (u->name.count == 0)
    return isa_fail(c->e, ISA_ILLEGAL, F(CUSTOM, name), "name is missing: custom_op needs it");
  for (uint32_t i = 0; i < u->dsts.count; i++) {
    const isa_ap *dst = isa_ck_ap(c, item(c, u->dsts, i));
    for (uint32_t k = 0; k < i; k++)
      if (isa_ap_overlap(isa_ck_ap(c, item(c, u->dsts, k)), dst))
        return isa_fail(c->e, ISA_ILLEGAL, F(CUSTOM, dsts),
                        "number %" PRIu32 " shares bytes with number %" PRIu32, i, k);
    for (uint32_t k = 0; k < u->srcs.count; k++)
      if (isa_ap_overlap(dst, isa_ck_ap(c, item(c, u->srcs, k))) == 1)
        return isa_fail(c->e, ISA_ILLEGAL, F(CUSTOM, dsts),
                        "number %" PRIu32 " overlaps number %" PRIu32
                        " of srcs: a destination must have exactly the elements of a source or "
                        "share no byte with it",
                        i, k);
  }
  return true;
}
