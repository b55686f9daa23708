/* The start and end of a run. */
#include "engine.h"
#include "../time/clock.h"
#include "../dma/dma.h"
#include "../check/check.h"
#include "../debug/debug.h"

#include "../dma/hbm.h"

#include <string.h>

/* ---- Start -------------------------------------------------------------------------------- */

/* The most tensors of a program among which those with stale bytes are looked for at each
 * transfer. */
enum { SEARCHED = 32 };
/* Kept for the next run: their pages would be touched anew in each. */
enum { FLIGHTS_BYTES = VM_FLIGHTS * sizeof(vm_flight) };

/* Address and host memory of a tensor, unless they are given. */
static isa_status place_tensor(vm_core *c, const isa_tensor *t, vm_block *b) {
  if (!b->placed) {
    isa_status s = vm_hbm_alloc(c->mem.hbm, t->bytes, VM_HBM_PROGRAM, t->name, c, &b->address);
    if (s != ISA_OK) return s;
  }
  if (b->data) return ISA_OK;
  b->bytes = t->bytes;
  bool zero = !t->data && !b->filled;
  if (zero && c->prog->ntensors <= SEARCHED && (b->data = vm_pool_find(c->mem.pool, t->bytes))) {
    b->stale = t->bytes;
    c->stale++;
    return ISA_OK;
  }
  b->data = vm_pool_take(c->mem.pool, &c->al, t->bytes, zero);
  if (!b->data) return ISA_NOMEM;
  if (t->data) memcpy(b->data, t->data, (size_t)t->bytes);
  return ISA_OK;
}

static isa_status place_tensors(vm_core *c) {
  const isa_program *p = c->prog;
  isa_status s = ISA_OK;
  if (c->number) { /* both use the same HBM */
    c->hbm = c->lead->hbm;
    return ISA_OK;
  }
  if (p->ntensors && !(c->hbm = isa_zalloc(&c->al, p->ntensors * sizeof *c->hbm))) return ISA_NOMEM;
  for (uint32_t i = 0; i < p->ntensors && s == ISA_OK; i++) {
    if (c->mem.given) c->hbm[i] = c->mem.given[i];
    s = place_tensor(c, &p->tensors[i], &c->hbm[i]);
  }
  return s;
}

void vm_core_release(vm_core *c) {
  if (c->mem.hbm) vm_hbm_release_all(c->mem.hbm, c);
  c->mem.hbm = NULL;
}

static bool load_engine(vm_core *c, unsigned e) {
  vm_engine *en = &c->eng[e];
  const isa_code *code = &c->code->code[e];
  en->code = code;
  en->state = code->n ? VM_READY : VM_HALTED;
  en->table = -1;
  en->dp.k = &c->kern;
  en->dp.target = c->target;
  en->dp.engine = (uint8_t)e;
  en->dp.psum = c->mem.psum;
  en->dp.psum_pitch = c->mem.psum_pitch;
  vm_dp_lend(&en->dp, c->mem.work->floats);
  en->dp.threads = c->mem.threads;
  if (!code->n) return true;
  c->uops[e] = isa_zalloc(&c->al, code->n * sizeof(vm_uop));
  if (!c->uops[e]) return false;
  for (uint32_t pc = 0; pc < code->n; pc++) c->uops[e][pc] = vm_uop_of(&code->insns[pc]);
  en->uops = c->uops[e];
  en->ran = isa_zalloc(&c->al, code->n * sizeof *en->ran);
  if (!en->ran) return false;
  if (e == ISA_ENG_sync) /* no data path */
    return true;
  en->flights = vm_pool_find(c->mem.pool, FLIGHTS_BYTES);
  if (!en->flights) en->flights = c->al.fn(c->al.ud, NULL, 0, FLIGHTS_BYTES);
  return en->flights != NULL;
}

