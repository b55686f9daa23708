/* The VM core at its edges: order after an offset in memory, stops and interruption, handles freed
 * in any order, changes by the host during a run. */
#include "vm_bed.h"

#define HEAD "target trn2\n"

static soma_time run_time(const char *text) {
  bed b = bed_open(NULL, text);
  bed_run(&b, SOMA_OK);
  soma_time t = bed_stats(&b).time;
  bed_close(&b);
  return t;
}

/* ---- Order -------------------------------------------------------------------------------- */

/* An offset from an element that the same engine has just computed: it is the new one. */
static void offset_element_in_program_order(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf int32[1, 1]\nt tile sbuf float32[1, 8]\n"
                              "u tile sbuf float32[1, 1]\nv tile sbuf int32[1, 8]\n"
                              "section vector\n memset t, 1.0\n memset t[:, 4:8], 2.0\n"
                              " memset v, 7\n memset v[:, 5:6], 9\n memset x, 5\n"
                              " tensor_copy u, t[:, (x):+1]\n"
                              " memset x, 5\n tensor_load r0, v[0:1, (x):+1]\n halt\n");
  bed_run(&b, SOMA_OK);
  float u;
  soma_tile_info at;
  assert_int_equal(soma_program_tile(b.p, 2, &at), SOMA_OK);
  assert_int_equal(soma_memory_read(b.m, SOMA_SBUF, at.partition, at.offset, &u, 4), SOMA_OK);
  assert_true(u == 2.0f);
  assert_int_equal(bed_reg(&b, SOMA_VECTOR, 0), 9);
  bed_close(&b);
}

/* A machine that is given a schedule runs as one that was made with it. */
static void schedules_change_between_runs(void **state) {
  (void)state;
  static const char text[] = HEAD "t tile sbuf float32[128, 64]\nd sem\nsection vector\n"
                                  " memset t, 1.0 $d++\n halt\nsection scalar\n"
                                  " activate t, t, fn=exp $d>=1\n halt\n";
  soma_options o = SOMA_OPTIONS_INIT;
  uint64_t times[3];
  assert_int_equal(soma_set_schedule(NULL, 1), SOMA_ARG);
  bed b = bed_open(NULL, text);
  for (unsigned i = 0; i < 3; i++) {
    o.schedule = i == 1 ? 7 : 0;
    assert_int_equal(soma_set_schedule(b.m, o.schedule), SOMA_OK);
    bed_run(&b, SOMA_OK);
    times[i] = bed_stats(&b).time;
    soma_run_free(b.r);
    b.r = NULL;
    bed made = bed_open(&o, text);
    bed_run(&made, SOMA_OK);
    assert_true(bed_stats(&made).time == times[i]);
    bed_close(&made);
  }
  assert_true(times[0] == times[2] && times[0] != times[1]);
  bed_close(&b);
}

/* Memories keep their bytes between runs until the caller clears them. */
static void memories_are_cleared_on_request(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "t tile sbuf float32[128, 8]\np tile psum float32[128, 8]\n"
                              "section vector\n memset t, 1.0\n memset p, 2.0\n halt\n");
  soma_run *r;
  uint32_t got[2];
  assert_int_equal(soma_machine_clear(NULL), SOMA_ARG);
  assert_int_equal(soma_machine_clear(b.m), SOMA_OK);
  assert_int_equal(soma_run_start(b.m, b.p, &r), SOMA_OK);
  assert_int_equal(soma_machine_clear(b.m), SOMA_BUSY);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  soma_tile_info at[2];
  for (unsigned i = 0; i < 2; i++) assert_int_equal(soma_program_tile(b.p, i, &at[i]), SOMA_OK);
  for (int pass = 0; pass < 2; pass++) {
    for (unsigned i = 0; i < 2; i++)
      assert_int_equal(
          soma_memory_read(b.m, i ? SOMA_PSUM : SOMA_SBUF, 127, at[i].offset + 28, &got[i], 4),
          SOMA_OK);
    assert_int_equal(got[0], pass ? 0 : 0x3f800000);
    assert_int_equal(got[1], pass ? 0 : 0x40000000);
    if (!pass) assert_int_equal(soma_machine_clear(b.m), SOMA_OK);
  }
  soma_run_free(r);
  bed_close(&b);
}

