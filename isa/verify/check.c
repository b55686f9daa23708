/* The verifier of one instruction: engine and generation, every field by its kind, the semaphore
 * clauses, the operands against each other, then the rule of its class. check_program.c applies it
 * to a program. */
#include "rules.h"
#include "../operand.h"

#include <inttypes.h>
#include <stdio.h>

static const isa_rule_fn rules[ISA_NRULES] = {
#define RULE(id, function, types, lines) isa_rule_##function,
#include "../rules.def"
};

bool isa_rule_fields(const isa_ck *c) {
  (void)c;
  return true;
}

/* ---- Where an instruction may stand ------------------------------------------------------- */

/* "vector, scalar" for a mask of two: a message then says where the instruction may
 * stand. */
void isa_ck_engines(unsigned mask, char *out, size_t n) {
  size_t at = 0;
  out[0] = 0;
  for (unsigned i = 0; i < ISA_NSEQS && at < n; i++)
    if (mask & (1u << i))
      at += (size_t)snprintf(out + at, n - at, "%s%s", at ? ", " : "", isa_engines[i].name);
}

static bool check_place(const isa_ck *c) {
  char names[64];
  /* The tables have room for three CC sequencers: trn1 has cc0 to cc2, trn2 only two of
   * them. */
  if (c->engine >= ISA_NENGINES + c->p->target->cc)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "no %s: a core of %s has %" PRIu32 " CC sequencers",
                    isa_engines[c->engine].name, c->p->target->name, c->p->target->cc);
  if (!(c->row->engines & (1u << c->engine))) {
    isa_ck_engines(c->row->engines, names, sizeof names);
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "%s is not an instruction of the %s engine: %s",
                    c->row->name, isa_engines[c->engine].name, names);
  }
  /* After the engine: a wrong section is the more likely mistake. */
  if (c->p->target->gen < c->row->gen)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "%s needs gen%d: %s is gen%d", c->row->name,
                    c->row->gen, c->p->target->name, c->p->target->gen);
  return true;
}

/* ---- Semaphores --------------------------------------------------------------------------- */

static bool check_wait(const isa_ck *c) {
  const isa_wait *w = &c->in->wait;
  if (w->cond == ISA_WAIT_none) return true;
  /* Such a code can only come from a file or a caller in C: the text has no word for
   * it. */
  if (w->cond >= ISA_NCONDS)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "unknown condition %d of a wait", w->cond);
  if (w->core >= ISA_MAX_CORES)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "a wait on core %d: a logical core has 0 and 1",
                    w->core);
  /* A sequencer sees only the semaphores of its own core; the other core can update them. */
  if (w->core != c->core - c->p->cores)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "a wait must be on a semaphore of its own core, %d; let core %d update one of "
                    "those",
                    (int)(c->core - c->p->cores), w->core);
  if (w->is_reg && w->value >= ISA_NREGS)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "a wait compares with register r%" PRIu32 ": a sequencer has r0 to r%d",
                    w->value, ISA_NREGS - 1);
  if (!w->is_reg && w->value > ISA_SEM_MAX)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "a wait compares with %" PRIu32 ": a semaphore has at most %d", w->value,
                    ISA_SEM_MAX);
  return true;
}

/* `$came.rank[dst]`: at the rank that each transfer writes. */
static bool check_each_pushes(const isa_ck *c) {
  /* The transfers say which rank each of them writes, so the semaphore's rank need not
   * be named: it is that of each transfer. Every transfer in the trigger's range must
   * then write some rank. */
  const isa_core *core = c->core;
  if (c->in->op != ISA_OP_dma_trigger)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update at .rank[dst]: only a dma_trigger has transfers that write ranks");
  if (c->in->u.TRIGGER.queue >= core->nqueues) return true; /* another rule tells */
  const isa_queue *q = &core->queues[c->in->u.TRIGGER.queue];
  uint32_t i, end = isa_trigger_range(c->in, q->nstatics, &i);
  for (; i < end; i++) {
    if (isa_static_peer(c->p, core, &q->statics[i])) continue;
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update at .rank[dst]: transfer %" PRIu32 " of queue %.60s writes no "
                    "other rank",
                    i + 1, q->name);
  }
  return true;
}

