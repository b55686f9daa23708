/* What DMA transfers do with their elements: index vectors, accumulation, dma_compute,
 * dma_transpose, and their faults. */
#include "dma_bed.h"

static shares seen;

#define TRN2 "target trn2\n"
#define TRN3 "target trn3\n"

static void bind_u32(bed *b, const char *name, int64_t rows, int64_t cols, const uint32_t *v) {
  bed_bind(b, name, SOMA_UINT32, rows, cols, v);
}

static void fetch(bed *b, const char *name, void *to, size_t n) {
  assert_int_equal(soma_fetch(b->r, name, to, n), SOMA_OK);
}

/* Loads an index vector i[8, 1] and runs `line` on gpsimd; then c gets t. */
#define INDEXED(head, idx, line)                                                                  \
  TRN2 head "i tensor " idx "[8, 1], input\nix tile sbuf " idx "[8, 1]\nl sem\ns sem\n"           \
            "q queue dge=swdge\nsection gpsimd\n dma_copy ix, i, queue=q $l\n nop $l>=16\n " line \
            " $s\n nop $s>=16\n halt\n"

/* ---- Index vectors ------------------------------------------------------------------------ */

#define TABLE "a tensor float32[10, 6], input\nt tile sbuf float32[8, 6]\n"

static float table[60];
static void fill_table(void) {
  for (int k = 0; k < 60; k++) table[k] = (float)(100 * (k / 6) + k % 6);
}

/* The row stride is the tensor's, whatever the pattern says; its other steps are the pattern's. */
static void gather(void **state) {
  (void)state;
  static const char *const lines[] = {
      INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix, 0), queue=q"),
      INDEXED(TABLE, "int32", "dma_copy t, a.ap([[1,8],[1,6]]).gather(ix, 0), queue=q"),
      INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[0,8],[-1,6]], offset=5).gather(ix), queue=q")};
  static const uint32_t idx[8] = {9, 0, 3, 3, 7, 1, 2, 9};
  float row[6];
  fill_table();
  for (int i = 0; i < 3; i++) {
    bed b = bed_open(NULL, lines[i]);
    bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
    bed_bind(&b, "i", i == 1 ? SOMA_INT32 : SOMA_UINT32, 8, 1, idx);
    bed_run(&b, SOMA_OK);
    for (uint32_t p = 0; p < 8; p++) {
      tile_read(&b, "t", p, 0, 4, row, 6);
      for (int k = 0; k < 6; k++)
        assert_true(row[k] == table[idx[p] * 6 + (uint32_t)(i == 2 ? 5 - k : k)]);
    }
    bed_close(&b);
  }
}

/* An inner dimension of three: t[b, k, c] = a[b, index k, c]. */
static void gather_inner(void **state) {
  (void)state;
  static uint32_t a[3 * 10 * 4], row[32];
  static const uint32_t idx[8] = {9, 0, 3, 3, 7, 1, 2, 9};
  for (uint32_t k = 0; k < 120; k++) a[k] = k;
  bed b = bed_open(NULL, INDEXED("a tensor uint32[3, 10, 4], input\nt tile sbuf uint32[3, 8, 4]\n",
                                 "uint32",
                                 "dma_copy t, a.ap([[40,3],[4,8],[1,4]]).gather(ix, 1), queue=q"));
  int64_t shape[3] = {3, 10, 4};
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_UINT32, 3, shape, a), SOMA_OK);
  bind_u32(&b, "i", 8, 1, idx);
  bed_run(&b, SOMA_OK);
  for (uint32_t p = 0; p < 3; p++) {
    tile_read(&b, "t", p, 0, 4, row, 32);
    for (uint32_t k = 0; k < 32; k++) assert_int_equal(row[k], p * 40 + idx[k / 4] * 4 + k % 4);
  }
  bed_close(&b);
}

