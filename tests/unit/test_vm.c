/* The VM as its users see it: control instructions, semaphores, ordering, DMA, faults, limits. */
#include "countdown.h"
#include "vm_bed.h"

#include <time.h>

#define HEAD "target trn2\n"

/* ---- Control ------------------------------------------------------------------------------ */

static void register_arithmetic(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t want;
  } cases[] = {
      {"mov r1, 7\n add r0, r1, -9", (uint32_t)-2},
      {"mov r1, 0x7fffffff\n add r0, r1, 1", 0x80000000u},
      {"mov r1, 5\n sub r0, r1, 8", (uint32_t)-3},
      {"mov r1, 0x10001\n mul r0, r1, 0x10001", 0x20001},
      {"mov r1, -7\n div r0, r1, 2", (uint32_t)-3},
      {"mov r1, -7\n mod r0, r1, 2", (uint32_t)-1},
      {"mov r1, 0x80000000\n div r0, r1, -1", 0x80000000u},
      {"mov r1, 0x80000000\n mod r0, r1, -1", 0},
      {"mov r1, 0xff00\n and r0, r1, 0x0ff0", 0x0f00},
      {"mov r1, 0xff00\n or r0, r1, 0x00ff", 0xffff},
      {"mov r1, 0xff00\n xor r0, r1, 0x0ff0", 0xf0f0},
      {"not r0, 0x0000ffff", 0xffff0000u},
      {"mov r1, 3\n shl r0, r1, 31", 0x80000000u},
      {"mov r1, 3\n shl r0, r1, 32", 0},
      {"mov r1, 0x80000000\n shr r0, r1, 31", 1},
      {"mov r1, 0x80000000\n shr r0, r1, 40", 0},
      {"mov r1, 0x80000000\n sra r0, r1, 4", 0xf8000000u},
      {"mov r1, 0x80000000\n sra r0, r1, 99", 0xffffffffu},
      {"mov r1, 0x40000000\n sra r0, r1, 99", 0},
      {"mov r1, -1\n min r0, r1, 1", (uint32_t)-1},
      {"mov r1, -1\n max r0, r1, 1", 1},
      {"mov r1, 3\n mov r2, 4\n mul r0, r1, r2", 12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[200];
    snprintf(text, sizeof text, HEAD "section vector\n %s\n halt\n", cases[i].text);
    bed b = bed_open(NULL, text);
    bed_run(&b, SOMA_OK);
    if (bed_reg(&b, SOMA_VECTOR, 0) != cases[i].want)
      fail_msg("%s: %x, not %x", cases[i].text, bed_reg(&b, SOMA_VECTOR, 0), cases[i].want);
    bed_close(&b);
  }
}

static void branches(void **state) {
  (void)state;
  static const struct {
    const char *op;
    int32_t a, b;
    int taken;
  } cases[] = {
      {"beq", 3, 3, 1},   {"beq", 3, 4, 0},   {"bne", 3, 4, 1},   {"bne", 3, 3, 0},
      {"blt", -1, 0, 1},  {"blt", 0, 0, 0},   {"ble", 0, 0, 1},   {"ble", 1, 0, 0},
      {"bgt", 1, 0, 1},   {"bgt", 0, 0, 0},   {"bge", 0, 0, 1},   {"bge", -1, 0, 0},
      {"bltu", 0, -1, 1}, {"bltu", -1, 0, 0}, {"bgeu", -1, 0, 1}, {"bgeu", 0, -1, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[300];
    snprintf(
        text, sizeof text,
        HEAD
        "section sync\n mov r1, %d\n %s r1, %d, yes\n mov r0, 10\n halt\nyes: mov r0, 11\n halt\n",
        cases[i].a, cases[i].op, cases[i].b);
    bed b = bed_open(NULL, text);
    bed_run(&b, SOMA_OK);
    if (bed_reg(&b, SOMA_SYNC, 0) != (uint32_t)(10 + cases[i].taken))
      fail_msg("%s %d, %d", cases[i].op, cases[i].a, cases[i].b);
    bed_close(&b);
  }
}

static void call_and_return(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "section scalar\n call r9, twice\n call r9, twice\n halt\n"
                              "twice: add r0, r0, 2\n ret r9\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_reg(&b, SOMA_SCALAR, 0), 4);
  bed_close(&b);
  b = bed_open(NULL, HEAD "section scalar\n mov r9, 77\n ret r9\n halt\n");
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "ret to pc 77; the section has 3 instructions");
  bed_close(&b);
}

