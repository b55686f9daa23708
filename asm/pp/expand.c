/* Single-line macros. The tokens to read are a stack of inputs, so that the depth of macros in
 * macros costs no C stack; only calls within the arguments of calls recurse. A macro is not
 * expanded again inside its own expansion: such a name is marked and stays. */
#include "pp.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 4095, MAX_PASTES = 64 };

static bool is_punct(const as_tok *t, unsigned c) { return t->kind == AS_T_PUNCT && t->punct == c; }

static bool is_word(const as_tok *t) {
  return t->kind == AS_T_NAME || t->kind == AS_T_INT || t->kind == AS_T_FLOAT;
}

static void step(as_pp *pp, const as_tok *t, uint32_t n) {
  pp->steps += n;
  if (pp->steps > PP_MAX_STEPS)
    as_fatal(pp->j, t->pos, "the macros in a line need more than %d steps to expand", PP_MAX_STEPS);
}

static void emit(as_pp *pp, const as_tok *t, as_toks *out) {
  pp->chars += t->len + 1u;
  if (pp->chars > PP_MAX_LINE)
    as_fatal(pp->j, t->pos, "the line is longer than %d characters after expansion", PP_MAX_LINE);
  as_tok *to = as_toks_add(pp->j, out);
  *to = *t;
  if (out->n > 1 && is_word(to) && is_word(to - 1)) to->space_before = true;
  out->has_pp |= t->kind == AS_T_PP;
}

/* ---- Inputs ------------------------------------------------------------------------------- */

static as_pp_input *open_input(as_pp *pp, const as_pp_input *in) {
  pp->inputs = as_grow(pp->j, pp->inputs, pp->ninputs, 1, &pp->cap_inputs, sizeof *pp->inputs);
  pp->inputs[pp->ninputs] = *in;
  if (in->def) in->def->busy = true;
  return &pp->inputs[pp->ninputs++];
}

static void close_input(as_pp *pp) {
  as_pp_input *in = &pp->inputs[--pp->ninputs];
  if (in->def) in->def->busy = false;
  pp->scratch.n = in->mark;
}

/* The next token of the inputs from base up, which end as they are used up; false: no more. */
static bool next(as_pp *pp, uint32_t base, as_tok *t) {
  for (; pp->ninputs > base; close_input(pp)) {
    as_pp_input *in = &pp->inputs[pp->ninputs - 1];
    if (in->at == in->end) continue;
    *t = (in->v ? in->v : in->buf->v)[in->at++];
    if (in->first) t->space_before = in->space;
    in->first = false;
    if (in->v && in->def) t->pos = in->pos;
    return true;
  }
  return false;
}

static bool paren_follows(const as_pp *pp, uint32_t base) {
  for (uint32_t i = pp->ninputs; i-- > base;) {
    const as_pp_input *in = &pp->inputs[i];
    if (in->at < in->end) return is_punct(&(in->v ? in->v : in->buf->v)[in->at], '(');
  }
  return false;
}

/* ---- Calls -------------------------------------------------------------------------------- */

static bool expand_level(as_pp *pp, uint32_t base, as_toks *out);

static void add_range(as_pp *pp, uint32_t at, uint32_t n) {
  pp->ranges = as_grow(pp->j, pp->ranges, pp->nranges, 1, &pp->cap_ranges, sizeof *pp->ranges);
  pp->ranges[pp->nranges++] = (as_pp_range){at, n};
}

/* Reads the arguments after `(` onto pp->args, a range for each: the next ranges are theirs. */
static bool read_args(as_pp *pp, uint32_t base, const as_tok *name) {
  unsigned parens = 0, brackets = 0;
  uint32_t from = pp->args.n;
  as_tok t;
  next(pp, base, &t); /* the parenthesis */
  while (next(pp, base, &t)) {
    step(pp, &t, 1);
    bool closes = is_punct(&t, ')');
    if ((closes && parens == 0) || (is_punct(&t, ',') && parens + brackets == 0)) {
      add_range(pp, from, pp->args.n - from);
      from = pp->args.n;
      if (closes) return true;
      continue;
    }
    if (is_punct(&t, '(')) parens++;
    if (closes) parens--;
    if (is_punct(&t, '[') || is_punct(&t, '{')) brackets++;
    if ((is_punct(&t, ']') || is_punct(&t, '}')) && brackets) brackets--;
    *as_toks_add(pp->j, &pp->args) = t;
  }
  as_error(pp->j, name->pos, name->len, "the call of `%s` has no `)`", name->text);
  return false;
}

static as_pp_define *choose(as_pp *pp, as_pp_define *d, const as_tok *name, uint32_t first) {
  uint32_t n = pp->nranges - first;
  for (as_pp_define *f = d; f; f = f->next)
    if ((uint32_t)f->nparams == n || (f->nparams == 0 && n == 1 && pp->ranges[first].n == 0))
      return f;
  as_error(pp->j, name->pos, name->len, "`%s` does not take %u parameter%s", name->text, n,
           n == 1 ? "" : "s");
  for (as_pp_define *f = d; f; f = f->next)
    as_note(pp->j, (as_pos){0}, "a form of it takes %d", (int)f->nparams);
  return NULL;
}