static void scatter(void **state) {
  (void)state;
  static const uint32_t idx[8] = {9, 0, 3, 5, 7, 1, 2, 8};
  float c[60], row[6];
  bed b = bed_open(NULL, INDEXED("c tensor float32[10, 6], output\nt tile sbuf float32[8, 6]\n",
                                 "uint32", "dma_copy c.ap([[6,8],[1,6]]).gather(ix), t, queue=q"));
  bind_u32(&b, "i", 8, 1, idx);
  bed_start(&b);
  for (uint32_t p = 0; p < 8; p++) {
    for (int k = 0; k < 6; k++) row[k] = (float)(10 * p + (uint32_t)k + 1);
    tile_write(&b, "t", p, 0, 4, row, 6);
  }
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  fetch(&b, "c", c, sizeof c);
  float want[60] = {0};
  for (uint32_t p = 0; p < 8; p++)
    for (uint32_t k = 0; k < 6; k++) want[idx[p] * 6 + k] = (float)(10 * p + k + 1);
  assert_memory_equal(c, want, sizeof c);
  bed_close(&b);
}

/* The trigger reads the index vector, in order with the data path of its engine: what iota wrote
 * before counts, what memset writes after it does not. */
static void indices_are_read_by_the_trigger(void **state) {
  (void)state;
  float row[6];
  fill_table();
  bed b = bed_open(NULL,
                   TRN2 TABLE "ix tile sbuf int32[8, 1]\ns sem\nq queue dge=swdge\n"
                              "section gpsimd\n iota ix, pattern=[[0,1]], offset=2, multiplier=1\n"
                              " dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q $s\n"
                              " memset ix, 0\n nop $s>=16\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
  bed_run(&b, SOMA_OK);
  for (uint32_t p = 0; p < 8; p++) {
    tile_read(&b, "t", p, 0, 4, row, 6);
    assert_memory_equal(row, table + (p + 2) * 6, sizeof row);
  }
  bed_close(&b);
}

static void index_out_of_bounds(void **state) {
  (void)state;
  static const struct {
    const char *text, *fault;
    uint32_t bad;
    soma_dtype type;
  } cases[] = {
      {INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q"),
       "operand src: index 5 (partition 5, column 0 of the index vector) is 10: a has 0..9 there",
       10, SOMA_UINT32},
      {INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q"),
       "is 4294967295: a has 0..9 there", UINT32_MAX, SOMA_UINT32},
      {INDEXED(TABLE, "int32", "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q"),
       "is -1: a has 0..9 there", UINT32_MAX, SOMA_INT32},
      /* the pattern begins a row later: the last index would leave the tensor */
      {INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[6,8],[1,6]], offset=6).gather(ix), queue=q"),
       "is 9: a has 0..8 there", 9, SOMA_UINT32},
      {INDEXED(TABLE, "uint32", "dma_copy a.ap([[6,8],[1,6]]).gather(ix), t, queue=q"),
       "operand dst: index 5", 11, SOMA_UINT32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t idx[8] = {0, 1, 2, 3, 4, cases[i].bad, 6, 7};
    soma_fault f;
    bed b = bed_open(NULL, cases[i].text);
    bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
    bed_bind(&b, "i", cases[i].type, 8, 1, idx);
    bed_run(&b, SOMA_FAULT);
    bed_fault_has(&b, cases[i].fault);
    soma_run_fault(b.r, &f);
    assert_int_equal(f.engine, SOMA_GPSIMD);
    assert_int_equal(f.pc, 2);
    bed_close(&b);
  }
}

