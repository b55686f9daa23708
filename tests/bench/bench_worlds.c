/* Memory of worlds of ranks, timing only, without tensors: of a rank when the world has started and
 * when it has ended, and what of it a rank touches in 1 us and in 20 us of simulated time, after
 * 20 us. Counted in pages of 4 KiB (Linux): huge ones are turned off. Then the processor time of a
 * program alone beside that of a world of one rank. Prints tables. Run it in the folder that holds
 * samples/. */
#define _GNU_SOURCE
#include "../../vm/api/soma_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { RUNS = 7 };
#define US(n) ((soma_time)(n) * 1000000000) /* in fs */

static void need(soma_status s, const char *what) {
  if (s == SOMA_OK) return;
  fprintf(stderr, "%s: %s\n", what, soma_status_text(s));
  exit(1);
}

/* KiB of this process: a row of a file in /proc/self. */
static double kib(const char *file, const char *row) {
  char line[256];
  double n = 0;
  FILE *f = fopen(file, "r");
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (strncmp(line, row, strlen(row)) == 0) n = strtod(line + strlen(row), NULL);
  fclose(f);
  return n;
}

static soma_world *world_of(uint32_t ranks, soma_program **p) {
  const char *const rows[] = {"ROWS=4096"};
  soma_options mo = SOMA_OPTIONS_INIT;
  soma_world *w;
  mo.timing_only = 1;
  mo.threads = 1;
  mo.target = "trn2";
  soma_world_options o = {.size = sizeof o, .ranks = ranks, .machine = &mo, .threads = 1};
  need(soma_world_new(&o, &w), "a world");
  soma_assemble_options ao = {.size = sizeof ao, .defines = rows, .ndefines = 1};
  need(soma_assemble_file(soma_world_machine(w, 0), "samples/softmax.s", &ao, p, NULL), "softmax");
  return w;
}

static void start(soma_world *w, soma_program *p) {
  for (uint32_t r = 0; r < soma_world_ranks(w); r++) need(soma_world_load(w, r, p), "load");
  need(soma_world_start(w), "start");
}

/* KiB that are touched while the world goes on to a time. */
static double touched(soma_world *w, soma_time to) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (f) {
    fputs("1", f);
    fclose(f);
  }
  double before = kib("/proc/self/smaps_rollup", "Referenced:");
  need(soma_world_until(w, to), "until");
  return kib("/proc/self/smaps_rollup", "Referenced:") - before;
}

static void memory_of(uint32_t ranks) {
  soma_program *p;
  double before = kib("/proc/self/status", "VmRSS:"), n = ranks;
  soma_world *w = world_of(ranks, &p);
  start(w, p);
  double started = kib("/proc/self/status", "VmRSS:");
  need(soma_world_until(w, US(20)), "until");
  touched(w, US(21)); /* what the first of these reads is new to the caches too */
  double one = touched(w, US(22)), twenty = touched(w, US(42));
  need(soma_world_until(w, SOMA_TIME_END), "until");
  double ended = kib("/proc/self/status", "VmRSS:");
  printf("  %4u ranks %11.0f %9.0f %14.0f %9.0f\n", ranks, (started - before) / n,
         (ended - before) / n, one / n, twenty / n);
  soma_program_free(p);
  soma_world_free(w);
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double least(double a, double b) { return a < b ? a : b; }

/* A program alone, and in a world of one rank, in turn. */
static void alone(void) {
  soma_program *p;
  double run = 1e9, world = 1e9;
  soma_world *w = world_of(1, &p);
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m;
  o.timing_only = 1;
  o.threads = 1;
  need(soma_machine_new(&o, &m), "a machine");
  for (int i = 0; i < RUNS; i++) {
    double from = cpu();
    soma_run *r;
    need(soma_run_start(m, p, &r), "start");
    need(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), "run");
    soma_run_free(r);
    run = least(run, cpu() - from);
    from = cpu();
    start(w, p);
    need(soma_world_until(w, SOMA_TIME_END), "until");
    world = least(world, cpu() - from);
  }
  printf("softmax 4096 x 2048, timing only: %.2f ms alone, a world of one rank %.2f times that\n",
         run * 1e3, world / run);
  soma_program_free(p);
  soma_machine_free(m);
  soma_world_free(w);
}

int main(void) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  puts("KiB of a rank       started     ended   touched in 1 us   20 us   (goal: at most 1536)");
  memory_of(16);
  memory_of(64);
  memory_of(256);
  alone();
  return 0;
}
