/* The lexer: tokens of each kind, their values, places and errors. */
#include "asm_job.h"

static as_lex open_text(job *t, const char *text, size_t n) {
  as_lex lx;
  as_lex_open(&t->j, as_src_text(&t->j, "t.s", text, n), &lx);
  return lx;
}

/* Each token as a letter for its kind and its text or value. */
static void describe(const as_toks *line, isa_buf *out) {
  static const char kinds[] = "ENIFSP%";
  for (uint32_t i = 0; i < line->n; i++) {
    const as_tok *t = &line->v[i];
    isa_buf_printf(out, "%s%c:", i ? " " : "", kinds[t->kind]);
    if (t->kind == AS_T_INT)
      isa_buf_printf(out, "%lld", (long long)t->v.ival);
    else if (t->kind == AS_T_FLOAT)
      isa_buf_printf(out, "%a", t->v.fval);
    else if (t->kind == AS_T_STR)
      isa_buf_add(out, t->text, t->len);
    else
      as_tok_print(t, out);
  }
  isa_buf_puts(out, "\n");
}

static void check(const char *text, const char *tokens, const char *diags) {
  job t;
  job_open(&t, NULL);
  if (setjmp(t.j.bail) == 0) {
    as_diag_open(&t.j);
    as_lex lx = open_text(&t, text, strlen(text));
    as_toks line = {0};
    while (as_lex_line(&lx, &line)) describe(&line, &t.out);
  }
  assert_string_equal(isa_buf_str(&t.out), tokens);
  assert_string_equal(job_diags(&t, false), diags);
  job_close(&t);
}

static void names(void **state) {
  (void)state;
  check("a A_1 _x? r0", "N:a N:A_1 N:_x? N:r0\n", "");
  check("ta.view(bfloat16)", "N:ta P:. N:view P:( N:bfloat16 P:)\n", "");
  check("t.shape[1].x", "N:t P:. N:shape P:[ I:1 P:] P:. N:x\n", "");
  check(".block: jmp .block", "N:.block P:: N:jmp N:.block\n", "");
  check("a,.b (.c) x .d", "N:a P:, N:.b P:( N:.c P:) N:x N:.d\n", "");
  check("(a).b {a}.b \"s\".b 5.b",
        "P:( N:a P:) P:. N:b P:{ N:a P:} P:. N:b S:s P:. N:b I:5 P:. N:b\n", "");
  check("..x ..12?y ... .", "N:..x N:..12?y P:. P:. P:. P:.\n", "");
}

static void operands(void **state) {
  (void)state;
  check("$loaded>=32 $S[12] $name++@read $x-=1 $y=-1",
        "P:$ N:loaded P:>= I:32 P:$ N:S P:[ I:12 P:] P:$ N:name P:++ P:@ N:read P:$ N:x P:-= I:1 "
        "P:$ N:y P:= P:- I:1\n",
        "");
  check("float32@sbuf[0,128,256][1][512]",
        "N:float32 P:@ N:sbuf P:[ I:0 P:, I:128 P:, I:256 P:] P:[ I:1 P:] P:[ I:512 P:]\n", "");
  check("[r3:+r4<=128, :]", "P:[ N:r3 P:: P:+ N:r4 P:<= I:128 P:, P:: P:]\n", "");
  check("<<< >>> <=> <> // ^^ %% %%", "P:<< P:>> P:<=> P:!= P:// P:^^ P:%% P:%%\n", "");
  check("<< >> == != <= >= && || ++ -- += -= < > = ! & | + - ~ ^ * / ? #",
        "P:<< P:>> P:== P:!= P:<= P:>= P:&& P:|| P:++ P:-- P:+= P:-= P:< P:> P:= P:! P:& P:| P:+ "
        "P:- P:~ P:^ P:* P:/ P:? P:#\n",
        "");
}