/* A skipped row keeps what the destination had. */
static void skipping(void **state) {
  (void)state;
  static const uint32_t idx[8] = {9, 10, 3, UINT32_MAX, 7, 1, 2, 12};
  float row[6], c[60];
  fill_table();
  static const char *const lines[] = {
      INDEXED(TABLE, "uint32", "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q, oob=skip"),
      INDEXED("a tensor bfloat16[10, 6], input\nt tile sbuf float32[8, 6]\n", "uint32",
              "dma_copy t, a.ap([[6,8],[1,6]]).gather(ix), queue=q, oob=skip")};
  for (int i = 0; i < 2; i++) {
    uint16_t half[60];
    bed b = bed_open(NULL, lines[i]);
    for (int k = 0; k < 60; k++) half[k] = (uint16_t)(isa_f32_bits(table[k]) >> 16);
    bed_bind(&b, "a", i ? SOMA_BFLOAT16 : SOMA_FLOAT32, 10, 6, i ? (void *)half : (void *)table);
    bind_u32(&b, "i", 8, 1, idx);
    bed_start(&b);
    float old[6] = {-1, -2, -3, -4, -5, -6};
    for (uint32_t p = 0; p < 8; p++) tile_write(&b, "t", p, 0, 4, old, 6);
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    for (uint32_t p = 0; p < 8; p++) {
      tile_read(&b, "t", p, 0, 4, row, 6);
      for (uint32_t k = 0; k < 6; k++) {
        float x = i ? isa_bits_f32((uint32_t)half[idx[p] % 10 * 6 + k] << 16)
                    : table[idx[p] % 10 * 6 + k];
        x = idx[p] < 10 ? x : old[k];
        if (row[k] != x)
          fail_msg("%d: row %u column %u is %g, not %g", i, p, k, (double)row[k], (double)x);
      }
    }
    assert_int_equal(bed_sem(&b, "s"), 16);
    bed_close(&b);
  }
  bed b = bed_open(NULL,
                   INDEXED("c tensor float32[10, 6], output\nt tile sbuf float32[8, 6]\n", "uint32",
                           "dma_copy c.ap([[6,8],[1,6]]).gather(ix), t, queue=q, oob=skip"));
  bind_u32(&b, "i", 8, 1, idx);
  bed_start(&b);
  for (uint32_t p = 0; p < 8; p++) tile_write(&b, "t", p, 0, 4, &table[6 * p], 6);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  fetch(&b, "c", c, sizeof c);
  float want[60] = {0};
  for (uint32_t p = 0; p < 8; p++)
    if (idx[p] < 10) memcpy(&want[idx[p] * 6], &table[6 * p], 24);
  assert_memory_equal(c, want, sizeof c);
  bed_close(&b);
}

