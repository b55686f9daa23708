/* Times of vector and scalar handlers on one 128 x 512 tile, and how much longer they take than a
 * plain C loop of the same values in the same run. Prints, asserts nothing. */
#include "../../vm/op/op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 128, COLS = 512, PITCH = 3 * COLS * 4 + 576, REPEAT = 61 };

typedef struct bench {
  vm_dp *d;
  uint8_t *mem;
  float *x, *y, *o;
  uint8_t *p;
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

static double median_us(void (*run)(bench *b), bench *b) {
  double t[REPEAT];
  for (int i = 0; i < REPEAT; i++) {
    double start = now_us();
    run(b);
    t[i] = now_us() - start;
  }
  qsort(t, REPEAT, sizeof *t, ascending);
  return t[REPEAT / 2];
}

/* Columns `at` .. at + n - 1 of a region of the tile's partitions. */
static vm_view view(bench *b, unsigned dtype, unsigned region, uint32_t n) {
  vm_view v = {.at = b->mem + region * COLS * 4,
               .dtype = (uint8_t)dtype,
               .space = ISA_SBUF,
               .ndim = 2,
               .esize = isa_dtypes[dtype].bytes,
               .num = {ROWS, n},
               .elems = n};
  v.step[0] = PITCH;
  v.step[1] = v.esize;
  vm_view_runs(&v);
  return v;
}
static vm_view src(bench *b) { return view(b, ISA_float32, 0, COLS); }
static vm_view dst(bench *b) { return view(b, ISA_float32, 2, COLS); }

#define EACH                        \
  for (size_t r = 0; r < ROWS; r++) \
    for (size_t i = 0, at = r * COLS; i < COLS; i++, at++)

static void copy_predicated(bench *b) {
  struct vm_COPY_PREDICATED a = {.dst = dst(b), .src = src(b), .pred = view(b, ISA_uint8, 1, COLS)};
  vm_op_copy_predicated(b->d, &a);
}
static void select_reduce(bench *b) {
  struct vm_SELECT_REDUCE a = {.dst = dst(b),
                               .on_true = src(b),
                               .on_false = {.given = true},
                               .pred = view(b, ISA_uint8, 1, COLS),
                               .reduce = ISA_CMD_reset_reduce};
  vm_op_select_reduce(b->d, &a);
}
static void range_select(bench *b) {
  struct vm_RANGE_SELECT a = {.dst = dst(b),
                              .on_true = src(b),
                              .bound0 = view(b, ISA_float32, 1, 1),
                              .bound1 = view(b, ISA_float32, 1, 1),
                              .op0 = ISA_ALU_is_ge,
                              .op1 = ISA_ALU_is_lt,
                              .reduce = ISA_CMD_reset_reduce};
  vm_op_range_select(b->d, &a);
}
static void c_select(bench *b) { EACH b->o[at] = b->p[at] ? b->x[at] : b->y[at]; }
static void scalar_tensor_tensor(bench *b) {
  struct vm_SCALAR_TENSOR_TENSOR a = {.dst = dst(b),
                                      .src = src(b),
                                      .src1 = view(b, ISA_float32, 1, COLS),
                                      .op0 = ISA_ALU_mult,
                                      .op1 = ISA_ALU_add,
                                      .imm0 = {.given = true, .imm = 2}};
  vm_op_scalar_tensor_tensor(b->d, &a);
}
static void c_scalar_tensor_tensor(bench *b) { EACH b->o[at] = b->x[at] * 2 + b->y[at]; }
static void scan(bench *b) {
  struct vm_SCAN a = {.dst = dst(b),
                      .src0 = src(b),
                      .src1 = view(b, ISA_float32, 1, COLS),
                      .op0 = ISA_ALU_mult,
                      .op1 = ISA_ALU_add};
  vm_op_tensor_tensor_scan(b->d, &a);
}
static void c_scan(bench *b) { EACH b->o[at] = b->x[at] * (i ? b->o[at - 1] : 0) + b->y[at]; }
static void cumulative(bench *b) {
  struct vm_TENSOR_SCALAR_REDUCE a = {.dst = dst(b),
                                      .src = src(b),
                                      .op0 = ISA_ALU_mult,
                                      .op1 = ISA_ALU_add,
                                      .imm0 = {.given = true, .imm = 2},
                                      .reduce = ISA_CMD_reset_reduce};
  vm_op_tensor_scalar_cumulative(b->d, &a);
}
static void scalar_reduce(bench *b) {
  struct vm_TENSOR_SCALAR_REDUCE a = {.dst = dst(b),
                                      .src = src(b),
                                      .op0 = ISA_ALU_mult,
                                      .op1 = ISA_ALU_add,
                                      .imm0 = {.given = true, .imm = 2},
                                      .reduce = ISA_CMD_reset_reduce};
  vm_op_tensor_scalar_reduce(b->d, &a);
}
static void c_scalar_reduce(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float part[16] = {0};
    for (size_t i = 0; i < COLS; i++) part[i % 16] += b->o[r * COLS + i] = b->x[r * COLS + i] * 2;
    for (size_t i = 1; i < 16; i++) part[0] += part[i];
    b->y[r] = part[0];
  }
}
static void bn_stats(bench *b) {
  struct vm_UNARY a = {.dst = view(b, ISA_float32, 2, 6), .src = src(b)};
  vm_op_bn_stats(b->d, &a);
}
static void c_bn_stats(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float sum[32] = {0}, square[32] = {0}, mean[2] = {0};
    const float *x = b->x + r * COLS;
    for (size_t i = 0; i < COLS; i++) sum[i % 32] += x[i];
    for (size_t i = 0; i < 32; i++) mean[i % 2] += sum[i] * (2.0f / COLS);
    for (size_t i = 0; i < COLS; i++) square[i % 32] += (x[i] - mean[i % 2]) * (x[i] - mean[i % 2]);
    for (size_t i = 0; i < 32; i++) b->o[r * 32 + i] = square[i];
  }
}
static void row_max(bench *b) {
  struct vm_TENSOR_REDUCE a = {
      .dst = view(b, ISA_float32, 2, 1), .src = src(b), .op = ISA_ALU_max, .axes = 1};
  vm_op_tensor_reduce(b->d, &a);
}
static void c_row_max(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float part[16] = {0};
    const float *x = b->x + r * COLS;
    for (size_t i = 0; i < COLS; i++) part[i % 16] = part[i % 16] > x[i] ? part[i % 16] : x[i];
    for (size_t i = 1; i < 16; i++) part[0] = part[0] > part[i] ? part[0] : part[i];
    b->y[r] = part[0];
  }
}
static void row_sum(bench *b) {
  struct vm_TENSOR_REDUCE a = {
      .dst = view(b, ISA_float32, 2, 1), .src = src(b), .op = ISA_ALU_add, .axes = 1};
  vm_op_tensor_reduce(b->d, &a);
}
static void c_row_sum(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float part[16] = {0};
    for (size_t i = 0; i < COLS; i++) part[i % 16] += b->x[r * COLS + i];
    for (size_t i = 1; i < 16; i++) part[0] += part[i];
    b->y[r] = part[0];
  }
}
static void activate(bench *b, unsigned fn) {
  struct vm_ACTIVATE a = {.dst = dst(b), .src = src(b), .fn = (uint8_t)fn, .reduce = ISA_CMD_idle};
  vm_op_activate(b->d, &a);
}
static void gelu_tanh(bench *b) { activate(b, ISA_FN_gelu_apprx_tanh); }
static void c_gelu_tanh(bench *b) {
  EACH {
    float x = b->x[at];
    b->o[at] = 0.5f * x * (1 + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
  }
}
static void exponential(bench *b) { activate(b, ISA_FN_exp); }
static void c_exp(bench *b) { EACH b->o[at] = expf(b->x[at]); }
static void tensor_tensor(bench *b) {
  struct vm_TENSOR_TENSOR a = {
      .dst = dst(b), .src0 = src(b), .src1 = view(b, ISA_float32, 1, COLS), .op = ISA_ALU_add};
  vm_op_tensor_tensor(b->d, &a);
}
static void c_add(bench *b) { EACH b->o[at] = b->x[at] + b->y[at]; }
static void transpose32(bench *b) {
  struct vm_TRANSPOSE32 a = {.dst = view(b, ISA_float32, 2, ROWS),
                             .src = view(b, ISA_float32, 0, ROWS)};
  vm_op_transpose32(b->d, &a);
}
static void c_transpose(bench *b) {
  for (size_t r = 0; r < ROWS; r++)
    for (size_t i = 0; i < ROWS; i++) b->o[i * COLS + r] = b->x[r * COLS + i];
}
static void max8(bench *b) {
  struct vm_UNARY a = {.dst = view(b, ISA_float32, 2, 8), .src = src(b)};
  vm_op_max8(b->d, &a);
}
static void c_max8(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float top[8];
    for (int i = 0; i < 8; i++) top[i] = -1e30f;
    for (size_t i = 0; i < COLS; i++) {
      float x = b->x[r * COLS + i];
      if (x <= top[7]) continue;
      int j = 7;
      for (; j > 0 && top[j - 1] < x; j--) top[j] = top[j - 1];
      top[j] = x;
    }
    memcpy(b->o + r * 8, top, sizeof top);
  }
}
static void find_index8(bench *b) {
  struct vm_UNARY a = {.dst = view(b, ISA_uint32, 2, 8), .src = src(b)};
  vm_op_find_index8(b->d, &a);
}
static void match_replace8(bench *b) {
  struct vm_MATCH_REPLACE a = {.dst = dst(b), .src = src(b), .imm = {.given = true}};
  vm_op_match_replace8(b->d, &a);
}
static void c_find(bench *b) {
  for (size_t r = 0; r < ROWS; r++)
    for (int k = 0; k < 8; k++) {
      size_t i = 0;
      while (i < COLS && b->x[r * COLS + i] != b->y[r * 8 + (size_t)k]) i++;
      b->o[r * 8 + (size_t)k] = (float)i;
    }
}
static void activate2(bench *b) {
  struct vm_ACTIVATE2 a = {.dst = dst(b),
                           .src = src(b),
                           .fn = ISA_FN_prelu,
                           .op0 = ISA_ALU_mult,
                           .op1 = ISA_ALU_add,
                           .imm0 = {.given = true, .imm = 2},
                           .imm1 = {.given = true, .imm = 1},
                           .relu_param = {.given = true, .imm = 0.25f},
                           .reduce = ISA_CMD_reset_reduce,
                           .reduce_op = ISA_ALU_max};
  vm_op_activate2(b->d, &a);
}
static void c_activate2(bench *b) {
  for (size_t r = 0; r < ROWS; r++) {
    float part[16] = {0};
    for (size_t i = 0; i < COLS; i++) {
      float t = b->x[r * COLS + i] * 2 + 1;
      b->o[r * COLS + i] = t = t > 0 ? t : t * 0.25f;
      part[i % 16] = part[i % 16] > t ? part[i % 16] : t;
    }
    b->y[r] = part[r % 16];
  }
}
static void to_bf16(bench *b) {
  struct vm_COPY a = {
      .dst = view(b, ISA_bfloat16, 2, COLS), .src = src(b), .round = ISA_ROUND_stochastic};
  vm_op_tensor_copy(b->d, &a);
}
static void c_to_bf16(bench *b) {
  uint16_t *o = (uint16_t *)(void *)b->o;
  EACH o[at] = (uint16_t)((isa_f32_bits(b->x[at]) + 0x7fff) >> 16);
}

