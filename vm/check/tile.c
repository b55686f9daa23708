/* Tiles that share bytes but are not declared an overlay: the bytes of one are read after another
 * has been written. */
#include "check.h"
#include "shadow.h"

/* Names of an overlay's group are in one arena, but two programs may have been linked. */
static bool declared(const isa_tile *a, const isa_tile *b) {
  const char *x = a->overlay, *y = b->overlay;
  while (x && y && *x && *x == *y) x++, y++;
  return x && y && *x == *y;
}

/* A tile that is `own` is looked at byte by byte (uninit.c). */
static bool allowed(const isa_tile *a, const isa_tile *b) {
  return declared(a, b) || (a->own && b->own);
}

/* The same pairs once more, for core 1. */
static bool for_both(vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = k->npairs;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = n + i;
    if (at == k->cap_pairs &&
        !isa_array_grow(&c->al, &k->pairs, at, &k->cap_pairs, sizeof *k->pairs))
      return false;
    k->pairs[at] = k->pairs[i];
  }
  return true;
}

/* Gives tile i a mark that no earlier tile with shared bytes has. If no mark is left, it shares
 * one. */
static void choose_mark(const isa_program *p, uint8_t *owners, uint32_t i) {
  bool used[VM_CK_ANYONE + 1] = {false};
  unsigned mark = VM_CK_OWNERS;
  /* Marks are few: tiles that do not share bytes may have the same. */
  for (uint32_t j = 0; j < i; j++)
    if (owners[j] && isa_tiles_share(&p->tiles[i], &p->tiles[j])) used[owners[j]] = true;
  while (mark < VM_CK_FILL && used[mark]) mark++;
  owners[i] = (uint8_t)(mark < VM_CK_FILL ? mark : VM_CK_OWNERS + i % (VM_CK_FILL - VM_CK_OWNERS));
}

bool vm_ck_owners_start(vm_core *c) {
  struct vm_check *k = c->check;
  const isa_program *p = c->prog;
  if (!(k->owners = isa_zalloc(&c->al, p->ntiles))) return false;
  for (uint32_t i = 0; i < p->ntiles; i++)
    if (p->tiles[i].own) choose_mark(p, k->owners, i);
  return true;
}

static bool start_tiles(vm_core *c) {
  const isa_program *p = c->prog;
  struct vm_check *k = c->check;
  if (!vm_ck_has(c, VM_CHECK_OVERLAP)) return true;
  for (uint32_t i = 0; i < p->ntiles; i++)
    for (uint32_t j = i + 1; j < p->ntiles; j++) {
      if (!isa_tiles_share(&p->tiles[i], &p->tiles[j]) || allowed(&p->tiles[i], &p->tiles[j]))
        continue;
      if (k->npairs == k->cap_pairs &&
          !isa_array_grow(&c->al, &k->pairs, k->npairs, &k->cap_pairs, sizeof *k->pairs))
        return false;
      k->pairs[k->npairs++] = (vm_ck_tile_pair){.tile = {i + 1, j + 1}};
    }
  return p->ncores < 2 || for_both(c);
}

static void end_tiles(vm_core *c) {
  isa_free(&c->al, c->check->pairs, c->check->cap_pairs * sizeof *c->check->pairs);
}

static void report_overlap(vm_core *c, unsigned e, uint32_t pc, const vm_ck_tile_pair *p,
                           uint32_t read) {
  const isa_tile *tiles = c->prog->tiles;
  vm_finding *f = vm_ck_found(c, VM_CHECK_OVERLAP, e, pc, p->by, p->pc);
  if (!f) return;
  const isa_tile *a = &tiles[read - 1], *b = &tiles[p->written - 1];
  vm_ck_put_place(c, e, pc, &f->text);
  isa_buf_printf(&f->text,
                 ": overlap: tile %s is read after tile %s was written, and they share bytes: %s "
                 "has %u..%u, %s has %u..%u of a partition of %s",
                 a->name, b->name, a->name, a->offset, a->offset + a->bytes - 1, b->name, b->offset,
                 b->offset + b->bytes - 1, isa_space_name(a->space));
  vm_ck_put_insn(c, p->by, p->pc, c->now, &f->text);
  vm_ck_put_insn(c, e, pc, c->now, &f->text);
  isa_buf_puts(&f->text, "\n  fix: place them apart, or declare them an overlay");
}

struct touch {
  vm_core *c;
  unsigned engine, flags;
  uint32_t pc;
};
static void touch(void *ud, const isa_operand *o) {
  const struct touch *t = ud;
  struct vm_check *k = t->c->check;
  const isa_ap *a = o->ap;
  if (!(o->flags & t->flags) || a->space == ISA_HBM || !a->base) return;
  for (uint32_t i = 0; i < k->npairs; i++) {
    /* `.peer` is the other core's tile of that name. */
    vm_ck_tile_pair *p = &k->pairs[(t->c->number ^ a->peer) * k->npairs + i];
    if (p->tile[0] != a->base && p->tile[1] != a->base) continue;
    bool other = t->flags == AP_R && p->written && p->written != a->base;
    if (other && !t->c->prog->tiles[a->base - 1].own)
      report_overlap(t->c, t->engine, t->pc, p, a->base);
    if (t->flags == AP_R) continue;
    p->written = a->base;
    p->by = (uint8_t)t->engine;
    p->pc = t->pc;
  }
}

void vm_ck_tiles_issue(vm_core *c, unsigned e, const isa_insn *in, uint32_t pc) {
  if (c->check->npairs == 0) return;
  unsigned unit = vm_ck_unit(c, e);
  /* Reads first: an instruction reads its tiles before it writes them. */
  struct touch reads = {c, unit, AP_R, pc}, writes = {c, unit, AP_W, pc};
  isa_each_pattern(c->prog, c->code, in, touch, &reads);
  isa_each_pattern(c->prog, c->code, in, touch, &writes);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

static void walk_tiles(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < k->npairs * c->prog->ncores; i++) {
    vm_ck_tile_pair *p = &k->pairs[i];
    vm_save_u32(s, &p->written);
    vm_ck_walk_place(s, c, &p->by, &p->pc);
    vm_saver_need(s, !p->written || p->written == p->tile[0] || p->written == p->tile[1],
                  "a tile that was written does not exist");
  }
}

const vm_ck_part vm_ck_part_tiles = {.start = start_tiles, .walk = walk_tiles, .end = end_tiles};
