/* Walks over instructions, and over the memory that they name. */
#include "operand.h"

#include <string.h>

/* What is read of a number in memory: a column, one for each partition; and of an index or an
 * offset: one element. */
enum { COLUMN = AP_R | AP_COL | 1, ELEMENT = AP_R | AP_ELEM | 1 };

typedef struct walk {
  const isa_program *p;
  const isa_core *core;
  isa_operand_fn *fn;
  void *ud;
} walk;

/* One pattern, with what the callers need beside its number. */
static void visit(const walk *w, isa_operand *o, uint32_t index) {
  /* 0: the operand was left out. More than there are: the program has not been verified yet. */
  if (index == 0 || index > w->core->naps) return;
  o->index = index;
  o->ap = &w->core->aps[index - 1];
  w->fn(w->ud, o);
}

/* custom_op and collectives have lists; nth says which of them. */
static void visit_list(const walk *w, uint8_t field, uint32_t flags, isa_ref list) {
  isa_operand o = {.field = field, .via = ISA_VIA_APS, .flags = flags};
  const uint32_t *aps = isa_program_list(w->p, list, ISA_K_APS);
  for (; aps && o.nth < list.count; o.nth++) visit(w, &o, aps[o.nth]);
}

void isa_each_operand(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud) {
  const isa_form *form = isa_form_of(in->op);
  walk w = {p, core, fn, ud};
  /* Only fields that may name memory.
   * The lowest bit that is set is the next such field; then it is cleared. */
  for (unsigned left = form->memory; left; left &= left - 1) {
    uint8_t i = (uint8_t)__builtin_ctz(left);
    const isa_field *f = &form->fields[i];
    const void *m = isa_member_c(in, f);
    const isa_num *n = m;
    if (f->kind == ISA_K_AP) {
      isa_operand o = {.field = i, .flags = f->arg};
      visit(&w, &o, *(const isa_t_AP *)m);
    } else if (f->kind == ISA_K_NUM) {
      if (n->kind != ISA_NUM_ap) continue;
      isa_operand o = {.field = i, .via = ISA_VIA_NUM, .flags = COLUMN};
      visit(&w, &o, n->v);
    } else {
      visit_list(&w, i, f->arg, *(const isa_ref *)m);
    }
  }
}

/* The patterns that a pattern needs come before it: whoever moves or checks them does so first.
 * For these the callers see the index before the operand: it must be read to know where
 * that is. */
static void visit_inner(void *ud, const isa_operand *o) {
  const walk *w = ud;
  isa_operand inner = *o;
  inner.via = ISA_VIA_OFFSET;
  inner.flags = ELEMENT;
  for (unsigned d = 0; d < ISA_MAX_DYN; d++)
    if (o->ap->dyn[d].kind == ISA_DYN_elem) visit(w, &inner, o->ap->dyn[d].ap);
  inner.via = ISA_VIA_INDEX;
  inner.flags = AP_R;
  if (o->ap->index_kind) visit(w, &inner, o->ap->index);
  w->fn(w->ud, o);
}

void isa_each_pattern(const isa_program *p, const isa_core *core, const isa_insn *in,
                      isa_operand_fn *fn, void *ud) {
  walk w = {p, core, fn, ud};
  isa_each_operand(p, core, in, visit_inner, &w);
}

/* CC sequencers' code counts: their transfers touch memory too. */
void isa_each_insn(const isa_core *core, isa_insn_fn *fn, void *ud) {
  for (unsigned e = 0; e < ISA_NSEQS; e++)
    for (uint32_t pc = 0; pc < core->code[e].n; pc++) fn(ud, &core->code[e].insns[pc], e, pc);
  /* Static transfers are in no engine's code. */
  for (uint32_t q = 0; q < core->nqueues; q++)
    for (uint32_t i = 0; i < core->queues[q].nstatics; i++)
      fn(ud, &core->queues[q].statics[i], ISA_NSEQS, i);
}

/* Copies an instruction into another program, whose numbers of patterns are different
 * ones. */
typedef struct take {
  isa_program *to;
  const isa_program *from;
  isa_renumber_fn *fn;
  void *ud;
} take;

/* 0 from fn: out of memory there. */
static bool take_pattern(const take *t, uint32_t *ap) {
  return *ap == 0 || (*ap = t->fn(t->ud, *ap)) != 0;
}

