/* What names mean to the preprocessor. */
#include "pp.h"

#include <string.h>

as_macros *as_pp_macros(as_pp *pp, const char *name) {
  as_name *entry = as_name_of(name);
  if (!entry->macros) entry->macros = as_new(pp->j, sizeof *entry->macros);
  return entry->macros;
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

bool as_pp_same_name(as_pp *pp, const char *a, const char *b, bool nocase) {
  return a == b || (nocase && as_pp_lower(pp, a) == as_pp_lower(pp, b));
}

as_pp_define *as_pp_find_define(as_pp *pp, const char *name) {
  as_macros *m = as_name_of(name)->macros;
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

/* A negative number is two tokens, as if it had been written. */
void as_pp_set_int(as_pp *pp, const as_tok *name, int64_t v, bool nocase) {
  as_tok t[2] = {{.kind = AS_T_PUNCT, .punct = '-', .text = "-", .len = 1, .pos = name->pos},
                 {.kind = AS_T_INT, .text = "", .pos = name->pos}};
  uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  memcpy(&t[1].v.ival, &magnitude, sizeof magnitude);
  as_pp_set(pp, name, v < 0 ? t : t + 1, v < 0 ? 2 : 1, nocase);
}
