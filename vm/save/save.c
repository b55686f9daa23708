/* The state of a run except what is in flight: options, memories, engines, semaphores, events. */
#include "../check/check.h"
#include "../engine/engine.h"
#include "../op/pe.h"
#include "../message.h"
#include "../time/clock.h"
#include "save.h"

void vm_save_options_walk(vm_saver *s, vm_save_options *o) {
  vm_save_below(s, &o->cvt, ISA_CVT_saturate + 1, "conversion");
  vm_save_bool(s, &o->timing_only);
  vm_save_bool(s, &o->causes);
  vm_save_u64(s, &o->rounding_seed);
  for (unsigned i = 0; i < VM_NCOSTS; i++) {
    vm_save_u32(s, &o->cost[i]);
    /* A hostile value could make times overflow. */
    if (s->reads && !vm_cost_allows((vm_cost_id)i, o->cost[i]))
      vm_saver_fail(s, "constant %s is %u", vm_cost_rows[i].name, o->cost[i]);
  }
}

/* ---- Record of causes --------------------------------------------------------------------- */

/* Whether an instruction exists of a program of this rank, or of the rank that its message is from.
 */
static bool node_fits(const vm_core *c, const vm_node *n) {
  const isa_program *p = n->peer ? c->run->peers->runs[n->peer - 1]->prog : c->prog;
  return n->by < (n->peer ? ISA_NSEQS : vm_core_at(c, n->core)->nseqs) && n->core < p->ncores &&
         n->pc < p->cores[n->core].code[n->by].n;
}

static void walk_path_node(vm_saver *s, const vm_core *c, vm_node *n, uint32_t number) {
  vm_save_time(s, &n->start);
  vm_save_time(s, &n->end);
  vm_save_time(s, &n->bound);
  if (c->run->peers) {
    vm_save_below(s, &n->peer, c->run->peers->nranks + 1, "rank of a cause");
    /* Only sequencers hear of other ranks. */
    vm_saver_need(s, !n->peer || n->kind <= VM_N_SEQ, "a cause of another rank is no message");
  }
  if (n->peer)
    vm_save_u32(s, &n->cause); /* of a record that may not be here yet; whoever walks looks */
  else
    vm_save_below(s, &n->cause, number, "cause"); /* earlier, so that the walk back ends */
  vm_save_core(s, c, &n->core);
  vm_save_u32(s, &n->pc);
  vm_save_u8(s, &n->kind);
  vm_save_u8(s, &n->who);
  vm_save_u8(s, &n->by);
  vm_save_u8(s, &n->why);
  vm_save_u8(s, &n->sem);
  bool share = n->kind == VM_N_SHARE;
  vm_saver_need(s,
                n->kind >= VM_N_INSN && n->kind <= VM_N_TABLE && node_fits(c, n) &&
                    n->who < (share ? ISA_NDMA : ISA_NSEQS) &&
                    n->why <= (n->peer ? VM_WHY_PEER : VM_WHY_MEET) && n->start <= n->end &&
                    n->bound <= n->start,
                "a node of the record of causes is not valid");
}

static void walk_path(vm_saver *s, vm_core *c) {
  vm_path *p = c->path;
  uint32_t n = p ? p->n : 0;
  if (!p) return;
  vm_saver_count(s, &n, UINT32_MAX - 1, 38, "nodes in the record of causes");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    /* Nodes are read one by one: a file cannot make the array larger than what follows it. */
    if (s->reads && p->n == p->cap && !isa_array_grow(&c->al, &p->v, p->n, &p->cap, sizeof *p->v)) {
      vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the record of causes");
      s->failed = true;
      return;
    }
    if (s->reads) p->v[i] = (vm_node){0};
    walk_path_node(s, c, &p->v[i], i + 1);
    if (s->reads) p->n++;
  }
  vm_save_node(s, c, &p->last);
}

/* ---- Memories ----------------------------------------------------------------------------- */

static void walk_memory(vm_saver *s, uint8_t *at, size_t pitch, size_t bytes, uint64_t *reach) {
  /* Partition by partition: what lies between them on the host is not saved. */
  for (unsigned p = 0; p < ISA_PMAX; p++) vm_saver_pages(s, at + p * pitch, bytes, reach);
}

void vm_save_memories(vm_saver *s, vm_core *c) {
  walk_memory(s, c->mem.sbuf, c->mem.sbuf_pitch, c->target->sbuf_bytes, &c->mem.reach[0]);
  walk_memory(s, c->mem.psum, c->mem.psum_pitch, c->target->psum_bytes, &c->mem.reach[1]);
}

