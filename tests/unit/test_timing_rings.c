/* The clock: static descriptors, addresses that are looked up, weights, columns. Expected times are
 * worked out from the constants of costs.def, in ns. */
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

/* Gen2 fetches a descriptor of a static ring every 143 ns, and an engine takes one every 86 ns. A
 * load of eight rows has eight, and a ninth for its semaphore, which the load after it in the ring
 * waits for: seventeen to the last data. In another queue the second load waits for the engine to
 * take nine, then for its own eight. Rows of 4 KiB move for longer than their descriptors take. */
static void descriptors_of_a_ring(void **state) {
  (void)state;
  near(two_loads(256, 0), 17 * 143, "one queue");
  near(two_loads(256, 1), 9 * 86 + 8 * 143, "two queues");
  near(two_loads(4096, 0), 2 * (8 * (4096 / 17.0 + 8.8) + 4), "long rows");
}

/* Time of four transfers of 16 MiB from HBM to HBM in one shape. */
static double hbm_to_hbm(const char *target, const char *shape, const char *dge) {
  char text[500];
  spans s;
  soma_time last = 0;
  snprintf(text, sizeof text,
           "target %s\nh tensor uint8%s\ng tensor uint8%s\nq queue rings=16, dge=%s\n"
           "section %s\n%%rep 4\n dma_copy g, h, queue=q\n%%endrep\n halt\n",
           target, shape, shape, dge, strcmp(dge, "swdge") ? "sync" : "gpsimd");
  bed b = run(&s, NULL, text);
  for (unsigned i = 0; i < s.n; i++)
    if (s.v[i].kind == SOMA_EV_DMA && s.v[i].end > last) last = s.v[i].end;
  bed_close(&b);
  return ns(last);
}

/* A stack's reads and writes are one traffic, which never passes its bandwidth; a shape of the same
 * bytes decides nothing. */
static void stack_is_shared(void **state) {
  (void)state;
  static const struct {
    const char *target, *dge;
    double peak; /* bytes per ns of a stack */
  } cases[] = {{"trn1", "swdge", 410}, {"trn2", "hwdge", 716}, {"trn3", "hwdge", 1175}};
  for (unsigned i = 0; i < 3; i++) {
    const char *dge = cases[i].dge, *target = cases[i].target;
    double wide = hbm_to_hbm(target, "[128, 131072]", dge), rate = 2 * 4 * 16777216.0 / wide;
    double two = hbm_to_hbm(target, "[2, 8388608]", dge),
           one = hbm_to_hbm(target, "[1, 16777216]", dge);
    if (rate > cases[i].peak || rate < 0.6 * cases[i].peak)
      fail_msg("%s: %.0f bytes per ns of %.0f", target, rate, cases[i].peak);
    assert_true(fabs(two / one - 1) < 0.01 && fabs(wide / one - 1) < 0.02);
  }
}

/* A DGE makes a descriptor for each contiguous element: many short ones keep it busy for longer
 * than one instruction's least. */
static void generation_by_elements(void **state) {
  (void)state;
  static const struct {
    const char *engine, *dge, *src, *dst;
    double ns; /* of one generation */
  } cases[] = {{"sync", "hwdge", "t[:, 0:4096]", "u", 600},
               {"sync", "hwdge", "t[:, ::2]", "v", 128 * 2048 * 0.92},
               {"gpsimd", "swdge", "t[:, 0:4096]", "u", 485 + 128 * 0.92},
               {"gpsimd", "swdge", "t[:, ::2]", "v", 485 + 128 * 2048 * 0.92}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[500];
    double at[2] = {0};
    unsigned n = 0;
    spans s;
    snprintf(text, sizeof text,
             "target trn2\nt tile sbuf uint8[128, 4096]\nu tensor uint8[128, 4096]\n"
             "v tensor uint8[128, 2048]\nq queue rings=1, dge=%s\nsection %s\n"
             "%%rep 2\n dma_copy %s, %s, queue=q\n notify 1\n%%endrep\n halt\n",
             cases[i].dge, cases[i].engine, cases[i].dst, cases[i].src);
    bed b = run(&s, NULL, text);
    for (unsigned k = 0; k < s.n; k++)
      if (s.v[k].kind == SOMA_EV_NOTIFY) at[n++] = ns(s.v[k].start);
    assert_int_equal(n, 2);
    if (fabs(at[1] - at[0] - cases[i].ns) > 3)
      fail_msg("%s of %s: %.1f ns, expected %.1f", cases[i].dge, cases[i].src, at[1] - at[0],
               cases[i].ns);
    bed_close(&b);
  }
}

