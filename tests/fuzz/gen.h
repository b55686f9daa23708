/* Random programs of valid instructions, drawn from the tables: for fuzz_run.c and
 * tests/unit/test_roundtrip.c. Choices come from bytes, so that a fuzzer can steer them.
 *
 * An instruction gets a shape, and its operands that shape or a near one; then the verifier
 * decides, and what it refuses is drawn again. */
#ifndef TESTS_FUZZ_GEN_H
#define TESTS_FUZZ_GEN_H

#include "gen_tables.h"

/* ---- Patterns ----------------------------------------------------------------------------- */

static void gen_shape(gen *g) {
  static const uint32_t parts[] = {128, 128, 32, 64, 16, 1, 2, 48};
  static const uint32_t sizes[] = {1, 2, 4, 8, 16, 32, 3, 64};
  g->nparts = GEN_OF(g, parts);
  g->part = g->nparts <= 32 ? 32 * gen_below(g, 4) : g->nparts <= 64 ? 64 * gen_below(g, 2) : 0;
  if (!isa_op_is_dma(g->op) && gen_one_in(g, 4)) g->part = 0;
  g->ndim = 1 + gen_below(g, 3);
  uint32_t n = 1;
  for (unsigned d = 0; d < g->ndim; d++) n *= g->num[d] = n < 256 ? GEN_OF(g, sizes) : 1;
  g->dtype = gen_dtype(g);
}

/* One of the memories that the operand may be in and the engine reaches. */
static unsigned gen_space(gen *g, uint32_t flags) {
  bool dma = isa_op_is_dma(g->op), control = isa_op_is_control(g->op);
  if (dma || control || g->engine == ISA_ENG_gpsimd) flags &= ~(uint32_t)AP_M;
  if (g->engine == ISA_ENG_tensor && !dma && !control)
    flags &= ~(uint32_t)(flags & AP_W ? AP_S : AP_M);
  if ((flags & AP_H) && gen_below(g, 2)) return ISA_HBM;
  if ((flags & AP_M) && (!(flags & AP_S) || gen_one_in(g, 3))) return ISA_PSUM;
  return flags & AP_S || !(flags & AP_H) ? ISA_SBUF : ISA_HBM;
}

/* Operands that are not of the instruction's shape or type. 0: as the others. */
typedef struct gen_hint {
  uint16_t op;
  const char *field;
  uint8_t dtype, nparts, elems, by; /* elems of a partition, or the shape's divided by `by` */
} gen_hint;
static const gen_hint gen_hints[] = {
    {ISA_OP_local_gather, "dst", 0, 0, 16, 0},
    {ISA_OP_local_gather, "index", ISA_uint16, 0, 1, 0},
    {ISA_OP_nonzero_with_count, "dst", ISA_int32, 0, 9, 0},
    {ISA_OP_nonzero_with_count, "src", ISA_float32, 0, 8, 0},
    {ISA_OP_topk, "val_dst", ISA_bfloat16, 0, 4, 0},
    {ISA_OP_topk, "idx_dst", ISA_uint32, 0, 4, 0},
    {ISA_OP_topk, "src", ISA_bfloat16, 0, 32, 0},
    {ISA_OP_sequence_bounds, "dst", ISA_float32, 1, 64, 0},
    {ISA_OP_sequence_bounds, "src", ISA_int32, 1, 32, 0},
    {ISA_OP_partition_reduce, "dst", 0, 1, 0, 0},
    {ISA_OP_quantize_mx, "dst", ISA_float8_e4m3fn_x4, 0, 0, 4},
    {ISA_OP_quantize_mx, "scale", ISA_uint8, 0, 0, 4},
    {ISA_OP_quantize_mx, "src", ISA_bfloat16, 0, 0, 0},
    {ISA_OP_ldweights_mx, "src", ISA_float8_e4m3fn_x4, 0, 0, 0},
    {ISA_OP_ldweights_mx, "scale", ISA_uint8, 0, 0, 0},
    {ISA_OP_matmul_mx, "dst", ISA_float32, 0, 0, 0},
    {ISA_OP_matmul_mx, "src", ISA_float8_e5m2_x4, 0, 0, 0},
    {ISA_OP_matmul_mx, "scale", ISA_float8_e8m0fnu, 0, 0, 0},
    {ISA_OP_matmul, "dst", ISA_float32, 0, 0, 0},
    {ISA_OP_set_rng_seed, "src", ISA_uint32, 1, 1, 0},
    {ISA_OP_rand_set_state, "src", ISA_uint32, 0, 24, 0},
    {ISA_OP_rand_set_state, "src", ISA_uint32, 0, 6, 0},
    {ISA_OP_rand_get_state, "dst", ISA_uint32, 0, 24, 0},
    {ISA_OP_rand_get_state, "dst", ISA_uint32, 0, 6, 0},
    {ISA_OP_max8, "dst", 0, 0, 8, 0},
    {ISA_OP_find_index8, "dst", ISA_uint32, 0, 8, 0},
    {ISA_OP_match_value_load, "src", 0, 0, 8, 0},
    {ISA_OP_bn_stats, "dst", 0, 0, 6, 0},
    {ISA_OP_bn_aggr, "dst", 0, 0, 2, 0},
    {ISA_OP_bn_aggr, "src", 0, 0, 24, 0},
    {ISA_OP_tensor_reduce, "dst", 0, 0, 1, 0},
    {ISA_OP_range_select, "on_true", ISA_float32, 0, 0, 0},
    {ISA_OP_range_select, "bound0", ISA_float32, 0, 0, 0},
    {ISA_OP_range_select, "bound1", ISA_float32, 0, 0, 0},
    {ISA_OP_dma_transpose, "dst", ISA_bfloat16, 32, 16, 0},
    {ISA_OP_dma_transpose, "src", ISA_bfloat16, 16, 32, 0},
    {ISA_OP_all_gather_v, "metadata", ISA_uint32, 1, 12, 0},
    {ISA_OP_all_to_all_v, "metadata", ISA_uint32, 1, 12, 0},
};

