/* Instructions that have issued, in a saved run. */
#include "recall.h"

#include <string.h>

static bool has_elements(const vm_view *v) { return v->at && v->elems && v->num[0]; }

struct note {
  const vm_core *c;
  vm_save_recalled *rc;
  bool staged;
  vm_save_met *m;
};
static void note_view(void *ud, const isa_operand *o, vm_view *v) {
  const struct note *w = ud;
  /* What a sendrecv reads is the other core's: it was resolved with that core's registers. */
  bool there = w->m->insn && (o->flags & AP_R);
  const vm_core *c = there ? vm_core_at(w->c, w->m->at.core) : w->c;
  uint32_t index = there ? vm_save_operand_there(w->m) : o->index;
  /* Without elements there is no place to note. */
  uint8_t size_dim = c->code->aps[index - 1].size_dim;
  /* Its size register as it was. */
  vm_save_noted n = {v->at, v->place, has_elements(v) ? v->elems : 0,
                     size_dim ? v->num[size_dim - 1] : 0};
  /* A copied source lies elsewhere now, but it is resolved again from where it was. */
  if (w->staged && (o->flags & AP_R) && n.elems) n.at = vm_item_copied_from(v->at, &n.place);
  vm_save_note_operand(c, there ? &w->m->rc : w->rc, index, &n);
}

static void note_flight(const vm_core *c, vm_flight *f, vm_save_recalled *rc, vm_save_met *m) {
  const isa_form *form = isa_form_of(f->in->op);
  struct note w = {c, rc, f->item.staged, m};
  for (unsigned i = 0; i < form->nfields; i++) {
    const void *at = vm_operand_at(f->in, &f->a, i);
    int reg = isa_field_register(f->in, &form->fields[i]);
    bool is_num = form->fields[i].kind == ISA_K_NUM;
    /* Fields that came from registers are noted with their values then. */
    if (reg < 0) continue;
    uint32_t value =
        is_num ? isa_f32_bits(((const vm_num *)at)->imm) : (uint32_t) * (const int32_t *)at;
    vm_save_note_register(rc, (unsigned)reg, value);
  }
  vm_each_view(c, f->in, &f->a, note_view, &w);
}

struct source_walk {
  vm_saver *s;
  vm_core *c;
  vm_item *it;
};

/* Bytes of num[0] * elems elements, UINT64_MAX if there are more. */
static uint64_t bytes_of(const vm_view *v) {
  uint64_t n;
  /* A file's sizes multiply to anything. */
  if (__builtin_mul_overflow(v->elems, (uint64_t)v->num[0] * v->esize, &n)) return UINT64_MAX;
  return n;
}

/* A source that has been copied: its elements, dense. */
static void walk_copy(void *ud, const isa_operand *o, vm_view *v) {
  struct source_walk *w = ud;
  if (!(o->flags & AP_R) || !has_elements(v) || w->s->failed) return;
  if (w->s->reads) {
    /* Before memory is taken: a file cannot ask for more than it has. */
    if (!vm_saver_need(w->s, bytes_of(v) <= vm_saver_left(w->s), "a copied source is cut off"))
      return;
    if (!vm_item_copy_view(w->c, w->it, v)) {
      vm_saver_no_memory(w->s);
      return;
    }
  }
  vm_saver_bytes(w->s, v->at, (size_t)bytes_of(v));
}

static bool is_data_path(const isa_insn *in) {
  return !isa_op_is_control(in->op) && !isa_op_is_dma(in->op);
}

/* A flight's operands, from the state in which it issued. */
static bool restore_flight(vm_saver *s, vm_core *c, unsigned e, vm_flight *f,
                           const vm_save_recalled *rc, const vm_save_met *m) {
  isa_error err = {0};
  if (!vm_saver_need(s, is_data_path(f->in), "an instruction in flight is not for a data path"))
    return false;
  vm_save_swapped w;
  /* Registers as they were when it issued, for as long as it is resolved. */
  vm_save_swap_in(&w, c, &c->eng[e], rc, m);
  bool ok = vm_issue_restored(c, e, f, &err);
  vm_save_swap_out(&w);
  if (!ok) vm_save_not_made(s, c, "an instruction in flight", e, f->pc, &err);
  return ok;
}

