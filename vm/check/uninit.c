/* Reads of bytes that nothing has written since load: a shadow byte for each byte of SBUF, PSUM and
 * the HBM tensors that begin without contents, and a bit for each register. Inputs, constants and
 * device tensors count as written. */
#include "check.h"
#include "shadow.h"
#include "../dma/dma.h"

#include <stdio.h>
#include <string.h>

/* ---- Registers ---------------------------------------------------------------------------- */

static void add_pattern(void *ud, const isa_operand *o) {
  uint64_t *reads = ud;
  if (o->ap->size_dim) *reads |= 1ull << o->ap->size_reg;
  for (unsigned i = 0; i < ISA_MAX_DYN; i++)
    if (o->ap->dyn[i].kind == ISA_DYN_reg) *reads |= 1ull << o->ap->dyn[i].reg;
}

/* Registers that an instruction names: rd of those that compute is written, all others are read. */
static void registers_of(const vm_core *c, unsigned e, const isa_insn *in, uint64_t *reads,
                         uint64_t *writes) {
  const isa_form *form = isa_form_of(in->op);
  /* A wait may compare with a register. */
  if (in->wait.cond != ISA_WAIT_none && in->wait.is_reg) *reads |= 1ull << in->wait.value;
  for (unsigned i = 0; i < form->nfields; i++) {
    int reg = isa_field_register(in, &form->fields[i]);
    /* Only rd is written; branches and stores have ra and others. */
    bool written = strcmp(form->fields[i].name, "rd") == 0;
    if (reg >= 0) *(written ? writes : reads) |= 1ull << reg;
  }
  isa_each_operand(c->prog, &c->prog->cores[e >= ISA_NSEQS], in, add_pattern, reads);
}

static bool open_registers(vm_core *c, unsigned e) {
  struct vm_check *k = c->check;
  const isa_code *code = vm_ck_code(c, e);
  if (!code->n) return true;
  k->reads[e] = isa_zalloc(&c->al, code->n * sizeof **k->reads);
  k->writes[e] = isa_zalloc(&c->al, code->n * sizeof **k->writes);
  if (!k->reads[e] || !k->writes[e]) return false;
  for (uint32_t pc = 0; pc < code->n; pc++) {
    registers_of(c, e, &code->insns[pc], &k->reads[e][pc], &k->writes[e][pc]);
    k->read_at_all[e] |= k->reads[e][pc];
  }
  return true;
}

static void report_register(vm_core *c, unsigned e, uint32_t pc, uint64_t missing) {
  vm_finding *f = vm_ck_found(c, VM_CHECK_UNINIT, e, pc, VM_CK_ENGINES, 0);
  unsigned r = 0;
  if (!f) return;
  /* The time of the engine that runs ahead. */
  f->time = vm_ck_engine(c, e)->now; /* the engine may be ahead of the event */
  while (!(missing >> r & 1)) r++;
  vm_ck_put_place(c, e, pc, &f->text);
  isa_buf_printf(&f->text, ": uninit: %s reads register r%u, which nothing has written",
                 vm_ck_name(c, e), r);
  vm_ck_put_insn(c, e, pc, vm_ck_engine(c, e)->now, &f->text);
}

bool vm_check_registers_known(const vm_core *c, unsigned engine) {
  return vm_ck_registers_known(c->check, vm_ck_unit(c, engine));
}

void vm_check_step(vm_core *c, unsigned engine, uint32_t pc) {
  struct vm_check *k = c->check;
  unsigned e = vm_ck_unit(c, engine);
  /* Registers are read before rd is written. */
  uint64_t missing = k->reads[e][pc] & ~k->registers[e];
  if (missing) report_register(c, e, pc, missing);
  k->registers[e] |= k->writes[e][pc];
}

/* ---- Life cycle --------------------------------------------------------------------------- */

/* A tensor that the program reads needs a shadow; for now only its size is set. */
static void note_read(void *ud, uint32_t tensor) {
  const vm_core *c = ud;
  unsigned role = c->prog->tensors[tensor].role;
  /* What the host gives counts as written. */
  if ((role == ISA_TEMP || role == ISA_OUTPUT) && !c->run->blocks[tensor].borrowed)
    c->check->hbm[tensor].bytes = c->run->blocks[tensor].bytes;
}