/* One of the hints for the operand, mostly; NULL: none. */
static const gen_hint *gen_hint_for(gen *g, const char *field) {
  const gen_hint *hit = NULL;
  unsigned n = 0;
  for (size_t i = 0; i < sizeof gen_hints / sizeof *gen_hints; i++)
    if (gen_hints[i].op == g->op && strcmp(gen_hints[i].field, field) == 0)
      if (gen_below(g, ++n) == 0) hit = &gen_hints[i];
  return hit && gen_below(g, 8) ? hit : NULL;
}

/* Dimensions of the shape (or a near one), dense, then changed. */
static void gen_dims(gen *g, isa_ap *ap, uint32_t flags) {
  unsigned most = flags & AP_DIMS;
  int64_t step = gen_one_in(g, 8) && !g->tame ? 2 : 1;
  if (ap->space == ISA_HBM && !(flags & AP_ELEM)) ap->dim[ap->ndim++].num = g->nparts;
  for (unsigned d = 0; d < g->ndim && !(flags & (AP_COL | AP_ELEM)); d++) {
    if (ap->ndim == most)
      ap->dim[ap->ndim - 1].num *= g->num[d];
    else
      ap->dim[ap->ndim++].num = g->num[d];
  }
  if ((flags & AP_COL) && gen_below(g, 2)) ap->dim[ap->ndim++].num = 1;
  if (!g->tame && ap->ndim && gen_one_in(g, 6)) {
    static const uint32_t other[] = {1, 8, 16, 32, 6, 2, 65535, 5};
    ap->dim[gen_below(g, ap->ndim)].num = GEN_OF(g, other);
  }
  if (!g->tame && !(flags & AP_W) && gen_one_in(g, 48)) { /* much of the same */
    for (ap->ndim = 0; ap->ndim < most && ap->ndim < 4; ap->ndim++) ap->dim[ap->ndim].num = 65535;
    step = 0;
  }
  for (unsigned d = ap->ndim; d-- > 0;) {
    ap->dim[d].step = step;
    step *= ap->dim[d].num;
  }
  if (ap->ndim && gen_one_in(g, 8)) {
    isa_dim *d = &ap->dim[gen_below(g, ap->ndim)];
    if (!(flags & AP_W) && gen_below(g, 2))
      d->step = 0;
    else
      d->step = -d->step;
  }
}

