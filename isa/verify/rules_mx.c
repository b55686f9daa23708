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
/* Example: data of 128 partitions has scales in 0-3, 32-35, 64-67 and 96-99: 100
 * partitions with what is between, which is 128 - 28. */
static bool scales(const isa_ck *c, int f, int g) {
  const isa_ap *s = isa_ck_at(c, f), *x = isa_ck_at(c, g);
  unsigned least = x->nparts - 28u;
  if (!isa_ck_types(c, f, SCALE_TYPES) || !isa_ck_fixed(c, f) || !isa_ck_fixed(c, g) ||
      !isa_ck_parts_multiple(c, g, 32) || !isa_ck_count(c, f, isa_ap_elems(x)))
    return false;
  /* 0, 4, 8 or 12: four operands may have their scales in one quadrant. */
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
  int dst = F(QUANTIZE_MX, dst), src = F(QUANTIZE_MX, src), scale = F(QUANTIZE_MX, scale);
  /* Four numbers go into one packed element, so dst has a quarter of src's columns. */
  const uint32_t from = ISA_CK_TYPE(ISA_float16) | ISA_CK_TYPE(ISA_bfloat16);
  if (!isa_ck_types(c, dst, MXFP8_TYPES) || !isa_ck_types(c, src, from) || !isa_ck_fixed(c, src) ||
      !isa_ck_agree_parts(c, dst, src))
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
  return isa_ck_count(c, dst, isa_ap_elems(x) / 4) && scales(c, scale, dst) &&
         isa_ck_apart(c, scale, dst);
}

/* Only rows are tiled: 128, 64 or 32 of them, at a multiple of that. 0: all. */
static bool tiling(const isa_ck *c, int fpos, int fsize) {
  unsigned pos = isa_ck_byte(c, fpos), size = isa_ck_byte(c, fsize);
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
/* Data and scales that went by different indices would pair a block with another one's
 * scale. */
static bool indirection(const isa_ck *c, int f, int fscale, unsigned row) {
  const isa_ap *x = isa_ck_at(c, f), *s = isa_ck_at(c, fscale);
  if (x->index_kind != s->index_kind || x->index != s->index)
    return isa_fail(c->e, ISA_ILLEGAL, fscale,
                    "%s and %s take .indirect with the same index, or neither does",
                    c->form->fields[f].name, c->form->fields[fscale].name);
  if (x->index_kind && row)
    return isa_fail(c->e, ISA_ILLEGAL, f, ".indirect with tile_row=%u: it must be 0", row);
  return true;
}

/* What both instructions ask of an operand of the array. */
static bool operand(const isa_ck *c, int f, int fscale, unsigned row, unsigned rows) {
  const isa_ap *x = isa_ck_at(c, f);
  if (!indirection(c, f, fscale, row)) return false;
  if (!isa_ck_types(c, f, MX_TYPES) || !scales(c, fscale, f)) return false;
  /* rows 0: no tile, the whole array. */
  if (rows && x->nparts > rows)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d partitions: the tile has %u rows", x->nparts, rows);
  return true;
}

/* m: columns of the stationary operand, at most those of the array. */
bool isa_rule_ldwmx(const isa_ck *c) {
  const struct isa_LDWEIGHTS_MX *u = &c->in->u.LDWEIGHTS_MX;
  int src = F(LDWEIGHTS_MX, src);
  uint64_t m = isa_ap_elems(isa_ck_ap(c, u->src));
  if (!tiling(c, F(LDWEIGHTS_MX, tile_row), F(LDWEIGHTS_MX, tile_rows)) ||
      !operand(c, src, F(LDWEIGHTS_MX, scale), u->tile_row, u->tile_rows))
    return false;
  if (m > 128 || m % 2)
    return isa_fail(
        c->e, ISA_ILLEGAL, src,
        "%" PRIu64 " columns: the stationary operand must have an even number, at most 128", m);
  return true;
}

/* K and M are the stationary operand's, which is state: what is checked here needs no
 * state. */
bool isa_rule_mmmx(const isa_ck *c) {
  const struct isa_MATMUL_MX *u = &c->in->u.MATMUL_MX;
  const isa_ap *dst = isa_ck_ap(c, u->dst);
  int fdst = F(MATMUL_MX, dst), fsrc = F(MATMUL_MX, src);
  uint64_t n = isa_ap_elems(isa_ck_ap(c, u->src));
  if (!isa_ck_types(c, fdst, ISA_CK_TYPE(ISA_float32) | ISA_CK_TYPE(ISA_bfloat16)) ||
      !tiling(c, F(MATMUL_MX, tile_row), F(MATMUL_MX, tile_rows)) ||
      !operand(c, fsrc, F(MATMUL_MX, scale), u->tile_row, u->tile_rows) || !isa_ck_fixed(c, fdst) ||
      !isa_ck_count(c, fdst, n))
    return false;
  /* A sum of 2 bytes needs half the room of one of 4. */
  uint32_t most = dst->dtype == ISA_bfloat16 ? c->p->target->mm_bf16 : c->p->target->mm_fp32;
  if (n > most)
    return isa_fail(c->e, ISA_ILLEGAL, fsrc,
                    "%" PRIu64 " columns: %s multiplies at most %" PRIu32 " into %s", n,
                    c->p->target->name, most, isa_dtypes[dst->dtype].name);
  /* psum_zero's elements become fresh: they are cleared in the type of the sums. */
  if (u->psum_zero && isa_ck_ap(c, u->psum_zero)->dtype != dst->dtype)
    return isa_fail(c->e, ISA_ILLEGAL, F(MATMUL_MX, psum_zero), "%s: dst is %s",
                    isa_dtypes[isa_ck_ap(c, u->psum_zero)->dtype].name,
                    isa_dtypes[dst->dtype].name);
  return true;
}
