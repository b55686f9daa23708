/* The linker: objects to a program. Names are gathered and resolved first, then what the objects
 * declare is numbered and placed again in the program, and then their patterns and instructions
 * are copied with the new numbers. Messages name the declarations. */
#include "linker.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[AS_L_KINDS] = {"tensor", "tile", "semaphore", "queue", "label"};
static const as_pos nowhere = {0};

/* ---- Names -------------------------------------------------------------------------------- */

static unsigned scope_of(const as_link_name *l) {
  /* Labels of two engines may have one name; all other names are the program's. */
  return l->kind == AS_L_LABEL ? 1u + l->core * ISA_NSEQS + l->engine : 0;
}

static bool is_bound(const as_link_name *l, unsigned bind) { return l && l->bind == bind; }

/* Where an object declares a name.
 * The object's own table of files names it; a place shows in messages as if it were
 * assembled here. */
static as_pos place(as_linker *k, const as_link_unit *u, const as_link_name *l) {
  if (!l->file) return nowhere;
  return (as_pos){as_src_name(k->j, u->o.program->files[l->file - 1]), l->line, 0, NULL};
}

/* Objects without line tables have no place to show. */
static void note_place(as_linker *k, const as_export *e, const char *what) {
  as_pos at = place(k, e->owner, e->link);
  if (at.line) as_note(k->j, at, "%s", what);
}

/* Exports are kept as symbols, so that a name is found by its text. */
static void add_export(as_linker *k, as_link_unit *u, const as_link_name *l) {
  as_tok tok = {.text = as_intern(k->j, l->name, strlen(l->name))};
  as_sym *s = as_sym_find(k->j, tok.text, scope_of(l));
  if (s) {
    const as_export *e = &k->exports[s->index];
    as_error(k->j, place(k, u, l), 1, "`%s` is global in %s and in %s", l->name, e->owner->file,
             u->file);
    note_place(k, e, "it is global here");
    return;
  }
  s = as_sym_get(k->j, tok.text, scope_of(l), AS_S_LABEL, &tok);
  s->index = k->nexports;
  k->exports[k->nexports++] = (as_export){u, l};
}

/* Room for all names of all objects: few of them are global. */
static void gather(as_linker *k) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->n; i++) n += k->units[i].o.nnames;
  k->exports = as_new(k->j, ((size_t)n + 1) * sizeof *k->exports);
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t l = 0; l < k->units[i].o.nnames; l++)
      /* Labels, too: a branch of another object may lead there. */
      if (k->units[i].o.names[l].bind == AS_L_GLOBAL)
        add_export(k, &k->units[i], &k->units[i].o.names[l]);
}

/* An object that has the thing for itself, or NULL.
 * For the message only: who has the thing, but does not share it. */
static const as_link_unit *keeper(const as_linker *k, const as_link_unit *user,
                                  const as_link_name *l) {
  for (uint32_t i = 0; i < k->n; i++)
    if (&k->units[i] != user && as_object_keeps(&k->units[i].o, l)) return &k->units[i];
  return NULL;
}

/* NULL after an error that says what to do about it. */
const as_export *as_link_export(as_linker *k, const as_link_unit *u, const as_link_name *l) {
  /* A name may be global as something else, or be somebody's own: each has its own message, since
   * each is mended elsewhere. */
  as_sym *s = as_sym_find(k->j, as_intern(k->j, l->name, strlen(l->name)), scope_of(l));
  if (s && k->exports[s->index].link->kind == l->kind) return &k->exports[s->index];
  if (s) {
    const as_export *e = &k->exports[s->index];
    as_error(k->j, place(k, u, l), 1, "`%s` is a %s in %s, but %s uses it as a %s", l->name,
             kind_names[e->link->kind], e->owner->file, u->file, kind_names[l->kind]);
    note_place(k, e, "it is declared here");
    return NULL;
  }
  const as_link_unit *has = keeper(k, u, l);
  if (has) {
    as_error(k->j, place(k, u, l), 1, "the %s `%s`, which %s uses, is not global in %s",
             kind_names[l->kind], l->name, u->file, has->file);
    as_note(k->j, nowhere, "%s needs the line `global %s`%s%s", has->file, l->name,
            l->kind == AS_L_LABEL ? " in section " : "",
            l->kind == AS_L_LABEL ? isa_engines[l->engine].name : "");
    return NULL;
  }
  /* Names of the same kind may have been meant. */
  as_near w = as_near_open(l->name, strlen(l->name));
  for (uint32_t i = 0; i < k->nexports; i++)
    if (scope_of(k->exports[i].link) == scope_of(l)) as_near_try(&w, k->exports[i].link->name);
  as_error(k->j, place(k, u, l), 1, "no object has the %s `%s`, which %s uses%s",
           kind_names[l->kind], l->name, u->file, as_near_text(k->j, &w));
  return NULL;
}

