/* What stands for something else in a line of a macro: parameters, local names, the macro's name;
 * and %[...]. */
#include "../../isa/flow.h"
#include "pp.h"

#include <stdio.h>
#include <string.h>

typedef struct subst {
  as_pp *pp;
  as_pp_frame *f, *call;
  as_toks *out;
  bool space;   /* something with a space before it came to nothing */
  bool nothing; /* a parameter did: a %+ after it joins nothing */
} subst;

static bool is_word(const as_tok *t) {
  return t->kind == AS_T_NAME || t->kind == AS_T_INT || t->kind == AS_T_FLOAT;
}

static bool is_paste(const as_tok *t) { return t->kind == AS_T_PP && t->punct == AS_PP_PASTE; }

/* Appends t. Two words without a space between them can only come of a replacement: they join.
 * a%1 with 5 for %1 is a5: no space, so both are one word. */
static void put(subst *s, const as_tok *t, bool space) {
  s->nothing = false;
  space |= s->space;
  s->space = false;
  if (!space && s->out->n > 0 && is_word(t) && is_word(&s->out->v[s->out->n - 1])) {
    as_tok last = s->out->v[--s->out->n];
    if (as_pp_paste(s->pp, &last, t, s->out)) return;
    s->out->v[s->out->n++] = last;
    space = true;
  }
  as_tok *to = as_toks_add(s->pp->j, s->out);
  *to = *t;
  to->space_before = space;
}

/* What came to nothing leaves its space to the next token. */
static void put_range(subst *s, bool space, as_pp_range r) {
  s->space |= space;
  uint32_t last = s->out->n - 1;
  s->nothing = r.n == 0;
  /* A %+ before an empty parameter goes with it. */
  if (r.n == 0 && s->out->n > 0 && is_paste(&s->out->v[last])) {
    s->out->n--;
    s->nothing = false;
  }
  for (uint32_t i = 0; i < r.n; i++) {
    const as_tok *t = &s->call->args.v[r.at + i];
    /* The first token has the space of the parameter's place. */
    put(s, t, i > 0 && t->space_before);
  }
}

/* At the place of the token that it replaces. */
static void put_name(subst *s, const as_tok *at, const char *name) {
  as_tok t = *at;
  t.kind = AS_T_NAME;
  t.punct = 0;
  t.text = name;
  t.len = as_name_of(name)->len;
  put(s, &t, at->space_before);
}

/* The name `..12?x`, which no source would write and every source may.
 * Two dots: such a name is not local to a label. */
static void put_local(subst *s, const as_tok *at, uint64_t id) {
  char head[32];
  int n = snprintf(head, sizeof head, "..%llu?", (unsigned long long)id);
  char *name = as_new(s->pp->j, (size_t)n + strlen(at->text) + 1);
  memcpy(name, head, (size_t)n);
  memcpy(name + n, at->text, strlen(at->text) + 1);
  put_name(s, at, as_intern(s->pp->j, name, strlen(name)));
}

/* %rotate 1 makes the second parameter the first. */
static as_pp_range param(const as_pp_frame *call, uint32_t i) {
  /* %rotate moves the first one. */
  return call->arg[(i + call->rotate) % call->nargs];
}

static void put_param(subst *s, const as_tok *t) {
  if (t->v.ival == 0) {
    /* %0 is how many there are. */
    as_tok n = {.kind = AS_T_INT, .text = "", .pos = t->pos, .v.ival = s->call->nargs};
    put(s, &n, t->space_before);
    return;
  }
  /* A parameter past the last is empty, as in NASM. */
  as_pp_range r = {0, 0};
  if (t->v.ival <= s->call->nargs) r = param(s->call, (uint32_t)t->v.ival - 1);
  put_range(s, t->space_before, r);
}

