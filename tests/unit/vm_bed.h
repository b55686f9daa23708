/* A machine and a program from text, for tests that look at a run from outside. */
#ifndef TESTS_VM_BED_H
#define TESTS_VM_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../vm/api/soma.h"

typedef struct bed {
  soma_machine *m;
  soma_program *p;
  soma_run *r;
} bed;

/* Assembles text for machine m; the test fails on an error. */
static inline bed bed_on(soma_machine *m, const char *text) {
  bed b = {.m = m};
  soma_diagnostics *d = NULL;
  if (soma_assemble(b.m, text, strlen(text), "test.s", NULL, &b.p, &d) != SOMA_OK)
    fail_msg("%s%s", soma_error(b.m), soma_diagnostics_text(d));
  soma_diagnostics_free(d);
  return b;
}

/* The same for a new machine with options o (NULL: the default). */
static inline bed bed_open(const soma_options *o, const char *text) {
  soma_machine *m;
  assert_int_equal(soma_machine_new(o, &m), SOMA_OK);
  return bed_on(m, text);
}

static inline void bed_close(bed *b) {
  soma_run_free(b->r);
  soma_program_free(b->p);
  soma_machine_free(b->m);
}

/* Binds a dense input. */
static inline void bed_bind(bed *b, const char *name, soma_dtype t, int64_t rows, int64_t cols,
                            const void *data) {
  int64_t shape[2] = {rows, cols};
  if (soma_bind(b->m, b->p, name, t, 2, shape, data) != SOMA_OK) fail_msg("%s", soma_error(b->m));
}

static inline void bed_start(bed *b) {
  if (soma_run_start(b->m, b->p, &b->r) != SOMA_OK) fail_msg("%s", soma_error(b->m));
}

/* Runs to the end and expects status s. */
static inline void bed_run(bed *b, soma_status s) {
  bed_start(b);
  soma_status got = soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0);
  if (got != s)
    fail_msg("%s, expected %s: %s", soma_status_text(got), soma_status_text(s), soma_error(b->m));
}

static inline uint32_t bed_reg(bed *b, soma_engine e, uint32_t r) {
  uint32_t v;
  assert_int_equal(soma_register_get(b->m, e, r, &v), SOMA_OK);
  return v;
}

static inline uint32_t bed_sem(bed *b, const char *name) {
  uint32_t v;
  int id = soma_program_semaphore(b->p, name);
  assert_true(id >= 0);
  assert_int_equal(soma_semaphore_get(b->m, (uint32_t)id, &v), SOMA_OK);
  return v;
}

static inline soma_stats bed_stats(const bed *b) {
  soma_stats s;
  soma_run_stats(b->r, &s, sizeof s);
  return s;
}

static inline void bed_fault_has(bed *b, const char *part) {
  soma_fault f;
  soma_run_fault(b->r, &f);
  if (!strstr(f.text, part)) fail_msg("the fault says \"%s\", not \"%s\"", f.text, part);
}

/* n elements of esize bytes of a tile from a partition and column of it on. */
static inline void tile_read(bed *b, const char *name, uint32_t p, uint32_t col, size_t esize,
                             void *to, size_t n) {
  soma_tile_info t;
  for (uint32_t i = 0; i < soma_program_tiles(b->p); i++) {
    assert_int_equal(soma_program_tile(b->p, i, &t), SOMA_OK);
    if (strcmp(t.name, name) == 0) {
      assert_int_equal(
          soma_memory_read(b->m, SOMA_SBUF, t.partition + p, t.offset + col * esize, to, n * esize),
          SOMA_OK);
      return;
    }
  }
  fail_msg("no tile %s", name);
}

#endif
