/* Names of tiles, queues and semaphores as the assembler takes them, each once. */
#include "names.h"

#include "../isa/bytes.h"

enum { LONGEST = K_NAME - 4 };

/* Names that differ in the last character lie side by side in the index: t_10, t_11 ... come one
 * after another. */
static uint32_t hash_of(const char *s, size_t n) {
  uint64_t h = isa_fnv(ISA_FNV_START, s, n ? n - 1 : 0);
  return (uint32_t)(h ^ h >> 32) << 4 ^ (n ? (unsigned char)s[n - 1] : 0u);
}

/* The number of a name that is taken, 0: it is free. */
static uint32_t find(const as_k_names *n, uint32_t hash, const char *name) {
  uint32_t probe = 0, number;
  do number = isa_index_next(&n->index, hash, &probe);
  while (number && strcmp(n->names[number - 1].name, name) != 0);
  return number;
}

/* Words of the language, and those that a reader of the program takes for something else. */
static bool is_reserved(const char *s) {
  static const char *const words[] = {"sbuf", "psum", "hbm", "default"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], s) == 0) return true;
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (strcmp(isa_engines[e].name, s) == 0) return true;
  bool number = s[1] >= '0' && s[1] <= '9' && strspn(s + 1, "0123456789") == strlen(s + 1);
  return (s[0] == 'r' && number) || isa_op_find(s, strlen(s)) >= 0 || isa_is_word(s);
}

static void clean(const char *base, char out[K_NAME]) {
  size_t n = 0;
  for (; n < LONGEST && base[n]; n++) {
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

/* base made clean, which most names of a kernel have been already. */
static as_k_memo *clean_name(as_k_names *n, const char *base) {
  uint32_t hash = hash_of(base, strlen(base));
  as_k_memo *m = &n->memo[hash % K_MEMO];
  if (m->hash == hash && m->base[0] && strcmp(m->base, base) == 0) return m;
  clean(base, m->name);
  m->hash = hash;
  m->base[0] = 0;
  m->length = (uint32_t)strlen(m->name);
  m->taken = 0;
  /* Longer ones are cleaned each time. */
  if (strlen(base) < K_NAME) strcpy(m->base, base);
  return m;
}

/* name_number; its length. */
static size_t numbered_name(const as_k_memo *m, uint32_t number, char out[K_NAME + 16]) {
  char digits[12];
  size_t n = m->length, d = sizeof digits;
  memcpy(out, m->name, n);
  do digits[--d] = (char)('0' + number % 10);
  while (number /= 10);
  out[n++] = '_';
  memcpy(out + n, digits + d, sizeof digits - d);
  n += sizeof digits - d;
  out[n] = 0;
  return n;
}

bool as_k_names_reserve(as_k_names *n, uint32_t more) {
  return isa_array_reserve(&n->k->al, &n->names, n->n + more, &n->cap, sizeof *n->names) &&
         isa_index_reserve(&n->k->al, &n->index, n->n + more);
}

const char *as_k_names_take(as_k_names *n, const char *base) {
  char name[K_NAME + 16];
  as_k_memo *m = clean_name(n, base);
  size_t length = m->length;
  uint32_t hash = hash_of(m->name, length);
  memcpy(name, m->name, length + 1);
  if (!m->taken) m->taken = find(n, hash, name);
  for (bool taken = m->taken; taken; taken = find(n, hash, name)) {
    length = numbered_name(m, n->names[m->taken - 1].next++, name);
    hash = hash_of(name, length);
  }
  if (!isa_array_room(&n->k->al, &n->names, n->n, &n->cap, sizeof *n->names)) return NULL;
  const char *copy = isa_arena_strn(&n->k->arena, name, length);
  if (!copy || !isa_index_add(&n->k->al, &n->index, hash, n->n + 1)) return NULL;
  /* The next number for this name: t, t_2, t_3, ... */
  n->names[n->n++] = (as_k_name){.name = copy, .next = 2};
  return copy;
}

const as_k_name *as_k_names_find(const as_k_names *n, const char *name) {
  uint32_t number = find(n, hash_of(name, strlen(name)), name);
  return number ? &n->names[number - 1] : NULL;
}

void as_k_names_mark(as_k_names *n, unsigned kind, uint32_t index) {
  n->names[n->n - 1].kind = kind & 3;
  n->names[n->n - 1].index = index & (UINT32_MAX >> 2);
}

void as_k_names_close(as_k_names *n) {
  isa_index_free(&n->k->al, &n->index);
  isa_free(&n->k->al, n->names, n->cap * sizeof *n->names);
}
