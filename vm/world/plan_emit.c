/* The planner: steps become instructions and static transfers of a CC sequencer. */
#include "plan_emit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIST = 16 /* patterns of a dma_copy_lists */ };

bool cc_no_memory(cc_emitter *m) {
  return isa_fail(m->e, ISA_NOMEM, ISA_NOFIELD, "no memory for the program of a CC sequencer");
}

/* ---- Instructions ------------------------------------------------------------------------- */

bool cc_add(cc_emitter *m, const isa_insn *in) {
  return isa_program_insn(m->out, m->x->core, ISA_NENGINES + m->k, in, m->at) || cc_no_memory(m);
}

static bool block(cc_emitter *m, uint16_t op) {
  isa_insn in = {.op = op};
  in.u.BLOCK.of = (isa_point){.engine = m->x->engine, .pc = m->x->pc};
  return cc_add(m, &in);
}

static bool wait_for(cc_emitter *m, uint32_t sem, uint32_t count) {
  isa_insn in = {.op = ISA_OP_event_semaphore};
  /* What nothing was pushed for needs no wait. */
  if (count == 0) return true;
  in.wait =
      (isa_wait){.cond = ISA_WAIT_ge, .core = m->x->core, .sem = (uint8_t)sem, .value = count};
  /* The wait takes away what it waited for, so that the next round counts from 0. */
  in.upd =
      (isa_update){.kind = ISA_UPD_sub, .core = m->x->core, .sem = (uint8_t)sem, .value = count};
  return cc_add(m, &in);
}

static bool settle(cc_emitter *m) {
  uint32_t n = m->moving;
  m->moving = 0;
  /* A transfer raises its semaphore once a ring. */
  return wait_for(m, cc_sem_done(m->p, m->k), n * m->p->rings);
}

static uint32_t sem_of(const cc_emitter *m, uint32_t sem) {
  uint32_t ready = m->steps->ready;
  /* The first ones say that a receiver is ready, the others that a push has come. */
  if (sem >= ready) return cc_sem_from(m->p, m->k, sem - ready);
  return m->p->spare[m->ready + m->k * ready + sem];
}

/* The number of a peer in the program's table; 0 after a failure. */
uint32_t cc_slot_of(cc_emitter *m, uint32_t peer) {
  isa_peer q = {.how = ISA_PEER_rank, .value = cc_peer(m->x, peer)};
  uint32_t slot = isa_program_peer(m->out, &q);
  if (!slot)
    isa_fail(m->e, ISA_NOMEM, ISA_NOFIELD, "no room for rank %" PRIu32 " among a program's peers",
             q.value);
  return slot;
}

static bool tell_ready(cc_emitter *m, const vm_cc_step *st) {
  isa_insn in = {.op = ISA_OP_nop};
  uint32_t slot = cc_slot_of(m, st->peer);
  in.upd = (isa_update){
      .kind = ISA_UPD_peer, .core = m->x->core, .sem = (uint8_t)sem_of(m, st->sem), .value = slot};
  /* With places of its own it says where, and by that that it is ready. */
  if (slot && m->x->placed) return cc_tell_place(m, st, in.upd);
  return slot && cc_add(m, &in);
}

/* Starts the static transfers of a queue from `first` on. */
bool cc_start(cc_emitter *m, unsigned queue, uint32_t first, isa_update upd) {
  isa_insn in = {.op = ISA_OP_dma_trigger, .upd = upd};
  const isa_queue *q = &m->out->cores[m->x->core].queues[queue];
  in.u.TRIGGER.queue = (uint8_t)queue;
  /* first counts from 1. */
  in.u.TRIGGER.first = first + 1;
  in.u.TRIGGER.count.v = (int32_t)(q->nstatics - first);
  return cc_add(m, &in);
}

/* ---- Operands ----------------------------------------------------------------------------- */

/* Elements of block b of an operand, from *from on. */
static uint64_t block_of(const cc_emitter *m, uint32_t operand, uint32_t b, uint64_t *from) {
  const cc_call *x = m->x;
  uint64_t n = cc_elems(cc_ap(m->p, m->rank, x, x->src[operand]));
  uint32_t blocks = vm_cc_blocks(&m->part.shape);
  /* A gathered block is the whole operand of one rank. */
  if (x->does == VM_CC_ALL_GATHER) {
    *from = b * n;
    return n;
  }
  /* Blocks are nearly equal: begin b is n * b / blocks, in two parts so that it fits in 64 bits. */
  *from = n / blocks * b + n % blocks * b / blocks;
  b++;
  return n / blocks * b + n % blocks * b / blocks - *from;
}

