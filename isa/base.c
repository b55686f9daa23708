/* Memory and messages: everything base.h declares. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *isa_status_text(int status) {
  static const char *const texts[ISA_NSTATUS] = {
#define STATUS(name, text) text,
#include "status.def"
  };
  return status >= 0 && status < ISA_NSTATUS ? texts[status] : "unknown status";
}

/* ---- Allocation --------------------------------------------------------------------------- */

/* One function for all three: n 0 frees, p NULL makes, else it grows or shrinks. */
static void *default_alloc(void *ud, void *p, size_t old, size_t n) {
  (void)ud;
  (void)old;
  if (n == 0) {
    free(p);
    return NULL;
  }
  return realloc(p, n);
}

isa_alloc isa_alloc_default(void) { return (isa_alloc){default_alloc, NULL}; }

void *isa_zalloc(const isa_alloc *al, size_t n) {
  void *p = al->fn(al->ud, NULL, 0, n);
  if (p) memset(p, 0, n);
  return p;
}

void isa_free(const isa_alloc *al, void *p, size_t n) {
  if (p) al->fn(al->ud, p, n, 0);
}

/* Exactly as many as asked for: isa_array_room is the one that grows ahead. */
bool isa_array_reserve(const isa_alloc *al, void *array_ptr, uint32_t want, uint32_t *cap,
                       size_t size) {
  if (want <= *cap) return true;
  if (want > SIZE_MAX / size) return false;
  char *p;
  memcpy(&p, array_ptr, sizeof p); /* array_ptr is the address of any type's pointer */
  p = al->fn(al->ud, p, *cap * size, (size_t)want * size);
  if (!p) return false;
  memcpy(array_ptr, &p, sizeof p);
  *cap = want;
  return true;
}

/* A smaller block may be refused; then the old one is kept, which is no error. */
void isa_array_trim(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size) {
  char *p;
  if (n == 0 || n >= *cap) return;
  memcpy(&p, array_ptr, sizeof p);
  p = al->fn(al->ud, p, *cap * size, n * size);
  if (!p) return;
  memcpy(array_ptr, &p, sizeof p);
  *cap = n;
}

/* What is new is not zeroed: its caller fills each element as a whole. */
bool isa_array_room(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size) {
  if (n < *cap) return true;
  /* By half, and to 8 elements at least. */
  uint64_t want = (uint64_t)*cap + *cap / 2;
  if (want < 8) want = 8;
  if (want > UINT32_MAX) want = UINT32_MAX;
  return want > n && isa_array_reserve(al, array_ptr, (uint32_t)want, cap, size);
}

bool isa_array_grow(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size) {
  char *p;
  uint32_t old = *cap;
  if (n < old) return true;
  if (!isa_array_room(al, array_ptr, n, cap, size)) return false;
  memcpy(&p, array_ptr, sizeof p);
  memset(p + old * size, 0, (*cap - old) * size);
  return true;
}

/* Linear probing: neighbours in memory are read at no cost. */
static void put_slot(isa_index *t, isa_slot s) {
  uint32_t at = s.hash;
  /* At most half of the slots are taken: a free one comes. */
  while (t->slots[at & (t->size - 1)].number) at++;
  t->slots[at & (t->size - 1)] = s;
}

/* Half full at most, so that a search ends soon at a free slot. */
bool isa_index_room(const isa_alloc *al, isa_index *t) {
  return t->n < t->size / 2 || isa_index_reserve(al, t, t->n + 1);
}

bool isa_index_reserve(const isa_alloc *al, isa_index *t, uint32_t n) {
  /* All in a new table: the old one stays whole if memory is out. */
  isa_index more = {.size = t->size ? t->size : 64, .n = t->n};
  /* The size is a power of two, at least twice the count. */
  for (; more.size / 2 < n; more.size *= 2)
    if (more.size > UINT32_MAX / 2) return false;
  if (more.size == t->size) return true;
  more.slots = isa_zalloc(al, more.size * sizeof *more.slots);
  if (!more.slots) return false;
  for (uint32_t i = 0; i < t->size; i++)
    if (t->slots[i].number) put_slot(&more, t->slots[i]);
  isa_free(al, t->slots, t->size * sizeof *t->slots);
  *t = more;
  return true;
}

