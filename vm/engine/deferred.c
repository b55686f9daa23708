#include "deferred.h"

#include <string.h>

/* Bytes of a cut of a share; bytes of a transfer that take 1 ns. */
enum { CUT = 1 << 13, BYTES_NS = 8 };
/* Nanoseconds of 1024 elements of instructions that lanes.def does not list, and of a transpose. */
enum { WHOLE_NS = 50, TURN_NS = 130 };

void vm_deferred_empty(vm_deferred *p) {
  p->n = p->nwide = p->flights = p->parts = p->least = 0;
  p->used = 0;
  p->ns = p->work = 0;
  p->failed = NULL;
  memset(p->engines, 0, sizeof p->engines);
  memset(p->touched, 0, sizeof p->touched);
}

/* ---- Doing it ----------------------------------------------------------------------------- */

/* The part of a share that belongs to slice `number` of n, if it is not cut by partitions. */
static void move_slice(const vm_deferred *p, const vm_waiting *w, uint32_t number, uint32_t n) {
  const vm_share *s = w->share;
  uint64_t elems = s->e1 - s->e0;
  if (s->bytes >= (uint64_t)n * CUT || p->eager)
    vm_dma_move_elements(w->c, s, s->e0 + elems * number / n, s->e0 + elems * (number + 1) / n);
  else if ((size_t)(w - p->v) % n == number)
    vm_dma_move_elements(w->c, s, s->e0, s->e1);
}

void vm_deferred_do_slice(void *job, uint32_t number, void *room) {
  vm_deferred *p = job;
  uint32_t lo = number * p->slice, hi = lo + p->slice;
  for (const vm_waiting *w = p->v; w < p->v + p->n; w++) {
    uint32_t p0 = w->p0 > lo ? w->p0 : lo, p1 = w->p1 < hi ? w->p1 : hi;
    if (w->whole) {
      move_slice(p, w, number, ISA_PMAX / p->slice);
    } else if (p0 >= p1) {
      continue;
    } else if (w->share) {
      vm_dma_move_lanes(w->c, w->share, p0, p1);
    } else if (w->turn) {
      vm_pe_turn(w->turn, p0 - w->p0, p1 - p0);
    } else {
      vm_dp *d = &w->c->eng[w->engine].dp;
      vm_verdict v = vm_run_lanes(d, w->in, w->a, w->lanes, p0 - w->p0, p1 - p0, room);
      if (v == VM_FAULT && p0 == w->p0) p->failed = w;
    }
  }
}

/* ---- What it touches ---------------------------------------------------------------------- */

/* A memory's partitions in 64 pieces: those of a box. */
static uint64_t pieces_of(const vm_box *box) {
  unsigned shift = box->space == ISA_PSUM ? 8 : 12;
  uint64_t lo = box->lo >> shift, hi = (box->hi - 1) >> shift;
  lo = lo < 63 ? lo : 63;
  hi = hi < 63 ? hi : 63;
  return (UINT64_MAX << lo) & (UINT64_MAX >> (63 - hi));
}

static bool in_hbm(const vm_box *box) { return box->space == ISA_HBM; }

static inline void note(vm_deferred *p, const vm_box *box, bool writes) {
  if (!in_hbm(box) && box->lo < box->hi)
    p->touched[box->core][box->space == ISA_PSUM][writes] |= pieces_of(box);
}

static void note_item(vm_deferred *p, const vm_item *it) {
  for (unsigned i = 0; i < it->nsrc; i++) note(p, &it->src[i], false);
  for (unsigned i = 0; i < it->ndst; i++) note(p, &it->dst[i], true);
}

/* Writes of one transfer are of distinct elements: own is the transfer of the box, or NULL. */
static bool meets_wide(const vm_deferred *p, const vm_box *box, bool writes,
                       const vm_transfer *own) {
  for (const vm_wide *w = p->wides; w < p->wides + p->nwide; w++) {
    bool same = writes && w->writes && own && w->of == own;
    if ((writes || w->writes) && !same && vm_box_meet(box, &w->box)) return true;
  }
  return false;
}

static bool meets_item(const vm_item *it, const vm_box *box, bool writes, bool own) {
  for (unsigned i = 0; i < it->ndst && !(writes && own); i++)
    if (vm_box_meet(box, &it->dst[i])) return true;
  for (unsigned i = 0; i < it->nsrc && writes; i++)
    if (vm_box_meet(box, &it->src[i])) return true;
  return false;
}

