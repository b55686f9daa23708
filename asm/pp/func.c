/* Functions: %eval(a + b), %cond(n, x, y) and the like, in whatever is expanded; and %!NAME. */
#include "pp.h"

#include <string.h>

/* By number, with the least and the most parameters. */
static const struct {
  const char *name;
  uint32_t least, most; /* parameters */
} functions[] = {
#define FUNCTION(id, name, least, most) [PP_F_##id] = {name, least, most},
#include "directives.def"
};

static const struct {
  const char *name, *instead;
} refused[] = {
#define REFUSED_FUNCTION(name, instead) {name, instead},
#include "directives.def"
};

unsigned as_pp_find_function(const as_name *name) {
  for (unsigned i = 1; i < PP_F_IS; i++)
    if (strcmp(functions[i].name, name->text) == 0) return i;
  return PP_F_NONE;
}

/* An environment makes a build depend on its host, so the caller must allow it. */
const char *as_pp_env(as_pp *pp, const as_tok *name, bool ask) {
  const as_options *o = pp->j->o;
  if (!o || !o->env) {
    as_error(pp->j, name->pos, name->len, "this source may not read environment variables");
    return NULL;
  }
  const char *value = o->env(name->text);
  /* %ifenv only asks: that it is missing is an answer. */
  if (value || ask) return value;
  as_error(pp->j, name->pos, name->len,
           "there is no environment variable `%s`; test for it with `%%ifenv`", name->text);
  return NULL;
}

static bool unknown(as_pp *pp, const as_tok *name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    if (strcmp(name->text, refused[i].name) != 0) continue;
    return as_error(pp->j, name->pos, name->len, "`%%%s()` is not built: %s", name->text,
                    refused[i].instead);
  }
  as_error(pp->j, name->pos, name->len, "unknown function `%%%s()`", name->text);
  /* 10 %eval (3) is a remainder, or a call that was misspelt. */
  as_note(pp->j, (as_pos){0}, "a remainder needs a space after its `%%`");
  return false;
}

/* ---- Parameters --------------------------------------------------------------------------- */

/* A range with an AS_T_END after it, at the end of pp->args: valid until they grow.
 * Expressions end at an AS_T_END, which a range does not have. */
static const as_tok *ended(as_pp *pp, as_pp_range r, const as_tok *name) {
  as_tok *v = as_toks_grow(pp->j, &pp->args, r.n + 1);
  /* as_toks_grow may have moved the tokens that r is in. */
  if (r.n) memcpy(v, as_pp_range_of(&pp->args, r), r.n * sizeof *v);
  v[r.n] = (as_tok){.kind = AS_T_END, .text = "", .pos = name->pos};
  pp->args.n += r.n + 1;
  return v;
}

/* The value of parameter i, expanded. */
static bool value(as_pp *pp, uint32_t i, const as_tok *name, as_val *out) {
  as_pp_range r = pp->ranges[i];
  if (!as_pp_expand_range(pp, &r, name)) return false;
  as_cur c = {pp->j, ended(pp, r, name)};
  return as_expr(&c, out) && as_pp_at_end(pp, c.t, "the value");
}

/* A float would be cut off in silence. */
static bool integer(as_pp *pp, uint32_t i, const as_tok *name, int64_t *out) {
  as_val v;
  if (!value(pp, i, name, &v)) return false;
  *out = v.i;
  if (v.kind == AS_V_INT) return true;
  return as_error(pp->j, name->pos, name->len, "a parameter of `%%%s()` is not an integer",
                  name->text);
}

/* Parameter i is a string, which is copied to *out. */
static bool text(as_pp *pp, uint32_t i, const as_tok *name, as_tok *out) {
  as_pp_range r = pp->ranges[i];
  if (!as_pp_expand_range(pp, &r, name)) return false;
  const as_tok *t = ended(pp, r, name);
  *out = *t;
  return as_pp_need_string(pp, t) && as_pp_at_end(pp, t + 1, "the string");
}

/* ---- What they give ----------------------------------------------------------------------- */

/* The space before a call is the space before its first token. */
static void give(as_pp *pp, const as_tok *name, as_tok t, bool first, as_toks *out) {
  t.space_before = first && name->space_before;
  /* Without a space it joins the word before it. */
  if (first && !t.space_before) pp->after_word = out->n;
  as_pp_emit(pp, &t, out);
}

static void give_value(as_pp *pp, const as_tok *name, const as_val *v, as_toks *out) {
  as_tok t[2];
  uint32_t n = as_pp_value(pp, name, v, t);
  for (uint32_t i = 0; i < n; i++) give(pp, name, t[i], i == 0, out);
}

