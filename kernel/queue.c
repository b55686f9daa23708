/* Queues of the transfers that left theirs open. What comes from HBM goes on one stream, what goes
 * to HBM on another with another engine: a sequencer is in order, so a store that waits for its
 * data would hold the loads after it. */
#include "../isa/operand.h"
#include "pace.h"

typedef struct streams {
  as_kernel *k;
  unsigned store_engine, collectives; /* collectives: the engine that begins them */
  bool *brought; /* by buffer: a collective has written it; NULL: there are no collectives */
} streams;

static uint32_t find_queue(as_kernel *k, as_k_queue like) {
  for (uint32_t i = 0; i < k->nqueues; i++) {
    const as_k_queue *q = &k->queues[i];
    /* Only queues that the builder made are shared; the caller's are for what names them. */
    if (!q->users && q->dge == like.dge && q->engine == like.engine && q->pipe == like.pipe &&
        q->stream == like.stream)
      return i + 1;
  }
  if (k->nqueues == ISA_ENGINE_QUEUES) {
    as_k_fail(k, ISA_LIMIT, (isa_line){0}, "a core has at most %d queues", ISA_ENGINE_QUEUES);
    return 0;
  }
  if (!K_GROW(k, queues, nqueues, cap_queues)) return 0;
  k->queues[k->nqueues] = like;
  return ++k->nqueues;
}

/* Notes what an item brings if it is a collective; whether a transfer moves what one has brought.
 * That waits for other ranks: it goes on the engine that begins collectives, where it holds only
 * the next one. */
static bool follows(streams *s, const as_k_item *it) {
  const as_k_use *uses;
  bool found = false;
  unsigned n = s->brought ? as_k_used(s->k, it, &uses) : 0;
  for (unsigned u = 0; u < n; u++) {
    bool *brought = &s->brought[as_k_use_op(s->k, it, &uses[u])->buffer - 1];
    found |= uses[u].reads && *brought;
    if (uses[u].writes) *brought = as_k_is_collective(it);
  }
  return found;
}

/* A ring of gen2 takes 143 ns for a descriptor, an engine 86 for one of any ring: one ring leaves
 * it idle, so tensors that are loaded have rings of their own. Four are enough, and leave queues
 * for others. */
enum { STREAMS = 4 };
static unsigned stream_of(const as_kernel *k, const as_k_item *it, unsigned dge) {
  const as_k_use *uses;
  if (dge != ISA_DGE_none || k->target->hwdge) return 0;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++) {
    const as_k_operand *o = as_k_use_op(k, it, &uses[u]);
    /* Tensors go around the streams by their number. */
    if (uses[u].reads && o->space == ISA_HBM) return (as_k_buf(k, o->buffer)->tensor - 1) % STREAMS;
  }
  return 0;
}

static bool has(unsigned modes, unsigned dge) { return modes >> dge & 1; }

/* Whether a transfer moves bytes of an input or output, whose place the program does not know. */
static bool is_outside(const as_kernel *k, const as_k_item *it) {
  const as_k_use *uses;
  for (unsigned u = 0, n = as_k_used(k, it, &uses); u < n; u++)
    if (as_k_is_given(k, as_k_use_op(k, it, &uses[u]))) return true;
  return false;
}

/* Descriptors by hardware where that is legal, unless static ones are asked for; else
 * static ones, else by gpsimd. In a loop at run time static ones are not taken, since each is
 * another transfer. */
