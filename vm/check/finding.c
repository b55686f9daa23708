/* Findings: which are kept, and the words for what they name; and which operands and tensors an
 * instruction has. */
#include "../engine/engine.h"
#include "../message.h"
#include "check.h"
#include "judge.h"
#include "shadow.h"

#include <string.h>

uint64_t vm_check_count(const vm_core *c) { return c->check ? c->check->count : 0; }

const vm_finding *vm_check_finding(const vm_core *c, uint32_t i) {
  const struct vm_check *k = c->check;
  return k && i < k->nfindings && i < VM_FINDINGS ? &k->findings[i] : NULL;
}

bool vm_ck_findings_start(vm_core *c) {
  struct vm_check *k = c->check;
  if (!k->findings) k->findings = isa_zalloc(&c->al, VM_KEPT_FINDINGS * sizeof *k->findings);
  return k->findings != NULL;
}

static void end_findings(vm_core *c) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < k->nfindings; i++) isa_buf_free(&k->findings[i].text);
  isa_free(&c->al, k->findings, k->findings ? VM_KEPT_FINDINGS * sizeof *k->findings : 0);
}

/* The slot of a pair of places in the table of pairs that were reported. A pair that shares a slot
 * with a later one can be reported again. */
static uint64_t *slot_of(struct vm_check *k, uint64_t key) {
  uint64_t h = key * 0x9e3779b97f4a7c15u;
  return &k->seen[(h >> 40) % SEEN_PAIRS];
}

static bool seen(struct vm_check *k, uint64_t key) {
  uint64_t *slot = slot_of(k, key);
  if (*slot == key) return true;
  *slot = key;
  return false;
}

static uint64_t key_of(unsigned kind, unsigned e, uint32_t pc, unsigned other, uint32_t other_pc) {
  return (uint64_t)(kind + 1) << 56 | (uint64_t)e << 51 | (uint64_t)other << 46 |
         /* pcs above 2^23 may coincide: then a finding is taken for one that was told. */
         (uint64_t)(pc & 0x7fffff) << 23 | (other_pc & 0x7fffff);
}

void vm_ck_take_back(vm_core *c, bool (*wrong)(const void *ud, const vm_finding *f),
                     const void *ud) {
  struct vm_check *k = c->check;
  uint32_t to = 0;
  for (uint32_t i = 0; i < k->nfindings; i++) {
    vm_finding *f = &k->findings[i];
    if (!wrong(ud, f)) {
      k->findings[to++] = *f;
      continue;
    }
    uint64_t key = key_of(f->kind, f->engine, f->pc, f->other_engine, f->other_pc);
    /* It may be reported again, if it turns out to be right. */
    if (seen(k, key)) *slot_of(k, key) = 0;
    /* Findings behind it move up. */
    isa_buf_free(&f->text);
    k->count--;
  }
  k->nfindings = to;
}

const vm_core *vm_ck_peer_core(const vm_core *c, uint32_t pc, vm_ck_spoke *at) {
  *at = c->check->peers.spoke[pc];
  return c->run->peers->runs[at->rank]->cores[at->core];
}

/* An instruction of another rank; its file is named by this rank's program, which lives as long as
 * the finding. */
static struct vm_finding_peer peer_of(const vm_core *c, unsigned e, uint32_t pc) {
  struct vm_finding_peer out = {0};
  vm_ck_spoke at = {0};
  if (e != VM_CK_PEER) return out;
  const vm_core *there = vm_ck_peer_core(c, pc, &at);
  const isa_code *code = &there->code->code[at.engine];
  out.rank = at.rank + 1;
  out.pc = at.pc;
  out.core = at.core;
  /* Programs without lines have no file. */
  out.engine = at.engine;
  if (!code->lines || !code->lines[at.pc].file) return out;
  const char *file = there->prog->files[code->lines[at.pc].file - 1];
  /* Names of files are the same in the programs of a kernel's ranks. */
  for (uint32_t i = 0; i < c->prog->nfiles && !out.file; i++)
    if (strcmp(c->prog->files[i], file) == 0) out.file = c->prog->files[i];
  if (out.file) out.line = code->lines[at.pc].line;
  return out;
}

