#include "recall.h"

#include <string.h>

/* ---- What operands were resolved with ------------------------------------------------------ */

_Static_assert(ISA_NREGS == 64, "a mask of registers has 64 bits");

void vm_save_note_register(vm_save_recalled *rc, unsigned reg, uint32_t value) {
  rc->given |= UINT64_C(1) << reg;
  rc->regs[reg] = value;
}

void vm_save_note_operand(const vm_core *c, vm_save_recalled *rc, uint32_t index,
                          const vm_save_noted *v) {
  const isa_ap *ap = &c->code->aps[index - 1];
  uint32_t n = rc->r.n;
  /* The size is that of the dimension as it was resolved. */
  if (ap->size_dim) vm_save_note_register(rc, ap->size_reg, v->size);
  /* A static operand is where the program says; one that is named twice is noted once. */
  if (v->elems == 0 || !vm_ap_is_dynamic(ap) || vm_recall_of(c, &rc->r, index) >= 0) return;
  rc->r.ap[n] = index;
  /* As a distance: the next host has the memories at other addresses. */
  rc->r.displaced[n] = v->at - vm_ap_base(c, ap) - ap->offset;
  /* With an index: as many offsets. */
  rc->r.noffsets[n] = (uint32_t)v->elems;
  rc->place[n] = v->place;
  rc->r.n++;
}

/* The offsets that an operand's index gave. A single element lies where `displaced` says. */
static void walk_offsets(vm_saver *s, const isa_ap *ap, vm_save_recalled *rc, uint32_t entry) {
  const int64_t *place = rc->place[entry];
  uint32_t *n = &rc->r.noffsets[entry];
  vm_saver_count(s, n, UINT32_MAX, 4, "offsets of an operand");
  /* They are read where they lie in the file, which outlives the walk. */
  rc->r.offsets[entry] = s->at;
  /* Offsets in elements: the file does not depend on the host. */
  for (uint32_t i = 0; i < *n && !s->reads; i++) {
    uint32_t offset = place ? (uint32_t)(place[i] / (int)isa_dtype_bytes(ap->dtype)) : 0;
    vm_save_u32(s, &offset);
  }
  if (s->reads) s->at += (size_t)*n * 4;
}

void vm_save_recalled_walk(vm_saver *s, const vm_core *c, vm_save_recalled *rc) {
  vm_save_u64(s, &rc->given);
  for (unsigned i = 0; i < ISA_NREGS; i++)
    if (rc->given >> i & 1) vm_save_u32(s, &rc->regs[i]);
  vm_saver_count(s, &rc->r.n, VM_RECALLS, 12, "dynamic operands");
  for (uint32_t i = 0; i < rc->r.n; i++) {
    uint64_t bytes = (uint64_t)rc->r.displaced[i];
    vm_save_u32(s, &rc->r.ap[i]);
    vm_save_u64(s, &bytes);
    rc->r.displaced[i] = (int64_t)bytes;
    /* The pattern decides what follows in the file. */
    if (!vm_saver_need(s, rc->r.ap[i] - 1 < c->code->naps, "an operand has no pattern")) return;
    const isa_ap *ap = &c->code->aps[rc->r.ap[i] - 1];
    if (ap->index_kind == ISA_INDEX_indirect) walk_offsets(s, ap, rc, i);
  }
}

/* ---- Sendrecvs ----------------------------------------------------------------------------- */

uint32_t vm_save_operand_there(const vm_save_met *m) {
  return m->insn->op == ISA_OP_sendrecv ? m->insn->u.SENDRECV.dst : m->insn->u.SENDRECV_GPSIMD.src;
}

void vm_save_met_walk(vm_saver *s, const vm_core *c, const isa_insn *in, vm_where *met,
                      vm_save_met *m) {
  uint32_t engine = (uint32_t)met->engine;
  vm_save_core(s, c, &met->core);
  vm_save_below(s, &engine, ISA_NENGINES, "engine of a sendrecv");
  const isa_code *code = &vm_core_at(c, met->core)->code->code[engine];
  vm_save_below(s, &met->pc, code->n, "instruction of a sendrecv");
  if (s->failed) return;
  *met = vm_at_pc(vm_core_at(c, met->core), engine, met->pc);
  m->at = *met;
  m->insn = &code->insns[met->pc];
  /* The other one must name this pipe, or operands would be taken from anything. */
  vm_saver_need(s,
                met->core != c->number && m->insn->op == in->op &&
                    isa_insn_pipe(m->insn) == isa_insn_pipe(in),
                "a sendrecv has met no sendrecv of its pipe");
}

/* ---- Engines as they were ------------------------------------------------------------------- */

static void give(vm_engine *en, const vm_save_recalled *rc, uint32_t *had) {
  memcpy(had, en->regs, sizeof en->regs);
  memcpy(en->regs, rc->regs, sizeof en->regs);
  /* While this is set, resolve takes offsets from it instead of memory. */
  en->recall = &rc->r;
}

static void give_back(vm_engine *en, const uint32_t *had) {
  memcpy(en->regs, had, sizeof en->regs);
  en->recall = NULL;
}

void vm_save_swap_in(vm_save_swapped *w, const vm_core *c, vm_engine *en,
                     const vm_save_recalled *rc, const vm_save_met *m) {
  w->en = en;
  w->there = m->insn ? &vm_core_at(c, m->at.core)->eng[m->at.engine] : NULL;
  give(en, rc, w->regs[0]);
  if (w->there) give(w->there, &m->rc, w->regs[1]);
}

void vm_save_swap_out(const vm_save_swapped *w) {
  give_back(w->en, w->regs[0]);
  if (w->there) give_back(w->there, w->regs[1]);
}

void vm_save_not_made(vm_saver *s, const vm_core *c, const char *what, unsigned e, uint32_t pc,
                      const isa_error *err) {
  /* Then the file is not to blame. */
  if (err->status == ISA_NOMEM || c->run->fault.status == ISA_NOMEM) {
    vm_saver_no_memory(s);
    return;
  }
  vm_saver_fail(s, "%s of %s, pc %u: %s", what, isa_engines[e].name, pc, err->text);
}
