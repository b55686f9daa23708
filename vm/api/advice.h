/* What would help the author of a kernel: each thing is tried, and told with what it saves. */
#ifndef VM_SOMA_ADVICE_H
#define VM_SOMA_ADVICE_H

#include "words.h"

typedef struct soma_advised {
  soma_kernel_advice a;
  char name[64], text[192];
} soma_advised;

typedef struct soma_advisor {
  isa_alloc al;
  soma_time time;  /* of the kernel as it is; 0: it has none */
  uint32_t trials; /* variants that were built */
  bool all;        /* all that there are, not only the first ones */
  soma_advised *list;
  uint32_t n, cap;
} soma_advisor;

/* Tries what there is for kernels that were built by that choice. NULL: out of memory. */
soma_advisor *soma_advise(soma_recipe *const r[], unsigned cores, const soma_choice *c);
void soma_advisor_free(soma_advisor *a);
void soma_advisor_print(const soma_advisor *a, isa_buf *out);

/* ---- For the files that try ------------------------------------------------------------------ */

/* The instructions of a line that are of one kind. */
typedef struct soma_group {
  isa_line at[ISA_MAX_CORES]; /* by core: files have numbers of their own; line 0: none there */
  unsigned op;
  uint32_t count;
  int engine;            /* that the caller gave to all of them; -1: none; -2: several */
  uint32_t engines;      /* mask of those that give the same bits */
  uint64_t time;         /* that they keep an engine or the DMA engines, estimated */
  const int64_t *record; /* the first */
  uint32_t first;        /* entry of that */
} soma_group;

typedef struct soma_trials {
  soma_advisor *a;
  soma_recipe *const *r;
  unsigned cores;
  soma_choice c;
  soma_machine *timer;
  as_kernel_figures figures; /* as it is */
  soma_group *groups;
  uint32_t ngroups, cap_groups;
  uint64_t left; /* instructions that may still be built */
} soma_trials;

bool soma_find_groups(soma_trials *t);
/* Builds a variant of the kernels and times it; gives false where that gives no program that ends,
 * and where there was no work left for it. */
bool soma_try(soma_trials *t, soma_recipe *const r[], const soma_choice *c, soma_time *time,
              as_kernel_figures *f);
/* Notes what a variant saves, if it does. */
void soma_advise_that(soma_trials *t, const soma_group *g, soma_kernel_advice_kind kind,
                      soma_time time, const char *text, ...) ISA_PRINTF(5, 6);
/* Wider rows of transfers. (advice_rows.c) */
void soma_try_rows(soma_trials *t, const soma_group *g);
static inline bool soma_is_of(const int64_t *record, const soma_group *g, unsigned core) {
  return (uint32_t)record[AS_REC_LINE] == g->at[core].line &&
         (uint32_t)record[AS_REC_FILE] == g->at[core].file &&
         isa_op_by_number((unsigned)record[AS_REC_OP]) == (int)g->op;
}

#endif