static void integers(void **state) {
  (void)state;
  check("0 7 123 1_000 0x1f 0XFF 0b101 0o17 017", "I:0 I:7 I:123 I:1000 I:31 I:255 I:5 I:15 I:17\n",
        "");
  check("9223372036854775807 9223372036854775808 18446744073709551615 0xffff_ffff_ffff_ffff",
        "I:9223372036854775807 I:-9223372036854775808 I:-1 I:-1\n", "");
  check("18446744073709551616", "\n",
        "1:1: error: number of more than 64 bits `18446744073709551616`\n");
  check("0x10000000000000000", "\n",
        "1:1: error: number of more than 64 bits `0x10000000000000000`\n");
  check("12ab 0b12 0o8 0x 1__0 1_ 0xg", "\n",
        "1:1: error: malformed number `12ab`\n1:6: error: malformed number `0b12`\n"
        "1:11: error: malformed number `0o8`\n1:15: error: malformed number `0x`\n"
        "1:18: error: malformed number `1__0`\n1:23: error: malformed number `1_`\n"
        "1:26: error: malformed number `0xg`\n");
}

static void floats(void **state) {
  (void)state;
  check("1.5 .25 2. 1e3 1e-2 1_0.5E+1 0x1.8p3 0x.8p-1 0x1p-1074",
        "F:0x1.8p+0 F:0x1p-2 F:0x1p+1 F:0x1.f4p+9 F:0x1.47ae147ae147bp-7 F:0x1.a4p+6 F:0x1.8p+3 "
        "F:0x1p-2 F:0x0.0000000000001p-1022\n",
        "");
}

static void float_errors(void **state) {
  (void)state;
  check(
      "1e999 1e 1.2.3 0x1.8 1e+ 0x1.8p 1.5x", "\n",
      "1:1: error: number beyond the range of a double `1e999`\n1:7: error: malformed number `1e`\n"
      "1:10: error: malformed number `1.2.3`\n1:16: error: malformed number `0x1.8`\n"
      "1:22: error: malformed number `1e+`\n1:26: error: malformed number `0x1.8p`\n"
      "1:33: error: malformed number `1.5x`\n");
}

static void strings(void **state) {
  (void)state;
  check("\"a b;c\" `d` \"\\t\\\\\\\"\\x41\" \"\xc3\xa4\"", "S:a b;c S:d S:\t\\\"A S:\xc3\xa4\n",
        "");
  check("\"a\nb `c\n'", "\nN:b\n\n",
        "1:1: error: string without a closing quote `\"a`\n2:3: error: string without a closing "
        "quote ``c`\n"
        "3:1: error: string without a closing quote `'`\n");
  check("'a' 'it''s' '' '123456789' \"\\101\\x4z\\u00e4\\U0001f600\\?\" '\\n\\''",
        "S:a S:it S:s S: S:123456789 S:A\x04z\xc3\xa4\xf0\x9f\x98\x80? S:\n'\n", "");
  check("'\\400' '\\ud800' '\\u12'", "\n",
        "1:2: error: unknown escape `\\4`\n1:9: error: unknown escape `\\u`\n"
        "1:18: error: unknown escape `\\u`\n");
}

static void bytes(void **state) {
  (void)state;
  check("a \xc3\xa4 b ; \xc3\xa4\n\x01", "N:a N:b\n\n",
        "1:3: error: byte 0xc3 is not allowed outside strings and comments\n"
        "2:1: error: byte 0x01 is not allowed outside strings and comments\n");
  check("a \\ b", "N:a N:b\n", "1:3: error: `\\` is not at the end of the line\n");
  check("\xef\xbb\xbf"
        "a",
        "N:a\n", "");
  check("a\r\n\r\nb\r", "N:a\n\nN:b\n", "");
  job t;
  job_open(&t, NULL);
  if (setjmp(t.j.bail) == 0) {
    as_diag_open(&t.j);
    open_text(&t, "ab\nc\0d\n", 7);
    fail();
  }
  assert_string_equal(job_diags(&t, true), "t.s:2:2: fatal: byte 0x00 is not text\n");
  job_close(&t);
}

