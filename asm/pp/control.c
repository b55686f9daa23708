/* Directives that move the input: %rep, %rotate, %include, the exits; contexts; %error; %line. */
#include "pp.h"

#include <string.h>

/* ---- Repetition --------------------------------------------------------------------------- */

/* An integer that is all of the line; false after an error.
 * %rep and %rotate take an expression. */
static bool read_int(as_pp *pp, const as_tok *v, uint32_t n, int64_t *out) {
  if (!as_pp_expand(pp, v + 1, n - 1, v + n, &pp->out)) return false;
  as_cur c = {pp->j, pp->out.v};
  return as_expr_int(&c, out) && as_pp_at_end(pp, c.t, "the number");
}

static void rep(as_pp *pp, const as_tok *v, uint32_t n) {
  as_pos at = v->pos;
  int64_t count = 0;
  as_pp_body body;
  bool ok = read_int(pp, v, n, &count);
  /* A negative count is most often a difference that was taken the wrong way around. */
  if (ok && count < 0)
    as_error(pp->j, at, 4, "%%rep of %lld times: the count must be at least 0", (long long)count);
  if (ok && count > PP_MAX_REP)
    as_fatal(pp->j, at, "%%rep of %lld times: the limit is %d", (long long)count, PP_MAX_REP);
  /* The body is read in any case, so that its lines are not taken for others.
   * An empty body would be repeated for nothing. */
  if (!as_pp_collect(pp, at, PP_B_REP, &body) || !ok || count <= 0 || body.begin == body.end)
    return;
  as_pp_frame *outer = as_pp_top(pp), *f = as_pp_push(pp, PP_REP, at);
  f->call = outer->call;
  f->counts = count <= PP_MAX_ROUNDS;
  /* In a macro its lines are those of the call. */
  f->expansion = outer->kind == PP_FILE ? NULL : outer->expansion;
  if (f->counts) {
    f->expansion = NULL;
    as_pp_round(pp, f);
  }
  f->body = body;
  f->at = body.begin;
  /* The first round begins now. */
  f->left = (uint64_t)count - 1;
}

static void exit_rep(as_pp *pp, const as_tok *v) {
  if (!as_pp_at_end(pp, v + 1, "`%exitrep`")) return;
  if (as_pp_top(pp)->kind != PP_REP) {
    as_error(pp->j, v->pos, v->len, "`%%exitrep` is not inside a %%rep");
    return;
  }
  /* Conditions that the body left open are closed. */
  pp->nconds = as_pp_top(pp)->nconds;
  as_pp_pop(pp);
}

static void exit_macro(as_pp *pp, const as_tok *v) {
  if (!as_pp_at_end(pp, v + 1, "`%exitmacro`")) return;
  as_pp_frame *call = as_pp_top(pp)->call;
  if (!call) {
    as_error(pp->j, v->pos, v->len, "`%%exitmacro` is not inside a macro");
    return;
  }
  while (as_pp_top(pp) != call) as_pp_pop(pp);
  pp->nconds = call->nconds;
  as_pp_pop(pp);
}

static void rotate(as_pp *pp, const as_tok *v, uint32_t n) {
  int64_t by;
  as_pp_frame *call = as_pp_top(pp)->call;
  if (!call) {
    as_error(pp->j, v->pos, v->len, "`%%rotate` is not inside a macro");
    return;
  }
  if (!read_int(pp, v, n, &by) || call->nargs == 0) return;
  int64_t m = call->nargs, r = ((int64_t)call->rotate + by % m + m) % m;
  /* Also a negative count, and one of more than all. */
  call->rotate = (uint32_t)r;
}

/* ---- Contexts ----------------------------------------------------------------------------- */

/* The optional name after %push, %pop and %repl; false after an error. */
static bool read_context(as_pp *pp, const as_tok *v, const char **name) {
  *name = NULL;
  if (v[1].kind == AS_T_END) return true;
  if (v[1].kind != AS_T_NAME) return as_expected(pp->j, &v[1], "the name of a context");
  *name = v[1].text;
  return as_pp_at_end(pp, v + 2, "the context");
}

