/* Queues, rings and DMA engines: how a transfer is split, in which order rings are served, when
 * they signal, what a full one does. */
#include "countdown.h"
#include "dma_bed.h"

static shares seen;

/* ---- Splitting ---------------------------------------------------------------------------- */

/* The two transfers of the documentation: A[4, 4096] bf16 occupies one DMA engine with 32 KiB,
 * A[128, 128] bf16 sixteen with 2 KiB each; both raise the semaphore by 16. */
static void documented_transfers(void **state) {
  (void)state;
  static uint16_t a[4 * 4096], row[4096];
  for (int i = 0; i < 4 * 4096; i++) a[i] = (uint16_t)(i * 7);
  bed b = bed_open_shares(&seen, "target trn2\na tensor bfloat16[4, 4096], input\n"
                                 "t tile sbuf bfloat16[4, 4096]\ns sem\nq queue dge=none\n"
                                 "section sync\n dma_copy t, a, queue=q $s\n nop $s>=16\n halt\n");
  bed_bind(&b, "a", SOMA_BFLOAT16, 4, 4096, a);
  bed_run(&b, SOMA_OK);
  assert_int_equal(seen.n, 1);
  assert_int_equal(seen.v[0].dma, 0);
  assert_int_equal(seen.v[0].bytes, 32768);
  assert_int_equal(bed_sem(&b, "s"), 16);
  double ns = (double)(seen.v[0].end - seen.v[0].start) * 1e-6; /* published: 1416 ns */
  assert_true(ns > 1380 && ns < 1460);
  for (uint32_t p = 0; p < 4; p++) {
    tile_read(&b, "t", p, 0, 2, row, 4096);
    assert_memory_equal(row, a + p * 4096, sizeof row);
  }
  bed_close(&b);
  b = bed_open_shares(&seen, "target trn2\na tensor bfloat16[128, 128], input\n"
                             "t tile sbuf bfloat16[128, 128]\ns sem\nq queue dge=swdge\n"
                             "section gpsimd\n dma_copy t, a, queue=q $s\n nop $s>=16\n halt\n");
  bed_bind(&b, "a", SOMA_BFLOAT16, 128, 128, a);
  bed_run(&b, SOMA_OK);
  assert_int_equal(seen.n, 16);
  for (unsigned d = 0; d < 16; d++) assert_int_equal(bytes_of_engine(&seen, d), 2048);
  assert_int_equal(bed_sem(&b, "s"), 16);
  bed_close(&b);
}

