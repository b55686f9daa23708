/* Constraints of the tensor engine. What the loaded stationary operand must have (its K against
 * the moving one's, its M against dst's partitions, its type) is state, and the VM's check. */
#include "rules.h"

#include <inttypes.h>

/* Floats that the array multiplies: it has no integers. */
static bool input_type(const isa_ck *c, int f, unsigned dtype) {
  switch (dtype) {
  case ISA_float8_e3m4:
  case ISA_float8_e4m3:
  case ISA_float8_e5m2:
  case ISA_bfloat16:
  case ISA_float16:
  case ISA_tfloat32:
  case ISA_float32: return true;
  /* Its values up to 448 came with gen4's array; e4m3 ends at 240. */
  case ISA_float8_e4m3fn:
    if (c->p->target->gen >= ISA_GEN4) return true;
    return isa_fail(c->e, ISA_ILLEGAL, f, "float8_e4m3fn needs gen4: %s is gen%d",
                    c->p->target->name, c->p->target->gen);
  default:
    return isa_fail(c->e, ISA_ILLEGAL, f, "the tensor engine does not multiply %s",
                    isa_dtypes[dtype].name);
  }
}

/* double_row packs two fp8 rows of the contraction into the outermost free dimension. cols is the
 * tile's number of columns. */
/* [128, 2, 64] of fp8 has 256 rows of the contraction and 64 columns. */
static bool double_row(const isa_ck *c, int f, const isa_ap *src, int fperf, unsigned cols) {
  const isa_dtype_row *t = &isa_dtypes[src->dtype];
  if (c->p->target->gen < ISA_GEN3)
    return isa_fail(c->e, ISA_ILLEGAL, fperf, "double_row needs gen3: %s is gen%d",
                    c->p->target->name, c->p->target->gen);
  if (cols && cols != ISA_PMAX)
    return isa_fail(c->e, ISA_ILLEGAL, fperf,
                    "double_row in a tile of %u columns: it needs all 128", cols);
  /* e3m4 has no mode for two rows. */
  if (t->bytes != 1 || src->dtype == ISA_float8_e3m4)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s: double_row takes float8_e4m3, float8_e5m2 and float8_e4m3fn", t->name);
  if (src->ndim == 0 || src->dim[0].num != 2)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "double_row needs an outermost free dimension of 2 elements");
  return true;
}

/* Tiling of the array: sizes 128, 64, from gen3 32; a position is a multiple of it. 0: all. */
static bool tiling(const isa_ck *c, int fpos, int fsize) {
  /* gen2 halves the array at most. */
  unsigned least = c->p->target->gen >= ISA_GEN3 ? 32 : 64;
  unsigned pos = isa_ck_byte(c, fpos), size = isa_ck_byte(c, fsize);
  /* Left out: one tile, the whole array. */
  if (size == 0 && pos == 0) return true;
  if (size == 0)
    return isa_fail(c->e, ISA_ILLEGAL, fsize, "%s is missing: a tile position needs a tile size",
                    c->form->fields[fsize].name);
  /* One bit set: a power of two between the bounds. */
  if (size < least || size > 128 || (size & (size - 1)))
    return isa_fail(c->e, ISA_ILLEGAL, fsize, "%u: a tile size is 128, 64%s", size,
                    least == 32 ? " or 32" : "; 32 needs gen3");
  if (pos % size != 0 || pos + size > 128)
    return isa_fail(c->e, ISA_ILLEGAL, fpos, "%u: the position of a tile of %u is a multiple of it",
                    pos, size);
  return true;
}

/* Partitions of an operand are rows of the array: a tile of 64 takes at most 64. */
static bool rows_fit(const isa_ck *c, int f, const isa_ap *ap, unsigned rows) {
  if (rows && ap->nparts > rows)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d partitions: the tile has %u rows", ap->nparts, rows);
  return true;
}

bool isa_rule_ldw(const isa_ck *c) {
  const struct isa_LDWEIGHTS *u = &c->in->u.LDWEIGHTS;
  const isa_ap *src = isa_ck_ap(c, u->src);
  int f = F(LDWEIGHTS, src);
  /* m: columns that stay in the array; two rows in one element halve them. */
  uint64_t m = isa_ap_elems(src);
  if (!input_type(c, f, src->dtype) ||
      !tiling(c, F(LDWEIGHTS, tile_row), F(LDWEIGHTS, tile_rows)) ||
      !tiling(c, F(LDWEIGHTS, tile_col), F(LDWEIGHTS, tile_cols)) ||
      !rows_fit(c, f, src, u->tile_rows))
    return false;
  if (u->perf == ISA_PERF_double_row) {
    if (!double_row(c, f, src, F(LDWEIGHTS, perf), u->tile_cols)) return false;
    m /= 2;
  }
  /* A tile of 32 columns holds 32 of them. */
  unsigned most = u->tile_cols ? u->tile_cols : 128u;
  if (m > most)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRIu64 " columns: the stationary operand has at most %u", m, most);
  return true;
}