/* A name for what is in a table of names already: name_2, name_3, ... `taken` marks names.
 * A loop of two objects each with a tile `x` gives x and x_2. */
static const char *fresh(as_linker *k, const char *name) {
  const char *text = as_intern(k->j, name, strlen(name));
  char *s = as_new(k->j, strlen(name) + 16);
  /* The first one that is free. */
  for (unsigned i = 2; *as_sym_mark(k->j, text); i++) {
    snprintf(s, strlen(name) + 16, "%s_%u", name, i);
    text = as_intern(k->j, s, strlen(s));
  }
  *as_sym_mark(k->j, text) = true;
  return text;
}

/* Global names and those that the host sees keep theirs: they are taken first.
 * The host asks for a tensor by its name, so it cannot be another one. */
static void take_name(as_linker *k, const as_link_unit *u, const char *name, const char *what) {
  bool *mark = as_sym_mark(k->j, as_intern(k->j, name, strlen(name)));
  if (*mark)
    as_error(k->j, nowhere, 1, "%s has another %s `%s`; its name cannot change", u->file, what,
             name);
  *mark = true;
}

static void take_names(as_linker *k) {
  for (uint32_t i = 0; i < k->n; i++) {
    as_link_unit *u = &k->units[i];
    const isa_program *p = u->o.program;
    for (uint32_t t = 0; t < p->ntensors; t++) {
      /* The host gives and reads these by name. */
      bool host = p->tensors[t].role == ISA_INPUT || p->tensors[t].role == ISA_OUTPUT;
      /* A global tensor's name is taken with the global names. */
      if (host && !is_bound(u->tensor_link[t + 1], AS_L_GLOBAL))
        take_name(k, u, p->tensors[t].name, "tensor");
    }
    for (uint32_t l = 0; l < u->o.nnames; l++)
      if (u->o.names[l].bind == AS_L_GLOBAL && u->o.names[l].kind != AS_L_LABEL)
        take_name(k, u, u->o.names[l].name, kind_names[u->o.names[l].kind]);
  }
}

/* Names that others see stay; all others only have to differ. */
static const char *name_for(as_linker *k, const as_link_name *l, bool host, const char *name) {
  return host || is_bound(l, AS_L_GLOBAL) ? name : fresh(k, name);
}

/* ---- What objects declare ----------------------------------------------------------------- */

/* By number: which name an object's tile or tensor has in the table of shared names. */
static void index_links(as_linker *k, as_link_unit *u) {
  const isa_program *p = u->o.program;
  u->tensor = as_new(k->j, ((size_t)p->ntensors + 1) * sizeof *u->tensor);
  u->tensor_link = as_new(k->j, ((size_t)p->ntensors + 1) * sizeof *u->tensor_link);
  u->tile = as_new(k->j, ((size_t)p->ntiles + 1) * sizeof *u->tile);
  u->tile_link = as_new(k->j, ((size_t)p->ntiles + 1) * sizeof *u->tile_link);
  u->moved = as_new(k->j, ((size_t)p->ntiles + 1) * sizeof *u->moved);
  for (uint32_t i = 0; i < u->o.nnames; i++) {
    const as_link_name *l = &u->o.names[i];
    switch (l->kind) {
    /* An extern name counts as well: its index is that of the declaration. */
    case AS_L_TENSOR: u->tensor_link[l->index] = l; break;
    case AS_L_TILE: u->tile_link[l->index] = l; break;
    case AS_L_SEM:
      for (unsigned c = as_link_first(l); c <= as_link_last(l); c++) u->sem_link[c][l->index] = l;
      break;
    case AS_L_QUEUE:
      for (unsigned c = as_link_first(l); c <= as_link_last(l); c++)
        u->queue_link[c][as_link_index(l, c)] = l;
      break;
    default: break;
    }
  }
}