static void preprocessor_tokens(void **state) {
  (void)state;
  check("%define %1 %{2} %0 %00 %%a %{%b} %$c %$$d %{1:-1} %{-2:3} %+ %? %??",
        "%:%define %:%1 %:%2 %:%0 %:%00 %:%%a %:%%b %:%$c %:%$$d %:%{1:-1} %:%{-2:3} %:%+ %:%? "
        "%:%??\n",
        "");
  check("a % b a %b (%(3", "N:a P:% N:b N:a P:% N:b P:( P:% P:( I:3\n", "");
  check("a %eval(1 %b %[c] %!D %!'e f' %+1 %-2 %+x %*? %*?? %, %% 3 a %(",
        "N:a %:%eval() P:( I:1 P:% N:b %:%[ N:c P:] %:%!D %:%!e f %:%+1 %:%-2 %:%+ N:x %:%*? "
        "%:%*?? %:%, P:%% I:3 N:a P:% P:(\n",
        "");
  check("x%1y %{1}2", "N:x %:%1 N:y %:%1 I:2\n", "");
  check("%{x} %{1:} %{", "\n",
        "1:1: error: unknown form `%{x}`\n1:6: error: unknown form `%{1:}`\n"
        "1:12: error: unknown form `%{`\n");
}

static void places(void **state) {
  (void)state;
  job t;
  job_open(&t, NULL);
  assert_int_equal(setjmp(t.j.bail), 0);
  as_diag_open(&t.j);
  const char *text = "  ab, \\ ; note\n  0x10\nc";
  as_lex lx = open_text(&t, text, strlen(text));
  as_toks line = {0};
  assert_true(as_lex_line(&lx, &line));
  assert_int_equal(line.n, 3);
  static const uint32_t at[4][2] = {{1, 3}, {1, 5}, {2, 3}, {2, 7}};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(line.v[i].pos.line, at[i][0]);
    assert_int_equal(line.v[i].pos.col, at[i][1]);
  }
  assert_true(line.v[0].space_before && !line.v[1].space_before && line.v[2].space_before);
  assert_int_equal(line.v[2].len, 4);
  assert_int_equal(line.v[3].kind, AS_T_END);
  assert_true(as_lex_line(&lx, &line));
  assert_int_equal(line.v[0].pos.line, 3);
  assert_false(as_lex_line(&lx, &line));
  job_close(&t);
}

static void interning(void **state) {
  (void)state;
  job t;
  job_open(&t, NULL);
  assert_int_equal(setjmp(t.j.bail), 0);
  const char *first = as_intern(&t.j, "n0", 2);
  for (int i = 0; i < 5000; i++) {
    char s[16];
    int n = snprintf(s, sizeof s, "n%d", i);
    const char *a = as_intern(&t.j, s, (size_t)n);
    assert_string_equal(a, s);
    assert_ptr_equal(a, as_intern(&t.j, s, (size_t)n));
    assert_int_equal(as_name_of(a)->len, n);
  }
  assert_ptr_equal(first, as_intern(&t.j, "n0xyz", 2));
  job_close(&t);
}

/* The text of tokens that no source put side by side lexes to them again. */
static void printing(void **state) {
  (void)state;
  static const char *const parts[] = {
      "a",     ".b", ".", "1",   "1.5", ".5",   "+", "++", "=",  "==", "<",   "%",  "&", "-",
      "\"s\"", "[",  "]", "'c'", "..x", "0x1f", "!", "/",  "//", "^",  "<=>", "%%", ">", ">>"};
  enum { N = sizeof parts / sizeof parts[0] };
  for (int i = 0; i < N * N * N; i++) {
    job t;
    job_open(&t, NULL);
    as_diag_open(&t.j);
    as_toks a = {0}, b = {0};
    as_pos none = {0};
    for (int k = 0, v = i; k < 3; k++, v /= N)
      assert_true(as_lex_piece(&t.j, parts[v % N], none, &a));
    as_toks_print(a.v, a.n, &t.out);
    assert_true(as_lex_piece(&t.j, isa_buf_str(&t.out), none, &b));
    isa_buf x, y;
    isa_buf_init(&x, &t.j.al);
    isa_buf_init(&y, &t.j.al);
    describe(&a, &x);
    describe(&b, &y);
    assert_string_equal(isa_buf_str(&x), isa_buf_str(&y));
    isa_buf_free(&x);
    isa_buf_free(&y);
    job_close(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),        cmocka_unit_test(operands),
      cmocka_unit_test(integers),     cmocka_unit_test(floats),
      cmocka_unit_test(float_errors), cmocka_unit_test(strings),
      cmocka_unit_test(bytes),        cmocka_unit_test(preprocessor_tokens),
      cmocka_unit_test(places),       cmocka_unit_test(interning),
      cmocka_unit_test(printing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
