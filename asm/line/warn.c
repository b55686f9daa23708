/* Warnings about the program as a whole: names nothing uses, waits nothing ends, tiles that are
 * read and never written. */
#include "stmt.h"

#include <stdio.h>
#include <string.h>

/* Other objects use what is global, and define what is extern. */
static bool shared(const as_sym *s) { return s->global || s->external; }

static bool same_line(as_pos a, as_pos b) { return a.line && a.line == b.line && a.file == b.file; }

/* Whether a label is core 1's copy of one that a `core=*` section gives core 0. */
static bool is_copy(as_job *j, const as_sym *s) {
  const as_sym *first =
      s->scope > ISA_NSEQS ? as_sym_find(j, s->name, s->scope - (unsigned)ISA_NSEQS) : NULL;
  return first && same_line(first->pos, s->pos);
}

static void warn_names(as_job *j) {
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind == AS_S_LABEL && !s->used && !shared(s) && s->name[0] != '.' && !is_copy(j, s))
      as_warning(j, "unused-label", s->pos, s->span, "nothing refers to the label `%s`", s->name);
    /* A shared name may be updated or waited for elsewhere. */
    for (unsigned c = 0; c < ISA_MAX_CORES && s->kind == AS_S_SEM && shared(s); c++)
      if (s->core == c || s->core == AS_BOTH) j->unit->sems[c][s->index].shared = true;
    if (s->kind == AS_S_SEM && !s->used && !shared(s))
      as_warning(j, "unused-semaphore", s->pos, s->span, "no instruction names the semaphore `%s`",
                 s->name);
    if (s->kind == AS_S_QUEUE && !s->used && !shared(s))
      as_warning(j, "unused-queue", s->pos, s->span, "no instruction names the queue `%s`",
                 s->name);
  }
}

/* "`loaded`" or "12" */
static const char *sem_text(as_job *j, unsigned core, unsigned sem, char buf[16]) {
  const char *name = j->program->cores[core].sem_names[sem];
  if (name) return name;
  snprintf(buf, 16, "S[%u]", sem);
  return buf;
}

static void warn_sems(as_job *j, unsigned core) {
  char buf[16];
  for (unsigned s = 0; s < ISA_NSEMS; s++) {
    const as_sem_use *u = &j->unit->sems[core][s];
    if (u->shared) continue;
    const as_sem_use *other = &j->unit->sems[0][s];
    /* A line of a section of both cores is reported once. */
    bool said = core && (same_line(u->wait, other->wait) || same_line(u->update, other->update));
    if (said && u->updated == other->updated && u->waited == other->waited) continue;
    if (u->wait.line && !u->updated)
      as_warning(j, "never-signalled", u->wait, u->wait_span,
                 "nothing updates the semaphore `%s`, so this wait never ends",
                 sem_text(j, core, s, buf));
    if (u->updated && !u->waited)
      as_warning(j, "never-waited", u->update, u->update_span,
                 "nothing waits for the semaphore `%s`", sem_text(j, core, s, buf));
  }
}

/* ---- Tiles -------------------------------------------------------------------------------- */

static bool *group_mark(as_job *j, const isa_tile *t) {
  return as_sym_mark(j, as_intern(j, t->overlay, strlen(t->overlay)));
}

/* What one tile of an overlay group gets, all of the group have. */
static void mark_groups(as_job *j, const as_uses *u) {
  const isa_tile *t = j->program->tiles;
  for (uint32_t i = 0; i < j->program->ntiles; i++)
    if (t[i].overlay && u->tile[i + 1].written) *group_mark(j, &t[i]) = true;
}

/* A name in an expression is a use as well: it may be an address. */
static void warn_tile(as_job *j, const as_sym *s, const as_uses *u) {
  const isa_tile *t = &j->program->tiles[s->index - 1];
  as_tile_use use = u->tile[s->index];
  bool grouped = t->overlay != NULL;
  if (!s->used)
    as_warning(j, "unused-tile", s->pos, s->span, "no instruction names the tile `%s`", s->name);
  else if (use.read && !use.written && !u->wrote_raw && !(grouped && *group_mark(j, t)))
    as_warning(j, "unwritten-tile", s->pos, s->span, "the tile `%s` is read but never written",
               s->name);
  else if (use.written && !use.read && !u->read_raw && !grouped)
    as_warning(j, "unread-tile", s->pos, s->span, "the tile `%s` is written but never read",
               s->name);
}

static void warn_tiles(as_job *j) {
  const as_uses *u = as_uses_of(j);
  mark_groups(j, u);
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind == AS_S_TILE && !shared(s)) warn_tile(j, s, u);
  }
}

void as_warn_program(as_job *j) {
  warn_names(j);
  for (unsigned core = 0; core < j->program->ncores; core++) warn_sems(j, core);
  if (j->program->ntiles) warn_tiles(j);
}
