/* A program as a list: its engines are followed in an order that its semaphores allow, loops
 * unrolled, registers as the numbers that they hold. Who computes goes first and who loads last, so
 * that the list loads what is needed next. A program that decides by what memory holds has no such
 * list. */
#include "impl.h"

#include "../isa/bounds.h"
#include "../isa/flow.h"
#include "../isa/operand.h"

#include <inttypes.h>

enum { MOST_STEPS = 1 << 22 };
#define REFUSED "the tiles of this program cannot be spilled: "

typedef struct importer {
  as_kernel *k;
  const isa_program *p;
  const isa_core *core;
  uint32_t *tiles, *tensors, *files; /* of the kernel, by the program's numbers */
  uint32_t queues[ISA_MAX_QUEUES];
  uint32_t sems[ISA_NSEMS];
  struct {
    uint32_t pc, regs[ISA_NREGS];
    bool halted;
  } seq[ISA_NENGINES];
  isa_line at; /* of the instruction that is followed */
} importer;

static bool refuse(importer *m, const char *what) {
  return as_k_fail(m->k, ISA_UNBUILT, m->at, REFUSED "%s", what);
}

/* ---- Declarations -------------------------------------------------------------------------- */

static bool take_tensors(importer *m) {
  for (uint32_t i = 0; i < m->p->ntensors; i++)
    if (!as_kernel_tensor(m->k, &m->p->tensors[i], &m->tensors[i])) return false;
  return true;
}

static bool take_tiles(importer *m) {
  for (uint32_t i = 0; i < m->p->ntiles; i++) {
    const isa_tile *t = &m->p->tiles[i];
    as_kernel_tile tile = {.name = t->name,
                           .space = t->space,
                           .dtype = t->dtype,
                           .ndim = t->ndim,
                           .part = t->part,
                           .offset = -1};
    memcpy(tile.shape, t->shape, sizeof tile.shape);
    if (!as_kernel_tile_new(m->k, &tile, &m->tiles[i])) return false;
    if (t->overlay)
      return as_k_fail(m->k, ISA_UNBUILT, (isa_line){0},
                       REFUSED "tile %.60s shares bytes with others (overlay=%.60s)", t->name,
                       t->overlay);
  }
  return true;
}

static bool take_queues(importer *m) {
  for (uint32_t i = 0; i < m->core->nqueues; i++) {
    const isa_queue *q = &m->core->queues[i];
    if (q->dge == ISA_DGE_none)
      return as_k_fail(m->k, ISA_UNBUILT, (isa_line){0}, REFUSED "queue %.60s is static", q->name);
    if (!as_kernel_queue(m->k, q->dge, q->owner, q->prio, &m->queues[i])) return false;
  }
  return true;
}

/* ---- Operands ------------------------------------------------------------------------------ */

static uint32_t value(const importer *m, unsigned e, isa_int v) {
  return v.is_reg ? m->seq[e].regs[v.v] : (uint32_t)v.v;
}

static bool operand(importer *m, unsigned e, uint32_t *number);

/* What moves it: registers are numbers now, elements and index vectors stay. */
static bool moved(importer *m, unsigned e, const isa_ap *ap, as_k_operand *o) {
  as_kernel *k = m->k;
  as_k_dyn d = {.index_kind = ap->index_kind, .index_dim = ap->index_dim, .index = ap->index};
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *from = &ap->dyn[i];
    if (from->kind == ISA_DYN_reg) /* by a number of elements */
      o->offset +=
          (int32_t)m->seq[e].regs[from->reg] * from->stride * (int64_t)isa_dtype_bytes(ap->dtype);
    if (from->kind != ISA_DYN_elem) continue;
    if (d.kind) return refuse(m, "the place of an operand depends on two elements of memory");
    d.kind = ISA_DYN_elem;
    d.stride = from->stride;
    d.elem = from->ap;
  }
  if (!d.kind && !d.index_kind) return true;
  if ((d.kind && !operand(m, e, &d.elem)) || (d.index_kind && !operand(m, e, &d.index)))
    return false;
  if (!K_GROW(k, dyns, ndyns, cap_dyns)) return false;
  k->dyns[k->ndyns] = d;
  o->dyn = ++k->ndyns;
  return true;
}

