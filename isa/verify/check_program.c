/* The verifier of a whole program: its tables, then every instruction, then what this version
 * cannot run. The program may be hostile; nothing is used before it is bounded. */
#include "../operand.h"
#include "rules.h"

#include <inttypes.h>
#include <string.h>

static bool fail_at(isa_place *at, int core, int engine, uint32_t pc) {
  if (at) *at = (isa_place){.core = core, .engine = engine, .pc = pc};
  return false;
}

/* ---- Tables ------------------------------------------------------------------------------- */

/* A name with a space or a quote would not assemble again, and one with an escape could
 * rewrite a terminal. */
/* Names are printed as source text and used in messages. */
static bool check_name(const char *what, uint32_t i, const char *s, isa_error *e) {
  /* What NASM allows in names, besides letters and digits. */
  static const char extra[] = "_.@$?~#";
  if (!s || !s[0])
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%s %" PRIu32 " has no name", what, i);
  for (const char *p = s; *p; p++) {
    bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || strchr(extra, *p);
    bool digit = *p >= '0' && *p <= '9';
    /* A name does not begin with a digit. */
    if (!letter && (!digit || p == s))
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "the name of %s %" PRIu32 " is not a name: character %d cannot be in one",
                      what, i, (int)(p - s) + 1);
  }
  return true;
}

/* A first dimension that the host gives. */
static bool check_rows(const isa_tensor *t, isa_error *e) {
  /* rows is 1 + a register, so 64 is the last valid one. */
  if (t->rows > ISA_NREGS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s: its first dimension is in r%d, but a sequencer has r0 to r%d",
                    t->name, t->rows - 1, ISA_NREGS - 1);
  if (t->role == ISA_REMOTE)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s: remote, so another rank's host gives it, not this one's",
                    t->name);
  if (t->role == ISA_CONST)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s: const, but its first dimension is given when a run starts",
                    t->name);
  /* The register is signed and holds the size. */
  if (t->shape[0] > INT32_MAX)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s: its first dimension is up to %" PRId64
                    ", but register r%d holds at most 2147483647",
                    t->name, t->shape[0], t->rows - 1);
  return true;
}

/* Hostile: a file may give any shape with any number of bytes. */
static bool check_tensor(const isa_tensor *t, isa_error *e) {
  uint64_t n = 1;
  if (!isa_dtype_valid(t->dtype))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tensor %.60s: no data type has code %d", t->name,
                    t->dtype);
  if (t->role >= ISA_NROLES)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tensor %.60s: no role has code %d", t->name,
                    t->role);
  if (t->ndim == 0 || t->ndim > ISA_TENSOR_DIMS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s has %d dimensions; it must have 1 to %d", t->name, t->ndim,
                    ISA_TENSOR_DIMS);
  if (t->rows && !check_rows(t, e)) return false;
  for (int d = 0; d < t->ndim; d++) {
    if (t->shape[d] < 1)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "tensor %.60s: dimension %d has %" PRId64
                      " elements; it must have at least 1",
                      t->name, d, t->shape[d]);
    /* 8: the most bytes that an element has. */
    if ((uint64_t)t->shape[d] > (uint64_t)INT64_MAX / 8 / n)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tensor %.60s: its size overflows", t->name);
    n *= (uint64_t)t->shape[d];
  }
  /* Only now the product is safe: the loop above has bounded it by int64. */
  n *= isa_dtype_bytes(t->dtype);
  if (n != t->bytes)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tensor %.60s: %" PRIu64 " bytes, but its shape has %" PRIu64, t->name,
                    t->bytes, n);
  /* Weights come with the program; all other tensors come from the host, or are made
   * empty. */
  if ((t->role == ISA_CONST) != (t->data != NULL))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tensor %.60s: %s", t->name,
                    t->data ? "it has data, but is not const" : "it is const, but has no data");
  return true;
}

