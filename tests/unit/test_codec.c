/* Records there and back: every opcode with random fields; every byte without meaning refused. */
#include "../../isa/program.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t rnd32(uint32_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 17;
  *s ^= *s << 5;
  return *s;
}

/* 0 .. n - 1, its ends more often than by chance. */
static uint32_t rnd(uint32_t *s, uint32_t n) {
  uint32_t how = rnd32(s) % 8;
  return how == 0 ? 0 : how == 1 ? n - 1 : rnd32(s) % n;
}

static uint32_t any32(uint32_t *s) {
  uint32_t how = rnd32(s) % 8;
  return how == 0 ? 0 : how == 1 ? UINT32_MAX : how == 2 ? 0x80000000u : rnd32(s);
}

static void set(isa_insn *in, const isa_field *f, const void *v, size_t n) {
  memcpy(isa_member(in, f), v, n);
}

static uint32_t set_size(unsigned id) {
  uint32_t n = 0;
  while (isa_set_item(id, n)) n++;
  return n;
}

static void random_pair(isa_insn *in, const isa_field *f, uint32_t *s) {
  bool optional = f->mode == ISA_MODE_D;
  if (f->kind == ISA_K_INT) {
    isa_int x;
    memset(&x, 0, sizeof x);
    x.is_reg = rnd32(s) & 1;
    x.v = x.is_reg ? (int32_t)rnd(s, 64) : (int32_t)any32(s);
    set(in, f, &x, sizeof x);
  } else if (f->kind == ISA_K_NUM) {
    isa_num x;
    memset(&x, 0, sizeof x);
    x.kind = (uint8_t)(optional ? rnd32(s) % 4 : 1 + rnd32(s) % 3);
    x.v = x.kind == ISA_NUM_none ? 0 : x.kind == ISA_NUM_reg ? rnd(s, 64) : any32(s);
    if (x.kind == ISA_NUM_ap) x.v |= 1;
    set(in, f, &x, sizeof x);
  } else if (f->kind == ISA_K_PLACE) {
    isa_point x;
    memset(&x, 0, sizeof x);
    x.engine = (uint8_t)rnd(s, ISA_NENGINES);
    x.pc = any32(s);
    set(in, f, &x, sizeof x);
  } else {
    isa_ref x = {8 * rnd(s, 1u << 29), any32(s)};
    if (x.count == 0) x.offset = 0;
    set(in, f, &x, sizeof x);
  }
}

static void random_field(isa_insn *in, const isa_field *f, uint32_t *s) {
  uint32_t v = 0;
  switch (f->kind) {
  case ISA_K_REG: v = rnd(s, 64); break;
  case ISA_K_AP: v = f->mode == ISA_MODE_D ? any32(s) : any32(s) | 1; break;
  case ISA_K_U8: v = rnd(s, f->arg + 1); break;
  case ISA_K_U16: v = rnd(s, f->arg + 1); break;
  case ISA_K_U32: v = f->arg == UINT32_MAX ? any32(s) : rnd(s, f->arg + 1); break;
  case ISA_K_I32:
  case ISA_K_LABEL: v = any32(s); break;
  case ISA_K_ENUM: v = rnd(s, set_size(f->arg)); break;
  case ISA_K_ALU: v = rnd(s, ISA_NALUOPS); break;
  case ISA_K_ACTF: v = rnd(s, ISA_NACTFNS); break;
  case ISA_K_QUEUE: v = rnd(s, ISA_MAX_QUEUES); break;
  case ISA_K_SEM:
  case ISA_K_GROUP: v = rnd(s, 256); break;
  default: random_pair(in, f, s); return;
  }
  uint8_t b = (uint8_t)v;
  uint16_t h = (uint16_t)v;
  if (isa_kind_bytes[f->kind] == 1)
    set(in, f, &b, 1);
  else if (isa_kind_bytes[f->kind] == 2)
    set(in, f, &h, 2);
  else
    set(in, f, &v, 4);
}

