/* Text to tokens, a line at a time, straight from the source. */
#include "as.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE_TOKENS = 1 << 20 };

/* Classes of bytes. */
enum { BAD, END, LINE, BLANK, LETTER, DIGIT, PUNCT, DOT, QUOTE, PERCENT, COMMENT, SLASH };
static const uint8_t class_of[256] = {
    [0] = END,      ['\n'] = LINE,   ['\r'] = BLANK,  [' '] = BLANK, ['\t'] = BLANK, ['\f'] = BLANK,
    ['\v'] = BLANK, [';'] = COMMENT, ['%'] = PERCENT, ['.'] = DOT,   ['\''] = QUOTE, ['"'] = QUOTE,
    ['`'] = QUOTE,  ['\\'] = SLASH,
#define L(c) [c] = LETTER, [c + 32] = LETTER
    L('A'),         L('B'),          L('C'),          L('D'),        L('E'),         L('F'),
    L('G'),         L('H'),          L('I'),          L('J'),        L('K'),         L('L'),
    L('M'),         L('N'),          L('O'),          L('P'),        L('Q'),         L('R'),
    L('S'),         L('T'),          L('U'),          L('V'),        L('W'),         L('X'),
    L('Y'),         L('Z'),          ['_'] = LETTER,
#undef L
    ['0'] = DIGIT,  ['1'] = DIGIT,   ['2'] = DIGIT,   ['3'] = DIGIT, ['4'] = DIGIT,  ['5'] = DIGIT,
    ['6'] = DIGIT,  ['7'] = DIGIT,   ['8'] = DIGIT,   ['9'] = DIGIT, ['!'] = PUNCT,  ['#'] = PUNCT,
    ['$'] = PUNCT,  ['&'] = PUNCT,   ['('] = PUNCT,   [')'] = PUNCT, ['*'] = PUNCT,  ['+'] = PUNCT,
    [','] = PUNCT,  ['-'] = PUNCT,   ['/'] = PUNCT,   [':'] = PUNCT, ['<'] = PUNCT,  ['='] = PUNCT,
    ['>'] = PUNCT,  ['?'] = PUNCT,   ['@'] = PUNCT,   ['['] = PUNCT, [']'] = PUNCT,  ['^'] = PUNCT,
    ['{'] = PUNCT,  ['|'] = PUNCT,   ['}'] = PUNCT,   ['~'] = PUNCT,
};

