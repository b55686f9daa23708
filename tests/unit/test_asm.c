/* The assembler's interface: what a source becomes, field by field; diagnostics as data; memory
 * that runs out. Texts of messages and listings are in tests/golden. */
#include "../../asm/asm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                             \
  "target trn2\n"                        \
  "a tensor float32[512, 2048], input\n" \
  "t tile sbuf float32[128, 2048]\n"     \
  "u tile sbuf float32[128, 2048]\n"     \
  "p tile psum float32[128, 512]\n"      \
  "s sem\n"                              \
  "z sem 9\n"                            \
  "q queue dge=hwdge\n"

static isa_status assemble(const char *text, const as_options *o, as_result *r) {
  return as_assemble(text, strlen(text), "in.s", o, r);
}

/* Assembles a source that is right. */
static const isa_core *good(const char *text, as_result *r) {
  isa_status s = assemble(text, NULL, r);
  for (uint32_t i = 0; s != ISA_OK && i < r->ndiags; i++)
    print_message("%u:%u: %s\n", r->diags[i].line, r->diags[i].col, r->diags[i].text);
  assert_int_equal(s, ISA_OK);
  assert_non_null(r->program);
  return &r->program->cores[0];
}

static void done(as_result *r) {
  isa_program_free(r->program);
  as_result_free(r);
}

/* The first diagnostic of a source that is wrong. */
static void bad(const char *text, unsigned line, unsigned col, unsigned span, const char *message) {
  as_result r;
  assert_int_equal(assemble(text, NULL, &r), ISA_SYNTAX);
  assert_null(r.program);
  assert_true(r.nerrors >= 1 && r.ndiags >= 1);
  assert_string_equal(r.diags[0].text, message);
  assert_string_equal(r.diags[0].file, "in.s");
  assert_int_equal(r.diags[0].severity, AS_ERROR);
  assert_int_equal(r.diags[0].line, line);
  assert_int_equal(r.diags[0].col, col);
  assert_int_equal(r.diags[0].span, span);
  done(&r);
}

static void test_program(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good(HEAD "section sync\n dma_copy t, a[r3:+128, :], queue=q $s>=r7 $z\n"
                                "section vector\n halt $s++\n"
                                "section sync\n halt\n",
                           &r);
  const isa_program *p = r.program;
  assert_string_equal(p->target->name, "trn2");
  assert_int_equal(p->ntensors, 1);
  assert_int_equal(p->tensors[0].bytes, 512 * 2048 * 4);
  assert_int_equal(p->tensors[0].role, ISA_INPUT);
  assert_int_equal(p->ntiles, 3);
  assert_int_equal(p->tiles[1].offset, 8192);
  assert_string_equal(c->sem_names[0], "s");
  assert_string_equal(c->sem_names[9], "z");
  assert_int_equal(c->queues[0].owner, ISA_ENG_sync); /* its first user */
  assert_int_equal(c->code[ISA_ENG_sync].n, 2);
  assert_int_equal(c->code[ISA_ENG_vector].n, 1);
  const isa_insn *in = &c->code[ISA_ENG_sync].insns[0];
  assert_int_equal(in->op, ISA_OP_dma_copy);
  assert_int_equal(in->wait.cond, ISA_WAIT_ge);
  assert_int_equal(in->wait.sem, 0);
  assert_int_equal(in->wait.is_reg, 1);
  assert_int_equal(in->wait.value, 7);
  assert_int_equal(in->upd.kind, ISA_UPD_dma);
  assert_int_equal(in->upd.sem, 9);
  assert_int_equal(c->code[ISA_ENG_sync].lines[0].line, 10);
  done(&r);
}