static void division_by_zero(void **state) {
  (void)state;
  static const char *const texts[] = {"div r0, r1, r2", "mod r0, r1, 0", "div r0, r1, r2 $s++"};
  for (size_t i = 0; i < 3; i++) {
    char text[200];
    soma_fault f;
    snprintf(text, sizeof text, HEAD "s sem\nsection gpsimd\n nop\n %s\n halt\n", texts[i]);
    bed b = bed_open(NULL, text);
    bed_run(&b, SOMA_FAULT);
    bed_fault_has(&b, "division by zero");
    soma_run_fault(b.r, &f);
    assert_int_equal(f.engine, SOMA_GPSIMD);
    assert_int_equal(f.pc, 1);
    assert_int_equal(f.line, 5);
    assert_string_equal(f.file, "test.s");
    bed_close(&b);
  }
}

/* ---- Semaphores --------------------------------------------------------------------------- */

static void semaphores_order_engines(void **state) {
  (void)state;
  bed b = bed_open(
      NULL,
      HEAD "s sem\nt sem\n"
           "section sync\n mov r0, 5\n nop $s += 3\n nop $t>=2\n nop $s -= 1\n halt\n"
           "section vector\n nop $s>=3\n nop $t++\n nop $t++\n nop $s<3\n nop $s = 40\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_sem(&b, "s"), 40);
  assert_int_equal(bed_sem(&b, "t"), 2);
  bed_close(&b);
}

/* Two waiters that take what they wait for: only one may get it. */
static void taking_is_atomic(void **state) {
  (void)state;
  bed b =
      bed_open(NULL, HEAD "s sem\n"
                          "section sync\n nop $s += 32\n halt\n"
                          "section vector\n event_semaphore $s>=32 $s -= 32\n mov r0, 1\n halt\n"
                          "section scalar\n event_semaphore $s>=32 $s -= 32\n mov r0, 1\n halt\n");
  bed_run(&b, SOMA_DEADLOCK);
  assert_int_equal(bed_reg(&b, SOMA_VECTOR, 0) + bed_reg(&b, SOMA_SCALAR, 0), 1);
  bed_close(&b);
}

static void semaphore_limits(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "s sem\nsection sync\n nop $s--\n halt\n");
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "semaphore s (number 0) would go from 0 to -1; its values are 0..2147483647");
  bed_close(&b);
  b = bed_open(NULL, HEAD "s sem\nsection sync\n nop $s = 2147483647\n nop $s++\n halt\n");
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "would go from 2147483647 to 2147483648");
  bed_close(&b);
}

static void range_clear(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "a sem 10\nb sem 11\nc sem 12\n"
                              "section sync\n nop $a = 1\n nop $b = 2\n nop $c = 3\n nop $c>=3\n"
                              " sem_range_clear 10, 2\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_sem(&b, "a"), 0);
  assert_int_equal(bed_sem(&b, "b"), 0);
  assert_int_equal(bed_sem(&b, "c"), 3);
  bed_close(&b);
}

static void deadlock_report(void **state) {
  (void)state;
  soma_fault f;
  bed b = bed_open(NULL, HEAD "go sem\nback sem\n"
                              "section sync\n nop $go += 2\n nop $back>=1\n halt\n"
                              "section vector\n nop $go>=3\n nop $back++\n halt\n");
  bed_run(&b, SOMA_DEADLOCK);
  soma_run_fault(b.r, &f);
  assert_string_equal(f.text,
                      "no engine can move and no transfer is in flight\n"
                      "  vector at test.s:9 waits for $go>=3; $go is 2, 1 short\n"
                      "    updates: to 2 at 30 ns by sync (test.s:5)\n"
                      "    nothing that could still run changes it: sync (test.s:5) is past it\n"
                      "  sync at test.s:6 waits for $back>=1; $back is 0, 1 short, never updated\n"
                      "    it could still be changed by vector (test.s:10)");
  bed_close(&b);
}

/* ---- Data path and ordering --------------------------------------------------------------- */