static bool check_tensors(const isa_program *p, isa_error *e) {
  uint64_t total = 0, hbm = (uint64_t)p->target->hbm_gib << 30;
  for (uint32_t i = 0; i < p->ntensors; i++) {
    if (!check_name("tensor", i + 1, p->tensors[i].name, e) || !check_tensor(&p->tensors[i], e))
      return false;
    /* Its bytes count at that rank, whose program declares the tensor. */
    /* It is in another rank's HBM. */
    if (p->tensors[i].role == ISA_REMOTE) continue;
    /* Not total + bytes > hbm, which could overflow. */
    if (p->tensors[i].bytes > hbm - total)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "tensor %.60s does not fit: %s has %" PRIu32 " GiB of hbm",
                      p->tensors[i].name, p->target->name, p->target->hbm_gib);
    total += p->tensors[i].bytes;
  }
  return true;
}

/* A tile has to lie in its memory as a whole, also where no instruction reaches. */
static bool check_tile_place(const isa_program *p, const isa_tile *t, isa_error *e) {
  /* usable: what programs may use of a partition, a column of targets.def. */
  uint32_t room = t->space == ISA_PSUM ? p->target->psum_bytes : p->target->sbuf_usable;
  if (t->shape[0] == 0 || t->shape[0] > ISA_PMAX || t->part + t->shape[0] > ISA_PMAX)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tile %.60s: %" PRIu32 " partitions from %d on, but a memory has %d", t->name,
                    t->shape[0], t->part, ISA_PMAX);
  if (t->offset > room || t->bytes > room - t->offset)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tile %.60s: bytes %" PRIu32 "..%" PRIu64
                    ", but a %s partition of %s has %" PRIu32,
                    t->name, t->offset, (uint64_t)t->offset + t->bytes - 1,
                    isa_space_name(t->space), p->target->name, room);
  /* So that an element of the tile is an element of the memory's own grid. */
  if (t->offset % isa_dtype_bytes(t->dtype))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tile %.60s: offset %" PRIu32 ", but %s needs a multiple of %u", t->name,
                    t->offset, isa_dtypes[t->dtype].name, isa_dtype_bytes(t->dtype));
  return true;
}

static bool check_tile(const isa_program *p, const isa_tile *t, isa_error *e) {
  if (!isa_dtype_valid(t->dtype))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tile %.60s: no data type has code %d", t->name,
                    t->dtype);
  if (t->space != ISA_SBUF && t->space != ISA_PSUM)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "tile %.60s: a tile must be in sbuf or psum",
                    t->name);
  if (t->ndim == 0 || t->ndim > ISA_TILE_DIMS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tile %.60s has %d dimensions; it must have 1 to %d", t->name, t->ndim,
                    ISA_TILE_DIMS);
  if (!check_tile_place(p, t, e)) return false;
  uint64_t n = isa_dtype_bytes(t->dtype);
  for (int d = 1; d < t->ndim; d++) {
    n *= t->shape[d]; /* below 2^18 before, so no overflow */
    if (t->shape[d] == 0 || n > t->bytes)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "tile %.60s: its shape does not fit in %" PRIu32 " bytes of a partition",
                      t->name, t->bytes);
  }
  /* A tile without free dimensions has one element in each partition. */
  if (n > t->bytes)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "tile %.60s: %" PRIu32 " bytes of a partition, but an element has %" PRIu64,
                    t->name, t->bytes, n);
  return !t->overlay || check_name("the overlay of a tile", 1, t->overlay, e);
}