bool isa_index_add(const isa_alloc *al, isa_index *t, uint32_t hash, uint32_t number) {
  if (!isa_index_room(al, t)) return false;
  put_slot(t, (isa_slot){hash, number});
  t->n++;
  return true;
}

/* Without a number there is nothing to clear. */
void isa_index_clear(isa_index *t) {
  if (t->n) memset(t->slots, 0, t->size * sizeof *t->slots);
  t->n = 0;
}

void isa_index_free(const isa_alloc *al, isa_index *t) {
  isa_free(al, t->slots, t->size * sizeof *t->slots);
  *t = (isa_index){0};
}

/* ---- Growable bytes ----------------------------------------------------------------------- */

void isa_buf_init(isa_buf *b, const isa_alloc *al) { *b = (isa_buf){.al = *al}; }

void isa_buf_free(isa_buf *b) {
  isa_free(&b->al, b->data, b->cap);
  /* Empty, with its allocator: it can be used again. */
  isa_buf_init(b, &(isa_alloc){b->al.fn, b->al.ud});
}

/* Room for n more bytes and the 0 after them. Failure sticks, so that no later append leaves a
 * hole before itself. */
static bool buf_reserve(isa_buf *b, size_t n) {
  if (b->failed) return false;
  if (n < b->cap - b->len) /* also false for the empty buffer */
    return true;
  size_t need = b->len + n + 1;
  /* By half, so that many small appends copy little. */
  size_t cap = b->cap + b->cap / 2;
  if (cap < need) cap = need < 64 ? 64 : need;
  /* The sum has not overflowed. */
  char *p = need > b->len ? b->al.fn(b->al.ud, b->data, b->cap, cap) : NULL;
  if (!p) {
    b->failed = true;
    return false;
  }
  b->data = p;
  b->cap = cap;
  return true;
}

char *isa_buf_grow(isa_buf *b, size_t n) {
  if (!buf_reserve(b, n)) return NULL;
  char *p = b->data + b->len;
  b->len += n;
  b->data[b->len] = 0;
  return p;
}

void isa_buf_add(isa_buf *b, const void *p, size_t n) {
  char *to = isa_buf_grow(b, n);
  if (to && n > 0) memcpy(to, p, n);
}

void isa_buf_puts(isa_buf *b, const char *s) { isa_buf_add(b, s, strlen(s)); }

void isa_buf_vprintf(isa_buf *b, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  /* Once to measure, once to write. */
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n < 0)
    b->failed = true;
  else if (buf_reserve(b, (size_t)n)) {
    /* vsnprintf writes its own 0, into the byte that buf_reserve has kept for it. */
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
}

void isa_buf_printf(isa_buf *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  isa_buf_vprintf(b, fmt, ap);
  va_end(ap);
}

/* A failed buffer gives an empty text: half a message would look like a whole one. */
const char *isa_buf_str(isa_buf *b) { return b->data && !b->failed ? b->data : ""; }

