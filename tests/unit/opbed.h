/* A bed for the data-path handlers: two memories, operands written as text, and a reference for
 * element types that shares nothing with the library. A test writes what it expects into `want`,
 * runs the handler on `sbuf` or `psum`, and compares every byte of both. */
#ifndef TEST_OPBED_H
#define TEST_OPBED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vm/op/op.h"

enum { REGION = 10240, PITCH = 3 * REGION + 64, PSUM_PITCH = ISA_PSUM_BYTES + 64 };

typedef struct bed {
  vm_dp d;
  vm_kern k;
  vm_weights w;
  uint8_t sbuf[ISA_PMAX * PITCH], want[ISA_PMAX * PITCH];
  uint8_t psum[ISA_PMAX * PSUM_PITCH], want_psum[ISA_PMAX * PSUM_PITCH];
  uint8_t written[VM_PSUM_SLOTS];
  float row[VM_ROWS][VM_ROW], scratch[VM_SCRATCH];
  uint32_t seed;
} bed;

static inline bed *bed_new(unsigned engine) {
  bed *b = calloc(1, sizeof *b);
  assert_non_null(b);
  assert_true(vm_kern_select(getenv("SOMA_SIMD"), &b->k));
  b->d.k = &b->k;
  b->d.target = &isa_targets[ISA_trn2];
  b->d.engine = (uint8_t)engine;
  b->d.weights = &b->w;
  b->d.psum = b->psum;
  b->d.psum_pitch = PSUM_PITCH;
  b->d.psum_written = b->written;
  b->d.row = b->row;
  b->d.scratch = b->scratch;
  memset(b->written, 0, sizeof b->written);
  b->seed = 1;
  return b;
}

static inline uint32_t draw(bed *b) {
  b->seed = b->seed * 1664525 + 1013904223;
  return b->seed ^ b->seed >> 15;
}

/* dims: "num:step num:step", steps in elements, outermost first. */
static inline vm_view view_at(uint8_t *at, size_t pitch, unsigned dtype, unsigned part,
                              unsigned parts, const char *dims) {
  vm_view v = {.at = at, .dtype = (uint8_t)dtype, .ndim = 1, .part = (uint16_t)part, .elems = 1};
  v.esize = isa_dtypes[dtype].bytes;
  v.num[0] = parts;
  v.step[0] = (int64_t)pitch;
  while (*dims) {
    char *end;
    v.num[v.ndim] = (uint32_t)strtoul(dims, &end, 10);
    v.step[v.ndim] = strtol(end + 1, &end, 10) * v.esize;
    v.elems *= v.num[v.ndim++];
    dims = end;
    while (*dims == ' ') dims++;
  }
  vm_view_runs(&v);
  return v;
}
/* In region 0, 1 or 2 of SBUF, `offset` elements into it. */
static inline vm_view sb(bed *b, unsigned dtype, unsigned part, unsigned parts, unsigned region,
                         size_t offset, const char *dims) {
  vm_view v = view_at(b->sbuf + part * PITCH + region * REGION + offset * isa_dtypes[dtype].bytes,
                      PITCH, dtype, part, parts, dims);
  v.space = ISA_SBUF;
  return v;
}
static inline vm_view ps(bed *b, unsigned dtype, unsigned part, unsigned parts, size_t offset,
                         const char *dims) {
  vm_view v = view_at(b->psum + part * PSUM_PITCH + offset * isa_dtypes[dtype].bytes, PSUM_PITCH,
                      dtype, part, parts, dims);
  v.space = ISA_PSUM;
  return v;
}

static inline vm_num imm(float x) { return (vm_num){.given = true, .imm = x}; }
static inline vm_num vec(vm_view v) { return (vm_num){.given = true, .v = v}; }
static const vm_num no_num;

/* Address of element i, by its own arithmetic. */
static inline uint8_t *elem_at(const vm_view *v, uint32_t p, uint64_t i) {
  uint8_t *at = v->at + (int64_t)p * v->step[0];
  for (unsigned d = v->ndim; d-- > 1; i /= v->num[d]) at += (int64_t)(i % v->num[d]) * v->step[d];
  return at;
}
static inline uint32_t get(const vm_view *v, uint32_t p, uint64_t i) {
  uint32_t x = 0;
  memcpy(&x, elem_at(v, p, i), v->esize);
  return x;
}
static inline void put(const vm_view *v, uint32_t p, uint64_t i, uint32_t bits) {
  memcpy(elem_at(v, p, i), &bits, v->esize);
}
static inline void putf(const vm_view *v, uint32_t p, uint64_t i, float x) {
  put(v, p, i, isa_f32_bits(x));
}
static inline float getf(const vm_view *v, uint32_t p, uint64_t i) {
  return isa_bits_f32(get(v, p, i));
}

