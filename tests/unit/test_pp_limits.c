/* The preprocessor on texts that mean harm: macro bombs and random tokens. The number of random
 * texts may be given as an argument. */
#include "asm_job.h"

static const mem_file files[] = {{"inc.s", "%ifndef INC\n%define INC\nonce\n%endif\n"},
                                 {"self.s", "%include \"self.s\"\n"},
                                 {NULL, NULL}};

/* ---- Bombs: each ends in one fatal error, with bounded memory ------------------------------ */

typedef struct bomb {
  const char *head, *line, *tail; /* line n times between the others */
  int n;
  const char *fatal;
} bomb;

static const bomb bombs[] = {
    {"%include \"self.s\"\n", "", "", 0, "%include nested deeper than 64"},
    {"%rmacro m 0\nm\n%endmacro\nm\n", "", "", 0, "macros nested deeper than 1024"},
    {"%rmacro m 1\nm %1 %1\n%endmacro\nm a\n", "", "", 0, "more than 1048576 tokens in a line"},
    {"%rmacro m 1\nm %1\n%endmacro\nm", " a", "\n", 8000,
     "the open macro calls have more than 2097152 tokens of parameters"},
    {"%rmacro m 1+\nm %1, %1\n%endmacro\nm a\n", "", "", 0, "more than 10000 parameters"},
    {"%rep 10000001\n%endrep\n", "", "", 0, "%rep of 10000001 times: the limit is 10000000"},
    {"%rep 1000000\n%rep 1000000\nnop\n%endrep\n%endrep\n", "", "", 0,
     "macros, %rep and %include give more than 4194304 lines"},
    {"%rep 1000000\n%rep 1000000\n%ifidn a b c d e f g h i j k l m n o p q r s t u v w x y, z\n"
     "%endif\n%endrep\n%endrep\n",
     "", "", 0, "macros, %rep and %include give more than 67108864 tokens"},
    {"%rep 10000000\n%push\n%endrep\n", "", "", 0, "more than 4194304 macro calls and contexts"},
    {"", "%if 1\n", "", 1001, "%if nested deeper than 1000"},
    {"%define s \"abcd\"\n%rep 64\n%strcat s s, s\n%endrep\n", "", "", 0,
     "the line is longer than 1048576 characters after expansion"},
    {"%define s a\n%rep 64\n%xdefine s s s\n%endrep\n", "", "", 0,
     "the line is longer than 1048576 characters after expansion"},
    {"nop ", "a, ", "\n", 600000, "more than 1048576 tokens in a line"},
};

static void run_bomb(const char *text, const char *fatal) {
  job t;
  job_open(&t, NULL);
  t.files = files;
  if (setjmp(t.j.bail) == 0) {
    as_diag_open(&t.j);
    as_pp *pp = as_pp_open(&t.j, as_src_text(&t.j, "t.s", text, strlen(text)));
    for (as_line l; as_pp_line(pp, &l);) {
    }
  }
  assert_true(t.r.ndiags > 0);
  uint32_t last = t.r.ndiags - 1;
  while (last > 0 && t.r.diags[last].severity == AS_NOTE) last--;
  assert_int_equal(t.r.diags[last].severity, AS_FATAL);
  assert_string_equal(t.r.diags[last].text, fatal);
  assert_true(t.r.ndiags < 32);
  assert_true(t.j.arena.total >> 20 <= 600);
  job_close(&t);
}

static void fixed_bombs(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
    isa_alloc al = isa_alloc_default();
    isa_buf b;
    isa_buf_init(&b, &al);
    isa_buf_puts(&b, bombs[i].head);
    for (int k = 0; k < bombs[i].n; k++) isa_buf_puts(&b, bombs[i].line);
    isa_buf_puts(&b, bombs[i].tail);
    run_bomb(isa_buf_str(&b), bombs[i].fatal);
    isa_buf_free(&b);
  }
}

