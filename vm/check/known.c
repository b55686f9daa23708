/* What the checks know of the bytes of SBUF and PSUM, so that each is looked at once. A tile of 128
 * rows of 8 KiB is a MiB, and 128 facts: one for each 64 bytes of a row, of all its partitions. */
#include "../engine/engine.h"
#include "check.h"
#include "shadow.h"

enum { BLOCK = 64 }; /* bytes, a bit of a fact each */

struct vm_ck_fact {
  uint64_t bytes;
  uint8_t p0, p1, type; /* of partitions p0 .. p1 - 1 */
};

static vm_ck_facts *facts_of(const vm_core *c, unsigned kind, unsigned space, unsigned core) {
  /* A core's PSUM is only its own. */
  return &c->check->known[kind][space == ISA_PSUM][space == ISA_PSUM ? c->number : core];
}

static bool open(const vm_core *c, vm_ck_facts *f, size_t pitch) {
  /* One more, for the bytes of the last block. */
  f->n = (uint32_t)(pitch / BLOCK + 1);
  f->at = isa_zalloc(&c->al, f->n * sizeof *f->at);
  return f->at != NULL;
}

static bool start_known(vm_core *c) {
  struct vm_check *k = c->check;
  /* Marks of fillers and of owners make `written` more than a bit. */
  bool on[] = {k->shadowed && !k->fillers.any && vm_ck_has(c, VM_CHECK_UNINIT),
               vm_ck_has(c, VM_CHECK_RANGE)};
  for (unsigned kind = 0; kind < VM_CK_KNOWN; kind++)
    for (unsigned core = 0; on[kind] && core < c->prog->ncores; core++)
      if (!open(c, &k->known[kind][0][core], c->mem.sbuf_pitch) ||
          !open(c, &k->known[kind][1][core], c->mem.psum_pitch))
        return false;
  return true;
}

static void end_known(vm_core *c) {
  vm_ck_facts *f = &c->check->known[0][0][0];
  for (size_t i = 0; i < sizeof c->check->known / sizeof *f; i++)
    isa_free(&c->al, f[i].at, f[i].n * sizeof *f[i].at);
}

/* The box of a view in SBUF or PSUM itself, not in a copy; false if it is elsewhere or empty. */
static bool box_of(const vm_core *c, const vm_view *v, vm_box *box) {
  if (!v->at || (v->space != ISA_SBUF && v->space != ISA_PSUM)) return false;
  bool sbuf = v->space == ISA_SBUF;
  const uint8_t *base = sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum;
  /* Copies of sources are host memory elsewhere. */
  if (v->at < base || v->at >= base + (sbuf ? c->mem.sbuf_size : c->mem.psum_size)) return false;
  vm_view_box(c, v, box);
  return box->space != 0 && box->p1 <= ISA_PMAX;
}

/* Whether the partitions of a view follow one another, as its box says. */
static bool is_box(const vm_core *c, const vm_view *v) {
  size_t pitch = v->space == ISA_SBUF ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  return v->num[0] == 1 || v->step[0] == (int64_t)pitch;
}

/* The bytes of block i that lie in lo .. hi - 1. */
static uint64_t bytes_in(uint64_t i, uint64_t lo, uint64_t hi) {
  uint64_t from = lo > i * BLOCK ? lo - i * BLOCK : 0, to = hi - i * BLOCK;
  uint64_t below = to < BLOCK ? (UINT64_C(1) << to) - 1 : UINT64_MAX;
  return below & (UINT64_MAX << from);
}

bool vm_ck_is_known(const vm_core *c, unsigned kind, const vm_view *v, unsigned type) {
  vm_box b;
  /* Off if no array is there. */
  if (!c->check->known[kind][0][0].at || !box_of(c, v, &b) || !is_box(c, v)) return false;
  const vm_ck_facts *f = facts_of(c, kind, b.space, b.core);
  /* Elements must not begin in the middle of one that is known as another type. */
  if (b.lo % v->esize || b.hi > (uint64_t)f->n * BLOCK) return false;
  for (uint64_t i = b.lo / BLOCK; i * BLOCK < b.hi; i++) {
    const vm_ck_fact *fact = &f->at[i];
    if (bytes_in(i, b.lo, b.hi) & ~fact->bytes) return false;
    /* Other partitions of the block may be unknown. */
    if ((type && fact->type != type) || b.p0 < fact->p0 || b.p1 > fact->p1) return false;
  }
  return true;
}

/* A fact and another one about the same block; what does not go together with the newer is lost. */
static void add(vm_ck_fact *fact, uint64_t bytes, unsigned p0, unsigned p1, unsigned type) {
  bool same = fact->type == type && fact->bytes;
  if (same && fact->p0 == p0 && fact->p1 == p1) {
    fact->bytes |= bytes;
    return;
  }
  if (same && fact->p0 <= p0 && fact->p1 >= p1 && !(bytes & ~fact->bytes)) return;
  /* The same bytes of neighbouring partitions: one fact for both. */
  if (same && fact->bytes == bytes && fact->p0 <= p1 && p0 <= fact->p1) {
    if (fact->p0 < p0) p0 = fact->p0;
    if (fact->p1 > p1) p1 = fact->p1;
  }
  /* The newer one is more likely to be asked for. */
  *fact = (vm_ck_fact){bytes, (uint8_t)p0, (uint8_t)p1, (uint8_t)type};
}

void vm_ck_learn(const vm_core *c, unsigned kind, const vm_view *v, unsigned type) {
  vm_box b;
  /* Only dense rows: others do not fill their box. */
  if (!c->check->known[kind][0][0].at || !vm_row_at(v, 0, 0) || !box_of(c, v, &b) || !is_box(c, v))
    return;
  const vm_ck_facts *f = facts_of(c, kind, b.space, b.core);
  if (b.lo % v->esize || b.hi > (uint64_t)f->n * BLOCK) return;
  for (uint64_t i = b.lo / BLOCK; i * BLOCK < b.hi; i++)
    add(&f->at[i], bytes_in(i, b.lo, b.hi), b.p0, b.p1, type);
}

void vm_ck_unlearn(const vm_core *c, unsigned kind, const vm_box *b) {
  if (!c->check->known[kind][0][0].at || (b->space != ISA_SBUF && b->space != ISA_PSUM)) return;
  const vm_ck_facts *f = facts_of(c, kind, b->space, b->core);
  for (uint64_t i = b->lo / BLOCK; i * BLOCK < b->hi && i < f->n; i++)
    /* The partitions are not divided: what touches some of them takes it from all. */
    if (f->at[i].p0 < b->p1 && b->p0 < f->at[i].p1) f->at[i].bytes &= ~bytes_in(i, b->lo, b->hi);
}

void vm_ck_unlearn_view(const vm_core *c, unsigned kind, const vm_view *v) {
  vm_box b;
  if (!c->check->known[kind][0][0].at || !box_of(c, v, &b)) return;
  if (!is_box(c, v)) { /* anywhere in these bytes */
    b.p0 = 0;
    b.p1 = ISA_PMAX;
  }
  vm_ck_unlearn(c, kind, &b);
}

const vm_ck_part vm_ck_part_known = {.start = start_known, .end = end_known};
