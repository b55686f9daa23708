/* The preprocessor's input and dispatch. */
#include "pp.h"

#include <stdio.h>
#include <string.h>

/* ---- Frames ------------------------------------------------------------------------------- */

/* At least one frame is open while lines are read. */
as_pp_frame *as_pp_top(as_pp *pp) { return pp->frames[pp->nframes - 1]; }

as_pp_frame *as_pp_push(as_pp *pp, unsigned kind, as_pos at) {
  /* The main file counts as the first, so 64 files may lie in it. */
  if (kind == PP_FILE && pp->nfiles > PP_MAX_INCLUDE)
    as_fatal(pp->j, at, "%%include nested deeper than %d", PP_MAX_INCLUDE);
  if (kind != PP_FILE && pp->nmacros == PP_MAX_DEPTH)
    as_fatal(pp->j, at, "macros nested deeper than %d", PP_MAX_DEPTH);
  /* Frames are reused with their buffers. */
  as_pp_frame **slot = &pp->frames[pp->nframes++];
  if (!*slot) *slot = as_new(pp->j, sizeof **slot);
  as_pp_frame *f = *slot;
  f->kind = (uint8_t)kind;
  f->nconds = pp->nconds;
  f->pos = at;
  /* These three belong to calls and repetitions: their callers set them. */
  f->call = NULL;
  f->expansion = NULL;
  f->counts = false;
  /* Files and macros have limits of their own: a deep %include is a mistake long before a deep
   * macro. */
  *(kind == PP_FILE ? &pp->nfiles : &pp->nmacros) += 1;
  return f;
}

void as_pp_pop(as_pp *pp) {
  as_pp_frame *f = pp->frames[--pp->nframes];
  *(f->kind == PP_FILE ? &pp->nfiles : &pp->nmacros) -= 1;
  /* Files and repetitions have no parameters. */
  if (f->kind != PP_MACRO) return;
  f->macro->busy--;
  pp->arg_tokens -= f->args.n;
}

/* A round is an expansion of its own, so that a message can say "in round 3 of this
 * %rep". */
void as_pp_round(as_pp *pp, as_pp_frame *f) {
  uint32_t round = f->expansion ? f->expansion->round + 1 : 1;
  f->expansion = as_new(pp->j, sizeof *f->expansion);
  *f->expansion = (as_expansion){.macro = "", .call = f->pos, .round = round};
}

/* Conditions do not reach out of what they were opened in. */
static void close_conds(as_pp *pp, const as_pp_frame *f) {
  for (; pp->nconds > f->nconds; pp->nconds--)
    as_error(pp->j, pp->conds[pp->nconds - 1].pos, 1, "`%%if` without `%%endif`");
}

/* A program as it is written is never too long; what macros make of it may be. */
void as_pp_count(as_pp *pp, uint32_t tokens, as_pos at) {
  pp->tokens += tokens;
  if (pp->tokens > PP_MAX_TOKENS)
    as_fatal(pp->j, at, "macros, %%rep and %%include give more than %d tokens", PP_MAX_TOKENS);
}

/* ---- Raw lines ---------------------------------------------------------------------------- */

typedef struct raw_line {
  const as_tok *v;
  uint32_t n;
  bool has_pp, bad;
} raw_line;

static bool file_line(as_pp *pp, as_pp_frame *f, raw_line *out) {
  /* What a false condition hides need not even be tokens. */
  f->lex.quiet = as_pp_skipping(pp);
  if (!as_lex_line(&f->lex, &pp->raw)) return false;
  *out = (raw_line){pp->raw.v, pp->raw.n, pp->raw.has_pp, pp->raw.bad};
  /* The main file is as long as it is; only what multiplies is counted. */
  if (pp->nfiles > 1) as_pp_count(pp, out->n + 1, out->v->pos);
  return true;
}

/* The next line of a macro or %rep; false at the end of the last iteration.
 * A body's line is kept as tokens: it is not lexed again in each round. */
