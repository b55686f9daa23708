/* The clock: what the engines do to one another and to themselves. Expected times are worked out
 * from the published constants, in ns. */
#include "timing_bed.h"
#include "../../vm/time/clock.h"

/* ---- One engine --------------------------------------------------------------------------- */

static void initiation_interval(void **state) {
  (void)state;
  spans s;
  bed b = run(&s, NULL,
              "target trn2\n" TILES "p tile psum float32[128, 512]\nsection vector\n"
              " tensor_tensor x, z, p, op=add\n tensor_tensor y, z, p, op=add\n halt\n");
  near(start_of(&s, SOMA_VECTOR, 1) - start_of(&s, SOMA_VECTOR, 0), (512 + 70) / 0.96, "interval");
  near(end_of(&s, SOMA_VECTOR, 0) - start_of(&s, SOMA_VECTOR, 0), (512 + 144) / 0.96, "duration");
  bed_close(&b);
}

/* Cycles of a custom operator on the fastest clock that a hypothetical machine may have. */
static void cycles_of_a_fast_clock(void **state) {
  (void)state;
  static vm_core core;
  isa_target target = isa_targets[0];
  core.target = &target;
  target.khz[ISA_ENG_gpsimd] = 100000000;
  assert_int_equal(vm_cost_time(&core, ISA_ENG_gpsimd, 99999999), UINT64_C(999999990000));
  target.khz[ISA_ENG_gpsimd] = 90000000;
  assert_int_equal(vm_cost_time(&core, ISA_ENG_gpsimd, 260000001), UINT64_C(2888888900000));
}

/* Reading, writing or overwriting bytes in flight waits for them and 30 ns more: on gen2 until
 * vector's own next instruction can use them, which is before others can. */
static void hazards(void **state) {
  (void)state;
  static const char *const second[] = {"tensor_tensor y, x, x, op=add",
                                       "tensor_tensor x, y, y, op=add", "memset z[:, 0:4], 1.0"};
  for (unsigned i = 0; i < 3; i++) {
    char text[500];
    spans s;
    snprintf(text, sizeof text,
             "target trn1\n" TILES "section vector\n"
             " tensor_tensor x, z, z, op=add\n %s\n halt\n",
             second[i]);
    bed b = run(&s, NULL, text);
    near(start_of(&s, SOMA_VECTOR, 1), (1024 + 100) / 1.12 + 30, second[i]);
    bed_close(&b);
  }
}

/* What vector's own next instruction reads early are the results, under every timing: each of these
 * begins before the one that writes its source is done. */
static void early_results(void **state) {
  (void)state;
  for (uint64_t schedule = 0; schedule < 12; schedule++) {
    spans s;
    soma_options o = SOMA_OPTIONS_INIT;
    o.schedule = schedule;
    bed b = run(
        &s, &o,
        "target trn1\n" TILES "section vector\n memset z, 1.0\n"
        " tensor_tensor x, z, z, op=add\n tensor_tensor y[:, 0:8], x[:, 0:8], x[:, 0:8], op=add\n"
        " tensor_tensor x, x, z, op=add\n memset z, 0.0\n tensor_copy z, x\n halt\n");
    float got[3];
    tile_read(&b, "y", 127, 0, 4, &got[0], 1);
    tile_read(&b, "x", 127, 511, 4, &got[1], 1);
    tile_read(&b, "z", 5, 511, 4, &got[2], 1);
    assert_true(got[0] == 4 && got[1] == 3 && got[2] == 3);
    if (!schedule) assert_true(start_of(&s, SOMA_VECTOR, 2) < end_of(&s, SOMA_VECTOR, 1));
    bed_close(&b);
  }
}

/* On gen2 matmuls of the same elements follow one another after a gap, four for fp32; one after a
 * load of weights does not wait for it. */
