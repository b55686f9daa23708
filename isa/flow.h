/* Control flow of one engine's code. */
#ifndef ISA_FLOW_H
#define ISA_FLOW_H

#include "program.h"

/* The branch target of an instruction, -1 when it has none. */
int64_t isa_flow_target(const isa_insn *in);
/* Marks in seen[code->n] what may run once the engine is at pc `from`; what is marked already stays
 * so and is not followed again. A `ret` leads after every call, or anywhere when a register that
 * some ret reads is written by more than calls. False when memory is out. */
bool isa_flow_reach(const isa_alloc *al, const isa_code *code, uint32_t from, uint8_t *seen);

#endif