static unsigned class_at(const char *p) { return class_of[(unsigned char)*p]; }
static bool name_start(char c) { return class_at(&c) == LETTER; }
static bool name_part(char c) {
  /* A question mark only inside: at the beginning it is an operator. */
  return class_at(&c) == LETTER || class_at(&c) == DIGIT || c == '?';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static as_pos place(const as_lex *lx, const char *p) {
  return (as_pos){lx->file, lx->line, (uint32_t)(p - lx->bol) + 1, NULL};
}

static bool fail(as_lex *lx, const char *from, const char *to, const char *why) {
  if (!lx->quiet) {
    size_t n = (size_t)(to - from);
    as_error(lx->j, place(lx, from), (uint32_t)n, "%s `%.*s`", why, n > 60 ? 60 : (int)n, from);
  }
  return false;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/* Everything that looks as if it belonged to a number, so that an error can show all of it. A
 * point before a letter is not part of it: `%macro name 1.nolist`. */
static const char *number_end(const char *p) {
  bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
  for (;; p++) {
    char low = (char)(*p | 32);
    if (*p == '.' && name_start(p[1]) && !(hex && digit_value(p[1]) < 16)) return p;
    if (((low == 'e' && !hex) || (low == 'p' && hex)) && (p[1] == '+' || p[1] == '-'))
      p++;
    else if (!name_part(*p) && *p != '.')
      return p;
  }
}

enum number { N_OK, N_BAD, N_LARGE };

static enum number int_value(const char *s, unsigned radix, int64_t *out) {
  uint64_t v = 0;
  if (!*s) return N_BAD;
  for (; *s; s++) {
    unsigned d = (unsigned)digit_value(*s);
    if (d >= radix) return N_BAD;
    if (v > (UINT64_MAX - d) / radix) return N_LARGE;
    v = v * radix + d;
  }
  memcpy(out, &v, sizeof v);
  return N_OK;
}

/* Up to 15 digits and powers of ten up to 22 are doubles, so their quotient is rounded once. */
static double exact_decimal(const char *digits, size_t n, long scale) {
  double v = 0, power = 1;
  for (size_t i = 0; i < n; i++) v = v * 10 + (digits[i] - '0');
  for (; scale < 0; scale++) power *= 10;
  return v / power;
}

/* strtod reads a point by the locale, so the number is given to it without one: 1.5e3 as 15e2. */
static enum number float_value(const char *s, bool hex, double *out) {
  char text[512];
  size_t n = 0;
  long scale = 0, exponent = 0;
  bool digits = false, point = false;
  if (hex) n = 2, text[0] = '0', text[1] = 'x', s += 2;
  for (; *s && (digit_value(*s) < (hex ? 16 : 10) || *s == '.'); s++) {
    if (*s == '.' && point) return N_BAD;
    if (*s == '.') {
      point = true;
      continue;
    }
    digits = true;
    text[n++] = *s;
    if (point) scale -= hex ? 4 : 1;
  }
  bool has_exp = (*s | 32) == (hex ? 'p' : 'e');
  /* As in C, a hexadecimal float needs its exponent. */
  if (!digits || (*s && !has_exp) || (hex && !has_exp)) return N_BAD;
  if (has_exp) {
    char *end;
    if (!is_digit(s[1]) && !((s[1] == '+' || s[1] == '-') && is_digit(s[2]))) return N_BAD;
    exponent = strtol(s + 1, &end, 10);
    if (*end) return N_BAD;
    /* Far beyond any double, and the sum with scale stays within a long. */
    if (exponent > 100000) exponent = 100000;
    if (exponent < -100000) exponent = -100000;
  }
  if (!hex && n <= 15 && exponent + scale <= 0 && exponent + scale >= -22) {
    *out = exact_decimal(text, n, exponent + scale);
    return N_OK;
  }
  snprintf(text + n, sizeof text - n, "%c%ld", hex ? 'p' : 'e', exponent + scale);
  *out = strtod(text, NULL);
  return *out - *out == 0 ? N_OK : N_LARGE;
}

static enum number number_value(const char *from, const char *to, as_tok *t) {
  char s[400];
  size_t n = 0;
  for (const char *p = from; p < to; p++) {
    if (n + 1 == sizeof s) return N_BAD;
    /* A low line between digits only, and one at a time. */
    if (*p != '_')
      s[n++] = *p;
    else if (p == from || !name_part(p[-1]) || p + 1 == to || p[1] == '_')
      return N_BAD;
  }
  s[n] = 0;
  char radix = (char)(s[0] == '0' ? s[1] | 32 : 0);
  t->kind = AS_T_INT;
  if (radix == 'x' && strpbrk(s, ".pP")) {
    t->kind = AS_T_FLOAT;
    return float_value(s, true, &t->v.fval);
  }
  if (radix == 'x') return int_value(s + 2, 16, &t->v.ival);
  if (radix == 'b') return int_value(s + 2, 2, &t->v.ival);
  if (radix == 'o') return int_value(s + 2, 8, &t->v.ival);
  if (!strpbrk(s, ".eE")) return int_value(s, 10, &t->v.ival);
  t->kind = AS_T_FLOAT;
  return float_value(s, false, &t->v.fval);
}

static bool lex_number(as_lex *lx, as_tok *t) {
  const char *from = lx->p, *to = number_end(from);
  enum number r;
  lx->p = to;
  t->text = from;
  t->len = (uint32_t)(to - from);
  if (to - from < 19 && (*from != '0' || to - from == 1)) { /* the common case, if all digits */
    int64_t v = 0;
    const char *p = from;
    while (is_digit(*p)) v = v * 10 + (*p++ - '0');
    if (p == to) {
      t->kind = AS_T_INT;
      t->v.ival = v;
      return true;
    }
  }
  r = number_value(from, to, t);
  if (r == N_OK) return true;
  if (r == N_BAD) return fail(lx, from, to, "malformed number");
  return fail(lx, from, to,
              t->kind == AS_T_INT ? "number of more than 64 bits"
                                  : "number beyond the range of a double");
}

/* ---- Quoted text -------------------------------------------------------------------------- */

static const char escape_from[] = "abfnrtve\\\"'`?";
static const char escape_to[] = "\a\b\f\n\r\t\v\033\\\"'`?";

/* A number of at least `least` and at most `most` digits at *p; false when there are fewer. */
static bool digits(const char **p, int radix, int least, int most, uint32_t *out) {
  int n = 0;
  for (*out = 0; n < most && digit_value(**p) < radix; n++)
    *out = *out * (uint32_t)radix + (uint32_t)digit_value(*(*p)++);
  return n >= least;
}

/* The bytes of a character in UTF-8; false: no character has that number. */
static bool utf8(uint32_t c, char **to) {
  /* Surrogates are halves of a pair in UTF-16 and no characters. */
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
  unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
  *(*to)++ = (char)(unsigned char)(heads[more] | c >> (6 * more));
  while (more-- > 0) *(*to)++ = (char)(unsigned char)(0x80 | (c >> (6 * more) & 0x3f));
  return true;
}

/* Reads the escape at *p, after its backslash; false for one that is not known. */
static bool escape(const char **p, char **to) {
  uint32_t c;
  const char *at = **p ? strchr(escape_from, **p) : NULL;
  if (at) {
    *(*to)++ = escape_to[at - escape_from];
    ++*p;
    return true;
  }
  if (**p == 'u' || **p == 'U') {
    int n = *(*p)++ == 'u' ? 4 : 8;
    return digits(p, 16, n, n, &c) && utf8(c, to);
  }
  bool hex = **p == 'x';
  *p += hex;
  /* Three octal digits can be more than a byte. */
  if (!(hex ? digits(p, 16, 1, 2, &c) : digits(p, 8, 1, 3, &c)) || c > 0xff) return false;
  *(*to)++ = (char)(unsigned char)c;
  return true;
}

/* The end of the quoted text at p: its closing quote, or the end of the line. */
static const char *quote_end(const char *p) {
  char q = *p++;
  while (*p && *p != '\n' && *p != q) p += p[0] == '\\' && p[1] && p[1] != '\n' ? 2 : 1;
  return p;
}

static bool lex_quoted(as_lex *lx, as_tok *t) {
  const char *from = lx->p, *end = quote_end(from);
  char q = *from;
  if (*end != q) {
    lx->p = end;
    /* A line's end from other systems is not part of the text. */
    if (end > from && end[-1] == '\r') end--;
    return fail(lx, from, end, "string without a closing quote");
  }
  lx->p = end + 1;
  /* An escape is never shorter than its bytes. */
  char *s = as_new(lx->j, (size_t)(end - from)), *to = s;
  for (const char *p = from + 1; p < end;) {
    if (*p != '\\') {
      *to++ = *p++;
      continue;
    }
    const char *at = p++;
    if (!escape(&p, &to)) return fail(lx, at, at + 2, "unknown escape");
  }
  t->kind = AS_T_STR;
  t->punct = q == '\'' ? '\'' : 0;
  t->text = s;
  t->len = (uint32_t)(to - s);
  return true;
}

/* ---- Names and punctuation ---------------------------------------------------------------- */

static void lex_name(as_lex *lx, as_tok *t) {
  const char *from = lx->p, *p = from;
  while (*p == '.') p++;
  while (name_part(*p)) p++;
  t->kind = AS_T_NAME;
  t->text = as_intern(lx->j, from, (size_t)(p - from));
  as_name_of(t->text)->lexed++;
  t->len = (uint32_t)(p - from);
  lx->p = p;
}

/* After these a dot selects an attribute; prev NULL or apart: it starts a local name. */
static bool dot_selects(const as_tok *prev) {
  return prev->kind != AS_T_PUNCT || prev->punct == ']' || prev->punct == ')' || prev->punct == '}';
}

/* The punctuation at p, and its length. */
static unsigned punct_at(const char *p, uint32_t *len) {
  /* Longer ones before those that they begin with. */
  static const struct {
    char text[4];
    uint16_t punct;
  } longs[] = {{"<=>", AS_P_CMP},   {"<<<", AS_P_SHL}, {">>>", AS_P_SHR},   {"<<", AS_P_SHL},
               {">>", AS_P_SHR},    {"==", AS_P_EQ},   {"!=", AS_P_NE},     {"<>", AS_P_NE},
               {"<=", AS_P_LE},     {">=", AS_P_GE},   {"&&", AS_P_ANDAND}, {"||", AS_P_OROR},
               {"^^", AS_P_XORXOR}, {"++", AS_P_INC},  {"--", AS_P_DEC},    {"+=", AS_P_ADDEQ},
               {"-=", AS_P_SUBEQ},  {"//", AS_P_IDIV}};
  *len = 1;
  /* Every long one passes this, most bytes do not. */
  if (p[1] == '=' || p[1] == '>' || (p[1] == p[0] && *p != '[' && *p != ']'))
    for (size_t i = 0; i < sizeof longs / sizeof longs[0]; i++) {
      *len = (uint32_t)strlen(longs[i].text);
      if (strncmp(p, longs[i].text, *len) == 0) return longs[i].punct;
      *len = 1;
    }
  return (unsigned char)*p;
}

static void lex_punct(as_lex *lx, as_tok *t) {
  t->kind = AS_T_PUNCT;
  t->text = lx->p;
  t->punct = (uint16_t)punct_at(lx->p, &t->len);
  lx->p += t->len;
}

/* ---- The preprocessor's tokens ------------------------------------------------------------ */

/* The two ends of a range in one number; print_pp of tok.c takes them apart. */
static int64_t pack_range(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)(uint32_t)a | (uint64_t)(uint32_t)b << 32);
}