/* Sums are fp32, from gen4 also bf16; a transpose moves bits, fp8 as 16-bit elements. */
static bool mm_dst_type(const isa_ck *c, const isa_ap *dst, const isa_ap *src) {
  const struct isa_MATMUL *u = &c->in->u.MATMUL;
  int gen = c->p->target->gen, f = F(MATMUL, dst);
  unsigned d = dst->dtype;
  if (u->transpose && gen >= ISA_GEN3) {
    unsigned bytes = isa_dtype_bytes(src->dtype) == 1 ? 2 : isa_dtype_bytes(src->dtype);
    if (isa_dtype_bytes(d) == bytes) return true;
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: transposing %s gives elements of %u bytes",
                    isa_dtypes[d].name, isa_dtypes[src->dtype].name, bytes);
  }
  if (d == ISA_float32 || (d == ISA_bfloat16 && gen >= ISA_GEN4)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s: the destination of a matmul must be float32%s",
                  isa_dtypes[d].name, gen >= ISA_GEN4 ? " or bfloat16" : "");
}

/* Up to gen3 a matmul writes within one PSUM bank. A moving destination is the VM's check. */
static bool mm_bank(const isa_ck *c, const isa_ap *dst) {
  int64_t lo = 0, hi = 0;
  /* gen4 has larger sums, several banks long; a moving or scattered place is known at
   * run time only. */
  if (c->p->target->gen >= ISA_GEN4 || dst->dyn[0].kind || dst->dyn[1].kind || dst->index_kind ||
      !isa_ap_extent(dst, &lo, &hi))
    return true;
  int64_t first = dst->offset + lo, last = dst->offset + hi - 1;
  if (first / ISA_PSUM_BANK != last / ISA_PSUM_BANK)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL, dst),
                    "bytes %" PRId64 "..%" PRId64 " cross a psum bank of %d bytes", first, last,
                    ISA_PSUM_BANK);
  return true;
}

/* From gen3 transpose is a mode that moves single rows of bits; before, only a hint. */
static bool mm_transpose(const isa_ck *c) {
  const struct isa_MATMUL *u = &c->in->u.MATMUL;
  if (!u->transpose || c->p->target->gen < ISA_GEN3) return true;
  if (u->perf == ISA_PERF_double_row)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL, perf),
                    "double_row: transposing moves bits, nothing is multiplied");
  if (u->acc == ISA_ACC_add)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL, acc),
                    "add: transposing moves bits, nothing is added");
  return true;
}

/* Its stationary operand was loaded before, so K and M are compared as it runs. */
bool isa_rule_mm(const isa_ck *c) {
  const struct isa_MATMUL *u = &c->in->u.MATMUL;
  const isa_ap *dst = isa_ck_ap(c, u->dst), *src = isa_ck_ap(c, u->src);
  const isa_target *t = c->p->target;
  int fsrc = F(MATMUL, src);
  if (!input_type(c, fsrc, src->dtype) || !mm_dst_type(c, dst, src) ||
      !tiling(c, F(MATMUL, tile_row), F(MATMUL, tile_rows)) ||
      !tiling(c, F(MATMUL, tile_col), F(MATMUL, tile_cols)) ||
      !rows_fit(c, fsrc, src, u->tile_rows) || !mm_transpose(c))
    return false;
  /* dst's partitions are the array's columns. */
  if (u->tile_cols && dst->nparts > u->tile_cols)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL, dst), "%d partitions: the tile has %u columns",
                    dst->nparts, u->tile_cols);
  bool pairs = u->perf == ISA_PERF_double_row;
  if (pairs && !double_row(c, fsrc, src, F(MATMUL, perf), u->tile_cols)) return false;
  uint64_t n = isa_ap_elems(src) / (pairs ? 2 : 1);
  /* The number of moving columns is limited by the room for their sums. */
  uint32_t most = dst->dtype == ISA_bfloat16 ? t->mm_bf16 : t->mm_fp32;
  if (n != isa_ap_elems(dst))
    return isa_fail(c->e, ISA_ILLEGAL, fsrc, "%" PRIu64 " columns: dst has %" PRIu64, n,
                    isa_ap_elems(dst));
  if (n > most)
    return isa_fail(c->e, ISA_ILLEGAL, fsrc,
                    "%" PRIu64 " columns: %s multiplies at most %" PRIu32 " into %s", n, t->name,
                    most, isa_dtypes[dst->dtype].name);
  /* A register may give n, on both sides or on none. */
  bool ds = dst->size_dim > 1, ss = src->size_dim > 1;
  if (ds != ss || (ds && (dst->size_reg != src->size_reg ||
                          dst->dim[dst->size_dim - 2].num != src->dim[src->size_dim - 2].num)))
    return isa_fail(c->e, ISA_ILLEGAL, fsrc,
                    "a number of columns in a register must be the same for dst and src");
  if (u->psum_zero && isa_ck_ap(c, u->psum_zero)->dtype != dst->dtype)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL, psum_zero), "%s: dst is %s",
                    isa_dtypes[isa_ck_ap(c, u->psum_zero)->dtype].name,
                    isa_dtypes[dst->dtype].name);
  return mm_bank(c, dst);
}
