/* The clock: overriding its constants, and the critical path. */
#include "timing_bed.h"

/* ---- Constants ---------------------------------------------------------------------------- */

static void costs_are_set(void **state) {
  (void)state;
  static const char text[] = "# all generations\nOVH_VECTOR 7\n\n  LAT_VECTOR gen3 100 ; one\n"
                             "LAT_VECTOR trn1 200\n";
  spans s;
  soma_options o = SOMA_OPTIONS_INIT;
  o.costs = text;
  bed b = run(&s, &o,
              "target trn2\n" TILES "p tile psum float32[128, 512]\nsection vector\n"
              " tensor_tensor x, z, p, op=add\n tensor_tensor y, z, p, op=add\n halt\n");
  near(start_of(&s, SOMA_VECTOR, 1), (512 + 7) / 0.96, "interval");
  near(end_of(&s, SOMA_VECTOR, 0), (512 + 100) / 0.96, "duration");
  char *one, *two;
  size_t n, m;
  assert_int_equal(soma_costs_print(b.m, NULL, &one, &n), SOMA_OK);
  assert_non_null(strstr(one, "OVH_VECTOR            7  # CYC  SET"));
  assert_non_null(strstr(one, "LAT_VECTOR          100  # CYC  SET"));
  assert_non_null(strstr(one, "MIN_MATMUL           64  # CYC  DOC  a matmul streams"));
  assert_int_equal(soma_costs_set(b.m, one, n), SOMA_OK); /* what it prints it takes */
  assert_int_equal(soma_costs_print(b.m, "trn2", &two, &m), SOMA_OK);
  assert_string_equal(one, two);
  soma_bytes_free(two);
  assert_int_equal(soma_costs_print(b.m, "trn9", &two, &m), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "unknown target 'trn9'; there are: trn1, inf2, trn2, trn3");
  soma_bytes_free(one);
  bed_close(&b);
}

static void costs_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *text, *want;
  } cases[] = {
      {"OVH_VECTR 7", "costs, line 1: there is no constant OVH_VECTR"},
      {"\nOVH_VECTOR", "costs, line 2: OVH_VECTOR with 0 words after it: expected `NAME value` or "
                       "`NAME gen value`"},
      {"OVH_VECTOR gen3 1 2", "costs, line 1: OVH_VECTOR with 3 words after it: expected `NAME "
                              "value` or `NAME gen value`"},
      {"OVH_VECTOR gen5 1",
       "costs, line 1: gen5 is not a generation: gen2, gen3, gen4 or a target"},
      {"OVH_VECTOR -1",
       "costs, line 1: OVH_VECTOR is -1, not a whole number from 0 to 1000000 (unit CYC)"},
      {"DEPTH 0", "costs, line 1: DEPTH is 0, not a whole number from 1 to 65535 (unit N)"},
      {"DMA_HBM 99999999999999999999999", "costs, line 1: DMA_HBM is 99999999999999999999999, not "
                                          "a whole number from 1000 to 100000000 (unit MBNS)"},
  };
  bed b = bed_open(NULL, "section sync\n halt\n");
  char *before, *after;
  size_t n;
  assert_int_equal(soma_costs_print(b.m, NULL, &before, &n), SOMA_OK);
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[100];
    soma_machine *m;
    soma_options o = SOMA_OPTIONS_INIT;
    o.costs = cases[i].text;
    assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
    snprintf(text, sizeof text, "%s", cases[i].text);
    assert_int_equal(soma_costs_set(b.m, text, strlen(text)), SOMA_ARG);
    assert_string_equal(soma_error(b.m), cases[i].want);
  }
  assert_int_equal(soma_costs_set(b.m, "OVH_VECTOR 1\nDEPTH 0\n", 21), SOMA_ARG);
  assert_int_equal(soma_costs_print(b.m, NULL, &after, &n), SOMA_OK);
  assert_string_equal(before, after);
  soma_bytes_free(before);
  soma_bytes_free(after);
  bed_close(&b);
}

/* ---- Critical path ------------------------------------------------------------------------ */

