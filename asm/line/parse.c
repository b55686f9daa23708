/* One line: labels, then a definition, a directive or an instruction. Also the small tests of a
 * cursor that every stage uses. */
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
  return as_expected(c->j, c->t, "`%c` after %s", (char)punct, after);
}

bool as_need_end(as_cur *c, const char *after) {
  if (as_at_end(c)) return true;
  return as_error(c->j, c->t->pos, c->t->len, "%s does not belong after %s",
                  as_tok_show(c->j, c->t), after);
}

uint32_t as_span_of(const as_tok *from, const as_tok *end) {
  const as_tok *last = end > from ? end - 1 : from;
  /* On one line, and of one expansion. */
  bool same = last->pos.file == from->pos.file && last->pos.line == from->pos.line &&
              last->pos.expansion == from->pos.expansion && last->pos.col >= from->pos.col;
  return same ? last->pos.col + last->len - from->pos.col : from->len;
}

int as_tok_reg(const as_tok *t) {
  if (t->kind != AS_T_NAME || t->text[0] != 'r') return -1;
  const char *s = t->text + 1;
  /* r0 to r63, without leading zeros. */
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
  /* The call that would have been meant. */
  for (const as_expansion *e = t->pos.expansion; e; e = e->call.expansion)
    if (strcmp(e->macro, t->text) == 0) {
      as_note(j, (as_pos){0}, "a %%macro is not called within itself; write %%rmacro");
      break;
    }
}

/* What follows the label at t, `name:`, `.local:` or `name.local:`; NULL: no label stands there. */
static const as_tok *after_label(const as_tok *t) {
  if (t->kind != AS_T_NAME) return NULL;
  bool local = t[1].kind == AS_T_PUNCT && t[1].punct == '.' && t[2].kind == AS_T_NAME;
  const as_tok *colon = local ? t + 3 : t + 1;
  return colon->kind == AS_T_PUNCT && colon->punct == ':' ? colon + 1 : NULL;
}

/* Labels at the start of the line. */
static bool labels(as_cur *c) {
  bool any = false;
  for (const as_tok *after; (after = after_label(c->t)); any = true) {
    /* A local part stands before the colon. */
    as_label_define(c->j, c->t, after - 2 > c->t ? after - 2 : NULL);
    c->t = after;
  }
  return any;
}

/* The line for the core of the current section. */
static void parse_once(as_job *j, const as_line *line) {
  as_cur c = {j, line->toks};
  bool labelled = labels(&c);
  if (labelled && j->unit->data.name) as_data_close(j);
  if (as_at_end(&c)) {
    if (labelled) as_list_line(j, line->pos);
    return;
  }
  if (!as_at_name(&c)) {
    as_expected(j, c.t, "a label, a directive or an instruction");
    return;
  }
  int word = as_word(j, c.t->text);
  bool data = word < 0 && isa_dtype_find(c.t->text, c.t->len) >= 0;
  /* A line without data ends the tensor's data. */
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

/* `dma q, ...` of a queue that both cores have. */
static bool is_static_of_both(as_job *j, const as_tok *t) {
  if (t[1].kind != AS_T_NAME || strcmp(t->text, "dma") != 0) return false;
  const as_sym *q = as_sym_find(j, t[1].text, 0);
  return q && q->kind == AS_S_QUEUE && q->core == AS_BOTH;
}

/* `global load` and `extern load`, of labels; `extern x sem` is a declaration. */
static bool names_labels(as_job *j, const as_tok *t) {
  if (as_tok_is(t, "global")) return true;
  return as_tok_is(t, "extern") && !(t[1].kind == AS_T_NAME && as_defines(j, &t[2]));
}

/* Whether each core has its own of what a line makes: an instruction of a `core=*` section, a
 * static transfer of a `core=*` queue before any section. Labels before it count with it. */
static bool is_for_each_core(as_job *j, const as_line *line) {
  const as_tok *t = line->toks, *after;
  /* Outside of sections only a static transfer is of a core. */
  if (!j->unit->both && j->unit->section < AS_NSECTIONS) return false;
  while ((after = after_label(t))) t = after;
  /* A label alone belongs to the code that follows. */
  if (t->kind == AS_T_END && t > line->toks) return j->unit->both;
  if (t->kind != AS_T_NAME || as_defines(j, &t[1])) return false;
  int word = as_word(j, t->text);
  if (j->unit->section == AS_NSECTIONS) return is_static_of_both(j, t);
  return word < AS_WORD_DIRECTIVE || as_is_code(word) || names_labels(j, t);
}

void as_parse_line(as_job *j, const as_line *line) {
  struct as_unit *u = j->unit;
  uint32_t errors = j->errors;
  u->line = line;
  u->parsing = true;
  bool each = is_for_each_core(j, line);
  parse_once(j, line);
  if (each &&
      j->errors == errors) { /* an error usually is one of both cores: it is reported once */
    unsigned section = u->section;
    u->core = 1;
    if (section < AS_NSECTIONS) u->section += ISA_NSEQS;
    j->hush = true;
    parse_once(j, line);
    j->hush = false;
    u->core = 0;
    u->section = section;
  }
  u->parsing = false;
}