static void context(as_pp *pp, unsigned d, const as_tok *v) {
  const char *name;
  if (!read_context(pp, v, &name)) return;
  as_pp_context *c = pp->context;
  /* %push makes local names of a block; %pop drops them. */
  if (d == PP_D_push) {
    /* Contexts are counted, as calls are: each has local names of its own. */
    if (++pp->calls > PP_MAX_CALLS)
      as_fatal(pp->j, v->pos, "more than %d macro calls and contexts", PP_MAX_CALLS);
    c = as_new(pp->j, sizeof *c);
    *c = (as_pp_context){pp->context, name, ++pp->ids};
    pp->context = c;
  } else if (!c) {
    as_error(pp->j, v->pos, v->len, "`%%%s`: no context is open", v->text);
  } else if (d == PP_D_repl) {
    c->name = name;
  } else if (name && c->name != name) {
    as_error(pp->j, v[1].pos, v[1].len, "the open context is `%s`, not `%s`",
             c->name ? c->name : "", name);
  } else {
    pp->context = c->outer;
  }
}

/* ---- Files -------------------------------------------------------------------------------- */

/* The file named by all n tokens after v; NULL after an error.
 * After expansion: a file's name may come from a define. */
static const char *read_path(as_pp *pp, const as_tok *v, uint32_t n) {
  if (!as_pp_expand(pp, v + 1, n - 1, v + n, &pp->out)) return NULL;
  const as_tok *path = pp->out.v;
  if (path->kind == AS_T_STR && !memchr(path->text, 0, path->len) && path->len > 0)
    return as_pp_at_end(pp, path + 1, "the file") ? path->text : NULL;
  as_expected(pp->j, path, "the name of a file in quotes");
  return NULL;
}

/* The file is noted for -M, and not read. */
static void depend(as_pp *pp, const as_tok *v, uint32_t n) {
  const char *path = read_path(pp, v, n);
  if (path) as_src_depend(pp->j, path);
}

/* Defines a name as the path that %include would open; one that nothing has stays as it is. */
static void path_search(as_pp *pp, const as_tok *v, uint32_t n) {
  const as_tok *name = v + 1;
  if (n < 2 || name->kind != AS_T_NAME) {
    as_expected(pp->j, name, "a name after `%%%s`", v->text);
    return;
  }
  const char *path = read_path(pp, name, n - 1);
  if (path) path = as_src_search(pp->j, v->pos, v->len, path);
  /* The name stays as it is if the file is nowhere. */
  if (path) as_pp_set_string(pp, name, path, (uint32_t)strlen(path), v->text[0] == 'i');
}

/* The listing has the line; what the file makes comes after it. */
static void include(as_pp *pp, const as_tok *v, uint32_t n) {
  const char *path = read_path(pp, v, n);
  uint32_t source;
  if (!path) return;
  as_pos at = v->pos;
  if (!as_src_load(pp->j, at, v->len, path, &source)) return;
  if (pp->j->list_line && !as_pp_is_given(pp, at)) pp->j->list_line(pp->j, at);
  as_lex_open(pp->j, source, &as_pp_push(pp, PP_FILE, at)->lex);
}

/* ` from NAME LINE "file"` and ` round N LINE "file"`, as the disassembler prints them: what the
 * lines came out of, innermost first. NULL after an error; *t then stands at it. */
static bool line_calls(as_pp *pp, const as_tok **t, as_expansion **out) {
  as_expansion **to = out;
  *out = NULL;
  /* Each part has four tokens; the first that has another form ends them. */
  while ((*t)->kind == AS_T_NAME) {
    const as_tok *v = *t;
    bool round = strcmp(v->text, "round") == 0;
    bool ok = round ? v[1].kind == AS_T_INT && v[1].v.ival > 0 && v[1].v.ival <= INT32_MAX
                    : strcmp(v->text, "from") == 0 && v[1].kind == AS_T_NAME;
    if (!ok || v[2].kind != AS_T_INT || v[2].v.ival <= 0 || v[2].v.ival > INT32_MAX ||
        v[3].kind != AS_T_STR || memchr(v[3].text, 0, v[3].len))
      return false;
    as_expansion *e = as_new(pp->j, sizeof *e);
    e->macro = round ? "" : v[1].text;
    e->round = round ? (uint32_t)v[1].v.ival : 0;
    e->call = (as_pos){.file = as_src_name(pp->j, v[3].text), .line = (uint32_t)v[2].v.ival};
    /* Each is the call of the one before it. */
    *to = e;
    to = &e->call.expansion;
    *t += 4;
  }
  return true;
}

/* `%line N[+STEP] ["file" [CALLS]]`: what the next line counts as. `%line 0`: the next lines have
 * no place in a source, as what a builder adds. */