static void walk_tensors(vm_saver *s, vm_run *r) {
  for (uint32_t i = 0; i < r->prog->ntensors; i++) /* nothing writes a const tensor */
    if (r->prog->tensors[i].role != ISA_CONST) {
      /* Zeros that an earlier run's block still lacks. */
      vm_hbm_use_all(r->cores[0], i);
      vm_saver_pages(s, r->blocks[i].data, r->blocks[i].bytes, NULL);
    }
}

/* ---- Engines ------------------------------------------------------------------------------ */

static void walk_stationary(vm_saver *s, vm_stationary *t, unsigned row, unsigned col) {
  vm_save_u16(s, &t->k);
  vm_save_u16(s, &t->m);
  vm_save_u8(s, &t->rows);
  vm_save_u8(s, &t->cols);
  vm_save_u8(s, &t->dtype);
  vm_save_bool(s, &t->pairs);
  vm_save_bool(s, &t->mx);
  if (s->reads) t->raw = false; /* the file has the weights */
  unsigned lanes = t->mx ? VM_LANES : t->pairs ? 2 : 1;
  /* The tile must fit where it is said to be, or a product would read beyond the weights. */
  vm_saver_need(s,
                t->k == 0 ||
                    (t->k <= t->rows * lanes && t->m <= t->cols && row + t->rows <= ISA_PMAX &&
                     col + t->cols <= ISA_PMAX && isa_dtype_valid(t->dtype) &&
                     (t->mx || isa_dtype_bytes(t->dtype) <= 4)),
                "a stationary operand does not fit its tile");
}

/* Weights that are not made yet, and what older ones left, are in no file. */
static void walk_weights(vm_saver *s, const vm_dp *d) {
  vm_weights *w = d->weights;
  uint32_t words[ISA_PMAX];
  for (unsigned k = 0; k < VM_LANES * ISA_PMAX; k++) {
    float values[ISA_PMAX];
    /* fp32 rows in one form, whatever has been converted. */
    if (!s->reads) vm_pe_weights_row(d, k, values);
    vm_saver_words(s, s->reads ? w->w[k] : values, ISA_PMAX);
  }
  for (unsigned p = 0; p < ISA_PMAX; p++) {
    if (!s->reads) vm_pe_words_row(w, p, words);
    vm_saver_words(s, s->reads ? (void *)w->raw[p] : words, ISA_PMAX);
  }
  for (unsigned r = 0; r < ISA_PMAX / 32; r++)
    for (unsigned k = 0; k < ISA_PMAX / 32; k++) walk_stationary(s, &w->tile[r][k], 32 * r, 32 * k);
  /* The rows were words: elements side by side again. */
  if (s->reads && !s->failed) vm_pe_from_words(w);
}

static void walk_written(vm_saver *s, uint8_t *written) {
  uint8_t seen = 0;
  vm_saver_pages(s, written, VM_PSUM_SLOTS, NULL);
  /* A mark other than 0 to 3 would be taken for something else by the tensor engine. */
  for (unsigned i = 0; s->reads && i < VM_PSUM_SLOTS; i++) seen |= written[i];
  vm_saver_need(s, seen <= VM_BOTH_HALVES, "a mark of PSUM is not valid");
}

static void walk_dp(vm_saver *s, vm_dp *d) {
  vm_saver_words(s, d->acc, ISA_PMAX);
  if (d->weights) walk_weights(s, d);
  if (d->psum_written) walk_written(s, d->psum_written);
  vm_save_bool(s, &d->has_mask);
  vm_saver_bytes(s, d->mask, sizeof d->mask);
  for (unsigned p = 0; p < ISA_PMAX; p++) vm_save_bool(s, &d->has_match[p]);
  vm_saver_words(s, d->match, sizeof d->match / 4);
  vm_save_u64(s, &d->rounding_count);
  vm_save_bool(s, &d->seeded);
  vm_saver_words(s, d->rng, sizeof d->rng / 4);
}

