/* The start and end of a run. */
#include "cc.h"
#include "../message.h"
#include "../time/clock.h"
#include "../dma/dma.h"
#include "../dma/hbm.h"

#include <string.h>

/* ---- Start -------------------------------------------------------------------------------- */

/* The most tensors of a program among which those with stale bytes are looked for at each
 * transfer. */
enum { SEARCHED = 32 };
/* Kept for the next run: their pages would be touched anew in each. */
enum { FLIGHTS_BYTES = VM_FLIGHTS * sizeof(vm_flight) };
_Static_assert((size_t)FLIGHTS_BYTES < (size_t)VM_STATE_LESS, "of the state of a core");

/* Address and host memory of a tensor, unless they are given. */
static isa_status place_tensor(vm_run *r, const isa_tensor *t, vm_block *b) {
  /* A tensor of another rank has no memory here, only a name. */
  if (!b->placed && t->role != ISA_REMOTE) {
    isa_status s =
        vm_hbm_alloc(r->stack->addresses, t->bytes, VM_HBM_PROGRAM, t->name, r, &b->address);
    if (s != ISA_OK) return s;
  }
  if (b->data) return ISA_OK;
  b->bytes = t->bytes;
  bool zero = !t->data && !b->filled;
  /* A run without values touches no page: new ones cost nothing, kept ones would be cleared. */
  vm_pool *pool = r->timing_only ? NULL : r->pool;
  /* The block of an earlier run, not zeroed yet: most programs overwrite all of it (vm_hbm_use).
   * Not for many tensors, which stale_tensor searches one by one. */
  if (zero && r->prog->ntensors <= SEARCHED && (b->data = vm_pool_find(pool, t->bytes))) {
    b->stale = t->bytes;
    r->stale++;
    return ISA_OK;
  }
  b->data = vm_pool_take(pool, &r->al, t->bytes, zero);
  if (!b->data) return ISA_NOMEM;
  if (t->data) memcpy(b->data, t->data, (size_t)t->bytes);
  return ISA_OK;
}

static isa_status place_tensors(vm_run *r, const vm_block *given) {
  uint32_t n = r->prog->ntensors;
  isa_status s = ISA_OK;
  /* Set first: a failure half way releases what was placed. */
  r->placed = true;
  if (n && !(r->blocks = isa_zalloc(&r->al, n * sizeof *r->blocks))) return ISA_NOMEM;
  for (uint32_t i = 0; i < n && s == ISA_OK; i++) {
    if (given) r->blocks[i] = given[i];
    s = place_tensor(r, &r->prog->tensors[i], &r->blocks[i]);
  }
  return s;
}

void vm_run_release(vm_run *r) {
  if (!r->placed) return;
  vm_stack_leave(r);
  vm_hbm_release_all(r->stack->addresses, r);
  r->placed = false;
}

static bool load_engine(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  const isa_code *code = &c->code->code[e];
  en->code = code;
  /* An engine without code has halted before it began. */
  en->state = code->n ? VM_READY : VM_HALTED;
  /* No activation table. */
  en->table = -1;
  en->dp.k = &c->run->kern;
  en->dp.target = c->target;
  en->dp.engine = (uint8_t)e;
  en->dp.psum = c->mem.psum;
  en->dp.psum_pitch = c->mem.psum_pitch;
  vm_dp_lend(&en->dp, c->mem.work->floats);
  en->dp.threads = c->run->threads;
  if (!code->n) return true;
  /* A CC sequencer begins with a trigger. */
  if (e >= ISA_NENGINES) en->state = VM_IDLE;
  c->uops[e] = isa_zalloc(&c->al, code->n * sizeof(vm_uop));
  if (!c->uops[e]) return false;
  for (uint32_t pc = 0; pc < code->n; pc++) c->uops[e][pc] = vm_uop_of(&code->insns[pc]);
  en->uops = c->uops[e];
  en->ran = isa_zalloc(&c->al, code->n * sizeof *en->ran);
  if (!en->ran) return false;
  if (e >= ISA_ENG_sync) /* no data path */
    return true;
  en->flights = vm_pool_take_state(c->run->pool, &c->al, FLIGHTS_BYTES, false);
  return en->flights != NULL;
}

