/* Which instructions use each tile: for warnings, the map of the listing, and errors of the
 * allocator. */
#include "stmt.h"

#include <string.h>

typedef struct walk {
  const isa_core *core;
  as_uses *u;
  unsigned section; /* AS_NSECTIONS: a static transfer */
  uint32_t pc;
} walk;

static void use_tile(walk *w, as_tile_use *t, uint32_t flags) {
  if (flags & AP_W) t->written = true;
  if (flags & AP_R) t->read = true;
  if (w->section == AS_NSECTIONS) {
    t->by_static = true;
    return;
  }
  if (t->in[w->section].first == 0) t->in[w->section].first = w->pc + 1;
  t->in[w->section].last = w->pc + 1;
}

static void use_ap(walk *w, uint32_t index, uint32_t flags) {
  if (index == 0) return;
  const isa_ap *ap = &w->core->aps[index - 1];
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (ap->dyn[d].kind == ISA_DYN_elem) use_ap(w, ap->dyn[d].ap, AP_R);
  if (ap->index_kind) use_ap(w, ap->index, AP_R);
  if (ap->space == ISA_HBM) return;
  if (ap->base) {
    use_tile(w, &w->u->tile[ap->base], flags);
    return;
  }
  w->u->wrote_raw = w->u->wrote_raw || (flags & AP_W);
  w->u->read_raw = w->u->read_raw || (flags & AP_R);
}

static void use_insn(const as_job *j, walk *w, const isa_insn *in) {
  const isa_form *f = isa_form_of(in->op);
  for (unsigned i = 0; i < f->nfields; i++) {
    const isa_field *fd = &f->fields[i];
    const void *m = isa_member_c(in, fd);
    if (fd->kind == ISA_K_AP) {
      use_ap(w, *(const isa_t_AP *)m, fd->arg);
    } else if (fd->kind == ISA_K_NUM) {
      const isa_num *n = m;
      if (n->kind == ISA_NUM_ap) use_ap(w, n->v, AP_R);
    } else if (fd->kind == ISA_K_APS) {
      isa_ref r = *(const isa_ref *)m;
      const uint32_t *aps = isa_program_list(j->program, r, ISA_K_APS);
      for (uint32_t k = 0; aps && k < r.count; k++) use_ap(w, aps[k], fd->arg);
    }
  }
}

const as_uses *as_uses_of(as_job *j) {
  const isa_program *p = as_program(j);
  as_uses *u = as_new(j, sizeof *u);
  u->tile = as_new(j, ((size_t)p->ntiles + 1) * sizeof *u->tile);
  for (unsigned c = 0; c < p->ncores; c++) {
    const isa_core *core = &p->cores[c];
    walk w = {.core = core, .u = u, .section = AS_NSECTIONS};
    for (uint32_t q = 0; q < core->nqueues; q++)
      for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
        use_insn(j, &w, &core->queues[q].statics[i]);
    for (unsigned e = 0; e < ISA_NENGINES; e++) {
      w.section = c * ISA_NENGINES + e;
      for (w.pc = 0; w.pc < core->code[e].n; w.pc++) use_insn(j, &w, &core->code[e].insns[w.pc]);
    }
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
    isa_buf_printf(&b, "%s%s %u", b.len ? ", " : "", as_section_name(j, s), first - 1);
    if (last > first) isa_buf_printf(&b, " to %u", last - 1);
  }
  char *text = b.failed ? NULL : isa_arena_strn(&j->arena, isa_buf_str(&b), b.len);
  isa_buf_free(&b);
  if (!text) as_nomem(j);
  return text;
}
