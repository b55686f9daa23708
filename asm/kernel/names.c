/* Names of tiles, queues and semaphores as the assembler takes them, each once. */
#include "impl.h"

#include "../../isa/bytes.h"

#include <stdio.h>

enum { LONGEST = 60 };

static uint32_t slot_of(const k_names *n, const char *name) {
  uint64_t h = isa_fnv(ISA_FNV_START, name, strlen(name));
  uint32_t at = (uint32_t)(h ^ h >> 32) & (n->size - 1);
  while (n->slots[at].name && strcmp(n->slots[at].name, name) != 0) at = (at + 1) & (n->size - 1);
  return at;
}

static bool room(k_names *n) {
  if (n->n < n->size / 2) return true;
  k_names more = {n->k, NULL, n->size ? 2 * n->size : 64, n->n};
  more.slots = isa_zalloc(&n->k->al, more.size * sizeof *more.slots);
  if (!more.slots) return false;
  for (uint32_t i = 0; i < n->size; i++)
    if (n->slots[i].name) more.slots[slot_of(&more, n->slots[i].name)] = n->slots[i];
  k_names_close(n);
  *n = more;
  return true;
}

/* Words that the assembler takes for something else. */
static bool is_reserved(const char *s) {
  static const char *const words[] = {"tile",    "tensor", "sem",    "queue",  "equ",   "align",
                                      "section", "target", "global", "extern", "dma",   "loop",
                                      "endloop", "sbuf",   "psum",   "hbm",    "times", "default"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], s) == 0) return true;
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (strcmp(isa_engines[e].name, s) == 0) return true;
  bool number = s[1] >= '0' && s[1] <= '9' && strspn(s + 1, "0123456789") == strlen(s + 1);
  return (s[0] == 'r' && number) || isa_op_find(s, strlen(s)) >= 0 ||
         isa_dtype_find(s, strlen(s)) >= 0;
}

static void clean(const char *base, char out[LONGEST + 2]) {
  size_t n = 0;
  for (; base[n] && n < LONGEST; n++) {
    char c = base[n];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool digit = c >= '0' && c <= '9';
    out[n] = letter || (digit && n > 0) ? c : '_';
  }
  if (n == 0) out[n++] = '_';
  out[n] = 0;
  if (is_reserved(out)) {
    out[n++] = '_';
    out[n] = 0;
  }
}

const char *k_names_take(k_names *n, const char *base) {
  char name[LONGEST + 2], numbered[LONGEST + 16];
  const char *take = name;
  clean(base, name);
  if (!room(n)) return NULL;
  uint32_t first = slot_of(n, name);
  while (n->slots[slot_of(n, take)].name) {
    if (n->slots[first].next < 2) n->slots[first].next = 2;
    snprintf(numbered, sizeof numbered, "%s_%u", name, (unsigned)n->slots[first].next++);
    take = numbered;
  }
  const char *copy = isa_arena_strn(&n->k->arena, take, strlen(take));
  if (!copy) return NULL;
  n->slots[slot_of(n, take)].name = copy;
  n->n++;
  return copy;
}

void k_names_close(k_names *n) {
  isa_free(&n->k->al, n->slots, n->size * sizeof *n->slots);
  n->slots = NULL;
  n->size = 0;
}
