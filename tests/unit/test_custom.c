/* Custom operators in C: what they see and may do, what they cost, and that what they do wrong
 * stays with them. */
#include <math.h>
#include <stdbool.h>

#include "countdown.h"
#include "vm_bed.h"

#define HEAD "target trn2\n"

typedef struct probe {
  bed *b;
  int calls;
  float seen[64];
  soma_status inside[15];
  soma_tensor *device;
} probe;

static soma_custom_op op_of(soma_custom_fn fn, void *ud) {
  soma_custom_op op = SOMA_CUSTOM_OP_INIT;
  op.fn = fn;
  op.ud = ud;
  return op;
}

static void set(bed *b, const char *name, soma_custom_op op) {
  if (soma_custom_set(b->m, name, &op) != SOMA_OK) fail_msg("%s", soma_error(b->m));
}

static void tile(bed *b, uint32_t i, uint32_t partition, void *data, size_t n, bool writes) {
  soma_tile_info at;
  assert_int_equal(soma_program_tile(b->p, i, &at), SOMA_OK);
  soma_status s =
      writes ? soma_memory_write(b->m, at.memory, at.partition + partition, at.offset, data, n)
             : soma_memory_read(b->m, at.memory, at.partition + partition, at.offset, data, n);
  assert_int_equal(s, SOMA_OK);
}

/* ---- What it sees ------------------------------------------------------------------------- */

static soma_status looks(void *ud, soma_call *c) {
  probe *p = ud;
  soma_operand o;
  p->calls++;
  assert_int_equal(soma_call_dsts(c), 2);
  assert_int_equal(soma_call_srcs(c), 1);
  assert_int_equal(soma_call_imms(c), 2);
  assert_true(soma_call_imm(c, 0) == 1.5f && soma_call_imm(c, 1) == -2.0f);
  assert_true(soma_call_imm(c, 2) == 0);
  assert_int_equal(soma_call_operand(c, 3, &o), SOMA_ARG);
  assert_int_equal(soma_call_operand(c, 1, &o), SOMA_OK);
  assert_string_equal(o.name, "dst1");
  assert_true(o.writable);
  assert_int_equal(o.dtype, SOMA_BFLOAT16);
  assert_int_equal(o.partition, 32);
  assert_int_equal(o.partitions, 2);
  assert_int_equal(o.elements, 6);
  assert_int_equal(soma_call_operand(c, 2, &o), SOMA_OK);
  assert_string_equal(o.name, "src0");
  assert_false(o.writable);
  assert_int_equal(o.ndim, 3);
  assert_int_equal(o.shape[0], 2);
  assert_int_equal(o.shape[1], 2);
  assert_int_equal(o.shape[2], 3);
  /* Columns 1, 3, 5 of rows 0 and 1 of a 2 x 8 tile, in order. */
  for (uint32_t part = 0; part < 2; part++)
    assert_int_equal(soma_call_load(c, 2, part, 0, 6, p->seen + 6 * part), SOMA_OK);
  assert_int_equal(soma_call_store(c, 0, 1, 2, 3, p->seen), SOMA_OK);
  uint16_t bits[2] = {0x3f80, 0x7fc1};
  assert_int_equal(soma_call_write(c, 1, 0, 4, 2, bits), SOMA_OK);
  assert_int_equal(soma_call_load(c, 1, 0, 4, 1, p->seen + 12), SOMA_OK);
  assert_int_equal(soma_call_load(c, 0, 0, 0, 0, NULL), SOMA_OK);
  return SOMA_OK;
}

