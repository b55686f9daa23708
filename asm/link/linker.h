/* What the two halves of the linker share: link.c has names and declarations, link_code.c code. */
#ifndef ASM_LINKER_H
#define ASM_LINKER_H

#include "../object/object.h"
#include "../line/stmt.h"

typedef struct as_link_unit { /* an object, and what its numbers become */
  const char *file;
  as_object o;
  uint32_t *tensor, *tile; /* by 1-based index */
  uint8_t group[ISA_MAX_GROUPS];
  int64_t *moved; /* bytes that each tile has moved */
  uint8_t sem[ISA_MAX_CORES][ISA_NSEMS], queue[ISA_MAX_CORES][ISA_MAX_QUEUES];
  uint32_t base[AS_NSECTIONS];                     /* where its code begins */
  uint32_t statics[ISA_MAX_CORES][ISA_MAX_QUEUES]; /* and the static transfers of a queue */
  uint32_t *ap[ISA_MAX_CORES];                     /* by 1-based index */
  const as_link_name **tensor_link, **tile_link;   /* what the objects say of each, or NULL */
  const as_link_name *sem_link[ISA_MAX_CORES][ISA_NSEMS];
  const as_link_name *queue_link[ISA_MAX_CORES][ISA_MAX_QUEUES];
} as_link_unit;

typedef struct as_export { /* a global name */
  as_link_unit *owner;
  const as_link_name *link;
} as_export;

typedef struct as_linker {
  as_job *j;
  as_link_unit *units;
  uint32_t n;
  as_export *exports; /* as_sym.index of its name */
  uint32_t nexports;
} as_linker;

/* The cores that a semaphore or queue is of, and its number on each. */
static inline unsigned as_link_first(const as_link_name *l) {
  return l->core == AS_BOTH ? 0 : l->core;
}
static inline unsigned as_link_last(const as_link_name *l) {
  return l->core == AS_BOTH ? AS_BOTH - 1 : l->core;
}
static inline uint32_t as_link_index(const as_link_name *l, unsigned core) {
  return l->core == AS_BOTH && core && l->kind == AS_L_QUEUE ? l->align : l->index;
}

/* The global name that an extern one of u is; NULL after an error. */
const as_export *as_link_export(as_linker *k, const as_link_unit *u, const as_link_name *l);

/* link_code.c: patterns, transfers and instructions of an object with new numbers; branches to
 * other objects once all are there; labels. */
void as_link_code(as_linker *k, as_link_unit *u);
void as_link_branches(as_linker *k, as_link_unit *u);
void as_link_symbols(as_linker *k);

#endif
