/* Saved runs with checks: resumed, they find what they would have found, in the same words, and the
 * bytes of what they have seen do no harm when they are damaged. */
#include "save_bed.h"

static soma_options with(unsigned checks) {
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = checks;
  return o;
}

/* What has to go over from before a save to what is found after it. */
static const char *const wrong[] = {
    /* a race with an access of before; a wait that passes; a write of a semaphore and its reuse */
    "target trn2\nt tile sbuf float32[128, 512]\nu tile sbuf float32[128, 512]\ns sem\nr sem\n"
    "section vector\n memset t, 2.0 $s++\n memset u[:, 0:512:2], 1.0\n drain\n nop $s++\n"
    " memset t[:, 0:100], 1.0 $r++\n halt\n"
    "section gpsimd\n nop $s==1\n tensor_copy u[:, 1:512:2], t[:, 0:256]\n event_semaphore $r=0\n "
    "halt\n"
    "section scalar\n nop $s>=2\n tensor_copy t[:, 50:60], u[:, 50:60]\n nop $r>=1\n"
    " tensor_copy u[:, 0:4], t[:, 0:4]\n halt\n",
    /* fifteen of sixteen rings, in a loop that folds and forgets */
    "target trn2\na tensor float32[128, 64], input\nc tensor float32[128, 64], output\n"
    "t tile sbuf float32[128, 64]\ns sem\nd sem\nq queue dge=hwdge\nsection sync\n mov r0, 0\n"
    " mov r1, 0\n.l: add r1, r1, 16\n dma_copy t, a, queue=q $s\n nop $d>=r0\n add r0, r0, 1\n"
    " blt r0, 8, .l\n dma_copy c, t, queue=q\n halt\nsection vector\n mov r0, 0\n mov r1, 15\n"
    ".l: nop $s>=r1\n tensor_scalar t, t, op0=add, imm0=1.0 $d++\n add r1, r1, 16\n add r0, r0, 1\n"
    " blt r0, 8, .l\n halt\n",
    /* bytes of all memories that nobody has written, a register, a temporary tensor */
    "target trn2\nb tensor float32[128, 64]\nc tensor float32[128, 64], output\n"
    "t tile sbuf float32[128, 64]\np tile psum float32[128, 64]\ns sem\nq queue dge=hwdge\n"
    "section vector\n memset t[0:64, 0:63], 1.0\n tensor_copy p[:, 0:32], t[:, 0:32] $s++\n"
    " tensor_copy t[:, 32:48], p[:, 32:48]\n drain\n nop $s++\n add r1, r2, 1\n halt\n"
    "section sync\n nop $s>=2\n dma_copy b[0:100, :], t[0:100, :], queue=q $s\n nop $s>=18\n"
    " dma_copy c, b, queue=q\n halt\n",
    /* a group that is read before its end, one that nobody has started; infinities in weights */
    "target trn2\nw tile sbuf bfloat16[128, 128]\nx tile sbuf bfloat16[128, 512]\n"
    "p tile psum float32[128, 512]\no tile sbuf float32[128, 512]\ns sem\nr sem\n"
    "section vector\n memset w, inf\n memset x, 2.0 $s++\n nop $r>=1\n tensor_copy o, p $s++\n"
    " nop $r>=2\n tensor_copy o, p\n tensor_copy o, o\n halt\n"
    "section tensor\n ldweights w $s>=1\n matmul p, x, acc=write $r++\n nop $s>=2\n"
    " matmul p, x, acc=add\n matmul p, x, acc=add $r++\n halt\n",
    /* two engines that trigger one static queue */
    "target trn1\na tensor float32[128, 64], input\nt tile sbuf float32[128, 64]\n"
    "u tile sbuf float32[128, 64]\ns sem\nd sem\nqt queue dge=none\n"
    "dma qt, t, a\ndma qt, u, a\n"
    "section sync\n dma_trigger qt, 1 $s\n nop $s>=16\n halt\n"
    "section scalar\n nop\n nop\n dma_trigger qt, 1 $d\n nop $d>=16\n activate t, u, fn=copy\n "
    "halt\n",
    /* what is in order by a static queue's rings alone, and by a read of the own write alone: no
     * race but that of the triggers, no read but that of a register */
    "target trn1\na tensor float32[128, 64], input\nt tile sbuf float32[128, 64]\n"
    "u tile sbuf float32[128, 64]\nv tile sbuf float32[128, 64]\ns sem\nd sem\nf sem\n"
    "qt queue dge=none\ndma qt, u, a\ndma qt, v, a\n"
    "section vector\n memset t, 1.0 $s++\n halt\nsection sync\n nop $s>=1\n dma_trigger qt, 1 $f\n"
    " halt\nsection scalar\n.l: add r0, r0, 1\n blt r0, 600, .l\n dma_trigger qt, 1 $d\n halt\n"
    "section gpsimd\n nop $d>=16\n memset t, 2.0\n halt\n",
    "target trn2\nt tile sbuf float32[128, 512]\nu tile sbuf float32[128, 512]\ns sem\n"
    "section vector\n memset t, 1.0\n tensor_copy u, t $s++@read\n add r1, r2, 1\n halt\n"
    "section gpsimd\n nop $s>=1\n nop\n memset t, 2.0\n halt\n",
};

