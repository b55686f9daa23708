/* Whole programs of the vector, scalar and tensor instructions on every target that has them:
 * values written by hand, and what each costs by the formulas of the timing model. */
#include "vm_bed.h"

#include <math.h>
#include <stdbool.h>

static const struct {
  const char *name;
  int gen;
} targets[] = {{"trn1", 2}, {"inf2", 2}, {"trn2", 3}, {"trn3", 4}};
enum { TARGETS = sizeof targets / sizeof *targets };

/* ---- Tiles as text ------------------------------------------------------------------------ */

/* A number as an element of that type; 0x... gives its bits. */
static uint32_t element(soma_dtype t, const char *word) {
  float x = strtof(word, NULL);
  uint32_t u;
  memcpy(&u, &x, 4);
  if (strncmp(word, "0x", 2) == 0) return (uint32_t)strtoul(word, NULL, 16);
  switch (t) {
  case SOMA_FLOAT32: return u;
  case SOMA_BFLOAT16: return u >> 16; /* the numbers here are exact in it */
  default: return (uint32_t)(int32_t)x;
  }
}

static soma_tile_info tile_named(bed *b, const char *name) {
  soma_tile_info t;
  for (uint32_t i = 0; soma_program_tile(b->p, i, &t) == SOMA_OK; i++)
    if (strcmp(t.name, name) == 0) return t;
  fail_msg("no tile %s", name);
  return t;
}

/* For each "name= e e e ...;" of the text: writes the tile's elements, partition by partition, or
 * compares them. */
static void tiles(bed *b, const char *text, bool compare, const char *what) {
  char copy[4000], *list = copy, *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *item; (item = strtok_r(list, ";", &save)) != NULL; list = NULL) {
    char *words = strchr(item, '='), *inner = NULL;
    *words++ = 0;
    soma_tile_info t = tile_named(b, item + strspn(item, " "));
    uint32_t size = (uint32_t)soma_dtype_size(t.dtype), each = t.bytes / size, n = 0;
    for (char *w; (w = strtok_r(words, " ", &inner)) != NULL; words = NULL, n++) {
      uint32_t bits = element(t.dtype, w), got = 0;
      uint32_t p = t.partition + n / each, at = t.offset + n % each * size;
      if (!compare) {
        assert_int_equal(soma_memory_write(b->m, (soma_memory)t.memory, p, at, &bits, size),
                         SOMA_OK);
        continue;
      }
      assert_int_equal(soma_memory_read(b->m, (soma_memory)t.memory, p, at, &got, size), SOMA_OK);
      bits &= size == 4 ? UINT32_MAX : (1u << 8 * size) - 1;
      if (got != bits)
        fail_msg("%s: %s[%u, %u] is %x, not %x (%s)", what, t.name, n / each, n % each, got, bits,
                 w);
    }
    assert_int_equal(n, t.shape[0] * each);
  }
}

typedef struct insn_case {
  const char *name;
  int gen;
  const char *engine, *decl, *code, *in, *out;
} insn_case;

static void run_case(const insn_case *c, unsigned target) {
  char text[4000], what[200];
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = targets[target].name;
  snprintf(text, sizeof text, "target %s\n%ssection %s\n%s halt\n", o.target, c->decl, c->engine,
           c->code);
  snprintf(what, sizeof what, "%s on %s", c->name, o.target);
  bed b = bed_open(&o, text);
  tiles(&b, c->in, false, what);
  bed_run(&b, SOMA_OK);
  tiles(&b, c->out, true, what);
  bed_close(&b);
}

#define FOUR "a tile sbuf float32[2, 4]\nb tile sbuf float32[2, 4]\no tile sbuf float32[2, 4]\n"
#define COLS "r tile sbuf float32[2, 1]\nv tile sbuf float32[2, 1]\nw tile sbuf float32[2, 1]\n"
#define IN_A "a= 1 -2 3 4 5 6 -7 8;"

