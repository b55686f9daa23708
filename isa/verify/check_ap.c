/* Access patterns: legal by themselves, and as operands. */
#include "../bounds.h"
#include "../operand.h"
#include "rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- A pattern by itself ------------------------------------------------------------------ */

typedef struct home_name { /* for a message */
  char s[80];
} home_name;

static home_name name_home(const isa_program *p, const isa_ap *ap) {
  home_name h;
  /* ISA_HBM has no base 0: find_home refuses it before a message is made. */
  if (ap->space == ISA_HBM) {
    const char *name = p->tensors[ap->base - 1].name;
    snprintf(h.s, sizeof h.s, "tensor %.60s", name ? name : "?");
  } else if (ap->base) {
    const char *name = p->tiles[ap->base - 1].name;
    snprintf(h.s, sizeof h.s, "tile %.60s", name ? name : "?");
  } else {
    snprintf(h.s, sizeof h.s, "a %s partition of %.50s", isa_space_name(ap->space),
             p->target->name);
  }
  return h;
}

/* The bytes that a pattern may use: its tensor, its tile, or all of a partition if base
 * is 0. */
static bool find_home(const isa_program *p, const isa_ap *ap, isa_bounds *h, isa_error *e) {
  if (ap->space == ISA_HBM) {
    if (ap->base == 0 || ap->base > p->ntensors)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "no tensor %" PRIu32 ": the program has %" PRIu32, ap->base, p->ntensors);
    const isa_tensor *t = &p->tensors[ap->base - 1];
    /* Offsets are signed, so a larger tensor could not be addressed. */
    if (t->bytes > INT64_MAX)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tensor %" PRIu32 " has %" PRIu64 " bytes",
                      ap->base, t->bytes);
    isa_ap_home(p, ap, h);
    return true;
  }
  if (ap->base > p->ntiles)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no tile %" PRIu32 ": the program has %" PRIu32,
                    ap->base, p->ntiles);
  isa_ap_home(p, ap, h);
  if (ap->base == 0) return true;
  const isa_tile *t = &p->tiles[ap->base - 1];
  if (t->space != ap->space)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is in %s, but the operand is in %s",
                    name_home(p, ap).s, isa_space_name(t->space), isa_space_name(ap->space));
  /* part is absolute: that of a tile at partition 32 lies within 32.. of the memory. */
  if (ap->part < t->part || (uint32_t)ap->part + ap->nparts > t->part + t->shape[0])
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "partitions %d..%d: %s has %d..%" PRIu32, ap->part,
                    ap->part + ap->nparts - 1, name_home(p, ap).s, t->part,
                    t->part + t->shape[0] - 1);
  return true;
}

static bool check_parts(const isa_ap *ap, isa_error *e) {
  if (ap->space == ISA_HBM) {
    if (ap->part || ap->nparts)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "an HBM operand has no partitions");
    return true;
  }
  if (ap->nparts == 0)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "0 partitions: an operand has at least 1");
  if (ap->nparts > ISA_PMAX)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%d partitions: an operand has at most %d",
                    ap->nparts, ISA_PMAX);
  if (ap->part + ap->nparts > ISA_PMAX)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "partitions %d..%d: a memory has %d (start %d, count %d)", ap->part,
                    ap->part + ap->nparts - 1, ISA_PMAX, ap->part, ap->nparts);
  return true;
}

static bool check_dims(const isa_ap *ap, isa_error *e) {
  bool hbm = ap->space == ISA_HBM;
  if (ap->ndim > ISA_MAX_DIMS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%d dimensions: a pattern has at most %d",
                    ap->ndim, ISA_MAX_DIMS);
  for (int d = 0; d < ap->ndim; d++) {
    int64_t step = ap->dim[d].step;
    uint32_t num = ap->dim[d].num;
    if (num == 0) return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "dimension %d has 0 elements", d);
    /* Engines have 16 bits for a size or a step; DMA descriptors, which reach HBM, have
     * no such limit. */
    if (!hbm && num > UINT16_MAX)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "dimension %d has %" PRIu32 " elements: at most 65535 in %s", d, num,
                      isa_space_name(ap->space));
    if (!hbm && (step < INT16_MIN || step > INT16_MAX))
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "dimension %d has step %" PRId64 ": -32768 to 32767 in %s", d, step,
                      isa_space_name(ap->space));
    /* Far more elements than any HBM has; the sum of all dimensions is bounded by
     * check_bounds. */
    if (hbm && (step < -ISA_CK_STEP || step > ISA_CK_STEP))
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "dimension %d has step %" PRId64 ": at most 2^40 in size", d, step);
  }
  /* A step of 0 repeats elements without end in sight: the number itself is bounded. */
  uint64_t n = isa_ap_elems(ap), most = hbm ? ISA_CK_HBM_ELEMS : ISA_CK_ELEMS;
  if (n > most)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu64 " elements%s: at most %" PRIu64, n,
                    hbm ? "" : " per partition", most);
  return true;
}