static void wrong_programs(void **state) {
  (void)state;
  soma_options o = with(SOMA_CHECK_ALL);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    check_program(&o, wrong[i], count_events(&o, wrong[i]) / full_or(40, 10) + 1);
    bed b = open_program(&o, wrong[i]);
    start(&b);
    if (go_on(&b) != SOMA_CHECK) fail_msg("nothing is found in: %s", wrong[i]);
    bed_close(&b);
  }
}

static void programs_of_every_kind(void **state) {
  (void)state;
  soma_options o = with(SOMA_CHECK_ALL);
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    check_program(&o, programs[i], count_events(&o, programs[i]) / full_or(20, 8) + 1);
}

static void kernels(void **state) {
  (void)state;
  static const char *const files[] = {"samples/matmul.s", "samples/softmax.s",
                                      "samples/vector_add_naive.s",
                                      "tests/conform/kernels/conv2d.s"};
  soma_options o = with(SOMA_CHECK_ALL);
  o.schedule = 5;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    check_program(&o, files[i], count_events(&o, files[i]) / full_or(12, 4) + 1);
}

/* What the judges of all schedules are told goes over; what they have been told is told again when
 * a run is saved at its end. */
static void all_schedules(void **state) {
  (void)state;
  soma_options o = with(0), both = with(1u << SOMA_CHECK_RACE);
  o.schedule = both.schedule = SOMA_SCHEDULE_ALL;
  unsigned refused = 0, taken = 0;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    check_program(&o, wrong[i], count_events(&o, wrong[i]) / full_or(40, 5) + 1);
    check_program(&both, wrong[i], count_events(&both, wrong[i]) / 3 + 1);
    must_do_no_harm(&o, wrong[i], &refused, &taken);
  }
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    check_program(&o, programs[i], count_events(&o, programs[i]) / full_or(20, 4) + 1);
  must_do_no_harm(&o, programs[0], &refused, &taken);
  assert_true(refused > full_or(100, 40) && taken > full_or(100, 40));
  survive_allocations(&o, wrong[0]);
}

/* One check alone has its own state alone. */
static void each_alone(void **state) {
  (void)state;
  for (unsigned check = 0; soma_check_name((soma_check)check); check++) {
    soma_options o = with(1u << check);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
      check_program(&o, wrong[i], count_events(&o, wrong[i]) / 2);
  }
}

/* A run that only takes its time has no values, and so none of their checks. */
static void timing_only(void **state) {
  (void)state;
  soma_options o = with(SOMA_CHECK_ALL);
  o.timing_only = 1;
  check_program(&o, wrong[0], count_events(&o, wrong[0]) / 5);
  o.checks = 1u << SOMA_CHECK_UNINIT;
  check_program(&o, wrong[2], count_events(&o, wrong[2]) / 5);
}

/* Checks go with the run; a machine that asks for others gets an error. */
static void they_are_the_runs(void **state) {
  (void)state;
  soma_program *p;
  soma_run *r;
  soma_options race = with(1u << SOMA_CHECK_RACE | 1u << SOMA_CHECK_PSUM);
  bed whole = open_program(&race, wrong[0]);
  start(&whole);
  assert_int_equal(go_on(&whole), SOMA_CHECK);
  saved s = midway(&race, wrong[0]), none = midway(NULL, wrong[0]);
  bed b = resume(NULL, s);
  assert_int_equal(go_on(&b), SOMA_CHECK);
  same_end(&whole, &b);
  bed_close(&b);
  soma_options all = with(SOMA_CHECK_ALL);
  assert_int_equal(soma_machine_new(&all, &b.m), SOMA_OK);
  assert_int_equal(soma_run_resume(b.m, s.data, s.n, &p, &r), SOMA_ARG);
  assert_string_equal(soma_error(b.m),
                      "checks are chosen when a run starts: this one was saved with race,psum");
  assert_int_equal(soma_run_resume(b.m, none.data, none.n, &p, &r), SOMA_ARG);
  assert_string_equal(soma_error(b.m),
                      "checks are chosen when a run starts: this one was saved with none");
  assert_null(p);
  assert_null(r);
  soma_machine_free(b.m);
  soma_bytes_free(s.data);
  soma_bytes_free(none.data);
  bed_close(&whole);
}

static void contents_are_checked(void **state) {
  (void)state;
  unsigned refused = 0, taken = 0;
  soma_options all = with(SOMA_CHECK_ALL), race = with(1u << SOMA_CHECK_RACE);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    must_do_no_harm(&all, wrong[i], &refused, &taken);
    must_do_no_harm(&race, wrong[i], &refused, &taken);
  }
  assert_true(refused > full_or(100, 40) && taken > full_or(100, 40));
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  soma_options o = with(SOMA_CHECK_ALL);
  survive_allocations(&o, wrong[0]);
  survive_allocations(&o, wrong[2]);
}

static void writes_far_into_a_partition(void **state) {
  (void)state;
  soma_options o = with(SOMA_CHECK_ALL);
  for (size_t i = 0; i < sizeof far_writes / sizeof far_writes[0]; i++)
    check_program(&o, far_writes[i], count_events(&o, far_writes[i]) / 4 + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_programs),
      cmocka_unit_test(programs_of_every_kind),
      cmocka_unit_test(writes_far_into_a_partition),
      cmocka_unit_test(kernels),
      cmocka_unit_test(all_schedules),
      cmocka_unit_test(each_alone),
      cmocka_unit_test(timing_only),
      cmocka_unit_test(they_are_the_runs),
      cmocka_unit_test(contents_are_checked),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
