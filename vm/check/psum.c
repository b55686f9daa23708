/* PSUM: accumulation where no matmul has started a group, and values that were read before their
 * group was complete. There is a shadow byte for each fp32 slot. */
#include "check.h"
#include "shadow.h"

#include <string.h>

enum {
  WAS_READ = 1, /* since the group was started */
  FOREIGN = 2,  /* last written by an engine other than tensor */
  ZEROED = 4,   /* a psum_zero has covered it since then */
  HELD = 8,     /* holds a sum of matmuls: a bit for each half that was written last */
  BANKS = ISA_PSUM_BYTES / ISA_PSUM_BANK
};

/* The flags and the tile of a slot. */
typedef struct sum {
  uint8_t flags;
  uint16_t tile;
} sum;

/* A row of a bank, 512 slots. A matmul mostly writes all of it, and an engine reads it all: then
 * this is all that changes, and the arrays have what was there before. */
typedef struct vm_ck_row {
  uint16_t lo, n; /* slots lo .. lo + n - 1 are alike; 0: the arrays have all */
  sum all;
  bool touched; /* the arrays have something here */
} vm_ck_row;

enum { ARRAYS = 3 * VM_PSUM_SLOTS, ROWS = VM_PSUM_SLOTS / VM_BANK_SLOTS };

bool vm_ck_psum_start(vm_core *c) {
  for (unsigned core = 0; vm_ck_has(c, VM_CHECK_PSUM) && core < c->prog->ncores; core++) {
    vm_ck_banks *k = &c->check->banks[core];
    /* The next run's too: to touch pages for the first time takes longer than to use them. */
    k->slots = vm_pool_take_zeros(c->run->pool, &c->al, ARRAYS);
    k->rows = isa_zalloc(&c->al, ROWS * sizeof *k->rows);
    if (!k->slots || !k->rows) return false;
    for (unsigned i = 0; i < 2; i++) k->tiles[i] = k->slots + (i + 1) * VM_PSUM_SLOTS;
  }
  return true;
}

static void clear_arrays(const vm_ck_banks *k) {
  uint8_t *const arrays[] = {k->slots, k->tiles[0], k->tiles[1]};
  for (size_t r = 0; k->rows && r < ROWS; r++)
    for (unsigned i = 0; k->rows[r].touched && i < 3; i++)
      memset(arrays[i] + r * VM_BANK_SLOTS, 0, VM_BANK_SLOTS);
}

void vm_ck_psum_end(vm_core *c) {
  for (unsigned core = 0; core < ISA_MAX_CORES; core++) {
    const vm_ck_banks *k = &c->check->banks[core];
    if (k->slots) clear_arrays(k);
    vm_pool_give_zeros(c->run->pool, &c->al, k->slots, ARRAYS);
    isa_free(&c->al, k->rows, ROWS * sizeof *k->rows);
  }
}

static vm_ck_banks *banks_of(const vm_core *c) { return &c->check->banks[c->number]; }

static void put_sums(const vm_ck_banks *k, uint32_t slot, uint32_t n, sum of) {
  memset(k->slots + slot, of.flags, n);
  memset(k->tiles[0] + slot, of.tile & 255, n);
  memset(k->tiles[1] + slot, of.tile >> 8, n);
}

/* The arrays have what is known of the row. */
static void settle(vm_ck_banks *k, uint32_t row) {
  vm_ck_row *r = &k->rows[row];
  if (r->n) put_sums(k, row * VM_BANK_SLOTS + r->lo, r->n, r->all);
  r->n = 0;
  r->touched = true;
}

/* What is known of exactly these slots; NULL: nothing, and the arrays have them. */
static vm_ck_row *row_of(vm_ck_banks *k, uint32_t slot, uint32_t n) {
  vm_ck_row *r = &k->rows[slot / VM_BANK_SLOTS];
  if (r->n == n && r->lo == slot % VM_BANK_SLOTS) return r;
  settle(k, slot / VM_BANK_SLOTS);
  return NULL;
}

/* ---- Slots -------------------------------------------------------------------------------- */

static uint32_t slot_of(const vm_core *c, const uint8_t *at) {
  size_t byte = (size_t)(at - c->mem.psum), part = byte / c->mem.psum_pitch;
  return (uint32_t)vm_psum_slot(part, byte % c->mem.psum_pitch);
}

/* n slots of a dense row from element i on, a bank at most; 0 if its elements are narrower and
 * begin or end in the middle of a slot. */