static const char *const add_text = HEAD
    "a tensor float32[4, 8], input\nc tensor float32[4, 8], output\n"
    "ta tile sbuf float32[4, 8]\ntc tile sbuf float32[4, 8]\n"
    "in sem\ndone sem\nout sem\nq queue rings=16, dge=hwdge\n"
    "section sync\n dma_copy ta, a, queue=q $in\n dma_copy c, tc, queue=q $done>=1 $out\n halt\n"
    "section vector\n tensor_tensor tc, ta, ta, op=add $in>=16 $done++\n halt\n";

static void vertical_slice(void **state) {
  (void)state;
  float a[32], c[32];
  for (int i = 0; i < 32; i++) a[i] = (float)i * 0.25f;
  bed b = bed_open(NULL, add_text);
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 8, a);
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
  for (int i = 0; i < 32; i++) assert_true(c[i] == a[i] * 2);
  assert_int_equal(bed_sem(&b, "in"), 16); /* idle rings signal as well */
  assert_int_equal(bed_sem(&b, "out"), 16);
  soma_stats s = bed_stats(&b);
  assert_int_equal(s.dma_bytes, 256);
  assert_int_equal(s.dma_transfers, 2);
  assert_int_equal(s.host_to_device, 128);
  assert_int_equal(s.device_to_host, 128);
  assert_int_equal(s.engine[SOMA_VECTOR].data_instructions, 1);
  bed_close(&b);
}

static float tile_at(bed *b, uint32_t tile, uint32_t partition, uint32_t column) {
  soma_tile_info t;
  float v;
  assert_int_equal(soma_program_tile(b->p, tile, &t), SOMA_OK);
  assert_int_equal(soma_memory_read(b->m, SOMA_SBUF, partition, t.offset + 4 * column, &v, 4),
                   SOMA_OK);
  return v;
}

/* A source that is overwritten between start and done: what was there at the start counts. The
 * activate of 64 columns (347 ns) is done while the copy of 512 (552 ns) is in flight. */
static void reads_at_start(void **state) {
  (void)state;
  bed b =
      bed_open(NULL, HEAD "t tile sbuf float32[128, 512]\nu tile sbuf float32[128, 512]\ns sem\n"
                          "section vector\n memset t, 2.0 $s++\n halt\n"
                          "section gpsimd\n tensor_copy u, t $s>=1\n halt\n"
                          "section scalar\n nop $s>=1\n"
                          " activate t[:, 0:64], t[:, 0:64], fn=copy, scale=3.0\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_true(tile_at(&b, 0, 5, 10) == 6.0f);
  assert_true(tile_at(&b, 1, 5, 10) == 2.0f);
  assert_true(tile_at(&b, 1, 127, 511) == 2.0f);
  bed_close(&b);
}

/* A result is not there before done: a copy of 8 columns (132 ns) that nothing makes wait reads
 * what was there before the memset of 512 (367 ns). */
static void writes_at_done(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "t tile sbuf float32[128, 512]\nu tile sbuf float32[128, 8]\n"
                              "section vector\n memset t, 2.0\n halt\n"
                              "section gpsimd\n tensor_copy u, t[:, 0:8]\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_true(tile_at(&b, 0, 5, 3) == 2.0f);
  assert_true(tile_at(&b, 1, 5, 3) == 0.0f);
  bed_close(&b);
}

/* An engine sees its own results in program order, without a semaphore. */
static void program_order_in_one_engine(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "t tile sbuf float32[128, 64]\nu tile sbuf int32[1, 4]\n"
                              "section vector\n memset t, 1.0\n"
                              " tensor_scalar t, t, op0=add, imm0=2.0\n"
                              " tensor_scalar t, t, op0=mult, imm0=4.0\n"
                              " tensor_load r0, t[7:8, 9:10]\n"
                              " mov r1, 1234\n tensor_store u[0:1, 2:3], r1\n"
                              " tensor_load r2, u[0:1, 2:3]\n halt\n");
  bed_run(&b, SOMA_OK);
  assert_int_equal(bed_reg(&b, SOMA_VECTOR, 0), 0x41400000); /* 12.0 */
  assert_int_equal(bed_reg(&b, SOMA_VECTOR, 2), 1234);
  bed_close(&b);
}

