/* %defstr, %deftok, %strlen, %substr, %strcat. */
#include "pp.h"

#include <string.h>

static bool is_comma(const as_tok *t) { return t->kind == AS_T_PUNCT && t->punct == ','; }

bool as_pp_need_string(as_pp *pp, const as_tok *t) {
  if (t->kind == AS_T_STR) return true;
  return as_expected(pp->j, t, "a string");
}

static as_tok string(const as_tok *name, const char *s, size_t n) {
  return (as_tok){.kind = AS_T_STR, .text = s, .len = (uint32_t)n, .pos = name->pos};
}

/* A string of what tokens look like: %defstr x a + b is "a + b". */
as_tok as_pp_text(as_pp *pp, const as_tok *name, const as_tok *v, uint32_t n) {
  isa_buf b;
  isa_buf_init(&b, &pp->j->al);
  as_toks_print(v, n, &b);
  size_t len = b.len;
  char *s = b.failed ? NULL : isa_arena_strn(&pp->j->arena, len ? b.data : "", len);
  isa_buf_free(&b);
  if (!s) as_nomem(pp->j);
  return string(name, s, len);
}

/* A zero byte would end the text too early. */
bool as_pp_tokens(as_pp *pp, const as_tok *s, as_toks *out) {
  if (!memchr(s->text, 0, s->len) && as_lex_piece(pp->j, s->text, s->pos, out)) return true;
  return as_error(pp->j, s->pos, s->len, "%s cannot be read as tokens", as_tok_show(pp->j, s));
}

static void deftok(as_pp *pp, const as_tok *name, bool nocase) {
  const as_tok *t = pp->out.v;
  if (!as_pp_need_string(pp, t) || !as_pp_at_end(pp, t + 1, "the string")) return;
  pp->temp.n = 0;
  if (as_pp_tokens(pp, t, &pp->temp)) as_pp_set(pp, name, pp->temp.v, pp->temp.n, nocase);
}

static void length(as_pp *pp, const as_tok *name, bool nocase) {
  const as_tok *t = pp->out.v;
  if (as_pp_need_string(pp, t) && as_pp_at_end(pp, t + 1, "the string"))
    as_pp_set_int(pp, name, t->len, nocase);
}

/* From 1, as NASM counts; the result may be empty. */
as_tok as_pp_cut(as_pp *pp, const as_tok *name, const as_tok *s, int64_t start, int64_t count) {
  int64_t n = s->len, from = start - 1;
  /* A start outside of the string gives nothing. */
  if (from < 0 || from > n) from = n;
  int64_t end = n;
  if (count >= 0)
    end = count < n - from ? from + count : n;
  else
    /* A negative count is a place from the end. */
    end = count + 1 > -n ? n + count + 1 : 0;
  /* A range that ends before it begins is empty. */
  if (end < from) end = from;
  size_t len = (size_t)(end - from);
  return string(name, as_strn(pp->j, s->text + from, len), len);
}

static void substr(as_pp *pp, const as_tok *name, bool nocase) {
  const as_tok *s = pp->out.v;
  /* Without a count it is one character. */
  int64_t start, count = 1;
  if (!as_pp_need_string(pp, s)) return;
  as_cur c = {pp->j, s + 1};
  /* The comma after the string may be left out. */
  if (is_comma(c.t)) c.t++;
  if (!as_expr_int(&c, &start)) return;
  if (is_comma(c.t)) {
    c.t++;
    if (!as_expr_int(&c, &count)) return;
  }
  if (!as_pp_at_end(pp, c.t, "the length")) return;
  as_tok t = as_pp_cut(pp, name, s, start, count);
  as_pp_set(pp, name, &t, 1, nocase);
}

bool as_pp_concat(as_pp *pp, const as_tok *name, const as_tok *v, as_tok *out) {
  uint64_t n = 0;
  const as_tok *t = v;
  /* So may those between the strings. */
  for (bool first = true; t->kind != AS_T_END; first = false) {
    if (!first && is_comma(t)) t++;
    if (!as_pp_need_string(pp, t)) return false;
    n += t++->len;
  }
  /* A string is a token, so it is bounded as a line is. */
  if (n > PP_MAX_LINE)
    as_fatal(pp->j, name->pos, "the string is longer than %d characters", PP_MAX_LINE);
  char *s = as_new(pp->j, (size_t)n + 1), *to = s;
  for (t = v; t->kind != AS_T_END; t++) {
    if (t->kind != AS_T_STR) continue;
    memcpy(to, t->text, t->len);
    to += t->len;
  }
  *out = string(name, s, (size_t)n);
  return true;
}

void as_pp_do_string(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  const as_tok *name = v + 1;
  if (n < 2 || name->kind != AS_T_NAME) {
    as_expected(pp->j, name, "a name after `%%%s`", v->text);
    return;
  }
  bool nocase = v->text[0] == 'i';
  as_tok t;
  /* %defstr takes a variable of the environment as one word. */
  pp->env_is_text = d == PP_D_defstr || d == PP_D_idefstr;
  bool ok = as_pp_expand(pp, v + 2, n - 2, v + n, &pp->out);
  pp->env_is_text = false;
  if (!ok) return;
  switch (d) {
  case PP_D_strlen:
  case PP_D_istrlen: length(pp, name, nocase); break;
  case PP_D_substr:
  case PP_D_isubstr: substr(pp, name, nocase); break;
  case PP_D_deftok:
  case PP_D_ideftok: deftok(pp, name, nocase); break;
  case PP_D_strcat:
  case PP_D_istrcat:
    if (as_pp_concat(pp, name, pp->out.v, &t)) as_pp_set(pp, name, &t, 1, nocase);
    break;
  default:
    t = as_pp_text(pp, name, pp->out.v, pp->out.n);
    as_pp_set(pp, name, &t, 1, nocase);
    break;
  }
}
