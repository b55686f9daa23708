/* The preprocessor: each feature with the text it must give, each error with its message. */
#include "asm_job.h"

static const mem_file files[] = {{"inc.s", "%ifndef INC\n%define INC\nonce\n%endif\n"},
                                 {"dir/a.s", "%include \"b.s\"\nfrom a\n"},
                                 {"dir/b.s", "from b\n"},
                                 {"lib/c.s", "from c\n"},
                                 {"open.s", "%if 1\n"},
                                 {"bad.s", "\n  %1\n"},
                                 {NULL, NULL}};

typedef struct pp_case {
  const char *name, *text, *out, *diags;
} pp_case;

static const pp_case cases[] = {
    {"lines", "; c\n\n a b ; c\n\tc, \\\n d\\; x\n e\r\nf", "a b\nc, d e\nf\n", ""},
    {"define", "%define A 1+B\n%define B 2\nx A, B, AB\n", "x 1+2, 2, AB\n", ""},
    {"define in any place", "%define A tile\n%define t q\nA A.A $A [A]:t.t\n",
     "tile tile.tile $tile [tile]:q.q\n", ""},
    {"define of nothing", "%define E\na E b,E\n", "a b,\n", ""},
    {"define of itself", "%define p q p\n%define q p q p\np\nq\n", "p q p p\nq p q q p\n", ""},
    {"define of itself once", "%define x x+1\nx x\n", "x+1 x+1\n", ""},
    {"parameters", "%define f(a,b) (a*b)\nf(1,2) f(f(1,2),f(3,4)) f (5,6) f\n",
     "(1*2) ((1*2)*(3*4)) (5*6) f\n", ""},
    {"commas in brackets", "%define f(a,b) a|b\nf(t[1,2], (3,4))\n", "t[1,2]|(3,4)\n", ""},
    {"counts", "%define f() 0\n%define f(a) 1 a\n%define f(a,b) 2 a b\nf() f(x) f(x,y)\n",
     "0 1 x 2 x y\n", ""},
    {"space decides", "%define f (a)\nf\n", "(a)\n", ""},
    {"wrong count", "%define f(a,b) a\nf(1)\n", "",
     "2:1: error: `f` does not take 1 parameter\nnote: a form of it takes 2\n"},
    {"no end of call", "%define f(a) a\nf(1\n", "", "2:1: error: the call of `f` has no `)`\n"},
    {"two kinds", "%define f 1\n%define f(a) a\n", "",
     "2:9: error: `f` is already defined without parameters\n"
     "note: write `%undef f` before the other form\n"},
    {"no name", "%define 1 2\n%define\n%define f(a,1) 2\n%define f(a b) 2\n", "",
     "1:9: error: expected a name after `%define`, not `1`\n"
     "2:8: error: expected a name after `%define`, not end of line\n"
     "3:13: error: expected the name of parameter 2, not `1`\n"
     "4:13: error: expected `,` or `)` after a parameter, not `b`\n"},
    {"xdefine", "%define a 1\n%xdefine b a\n%define c a\n%define a 2\nb c\n", "1 2\n", ""},
    {"xdefine grows", "%xdefine l x\n%xdefine l l, y\n%xdefine l l, z\nl\n", "x, y, z\n", ""},
    {"xdefine with parameters", "%define k 3\n%xdefine f(a) a*k\n%define k 4\nf(2)\n", "2*3\n", ""},
    {"idefine", "%idefine Foo 1\nfoo FOO Foo fooo\n", "1 1 1 fooo\n", ""},
    {"undef", "%define a 1\na\n%undef a\na\n%undef a\n", "1\na\n", ""},
    {"assign", "%assign i 2*3\n%assign i i+1\ni\n%assign j -i\nj\n%assign k 0x10\nk\n",
     "7\n-7\n16\n", ""},
    {"assign floats and strings", "%assign f 1.5*3\nf\n%assign s \"a\"\ns\n", "4.5\n\"a\"\n", ""},
    {"assign errors", "%assign i 1 2\n%assign i\n%assign i zz\n", "",
     "1:13: error: unexpected `2` after the value\n"
     "2:10: error: expected an expression, not end of line\n"
     "3:11: error: `zz` is not defined\n"},
    {"defstr", "%define v 3\n%defstr s a+v, \"q\"\ns\n", "\"a+3, \\\"q\\\"\"\n", ""},
    {"strlen", "%strlen n \"abc\"\nn\n%define s `a\\n`\n%strlen n s\nn\n", "3\n2\n", ""},
    {"substr",
     "%substr a \"xyzw\" 1\n%substr b \"xyzw\" 4\n%substr c \"xyzw\" 2,2\n%substr d \"xyzw\" 2,-1\n"
     "%substr e \"xyzw\" 2,-2\n%substr f \"xyzw\" 9,2\n%substr g \"xyzw\" 3,9\na b c d e f g\n",
     "\"x\" \"w\" \"yz\" \"yzw\" \"yz\" \"\" \"zw\"\n", ""},
    {"strcat", "%define a \"x\"\n%strcat s a, \"y\", \"\\\"\"\ns\n", "\"xy\\\"\"\n", ""},
    {"no string", "%strlen n abc\n%strcat s \"a\", 1\n%substr s 1\n", "",
     "1:11: error: expected a string, not `abc`\n2:16: error: expected a string, not `1`\n"
     "3:11: error: expected a string, not `1`\n"},

    {"macro", "%macro m 2\n a %1, %2\n b %2\n%endmacro\nm x, [y, z]\n", "a x, [y, z]\nb [y, z]\n",
     ""},
    {"macro without parameters", "%macro m\nn%0\n%endm\nm\n", "n0\n", ""},
    {"empty parameters", "%macro m 3\n a <%1><%2><%3> %0\n%endmacro\nm ,x,\n", "a < ><x>< > 3\n",
     ""},
    {"missing is empty", "%macro m 1-3\n a <%1><%2><%3> %0\n%endmacro\nm x\n", "a <x>< >< > 1\n",
     ""},
    {"defaults", "%macro m 1-3 d, {e, f}\n a %1,%2,%3 %0\n%endmacro\nm x\nm x,y\nm x,y,z\n",
     "a x,d,e, f 3\na x,y,e, f 3\na x,y,z 3\n", ""},
    {"any number", "%macro m 1-*\n%rep %0\n a %1\n%rotate 1\n%endrep\n%endmacro\nm x, y, z\n",
     "a x\na y\na z\n", ""},
    {"greedy", "%macro m 2+\n a %1 | %2 %0\n%endmacro\nm x, y, z, w\nm x, y\n",
     "a x | y, z, w 2\na x | y 2\n", ""},
    {"greedy nolist",
     "%macro m 1+.nolist\n a %1\n%endmacro\n%macro n 1.nolist\n b %1\n%endmacro\nm 1,2\nn 3\n",
     "a 1,2\nb 3\n", ""},
    {"braces", "%macro m 2\n a <%1> <%2>\n%endmacro\nm {x, y}, {{z}}\n", "a <x, y> <{z}>\n", ""},
    {"bad braces", "%macro m 2\n%endmacro\nm {x} y, z\nm {x, y\n", "",
     "3:3: error: the braces do not enclose the whole parameter\n4:3: error: `{` has no `}`\n"},
    {"ranges", "%macro m 1-*\n a %{1:-1} | %{2:3} | %{-1:1} | %{-2:-1}\n%endmacro\nm p, q, r\n",
     "a p,q,r | q,r | r,q,p | q,r\n", ""},
    {"range outside", "%macro m 1\n a %{1:2}\n%endmacro\nm p\n", "",
     "2:4: error: `%{1:2}` is outside the 1 parameter\n4:1: note: in the expansion of macro `m`\n"},
    {"rotate", "%macro m 3\n%rotate 1\n a %1%2%3\n%rotate -2\n a %1 %2 %3\n%endmacro\nm x,y,z\n",
     "a yzx\na z x y\n", ""},
    {"joining parameters",
     "%macro m 2\nk%1: a%1_b %1%2 x%{1}1 %1 %2 %1.s %1 .t\n%endmacro\nm 1, q\n",
     "k1: a1_b 1 q x11 1 q 1 . s 1 .t\n", NULL},
    {"joining names", "%macro m 2\nk%1: a%1_b %1%2 x%{1}1 %1.s %1 .t\n%endmacro\nm p, q\n",
     "kp: ap_b pq xp1 p.s p .t\n", ""},
    {"local names", "%macro m 0\n%%a: b %%a, %{%a}x\n%endmacro\nm\nm\n",
     "..1?a: b ..1?a, ..1?ax\n..2?a: b ..2?a, ..2?ax\n", ""},
    {"label before a call", "%macro m 1\n a %1\n%endmacro\nx: m 1\ny m 2\n.z: m 3\n",
     "x:\na 1\ny:\na 2\n.z:\na 3\n", ""},
    {"label taken", "%macro m 0\n b\n%00: a\n%endmacro\nx: m\nm\n", "b\nx: a\nb\n: a\n", ""},
    {"label of a mnemonic", "%macro m 0\n a\n%endmacro\n jmp m\n", "jmp m\n", ""},
    {"called as", "%imacro Foo 0\n nop %? %??\n%endmacro\nfOO\n", "nop fOO Foo\n", ""},
    {"called as in define", "%idefine Foo %? %??\nfOO\n", "fOO Foo\n", ""},
    {"overloads", "%macro m 1\n a %1\n%endmacro\n%macro m 2\n b %1 %2\n%endmacro\nm 1\nm 1, 2\n",
     "a 1\nb 1 2\n", ""},
    {"no form", "%macro m 1\n%endmacro\n%macro m 3-*\n%endmacro\nm 1, 2\n", "",
     "5:1: error: macro `m` does not take 2 parameters\n1:8: note: this form takes 1\n"
     "3:8: note: this form takes 3 or more\n"},
    {"mnemonic overloaded", "%macro add 2\n add %1, %1, %2\n%endmacro\nadd r0, 5\nadd r1, r2, 3\n",
     "add r0, r0, 5\nadd r1, r2, 3\n", ""},
    {"mnemonic wrapped", "%macro nop 0\n a\n nop\n%endmacro\nnop\n", "a\nnop\n", ""},
    {"redefined", "%macro m 1-2\n%endmacro\n%macro m 2\n%endmacro\n", "",
     "3:8: error: macro `m` is already defined for this number of parameters\n"
     "1:8: note: here; `%unmacro` removes it\n"},
    {"unmacro", "%macro m 1\n a\n%endmacro\n%unmacro m 2\nm 1\n%unmacro m 1\nm 1\n", "a\nm 1\n",
     ""},
    {"exitmacro", "%macro m 1\n%if %1\n a\n%exitmacro\n%endif\n b\n%endmacro\nm 1\nm 0\n", "a\nb\n",
     ""},
    {"recursion",
     "%rmacro m 1\n%if %1 == 0\n%exitmacro\n%endif\n a %1\n%assign i %1 - 1\n m i\n%endmacro\nm "
     "3\n",
     "a 3\na 2\na 1\n", ""},
    {"macro that defines",
     "%macro d 2\n%macro %1 1\n a %2, %1\n%endmacro\n%endmacro\nd k, v\nk w\n", "a , w\n", ""},
    {"macro in macro call",
     "%macro in 1\n a %1 %%l\n%endmacro\n%macro out 1\n in <%1>\n in %%l\n%endmacro\nout x\n",
     "a <x> ..2?l\na ..1?l ..3?l\n", ""},
    {"define in a call",
     "%define v 5\n%macro m 1\n%ifnum %1\n n %1\n%else\n o %1\n%endif\n%endmacro\nm v\n", "n 5\n",
     ""},
    {"paste", "%define n 3\n%define cat(a,b) a %+ b\nx %+ y cat(t, n) cat(p,) a %+ n %+ b\n",
     "xy t3 p a3b\n", ""},
    {"paste of nothing", "%macro m 2\na %1 %+ x%2 b x %+ %2 c\n%endmacro\nm ,\nm p,q\n",
     "a x b x c\na pxq b xq c\n", ""},
    {"paste makes a macro", "%define xy 7\nx %+ y\n", "7\n", ""},
    {"paste of others", "+ %+ + < %+ =\n3 %+ x\n", "++ <=\n",
     "2:6: error: `3` and `x` cannot be joined\n"},
    {"paste after a dot", "%define f(a) t. %+ a\nf(x)\n", "t.x\n", ""},

    {"rep", "%assign i 0\n%rep 3\n a i\n%assign i i+1\n%endrep\nb\n", "a 0\na 1\na 2\nb\n", ""},
    {"rep in rep", "%assign i 0\n%rep 2\n%rep 2\n a i\n%assign i i+1\n%endrep\nb\n%endrep\n",
     "a 0\na 1\nb\na 2\na 3\nb\n", ""},
    {"rep of nothing", "%rep 0\na\n%endrep\n%rep 2\n%endrep\nb\n", "b\n", ""},
    {"exitrep",
     "%assign i 0\n%rep 100\n%if i > 1\n%exitrep\n%endif\n a i\n%assign i i+1\n%endrep\nb\n",
     "a 0\na 1\nb\n", ""},
    {"rep errors", "%rep -1\na\n%endrep\n%rep x\n%endrep\n%endrep\n%exitrep\n%rep 1\n", "",
     "1:1: error: %rep of -1 times: the count must be at least 0\n4:6: error: `x` is not defined\n"
     "6:1: error: `%endrep` without `%rep`\n7:1: error: `%exitrep` is not inside a %rep\n"
     "8:1: error: `%rep` without `%endrep`\n"},

    {"if", "%if 1\na\n%else\nb\n%endif\n%if 0\nc\n%elif 2>1\nd\n%elif 1\ne\n%else\nf\n%endif\n",
     "a\nd\n", ""},
    {"if nested", "%if 0\n%if 1\na\n%else\nb\n%endif\n%else\n%ifn 0\nc\n%endif\n%endif\n", "c\n",
     ""},
    {"hidden text", "%if 0\n%error no\n\"open\n%bogus\n%define X 1\n\x01\n%endif\nX\n", "X\n", ""},
    {"ifdef",
     "%define A\n%ifdef A\na\n%endif\n%ifdef B\nb\n%elifndef B\nc\n%endif\n%ifdef B A\nd\n%endif\n",
     "a\nc\nd\n", ""},
    {"ifmacro",
     "%macro m 1-2\n%endmacro\n%ifmacro m\na\n%endif\n%ifmacro m 2\nb\n%endif\n%ifmacro m 3-*\nc\n"
     "%endif\n%ifnmacro n\nd\n%endif\n",
     "a\nb\nd\n", ""},
    {"ifidn",
     "%define A x y\n%ifidn A, x y\na\n%endif\n%ifidn A, X y\nb\n%endif\n%ifidni A, X "
     "Y\nc\n%endif\n"
     "%ifnidn \"a\", \"b\"\nd\n%endif\n%ifidn {a,b}, {a,b}\ne\n%endif\n%ifidn a,\nf\n%endif\n",
     "a\nc\nd\ne\n", ""},
    {"ifnum",
     "%ifnum 12\na\n%endif\n%ifnum -1.5\nb\n%endif\n%ifnum x\nc\n%endif\n%ifint 1.5\nd\n%endif\n"
     "%ifint +3\ne\n%endif\n%ifnnum\nf\n%endif\n",
     "a\nb\ne\nf\n", ""},
    {"ifstr",
     "%ifstr \"x\"\na\n%endif\n%ifstr x\nb\n%endif\n%ifid x\nc\n%endif\n%ifnid 1\nd\n%endif\n",
     "a\nc\nd\n", ""},
    {"ifempty", "%define E\n%ifempty E\na\n%endif\n%ifempty x\nb\n%endif\n%ifempty\nc\n%endif\n",
     "a\nc\n", ""},
    {"iftoken",
     "%iftoken x\na\n%endif\n%iftoken x y\nb\n%endif\n%iftoken "
     "-1\nc\n%endif\n%ifntoken\nd\n%endif\n",
     "a\nd\n", ""},
    {"ifctx",
     "%ifctx\na\n%endif\n%push p\n%ifctx p\nb\n%elifctx q\nc\n%endif\n%ifctx\nd\n%endif\n%pop\n",
     "b\nd\n", ""},
    {"elif of strings", "%define T \"u\"\n%if T == \"v\"\na\n%elif T != \"v\"\nb\n%endif\n", "b\n",
     ""},
    {"if errors",
     "%else\n%endif\n%elif 1\n%if\n%endif\n%if 1 1\na\n%else\nb\n%endif\n%if "
     "0\n%else\n%else\n%endif\n%ifdef 1\n%endif\n%if 1\n",
     "",
     "1:1: error: `%else` without `%if`\n2:1: error: `%endif` without `%if`\n"
     "3:1: error: `%elif` without `%if`\n4:4: error: expected an expression, not end of line\n"
     "6:7: error: unexpected `1` after the condition\n13:1: error: `%else` after `%else`\n"
     "11:1: note: of this condition\n15:8: error: expected a name, not `1`\n"
     "17:1: error: `%if` without `%endif`\n"},
    {"if does not leave a macro", "%macro m 0\n%endif\n%if 1\n%endmacro\n%if 1\nm\na\n%endif\n",
     "a\n",
     "2:1: error: `%endif` without `%if`\n6:1: note: in the expansion of macro `m`\n"
     "3:1: error: `%if` without `%endif`\n6:1: note: in the expansion of macro `m`\n"},

    {"contexts",
     "%push a\n%$x: b %$x\n%push\n%$x: c %$$x\n%define %$v 4\nd %$v\n%repl n\n%ifctx "
     "n\ne\n%endif\n%pop n\nf %$x\n%pop a\n",
     "..1?x: b ..1?x\n..2?x: c ..1?x\nd 4\ne\nf ..1?x\n", ""},
    {"context errors", "%$x\n%pop\n%push a\n%pop b\n%repl 1\n%$$x\n", "",
     "1:1: error: `%$x` needs 1 context: `%push` opens one\n2:1: error: `%pop`: no context is "
     "open\n"
     "4:6: error: the open context is `a`, not `b`\n5:7: error: expected the name of a context, "
     "not `1`\n"
     "6:1: error: `%$$x` needs 2 contexts: `%push` opens one\n"},

    {"include", "%include \"inc.s\"\n%include \"inc.s\"\n%include \"dir/a.s\"\n%include \"c.s\"\n",
     "once\nfrom b\nfrom a\nfrom c\n", ""},
    {"include errors", "%include \"none.s\"\n%include x\n%include \"inc.s\" 1\n", "",
     "1:1: error: cannot read `none.s`\nnote: looked in `.`\nnote: looked in `lib`\n"
     "2:10: error: expected the name of a file in quotes, not `x`\n"
     "3:18: error: unexpected `1` after the file\n"},
    {"if in an include", "%include \"open.s\"\na\n", "a\n", "1:1: error: `%if` without `%endif`\n"},
    {"line", "%line 100 \"x.s\"\n%1\n%line 7+0\n%1\n%2\n%line x\n", "",
     "100:1: error: `%1` is not inside a macro\nnote: a remainder needs a space after its `%`\n"
     "7:1: error: `%1` is not inside a macro\nnote: a remainder needs a space after its `%`\n"
     "7:1: error: `%2` is not inside a macro\nnote: a remainder needs a space after its `%`\n"
     "7:1: error: expected `%line NUMBER[+STEP] [\"FILE\"]`\n"},
    {"magic",
     "%define V __LINE__\na __LINE__ __FILE__ V\n%macro m 0\n b __LINE__\n%endmacro\n\nm\n",
     "a 2 \"t.s\" 2\nb 7\n", ""},
    {"version", "__SOMA_VERSION__\n", "\"0.1.0\"\n", ""},
    {"messages",
     "%define v 3\n%error bad v, \"x y\"\n%error \"only \\\"this\\\"\"\n%warning careful\n%note "
     "see\n%fatal stop\nx\n",
     "",
     "2:1: error: bad 3, x y\n3:1: error: only \"this\"\n4:1: warning: careful\n5:1: note: see\n"
     "6:1: fatal: stop\n"},
    {"backtrace", "%macro i 0\n%error e\n%endmacro\n%macro o 0\n i\n%endmacro\n\no\n", "",
     "2:1: error: e\n5:2: note: in the expansion of macro `i`\n8:1: note: in the expansion of "
     "macro `o`\n"},
    {"unknown", "%defin x\n%quux\n", "",
     "1:1: error: unknown directive `%defin`; did you mean `%define`?\n"
     "2:1: error: unknown directive `%quux`\n"},
    {"outside a macro", "a %1\nb %%x\n%rotate 1\n%exitmacro\n%endmacro\nc %?\n%macro\n%macro m\n",
     "",
     "1:3: error: `%1` is not inside a macro\nnote: a remainder needs a space after its `%`\n"
     "2:3: error: `%%x` is not inside a macro\n3:1: error: `%rotate` is not inside a macro\n"
     "4:1: error: `%exitmacro` is not inside a macro\n5:1: error: `%endmacro` without `%macro`\n"
     "6:3: error: `%?` means nothing here\n7:7: error: expected a name after `%macro`, not end of "
     "line\n"
     "7:1: error: `%macro` without `%endmacro`\n"},
    {"macro head", "%macro m 3-1\n%endmacro\n%macro m x\n%endmacro\n%macro m 0-1 a, b\n%endmacro\n",
     "",
     "1:10: error: a macro of 3 to 1 parameters: the second number is less than the first\n"
     "3:10: error: expected a number of parameters up to 10000, not `x`\n"
     "5:14: error: 2 defaults for 1 optional parameters\n"},
};

