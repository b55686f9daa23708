/* The builder on two cores: which kernels make a program together. */
#include "kernel_bed.h"

typedef struct pair {
  soma_machine *m;
  soma_kernel *k[2];
  soma_program *p;
} pair;

static soma_status new_core(pair *b, const char *target, uint32_t core, uint32_t cores,
                            soma_kernel **k) {
  soma_kernel_options o = SOMA_KERNEL_OPTIONS_INIT;
  o.target = target;
  o.core = core;
  o.cores = cores;
  return soma_kernel_new(b->m, &o, k);
}

static void open_pair(pair *b, const char *first, const char *second) {
  soma_options o = SOMA_OPTIONS_INIT;
  memset(b, 0, sizeof *b);
  assert_int_equal(soma_machine_new(&o, &b->m), SOMA_OK);
  assert_int_equal(new_core(b, first, 0, 2, &b->k[0]), SOMA_OK);
  assert_int_equal(new_core(b, second, 1, 2, &b->k[1]), SOMA_OK);
}

static void close_pair(pair *b) {
  soma_program_free(b->p);
  soma_kernel_free(b->k[0]);
  soma_kernel_free(b->k[1]);
  soma_machine_free(b->m);
}

static void refused(soma_kernel *k, soma_status s, const char *part) {
  assert_int_not_equal(s, SOMA_OK);
  if (!strstr(soma_kernel_error(k), part))
    fail_msg("expected \"%s\" in: %s", part, soma_kernel_error(k));
}

static void kernels_that_are_no_pair_are_refused(void **state) {
  pair b;
  soma_kernel *other;
  (void)state;
  open_pair(&b, "trn2", "trn3");
  refused(b.k[0], soma_kernel_finish(b.k[0], &b.p, NULL), "it needs both kernels");
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], NULL, &b.p, NULL), "a kernel for each");
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], b.k[0], &b.p, NULL), "a kernel for each");
  refused(b.k[1], soma_kernel_finish_pair(b.k[1], b.k[0], &b.p, NULL),
          "takes one for core 0 and one for core 1");
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], b.k[1], &b.p, NULL),
          "core 1: core 0 is for trn2, core 1 for trn3");
  assert_int_equal(new_core(&b, "trn2", 0, 1, &other), SOMA_OK);
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], other, &b.p, NULL),
          "takes one for core 0 and one for core 1");
  soma_kernel_free(other);
  assert_int_equal(new_core(&b, "trn2", 1, 1, &other), SOMA_ARG);
  assert_int_equal(new_core(&b, "trn2", 0, 3, &other), SOMA_ARG);
  assert_int_equal(new_core(&b, "trn1", 0, 2, &other), SOMA_ARG);
  assert_non_null(strstr(soma_error(b.m), "two cores as one need gen3; trn1 is gen2"));
  close_pair(&b);
}

static void a_pair_is_finished_once(void **state) {
  pair b;
  soma_program *again = NULL;
  soma_diagnostics *d = NULL;
  (void)state;
  open_pair(&b, "trn2", "trn2");
  assert_int_equal(soma_kernel_finish_pair(b.k[0], b.k[1], &b.p, NULL), SOMA_OK);
  assert_int_equal(soma_program_cores(b.p), 2);
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], b.k[1], &again, &d), "the kernel is finished");
  assert_null(again);
  assert_non_null(strstr(soma_diagnostics_text(d), "the kernel is finished"));
  soma_diagnostics_free(d);
  close_pair(&b);
}

static void an_error_of_core_1_has_its_place(void **state) {
  pair b;
  const char *file = NULL;
  uint32_t number, line = 0;
  soma_kernel_range r = SOMA_KERNEL_RANGE_INIT;
  (void)state;
  open_pair(&b, "trn2", "trn2");
  assert_int_equal(soma_kernel_file(b.k[0], "zero.py", &number), SOMA_OK);
  assert_int_equal(soma_kernel_file(b.k[1], "one.py", &number), SOMA_OK);
  r.file = number;
  r.line = 12;
  assert_int_equal(soma_kernel_loop(b.k[1], &r, &number), SOMA_OK);
  refused(b.k[0], soma_kernel_finish_pair(b.k[0], b.k[1], &b.p, NULL),
          "one.py:12: core 1: a loop is not ended");
  assert_string_equal(soma_kernel_error_place(b.k[0], &file, &line), "core 1: a loop is not ended");
  assert_string_equal(file, "one.py");
  assert_int_equal(line, 12);
  close_pair(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_that_are_no_pair_are_refused),
      cmocka_unit_test(a_pair_is_finished_once),
      cmocka_unit_test(an_error_of_core_1_has_its_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