/* An integer of at most 6 digits at *p; false when none exists. */
static bool small_int(const char **p, int64_t *out) {
  const char *s = *p;
  bool minus = *s == '-';
  s += minus;
  int64_t v = 0;
  int n = 0;
  for (; is_digit(*s) && n < 6; n++) v = v * 10 + (*s++ - '0');
  *out = minus ? -v : v;
  *p = s;
  return n > 0 && !is_digit(*s);
}

/* What follows the % (inside the braces, if any) at p: kind, value and name; NULL when it is not
 * one of the preprocessor's, else its end. */
static const char *pp_body(as_lex *lx, const char *p, bool braced, as_tok *t) {
  if (is_digit(*p)) {
    const char *from = p;
    if (!small_int(&p, &t->v.ival)) return NULL;
    t->punct = p - from == 2 && from[0] == '0' && from[1] == '0' ? AS_PP_LABEL : AS_PP_PARAM;
    if (!braced || *p != ':') return p;
    int64_t last;
    p++;
    if (!small_int(&p, &last)) return NULL;
    t->punct = AS_PP_RANGE;
    t->v.ival = pack_range(t->v.ival, last);
    return p;
  }
  if (braced && *p == '-' && is_digit(p[1])) { /* %{-2:-1} */
    int64_t first, last;
    if (!small_int(&p, &first) || *p++ != ':' || !small_int(&p, &last)) return NULL;
    t->punct = AS_PP_RANGE;
    t->v.ival = pack_range(first, last);
    return p;
  }
  if (*p == '?') {
    t->punct = p[1] == '?' ? AS_PP_DEFINED : AS_PP_CALLED;
    return p + (p[1] == '?' ? 2 : 1);
  }
  const char *name = p;
  t->punct = AS_PP_LOCAL;
  if (*p == '%')
    name++;
  else
    for (t->punct = AS_PP_CONTEXT, t->v.ival = 0; *name == '$'; name++) t->v.ival++;
  if (name == p || name - p > 64 || !(name_start(*name) || (braced && name_part(*name))))
    return NULL;
  for (p = name; name_part(*p);) p++;
  t->text = as_intern(lx->j, name, (size_t)(p - name));
  return p;
}

