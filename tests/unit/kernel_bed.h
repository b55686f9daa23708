/* A kernel, records made word by word, and a run of what it becomes. */
#ifndef TESTS_KERNEL_BED_H
#define TESTS_KERNEL_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../vm/api/soma.h"

typedef struct kbed {
  soma_machine *m;
  soma_kernel *k;
  soma_program *p;
  soma_run *r;
  int64_t w[4096]; /* the record that is being made */
  size_t n;
  uint32_t file, line;
} kbed;

static inline void kbed_open_at(kbed *b, const char *target, uint32_t flags, unsigned checks,
                                uint32_t optimize) {
  soma_options o = SOMA_OPTIONS_INIT;
  soma_kernel_options ko = SOMA_KERNEL_OPTIONS_INIT;
  memset(b, 0, sizeof *b);
  o.target = target;
  o.checks = checks;
  ko.flags = flags;
  ko.optimize = optimize;
  assert_int_equal(soma_machine_new(&o, &b->m), SOMA_OK);
  assert_int_equal(soma_kernel_new(b->m, &ko, &b->k), SOMA_OK);
  assert_int_equal(soma_kernel_file(b->k, "kernel.py", &b->file), SOMA_OK);
}

static inline void kbed_open(kbed *b, const char *target, uint32_t flags, unsigned checks) {
  kbed_open_at(b, target, flags, checks, 1);
}

static inline void kbed_close(kbed *b) {
  soma_run_free(b->r);
  soma_program_free(b->p);
  soma_kernel_free(b->k);
  soma_machine_free(b->m);
}

#define KBED_OK(b, call)                                              \
  do {                                                                \
    if ((call) != SOMA_OK) fail_msg("%s", soma_kernel_error((b)->k)); \
  } while (0)

static inline uint32_t kbed_tensor(kbed *b, const char *name, soma_dtype t, int64_t rows,
                                   int64_t cols, soma_role role) {
  int64_t shape[2] = {rows, cols};
  uint32_t id = 0;
  KBED_OK(b, soma_kernel_tensor(b->k, name, t, 2, shape, role, &id));
  return id;
}

static inline uint32_t kbed_tile(kbed *b, const char *name, soma_memory mem, soma_dtype t,
                                 uint32_t parts, uint32_t cols) {
  soma_kernel_tile_info i = SOMA_KERNEL_TILE_INIT;
  uint32_t id = 0;
  i.name = name;
  i.memory = mem;
  i.dtype = t;
  i.shape[0] = parts;
  i.shape[1] = cols;
  i.file = b->file;
  i.line = b->line;
  KBED_OK(b, soma_kernel_tile(b->k, &i, &id));
  return id;
}

/* ---- Records ------------------------------------------------------------------------------- */

static inline void kbed_word(kbed *b, int64_t v) { b->w[b->n++] = v; }

static inline void kbed_begin(kbed *b, const char *op, int engine, uint32_t flags) {
  int number = soma_opcode(op);
  assert_true(number >= 0);
  b->n = 0;
  b->line++;
  kbed_word(b, 0);
  kbed_word(b, number);
  kbed_word(b, engine);
  kbed_word(b, flags);
  kbed_word(b, b->file);
  kbed_word(b, b->line);
}

/* The first `cols` elements from column col of rows p .. p + parts - 1. */
static inline void kbed_ap(kbed *b, uint32_t buffer, soma_dtype t, unsigned p, unsigned parts,
                           int64_t col, int64_t cols) {
  kbed_word(b, 8);
  kbed_word(b, buffer);
  kbed_word(b, t);
  kbed_word(b, p);
  kbed_word(b, parts);
  kbed_word(b, col * (int64_t)soma_dtype_size(t));
  kbed_word(b, 1);
  kbed_word(b, 1);
  kbed_word(b, cols);
}

/* Rows row .. row + rows - 1 and columns col .. of a tensor of `width` columns. */
static inline void kbed_hbm(kbed *b, uint32_t buffer, soma_dtype t, int64_t width, int64_t row,
                            int64_t rows, int64_t col, int64_t cols) {
  kbed_word(b, 10);
  kbed_word(b, buffer);
  kbed_word(b, t);
  kbed_word(b, 0);
  kbed_word(b, 0);
  kbed_word(b, (row * width + col) * (int64_t)soma_dtype_size(t));
  kbed_word(b, 2);
  kbed_word(b, width);
  kbed_word(b, rows);
  kbed_word(b, 1);
  kbed_word(b, cols);
}

