/* The walk over what an instruction names in memory: order, flags, and what it must not follow. */
#include "../../isa/operand.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct seen {
  isa_buf text;
  const isa_insn *in;
} seen;

static void note(void *ud, const isa_operand *o) {
  static const char *const via[] = {"ap", "num", "aps", "index", "offset"};
  seen *s = ud;
  const char *name = isa_form_of(s->in->op)->fields[o->field].name;
  isa_buf_printf(&s->text, "%s %s %u[%u]%s%s%s%s\n", via[o->via], name, o->index, o->nth,
                 o->flags & AP_R ? " R" : "", o->flags & AP_W ? " W" : "",
                 o->flags & AP_COL ? " COL" : "", o->flags & AP_ELEM ? " ELEM" : "");
  assert_int_equal(o->ap->offset, 100 * o->index);
}

typedef void walk_fn(const isa_program *p, const isa_core *core, const isa_insn *in,
                     isa_operand_fn *fn, void *ud);
static void expect(walk_fn *walk, const isa_program *p, const isa_insn *in, const char *want) {
  seen s = {.in = in};
  isa_buf_init(&s.text, &p->arena.al);
  walk(p, &p->cores[0], in, note, &s);
  assert_string_equal(isa_buf_str(&s.text), want);
  isa_buf_free(&s.text);
}

/* Pattern i lies at byte 100 * i. */
static uint32_t add(isa_program *p, isa_ap ap) {
  ap.dtype = ISA_float32;
  ap.space = ISA_SBUF;
  ap.nparts = 1;
  ap.offset = 100 * (p->cores[0].naps + 1);
  return isa_program_ap(p, 0, &ap);
}

static isa_program *program(void) {
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  for (unsigned i = 1; i <= 3; i++) assert_int_equal(add(p, (isa_ap){0}), i);
  isa_ap moves = {.dyn = {{.kind = ISA_DYN_reg}, {.kind = ISA_DYN_elem, .ap = 1}}};
  isa_ap gathers = {.index_kind = ISA_INDEX_gather, .index = 2};
  isa_ap both = {
      .dyn = {{.kind = ISA_DYN_elem, .ap = 1}}, .index_kind = ISA_INDEX_indirect, .index = 2};
  assert_int_equal(add(p, moves), 4);
  assert_int_equal(add(p, gathers), 5);
  assert_int_equal(add(p, both), 6);
  return p;
}

static void operands_in_the_order_of_the_form(void **state) {
  (void)state;
  isa_program *p = program();
  isa_insn in = {.op = ISA_OP_tensor_scalar};
  in.u.TENSOR_SCALAR.dst = 3;
  in.u.TENSOR_SCALAR.src = 4;
  in.u.TENSOR_SCALAR.imm0 = (isa_num){ISA_NUM_ap, 1};
  in.u.TENSOR_SCALAR.imm1 = (isa_num){ISA_NUM_reg, 2};
  expect(isa_each_operand, p, &in, "ap dst 3[0] W\nap src 4[0] R\nnum imm0 1[0] R COL\n");
  expect(isa_each_pattern, p, &in,
         "ap dst 3[0] W\noffset src 1[0] R ELEM\nap src 4[0] R\nnum imm0 1[0] R COL\n");
  isa_program_free(p);
}

static void what_an_operand_goes_by_comes_before_it(void **state) {
  (void)state;
  isa_program *p = program();
  isa_insn in = {.op = ISA_OP_tensor_copy};
  in.u.COPY.dst = 6;
  in.u.COPY.src = 5;
  expect(isa_each_pattern, p, &in,
         "offset dst 1[0] R ELEM\nindex dst 2[0] R\nap dst 6[0] W\n"
         "index src 2[0] R\nap src 5[0] R\n");
  isa_program_free(p);
}

static void lists_and_operands_that_are_left_out(void **state) {
  (void)state;
  isa_program *p = program();
  const uint32_t srcs[] = {2, 4, 3};
  isa_insn in = {.op = ISA_OP_dma_compute};
  assert_true(isa_program_pool(p, srcs, 3, 4, &in.u.DMA_COMPUTE.srcs));
  expect(isa_each_pattern, p, &in,
         "aps srcs 2[0] R\noffset srcs 1[1] R ELEM\naps srcs 4[1] R\naps srcs 3[2] R\n");
  isa_program_free(p);
}

/* A program from a file has its patterns and lists checked after it has been read. */
static void what_is_not_in_the_program_is_not_visited(void **state) {
  (void)state;
  isa_program *p = program();
  isa_insn in = {.op = ISA_OP_dma_compute};
  in.u.DMA_COMPUTE.dst = 7;
  in.u.DMA_COMPUTE.srcs = (isa_ref){8, 1000};
  expect(isa_each_pattern, p, &in, "");
  isa_ap far = {.index_kind = ISA_INDEX_gather, .index = 99};
  in.u.DMA_COMPUTE.dst = add(p, far);
  expect(isa_each_pattern, p, &in, "ap dst 7[0] W\n");
  isa_program_free(p);
}

static void note_insn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  isa_buf_printf(ud, "%s %u %u, ", isa_ops[in->op].name, engine, pc);
}

static void instructions_of_a_core(void **state) {
  (void)state;
  isa_program *p = program();
  isa_insn nop = {.op = ISA_OP_nop}, copy = {.op = ISA_OP_dma_copy};
  isa_line line = {0};
  isa_queue q = {.name = "q"};
  isa_buf text;
  isa_buf_init(&text, &p->arena.al);
  assert_int_equal(isa_program_queue(p, 0, &q), 1);
  assert_true(isa_program_static(p, 0, 0, &copy) && isa_program_static(p, 0, 0, &copy));
  assert_true(isa_program_insn(p, 0, ISA_ENG_sync, &nop, line));
  assert_true(isa_program_insn(p, 0, ISA_ENG_vector, &nop, line));
  isa_each_insn(&p->cores[0], note_insn, &text);
  assert_string_equal(isa_buf_str(&text), "nop 1 0, nop 4 0, dma_copy 8 0, dma_copy 8 1, ");
  isa_buf_free(&text);
  isa_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_in_the_order_of_the_form),
      cmocka_unit_test(what_an_operand_goes_by_comes_before_it),
      cmocka_unit_test(lists_and_operands_that_are_left_out),
      cmocka_unit_test(what_is_not_in_the_program_is_not_visited),
      cmocka_unit_test(instructions_of_a_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