static void operands_and_elements(void **state) {
  (void)state;
  probe p = {0};
  bed b = bed_open(NULL, HEAD "x tile sbuf int16[2, 2, 8]\no tile sbuf uint8[2, 8]\n"
                              "v tile sbuf bfloat16[2, 6], part=32\nsection gpsimd\n"
                              " custom_op \"look\", dsts=[o, v], srcs=[x.ap([[8, 2], [2, 3]], "
                              "offset=1)], imms=[1.5, -2.0]\n halt\n");
  p.b = &b;
  set(&b, "look", op_of(looks, &p));
  bed_start(&b);
  int16_t x[16];
  uint8_t o[8], was[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  for (int row = 0; row < 2; row++) {
    for (int i = 0; i < 16; i++) x[i] = (int16_t)(100 * row + i);
    tile(&b, 0, (uint32_t)row, x, sizeof x, true);
    tile(&b, 1, (uint32_t)row, was, sizeof was, true);
  }
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(p.calls, 1);
  static const float want[13] = {1, 3, 5, 9, 11, 13, 101, 103, 105, 109, 111, 113, 1};
  for (int i = 0; i < 13; i++) assert_true(p.seen[i] == want[i]);
  static const uint8_t stored[8] = {9, 9, 1, 3, 5, 9, 9, 9};
  tile(&b, 1, 1, o, sizeof o, false);
  assert_memory_equal(o, stored, sizeof o);
  tile(&b, 1, 0, o, sizeof o, false);
  assert_memory_equal(o, was, sizeof o);
  uint16_t v[6];
  tile(&b, 2, 0, v, sizeof v, false);
  assert_int_equal(v[4], 0x3f80);
  assert_int_equal(v[5], 0x7fc1);
  bed_close(&b);
}

/* In place: the source stays what it was at the start while the destination is stored to. */
static soma_status reverses(void *ud, soma_call *c) {
  (void)ud;
  float x;
  for (uint64_t i = 0; i < 8; i++) {
    if (soma_call_load(c, 1, 0, 7 - i, 1, &x) != SOMA_OK) return SOMA_FAULT;
    if (soma_call_store(c, 0, 0, i, 1, &x) != SOMA_OK) return SOMA_FAULT;
  }
  return SOMA_OK;
}

static void in_place(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 8]\nsection gpsimd\n"
                              " custom_op \"turn\", dsts=[x], srcs=[x]\n halt\n");
  set(&b, "turn", op_of(reverses, NULL));
  bed_start(&b);
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  tile(&b, 0, 0, x, sizeof x, true);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  tile(&b, 0, 0, x, sizeof x, false);
  for (int i = 0; i < 8; i++) assert_true(x[i] == 7 - (float)i);
  bed_close(&b);
}

/* Another engine overwrites the source between start and done: the function sees the old one; and
 * the destination keeps its bytes until done. */
static void source_as_of_the_start(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 8]\no tile sbuf float32[1, 8]\n"
                              "u tile sbuf float32[1, 8]\ns sem\nsection gpsimd\n"
                              " custom_op \"turn\", dsts=[o], srcs=[x]  $s++\n halt\n"
                              "section vector\n memset u, 5.0\n nop\n nop\n memset x, 3.0\n"
                              " tensor_copy u, o\n halt\n");
  soma_custom_op op = op_of(reverses, NULL);
  op.cycles = 100000; /* long after the vector engine */
  set(&b, "turn", op);
  bed_start(&b);
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, o[8];
  tile(&b, 0, 0, x, sizeof x, true);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  tile(&b, 1, 0, o, sizeof o, false);
  for (int i = 0; i < 8; i++) assert_true(o[i] == 7 - (float)i);
  tile(&b, 2, 0, o, sizeof o, false); /* vector's copy of o came before done */
  for (int i = 0; i < 8; i++) assert_true(o[i] == 0);
  bed_close(&b);
}

/* ---- What it costs ------------------------------------------------------------------------ */

static soma_status nothing(void *ud, soma_call *c) {
  (void)c;
  if (ud) ++*(int *)ud;
  return SOMA_OK;
}

static soma_time time_with(uint64_t cycles, double each, int timing_only, int *calls) {
  soma_options o = SOMA_OPTIONS_INIT;
  o.timing_only = timing_only;
  bed b = bed_open(&o, HEAD "x tile sbuf int8[4, 1000]\no tile sbuf int8[2, 7]\nsection gpsimd\n"
                            " custom_op \"op\", dsts=[o], srcs=[x]\n halt\n");
  soma_custom_op op = op_of(nothing, calls);
  op.cycles = cycles;
  op.cycles_per_element = each;
  set(&b, "op", op);
  bed_run(&b, SOMA_OK);
  soma_time t = bed_stats(&b).time;
  bed_close(&b);
  return t;
}

/* gpsimd has 1.2 GHz on trn2: 6000 cycles are 5 us. */
static void declared_cost(void **state) {
  (void)state;
  int calls = 0;
  soma_time none = time_with(0, 0, 0, &calls);
  assert_int_equal(time_with(6000, 0, 0, &calls) - none, UINT64_C(5000000000));
  assert_int_equal(time_with(0, 6, 0, &calls) - none, UINT64_C(5000000000));
  assert_int_equal(time_with(3000, 2.9991, 0, &calls) - none,
                   UINT64_C(5000000000)); /* rounded up */
  assert_int_equal(calls, 4);
  assert_int_equal(time_with(6000, 0, 1, &calls) - none, UINT64_C(5000000000));
  assert_int_equal(calls, 4); /* a run that only takes its time computes nothing */
}

