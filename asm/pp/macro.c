/* Multi-line macros: their definition and their calls. */
#include "pp.h"

#include <string.h>

static bool is_punct(const as_tok *t, unsigned c) { return t->kind == AS_T_PUNCT && t->punct == c; }

/* ---- Parameters --------------------------------------------------------------------------- */

/* %macro NAME 2 */
static bool read_number(as_pp *pp, const as_tok **t, uint32_t *out) {
  if ((*t)->kind == AS_T_INT && (*t)->v.ival >= 0 && (*t)->v.ival <= PP_MAX_PARAMS) {
    *out = (uint32_t)(*t)->v.ival;
    ++*t;
    return true;
  }
  return as_expected(pp->j, *t, "a number of parameters up to %d", PP_MAX_PARAMS);
}

/* 2, 1-3, 1-* and with a + after it: the last takes the rest. */
bool as_pp_read_count(as_pp *pp, const as_tok **t, as_pp_count_spec *out) {
  *out = (as_pp_count_spec){0, 0, false};
  if ((*t)->kind == AS_T_END) return true;
  const as_tok *first = *t;
  if (!read_number(pp, t, &out->least)) return false;
  out->most = out->least;
  if (is_punct(*t, '-')) {
    ++*t;
    if (is_punct(*t, '*')) {
      ++*t;
      out->most = UINT32_MAX;
    } else if (!read_number(pp, t, &out->most)) {
      return false;
    }
  }
  if (out->most < out->least)
    return as_error(pp->j, first->pos, first->len,
                    "a macro of %u to %u parameters: the second number is less than the first",
                    out->least, out->most);
  if (is_punct(*t, '+')) {
    ++*t;
    out->greedy = true;
  }
  return true;
}

/* `.nolist` is accepted and means nothing here.
 * The listing shows what it shows, so NASM's word changes nothing. */
static void skip_nolist(const as_tok **t) {
  if ((*t)->kind == AS_T_NAME && strcmp((*t)->text, ".nolist") == 0)
    ++*t;
  else if (is_punct(*t, '.') && (*t)[1].kind == AS_T_NAME && strcmp((*t)[1].text, "nolist") == 0)
    *t += 2;
}

static void add_piece(as_pp *pp, uint32_t at, uint32_t n) {
  pp->pieces = as_grow(pp->j, pp->pieces, pp->npieces, 1, &pp->cap_pieces, sizeof *pp->pieces);
  pp->pieces[pp->npieces++] = (as_pp_range){at, n};
}

/* The end of the piece at i: a comma outside brackets, or n. A closing bracket too many does not
 * count; one too few takes the rest of the line. */
static uint32_t piece_end(const as_tok *v, uint32_t i, uint32_t n) {
  uint32_t depth = 0;
  for (; i < n; i++) {
    if (v[i].kind != AS_T_PUNCT) continue;
    unsigned c = v[i].punct;
    if (c == ',' && depth == 0) break;
    if (c == '(' || c == '[' || c == '{') depth++;
    if ((c == ')' || c == ']' || c == '}') && depth > 0) depth--;
  }
  return i;
}

/* The index of the brace that closes the one at i, n when none exists. */
static uint32_t brace_end(const as_tok *v, uint32_t i, uint32_t n) {
  for (uint32_t depth = 0; i < n; i++) {
    if (is_punct(&v[i], '{')) depth++;
    if (is_punct(&v[i], '}') && --depth == 0) return i;
  }
  return n;
}