/* Bytes of the UTF-8 character at s; 0 when none exists. */
static unsigned utf8_len(const unsigned char *s) {
  /* 0xc0 and 0xc1 would only begin overlong forms, 0xf5 and more what is past U+10FFFF. */
  unsigned n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : (s[0] & 0xf0) == 0xe0       ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
  for (unsigned i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  /* Overlong forms, surrogates, and what is past U+10FFFF. */
  bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
             (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
  return bad ? 0 : n;
}

/* Whether `<` before c can begin a tag or a comment, which a <script> must not contain. */
static bool opens_tag(unsigned char c) {
  return c == '/' || c == '!' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

void isa_buf_json(isa_buf *b, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  isa_buf_puts(b, "\"");
  while (*s) {
    unsigned n = utf8_len(s);
    if (n == 0) /* Bytes that are not UTF-8: one mark for each, and the rest goes on. */
      isa_buf_puts(b, "\\ufffd");
    else if (*s == '"' || *s == '\\')
      isa_buf_printf(b, "\\%c", *s);
    /* 0x7f and tags: the text may be inside a page's <script>. */
    else if (*s < 0x20 || *s == 0x7f || (*s == '<' && opens_tag(s[1])))
      isa_buf_printf(b, "\\u%04x", *s);
    else
      isa_buf_add(b, s, n);
    s += n ? n : 1;
  }
  isa_buf_puts(b, "\"");
}

/* ---- Arena -------------------------------------------------------------------------------- */

struct isa_arena_block {
  struct isa_arena_block *next;
  size_t size, used; /* of the whole block, this header included */
};

/* The first block holds a small program; later ones double up to 64 KiB. */
enum { ARENA_FIRST = 1024, ARENA_MOST = 65536 };
enum { LEAST_ROOM = 8 }; /* elements of a growable array when it gets its first */

static size_t align_up(size_t n) {
  size_t a = _Alignof(max_align_t);
  return (n + a - 1) / a * a;
}

void isa_arena_init(isa_arena *a, const isa_alloc *al) { *a = (isa_arena){.al = *al}; }

void isa_arena_free(isa_arena *a) {
  while (a->blocks) {
    struct isa_arena_block *b = a->blocks;
    a->blocks = b->next;
    isa_free(&a->al, b, b->size);
  }
  a->total = 0;
}

/* n zeroed bytes of a block that has so much room after its first `used` bytes; NULL: none has.
 * Zeroed when the block was made, and never used twice. */
static void *take_bytes(struct isa_arena_block *b, size_t used, size_t n) {
  if (!b || used > b->size || b->size - used < n) return NULL;
  b->used = used + n;
  return (char *)b + used;
}

void *isa_arena_alloc(isa_arena *a, size_t n) {
  size_t head = align_up(sizeof(struct isa_arena_block));
  /* So that no sum below overflows. */
  if (n > SIZE_MAX - head - 64) return NULL;
  size_t need = align_up(n > 0 ? n : 1);
  struct isa_arena_block *b = a->blocks;
  void *p = b ? take_bytes(b, align_up(b->used), need) : NULL;
  if (p) return p;
  /* Blocks double, up to a limit. */
  size_t size = b && b->size < ARENA_MOST ? 2 * b->size : b ? ARENA_MOST : ARENA_FIRST;
  bool big = need > size / 4; /* a block of its own: the rest of the current one stays in use */
  b = isa_zalloc(&a->al, big ? head + need : size);
  if (!b) return NULL;
  b->size = big ? head + need : size;
  a->total += b->size;
  /* Behind the current block, which stays the first. */
  struct isa_arena_block **at = big && a->blocks ? &a->blocks->next : &a->blocks;
  b->next = *at;
  *at = b;
  return take_bytes(b, head, need);
}

/* Strings lie side by side. */
char *isa_arena_strn(isa_arena *a, const char *s, size_t n) {
  /* No alignment for bytes: names fill a block without gaps. */
  char *p = a->blocks && n < SIZE_MAX ? take_bytes(a->blocks, a->blocks->used, n + 1) : NULL;
  if (!p && n < SIZE_MAX) p = isa_arena_alloc(a, n + 1);
  if (p && n > 0) memcpy(p, s, n);
  return p;
}

/* The old place is lost to the arena until it is freed: growth doubles, so that is at
 * most as much again. */
void *isa_arena_grow(isa_arena *a, void *v, uint32_t n, uint32_t more, uint32_t *cap, size_t size) {
  if (more <= *cap && n <= *cap - more) return v;
  uint64_t want = (uint64_t)n + more, twice = 2 * (uint64_t)*cap, room = LEAST_ROOM;
  if (room < twice) room = twice;
  if (room < want) room = want;
  void *to = room <= UINT32_MAX ? isa_arena_alloc(a, (size_t)room * size) : NULL;
  if (!to) return NULL;
  uint32_t kept = n < *cap ? n : *cap;
  if (kept) memcpy(to, v, kept * size);
  *cap = (uint32_t)room;
  return to;
}

/* ---- Errors ------------------------------------------------------------------------------- */

bool isa_fail(isa_error *e, isa_status status, int field, const char *fmt, ...) {
  /* A caller that only asks yes or no gives no place for the message. */
  if (!e) return false;
  e->status = status;
  e->field = field;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->text, sizeof e->text, fmt, ap);
  va_end(ap);
  return false;
}