/* So many of n elements in `of` parts are in `count` parts from part i on, which begin at *from. */
static uint64_t part_of(uint64_t n, uint64_t of, uint64_t i, uint64_t count, uint64_t *from) {
  uint64_t next = i + count;
  *from = n / of * i + n % of * i / of;
  return n / of * next + n % of * next / of - *from;
}

/* What a step is about: so many elements, from *from on in its block; if slices are of the whole
 * operand, in that. */
static uint64_t data_of(const cc_emitter *m, const vm_cc_step *st, uint32_t operand,
                        uint64_t *from) {
  uint64_t slices = m->part.nslices, n = block_of(m, operand, st->block, from);
  /* The slice of the operand first, then the blocks in it. */
  if (!m->part.shape.whole) return part_of(n, slices, st->slice, 1, from);
  uint64_t at, all = cc_elems(cc_ap(m->p, m->rank, m->x, m->x->src[operand]));
  all = part_of(all, slices, st->slice, 1, &at);
  n = part_of(all, vm_cc_blocks(&m->part.shape), st->block, st->more + 1u, from);
  *from += at;
  return n;
}

static uint64_t elems_of(const cc_emitter *m, const vm_cc_step *st, uint32_t operand) {
  uint64_t at;
  return data_of(m, st, operand, &at);
}

/* Where the scratch memory of blocks of an operand begins, in bytes. */
static uint64_t landing(const cc_emitter *m, uint32_t operand, uint32_t b, uint32_t blocks) {
  uint64_t before = 0, all = 0;
  /* Operands land one after another, block by block. */
  for (uint32_t i = m->part.first; i < m->part.first + m->part.n; i++) {
    uint64_t bytes = cc_land_bytes(m->p, m->rank, m->x, &m->part, i);
    if (i < operand) before += bytes;
    all += bytes;
  }
  return m->landed + b * all + blocks * before;
}

/* Where elements are: those of `ap` from `from` on. */
typedef struct place {
  isa_ap ap;
  uint64_t from;
} place;

/* Columns of block b of a dst that is gathered along its free dimension. */
static bool columns(cc_emitter *m, uint32_t b, uint64_t n, isa_ap *ap) {
  isa_ap_merge(ap, ap);
  if (ap->ndim != 1)
    return isa_fail(m->e, ISA_ILLEGAL, ISA_NOFIELD,
                    "%s with dim=1: the elements of a partition of dst must have one step",
                    isa_ops[m->x->op].name);
  /* Columns of this block: as many as the operand has in a partition. */
  ap->dim[0].num = (uint32_t)(n / ap->nparts);
  ap->offset += (int64_t)b * ap->dim[0].num * ap->dim[0].step * (int64_t)isa_dtype_bytes(ap->dtype);
  return true;
}

/* A tensor of another rank's program, by its name. */
static uint32_t tensor_here(cc_emitter *m, const isa_tensor *t) {
  int have = isa_program_find_tensor(m->out, t->name, strlen(t->name));
  if (have >= 0 && m->out->tensors[have].bytes == t->bytes) return (uint32_t)have + 1;
  if (have >= 0) {
    isa_fail(m->e, ISA_ILLEGAL, ISA_NOFIELD,
             "tensor %.60s has %" PRIu64 " bytes at one rank and %" PRIu64
             " at another: what a rank writes at others has one size and name",
             t->name, m->out->tensors[have].bytes, t->bytes);
    return 0;
  }
  isa_tensor remote = *t;
  remote.role = ISA_REMOTE;
  remote.data = NULL;
  remote.rows = 0;
  uint32_t n = isa_program_tensor(m->out, &remote);
  if (!n) cc_no_memory(m);
  return n;
}

/* The call of this rank, or of a peer, whose rank is then *rank. */
const cc_call *cc_call_of(const cc_emitter *m, uint32_t peer, uint32_t *rank) {
  *rank = peer == VM_CC_NOBODY ? m->rank : cc_peer(m->x, peer);
  return *rank == m->rank ? m->x : cc_match(m->p, m->x, *rank);
}

