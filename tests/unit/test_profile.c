/* Where the time went: utilisation figures, idle gaps, the explanation of the critical path. What
 * is expected is worked out here from the events and the rules in vm/record/README.md, not by the code. */
#include "vm_bed.h"

#define NS UINT64_C(1000000)

typedef struct text {
  char *s;
  size_t n;
} text;

static int add_text(void *ud, const char *p, size_t n) {
  text *t = ud;
  t->s = realloc(t->s, t->n + n + 1);
  assert_non_null(t->s);
  memcpy(t->s + t->n, p, n);
  t->n += n;
  t->s[t->n] = 0;
  return 0;
}

static void near(double got, double want) {
  double off = got - want;
  if (off < 0) off = -off;
  if (off > 1e-9 * want) fail_msg("%.17g, expected %.17g", got, want);
}

static soma_figures figures_of(const bed *b) {
  soma_stats s = bed_stats(b);
  soma_figures f;
  soma_stats_figures(&s, &f, sizeof f);
  return f;
}

/* A machine that records into *r and keeps causes. */
static bed recorded(const char *source, soma_recorder **r) {
  soma_options o = SOMA_OPTIONS_INIT;
  assert_int_equal(soma_recorder_new(NULL, r), SOMA_OK);
  o.event = soma_recorder_event;
  o.event_ud = *r;
  o.causes = 1;
  bed b = bed_open(&o, source);
  bed_run(&b, SOMA_OK);
  soma_stats s = bed_stats(&b);
  soma_recorder_stats(*r, &s, sizeof s);
  return b;
}

/* Load, add and store of four blocks through one buffer, each engine waiting for another. */
static const char loop[] = "        target  trn2\n"
                           "a       tensor  float32[512, 256]\n"
                           "c       tensor  float32[512, 256], output\n"
                           "t       tile    sbuf float32[128, 256]\n"
                           "u       tile    sbuf float32[128, 256]\n"
                           "loaded  sem\n"
                           "added   sem\n"
                           "stored  sem\n"
                           "qi      queue   rings=4, dge=hwdge\n"
                           "qo      queue   rings=4, dge=hwdge\n"
                           "section sync\n"
                           ".l:     dma_copy t, a[r0:+128, 0:256], queue=qi  $added>=r1  $loaded\n"
                           "        add     r1, r1, 1\n"
                           "        add     r0, r0, 128\n"
                           "        blt     r0, 512, .l\n"
                           "        halt\n"
                           "section vector\n"
                           "        mov     r1, 4\n"
                           ".l:     nop     $stored>=r2\n"
                           "        tensor_tensor u, t, t, op=add  $loaded>=r1  $added++\n"
                           "        add     r1, r1, 4\n"
                           "        add     r2, r2, 4\n"
                           "        ble     r1, 16, .l\n"
                           "        halt\n"
                           "section scalar\n"
                           "        mov     r1, 1\n"
                           ".l:     dma_copy c[r0:+128, 0:256], u, queue=qo  $added>=r1  $stored\n"
                           "        add     r1, r1, 1\n"
                           "        add     r0, r0, 128\n"
                           "        blt     r0, 512, .l\n"
                           "        halt\n";

/* ---- Figures ------------------------------------------------------------------------------ */

/* One product of 128 x 64 weights with 128 x 512: what it counts, and what its flops cost against
 * 16-bit ones by the vendor's schema (fp32 4, fp8 1/2 on trn2 and 1 on trn1; one pass of two:
 * half). */
