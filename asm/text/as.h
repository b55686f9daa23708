/* Inside the assembler: the stages and what passes between them.
 *
 *   src.c text -> lex.c tokens -> pp/ token lines -> parse.c statements
 *   -> directive.c (names) | match.c + operand.c (isa_insn) -> layout.c -> program
 *
 * Everything lives in the arena of the job and is freed with it; only the program and the
 * diagnostics remain. */
#ifndef ASM_AS_H
#define ASM_AS_H

#include "../asm.h"

#include <setjmp.h>

typedef struct as_job as_job;

/* ---- Places ------------------------------------------------------------------------------- */

/* Where a token was written. expansion: the macro call that produced it (NULL: none), for
 * backtraces; the chain ends at the file. */
typedef struct as_pos {
  uint32_t file; /* index into job->sources */
  uint32_t line, col;
  struct as_expansion *expansion;
} as_pos;
typedef struct as_expansion {
  const char *macro; /* "" of a round of a %rep */
  as_pos call;       /* where it was called; call.expansion continues the chain */
  uint32_t round;    /* of a %rep, from 1; else 0 */
  uint32_t number;   /* in the program, once an instruction came out of it; else 0 */
} as_expansion;

typedef struct as_source {
  const char *name;
  const char *text; /* terminated; no byte of it is 0 */
  size_t n;
  uint32_t *line_at; /* offset of each line */
  uint32_t nlines;
} as_source;

/* ---- Diagnostics (diag.c) ----------------------------------------------------------------- */

/* One error at a place; span columns are underlined. Past max_errors the job ends (longjmp to
 * as_assemble, which is the only catch point: arenas make that safe). Returns false. */
bool as_error(as_job *j, as_pos at, uint32_t span, const char *fmt, ...) ISA_PRINTF(4, 5);
void as_warning(as_job *j, const char *name, as_pos at, uint32_t span, const char *fmt, ...)
    ISA_PRINTF(5, 6);
/* A note to the error before: the rule, the values, a place. at.line 0: no place. */
void as_note(as_job *j, as_pos at, const char *fmt, ...) ISA_PRINTF(3, 4);
/* A note of its own. */
void as_remark(as_job *j, as_pos at, uint32_t span, const char *fmt, ...) ISA_PRINTF(4, 5);
/* Ends the job with an error: limits and lost memory. */
_Noreturn void as_fatal(as_job *j, as_pos at, const char *fmt, ...) ISA_PRINTF(3, 4);
_Noreturn void as_nomem(as_job *j);
/* Reads the warning options. First thing in a job, before any other call of this section. */
void as_diag_open(as_job *j);

/* ---- Memory ------------------------------------------------------------------------------- */

void *as_new(as_job *j, size_t n); /* zeroed, from the job's arena; never NULL */
/* An array in the arena with room for `more` elements after its first n, as isa_arena_grow. */
void *as_grow(as_job *j, void *v, uint32_t n, uint32_t more, uint32_t *cap, size_t size);
char *as_strn(as_job *j, const char *s, size_t n);
/* Interned: equal texts give equal pointers. */
const char *as_intern(as_job *j, const char *s, size_t n);
void as_intern_free(as_job *j); /* with the job */

/* Every interned text is the tail of one of these, so what a name means is one load away. */
typedef struct as_name {
  uint32_t len;
  struct as_macros *macros; /* of the preprocessor; NULL: none of that name */
  void *sym;                /* free for the parser's symbol table */
  uint32_t lexed;           /* times that it was read as a name */
  uint32_t source;          /* 1-based index of the source of that name, 0: none */
  uint16_t word;            /* free for the parser: 0 until it has looked */
  bool read;                /* a file of that name was read */
  bool mark;                /* free for the parser */
  char text[];
} as_name;
static inline as_name *as_name_of(const char *interned) {
  return (as_name *)(void *)((char *)(uintptr_t)interned - offsetof(as_name, text));
}

/* ---- Sources (src.c) ---------------------------------------------------------------------- */

