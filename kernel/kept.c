/* The list as it was recorded, for another try with fewer passes. */
#include "simplify.h"

static void *copy_of(const as_kernel *k, const void *from, size_t bytes) {
  void *to = isa_zalloc(&k->al, bytes + 1); /* of no bytes too: NULL is that memory is out */
  if (to && bytes) memcpy(to, from, bytes);
  return to;
}

#define BYTES(array, n) ((size_t)l->n * sizeof *l->array)
#define KEEP(array, n) (l->array = copy_of(k, k->array, (l->n = k->n, BYTES(array, n))))
#define GIVE(array, n) (l->n ? memcpy(k->array, l->array, BYTES(array, n)) : NULL, k->n = l->n)
#define FORGET(array, n) isa_free(&k->al, l->array, BYTES(array, n) + 1)

bool as_k_keep_list(as_kernel *k, as_k_list *l) {
  if (!as_k_asked(k, ~(uint32_t)AS_PASS_CHOICES)) return true;
  *l = (as_k_list){.kept = true, .figures = k->figures};
  return (KEEP(items, nitems) && KEEP(ops, nops) && KEEP(buffers, nbuffers) &&
          KEEP(loops, nloops) && KEEP(orders, norders) && KEEP(queues, nqueues)) ||
         as_k_nomem(k);
}

/* Buffers that came since are not used any more; temporaries of spills stay with their names. */
bool as_k_give_list(as_kernel *k, const as_k_list *l, uint32_t passes) {
  uint32_t buffers = k->nbuffers;
  if (!isa_array_reserve(&k->al, &k->items, l->nitems, &k->cap_items, sizeof *k->items))
    return as_k_nomem(k); /* passes have left items out */
  GIVE(items, nitems);
  GIVE(ops, nops);
  GIVE(buffers, nbuffers);
  GIVE(loops, nloops);
  GIVE(orders, norders);
  GIVE(queues, nqueues);
  k->nbuffers = buffers;
  k->figures = l->figures;
  k->nleft = k->nspilled = 0;
  k->o.passes &= passes;
  k->o.extra &= passes;
  k->no_room = true;
  k->error.status = ISA_OK;
  return true;
}

void as_k_forget_list(as_kernel *k, as_k_list *l) {
  if (!l->kept) return;
  FORGET(items, nitems);
  FORGET(ops, nops);
  FORGET(buffers, nbuffers);
  FORGET(loops, nloops);
  FORGET(orders, norders);
  FORGET(queues, nqueues);
}
