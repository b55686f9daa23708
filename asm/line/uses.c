/* Which instructions use each tile: for warnings, the map of the listing, and errors of the
 * allocator. */
#include "stmt.h"
#include "../../isa/operand.h"

typedef struct walk {
  const isa_program *p;
  const isa_core *core;
  as_uses *u;
  unsigned first;   /* section of the core's first engine */
  unsigned section; /* AS_NSECTIONS: a static transfer */
  uint32_t pc;
} walk;

static void use_tile(walk *w, as_tile_use *t, uint32_t flags) {
  if (flags & AP_W) t->written = true;
  if (flags & AP_R) t->read = true;
  /* A static transfer has no pc: it runs when a trigger says so. */
  if (w->section == AS_NSECTIONS) {
    t->by_static = true;
    return;
  }
  /* 1 + the pc; 0: no use was seen. */
  if (t->in[w->section].first == 0) t->in[w->section].first = w->pc + 1;
  t->in[w->section].last = w->pc + 1;
}

static void use_ap(void *ud, const isa_operand *o) {
  /* Tensors have no place that tiles could need. */
  walk *w = ud;
  if (o->ap->space == ISA_HBM) return;
  if (o->ap->base) {
    use_tile(w, &w->u->tile[o->ap->base], o->flags);
    return;
  }
  /* A pattern by address may be on any tile. */
  w->u->wrote_raw = w->u->wrote_raw || (o->flags & AP_W);
  w->u->read_raw = w->u->read_raw || (o->flags & AP_R);
}

static void use_insn(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  walk *w = ud;
  w->section = engine == ISA_NSEQS ? AS_NSECTIONS : w->first + engine;
  w->pc = pc;
  isa_each_pattern(w->p, w->core, in, use_ap, w);
}

const as_uses *as_uses_of(as_job *j) {
  const isa_program *p = as_program(j);
  as_uses *u = as_new(j, sizeof *u);
  u->tile = as_new(j, ((size_t)p->ntiles + 1) * sizeof *u->tile);
  for (unsigned c = 0; c < p->ncores; c++) {
    walk w = {.p = p, .core = &p->cores[c], .u = u, .first = c * ISA_NSEQS};
    isa_each_insn(w.core, use_insn, &w);
  }
  return u;
}

const char *as_use_text(as_job *j, const as_tile_use *t) {
  isa_buf b;
  isa_buf_init(&b, &j->al);
  if (t->by_static) isa_buf_puts(&b, "static transfers");
  for (unsigned s = 0; s < AS_NSECTIONS; s++) {
    uint32_t first = t->in[s].first, last = t->in[s].last;
    if (first == 0) continue;
    /* Stored plus 1, shown as it is. */
    isa_buf_printf(&b, "%s%s %u", b.len ? ", " : "", as_section_name(j, s), first - 1);
    if (last > first) isa_buf_printf(&b, " to %u", last - 1);
  }
  char *text = b.failed ? NULL : isa_arena_strn(&j->arena, isa_buf_str(&b), b.len);
  isa_buf_free(&b);
  if (!text) as_nomem(j);
  return text;
}