static inline void kbed_zeros(kbed *b, unsigned n) {
  while (n-- > 0) kbed_word(b, 0);
}

static inline soma_status kbed_try(kbed *b) {
  b->w[0] = (int64_t)b->n;
  return soma_kernel_emit(b->k, b->w, b->n, NULL);
}

static inline void kbed_end(kbed *b) { KBED_OK(b, kbed_try(b)); }

static inline int64_t kbed_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

enum { KBED_ADD = 2, KBED_MULT = 4 }; /* codes of op0 */

/* to = from op value, on the first partitions and columns of both */
static inline void kbed_scalar(kbed *b, int engine, uint32_t to, uint32_t from, unsigned parts,
                               int64_t cols, int64_t op, float value) {
  kbed_begin(b, "tensor_scalar", engine, 0);
  kbed_ap(b, to, SOMA_FLOAT32, 0, parts, 0, cols);
  kbed_ap(b, from, SOMA_FLOAT32, 0, parts, 0, cols);
  kbed_word(b, op);
  kbed_word(b, 1);
  kbed_word(b, kbed_bits(value));
  kbed_zeros(b, 5);
  kbed_end(b);
}

static inline void kbed_memset(kbed *b, int engine, uint32_t tile, int64_t cols, float value) {
  kbed_begin(b, "memset", engine, 0);
  kbed_ap(b, tile, SOMA_FLOAT32, 0, 128, 0, cols);
  kbed_word(b, 1);
  kbed_word(b, kbed_bits(value));
  kbed_end(b);
}

static inline void kbed_load(kbed *b, uint32_t tile, uint32_t tensor, soma_dtype t, int64_t width,
                             int64_t row, int64_t rows, int64_t col, int64_t cols) {
  kbed_begin(b, "dma_copy", -1, 0);
  kbed_ap(b, tile, t, 0, (unsigned)rows, 0, cols);
  kbed_hbm(b, tensor, t, width, row, rows, col, cols);
  kbed_word(b, -1);
  kbed_zeros(b, 3);
  kbed_end(b);
}

static inline void kbed_store(kbed *b, uint32_t tensor, uint32_t tile, soma_dtype t, int64_t width,
                              int64_t row, int64_t rows, int64_t col, int64_t cols) {
  kbed_begin(b, "dma_copy", -1, 0);
  kbed_hbm(b, tensor, t, width, row, rows, col, cols);
  kbed_ap(b, tile, t, 0, (unsigned)rows, 0, cols);
  kbed_word(b, -1);
  kbed_zeros(b, 3);
  kbed_end(b);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static inline void kbed_finish(kbed *b) { KBED_OK(b, soma_kernel_finish(b->k, &b->p, NULL)); }

static inline void kbed_bind(kbed *b, const char *name, soma_dtype t, int64_t rows, int64_t cols,
                             const void *data) {
  int64_t shape[2] = {rows, cols};
  if (soma_bind(b->m, b->p, name, t, 2, shape, data) != SOMA_OK) fail_msg("%s", soma_error(b->m));
}

static inline void kbed_print(kbed *b) {
  char *text = NULL;
  size_t n;
  if (soma_program_print(b->m, b->p, &text, &n) == SOMA_OK) fputs(text, stderr);
  soma_bytes_free(text);
}

/* Runs the program to its end; what a check finds fails the test. */
static inline void kbed_run(kbed *b) {
  soma_finding f;
  soma_fault fault;
  if (soma_run_start(b->m, b->p, &b->r) != SOMA_OK) {
    kbed_print(b);
    fail_msg("%s", soma_error(b->m));
  }
  soma_status s = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
  if (s == SOMA_OK) return;
  kbed_print(b);
  if (soma_run_finding(b->r, 0, &f) == SOMA_OK) fail_msg("%s", f.text);
  soma_run_fault(b->r, &fault);
  fail_msg("%s: %s: %s", soma_status_text(s), fault.instruction, fault.text);
}

enum {
  KBED_CHECKS = 1 << SOMA_CHECK_UNINIT | 1 << SOMA_CHECK_RACE | 1 << SOMA_CHECK_PSUM |
                1 << SOMA_CHECK_OVERLAP | 1 << SOMA_CHECK_PORT
};

#endif
