/* Pseudo-instructions from their table: slots that lead into two instructions. */
#include "stmt.h"

#include <string.h>

enum pseudo {
#define PSEUDO(name, first, second) PS_##name,
#define OPERAND(pseudo, name, mode, part, field)
#include "pseudo.def"
#undef PSEUDO
#undef OPERAND
  NPSEUDOS
};

static const struct {
  const char *name;
  uint16_t op[AS_MAX_PARTS];
} pseudos[NPSEUDOS] = {
#define PSEUDO(name, first, second) {#name, {ISA_OP_##first, ISA_OP_##second}},
#define OPERAND(pseudo, name, mode, part, field)
#include "pseudo.def"
#undef PSEUDO
#undef OPERAND
};

static const struct {
  uint8_t pseudo, mode, part;
  const char *name, *field;
} operands[] = {
#define PSEUDO(name, first, second)
#define OPERAND(pseudo, name, mode, part, field) \
  {PS_##pseudo, ISA_MODE_##mode, part, #name, #field},
#include "pseudo.def"
#undef PSEUDO
#undef OPERAND
};

int as_pseudo_find(const char *name, size_t n) {
  for (int i = 0; i < NPSEUDOS; i++)
    if (strlen(pseudos[i].name) == n && memcmp(pseudos[i].name, name, n) == 0) return i;
  return -1;
}

void as_pseudo_near(as_near *w) {
  for (int i = 0; i < NPSEUDOS; i++) as_near_try(w, pseudos[i].name);
}

static const isa_field *field_named(unsigned op, const char *name) {
  const isa_form *f = isa_form_of(op);
  for (unsigned i = 0; i < f->nfields; i++)
    if (strcmp(f->fields[i].name, name) == 0) return &f->fields[i];
  return NULL;
}

void as_pseudo_open(int ps, as_stmt *st) {
  st->nparts = AS_MAX_PARTS;
  for (unsigned i = 0; i < AS_MAX_PARTS; i++) st->part[i].op = pseudos[ps].op[i];
  for (unsigned i = 0; i < sizeof operands / sizeof *operands; i++) {
    if (operands[i].pseudo != ps) continue;
    unsigned n = st->nslots, owner = n;
    if (n > 0 && strcmp(st->slot[n - 1].name, operands[i].name) == 0) owner = n - 1;
    st->slot[st->nslots++] =
        (as_slot){.f = field_named(pseudos[ps].op[operands[i].part], operands[i].field),
                  .name = operands[i].name,
                  .mode = operands[i].mode,
                  .part = operands[i].part,
                  .owner = (uint8_t)owner};
  }
}

static const as_slot *slot_of(const as_stmt *st, const char *name) {
  for (unsigned i = 0; i < st->nslots; i++)
    if (strcmp(st->slot[i].name, name) == 0 && st->slot[i].owner == i) return &st->slot[i];
  return NULL;
}

/* The two operands of a matmul contract over their partitions. */
static bool same_rows(as_job *j, const as_stmt *st) {
  const isa_core *c = &as_program(j)->cores[0];
  uint32_t a = st->part[0].u.LDWEIGHTS.src, b = st->part[1].u.MATMUL.src;
  if (a == 0 || b == 0) return true; /* the rules report it */
  unsigned rows = c->aps[a - 1].nparts, cols = c->aps[b - 1].nparts;
  if (rows == cols) return true;
  const as_slot *s = slot_of(st, "moving");
  as_error(j, s->pos, s->span, "moving has %u partitions, stationary %u; they contract over them",
           cols, rows);
  return false;
}

/* Without a result the second part is dropped; its update moves to the first. */
static bool finish_activation(as_stmt *st) {
  if (slot_of(st, "reduce_res")->seen) return true;
  st->nparts = 1;
  st->part[0].upd = st->part[1].upd;
  return true;
}

bool as_pseudo_finish(as_job *j, int ps, as_stmt *st) {
  switch (ps) {
  case PS_nc_matmul: return same_rows(j, st);
  case PS_activation: return finish_activation(st);
  default: st->part[0].u.ACTIVATE.reduce = ISA_CMD_reset_reduce; return true;
  }
}
