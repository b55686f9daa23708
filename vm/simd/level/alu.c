/* The ALU operators over arrays, and scale-and-bias. See simd/alu.h for what each computes. */
#include "../alu.h"

#include <string.h>

/* A function for each operator and shape: two vectors, vector and scalar, scalar and vector. */
#define CALLS(value_of_element) \
  for (size_t i = 0; i < n; i++) d[i] = value_of_element
#define LOOP(value_of_element) KERN_LOOP CALLS(value_of_element)

/* Eight elements of each row: a vector or two, and no loop. Unary operators do not use b. */
#define ROWS(op, value_of_element)                                                     \
  static void rows_##op(const vm_octets *t) {                                          \
    const vm_octets s = *t;                                                            \
    float *d = s.d, v[VM_OCTET];                                                       \
    const float *a = s.a, *b = s.b;                                                    \
    KERN_STEP_LOOP                                                                     \
    for (size_t r = 0; r < s.rows; r++, d += s.d_step, a += s.a_step, b += s.b_step) { \
      for (size_t i = 0; i < VM_OCTET; i++) v[i] = value_of_element;                   \
      for (size_t i = 0; i < VM_OCTET; i++) d[i] = v[i];                               \
    }                                                                                  \
  }

#define SHAPES(op, value, LOOP)                                                                 \
  KERN_INLINE float one_##op(float a, float b) { return value; }                                \
  static void vv_##op(float *d, const float *a, const float *b, size_t n) {                     \
    LOOP(one_##op(a[i], b[i]));                                                                 \
  }                                                                                             \
  static void vs_##op(float *d, const float *a, float s, size_t n) { LOOP(one_##op(a[i], s)); } \
  static void sv_##op(float *d, float s, const float *a, size_t n) { LOOP(one_##op(s, a[i])); } \
  ROWS(op, one_##op(a[i], b[i]))
#define X(op, value) SHAPES(op, value, LOOP)
ALU_BINARY(X)
#undef X

/* Both operands and the result as bfloat16, at any address. */
KERN_INLINE float from_half(const unsigned char *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return isa_bits_f32((uint32_t)v << 16);
}
KERN_INLINE void to_half(unsigned char *p, float x) { /* no NaN that is not canonical */
  uint16_t v = (uint16_t)(kern_round_at(x, 16) >> 16);
  memcpy(p, &v, sizeof v);
}
#define X(op, value)                                                         \
  static void halves_##op(void *d, const void *a, const void *b, size_t n) { \
    unsigned char *o = d;                                                    \
    const unsigned char *x = a, *y = b;                                      \
    KERN_LOOP                                                                \
    for (size_t i = 0; i < 2 * n; i += 2)                                    \
      to_half(o + i, one_##op(from_half(x + i), from_half(y + i)));          \
  }
ALU_BINARY(X)
#undef X
#define X(op, value) SHAPES(op, value, CALLS)
ALU_CALLED(X)
#undef X

/* A unary operator reads only its first operand: it is one loop, and a fill. */
#define X(op, value)                                                        \
  KERN_INLINE float one_##op(float a) { return value; }                     \
  static void vs_##op(float *d, const float *a, float s, size_t n) {        \
    (void)s;                                                                \
    LOOP(one_##op(a[i]));                                                   \
  }                                                                         \
  static void vv_##op(float *d, const float *a, const float *b, size_t n) { \
    (void)b;                                                                \
    vs_##op(d, a, 0, n);                                                    \
  }                                                                         \
  static void sv_##op(float *d, float s, const float *a, size_t n) {        \
    float v = one_##op(s);                                                  \
    (void)a;                                                                \
    LOOP(v);                                                                \
  }                                                                         \
  ROWS(op, one_##op(a[i]))
ALU_UNARY(X)
#undef X

static void scale_bias(float *d, const float *x, float scale, float bias, size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) d[i] = kern_canon(x[i] * scale + bias);
}

static void bias_scale(float *d, const float *x, float bias, float scale, size_t n) {
  KERN_LOOP
  for (size_t i = 0; i < n; i++) d[i] = kern_canon((x[i] + bias) * scale);
}

void KERN(alu_fill)(vm_kern *k) {
#define X(op, value)                     \
  k->alu_rows[ISA_ALU_##op] = rows_##op; \
  k->alu_vv[ISA_ALU_##op] = vv_##op;     \
  k->alu_vs[ISA_ALU_##op] = vs_##op;     \
  k->alu_sv[ISA_ALU_##op] = sv_##op;
  ALU_UNARY(X)
  ALU_BINARY(X)
  ALU_CALLED(X)
#undef X
#define X(op, value) k->alu_halves[ISA_ALU_##op] = halves_##op;
  ALU_BINARY(X)
#undef X
  k->scale_bias = scale_bias;
  k->bias_scale = bias_scale;
}