/* Partition p goes by ring p * rings / 128, wherever the tile starts and whichever side it is. */
static void split_by_partition(void **state) {
  (void)state;
  static const char *const lines[] = {"dma_copy t, a, queue=q $s", "dma_copy a, t, queue=q $s"};
  for (int i = 0; i < 2; i++) {
    char text[400];
    snprintf(text, sizeof text,
             "target trn2\na tensor float32[12, 16], output\n"
             "t tile sbuf float32[12, 16], part=60\ns sem\nq queue rings=16, dge=hwdge\n"
             "section sync\n %s\n nop $s>=16\n halt\n",
             lines[i]);
    bed b = bed_open_shares(&seen, text);
    bed_run(&b, SOMA_OK);
    assert_int_equal(seen.n, 2);
    assert_int_equal(bytes_of_engine(&seen, 7), 4 * 64); /* partitions 60..63 */
    assert_int_equal(bytes_of_engine(&seen, 8), 8 * 64); /* 64..71 */
    bed_close(&b);
  }
  bed b = bed_open_shares(
      &seen, "target trn2\na tensor uint8[128, 16], output\nt tile sbuf uint8[128, 16]\n"
             "s sem\nq queue rings=3, dge=hwdge\n"
             "section sync\n dma_copy a, t, queue=q $s\n nop $s>=3\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(bytes_of_engine(&seen, 0), 43 * 16);
  assert_int_equal(bytes_of_engine(&seen, 1), 43 * 16);
  assert_int_equal(bytes_of_engine(&seen, 2), 42 * 16);
  assert_int_equal(bed_sem(&b, "s"), 3);
  bed_close(&b);
}

/* Between HBM and HBM no partitions divide a transfer: its bytes are, whatever the shape. */
static void split_between_hbm(void **state) {
  (void)state;
  static const struct {
    const char *shape;
    uint64_t first, last, row; /* bytes of engine 0 and 15; every share is a multiple of row */
  } cases[] = {{"[32, 64]", 512, 512, 256},
               {"[3, 64]", 48, 48, 4},
               {"[2, 2048]", 1024, 1024, 1024},
               {"[1, 4096]", 1024, 1024, 4},
               {"[17]", 4, 8, 4}};
  for (size_t i = 0; i < 5; i++) {
    char text[400];
    snprintf(text, sizeof text,
             "target trn2\na tensor float32%s\nc tensor float32%s, output\n"
             "s sem\nq queue dge=hwdge\n"
             "section sync\n dma_copy c, a, queue=q $s\n nop $s>=16\n halt\n",
             cases[i].shape, cases[i].shape);
    bed b = bed_open_shares(&seen, text);
    bed_run(&b, SOMA_OK);
    assert_int_equal(bytes_of_engine(&seen, 0), cases[i].first);
    assert_int_equal(bytes_of_engine(&seen, 15), cases[i].last);
    for (unsigned k = 0; k < seen.n; k++) assert_int_equal(seen.v[k].bytes % cases[i].row, 0);
    bed_close(&b);
  }
}

/* ---- Order -------------------------------------------------------------------------------- */

/* Two transfers that only ring 0 has bytes of. The idle rings of both signal at once, so that a
 * count of 16 does not mean that the first is there. */
static void idle_rings_run_ahead(void **state) {
  (void)state;
  static float a[2 * 16384], first[4];
  for (int i = 0; i < 2 * 16384; i++) a[i] = (float)(i + 1);
  bed b = bed_open_shares(&seen, "target trn2\na tensor float32[2, 16384], input\n"
                                 "t tile sbuf float32[1, 16384]\nu tile sbuf float32[1, 16384]\n"
                                 "s sem\nq queue dge=hwdge\n"
                                 "section sync\n dma_copy t, a[0:1, :], queue=q $s\n"
                                 " dma_copy u, a[1:2, :], queue=q $s\n"
                                 " nop $s>=16\n tensor_load r0, t[0:1, 0:1]\n"
                                 " nop $s>=32\n tensor_load r1, t[0:1, 0:1]\n"
                                 " tensor_load r2, u[0:1, 16383:16384]\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 2, 16384, a);
  bed_run(&b, SOMA_OK);
  tile_read(&b, "t", 0, 0, 4, first, 4);
  assert_true(first[0] == 1.0f);
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 0), 0); /* 30 idle signals came first */
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 1), 0x3f800000);
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 2), 0x47000000); /* 32768.0 */
  assert_true(seen.v[0].end <= seen.v[1].start);           /* one ring: in order */
  bed_close(&b);
}

/* Rings of one engine, each with a share of 64 KiB. Static ones take turns at packets of 4 KiB, a
 * share of a DGE goes as a whole. */
static void arbitration(void **state) {
  (void)state;
  static const char text[] = "target trn2\na tensor uint32[2, 16384]\n"
                             "t tile sbuf uint32[1, 16384]\nu tile sbuf uint32[1, 16384]\ns sem\n"
                             "q queue dge=%s\np queue dge=%s\n"
                             "section sync\n dma_copy t, a[0:1, :], queue=q $s\n"
                             " dma_copy u, a[1:2, :], queue=p $s\n nop $s>=32\n halt\n";
  char full[600];
  snprintf(full, sizeof full, text, "none", "none");
  bed b = bed_open_shares(&seen, full);
  bed_run(&b, SOMA_OK);
  assert_int_equal(seen.n, 2);
  assert_int_equal(bed_stats(&b).dma_packets, 32);
  assert_true(seen.v[1].start < seen.v[0].end);
  double packet = 4096 / 23.1 * 1e6; /* the second begins 154 ns later: it is one packet behind */
  double gap = (double)(seen.v[1].end - seen.v[0].end);
  assert_true(gap > 0.9 * packet && gap < 1.1 * packet);
  bed_close(&b);
  snprintf(full, sizeof full, text, "hwdge", "hwdge");
  b = bed_open_shares(&seen, full);
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_stats(&b).dma_packets, 2);
  assert_int_equal(seen.v[0].queue, 0);
  assert_true(seen.v[1].start >= seen.v[0].end);
  bed_close(&b);
}