/* A pattern of the program becomes an operand. */
static bool operand(importer *m, unsigned e, uint32_t *number) {
  as_kernel *k = m->k;
  if (!*number) return true;
  isa_ap ap = m->core->aps[*number - 1];
  if (!ap.base) return refuse(m, "an operand names an address, not a tile");
  bool hbm = ap.space == ISA_HBM;
  as_k_operand o = {.buffer = hbm ? m->tensors[ap.base - 1] : m->tiles[ap.base - 1],
                    .part = (uint8_t)ap.part,
                    .nparts = (uint8_t)ap.nparts,
                    .space = ap.space,
                    .offset = ap.offset - (hbm ? 0 : (int64_t)m->p->tiles[ap.base - 1].offset)};
  if (ap.size_dim) {
    uint32_t size = m->seq[e].regs[ap.size_reg];
    if (size == 0 || !isa_ap_resize(&ap, size))
      return as_k_fail(k, ISA_ILLEGAL, m->at,
                       "an operand's size is %" PRIu32 "; it must be 1 to %" PRIu32, size,
                       isa_ap_most(&ap));
    o.nparts = (uint8_t)ap.nparts;
  }
  if (!moved(m, e, &ap, &o)) return false;
  o.shape = as_k_find_shape(k, ap.dtype, ap.ndim, ap.dim);
  uint64_t *at = o.shape ? as_k_take_units(k, sizeof o / 8, number) : NULL;
  if (at) memcpy(at, &o, sizeof o);
  return at != NULL;
}

static bool operands(importer *m, unsigned e, isa_ref *list) {
  enum { MOST = 16 };
  uint32_t numbers[MOST] = {0}, to;
  const void *from = isa_program_list(m->p, *list, ISA_K_APS);
  if (list->count == 0) return true;
  if (!from || list->count > MOST) return refuse(m, "a list of operands is too long");
  memcpy(numbers, from, list->count * sizeof *numbers);
  for (uint32_t i = 0; i < list->count; i++)
    if (!operand(m, e, &numbers[i])) return false;
  uint64_t *at = as_k_take_units(m->k, (list->count + 1) / 2, &to);
  if (!at) return false;
  memcpy(at, numbers, list->count * sizeof *numbers);
  list->offset = to;
  return true;
}

static bool group(importer *m, isa_t_GROUP *g) {
  uint32_t number;
  if (!as_kernel_group(m->k, &m->p->groups[*g], &number)) return false;
  *g = (isa_t_GROUP)(number - 1);
  return true;
}

static bool field(importer *m, unsigned e, const isa_field *f, as_k_draft *d) {
  void *v = isa_member(&d->in, f);
  isa_num *num = v;
  isa_int *i = v;
  switch (f->kind) {
  case ISA_K_AP: return operand(m, e, v);
  case ISA_K_APS: return operands(m, e, v);
  case ISA_K_NUM:
    if (num->kind == ISA_NUM_ap) return operand(m, e, &num->v);
    if (num->kind == ISA_NUM_reg) *num = (isa_num){ISA_NUM_imm, m->seq[e].regs[num->v]};
    return true;
  case ISA_K_INT: *i = (isa_int){false, (int32_t)value(m, e, *i)}; return true;
  case ISA_K_REG: return refuse(m, "an instruction moves a register to or from memory");
  case ISA_K_QUEUE: d->it.queue = (uint16_t)m->queues[*(isa_t_QUEUE *)v]; return true;
  case ISA_K_GROUP: return group(m, v);
  default: break;
  }
  if (!isa_kind_elem[f->kind]) return true;
  isa_ref *list = v;
  const void *data = list->count ? isa_program_list(m->p, *list, f->kind) : NULL;
  return !list->count ||
         (data &&
          isa_program_pool(m->k->scratch, data, list->count, isa_kind_elem[f->kind], list)) ||
         as_k_nomem(m->k);
}