/* `%!NAME` or `%!"NAME"`: the end of it after the `!`, NULL when no name follows. */
static const char *pp_env(as_lex *lx, const char *p, as_tok *t) {
  const char *from = p, *end = p;
  if (class_at(p) == QUOTE) {
    from = p + 1;
    end = quote_end(p);
    if (*end != *p) return NULL;
    p = end + 1;
  } else {
    while (name_part(*end) && (end > from || name_start(*end))) end++;
    p = end;
  }
  if (end == from) return NULL;
  t->punct = AS_PP_ENV;
  t->text = as_intern(lx->j, from, (size_t)(end - from));
  return p;
}

/* `%name(`, `%!name` and what has a sign after its %: the end of it; NULL: it is something else.
 */
static const char *pp_inline(as_lex *lx, const char *p, as_tok *t) {
  const char *from = p;
  if (name_start(*p)) {
    while (name_part(*p)) p++;
    if (*p != '(') return NULL;
    t->punct = AS_PP_FUNCTION;
    t->text = as_intern(lx->j, from, (size_t)(p - from));
    return p;
  }
  switch (*p) {
  case '!': return pp_env(lx, p + 1, t);
  case '[': t->punct = AS_PP_OPEN; return p + 1;
  case ',': t->punct = AS_PP_COMMA; return p + 1;
  case '*':
    if (p[1] != '?') return NULL;
    t->punct = p[2] == '?' ? AS_PP_SELF_DEFINED : AS_PP_SELF;
    return p + (p[2] == '?' ? 3 : 2);
  case '+':
  case '-':
    /* NASM's %+1, a parameter as a condition, has a digit; else %+ joins two tokens. */
    if (*p == '+' && !is_digit(p[1])) {
      t->punct = AS_PP_PASTE;
      return p + 1;
    }
    t->punct = *p++ == '+' ? AS_PP_CODE : AS_PP_NEGATED;
    return small_int(&p, &t->v.ival) && t->v.ival >= 0 ? p : NULL;
  default: return NULL;
  }
}