static uint32_t whole_slots(const vm_core *c, const vm_view *v, const uint8_t *row, uint64_t i,
                            uint32_t *slot) {
  const uint8_t *at = row + i * v->esize;
  uint64_t left = (v->elems - i) * v->esize;
  /* Narrow elements must fill whole slots. */
  if ((v->esize != 4 && v->esize != 2) || left % 4 || (at - c->mem.psum) % 4) return 0;
  *slot = slot_of(c, at);
  /* Up to the end of the bank: slots of the next bank are elsewhere. */
  uint32_t n = VM_BANK_SLOTS - *slot % VM_BANK_SLOTS;
  return n < left / 4 ? n : (uint32_t)(left / 4);
}

/* Calls fn for runs of slots that hold the view's elements; half: the marks of the part of
 * them that the elements take. */
static void each_slot(vm_core *c, const vm_view *v, void *ud,
                      void (*fn)(void *ud, uint32_t slot, uint32_t n, uint8_t half)) {
  if (!v->at || v->space != ISA_PSUM) return;
  for (uint32_t p = 0; p < v->num[0]; p++) {
    const uint8_t *row = vm_row_at(v, p, 0);
    uint64_t i = 0;
    uint32_t slot, n;
    while (row && i < v->elems && (n = whole_slots(c, v, row, i, &slot)) > 0) {
      /* Both halves are marked in turn. */
      if (v->esize == 2) fn(ud, slot, n, 1);
      fn(ud, slot, n, v->esize == 2 ? 2 : VM_BOTH_HALVES);
      i += n * (4u / v->esize);
    }
    /* What is not dense, element by element. */
    for (; i < v->elems; i++) {
      const uint8_t *at = vm_at(v, p, i);
      unsigned half = v->esize == 4 ? VM_BOTH_HALVES : 1u << ((at - c->mem.psum) / 2 & 1);
      fn(ud, slot_of(c, at), 1, (uint8_t)half);
    }
  }
}

/* Whether n slots are the same: mostly they are, and then one look is enough. n: 1 or more. */
static bool are_same(const uint8_t *s, uint32_t n) { return memcmp(s, s + 1, n - 1) == 0; }