/* What a queue may be: rings, owner, priority and where its descriptors come from. */
static bool check_queue_row(const isa_program *p, const isa_queue *q, isa_error *e) {
  if (q->rings < 1 || q->rings > p->target->dma)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "queue %.60s: rings=%d; it must be 1 to %u",
                    q->name, q->rings, p->target->dma);
  unsigned owner = isa_queue_owner(q);
  if (owner > ISA_NSEQS || (owner < ISA_NSEQS && owner >= ISA_NENGINES + p->target->cc))
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "queue %.60s: a core of %s has no owner of code %d", q->name, p->target->name,
                    q->owner);
  /* A DGE makes descriptors for an instruction of an engine; a CC sequencer only starts
   * what is there. */
  if (isa_queue_is_cc(q) && q->dge != ISA_DGE_none)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "queue %.60s: owner=%s: a CC sequencer only starts static transfers (dge=none)",
                    q->name, isa_engines[owner].name);
  if (q->prio && p->target->gen < ISA_GEN4)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "queue %.60s: prio=%d needs gen4: %s is gen%d",
                    q->name, q->prio, p->target->name, p->target->gen);
  if (q->prio > 3)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "queue %.60s: prio=%d; it must be 0 to 3", q->name,
                    q->prio);
  /* An owner without the hardware could never use the queue. */
  switch (q->dge) {
  case ISA_DGE_none: return true;
  case ISA_DGE_swdge:
    if (q->owner != ISA_ENG_gpsimd)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "queue %.60s: dge=swdge belongs to gpsimd",
                      q->name);
    break;
  case ISA_DGE_hwdge:
    if (!p->target->hwdge)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "queue %.60s: dge=hwdge, but %s has no hardware DGE", q->name,
                      p->target->name);
    if (q->owner != ISA_ENG_sync && q->owner != ISA_ENG_scalar)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "queue %.60s: dge=hwdge belongs to sync or scalar", q->name);
    break;
  default:
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "queue %.60s: no dge has code %d", q->name,
                    q->dge);
  }
  /* Static transfers are descriptors in memory; a DGE makes its own when the
   * instruction issues. */
  if (q->nstatics)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "queue %.60s: static transfers, but dge=%s makes its own", q->name,
                    isa_set_item(ISA_SET_DGE, q->dge));
  return true;
}

static bool check_symbol(const isa_program *p, uint32_t i, isa_error *e) {
  const isa_symbol *s = &p->symbols[i];
  if (!check_name("symbol", i + 1, s->name, e)) return false;
  if (s->core >= p->ncores || s->engine >= ISA_NSEQS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "symbol %.60s: no engine %d of core %d", s->name,
                    s->engine, s->core);
  /* One past the last instruction is a label at the end. */
  if (s->pc > p->cores[s->core].code[s->engine].n)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "symbol %.60s: pc %" PRIu32 ", but section %s has %" PRIu32 " instructions",
                    s->name, s->pc, isa_engines[s->engine].name,
                    p->cores[s->core].code[s->engine].n);
  return true;
}

static bool check_groups(const isa_program *p, isa_error *e) {
  if (p->ngroups > ISA_MAX_GROUPS)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu32 " replica groups: at most %d",
                    p->ngroups, ISA_MAX_GROUPS);
  for (uint32_t i = 0; i < p->ngroups; i++) {
    isa_error why = {0};
    if (!check_name("group", i + 1, p->groups[i].name, e)) return false;
    if (!isa_check_group(&p->groups[i], &why))
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "group %.60s: %.300s", p->groups[i].name,
                      why.text);
  }
  return true;
}

/* A peer is written in one way only, so that equal ones are equal bytes: unused fields
 * are 0. */
static bool check_peers(const isa_program *p, isa_error *e) {
  for (uint32_t i = 0; i < p->npeers; i++) {
    const isa_peer *r = &p->peers[i];
    bool of_group = r->how != ISA_PEER_rank;
    bool neighbour = r->how == ISA_PEER_next || r->how == ISA_PEER_prev;
    if (r->how >= ISA_NPEERS || of_group != (r->group != 0) || r->group > p->ngroups ||
        (neighbour && r->value) || r->value >= ISA_MAX_RANKS)
      return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                      "peer %" PRIu32 ": kind %d of group %" PRIu32 " with %" PRIu32
                      ": the program has %" PRIu32 " groups",
                      i + 1, r->how, r->group, r->value, p->ngroups);
  }
  return true;
}

static bool check_tables(const isa_program *p, isa_error *e) {
  if (!p->target) return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "the program has no target");
  if (p->ncores == 0 || p->ncores > ISA_MAX_CORES)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu32 " cores: 1 or 2", p->ncores);
  /* Two cores act as one from gen3 on (LNC 2). */
  if (p->ncores > 1 && p->target->gen < ISA_GEN3)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu32 " cores as one need gen3: %s is gen%d",
                    p->ncores, p->target->name, p->target->gen);
  /* Tensors, tiles, groups, peers, then symbols, as later ones refer to earlier ones. */
  if (!check_tensors(p, e)) return false;
  for (uint32_t i = 0; i < p->ntiles; i++)
    if (!check_name("tile", i + 1, p->tiles[i].name, e) || !check_tile(p, &p->tiles[i], e))
      return false;
  if (!check_groups(p, e) || !check_peers(p, e)) return false;
  for (uint32_t i = 0; i < p->nsymbols; i++)
    if (!check_symbol(p, i, e)) return false;
  return true;
}