/* Engines whose packets touch HBM share its rate: with 20 bytes a ns for all, sixteen engines take
 * as long as the bytes do; between SBUF and SBUF they do not mind. */
static void hbm_is_shared(void **state) {
  (void)state;
  static const char text[] = "target trn2\na tensor uint32[128, 4096]\n"
                             "t tile sbuf uint32[128, 4096]\nu tile sbuf uint32[128, 4096]\n"
                             "s sem\nq queue dge=none\nsection sync\n"
                             " dma_copy t, %s, queue=q $s\n nop $s>=16\n halt\n";
  static const struct {
    const char *costs, *src;
    double ns;
  } cases[] = {{"DMA_HBM 20000", "a", 2097152 / 20.0},
               {NULL, "a", 131072 / 23.1},
               {"DMA_HBM 20000", "u", 131072 / 26.8}};
  for (size_t i = 0; i < 3; i++) {
    char full[400];
    soma_options o = SOMA_OPTIONS_INIT;
    snprintf(full, sizeof full, text, cases[i].src);
    seen.n = 0;
    o.event = note_share;
    o.event_ud = &seen;
    o.costs = cases[i].costs;
    bed b = bed_open(&o, full);
    bed_run(&b, SOMA_OK);
    assert_int_equal(seen.n, 16);
    double ns = (double)(seen.v[15].end - seen.v[0].start) * 1e-6;
    assert_true(ns > cases[i].ns && ns < 1.08 * cases[i].ns + 240);
    bed_close(&b);
  }
}

/* gen4: a ring of a lower class number goes first, from its next packet on; the class is the
 * queue's or the instruction's. */
static void priority_classes(void **state) {
  (void)state;
  static const char text[] = "target trn3\na tensor uint32[2, 16384]\n"
                             "t tile sbuf uint32[1, 16384]\nu tile sbuf uint32[1, 16384]\ns sem\n"
                             "q queue dge=none%s\np queue dge=none%s\n"
                             "section sync\n dma_copy t, a[0:1, :], queue=q%s $s\n"
                             " dma_copy u, a[1:2, :], queue=p%s $s\n nop $s>=32\n halt\n";
  static const char *const cases[][4] = {{", prio=3", ", prio=1", "", ""},
                                         {"", "", ", prio=2", ""},
                                         {", prio=1", ", prio=3", ", prio=3", ", prio=2"}};
  for (size_t i = 0; i < 3; i++) {
    char full[600];
    snprintf(full, sizeof full, text, cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
    bed b = bed_open_shares(&seen, full);
    bed_run(&b, SOMA_OK);
    assert_int_equal(seen.v[0].queue, 1); /* triggered second, done first */
    double alone = 65536 / 33.0 * 1e6, took = (double)(seen.v[0].end - seen.v[0].start);
    assert_true(took < 1.02 * alone); /* nothing came between its packets */
    assert_true(seen.v[1].start < seen.v[0].start && seen.v[1].end > seen.v[0].end);
    bed_close(&b);
  }
  refused(
      "target trn2\na tensor uint32[2, 16384]\nt tile sbuf uint32[1, 16384]\nq queue dge=hwdge\n"
      "section sync\n dma_copy t, a[0:1, :], queue=q, prio=1\n halt\n",
      "prio=1 needs gen4: trn2 is gen3");
}

/* A ring holds 64 shares: the trigger of the 65th transfer waits for the first to be done. */
static void full_rings(void **state) {
  (void)state;
  bed b = bed_open_shares(&seen,
                          "target trn2\na tensor uint32[1, 16384]\nt tile sbuf uint32[1, 16384]\n"
                          "s sem\nq queue dge=none\ndma q, t, a\n"
                          "section sync\n dma_trigger q, 64 $s\n mov r0, 1\n"
                          " dma_trigger q, 6 $s\n mov r0, 2\n nop $s>=1120\n halt\n");
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 3000000000), SOMA_OK); /* 3 us */
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 0), 1);
  assert_int_equal(bed_stats(&b).dma_transfers, 64);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 6000000000), SOMA_OK);
  assert_int_equal(bed_stats(&b).dma_transfers, 65); /* a share takes 2.9 us */
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 0), 1);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(bed_sem(&b, "s"), 70 * 16);
  assert_int_equal(bed_stats(&b).dma_bytes, 70 * 65536);
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 0), 2);
  bed_close(&b);
}

