/* From the first to the last item that uses each buffer. */
#include "impl.h"

static void extend(as_k_buffer *b, uint32_t first, uint32_t last) {
  if (!b->used || first < b->first) b->first = first;
  if (!b->used || last > b->last) b->last = last;
  b->used = true;
}

/* A tile that holds what others wrote lives from there on. In a loop at run time a tile lives
 * through all of it: its bytes may come from the round before.
 */
bool as_k_lives(as_kernel *k) {
  uint32_t depth = 0, outer = 0;
  for (uint32_t i = 0; i < k->nbuffers; i++) k->buffers[i].used = false;
  for (uint32_t i = 0; i < k->nitems; i++) {
    const as_k_item *it = &k->items[i];
    if (it->op == K_ENDLOOP) depth--;
    if (it->op == K_LOOP || it->op == K_WHILE)
      if (depth++ == 0) outer = it->loop;
    const as_k_use *uses;
    for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
      as_k_buffer *b = as_k_buf(k, as_k_use_op(k, it, &uses[u])->buffer);
      if (depth)
        extend(b, k->loops[outer - 1].first, k->loops[outer - 1].last);
      else
        extend(b, i, i);
      b->written = b->written || uses[u].writes;
    }
  }
  for (uint32_t i = 0; i < k->nbuffers; i++) {
    as_k_buffer *b = &k->buffers[i];
    /* It begins where another tile wrote the bytes that it reads. */
    if (b->used && b->since && b->since - 1 < b->first) b->first = b->since - 1;
  }
  return true;
}
