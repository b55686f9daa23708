/* The goals of speed: whole kernels and instructions beside the same in plain C, compiled for this
 * host, and beside NumPy with one call for each instruction. All sides in turn in one run,
 * processor time, medians of the rounds' ratios. Prints a table, then the same as one line of JSON.
 *
 *   bench_plain [PATTERN]     the rows whose names contain it; in the folder that holds samples/
 *
 * Checks that the results of kernels agree with plain C's. NumPy is left out where no python3 has
 * it. */
#include "../../vm/api/soma.h"

#include "plain_kernels.h"
#include "plain_ops.h"
#include "programs.h"

#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, INPUTS = 6 };
/* One instruction: written so often, and rounds of the loop, so many that the run's start and
 * its tiles' data count for nothing (130 us, an eighth of 200 instructions); and calls of NumPy,
 * which needs no start. */
enum { REPEAT = 8, LOOPS = 125, CALLS = 200 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

/* ---- Rows --------------------------------------------------------------------------------- */

typedef struct work {
  unsigned program;
  sizes s;
  bool bf16, blas; /* blas: multiplies matrices */
  plain_kernel *plain;
  const char *numpy;            /* its name there, of size s.m */
  double to_plain, numpy_to_us; /* goals */
} work;

#define CUBE(n) \
  { n, n, n }
static const work works[] = {
    {MATMUL_1024_FP32, CUBE(1024), false, true, plain_matmul, "matmul fp32", 1.15, 1.12},
    {MATMUL_1024_BF16, CUBE(1024), true, true, plain_matmul, "matmul bf16", 1.2, 1.3},
    {MATMUL_2048_FP32, CUBE(2048), false, true, plain_matmul, "matmul fp32", 1.15, 1.12},
    {MATMUL_2048_BF16, CUBE(2048), true, true, plain_matmul, "matmul bf16", 1.2, 1.3},
    {SOFTMAX, {4096, COLS, 0}, false, false, plain_softmax, "softmax", 1.35, 1.9},
    {ATTENTION, {2048, COLS, 0}, true, true, plain_attention, "attention", 1.25, 1.8},
    {LAYERNORM, {4096, 0, 0}, false, false, plain_layernorm, "layernorm", 1.3, 3},
    {MLP, {512, 2048, 0}, true, true, plain_mlp, "mlp", 1.3, 3},
    {SCAN, {1024, 0, 0}, false, false, plain_scan, "scan", 1.3, 3},
    {CONV, {128, 0, 0}, true, true, plain_conv, "conv", 1.3, 3},
    {TRANSPOSE, {2048, 0, 0}, true, false, plain_transpose, "transpose", 1.3, 3},
};

/* ---- NumPy -------------------------------------------------------------------------------- */

typedef struct peer {
  FILE *to, *from; /* NULL: NumPy is not there */
  bool blas;       /* its matmuls are those of a fast library */
} peer;

static peer start_numpy(void) {
  int in[2], out[2];
  char line[100];
  peer p = {NULL, NULL, false};
  if (pipe(in) || pipe(out)) return p;
  pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[1]);
    close(out[0]);
    execl("/bin/sh", "sh", "-c",
          "for p in python3 /usr/bin/python3; do if $p -c 'import numpy' 2>/dev/null; then "
          "exec $p tests/bench/numpy_rows.py; fi; done",
          (char *)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  p.to = fdopen(in[1], "w");
  p.from = fdopen(out[0], "r");
  if (child > 0 && p.to && p.from && fgets(line, sizeof line, p.from)) {
    p.blas = strncmp(line, "fast", 4) == 0;
    if (!p.blas) fprintf(stderr, "NumPy without OpenBLAS or MKL: no column for matmuls\n");
    return p;
  }
  fprintf(stderr, "no python3 with NumPy: its column is left out\n");
  return (peer){NULL, NULL, false};
}

/* Milliseconds of NumPy for a row, 0 without it. */
static double numpy_ms(const peer *p, const char *kind, const char *name, int64_t size, int times) {
  double ms = 0;
  if (!p->to) return 0;
  fprintf(p->to, "%s\t%s\t%lld\t%d\n", kind, name, (long long)size, times);
  fflush(p->to);
  if (fscanf(p->from, "%lf", &ms) != 1) fail(name, "NumPy gave no time");
  return ms;
}

/* ---- Times of a row ----------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(const double *v, int n) {
  double sorted[ROUNDS];
  memcpy(sorted, v, (size_t)n * sizeof *v);
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  return sorted[n / 2];
}

typedef struct times {
  int n;
  double plain[ROUNDS], ours[ROUNDS], numpy[ROUNDS]; /* ms; 0: not measured */
} times;

