/* soma_debug.h as C calls it: handles that are missing, callbacks, structs of older callers. What
 * stops and snapshots do is in tests/lua/test_debug.lua. */
#include <stdbool.h>

#include "vm_bed.h"

static const char loop[] = "target trn2\n"
                           "s sem\n"
                           "q queue dge=hwdge\n"
                           "section sync\n"
                           "        mov r1, 0\n"
                           "again:  add r1, r1, 1\n"
                           "        nop $s++\n"
                           "        blt r1, 5, again\n"
                           "        halt\n";

static soma_stop at_pc(soma_engine e, uint32_t pc) {
  return (soma_stop){.kind = SOMA_STOP_PC, .engine = e, .pc = pc};
}

static void test_null(void **state) {
  (void)state;
  uint32_t id, pc;
  uint64_t hits;
  unsigned core;
  soma_engine e;
  soma_hit hit;
  soma_engine_state es;
  soma_flight f;
  soma_transfer t;
  soma_instruction i;
  soma_macro_call c;
  char *text;
  size_t n;
  soma_run *none = NULL;
  soma_stop s = at_pc(SOMA_SYNC, 0);
  assert_int_equal(soma_run_stop_add(NULL, &s, sizeof s, &id), SOMA_ARG);
  assert_int_equal(soma_run_stop_remove(NULL, 1), SOMA_ARG);
  assert_int_equal(soma_run_stop_last(NULL, 1, &hits, &hit, sizeof hit), SOMA_ARG);
  assert_int_equal(soma_run_hits(NULL), 0);
  assert_int_equal(soma_run_hit(NULL, 0, &hit, sizeof hit), SOMA_ARG);
  assert_int_equal(soma_run_engine(NULL, SOMA_SYNC, &es, sizeof es), SOMA_ARG);
  assert_int_equal(soma_run_flight(NULL, SOMA_SYNC, 0, &f, sizeof f), SOMA_ARG);
  assert_int_equal(soma_run_transfer(NULL, 0, &t, sizeof t), SOMA_ARG);
  assert_int_equal(soma_core_engine(NULL, 0, SOMA_SYNC, &es, sizeof es), SOMA_ARG);
  assert_int_equal(soma_core_flight(NULL, 0, SOMA_SYNC, 0, &f, sizeof f), SOMA_ARG);
  assert_int_equal(soma_core_transfer(NULL, 0, 0, &t, sizeof t), SOMA_ARG);
  assert_int_equal(soma_core_issue(NULL, 0, SOMA_SYNC), SOMA_ARG);
  assert_int_equal(soma_core_pass(NULL, 0, SOMA_SYNC), SOMA_ARG);
  assert_int_equal(soma_write_waits(NULL, NULL, NULL), SOMA_ARG);
  assert_int_equal(soma_write_logged(NULL, NULL, 0, NULL, NULL), SOMA_ARG);
  assert_int_equal(soma_run_restore(NULL, "", 1), SOMA_ARG);
  assert_int_equal(soma_run_restore(&none, "", 1), SOMA_ARG);
  assert_int_equal(soma_run_log(NULL, NULL, NULL), SOMA_ARG);
  assert_int_equal(soma_program_instructions(NULL, 0, SOMA_SYNC), 0);
  assert_int_equal(soma_program_instruction(NULL, 0, SOMA_SYNC, 0, &i, sizeof i), SOMA_ARG);
  assert_int_equal(soma_program_line(NULL, 0, SOMA_SYNC, "x", 1, 0), 0);
  assert_int_equal(soma_program_loop(NULL, 0, SOMA_SYNC, 0, &pc, &pc), SOMA_ARG);
  assert_int_equal(soma_instruction_text(NULL, 0, SOMA_SYNC, 0, &text, &n), SOMA_ARG);
  assert_int_equal(soma_program_call(NULL, 1, &c, sizeof c), SOMA_ARG);
  assert_int_equal(soma_program_label(NULL, "x", 0, &core, &e, &pc), SOMA_ARG);
  assert_null(soma_program_semaphore_name(NULL, 0, 0));
  assert_null(soma_program_queue_name(NULL, 0, 0));
}

