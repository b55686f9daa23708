/* Events written by hand, a sink that gathers, an allocator that runs out: what tests of the
 * recorder and of its writers share. */
#ifndef TESTS_RECORD_BED_H
#define TESTS_RECORD_BED_H

#include "json.h"
#include "vm_bed.h"

#define NS UINT64_C(1000000)

/* Three instructions on three engines, each waiting for the one before. */
static const char three[] = "        target  trn2\n"
                            "c       tensor  float32[128, 4], output\n"
                            "t0      tile    sbuf float32[128, 4]\n"
                            "t1      tile    sbuf float32[128, 4]\n"
                            "made    sem\n"
                            "copied  sem\n"
                            "q       queue   rings=16, dge=hwdge\n"
                            "section vector\n"
                            "        memset  t0, 1.0  $made++\n"
                            "        halt\n"
                            "section scalar\n"
                            "        tensor_copy t1, t0  $made>=1  $copied++\n"
                            "        halt\n"
                            "section sync\n"
                            "        dma_copy c, t1, queue=q  $copied>=1\n"
                            "        halt\n";
static const soma_event story[] = {
    {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 0, .end = 100 * NS},
    {.kind = SOMA_EV_SEM,
     .engine = SOMA_VECTOR,
     .id = 0,
     .value = 1,
     .start = 130 * NS,
     .end = 130 * NS},
    {.kind = SOMA_EV_WAIT, .engine = SOMA_SCALAR, .id = 0, .start = 0, .end = 130 * NS},
    {.kind = SOMA_EV_INSN, .engine = SOMA_SCALAR, .start = 130 * NS, .end = 400 * NS + 500},
    {.kind = SOMA_EV_SEM,
     .engine = SOMA_SCALAR,
     .id = 1,
     .value = 1,
     .start = 430 * NS,
     .end = 430 * NS},
    {.kind = SOMA_EV_WAIT, .engine = SOMA_SYNC, .id = 1, .start = 10 * NS, .end = 430 * NS},
    {.kind = SOMA_EV_TRIGGER,
     .engine = SOMA_SYNC,
     .value = UINT32_MAX,
     .bytes = 2048,
     .start = 430 * NS,
     .end = 1030 * NS,
     .part = 65537},
    {.kind = SOMA_EV_DMA,
     .engine = 3,
     .id = 0,
     .value = SOMA_SYNC,
     .bytes = 2048,
     .start = 1200 * NS,
     .end = 1600 * NS,
     .part = 65537},
};
enum { STORY = sizeof story / sizeof *story };

typedef struct text {
  char *s;
  size_t n;
  size_t room; /* refuses more than this, 0: no limit */
} text;

static inline int add_text(void *ud, const char *p, size_t n) {
  text *t = ud;
  if (t->room && t->n + n > t->room) return 1;
  t->s = realloc(t->s, t->n + n + 1);
  assert_non_null(t->s);
  memcpy(t->s + t->n, p, n);
  t->n += n;
  t->s[t->n] = 0;
  return 0;
}

static inline soma_recorder *recorder_of(const soma_recorder_options *o, const soma_event *e,
                                         size_t n) {
  soma_recorder *r;
  assert_int_equal(soma_recorder_new(o, &r), SOMA_OK);
  for (size_t i = 0; i < n; i++) soma_recorder_event(r, &e[i]);
  return r;
}

static inline unsigned count_of(const char *s, const char *what) {
  unsigned n = 0;
  for (s = strstr(s, what); s; s = strstr(s + 1, what)) n++;
  return n;
}

typedef struct purse { /* allocations that may still succeed */
  int left;
} purse;
static inline void *spend(void *ud, void *p, size_t old, size_t n) {
  purse *u = ud;
  (void)old;
  if (n == 0) {
    free(p);
    return NULL;
  }
  return u->left-- > 0 ? realloc(p, n) : NULL;
}

#endif
