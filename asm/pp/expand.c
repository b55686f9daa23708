/* Single-line macros. The tokens to read are a stack of inputs, so that the depth of macros in
 * macros costs no C stack; only calls within the arguments of calls recurse. A macro is not
 * expanded again inside its own expansion: such a name is marked and stays. */
#include "pp.h"

#include <string.h>

/* Longer names and more rounds are macro bombs, not programs. */
enum { MAX_NAME = 4095, MAX_PASTES = 64 };

static bool is_punct(const as_tok *t, unsigned c) { return t->kind == AS_T_PUNCT && t->punct == c; }

static bool is_word(const as_tok *t) {
  return t->kind == AS_T_NAME || t->kind == AS_T_INT || t->kind == AS_T_FLOAT;
}

/* Steps bound the time of a line, whatever its macros do. */
static void step(as_pp *pp, const as_tok *t, uint32_t n) {
  pp->steps += n;
  if (pp->steps > PP_MAX_STEPS)
    as_fatal(pp->j, t->pos, "the macros in a line need more than %d steps to expand", PP_MAX_STEPS);
}

/* Joins t to the last token of out, a word; false when they do not make one. */
static bool join_last(as_pp *pp, const as_tok *t, as_toks *out) {
  /* It may be replaced by what both make. */
  as_tok last = out->v[--out->n];
  if (as_pp_paste(pp, &last, t, out)) return true;
  out->v[out->n++] = last;
  return false;
}

void as_pp_emit(as_pp *pp, const as_tok *t, as_toks *out) {
  /* Characters bound the length of a line. */
  pp->chars += t->len + 1u;
  if (pp->chars > PP_MAX_LINE)
    as_fatal(pp->j, t->pos, "the line is longer than %d characters after expansion", PP_MAX_LINE);
  /* Words of what came before an argument do not join with it. */
  uint32_t start = out == &pp->args ? pp->arg_start : 0;
  bool joins = out->n == pp->after_word && out->n > start && !t->space_before && is_word(t) &&
               is_word(&out->v[out->n - 1]);
  if (joins && join_last(pp, t, out)) return;
  as_tok *to = as_toks_add(pp->j, out);
  *to = *t;
  /* Printed next to one another, two words would be read as one. */
  if (out->n > 1 && is_word(to) && is_word(to - 1)) to->space_before = true;
  out->has_pp |= t->kind == AS_T_PP;
}

/* ---- Inputs ------------------------------------------------------------------------------- */

/* A stack on the heap: macros in macros use no stack of the host. */
static as_pp_input *open_input(as_pp *pp, const as_pp_input *in) {
  pp->inputs = as_grow(pp->j, pp->inputs, pp->ninputs, 1, &pp->cap_inputs, sizeof *pp->inputs);
  pp->inputs[pp->ninputs] = *in;
  /* Within its own expansion it is not expanded. */
  if (in->def) in->def->busy = true;
  return &pp->inputs[pp->ninputs++];
}

static void close_input(as_pp *pp) {
  as_pp_input *in = &pp->inputs[--pp->ninputs];
  if (in->def) in->def->busy = false;
  /* What its body had in the scratch buffer is free again. */
  pp->scratch.n = in->mark;
}

/* The next token of the inputs from base up, which end as they are used up; false: no more.
 * Inputs end in order: the macro that was called last is read first. */
static bool next(as_pp *pp, uint32_t base, as_tok *t) {
  for (; pp->ninputs > base; close_input(pp)) {
    as_pp_input *in = &pp->inputs[pp->ninputs - 1];
    if (in->at == in->end) continue;
    *t = (in->v ? in->v : in->buf->v)[in->at++];
    /* The first token stands where the call stood. */
    if (in->first) t->space_before = in->space;
    in->first = false;
    /* An error in the body of a macro is shown where it is called. */
    if (in->v && in->def) t->pos = in->pos;
    return true;
  }
  return false;
}