static void gap_of_matmuls(void **state) {
  (void)state;
  static const struct {
    const char *target, *type;
    double cycles;
  } cases[] = {{"trn1", "bfloat16", (512 + 84) / 2.8},
               {"trn1", "float32", 4 * (512 + 92) / 2.8},
               {"trn2", "bfloat16", (512 + 6) / 2.4}};
  for (unsigned i = 0; i < 3; i++) {
    char text[600];
    spans s;
    snprintf(text, sizeof text,
             "target %s\nw tile sbuf %s[128, 128]\nx tile sbuf %s[128, 512]\n"
             "y tile psum float32[128, 512]\nsection tensor\n ldweights w\n"
             " matmul y, x, acc=write\n matmul y, x, acc=write\n halt\n",
             cases[i].target, cases[i].type, cases[i].type);
    bed b = run(&s, NULL, text);
    near(start_of(&s, SOMA_TENSOR, 2) - start_of(&s, SOMA_TENSOR, 1), cases[i].cycles, text);
    bed_close(&b);
  }
}

/* The sequencer runs four instructions ahead of its data path: the marker after the fifth that
 * waits comes when the first of them starts. */
static void depth(void **state) {
  (void)state;
  spans s;
  bed b = run(&s, NULL,
              "target trn1\nx tile sbuf float32[128, 1120]\nsection gpsimd\n"
              "%rep 6\n memset x, 0.0\n%endrep\n notify 7\n halt\n");
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_NOTIFY) {
      double first_start = start_of(&s, SOMA_GPSIMD, 1);
      assert_true(ns(s.v[i].start) >= first_start && ns(s.v[i].start) < first_start + 10);
    }
  bed_close(&b);
}

static void table_loads(void **state) {
  (void)state;
  static const struct {
    const char *text;
    unsigned last, loads; /* number of the last activate */
    double start;         /* its */
  } cases[] = {
      {" activate y, x, fn=copy\n", 0, 0, 0},
      {" activate y, x, fn=exp\n", 0, 1, 1283},
      {" activate y, x, fn=exp\n activate z, x, fn=exp\n", 1, 1, 1283 + (512 + 64) / 1.2},
      {" activate y, x, fn=exp\n activate z, x, fn=relu\n", 1, 1, 1283 + (512 + 64) / 1.2},
      {" activate y, x, fn=exp\n activate z, x, fn=tanh\n", 1, 2, 2 * 1283 + (512 + 64) / 1.2},
      /* after a wait of 6000 of sync's cycles: the load waits as its activate does */
      {" activate y, x, fn=exp $s>=1\n", 0, 1, 6001 / 1.2 + 30 + 1283},
      {" nop $s>=1\n activate y, x, fn=exp\n", 0, 1, 6001 / 1.2 + 30 + 1283},
      /* unless it was loaded before; the instruction is the first that scalar runs */
      {" load_act_table fn=exp\n activate y, x, fn=exp $s>=1\n", 1, 1, 6001 / 1.2 + 30},
      {" load_act_table fn=exp\n activate y, x, fn=exp\n", 1, 1, 1283},
      {" load_act_table fn=exp\n activate y, x, fn=tanh\n", 1, 2, 2 * 1283},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[700];
    spans v;
    snprintf(text, sizeof text,
             "target trn2\n" TILES "s sem\nsection scalar\n%s halt\n"
             "section sync\n%%rep 6000\n nop\n%%endrep\n nop $s++\n halt\n",
             cases[i].text);
    bed b = run(&v, NULL, text);
    double got = start_of(&v, SOMA_SCALAR, cases[i].last);
    if (fabs(got - cases[i].start) > 1.7) /* the sequencer's own cycles */
      fail_msg("%s starts at %.2f, expected %.2f", cases[i].text, got, cases[i].start);
    assert_int_equal(bed_stats(&b).table_loads, cases[i].loads);
    bed_close(&b);
  }
}