static void test_patterns(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good(HEAD "section sync\n"
                                " dma_copy t[32:64, ::2], a[r3-1:+32, 5:+1024], queue=q $s\n"
                                " halt\n",
                           &r);
  const isa_insn *in = &c->code[ISA_ENG_sync].insns[0];
  const isa_ap *dst = &c->aps[in->u.DMA_COPY.dst - 1], *src = &c->aps[in->u.DMA_COPY.src - 1];
  assert_int_equal(dst->space, ISA_SBUF);
  assert_int_equal(dst->part, 32);
  assert_int_equal(dst->nparts, 32);
  assert_int_equal(dst->base, 1);
  assert_int_equal(dst->ndim, 1);
  assert_int_equal(dst->dim[0].step, 2);
  assert_int_equal(dst->dim[0].num, 1024);
  assert_int_equal(src->space, ISA_HBM);
  assert_int_equal(src->offset, (-2048 + 5) * 4);
  assert_int_equal(src->ndim, 2);
  assert_int_equal(src->dim[0].step, 2048);
  assert_int_equal(src->dim[0].num, 32);
  assert_int_equal(src->dim[1].num, 1024);
  assert_int_equal(src->dyn[0].kind, ISA_DYN_reg);
  assert_int_equal(src->dyn[0].reg, 3);
  assert_int_equal(src->dyn[0].stride, 2048);
  done(&r);
}

static void test_views(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good(HEAD "section vector\n"
                                " tensor_copy t.view(bfloat16), u[:, 0:1].broadcast(1, 4096)\n"
                                " tensor_copy t.ap([[8, 2], [-1, 3]], offset=7), u[0:128, r1:+6]\n"
                                " tensor_copy t[0:+r2<=64, :], u[0:+r2<=64, :]\n"
                                " halt $s++\n",
                           &r);
  const isa_insn *in = c->code[ISA_ENG_vector].insns;
  const isa_ap *v = &c->aps[in[0].u.COPY.dst - 1], *b = &c->aps[in[0].u.COPY.src - 1];
  assert_int_equal(v->dtype, ISA_bfloat16);
  assert_int_equal(v->dim[0].num, 4096);
  assert_int_equal(b->dim[0].step, 0);
  assert_int_equal(b->dim[0].num, 4096);
  const isa_ap *ap = &c->aps[in[1].u.COPY.dst - 1], *dyn = &c->aps[in[1].u.COPY.src - 1];
  assert_int_equal(ap->offset, 28);
  assert_int_equal(ap->ndim, 2);
  assert_int_equal(ap->dim[0].step, 8);
  assert_int_equal(ap->dim[1].step, -1);
  assert_int_equal(ap->dim[1].num, 3);
  assert_int_equal(dyn->dyn[0].stride, 1);
  assert_int_equal(dyn->offset, 8192);
  const isa_ap *sized = &c->aps[in[2].u.COPY.dst - 1];
  assert_int_equal(sized->size_dim, 1);
  assert_int_equal(sized->size_reg, 2);
  assert_int_equal(sized->nparts, 64);
  done(&r);
}

static void test_branches(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good("section sync\n jmp end\nback: nop\n.x: jmp .x\nend: beq r0, 1, back\n"
                           " jmp back.x\n",
                           &r);
  const isa_insn *in = c->code[ISA_ENG_sync].insns;
  assert_int_equal(in[0].u.JUMP.to, 3);
  assert_int_equal(in[2].u.JUMP.to, 2);
  assert_int_equal(in[3].u.BRANCH.to, 1);
  assert_int_equal(in[4].u.JUMP.to, 2);
  assert_int_equal(r.program->nsymbols, 3);
  assert_string_equal(r.program->symbols[0].name, "back");
  assert_string_equal(r.program->symbols[1].name, "back.x");
  assert_int_equal(r.program->symbols[2].pc, 3);
  done(&r);
}

static void test_loop(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good("section sync\nloop r1, r2, 10, 3\nnop\nendloop\nhalt\n", &r);
  const isa_insn *in = c->code[ISA_ENG_sync].insns;
  assert_int_equal(c->code[ISA_ENG_sync].n, 6);
  assert_int_equal(in[0].op, ISA_OP_mov);
  assert_int_equal(in[1].op, ISA_OP_bge);
  assert_int_equal(in[1].u.BRANCH.to, 5);
  assert_int_equal(in[3].op, ISA_OP_add);
  assert_int_equal(in[3].u.REGALU.b.v, 3);
  assert_int_equal(in[4].op, ISA_OP_blt);
  assert_int_equal(in[4].u.BRANCH.to, 2);
  done(&r);
}

