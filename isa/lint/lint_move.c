/* Patterns that registers move: where they lie while the registers are known, and those that leave
 * their tile or tensor. */
#include "impl.h"
#include "../bounds.h"

static bool goes_by_register(const isa_ap *ap) {
  bool moves = ap->size_dim != 0;
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) moves |= ap->dyn[i].kind == ISA_DYN_reg;
  return moves;
}

static void note_moving(void *ud, const isa_operand *o) {
  bool *moves = ud;
  *moves = *moves || goes_by_register(o->ap);
}

bool isa_lint_moves(const lint *l, const lint_stream *s, const isa_insn *in) {
  bool moves = false;
  isa_each_pattern(l->p, &l->p->cores[s->core], in, note_moving, &moves);
  return moves;
}

/* What the registers of s make of a pattern. */
typedef struct moved {
  isa_ap ap; /* with its size */
  int64_t by[ISA_MAX_DYN], offset;
  uint32_t size;
  bool large;    /* the size is above its bound */
  bool overflow; /* an offset is */
} moved;

/* False when a part of it is not known. */
static bool move(const lint_stream *s, const isa_ap *ap, moved *m) {
  *m = (moved){.ap = *ap, .offset = ap->offset};
  if (ap->size_dim) {
    if (!(s->known >> ap->size_reg & 1)) return false;
    m->size = s->regs[ap->size_reg];
    m->large = !isa_ap_resize(&m->ap, m->size);
  }
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *d = &ap->dyn[i];
    if (d->kind == ISA_DYN_none) continue;
    /* An element in memory is not known. */
    if (d->kind != ISA_DYN_reg || !(s->known >> d->reg & 1)) return false;
    m->by[i] = (int32_t)s->regs[d->reg];
    m->overflow = m->overflow || !isa_ap_move(ap, d, m->by[i], &m->offset);
  }
  return true;
}

static bool is_empty(const isa_ap *ap) {
  return isa_ap_elems(ap) == 0 || (ap->space != ISA_HBM && ap->nparts == 0);
}

bool isa_lint_still(const lint *l, const lint_stream *s, const isa_ap *ap, isa_ap *out) {
  moved m;
  isa_bounds b;
  if (!move(s, ap, &m) || m.large || m.overflow) return false;
  /* An empty pattern lies anywhere. */
  if (!is_empty(&m.ap) && !isa_ap_stays(l->p, &m.ap, m.offset, &b)) return false;
  *out = m.ap;
  out->offset = m.offset;
  /* Nothing of it moves any more. */
  out->size_dim = out->size_reg = 0;
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) out->dyn[i] = (isa_dyn){0};
  return true;
}

/* ---- Bounds -------------------------------------------------------------------------------- */

typedef struct judge {
  lint *l;
  const lint_stream *s;
  bool found;
} judge;

static void put_round(const judge *k, isa_buf *out) {
  char place[LINT_NAME];
  isa_loop loop;
  isa_place at = isa_lint_here(k->s);
  /* Outside of a loop there are no rounds. */
  if (!isa_loop_around(k->s->code, k->s->pc, &loop)) return;
  at.pc = loop.head;
  isa_buf_printf(out, " (round %u%s of the loop at %s)", k->s->count[k->s->pc],
                 loop.nested ? " in all" : "", isa_lint_place(k->l, at, place));
}

static void check_bounds(void *ud, const isa_operand *o) {
  judge *k = ud;
  isa_bounds b;
  moved m;
  isa_buf text;
  if (k->found || !goes_by_register(o->ap) || !move(k->s, o->ap, &m) || m.overflow) return;
  if (!m.large && (is_empty(&m.ap) || isa_ap_stays(k->l->p, &m.ap, m.offset, &b))) return;
  k->found = true;
  isa_buf_init(&text, k->l->al);
  if (m.large)
    isa_buf_printf(&text, "the size r%u is %d, outside its bound 0..%u", o->ap->size_reg,
                   (int32_t)m.size, isa_ap_most(o->ap));
  else
    isa_put_bounds(k->l->p, k->s->core, o->index, m.size, m.by, &b, &text);
  put_round(k, &text);
  isa_lint_add(k->l, ISA_LINT_bounds, isa_lint_here(k->s), "%s", isa_buf_str(&text));
  k->l->failed = k->l->failed || text.failed;
  isa_buf_free(&text);
}

bool isa_lint_leaves(lint *l, const lint_stream *s, const isa_insn *in) {
  /* A transfer that skips rows leaves nothing. */
  judge k = {l, s, isa_skips_rows(in)};
  isa_each_pattern(l->p, &l->p->cores[s->core], in, check_bounds, &k);
  return k.found && !isa_skips_rows(in);
}
