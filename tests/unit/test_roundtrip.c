/* Text there and back: random valid instructions of every opcode, engine and target, and every
 * sample, give the same bytes when their disassembly is assembled.
 *
 *   test_roundtrip [COUNT]    instructions, default 10000 (2500 in short); 1000000 takes some
 * minutes */
#include "../../asm/asm.h"
#include "../../asm/dis/dis.h"
#include "../fuzz/gen.h"
#include "full.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

static uint32_t count;

static void drop_lines(isa_program *p) {
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    for (unsigned c = 0; c < p->ncores; c++) {
      isa_code *code = &p->cores[c].code[e];
      isa_free(&p->arena.al, code->lines, code->cap_lines * sizeof *code->lines);
      code->lines = NULL;
      code->cap_lines = 0;
    }
  }
  p->nfiles = 0;
}

static isa_buf image_of(isa_program *p) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  drop_lines(p);
  assert_true(isa_image_write(p, &b));
  return b;
}

static isa_program *assemble(const char *text, size_t n) {
  static const char *const warnings[] = {"-no-hardware-op"};
  as_options o = {.warnings = warnings, .nwarnings = 1};
  as_result r;
  isa_status s = as_assemble(text, n, "t.s", &o, &r);
  if (s != ISA_OK) {
    fwrite(text, 1, n, stderr);
    fail_msg("line %u: %s", r.ndiags ? r.diags[0].line : 0, r.ndiags ? r.diags[0].text : "");
  }
  isa_program *p = r.program;
  as_result_free(&r);
  return p;
}

static void check_text(isa_program *p, enum isa_operand_text operands) {
  isa_alloc al = isa_alloc_default();
  isa_buf want = image_of(p), text;
  isa_buf_init(&text, &al);
  isa_print_program(p, operands, &text);
  isa_program *q = assemble(isa_buf_str(&text), text.len);
  isa_buf got = image_of(q);
  size_t at = 16; /* after the hash */
  while (at < want.len && at < got.len && want.data[at] == got.data[at]) at++;
  if (want.len != got.len || at < want.len) {
    fwrite(text.data, 1, text.len, stderr);
    fail_msg("%zu bytes, then %zu; different from 0x%zx on", want.len, got.len, at);
  }
  isa_program_free(q);
  isa_buf_free(&got);
  isa_buf_free(&text);
  isa_buf_free(&want);
}

/* The law: the disassembly of p assembles to the bytes of p, by names and raw. */
static void check_law(isa_program *p) {
  check_text(p, ISA_TEXT_NAMED);
  check_text(p, ISA_TEXT_RAW);
}

/* ---- Instructions ------------------------------------------------------------------------- */

typedef struct combination {
  unsigned op, engine, target;
} combination;

/* All that the table allows; gives how many. */
static uint32_t combinations(combination *out) {
  uint32_t n = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++)
    for (unsigned e = 0; e < ISA_NENGINES; e++)
      for (unsigned t = 0; t < ISA_NTARGETS; t++)
        if ((isa_ops[op].engines & 1u << e) && isa_targets[t].gen >= isa_ops[op].gen) {
          if (out) out[n] = (combination){op, e, t};
          n++;
        }
  return n;
}

/* Puts a legal one before the engine's halt; false when none of the draws was legal. */
static bool put_insn(gen *g, const combination *c) {
  isa_code *code = &g->prog->cores[0].code[c->engine];
  isa_insn in;
  gen_mark mark = gen_here(g);
  for (int i = 0; i < 4 * GEN_TRIES; i++) {
    isa_error e = {0};
    gen_draw(g, c->op, c->engine, i > GEN_TRIES, &in);
    if (isa_check_insn(g->prog, 0, c->engine, &in, 1, &e)) {
      assert_true(isa_program_insn(g->prog, 0, c->engine, &in, (isa_line){0}));
      isa_insn halt = code->insns[0];
      code->insns[0] = code->insns[1];
      code->insns[1] = halt;
      return true;
    }
    gen_back(g, mark);
  }
  return false;
}

