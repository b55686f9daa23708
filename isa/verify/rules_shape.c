/* Helpers of the rules of instructions whose operands differ in shape. */
#include "rules.h"

#include <inttypes.h>
#include <stdio.h>

#define FIELD_NAME(c, f) ((c)->form->fields[f].name)

bool isa_ck_types(const isa_ck *c, int f, uint32_t types) {
  /* The names of all types that would be right go into the message. */
  unsigned got = isa_ck_at(c, f)->dtype;
  char names[200] = "";
  size_t at = 0;
  if (types & ISA_CK_TYPE(got)) return true;
  for (unsigned t = 1; t < ISA_NDTYPES && at < sizeof names; t++)
    if (types & ISA_CK_TYPE(t))
      at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                             isa_dtypes[t].name);
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s: %s takes %s here", isa_dtypes[got].name, c->row->name,
                  names);
}

bool isa_ck_same_type(const isa_ck *c, int f, int g) {
  unsigned a = isa_ck_at(c, f)->dtype, b = isa_ck_at(c, g)->dtype;
  if (a == b) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s: %s is %s, and %s does not convert", isa_dtypes[a].name,
                  FIELD_NAME(c, g), isa_dtypes[b].name, c->row->name);
}

bool isa_ck_fixed(const isa_ck *c, int f) {
  if (!isa_ck_at(c, f)->size_dim) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "a size is a register: %s has fixed sizes", c->row->name);
}

/* Patterns that move by registers are compared when they run, unless they are one and
 * the same. */
bool isa_ck_apart(const isa_ck *c, int f, int g) {
  const isa_ap *a = isa_ck_at(c, f), *b = isa_ck_at(c, g);
  bool moves = a->dyn[0].kind || a->dyn[1].kind || b->dyn[0].kind || b->dyn[1].kind;
  if (a->space != b->space || (moves && !isa_ap_equal(a, b)) || isa_ap_overlap(a, b) == 0)
    return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "overlaps %s: the two must share no byte",
                  FIELD_NAME(c, g));
}

/* For results of a fixed shape, such as the eight of max8. */
bool isa_ck_count(const isa_ck *c, int f, uint64_t want) {
  uint64_t got = isa_ap_elems(isa_ck_at(c, f));
  if (got == want) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu64 " elements per partition: it must have %" PRIu64,
                  got, want);
}

bool isa_ck_parts_multiple(const isa_ck *c, int f, unsigned of) {
  unsigned n = isa_ck_at(c, f)->nparts;
  if (n % of == 0) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%u partitions: they must be a multiple of %u", n, of);
}
