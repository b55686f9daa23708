/* Walks over instructions, and over the memory that they name. */
#include "operand.h"

enum { COLUMN = AP_R | AP_COL | 1, ELEMENT = AP_R | AP_ELEM | 1 };

typedef struct walk {
  const isa_program *p;
  const isa_core *core;
  isa_operand_fn *fn;
  void *ud;
} walk;

static void visit(const walk *w, isa_operand *o, uint32_t index) {
  if (index == 0 || index > w->core->naps) return;
  o->index = index;
  o->ap = &w->core->aps[index - 1];
  w->fn(w->ud, o);
}

static void visit_list(const walk *w, isa_operand *o, isa_ref list) {
  const uint32_t *aps = isa_program_list(w->p, list, ISA_K_APS);
  for (o->nth = 0; aps && o->nth < list.count; o->nth++) visit(w, o, aps[o->nth]);
}

void isa_each_operand(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud) {
  const isa_form *form = isa_form_of(in->op);
  walk w = {p, core, fn, ud};
  for (uint8_t i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(in, f);
    isa_operand o = {.field = i, .flags = f->arg};
    if (f->kind == ISA_K_AP) {
      visit(&w, &o, *(const isa_t_AP *)m);
    } else if (f->kind == ISA_K_NUM) {
      const isa_num *n = m;
      o.via = ISA_VIA_NUM;
      o.flags = COLUMN;
      if (n->kind == ISA_NUM_ap) visit(&w, &o, n->v);
    } else if (f->kind == ISA_K_APS) {
      o.via = ISA_VIA_APS;
      visit_list(&w, &o, *(const isa_ref *)m);
    }
  }
}

static void visit_inner(void *ud, const isa_operand *o) {
  const walk *w = ud;
  isa_operand inner = *o;
  inner.via = ISA_VIA_OFFSET;
  inner.flags = ELEMENT;
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (o->ap->dyn[d].kind == ISA_DYN_elem) visit(w, &inner, o->ap->dyn[d].ap);
  inner.via = ISA_VIA_INDEX;
  inner.flags = AP_R;
  if (o->ap->index_kind) visit(w, &inner, o->ap->index);
  w->fn(w->ud, o);
}

void isa_each_pattern(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud) {
  walk w = {p, core, fn, ud};
  isa_each_operand(p, core, in, visit_inner, &w);
}

void isa_each_insn(const isa_core *core, isa_insn_fn *fn, void *ud) {
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < core->code[e].n; pc++) fn(ud, &core->code[e].insns[pc], e, pc);
  for (uint32_t q = 0; q < core->nqueues; q++)
    for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
      fn(ud, &core->queues[q].statics[i], ISA_NENGINES, i);
}
