/* The verifier: what it refuses, with the exact text and operand, and what it accepts. */
#include "insn_bed.h"

#define TT x->in.u.TENSOR_TENSOR
#define TS x->in.u.TENSOR_SCALAR
#define MM x->in.u.MATMUL
#define DMA x->in.u.DMA_COPY
#define ACT x->in.u.ACTIVATE
#define COPY x->in.u.COPY
#define RED x->in.u.TENSOR_REDUCE

static uint32_t hb(fx *x, uint32_t tensor, unsigned dtype, int64_t offset, uint32_t e) {
  isa_ap a = line(ISA_HBM, dtype, 0, 0, offset, e);
  a.base = tensor;
  return add(x, a);
}

/* Legal instructions to start from. */
static void tt(fx *x) {
  use(x, ISA_OP_tensor_tensor, ISA_ENG_vector);
  TT.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  TT.src0 = sb(x, ISA_float32, 0, 128, 2048, 512);
  TT.src1 = sb(x, ISA_float32, 0, 128, 4096, 512);
  TT.op = ISA_ALU_add;
}
static void dma(fx *x) {
  use(x, ISA_OP_dma_copy, ISA_ENG_sync);
  DMA.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  DMA.src = hb(x, 1, ISA_float32, 0, 65536);
}
static void mm(fx *x) {
  use(x, ISA_OP_matmul, ISA_ENG_tensor);
  MM.dst = ps(x, ISA_float32, 0, 128, 0, 512);
  MM.src = sb(x, ISA_bfloat16, 0, 128, 0, 512);
}
static void act(fx *x) {
  use(x, ISA_OP_activate, ISA_ENG_scalar);
  ACT.dst = sb(x, ISA_bfloat16, 0, 128, 0, 512);
  ACT.src = ps(x, ISA_float32, 0, 128, 0, 512);
  ACT.fn = ISA_FN_exp;
}
static void copy(fx *x) {
  use(x, ISA_OP_tensor_copy, ISA_ENG_vector);
  COPY.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  COPY.src = sb(x, ISA_int32, 0, 128, 2048, 512);
}
static void ts(fx *x) {
  use(x, ISA_OP_tensor_scalar, ISA_ENG_vector);
  TS.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  TS.src = sb(x, ISA_int8, 0, 128, 2048, 512);
  TS.op0 = ISA_ALU_mult;
  TS.imm0 = (isa_num){ISA_NUM_imm, 0x40000000};
}
/* [128, 8, 64] summed to [128, 8]. */
static void red(fx *x) {
  use(x, ISA_OP_tensor_reduce, ISA_ENG_vector);
  isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 2048, 512);
  a.ndim = 2;
  a.dim[0] = (isa_dim){64, 8};
  a.dim[1] = (isa_dim){1, 64};
  RED.src = add(x, a);
  RED.dst = sb(x, ISA_float32, 0, 128, 0, 8);
  RED.op = ISA_ALU_add;
  RED.axes = 1;
}
static void iota(fx *x, int32_t step, uint32_t num) {
  isa_step s = {step, num};
  use(x, ISA_OP_iota, ISA_ENG_gpsimd);
  x->in.u.IOTA.dst = sb(x, ISA_int32, 0, 128, 0, 512);
  assert_true(isa_program_pool(x->p, &s, 1, sizeof s, &x->in.u.IOTA.pattern));
}
static void permute(fx *x) {
  const uint32_t a = hb(x, 1, ISA_float32, 0, 16);
  const isa_pair pair = {0, 1};
  use(x, ISA_OP_collective_permute, ISA_ENG_vector);
  assert_true(isa_program_pool(x->p, &a, 1, sizeof a, &x->in.u.PERMUTE.srcs));
  assert_true(isa_program_pool(x->p, &a, 1, sizeof a, &x->in.u.PERMUTE.dsts));
  assert_true(isa_program_pool(x->p, &pair, 1, sizeof pair, &x->in.u.PERMUTE.pairs));
}
static void affine(fx *x) {
  isa_step s[2] = {{1, 16}, {-1, 32}};
  use(x, ISA_OP_affine_select, ISA_ENG_gpsimd);
  x->in.u.AFFINE_SELECT.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  x->in.u.AFFINE_SELECT.src = sb(x, ISA_float32, 0, 128, 0, 512);
  x->in.u.AFFINE_SELECT.fill = (isa_num){ISA_NUM_imm, 0xff800000};
  x->in.u.AFFINE_SELECT.cmp = ISA_ALU_is_ge;
  assert_true(isa_program_pool(x->p, s, 2, sizeof s[0], &x->in.u.AFFINE_SELECT.pattern));
}