static bool body_line(as_pp *pp, as_pp_frame *f, raw_line *out) {
  if (f->at == f->body.end) {
    close_conds(pp, f);
    /* A repetition begins again. */
    if (f->kind != PP_REP || f->left == 0) return false;
    f->left--;
    f->at = f->body.begin;
    if (f->counts) as_pp_round(pp, f);
  }
  if (f->at == f->body.end) return false;
  const as_pp_raw_line *l = &f->body.lines[f->at++];
  *out = (raw_line){l->v, l->n, l->has_pp, false};
  as_pp_count(pp, l->n, l->v->pos);
  return true;
}

/* Frames end here, one after another, until one of them has a line. */
static bool next_raw(as_pp *pp, raw_line *out) {
  while (pp->nframes > 0) {
    as_pp_frame *f = as_pp_top(pp);
    if (f->kind == PP_FILE ? file_line(pp, f, out) : body_line(pp, f, out)) return true;
    close_conds(pp, f);
    as_pp_pop(pp);
  }
  return false;
}

/* A directive is the first token of its line, or it is not one. */
unsigned as_pp_directive_of(as_pp *pp, const as_tok *v, uint32_t n) {
  if (n == 0 || v->kind != AS_T_PP || v->punct != AS_PP_DIRECTIVE) return PP_D_NONE;
  return as_pp_word(pp, v->text)->directive;
}

/* ---- Collecting bodies -------------------------------------------------------------------- */

/* How a directive changes the depth of a block.
 * %macro within a %rep does not close it, so only blocks of the same kind are counted. */
static int nesting(unsigned d, enum as_pp_block block) {
  switch (d) {
  case PP_D_macro:
  case PP_D_imacro:
  case PP_D_rmacro:
  case PP_D_irmacro: return block == PP_B_MACRO;
  case PP_D_endmacro:
  case PP_D_endm: return -(block == PP_B_MACRO);
  case PP_D_rep: return block == PP_B_REP;
  case PP_D_endrep: return -(block == PP_B_REP);
  default: return 0;
  }
}

/* How deep in what is collected; what stands in a comment does not count.
 * %comment may hide an %endmacro, which then closes nothing. */
typedef struct nest_depth {
  enum as_pp_block block;
  int of_block, of_comment;
} nest_depth;

static nest_depth opened(enum as_pp_block block) {
  return (nest_depth){block, 1, block == PP_B_COMMENT};
}

/* Counts a line; whether it closes the block. */
static bool closes(as_pp *pp, nest_depth *in, const as_tok *v, uint32_t n) {
  unsigned d = as_pp_directive_of(pp, v, n);
  if (d == PP_D_comment) in->of_comment++;
  if (d == PP_D_endcomment && in->of_comment > 0) in->of_comment--;
  if (in->block == PP_B_COMMENT) return in->of_comment == 0;
  if (in->of_comment == 0) in->of_block += nesting(d, in->block);
  return in->of_block == 0;
}

/* The message is at the line that opened it: the end of the file says little. */
static bool never_closed(as_pp *pp, as_pos at, enum as_pp_block block) {
  static const char *const names[] = {"macro", "rep", "comment"};
  return as_error(pp->j, at, (uint32_t)strlen(names[block]) + 1, "`%%%s` without `%%end%s`",
                  names[block], names[block]);
}

/* The rest of the body is already there: a range, whose end is found once. */
static bool collect_range(as_pp *pp, as_pp_frame *f, as_pos at, enum as_pp_block block,
                          as_pp_body *out) {
  as_pp_raw_line *opener = &f->body.lines[f->at - 1];
  /* Searched once: a %rep within a %rep would else be searched in each round.
   * In a macro or a %rep: all lines are there, so a range of them is enough. */
  uint32_t i = opener->close;
  if (i == 0) {
    /* The line after the opener is at f->at. */
    nest_depth in = opened(block);
    for (i = f->at; i < f->body.end; i++)
      if (closes(pp, &in, f->body.lines[i].v, f->body.lines[i].n)) break;
    opener->close = i;
  }
  *out = (as_pp_body){f->body.lines, f->at, i};
  f->at = i < f->body.end ? i + 1 : i;
  return i < f->body.end || never_closed(pp, at, block);
}