/* An update of a semaphore of another rank. */
static bool check_peer_update(const isa_ck *c) {
  const isa_update *u = &c->in->upd;
  /* An engine has no link to other ranks: it asks its CC sequencer by a collective. */
  if (c->engine < ISA_NENGINES)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update of another rank's semaphore: only a CC sequencer reaches other "
                    "ranks, in a section cc0, cc1 ...");
  /* 0 stands for .rank[dst]; else it is a 1-based index of the table of peers. */
  if (u->value == 0) return check_each_pushes(c);
  if (u->value > c->p->npeers)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update at peer %" PRIu32 ": the program has %" PRIu32, u->value,
                    c->p->npeers);
  /* @read tells when a source may be overwritten, which the other rank cannot care
   * about; and a transfer that a queue makes has its update from the queue, not from
   * the sequencer. */
  if (u->at_read || (isa_op_is_dma(c->in->op) && c->in->op != ISA_OP_dma_trigger))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update of another rank's semaphore comes when the instruction completes");
  return true;
}

static bool check_update(const isa_ck *c) {
  /* What kinds of update fit what kinds of line: a DMA counts its 16 engines, others
   * add, subtract or set. */
  const isa_update *u = &c->in->upd;
  unsigned op = c->in->op;
  bool dma = isa_op_is_dma(op);
  if (u->kind == ISA_UPD_none) return true;
  if (u->kind >= ISA_NUPDS)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD, "unknown kind %d of an update", u->kind);
  if (u->core >= ISA_MAX_CORES)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update on core %d: a logical core has 0 and 1", u->core);
  if (u->core >= c->p->ncores)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update on core %d: the program has %" PRIu32 " core%s", u->core,
                    c->p->ncores, c->p->ncores == 1 ? "" : "s");
  /* Before the rules for a DMA: `value` is a peer there, not what is added. */
  if (u->kind == ISA_UPD_peer) return check_peer_update(c);
  if (dma && u->kind != ISA_UPD_dma)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "%s: the update of a DMA line is its completion semaphore, a bare $name",
                    c->row->name);
  if (!dma && u->kind == ISA_UPD_dma)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "%s has no completion semaphore: only DMA lines have one; use $name++",
                    c->row->name);
  if (u->value > ISA_SEM_MAX)
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "an update by %" PRIu32 ": a semaphore has at most %d", u->value, ISA_SEM_MAX);
  /* @read comes when the sources have been read, long before a result is written. Only
   * a data path tells the two moments apart. */
  if (u->at_read && (dma || isa_op_is_control(op)))
    return isa_fail(c->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "@read: %s does not run in a data path; its update comes when it completes",
                    c->row->name);
  return true;
}

/* ---- Fields ------------------------------------------------------------------------------- */

static bool check_reg(const isa_ck *c, int f, int64_t r) {
  if (r < 0 || r >= ISA_NREGS)
    return isa_fail(c->e, ISA_ILLEGAL, f, "register r%" PRId64 ": a sequencer has r0 to r%d", r,
                    ISA_NREGS - 1);
  return true;
}

static bool missing(const isa_ck *c, int f) {
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s is missing: %s needs it", c->form->fields[f].name,
                  c->row->name);
}

static bool check_num(const isa_ck *c, int f, const isa_field *fd, isa_num n) {
  /* No form says which kinds of number a field takes: the class's rule refuses what its
   * engine lacks. */
  switch (n.kind) {
  case ISA_NUM_none: return fd->mode == ISA_MODE_D || missing(c, f);
  case ISA_NUM_imm: return true;
  case ISA_NUM_reg: return check_reg(c, f, n.v);
  /* A vector [P, 1]: a number for each partition, at any depth of dimensions of 1. */
  case ISA_NUM_ap:
    return isa_ck_operand(c, f, n.v, AP_R | AP_S | AP_M | AP_COL | (ISA_MAX_DIMS - 1));
  default: return isa_fail(c->e, ISA_ILLEGAL, f, "unknown kind %d of number", n.kind);
  }
}

static bool check_range(const isa_ck *c, int f, uint64_t v, uint64_t most) {
  if (v > most) return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu64 ": at most %" PRIu64, v, most);
  return true;
}

static bool check_enum(const isa_ck *c, int f, unsigned set, unsigned item) {
  if (!isa_set_item(set, item))
    return isa_fail(c->e, ISA_ILLEGAL, f, "no %s has code %u", isa_set_name(set), item);
  return true;
}

