/* What soma-dis shows of a program besides its text. */
#ifndef ASM_DIS_H
#define ASM_DIS_H

#include "../asm.h"

/* The text of isa_print_program with comments: at instructions their pc, at labels which
 * instructions come there, at semaphores which wait for and update them. Assembles to the same
 * bytes. */
void as_dis_text(const isa_program *p, isa_buf *out);
/* Gives each thing of p that is printed a name of its own, which the assembler accepts: of equal
 * ones the first keeps it. False if out of memory. */
bool as_dis_names(isa_program *p);
/* Basic blocks of each section with their control flow, and semaphores between the blocks that
 * update them and those that wait, as a Graphviz digraph. */
void as_dis_graph(const isa_program *p, isa_buf *out);
/* Where an instruction may go other than to the next one: its label, or -1. */
int64_t as_dis_target(const isa_insn *in);

#endif
