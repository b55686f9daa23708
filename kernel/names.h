/* Names of a program, and the making of it from what was decided. */
#ifndef ASM_KERNEL_NAMES_H
#define ASM_KERNEL_NAMES_H

#include "impl.h"

/* ---- names.c ---- */

/* Names of the program, each once: of a name that is taken, the next of name_2, name_3 ... */
enum { K_NAME = 64, K_MEMO = 64 };
typedef struct as_k_memo {
  char base[K_NAME], name[K_NAME]; /* a name that was asked for, and made clean */
  uint32_t hash, length;           /* of base, of name */
  uint32_t taken;                  /* number of name, 0: not known */
} as_k_memo;
enum { K_NAMES_OTHER, K_NAMES_TILE, K_NAMES_QUEUE, K_NAMES_SEM };
typedef struct as_k_name {
  const char *name;
  uint32_t next;       /* that is tried after it */
  uint32_t index : 30; /* of a tile, queue or semaphore in the program */
  uint32_t kind : 2;   /* K_NAMES_ */
} as_k_name;
typedef struct as_k_names {
  as_kernel *k;
  as_k_name *names;
  uint32_t n, cap;
  isa_index index;
  as_k_memo memo[K_MEMO]; /* by hash */
} as_k_names;
/* Room for so many more. */
bool as_k_names_reserve(as_k_names *n, uint32_t more);
/* A name of the arena that is like base, made of letters, digits and _, and not yet taken; NULL
 * when memory is out. */
const char *as_k_names_take(as_k_names *n, const char *base);
/* What has a name, NULL when nothing has it; says what has the name taken last. */
const as_k_name *as_k_names_find(const as_k_names *n, const char *name);
void as_k_names_mark(as_k_names *n, unsigned kind, uint32_t index);
void as_k_names_close(as_k_names *n);

/* ---- group.c ---- */

/* Adds the kernel's groups of ranks that the program does not have yet. */
bool as_k_put_groups(as_kernel *k, isa_program *p, as_k_names *names);

/* ---- emit.c ---- */

/* Adds the kernel's tensors, and then its core, to a program. names: of what it adds; before: of
 * what core 0 has, when this is core 1, else NULL. Tensors and groups of all cores come before the
 * cores. */
bool as_k_put_tensors(as_kernel *k, isa_program *p, as_k_names *names);
bool as_k_make_core(as_kernel *k, isa_program *p, as_k_names *names, const as_k_names *before);

#endif
