/* What an embedder may do wrong: calls from a run's own callbacks, handles and names that are NULL,
 * and a run that had ended when it was saved. */
#include "vm_bed.h"

#include <stdbool.h>
#include <time.h>

static const char store[] = "        target trn2\n"
                            "c       tensor float32[128, 4], output\n"
                            "t       tile   sbuf float32[128, 4]\n"
                            "l       sem\n"
                            "q       queue  dge=hwdge\n"
                            "section vector\n"
                            "        memset t, 1.0 $l++\n"
                            "        halt\n"
                            "section sync\n"
                            "        dma_copy c, t, queue=q $l>=1\n"
                            "        halt\n";

typedef struct caller {
  bed *b;
  unsigned events, busy;
  uint32_t value;
} caller;

static void expect_busy(caller *c, soma_status s) {
  assert_int_equal(s, SOMA_BUSY);
  c->busy++;
}

/* Calls everything that would change the run, and reads what may be read. */
static void on_event(void *ud, const soma_event *e) {
  caller *c = ud;
  bed *b = c->b;
  soma_program *p = NULL;
  soma_run *r = NULL;
  void *data;
  size_t n;
  float x = 0;
  (void)e;
  c->events++;
  expect_busy(c, soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0));
  assert_non_null(strstr(soma_error(b->m), "a callback may read the run, not change it"));
  expect_busy(c, soma_run_start(b->m, b->p, &r));
  expect_busy(c, soma_run_save(b->r, &data, &n));
  expect_busy(c, soma_run_resume(b->m, "x", 1, &p, &r));
  expect_busy(c, soma_semaphore_set(b->m, 0, 1));
  expect_busy(c, soma_register_set(b->m, SOMA_SYNC, 0, 1));
  expect_busy(c, soma_memory_write(b->m, SOMA_SBUF, 0, 0, &x, sizeof x));
  soma_run_free(b->r);
  soma_machine_free(b->m);
  assert_int_equal(soma_semaphore_get(b->m, 0, &c->value), SOMA_OK);
  assert_int_equal(soma_memory_read(b->m, SOMA_SBUF, 0, 0, &x, sizeof x), SOMA_OK);
}

/* The trace's hash of the program without callbacks. */
static uint64_t quiet_hash(void) {
  bed b = bed_open(NULL, store);
  soma_stats s;
  bed_run(&b, SOMA_OK);
  soma_run_stats(b.r, &s, sizeof s);
  bed_close(&b);
  return s.trace_hash;
}

static void test_a_callback_cannot_enter_its_run(void **state) {
  (void)state;
  caller c = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = on_event;
  o.event_ud = &c;
  bed b = bed_open(&o, store);
  c.b = &b;
  bed_run(&b, SOMA_OK);
  assert_true(soma_run_ended(b.r));
  assert_true(c.events > 0);
  assert_int_equal(c.busy, 7 * c.events);
  soma_stats s;
  soma_run_stats(b.r, &s, sizeof s);
  assert_true(s.trace_hash == quiet_hash());
  bed_close(&b);
}

static void test_a_run_that_had_ended_has_ended_when_resumed(void **state) {
  (void)state;
  bed b = bed_open(NULL, store), again = {0};
  void *data;
  size_t n;
  float c[128 * 4];
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_run_save(b.r, &data, &n), SOMA_OK);
  assert_int_equal(soma_machine_new(NULL, &again.m), SOMA_OK);
  assert_int_equal(soma_run_resume(again.m, data, n, &again.p, &again.r), SOMA_OK);
  assert_true(soma_run_ended(again.r));
  assert_int_equal(soma_fetch(again.r, "c", c, sizeof c), SOMA_OK);
  assert_true(c[0] == 1.0F && c[511] == 1.0F);
  soma_run *next = NULL; /* the machine is free again */
  assert_int_equal(soma_run_start(again.m, again.p, &next), SOMA_OK);
  soma_run_free(next);
  soma_bytes_free(data);
  bed_close(&again);
  bed_close(&b);
}

static void expect_missing(const bed *b, soma_status s, const char *name) {
  char want[64];
  assert_int_equal(s, SOMA_ARG);
  snprintf(want, sizeof want, "%s is NULL", name);
  assert_string_equal(soma_error(b->m), want);
}

