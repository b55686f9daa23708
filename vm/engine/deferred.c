#include "deferred.h"

#include <string.h>

/* Bytes of a transfer that take 1 ns; nanoseconds for 1024 elements of instructions that lanes.def
 * does not list, and of a transpose. */
enum { BYTES_NS = 8, WHOLE_NS = 50, TURN_NS = 130 };

/* An instruction that waits. */
typedef struct cut {
  const isa_insn *in;
  const vm_operands *a;
  uint32_t pc;
  uint8_t engine;
  vm_lanes lanes;
} cut;

void vm_deferred_empty(vm_deferred *p) {
  p->n = p->nwide = p->flights = p->parts = p->least = 0;
  p->used = 0;
  p->ns = p->work = 0;
  p->failed = NULL;
  memset(p->engines, 0, sizeof p->engines);
  memset(p->touched, 0, sizeof p->touched);
}

/* ---- Doing it ----------------------------------------------------------------------------- */

static void do_flight(vm_deferred *p, const vm_waiting *w, uint32_t first, uint32_t n, void *room) {
  const cut *x = w->of;
  vm_dp *d = &w->c->eng[x->engine].dp;
  if (vm_run_lanes(d, x->in, x->a, &x->lanes, first, n, room) != VM_FAULT || first) return;
  p->failed = w->c; /* shapes do not fit: every part finds that, one tells it */
  p->at = vm_at_pc(w->c, x->engine, x->pc);
}

static void do_turn(vm_deferred *p, const vm_waiting *w, uint32_t first, uint32_t n, void *room) {
  (void)p, (void)room;
  vm_pe_turn(w->of, first, n);
}

static void move_lanes(vm_deferred *p, const vm_waiting *w, uint32_t first, uint32_t n,
                       void *room) {
  (void)p, (void)room;
  vm_dma_move_lanes(w->c, vm_share_of(w->item), w->p0 + first, w->p0 + first + n);
}

static void move_elements(vm_deferred *p, const vm_waiting *w, uint32_t first, uint32_t n,
                          void *room) {
  (void)p, (void)room;
  const vm_share *s = vm_share_of(w->item);
  uint64_t elems = s->e1 - s->e0, parts = w->p1 - w->p0;
  vm_dma_move_elements(w->c, s, s->e0 + elems * first / parts, s->e0 + elems * (first + n) / parts);
}

