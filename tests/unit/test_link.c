/* Objects and the linker: places worked out by hand, damaged files, lost memory. */
#include "../../asm/asm.h"
#include "../../isa/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char main_text[] = "x tensor float32[128, 64], input\n"
                                "own tile sbuf float32[128, 32]\n"
                                "extern t tile sbuf float32[128, 64]\n"
                                "ready sem\n"
                                "extern done sem\n"
                                "q queue dge=hwdge\n"
                                "global x, ready, q\n"
                                "section vector\n"
                                "extern double\n"
                                "        call r63, double\n"
                                "        tensor_copy own, t[:, 0:32] $done>=1\n"
                                "        halt\n";
static const char library_text[] =
    "pad tile sbuf float32[128, 8]\n"
    "t tile sbuf float32[128, 64]\n"
    "spare sem\n"
    "done sem\n"
    "k tensor int8[3], const = [1, 2, 3]\n"
    "extern ready sem\n"
    "extern x tensor float32[128, 64]\n"
    "extern q queue dge=hwdge\n"
    "global t, done\n"
    "section vector\n"
    "global double\n"
    "        memset pad, 0 $spare++\n"
    "double: tensor_scalar t, t, op0=mult, imm0=2.0 $ready>=16 $done++\n"
    ".end:   blt r1, r2, .end\n"
    "        ret r63\n"
    "section sync\n"
    "        dma_copy t, x, queue=q $ready\n"
    "        halt\n";

static void to_object(const char *text, isa_buf *out) {
  as_options o = {.relocatable = true};
  as_result r;
  isa_status s = as_assemble(text, strlen(text), "t.s", &o, &r);
  if (s != ISA_OK) fail_msg("%s", r.ndiags ? r.diags[0].text : "no message");
  isa_alloc al = isa_alloc_default();
  isa_buf_init(out, &al);
  isa_buf_add(out, r.object.data, r.object.len);
  isa_program_free(r.program);
  as_result_free(&r);
}

static void open_files(as_file *files, isa_buf *bytes) {
  to_object(main_text, &bytes[0]);
  to_object(library_text, &bytes[1]);
  for (int i = 0; i < 2; i++)
    files[i] = (as_file){i ? "library.o" : "main.o", bytes[i].data, bytes[i].len};
}

static void close_files(isa_buf *bytes) {
  isa_buf_free(&bytes[0]);
  isa_buf_free(&bytes[1]);
}

static const isa_tile *tile(const isa_program *p, const char *name) {
  for (uint32_t i = 0; i < p->ntiles; i++)
    if (strcmp(p->tiles[i].name, name) == 0) return &p->tiles[i];
  fail_msg("no tile %s", name);
  return NULL;
}

static int sem(const isa_program *p, const char *name) {
  for (int i = 0; i < ISA_NSEMS; i++)
    if (p->cores[0].sem_names[i] && strcmp(p->cores[0].sem_names[i], name) == 0) return i;
  return -1;
}

static void test_places(void **state) {
  (void)state;
  isa_buf bytes[2];
  as_file files[2];
  as_result r;
  isa_error e;
  isa_place at;
  open_files(files, bytes);
  assert_int_equal(as_link(files, 2, NULL, &r), ISA_OK);
  const isa_program *p = r.program;
  const isa_code *v = &p->cores[0].code[ISA_ENG_vector];
  assert_int_equal(v->n, 3 + 4);
  /* main has three instructions; `double` is the second of the library's. */
  assert_int_equal(v->insns[0].u.CALL.to, 4);
  assert_int_equal(v->insns[5].u.BRANCH.to, 5);
  /* First fit at multiples of 64: own has 128 bytes, pad 32, t 256. */
  assert_int_equal(tile(p, "own")->offset, 0);
  assert_int_equal(tile(p, "pad")->offset, 128);
  assert_int_equal(tile(p, "t")->offset, 192);
  const isa_core *c = &p->cores[0];
  assert_int_equal(c->aps[v->insns[1].u.COPY.src - 1].offset, 192);
  assert_int_equal(c->aps[v->insns[3].u.MEMSET.dst - 1].offset, 128);
  assert_int_equal(v->insns[1].wait.sem, sem(p, "done"));
  assert_int_equal(v->insns[4].wait.sem, sem(p, "ready"));
  assert_int_not_equal(sem(p, "done"), sem(p, "ready"));
  assert_int_equal(p->ntensors, 2);
  assert_memory_equal(p->tensors[isa_program_find_tensor(p, "k", 1)].data, "\1\2\3", 3);
  assert_int_equal(p->cores[0].queues[0].owner, ISA_ENG_sync);
  if (!isa_check_program(p, &at, &e)) fail_msg("%s", e.text);
  isa_program_free(r.program);
  as_result_free(&r);
  close_files(bytes);
}

