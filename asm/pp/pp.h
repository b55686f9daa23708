/* Inside the preprocessor. A line goes: raw tokens of the top frame -> parameters and local names
 * replaced (as_pp_subst) -> a directive, or single-line macros expanded (as_pp_expand) -> a macro
 * call, which pushes a frame, or a line for the parser.
 *
 * Bodies of macros and of %rep are kept as raw lines. A nested %rep or %macro is a range of its
 * parent's lines, so that no loop copies what it repeats. All buffers are reused: memory grows
 * with what is defined, not with what is expanded. */
#ifndef ASM_PP_H
#define ASM_PP_H

#include "../text/as.h"

/* Against macro bombs. */
enum {
  PP_MAX_DEPTH = 1024, /* macros and %rep that are open at once */
  PP_MAX_INCLUDE = 64,
  PP_MAX_IF = 1000,
  PP_MAX_NEST = 200, /* function-like %defines in each other's arguments */
  PP_MAX_REP = 10000000,
  PP_MAX_ROUNDS = 1 << 16,     /* of a %rep whose rounds messages tell apart */
  PP_MAX_LINE = 1 << 20,       /* characters of a line after expansion */
  PP_MAX_STEPS = 1 << 22,      /* tokens read and copied to expand a line */
  PP_MAX_CALLS = 1 << 22,      /* macro calls and contexts of a job */
  PP_MAX_LINES = 1 << 22,      /* lines out of macros, %rep and includes */
  PP_MAX_TOKENS = 1 << 26,     /* tokens out of them, also those of directives */
  PP_MAX_ARG_TOKENS = 1 << 21, /* in the parameters of all open calls */
  PP_MAX_PARAMS = 10000,
  PP_MAX_INDIRECT = 16 /* %[...] within one another */
};

enum as_pp_directive {
  PP_D_NONE,
#define DIRECTIVE(id, name) PP_D_##id,
#include "directives.def"
  PP_D_IF /* and %elif: from here, see cond.c */
};

enum as_pp_function {
  PP_F_NONE,
#define FUNCTION(id, name, least, most) PP_F_##id,
#include "directives.def"
  PP_F_IS /* + 2 * condition, + 1 when negated: from here, see cond.c */
};

/* What is collected up to the directive that closes it. */
enum as_pp_block { PP_B_MACRO, PP_B_REP, PP_B_COMMENT };

typedef struct as_pp_raw_line { /* raw; tokens end with an AS_T_END that n does not count */
  as_tok *v;
  uint32_t n;
  bool has_pp;
  uint32_t close; /* index of the line that closes the %rep or %macro opened here; 0: not known */
} as_pp_raw_line;

typedef struct as_pp_body {
  as_pp_raw_line *lines;
  uint32_t begin, end;
} as_pp_body;

enum as_pp_magic { PP_PLAIN, PP_MAGIC_LINE, PP_MAGIC_FILE };

/* A single-line macro. Forms with different counts of parameters are chained. */
typedef struct as_pp_define {
  struct as_pp_define *next;
  const char *name;
  int32_t nparams; /* -1: without parentheses */
  uint8_t magic;
  bool nocase, busy;
  uint32_t given; /* line of the caller's definitions that made it; 0: a source did */
  as_tok *body;   /* parameters are AS_PP_ARG */
  uint32_t n, cap;
} as_pp_define;

/* A multi-line macro. */
typedef struct as_pp_macro {
  struct as_pp_macro *next;
  const char *name;
  uint32_t least, most; /* parameters; most UINT32_MAX: any number */
  bool greedy, nocase, takes_label, recursive;
  uint32_t busy; /* calls that are open */
  as_toks defaults;
  struct as_pp_range *def;
  uint32_t ndefs;
  as_pp_body body;
  as_pos pos;
} as_pp_macro;