/* A program with tensors a (float32[512, 512]) and k (const uint8[3]); tiles ta (sbuf), tp (psum)
 * of float32[128, 512] at 0 and tb (sbuf float32[64, 4] at 65536); queues qh (hwdge, sync), qs
 * (static) and qg (swdge, gpsimd); and a legal tensor_tensor on vector, patterns 1 to 3. */
static fx open_fx(int target) {
  static const uint8_t data[3] = {1, 2, 3};
  isa_alloc al = isa_alloc_default();
  fx x = {.p = isa_program_new(&al, &isa_targets[target])};
  assert_non_null(x.p);
  isa_tensor a = {.name = "a",
                  .dtype = ISA_float32,
                  .role = ISA_INPUT,
                  .ndim = 2,
                  .shape = {512, 512},
                  .bytes = 1048576};
  isa_tensor k = {.name = "k",
                  .dtype = ISA_uint8,
                  .role = ISA_CONST,
                  .ndim = 1,
                  .shape = {3},
                  .bytes = 3,
                  .data = data};
  isa_tile ta = {.name = "ta",
                 .dtype = ISA_float32,
                 .space = ISA_SBUF,
                 .ndim = 2,
                 .shape = {128, 512},
                 .bytes = 2048};
  isa_tile tp = ta, tb = ta;
  tp.name = "tp";
  tp.space = ISA_PSUM;
  tb.name = "tb";
  tb.shape[0] = 64;
  tb.shape[1] = 4;
  tb.offset = 65536;
  tb.bytes = 16;
  isa_queue qh = {.name = "qh", .dge = ISA_DGE_hwdge, .rings = 16, .owner = ISA_ENG_sync};
  isa_queue qs = {.name = "qs", .dge = ISA_DGE_none, .rings = 16, .owner = ISA_NENGINES};
  isa_queue qg = {.name = "qg", .dge = ISA_DGE_swdge, .rings = 16, .owner = ISA_ENG_gpsimd};
  assert_int_equal(isa_program_tensor(x.p, &a), 1);
  assert_int_equal(isa_program_tensor(x.p, &k), 2);
  assert_int_equal(isa_program_tile(x.p, &ta), 1);
  assert_int_equal(isa_program_tile(x.p, &tp), 2);
  assert_int_equal(isa_program_tile(x.p, &tb), 3);
  assert_int_equal(isa_program_queue(x.p, 0, &qh), 1);
  assert_int_equal(isa_program_queue(x.p, 0, &qs), 2);
  assert_int_equal(isa_program_queue(x.p, 0, &qg), 3);
  tt(&x);
  return x;
}

/* ---- Refusals ----------------------------------------------------------------------------- */

#define BAD(name, target, field, text, ...) \
  static void bad_##name(fx *x) { __VA_ARGS__; }
#include "check_cases.def"
#undef BAD

static const bad_case bads[] = {
#define BAD(name, target, field, text, ...) {#name, ISA_##target, field, text, bad_##name},
#include "check_cases.def"
#undef BAD
};

static void test_refused(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
    fx x = open_fx(bads[i].target);
    bads[i].make(&x);
    wrong += !refused_so(&x, &bads[i]);
  }
  assert_int_equal(wrong, 0);
}

/* ---- Accepted ----------------------------------------------------------------------------- */

