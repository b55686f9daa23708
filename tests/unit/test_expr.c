/* Expressions: values worked out by hand, and each error's message. */
#include "asm_job.h"

/* n is 7, t has the shape 4, 5; sizeof(t) 80, addr(t) 64; `bad` reports by itself. */
static enum as_known names(as_job *j, const as_tok *name, const char *attr, const int64_t *index,
                           as_val *v) {
  v->kind = AS_V_INT;
  if (strcmp(name->text, "n") == 0 && !attr)
    v->i = 7;
  else if (strcmp(name->text, "bad") == 0) {
    as_error(j, name->pos, name->len, "bad is bad");
    return AS_REPORTED;
  } else if (strcmp(name->text, "t") != 0 || !attr)
    return AS_UNKNOWN;
  else if (strcmp(attr, "sizeof") == 0)
    v->i = 80;
  else if (strcmp(attr, "addr") == 0)
    v->i = 64;
  else if (strcmp(attr, "rank") == 0 && !index)
    v->i = 2;
  else if (strcmp(attr, "shape") == 0 && index)
    v->i = 4 + *index;
  else
    return AS_UNKNOWN;
  return AS_KNOWN;
}

static const char *near(as_job *j, const char *s, size_t n) {
  (void)j;
  return n == 2 && s[0] == 'n' ? "n" : NULL;
}

/* Evaluates text; *rest is the text of the token after the expression. */
static bool eval(job *t, const char *text, const isa_target *target, as_val *v, const char **rest) {
  *rest = "";
  if (setjmp(t->j.bail) != 0) return false;
  t->j.name_value = names;
  t->j.name_near = near;
  t->j.target = target;
  as_diag_open(&t->j);
  as_lex lx;
  as_toks line = {0};
  as_lex_open(&t->j, as_src_text(&t->j, "t.s", text, strlen(text)), &lx);
  as_lex_line(&lx, &line);
  as_cur c = {&t->j, line.v};
  bool ok = as_expr(&c, v);
  *rest = as_tok_show(&t->j, c.t);
  return ok;
}

static void check_int(const char *text, int64_t want) {
  job t;
  as_val v;
  const char *rest;
  job_open(&t, NULL);
  bool ok = eval(&t, text, &isa_targets[ISA_trn2], &v, &rest);
  if (!ok || v.kind != AS_V_INT || v.i != want)
    print_error("%s: kind %d, %lld\n%s", text, v.kind, (long long)v.i, job_diags(&t, false));
  assert_true(ok && v.kind == AS_V_INT);
  assert_true(v.i == want);
  assert_string_equal(rest, "end of line");
  job_close(&t);
}

static void check_float(const char *text, double want) {
  job t;
  as_val v;
  const char *rest;
  job_open(&t, NULL);
  bool ok = eval(&t, text, NULL, &v, &rest);
  if (!ok || v.kind != AS_V_FLOAT) print_error("%s\n%s", text, job_diags(&t, false));
  assert_true(ok && v.kind == AS_V_FLOAT);
  assert_true(v.f == want || (v.f != v.f && want != want));
  job_close(&t);
}

static void check_error(const char *text, const char *diags) {
  job t;
  as_val v;
  const char *rest;
  job_open(&t, NULL);
  assert_false(eval(&t, text, NULL, &v, &rest));
  assert_string_equal(job_diags(&t, false), diags);
  job_close(&t);
}

static void precedence(void **state) {
  (void)state;
  check_int("1+2*3", 7);
  check_int("(1+2)*3", 9);
  check_int("10-4-3", 3);
  check_int("100/5/2", 10);
  check_int("17 % 5 * 2", 4);
  check_int("1<<2+1", 8);
  check_int("1|2^3&5", 3); /* 3&5 = 1, 2^1 = 3, 1|3 = 3 */
  check_int("1+1 == 2 && 3 < 4", 1);
  check_int("0 || 2 && 0", 0);
  check_int("1 || 0 && 0", 1);
  check_int("2 & 3 == 3", 0); /* as in C: 2 & (3 == 3) */
  check_int("5 > 3 == 1", 1);
  check_int("-2*-3", 6);
  check_int("- -3", 3);
  check_int("~0 + !5 + !0", 0);
  check_int("1 - 2 + 3 << 1", 4);
}

