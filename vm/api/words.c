#include "words.h"

/* ---- Operands of records -------------------------------------------------------------------- */

typedef struct walk {
  void (*see)(void *ud, int64_t *operand);
  void *ud;
} walk;

/* Past the operand at w. */
static int64_t *pass_operand(const walk *k, int64_t *w) {
  /* A number of words, the dimensions, then what is known at run time. */
  int64_t *end = w + 1 + w[SOMA_AP_N], *p;
  /* An operand that is left out has no words. */
  if (!w[SOMA_AP_N]) return end;
  k->see(k->ud, w);
  for (p = w + SOMA_AP_FIRST + 2 * w[SOMA_AP_DIMS]; p < end;) switch (p[0]) {
    case SOMA_DYN_ELEMENT:
    /* An index is an operand itself. */
    case SOMA_DYN_GATHER: p = pass_operand(k, p + 2); break;
    case SOMA_DYN_INDIRECT: p = pass_operand(k, p + 1); break;
    default: p += 3; break;
    }
  return end;
}

/* As record.lua and the front ends in Python write them. */
static int64_t *pass_field(const walk *k, unsigned kind, int64_t *w) {
  int64_t n;
  switch (kind) {
  case ISA_K_AP: return pass_operand(k, w);
  case ISA_K_INT: return w + 2;
  /* 3: a pattern, as record's words have it. */
  case ISA_K_NUM: return w[0] == 3 ? pass_operand(k, w + 1) : w + (w[0] ? 2 : 1);
  case ISA_K_STR:
  case ISA_K_BYTES:
  case ISA_K_F32S:
  case ISA_K_I32S: return w + 1 + w[0];
  case ISA_K_STEPS:
  case ISA_K_PAIRS: return w + 1 + 2 * w[0];
  case ISA_K_APS:
    for (n = *w++; n > 0; n--) w = pass_operand(k, w);
    return w;
  default: return w + 1;
  }
}

/* As far as the fields that were asked for, or to the end of the record. */
static int64_t *pass_fields(const walk *k, int64_t *record, unsigned fields) {
  int op = isa_op_by_number((unsigned)record[AS_REC_OP]);
  const isa_form *f = isa_form_of((unsigned)op);
  int64_t *w = record + AS_REC_FIELDS, *end = record + record[AS_REC_WORDS];
  for (unsigned i = 0; i < f->nfields && i < fields && w < end; i++)
    w = pass_field(k, f->fields[i].kind, w);
  return w < end ? w : NULL;
}

void soma_record_operands(int64_t *record, void (*see)(void *ud, int64_t *operand), void *ud) {
  walk k = {see, ud};
  pass_fields(&k, record, UINT32_MAX);
}

static void ignore(void *ud, int64_t *operand) { (void)ud, (void)operand; }

const int64_t *soma_record_operand(const int64_t *record, unsigned i) {
  walk k = {ignore, NULL};
  const int64_t *w = pass_fields(&k, (int64_t *)(uintptr_t)record, i);
  return w && w[SOMA_AP_N] ? w : NULL;
}

/* How many elements lie one after another, from the innermost dimension on. */
int64_t soma_ap_run(const int64_t *ap) {
  int64_t run = 1;
  for (int64_t d = ap[SOMA_AP_DIMS] - 1; d >= 0; d--) {
    int64_t step = ap[SOMA_AP_FIRST + 2 * d], num = ap[SOMA_AP_FIRST + 2 * d + 1];
    /* A dimension of one element takes no step. */
    if (num == 1) continue;
    if (step != run) break;
    run *= num;
  }
  return run;
}

int64_t soma_ap_elements(const int64_t *ap) {
  int64_t n = 1;
  for (int64_t d = 0; d < ap[SOMA_AP_DIMS]; d++) n *= ap[SOMA_AP_FIRST + 2 * d + 1];
  return n;
}

/* ---- Recipes made of others ------------------------------------------------------------------ */

static void free_places(soma_rewrite *w, const isa_alloc *al) {
  isa_free(al, w->map, w->n * sizeof *w->map);
  isa_free(al, w->shift, w->n * sizeof *w->shift);
}

/* Places of the old recipe's buffers in the new one. */
bool soma_rewrite_open(soma_rewrite *w, const soma_recipe *from) {
  *w = (soma_rewrite){.n = from->buffers + 1};
  w->out = soma_recipe_new(&from->al, &from->o, &from->costs);
  w->map = isa_zalloc(&from->al, w->n * sizeof *w->map);
  w->shift = isa_zalloc(&from->al, w->n * sizeof *w->shift);
  /* The new recipe is kept, whatever the old one's was. */
  if (w->out && w->map && w->shift) return w->out->keeps = true;
  free_places(w, &from->al);
  soma_recipe_free(w->out);
  return false;
}

void soma_rewrite_close(soma_rewrite *w) {
  isa_alloc al = w->out->al;
  free_places(w, &al);
  soma_recipe_free(w->out);
}

/* Another number, and perhaps another place in it. */
static void rename_operand(void *ud, int64_t *operand) {
  const soma_rewrite *w = ud;
  int64_t old = operand[SOMA_AP_BUFFER];
  operand[SOMA_AP_BUFFER] = w->map[old];
  operand[SOMA_AP_OFFSET] += w->shift[old];
}

void soma_rewrite_record(soma_rewrite *w, const int64_t *record) {
  soma_recipe *r = w->out;
  uint32_t at = r->nunits;
  soma_entry e;
  /* As copied: its operands are renamed in the copy. */
  soma_recipe_records(r, true, record, (size_t)record[AS_REC_WORDS], r->items + 1);
  if (soma_recipe_at(r, at, &e)) soma_record_operands(e.words, rename_operand, w);
}

void soma_rewrite_entry(soma_rewrite *w, const soma_entry *e) {
  switch (e->kind) {
  case SOMA_RECIPE_TENSOR:
  /* Buffers that were given a place already keep it. */
  case SOMA_RECIPE_TILE:
    if (!w->map[++w->old]) w->map[w->old] = ++w->out->buffers;
    break;
  case SOMA_RECIPE_RECORDS:
    for (uint32_t i = 0; i < e->n; i += (uint32_t)e->words[i]) soma_rewrite_record(w, e->words + i);
    return;
  case SOMA_RECIPE_END: return; /* others may be parts of that tile */
  default: break;
  }
  soma_recipe_entry(w->out, e);
}
