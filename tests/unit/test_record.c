/* The recorder and its writers. Events are written by hand, so that what a writer makes of them can
 * be said exactly; some tests run a program and check what must hold of any trace. */
#include "record_bed.h"

/* ---- The recorder ------------------------------------------------------------------------- */

static uint64_t start_of(const soma_recorder *r, const soma_program *p, uint64_t i) {
  soma_event e;
  assert_int_equal(soma_recorder_get(r, p, i, &e), SOMA_OK);
  return e.start;
}

static void keeps_events_with_their_strings(void **state) {
  (void)state;
  bed b = bed_open(NULL, three);
  soma_recorder *r = recorder_of(NULL, story, STORY);
  soma_event e;
  assert_int_equal(soma_recorder_count(r), STORY);
  assert_int_equal(soma_recorder_get(r, b.p, 3, &e), SOMA_OK);
  assert_string_equal(e.name, "tensor_copy");
  assert_string_equal(e.file, "test.s");
  assert_int_equal(e.line, 12);
  assert_int_equal(e.end, 400 * NS + 500);
  assert_int_equal(soma_recorder_get(r, b.p, 5, &e), SOMA_OK);
  assert_string_equal(e.name, "copied");
  assert_int_equal(soma_recorder_get(r, b.p, 6, &e), SOMA_OK);
  assert_string_equal(e.name, "q");
  assert_int_equal(e.line, 15);
  assert_int_equal(e.bytes, 2048);
  assert_int_equal(soma_recorder_get(r, b.p, STORY, &e), SOMA_ARG);
  soma_recorder_clear(r);
  assert_int_equal(soma_recorder_count(r), 0);
  soma_recorder_free(r);
  soma_recorder_free(NULL);
  bed_close(&b);
}

static void a_full_recorder_keeps_the_first_or_the_last(void **state) {
  (void)state;
  bed b = bed_open(NULL, three);
  for (int last = 0; last < 2; last++) {
    soma_recorder_options o = SOMA_RECORDER_OPTIONS_INIT;
    soma_recorder *r;
    o.max_events = 5000; /* more than a block */
    o.keep_last = last;
    assert_int_equal(soma_recorder_new(&o, &r), SOMA_OK);
    for (uint64_t i = 0; i < 12003; i++)
      soma_recorder_event(r, &(soma_event){.kind = SOMA_EV_INSN, .start = i, .end = i + 1});
    assert_int_equal(soma_recorder_count(r), 5000);
    assert_int_equal(soma_recorder_dropped(r), 7003);
    assert_int_equal(start_of(r, b.p, 0), last ? 7003 : 0);
    assert_int_equal(start_of(r, b.p, 4999), last ? 12002 : 4999);
    for (uint64_t i = 1; i < 5000; i++)
      assert_int_equal(start_of(r, b.p, i), start_of(r, b.p, i - 1) + 1);
    soma_recorder_free(r);
  }
  bed_close(&b);
}

static uint64_t kept(soma_recorder_options o) {
  soma_recorder *r = recorder_of(&o, story, STORY);
  uint64_t n = soma_recorder_count(r);
  assert_int_equal(soma_recorder_dropped(r), 0);
  soma_recorder_free(r);
  return n;
}

static void filters_by_kind_engine_and_time(void **state) {
  (void)state;
  const soma_recorder_options all = SOMA_RECORDER_OPTIONS_INIT;
  soma_recorder_options o = all;
  o.kinds = 1u << SOMA_EV_WAIT | 1u << SOMA_EV_DMA;
  assert_int_equal(kept(o), 3);
  o = all;
  o.engines = 1u << SOMA_SYNC; /* its wait, its trigger, and the share of that */
  assert_int_equal(kept(o), 3);
  o = all;
  o.from = 400 * NS;
  assert_int_equal(kept(o), 5);
  o.until = 430 * NS;
  assert_int_equal(kept(o), 2);
  o = all;
  o.size = 3;
  soma_recorder *r;
  assert_int_equal(soma_recorder_new(&o, &r), SOMA_ARG);
  assert_null(r);
}

