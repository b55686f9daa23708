/* An instruction built by hand in a program of its own, for tests of the verifier. */
#ifndef TESTS_INSN_BED_H
#define TESTS_INSN_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../isa/verify/rules.h"

typedef struct fx {
  isa_program *p;
  isa_insn in;
  unsigned engine;
} fx;

/* n elements in a row of each of nparts partitions. */
static inline isa_ap line(unsigned space, unsigned dtype, unsigned part, unsigned nparts,
                          int64_t offset, uint32_t n) {
  isa_ap a = {.dtype = (uint8_t)dtype,
              .space = (uint8_t)space,
              .ndim = 1,
              .offset = offset,
              .part = (uint16_t)part,
              .nparts = (uint16_t)nparts};
  a.dim[0] = (isa_dim){1, n};
  return a;
}

static inline uint32_t add(fx *x, isa_ap a) {
  uint32_t i = isa_program_ap(x->p, 0, &a);
  assert_int_not_equal(i, 0);
  return i;
}

static inline uint32_t sb(fx *x, unsigned dtype, unsigned part, unsigned n, int64_t offset,
                          uint32_t e) {
  return add(x, line(ISA_SBUF, dtype, part, n, offset, e));
}

static inline uint32_t ps(fx *x, unsigned dtype, unsigned part, unsigned n, int64_t offset,
                          uint32_t e) {
  return add(x, line(ISA_PSUM, dtype, part, n, offset, e));
}

/* Begins another instruction, all fields zero. */
static inline void use(fx *x, unsigned op, unsigned engine) {
  memset(&x->in, 0, sizeof x->in);
  x->in.op = (uint16_t)op;
  x->engine = engine;
}

/* A case of a table: what is to be refused, at which operand and with which text, by the target. */
typedef struct bad_case {
  const char *name;
  int target, field;
  const char *text;
  void (*make)(fx *x);
} bad_case;

/* Whether the verifier refuses x, which case b has made, as it shall; frees x. */
static inline bool refused_so(fx *x, const bad_case *b) {
  isa_error e = {0};
  bool ok = isa_check_insn(x->p, 0, x->engine, &x->in, 10, &e);
  bool so = !ok && e.status == ISA_ILLEGAL && e.field == b->field && strcmp(e.text, b->text) == 0;
  if (!so)
    print_error("%s: %s, status %d, field %d\n  got  %s\n  want %s (field %d)\n", b->name,
                ok ? "accepted" : "refused", e.status, e.field, e.text, b->text, b->field);
  /* the verdict is the same for who wants no text */
  if (!ok && isa_check_insn(x->p, 0, x->engine, &x->in, 10, NULL)) so = false;
  isa_program_free(x->p);
  return so;
}

typedef struct good_case {
  const char *name;
  int target;
  void (*make)(fx *x);
} good_case;

static inline bool accepted_so(fx *x, const good_case *g) {
  isa_error e = {0};
  bool ok = isa_check_insn(x->p, 0, x->engine, &x->in, 10, &e);
  if (!ok) print_error("%s: refused, field %d: %s\n", g->name, e.field, e.text);
  isa_program_free(x->p);
  return ok;
}

#endif