static bool take_list(const take *t, unsigned kind, isa_ref *list) {
  const void *data = isa_program_list(t->from, *list, kind);
  if (list->count == 0 || !data) return true;
  /* Only patterns are numbered by core; all other lists are copied as they are. */
  if (kind != ISA_K_APS)
    return isa_program_pool(t->to, data, list->count, isa_kind_elem[kind], list);
  size_t size = list->count * sizeof(uint32_t);
  /* A copy, since the numbers in it change. */
  uint32_t n = list->count, *aps = isa_zalloc(&t->to->arena.al, size);
  bool ok = aps != NULL;
  if (ok) memcpy(aps, data, size);
  for (uint32_t i = 0; i < n && ok; i++) ok = take_pattern(t, &aps[i]);
  ok = ok && isa_program_pool(t->to, aps, n, sizeof *aps, list);
  isa_free(&t->to->arena.al, aps, size);
  return ok;
}

bool isa_insn_take(isa_program *to, const isa_program *from, isa_insn *in, isa_renumber_fn *fn,
                   void *ud) {
  const isa_form *form = isa_form_of(in->op);
  take t = {to, from, fn, ud};
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    void *m = isa_member(in, f);
    isa_num *n = m;
    if (f->kind == ISA_K_AP && !take_pattern(&t, (isa_t_AP *)m)) return false;
    if (f->kind == ISA_K_NUM && n->kind == ISA_NUM_ap && !take_pattern(&t, &n->v)) return false;
    if (isa_kind_elem[f->kind] && !take_list(&t, f->kind, m)) return false;
  }
  return true;
}

/* dst += src: the destination is read although it is no source. */
bool isa_reads_destination(const isa_insn *in) {
  return in->op == ISA_OP_dma_copy && in->u.DMA_COPY.op != ISA_ALU_bypass;
}

int isa_field_register(const isa_insn *in, const isa_field *f) {
  const void *m = isa_member_c(in, f);
  const isa_int *i = m;
  const isa_num *n = m;
  switch (f->kind) {
  case ISA_K_REG: return *(const isa_t_REG *)m;
  case ISA_K_INT: return i->is_reg ? (int)i->v : -1;
  case ISA_K_NUM: return n->kind == ISA_NUM_reg ? (int)n->v : -1;
  default: return -1;
  }
}

int isa_field_of(unsigned op, unsigned kind, uint32_t arg) {
  const isa_form *form = isa_form_of(op);
  /* A mask says which fields are ENUMs; other kinds are looked for among all. */
  unsigned left = kind == ISA_K_ENUM ? form->enums : (1u << form->nfields) - 1;
  for (; left; left &= left - 1) {
    int i = __builtin_ctz(left);
    const isa_field *f = &form->fields[i];
    bool fits = kind == ISA_K_ENUM ? f->arg == arg : kind != ISA_K_AP || (f->arg & arg);
    if (f->kind == kind && fits) return i;
  }
  return -1;
}