/* The load is an event of its own, between the wait and its activate, and the data path's work. */
static void table_is_a_bar(void **state) {
  (void)state;
  spans s;
  bed b = run(&s, NULL,
              "target trn2\n" TILES "d sem\nsection scalar\n activate y, x, fn=exp $d>=1\n halt\n"
              "section vector\n memset z, 0.0 $d++\n halt\n");
  const soma_event *load = NULL;
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_TABLE) load = &s.v[i];
  assert_non_null(load);
  near(ns(load->end) - ns(load->start), 1283, "length");
  near(ns(load->start), end_of(&s, SOMA_VECTOR, 0) + 30, "start");
  near(ns(load->end), start_of(&s, SOMA_SCALAR, 0), "end");
  near(ns(bed_stats(&b).engine[SOMA_SCALAR].busy), 1283 + (512 + 352) / 1.2, "busy");
  bed_close(&b);
}

/* On trn3 transposes go beside matmuls: together they are no more than the array can do. */
static void utilisation_within_peak(void **state) {
  (void)state;
  spans s;
  soma_figures f;
  bed b = run(&s, NULL,
              "target trn3\nw tile sbuf bfloat16[128, 128]\nx tile sbuf bfloat16[128, 512]\n"
              "y tile psum float32[128, 512]\nt tile psum bfloat16[128, 512]\nsection tensor\n"
              " ldweights w\n%rep 64\n matmul y, x, acc=add\n"
              " matmul t, x, transpose=true\n%endrep\n halt\n");
  soma_stats stats = bed_stats(&b);
  soma_stats_figures(&stats, &f, sizeof f);
  assert_true((double)stats.adjusted_flops > (double)stats.peak_flops * (double)stats.time * 1e-15);
  assert_true(f.hfu > 0.9 && f.hfu <= 1);
  assert_true(f.utilization[SOMA_TENSOR] <= 1 && f.mfu <= f.hfu);
  bed_close(&b);
}

/* Bytes of the operands, by engine and memory: vector reads 128 x 512 of SBUF twice, and once what
 * it has written to PSUM. */
static void traffic(void **state) {
  (void)state;
  spans s;
  bed b = run(&s, NULL,
              "target trn2\n" TILES "p tile psum float32[128, 512]\nsection vector\n"
              " tensor_tensor p, x, y, op=add\n tensor_copy z[:, 0:256], p[:, 0:256]\n halt\n");
  soma_stats got = bed_stats(&b);
  uint64_t tile = (uint64_t)128 * 512 * 4;
  assert_int_equal(got.sbuf_read[SOMA_VECTOR], 2 * tile);
  assert_int_equal(got.sbuf_written[SOMA_VECTOR], tile / 2);
  assert_int_equal(got.psum_read[SOMA_VECTOR], tile / 2);
  assert_int_equal(got.psum_written[SOMA_VECTOR], tile);
  assert_int_equal(got.sbuf_read[SOMA_SCALAR] + got.psum_written[SOMA_SCALAR], 0);
  bed_close(&b);
}