/* The same element in the copy that holds what is expected. */
static inline void expect(bed *b, const vm_view *v, uint32_t p, uint64_t i, uint32_t bits) {
  uint8_t *at = elem_at(v, p, i);
  uint8_t *to = v->space == ISA_PSUM ? b->want_psum + (at - b->psum) : b->want + (at - b->sbuf);
  memcpy(to, &bits, v->esize);
}
static inline void bed_expect(bed *b) {
  memcpy(b->want, b->sbuf, sizeof b->want);
  memcpy(b->want_psum, b->psum, sizeof b->want_psum);
}
static inline void same_bytes(const uint8_t *got, const uint8_t *want, size_t n, size_t pitch,
                              const char *what) {
  if (memcmp(got, want, n) == 0) return;
  size_t i = 0;
  while (got[i] == want[i]) i++;
  i &= ~(size_t)3;
  uint32_t g, w;
  memcpy(&g, got + i, 4);
  memcpy(&w, want + i, 4);
  fail_msg("%s: partition %zu byte %zu: %08x, expected %08x", what, i / pitch, i % pitch, g, w);
}
static inline void bed_check(bed *b, const char *what) {
  same_bytes(b->sbuf, b->want, sizeof b->want, PITCH, what);
  same_bytes(b->psum, b->want_psum, sizeof b->want_psum, PSUM_PITCH, what);
}

/* ---- Reference of the element types ------------------------------------------------------- */

typedef struct ref_type {
  int e, m, bias;
  uint32_t inf, nan, max; /* inf == nan: no infinity */
} ref_type;
static inline const ref_type *ref_of(unsigned dtype) {
  static const ref_type types[ISA_NDTYPES] = {
      [ISA_float8_e3m4] = {3, 4, 3, 0x70, 0x78, 0x6f},
      [ISA_float8_e4m3] = {4, 3, 7, 0x78, 0x7c, 0x77},
      [ISA_float8_e4m3fn] = {4, 3, 7, 0x7f, 0x7f, 0x7e},
      [ISA_float8_e5m2] = {5, 2, 15, 0x7c, 0x7e, 0x7b},
      [ISA_float16] = {5, 10, 15, 0x7c00, 0x7e00, 0x7bff},
      [ISA_bfloat16] = {8, 7, 127, 0x7f80, 0x7fc0, 0x7f7f},
      [ISA_float32] = {8, 23, 127, 0x7f800000, 0x7fc00000, 0},
  };
  return types[dtype].e ? &types[dtype] : NULL;
}
/* Fields of a small float to a value. */
static inline double ref_decode_small(const ref_type *t, uint32_t c) {
  uint32_t mag = c & ((1u << (t->e + t->m)) - 1);
  double s = c >> (t->e + t->m) & 1 ? -1 : 1;
  if (mag > t->inf || (mag == t->inf && t->inf == t->nan)) return NAN;
  if (mag == t->inf) return s * INFINITY;
  int e = (int)(mag >> t->m);
  double frac = mag & ((1u << t->m) - 1);
  if (e == 0) return s * ldexp(frac, 1 - t->bias - t->m);
  return s * ldexp(frac + ldexp(1, t->m), e - t->bias - t->m);
}
static inline float ref_decode(unsigned dtype, uint32_t x) {
  switch (dtype) {
  case ISA_uint8: return (float)(uint8_t)x;
  case ISA_int8: return (float)(int8_t)x;
  case ISA_uint16: return (float)(uint16_t)x;
  case ISA_int16: return (float)(int16_t)x;
  case ISA_uint32: return (float)x;
  case ISA_int32: return (float)(int32_t)x;
  case ISA_float32: return isa_bits_f32(x);
  case ISA_tfloat32: return isa_bits_f32(x & 0xffffe000);
  default: return (float)ref_decode_small(ref_of(dtype), x);
  }
}
static inline uint32_t ref_int(double x, double lo, double hi) {
  if (isnan(x)) return 0;
  x = rint(x);
  return (uint32_t)(int64_t)(x < lo ? lo : x > hi ? hi : x);
}
static inline uint32_t ref_encode_small(const ref_type *t, double x) {
  uint32_t sign = signbit(x) ? 1u << (t->e + t->m) : 0;
  int e;
  if (isnan(x)) return t->nan;
  if (isinf(x)) return t->inf == t->nan ? t->nan : sign | t->inf;
  if (x == 0) return sign;
  frexp(x, &e);
  e = e - 1 < 1 - t->bias ? 1 - t->bias : e - 1;
  double q = rint(ldexp(fabs(x), t->m - e)); /* in units of the last place */
  uint32_t c = (uint32_t)(e + t->bias - 1) * (1u << t->m) + (uint32_t)q;
  if (c >= t->inf) return t->inf == t->nan ? t->nan : sign | t->inf;
  return sign | c;
}
static inline uint32_t ref_encode(unsigned dtype, float x) {
  switch (dtype) {
  case ISA_uint8: return ref_int(x, 0, 255);
  case ISA_int8: return ref_int(x, -128, 127) & 0xff;
  case ISA_uint16: return ref_int(x, 0, 65535);
  case ISA_int16: return ref_int(x, -32768, 32767) & 0xffff;
  case ISA_uint32: return ref_int(x, 0, 4294967295.0);
  case ISA_int32: return ref_int(x, -2147483648.0, 2147483647.0);
  case ISA_float32: return isnan(x) ? 0x7fc00000 : isa_f32_bits(x);
  case ISA_tfloat32: {
    static const ref_type t = {8, 10, 127, 255u << 10, 0x1ff << 9, 0};
    return ref_encode_small(&t, x) << 13;
  }
  default: return ref_encode_small(ref_of(dtype), x);
  }
}

