/* Saved runs: one that is saved after any event and resumed in another machine ends as the one that
 * was never interrupted, bit by bit; what is not a saved run is refused. */
#include "../../isa/isa.h"
#include "save_bed.h"

static void kernels(void **state) {
  (void)state;
  static const char *const files[] = {"samples/matmul.s",
                                      "samples/softmax.s",
                                      "samples/vector_add.s",
                                      "samples/vector_add_naive.s",
                                      "samples/vector_add_tiled.s",
                                      "tests/conform/kernels/avgpool.s",
                                      "tests/conform/kernels/conv2d.s",
                                      "tests/conform/kernels/cumsum.s",
                                      "tests/conform/kernels/mlp.s",
                                      "tests/conform/kernels/layernorm.s",
                                      "tests/conform/kernels/rope.s",
                                      "tests/conform/kernels/rmsnorm.s",
                                      "tests/conform/kernels/topk.s",
                                      "tests/conform/kernels/transpose.s"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    uint32_t n = count_events(NULL, files[i]);
    check_program(NULL, files[i], n / full_or(10, 4) + 1);
  }
}

static void programs_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    check_program(NULL, programs[i], count_events(NULL, programs[i]) / full_or(60, 15) + 1);
}

/* ---- Options, limits, device tensors --------------------------------------------------------- */

/* The options that a run was started with go with it, whatever the other machine's are. */
static void options_go_with_the_run(void **state) {
  (void)state;
  static const char text[] =
      "target trn2\nt tile sbuf float32[4, 8]\nu tile sbuf bfloat16[4, 8]\nf tile sbuf "
      "float8_e4m3fn[4, 8]\nsection vector\n memset t, 1.003\n"
      " tensor_copy u, t, round=stochastic\n memset t, 60000.0\n tensor_copy f, t\n"
      " memset t, 1.003\n tensor_copy u, t, round=stochastic\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  o.rounding_seed = 99;
  o.saturate = 1;
  o.costs = "OVH_VECTOR 500";
  o.causes = 1;
  o.schedule = 3;
  bed whole = bed_open(&o, text), b = bed_open(&o, text);
  bed_run(&whole, SOMA_OK);
  bed_start(&b);
  for (int i = 0; i < 3; i++)
    assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_VECTOR, 0), SOMA_OK);
  saved s = save(&b);
  bed_close(&b);
  b = resume(NULL, s);
  soma_bytes_free(s.data);
  assert_int_equal(go_on(&b), SOMA_OK);
  same_end(&whole, &b);
  soma_path_segment x[64], y[64];
  uint32_t n, m;
  assert_int_equal(soma_critical_path(whole.r, x, 64, &n), SOMA_OK);
  assert_int_equal(soma_critical_path(b.r, y, 64, &m), SOMA_OK);
  assert_true(n > 2 && n <= 64);
  assert_int_equal(n, m);
  for (uint32_t i = 0; i < n; i++) {
    assert_true(x[i].start == y[i].start && x[i].end == y[i].end && x[i].pc == y[i].pc);
    assert_string_equal(x[i].cause, y[i].cause);
  }
  bed_close(&b);
  bed_close(&whole);
}

/* A run that a limit has stopped continues where the limit is another one. */
static void limits_are_lifted(void **state) {
  (void)state;
  soma_options instructions = SOMA_OPTIONS_INIT, time = SOMA_OPTIONS_INIT;
  instructions.max_instructions = 7;
  time.max_time = 1500 * UINT64_C(1000000);
  const soma_options *stops[] = {&instructions, &time};
  for (int i = 0; i < 2; i++) {
    bed whole = open_program(NULL, GATHER), b = open_program(stops[i], GATHER);
    start(&whole);
    assert_int_equal(go_on(&whole), SOMA_OK);
    start(&b);
    if (i == 0) assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_GPSIMD, 0), SOMA_OK);
    soma_status stop = go_on(&b);
    if (i == 1) assert_int_equal(stop, SOMA_LIMIT);
    saved s = save(&b);
    bed_close(&b);
    b = resume(NULL, s);
    soma_bytes_free(s.data);
    assert_int_equal(go_on(&b), SOMA_OK);
    same_end(&whole, &b);
    bed_close(&b);
    bed_close(&whole);
  }
}

