/* A core's memories, and the start and end of a run. */
#include "engine.h"
#include "../time/clock.h"
#include "../dma/dma.h"
#include "../check/check.h"

#include "../dma/hbm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Blocks from here on come from the kernel, which gives pages as they are touched. */
enum { MAP_FROM = 1 << 19 };
/* A tensor of this to that size may come in huge pages: the first touches of small ones take as
 * long as all that a program does with it. A larger one may be meant to stay mostly untouched. */
enum { HUGE_FROM = 4 << 20, HUGE_TO = 256 << 20 };
/* Added to the host bytes of a partition: a pitch that is a multiple of 4 KiB makes partitions
 * collide in the cache (measured: up to eight times slower on narrow tiles). */
enum { PITCH_PAD = 576 };

static bool is_mapped(const isa_alloc *al, uint64_t n) {
  return n >= MAP_FROM && al->fn == isa_alloc_default().fn;
}

void *vm_pages_new(const isa_alloc *al, uint64_t n) {
  if (n > SIZE_MAX / 2) return NULL;
  if (!is_mapped(al, n)) return isa_zalloc(al, n ? (size_t)n : 1);
  void *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void *vm_tensor_new(const isa_alloc *al, uint64_t n) {
  void *p = vm_pages_new(al, n);
#ifdef MADV_HUGEPAGE
  if (p && is_mapped(al, n) && n >= HUGE_FROM && n <= HUGE_TO) madvise(p, (size_t)n, MADV_HUGEPAGE);
#endif
  return p;
}

void vm_pages_free(const isa_alloc *al, void *p, uint64_t n) {
  if (!p) return;
  if (is_mapped(al, n))
    munmap(p, (size_t)n);
  else
    isa_free(al, p, n ? (size_t)n : 1);
}

bool vm_memory_new(const isa_alloc *al, const isa_target *t, vm_memory *out) {
  memset(out, 0, sizeof *out);
  out->sbuf_pitch = t->sbuf_bytes + PITCH_PAD;
  out->psum_pitch = ISA_PSUM_BYTES + PITCH_PAD;
  out->sbuf_size = ISA_PMAX * out->sbuf_pitch;
  out->psum_size = ISA_PMAX * out->psum_pitch;
  out->sbuf = vm_pages_new(al, out->sbuf_size);
  out->psum = vm_pages_new(al, out->psum_size);
  out->work = al->fn(al->ud, NULL, 0, sizeof *out->work);
  out->array = vm_pages_new(al, sizeof *out->array);
  if (out->sbuf && out->psum && out->work && out->array) return true;
  vm_memory_free(al, out);
  return false;
}

void vm_memory_free(const isa_alloc *al, vm_memory *m) {
  vm_pages_free(al, m->sbuf, m->sbuf_size);
  vm_pages_free(al, m->psum, m->psum_size);
  isa_free(al, m->work, sizeof *m->work);
  vm_pages_free(al, m->array, sizeof *m->array);
  memset(m, 0, sizeof *m);
}

/* ---- Start -------------------------------------------------------------------------------- */

/* Address and host memory of a tensor, if it is not given the one or the other. */
static isa_status place_tensor(vm_core *c, const isa_tensor *t, vm_block *b) {
  if (!b->placed) {
    isa_status s = vm_hbm_alloc(c->mem.hbm, t->bytes, VM_HBM_PROGRAM, t->name, c, &b->address);
    if (s != ISA_OK) return s;
  }
  if (b->data) return ISA_OK;
  b->data = vm_tensor_new(&c->al, t->bytes);
  if (!b->data) return ISA_NOMEM;
  b->bytes = t->bytes;
  if (t->data) memcpy(b->data, t->data, (size_t)t->bytes);
  return ISA_OK;
}

static isa_status place_tensors(vm_core *c) {
  const isa_program *p = c->prog;
  isa_status s = ISA_OK;
  if (p->ntensors && !(c->hbm = isa_zalloc(&c->al, p->ntensors * sizeof *c->hbm))) return ISA_NOMEM;
  for (uint32_t i = 0; i < p->ntensors && s == ISA_OK; i++) {
    if (c->mem.given && c->mem.given[i].data) c->hbm[i] = c->mem.given[i];
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
  en->dp.row = c->mem.work->row;
  en->dp.scratch = c->mem.work->scratch;
  if (!code->n) return true;
  c->uops[e] = isa_zalloc(&c->al, code->n * sizeof(vm_uop));
  if (!c->uops[e]) return false;
  for (uint32_t pc = 0; pc < code->n; pc++) c->uops[e][pc] = vm_uop_of(&code->insns[pc]);
  en->uops = c->uops[e];
  if (e == ISA_ENG_sync) /* no data path */
    return true;
  en->flights = c->al.fn(c->al.ud, NULL, 0, VM_FLIGHTS * sizeof(vm_flight));
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
  c->code = &p->cores[0];
  c->kern = *kern;
  c->mem = *mem;
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
    s = c->fault.status;
  }
  if (s == ISA_NOMEM) isa_fail(e, s, ISA_NOFIELD, "out of host memory while placing the program");
  if (s != ISA_OK) vm_core_end(c);
  return s;
}

void vm_core_end(vm_core *c) {
  while (c->items.next && c->items.next != &c->items) vm_item_unlink(c, c->items.next);
  vm_core_release(c);
  vm_dma_free(c);
  vm_path_free(c);
  vm_check_end(c);
  for (uint32_t i = 0; c->hbm && i < c->prog->ntensors; i++)
    if (!c->hbm[i].borrowed) vm_pages_free(&c->al, c->hbm[i].data, c->hbm[i].bytes);
  if (c->hbm) isa_free(&c->al, c->hbm, c->prog->ntensors * sizeof *c->hbm);
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    isa_free(&c->al, c->uops[e], c->code->code[e].n * sizeof(vm_uop));
    isa_free(&c->al, c->eng[e].flights, VM_FLIGHTS * sizeof(vm_flight));
  }
  isa_free(&c->al, c->heap.v, c->heap.cap * sizeof *c->heap.v);
  isa_buf_free(&c->fault.insn);
  isa_buf_free(&c->fault.text);
}
