/* Choosing by running: policies of the builder, and what would help the author of a kernel. */
#ifndef VM_SOMA_TUNE_H
#define VM_SOMA_TUNE_H

#include "recipe.h"

enum { SOMA_POLICIES = 32 };
typedef struct soma_tried {
  isa_alloc al;
  uint32_t n, best;
  soma_choice choice; /* the best */
  soma_kernel_policy policy[SOMA_POLICIES];
} soma_tried;

/* Times what was made, and the same kernels by other policies. What is fastest becomes *made, the
 * first of equals; the rest is freed. False when memory is out: made->p may be NULL then. */
bool soma_tune(soma_recipe *const r[], unsigned cores, soma_made *made, soma_tried **out);
void soma_tried_free(soma_tried *t);
void soma_tried_print(const soma_tried *t, isa_buf *out);

#endif
