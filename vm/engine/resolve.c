/* From the operands that a program names to host memory: registers are read, dynamic offsets and
 * sizes are checked, lists are looked up. */
#include "engine.h"
#include "../dma/dma.h"

#include <string.h>

/* Reads the int32 or uint32 element that a dynamic offset names. */
static int64_t read_element(const vm_view *v) {
  uint32_t bits = 0;
  vm_load_bits(&bits, v, 0, 0, 1);
  return v->dtype == ISA_int32 ? (int64_t)(int32_t)bits : (int64_t)bits;
}

/* Notes when the engine's own data path has finished with an element that gives an offset. */
static void note_hazard(vm_resolver *r, const vm_view *v) {
  vm_box box;
  vm_view_box(r->c, v, &box);
  vm_moment through =
      vm_own_hazard(r->c, r->e->dp.engine, (vm_boxes){&box, 1}, (vm_boxes){0}, r->c->now);
  r->ready = vm_later(r->ready, through);
}

/* An operand that gives another one's place is read now. */
static bool resolve_index(vm_resolver *r, uint32_t ap, vm_view *out) {
  /* Even for a transfer: the place depends on its value now. */
  bool later = r->later;
  r->later = false;
  bool ok = vm_resolve_ap(r, ap, out);
  r->later = later;
  return ok;
}

/* Adds the pattern's dynamic offsets; moved: the value of each. */
static bool dynamic_offset(vm_resolver *r, const isa_ap *ap, int64_t *offset, int64_t *moved) {
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *d = &ap->dyn[i];
    int64_t value = 0;
    /* Unused entries lie anywhere. */
    if (d->kind == ISA_DYN_none) continue;
    r->moved = true;
    if (d->kind == ISA_DYN_reg) {
      value = (int32_t)r->e->regs[d->reg];
    } else {
      vm_view v;
      if (!resolve_index(r, d->ap, &v)) return false;
      note_hazard(r, &v);
      /* The engine's data path will still write it: the caller waits and reads it again. */
      if (r->ready.time > r->c->now)
        vm_batch_settle(r->c, NULL); /* what is read does not count */
      else
        vm_touch(r->c, r->e->dp.engine, &v, false);
      value = read_element(&v);
    }
    moved[i] = value;
    /* A hostile stride times a register may leave 64 bits. */
    if (!isa_ap_move(ap, d, value, offset))
      return isa_fail(r->err, ISA_FAULT, ISA_NOFIELD,
                      "a dynamic offset of %lld times %lld overflows", (long long)value,
                      (long long)d->stride);
  }
  return true;
}

static bool is_indirect(const isa_ap *ap) { return ap->index_kind == ISA_INDEX_indirect; }

bool vm_ap_is_dynamic(const isa_ap *ap) {
  bool moves = is_indirect(ap);
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) moves |= ap->dyn[i].kind != ISA_DYN_none;
  return moves;
}

static bool same_dynamic_offsets(const isa_ap *a, const isa_ap *b) {
  if (is_indirect(a) || is_indirect(b)) return false;
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    /* The order of the offsets counts, as in the pattern. */
    const isa_dyn *x = &a->dyn[i], *y = &b->dyn[i];
    if (x->kind != y->kind || x->reg != y->reg || x->ap != y->ap || x->stride != y->stride)
      return false;
  }
  /* Two patterns of different element sizes move by different numbers of bytes. */
  return isa_dtype_bytes(a->dtype) == isa_dtype_bytes(b->dtype);
}

int vm_recall_of(const vm_core *c, const vm_recall *r, uint32_t ap) {
  const isa_ap *aps = c->code->aps;
  for (uint32_t i = 0; i < r->n; i++)
    /* Patterns that move alike share an entry: an instruction's operands often have the same row.
     */
    if (r->ap[i] == ap || same_dynamic_offsets(&aps[ap - 1], &aps[r->ap[i] - 1])) return (int)i;
  return -1;
}

/* The same for an operand of a saved run: patterns that move alike have moved alike. */
static bool recall_offset(const vm_core *c, const vm_recall *r, uint32_t ap, int64_t *offset,
                          isa_error *err) {
  int i = vm_recall_of(c, r, ap);
  if (!vm_ap_is_dynamic(&c->code->aps[ap - 1])) return true;
  if (i >= 0 && !__builtin_add_overflow(*offset, r->displaced[i], offset)) return true;
  return isa_fail(err, ISA_FORMAT, ISA_NOFIELD, "its dynamic offset is not known");
}