const isa_insn *vm_ck_insn(const vm_core *c, unsigned e, uint32_t pc) {
  vm_ck_spoke at = {0};
  if (e != VM_CK_PEER) return &vm_ck_code(c, e)->insns[pc];
  return &vm_ck_peer_core(c, pc, &at)->code->code[at.engine].insns[at.pc];
}

vm_finding *vm_ck_found(vm_core *c, unsigned kind, unsigned e, uint32_t pc, unsigned other,
                        uint32_t other_pc) {
  struct vm_check *k = c->check;
  /* Reported before, by these two places. */
  if (seen(k, key_of(kind, e, pc, other, other_pc))) return NULL;
  k->count++;
  /* Counted, but not kept. */
  if (k->nfindings == VM_KEPT_FINDINGS) return NULL;
  if (!vm_ck_findings_start(c)) {
    vm_ck_out_of_memory(c);
    return NULL;
  }
  vm_finding *f = &k->findings[k->nfindings++];
  *f = (vm_finding){.kind = (uint8_t)kind,
                    .engine = (uint8_t)e,
                    .other_engine = (uint8_t)other,
                    .pc = pc,
                    .other_pc = other_pc,
                    .peer = {peer_of(c, e, pc), peer_of(c, other, other_pc)},
                    .time = c->now};
  isa_buf_init(&f->text, &c->al);
  return f;
}

void vm_ck_out_of_memory(vm_core *c) {
  vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the race check");
}

/* "p.s:9 of rank 1" for a place of another rank; false: it is of this one. */
static bool put_peer(const vm_core *c, unsigned e, uint32_t pc,
                     void (*put)(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out),
                     isa_buf *out) {
  vm_ck_spoke at = {0};
  if (e != VM_CK_PEER) return false;
  const vm_core *there = vm_ck_peer_core(c, pc, &at);
  put(there, at.engine, at.pc, out);
  isa_buf_printf(out, " of rank %u", at.rank);
  return true;
}

void vm_ck_put_place(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  if (put_peer(c, e, pc, vm_put_place, out)) return;
  vm_put_place(vm_ck_core_of(c, e), e % ISA_NSEQS, pc, out);
}

void vm_ck_put_site(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  if (put_peer(c, e, pc, vm_put_site, out)) return;
  vm_put_site(vm_ck_core_of(c, e), e % ISA_NSEQS, pc, out);
}

void vm_ck_put_sem(const vm_core *c, unsigned sem, isa_buf *out) {
  vm_put_sem(vm_ck_core(c, sem >= ISA_NSEMS), sem % ISA_NSEMS, out);
  if (c->prog->ncores > 1) isa_buf_printf(out, " of core %u", sem / ISA_NSEMS);
}

void vm_ck_put_insn(const vm_core *c, unsigned e, uint32_t pc, vm_time t, isa_buf *out) {
  vm_ck_put_round(c, e, pc, 0, t, out);
}

void vm_ck_put_round(const vm_core *c, unsigned e, uint32_t pc, uint32_t round, vm_time t,
                     isa_buf *out) {
  vm_ck_spoke at = {0};
  bool there = e == VM_CK_PEER;
  const vm_core *of = there ? vm_ck_peer_core(c, pc, &at) : vm_ck_core_of(c, e);
  unsigned engine = there ? at.engine : e % ISA_NSEQS;
  if (there) {
    pc = at.pc;
    isa_buf_printf(out, "\n  rank %u %s%s ", at.rank,
                   of->prog->ncores < 2 ? ""
                   : at.core            ? "core 1 "
                                        : "core 0 ",
                   isa_engines[engine].name);
  } else {
    isa_buf_printf(out, "\n  %s ", vm_ck_name(c, e));
  }
  const isa_code *code = &of->code->code[engine];
  vm_put_pc(of, engine, pc, out);
  if (round) isa_buf_printf(out, ", round %u", round);
  isa_buf_printf(out, ", at %llu.%03llu ns: ", (unsigned long long)(t / VM_NS),
                 (unsigned long long)(t % VM_NS / (VM_NS / 1000)));
  if (pc < code->n) isa_print_insn(of->prog, of->number, engine, &code->insns[pc], out);
}

