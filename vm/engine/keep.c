/* What issuing an instruction finds out and its next round can use again. In a loop over
 *
 *   tensor_tensor z, x, y          its operands, their boxes and its effort
 *   tensor_copy t, x[r0 * 4:8]     its effort: the register moves what is read, and nothing else
 *
 * Nothing is kept of an instruction's first round, so that straight code pays nothing; nor of one
 * whose registers give sizes or numbers. The place of an instruction follows from its pc, and a
 * later one with the same place replaces it: in a loop of up to PLACES instructions each has a
 * place. */
#include "engine.h"

#include <string.h>

enum { PLACES = 256 };    /* of an engine, a power of two */
enum { OPERANDS = 1024 }; /* bytes: enough for instructions without lists of operands */

typedef struct kept {
  const isa_insn *in; /* NULL: nothing is kept here */
  vm_known known;
  vm_effort effort;
  vm_item item; /* its boxes */
  _Alignas(vm_operands) char operands[OPERANDS];
} kept;

struct vm_keep {
  uint32_t places;
  /* By slot of a flight: the instruction whose operands, boxes and effort the slot still has from
   * its last use; NULL: it may have others. In a loop of 1, 2, 4, 8 ... instructions a slot gets
   * the same one again. */
  const isa_insn *holds[VM_FLIGHTS];
  kept v[];
};

static size_t size_of(uint32_t places) { return sizeof(struct vm_keep) + places * sizeof(kept); }

/* A power of two: the low bits of the pc. */
static kept *place_of(struct vm_keep *k, uint32_t pc) { return &k->v[pc & (k->places - 1)]; }

static struct vm_keep *new_keep(vm_core *c, const vm_engine *en) {
  uint32_t places = 1;
  /* As many as the code has instructions, at most PLACES. */
  while (places < PLACES && places < en->code->n) places *= 2;
  struct vm_keep *k = isa_zalloc(&c->al, size_of(places));
  if (k) k->places = places;
  return k;
}

void vm_keep_free(vm_core *c, unsigned e) {
  struct vm_keep *k = c->eng[e].keep;
  if (k) isa_free(&c->al, k, size_of(k->places));
}

vm_known vm_keep_find(const vm_engine *en, vm_flight *f) {
  /* Nothing has run twice yet. */
  if (!en->keep) return VM_KNOWN_NOTHING;
  const kept *k = place_of(en->keep, f->pc);
  /* Another instruction has the place. */
  if (k->in != f->in) return VM_KNOWN_NOTHING;
  const isa_insn **holds = &en->keep->holds[f - en->flights];
  if (*holds == f->in && !f->item.staged) return VM_KNOWN_ALL; /* staged: its views have moved */
  /* The slot's operands are no longer its: from here on they are overwritten. */
  *holds = NULL;
  f->effort = k->effort;
  if (k->known < VM_KNOWN_ALL) return k->known;
  f->item = k->item;
  memcpy(&f->a, k->operands, vm_operands_size(f->in->op));
  *holds = f->in;
  return VM_KNOWN_ALL;
}

/* It will get others. */
void vm_keep_forget(const vm_engine *en, const vm_flight *f) {
  if (en->keep) en->keep->holds[f - en->flights] = NULL;
}

static void lower(void *ud, const isa_operand *o) {
  /* A size or an index changes more than the place: nothing can be used again. */
  vm_known *known = ud;
  if (o->ap->size_dim || o->ap->index_kind) *known = VM_KNOWN_NOTHING;
  /* A register moves it: its boxes change, its effort does not. */
  else if (!isa_ap_is_static(o->ap) && *known > VM_KNOWN_EFFORT)
    *known = VM_KNOWN_EFFORT;
}

/* What is the same in every round of an instruction. */
static vm_known lasting(const vm_core *c, const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  vm_known known = vm_operands_size(in->op) <= OPERANDS ? VM_KNOWN_ALL : VM_KNOWN_EFFORT;
  if (isa_insn_pipe(in) >= 0) return VM_KNOWN_NOTHING; /* it reads what the other core names */
  for (unsigned i = 0; i < form->nfields; i++)
    /* A number in a register (a scalar operand, a condition) may change the effort. */
    if (isa_field_register(in, &form->fields[i]) >= 0) return VM_KNOWN_NOTHING;
  isa_each_operand(c->prog, c->code, in, lower, &known);
  return known;
}

void vm_keep_note(vm_core *c, unsigned e, const vm_flight *f) {
  vm_engine *en = &c->eng[e];
  /* First round: it may be the last. */
  if (!en->ran[f->pc]) return;
  vm_known known = lasting(c, f->in);
  if (known == VM_KNOWN_NOTHING) return;
  if (!en->keep && !(en->keep = new_keep(c, en))) return;
  kept *k = place_of(en->keep, f->pc);
  k->in = f->in;
  k->known = known;
  k->effort = f->effort;
  /* Operands that move are resolved again in each round. */
  if (known < VM_KNOWN_ALL) return;
  k->item = f->item;
  memcpy(k->operands, &f->a, vm_operands_size(f->in->op));
}
