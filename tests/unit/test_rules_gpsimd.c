/* Constraints of the instructions of gpsimd, of movement between partitions, of random numbers and
 * of MX formats: each is refused with its own text, and what is just within is accepted. */
#include "insn_bed.h"

#define LG x->in.u.LOCAL_GATHER
#define NG x->in.u.N_GATHER
#define PR x->in.u.PARTITION_REDUCE
#define UN x->in.u.UNARY
#define NZ x->in.u.NONZERO
#define TK x->in.u.TOPK
#define EX x->in.u.EXPONENTIAL
#define DST x->in.u.DST
#define SRC x->in.u.SRC
#define R2 x->in.u.RAND2
#define DR x->in.u.DROPOUT
#define QM x->in.u.QUANTIZE_MX
#define LW x->in.u.LDWEIGHTS_MX
#define MX x->in.u.MATMUL_MX

static isa_num num(float v) { return (isa_num){ISA_NUM_imm, isa_f32_bits(v)}; }
static isa_num vec(fx *x, unsigned dtype) {
  return (isa_num){ISA_NUM_ap, sb(x, dtype, 0, 128, 65536, 1)};
}

/* Legal instructions to start from. */
static void lgather(fx *x) {
  use(x, ISA_OP_local_gather, ISA_ENG_gpsimd);
  LG.dst = sb(x, ISA_float32, 0, 128, 0, 64);
  LG.src = sb(x, ISA_float32, 0, 128, 2048, 512);
  LG.index = sb(x, ISA_uint16, 0, 128, 4096, 4);
}
static void ngather(fx *x) {
  use(x, ISA_OP_n_gather, ISA_ENG_gpsimd);
  NG.dst = sb(x, ISA_float32, 0, 128, 0, 64);
  NG.src = sb(x, ISA_float32, 0, 128, 2048, 512);
  NG.index = sb(x, ISA_uint32, 0, 128, 8192, 64);
}
static void preduce(fx *x) {
  use(x, ISA_OP_partition_reduce, ISA_ENG_gpsimd);
  PR.dst = sb(x, ISA_float32, 0, 1, 0, 512);
  PR.src = sb(x, ISA_float32, 0, 128, 2048, 512);
  PR.op = ISA_ALU_add;
}
static void seqb(fx *x) {
  use(x, ISA_OP_sequence_bounds, ISA_ENG_gpsimd);
  UN.dst = sb(x, ISA_int32, 0, 1, 0, 1024);
  UN.src = sb(x, ISA_int32, 0, 1, 8192, 512);
}
static void nonzero(fx *x) {
  use(x, ISA_OP_nonzero_with_count, ISA_ENG_gpsimd);
  NZ.dst = sb(x, ISA_int32, 0, 128, 0, 101);
  NZ.src = sb(x, ISA_float32, 0, 128, 4096, 100);
}
static void topk(fx *x) {
  use(x, ISA_OP_topk, ISA_ENG_gpsimd);
  TK.val_dst = sb(x, ISA_bfloat16, 0, 128, 0, 8);
  TK.idx_dst = sb(x, ISA_uint32, 0, 128, 4096, 8);
  TK.src = sb(x, ISA_bfloat16, 0, 128, 8192, 3);
  TK.n = 42;
}
static void moved(fx *x, unsigned op) {
  use(x, op, ISA_ENG_vector);
  UN.dst = sb(x, ISA_float32, 0, 64, 0, 96);
  UN.src = sb(x, ISA_float32, 0, 64, 8192, 96);
}
static void tr32(fx *x) { moved(x, ISA_OP_transpose32); }
static void shuffle(fx *x) { moved(x, ISA_OP_shuffle); }
/* n entries of 0 but the fifth. */
static void mask(fx *x, uint32_t n, unsigned fifth) {
  uint8_t m[40] = {0};
  m[4] = (uint8_t)fifth;
  use(x, ISA_OP_load_mask_register, ISA_ENG_vector);
  assert_true(isa_program_pool(x->p, m, n, 1, &x->in.u.MASK.mask));
}
static void expo(fx *x) {
  use(x, ISA_OP_exponential, ISA_ENG_vector);
  EX.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  EX.src = sb(x, ISA_float32, 0, 128, 4096, 512);
}
static void rng(fx *x) {
  use(x, ISA_OP_rng, ISA_ENG_vector);
  DST.dst = sb(x, ISA_uint16, 0, 128, 0, 512);
}
static void seed(fx *x) {
  use(x, ISA_OP_set_rng_seed, ISA_ENG_vector);
  SRC.src = sb(x, ISA_int32, 0, 1, 0, 1);
}
static void set_state(fx *x) {
  use(x, ISA_OP_rand_set_state, ISA_ENG_gpsimd);
  SRC.src = sb(x, ISA_uint32, 0, 128, 0, 6);
}
static void get_state(fx *x) {
  use(x, ISA_OP_rand_get_state, ISA_ENG_gpsimd);
  DST.dst = sb(x, ISA_uint32, 0, 128, 0, 6);
}
static void rand2(fx *x) {
  use(x, ISA_OP_rand2, ISA_ENG_vector);
  R2.dst = sb(x, ISA_bfloat16, 0, 128, 0, 512);
  R2.min = num(-1);
  R2.max = num(1);
}
static void dropout(fx *x) {
  use(x, ISA_OP_dropout, ISA_ENG_vector);
  DR.dst = sb(x, ISA_float32, 0, 128, 0, 512);
  DR.src = sb(x, ISA_float32, 0, 128, 4096, 512);
  DR.prob = num(0.5f);
}
static void quant(fx *x) {
  use(x, ISA_OP_quantize_mx, ISA_ENG_vector);
  QM.dst = sb(x, ISA_float8_e5m2_x4, 0, 128, 0, 128);
  QM.scale = sb(x, ISA_float8_e8m0fnu, 0, 128, 8192, 128);
  QM.src = sb(x, ISA_bfloat16, 0, 128, 4096, 512);
}
static void ldwmx(fx *x) {
  use(x, ISA_OP_ldweights_mx, ISA_ENG_tensor);
  LW.src = sb(x, ISA_float8_e5m2_x4, 0, 128, 0, 128);
  LW.scale = sb(x, ISA_uint8, 0, 128, 4096, 128);
}
static void mmmx(fx *x) {
  use(x, ISA_OP_matmul_mx, ISA_ENG_tensor);
  MX.dst = ps(x, ISA_float32, 0, 128, 0, 512);
  MX.src = sb(x, ISA_float4_e2m1fn_x4, 0, 128, 0, 512);
  MX.scale = sb(x, ISA_uint8, 0, 128, 4096, 512);
}

