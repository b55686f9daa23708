/* Constraints of the MX formats (nki.isa: quantize_mx, nc_matmul_mx). What the loaded stationary
 * operand must have is state, and the VM's check. */
#include "rules.h"

#include <inttypes.h>

#define SCALE_TYPES (ISA_CK_TYPE(ISA_float8_e8m0fnu) | ISA_CK_TYPE(ISA_uint8))
#define MXFP8_TYPES (ISA_CK_TYPE(ISA_float8_e5m2_x4) | ISA_CK_TYPE(ISA_float8_e4m3fn_x4))
#define MX_TYPES (MXFP8_TYPES | ISA_CK_TYPE(ISA_float4_e2m1fn_x4))

/* Scales of the data operand of field g: a column each, and four partitions for each 32 of the
 * data, at the same place of successive quadrants. An operand of fewer partitions than
 * its quadrants have ends with the fourth of the last; one that is packed with others starts 4,
 * 8 or 12 partitions into its quadrant. */
static bool scales(const isa_ck *c, int f, uint32_t index, int g, uint32_t data) {
  const isa_ap *s = isa_ck_ap(c, index), *x = isa_ck_ap(c, data);
  unsigned least = x->nparts - 28u;
  if (!isa_ck_types(c, f, index, SCALE_TYPES) || !isa_ck_fixed(c, f, index) ||
      !isa_ck_fixed(c, g, data) || !isa_ck_parts_multiple(c, g, data, 32) ||
      !isa_ck_count(c, f, index, isa_ap_elems(x)))
    return false;
  if (s->part % 4 || s->part % 32 > 12)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "start partition %d: scales start 0, 4, 8 or 12 into a quadrant", s->part);
  if (s->nparts < least || s->nparts > x->nparts)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%d partitions: the scales of %d lie in %u, or up to %d with what is between",
                    s->nparts, x->nparts, least, x->nparts);
  return true;
}

bool isa_rule_quant(const isa_ck *c) {
  const struct isa_QUANTIZE_MX *u = &c->in->u.QUANTIZE_MX;
  int dst = ISA_F_QUANTIZE_MX_dst, src = ISA_F_QUANTIZE_MX_src, scale = ISA_F_QUANTIZE_MX_scale;
  const uint32_t from = ISA_CK_TYPE(ISA_float16) | ISA_CK_TYPE(ISA_bfloat16);
  if (!isa_ck_types(c, dst, u->dst, MXFP8_TYPES) || !isa_ck_types(c, src, u->src, from) ||
      !isa_ck_fixed(c, src, u->src) || !isa_ck_agree_parts(c, dst, u->dst, src, u->src))
    return false;
  const isa_ap *x = isa_ck_ap(c, u->src);
  if (x->space != ISA_SBUF)
    return isa_fail(c->e, ISA_ILLEGAL, src, "in %s: quantize_mx reads sbuf",
                    isa_space_name(x->space));
  if (isa_ap_elems(x) % 4)
    return isa_fail(c->e, ISA_ILLEGAL, src,
                    "%" PRIu64 " elements per partition: they must be a "
                    "multiple of 4",
                    isa_ap_elems(x));
  return isa_ck_count(c, dst, u->dst, isa_ap_elems(x) / 4) &&
         scales(c, scale, u->scale, dst, u->dst) && isa_ck_apart(c, scale, u->scale, dst, u->dst);
}

/* Only rows are tiled: 128, 64 or 32 of them, at a multiple of that. 0: all. */
static bool tiling(const isa_ck *c, int fpos, unsigned pos, int fsize, unsigned size) {
  if (size == 0 && pos == 0) return true;
  if (size != 128 && size != 64 && size != 32)
    return isa_fail(c->e, ISA_ILLEGAL, fsize, "%u: a tile has 128, 64 or 32 rows", size);
  if (pos % size != 0 || pos + size > 128)
    return isa_fail(c->e, ISA_ILLEGAL, fpos, "%u: the position of a tile of %u is a multiple of it",
                    pos, size);
  return true;
}

