/* What names mean to the preprocessor. */
#include "pp.h"

#include <string.h>

as_macros *as_pp_macros(as_pp *pp, const char *name) {
  as_name *entry = as_name_of(name);
  if (entry->macros) return entry->macros;
  entry->macros = as_new(pp->j, sizeof *entry->macros);
  entry->macros->next = pp->names;
  return pp->names = entry->macros;
}

const as_macros *as_pp_word(as_pp *pp, const char *name) {
  as_macros *m = as_pp_macros(pp, name);
  /* Each word is looked up once. */
  if (m->looked) return m;
  const as_name *entry = as_name_of(name);
  m->directive = (uint16_t)as_pp_find_directive(entry);
  m->function = (uint16_t)as_pp_find_function(entry);
  as_pp_find_cond(entry, m);
  m->looked = true;
  return m;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* The lower-case name is remembered with the name: folding happens once for each spelling. */
const char *as_pp_lower(as_pp *pp, const char *name) {
  as_macros *m = as_pp_macros(pp, name);
  if (m->lower) return m->lower->text;
  uint32_t n = as_name_of(name)->len;
  char *s = as_strn(pp->j, name, n);
  for (uint32_t i = 0; i < n; i++) s[i] = lower(s[i]);
  m->lower = as_name_of(as_intern(pp->j, s, n));
  return m->lower->text;
}

as_pp_define *as_pp_find_define(as_pp *pp, const char *name) {
  as_macros *m = as_name_of(name)->macros;
  /* An alias leads to another name, which may be one as well. */
  for (; m && m->alias; m = as_name_of(name)->macros) name = m->alias;
  if (m && m->def) return m->def;
  if (!pp->any_nocase) return NULL;
  m = as_name_of(as_pp_lower(pp, name))->macros;
  return m ? m->def_nocase : NULL;
}

as_pp_macro *as_pp_find_macro(as_pp *pp, const char *name) {
  as_macros *m = as_name_of(name)->macros;
  if (m && m->mac) return m->mac;
  if (!pp->any_nocase) return NULL;
  m = as_name_of(as_pp_lower(pp, name))->macros;
  return m ? m->mac_nocase : NULL;
}

void as_pp_set(as_pp *pp, const as_tok *name, const as_tok *v, uint32_t n, bool nocase) {
  as_pp_define *d = as_pp_form(pp, name, -1, nocase);
  if (d) as_pp_set_body(pp, d, v, n);
}

void as_pp_set_string(as_pp *pp, const as_tok *name, const char *s, uint32_t n, bool nocase) {
  as_tok t = {.kind = AS_T_STR, .text = s, .len = n, .pos = name->pos};
  as_pp_set(pp, name, &t, 1, nocase);
}

uint32_t as_pp_value(as_pp *pp, const as_tok *at, const as_val *v, as_tok out[2]) {
  as_tok t = {.kind = AS_T_INT, .text = "", .pos = at->pos};
  bool minus = v->kind == AS_V_INT ? v->i < 0 : v->kind == AS_V_FLOAT && v->f < 0;
  if (v->kind == AS_V_STR) {
    t = (as_tok){.kind = AS_T_STR, .text = v->s, .len = v->slen, .pos = at->pos};
  } else if (v->kind == AS_V_INT) {
    uint64_t magnitude = minus ? 0 - (uint64_t)v->i : (uint64_t)v->i;
    memcpy(&t.v.ival, &magnitude, sizeof magnitude);
  } else if (v->f - v->f == 0) {
    t.kind = AS_T_FLOAT;
    t.v.fval = minus ? -v->f : v->f;
  } else {
    t.kind = AS_T_NAME;
    t.len = 3;
    t.text = as_intern(pp->j, v->f == v->f ? "inf" : "nan", 3);
  }
  out[0] = (as_tok){.kind = AS_T_PUNCT, .punct = '-', .text = "-", .len = 1, .pos = at->pos};
  /* The sign is the first of two tokens. */
  out[minus] = t;
  return minus ? 2 : 1;
}

void as_pp_set_int(as_pp *pp, const as_tok *name, int64_t v, bool nocase) {
  as_val value = {.kind = AS_V_INT, .i = v};
  as_tok t[2];
  uint32_t n = as_pp_value(pp, name, &value, t);
  as_pp_set(pp, name, t, n, nocase);
}