static bool start_uninit(vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = c->prog->ntensors;
  if (!vm_ck_has(c, VM_CHECK_UNINIT)) return true;
  if (n && !(k->hbm = isa_zalloc(&c->al, n * sizeof *k->hbm))) return false;
  vm_ck_each_tensor(c, AP_R, note_read, c);
  for (uint32_t i = 0; i < n; i++) /* Only what is read needs one. */
    if (k->hbm[i].bytes && !vm_ck_shadow_open(c, &k->hbm[i], k->hbm[i].bytes)) return false;
  for (unsigned e = 0; e < k->nengines; e++)
    if (!open_registers(c, e)) return false;
  return true;
}

static void end_uninit(vm_core *c) {
  struct vm_check *k = c->check;
  for (unsigned e = 0; e < k->nengines; e++) {
    isa_free(&c->al, k->reads[e], vm_ck_code(c, e)->n * sizeof **k->reads);
    isa_free(&c->al, k->writes[e], vm_ck_code(c, e)->n * sizeof **k->writes);
  }
}

static void walk_uninit(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  /* The registers are of no use without the shadows. */
  if (!k->shadowed) return;
  vm_save_u16(s, &k->accumulators);
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u64(s, &k->registers[e]);
}

/* ---- Memory ------------------------------------------------------------------------------- */

enum { PIECE = 1024 }; /* bytes of shadow that are looked at together */

const uint8_t *vm_ck_wrong(const vm_core *c, const uint8_t *at, size_t n, uint8_t owner) {
  bool uninit = vm_ck_has(c, VM_CHECK_UNINIT);
  /* Without `own` a byte is written or it is not. */
  if (!owner) return uninit ? memchr(at, 0, n) : NULL;
  /* Mostly all bytes have the tile's own mark. */
  if (at[0] == owner && memcmp(at, at + 1, n - 1) == 0) return NULL;
  for (size_t i = 0; i < n; i++) /* Fillers count as written here: filler.c follows them. */
    if (at[i] != owner && at[i] < VM_CK_FILL && (at[i] || uninit)) return at + i;
  return NULL;
}

static bool row_written(const vm_view *s, uint32_t p) {
  uint8_t raw[PIECE];
  const uint8_t *row = vm_row_at(s, p, 0);
  /* Dense in the shadow, as in memory. */
  if (row) return !memchr(row, 0, (size_t)s->elems * s->esize);
  size_t step = (size_t)PIECE / s->esize;
  for (uint64_t i = 0; i < s->elems; i += step) {
    size_t n = s->elems - i < step ? (size_t)(s->elems - i) : step;
    vm_load_raw(raw, s, p, i, n);
    if (memchr(raw, 0, n * s->esize)) return false;
  }
  return true;
}

/* The same for a tile that is `own`. */
static bool row_owned(const vm_core *c, const vm_view *s, uint32_t p, uint8_t owner) {
  uint8_t raw[PIECE];
  const uint8_t *row = vm_row_at(s, p, 0);
  if (row) return !vm_ck_wrong(c, row, (size_t)s->elems * s->esize, owner);
  size_t step = (size_t)PIECE / s->esize;
  for (uint64_t i = 0; i < s->elems; i += step) {
    size_t n = s->elems - i < step ? (size_t)(s->elems - i) : step;
    vm_load_raw(raw, s, p, i, n);
    if (vm_ck_wrong(c, raw, n * s->esize, owner)) return false;
  }
  return true;
}

/* Whether what a read finds can be a finding: the shadows may be there for another check. */
static bool tells(const vm_core *c, uint8_t owner) {
  return vm_ck_has(c, VM_CHECK_UNINIT) || (owner && vm_ck_has(c, VM_CHECK_OVERLAP));
}

