/* A run and all of its events, and what tests of the clock ask of them. */
#ifndef TESTS_TIMING_BED_H
#define TESTS_TIMING_BED_H

#include "vm_bed.h"

#include <math.h>

enum { MOST = 4096 };

typedef struct spans { /* every event of a run */
  soma_event v[MOST];
  unsigned n;
} spans;

static inline void keep(void *ud, const soma_event *e) {
  spans *s = ud;
  assert_true(s->n < MOST);
  s->v[s->n++] = *e;
}

static inline double ns(soma_time t) { return (double)t * 1e-6; }

/* Instruction i of an engine, in order of completion. */
static inline const soma_event *insn(const spans *s, soma_engine e, unsigned i) {
  for (unsigned k = 0; k < s->n; k++)
    if (s->v[k].kind == SOMA_EV_INSN && s->v[k].engine == (unsigned)e && i-- == 0) return &s->v[k];
  fail_msg("engine %d has no such instruction", (int)e);
  return NULL;
}
static inline double start_of(const spans *s, soma_engine e, unsigned i) {
  return ns(insn(s, e, i)->start);
}
static inline double end_of(const spans *s, soma_engine e, unsigned i) {
  return ns(insn(s, e, i)->end);
}

/* Runs text and keeps its events. */
static inline bed run(spans *s, soma_options *o, const char *text) {
  soma_options none = SOMA_OPTIONS_INIT;
  o = o ? o : &none;
  s->n = 0;
  o->event = keep;
  o->event_ud = s;
  bed b = bed_open(o, text);
  bed_run(&b, SOMA_OK);
  return b;
}

static inline void near(double got, double want, const char *what) {
  if (fabs(got - want) > 0.02) fail_msg("%s: %.3f ns, expected %.3f", what, got, want);
}

#endif