static void set_flags(void *ud, uint32_t slot, uint32_t n, uint8_t clear, uint8_t set) {
  vm_ck_row *row = row_of(ud, slot, n);
  if (row) {
    row->all.flags = (uint8_t)((row->all.flags & ~clear) | set);
    return;
  }
  uint8_t *s = ((vm_ck_banks *)ud)->slots + slot;
  /* One store for all, as their flags are equal. */
  if (are_same(s, n)) {
    memset(s, (s[0] & ~clear) | set, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++) s[i] = (uint8_t)((s[i] & ~clear) | set);
}
static void mark_read(void *ud, uint32_t slot, uint32_t n, uint8_t half) {
  (void)half;
  set_flags(ud, slot, n, 0, WAS_READ);
}
static void mark_foreign(void *ud, uint32_t slot, uint32_t n, uint8_t half) {
  (void)half;
  set_flags(ud, slot, n, WAS_READ | ZEROED | HELD * VM_BOTH_HALVES, FOREIGN);
}
/* The sources of a staged flight are views of copies, which have no slots. */
static void note_read(void *ud, const vm_view *v, unsigned flags) {
  vm_core *c = ud;
  if (flags & AP_R) each_slot(c, v, banks_of(c), mark_read);
}

static void note_foreign(void *ud, const vm_view *v, unsigned flags) {
  vm_core *c = ud;
  if (flags & AP_W) each_slot(c, v, banks_of(c), mark_foreign);
}

/* ---- matmul ------------------------------------------------------------------------------- */

typedef struct group {
  vm_core *c;
  const uint8_t *written;
  unsigned acc, tile;
  bool onto_any; /* a matmul may add to what another engine wrote */
  bool no_start, was_read;
  bool unread, used; /* of the sums that it ends, some are not read, some are */
} group;

static sum sum_at(const vm_ck_banks *k, const vm_ck_row *row, uint32_t slot) {
  if (row) return row->all;
  return (sum){k->slots[slot], (uint16_t)(k->tiles[0][slot] | k->tiles[1][slot] << 8)};
}

/* A group ends in a slot. Where another tile wrote it, whose bytes are given away, nobody wants it
 * any more. */
static void end_sum(group *g, sum was, uint8_t half) {
  /* No sum there, or another tile's. */
  if (!(was.flags & HELD * half) || was.tile != g->tile) return;
  g->unread |= !(was.flags & WAS_READ);
  g->used |= was.flags & WAS_READ;
}

static void zero_slots(void *ud, uint32_t slot, uint32_t n, uint8_t half) {
  group *g = ud;
  vm_ck_banks *k = banks_of(g->c);
  const vm_ck_row *row = row_of(k, slot, n);
  for (uint32_t i = 0; i < (row ? 1 : n); i++) end_sum(g, sum_at(k, row, slot + i), half);
  set_flags(banks_of(g->c), slot, n, WAS_READ | FOREIGN | HELD * VM_BOTH_HALVES, ZEROED);
}

/* A matmul writes n slots: those it adds to must belong to a group that nobody has read. */
static void add_slots(void *ud, uint32_t slot, uint32_t n, uint8_t half) {
  group *g = ud;
  vm_ck_banks *k = banks_of(g->c);
  const uint8_t *written = g->written + slot;
  /* Equal flags, tiles and marks: one slot stands for all of them. */
  const vm_ck_row *row = row_of(k, slot, n);
  bool same = row || (are_same(k->slots + slot, n) && are_same(k->tiles[0] + slot, n) &&
                      are_same(k->tiles[1] + slot, n));
  bool alike = same && (g->acc == ISA_ACC_write || are_same(written, n));
  for (uint32_t i = 0; i < (alike ? 1 : n); i++) {
    sum was = sum_at(k, row, slot + i);
    /* Not started by a matmul, or zeroed since. */
    bool unwritten = (was.flags & ZEROED) || (written[i] & half) != half;
    /* It starts a group: what was there ends. */
    if (g->acc == ISA_ACC_write || (g->acc == ISA_ACC_auto && unwritten)) {
      end_sum(g, was, half);
      continue;
    }
    /* Another engine's value is allowed where matmuls may add to it. */
    g->no_start |= was.flags & FOREIGN ? !g->onto_any : unwritten;
    g->was_read |= (was.flags & WAS_READ) && was.tile == g->tile;
  }
  /* From here on the group is this tile's, and unread. */
  vm_ck_row *r = &k->rows[slot / VM_BANK_SLOTS];
  r->lo = (uint16_t)(slot % VM_BANK_SLOTS);
  r->n = (uint16_t)n;
  r->all = (sum){(uint8_t)(HELD * half), (uint16_t)g->tile};
}

static void report_group(vm_core *c, const vm_flight *f, const vm_view *dst, bool no_start) {
  const vm_ck_banks *k = banks_of(c);
  unsigned tensor = vm_ck_unit(c, ISA_ENG_tensor);
  unsigned bank = (unsigned)((size_t)(dst->at - c->mem.psum) % c->mem.psum_pitch / ISA_PSUM_BANK);
  /* No start: there is no reader to name. */
  unsigned reader = no_start ? (unsigned)VM_CK_ENGINES : vm_ck_unit(c, k->reader[bank]);
  vm_finding *r =
      vm_ck_found(c, VM_CHECK_PSUM, tensor, f->pc, reader, no_start ? 0 : k->reader_pc[bank]);
  if (!r) return;
  vm_ck_put_place(c, tensor, f->pc, &r->text);
  isa_buf_puts(&r->text, no_start
                             ? ": psum: a matmul accumulates where no matmul has started a group"
                             : ": psum: a matmul adds to a group that has been read already");
  vm_ck_put_insn(c, tensor, f->pc, f->item.start, &r->text);
  isa_buf_puts(&r->text, "\n    adds to ");
  vm_ck_put_view(c, dst, &r->text);
  if (no_start) {
    isa_buf_puts(&r->text, "\n  fix: the first matmul of a group has acc=write, or acc=auto with "
                           "psum_zero over the group's bytes");
    return;
  }
  vm_ck_put_insn(c, reader, k->reader_pc[bank], k->read_time[bank], &r->text);
  isa_buf_puts(&r->text, "\n  fix: read after the last matmul of the group, or start a new group "
                         "with acc=write");
}

static void report_lost_sum(vm_core *c, const vm_flight *f, const vm_view *dst) {
  unsigned tensor = vm_ck_unit(c, ISA_ENG_tensor);
  vm_finding *r = vm_ck_found(c, VM_CHECK_PSUM, tensor, f->pc, VM_CK_ENGINES, 1);
  if (!r) return;
  vm_ck_put_place(c, tensor, f->pc, &r->text);
  isa_buf_puts(&r->text, ": psum: a matmul starts a group over one that nothing has read");
  vm_ck_put_insn(c, tensor, f->pc, f->item.start, &r->text);
  isa_buf_puts(&r->text, "\n    overwrites ");
  vm_ck_put_view(c, dst, &r->text);
  isa_buf_puts(&r->text, "\n  fix: read the sum before, or add to it with acc=add");
}

/* Gen4 adds to what another engine wrote; and the author of a kernel means it, whose tiles count as
 * written through themselves alone: zeros, or a bias, and matmuls that add to them. */
static bool adds_to_any(const vm_core *c, const vm_view *dst) {
  return c->target->gen >= ISA_GEN4 || (dst->tile && c->prog->tiles[dst->tile - 1].own);
}

static void check_group(vm_core *c, const vm_flight *f, const vm_view *dst, const vm_view *zero,
                        unsigned acc) {
  const vm_dp *d = &c->eng[ISA_ENG_tensor].dp;
  group g = {.c = c,
             .written = d->psum_written,
             .acc = acc,
             .tile = dst->tile,
             .onto_any = adds_to_any(c, dst)};
  each_slot(c, zero, &g, zero_slots);
  each_slot(c, dst, &g, add_slots);
  if (g.unread && !g.used) report_lost_sum(c, f, dst);
  if (g.no_start) report_group(c, f, dst, true);
  if (g.was_read) report_group(c, f, dst, false);
}

static const vm_view *view_of(const vm_flight *f, uint32_t flag) {
  int i = isa_field_of(f->in->op, ISA_K_AP, flag);
  return vm_operand_at(f->in, (vm_operands *)&f->a, (unsigned)i);
}

void vm_ck_psum_execute(vm_core *c, unsigned e, const vm_flight *f) {
  int acc = isa_insn_acc(f->in);
  if (acc >= 0) {
    check_group(c, f, view_of(f, AP_W), view_of(f, AP_FREED),
                isa_insn_turns(f->in) ? (unsigned)ISA_ACC_write : (unsigned)acc);
  } else if (e != ISA_ENG_tensor) {
    if (!f->item.staged) vm_ck_psum_reads(c, e, f);
    /* Another engine writes: no group is there any more. */
    vm_ck_each_operand(c, f, note_foreign, c);
  }
}

void vm_ck_psum_reads(vm_core *c, unsigned e, const vm_flight *f) {
  if (e != ISA_ENG_tensor) vm_ck_each_operand(c, f, note_read, c);
}

/* ---- Banks -------------------------------------------------------------------------------- */

/* Who last read each bank, for the reports. Engines that meet in a bank are not a finding: this
 * only costs time (isa/ways.def), and if they meet in bytes it is a race. */
void vm_ck_psum_issue(vm_core *c, unsigned e, const vm_flight *f) {
  vm_ck_banks *k = banks_of(c);
  for (unsigned i = 0; i < f->item.nsrc; i++) {
    const vm_box *s = &f->item.src[i];
    if (s->space != ISA_PSUM) continue;
    /* A box may touch several banks. */
    for (uint64_t b = s->lo / ISA_PSUM_BANK; b < BANKS && b * ISA_PSUM_BANK < s->hi; b++) {
      k->reader[b] = (uint8_t)e;
      k->reader_pc[b] = f->pc;
      k->read_time[b] = f->item.start;
    }
  }
}

/* ---- In a saved run ------------------------------------------------------------------------ */

void vm_ck_psum_walk(vm_saver *s, vm_core *c) {
  if (!vm_ck_has(c, VM_CHECK_PSUM)) return;
  vm_ck_banks *k = banks_of(c);
  for (uint32_t row = 0; row < ROWS; row++) settle(k, row);
  vm_saver_pages(s, k->slots, VM_PSUM_SLOTS, NULL);
  for (unsigned i = 0; i < 2; i++) vm_saver_pages(s, k->tiles[i], VM_PSUM_SLOTS, NULL);
  for (unsigned b = 0; b < BANKS; b++) {
    uint32_t e = k->reader[b];
    vm_save_below(s, &e, ISA_NENGINES, "engine");
    k->reader[b] = (uint8_t)e;
    vm_ck_walk_pc(s, c, vm_ck_unit(c, e), &k->reader_pc[b]);
    vm_save_time(s, &k->read_time[b]);
  }
}
