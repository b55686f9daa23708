/* The builder with each of its allocations failing once: it says that memory is out, or gives the
 * program that it gives otherwise; and all memory comes back, with its right sizes. Policies and
 * advice build the same kernel many times: of allocations that one chain of calls makes, the first
 * and the last fail there. */
#include "full.h"
#include "kernel_bed.h"

#include <execinfo.h>
#include <malloc.h>

enum { FRAMES = 48, CHAINS = 4096 };

/* The allocations of each chain of calls, by number. */
typedef struct chains {
  struct {
    uint64_t of;
    long first, last;
  } chain[CHAINS];
  unsigned n;
} chains;

typedef struct heap {
  long calls, fail_at, alive;
  int bad_size;
  chains *chains; /* NULL: they are not noted */
} heap;

static void note_chain(chains *c, long call) {
  void *frame[FRAMES];
  uint64_t of = 0;
  unsigned i = 0;
  for (int n = backtrace(frame, FRAMES); n > 0; n--)
    of = (of ^ (uintptr_t)frame[n - 1]) * UINT64_C(0x9e3779b97f4a7c15);
  while (i < c->n && c->chain[i].of != of) i++;
  assert_true(i < CHAINS);
  if (i == c->n) c->chain[c->n++].of = of, c->chain[i].first = call;
  c->chain[i].last = call;
}

static void *take(void *ud, void *p, size_t old, size_t n) {
  heap *h = ud;
  size_t *was = p ? (size_t *)p - 2 : NULL;
  if ((was ? *was : 0) != (p ? old : 0)) h->bad_size = 1;
  if (n > 0 && ++h->calls == h->fail_at) return NULL;
  if (n > 0 && h->chains) note_chain(h->chains, h->calls);
  if (n == 0) {
    if (was) h->alive -= (long)*was;
    free(was);
    return NULL;
  }
  h->alive += (long)n - (was ? (long)*was : 0);
  size_t *q = realloc(was, n + 2 * sizeof *q);
  assert_non_null(q);
  *q = n;
  return q + 2;
}

static soma_status record(soma_kernel *k, int64_t line, const char *op, const int64_t *fields,
                          size_t n) {
  int64_t w[64] = {(int64_t)n + 6, soma_opcode(op), -1, 0, 1, line};
  memcpy(w + 6, fields, n * sizeof *w);
  return soma_kernel_emit(k, w, n + 6, NULL);
}

