/* The printer: the exact text of every kind of operand, of clauses, and of a program. */
#include "../../isa/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct fx {
  isa_program *p;
  isa_insn in;
} fx;

/* Tensor a, tile ta, queue q (index 0) and semaphores loaded = 3, added = 4. */
static fx open_fx(void) {
  isa_alloc al = isa_alloc_default();
  fx x = {.p = isa_program_new(&al, &isa_targets[ISA_trn2])};
  assert_non_null(x.p);
  isa_tensor a = {.name = "a",
                  .dtype = ISA_float32,
                  .role = ISA_INPUT,
                  .ndim = 2,
                  .shape = {512, 2048},
                  .bytes = 4194304};
  isa_tile t = {.name = "ta",
                .dtype = ISA_float32,
                .space = ISA_SBUF,
                .ndim = 2,
                .shape = {128, 512},
                .offset = 256,
                .bytes = 2048};
  isa_queue q = {.name = "q", .dge = ISA_DGE_hwdge, .rings = 16, .owner = ISA_ENG_sync};
  isa_program_tensor(x.p, &a);
  isa_program_tile(x.p, &t);
  isa_program_queue(x.p, 0, &q);
  x.p->cores[0].sem_names[3] = "loaded";
  x.p->cores[0].sem_names[4] = "added";
  return x;
}

static isa_ap line(unsigned space, unsigned dtype, unsigned nparts, int64_t offset, uint32_t n) {
  isa_ap a = {.dtype = (uint8_t)dtype,
              .space = (uint8_t)space,
              .ndim = 1,
              .offset = offset,
              .nparts = (uint16_t)nparts};
  a.dim[0] = (isa_dim){1, n};
  return a;
}
static uint32_t add(fx *x, isa_ap a) { return isa_program_ap(x->p, 0, &a); }
static uint32_t sb(fx *x, int64_t offset, uint32_t n) {
  return add(x, line(ISA_SBUF, ISA_float32, 128, offset, n));
}

static void expect_insn(fx *x, const char *text) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  isa_print_insn(x->p, 0, ISA_ENG_vector, &x->in, &b);
  assert_string_equal(isa_buf_str(&b), text);
  isa_buf_free(&b);
}

static void expect_ap(fx *x, isa_ap a, const char *text) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  isa_print_ap(x->p, 0, add(x, a), &b);
  assert_string_equal(isa_buf_str(&b), text);
  isa_buf_free(&b);
}

static void use(fx *x, unsigned op) {
  memset(&x->in, 0, sizeof x->in);
  x->in.op = (uint16_t)op;
}

/* ---- Patterns ----------------------------------------------------------------------------- */