static void give_int(as_pp *pp, const as_tok *name, int64_t i, as_toks *out) {
  as_val v = {.kind = AS_V_INT, .i = i};
  give_value(pp, name, &v, out);
}

/* %eval(a, b) gives as many numbers, with commas between them. */
static bool eval(as_pp *pp, const as_tok *name, uint32_t first, uint32_t n, as_toks *out) {
  as_tok comma = {.kind = AS_T_PUNCT, .punct = ',', .text = ",", .len = 1, .pos = name->pos};
  for (uint32_t i = 0; i < n; i++) {
    as_val v;
    if (!value(pp, first + i, name, &v)) return false;
    as_tok t[2];
    uint32_t count = as_pp_value(pp, name, &v, t);
    if (i > 0) give(pp, name, comma, false, out);
    for (uint32_t k = 0; k < count; k++) give(pp, name, t[k], i + k == 0, out);
  }
  return true;
}

/* The value without its sign, for the least integer too: it is a token without one. */
static bool magnitude(as_pp *pp, const as_tok *name, uint32_t first, as_toks *out) {
  as_val v;
  if (!value(pp, first, name, &v)) return false;
  /* Only strings in double quotes come here: 'a' is a number. */
  if (v.kind == AS_V_STR)
    return as_error(pp->j, name->pos, name->len, "%%abs() takes a number, not a string");
  as_tok t[2];
  uint32_t n = as_pp_value(pp, name, &v, t);
  /* The last of the two tokens, if there is a sign. */
  give(pp, name, t[n - 1], true, out);
  return true;
}

/* The parameter chosen is read on; the others are never expanded. */
static bool select_one(as_pp *pp, const as_tok *name, uint32_t first, uint32_t n, bool cond) {
  int64_t which;
  if (!integer(pp, first, name, &which)) return false;
  /* %cond(n, x, y): x if n is not 0; %sel(n, a, b, c): the n-th. */
  if (cond) which = which ? 1 : 2;
  /* None of them is chosen: nothing comes. */
  if (which < 1 || which >= n) return true;
  as_pp_range r = pp->ranges[first + (uint32_t)which];
  as_pp_read_next(pp, as_pp_range_of(&pp->args, r), r.n, name);
  return true;
}

/* %num(n[, digits = -1[, base = 10]]): n as unsigned; digits < 0: at least, 0: none for n = 0. */
static bool digits(as_pp *pp, const as_tok *name, uint32_t first, uint32_t n, as_toks *out) {
  static const char symbols[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_";
  enum { MOST = 253 };
  /* The 64 digits are NASM's. */
  int64_t number, count = -1, base = 10;
  if (!integer(pp, first, name, &number) || (n > 1 && !integer(pp, first + 1, name, &count)) ||
      (n > 2 && !integer(pp, first + 2, name, &base)))
    return false;
  if (count < -MOST || count > MOST || base < 2 || base > 64)
    return as_error(pp->j, name->pos, name->len,
                    "%%num() gives up to %d digits of a base from 2 to 64, not %lld of base %lld",
                    MOST, (long long)count, (long long)base);
  char s[MOST + 65], *end = s + sizeof s, *p = end;
  uint64_t u = (uint64_t)number;
  /* A fixed count takes the last digits. */
  int64_t least = count < 0 ? -count : count;
  /* At least one digit, unless none was asked for. */
  for (; u || end - p < least; u /= (uint64_t)base) *--p = symbols[u % (uint64_t)base];
  if (count > 0) p = end - count;
  size_t len = (size_t)(end - p);
  as_tok t = {.kind = AS_T_STR, .text = as_strn(pp->j, p, len), .len = (uint32_t)len};
  t.pos = name->pos;
  give(pp, name, t, true, out);
  return true;
}

/* As %substr, with the same defaults. */
static bool substring(as_pp *pp, const as_tok *name, uint32_t first, uint32_t n, as_toks *out) {
  as_tok s;
  int64_t start, count = -1;
  if (!text(pp, first, name, &s) || !integer(pp, first + 1, name, &start) ||
      (n > 2 && !integer(pp, first + 2, name, &count)))
    return false;
  give(pp, name, as_pp_cut(pp, name, &s, start, count), true, out);
  return true;
}

static bool concat(as_pp *pp, const as_tok *name, uint32_t first, uint32_t n, as_toks *out) {
  as_toks *all = &pp->work[pp->nest][1]; /* parameters are nested deeper */
  as_tok t;
  all->n = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!text(pp, first + i, name, &t)) return false;
    *as_toks_add(pp->j, all) = t;
  }
  *as_toks_add(pp->j, all) = (as_tok){.kind = AS_T_END, .text = "", .pos = name->pos};
  if (!as_pp_concat(pp, name, all->v, &t)) return false;
  give(pp, name, t, true, out);
  return true;
}

