/* Collectives: operations of several ranks, and the groups that they name. */
#include "names.h"
#include "../isa/operand.h"

bool as_k_is_collective(const as_k_item *it) {
  return it->op < ISA_NOPS && isa_op_is_collective(it->op);
}

bool as_k_runs_on(const as_k_item *it) {
  return it->op < ISA_NOPS && (isa_op_is_dma(it->op) || isa_op_is_collective(it->op));
}

bool as_kernel_group(as_kernel *k, const isa_group *g, uint32_t *group) {
  isa_error e = {.status = ISA_OK};
  isa_line none = {0};
  if (!as_k_is_open(k, none)) return false;
  if (!isa_check_group(g, &e)) return as_k_fail(k, e.status, none, "a group: %s", e.text);
  uint32_t at = isa_program_find_group(k->scratch, g, 0);
  if (at == ISA_MAX_GROUPS)
    return as_k_fail(k, ISA_LIMIT, none, "a kernel has at most %d replica groups", ISA_MAX_GROUPS);
  *group = at < k->scratch->ngroups ? at + 1 : isa_program_group(k->scratch, g);
  return *group || as_k_nomem(k);
}

bool as_k_put_groups(as_kernel *k, isa_program *p, as_k_names *names) {
  for (uint32_t i = 0; i < k->scratch->ngroups; i++) {
    isa_group g = k->scratch->groups[i];
    if (isa_program_find_group(p, &g, 0) < p->ngroups) continue;
    if (p->ngroups == ISA_MAX_GROUPS)
      return as_k_fail(k, ISA_LIMIT, (isa_line){0}, "a program has at most %d replica groups",
                       ISA_MAX_GROUPS);
    g.name = as_k_names_take(names, g.name);
    if (!g.name || !isa_program_group(p, &g)) return as_k_nomem(k);
  }
  return true;
}

/* ---- One operation in the programs of both cores -------------------------------------------- */

bool as_k_is_given(const as_kernel *k, const as_k_operand *o) {
  if (o->space != ISA_HBM) return false;
  unsigned role = k->scratch->tensors[as_k_buf(k, o->buffer)->tensor - 1].role;
  return role == ISA_INPUT || role == ISA_OUTPUT;
}

/* Whether operands of the two cores are the same elements; metadata in SBUF is each core's own. */
static bool same_operand(const as_kernel *a, const as_k_operand *x, const as_kernel *b,
                         const as_k_operand *y) {
  const as_k_shape *s = as_k_shape_of(a, x), *t = as_k_shape_of(b, y);
  if (x->space != y->space || x->dyn || y->dyn || s->dtype != t->dtype || s->ndim != t->ndim)
    return false;
  for (unsigned d = 0; d < s->ndim; d++)
    if (s->dim[d].step != t->dim[d].step || s->dim[d].num != t->dim[d].num) return false;
  if (x->space != ISA_HBM) return true;
  const isa_tensor *u = &a->scratch->tensors[as_k_buf(a, x->buffer)->tensor - 1];
  const isa_tensor *v = &b->scratch->tensors[as_k_buf(b, y->buffer)->tensor - 1];
  return x->offset == y->offset && strcmp(u->name, v->name) == 0;
}

/* The instruction with nothing that is numbered in its kernel. */
static void bare(const isa_insn *in, isa_insn *out) {
  memcpy(out, in, sizeof *out); /* padding too, for memcmp */
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    if (f->kind == ISA_K_AP)
      *(isa_t_AP *)isa_member(out, f) = 0;
    else if (f->kind == ISA_K_GROUP)
      *(isa_t_GROUP *)isa_member(out, f) = 0;
    else if (isa_kind_elem[f->kind])
      ((isa_ref *)isa_member(out, f))->offset = 0;
  }
}

static bool same_lists(const as_kernel *a, const isa_insn *x, const as_kernel *b,
                       const isa_insn *y) {
  const isa_form *form = isa_form_of(x->op);
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(x, f), *n = isa_member_c(y, f);
    if (f->kind == ISA_K_GROUP) {
      const isa_group *g = &b->scratch->groups[*(const isa_t_GROUP *)n];
      const isa_program *p = a->scratch;
      if (isa_program_find_group(p, g, 0) != *(const isa_t_GROUP *)m) return false;
    } else if (isa_kind_elem[f->kind] && f->kind != ISA_K_APS) {
      const isa_ref *r = m, *s = n;
      const void *u = r->count ? isa_program_list(a->scratch, *r, f->kind) : "";
      const void *v = s->count ? isa_program_list(b->scratch, *s, f->kind) : "";
      if (!u || !v || memcmp(u, v, (size_t)r->count * isa_kind_elem[f->kind])) return false;
    }
  }
  return true;
}

/* Whether an item is an operation on what both cores see. */
static bool is_of_both(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses;
  if (!as_k_is_collective(it)) return false;
  const isa_form *form = isa_form_of(it->op);
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    if (form->fields[uses[u].field].kind == ISA_K_APS &&
        !as_k_is_given(k, as_k_use_op(k, it, &uses[u])))
      return false;
  return true;
}

static bool same_operation(const as_kernel *a, const as_k_item *x, const as_kernel *b,
                           const as_k_item *y) {
  const as_k_use *p, *q;
  unsigned n = as_k_used(a, x, &p);
  if (x->op != y->op || as_k_used(b, y, &q) != n) return false;
  const isa_insn *i = &as_k_verdict_of(a, x)->in, *j = &as_k_verdict_of(b, y)->in;
  isa_insn s, t;
  bare(i, &s);
  bare(j, &t);
  if (memcmp(&s, &t, sizeof s) != 0 || !same_lists(a, i, b, j)) return false;
  for (unsigned u = 0; u < n; u++)
    if (!same_operand(a, as_k_use_op(a, x, &p[u]), b, as_k_use_op(b, y, &q[u]))) return false;
  return true;
}

static bool mark(as_kernel *k, as_k_item *it) {
  as_k_verdict *own = as_k_own_verdict(k, it);
  const isa_form *form = isa_form_of(it->op);
  if (!own) return false;
  /* `both` is the last field of their form. */
  *(isa_t_ENUM *)isa_member(&own->in, &form->fields[form->nfields - 1]) = 1;
  return true;
}

/* In the order of the lists, each with the next of the other core that is the same. */
bool as_k_pair_collectives(as_kernel *a, as_kernel *b, as_kernel **failed) {
  uint32_t from = 0;
  for (uint32_t i = 0; i < a->nitems; i++) {
    if (!is_of_both(a, &a->items[i])) continue;
    for (uint32_t j = from; j < b->nitems; j++) {
      if (!is_of_both(b, &b->items[j]) || !same_operation(a, &a->items[i], b, &b->items[j]))
        continue;
      *failed = a;
      if (!mark(a, &a->items[i])) return false;
      *failed = b;
      if (!mark(b, &b->items[j])) return false;
      from = j + 1;
      break;
    }
  }
  return true;
}
