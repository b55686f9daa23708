/* %define, %xdefine, %assign, %undef. */
#include "pp.h"

#include <string.h>

enum { MAX_ARGS = 256 };

/* ---- Forms -------------------------------------------------------------------------------- */

/* Through aliases, to the name at their end. */
static as_pp_define **chain(as_pp *pp, const char *name, bool nocase) {
  while (as_pp_macros(pp, name)->alias) name = as_pp_macros(pp, name)->alias;
  if (!nocase) return &as_pp_macros(pp, name)->def;
  pp->any_nocase = true;
  return &as_pp_macros(pp, as_pp_lower(pp, name))->def_nocase;
}

/* f(a) and f(a, b) are two forms; f without parentheses is another kind of thing. */
as_pp_define *as_pp_form(as_pp *pp, const as_tok *name, int32_t nparams, bool nocase) {
  as_pp_define **at = chain(pp, name->text, nocase);
  /* A name without parameters would hide all its other forms. */
  if (*at && ((*at)->nparams < 0) != (nparams < 0)) {
    as_error(pp->j, name->pos, name->len, "`%s` is already defined %s parameters", name->text,
             nparams < 0 ? "with" : "without");
    as_note(pp->j, (as_pos){0}, "write `%%undef %s` before the other form", name->text);
    return NULL;
  }
  /* The same number of parameters: that form is defined anew. */
  while (*at && (*at)->nparams != nparams) at = &(*at)->next;
  if (!*at) {
    *at = as_new(pp->j, sizeof **at);
    (*at)->nparams = nparams;
    (*at)->nocase = nocase;
  }
  as_pp_note_given(pp, *at, name);
  (*at)->name = name->text;
  (*at)->magic = PP_PLAIN;
  return *at;
}

void as_pp_set_body(as_pp *pp, as_pp_define *d, const as_tok *v, uint32_t n) {
  /* A redefinition reuses the room. */
  d->body = as_grow(pp->j, d->body, 0, n, &d->cap, sizeof *d->body);
  if (n) memcpy(d->body, v, n * sizeof *v);
  /* The space of the call counts, not that of the definition.
   * x has the space of its use, whatever stood before it in the definition. */
  if (n) d->body[0].space_before = false;
  d->n = n;
}

/* ---- %define ------------------------------------------------------------------------------ */

static bool is_punct(const as_tok *t, unsigned c) { return t->kind == AS_T_PUNCT && t->punct == c; }

/* Reads `a, b)`; the number of parameters, or -1 after an error.
 * The cursor ends behind the parenthesis. */
static int32_t read_params(as_pp *pp, const as_tok **t, const char **params) {
  int32_t n = 0;
  if (is_punct(*t, ')')) {
    ++*t;
    return 0;
  }
  for (;; ++*t) {
    static const char unused[] = ""; /* `f(a,)`: no name is equal to it */
    bool none = is_punct(*t, ',') || is_punct(*t, ')');
    /* Left out, a parameter counts all the same. */
    if (none && n < MAX_ARGS) {
      params[n++] = unused;
      if (is_punct(*t, ')')) break;
      continue;
    }
    if (is_punct(*t, '=') || is_punct(*t, '&') || is_punct(*t, '!') || is_punct(*t, AS_P_ANDAND)) {
      as_error(pp->j, (*t)->pos, (*t)->len,
               "a parameter with %s is not built: write %%eval() or %%str() around its uses",
               as_tok_show(pp->j, *t));
      return -1;
    }
    if ((*t)->kind != AS_T_NAME || n == MAX_ARGS) {
      as_error(pp->j, (*t)->pos, (*t)->len,
               n == MAX_ARGS ? "more than %d parameters"
                             : "expected the name of parameter %d, not %s",
               n == MAX_ARGS ? MAX_ARGS : n + 1, as_tok_show(pp->j, *t));
      return -1;
    }
    params[n++] = (*t)->text;
    ++*t;
    if (is_punct(*t, ',')) continue;
    if (is_punct(*t, ')')) break;
    as_expected(pp->j, *t, "`,` or `)` after a parameter");
    return -1;
  }
  ++*t;
  return n;
}

/* Copies a body to pp->temp, its parameters replaced by their numbers.
 * Parameters become numbers, so that a call need not compare names. */
static void mark_params(as_pp *pp, const as_tok *t, const char **params, int32_t nparams) {
  pp->temp.n = 0;
  for (; t->kind != AS_T_END; t++) {
    as_tok *to = as_toks_add(pp->j, &pp->temp);
    *to = *t;
    for (int32_t i = 0; i < nparams && t->kind == AS_T_NAME; i++) {
      /* Names are interned: equal ones are one pointer. */
      if (params[i] != t->text) continue;
      to->kind = AS_T_PP;
      to->punct = AS_PP_ARG;
      to->v.ival = i;
      break;
    }
  }
}

static void define(as_pp *pp, const as_tok *name, bool now, bool nocase) {
  const char *params[MAX_ARGS];
  const as_tok *t = name + 1;
  int32_t nparams = -1;
  /* With a space before it the parenthesis is of the body. */
  if (t->kind == AS_T_PUNCT && t->punct == '(' && !t->space_before) {
    t++;
    nparams = read_params(pp, &t, params);
    if (nparams < 0) return;
  }
  /* A body may name its own parameters only. */
  mark_params(pp, t, params, nparams);
  as_toks *body = &pp->temp;
  /* Expanded where it is defined, not where it is called. */
  if (now) {
    if (!as_pp_expand(pp, pp->temp.v, pp->temp.n, name, &pp->out)) return;
    body = &pp->out;
  }
  as_pp_define *d = as_pp_form(pp, name, nparams, nocase);
  if (d) as_pp_set_body(pp, d, body->v, body->n);
}

/* The value now: what it is made of may change later. */
static void assign(as_pp *pp, const as_tok *name, uint32_t n, bool nocase) {
  as_val v;
  if (!as_pp_expand(pp, name + 1, n, name + 1 + n, &pp->out)) return;
  as_cur c = {pp->j, pp->out.v};
  if (!as_expr(&c, &v) || !as_pp_at_end(pp, c.t, "the value")) return;
  /* A negative number is two tokens. */
  as_tok t[2];
  uint32_t count = as_pp_value(pp, name, &v, t);
  as_pp_set(pp, name, t, count, nocase);
}

/* All forms of the name, in both ways of writing it. */
static void undef(as_pp *pp, const as_tok *name) {
  *chain(pp, name->text, false) = NULL;
  if (pp->any_nocase) *chain(pp, name->text, true) = NULL;
  as_pp_at_end(pp, name + 1, "the name");
}

void as_pp_do_define(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  const as_tok *name = v + 1;
  if (n < 2 || name->kind != AS_T_NAME) {
    as_expected(pp->j, name, "a name after `%%%s`", v->text);
    return;
  }
  switch (d) {
  case PP_D_define:
  case PP_D_idefine: define(pp, name, false, d == PP_D_idefine); break;
  case PP_D_xdefine:
  case PP_D_ixdefine: define(pp, name, true, d == PP_D_ixdefine); break;
  case PP_D_assign:
  case PP_D_iassign: assign(pp, name, n - 2, d == PP_D_iassign); break;
  default: undef(pp, name); break;
  }
}