typedef struct figures {
  double plain, ours, numpy, to_plain, numpy_to_us;
} figures;

static figures figures_of(const times *t) {
  double to_plain[ROUNDS], to_us[ROUNDS];
  for (int i = 0; i < t->n; i++) {
    to_plain[i] = t->plain[i] > 0 ? t->ours[i] / t->plain[i] : 0;
    to_us[i] = t->numpy[i] / t->ours[i];
  }
  return (figures){median(t->plain, t->n), median(t->ours, t->n), median(t->numpy, t->n),
                   median(to_plain, t->n), median(to_us, t->n)};
}

static void put_ratio(double ratio, double goal) {
  if (ratio <= 0)
    printf(" %8s", "");
  else
    printf(" %8.2f", ratio);
  if (goal > 0)
    printf(" (%4.2f)", goal);
  else
    printf("       ");
}

/* A line of the table, and an object of the JSON that `json` collects. */
static void report(FILE *json, const char *name, figures f, double to_plain, double numpy_to_us) {
  static bool more;
  printf("%-34s %10.4f %10.4f %10.4f", name, f.plain, f.ours, f.numpy);
  put_ratio(f.to_plain, to_plain);
  put_ratio(f.numpy_to_us, numpy_to_us);
  printf("\n");
  fflush(stdout);
  fprintf(json,
          "%s{\"work\": \"%s\", \"threads\": 1, \"plain_ms\": %.5f, \"machine_ms\": %.5f, "
          "\"numpy_ms\": %.5f, \"to_plain\": %.3f, \"to_plain_goal\": %g, \"numpy_to_machine\": "
          "%.3f, \"numpy_to_machine_goal\": %g}",
          more ? ", " : "", name, f.plain, f.ours, f.numpy, f.to_plain, to_plain, f.numpy_to_us,
          numpy_to_us);
  more = true;
}

/* ---- Kernels ------------------------------------------------------------------------------ */

typedef struct bench {
  const char *name, *out_name;
  soma_machine *m;
  soma_program *p;
  void *in[INPUTS], *out; /* out: of plain C */
  double worst;           /* difference of the two */
} bench;

static void check(const bench *b, soma_status s) {
  if (s != SOMA_OK) fail(b->name, b->m ? soma_error(b->m) : "no machine");
}

static void assemble(bench *b, const char *text, const char *const *defines) {
  soma_assemble_options o = {.size = sizeof o, .defines = defines};
  soma_diagnostics *d = NULL;
  while (o.ndefines < 3 && defines[o.ndefines]) o.ndefines++;
  soma_options one = SOMA_OPTIONS_INIT;
  one.threads = 1;
  check(b, soma_machine_new(&one, &b->m));
  if (soma_assemble(b->m, text, strlen(text), b->name, &o, &b->p, &d) != SOMA_OK)
    fail(b->name, soma_diagnostics_text(d));
  soma_diagnostics_free(d);
}

static bool is_bf16(const soma_tensor_info *t) { return t->dtype == SOMA_BFLOAT16; }

/* Inputs between -2 and 2; those of bfloat16 smaller, so that what is made of sums is no extreme.
 */
static void fill_inputs(bench *b) {
  soma_tensor_info t;
  uint32_t seed = 1, n = 0;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role == SOMA_OUTPUT) b->out = malloc(t.bytes), b->out_name = t.name;
    if (t.role != SOMA_INPUT) continue;
    size_t size = is_bf16(&t) ? 2 : 4;
    uint8_t *data = b->in[n++] = malloc(t.bytes);
    for (uint64_t k = 0; k < t.bytes; k += size) {
      seed = seed * 1664525 + 1013904223;
      float v = ((float)(seed >> 20) / 1024 - 2) * (is_bf16(&t) ? 0.125f : 1);
      memcpy(data + k, (uint8_t *)&v + 4 - size, size);
    }
  }
}

