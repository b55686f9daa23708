/* Slow properties are tried at all their points in `make check` alone. */
#ifndef TESTS_FULL_H
#define TESTS_FULL_H

#include <stdint.h>
#include <stdlib.h>

/* `all` when tests/run.sh --full runs the test (FULL=1), else `few`. */
static inline uint32_t full_or(uint32_t all, uint32_t few) {
  const char *full = getenv("FULL");
  return full && *full ? all : few;
}

#endif