static void critical_path(void **state) {
  (void)state;
  static float a[512 * 256];
  soma_path_segment v[200];
  uint32_t n;
  char text[2500];
  soma_options o = SOMA_OPTIONS_INIT;
  o.causes = 1;
  snprintf(text, sizeof text, "target trn2\n%s", pipeline);
  bed b = bed_open(&o, text);
  bed_bind(&b, "a", SOMA_FLOAT32, 512, 256, a);
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_critical_path(b.r, v, 200, &n), SOMA_OK);
  assert_true(n > 5 && n <= 200);
  assert_true(v[0].start == 0);
  soma_time time = 0;
  unsigned kinds[5] = {0};
  for (uint32_t i = 0; i < n; i++) {
    assert_true(v[i].start == time && v[i].end > v[i].start);
    time = v[i].end;
    kinds[v[i].kind]++;
    assert_non_null(v[i].cause);
    if (v[i].kind == SOMA_PATH_DATA) assert_true(v[i].engine == SOMA_VECTOR);
  }
  /* the last store ends the run: its share of a ring, then the semaphore nobody waits for */
  assert_int_equal(v[n - 1].kind, SOMA_PATH_TRANSFER);
  assert_string_equal(v[n - 1].name, "dma_copy");
  assert_string_equal(v[n - 1].cause, "DMA trigger");
  assert_true(time <= bed_stats(&b).time && ns(bed_stats(&b).time - time) < 331);
  assert_true(kinds[SOMA_PATH_DATA] && kinds[SOMA_PATH_SEQUENCER] && kinds[SOMA_PATH_TRANSFER] &&
              kinds[SOMA_PATH_DELAY]);
  bed_close(&b);
}

/* A chain whose path can be written down: a memset, what reads it, and the engine it signals. */
/* What comes before a table load is not the load's: the wait that its sequencer had at another
 * instruction, and the chain after that. */
static void path_before_table(void **state) {
  (void)state;
  double sum[SOMA_ENGINES] = {0}, table = 0;
  soma_path_segment v[20];
  uint32_t n;
  soma_options o = SOMA_OPTIONS_INIT;
  o.causes = 1;
  bed b = bed_open(&o, "target trn2\n" TILES "s sem\nsection vector\n memset x, 1.0\n"
                       "%rep 5\n tensor_scalar x, x, op0=mult, imm0=2.0\n%endrep\n"
                       " tensor_scalar x, x, op0=mult, imm0=2.0 $s++\n halt\n"
                       "section scalar\n nop $s>=1\n activate y, x, fn=exp\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_critical_path(b.r, v, 20, &n), SOMA_OK);
  assert_true(n <= 20);
  for (uint32_t i = 0; i < n; i++) {
    double span = ns(v[i].end - v[i].start);
    if (v[i].kind == SOMA_PATH_DATA) sum[v[i].engine] += span;
    if (strcmp(v[i].cause, "activation table loading") == 0 && v[i].kind == SOMA_PATH_DELAY) {
      assert_string_equal(v[i].name, "activate");
      table += span;
    }
  }
  near(table, 1283, "table");
  near(sum[SOMA_VECTOR], (128 + 144) / 0.96 + 6 * (256 + 144) / 0.96, "vector");
  near(sum[SOMA_SCALAR], (512 + 352) / 1.2, "scalar");
  bed_close(&b);
}

static void known_path(void **state) {
  (void)state;
  static const struct {
    soma_path_kind kind;
    soma_engine engine;
    const char *cause;
    double ns;
  } want[] = {
      {SOMA_PATH_DATA, SOMA_GPSIMD, "start of the run", (512 + 150) / 1.2},
      {SOMA_PATH_DELAY, SOMA_GPSIMD, "same bytes in flight", 30},
      {SOMA_PATH_DATA, SOMA_GPSIMD, "same bytes in flight", (512 + 150) / 1.2},
      {SOMA_PATH_DELAY, SOMA_SCALAR, "semaphore", 30},
      {SOMA_PATH_DATA, SOMA_SCALAR, "semaphore", (512 + 352) / 1.2},
  };
  soma_path_segment v[10];
  uint32_t n;
  soma_options o = SOMA_OPTIONS_INIT;
  o.causes = 1;
  bed b = bed_open(&o, "target trn2\n" TILES "s sem\nsection gpsimd\n memset x, 1.0\n"
                       " tensor_copy y, x $s++\n halt\n"
                       "section scalar\n activate z, y, fn=copy $s>=1\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_critical_path(b.r, v, 10, &n), SOMA_OK);
  assert_int_equal(n, sizeof want / sizeof want[0]);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(v[i].kind, want[i].kind);
    assert_int_equal(v[i].engine, want[i].engine);
    assert_string_equal(v[i].cause, want[i].cause);
    near(ns(v[i].end - v[i].start), want[i].ns, want[i].cause);
  }
  assert_int_equal(v[4].line, 11);
  assert_string_equal(v[4].name, "activate");
  bed_close(&b);
  b = bed_open(NULL, "section sync\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_critical_path(b.r, v, 10, &n), SOMA_ARG);
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(costs_are_set), cmocka_unit_test(costs_are_checked),
      cmocka_unit_test(critical_path), cmocka_unit_test(path_before_table),
      cmocka_unit_test(known_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