/* Patterns that another pattern depends on: static, in SBUF, 32-bit integers. They refer to none,
 * so the check does not recurse. */
static bool check_inner(const isa_program *p, unsigned core, uint32_t index, bool single,
                        isa_error *e);

static bool check_dyn(const isa_program *p, unsigned core, const isa_ap *ap, isa_error *e) {
  for (int i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *d = &ap->dyn[i];
    if (d->kind == ISA_DYN_none) continue;
    if (d->kind > ISA_DYN_elem)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "unknown kind %d of dynamic offset", d->kind);
    if (d->kind == ISA_DYN_reg && d->reg >= ISA_NREGS)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "register r%d: a sequencer has r0 to r%d",
                      d->reg, ISA_NREGS - 1);
    if (d->kind == ISA_DYN_elem && !check_inner(p, core, d->ap, true, e)) return false;
    /* In bytes it is bounded, whatever the type. */
    /* An element of 8 bytes has a smaller most than one of 1 byte. */
    int64_t most = ISA_CK_STRIDE / (int64_t)isa_dtype_bytes(ap->dtype);
    if (d->stride < -most || d->stride > most)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "a dynamic offset's stride of %" PRId64 " elements: at most %" PRId64
                      " in size",
                      d->stride, most);
  }
  return true;
}

/* size_dim: 0 no register, 1 the partitions, 2 + d dimension d. */
static bool check_size(const isa_ap *ap, isa_error *e) {
  if (ap->size_dim == 0) return true;
  if (ap->size_reg >= ISA_NREGS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "register r%d: a sequencer has r0 to r%d",
                    ap->size_reg, ISA_NREGS - 1);
  if (ap->size_dim == 1 && ap->space == ISA_HBM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "an HBM operand has no partitions");
  if (ap->size_dim > 1 && ap->size_dim - 2 >= ap->ndim)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "the size of dimension %d is a register: the pattern has %d", ap->size_dim - 2,
                    ap->ndim);
  return true;
}

static bool check_index(const isa_program *p, unsigned core, const isa_ap *ap, isa_error *e) {
  /* .gather picks rows of a tensor in HBM by a DMA; .indirect picks elements of SBUF or
   * PSUM by an engine. Neither does what the other one does. */
  if (ap->index_kind == ISA_INDEX_none) return true;
  if (ap->index_kind > ISA_INDEX_indirect)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "unknown kind %d of index", ap->index_kind);
  if (ap->index_kind == ISA_INDEX_gather && ap->space != ISA_HBM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, ".gather of %s: the indexed tensor must be in hbm",
                    isa_space_name(ap->space));
  if (ap->index_kind == ISA_INDEX_gather && ap->index_dim >= ap->ndim)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, ".gather of dimension %d: the pattern has %d",
                    ap->index_dim, ap->ndim);
  if (ap->index_kind == ISA_INDEX_indirect && p->target->gen < ISA_GEN4)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, ".indirect needs gen4: %s is gen%d",
                    p->target->name, p->target->gen);
  if (ap->index_kind == ISA_INDEX_indirect && ap->space == ISA_HBM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, ".indirect of hbm: only of sbuf and psum");
  return check_inner(p, core, ap->index, false, e);
}

/* Without dynamic parts the pattern is inside its home; with them it must at least fit there, and
 * the VM checks each address. */