/* The tile that holds byte lo of partition p. */
static const isa_tile *tile_at(const vm_core *c, unsigned space, unsigned p, int64_t lo) {
  for (uint32_t i = 0; i < c->prog->ntiles; i++) {
    const isa_tile *t = &c->prog->tiles[i];
    if (t->space == space && p >= t->part && p < t->part + t->shape[0] && lo >= t->offset &&
        lo < (int64_t)t->offset + t->bytes)
      return t;
  }
  return NULL;
}

/* b: a box of an HBM tensor, whose number is 1-based: its bytes there; or of a tile (NULL: of one
 * that has these bytes). */
static void put_range(const vm_core *c, const vm_box *b, uint32_t tensor, const isa_tile *tile,
                      isa_buf *out) {
  isa_buf_printf(out, "bytes %lld..%lld of ", (long long)b->lo, (long long)b->hi - 1);
  if (b->space == ISA_HBM) {
    isa_buf_printf(out, "tensor %s", tensor ? c->prog->tensors[tensor - 1].name : "?");
    return;
  }
  /* Which tile of several is not known: the first in the program that has the byte. */
  if (!tile) tile = tile_at(c, b->space, b->p0, (int64_t)b->lo);
  isa_buf_puts(out, vm_ck_core_text(c, b->core));
  isa_buf_printf(out, "%s partition%s %u", isa_space_name(b->space), b->p1 - b->p0 > 1 ? "s" : "",
                 b->p0);
  if (b->p1 - b->p0 > 1) isa_buf_printf(out, "..%u", b->p1 - 1);
  if (!tile) return;
  isa_buf_puts(out, " (tile ");
  isa_put_tile(tile, out);
  isa_buf_puts(out, ")");
}

void vm_ck_put_bytes(const vm_core *c, const vm_ck_region *r, const vm_ck_access *a, isa_buf *out) {
  int64_t lo = a->set.start - (int64_t)r->lo;
  vm_box b = {.space = r->space,
              .core = r->core,
              .p0 = a->p0,
              .p1 = a->p1,
              .lo = (uint64_t)lo,
              .hi = (uint64_t)(lo + a->set.span[0])};
  put_range(c, &b, r->tensor, NULL, out);
}

static void put_box(const vm_core *c, const vm_box *box, const isa_tile *tile, isa_buf *out) {
  vm_box b = *box;
  uint32_t tensor = 0;
  for (uint32_t i = 0; i < c->prog->ntensors && b.space == ISA_HBM && !tensor; i++) {
    /* A view may begin in any tensor. */
    uint64_t at = (uint64_t)(uintptr_t)c->run->blocks[i].data;
    if (b.lo < at || b.lo >= at + c->run->blocks[i].bytes) continue;
    tensor = i + 1;
    b.lo -= at;
    b.hi -= at;
  }
  put_range(c, &b, tensor, tile, out);
}

void vm_ck_put_view(const vm_core *c, const vm_view *v, isa_buf *out) {
  vm_box b;
  vm_view_box(c, v, &b);
  put_box(c, &b, v->tile && v->space != ISA_HBM ? &c->prog->tiles[v->tile - 1] : NULL, out);
}

void vm_ck_put_box(const vm_core *c, const vm_box *box, isa_buf *out) {
  put_box(c, box, NULL, out);
}

/* "element [77, 0]": what is `at` bytes into row `row` of something of that shape. */
static void put_index(uint64_t row, uint64_t at, unsigned dtype, const uint64_t *shape,
                      unsigned ndim, isa_buf *out) {
  uint64_t of = 1;
  for (unsigned d = 1; d < ndim; d++) of *= shape[d];
  /* Bytes to elements. */
  at /= isa_dtype_bytes(dtype);
  isa_buf_printf(out, "element [%llu", (unsigned long long)row);
  for (unsigned d = 1; d < ndim; d++) {
    of /= shape[d];
    isa_buf_printf(out, ", %llu", (unsigned long long)(at / of));
    at %= of;
  }
  isa_buf_puts(out, "]");
}