/* ---- The writers, exactly ----------------------------------------------------------------- */

static void write_all(const char *source, const soma_event *e, size_t n, int which, text *out) {
  bed b = bed_open(NULL, source);
  soma_recorder *r = recorder_of(NULL, e, n);
  soma_status s = which == -1   ? soma_write_chrome(r, b.p, add_text, out)
                  : which == -2 ? soma_write_timeline(r, b.p, 61, add_text, out)
                  : which == -3 ? soma_write_html(r, b.p, NULL, "a <title>", add_text, out)
                                : soma_write_table(r, b.p, (soma_table)(which / 2),
                                                   (soma_table_format)(which % 2), add_text, out);
  assert_int_equal(s, SOMA_OK);
  soma_recorder_free(r);
  bed_close(&b);
}

/* then: what follows, of a text that is longer than a string of C may be. */
static void expect_both(int which, const char *want, const char *then) {
  text got = {0};
  write_all(three, story, STORY, which, &got);
  size_t n = strlen(want);
  if (strncmp(got.s, want, n) != 0) assert_string_equal(got.s, want);
  assert_string_equal(got.s + n, then);
  free(got.s);
}
static void expect(int which, const char *want) { expect_both(which, want, ""); }

/* clang-format off */
#define META(pid, name, key, value) \
  "{\"ph\":\"M\",\"pid\":" #pid ",\"name\":\"" name "\",\"args\":{\"" key "\":" value "}},\n"
#define PROCESS(pid, title) \
  META(pid, "process_name", "name", "\"" title "\"") \
  META(pid, "process_sort_index", "sort_index", #pid)
#define THREAD(pid, tid, title) \
  "{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":" #tid \
  ",\"name\":\"thread_name\",\"args\":{\"name\":\"" title "\"}},\n" \
  "{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":" #tid \
  ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":" #tid "}},\n"
#define SLICE(pid, tid, cat, name, ts, dur, line, operands, more) \
  "{\"ph\":\"X\",\"pid\":" #pid ",\"tid\":" #tid ",\"cat\":\"" cat "\",\"name\":\"" name \
  "\",\"ts\":" ts ",\"dur\":" dur ",\"args\":{\"source\":\"test.s:" line "\",\"operands\":\"" \
  operands "\",\"pc\":0" more "}},\n"
#define ARROW_END(how, id, tid, ts) \
  "{" how ",\"id\":" #id ",\"pid\":1,\"tid\":" #tid \
  ",\"cat\":\"signal\",\"name\":\"signal\",\"ts\":" ts "},\n"
#define ARROW(id, tid0, ts0, tid1, ts1) \
  ARROW_END("\"ph\":\"s\"", id, tid0, ts0) ARROW_END("\"ph\":\"f\",\"bp\":\"e\"", id, tid1, ts1)
#define COUNT(pid, name, ts, key, value) \
  "{\"ph\":\"C\",\"pid\":" #pid ",\"name\":\"" name "\",\"ts\":" ts \
  ",\"args\":{\"" key "\":" #value "}}"
#define IN_USE(ts, sbuf) \
  COUNT(5, "SBUF bytes", ts, "in use", sbuf) ",\n" COUNT(5, "PSUM bytes", ts, "in use", 0)
#define GBS(ts, rate) "{\"ph\":\"C\",\"pid\":2,\"name\":\"GB/s\",\"ts\":" ts ",\"args\":{\"GB/s\":" rate "}}"
#define MEMSET "t0, 1.0 $made++"
#define COPY "t1, t0 $made>=1 $copied++"
#define STORE \
  "c, t1, queue=q $copied>=1"

/* Arrows end a nanosecond inside their slices. t0 (128 x 16 bytes) is in use until the copy has
 * read it, t1 from then until the store has. */
