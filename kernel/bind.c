/* Operands and items of the builder as patterns and instructions of a program. */
#include "impl.h"

static bool slot(uint32_t *slots, uint32_t *n, uint32_t most, uint32_t value, uint32_t *out) {
  for (*out = 0; *out < *n; ++*out)
    if (slots[*out] == value) return true;
  if (*n == most) return false;
  slots[(*n)++] = value;
  return true;
}

/* While verifying, a tile without a place lies where no other tile of the item does: far past the
 * end of its memory, at the start of a bank. */
static uint32_t provisional(as_k_binder *b, uint32_t number, uint32_t at) {
  const as_k_buffer *t = as_k_buf(b->k, number);
  isa_tile *tile = &b->p->tiles[at];
  tile->name = t->name ? t->name : "of this operand";
  tile->dtype = t->dtype;
  tile->space = t->space;
  tile->ndim = t->ndim;
  tile->part = t->part;
  memcpy(tile->shape, t->shape, sizeof tile->shape);
  tile->bytes = t->bytes;
  /* In the program the tiles do not overlap; here they must not either, or the verifier would
   * refuse. */
  tile->offset = t->fixed ? t->offset : (at + 1) << 18;
  return tile->offset;
}

static bool base_of(as_k_binder *b, const as_k_operand *o, isa_ap *ap) {
  const as_k_buffer *t = as_k_buf(b->k, o->buffer);
  uint32_t at, before = b->nslots;
  ap->offset = o->offset;
  if (o->space == ISA_HBM) {
    ap->base = b->final ? b->k->placed[t->tensor - 1] : t->tensor;
    return true;
  }
  ap->part = o->part;
  ap->nparts = o->nparts;
  if (b->final) {
    ap->base = t->tile;
    ap->offset += t->offset;
    return true;
  }
  if (!slot(b->slots, &b->nslots, K_OPERANDS, o->buffer, &at)) return false;
  ap->base = at + 1;
  ap->offset += at < before ? b->p->tiles[at].offset : provisional(b, o->buffer, at);
  return true;
}

/* The register of the engine; while verifying, one of its own. */
static bool register_of(as_k_binder *b, uint32_t reg, uint8_t *out) {
  uint32_t at;
  if (b->final) {
    *out = b->k->reg_places[(size_t)reg * ISA_NENGINES + b->engine];
    return true;
  }
  if (!slot(b->regs, &b->nregs, ISA_NREGS, reg, &at)) return false;
  *out = (uint8_t)at;
  return true;
}

static uint32_t add_pattern(as_k_binder *b, const isa_ap *ap) {
  if (b->final) return isa_program_ap(b->p, b->k->o.core, ap);
  isa_core *c = &b->p->cores[0];
  if (!isa_array_room(&b->k->al, &c->aps, c->naps, &c->cap_aps, sizeof *ap)) return 0;
  c->aps[c->naps] = *ap;
  return ++c->naps;
}

static bool pattern(as_k_binder *b, uint32_t number, uint32_t *out);

static bool dynamic(as_k_binder *b, const as_k_dyn *d, isa_ap *ap) {
  ap->dyn[0].kind = d->kind;
  ap->dyn[0].stride = d->stride;
  ap->size_dim = d->size_dim;
  ap->index_kind = d->index_kind;
  ap->index_dim = d->index_dim;
  return (d->kind != ISA_DYN_reg || register_of(b, d->reg, &ap->dyn[0].reg)) &&
         (d->kind != ISA_DYN_elem || pattern(b, d->elem, &ap->dyn[0].ap)) &&
         (!d->size_dim || register_of(b, d->size_reg, &ap->size_reg)) &&
         (!d->index_kind || pattern(b, d->index, &ap->index));
}

/* The tile that an operand of a program has all partitions of, from their first byte on; else NULL.
 * Most operands are like that, and one after another has the same elements. */
static as_k_buffer *whole_of(const as_k_binder *b, const as_k_operand *o) {
  as_k_buffer *t = as_k_buf(b->k, o->buffer);
  bool whole = b->final && o->space != ISA_HBM && !o->dyn && o->offset == 0 && o->part == t->part &&
               o->nparts == t->nparts;
  return whole ? t : NULL;
}

