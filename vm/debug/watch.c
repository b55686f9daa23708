/* Stops at memory: which bytes an instruction or a share has read or written. Also: what it has
 * written, as numbers. */
#include "../dma/dma.h"
#include "../message.h"
#include "debug.h"

#include <math.h>

/* A region in the host's memory. */
typedef struct place {
  const uint8_t *base; /* byte 0 of partition 0 */
  size_t pitch;        /* bytes between partitions; 0: there is one */
  uint8_t core;        /* whose it is; 0 in HBM */
  vm_region r;
} place;

static place place_of(vm_core *c, const vm_stop *s) {
  const vm_region *r = &s->region;
  /* The bytes are looked at after the stop: what counts as zero must be zero. */
  if (r->space == ISA_HBM) vm_hbm_use_all(c, r->tensor);
  if (r->space == ISA_HBM) return (place){c->run->blocks[r->tensor].data, 0, 0, *r};
  const vm_memory *m = &vm_core_at(c, s->core)->mem;
  if (r->space == ISA_PSUM) return (place){m->psum, m->psum_pitch, s->core, *r};
  return (place){m->sbuf, m->sbuf_pitch, s->core, *r};
}

/* Whether n bytes at `at`, in the same memory as the region, overlap it. */
static bool holds(const place *p, const uint8_t *at, uint64_t n) {
  /* Memory of one space is one stretch on the host: the partition follows from the offset. */
  uint64_t off = (uint64_t)(at - p->base);
  uint64_t part = p->pitch ? off / p->pitch : 0, byte = p->pitch ? off % p->pitch : off;
  return part >= p->r.p0 && part < p->r.p1 && byte < p->r.hi && byte + n > p->r.lo;
}

/* Whether the bytes of a box of an item can overlap it. Boxes of HBM are host addresses. */
static bool box_meets(const place *p, const vm_box *b) {
  const vm_region *r = &p->r;
  /* Another memory, or the other core's. */
  if (b->space != r->space || b->core != p->core) return false;
  if (r->space != ISA_HBM) return b->lo < r->hi && b->hi > r->lo && b->p0 < r->p1 && b->p1 > r->p0;
  uint64_t base = (uint64_t)(uintptr_t)p->base;
  return b->lo < base + r->hi && b->hi > base + r->lo;
}

/* Whether n elements of a walk, from its position on, overlap it. */
static bool walk_meets(const place *p, vm_walk *w, uint64_t n) {
  for (uint64_t m; n; n -= m) {
    m = w->left < n ? w->left : n;
    /* Runs are the fast case: one comparison for all of their elements. */
    if (w->step == w->esize) { /* a dense run lies in one partition */
      if (!w->skipped && holds(p, w->at, m * w->esize)) return true;
    } else {
      for (uint64_t i = 0; i < m && !w->skipped; i++)
        if (holds(p, w->at + (int64_t)i * w->step, w->esize)) return true;
    }
    vm_walk_advance(w, m);
  }
  return false;
}

static bool view_meets(const vm_core *c, const place *p, const vm_view *v) {
  vm_box box;
  vm_walk w;
  if (!v->at || v->elems == 0 || v->num[0] == 0) return false;
  vm_view_box(c, v, &box);
  /* Boxes first: most instructions are far away. */
  if (!box_meets(p, &box)) return false;
  for (uint32_t i = 0; i < v->num[0]; i++) {
    vm_walk_partition(&w, v, i);
    vm_walk_seek(&w, 0);
    if (walk_meets(p, &w, v->elems)) return true;
  }
  return false;
}

static bool is_watch(const vm_stop *s) {
  return s->kind == VM_STOP_WRITE || s->kind == VM_STOP_READ;
}

/* The instruction that engine issued at pc has its result: for stops that count these. */
static void count_done(vm_core *c, const vm_hit *h) {
  for (uint32_t i = 0; i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    if (s->kind != VM_STOP_DONE || s->core != h->where.core || s->engine != h->where.engine ||
        s->pc != h->where.pc)
      /* Counts down to the stop. */
      continue;
    if (s->count && --s->count == 0) vm_debug_hit(c, s, h);
  }
}

/* ---- Instructions ------------------------------------------------------------------------- */

struct looked {
  vm_core *c;
  const place *p;
  uint32_t flag;
  bool met, part;
};
static void look(void *ud, const isa_operand *o, vm_view *v) {
  struct looked *k = ud;
  /* One hit is enough, however many operands touch the region. */
  if (k->met || !(o->flags & k->flag) || !view_meets(k->c, k->p, v)) return;
  k->met = true;
  /* Only a part of such an operand is used (isa/operand.h): the stop says so. */
  k->part = (o->flags & AP_IN_PART) != 0;
}

struct sums {
  const vm_dp *d;
  vm_done *out;
};
/* The least, the largest and the NaNs of what was written; packed types are not numbers. */
static void add_numbers(void *ud, const isa_operand *o, vm_view *v) {
  enum { PIECE = 256 };
  const struct sums *s = ud;
  float x[PIECE];
  /* Types of more than 4 bytes are no numbers here. */
  if (!(o->flags & AP_W) || !v->at || isa_dtypes[v->dtype].lanes > 1 || v->esize > 4) return;
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0, n; i < v->elems; i += n) {
      n = v->elems - i < PIECE ? v->elems - i : PIECE;
      vm_load(s->d, x, v, p, i, (size_t)n);
      for (uint64_t k = 0; k < n; k++) {
        /* min and max skip NaNs by themselves: comparisons with one are false. */
        if (isnan(x[k])) s->out->nans++;
        if (x[k] < s->out->min) s->out->min = x[k];
        if (x[k] > s->out->max) s->out->max = x[k];
      }
      s->out->elements += n;
    }
}