/* Copied: the lexer's buffer is used for the next line. */
static void store(as_pp *pp, as_pp_body *b, uint32_t *cap, const as_toks *t) {
  b->lines = as_grow(pp->j, b->lines, b->end, 1, cap, sizeof *b->lines);
  as_pp_raw_line *l = &b->lines[b->end++];
  l->n = t->n;
  l->has_pp = t->has_pp;
  /* With the end token. */
  l->v = as_new(pp->j, (t->n + 1u) * sizeof *l->v);
  memcpy(l->v, t->v, (t->n + 1u) * sizeof *l->v);
}

bool as_pp_collect(as_pp *pp, as_pos at, enum as_pp_block block, as_pp_body *out) {
  as_pp_frame *f = as_pp_top(pp);
  /* In a file lines must be read on; in a body they are there. */
  if (f->kind != PP_FILE) return collect_range(pp, f, at, block, out);
  uint32_t cap = 0;
  *out = (as_pp_body){NULL, 0, 0};
  nest_depth in = opened(block);
  for (;;) {
    /* Comments need not be tokens. */
    f->lex.quiet = in.of_comment > 0;
    if (!as_lex_line(&f->lex, &pp->raw)) return never_closed(pp, at, block);
    if (closes(pp, &in, pp->raw.v, pp->raw.n)) return true;
    /* Empty lines and lines with errors would only be errors again in each round. */
    bool keep = block != PP_B_COMMENT && pp->raw.n > 0 && !pp->raw.bad;
    if (keep) store(pp, out, &cap, &pp->raw);
  }
}

/* ---- Directives --------------------------------------------------------------------------- */

static const char *const directives[] = {
#define DIRECTIVE(id, name) [PP_D_##id] = name,
#include "directives.def"
};

unsigned as_pp_find_directive(const as_name *name) {
  for (unsigned i = 1; i < PP_D_IF; i++)
    if (strcmp(directives[i], name->text) == 0) return i;
  return PP_D_NONE;
}

/* `%else x` and the like: what is left would be ignored in silence. */
bool as_pp_at_end(as_pp *pp, const as_tok *t, const char *after) {
  if (t->kind == AS_T_END) return true;
  return as_error(pp->j, t->pos, t->len, "unexpected %s after %s", as_tok_show(pp->j, t), after);
}

/* NASM's directives that are not built, with what to write instead. */
static const struct {
  const char *name, *instead;
} refused[] = {
#define REFUSED(name, instead) {name, instead},
#include "directives.def"
};

static void unknown(as_pp *pp, const as_tok *v) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    if (strcmp(v->text, refused[i].name) != 0) continue;
    as_error(pp->j, v->pos, v->len, "`%%%s` is not built: %s", v->text, refused[i].instead);
    return;
  }
  /* At most two slips, or nothing is suggested. */
  const char *near = NULL;
  unsigned best = 3;
  for (unsigned i = 1; i < PP_D_IF; i++) {
    unsigned d =
        isa_edit_distance(v->text, strlen(v->text), directives[i], strlen(directives[i]), best);
    if (d < best) near = directives[i], best = d;
  }
  as_error(pp->j, v->pos, v->len,
           near ? "unknown directive `%%%s`; did you mean `%%%s`?" : "unknown directive `%%%s`",
           v->text, near);
}