static bool put_in_tensor(const vm_core *c, const uint8_t *at, isa_buf *out) {
  uint64_t shape[ISA_TENSOR_DIMS];
  for (uint32_t i = 0; i < c->prog->ntensors; i++) {
    const isa_tensor *t = &c->prog->tensors[i];
    uint64_t off = (uint64_t)(uintptr_t)at - (uint64_t)(uintptr_t)c->run->blocks[i].data;
    uint64_t row = isa_row_bytes(t);
    /* Not in this tensor: `off` has wrapped, or is beyond its end. */
    if (off >= c->run->blocks[i].bytes) continue;
    for (unsigned d = 0; d < t->ndim; d++) shape[d] = (uint64_t)t->shape[d];
    put_index(off / row, off % row, t->dtype, shape, t->ndim, out);
    isa_buf_printf(out, " of tensor %s", t->name);
    return true;
  }
  return false;
}

/* False if no tensor or tile has the element. */
static bool put_named(const vm_core *c, const vm_view *v, const uint8_t *at, isa_buf *out) {
  bool sbuf = v->space == ISA_SBUF;
  const uint8_t *base = sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum;
  size_t pitch = sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch, off = (size_t)(at - base);
  uint64_t shape[ISA_TILE_DIMS];
  if (v->space == ISA_HBM) return put_in_tensor(c, at, out);
  /* A raw pattern names no tile; a copy of a source lies elsewhere. */
  if (!v->tile || off >= (sbuf ? c->mem.sbuf_size : c->mem.psum_size)) return false;
  const isa_tile *t = &c->prog->tiles[v->tile - 1];
  for (unsigned d = 0; d < t->ndim; d++) shape[d] = t->shape[d];
  put_index(off / pitch - t->part, off % pitch - t->offset, t->dtype, shape, t->ndim, out);
  isa_buf_puts(out, " of tile ");
  isa_put_tile(t, out);
  return true;
}

void vm_ck_put_element(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i, isa_buf *out) {
  if (!put_named(c, v, vm_at(v, p, i), out))
    isa_buf_printf(out, "element %llu of partition %u", (unsigned long long)i, v->part + p);
}

void vm_ck_put_element_at(const vm_core *c, const vm_view *v, const uint8_t *at, isa_buf *out) {
  if (!put_named(c, v, at, out)) isa_buf_puts(out, "an element of a raw pattern");
}

typedef void view_fn(void *ud, const vm_view *v, unsigned flags);

/* n elements from `first` on, of `parts` partitions from p on, of a view that is one run per
 * partition. */
static vm_view part_of(const vm_view *v, uint32_t p, uint32_t parts, uint64_t first, uint64_t n) {
  vm_view s = *v;
  s.at += p * v->step[0] + (int64_t)first * v->run_step;
  s.part = (uint16_t)(v->part + p);
  s.num[0] = parts;
  s.ndim = 2;
  s.num[1] = (uint32_t)n;
  s.step[1] = v->run_step;
  s.elems = s.run = n;
  return s;
}

/* The first n elements of the snakes of a topk's operand. */
static void each_snake(const vm_view *v, uint64_t n, unsigned flags, view_fn *fn, void *ud) {
  uint64_t columns = n / ISA_GP_PARTS;
  uint32_t rest = (uint32_t)(n % ISA_GP_PARTS);
  /* Full columns, all sixteen partitions of each core. */
  vm_view full = part_of(v, 0, v->num[0], 0, columns);
  if (columns) fn(ud, &full, flags);
  /* The rest of the last column. */
  for (uint32_t p = 0; rest && p < v->num[0]; p += ISA_GP_PARTS) {
    vm_view last = part_of(v, p, rest, columns, 1);
    fn(ud, &last, flags);
  }
}