static void chrome_trace_of_three_instructions(void **state) {
  (void)state;
  expect_both(-1,
    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"soma " SOMA_VERSION
    "\",\"target\":\"trn2\",\"dropped_events\":0,\"total_us\":1.6},\"traceEvents\":[\n"
    PROCESS(1, "engines") PROCESS(2, "DMA queues") PROCESS(3, "DMA engines") PROCESS(4, "semaphores")
    PROCESS(5, "memory")
    THREAD(1, 33, "vector") THREAD(1, 65, "scalar") THREAD(1, 96, "scalar sequencer: waits")
    THREAD(1, 145, "sync: DMA triggers") THREAD(1, 160, "sync sequencer: waits") THREAD(2, 1, "q")
    THREAD(3, 97, "DMA engine 3"),
    SLICE(1, 33, "insn", "memset", "0", "0.1", "9", MEMSET, "")
    COUNT(4, "made", "0.13", "value", 1) ",\n"
    SLICE(1, 96, "wait", "wait made", "0", "0.13", "12", COPY, "")
    ARROW(1, 33, "0.099", 96, "0.129")
    SLICE(1, 65, "insn", "tensor_copy", "0.13", "0.2700005", "12", COPY, "")
    COUNT(4, "copied", "0.43", "value", 1) ",\n"
    SLICE(1, 160, "wait", "wait copied", "0.01", "0.42", "15", STORE, "")
    ARROW(2, 65, "0.3990005", 160, "0.429")
    "{\"ph\":\"X\",\"pid\":1,\"tid\":145,\"cat\":\"trigger\",\"name\":\"dma_copy\",\"ts\":0.43,\"dur\":0.6,"
    "\"bind_id\":\"0x1\",\"flow_out\":true,\"args\":{\"source\":\"test.s:15\",\"operands\":\"" STORE "\","
    "\"pc\":0,\"queue\":\"q\",\"bytes\":2048}},\n"
    "{\"ph\":\"X\",\"pid\":3,\"tid\":97,\"cat\":\"dma\",\"name\":\"c\",\"ts\":1.2,\"dur\":0.4,"
    "\"bind_id\":\"0x1\",\"flow_in\":true,\"args\":{\"bytes\":2048,\"queue\":\"q\"}},\n"
    "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"cat\":\"transfer\",\"name\":\"c\",\"ts\":1.2,\"dur\":0.4,"
    "\"bind_id\":\"0x1\",\"flow_in\":true,\"args\":{\"bytes\":2048,\"shares\":1,\"triggered by\":\"sync\"}},\n"
    IN_USE("0", 2048) ",\n" IN_USE("0.13", 4096) ",\n" IN_USE("0.4000005", 2048) ",\n"
    IN_USE("1.6", 0) ",\n" COUNT(2, "pending transfers", "0.43", "pending", 1) ",\n"
    COUNT(2, "pending transfers", "1.6", "pending", 0) ",\n"
    GBS("1.2", "5.12") ",\n" GBS("1.6", "0.00") "\n]}\n");
}