/* Where the pattern is: in a tile or tensor, or anywhere. */
static void gen_place(gen *g, isa_ap *ap, uint32_t flags) {
  const isa_program *p = g->prog;
  int64_t esize = (int64_t)isa_dtype_bytes(ap->dtype), lo = 0, hi = 0;
  if (!isa_ap_extent(ap, &lo, &hi)) return;
  ap->offset = -lo;
  if (ap->space == ISA_HBM) {
    ap->base = 1 + gen_below(g, p->ntensors);
    for (uint32_t i = 0; i < p->ntensors; i++, ap->base = ap->base % p->ntensors + 1) {
      const isa_tensor *t = &p->tensors[ap->base - 1];
      if ((int64_t)t->bytes >= hi - lo && !((flags & AP_W) && t->role == ISA_CONST)) break;
    }
    int64_t slack = (int64_t)p->tensors[ap->base - 1].bytes - (hi - lo);
    if (slack > 0) ap->offset += gen_below(g, (uint32_t)(slack / esize + 1)) * esize;
    return;
  }
  ap->part = (uint16_t)(gen_one_in(g, 8) ? 32 * gen_below(g, 4) : g->part);
  ap->nparts = (uint16_t)(flags & AP_ELEM ? 1 : g->nparts);
  if (!g->tame && gen_one_in(g, 12)) ap->nparts = (uint16_t)(1 + gen_below(g, 128));
  uint32_t first = gen_below(g, p->ntiles);
  for (uint32_t i = 0; i < p->ntiles && gen_below(g, 4); i++) {
    uint32_t at = (first + i) % p->ntiles;
    const isa_tile *t = &p->tiles[at];
    int64_t slack = (int64_t)t->bytes - (hi - lo);
    if (t->space != ap->space || t->shape[0] < ap->nparts || slack < 0 || t->offset % esize)
      continue;
    ap->base = at + 1;
    ap->part = t->part;
    ap->offset += t->offset + gen_below(g, (uint32_t)(slack / esize + 1)) * esize;
    return;
  }
  ap->offset += 64 * gen_below(g, 16);
}

static isa_ap gen_inner(gen *g, bool single) {
  isa_ap ap = {.dtype = ISA_int32, .space = ISA_SBUF, .nparts = 1, .offset = 4 * gen_below(g, 8)};
  if (single) return ap;
  ap.nparts = (uint16_t)g->nparts;
  ap.part = (uint16_t)g->part;
  ap.ndim = 1;
  ap.dim[0] = (isa_dim){1, 1 + gen_below(g, 8)};
  if (gen_below(g, 2)) ap.dtype = ISA_uint16;
  return ap;
}

static void gen_dynamic(gen *g, isa_ap *ap, uint32_t flags) {
  static const int64_t strides[] = {1, 1, 4, 0, -1, 64, 1 << 20, 3};
  for (int i = 0; i < ISA_MAX_DYN; i++) {
    if (!gen_one_in(g, i ? 4 : 10)) break;
    ap->dyn[i].stride = GEN_OF(g, strides);
    ap->dyn[i].kind = gen_one_in(g, 4) ? ISA_DYN_elem : ISA_DYN_reg;
    if (ap->dyn[i].kind == ISA_DYN_reg) ap->dyn[i].reg = (uint8_t)gen_below(g, 8);
  }
  if (gen_one_in(g, 16)) {
    ap->size_dim = (uint8_t)(1 + gen_below(g, ap->ndim + 1u));
    ap->size_reg = (uint8_t)gen_below(g, 8);
  }
  if ((flags & AP_GATHER) && gen_one_in(g, 10)) {
    ap->index_kind = ISA_INDEX_gather;
    ap->index_dim = (uint8_t)gen_below(g, ap->ndim);
  }
  if ((flags & AP_IND) && (g->indirect || gen_one_in(g, 12))) ap->index_kind = ISA_INDEX_indirect;
}

static uint32_t gen_ap(gen *g, uint32_t flags) {
  isa_ap ap = {.space = (uint8_t)gen_space(g, flags), .dtype = (uint8_t)g->dtype};
  if (gen_one_in(g, 5)) ap.dtype = (uint8_t)gen_dtype(g);
  gen_dims(g, &ap, flags);
  gen_place(g, &ap, flags);
  if (!g->tame) gen_dynamic(g, &ap, flags);
  ap.peer = g->pair && (flags & AP_PEER) && ap.space == ISA_SBUF && gen_one_in(g, 3);
  for (int i = 0; i < ISA_MAX_DYN; i++)
    if (ap.dyn[i].kind == ISA_DYN_elem) {
      isa_ap in = gen_inner(g, true);
      ap.dyn[i].ap = isa_program_ap(g->prog, 0, &in);
    }
  if (ap.index_kind) {
    isa_ap in = gen_inner(g, false);
    if (ap.index_kind == ISA_INDEX_indirect) {
      in.dtype = gen_one_in(g, 4) ? in.dtype : (uint8_t)ISA_uint8; /* offsets that are in reach */
      in.nparts = 32;
      in.part &= 96;
      uint64_t step = 1;
      for (unsigned d = ap.ndim; d-- > 0; step *= ap.dim[d].num) ap.dim[d].step = (int64_t)step;
    }
    ap.index = isa_program_ap(g->prog, 0, &in);
  }
  return isa_program_ap(g->prog, 0, &ap);
}