/* The largest difference relative to the largest value. */
static double difference(const soma_tensor_info *t, const void *x, const void *y) {
  double worst = 0, most = 1e-30;
  size_t size = is_bf16(t) ? 2 : 4;
  for (size_t i = 0; i < t->bytes; i += size) {
    float a = 0, b = 0;
    memcpy((uint8_t *)&a + 4 - size, (const uint8_t *)x + i, size);
    memcpy((uint8_t *)&b + 4 - size, (const uint8_t *)y + i, size);
    double d = fabs((double)a - (double)b);
    worst = d <= worst ? worst : d; /* a NaN counts */
    most = fabs((double)b) > most ? fabs((double)b) : most;
  }
  return worst / most;
}

/* Milliseconds of a run, from its start to the result in the caller's hand. */
static double run_ms(bench *b) {
  soma_tensor_info t, out = {0};
  soma_run *r;
  soma_result *x = NULL;
  uint32_t n = 0;
  double start = now_ms();
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role == SOMA_OUTPUT) out = t;
    if (t.role == SOMA_INPUT)
      check(b, soma_bind_shared(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, b->in[n++]));
  }
  check(b, soma_run_start(b->m, b->p, &r));
  check(b, soma_run_until(r, SOMA_END, SOMA_SYNC, 0));
  if (b->out_name) check(b, soma_take(r, b->out_name, &x));
  soma_run_free(r);
  double ms = now_ms() - start;
  if (b->out) b->worst = fmax(b->worst, difference(&out, soma_result_data(x), b->out));
  soma_result_free(x);
  return ms;
}

static void close_bench(bench *b) {
  soma_program_free(b->p);
  soma_machine_free(b->m);
  for (int i = 0; i < INPUTS; i++) free(b->in[i]);
  free(b->out);
}

static void time_kernel(FILE *json, const peer *numpy, const work *w) {
  const program *p = &programs[w->program];
  bench b = {.name = p->name};
  times t = {.n = ROUNDS};
  char *text = program_text(p);
  if (!text) fail(p->file, "cannot be read");
  assemble(&b, text, p->defines);
  free(text);
  fill_inputs(&b);
  for (int k = -1; k < t.n; k++) { /* the first warms memory up */
    int at = k < 0 ? 0 : k;
    double start = now_ms();
    w->plain(&w->s, w->bf16, b.in, b.out);
    t.plain[at] = now_ms() - start;
    t.ours[at] = run_ms(&b);
    if (numpy->blas || !w->blas) t.numpy[at] = numpy_ms(numpy, "kernel", w->numpy, w->s.m, 1);
    if (k == 0 && t.ours[0] > 200) t.n = 3;
  }
  if (!(b.worst < 1e-2)) fail(p->name, "the results are not those of plain C");
  report(json, p->name, figures_of(&t), w->to_plain, w->numpy_to_us);
  close_bench(&b);
}

/* ---- Instructions ------------------------------------------------------------------------- */

/* A loop over the instruction, after its tiles have got their data. */
static void op_program(char *text, size_t size, const tile_op *op, int columns, int loops) {
  bool vector = strcmp(op->engine, "vector") == 0;
  int n = snprintf(text, size,
                   "%%define C %d\n target trn2\na tensor float32[128, C], input\n"
                   "x tile sbuf float32[128, C]\ny tile sbuf float32[128, C]\n"
                   "z tile sbuf float32[128, C]\nh tile sbuf bfloat16[128, C]\n"
                   "g tile sbuf bfloat16[128, C]\np tile sbuf uint8[128, C]\n"
                   "s tile sbuf float32[128, 1]\nm tile sbuf float32[128, 1]\n"
                   "e tile sbuf float32[128, 8]\nb tile sbuf float32[128, 6]\n"
                   "q queue\nfull sem\nready sem\nsection sync\n dma_copy x, a, queue=q $full\n"
                   " halt\nsection vector\n tensor_copy y, x $full>=16\n tensor_copy h, x\n"
                   " tensor_scalar p, x, op0=is_gt, imm0=0.0\n memset z, 0.0\n"
                   " tensor_copy s, x[:, 0:1] $ready++\n%s%s\n nop $ready>=1\n"
                   ".l:\n%%rep %d\n %s\n%%endrep\n add r0, r0, 1\n blt r0, %d, .l\n halt\n",
                   columns, vector ? "" : " halt\nsection ", vector ? "" : op->engine, REPEAT,
                   op->text, loops);
  if (n < 0 || (size_t)n >= size) fail(op->name, "too long");
}