static fx open_fx(int target) {
  isa_alloc al = isa_alloc_default();
  fx x = {.p = isa_program_new(&al, &isa_targets[target])};
  assert_non_null(x.p);
  return x;
}

/* ---- Refusals ----------------------------------------------------------------------------- */

#define BAD(name, target, field, text, ...) \
  static void bad_##name(fx *x) { __VA_ARGS__; }
#include "rules_gpsimd_cases.def"
#undef BAD

static const bad_case bads[] = {
#define BAD(name, target, field, text, ...) {#name, ISA_##target, field, text, bad_##name},
#include "rules_gpsimd_cases.def"
#undef BAD
};

static void refused(void **state) {
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

#define OK_CASES(OK)                                                                            \
  OK(local_gather, trn1, lgather(x))                                                            \
  OK(local_gather_most, trn2, lgather(x); LG.index = sb(x, ISA_uint16, 0, 128, 4096, 257);      \
     LG.valid_indices = 4096; LG.dst = sb(x, ISA_float32, 0, 128, 16384, 4096))                 \
  OK(local_gather_each, trn2, lgather(x); LG.valid_indices = 2; LG.elems_per_index = 32)        \
  OK(local_gather_packed, trn3, lgather(x); LG.dst = sb(x, ISA_float8_e5m2_x4, 0, 128, 0, 64);  \
     LG.src = sb(x, ISA_float8_e5m2_x4, 0, 128, 2048, 512))                                     \
  OK(n_gather, trn1, ngather(x))                                                                \
  OK(n_gather_over_index, trn2, ngather(x); NG.dst = sb(x, ISA_float32, 0, 128, 8192, 64))      \
  OK(partition_reduce, trn1, preduce(x); PR.op = ISA_ALU_average)                               \
  OK(partition_reduce_bits, trn2, preduce(x); PR.op = ISA_ALU_bitwise_or;                       \
     PR.dst = sb(x, ISA_uint8, 32, 1, 0, 512); PR.src = sb(x, ISA_uint8, 0, 128, 2048, 512))    \
  OK(partition_reduce_parts, trn2, preduce(x);                                                  \
     isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 2048, 512); a.size_dim = 1; a.size_reg = 3; \
     PR.src = add(x, a))                                                                        \
  OK(sequence_bounds, trn1, seqb(x); UN.dst = sb(x, ISA_float32, 0, 1, 0, 1024))                \
  OK(nonzero, trn2, nonzero(x))                                                                 \
  OK(topk, trn1, topk(x))                                                                       \
  OK(topk_most, trn2, topk(x); TK.n = 65535; TK.src = sb(x, ISA_bfloat16, 0, 16, 0, 4096);      \
     TK.val_dst = sb(x, ISA_bfloat16, 0, 16, 8192, 32767);                                      \
     TK.idx_dst = sb(x, ISA_uint32, 0, 16, 81920, 32767))                                       \
  OK(transpose, trn1, tr32(x))                                                                  \
  OK(transpose_in_place, trn2, tr32(x); UN.dst = UN.src)                                        \
  OK(transpose_small, trn2, tr32(x); UN.src = ps(x, ISA_float32, 0, 5, 0, 7);                   \
     UN.dst = sb(x, ISA_float32, 0, 7, 0, 5))                                                   \
  OK(mask, trn1, mask(x, 32, 255))                                                              \
  OK(shuffle, trn1, shuffle(x))                                                                 \
  OK(shuffle_in_place, trn2, shuffle(x); UN.dst = UN.src)                                       \
  OK(shuffle_far, trn2, shuffle(x); UN.dst = sb(x, ISA_float32, 96, 7, 0, 96);                  \
     UN.src = ps(x, ISA_float32, 32, 32, 0, 96))                                                \
  OK(exponential, trn3, expo(x); EX.reduce = ISA_CMD_load_reduce; EX.init = num(3);             \
     EX.max = vec(x, ISA_float32))                                                              \
  OK(exponential_zero, trn3, expo(x); EX.reduce = ISA_CMD_reduce; EX.init = num(0))             \
  OK(exponential_sizes, trn3, expo(x); isa_ap a = line(ISA_SBUF, ISA_float32, 0, 128, 0, 512);  \
     a.size_dim = 2; a.size_reg = 4; EX.dst = add(x, a); a.offset = 4096; EX.src = add(x, a))   \
  OK(rng, trn1, rng(x); DST.dst = ps(x, ISA_int8, 0, 128, 0, 512))                              \
  OK(rng_gpsimd, trn2, rng(x); x->engine = ISA_ENG_gpsimd)                                      \
  OK(seed, trn1, seed(x); SRC.src = ps(x, ISA_float32, 0, 1, 0, 1))                             \
  OK(set_state, trn2, set_state(x))                                                             \
  OK(set_state_vector, trn3, set_state(x); x->engine = ISA_ENG_vector;                          \
     SRC.src = sb(x, ISA_uint32, 32, 1, 0, 24))                                                 \
  OK(get_state_vector, trn3, get_state(x); x->engine = ISA_ENG_vector;                          \
     DST.dst = ps(x, ISA_uint32, 0, 128, 0, 24))                                                \
  OK(rand2, trn3, rand2(x); R2.min = (isa_num){ISA_NUM_reg, 4}; R2.max = vec(x, ISA_float32))   \
  OK(dropout, trn1, dropout(x); DR.dst = DR.src; DR.prob = vec(x, ISA_bfloat16))                \
  OK(quantize, trn3, quant(x))                                                                  \
  OK(quantize_packed, trn3, quant(x); QM.scale = sb(x, ISA_uint8, 12, 100, 8192, 128))          \
  OK(quantize_quadrant, trn3, quant(x); QM.src = sb(x, ISA_float16, 32, 32, 4096, 512);         \
     QM.dst = sb(x, ISA_float8_e4m3fn_x4, 64, 32, 0, 128);                                      \
     QM.scale = sb(x, ISA_uint8, 104, 4, 8192, 128))                                            \
  OK(ldweights_mx, trn3, ldwmx(x))                                                              \
  OK(ldweights_mx_tile, trn3, ldwmx(x); LW.src = sb(x, ISA_float4_e2m1fn_x4, 96, 32, 0, 2);     \
     LW.scale = sb(x, ISA_uint8, 0, 4, 4096, 2); LW.tile_row = 96; LW.tile_rows = 32)           \
  OK(matmul_mx, trn3, mmmx(x); MX.psum_zero = MX.dst)                                           \
  OK(matmul_mx_most, trn3, mmmx(x); MX.dst = ps(x, ISA_bfloat16, 0, 128, 0, 8192);              \
     MX.src = sb(x, ISA_float8_e5m2_x4, 0, 128, 0, 8192);                                       \
     MX.scale = sb(x, ISA_uint8, 0, 128, 65536, 8192))                                          \
  OK(matmul_mx_indirect, trn3, mmmx(x);                                                         \
     isa_ap a = line(ISA_SBUF, ISA_float8_e5m2_x4, 0, 128, 0, 512);                             \
     a.index_kind = ISA_INDEX_indirect; a.index = sb(x, ISA_uint32, 0, 32, 65536, 16);          \
     MX.src = add(x, a); a.dtype = ISA_uint8; a.offset = 4096; MX.scale = add(x, a))

#define OK(name, target, ...) \
  static void ok_##name(fx *x) { __VA_ARGS__; }
OK_CASES(OK)
#undef OK

static const good_case goods[] = {
#define OK(name, target, ...) {#name, ISA_##target, ok_##name},
    OK_CASES(OK)
#undef OK
};

static void accepted(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof goods / sizeof goods[0]; i++) {
    fx x = open_fx(goods[i].target);
    goods[i].make(&x);
    wrong += !accepted_so(&x, &goods[i]);
  }
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(accepted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
