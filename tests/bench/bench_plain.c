/* Whole kernels beside plain C: the same tiles, copies and instructions written as loops without a
 * machine, compiled for this host. Both run in turn in one process; processor time, medians. Of the
 * machine: a run from its start to the tensor in the caller's hand, and its instructions alone.
 * Prints a table of milliseconds and ratios, then the same as one line of JSON. Checks that the
 * results agree. Run it in the folder that holds samples/. */
#include "../../vm/api/soma.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, P = 128, W = 512 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- Plain C ------------------------------------------------------------------------------ */

#ifdef __AVX512F__
enum { LANES = 16, MR = 8, NV = 3 };
#else
enum { LANES = 8, MR = 6, NV = 2 };
#endif
#ifdef __clang__
#define UNROLL(n) _Pragma("unroll")
#else
#define UNROLL(n) _Pragma("GCC unroll 8")
#endif
enum { NR = LANES * NV };
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4)));

/* Tiles as a program of the machine has them, 576 bytes apart from a power of two. */
enum { PITCH = W + 144 };
static float ta[P][P + 16], tb[P][PITCH], sum[P][PITCH], tc[P][PITCH];
static uint16_t ha[P][P + 16], hb[P][PITCH];
static float panel[P * NR];

/* MR rows and NR columns of sum += w' panel. */
static void tile(float *out, const float *w, size_t ldw, bool add) {
  vec acc[MR][NV] = {0};
  for (unsigned k = 0; k < P; k++, w += ldw) {
    const vec *x = (const vec *)(const void *)(panel + k * NR);
    UNROLL(8)
    for (unsigned r = 0; r < MR; r++) UNROLL(4)
    for (unsigned v = 0; v < NV; v++) acc[r][v] += w[r] * x[v];
  }
  for (unsigned r = 0; r < MR; r++)
    for (unsigned v = 0; v < NV; v++) {
      vec *to = (vec *)(void *)(out + r * PITCH + v * LANES);
      *to = add ? *to + acc[r][v] : acc[r][v];
    }
}

static void matmul_tile(bool add) {
  static float w[P + MR][MR]; /* of the rows past the last whole tile */
  float aside[MR * PITCH];
  for (unsigned j = 0; j < W; j += NR) {
    unsigned n = W - j < NR ? W - j : NR;
    for (unsigned k = 0; k < P; k++) memcpy(panel + k * NR, &tb[k][j], n * 4);
    for (unsigned r = 0; r < P; r += MR) {
      unsigned m = P - r < MR ? P - r : MR;
      for (unsigned k = 0; m < MR && k < P; k++) memcpy(w[k], &ta[k][r], m * 4);
      bool whole = m == MR && n == NR;
      tile(whole ? &sum[r][j] : aside, m < MR ? w[0] : &ta[0][r], m < MR ? MR : P + 16,
           whole && add);
      for (unsigned i = 0; !whole && i < m; i++)
        for (unsigned c = 0; c < n; c++)
          sum[r + i][j + c] = (add ? sum[r + i][j + c] : 0) + aside[i * PITCH + c];
    }
  }
}

static void widen(float *to, const uint16_t *from, size_t n) {
  uint32_t *bits = (uint32_t *)(void *)to;
  for (size_t i = 0; i < n; i++) bits[i] = (uint32_t)from[i] << 16;
}

typedef struct sizes {
  int64_t m, n, k;
} sizes;

static void load_tiles(const sizes *s, bool bf16, void *const in[2], int64_t k, int64_t at[2]) {
  for (int64_t i = 0; i < P; i++) {
    size_t a = (size_t)((k + i) * s->m + at[0]), b = (size_t)((k + i) * s->n + at[1]);
    if (!bf16) {
      memcpy(ta[i], (float *)in[0] + a, P * 4);
      memcpy(tb[i], (float *)in[1] + b, W * 4);
      continue;
    }
    memcpy(ha[i], (uint16_t *)in[0] + a, P * 2);
    memcpy(hb[i], (uint16_t *)in[1] + b, W * 2);
    widen(ta[i], ha[i], P);
    widen(tb[i], hb[i], W);
  }
}

static void plain_matmul(const sizes *s, bool bf16, void *const in[2], float *out) {
  for (int64_t m = 0; m < s->m; m += P)
    for (int64_t n = 0; n < s->n; n += W) {
      for (int64_t k = 0; k < s->k; k += P) {
        load_tiles(s, bf16, in, k, (int64_t[]){m, n});
        matmul_tile(k > 0);
      }
      for (int i = 0; i < P; i++) memcpy(tc[i], sum[i], W * 4);
      for (int i = 0; i < P; i++) memcpy(out + (m + i) * s->n + n, tc[i], W * 4);
    }
}