/* ---- What goes wrong ---------------------------------------------------------------------- */

static soma_status wrong(void *ud, soma_call *c) {
  float x[8] = {0};
  soma_call_store(c, 0, 0, 0, 8, x); /* must not reach the tile */
  switch (*(int *)ud) {
  case 0: return soma_call_fail(c, "of its own");
  case 1: return SOMA_NOMEM;
  case 2: soma_call_load(c, 1, 0, 7, 2, x); break;
  case 3: soma_call_load(c, 1, 1, 0, 1, x); break;
  case 4: soma_call_store(c, 1, 0, 0, 1, x); break;
  case 5: soma_call_read(c, 2, 0, 0, 1, x); break;
  case 6: soma_call_write(c, 0, 0, UINT64_MAX, 2, x); break;
  case 7: soma_call_load(c, 0, 0, 9, 0, x); break;
  default: return soma_call_fail(c, NULL);
  }
  return soma_call_fail(c, "not the first");
}

static void faults_are_contained(void **state) {
  (void)state;
  static const char *const want[] = {
      "custom_op \"bad\": of its own",
      "custom_op \"bad\": out of memory",
      "custom_op \"bad\": 2 elements from element 7 of partition 0: operand 1 has 1 x 8",
      "custom_op \"bad\": 1 elements from element 0 of partition 1: operand 1 has 1 x 8",
      "custom_op \"bad\": src0 is a source: it cannot be stored to",
      "custom_op \"bad\": operand 2 does not exist: there are 2",
      ("custom_op \"bad\": 2 elements from element 18446744073709551615 of partition 0: operand 0 "
       "has 1 x 8"),
      "custom_op \"bad\": 0 elements from element 9 of partition 0: operand 0 has 1 x 8",
      "custom_op \"bad\": it failed",
  };
  for (int i = 0; i < 9; i++) {
    bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 8]\no tile sbuf float32[1, 8]\n"
                                "section gpsimd\n custom_op \"bad\", dsts=[o], srcs=[x]\n halt\n");
    set(&b, "bad", op_of(wrong, &i));
    bed_start(&b);
    float o[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[8];
    tile(&b, 1, 0, o, sizeof o, true);
    assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_FAULT);
    soma_fault f;
    soma_run_fault(b.r, &f);
    assert_string_equal(f.text, want[i]);
    assert_int_equal(f.engine, SOMA_GPSIMD);
    assert_int_equal(f.line, 5);
    tile(&b, 1, 0, got, sizeof got, false);
    assert_memory_equal(o, got, sizeof o);
    bed_close(&b);
  }
}

static soma_status packed(void *ud, soma_call *c) {
  float x;
  uint32_t bits;
  (void)ud;
  if (soma_call_read(c, 1, 0, 0, 1, &bits) != SOMA_OK) return SOMA_FAULT;
  if (soma_call_write(c, 0, 0, 0, 1, &bits) != SOMA_OK) return SOMA_FAULT;
  soma_call_load(c, 1, 0, 0, 1, &x);
  return SOMA_OK;
}

static void packed_types_are_bytes(void **state) {
  (void)state;
  bed b = bed_open(NULL, "target trn3\nx tile sbuf float8_e5m2_x4[1, 2]\n"
                         "o tile sbuf float8_e5m2_x4[1, 2]\n"
                         "section gpsimd\n custom_op \"p\", dsts=[o], srcs=[x]\n halt\n");
  set(&b, "p", op_of(packed, NULL));
  bed_run(&b, SOMA_FAULT);
  bed_fault_has(&b, "operand 1 is float8_e5m2_x4: a packed element is not a number");
  bed_close(&b);
}