int64_t vm_ck_unwritten(const vm_core *c, const vm_view *v) {
  if (!v->at || v->elems == 0) return -1;
  uint8_t owner = vm_ck_owner(c, v);
  /* Nothing to say about it. */
  if (!tells(c, owner) || vm_ck_is_known(c, VM_CK_IS_WRITTEN, v, owner)) return -1;
  vm_view s = vm_ck_shadow_of(c, v);
  if (!s.at) return -1;
  for (uint32_t p = 0; p < v->num[0]; p++)
    if (!(owner ? row_owned(c, &s, p, owner) : row_written(&s, p))) return p;
  /* With owners a mark says more than that something has written. */
  if (!c->check->owners || (owner && !c->check->anyone))
    vm_ck_learn(c, VM_CK_IS_WRITTEN, v, vm_ck_mark_of(c, v));
  return -1;
}

static void mark(const vm_core *c, const vm_view *v) {
  uint8_t ones[PIECE];
  uint8_t own = vm_ck_mark_of(c, v);
  /* Marked already, or marked by a fact. */
  if (!v->at || v->elems == 0 || vm_ck_is_known(c, VM_CK_IS_WRITTEN, v, own) ||
      vm_ck_owe(c, v, own))
    return;
  vm_view s = vm_ck_shadow_of(c, v);
  vm_ck_unlearn_view(c, VM_CK_IS_WRITTEN, v);
  memset(ones, own, sizeof ones);
  for (uint32_t p = 0; s.at && p < v->num[0]; p++) {
    uint8_t *row = vm_row_at(&s, p, 0);
    if (row) {
      memset(row, ones[0], (size_t)s.elems * s.esize);
      continue;
    }
    size_t step = (size_t)PIECE / s.esize;
    for (uint64_t i = 0; i < s.elems; i += step)
      vm_store_raw(&s, p, i, ones, s.elems - i < step ? (size_t)(s.elems - i) : step);
  }
}

/* The first byte of partition p of a view that is wrong, as its address in the shadow. */
static const uint8_t *first_unwritten(const vm_core *c, const vm_view *v, int64_t p) {
  vm_view s = vm_ck_shadow_of(c, v);
  for (uint64_t i = 0; i < s.elems; i++) {
    const uint8_t *at = vm_at(&s, (uint32_t)p, i),
                  *hole = vm_ck_wrong(c, at, s.esize, vm_ck_owner(c, &s));
    if (hole) return hole;
  }
  return s.at;
}

/* How far a byte of a shadow of SBUF or PSUM is from its start; *core: whose shadow it is. */
static size_t place_in(const vm_core *c, unsigned space, const uint8_t *at, unsigned *core) {
  const vm_ck_shadow *s = space == ISA_SBUF ? c->check->sbuf : c->check->psum;
  *core = !(at >= s[0].at && at < s[0].at + s[0].bytes);
  return (size_t)(at - s[*core].at);
}

/* "partition 3, byte 64": where a byte of a shadow lies. A byte that nothing has written is also
 * noted, for merge.c. */
static void put_unwritten(const vm_core *c, unsigned space, const uint8_t *hole, vm_finding *f) {
  const struct vm_check *k = c->check;
  bool sbuf = space == ISA_SBUF;
  size_t pitch = sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  /* HBM's shadows are of tensors, and have no partitions. */
  if (space != ISA_HBM) {
    unsigned core;
    size_t at = place_in(c, space, hole, &core);
    isa_buf_printf(&f->text, "; the first%s is in partition %zu, byte %zu",
                   *hole ? "" : " that was not written", at / pitch, at % pitch);
    f->memory = *hole ? 0 : (uint16_t)((core ? 2 + c->prog->ntensors : 0) + (sbuf ? 1 : 2));
    f->part = (uint16_t)(at / pitch);
    f->byte = at % pitch;
    return;
  }
  for (uint32_t i = 0; i < c->prog->ntensors; i++)
    if (k->hbm[i].at && hole >= k->hbm[i].at && hole < k->hbm[i].at + k->hbm[i].bytes) {
      f->memory = *hole ? 0 : (uint16_t)(i + 3);
      f->byte = (uint64_t)(hole - k->hbm[i].at);
      isa_buf_printf(&f->text, "; the first that was not written is byte %zu", (size_t)f->byte);
    }
}