/* A pattern of a rank's call, as this rank's program has it. */
bool cc_pattern_of(cc_emitter *m, uint32_t rank, const cc_call *x, uint32_t number, isa_ap *ap) {
  *ap = *cc_ap(m->p, rank, x, number);
  if (rank == m->rank) return true;
  bool hbm = ap->space == ISA_HBM;
  ap->base = hbm ? tensor_here(m, &m->p->ranks[rank].p->tensors[ap->base - 1]) : 0;
  return !hbm || ap->base;
}

/* The pattern of an operand of this rank, or of a peer's. */
bool cc_operand_of(cc_emitter *m, uint32_t peer, unsigned buffer, uint32_t operand, isa_ap *ap) {
  uint32_t rank;
  const cc_call *x = cc_call_of(m, peer, &rank);
  const uint32_t *list = buffer == VM_CC_SRC ? x->src : buffer == VM_CC_DST ? x->dst : x->src1;
  return cc_pattern_of(m, rank, x, list[operand], ap);
}

/* Where what a step is about is in a piece; peer: VM_CC_NOBODY, of this rank. */
static bool place_of(cc_emitter *m, const vm_cc_step *st, uint32_t peer, vm_cc_piece piece,
                     uint32_t operand, place *out) {
  uint64_t block, n = data_of(m, st, operand, &out->from);
  bool whole = m->part.shape.whole;
  if (piece.buffer == VM_CC_LAND) {
    out->ap = (isa_ap){.dtype = m->x->dtype, .space = ISA_HBM, .ndim = 1, .base = m->land};
    out->ap.offset = (int64_t)landing(m, operand, piece.block, st->more + 1);
    if (whole) out->from = 0; /* they come one after another: its only slice here */
    out->ap.dim[0] = (isa_dim){.step = 1, .num = (uint32_t)(out->from + n)};
    return true;
  }
  if (!cc_operand_of(m, peer, piece.buffer, operand, &out->ap)) return false;
  bool gathers = m->x->does == VM_CC_ALL_GATHER;
  if (gathers && m->x->dim == 1 && piece.buffer == VM_CC_DST)
    return columns(m, piece.block, block_of(m, operand, st->block, &block), &out->ap);
  /* The operand is one block itself. */
  bool alone = (gathers && piece.buffer == VM_CC_SRC) ||
               (m->x->does == VM_CC_REDUCE_SCATTER && piece.buffer == VM_CC_DST);
  if (!alone && !whole) {
    block_of(m, operand, piece.block, &block);
    out->from += block;
  }
  return true;
}

uint32_t cc_pattern(cc_emitter *m, const isa_ap *ap, uint32_t slot) {
  isa_ap a = *ap;
  a.rank = (uint16_t)slot;
  uint32_t n = isa_program_ap(m->out, m->x->core, &a);
  if (!n) cc_no_memory(m);
  return n;
}

/* The longest run of elements from e on, at most n, that is one pattern of each of the places. */
static uint64_t cut_all(const place *v, unsigned count, uint64_t e, uint64_t n, isa_ap *out) {
  /* Each place may cut the run shorter; then all are cut again to that. */
  for (unsigned i = 0; i < count;) {
    uint64_t got = vm_plan_cut(&v[i].ap, v[i].from + e, n, &out[i]);
    i = got == n || i == 0 ? i + 1 : 0;
    n = got;
  }
  return n;
}

/* ---- Transfers ---------------------------------------------------------------------------- */

typedef struct lists {
  uint32_t dst[LIST], src[LIST], n;
} lists;

static bool add_push(cc_emitter *m, const lists *l) {
  isa_insn in = {.op = ISA_OP_dma_copy};
  /* One pattern is a copy; more are a copy by lists. */
  if (l->n == 1) {
    in.u.DMA_COPY.dst = l->dst[0];
    in.u.DMA_COPY.src = l->src[0];
    in.u.DMA_COPY.queue = m->pushes;
    in.u.DMA_COPY.prio = m->x->prio;
  } else {
    in.op = ISA_OP_dma_copy_lists;
    in.u.DMA_LISTS.queue = m->pushes;
    in.u.DMA_LISTS.prio = m->x->prio;
    if (!isa_program_pool(m->out, l->dst, l->n, sizeof *l->dst, &in.u.DMA_LISTS.dsts) ||
        !isa_program_pool(m->out, l->src, l->n, sizeof *l->src, &in.u.DMA_LISTS.srcs))
      return cc_no_memory(m);
  }
  return isa_program_static(m->out, m->x->core, m->pushes, &in) || cc_no_memory(m);
}

