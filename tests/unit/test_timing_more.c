/* The clock: static descriptors, and addresses that are looked up. Expected times are worked out
 * from the constants of costs.def, in ns. */
#include "timing_bed.h"

/* From the first data to the last of two static loads of eight rows of `bytes` on trn1, whose
 * queues have a ring each; the second queue is q again, or r. */
static double two_loads(unsigned bytes, int apart) {
  char text[700];
  spans s;
  soma_time first = UINT64_MAX, last = 0;
  snprintf(text, sizeof text,
           "target trn1\nh tensor uint8[128, %u]\nt tile sbuf uint8[128, %u]\n"
           "u tile sbuf uint8[128, %u]\nq queue rings=1, dge=none\n"
           "r queue rings=1, dge=none\ndma q, t[0:8, :], h[0:8, :]\n"
           "dma %s, u[0:8, :], h[8:16, :]\nsection sync\n%s halt\n",
           bytes, bytes, bytes, apart ? "r" : "q",
           apart ? " dma_trigger q, 1\n dma_trigger r, 1\n" : " dma_trigger q, 2\n");
  bed b = run(&s, NULL, text);
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_DMA && s.v[i].bytes) {
      first = s.v[i].start < first ? s.v[i].start : first;
      last = s.v[i].end > last ? s.v[i].end : last;
    }
  bed_close(&b);
  return ns(last - first);
}

/* Gen2 fetches a descriptor of a static ring every 136 ns, and an engine takes one every 88 ns. A
 * load of eight rows has eight, and a ninth for its semaphore, which the load behind it in the ring
 * waits for: seventeen to the last data. In another queue the second load waits for the engine to
 * take nine, then for its own eight. Rows of 4 KiB move for longer than their descriptors take. */
static void descriptors_of_a_ring(void **state) {
  (void)state;
  near(two_loads(256, 0), 17 * 136, "one queue");
  near(two_loads(256, 1), 9 * 88 + 8 * 136, "two queues");
  near(two_loads(4096, 0), 2 * (8 * (4096 / 18.82 + 8.8) + 4), "long rows");
}

/* An element of more than a packet is one descriptor all the same. */
static void long_elements(void **state) {
  (void)state;
  near(two_loads(16384, 0), 2 * (8 * (16384 / 18.82 + 8.8) + 4), "rows of four packets");
}

/* A copy from an address in SBUF takes 600 cycles at least, from one in a register its stream. */
static void found_addresses(void **state) {
  (void)state;
  static const char *const text =
      "target trn2\nx tile sbuf float32[128, 1024]\ny tile sbuf float32[128, 1024]\n"
      "o tile sbuf int32[1, 1]\nsection gpsimd\n memset o, 0\n nop\n drain\n"
      " tensor_copy y[:, 0:%d], x[:, %s:+%d]\n halt\n";
  static const struct {
    int n;
    const char *from;
    double cycles;
  } cases[] = {{64, "(o)", 600}, {800, "(o)", 800}, {64, "r0", 64}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char program[400];
    spans s;
    snprintf(program, sizeof program, text, cases[i].n, cases[i].from, cases[i].n);
    bed b = run(&s, NULL, program);
    near(end_of(&s, SOMA_GPSIMD, 1) - start_of(&s, SOMA_GPSIMD, 1), (cases[i].cycles + 150) / 1.2,
         cases[i].from);
    bed_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_of_a_ring),
      cmocka_unit_test(long_elements),
      cmocka_unit_test(found_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