/* Tells those who watch that n elements of an index are read: whole columns, then a part of one. */
static void note_index(vm_core *c, unsigned e, const vm_view *index, uint64_t n) {
  unsigned group = isa_index_group(e);
  vm_view v = *index;
  v.num[0] = (uint32_t)(n < group ? n : group);
  if (index->run != index->elems || n < group) { /* then it is taken as it is */
    /* Fewer offsets than partitions of the group: the first column only. */
    if (n < group) v.elems = v.run = 1, v.ndim = 1;
    vm_watch_access(c, e, &v, false);
    return;
  }
  /* Whole columns first, all `group` partitions of them. */
  v.ndim = 2;
  v.step[1] = index->run_step;
  v.elems = v.run = n / group;
  v.num[1] = (uint32_t)v.elems;
  vm_watch_access(c, e, &v, false);
  /* The last column, in as many partitions as are left. */
  v.at += (int64_t)v.elems * index->run_step;
  v.num[0] = (uint32_t)(n % group);
  v.elems = v.run = v.num[1] = 1;
  if (v.num[0]) vm_watch_access(c, e, &v, false);
}

/* The index of an `.indirect` operand of `elems` elements, about to be read. */
static bool find_index(vm_resolver *r, uint32_t ap, uint64_t elems, vm_view *index) {
  vm_core *c = r->c;
  /* Its own data path may still write the index. */
  if (!resolve_index(r, c->code->aps[ap - 1].index, index)) return false;
  note_hazard(r, index);
  vm_batch_settle(c, NULL);
  /* Watchers hear of it only when it counts. */
  if (c->watchers && !c->run->timing_only && r->ready.time <= c->now)
    note_index(c, r->e->dp.engine, index, elems);
  return true;
}

/* The offsets that a saved run has read from the index. */
static bool recall_places(const vm_core *c, const vm_recall *r, uint32_t ap, uint64_t elems,
                          const uint8_t **given, isa_error *err) {
  int i = vm_recall_of(c, r, ap);
  if (i < 0 || r->noffsets[i] != elems)
    return isa_fail(err, ISA_FORMAT, ISA_NOFIELD, "%u offsets of its %llu elements are known",
                    i < 0 ? 0 : r->noffsets[i], (unsigned long long)elems);
  *given = r->offsets[i];
  return true;
}

/* Puts the places of an `.indirect` operand that starts at that offset into v, which has the
 * rest. */
static bool find_places(vm_resolver *r, uint32_t ap, int64_t offset, vm_view *v) {
  vm_view index;
  vm_reach in = {.offset = offset};
  const vm_recall *recall = r->e->recall;
  bool found = recall ? recall_places(r->c, recall, ap, v->elems, &in.given, r->err)
                      : find_index(r, ap, v->elems, &index);
  /* Where the places must stay: the tile, or the memory if there is none. */
  isa_bounds b;
  isa_ap_home(r->c->prog, &r->c->code->aps[ap - 1], &b);
  in.lo = b.lo, in.hi = b.hi, in.name = b.name;
  return found && vm_indirect(r, &in, &index, v);
}

uint8_t *vm_ap_base(const vm_core *c, const isa_ap *ap) {
  switch (ap->space) {
  /* A peer's SBUF is the other core's of the pair. */
  case ISA_SBUF: return vm_sbuf_of(c, c->number ^ ap->peer) + ap->part * c->mem.sbuf_pitch;
  case ISA_PSUM: return c->mem.psum + ap->part * c->mem.psum_pitch;
  default: return c->run->blocks[ap->base - 1].data;
  }
}

void vm_view_at(const vm_core *c, const isa_ap *ap, uint8_t *at, vm_view *out) {
  /* A view has the partitions in front, 1 of them in HBM. */
  bool on_chip = ap->space != ISA_HBM;
  memset(out, 0, sizeof *out);
  out->dtype = ap->dtype;
  out->space = ap->space;
  out->esize = (uint8_t)isa_dtype_bytes(ap->dtype);
  out->part = ap->part;
  out->tile = on_chip && ap->base <= UINT16_MAX ? (uint16_t)ap->base : 0;
  out->core = on_chip ? c->number ^ ap->peer : 0;
  out->ndim = (uint8_t)(ap->ndim + 1);
  out->num[0] = on_chip ? ap->nparts : 1;
  out->step[0] =
      !on_chip ? 0 : (int64_t)(ap->space == ISA_SBUF ? c->mem.sbuf_pitch : c->mem.psum_pitch);
  for (unsigned d = 0; d < ap->ndim; d++) {
    out->num[d + 1] = ap->dim[d].num;
    out->step[d + 1] = ap->dim[d].step * out->esize;
  }
  out->elems = isa_ap_elems(ap);
  out->at = at;
  vm_view_runs(out);
}