/* Whether something in the batch writes the box or, if `writes` is set, reads it. */
static bool meets(const vm_deferred *p, const vm_box *box, bool writes, const vm_transfer *own) {
  if (box->lo >= box->hi) return false;
  if (in_hbm(box)) return meets_wide(p, box, writes, own);
  const uint64_t *touched = p->touched[box->core][box->space == ISA_PSUM];
  if (!((touched[1] | (writes ? touched[0] : 0)) & pieces_of(box))) return false;
  for (const vm_waiting *w = p->v; w < p->v + p->n; w++)
    if (meets_item(w->item, box, writes, own && w->share && w->share->t == own)) return true;
  return false;
}

bool vm_deferred_meets(const vm_deferred *p, const vm_item *it, const vm_transfer *own) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (meets(p, &it->dst[i], true, own)) return true;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (meets(p, &it->src[i], false, own)) return true;
  return false;
}

bool vm_deferred_meets_wide(const vm_deferred *p, const vm_item *it, const vm_transfer *own) {
  for (unsigned i = 0; i < it->ndst; i++)
    if (meets_wide(p, &it->dst[i], true, own)) return true;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (meets_wide(p, &it->src[i], false, own)) return true;
  return false;
}

bool vm_deferred_items_meet(const vm_item *a, const vm_item *b) {
  for (unsigned i = 0; i < a->ndst; i++)
    if (meets_item(b, &a->dst[i], true, false)) return true;
  for (unsigned i = 0; i < a->nsrc; i++)
    if (meets_item(b, &a->src[i], false, false)) return true;
  return false;
}

/* An engine's lane p has an accumulator, and works on partition p of an operand, counted from its
 * first. */
bool vm_deferred_crosses(const vm_deferred *p, const vm_core *c, unsigned e, const vm_flight *f,
                         const vm_lanes *l) {
  bool waits = p->engines[c->number] >> e & 1;
  if (waits && p->first[c->number][e] != l->part) return true;
  for (unsigned i = 0; i < l->nacross; i++)
    if (meets(p, &l->across[i], false, NULL)) return true;
  return vm_deferred_meets_wide(p, &f->item, NULL);
}

/* ---- Adding to it ------------------------------------------------------------------------- */

uint64_t vm_deferred_bytes_of(const vm_flight *f) {
  const uint64_t(*bytes)[2] = f->effort.traffic;
  return bytes[0][0] + bytes[0][1] + bytes[1][0] + bytes[1][1];
}

uint64_t vm_deferred_turn_ns(const vm_flight *f) {
  const vm_view *dst = &f->a.MATMUL.dst;
  return dst->elems * dst->num[0] * TURN_NS / 1024;
}

/* 1024 elements are 8 KiB, read and written. */
uint64_t vm_deferred_work_of(const vm_flight *f) {
  unsigned ns = vm_lanes_rows[f->in->op].ns;
  if (isa_insn_turns(f->in)) return vm_deferred_turn_ns(f);
  return vm_deferred_bytes_of(f) * (ns ? ns : WHOLE_NS) / 8192;
}

uint64_t vm_deferred_share_work_of(const vm_share *s) { return s->bytes / BYTES_NS; }

/* n bytes that live as long as the batch is not empty. */
static void *room_for(vm_deferred *p, size_t n) {
  void *at = p->arena + p->used;
  p->used += (n + 15) / 16 * 16;
  return at;
}

static void *keep(vm_deferred *p, const void *from, size_t n) {
  return memcpy(room_for(p, n), from, n);
}

bool vm_deferred_has_room(const vm_deferred *p) {
  size_t most = sizeof(vm_item) + sizeof(vm_operands) + sizeof(vm_lanes) + 64;
  return p->n < VM_DEFERRED_ITEMS && p->nwide + VM_ACROSS <= VM_DEFERRED_WIDE &&
         p->used + most <= VM_DEFERRED_ARENA;
}

static void add_instruction(vm_deferred *p, const vm_flight *f, const vm_waiting *w, uint64_t ns) {
  p->v[p->n++] = *w;
  p->engines[w->c->number] |= (uint8_t)(1u << w->engine);
  p->first[w->c->number][w->engine] = (uint16_t)w->p0;
  p->ns += ns;
  p->work += vm_deferred_work_of(f);
  p->flights++;
  p->parts++;
  note_item(p, w->item);
}