static const insn_case cases[] = {
    {"scalar_tensor_tensor", 2, "vector", FOUR,
     " scalar_tensor_tensor o, a, b, op0=mult, imm0=2.0, op1=subtract, reverse1=true\n",
     IN_A "b= 1 1 1 1 2 2 2 2", "o= -1 5 -5 -7 -8 -10 16 -14"},
    {"copy_predicated", 2, "vector", FOUR "u tile sbuf uint8[2, 4]\n",
     " copy_predicated o, src=a, pred=u\n copy_predicated b, imm=9.0, pred=u, reverse_pred=true\n",
     IN_A "u= 1 0 0 255 0 2 0 0; o= 0 0 0 0 0 0 0 0; b= 0 0 0 0 0 0 0 0",
     "o= 1 0 0 4 0 6 0 0; b= 0 9 9 0 9 0 9 9"},
    {"select_reduce", 2, "vector", FOUR COLS "u tile sbuf uint8[2, 4]\n",
     " select_reduce o, a, -5.0, pred=u, reduce=reset_reduce, reduce_op=max\n dve_read_acc r\n"
     " select_reduce b, a, v, pred=u, reverse_pred=true, reduce=reduce\n dve_read_acc w\n",
     "a= 1 0x7fc00001 3 4 5 6 -7 8; u= 1 0 1 0 0 0 3 0; v= 100 -100",
     "o= 1 -5 3 -5 -5 -5 -7 -5; r= 3 -5; b= 100 0x7fc00001 100 4 5 6 -100 8; w= 100 8"},
    {"range_select", 3, "vector", FOUR COLS,
     " range_select o, a, bound0=v, bound1=w, op0=is_ge, op1=is_lt, start=10.0, "
     "reduce=reset_reduce\n"
     " dve_read_acc r\n",
     IN_A "v= 11 0; w= 13 10",
     "o= 0xff7fffff -2 3 0xff7fffff 0xff7fffff 0xff7fffff 0xff7fffff "
     "0xff7fffff; r= 3 0xff7fffff"},
    {"tensor_tensor_scan", 2, "vector", FOUR COLS,
     " tensor_tensor_scan o, a, b, v, op0=mult, op1=add\n", IN_A "b= 1 1 1 1 0 0 0 1; v= 2 1",
     "o= 3 -5 -14 -55 5 30 -210 -1679"},
    {"tensor_scalar_cumulative", 2, "vector", FOUR COLS,
     " tensor_scalar_cumulative o, a, op0=mult, imm0=2.0, op1=add, reduce=reset_reduce\n"
     " tensor_scalar_cumulative b, a, op0=add, imm0=0.0, op1=subtract, reduce=reduce\n"
     " dve_read_acc r\n",
     IN_A, "o= 2 -2 4 12 10 22 8 24; b= -11 9 -6 10 -19 25 -32 40; r= 10 40"},
    {"tensor_scalar_reduce", 2, "vector", FOUR COLS,
     " tensor_scalar_reduce o, a, op0=subtract, imm0=1.0, reverse0=true, op1=add, imm1=v, "
     "reduce=load_reduce\n dve_read_acc r, negate=true\n dve_read_acc w\n",
     IN_A "v= 100 200", "o= 0 3 -2 -3 -4 -5 8 -7; r= -98 -192; w= 98 192"},
    {"bn_stats and bn_aggr", 2, "vector",
     "a tile sbuf float32[2, 5]\ns tile sbuf float32[2, 6]\no tile sbuf float32[2, 2]\n",
     " bn_stats s, a\n bn_aggr o, s\n", "a= 1 10 3 20 5 0 0 0 4 0",
     /* even 1 3 5, odd 10 20; even 0 0 0, odd 0 4; mean and spread by hand, then rounded */
     "s= 3 3 8 2 15 50 3 0 0 2 2 8; o= 0x40f9999a 0x4238a3d6 0x3f4ccccd 0x4023d70a"},
    {"the eight largest, found and replaced", 2, "vector",
     "a tile sbuf float32[1, 11]\nt tile sbuf float32[1, 8]\nv tile sbuf float32[1, 8]\n"
     "f tile sbuf uint32[1, 8]\nx tile sbuf uint16[1, 8]\no tile sbuf float32[1, 11]\n",
     " max8 t, a\n match_value_load v\n find_index8 f, a\n"
     " match_replace8 o, a, imm=-1.0, dst_idx=x\n",
     "a= 1 2 3 4 8 8 8 8 8 8 8; v= 3 8 8 8 8 8 8 8", /* the documented example */
     "t= 8 8 8 8 8 8 8 4; f= 2 4 5 6 7 8 9 10; x= 2 10 9 8 7 6 5 4; "
     "o= 1 2 -1 4 -1 -1 -1 -1 -1 -1 -1"},
    {"values that are missing", 2, "vector",
     "a tile sbuf float32[1, 8]\nv tile sbuf float32[1, 8]\nf tile sbuf uint16[1, 8]\n"
     "x tile sbuf uint32[1, 8]\n",
     " match_value_load v\n find_index8 f, a\n match_replace8 a, a, imm=7.0, dst_idx=x\n",
     "a= 1 5 0 5 0x7fc00000 9 9 5; v= 5 7 0x80000000 5 0x7fc00000 5 5 1",
     "f= 1 65535 2 3 65535 7 65535 0; x= 0xffffffff 0xffffffff 2 7 0xffffffff 3 1 0; "
     "a= 7 7 7 7 0x7fc00000 9 9 7"},
    {"activate2", 4, "scalar", FOUR COLS,
     " activate2 o, a, fn=prelu, op0=mult, imm0=2.0, op1=subtract, imm1=v, relu_param=0.5, "
     "reverse1=true, reduce=reset_reduce, reduce_op=abs_max\n act_read_acc r\n"
     " activate2 b, a, fn=copy, op0=add, imm0=1.0, reduce=reduce, reduce_op=min\n act_read_acc w\n",
     IN_A "v= 1 0", /* 1 - 2a: -1 5 -5 -7; -10 -12 14 -16 */
     "o= -0.5 5 -2.5 -3.5 -5 -6 14 -8; r= 5 14; b= 2 -1 4 5 6 7 -6 9; w= -1 -6"},
    {"stochastic rounding of what is exact", 2, "vector",
     "a tile sbuf float32[2, 4]\no tile sbuf bfloat16[2, 4]\n",
     " tensor_copy o, a, round=stochastic\n", IN_A, "o= 1 -2 3 4 5 6 -7 8"},
};

