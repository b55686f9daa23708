/* What an instruction costs without a run: its operands come from their patterns, with dynamic
 * parts at their bounds, and memory is not looked at. */
#include "clock.h"

#include "../engine/engine.h"

#include <string.h>

struct vm_cost_model {
  isa_alloc al;
  vm_run run;
  vm_core core;
  vm_operands a;
};

vm_cost_model *vm_cost_model_new(const isa_alloc *al, const isa_target *t, const vm_costs *costs) {
  vm_cost_model *m = isa_zalloc(al, sizeof *m);
  if (!m) return NULL;
  m->al = *al;
  m->core.target = t;
  m->core.run = &m->run;
  /* A core without memory: only what vm_cost looks at. */
  m->run.cores[m->run.n++] = &m->core;
  memcpy(m->run.cost_values, costs->v[t->gen - ISA_GEN2], sizeof costs->v[0]);
  m->core.cost = m->run.cost_values;
  return m;
}

void vm_cost_model_free(vm_cost_model *m) {
  if (!m) return;
  isa_alloc al = m->al;
  isa_free(&al, m, sizeof *m);
}

/* v is zeroed. */
static void view_of(const vm_core *c, uint32_t index, vm_view *v) {
  static uint8_t somewhere;
  const isa_ap *ap = &c->code->aps[index - 1];
  /* An address that is never read: an operand that is there has one. */
  v->at = &somewhere;
  v->dtype = ap->dtype;
  v->space = ap->space;
  v->esize = (uint8_t)isa_dtype_bytes(ap->dtype);
  v->part = ap->part;
  v->ndim = (uint8_t)(ap->ndim + 1);
  v->num[0] = ap->space == ISA_HBM ? 1 : ap->nparts;
  for (unsigned d = 0; d < ap->ndim; d++) {
    v->num[d + 1] = ap->dim[d].num;
    v->step[d + 1] = ap->dim[d].step * v->esize;
  }
  v->elems = isa_ap_elems(ap);
  vm_view_runs(v);
}

/* All that a cost depends on; lists stay as they were. */
static void field_of(const vm_core *c, const isa_field *f, const void *from, void *to) {
  const isa_num *n = from;
  vm_num *num = to;
  switch (f->kind) {
  case ISA_K_AP:
    memset(to, 0, sizeof(vm_view));
    if (*(const uint32_t *)from) view_of(c, *(const uint32_t *)from, to);
    break;
  case ISA_K_NUM:
    memset(num, 0, sizeof *num);
    num->given = n->kind != ISA_NUM_none;
    if (n->kind == ISA_NUM_imm) num->imm = isa_bits_f32(n->v);
    if (n->kind == ISA_NUM_ap) view_of(c, n->v, &num->v);
    break;
  case ISA_K_U16: memcpy(to, from, 2); break;
  case ISA_K_U32: memcpy(to, from, 4); break;
  case ISA_K_U8:
  case ISA_K_ENUM:
  case ISA_K_ALU:
  case ISA_K_ACTF: memcpy(to, from, 1); break;
  default: break;
  }
}

vm_time vm_cost_static(vm_cost_model *m, unsigned engine, const isa_program *p,
                       const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  /* No data path. */
  if (engine == ISA_ENG_sync || isa_op_is_control(in->op) || isa_op_is_dma(in->op)) return 0;
  m->core.prog = p;
  m->core.code = &p->cores[0];
  for (unsigned i = 0; i < form->nfields; i++)
    field_of(&m->core, &form->fields[i], isa_member_c(in, &form->fields[i]),
             vm_operand_at(in, &m->a, i));
  vm_cost_span s = vm_cost(&m->core, engine, in, &m->a);
  return vm_cost_time(&m->core, engine, s.issue);
}