/* Static transfers start in order and wrap; the count may be a register, 0 starts none. */
static void static_transfers_wrap(void **state) {
  (void)state;
  bed b =
      bed_open_shares(&seen, "target trn1\na tensor uint8[4, 64]\nt tile sbuf uint8[4, 64]\n"
                             "s sem\nq queue dge=none\n"
                             "dma q, t[0:1, 0:1], a[0:1, 0:1]\ndma q, t[0:1, 0:2], a[0:1, 0:2]\n"
                             "dma q, t[0:1, 0:3], a[0:1, 0:3]\n"
                             "section vector\n mov r1, 0\n dma_trigger q, r1 $s\n mov r1, 2\n"
                             " dma_trigger q, r1 $s\n dma_trigger q, 3 $s\n nop $s>=80\n halt\n");
  bed_run(&b, SOMA_OK);
  static const unsigned want[] = {1, 2, 3, 1, 2};
  assert_int_equal(seen.n, 5);
  for (unsigned i = 0; i < 5; i++) assert_int_equal(seen.v[i].bytes, want[i]);
  bed_close(&b);
  b = bed_open(NULL,
               "target trn1\na tensor uint8[4, 64]\nt tile sbuf uint8[4, 64]\nq queue dge=none\n"
               "dma q, t, a\nsection vector\n mov r1, -1\n dma_trigger q, r1\n halt\n");
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "dma_trigger of -1 transfers");
  bed_close(&b);
}

/* Descriptors of static transfers lie in HBM: 64 bytes for each contiguous element of a source. */
static void static_rings_take_hbm(void **state) {
  (void)state;
  static const char text[] = "target trn2\na tensor float32[128, 64]\nb tensor float32[128, 64]\n"
                             "t tile sbuf float32[128, 32]\nq queue dge=none\np queue dge=hwdge\n"
                             "section sync\n dma_copy t, a[:, 0:32], queue=q\n" /* 128 elements */
                             " dma_copy b, a, queue=q\n"                        /* 1 */
                             " dma_compute b, srcs=[a, b], op=add, queue=q\n"   /* 2 */
                             " dma_transpose t[0:32, 0:32], a[0:32, 0:32], queue=q\n" /* 32 */
                             " dma_copy t, a[:, 32:64], queue=p\n halt\n";
  uint64_t want = 2 * 128 * 64 * 4 + 64 * (128 + 1 + 2 + 32);
  bed b = bed_open(NULL, text);
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_stats(&b).hbm_bytes, want);
  bed_close(&b);
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_hbm_bytes = want - 1;
  b = bed_open(&o, text);
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_LIMIT);
  assert_string_equal(soma_error(b.m), "ring q needs 10432 bytes of HBM; 65536 of 75967 are taken, "
                                       "the largest of 1 free block has 10431\n"
                                       "  32768 bytes at 0x0: tensor a\n"
                                       "  32768 bytes at 0x8000: tensor b");
  bed_close(&b);
}