static void test_instructions(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  uint32_t n = combinations(NULL), drawn[ISA_NOPS] = {0};
  combination *all = calloc(n, sizeof *all);
  assert_non_null(all);
  combinations(all);
  for (uint32_t i = 0; i < count; i++) {
    const combination *c = &all[i % n];
    gen g = {.more = UINT64_C(0x9e3779b97f4a7c15) * (i + 1)};
    g.pair = isa_targets[c->target].gen >= ISA_GEN3 && i / n % 3 == 1;
    assert_non_null(gen_program(&g, &al, &isa_targets[c->target]));
    const isa_queue *q = &g.prog->cores[0].queues[0];
    for (uint32_t k = 0; k < q->nstatics; k++) drawn[q->statics[k].op]++;
    if (put_insn(&g, c)) {
      drawn[c->op]++;
      assert_true(!g.pair || gen_twin(g.prog));
      check_law(g.prog);
    }
    isa_program_free(g.prog);
  }
  free(all);
  uint32_t total = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    total += drawn[op];
    /* Those of CC sequencers name an instruction of the program: tests/lua/test_collectives. */
    if (!(isa_ops[op].engines & ISA_MASK_ANY)) continue;
    if (drawn[op] == 0 && count >= 10000) fail_msg("no legal %s was drawn", isa_ops[op].name);
  }
  print_message("%u instructions in %u draws\n", total, count);
  assert_true(total >= count / 2);
}

/* ---- Names -------------------------------------------------------------------------------- */

/* Nothing of a file's names is sure: two of a kind, one of two kinds, a word of the language, no
 * name at all. Each thing gets one of its own, and those that can keep theirs do. */
static void test_names(void **state) {
  (void)state;
  isa_alloc al = isa_alloc_default();
  isa_program *p = isa_program_new(&al, &isa_targets[ISA_trn2]);
  static const char *const names[] = {"t", "t", "x", "t_2", "r5", "float32", "tile", "a b"};
  static const char *const want[] = {"t",    "t_2",       "x_2",    "t_2_2",
                                     "r5_2", "float32_2", "tile_2", "tile_3"};
  isa_tensor x = {
      .name = "x", .dtype = ISA_float32, .role = ISA_OUTPUT, .ndim = 1, .shape = {8}, .bytes = 32};
  isa_queue q = {.name = "x", .dge = ISA_DGE_hwdge, .rings = 16, .owner = ISA_ENG_sync};
  assert_int_equal(isa_program_tensor(p, &x), 1);
  for (uint32_t i = 0; i < 8; i++) {
    isa_tile t = {.name = names[i],
                  .dtype = ISA_float32,
                  .space = ISA_SBUF,
                  .ndim = 2,
                  .shape = {128, 8},
                  .offset = 64 * i,
                  .bytes = 32};
    assert_int_equal(isa_program_tile(p, &t), i + 1);
  }
  assert_int_equal(isa_program_queue(p, 0, &q), 1);
  p->cores[0].sem_names[7] = "t";
  isa_symbol labels[] = {
      {"l", 0, ISA_ENG_vector, 0, 0}, {"l", 0, ISA_ENG_sync, 0, 0}, {"l", 0, ISA_ENG_sync, 0, 1}};
  for (unsigned i = 0; i < 3; i++) isa_program_symbol(p, &labels[i]);
  isa_insn in = {.op = ISA_OP_nop};
  isa_program_insn(p, 0, ISA_ENG_sync, &in, (isa_line){0});
  in.op = ISA_OP_jmp;
  in.u.JUMP.to = 1;
  isa_program_insn(p, 0, ISA_ENG_sync, &in, (isa_line){0});
  in.u.JUMP.to = 0;
  isa_program_insn(p, 0, ISA_ENG_vector, &in, (isa_line){0});
  assert_true(as_dis_names(p));
  for (unsigned i = 0; i < 8; i++) assert_string_equal(p->tiles[i].name, want[i]);
  assert_string_equal(p->tensors[0].name, "x");
  assert_string_equal(p->cores[0].queues[0].name, "x_3");
  assert_string_equal(p->cores[0].sem_names[7], "t_3");
  assert_string_equal(p->symbols[1].name, "l");
  assert_string_equal(p->symbols[2].name, "l_2");
  check_law(p);
  isa_program_free(p);
}

/* ---- Samples ------------------------------------------------------------------------------ */

static void test_samples(void **state) {
  (void)state;
  DIR *d = opendir("samples");
  unsigned n = 0;
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d));) {
    char path[300];
    const char *dot = strrchr(f->d_name, '.');
    as_result r;
    if (!dot || strcmp(dot, ".s") != 0) continue;
    snprintf(path, sizeof path, "samples/%.200s", f->d_name);
    if (as_assemble_file(path, NULL, &r) == ISA_OK) {
      check_law(r.program);
      n++;
    }
    isa_program_free(r.program);
    as_result_free(&r);
  }
  closedir(d);
  assert_true(n >= 3);
}

int main(int argc, char **argv) {
  count = full_or(10000, 2500);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_samples),
  };
  if (argc > 1) count = (uint32_t)strtoul(argv[1], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