/* The tokens of a string are read as source: macros in it are expanded. */
static bool to_tokens(as_pp *pp, const as_tok *name, uint32_t first) {
  as_tok s;
  if (!text(pp, first, name, &s)) return false;
  pp->joined.n = 0;
  s.pos = name->pos;
  if (!as_pp_tokens(pp, &s, &pp->joined)) return false;
  as_pp_read_next(pp, pp->joined.v, pp->joined.n, name);
  return true;
}

static bool to_text(as_pp *pp, const as_tok *name, uint32_t first, as_toks *out) {
  as_pp_range r = pp->ranges[first];
  bool outer = pp->env_is_text;
  pp->env_is_text = true;
  bool ok = as_pp_expand_range(pp, &r, name);
  /* A variable of the environment is text there. */
  pp->env_is_text = outer;
  if (ok) give(pp, name, as_pp_text(pp, name, as_pp_range_of(&pp->args, r), r.n), true, out);
  return ok;
}

/* Bytes, as in NASM, not characters. */
static bool length(as_pp *pp, const as_tok *name, uint32_t first, as_toks *out) {
  as_tok s;
  if (!text(pp, first, name, &s)) return false;
  give_int(pp, name, s.len, out);
  return true;
}

/* %is...(): the condition of that name.
 * is / 2 is the condition, is & 1 whether it is negated. */
static bool condition(as_pp *pp, const as_tok *name, unsigned is, uint32_t first, as_toks *out) {
  as_pp_range r = pp->ranges[first];
  unsigned cond = is / 2;
  /* Some conditions take names as they are. */
  if (as_pp_cond_expands(cond) && !as_pp_expand_range(pp, &r, name)) return false;
  int holds = as_pp_cond_holds(pp, cond, name, ended(pp, r, name), r.n);
  if (holds >= 0) give_int(pp, name, (holds != 0) != (is & 1), out);
  return holds >= 0;
}

/* ---- Calls -------------------------------------------------------------------------------- */

static bool check_count(as_pp *pp, const as_tok *name, unsigned f, uint32_t n) {
  if (n >= functions[f].least && n <= functions[f].most) return true;
  /* Functions of many parameters have no limit worth telling. */
  return as_error(pp->j, name->pos, name->len, "`%%%s()` takes %u%s parameter%s, not %u",
                  name->text, functions[f].least,
                  functions[f].most > functions[f].least ? " or more" : "",
                  functions[f].least == 1 && functions[f].most == 1 ? "" : "s", n);
}

static bool call(as_pp *pp, unsigned f, const as_tok *name, uint32_t first, as_toks *out) {
  uint32_t n = pp->nranges - first;
  if (f >= PP_F_IS) return condition(pp, name, f - PP_F_IS, first, out);
  if (!check_count(pp, name, f, n)) return false;
  switch (f) {
  case PP_F_abs: return magnitude(pp, name, first, out);
  case PP_F_cond:
  case PP_F_sel: return select_one(pp, name, first, n, f == PP_F_cond);
  /* %count(): how many parameters there are. */
  case PP_F_count: give_int(pp, name, n, out); return true;
  case PP_F_num: return digits(pp, name, first, n, out);
  case PP_F_str: return to_text(pp, name, first, out);
  case PP_F_strcat: return concat(pp, name, first, n, out);
  case PP_F_strlen: return length(pp, name, first, out);
  case PP_F_substr: return substring(pp, name, first, n, out);
  case PP_F_tok: return to_tokens(pp, name, first);
  default: return eval(pp, name, first, n, out);
  }
}

/* out may be pp->args itself: then the result comes after what is read there, and is moved to
 * where the call began.
 * %str and the conditions take all that is in the parentheses, commas too. */
bool as_pp_call_function(as_pp *pp, uint32_t base, const as_tok *name, as_toks *out) {
  unsigned f = as_pp_word(pp, name->text)->function;
  if (f == PP_F_NONE) return unknown(pp, name);
  uint32_t first = pp->nranges, mark = pp->args.n;
  as_toks *result = &pp->work[pp->nest][0];
  result->n = 0;
  if (!as_pp_read_args(pp, base, name, f == PP_F_str || f >= PP_F_IS) ||
      !call(pp, f, name, first, out == &pp->args ? result : out))
    return false;
  /* The parameters are used up; their room is free again. */
  pp->args.n = mark;
  pp->nranges = first;
  if (result->n > 0 && !name->space_before) pp->after_word = out->n;
  /* The result is moved over what has been read for it. */
  for (uint32_t i = 0; i < result->n; i++) as_pp_emit(pp, &result->v[i], out);
  return true;
}
