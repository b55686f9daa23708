/* Which of the tiles that the source calls by one name a tile is. A line makes or overwrites one in
 * each iteration of its loop: "xT (of line 29, iteration 3)". A line may also make several at once,
 * as an expression with many temporaries does. Two that it made with nothing of another line
 * between them may be of one iteration: then they are only numbered. */
#include "called.h"

#include "../isa/bytes.h"

#include <stdio.h>

static uint32_t hash_of(const char *name, isa_line at) {
  uint64_t h = isa_fnv(ISA_FNV_START, name, strlen(name));
  /* By the golden ratio: lines are small numbers, names often one letter. */
  return (uint32_t)(h ^ h >> 32) ^ at.line * 0x9e3779b1u;
}

static bool is_called(const as_k_called *c, const char *name, bool declared, isa_line at) {
  return c->declared == declared && c->at.line == at.line && c->at.file == at.file &&
         strcmp(c->name, name) == 0;
}

/* Their number in called, 0: memory is out. */
static uint32_t find_called(as_kernel *k, const char *name, bool declared, isa_line at) {
  uint32_t hash = hash_of(name, at), probe = 0, number;
  while ((number = isa_index_next(&k->names, hash, &probe)))
    if (is_called(&k->called[number - 1], name, declared, at)) return number;
  if (!isa_index_room(&k->al, &k->names) || !K_GROW(k, called, ncalled, cap_called)) return 0;
  const char *own = isa_arena_strn(&k->arena, name, strlen(name));
  if (!own || !isa_index_add(&k->al, &k->names, hash, k->ncalled + 1)) return 0;
  k->called[k->ncalled] = (as_k_called){.name = own, .at = at, .declared = declared};
  return ++k->ncalled;
}

bool as_k_begin_tile(as_kernel *k, as_k_buffer *b, bool declared, isa_line at, uint32_t turn) {
  b->called = find_called(k, b->name, declared, at);
  if (!b->called) return as_k_nomem(k);
  as_k_called *c = &k->called[b->called - 1];
  c->again |= c->count && c->turn == turn;
  c->turn = turn;
  b->name = c->name;
  b->iteration = ++c->count;
  b->iterations = 1;
  return true;
}

void as_k_iteration(const as_kernel *k, const as_k_buffer *b, isa_tile *t) {
  const as_k_called *c = b->called ? &k->called[b->called - 1] : NULL;
  /* The only one of its line needs no number. */
  if (!c || !c->at.line || c->count < 2) return;
  t->line = c->at.line;
  t->iteration = b->iteration;
  t->iterations = b->iterations;
  t->numbered = c->again && b->iteration;
}

const char *as_k_tile(const as_kernel *k, const as_k_buffer *b, const char *none, char *out,
                      size_t n) {
  isa_tile t = {.line = 0};
  char text[ISA_ITERATION];
  as_k_iteration(k, b, &t);
  snprintf(out, n, "%.60s%s", b->name ? b->name : none, isa_iteration(&t, text, sizeof text));
  return out;
}

bool as_k_same_tile(const isa_tile *a, const isa_tile *b) {
  return a->dtype == b->dtype && a->space == b->space && a->ndim == b->ndim && a->part == b->part &&
         a->offset == b->offset && a->bytes == b->bytes && a->iteration == b->iteration &&
         (!a->iteration || a->line == b->line) && a->iterations == b->iterations &&
         memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}