static bool take_item(importer *m, unsigned e, const isa_insn *in) {
  as_k_draft d = {.it = {.engine = (uint8_t)e, .at = m->at}, .in = *in};
  as_k_key key = {.n = 0};
  const isa_form *form = isa_form_of(in->op);
  memset(&d.in.wait, 0, sizeof d.in.wait);
  memset(&d.in.upd, 0, sizeof d.in.upd);
  if (!as_kernel_takes(in->op)) return refuse(m, isa_ops[in->op].name);
  for (unsigned i = 0; i < form->nfields; i++)
    if (!field(m, e, &form->fields[i], &d)) return false;
  return as_k_verify(m->k, &d, &key) && as_k_add_item(m->k, &d.it);
}

/* ---- Sequencers ---------------------------------------------------------------------------- */

static bool holds(const importer *m, unsigned e, const isa_wait *w) {
  uint32_t have = m->sems[w->sem], want = w->is_reg ? m->seq[e].regs[w->value] : w->value;
  return isa_cond_holds(w->cond, have, want);
}

static void update(importer *m, const isa_update *u, uint32_t rings) {
  uint32_t *s = &m->sems[u->sem];
  switch (u->kind) {
  case ISA_UPD_inc: *s += 1; break;
  case ISA_UPD_dec: *s -= 1; break;
  case ISA_UPD_add: *s += u->value; break;
  case ISA_UPD_sub: *s -= u->value; break;
  case ISA_UPD_write: *s = u->value; break;
  case ISA_UPD_dma: *s += rings; break;
  default: break;
  }
}

static uint32_t rings_of(const importer *m, const isa_insn *in) {
  int i = isa_op_is_dma(in->op) ? isa_field_of(in->op, ISA_K_QUEUE, 0) : -1;
  if (i < 0) return 0;
  const isa_field *f = &isa_form_of(in->op)->fields[i];
  return m->core->queues[*(const isa_t_QUEUE *)isa_member_c(in, f)].rings;
}

static bool go_back(importer *m, unsigned e, uint32_t to) {
  uint32_t n = m->core->code[e].n;
  m->seq[e].pc = to;
  return to < n || as_k_fail(m->k, ISA_ILLEGAL, m->at,
                             "ret to pc %" PRIu32 ", but section %s has %" PRIu32 " instructions",
                             to, isa_engines[e].name, n);
}

/* An instruction of the sequencer alone; the pc is past it already. */
static bool control(importer *m, unsigned e, const isa_insn *in) {
  uint32_t *regs = m->seq[e].regs, *pc = &m->seq[e].pc, result;
  switch (in->op) {
  case ISA_OP_nop:
  case ISA_OP_drain:
  case ISA_OP_event_semaphore: return true;
  case ISA_OP_halt: return m->seq[e].halted = true;
  case ISA_OP_jmp: *pc = in->u.JUMP.to; return true;
  case ISA_OP_call:
    regs[in->u.CALL.rd] = *pc;
    *pc = in->u.CALL.to;
    return true;
  case ISA_OP_ret: return go_back(m, e, regs[in->u.REG.r]);
  case ISA_OP_sem_range_clear:
    for (unsigned s = 0; s < in->u.SEM_RANGE.count && in->u.SEM_RANGE.first + s < ISA_NSEMS; s++)
      m->sems[in->u.SEM_RANGE.first + s] = 0;
    return true;
  default: break;
  }
  if (isa_insn_target(in) >= 0) {
    if (isa_branch_taken(in->op, regs[in->u.BRANCH.ra], value(m, e, in->u.BRANCH.b)))
      *pc = in->u.BRANCH.to;
    return true;
  }
  if (isa_ops[in->op].runs != ISA_RUNS_REG) return take_item(m, e, in);
  bool move = isa_ops[in->op].form == ISA_FORM_MOV;
  uint32_t a = move ? 0 : regs[in->u.REGALU.ra];
  uint32_t b = value(m, e, move ? in->u.MOV.a : in->u.REGALU.b);
  if (!isa_reg_alu(in->op, a, b, &result)) return take_item(m, e, in);
  regs[move ? in->u.MOV.rd : in->u.REGALU.rd] = result;
  return true;
}

