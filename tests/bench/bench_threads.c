/* Several threads of the host beside one: the same program in machines with threads = 1, 2 and,
 * where there are as many cores, 4, run in turn in one process by the wall clock; medians of the
 * ratios of a round. Then two beside one once more while every core but one is kept busy by another
 * thread, where more threads cannot help and should not hurt. Then the time of four kernels by size
 * and by threads, the least of a few runs. Prints tables, then the same as one line of JSON.
 * Results must be the same bytes. Run it on a host that has nothing else to do, in the folder that
 * holds samples/.
 *
 *   bench_threads [curves | PATTERN]     only the last part, or the rows whose names contain it */
#define _GNU_SOURCE /* sched_getaffinity */
#include "../../vm/api/soma.h"

#include "programs.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { ROUNDS = 9, MACHINES = 3, HOGS = 64, SIZES = 4, RUNS = 5 };
static const unsigned threads[MACHINES] = {1, 2, 4};

/* The size of a curve's work: what its macros are, each made from its form and the size. */
static const struct curve {
  const char *kernel, *file, *forms[3];
  unsigned sizes[SIZES];
} curves[] = {
    {"matmul", "samples/matmul.s", {"M=%u", "N=%u", "K=%u"}, {512, 1024, 1536, 2048}},
    {"softmax", "samples/softmax.s", {"ROWS=%u", "COLS=2048"}, {512, 1024, 2048, 4096}},
    {"attention", "samples/attention.s", {"SQ=%u", "S=2048"}, {256, 512, 1024, 2048}},
    {"layernorm", "tests/bench/kernels/layernorm.s", {"ROWS=%u"}, {512, 1024, 2048, 4096}},
};

typedef struct side {
  soma_machine *m;
  soma_program *p;
  uint64_t hash; /* of its last result */
} side;