static bool check_bounds(const isa_program *p, const isa_ap *ap, const isa_bounds *h,
                         isa_error *e) {
  int64_t bytes = (int64_t)isa_dtype_bytes(ap->dtype);
  int64_t lo = 0, hi = 0;
  isa_ap reach = *ap; /* with an index, at index 0: the VM checks every index */
  if (ap->index_kind == ISA_INDEX_gather && ap->index_dim < ap->ndim)
    reach.dim[ap->index_dim].num = 1;
  /* The elements lie where the index says: the pattern has its first one alone. */
  if (ap->index_kind == ISA_INDEX_indirect) reach.ndim = 0;
  if (ap->offset % bytes != 0)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "offset %" PRId64 ": %s needs a multiple of %" PRId64, ap->offset,
                    /* An element that straddled its own grid could overlap two others. */
                    isa_dtypes[ap->dtype].name, bytes);
  if (ap->offset > ISA_CK_OFFSET || ap->offset < -ISA_CK_OFFSET)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "offset %" PRId64 ": at most 2^48 in size",
                    ap->offset);
  bool fits = isa_ap_extent(&reach, &lo, &hi);
  bool moves = ap->dyn[0].kind || ap->dyn[1].kind;
  /* [r1:+64] of 128 columns: 64 of them fit somewhere; whether r1 is right shows at run
   * time. */
  if (fits && moves) {
    if (hi - lo > h->hi - h->lo)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRId64 " bytes: %s has %" PRId64, hi - lo,
                      name_home(p, ap).s, h->hi - h->lo);
    return true;
  }
  /* Compared without adding to hi, which may be near the end of int64. */
  if (!fits || ap->offset < h->lo - lo || hi > h->hi - ap->offset) {
    if (!fits)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "the pattern leaves %s: its extent overflows",
                      /* Through unsigned: offsets near the ends of int64 must not
                       * overflow. */
                      name_home(p, ap).s);
    int64_t at = (int64_t)((uint64_t)ap->offset - (uint64_t)h->lo); /* from its first byte */
    return isa_fail(
        e, ISA_ILLEGAL, ISA_NOFIELD, "bytes %" PRId64 "..%" PRId64 ": %s has 0..%" PRId64,
        (int64_t)((uint64_t)at + (uint64_t)lo), (int64_t)((uint64_t)at + (uint64_t)(hi - 1)),
        name_home(p, ap).s, h->hi - h->lo - 1);
  }
  return true;
}

/* The order matters: later checks take the type, memory and partitions as valid. */
static bool check_shape(const isa_program *p, const isa_ap *ap, isa_error *e) {
  isa_bounds h = {0};
  if (ap->rank && ap->space == ISA_PSUM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "another rank's psum: only its hbm and sbuf");
  if (!isa_dtype_valid(ap->dtype))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no data type has code %d", ap->dtype);
  if (ap->space < ISA_SBUF || ap->space > ISA_HBM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no memory has code %d", ap->space);
  /* 1: the other core's SBUF. PSUM is private to a core, and HBM is common to both. */
  if (ap->peer > (ap->space == ISA_SBUF))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "peer is %d: 1 in sbuf, else 0", ap->peer);
  return check_parts(ap, e) && check_dims(ap, e) && find_home(p, ap, &h, e) && check_size(ap, e) &&
         check_bounds(p, ap, &h, e);
}

static bool check_inner(const isa_program *p, unsigned core, uint32_t index, bool single,
                        isa_error *e) {
  const isa_core *c = &p->cores[core];
  const char *what = single ? "the element of a dynamic offset" : "an index vector";
  if (index == 0 || index > c->naps)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is pattern %" PRIu32 ": the core has %" PRIu32,
                    what, index, c->naps);
  const isa_ap *ap = &c->aps[index - 1];
  if (!check_shape(p, ap, e)) return false;
  if (ap->space != ISA_SBUF || ap->peer)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is in %s: it must be in %ssbuf", what,
                    ap->peer ? "the other core's sbuf" : isa_space_name(ap->space),
                    ap->peer ? "its own " : "");
  /* Otherwise its own address would depend on another read, and a pattern on itself. */
  if (ap->dyn[0].kind || ap->dyn[1].kind || ap->size_dim || ap->index_kind)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "%s must be static: its own place takes no register and no element", what);
  if (single && (ap->nparts != 1 || isa_ap_elems(ap) != 1))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is %d x %" PRIu64 ": it must be 1 x 1", what,
                    ap->nparts, isa_ap_elems(ap));
  if (single && ap->dtype != ISA_int32 && ap->dtype != ISA_uint32)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is %s: it must be int32 or uint32", what,
                    isa_dtypes[ap->dtype].name);
  if (!single && !isa_dtype_is_int(ap->dtype))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s is %s: it must be an integer type", what,
                    isa_dtypes[ap->dtype].name);
  return true;
}