static isa_insn random_insn(unsigned op, uint32_t *s) {
  isa_insn in;
  memset(&in, 0, sizeof in);
  in.op = (uint16_t)op;
  in.wait.cond = (uint8_t)rnd(s, ISA_NCONDS);
  if (in.wait.cond) {
    in.wait.core = rnd32(s) & 1;
    in.wait.sem = (uint8_t)rnd(s, 256);
    in.wait.is_reg = rnd32(s) & 1;
    in.wait.value = in.wait.is_reg ? rnd(s, 64) : rnd(s, 0x80000000u);
  }
  in.upd.kind = (uint8_t)rnd(s, ISA_NUPDS);
  if (in.upd.kind) {
    in.upd.core = rnd32(s) & 1;
    in.upd.sem = (uint8_t)rnd(s, 256);
    in.upd.at_read = in.upd.kind < ISA_UPD_dma && rnd32(s) % 2;
    if (in.upd.kind == ISA_UPD_peer) in.upd.value = rnd(s, ISA_MAX_PEERS + 1);
    if (in.upd.kind == ISA_UPD_add || in.upd.kind == ISA_UPD_sub || in.upd.kind == ISA_UPD_write)
      in.upd.value = rnd(s, 0x80000000u);
  }
  const isa_form *form = isa_form_of(op);
  for (unsigned i = 0; i < form->nfields; i++) random_field(&in, &form->fields[i], s);
  return in;
}

static void test_round_trip(void **state) {
  (void)state;
  uint32_t s = 7;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    for (int i = 0; i < 10000; i++) {
      isa_insn in = random_insn(op, &s), back;
      uint8_t a[ISA_RECORD], b[ISA_RECORD];
      isa_error e = {ISA_OK, 0, ""};
      isa_encode(&in, a);
      if (!isa_decode(a, &back, &e)) fail_msg("%s: %s", isa_ops[op].name, e.text);
      assert_memory_equal(&in, &back, sizeof in);
      isa_encode(&back, b);
      assert_memory_equal(a, b, ISA_RECORD);
    }
}

/* Whatever is accepted after a random change is what the encoder writes for it. */
static void test_law_under_changes(void **state) {
  (void)state;
  uint32_t s = 11;
  int accepted = 0, refused = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    for (int i = 0; i < 2000; i++) {
      isa_insn in = random_insn(op, &s), back;
      uint8_t a[ISA_RECORD], b[ISA_RECORD];
      isa_encode(&in, a);
      a[rnd32(&s) % ISA_RECORD] ^= (uint8_t)(1u << rnd32(&s) % 8);
      isa_error e = {ISA_OK, 0, ""};
      if (!isa_decode(a, &back, &e)) {
        assert_int_equal(e.status, ISA_FORMAT);
        assert_non_null(strstr(e.text, "byte "));
        refused++;
        continue;
      }
      accepted++;
      isa_encode(&back, b);
      assert_memory_equal(a, b, ISA_RECORD);
    }
  assert_true(accepted > 1000 && refused > 1000);
}

static void test_reserved_bytes(void **state) {
  (void)state;
  uint32_t s = 13;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    isa_insn in = random_insn(op, &s), back;
    const isa_form *form = isa_form_of(op);
    unsigned used = 16;
    for (unsigned i = 0; i < form->nfields; i++) used += isa_kind_bytes[form->fields[i].kind];
    for (unsigned at = 6; at < ISA_RECORD; at = at == 7 ? used : at + 1)
      for (int bit = 0; bit < 8; bit++) {
        uint8_t a[ISA_RECORD];
        char place[32];
        isa_error e = {ISA_OK, 0, ""};
        isa_encode(&in, a);
        assert_int_equal(a[at], 0);
        a[at] = (uint8_t)(1 << bit);
        assert_false(isa_decode(a, &back, &e));
        snprintf(place, sizeof place, "byte %u,", at);
        assert_memory_equal(e.text, place, strlen(place));
        snprintf(place, sizeof place, "found %d", 1 << bit);
        assert_non_null(strstr(e.text, place));
      }
  }
}

/* Bytes of one instruction written by hand from the table at the head of codec.c:
 * tensor_scalar p7, p9, op0=mult, imm0=r5, op1=add, imm1=1.5 $1:S[200]>=r3 $S[17]+=1000@read */
static const uint8_t by_hand[ISA_RECORD] = {
    0x83, 0x01, 0x31, 0x13, 200,  17,   0, 0, 3, 0, 0, 0, 0xe8, 0x03, 0, 0, /* 16 */
    7,    0,    0,    0,    9,    0,    0, 0, 4,                            /* dst, src, op0 */
    2,    5,    0,    0,    0,                                              /* imm0 */
    2,    1,    0,    0,    0xc0, 0x3f,                                     /* op1, imm1 */
    0,    1,    0};                                                         /* reverse0, 1, round */