/* What the host's link takes: 2 us each way that is used, and 16 bytes a ns. */
static void host_link(void **state) {
  (void)state;
  static float a[4096], c[4096];
  bed b = bed_open(NULL, "target trn2\na tensor float32[1, 4096], input\n"
                         "c tensor float32[1, 4096], output\nsection sync\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 1, 4096, a);
  bed_run(&b, SOMA_OK);
  near(ns(bed_stats(&b).host), 2000 + 16384 / 16.0, "in");
  assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
  near(ns(bed_stats(&b).host), 2 * (2000 + 16384 / 16.0), "in and out");
  bed_close(&b);
}

/* ---- Two engines -------------------------------------------------------------------------- */

static void semaphore_delays(void **state) {
  (void)state;
  static const struct {
    const char *update;
    double at; /* cycles of gen3's vector */
  } cases[] = {{"$s++", 512 + 144}, {"$s++ @complete", 512 + 144}, {"$s++ @read", 512 + 72}};
  for (unsigned i = 0; i < 3; i++) {
    char text[500];
    spans s;
    snprintf(text, sizeof text,
             "target trn2\n" TILES "p tile psum float32[128, 512]\ns sem\n"
             "section vector\n tensor_tensor x, y, p, op=add %s\n halt\n"
             "section sync\n nop $s>=1\n halt\n",
             cases[i].update);
    bed b = run(&s, NULL, text);
    for (unsigned k = 0; k < s.n; k++)
      if (s.v[k].kind == SOMA_EV_WAIT)
        near(ns(s.v[k].end), cases[i].at / 0.96 + 30, cases[i].update);
    bed_close(&b);
  }
}

/* What a second engine's instruction waits for, by generation. The first of each pair is issued
 * first: engines run in the order tensor, vector, scalar, gpsimd. */
static void ports(void **state) {
  (void)state;
  static const struct {
    const char *target, *vector, *other_engine, *other;
    soma_engine e;
    double start; /* of the other one */
  } cases[] = {
      {"trn1", "tensor_tensor z, x, y, op=add", "gpsimd", "memset u, 0.0", SOMA_GPSIMD,
       1024 / 1.12},
      {"trn1", "tensor_copy p, q", "gpsimd", "memset u, 0.0", SOMA_GPSIMD, 0},
      {"trn2", "tensor_tensor z, x, y, op=add", "gpsimd", "memset u, 0.0", SOMA_GPSIMD, 0},
      {"trn1", "tensor_copy z, p", "scalar", "activate u, q, fn=copy", SOMA_SCALAR, 512 / 1.12},
      {"trn1", "tensor_copy z, p", "scalar", "activate u, x, fn=copy", SOMA_SCALAR, 0},
      {"trn2", "tensor_copy z, p", "scalar", "activate u, q, fn=copy", SOMA_SCALAR, 0},
      {"trn2", "tensor_copy z, p", "scalar", "activate u, p, fn=copy", SOMA_SCALAR, 512 / 0.96},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[900];
    spans s;
    snprintf(text, sizeof text,
             "target %s\n" TILES "u tile sbuf float32[128, 512]\np tile psum float32[128, 512]\n"
             "q tile psum float32[128, 512]\nsection vector\n %s\n halt\nsection %s\n %s\n halt\n",
             cases[i].target, cases[i].vector, cases[i].other_engine, cases[i].other);
    bed b = run(&s, NULL, text);
    near(start_of(&s, SOMA_VECTOR, 0), 0, cases[i].vector);
    near(start_of(&s, cases[i].e, 0), cases[i].start, cases[i].other);
    bed_close(&b);
  }
}

/* A copy of 4096 bf16 at four per cycle takes 1024 cycles; while gpsimd streams, one per cycle. */
static void gpsimd_slows_vector(void **state) {
  (void)state;
  static const char *const text =
      "target trn2\nx tile sbuf bfloat16[128, 4096]\ny tile sbuf bfloat16[128, 4096]\n"
      "u tile sbuf float32[128, 480]\nsection vector\n nop\n tensor_copy y, x\n halt\n"
      "section gpsimd\n%s halt\n";
  char alone[500], both[500];
  spans s;
  snprintf(alone, sizeof alone, text, "");
  snprintf(both, sizeof both, text, " memset u, 0.0\n");
  bed b = run(&s, NULL, alone);
  near(end_of(&s, SOMA_VECTOR, 0) - start_of(&s, SOMA_VECTOR, 0), (1024 + 144) / 0.96, "alone");
  bed_close(&b);
  b = run(&s, NULL, both);
  double start = start_of(&s, SOMA_VECTOR, 0), overlap = 480 / 1.2 - start;
  near(end_of(&s, SOMA_VECTOR, 0) - start, (1024 + 144) / 0.96 + overlap * 3 / 4, "beside gpsimd");
  bed_close(&b);
}

/* ---- Tensor ------------------------------------------------------------------------------- */

#define PE                                                                                    \
  "w tile sbuf bfloat16[128, 128]\nx tile sbuf bfloat16[128, 512]\ny tile psum float32[128, " \
  "512]\n"

/* Weights load while a matmul runs: the next one starts when the array is free. */
/* How gpsimd's work is cut does not matter to vector: four long copies slow it as sixty-four short
 * ones do, but for what lies between two of them. */
static void cuts_of_gpsimd(void **state) {
  (void)state;
  double took[2];
  for (unsigned i = 0; i < 2; i++) {
    char text[700];
    unsigned n = i ? 64 : 4;
    spans s;
    snprintf(text, sizeof text,
             "target trn2\nx tile sbuf bfloat16[128, 16384]\ny tile sbuf bfloat16[128, 16384]\n"
             "u tile sbuf float32[128, %u]\nd sem\nsection vector\n%%rep 4\n tensor_copy y, "
             "x\n%%endrep\n"
             " tensor_copy x, y $d++ @read\n halt\n"
             "section gpsimd\n%%rep %u\n memset u, 0.0\n%%endrep\n halt\n",
             16384 / n, n);
    bed b = run(&s, NULL, text);
    took[i] = end_of(&s, SOMA_VECTOR, 4);
    assert_true(bed_stats(&b).engine[SOMA_VECTOR].busy <= bed_stats(&b).time);
    for (unsigned k = 1; k < 5; k++)
      assert_true(start_of(&s, SOMA_VECTOR, k) >= end_of(&s, SOMA_VECTOR, k - 1));
    bed_close(&b);
  }
  double alone = 5 * (4096 + 144) / 0.96 + 4 * 30, slow = 16384 / 1.2;
  assert_true(took[0] > alone + 0.7 * slow && took[0] < alone + 0.8 * slow);
  if (fabs(took[1] - took[0]) > 0.02 * took[0])
    fail_msg("%.1f ns beside short copies, %.1f beside long ones", took[1], took[0]);
}

static void background_weights(void **state) {
  (void)state;
  spans s;
  bed b = run(&s, NULL,
              "target trn2\n" PE "section tensor\n%rep 4\n ldweights w\n"
              " matmul y, x, acc=write\n%endrep\n halt\n");
  double start[4];
  unsigned n = 0;
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_INSN && strcmp(s.v[i].name, "matmul") == 0)
      start[n++] = ns(s.v[i].start);
  assert_int_equal(n, 4);
  near(start[0], (64 + 6) / 2.4, "after its weights, of 32 cycles, one instruction later");
  for (unsigned i = 1; i < 4; i++) near(start[i] - start[i - 1], 518 / 2.4, "matmul after matmul");
  bed_close(&b);
}