/* The data of bench `b` as plain C has them. */
static void fill_tiles(const bench *b, int columns) {
  ROWS {
    memcpy(ox[r], (const float *)b->in[0] + r * columns, (size_t)columns * 4);
    memcpy(oy[r], ox[r], (size_t)columns * 4);
    narrow(oh[r], ox[r], (size_t)columns);
    for (int i = 0; i < columns; i++) chosen[r][i] = ox[r][i] > 0;
    os[r] = ox[r][0];
  }
}

/* All times are of one instruction. */
static figures time_op(const peer *numpy, const tile_op *op, int columns, double goals[2]) {
  char text[2000];
  bench b = {.name = op->name};
  times t = {.n = ROUNDS};
  int loops = columns < 64 ? 4 * LOOPS : LOOPS, each = REPEAT * loops;
  op_program(text, sizeof text, op, columns, loops);
  assemble(&b, text, (const char *const[3]){NULL, NULL, NULL});
  fill_inputs(&b);
  fill_tiles(&b, columns);
  for (int k = -1; k < t.n; k++) {
    int at = k < 0 ? 0 : k;
    double start = now_ms();
    for (int i = 0; op->plain && i < each; i++) {
      op->plain(columns);
      __asm__ volatile("" : : "r"(oz), "r"(og), "r"(om), "r"(oe), "r"(ob) : "memory");
    }
    t.plain[at] = op->plain ? (now_ms() - start) / each : 0;
    t.ours[at] = run_ms(&b) / each;
    t.numpy[at] = numpy_ms(numpy, "tile", op->name, columns, CALLS) / CALLS;
  }
  close_bench(&b);
  figures f = figures_of(&t);
  goals[0] += f.to_plain > 0 ? log(f.to_plain) : 0;
  goals[1] += f.numpy_to_us > 0 ? log(f.numpy_to_us) : 0;
  return f;
}

static void time_small(FILE *json, const peer *numpy, const char *pattern, int columns) {
  for (size_t i = 0; i < sizeof small_ops / sizeof *small_ops; i++) {
    char name[60];
    double sums[2] = {0};
    snprintf(name, sizeof name, "[128, %d] %s", columns, small_ops[i].name);
    if (strstr(name, pattern))
      report(json, name, time_op(numpy, &small_ops[i], columns, sums), 0, 5);
  }
}

/* None shall be under 0.85 of NumPy's speed; the mean goes by what the host has. */
static void time_ops(FILE *json, const peer *numpy, const char *pattern) {
  int n = 0;
  double sums[2] = {0};
  for (size_t i = 0; i < sizeof tile_ops / sizeof *tile_ops; i++) {
    char name[60];
    snprintf(name, sizeof name, "[128, 512] %s", tile_ops[i].name);
    if (!strstr(name, pattern)) continue;
    report(json, name, time_op(numpy, &tile_ops[i], W, sums), 0, 0.85);
    n++;
  }
  if (n < 2) return;
  figures mean = {.to_plain = exp(sums[0] / n), .numpy_to_us = exp(sums[1] / n)};
  if (!numpy->to) mean.numpy_to_us = 0;
  report(json, "[128, 512] geometric mean", mean, 1.15, LANES == 16 ? 5.8 : 4.0);
}

int main(int argc, char **argv) {
  const char *pattern = argc > 1 ? argv[1] : "";
  char *text = NULL;
  size_t size = 0;
  FILE *json = open_memstream(&text, &size);
  peer numpy = start_numpy();
  if (!json) return 1;
  printf("%-34s %10s %10s %10s %15s %15s\n", "one thread, ms", "plain C", "machine", "NumPy",
         "to plain (goal)", "NumPy to us");
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (strstr(programs[works[i].program].name, pattern)) time_kernel(json, &numpy, &works[i]);
  time_small(json, &numpy, pattern, 8);
  time_small(json, &numpy, pattern, 1);
  time_ops(json, &numpy, pattern);
  fclose(json);
  printf("{\"goals\": [%s]}\n", text);
  free(text);
  return 0;
}
