/* What can be seen to be wrong without running a program: advice, not rules of the machine. */
#ifndef ISA_LINT_H
#define ISA_LINT_H

#include "program.h"

/* Takes one finding: a line of text without its place, and the instruction it is about
 * (at->engine -1: the program as a whole). */
typedef void (*isa_lint_fn)(void *ud, const isa_place *at, const char *text);
/* Looks at core 0 of a program that has passed isa_check_program: code that is never reached; waits
 * that no update can satisfy, or that hold for good after the first turn of a loop; tiles that are
 * read and never written, or written only later by the same straight line of code; tiles that
 * nothing names, or that are written and never read. What depends on registers is left alone. False
 * when memory is out. */
bool isa_lint(const isa_alloc *al, const isa_program *p, isa_lint_fn tell, void *ud);
/* All findings as lines "file:12: lint: text" or "vector pc 12: lint: text" at the end of out. */
bool isa_lint_print(const isa_alloc *al, const isa_program *p, isa_buf *out);

#endif