static bool check_alu(const isa_ck *c, int f, unsigned op) {
  if (op >= ISA_NALUOPS) return isa_fail(c->e, ISA_ILLEGAL, f, "no operator has code %u", op);
  if (c->p->target->gen < isa_aluops[op].gen)
    return isa_fail(c->e, ISA_ILLEGAL, f, "the operator %s needs gen%d: %s is gen%d",
                    isa_aluops[op].name, isa_aluops[op].gen, c->p->target->name, c->p->target->gen);
  return true;
}

static bool check_actf(const isa_ck *c, int f, unsigned fn) {
  if (fn >= ISA_NACTFNS)
    return isa_fail(c->e, ISA_ILLEGAL, f, "no activation function has code %u", fn);
  if (c->p->target->gen < isa_actfns[fn].gen)
    return isa_fail(c->e, ISA_ILLEGAL, f, "the function %s needs gen%d: %s is gen%d",
                    isa_actfns[fn].name, isa_actfns[fn].gen, c->p->target->name, c->p->target->gen);
  return true;
}

static bool check_label(const isa_ck *c, int f, uint32_t to) {
  /* 0: how many there will be is not known. */
  /* While code is being recorded or assembled, labels may still lie ahead. */
  if (c->code_n && to >= c->code_n)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "target %" PRIu32 ": section %s has %" PRIu32 " instructions", to,
                    isa_engines[c->engine].name, c->code_n);
  return true;
}

/* A queue that this engine may use, whatever its descriptors come from. */
static bool check_queue(const isa_ck *c, int f, unsigned q) {
  if (q >= c->core->nqueues)
    return isa_fail(c->e, ISA_ILLEGAL, f, "no queue %u: the core has %" PRIu32, q,
                    c->core->nqueues);
  const isa_queue *row = &c->core->queues[q];
  /* ISA_NSEQS: any engine may use it. */
  unsigned owner = isa_queue_owner(row);
  if (owner < ISA_NSEQS && owner != c->engine)
    return isa_fail(c->e, ISA_ILLEGAL, f, "queue %.60s belongs to %s%s%s, not to %s", row->name,
                    owner < ISA_NENGINES ? "the " : "", isa_engines[owner].name,
                    owner < ISA_NENGINES ? " engine" : "", isa_engines[c->engine].name);
  /* A queue that any engine may use is not for CC sequencers: they run beside the engines
   * and share no queue with them. */
  if (owner == ISA_NSEQS && c->engine >= ISA_NENGINES)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "queue %.60s belongs to the engines: a CC sequencer needs one with owner=%s",
                    row->name, isa_engines[c->engine].name);
  if (row->dge == ISA_DGE_hwdge && !c->p->target->hwdge)
    return isa_fail(c->e, ISA_ILLEGAL, f, "queue %.60s has dge=hwdge: %s has no hardware DGE",
                    row->name, c->p->target->name);
  /* The hardware that makes descriptors serves these two engines; gpsimd makes its own
   * in software. */
  if (row->dge == ISA_DGE_hwdge && c->engine != ISA_ENG_sync && c->engine != ISA_ENG_scalar)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "queue %.60s has dge=hwdge: only sync and scalar can use it", row->name);
  if (row->dge == ISA_DGE_swdge && c->engine != ISA_ENG_gpsimd)
    return isa_fail(c->e, ISA_ILLEGAL, f, "queue %.60s has dge=swdge: only gpsimd can use it",
                    row->name);
  return true;
}

static bool check_group(const isa_ck *c, int f, unsigned g) {
  if (g < c->p->ngroups) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "no replica groups %u: the program has %" PRIu32, g,
                  c->p->ngroups);
}

/* A collective of an engine of this core; where it is may not be known yet. */
static bool check_point(const isa_ck *c, int f, isa_point at) {
  if (at.engine >= ISA_NENGINES)
    return isa_fail(c->e, ISA_ILLEGAL, f, "no engine has number %d", at.engine);
  const isa_code *code = &c->core->code[at.engine];
  /* Sections may still grow: the collective is perhaps not there yet. */
  if (c->code_n == 0) return true;
  if (at.pc >= code->n)
    return isa_fail(c->e, ISA_ILLEGAL, f, "pc %" PRIu32 ": section %s has %" PRIu32 " instructions",
                    at.pc, isa_engines[at.engine].name, code->n);
  if (isa_op_is_collective(code->insns[at.pc].op)) return true;
  return isa_fail(c->e, ISA_ILLEGAL, f, "%s pc %" PRIu32 " is %s, not a collective",
                  isa_engines[at.engine].name, at.pc,
                  code->insns[at.pc].op < ISA_NOPS ? isa_ops[code->insns[at.pc].op].name : "?");
}

