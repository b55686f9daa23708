/* What every layer uses: status codes, the allocator contract, growable bytes, an arena. */
#ifndef ISA_BASE_H
#define ISA_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ISA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ISA_PRINTF(fmt, args)
#endif

typedef enum isa_status {
#define STATUS(name, text) ISA_##name,
#include "status.def"
  ISA_NSTATUS
} isa_status;

/* The text of a status, static; "unknown status" outside the table. */
const char *isa_status_text(int status);

/* An allocator, as in Lua: fn(ud, NULL, 0, n) allocates, fn(ud, p, old, 0) frees and
 * gives NULL, else it resizes. It may fail by giving NULL when n > 0. Shrinking may fail too. */
typedef struct isa_alloc {
  void *(*fn)(void *ud, void *p, size_t old, size_t n);
  void *ud;
} isa_alloc;

/* malloc, realloc and free. */
isa_alloc isa_alloc_default(void);

/* n zeroed bytes, or NULL. Free with isa_free and the same n. */
void *isa_zalloc(const isa_alloc *al, size_t n);
void isa_free(const isa_alloc *al, void *p, size_t n);

/* Growable bytes. A failed growth sets `failed` and drops the data that did not fit, so that a
 * chain of appends needs one check at its end. Zero-initialise and set `al`. */
typedef struct isa_buf {
  char *data;
  size_t len, cap;
  isa_alloc al;
  bool failed;
} isa_buf;

void isa_buf_init(isa_buf *b, const isa_alloc *al);
void isa_buf_free(isa_buf *b);
/* Room for n more bytes at the end, uninitialised; NULL on failure. */
char *isa_buf_grow(isa_buf *b, size_t n);
void isa_buf_add(isa_buf *b, const void *p, size_t n);
void isa_buf_puts(isa_buf *b, const char *s);
void isa_buf_printf(isa_buf *b, const char *fmt, ...) ISA_PRINTF(2, 3);
void isa_buf_vprintf(isa_buf *b, const char *fmt, va_list ap);
/* s in quotes for JSON, also valid inside a <script>; bytes that are not UTF-8 become U+FFFD. */
void isa_buf_json(isa_buf *b, const char *s);
/* The bytes as a C string (a terminating 0 is kept after len); "" when empty or failed. */
const char *isa_buf_str(isa_buf *b);

/* Memory whose pieces are freed together. Zero-initialise and set `al`. */
typedef struct isa_arena {
  struct isa_arena_block *blocks;
  isa_alloc al;
  size_t total; /* bytes taken from the allocator */
} isa_arena;

void isa_arena_init(isa_arena *a, const isa_alloc *al);
void isa_arena_free(isa_arena *a);
/* n zeroed bytes aligned for any type, or NULL. */
void *isa_arena_alloc(isa_arena *a, size_t n);
/* A copy of n bytes of s and a terminating 0, or NULL. */
char *isa_arena_strn(isa_arena *a, const char *s, size_t n);
/* An array of the arena, with room for `more` elements of size bytes after its first n: v itself
 * where *cap suffices, else a copy with at least twice the room, zeroed after the n; NULL when
 * memory is out: v and *cap are as before. */
void *isa_arena_grow(isa_arena *a, void *v, uint32_t n, uint32_t more, uint32_t *cap, size_t size);

/* Makes room for one more element in an array of *cap elements of size bytes each. The array
 * grows by half; the new part is zeroed. False if out of memory: the array is as before. */
bool isa_array_grow(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size);
/* The same for elements that are written as a whole: the new part is not zeroed. */
bool isa_array_room(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size);
/* The same to `want` elements at once, for a caller that knows how many there will be. */
bool isa_array_reserve(const isa_alloc *al, void *array_ptr, uint32_t want, uint32_t *cap,
                       size_t size);
/* Gives back the room after the first n elements; where that fails the array is as before. */
void isa_array_trim(const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap, size_t size);

/* Numbers from 1 by the hash of what they stand for: open addressing, at most half full. Zeroed it
 * is empty. */
typedef struct isa_slot {
  uint32_t hash, number;
} isa_slot;
typedef struct isa_index {
  isa_slot *slots;
  uint32_t size, n;
} isa_index;
/* False if out of memory: the index is as before. After isa_index_room the next one is taken. */
bool isa_index_room(const isa_alloc *al, isa_index *t);
/* The same for n numbers in all, for a caller that knows how many there will be. */
bool isa_index_reserve(const isa_alloc *al, isa_index *t, uint32_t n);
bool isa_index_add(const isa_alloc *al, isa_index *t, uint32_t hash, uint32_t number);
void isa_index_clear(isa_index *t); /* of all numbers; the memory stays */
void isa_index_free(const isa_alloc *al, isa_index *t);
/* The next number with that hash, 0 when there are no more; *probe is 0 before the first. */
static inline uint32_t isa_index_next(const isa_index *t, uint32_t hash, uint32_t *probe) {
  while (t->size) {
    isa_slot s = t->slots[(hash + (*probe)++) & (t->size - 1)];
    if (!s.number || s.hash == hash) return s.number;
  }
  return 0;
}

/* A message and its place. field: index of the operand in the instruction's form,
 * ISA_NOFIELD for the whole instruction. text names the rule and the values. */
#define ISA_NOFIELD (-1)
typedef struct isa_error {
  isa_status status;
  int field;
  char text[480];
} isa_error;

/* Fills e (may be NULL) and gives false, so that a check can end with `return isa_fail(...)`. */
bool isa_fail(isa_error *e, isa_status status, int field, const char *fmt, ...) ISA_PRINTF(4, 5);

#endif
