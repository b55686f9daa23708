/* Little-endian numbers in byte arrays of any alignment. */
#ifndef ISA_BYTES_H
#define ISA_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline uint16_t isa_get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t isa_get32(const uint8_t *p) {
  return isa_get16(p) | (uint32_t)isa_get16(p + 2) << 16;
}
static inline uint64_t isa_get64(const uint8_t *p) {
  return isa_get32(p) | (uint64_t)isa_get32(p + 4) << 32;
}
static inline void isa_put16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}
static inline void isa_put32(uint8_t *p, uint32_t v) {
  isa_put16(p, (uint16_t)v);
  isa_put16(p + 2, (uint16_t)(v >> 16));
}
static inline void isa_put64(uint8_t *p, uint64_t v) {
  isa_put32(p, (uint32_t)v);
  isa_put32(p + 4, (uint32_t)(v >> 32));
}

/* FNV-1a of n bytes, continuing from h. */
#define ISA_FNV_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t isa_fnv(uint64_t h, const void *bytes, size_t n) {
  const uint8_t *p = bytes;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* A number whose bits all depend on all bits of x, and no two of x give one (splitmix64). */
static inline uint64_t isa_mix(uint64_t x) {
  x *= UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* A hash of n words, for tables within a run: it is not saved. */
static inline uint64_t isa_hash_words(const uint32_t *v, uint32_t n) {
  uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
  for (uint32_t i = 0; i < n; i++) h = (h ^ v[i]) * UINT64_C(0xff51afd7ed558ccd), h ^= h >> 32;
  return h;
}

#endif
