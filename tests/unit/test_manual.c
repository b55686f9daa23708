/* The manual of the instructions: that its prose is there and names what there is. */
#include "../../vm/time/clock.h"
#include "../../asm/tools/cli.h"
#include "../../vm/vm.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool is_constant(const char *name, size_t n) {
  for (unsigned i = 0; i < VM_NCOSTS; i++)
    if (strlen(vm_cost_rows[i].name) == n && memcmp(vm_cost_rows[i].name, name, n) == 0)
      return true;
  return false;
}

/* A word of capitals with an underscore, or of three or more, is a constant of the clock. */
static unsigned check_constants(const char *insn, const char *p, const char *end) {
  unsigned found = 0;
  while (p < end) {
    size_t n = 0;
    while (p + n < end &&
           (isupper((unsigned char)p[n]) || isdigit((unsigned char)p[n]) || (p[n] == '_' && n > 0)))
      n++;
    bool whole = n >= 3 && isupper((unsigned char)p[0]) && !islower((unsigned char)p[n]);
    if (whole && !is_constant(p, n))
      fail_msg("%s: no constant of the clock is called %.*s", insn, (int)n, p);
    found += whole;
    p += n;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_')) p++;
    while (p < end && !isalnum((unsigned char)*p)) p++;
  }
  return found;
}

/* The lines from one heading to the next. */
static void section(const char *text, const char *from, const char *to, const char **p,
                    const char **end) {
  *p = strstr(text, from);
  assert_non_null(*p);
  *end = strstr(*p, to);
  assert_non_null(*end);
}

static void every_constant_of_a_time_exists(void **state) {
  (void)state;
  unsigned found = 0;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    const char *p, *end;
    isa_buf b;
    isa_alloc al = isa_alloc_default();
    if (isa_ops[op].status != ISA_DONE) continue;
    isa_buf_init(&b, &al);
    assert_true(as_explain(isa_ops[op].name, &b));
    section(isa_buf_str(&b), "\n  time ", "\n  form ", &p, &end);
    found += check_constants(isa_ops[op].name, p, end);
    isa_buf_free(&b);
  }
  assert_true(found > 100);
}

/* In the first line of an instruction, which can be typed, no operand without a name comes after
 * one with a name. */
static void named_operands_come_last(void **state) {
  (void)state;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    isa_buf b;
    isa_alloc al = isa_alloc_default();
    isa_buf_init(&b, &al);
    assert_true(as_explain(isa_ops[op].name, &b));
    const char *line = isa_buf_str(&b), *end = strchr(line, '\n');
    bool named = false;
    for (const char *p = strchr(line, ' '); p && p < end; p = strchr(p + 1, ' ')) {
      size_t n = strcspn(p + 1, " \n");
      bool has_name = memchr(p + 1, '=', n) != NULL;
      if (named && !has_name) fail_msg("%.*s", (int)(end - line), line);
      named = named || has_name;
    }
    isa_buf_free(&b);
  }
}

/* Does an instruction have an operand in memory? */
static bool has_pattern(unsigned op) {
  const isa_form *f = isa_form_of(op);
  for (unsigned i = 0; i < f->nfields; i++)
    if (f->fields[i].kind == ISA_K_AP || f->fields[i].kind == ISA_K_APS) return true;
  return false;
}

static void every_operand_has_its_types(void **state) {
  (void)state;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    bool has = isa_rule_types(isa_ops[op].rule) != NULL;
    if (isa_ops[op].status == ISA_DONE && has != has_pattern(op))
      fail_msg("%s: %s", isa_ops[op].name, has ? "types of no operand" : "no types");
  }
  assert_null(isa_rule_types(ISA_NRULES));
}

/* Each bit of a record is in one row of the encoding: the rows follow one another up to 511. */
static void the_encoding_has_every_bit(void **state) {
  (void)state;
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    isa_buf b;
    isa_alloc al = isa_alloc_default();
    unsigned next = 0;
    isa_buf_init(&b, &al);
    assert_true(as_explain(isa_ops[op].name, &b));
    const char *row = strstr(isa_buf_str(&b), "\n  bits ");
    assert_non_null(row);
    while (next < 8 * ISA_RECORD && (row = strstr(row + 1, "\n  ")) &&
           isdigit((unsigned char)row[3])) {
      unsigned first, last;
      int n = sscanf(row, " %u-%u", &first, &last);
      if (first != next) fail_msg("%s: bit %u follows bit %u", isa_ops[op].name, first, next);
      next = (n == 2 ? last : first) + 1;
    }
    assert_int_equal(next, 8 * ISA_RECORD);
    isa_buf_free(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_constant_of_a_time_exists),
      cmocka_unit_test(named_operands_come_last),
      cmocka_unit_test(every_operand_has_its_types),
      cmocka_unit_test(the_encoding_has_every_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
