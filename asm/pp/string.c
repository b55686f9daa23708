/* %defstr, %strlen, %substr, %strcat. */
#include "pp.h"

#include <string.h>

static bool is_comma(const as_tok *t) { return t->kind == AS_T_PUNCT && t->punct == ','; }

static bool need_string(as_pp *pp, const as_tok *t) {
  if (t->kind == AS_T_STR) return true;
  as_error(pp->j, t->pos, t->len, "expected a string, not %s", as_tok_show(pp->j, t));
  return false;
}

static void defstr(as_pp *pp, const as_tok *name, bool nocase) {
  isa_buf b;
  isa_buf_init(&b, &pp->j->al);
  as_toks_print(pp->out.v, pp->out.n, &b);
  size_t n = b.len;
  char *s = b.failed ? NULL : isa_arena_strn(&pp->j->arena, n ? b.data : "", n);
  isa_buf_free(&b);
  if (!s) as_nomem(pp->j);
  as_pp_set_string(pp, name, s, (uint32_t)n, nocase);
}

static void length(as_pp *pp, const as_tok *name) {
  const as_tok *t = pp->out.v;
  if (need_string(pp, t) && as_pp_at_end(pp, t + 1, "the string"))
    as_pp_set_int(pp, name, t->len, false);
}

/* Bytes start (from 1) to start + count - 1; a negative count ends -1 - count before the end. */
static void cut(as_pp *pp, const as_tok *name, const as_tok *s, int64_t start, int64_t count) {
  int64_t n = s->len, from = start - 1;
  if (from < 0 || from > n) from = n;
  int64_t end = n;
  if (count >= 0)
    end = count < n - from ? from + count : n;
  else
    end = count + 1 > -n ? n + count + 1 : 0;
  if (end < from) end = from;
  as_pp_set_string(pp, name, as_strn(pp->j, s->text + from, (size_t)(end - from)),
                   (uint32_t)(end - from), false);
}

static void substr(as_pp *pp, const as_tok *name) {
  const as_tok *s = pp->out.v;
  int64_t start, count = 1;
  if (!need_string(pp, s)) return;
  as_cur c = {pp->j, s + 1};
  if (is_comma(c.t)) c.t++;
  if (!as_expr_int(&c, &start)) return;
  if (is_comma(c.t)) {
    c.t++;
    if (!as_expr_int(&c, &count)) return;
  }
  if (as_pp_at_end(pp, c.t, "the length")) cut(pp, name, s, start, count);
}

static void strcat_all(as_pp *pp, const as_tok *name) {
  uint64_t n = 0;
  const as_tok *t = pp->out.v;
  for (bool first = true; t->kind != AS_T_END; first = false) {
    if (!first && is_comma(t)) t++;
    if (!need_string(pp, t)) return;
    n += t++->len;
  }
  if (n > PP_MAX_LINE)
    as_fatal(pp->j, name->pos, "the string is longer than %d characters", PP_MAX_LINE);
  char *s = as_new(pp->j, (size_t)n + 1), *to = s;
  for (t = pp->out.v; t->kind != AS_T_END; t++) {
    if (t->kind != AS_T_STR) continue;
    memcpy(to, t->text, t->len);
    to += t->len;
  }
  as_pp_set_string(pp, name, s, (uint32_t)n, false);
}

void as_pp_do_string(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  const as_tok *name = v + 1;
  if (n < 2 || name->kind != AS_T_NAME) {
    as_error(pp->j, name->pos, name->len, "expected a name after `%%%s`, not %s", v->text,
             as_tok_show(pp->j, name));
    return;
  }
  if (!as_pp_expand(pp, v + 2, n - 2, v + n, &pp->out)) return;
  switch (d) {
  case PP_D_strlen: length(pp, name); break;
  case PP_D_substr: substr(pp, name); break;
  case PP_D_strcat: strcat_all(pp, name); break;
  default: defstr(pp, name, d == PP_D_idefstr); break;
  }
}