bool isa_check_ap(const isa_program *p, unsigned core, uint32_t index, isa_error *e) {
  if (core >= p->ncores || index == 0 || index > p->cores[core].naps)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no pattern %" PRIu32 ": core %u has %" PRIu32,
                    index, core, core < p->ncores ? p->cores[core].naps : 0);
  const isa_ap *ap = &p->cores[core].aps[index - 1];
  return check_shape(p, ap, e) && check_dyn(p, core, ap, e) && check_index(p, core, ap, e);
}

/* ---- A pattern as an operand -------------------------------------------------------------- */

/* Nothing below is a matter of taste: these are the ports that each engine has. */
/* Memories an instruction of that engine reaches, as AP_S | AP_M | AP_H. */
static uint32_t reach(const isa_ck *c, bool write) {
  unsigned op = c->in->op;
  if (isa_op_is_dma(op) || isa_op_is_control(op)) return AP_S | AP_H;
  switch (c->engine) {
  /* The array reads its operands from SBUF and adds into PSUM. */
  case ISA_ENG_tensor: return write ? AP_M : AP_S;
  case ISA_ENG_vector:
  case ISA_ENG_scalar: return AP_S | AP_M;
  case ISA_ENG_gpsimd: return AP_S;
  default: return AP_S | AP_H; /* between cores: these are DMA transfers */
  }
}

static uint32_t space_flag(unsigned space) {
  return space == ISA_SBUF ? AP_S : space == ISA_PSUM ? AP_M : AP_H;
}

static bool operand_memory(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  unsigned op = c->in->op;
  bool write = (flags & AP_W) != 0;
  uint32_t space = space_flag(ap->space);
  const char *verb = write ? "write" : "read";
  const char *name = isa_space_name(ap->space);
  /* Both must allow it: the form (what the instruction takes) and the engine's ports. */
  if (space & flags & reach(c, write)) return true;
  /* From here on it is refused: the messages say what to do instead, the most frequent
   * first. */
  if (isa_op_is_dma(op) && ap->space == ISA_PSUM)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "DMA does not reach psum: copy to or from sbuf with an engine first");
  if (isa_op_is_control(op))
    return isa_fail(c->e, ISA_ILLEGAL, f, "a sequencer does not reach %s: only hbm and sbuf", name);
  if (ap->space == ISA_HBM)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%s does not take an hbm operand here: copy it to sbuf "
                    "with DMA",
                    isa_ops[op].name);
  if (c->engine == ISA_ENG_gpsimd && ap->space == ISA_PSUM)
    return isa_fail(c->e, ISA_ILLEGAL, f, "gpsimd does not reach psum: use vector or scalar");
  uint32_t there = flags & reach(c, write);
  return isa_fail(c->e, ISA_ILLEGAL, f, "the %s engine does not %s %s in %s%s%s",
                  isa_engines[c->engine].name, verb, name, isa_ops[op].name,
                  there & (AP_S | AP_M) ? ": use " : "",
                  there & AP_S   ? isa_space_name(ISA_SBUF)
                  : there & AP_M ? isa_space_name(ISA_PSUM)
                                 : "");
}