static void test_out_of_range(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop);
  soma_instruction i;
  soma_macro_call c;
  unsigned core;
  soma_engine e;
  uint32_t pc, id;
  bed_start(&b);
  assert_int_equal(soma_program_instructions(b.p, 0, SOMA_SYNC), 5);
  assert_int_equal(soma_program_instructions(b.p, 1, SOMA_SYNC), 0);
  assert_int_equal(soma_program_instructions(b.p, 0, SOMA_ENGINES), 0);
  assert_int_equal(soma_program_instruction(b.p, 0, SOMA_SYNC, 5, &i, sizeof i), SOMA_ARG);
  assert_int_equal(soma_program_call(b.p, 0, &c, sizeof c), SOMA_ARG);
  assert_int_equal(soma_program_call(b.p, 1, &c, sizeof c), SOMA_ARG);
  assert_int_equal(soma_program_label(b.p, "again", 0, &core, &e, &pc), SOMA_OK);
  assert_int_equal(pc, 1);
  assert_int_equal(soma_program_label(b.p, "again", 1, &core, &e, &pc), SOMA_ARG);
  assert_string_equal(soma_program_semaphore_name(b.p, 0, 0), "s");
  assert_null(soma_program_semaphore_name(b.p, 0, 256));
  assert_null(soma_program_queue_name(b.p, 0, 1));
  soma_stop s = at_pc(SOMA_ENGINES, 0);
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  s = (soma_stop){.kind = (soma_stop_kind)99};
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  s = (soma_stop){.kind = SOMA_STOP_WRITE,
                  .memory = SOMA_SBUF,
                  .partition = 1,
                  .partitions = UINT32_MAX,
                  .bytes = 1};
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  s.partitions = 1;
  s.offset = UINT64_MAX;
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  s.offset = 8;
  s.bytes = UINT64_MAX;
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  assert_int_equal(soma_run_stop_remove(b.r, 1), SOMA_ARG);
  bed_close(&b);
}

static int keep(void *ud, const char *text, size_t n) {
  snprintf(ud, 80, "%.*s", (int)n, text);
  return 0;
}
static int full(void *ud, const char *text, size_t n) {
  (void)ud, (void)text, (void)n;
  return 1;
}

static void test_line_of_log(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop);
  char text[80];
  soma_logged l = {.engine = SOMA_SYNC,
                   .pc = 1,
                   .end = 2500000,
                   .waited = 1250000,
                   .reg = 1,
                   .value = (uint32_t)-3};
  assert_int_equal(soma_write_logged(b.p, &l, sizeof l, keep, text), SOMA_OK);
  assert_non_null(strstr(text, "       2.500  sync       1  "));
  assert_non_null(strstr(text, "add r1, r1, 1 ; waited 1.25 ns ; r1 = -3"));
  assert_int_equal(soma_write_logged(b.p, &l, offsetof(soma_logged, core), keep, text), SOMA_OK);
  assert_int_equal(soma_write_logged(b.p, &l, sizeof l, full, NULL), SOMA_IO);
  l.pc = 5;
  assert_int_equal(soma_write_logged(b.p, &l, sizeof l, keep, text), SOMA_ARG);
  l = (soma_logged){.engine = SOMA_ENGINES};
  assert_int_equal(soma_write_logged(b.p, &l, sizeof l, keep, text), SOMA_ARG);
  l = (soma_logged){.engine = SOMA_SYNC, .core = 1};
  assert_int_equal(soma_write_logged(b.p, &l, sizeof l, keep, text), SOMA_ARG);
  bed_close(&b);
}