/* Every byte of an object changed, with a hash that is right: any answer, no crash. */
static void test_damaged(void **state) {
  (void)state;
  static const uint8_t changes[] = {0x01, 0x80, 0xff};
  isa_buf bytes[2];
  as_file files[2];
  unsigned refused = 0;
  open_files(files, bytes);
  for (int f = 0; f < 2; f++)
    for (size_t i = 0; i < bytes[f].len; i++)
      for (size_t k = 0; k < sizeof changes; k++) {
        as_result r;
        uint8_t *file = (uint8_t *)bytes[f].data, old = file[i];
        file[i] ^= changes[k];
        if (i >= 16) isa_put64(file + 8, isa_fnv(ISA_FNV_START, file + 16, bytes[f].len - 16));
        isa_status s = as_link(files, 2, NULL, &r);
        refused += s != ISA_OK;
        assert_true(s == ISA_OK || r.nerrors > 0);
        isa_program_free(r.program);
        as_result_free(&r);
        file[i] = old;
        isa_put64(file + 8, isa_fnv(ISA_FNV_START, file + 16, bytes[f].len - 16));
      }
  for (size_t n = 0; n < bytes[1].len; n++) { /* and every shorter file */
    as_result r;
    files[1].n = n;
    assert_int_equal(as_link(files, 2, NULL, &r), ISA_SYNTAX);
    as_result_free(&r);
  }
  assert_true(refused > 1000);
  close_files(bytes);
}

typedef struct meter {
  size_t live;
  unsigned left; /* allocations until the one that fails */
} meter;

static void *meter_alloc(void *ud, void *p, size_t old, size_t n) {
  meter *m = ud;
  isa_alloc al = isa_alloc_default();
  if (n > old && m->left-- == 0) {
    m->left = 0;
    return NULL;
  }
  void *q = al.fn(al.ud, p, old, n);
  if (q || n == 0) m->live = m->live - (p ? old : 0) + n;
  return q;
}

static void test_no_memory(void **state) {
  (void)state;
  isa_buf bytes[2];
  as_file files[2];
  open_files(files, bytes);
  unsigned n = 0;
  for (isa_status s = ISA_NOMEM; s != ISA_OK; n++) {
    meter m = {0, n};
    isa_alloc al = {meter_alloc, &m};
    as_options o = {.alloc = &al};
    as_result r;
    s = as_link(files, 2, &o, &r);
    assert_true(s == ISA_OK || s == ISA_NOMEM);
    isa_program_free(r.program);
    as_result_free(&r);
    assert_int_equal(m.live, 0);
  }
  assert_true(n > 20);
  close_files(bytes);
}

/* A loader refuses an object. */
static void test_not_loaded(void **state) {
  (void)state;
  isa_buf bytes[2];
  as_file files[2];
  isa_error e;
  isa_alloc al = isa_alloc_default();
  open_files(files, bytes);
  assert_null(isa_image_read(&al, files[0].data, files[0].n, &e));
  assert_non_null(strstr(e.text, "link it first"));
  assert_true(as_is_object(files[0].data, files[0].n));
  assert_false(as_is_object("section vector", 14));
  close_files(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_not_loaded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