/* An object's tensor i is tensor[i] of the program; 0: not there yet. */
static void add_tensors(as_linker *k, as_link_unit *u) {
  const isa_program *p = u->o.program;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    isa_tensor t = p->tensors[i];
    bool host = t.role == ISA_INPUT || t.role == ISA_OUTPUT;
    /* Another object has it. */
    if (is_bound(u->tensor_link[i + 1], AS_L_EXTERN)) continue;
    t.name = name_for(k, u->tensor_link[i + 1], host, t.name);
    u->tensor[i + 1] = isa_program_tensor(k->j->program, &t);
    if (u->tensor[i + 1] == 0) as_nomem(k->j);
  }
}

/* The number of the same groups, in the program already under that name; else how many it has.
 * Equal lists under another name are a group of their own, for the text's sake. */
static uint32_t find_group(const isa_program *p, const isa_group *g) {
  uint32_t i = isa_program_find_group(p, g, 0);
  while (i < p->ngroups && strcmp(p->groups[i].name, g->name) != 0)
    i = isa_program_find_group(p, g, i + 1);
  return i;
}

/* Equal groups of one name are one. */
static void add_groups(as_linker *k, as_link_unit *u) {
  isa_program *p = k->j->program;
  for (uint32_t i = 0; i < u->o.program->ngroups; i++) {
    isa_group g = u->o.program->groups[i];
    uint32_t at = find_group(p, &g);
    u->group[i] = (uint8_t)at;
    if (at < p->ngroups) continue;
    if (at == ISA_MAX_GROUPS) {
      as_error(k->j, nowhere, 1,
               "%s: no room for its replica groups `%s`: a program has at most %d", u->file, g.name,
               ISA_MAX_GROUPS);
      return;
    }
    g.name = fresh(k, g.name);
    if (!isa_program_group(p, &g)) as_nomem(k->j);
  }
}

/* Twice over the objects: those with a place of their own first, or another one would
 * take it. */
static void add_tiles(as_linker *k, as_link_unit *u, bool fixed) {
  const isa_program *p = u->o.program;
  for (uint32_t i = 0; i < p->ntiles; i++) {
    const as_link_name *l = u->tile_link[i + 1];
    isa_tile t = p->tiles[i];
    /* First those that have a place, then the others. */
    if (is_bound(l, AS_L_EXTERN) || fixed != (!l || l->fixed)) continue;
    t.name = name_for(k, l, false, t.name);
    /* Tiles of one overlay share bytes in their object; another object's of that name
     * do not. */
    if (t.overlay) { /* a group is the object's own */
      char *group = as_new(k->j, strlen(t.overlay) + 16);
      snprintf(group, strlen(t.overlay) + 16, "%s_%u", t.overlay, (unsigned)(u - k->units) + 1);
      t.overlay = k->n > 1 ? as_intern(k->j, group, strlen(group))
                           : as_intern(k->j, t.overlay, strlen(t.overlay));
    }
    if (!as_tile_link(k->j, &t, fixed, l ? l->align : 1, l ? l->room : 0)) {
      as_note(k->j, nowhere, "it comes from %s", u->file);
      continue;
    }
    /* Patterns of the tile move as far.
     * Their offsets are absolute in the memory. */
    u->moved[i + 1] = (int64_t)t.offset - p->tiles[i].offset;
    u->tile[i + 1] = isa_program_tile(k->j->program, &t);
    if (u->tile[i + 1] == 0) as_nomem(k->j);
  }
}

/* The name that semaphore n has on one of the cores, NULL: it is free. */
static const char *sem_name(const isa_program *p, unsigned first, unsigned last, unsigned n) {
  const char *name = NULL;
  for (unsigned c = first; c <= last && !name; c++) name = p->cores[c].sem_names[n];
  return name;
}

/* Adds a semaphore of the cores first to last, under one number and name.
 * A number is free only if it is so on each core that gets it. */
static void add_sem(as_linker *k, as_link_unit *u, unsigned first, unsigned last, unsigned old,
                    bool fixed) {
  isa_program *p = k->j->program;
  const as_link_name *l = u->sem_link[first][old];
  const char *name = u->o.program->cores[first].sem_names[old];
  unsigned n = fixed ? old : 0;
  while (!fixed && n < ISA_NSEMS && sem_name(p, first, last, n)) n++;
  if (n == ISA_NSEMS) {
    as_error(k->j, nowhere, 1, "no semaphore is left for `%s` of %s: a core has %d", name, u->file,
             ISA_NSEMS);
    return;
  }
  if (sem_name(p, first, last, n)) {
    as_error(k->j, nowhere, 1, "semaphore %u is `%s` in %s and `%s` elsewhere", n, name, u->file,
             sem_name(p, first, last, n));
    return;
  }
  name = name_for(k, l, false, name);
  name = isa_arena_strn(&p->arena, name, strlen(name));
  if (!name) as_nomem(k->j);
  for (unsigned c = first; c <= last; c++) {
    p->cores[c].sem_names[n] = name;
    u->sem[c][old] = (uint8_t)n;
  }
}

