/* The %if family. */
#include "pp.h"

#include <string.h>

enum condition {
#define CONDITION(id, name) C_##id,
#include "directives.def"
  NCONDITIONS
};

static const char *const names[NCONDITIONS] = {
#define CONDITION(id, name) name,
#include "directives.def"
};

/* A directive of the family is PP_D_IF + 4 * condition, + 2 for %elif, + 1 when negated. */
void as_pp_find_cond(const as_name *name, as_macros *out) {
  static const char *const heads[] = {"if", "elif", "is"};
  /* The head, then an n, then the condition. */
  for (unsigned head = 0; head < 3; head++) {
    size_t n = strlen(heads[head]);
    if (strncmp(name->text, heads[head], n) != 0) continue;
    for (unsigned i = 0; i < NCONDITIONS * 2u; i++) {
      const char *rest = name->text + n;
      unsigned cond = i / 2, negated = i & 1;
      if ((negated && *rest++ != 'n') || strcmp(rest, names[cond]) != 0) continue;
      if (head == 2)
        out->function = (uint16_t)(PP_F_IS + i);
      else
        out->directive = (uint16_t)(PP_D_IF + 4 * cond + 2 * head + negated);
    }
  }
}

bool as_pp_is_cond(unsigned d) { return d >= PP_D_IF || d == PP_D_else || d == PP_D_endif; }

/* ---- Conditions --------------------------------------------------------------------------- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool same_text(const char *a, const char *b, uint32_t n, bool nocase) {
  for (uint32_t i = 0; i < n; i++)
    if (a[i] != b[i] && !(nocase && lower(a[i]) == lower(b[i]))) return false;
  return true;
}

static bool same_token(const as_tok *a, const as_tok *b, bool nocase) {
  if (a->kind != b->kind) return false;
  if (a->kind == AS_T_PUNCT) return a->punct == b->punct;
  /* A computed number has no text. */
  if (a->kind == AS_T_INT && !(a->len && b->len)) return a->v.ival == b->v.ival;
  if (a->kind == AS_T_FLOAT && !(a->len && b->len))
    return memcmp(&a->v.fval, &b->v.fval, sizeof a->v.fval) == 0;
  return a->len == b->len && same_text(a->text, b->text, a->len, nocase);
}

/* `a, b`: 1 the same, 0 not, -1 after an error. */
static int identical(as_pp *pp, const as_tok *at, const as_tok *v, uint32_t n, bool nocase) {
  if (!as_pp_split(pp, v, n, 0)) return -1;
  if (pp->npieces != 2) {
    as_error(pp->j, at->pos, at->len, "`%%%s` compares two texts, not %u", at->text, pp->npieces);
    return -1;
  }
  as_pp_range a = pp->pieces[0], b = pp->pieces[1];
  if (a.n != b.n) return 0;
  for (uint32_t i = 0; i < a.n; i++)
    if (!same_token(&v[a.at + i], &v[b.at + i], nocase)) return 0;
  return 1;
}

/* Whether any of the names is a define; with alias, whether one was made by %defalias. */
static int defined(as_pp *pp, const as_tok *at, const as_tok *v, uint32_t n, bool alias) {
  int any = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (v[i].kind != AS_T_NAME) {
      as_expected(pp->j, &v[i], "a name");
      return -1;
    }
    any |= alias ? as_pp_macros(pp, v[i].text)->alias != NULL
                 : as_pp_find_define(pp, v[i].text) != NULL;
  }
  if (n > 0) return any;
  as_error(pp->j, at->pos, at->len, "`%%%s` needs a name", at->text);
  return -1;
}

/* `name [count]`: a form that takes such a number of parameters. */
static int macro_exists(as_pp *pp, const as_tok *v) {
  const as_tok *t = v + 1;
  as_pp_count_spec c;
  if (v->kind != AS_T_NAME) {
    as_expected(pp->j, v, "the name of a macro");
    return -1;
  }
  as_pp_macro *m = as_pp_find_macro(pp, v->text);
  if (t->kind == AS_T_END) return m != NULL;
  if (!as_pp_read_count(pp, &t, &c) || !as_pp_at_end(pp, t, "the number of parameters")) return -1;
  /* The ranges of parameters meet. */
  for (; m; m = m->next)
    if (m->least <= c.most && (c.least <= m->most || m->greedy)) return 1;
  return 0;
}

static int context_is(as_pp *pp, const as_tok *v, uint32_t n) {
  if (n == 0) return pp->context != NULL;
  for (uint32_t i = 0; i < n; i++)
    if (pp->context && v[i].kind == AS_T_NAME && pp->context->name == v[i].text) return 1;
  return 0;
}

static int expression(as_pp *pp, const as_tok *t) {
  as_val v;
  as_cur c = {pp->j, t};
  if (!as_expr(&c, &v) || !as_pp_at_end(pp, c.t, "the condition")) return -1;
  if (v.kind == AS_V_STR) {
    as_error(pp->j, t->pos, t->len, "a string is not a condition");
    return -1;
  }
  /* What is not zero holds. */
  return v.kind == AS_V_INT ? v.i != 0 : v.f != 0;
}

/* `NAME`, `%!NAME` or "NAME" */
static int env_exists(as_pp *pp, const as_tok *at, const as_tok *v, uint32_t n) {
  bool one = n == 1 && (v->kind == AS_T_NAME || v->kind == AS_T_STR ||
                        (v->kind == AS_T_PP && v->punct == AS_PP_ENV));
  if (one) {
    /* as_pp_env reports that the source may not ask. */
    if (!pp->j->o || !pp->j->o->env) return as_pp_env(pp, v, true) ? 1 : -1;
    return as_pp_env(pp, v, true) != NULL;
  }
  as_error(pp->j, at->pos, at->len, "`%%%s` needs the name of one environment variable", at->text);
  return -1;
}