#define OK_CASES(OK)                                                                               \
  OK(tensor_tensor, trn1, (void)x)                                                                 \
  OK(in_place, trn2, TT.src0 = TT.dst)                                                             \
  OK(one_psum, trn2, TT.src1 = ps(x, ISA_float32, 0, 128, 0, 512))                                 \
  OK(broadcast, trn2, isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 4096, 512);                   \
     a.dim[0].step = 0; TT.src1 = add(x, a))                                                       \
  OK(backwards, trn2, isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 6140, 512);                   \
     a.dim[0].step = -1; TT.src1 = add(x, a))                                                      \
  OK(interleaved_dst, trn2, isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 8192, 256); a.ndim = 2; \
     a.dim[0] = (isa_dim){1, 2}; a.dim[1] = (isa_dim){2, 256}; TT.dst = add(x, a))                 \
  OK(start_96, trn2, TT.dst = sb(x, ISA_float32, 96, 32, 0, 4);                                    \
     TT.src0 = sb(x, ISA_float32, 32, 32, 0, 4); TT.src1 = sb(x, ISA_float32, 0, 32, 0, 4))        \
  OK(last_byte, trn2, TT.src0 = sb(x, ISA_float32, 0, 128, 227328, 512))                           \
  OK(int_gpsimd, trn2, x->engine = ISA_ENG_gpsimd; TT.dst = sb(x, ISA_int32, 0, 128, 0, 512);      \
     TT.src0 = sb(x, ISA_int32, 0, 128, 2048, 512); TT.src1 = TT.src0)                             \
  OK(bits, trn2, TT.op = ISA_ALU_logical_shift_left; TT.dst = sb(x, ISA_uint16, 0, 128, 0, 4);     \
     TT.src0 = sb(x, ISA_int16, 0, 128, 512, 4); TT.src1 = TT.src0)                                \
  OK(moving_apart, trn2, isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 0, 512);                   \
     a.dyn[0] = (isa_dyn){ISA_DYN_reg, 1, 0, 512}; TT.dst = add(x, a); a.dyn[0].reg = 2;           \
     TT.src0 = add(x, a))                                                                          \
  OK(sizes, trn2, isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 0, 512); a.size_dim = 2;          \
     a.size_reg = 4; TT.dst = TT.src0 = TT.src1 = add(x, a))                                       \
  OK(clauses, trn2, x->in.wait = (isa_wait){ISA_WAIT_ge, 0, 255, 0, 0x7fffffff};                   \
     x->in.upd = (isa_update){ISA_UPD_inc, 1, 0, 0, 0})                                            \
  OK(dma_hwdge, trn2, dma(x); x->in.upd.kind = ISA_UPD_dma)                                        \
  OK(dma_dynamic, trn2, dma(x); isa_ap a = line(ISA_HBM, ISA_float32, 0, 0, 0, 65536); a.base = 1; \
     a.dyn[0] = (isa_dyn){ISA_DYN_elem, 0, sb(x, ISA_int32, 77, 1, 0, 1), 512};                    \
     DMA.src = add(x, a))                                                                          \
  OK(dma_anywhere, trn2, dma(x); DMA.dst = sb(x, ISA_float32, 17, 111, 0, 4);                      \
     DMA.src = hb(x, 1, ISA_float32, 0, 444))                                                      \
  OK(dma_static, trn1, dma(x); DMA.queue = 1; x->engine = ISA_ENG_vector)                          \
  OK(dma_cast, trn2, dma(x); DMA.queue = 1; DMA.dst = sb(x, ISA_bfloat16, 0, 128, 0, 512))         \
  OK(dma_64, trn2, dma(x); DMA.dst = sb(x, ISA_int64, 0, 128, 0, 4);                               \
     DMA.src = hb(x, 1, ISA_int64, 0, 512))                                                        \
  OK(dma_size, trn2, dma(x); isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 0, 512);               \
     a.size_dim = 1; a.size_reg = 4; DMA.dst = add(x, a); a.space = ISA_HBM; a.part = 0;           \
     a.nparts = 0; a.base = 1; a.ndim = 2; a.dim[0] = (isa_dim){512, 128};                         \
     a.dim[1] = (isa_dim){1, 512}; a.size_dim = 2; DMA.src = add(x, a))                            \
  OK(dma_gather, trn2, dma(x); x->engine = ISA_ENG_gpsimd; DMA.queue = 2;                          \
     isa_ap a = line(ISA_HBM, ISA_float32, 0, 0, 0, 128); a.base = 1; a.ndim = 2;                  \
     a.dim[1] = (isa_dim){1, 512}; a.index_kind = ISA_INDEX_gather;                                \
     a.index = sb(x, ISA_uint32, 0, 128, 4096, 1); DMA.src = add(x, a))                            \
  OK(matmul, trn1, mm(x))                                                                          \
  OK(matmul_gen4, trn3, mm(x); MM.dst = ps(x, ISA_bfloat16, 0, 128, 0, 8192);                      \
     MM.src = sb(x, ISA_float8_e4m3fn, 0, 128, 0, 8192))                                           \
  OK(matmul_second_bank, trn2, mm(x); MM.dst = ps(x, ISA_float32, 0, 128, 2048, 512))              \
  OK(ldweights, trn1, use(x, ISA_OP_ldweights, ISA_ENG_tensor);                                    \
     x->in.u.LDWEIGHTS.src = sb(x, ISA_float32, 0, 64, 0, 128))                                    \
  OK(activate, trn1, act(x); ACT.scale = (isa_num){ISA_NUM_imm, 0x3f000000};                       \
     ACT.bias = (isa_num){ISA_NUM_ap, sb(x, ISA_bfloat16, 0, 128, 8192, 1)})                       \
  OK(activate_bias, trn2, act(x); ACT.bias = (isa_num){ISA_NUM_reg, 5})                            \
  OK(activate_reduce, trn2, act(x); ACT.reduce = ISA_CMD_reset_reduce)                             \
  OK(copy_cast, trn2, copy(x))                                                                     \
  OK(copy_packed, trn2, copy(x); COPY.dst = sb(x, ISA_float4_e2m1fn_x4, 0, 128, 0, 512);           \
     COPY.src = sb(x, ISA_float4_e2m1fn_x4, 0, 128, 2048, 512))                                    \
  OK(scalar_pair, trn2, ts(x); x->engine = ISA_ENG_scalar; TS.op1 = ISA_ALU_add;                   \
     TS.imm1 = (isa_num){ISA_NUM_reg, 9})                                                          \
  OK(scalar_gen4, trn3, ts(x); x->engine = ISA_ENG_scalar; TS.op0 = ISA_ALU_max)                   \
  OK(rsqrt, trn2, ts(x); x->engine = ISA_ENG_gpsimd; TS.op0 = ISA_ALU_rsqrt; TS.imm0.v = 0)        \
  OK(scalar_vector, trn2, ts(x);                                                                   \
     TS.imm0 = (isa_num){ISA_NUM_ap, ps(x, ISA_float32, 0, 128, 0, 1)})                            \
  OK(unary_second, trn2, ts(x); TS.op1 = ISA_ALU_abs)                                              \
  OK(bits_scalar, trn2, ts(x); TS.dst = TS.src; TS.op0 = ISA_ALU_bitwise_not;                      \
     TS.imm0.kind = ISA_NUM_none; TS.imm0.v = 0)                                                   \
  OK(reduce, trn2, red(x); RED.negate = 1)                                                         \
  OK(reduce_all, trn2, red(x); RED.axes = 0; RED.dst = sb(x, ISA_float32, 0, 128, 0, 1))           \
  OK(reduce_kept_size, trn2, red(x); isa_ap a = x->p->cores[0].aps[RED.src - 1]; a.size_dim = 2;   \
     a.size_reg = 7; RED.src = add(x, a); a = line(ISA_SBUF, ISA_float32, 0, 128, 0, 8);           \
     a.size_dim = 2; a.size_reg = 7; RED.dst = add(x, a))                                          \
  OK(reduce_lost_size, trn2, red(x); isa_ap a = x->p->cores[0].aps[RED.src - 1]; a.size_dim = 3;   \
     a.size_reg = 7; RED.src = add(x, a))                                                          \
  OK(iota, trn1, iota(x, -3, 512))                                                                 \
  OK(affine, trn1, affine(x))                                                                      \
  OK(event, trn1, use(x, ISA_OP_event_semaphore, ISA_ENG_tensor);                                  \
     x->in.wait = (isa_wait){ISA_WAIT_ge, 0, 1, 1, 63};                                            \
     x->in.upd = (isa_update){ISA_UPD_sub, 0, 0, 1, 32})                                           \
  OK(sem_range, trn1, use(x, ISA_OP_sem_range_clear, ISA_ENG_sync);                                \
     x->in.u.SEM_RANGE = (struct isa_SEM_RANGE){0, 256, 0})                                        \
  OK(load, trn1, use(x, ISA_OP_tensor_load, ISA_ENG_vector);                                       \
     x->in.u.TENSOR_LOAD.src = sb(x, ISA_int32, 5, 1, 0, 1))                                       \
  OK(jump, trn1, use(x, ISA_OP_jmp, ISA_ENG_vector); x->in.u.JUMP.to = 9)                          \
  OK(planned, trn2, permute(x))