/* The arguments are expanded by themselves first; the ranges become those of the results. */
static bool expand_args(as_pp *pp, uint32_t first, const as_tok *name) {
  if (++pp->nest > PP_MAX_NEST)
    as_fatal(pp->j, name->pos, "calls of macros within their arguments are deeper than %d",
             PP_MAX_NEST);
  for (uint32_t i = first; i < pp->nranges; i++) {
    as_pp_range raw = pp->ranges[i];
    uint32_t base = pp->ninputs, at = pp->args.n;
    open_input(pp,
               &(as_pp_input){
                   .buf = &pp->args, .at = raw.at, .end = raw.at + raw.n, .mark = pp->scratch.n});
    if (!expand_level(pp, base, &pp->args)) return false;
    pp->ranges[i] = (as_pp_range){at, pp->args.n - at};
  }
  pp->nest--;
  return true;
}

static bool is_paste(const as_tok *t) { return t->kind == AS_T_PP && t->punct == AS_PP_PASTE; }

/* Appends the body of f to the scratch buffer, its arguments filled in. %+ next to an empty
 * argument joins nothing. */
static void fill_in(as_pp *pp, const as_pp_define *f, uint32_t first, const as_tok *call) {
  uint32_t start = pp->scratch.n;
  for (uint32_t i = 0; i < f->n; i++) {
    const as_tok *t = &f->body[i];
    if (t->kind == AS_T_PP && t->punct == AS_PP_ARG) {
      as_pp_range r = pp->ranges[first + (uint32_t)t->v.ival];
      step(pp, call, r.n);
      if (r.n == 0 && pp->scratch.n > start && is_paste(&pp->scratch.v[pp->scratch.n - 1]))
        pp->scratch.n--;
      else if (r.n == 0 && i + 1 < f->n && is_paste(&f->body[i + 1]))
        i++;
      for (uint32_t k = 0; k < r.n; k++) {
        as_tok *to = as_toks_add(pp->j, &pp->scratch);
        *to = pp->args.v[r.at + k];
        if (k == 0) to->space_before = t->space_before;
      }
      continue;
    }
    step(pp, call, 1);
    as_tok *to = as_toks_add(pp->j, &pp->scratch);
    *to = *t;
    to->pos = call->pos;
  }
}

static bool call_define(as_pp *pp, uint32_t base, as_pp_define *d, const as_tok *name) {
  uint32_t first = pp->nranges, mark = pp->args.n;
  if (!read_args(pp, base, name)) return false;
  as_pp_define *f = choose(pp, d, name, first);
  if (!f || !expand_args(pp, first, name)) return false;
  uint32_t at = pp->scratch.n;
  fill_in(pp, f, first, name);
  pp->args.n = mark;
  pp->nranges = first;
  open_input(pp, &(as_pp_input){.buf = &pp->scratch,
                                .at = at,
                                .end = pp->scratch.n,
                                .mark = at,
                                .def = d,
                                .first = true,
                                .space = name->space_before});
  return true;
}

/* __LINE__ and __FILE__ are those of the outermost call. */
static void emit_magic(as_pp *pp, const as_pp_define *d, const as_tok *name, as_toks *out) {
  as_pos at = as_pos_outer(name->pos);
  as_tok t = *name;
  if (d->magic == PP_MAGIC_LINE) {
    t.kind = AS_T_INT;
    t.text = "";
    t.len = 0;
    t.v.ival = at.line;
  } else {
    t.kind = AS_T_STR;
    t.text = pp->j->sources[at.file].name;
    t.len = (uint32_t)strlen(t.text);
  }
  emit(pp, &t, out);
}

/* %? and %?? in the body of a define. */
static void emit_self(as_pp *pp, as_tok *t, as_toks *out) {
  for (uint32_t i = pp->ninputs; i-- > 0;) {
    const as_pp_define *d = pp->inputs[i].def;
    if (!d) continue;
    t->kind = AS_T_NAME;
    t->text = t->punct == AS_PP_CALLED ? pp->inputs[i].called : d->name;
    t->len = as_name_of(t->text)->len;
    t->punct = 1;
    break;
  }
  emit(pp, t, out);
}

/* Whether t is what a name's dot selects: the local label x.__LINE__. */
static bool selected(const as_toks *out, const as_tok *t) {
  if (out->n < 2 || t->space_before) return false;
  const as_tok *dot = &out->v[out->n - 1];
  return is_punct(dot, '.') && !dot->space_before && dot[-1].kind == AS_T_NAME;
}