/* Adds an operand's part to the lists of a push. */
static bool list_operand(cc_emitter *m, const vm_cc_step *st, uint32_t operand, uint32_t slot,
                         lists *l) {
  uint64_t n = elems_of(m, st, operand), got = 0;
  place at[2];
  isa_ap ap[2];
  /* Slices of a small operand may be empty. */
  if (n == 0) return true;
  if (!place_of(m, st, st->peer, st->dst, operand, &at[0]) ||
      !place_of(m, st, VM_CC_NOBODY, st->src[0], operand, &at[1]))
    return false;
  for (uint64_t e = 0; e < n; e += got) {
    got = cut_all(at, 2, e, n - e, ap);
    if (l->n == LIST)
      return isa_fail(m->e, ISA_UNBUILT, ISA_NOFIELD,
                      "%s: operand %" PRIu32 " lies in more than %d pieces", isa_ops[m->x->op].name,
                      operand, LIST);
    l->dst[l->n] = cc_pattern(m, &ap[0], slot);
    l->src[l->n] = cc_pattern(m, &ap[1], 0);
    if (!l->dst[l->n] || !l->src[l->n]) return false;
    l->n++;
  }
  return true;
}

/* Starts the pushes that are held. */
static bool let_go(cc_emitter *m) {
  uint32_t first = m->held;
  m->held = 0;
  return first == 0 || cc_start(m, m->pushes, first - 1, m->held_upd);
}

/* Holds the pushes from transfer `first` on: those that follow one another and raise the same
 * semaphore are one trigger, also of different ranks. */
static void hold(cc_emitter *m, uint32_t first, isa_update upd) {
  /* Raised at several ranks: 0 leaves it to the transfers' own peers. */
  if (m->held && m->held_upd.value != upd.value) m->held_upd.value = 0;
  if (m->held) return;
  m->held = first + 1;
  m->held_upd = upd;
}

static bool push(cc_emitter *m, const vm_cc_step *st) {
  uint32_t slot = cc_slot_of(m, st->peer), end = m->part.first + m->part.n;
  isa_update upd = {
      .kind = ISA_UPD_peer, .core = m->x->core, .sem = (uint8_t)sem_of(m, st->sem), .value = slot};
  uint32_t first = m->out->cores[m->x->core].queues[m->pushes].nstatics;
  /* Pushes with another semaphore are another trigger. */
  if (!slot || (m->held && m->held_upd.sem != upd.sem && !let_go(m))) return false;
  if (m->x->variable) return cc_move_counted(m, st, m->pushes, upd);
  for (uint32_t i = m->part.first; i < end; i += m->together) {
    lists l = {.n = 0};
    for (uint32_t j = i; j < end && j < i + m->together; j++)
      if (!list_operand(m, st, j, slot, &l)) return false;
    if (l.n && !add_push(m, &l)) return false;
  }
  if (m->out->cores[m->x->core].queues[m->pushes].nstatics > first) hold(m, first, upd);
  return true;
}

/* Transfers of the pushes that a wait is for. */
static uint32_t transfers(const cc_emitter *m, const vm_cc_step *st) {
  uint32_t n = 0, end = m->part.first + m->part.n;
  /* The elements, and where asked for their number. */
  if (m->x->variable) return m->x->tells ? 2 : 1;
  for (uint32_t i = m->part.first; i < end; i += m->together) {
    uint64_t elems = 0;
    for (uint32_t j = i; j < end && j < i + m->together; j++) elems += elems_of(m, st, j);
    n += elems > 0;
  }
  return n;
}

static bool add_local(cc_emitter *m, const vm_cc_step *st, const uint32_t *ap) {
  isa_insn in = {.op = ISA_OP_dma_copy};
  if (st->kind == VM_STEP_COPY) {
    in.u.DMA_COPY.dst = ap[0];
    in.u.DMA_COPY.src = ap[1];
    in.u.DMA_COPY.queue = m->local;
    in.u.DMA_COPY.prio = m->x->prio;
  } else {
    in.op = ISA_OP_dma_compute;
    in.u.DMA_COMPUTE.dst = ap[0];
    in.u.DMA_COMPUTE.op = m->x->alu;
    in.u.DMA_COMPUTE.queue = m->local;
    in.u.DMA_COMPUTE.prio = m->x->prio;
    if (!isa_program_pool(m->out, ap + 1, st->nsrc, sizeof *ap, &in.u.DMA_COMPUTE.srcs))
      return cc_no_memory(m);
  }
  /* Each of these is waited for in settle(). */
  m->moving++;
  return isa_program_static(m->out, m->x->core, m->local, &in) || cc_no_memory(m);
}

