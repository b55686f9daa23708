/* Tokens to text: for -E, for %defstr and for messages. */
#include "as.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* By number, from AS_P_SHL on.
 * The order is that of the enum in as.h. */
static const char *const long_puncts[] = {"<<", ">>", "==", "!=", "<=", ">=", "&&", "||",
                                          "++", "--", "+=", "-=", "//", "%%", "^^", "<=>"};

static void print_string(const as_tok *t, isa_buf *out) {
  char quote = t->punct == '\'' ? '\'' : '"';
  isa_buf_add(out, &quote, 1);
  for (uint32_t i = 0; i < t->len; i++) {
    unsigned char c = (unsigned char)t->text[i];
    /* Bytes of UTF-8 are escaped too: what a terminal or a locale does with them changes no text.
     */
    if (c == (unsigned char)quote || c == '\\')
      isa_buf_printf(out, "\\%c", c);
    else if (c < ' ' || c >= 0x7f)
      isa_buf_printf(out, "\\x%02x", c);
    else
      isa_buf_add(out, &c, 1);
  }
  isa_buf_add(out, &quote, 1);
}

/* Enough digits to read the same double again, with a point whatever the locale has. */
static void print_float(double v, isa_buf *out) {
  /* Words, so that they are read back as such. */
  char s[40];
  if (isnan(v) || isinf(v)) {
    isa_buf_puts(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return;
  }
  snprintf(s, sizeof s, "%.17g", v);
  bool whole = true;
  for (char *p = s; *p; p++) {
    /* Whatever else there is, is the locale's decimal point. */
    if ((*p < '0' || *p > '9') && *p != '-' && *p != '+' && *p != 'e') *p = '.';
    /* "1" would be read back as an integer. */
    whole = whole && *p != '.' && *p != 'e';
  }
  isa_buf_puts(out, s);
  if (whole) isa_buf_puts(out, ".0");
}

/* The value of a range holds both of its ends. */
static void print_pp(const as_tok *t, isa_buf *out) {
  uint32_t v = (uint32_t)(uint64_t)t->v.ival;
  int32_t first, last;
  uint32_t high = (uint32_t)((uint64_t)t->v.ival >> 32);
  memcpy(&first, &v, 4);
  memcpy(&last, &high, 4);
  switch (t->punct) {
  case AS_PP_DIRECTIVE: isa_buf_printf(out, "%%%s", t->text); break;
  case AS_PP_RANGE: isa_buf_printf(out, "%%{%d:%d}", (int)first, (int)last); break;
  case AS_PP_LABEL: isa_buf_puts(out, "%00"); break;
  case AS_PP_LOCAL: isa_buf_printf(out, "%%%%%s", t->text); break;
  case AS_PP_CONTEXT:
    isa_buf_puts(out, "%");
    for (int64_t i = 0; i < t->v.ival; i++) isa_buf_puts(out, "$");
    isa_buf_puts(out, t->text);
    break;
  case AS_PP_PASTE: isa_buf_puts(out, "%+"); break;
  case AS_PP_CALLED: isa_buf_puts(out, "%?"); break;
  case AS_PP_DEFINED: isa_buf_puts(out, "%??"); break;
  case AS_PP_SELF: isa_buf_puts(out, "%*?"); break;
  case AS_PP_SELF_DEFINED: isa_buf_puts(out, "%*??"); break;
  case AS_PP_OPEN: isa_buf_puts(out, "%["); break;
  case AS_PP_ENV: isa_buf_printf(out, "%%!%s", t->text); break;
  case AS_PP_FUNCTION: isa_buf_printf(out, "%%%s()", t->text); break;
  case AS_PP_CODE: isa_buf_printf(out, "%%+%d", (int)first); break;
  case AS_PP_NEGATED: isa_buf_printf(out, "%%-%d", (int)first); break;
  case AS_PP_COMMA: isa_buf_puts(out, "%,"); break;
  default: isa_buf_printf(out, "%%%d", (int)first); break;
  }
}

void as_tok_print(const as_tok *t, isa_buf *out) {
  switch (t->kind) {
  case AS_T_STR: print_string(t, out); break;
  case AS_T_INT:
    /* A number as it was written keeps its base and its digits. */
    if (t->len)
      isa_buf_add(out, t->text, t->len);
    else /* a sign is a token of its own, but for the least number, whose negation it is */
      isa_buf_printf(out, "%llu", (unsigned long long)t->v.ival);
    break;
  case AS_T_FLOAT:
    if (t->len)
      isa_buf_add(out, t->text, t->len);
    else
      print_float(t->v.fval, out);
    break;
  case AS_T_PUNCT:
    if (t->punct >= AS_P_SHL)
      isa_buf_puts(out, long_puncts[t->punct - AS_P_SHL]);
    else
      isa_buf_printf(out, "%c", t->punct);
    break;
  case AS_T_PP: print_pp(t, out); break;
  case AS_T_NAME: isa_buf_add(out, t->text, t->len); break;
  default: break;
  }
}

/* Long tokens are cut: a message is for a person. */
const char *as_tok_show(as_job *j, const as_tok *t) {
  if (t->kind == AS_T_END) return "end of line";
  isa_buf b;
  isa_buf_init(&b, &j->al);
  as_tok_print(t, &b);
  const char *s = b.failed ? NULL : isa_buf_str(&b);
  size_t n = s ? b.len : 0;
  /* 60 characters, their quotes and dots fit in 72. */
  char *out = s ? isa_arena_alloc(&j->arena, 72) : NULL;
  if (out) snprintf(out, 72, n > 60 ? "`%.56s...`" : "`%.60s`", s);
  isa_buf_free(&b);
  if (!out) as_nomem(j);
  return out;
}

/* ---- Runs of tokens ----------------------------------------------------------------------- */

static bool is_word(const as_tok *t) {
  return t->kind == AS_T_NAME || t->kind == AS_T_INT || t->kind == AS_T_FLOAT;
}

static bool is_punct(const as_tok *t, unsigned c) { return t->kind == AS_T_PUNCT && t->punct == c; }

/* Whether a dot right after t selects an attribute, as lex.c decides it.
 * a.b is an attribute; 1.5 and `x .y` are not. */
static bool selects(const as_tok *t) {
  if (t->kind == AS_T_INT || t->kind == AS_T_FLOAT) return false;
  return t->kind != AS_T_PUNCT || t->punct == ']' || t->punct == ')' || t->punct == '}';
}

/* Whether two punctuation marks that touch would be read as others.
 * << and > together would be read as <<> or as other signs. */
static bool merges(unsigned a, unsigned b) {
  char last = a >= AS_P_SHL ? long_puncts[a - AS_P_SHL][1] : (char)a;
  char first = b >= AS_P_SHL ? long_puncts[b - AS_P_SHL][0] : (char)b;
  if (a == '%' || a == '.' || (last == '<' && first == '>')) return true;
  if (a >= AS_P_SHL)
    return a == AS_P_SHL ? first == '<' : (a == AS_P_SHR || a == AS_P_LE) && first == '>';
  return (first == '=' && strchr("=!<>+-", last)) || (first == last && strchr("<>&|+-/^", last));
}

/* What is printed must be read back as the same tokens. */
static bool needs_space(const as_tok *a, const as_tok *b, bool dot_apart) {
  if (b->space_before || is_punct(a, '%') || is_punct(a, AS_P_IMOD)) return true;
  if (is_punct(a, '.'))
    return dot_apart || !is_word(b) || b->text[0] == '.' || b->kind != AS_T_NAME;
  if (is_punct(b, '.')) return !selects(a);
  if (b->kind == AS_T_NAME && b->text[0] == '.') return a->kind != AS_T_PUNCT || selects(a);
  if ((is_word(a) || a->kind == AS_T_PP) && (is_word(b) || b->kind == AS_T_STR)) return true;
  if (a->kind == AS_T_PUNCT && b->kind == AS_T_PUNCT) return merges(a->punct, b->punct);
  return b->kind == AS_T_FLOAT && b->len && b->text[0] == '.';
}

void as_toks_print(const as_tok *t, uint32_t n, isa_buf *out) {
  bool apart = true; /* of the last token from the one before it */
  /* The first has nothing before it to touch. */
  for (uint32_t i = 0; i < n; i++) {
    bool space = i > 0 && needs_space(&t[i - 1], &t[i], apart);
    if (space) isa_buf_puts(out, " ");
    as_tok_print(&t[i], out);
    apart = space || i == 0;
  }
}

/* ---- Lines -------------------------------------------------------------------------------- */

void as_line_print(const as_line *l, isa_buf *out) {
  as_toks_print(l->toks, l->n, out);
  isa_buf_puts(out, "\n");
}

/* As a string: a name may have any character. */
static void put_name(const as_job *j, uint32_t source, isa_buf *out) {
  const char *name = j->sources[source].name;
  as_tok file = {.kind = AS_T_STR, .text = name, .len = (uint32_t)strlen(name)};
  as_tok_print(&file, out);
}

/* %line marks say from where a line is, and what made it. */
void as_line_print_marked(const as_job *j, const as_line *l, as_marks *m, isa_buf *out) {
  enum { MAX_BLANK = 8 }; /* a longer gap is shorter as a mark */
  /* Blank lines keep the count as long as nothing else has been printed in between. */
  bool follows = m->line && m->file == l->pos.file && l->pos.line >= m->line &&
                 m->expansion == l->pos.expansion;
  if (follows && l->pos.line - m->line <= MAX_BLANK) {
    for (; m->line < l->pos.line; m->line++) isa_buf_puts(out, "\n");
  } else {
    isa_buf_printf(out, "%%line %u ", l->pos.line);
    put_name(j, l->pos.file, out);
    for (const as_expansion *e = l->pos.expansion; e; e = e->call.expansion) {
      if (e->round)
        isa_buf_printf(out, " round %u %u ", e->round, e->call.line);
      else
        isa_buf_printf(out, " from %s %u ", e->macro, e->call.line);
      put_name(j, e->call.file, out);
    }
    isa_buf_puts(out, "\n");
  }
  m->file = l->pos.file;
  m->line = l->pos.line ? l->pos.line + 1 : 0;
  m->expansion = l->pos.expansion;
  as_line_print(l, out);
}