static void flops_by_type(void **state) {
  (void)state;
  static const struct {
    const char *target, *dtype, *options;
    double weight;
    int transposes;
  } cases[] = {
      {"trn2", "bfloat16", "", 1, 0},      {"trn2", "float32", "", 4, 0},
      {"trn1", "float32", "", 4, 0},       {"trn2", "float32", ", onezero=true", 2, 0},
      {"trn2", "float8_e4m3", "", 0.5, 0}, {"trn1", "float8_e4m3", "", 1, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char source[700];
    snprintf(source, sizeof source,
             "target %s\nw tile sbuf %s[128, 64]\nx tile sbuf %s[128, 512]\n"
             "y tile psum float32[64, 512]\nsection tensor\n ldweights w\n"
             " matmul y, x, acc=write%s\n halt\n",
             cases[i].target, cases[i].dtype, cases[i].dtype, cases[i].options);
    bed b = bed_open(NULL, source);
    bed_run(&b, SOMA_OK);
    soma_stats s = bed_stats(&b);
    soma_figures f = figures_of(&b);
    double flops = 2.0 * 128 * 64 * 512, clock = cases[i].target[3] == '1' ? 2.8e9 : 2.4e9;
    double peak = 2 * 128 * 128 * clock, seconds = (double)s.time * 1e-15;
    near((double)s.flops, flops);
    near((double)s.adjusted_flops, flops * cases[i].weight);
    near((double)s.peak_flops, peak);
    near(f.peak_flops, peak / cases[i].weight);
    near(f.mfu, flops / (peak / cases[i].weight) / seconds);
    near(f.hfu, f.mfu);
    near(f.model_flops, flops / seconds);
    near(f.attainable_flops, f.peak_flops); /* no byte of HBM: nothing but the array bounds it */
    assert_true(f.mfu > 0 && f.mfu < 1);
    near(f.utilization[SOMA_TENSOR], f.hfu);
    bed_close(&b);
  }
}

/* A transpose counts for hardware and not for the model. */
static void transposes_are_no_model_flops(void **state) {
  (void)state;
  bed b =
      bed_open(NULL, "target trn2\nw tile sbuf bfloat16[128, 128]\n"
                     "x tile sbuf bfloat16[128, 128]\ny tile psum bfloat16[128, 128]\n"
                     "z tile psum float32[128, 128]\nsection tensor\n ldweights w\n"
                     " matmul y, x, acc=write, transpose=true\n matmul z, x, acc=write\n halt\n");
  bed_run(&b, SOMA_OK);
  soma_stats s = bed_stats(&b);
  soma_figures f = figures_of(&b);
  near((double)s.flops, 2 * 2.0 * 128 * 128 * 128);
  near((double)s.transpose_flops, 2.0 * 128 * 128 * 128);
  near((double)s.adjusted_transpose_flops, 2.0 * 128 * 128 * 128);
  near(f.hfu, 2 * f.mfu);
  bed_close(&b);
}

/* Four loads and four stores of 128 KiB. */
static void memory_figures(void **state) {
  (void)state;
  soma_recorder *r;
  bed b = recorded(loop, &r);
  soma_stats s = bed_stats(&b);
  soma_figures f = figures_of(&b);
  soma_event e;
  double seconds = (double)s.time * 1e-15;
  soma_time first = UINT64_MAX, last = 0, active = 0;
  uint64_t bytes = 0;
  assert_int_equal(s.hbm_read_bytes, 4 * 128 * 1024);
  assert_int_equal(s.hbm_write_bytes, 4 * 128 * 1024);
  near(f.mbu, 8 * 128 * 1024 / 716e9 / seconds);
  near(f.dma_average_bytes, 128 * 1024);
  assert_int_equal(s.sbuf_touched, 2048);
  assert_int_equal(s.psum_touched, 0);
  assert_int_equal(s.sbuf_size, 224 * 1024);
  /* Shares of a transfer overlap and transfers do not: each is one span. */
  for (uint64_t i = 0; soma_recorder_get(r, b.p, i, &e) == SOMA_OK; i++) {
    if (e.kind != SOMA_EV_DMA) continue;
    bytes += e.bytes;
    if (last && e.start >= last) {
      active += last - first;
      first = UINT64_MAX;
    }
    first = e.start < first ? e.start : first;
    last = e.end > last ? e.end : last;
  }
  active += last - first;
  assert_int_equal(bytes, s.dma_bytes);
  assert_true(s.dma_active == active);
  near(f.dma_active, (double)active / (double)s.time);
  soma_recorder_free(r);
  bed_close(&b);
}

/* tensor_tensor of N float32 in SBUF streams N cycles (8 bytes per cycle, two sources); half of the
 * partitions count half. */
static void streaming_counts_partitions(void **state) {
  (void)state;
  for (unsigned p = 32; p <= 128; p *= 2) {
    char source[300];
    snprintf(source, sizeof source,
             "target trn2\nx tile sbuf float32[%u, 480]\ny tile sbuf float32[%u, 480]\n"
             "section vector\n tensor_tensor y, x, x, op=add\n halt\n",
             p, p);
    bed b = bed_open(NULL, source);
    bed_run(&b, SOMA_OK);
    soma_stats s = bed_stats(&b);
    assert_true(s.streaming[SOMA_VECTOR] == 500 * NS * p / 128); /* 480 cycles at 0.96 GHz */
    near(figures_of(&b).utilization[SOMA_VECTOR],
         (double)s.streaming[SOMA_VECTOR] / (double)s.time);
    bed_close(&b);
  }
}

/* ---- Idle gaps ---------------------------------------------------------------------------- */

/* Told by hand: vector waits for three shares, the last of which ends at 1100; then an instruction
 * that follows control instructions; then nothing. */
static const char declared[] = "        target  trn2\n"
                               "a       tensor  float32[128, 4], input\n"
                               "t       tile    sbuf float32[128, 4]\n"
                               "u       tile    sbuf float32[128, 4]\n"
                               "full    sem\n"
                               "free    sem\n"
                               "q       queue   rings=2, dge=hwdge\n"
                               "section sync\n"
                               "        dma_copy t, a, queue=q  $full\n"
                               "        halt\n"
                               "section vector\n"
                               "        tensor_copy u, t  $full>=2  $free++\n"
                               "        tensor_copy u, t\n"
                               "        halt\n"
                               "section scalar\n"
                               "        tensor_copy t, u  $free>=r1\n"
                               "        halt\n";
static const soma_event story[] = {
    {.kind = SOMA_EV_DMA,
     .engine = 0,
     .value = SOMA_SYNC,
     .bytes = 8,
     .start = 700 * NS,
     .end = 1000 * NS},
    {.kind = SOMA_EV_DMA,
     .engine = 1,
     .value = SOMA_SYNC,
     .bytes = 8,
     .start = 700 * NS,
     .end = 1100 * NS},
    {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .value = 1, .start = 1330 * NS, .end = 1330 * NS},
    {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .value = 2, .start = 1430 * NS, .end = 1430 * NS},
    {.kind = SOMA_EV_WAIT, .engine = SOMA_VECTOR, .start = 10 * NS, .end = 1430 * NS},
    {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 1430 * NS, .end = 1600 * NS},
    {.kind = SOMA_EV_SEM,
     .engine = SOMA_VECTOR,
     .id = 1,
     .value = 1,
     .start = 1630 * NS,
     .end = 1630 * NS},
    {.kind = SOMA_EV_WAIT, .engine = SOMA_SCALAR, .id = 1, .start = 0, .end = 1630 * NS},
    {.kind = SOMA_EV_INSN, .engine = SOMA_SCALAR, .start = 1630 * NS, .end = 1700 * NS},
    {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .pc = 1, .start = 1700 * NS, .end = 2000 * NS}};
enum { STORY = sizeof story / sizeof *story };

static void gaps_name_who_was_late(void **state) {
  (void)state;
  bed b = bed_open(NULL, declared);
  soma_recorder *r;
  soma_idle_gap g[8];
  uint32_t n;
  assert_int_equal(soma_recorder_new(NULL, &r), SOMA_OK);
  for (unsigned i = 0; i < STORY; i++) soma_recorder_event(r, &story[i]);
  assert_int_equal(soma_idle_gaps(r, b.p, NULL, 0, &n), SOMA_OK);
  assert_int_equal(n, 4);
  assert_int_equal(soma_idle_gaps(r, b.p, g, 8, &n), SOMA_OK);
  /* scalar until 1630: vector's update; vector until 1430: the queue's; scalar's end; 100 ns */
  assert_int_equal(g[0].kind, SOMA_GAP_SEMAPHORE);
  assert_int_equal(g[0].engine, SOMA_SCALAR);
  assert_true(g[0].start == 0 && g[0].end == 1630 * NS && g[0].waited == 1630 * NS);
  assert_string_equal(g[0].semaphore_name, "free");
  assert_string_equal(g[0].condition, ">=r1");
  assert_int_equal(g[0].reached, 1);
  assert_int_equal(g[0].line, 16);
  assert_int_equal(g[0].late_engine, SOMA_VECTOR);
  assert_int_equal(g[0].late_queue, -1);
  assert_int_equal(g[0].late_line, 12);
  assert_string_equal(g[0].late_name, "tensor_copy");
  assert_int_equal(g[1].kind, SOMA_GAP_SEMAPHORE);
  assert_int_equal(g[1].engine, SOMA_VECTOR);
  assert_true(g[1].end == 1430 * NS && g[1].waited == 1420 * NS);
  assert_string_equal(g[1].semaphore_name, "full");
  assert_string_equal(g[1].condition, ">=2");
  assert_int_equal(g[1].late_engine, SOMA_SYNC);
  assert_string_equal(g[1].queue_name, "q");
  assert_string_equal(g[1].late_name, "dma_copy");
  assert_string_equal(g[1].late_file, "test.s");
  assert_int_equal(g[1].late_line, 9);
  assert_int_equal(g[2].kind, SOMA_GAP_END);
  assert_true(g[2].engine == SOMA_SCALAR && g[2].start == 1700 * NS && g[2].end == 2000 * NS);
  assert_int_equal(g[2].semaphore, -1);
  assert_int_equal(g[3].kind, SOMA_GAP_SEQUENCER);
  assert_true(g[3].engine == SOMA_VECTOR && g[3].start == 1600 * NS && g[3].end == 1700 * NS);
  soma_recorder_free(r);
  bed_close(&b);
}

/* Busy time and gaps of each engine are the run's time; gaps do not overlap busy spans. */
static void busy_and_idle_are_all(void **state) {
  (void)state;
  enum { MOST = 200 };
  static soma_idle_gap g[MOST];
  soma_recorder *r;
  bed b = recorded(loop, &r);
  soma_stats s = bed_stats(&b);
  soma_event e;
  uint32_t n;
  assert_int_equal(soma_idle_gaps(r, b.p, g, MOST, &n), SOMA_OK);
  assert_true(n > 3 && n < MOST);
  soma_time idle = 0;
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(g[i].engine, SOMA_VECTOR); /* no other data path ran */
    assert_true(i == 0 || g[i - 1].end - g[i - 1].start >= g[i].end - g[i].start);
    idle += g[i].end - g[i].start;
    for (uint64_t k = 0; soma_recorder_get(r, b.p, k, &e) == SOMA_OK; k++)
      if (e.kind == SOMA_EV_INSN) assert_true(e.end <= g[i].start || e.start >= g[i].end);
  }
  assert_true(idle + s.engine[SOMA_VECTOR].busy == s.time);
  soma_recorder_free(r);
  bed_close(&b);
}

