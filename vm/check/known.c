/* What the checks know of the bytes of SBUF and PSUM, so that each is looked at once. A tile of 128
 * rows of 8 KiB is a MiB, and 128 facts: one for each 64 bytes of a row, of all its partitions.
 *
 * Marks of whole rows are only noted here. For example a tile is written and read, as most are: no
 * byte of the shadow is touched. When its rows are read in another way, the facts are paid: their
 * marks go into the shadow, which then is the truth again. */
#include "../engine/engine.h"
#include "check.h"
#include "shadow.h"

enum { BLOCK = 64 }; /* bytes, a bit of a fact each */

/* A bit for each partition: the shares of a load come in any order. */
typedef struct parts {
  uint64_t of[2];
} parts;

struct vm_ck_fact {
  uint64_t bytes;
  parts p; /* it is of these partitions */
  uint8_t type;
  bool owed; /* the shadow's bytes do not say so yet */
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

static parts parts_of(const vm_box *b) {
  parts p;
  for (unsigned h = 0; h < 2; h++) {
    unsigned lo = b->p0 > h * 64 ? b->p0 - h * 64 : 0, hi = b->p1 > h * 64 ? b->p1 - h * 64 : 0;
    uint64_t below = hi < 64 ? (UINT64_C(1) << hi) - 1 : UINT64_MAX;
    p.of[h] = lo < 64 ? below & (UINT64_MAX << lo) : 0;
  }
  return p;
}

static bool have(parts a, parts b) { /* all of b */
  return !(b.of[0] & ~a.of[0]) && !(b.of[1] & ~a.of[1]);
}

static bool are_same(parts a, parts b) { return a.of[0] == b.of[0] && a.of[1] == b.of[1]; }

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
  parts p = parts_of(&b);
  for (uint64_t i = b.lo / BLOCK; i * BLOCK < b.hi; i++) {
    const vm_ck_fact *fact = &f->at[i];
    if (bytes_in(i, b.lo, b.hi) & ~fact->bytes) return false;
    /* Other partitions of the block may be unknown. */
    if ((type && fact->type != type) || !have(fact->p, p)) return false;
  }
  return true;
}

/* ---- Marks that are owed ------------------------------------------------------------------- */

/* The bytes of `bits` of a row of a shadow get this mark. */
static void put_bits(uint8_t *at, uint64_t bits, uint8_t mark) {
  for (unsigned i = 0; i < BLOCK && bits >> i; i++)
    if (bits >> i & 1) at[i] = mark;
}

/* Pays n blocks from i on, whose facts are alike. */
static void pay_alike(const vm_ck_facts *f, vm_ck_shadow *s, size_t pitch, uint32_t i, uint32_t n) {
  const vm_ck_fact fact = f->at[i];
  vm_ck_shadow_touch(s, (uint64_t)i * BLOCK, (uint64_t)(i + n) * BLOCK);
  for (unsigned p = 0; p < ISA_PMAX; p++) {
    uint8_t *at = s->at + p * pitch + (size_t)i * BLOCK;
    if (!(fact.p.of[p / 64] >> p % 64 & 1)) continue;
    if (fact.bytes == UINT64_MAX)
      memset(at, fact.type, (size_t)n * BLOCK);
    else
      put_bits(at, fact.bytes, fact.type);
  }
  for (uint32_t k = i; k < i + n; k++) f->at[k].owed = false;
}

static bool are_alike(const vm_ck_fact *a, const vm_ck_fact *b) {
  return b->owed && a->bytes == UINT64_MAX && b->bytes == UINT64_MAX && are_same(a->p, b->p) &&
         a->type == b->type;
}

static void pay(const vm_core *c, unsigned space, unsigned core, uint64_t i, uint64_t end) {
  vm_ck_facts *f = facts_of(c, VM_CK_IS_WRITTEN, space, core);
  bool sbuf = space == ISA_SBUF;
  vm_ck_shadow *s = sbuf ? &c->check->sbuf[core] : &c->check->psum[c->number];
  if (i < f->owed) i = f->owed;
  if (end > f->owed_end) end = f->owed_end;
  while (i < end) {
    uint32_t n = 1;
    while (f->at[i].owed && i + n < end && are_alike(&f->at[i], &f->at[i + n])) n++;
    if (f->at[i].owed)
      pay_alike(f, s, sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch, (uint32_t)i, n);
    i += n;
  }
}

void vm_ck_pay(const vm_core *c, const vm_view *v) {
  vm_box b;
  if (!c->check->known[VM_CK_IS_WRITTEN][0][0].at) return;
  if (box_of(c, v, &b))
    pay(c, b.space, b.core, b.lo / BLOCK, (b.hi + BLOCK - 1) / BLOCK);
  else
    vm_ck_pay_all(c);
}

