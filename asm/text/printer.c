#include "printer.h"

#include <string.h>

bool as_printer_open(const isa_program *p, const isa_alloc *al, as_printer *pr) {
  memset(pr, 0, sizeof *pr);
  pr->p = p;
  pr->al = *al;
  pr->next = isa_zalloc(al, ((size_t)p->nsymbols + 1) * sizeof *pr->next);
  bool ok = pr->next != NULL;
  for (unsigned c = 0; c < p->ncores && c < ISA_MAX_CORES; c++)
    for (unsigned e = 0; e < ISA_NSEQS; e++) {
      pr->n[c][e] = p->cores[c].code[e].n;
      pr->at[c][e] = isa_zalloc(al, ((size_t)pr->n[c][e] + 1) * sizeof *pr->at[c][e]);
      ok = ok && pr->at[c][e];
    }
  /* From the last, so that each list begins with the first. */
  for (uint32_t i = p->nsymbols; ok && i > 0; i--) {
    const isa_symbol *s = &p->symbols[i - 1];
    if (s->core >= p->ncores || s->pc > pr->n[s->core][s->engine] || !s->name) continue;
    uint32_t *head = &pr->at[s->core][s->engine][s->pc];
    pr->next[i] = *head;
    *head = i;
  }
  return ok;
}

void as_printer_close(as_printer *pr) {
  if (!pr->p) return;
  for (unsigned c = 0; c < ISA_MAX_CORES; c++)
    for (unsigned e = 0; e < ISA_NSEQS; e++)
      isa_free(&pr->al, pr->at[c][e], ((size_t)pr->n[c][e] + 1) * sizeof *pr->at[c][e]);
  isa_free(&pr->al, pr->next, ((size_t)pr->p->nsymbols + 1) * sizeof *pr->next);
}

void as_printer_insn(const as_printer *pr, unsigned core, unsigned engine, const isa_insn *in,
                     isa_buf *out) {
  isa_pr ip = {.p = pr->p,
               .core = core,
               .engine = engine,
               .out = out,
               .symbol_at = pr->at[core][engine],
               .npcs = pr->n[core][engine]};
  isa_pr_insn(&ip, in);
}