static bool pick(const streams *s, const as_k_item *it, bool in_loop, bool late, unsigned *dge,
                 unsigned *engine) {
  const as_k_verdict *r = as_k_verdict_of(s->k, it);
  unsigned modes = r->modes;
  bool store = as_k_goes_to_hbm(s->k, it) && !(s->k->o.flags & AS_KERNEL_ONE_STREAM);
  bool fixed = it->engine < ISA_NENGINES, meets = isa_insn_pipe(&r->in) >= 0;
  bool asked = it->flags & (AS_REC_STATIC | AS_REC_SWDGE | AS_REC_HWDGE);
  bool software_first = (s->k->o.passes & AS_PASS_SWDGE) && s->k->target->hwdge && !fixed &&
                        !meets && !asked;
  bool inside = software_first && !is_outside(s->k, it);
  unsigned e = fixed            ? it->engine
               : late && !meets ? s->collectives
               : inside         ? (store ? ISA_ENG_scalar : ISA_ENG_sync)
               : store || meets ? s->store_engine
                                : (unsigned)ISA_ENG_sync;
  bool hardware = has(modes, ISA_DGE_hwdge) && (e == ISA_ENG_sync || e == ISA_ENG_scalar);
  bool software = has(modes, ISA_DGE_swdge) && e == ISA_ENG_gpsimd;
  bool fixed_ring = has(modes, ISA_DGE_none) && (!in_loop || meets);
  *engine = e;
  /* What the kernel asks for holds where the item asks for nothing else. */
  if ((s->k->o.flags & AS_KERNEL_STATIC) && fixed_ring && !asked)
    hardware = software = false;
  else if (software_first && !inside && has(modes, ISA_DGE_swdge)) {
    *dge = ISA_DGE_swdge;
    *engine = ISA_ENG_gpsimd;
    return true;
  }
  /* A sendrecv has static descriptors where it may. */
  if ((hardware || software) && !(meets && fixed_ring)) {
    *dge = hardware ? ISA_DGE_hwdge : ISA_DGE_swdge;
    /* Without hardware ones, static ones come before those of gpsimd. */
    if (!software || s->k->target->hwdge || !fixed_ring) return true;
  }
  if (fixed_ring) {
    *dge = ISA_DGE_none;
    return true;
  }
  /* The engine was given, and neither kind is for it. */
  if (fixed) return false;
  *dge = has(modes, ISA_DGE_hwdge) ? ISA_DGE_hwdge : ISA_DGE_swdge;
  *engine = *dge == ISA_DGE_swdge ? ISA_ENG_gpsimd : store ? ISA_ENG_scalar : ISA_ENG_sync;
  return has(modes, *dge);
}

unsigned as_k_trigger_engine(as_kernel *k, const as_k_item *it, bool in_loop, unsigned *dge) {
  const streams s = {.k = k, .store_engine = k->store_engine};
  unsigned engine = ISA_ENG_sync;
  *dge = ISA_DGE_none;
  if (!it->queue) {
    pick(&s, it, in_loop, false, dge, &engine);
    return engine;
  }
  /* The choice has been made. */
  *dge = k->queues[it->queue - 1].dge;
  return k->queues[it->queue - 1].engine;
}

uint64_t as_k_dma_time(const as_kernel *k, const as_k_verdict *r, uint32_t ops) {
  const as_k_use *uses = k->uses + r->uses;
  uint64_t bytes = 0;
  for (unsigned u = 0; u < r->nuses; u++) {
    const as_k_operand *o = as_k_op(k, ops + uses[u].operand);
    const as_k_shape *s = as_k_shape_of(k, o);
    uint64_t all = isa_dtype_bytes(s->dtype) * (uint64_t)(o->nparts ? o->nparts : 1);
    for (unsigned d = 0; d < s->ndim; d++) all *= s->dim[d].num;
    if (uses[u].writes) bytes += all;
  }
  /* Femtoseconds: each DMA engine moves dma_byte_rate bytes in a microsecond. */
  return bytes * (1000000000 / k->target->dma) / k->o.costs.dma_byte_rate;
}

/* What it adds to the loads of its engine and of DMA. */
static void count(as_kernel *k, const as_k_item *it, const as_k_queue *q) {
  const as_kernel_costs *c = &k->o.costs;
  k->figures.transfers++;
  k->figures.busy[q->engine] += c->trigger[q->dge];
  k->figures.dma_busy += as_k_verdict_of(k, it)->dma;
}

