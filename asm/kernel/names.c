/* Names of tiles, queues and semaphores as the assembler takes them, each once. */
#include "impl.h"

#include "../../isa/bytes.h"

enum { LONGEST = K_NAME - 4 };

static uint32_t slot_of(const k_names *n, const char *name) {
  uint64_t h = isa_fnv(ISA_FNV_START, name, strlen(name));
  uint32_t at = (uint32_t)(h ^ h >> 32) & (n->size - 1);
  while (n->slots[at].name && strcmp(n->slots[at].name, name) != 0) at = (at + 1) & (n->size - 1);
  return at;
}

static bool room(k_names *n) {
  uint32_t old_size = n->size;
  k_name *old = n->slots;
  if (n->n < n->size / 2) return true;
  k_name *slots = isa_zalloc(&n->k->al, (old_size ? 2 * old_size : 64) * sizeof *slots);
  if (!slots) return false;
  n->slots = slots;
  n->size = old_size ? 2 * old_size : 64;
  for (uint32_t i = 0; i < old_size; i++)
    if (old[i].name) n->slots[slot_of(n, old[i].name)] = old[i];
  isa_free(&n->k->al, old, old_size * sizeof *old);
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

static void clean(const char *base, char out[K_NAME]) {
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

/* base made clean, which most names of a kernel have been already. */
static const char *clean_name(k_names *n, const char *base) {
  size_t length = strlen(base);
  uint64_t h = isa_fnv(ISA_FNV_START, base, length);
  unsigned at = (unsigned)(h ^ h >> 32) % K_MEMO;
  if (length > 0 && strcmp(n->memo[at], base) == 0) return n->clean[at];
  clean(base, n->clean[at]);
  n->memo[at][0] = 0;
  if (length < K_NAME) memcpy(n->memo[at], base, length + 1);
  return n->clean[at];
}

/* name_number, written into out. */
static void numbered_name(const char *name, uint32_t number, char *out) {
  char digits[12];
  size_t n = strlen(name), d = sizeof digits;
  do digits[--d] = (char)('0' + number % 10);
  while (number /= 10);
  memcpy(out, name, n);
  out[n++] = '_';
  memcpy(out + n, digits + d, sizeof digits - d);
  out[n + sizeof digits - d] = 0;
}

const char *k_names_take(k_names *n, const char *base) {
  char name[K_NAME], numbered[K_NAME + 16];
  const char *take = name;
  strcpy(name, clean_name(n, base));
  if (!room(n)) return NULL;
  uint32_t first = slot_of(n, name);
  while (n->slots[slot_of(n, take)].name) {
    if (n->slots[first].next < 2) n->slots[first].next = 2;
    numbered_name(name, n->slots[first].next++, numbered);
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