/* An element of more than a packet is one descriptor all the same. */
static void long_elements(void **state) {
  (void)state;
  near(two_loads(16384, 0), 2 * (8 * (16384 / 17.0 + 8.8) + 4), "rows of four packets");
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

/* Weights stream at four columns per cycle, fp32 at one, and are there after a latency; their
 * matmul starts earlier, an instruction's 64 + 6 cycles after them. */
static void weights_arrive(void **state) {
  (void)state;
  static const struct {
    const char *target, *type;
    unsigned columns;
    double ghz, cycles;
  } cases[] = {{"trn1", "bfloat16", 1, 2.8, 1 + 187},
               {"trn1", "bfloat16", 96, 2.8, 24 + 187},
               {"trn2", "float32", 64, 2.4, 64 + 330},
               {"trn3", "bfloat16", 128, 2.4, 32 + 330}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char program[400];
    spans s;
    snprintf(program, sizeof program,
             "target %s\nw tile sbuf %s[128, %u]\nx tile sbuf %s[128, 64]\n"
             "y tile psum float32[%u, 64]\nsection tensor\n ldweights w\n"
             " matmul y, x, acc=write\n halt\n",
             cases[i].target, cases[i].type, cases[i].columns, cases[i].type, cases[i].columns);
    bed b = run(&s, NULL, program);
    near(end_of(&s, SOMA_TENSOR, 0) - start_of(&s, SOMA_TENSOR, 0), cases[i].cycles / cases[i].ghz,
         cases[i].target);
    near(start_of(&s, SOMA_TENSOR, 1) - start_of(&s, SOMA_TENSOR, 0), 70 / cases[i].ghz, "matmul");
    bed_close(&b);
  }
}

/* However long weights take, what waits for their matmul finds its result. */
static void weights_before_results(void **state) {
  (void)state;
  float out[64];
  soma_options o = SOMA_OPTIONS_INIT;
  o.costs = "LAT_WEIGHTS 100000\nLAT_TENSOR 0\n";
  bed b = bed_open(&o, "target trn2\nc tensor float32[1, 64], output\n"
                       "w tile sbuf bfloat16[128, 1]\nx tile sbuf bfloat16[128, 64]\n"
                       "y tile psum float32[1, 64]\nz tile sbuf float32[1, 64]\n"
                       "made sem\nsummed sem\ncopied sem\nstored sem\nq queue dge=swdge\n"
                       "section vector\n memset w, 1.0\n memset x, 2.0 $made++\n"
                       " tensor_copy z, y $summed>=1 $copied++\n nop $stored>=16\n halt\n"
                       "section tensor\n ldweights w $made>=1\n"
                       " matmul y, x, acc=write $summed++\n halt\n"
                       "section gpsimd\n dma_copy c, z, queue=q $copied>=1 $stored\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "c", out, sizeof out), SOMA_OK);
  for (unsigned i = 0; i < 64; i++) assert_true(out[i] == 256);
  bed_close(&b);
}

/* Vector reads a [P, 1] operand before it streams: 60 cycles more to its result and to the next
 * instruction. Scalar's latency has it within. */
static void columns(void **state) {
  (void)state;
  static const struct {
    const char *engine, *number, *column;
    soma_engine e;
    double cycles, ghz;
  } cases[] = {{"vector", "tensor_scalar %s, x, op0=mult, imm0=2.0",
                "tensor_scalar %s, x, op0=mult, imm0=c", SOMA_VECTOR, 60, 0.96},
               {"vector", "tensor_tensor_scan %s, x, v, 0.0, op0=mult, op1=add",
                "tensor_tensor_scan %s, x, v, c, op0=mult, op1=add", SOMA_VECTOR, 60, 0.96},
               {"scalar", "activate %s, x, fn=copy, scale=2.0", "activate %s, x, fn=copy, scale=c",
                SOMA_SCALAR, 0, 1.2}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double span[2], interval[2];
    for (unsigned k = 0; k < 2; k++) {
      char program[600], first[100], second[100];
      const char *text = k ? cases[i].column : cases[i].number;
      spans s;
      snprintf(first, sizeof first, text, "y");
      snprintf(second, sizeof second, text, "z");
      snprintf(program, sizeof program,
               "target trn2\nx tile sbuf float32[128, 256]\nv tile sbuf float32[128, 256]\n"
               "y tile sbuf float32[128, 256]\nz tile sbuf float32[128, 256]\n"
               "c tile sbuf float32[128, 1]\nsection %s\n %s\n %s\n halt\n",
               cases[i].engine, first, second);
      bed b = run(&s, NULL, program);
      span[k] = end_of(&s, cases[i].e, 0) - start_of(&s, cases[i].e, 0);
      interval[k] = start_of(&s, cases[i].e, 1) - start_of(&s, cases[i].e, 0);
      bed_close(&b);
    }
    near(span[1] - span[0], cases[i].cycles / cases[i].ghz, "to its result");
    near(interval[1] - interval[0], cases[i].cycles / cases[i].ghz, "to the next");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stack_is_shared),        cmocka_unit_test(generation_by_elements),
      cmocka_unit_test(descriptors_of_a_ring),  cmocka_unit_test(long_elements),
      cmocka_unit_test(found_addresses),        cmocka_unit_test(weights_arrive),
      cmocka_unit_test(weights_before_results), cmocka_unit_test(columns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