static void add_sems(as_linker *k, as_link_unit *u, bool fixed) {
  const isa_program *p = u->o.program;
  for (unsigned core = 0; core < p->ncores; core++)
    for (unsigned s = 0; s < ISA_NSEMS; s++) {
      const as_link_name *l = u->sem_link[core][s];
      bool named = p->cores[core].sem_names[s] != NULL, both = isa_shared_sem(p, s) != NULL;
      /* Used by its number alone: it keeps that number.
       * $S[12] of an object that names no such semaphore. */
      if (fixed && !named) u->sem[core][s] = (uint8_t)s;
      if (named && !(both && core) && !is_bound(l, AS_L_EXTERN) && fixed == (!l || l->fixed))
        add_sem(k, u, core, both ? AS_BOTH - 1 : core, s, fixed);
    }
}

/* What core 0's queue of that name is called in the program; NULL: core 0 has none.
 * A queue's name on core 1 is decided by core 0's, if both have it. */
static const char *name_on_first(as_linker *k, const as_link_unit *u, const char *name) {
  const isa_core *c = &u->o.program->cores[0];
  for (uint32_t i = 0; i < c->nqueues; i++)
    if (strcmp(c->queues[i].name, name) == 0)
      return k->j->program->cores[0].queues[u->queue[0][i]].name;
  return NULL;
}

static void add_queues(as_linker *k, as_link_unit *u) {
  for (unsigned core = 0; core < u->o.program->ncores; core++)
    for (uint32_t i = 0; i < u->o.program->cores[core].nqueues; i++) {
      isa_queue q = u->o.program->cores[core].queues[i];
      if (is_bound(u->queue_link[core][i], AS_L_EXTERN)) continue;
      unsigned most = isa_queue_limit(&k->j->program->cores[core], &q);
      if (most) {
        as_error(k->j, nowhere, 1, "no queue is left for `%s` of %s: a core has %u", q.name,
                 u->file, most);
        return;
      }
      /* A queue of both cores has one name. */
      const char *both = core ? name_on_first(k, u, q.name) : NULL;
      q.name = both ? both : name_for(k, u->queue_link[core][i], false, q.name);
      uint32_t index = isa_program_queue(k->j->program, core, &q);
      if (index == 0) as_nomem(k->j);
      u->queue[core][i] = (uint8_t)(index - 1);
    }
}

/* ---- Externs ------------------------------------------------------------------------------ */

/* What two objects say of one name; l is the extern one.
 * Two declarations of one thing must agree, whoever is right. */
static void differ(as_linker *k, const as_link_unit *u, const as_link_name *l, const as_export *e,
                   const char *what) {
  as_error(k->j, place(k, u, l), 1, "the %s `%s` has a different %s in %s than in %s",
           kind_names[e->link->kind], e->link->name, what, u->file, e->owner->file);
  note_place(k, e, "it is declared here");
}

static void differ_in_type(as_linker *k, const as_link_unit *u, const as_link_name *l,
                           const as_export *e, const char *mine, const char *theirs) {
  as_error(k->j, place(k, u, l), 1, "the %s `%s` is %s in %s, but %s in %s",
           kind_names[e->link->kind], e->link->name, mine, u->file, theirs, e->owner->file);
  note_place(k, e, "it is declared here");
}

static void resolve_tensor(as_linker *k, as_link_unit *u, const as_link_name *l,
                           const as_export *e) {
  const isa_tensor *a = &u->o.program->tensors[l->index - 1];
  const isa_tensor *b = &e->owner->o.program->tensors[e->link->index - 1];
  /* Both declarations must say the same. */
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->rows != b->rows ||
      memcmp(a->shape, b->shape, sizeof a->shape) != 0)
    differ_in_type(k, u, l, e, as_tensor_text(k->j, a), as_tensor_text(k->j, b));
  u->tensor[l->index] = e->owner->tensor[e->link->index];
}