static void tell_flight(vm_core *c, unsigned e, const vm_flight *f) {
  const vm_engine *en = &c->eng[e];
  vm_done d = {.where = vm_at_pc(c, e, f->pc),
               .start = f->item.start,
               .end = f->item.done,
               .waited = c->debug->core[c->number].of_flight[e][f - en->flights],
               .reg = -1,
               /* No register: reg belongs to stops at registers. */
               .min = INFINITY,
               .max = -INFINITY};
  /* A run for times alone has no values. */
  if (!c->run->timing_only) vm_each_view(c, f->in, &f->a, add_numbers, &(struct sums){&en->dp, &d});
  c->debug->done(c->debug->done_ud, &d);
}

static void look_for(vm_core *c, const vm_flight *f, unsigned kind, vm_hit h) {
  for (uint32_t i = 0; i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    if (s->kind != kind) continue;
    place p = place_of(c, s);
    struct looked k = {c, &p, kind == VM_STOP_WRITE ? AP_W : AP_R, false, false};
    vm_each_view(c, f->in, (vm_operands *)&f->a, look, &k);
    h.part = k.part;
    if (k.met) vm_debug_hit(c, s, &h);
  }
}

void vm_debug_issue(vm_core *c, unsigned e, const vm_flight *f) {
  look_for(c, f, VM_STOP_READ, vm_debug_at(c, e, f->pc, f->item.start));
}

void vm_debug_executed(vm_core *c, unsigned e, const vm_flight *f) {
  vm_hit h = vm_debug_at(c, e, f->pc, f->item.start);
  look_for(c, f, VM_STOP_WRITE, h);
  count_done(c, &h);
  if (c->debug->done) tell_flight(c, e, f);
}

void vm_debug_accessed(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  vm_hit h = vm_debug_at(c, e, c->eng[e].pc, c->now);
  for (uint32_t i = 0; i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    if (!is_watch(s) || writes != (s->kind == VM_STOP_WRITE)) continue;
    place p = place_of(c, s);
    if (view_meets(c, &p, v)) vm_debug_hit(c, s, &h);
  }
}

/* ---- Transfers ---------------------------------------------------------------------------- */

static bool share_meets(const place *p, const vm_share *s, bool writes) {
  vm_walk w;
  bool met = false;
  /* An accumulating transfer reads its destination, too. */
  if (writes || s->t->accumulates) {
    vm_dma_walk_dst(s->t, &w);
    vm_walk_seek(&w, s->e0);
    met = box_meets(p, &s->item.dst[0]) && walk_meets(p, &w, s->e1 - s->e0);
  }
  for (unsigned k = 0; !writes && k < s->t->nsrc && !met; k++) {
    const vm_view *v = k ? &s->t->more[k - 1] : &s->t->src;
    /* A source in another memory cannot meet it. */
    if (v->space != p->r.space || v->core != p->core) continue;
    vm_dma_walk_src(s->t, k, &w);
    vm_walk_seek(&w, s->e0);
    met = walk_meets(p, &w, s->e1 - s->e0);
  }
  return met;
}

/* A transfer of c has ended; h: its last share. */
static void transfer_done(vm_core *c, const vm_transfer *t, vm_hit h) {
  const vm_debug *d = c->debug;
  h.where = vm_at_pc(c, t->engine, t->pc);
  count_done(c, &h);
  if (!d->done) return;
  d->done(d->done_ud, &(vm_done){.where = h.where, .start = h.start, .end = h.time, .reg = -1});
}

void vm_debug_ended(vm_core *c, const vm_share *s, vm_where by) {
  vm_hit h = {.where = by, .start = s->item.start, .time = c->now, .from_rank = -1};
  /* A share without bytes touches nothing. */
  for (uint32_t i = 0; i < c->debug->n && s->bytes; i++) {
    vm_stop *k = &c->debug->v[i];
    if (!is_watch(k)) continue;
    place p = place_of(c, k);
    if (share_meets(&p, s, k->kind == VM_STOP_WRITE)) vm_debug_hit(c, k, &h);
  }
  const vm_transfer *t = s->t, *twin = t->twin;
  if (t->left > 1 || t->piece + 1 < t->pieces) return; /* the last share ends it, */
  if (twin && twin->left) return;                      /* of a sendrecv the last one of both */
  transfer_done(c, t, h);
  if (twin) transfer_done(vm_core_at(c, t->met.core), twin, h);
}

/* ---- Messages of other ranks -------------------------------------------------------------- */

void vm_debug_arrive(vm_core *c, const struct vm_parcel *p, const vm_view *v) {
  const vm_message *m = &p->m;
  vm_hit h = {.where = {.engine = (int16_t)m->engine, .dma = -1, .core = m->core, .pc = m->pc},
              .start = c->now,
              .time = c->now,
              .from_rank = (int32_t)m->src};
  for (uint32_t i = 0; v && i < c->debug->n; i++) {
    vm_stop *s = &c->debug->v[i];
    /* A message only writes. */
    if (s->kind != VM_STOP_WRITE) continue;
    place at = place_of(c, s);
    vm_box box;
    vm_walk w;
    vm_dma_box_of(c, v, m->first, m->first + m->n, &box);
    if (!box_meets(&at, &box)) continue;
    vm_walk_open(&w, v, NULL, 0);
    vm_walk_seek(&w, m->first);
    if (walk_meets(&at, &w, m->n)) vm_debug_hit(c, s, &h);
  }
}