/* The limit meets a trigger that has started some of its transfers. */
static void limit_inside_a_trigger(void **state) {
  (void)state;
  static const char text[] = "target trn2\na tensor float32[128, 8]\nb tensor float32[128, 8]\n"
                             "s sem\nq queue dge=none\ndma q, b, a\nsection vector\n nop\n"
                             " dma_trigger q, 90 $s\n nop $s>=1440\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  for (o.max_instructions = 2; o.max_instructions < 92; o.max_instructions += 13) {
    bed whole = bed_open(NULL, text), b = bed_open(&o, text);
    bed_run(&whole, SOMA_OK);
    assert_int_equal(bed_stats(&whole).instructions, 4);
    bed_run(&b, SOMA_LIMIT);
    assert_int_equal(bed_stats(&b).dma_transfers, o.max_instructions);
    saved s = save(&b);
    bed_close(&b);
    b = resume(NULL, s);
    soma_bytes_free(s.data);
    assert_int_equal(go_on(&b), SOMA_OK);
    assert_int_equal(bed_stats(&b).dma_transfers, 90);
    same_end(&whole, &b);
    bed_close(&b);
    bed_close(&whole);
  }
  o.max_instructions = 93; /* four instructions, 89 transfers after the first */
  bed b = bed_open(&o, text);
  bed_run(&b, SOMA_OK);
  bed_close(&b);
}

static void instruction_limit(void **state) {
  (void)state;
  static const char text[] = "target trn2\nsection sync\n.l: add r0, r0, 1\n blt r0, 1000, .l\n"
                             " halt\nsection scalar\n.l: add r0, r0, 3\n blt r0, 900, .l\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  bed whole = bed_open(NULL, text);
  bed_run(&whole, SOMA_OK);
  o.max_instructions = 333;
  bed b = bed_open(&o, text);
  bed_run(&b, SOMA_LIMIT);
  saved s = save(&b);
  bed_close(&b);
  b = resume(NULL, s);
  soma_bytes_free(s.data);
  assert_true(bed_stats(&b).instructions >= 333);
  assert_int_equal(go_on(&b), SOMA_OK);
  assert_int_equal(bed_reg(&b, SOMA_SYNC, 0), 1000);
  same_end(&whole, &b);
  bed_close(&b);
  bed_close(&whole);
}

static void device_tensors_become_the_runs(void **state) {
  (void)state;
  static const char text[] = "target trn2\na tensor float32[4, 8], input\n"
                             "t tile sbuf float32[4, 8]\nc tensor float32[4, 8], output\ns sem\n"
                             "q queue dge=hwdge\nsection sync\n dma_copy t, a, queue=q $s\n"
                             " nop $s>=16\n dma_copy c, t, queue=q $s\n nop $s>=32\n halt\n";
  float a[32], c[32];
  int64_t shape[2] = {4, 8};
  soma_tensor *t;
  bed b = bed_open(NULL, text);
  for (int i = 0; i < 32; i++) a[i] = (float)i;
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 2, shape, &t), SOMA_OK);
  assert_int_equal(soma_tensor_write(t, a, sizeof a), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", t), SOMA_OK);
  bed_start(&b);
  saved s = save(&b);
  soma_tensor_free(t);
  bed_close(&b);
  b = resume(NULL, s);
  soma_bytes_free(s.data);
  assert_int_equal(go_on(&b), SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
  assert_memory_equal(a, c, sizeof a);
  bed_close(&b);
}

/* ---- What cannot be saved -------------------------------------------------------------------- */

static void two_names_are_not_saved(void **state) {
  (void)state;
  int64_t shape[1] = {8};
  soma_tensor *t;
  saved s;
  bed b = bed_open(NULL, "target trn2\na tensor float32[8], input\nb tensor float32[8], input\n"
                         "section sync\n halt\n");
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 1, shape, &t), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "a", t), SOMA_OK);
  assert_int_equal(soma_bind_tensor(b.m, b.p, "b", t), SOMA_OK);
  bed_start(&b);
  assert_int_equal(soma_run_save(b.r, &s.data, &s.n), SOMA_ARG);
  assert_null(s.data);
  assert_non_null(strstr(soma_error(b.m), "bound to two of its tensors, `a` and `b`"));
  soma_tensor_free(t);
  bed_close(&b);
}