static void every_case(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (unsigned t = 0; t < TARGETS; t++)
      if (targets[t].gen >= cases[i].gen) run_case(&cases[i], t);
}

/* ---- Tensor engine ------------------------------------------------------------------------ */

#define PE(name, gen, decl, code, in, out) \
  { name, gen, "tensor", decl, code, in, out }
static const insn_case pe_cases[] = {
    PE("four tiles of the array", 2,
       "w tile sbuf bfloat16[2, 2]\nx tile sbuf bfloat16[2, 2]\nk tile sbuf bfloat16[2, 2]\n"
       "o tile psum float32[2, 2]\nz tile psum float32[2, 2]\n",
       " ldweights w, tile_rows=64, tile_cols=64\n"
       " ldweights k, tile_row=64, tile_col=64, tile_rows=64, tile_cols=64\n"
       " matmul z, x, tile_row=64, tile_col=64, tile_rows=64, tile_cols=64\n"
       " matmul o, x, tile_rows=64, tile_cols=64\n",
       "w= 1 2 3 4; k= 1 0 0 -1; x= 5 6 7 8", "o= 26 30 38 44; z= 5 6 -7 -8"),
    PE("tiles of 32", 3,
       "w tile sbuf bfloat16[2, 2]\nx tile sbuf bfloat16[2, 2]\no tile psum float32[2, 2]\n",
       " ldweights w, tile_row=96, tile_col=32, tile_rows=32, tile_cols=32\n"
       " matmul o, x, tile_row=96, tile_col=32, tile_rows=32, tile_cols=32\n",
       "w= 1 2 3 4; x= 5 6 7 8", "o= 26 30 38 44"),
    /* fp8 e4m3: 0x38 is 1, 0x40 2, 0x44 3, 0x48 4; e5m2: 0x3c is 1, 0x40 2 */
    PE("double_row", 3,
       "w tile sbuf float8_e4m3[2, 2, 1]\nx tile sbuf float8_e5m2[2, 2, 2]\n"
       "o tile psum float32[1, 2]\n",
       " ldweights w, perf=double_row\n matmul o, x, perf=double_row\n",
       "w= 0x38 0x40 0x44 0x48; x= 0x3c 0x40 0x3c 0x3c 0x40 0x40 0x3c 0x40",
       "o= 13 18"), /* 1*1 + 2*1 + 3*2 + 4*1; 1*2 + 2*1 + 3*2 + 4*2 */
    PE("a transpose keeps bits", 3,
       "w tile sbuf bfloat16[2, 2]\nx tile sbuf bfloat16[2, 2]\no tile psum bfloat16[2, 2]\n",
       " ldweights w\n matmul o, x, transpose=true\n", "w= 0x7fa1 0xff80 0x8000 3; x= 1 0 0 1",
       "o= 0x7fa1 0x8000 0xff80 3"),
    PE("fp8 becomes 16 bits", 3,
       "w tile sbuf float8_e4m3[2, 2]\nx tile sbuf float8_e4m3[2, 2]\no tile psum bfloat16[2, 2]\n",
       " ldweights w\n matmul o, x, transpose=true\n", "w= 0x7f 0xf8 0x80 0x38; x= 0x38 0 0 0x38",
       "o= 0x7f 0x80 0xf8 0x38"),
    PE("bf16 in psum rounds each time", 4,
       "w tile sbuf bfloat16[1, 1]\nx tile sbuf bfloat16[1, 2]\no tile psum bfloat16[1, 2]\n",
       " ldweights w\n matmul o, x, acc=write\n matmul o, x, acc=add\n matmul o, x, acc=add\n",
       "w= 1; x= 1.0078125 256", "o= 3.03125 768"), /* 3.0234375 is a tie */
};

