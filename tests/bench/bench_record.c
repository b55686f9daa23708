/* What recording costs a run of ten million data-path instructions: nothing kept, a ring of the
 * last million events, the same for one engine alone, the first million. Prints host time of each
 * and its ratio to the run that records nothing, and the bytes kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vm/api/soma.h"

enum { REPEATS = 2 };

/* Five million instructions on each of two engines. */
static const char program[] =
    "target trn2\nx tile sbuf float32[128, 1]\ny tile sbuf float32[128, 1]\n"
    "z tile sbuf float32[128, 1]\nw tile sbuf float32[128, 1]\n"
    "section vector\n.l: tensor_tensor x, x, y, op=add\n add r0, r0, 1\n blt r0, 5000000, .l\n"
    " halt\nsection gpsimd\n.l: tensor_tensor z, z, w, op=add\n add r0, r0, 1\n"
    " blt r0, 5000000, .l\n halt\n";

typedef struct meter { /* of what the recorder has allocated */
  size_t now, most;
} meter;

static void *metered(void *ud, void *p, size_t old, size_t n) {
  meter *m = ud;
  m->now += n - (p ? old : 0);
  m->most = m->now > m->most ? m->now : m->most;
  if (n) return realloc(p, n);
  free(p);
  return NULL;
}

static double run_once(const soma_recorder_options *how, meter *m) {
  soma_machine *machine = NULL;
  soma_program *p = NULL;
  soma_run *r = NULL;
  soma_recorder *rec = NULL;
  soma_options o = SOMA_OPTIONS_INIT;
  soma_stats s;
  o.threads = 1;
  o.timing_only = 1; /* the least that an instruction costs, so that recording weighs most */
  if (how) {
    soma_recorder_options own = *how;
    own.alloc = metered;
    own.alloc_ud = m;
    if (soma_recorder_new(&own, &rec) != SOMA_OK) exit(1);
    o.event = soma_recorder_event;
    o.event_ud = rec;
  }
  if (soma_machine_new(&o, &machine) != SOMA_OK ||
      soma_assemble(machine, program, strlen(program), "bench.s", NULL, &p, NULL) != SOMA_OK ||
      soma_run_start(machine, p, &r) != SOMA_OK ||
      soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) {
    fprintf(stderr, "%s\n", machine ? soma_error(machine) : "no machine");
    exit(1);
  }
  soma_run_stats(r, &s, sizeof s);
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(machine);
  soma_recorder_free(rec);
  return s.host_seconds;
}

int main(void) {
  const soma_recorder_options all = SOMA_RECORDER_OPTIONS_INIT;
  soma_recorder_options ring = all, one = all, first = all;
  ring.max_events = one.max_events = first.max_events = 1000000;
  ring.keep_last = one.keep_last = 1;
  one.engines = 1u << SOMA_VECTOR;
  const struct {
    const char *name;
    const soma_recorder_options *how;
  } cases[] = {{"nothing recorded", NULL},
               {"ring of the last 10^6 events", &ring},
               {"the same, one engine", &one},
               {"the first 10^6 events", &first}};
  enum { CASES = sizeof cases / sizeof *cases };
  double best[CASES] = {0};
  meter meters[CASES] = {{0}};
  for (int i = 0; i < REPEATS; i++) /* in turn, so that a busy host meets all of them */
    for (int k = 0; k < CASES; k++) {
      double t = run_once(cases[k].how, &meters[k]);
      best[k] = i == 0 || t < best[k] ? t : best[k];
    }
  printf("%-40s %12s %12s %12s\n", "10^7 data-path instructions", "seconds", "ratio", "MB kept");
  for (int k = 0; k < CASES; k++)
    printf("%-40s %12.3f %12.2f %12.1f\n", cases[k].name, best[k], best[k] / best[0],
           (double)meters[k].most / 1e6);
  return 0;
}