static bool local_operand(cc_emitter *m, const vm_cc_step *st, uint32_t operand) {
  uint64_t n = elems_of(m, st, operand), got = 0;
  place at[1 + VM_STEP_SOURCES];
  isa_ap ap[1 + VM_STEP_SOURCES];
  uint32_t number[1 + VM_STEP_SOURCES];
  for (unsigned i = 0; n && i <= st->nsrc; i++) {
    vm_cc_piece piece = i ? st->src[i - 1] : st->dst;
    if (!place_of(m, st, VM_CC_NOBODY, piece, operand, &at[i])) return false;
  }
  for (uint64_t e = 0; e < n; e += got) {
    got = cut_all(at, 1u + st->nsrc, e, n - e, ap);
    if (st->kind == VM_STEP_COPY && isa_ap_equal(&ap[0], &ap[1])) continue; /* they are there */
    for (unsigned i = 0; i <= st->nsrc; i++)
      if (!(number[i] = cc_pattern(m, &ap[i], 0))) return false;
    if (!add_local(m, st, number)) return false;
  }
  return true;
}

static bool local(cc_emitter *m, const vm_cc_step *st) {
  uint32_t first = m->out->cores[m->x->core].queues[m->local].nstatics;
  uint32_t before = m->moving;
  isa_update upd = {
      .kind = ISA_UPD_dma, .core = m->x->core, .sem = (uint8_t)cc_sem_done(m->p, m->k)};
  if (m->x->variable) return cc_move_counted(m, st, m->local, upd);
  for (uint32_t i = m->part.first; i < m->part.first + m->part.n; i++)
    if (!local_operand(m, st, i)) return false;
  return m->moving == before || cc_start(m, m->local, first, upd);
}

/* ---- Blocks ------------------------------------------------------------------------------- */

/* Where all ranks' operands are dense a push takes sixteen in one transfer; else a transfer is of
 * one, whose pieces may be several. */
static uint32_t operands_together(const cc_emitter *m) {
  return cc_is_dense(m->p, m->x) ? LIST : 1;
}

static bool find_queue(cc_emitter *m, const char *suffix, uint32_t rings, uint8_t *number) {
  isa_core *core = &m->out->cores[m->x->core];
  char name[32];
  /* Calls of one CC sequencer share its queues. */
  snprintf(name, sizeof name, "qcc%u%s", m->k, suffix);
  for (uint32_t i = 0; i < core->nqueues; i++)
    if (strcmp(core->queues[i].name, name) == 0) {
      *number = (uint8_t)i;
      return true;
    }
  isa_queue q = {.name = name,
                 .dge = ISA_DGE_none,
                 .rings = (uint8_t)rings,
                 .owner = isa_owner_of(ISA_NENGINES + m->k)};
  uint32_t n = isa_program_queue(m->out, m->x->core, &q);
  *number = (uint8_t)(n - 1);
  if (!n) isa_fail(m->e, ISA_ILLEGAL, ISA_NOFIELD, "no room for queue %s", name);
  return n != 0;
}

static bool find_land(cc_emitter *m) {
  char name[32];
  uint64_t bytes = m->p->land[m->k];
  if (bytes == 0) return true;
  snprintf(name, sizeof name, "cc%u_land%u", m->k, m->x->core);
  /* All calls of the CC sequencer share it. */
  int have = isa_program_find_tensor(m->out, name, strlen(name));
  isa_tensor t = {.name = name, .dtype = ISA_uint8, .role = ISA_TEMP, .ndim = 1, .bytes = bytes};
  t.shape[0] = (int64_t)bytes;
  m->land = have >= 0 ? (uint32_t)have + 1 : isa_program_tensor(m->out, &t);
  return m->land || cc_no_memory(m);
}