static void wrapping(void **state) {
  (void)state;
  check_int("0x7fffffffffffffff + 1", INT64_MIN);
  check_int("-0x8000000000000000 / -1", INT64_MIN);
  check_int("-0x8000000000000000 % -1", 0);
  check_int("0x8000000000000000 * 2", 0);
  check_int("-7/2", -3);
  check_int("-7 % 2", -1);
  check_int("-8 >> 1", -4);
  check_int("-8 >> 100", -1);
  check_int("8 >> 64", 0);
  check_int("1 << 63", INT64_MIN);
  check_int("1 << 64", 0);
  check_int("-5 >> 0", -5);
}

static void floats(void **state) {
  (void)state;
  check_float("1.5*2", 3.0);
  check_float("1/4.0", 0.25);
  check_float("-1e3+1", -999.0);
  check_float("max(1, 2.5)", 2.5);
  check_float("abs(-2.5)", 2.5);
  check_float("-inf", -1.0 / 0.0);
  check_float("nan", 0.0 / 0.0);
  check_int("1.5 < 2", 1);
  check_int("nan == nan", 0);
  check_int("int(-2.9)", -2);
  check_int("!0.0", 1);
  check_int("1.0 && 0.5", 1);
}

static void functions(void **state) {
  (void)state;
  check_int("min(3, 1, 2)", 1);
  check_int("max(3, 1, 20)", 20);
  check_int("abs(-4)", 4);
  check_int("ceil_div(9, 4)", 3);
  check_int("ceil_div(8, 4)", 2);
  check_int("align_up(65, 64)", 128);
  check_int("align_up(0, 64)", 0);
  check_int("strlen(\"abc\")", 3);
  check_int("log2(1) + log2(2048) + log2(4095)", 22);
  check_int("int(7)", 7);
}

static void names_and_strings(void **state) {
  (void)state;
  check_int("n*2", 14);
  check_int("t.rank", 2);
  check_int("t.shape[n-6] + 1", 6);
  check_int("sizeof(t) + addr(t)", 144);
  check_int("sizeof(float32) + sizeof(bfloat16)", 6);
  check_int("\"a\" == \"a\"", 1);
  check_int("\"a\" != \"b\"", 1);
  check_int("\"ab\" == \"a\"", 0);
}

static void machine(void **state) {
  (void)state;
  check_int("__PMAX__", 128);
  check_int("__PSUM_BANK__ * __PSUM_BANKS__ == __PSUM_BYTES__", 1);
  check_int("__PSUM_BANKS__", 8);
  check_int("__NSEMS__ + __NREGS__", 256 + 64);
  check_int("__SBUF_BYTES__", 224 * 1024);
  check_int("__GEN__", 3);
  check_int("__DMA_RINGS__", 16);
  check_int("__TARGET__ == \"trn2\"", 1);
  check_error("__TARGET__ == \"trn2\"",
              "1:1: error: `__TARGET__` needs a target: none is known yet\n");
  check_error("1 + __SBUF_BYTES__",
              "1:5: error: `__SBUF_BYTES__` needs a target: none is known yet\n");
}

/* Where no target is known yet, the side that does not count may ask for one. */
static void check_quiet(const char *text, int64_t want) {
  job t;
  as_val v;
  const char *rest;
  job_open(&t, NULL);
  assert_true(eval(&t, text, NULL, &v, &rest));
  assert_true(v.kind == AS_V_INT && v.i == want);
  assert_string_equal(job_diags(&t, false), "");
  job_close(&t);
}

static void dead_sides(void **state) {
  (void)state;
  check_quiet("1 || __GEN__ > 2", 1);
  check_quiet("0 && __TARGET__ == \"trn2\"", 0);
  check_quiet("0 ? __SBUF_BYTES__ : 7", 7);
  check_quiet("1 || min(__NSEMS__, -__TARGET__) ^ 3", 1);
  check_int("0 && nothing", 0);
  check_int("1 || 1/0", 1);
  check_int("0 && (\"a\" < 1) || 3", 1);
  check_int("0 && bad.x[nothing]", 0);
  check_int("1 || min(1/0, \"a\")", 1);
}