static void features(void **state) {
  (void)state;
  static const char *const dirs[] = {"lib"};
  as_options o = {.include_dirs = dirs, .ninclude_dirs = 1};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    job t;
    job_open(&t, &o);
    t.files = files;
    job_preprocess(&t, cases[i].text, strlen(cases[i].text));
    const char *diags = job_diags(&t, false);
    if (cases[i].out && strcmp(isa_buf_str(&t.out), cases[i].out) != 0)
      print_error("case: %s\n", cases[i].name);
    if (cases[i].out) assert_string_equal(isa_buf_str(&t.out), cases[i].out);
    if (cases[i].diags && strcmp(diags, cases[i].diags) != 0)
      print_error("case: %s\n", cases[i].name);
    if (cases[i].diags) assert_string_equal(diags, cases[i].diags);
    job_close(&t);
  }
}

/* ---- Options, files, marks ---------------------------------------------------------------- */

static void options(void **state) {
  (void)state;
  static const as_define defs[] = {{.name = "A", .value = "5"},
                                   {.name = "B"},
                                   {.name = "A", .value = "", .undefine = true},
                                   {.name = "C", .value = "x\ny"}};
  static const char *const warn[] = {"-user", "+bogus"};
  as_options o = {.defines = defs, .ndefines = 4, .warnings = warn, .nwarnings = 2};
  job t;
  job_open(&t, &o);
  const char *text = "A B C\n%warning w\n";
  job_preprocess(&t, text, strlen(text));
  assert_string_equal(isa_buf_str(&t.out), "A 1 x y\n");
  assert_string_equal(job_diags(&t, false), "error: no warning is called `bogus`\n");
  job_close(&t);
}