static void tables_of_three_instructions(void **state) {
  (void)state;
  expect(2 * SOMA_TABLE_INSTRUCTION + SOMA_CSV,
    "start_ts,end_ts,duration_ns,engine,pcore_idx,opcode,operands,compiler_opcode,id,pc,"
    "evt_wait_time_ns,nki_source_location,start_fs,duration_fs,packet_aggregation_id,queue_name,"
    "dma_trigger_start_ts,dma_trigger_end_ts,dma_wait_time_ns,semaphore_id,semaphore_increment\n"
    "0,100,100,vector,0,MEMSET,\"" MEMSET "\",memset,0,0,0,test.s:9,0,100000000,,,,,,,\n"
    "130,400,270,scalar,0,TENSOR_COPY,\"" COPY "\",tensor_copy,3,0,130,test.s:12,130000000,"
    "270000500,,,,,,,\n"
    "430,1030,600,sync,0,DMA_COPY,\"" STORE "\",dma_copy,6,0,420,test.s:15,430000000,600000000,"
    "0,q,1200,1600,170,,\n");
  expect(2 * SOMA_TABLE_DMA_PACKET + SOMA_JSON_LINES,
    "{\"start_ts\":1200,\"end_ts\":1600,\"duration_ns\":400,\"pcore_idx\":0,\"id\":7,"
    "\"packet_idx\":3,\"packet_aggregation_id\":0,\"engine_idx\":3,\"read_bytes\":2048,"
    "\"write_bytes\":2048,\"transfer_bytes\":2048,\"throughput\":5.12e+09,"
    "\"queue_type\":\"hardware_dynamic\",\"variable\":\"c\",\"queue_name\":\"q\","
    "\"queue_idx\":0,\"start_fs\":1200000000,\"duration_fs\":400000000}\n");
  expect(2 * SOMA_TABLE_SEMAPHORE_UPDATE + SOMA_CSV,
    "timestamp,id,value,update_source,update_operation_type,update_trigger_timing,pcore_idx,"
    "timestamp_fs\n"
    "130,S[0] (made),1,Vector,sem_inc,complete,0,130000000\n"
    "430,S[1] (copied),1,Scalar,sem_inc,complete,0,430000000\n");
  expect(2 * SOMA_TABLE_ACTIVE_TIME + SOMA_CSV,
    "start_ts,end_ts,engine,pcore_idx,duration_ns,start_fs,duration_fs\n"
    "0,100,vector,0,100,0,100000000\n130,400,scalar,0,270,130000000,270000500\n");
}
/* clang-format on */

/* 40 columns of 40 ns: memset fills 2.5, the copy 6.75 from the fourth on, the share the last 10.
 */
static void timeline_of_three_instructions(void **state) {
  (void)state;
  expect(-2, "           |0 ns         |560.0 ns     |1.12 us\n"
             "vector    |##+                                     |   6.2 %\n"
             "scalar    |...+######-                             |  16.9 %\n"
             "sync      |...........                             |   0.0 %\n"
             "q         |                              1111111111|  25.0 %\n"
             "           engines: # busy, + at least half of the column, - less, . waiting\n"
             "           queues: rings at work, 1-9 a-g (16), . less than one; % of these rings\n"
             "           1.60 us in all, a column is 40.00 ns\n");
}

static void active_time_is_a_union(void **state) {
  (void)state;
  const soma_event e[] = {
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 10 * NS, .end = 40 * NS},
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 20 * NS, .end = 60 * NS},
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 60 * NS, .end = 70 * NS},
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 80 * NS, .end = 100 * NS}};
  text got = {0};
  write_all(three, e, 4, 2 * SOMA_TABLE_ACTIVE_TIME + SOMA_CSV, &got);
  assert_non_null(strstr(got.s, "\n10,70,vector,0,60,10000000,60000000\n80,100,vector,"));
  got.n = 0;
  write_all(three, e, 4, 2 * SOMA_TABLE_SUMMARY + SOMA_JSON_LINES, &got);
  assert_non_null(strstr(got.s, "\"vector_engine_instruction_time\":0.0000001,"));
  assert_non_null(strstr(got.s, "\"vector_engine_active_time\":0.00000008,"
                                "\"vector_engine_active_time_percent\":80,"));
  got.n = 0;
  write_all(three, e, 4, -1, &got); /* the second lies beside the first, the third on its track */
  assert_int_equal(count_of(got.s, "\"tid\":34,\"cat\":\"insn\""), 1);
  assert_int_equal(count_of(got.s, "\"tid\":33,\"cat\":\"insn\""), 3);
  assert_non_null(strstr(got.s, "\"vector (overlap 1)\""));
  free(got.s);
}

/* Two shares and a ring without one: each signals 330 ns after its end, and the wait ends with the
 * second share. The store's update is @read, so it is there before its instruction has ended. */