#define OK(name, target, ...) \
  static void ok_##name(fx *x) { __VA_ARGS__; }
OK_CASES(OK)
#undef OK

static const good_case goods[] = {
#define OK(name, target, ...) {#name, ISA_##target, ok_##name},
    OK_CASES(OK)
#undef OK
};

static void test_accepted(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof goods / sizeof goods[0]; i++) {
    fx x = open_fx(goods[i].target);
    goods[i].make(&x);
    wrong += !accepted_so(&x, &goods[i]);
  }
  assert_int_equal(wrong, 0);
}

/* ---- Programs ----------------------------------------------------------------------------- */

/* The fixture's instruction and a halt in its section. */
static fx open_program(int target, void (*make)(fx *x)) {
  fx x = open_fx(target);
  x.p->cores[0].queues[0].owner = ISA_ENG_sync;
  if (target == ISA_trn1) /* no hardware DGE there */
    x.p->cores[0].queues[0].dge = ISA_DGE_none;
  if (make) make(&x);
  isa_insn halt = {.op = ISA_OP_halt};
  assert_true(isa_program_insn(x.p, 0, x.engine, &x.in, (isa_line){0}));
  assert_true(isa_program_insn(x.p, 0, x.engine, &halt, (isa_line){0}));
  return x;
}