/* %{a:b}: negative ones count from the end; a > b gives them in reverse. */
static bool put_params(subst *s, const as_tok *t) {
  uint64_t both = (uint64_t)t->v.ival;
  uint32_t low = (uint32_t)both, high = (uint32_t)(both >> 32);
  /* Two numbers in one: the token has a single value. */
  int32_t a, b, n = (int32_t)s->call->nargs;
  memcpy(&a, &low, sizeof a);
  memcpy(&b, &high, sizeof b);
  /* A macro without parameters gives none. */
  if (n == 0) {
    s->space |= t->space_before;
    return true;
  }
  /* -1 is the last parameter. */
  int32_t from = a < 0 ? a + n + 1 : a, to = b < 0 ? b + n + 1 : b;
  if (from < 1 || to < 1 || from > n || to > n)
    return as_error(s->pp->j, t->pos, t->len, "%s is outside the %d parameter%s",
                    as_tok_show(s->pp->j, t), n, n == 1 ? "" : "s");
  as_tok comma = {.kind = AS_T_PUNCT, .punct = ',', .text = ",", .len = 1, .pos = t->pos};
  /* Both ends belong to it. */
  for (int32_t i = from, step = from <= to ? 1 : -1;; i += step) {
    put_range(s, i == from && t->space_before, param(s->call, (uint32_t)i - 1));
    if (i == to) return true;
    put(s, &comma, false);
  }
}

/* %$x of the innermost context, %$$x of the one around it. */
static bool put_context(subst *s, const as_tok *t) {
  as_pp_context *c = s->pp->context;
  /* One more dollar sign for each context outwards. */
  for (int64_t i = 1; i < t->v.ival && c; i++) c = c->outer;
  if (!c)
    return as_error(s->pp->j, t->pos, t->len, "%s needs %lld context%s: `%%push` opens one",
                    as_tok_show(s->pp->j, t), (long long)t->v.ival, t->v.ival == 1 ? "" : "s");
  put_local(s, t, c->id);
  return true;
}

/* The opposite of a branch's condition: ge for lt. NULL: the name is not a condition. The name of a
 * branch is b and its condition.
 * The name of a branch without its b. */
static const char *opposite_of(const char *condition) {
  for (unsigned i = 0; isa_set_item(ISA_SET_COMPARE, i); i++)
    if (strcmp(condition, isa_set_item(ISA_SET_COMPARE, i)) == 0)
      return isa_ops[isa_branch_around(i)].name + 1;
  return NULL;
}

/* %+1 and %-1: a parameter that is a condition, and the opposite one. */
static bool put_condition(subst *s, const as_tok *t) {
  as_pp_range r = {0, 0};
  if (t->v.ival >= 1 && t->v.ival <= s->call->nargs) r = param(s->call, (uint32_t)t->v.ival - 1);
  const as_tok *v = as_pp_range_of(&s->call->args, r);
  const char *opposite = r.n == 1 && v->kind == AS_T_NAME ? opposite_of(v->text) : NULL;
  if (!opposite)
    return as_error(s->pp->j, t->pos, t->len,
                    "parameter %lld is not a condition: eq ne lt le gt ge ltu geu",
                    (long long)t->v.ival);
  as_tok name = *t;
  /* The place is the parameter's: an error there is the caller's. */
  name.pos = v->pos;
  put_name(s, &name,
           t->punct == AS_PP_CODE ? v->text : as_intern(s->pp->j, opposite, strlen(opposite)));
  return true;
}

/* `%[...]`, expanded; *i, where it begins, becomes the index of its `]`. */
static bool put_indirect(subst *s, const as_tok *v, uint32_t n, uint32_t *i) {
  as_pp *pp = s->pp;
  const as_tok *open = &v[*i];
  uint32_t from = *i + 1, depth = 1;
  /* A % [ within it opens another. */
  for (++*i; *i < n; ++*i) {
    const as_tok *t = &v[*i];
    bool opens =
        t->kind == AS_T_PP ? t->punct == AS_PP_OPEN : t->kind == AS_T_PUNCT && t->punct == '[';
    if (opens) depth++;
    if (t->kind == AS_T_PUNCT && t->punct == ']' && --depth == 0) break;
  }
  if (*i == n) return as_error(pp->j, open->pos, open->len, "`%%[` has no `]`");
  if (pp->nindirect == PP_MAX_INDIRECT)
    as_fatal(pp->j, open->pos, "`%%[` nested deeper than %d", PP_MAX_INDIRECT);
  /* Buffers for each depth. */
  as_toks *both = pp->indirect[pp->nindirect++];
  /* Substituted, then expanded, as if it were a line of its own. */
  bool ok = as_pp_subst(pp, v + from, *i - from, &both[0]) &&
            as_pp_expand(pp, both[0].v, both[0].n, &v[*i], &both[1]);
  pp->nindirect--;
  if (!ok) return false;
  s->space |= open->space_before;
  for (uint32_t k = 0; k < both[1].n; k++)
    put(s, &both[1].v[k], k > 0 && both[1].v[k].space_before);
  s->out->has_pp |= both[1].has_pp;
  return true;
}