uint64_t vm_ck_snake(const vm_flight *f, const vm_view *v, unsigned flags) {
  const isa_form *form = isa_form_of(f->in->op);
  if (flags & AP_W) return v->elems;
  /* The length of a list is the instruction's only field of 16 or 32 bits. */
  for (unsigned i = 0; i < form->nfields; i++) {
    const void *at = isa_member_c(f->in, &form->fields[i]);
    if (form->fields[i].kind == ISA_K_U16) return *(const isa_t_U16 *)at;
    if (form->fields[i].kind == ISA_K_U32) return *(const isa_t_U32 *)at;
  }
  return 0;
}

/* Calls fn for an operand, or for the part of it that is used. */
static void each_part(const vm_flight *f, const vm_view *v, unsigned flags, view_fn *fn, void *ud) {
  uint64_t n = flags & AP_SNAKE ? vm_ck_snake(f, v, flags) : 0;
  if (n && v->run == v->elems) {
    each_snake(v, n, flags, fn, ud);
    return;
  }
  /* Every sixteenth partition holds data; the others are not looked at. */
  for (uint32_t p = 0; (flags & AP_SIXTEENTH) && p < v->num[0]; p += ISA_GP_PARTS) {
    vm_view s = *v;
    s.at += p * v->step[0];
    s.part = (uint16_t)(v->part + p);
    s.num[0] = 1;
    fn(ud, &s, flags);
  }
  if (!(flags & AP_SIXTEENTH)) fn(ud, v, flags);
}

struct parts {
  const vm_flight *f;
  view_fn *fn;
  void *ud;
};
static void visit_parts(void *ud, const isa_operand *o, vm_view *v) {
  const struct parts *w = ud;
  each_part(w->f, v, o->flags, w->fn, w->ud);
}

void vm_ck_each_operand(const vm_core *c, const vm_flight *f,
                        void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud) {
  struct parts w = {f, fn, ud};
  vm_each_view(c, f->in, &f->a, visit_parts, &w);
}

/* ---- The program -------------------------------------------------------------------------- */

struct tensors {
  const vm_core *c;
  unsigned flag, core;
  bool sums; /* the instruction reads its destination */
  void (*fn)(void *ud, uint32_t tensor);
  void *ud;
};
static void visit_tensor(void *ud, const isa_operand *o) {
  const struct tensors *w = ud;
  /* A destination that is added to is read. */
  if (((o->flags | (w->sums ? AP_R : 0)) & w->flag) && o->ap->space == ISA_HBM)
    w->fn(w->ud, o->ap->base - 1);
}
static void visit_tensors(void *ud, const isa_insn *in, unsigned engine, uint32_t pc) {
  struct tensors *w = ud;
  (void)engine, (void)pc;
  w->sums = isa_reads_destination(in);
  isa_each_operand(w->c->prog, &w->c->prog->cores[w->core], in, visit_tensor, w);
}

void vm_ck_each_tensor(const vm_core *c, unsigned flag, void (*fn)(void *ud, uint32_t tensor),
                       void *ud) {
  struct tensors w = {c, flag, 0, false, fn, ud};
  for (unsigned core = 0; core < c->prog->ncores; core++) {
    w.core = core;
    isa_each_insn(&c->prog->cores[core], visit_tensors, &w);
  }
}

void vm_ck_insn_tensors(const vm_core *c, const isa_insn *in, unsigned flag,
                        void (*fn)(void *ud, uint32_t tensor), void *ud) {
  struct tensors w = {c, flag, c->number, false, fn, ud};
  visit_tensors(&w, in, 0, 0);
}

/* ---- In a saved run ------------------------------------------------------------------------ */

bool vm_ck_has_engine(const vm_core *c, uint32_t e) {
  return e < c->check->nengines || (e == VM_CK_PEER && c->check->peers.nspoke > 0);
}

void vm_ck_walk_pc(vm_saver *s, const vm_core *c, unsigned engine, uint32_t *pc) {
  vm_save_u32(s, pc);
  uint32_t n = engine == VM_CK_PEER          ? c->check->peers.nspoke
               : engine < c->check->nengines ? vm_ck_code(c, engine)->n
                                             : 0;
  vm_saver_need(s, *pc == 0 || *pc < n, "a check names an instruction that does not exist");
}