/* There are no packages, but a source may ask for one. */
static int package_exists(as_pp *pp, const as_tok *at, const as_tok *v, uint32_t n) {
  if (n == 1 && (v->kind == AS_T_NAME || v->kind == AS_T_STR)) return 0;
  as_error(pp->j, at->pos, at->len, "`%%%s` needs the name of one package", at->text);
  return -1;
}

/* What the first token is; a number may have a sign. */
static int token_is(const as_tok *t, uint32_t n, unsigned cond) {
  if (cond == C_empty) return n == 0;
  if (cond == C_token) return n == 1;
  if (cond == C_str) return t->kind == AS_T_STR;
  /* %ifnum, %ifint, %iffloat: a sign may stand before the number. */
  if (cond == C_id) return t->kind == AS_T_NAME;
  if (t->kind == AS_T_PUNCT && (t->punct == '-' || t->punct == '+')) t++;
  return (t->kind == AS_T_INT && cond != C_float) || (t->kind == AS_T_FLOAT && cond != C_int);
}

/* A name is asked for here, and must not be replaced by what it means. */
bool as_pp_cond_expands(unsigned cond) {
  return cond != C_def && cond != C_defalias && cond != C_macro && cond != C_ctx && cond != C_env &&
         cond != C_using && cond != C_usable;
}

/* -1: an error was reported; no branch is taken then. */
int as_pp_cond_holds(as_pp *pp, unsigned cond, const as_tok *at, const as_tok *v, uint32_t n) {
  switch (cond) {
  case C_def:
  case C_defalias: return defined(pp, at, v, n, cond == C_defalias);
  case C_macro: return macro_exists(pp, v);
  case C_ctx: return context_is(pp, v, n);
  case C_env: return env_exists(pp, at, v, n);
  case C_using:
  case C_usable: return package_exists(pp, at, v, n);
  case C_expr: return expression(pp, v);
  case C_idn:
  case C_idni: return identical(pp, at, v, n, cond == C_idni);
  default: return token_is(v, n, cond);
  }
}

/* Whether a directive v and the n - 1 tokens after it hold: 1, 0, or -1 after an error. */
static int holds(as_pp *pp, unsigned cond, const as_tok *v, uint32_t n) {
  if (!as_pp_cond_expands(cond)) return as_pp_cond_holds(pp, cond, v, v + 1, n - 1);
  if (!as_pp_expand(pp, v + 1, n - 1, v + n, &pp->out)) return -1;
  return as_pp_cond_holds(pp, cond, v, pp->out.v, pp->out.n);
}

/* ---- Nesting ------------------------------------------------------------------------------ */

/* Made once for all depths, as it is small. */
static as_pp_cond *push_cond(as_pp *pp, as_pos at) {
  if (pp->nconds == PP_MAX_IF) as_fatal(pp->j, at, "%%if nested deeper than %d", PP_MAX_IF);
  if (!pp->conds) pp->conds = as_new(pp->j, PP_MAX_IF * sizeof *pp->conds);
  as_pp_cond *c = &pp->conds[pp->nconds++];
  /* DONE until it is decided: in dead code no branch is taken. */
  *c = (as_pp_cond){.pos = at, .state = PP_DONE};
  return c;
}

/* Decides a branch that may be taken; a condition with an error takes none.
 * Four directives for each condition: %if, %ifn, %elif, %elifn. */
static void decide(as_pp *pp, as_pp_cond *c, unsigned d, const as_tok *v, uint32_t n) {
  unsigned i = d - PP_D_IF;
  int r = holds(pp, i / 4, v, n);
  if (r < 0)
    c->state = PP_DONE;
  else
    /* Negated, it is taken where it does not hold. */
    c->state = (r != 0) != (i & 1) ? PP_TAKING : PP_WAITING;
}

void as_pp_do_cond(as_pp *pp, unsigned d, const as_tok *v, uint32_t n, bool bad) {
  /* In hidden text only the nesting counts: a condition is not evaluated. */
  bool opens = d >= PP_D_IF && !((d - PP_D_IF) & 2);
  if (opens) {
    bool dead = as_pp_skipping(pp) || bad;
    as_pp_cond *c = push_cond(pp, v->pos);
    if (!dead) decide(pp, c, d, v, n);
    return;
  }
  /* A condition is closed in the file or macro that opened it. */
  if (pp->nconds == as_pp_top(pp)->nconds) {
    as_error(pp->j, v->pos, v->len, "`%%%s` without `%%if`", v->text);
    return;
  }
  /* An %else twice, or a condition after it, would be dead. */
  as_pp_cond *c = &pp->conds[pp->nconds - 1];
  if (d == PP_D_endif) {
    pp->nconds--;
  } else if (c->after_else) {
    as_error(pp->j, v->pos, v->len, "`%%%s` after `%%else`", v->text);
    as_note(pp->j, c->pos, "of this condition");
    return;
  } else if (d == PP_D_else) {
    c->after_else = true;
    /* Only where no branch before it has been taken. */
    c->state = c->state == PP_WAITING && !bad ? PP_TAKING : PP_DONE;
  } else {
    /* A branch was taken: the others are passed over without being read. */
    if (c->state == PP_WAITING && !bad)
      decide(pp, c, d, v, n);
    else
      c->state = PP_DONE;
    return;
  }
  if (!bad) as_pp_at_end(pp, v + 1, d == PP_D_else ? "`%else`" : "`%endif`");
}