/* The parenthesis may be in the text after the macro that gave f. */
static bool paren_follows(const as_pp *pp, uint32_t base) {
  for (uint32_t i = pp->ninputs; i-- > base;) {
    /* Inputs that are used up are passed. */
    const as_pp_input *in = &pp->inputs[i];
    if (in->at < in->end) return is_punct(&(in->v ? in->v : in->buf->v)[in->at], '(');
  }
  return false;
}

/* ---- Calls -------------------------------------------------------------------------------- */

static bool expand_level(as_pp *pp, uint32_t base, as_toks *out);

/* Ranges, not pointers: the tokens of pp->args move as they grow. */
static void add_range(as_pp *pp, uint32_t at, uint32_t n) {
  pp->ranges = as_grow(pp->j, pp->ranges, pp->nranges, 1, &pp->cap_ranges, sizeof *pp->ranges);
  pp->ranges[pp->nranges++] = (as_pp_range){at, n};
}

/* Without the braces, when they enclose all of it. */
static as_pp_range unbraced(const as_pp *pp, as_pp_range r) {
  const as_tok *v = as_pp_range_of(&pp->args, r);
  if (r.n < 2 || !is_punct(v, '{') || !is_punct(&v[r.n - 1], '}')) return r;
  /* The first brace must close at the last one. */
  unsigned depth = 0;
  for (uint32_t i = 0; i < r.n; i++) {
    if (is_punct(&v[i], '{')) depth++;
    if (is_punct(&v[i], '}') && --depth == 0 && i + 1 < r.n) return r;
  }
  return (as_pp_range){r.at + 1, r.n - 2};
}

/* From the parenthesis to the one that closes it; commas within brackets belong to an
 * argument. */
bool as_pp_read_args(as_pp *pp, uint32_t base, const as_tok *name, bool whole) {
  unsigned parens = 0, brackets = 0, braces = 0;
  uint32_t from = pp->args.n;
  as_tok t;
  next(pp, base, &t); /* the parenthesis */
  while (next(pp, base, &t)) {
    step(pp, &t, 1);
    /* Within braces a parenthesis is text. */
    bool closes = is_punct(&t, ')') && braces == 0;
    bool comma = is_punct(&t, ',') && !whole && parens + brackets + braces == 0;
    if ((closes && parens == 0) || comma) {
      as_pp_range r = {from, pp->args.n - from};
      /* In braces commas do not part: the braces are dropped. */
      r = whole ? r : unbraced(pp, r);
      add_range(pp, r.at, r.n);
      from = pp->args.n;
      if (closes) return true;
      continue;
    }
    if (is_punct(&t, '(') && braces == 0) parens++;
    /* Unbalanced ] and } are text. */
    if (closes) parens--;
    if (is_punct(&t, '[')) brackets++;
    if (is_punct(&t, ']') && brackets) brackets--;
    if (is_punct(&t, '{')) braces++;
    if (is_punct(&t, '}') && braces) braces--;
    *as_toks_add(pp->j, &pp->args) = t;
  }
  return as_error(pp->j, name->pos, name->len, "the call of `%s` has no `)`", name->text);
}

/* Forms of one name are told apart by their number of parameters. */
static as_pp_define *choose(as_pp *pp, as_pp_define *d, const as_tok *name, uint32_t first) {
  uint32_t n = pp->nranges - first;
  for (as_pp_define *f = d; f; f = f->next)
    /* `f()` has one empty argument, or none: both forms take it. */
    if ((uint32_t)f->nparams == n || (f->nparams == 0 && n == 1 && pp->ranges[first].n == 0))
      return f;
  as_error(pp->j, name->pos, name->len, "`%s` does not take %u parameter%s", name->text, n,
           n == 1 ? "" : "s");
  for (as_pp_define *f = d; f; f = f->next)
    as_note(pp->j, (as_pos){0}, "a form of it takes %d", (int)f->nparams);
  return NULL;
}

