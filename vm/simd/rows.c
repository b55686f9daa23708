/* Copies of rows between memories: the same bytes on every host, at the speed of its caches. */
#include "loops.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LINE = 64 }; /* bytes of a cache line, on most hosts */
/* Bytes between what is copied and what is asked for, and the most of a row: hosts notice that a
 * row is read in order, but anew in each, and a row may have only a few lines. */
enum { AHEAD = 2048, ASKED = 4096 };

static inline void ask_for(uintptr_t at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const void *)(at + i), 0, 0);
}

void vm_kern_copy(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                  size_t bytes, bool far) {
  uint8_t *d = to;
  const uint8_t *s = from;
  /* The rows ahead that cover AHEAD bytes. */
  const uintptr_t ahead = (uintptr_t)from_step * (bytes < AHEAD ? AHEAD / bytes : 1);
  const size_t asked = bytes < ASKED ? bytes : ASKED;
  /* One row is read in order: the host's own prefetcher does it. */
  far = far && rows > 1;
  for (size_t r = 0; r < rows; r++, d += to_step, s += from_step) {
    if (far) ask_for((uintptr_t)s + ahead, asked); /* the last ones are of what follows */
    memmove(d, s, bytes);
  }
}

#if defined(__SSE2__)
/* Whole lines: the host writes them without having read them. */
static inline void stream(uint8_t *to, const uint8_t *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += LINE) {
    const __m128i *s = (const void *)(from + i);
    __m128i *d = (void *)(to + i);
    const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
    const __m128i x = _mm_loadu_si128(s + 2), y = _mm_loadu_si128(s + 3);
    _mm_stream_si128(d, a);
    _mm_stream_si128(d + 1, b);
    _mm_stream_si128(d + 2, x);
    _mm_stream_si128(d + 3, y);
  }
}

bool vm_kern_stream(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                    size_t bytes) {
  uint8_t *d = to;
  const uint8_t *s = from;
  /* Every row must be whole lines, and begin at one. */
  if (((uintptr_t)to | (uintptr_t)to_step | bytes) % LINE) return false;
  for (size_t r = 0; r < rows; r++, d += to_step, s += from_step) stream(d, s, bytes);
  return true;
}

void vm_kern_stream_zeros(void *to, size_t bytes) {
  /* The part before the first whole line, and below what is left after the last. */
  uint8_t *d = to;
  size_t head = (0 - (uintptr_t)to) % LINE;
  if (head > bytes) head = bytes;
  memset(d, 0, head);
  for (d += head, bytes -= head; bytes >= LINE; d += LINE, bytes -= LINE)
    for (size_t i = 0; i < LINE; i += sizeof(__m128i))
      _mm_stream_si128((void *)(d + i), _mm_setzero_si128());
  memset(d, 0, bytes);
}

void vm_kern_streamed(void) { _mm_sfence(); }
#else
bool vm_kern_stream(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                    size_t bytes) {
  (void)to, (void)to_step, (void)from, (void)from_step, (void)rows, (void)bytes;
  return false;
}

void vm_kern_stream_zeros(void *to, size_t bytes) { memset(to, 0, bytes); }

void vm_kern_streamed(void) {}
#endif