static void test_null_is_refused_by_name(void **state) {
  (void)state;
  bed b = bed_open(NULL, store);
  soma_program *p;
  soma_run *r;
  soma_diagnostics *d;
  int64_t shape[2] = {128, 4};
  char *text;
  size_t n;
  float x[4];
  expect_missing(&b, soma_assemble(b.m, NULL, 0, "x", NULL, &p, &d), "text");
  expect_missing(&b, soma_assemble(b.m, "", 0, "x", NULL, NULL, &d), "p");
  expect_missing(&b, soma_assemble_file(b.m, NULL, NULL, &p, &d), "path");
  expect_missing(&b, soma_program_load(b.m, NULL, 4, &p), "data");
  expect_missing(&b, soma_program_print(b.m, NULL, &text, &n), "p");
  expect_missing(&b, soma_bind(b.m, b.p, NULL, SOMA_FLOAT32, 2, shape, x), "name");
  expect_missing(&b, soma_bind(b.m, b.p, "c", SOMA_FLOAT32, 2, NULL, x), "shape");
  expect_missing(&b, soma_run_start(b.m, NULL, &r), "p");
  expect_missing(&b, soma_run_start(b.m, b.p, NULL), "r");
  expect_missing(&b, soma_custom_set(b.m, NULL, NULL), "name");
  expect_missing(&b, soma_memory_read(b.m, SOMA_SBUF, 0, 0, NULL, 4), "data");
  expect_missing(&b, soma_costs_set(b.m, NULL, 0), "text");
  bed_run(&b, SOMA_OK);
  expect_missing(&b, soma_fetch(b.r, NULL, x, sizeof x), "name");
  expect_missing(&b, soma_fetch(b.r, "c", NULL, sizeof x), "data");
  bed_close(&b);
}

static soma_file file_of(const char *name, const char *text) {
  return (soma_file){.name = name, .data = text, .n = strlen(text)};
}

static void test_sources_are_linked(void **state) {
  (void)state;
  bed b = bed_open(NULL, store);
  const char *defines[] = {"N=20", "NOBODY"};
  soma_assemble_options o = {.size = sizeof o, .defines = defines, .ndefines = 2};
  soma_file files[] = {
      file_of("a.s", "section sync\nextern twice\n mov r1, N\n call r63, twice\n halt\n"),
      file_of("b.s", "section sync\nglobal twice\ntwice: add r1, r1, r1\n ret r63\n")};
  soma_program *p;
  soma_diagnostics *d;
  soma_run *r;
  uint32_t value = 0;
  assert_int_equal(soma_link(b.m, files, 2, &o, &p, &d), SOMA_OK);
  assert_int_equal(soma_diagnostics_count(d), 1); /* of the define that neither reads */
  assert_non_null(strstr(soma_diagnostics_text(d), "nothing reads `NOBODY`"));
  soma_diagnostics_free(d);
  assert_int_equal(soma_run_start(b.m, p, &r), SOMA_OK);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_register_get(b.m, SOMA_SYNC, 1, &value), SOMA_OK);
  assert_int_equal(value, 40);
  soma_run_free(r);
  soma_program_free(p);
  assert_int_equal(soma_link(b.m, files, 1, &o, &p, &d), SOMA_SYNTAX);
  assert_null(p);
  assert_non_null(strstr(soma_diagnostics_text(d), "no object has the label `twice`"));
  assert_int_equal(soma_diagnostics_errors(d), 1);
  soma_diagnostics_free(d);
  assert_int_equal(soma_link(b.m, files, 0, &o, &p, NULL), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "0 files; 1 to 65535 link");
  files[1].data = NULL;
  assert_int_equal(soma_link(b.m, files, 2, NULL, &p, NULL), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "files[1].data is NULL");
  bed_close(&b);
}

static void expect_no_machine(const soma_options *given, const char *want) {
  char why[200] = "none";
  soma_options o = *given;
  soma_machine *m = NULL;
  o.error = why;
  o.error_size = sizeof why;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  assert_null(m);
  assert_string_equal(why, want);
}

