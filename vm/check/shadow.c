/* Shadows: a byte for each byte of a memory, which says what wrote it. */
#include "check.h"
#include "shadow.h"

#include <string.h>

bool vm_ck_shadow_open(vm_core *c, vm_ck_shadow *s, uint64_t bytes) {
  s->bytes = bytes;
  s->at = vm_pages_new(&c->al, bytes);
  return s->at != NULL;
}

vm_ck_shadow *vm_ck_shadow_tensor(const vm_core *c, const vm_view *v, uint64_t *off) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; k->hbm && i < c->prog->ntensors && v->space == ISA_HBM; i++) {
    /* Tensors lie apart on the host: the difference is small in one only. */
    *off = (uint64_t)(uintptr_t)v->at - (uint64_t)(uintptr_t)c->run->blocks[i].data;
    if (*off < c->run->blocks[i].bytes) return k->hbm[i].at ? &k->hbm[i] : NULL;
  }
  return NULL;
}

/* Bytes of a 64th of a partition. */
static uint64_t part_of(const vm_ck_shadow *s) { return s->bytes / ISA_PMAX / 64 + 1; }

void vm_ck_shadow_touch(vm_ck_shadow *s, uint64_t lo, uint64_t hi) {
  for (uint64_t i = lo / part_of(s); i * part_of(s) < hi && i < 64; i++)
    s->touched |= UINT64_C(1) << i;
}

void vm_ck_shadow_settle(const vm_core *c, const vm_box *b) {
  struct vm_check *k = c->check;
  vm_ck_pay_all(c);
  if (b && b->space == ISA_SBUF) vm_ck_shadow_touch(&k->sbuf[b->core], b->lo, b->hi);
  if (b && b->space == ISA_PSUM) vm_ck_shadow_touch(&k->psum[c->number], b->lo, b->hi);
}

vm_view vm_ck_shadow_of(const vm_core *c, const vm_view *v) {
  struct vm_check *k = c->check;
  vm_view s = *v;
  vm_box b;
  s.at = NULL;
  bool sbuf = v->space == ISA_SBUF;
  vm_ck_shadow *chip = sbuf ? &k->sbuf[v->core] : &k->psum[c->number];
  /* A copy of a source is outside of both memories, and has no shadow. */
  uint64_t off = (uintptr_t)v->at - (uintptr_t)(sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum);
  if (v->space != ISA_HBM && chip->at && off < chip->bytes) {
    s.at = chip->at + off;
    vm_ck_pay(c, v);
    vm_view_box(c, v, &b);
    vm_ck_shadow_touch(chip, b.lo, b.hi);
  }
  const vm_ck_shadow *hbm = vm_ck_shadow_tensor(c, v, &off);
  if (hbm) s.at = hbm->at + off;
  return s;
}

/* SBUF's and PSUM's are the next run's too: first touches of their pages cost more than all that a
 * small program does. */
static bool open_chip(vm_core *c, vm_ck_shadow *s, uint64_t bytes) {
  s->bytes = bytes;
  s->at = vm_pool_take_zeros(c->run->pool, &c->al, bytes);
  return s->at != NULL;
}

static void close_chip(vm_core *c, const vm_ck_shadow *s, uint64_t pitch) {
  if (!s->at) return;
  /* Zeroing all of it would cost more than a new block. */
  uint64_t part = part_of(s);
  for (uint64_t lo = 0, i = 0; lo < pitch; lo += part, i++) {
    size_t n = (size_t)(pitch - lo < part ? pitch - lo : part);
    for (unsigned p = 0; p < ISA_PMAX && (s->touched >> i & 1); p++)
      memset(s->at + p * pitch + lo, 0, n);
  }
  vm_pool_give_zeros(c->run->pool, &c->al, s->at, s->bytes);
}

static bool start_shadows(vm_core *c) {
  struct vm_check *k = c->check;
  const isa_program *p = c->prog;
  bool uninit = vm_ck_has(c, VM_CHECK_UNINIT), own = false;
  for (uint32_t i = 0; i < p->ntiles; i++) own |= p->tiles[i].own;
  /* Three checks use it, each for its own reason. */
  k->shadowed = uninit || (own && vm_ck_has(c, VM_CHECK_OVERLAP) && !c->run->timing_only) ||
                (k->fillers.any && vm_ck_has(c, VM_CHECK_RANGE));
  if (!k->shadowed) return true;
  for (unsigned core = 0; core < p->ncores; core++)
    if (!open_chip(c, &k->sbuf[core], c->mem.sbuf_size) ||
        !open_chip(c, &k->psum[core], c->mem.psum_size))
      return false;
  /* The marks of tiles are only needed if some tile is `own`. */
  return !own || vm_ck_owners_start(c);
}

static void end_shadows(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned core = 0; core < ISA_MAX_CORES; core++) {
    close_chip(c, &k->sbuf[core], c->mem.sbuf_pitch);
    close_chip(c, &k->psum[core], c->mem.psum_pitch);
  }
  if (k->owners) isa_free(&c->al, k->owners, c->prog->ntiles);
  for (uint32_t i = 0; k->hbm && i < c->prog->ntensors; i++) vm_ck_shadow_free(&c->al, &k->hbm[i]);
  isa_free(&c->al, k->hbm, c->prog->ntensors * sizeof *k->hbm);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

