/* Warnings about the program as a whole: names nothing uses, waits nothing ends, tiles that are
 * read and never written. */
#include "stmt.h"

#include <stdio.h>
#include <string.h>

static void warn_names(as_job *j) {
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind == AS_S_LABEL && !s->used && !s->global && s->name[0] != '.')
      as_warning(j, "unused-label", s->pos, s->span, "nothing refers to the label `%s`", s->name);
    if (s->kind == AS_S_SEM && !s->used)
      as_warning(j, "unused-semaphore", s->pos, s->span, "no instruction names the semaphore `%s`",
                 s->name);
  }
}

/* "`loaded`" or "12" */
static const char *sem_text(as_job *j, unsigned sem, char buf[16]) {
  const char *name = j->program->cores[0].sem_names[sem];
  if (name) return name;
  snprintf(buf, 16, "S[%u]", sem);
  return buf;
}

static void warn_sems(as_job *j) {
  char buf[16];
  for (unsigned s = 0; s < ISA_NSEMS; s++) {
    const as_sem_use *u = &j->unit->sems[s];
    if (u->wait.line && !u->updated)
      as_warning(j, "never-signalled", u->wait, u->wait_span,
                 "nothing updates the semaphore `%s`, so this wait has no end",
                 sem_text(j, s, buf));
    if (u->updated && !u->waited)
      as_warning(j, "never-waited", u->update, u->update_span,
                 "nothing waits for the semaphore `%s`", sem_text(j, s, buf));
  }
}

/* ---- Tiles -------------------------------------------------------------------------------- */

typedef struct tile_use {
  bool read, written;
} tile_use;

typedef struct uses {
  const isa_core *core;
  tile_use *tile; /* by base */
  bool wrote_raw; /* a pattern without a tile is written: it may be any */
} uses;

static void use_ap(uses *u, uint32_t index, uint32_t flags) {
  if (index == 0) return;
  const isa_ap *ap = &u->core->aps[index - 1];
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (ap->dyn[d].kind == ISA_DYN_elem) use_ap(u, ap->dyn[d].ap, AP_R);
  if (ap->index_kind) use_ap(u, ap->index, AP_R);
  if (ap->space == ISA_HBM) return;
  if (ap->base == 0) {
    u->wrote_raw = u->wrote_raw || (flags & AP_W);
    return;
  }
  if (flags & AP_W) u->tile[ap->base].written = true;
  if (flags & AP_R) u->tile[ap->base].read = true;
}

static void use_insn(as_job *j, uses *u, const isa_insn *in) {
  const isa_form *f = isa_form_of(in->op);
  for (unsigned i = 0; i < f->nfields; i++) {
    const isa_field *fd = &f->fields[i];
    const void *m = isa_member_c(in, fd);
    if (fd->kind == ISA_K_AP) {
      use_ap(u, *(const isa_t_AP *)m, fd->arg);
    } else if (fd->kind == ISA_K_NUM) {
      const isa_num *n = m;
      if (n->kind == ISA_NUM_ap) use_ap(u, n->v, AP_R);
    } else if (fd->kind == ISA_K_APS) {
      isa_ref r = *(const isa_ref *)m;
      const uint32_t *aps = isa_program_list(j->program, r, ISA_K_APS);
      for (uint32_t k = 0; aps && k < r.count; k++) use_ap(u, aps[k], fd->arg);
    }
  }
}

static bool *group_mark(as_job *j, const isa_tile *t) {
  return as_sym_mark(j, as_intern(j, t->overlay, strlen(t->overlay)));
}

/* What one tile of an overlay group gets, all of the group have. */
static void mark_groups(as_job *j, const uses *u) {
  const isa_tile *t = j->program->tiles;
  for (uint32_t i = 0; i < j->program->ntiles; i++)
    if (t[i].overlay && u->tile[i + 1].written) *group_mark(j, &t[i]) = true;
}

static void warn_tiles(as_job *j) {
  const isa_program *p = j->program;
  const isa_core *core = &p->cores[0];
  uses u = {.core = core, .tile = as_new(j, ((size_t)p->ntiles + 1) * sizeof *u.tile)};
  for (uint32_t q = 0; q < core->nqueues; q++)
    for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
      use_insn(j, &u, &core->queues[q].statics[i]);
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    for (uint32_t i = 0; i < core->code[e].n; i++) use_insn(j, &u, &core->code[e].insns[i]);
  if (u.wrote_raw) return;
  mark_groups(j, &u);
  for (as_sym *s = as_sym_first(j); s; s = s->next) {
    if (s->kind != AS_S_TILE || !u.tile[s->index].read || u.tile[s->index].written) continue;
    const isa_tile *t = &p->tiles[s->index - 1];
    if (!t->overlay || !*group_mark(j, t))
      as_warning(j, "unwritten-tile", s->pos, s->span, "the tile `%s` is read but never written",
                 s->name);
  }
}

void as_warn_program(as_job *j) {
  warn_names(j);
  warn_sems(j);
  if (j->program->ntiles) warn_tiles(j);
}