/* Before the element is there it may hold anything: no fault for what is read too early. */
static void offset_element_is_not_read_early(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf int32[1, 1]\nt tile sbuf float32[1, 8]\n"
                              "section vector\n memset x, 1000\n nop\n drain\n memset x, 3\n"
                              " tensor_copy t[:, (x):+1], t[:, 0:1]\n halt\n");
  bed_run(&b, SOMA_OK);
  bed_close(&b);
}

/* A call and a ret are branches: a cycle of 1.2 GHz each (833333 fs), as nop and jmp. */
static void ret_takes_a_cycle(void **state) {
  (void)state;
  soma_time with_ret = run_time(HEAD "section sync\n call r1, .f\n nop $S[0]+=1\n halt\n"
                                     ".f: ret r1\n");
  soma_time with_jmp = run_time(HEAD "section sync\n jmp .f\n.b: nop $S[0]+=1\n halt\n"
                                     ".f: jmp .b\n");
  assert_int_equal(with_ret, with_jmp);
}

/* ---- Stops -------------------------------------------------------------------------------- */

static void time_stops_registers_too(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "section sync\n.l: add r0, r0, 1\n jmp .l\n");
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 100000000), SOMA_OK); /* 100 ns */
  uint32_t rounds = bed_reg(&b, SOMA_SYNC, 0); /* 120 cycles, two a round */
  assert_in_range(rounds, 59, 61);
  assert_int_equal(soma_run_until(b.r, SOMA_TIME, SOMA_SYNC, 200000000), SOMA_OK);
  assert_in_range(bed_reg(&b, SOMA_SYNC, 0), 119, 121);
  bed_close(&b);
}

/* An interruption that comes while a host steps is not lost between two steps. */
static void interrupt_between_steps(void **state) {
  (void)state;
  char text[1024] = HEAD "section sync\n";
  for (int i = 0; i < 40; i++) strcat(text, " nop $S[0]>=0\n");
  strcat(text, " halt\n");
  bed b = bed_open(NULL, text);
  bed_start(&b);
  for (int i = 0; i < 10; i++)
    assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK);
  soma_machine_interrupt(b.m);
  soma_status s = SOMA_OK;
  for (int i = 0; i < 10 && s == SOMA_OK; i++) s = soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0);
  assert_int_equal(s, SOMA_STOPPED);
  assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK); /* once */
  bed_close(&b);
}

struct listener {
  soma_machine *m;
  int events;
};
static void interrupt_on_first(void *ud, const soma_event *e) {
  struct listener *l = ud;
  if (e->kind == SOMA_EV_INSN && l->events++ == 0) soma_machine_interrupt(l->m);
}

/* Large instructions take the host milliseconds each: it is looked at after every one. */
static void interrupt_is_prompt(void **state) {
  (void)state;
  struct listener l = {0};
  soma_options o = SOMA_OPTIONS_INIT;
  o.event = interrupt_on_first;
  o.event_ud = &l;
  bed b = bed_open(&o, HEAD "t tile sbuf float32[128, 512]\nsection vector\n mov r0, 1000\n"
                            ".l: memset t, 1.0\n sub r0, r0, 1\n bgt r0, 0, .l\n halt\n");
  l.m = b.m;
  bed_run(&b, SOMA_STOPPED);
  assert_in_range(l.events, 1, 2);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(l.events, 1000);
  bed_close(&b);
}

/* ---- Handles ------------------------------------------------------------------------------ */