/* A tile through which a byte of sbuf or psum may last have been written: one with that mark. */
static const isa_tile *writer_of(const vm_core *c, unsigned space, const uint8_t *at) {
  const struct vm_check *k = c->check;
  size_t pitch = space == ISA_SBUF ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  if (space == ISA_HBM) return NULL;
  unsigned core;
  size_t place = place_in(c, space, at, &core);
  /* Below VM_CK_OWNERS a mark names no tile. */
  uint8_t mark = *at >= VM_CK_OWNERS ? *at : 0;
  /* The last of the tiles with that mark: later ones overlay earlier ones. */
  for (uint32_t i = c->prog->ntiles; i-- > 0 && k->owners;) {
    const isa_tile *t = &c->prog->tiles[i];
    if (t->space == space && k->owners[i] == mark && place / pitch >= t->part &&
        place / pitch < t->part + t->shape[0] && place % pitch >= t->offset &&
        place % pitch < t->offset + t->bytes)
      return t;
  }
  return NULL;
}

/* Who read what, and the byte of the shadow that is wrong there: 0, or another tile has written it
 * (NULL: it is not known which). */
typedef struct reading {
  vm_core *c;
  unsigned e;
  uint32_t pc;
  vm_time t;
  const char *who;
  uint8_t byte;
  const isa_tile *writer;
} reading;

/* The text up to the bytes that are read; NULL: it was reported before. What another tile has
 * written belongs to `overlap` if only that check is on. */
static vm_finding *report_memory(const reading *r) {
  vm_core *c = r->c;
  /* Without `uninit` only the overlap of tiles is reported. */
  unsigned kind = vm_ck_has(c, VM_CHECK_UNINIT) ? VM_CHECK_UNINIT : VM_CHECK_OVERLAP;
  vm_finding *f = vm_ck_found(c, kind, r->e, r->pc, VM_CK_ENGINES, 0);
  if (!f) return NULL;
  vm_ck_put_place(c, r->e, r->pc, &f->text);
  isa_buf_printf(&f->text, ": %s: %s reads bytes that ", vm_check_name(kind), r->who);
  if (!r->byte)
    isa_buf_puts(&f->text, "nothing has written since load");
  else if (r->writer)
    isa_buf_printf(&f->text, "tile %s has written, through a tile that is `own`", r->writer->name);
  else
    isa_buf_puts(&f->text, "were written through another tile, while its own tile is `own`");
  vm_ck_put_insn(c, r->e, r->pc, r->t, &f->text);
  isa_buf_puts(&f->text, "\n    reads ");
  return f;
}

static void put_fix(const reading *r, isa_buf *out) {
  if (r->byte)
    isa_buf_puts(out, "\n  fix: write the tile before it is read, or do not give away its bytes "
                      "before its last read");
}

static void report_view(reading *r, const vm_view *v, int64_t p) {
  const uint8_t *hole = first_unwritten(r->c, v, p);
  r->byte = *hole;
  r->writer = writer_of(r->c, v->space, hole);
  vm_finding *f = report_memory(r);
  if (!f) return;
  vm_ck_put_view(r->c, v, &f->text);
  put_unwritten(r->c, v->space, hole, f);
  put_fix(r, &f->text);
}

typedef struct flight_reading {
  reading r;
  const vm_flight *f;
} flight_reading;

static void read_operand(void *ud, const vm_view *v, unsigned flags) {
  flight_reading *w = ud;
  reading *r = &w->r;
  int64_t p = flags & AP_R ? vm_ck_unwritten(r->c, v) : -1;
  if (p < 0) return;
  /* Only a part is read, and the part is known by running it. */
  if (!(flags & AP_CHOSEN)) {
    report_view(r, v, p);
    return;
  }
  p = vm_ck_chosen_unwritten(r->c, r->e % ISA_NSEQS, w->f, v, &r->byte);
  r->writer = NULL;
  vm_finding *f = p < 0 ? NULL : report_memory(r);
  if (!f) return;
  vm_ck_put_view(r->c, v, &f->text);
  isa_buf_printf(&f->text, "; what it chooses for row %lld of its destination was %s", (long long)p,
                 r->byte ? "another's" : "not written");
  put_fix(r, &f->text);
}

static void write_operand(void *ud, const vm_view *v, unsigned flags) {
  if (flags & AP_W) mark(ud, v);
}