static void faults_are_not_saved(void **state) {
  (void)state;
  saved s;
  bed b = bed_open(NULL, "target trn2\nsection sync\n div r0, r1, 0\n halt\n");
  bed_run(&b, SOMA_FAULT);
  assert_int_equal(soma_run_save(b.r, &s.data, &s.n), SOMA_ARG);
  assert_null(s.data);
  assert_non_null(strstr(soma_error(b.m), "ended with a fault cannot be saved"));
  bed_close(&b);
  b = bed_open(NULL, "target trn2\ns sem\nsection sync\n nop $s>=1\n halt\n");
  bed_run(&b, SOMA_DEADLOCK);
  assert_int_equal(soma_run_save(b.r, &s.data, &s.n), SOMA_ARG);
  assert_non_null(strstr(soma_error(b.m), "no engine can move"));
  soma_machine_free(b.m);
  b.m = NULL;
  assert_int_equal(soma_run_save(b.r, &s.data, &s.n), SOMA_ARG); /* its SBUF is gone */
  bed_close(&b);
}

struct inside {
  soma_run *r;
  soma_status status;
};
static void save_inside(void *ud, const soma_event *e) {
  struct inside *in = ud;
  saved s;
  (void)e;
  in->status = soma_run_save(in->r, &s.data, &s.n);
}

static void not_from_a_callback(void **state) {
  (void)state;
  struct inside in = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = save_inside;
  o.event_ud = &in;
  bed b = bed_open(&o, "target trn2\ns sem\nsection sync\n nop $s++\n halt\n");
  bed_start(&b);
  in.r = b.r;
  assert_int_equal(go_on(&b), SOMA_OK);
  assert_int_equal(in.status, SOMA_BUSY);
  bed_close(&b);
}

/* ---- What is not a saved run ----------------------------------------------------------------- */

static void header_is_checked(void **state) {
  (void)state;
  soma_machine *m = small_machine();
  saved s = midway(NULL, GATHER);
  uint8_t *p = s.data;
  assert_int_equal(try(m, p, s.n), SOMA_OK);
  assert_int_equal(try(m, p, 0), SOMA_FORMAT);
  assert_string_equal(soma_error(m), "this is not a saved run");
  for (size_t n = 0; n < s.n; n += n < 64 ? 1 : 97) assert_int_equal(try(m, p, n), SOMA_FORMAT);
  assert_non_null(strstr(soma_error(m), "bytes, but was written with"));
  for (size_t i = 0; i < s.n; i += i < 64 ? 1 : 61) {
    p[i] ^= (uint8_t)(1 << i % 8);
    assert_int_equal(try(m, p, s.n), SOMA_FORMAT);
    p[i] ^= (uint8_t)(1 << i % 8);
  }
  memcpy(p + 8, "9.8.7\0\0\0\0", 9);
  assert_int_equal(try(m, p, s.n), SOMA_FORMAT);
  assert_non_null(strstr(soma_error(m), "saved by version 9.8.7, this is version " SOMA_VERSION));
  soma_bytes_free(s.data);
  soma_machine_free(m);
}

static void contents_are_checked(void **state) {
  (void)state;
  unsigned refused = 0, taken = 0;
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    must_do_no_harm(NULL, programs[i], &refused, &taken);
  assert_true(refused > 100 && taken > 100);
}

/* Two updates on their way; in the file each is a time of 8 bytes, then kind, update, semaphore,
 * engine and core, then 12 bytes. With their times exchanged the second comes before the first. */