/* Snapshots that share, freed in any order; of another program. */
static void test_snapshots(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop), other = bed_open(NULL, loop);
  soma_snapshot *s[3] = {0}, *foreign;
  soma_engine_state es;
  bed_start(&b);
  bed_start(&other);
  assert_int_equal(soma_run_snapshot(NULL, NULL, &s[0]), SOMA_ARG);
  assert_int_equal(soma_run_snapshot(b.r, NULL, NULL), SOMA_ARG);
  assert_int_equal(soma_run_return(NULL, NULL), SOMA_ARG);
  assert_int_equal(soma_run_return(&b.r, NULL), SOMA_ARG);
  assert_int_equal(soma_snapshot_bytes(NULL), 0);
  soma_snapshot_free(NULL);
  unsigned char bytes[4096];
  memset(bytes, 7, sizeof bytes);
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 5, 0, bytes, sizeof bytes), SOMA_OK);
  for (int k = 0; k < 3; k++) {
    assert_int_equal(soma_run_snapshot(b.r, k ? s[k - 1] : NULL, &s[k]), SOMA_OK);
    assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_SYNC, 0), SOMA_OK);
  }
  const uint64_t two = soma_snapshot_bytes(s[2]);
  soma_snapshot_free(s[1]);
  assert_true(soma_snapshot_bytes(s[2]) > two); /* it shares with one fewer */
  memset(bytes, 9, sizeof bytes);
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, 5, 0, bytes, sizeof bytes), SOMA_OK);
  assert_int_equal(soma_run_snapshot(other.r, s[0], &foreign), SOMA_OK);
  assert_int_equal(soma_run_return(&b.r, foreign), SOMA_ARG);
  soma_snapshot_free(foreign);
  soma_snapshot_free(s[0]);
  assert_int_equal(soma_run_return(&b.r, s[2]), SOMA_OK);
  assert_int_equal(soma_run_engine(b.r, SOMA_SYNC, &es, sizeof es), SOMA_OK);
  assert_int_equal(es.instructions, 2);
  assert_int_equal(soma_memory_read(b.m, SOMA_SBUF, 5, 0, bytes, sizeof bytes), SOMA_OK);
  for (unsigned i = 0; i < sizeof bytes; i++) assert_int_equal(bytes[i], 7);
  soma_snapshot_free(s[2]);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_true(soma_run_ended(b.r));
  bed_close(&b);
  bed_close(&other);
}

/* Core 1 of a program of two, and of a program that has none. */
static void test_cores(void **state) {
  (void)state;
  soma_engine_state es;
  soma_flight f;
  soma_transfer t;
  soma_hit hit;
  uint32_t id;
  soma_stop s = at_pc(SOMA_SYNC, 1);
  s.core = 1;
  bed b = bed_open(NULL, loop);
  bed_start(&b);
  assert_int_equal(soma_core_engine(b.r, 1, SOMA_SYNC, &es, sizeof es), SOMA_ARG);
  assert_int_equal(soma_core_flight(b.r, 1, SOMA_SYNC, 0, &f, sizeof f), SOMA_ARG);
  assert_int_equal(soma_core_transfer(b.r, 1, 0, &t, sizeof t), SOMA_ARG);
  assert_int_equal(soma_core_issue(b.r, 1, SOMA_SYNC), SOMA_ARG);
  assert_int_equal(soma_core_issue(b.r, 0, SOMA_ENGINES), SOMA_ARG);
  assert_int_equal(soma_core_pass(b.r, 1, SOMA_SYNC), SOMA_ARG);
  assert_int_equal(soma_core_pass(b.r, 0, SOMA_ENGINES), SOMA_ARG);
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_ARG);
  bed_close(&b);
  b = bed_open(NULL, "target trn2\n"
                     "s sem core=*\n"
                     "section sync core=*\n"
                     "        nop $peer.s++\n"
                     "        nop $s>=1\n"
                     "        halt\n");
  bed_start(&b);
  assert_int_equal(soma_run_stop_add(b.r, &s, sizeof s, &id), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_run_hit(b.r, 0, &hit, sizeof hit), SOMA_OK);
  assert_int_equal(hit.core, 1);
  assert_int_equal(soma_core_engine(b.r, 1, SOMA_SYNC, &es, sizeof es), SOMA_OK);
  assert_int_equal(es.pc, 1);
  assert_true(es.passes);
  assert_int_equal(soma_core_issue(b.r, 1, SOMA_SYNC), SOMA_OK);
  assert_int_equal(soma_core_engine(b.r, 1, SOMA_SYNC, &es, sizeof es), SOMA_OK);
  assert_int_equal(es.pc, 2);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_true(soma_run_ended(b.r));
  bed_close(&b);
}