void vm_ck_uninit_reads(vm_core *c, unsigned e, const vm_flight *f) {
  unsigned unit = vm_ck_unit(c, e);
  flight_reading w = {{c, unit, f->pc, f->item.start, vm_ck_name(c, unit), 0, NULL}, f};
  vm_ck_each_part(c, f, read_operand, &w);
}

/* The accumulator registers of an engine: read or added to before anything has reset them. */
static void check_accumulators(vm_core *c, unsigned engine, const vm_flight *f) {
  struct vm_check *k = c->check;
  unsigned e = vm_ck_unit(c, engine);
  const isa_insn *in = f->in;
  const isa_form *form = isa_form_of(in->op);
  bool reads = isa_ops[in->op].form == ISA_FORM_READ_ACC, adds = reads;
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *fd = &form->fields[i];
    if (fd->kind != ISA_K_ENUM || fd->arg != ISA_SET_CMD) continue;
    unsigned cmd = *(const uint8_t *)isa_member_c(in, fd);
    /* From a reset on, what is read is the sum of what was added. */
    if (cmd == ISA_CMD_reset || cmd == ISA_CMD_reset_reduce || cmd == ISA_CMD_load_reduce)
      k->accumulators |= (uint16_t)(1u << e);
    adds |= cmd == ISA_CMD_reduce;
  }
  if (!adds || (k->accumulators >> e & 1)) return;
  vm_finding *r = vm_ck_found(c, VM_CHECK_UNINIT, e, f->pc, VM_CK_ENGINES, 1);
  if (!r) return;
  vm_ck_put_place(c, e, f->pc, &r->text);
  isa_buf_printf(&r->text, ": uninit: %s %s its accumulators before anything has reset them",
                 vm_ck_name(c, e), reads ? "reads" : "adds to");
  vm_ck_put_insn(c, e, f->pc, f->item.start, &r->text);
  isa_buf_puts(&r->text, "\n  fix: the first reduction has reduce=reset_reduce");
}

void vm_ck_uninit_execute(vm_core *c, unsigned e, const vm_flight *f) {
  if (vm_ck_has(c, VM_CHECK_UNINIT)) check_accumulators(c, e, f);
  /* A staged flight's sources were looked at when they were copied. */
  if (!f->item.staged) vm_ck_uninit_reads(c, e, f);
  if (c->check->fillers.any) vm_ck_fill_execute(c, e, f);
  /* Before the handler runs: it may change what chooses. */
  vm_ck_mark_chosen(c, e, f);
}

void vm_ck_uninit_executed(vm_core *c, unsigned e, const vm_flight *f) {
  /* Those that write only what they choose have marked that. */
  if (!vm_ck_writes_chosen(f->in->op)) vm_ck_each_part(c, f, write_operand, c);
  if (c->check->fillers.any) vm_ck_fill_executed(c, e, f);
}

void vm_ck_uninit_access(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  if (writes) {
    mark(c, v);
    return;
  }
  int64_t p = vm_ck_unwritten(c, v);
  unsigned unit = vm_ck_unit(c, e);
  reading r = {c, unit, c->eng[e].pc, c->now, vm_ck_name(c, unit), 0, NULL};
  if (p >= 0) report_view(&r, v, p);
  if (c->check->fillers.any) vm_ck_fill_access(c, unit, r.pc, v);
}

void vm_ck_uninit_host(vm_core *c, const vm_box *b) {
  bool sbuf = b->space == ISA_SBUF;
  /* What the host writes counts as written by any tile. */
  vm_ck_unlearn(c, VM_CK_IS_WRITTEN, b);
  c->check->anyone = true;
  size_t pitch = sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  vm_ck_shadow *s = sbuf ? &c->check->sbuf[c->number] : &c->check->psum[c->number];
  uint8_t *at = s->at + b->p0 * pitch + b->lo;
  vm_ck_shadow_touch(s, b->lo, b->hi);
  for (unsigned p = b->p0; p < b->p1; p++, at += pitch)
    memset(at, VM_CK_ANYONE, (size_t)(b->hi - b->lo));
}

/* ---- Transfers ---------------------------------------------------------------------------- */

/* A walk over a share's side in the shadow, and its owner; false if the side has none. */
typedef struct walk {
  const vm_core *c;
  vm_walk w;
  uint8_t owner;
  vm_ck_shadow *output; /* whose pieces are marked; NULL: none are kept */
} walk;