static void walk_pe(vm_saver *s, const vm_core *c, vm_pe_clock *pe) {
  vm_save_time(s, &pe->issue_free.time);
  /* A cold array goes on as it was. */
  vm_save_time(s, &pe->started.time);
  vm_save_time(s, &pe->done);
  vm_save_time(s, &pe->load_free.time);
  vm_save_time(s, &pe->pass);
  vm_save_time(s, &pe->window);
  vm_save_time(s, &pe->used);
  vm_save_node(s, c, &pe->issue_free.node);
  vm_save_node(s, c, &pe->started.node);
  vm_save_node(s, c, &pe->load_free.node);
  for (unsigned k = 0; k < VM_CELLS; k++) {
    for (unsigned lane = 0; lane < 2; lane++) {
      vm_save_time(s, &pe->free[lane][k].time);
      vm_save_node(s, c, &pe->free[lane][k].node);
    }
    vm_save_time(s, &pe->loaded[k].time);
    vm_save_node(s, c, &pe->loaded[k].node);
  }
}

/* Where an engine is; what it waits for must be something that one can wait for. */
static void walk_state(vm_saver *s, vm_core *c, vm_engine *en) {
  uint32_t state = en->state, n = en->code->n;
  /* Each state must have what it waits for, or the run would never end. */
  vm_save_below(s, &state, VM_CROWDED + 1, "state of an engine");
  if (state == VM_IDLE) en->pc = 0; /* it may be after the last; a trigger will say where it goes */
  vm_save_below(s, &en->pc, n ? n : 1, "instruction of an engine");
  if (n) vm_saver_words(s, en->ran, n);
  vm_save_below(s, &en->ring_queue, c->code->nqueues ? c->code->nqueues : 1, "queue");
  if (!s->reads || s->failed) return;
  en->state = (vm_state)state;
  vm_saver_need(s, n || state == VM_HALTED, "an engine has no code but has not halted");
  vm_saver_need(s, state != VM_RINGFULL || c->code->nqueues,
                "an engine waits for a queue, but none exists");
  vm_saver_need(s, state != VM_MEETING || vm_meet_key(&en->code->insns[en->pc]) >= 0,
                "an engine waits for a sendrecv, but is at none");
  bool cc = en - c->eng >= ISA_NENGINES;
  /* CC sequencers have states of their own, and engines have not. */
  vm_saver_need(s, state < VM_IDLE || (state == VM_CROWDED ? c->ccs && !cc : cc),
                "an engine is in a state that it does not have");
}

/* What waits for what, for an engine that has been read. */
static void note_waiter(vm_saver *s, vm_core *c, unsigned e) {
  const vm_engine *en = &c->eng[e];
  if (!s->reads || s->failed) return;
  /* Sets of waiters are computed again from states, and not saved. */
  if (en->state == VM_RINGFULL) c->ring_waiters[en->ring_queue] |= (uint16_t)(1u << e);
  if (en->state != VM_WAITING) return;
  isa_wait w = vm_wait_of(c, en);
  if (vm_saver_need(s, w.cond != ISA_WAIT_none, "an instruction that waits has no wait"))
    c->sem_waiters[w.sem] |= (uint16_t)(1u << e);
}

static void walk_engine(vm_saver *s, vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  /* -1 is no table. */
  uint32_t table = (uint32_t)(en->table + 1);
  vm_saver_words(s, en->regs, ISA_NREGS);
  walk_state(s, c, en);
  vm_save_time(s, &en->now);
  vm_save_time(s, &en->wait_since);
  vm_save_bool(s, &en->wait_noted);
  vm_save_bool(s, &en->waited);
  vm_save_u32(s, &en->triggered);
  note_waiter(s, c, e);
  vm_save_time(s, &en->issue_free.time);
  vm_save_time(s, &en->last_done.time);
  vm_save_time(s, &en->dge_free.time);
  vm_save_below(s, &table, UINT8_MAX + 2, "table");
  en->table = (int)table - 1;
  vm_save_u64(s, &en->tables);
  vm_save_cause(s, c, &en->cause);
  vm_save_node(s, c, &en->issue_free.node);
  vm_save_node(s, c, &en->last_done.node);
  vm_save_node(s, c, &en->dge_free.node);
  vm_save_u64(s, &en->instructions);
  vm_save_u64(s, &en->data_instructions);
  vm_save_u64(s, &en->shared_at);
  /* A spin is told by this difference. */
  vm_saver_need(s, en->shared_at <= en->instructions,
                "an engine has run fewer instructions than it had before");
  for (unsigned k = 0; k < 4; k++) vm_save_u64(s, &en->traffic[k / 2][k % 2]);
  vm_save_time(s, &en->streaming);
  vm_save_time(s, &en->busy);
  vm_save_time(s, &en->busy_until);
  vm_save_time(s, &en->waiting);
  if (e == ISA_ENG_tensor) walk_pe(s, c, &en->pe);
  /* A file may have weights in a program that loads none. */
  if (e == ISA_ENG_tensor && s->reads) c->mem.array->used = true;
  walk_dp(s, &en->dp);
  /* Times that are subtracted from now must not lie after it. */
  vm_saver_need(s, (!en->wait_noted && en->state != VM_MEETING) || en->wait_since <= c->now,
                "a wait begins after the saved moment");
  /* Only data paths have flights. */
  if (en->flights) vm_save_flights(s, c, e);
}