static void tensor_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof pe_cases / sizeof *pe_cases; i++)
    for (unsigned t = 0; t < TARGETS; t++)
      if (targets[t].gen >= pe_cases[i].gen) run_case(&pe_cases[i], t);
}

/* On gen2 transpose is a hint: numbers are multiplied, so a NaN spreads. */
static void transpose_on_gen2(void **state) {
  (void)state;
  static const insn_case c =
      PE("transpose", 2,
         "w tile sbuf bfloat16[2, 2]\nx tile sbuf bfloat16[2, 2]\no tile psum float32[2, 2]\n",
         " ldweights w\n matmul o, x, transpose=true\n", "w= 0x7fa1 2 5 3; x= 1 0 0 1",
         "o= 0x7fc00000 0x7fc00000 2 3");
  run_case(&c, 0);
  run_case(&c, 1);
}

static void loaded_operands_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *code, *text;
  } wrong[] = {
      {"matmul o, x, tile_rows=64, tile_row=64",
       "matmul: no stationary operand is loaded at tile (64, 0)"},
      {"ldweights x, tile_rows=64\n matmul o, x",
       "matmul: tile of 128 x 128, but ldweights used 64 x 128"},
      {"ldweights q, perf=double_row\n matmul p, q[:, 0, :]",
       "matmul: perf=double_row must be the same as in ldweights"},
      {"ldweights q[:, 0, :]\n matmul p, n",
       "matmul: moving float8_e4m3fn with stationary float8_e4m3: the two do not mix"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[600];
    snprintf(text, sizeof text,
             "target trn3\nx tile sbuf bfloat16[2, 2]\no tile psum float32[2, 2]\n"
             "q tile sbuf float8_e4m3[2, 2, 2]\nn tile sbuf float8_e4m3fn[2, 2]\n"
             "p tile psum float32[2, 2]\nsection tensor\n %s\n halt\n",
             wrong[i].code);
    bed b = bed_open(NULL, text);
    bed_run(&b, SOMA_FAULT);
    bed_fault_has(&b, wrong[i].text);
    bed_close(&b);
  }
}