/* Options are the caller's: nothing of them is read after soma_machine_new but the callbacks. */
static void options_need_not_live(void **state) {
  (void)state;
  static const char text[] = "t tile sbuf float32[128, 8]\nsection vector\n memset t, 1.0\n halt\n";
  char target[8] = "trn1";
  soma_options o = SOMA_OPTIONS_INIT;
  soma_machine *m;
  soma_program *p;
  o.target = target;
  assert_int_equal(soma_machine_new(&o, &m), SOMA_OK);
  memcpy(target, "?????", 6);
  assert_int_equal(soma_assemble(m, text, sizeof text - 1, "t.s", NULL, &p, NULL), SOMA_OK);
  assert_string_equal(soma_program_target(p), "trn1");
  soma_program_free(p);
  soma_machine_free(m);
}

/* Source that may not read files says where it wanted one; an older caller's options have no such
 * switch, and a size that is neither is refused. */
static void source_without_files(void **state) {
  (void)state;
  static const char *const texts[] = {"%include \"/dev/null\"\n",
                                      "section sync\n halt\nx tensor uint8[4], const\n"
                                      " incbin \"/dev/null\"\n",
                                      "x tensor uint8[4], const\n npy \"/dev/null\"\n"};
  soma_assemble_options o = {.size = sizeof o, .no_files = 1};
  soma_machine *m;
  soma_program *p;
  soma_diagnostics *d;
  assert_int_equal(soma_machine_new(NULL, &m), SOMA_OK);
  for (unsigned i = 0; i < 3; i++) {
    soma_status s = soma_assemble(m, texts[i], strlen(texts[i]), "t.s", &o, &p, &d);
    assert_int_equal(s, SOMA_SYNTAX);
    assert_non_null(strstr(soma_diagnostics_text(d), "t.s:"));
    assert_non_null(strstr(soma_diagnostics_text(d), "this source may not read files"));
    soma_diagnostics_free(d);
  }
  assert_int_equal(soma_assemble_file(m, "/dev/null", &o, &p, NULL), SOMA_OK); /* itself it may */
  soma_program_free(p);
  o.size = offsetof(soma_assemble_options, no_files);
  assert_int_equal(soma_assemble(m, texts[0], strlen(texts[0]), "t.s", &o, &p, NULL), SOMA_OK);
  soma_program_free(p);
  o.size = sizeof o + 1;
  assert_int_equal(soma_assemble(m, texts[0], strlen(texts[0]), "t.s", &o, &p, NULL), SOMA_ARG);
  o.size = offsetof(soma_assemble_options, no_files) - 1;
  assert_int_equal(soma_assemble(m, texts[0], strlen(texts[0]), "t.s", &o, &p, NULL), SOMA_ARG);
  soma_machine_free(m);
}

/* A run is freed by who started it, before or after its machine, which ends it. */
static void machine_freed_first(void **state) {
  (void)state;
  float a[8] = {1, 2, 3}, got[8];
  bed b = bed_open(NULL, HEAD "a tensor float32[1, 8], input\nt tile sbuf float32[1, 8]\ns sem\n"
                              "q queue dge=hwdge\nsection sync\n dma_copy t, a, queue=q $s\n"
                              " nop $s>=16\n halt\n");
  bed_bind(&b, "a", SOMA_FLOAT32, 1, 8, a);
  bed_start(&b);
  for (int i = 0; i < 5; i++)
    assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK);
  assert_false(soma_run_ended(b.r));
  soma_program_free(b.p);
  soma_machine_free(b.m);
  assert_true(soma_run_ended(b.r));
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_STOPPED);
  bed_fault_has(&b, "the machine was freed");
  assert_int_equal(soma_fetch(b.r, "a", got, sizeof got), SOMA_OK);
  assert_memory_equal(a, got, sizeof a);
  soma_run_free(b.r);
}

static void data_must_be_given(void **state) {
  (void)state;
  int64_t shape[2] = {1, 8};
  bed b = bed_open(NULL, HEAD "a tensor float32[1, 8], input\nsection sync\n halt\n");
  assert_int_equal(soma_bind(b.m, b.p, "a", SOMA_FLOAT32, 2, shape, NULL), SOMA_ARG);
  assert_string_equal(soma_error(b.m), "tensor a is bound to no data (NULL)");
  bed_close(&b);
}