static void test_immediates(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good("i tile sbuf int32[128, 4]\nf tile sbuf float32[128, 4]\n"
                           "section vector\n memset f, 0.1\n"
                           " tensor_scalar i, i, op0=bitwise_and, imm0=255\n"
                           " tensor_scalar f, f, op0=mult, imm0=255\n memset f, r5\n"
                           " memset i, -16777217\n halt\n",
                           &r);
  const isa_insn *in = c->code[ISA_ENG_vector].insns;
  assert_int_equal(in[0].u.MEMSET.value.v, 0x3dcccccd);
  assert_int_equal(in[1].u.TENSOR_SCALAR.imm0.v, 255);
  assert_int_equal(in[2].u.TENSOR_SCALAR.imm0.v, 0x437f0000);
  assert_int_equal(in[3].u.MEMSET.value.kind, ISA_NUM_reg);
  assert_int_equal(in[3].u.MEMSET.value.v, 5);
  assert_int_equal(in[4].u.MEMSET.value.v, 0xfeffffff);
  done(&r);
}

static void test_placement(void **state) {
  (void)state;
  as_result r;
  as_options o = {.tile_align = 256};
  const char *text = "target trn1\na tile sbuf uint8[128, 300]\nb tile sbuf uint8[128, 1]\n"
                     "c tile psum float32[4, 4]\nd tile psum float32[4, 4]\nsection sync\nhalt\n";
  assert_int_equal(assemble(text, &o, &r), ISA_OK);
  assert_int_equal(r.program->tiles[1].offset, 512);
  assert_int_equal(r.program->tiles[3].offset, 2048);
  done(&r);
}

static void test_static_dma(void **state) {
  (void)state;
  as_result r;
  const isa_core *c = good("a tensor float32[128, 4]\nt tile sbuf float32[128, 4]\ns sem\n"
                           "n queue dge=none, rings=4\nsection gpsimd\n"
                           " dma_copy t, a, queue=n $s>=1 $s\n halt\n",
                           &r);
  assert_int_equal(c->queues[0].nstatics, 1);
  assert_int_equal(c->queues[0].rings, 4);
  assert_int_equal(c->queues[0].owner, ISA_NENGINES);
  assert_int_equal(c->queues[0].statics[0].op, ISA_OP_dma_copy);
  assert_int_equal(c->queues[0].statics[0].upd.kind, ISA_UPD_none);
  const isa_insn *in = &c->code[ISA_ENG_gpsimd].insns[0];
  assert_int_equal(in->op, ISA_OP_dma_trigger);
  assert_int_equal(in->u.TRIGGER.count.v, 1);
  assert_int_equal(in->wait.value, 1);
  assert_int_equal(in->upd.kind, ISA_UPD_dma);
  done(&r);
}

/* Sections in any order give the same program: patterns and symbols are put in order. */
static void test_order(void **state) {
  (void)state;
  static const char sync[] = "section sync\nx: dma_copy u, a[0:128, :], queue=q $s\n jmp x\n",
                    vector[] = "section vector\ny: memset t, 0\n jmp y\n";
  char one[600], two[600];
  snprintf(one, sizeof one, "%s%s%s", HEAD, sync, vector);
  snprintf(two, sizeof two, "%s%s%s", HEAD, vector, sync);
  as_result r[2];
  isa_buf image[2];
  isa_alloc al = isa_alloc_default();
  good(one, &r[0]);
  good(two, &r[1]);
  for (int i = 0; i < 2; i++) {
    isa_buf_init(&image[i], &al);
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      isa_code *code = &r[i].program->cores[0].code[e];
      for (uint32_t pc = 0; pc < code->n; pc++) code->lines[pc].line = 1;
    }
    assert_true(isa_image_write(r[i].program, &image[i]));
    assert_string_equal(r[i].program->symbols[0].name, "y");
  }
  assert_int_equal(image[0].len, image[1].len);
  assert_memory_equal(image[0].data, image[1].data, image[0].len);
  for (int i = 0; i < 2; i++) {
    isa_buf_free(&image[i]);
    done(&r[i]);
  }
}