/* The gaps of a recording that is not whole are those of the stretch that was kept. */
static void gaps_of_a_part(void **state) {
  (void)state;
  soma_recorder_options o = SOMA_RECORDER_OPTIONS_INIT;
  soma_recorder *r;
  soma_idle_gap g[4];
  uint32_t n;
  bed b = bed_open(NULL, declared);
  o.max_events = 3; /* wait and both last instructions */
  o.keep_last = 1;
  assert_int_equal(soma_recorder_new(&o, &r), SOMA_OK);
  for (unsigned i = 0; i < STORY; i++) soma_recorder_event(r, &story[i]);
  assert_int_equal(soma_idle_gaps(r, b.p, g, 4, &n), SOMA_OK);
  assert_int_equal(n, 3); /* begins with the wait at 0, although its update is gone */
  assert_true(g[0].engine == SOMA_VECTOR && g[0].end == 1700 * NS);
  assert_int_equal(g[0].kind, SOMA_GAP_SEQUENCER);
  assert_int_equal(g[1].kind, SOMA_GAP_SEMAPHORE);
  assert_int_equal(g[1].late_engine, -1);
  soma_recorder_free(r);
  bed_close(&b);
}

/* ---- Explanation -------------------------------------------------------------------------- */

/* gpsimd: 662 cycles at 1.2 GHz twice, 30 ns between them; the update after 30 ns; scalar's 864. */
static void explanation_of_a_chain(void **state) {
  (void)state;
  soma_recorder *r;
  text got = {0};
  bed b = recorded("target trn2\nx tile sbuf float32[128, 512]\ny tile sbuf float32[128, 512]\n"
                   "z tile sbuf float32[128, 512]\ns sem\nsection gpsimd\n memset x, 1.0\n"
                   " tensor_copy y, x $s++\n halt\n"
                   "section scalar\n activate z, y, fn=copy $s>=1\n halt\n",
                   &r);
  assert_int_equal(soma_write_explanation(b.r, r, add_text, &got), SOMA_OK);
  assert_string_equal(
      got.s, "critical path: 1.88 us in 5 steps\n"
             "shares of the critical path\n"
             "   58.6%  1.10 us   gpsimd: data path\n"
             "   38.2%  720.0 ns  scalar: data path\n"
             "    1.6%  30.00 ns  gpsimd: wait: same bytes in flight\n"
             "    1.6%  30.00 ns  wait: until semaphore s was seen\n"
             "the path, earliest first\n"
             "  551.7 ns    gpsimd   memset  test.s:7\n"
             "  30.00 ns    wait     same bytes in flight, for tensor_copy  test.s:8\n"
             "  551.7 ns    gpsimd   tensor_copy  test.s:8\n"
             "  30.00 ns    wait     semaphore s, for activate  test.s:11\n"
             "  720.0 ns    scalar   activate  test.s:11\n"
             "idle gaps, the largest of each engine\n"
             "  scalar idle 1.16 us from 0 ns, waiting for $s>=1: gpsimd was late (tensor_copy at "
             "test.s:8)\n"
             "  gpsimd idle 750.0 ns from 1.13 us, after its last instruction\n"
             "  gpsimd idle 30.00 ns from 551.7 ns, its own doing: control instructions, hazards, "
             "tables\n"
             "  gpsimd idle 780.0 ns in 2 gaps: 750.0 ns after its last instruction, 30.00 ns its "
             "own doing\n");
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
}