static void fail(const program *w, const side *s) {
  fprintf(stderr, "%s: %s\n", w->name, s->m ? soma_error(s->m) : "no machine");
  exit(1);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void open_side(const program *w, side *s, unsigned n) {
  char *text = program_text(w);
  soma_assemble_options ao = {.size = sizeof ao, .defines = w->defines, .ndefines = 3};
  soma_options o = SOMA_OPTIONS_INIT;
  o.threads = n;
  while (ao.ndefines && !w->defines[ao.ndefines - 1]) ao.ndefines--;
  if (!text) {
    fprintf(stderr, "%s cannot be read\n", w->file);
    exit(1);
  }
  if (soma_machine_new(&o, &s->m) != SOMA_OK ||
      soma_assemble(s->m, text, strlen(text), w->file, &ao, &s->p, NULL) != SOMA_OK)
    fail(w, s);
  free(text);
}

/* Numbers from -2 to 2, the same each time. */
static void *made(const soma_tensor_info *t, uint32_t seed) {
  size_t each = soma_dtype_size(t->dtype);
  uint8_t *data = malloc(t->bytes);
  for (uint64_t k = 0; data && k < t->bytes; k += each) {
    seed = seed * 1664525 + 1013904223;
    float v = (float)(seed >> 20) / 1024 - 2;
    memcpy(data + k, (uint8_t *)&v + (each == 2 ? 2 : 0), each);
  }
  return data;
}

/* Milliseconds of a run, after its start. */
static double run(const program *w, side *s) {
  soma_tensor_info t;
  soma_result *x;
  soma_run *r;
  const char *out = NULL;
  void *held[8];
  uint32_t n = 0;
  for (uint32_t i = 0; soma_program_tensor(s->p, i, &t) == SOMA_OK; i++) {
    if (t.role == SOMA_OUTPUT) out = t.name;
    if (t.role != SOMA_INPUT || n == 8) continue;
    held[n] = made(&t, i + 1);
    if (!held[n] || soma_bind(s->m, s->p, t.name, t.dtype, t.ndim, t.shape, held[n]) != SOMA_OK)
      fail(w, s);
    n++;
  }
  if (soma_run_start(s->m, s->p, &r) != SOMA_OK) fail(w, s);
  while (n) free(held[--n]);
  double start = now_ms();
  if (soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) fail(w, s);
  double took = now_ms() - start;
  if (soma_take(r, out, &x) != SOMA_OK) fail(w, s);
  s->hash = 14695981039346656037u;
  const uint8_t *got = soma_result_data(x);
  for (size_t i = 0; i < soma_result_size(x); i++) s->hash = (s->hash ^ got[i]) * 1099511628211u;
  soma_result_free(x);
  soma_run_free(r);
  return took;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(double *v) {
  qsort(v, ROUNDS, sizeof *v, ascending);
  return v[ROUNDS / 2];
}

static atomic_bool busy;
static void *keep_busy(void *arg) {
  (void)arg;
  while (atomic_load_explicit(&busy, memory_order_relaxed)) {
  }
  return NULL;
}

enum { MESSAGES = 100000 };
static _Alignas(128) atomic_int message;
static void *answer(void *arg) {
  for (int i = 0; i < MESSAGES; i++) {
    while (atomic_load(&message) != 2 * i + 1) {
    }
    atomic_store(&message, 2 * i + 2);
  }
  return arg;
}

/* Nanoseconds of a message to another thread and its answer: how far its core is from this one's.
 * About 80 within a processor's cache; virtual cores may be 400 apart, and are moved. */
static double round_trip_ns(void) {
  pthread_t other;
  atomic_store(&message, 0);
  if (pthread_create(&other, NULL, answer, NULL)) return 0;
  double start = now_ms();
  for (int i = 0; i < MESSAGES; i++) {
    atomic_store(&message, 2 * i + 1);
    while (atomic_load(&message) != 2 * i + 2) {
    }
  }
  double took = now_ms() - start;
  pthread_join(other, NULL);
  return took * 1e6 / MESSAGES;
}

static void check_same(const program *w, const side *s, unsigned i) {
  if (s[i].hash == s[0].hash) return;
  fprintf(stderr, "%s: %u threads give other results than one\n", w->name, threads[i]);
  exit(1);
}

/* Medians over the rounds: milliseconds of one thread, and one thread's time to that of each of the
 * first n sides. */
static double compare(const program *w, side *s, unsigned n, double *ratio) {
  double one[ROUNDS], r[MACHINES][ROUNDS];
  for (int k = -2; k < ROUNDS; k++) { /* the first two warm memory up */
    int at = k < 0 ? 0 : k;
    for (unsigned i = 0; i < n; i++) {
      double ms = run(w, &s[i]);
      if (i == 0) one[at] = ms;
      r[i][at] = one[at] / ms;
      check_same(w, s, i);
    }
  }
  for (unsigned i = 0; i < n; i++) ratio[i] = median(r[i]);
  return median(one);
}

static unsigned cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

/* The part of the JSON of one kernel at one size. */
static int time_point(const struct curve *k, unsigned size, unsigned n, char *json) {
  char text[3][24];
  program w = {.name = k->kernel, .file = k->file};
  side s[MACHINES] = {{0}};
  double best[MACHINES] = {0};
  int at = 0;
  for (unsigned i = 0; i < 3 && k->forms[i]; i++) {
    snprintf(text[i], sizeof text[i], k->forms[i], size);
    w.defines[i] = text[i];
  }
  for (unsigned i = 0; i < n; i++) open_side(&w, &s[i], threads[i]);
  for (int r = -1; r < RUNS; r++)
    for (unsigned i = 0; i < n; i++) {
      double ms = run(&w, &s[i]);
      if (r == 0 || (r > 0 && ms < best[i])) best[i] = ms;
      check_same(&w, s, i);
    }
  printf("%s, n = %-*u", k->kernel, 18 - (int)strlen(k->kernel), size);
  for (unsigned i = 0; i < n; i++) {
    printf(" %8.2f", best[i]);
    at += sprintf(json + at, "%s{\"kernel\": \"%s\", \"size\": %u, \"threads\": %u, \"ms\": %.4f}",
                  i ? ", " : "", k->kernel, size, threads[i], best[i]);
    soma_program_free(s[i].p);
    soma_machine_free(s[i].m);
  }
  printf("\n");
  return at;
}

static int time_curves(unsigned n, char *json) {
  int at = 0;
  printf("%-24s %8s %8s %8s\n", "kernel, least wall ms", "one", "two", n > 2 ? "four" : "");
  for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
    for (unsigned k = 0; k < SIZES; k++) {
      if (at) at += sprintf(json + at, ", ");
      at += time_point(&curves[i], curves[i].sizes[k], n, json + at);
    }
  return at;
}

/* The table of one thread beside several, and the part of the JSON. */
static int time_works(const char *pattern, unsigned there, unsigned n, char *json) {
  int at = 0;
  printf("%-32s %8s %15s %8s %8s %8s   (%u cores)\n", "kernel, wall ms", "one", "1 / 2 (goal)",
         "1 / 4", "busy 1/2", "apart, ns", there);
  for (size_t i = 0; i < PROGRAMS; i++) {
    const program *w = &programs[i];
    if (!strstr(w->name, pattern)) continue;
    side s[MACHINES] = {{0}};
    pthread_t hog[HOGS];
    double idle[MACHINES] = {0}, taken[MACHINES];
    unsigned hogs = there - 1 < HOGS ? there - 1 : HOGS;
    for (unsigned k = 0; k < n; k++) open_side(w, &s[k], threads[k]);
    double one = compare(w, s, n, idle), apart = there > 1 ? round_trip_ns() : 0;
    busy = true;
    for (unsigned k = 0; k < hogs; k++)
      if (pthread_create(&hog[k], NULL, keep_busy, NULL)) hogs = k;
    compare(w, s, 2, taken);
    busy = false;
    while (hogs) pthread_join(hog[--hogs], NULL);
    printf("%-32s %8.2f %8.2f (%.2f) %8.2f %8.2f %8.0f\n", w->name, one, idle[1], w->two, idle[2],
           taken[1], apart);
    at += sprintf(json + at,
                  "%s{\"work\": \"%s\", \"one_ms\": %.3f, \"two\": %.3f, \"two_goal\": %g, "
                  "\"four\": %.3f, \"two_busy\": %.3f, \"apart_ns\": %.0f}",
                  at ? ", " : "", w->name, one, idle[1], w->two, idle[2], taken[1], apart);
    for (unsigned k = 0; k < n; k++) {
      soma_program_free(s[k].p);
      soma_machine_free(s[k].m);
    }
  }
  return at;
}

int main(int argc, char **argv) {
  static char json[1 << 14];
  unsigned there = cores(), n = there >= 4 ? 3 : 2;
  int at = sprintf(json, "{\"threads\": [");
  bool all = argc < 2, only_curves = !all && strcmp(argv[1], "curves") == 0;
  if (!only_curves) at += time_works(all ? "" : argv[1], there, n, json + at);
  at += sprintf(json + at, "], \"curves\": [");
  if (all || only_curves) at += time_curves(n, json + at);
  printf("%s], \"cores\": %u}\n", json, there);
  return 0;
}
