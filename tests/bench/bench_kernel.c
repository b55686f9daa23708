/* The builder: from records to a program. A blocked matmul with its loads, copies and stores, cut
 * so that it has about as many instructions as asked for; the time of the host, also over that of
 * assembling the same program from its text, and the most memory that was taken, as the allocator
 * sees it. */
#include "../../vm/api/soma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t live, most;

static void *counting(void *ud, void *p, size_t old, size_t n) {
  (void)ud;
  if (!p) old = 0;
  if (n == 0) {
    free(p);
    live -= old;
    return NULL;
  }
  void *q = realloc(p, n);
  if (q) live = live - old + n;
  if (live > most) most = live;
  return q;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct list {
  int64_t *w;
  size_t n, cap, at;
} list;

static void word(list *l, int64_t v) {
  if (l->n == l->cap) {
    l->cap = l->cap ? 2 * l->cap : 1 << 16;
    l->w = realloc(l->w, l->cap * sizeof *l->w);
    if (!l->w) exit(1);
  }
  l->w[l->n++] = v;
}

static void begin(list *l, const char *op, uint32_t flags, uint32_t line) {
  l->at = l->n;
  word(l, 0);
  word(l, soma_opcode(op));
  word(l, -1);
  word(l, flags);
  word(l, 1);
  word(l, line);
}

static void end(list *l) { l->w[l->at] = (int64_t)(l->n - l->at); }

static void ap(list *l, uint32_t buffer, int64_t cols) {
  int64_t w[] = {8, buffer, SOMA_BFLOAT16, 0, 128, 0, 1, 1, cols};
  for (size_t i = 0; i < sizeof w / sizeof *w; i++) word(l, w[i]);
}

static void hbm(list *l, uint32_t buffer, int64_t offset, int64_t width, int64_t cols) {
  int64_t w[] = {10, buffer, SOMA_BFLOAT16, 0, 0, offset * 2, 2, width, 128, 1, cols};
  for (size_t i = 0; i < sizeof w / sizeof *w; i++) word(l, w[i]);
}

static void zeros(list *l, int n) {
  while (n-- > 0) word(l, 0);
}

static uint32_t tile(soma_kernel *k, soma_memory m, soma_dtype t, uint32_t cols) {
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  uint32_t id = 0;
  i.name = "t";
  i.memory = m;
  i.dtype = t;
  i.shape[0] = 128;
  i.shape[1] = cols;
  i.file = i.line = 1;
  if (soma_kernel_tile(k, &i, &id) != SOMA_OK) exit(1);
  return id;
}

enum { WIDTH = 8192 };
static double first_each; /* seconds for an instruction of the smallest kernel */

static void load(list *l, uint32_t t, uint32_t x, int64_t offset, int64_t cols) {
  begin(l, "dma_copy", 0, 2);
  ap(l, t, cols);
  hbm(l, x, offset, WIDTH, cols);
  word(l, -1);
  zeros(l, 3);
  end(l);
}

static void store(list *l, uint32_t y, uint32_t t, int64_t offset, int64_t cols) {
  begin(l, "dma_copy", 0, 3);
  hbm(l, y, offset, WIDTH, cols);
  ap(l, t, cols);
  word(l, -1);
  zeros(l, 3);
  end(l);
}

/* 39 instructions: eight pairs of loads, weights and matmuls, a copy, a store, and the rest. */
static void block(soma_kernel *k, list *l, const uint32_t x[3], int64_t i) {
  uint32_t sum = tile(k, SOMA_PSUM, SOMA_FLOAT32, 512),
           out = tile(k, SOMA_SBUF, SOMA_BFLOAT16, 512);
  int64_t row = i % 60 * 128 * WIDTH, col = i / 60 % 15 * 512;
  for (int64_t s = 0; s < 8; s++) {
    uint32_t w = tile(k, SOMA_SBUF, SOMA_BFLOAT16, 128), v = tile(k, SOMA_SBUF, SOMA_BFLOAT16, 512);
    load(l, w, x[0], row + 128 * s, 128);
    load(l, v, x[1], row + col, 512);
    begin(l, "ldweights", 0, 4);
    ap(l, w, 128);
    zeros(l, 7);
    end(l);
    begin(l, "matmul", SOMA_RECORD_ACCUMULATE, 5);
    word(l, 8);
    word(l, sum);
    word(l, SOMA_FLOAT32);
    word(l, 0);
    word(l, 128);
    word(l, 0);
    word(l, 1);
    word(l, 1);
    word(l, 512);
    ap(l, v, 512);
    zeros(l, 9);
    end(l);
  }
  begin(l, "tensor_copy", 0, 6);
  ap(l, out, 512);
  word(l, 8);
  word(l, sum);
  word(l, SOMA_FLOAT32);
  word(l, 0);
  word(l, 128);
  word(l, 0);
  word(l, 1);
  word(l, 1);
  word(l, 512);
  word(l, 0);
  end(l);
  store(l, x[2], out, row + col, 512);
}

/* Seconds to assemble the program from its text. */
static double assembled(soma_machine *m, soma_program *p) {
  char *text = NULL;
  size_t n;
  soma_program *again = NULL;
  if (soma_program_print(m, p, &text, &n) != SOMA_OK) exit(1);
  double t0 = now();
  if (soma_assemble(m, text, n, "bench.s", NULL, &again, NULL) != SOMA_OK) {
    fprintf(stderr, "%s\n", soma_error(m));
    exit(1);
  }
  double t1 = now();
  soma_program_free(again);
  soma_bytes_free(text);
  return t1 - t0;
}

typedef struct outcome {
  double emit, finish; /* seconds */
  size_t taken;        /* bytes */
  soma_kernel_figures f;
} outcome;

/* Builds a kernel once; *p is the caller's. */
static int build(soma_machine *m, int64_t instructions, outcome *out, soma_program **p) {
  soma_kernel *k = NULL;
  int64_t shape[2] = {WIDTH, WIDTH};
  uint32_t x[3], file;
  list l = {0};
  if (soma_kernel_new(m, NULL, &k) != SOMA_OK) return 1;
  soma_kernel_file(k, "bench.py", &file);
  soma_kernel_tensor(k, "a", SOMA_BFLOAT16, 2, shape, SOMA_INPUT, &x[0]);
  soma_kernel_tensor(k, "b", SOMA_BFLOAT16, 2, shape, SOMA_INPUT, &x[1]);
  soma_kernel_tensor(k, "c", SOMA_BFLOAT16, 2, shape, SOMA_OUTPUT, &x[2]);
  size_t before = live;
  most = live;
  for (int64_t i = 0; i < instructions / 34; i++) block(k, &l, x, i);
  double t0 = now();
  soma_status s = soma_kernel_emit(k, l.w, l.n, NULL);
  double t1 = now();
  if (s == SOMA_OK) s = soma_kernel_finish(k, p, NULL);
  double t2 = now();
  if (s != SOMA_OK) fprintf(stderr, "%s\n", soma_kernel_error(k));
  *out = (outcome){.emit = t1 - t0, .finish = t2 - t1, .taken = most - before};
  soma_kernel_get_figures(k, &out->f, sizeof out->f);
  soma_kernel_free(k);
  free(l.w);
  return s != SOMA_OK;
}

/* The fastest of some runs. */
static int measure(int64_t instructions) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m = NULL;
  outcome best = {0}, last;
  int runs = instructions < 1000000 ? 5 : 1;
  double text = 0;
  o.target = "trn2";
  o.alloc = counting;
  o.threads = 1;
  if (soma_machine_new(&o, &m) != SOMA_OK) return 1;
  for (int i = 0; i < runs; i++) {
    soma_program *p = NULL;
    if (build(m, instructions, &last, &p)) return 1;
    if (i == 0 || last.emit + last.finish < best.emit + best.finish) best = last;
    if (i == 0 && runs > 1) text = assembled(m, p);
    soma_program_free(p);
  }
  double n = (double)best.f.instructions, each = (best.emit + best.finish) / n;
  if (first_each == 0) first_each = each;
  printf("%7.0f instructions: %.3f s (emit %.3f, finish %.3f), %.0f ns each (%.2f of the first), "
         "%.0f MB, %.2f waits each",
         n, each * n, best.emit, best.finish, each * 1e9, each / first_each,
         (double)best.taken * 1e-6, (double)best.f.waits / n);
  if (text > 0) printf("; its text is assembled in %.1f times that", text / (each * n));
  printf("\n");
  soma_machine_free(m);
  return 0;
}

int main(void) { return measure(10000) || measure(100000) || measure(1000000); }