static const struct {
  const char *name;
  void (*run)(bench *b), (*plain)(bench *b);
} rows[] = {
    {"tensor_tensor add", tensor_tensor, c_add},
    {"scalar_tensor_tensor", scalar_tensor_tensor, c_scalar_tensor_tensor},
    {"copy_predicated", copy_predicated, c_select},
    {"select_reduce with max", select_reduce, c_select},
    {"range_select with max", range_select, c_select},
    {"tensor_tensor_scan", scan, c_scan},
    {"tensor_scalar_cumulative", cumulative, c_scan},
    {"tensor_scalar_reduce", scalar_reduce, c_scalar_reduce},
    {"tensor_reduce add", row_sum, c_row_sum},
    {"tensor_reduce max", row_max, c_row_max},
    {"activate exp", exponential, c_exp},
    {"activate gelu_apprx_tanh", gelu_tanh, c_gelu_tanh},
    {"transpose32 of [128, 128]", transpose32, c_transpose},
    {"bn_stats", bn_stats, c_bn_stats},
    {"max8", max8, c_max8},
    {"find_index8, nothing found", find_index8, c_find},
    {"match_replace8, nothing found", match_replace8, c_find},
    {"activate2 prelu with max", activate2, c_activate2},
    {"tensor_copy to bf16, stochastic", to_bf16, c_to_bf16},
};

