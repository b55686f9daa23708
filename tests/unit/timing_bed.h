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

#define TILES \
  "x tile sbuf float32[128, 512]\ny tile sbuf float32[128, 512]\nz tile sbuf float32[128, 512]\n"

static const char pipeline[] =
    "a tensor float32[512, 256], input\nc tensor float32[512, 256], output\n"
    "%assign i 0\n%rep 2\nta%+i tile sbuf float32[128, 256]\ntc%+i tile sbuf float32[128, 256]\n"
    "in%+i sem\nmid%+i sem\nout%+i sem\n%assign i i + 1\n%endrep\n"
    "q queue dge=swdge\nsection gpsimd\n mov r1, 0\n mov r2, 0\n.l:\n%assign i 0\n%rep 2\n"
    " dma_copy ta%+i, a[r1:+128, :], queue=q $mid%+i>=r2 $in%+i\n add r1, r1, 128\n"
    "%assign i i + 1\n%endrep\n add r2, r2, 1\n sub r3, r1, 256\n%assign i 0\n%rep 2\n"
    " dma_copy c[r3:+128, :], tc%+i, queue=q $mid%+i>=r2 $out%+i\n add r3, r3, 128\n"
    "%assign i i + 1\n%endrep\n blt r1, 512, .l\n halt\n"
    "section vector\n mov r1, 16\n mov r2, 0\n.l:\n%assign i 0\n%rep 2\n nop $out%+i>=r2\n"
    " tensor_scalar tc%+i, ta%+i, op0=mult, imm0=2.0 $in%+i>=r1\n"
    " tensor_tensor tc%+i, tc%+i, ta%+i, op=add $mid%+i++\n"
    "%assign i i + 1\n%endrep\n add r1, r1, 16\n add r2, r2, 16\n blt r1, 48, .l\n halt\n";

#endif