static bool expand_level(as_pp *pp, uint32_t base, as_toks *out) {
  as_tok t;
  while (next(pp, base, &t)) {
    step(pp, &t, 1);
    bool self = t.kind == AS_T_PP && (t.punct == AS_PP_CALLED || t.punct == AS_PP_DEFINED);
    if (self) {
      emit_self(pp, &t, out);
      continue;
    }
    as_pp_define *d = t.kind == AS_T_NAME && !t.punct ? as_pp_find_define(pp, t.text) : NULL;
    if (d && d->magic && selected(out, &t)) d = NULL;
    bool busy = d && d->busy;
    if (busy) t.punct = 1;
    if (!d || busy || (d->nparams >= 0 && !paren_follows(pp, base))) {
      emit(pp, &t, out);
    } else if (d->magic) {
      emit_magic(pp, d, &t, out);
    } else if (d->nparams >= 0) {
      if (!call_define(pp, base, d, &t)) return false;
      pp->inputs[pp->ninputs - 1].called = t.text;
    } else {
      open_input(pp, &(as_pp_input){.v = d->body,
                                    .end = d->n,
                                    .mark = pp->scratch.n,
                                    .def = d,
                                    .first = true,
                                    .space = t.space_before,
                                    .pos = t.pos,
                                    .called = t.text});
    }
  }
  return true;
}

/* ---- Joining ------------------------------------------------------------------------------ */

bool as_pp_paste(as_pp *pp, const as_tok *a, const as_tok *b, as_toks *out) {
  isa_buf text;
  isa_buf_init(&text, &pp->j->al);
  as_tok_print(a, &text);
  as_tok_print(b, &text);
  bool fits = text.len <= MAX_NAME;
  char *s = text.failed || !fits ? NULL : isa_arena_strn(&pp->j->arena, text.data, text.len);
  bool failed = text.failed || (fits && !s);
  isa_buf_free(&text);
  if (failed) as_nomem(pp->j);
  uint32_t start = out->n;
  if (!fits || !as_lex_piece(pp->j, s, b->pos, out) || out->n == start) {
    out->n = start;
    return false;
  }
  out->v[start].pos = a->pos;
  out->v[start].space_before = a->space_before;
  return true;
}

/* Joins the last token of out with t; a dot only loses the space after it. */
static bool join(as_pp *pp, const as_tok *t, as_toks *out) {
  as_tok last = out->v[--out->n];
  if (is_punct(&last, '.')) {
    out->n++;
    as_tok *to = as_toks_add(pp->j, out);
    *to = *t;
    to->space_before = false;
    return true;
  }
  if (last.kind != AS_T_PP && t->kind != AS_T_PP && as_pp_paste(pp, &last, t, out)) return true;
  out->n++;
  as_error(pp->j, t->pos, t->len, "%s and %s do not join", as_tok_show(pp->j, &last),
           as_tok_show(pp->j, t));
  return false;
}

/* Copies tokens to out without the %+ between them. */
static bool join_all(as_pp *pp, const as_toks *in, as_toks *out) {
  bool joins = false;
  out->n = 0;
  for (uint32_t i = 0; i < in->n; i++) {
    const as_tok *t = &in->v[i];
    if (is_paste(t)) {
      joins = out->n > 0;
      continue;
    }
    if (joins && !join(pp, t, out)) return false;
    if (!joins) *as_toks_add(pp->j, out) = *t;
    joins = false;
  }
  return true;
}

static bool has_paste(const as_toks *t) {
  for (uint32_t i = 0; t->has_pp && i < t->n; i++)
    if (is_paste(&t->v[i])) return true;
  return false;
}

/* ---- Lines -------------------------------------------------------------------------------- */

static bool expand_once(as_pp *pp, const as_tok *v, uint32_t n, as_toks *out) {
  pp->chars = pp->nest = pp->nranges = 0;
  pp->args.n = pp->scratch.n = 0;
  out->n = 0;
  out->has_pp = false;
  open_input(pp, &(as_pp_input){.v = v, .end = n});
  bool ok = expand_level(pp, 0, out);
  while (pp->ninputs > 0) close_input(pp);
  return ok;
}

bool as_pp_expand(as_pp *pp, const as_tok *v, uint32_t n, const as_tok *end, as_toks *out) {
  as_tok last = *end;
  pp->steps = 0;
  bool ok = expand_once(pp, v, n, out);
  for (unsigned i = 0; ok && has_paste(out); i++) {
    if (i == MAX_PASTES)
      as_fatal(pp->j, last.pos, "joining with %%+ takes more than %d rounds", MAX_PASTES);
    ok = join_all(pp, out, &pp->pasted) && expand_once(pp, pp->pasted.v, pp->pasted.n, out);
  }
  if (out->n > 0 && pp->steps > n + 1u) as_pp_count(pp, pp->steps - n, last.pos);
  last.kind = AS_T_END;
  last.text = "";
  last.len = 0;
  *as_toks_add(pp->j, out) = last;
  out->n--;
  return ok;
}
