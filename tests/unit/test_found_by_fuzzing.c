/* What fuzzing has found in the machine: programs that once made it misbehave. */
#include "vm_bed.h"

/* A matmul overwrites what vector is reading, whose sources are then copied: the checks must not
 * take the copy for a place in PSUM. */
static void checks_of_a_source_that_was_copied(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = SOMA_CHECK_ALL;
  bed b = bed_open(&o, "target trn2\nk tile psum float32[128, 2048], banks=4\n"
                       "s tile sbuf float32[128, 2048]\nw tile sbuf float32[128, 128]\n"
                       "x tile sbuf float32[128, 8]\n"
                       "section vector\n tensor_copy s, k\n halt\n"
                       "section tensor\n ldweights w\n matmul k[:, 0:8], x, acc=write\n halt\n");
  bed_run(&b, SOMA_CHECK);
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checks_of_a_source_that_was_copied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