/* Longest lists: the form's number where it is a length, else what the VM's operands hold. */
static uint32_t list_limit(const isa_field *fd) {
  /* 4096: no name or text needs more, and a hostile file cannot make a message of
   * megabytes. */
  switch (fd->kind) {
  case ISA_K_STR: return 4096;
  case ISA_K_APS: return 16;
  default: return fd->arg;
  }
}

static bool check_list(const isa_ck *c, int f, const isa_field *fd, isa_ref r) {
  const void *data = isa_program_list(c->p, r, fd->kind);
  /* An empty text is a text; an empty list is a field that was left out. */
  if (r.count == 0 && fd->kind != ISA_K_STR) return fd->mode == ISA_MODE_D || missing(c, f);
  if (!data)
    return isa_fail(c->e, ISA_ILLEGAL, f,
                    "the list is outside of the pool (%" PRIu32 " at %" PRIu32 ")", r.count,
                    r.offset);
  if (r.count > list_limit(fd))
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu32 " items: at most %" PRIu32, r.count,
                    list_limit(fd));
  /* A list with a fixed length, such as the 32 partitions of a shuffle's mask. */
  if (fd->kind == ISA_K_BYTES && r.count != fd->arg)
    return isa_fail(c->e, ISA_ILLEGAL, f, "%" PRIu32 " items: there must be %" PRIu32, r.count,
                    fd->arg);
  for (uint32_t i = 0; i < r.count; i++) {
    if (fd->kind == ISA_K_APS && !isa_ck_operand(c, f, ((const uint32_t *)data)[i], fd->arg))
      return false;
    if (fd->kind != ISA_K_STEPS) continue;
    uint32_t num = ((const isa_step *)data)[i].num;
    /* 16 bits, like the sizes of a pattern in SBUF, which these numbers describe. */
    if (num == 0 || num > UINT16_MAX)
      return isa_fail(c->e, ISA_ILLEGAL, f,
                      "dimension %" PRIu32 " has %" PRIu32 " elements: 1 to 65535", i, num);
  }
  return true;
}

static bool check_field(const isa_ck *c, int f) {
  const isa_field *fd = &c->form->fields[f];
  const void *m = isa_member_c(c->in, fd);
  switch (fd->kind) {
  case ISA_K_REG: return check_reg(c, f, *(const isa_t_REG *)m);
  case ISA_K_INT: {
    /* An immediate may be any 32 bits. */
    /* Its register flag is a byte of its own, so a number cannot be taken for a
     * register. */
    isa_int v = *(const isa_int *)m;
    return !v.is_reg || check_reg(c, f, v.v);
  }
  case ISA_K_NUM: return check_num(c, f, fd, *(const isa_num *)m);
  case ISA_K_AP: {
    uint32_t index = *(const isa_t_AP *)m;
    if (index == 0) return fd->mode == ISA_MODE_D || missing(c, f);
    return isa_ck_operand(c, f, index, fd->arg);
  }
  case ISA_K_U8: return check_range(c, f, *(const isa_t_U8 *)m, fd->arg);
  case ISA_K_U16: return check_range(c, f, *(const isa_t_U16 *)m, fd->arg);
  case ISA_K_U32: return check_range(c, f, *(const isa_t_U32 *)m, fd->arg);
  case ISA_K_I32: return true;
  case ISA_K_ENUM: return check_enum(c, f, fd->arg, *(const isa_t_ENUM *)m);
  case ISA_K_ALU: return check_alu(c, f, *(const isa_t_ALU *)m);
  case ISA_K_ACTF: return check_actf(c, f, *(const isa_t_ACTF *)m);
  case ISA_K_LABEL: return check_label(c, f, *(const isa_t_LABEL *)m);
  case ISA_K_QUEUE: return check_queue(c, f, *(const isa_t_QUEUE *)m);
  case ISA_K_SEM: return true; /* each number of a byte is a semaphore */
  case ISA_K_GROUP: return check_group(c, f, *(const isa_t_GROUP *)m);
  case ISA_K_PLACE: return check_point(c, f, *(const isa_point *)m);
  default: return check_list(c, f, fd, *(const isa_ref *)m);
  }
}