static bool lex_percent(as_lex *lx, as_tok *t, bool first) {
  const char *from = lx->p, *p = from + 1, *end;
  t->kind = AS_T_PP;
  t->text = from;
  if (first && name_start(*p)) {
    while (name_part(*p)) p++;
    t->punct = AS_PP_DIRECTIVE;
    t->text = as_intern(lx->j, from + 1, (size_t)(p - from - 1));
    end = p;
  } else if (*p == '{') {
    end = pp_body(lx, p + 1, true, t);
    if (!end || *end != '}') {
      while (*p && *p != '}' && *p != '\n') p++;
      lx->p = p + (*p == '}');
      return fail(lx, from, lx->p, "unknown form");
    }
    end++;
  } else {
    end = pp_inline(lx, p, t);
    if (!end) end = pp_body(lx, p, false, t);
  }
  if (!end) {
    t->kind = AS_T_PUNCT;
    t->punct = *p == '%' ? AS_P_IMOD : '%';
    end = p + (*p == '%');
  }
  t->len = (uint32_t)(end - from);
  lx->p = end;
  return true;
}

/* ---- Lines -------------------------------------------------------------------------------- */

static bool lex_token(as_lex *lx, as_tok *t, const as_tok *prev) {
  char c = *lx->p;
  switch (class_at(lx->p)) {
  case LETTER: lex_name(lx, t); return true;
  case DIGIT: return lex_number(lx, t);
  case QUOTE: return lex_quoted(lx, t);
  case PERCENT: return lex_percent(lx, t, prev == NULL);
  case PUNCT: lex_punct(lx, t); return true;
  case DOT:
    if (!prev || t->space_before || !dot_selects(prev)) {
      const char *p = lx->p + 1;
      if (is_digit(*p)) return lex_number(lx, t);
      if (name_start(*p) || (*p == '.' && name_part(p[1]))) {
        lex_name(lx, t);
        return true;
      }
    }
    lex_punct(lx, t);
    return true;
  default:
    if (!lx->quiet && c == '\\')
      as_error(lx->j, place(lx, lx->p), 1, "`\\` is not at the end of the line");
    else if (!lx->quiet)
      as_error(lx->j, place(lx, lx->p), 1,
               "byte 0x%02x is not allowed outside strings and comments",
               (unsigned)(unsigned char)c);
    /* The other bytes of a character are part of the same mistake. */
    while ((unsigned char)*++lx->p >= 0x80) {
    }
    return false;
  }
}