static void test_patterns(void **state) {
  (void)state;
  fx x = open_fx();
  isa_ap a = line(ISA_SBUF, ISA_float32, 128, 256, 512);
  expect_ap(&x, a, "float32@sbuf[0,128,256][1][512]");
  a.base = 1;
  expect_ap(&x, a, "float32@sbuf[0,128,256,ta][1][512]");
  a.dyn[0] = (isa_dyn){ISA_DYN_reg, 3, 0, 2048};
  expect_ap(&x, a, "float32@sbuf[0,128,256+r3*2048,ta][1][512]");
  a.size_dim = 1;
  a.size_reg = 4;
  expect_ap(&x, a, "float32@sbuf[0,r4<=128,256+r3*2048,ta][1][512]");

  isa_ap b = line(ISA_PSUM, ISA_bfloat16, 32, 2048, 1);
  b.part = 96;
  b.ndim = 3;
  b.dim[0] = (isa_dim){-64, 2};
  b.dim[1] = (isa_dim){0, 3};
  b.dim[2] = (isa_dim){1, 16};
  expect_ap(&x, b, "bfloat16@psum[96,32,2048][1,0,-64][16,3,2]");
  b.size_dim = 2; /* the outermost */
  b.size_reg = 63;
  expect_ap(&x, b, "bfloat16@psum[96,32,2048][1,0,-64][16,3,r63<=2]");
  b.ndim = 0;
  b.size_dim = 0;
  expect_ap(&x, b, "bfloat16@psum[96,32,2048][][]");

  isa_ap h = line(ISA_HBM, ISA_float32, 0, 4096, 2048);
  h.base = 1;
  h.ndim = 2;
  h.dim[0] = (isa_dim){2048, 128};
  h.dim[1] = (isa_dim){1, 2048};
  expect_ap(&x, h, "float32@hbm[a,4096][1,2048][2048,128]");
  isa_ap elem = line(ISA_SBUF, ISA_int32, 1, 8, 1);
  isa_ap index = line(ISA_SBUF, ISA_uint32, 128, 64, 1);
  h.dyn[0] = (isa_dyn){ISA_DYN_reg, 0, 0, -2048};
  h.dyn[1] = (isa_dyn){ISA_DYN_elem, 0, add(&x, elem), 4};
  expect_ap(&x, h, "float32@hbm[a,4096+r0*-2048+(int32@sbuf[0,1,8][1][1])*4][1,2048][2048,128]");
  memset(h.dyn, 0, sizeof h.dyn);
  h.index_kind = ISA_INDEX_gather;
  h.index = add(&x, index);
  expect_ap(&x, h, "float32@hbm[a,4096][1,2048][2048,128].gather(uint32@sbuf[0,128,64][1][1],0)");
  a = line(ISA_SBUF, ISA_float32, 128, 0, 512);
  a.index_kind = ISA_INDEX_indirect;
  a.index = add(&x, index);
  expect_ap(&x, a, "float32@sbuf[0,128,0][1][512].indirect(uint32@sbuf[0,128,64][1][1])");
  isa_program_free(x.p);
}

/* ---- Operands by kind --------------------------------------------------------------------- */

static void test_control(void **state) {
  (void)state;
  fx x = open_fx();
  use(&x, ISA_OP_halt);
  expect_insn(&x, "halt");
  use(&x, ISA_OP_mov);
  x.in.u.MOV.rd = 7;
  x.in.u.MOV.a = (isa_int){false, -5};
  expect_insn(&x, "mov r7, -5");
  use(&x, ISA_OP_add);
  x.in.u.REGALU.b = (isa_int){true, 9};
  expect_insn(&x, "add r0, r0, r9");
  use(&x, ISA_OP_sem_range_clear);
  x.in.u.SEM_RANGE.first = 250;
  x.in.u.SEM_RANGE.count = 6;
  expect_insn(&x, "sem_range_clear 250, 6");
  use(&x, ISA_OP_blt);
  x.in.u.BRANCH.b.v = 512;
  x.in.u.BRANCH.to = 12;
  expect_insn(&x, "blt r0, 512, L12");
  isa_symbol other = {.name = "L12", .engine = ISA_ENG_vector, .pc = 1};
  isa_program_symbol(x.p, &other); /* the name is taken */
  expect_insn(&x, "blt r0, 512, L12_");
  isa_symbol sync = {.name = "sync_loop", .engine = ISA_ENG_sync, .pc = 12};
  isa_program_symbol(x.p, &sync); /* of another section */
  expect_insn(&x, "blt r0, 512, L12_");
  isa_symbol s = {.name = "add_block", .engine = ISA_ENG_vector, .pc = 12};
  isa_program_symbol(x.p, &s);
  expect_insn(&x, "blt r0, 512, add_block");
  use(&x, ISA_OP_dma_trigger);
  x.in.u.TRIGGER.count.v = 4;
  x.in.upd = (isa_update){ISA_UPD_dma, 0, 0, 3, 0};
  expect_insn(&x, "dma_trigger q, 4 $loaded");
  use(&x, ISA_OP_device_print);
  static const char prefix[] = "a\"b\\\n\x01";
  isa_program_pool(x.p, prefix, sizeof prefix - 1, 1, &x.in.u.PRINT.prefix);
  x.in.u.PRINT.src = sb(&x, 0, 1);
  x.in.u.PRINT.to = ISA_STREAM_stderr;
  expect_insn(&x, "device_print \"a\\\"b\\\\\\n\\x01\", float32@sbuf[0,128,0][1][1], to=stderr");
  isa_program_free(x.p);
}

