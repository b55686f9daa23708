/* Kernels become a program: one of one core, or two, one of each core, which share what both see of
 * HBM. */
#include "names.h"

#include <stdio.h>

static bool make(as_kernel *const *k, unsigned n, isa_program *p, as_kernel **failed) {
  /* With one kernel both are the same, and only the first is used. */
  as_k_names names[ISA_MAX_CORES] = {{.k = k[0]}, {.k = k[n - 1]}};
  bool ok = true;
  /* Tensors and groups of both cores first: the instructions of either may name them. */
  for (unsigned c = 0; c < n && ok; c++) {
    *failed = k[c];
    ok = as_k_put_tensors(k[c], p, &names[0]) && as_k_put_groups(k[c], p, &names[0]);
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
    if (as_k_prepare(k[c])) continue;
    for (c = 0; c < n; c++) k[c]->finished = true; /* neither can be finished any more */
    return NULL;
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
    as_k_fail(k, ISA_ARG, (isa_line){0}, "the program is for two cores: it needs both kernels");
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
      return as_k_fail(k[c], ISA_ARG, none,
                       "a program of two kernels takes one for core 0 and one for core 1");
    if (!as_k_is_open(k[c], none)) return false;
  }
  return isa_target_same(first->target, second->target) ||
         as_k_fail(second, ISA_ARG, none, "core 0 is for %s, core 1 for %s", first->target->name,
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
  as_k_fail(k, ISA_ARG, (isa_line){0},
            "tensor %.60s is %s here and %s on core 0: both must be the same", b->name,
            isa_buf_str(&second), isa_buf_str(&first));
  isa_buf_free(&first);
  isa_buf_free(&second);
  return false;
}

/* What is an input or output of a core has its name on both. */
static bool tensors_agree(as_kernel *first, as_kernel *second) {
  const isa_program *b = second->scratch;
  for (uint32_t i = 0; i < b->ntensors; i++) {
    const isa_tensor *t = &b->tensors[i];
    const isa_tensor *s = as_k_find_tensor(first, t->name);
    bool own = t->role == ISA_TEMP || t->role == ISA_CONST;
    /* What is a temporary or constant of both is each core's own, whatever its name. */
    if (!s || (own && (s->role == ISA_TEMP || s->role == ISA_CONST))) continue;
    if (s->role != t->role || !same_type(s, t)) return differ(second, s, t);
  }
  return true;
}

/* ---- Meetings ------------------------------------------------------------------------------ */

/* How often a core comes to each meeting. False when loops at run time decide. */
static bool count_meetings(const as_kernel *k, uint32_t *n) {
  unsigned depth = 0;
  bool exact = true;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    unsigned m = as_k_meeting_kind(k, it);
    depth += it->op == K_LOOP || it->op == K_WHILE;
    depth -= it->op == K_ENDLOOP;
    if (m == K_MEETINGS) continue;
    exact &= depth == 0;
    n[m]++;
  }
  return exact;
}

/* exact: each meeting is one; else there must be one of its kind. */
static bool has_partner(as_kernel *k, const uint32_t *others, bool exact, as_kernel **failed) {
  uint32_t n[K_MEETINGS] = {0};
  char what[40] = "core_barrier";
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    unsigned m = as_k_meeting_kind(k, it);
    if (m == K_MEETINGS || (exact ? ++n[m] <= others[m] : others[m] > 0)) continue;
    *failed = k;
    if (m != K_BARRIERS) snprintf(what, sizeof what, "%s of pipe %u", isa_ops[it->op].name, m);
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s: it would wait for ever; it is number %u of this core, and the other core "
                     "has %u",
                     what, exact ? (unsigned)n[m] : 1u, (unsigned)others[m]);
  }
  return true;
}

/* Each one that meets the other core meets something there. */
static bool meetings_agree(as_kernel *first, as_kernel *second, as_kernel **failed) {
  uint32_t n[2][K_MEETINGS] = {{0}};
  /* Both are counted, whatever the first says. */
  bool all = count_meetings(first, n[0]), exact = count_meetings(second, n[1]) && all;
  return has_partner(first, n[1], exact, failed) && has_partner(second, n[0], exact, failed);
}

isa_program *as_kernel_finish_pair(as_kernel *first, as_kernel *second, as_kernel **failed) {
  as_kernel *k[] = {first, second};
  if (!pair_ok(first, second, failed) || !tensors_agree(first, second) ||
      !meetings_agree(first, second, failed) || !as_k_pair_collectives(first, second, failed))
    return NULL;
  return program_of(k, 2, failed);
}
