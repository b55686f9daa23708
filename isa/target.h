/* Hypothetical machines: a target with other values. */
#ifndef ISA_TARGET_H
#define ISA_TARGET_H

#include "isa.h"

/* Reads a target: its name, or the text of a hypothetical machine: items between commas or lines,
 * `base = trn2` or `trn2` first, then `key = value` by target_keys.def, and constants of the clock,
 * whose names the caller checks. Comments begin with # or ;. The name that a hypothetical machine
 * gets, "hypothetical trn2, sbuf_kib=384", is such a text. */
bool isa_target_read(const char *from, size_t n, isa_target *out, isa_error *e);

/* t as long as its keeper lives: a row of the table, or *own, which becomes a copy. NULL stays. */
const isa_target *isa_target_keep(const isa_target *t, isa_target *own);
bool isa_target_same(const isa_target *a, const isa_target *b);
/* The row of the table that it changes, or is. */
const isa_target *isa_target_base(const isa_target *t);
/* The first constant of the clock in its name, or the next one after `from`: "DMA_R_IN=40000", of
 * *n characters; NULL: no more. */
const char *isa_target_constant(const isa_target *t, const char *from, size_t *n);

#endif