static void next_line(as_lex *lx) {
  lx->p++;
  lx->bol = lx->p;
  /* Pieces have no lines of their own: their step is 0. */
  lx->line += lx->step;
}

static void to_line_end(as_lex *lx) {
  while (*lx->p && *lx->p != '\n') lx->p++;
}

/* A backslash with nothing but blanks and a comment after it: goes to the next line. */
static bool continues(as_lex *lx) {
  const char *p = lx->p + 1;
  while (class_at(p) == BLANK) p++;
  if (*p && *p != '\n' && *p != ';') return false;
  lx->p = p;
  to_line_end(lx);
  if (*lx->p) next_line(lx);
  return true;
}

/* To the next token of the line, over blanks and continuations; false at its end. */
static bool skip_blanks(as_lex *lx, bool *space) {
  for (;;) {
    switch (class_at(lx->p)) {
    case BLANK: lx->p++; break;
    case SLASH:
      if (!continues(lx)) return true;
      break;
    case COMMENT: to_line_end(lx); return false;
    case END:
    case LINE: return false;
    default: return true;
    }
    *space = true;
  }
}

bool as_lex_line(as_lex *lx, as_toks *out) {
  out->n = 0;
  out->has_pp = out->bad = false;
  if (!*lx->p) return false;
  bool more;
  do {
    bool space = false;
    /* For a token, and the end after it. */
    if (out->cap - out->n < 2) as_toks_grow(lx->j, out, 2);
    more = skip_blanks(lx, &space);
    as_tok *t = &out->v[out->n];
    *t = (as_tok){.kind = AS_T_END, .space_before = space, .text = "", .pos = place(lx, lx->p)};
    if (!more) break;
    if (out->n == MAX_LINE_TOKENS)
      as_fatal(lx->j, t->pos, "more than %d tokens in a line", MAX_LINE_TOKENS);
    if (!lex_token(lx, t, out->n ? t - 1 : NULL)) {
      /* The rest is still read, so that all mistakes of a line are told at once. */
      out->bad = true;
      continue;
    }
    out->has_pp |= t->kind == AS_T_PP;
    out->n++;
  } while (more);
  if (*lx->p) next_line(lx);
  return true;
}

void as_lex_open(as_job *j, uint32_t source, as_lex *lx) {
  const char *text = j->sources[source].text;
  if (!text) text = "";
  if (memcmp(text, "\xef\xbb\xbf", j->sources[source].n < 3 ? 1 : 3) == 0 &&
      j->sources[source].n >= 3)
    text += 3; /* a byte order mark */
  *lx = (as_lex){j, text, text, source, 1, 1, false};
}

bool as_lex_piece(as_job *j, const char *s, as_pos at, as_toks *out) {
  as_lex lx = {j, s, s, at.file, at.line, 0, true};
  uint32_t start = out->n;
  for (;;) {
    bool space = false;
    if (out->cap - out->n < 2) as_toks_grow(j, out, 2);
    if (!skip_blanks(&lx, &space)) return *lx.p == 0;
    as_tok *t = &out->v[out->n];
    *t = (as_tok){.kind = AS_T_END, .space_before = space, .text = ""};
    if (!lex_token(&lx, t, out->n > start ? t - 1 : NULL)) return false;
    t->pos = at;
    out->n++;
  }
}