static void test_data_path(void **state) {
  (void)state;
  fx x = open_fx();
  use(&x, ISA_OP_tensor_tensor);
  x.in.u.TENSOR_TENSOR = (struct isa_TENSOR_TENSOR){
      .dst = sb(&x, 0, 4), .src0 = sb(&x, 16, 4), .src1 = sb(&x, 32, 4), .op = ISA_ALU_add};
  expect_insn(&x, "tensor_tensor float32@sbuf[0,128,0][1][4], float32@sbuf[0,128,16][1][4], "
                  "float32@sbuf[0,128,32][1][4], op=add");
  use(&x, ISA_OP_activate);
  x.in.u.ACTIVATE = (struct isa_ACTIVATE){.dst = sb(&x, 0, 4),
                                          .src = sb(&x, 0, 4),
                                          .fn = ISA_FN_gelu_apprx_tanh,
                                          .scale = {ISA_NUM_imm, 0},
                                          .bias = {ISA_NUM_ap, sb(&x, 64, 1)},
                                          .reduce = ISA_CMD_reset_reduce};
  expect_insn(&x, "activate float32@sbuf[0,128,0][1][4], float32@sbuf[0,128,0][1][4], "
                  "fn=gelu_apprx_tanh, scale=0.0, bias=float32@sbuf[0,128,64][1][1], "
                  "reduce=reset_reduce");
  use(&x, ISA_OP_tensor_scalar);
  x.in.u.TENSOR_SCALAR = (struct isa_TENSOR_SCALAR){.dst = sb(&x, 0, 4),
                                                    .src = sb(&x, 0, 4),
                                                    .op0 = ISA_ALU_mult,
                                                    .imm0 = {ISA_NUM_imm, 0x3e800000},
                                                    .op1 = ISA_ALU_add,
                                                    .imm1 = {ISA_NUM_reg, 9},
                                                    .reverse1 = 1};
  expect_insn(&x, "tensor_scalar float32@sbuf[0,128,0][1][4], float32@sbuf[0,128,0][1][4], "
                  "op0=mult, imm0=0.25, op1=add, imm1=r9, reverse1=true");
  x.in.u.TENSOR_SCALAR = (struct isa_TENSOR_SCALAR){.dst = sb(&x, 0, 4),
                                                    .src = sb(&x, 0, 4),
                                                    .op0 = ISA_ALU_bitwise_and,
                                                    .imm0 = {ISA_NUM_imm, 255}};
  expect_insn(&x, "tensor_scalar float32@sbuf[0,128,0][1][4], float32@sbuf[0,128,0][1][4], "
                  "op0=bitwise_and, imm0=float(0x000000ff)");
  use(&x, ISA_OP_iota);
  isa_step s[2] = {{64, 2}, {-1, 32}};
  x.in.u.IOTA.dst = sb(&x, 0, 64);
  x.in.u.IOTA.offset = (isa_int){true, 2};
  x.in.u.IOTA.multiplier = -7;
  isa_program_pool(x.p, s, 2, sizeof s[0], &x.in.u.IOTA.pattern);
  expect_insn(&x, "iota float32@sbuf[0,128,0][1][64], pattern=[[64,2],[-1,32]], offset=r2, "
                  "multiplier=-7");
  use(&x, ISA_OP_matmul);
  x.in.u.MATMUL.dst = add(&x, line(ISA_PSUM, ISA_float32, 128, 0, 4));
  x.in.u.MATMUL.src = sb(&x, 0, 4);
  x.in.u.MATMUL.acc = ISA_ACC_add;
  x.in.u.MATMUL.tile_rows = 64;
  expect_insn(&x, "matmul float32@psum[0,128,0][1][4], float32@sbuf[0,128,0][1][4], acc=add, "
                  "tile_rows=64");
  isa_program_free(x.p);
}