static void events_come_in_order(void **state) {
  (void)state;
  enum { EVENT = 25, SEM = 10 };
  bed b = bed_open(NULL, "target trn2\na sem\nb sem\nsection sync\n nop $a++\n nop $b++\n"
                         " nop $b>=1\n halt\n");
  bed_start(&b);
  for (int i = 0; i < 2; i++)
    assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_SYNC, 0), SOMA_OK);
  saved s = save(&b);
  uint8_t *p = s.data;
  unsigned found = 0;
  soma_machine *m = small_machine();
  for (size_t i = HEADER; i + 2 * EVENT <= s.n; i++) {
    uint8_t *second = p + i + EVENT;
    uint64_t x = isa_get64(p + i), y = isa_get64(second);
    const uint8_t like[5] = {0, ISA_UPD_inc, (uint8_t)(p[i + SEM] + 1), p[i + SEM + 1], 0};
    if (p[i + 8] || p[i + 9] != ISA_UPD_inc || memcmp(second + 8, like, 5) || x >= y) continue;
    isa_put64(p + i, y);
    isa_put64(second, x);
    repair(p, s.n);
    assert_int_equal(try(m, p, s.n), SOMA_FORMAT);
    assert_non_null(strstr(soma_error(m), "an event comes before the one before it"));
    isa_put64(p + i, x);
    isa_put64(second, y);
    repair(p, s.n);
    assert_int_equal(try(m, p, s.n), SOMA_OK);
    found++;
  }
  assert_int_equal(found, 1);
  soma_machine_free(m);
  soma_bytes_free(s.data);
  bed_close(&b);
}

/* A machine whose resume failed is as before; one with a run that continues takes none. */
static void failure_changes_nothing(void **state) {
  (void)state;
  saved s = midway(NULL, programs[1]);
  bed b = open_program(NULL, GATHER);
  soma_program *p;
  soma_run *r;
  uint8_t byte = 77;
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 5, 9, &byte, 1), SOMA_ARG); /* no target yet */
  start(&b);
  assert_int_equal(soma_run_resume(b.m, s.data, s.n, &p, &r), SOMA_BUSY);
  assert_int_equal(go_on(&b), SOMA_OK);
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 5, 9, &byte, 1), SOMA_OK);
  repair(s.data, s.n - 1);
  assert_int_equal(soma_run_resume(b.m, s.data, s.n - 1, &p, &r), SOMA_FORMAT);
  byte = 0;
  assert_int_equal(soma_memory_read(b.m, SOMA_SBUF, 5, 9, &byte, 1), SOMA_OK);
  assert_int_equal(byte, 77);
  assert_int_equal(soma_fetch(b.r, "c", pattern, 240), SOMA_OK);
  soma_bytes_free(s.data);
  bed_close(&b);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  const char *const texts[] = {programs[0], programs[1], GATHER,
                               programs[sizeof programs / sizeof programs[0] - 1]};
  for (int i = 0; i < 4; i++) survive_allocations(NULL, texts[i]);
}

static void writes_far_into_a_partition(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof far_writes / sizeof far_writes[0]; i++)
    check_program(NULL, far_writes[i], count_events(NULL, far_writes[i]) / 4 + 1);

  static const char text[] = FAR_TILE "section vector\n nop\n nop\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  o.target = "trn2"; /* so that the host can write before there is a run */
  bed whole = open_program(&o, text);
  assert_int_equal(soma_memory_write(whole.m, SOMA_SBUF, 99, 190000, "far", 3), SOMA_OK);
  start(&whole);
  saved s = save(&whole);
  bed b = resume(NULL, s);
  soma_bytes_free(s.data);
  assert_int_equal(go_on(&whole), SOMA_OK);
  assert_int_equal(go_on(&b), SOMA_OK);
  same_end(&whole, &b);
  bed_close(&b);
  bed_close(&whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_go_with_the_run),
      cmocka_unit_test(limits_are_lifted),
      cmocka_unit_test(instruction_limit),
      cmocka_unit_test(limit_inside_a_trigger),
      cmocka_unit_test(device_tensors_become_the_runs),
      cmocka_unit_test(two_names_are_not_saved),
      cmocka_unit_test(faults_are_not_saved),
      cmocka_unit_test(not_from_a_callback),
      cmocka_unit_test(header_is_checked),
      cmocka_unit_test(contents_are_checked),
      cmocka_unit_test(events_come_in_order),
      cmocka_unit_test(failure_changes_nothing),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(kernels),
      cmocka_unit_test(programs_of_every_kind),
      cmocka_unit_test(writes_far_into_a_partition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