enum { BLOCK = 8192, NOTHING = 0, EVERYTHING, SOME, MARKS };

/* Eight bytes at a time, because a save looks at all that was written. */
static const uint64_t ONES = VM_CK_WRITTEN * UINT64_C(0x0101010101010101);

/* How n bytes are saved, of which those from `reach` on are zero. */
static uint8_t kind_of(const uint8_t *at, size_t n, uint64_t reach) {
  uint64_t any = 0, all = reach < n ? 0 : ONES;
  size_t i = 0;
  /* Bytes from `reach` on count as zeros. */
  if (reach < n) n = (size_t)reach;
  for (; i + 8 <= n; i += 8) {
    uint64_t eight = isa_get64(at + i);
    any |= eight;
    all &= eight;
  }
  for (; i < n; i++) {
    any |= at[i];
    all &= at[i] * ONES;
  }
  /* Marks other than written, and not written. */
  if (any & ~ONES) return MARKS;
  /* Mixed blocks take a bit for each byte. */
  return !any ? NOTHING : all == ONES ? EVERYTHING : SOME;
}

/* Bit i of the result is byte i of eight, each 0 or 1. */
static uint8_t pack(const uint8_t *at) {
  /* The product brings bit 0 of each byte into one of the upper eight bits. */
  return (uint8_t)((isa_get64(at) * UINT64_C(0x0102040810204080)) >> 56);
}
static void unpack(uint8_t bits, uint8_t *at) {
  uint64_t each = bits * ONES & UINT64_C(0x8040201008040201); /* bit i in byte i */
  /* A bit that is set carries into bit 7 of its byte. */
  isa_put64(at, (each + 0x7f * ONES) >> 7 & ONES);
}

/* Runs of equal bytes: how many and which. */
static void walk_marks(vm_saver *s, uint8_t *at, size_t n) {
  for (size_t i = 0; i < n && !s->failed;) {
    uint32_t run = 1;
    /* A file has runs; a reader takes them as they come. */
    while (!s->reads && i + run < n && at[i + run] == at[i]) run++;
    uint8_t mark = at[i];
    vm_save_u32(s, &run);
    vm_save_u8(s, &mark);
    if (!vm_saver_need(s, run && run <= n - i, "a block of a shadow is not valid")) return;
    if (s->reads) memset(at + i, mark, run);
    i += run;
  }
}

/* A bit for each of n bytes. */
static void walk_bits(vm_saver *s, uint8_t *at, size_t n) {
  uint8_t bits[BLOCK / 8] = {0};
  size_t whole = n / 8 * 8;
  for (size_t i = 0; i < whole && !s->reads; i += 8) bits[i / 8] = pack(at + i);
  for (size_t i = whole; i < n && !s->reads; i++) bits[i / 8] |= (uint8_t)(at[i] << i % 8);
  vm_saver_bytes(s, bits, (n + 7) / 8);
  for (size_t i = 0; i < whole && s->reads; i += 8) unpack(bits[i / 8], at + i);
  for (size_t i = whole; i < n && s->reads; i++) at[i] = bits[i / 8] >> i % 8 & 1;
}

/* n bytes of a shadow: a bit for each if some are written; runs if tiles own some. Returns whether
 * any are. */
static bool walk_block(vm_saver *s, uint8_t *at, size_t n, uint64_t reach) {
  uint8_t kind = s->reads ? (uint8_t)NOTHING : kind_of(at, n, reach);
  vm_save_u8(s, &kind);
  vm_saver_need(s, kind <= MARKS, "a block of a shadow is not valid");
  if (s->reads && kind == EVERYTHING) memset(at, VM_CK_WRITTEN, n);
  if (kind == MARKS) walk_marks(s, at, n);
  if (kind == SOME) walk_bits(s, at, n);
  return kind != NOTHING;
}

/* *reach: as vm_saver_pages has it. */
void vm_ck_shadow_walk(vm_saver *s, uint8_t *at, uint64_t bytes, uint64_t *reach) {
  for (uint64_t i = 0; i < bytes && !s->failed; i += BLOCK) {
    size_t n = bytes - i < BLOCK ? (size_t)(bytes - i) : BLOCK;
    bool marked = walk_block(s, at + i, n, *reach > i ? *reach - i : 0);
    /* Marks that have been read count as reach, too. */
    if (s->reads && marked && *reach < i + n) *reach = i + n;
  }
}

static void walk_shadows(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_pay_all(c);
  for (unsigned core = 0; k->shadowed && core < c->prog->ncores; core++) {
    uint64_t *reach = vm_ck_core(c, core)->mem.reach; /* marks are where something was written */
    size_t sbuf = c->mem.sbuf_pitch, psum = c->mem.psum_pitch;
    for (unsigned p = 0; p < ISA_PMAX; p++) {
      vm_ck_shadow_walk(s, k->sbuf[core].at + p * sbuf, c->target->sbuf_bytes, &reach[0]);
      vm_ck_shadow_walk(s, k->psum[core].at + p * psum, c->target->psum_bytes, &reach[1]);
    }
    /* Marks that were read lie in reach. */
    vm_ck_shadow_touch(&k->sbuf[core], 0, reach[0]);
    vm_ck_shadow_touch(&k->psum[core], 0, reach[1]);
  }
}

const vm_ck_part vm_ck_part_shadows = {
    .start = start_shadows, .walk = walk_shadows, .end = end_shadows};
