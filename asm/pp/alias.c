/* %defalias, %undefalias, %clear. */
#include "pp.h"

#include <string.h>

static void alias(as_pp *pp, const as_tok *name) {
  const as_tok *to = name + 1;
  if (to->kind != AS_T_NAME) {
    as_expected(pp->j, to, "the name that `%s` stands for", name->text);
    return;
  }
  if (!as_pp_at_end(pp, to + 1, "the name")) return;
  /* The chain from the new name on must not come back. */
  for (const char *n = to->text; n; n = as_pp_macros(pp, n)->alias)
    if (n == name->text) {
      as_error(pp->j, to->pos, to->len, "`%s` would stand for itself", name->text);
      return;
    }
  as_pp_macros(pp, name->text)->alias = to->text;
}

enum { DEFINES = 1, ALIASES = 2, MACROS = 4 };

static unsigned kind_of(const as_tok *t) {
  static const struct {
    const char *name;
    unsigned what;
  } kinds[] = {{"define", DEFINES},
               {"defalias", ALIASES},
               {"alldefine", DEFINES | ALIASES},
               {"macro", MACROS},
               {"all", DEFINES | ALIASES | MACROS}};
  for (size_t i = 0; t->kind == AS_T_NAME && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(t->text, kinds[i].name) == 0) return kinds[i].what;
  return 0;
}

/* `%clear [global] [KIND...]` */
static void clear(as_pp *pp, const as_tok *v) {
  const as_tok *t = v + 1;
  unsigned what = 0;
  if (t->kind == AS_T_NAME && strcmp(t->text, "context") == 0) {
    as_error(pp->j, t->pos, t->len, "`%%clear context` is not built: write `%%pop` and `%%push`");
    return;
  }
  /* `global` is what it does anyway. */
  if (t->kind == AS_T_NAME && strcmp(t->text, "global") == 0) t++;
  for (; t->kind != AS_T_END; t++) {
    unsigned kind = kind_of(t);
    if (!kind) {
      as_expected(pp->j, t, "define, defalias, alldefine, macro or all after `%%clear`");
      return;
    }
    what |= kind;
  }
  if (!what) what = DEFINES | ALIASES | MACROS;
  /* The names themselves stay: they may be defined again. */
  for (as_macros *m = pp->names; m; m = m->next) {
    if (what & DEFINES) m->def = m->def_nocase = NULL;
    if (what & ALIASES) m->alias = NULL;
    if (what & MACROS) m->mac = m->mac_nocase = NULL;
  }
}

void as_pp_do_alias(as_pp *pp, unsigned d, const as_tok *v, uint32_t n) {
  const as_tok *name = v + 1;
  if (d == PP_D_clear) {
    clear(pp, v);
  } else if (n < 2 || name->kind != AS_T_NAME) {
    as_expected(pp->j, name, "a name after `%%%s`", v->text);
  } else if (d == PP_D_defalias) {
    alias(pp, name);
  } else if (as_pp_at_end(pp, name + 1, "the name")) {
    as_pp_macros(pp, name->text)->alias = NULL;
  }
}