/* The starts of three fp32 matmuls of 128 columns, each with new weights. */
static void with_weights(const char *weights, double start[3]) {
  spans s;
  char text[400];
  snprintf(text, sizeof text,
           "target trn2\nw tile sbuf float32[128, 1024]\nx tile sbuf float32[128, 128]\n"
           "y tile psum float32[128, 128]\nsection tensor\n%%rep 3\n ldweights %s\n"
           " matmul y, x, acc=write\n%%endrep\n halt\n",
           weights);
  bed b = run(&s, NULL, text);
  unsigned n = 0;
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_INSN && strcmp(s.v[i].name, "matmul") == 0)
      start[n++] = ns(s.v[i].start);
  bed_close(&b);
}

/* A matmul of 128 columns is over before fp32 weights that lie far apart are loaded beside it;
 * dense ones are there. */
static void slow_weights(void **state) {
  (void)state;
  double start[3];
  with_weights("w[:, ::8]", start);
  near(start[1] - start[0], 2 * 574 / 2.4, "two passes, each after weights of its own");
  near(start[2] - start[1], 2 * 574 / 2.4, "and again");
  with_weights("w[:, 0:128]", start);
  near(start[0], 128 / 2.4, "after its weights");
  near(start[1] - start[0], (4 * 128 + 6) / 2.4, "dense weights hide behind it");
  near(start[2] - start[1], (4 * 128 + 6) / 2.4, "and again");
}