void vm_ck_walk_place(vm_saver *s, const vm_core *c, uint8_t *engine, uint32_t *pc) {
  uint32_t e = *engine;
  vm_save_u32(s, &e);
  if (!vm_saver_need(s, vm_ck_has_engine(c, e), "a check names no engine")) e = 0;
  *engine = (uint8_t)e;
  vm_ck_walk_pc(s, c, e, pc);
}

static void walk_text(vm_saver *s, isa_buf *b) {
  uint32_t n = (uint32_t)b->len;
  vm_saver_count(s, &n, UINT32_MAX, 1, "bytes of a finding");
  if (!s->reads && n) vm_saver_bytes(s, b->data, n);
  if (!s->reads) return;
  /* A zero byte would end the text early. */
  if (!vm_saver_need(s, s->failed || !memchr(s->at, 0, n), "the text of a finding is not valid"))
    return;
  isa_buf_add(b, s->at, n);
  s->at += n;
  if (b->failed) vm_saver_no_memory(s);
}

static void walk_finding(vm_saver *s, const vm_core *c, vm_finding *f) {
  vm_save_u8(s, &f->kind);
  vm_ck_walk_place(s, c, &f->engine, &f->pc);
  vm_save_u8(s, &f->other_engine);
  vm_save_u8(s, &f->rank);
  vm_save_u16(s, &f->sem);
  vm_save_u16(s, &f->memory);
  vm_save_u16(s, &f->part);
  vm_save_u64(s, &f->byte);
  /* Without another engine the number is the check's own. */
  if (f->other_engine == VM_NO_ENGINE)
    vm_save_u32(s, &f->other_pc);
  else
    vm_ck_walk_pc(s, c, f->other_engine, &f->other_pc);
  vm_save_time(s, &f->time);
  vm_save_time(s, &f->other_time);
  vm_saver_need(s,
                f->kind < VM_NCHECKS &&
                    (f->other_engine == VM_NO_ENGINE || vm_ck_has_engine(c, f->other_engine)) &&
                    f->sem <= c->check->nsems && f->part < ISA_PMAX && f->byte >> 48 == 0,
                "a finding belongs to no check");
  vm_save_u32(s, &f->fix);
  vm_save_u32(s, &f->fix_end);
  walk_text(s, &f->text);
  vm_saver_need(s, f->fix <= f->fix_end && f->fix_end <= f->text.len,
                "the fix of a finding is not in its text");
  if (!s->reads || s->failed) return;
  f->peer[0] = peer_of(c, f->engine, f->pc);
  f->peer[1] = peer_of(c, f->other_engine, f->other_pc);
}

static void walk_seen(vm_saver *s, uint64_t *seen) {
  uint32_t n = 0, slot = 0;
  for (uint32_t i = 0; i < SEEN_PAIRS; i++) n += seen[i] != 0;
  vm_saver_count(s, &n, SEEN_PAIRS, 12, "pairs of places");
  for (uint32_t i = 0; i < n && !s->failed; i++, slot++) {
    while (!s->reads && !seen[slot]) slot++;
    vm_save_below(s, &slot, SEEN_PAIRS, "pair of places");
    vm_save_u64(s, &seen[slot]);
  }
}

static void walk_findings(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = k->nfindings;
  vm_save_u64(s, &k->count);
  vm_saver_count(s, &n, VM_KEPT_FINDINGS, 38, "findings");
  if (n && s->reads && !s->failed && !vm_ck_findings_start(c)) vm_saver_no_memory(s);
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) isa_buf_init(&k->findings[k->nfindings++].text, &c->al);
    walk_finding(s, c, &k->findings[i]);
  }
  /* Beyond VM_FINDINGS only the count goes on. */
  vm_saver_need(s, k->count == n || (k->count > n && n >= VM_FINDINGS),
                "more findings are counted than there are");
  walk_seen(s, k->seen);
}

const vm_ck_part vm_ck_part_findings = {.walk = walk_findings, .end = end_findings};