static void errors(void **state) {
  (void)state;
  check_error(" ", "1:2: error: expected an expression, not end of line\n");
  check_error("1 +", "1:4: error: expected an expression, not end of line\n");
  check_error("(1 2", "1:4: error: expected `)`, not `2`\n");
  check_error("1 / 0", "1:3: error: division by zero\n");
  check_error("1 % (2-2)", "1:3: error: division by zero\n");
  check_error("1.0 / 0", "1:5: error: division by zero\n");
  check_error("1 << -1", "1:3: error: shift by a negative count\n");
  check_error("1.5 & 1", "1:5: error: this operator needs integers\n");
  check_error("~1.5", "1:1: error: this operator needs an integer\n");
  check_error("-\"a\"", "1:1: error: this operator needs a number\n");
  check_error("\"a\" + 1", "1:5: error: a string and a number\n");
  check_error("\"a\" + \"b\"", "1:5: error: strings have only == and !=\n");
  check_error("nn", "1:1: error: `nn` is not defined; did you mean `n`?\n");
  check_error("zz", "1:1: error: `zz` is not defined\n");
  check_error("1 + bad", "1:5: error: bad is bad\n");
  check_error("t.shape[1.5]", "1:12: error: the index is not an integer\n");
  check_error("t.shape[1", "1:10: error: expected `]` after the index, not end of line\n");
  check_error("t.", "1:3: error: expected an attribute after `.`, not end of line\n");
  check_error("min()", "1:1: error: `min` takes 1 argument or more, not 0\n");
  check_error("ceil_div(1)", "1:1: error: `ceil_div` takes 2 arguments, not 1\n");
  check_error("ceil_div(1, 0)", "1:1: error: needs a >= 0 and b > 0\n");
  check_error("align_up(0x7fffffffffffffff, 64)", "1:1: error: the result is beyond 64 bits\n");
  check_error("strlen(1)", "1:1: error: argument 1 of `strlen` is not a string\n");
  check_error("ceil_div(1.5, 1)", "1:1: error: argument 1 of `ceil_div` is not an integer\n");
  check_error("abs(\"a\")", "1:1: error: argument 1 of `abs` is not a number\n");
  check_error("int(1e30)", "1:1: error: the value does not fit in 64 bits\n");
  check_error("log2(0)", "1:1: error: needs a positive value\n");
  check_error("sizeof(3)", "1:8: error: expected a name, not `3`\n");
  check_error("sizeof(t", "1:9: error: expected `)` after the name, not end of line\n");
}

static void stops(void **state) {
  (void)state;
  static const struct {
    const char *text, *rest;
    int64_t value;
  } cases[] = {{"1+2 $x", "`$`", 3}, {"3 @read", "`@`", 3}, {"4, 5", "`,`", 4}, {"5:+6", "`:`", 5},
               {"6]", "`]`", 6},     {"7 8", "`8`", 7},     {"8 # 9", "`#`", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    job t;
    as_val v;
    const char *rest;
    job_open(&t, NULL);
    assert_true(eval(&t, cases[i].text, NULL, &v, &rest));
    assert_int_equal(v.i, cases[i].value);
    assert_string_equal(rest, cases[i].rest);
    job_close(&t);
  }
}

static void depth(void **state) {
  (void)state;
  char text[2048] = "";
  for (int i = 0; i < 100; i++) strcat(text, "(");
  strcat(text, "5");
  for (int i = 0; i < 100; i++) strcat(text, ")");
  check_int(text, 5);
  for (int i = 0; i < 1000; i++) text[i] = '-';
  strcpy(text + 1000, "1");
  for (int i = 0; i < 1000; i += 2) text[i] = '~';
  check_error(text, "1:200: error: the expression is nested deeper than 200\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(precedence),
      cmocka_unit_test(wrapping),
      cmocka_unit_test(floats),
      cmocka_unit_test(functions),
      cmocka_unit_test(names_and_strings),
      cmocka_unit_test(machine),
      cmocka_unit_test(dead_sides),
      cmocka_unit_test(errors),
      cmocka_unit_test(stops),
      cmocka_unit_test(depth),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