/* An operand and its scales are one tensor: gathered by the same index, and then by the whole
 * array, or not at all. */
static bool indirection(const isa_ck *c, int f, const isa_ap *x, int fscale, const isa_ap *s,
                        unsigned row) {
  if (x->index_kind != s->index_kind || x->index != s->index)
    return isa_fail(c->e, ISA_ILLEGAL, fscale,
                    "%s and %s take .indirect with the same index, or neither does",
                    c->form->fields[f].name, c->form->fields[fscale].name);
  if (x->index_kind && row)
    return isa_fail(c->e, ISA_ILLEGAL, f, ".indirect with tile_row=%u: it must be 0", row);
  return true;
}

/* What both instructions ask of an operand of the array. */
static bool operand(const isa_ck *c, int f, uint32_t src, int fscale, uint32_t scale, unsigned row,
                    unsigned rows) {
  const isa_ap *x = isa_ck_ap(c, src);
  if (!indirection(c, f, x, fscale, isa_ck_ap(c, scale), row)) return false;
  if (!isa_ck_types(c, f, src, MX_TYPES) || !scales(c, fscale, scale, f, src)) return false;
  if (rows && x->nparts > rows)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d partitions: the tile has %u rows", x->nparts, rows);
  return true;
}

bool isa_rule_ldwmx(const isa_ck *c) {
  const struct isa_LDWEIGHTS_MX *u = &c->in->u.LDWEIGHTS_MX;
  int src = ISA_F_LDWEIGHTS_MX_src;
  uint64_t m = isa_ap_elems(isa_ck_ap(c, u->src));
  if (!tiling(c, ISA_F_LDWEIGHTS_MX_tile_row, u->tile_row, ISA_F_LDWEIGHTS_MX_tile_rows,
              u->tile_rows) ||
      !operand(c, src, u->src, ISA_F_LDWEIGHTS_MX_scale, u->scale, u->tile_row, u->tile_rows))
    return false;
  if (m > 128 || m % 2)
    return isa_fail(c->e, ISA_ILLEGAL, src,
                    "%" PRIu64 " columns: the stationary operand has an even number, at most 128",
                    m);
  return true;
}

bool isa_rule_mmmx(const isa_ck *c) {
  const struct isa_MATMUL_MX *u = &c->in->u.MATMUL_MX;
  const isa_ap *dst = isa_ck_ap(c, u->dst);
  int fdst = ISA_F_MATMUL_MX_dst, fsrc = ISA_F_MATMUL_MX_src;
  uint64_t n = isa_ap_elems(isa_ck_ap(c, u->src));
  if (!isa_ck_types(c, fdst, u->dst, ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_bfloat16)) ||
      !tiling(c, ISA_F_MATMUL_MX_tile_row, u->tile_row, ISA_F_MATMUL_MX_tile_rows, u->tile_rows) ||
      !operand(c, fsrc, u->src, ISA_F_MATMUL_MX_scale, u->scale, u->tile_row, u->tile_rows) ||
      !isa_ck_fixed(c, fdst, u->dst) || !isa_ck_count(c, fdst, u->dst, n))
    return false;
  uint32_t most = dst->dtype == ISA_bfloat16 ? c->p->target->mm_bf16 : c->p->target->mm_fp32;
  if (n > most)
    return isa_fail(c->e, ISA_ILLEGAL, fsrc,
                    "%" PRIu64 " columns: %s multiplies at most %" PRIu32 " into %s", n,
                    c->p->target->name, most, isa_dtypes[dst->dtype].name);
  if (u->psum_zero && isa_ck_ap(c, u->psum_zero)->dtype != dst->dtype)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_F_MATMUL_MX_psum_zero, "%s: dst is %s",
                    isa_dtypes[isa_ck_ap(c, u->psum_zero)->dtype].name,
                    isa_dtypes[dst->dtype].name);
  return true;
}