/* ---- Operands against each other ---------------------------------------------------------- */

/* Pattern index of a field that reads or writes memory, 0 when it has none. */
static uint32_t pattern_of(const isa_ck *c, int f) {
  const isa_field *fd = &c->form->fields[f];
  const void *m = isa_member_c(c->in, fd);
  if (fd->kind == ISA_K_AP) return *(const isa_t_AP *)m;
  if (fd->kind == ISA_K_NUM && ((const isa_num *)m)->kind == ISA_NUM_ap)
    return ((const isa_num *)m)->v;
  return 0;
}

static bool writes(const isa_ck *c, int f) {
  const isa_field *fd = &c->form->fields[f];
  return fd->kind == ISA_K_AP && (fd->arg & AP_W);
}

/* Whether the distance of two patterns is known here: neither moves, or both by the same. */
static bool move_alike(const isa_ap *a, const isa_ap *b) {
  for (int i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *x = &a->dyn[i], *y = &b->dyn[i];
    if (x->kind != y->kind || x->reg != y->reg || x->ap != y->ap || x->stride != y->stride)
      return false;
    /* Equal strides of types of different size are different distances in bytes. */
    if (x->kind && isa_dtype_bytes(a->dtype) != isa_dtype_bytes(b->dtype)) return false;
  }
  return !a->index_kind && !b->index_kind;
}

/* A destination is a source exactly in place or shares no byte with it. Where the distance is a
 * matter of registers, it is the VM's check. */
static bool check_overlap(const isa_ck *c, int w, int r) {
  const isa_ap *a = isa_ck_ap(c, pattern_of(c, w)), *b = isa_ck_ap(c, pattern_of(c, r));
  /* Tensors in HBM are apart from one another; tiles may share bytes, so SBUF is
   * compared by address. */
  if (a->space != b->space || (a->space == ISA_HBM && a->base != b->base)) return true;
  if (!move_alike(a, b) || isa_ap_overlap(a, b) != 1) return true;
  return isa_fail(c->e, ISA_ILLEGAL, w,
                  "overlaps %s: a destination must have exactly the elements of a source or share "
                  "no byte with it",
                  c->form->fields[r].name);
}

static bool check_pairs(const isa_ck *c) {
  int first = -1;
  /* The first operand is most often the destination: vectors go by its partitions. */
  for (int f = 0; f < c->form->nfields; f++) {
    uint32_t index = pattern_of(c, f);
    if (!index) continue;
    if (first < 0) first = f;
    /* Vectors have the partitions of the first operand. */
    if (c->form->fields[f].kind == ISA_K_NUM && !isa_ck_agree_parts(c, f, first)) return false;
    if (!writes(c, f)) continue;
    for (int r = 0; r < c->form->nfields; r++)
      if (pattern_of(c, r) && !writes(c, r) && !check_overlap(c, f, r)) return false;
  }
  return true;
}

static bool check_insn(const isa_ck *c) {
  if (!check_place(c) || !check_wait(c) || !check_update(c)) return false;
  /* Fields first: what follows uses their indices without asking again. */
  for (int f = 0; f < c->form->nfields; f++)
    if (!check_field(c, f)) return false;
  if (!check_pairs(c) || !isa_ck_indirect(c)) return false;
  return rules[c->row->rule](c);
}

bool isa_check_insn(const isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                    /* The two numbers with which the tables are indexed; all other
                     * rules may then use them. */
                    uint32_t code_n, isa_error *e) {
  if (core >= p->ncores || engine >= ISA_NSEQS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no engine %u of core %u", engine, core);
  if (in->op >= ISA_NOPS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "no instruction has number %d", in->op);
  isa_ck c = {.p = p,
              .core = &p->cores[core],
              .engine = engine,
              .code_n = code_n,
              .in = in,
              .row = &isa_ops[in->op],
              .form = isa_form_of(in->op),
              .e = e};
  return check_insn(&c);
}
