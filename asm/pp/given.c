/* What the caller defines for a source: the -D, -U and -p options, Lua's `defines`. */
#include "pp.h"

#include <string.h>

/* What is known of each of as_options.defines, once its line has been read. */
struct as_pp_given {
  const char *name; /* NULL: it defines nothing */
  as_pos at;        /* of the name in its line */
  as_pos replaced;  /* where a source defines it before anything reads it; line 0: nowhere */
  bool gone;        /* a later one of the options replaces it */
};

static void put_include(const char *path, isa_buf *out) {
  as_tok t = {.kind = AS_T_STR, .text = path, .len = (uint32_t)strlen(path)};
  isa_buf_puts(out, "%include ");
  as_tok_print(&t, out);
}

/* The -D, -U and -p options are lines of a text of their own, so that messages can show them. */
void as_pp_open_given(as_pp *pp) {
  const as_options *o = pp->j->o;
  if (!o || o->ndefines == 0) return;
  isa_buf b;
  isa_buf_init(&b, &pp->j->al);
  for (uint32_t i = 0; i < o->ndefines; i++) {
    const as_define *d = &o->defines[i];
    const char *value = d->value ? d->value : "1";
    size_t from = b.len;
    if (d->include)
      put_include(d->name, &b);
    else if (d->undefine)
      isa_buf_printf(&b, "%%undef %s", d->name);
    else
      isa_buf_printf(&b, "%%define %s %s", d->name, value);
    /* A value is on one line. */
    for (size_t k = from; k < b.len; k++)
      if (b.data[k] == '\n') b.data[k] = ' ';
    isa_buf_puts(&b, "\n");
  }
  char *text = b.failed ? NULL : isa_arena_strn(&pp->j->arena, b.data, b.len);
  size_t n = b.len;
  isa_buf_free(&b);
  if (!text) as_nomem(pp->j);
  as_pos none = {0};
  pp->given_file = as_src_text(pp->j, "<command line>", text, n);
  pp->given = as_new(pp->j, o->ndefines * sizeof *pp->given);
  as_lex_open(pp->j, pp->given_file, &as_pp_push(pp, PP_FILE, none)->lex);
}

bool as_pp_is_given(const as_pp *pp, as_pos at) { return pp->given && at.file == pp->given_file; }

void as_pp_note_given(as_pp *pp, as_pp_define *d, const as_tok *name) {
  if (!pp->given) return;
  as_name *word = as_name_of(name->text);
  bool own = as_pp_is_given(pp, name->pos);
  if (own) word->lexed--; /* this is no use of it */
  /* The last option for a name is the one that counts. */
  if (d->given && own) pp->given[d->given - 1].gone = true;
  if (d->given && !own && word->lexed == 1) pp->given[d->given - 1].replaced = name->pos;
  d->given = own ? name->pos.line : 0;
  if (own) pp->given[d->given - 1] = (struct as_pp_given){.name = name->text, .at = name->pos};
}

/* The defined name that is nearly this, or NULL. */
static const char *near_name(const as_pp *pp, const char *name) {
  size_t n = strlen(name);
  unsigned best = n < 4 ? 2 : 3;
  const char *near = NULL;
  for (const as_macros *m = pp->names; m; m = m->next) {
    if (!m->def || m->def->given || m->def->name == name) continue;
    /* Nearer than all before it. */
    unsigned d = isa_edit_distance(name, n, m->def->name, strlen(m->def->name), best);
    if (d < best) near = m->def->name, best = d;
  }
  return best < n ? near : NULL;
}

static void warn(as_pp *pp, const struct as_pp_given *g) {
  uint32_t len = as_name_of(g->name)->len;
  const char *near = near_name(pp, g->name);
  if (g->replaced.line)
    as_warning(pp->j, "unused-define", g->replaced, len,
               "this replaces the given `%s`, which nothing has read; write `%%ifndef %s` before "
               "it and `%%endif` after it",
               g->name, g->name);
  else
    as_warning(pp->j, "unused-define", g->at, len,
               near ? "nothing reads `%s`; did you mean `%s`?" : "nothing reads `%s`", g->name,
               near);
}

void as_pp_close_given(as_pp *pp) {
  const as_options *o = pp->j->o;
  for (uint32_t i = 0; pp->given && i < o->ndefines; i++) {
    const struct as_pp_given *g = &pp->given[i];
    if (!g->name || g->gone) continue;
    bool unread = g->replaced.line || as_name_of(g->name)->lexed == 0;
    /* With several sources each may have read it. */
    if (o->defines_read) unread = !(o->defines_read[i] |= !unread);
    if (unread && !o->more_sources) warn(pp, g);
  }
}