static void nothing_to_explain(void **state) {
  (void)state;
  soma_recorder *r;
  text got = {0};
  bed b = recorded("target trn2\nsection sync\n halt\n", &r);
  assert_int_equal(soma_write_explanation(b.r, r, add_text, &got), SOMA_OK);
  assert_string_equal(got.s, "critical path: nothing took time\n");
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
}

/* Tenths of a percent in the shares of a text. */
static unsigned sum_of_shares(const char *s) {
  unsigned sum = 0, whole, tenth;
  s = strstr(s, "shares of the critical path\n");
  for (s = strchr(s, '\n') + 1; sscanf(s, " %u.%u%%", &whole, &tenth) == 2; s = strchr(s, '\n') + 1)
    sum += 10 * whole + tenth;
  return sum;
}

static void explanation_of_a_loop(void **state) {
  (void)state;
  soma_recorder *r;
  text got = {0};
  bed b = recorded(loop, &r);
  assert_int_equal(soma_write_explanation(b.r, r, add_text, &got), SOMA_OK);
  assert_int_equal(sum_of_shares(got.s), 1000);
  assert_non_null(strstr(got.s, "\n  x 3 "));
  assert_non_null(strstr(got.s, "waiting for $stored>=r2 (4)"));
  assert_non_null(strstr(got.s, ": queue qo was late (dma_copy at test.s:27)\n"));
  got.n = 0;
  assert_int_equal(soma_write_explanation(b.r, NULL, add_text, &got), SOMA_OK);
  assert_null(strstr(got.s, "idle gaps"));
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
  b = bed_open(NULL, loop);
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_write_explanation(b.r, NULL, add_text, &got), SOMA_ARG);
  bed_close(&b);
}

