/* What an item reads and writes, from the flags of its form. */
#include "impl.h"
#include "../isa/operand.h"

typedef struct walk {
  const as_kernel *k;
  uint32_t ops; /* the item's operands are numbered from here on */
  as_k_use *out;
  unsigned n;
} walk;

static void use(walk *w, uint32_t number, as_k_use u) {
  if (!number || w->n == K_OPERANDS) return;
  const as_k_operand *o = as_k_op(w->k, w->ops + number);
  const as_k_dyn *d = o->dyn ? &w->k->dyns[o->dyn - 1] : NULL;
  /* What is written then is somewhere within the operand, not all of it. */
  if (d && (d->kind || d->index_kind || d->size_dim)) u.covers = false;
  u.operand = number;
  w->out[w->n++] = u;
  as_k_use inner = {.field = u.field, .reads = true};
  if (d && d->kind == ISA_DYN_elem) use(w, d->elem - w->ops, inner);
  if (d && d->index_kind) use(w, d->index - w->ops, inner);
}

/* Whether an instruction adds to its destination. */
static bool adds(const isa_insn *in, const isa_field *f) {
  int acc = isa_insn_acc(in);
  if (f->arg & AP_FREED) return false;
  return isa_reads_destination(in) || (acc >= 0 && acc != ISA_ACC_write);
}

unsigned as_k_uses(const as_kernel *k, const isa_insn *in, uint32_t ops, as_k_use out[K_OPERANDS]) {
  walk w = {k, ops, out, 0};
  const isa_form *form = isa_form_of(in->op);
  /* A bit for each field of the form that may be in memory. */
  for (unsigned left = form->memory; left; left &= left - 1) {
    unsigned i = (unsigned)__builtin_ctz(left);
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(in, f);
    as_k_use u = {.field = (uint8_t)i};
    if (f->kind == ISA_K_NUM) {
      const isa_num *n = m;
      u.reads = true;
      if (n->kind == ISA_NUM_ap) use(&w, n->v, u);
    } else {
      u.writes = (f->arg & AP_W) != 0;
      u.reads = (f->arg & AP_R) != 0 || (u.writes && adds(in, f));
      u.covers = u.writes && !(f->arg & AP_IN_PART);
      /* Only named, as by core_barrier: it stands between what was before and what comes after. */
      if (!(f->arg & (AP_R | AP_W))) u.writes = true;
      if (f->kind == ISA_K_AP) {
        use(&w, *(const isa_t_AP *)m, u);
        continue;
      }
      const isa_ref *list = m;
      const uint32_t *numbers =
          list->count ? (const uint32_t *)&k->ops[ops + list->offset - 1] : NULL;
      for (uint32_t j = 0; j < list->count; j++) use(&w, numbers[j], u);
    }
  }
  return w.n;
}

void as_k_bytes_of(const as_kernel *k, const as_k_operand *o, as_k_bytes *out) {
  const as_k_buffer *b = as_k_buf(k, o->buffer);
  bool hbm = o->space == ISA_HBM;
  if (as_k_moves(k, o)) {
    /* A register or a vector can point it anywhere in its buffer. */
    *out = (as_k_bytes){.p0 = b->part,
                        .p1 = (uint16_t)(hbm ? 1 : b->part + b->nparts),
                        .hi = (int64_t)as_k_buffer_bytes(k, b)};
    return;
  }
  const isa_byteset *set = &as_k_shape_of(k, o)->set;
  out->p0 = hbm ? 0 : o->part;
  out->p1 = (uint16_t)(hbm ? 1 : o->part + o->nparts);
  out->lo = o->offset + set->start;
  out->hi = out->lo + set->span[0];
  out->set = set->n ? set : NULL;
}