static void test_lists(void **state) {
  (void)state;
  fx x = open_fx();
  static const uint8_t mask[4] = {3, 2, 1, 255};
  use(&x, ISA_OP_load_mask_register);
  isa_program_pool(x.p, mask, 4, 1, &x.in.u.MASK.mask);
  expect_insn(&x, "load_mask_register [3,2,1,255]");
  uint32_t aps[2] = {sb(&x, 0, 4), sb(&x, 16, 4)};
  uint32_t scales[2] = {0x3f800000, 0xbf000000};
  use(&x, ISA_OP_dma_compute);
  x.in.u.DMA_COMPUTE.dst = sb(&x, 32, 4);
  x.in.u.DMA_COMPUTE.op = ISA_ALU_add;
  isa_program_pool(x.p, aps, 2, 4, &x.in.u.DMA_COMPUTE.srcs);
  isa_program_pool(x.p, scales, 2, 4, &x.in.u.DMA_COMPUTE.scales);
  expect_insn(&x, "dma_compute float32@sbuf[0,128,32][1][4], srcs=[float32@sbuf[0,128,0][1][4],"
                  "float32@sbuf[0,128,16][1][4]], op=add, scales=[1.0,-0.5], queue=q");
  use(&x, ISA_OP_core_barrier);
  x.in.u.BARRIER.semaphore = 200;
  x.in.u.BARRIER.data = sb(&x, 32, 4);
  expect_insn(&x, "core_barrier 200, data=float32@sbuf[0,128,32][1][4]");
  const uint32_t sizes[2] = {2, 1}, ranks[3] = {0, 1, 7};
  assert_int_equal(isa_program_group(x.p, &(isa_group){"tp", 2, 3, sizes, ranks}), 1);
  use(&x, ISA_OP_all_reduce);
  isa_program_pool(x.p, aps, 1, 4, &x.in.u.COLLECTIVE.dsts);
  isa_program_pool(x.p, aps, 2, 4, &x.in.u.COLLECTIVE.srcs);
  expect_insn(&x,
              "all_reduce dsts=[float32@sbuf[0,128,0][1][4]], srcs=[float32@sbuf[0,128,0][1][4],"
              "float32@sbuf[0,128,16][1][4]], group=tp");
  isa_program_free(x.p);
}

static void test_floats(void **state) {
  (void)state;
  static const struct {
    uint32_t bits;
    const char *text;
  } cases[] = {
      {0x00000000, "0.0"},
      {0x80000000, "-0.0"},
      {0x3f800000, "1.0"},
      {0x3dcccccd, "0.1"},
      {0x3f7fffff, "0.99999994"},
      {0x40490fdb, "3.1415927"},
      {0x4b800000, "16777216.0"},
      {0x7f7fffff, "3.4028235e+38"},
      {0x00000001, "1e-45"},
      {0x00800000, "1.1754944e-38"},
      {0x7f800000, "inf"},
      {0xff800000, "-inf"},
      {0x7fc00000, "nan"},
      {0x7fc00001, "float(0x7fc00001)"},
      {0xffc00000, "float(0xffc00000)"},
      {0x7f800001, "float(0x7f800001)"},
  };
  fx x = open_fx();
  isa_alloc al = isa_alloc_default();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    isa_buf b;
    isa_buf_init(&b, &al);
    isa_pr_f32(&b, cases[i].bits);
    assert_string_equal(isa_buf_str(&b), cases[i].text);
    isa_buf_free(&b);
  }
  isa_program_free(x.p);
}