/* ---- The host's hand in a run -------------------------------------------------------------- */

/* A started instruction has read its source: what the host writes then is for the next. */
static void host_writes_behind_a_start(void **state) {
  (void)state;
  float u, nine = 9.0f;
  soma_tile_info at;
  bed b = bed_open(NULL, HEAD "t tile sbuf float32[1, 8]\nu tile sbuf float32[1, 8]\n"
                              "section vector\n memset t, 1.0\n drain\n tensor_copy u, t\n halt\n");
  bed_start(&b);
  while (!soma_run_ended(b.r) && bed_stats(&b).engine[SOMA_VECTOR].data_instructions < 2)
    assert_int_equal(soma_run_until(b.r, SOMA_ISSUE, SOMA_VECTOR, 0), SOMA_OK);
  assert_int_equal(soma_program_tile(b.p, 0, &at), SOMA_OK);
  assert_int_equal(soma_memory_write(b.m, SOMA_SBUF, at.partition, at.offset, &nine, 4), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_program_tile(b.p, 1, &at), SOMA_OK);
  assert_int_equal(soma_memory_read(b.m, SOMA_SBUF, at.partition, at.offset, &u, 4), SOMA_OK);
  assert_true(u == 1.0f);
  bed_close(&b);
}

/* A register that a waiting engine compares with: it looks again. */
static void host_changes_a_waited_register(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "s sem\ng sem\nsection sync\n mov r0, 5\n nop $s>=r0\n halt\n"
                              "section vector\n mov r1, 100\n.l: sub r1, r1, 1\n bgt r1, 0, .l\n"
                              " nop $g+=1\n halt\n");
  bed_start(&b);
  for (int i = 0; i < 20; i++)
    assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_register_set(b.m, SOMA_SYNC, 0, 0), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  bed_close(&b);
}

/* ---- Reports ------------------------------------------------------------------------------- */

/* Clearing a range changes a semaphore as well: who would have done it is named. */
static void deadlock_names_range_clear(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "s sem\nn sem\nsection sync\n nop $n>=1\n"
                              " sem_range_clear first=0, count=1\n halt\n"
                              "section vector\n nop $s+=3\n nop $s>=3\n nop $s==0\n halt\n");
  bed_run(&b, SOMA_DEADLOCK);
  bed_fault_has(&b, "vector at test.s:11 waits for $s==0; $s is 3\n"
                    "    updates: to 3 at 30 ns by vector (test.s:9)\n"
                    "    it held earlier: $s was 0 from 0 to 30 ns, when test.s:9 made it 3; this "
                    "wait began at 31 ns\n"
                    "    it could still be changed by sync (test.s:6)\n");
  bed_close(&b);
}

/* A value that the host has set is not said to come from nowhere. */
static void deadlock_names_the_host(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "s sem\nsection sync\n nop $s>=5\n halt\n");
  bed_start(&b);
  assert_int_equal(soma_semaphore_set(b.m, 0, 4), SOMA_OK);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_DEADLOCK);
  bed_fault_has(&b, "$s is 4, 1 short\n    updates: to 4 at 0 ns by the host\n");
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(offset_element_in_program_order),
      cmocka_unit_test(schedules_change_between_runs),
      cmocka_unit_test(memories_are_cleared_on_request),
      cmocka_unit_test(offset_element_is_not_read_early),
      cmocka_unit_test(ret_takes_a_cycle),
      cmocka_unit_test(time_stops_registers_too),
      cmocka_unit_test(interrupt_between_steps),
      cmocka_unit_test(interrupt_is_prompt),
      cmocka_unit_test(options_need_not_live),
      cmocka_unit_test(data_must_be_given),
      cmocka_unit_test(host_writes_behind_a_start),
      cmocka_unit_test(host_changes_a_waited_register),
      cmocka_unit_test(deadlock_names_range_clear),
      cmocka_unit_test(deadlock_names_the_host),
      cmocka_unit_test(source_without_files),
      cmocka_unit_test(machine_freed_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