/* The pattern of an operand, of its own shape where it has one. */
static uint32_t gen_operand(gen *g, const isa_field *f) {
  const gen_hint *h = gen_hint_for(g, f->name);
  gen shape = *g;
  if (h && h->dtype) g->dtype = h->dtype;
  if (h && h->nparts) g->nparts = h->nparts;
  if (h && h->by) g->num[g->ndim - 1] = (g->num[g->ndim - 1] + h->by - 1) / h->by;
  if (h && h->elems) {
    g->ndim = 1;
    g->num[0] = h->elems;
  }
  uint32_t ap = gen_ap(g, f->arg);
  g->dtype = shape.dtype;
  g->nparts = shape.nparts;
  g->ndim = shape.ndim;
  memcpy(g->num, shape.num, sizeof g->num);
  return ap;
}

static unsigned gen_alu(gen *g) {
  static const uint8_t often[] = {ISA_ALU_bypass, ISA_ALU_add, ISA_ALU_mult,  ISA_ALU_max,
                                  ISA_ALU_min,    ISA_ALU_add, ISA_ALU_is_ge, ISA_ALU_bitwise_and};
  if (g->op == ISA_OP_range_select || gen_one_in(g, 16))
    return ISA_ALU_is_equal + gen_below(g, ISA_ALU_is_lt - ISA_ALU_is_equal + 1);
  return gen_below(g, 2) ? GEN_OF(g, often) : gen_below(g, ISA_NALUOPS);
}

/* ---- Fields ------------------------------------------------------------------------------- */

static isa_num gen_num(gen *g, bool optional) {
  isa_num n;
  memset(&n, 0, sizeof n); /* padding too */
  n.kind = (uint8_t)(optional ? (gen_below(g, 3) ? gen_below(g, 4) : 0) : 1 + gen_below(g, 3));
  if (n.kind == ISA_NUM_imm) n.v = gen_float(g);
  if (n.kind == ISA_NUM_reg) n.v = gen_below(g, 8);
  if (n.kind != ISA_NUM_ap) return n;
  unsigned dtype = g->dtype;
  g->dtype = gen_below(g, 4) ? ISA_float32 : dtype;
  n.v = gen_ap(g, AP_R | AP_S | AP_M | AP_COL | 1);
  g->dtype = dtype;
  return n;
}

static isa_ref gen_list(gen *g, const isa_field *f) {
  uint8_t bytes[32];
  uint32_t words[8];
  isa_step steps[4];
  isa_ref r = {0, 0};
  uint32_t n = gen_below(g, 5);
  if (n == 0 && f->mode == ISA_MODE_D) return r;
  switch (f->kind) {
  case ISA_K_STR:
    for (uint32_t i = 0; i < n; i++) bytes[i] = (uint8_t)(gen_one_in(g, 4) ? gen_byte(g) : 'a');
    isa_program_pool(g->prog, bytes, n, 1, &r);
    return r;
  case ISA_K_BYTES:
    for (uint32_t i = 0; i < 32; i++)
      bytes[i] = (uint8_t)(gen_one_in(g, 9) ? 255 : gen_below(g, 32));
    isa_program_pool(g->prog, bytes, 32, 1, &r);
    return r;
  case ISA_K_STEPS:
    for (unsigned d = 0; d < g->ndim; d++) {
      steps[d].num = g->num[d];
      memcpy(&steps[d].step, &(uint32_t){gen_value(g)}, 4);
    }
    isa_program_pool(g->prog, steps, g->ndim, sizeof *steps, &r);
    return r;
  default: break;
  }
  bool alone = isa_op_is_collective(g->op); /* a collective: of one operand, mostly */
  if (f->kind == ISA_K_APS && gen_below(g, 4)) n = alone ? 1 : n < 2 ? 2 : n;
  if (f->kind == ISA_K_PAIRS) n = 2;
  for (uint32_t i = 0; i < n; i++)
    words[i] = f->kind == ISA_K_APS    ? gen_ap(g, f->arg)
               : f->kind == ISA_K_F32S ? gen_float(g)
               : f->kind == ISA_K_I32S ? i
                                       : gen_below(g, 8);
  isa_program_pool(g->prog, words, f->kind == ISA_K_PAIRS ? 1 : n, isa_kind_elem[f->kind], &r);
  return r;
}

