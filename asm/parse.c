/* One line: labels, then a definition, a directive or an instruction. Also the small questions
 * that every stage asks of a cursor. */
#include "stmt.h"

#include <string.h>

bool as_tok_is(const as_tok *t, const char *text) {
  return t->kind == AS_T_NAME && strcmp(t->text, text) == 0;
}

bool as_take(as_cur *c, unsigned punct) {
  if (!as_at_punct(c, punct)) return false;
  c->t++;
  return true;
}

bool as_take_name(as_cur *c, const char *text) {
  if (!as_tok_is(c->t, text)) return false;
  c->t++;
  return true;
}

bool as_need(as_cur *c, unsigned punct, const char *after) {
  if (as_take(c, punct)) return true;
  as_error(c->j, c->t->pos, c->t->len, "expected `%c` after %s, not %s", (char)punct, after,
           as_tok_show(c->j, c->t));
  return false;
}

bool as_need_end(as_cur *c, const char *after) {
  if (as_at_end(c)) return true;
  as_error(c->j, c->t->pos, c->t->len, "%s does not belong after %s", as_tok_show(c->j, c->t),
           after);
  return false;
}

uint32_t as_span_of(const as_tok *from, const as_tok *end) {
  const as_tok *last = end > from ? end - 1 : from;
  bool same = last->pos.file == from->pos.file && last->pos.line == from->pos.line &&
              last->pos.expansion == from->pos.expansion && last->pos.col >= from->pos.col;
  return same ? last->pos.col + last->len - from->pos.col : from->len;
}

int as_tok_reg(const as_tok *t) {
  if (t->kind != AS_T_NAME || t->text[0] != 'r') return -1;
  const char *s = t->text + 1;
  if (s[0] < '0' || s[0] > '9' || (s[0] == '0' && s[1])) return -1;
  int n = 0;
  for (; *s; s++) {
    if (*s < '0' || *s > '9') return -1;
    n = n * 10 + (*s - '0');
    if (n >= ISA_NREGS) return -1;
  }
  return n;
}

bool as_at_keyword(const as_cur *c) {
  return c->t->kind == AS_T_NAME && c->t[1].kind == AS_T_PUNCT && c->t[1].punct == '=';
}

static void unknown_mnemonic(as_job *j, const as_tok *t) {
  as_near w = as_near_open(t->text, strlen(t->text));
  for (unsigned i = 0; i < ISA_NOPS; i++) as_near_try(&w, isa_ops[i].name);
  as_pseudo_near(&w);
  as_directive_near(&w);
  as_error(j, t->pos, t->len, "unknown instruction `%s`%s", t->text, as_near_text(j, &w));
}

/* Labels at the start of the line: `name:`, `.local:`, `name.local:`. */
static bool labels(as_cur *c) {
  bool any = false;
  while (as_at_name(c)) {
    const as_tok *t = c->t, *local = NULL;
    if (t[1].kind == AS_T_PUNCT && t[1].punct == '.' && t[2].kind == AS_T_NAME) local = &t[2];
    const as_tok *colon = local ? local + 1 : t + 1;
    if (colon->kind != AS_T_PUNCT || colon->punct != ':') break;
    as_label_define(c->j, t, local);
    c->t = colon + 1;
    any = true;
  }
  return any;
}

void as_parse_line(as_job *j, const as_line *line) {
  as_cur c = {j, line->toks};
  j->unit->line = line;
  bool labelled = labels(&c);
  if (labelled && j->unit->data.name) as_data_close(j);
  if (as_at_end(&c)) {
    if (labelled) as_list_line(j, line->pos);
    return;
  }
  if (!as_at_name(&c)) {
    as_error(j, c.t->pos, c.t->len, "expected a label, a directive or an instruction, not %s",
             as_tok_show(j, c.t));
    return;
  }
  int word = as_word(j, c.t->text);
  bool data = word < 0 && isa_dtype_find(c.t->text, c.t->len) >= 0;
  if (j->unit->data.name && !data && !as_is_data(word)) as_data_close(j);
  /* A directive's word is never a definition's name: `section tensor` is not a tensor. */
  if (word < AS_WORD_DIRECTIVE && as_definition(&c)) return;
  if (data) {
    as_data_line(&c);
  } else if (word < 0) {
    unknown_mnemonic(j, c.t);
  } else if (word >= AS_WORD_DIRECTIVE) {
    as_directive(&c, word - AS_WORD_DIRECTIVE);
  } else {
    c.t++;
    if (word >= AS_WORD_PSEUDO)
      as_match_pseudo(&c, word - AS_WORD_PSEUDO);
    else
      as_match_insn(&c, word);
  }
}