/* 60 macros, each twice the next. */
static void doubling(const char *fmt, const char *tail, const char *call, const char *fatal) {
  isa_alloc al = isa_alloc_default();
  isa_buf b;
  isa_buf_init(&b, &al);
  for (int i = 0; i < 60; i++) {
    for (const char *p = fmt; *p; p++) {
      if (*p == '@')
        isa_buf_printf(&b, "%d", i);
      else if (*p == '#')
        isa_buf_printf(&b, "%d", i + 1);
      else
        isa_buf_add(&b, p, 1);
    }
  }
  isa_buf_puts(&b, tail);
  isa_buf_puts(&b, call);
  run_bomb(isa_buf_str(&b), fatal);
  isa_buf_free(&b);
}

static void doubling_bombs(void **state) {
  (void)state;
  char nested[1024] = "%define f(x) x\n";
  for (int i = 0; i < 201; i++) strcat(nested, "f(");
  for (int i = 0; i < 201; i++) strcat(nested, ")");
  run_bomb(nested, "calls of macros within their arguments are deeper than 200");
  doubling("%define a@ a# a#\n", "", "a0\n",
           "the line is longer than 1048576 characters after expansion");
  doubling("%define a@ a# a#\n", "%define a60\n", "a0\n",
           "the macros in a line need more than 4194304 steps to expand");
  doubling("%define a@(x) a#(x x)\n", "", "a0(y)\n",
           "the line is longer than 1048576 characters after expansion");
  doubling("%define a@ %cond(1, a# a#)\n", "", "a0\n",
           "the line is longer than 1048576 characters after expansion");
  doubling("%define a@ %eval(a# + a#)\n", "%define a60 1\n", "a0\n",
           "the line is longer than 1048576 characters after expansion");
  doubling("%define a@ %str(a# a#)\n", "", "a0\n",
           "the line is longer than 1048576 characters after expansion");
  doubling("%macro m@ 0\nm#\nm#\n%endmacro\n", "%macro m60 0\n%endmacro\n", "m0\n",
           "more than 4194304 macro calls and contexts");
}

/* ---- Random texts ------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}

static const char *const pieces[] = {"\n",
                                     "\n",
                                     "\n",
                                     "\n",
                                     " ",
                                     " ",
                                     " ",
                                     ",",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "a",
                                     "b",
                                     "m",
                                     "x1",
                                     ".l",
                                     ".",
                                     "..",
                                     "1",
                                     "0x1f",
                                     "1.5",
                                     "'a'",
                                     "\"s\"",
                                     "`t\\n`",
                                     "\"",
                                     "\\",
                                     "\\\n",
                                     ";",
                                     "%",
                                     "%+",
                                     "%1",
                                     "%0",
                                     "%%l",
                                     "%$c",
                                     "%{1:-1}",
                                     "%{-1:1}",
                                     "%{",
                                     "%?",
                                     "%??",
                                     "%00",
                                     "%[",
                                     "%-1",
                                     "%+1",
                                     "%*?",
                                     "%!HOME",
                                     "%,",
                                     "%eval(",
                                     "%cond(1,",
                                     "%sel(2,",
                                     "%str(",
                                     "%strcat(",
                                     "%tok(",
                                     "%num(",
                                     "%substr(",
                                     "%isidn(",
                                     "%isdef(",
                                     "\n%rmacro m 1+ ",
                                     "\n%comment ",
                                     "\n%endcomment\n",
                                     "\n%defalias a b",
                                     "\n%defalias b a",
                                     "\n%undefalias a",
                                     "\n%clear macro",
                                     "\n%deftok a ",
                                     "\n%pathsearch a ",
                                     "\n%depend \"x\"",
                                     "\n%ifenv ",
                                     "?",
                                     "<=>",
                                     "//",
                                     "%% ",
                                     "+",
                                     "-",
                                     "*",
                                     "/",
                                     "<<",
                                     "==",
                                     "=",
                                     "$",
                                     "@",
                                     ":",
                                     "&&",
                                     "||",
                                     "\n%define a",
                                     "\n%define m(a,b)",
                                     "%xdefine ",
                                     "\n%assign a ",
                                     "\n%macro m 1-2 ",
                                     "\n%macro b 0+",
                                     "\n%endmacro\n",
                                     "\n%rep 3",
                                     "\n%endrep\n",
                                     "\n%if ",
                                     "\n%ifdef a",
                                     "\n%ifidn ",
                                     "\n%ifnum ",
                                     "\n%elif ",
                                     "\n%else",
                                     "\n%endif\n",
                                     "\n%push c",
                                     "\n%pop",
                                     "\n%rotate 1",
                                     "\n%exitmacro",
                                     "\n%exitrep",
                                     "\n%include \"inc.s\"",
                                     "\n%substr a \"xyz\" 1",
                                     "\n%strcat a ",
                                     "\n%defstr a ",
                                     "\n%line 5",
                                     "\n%undef a",
                                     "\n%unmacro m 1-2",
                                     "\n%imacro M 1",
                                     "\n%idefine B ",
                                     "min(",
                                     "sizeof(",
                                     "inf",
                                     "\x80",
                                     "\x01",
                                     "\r\n",
                                     "\n%error ",
                                     "nop",
                                     "add",
                                     "__LINE__",
                                     "\n%repl d",
                                     "\nm ",
                                     "\nb ",
                                     "~",
                                     "!",
                                     "1e9"};

/* What comes out lexes to the same tokens again, so that -E can be assembled. */
static void same_again(job *t) {
  job u;
  job_open(&u, NULL);
  job_preprocess(&u, isa_buf_str(&t->out), t->out.len);
  if (strcmp(isa_buf_str(&u.out), isa_buf_str(&t->out)) != 0)
    print_error("once:\n%s\ntwice:\n%s\n%s\n", isa_buf_str(&t->out), isa_buf_str(&u.out),
                job_diags(&u, true));
  assert_string_equal(isa_buf_str(&u.out), isa_buf_str(&t->out));
  job_close(&u);
}

