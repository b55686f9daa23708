/* Times of the array kernels on one 128 x 512 tile, one call per row, for each level of this host;
 * and how much longer the plain level takes. Prints, asserts nothing. */
#include "../../vm/simd/loops.h"

#include "host_peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 128, COLS = 512, PITCH = COLS + 16, REPEAT = 41 };

typedef struct bench {
  vm_kern k;
  float *a, *b, *d;
  unsigned char *raw;
} bench;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_us(void (*run)(bench *b, unsigned arg), bench *b, unsigned arg) {
  double t[REPEAT];
  for (int i = 0; i < REPEAT; i++) {
    double start = now_us();
    run(b, arg);
    t[i] = now_us() - start;
  }
  qsort(t, REPEAT, sizeof *t, ascending);
  return t[REPEAT / 2];
}

#define EACH_ROW for (size_t r = 0, at = 0; r < ROWS; r++, at += PITCH)

static void run_vv(bench *b, unsigned op) {
  EACH_ROW b->k.alu_vv[op](b->d + at, b->a + at, b->b + at, COLS);
}
static void run_vs_in_place(bench *b, unsigned op) {
  EACH_ROW b->k.alu_vs[op](b->d + at, b->d + at, 1.0f, COLS);
}
static void run_scale_bias(bench *b, unsigned op) {
  (void)op;
  EACH_ROW b->k.scale_bias(b->d + at, b->a + at, 2.0f, 1.0f, COLS);
}
static void run_actfn(bench *b, unsigned fn) {
  EACH_ROW b->k.actfn[fn](b->d + at, b->a + at, &(vm_act){1, -0.0f, 0.5f}, COLS);
}
static void run_partial(bench *b, unsigned op) {
  EACH_ROW {
    float part[16] = {0};
    b->k.partial[op](part, b->a + at, COLS);
    b->d[r] = vm_kern_combine(op, part);
  }
}
static void run_load(bench *b, unsigned type) {
  EACH_ROW b->k.load[type](b->d + at, b->raw + at * isa_dtype_bytes(type), COLS);
}
static void run_store(bench *b, unsigned type) {
  EACH_ROW b->k.store[type](b->raw + at * isa_dtype_bytes(type), b->a + at, COLS, 0);
}
static void run_gather(bench *b, unsigned esize) {
  EACH_ROW b->k.gather(b->d + at, b->raw + at * 4, 2 * (ptrdiff_t)esize, COLS / 2, esize);
}
static void run_matmul(bench *b, unsigned unused) {
  (void)unused;
  vm_product p = {.out = b->d,
                  .ldo = PITCH,
                  .w = b->b,
                  .ldw = PITCH,
                  .x = b->a,
                  .step = PITCH * sizeof *b->a,
                  .dtype = ISA_float32,
                  .k = ROWS,
                  .m = ROWS,
                  .n = COLS};
  b->k.matmul(&p);
}

typedef struct row {
  const char *name;
  void (*run)(bench *b, unsigned arg);
  unsigned arg;
} row;

static const row rows[] = {
    {"matmul 128x128x512", run_matmul, 0},
    {"add", run_vv, ISA_ALU_add},
    {"max", run_vv, ISA_ALU_max},
    {"divide", run_vv, ISA_ALU_divide},
    {"pow", run_vv, ISA_ALU_pow},
    {"rsqrt", run_vv, ISA_ALU_rsqrt},
    {"multiply by a scalar, in place", run_vs_in_place, ISA_ALU_mult},
    {"scale and bias", run_scale_bias, 0},
    {"exp", run_actfn, ISA_FN_exp},
    {"tanh", run_actfn, ISA_FN_tanh},
    {"gelu", run_actfn, ISA_FN_gelu},
    {"gelu_apprx_tanh", run_actfn, ISA_FN_gelu_apprx_tanh},
    {"silu", run_actfn, ISA_FN_silu},
    {"row sum", run_partial, ISA_ALU_add},
    {"row max", run_partial, ISA_ALU_max},
    {"load bfloat16", run_load, ISA_bfloat16},
    {"load float16", run_load, ISA_float16},
    {"load float8_e4m3", run_load, ISA_float8_e4m3},
    {"load int32", run_load, ISA_int32},
    {"load uint8", run_load, ISA_uint8},
    {"store bfloat16", run_store, ISA_bfloat16},
    {"store float16", run_store, ISA_float16},
    {"store float8_e4m3", run_store, ISA_float8_e4m3},
    {"store int32", run_store, ISA_int32},
    {"store uint32", run_store, ISA_uint32},
    {"store uint8", run_store, ISA_uint8},
    {"store float32", run_store, ISA_float32},
    {"gather every second of 4 bytes", run_gather, 4},
};

int main(void) {
  static const char *const levels[] = {"plain", "avx2", "avx512"};
  enum { LEVELS = 3, TILE = ROWS * PITCH };
  bench b[LEVELS];
  double matmul = 0;
  float *mem = aligned_alloc(64, 4 * (size_t)TILE * sizeof *mem); /* as a core's memories are */
  if (!mem) return 1;
  memset(mem, 0, 4 * (size_t)TILE * sizeof *mem);
  for (size_t i = 0; i < 2 * (size_t)TILE; i++) mem[i] = (float)((i * 7919) % 4001) / 500.0f - 4;
  printf("%-32s", "microseconds");
  for (int l = 0; l < LEVELS; l++) {
    if (!vm_kern_select(levels[l], &b[l].k)) return 1;
    b[l].a = mem;
    b[l].b = mem + TILE;
    b[l].d = mem + 2 * (size_t)TILE;
    b[l].raw = (unsigned char *)(mem + 3 * (size_t)TILE);
    printf(" %9s", b[l].k.name);
  }
  printf("   plain / best\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double us[LEVELS];
    printf("%-32s", rows[i].name);
    for (int l = 0; l < LEVELS; l++) {
      memset(b[l].d, 0, sizeof(float) * TILE);
      us[l] = median_us(rows[i].run, &b[l], rows[i].arg);
      printf(" %9.2f", us[l]);
    }
    printf(" %14.2f\n", us[0] / us[LEVELS - 1]);
    if (i == 0) matmul = us[LEVELS - 1];
  }
  double flops = 2.0 * ROWS * ROWS * COLS / (matmul * 1e-6), peak = host_peak();
  printf("matmul: %.0f GFLOP/s", flops * 1e-9);
  if (peak > 0)
    printf(", %.2f of this host's %.0f (fused multiply-adds in registers)", flops / peak,
           peak * 1e-9);
  printf("\n");
  free(mem);
  return 0;
}
