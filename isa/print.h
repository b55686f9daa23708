/* What print.c gives print_program.c. */
#ifndef ISA_PRINT_H
#define ISA_PRINT_H

#include "program.h"

typedef struct isa_pr {
  const isa_program *p;
  unsigned core, engine;
  isa_buf *out;
  /* While a section is printed, the 1-based first symbol at each pc up to npcs, else NULL: the
   * symbols are searched. */
  const uint32_t *symbol_at;
  uint32_t npcs;
} isa_pr;

void isa_pr_f32(isa_buf *out, uint32_t bits);
void isa_pr_str(isa_buf *out, const char *s, size_t n); /* quoted, with escapes */
void isa_pr_label(const isa_pr *pr, uint32_t pc);
/* Operands in the form's order, without the queue on request. */
void isa_pr_operands(const isa_pr *pr, const isa_insn *in, bool queue);
void isa_pr_insn(const isa_pr *pr, const isa_insn *in);

#endif