/* What a name means here; as_name.macros. nocase forms hang on the lower-case name. */
typedef struct as_macros {
  as_pp_define *def, *def_nocase;
  as_pp_macro *mac, *mac_nocase;
  as_name *lower;
  const char *alias;      /* the name that %defalias has put in its place, or NULL */
  struct as_macros *next; /* of all names */
  uint16_t directive;     /* as_pp_directive; these two by as_pp_word */
  uint16_t function;      /* as_pp_function */
  bool looked;            /* for both */
} as_macros;

typedef struct as_pp_range { /* tokens of a buffer */
  uint32_t at, n;
} as_pp_range;
/* The tokens of a range; NULL if the buffer has none. */
static inline as_tok *as_pp_range_of(const as_toks *t, as_pp_range r) {
  return t->v ? t->v + r.at : NULL;
}

enum as_pp_frame_kind { PP_FILE, PP_MACRO, PP_REP };
typedef struct as_pp_frame {
  uint8_t kind;
  uint32_t nconds; /* of the job when the frame began */
  as_pos pos;      /* where it was opened */
  as_lex lex;      /* of PP_FILE */
  as_pp_body body; /* of the others */
  uint32_t at;
  uint64_t left;            /* iterations of %rep after this one */
  bool counts;              /* of %rep: each round is an expansion of its own */
  struct as_pp_frame *call; /* the macro call whose parameters count: itself in a macro; or NULL */
  as_expansion *expansion;
  as_pp_macro *macro;
  const char *called; /* the macro's name as written */
  uint64_t id;        /* for %%names */
  as_toks args;
  as_pp_range *arg;
  uint32_t nargs, cap_args, rotate;
  as_tok label; /* of %00; kind AS_T_END: none */
} as_pp_frame;

enum as_pp_state { PP_TAKING, PP_WAITING, PP_DONE };
typedef struct as_pp_cond {
  as_pos pos;
  uint8_t state;
  bool after_else;
} as_pp_cond;

typedef struct as_pp_context {
  struct as_pp_context *outer;
  const char *name; /* interned, or NULL */
  uint64_t id;
} as_pp_context;

/* Tokens that as_pp_expand still has to read. */
typedef struct as_pp_input {
  const as_tok *v; /* NULL: in buf, which may move */
  const as_toks *buf;
  uint32_t at, end;
  uint32_t mark;     /* of the scratch buffer before it */
  as_pp_define *def; /* first form of the macro expanded; NULL: a line or an argument */
  bool first;        /* the next token takes space_before from the call */
  bool space;
  as_pos pos;         /* of the call, for the tokens of v */
  const char *called; /* the name as written */
} as_pp_input;

struct as_pp {
  as_job *j;
  as_pp_frame *frames[PP_MAX_DEPTH + PP_MAX_INCLUDE + 2];
  uint32_t nframes, nmacros, nfiles; /* open: all, macros and %reps, files */
  as_pp_cond *conds;
  uint32_t nconds;
  as_pp_context *context;
  as_macros *names; /* all that have a meaning */
  bool any_nocase;
  bool env_is_text; /* %!name becomes its value as one word, for what makes a string of it */
  uint64_t ids;
  uint64_t calls, lines, tokens, arg_tokens; /* so far, for the limits */
  as_toks raw, line, out;                    /* a line as lexed, substituted, expanded */
  as_toks pasted, joined, temp;              /* joined by %+, in a parameter; a define's body */
  as_toks indirect[PP_MAX_INDIRECT][2];      /* of %[...]: substituted, expanded */
  uint32_t nindirect;
  as_toks work[PP_MAX_NEST + 1][2]; /* of functions, by nest: results, strings to join */
  as_toks scratch, args;            /* stacks of as_pp_expand */
  as_pp_input *inputs;
  uint32_t ninputs, cap_inputs;
  as_pp_range *ranges;
  uint32_t nranges, cap_ranges;
  as_pp_range *pieces; /* of as_pp_split */
  uint32_t npieces, cap_pieces;
  uint32_t after_word; /* tokens of the output when the next joins its last word; else 0 */
  uint32_t arg_start;  /* of the parameter that is expanded, in args */
  uint32_t nest, steps;
  uint64_t chars;
  struct as_pp_given *given; /* what the caller defines; NULL: nothing */
  uint32_t given_file;       /* the source that its lines are */
};