/* For a sendrecv_gpsimd: which one it met, and where its source lies there. */
static void walk_flight_met(vm_saver *s, const vm_core *c, vm_flight *f, vm_save_met *m) {
  if (f->in->op != ISA_OP_sendrecv_gpsimd) return;
  vm_save_met_walk(s, c, f->in, &f->met, m);
}

/* The engine's own source, which later instructions wait for. */
static void walk_own_source(vm_saver *s, vm_core *c, vm_flight *f) {
  vm_box *b = &f->item.src[1];
  vm_save_u16(s, &b->p0);
  vm_save_u16(s, &b->p1);
  vm_save_u64(s, &b->lo);
  vm_save_u64(s, &b->hi);
  vm_saver_need(s, b->p0 <= b->p1 && b->p1 <= ISA_PMAX && b->hi <= c->target->sbuf_bytes,
                "the source of a sendrecv is outside of sbuf");
  if (!s->reads) return;
  /* An empty box has no memory. */
  b->space = b->lo < b->hi ? ISA_SBUF : 0;
  b->core = c->number;
  f->item.nsrc = 2;
}

static void walk_flight(vm_saver *s, vm_core *c, unsigned e, vm_flight *f) {
  vm_save_recalled rc = {0};
  vm_save_met m = {0};
  bool staged = f->item.staged;
  vm_save_below(s, &f->pc, c->eng[e].code->n, "instruction in flight");
  if (s->failed) return;
  f->in = &c->eng[e].code->insns[f->pc];
  walk_flight_met(s, c, f, &m);
  if (!s->reads) note_flight(c, f, &rc, &m);
  vm_save_recalled_walk(s, c, &rc);
  if (m.insn) vm_save_recalled_walk(s, vm_core_at(c, m.at.core), &m.rc);
  /* The operands are there from here on. */
  if (s->failed || (s->reads && !restore_flight(s, c, e, f, &rc, &m))) return;
  /* Only with its own source does the hazard of later instructions come out the same. */
  if (m.insn) walk_own_source(s, c, f);
  vm_save_time(s, &f->item.start);
  vm_save_time(s, &f->item.done);
  vm_save_time(s, &f->streamed);
  vm_save_time(s, &f->read);
  vm_save_time(s, &f->table_from);
  vm_save_time(s, &f->table_until);
  vm_save_u16(s, &f->ports);
  vm_save_node(s, c, &f->node);
  vm_save_bool(s, &f->finished);
  vm_save_bool(s, &staged);
  /* Only now: it was resolved above as if nothing had been copied. */
  f->item.staged = staged;
  vm_saver_need(s, f->item.start <= f->item.done, "an instruction is done before it starts");
  /* Copied sources follow: they are no longer in memory. */
  if (staged) vm_each_view(c, f->in, &f->a, walk_copy, &(struct source_walk){s, c, &f->item});
}

void vm_save_flights(vm_saver *s, vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  uint32_t n = en->nflights;
  vm_save_below(s, &en->first, VM_FLIGHTS, "flight");
  vm_saver_count(s, &n, VM_FLIGHTS, 1, "instructions in flight");
  /* Counted up as they are read: a failure leaves only whole ones. */
  if (s->reads) en->nflights = 0;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    vm_flight *f = &en->flights[(en->first + i) % VM_FLIGHTS];
    if (s->reads) memset(f, 0, sizeof *f);
    walk_flight(s, c, e, f);
    if (s->reads) en->nflights++;
    /* It would have executed: only those behind an unfinished one wait when they are done. */
    vm_saver_need(s, i > 0 || !f->finished, "the first instruction in flight is over");
  }
}
