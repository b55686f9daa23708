/* Memory of a job: the arena, interned names, token buffers. */
#include "as.h"

#include <string.h>

/* Macros can ask for any amount of memory: past this limit the job ends with an error. */
static const uint64_t max_arena = UINT64_C(4) << 30;

/* The arena is never freed in parts, so its size is what was ever asked for. */
static void check_limit(as_job *j) {
  if (j->arena.total > max_arena)
    as_fatal(j, (as_pos){0}, "the source needs more than %u GiB of memory to assemble",
             (unsigned)(max_arena >> 30));
}

void *as_new(as_job *j, size_t n) {
  check_limit(j);
  void *p = isa_arena_alloc(&j->arena, n ? n : 1);
  if (!p) as_nomem(j);
  return p;
}

/* The old array stays in the arena: amounts double, so the sum is bounded. */
void *as_grow(as_job *j, void *v, uint32_t n, uint32_t more, uint32_t *cap, size_t size) {
  if (more <= *cap && n <= *cap - more) return v;
  check_limit(j);
  v = isa_arena_grow(&j->arena, v, n, more, cap, size);
  if (!v) as_nomem(j);
  return v;
}

char *as_strn(as_job *j, const char *s, size_t n) {
  char *p = as_new(j, n + 1);
  if (n) memcpy(p, s, n);
  return p;
}

/* ---- Names -------------------------------------------------------------------------------- */
/* Equal texts are one pointer: names are compared without reading them. */

typedef struct slot { /* the hash is here too: looking at another name costs a cache miss */
  as_name *name;
  uint32_t hash;
} slot;
struct as_intern_table {
  slot *slots; /* open addressing, a power of two, at most 3/4 full; from the job's allocator */
  uint32_t n, cap;
};

/* Slots may move, names do not. */
static void rehash(as_job *j, struct as_intern_table *t) {
  uint32_t cap = t->cap ? t->cap * 2 : 256;
  slot *slots = isa_zalloc(&j->al, cap * sizeof *slots);
  if (!slots) as_nomem(j);
  for (uint32_t i = 0; i < t->cap; i++) {
    if (!t->slots[i].name) continue;
    uint32_t at = t->slots[i].hash & (cap - 1);
    while (slots[at].name) at = (at + 1) & (cap - 1);
    slots[at] = t->slots[i];
  }
  isa_free(&j->al, t->slots, t->cap * sizeof *slots);
  t->slots = slots;
  t->cap = cap;
}

void as_intern_free(as_job *j) {
  struct as_intern_table *t = j->interned;
  if (t) isa_free(&j->al, t->slots, t->cap * sizeof *t->slots);
  j->interned = NULL;
}

/* FNV-1a, then a mixing of all bits into the low ones, which choose the slot. */
static uint32_t hash_bytes(const char *s, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  return h ^ h >> 13;
}

/* The entry holds what a name means, too (as_name). */
const char *as_intern(as_job *j, const char *s, size_t n) {
  if (!j->interned) j->interned = as_new(j, sizeof *j->interned);
  struct as_intern_table *t = j->interned;
  if (t->n >= t->cap / 4 * 3) rehash(j, t);
  uint32_t h = hash_bytes(s, n), at = h & (t->cap - 1);
  for (as_name *name; (name = t->slots[at].name) != NULL; at = (at + 1) & (t->cap - 1))
    if (t->slots[at].hash == h && name->len == n && memcmp(name->text, s, n) == 0)
      return name->text;
  as_name *name = as_new(j, sizeof *name + n + 1);
  name->len = (uint32_t)n;
  memcpy(name->text, s, n);
  t->slots[at] = (slot){name, h};
  t->n++;
  return name->text;
}

/* ---- Token buffers ------------------------------------------------------------------------ */

as_tok *as_toks_grow(as_job *j, as_toks *t, uint32_t n) {
  t->v = as_grow(j, t->v, t->n, n, &t->cap, sizeof *t->v);
  return t->n ? t->v + t->n : t->v; /* v may be NULL when nothing is asked for */
}

/* The place in a file; rounds of %rep are in the line of their body. */
as_pos as_pos_outer(as_pos at) {
  for (const as_expansion *e = at.expansion; e; e = e->call.expansion)
    if (!e->round) at = e->call;
  return at;
}

/* Only macros count: a %rep's lines are in the source themselves. */
bool as_pos_in_macro(as_pos at) {
  const as_expansion *e = at.expansion;
  while (e && e->round) e = e->call.expansion;
  return e != NULL;
}