static void register_offsets(void **state) {
  (void)state;
  float a[4 * 6], c[4 * 6];
  for (int i = 0; i < 24; i++) a[i] = (float)i;
  bed b = bed_open(NULL, HEAD "a tensor float32[4, 6], input\nc tensor float32[4, 6], output\n"
                              "t tile sbuf float32[1, 6]\nl sem\ns sem\nq queue dge=hwdge\n"
                              "section sync\n mov r0, 0\n mov r1, 16\n mov r2, 3\n mov r3, 0\n"
                              ".row: dma_copy t, a[r0:+1, :], queue=q $s>=r3 $l\n"
                              " dma_copy c[r2:+1, :], t, queue=q $l>=r1 $s\n"
                              " add r0, r0, 1\n sub r2, r2, 1\n add r1, r1, 16\n add r3, r3, 16\n"
                              " blt r0, 4, .row\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 6, a);
  bed_run(&b, SOMA_OK);
  assert_int_equal(soma_fetch(b.r, "c", c, sizeof c), SOMA_OK);
  for (int i = 0; i < 24; i++) assert_true(c[i] == a[(3 - i / 6) * 6 + i % 6]);
  bed_close(&b);
}

static void offset_out_of_bounds(void **state) {
  (void)state;
  float a[24] = {0};
  bed b = bed_open(NULL,
                   HEAD "a tensor float32[4, 6], input\nt tile sbuf float32[1, 6]\n"
                        "l sem\nq queue dge=hwdge\n"
                        "section sync\n mov r0, 4\n dma_copy t, a[r0:+1, :], queue=q $l\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 6, a);
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "operand src: a[r0:+1] with r0 = 4 is row 4; a has rows 0..3");
  bed_close(&b);
}

/* ---- Faults, limits, stopping -------------------------------------------------------------- */

static const char *const forever = HEAD "section sync\n.l: add r0, r0, 1\n jmp .l\n";

static void limits(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.max_instructions = 1000;
  bed b = bed_open(&o, forever);
  bed_run(&b, SOMA_LIMIT);
  bed_fault_has(&b, "1000 instructions have run, which is the limit");
  assert_int_equal(bed_stats(&b).instructions, 1000);
  bed_close(&b);
  /* Each transfer of a trigger counts: what one line can ask for has an end. */
  b = bed_open(&o, HEAD "a tensor float32[4, 6], input\no tensor float32[4, 6], output\n"
                        "q queue dge=none\ndma q, o, a\nsection sync\n nop\n"
                        " dma_trigger q, 2000000000\n halt\n");
  static const float zero[24];
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 6, zero);
  bed_run(&b, SOMA_LIMIT);
  bed_fault_has(&b, "1000 instructions and transfers of dma_trigger have run, which is the limit");
  assert_int_equal(bed_stats(&b).instructions, 1);
  assert_int_equal(bed_stats(&b).dma_transfers, 1000);
  bed_close(&b);
  o.max_instructions = 0;
  o.max_time = 5000000000; /* 5 us */
  b = bed_open(&o, forever);
  bed_run(&b, SOMA_LIMIT);
  bed_fault_has(&b, "simulated time reached its limit of 5000 ns");
  bed_close(&b);
  o.max_time = 0;
  o.max_seconds = 0.05;
  b = bed_open(&o, forever);
  bed_run(&b, SOMA_LIMIT);
  bed_fault_has(&b, "of host time have passed, the limit is 0.1 s");
  bed_close(&b);
}

static int stop_third_time(void *ud, uint64_t n, soma_time t) {
  (void)n, (void)t;
  return ++*(int *)ud == 3;
}

static void stopped_and_continued(void **state) {
  (void)state;
  int calls = 0;
  soma_options o = SOMA_OPTIONS_INIT;
  o.progress = stop_third_time;
  o.progress_ud = &calls;
  bed b = bed_open(&o, HEAD "section sync\n.l: add r0, r0, 1\n jmp .l\n");
  bed_run(&b, SOMA_STOPPED);
  uint32_t at = bed_reg(&b, SOMA_SYNC, 0);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, bed_stats(&b).time + 10000000000000),
                   SOMA_OK);
  assert_false(soma_run_ended(b.r));
  assert_true(bed_reg(&b, SOMA_SYNC, 0) > at);
  bed_close(&b);
}