static void test_errors(void **state) {
  (void)state;
  bad("section sync\n  mvo r1, 2\n", 2, 3, 3, "unknown instruction `mvo`; did you mean `mov`?");
  bad(HEAD "section vector\n memset tt, 0\n", 10, 9, 2, "unknown tile or tensor `tt`");
  bad(HEAD "section vector\n memset t[:, 5:9000], 0\n", 10, 14, 6,
      "the end 9000 does not fit dimension 1, which has 2048");
  bad("section sync\n nop\n", 2, 2, 1,
      "control falls off the end of section sync: nothing comes after `nop`; end it with halt, jmp "
      "or ret");
}

static void test_limit_of_errors(void **state) {
  (void)state;
  as_result r;
  as_options o = {.max_errors = 2};
  assert_int_equal(assemble("x\ny\nz\nw\n", &o, &r), ISA_SYNTAX);
  assert_int_equal(r.nerrors, 2);
  done(&r);
}

static void test_warnings(void **state) {
  (void)state;
  as_result r;
  const char *text = "s sem\nsection sync\nhalt\n";
  assert_int_equal(assemble(text, NULL, &r), ISA_OK);
  assert_int_equal(r.nwarnings, 1);
  assert_string_equal(r.diags[0].name, "unused-semaphore");
  done(&r);
  as_options o = {.warnings_are_errors = true};
  assert_int_equal(assemble(text, &o, &r), ISA_SYNTAX);
  assert_int_equal(r.nwarnings, 0);
  assert_int_equal(r.nerrors, 1);
  done(&r);
}