static void match_registers_are_loaded(void **state) {
  (void)state;
  static const char *const code[] = {"find_index8 f, a", "match_replace8 a, a, imm=1.0"};
  for (size_t i = 0; i < 2; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "target trn2\na tile sbuf float32[2, 8]\nf tile sbuf uint32[2, 8]\n"
             "section vector\n %s\n halt\n",
             code[i]);
    bed b = bed_open(NULL, text);
    bed_run(&b, SOMA_FAULT);
    bed_fault_has(&b, "no values are loaded, run match_value_load first");
    bed_close(&b);
  }
}

/* ---- Stochastic rounding ------------------------------------------------------------------ */

enum { SR_COLS = 512 };

/* 128 x 512 of 1 + 2^-9, a quarter of the way from 1 to bfloat16's next number. */
static void round_run(uint64_t seed, const char *code, uint16_t *out) {
  static const char *const text =
      "target trn2\na tile sbuf float32[128, 512]\no tile sbuf bfloat16[128, 512]\n"
      "section vector\n %s\n halt\n";
  char source[400];
  float row[SR_COLS];
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = "trn2";
  o.rounding_seed = seed;
  snprintf(source, sizeof source, text, code);
  bed b = bed_open(&o, source);
  soma_tile_info a = tile_named(&b, "a"), to = tile_named(&b, "o");
  for (int i = 0; i < SR_COLS; i++) row[i] = 1 + 0x1p-9f;
  for (uint32_t p = 0; p < 128; p++)
    assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, p, a.offset, row, sizeof row), SOMA_OK);
  bed_run(&b, SOMA_OK);
  for (uint32_t p = 0; p < 128; p++)
    assert_int_equal(soma_memory_read(b.m, SOMA_SBUF, p, to.offset, out + p * SR_COLS, 2 * SR_COLS),
                     SOMA_OK);
  bed_close(&b);
}

static double share_up(const uint16_t *x) {
  size_t up = 0;
  for (size_t i = 0; i < 128 * SR_COLS; i++) {
    assert_true(x[i] == 0x3f80 || x[i] == 0x3f81);
    up += x[i] == 0x3f81;
  }
  return (double)up / (128 * SR_COLS);
}

static void stochastic_rounding(void **state) {
  (void)state;
  static uint16_t x[128 * SR_COLS], y[128 * SR_COLS];
  const size_t size = sizeof x;
  const char *copy = "tensor_copy o, a, round=stochastic";
  round_run(1, copy, x);
  round_run(1, copy, y);
  assert_memory_equal(x, y, size); /* the seed decides */
  assert_true(fabs(share_up(x) - 0.25) < 0.01);
  round_run(2, copy, y);
  assert_int_not_equal(memcmp(x, y, size), 0);
  assert_true(fabs(share_up(y) - 0.25) < 0.01);
  assert_int_not_equal(memcmp(x, x + SR_COLS, 2 * SR_COLS), 0); /* partitions differ */
  round_run(1, "tensor_copy o, a, round=stochastic\n tensor_copy o, a, round=stochastic", y);
  assert_int_not_equal(memcmp(x, y, size), 0); /* and so do instructions */
  round_run(1, "tensor_scalar o, a, op0=mult, imm0=1.0, round=stochastic", y);
  assert_memory_equal(x, y, size); /* but only their number counts */
  round_run(1, "tensor_tensor o, a, a, op=max, round=stochastic", y);
  assert_memory_equal(x, y, size);
  round_run(1, "tensor_copy o, a\n tensor_copy o[0:1, :], a[0:1, :], round=stochastic", y);
  assert_memory_equal(x, y, 2 * SR_COLS);
  assert_int_equal(y[SR_COLS], 0x3f80); /* the nearest */
}