/* ---- pp.c --------------------------------------------------------------------------------- */

as_pp_frame *as_pp_top(as_pp *pp);
/* A new frame on top, its buffers kept from an earlier use. Fatal past the limits. */
as_pp_frame *as_pp_push(as_pp *pp, unsigned kind, as_pos at);
void as_pp_pop(as_pp *pp);
/* The next round of the %rep f begins. */
void as_pp_round(as_pp *pp, as_pp_frame *f);
/* The lines up to the directive that closes opener, which is the current line; the top frame goes
 * on after it. False after an error: the end of the frame came first. */
bool as_pp_collect(as_pp *pp, as_pos at, enum as_pp_block block, as_pp_body *out);
unsigned as_pp_directive_of(as_pp *pp, const as_tok *v, uint32_t n); /* of a raw line, PP_D_NONE */
unsigned as_pp_find_directive(const as_name *name); /* outside of the %if family; PP_D_NONE */
/* An error for what is left after a directive; true when there is nothing. */
bool as_pp_at_end(as_pp *pp, const as_tok *t, const char *after);
void as_pp_count(as_pp *pp, uint32_t tokens, as_pos at);

/* ---- given.c ------------------------------------------------------------------------------- */

/* Puts the lines of as_options.defines before what is open. */
void as_pp_open_given(as_pp *pp);
/* Whether a place is in those lines. */
bool as_pp_is_given(const as_pp *pp, as_pos at);
/* d, a form of name, is about to be defined. */
void as_pp_note_given(as_pp *pp, as_pp_define *d, const as_tok *name);

/* ---- name.c: names and their meanings -------------------------------------------------- */

as_macros *as_pp_macros(as_pp *pp, const char *name); /* never NULL */
/* The same with the directive and the function of that name. Few programs have many of these words,
 * so each is looked for when it is first read. */
const as_macros *as_pp_word(as_pp *pp, const char *name);
/* Forms of a name, exact ones first; NULL if none exists. */
as_pp_define *as_pp_find_define(as_pp *pp, const char *name);
as_pp_macro *as_pp_find_macro(as_pp *pp, const char *name);
const char *as_pp_lower(as_pp *pp, const char *name);
/* The form of a define with nparams parameters (-1: without parentheses), a new one when there is
 * none; NULL after an error when the name has the other kind (define.c). */
as_pp_define *as_pp_form(as_pp *pp, const as_tok *name, int32_t nparams, bool nocase);
void as_pp_set_body(as_pp *pp, as_pp_define *d, const as_tok *v, uint32_t n); /* copies */
/* Sets a define without parameters to n tokens (copied), reusing its memory. */
void as_pp_set(as_pp *pp, const as_tok *name, const as_tok *v, uint32_t n, bool nocase);
void as_pp_set_string(as_pp *pp, const as_tok *name, const char *s, uint32_t n, bool nocase);
void as_pp_set_int(as_pp *pp, const as_tok *name, int64_t v, bool nocase);
/* A value as one or two tokens: a sign is a token of its own. Gives their number. */
uint32_t as_pp_value(as_pp *pp, const as_tok *at, const as_val *v, as_tok out[2]);

/* ---- subst.c --------------------------------------------------------------------------- */

/* Copies a raw line into out with parameters, %%names, %$names and %? replaced and adjacent words
 * joined. False after an error. */
bool as_pp_subst(as_pp *pp, const as_tok *v, uint32_t n, as_toks *out);

/* ---- expand.c -------------------------------------------------------------------------- */

/* Expands the single-line macros in n tokens into out (cleared; ended by AS_T_END at end's place)
 * and joins around %+. False after an error. */
bool as_pp_expand(as_pp *pp, const as_tok *v, uint32_t n, const as_tok *end, as_toks *out);
/* Joins two words to what their text lexes to, on out. */
bool as_pp_paste(as_pp *pp, const as_tok *a, const as_tok *b, as_toks *out);