static void resolve_tile(as_linker *k, as_link_unit *u, const as_link_name *l, const as_export *e) {
  const isa_tile *a = &u->o.program->tiles[l->index - 1];
  const isa_tile *b = &e->owner->o.program->tiles[e->link->index - 1];
  if (a->space != b->space || a->dtype != b->dtype || a->ndim != b->ndim || a->bytes != b->bytes ||
      memcmp(a->shape, b->shape, sizeof a->shape) != 0)
    differ_in_type(k, u, l, e, as_tile_text(k->j, a), as_tile_text(k->j, b));
  else if (a->part != b->part)
    differ(k, u, l, e, "start partition");
  uint32_t index = e->owner->tile[e->link->index];
  u->tile[l->index] = index;
  if (index) u->moved[l->index] = (int64_t)k->j->program->tiles[index - 1].offset - a->offset;
}

/* The first of the objects that says who triggers a queue decides. */
static bool resolve_queue(as_linker *k, as_link_unit *u, const as_link_name *l, const as_export *e,
                          unsigned core) {
  uint32_t mine = as_link_index(l, core);
  const isa_queue *a = &u->o.program->cores[core].queues[mine];
  uint8_t index = e->owner->queue[core][as_link_index(e->link, core)];
  isa_queue *b = &k->j->program->cores[core].queues[index];
  /* Numbers first: an error below should not lead to more of them. */
  u->queue[core][mine] = index;
  if (a->dge != b->dge || a->rings != b->rings || a->prio != b->prio) {
    differ(k, u, l, e, "form");
    return false;
  }
  /* An object that does not say who triggers it takes what another says. */
  if (b->owner == ISA_ANY_OWNER) b->owner = a->owner;
  if (a->owner == ISA_ANY_OWNER || a->owner == b->owner) return true;
  differ(k, u, l, e, "owner");
  return false;
}

static void resolve_sem(as_link_unit *u, const as_link_name *l, const as_export *e) {
  for (unsigned c = as_link_first(l); c <= as_link_last(l); c++)
    u->sem[c][l->index] = e->owner->sem[c][e->link->index];
}

/* Tensors and tiles are of the program; what a core has must be of the same core. */
static void resolve(as_linker *k, as_link_unit *u, const as_link_name *l) {
  const as_export *e = as_link_export(k, u, l);
  if (!e) return;
  if (l->kind != AS_L_TENSOR && l->kind != AS_L_TILE && l->core != e->link->core) {
    differ(k, u, l, e, "core");
    return;
  }
  switch (l->kind) {
  case AS_L_TENSOR: resolve_tensor(k, u, l, e); break;
  case AS_L_TILE: resolve_tile(k, u, l, e); break;
  case AS_L_SEM: resolve_sem(u, l, e); break;
  case AS_L_QUEUE:
    for (unsigned c = as_link_first(l), ok = 1; ok && c <= as_link_last(l); c++)
      ok = resolve_queue(k, u, l, e, c);
    break;
  default: break; /* a label's place is known once the code is laid out */
  }
}

/* ---- The whole ---------------------------------------------------------------------------- */

/* Moved operands may break rules that they kept before.
 * A tile at another place may cross a bank, say. */
static void check_code(as_linker *k) {
  const isa_program *p = k->j->program;
  isa_error e;
  for (unsigned s = 0; s < p->ncores * ISA_NSEQS; s++) {
    const isa_code *code = as_code(k->j, s);
    for (uint32_t pc = 0; pc < code->n; pc++) {
      if (isa_check_insn(p, as_core_of(s), as_engine_of(s), &code->insns[pc], code->n, &e))
        continue;
      as_error(k->j, nowhere, 1, "section %s, instruction %u, `%s`: %s", as_section_name(k->j, s),
               pc, isa_ops[code->insns[pc].op].name, e.text);
    }
  }
}

/* Where each object's code begins, for the headings of the listing. */
static void list(as_linker *k) {
  const char **object = as_new(k->j, (size_t)k->n * sizeof *object);
  uint32_t(*base)[AS_NSECTIONS] = as_new(k->j, (size_t)k->n * sizeof *base);
  for (uint32_t i = 0; i < k->n; i++) {
    object[i] = k->units[i].file;
    memcpy(base[i], k->units[i].base, sizeof *base);
  }
  as_listing_linked(k->j, k->n, object, (const uint32_t(*)[AS_NSECTIONS])base);
  if (k->j->out->listing.failed) as_nomem(k->j);
}

