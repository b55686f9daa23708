/* Kernels become a program: one of one core, or two, one of each core, which share what both see of
 * HBM. */
#include "impl.h"

static bool make(as_kernel *const *k, unsigned n, isa_program *p, as_kernel **failed) {
  as_k_names names[ISA_MAX_CORES] = {{.k = k[0]}, {.k = k[n - 1]}};
  bool ok = true;
  for (unsigned c = 0; c < n && ok; c++) {
    *failed = k[c];
    ok = as_k_put_tensors(k[c], p, &names[0]);
  }
  for (unsigned c = 0; c < n && ok; c++) {
    *failed = k[c];
    ok = as_k_make_core(k[c], p, &names[c], c ? &names[0] : NULL);
  }
  for (unsigned c = 0; c < n; c++) as_k_names_close(&names[c]);
  return ok;
}

static isa_program *program_of(as_kernel *const *k, unsigned n, as_kernel **failed) {
  for (unsigned c = 0; c < n; c++) {
    *failed = k[c];
    if (!as_k_prepare(k[c])) return NULL;
  }
  isa_program *p = isa_program_new(&k[0]->al, k[0]->target);
  if (!p) {
    as_k_nomem(*failed);
    return NULL;
  }
  p->ncores = n;
  bool ok = make(k, n, p, failed);
  for (unsigned c = 0; c < n; c++) k[c]->made = ok;
  if (ok) return p;
  isa_program_free(p);
  return NULL;
}

isa_program *as_kernel_finish(as_kernel *k) {
  as_kernel *failed;
  if (k->o.cores > 1) {
    as_k_fail(k, ISA_ARG, (isa_line){0}, "the program is of two cores: it takes both kernels");
    return NULL;
  }
  return program_of(&k, 1, &failed);
}

/* ---- Two cores ----------------------------------------------------------------------------- */

static bool pair_ok(as_kernel *first, as_kernel *second, as_kernel **failed) {
  static const isa_line none;
  as_kernel *k[] = {first, second};
  for (unsigned c = 0; c < 2; c++) {
    *failed = k[c];
    if (k[c]->o.cores != 2 || k[c]->o.core != c)
      return as_k_fail(k[c], ISA_ARG, none, "the kernels are of core 0 and of core 1 of two");
    if (!as_k_is_open(k[c], none)) return false;
  }
  return first->target == second->target ||
         as_k_fail(second, ISA_ARG, none, "core 0 is of %s, core 1 of %s", first->target->name,
                   second->target->name);
}

static bool same_type(const isa_tensor *a, const isa_tensor *b) {
  return a->dtype == b->dtype && a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

static void print_type(const isa_tensor *t, isa_buf *out) {
  isa_buf_printf(out, "%s %s[", isa_role_name(t->role), isa_dtypes[t->dtype].name);
  for (unsigned d = 0; d < t->ndim; d++)
    isa_buf_printf(out, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
  isa_buf_puts(out, "]");
}

static bool differ(as_kernel *k, const isa_tensor *a, const isa_tensor *b) {
  isa_buf first, second;
  isa_buf_init(&first, &k->al);
  isa_buf_init(&second, &k->al);
  print_type(a, &first);
  print_type(b, &second);
  as_k_fail(k, ISA_ARG, (isa_line){0}, "tensor %.60s is %s here and %s on core 0: it is one tensor",
            b->name, isa_buf_str(&second), isa_buf_str(&first));
  isa_buf_free(&first);
  isa_buf_free(&second);
  return false;
}

/* What is an input or output of a core has its name on both. */
static bool tensors_agree(as_kernel *first, as_kernel *second) {
  const isa_program *a = first->scratch, *b = second->scratch;
  for (uint32_t i = 0; i < b->ntensors; i++) {
    const isa_tensor *t = &b->tensors[i];
    int at = isa_program_find_tensor(a, t->name, strlen(t->name));
    const isa_tensor *s = at < 0 ? NULL : &a->tensors[at];
    bool own = t->role == ISA_TEMP || t->role == ISA_CONST;
    if (!s || (own && (s->role == ISA_TEMP || s->role == ISA_CONST))) continue;
    if (s->role != t->role || !same_type(s, t)) return differ(second, s, t);
  }
  return true;
}

isa_program *as_kernel_finish_pair(as_kernel *first, as_kernel *second, as_kernel **failed) {
  as_kernel *k[] = {first, second};
  if (!pair_ok(first, second, failed) || !tensors_agree(first, second)) return NULL;
  return program_of(k, 2, failed);
}