static void test_clauses(void **state) {
  (void)state;
  static const char *const conds[] = {"", ">=", ">", "==", "<=", "<", "!="};
  fx x = open_fx();
  use(&x, ISA_OP_event_semaphore);
  for (int c = ISA_WAIT_ge; c < ISA_NCONDS; c++) {
    char text[64];
    snprintf(text, sizeof text, "event_semaphore $loaded%s32", conds[c]);
    x.in.wait = (isa_wait){(uint8_t)c, 0, 3, 0, 32};
    expect_insn(&x, text);
  }
  x.in.wait = (isa_wait){ISA_WAIT_ge, 0, 12, 1, 3};
  x.in.upd = (isa_update){ISA_UPD_sub, 0, 0, 4, 32};
  expect_insn(&x, "event_semaphore $S[12]>=r3 $added-=32");
  x.in.wait = (isa_wait){0};
  x.in.upd = (isa_update){ISA_UPD_inc, 1, 0, 4, 0};
  expect_insn(&x, "event_semaphore $added++@read");
  x.in.upd = (isa_update){ISA_UPD_dec, 0, 0, 200, 0};
  expect_insn(&x, "event_semaphore $S[200]--");
  x.in.upd = (isa_update){ISA_UPD_add, 0, 0, 4, 2147483647};
  expect_insn(&x, "event_semaphore $added+=2147483647");
  x.in.upd = (isa_update){ISA_UPD_write, 0, 1, 4, 0};
  expect_insn(&x, "event_semaphore $S[1,4]=0");
  isa_program_free(x.p);
}

/* Whatever is in a damaged program, the printer stays inside of it. */
static void test_damaged(void **state) {
  (void)state;
  fx x = open_fx();
  use(&x, ISA_OP_tensor_tensor);
  isa_ap a = line(ISA_SBUF, 99, 128, 0, 4);
  a.base = 77;
  a.dyn[0] = (isa_dyn){ISA_DYN_elem, 0, 1, 4}; /* of itself */
  a.index_kind = ISA_INDEX_indirect;
  a.index = 1;
  x.in.u.TENSOR_TENSOR =
      (struct isa_TENSOR_TENSOR){.dst = add(&x, a), .src0 = 50, .op = 99, .round = 9};
  assert_int_equal(x.in.u.TENSOR_TENSOR.dst, 1);
  expect_insn(&x, "tensor_tensor ?@sbuf[0,128,0+(?@sbuf[0,128,0+(?)*4,?][1][4])*4,?][1][4]"
                  ".indirect(?@sbuf[0,128,0+(?)*4,?][1][4]), ?, none, op=99, round=9");
  x.in.op = 9999;
  expect_insn(&x, "?");
  use(&x, ISA_OP_iota);
  x.in.u.IOTA.pattern = (isa_ref){4096, 3};
  expect_insn(&x, "iota none, pattern=[]");
  isa_program_free(x.p);
}

/* ---- A program ---------------------------------------------------------------------------- */

static const char program_text[] =
    "target trn2\n"
    "a tensor float32[512,2048], input\n"
    "k tensor uint16[3], const = {0x0001,0xff00,0x1234}\n"
    "z tensor uint8[9], const = {0x00,0x00,0x00,0x00,0x00,0x00,0x00,0x00, \\\n        0x07}\n"
    "ta tile sbuf float32[128,512], at=[0,256]\n"
    "tp tile psum bfloat16[32,2,8], at=[32,2048], bytes=2048, overlay=g, own\n"
    "loaded sem 3\n"
    "added sem 4\n"
    "q queue rings=16, dge=hwdge, owner=sync\n"
    "s queue rings=1, dge=none\n"
    "dma s, float32@sbuf[0,128,0][1][4], float32@sbuf[0,128,16][1][4]\n"
    "\n"
    "section vector\n"
    "global start\n"
    "start:\n"
    ".again:\n"
    "%line 7 \"add.s\"\n"
    "        jmp start\n"
    "L1:\n"
    "%line 0\n"
    "        nop $loaded>=32\n"
    "%line 0\n"
    "        beq r0, 0, L1\n"
    "end:\n"
    "\n"
    "section sync\n"
    "%line 0\n"
    "        halt\n";

