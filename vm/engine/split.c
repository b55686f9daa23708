/* An instruction by partitions: parts of its partitions, each with operands of its own, may be done
 * one after another or at once (lanes.def). For example an activate of [128, 512] as eight of [16,
 * 512]. Nothing that a program or its owner sees depends on it. */
#include "engine.h"

#include <string.h>

enum { FIELDS = 16 }; /* of a form, at most */

const vm_lanes_row vm_lanes_rows[ISA_NOPS] = {
#define LANES(name, least, ns) [ISA_OP_##name] = {least, ns},
#include "../op/lanes.def"
};

/* The view of a field of that kind at its place in the operands; NULL: it has none. */
static vm_view *view_of(unsigned kind, void *at) {
  vm_view *v = kind == ISA_K_AP ? at : kind == ISA_K_NUM ? &((vm_num *)at)->v : NULL;
  return v && v->at ? v : NULL;
}

static void take_part(const isa_insn *in, const vm_operands *from, const vm_lanes *l,
                      uint32_t first, uint32_t n, vm_operands *a) {
  const isa_form *form = isa_form_of(in->op);
  memcpy(a, from, vm_operands_size(in->op));
  for (unsigned left = form->memory, i; left; left &= left - 1) {
    i = (unsigned)__builtin_ctz(left);
    vm_view *v = view_of(form->fields[i].kind, vm_operand_at(in, a, i));
    if (!v || v->num[0] != l->rows) continue; /* one partition, for all parts */
    v->at += (int64_t)first * v->step[0];
    v->part = (uint16_t)(v->part + first);
    v->num[0] = n;
  }
}

/* What a handler of lanes.def needs of its engine. */
static void lend(vm_dp *d, const vm_dp *from, const vm_lanes *l, uint32_t first, uint32_t n,
                 vm_workspace *w) {
  d->k = from->k;
  d->target = from->target;
  d->engine = from->engine;
  d->cvt = from->cvt;
  vm_dp_lend(d, w->floats);
  d->threads = NULL;
  d->stochastic = false;
  d->rounding_seed = from->rounding_seed;
  d->rounding_count = l->rounding_count;
  d->lane = first;
  memcpy(d->acc, from->acc + first, n * sizeof *d->acc);
}

vm_verdict vm_run_lanes(vm_dp *d, const isa_insn *in, const vm_operands *a, const vm_lanes *l,
                        uint32_t first, uint32_t n, vm_workspace *w) {
  lend(&w->dp, d, l, first, n, w);
  take_part(in, a, l, first, n, &w->operands);
  vm_verdict verdict = vm_run_handler(&w->dp, in->op, &w->operands);
  memcpy(d->acc + first, w->dp.acc, n * sizeof *w->dp.acc);
  if (verdict == VM_FAULT && first == 0) memcpy(d->fault, w->dp.fault, sizeof w->dp.fault);
  return verdict;
}

/* Whether the parts are independent of one another: what overlaps a destination has the same
 * partitions. */
static bool are_apart(const vm_item *it) {
  for (unsigned i = 0; i < it->ndst; i++) {
    const vm_box *d = &it->dst[i];
    for (unsigned k = 0; k < it->nsrc; k++)
      if (vm_box_meet(d, &it->src[k]) && (d->p0 != it->src[k].p0 || d->p1 != it->src[k].p1))
        return false;
    for (unsigned k = 0; k < i; k++)
      if (vm_box_meet(d, &it->dst[k])) return false;
  }
  return true;
}

static void note_size(void *ud, const isa_operand *o) {
  bool *given = ud;
  if (o->ap->size_dim) *given = true;
}
/* Only then can a handler of lanes.def find shapes that do not fit. */
static bool is_sized_by_register(const vm_core *c, const isa_insn *in) {
  bool given = false;
  isa_each_operand(c->prog, c->code, in, note_size, &given);
  return given;
}

/* Partitions from the operands: each has the same number of partitions, or one. */
static bool measure(const vm_flight *f, vm_lanes *l) {
  const isa_form *form = isa_form_of(f->in->op);
  vm_operands *a = (vm_operands *)(uintptr_t)&f->a;
  const vm_view *v[FIELDS];
  unsigned n = 0;
  for (unsigned left = form->memory, i; left; left &= left - 1) {
    i = (unsigned)__builtin_ctz(left);
    if ((v[n] = view_of(form->fields[i].kind, vm_operand_at(f->in, a, i)))) n++;
  }
  for (unsigned i = 0; i < n; i++)
    if (v[i]->num[0] > l->rows) l->rows = v[i]->num[0];
  for (unsigned i = 0, found = 0; i < n; i++) {
    if (v[i]->num[0] == l->rows) {
      l->straight &= v[i]->space != ISA_HBM && (!found++ || v[i]->part == l->part);
      l->part = v[i]->part;
    } else if (v[i]->num[0] != 1) {
      return false;
    }
  }
  return n > 0;
}

/* One that writes a row from partitions of its source stays whole: a transpose32 into [1, 32]. */
static bool writes_all_rows(const vm_item *it, uint32_t rows) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (it->dst[i].space != ISA_HBM && it->dst[i].p0 + rows != it->dst[i].p1) return false;
  return true;
}

bool vm_lanes_of(const vm_core *c, const vm_flight *f, vm_lanes *l) {
  *l = (vm_lanes){.rows = 1, .least = vm_lanes_rows[f->in->op].least, .straight = true};
  if (!measure(f, l) || !writes_all_rows(&f->item, l->rows) || !are_apart(&f->item)) return false;
  int round = isa_field_of(f->in->op, ISA_K_ENUM, ISA_SET_ROUND);
  l->rounds =
      round >= 0 && *(const uint8_t *)isa_member_c(f->in, &isa_form_of(f->in->op)->fields[round]) ==
                        ISA_ROUND_stochastic;
  l->straight &= l->part % l->least == 0 && !is_sized_by_register(c, f->in);
  return true;
}