static void warnings_as_errors(void **state) {
  (void)state;
  as_options o = {.warnings_are_errors = true, .max_errors = 2};
  job t;
  job_open(&t, &o);
  const char *text = "%warning a\n%warning b\n%warning c\n";
  job_preprocess(&t, text, strlen(text));
  assert_string_equal(job_diags(&t, true),
                      "t.s:1:1: error: a\nt.s:2:1: error: b\nnote: stopped after 2 errors\n");
  assert_string_equal(t.r.diags[0].name, "user");
  assert_int_equal(t.r.nerrors, 2);
  assert_int_equal(t.j.status, ISA_SYNTAX);
  job_close(&t);
}

static void places_in_includes(void **state) {
  (void)state;
  static const mem_file three[] = {
      {"d/bad.s", "\n  %1\n"}, {"d/worse.s", "\n  %2\n"}, {NULL, NULL}};
  job t;
  job_open(&t, NULL);
  t.files = three;
  const char *text = "%macro m 0\n%include \"d/bad.s\"\n%endmacro\nm\n%include \"d/worse.s\"\nm\n";
  job_preprocess(&t, text, strlen(text));
  assert_string_equal(job_diags(&t, true), "d/bad.s:2:3: error: `%1` is not inside a macro\n"
                                           "note: a remainder needs a space after its `%`\n"
                                           "d/worse.s:2:3: error: `%2` is not inside a macro\n"
                                           "note: a remainder needs a space after its `%`\n");
  assert_int_equal(t.r.ndeps, 2);
  assert_string_equal(t.r.deps[0], "d/bad.s");
  job_close(&t);
}