static bool put_pp(subst *s, const as_tok *t) {
  /* There was nothing to join it to. */
  if (is_paste(t) && s->nothing) return true;
  if (t->punct == AS_PP_CONTEXT) return put_context(s, t);
  if (t->punct == AS_PP_COMMA)
    return as_error(s->pp->j, t->pos, t->len, "`%%,` is not built: write %%cond() or `%%ifempty`");
  /* These are for later: functions, joins and directives. */
  bool keeps = t->punct == AS_PP_DIRECTIVE || t->punct == AS_PP_PASTE || t->punct == AS_PP_ARG ||
               t->punct == AS_PP_SELF || t->punct == AS_PP_SELF_DEFINED || t->punct == AS_PP_ENV ||
               t->punct == AS_PP_FUNCTION;
  bool self = t->punct == AS_PP_CALLED || t->punct == AS_PP_DEFINED;
  /* In a file %? is for a define's body. */
  if (keeps || (self && !s->call)) {
    put(s, t, t->space_before);
    s->out->has_pp = true;
    return true;
  }
  if (!s->call) {
    as_error(s->pp->j, t->pos, t->len, "%s is not inside a macro", as_tok_show(s->pp->j, t));
    if (t->punct == AS_PP_PARAM || t->punct == AS_PP_NEGATED)
      as_note(s->pp->j, (as_pos){0}, "a remainder needs a space after its `%%`");
    if (t->punct == AS_PP_CODE)
      as_note(s->pp->j, (as_pos){0}, "to join tokens, write a space after the `%%+`");
    return false;
  }
  switch (t->punct) {
  case AS_PP_PARAM: put_param(s, t); break;
  case AS_PP_RANGE: return put_params(s, t);
  case AS_PP_CODE:
  case AS_PP_NEGATED: return put_condition(s, t);
  case AS_PP_LABEL:
    s->space |= t->space_before;
    if (s->call->label.kind == AS_T_NAME) put(s, &s->call->label, false);
    break;
  case AS_PP_LOCAL: put_local(s, t, s->call->id); break;
  case AS_PP_CALLED: put_name(s, t, s->call->called); break;
  default: put_name(s, t, s->call->macro->name); break;
  }
  return true;
}

bool as_pp_subst(as_pp *pp, const as_tok *v, uint32_t n, as_toks *out) {
  as_pp_frame *f = as_pp_top(pp);
  subst s = {.pp = pp, .f = f, .call = f->call, .out = out};
  out->n = 0;
  out->has_pp = out->bad = false;
  as_toks_grow(pp->j, out, n + 1);
  /* The end token is copied as well. */
  for (uint32_t i = 0; i <= n; i++) {
    as_tok t = v[i];
    if (f->kind != PP_FILE) t.pos.expansion = f->expansion;
    if (t.kind == AS_T_PP) {
      bool indirect = t.punct == AS_PP_OPEN;
      if (indirect ? !put_indirect(&s, v, n, &i) : !put_pp(&s, &t)) return false;
      if (out->n > PP_MAX_LINE)
        as_fatal(pp->j, t.pos, "more than %d tokens in a line", PP_MAX_LINE);
    } else {
      put(&s, &t, t.space_before);
    }
  }
  out->n--; /* the AS_T_END */
  return true;
}