void vm_deferred_do_slice(void *job, uint32_t number, void *room) {
  vm_deferred *p = job;
  uint32_t lo = number * p->slice, hi = lo + p->slice;
  for (const vm_waiting *w = p->v; w < p->v + p->n; w++) {
    uint32_t p0 = w->p0 > lo ? w->p0 : lo, p1 = w->p1 < hi ? w->p1 : hi;
    if (p0 < p1) w->fn(p, w, p0 - w->p0, p1 - p0, room);
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
    if (meets_item(w->item, box, writes,
                   own && w->item->is_share && vm_share_of(w->item)->t == own))
      return true;
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
 * first. The tensor engine has none. */
bool vm_deferred_crosses(const vm_deferred *p, const vm_core *c, unsigned e, const vm_flight *f,
                         const vm_lanes *l) {
  bool waits = e != ISA_ENG_tensor && p->engines[c->number] >> e & 1;
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

/* 1024 elements are 8 KiB, read and written. */
uint64_t vm_deferred_work_of(const vm_flight *f) {
  const vm_view *dst = &f->a.MATMUL.dst;
  unsigned ns = vm_lanes_rows[f->in->op].ns;
  if (isa_insn_turns(f->in)) return dst->elems * dst->num[0] * TURN_NS / 1024;
  return vm_deferred_bytes_of(f) * (ns ? ns : WHOLE_NS) / 8192;
}

uint64_t vm_deferred_share_work_of(const vm_share *s) { return s->bytes / BYTES_NS; }

/* n bytes that live as long as the batch is not empty. */
static void *keep(vm_deferred *p, const void *from, size_t n) {
  void *at = p->arena + p->used;
  p->used += (n + 15) / 16 * 16;
  return memcpy(at, from, n);
}

bool vm_deferred_has_room(const vm_deferred *p) {
  size_t most = sizeof(vm_item) + sizeof(vm_operands) + sizeof(cut) + sizeof(vm_turn) + 64;
  return p->n < VM_DEFERRED_ITEMS && p->nwide + VM_ACROSS <= VM_DEFERRED_WIDE &&
         p->used + most <= VM_DEFERRED_ARENA;
}

bool vm_deferred_turn_lanes(const vm_core *c, unsigned e, const vm_flight *f, vm_lanes *l) {
  const vm_view *dst = &f->a.MATMUL.dst;
  const vm_unchanged *from = &c->eng[e].dp.weights->source;
  const uint64_t lo = vm_pe_noted_at(from, c->mem.sbuf, c->mem.sbuf_pitch);
  *l = (vm_lanes){.part = dst->part, .rows = dst->num[0], .least = 1, .straight = true};
  l->ns = vm_deferred_work_of(f);
  l->across[l->nacross++] = (vm_box){.space = ISA_SBUF,
                                     .core = c->number,
                                     .p0 = from->part,
                                     .p1 = from->part + from->rows,
                                     .lo = lo,
                                     .hi = lo + from->bytes};
  return true;
}

void vm_deferred_add_flight(vm_deferred *p, vm_core *c, unsigned e, const vm_flight *f,
                            const vm_lanes *l, const vm_turn *turn) {
  vm_item *it = keep(p, &f->item, sizeof f->item);
  vm_waiting w = {.fn = do_turn, .c = c, .item = it, .p0 = l->part, .p1 = l->part + l->rows};
  for (unsigned i = 0; i < l->nacross; i++) p->wides[p->nwide++] = (vm_wide){.box = l->across[i]};
  if (turn) {
    it->src[it->nsrc++] = l->across[0]; /* not the matmul's operand, but what it reads now */
    w.of = keep(p, turn, sizeof *turn);
  } else {
    cut x = {f->in, keep(p, &f->a, vm_operands_size(f->in->op)), f->pc, (uint8_t)e, *l};
    x.lanes.rounding_count = c->eng[e].dp.rounding_count;
    c->eng[e].dp.rounding_count += l->rounds;
    w.fn = do_flight;
    w.of = keep(p, &x, sizeof x);
  }
  p->v[p->n++] = w;
  p->least = l->least > p->least ? l->least : p->least;
  p->engines[c->number] |= (uint8_t)(1u << e);
  p->first[c->number][e] = (uint16_t)l->part;
  p->ns += l->ns;
  p->work += vm_deferred_work_of(f);
  p->flights++;
  p->parts++;
  note_item(p, it);
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

/* As many parts as have `least` bytes, 16 partitions each: a smaller share is in one slice, which
 * is another one for the next share. */
static void place_parts(const vm_deferred *p, vm_waiting *w, uint64_t bytes, uint64_t least) {
  uint64_t parts = least ? bytes / least * 16 : ISA_PMAX;
  uint32_t n = parts < 1 ? 1 : parts < ISA_PMAX ? (uint32_t)parts : ISA_PMAX;
  w->p0 = 16 * p->n % (ISA_PMAX - n + 1);
  w->p1 = w->p0 + n;
}

void vm_deferred_add_share(vm_deferred *p, vm_core *c, vm_share *s, bool lanes, uint64_t least,
                           bool late) {
  const vm_item *it = &s->item;
  const vm_box *near = in_hbm(&it->src[0]) ? &it->dst[0] : &it->src[0];
  vm_waiting w = {.fn = move_lanes, .c = c, .item = it, .p0 = near->p0, .p1 = near->p1};
  bool first = false;
  w.late = late;
  for (unsigned i = 0; i < it->nsrc; i++)
    if (!lanes || &it->src[i] != near) first |= add_wide(p, &it->src[i], false, s->t);
  for (unsigned i = 0; i < it->ndst; i++)
    if (!lanes || &it->dst[i] != near) first |= add_wide(p, &it->dst[i], true, s->t);
  if (!lanes) {
    w.fn = move_elements;
    place_parts(p, &w, s->bytes, least);
  }
  p->v[p->n++] = w;
  p->parts += first;
  p->ns += vm_deferred_share_work_of(s);
  p->work += vm_deferred_share_work_of(s);
  note_item(p, it);
}