#define RECORD_AT(k, line, op, ...)                   \
  record(k, line, op, (const int64_t[]){__VA_ARGS__}, \
         sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define RECORD(k, op, ...) RECORD_AT(k, 7, op, __VA_ARGS__)
#define TILE(t) 8, t, SOMA_FLOAT32, 0, 128, 0, 1, 1, 64
#define ROWS(x) 10, x, SOMA_FLOAT32, 0, 0, 0, 2, 64, 128, 1, 64
#define COLUMNS(x, i) 10, x, SOMA_FLOAT32, 0, 0, (i)*256, 2, 256, 128, 1, 64
#define FAR_APART(x) 10, x, SOMA_FLOAT32, 0, 0, 0, 2, 1, 128, 256, 64
#define QUEUE -1, 0, 0, 0

#define SUM(p) 8, p, SOMA_FLOAT32, 0, 64, 0, 1, 1, 64

/* Three tiles where two fit, a register, a loop whose first round differs, an order, a load to PSUM
 * that takes a copy. */
static soma_status fill(soma_kernel *k) {
  static const float ones[4] = {1, 1, 1, 1};
  int64_t shape[2] = {128, 64}, four[1] = {4};
  uint32_t x, y, c, t[3], sum = 0, held = 0, reg, file;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  soma_status s = soma_kernel_file(k, "alloc.py", &file);
  i.name = "tile";
  i.shape[0] = 128;
  i.shape[1] = 64;
  r.stop = 3;
  if (s == SOMA_OK) s = soma_kernel_tensor(k, "x", SOMA_FLOAT32, 2, shape, SOMA_INPUT, &x);
  if (s == SOMA_OK) s = soma_kernel_tensor(k, "y", SOMA_FLOAT32, 2, shape, SOMA_OUTPUT, &y);
  if (s == SOMA_OK) s = soma_kernel_constant(k, SOMA_FLOAT32, 1, four, ones, &c);
  for (int n = 0; n < 3 && s == SOMA_OK; n++) {
    s = soma_kernel_tile(k, &i, &t[n]);
    if (s == SOMA_OK) s = RECORD(k, "dma_copy", TILE(t[n]), ROWS(x), QUEUE);
  }
  i.memory = SOMA_PSUM;
  if (s == SOMA_OK) s = soma_kernel_tile(k, &i, &sum);
  if (s == SOMA_OK) s = soma_kernel_tile(k, &i, &held);
  if (s == SOMA_OK) s = RECORD(k, "dma_copy", TILE(held), ROWS(x), QUEUE);
  if (s == SOMA_OK) s = RECORD(k, "ldweights", TILE(t[0]), 0, 0, 0, 0, 0, 0, 0);
  if (s == SOMA_OK) s = soma_kernel_order(k, 0, 1);
  if (s == SOMA_OK) s = soma_kernel_register(k, &reg);
  if (s == SOMA_OK) s = RECORD(k, "mov", reg, 0, 5);
  if (s == SOMA_OK) s = RECORD(k, "notify", 1, reg);
  if (s == SOMA_OK) s = soma_kernel_loop(k, &r, &reg);
  if (s == SOMA_OK) s = RECORD(k, "tensor_tensor", TILE(t[0]), TILE(t[0]), TILE(t[0]), 2, 0);
  if (s == SOMA_OK) s = RECORD(k, "matmul", SUM(sum), TILE(t[0]), 0, 0, 0, 0, 0, 0, 0, 0, 0);
  if (s == SOMA_OK) s = soma_kernel_endloop(k);
  for (int n = 0; n < 3 && s == SOMA_OK; n++) s = RECORD(k, "dma_copy", ROWS(y), TILE(t[n]), QUEUE);
  return s;
}

static int count(void *ud, const char *p, size_t n) {
  (void)p;
  *(size_t *)ud += n;
  return 0;
}

/* Rows that advice changes: at line 7 elements far apart in HBM, at line 8 short rows. */
static soma_status fill_rows(soma_kernel *k) {
  int64_t shape[2] = {128, 256};
  uint32_t x, y, t[5], file;
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  soma_status s = soma_kernel_file(k, "alloc.py", &file);
  i.shape[0] = 128;
  i.shape[1] = 64;
  if (s == SOMA_OK) s = soma_kernel_tensor(k, "x", SOMA_FLOAT32, 2, shape, SOMA_INPUT, &x);
  if (s == SOMA_OK) s = soma_kernel_tensor(k, "y", SOMA_FLOAT32, 2, shape, SOMA_OUTPUT, &y);
  for (int n = 0; n < 5 && s == SOMA_OK; n++) {
    s = soma_kernel_tile(k, &i, &t[n]);
    if (s == SOMA_OK && !n) s = RECORD(k, "dma_copy", TILE(t[n]), FAR_APART(x), QUEUE);
    if (s == SOMA_OK && n) s = RECORD_AT(k, 8, "dma_copy", TILE(t[n]), COLUMNS(x, n - 1), QUEUE);
  }
  for (int n = 0; n < 5 && s == SOMA_OK; n++)
    s = RECORD_AT(k, 9, "dma_copy", COLUMNS(y, n % 4), TILE(t[n]), QUEUE);
  return s;
}

static void advises_rows(soma_kernel *k) {
  soma_kernel_advice a;
  unsigned n = 0;
  for (uint32_t i = 0; soma_kernel_get_advice(k, i, &a, sizeof a) == SOMA_OK; i++)
    n += a.kind == SOMA_ADVICE_ROWS;
  assert_int_equal(n, 2);
}

static soma_status life(heap *h, unsigned cores, uint32_t optimize, int rows, size_t *bytes) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
  soma_machine *m = NULL;
  soma_kernel *k[2] = {NULL, NULL};
  soma_program *p = NULL;
  soma_diagnostics *d = NULL;
  void *data = NULL;
  o.alloc = take; /* the machine has no memories: its target is open */
  o.alloc_ud = h;
  ko.flags = rows ? 0 : SOMA_KERNEL_SPILL | SOMA_KERNEL_COPIES;
  ko.sbuf_bytes = rows ? 0 : 512;
  ko.optimize = optimize;
  if (rows || optimize > 1) ko.flags |= SOMA_KERNEL_ADVICE;
  *bytes = 0;
  soma_status s = soma_machine_new(&o, &m);
  ko.cores = cores;
  for (ko.core = 0; ko.core < cores && s == SOMA_OK; ko.core++) {
    s = soma_kernel_new(m, &ko, &k[ko.core]);
    if (s == SOMA_OK) s = rows ? fill_rows(k[ko.core]) : fill(k[ko.core]);
  }
  if (s == SOMA_OK)
    s = cores > 1 ? soma_kernel_finish_pair(k[0], k[1], &p, &d) : soma_kernel_finish(k[0], &p, &d);
  for (unsigned c = 0; c < cores && s == SOMA_OK; c++) s = soma_kernel_report(k[c], count, bytes);
  if (s == SOMA_OK && rows && !h->fail_at) advises_rows(k[0]);
  if (s == SOMA_OK) s = soma_program_save(m, p, &data, bytes);
  soma_bytes_free(data);
  soma_diagnostics_free(d);
  soma_program_free(p);
  soma_kernel_free(k[0]);
  soma_kernel_free(k[1]);
  soma_machine_free(m);
  return s;
}

