/* Names that objects share: `global`, `extern`, and what an object's file says of them. */
#include "../object/object.h"
#include "stmt.h"

#include <string.h>

/* ---- Directives --------------------------------------------------------------------------- */

/* Something declared before, or a label of the section, which may come later.
 * What a name is shared as: data is shared by declaration, labels by section. */
static as_sym *exported(as_cur *c) {
  const as_tok *t = c->t;
  as_sym *s = as_at_name(c) ? as_sym_find(c->j, t->text, 0) : NULL;
  /* Its value is needed while assembling, so it cannot wait for the linker. */
  if (s && s->kind == AS_S_EQU) {
    as_error(c->j, t->pos, t->len, "`%s` is a constant; to share it, %%include its definition",
             t->text);
    return NULL;
  }
  if (s && s->kind == AS_S_GROUP) {
    as_error(c->j, t->pos, t->len,
             "`%s` is a group of ranks; equal groups of all objects become one without global",
             t->text);
    return NULL;
  }
  if (s) {
    c->t++;
    return s;
  }
  if (as_at_name(c) && c->j->unit->section == AS_NSECTIONS) {
    as_error(c->j, t->pos, t->len,
             "nothing called `%s` is declared before this line; `global` comes after the "
             "declaration, and for a label in its section",
             t->text);
    return NULL;
  }
  /* A local label has no name outside of its function. */
  if (!as_at_name(c) || t->text[0] != '.') return as_label_ref(c);
  as_error(c->j, t->pos, t->len, "a local label cannot be global");
  return NULL;
}

void as_global(as_cur *c, const as_tok *at) {
  if (as_at_end(c)) {
    as_error(c->j, at->pos, at->len, "`global` needs a name");
    return;
  }
  /* global a, b, c */
  do {
    const as_tok *t = c->t;
    as_sym *s = exported(c);
    if (!s) return;
    if (s->external) {
      as_error(c->j, t->pos, t->len, "`%s` is extern; it cannot be global as well", t->text);
      return;
    }
    s->global = true;
  } while (as_take(c, ','));
  as_need_end(c, "a global name");
}

/* `extern NAME kind ...`: an ordinary declaration, of which nothing is kept but its form. */
static void extern_data(as_cur *c) {
  const as_tok *name = c->t, *kind = c->t + 1;
  /* The kinds that another object can have; constants and groups it cannot. */
  bool data = as_tok_is(kind, "tensor") || as_tok_is(kind, "tile") || as_tok_is(kind, "sem") ||
              as_tok_is(kind, "queue");
  if (!data) {
    as_error(c->j, kind->pos, kind->len, "%s `%s` cannot be extern",
             kind->text[0] == 'e' ? "an" : "a", kind->text);
    return;
  }
  uint32_t errors = c->j->errors;
  /* The declaration reports its own errors. */
  if (!as_definition(c) || c->j->errors > errors) return;
  as_sym *s = as_sym_find(c->j, name->text, 0);
  const isa_program *p = as_program(c->j);
  /* Role, number and place are for the object that has it.
   * temp is the role when none is given. */
  bool role = s->kind == AS_S_TENSOR && p->tensors[s->index - 1].role != ISA_TEMP;
  if (role || s->placed || (s->kind == AS_S_TILE && p->tiles[s->index - 1].overlay)) {
    as_error(c->j, name->pos, name->len, "`%s` is extern: give its %s where it is global",
             name->text,
             role                  ? "role"
             : s->kind == AS_S_SEM ? "number"
                                   : "place");
    return;
  }
  /* Its definition is elsewhere: nothing is placed here. */
  s->external = true;
}

static void extern_labels(as_cur *c) {
  do {
    const as_tok *t = c->t;
    as_sym *s = as_label_ref(c);
    if (!s) return;
    /* A label cannot be here and elsewhere. */
    if (s->defined || s->global || t->text[0] == '.') {
      as_error(c->j, t->pos, t->len, "the label `%s` is defined in this object", s->name);
      return;
    }
    s->external = true;
  } while (as_take(c, ','));
  as_need_end(c, "an extern label");
}

