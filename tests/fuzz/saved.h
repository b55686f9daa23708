/* Files of saved runs and worlds, damaged. */
#ifndef TESTS_SAVED_H
#define TESTS_SAVED_H

#include "../../isa/bytes.h"
#include "gen.h"

enum { SAVED_HEADER = 40, SAVED_AT_LENGTH = 24, SAVED_AT_HASH = 32 };

static uint64_t saved_hash(uint64_t h, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && i + k < n; k++) word |= (uint64_t)p[i + k] << 8 * k;
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
  }
  return h;
}

/* Length and hash as vm/api/save.c has them. */
static void saved_repair(uint8_t *p, size_t n) {
  isa_put64(p + SAVED_AT_LENGTH, n);
  isa_put64(p + SAVED_AT_HASH,
            saved_hash(saved_hash(UINT64_C(0xcbf29ce484222325), p, SAVED_AT_HASH), p + SAVED_HEADER,
                       n - SAVED_HEADER));
}

/* Most of a file is zeros of memories that are empty: changes go where something is, and to the
 * last third, where the state of engines and transfers lies. */
static size_t saved_place(gen *g, const uint8_t *p, size_t n) {
  size_t at = SAVED_HEADER + gen_below(g, (uint32_t)(n - SAVED_HEADER));
  if (gen_one_in(g, 2)) at = n - 1 - gen_below(g, (uint32_t)((n - SAVED_HEADER) / 3));
  for (int i = 0; i < 64 && at + 1 < n && p[at] == 0; i++) at++;
  return at;
}

static size_t saved_damage(gen *g, uint8_t *p, size_t n) {
  if (gen_one_in(g, 16)) n = SAVED_HEADER + gen_below(g, (uint32_t)(n - SAVED_HEADER));
  for (uint32_t k = 1 + gen_below(g, 3); k > 0 && n > SAVED_HEADER + 3; k--) {
    size_t at = saved_place(g, p, n);
    uint32_t bits = gen_one_in(g, 2) ? p[at] ^ 1u << gen_below(g, 8) : gen_below(g, 256);
    p[at] = (uint8_t)bits;
  }
  saved_repair(p, n);
  return n;
}

#endif