static void expect(fx *x, isa_status status, int core, int engine, uint32_t pc, const char *text) {
  isa_error e = {0};
  isa_place at = {99, 99, 99};
  bool ok = isa_check_program(x->p, &at, &e);
  assert_string_equal(ok ? "accepted" : e.text, text ? text : "accepted");
  if (!ok) {
    assert_int_equal(e.status, status);
    assert_int_equal(at.core, core);
    assert_int_equal(at.engine, engine);
    assert_int_equal(at.pc, pc);
    assert_false(isa_check_program(x->p, NULL, NULL));
  }
  isa_program_free(x->p);
}

static void far_wait(fx *x) { x->in.wait = (isa_wait){ISA_WAIT_ge, 1, 3, 0, 1}; }
static void far_update(fx *x) { x->in.upd = (isa_update){ISA_UPD_inc, 0, 1, 3, 0}; }

static void test_program(void **state) {
  (void)state;
  fx x = open_program(ISA_trn2, NULL);
  expect(&x, ISA_OK, 0, 0, 0, NULL);
  x = open_program(ISA_trn1, mm);
  expect(&x, ISA_OK, 0, 0, 0, NULL);
  x = open_program(ISA_trn2, bad_overlap);
  expect(&x, ISA_ILLEGAL, 0, ISA_ENG_vector, 0,
         "overlaps src0: a destination must have exactly the elements of a source or share no byte "
         "with it");
  x = open_program(ISA_trn2, NULL);
  x.p->cores[0].code[ISA_ENG_vector].n = 1;
  expect(&x, ISA_ILLEGAL, 0, ISA_ENG_vector, 0,
         "falls off the end of section vector: the last instruction must be halt, jmp or ret");
  x = open_program(ISA_trn2, NULL);
  x.p->ncores = 2;
  expect(&x, ISA_OK, 0, 0, 0, NULL);
  x = open_program(ISA_trn1, mm);
  x.p->ncores = 2;
  expect(&x, ISA_ILLEGAL, -1, -1, 0, "2 cores as one need gen3: trn1 is gen2");
  x = open_program(ISA_trn2, far_wait);
  x.p->ncores = 2;
  expect(&x, ISA_ILLEGAL, 0, ISA_ENG_vector, 0,
         "a wait must be on a semaphore of its own core, 0; let core 1 update one of those");
  x = open_program(ISA_trn2, far_update);
  expect(&x, ISA_ILLEGAL, 0, ISA_ENG_vector, 0, "an update on core 1: the program has 1 core");
  x = open_program(ISA_trn2, NULL);
  sb(&x, ISA_float32, 0, 129, 0, 1); /* a pattern that no instruction uses */
  expect(&x, ISA_ILLEGAL, 0, -1, 0, "pattern 4: 129 partitions: an operand has at most 128");
}

/* ---- Tables of a program ------------------------------------------------------------------ */

