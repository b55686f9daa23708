/* Instructions of bench_plain on one tile: their text, engine and plain C. Tiles of the text, 128
 * rows of C: x y z w float32, h g bfloat16, p uint8; s m float32 [128, 1]; e float32 [128, 8]; b
 * float32 [128, 6]. x and y are data, h is x, s is a column of x. */
#ifndef BENCH_PLAIN_OPS_H
#define BENCH_PLAIN_OPS_H

#include "plain.h"

TILE(ox, P, W);
TILE(oy, P, W);
TILE(oz, P, W);
static uint16_t oh[P][W + 144], og[P][W + 144];
static uint8_t chosen[P][W + 144];
static float os[P], om[P], oe[P][8], ob[P][6];

#define OP(name, value) \
  static void name(int n) { ROWS EACH_VEC(n) put(oz[r] + i, value); }
#define X get(ox[r] + i)
#define Y get(oy[r] + i)
OP(c_add, X + Y)
OP(c_max, larger(X, Y))
OP(c_two, X * 2 + 1)
OP(c_columns, (X - os[r]) * os[r])
OP(c_stt, X * 2 + Y)
OP(c_exp, exp_vec(X * 0.5f + os[r]))
OP(c_reciprocal, 1 / X)
#undef OP
#undef X
#undef Y

/* Within the error that isa/README.md states, which these take doubles for: the machine's formulas
 * as this host's compiler makes them. */
#define OP(name, fn) \
  static void name(int n) { ROWS for (int i = 0; i < n; i++) oz[r][i] = act_fn_##fn(ox[r][i], 0); }
OP(c_tanh, tanh)
OP(c_gelu_tanh, gelu_apprx_tanh)
OP(c_gelu, gelu)
OP(c_silu, silu)
#undef OP

static void c_copy(int n) { move_rows(oz, sizeof oz[0], ox, sizeof ox[0], (size_t)n * 4); }
static void c_add_bf16(int n) {
  float a[W], b[W];
  ROWS {
    widen(a, oh[r], (size_t)n);
    widen(b, oh[r], (size_t)n);
    EACH_VEC(n) put(a + i, get(a + i) + get(b + i));
    narrow(og[r], a, (size_t)n);
  }
}
static void c_exp_sum(int n) { ROWS om[r] = row_exp(oz[r], ox[r], 1, os[r], n); }
static void c_exp_bf16(int n) {
  float a[W];
  ROWS {
    widen(a, oh[r], (size_t)n);
    EACH_VEC(n) put(a + i, exp_vec(get(a + i)));
    narrow(og[r], a, (size_t)n);
  }
}
static void c_row_sum(int n) { ROWS om[r] = row_sum(ox[r], n); }
static void c_row_max(int n) { ROWS om[r] = row_max(ox[r], n); }
static void c_transpose(int n) {
  (void)n;
  transpose(oz[0], W + 144, ox[0], W + 144);
}
static void c_narrow(int n) { ROWS narrow(og[r], ox[r], (size_t)n); }
static void c_widen(int n) { ROWS widen(oz[r], oh[r], (size_t)n); }
static void c_select(int n) {
  ROWS for (int i = 0; i < n; i++) oz[r][i] = chosen[r][i] ? ox[r][i] : oz[r][i];
}
static void c_affine(int n) {
  ROWS for (int i = 0; i < n; i++) oz[r][i] = i - r >= 0 ? ox[r][i] : 0;
}
static void c_scan(int n) { scan_rows(oz[0], ox[0], oy[0], W + 144, n); }
static void c_stats(int n) {
  ROWS for (int half = 0; half < 2; half++) { /* even and odd elements, as bn_stats has them */
    vec total = {0}, square = {0};
    for (int i = 0; i < n; i += 2 * LANES) total += get(ox[r] + i) + get(ox[r] + i + LANES);
    float mean = vec_sum(total) / (float)n;
    for (int i = 0; half == 0 && i < n; i += LANES) {
      vec d = get(ox[r] + i) - mean;
      square += d * d;
    }
    ob[r][half] = mean;
    ob[r][2 + half] = vec_sum(square);
  }
}
static void c_max8(int n) { ROWS row_top8(oe[r], ox[r], n); }

typedef struct tile_op {
  const char *name, *engine, *text;
  void (*plain)(int n);
} tile_op;

/* On [128, 512]. */
static const tile_op tile_ops[] = {
    {"add", "vector", "tensor_tensor z, x, y, op=add", c_add},
    {"max", "vector", "tensor_tensor z, x, y, op=max", c_max},
    {"add bf16", "vector", "tensor_tensor g, h, h, op=add", c_add_bf16},
    {"x * 2 + 1", "vector", "tensor_scalar z, x, op0=mult, imm0=2.0, op1=add, imm1=1.0", c_two},
    {"(x - s) * s", "vector", "tensor_scalar z, x, op0=subtract, imm0=s, op1=mult, imm1=s",
     c_columns},
    {"x * 2 + y", "vector", "scalar_tensor_tensor z, x, y, op0=mult, imm0=2.0, op1=add", c_stt},
    {"copy", "vector", "tensor_copy z, x", c_copy},
    {"reciprocal", "vector", "reciprocal z, x", c_reciprocal},
    {"exp(x / 2 + s)", "scalar", "activate z, x, fn=exp, scale=0.5, bias=s", c_exp},
    {"exp(x + s), sums", "scalar", "activate z, x, fn=exp, bias=s, reduce=reset_reduce", c_exp_sum},
    {"exp bf16", "scalar", "activate g, h, fn=exp", c_exp_bf16},
    {"tanh", "scalar", "activate z, x, fn=tanh", c_tanh},
    {"gelu_apprx_tanh", "scalar", "activate z, x, fn=gelu_apprx_tanh", c_gelu_tanh},
    {"gelu", "scalar", "activate z, x, fn=gelu", c_gelu},
    {"silu", "scalar", "activate z, x, fn=silu", c_silu},
    {"row sum", "vector", "tensor_reduce m, x, op=add, axes=1", c_row_sum},
    {"row max", "vector", "tensor_reduce m, x, op=max, axes=1", c_row_max},
    {"transpose32 [128, 128]", "vector", "transpose32 z[:, 0:128], x[:, 0:128]", c_transpose},
    {"to bf16", "vector", "tensor_copy g, x", c_narrow},
    {"from bf16", "vector", "tensor_copy z, h", c_widen},
    {"select", "vector", "copy_predicated z, src=x, pred=p", c_select},
    {"affine_select", "gpsimd",
     "affine_select z, x, 0.0, pattern=[[1, C]], multiplier=-1, cmp=is_ge", c_affine},
    {"scan", "vector", "tensor_tensor_scan z, x, y, 0.0, op0=mult, op1=add", c_scan},
    {"bn_stats", "vector", "bn_stats b, x", c_stats},
    {"max8", "vector", "max8 e, x", c_max8},
};

/* On [128, 8] and [128, 1]. */
static const tile_op small_ops[] = {
    {"tensor_tensor", "vector", "tensor_tensor z, x, y, op=add", NULL},
    {"tensor_scalar", "vector", "tensor_scalar z, x, op0=mult, imm0=2.0", NULL},
    {"activate", "scalar", "activate z, x, fn=exp", NULL},
    {"reduce", "vector", "tensor_reduce m, x, op=add, axes=1", NULL},
    {"copy", "vector", "tensor_copy z, x", NULL},
};

#endif