static const vm_view *side_of(const vm_transfer *t, int side) {
  return side < 0 ? &t->dst : side ? &t->more[side - 1] : &t->src;
}

/* Without an index, a permutation or pieces. */
static bool is_plain(const vm_transfer *t) { return !t->rows && !t->permuted && t->pieces <= 1; }

static bool open_walk(const vm_core *c, const vm_share *s, int side, walk *w) {
  if (side < 0)
    vm_dma_walk_dst(s->t, &w->w);
  else
    vm_dma_walk_src(s->t, (unsigned)side, &w->w);
  const vm_view *v = side_of(s->t, side);
  /* An index may lead to bytes that are not in the view. */
  if (!is_plain(s->t)) vm_ck_shadow_settle(c, side < 0 ? &s->t->all[0] : NULL);
  vm_view shadowed = vm_ck_shadow_of(c, v);
  uint64_t off;
  /* A tensor without a shadow counts as written. */
  if (!shadowed.at) return false;
  w->c = c;
  w->output = side < 0 ? vm_ck_shadow_tensor(c, v, &off) : NULL;
  /* Only outputs that are never read have pieces. */
  if (w->output && !w->output->whole) w->output = NULL;
  w->owner = vm_ck_owner(c, &shadowed);
  w->w.base = shadowed.at;
  vm_walk_seek(&w->w, s->e0);
  return true;
}

/* A walk over the side whose rows an index gives: rows that it skips are neither read nor written.
 * False if none exists. */
static bool open_guide(const vm_share *s, vm_walk *guide) {
  const vm_transfer *t = s->t;
  if (!t->rows) return false;
  if (t->dst_indexed)
    vm_dma_walk_dst(t, guide);
  else
    vm_dma_walk_src(t, (unsigned)t->src_indexed, guide);
  vm_walk_seek(guide, s->e0);
  return true;
}

/* Calls fn for each run of the share's elements in the shadow; stops when fn returns false. */
static bool each_run(const vm_share *s, walk *of, bool (*fn)(walk *w, uint64_t n)) {
  vm_walk guide, *w = &of->w;
  bool guided = open_guide(s, &guide);
  for (uint64_t e = s->e0; e < s->e1;) {
    uint64_t n = w->left < s->e1 - e ? w->left : s->e1 - e;
    if (guided && guide.left < n) n = guide.left;
    if (!(guided && guide.skipped) && !fn(of, n)) return false;
    e += n;
    /* A seek to the end would leave the last run. */
    if (e >= s->e1) break;
    vm_walk_seek(w, e);
    if (guided) vm_walk_seek(&guide, e);
  }
  return true;
}

/* Whether a whole side of a transfer is known to be written, with that mark. */
static bool side_known(const vm_core *c, const vm_transfer *t, int side, unsigned mark) {
  /* Else a box says more than is moved. */
  return is_plain(t) && vm_ck_is_known(c, VM_CK_IS_WRITTEN, side_of(t, side), mark);
}

/* Leaves the walk at the first byte that is wrong. */
static bool run_written(walk *of, uint64_t n) {
  vm_walk *w = &of->w;
  /* A dense run is looked at as a whole. */
  bool whole = w->step == w->esize;
  size_t each = whole ? (size_t)n * w->esize : w->esize;
  for (uint64_t i = 0; i < (whole ? 1 : n); i++) {
    uint8_t *at = w->at + (int64_t)i * w->step;
    const uint8_t *hole = of->owner ? vm_ck_wrong(of->c, at, each, of->owner) : memchr(at, 0, each);
    if (!hole) continue;
    w->at = at + (hole - at);
    return false;
  }
  return true;
}

static bool mark_run(walk *of, uint64_t n) {
  vm_walk *w = &of->w;
  int mark = of->owner ? of->owner : VM_CK_WRITTEN;
  if (w->step == w->esize) {
    /* Whole pieces are noted without touching the shadow's pages. */
    if (of->output)
      vm_ck_output_write(of->output, w->at, (size_t)n * w->esize);
    else
      memset(w->at, mark, (size_t)n * w->esize);
    return true;
  }
  for (uint64_t i = 0; i < n; i++) memset(w->at + (int64_t)i * w->step, mark, w->esize);
  return true;
}