/* Ten thousand dependent instructions are one line; a path that does not repeat is cut. */
static void long_paths_stay_short(void **state) {
  (void)state;
  static char source[20000];
  text got = {0};
  soma_recorder *r;
  bed b = recorded("target trn2\nx tile sbuf float32[128, 1]\nsection vector\n"
                   ".l: tensor_copy x, x\n add r0, r0, 1\n blt r0, 10000, .l\n halt\n",
                   &r);
  assert_int_equal(soma_write_explanation(b.r, NULL, add_text, &got), SOMA_OK);
  assert_non_null(strstr(got.s, "  x 10000 ") ? strstr(got.s, "x 10000") : strstr(got.s, "x 9999"));
  assert_true(got.n < 1500);
  soma_recorder_free(r);
  bed_close(&b);
  size_t at = (size_t)snprintf(source, sizeof source,
                               "target trn2\nx tile sbuf float32[128, 1]\nsection vector\n");
  for (unsigned i = 0; i < 200; i++) /* each of a line of its own: nothing repeats */
    at += (size_t)snprintf(source + at, sizeof source - at, " tensor_copy x, x\n");
  snprintf(source + at, sizeof source - at, " halt\n");
  got.n = 0;
  b = recorded(source, &r);
  assert_int_equal(soma_write_explanation(b.r, NULL, add_text, &got), SOMA_OK);
  assert_non_null(strstr(got.s, "\n  ... 319 more\n"));
  assert_int_equal(sum_of_shares(got.s), 1000);
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
}