static void test_tables(void **state) {
  (void)state;
  fx x;
#define TABLE(place, text, ...)     \
  x = open_program(ISA_trn2, NULL); \
  __VA_ARGS__;                      \
  expect(&x, ISA_ILLEGAL, place, -1, 0, text)
  isa_tensor *a;
  isa_tile *t;
  isa_queue *q;
  TABLE(-1, "the name of tensor 1 is not a name: character 2 cannot be in one",
        x.p->tensors[0].name = "a b");
  TABLE(-1, "tile 1 has no name", x.p->tiles[0].name = NULL);
  TABLE(-1, "tensor a: 7 bytes, but its shape has 1048576", a = &x.p->tensors[0]; a->bytes = 7);
  TABLE(-1, "tensor a: dimension 1 has -4 elements; it must have at least 1", a = &x.p->tensors[0];
        a->shape[1] = -4);
  TABLE(-1, "tensor a: its size overflows", a = &x.p->tensors[0]; a->shape[0] = INT64_MAX / 100);
  TABLE(-1, "tensor a has 9 dimensions; it must have 1 to 8", a = &x.p->tensors[0]; a->ndim = 9);
  TABLE(-1, "tensor a does not fit: trn2 has 96 GiB of hbm", a = &x.p->tensors[0];
        a->shape[0] = (int64_t)1 << 30; a->bytes = (uint64_t)1 << 41);
  TABLE(-1, "tensor a: it is const, but has no data", x.p->tensors[0].role = ISA_CONST);
  TABLE(-1, "tensor k: it has data, but is not const", x.p->tensors[1].role = ISA_INPUT);
  TABLE(-1, "tile ta: 128 partitions from 32 on, but a memory has 128", t = &x.p->tiles[0];
        t->part = 32);
  TABLE(-1, "tile tp: bytes 16000..18047, but a psum partition of trn2 has 16384",
        t = &x.p->tiles[1];
        t->offset = 16000);
  TABLE(-1, "tile ta: its shape does not fit in 2048 bytes of a partition", t = &x.p->tiles[0];
        t->shape[1] = 513);
  TABLE(-1, "tile ta: offset 2, but float32 needs a multiple of 4", t = &x.p->tiles[0];
        t->offset = 2);
  TABLE(-1, "tile ta: a tile must be in sbuf or psum", t = &x.p->tiles[0]; t->space = ISA_HBM);
  TABLE(0, "queue qh: rings=17; it must be 1 to 16", q = &x.p->cores[0].queues[0]; q->rings = 17);
  TABLE(0, "queue qh: dge=hwdge belongs to sync or scalar", q = &x.p->cores[0].queues[0];
        q->owner = ISA_ENG_vector);
  TABLE(0, "queue qg: dge=swdge belongs to gpsimd", q = &x.p->cores[0].queues[2];
        q->owner = ISA_NENGINES);
  TABLE(0, "queue qs: prio=1 needs gen4: trn2 is gen3", q = &x.p->cores[0].queues[1]; q->prio = 1);
  TABLE(0, "17 queues: a core has at most 16", x.p->cores[0].nqueues = 17);
  TABLE(0, "the name of semaphore 4 is not a name: character 1 cannot be in one",
        x.p->cores[0].sem_names[4] = "9");
  TABLE(-1, "symbol s: pc 3, but section vector has 2 instructions",
        isa_symbol s = {.name = "s", .engine = ISA_ENG_vector, .pc = 3};
        isa_program_symbol(x.p, &s));
#undef TABLE
}

static void test_statics(void **state) {
  (void)state;
  fx x = open_fx(ISA_trn2);
  dma(&x);
  x.in.u.DMA_COPY.queue = 1;
  assert_true(isa_program_static(x.p, 0, 1, &x.in));
  expect(&x, ISA_OK, 0, 0, 0, NULL);
  x = open_fx(ISA_trn2);
  dma(&x);
  x.in.u.DMA_COPY.queue = 1;
  x.in.upd.kind = ISA_UPD_dma;
  assert_true(isa_program_static(x.p, 0, 1, &x.in));
  expect(&x, ISA_ILLEGAL, 0, -1, 0,
         "queue qs: a static transfer has no wait and no update; its dma_trigger has them");
  x = open_fx(ISA_trn2);
  dma(&x);
  assert_true(isa_program_static(x.p, 0, 1, &x.in));
  expect(&x, ISA_ILLEGAL, 0, -1, 0,
         "queue qs: its static transfer names queue 0, but this is queue 1");
  x = open_fx(ISA_trn2);
  assert_true(isa_program_static(x.p, 0, 1, &x.in));
  expect(&x, ISA_ILLEGAL, 0, -1, 0,
         "queue qs: tensor_tensor is not a static transfer (dma_copy, dma_transpose, dma_compute, "
         "dma_copy_lists)");
  x = open_fx(ISA_trn2); /* what the assembler turns into a static transfer, in code */
  dma(&x);
  x.in.u.DMA_COPY.queue = 1;
  assert_true(isa_program_insn(x.p, 0, ISA_ENG_sync, &x.in, (isa_line){0}));
  expect(&x, ISA_ILLEGAL, 0, ISA_ENG_sync, 0,
         "queue qs has dge=none: its transfers are made at load, and dma_trigger starts them");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused), cmocka_unit_test(test_accepted),
      cmocka_unit_test(test_program), cmocka_unit_test(test_tables),
      cmocka_unit_test(test_statics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