/* f(a, {b, c}, d): three parameters, the second with a comma. */
bool as_pp_split(as_pp *pp, const as_tok *v, uint32_t n, uint32_t greedy) {
  pp->npieces = 0;
  if (n == 0) return true;
  for (uint32_t at = 0;; at++) {
    /* The last parameter of a greedy macro takes the commas as well. */
    bool rest = greedy && pp->npieces + 1 == greedy;
    uint32_t end = rest ? n : piece_end(v, at, n);
    if (at < end && is_punct(&v[at], '{')) {
      uint32_t close = brace_end(v, at, n);
      /* The braces only keep commas together: the parameter is what is inside. */
      if (close + 1 == end) {
        add_piece(pp, at + 1, close - at - 1);
      } else if (rest) {
        add_piece(pp, at, end - at);
      } else {
        /* {a} b would be half a parameter in braces. */
        return as_error(pp->j, v[at].pos, 1,
                        close == n ? "`{` has no `}`"
                                   : "the braces do not enclose the whole parameter");
      }
    } else {
      add_piece(pp, at, end - at);
    }
    at = end;
    if (at >= n) return true;
    /* As many commas as that are a mistake. */
    if (pp->npieces > PP_MAX_PARAMS)
      as_fatal(pp->j, v[at].pos, "more than %d parameters", PP_MAX_PARAMS);
  }
}

/* ---- Definition --------------------------------------------------------------------------- */

/* As a define, a macro of any case is kept under its name in lower case. */
static as_pp_macro **chain(as_pp *pp, const char *name, bool nocase) {
  if (!nocase) return &as_pp_macros(pp, name)->mac;
  /* From now on each name of a line is looked up in both ways. */
  pp->any_nocase = true;
  return &as_pp_macros(pp, as_pp_lower(pp, name))->mac_nocase;
}

/* Two forms that take the same number could not be told apart. */
static bool overlaps(const as_pp_macro *a, const as_pp_macro *b) {
  return a->least <= b->most && b->least <= a->most;
}

static void set_defaults(as_pp *pp, as_pp_macro *m, const as_tok *t) {
  uint32_t n = 0;
  while (t[n].kind != AS_T_END) n++;
  /* Defaults are for the last parameters: from the least number on. */
  if (!as_pp_split(pp, t, n, 0)) return;
  if (pp->npieces > m->most - m->least) {
    as_error(pp->j, t->pos, t->len, "%u defaults for %u optional parameters", pp->npieces,
             m->most - m->least);
    return;
  }
  as_toks_grow(pp->j, &m->defaults, n + 1);
  memcpy(m->defaults.v, t, n * sizeof *t);
  m->defaults.n = n;
  m->ndefs = pp->npieces;
  /* They are kept: the line's own tokens are overwritten. */
  m->def = as_new(pp->j, (pp->npieces + 1) * sizeof *m->def);
  if (pp->npieces) memcpy(m->def, pp->pieces, pp->npieces * sizeof *m->def);
}

/* %00 in the body: the label before the call is then a parameter. */
static bool takes_label(const as_pp_body *b) {
  for (uint32_t i = b->begin; i < b->end; i++)
    for (uint32_t k = 0; b->lines[i].has_pp && k < b->lines[i].n; k++)
      if (b->lines[i].v[k].kind == AS_T_PP && b->lines[i].v[k].punct == AS_PP_LABEL) return true;
  return false;
}

/* Reads `name count defaults`; NULL after an error. */
static as_pp_macro *read_head(as_pp *pp, unsigned d, const as_tok *v) {
  bool nocase = d == PP_D_imacro || d == PP_D_irmacro;
  const as_tok *t = v + 1;
  as_pp_count_spec count;
  if (t->kind != AS_T_NAME) {
    as_expected(pp->j, t, "a name after `%%%s`", v->text);
    return NULL;
  }
  as_pp_macro *m = as_new(pp->j, sizeof *m);
  m->name = t->text;
  m->nocase = nocase;
  m->recursive = d == PP_D_rmacro || d == PP_D_irmacro;
  m->pos = t->pos;
  t++;
  if (!as_pp_read_count(pp, &t, &count)) return NULL;
  m->least = count.least;
  m->most = count.most;
  m->greedy = count.greedy;
  skip_nolist(&t);
  if (t->kind != AS_T_END) set_defaults(pp, m, t);
  return m;
}

