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
  bool named; /* operands as slices of the tiles and tensors they lie in, where they are */
} isa_pr;

void isa_pr_f32(isa_buf *out, uint32_t bits);
void isa_pr_str(isa_buf *out, const char *s, size_t n);       /* quoted, with escapes */
void isa_pr_ap(const isa_pr *pr, uint32_t index, bool inner); /* inner: of another's index */
/* A pattern by name: a slice and views of it, `x[r0:+128].view(int32)`. False, without output, if
 * it cannot be written so. (print_slice.c) */
bool isa_pr_slice(const isa_pr *pr, const isa_ap *ap, bool inner);
/* A number that register reg may give, with its bound n. */
void isa_pr_size(isa_buf *out, bool in_reg, unsigned reg, uint32_t n);
void isa_pr_index(const isa_pr *pr, const isa_ap *ap,
                  bool inner); /* `.peer`, `.gather(i,0)`, or nothing */
void isa_pr_label(const isa_pr *pr, uint32_t pc);
/* Operands in the form's order, without the queue on request. */
void isa_pr_operands(const isa_pr *pr, const isa_insn *in, bool queue);
void isa_pr_insn(const isa_pr *pr, const isa_insn *in);

#endif