/* ---- What is known but not built ---------------------------------------------------------- */

/* ISA_UNBUILT tells it from a mistake: the program is right, this version is not
 * complete. */
static bool unbuilt(const isa_ck *c, const char *what) {
  return isa_fail(c->e, ISA_UNBUILT, ISA_NOFIELD, "%s is known but not built in this version",
                  what);
}

static bool built(const isa_ck *c) {
  if (c->row->status != ISA_DONE) return unbuilt(c, c->row->name);
  return true;
}

/* ---- Code --------------------------------------------------------------------------------- */

static isa_ck context(const isa_program *p, uint32_t core, unsigned engine, const isa_insn *in,
                      isa_error *e) {
  return (isa_ck){.p = p,
                  .core = &p->cores[core],
                  .engine = engine,
                  .in = in,
                  .row = &isa_ops[in->op],
                  .form = isa_form_of(in->op),
                  .e = e};
}

static bool check_one(const isa_program *p, uint32_t core, unsigned engine, const isa_insn *in,
                      uint32_t code_n, isa_error *e) {
  if (!isa_check_insn(p, core, engine, in, code_n, e)) return false;
  isa_ck c = context(p, core, engine, in, e);
  return built(&c);
}

/* A static transfer: a DMA instruction on its own queue, without clauses. */
static bool check_static(const isa_program *p, uint32_t core, uint32_t q, const isa_insn *in,
                         isa_error *e) {
  const isa_queue *row = &p->cores[core].queues[q];
  /* One that any engine may start is checked as sync's. */
  unsigned owner = isa_queue_owner(row), engine = owner < ISA_NSEQS ? owner : ISA_ENG_sync;
  /* A sendrecv has a queue too, but half of it is the other core's. */
  int own = isa_insn_pipe(in) < 0 ? isa_ck_dma_queue(in) : -1;
  if (own < 0)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "queue %.60s: %s is not a static transfer (dma_copy, dma_transpose, "
                    "dma_compute, dma_copy_lists)",
                    row->name, in->op < ISA_NOPS ? isa_ops[in->op].name : "?");
  if (own != (int)q)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "queue %.60s: its static transfer names queue %d, but this is queue %" PRIu32,
                    row->name, own, q);
  /* Its completion is counted by the dma_trigger that starts it. */
  if (in->wait.cond || in->upd.kind)
    return isa_fail(
        e, ISA_ILLEGAL, ISA_NOFIELD,
        "queue %.60s: a static transfer has no wait and no update; its dma_trigger has them",
        row->name);
  return check_one(p, core, engine, in, 0, e);
}

/* Static transfers are of the queue; code only starts them. Those of a sendrecv, which two cores
 * have in common, are in no list. */
static bool check_made_here(const isa_program *p, uint32_t core, const isa_insn *in, isa_error *e) {
  /* The generic checks have bounded the queue's number. */
  int q = isa_insn_pipe(in) < 0 ? isa_ck_dma_queue(in) : -1;
  if (q < 0 || p->cores[core].queues[q].dge != ISA_DGE_none) return true;
  return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                  "queue %.60s has dge=none: its transfers are made at load, and dma_trigger "
                  "starts them",
                  p->cores[core].queues[q].name);
}

static bool check_code(const isa_program *p, uint32_t core, unsigned engine, isa_place *at,
                       isa_error *e) {
  const isa_code *code = &p->cores[core].code[engine];
  for (uint32_t pc = 0; pc < code->n; pc++)
    /* check_one comes first: it bounds the opcode and the queue that check_made_here
     * looks up. */
    if (!check_one(p, core, engine, &code->insns[pc], code->n, e) ||
        !check_made_here(p, core, &code->insns[pc], e))
      return fail_at(at, (int)core, (int)engine, pc);
  if (code->n == 0) return true;
  /* The code of a CC sequencer ends with its last block. */
  /* Without an end the sequencer would run into bytes that are no instructions. */
  if (engine < ISA_NENGINES && !isa_op_ends(code->insns[code->n - 1].op)) {
    isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
             "falls off the end of section %s: the last instruction must be halt, jmp or ret",
             isa_engines[engine].name);
    return fail_at(at, (int)core, (int)engine, code->n - 1);
  }
  return true;
}