/* Aligned as a core's memories are, and touched. */
static void *memory(size_t bytes) {
  void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (p) memset(p, 0, bytes);
  return p;
}

int main(void) {
  static _Alignas(64) float row[VM_ROWS][VM_ROW];
  const size_t elems = (size_t)ROWS * COLS;
  vm_kern k;
  bench b = {.d = calloc(1, sizeof *b.d), .mem = memory((size_t)ROWS * PITCH)};
  b.x = memory(elems * sizeof *b.x);
  b.y = memory(elems * sizeof *b.y);
  b.o = memory(elems * sizeof *b.o);
  b.p = memory(elems);
  if (!b.d || !b.mem || !b.x || !b.y || !b.o || !b.p || !vm_kern_select(NULL, &k)) return 1;
  b.d->k = &k;
  b.d->row = row;
  b.d->target = &isa_targets[ISA_trn3];
  memset(b.d->has_match, true, sizeof b.d->has_match);
  EACH {
    float v = (float)((at * 7919) % 4001) / 5000.0f - 0.37f;
    uint8_t pred = (uint8_t)(at * 2654435761u >> 31);
    memcpy(b.mem + r * PITCH + 4 * i, &v, 4);
    memcpy(b.mem + r * PITCH + COLS * 4 + i, &pred, 1);
    b.x[at] = v;
    b.p[at] = pred;
    b.d->match[r][i % 8] = b.y[at] = (float)(100 + i % 8);
  }
  printf("%-34s %9s %9s %14s\n", "microseconds, 128 x 512", k.name, "plain C", "handler / C");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double us = median_us(rows[i].run, &b), c = median_us(rows[i].plain, &b);
    printf("%-34s %9.2f %9.2f %14.2f\n", rows[i].name, us, c, us / c);
  }
  free(b.d);
  free(b.mem);
  free(b.x);
  free(b.y);
  free(b.o);
  free(b.p);
  return 0;
}