/* For func.c. Reads the parameters in parentheses from the inputs above base onto pp->args, a range
 * for each: the next ranges are theirs. whole: commas separate nothing. */
bool as_pp_read_args(as_pp *pp, uint32_t base, const as_tok *name, bool whole);
/* Expands a range of pp->args and joins around %+; the range becomes that of the result. */
bool as_pp_expand_range(as_pp *pp, as_pp_range *r, const as_tok *name);
/* Makes the n tokens the next to be read, as if they were written at the place of call. */
void as_pp_read_next(as_pp *pp, const as_tok *v, uint32_t n, const as_tok *call);
void as_pp_emit(as_pp *pp, const as_tok *t, as_toks *out);

/* ---- func.c: %eval(...) and the like --------------------------------------------------------- */

/* The call whose name was read; its result goes to out or is read next. */
bool as_pp_call_function(as_pp *pp, uint32_t base, const as_tok *name, as_toks *out);
unsigned as_pp_find_function(const as_name *name); /* but %isNAME(); PP_F_NONE */
/* The value of an environment variable; NULL after an error, or with ask if none exists. */
const char *as_pp_env(as_pp *pp, const as_tok *name, bool ask);

/* ---- define.c, alias.c, string.c, macro.c, cond.c, control.c: directives ------------------- */

/* v[0] is the directive, v[n] the AS_T_END. */
void as_pp_do_define(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
void as_pp_do_alias(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
void as_pp_do_string(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
/* Strings as tokens at name's place: tokens as text; bytes start (from 1) to start + count - 1 of
 * s, a negative count ends -1 - count before the end; the strings of v up to an AS_T_END joined,
 * commas left out, false after an error. */
as_tok as_pp_text(as_pp *pp, const as_tok *name, const as_tok *v, uint32_t n);
as_tok as_pp_cut(as_pp *pp, const as_tok *name, const as_tok *s, int64_t start, int64_t count);
bool as_pp_concat(as_pp *pp, const as_tok *name, const as_tok *v, as_tok *out);
bool as_pp_need_string(as_pp *pp, const as_tok *t);
/* Appends the tokens of the string s to out. */
bool as_pp_tokens(as_pp *pp, const as_tok *s, as_toks *out);
void as_pp_do_macro(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
void as_pp_do_unmacro(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
void as_pp_do_control(as_pp *pp, unsigned d, const as_tok *v, uint32_t n);
/* Whether d is of the %if family, with %else and %endif. */
bool as_pp_is_cond(unsigned d);
void as_pp_do_cond(as_pp *pp, unsigned d, const as_tok *v, uint32_t n, bool bad);
void as_pp_find_cond(const as_name *name, as_macros *out); /* sets what is of the %if family */
/* Whether a condition holds: 1, 0, or -1 after an error. at: the directive or function. v: n tokens
 * and an AS_T_END, expanded if as_pp_cond_expands. */
int as_pp_cond_holds(as_pp *pp, unsigned cond, const as_tok *at, const as_tok *v, uint32_t n);
bool as_pp_cond_expands(unsigned cond);
static inline bool as_pp_skipping(const as_pp *pp) {
  return pp->nconds > 0 && pp->conds[pp->nconds - 1].state != PP_TAKING;
}
/* When v is a call of a multi-line macro: pushes its frame. A label before it is left in *label
 * (n tokens of v) for the caller to emit; 0 when the macro takes it. */
bool as_pp_call(as_pp *pp, const as_tok *v, uint32_t n, uint32_t *label);
/* The count of parameters of `%macro name COUNT`, at *t; false after an error. */
typedef struct as_pp_count_spec {
  uint32_t least, most;
  bool greedy;
} as_pp_count_spec;
bool as_pp_read_count(as_pp *pp, const as_tok **t, as_pp_count_spec *out);
/* Splits tokens at commas outside () [] {} into pp->pieces, ranges of v; a piece in braces loses
 * them. Piece number greedy (1-based, 0: none) takes all the rest. False after an error. */
bool as_pp_split(as_pp *pp, const as_tok *v, uint32_t n, uint32_t greedy);

#endif