/* Bits that make trouble, and random ones: every fourth is one of the list (of fp32). */
static inline uint32_t hard_bits(bed *b, unsigned dtype) {
  static const uint32_t hard[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                  0xff800000, 0x7fa00001, 0xffc12345, 1,          0x80000001,
                                  0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x40200000,
                                  0x3fc00000, 0x4b800001, 0x477fe000, 0x477ff000, 0x33000000,
                                  0x4f000000, 0xcf000001, 0x3f000000};
  uint32_t r = draw(b);
  if (isa_dtypes[dtype].bytes == 4 && r % 4 == 0)
    return hard[(r >> 8) % (sizeof hard / sizeof *hard)];
  return isa_dtypes[dtype].cls == ISA_FLOAT && dtype == ISA_float32 && r % 4 == 1
             ? isa_f32_bits((float)(int32_t)(draw(b) >> 20) - 2048.0f)
             : draw(b);
}
static inline void fill(bed *b, const vm_view *v) {
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0; i < v->elems; i++) put(v, p, i, hard_bits(b, v->dtype));
}
/* Small values, so that sums do not all end in NaN; they round, so that order matters. */
static inline void fill_tame(bed *b, const vm_view *v) {
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0; i < v->elems; i++)
      put(v, p, i, ref_encode(v->dtype, (float)((int)(draw(b) >> 8) % 2000 - 1000) / 63.0f));
}

static inline float ref_alu(unsigned op, float a, float b) {
  volatile float r;
  bool ta = a != 0, tb = b != 0;
  switch (op) {
  case ISA_ALU_bypass: return a;
  case ISA_ALU_abs: return fabsf(a);
  case ISA_ALU_add: r = a + b; return r;
  case ISA_ALU_subtract: r = a - b; return r;
  case ISA_ALU_mult: r = a * b; return r;
  case ISA_ALU_reciprocal: r = 1.0f / a; return r;
  case ISA_ALU_max:
  case ISA_ALU_min:
    if (isnan(a)) return b;
    if (isnan(b)) return a;
    if (a == b) return (op == ISA_ALU_max) == !!signbit(a) ? b : a;
    return (a > b) == (op == ISA_ALU_max) ? a : b;
  case ISA_ALU_is_equal: return a == b;
  case ISA_ALU_not_equal: return a != b;
  case ISA_ALU_is_ge: return a >= b;
  case ISA_ALU_is_gt: return a > b;
  case ISA_ALU_is_le: return a <= b;
  case ISA_ALU_is_lt: return a < b;
  case ISA_ALU_logical_and: return ta && tb;
  case ISA_ALU_logical_or: return ta || tb;
  case ISA_ALU_logical_xor: return ta != tb;
  default: fail_msg("no reference for operator %u", op); return 0;
  }
}

/* ---- Shapes: three operands of the same elements, laid out in every way ------------------- */

typedef struct shape {
  const char *name;
  unsigned part, parts;
  const char *dst, *a, *b;
  unsigned dst_at, a_at, b_at; /* offset in the region, elements */
} shape;
static const shape shapes[] = {
    {"one element", 0, 1, "1:1", "1:1", "1:1", 3, 5, 0},
    {"columns", 0, 128, "1:1", "1:1", "1:1", 1, 2, 3},
    {"row", 32, 5, "7:1", "7:1", "7:1", 0, 1, 2},
    {"long rows", 64, 3, "2500:1", "2500:1", "2500:1", 0, 0, 0},
    {"strides", 0, 4, "6:2", "6:-3", "6:0", 1, 100, 4},
    {"all partitions", 0, 128, "33:1", "33:1", "33:1", 0, 0, 0},
    {"transposed", 96, 2, "3:40 5:1", "5:1 3:7", "15:1", 0, 0, 0},
    {"long runs", 0, 2, "3:850 800:1", "2400:1", "4:0 600:1", 0, 0, 0},
    {"unit dimensions", 0, 3, "1:9 4:2 1:5 2:1", "8:-1 1:3", "2:4 4:1", 2, 9, 1},
    {"outer broadcast", 0, 3, "3:100 9:3 7:1", "3:0 9:0 7:1", "3:9 9:1 7:0", 0, 0, 0},
    {"pairs far apart", 0, 2, "1100:2 2:1", "2:1 1100:2", "2200:-1", 0, 0, 2300},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

#endif