/* The software DGE keeps gpsimd's data path busy and waits for it; drain waits for the DGE. */
static void swdge_takes_gpsimd(void **state) {
  (void)state;
  bed b = bed_open_shares(&seen,
                          "target trn2\na tensor float32[128, 64]\nt tile sbuf float32[128, 64]\n"
                          "u tile sbuf int32[128, 512]\ns sem\nq queue dge=swdge\n"
                          "section gpsimd\n dma_copy t, a, queue=q $s\n drain\n"
                          " notify 1\n halt\n");
  bed_run(&b, SOMA_OK);
  soma_engine_stats g = bed_stats(&b).engine[SOMA_GPSIMD];
  assert_int_equal(g.busy / 1000000, 602); /* ns: 485 + 0.92 * 128 */
  assert_true(seen.v[0].start >= 602000000u + 739000000u);
  bed_close(&b);
}

/* ---- Promises about bytes ----------------------------------------------------------------- */

/* A share reads when its ring starts it: what overwrites the source before it is done is not in
 * the copy. 64 KiB take 2.4 us; the write comes while they move. */
static void reads_when_started(void **state) {
  (void)state;
  static uint32_t c[2 * 8192];
  static const char *const writers[] = {
      "section vector\n mov r0, 1200\n.l: sub r0, r0, 1\n bgt r0, 0, .l\n memset t[:, 0:64], 9\n "
      "halt\n",
      "section vector\n mov r0, 1200\n.l: sub r0, r0, 1\n bgt r0, 0, .l\n mov r1, 9\n"
      " tensor_store t[0:1, 0:1], r1\n halt\n"};
  for (int i = 0; i < 2; i++) {
    char text[600];
    snprintf(text, sizeof text,
             "target trn2\nc tensor uint32[2, 8192], output\n"
             "t tile sbuf uint32[2, 8192]\ns sem\nq queue dge=hwdge\n"
             "section sync\n dma_copy c, t, queue=q $s\n nop $s>=16\n halt\n%s",
             writers[i]);
    bed b = bed_open_shares(&seen, text);
    uint32_t five = 5;
    bed_start(&b);
    for (uint32_t p = 0; p < 2; p++)
      for (uint32_t k = 0; k < 8192; k++) tile_write(&b, "t", p, k, 4, &five, 1);
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
    assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
    for (int k = 0; k < 2 * 8192; k++) assert_int_equal(c[k], 5);
    tile_read(&b, "t", 0, 0, 4, c, 1);
    assert_int_equal(c[0], 9);
    assert_true(seen.v[0].start < 2000000000u &&
                seen.v[0].end > 3000000000u); /* 1200 x 2 / 1.2 GHz */
    bed_close(&b);
  }
}

/* The same of a gather that skips a row: a store into the table while its rows move. */
static void gathers_when_started(void **state) {
  (void)state;
  static uint32_t a[4 * 8192], row[8192];
  static const uint32_t idx[4] = {3, 0, 9, 1};
  for (uint32_t k = 0; k < 4 * 8192; k++) a[k] = k + 1;
  bed b = bed_open_shares(
      &seen, "target trn2\na tensor uint32[4, 8192], input\ni tensor uint32[4, 1], input\n"
             "t tile sbuf uint32[4, 8192]\nix tile sbuf uint32[4, 1]\nl sem\ns sem\n"
             "q queue dge=swdge\nsection gpsimd\n dma_copy ix, i, queue=q $l\n nop $l>=16\n"
             " dma_copy t, a.gather(ix), queue=q, oob=skip $s\n nop $s>=16\n halt\n"
             "section sync\n nop $l>=16\n mov r0, 1800\n.l: sub r0, r0, 1\n bgt r0, 0, .l\n"
             " mov r1, 9\n tensor_store a[0:1, 5:6], r1\n tensor_load r2, a[0:1, 5:6]\n halt\n");
  bed_bind(&b, "a", SOMA_UINT32, 4, 8192, a);
  bed_bind(&b, "i", SOMA_UINT32, 4, 1, idx);
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 2), 9);
  assert_int_equal(seen.n, 2);
  uint64_t stored = 3000000000; /* 3 us after the index is there */
  assert_true(seen.v[1].start < seen.v[0].end + stored &&
              seen.v[1].end > seen.v[0].end + stored + 1000000000);
  for (uint32_t p = 0; p < 4; p++) {
    tile_read(&b, "t", p, 0, 4, row, 8192);
    for (uint32_t k = 0; k < 8192; k++)
      assert_int_equal(row[k], idx[p] < 4 ? a[idx[p] * 8192 + k] : 0);
  }
  bed_close(&b);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static const char *const mixed =
    "target trn2\na tensor float32[4, 8]\nt tile sbuf float32[4, 8]\nix tile sbuf uint32[4, 1]\n"
    "s sem\nq queue dge=swdge\nn queue dge=none\nsection gpsimd\n"
    " dma_copy t, a.ap([[8,4],[1,8]]).gather(ix), queue=q $s\n"
    " dma_compute t, srcs=[t, a, t], op=add, queue=n $s\n memset t, 1.0\n nop $s>=%d\n halt\n";

