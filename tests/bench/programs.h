/* The whole kernels of the benchmarks. */
#ifndef BENCH_PROGRAMS_H
#define BENCH_PROGRAMS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
  const char *name, *file, *from, *to; /* every `from` in the file becomes `to` */
  const char *defines[3];
  double two; /* goal: one thread's time to that of two */
} program;

enum {
  MATMUL_1024_FP32,
  MATMUL_1024_BF16,
  MATMUL_2048_FP32,
  MATMUL_2048_BF16,
  SOFTMAX,
  ATTENTION,
  LAYERNORM,
  MLP,
  SCAN,
  CONV,
  TRANSPOSE,
  PROGRAMS
};

#define MATMUL(n, type, from, to) \
  { "matmul " n "^3 " type, "samples/matmul.s", from, to, {"M=" n, "N=" n, "K=" n}, 1.65 }
#define SAMPLE(name, file, ...) \
  { name, "samples/" file, NULL, NULL, {__VA_ARGS__}, 1.65 }
#define OWN(name, file, ...) \
  { name, "tests/bench/kernels/" file, NULL, NULL, {__VA_ARGS__}, 1.5 }
static const program programs[PROGRAMS] = {
    [MATMUL_1024_FP32] = MATMUL("1024", "fp32", "bfloat16", "float32"),
    [MATMUL_1024_BF16] = MATMUL("1024", "bf16", NULL, NULL),
    [MATMUL_2048_FP32] = MATMUL("2048", "fp32", "bfloat16", "float32"),
    [MATMUL_2048_BF16] = MATMUL("2048", "bf16", NULL, NULL),
    [SOFTMAX] = SAMPLE("softmax 4096 x 2048", "softmax.s", "ROWS=4096", "COLS=2048"),
    [ATTENTION] = SAMPLE("attention 2048 x 2048 bf16", "attention.s", "SQ=2048", "S=2048"),
    [LAYERNORM] = OWN("layernorm 4096 x 512", "layernorm.s", "ROWS=4096"),
    [MLP] = OWN("MLP with gelu 512-2048-512 bf16", "mlp.s", "D=512", "H=2048"),
    [SCAN] = OWN("scan 1024 x 2048", "scan.s", "ROWS=1024"),
    [CONV] = OWN("conv 3 x 3, 128 x 128 x 64, bf16", "conv.s", "H=128"),
    [TRANSPOSE] = OWN("transpose 2048 x 2048 bf16", "transpose.s", "N=2048"),
};
#undef MATMUL
#undef SAMPLE
#undef OWN

/* Its text, to be freed; NULL: the file cannot be read. */
static char *program_text(const program *p) {
  FILE *f = fopen(p->file, "rb");
  char *text = calloc(1, 1 << 17), *out = calloc(1, 1 << 17), *to = out;
  bool good = f && text && out && fread(text, 1, (1 << 16) - 1, f) > 0;
  for (const char *at = text; good && *at;) {
    bool here = p->from && strncmp(at, p->from, strlen(p->from)) == 0;
    if (here)
      to += sprintf(to, "%s", p->to), at += strlen(p->from);
    else
      *to++ = *at++;
  }
  if (f) fclose(f);
  free(text);
  if (good) return out;
  free(out);
  return NULL;
}

#endif