static void directive(as_pp *pp, const as_tok *v, uint32_t n) {
  unsigned d = as_pp_directive_of(pp, v, n);
  switch (d) {
  case PP_D_NONE: unknown(pp, v); break;
  case PP_D_define:
  case PP_D_idefine:
  case PP_D_xdefine:
  case PP_D_ixdefine:
  case PP_D_undef:
  case PP_D_assign:
  /* By kind, as each file has some of them; what is left moves the input. */
  case PP_D_iassign: as_pp_do_define(pp, d, v, n); break;
  case PP_D_defalias:
  case PP_D_undefalias:
  case PP_D_clear: as_pp_do_alias(pp, d, v, n); break;
  case PP_D_defstr:
  case PP_D_idefstr:
  case PP_D_deftok:
  case PP_D_ideftok:
  case PP_D_strlen:
  case PP_D_istrlen:
  case PP_D_substr:
  case PP_D_isubstr:
  case PP_D_strcat:
  case PP_D_istrcat: as_pp_do_string(pp, d, v, n); break;
  case PP_D_macro:
  case PP_D_imacro:
  case PP_D_rmacro:
  case PP_D_irmacro: as_pp_do_macro(pp, d, v, n); break;
  case PP_D_unmacro:
  case PP_D_unimacro: as_pp_do_unmacro(pp, d, v, n); break;
  default: as_pp_do_control(pp, d, v, n); break;
  }
}

/* A line that a false condition hides only counts when it opens, turns or closes one. */
static bool hidden(as_pp *pp, const raw_line *r, unsigned d) {
  /* Nothing is hidden. */
  if (!as_pp_skipping(pp)) return false;
  if (!as_pp_is_cond(d)) return true;
  /* An %elif of the condition that hides this line may end that, and is evaluated. */
  bool turns = d >= PP_D_IF && ((d - PP_D_IF) & 2);
  if (turns && !r->bad && pp->conds[pp->nconds - 1].state == PP_WAITING) return false;
  as_pp_do_cond(pp, d, r->v, r->n, r->bad);
  return true;
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* Case matters most often; if some define ignores it, any name may be one. */
static bool needs_expansion(as_pp *pp, const as_toks *t) {
  /* A line of names that nothing defines is left as it is. */
  if (t->has_pp || pp->any_nocase) return true;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->v[i].kind == AS_T_NAME) {
      const as_macros *m = as_name_of(t->v[i].text)->macros;
      if (m && (m->def || m->alias)) return true;
    }
  return false;
}

/* A %name that no directive or function took. */
static bool left_over(as_pp *pp, const as_toks *t) {
  for (uint32_t i = 0; t->has_pp && i < t->n; i++) {
    if (t->v[i].kind != AS_T_PP) continue;
    as_error(pp->j, t->v[i].pos, t->v[i].len, "%s means nothing here",
             as_tok_show(pp->j, &t->v[i]));
    return true;
  }
  return false;
}

/* `name:` before a macro call, as a line of its own.
 * The macro does not take the label, so it stands before what it makes. */
static void cut_label(as_pp *pp, as_toks *t) {
  as_tok end = {.kind = AS_T_END, .text = "", .pos = t->v[0].pos};
  as_tok colon = {.kind = AS_T_PUNCT, .punct = ':', .text = ":", .len = 1, .pos = t->v[0].pos};
  t->n = 1;
  *as_toks_add(pp->j, t) = colon;
  *as_toks_add(pp->j, t) = end;
  t->n--;
}

/* Takes a line through macros: true when it is one for the parser.
 * A macro call gives no line itself: its body's lines come next. */
static bool finish(as_pp *pp, as_toks *t, as_line *out) {
  uint32_t label;
  if (needs_expansion(pp, t)) {
    if (!as_pp_expand(pp, t->v, t->n, &t->v[t->n], &pp->out) || left_over(pp, &pp->out))
      return false;
    t = &pp->out;
  }
  if (t->n == 0) return false;
  /* The depth of the line, before the call opens a frame. */
  uint32_t depth = pp->nmacros;
  as_pos pos = t->v[0].pos;
  /* The main file's own lines are not counted. */
  bool counts = pp->nmacros > 0 || pp->nfiles > 1;
  if (as_pp_call(pp, t->v, t->n, &label)) {
    if (label == 0) return false;
    cut_label(pp, t);
  }
  if (counts && ++pp->lines > PP_MAX_LINES)
    as_fatal(pp->j, pos, "macros, %%rep and %%include give more than %d lines", PP_MAX_LINES);
  *out = (as_line){t->v, t->n, pos, depth};
  return true;
}