/* Tiles of 32 rows that do not touch run at once, one issue every 6 cycles; the same tile waits. */
static void tiles_of_the_array(void **state) {
  (void)state;
  spans s;
  double start[5];
  unsigned n = 0;
  bed b = run(&s, NULL,
              "target trn2\n" PE "section tensor\n%assign r 0\n%rep 4\n"
              " ldweights w[r:r+32, 0:32], tile_row=r, tile_rows=32, tile_col=r, tile_cols=32\n"
              "%assign r r + 32\n%endrep\n drain\n%assign r 0\n%rep 4\n"
              " matmul y[r:r+32, :], x[r:r+32, :], acc=write, tile_row=r, tile_rows=32, "
              "tile_col=r, tile_cols=32\n"
              "%assign r r + 32\n%endrep\n"
              " matmul y[32:64, :], x[32:64, :], acc=write, tile_row=32, tile_rows=32, "
              "tile_col=32, tile_cols=32\n halt\n");
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_INSN && strcmp(s.v[i].name, "matmul") == 0)
      start[n++] = ns(s.v[i].start);
  assert_int_equal(n, 5);
  for (unsigned i = 1; i < 4; i++) near(start[i] - start[i - 1], 6 / 2.4, "disjoint tiles");
  near(start[4] - start[1], 518 / 2.4, "the same tile");
  bed_close(&b);
}

static void warm_up(void **state) {
  (void)state;
  spans s;
  soma_options o = SOMA_OPTIONS_INIT;
  o.costs = "PE_WARMUP trn2 3000 ; documented\n";
  bed b = run(&s, &o,
              "target trn2\n" PE "section tensor\n ldweights w\n%rep 9\n"
              " matmul y, x, acc=write\n%endrep\n halt\n");
  /* matmuls 1 to 8 start within 3 us of the first: 1030 cycles each */
  near(start_of(&s, SOMA_TENSOR, 2) - start_of(&s, SOMA_TENSOR, 1), 1030 / 2.4, "cold");
  near(end_of(&s, SOMA_TENSOR, 1) - start_of(&s, SOMA_TENSOR, 1), (1024 + 391) / 2.4, "cold");
  near(end_of(&s, SOMA_TENSOR, 9) - start_of(&s, SOMA_TENSOR, 9), (512 + 391) / 2.4, "warm");
  bed_close(&b);
}

/* Gen4 takes a transpose in beside a matmul. */
static void transpose_beside_matmul(void **state) {
  (void)state;
  static const char *const text =
      "target %s\n" PE "t tile psum bfloat16[128, 128]\nsection tensor\n ldweights w\n"
      " matmul y, x, acc=write\n matmul t, w, transpose=true\n halt\n";
  for (int gen4 = 0; gen4 < 2; gen4++) {
    char program[500];
    spans s;
    snprintf(program, sizeof program, text, gen4 ? "trn3" : "trn2");
    bed b = run(&s, NULL, program);
    near(start_of(&s, SOMA_TENSOR, 2) - start_of(&s, SOMA_TENSOR, 1), (gen4 ? 6 : 518) / 2.4,
         program);
    bed_close(&b);
  }
}

/* ---- Invariants --------------------------------------------------------------------------- */

