/* Transposes of tiles in memory. The vectors have 16 bytes on every host and level: wider ones
 * would gain little, since most of the time goes into reaching as many rows as there are. */
#include "level.h"

#include <string.h>

/* A tile of that many rows and columns at once: reaching a row may take a page of its own, and a
 * cache line holds 16 to 64 elements. */
enum { TILE = 32 };

/* Some rows and columns of the source at `from` to columns and rows at `to`. */
typedef struct turn {
  uint8_t *to;
  const uint8_t *from;
  ptrdiff_t to_step, from_step;
} turn;

/* N x N elements: log2 N times, rows i and i + N / 2 become rows 2 i and 2 i + 1, their elements in
 * turn. */
#define BLOCK(type, N, ROUNDS, LOW, HIGH)                                            \
  typedef type vec_##type __attribute__((vector_size(16)));                          \
  KERN_INLINE void block_##type(const turn *t, size_t r, size_t c) {                 \
    vec_##type x[N], y[N];                                                           \
    const uint8_t *from = t->from + (ptrdiff_t)r * t->from_step + c * sizeof(type);  \
    uint8_t *to = t->to + (ptrdiff_t)c * t->to_step + r * sizeof(type);              \
    KERN_UNROLL(16)                                                                  \
    for (int i = 0; i < N; i++) memcpy(&x[i], from + i * t->from_step, sizeof x[i]); \
    KERN_UNROLL(16)                                                                  \
    for (int round = 0; round < ROUNDS; round++) {                                   \
      KERN_UNROLL(16)                                                                \
      for (int i = 0; i < N / 2; i++) {                                              \
        y[2 * i] = __builtin_shufflevector(x[i], x[i + N / 2], LOW);                 \
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + N / 2], HIGH);            \
      }                                                                              \
      KERN_UNROLL(16)                                                                \
      for (int i = 0; i < N; i++) x[i] = y[i];                                       \
    }                                                                                \
    KERN_UNROLL(16)                                                                  \
    for (int i = 0; i < N; i++) memcpy(to + i * t->to_step, &x[i], sizeof x[i]);     \
  }                                                                                  \
  KERN_INLINE void one_##type(const turn *t, size_t r, size_t c) {                   \
    memcpy(t->to + (ptrdiff_t)c * t->to_step + r * sizeof(type),                     \
           t->from + (ptrdiff_t)r * t->from_step + c * sizeof(type), sizeof(type));  \
  }                                                                                  \
  static void tile_##type(const turn *t, size_t rows, size_t cols) {                 \
    size_t r = 0, c = 0;                                                             \
    for (; c + N <= cols; c += N)                                                    \
      for (r = 0; r + N <= rows; r += N) block_##type(t, r, c);                      \
    for (size_t i = rows / N * N; i < rows; i++)                                     \
      for (size_t j = 0; j < c; j++) one_##type(t, i, j);                            \
    for (; c < cols; c++)                                                            \
      for (r = 0; r < rows; r++) one_##type(t, r, c);                                \
  }
#define PAIRS8 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define REST8 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define PAIRS16 0, 8, 1, 9, 2, 10, 3, 11
#define REST16 4, 12, 5, 13, 6, 14, 7, 15
BLOCK(uint8_t, 16, 4, PAIRS8, REST8)
BLOCK(uint16_t, 8, 3, PAIRS16, REST16)
#define PAIRS32 0, 4, 1, 5
#define REST32 2, 6, 3, 7
BLOCK(uint32_t, 4, 2, PAIRS32, REST32)
#define PAIRS64 0, 2
#define REST64 1, 3
BLOCK(uint64_t, 2, 1, PAIRS64, REST64)

void vm_kern_turn(void *to, ptrdiff_t to_step, const void *from, ptrdiff_t from_step, size_t rows,
                  size_t cols, unsigned esize) {
  /* Tiles of 32 x 32: both sides then stay in a few pages and lines. */
  for (size_t r = 0; r < rows; r += TILE) {
    for (size_t c = 0; c < cols; c += TILE) {
      turn t = {(uint8_t *)to + (ptrdiff_t)c * to_step + r * esize,
                (const uint8_t *)from + (ptrdiff_t)r * from_step + c * esize, to_step, from_step};
      /* Edges are done element by element (tile_...). */
      size_t m = rows - r < TILE ? rows - r : TILE, n = cols - c < TILE ? cols - c : TILE;
      switch (esize) {
      case 1: tile_uint8_t(&t, m, n); break;
      case 2: tile_uint16_t(&t, m, n); break;
      case 4: tile_uint32_t(&t, m, n); break;
      default: tile_uint64_t(&t, m, n); break;
      }
    }
  }
}