/* ---- Semaphores and events ---------------------------------------------------------------- */

static void walk_log(vm_saver *s, const vm_core *c, vm_sem_log *log) {
  vm_save_u32(s, &log->n);
  for (uint32_t k = 0; k < VM_SEM_LOG && k < log->n; k++) {
    vm_save_time(s, &log->time[k]);
    vm_save_u32(s, &log->value[k]);
    vm_save_where(s, c, &log->by[k]);
    /* From 16 entries on it is a ring. */
    vm_saver_need(s,
                  (unsigned)log->by[k].engine < vm_core_at(c, log->by[k].core)->nseqs ||
                      log->by[k].engine >= VM_BY_PEER,
                  "a semaphore was updated by no engine");
  }
}

static void walk_semaphores(vm_saver *s, vm_core *c) {
  for (unsigned i = 0; i < ISA_NSEMS; i++) {
    vm_save_below(s, &c->sem[i], (uint32_t)ISA_SEM_MAX + 1, "value of a semaphore");
    walk_log(s, c, &c->sem_log[i]);
  }
}

/* Events of each engine in a file: its sequencer's, and a bit for each flight that will be done,
 * or for each trigger that will come. */
typedef struct tally {
  uint32_t seq[ISA_NSEQS], done[ISA_NSEQS];
  uint64_t coming[ISA_NSEQS];
} tally;

static bool trigger_fits(const vm_core *c, const vm_event *v, tally *t) {
  if (!vm_save_trigger_fits(c, v->who, v->value) || t->coming[v->who] >> v->value & 1) return false;
  t->coming[v->who] |= UINT64_C(1) << v->value;
  return true;
}

static bool event_fits(const vm_core *c, const vm_event *v, tally *t) {
  const vm_engine *en = v->who < c->nseqs ? &c->eng[v->who] : NULL;
  const vm_core *by = vm_core_at(c, v->by.core);
  switch (v->kind) {
  case VM_E_SEM:
    /* The instruction must exist: reports name it. */
    return (unsigned)v->by.engine < by->nseqs && v->by.pc < by->code->code[v->by.engine].n;
  case VM_E_START: return c->ccs && trigger_fits(c, v, t);
  case VM_E_DMA: return v->who < ISA_NDMA;
  /* One event for a sequencer, and only for one that is ready. */
  case VM_E_SEQ: return en && en->code->n && en->state == VM_READY && t->seq[v->who]++ == 0;
  case VM_E_DONE: {
    if (!en || !en->flights || v->value >= VM_FLIGHTS) return false;
    uint32_t bit = 1u << v->value;
    /* In the ring between the first and the last, unfinished, at its own time, and once. */
    bool alive = (v->value + VM_FLIGHTS - en->first) % VM_FLIGHTS < en->nflights;
    bool fits = alive && !en->flights[v->value].finished && !(t->done[v->who] & bit) &&
                en->flights[v->value].item.done == v->time;
    t->done[v->who] |= bit;
    return fits;
  }
  default: return false;
  }
}

static void walk_event(vm_saver *s, vm_core *c, vm_event *v, tally *t) {
  const vm_event all = *v;
  if (v->kind == VM_E_PUT) v->value = 0; /* where its message is kept */
  /* Fields that some kinds do not use are zero: a file has one form for all. */
  vm_save_time(s, &v->time);
  vm_save_u8(s, &v->kind);
  vm_save_u8(s, v->kind == VM_E_SEM ? &v->update : &v->who);
  vm_save_u8(s, &v->sem);
  vm_save_where(s, c, &v->by);
  vm_save_u32(s, &v->value);
  vm_save_node(s, c, &v->node);
  if (s->failed) return;
  /* The bytes of a message follow its event. */
  if (v->kind == VM_E_PUT) vm_save_message(s, c, s->reads ? v : &all);
  if (!s->reads || v->kind == VM_E_PUT) return;
  /* What the event is about must be there. */
  if (vm_saver_need(s, event_fits(c, v, t), "an event is not valid"))
    vm_saver_need(s, vm_post_restored(c, v), "an event comes before the one before it");
}