/* The value of a field that is a plain number. */
static uint32_t gen_plain(gen *g, const isa_field *f) {
  uint32_t items = 0;
  switch (f->kind) {
  case ISA_K_REG: return gen_below(g, 8);
  case ISA_K_AP: return f->mode == ISA_MODE_D && gen_below(g, 2) ? 0 : gen_operand(g, f);
  case ISA_K_ALU: return f->mode == ISA_MODE_D && gen_below(g, 2) ? 0 : gen_alu(g);
  case ISA_K_ACTF: return gen_below(g, ISA_NACTFNS);
  case ISA_K_LABEL: return gen_below(g, g->prog->cores[0].code[g->engine].n);
  case ISA_K_QUEUE: /* 0 is that of static transfers, which a trigger starts */
    if (g->op == ISA_OP_dma_trigger || g->is_static) return 0;
    return 1 + gen_below(g, g->prog->cores[0].nqueues - 1);
  case ISA_K_I32: return gen_value(g);
  case ISA_K_SEM: return gen_below(g, GEN_SEMS + 1);
  case ISA_K_GROUP: return gen_below(g, GEN_GROUPS);
  case ISA_K_ENUM:
    if (gen_below(g, 3)) return 0;
    while (isa_set_item(f->arg, items)) items++;
    return gen_below(g, items);
  default: break;
  }
  uint32_t most = f->arg;
  if (f->mode == ISA_MODE_D && gen_below(g, 3)) return 0;
  if (gen_one_in(g, 2) || most < 32)
    return most == UINT32_MAX ? gen_u32(g) : gen_below(g, most + 1);
  return gen_one_in(g, 2) ? 32 : 1u << gen_below(g, 8);
}

static void gen_field(gen *g, isa_insn *in, const isa_field *f) {
  void *m = isa_member(in, f);
  if (isa_kind_elem[f->kind]) {
    isa_ref r = gen_list(g, f);
    memcpy(m, &r, sizeof r);
  } else if (f->kind == ISA_K_NUM) {
    isa_num n = gen_num(g, f->mode == ISA_MODE_D);
    memcpy(m, &n, sizeof n);
  } else if (f->kind == ISA_K_INT) {
    isa_int v;
    memset(&v, 0, sizeof v);
    v.is_reg = gen_one_in(g, 3);
    uint32_t x = v.is_reg ? gen_below(g, 8) : gen_value(g);
    memcpy(&v.v, &x, sizeof x);
    memcpy(m, &v, sizeof v);
  } else {
    uint32_t v = gen_plain(g, f);
    uint8_t byte = (uint8_t)v;
    uint16_t half = (uint16_t)v;
    unsigned width = isa_kind_bytes[f->kind];
    memcpy(m, width == 1 ? (const void *)&byte : width == 2 ? (const void *)&half : &v, width);
  }
}

static void gen_clauses(gen *g, isa_insn *in) {
  if (gen_one_in(g, 6)) {
    in->wait.cond = (uint8_t)(1 + gen_below(g, ISA_NCONDS - 1));
    in->wait.sem = (uint8_t)gen_below(g, GEN_SEMS + 1);
    in->wait.is_reg = gen_one_in(g, 4);
    in->wait.value = in->wait.is_reg ? gen_below(g, 8) : gen_below(g, 3);
  }
  if (!gen_one_in(g, 3)) return;
  bool dma = isa_op_is_dma(in->op);
  in->upd.kind = (uint8_t)(dma ? ISA_UPD_dma : 1 + gen_below(g, ISA_UPD_write));
  if (!dma && gen_below(g, 4)) in->upd.kind = ISA_UPD_inc;
  in->upd.sem = (uint8_t)gen_below(g, GEN_SEMS + 1);
  if (in->upd.kind >= ISA_UPD_add && in->upd.kind <= ISA_UPD_write)
    in->upd.value = gen_one_in(g, 32) ? gen_u32(g) & ISA_SEM_MAX : gen_below(g, 40);
  in->upd.core = g->pair && gen_one_in(g, 3);
  in->upd.at_read = !dma && !isa_op_is_control(in->op) && gen_one_in(g, 4);
}