static bool expand_arg(as_pp *pp, as_pp_range *r, const as_tok *name) {
  if (++pp->nest > PP_MAX_NEST)
    as_fatal(pp->j, name->pos, "calls of macros within their arguments are deeper than %d",
             PP_MAX_NEST);
  /* The results go where the arguments are kept, after them.
   * Only so may a macro occur in its own argument: f(f(1)) is expanded inside out. */
  uint32_t base = pp->ninputs, at = pp->args.n, outer = pp->arg_start;
  open_input(pp, &(as_pp_input){
                     .buf = &pp->args, .at = r->at, .end = r->at + r->n, .mark = pp->scratch.n});
  pp->arg_start = at;
  if (!expand_level(pp, base, &pp->args)) return false;
  pp->arg_start = outer;
  *r = (as_pp_range){at, pp->args.n - at};
  pp->nest--;
  return true;
}

/* The arguments are expanded by themselves first; the ranges become those of the results. */
static bool expand_args(as_pp *pp, uint32_t first, const as_tok *name) {
  for (uint32_t i = first; i < pp->nranges; i++) {
    as_pp_range r = pp->ranges[i]; /* the ranges may move */
    if (!expand_arg(pp, &r, name)) return false;
    pp->ranges[i] = r;
  }
  return true;
}

/* Copied to scratch, since what v points to may be a buffer that changes. */
void as_pp_read_next(as_pp *pp, const as_tok *v, uint32_t n, const as_tok *call) {
  uint32_t at = pp->scratch.n;
  as_tok *to = as_toks_grow(pp->j, &pp->scratch, n);
  if (n) memcpy(to, v, n * sizeof *v);
  pp->scratch.n += n;
  step(pp, call, n);
  open_input(pp, &(as_pp_input){.buf = &pp->scratch,
                                .at = at,
                                .end = pp->scratch.n,
                                .mark = at,
                                .first = true,
                                .space = call->space_before});
}

static bool is_paste(const as_tok *t) { return t->kind == AS_T_PP && t->punct == AS_PP_PASTE; }

/* Appends the body of f to the scratch buffer, its arguments filled in. %+ next to an empty
 * argument joins nothing. */
static void fill_in(as_pp *pp, const as_pp_define *f, uint32_t first, const as_tok *call) {
  uint32_t start = pp->scratch.n;
  for (uint32_t i = 0; i < f->n; i++) {
    /* Parameters are numbers by now (define.c), so no name is compared. */
    const as_tok *t = &f->body[i];
    if (t->kind == AS_T_PP && t->punct == AS_PP_ARG) {
      as_pp_range r = pp->ranges[first + (uint32_t)t->v.ival];
      step(pp, call, r.n);
      /* An empty argument takes a %+ before or after it along. */
      if (r.n == 0 && pp->scratch.n > start && is_paste(&pp->scratch.v[pp->scratch.n - 1]))
        pp->scratch.n--;
      else if (r.n == 0 && i + 1 < f->n && is_paste(&f->body[i + 1]))
        i++;
      for (uint32_t k = 0; k < r.n; k++) {
        as_tok *to = as_toks_add(pp->j, &pp->scratch);
        *to = pp->args.v[r.at + k];
        /* The space is that before the parameter. */
        if (k == 0) to->space_before = t->space_before;
      }
      continue;
    }
    step(pp, call, 1);
    as_tok *to = as_toks_add(pp->j, &pp->scratch);
    /* An error in what the body gives is told at the call. */
    *to = *t;
    to->pos = call->pos;
  }
}

static bool call_define(as_pp *pp, uint32_t base, as_pp_define *d, const as_tok *name) {
  uint32_t first = pp->nranges, mark = pp->args.n;
  if (!as_pp_read_args(pp, base, name, false)) return false;
  /* A chosen form that fails leaves its buffers: the line is given up. */
  as_pp_define *f = choose(pp, d, name, first);
  if (!f || !expand_args(pp, first, name)) return false;
  uint32_t at = pp->scratch.n;
  fill_in(pp, f, first, name);
  /* The arguments have been copied: their room is free. */
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

/* __LINE__ and __FILE__ are those of the outermost call.
 * In a macro of a macro the place in the file is what a person looks for. */
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
  as_pp_emit(pp, &t, out);
}