/* An engine that is not at rest has an event that will move it. */
static void check_tally(vm_saver *s, const vm_core *c, const tally *t) {
  vm_save_check_ccs(s, c, t->coming);
  for (unsigned e = 0; e < c->nseqs && !s->failed; e++) {
    const vm_engine *en = &c->eng[e];
    /* Ready means exactly one event. */
    vm_saver_need(s, t->seq[e] == (en->state == VM_READY), "an engine has no event");
    vm_saver_need(s, en->state != VM_LEAVING || en->moving, "an engine waits for no transfer");
    for (uint32_t i = 0; i < en->nflights; i++) {
      uint32_t slot = (en->first + i) % VM_FLIGHTS;
      vm_saver_need(s, en->flights[slot].finished || t->done[e] >> slot & 1,
                    "an instruction in flight without its event");
    }
  }
}

/* Events are written in the order in which they will come: the numbers that they got when they were
 * posted do not matter. */
static void walk_events(vm_saver *s, vm_core *c) {
  /* Numbers of posting start anew: only the order counts. */
  tally t = {0};
  uint32_t n = c->events.n;
  vm_saver_count(s, &n, UINT32_MAX / 2, 25, "events");
  if (s->reads) {
    c->events.first = c->events.n = 0;
    c->events.posted = 0;
  }
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    vm_event v = {0};
    if (!s->reads) v = c->events.v[c->events.first + i];
    walk_event(s, c, &v, &t);
  }
  if (s->reads) check_tally(s, c, &t);
}

/* ---- The whole ---------------------------------------------------------------------------- */

static void walk_totals(vm_saver *s, vm_core *c) {
  vm_save_time(s, &c->now);
  vm_save_u64(s, &c->instructions);
  vm_save_u64(s, &c->repeats);
  vm_save_u64(s, &c->dma_transfers);
  vm_save_u64(s, &c->dma_bytes);
  vm_save_u64(s, &c->dma_packets);
  vm_save_u64(s, &c->flops);
  vm_save_u64(s, &c->adjusted_flops);
  vm_save_u64(s, &c->transpose_flops);
  vm_save_u64(s, &c->adjusted_transpose_flops);
  vm_save_u64(s, &c->hbm_read_bytes);
  vm_save_u64(s, &c->hbm_write_bytes);
#define COUNTER(name, unit, layout, text) \
  if (layout > 1) vm_save_u64(s, &c->name); /* the rows of layout 1 are above */
#include "../stats.def"
  vm_save_u64(s, &c->touched[0]);
  vm_save_u64(s, &c->touched[1]);
  vm_save_time(s, &c->dma_active);
  vm_save_time(s, &c->dma_since);
  /* A union of spans that begins later would wrap. */
  if (!vm_saver_need(s, c->dma_since <= c->now, "a transfer begins after the saved moment"))
    c->dma_since = c->now;
  vm_save_u64(s, &c->jitters);
}

static void walk_core(vm_saver *s, vm_core *c) {
  walk_totals(s, c);
  vm_save_memories(s, c);
  walk_semaphores(s, c);
  /* In this order: what is read later refers to what was read before. */
  for (unsigned e = 0; e < c->nseqs && !s->failed; e++) walk_engine(s, c, e);
  if (!s->failed) vm_save_ccs(s, c);
  if (!s->failed) vm_save_transfers(s, c);
  if (!s->failed) walk_events(s, c);
}

void vm_save_walk(vm_saver *s, vm_run *r) {
  vm_save_u64(s, &r->trace_hash);
  vm_save_u32(s, &r->transfers);
  vm_save_u64(s, &r->jitter);
  if (r->peers) vm_save_u64(s, &r->peers->sent);
  walk_path(s, r->cores[0]);
  walk_tensors(s, r);
  for (unsigned i = 0; i < r->n && !s->failed; i++) walk_core(s, r->cores[i]);
  if (r->n > 1 && !s->failed) vm_save_swaps(s, r);
  /* Last: checks know tensors, transfers and events. */
  if (!s->failed) vm_check_walk(s, r->cores[0]);
}