bool as_extern(as_cur *c, const as_tok *at) {
  if (!c->j->o->relocatable)
    return as_error(c->j, at->pos, at->len, "`extern` is for objects: assemble with -r, then link");
  /* Without a second word it is a label. */
  if (!as_at_name(c) || !as_defines(c->j, c->t + 1)) {
    extern_labels(c);
    return false;
  }
  extern_data(c);
  return true;
}

/* ---- The end ------------------------------------------------------------------------------ */

/* A global label may be defined after its `global`; at the end it must be. */
void as_extern_end(as_job *j) {
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_LABEL || !s->global || s->defined) continue;
    as_near w = as_near_open(s->name, strlen(s->name));
    for (as_sym *o = as_sym_first(j); o; o = o->next)
      if (o->kind == AS_S_LABEL && o->scope == s->scope && o->defined) as_near_try(&w, o->name);
    as_error(j, s->pos, s->span, "there is no label `%s` in section %s to make global%s", s->name,
             as_section_name(j, s->scope - 1u), as_near_text(j, &w));
  }
}

void as_extern_branch(as_job *j, const as_fixup *f) {
  struct as_unit *u = j->unit;
  u->relocs = as_grow(j, u->relocs, u->nrelocs, 1, &u->cap_relocs, sizeof *u->relocs);
  /* as_extern_number has made the label's index its number among the object's names. */
  u->relocs[u->nrelocs++] = (as_reloc){(uint8_t)as_core_of(f->section),
                                       (uint8_t)as_engine_of(f->section), f->pc, f->label->index};
}

static const uint8_t link_kinds[AS_S_KINDS] = {
    [AS_S_TENSOR] = AS_L_TENSOR, [AS_S_TILE] = AS_L_TILE,   [AS_S_SEM] = AS_L_SEM,
    [AS_S_QUEUE] = AS_L_QUEUE,   [AS_S_LABEL] = AS_L_LABEL,
};

/* Whether the linker must know of a name. */
static bool linked(const as_sym *s) {
  if (s->kind == AS_S_EQU || s->bad) return false;
  bool moves = (s->kind == AS_S_TILE || s->kind == AS_S_SEM) && !s->placed;
  return moves || s->external || (s->global && s->defined);
}

static as_link_name link_name(as_job *j, const as_sym *s) {
  as_pos at = as_pos_outer(s->pos);
  unsigned section = s->kind == AS_S_LABEL ? s->scope - 1u : 0;
  as_link_name l = {.name = s->name,
                    .kind = link_kinds[s->kind],
                    .bind = s->external ? AS_L_EXTERN
                            : s->global ? AS_L_GLOBAL
                                        : AS_L_LOCAL,
                    .fixed = s->placed,
                    .core = (uint8_t)(s->kind == AS_S_LABEL ? as_core_of(section) : s->core),
                    .engine = (uint8_t)as_engine_of(section),
                    /* An extern label's index is its number among the names. */
                    .index = s->kind == AS_S_LABEL && s->external ? 0 : s->index,
                    .file = as_file_number(j, at.file),
                    .line = at.line};
  /* A queue has a number on each core. */
  if (s->kind == AS_S_QUEUE && s->core == AS_BOTH) l.align = s->u.queue[AS_BOTH - 1];
  if (s->kind == AS_S_TILE && !s->placed) {
    l.align = j->unit->rooms[s->index].align;
    l.room = j->unit->rooms[s->index].bytes;
  }
  return l;
}

void as_extern_number(as_job *j) {
  uint32_t n = 0;
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (!linked(s)) continue;
    if (s->kind == AS_S_LABEL && s->external) s->index = n;
    n++;
  }
}

void as_object_make(as_job *j) {
  as_object o = {.program = j->program, .relocs = j->unit->relocs, .nrelocs = j->unit->nrelocs};
  for (as_sym *s = as_sym_first(j); s; s = s->next) o.nnames += linked(s);
  o.names = as_new(j, ((size_t)o.nnames + 1) * sizeof *o.names);
  uint32_t n = 0;
  for (as_sym *s = as_sym_first(j); s; s = s->next)
    if (linked(s)) o.names[n++] = link_name(j, s);
  if (!as_object_write(&o, &j->out->object)) as_nomem(j);
}