static void marks(void **state) {
  (void)state;
  job t;
  job_open(&t, NULL);
  t.files = files;
  const char *text = "a\n\nb\n%macro m 0\nc\nd\n%endmacro\nm\n%include \"dir/b.s\"\ne\n";
  assert_int_equal(setjmp(t.j.bail), 0);
  as_diag_open(&t.j);
  as_pp *pp = as_pp_open(&t.j, as_src_text(&t.j, "t.s", text, strlen(text)));
  as_marks m = {0};
  uint32_t depth = 0;
  for (as_line l; as_pp_line(pp, &l);) {
    as_line_print_marked(&t.j, &l, &m, &t.out);
    depth += l.depth;
  }
  assert_string_equal(isa_buf_str(&t.out), "%line 1 \"t.s\"\na\n\nb\n%line 5 \"t.s\" from m 8 "
                                           "\"t.s\"\nc\nd\n%line 1 \"dir/b.s\"\nfrom b\n"
                                           "%line 10 \"t.s\"\ne\n");
  assert_int_equal(depth, 2);
  job_close(&t);
}

static void printed_diag(void **state) {
  (void)state;
  job t;
  job_open(&t, NULL);
  const char *text = "\ta \"\xc3\xa4\" %1\n%warning w\n";
  job_preprocess(&t, text, strlen(text));
  isa_buf_init(&t.diags, &t.j.al);
  for (uint32_t i = 0; i < t.r.ndiags; i++) as_diag_print(&t.r.diags[i], i == 2, &t.diags);
  assert_string_equal(isa_buf_str(&t.diags),
                      "t.s:1:9: error: `%1` is not inside a macro\n"
                      "  \ta \"\xc3\xa4\" %1\n  \t      ^~\n"
                      "note: a remainder needs a space after its `%`\n"
                      "\033[1mt.s:2:1: \033[1;35mwarning:\033[0m w [-w+user]\n"
                      "  %warning w\n  \033[1;32m^~~~~~~~\033[0m\n");
  job_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(features),
      cmocka_unit_test(options),
      cmocka_unit_test(warnings_as_errors),
      cmocka_unit_test(places_in_includes),
      cmocka_unit_test(marks),
      cmocka_unit_test(printed_diag),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