static void fill_program(fx *x) {
  static const uint8_t k[6] = {0x01, 0x00, 0x00, 0xff, 0x34, 0x12}, z[9] = {[8] = 7};
  isa_tensor tk = {.name = "k",
                   .dtype = ISA_uint16,
                   .role = ISA_CONST,
                   .ndim = 1,
                   .shape = {3},
                   .bytes = 6,
                   .data = k};
  isa_tensor tz = {.name = "z",
                   .dtype = ISA_uint8,
                   .role = ISA_CONST,
                   .ndim = 1,
                   .shape = {9},
                   .bytes = 9,
                   .data = z};
  isa_tile tp = {.name = "tp",
                 .dtype = ISA_bfloat16,
                 .space = ISA_PSUM,
                 .ndim = 3,
                 .part = 32,
                 .shape = {32, 2, 8},
                 .offset = 2048,
                 .bytes = 2048,
                 .overlay = "g",
                 .own = true};
  isa_queue s = {.name = "s", .dge = ISA_DGE_none, .rings = 1, .owner = ISA_NENGINES};
  isa_program_tensor(x->p, &tk);
  isa_program_tensor(x->p, &tz);
  isa_program_tile(x->p, &tp);
  isa_program_queue(x->p, 0, &s);
  use(x, ISA_OP_dma_copy);
  x->in.u.DMA_COPY = (struct isa_DMA_COPY){.dst = sb(x, 0, 4), .src = sb(x, 16, 4), .queue = 1};
  isa_program_static(x->p, 0, 1, &x->in);
  isa_line at = {isa_program_file(x->p, "add.s"), 7, 0}, unknown = {0};
  use(x, ISA_OP_jmp);
  isa_program_insn(x->p, 0, ISA_ENG_vector, &x->in, at);
  use(x, ISA_OP_nop);
  x->in.wait = (isa_wait){ISA_WAIT_ge, 0, 3, 0, 32};
  isa_program_insn(x->p, 0, ISA_ENG_vector, &x->in, unknown);
  use(x, ISA_OP_beq);
  x->in.u.BRANCH.to = 1;
  isa_program_insn(x->p, 0, ISA_ENG_vector, &x->in, unknown);
  use(x, ISA_OP_halt);
  isa_program_insn(x->p, 0, ISA_ENG_sync, &x->in, unknown);
  isa_symbol names[3] = {{"start", 0, ISA_ENG_vector, 1, 0},
                         {".again", 0, ISA_ENG_vector, 0, 0},
                         {"end", 0, ISA_ENG_vector, 0, 3}};
  for (int i = 0; i < 3; i++) isa_program_symbol(x->p, &names[i]);
}

static void test_program(void **state) {
  (void)state;
  fx x = open_fx();
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  fill_program(&x);
  isa_print_program(x.p, ISA_TEXT_RAW, &b);
  assert_string_equal(isa_buf_str(&b), program_text);
  assert_false(b.failed);
  isa_buf_free(&b);
  isa_program_free(x.p);
}

/* Out of memory at any point: the buffer says so, nothing leaks. */
typedef struct limited {
  isa_alloc al;
  long left;
} limited;
static void *limited_fn(void *ud, void *p, size_t old, size_t n) {
  limited *l = ud;
  if (n > 0 && l->left-- <= 0) return NULL;
  return l->al.fn(l->al.ud, p, old, n);
}

static void test_no_memory(void **state) {
  (void)state;
  fx x = open_fx();
  fill_program(&x);
  for (long n = 0; n < 100; n++) {
    limited l = {isa_alloc_default(), n};
    isa_alloc al = {limited_fn, &l};
    isa_buf b;
    isa_buf_init(&b, &al);
    isa_print_program(x.p, ISA_TEXT_RAW, &b);
    bool whole = strcmp(isa_buf_str(&b), program_text) == 0;
    bool failed = b.failed;
    isa_buf_free(&b);
    assert_true(failed != whole);
    if (whole) {
      assert_true(n > 3); /* labels of each section, and the text */
      break;
    }
    assert_true(n < 99);
  }
  isa_program_free(x.p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_patterns),  cmocka_unit_test(test_control),
      cmocka_unit_test(test_data_path), cmocka_unit_test(test_lists),
      cmocka_unit_test(test_floats),    cmocka_unit_test(test_clauses),
      cmocka_unit_test(test_damaged),   cmocka_unit_test(test_program),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