static void test_by_hand(void **state) {
  (void)state;
  isa_insn in;
  uint8_t out[ISA_RECORD];
  assert_true(isa_decode(by_hand, &in, NULL));
  assert_int_equal(in.op, ISA_OP_tensor_scalar);
  assert_int_equal(in.wait.cond, ISA_WAIT_ge);
  assert_int_equal(in.wait.core, 1);
  assert_int_equal(in.wait.is_reg, 1);
  assert_int_equal(in.wait.sem, 200);
  assert_int_equal(in.wait.value, 3);
  assert_int_equal(in.upd.kind, ISA_UPD_add);
  assert_int_equal(in.upd.at_read, 1);
  assert_int_equal(in.upd.core, 0);
  assert_int_equal(in.upd.sem, 17);
  assert_int_equal(in.upd.value, 1000);
  assert_int_equal(in.u.TENSOR_SCALAR.dst, 7);
  assert_int_equal(in.u.TENSOR_SCALAR.src, 9);
  assert_int_equal(in.u.TENSOR_SCALAR.op0, ISA_ALU_mult);
  assert_int_equal(in.u.TENSOR_SCALAR.imm0.kind, ISA_NUM_reg);
  assert_int_equal(in.u.TENSOR_SCALAR.imm0.v, 5);
  assert_int_equal(in.u.TENSOR_SCALAR.op1, ISA_ALU_add);
  assert_int_equal(in.u.TENSOR_SCALAR.imm1.kind, ISA_NUM_imm);
  assert_true(isa_bits_f32(in.u.TENSOR_SCALAR.imm1.v) == 1.5f);
  assert_int_equal(in.u.TENSOR_SCALAR.reverse0, ISA_BOOL_false);
  assert_int_equal(in.u.TENSOR_SCALAR.reverse1, ISA_BOOL_true);
  isa_encode(&in, out);
  assert_memory_equal(out, by_hand, ISA_RECORD);
}