static void stepping_gives_the_same_run(void **state) {
  (void)state;
  float a[32] = {1, 2, 3}, whole[32], stepped[32];
  bed b = bed_open(NULL, add_text);
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 8, a);
  bed_run(&b, SOMA_OK);
  uint64_t hash = bed_stats(&b).trace_hash;
  soma_time time = bed_stats(&b).time;
  assert_int_equal(soma_fetch(b.r, "c", whole, sizeof whole), SOMA_OK);
  soma_run_free(b.r);
  bed_bind(&b, "a", SOMA_FLOAT32, 4, 8, a);
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(bed_stats(&b).engine[SOMA_SYNC].instructions, 1);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, time / 2), SOMA_OK);
  assert_false(soma_run_ended(b.r));
  while (!soma_run_ended(b.r))
    assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(bed_stats(&b).trace_hash, hash);
  assert_int_equal(bed_stats(&b).time, time);
  assert_int_equal(soma_fetch(b.r, "c", stepped, sizeof stepped), SOMA_OK);
  assert_memory_equal(whole, stepped, sizeof whole);
  bed_close(&b);
}

static void one_run_at_a_time(void **state) {
  (void)state;
  soma_run *second;
  bed b = bed_open(NULL, forever);
  bed_start(&b);
  assert_int_equal(soma_run_start(b.m, b.p, &second), SOMA_BUSY);
  assert_null(second);
  bed_close(&b);
}

static void binding_is_checked(void **state) {
  (void)state;
  float a[32] = {0};
  int64_t shape[2] = {4, 8}, wrong[2] = {8, 4};
  bed b = bed_open(NULL, add_text);
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "input tensor a is not bound; it takes float32[4, 8]");
  assert_int_equal(soma_bind(b.m, b.p, "x", SOMA_FLOAT32, 2, shape, a), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "the program has no tensor x");
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_INT32, 2, wrong, a), SOMA_ARG);
  assert_string_equal(soma_error(b.m),
                      "tensor a is float32[4, 8], but the data given is int32[8, 4]");
  bed_close(&b);
}

static void ranks_that_do_not_exist_are_refused(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tensor float32[4]\ny tensor float32[4]\nsection sync\n"
                              " collective_permute dsts=[y], srcs=[x], pairs=[[0,1]]\n halt\n");
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_ILLEGAL);
  assert_non_null(strstr(soma_error(b.m), "rank 1 in its pairs, the world has 0..0"));
  bed_close(&b);
}

/* ---- Time --------------------------------------------------------------------------------- */

struct span {
  uint64_t start, end;
  unsigned engine;
};
static void first_insn(void *ud, const soma_event *e) {
  struct span *s = ud;
  if (e->kind == SOMA_EV_INSN && e->engine == s->engine)
    *s = (struct span){e->start, e->end, s->engine};
}

/* Durations published for single instructions, in ns; the clock truncates to femtoseconds. */
static void published_durations(void **state) {
  (void)state;
  static const struct {
    const char *text;
    unsigned engine;
    double want, within;
  } cases[] = {
      {"target trn2\nx tile sbuf bfloat16[4, 4096]\nsection scalar\n activate x, x, fn=exp\n "
       "halt\n",
       SOMA_SCALAR, 3710, 0.01},
      {"target trn2\nx tile sbuf bfloat16[128, 128]\nsection scalar\n activate x, x, fn=exp\n "
       "halt\n",
       SOMA_SCALAR, 400, 0.01},
      {"target trn2\nx tile sbuf float32[128, 512]\ny tile psum float32[128, 512]\n"
       "section vector\n tensor_tensor x, x, y, op=add\n halt\n",
       SOMA_VECTOR, 685, 0.01},
      {"target trn1\nx tile sbuf float32[128, 1]\nsection scalar\n activate x, x, fn=exp\n halt\n",
       SOMA_SCALAR, 159, 0.01},
      {"target trn1\nx tile sbuf float32[128, 8192]\ny tile sbuf float32[128, 8192]\n"
       "section vector\n tensor_tensor x, x, y, op=add\n halt\n",
       SOMA_VECTOR, 14990, 0.01},
      {"target trn1\nw tile sbuf bfloat16[128, 128]\nx tile sbuf bfloat16[128, 128]\n"
       "y tile psum float32[128, 128]\nsection tensor\n ldweights w\n matmul y, x\n halt\n",
       SOMA_TENSOR, 188, 0.01},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct span s = {.engine = cases[i].engine};
    soma_options o = SOMA_OPTIONS_INIT;
    o.event = first_insn;
    o.event_ud = &s;
    bed b = bed_open(&o, cases[i].text);
    bed_run(&b, SOMA_OK);
    double got = (double)(s.end - s.start) * 1e-6, error = got / cases[i].want - 1;
    if (error > cases[i].within || error < -cases[i].within)
      fail_msg("case %zu: %.1f ns, published %.1f", i, got, cases[i].want);
    bed_close(&b);
  }
}