/* Draws an instruction op of an engine into in. Its patterns and lists are in the program. */
static void gen_draw(gen *g, unsigned op, unsigned engine, bool tame, isa_insn *in) {
  memset(in, 0, sizeof *in);
  in->op = (uint16_t)op;
  g->op = op;
  g->engine = engine;
  g->tame = tame;
  gen_shape(g);
  gen_clauses(g, in);
  const isa_form *form = isa_form_of(op);
  for (unsigned f = 0; f < form->nfields; f++) gen_field(g, in, &form->fields[f]);
}

/* Static transfers of queue 0. */
static void gen_statics(gen *g) {
  static const uint16_t ops[] = {ISA_OP_dma_copy, ISA_OP_dma_copy, ISA_OP_dma_compute,
                                 ISA_OP_dma_transpose};
  isa_insn in;
  g->is_static = true;
  for (int i = 0; i < GEN_TRIES && g->prog->cores[0].queues[0].nstatics < 2; i++) {
    gen_mark mark = gen_here(g);
    isa_error e = {0};
    gen_draw(g, GEN_OF(g, ops), ISA_ENG_sync, true, &in);
    memset(&in.wait, 0, sizeof in.wait);
    memset(&in.upd, 0, sizeof in.upd);
    if (isa_check_insn(g->prog, 0, ISA_ENG_sync, &in, 0, &e))
      isa_program_static(g->prog, 0, 0, &in);
    else
      gen_back(g, mark);
  }
  g->is_static = false;
}

/* A program of tables; each engine only halts. NULL: no memory. */
static inline isa_program *gen_program(gen *g, const isa_alloc *al, const isa_target *target) {
  isa_insn halt = {.op = ISA_OP_halt};
  g->prog = isa_program_new(al, target);
  if (!g->prog) return NULL;
  if (g->pair) g->prog->ncores = 2;
  gen_tables(g);
  gen_statics(g);
  for (unsigned e = 0; e < ISA_NENGINES; e++) isa_program_insn(g->prog, 0, e, &halt, (isa_line){0});
  return g->prog;
}

/* Puts an instruction before the halt that ends the engine's section. */
static inline void gen_put(isa_program *p, unsigned engine, const isa_insn *in) {
  isa_code *code = &p->cores[0].code[engine];
  isa_program_insn(p, 0, engine, in, (isa_line){0});
  isa_insn last = code->insns[code->n - 2];
  code->insns[code->n - 2] = *in;
  code->insns[code->n - 1] = last;
}

/* Makes core 1 what core 0 is, as `core=*` does: an update of the other core is one of the other.
 * False without memory. */
static inline bool gen_twin(isa_program *p) {
  const isa_core *a = &p->cores[0];
  bool ok = true;
  for (uint32_t i = 0; i < a->naps && ok; i++) ok = isa_program_ap(p, 1, &a->aps[i]) == i + 1;
  for (uint32_t q = 0; q < a->nqueues && ok; q++) {
    ok = isa_program_queue(p, 1, &a->queues[q]) != 0;
    for (uint32_t i = 0; i < a->queues[q].nstatics && ok; i++)
      ok = isa_program_static(p, 1, q, &a->queues[q].statics[i]);
  }
  memcpy(p->cores[1].sem_names, a->sem_names, sizeof a->sem_names);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t pc = 0; pc < a->code[e].n && ok; pc++) {
      isa_insn in = a->code[e].insns[pc];
      if (in.wait.cond) in.wait.core = 1;
      if (in.upd.kind) in.upd.core ^= 1;
      ok = isa_program_insn(p, 1, e, &in, (isa_line){0});
    }
  return ok;
}

/* Adds one instruction before the halt; false when none of the draws is legal. */
static inline bool gen_add(gen *g, unsigned op, unsigned engine) {
  isa_code *code = &g->prog->cores[0].code[engine];
  for (int i = 0; i < GEN_TRIES; i++) {
    gen_mark mark = gen_here(g);
    isa_insn in;
    isa_place at;
    isa_error e = {0};
    gen_draw(g, op, engine, i > GEN_TRIES / 2, &in);
    if (isa_check_insn(g->prog, 0, engine, &in, code->n + 1, &e)) {
      gen_put(g->prog, engine, &in);
      if (isa_check_program(g->prog, &at, &e)) return true;
      code->insns[code->n - 2] = code->insns[code->n - 1];
      code->n--;
    }
    gen_back(g, mark);
  }
  return false;
}

#endif