static void test_a_machine_that_cannot_be_says_why(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
#define NO_MACHINE(field, value, text) \
  o = (soma_options)SOMA_OPTIONS_INIT; \
  o.field = value;                     \
  expect_no_machine(&o, text)
  NO_MACHINE(target, "trn9", "unknown target 'trn9'; there are: trn1, inf2, trn2, trn3");
  NO_MACHINE(simd, "sse", "unknown simd level 'sse'; there are: plain, avx2, avx512");
  NO_MACHINE(checks, 1u << 30, "checks is 0x40000000; it has bits up to 0x7f");
  NO_MACHINE(max_seconds, -1, "max_seconds is -1; it is 0 or more");
  NO_MACHINE(max_cpu_seconds, -0.5, "max_cpu_seconds is -0.5; it is 0 or more");
  NO_MACHINE(threads, 300, "threads is 300; it is 0 to 256");
  NO_MACHINE(costs, "\nNO_SUCH 4", "costs, line 2: there is no constant NO_SUCH");
#undef NO_MACHINE
  char tiny[4], want[160];
  soma_machine *m;
  o = (soma_options)SOMA_OPTIONS_INIT;
  o.size = sizeof o + 8; /* a caller that was made with a later soma.h */
  snprintf(want, sizeof want,
           "soma_options.size is %zu; version %s of the library takes %zu to %zu bytes", o.size,
           soma_version(), offsetof(soma_options, max_instructions), sizeof o);
  expect_no_machine(&o, want);
  o.size = 0;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  o.size = offsetof(soma_options, error); /* an earlier one, which has no place for the text */
  o.target = "trn9";
  o.error = (char *)1;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  o = (soma_options)SOMA_OPTIONS_INIT;
  o.target = "trn9";
  o.error = tiny;
  o.error_size = sizeof tiny;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  assert_string_equal(tiny, "unk");
  o.target = NULL;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  assert_string_equal(tiny, "");
  soma_machine_free(m);
}

/* Time passes, but this process uses none of it. */
static void sleep_once(void *ud, const soma_event *e) {
  bool *slept = ud;
  (void)e;
  if (!*slept) nanosleep(&(struct timespec){0, 300000000}, NULL);
  *slept = true;
}

static void test_limits_of_host_and_processor_time(void **state) {
  (void)state;
  static const char turns[] = "section vector\n"
                              "        loop r0, 0, 1000\n"
                              "        add r1, r1, 1\n"
                              "        notify 1\n"
                              "        endloop\n"
                              "        halt\n";
  static const char endless[] = "section sync\n.l: jmp .l\n";
  bool slept = false;
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = sleep_once;
  o.event_ud = &slept;
  o.max_cpu_seconds = 0.25;
  bed b = bed_open(&o, turns);
  bed_run(&b, SOMA_OK);
  assert_true(slept);
  bed_close(&b);
  b = bed_open(&o, endless);
  bed_run(&b, SOMA_LIMIT);
  assert_non_null(strstr(soma_error(b.m), "s of processor time are used, the limit is 0.2 s"));
  bed_close(&b);
  slept = false;
  o.max_seconds = o.max_cpu_seconds;
  o.max_cpu_seconds = 0;
  b = bed_open(&o, turns);
  bed_run(&b, SOMA_LIMIT);
  assert_non_null(strstr(soma_error(b.m), "s of host time have passed, the limit is 0.2 s"));
  bed_close(&b);
}

static void test_no_handle_is_refused(void **state) {
  (void)state;
  soma_machine *m;
  soma_program *p;
  soma_run *r;
  uint32_t value;
  float x;
  assert_int_equal(soma_machine_new(NULL, NULL), SOMA_ARG);
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = 1u << 30; /* no check has this bit */
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  o = (soma_options)SOMA_OPTIONS_INIT;
  o.max_seconds = -1;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_ARG);
  assert_int_equal(soma_assemble(NULL, "", 0, "x", NULL, &p, NULL), SOMA_ARG);
  assert_int_equal(soma_run_start(NULL, NULL, &r), SOMA_ARG);
  assert_int_equal(soma_run_until(NULL, SOMA_END, SOMA_SYNC, 0), SOMA_ARG);
  assert_int_equal(soma_fetch(NULL, "c", &x, sizeof x), SOMA_ARG);
  assert_int_equal(soma_semaphore_get(NULL, 0, &value), SOMA_ARG);
  assert_int_equal(soma_semaphore_set(NULL, 0, 1), SOMA_ARG);
  assert_int_equal(soma_register_set(NULL, SOMA_SYNC, 0, 1), SOMA_ARG);
  assert_int_equal(soma_tensor_read(NULL, &x, sizeof x), SOMA_ARG);
  assert_string_equal(soma_error(NULL), "the machine is NULL");
  assert_null(soma_program_target(NULL));
  assert_int_equal(soma_program_tensors(NULL), 0);
  soma_machine_interrupt(NULL);
  soma_tensor_name(NULL, "x");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_callback_cannot_enter_its_run),
      cmocka_unit_test(test_a_run_that_had_ended_has_ended_when_resumed),
      cmocka_unit_test(test_null_is_refused_by_name),
      cmocka_unit_test(test_sources_are_linked),
      cmocka_unit_test(test_a_machine_that_cannot_be_says_why),
      cmocka_unit_test(test_limits_of_host_and_processor_time),
      cmocka_unit_test(test_no_handle_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
