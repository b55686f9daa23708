/* MX formats: quantize_mx, ldweights_mx, matmul_mx. A group of 32 values, eight partitions of four
 * each, shares one scale, a power of two. The scale of group r of an operand, counted along its
 * partitions, lies in partition (r / 4) * 32 + r % 4 of the scale operand: four in a quadrant. */
#include "pe.h"

enum { GROUP_PARTS = 8, LANES = VM_LANES };
enum { BLOCK = VM_COLUMNS / LANES }; /* columns of x4 elements that are processed at a time */
enum { SCALE_NAN = 255, F32_INF = 0x7f800000, F32_NAN = 0x7fc00000 };

static uint32_t scale_partition(uint32_t group) { return group / 4 * 32 + group % 4; }

/* A scale operand that covers the groups of `parts` partitions and all columns. */
static bool scales_fit(const vm_view *scale, uint32_t parts, uint64_t columns) {
  return parts % 32 == 0 && scale->elems == columns &&
         scale->num[0] > scale_partition(parts / GROUP_PARTS - 1);
}

/* ---- quantize_mx -------------------------------------------------------------------------- */

/* The exponent of the largest power of two of the element type: e4m3fn ends at 448 = 1.75 * 2^8,
 * e5m2 at 57344 = 1.75 * 2^15. */
static unsigned max_exponent(unsigned dtype) { return dtype == ISA_float8_e4m3fn_x4 ? 8 : 15; }

/* The scale's code: twice the sample of the OCP document, so that rounding the largest values does
 * not saturate. The exponent field of the largest magnitude is floor(log2) + 127; what is too small
 * for it, and a group of zeros, has the least scale, 2^-127. A group with a NaN or an infinity has
 * no scale. */
static uint32_t scale_of(uint32_t largest, unsigned dtype) {
  /* Its exponent field is all ones. */
  if (largest >= F32_INF) return SCALE_NAN;
  /* - 1 doubles the scale, see above. */
  uint32_t field = largest >> 23, down = max_exponent(dtype) - 1;
  return field > down ? field - down : 0;
}

/* One group, column j of eight rows of four values each: its elements and its scale. */
static uint32_t quantize_group(float x[GROUP_PARTS][LANES * BLOCK],
                               uint32_t out[GROUP_PARTS][BLOCK], size_t j, unsigned dtype) {
  uint32_t largest = 0;
  for (unsigned p = 0; p < GROUP_PARTS; p++) {
    for (unsigned i = 0; i < LANES; i++) {
      uint32_t mag = isa_f32_bits(x[p][LANES * j + i]) & 0x7fffffff;
      largest = mag > largest ? mag : largest;
    }
  }
  uint32_t code = scale_of(largest, dtype);
  /* A scale's code is at most 247, so its inverse is normal. */
  float inverse = isa_bits_f32(code == SCALE_NAN ? F32_NAN : (254 - code) << 23);
  for (unsigned p = 0; p < GROUP_PARTS; p++) {
    out[p][j] = 0;
    for (unsigned i = 0; i < LANES; i++) /* Four lanes in a word, the first in its lowest byte. */
      out[p][j] |= isa_lane_from_f32(dtype, x[p][LANES * j + i] * inverse) << (8 * i);
  }
  return code;
}

vm_verdict vm_op_quantize_mx(vm_dp *d, const struct vm_QUANTIZE_MX *a) {
  float x[GROUP_PARTS][LANES * BLOCK];
  uint32_t out[GROUP_PARTS][BLOCK], scale[BLOCK];
  /* Sizes in registers may be zero: then nothing is read or written. */
  if (a->dst.elems == 0 || a->dst.num[0] == 0) return VM_RETIRE;
  /* The verifier cannot compare sizes that are in registers. */
  if (a->src.elems != LANES * a->dst.elems || a->src.num[0] != a->dst.num[0] ||
      !scales_fit(&a->scale, a->dst.num[0], a->dst.elems))
    return vm_dp_fault(d, "quantize_mx: the shapes of dst, scale and src do not fit");
  for (uint32_t g = 0; g < a->src.num[0] / GROUP_PARTS; g++) {
    /* A group is eight partitions: its columns go block by block, so that the buffers have a fixed
     * size. */
    for (uint64_t i = 0; i < a->dst.elems; i += BLOCK) {
      size_t n = a->dst.elems - i < BLOCK ? (size_t)(a->dst.elems - i) : BLOCK;
      for (uint32_t p = 0; p < GROUP_PARTS; p++)
        vm_load(d, x[p], &a->src, GROUP_PARTS * g + p, LANES * i, LANES * n);
      for (size_t j = 0; j < n; j++) scale[j] = quantize_group(x, out, j, a->dst.dtype);
      for (uint32_t p = 0; p < GROUP_PARTS; p++)
        vm_store_bits(&a->dst, GROUP_PARTS * g + p, i, out[p], n);
      vm_store_bits(&a->scale, scale_partition(g), i, scale, n);
    }
  }
  return VM_RETIRE;
}

/* ---- Dequantising ------------------------------------------------------------------------- */

/* An operand of the array: x4 elements with their scales, and the value of each code of a lane. */
typedef struct quad {
  const vm_view *src, *scale;
  unsigned lane_bits;
  float value[256];
} quad;

static void quad_start(quad *q, const vm_view *src, const vm_view *scale) {
  q->src = src;
  q->scale = scale;
  q->lane_bits = isa_dtypes[src->dtype].bits / LANES;
  /* A table of 16 or 256 values is less work than a conversion of each lane. */
  for (uint32_t i = 0; i < 1u << q->lane_bits; i++) q->value[i] = isa_lane_to_f32(src->dtype, i, 0);
}