/* A chain of dependent instructions on one engine: each starts 30 ns after the one before. */
static void dependent_chain(void **state) {
  (void)state;
  struct span s = {.engine = SOMA_SCALAR};
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = first_insn;
  o.event_ud = &s;
  bed b = bed_open(
      &o, "target trn1\nx tile sbuf float32[128, 1]\nsection scalar\n"
          " activate x, x, fn=copy\n activate x, x, fn=copy\n activate x, x, fn=copy\n halt\n");
  bed_run(&b, SOMA_OK);
  double third = (double)s.start * 1e-6 / 2; /* two intervals */
  assert_true(third > 187 && third < 191);   /* published: 189 ns */
  bed_close(&b);
}

/* ---- Isolation ---------------------------------------------------------------------------- */

/* Each allocation fails once: an error every time, nothing lost, nothing left. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  float a[32] = {0};
  int64_t shape[2] = {4, 8};
  int ended = 0;
  for (long fail_at = 0; fail_at < 3000 && !ended; fail_at++) {
    struct countdown c = {fail_at, 0};
    soma_options o = SOMA_OPTIONS_INIT;
    soma_machine *m = NULL;
    soma_program *p = NULL;
    soma_run *r = NULL;
    soma_diagnostics *d = NULL;
    o.alloc = counting;
    o.alloc_ud = &c;
    o.target = "trn1";
    if (soma_machine_new(&o, &m) == SOMA_OK) {
      static const char *const text =
          "target trn1\na tensor float32[4, 8], input\nta tile sbuf float32[4, 8]\nin sem\n"
          "q queue dge=swdge\nsection gpsimd\n dma_copy ta, a, queue=q $in\n nop $in>=16\n halt\n";
      soma_status s = soma_assemble(m, text, strlen(text), "t.s", NULL, &p, &d);
      if (s == SOMA_OK) s = soma_bind(m, p, "a", SOMA_FLOAT32, 2, shape, a);
      if (s == SOMA_OK) s = soma_run_start(m, p, &r);
      if (s == SOMA_OK) s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
      ended = s == SOMA_OK;
      if (!ended && s != SOMA_NOMEM)
        fail_msg("allocation %ld failing gives: %s (%s)", fail_at, soma_status_text(s),
                 soma_error(m));
    }
    soma_run_free(r);
    soma_program_free(p);
    soma_diagnostics_free(d);
    soma_machine_free(m);
    if (c.alive) fail_msg("allocation %ld failing leaves %ld bytes", fail_at, c.alive);
  }
  assert_true(ended);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(register_arithmetic),
      cmocka_unit_test(branches),
      cmocka_unit_test(call_and_return),
      cmocka_unit_test(division_by_zero),
      cmocka_unit_test(semaphores_order_engines),
      cmocka_unit_test(taking_is_atomic),
      cmocka_unit_test(semaphore_limits),
      cmocka_unit_test(range_clear),
      cmocka_unit_test(deadlock_report),
      cmocka_unit_test(vertical_slice),
      cmocka_unit_test(reads_at_start),
      cmocka_unit_test(writes_at_done),
      cmocka_unit_test(program_order_in_one_engine),
      cmocka_unit_test(register_offsets),
      cmocka_unit_test(offset_out_of_bounds),
      cmocka_unit_test(limits),
      cmocka_unit_test(stopped_and_continued),
      cmocka_unit_test(stepping_gives_the_same_run),
      cmocka_unit_test(one_run_at_a_time),
      cmocka_unit_test(binding_is_checked),
      cmocka_unit_test(ranks_that_do_not_exist_are_refused),
      cmocka_unit_test(published_durations),
      cmocka_unit_test(dependent_chain),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