/* The hand-written record with one byte changed, and what the refusal must say. */
static void test_refusals(void **state) {
  (void)state;
  static const struct {
    uint8_t at, value;
    int field;
    const char *text;
  } cases[] = {
      {1, 0x7f, -1, "0x7f83"},
      {2, 0x37, -1, "byte 2"},   /* condition 7 */
      {2, 0x30, -1, "byte 2"},   /* none, with core and register bits */
      {2, 0x51, -1, "byte 2"},   /* core 2 */
      {2, 0x91, -1, "byte 2"},   /* core 4 */
      {3, 0x18, -1, "byte 3"},   /* kind 8 */
      {3, 0x17, -1, "byte 3"},   /* peer with @read */
      {3, 0x10, -1, "byte 3"},   /* none, with @read */
      {3, 0x11, -1, "byte 12"},  /* inc with a value */
      {3, 0x02, -1, "byte 12"},  /* dec with a value */
      {3, 0x16, -1, "byte 3"},   /* dma with @read */
      {3, 0x06, -1, "byte 12"},  /* dma with a value */
      {3, 0x43, -1, "byte 3"},   /* core 2 */
      {8, 64, -1, "found 64"},   /* register 64 */
      {15, 0x80, -1, "byte 12"}, /* over 31 bits */
      {16, 0, 0, "operand dst"},
      {20, 0, 1, "operand src"},
      {24, 34, 2, "byte 24, operand op0: no such ALU operator, found 34"},
      {25, 4, 3, "operand imm0"},
      {25, 0, 3, "operand imm0"},
      {26, 64, 3, "found 64"},
      {36, 2, 6, "operand reverse0"},
      {38, 2, 8, "operand round"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t a[ISA_RECORD];
    isa_insn in;
    isa_error e = {ISA_OK, 99, ""};
    memcpy(a, by_hand, sizeof a);
    a[cases[i].at] = cases[i].value;
    if (isa_decode(a, &in, &e) || !strstr(e.text, cases[i].text) || e.field != cases[i].field)
      fail_msg("byte %u = %u: field %d, %s", cases[i].at, cases[i].value, e.field, e.text);
  }
}

static void test_bounds(void **state) {
  (void)state;
  isa_insn in;
  isa_error e;
  uint8_t a[ISA_RECORD] = {0x20, 0}; /* sem_range_clear: first u8, count u16 at most 256 */
  a[17] = 0, a[18] = 1;
  assert_true(isa_decode(a, &in, &e));
  assert_int_equal(in.u.SEM_RANGE.count, 256);
  a[17] = 1;
  assert_false(isa_decode(a, &in, &e));
  assert_string_equal(e.text, "byte 17, operand count: at most 256, found 257");
  memset(a, 0, sizeof a);
  assert_false(isa_decode(a, &in, &e));
  memset(a, 0, sizeof a);
  a[0] = 0x22, a[16] = ISA_MAX_QUEUES, a[17] = 0; /* dma_trigger queue 24 */
  assert_false(isa_decode(a, &in, &e));
  a[16] = ISA_MAX_QUEUES - 1;
  assert_true(isa_decode(a, &in, &e));
  memset(a, 0, sizeof a);
  a[0] = 0x24, a[16] = 8, a[24] = 1; /* device_print: an empty prefix at 8 */
  assert_false(isa_decode(a, &in, &e));
  a[20] = 1;
  assert_true(isa_decode(a, &in, &e));
  a[16] = 9;
  assert_false(isa_decode(a, &in, &e));
}

/* ---- Patterns ----------------------------------------------------------------------------- */

static uint64_t any64(uint32_t *s) { return any32(s) | (uint64_t)any32(s) << 32; }

static isa_ap random_ap(uint32_t *s) {
  isa_ap a;
  memset(&a, 0, sizeof a);
  a.dtype = (uint8_t)(1 + rnd(s, ISA_NDTYPES - 1));
  a.space = (uint8_t)(1 + rnd(s, 3));
  bool hbm = a.space == ISA_HBM;
  a.ndim = (uint8_t)rnd(s, hbm ? 6 : 5);
  a.part = (uint16_t)(hbm ? 0 : rnd(s, 128));
  a.nparts = (uint16_t)(hbm ? 0 : 1 + rnd(s, 128));
  a.base = any32(s) | hbm;
  a.offset = (int64_t)any64(s);
  a.index_kind = (uint8_t)rnd(s, a.ndim ? 3 : 1);
  if (a.index_kind) a.index = any32(s) | 1;
  if (a.index_kind == ISA_INDEX_gather) a.index_dim = (uint8_t)rnd(s, a.ndim);
  a.size_dim = (uint8_t)rnd(s, a.ndim + 2u);
  if (hbm && a.size_dim == 1) a.size_dim = 0;
  if (a.size_dim) a.size_reg = (uint8_t)rnd(s, 64);
  for (unsigned d = 0; d < a.ndim; d++) a.dim[d] = (isa_dim){(int64_t)any64(s), any32(s) | 1};
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    isa_dyn *y = &a.dyn[i];
    y->kind = (uint8_t)rnd(s, i > 0 && !a.dyn[i - 1].kind ? 1 : 3);
    y->stride = y->kind ? (int64_t)any64(s) : 0;
    y->reg = (uint8_t)(y->kind == ISA_DYN_reg ? rnd(s, 64) : 0);
    y->ap = y->kind == ISA_DYN_elem ? any32(s) | 1 : 0;
  }
  return a;
}

static void test_ap_round_trip(void **state) {
  (void)state;
  uint32_t s = 17;
  int accepted = 0, refused = 0;
  for (int i = 0; i < 50000; i++) {
    isa_ap in = random_ap(&s), back;
    uint8_t a[ISA_AP_RECORD], b[ISA_AP_RECORD];
    isa_error e = {ISA_OK, 0, ""};
    isa_encode_ap(&in, a);
    if (!isa_decode_ap(a, &back, &e)) fail_msg("%s", e.text);
    assert_true(isa_ap_equal(&in, &back));
    isa_encode_ap(&back, b);
    assert_memory_equal(a, b, sizeof a);
    a[rnd32(&s) % ISA_AP_RECORD] ^= (uint8_t)(1u << rnd32(&s) % 8);
    if (!isa_decode_ap(a, &back, &e)) {
      refused++;
      assert_memory_equal(e.text, "pattern, byte ", 14);
      continue;
    }
    accepted++;
    isa_encode_ap(&back, b);
    assert_memory_equal(a, b, sizeof a);
  }
  assert_true(accepted > 5000 && refused > 5000);
}