/* By name where forms have the field at different places. */
const isa_field *isa_field_named(unsigned op, const char *name) {
  const isa_form *form = isa_form_of(op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (strcmp(form->fields[i].name, name) == 0) return &form->fields[i];
  return NULL;
}

/* How a matmul meets what is in PSUM; -1: the instruction does not add there. */
int isa_insn_acc(const isa_insn *in) {
  int i = isa_field_of(in->op, ISA_K_ENUM, ISA_SET_ACC);
  return i < 0 ? -1 : *(const isa_t_ENUM *)isa_member_c(in, &isa_form_of(in->op)->fields[i]);
}

/* What an engine keeps between instructions, and whether this one reads or writes it. */
unsigned isa_insn_state(const isa_insn *in, unsigned *access) {
  const isa_state_use *u = &isa_state_uses[in->op];
  int i = u->by_reduce ? isa_field_of(in->op, ISA_K_ENUM, ISA_SET_CMD) : -1;
  bool idle = i >= 0 && *(const isa_t_ENUM *)isa_member_c(in, &isa_form_of(in->op)->fields[i]) ==
                            ISA_CMD_idle;
  /* With reduce=idle the instruction leaves its accumulators alone. */
  *access = idle ? 0 : u->access;
  return idle ? ISA_STATE_none : u->state;
}

/* reciprocal uses a table without naming a function: its cost class says so. */
int isa_insn_table(const isa_insn *in) {
  if (isa_ops[in->op].cost == ISA_COST_RCP) return ISA_FN_reciprocal;
  int i = isa_ops[in->op].cost == ISA_COST_ACT ? isa_field_of(in->op, ISA_K_ACTF, 0) : -1;
  if (i < 0) return -1;
  int fn = *(const isa_t_ACTF *)isa_member_c(in, &isa_form_of(in->op)->fields[i]);
  return isa_actfns[fn].table ? fn : -1;
}

/* psum_zero=...: these bytes count as fresh from then on. */
bool isa_insn_zeroes(const isa_insn *in) {
  int i = isa_field_of(in->op, ISA_K_AP, AP_FREED);
  return i >= 0 && *(const isa_t_AP *)isa_member_c(in, &isa_form_of(in->op)->fields[i]) != 0;
}

bool isa_skips_rows(const isa_insn *in) {
  int i = isa_field_of(in->op, ISA_K_ENUM, ISA_SET_OOB);
  /* Without such a field, the first one: it is not looked at. */
  const isa_field *f = &isa_form_of(in->op)->fields[i < 0 ? 0 : i];
  return i >= 0 && *(const isa_t_ENUM *)isa_member_c(in, f) == ISA_OOB_skip;
}

void isa_barrier_of(const isa_insn *in, unsigned core, isa_barrier *out) {
  uint8_t own = (uint8_t)core, sem = in->u.BARRIER.semaphore;
  /* Each core adds to the other's semaphore, then waits for its own and takes that again. */
  out->give = (isa_update){.kind = ISA_UPD_inc, .core = (uint8_t)(1 - core), .sem = sem};
  out->wait = (isa_wait){.cond = ISA_WAIT_ge, .core = own, .sem = sem, .value = 1};
  out->take = (isa_update){.kind = ISA_UPD_dec, .core = own, .sem = sem};
}

/* sendrecvs of the two cores meet in a pipe, by its number. */
int isa_insn_pipe(const isa_insn *in) {
  switch (in->op) {
  case ISA_OP_sendrecv: return in->u.SENDRECV.pipe;
  case ISA_OP_sendrecv_gpsimd: return in->u.SENDRECV_GPSIMD.pipe;
  default: return -1;
  }
}

/* All forms of a collective have these four, in different places. */
#define COMMON(u) .dsts = (u)->dsts, .stream = (u)->stream, .prio = (u)->prio, .both = (u)->both

static isa_collective of_ring(const isa_insn *in) {
  const struct isa_RING *u = &in->u.RING;
  const struct isa_RING_REDUCE *r = &in->u.RING_REDUCE;
  if (isa_ops[in->op].form == ISA_FORM_RING)
    return (isa_collective){COMMON(u), .srcs = u->srcs, .group = u->group};
  return (isa_collective){COMMON(r), .srcs = r->srcs0, .srcs1 = r->srcs1, .group = r->group,
                          .op = r->op};
}

/* One shape for all of them, so that plans need not know the forms. What a form lacks
 * is 0. */
isa_collective isa_collective_of(const isa_insn *in) {
  const struct isa_COLLECTIVE *u = &in->u.COLLECTIVE;
  const struct isa_COLLECTIVE_V *v = &in->u.COLLECTIVE_V;
  const struct isa_PERMUTE *p = &in->u.PERMUTE;
  switch (isa_ops[in->op].form) {
  case ISA_FORM_COLLECTIVE:
    return (isa_collective){COMMON(u), .srcs = u->srcs, .group = u->group, .op = u->op,
                            .dim = u->dim};
  case ISA_FORM_COLLECTIVE_V:
    return (isa_collective){COMMON(v),
                            .srcs = v->srcs,
                            .group = v->group,
                            .metadata = v->metadata,
                            .counts_known = v->recv_counts_known,
                            .has_rdispls = v->has_rdispls};
  case ISA_FORM_PERMUTE:
    /* -1: the pairs are ranks themselves, so there is no group. */
    return (isa_collective){COMMON(p), .srcs = p->srcs, .pairs = p->pairs, .group = -1};
  default: return of_ring(in);
  }
}

/* The last piece of a transfer over lists signals, so its destination counts. */
uint32_t isa_static_peer(const isa_program *p, const isa_core *c, const isa_insn *in) {
  uint32_t ap = in->op == ISA_OP_dma_copy ? in->u.DMA_COPY.dst : 0;
  if (in->op == ISA_OP_dma_copy_lists) {
    const uint32_t *dsts = isa_program_list(p, in->u.DMA_LISTS.dsts, ISA_K_APS);
    uint32_t n = in->u.DMA_LISTS.dsts.count;
    ap = dsts && n ? dsts[n - 1] : 0;
  }
  return ap && ap <= c->naps ? c->aps[ap - 1].rank : 0;
}

/* The queue of any DMA instruction; -1: it has none. */
int isa_insn_queue(const isa_insn *in) {
  int i = isa_field_of(in->op, ISA_K_QUEUE, 0);
  return i < 0 ? -1 : *(const isa_t_QUEUE *)isa_member_c(in, &isa_form_of(in->op)->fields[i]);
}

/* Where it may jump to; -1: only on to the next. */
int64_t isa_insn_target(const isa_insn *in) {
  int i = isa_field_of(in->op, ISA_K_LABEL, 0);
  if (i < 0) return -1;
  return *(const isa_t_LABEL *)isa_member_c(in, &isa_form_of(in->op)->fields[i]);
}