/* A dynamic address out of bounds: a fault, or with oob=skip nothing moves and the rings signal. */
static void dynamic_address_skipped(void **state) {
  (void)state;
  static const char text[] =
      TRN2 TABLE "s sem\nq queue dge=hwdge\nsection sync\n mov r0, %d\n mov r1, %d\n"
                 " dma_copy t[0:+r1<=2, :], a[r0:+r1<=2, :], queue=q%s $s\n nop $s>=16\n halt\n";
  static const struct {
    int at, n;
    const char *skip, *fault;
  } cases[] = {
      {9, 2, "", "operand src: a[r0:+r1<=2] with r0 = 9, r1 = 2 is rows 9..10; a has rows 0..9"},
      {-1, 1, "", "operand src: a[r0:+r1<=2] with r0 = -1, r1 = 1 is row -1; a has rows 0..9"},
      {9, 2, ", oob=skip", NULL},
      {8, 2, ", oob=skip", NULL},
      {100, 0, "", NULL},
      {9, 3, ", oob=skip", "size r1 is 3, outside its bound 0..2"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char full[400];
    float row[6];
    snprintf(full, sizeof full, text, cases[i].at, cases[i].n, cases[i].skip);
    bed b = bed_open(NULL, full);
    bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
    bed_run(&b, cases[i].fault ? SOMA_FAULT : SOMA_OK);
    if (cases[i].fault) {
      bed_fault_has(&b, cases[i].fault);
    } else {
      assert_int_equal(bed_sem(&b, "s"), 16);
      tile_read(&b, "t", 1, 0, 4, row, 6);
      assert_true(row[1] == (cases[i].at == 8 ? 901.0f : 0.0f));
    }
    bed_close(&b);
  }
}

/* ---- Accumulation ------------------------------------------------------------------------- */

/* dst += src, converted to fp32, added, rounded once. */
static void accumulate(void **state) {
  (void)state;
  float c[8] = {0}, a[8] = {1, 2, 3, 4, 5.5f, -6, 7, 1e30f};
  uint16_t half[8];
  bed b =
      bed_open(NULL, TRN2
               "a tensor float32[2, 4], input\nc tensor float32[2, 4], output\n"
               "h tensor bfloat16[2, 4], output\nt tile sbuf int8[2, 4]\ns sem\nq queue dge=swdge\n"
               "section gpsimd\n memset t, 120\n drain\n"
               " dma_copy c, a, queue=q, op=add $s\n nop $s>=16\n"
               " dma_copy c, a, queue=q, op=add $s\n nop $s>=32\n"
               " dma_copy h, a, queue=q, op=add $s\n nop $s>=48\n"
               " dma_copy h, c, queue=q, op=add $s\n"
               " dma_copy t, a, queue=q, op=add $s\n nop $s>=80\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 2, 4, a);
  bed_run(&b, SOMA_OK);
  fetch(&b, "c", c, sizeof c);
  fetch(&b, "h", half, sizeof half);
  for (int i = 0; i < 8; i++) assert_true(c[i] == 2 * a[i]);
  assert_int_equal(half[0], 0x4040); /* 3 */
  assert_int_equal(half[4], 0x4184); /* 16.5 */
  int8_t t[4];
  tile_read(&b, "t", 1, 0, 1, t, 4);
  assert_int_equal(t[0], 126); /* 125.5, ties to even */
  assert_int_equal(t[1], 114);
  assert_int_equal(t[3], 127); /* saturates */
  bed_close(&b);
}

/* gen4 adds near SBUF at the full rate, other sums take twice the time. */
static void accumulation_rate(void **state) {
  (void)state;
  static const struct {
    const char *types[2], *queue;
    double factor;
  } cases[] = {{{"float32", "float32"}, "hwdge", 1},
               {{"bfloat16", "bfloat16"}, "none", 1},
               {{"float16", "float16"}, "swdge", 2},
               {{"float32", "bfloat16"}, "swdge", 2}};
  for (size_t i = 0; i < 4; i++) {
    char text[400];
    snprintf(text, sizeof text,
             TRN3 "a tensor %s[1, 8192]\nt tile sbuf %s[1, 8192]\ns sem\nq queue dge=%s\n"
                  "section %s\n dma_copy t, a, queue=q, op=add $s\n nop $s>=16\n halt\n",
             cases[i].types[1], cases[i].types[0], cases[i].queue,
             strcmp(cases[i].queue, "swdge") ? "sync" : "gpsimd");
    bed b = bed_open_shares(&seen, text);
    bed_run(&b, SOMA_OK);
    double ns = (double)(seen.v[0].end - seen.v[0].start) * 1e-6;
    double want = (double)seen.v[0].bytes / 33.0 * cases[i].factor;
    assert_true(ns > want && ns < want * 1.02 + 20);
    bed_close(&b);
  }
}

/* ---- dma_compute -------------------------------------------------------------------------- */

static void compute_static(void **state) {
  (void)state;
  /* 1 + 3 * 2^-9 in fp32 rounds to 1 + 2^-7 in bf16; step by step in bf16 it would stay 1 */
  uint16_t one[4] = {0x3f80, 0x3f80, 0x3f80, 0x7fc1}, tiny[4] = {0x3b00, 0x3b00, 0x3b00, 0x3b00},
           h[4];
  float big[4] = {1e8f, -1e8f, 3, 0}, small[4] = {1, 1, 1, 1}, back[4] = {-1e8f, 1e8f, -3, 7}, c[4];
  bed b = bed_open(
      NULL,
      TRN2 "one tensor bfloat16[1, 4], input\ntiny tensor bfloat16[1, 4], input\n"
           "big tensor float32[1, 4], input\nsmall tensor float32[1, 4], input\n"
           "back tensor float32[1, 4], input\nh tensor bfloat16[1, 4], output\n"
           "c tensor float32[1, 4], output\nd tensor float32[1, 4], output\n"
           "e tensor int32[1, 4], output\nf tensor float32[1, 4], output\ns sem\nq queue dge=none\n"
           "section vector\n dma_compute h, srcs=[one, tiny, tiny, tiny], op=add, queue=q $s\n"
           " dma_compute c, srcs=[big, small, back], op=add, queue=q $s\n"
           " dma_compute d, srcs=[big, back, small], op=min, queue=q $s\n"
           " dma_compute e, srcs=[big, one], op=max, queue=q, scales=[1.0, 1.0] $s\n"
           " dma_copy f, big, queue=q $s\n nop $s>=80\n"
           " dma_compute f, srcs=[small, f, small], op=add, queue=q $s\n nop $s>=96\n halt\n");
  bed_bind(&b, "one", SOMA_BFLOAT16, 1, 4, one);
  bed_bind(&b, "tiny", SOMA_BFLOAT16, 1, 4, tiny);
  bed_bind(&b, "big", SOMA_FLOAT32, 1, 4, big);
  bed_bind(&b, "small", SOMA_FLOAT32, 1, 4, small);
  bed_bind(&b, "back", SOMA_FLOAT32, 1, 4, back);
  bed_run(&b, SOMA_OK);
  fetch(&b, "h", h, sizeof h);
  assert_int_equal(h[0], 0x3f81);
  assert_int_equal(h[3], 0x7fc0); /* canonical */
  fetch(&b, "c", c, sizeof c);    /* by ascending source: (1e8 + 1) - 1e8 is 0 */
  assert_true(c[0] == 0 && c[1] == 0 && c[2] == 1 && c[3] == 8);
  fetch(&b, "d", c, sizeof c);
  assert_true(c[0] == -1e8f && c[1] == -1e8f && c[2] == -3 && c[3] == 0);
  int32_t e[4];
  fetch(&b, "e", e, sizeof e);
  assert_true(e[0] == 100000000 && e[1] == 1 && e[2] == 3 && e[3] == 0); /* max skips NaN */
  fetch(&b, "f", c, sizeof c);
  assert_true(c[0] == 1e8f && c[2] == 5 && c[3] == 2);
  bed_close(&b);
}

/* Sixteen sources, more than an item has boxes, from both memories; the time is that of reading
 * them all. */
static void sixteen_sources(void **state) {
  (void)state;
  char text[1200];
  int at = snprintf(text, sizeof text,
                    TRN2 "a tensor int32[1, 16384], input\nt tile sbuf int32[1, 16384]\n"
                         "c tensor int32[1, 16384], output\ns sem\nq queue dge=none\n"
                         "section sync\n dma_copy t, a, queue=q $s\n nop $s>=16\n"
                         " dma_compute c, queue=q, op=add, srcs=[");
  for (int i = 0; i < 16; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", i ? ", " : "", i % 3 ? "t" : "a");
  snprintf(text + at, sizeof text - (size_t)at, "] $s\n nop $s>=32\n halt\n");
  static int32_t a[16384];
  for (int i = 0; i < 16384; i++) a[i] = i - 8000;
  bed b = bed_open_shares(&seen, text);
  bed_bind(&b, "a", SOMA_INT32, 1, 16384, a);
  bed_run(&b, SOMA_OK);
  for (int i = 0; i < 16384; i++) a[i] *= 16;
  static int32_t c[16384];
  fetch(&b, "c", c, sizeof c);
  assert_memory_equal(a, c, sizeof a);
  assert_int_equal(seen.v[1].bytes, 65536);
  double ns = (double)(seen.v[1].end - seen.v[1].start) * 1e-6, want = 65536 / 26.8 * 16;
  assert_true(ns > want && ns < 1.03 * want);
  bed_close(&b);
}

/* Read-modify-write by an index vector, both ways; a skipped row keeps its value. */
static void indexed_sums(void **state) {
  (void)state;
  uint32_t idx[8] = {9, 0, 3, 5, 7, 1, 2, 8};
  float c[60], row[6], t[6] = {1, 2, 3, 4, 5, 6};
  fill_table();
  static const char *const lines[] = {
      INDEXED(TABLE, "uint32",
              "dma_compute a.ap([[6,8],[1,6]]).gather(ix), op=add, queue=q,"
              " srcs=[a.ap([[6,8],[1,6]]).gather(ix), t]"),
      INDEXED(TABLE, "uint32",
              "dma_compute a.ap([[6,8],[1,6]]).gather(ix), op=add, queue=q, oob=skip,"
              " srcs=[t, a.ap([[6,8],[1,6]]).gather(ix)]"),
      INDEXED(TABLE, "uint32",
              "dma_compute t, op=add, queue=q, srcs=[t, a.ap([[6,8],[1,6]]).gather(ix)]"),
      INDEXED(TABLE, "uint32", "dma_copy a.ap([[6,8],[1,6]]).gather(ix), t, queue=q, op=add")};
  for (int i = 0; i < 4; i++) {
    idx[4] = i == 1 ? 77 : 7;
    bed b = bed_open(NULL, lines[i]);
    bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
    bind_u32(&b, "i", 8, 1, idx);
    bed_start(&b);
    for (uint32_t p = 0; p < 8; p++) tile_write(&b, "t", p, 0, 4, t, 6);
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    fetch(&b, "a", c, sizeof c);
    for (uint32_t r = 0; r < 10; r++) {
      uint32_t p = 0;
      while (p < 8 && idx[p] != r) p++;
      bool hit = p < 8 && i != 2;
      for (uint32_t k = 0; k < 6; k++)
        assert_true(c[r * 6 + k] == table[r * 6 + k] + (hit ? t[k] : 0));
      if (p == 8) continue;
      tile_read(&b, "t", p, 0, 4, row, 6);
      for (uint32_t k = 0; k < 6; k++)
        assert_true(row[k] == t[k] + (i == 2 ? table[r * 6 + k] : 0));
    }
    bed_close(&b);
  }
  idx[4] = 3;
  bed b = bed_open(NULL, lines[0]);
  bed_bind(&b, "a", SOMA_FLOAT32, 10, 6, table);
  bind_u32(&b, "i", 8, 1, idx);
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b,
                "indices 2 and 4 (partition 4) are both 3: an accumulation needs unique indices");
  bed_close(&b);
}

/* ---- dma_transpose ------------------------------------------------------------------------ */

/* dst[i, j] = src[j, i], by way of every mode. */
static void transpose_2d(void **state) {
  (void)state;
  static const struct {
    const char *type, *src, *queue;
    size_t size;
    double rate;
  } cases[] = {{"bfloat16", "a", "none", 2, 0.9 * 23.1},
               {"float32", "a", "none", 4, 0.9 * 23.1},
               {"bfloat16", "t", "none", 2, 0.5 * 26.8},
               {"uint16", "a", "hwdge", 2, 0.9 * 23.1},
               {"float16", "t", "hwdge", 2, 0.5 * 26.8}};
  for (size_t i = 0; i < 5; i++) {
    static uint8_t a[16 * 96 * 4];
    uint8_t row[16 * 4];
    char text[600];
    for (size_t k = 0; k < sizeof a; k++) a[k] = (uint8_t)(k * 37 + k / 251);
    snprintf(text, sizeof text,
             TRN2 "a tensor %s[16, 96], input\nt tile sbuf %s[16, 96]\nu tile sbuf %s[96, 16]\n"
                  "s sem\nl sem\nq queue dge=%s\np queue dge=none\nsection sync\n"
                  " dma_copy t, a, queue=p $l\n nop $l>=16\n"
                  " dma_transpose u, %s, queue=q $s\n nop $s>=16\n halt\n",
             cases[i].type, cases[i].type, cases[i].type, cases[i].queue, cases[i].src);
    bed b = bed_open_shares(&seen, text);
    soma_dtype types[] = {SOMA_BFLOAT16, SOMA_FLOAT32, SOMA_BFLOAT16, SOMA_UINT16, SOMA_FLOAT16};
    bed_bind(&b, "a", types[i], 16, 96, a);
    bed_run(&b, SOMA_OK);
    for (uint32_t p = 0; p < 96; p++) {
      tile_read(&b, "u", p, 0, cases[i].size, row, 16);
      for (size_t k = 0; k < 16; k++)
        assert_memory_equal(row + k * cases[i].size, a + (k * 96 + p) * cases[i].size,
                            cases[i].size);
    }
    struct share last = seen.v[seen.n - 1];
    double ns = (double)(last.end - last.start) * 1e-6, want = (double)last.bytes / cases[i].rate;
    /* a static ring fetches a descriptor for each contiguous element: of a that is all of it */
    size_t whole = (cases[i].src[0] == 'a' ? 16u : 1u) * 96 * cases[i].size;
    double rows = (double)((last.bytes + whole - 1) / whole);
    if (strcmp(cases[i].queue, "none") == 0 && want < 12 * rows) want = 12 * rows;
    assert_int_equal(last.bytes, 8 * 16 * cases[i].size);
    if (ns < want - 0.01 || ns > want + 10)
      fail_msg("%s of %s: %.2f ns, expected %.2f", cases[i].queue, cases[i].src, ns, want);
    bed_close(&b);
  }
}

/* Three axes are reversed, of four the outer ones change places. */
static void transpose_nd(void **state) {
  (void)state;
  static uint16_t a[5 * 3 * 4 * 8], row[5 * 3 * 4];
  for (int k = 0; k < 5 * 3 * 4 * 8; k++) a[k] = (uint16_t)k;
  int64_t shape3[3] = {5, 12, 8}, shape4[4] = {5, 3, 4, 8};
  bed b = bed_open(
      NULL, TRN2
      "a tensor uint16[5, 12, 8], input\nu tile sbuf uint16[8, 12, 5]\ns sem\nq queue dge=none\n"
      "section sync\n dma_transpose u, a, queue=q $s\n nop $s>=16\n halt\n");
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_UINT16, 3, shape3, a), SOMA_OK);
  bed_run(&b, SOMA_OK);
  for (uint32_t z = 0; z < 8; z++) {
    tile_read(&b, "u", z, 0, 2, row, 60);
    for (uint32_t y = 0; y < 12; y++)
      for (uint32_t x = 0; x < 5; x++) assert_int_equal(row[y * 5 + x], (x * 12 + y) * 8 + z);
  }
  bed_close(&b);
  b = bed_open(NULL, TRN2 "a tensor uint16[5, 3, 4, 8], input\nu tile sbuf uint16[8, 3, 4, 5]\ns "
                          "sem\nq queue dge=none\n"
                          "section sync\n dma_transpose u, a, queue=q $s\n nop $s>=16\n halt\n");
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_UINT16, 4, shape4, a), SOMA_OK);
  bed_run(&b, SOMA_OK);
  for (uint32_t z = 0; z < 8; z++) {
    tile_read(&b, "u", z, 0, 2, row, 60);
    for (uint32_t k = 0; k < 60; k++) assert_int_equal(row[k], (k % 5 * 12 + k / 5) * 8 + z);
  }
  bed_close(&b);
}