/* Each allocation fails once: an error every time, nothing left. Then the run stops in the middle,
 * with transfers in their rings. */
static void nothing_is_lost(void **state) {
  (void)state;
  int ended = 0;
  for (long at = 0; at < 3000 && !ended; at++) {
    struct countdown c = {at, 0};
    soma_options o = SOMA_OPTIONS_INIT;
    soma_machine *m = NULL;
    soma_program *p = NULL;
    soma_run *r = NULL;
    char text[600];
    snprintf(text, sizeof text, mixed, 32);
    o.alloc = counting;
    o.alloc_ud = &c;
    o.target = "trn2";
    soma_status s = soma_machine_new(&o, &m);
    s = s ? s : soma_assemble(m, text, strlen(text), "t.s", NULL, &p, NULL);
    s = s ? s : soma_run_start(m, p, &r);
    s = s ? s : soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
    ended = s == SOMA_OK;
    if (!ended && s != SOMA_NOMEM)
      fail_msg("allocation %ld failing gives: %s", at, soma_status_text(s));
    soma_run_free(r);
    soma_program_free(p);
    soma_machine_free(m);
    if (c.alive) fail_msg("allocation %ld failing leaves %ld bytes", at, c.alive);
  }
  assert_true(ended);
  struct countdown c = {1L << 30, 0};
  soma_options o = SOMA_OPTIONS_INIT;
  char text[600];
  snprintf(text, sizeof text, mixed, 33);
  o.alloc = counting;
  o.alloc_ud = &c;
  bed b = bed_open(&o, text);
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 1000000000), SOMA_OK);
  assert_true(bed_stats(&b).dma_transfers > 0);
  assert_false(soma_run_ended(b.r));
  bed_close(&b);
  assert_int_equal(c.alive, 0);
}

/* An output that the host's caches do not hold: rows of whole lines and others, and bytes that are
 * read again. */