/* A line that begins with a function's call: what begins with a % there may be a directive.
 * %eval(1) at the start of a line is no directive. */
static bool is_function(as_pp *pp, const as_toks *t) {
  if (t->n < 2 || t->v->kind != AS_T_PP || t->v->punct != AS_PP_DIRECTIVE) return false;
  const as_tok *paren = &t->v[1];
  const as_macros *m = as_pp_word(pp, t->v->text);
  return m->function && !m->directive && !paren->space_before && paren->kind == AS_T_PUNCT &&
         paren->punct == '(';
}

/* The order: what is hidden, what is wrong, what stands for something else, directives,
 * lines. */
bool as_pp_line(as_pp *pp, as_line *out) {
  raw_line r;
  while (next_raw(pp, &r)) {
    unsigned d = as_pp_directive_of(pp, r.v, r.n);
    if (hidden(pp, &r, d) || r.n == 0) continue;
    if (r.bad) {
      /* A condition with an error still opens one. */
      if (as_pp_is_cond(d)) as_pp_do_cond(pp, d, r.v, r.n, true);
      continue;
    }
    /* In a file without a % the line needs no copy. */
    as_toks *t = &pp->raw;
    as_pos written = r.v->pos;
    /* The place where the line was written, whatever is substituted. */
    written.expansion = as_pp_top(pp)->expansion;
    if (r.has_pp || as_pp_top(pp)->kind != PP_FILE) {
      t = &pp->line;
      /* It was reported; but a condition must still be opened, or its %endif would close another
       * one. */
      if (!as_pp_subst(pp, r.v, r.n, t)) {
        if (as_pp_is_cond(d)) as_pp_do_cond(pp, d, r.v, r.n, true);
        continue;
      }
    }
    if (is_function(pp, t)) t->v->punct = AS_PP_FUNCTION;
    if (as_pp_is_cond(d))
      as_pp_do_cond(pp, d, t->v, t->n, false);
    else if (t->n > 0 && t->v->kind == AS_T_PP && t->v->punct == AS_PP_DIRECTIVE)
      directive(pp, t->v, t->n);
    else if (finish(pp, t, out)) {
      out->pos = written;
      return true;
    }
  }
  return false;
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* __FILE__ and the like are defines whose body is made when they are used. */
static void predefine(as_pp *pp, const char *name, unsigned magic, const char *text) {
  as_tok t = {.kind = AS_T_NAME, .text = as_intern(pp->j, name, strlen(name))};
  as_tok body = {.kind = AS_T_STR, .text = text, .len = (uint32_t)strlen(text)};
  as_pp_define *d = as_pp_form(pp, &t, -1, false);
  as_pp_set_body(pp, d, &body, 1);
  d->magic = (uint8_t)magic;
}

as_pp *as_pp_open(as_job *j, uint32_t source) {
  as_pp *pp = as_new(j, sizeof *pp);
  as_pos none = {0};
  pp->j = j;
  predefine(pp, "__LINE__", PP_MAGIC_LINE, "");
  predefine(pp, "__FILE__", PP_MAGIC_FILE, "");
  predefine(pp, "__?LINE?__", PP_MAGIC_LINE, "");
  predefine(pp, "__?FILE?__", PP_MAGIC_FILE, "");
  /* Another define of the same name may replace it, as any. */
  predefine(pp, "__SOMA_VERSION__", PP_PLAIN, SOMA_VERSION);
  /* The main file is under the options, which are read first. */
  as_lex_open(j, source, &as_pp_push(pp, PP_FILE, none)->lex);
  as_pp_open_given(pp);
  return pp;
}
