/* Records as words, read and changed: what soma_kernel_emit documents. */
#ifndef VM_SOMA_WORDS_H
#define VM_SOMA_WORDS_H

#include "recipe.h"

/* Calls see for each operand of a record that the builder has accepted, those in others included;
 * it gets the operand's first word, and may change the words but not their number. */
void soma_record_operands(int64_t *record, void (*see)(void *ud, int64_t *operand), void *ud);
/* Field i of a record, which must be an operand; NULL if it is left out. */
const int64_t *soma_record_operand(const int64_t *record, unsigned i);

/* Where words of an operand are. */
enum { SOMA_AP_N, SOMA_AP_BUFFER, SOMA_AP_TYPE, SOMA_AP_PART, SOMA_AP_PARTS, SOMA_AP_OFFSET };
enum { SOMA_AP_DIMS = 6, SOMA_AP_FIRST }; /* how many pairs, and the first one's step */

/* The elements of an operand without dynamic parts that lie one after another, from the innermost
 * dimension on: of one partition, or in HBM. */
int64_t soma_ap_run(const int64_t *ap);
int64_t soma_ap_elements(const int64_t *ap); /* all of one partition, or in HBM */
static inline bool soma_ap_moves(const int64_t *ap) {
  return ap[SOMA_AP_N] > SOMA_AP_DIMS + 2 * ap[SOMA_AP_DIMS];
}

/* A recipe that is made of another one, with its buffers at other places. */
typedef struct soma_rewrite {
  soma_recipe *out;
  uint32_t old;   /* buffers of the old recipe so far */
  uint32_t n;     /* of map and shift */
  uint32_t *map;  /* by buffer of the old recipe: that of the new one */
  int64_t *shift; /* bytes from its first one */
} soma_rewrite;
/* False if out of memory. */
bool soma_rewrite_open(soma_rewrite *w, const soma_recipe *from);
void soma_rewrite_close(soma_rewrite *w);
/* Adds a record, or another entry, of the old recipe; their operands name what map says. */
void soma_rewrite_record(soma_rewrite *w, const int64_t *record);
void soma_rewrite_entry(soma_rewrite *w, const soma_entry *e);

#endif