static void large_outputs(void **state) {
  enum { ROWS = 2048, COLS = 4096, WIDE = 1024 };
  static uint8_t a[128 * WIDE], want[ROWS][COLS], got[ROWS][COLS];
  (void)state;
  for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)(i * 167 + i / 251);
  for (size_t p = 0; p < 128; p++) {
    memcpy(&want[p][0], a + p * WIDE, WIDE);
    memcpy(&want[640 + p][128], a + p * WIDE, WIDE);
    memcpy(&want[640 + p][2051], a + p * WIDE, 100);
    memcpy(&want[1920 + p][64], a + p * WIDE, WIDE);
    for (size_t k = 0; k < 4; k++)
      memcpy(&want[128 + 128 * k + p][256], a + p * WIDE + 256 * k, 256);
  }
  for (unsigned threads = 1; threads <= 2; threads++) {
    soma_options o = SOMA_OPTIONS_INIT;
    o.threads = threads;
    bed b = bed_open(&o, "target trn2\na tensor uint8[128, 1024], input\n"
                         "y tensor uint8[2048, 4096], output\n"
                         "t tile sbuf uint8[128, 1024]\nu tile sbuf uint8[128, 1024]\ns sem\n"
                         "q queue rings=16, dge=hwdge\nsection sync\n"
                         " dma_copy t, a, queue=q $s\n"
                         " dma_copy y[0:128, 0:1024], t, queue=q $s>=16 $s\n"
                         " dma_copy y[640:768, 128:1152], t, queue=q $s\n"
                         " dma_copy y[640:768, 2051:2151], t[:, 0:100], queue=q $s\n"
                         " dma_copy uint8@hbm[y,524544][1,524288,4096][256,4,128], t, "
                         "queue=q $s\n"
                         " dma_copy u, y[640:768, 128:1152], queue=q $s>=80 $s\n"
                         " dma_copy y[1920:2048, 64:1088], u, queue=q $s>=96 $s\n"
                         " nop $s>=112\n halt\n");
    for (int again = 0; again < 2; again++) { /* then in memory that has been used */
      bed_bind(&b, "a", SOMA_UINT8, 128, WIDE, a);
      bed_run(&b, SOMA_OK);
      assert_int_equal(soma_fetch(b.r, "y", got, sizeof got), SOMA_OK);
      assert_memory_equal(got, want, sizeof got);
      soma_run_free(b.r);
      b.r = NULL;
    }
    bed_close(&b);
  }
}

/* Tensors of a second run get the memory of the first one's, and nobody writes them before they are
 * read: by more sources than an item has boxes (VM_BOXES). */
static void many_unwritten_sources(void **state) {
  enum { SOURCES = 8 };
  char text[2000], srcs[200] = "";
  int n = sprintf(text, "target trn2\nd tensor float32[128, 512], output\n"
                        "t tile sbuf float32[128, 512]\ns sem\nq queue rings=16, dge=hwdge\n"
                        "z queue rings=16, dge=none\n");
  for (int i = 0; i < SOURCES; i++) {
    n += sprintf(text + n, "x%d tensor float32[128, 512], output\n", i);
    sprintf(srcs + strlen(srcs), "%sx%d", i ? ", " : "", i);
  }
  n += sprintf(text + n,
               "section vector\n memset t, 1.0\n drain\n halt\nsection sync\n"
               " dma_compute d, srcs=[%s], op=add, queue=z $s\n nop $s>=16\n",
               srcs);
  for (int i = 0; i < SOURCES; i++) n += sprintf(text + n, " dma_copy x%d, t, queue=q $s\n", i);
  sprintf(text + n, " nop $s>=%d\n halt\n", 16 * (SOURCES + 1));
  bed b = bed_open(NULL, text);
  (void)state;
  for (int again = 0; again < 3; again++) {
    float got[128 * 512];
    bed_run(&b, SOMA_OK);
    assert_int_equal(soma_fetch(b.r, "d", got, sizeof got), SOMA_OK);
    for (int i = 0; i < 128 * 512; i++) assert_true(got[i] == 0);
    soma_run_free(b.r);
    b.r = NULL;
  }
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(documented_transfers),  cmocka_unit_test(split_by_partition),
      cmocka_unit_test(split_between_hbm),     cmocka_unit_test(idle_rings_run_ahead),
      cmocka_unit_test(arbitration),           cmocka_unit_test(hbm_is_shared),
      cmocka_unit_test(priority_classes),      cmocka_unit_test(full_rings),
      cmocka_unit_test(static_transfers_wrap), cmocka_unit_test(static_rings_take_hbm),
      cmocka_unit_test(swdge_takes_gpsimd),    cmocka_unit_test(reads_when_started),
      cmocka_unit_test(gathers_when_started),  cmocka_unit_test(nothing_is_lost),
      cmocka_unit_test(large_outputs),         cmocka_unit_test(many_unwritten_sources),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