/* Indices flatten column by column; a skipped one leaves its column of the destination. */
static void gather_transpose(void **state) {
  (void)state;
  static uint16_t a[40 * 24], row[144];
  static uint32_t idx[128 * 2], one[32];
  for (uint32_t k = 0; k < 40 * 24; k++) a[k] = (uint16_t)k;
  for (uint32_t k = 0; k < 256; k++) idx[k] = k * 11 % 40;
  for (uint32_t k = 0; k < 32; k++) one[k] = k == 7 ? 40 : 39 - k;
  static const char *const texts[] = {
      TRN2 "a tensor bfloat16[40, 24], input\ni tensor uint32[128, 2], input\nix tile sbuf "
           "uint32[128, 2]\n"
           "u tile sbuf bfloat16[24, 144]\nl sem\ns sem\nq queue dge=swdge\nsection gpsimd\n"
           " dma_copy ix, i, queue=q $l\n nop $l>=16\n"
           " dma_transpose u, a.ap([[24,144],[1,24]]).gather(ix), queue=q $s\n nop $s>=16\n halt\n",
      TRN2 "a tensor bfloat16[40, 24], input\ni tensor uint32[32, 1], input\nix tile sbuf "
           "uint32[32, 1]\n"
           "u tile sbuf bfloat16[24, 32]\nl sem\ns sem\nq queue dge=swdge\nsection gpsimd\n"
           " dma_copy ix, i, queue=q $l\n nop $l>=16\n"
           " dma_transpose u, a.ap([[24,32],[1,24]]).gather(ix), queue=q, oob=skip $s\n nop "
           "$s>=16\n halt\n"};
  for (int t = 0; t < 2; t++) {
    bed b = bed_open(NULL, texts[t]);
    bed_bind(&b, "a", SOMA_BFLOAT16, 40, 24, a);
    if (t)
      bind_u32(&b, "i", 32, 1, one);
    else
      bind_u32(&b, "i", 128, 2, idx);
    bed_start(&b);
    memset(row, 0xee, sizeof row);
    for (uint32_t p = 0; p < 24; p++) tile_write(&b, "u", p, 0, 2, row, t ? 32 : 144);
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    for (uint32_t p = 0; p < 24; p++) {
      tile_read(&b, "u", p, 0, 2, row, t ? 32 : 144);
      for (uint32_t k = 0; k < (t ? 32 : 144); k++) {
        uint32_t i = t ? one[k] : idx[k % 128 * 2 + k / 128];
        assert_int_equal(row[k], i < 40 ? i * 24 + p : 0xeeee);
      }
    }
    bed_close(&b);
  }
}