static void run_units(as_linker *k) {
  /* Errors are collected within a step; the next one needs the last to be whole. */
  as_job *j = k->j;
  for (uint32_t i = 0; i < k->n; i++) index_links(k, &k->units[i]);
  gather(k);
  if (j->errors == 0) take_names(k);
  /* A name that is missing would only be missed again. */
  if (j->errors) return;
  /* Twice for places: fixed ones first. */
  for (unsigned fixed = 2; fixed-- > 0;) /* what has its place goes first */
    for (uint32_t i = 0; i < k->n; i++) {
      add_tiles(k, &k->units[i], fixed);
      add_sems(k, &k->units[i], fixed);
    }
  for (uint32_t i = 0; i < k->n; i++) {
    add_tensors(k, &k->units[i]);
    add_groups(k, &k->units[i]);
    add_queues(k, &k->units[i]);
  }
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t l = 0; l < k->units[i].o.nnames; l++)
      if (k->units[i].o.names[l].bind == AS_L_EXTERN)
        resolve(k, &k->units[i], &k->units[i].o.names[l]);
  if (j->errors) return;
  /* All code, then branches: a branch may lead to an object that comes later. */
  for (uint32_t i = 0; i < k->n; i++) as_link_code(k, &k->units[i]);
  for (uint32_t i = 0; i < k->n; i++) as_link_branches(k, &k->units[i]);
  as_own_queues(j->program);
  as_link_symbols(k);
  as_order(j, j->program);
  /* The rules once more, for the program as it is now. */
  check_code(k);
}

static void read_units(as_linker *k, const as_file *files) {
  as_job *j = k->j;
  /* Each object is read as hostile input. */
  isa_error e;
  for (uint32_t i = 0; i < k->n; i++) {
    as_link_unit *u = &k->units[i];
    u->file = files[i].name;
    if (!as_object_read(&j->arena, files[i].data, files[i].n, &u->o, &e)) {
      if (e.status == ISA_NOMEM) as_nomem(j);
      as_error(j, nowhere, 1, "%s: %s", u->file, e.text);
      continue;
    }
    const isa_target *t = u->o.program->target;
    /* The first object's target is the program's. */
    if (!j->target) j->target = isa_target_keep(t, &j->own_target);
    if (!isa_target_same(j->target, t))
      as_error(j, nowhere, 1, "%s is for %s, the others for %s", u->file, t->name, j->target->name);
  }
}

static void run(as_linker *k, const as_file *files) {
  as_job *j = k->j;
  if (setjmp(j->bail)) return;
  as_diag_open(j);
  j->unit = as_new(j, sizeof *j->unit);
  j->unit->section = AS_NSECTIONS;
  read_units(k, files);
  if (j->errors) return;
  isa_program *p = as_program(j);
  /* As many cores as any object has. */
  for (uint32_t i = 0; i < k->n; i++)
    if (k->units[i].o.program->ncores > p->ncores) p->ncores = k->units[i].o.program->ncores;
  run_units(k);
  if (k->j->errors == 0 && k->j->o->want_listing) list(k);
}

isa_status as_link(const as_file *files, uint32_t n, const as_options *o, as_result *out) {
  as_options opts = o ? *o : (as_options){0};
  as_job job;
  memset(&job, 0, sizeof job);
  memset(out, 0, sizeof *out);
  /* The result is a program.
   * Extern names are errors now. */
  opts.relocatable = false;
  job.o = &opts;
  job.out = out;
  job.al = opts.alloc ? *opts.alloc : isa_alloc_default();
  isa_arena_init(&job.arena, &job.al);
  isa_arena_init(&out->arena, &job.al);
  isa_buf_init(&out->listing, &job.al);
  isa_buf_init(&out->preprocessed, &job.al);
  isa_buf_init(&out->object, &job.al);
  as_linker k = {
      .j = &job, .n = n, .units = isa_zalloc(&job.al, (n + (size_t)1) * sizeof(as_link_unit))};
  if (k.units)
    run(&k, files);
  else
    job.status = ISA_NOMEM;
  if (job.status == ISA_OK && job.errors) job.status = ISA_SYNTAX;
  if (job.status == ISA_OK) {
    out->program = job.program;
    /* Now it is the result's. */
    job.program = NULL;
  }
  isa_program_free(job.program);
  /* Their patterns and names were copied. */
  for (uint32_t i = 0; k.units && i < n; i++) isa_program_free(k.units[i].o.program);
  isa_free(&job.al, k.units, (n + (size_t)1) * sizeof(as_link_unit));
  as_intern_free(&job);
  isa_arena_free(&job.arena);
  return job.status;
}

/* Objects and programs begin alike; as_object_read tells them apart. */
bool as_is_object(const void *data, size_t n) {
  return n >= 4 && memcmp(data, ISA_IMAGE_MAGIC, 4) == 0;
}