/* A caller whose struct is shorter gets what it has room for, and gives no more. */
static void test_older_caller(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop);
  uint32_t id;
  struct {
    soma_engine_status status;
    uint32_t pc, guard;
  } old = {.guard = 7};
  bed_start(&b);
  soma_stop s = at_pc(SOMA_SYNC, 2);
  assert_int_equal(soma_run_stop_add(b.r, &s, offsetof(soma_stop, count), &id), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_run_hits(b.r), 1);
  assert_int_equal(soma_run_engine(b.r, SOMA_SYNC, (soma_engine_state *)(void *)&old,
                                   offsetof(soma_engine_state, instructions)),
                   SOMA_OK);
  assert_int_equal(old.pc, 2);
  assert_int_equal(old.guard, 7);
  bed_close(&b);
}

typedef struct inside {
  soma_run **r;
  soma_status add, remove, log, restore;
  int calls;
} inside;

static void look(void *ud, const soma_logged *l) {
  inside *in = ud;
  uint32_t id;
  soma_stop s = at_pc(SOMA_SYNC, 1);
  (void)l;
  in->calls++;
  in->add = soma_run_stop_add(*in->r, &s, sizeof s, &id);
  in->remove = soma_run_stop_remove(*in->r, 1);
  in->log = soma_run_log(*in->r, NULL, NULL);
  in->restore = soma_run_restore(in->r, "x", 1);
}

static void test_callback(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop);
  bed_start(&b);
  inside in = {.r = &b.r};
  assert_int_equal(soma_run_log(b.r, look, &in), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(in.calls, 17);
  assert_int_equal(in.add, SOMA_BUSY);
  assert_int_equal(in.remove, SOMA_BUSY);
  assert_int_equal(in.log, SOMA_BUSY);
  assert_int_equal(in.restore, SOMA_BUSY);
  bed_close(&b);
}

/* Bytes that are no state leave the run as it was. */
static void test_bad_bytes(void **state) {
  (void)state;
  bed b = bed_open(NULL, loop);
  void *data;
  size_t n;
  bed_start(&b);
  assert_int_equal(soma_run_save(b.r, &data, &n), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_SYNC, 0), SOMA_OK);
  soma_run *before = b.r;
  assert_int_equal(soma_run_restore(&b.r, "SomaRun\n", 8), SOMA_FORMAT);
  assert_int_equal(soma_run_restore(&b.r, data, n - 1), SOMA_FORMAT);
  ((unsigned char *)data)[n / 2] ^= 1;
  assert_int_equal(soma_run_restore(&b.r, data, n), SOMA_FORMAT);
  ((unsigned char *)data)[n / 2] ^= 1;
  assert_ptr_equal(b.r, before);
  assert_int_equal(soma_run_restore(&b.r, data, n), SOMA_OK);
  soma_bytes_free(data);
  soma_engine_state s;
  assert_int_equal(soma_run_engine(b.r, SOMA_SYNC, &s, sizeof s), SOMA_OK);
  assert_int_equal(s.instructions, 0);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_true(soma_run_ended(b.r));
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_null),         cmocka_unit_test(test_out_of_range),
      cmocka_unit_test(test_older_caller), cmocka_unit_test(test_callback),
      cmocka_unit_test(test_bad_bytes),    cmocka_unit_test(test_cores),
      cmocka_unit_test(test_line_of_log),  cmocka_unit_test(test_snapshots),
  };
  return cmocka_run_group_tests_name("debug", tests, NULL, NULL);
}