void vm_deferred_add_flight(vm_deferred *p, vm_core *c, unsigned e, const vm_flight *f,
                            vm_lanes *l) {
  l->rounding_count = c->eng[e].dp.rounding_count;
  if (l->rounds) c->eng[e].dp.rounding_count++;
  for (unsigned i = 0; i < l->nacross; i++) p->wides[p->nwide++] = (vm_wide){.box = l->across[i]};
  p->least = l->least > p->least ? l->least : p->least;
  add_instruction(p, f,
                  &(vm_waiting){.c = c,
                                .item = keep(p, &f->item, sizeof f->item),
                                .p0 = l->part,
                                .p1 = l->part + l->rows,
                                .engine = (uint8_t)e,
                                .pc = f->pc,
                                .in = f->in,
                                .a = keep(p, &f->a, vm_operands_size(f->in->op)),
                                .lanes = keep(p, l, sizeof *l)},
                  l->ns);
}

void vm_deferred_add_turn(vm_deferred *p, vm_core *c, unsigned e, const vm_flight *f,
                          const vm_turn *t) {
  const vm_view *dst = &f->a.MATMUL.dst;
  const vm_unchanged *from = &c->eng[e].dp.weights->source;
  const uint64_t lo = vm_pe_noted_at(from, c->mem.sbuf, c->mem.sbuf_pitch);
  const vm_box box = {.space = ISA_SBUF,
                      .core = c->number,
                      .p0 = from->part,
                      .p1 = from->part + from->rows,
                      .lo = lo,
                      .hi = lo + from->bytes};
  vm_item *it = keep(p, &f->item, sizeof f->item);
  it->src[it->nsrc++] = box;
  p->wides[p->nwide++] = (vm_wide){.box = box};
  add_instruction(p, f,
                  &(vm_waiting){.c = c,
                                .item = it,
                                .turn = keep(p, t, sizeof *t),
                                .p0 = dst->part,
                                .p1 = dst->part + dst->num[0],
                                .engine = (uint8_t)e},
                  vm_deferred_turn_ns(f));
}

/* Notes an end of a share; true: the batch had none of that transfer. */
static bool add_wide(vm_deferred *p, const vm_box *box, bool writes, const vm_transfer *of) {
  for (vm_wide *w = p->wides + p->nwide; w-- > p->wides;) {
    if (w->of != of || w->writes != writes || w->box.space != box->space ||
        w->box.core != box->core)
      continue;
    w->box.p0 = w->box.p0 < box->p0 ? w->box.p0 : box->p0;
    w->box.p1 = w->box.p1 > box->p1 ? w->box.p1 : box->p1;
    w->box.lo = w->box.lo < box->lo ? w->box.lo : box->lo;
    w->box.hi = w->box.hi > box->hi ? w->box.hi : box->hi;
    return false;
  }
  p->wides[p->nwide++] = (vm_wide){*box, writes, of};
  return true;
}

static vm_waiting *add_share(vm_deferred *p, vm_core *c, vm_share *s, bool first) {
  vm_waiting *w = &p->v[p->n++];
  w->c = c;
  w->item = &s->item;
  w->share = s;
  p->parts += first;
  p->ns += vm_deferred_share_work_of(s);
  p->work += vm_deferred_share_work_of(s);
  return w;
}

void vm_deferred_add_lanes(vm_deferred *p, vm_core *c, vm_share *s) {
  bool in = s->t->dst.space == ISA_SBUF;
  const vm_box *src = &s->item.src[0], *dst = &s->item.dst[0], *near = in ? dst : src;
  vm_waiting *w = add_share(p, c, s, add_wide(p, in ? src : dst, !in, s->t));
  w->p0 = near->p0;
  w->p1 = near->p1;
  w->whole = false;
  w->late = true;
  note(p, near, in);
}

void vm_deferred_add_whole(vm_deferred *p, vm_core *c, vm_share *s, bool late) {
  const vm_item *it = &s->item;
  bool first = false;
  for (unsigned i = 0; i < it->nsrc; i++) first |= add_wide(p, &it->src[i], false, s->t);
  for (unsigned i = 0; i < it->ndst; i++) first |= add_wide(p, &it->dst[i], true, s->t);
  vm_waiting *w = add_share(p, c, s, first);
  w->whole = true;
  w->late = late;
  note_item(p, it);
}
