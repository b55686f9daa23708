/* Instructions of a program as text, with its labels found at once: isa_print_insn searches the
 * program's symbols for every branch. */
#ifndef ASM_PRINTER_H
#define ASM_PRINTER_H

#include "../../isa/print.h"

typedef struct as_printer {
  const isa_program *p;
  isa_alloc al;
  uint32_t *at[ISA_MAX_CORES][ISA_NSEQS]; /* 1-based first symbol at each pc, 0: none */
  uint32_t n[ISA_MAX_CORES][ISA_NSEQS];   /* the last pc that at has */
  uint32_t *next;                         /* 1-based: the next symbol at the same pc */
} as_printer;

/* False if out of memory; close it all the same. */
bool as_printer_open(const isa_program *p, const isa_alloc *al, as_printer *pr);
void as_printer_close(as_printer *pr);
void as_printer_insn(const as_printer *pr, unsigned core, unsigned engine, const isa_insn *in,
                     isa_buf *out);

#endif
