/* An allocator of which one call fails, and all after it. */
#ifndef TESTS_COUNTDOWN_H
#define TESTS_COUNTDOWN_H

#include <stdlib.h>

struct countdown {
  long left;  /* allocations until one fails */
  long alive; /* bytes */
};
static inline void *counting(void *ud, void *p, size_t old, size_t n) {
  struct countdown *c = ud;
  if (n == 0) {
    c->alive -= p ? (long)old : 0;
    free(p);
    return NULL;
  }
  if (c->left-- <= 0) return NULL;
  void *q = realloc(p, n);
  if (q) c->alive += (long)n - (p ? (long)old : 0);
  return q;
}

#endif