static bool one_step(cc_emitter *m, uint32_t *i) {
  const vm_cc_step *st = &m->steps->v[*i];
  uint32_t sum = 0;
  if (st->kind != VM_STEP_PUSH && !let_go(m)) return false;
  switch (st->kind) {
  case VM_STEP_READY: return tell_ready(m, st);
  /* A push may read what a local transfer writes. */
  case VM_STEP_PUSH: return settle(m) && push(m, st);
  /* A sum of a sum waits for that. */
  case VM_STEP_REDUCE: return (!st->chained || settle(m)) && local(m, st);
  case VM_STEP_COPY: return local(m, st);
  default: break;
  }
  /* Waits for one semaphore, one after another, are one. */
  for (uint32_t sem = st->sem;; st = &m->steps->v[++*i]) {
    bool said = sem < m->steps->ready;
    /* A nop says ready once; a transfer that says so does once a ring. */
    uint32_t n = !said ? transfers(m, st) * m->rings : m->x->placed ? m->rings : 1;
    sum += st->count * n;
    if (*i + 1 == m->steps->n || st[1].kind != VM_STEP_WAIT || st[1].sem != sem) break;
  }
  return wait_for(m, sem_of(m, st->sem), sum);
}

/* For one instruction a step and one transfer a push or sum: of most steps these are all. */
static bool make_room(cc_emitter *m) {
  isa_core *c = &m->out->cores[m->x->core];
  uint32_t n[2] = {0}; /* pushes, and what it moves itself */
  for (uint32_t i = 0; i < m->steps->n; i++)
    if (m->steps->v[i].kind >= VM_STEP_PUSH) n[m->steps->v[i].kind != VM_STEP_PUSH]++;
  for (unsigned k = 0; k < 2; k++) {
    isa_queue *q = &c->queues[k ? m->local : m->pushes];
    if (!isa_array_reserve(&m->p->al, &q->statics, q->nstatics + n[k], &q->cap_statics,
                           sizeof *q->statics))
      return cc_no_memory(m);
  }
  /* Two more: the begin and the end of the block. */
  uint32_t have = c->code[ISA_NENGINES + m->k].n;
  return isa_program_reserve(m->out, m->x->core, ISA_NENGINES + m->k, have + m->steps->n + 2) ||
         cc_no_memory(m);
}

static bool emit_part(cc_emitter *m, unsigned number) {
  vm_cc_list *steps = &m->p->steps;
  m->part = cc_part_of(m->p, m->rank, m->x, number);
  m->steps = steps;
  m->ready = cc_ready_of(m->p, m->x, &m->part.shape)->first;
  /* The steps are in the plan's own list, which all calls use one after another. */
  bool ok = vm_cc_make(&m->p->al, &m->part.shape, steps) || cc_no_memory(m);
  ok = ok && make_room(m);
  for (uint32_t i = 0; ok && i < steps->n; i++) ok = one_step(m, &i);
  m->landed = landing(m, m->part.first, steps->land, 1); /* what it pushes may not have left yet */
  return ok && let_go(m) && settle(m);
}

/* What both cores do is complete on each when both have done their part. */
static bool meet_other(cc_emitter *m) {
  isa_insn tell = {.op = ISA_OP_nop}, hear = {.op = ISA_OP_event_semaphore};
  uint8_t core = m->x->core, sem = (uint8_t)cc_sem_both(m->p, m->k);
  if (!m->x->both || m->out->ncores < 2) return true;
  tell.upd = (isa_update){.kind = ISA_UPD_inc, .core = (uint8_t)(1 - core), .sem = sem};
  hear.wait = (isa_wait){.cond = ISA_WAIT_ge, .core = core, .sem = sem, .value = 1};
  hear.upd = (isa_update){.kind = ISA_UPD_dec, .core = core, .sem = sem};
  return cc_add(m, &tell) && cc_add(m, &hear);
}

bool cc_emit(vm_plan *p, isa_program *out, uint32_t rank, const cc_call *x, unsigned k,
             isa_error *e) {
  const isa_code *code = &p->ranks[rank].p->cores[x->core].code[x->engine];
  cc_emitter m = {.p = p, .out = out, .rank = rank, .x = x, .k = k, .e = e};
  if (code->lines) m.at = code->lines[x->pc];
  m.rings = cc_rings(p, x);
  m.together = operands_together(&m);
  const char *pushes = m.rings == p->rings ? "" : "_links";
  bool ok = find_queue(&m, pushes, m.rings, &m.pushes) &&
            find_queue(&m, "_local", p->rings, &m.local) && find_land(&m) &&
            block(&m, ISA_OP_wait_start);
  bool idle = x->variable && x->both && x->core; /* core 0 moves all of it */
  unsigned parts = idle ? 0 : cc_parts(p, rank, x);
  /* Parts go around the CC sequencers. */
  for (unsigned i = k; ok && i < parts; i += p->ncc) ok = emit_part(&m, i);
  return ok && meet_other(&m) && block(&m, ISA_OP_complete);
}
