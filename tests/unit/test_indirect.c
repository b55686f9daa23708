/* Gen4's `.indirect` operands in a run: when the index is read, what they touch, what they take. */
#include <stdbool.h>

#include "vm_bed.h"

#define HEAD "target trn3\n"

static void tile(bed *b, uint32_t i, void *data, size_t n, bool writes) {
  soma_tile_info at;
  assert_int_equal(soma_program_tile(b->p, i, &at), SOMA_OK);
  soma_status s = writes ? soma_memory_write(b->m, at.memory, at.partition, at.offset, data, n)
                         : soma_memory_read(b->m, at.memory, at.partition, at.offset, data, n);
  assert_int_equal(s, SOMA_OK);
}

static soma_time run_time(const soma_options *o, const char *text) {
  bed b = bed_open(o, text);
  bed_run(&b, SOMA_OK);
  soma_time t = bed_stats(&b).time;
  bed_close(&b);
  return t;
}

/* The index is read when the instruction issues: what is written to it later does not count, and
 * its source is what it was at the start. */
static void index_as_of_the_issue(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 4096]\n"
                              "o tile sbuf float32[1, 4]\nj tile sbuf uint16[16, 2]\n"
                              "s sem\nsection vector\n"
                              " tensor_copy o, x.ap([[1, 4]]).indirect(j[0:4, 0:1])  $s++@read\n"
                              " halt\nsection gpsimd\n nop $s>=1\n memset j, 9\n memset x, 7.0\n"
                              " halt\n");
  bed_start(&b);
  float x[4096], o[4];
  for (int i = 0; i < 4096; i++) x[i] = (float)i;
  tile(&b, 0, x, sizeof x, true);
  for (uint32_t p = 0; p < 4; p++) {
    soma_tile_info at;
    uint16_t offset = (uint16_t)(1000 * p + 3);
    assert_int_equal(soma_program_tile(b.p, 2, &at), SOMA_OK);
    assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, p, at.offset, &offset, 2), SOMA_OK);
  }
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  tile(&b, 1, o, sizeof o, false);
  for (int i = 0; i < 4; i++) assert_true(o[i] == 1000 * (float)i + 3);
  bed_close(&b);
}

/* A source that another engine overwrites before done has been read at the start, also where only
 * the index reaches: element 4000 of an operand of four. */
static void overwritten_source(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 4096]\ni tile sbuf uint16[16, 1]\n"
                              "o tile sbuf float32[1, 4]\nsection vector\n"
                              " exponential o, x.indirect(i, 4)\n halt\n"
                              "section sync\n mov r0, 0\n mov r1, 0\n"
                              " nop\n tensor_store x[0:1, 4000:4001], r0\n halt\n");
  bed_start(&b);
  float x[4096] = {0}, o[4];
  x[4000] = 1;
  uint16_t at = 4000;
  soma_tile_info info;
  assert_int_equal(soma_program_tile(b.p, 1, &info), SOMA_OK);
  for (uint32_t p = 0; p < 4; p++)
    assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, p, info.offset, &at, 2), SOMA_OK);
  tile(&b, 0, x, sizeof x, true);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  tile(&b, 0, x, sizeof x, false);
  assert_true(x[4000] == 0); /* it was overwritten */
  tile(&b, 2, o, sizeof o, false);
  for (int i = 0; i < 4; i++) assert_true(o[i] > 2.71828f && o[i] < 2.71829f);
  bed_close(&b);
}

/* An instruction waits for one of its engine that scatters to where it reads, and not for one that
 * scatters elsewhere in the tile. The memset's value says where. */
static soma_time after_a_scatter(int at) {
  char text[400];
  snprintf(text, sizeof text,
           HEAD "x tile sbuf float32[1, 64]\ni tile sbuf uint8[16, 1]\nu tile sbuf float32[1, 16]\n"
                "o tile sbuf float32[1, 1]\nsection vector\n memset i[0:1, :], %d\n drain\n"
                " tensor_copy x.indirect(i, 1), u[:, 0:1]\n tensor_copy o, x[:, 40:41]\n halt\n",
           at);
  return run_time(NULL, text);
}

static void hazards_by_the_index(void **state) {
  (void)state;
  assert_true(after_a_scatter(40) > after_a_scatter(39));
  assert_int_equal(after_a_scatter(3), after_a_scatter(39));
}

/* A gather takes two elements per cycle, as elements apart do: 4096 of bf16, four per cycle when
 * they are dense, 1024 cycles of 1.2 GHz longer. */