/* Whether something computes on an engine, which may have transfers alone, or an end. */
static bool computes(const isa_code *code) {
  uint32_t i = 0;
  while (i < code->n && (isa_op_is_control(code->insns[i].op) || isa_op_is_dma(code->insns[i].op)))
    i++;
  return i < code->n;
}

/* What only the tensor engine has: weights and the marks of PSUM. */
static void load_tensor_engine(vm_core *c) {
  vm_dp *d = &c->eng[ISA_ENG_tensor].dp;
  vm_array *t = c->mem.array;
  if (!c->code->code[ISA_ENG_tensor].n) return;
  /* By the last run that computed there: to clear a MiB takes as long as a small kernel. */
  if (t->used) memset(t, 0, sizeof *t);
  t->used = computes(&c->code->code[ISA_ENG_tensor]);
  d->weights = &t->weights;
  d->psum_written = t->psum_written;
}

static isa_status start_core(vm_core *c, unsigned cvt, isa_error *e) {
  isa_status s = vm_dma_place_rings(c, e);
  vm_dma_assign_rings(c);
  for (unsigned i = 0; i < c->nseqs && s == ISA_OK; i++) {
    c->eng[i].dp.cvt = cvt;
    if (!load_engine(c, i)) s = ISA_NOMEM;
  }
  if (s == ISA_OK && c->nseqs > ISA_NENGINES && !vm_cc_load(c)) s = ISA_NOMEM;
  if (s == ISA_OK) load_tensor_engine(c);
  for (unsigned i = 0; i < c->nseqs && s == ISA_OK; i++) {
    if (c->eng[i].state == VM_READY) vm_post(c, VM_E_SEQ, i, 0, 0);
    /* vm_post faults if there is no memory for the event. */
    s = c->run->fault.status;
  }
  return s;
}

/* How many sequencers a core of a program needs, and its bytes. */
static unsigned sequencers_of(const isa_core *code) {
  /* CC sequencers are all or none: a core's struct is cut at the last one that it needs. */
  for (unsigned e = ISA_NENGINES; e < ISA_NSEQS; e++)
    if (code->code[e].n) return ISA_NSEQS;
  return ISA_NENGINES;
}
static size_t bytes_of(unsigned nseqs) {
  return offsetof(vm_core, eng) + nseqs * sizeof(vm_engine);
}

/* The next core of r, with that memory; NULL: out of memory. */
static vm_core *add_core(vm_run *r, const vm_memory *mem) {
  unsigned nseqs = sequencers_of(&r->prog->cores[r->n]);
  vm_core *c = vm_pool_take_state(r->pool, &r->al, bytes_of(nseqs), true);
  if (!c) return NULL;
  c->nseqs = nseqs;
  c->number = (uint8_t)r->n;
  c->run = r;
  c->al = r->al;
  c->prog = r->prog;
  c->target = r->prog->target;
  c->code = &r->prog->cores[c->number];
  c->cost = r->cost_values;
  c->mem = *mem;
  r->cores[r->n++] = c;
  return c;
}