/* Whatever it tries with the machine is refused, and nothing of it is freed under the run. */
static soma_status reenters(void *ud, soma_call *c) {
  probe *p = ud;
  bed *b = p->b;
  uint32_t v;
  float x[8];
  soma_run *r = NULL;
  soma_tensor *t = NULL;
  static const int64_t one[1] = {1};
  soma_custom_op op = op_of(nothing, NULL);
  (void)c;
  soma_status got[] = {soma_run_until(b->r, SOMA_END, SOMA_SYNC, 0),
                       soma_run_start(b->m, b->p, &r),
                       soma_custom_set(b->m, "other", &op),
                       soma_memory_read(b->m, SOMA_SBUF, 0, 0, x, 4),
                       soma_memory_write(b->m, SOMA_SBUF, 0, 0, x, 4),
                       soma_semaphore_get(b->m, 0, &v),
                       soma_semaphore_set(b->m, 0, 1),
                       soma_register_get(b->m, SOMA_SYNC, 0, &v),
                       soma_register_set(b->m, SOMA_SYNC, 0, 1),
                       soma_fetch(b->r, "h", x, 4),
                       soma_bind(b->m, b->p, "h", SOMA_FLOAT32, 1, one, x),
                       soma_bind_shared(b->m, b->p, "h", SOMA_FLOAT32, 1, one, x),
                       soma_bind_tensor(b->m, b->p, "h", p->device),
                       soma_tensor_new(b->m, SOMA_FLOAT32, 1, one, &t),
                       soma_move_to_device(b->m, b->p)};
  _Static_assert(sizeof got == sizeof p->inside, "each has its place");
  memcpy(p->inside, got, sizeof got);
  soma_run_free(b->r);
  soma_machine_free(b->m);
  p->calls++;
  return SOMA_OK;
}

static void no_way_back_in(void **state) {
  (void)state;
  bed b = bed_open(NULL, HEAD "h tensor float32[1]\nx tile sbuf float32[1, 8]\n"
                              "section gpsimd\n custom_op \"in\", dsts=[x]\n halt\n");
  probe p = {.b = &b};
  assert_int_equal(soma_tensor_new(b.m, SOMA_FLOAT32, 1, (int64_t[]){1}, &p.device), SOMA_OK);
  set(&b, "in", op_of(reenters, &p));
  bed_run(&b, SOMA_OK);
  assert_int_equal(p.calls, 1);
  for (size_t i = 0; i < sizeof p.inside / sizeof *p.inside; i++)
    assert_int_equal(p.inside[i], SOMA_BUSY);
  soma_tensor_free(p.device);
  bed_close(&b);
}

