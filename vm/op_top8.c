/* The eight largest of a row: max8. */
#include "op.h"

/* An order of floats as integers: NaN first, then -inf up to +inf, -0 below +0. */
static int32_t key_of(float x) {
  uint32_t u = isa_f32_bits(x), mag = u & 0x7fffffff;
  if (x != x) return INT32_MIN;
  return u >> 31 ? -1 - (int32_t)mag : (int32_t)mag;
}

static float float_of(int32_t key) {
  if (key == INT32_MIN) return isa_bits_f32(0x7fc00000);
  return isa_bits_f32(key < 0 ? 0x80000000u | (uint32_t)(-1 - key) : (uint32_t)key);
}

/* top is descending; x takes its place and the least falls out. */
static void insert(int32_t top[8], int32_t x) {
  int i = 7;
  for (; i > 0 && top[i - 1] < x; i--) top[i] = top[i - 1];
  top[i] = x;
}

vm_verdict op_max8(vm_dp *d, const struct vm_UNARY *a) {
  for (uint32_t p = 0; p < a->dst.num[0] && a->src.elems; p++) {
    int32_t top[8];
    float out[8];
    for (int i = 0; i < 8; i++) top[i] = INT32_MIN;
    for (uint64_t i = 0; i < a->src.elems; i += VM_ROW) {
      size_t n = vm_piece(a->src.elems, i);
      const float *x = vm_in(d, d->row[0], &a->src, p, i, n);
      for (size_t j = 0; j < n; j++) {
        int32_t k = key_of(x[j]);
        if (k > top[7]) insert(top, k);
      }
    }
    for (int i = 0; i < 8; i++) out[i] = float_of(top[i]);
    vm_store(d, &a->dst, p, 0, out, 8);
  }
  return VM_RETIRE;
}