/* Block scales sit in quadrants of their own layout and may start anywhere. */
static bool operand_start(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  unsigned op = c->in->op;
  if (ap->space == ISA_HBM || isa_op_is_dma(op) || isa_op_is_control(op) || (flags & AP_SCALES))
    return true;
  /* The partitions are in four quadrants of 32; an operand may not cross a boundary
   * that its size does not fill. */
  if (ap->nparts > 64 && ap->part != 0)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "start partition %d: an operand of %d partitions must start at 0", ap->part,
                    ap->nparts);
  if (ap->nparts > 32 && ap->part % 64 != 0)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "start partition %d: an operand of %d partitions must start at 0 or 64",
                    ap->part, ap->nparts);
  if (ap->part % 32 != 0)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "start partition %d: an operand of %d partitions must start at 0, 32, 64 or 96",
                    ap->part, ap->nparts);
  return true;
}

/* Flags give a field what most lack: 64-bit types pass through copies alone, packed
 * types through those that move bits. */
static bool operand_type(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  const char *type = isa_dtypes[ap->dtype].name;
  if (isa_dtype_bytes(ap->dtype) == 8 && !(flags & AP_64))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s: 64-bit types are for dma_copy only", type);
  if (isa_ck_packed(ap->dtype) && !(flags & AP_PACK))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s does not take the packed type %s",
                    isa_ops[c->in->op].name, type);
  return true;
}

/* Whether two positions of the dimensions give the same element. Exact for one and two
 * dimensions with num > 1; for more, nested ranges are known to be distinct and anything else is
 * taken as coinciding. */
static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* Example: steps 2 and 3 with 4 and 3 elements: 0 2 4 6 and 0 3 6 meet at 6. */
static bool coincides(const isa_ap *ap) {
  int64_t step[ISA_MAX_DIMS], num[ISA_MAX_DIMS], reached = 0;
  int n = 0;
  bool nested = true;
  for (int d = 0; d < ap->ndim; d++) {
    /* Rows that an index chooses lie anywhere. */
    bool indexed = ap->index_kind == ISA_INDEX_gather && d == ap->index_dim;
    if (ap->dim[d].num < 2 || indexed) continue;
    int64_t s = llabs(ap->dim[d].step);
    /* Sorted by steps, the shortest first. */
    int at = n++;
    for (; at > 0 && step[at - 1] > s; at--) {
      step[at] = step[at - 1];
      num[at] = num[at - 1];
    }
    step[at] = s;
    num[at] = ap->dim[d].num;
  }
  /* A step of 0 repeats an element. */
  if (n > 0 && step[0] == 0) return true;
  for (int i = 0; i < n && nested; i++) {
    /* A step must go over all that the shorter ones reach. */
    nested = step[i] > reached;
    reached += step[i] * (num[i] - 1); /* inside a memory: the bounds are checked before */
  }
  if (nested || n > 2) return !nested;
  /* Two ranges first meet at a common multiple of both steps. */
  int64_t g = gcd(step[0], step[1]);
  return step[1] / g < num[0] && step[0] / g < num[1];
}

/* A destination that is written twice would depend on the order of elements, which no
 * public source gives. */
static bool operand_write(const isa_ck *c, int f, const isa_ap *ap) {
  if (coincides(ap))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "elements of the destination coincide: each must be written once");
  /* Weights are shared by all runs of a program: writing them would change the program. */
  if (ap->space == ISA_HBM && c->p->tensors[ap->base - 1].role == ISA_CONST)
    return isa_fail(c->e, ISA_ILLEGAL, f, "tensor %.60s is const: it cannot be written",
                    c->p->tensors[ap->base - 1].name);
  return true;
}

static bool operand_shape(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  const char *op = isa_ops[c->in->op].name;
  if (ap->ndim > (flags & AP_DIMS))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%d free dimensions: %s takes at most %d here", ap->ndim,
                    op, (int)(flags & AP_DIMS));
  if ((flags & AP_COL) && isa_ap_elems(ap) != 1)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRIu64 " elements per partition: the operand must be a [P, 1] vector",
                    isa_ap_elems(ap));
  if ((flags & AP_ELEM) && (isa_ck_parts(ap) != 1 || isa_ap_elems(ap) != 1))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "%" PRIu32 " x %" PRIu64 " elements: the operand must be a single element",
                    isa_ck_parts(ap), isa_ap_elems(ap));
  /* A vector may have its partitions from a register. */
  /* A single element has no partitions to choose, so nothing of it may come from a
   * register. */
  if ((flags & (AP_COL | AP_ELEM)) && ap->size_dim > ((flags & AP_COL) ? 1 : 0))
    return isa_fail(c->e, ISA_ILLEGAL, f, "the size of this operand cannot be a register");
  if (ap->index_kind == ISA_INDEX_indirect && !(flags & AP_IND))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s does not take .indirect here", op);
  if (ap->index_kind == ISA_INDEX_gather && !(flags & AP_GATHER))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%s does not take .gather here", op);
  return true;
}