/* ---- Overlap ------------------------------------------------------------------------------ */

static void dynamic_overlap(void **state) {
  (void)state;
  static const char text[] =
      TRN2 "a tensor uint32[16, 8]\ns sem\nq queue dge=hwdge\nsection sync\n mov r0, %d\n"
           " dma_copy a[r0:+4, :], a[4:8, :], queue=q $s\n nop $s>=16\n halt\n";
  static const struct {
    int at;
    soma_status want;
  } cases[] = {{0, SOMA_OK}, {4, SOMA_OK}, {8, SOMA_OK}, {1, SOMA_FAULT}, {7, SOMA_FAULT}};
  for (size_t i = 0; i < 5; i++) {
    char full[300];
    snprintf(full, sizeof full, text, cases[i].at);
    bed b = bed_open(NULL, full);
    bed_run(&b, cases[i].want);
    if (cases[i].want == SOMA_FAULT)
      bed_fault_has(
          &b, "overlap src, at bytes 128..: a destination is exactly in place or shares no byte");
    bed_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gather),
      cmocka_unit_test(gather_inner),
      cmocka_unit_test(scatter),
      cmocka_unit_test(indices_are_read_by_the_trigger),
      cmocka_unit_test(index_out_of_bounds),
      cmocka_unit_test(skipping),
      cmocka_unit_test(dynamic_address_skipped),
      cmocka_unit_test(accumulate),
      cmocka_unit_test(accumulation_rate),
      cmocka_unit_test(compute_static),
      cmocka_unit_test(sixteen_sources),
      cmocka_unit_test(indexed_sums),
      cmocka_unit_test(transpose_2d),
      cmocka_unit_test(transpose_nd),
      cmocka_unit_test(gather_transpose),
      cmocka_unit_test(dynamic_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