/* Columns first .. first + n - 1 of partition p, times their scales, to four rows that are ld
 * floats apart. n is at most BLOCK. */
/* Elements and scales have the same columns; eight partitions share a row of scales. */
static void dequantize(const quad *q, uint32_t p, uint64_t first, size_t n, float *out, size_t ld) {
  uint32_t x[BLOCK], code[BLOCK], mask = (1u << q->lane_bits) - 1;
  vm_load_bits(x, q->src, p, first, n);
  vm_load_bits(code, q->scale, scale_partition(p / GROUP_PARTS), first, n);
  for (size_t j = 0; j < n; j++) {
    /* One scale for the four lanes of an element. */
    float s = isa_to_f32(ISA_float8_e8m0fnu, code[j]);
    for (unsigned i = 0; i < LANES; i++)
      out[i * ld + j] = q->value[x[j] >> (i * q->lane_bits) & mask] * s;
  }
}

/* ---- The pair of the tensor engine -------------------------------------------------------- */

vm_verdict vm_op_ldweights_mx(vm_dp *d, const struct vm_LDWEIGHTS_MX *a) {
  uint32_t parts = a->src.num[0], rows = vm_pe_size(a->tile_rows);
  size_t m = (size_t)a->src.elems;
  quad q;
  if (m == 0 || parts == 0) return VM_RETIRE;
  if (m > ISA_PMAX || parts > rows || a->tile_row + rows > ISA_PMAX ||
      !scales_fit(&a->scale, parts, m))
    return vm_dp_fault(d, "ldweights_mx: %u x %u elements, scales %u x %u, into %u rows from %u",
                       (unsigned)parts, (unsigned)m, (unsigned)a->scale.num[0],
                       (unsigned)a->scale.elems, (unsigned)rows, a->tile_row);
  /* An MX tile is as wide as the array, and each of its partitions has four rows of the
   * contraction. */
  vm_pe_load(d, a->tile_row, 0,
             (vm_stationary){.k = (uint16_t)(LANES * parts),
                             .m = (uint16_t)m,
                             .rows = (uint8_t)rows,
                             .cols = ISA_PMAX,
                             .dtype = a->src.dtype,
                             .mx = true});
  /* An open product still reads the weights that are about to be replaced. */
  float *w = vm_pe_weights(d, a->tile_row, 0);
  vm_pe_finish(d->job);
  quad_start(&q, &a->src, &a->scale);
  for (uint32_t p = 0; p < parts; p++)
    dequantize(&q, p, 0, m, w + LANES * p * VM_WEIGHTS, VM_WEIGHTS);
  return VM_RETIRE;
}

/* What the verifier cannot know: which stationary operand is loaded. */
static vm_verdict check_loaded(vm_dp *d, const struct vm_MATMUL_MX *a, const vm_stationary *t) {
  if (t->k == 0)
    return vm_dp_fault(d, "matmul_mx: no stationary operand is loaded at row %u", a->tile_row);
  if (!t->mx) return vm_dp_fault(d, "matmul_mx: the stationary operand was loaded by ldweights");
  if (t->rows != vm_pe_size(a->tile_rows))
    return vm_dp_fault(d, "matmul_mx: a tile of %u rows, but ldweights_mx used %u",
                       vm_pe_size(a->tile_rows), t->rows);
  if (a->src.num[0] * LANES != t->k)
    return vm_dp_fault(d, "matmul_mx: the moving operand has %u partitions, the stationary one %u",
                       (unsigned)a->src.num[0], t->k / LANES);
  if (a->dst.num[0] != t->m)
    return vm_dp_fault(d, "matmul_mx: dst has %u partitions, the stationary operand %u columns",
                       (unsigned)a->dst.num[0], t->m);
  if (a->dst.elems != a->src.elems || !scales_fit(&a->scale, a->src.num[0], a->src.elems))
    return vm_dp_fault(d, "matmul_mx: the shapes of dst, src and scale do not fit");
  return VM_RETIRE;
}

vm_verdict vm_op_matmul_mx(vm_dp *d, const struct vm_MATMUL_MX *a) {
  quad q;
  /* As in vm_op_matmul: before anything else, and even if nothing is multiplied. */
  if (a->psum_zero.at) vm_pe_set_fresh(d, &a->psum_zero);
  if (a->src.elems == 0 || a->src.num[0] == 0) return VM_RETIRE;
  const vm_stationary *t = vm_pe_tile(d, a->tile_row, 0);
  vm_verdict verdict = check_loaded(d, a, t);
  if (verdict != VM_RETIRE) return verdict;
  quad_start(&q, &a->src, &a->scale);
  for (uint64_t i = 0; i < a->dst.elems; i += BLOCK) {
    size_t n = a->dst.elems - i < BLOCK ? (size_t)(a->dst.elems - i) : BLOCK;
    /* The four rows of a partition one after another: row LANES * p + i, as ldweights_mx put the
     * weights. */
    for (uint32_t p = 0; p < a->src.num[0]; p++)
      dequantize(&q, p, i, n, d->scratch + LANES * p * n, n);
    vm_product product = {.x = d->scratch,
                          .step = (ptrdiff_t)(n * sizeof *d->scratch),
                          .dtype = ISA_float32,
                          .n = (unsigned)n};
    vm_pe_product(d, a->tile_row, 0, &product, &a->dst, a->acc, i);
  }
  return VM_RETIRE;
}