/* The tokens of an environment variable, or all of it as one name that is only text. */
static bool emit_env(as_pp *pp, const as_tok *name, as_toks *out) {
  /* Read as if it stood in the source. */
  const char *value = as_pp_env(pp, name, false);
  if (!value) return false;
  uint32_t at = out->n;
  pp->chars += strlen(value);
  if (pp->env_is_text) {
    as_tok t = *name;
    /* As text it is one token, whatever is in it. */
    t.kind = AS_T_NAME;
    t.punct = 1;
    t.text = as_intern(pp->j, value, strlen(value));
    t.len = (uint32_t)strlen(value);
    as_pp_emit(pp, &t, out);
    return true;
  }
  if (!as_lex_piece(pp->j, value, name->pos, out)) {
    as_error(pp->j, name->pos, name->len, "the value of `%%!%s` cannot be read as tokens",
             name->text);
    as_note(pp->j, (as_pos){0}, "%%defstr and %%str() make a string of any value");
    return false;
  }
  /* Names from outside are text: they are not expanded. */
  for (uint32_t i = at; i < out->n; i++) {
    if (i == at) out->v[i].space_before = name->space_before;
    if (out->v[i].kind == AS_T_NAME) out->v[i].punct = 1;
    out->has_pp |= out->v[i].kind == AS_T_PP;
  }
  return true;
}

/* %? and %?? in the body of a define; they join the words beside them. */
static void emit_self(as_pp *pp, as_tok *t, as_toks *out) {
  /* They name the innermost define that is being expanded. */
  for (uint32_t i = pp->ninputs; i-- > 0;) {
    const as_pp_define *d = pp->inputs[i].def;
    if (!d) continue;
    t->kind = AS_T_NAME;
    /* %? is the name as written, %?? as defined: they differ in case alone. */
    bool called = t->punct == AS_PP_CALLED || t->punct == AS_PP_SELF;
    t->text = called ? pp->inputs[i].called : d->name;
    t->len = as_name_of(t->text)->len;
    t->punct = 1;
    break;
  }
  /* It joins what stands before it, and what comes after. */
  if (out->n > 0 && is_word(&out->v[out->n - 1])) pp->after_word = out->n;
  as_pp_emit(pp, t, out);
  pp->after_word = out->n;
}

/* Whether t is what a name's dot selects: the local label x.__LINE__. */
static bool selected(const as_toks *out, const as_tok *t) {
  if (out->n < 2 || t->space_before) return false;
  const as_tok *dot = &out->v[out->n - 1];
  return is_punct(dot, '.') && !dot->space_before && dot[-1].kind == AS_T_NAME;
}

/* Tokens of the preprocessor itself, by their kind. */
static bool expand_pp(as_pp *pp, uint32_t base, as_tok *t, as_toks *out) {
  switch (t->punct) {
  case AS_PP_CALLED:
  case AS_PP_DEFINED:
  case AS_PP_SELF:
  case AS_PP_SELF_DEFINED: emit_self(pp, t, out); return true;
  case AS_PP_ENV: return emit_env(pp, t, out);
  case AS_PP_FUNCTION: return as_pp_call_function(pp, base, t, out);
  default: as_pp_emit(pp, t, out); return true;
  }
}