static void arrows_find_shares_and_reads(void **state) {
  (void)state;
  static const char source[] = "        target  trn2\n"
                               "a       tensor  float32[128, 4], input\n"
                               "t       tile    sbuf float32[128, 4]\n"
                               "u       tile    sbuf float32[128, 4]\n"
                               "full    sem\n"
                               "free    sem\n"
                               "q       queue   rings=3, dge=hwdge\n"
                               "section sync\n"
                               "        dma_copy t, a, queue=q  $full\n"
                               "        nop     $free>=1\n"
                               "        halt\n"
                               "section vector\n"
                               "        tensor_copy u, t  $full>=3  $free++@read\n"
                               "        halt\n";
  const soma_event e[] = {
      {.kind = SOMA_EV_DMA,
       .engine = 0,
       .value = SOMA_SYNC,
       .bytes = 8,
       .start = 700 * NS,
       .end = 1000 * NS},
      {.kind = SOMA_EV_DMA,
       .engine = 1,
       .value = SOMA_SYNC,
       .bytes = 8,
       .start = 700 * NS,
       .end = 1100 * NS},
      {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .value = 1, .start = 1330 * NS, .end = 1330 * NS},
      {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .value = 2, .start = 1331 * NS, .end = 1331 * NS},
      {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .value = 3, .start = 1430 * NS, .end = 1430 * NS},
      {.kind = SOMA_EV_WAIT, .engine = SOMA_VECTOR, .start = 0, .end = 1430 * NS},
      {.kind = SOMA_EV_SEM,
       .engine = SOMA_VECTOR,
       .id = 1,
       .value = 1,
       .start = 1500 * NS,
       .end = 1500 * NS},
      {.kind = SOMA_EV_WAIT,
       .engine = SOMA_SYNC,
       .pc = 1,
       .id = 1,
       .start = 5 * NS,
       .end = 1500 * NS},
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .start = 1430 * NS, .end = 1600 * NS}};
  text got = {0};
  write_all(source, e, sizeof e / sizeof *e, -3, &got);
  /* The last number of an event: how many events ago is the one it follows from. */
  const char *want = "\n2,0,0,0,4,1000000,300000,8,0,\n2,1,0,0,4,100000,400000,8,0,"
                     "\n3,4,0,0,1,230000,0,0,2,\n3,4,0,0,2,1000,0,0,0,"
                     "\n3,4,0,0,3,99000,0,0,3,\n5,1,1,0,0,0,1430000,0,1,"
                     "\n3,1,1,1,1,70000,0,0,-2,\n5,4,2,1,0,0,1495000,0,1,"
                     "\n1,1,1,0,0,100000,170000,0,3]";
  char *events = strstr(got.s, "\"events\":[");
  assert_non_null(events);
  events += strlen("\"events\":[");
  char *end = strstr(events, "],");
  assert_non_null(end);
  end[1] = 0;
  assert_string_equal(events, want);
  free(got.s);
}

/* ---- What must hold of any trace ---------------------------------------------------------- */