/* The other core's SBUF can only be an end of a transfer. */
static bool operand_peer(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  const char *op = isa_ops[c->in->op].name;
  if (!ap->peer) return true;
  if (c->p->ncores < 2) return isa_fail(c->e, ISA_ILLEGAL, f, ".peer: the program has one core");
  if (flags & AP_PEER) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f,
                  ".peer: %s does not reach the other core's sbuf here; a dma_copy does", op);
}

/* [0:+r1<=8, :] is such a size; in [:, 0:+r1<=8] the rows would move together. */
/* Whether a size that a register gives is of the outermost dimension that has more than one. Then
 * the elements lie as those of the whole pattern: what is sent to a peer says only which they are.
 */
static bool size_is_outermost(const isa_ap *ap) {
  if (ap->size_dim < 2) return true;
  if (ap->space != ISA_HBM && ap->nparts > 1) return false;
  for (unsigned d = 0; d + 2 < ap->size_dim; d++)
    if (ap->dim[d].num > 1) return false;
  return true;
}

/* A peer's memory: only where a copy of a CC sequencer goes. */
static bool operand_rank(const isa_ck *c, int f, const isa_ap *ap, uint32_t flags) {
  const char *op = isa_ops[c->in->op].name;
  int q = isa_ck_dma_queue(c->in);
  /* Without .rank there is no telling whose tensor is meant. */
  if (!ap->rank) {
    if (ap->space != ISA_HBM || c->p->tensors[ap->base - 1].role != ISA_REMOTE) return true;
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "tensor %.60s is remote: other ranks have it, and `.rank[...]` says which",
                    c->p->tensors[ap->base - 1].name);
  }
  if (ap->rank > c->p->npeers)
    return isa_fail(c->e, ISA_ILLEGAL, f, "peer %d: the program has %" PRIu32, ap->rank,
                    c->p->npeers);
  if (!(flags & AP_RANK))
    return isa_fail(
        c->e, ISA_ILLEGAL, f,
        ".rank: another rank's memory is only a destination of a dma_copy or dma_copy_lists%s",
        flags & AP_R ? "; nothing reads it: let that rank send" : "");
  /* A queue of an engine has its rings on this device alone. */
  if (q < 0 || (uint32_t)q >= c->core->nqueues || !isa_queue_is_cc(&c->core->queues[q]))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".rank: only a CC sequencer reaches other ranks: %s needs a queue with "
                    "owner=cc0, cc1 ...",
                    op);
  /* A link carries what is written; an answer would need a request, which it has none
   * of. */
  if (isa_reads_destination(c->in))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".rank: another rank's memory is only written: an op= reads it as well");
  if (ap->index_kind || ap->peer)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".rank: the place at the other rank has no index or .peer");
  if (!size_is_outermost(ap))
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    ".rank: the register r%d may give the size of the outermost dimension alone, "
                    "as in [0:+r1<=8, :]",
                    ap->size_reg);
  return true;
}

bool isa_ck_operand(const isa_ck *c, int f, uint32_t index, uint32_t flags) {
  /* The core as a number, for messages and tables. */
  unsigned core = (unsigned)(c->core - c->p->cores);
  if (!isa_check_ap(c->p, core, index, c->e)) {
    /* The pattern does not know which operand it is. */
    if (c->e) c->e->field = f;
    return false;
  }
  const isa_ap *ap = isa_ck_ap(c, index);
  return operand_memory(c, f, ap, flags) && operand_peer(c, f, ap, flags) &&
         operand_rank(c, f, ap, flags) && operand_shape(c, f, ap, flags) &&
         operand_start(c, f, ap, flags) && operand_type(c, f, ap, flags) &&
         (!(flags & AP_W) || operand_write(c, f, ap));
}
