/* What the fuzz harnesses share. Each defines LLVMFuzzerTestOneInput and the three objects below;
 * libFuzzer, AFL++ or standalone.c brings the main. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What standalone.c makes inputs from: lines and words, a file's bytes, or choices of a generator
 * (any bytes will do). */
enum fuzz_kind { FUZZ_TEXT, FUZZ_BYTES, FUZZ_CHOICES };
extern const enum fuzz_kind fuzz_kind;

/* How far inputs got; the list ends with a NULL name. The first counts all of them; a harness of
 * which less than `least` percent gets that far tests nothing, and has failed. */
typedef struct fuzz_stat {
  const char *name;
  unsigned least;
  uint64_t n;
} fuzz_stat;
extern fuzz_stat fuzz_stats[];
/* More to say at the end. */
void fuzz_report(void);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A broken law: says which, and aborts so that the input is kept. */
_Noreturn static inline void fuzz_fail(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("broken law: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputs("\n", stderr);
  va_end(ap);
  abort();
}

/* xorshift64*; the state is not 0. */
static inline uint64_t fuzz_next(uint64_t *s) {
  *s ^= *s >> 12;
  *s ^= *s << 25;
  *s ^= *s >> 27;
  return *s * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint32_t fuzz_below(uint64_t *s, uint32_t n) {
  return n ? (uint32_t)((fuzz_next(s) >> 32) % n) : 0;
}

#endif