void as_pp_do_macro(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  (void)n;
  as_pos at = v->pos;
  as_pp_macro *m = read_head(pp, d, v);
  as_pp_body body;
  /* A body is read even where its head is wrong. */
  if (!as_pp_collect(pp, at, PP_B_MACRO, &body) || !m) return;
  m->body = body;
  m->takes_label = takes_label(&body);
  as_pp_macro **to = chain(pp, m->name, m->nocase);
  for (as_pp_macro *old = *to; old; old = old->next) {
    if (!overlaps(old, m)) continue;
    as_error(pp->j, m->pos, as_name_of(m->name)->len,
             "macro `%s` is already defined for this number of parameters", m->name);
    as_note(pp->j, old->pos, "here; `%%unmacro` removes it");
    return;
  }
  /* The forms are tried in the order of their definition. */
  while (*to) to = &(*to)->next;
  *to = m;
}

void as_pp_do_unmacro(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  const as_tok *t = v + 1;
  as_pp_count_spec count;
  (void)n;
  if (t->kind != AS_T_NAME) {
    as_expected(pp->j, t, "a name after `%%%s`", v->text);
    return;
  }
  t++;
  if (!as_pp_read_count(pp, &t, &count) || !as_pp_at_end(pp, t, "the number of parameters")) return;
  for (as_pp_macro **m = chain(pp, v[1].text, d == PP_D_unimacro); *m; m = &(*m)->next)
    if ((*m)->least == count.least && (*m)->most == count.most && (*m)->greedy == count.greedy) {
      *m = (*m)->next;
      return;
    }
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Mnemonics, directives and pseudo-instructions: a macro may have the name of one. */
static bool is_word(as_pp *pp, const as_tok *t) {
  if (pp->j->is_word) return pp->j->is_word(pp->j, t->text);
  return isa_op_find(t->text, t->len) >= 0;
}

/* A greedy macro takes any number above its least. */
static bool fits(const as_pp_macro *m, uint32_t n) {
  return n >= m->least && (n <= m->most || m->greedy);
}

/* A form that takes n parameters and may be called here: a macro of %macro is not itself within its
 * own expansion. *open: such a one was passed over. */
static as_pp_macro *choose(as_pp_macro *m, uint32_t n, bool *open) {
  *open = false;
  for (; m; m = m->next) {
    if (!fits(m, n)) continue;
    if (m->recursive || !m->busy) return m;
    *open = true;
  }
  return NULL;
}

/* All forms are shown: the one that was meant is among them. */
static void no_form(as_pp *pp, const as_tok *name, as_pp_macro *m, uint32_t n) {
  as_error(pp->j, name->pos, name->len, "macro `%s` does not take %u parameter%s", name->text, n,
           n == 1 ? "" : "s");
  for (; m; m = m->next) {
    if (m->most == UINT32_MAX || m->greedy)
      as_note(pp->j, m->pos, "this form takes %u or more", m->least);
    else if (m->most > m->least)
      as_note(pp->j, m->pos, "this form takes %u to %u", m->least, m->most);
    else
      as_note(pp->j, m->pos, "this form takes %u", m->least);
  }
}

static void add_arg(as_pp *pp, as_pp_frame *f, const as_tok *v, as_pp_range r) {
  f->arg = as_grow(pp->j, f->arg, f->nargs, 1, &f->cap_args, sizeof *f->arg);
  /* The frame keeps its own copy: the line is overwritten. */
  as_tok *to = as_toks_grow(pp->j, &f->args, r.n);
  if (r.n) memcpy(to, v + r.at, r.n * sizeof *to);
  f->arg[f->nargs++] = (as_pp_range){f->args.n, r.n};
  f->args.n += r.n;
}

static void fill_args(as_pp *pp, as_pp_frame *f, const as_tok *v) {
  const as_pp_macro *m = f->macro;
  f->args.n = f->nargs = f->rotate = 0;
  for (uint32_t i = 0; i < pp->npieces; i++) add_arg(pp, f, v, pp->pieces[i]);
  /* What was left out gets its default.
   * nargs - least optional ones were given; their defaults are not taken. */
  for (uint32_t i = f->nargs - m->least; i < m->ndefs; i++)
    add_arg(pp, f, m->defaults.v, m->def[i]);
  /* Recursion is bounded by all that is kept. */
  pp->arg_tokens += f->args.n;
  if (pp->arg_tokens > PP_MAX_ARG_TOKENS)
    as_fatal(pp->j, f->pos, "the open macro calls have more than %d tokens of parameters",
             PP_MAX_ARG_TOKENS);
}

static void enter(as_pp *pp, as_pp_macro *m, const as_tok *name, const as_tok *label) {
  /* Each call has local names of its own, so calls are bounded. */
  if (++pp->calls > PP_MAX_CALLS)
    as_fatal(pp->j, name->pos, "more than %d macro calls and contexts", PP_MAX_CALLS);
  as_expansion *e = as_new(pp->j, sizeof *e);
  *e = (as_expansion){.macro = m->name, .call = name->pos};
  as_pp_frame *f = as_pp_push(pp, PP_MACRO, name->pos);
  f->macro = m;
  f->called = name->text;
  f->call = f;
  f->expansion = e;
  f->body = m->body;
  /* %%x is x with this number. */
  f->at = m->body.begin;
  f->id = ++pp->ids;
  f->label = label ? *label : (as_tok){.kind = AS_T_END};
  /* It is inside itself now. */
  m->busy++;
}

/* The macro called at v[i], its parameters split; NULL when none exists. *reported: there was an
 * error. A name is itself inside the macro of its name; a mnemonic also where no form fits. */
static as_pp_macro *called(as_pp *pp, const as_tok *v, uint32_t i, uint32_t n, bool *reported) {
  as_pp_macro *head = v[i].kind == AS_T_NAME ? as_pp_find_macro(pp, v[i].text) : NULL;
  if (!head) return NULL;
  *reported = !as_pp_split(pp, v + i + 1, n - i - 1, 0);
  if (*reported) return NULL;
  /* Without greed first: only then is the number of parameters known. */
  uint32_t count = pp->npieces;
  bool open;
  as_pp_macro *m = choose(head, count, &open);
  /* A mnemonic, or the macro's own name within it. */
  if (!m && (open || is_word(pp, &v[i]))) return NULL;
  if (!m) {
    no_form(pp, &v[i], head, count);
    *reported = true;
  } else if (m->greedy && count > m->most) {
    *reported = !as_pp_split(pp, v + i + 1, n - i - 1, m->most);
  }
  return *reported ? NULL : m;
}

bool as_pp_call(as_pp *pp, const as_tok *v, uint32_t n, uint32_t *label) {
  bool reported = false;
  uint32_t i = 0;
  *label = 0;
  as_pp_macro *m = called(pp, v, 0, n, &reported);
  /* A label may come before the call, with a colon or without.
   * `loop: f 1` and `loop f 1` both call f. */
  if (!m && !reported && n > 1 && v[0].kind == AS_T_NAME) {
    bool colon = is_punct(&v[1], ':');
    i = colon ? 2 : 1;
    bool names = i < n && v[i].kind == AS_T_NAME && as_pp_find_macro(pp, v[i].text);
    if (names && (colon || !is_word(pp, &v[0]))) m = called(pp, v, i, n, &reported);
  }
  if (!m) return reported;
  enter(pp, m, &v[i], i ? v : NULL);
  fill_args(pp, as_pp_top(pp), v + i + 1);
  /* The macro uses its label itself, or it stands before its lines. */
  if (i && !m->takes_label) *label = i;
  return true;
}