typedef struct purse { /* allocations that may still succeed */
  int left;
} purse;
static void *spend(void *ud, void *p, size_t old, size_t n) {
  purse *u = ud;
  (void)old;
  if (n == 0) {
    free(p);
    return NULL;
  }
  return u->left-- > 0 ? realloc(p, n) : NULL;
}

static void running_out_of_memory_is_a_status(void **state) {
  (void)state;
  purse u = {1000000};
  soma_options o = SOMA_OPTIONS_INIT;
  soma_recorder_options ro = SOMA_RECORDER_OPTIONS_INIT;
  soma_recorder *r;
  soma_status s = SOMA_NOMEM;
  ro.alloc = o.alloc = spend;
  ro.alloc_ud = o.alloc_ud = &u;
  assert_int_equal(soma_recorder_new(&ro, &r), SOMA_OK);
  o.event = soma_recorder_event;
  o.event_ud = r;
  o.causes = 1;
  bed b = bed_open(&o, loop);
  bed_run(&b, SOMA_OK);
  for (int left = 0; s != SOMA_OK; left++) {
    text got = {0};
    u.left = left;
    s = soma_write_explanation(b.r, r, add_text, &got);
    assert_true(s == SOMA_OK || s == SOMA_NOMEM);
    assert_true(left < 1000);
    free(got.s);
  }
  u.left = 1000000;
  soma_recorder_free(r);
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flops_by_type),          cmocka_unit_test(transposes_are_no_model_flops),
      cmocka_unit_test(memory_figures),         cmocka_unit_test(streaming_counts_partitions),
      cmocka_unit_test(gaps_name_who_was_late), cmocka_unit_test(busy_and_idle_are_all),
      cmocka_unit_test(gaps_of_a_part),         cmocka_unit_test(explanation_of_a_chain),
      cmocka_unit_test(nothing_to_explain),     cmocka_unit_test(explanation_of_a_loop),
      cmocka_unit_test(long_paths_stay_short),  cmocka_unit_test(running_out_of_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