/* bfloat16@sbuf[32, 64 partitions, offset 256] of tile 2, [[10, 3], [-1, 4]], offset r6 * 12 */
static const uint8_t ap_by_hand[ISA_AP_RECORD] = {
    15,   1,    2,    0,    0,    0,    0,         0,        32,          0,
    64,   0,    2,    0,    0,    0,    0,         0,        0,           0,
    0,    0,    0,    0,    0,    1,    [32] = 10, [40] = 3, [44] = 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4,         [92] = 1, 6,           [100] = 12};

static void test_ap_by_hand(void **state) {
  (void)state;
  isa_ap a;
  uint8_t out[ISA_AP_RECORD];
  assert_true(isa_decode_ap(ap_by_hand, &a, NULL));
  assert_int_equal(a.dtype, ISA_bfloat16);
  assert_int_equal(a.space, ISA_SBUF);
  assert_int_equal(a.part, 32);
  assert_int_equal(a.nparts, 64);
  assert_int_equal(a.base, 2);
  assert_int_equal(a.offset, 256);
  assert_int_equal(a.ndim, 2);
  assert_int_equal(a.dim[0].step, 10);
  assert_int_equal(a.dim[0].num, 3);
  assert_int_equal(a.dim[1].step, -1);
  assert_int_equal(a.dim[1].num, 4);
  assert_int_equal(a.dyn[0].kind, ISA_DYN_reg);
  assert_int_equal(a.dyn[0].reg, 6);
  assert_int_equal(a.dyn[0].stride, 12);
  isa_encode_ap(&a, out);
  assert_memory_equal(out, ap_by_hand, sizeof out);
}

static void test_ap_refusals(void **state) {
  (void)state;
  static const uint8_t cases[][2] = {
      {0, 0},    {0, 22},  {1, 0},   {1, 4},   {1, 3},   {2, 5},   {2, 1},   {2, 3},
      {3, 1},    {3, 3},   {4, 1},   {5, 4},   {6, 1},   {7, 1},   {8, 128}, {10, 0},
      {10, 129}, {16, 1},  {20, 2},  {21, 1},  {40, 0},  {52, 0},  {56, 1},  {64, 1},
      {80, 1},   {88, 1},  {92, 0},  {92, 2},  {92, 3},  {93, 64}, {94, 1},  {95, 1},
      {96, 1},   {108, 3}, {109, 1}, {112, 1}, {116, 1}, {124, 1}, {127, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t r[ISA_AP_RECORD];
    isa_ap a;
    memcpy(r, ap_by_hand, sizeof r);
    r[cases[i][0]] = cases[i][1];
    if (isa_decode_ap(r, &a, NULL)) fail_msg("byte %u = %u is accepted", cases[i][0], cases[i][1]);
  }
  uint8_t second[ISA_AP_RECORD]; /* a second dynamic offset alone */
  isa_ap a;
  memcpy(second, ap_by_hand, sizeof second);
  memcpy(second + 108, second + 92, 16);
  memset(second + 92, 0, 16);
  assert_false(isa_decode_ap(second, &a, NULL));
}

/* What the manual of the instructions is made of is there. */
static void prose_is_complete(void **state) {
  (void)state;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    if (isa_ops[op].status == ISA_DONE && isa_ops[op].runs >= ISA_RUNS_DMA && !isa_op_pseudo(op))
      fail_msg("%s has no PSEUDO in isa/manual.def", isa_ops[op].name);
  for (unsigned i = 0; i < ISA_NRULES; i++) assert_non_null(isa_rule_text(i));
  for (unsigned i = 0; i < ISA_NCOSTS; i++) assert_non_null(isa_cost_text(i));
  assert_null(isa_op_pseudo(ISA_NOPS));
  assert_null(isa_rule_text(ISA_NRULES));
  assert_null(isa_cost_text(ISA_NCOSTS));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_law_under_changes),
      cmocka_unit_test(test_reserved_bytes), cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_ap_round_trip),  cmocka_unit_test(test_ap_by_hand),
      cmocka_unit_test(test_ap_refusals),    cmocka_unit_test(prose_is_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