/* Adds a text to the job's sources (copied) and gives its index. Reports a NUL byte, which ends
 * the job, and texts over 1 GiB. */
uint32_t as_src_text(as_job *j, const char *name, const char *text, size_t n);
/* A source without a text, for %line. The same name gives the same index. */
uint32_t as_src_name(as_job *j, const char *name);
/* Reads the file `path`, and notes it as a dependency: as it is when there is no `at.line` or path
 * is absolute, else relative to the directory of at's file, then in the include directories.
 * Gives its bytes (in the arena, a 0 after them), and in *found the path that was opened; NULL
 * after an error that names the directories tried. */
const char *as_src_read(as_job *j, as_pos at, uint32_t span, const char *path, size_t *n,
                        const char **found);
/* The same as a source of lines; a file is read once. False after an error. */
bool as_src_load(as_job *j, as_pos at, uint32_t span, const char *path, uint32_t *index);
/* Notes a file as read, for the rules of -M. */
void as_src_depend(as_job *j, const char *path);
/* The path that as_src_load would read, or `path` where no file is found; NULL after an error. */
const char *as_src_search(as_job *j, as_pos at, uint32_t span, const char *path);
/* Line `line` (1-based) of a source without its end, and its length; NULL if none exists. */
const char *as_src_line(const as_job *j, uint32_t file, uint32_t line, uint32_t *len);

/* ---- Tokens (lex.c) ----------------------------------------------------------------------- */

enum as_tok_kind {
  AS_T_END,   /* of the line */
  AS_T_NAME,  /* identifier, with leading dots of a local name: text interned. A dot directly
               * after a name, `]`, `)` or `}` is the punctuation of `t.shape`; any other dot
               * before a letter starts a local name. `..x` is neither local nor the start of a
               * scope: %%x of a macro and %$x of a context become such names. */
  AS_T_INT,   /* 64-bit: ival */
  AS_T_FLOAT, /* decimal, hex float, inf, nan: fval */
  AS_T_STR,   /* quoted, escapes done: text, len; punct is ' when it stood in single quotes, which
               * makes up to 8 bytes of it a number in an expression */
  AS_T_PUNCT, /* operators and punctuation: punct */
  AS_T_PP     /* %name, %%name, %1, %{...}, %+ : for the preprocessor only */
};
/* Single characters stand for themselves; longer ones from here. */
enum as_punct {
  AS_P_SHL = 256,
  AS_P_SHR,
  AS_P_EQ,
  AS_P_NE,
  AS_P_LE,
  AS_P_GE,
  AS_P_ANDAND,
  AS_P_OROR,
  AS_P_INC,
  AS_P_DEC,
  AS_P_ADDEQ,
  AS_P_SUBEQ,
  AS_P_IDIV, /* // */
  AS_P_IMOD, /* %% before anything but a name */
  AS_P_XORXOR,
  AS_P_CMP /* <=> */
};
typedef struct as_tok {
  uint8_t kind;
  bool space_before;
  uint16_t punct;
  uint32_t len;     /* of text, and (strings apart) of the token in columns */
  const char *text; /* of names and strings terminated; of numbers as written, "" if computed */
  union {
    int64_t ival;
    double fval;
  } v;
  as_pos pos;
} as_tok;