/* A saved run asks for its operators as a start does: the file may come from anyone. */
static void saved_runs_ask_too(void **state) {
  (void)state;
  const char *text = HEAD "x tile sbuf float32[1, 8]\nsection gpsimd\n nop\n"
                          " custom_op \"f\", dsts=[x]\n halt\n";
  int calls = 0;
  void *data;
  size_t n;
  bed b = bed_open(NULL, text), other = bed_open(NULL, text);
  soma_program *p;
  soma_run *r;
  soma_custom_op op = op_of(nothing, &calls);
  set(&b, "f", op);
  bed_start(&b);
  assert_int_equal(soma_run_until(b.r, SOMA_EVENT, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(soma_run_save(b.r, &data, &n), SOMA_OK);
  assert_int_equal(soma_run_resume(other.m, data, n, &p, &r), SOMA_ILLEGAL);
  assert_null(r);
  assert_non_null(strstr(soma_error(other.m), "test.s:5: no operator \"f\" is registered"));
  op.dst_types[0] = 1u << SOMA_INT64;
  set(&other, "f", op);
  assert_int_equal(soma_run_resume(other.m, data, n, &p, &r), SOMA_ILLEGAL);
  assert_non_null(strstr(soma_error(other.m), "does not take float32 as dst0"));
  op.dst_types[0] = 1u << SOMA_FLOAT32;
  set(&other, "f", op);
  assert_int_equal(soma_run_resume(other.m, data, n, &p, &r), SOMA_OK);
  assert_int_equal(soma_run_until(r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(calls, 1);
  soma_bytes_free(data);
  soma_run_free(r);
  soma_program_free(p);
  bed_close(&other);
  bed_close(&b);
}

/* ---- Registration ------------------------------------------------------------------------- */

static void refused_start(bed *b, const char *text) {
  soma_run *r;
  assert_int_equal(soma_run_start(b->m, b->p, &r), SOMA_ILLEGAL);
  assert_null(r);
  if (!strstr(soma_error(b->m), text)) fail_msg("\"%s\", not \"%s\"", soma_error(b->m), text);
}

static void what_a_program_needs(void **state) {
  (void)state;
  int calls = 0;
  bed b = bed_open(NULL, HEAD "x tile sbuf float32[1, 8]\no tile sbuf int8[1, 8]\nsection gpsimd\n"
                              " nop\n custom_op \"f\", dsts=[o], srcs=[x, x]\n halt\n");
  soma_custom_op op = op_of(nothing, &calls);
  refused_start(&b, "test.s:6: no operator \"f\" is registered");
  set(&b, "ff", op);
  refused_start(&b, "no operator \"f\"");
  op.dsts = 2;
  set(&b, "f", op);
  refused_start(&b, "test.s:6: operator \"f\" takes 2 dsts, not 1");
  op.dsts = 1;
  op.srcs = 1;
  set(&b, "f", op);
  refused_start(&b, "takes 1 srcs, not 2");
  op.srcs = 2;
  op.imms = 1;
  set(&b, "f", op);
  refused_start(&b, "takes 1 imms, not 0");
  op.imms = 0;
  op.dst_types[0] = 1u << SOMA_INT8;
  op.src_types[1] = 1u << SOMA_BFLOAT16 | 1u << SOMA_INT32;
  set(&b, "f", op);
  refused_start(&b, "operator \"f\" does not take float32 as src1");
  op.src_types[1] |= 1u << SOMA_FLOAT32;
  set(&b, "f", op);
  assert_int_equal(soma_custom_set(b.m, "ff", NULL), SOMA_OK);
  bed_start(&b);
  assert_int_equal(soma_custom_set(b.m, "f", NULL), SOMA_BUSY);
  assert_int_equal(soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0), SOMA_OK);
  assert_int_equal(calls, 1);
  assert_int_equal(soma_custom_set(b.m, "f", NULL), SOMA_OK);
  assert_int_equal(soma_custom_set(b.m, "f", NULL), SOMA_ARG);
  bed_close(&b);
}

static void bad_registrations(void **state) {
  (void)state;
  soma_machine *m;
  char name[300];
  assert_int_equal(soma_machine_new(NULL, &m), SOMA_OK);
  soma_custom_op good = op_of(nothing, NULL), op = good;
  op.size--;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.fn = NULL;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.cycles = (1u << 30) + 1u;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.cycles_per_element = -0.5;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.cycles_per_element = (double)NAN;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.srcs = 17;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  op = good, op.imms = -2;
  assert_int_equal(soma_custom_set(m, "f", &op), SOMA_ARG);
  assert_int_equal(soma_custom_set(m, "", &good), SOMA_ARG);
  memset(name, 'a', sizeof name);
  name[256] = 0;
  assert_int_equal(soma_custom_set(m, name, &good), SOMA_ARG);
  name[255] = 0;
  assert_int_equal(soma_custom_set(m, name, &good), SOMA_OK);
  soma_machine_free(m);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state) {
  (void)state;
  static const char source[] =
      "target trn3\nx tile sbuf float32[1, 8]\ny tile sbuf float32[1, 8]\ni tile sbuf uint8[8, 1]\n"
      "u tile sbuf float32[1, 3]\nsection gpsimd\n"
      " custom_op \"turn\", dsts=[y], srcs=[x]\n halt\n"
      "section vector\n memset i, 2\n tensor_copy u, x.indirect(i, 3)\n memset x, 1.0\n halt\n";
  int ended = 0;
  for (long fail_at = 0; fail_at < 3000 && !ended; fail_at++) {
    struct countdown c = {fail_at, 0};
    soma_options o = SOMA_OPTIONS_INIT;
    soma_machine *m = NULL;
    soma_program *p = NULL;
    soma_run *r = NULL;
    o.alloc = counting;
    o.alloc_ud = &c;
    o.target = "trn3";
    if (soma_machine_new(&o, &m) == SOMA_OK) {
      soma_custom_op op = op_of(reverses, NULL);
      op.cycles = 10000;
      soma_status s = soma_custom_set(m, "turn", &op);
      if (s == SOMA_OK) s = soma_assemble(m, source, strlen(source), "t.s", NULL, &p, NULL);
      if (s == SOMA_OK) s = soma_run_start(m, p, &r);
      if (s == SOMA_OK) s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
      ended = s == SOMA_OK;
      if (!ended && s != SOMA_NOMEM)
        fail_msg("allocation %ld failing gives: %s (%s)", fail_at, soma_status_text(s),
                 soma_error(m));
    }
    soma_run_free(r);
    soma_program_free(p);
    soma_machine_free(m);
    if (c.alive) fail_msg("allocation %ld failing leaves %ld bytes", fail_at, c.alive);
  }
  assert_true(ended);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_and_elements),
      cmocka_unit_test(in_place),
      cmocka_unit_test(source_as_of_the_start),
      cmocka_unit_test(declared_cost),
      cmocka_unit_test(faults_are_contained),
      cmocka_unit_test(packed_types_are_bytes),
      cmocka_unit_test(no_way_back_in),
      cmocka_unit_test(saved_runs_ask_too),
      cmocka_unit_test(what_a_program_needs),
      cmocka_unit_test(bad_registrations),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