/* The number of the pattern of an operand. */
static bool pattern(as_k_binder *b, uint32_t number, uint32_t *out) {
  isa_ap ap;
  const as_k_operand *o = as_k_op(b->k, number);
  as_k_buffer *whole = whole_of(b, o);
  /* Two shapes: most tiles are used as a whole and in one other way. */
  for (unsigned i = 0; i < 2 && whole; i++)
    if (whole->shape_of[i] == o->shape) {
      *out = whole->pattern[i];
      return true;
    }
  const as_k_shape *s = as_k_shape_of(b->k, o);
  memset(&ap, 0, sizeof ap);
  ap.dtype = s->dtype;
  ap.space = o->space;
  ap.ndim = s->ndim;
  memcpy(ap.dim, s->dim, sizeof ap.dim);
  if (!base_of(b, o, &ap)) return false;
  if (o->dyn && !dynamic(b, &b->k->dyns[o->dyn - 1], &ap)) return false;
  bool first = whole && !whole->shape_of[0];
  *out = first ? isa_program_new_ap(b->p, b->k->o.core, &ap) : add_pattern(b, &ap);
  if (whole && *out) {
    whole->pattern[!first] = *out;
    whole->shape_of[!first] = o->shape;
  }
  return *out != 0;
}

static bool patterns(as_k_binder *b, uint32_t ops, isa_ref *list) {
  enum { MOST = 16 };
  uint32_t numbers[MOST], to[MOST] = {0}, n = list->count;
  if (n == 0) return true;
  memcpy(numbers, &b->k->ops[ops + list->offset - 1], n * sizeof *numbers);
  for (uint32_t i = 0; i < n; i++)
    if (!pattern(b, ops + numbers[i], &to[i])) return false;
  return isa_program_pool(b->p, to, n, sizeof *to, list);
}

/* Lists lie in the pool of the program that verifies. */
static bool list(as_k_binder *b, unsigned kind, isa_ref *r) {
  if (!b->final) return true;
  const void *data = isa_program_list(b->k->scratch, *r, kind);
  return data && isa_program_pool(b->p, data, r->count, isa_kind_elem[kind], r);
}

/* A number of an operand in an instruction becomes that of its pattern. */
static bool field_pattern(as_k_binder *b, uint32_t ops, uint32_t *number) {
  return !*number || pattern(b, ops + *number, number);
}

static bool bind_field(as_k_binder *b, uint32_t ops, const isa_field *f, isa_insn *out) {
  isa_num *num = isa_member(out, f);
  isa_int *i = isa_member(out, f);
  uint8_t reg;
  switch (f->kind) {
  case ISA_K_AP: return field_pattern(b, ops, isa_member(out, f));
  case ISA_K_APS: return patterns(b, ops, isa_member(out, f));
  case ISA_K_NUM:
    if (num->kind == ISA_NUM_ap) return field_pattern(b, ops, &num->v);
    if (num->kind != ISA_NUM_reg) return true;
    if (!register_of(b, num->v, &reg)) return false;
    num->v = reg;
    return true;
  case ISA_K_INT:
    if (!i->is_reg) return true;
    if (!register_of(b, (uint32_t)i->v, &reg)) return false;
    i->v = reg;
    return true;
  case ISA_K_GROUP: {
    isa_t_GROUP *g = isa_member(out, f);
    if (b->final) *g = (isa_t_GROUP)isa_program_find_group(b->p, &b->k->scratch->groups[*g], 0);
    return true;
  }
  default: return !isa_kind_elem[f->kind] || list(b, f->kind, isa_member(out, f));
  }
}

bool as_k_bind(as_k_binder *b, const as_k_verdict *r, uint32_t ops, isa_insn *out) {
  const isa_form *form = isa_form_of(r->in.op);
  unsigned nregs = 0;
  *out = r->in;
  if (r->plain) {
    for (unsigned i = 0; i < r->nsites; i++) {
      const as_k_site *s = &b->k->sites[r->sites + i];
      if (!field_pattern(b, ops, (uint32_t *)(void *)((char *)out + s->member))) return false;
    }
    return true;
  }
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    bool ok = f->kind == ISA_K_REG ? register_of(b, r->regs[nregs++ & 1], isa_member(out, f))
                                   : bind_field(b, ops, f, out);
    if (!ok) return false;
  }
  return true;
}
