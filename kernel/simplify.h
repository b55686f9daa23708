/* What a list does that it need not do, and the order that it need not keep: see kernel.h. */
#ifndef ASM_KERNEL_SIMPLIFY_H
#define ASM_KERNEL_SIMPLIFY_H

#include "impl.h"

/* The passes that the kernel's options ask for, in their order. */
bool as_k_simplify(as_kernel *k);

/* ---- kept.c ---- */

/* Copies of what passes and placement change. */
typedef struct as_k_list {
  bool kept;
  as_k_item *items;
  uint64_t *ops;
  as_k_buffer *buffers;
  as_k_loop *loops;
  as_k_order *orders;
  as_k_queue *queues;
  uint32_t nitems, nops, nbuffers, nloops, norders, nqueues;
  as_kernel_figures figures;
} as_k_list;
/* Keeps nothing where there are no passes. */
bool as_k_keep_list(as_kernel *k, as_k_list *l);
/* The kernel has the list that was kept, and of its passes only those. */
bool as_k_give_list(as_kernel *k, const as_k_list *l, uint32_t passes);
void as_k_forget_list(as_kernel *k, as_k_list *l);

/* ---- renew.c ---- */

/* Makes the list of n items of what it was, in that order; loops and orders go on naming the same
 * items. An item that goes is in no order and begins or ends no loop. */
bool as_k_renew(as_kernel *k, const uint32_t *order, uint32_t n);
/* The same list without those items; gone: of each item. */
bool as_k_drop(as_kernel *k, const bool *gone);
/* Notes that an item is left out, and what it would have written. */
bool as_k_leave(as_kernel *k, uint32_t item, uint32_t buffer, unsigned why);

/* Whether a pass may change an item. */
static inline bool as_k_may(const as_kernel *k, const as_k_item *it, uint32_t pass) {
  const isa_line *at = &k->o.extra_at;
  return k->o.passes & pass ||
         (k->o.extra & pass && it->at.line == at->line && it->at.file == at->file);
}
/* Whether it may change any. */
static inline bool as_k_asked(const as_kernel *k, uint32_t pass) {
  return (k->o.passes | k->o.extra) & pass;
}

/* Whether the other core may write a buffer. */
static inline bool as_k_is_shared(const as_kernel *k, const as_k_buffer *b) {
  return k->o.cores > 1 && b->space == ISA_HBM &&
         k->scratch->tensors[b->tensor - 1].role != ISA_TEMP;
}

/* ---- what an item is ---- */

/* The only use that writes, NULL when there are several or none. */
const as_k_use *as_k_only_write(const as_kernel *k, const as_k_item *it);
/* Whether a use writes all bytes of its operand, whatever the data. */
bool as_k_covers(const as_kernel *k, const as_k_item *it, const as_k_use *u);
/* Whether a use writes every byte of its buffer, which the item does not read. */
bool as_k_overwrites(const as_kernel *k, const as_k_item *it, const as_k_use *u);
/* Whether it loads or uses a part of the array, where it is one of weights. */
bool as_k_is_partial(const isa_insn *in);
/* An array of a pass; at: the address of the pointer to it, which is NULL before. */
typedef struct as_k_array {
  void *at;
  size_t bytes;
} as_k_array;
#define K_ARRAY(p, n) \
  { &(p), (n) * sizeof *(p) }
/* Makes n arrays of zeros. Those that could be made are to be freed in any case. */
bool as_k_make_arrays(as_kernel *k, const as_k_array *a, unsigned n);
void as_k_free_arrays(as_kernel *k, const as_k_array *a, unsigned n);
/* Notes, by item, which stand at either end of an order that the caller asked for. */
void as_k_ordered(const as_kernel *k, bool *ordered);
/* Sets `pinned` of all buffers. */
void as_k_pin(as_kernel *k);
/* Lets all operands of an item name what now[] has for their buffer; of n buffers. */
void as_k_rename(as_kernel *k, const as_k_item *it, const uint32_t *now, uint32_t n);

/* ---- room.c ---- */

/* The bytes of a partition that tiles of a memory have over time, as the list stands, in stretches
 * of items. */
typedef struct as_k_room_use {
  int64_t *most, *more; /* a tree of maxima, and what is added to all below a node */
  uint32_t leaves, shift;
} as_k_room_use;
bool as_k_room_open(as_kernel *k, unsigned space, as_k_room_use *r);
void as_k_room_close(as_kernel *k, as_k_room_use *r);
/* The most from item `first` to item `last`; 0 when last comes before first. */
int64_t as_k_room_most(const as_k_room_use *r, uint32_t first, uint32_t last);
void as_k_room_add(as_k_room_use *r, uint32_t first, uint32_t last, int64_t bytes);

/* ---- the passes ---- */

/* Before anything is known of the list. */
bool as_k_trim_tiles(as_kernel *k);
bool as_k_start_sums(as_kernel *k);
bool as_k_drop_dead(as_kernel *k);
bool as_k_make_versions(as_kernel *k);
bool as_k_share_values(as_kernel *k);
bool as_k_merge(as_kernel *k);

#endif