/* What only the tensor engine has: weights and the marks of PSUM. */
static void load_tensor_engine(vm_core *c) {
  vm_dp *d = &c->eng[ISA_ENG_tensor].dp;
  vm_array *t = c->mem.array;
  if (!c->code->code[ISA_ENG_tensor].n) return;
  if (t->used) memset(t, 0, sizeof *t);
  t->used = true;
  d->weights = &t->weights;
  d->psum_written = t->psum_written;
}

isa_status vm_core_start(vm_core *c, const isa_alloc *al, const isa_program *p,
                         const vm_memory *mem, const vm_kern *kern, unsigned cvt, isa_error *e) {
  c->al = *al;
  c->target = p->target;
  c->prog = p;
  c->code = &p->cores[c->number];
  c->lead = c->number ? c->peer : c;
  c->kern = *kern;
  c->mem = *mem;
  vm_pool_hold(c->mem.pool);
  c->items.next = c->items.prev = &c->items;
  c->until_clock = 1;
  isa_buf_init(&c->fault.insn, al);
  isa_buf_init(&c->fault.text, al);
  for (unsigned i = 0; i < VM_NCOSTS; i++)
    c->cost_values[i] = vm_cost_rows[i].value[p->target->gen - ISA_GEN2];
  c->cost = c->cost_values;
  isa_status s = place_tensors(c);
  if (s == ISA_OK) s = vm_dma_place_rings(c, e);
  if (s == ISA_LIMIT) isa_fail(e, s, ISA_NOFIELD, "%s", isa_buf_str(&mem->hbm->refused));
  c->hbm_bytes = mem->hbm->used;
  for (unsigned i = 0; i < ISA_NENGINES && s == ISA_OK; i++) {
    c->eng[i].dp.cvt = cvt;
    if (!load_engine(c, i)) s = ISA_NOMEM;
  }
  if (s == ISA_OK) load_tensor_engine(c);
  for (unsigned i = 0; i < ISA_NENGINES && s == ISA_OK; i++) {
    if (c->eng[i].state == VM_READY) vm_post(c, VM_E_SEQ, i, 0, 0);
    s = c->lead->fault.status;
  }
  if (s == ISA_NOMEM) isa_fail(e, s, ISA_NOFIELD, "out of host memory while placing the program");
  if (s != ISA_OK) vm_core_end(c);
  return s;
}

static void unlink_items(vm_core *c) {
  vm_item *head = &c->lead->items;
  for (vm_item *it = head->next, *next; it && it != head; it = next) {
    next = it->next;
    if (it->core == c->number) vm_item_unlink(c, it);
  }
}

static void free_tensors(vm_core *c) {
  for (uint32_t i = 0; c->hbm && i < c->prog->ntensors; i++) {
    vm_block *b = &c->hbm[i];
    if (b->pieces) isa_free(&c->al, b->pieces, (vm_pieces_of(b->bytes) + 1) * sizeof *b->pieces);
    if (!b->borrowed && !b->lent) vm_pool_give(c->mem.pool, &c->al, b->data, b->bytes);
  }
  if (c->hbm) isa_free(&c->al, c->hbm, c->prog->ntensors * sizeof *c->hbm);
}

void vm_core_end(vm_core *c) {
  unlink_items(c);
  vm_core_release(c);
  vm_dma_free(c);
  if (!c->number) {
    vm_path_free(c);
    vm_check_end(c);
    vm_debug_end(c);
    free_tensors(c);
  }
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    isa_free(&c->al, c->uops[e], c->code->code[e].n * sizeof(vm_uop));
    isa_free(&c->al, c->eng[e].ran, c->code->code[e].n * sizeof *c->eng[e].ran);
    vm_pool_give(c->mem.pool, &c->al, c->eng[e].flights, FLIGHTS_BYTES);
    vm_keep_free(c, e);
  }
  isa_free(&c->al, c->events.v, c->events.cap * sizeof *c->events.v);
  isa_buf_free(&c->fault.insn);
  isa_buf_free(&c->fault.text);
  vm_pool_drop(c->mem.pool);
}