static void find_bound(as_kernel *k) {
  uint64_t most = k->figures.dma_busy;
  k->figures.bound = AS_BOUND_DMA;
  /* A tie is for DMA, then for the first engine. */
  for (unsigned e = 0; e < ISA_NENGINES; e++)
    if (k->figures.busy[e] > most) {
      most = k->figures.busy[e];
      k->figures.bound = e;
    }
}

/* 1 + the pipe of a sendrecv, 0 of another transfer. */
static unsigned pipe_of(const as_kernel *k, const as_k_item *it) {
  return (unsigned)(isa_insn_pipe(&as_k_verdict_of(k, it)->in) + 1);
}

/* A queue of the caller's is for the sendrecvs of one pipe, or for other transfers. */
static bool take_pipe(as_kernel *k, const as_k_item *it, as_k_queue *q) {
  unsigned pipe = pipe_of(k, it);
  /* The first one decides what the queue is for. */
  if (q->count == 0) q->pipe = (uint16_t)pipe;
  if (q->pipe == pipe) return true;
  return as_k_fail(k, ISA_ILLEGAL, it->at,
                   "%s: its queue has other transfers; the sendrecvs of a pipe need a queue of "
                   "their own, since they end when the other core's do",
                   isa_ops[it->op].name);
}

static bool choose(streams *s, as_k_item *it, bool in_loop, bool late) {
  as_kernel *k = s->k;
  unsigned dge = 0, engine = 0;
  if (!it->queue) {
    if (!pick(s, it, in_loop, late, &dge, &engine))
      return as_k_fail(k, ISA_ILLEGAL, it->at, "%s: no queue that %s may trigger takes it%s",
                       isa_ops[it->op].name,
                       it->engine < ISA_NENGINES ? isa_engines[it->engine].name : "an engine",
                       in_loop ? " in a loop, which cannot use static descriptors" : "");
    unsigned pipe = pipe_of(k, it), stream = pipe ? 0 : stream_of(k, it, dge);
    uint32_t q = find_queue(k, (as_k_queue){.dge = (uint8_t)dge,
                                            .engine = (uint8_t)engine,
                                            .stream = (uint8_t)stream,
                                            .pipe = (uint16_t)pipe});
    if (!q) return false;
    it->queue = (uint16_t)q;
  }
  as_k_queue *q = &k->queues[it->queue - 1];
  if (!take_pipe(k, it, q)) return false;
  if (q->dge == ISA_DGE_none && in_loop && !q->pipe)
    return as_k_fail(k, ISA_ILLEGAL, it->at,
                     "%s: its queue has static descriptors, which a loop at run time cannot use",
                     isa_ops[it->op].name);
  it->engine = q->engine;
  q->count++;
  count(k, it, q);
  return true;
}

bool as_k_choose_queue(as_kernel *k, as_k_item *it) {
  streams s = {.k = k, .store_engine = k->store_engine};
  return choose(&s, it, false, false);
}

static bool choose_all(streams *s) {
  as_kernel *k = s->k;
  unsigned depth = 0;
  for (uint32_t i = 0; i < k->nitems; i++) {
    as_k_item *it = &k->items[i];
    if (it->op == K_LOOP || it->op == K_WHILE) depth++;
    if (it->op == K_ENDLOOP) depth--;
    bool late = it->op < ISA_NOPS && follows(s, it);
    if (it->op < ISA_NOPS && isa_op_is_dma(it->op) && !choose(s, it, depth > 0, late)) return false;
  }
  return true;
}

bool as_k_choose_queues(as_kernel *k) {
  streams s = {.k = k, .collectives = as_k_collectives_engine(k), .store_engine = k->store_engine};
  size_t size = ((size_t)k->nbuffers + 1) * sizeof *s.brought;
  bool some = s.collectives < ISA_NENGINES;
  if (some && !(s.brought = isa_zalloc(&k->al, size))) return as_k_nomem(k);
  bool ok = choose_all(&s);
  isa_free(&k->al, s.brought, some ? size : 0);
  if (ok) find_bound(k);
  return ok;
}