bool vm_resolve_ap(vm_resolver *r, uint32_t ap_index, vm_view *out) {
  const vm_core *c = r->c;
  const vm_engine *e = r->e;
  const isa_ap *ap = &c->code->aps[ap_index - 1];
  isa_ap resized;
  /* A copy of the pattern with the register's size; the program's own is not changed. */
  if (ap->size_dim) {
    uint32_t size = e->regs[ap->size_reg];
    resized = *ap;
    ap = &resized;
    if (!isa_ap_resize(&resized, size))
      return isa_fail(r->err, ISA_FAULT, ISA_NOFIELD, "size r%u is %d, outside its bound 0..%u",
                      ap->size_reg, (int32_t)size, isa_ap_most(ap));
  }
  int64_t offset = ap->offset, moved[ISA_MAX_DYN] = {0};
  uint64_t elems = isa_ap_elems(ap);
  bool on_chip = ap->space != ISA_HBM;
  /* An operand without elements has no place: registers may move it anywhere. */
  bool empty = elems == 0 || (on_chip && ap->nparts == 0);
  bool known = e->recall ? empty || recall_offset(c, e->recall, ap_index, &offset, r->err)
                         : dynamic_offset(r, ap, &offset, moved);
  /* The reason is in r->err. */
  if (!known) return false;
  isa_bounds b;
  /* Moved out of its tile, tensor or memory. */
  if (!empty && !isa_ap_stays(c->prog, ap, offset, &b)) {
    if (r->err) vm_put_bounds(r, ap_index, e->recall ? NULL : moved, &b);
    return false;
  }
  vm_view_at(c, ap, vm_ap_base(c, ap) + (empty ? 0 : offset), out);
  /* Zeros of an earlier run's block are written before somebody looks. */
  if (!on_chip && !empty && !r->later && c->run->stale) vm_hbm_use_all(r->c, ap->base - 1u);
  if (!is_indirect(ap) || empty) return true;
  return find_places(r, ap_index, offset, out);
}

isa_ap vm_resolved_pattern(const vm_core *c, const isa_ap *ap, const vm_view *v) {
  isa_ap s = *ap;
  bool sbuf = ap->space == ISA_SBUF, hbm = ap->space == ISA_HBM;
  memset(s.dyn, 0, sizeof s.dyn);
  /* All that depends on registers is in v. */
  s.size_dim = s.size_reg = 0;
  s.nparts = hbm ? 0 : (uint16_t)v->num[0];
  for (unsigned d = 0; d < ap->ndim; d++) s.dim[d].num = v->num[d + 1];
  if (hbm)
    s.offset = v->at - c->run->blocks[ap->base - 1].data;
  else
    /* The byte in its partition. */
    s.offset = (v->at - (sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum)) %
               (int64_t)(sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch);
  return s;
}

void vm_view_box(const vm_core *c, const vm_view *v, vm_box *out) {
  /* An indirect view has its least and largest place; others reach from their first element in each
   * dimension. */
  int64_t lo = v->lo, hi = v->hi + v->esize;
  for (unsigned d = 1; d < v->ndim && !v->place; d++) {
    int64_t reach = v->step[d] * ((int64_t)v->num[d] - 1);
    /* A negative step reaches down. */
    *(reach < 0 ? &lo : &hi) += reach;
  }
  uint64_t at = (uint64_t)(uintptr_t)v->at;
  if (v->space != ISA_HBM) {
    bool sbuf = v->space == ISA_SBUF;
    const uint8_t *base = sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum;
    at = (uint64_t)(v->at - base) % (sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch);
  }
  bool empty = v->elems == 0 || v->num[0] == 0;
  *out = (vm_box){.space = empty ? 0 : v->space,
                  .core = v->core,
                  .p0 = v->part,
                  .p1 = (uint16_t)(v->part + v->num[0]),
                  .lo = at + (uint64_t)lo,
                  .hi = at + (uint64_t)hi};
}

static bool resolve_num(vm_resolver *r, const isa_num *n, vm_num *out) {
  memset(out, 0, sizeof *out);
  out->given = n->kind != ISA_NUM_none;
  if (n->kind == ISA_NUM_imm)
    out->imm = isa_bits_f32(n->v);
  else if (n->kind == ISA_NUM_reg)
    out->imm = isa_bits_f32(r->e->regs[n->v]);
  else if (n->kind == ISA_NUM_ap)
    return vm_resolve_ap(r, n->v, &out->v);
  return true;
}