/* What an AS_T_PP is, in punct. In an AS_T_NAME punct is 1 when the name is not expanded again. */
enum as_pp_kind {
  AS_PP_DIRECTIVE = 1, /* %name first on a line: text is the name */
  AS_PP_PARAM,         /* %1 %{1}: ival; %0: the count */
  AS_PP_RANGE,         /* %{2:-1}: first in the low half of ival, last in the high half */
  AS_PP_LABEL,         /* %00: the label before a macro call */
  AS_PP_LOCAL,         /* %%name */
  AS_PP_CONTEXT,       /* %$name: ival counts the dollars */
  AS_PP_PASTE,         /* %+ */
  AS_PP_CALLED,        /* %?: the macro's name as called */
  AS_PP_DEFINED,       /* %??: as defined */
  AS_PP_SELF,          /* %*?: as %?, only of single-line macros */
  AS_PP_SELF_DEFINED,  /* %*??: as %?? */
  AS_PP_OPEN,          /* %[: what follows up to its ] is expanded first of all */
  AS_PP_ENV,           /* %!name: text is the name of the environment variable */
  AS_PP_FUNCTION,      /* %name before a parenthesis: text is the name */
  AS_PP_CODE,          /* %+1: parameter ival, a condition code */
  AS_PP_NEGATED,       /* %-1: its opposite */
  AS_PP_COMMA,         /* %, which is refused */
  AS_PP_ARG            /* parameter ival of a %define, in its body */
};

/* Growable tokens in the arena. The lexer and the preprocessor reuse them from line to line. */
typedef struct as_toks {
  as_tok *v;
  uint32_t n, cap;
  bool has_pp; /* some token is AS_T_PP */
  bool bad;    /* an error of the line was reported */
} as_toks;
/* Room for n more tokens; they are not counted yet. */
as_tok *as_toks_grow(as_job *j, as_toks *t, uint32_t n);
static inline as_tok *as_toks_add(as_job *j, as_toks *t) {
  if (t->n == t->cap) as_toks_grow(j, t, 1);
  return &t->v[t->n++];
}

/* A place in a text. */
typedef struct as_lex {
  as_job *j;
  const char *p, *bol; /* next byte; first byte of its line */
  uint32_t file, line; /* what positions say: %line changes them */
  uint32_t step;       /* lines that one line counts for */
  bool quiet;          /* text that %if skips: errors are not reported */
} as_lex;
void as_lex_open(as_job *j, uint32_t source, as_lex *lx);
/* The tokens of the next line with its continuations, ended by an AS_T_END that n does not count;
 * false at the end of the text. An error is reported and sets out->bad. */
bool as_lex_line(as_lex *lx, as_toks *out);
/* Appends the tokens of a piece of text, all at one place, to out without AS_T_END; s must live in
 * the arena. False, without a report, when it has an error. */
bool as_lex_piece(as_job *j, const char *s, as_pos at, as_toks *out);

/* Appends a token as source text; a computed number in decimal, a string quoted. */
void as_tok_print(const as_tok *t, isa_buf *out);
/* The same as a string in the arena, at most about 60 characters, for messages; "end of line". */
const char *as_tok_show(as_job *j, const as_tok *t);
/* Reports "expected WHAT, not `t`", for example WHAT = "a label" (diag.c). Returns false. */
bool as_expected(as_job *j, const as_tok *t, const char *what, ...) ISA_PRINTF(3, 4);
/* Appends tokens so that they lex to the same tokens again; no newline. */
void as_toks_print(const as_tok *t, uint32_t n, isa_buf *out);

/* A preprocessed line: tokens without AS_T_PP and comments, ended by AS_T_END. text is the line
 * as written, for listings; depth counts macro expansions. */
typedef struct as_line {
  as_tok *toks;
  uint32_t n; /* without the END */
  as_pos pos;
  uint32_t depth;
} as_line;

/* ---- Preprocessor (pp/) ------------------------------------------------------------------- */

typedef struct as_pp as_pp;
as_pp *as_pp_open(as_job *j, uint32_t source);
/* The next line that is not a directive of the preprocessor and not blank; false at the end. The
 * tokens are valid until the next call. */
bool as_pp_line(as_pp *pp, as_line *out);
/* After the last line: warns of what the caller defined and nothing has read. */
void as_pp_close_given(as_pp *pp);

/* For -E: the line as text that lexes to the same tokens, with a newline, and before it a
 * `%line N "file"` where file or number do not follow from the line before. Zero-initialise the
 * marks and keep them between lines. */