static void every_output_is_well_formed(void **state) {
  (void)state;
  const soma_event odd[] = {
      {.kind = SOMA_EV_INSN, .engine = SOMA_VECTOR, .pc = 900, .start = 5, .end = 7},
      {.kind = SOMA_EV_INSN, .engine = 77, .end = 1},
      {.kind = SOMA_EV_SEM, .engine = 255, .id = 9, .value = 3},
      {.kind = SOMA_EV_SEM, .engine = 255, .id = 90000, .value = UINT32_MAX},
      {.kind = SOMA_EV_DMA, .engine = 200, .id = 70000, .value = 8, .end = 1},
      {.kind = SOMA_EV_DMA, .engine = 2, .id = 9, .value = SOMA_SYNC, .end = UINT64_MAX},
      {.kind = SOMA_EV_WAIT, .engine = 9, .id = 1000, .end = UINT64_MAX},
      {.kind = SOMA_EV_NOTIFY, .engine = SOMA_SYNC, .pc = 3, .id = UINT32_MAX},
      {.kind = SOMA_EV_TRIGGER, .engine = SOMA_SYNC, .id = 16, .part = 3, .end = 9},
      {.kind = SOMA_EV_TRIGGER, .engine = 90, .id = 15, .value = 700, .part = 40000, .end = 9},
      {.kind = SOMA_EV_TRIGGER, .engine = SOMA_SYNC, .id = 15, .value = 300, .part = 7, .end = 9},
      {.kind = SOMA_EV_DMA, .engine = 2, .id = 15, .value = 77, .part = 20000, .end = 9},
      {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .id = 9, .value = 3, .part = 65535},
      {.kind = SOMA_EV_SEM, .engine = SOMA_SYNC, .id = 9, .value = 3, .part = 256},
      {.kind = 40, .engine = 1}};
  for (int which = -3; which < 2 * SOMA_TABLES; which++)
    for (size_t n = 0; n <= sizeof odd / sizeof *odd; n++) {
      text got = {0};
      write_all(three, odd, n, which, &got);
      if (which == -1) assert_true(json_ok(got.s));
      char *line = which >= 0 && which % 2 ? got.s : NULL;
      for (char *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        assert_true(json_ok(line));
      }
      free(got.s);
    }
}

static void strings_are_escaped(void **state) {
  (void)state;
  bed b = {0};
  soma_recorder *r = recorder_of(NULL, story, STORY);
  text got = {0};
  assert_int_equal(soma_machine_new(NULL, &b.m), SOMA_OK);
  assert_int_equal(soma_assemble(b.m, three, strlen(three), "a\"b\\,</script>\x01\xff\xc3\xa9.s",
                                 NULL, &b.p, NULL),
                   SOMA_OK);
  assert_int_equal(soma_write_chrome(r, b.p, add_text, &got), SOMA_OK);
  assert_true(json_ok(got.s));
  assert_non_null(strstr(got.s, "a\\\"b\\\\,\\u003c/script>\\u0001\\ufffd\xc3\xa9.s:9"));
  got.n = 0;
  assert_int_equal(soma_write_table(r, b.p, SOMA_TABLE_INSTRUCTION, SOMA_CSV, add_text, &got),
                   SOMA_OK);
  assert_non_null(strstr(got.s, ",\"a\"\"b\\,</script>"));
  got.n = 0;
  assert_int_equal(soma_write_html(r, b.p, NULL, NULL, add_text, &got), SOMA_OK);
  assert_int_equal(count_of(got.s, "</script>"), 2);
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
}

static void a_run_balances(void **state) {
  (void)state;
  soma_recorder *r = recorder_of(NULL, NULL, 0);
  soma_options o = SOMA_OPTIONS_INIT;
  soma_stats s;
  soma_event e;
  text got = {0};
  o.event = soma_recorder_event;
  o.event_ud = r;
  bed b = bed_open(&o, three);
  bed_run(&b, SOMA_OK);
  soma_run_stats(b.r, &s, sizeof s);
  soma_recorder_stats(r, &s, sizeof s);
  uint64_t bytes = 0, busy[SOMA_ENGINES] = {0}, waits[SOMA_ENGINES] = {0}, last = 0;
  for (uint64_t i = 0; soma_recorder_get(r, b.p, i, &e) == SOMA_OK; i++) {
    uint64_t came = e.kind == SOMA_EV_TRIGGER ? e.start : e.end;
    assert_true(came >= last && e.start <= e.end);
    last = came;
    bytes += e.kind == SOMA_EV_DMA ? e.bytes : 0;
    if (e.kind == SOMA_EV_INSN) busy[e.engine] += e.end - e.start;
    if (e.kind == SOMA_EV_WAIT) waits[e.engine] += e.end - e.start;
  }
  assert_int_equal(bytes, s.dma_bytes);
  assert_int_equal(bytes, 128 * 16);
  for (unsigned k = 0; k < SOMA_ENGINES; k++) {
    assert_int_equal(busy[k], s.engine[k].busy);
    assert_int_equal(waits[k], s.engine[k].waiting);
  }
  assert_int_equal(soma_write_chrome(r, b.p, add_text, &got), SOMA_OK);
  assert_true(json_ok(got.s));
  assert_int_equal(count_of(got.s, "\"ph\":\"s\""), 2);
  assert_int_equal(count_of(got.s, "\"ph\":\"f\""), 2);
  got.n = 0;
  assert_int_equal(soma_write_table(r, b.p, SOMA_TABLE_SUMMARY, SOMA_JSON_LINES, add_text, &got),
                   SOMA_OK);
  assert_non_null(strstr(got.s, "\"dma_transfer_count\":1,\"dma_transfer_total_bytes\":2048,"));
  assert_non_null(strstr(got.s, "\"hbm_read_bytes\":0,\"hbm_write_bytes\":2048,"));
  free(got.s);
  bed_close(&b);
  soma_recorder_free(r);
}