static bool resolve_views(vm_resolver *r, isa_ref ref, vm_views *out) {
  const uint8_t *list = isa_program_list(r->c->prog, ref, ISA_K_APS);
  out->n = ref.count;
  for (uint32_t i = 0; i < ref.count; i++) {
    uint32_t ap;
    memcpy(&ap, list + 4 * i, 4);
    if (!vm_resolve_ap(r, ap, &out->v[i])) return false;
  }
  return true;
}

static bool resolve_field(vm_resolver *r, const isa_field *f, const void *from, void *to) {
  const isa_program *prog = r->c->prog;
  const isa_ref *ref = from;
  switch (f->kind) {
  case ISA_K_AP: {
    uint32_t ap = *(const uint32_t *)from;
    if (ap) return vm_resolve_ap(r, ap, to);
    memset(to, 0, sizeof(vm_view));
    return true;
  }
  case ISA_K_NUM: return resolve_num(r, from, to);
  case ISA_K_INT: {
    const isa_int *v = from;
    /* 32 bits either way: an integer in a register is one of the engine's. */
    *(int32_t *)to = v->is_reg ? (int32_t)r->e->regs[v->v] : v->v;
    return true;
  }
  case ISA_K_APS: return resolve_views(r, *ref, to);
  case ISA_K_STEPS: {
    vm_steps *s = to;
    s->n = ref->count;
    memcpy(s->s, isa_program_list(prog, *ref, ISA_K_STEPS), ref->count * sizeof s->s[0]);
    return true;
  }
  case ISA_K_STR:
  case ISA_K_BYTES:
  case ISA_K_I32S:
  case ISA_K_PAIRS:
    *(vm_bytes *)to = (vm_bytes){ref->count, isa_program_list(prog, *ref, f->kind)};
    /* As they are in the program: lists of bytes are not copied. */
    return true;
  case ISA_K_F32S:
    *(vm_f32s *)to = (vm_f32s){ref->count, (const float *)isa_program_list(prog, *ref, f->kind)};
    return true;
  case ISA_K_U16: memcpy(to, from, 2); return true;
  case ISA_K_U32:
  case ISA_K_I32:
  case ISA_K_LABEL: memcpy(to, from, 4); return true;
  case ISA_K_PLACE: memcpy(to, from, sizeof(isa_point)); return true;
  /* One byte: enumerations, registers, semaphores, queues. */
  default: *(uint8_t *)to = *(const uint8_t *)from; return true;
  }
}

/* Where each form's resolved fields lie in vm_operands, in the order of isa_forms[].fields. */
#define FORM(id) static const uint16_t places_##id[] = {
#define FIELD(form, name, kind, mode, arg) (uint16_t) offsetof(struct vm_##form, name),
#define END(id) \
  0             \
  }             \
  ;
#include "../../isa/forms.def"
static const uint16_t *const places[ISA_NFORMS] = {
#define FORM(id) places_##id,
#include "../../isa/forms.def"
};

bool vm_resolve(vm_resolver *r, const isa_insn *in, vm_operands *a) {
  const isa_form *form = isa_form_of(in->op);
  const uint16_t *at = places[isa_ops[in->op].form];
  for (unsigned i = 0; i < form->nfields; i++) {
    /* Fields of the program's instruction and of the resolved operands go in one order. */
    if (resolve_field(r, &form->fields[i], isa_member_c(in, &form->fields[i]), (char *)a + at[i]))
      continue;
    if (r->err) r->err->field = (int)i;
    return false;
  }
  return true;
}

size_t vm_operands_size(unsigned op) {
  static const uint16_t size[ISA_NFORMS] = {
#define FORM(id) sizeof(struct vm_##id),
#include "../../isa/forms.def"
  };
  return size[isa_ops[op].form];
}

void *vm_operand_at(const isa_insn *in, vm_operands *a, unsigned field) {
  return (char *)a + places[isa_ops[in->op].form][field];
}

struct views {
  const uint16_t *places;
  char *operands;
  vm_view_fn *fn;
  void *ud;
};
static void visit_view(void *ud, const isa_operand *o) {
  const struct views *w = ud;
  void *at = w->operands + w->places[o->field];
  switch (o->via) {
  case ISA_VIA_NUM: w->fn(w->ud, o, &((vm_num *)at)->v); break;
  case ISA_VIA_APS: w->fn(w->ud, o, &((vm_views *)at)->v[o->nth]); break;
  default: w->fn(w->ud, o, at); break;
  }
}

void vm_each_view(const vm_core *c, const isa_insn *in, const vm_operands *a, vm_view_fn *fn,
                  void *ud) {
  struct views w = {places[isa_ops[in->op].form], (char *)(uintptr_t)a, fn, ud};
  isa_each_operand(c->prog, c->code, in, visit_view, &w);
}