typedef struct as_marks {
  uint32_t file, line; /* of the next line of text; line 0: unknown */
  const as_expansion *expansion;
} as_marks;
void as_line_print_marked(const as_job *j, const as_line *l, as_marks *m, isa_buf *out);
/* The tokens and a newline, without a mark. */
void as_line_print(const as_line *l, isa_buf *out);
/* Where the outermost macro call that led to this place was written. */
as_pos as_pos_outer(as_pos at);
bool as_pos_in_macro(as_pos at);

/* ---- Expressions (expr.c) ----------------------------------------------------------------- */

enum as_val_kind { AS_V_NONE, AS_V_INT, AS_V_FLOAT, AS_V_STR };
typedef struct as_val {
  uint8_t kind;
  int64_t i;
  double f;
  const char *s; /* of AS_V_STR, with slen; of AS_V_INT the text in single quotes, or NULL */
  uint32_t slen;
} as_val;

/* A cursor over a line's tokens. */
typedef struct as_cur {
  as_job *j;
  const as_tok *t; /* the next token; an AS_T_END stops every loop */
} as_cur;

/* What a name means in an expression: AS_KNOWN fills v; for AS_UNKNOWN the evaluator reports the
 * name (with name_near's suggestion); AS_REPORTED: the callback did. attr is NULL, or the
 * interned X of `name.X`, also "sizeof" and "addr" of `sizeof(name)` and `addr(name)`. index is
 * NULL, or the I of `name.X[I]`. Set in the job by the parser; the preprocessor evaluates with it
 * as well, so `%if` sees equ constants. */
enum as_known { AS_UNKNOWN, AS_KNOWN, AS_REPORTED };
typedef enum as_known (*as_name_fn)(as_job *j, const as_tok *name, const char *attr,
                                    const int64_t *index, as_val *v);
/* The known name nearest to s, or NULL. */
typedef const char *(*as_near_fn)(as_job *j, const char *s, size_t n);
/* Whether an interned name is a mnemonic, pseudo-instruction or directive. */
typedef bool (*as_word_fn)(as_job *j, const char *name);
/* A line that the listing shows at this moment. */
typedef void (*as_list_fn)(as_job *j, as_pos pos);

/* Parses and evaluates an expression with C precedence: ?: || ^^ && | ^ & == = != <> < <= > >= <=>
 * << >> + - * / % // %% unary - + ~ ! parentheses, functions of machine parameters (`__PMAX__`,
 * `__TARGET__`), and built-in calls (min, max, abs, ceil_div, align_up, strlen). Integers wrap at
 * 64 bits; a float operand makes the operation double. On an error reports it, gives false, and
 * leaves the cursor somewhere in the line. Stops before the first token that cannot continue the
 * expression. */
bool as_expr(as_cur *c, as_val *out);
/* The same, and the result must be an integer. */
bool as_expr_int(as_cur *c, int64_t *out);

/* ---- The job ------------------------------------------------------------------------------ */

struct as_job {
  const as_options *o;
  as_result *out;
  isa_alloc al;
  isa_arena arena; /* tokens, names, statements */
  jmp_buf bail;    /* as_fatal and a full error list end here */
  isa_status status;
  as_source *sources;
  uint32_t nsources, cap_sources;
  uint32_t cap_deps; /* of out->deps */
  uint32_t errors, warnings;
  bool hush;                /* the line's warnings were given when it was read for the other core */
  bool quiet;               /* errors are counted and not reported: only names are wanted */
  const isa_target *target; /* NULL until known */
  isa_target own_target;    /* target, of a hypothetical machine */
  isa_target asked_target;  /* that of the options, else trn2 */
  isa_program *program;
  as_name_fn name_value; /* NULL: no names */
  as_near_fn name_near;  /* NULL: no suggestions */
  as_word_fn is_word;    /* NULL: the opcodes */
  as_list_fn list_line;  /* NULL: nobody lists */
  struct as_intern_table *interned;
  struct as_symtab *syms; /* parser's names */
  struct as_warn_state *warn_state;
  struct as_unit *unit; /* sections, layout and listing: stmt.h */
};

#endif