static bool expand_level(as_pp *pp, uint32_t base, as_toks *out) {
  as_tok t;
  while (next(pp, base, &t)) {
    step(pp, &t, 1);
    if (t.kind == AS_T_PP) {
      if (!expand_pp(pp, base, &t, out)) return false;
      continue;
    }
    /* A name that was marked busy stays a name for good. */
    as_pp_define *d = t.kind == AS_T_NAME && !t.punct ? as_pp_find_define(pp, t.text) : NULL;
    /* `x.__LINE__` is a label that a program may have named so. */
    if (d && d->magic && selected(out, &t)) d = NULL;
    bool busy = d && d->busy;
    /* Marked for good: else a later pass over this line would expand it after all. */
    if (busy) t.punct = 1;
    /* Without a parenthesis the name of a macro with parameters stays. */
    if (!d || busy || (d->nparams >= 0 && !paren_follows(pp, base))) {
      as_pp_emit(pp, &t, out);
    } else if (d->magic) {
      emit_magic(pp, d, &t, out);
    } else if (d->nparams >= 0) {
      if (!call_define(pp, base, d, &t)) return false;
      pp->inputs[pp->ninputs - 1].called = t.text;
    } else {
      /* A body without parameters is read where it lies. */
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
  /* An arena holds the text: tokens point into it. */
  char *s = text.failed || !fits ? NULL : isa_arena_strn(&pp->j->arena, text.data, text.len);
  bool failed = text.failed || (fits && !s);
  isa_buf_free(&text);
  if (failed) as_nomem(pp->j);
  uint32_t start = out->n;
  /* Both printed side by side, and read again. */
  if (!fits || !as_lex_piece(pp->j, s, b->pos, out) || out->n == start) {
    out->n = start;
    return false;
  }
  out->v[start].pos = a->pos;
  out->v[start].space_before = a->space_before;
  return true;
}

/* Joins the last token of out with t; a dot only loses the space after it.
 * a %+ b: what both make together, or an error. */
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
  return as_error(pp->j, t->pos, t->len, "%s and %s cannot be joined", as_tok_show(pp->j, &last),
                  as_tok_show(pp->j, t));
}

/* Copies tokens to out without the %+ between them.
 * A %+ at the beginning of a line joins nothing. */
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

/* The same in a range of pp->args, whose result is put at their end. */
static bool join_range(as_pp *pp, as_pp_range *r) {
  as_toks in = {.v = as_pp_range_of(&pp->args, *r), .n = r->n};
  /* join_all writes a buffer of its own, so the range may be read from args. */
  if (!join_all(pp, &in, &pp->joined)) return false;
  *r = (as_pp_range){pp->args.n, pp->joined.n};
  as_tok *to = as_toks_grow(pp->j, &pp->args, r->n);
  if (r->n) memcpy(to, pp->joined.v, r->n * sizeof *to);
  pp->args.n += r->n;
  return true;
}

static bool has_paste(const as_toks *t) {
  for (uint32_t i = 0; t->has_pp && i < t->n; i++)
    if (is_paste(&t->v[i])) return true;
  return false;
}

/* What was joined may be a macro: f %+ oo is expanded once more. */
bool as_pp_expand_range(as_pp *pp, as_pp_range *r, const as_tok *name) {
  for (unsigned i = 0; i < MAX_PASTES; i++) {
    if (!expand_arg(pp, r, name)) return false;
    as_toks t = {.v = as_pp_range_of(&pp->args, *r), .n = r->n, .has_pp = true};
    if (!has_paste(&t)) return true;
    if (!join_range(pp, r)) return false;
  }
  as_fatal(pp->j, name->pos, "joining with %%+ takes more than %d rounds", MAX_PASTES);
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* All buffers begin anew: nothing of another line is in them. */
static bool expand_once(as_pp *pp, const as_tok *v, uint32_t n, as_toks *out) {
  /* A line that failed may have left something. */
  pp->chars = pp->nest = pp->nranges = pp->after_word = 0;
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
  /* As in a range: until nothing is left to join. */
  for (unsigned i = 0; ok && has_paste(out); i++) {
    if (i == MAX_PASTES)
      as_fatal(pp->j, last.pos, "joining with %%+ takes more than %d rounds", MAX_PASTES);
    ok = join_all(pp, out, &pp->pasted) && expand_once(pp, pp->pasted.v, pp->pasted.n, out);
  }
  /* Only what macros made counts.
   * A line without macros costs as many steps as it has tokens. */
  if (out->n > 0 && pp->steps > n + 1u) as_pp_count(pp, pp->steps - n, last.pos);
  last.kind = AS_T_END;
  last.text = "";
  last.len = 0;
  *as_toks_add(pp->j, out) = last;
  /* The end is there, but not counted. */
  out->n--;
  return ok;
}