static void check_engine(const spans *s, unsigned e, const soma_stats *st) {
  soma_time busy = 0, until = 0, before = 0;
  for (unsigned i = 0; i < s->n; i++) {
    const soma_event *v = &s->v[i];
    if (v->kind != SOMA_EV_INSN || v->engine != e) continue;
    assert_true(v->end > v->start && v->start >= before && v->end >= until);
    busy += v->end - (v->start > until ? v->start : until);
    before = v->start;
    until = v->end;
  }
  if (e != SOMA_GPSIMD) /* which also makes descriptors */
    assert_true(busy == st->engine[e].busy);
  assert_true(st->engine[e].busy <= st->time);
  assert_true(until <= st->time);
}

static void invariants(void **state) {
  (void)state;
  static const char *const targets[] = {"trn1", "trn2", "trn3"};
  static float a[512 * 256], c[512 * 256];
  for (unsigned i = 0; i < 512 * 256; i++) a[i] = (float)i;
  for (unsigned t = 0; t < 3; t++) {
    char text[2500];
    spans s = {.n = 0};
    soma_options o = SOMA_OPTIONS_INIT;
    uint64_t bytes = 0;
    soma_time now = 0;
    o.event = keep;
    o.event_ud = &s;
    snprintf(text, sizeof text, "target %s\n%s", targets[t], pipeline);
    bed b = bed_open(&o, text);
    bed_bind(&b, "a", SOMA_FLOAT32, 512, 256, a);
    bed_run(&b, SOMA_OK);
    soma_stats st = bed_stats(&b);
    for (unsigned i = 0; i < s.n; i++) {
      soma_time came = s.v[i].kind == SOMA_EV_TRIGGER ? s.v[i].start : s.v[i].end;
      assert_true(came >= now); /* events come in order of time */
      now = came;
      bytes += s.v[i].kind == SOMA_EV_DMA ? s.v[i].bytes : 0;
    }
    assert_true(bytes == st.dma_bytes && bytes == 2 * sizeof a);
    for (unsigned e = 0; e < SOMA_ENGINES; e++) check_engine(&s, e, &st);
    assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
    for (unsigned i = 0; i < 512 * 256; i++) assert_true(c[i] == 3 * a[i]);
    near(ns(st.launch), 10000, "launch");
    bed_close(&b);
  }
}

/* Timed only, a run has the same events and leaves memory as it was. */
static void timing_only(void **state) {
  (void)state;
  static float a[512 * 256], c[512 * 256];
  uint64_t hash[2];
  char text[2500];
  snprintf(text, sizeof text, "target trn2\n%s", pipeline);
  a[5] = 7;
  for (int only = 0; only < 2; only++) {
    soma_options o = SOMA_OPTIONS_INIT;
    o.timing_only = only;
    bed b = bed_open(&o, text);
    if (!only) bed_bind(&b, "a", SOMA_FLOAT32, 512, 256, a);
    bed_run(&b, SOMA_OK);
    hash[only] = bed_stats(&b).trace_hash;
    assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
    assert_true(c[5] == (only ? 0 : 21));
    bed_close(&b);
  }
  assert_true(hash[0] == hash[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initiation_interval),
      cmocka_unit_test(hazards),
      cmocka_unit_test(cycles_of_a_fast_clock),
      cmocka_unit_test(depth),
      cmocka_unit_test(table_loads),
      cmocka_unit_test(table_is_a_bar),
      cmocka_unit_test(utilisation_within_peak),
      cmocka_unit_test(host_link),
      cmocka_unit_test(traffic),
      cmocka_unit_test(early_results),
      cmocka_unit_test(gap_of_matmuls),
      cmocka_unit_test(semaphore_delays),
      cmocka_unit_test(ports),
      cmocka_unit_test(gpsimd_slows_vector),
      cmocka_unit_test(cuts_of_gpsimd),
      cmocka_unit_test(background_weights),
      cmocka_unit_test(slow_weights),
      cmocka_unit_test(tiles_of_the_array),
      cmocka_unit_test(warm_up),
      cmocka_unit_test(transpose_beside_matmul),
      cmocka_unit_test(invariants),
      cmocka_unit_test(timing_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
