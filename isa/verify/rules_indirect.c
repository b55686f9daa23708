/* Gen4's `.indirect`: an operand whose elements lie at offsets that an index vector gives, the same
 * in all partitions (nki.language: indirect; nki.isa: the paragraphs on tensor indirection).
 * Element i is at offset index[i mod G, i / G] from the operand's first, G being 32 on the tensor
 * engine and 16 on the others. The pattern's dimensions are the operand's shape; as no step has a
 * meaning they are those of dense order. */
#include "rules.h"

#include <inttypes.h>

static bool is_indirect(const isa_ap *ap) { return ap->index_kind == ISA_INDEX_indirect; }

static const isa_ap *index_of(const isa_ck *c, const isa_ap *ap) { return isa_ck_ap(c, ap->index); }

unsigned isa_index_group(unsigned engine) { return engine == ISA_ENG_tensor ? 32 : 16; }

/* A step other than that of dense order would suggest a place, which the index alone
 * decides. */
static bool dense(const isa_ck *c, int f, const isa_ap *ap) {
  int64_t step = 1;
  for (int d = ap->ndim; d-- > 0;) {
    if (ap->dim[d].num > 1 && ap->dim[d].step != step)
      return isa_fail(c->e, ISA_ILLEGAL, f,
                      "dimension %d of an .indirect operand has step %" PRId64 ", not %" PRId64
                      ": the index gives the places",
                      d, ap->dim[d].step, step);
    step *= ap->dim[d].num;
  }
  return true;
}

static bool index_fits(const isa_ck *c, int f, const isa_ap *ap) {
  const isa_ap *index = index_of(c, ap);
  /* rows: with fewer elements than a group, the index needs no more partitions than
   * elements. */
  uint64_t n = isa_ap_elems(ap), group = isa_index_group(c->engine), rows = n < group ? n : group;
  if (isa_dtype_bytes(index->dtype) > 4)
    return isa_fail(c->e, ISA_ILLEGAL, f, "the index of .indirect is %s: at most 32 bits",
                    isa_dtypes[index->dtype].name);
  if (index->part % 32)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index of .indirect starts at partition %d: it must be a multiple of 32",
                    index->part);
  /* More room than needed is fine: a kernel may use one index tile for several lengths. */
  if (index->nparts < rows || isa_ap_elems(index) * group < n)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the index of .indirect is %d x %" PRIu64 ": %" PRIu64
                    " offsets lie in %" PRIu64 " x %" PRIu64,
                    index->nparts, isa_ap_elems(index), n, rows, (n + group - 1) / group);
  return true;
}

/* The source that a scattered destination's index goes by: the first that could be indirect. */
static const isa_ap *main_source(const isa_ck *c) {
  for (int f = 0; f < c->form->nfields; f++) {
    const isa_field *fd = &c->form->fields[f];
    if (fd->kind == ISA_K_AP && (fd->arg & (AP_R | AP_IND)) == (AP_R | AP_IND))
      return isa_ck_ap(c, *(const isa_t_AP *)isa_member_c(c->in, fd));
  }
  return NULL;
}

/* The index is read in the lanes of the source: both begin at the same partition. */
/* The scales of an MX operand, gathered with it, sit in partitions of their own. */
static bool source_start(const isa_ck *c, int f, const isa_ap *ap) {
  bool scales = c->form->fields[f].arg & AP_SCALES;
  if (scales || ap->part == index_of(c, ap)->part) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  "start partition %d, but its index starts at %d: both must start at the same one",
                  ap->part, index_of(c, ap)->part);
}

/* Scattering: the index travels with the data, in the source's lanes. */
static bool scatter_start(const isa_ck *c, int f, const isa_ap *ap) {
  const isa_ap *src = main_source(c);
  unsigned at = index_of(c, ap)->part, want = at;
  if (c->engine == ISA_ENG_scalar && ap->space == ISA_PSUM)
    return isa_fail(c->e, ISA_ILLEGAL, f, "the scalar engine does not scatter to psum");
  /* A gathered PSUM source has lanes of its own: those of its index. */
  if (src && src->space == ISA_SBUF)
    want = src->part;
  else if (src && is_indirect(src))
    want = index_of(c, src)->part;
  if (at == want) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  "the index of .indirect starts at partition %u: it must be %u, as for the source",
                  at, want);
}

static bool no_tile(const isa_ck *c, int f, unsigned row, unsigned col) {
  if (!row && !col) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, ".indirect with a tile at (%u, %u): it must be (0, 0)", row,
                  col);
}

static bool multiplied(const isa_ck *c, int f, const isa_ap *ap) {
  switch (ap->dtype) {
  case ISA_float16:
  case ISA_bfloat16:
  case ISA_float8_e4m3:
  case ISA_float8_e5m2:
  case ISA_float8_e4m3fn: return true;
  default:
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s: the tensor engine gathers float16, bfloat16, float8_e4m3, float8_e5m2 "
                    "and float8_e4m3fn",
                    isa_dtypes[ap->dtype].name);
  }
}

/* What single instructions ask beyond their form's flags. */
static bool instruction(const isa_ck *c, int f, const isa_ap *ap, bool writes) {
  switch (c->in->op) {
  case ISA_OP_ldweights: {
    const struct isa_LDWEIGHTS *u = &c->in->u.LDWEIGHTS;
    return no_tile(c, f, u->tile_row, u->tile_col) && multiplied(c, f, ap);
  }
  case ISA_OP_matmul: {
    const struct isa_MATMUL *u = &c->in->u.MATMUL;
    if (!no_tile(c, f, u->tile_row, u->tile_col)) return false;
    if (!writes && u->transpose)
      return isa_fail(c->e, ISA_ILLEGAL, f, ".indirect: a transpose moves its operand in order");
    return writes || multiplied(c, f, ap);
  }
  case ISA_OP_matmul_mx: return no_tile(c, f, c->in->u.MATMUL_MX.tile_row, 0);
  case ISA_OP_tensor_copy:
    if (c->engine != ISA_ENG_gpsimd) return true;
    return isa_fail(c->e, ISA_ILLEGAL, f, ".indirect: tensor_copy takes it on vector and scalar");
  default: return true;
  }
}

/* For every instruction: most forms have no field with AP_IND, and then nothing is left
 * to do. */
bool isa_ck_indirect(const isa_ck *c) {
  for (int f = 0; f < c->form->nfields; f++) {
    const isa_field *fd = &c->form->fields[f];
    uint32_t index = fd->kind == ISA_K_AP ? *(const isa_t_AP *)isa_member_c(c->in, fd) : 0;
    if (!index || !is_indirect(isa_ck_ap(c, index))) continue;
    const isa_ap *ap = isa_ck_ap(c, index);
    bool writes = fd->arg & AP_W;
    if (!dense(c, f, ap) || !index_fits(c, f, ap) || !instruction(c, f, ap, writes) ||
        !(writes ? scatter_start(c, f, ap) : source_start(c, f, ap)))
      return false;
  }
  return true;
}
