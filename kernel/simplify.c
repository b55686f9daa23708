/* The passes that make a list simpler, and what they left out, line by line. */
#include "simplify.h"

#include <stdlib.h>

/* ---- What was left out ---------------------------------------------------------------------- */

bool as_k_leave(as_kernel *k, uint32_t item, uint32_t buffer, unsigned why) {
  const as_k_item *it = &k->items[item];
  if (!K_GROW(k, left, nleft, cap_left)) return false;
  k->left[k->nleft++] =
      (as_k_left){.at = it->at, .buffer = buffer, .left = 1, .op = it->op, .why = (uint16_t)why};
  /* What the builder put in is no saving, and merged items stay as one. */
  k->figures.left_out += !it->added && why != AS_PASS_MERGES;
  return true;
}

static int by_line(const void *a, const void *b) {
  const as_k_left *x = a, *y = b;
  const uint32_t u[] = {x->at.file, x->at.line, x->op, x->why};
  const uint32_t v[] = {y->at.file, y->at.line, y->op, y->why};
  for (unsigned i = 0; i < 4; i++)
    if (u[i] != v[i]) return u[i] < v[i] ? -1 : 1;
  return 0;
}

/* The first line that is not before one. */
static uint32_t find(const as_kernel *k, const as_k_left *wanted) {
  uint32_t lo = 0, hi = k->nleft;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (by_line(&k->left[mid], wanted) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* One entry for each line, with how many there were. */
static void gather(as_kernel *k) {
  uint32_t n = 0;
  if (!k->nleft) return;
  /* The sort makes equal lines neighbours. */
  qsort(k->left, k->nleft, sizeof *k->left, by_line);
  for (uint32_t i = 0; i < k->nleft; i++)
    if (n && by_line(&k->left[n - 1], &k->left[i]) == 0)
      k->left[n - 1].left++;
    else
      k->left[n++] = k->left[i];
  k->nleft = n;
  /* `of`: those that are left out and, below, those that stay. */
  for (uint32_t i = 0; i < n; i++) k->left[i].of += k->left[i].left;
  for (uint32_t i = 0; i < k->nitems; i++) {
    as_k_left like = {.at = k->items[i].at, .op = k->items[i].op};
    /* From the first entry of its line and instruction; each has another reason. */
    for (uint32_t l = find(k, &like); l < n; l++) {
      as_k_left *e = &k->left[l];
      if (e->at.file != like.at.file || e->at.line != like.at.line || e->op != like.op) break;
      e->of++;
    }
  }
}

bool as_kernel_get_left(const as_kernel *k, uint32_t i, as_kernel_left *out) {
  if (i >= k->nleft) return false;
  const as_k_left *l = &k->left[i];
  const as_k_buffer *b = l->buffer ? as_k_buf(k, l->buffer) : NULL;
  *out = (as_kernel_left){.at = l->at, .op = l->op, .left = l->left, .of = l->of, .why = l->why};
  if (b) out->name = b->space == ISA_HBM ? k->scratch->tensors[b->tensor - 1].name : b->name;
  return true;
}

const char *as_kernel_left_text(uint32_t why) {
  switch (why) {
  case AS_PASS_MEMSETS:
  case AS_PASS_STORES: return "it is overwritten before anything reads it";
  case AS_PASS_LOADS: return "another tile has these bytes already";
  case AS_PASS_MERGES: return "those of several rounds are one";
  default: return "it was computed already";
  }
}

bool as_k_is_partial(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    /* Any field of 8 bits that is not 0 counts as a place in the array. */
    if (form->fields[i].kind == ISA_K_U8 && *(const uint8_t *)isa_member_c(in, &form->fields[i]))
      return true;
  return false;
}

/* ---- The passes ----------------------------------------------------------------------------- */

bool as_k_simplify(as_kernel *k) {
  if (!as_k_asked(k, UINT32_MAX) || !k->nitems) return true;
  as_k_pin(k);
  if (!as_k_start_sums(k) || !as_k_drop_dead(k) || !as_k_make_versions(k) ||
      !as_k_share_values(k) || !as_k_merge(k))
    return false;
  gather(k);
  return true;
}

/* ---- Arrays of a pass ----------------------------------------------------------------------- */

bool as_k_make_arrays(as_kernel *k, const as_k_array *a, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    void *p = isa_zalloc(&k->al, a[i].bytes);
    if (!p) return as_k_nomem(k);
    memcpy(a[i].at, &p, sizeof p);
  }
  return true;
}

void as_k_free_arrays(as_kernel *k, const as_k_array *a, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    void *p;
    memcpy(&p, a[i].at, sizeof p);
    isa_free(&k->al, p, a[i].bytes);
  }
}
