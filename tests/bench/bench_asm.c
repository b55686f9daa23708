/* Speed and memory of the assembler at 10^4, 10^5 and 10^6 lines. Fails when a line of the largest
 * source costs several times one of the smallest (something is quadratic), or when an instruction
 * needs 400 bytes or more. Times are printed beside what they should be: 1.5 s for a million plain
 * lines, 2.5 s for ten thousand macro calls that expand to a million. */
#define _POSIX_C_SOURCE 200809L
#include "../../asm/asm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALLEST = 10000, LARGEST = 1000000, MOST_BYTES = 400, MOST_RATIO = 6 };

typedef struct counter {
  size_t now, most;
} counter;

static void *count_alloc(void *ud, void *p, size_t old, size_t n) {
  counter *c = ud;
  isa_alloc al = isa_alloc_default();
  void *q = al.fn(al.ud, p, old, n);
  if (q || n == 0) c->now = c->now - (p ? old : 0) + n;
  if (c->now > c->most) c->most = c->now;
  return q;
}

/* A library of 100 lines, included again and again. */
static bool read_include(void *ud, const char *path, isa_buf *out) {
  (void)ud;
  (void)path;
  for (int i = 0; i < 100; i++) isa_buf_puts(out, "        add     r1, r1, 1\n");
  return true;
}

static void head(isa_buf *b) {
  isa_buf_puts(b, "a tile sbuf float32[128, 64]\nb tile sbuf float32[128, 64]\nsection vector\n");
}

static void plain(isa_buf *b, unsigned n) {
  head(b);
  for (unsigned i = 0; i < n; i += 4)
    isa_buf_puts(b, "        add     r1, r1, 1\n"
                    "        tensor_tensor a, a, b, op=add\n"
                    "        mov     r2, 5\n"
                    "        tensor_scalar b[:, 0:32], a[:, 32:64], op0=mult, imm0=2.5\n");
}

static void labels(isa_buf *b, unsigned n) {
  head(b);
  for (unsigned i = 0; i < n; i++) isa_buf_printf(b, "l%u:    add     r1, r1, %u\n", i, i % 100);
}

/* Every line branches to a label somewhere. */
static void branches(isa_buf *b, unsigned n) {
  head(b);
  for (unsigned i = 0; i < n; i++)
    isa_buf_printf(b, "l%u:    blt     r1, 5, l%llu\n", i, (unsigned long long)i * 7919 % n);
}

static void macros(isa_buf *b, unsigned n) {
  head(b);
  isa_buf_puts(b, "%macro m 2\n");
  for (int i = 0; i < 100; i++) isa_buf_puts(b, "        add     %1, %1, %2\n");
  isa_buf_puts(b, "%endmacro\n");
  for (unsigned i = 0; i < n / 100; i++) isa_buf_puts(b, "        m       r1, 5\n");
}

static void includes(isa_buf *b, unsigned n) {
  head(b);
  for (unsigned i = 0; i < n / 100; i++) isa_buf_puts(b, "%include \"hundred.inc\"\n");
}

/* Half of the lines declare tiles. */
static void tiles(isa_buf *b, unsigned n) {
  for (unsigned i = 0; i < n / 2; i++)
    isa_buf_printf(b, "t%u tile sbuf float32[128, 1], overlay=g\n", i);
  isa_buf_puts(b, "section vector\n");
  for (unsigned i = 0; i < n / 2; i++) isa_buf_printf(b, "        memset  t%u, 0\n", i);
}

static const struct {
  const char *name;
  void (*make)(isa_buf *, unsigned);
  bool code;     /* every line is an instruction */
  double target; /* seconds for LARGEST, 0: none */
} kinds[] = {{"plain", plain, true, 1.5},     {"labels", labels, true, 1.5},
             {"branches", branches, true, 0}, {"macros", macros, true, 2.5},
             {"includes", includes, true, 0}, {"tiles", tiles, false, 0}};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of the better of two runs; bytes at most in use. */
static double measure(const isa_buf *text, size_t *bytes) {
  double best = 1e9;
  for (int run = 0; run < 2; run++) {
    counter c = {0, 0};
    isa_alloc al = {count_alloc, &c};
    as_options o = {.alloc = &al, .read = read_include};
    as_result r;
    double from = now();
    isa_status s = as_assemble(text->data, text->len, "bench.s", &o, &r);
    double t = now() - from;
    if (s != ISA_OK) {
      fprintf(stderr, "does not assemble: %s\n", r.ndiags ? r.diags[0].text : "?");
      exit(1);
    }
    isa_program_free(r.program);
    as_result_free(&r);
    if (t < best) best = t;
    *bytes = c.most;
  }
  return best;
}

int main(void) {
  bool ok = true;
  printf("%-10s %9s %9s %12s %12s\n", "source", "lines", "seconds", "ns/line", "bytes/line");
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    double first = 0, per_line = 0;
    for (unsigned n = SMALLEST; n <= LARGEST; n *= 10) {
      isa_alloc al = isa_alloc_default();
      isa_buf text;
      size_t bytes;
      isa_buf_init(&text, &al);
      kinds[k].make(&text, n);
      isa_buf_puts(&text, "        halt\n");
      double t = measure(&text, &bytes);
      isa_buf_free(&text);
      per_line = t / n;
      if (n == SMALLEST) first = per_line;
      printf("%-10s %9u %9.3f %12.0f %12.0f", kinds[k].name, n, t, per_line * 1e9,
             (double)bytes / n);
      if (n == LARGEST && kinds[k].target > 0) printf("   should be under %.1f s", kinds[k].target);
      printf("\n");
      if (n == LARGEST && kinds[k].code && bytes / n >= MOST_BYTES) ok = false;
    }
    if (per_line > first * MOST_RATIO) {
      printf("%s: a line of the largest source costs %.1f times one of the smallest\n",
             kinds[k].name, per_line / first);
      ok = false;
    }
  }
  return ok ? 0 : 1;
}