static void line(as_pp *pp, const as_tok *v) {
  as_pp_frame *f = as_pp_top(pp);
  const as_tok *t = v + 1;
  uint32_t step = 1, file = f->lex.file;
  /* Only in files: a macro's lines have the places of its calls. */
  bool ok = f->kind == PP_FILE && t->kind == AS_T_INT && t->v.ival >= 0 && t->v.ival <= INT32_MAX;
  int64_t number = t->v.ival;
  /* All following lines have no place either. */
  if (number == 0) step = 0;
  if (ok) t++;
  if (ok && t->kind == AS_T_PUNCT && t->punct == '+') {
    ok = t[1].kind == AS_T_INT && t[1].v.ival >= 0 && t[1].v.ival <= INT32_MAX;
    if (ok) step = (uint32_t)t[1].v.ival;
    t += 2;
  }
  if (ok && t->kind == AS_T_STR && !memchr(t->text, 0, t->len))
    file = as_src_name(pp->j, t++->text);
  as_expansion *calls = NULL;
  ok = ok && line_calls(pp, &t, &calls);
  if (!ok || t->kind != AS_T_END) {
    as_error(pp->j, v->pos, v->len,
             f->kind == PP_FILE ? "expected `%%line NUMBER[+STEP] [\"FILE\"]`"
                                : "`%%line` is inside a macro or %%rep");
    return;
  }
  /* The next line counts as this number. */
  f->lex.line = (uint32_t)number;
  f->lex.step = step;
  f->lex.file = file;
  f->expansion = calls;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* Strings without their quotes, the rest as written. */
static void message(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  if (!as_pp_expand(pp, v + 1, n - 1, v + n, &pp->out)) return;
  const as_toks *t = &pp->out;
  isa_buf b;
  isa_buf_init(&b, &pp->j->al);
  for (uint32_t i = 0; i < t->n; i++) {
    if (i > 0 && t->v[i].space_before) isa_buf_puts(&b, " ");
    if (t->v[i].kind == AS_T_STR)
      isa_buf_add(&b, t->v[i].text, t->v[i].len);
    else
      as_tok_print(&t->v[i], &b);
  }
  if (b.len == 0) isa_buf_printf(&b, "%%%s without a text", v->text);
  const char *s = isa_buf_str(&b);
  /* A message is one line. */
  for (size_t i = 0; i < b.len && b.data; i++)
    if ((unsigned char)b.data[i] < ' ') b.data[i] = ' ';
  char *text = b.failed ? NULL : isa_arena_strn(&pp->j->arena, s, b.len);
  isa_buf_free(&b);
  if (!text) as_nomem(pp->j);
  /* %fatal ends the job, the others go on. */
  switch (d) {
  case PP_D_error: as_error(pp->j, v->pos, v->len, "%s", text); break;
  case PP_D_fatal: as_fatal(pp->j, v->pos, "%s", text);
  case PP_D_warning: as_warning(pp->j, "user", v->pos, v->len, "%s", text); break;
  default: as_remark(pp->j, v->pos, v->len, "%s", text); break;
  }
}

/* `ignore` is for others, and parameters are always what is said to be sane. */
static void pragma(as_pp *pp, const as_tok *v) {
  bool named = v[1].kind == AS_T_NAME;
  bool sane = named && strcmp(v[1].text, "preproc") == 0 && v[2].kind == AS_T_NAME &&
              strcmp(v[2].text, "sane_empty_expansion") == 0;
  if (sane || (named && strcmp(v[1].text, "ignore") == 0)) return;
  as_warning(pp->j, "ignored-pragma", v->pos, v->len, "this `%%pragma` means nothing here");
}

void as_pp_do_control(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  as_pp_body nothing;
  switch (d) {
  case PP_D_rep: rep(pp, v, n); break;
  case PP_D_exitrep: exit_rep(pp, v); break;
  case PP_D_exitmacro: exit_macro(pp, v); break;
  case PP_D_rotate: rotate(pp, v, n); break;
  case PP_D_push:
  case PP_D_pop:
  case PP_D_repl: context(pp, d, v); break;
  case PP_D_include: include(pp, v, n); break;
  case PP_D_depend: depend(pp, v, n); break;
  case PP_D_pathsearch:
  case PP_D_ipathsearch: path_search(pp, v, n); break;
  case PP_D_pragma: pragma(pp, v); break;
  case PP_D_comment: as_pp_collect(pp, v->pos, PP_B_COMMENT, &nothing); break;
  case PP_D_endcomment:
    as_error(pp->j, v->pos, v->len, "`%%endcomment` without `%%comment`");
    break;
  case PP_D_null: break;
  case PP_D_line: line(pp, v); break;
  case PP_D_endrep: as_error(pp->j, v->pos, v->len, "`%%endrep` without `%%rep`"); break;
  case PP_D_endmacro:
  case PP_D_endm: as_error(pp->j, v->pos, v->len, "`%%%s` without `%%macro`", v->text); break;
  default: message(pp, d, v, n); break;
  }
}