/* ---- Failures ----------------------------------------------------------------------------- */

static void running_out_of_memory_is_a_status(void **state) {
  (void)state;
  bed b = bed_open(NULL, three);
  for (int which = -3; which < 2 * SOMA_TABLES; which++) {
    soma_status s = SOMA_NOMEM;
    for (int left = 0; s != SOMA_OK; left++) {
      purse u = {left};
      soma_recorder_options o = SOMA_RECORDER_OPTIONS_INIT;
      soma_recorder *r;
      text got = {0};
      o.alloc = spend;
      o.alloc_ud = &u;
      s = soma_recorder_new(&o, &r);
      for (int i = 0; r && i < STORY; i++) soma_recorder_event(r, &story[i]);
      if (s == SOMA_OK) assert_int_equal(soma_recorder_count(r) + soma_recorder_dropped(r), STORY);
      if (s == SOMA_OK)
        s = which == -1   ? soma_write_chrome(r, b.p, add_text, &got)
            : which == -2 ? soma_write_timeline(r, b.p, 0, add_text, &got)
            : which == -3 ? soma_write_html(r, b.p, NULL, "", add_text, &got)
                          : soma_write_table(r, b.p, (soma_table)(which / 2),
                                             (soma_table_format)(which % 2), add_text, &got);
      assert_true(s == SOMA_OK || s == SOMA_NOMEM);
      assert_true(left < 1000);
      free(got.s);
      soma_recorder_free(r);
    }
  }
  bed_close(&b);
}

static void a_sink_that_refuses_ends_the_writing(void **state) {
  (void)state;
  bed b = bed_open(NULL, three);
  soma_recorder *r = recorder_of(NULL, story, STORY);
  text got = {.room = 100};
  assert_int_equal(soma_write_chrome(r, b.p, add_text, &got), SOMA_IO);
  assert_int_equal(soma_write_html(r, b.p, NULL, "", add_text, &got), SOMA_IO);
  assert_int_equal(soma_write_timeline(r, b.p, 80, add_text, &got), SOMA_IO);
  assert_int_equal(soma_write_table(r, b.p, SOMA_TABLES, SOMA_CSV, add_text, &got), SOMA_ARG);
  assert_null(soma_table_name(SOMA_TABLES));
  free(got.s);
  soma_recorder_free(r);
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_events_with_their_strings),
      cmocka_unit_test(a_full_recorder_keeps_the_first_or_the_last),
      cmocka_unit_test(filters_by_kind_engine_and_time),
      cmocka_unit_test(chrome_trace_of_three_instructions),
      cmocka_unit_test(tables_of_three_instructions),
      cmocka_unit_test(timeline_of_three_instructions),
      cmocka_unit_test(active_time_is_a_union),
      cmocka_unit_test(arrows_find_shares_and_reads),
      cmocka_unit_test(every_output_is_well_formed),
      cmocka_unit_test(strings_are_escaped),
      cmocka_unit_test(a_run_balances),
      cmocka_unit_test(running_out_of_memory_is_a_status),
      cmocka_unit_test(a_sink_that_refuses_ends_the_writing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