static unsigned long rounds = 20000;

static void random_texts(void **state) {
  (void)state;
  uint64_t seed = 88172645463325252u;
  for (unsigned long i = 0; i < rounds; i++) {
    char text[1024];
    size_t n = 0, parts = 2 + next_random(&seed) % 60;
    for (size_t k = 0; k < parts; k++) {
      const char *p = pieces[next_random(&seed) % (sizeof pieces / sizeof pieces[0])];
      size_t len = strlen(p);
      if (n + len >= sizeof text) break;
      memcpy(text + n, p, len);
      n += len;
    }
    text[n] = 0;
    job t;
    job_open(&t, NULL);
    t.files = files;
    job_preprocess(&t, text, n);
    assert_int_not_equal(t.j.status, ISA_NOMEM);
    same_again(&t);
    job_close(&t);
  }
}

/* ---- Lost memory -------------------------------------------------------------------------- */

typedef struct budget {
  isa_alloc al;
  long left; /* allocations that work */
  long live;
} budget;

static void *limited(void *ud, void *p, size_t old, size_t n) {
  budget *b = ud;
  if (n > 0 && b->left-- <= 0) return NULL;
  void *q = b->al.fn(b->al.ud, p, old, n);
  b->live += (q != NULL && p == NULL) - (n == 0 && p != NULL);
  return q;
}

/* Every allocation fails once: the job ends, and all that it held is given back. */
static void lost_memory(void **state) {
  (void)state;
  const char *text = "%include \"inc.s\"\n%macro m 1-*\n%rep %0\n%%l: a%1 %1\n%rotate 1\n%endrep\n"
                     "%error %1\n%warning w\n%endmacro\n%define f(x) x %+ y\nm 1, f(f(2)), \"s\"\n"
                     "%defstr s a b\n%strcat s s, s\n%push c\n%if 1 +\n%endif\nq s 'c' 1.5 3 %1\n";
  bool done = false;
  for (long n = 0; !done; n++) {
    budget b = {isa_alloc_default(), n, 0};
    job t;
    job_open(&t, NULL);
    t.files = files;
    t.j.al = (isa_alloc){limited, &b};
    isa_arena_init(&t.j.arena, &t.j.al);
    isa_arena_init(&t.r.arena, &t.j.al);
    isa_buf_init(&t.out, &t.j.al);
    job_preprocess(&t, text, strlen(text));
    done = t.j.status != ISA_NOMEM && b.left >= 0;
    job_close(&t);
    assert_int_equal(b.live, 0);
    assert_true(n < 1000);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_bombs),
      cmocka_unit_test(doubling_bombs),
      cmocka_unit_test(random_texts),
      cmocka_unit_test(lost_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