/* The next instruction of an engine, which becomes the one that is followed. */
static const isa_insn *look_at(importer *m, unsigned e) {
  const isa_code *code = &m->core->code[e];
  isa_line at = code->lines ? code->lines[m->seq[e].pc] : (isa_line){0};
  m->at = (isa_line){.file = at.file ? m->files[at.file - 1] : 0, .line = at.line};
  return &code->insns[m->seq[e].pc];
}

static bool step(importer *m, unsigned e) {
  const isa_insn *in = look_at(m, e);
  m->seq[e].pc++;
  bool ok = isa_op_is_control(in->op) ? control(m, e, in) : take_item(m, e, in);
  if (ok) update(m, &in->upd, rings_of(m, in));
  return ok;
}

/* The engine that goes on: who computes before who loads; ISA_NENGINES when none can. */
static unsigned next_engine(importer *m) {
  /* Engines in the order of their numbers: tensor first, sync, which loads, last. */
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const isa_code *code = &m->core->code[e];
    m->seq[e].halted = m->seq[e].halted || m->seq[e].pc >= code->n;
    if (!m->seq[e].halted && holds(m, e, &code->insns[m->seq[e].pc].wait)) return e;
  }
  return ISA_NENGINES;
}

static bool follow(importer *m) {
  for (uint32_t steps = 0; steps < MOST_STEPS; steps++) {
    unsigned e = next_engine(m);
    if (e < ISA_NENGINES) {
      if (!step(m, e)) return false;
      continue;
    }
    for (e = 0; e < ISA_NENGINES && m->seq[e].halted;) e++;
    if (e == ISA_NENGINES) return true;
    const isa_insn *in = look_at(m, e);
    return as_k_fail(m->k, ISA_ILLEGAL, m->at, "%s: %s waits for ever", isa_ops[in->op].name,
                     isa_engines[e].name);
  }
  return as_k_fail(m->k, ISA_LIMIT, m->at, REFUSED "it has not ended after %d instructions",
                   MOST_STEPS);
}

bool as_kernel_import(as_kernel *k, const isa_program *p) {
  importer *m = isa_zalloc(&k->al, sizeof *m);
  size_t tiles = (size_t)p->ntiles + 1, tensors = (size_t)p->ntensors + 1;
  size_t files = (size_t)p->nfiles + 1;
  if (!m) return as_k_nomem(k);
  *m = (importer){.k = k, .p = p, .core = &p->cores[0]};
  m->tiles = isa_zalloc(&k->al, tiles * sizeof *m->tiles);
  m->tensors = isa_zalloc(&k->al, tensors * sizeof *m->tensors);
  m->files = isa_zalloc(&k->al, files * sizeof *m->files);
  bool ok = (m->tiles && m->tensors && m->files) || as_k_nomem(k);
  if (ok && p->ncores > 1) ok = refuse(m, "it is for two cores");
  if (ok && isa_program_rows(p)) ok = refuse(m, "the host gives the first dimension of a tensor");
  for (uint32_t i = 0; i < p->nfiles && ok; i++) ok = as_kernel_file(k, p->files[i], &m->files[i]);
  ok = ok && take_tensors(m) && take_tiles(m) && take_queues(m) && follow(m);
  isa_free(&k->al, m->tiles, tiles * sizeof *m->tiles);
  isa_free(&k->al, m->tensors, tensors * sizeof *m->tensors);
  isa_free(&k->al, m->files, files * sizeof *m->files);
  isa_free(&k->al, m, sizeof *m);
  return ok;
}