/* The barriers of a semaphore are those of one engine: another engine's would take what the first
 * one waits for. */
static bool check_barriers(const isa_program *p, uint32_t core, isa_place *at, isa_error *e) {
  const isa_core *c = &p->cores[core];
  uint8_t owner[ISA_NSEMS] = {0}; /* 1 + engine */
  for (unsigned g = 0; g < ISA_NENGINES; g++)
    for (uint32_t pc = 0; pc < c->code[g].n; pc++) {
      const isa_insn *in = &c->code[g].insns[pc];
      /* Only names are kept in the program; the number is always valid, as it has one
       * byte. */
      if (in->op != ISA_OP_core_barrier) continue;
      uint8_t sem = in->u.BARRIER.semaphore;
      /* The first engine to use it owns it. */
      if (!owner[sem]) owner[sem] = (uint8_t)(g + 1);
      if (owner[sem] == g + 1) continue;
      isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
               "semaphore %.60s belongs to the core_barriers of %s: %s needs one of its own",
               c->sem_names[sem] ? c->sem_names[sem] : "?", isa_engines[owner[sem] - 1].name,
               isa_engines[g].name);
      return fail_at(at, (int)core, (int)g, pc);
    }
  return true;
}

static bool check_queues(const isa_program *p, uint32_t core, isa_place *at, isa_error *e) {
  const isa_core *c = &p->cores[core];
  uint32_t n = 0, most = ISA_MAX_QUEUES - ISA_ENGINE_QUEUES;
  for (uint32_t q = 0; q < c->nqueues && q < ISA_MAX_QUEUES; q++)
    n += isa_queue_is_cc(&c->queues[q]);
  if (c->nqueues - n > ISA_ENGINE_QUEUES)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD, "%" PRIu32 " queues: a core has at most %d",
                    c->nqueues - n, ISA_ENGINE_QUEUES);
  if (n > most)
    return isa_fail(e, ISA_ILLEGAL, ISA_NOFIELD,
                    "%" PRIu32 " queues of CC sequencers: a core has at most %" PRIu32, n, most);
  /* CC sequencers have queues of their own kind: the two limits are counted apart. */
  for (uint32_t q = 0; q < c->nqueues; q++) {
    const isa_queue *row = &c->queues[q];
    if (!check_name("queue", q + 1, row->name, e) || !check_queue_row(p, row, e)) return false;
    for (uint32_t i = 0; i < row->nstatics; i++)
      if (!check_static(p, core, q, &row->statics[i], e)) return fail_at(at, (int)core, -1, i);
  }
  return true;
}

static bool check_core(const isa_program *p, uint32_t core, isa_place *at, isa_error *e) {
  const isa_core *c = &p->cores[core];
  /* Should a table of the core be at fault, the place is the core as a whole. */
  fail_at(at, (int)core, -1, 0);
  for (uint32_t s = 0; s < ISA_NSEMS; s++)
    if (c->sem_names[s] && !check_name("semaphore", s, c->sem_names[s], e)) return false;
  for (uint32_t i = 1; i <= c->naps; i++) {
    isa_error why = {0};
    if (!isa_check_ap(p, core, i, &why))
      return isa_fail(e, why.status, ISA_NOFIELD, "pattern %" PRIu32 ": %.400s", i, why.text);
  }
  if (!check_queues(p, core, at, e)) return false;
  /* CC sections first: what is wrong with a block is clearer than its consequence in an
   * engine. */
  for (unsigned g = ISA_NENGINES; g < ISA_NSEQS; g++)
    if (!isa_ck_blocks(p, core, g, at, e) || !check_code(p, core, g, at, e)) return false;
  for (unsigned g = 0; g < ISA_NENGINES; g++)
    if (!check_code(p, core, g, at, e)) return false;
  return check_barriers(p, core, at, e);
}

bool isa_check_program(const isa_program *p, isa_place *at, isa_error *e) {
  fail_at(at, -1, -1, 0);
  if (!check_tables(p, e)) return false;
  for (uint32_t core = 0; core < p->ncores; core++)
    if (!check_core(p, core, at, e)) return false;
  return true;
}