static vec larger(vec a, vec b) {
  ivec first = a > b;
  return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

/* exp of x <= 0: 2^n times a polynomial of the rest, about 2 units in the last place. */
static vec exp_vec(vec x) {
  x = larger(x, (vec){0} - 87.0f);
  vec shift = x * 0x1.715476p0f + 0x1.8p23f, n = shift - 0x1.8p23f;
  vec r = x - n * 0x1.62e400p-1f - n * 0x1.7f7d1cp-20f;
  vec y = r * (1 / 720.0f) + 1 / 120.0f;
  y = y * r + 1 / 24.0f;
  y = y * r + 1 / 6.0f;
  y = y * r + 0.5f;
  y = y * r * r + r + 1.0f;
  return (vec)((ivec)y + ((ivec)shift << 23));
}

enum { COLS = 2048 };
static float tx[2][P][COLS + 144], te[2][P][COLS + 144], ty[2][P][COLS + 144];

static float top_of(const float *x) {
  vec most[4];
  memcpy(most, x, sizeof most);
  for (int i = 0; i < COLS; i += 4 * LANES)
    for (int v = 0; v < 4; v++)
      most[v] = larger(*(const vec *)(const void *)(x + i + v * LANES), most[v]);
  float top = most[0][0];
  for (int v = 0; v < 4; v++)
    for (int i = 0; i < LANES; i++) top = most[v][i] > top ? most[v][i] : top;
  return top;
}

static float exp_row(float *e, const float *x, float top) {
  vec total[4] = {{0}};
  float all = 0;
  for (int i = 0; i < COLS; i += 4 * LANES)
    for (int v = 0; v < 4; v++) {
      vec a = exp_vec(*(const vec *)(const void *)(x + i + v * LANES) - top);
      *(vec *)(void *)(e + i + v * LANES) = a;
      total[v] += a;
    }
  for (int v = 0; v < 4; v++)
    for (int i = 0; i < LANES; i++) all += total[v][i];
  return all;
}

/* One instruction after the other over its whole tile, as the program does; two buffers. */
static void plain_softmax(const sizes *s, bool bf16, void *const in[2], float *out) {
  float top[P], total[P];
  (void)bf16;
  for (int64_t r = 0; r < s->m; r += P) {
    unsigned b = (unsigned)(r / P % 2);
    for (int i = 0; i < P; i++) memcpy(tx[b][i], (float *)in[0] + (r + i) * COLS, COLS * 4);
    for (int i = 0; i < P; i++) top[i] = top_of(tx[b][i]);
    for (int i = 0; i < P; i++) total[i] = exp_row(te[b][i], tx[b][i], top[i]);
    for (int i = 0; i < P; i++) total[i] = 1 / total[i];
    for (int i = 0; i < P; i++)
      for (int c = 0; c < COLS; c++) ty[b][i][c] = te[b][i][c] * total[i];
    for (int i = 0; i < P; i++) memcpy(out + (r + i) * COLS, ty[b][i], COLS * 4);
  }
}

/* ---- The machine -------------------------------------------------------------------------- */

typedef struct work {
  const char *name, *file, *from, *to; /* every `from` in the file becomes `to` */
  const char *defines[3];
  sizes s;
  bool bf16;
  void (*plain)(const sizes *s, bool bf16, void *const in[2], float *out);
  const char *out;
} work;

static const work works[] = {
    {"matmul 1024^3 fp32",
     "samples/matmul.s",
     "bfloat16",
     "float32",
     {"M=1024", "N=1024", "K=1024"},
     {1024, 1024, 1024},
     false,
     plain_matmul,
     "c"},
    {"matmul 1024^3 bf16",
     "samples/matmul.s",
     NULL,
     NULL,
     {"M=1024", "N=1024", "K=1024"},
     {1024, 1024, 1024},
     true,
     plain_matmul,
     "c"},
    {"softmax 4096 x 2048",
     "samples/softmax.s",
     NULL,
     NULL,
     {"ROWS=4096", "COLS=2048"},
     {4096, COLS, 0},
     false,
     plain_softmax,
     "y"},
};

typedef struct bench {
  const work *w;
  soma_machine *m;
  soma_program *p;
  void *in[2];
  float *out;   /* of plain C */
  double worst; /* difference of the two */
} bench;

static void fail(const bench *b) {
  fprintf(stderr, "%s: %s\n", b->w->name, b->m ? soma_error(b->m) : "no machine");
  exit(1);
}

static char *source_of(const work *w) {
  FILE *f = fopen(w->file, "rb");
  char *text = calloc(1, 1 << 17), *out = calloc(1, 1 << 17), *to = out;
  if (!f || !text || !out || fread(text, 1, (1 << 16) - 1, f) == 0) {
    fprintf(stderr, "%s cannot be read\n", w->file);
    exit(1);
  }
  fclose(f);
  for (const char *at = text; *at;) {
    bool here = w->from && strncmp(at, w->from, strlen(w->from)) == 0;
    if (here)
      to += sprintf(to, "%s", w->to), at += strlen(w->from);
    else
      *to++ = *at++;
  }
  free(text);
  return out;
}

static void open_bench(bench *b) {
  char *text = source_of(b->w);
  soma_assemble_options o = {.size = sizeof o, .defines = b->w->defines, .ndefines = 3};
  while (o.ndefines && !b->w->defines[o.ndefines - 1]) o.ndefines--;
  if (soma_machine_new(NULL, &b->m) != SOMA_OK ||
      soma_assemble(b->m, text, strlen(text), b->w->file, &o, &b->p, NULL) != SOMA_OK)
    fail(b);
  free(text);
  soma_tensor_info t;
  uint32_t seed = 1, n = 0;
  for (uint32_t i = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++) {
    if (t.role == SOMA_OUTPUT) b->out = malloc(t.bytes);
    if (t.role != SOMA_INPUT || n == 2) continue;
    uint8_t *data = b->in[n++] = malloc(t.bytes);
    for (uint64_t k = 0; k < t.bytes; k += b->w->bf16 ? 2 : 4) {
      seed = seed * 1664525 + 1013904223;
      float v = (float)(seed >> 20) / 1024 - 2;
      memcpy(data + k, (uint8_t *)&v + (b->w->bf16 ? 2 : 0), b->w->bf16 ? 2 : 4);
    }
  }
}

/* Milliseconds of a run to its result, and of its instructions. */
static void run(bench *b, double *whole, double *instructions) {
  soma_tensor_info t;
  soma_run *r;
  soma_result *x;
  double start = now_ms();
  for (uint32_t i = 0, n = 0; soma_program_tensor(b->p, i, &t) == SOMA_OK; i++)
    if (t.role == SOMA_INPUT &&
        soma_bind_shared(b->m, b->p, t.name, t.dtype, t.ndim, t.shape, b->in[n++]) != SOMA_OK)
      fail(b);
  if (soma_run_start(b->m, b->p, &r) != SOMA_OK) fail(b);
  double begun = now_ms();
  if (soma_run_until(r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK) fail(b);
  *instructions = now_ms() - begun;
  if (soma_take(r, b->w->out, &x) != SOMA_OK) fail(b);
  soma_run_free(r);
  *whole = now_ms() - start;
  const float *got = soma_result_data(x);
  for (size_t i = 0; i < soma_result_size(x) / 4; i++)
    b->worst = fmax(b->worst, fabs((double)got[i] - (double)b->out[i]));
  soma_result_free(x);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(double *v) {
  qsort(v, ROUNDS, sizeof *v, ascending);
  return v[ROUNDS / 2];
}

int main(void) {
  char json[1024];
  int n = sprintf(json, "{\"plain\": [");
  printf("%-24s %8s %8s %8s %8s %10s\n", "kernel, one thread, ms", "plain C", "machine", "/ plain",
         "alone", "whole/alone");
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
    bench b = {.w = &works[i]};
    double plain[ROUNDS], whole[ROUNDS], alone[ROUNDS], ratio[ROUNDS], own[ROUNDS];
    open_bench(&b);
    for (int k = -2; k < ROUNDS; k++) { /* the first two warm memory up */
      int at = k < 0 ? 0 : k;
      double t = now_ms();
      b.w->plain(&b.w->s, b.w->bf16, b.in, b.out);
      plain[at] = now_ms() - t;
      run(&b, &whole[at], &alone[at]);
      ratio[at] = whole[at] / plain[at];
      own[at] = whole[at] / alone[at];
    }
    double r = median(ratio), o = median(own);
    printf("%-24s %8.2f %8.2f %8.2f %8.2f %10.2f\n", b.w->name, median(plain), median(whole), r,
           median(alone), o);
    n += sprintf(json + n,
                 "%s{\"work\": \"%s\", \"plain_ms\": %.3f, \"machine_ms\": %.3f, \"to_plain\": "
                 "%.3f, \"whole_to_instructions\": %.3f}",
                 i ? ", " : "", b.w->name, median(plain), median(whole), r, o);
    if (!(b.worst < 1e-2)) {
      fprintf(stderr, "%s: results differ by %g\n", b.w->name, b.worst);
      return 1;
    }
    soma_program_free(b.p);
    soma_machine_free(b.m);
    free(b.in[0]);
    free(b.in[1]);
    free(b.out);
  }
  printf("%s]}\n", json);
  return 0;
}