void vm_ck_uninit_pushed(vm_core *c, const vm_view *v, uint64_t first, uint64_t n) {
  uint64_t off;
  vm_view s = vm_ck_shadow_of(c, v);
  walk w = {.c = c, .output = vm_ck_shadow_tensor(c, v, &off)};
  vm_ck_unlearn_view(c, VM_CK_IS_WRITTEN, v);
  if (v->space != ISA_HBM) { /* the sender does not know the tiles here */
    w.owner = VM_CK_ANYONE;
    c->check->anyone = true;
  }
  if (!s.at) return;
  if (w.output && !w.output->whole) w.output = NULL;
  vm_walk_open(&w.w, &s, NULL, 0);
  w.w.from = 0;
  /* The sender's elements in this rank's tensor. */
  for (uint64_t e = first, left = n, run; left; e += run, left -= run) {
    vm_walk_seek(&w.w, e);
    run = w.w.left < left ? w.w.left : left;
    mark_run(&w, run);
  }
}

bool vm_ck_share_walk(const vm_core *c, const vm_share *s, int side, vm_walk *w, vm_walk *guide) {
  walk of;
  *w = (vm_walk){0};
  if (open_walk(c, s, side, &of)) *w = of.w;
  return open_guide(s, guide);
}

void vm_ck_uninit_move(vm_core *c, const vm_share *s) {
  const vm_transfer *t = s->t;
  walk w;
  char who[104];
  if (c->check->fillers.any) vm_ck_fill_move(c, s);
  if (s->item.staged) return; /* read when it was copied: another may have written there since */
  for (int side = t->accumulates ? -1 : 0; side < t->nsrc; side++) {
    /* Known as a whole: no walk. */
    if (side_known(c, t, side, vm_ck_owner(c, side_of(t, side)))) continue;
    if (!open_walk(c, s, side, &w) || !tells(c, w.owner)) continue;
    if (each_run(s, &w, run_written)) continue;
    const vm_view *v = side_of(t, side);
    snprintf(who, sizeof who, "a transfer of %squeue %.70s", vm_ck_whose(c, c->number),
             c->code->queues[t->queue].name);
    reading r = {c, vm_ck_unit(c, t->engine), t->pc, s->item.start, who, *w.w.at, NULL};
    if (v->space != ISA_HBM) r.writer = writer_of(c, v->space, w.w.at);
    vm_finding *f = report_memory(&r);
    if (!f) continue;
    /* The source of a transpose is named as it lies in memory. */
    if (t->permuted && side == 0)
      vm_ck_put_box(c, &t->whole, &f->text);
    else
      vm_ck_put_view(c, v, &f->text);
    put_unwritten(c, v->space, w.w.at, f);
    put_fix(&r, &f->text);
  }
}

/* Marks of a share that is whole rows of its destination, as a fact; false: it must be marked. */
static bool owe_share(const vm_core *c, const vm_share *s) {
  vm_view v = s->t->dst;
  if (!is_plain(s->t) || v.space == ISA_HBM || !v.elems || s->e0 % v.elems || s->e1 % v.elems)
    return false;
  v.at += (int64_t)(s->e0 / v.elems) * v.step[0];
  v.part = (uint16_t)(v.part + s->e0 / v.elems);
  v.num[0] = (uint32_t)((s->e1 - s->e0) / v.elems);
  return vm_ck_owe(c, &v, vm_ck_mark_of(c, &v));
}

void vm_ck_uninit_moved(vm_core *c, const vm_share *s) {
  walk w;
  /* Marked already, with the same mark. */
  if (!side_known(c, s->t, -1, vm_ck_mark_of(c, &s->t->dst)) && !owe_share(c, s) &&
      open_walk(c, s, -1, &w)) {
    vm_ck_unlearn(c, VM_CK_IS_WRITTEN, &s->t->all[0]);
    each_run(s, &w, mark_run);
  }
  if (c->check->fillers.any) vm_ck_fill_moved(c, s);
}

const vm_ck_part vm_ck_part_uninit = {
    .start = start_uninit, .walk = walk_uninit, .end = end_uninit};