void vm_ck_pay_all(const vm_core *c) {
  for (unsigned core = 0; core < c->run->n; core++)
    for (unsigned psum = 0; psum < 2; psum++) {
      const vm_core *of = vm_ck_core(c, core);
      vm_ck_facts *f = &c->check->known[VM_CK_IS_WRITTEN][psum][core];
      if (!f->at || f->owed >= f->owed_end) continue;
      pay(of, psum ? ISA_PSUM : ISA_SBUF, core, 0, f->n);
      f->owed = f->owed_end = 0;
    }
}

/* ---- Facts --------------------------------------------------------------------------------- */

/* Joins one more to the fact about the same block; false: the two do not go together. */
static bool join(vm_ck_fact *fact, const vm_ck_fact *more) {
  if (!fact->bytes || fact->type != more->type) return false;
  /* It says so already. */
  if (have(fact->p, more->p) && !(more->bytes & ~fact->bytes)) return true;
  /* One fact is a rectangle: bytes of some partitions. */
  if (are_same(fact->p, more->p)) {
    fact->bytes |= more->bytes;
  } else if (fact->bytes == more->bytes) {
    for (unsigned h = 0; h < 2; h++) fact->p.of[h] |= more->p.of[h];
  } else {
    return false;
  }
  fact->owed |= more->owed;
  return true;
}

/* The box of a view that fills it, and the facts about it; NULL: it cannot be known as a whole. */
static vm_ck_facts *facts_about(const vm_core *c, unsigned kind, const vm_view *v, vm_box *b) {
  /* Only dense rows: others do not fill their box. */
  if (!c->check->known[kind][0][0].at || !vm_row_at(v, 0, 0) || !box_of(c, v, b) || !is_box(c, v))
    return NULL;
  vm_ck_facts *f = facts_of(c, kind, b->space, b->core);
  /* A part of an operand has fewer elements than its box. */
  bool fills = b->hi - b->lo == (uint64_t)v->elems * v->esize;
  return fills && b->lo % v->esize == 0 && b->hi <= (uint64_t)f->n * BLOCK ? f : NULL;
}

void vm_ck_learn(const vm_core *c, unsigned kind, const vm_view *v, unsigned type) {
  vm_box b;
  const vm_ck_facts *f = facts_about(c, kind, v, &b);
  if (!f) return;
  /* What is lost of other facts must not be owed. */
  if (kind == VM_CK_IS_WRITTEN) vm_ck_pay(c, v);
  vm_ck_fact more = {.p = parts_of(&b), .type = (uint8_t)type};
  for (uint64_t i = b.lo / BLOCK; i * BLOCK < b.hi; i++) {
    more.bytes = bytes_in(i, b.lo, b.hi);
    /* The newer one is more likely to be asked for. */
    if (!join(&f->at[i], &more)) f->at[i] = more;
  }
}

bool vm_ck_owe(const vm_core *c, const vm_view *v, unsigned mark) {
  vm_box b;
  vm_ck_facts *f = facts_about(c, VM_CK_IS_WRITTEN, v, &b);
  if (!f) return false;
  uint64_t from = b.lo / BLOCK, end = (b.hi + BLOCK - 1) / BLOCK;
  vm_ck_fact more = {.p = parts_of(&b), .type = (uint8_t)mark, .owed = true};
  for (uint64_t i = from; i < end; i++) {
    vm_ck_fact *fact = &f->at[i];
    more.bytes = bytes_in(i, b.lo, b.hi);
    bool over = !(fact->bytes & ~more.bytes) && have(more.p, fact->p);
    if (!over && join(fact, &more)) continue;
    /* What the new fact does not cover stays marked as the old one says. */
    if (!over) pay(c, b.space, b.core, i, i + 1);
    *fact = more;
  }
  if (f->owed >= f->owed_end) {
    f->owed = (uint32_t)from;
    f->owed_end = (uint32_t)end;
  }
  if (from < f->owed) f->owed = (uint32_t)from;
  if (end > f->owed_end) f->owed_end = (uint32_t)end;
  return true;
}

void vm_ck_unlearn(const vm_core *c, unsigned kind, const vm_box *b) {
  if (!c->check->known[kind][0][0].at || (b->space != ISA_SBUF && b->space != ISA_PSUM)) return;
  const vm_ck_facts *f = facts_of(c, kind, b->space, b->core);
  if (kind == VM_CK_IS_WRITTEN) pay(c, b->space, b->core, b->lo / BLOCK, b->hi / BLOCK + 1);
  parts p = parts_of(b);
  for (uint64_t i = b->lo / BLOCK; i * BLOCK < b->hi && i < f->n; i++)
    /* The partitions are not divided: what touches some of them takes it from all. */
    if ((f->at[i].p.of[0] & p.of[0]) | (f->at[i].p.of[1] & p.of[1]))
      f->at[i].bytes &= ~bytes_in(i, b->lo, b->hi);
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