static void rate(void **state) {
  (void)state;
  char dense[400], gathered[400], apart[400];
  static const char tiles[] =
      HEAD "x tile sbuf bfloat16[16, 8192]\no tile sbuf bfloat16[16, 4096]\n"
           "i tile sbuf uint16[16, 256]\nsection vector\n";
  snprintf(dense, sizeof dense, "%s tensor_copy o, x[:, 0:4096]\n halt\n", tiles);
  snprintf(gathered, sizeof gathered, "%s tensor_copy o, x.indirect(i, 4096)\n halt\n", tiles);
  snprintf(apart, sizeof apart, "%s tensor_copy o, x.ap([[2, 4096]])\n halt\n", tiles);
  soma_time d = run_time(NULL, dense), g = run_time(NULL, gathered);
  assert_int_equal(g, run_time(NULL, apart));
  assert_in_range(g - d, UINT64_C(1024000000) * 1000 / 1200 - 1000,
                  UINT64_C(1024000000) * 1000 / 1200 + 1000);
}

/* A run that only takes its time has no offsets to read, and takes as long. */
static void timing_only(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.timing_only = 1;
  static const char text[] = HEAD "x tile sbuf float32[32, 64]\ni tile sbuf uint8[32, 2]\n"
                                  "u tile sbuf float32[32, 20]\nsection gpsimd\n"
                                  " iota i, pattern=[[16, 2]], multiplier=1  $S[0]++\n halt\n"
                                  "section vector\n nop $S[0]>=1\n"
                                  " tensor_copy x.indirect(i, 20), u\n halt\n";
  assert_int_equal(run_time(&o, text), run_time(NULL, text));
}

/* The race check goes by the elements that the index names: a store between them does not meet it.
 */
static soma_status with_a_store_at(int at) {
  char text[500];
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = 1u << SOMA_CHECK_RACE | 1u << SOMA_CHECK_UNINIT;
  snprintf(text, sizeof text,
           HEAD "x tile sbuf float32[4, 16]\ni tile sbuf uint8[2, 1]\ns sem\nsection vector\n"
                " memset x, 1.0\n memset i[0:1, :], 3\n drain\n nop $s++\n"
                " tensor_copy x[:, 0:2], x.indirect(i, 2)\n halt\n"
                "section sync\n mov r0, 7\n nop $s>=1\n"
                " tensor_store x[0:1, %d:%d], r0\n halt\n",
           at, at + 1);
  bed b = bed_open(&o, text);
  bed_start(&b);
  soma_tile_info info;
  uint8_t offset = 5;
  assert_int_equal(soma_program_tile(b.p, 1, &info), SOMA_OK);
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 1, info.offset, &offset, 1), SOMA_OK);
  soma_status s = soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0);
  bed_close(&b);
  return s;
}

static void races_by_the_index(void **state) {
  (void)state;
  assert_int_equal(with_a_store_at(4), SOMA_OK);
  assert_int_equal(with_a_store_at(6), SOMA_OK);
  assert_int_equal(with_a_store_at(3), SOMA_CHECK);
  assert_int_equal(with_a_store_at(5), SOMA_CHECK);
  assert_int_equal(with_a_store_at(1), SOMA_CHECK); /* the destination */
}

/* Only what is read of an index must have been written: of 20 offsets two columns, the second to
 * its fourth row. */
static soma_status with_an_index_to(int rows, int last) {
  char text[600];
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = 1u << SOMA_CHECK_UNINIT;
  snprintf(text, sizeof text,
           HEAD "x tile sbuf float32[32, 40]\no tile sbuf float32[32, 20]\n"
                "i tile sbuf uint8[32, 3]\nsection vector\n memset x, 1.0\n"
                " memset i[0:%d, 0:1], 1\n memset i[0:%d, 1:2], 2\n"
                " tensor_copy o, x.indirect(i, 20)\n halt\n",
           rows, last);
  bed b = bed_open(&o, text);
  bed_start(&b);
  soma_status s = soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0);
  bed_close(&b);
  return s;
}

static void unwritten_offsets(void **state) {
  (void)state;
  assert_int_equal(with_an_index_to(16, 4), SOMA_OK);
  assert_int_equal(with_an_index_to(15, 4), SOMA_CHECK);
  assert_int_equal(with_an_index_to(16, 3), SOMA_CHECK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(index_as_of_the_issue), cmocka_unit_test(overwritten_source),
      cmocka_unit_test(hazards_by_the_index),  cmocka_unit_test(rate),
      cmocka_unit_test(timing_only),           cmocka_unit_test(races_by_the_index),
      cmocka_unit_test(unwritten_offsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