isa_status vm_run_start(vm_run *r, const vm_host *h, const isa_program *p, const vm_memory *mem,
                        isa_error *e) {
  r->al = h->al;
  r->prog = p;
  r->kern = *h->kern;
  r->stack = h->stack;
  r->threads = h->threads;
  r->pool = h->pool;
  /* The run's own hold, dropped by vm_run_end. */
  vm_pool_hold(r->pool);
  r->batch = mem[0].batch;
  /* An empty ring of items. */
  r->items.next = r->items.prev = &r->items;
  r->until_clock = 1;
  isa_buf_init(&r->fault.insn, &r->al);
  isa_buf_init(&r->fault.text, &r->al);
  /* Options of the machine may change them afterwards. */
  for (unsigned i = 0; i < VM_NCOSTS; i++)
    r->cost_values[i] = vm_cost_rows[i].value[p->target->gen - ISA_GEN2];
  isa_status s = place_tensors(r, h->given);
  for (unsigned i = 0; i < p->ncores && s == ISA_OK; i++)
    if (!add_core(r, &mem[i])) s = ISA_NOMEM;
  if (s == ISA_OK && !vm_stack_join(r)) {
    isa_fail(e, ISA_ARG, ISA_NOFIELD, "the stack of HBM serves other cores already");
    s = ISA_ARG;
  }
  for (unsigned i = 0; i < p->ncores && s == ISA_OK; i++) {
    s = start_core(r->cores[i], h->cvt, e);
    /* With rings of descriptors. */
    r->hbm_bytes = r->stack->addresses->used;
  }
  if (s == ISA_LIMIT) isa_fail(e, s, ISA_NOFIELD, "%s", isa_buf_str(&r->stack->addresses->refused));
  if (s == ISA_NOMEM) isa_fail(e, s, ISA_NOFIELD, "out of host memory while placing the program");
  if (s != ISA_OK) vm_run_end(r);
  return s;
}

void vm_run_delay(vm_run *r, vm_time by) {
  for (unsigned i = 0; i < r->n; i++) {
    /* Before anything has run, all events are at time 0. */
    vm_events *v = &r->cores[i]->events;
    for (uint32_t k = 0; k < v->n; k++) v->v[v->first + k].time += by;
  }
}

/* ---- End ---------------------------------------------------------------------------------- */

static void unlink_items(vm_run *r) {
  vm_item *head = &r->items;
  for (vm_item *it = head->next, *next; it && it != head; it = next) {
    /* An item's blocks are its core's. */
    next = it->next;
    vm_item_unlink(r->cores[it->core], it);
  }
}

static void free_tensors(vm_run *r) {
  for (uint32_t i = 0; r->blocks && i < r->prog->ntensors; i++) {
    /* A result has the bytes of a lent block, the caller those of a borrowed one. */
    vm_block *b = &r->blocks[i];
    if (b->pieces) isa_free(&r->al, b->pieces, (vm_pieces_of(b->bytes) + 1) * sizeof *b->pieces);
    if (!b->borrowed && !b->lent)
      vm_pool_give(r->timing_only ? NULL : r->pool, &r->al, b->data, b->bytes);
  }
  if (r->blocks) isa_free(&r->al, r->blocks, r->prog->ntensors * sizeof *r->blocks);
}

static void end_core(vm_core *c) {
  vm_run *r = c->run;
  vm_dma_free(c);
  for (unsigned e = 0; e < c->nseqs; e++) {
    isa_free(&c->al, c->uops[e], c->code->code[e].n * sizeof(vm_uop));
    isa_free(&c->al, c->eng[e].ran, c->code->code[e].n * sizeof *c->eng[e].ran);
    vm_pool_give(r->pool, &c->al, c->eng[e].flights, FLIGHTS_BYTES);
    vm_keep_free(c, e);
  }
  vm_cc_unload(c);
  isa_free(&c->al, c->events.v, c->events.cap * sizeof *c->events.v);
  vm_pool_give(r->pool, &r->al, c, bytes_of(c->nseqs));
}

void vm_run_end(vm_run *r) {
  /* Items first: their blocks refer to cores. */
  unlink_items(r);
  vm_run_release(r);
  if (r->n) {
    vm_path_free(r->cores[0]);
    vm_tell_end(r->cores[0]);
  }
  for (unsigned i = r->n; i-- > 0;) end_core(r->cores[i]);
  free_tensors(r);
  isa_buf_free(&r->fault.insn);
  isa_buf_free(&r->fault.text);
  vm_pool_drop(r->pool);
}