/* What the caller defines and nothing reads: one warning, only where no source reads it. */
static void test_unused_defines(void **state) {
  (void)state;
#define REPLACED(line, name)                                                                   \
  "in.s:" line ": warning: this replaces the given `" name "`, which nothing has read; write " \
  "`%ifndef " name "` before it and `%endif` after it [-w+unused-define]"
#define UNREAD(line, name) \
  "<command line>:" line ":9: warning: nothing reads `" name "` [-w+unused-define]"
  static const struct {
    const char *text;
    as_define defines[2];
    const char *warning; /* its first line; NULL: none */
  } cases[] = {
      {"; N\nx equ 1\n", {{.name = "N", .value = "4"}}, UNREAD("1", "N")},
      {"%define text \"N\"\n", {{.name = "N"}}, UNREAD("1", "N")},
      {"%ifndef BUFS\n%define BUFS 2\n%endif\n",
       {{.name = "BUF", .value = "4"}},
       "<command line>:1:9: warning: nothing reads `BUF`; did you mean `BUFS`? "
       "[-w+unused-define]"},
      {"%define N 2\nx equ N\n", {{.name = "N", .value = "4"}}, REPLACED("1:9", "N")},
      {"%assign N 2\nx equ N\n", {{.name = "N", .value = "4"}}, REPLACED("1:9", "N")},
      {"x equ 1\n", {{.name = "N", .value = "1"}, {.name = "N", .value = "2"}}, UNREAD("2", "N")},
      {"x equ M\n", {{.name = "N", .value = "M"}, {.name = "M"}}, UNREAD("1", "N")},
      {"x equ N\n", {{.name = "N", .value = "M"}, {.name = "M"}}, NULL},
      {"x equ N\n%define N 3\n", {{.name = "N"}}, NULL},
      {"%xdefine N N + 1\n", {{.name = "N"}}, NULL},
      {"%if 0\nx equ N\n%endif\n", {{.name = "N"}}, NULL},
      {"%macro m 0\nx equ N\n%endmacro\n", {{.name = "N"}}, NULL},
      {"x%[N] equ 1\n", {{.name = "N"}}, NULL},
      {"x%+N equ 1\n", {{.name = "N"}}, NULL},
      {"x equ A%+B\n", {{.name = "AB"}}, NULL},
      {"x equ %tok(\"N\")\n", {{.name = "N"}}, NULL},
      {"%ifdef N\n%endif\n", {{.name = "N"}}, NULL},
      {"x equ 1\n", {{.name = "N"}, {.name = "N", .value = "", .undefine = true}}, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    as_result r;
    as_options o = {.defines = cases[i].defines, .ndefines = cases[i].defines[1].name ? 2 : 1};
    assert_int_equal(assemble(cases[i].text, &o, &r), ISA_OK);
    isa_buf b;
    isa_alloc al = isa_alloc_default();
    isa_buf_init(&b, &al);
    for (uint32_t k = 0; k < r.ndiags; k++) as_diag_print(&r.diags[k], false, &b);
    char *text = b.data ? (char *)b.data : (char[]){""};
    text[strcspn(text, "\n")] = 0;
    if (r.ndiags != (cases[i].warning != NULL)) print_error("case %zu: %s\n", i, text);
    assert_int_equal(r.ndiags, cases[i].warning != NULL);
    assert_string_equal(text, cases[i].warning ? cases[i].warning : "");
    isa_buf_free(&b);
    done(&r);
  }
}

static void test_preprocess(void **state) {
  (void)state;
  as_result r;
  as_define d = {.name = "N", .value = "7"};
  as_options o = {.only_preprocess = true, .defines = &d, .ndefines = 1};
  assert_int_equal(assemble("section sync\n mov r1, N\n halt\n", &o, &r), ISA_OK);
  assert_null(r.program);
  assert_non_null(strstr(isa_buf_str(&r.preprocessed), "mov r1, 7"));
  done(&r);
}

/* Files come from a table instead of the disk. */
static bool read_table(void *ud, const char *path, isa_buf *out) {
  const char *const *files = ud;
  for (; *files; files += 2)
    if (strcmp(files[0], path) == 0) {
      isa_buf_puts(out, files[1]);
      return !out->failed;
    }
  return false;
}

static void test_files(void **state) {
  (void)state;
  const char *files[] = {
      "main.s", "w tensor uint8[3], const = incbin \"w.bin\"\n%include \"b.s\"\n",
      "w.bin",  "\x01\x02\x03",
      "b.s",    "section sync\nhalt\n",
      NULL};
  as_result r;
  as_options o = {.read = read_table, .read_ud = files};
  assert_int_equal(as_assemble_file("main.s", &o, &r), ISA_OK);
  assert_int_equal(r.ndeps, 3);
  assert_string_equal(r.deps[0], "main.s");
  assert_memory_equal(r.program->tensors[0].data, "\x01\x02\x03", 3);
  assert_int_equal(r.program->cores[0].code[ISA_ENG_sync].lines[0].line, 2);
  assert_string_equal(r.program->files[0], "b.s");
  done(&r);
  assert_int_equal(as_assemble_file("none.s", &o, &r), ISA_SYNTAX);
  assert_string_equal(r.diags[0].text, "cannot read `none.s`");
  done(&r);
}

/* ---- Memory ------------------------------------------------------------------------------- */

typedef struct budget {
  long left, live;
} budget;

static void *limited(void *ud, void *p, size_t old, size_t n) {
  budget *b = ud;
  if (n > old && b->left-- <= 0) return NULL;
  if (n == 0) {
    b->live -= p ? 1 : 0;
    free(p);
    return NULL;
  }
  void *q = realloc(p, n);
  if (q && !p) b->live++;
  return q;
}

/* Every allocation fails once: the answer is ISA_NOMEM and nothing leaks. */
static void test_no_memory(void **state) {
  (void)state;
  const char *text = HEAD "section sync\n%rep 3\n dma_copy t, a[r1:+128, :], queue=q $s\n%endrep\n"
                          ".x: blt r1, 3, .x\n halt $z++\nsection gpsimd\n"
                          " iota t.view(int32), pattern=[[1,2048]]\n halt\n";
  as_options o = {.want_listing = true};
  isa_status s = ISA_NOMEM;
  for (long n = 0; s != ISA_OK; n++) {
    budget b = {.left = n};
    isa_alloc al = {limited, &b};
    as_result r;
    o.alloc = &al;
    s = assemble(text, &o, &r);
    assert_true(s == ISA_NOMEM || s == ISA_OK);
    assert_true((s == ISA_OK) == (r.program != NULL));
    done(&r);
    assert_int_equal(b.live, 0);
    assert_true(n < 2000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_program),
      cmocka_unit_test(test_patterns),
      cmocka_unit_test(test_views),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_loop),
      cmocka_unit_test(test_immediates),
      cmocka_unit_test(test_placement),
      cmocka_unit_test(test_static_dma),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_limit_of_errors),
      cmocka_unit_test(test_warnings),
      cmocka_unit_test(test_unused_defines),
      cmocka_unit_test(test_preprocess),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