static void fails_at(heap h, long i, unsigned cores, uint32_t optimize, int rows, size_t want) {
  size_t got;
  long calls = h.calls;
  h = (heap){.fail_at = i};
  soma_status s = life(&h, cores, optimize, rows, &got);
  if (s != SOMA_NOMEM && (s != SOMA_OK || got != want))
    fail_msg("allocation %ld of %ld failing gives %s", i, calls, soma_status_text(s));
  if (h.alive || h.bad_size) fail_msg("allocation %ld failing: %ld bytes are left", i, h.alive);
}

static void each_fails_once(unsigned cores) {
  heap h = {0};
  size_t want;
  assert_int_equal(life(&h, cores, 1, 0, &want), SOMA_OK);
  assert_true(h.calls > 100);
  for (long i = 1; i <= h.calls; i++) fails_at(h, i, cores, 1, 0, want);
}

/* One of `step` chains. */
static void each_chain_fails(unsigned cores, uint32_t optimize, int rows, unsigned step) {
  static chains c;
  heap h = {.chains = &c};
  size_t want;
  c.n = 0;
  assert_int_equal(life(&h, cores, optimize, rows, &want), SOMA_OK);
  assert_true(c.n > 100 && c.n < h.calls);
  for (unsigned i = 0; i < c.n; i += step) {
    fails_at(h, c.chain[i].first, cores, optimize, rows, want);
    if (c.chain[i].last > c.chain[i].first)
      fails_at(h, c.chain[i].last, cores, optimize, rows, want);
  }
}

static void each_allocation_fails_once(void **state) {
  (void)state;
  each_fails_once(1);
}

static void each_allocation_for_two_cores_fails_once(void **state) {
  (void)state;
  each_fails_once(2);
}

static void those_of_policies_and_advice_fail_once(void **state) {
  (void)state;
  /* A timed machine's memories are megabytes: what is freed stays, so that its pages do. */
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  each_chain_fails(1, 2, 0, full_or(1, 5));
  each_chain_fails(2, 2, 0, full_or(1, 23));
  each_chain_fails(1, 1, 1, full_or(1, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_allocation_fails_once),
      cmocka_unit_test(each_allocation_for_two_cores_fails_once),
      cmocka_unit_test(those_of_policies_and_advice_fail_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