/* ---- Time --------------------------------------------------------------------------------- */

struct span {
  uint64_t start, end;
  unsigned engine;
};
static void last_insn(void *ud, const soma_event *e) {
  struct span *s = ud;
  if (e->kind == SOMA_EV_INSN && e->engine == s->engine)
    *s = (struct span){e->start, e->end, s->engine};
}

/* Cycles of the last instruction from start to done: its stream and the engine's latency. */
static void costs(void **state) {
  (void)state;
  enum { V1 = 390, V2 = 144, S2 = 352, T1 = 398, T2 = 391 };
  static const struct {
    const char *target, *engine, *code;
    unsigned cycles;
  } rows[] = {
      {"trn1", "vector", "tensor_tensor_scan o, a, p, 0.0, op0=mult, op1=add", 1024 + V1},
      {"trn2", "vector", "tensor_tensor_scan o, a, b, 0.0, op0=mult, op1=add", 1024 + V2},
      {"trn1", "vector", "copy_predicated o, src=a, pred=u", 1024 + V1},
      {"trn1", "vector", "copy_predicated o, src=p, pred=u", 512 + V1},
      {"trn2", "vector", "copy_predicated o, src=a, pred=u", 512 + V2},
      {"trn2", "vector", "select_reduce o, a, 0.0, pred=u", 512 + V2},
      {"trn2", "vector", "scalar_tensor_tensor o, a, b, op0=mult, imm0=1.0, op1=add", 512 + V2},
      {"trn2", "vector", "scalar_tensor_tensor h, g, k, op0=mult, imm0=1.0, op1=add", 256 + V2},
      {"trn2", "vector", "tensor_scalar_reduce o, a, op0=mult, imm0=1.0, op1=add, reduce=reduce",
       512 + 64 + V2},
      {"trn2", "vector", "dve_read_acc v", 64 + V2},
      {"trn2", "vector", "bn_stats s, a", 512 + V2},
      {"trn2", "vector", "bn_aggr t, a[:, 0:510]", 2210 + V2},
      {"trn2", "vector", "max8 e, a", 512 + V2},
      {"trn1", "vector", "max8 e, a", 512 + V1},
      {"trn3", "vector", "match_replace8 o, a, imm=0.0", 512 + V2},
      {"trn2", "vector", "reciprocal o, a", 4096 + V2},
      {"trn1", "vector", "tensor_tensor h, g, k, op=add", 512 + V1},
      {"trn1", "vector", "tensor_tensor h, g, k, op=max", 1024 + V1},
      {"trn1", "vector", "tensor_tensor o, a, b, op=add", 1024 + V1},
      {"trn1", "vector", "tensor_reduce v, g, op=max", 256 + V1},
      {"trn1", "vector", "tensor_reduce v, g, op=min", 512 + V1},
      {"trn1", "vector", "memset h, 0.0", 256 + V1},
      {"trn1", "vector", "memset h, 1.0", 512 + V1},
      {"trn2", "vector", "tensor_copy h, g", 128 + V2},
      {"trn2", "vector", "tensor_copy q, y", 256 + V2},
      {"trn3", "vector", "tensor_copy q, y", 128 + V2},
      {"trn2", "vector", "tensor_copy o[:, 0:100], a[:, 0:500:5]", 100 + V2},
      {"trn2", "scalar", "activate o[:, 0:100], a[:, 0:500:5], fn=copy", 200 + S2},
      {"trn3", "scalar", "activate2 o, a, fn=copy", 512 + S2},
      {"trn2", "scalar", "tensor_copy h, g", 512 + S2},
      {"trn3", "scalar", "tensor_copy h, g", 256 + S2},
      {"trn2", "tensor", "ldweights g[:, 0:128]\n matmul p, g", 512 + T2},
      {"trn2", "tensor", "ldweights a[:, 0:128]\n matmul p, a", 2048 + T2},
      {"trn2", "tensor", "ldweights a[:, 0:128]\n matmul p, a, onezero=true", 1024 + T2},
      {"trn2", "tensor", "ldweights d, perf=double_row\n matmul z, d, perf=double_row", 64 + T2},
      {"trn2", "tensor", "ldweights a[:, 0:128]\n matmul w, a[:, 0:128], transpose=true", 256 + T2},
      {"trn1", "tensor", "ldweights a[:, 0:128]\n matmul w, a[:, 0:128], transpose=true", 512 + T1},
      {"trn2", "tensor", "ldweights g[0:32, 0:32]\n matmul ww, g[0:32, 0:32], transpose=true",
       32 + T2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[3000];
    unsigned engine = rows[i].engine[0] == 't'   ? SOMA_TENSOR
                      : rows[i].engine[0] == 'v' ? SOMA_VECTOR
                                                 : SOMA_SCALAR;
    uint64_t khz = engine == SOMA_TENSOR      ? (rows[i].target[3] == '1' ? 2800000 : 2400000)
                   : engine == SOMA_SCALAR    ? 1200000
                   : rows[i].target[3] == '1' ? 1120000
                   : rows[i].target[3] == '2' ? 960000
                                              : 1200000;
    struct span s = {.engine = engine};
    soma_options o = SOMA_OPTIONS_INIT;
    o.event = last_insn;
    o.event_ud = &s;
    snprintf(text, sizeof text,
             "target %s\na tile sbuf float32[128, 512]\nb tile sbuf float32[128, 512]\n"
             "o tile sbuf float32[128, 512]\ng tile sbuf bfloat16[128, 512]\n"
             "k tile sbuf bfloat16[128, 512]\nh tile sbuf bfloat16[128, 512]\n"
             "u tile sbuf uint8[128, 512]\nq tile sbuf float8_e4m3[128, 512]\n"
             "y tile sbuf float8_e4m3[128, 512]\nd tile sbuf float8_e4m3[128, 2, 64]\n"
             "v tile sbuf float32[128, 1]\ns tile sbuf float32[128, 6]\n"
             "t tile sbuf float32[128, 2]\n"
             "e tile sbuf float32[128, 8]\np tile psum float32[128, 512]\n"
             "z tile psum float32[64, 64]\nw tile psum float32[128, 128]\n"
             "ww tile psum bfloat16[32, 32]\nsection %s\n%s%s\n halt\n",
             rows[i].target, rows[i].engine,
             strstr(rows[i].code, "match_replace8") ? " match_value_load e\n " : " ", rows[i].code);
    bed b = bed_open(&o, text);
    bed_run(&b, SOMA_OK);
    double cycles = (double)(s.end - s.start) * (double)khz * 1e-12;
    if (fabs(cycles - rows[i].cycles) > 0.01)
      fail_msg("%s %s: %.2f cycles, not %u", rows[i].target, rows[i].code, cycles, rows[i].cycles);
    bed_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case),
      cmocka_unit_test(tensor_cases),
      cmocka_unit_test(transpose_on_gen2),
      cmocka_unit_test(loaded_operands_are_checked),
      cmocka_unit_test(match_registers_are_loaded),
      cmocka_unit_test(stochastic_rounding),
      cmocka_unit_test(costs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
