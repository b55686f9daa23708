/* Tiles that no instruction needs. */
#include "impl.h"

#include <string.h>

enum { MOST_TILES = 4096 }; /* with more, tiles are not compared with one another */

enum { READ = 1, WRITTEN = 2, OTHER_RESULT = 4 }; /* the last: by what has another result, too */

typedef struct uses {
  const lint *l;
  const isa_core *core;
  uint8_t *tile;     /* [ntiles] */
  bool raw_r, raw_w; /* patterns that name no tile */
  bool has_other;
} uses;

static void note(void *ud, const isa_operand *o) {
  uses *u = ud;
  const isa_ap *ap = o->ap;
  if (ap->space == ISA_HBM) return;
  /* It may be on any tile. */
  if (!ap->base) {
    u->raw_r = u->raw_r || (o->flags & AP_R);
    u->raw_w = u->raw_w || (o->flags & AP_W);
    return;
  }
  if (o->flags & AP_R) u->tile[ap->base - 1] |= READ;
  if (o->flags & AP_W)
    u->tile[ap->base - 1] |= (uint8_t)(WRITTEN | (u->has_other ? OTHER_RESULT : 0));
}

/* Whether an instruction is worth running although one of its outputs is not read: it has
 * another, or leaves something in registers.
 * match_replace8 with dst_idx, say: it may be there for one of the two. */
static bool has_other_result(const isa_insn *in) {
  const isa_form *f = isa_form_of(in->op);
  unsigned outputs = 0;
  for (unsigned i = 0; i < f->nfields; i++) {
    const isa_field *fd = &f->fields[i];
    if (fd->kind == ISA_K_AP && fd->arg & AP_W)
      outputs += *(const isa_t_AP *)isa_member_c(in, fd) != 0;
    /* A list may have several. */
    if (fd->kind == ISA_K_APS) outputs += 2;
    /* It leaves something in registers. */
    if (strcmp(fd->name, "reduce") == 0) return true;
  }
  return outputs > 1;
}

static void note_insn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  uses *u = ud;
  (void)engine, (void)pc;
  u->has_other = has_other_result(in);
  isa_each_pattern(u->l->p, u->core, in, note, u);
}

/* What is read of a tile is read of those that lie on it.
 * An overlay: two names of the same bytes, one written, the other read. */
static void spread(const isa_program *p, uint8_t *tile) {
  for (uint32_t i = 0; i < p->ntiles; i++)
    for (uint32_t k = 0; k < p->ntiles; k++)
      if (i != k && tile[k] & READ && isa_tiles_share(&p->tiles[i], &p->tiles[k])) tile[i] |= READ;
}

static void judge(lint *l, const uses *u) {
  isa_place nowhere = {-1, -1, 0};
  for (uint32_t i = 0; i < l->p->ntiles; i++) {
    const char *name = l->p->tiles[i].name;
    /* A pattern that names no tile may use any. */
    if (u->tile[i] == 0 && !u->raw_r && !u->raw_w)
      isa_lint_add(l, ISA_LINT_unused, nowhere, "no instruction uses the tile `%s`", name);
    /* Exactly written: by no instruction that is also there for another result. */
    else if (u->tile[i] == WRITTEN && !u->raw_r)
      isa_lint_add(l, ISA_LINT_unread, nowhere, "the tile `%s` is written and never read", name);
  }
}

void isa_lint_judge_tiles(lint *l) {
  const isa_program *p = l->p;
  if (p->ntiles == 0 || p->ntiles > MOST_TILES) return;
  uses u = {.l = l, .tile = isa_zalloc(l->al, p->ntiles)};
  if (!u.tile) {
    l->failed = true;
    return;
  }
  /* Both cores have the same tiles. */
  for (unsigned c = 0; c < p->ncores; c++) {
    u.core = &p->cores[c];
    isa_each_insn(u.core, note_insn, &u);
  }
  spread(p, u.tile);
  judge(l, &u);
  isa_free(l->al, u.tile, p->ntiles);
}
