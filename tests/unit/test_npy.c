/* .npy files in const tensors: headers as NumPy writes them and as it does not, and every byte of
 * one changed. */
#include "../../asm/asm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct file {
  uint8_t bytes[512];
  size_t n;
} file;

static bool give(void *ud, const char *path, isa_buf *out) {
  const file *f = ud;
  (void)path;
  isa_buf_add(out, f->bytes, f->n);
  return true;
}

/* A file of a version with a header's text and n bytes of elements, 1, 2, 3 ... */
static file make(unsigned version, const char *header, size_t n) {
  file f = {.n = 0};
  size_t len = strlen(header);
  memcpy(f.bytes, "\x93NUMPY", 6);
  f.bytes[6] = (uint8_t)version;
  f.bytes[8] = (uint8_t)len;
  f.bytes[9] = (uint8_t)(len >> 8);
  f.n = version == 1 ? 10 : 12;
  memcpy(f.bytes + f.n, header, len);
  f.n += len;
  for (size_t i = 0; i < n; i++) f.bytes[f.n++] = (uint8_t)(i + 1);
  return f;
}

static bool loads(file f, const char *type, char *message) {
  char text[200];
  as_options o = {.read = give, .read_ud = &f};
  as_result r;
  snprintf(text, sizeof text, "t tensor %s, const = npy \"f\"\nsection sync\nhalt\n", type);
  isa_status s = as_assemble(text, strlen(text), "t.s", &o, &r);
  if (message) snprintf(message, 200, "%s", r.ndiags ? r.diags[0].text : "");
  if (s == ISA_OK) assert_memory_equal(r.program->tensors[0].data, f.bytes + f.n - 6, 6);
  isa_program_free(r.program);
  as_result_free(&r);
  return s == ISA_OK;
}

static const char good[] = "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }      \n";

static void test_good(void **state) {
  (void)state;
  assert_true(loads(make(1, good, 6), "int16[3]", NULL));
  assert_true(loads(make(2, good, 6), "int16[3]", NULL));
  assert_true(loads(make(3, good, 6), "int16[3]", NULL));
  assert_true(loads(make(1, "{\"shape\":(1,3),\"descr\":\"<i2\",\"fortran_order\":False}", 6),
                    "int16[1, 3]", NULL));
  assert_true(loads(make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", 6),
                    "uint8[2, 3]", NULL));
  assert_true(loads(make(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (3,)}", 6),
                    "bfloat16[3]", NULL));
  assert_true(loads(make(1, "{'descr': '|V1', 'fortran_order': False, 'shape': (6,)}", 6),
                    "float8_e5m2[6]", NULL));
  static const char named[] =
      "{'descr': [('bfloat16', '<u2')], 'fortran_order': False, 'shape': (3,)}";
  assert_true(loads(make(1, named, 6), "bfloat16[3]", NULL));
  char message[200];
  assert_false(loads(make(1, named, 6), "uint16[3]", message));
  assert_non_null(strstr(message, "elements of `bfloat16`"));
}

static void test_bad(void **state) {
  (void)state;
  static const struct {
    unsigned version;
    size_t n;
    const char *header, *type, *message;
  } cases[] = {
      {4, 6, good, "int16[3]", "version"},
      {1, 5, good, "int16[3]", "5 bytes of elements"},
      {1, 7, good, "int16[3]", "7 bytes of elements"},
      {1, 6, good, "uint16[3]", "elements of `<i2`"},
      {1, 6, good, "int16[1, 3]", "shape [3]"},
      {1, 6, "{'descr': '>i2', 'fortran_order': False, 'shape': (3,)}", "int16[3]", "`>i2`"},
      {1, 6, "{'descr': '<i2', 'fortran_order': True, 'shape': (3,)}", "int16[3]", "Fortran"},
      {1, 6, "{'descr': '<i2', 'fortran_order': 0, 'shape': (3,)}", "int16[3]", "True or False"},
      {1, 6, "{'descr': '<i2', 'fortran_order': False}", "int16[3]", "header"},
      {1, 6, "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': (3,)}", "int16[3]",
       "header"},
      {1, 6, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), 'x': 1}", "int16[3]",
       "header"},
      {1, 6, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,)} 1", "int16[3]", "header"},
      {1, 6, "{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
       "int16[3]", "too large"},
      {1, 6, "{'descr': '<i2', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,3)}", "int16[3]",
       "more than 8 dimensions"},
      {1, 6, "{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (3,)}", "int16[3]",
       "names no dtype"},
      {1, 6, "{'descr': '<i2\n', 'fortran_order': False, 'shape': (3,)}", "int16[3]", "header"},
      {1, 6, "", "int16[3]", "header"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char message[200];
    assert_false(
        loads(make(cases[i].version, cases[i].header, cases[i].n), cases[i].type, message));
    if (!strstr(message, cases[i].message)) fail_msg("case %zu: %s", i, message);
  }
}

/* No crash, and the elements are what is after the header or nothing. */
static void test_changed(void **state) {
  (void)state;
  file f = make(1, good, 6);
  for (size_t i = 0; i + 6 < f.n; i++)
    for (unsigned bit = 0; bit < 8; bit++) {
      file g = f;
      g.bytes[i] ^= (uint8_t)(1u << bit);
      loads(g, "int16[3]", NULL);
    }
  for (size_t n = 0; n < f.n; n++) {
    file g = f;
    g.n = n;
    assert_false(loads(g, "int16[3]", NULL));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_bad),
      cmocka_unit_test(test_changed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
