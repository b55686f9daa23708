/* The checks of a run: their life cycle, and findings. */
#include "../engine/engine.h"
#include "check.h"
#include "judge.h"
#include "shadow.h"

#include <stdio.h>
#include <string.h>

static const vm_watch watch; /* below */

static const char *const names[VM_NCHECKS] = {
    [VM_CHECK_UNINIT] = "uninit",   [VM_CHECK_RACE] = "race",   [VM_CHECK_PSUM] = "psum",
    [VM_CHECK_OVERLAP] = "overlap", [VM_CHECK_RANGE] = "range", [VM_CHECK_PORT] = "port",
    [VM_CHECK_OUTPUT] = "output",
};

const char *vm_check_name(unsigned kind) { return kind < VM_NCHECKS ? names[kind] : NULL; }

unsigned vm_check_possible(const vm_core *c, unsigned mask) {
  const unsigned values =
      1u << VM_CHECK_UNINIT | 1u << VM_CHECK_RANGE | 1u << VM_CHECK_PSUM | 1u << VM_CHECK_OUTPUT;
  return c->run->timing_only ? mask & ~values : mask;
}

unsigned vm_check_mask(const vm_core *c) { return c->check ? c->check->mask : 0; }

/* The numbers of both cores; the other core has the same checks. */
static void count(vm_core *c) {
  struct vm_check *k = c->check;
  k->nengines = c->prog->ncores * ISA_NENGINES;
  k->nsems = c->prog->ncores * ISA_NSEMS;
  for (unsigned core = 0; core < c->prog->ncores; core++)
    k->nqueues += c->prog->cores[core].nqueues;
  for (unsigned e = 0; e < k->nengines; e++)
    snprintf(k->names[e], sizeof k->names[e], "%s%s", vm_ck_core_text(c, e >= ISA_NENGINES),
             isa_engines[e % ISA_NENGINES].name);
  for (unsigned i = 0; i < c->run->n; i++) c->run->cores[i]->check = k;
}

bool vm_check_start(vm_core *c, unsigned mask) {
  mask = vm_check_possible(c, mask);
  if (!mask) return true;
  c->check = isa_zalloc(&c->al, sizeof *c->check);
  if (!c->check) return false;
  c->check->mask = mask;
  count(c);
  vm_watch_add(c->run, &watch);
  bool race = vm_ck_has(c, VM_CHECK_RACE), legal = vm_ck_has(c, VM_CHECK_LEGAL);
  return (!race || vm_ck_clocks_start(c)) && (!(race || legal) || vm_ck_races_start(c)) &&
         (!legal || vm_ck_legal_start(c)) && vm_ck_fillers_start(c) && vm_ck_shadows_start(c) &&
         (!vm_ck_has(c, VM_CHECK_UNINIT) || vm_ck_uninit_start(c)) &&
         (!vm_ck_has(c, VM_CHECK_OUTPUT) || vm_ck_output_start(c)) &&
         (!vm_ck_has(c, VM_CHECK_PSUM) || vm_ck_psum_start(c)) &&
         (!vm_ck_has(c, VM_CHECK_OVERLAP) || vm_ck_tiles_start(c));
}

void vm_check_end(vm_core *c) {
  struct vm_check *k = c->check;
  if (k->ncomps) vm_ck_clocks_end(c);
  vm_ck_races_end(c);
  vm_ck_uninit_end(c);
  vm_ck_fillers_end(c);
  isa_free(&c->al, k->kept, k->nkept * sizeof *k->kept);
  vm_ck_psum_end(c);
  vm_ck_tiles_end(c);
  vm_ck_legal_end(c);
  for (uint32_t i = 0; i < k->nfindings; i++) isa_buf_free(&k->findings[i].text);
  isa_free(&c->al, k, sizeof *k);
  for (unsigned i = 0; i < c->run->n; i++) c->run->cores[i]->check = NULL;
}

uint64_t vm_check_count(const vm_core *c) { return c->check ? c->check->count : 0; }

const vm_finding *vm_check_finding(const vm_core *c, uint32_t i) {
  return c->check && i < c->check->nfindings ? &c->check->findings[i] : NULL;
}

void vm_check_stop(vm_core *c) { vm_ck_judge(c); }

void vm_check_finish(vm_core *c) {
  struct vm_check *k = c->check;
  vm_ck_judge(c);
  if (vm_ck_has(c, VM_CHECK_OUTPUT)) vm_ck_output_finish(c);
  vm_ck_log_end(c); /* its memory is for the next run */
  if (k->count == 0) return;
  vm_finding *f = &k->findings[0];
  vm_where at = vm_at_pc(vm_ck_core_of(c, f->engine), f->engine % ISA_NENGINES, f->pc);
  vm_fault(c, ISA_CHECK, at, "%s", isa_buf_str(&f->text));
  if (k->count > 1)
    isa_buf_printf(&c->run->fault.text, "\n(the first of %llu findings)",
                   (unsigned long long)k->count);
}

/* ---- Findings ----------------------------------------------------------------------------- */

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
  return (uint64_t)(kind + 1) << 56 | (uint64_t)e << 52 | (uint64_t)other << 48 |
         (uint64_t)(pc & 0xffffff) << 24 | (other_pc & 0xffffff);
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
    if (seen(k, key)) *slot_of(k, key) = 0;
    isa_buf_free(&f->text);
    k->count--;
  }
  k->nfindings = to;
}

vm_finding *vm_ck_found(vm_core *c, unsigned kind, unsigned e, uint32_t pc, unsigned other,
                        uint32_t other_pc) {
  struct vm_check *k = c->check;
  if (seen(k, key_of(kind, e, pc, other, other_pc))) return NULL;
  k->count++;
  if (k->nfindings == VM_FINDINGS) return NULL;
  vm_finding *f = &k->findings[k->nfindings++];
  *f = (vm_finding){.kind = (uint8_t)kind,
                    .engine = (uint8_t)e,
                    .other_engine = (uint8_t)other,
                    .pc = pc,
                    .other_pc = other_pc,
                    .time = c->now};
  isa_buf_init(&f->text, &c->al);
  return f;
}

void vm_ck_out_of_memory(vm_core *c) {
  vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for the race check");
}

void vm_ck_put_place(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  vm_put_place(vm_ck_core_of(c, e), e % ISA_NENGINES, pc, out);
}

void vm_ck_put_site(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  vm_put_site(vm_ck_core_of(c, e), e % ISA_NENGINES, pc, out);
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
  const vm_core *of = vm_ck_core_of(c, e);
  const isa_code *code = vm_ck_code(c, e);
  isa_buf_printf(out, "\n  %s ", vm_ck_name(c, e));
  vm_put_pc(of, e % ISA_NENGINES, pc, out);
  if (round) isa_buf_printf(out, ", round %u", round);
  isa_buf_printf(out, ", at %llu.%03llu ns: ", (unsigned long long)(t / VM_NS),
                 (unsigned long long)(t % VM_NS / (VM_NS / 1000)));
  if (pc < code->n) isa_print_insn(c->prog, of->number, e % ISA_NENGINES, &code->insns[pc], out);
}

/* Name of the tile that holds byte lo of partition p. */
static const char *tile_at(const vm_core *c, unsigned space, unsigned p, int64_t lo) {
  for (uint32_t i = 0; i < c->prog->ntiles; i++) {
    const isa_tile *t = &c->prog->tiles[i];
    if (t->space == space && p >= t->part && p < t->part + t->shape[0] && lo >= t->offset &&
        lo < (int64_t)t->offset + t->bytes)
      return t->name;
  }
  return NULL;
}

/* b: a box of an HBM tensor, whose number is 1-based: its bytes there; or of a tile (NULL: of one
 * that has these bytes). */
static void put_range(const vm_core *c, const vm_box *b, uint32_t tensor, const char *tile,
                      isa_buf *out) {
  isa_buf_printf(out, "bytes %lld..%lld of ", (long long)b->lo, (long long)b->hi - 1);
  if (b->space == ISA_HBM) {
    isa_buf_printf(out, "tensor %s", tensor ? c->prog->tensors[tensor - 1].name : "?");
    return;
  }
  if (!tile) tile = tile_at(c, b->space, b->p0, (int64_t)b->lo);
  isa_buf_puts(out, vm_ck_core_text(c, b->core));
  isa_buf_printf(out, "%s partition%s %u", isa_space_name(b->space), b->p1 - b->p0 > 1 ? "s" : "",
                 b->p0);
  if (b->p1 - b->p0 > 1) isa_buf_printf(out, "..%u", b->p1 - 1);
  if (tile) isa_buf_printf(out, " (tile %s)", tile);
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

static void put_box(const vm_core *c, const vm_box *box, const char *tile, isa_buf *out) {
  vm_box b = *box;
  uint32_t tensor = 0;
  for (uint32_t i = 0; i < c->prog->ntensors && b.space == ISA_HBM && !tensor; i++) {
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
  put_box(c, &b, v->tile && v->space != ISA_HBM ? c->prog->tiles[v->tile - 1].name : NULL, out);
}

void vm_ck_put_box(const vm_core *c, const vm_box *box, isa_buf *out) {
  put_box(c, box, NULL, out);
}

void vm_ck_put_element(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i, isa_buf *out) {
  const isa_tile *t = v->tile && v->space != ISA_HBM ? &c->prog->tiles[v->tile - 1] : NULL;
  bool sbuf = v->space == ISA_SBUF;
  const uint8_t *base = sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum;
  size_t pitch = sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch;
  size_t off = (size_t)(vm_at(v, p, i) - base);
  if (!t || off >= (sbuf ? c->mem.sbuf_size : c->mem.psum_size)) {
    isa_buf_printf(out, "element %llu of partition %u", (unsigned long long)i, v->part + p);
    return;
  }
  uint64_t at = (off % pitch - t->offset) / isa_dtype_bytes(t->dtype), of = t->bytes;
  isa_buf_printf(out, "element [%u", (unsigned)(off / pitch) - t->part);
  of /= isa_dtype_bytes(t->dtype);
  for (unsigned d = 1; d < t->ndim; d++) {
    of /= t->shape[d];
    isa_buf_printf(out, ", %llu", (unsigned long long)(at / of));
    at %= of;
  }
  isa_buf_printf(out, "] of tile %s", t->name);
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
  vm_view full = part_of(v, 0, v->num[0], 0, columns);
  if (columns) fn(ud, &full, flags);
  for (uint32_t p = 0; rest && p < v->num[0]; p += ISA_GP_PARTS) {
    vm_view last = part_of(v, p, rest, columns, 1);
    fn(ud, &last, flags);
  }
}

uint64_t vm_ck_snake(const vm_flight *f, const vm_view *v, unsigned flags) {
  const isa_form *form = isa_form_of(f->in->op);
  if (flags & AP_W) return v->elems;
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

/* ---- Calls that more than one check uses -------------------------------------------------- */

void vm_check_begin(vm_core *c, unsigned e, const isa_insn *in) {
  unsigned unit = vm_ck_unit(c, e);
  if (c->check->legal) vm_ck_legal_wait(c, unit, &in->wait);
  if (in->wait.cond != ISA_WAIT_none && vm_ck_has(c, VM_CHECK_RACE)) vm_ck_wait(c, unit, &in->wait);
  if (!vm_ck_registers_known(c->check, unit)) vm_check_step(c, e, c->eng[e].pc);
}

void vm_check_host_wrote(vm_core *c, const vm_box *b) {
  if (c->check->shadowed && b->space != ISA_HBM) vm_ck_uninit_host(c, b); /* the device's tensor */
}

void vm_check_host_register(vm_core *c, unsigned e, unsigned r) {
  c->check->registers[vm_ck_unit(c, e)] |= 1ull << r;
}

void vm_check_execute(vm_core *c, unsigned e, const vm_flight *f) {
  if (c->run->timing_only) return;
  if (c->check->shadowed) vm_ck_uninit_execute(c, e, f);
  if (vm_ck_has(c, VM_CHECK_PSUM)) vm_ck_psum_execute(c, e, f);
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_ck_value_execute(c, e, f);
}

static unsigned engine_of(const vm_core *c, const vm_flight *f) {
  unsigned e = 0;
  while (f < c->eng[e].flights || f >= c->eng[e].flights + VM_FLIGHTS) e++;
  return e;
}

void vm_check_stage(vm_core *c, const vm_item *it) {
  if (it->is_share) {
    vm_check_move(c, (const vm_share *)it);
    return;
  }
  const vm_flight *f = (const vm_flight *)it;
  unsigned e = engine_of(c, f);
  if (c->check->shadowed) vm_ck_uninit_reads(c, e, f);
  if (vm_ck_has(c, VM_CHECK_PSUM)) vm_ck_psum_reads(c, e, f);
}

void vm_check_executed(vm_core *c, unsigned e, const vm_flight *f) {
  if (c->run->timing_only) return;
  if (c->check->shadowed) vm_ck_uninit_executed(c, e, f);
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_ck_value_executed(c, e, f);
}

void vm_check_access(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  if (c->check->legal) vm_ck_legal_touch(c, vm_ck_unit(c, e), v, writes);
  if (vm_ck_has(c, VM_CHECK_RACE)) vm_ck_race_sequencer(c, vm_ck_unit(c, e), v, writes);
  if (c->check->shadowed || (writes && vm_ck_has(c, VM_CHECK_OUTPUT)))
    vm_ck_uninit_access(c, e, v, writes);
}

void vm_check_move(vm_core *c, const vm_share *s) {
  if (c->check->shadowed) vm_ck_uninit_move(c, s);
}

void vm_check_moved(vm_core *c, const vm_share *s) {
  if (c->check->shadowed || vm_ck_has(c, VM_CHECK_OUTPUT)) vm_ck_uninit_moved(c, s);
}

void vm_check_port(vm_core *c, unsigned engine, const vm_flight *f, const isa_way *w,
                   const vm_flight *g, vm_time start, vm_time late) {
  if (!vm_ck_has(c, VM_CHECK_PORT)) return;
  unsigned other = vm_ck_unit(c, isa_way_other(w, c->target->gen, engine));
  unsigned e = vm_ck_unit(c, engine);
  vm_finding *r = vm_ck_found(c, VM_CHECK_PORT, e, f->pc, other, g->pc);
  if (!r) return;
  vm_ck_put_place(c, e, f->pc, &r->text);
  isa_buf_printf(&r->text, ": port: %s and %s need the port of %s at once; %s starts %llu ns later",
                 vm_ck_name(c, e), vm_ck_name(c, other), isa_space_name(w->space), vm_ck_name(c, e),
                 (unsigned long long)(late / VM_NS));
  vm_ck_put_insn(c, other, g->pc, g->item.start, &r->text);
  vm_ck_put_insn(c, e, f->pc, start, &r->text);
  isa_buf_puts(&r->text, "\n  fix: order the two by a semaphore");
}

static bool wants_steps(const vm_core *c, unsigned e) { return !vm_check_registers_known(c, e); }

static const vm_watch watch = {.begin = vm_check_begin,
                               .step = vm_check_step,
                               .steps = wants_steps,
                               .access = vm_check_access,
                               .drain = vm_check_drain,
                               .update = vm_check_update,
                               .applied = vm_check_applied,
                               .barrier = vm_check_barrier,
                               .waited = vm_check_waited,
                               .meet = vm_check_meet,
                               .issue = vm_check_issue,
                               .execute = vm_check_execute,
                               .executed = vm_check_executed,
                               .port = vm_check_port,
                               .stage = vm_check_stage,
                               .transfer = vm_check_transfer,
                               .move = vm_check_move,
                               .moved = vm_check_moved,
                               .arrival = vm_check_arrival,
                               .change = vm_check_change,
                               .host_wrote = vm_check_host_wrote,
                               .host_register = vm_check_host_register,
                               .stop = vm_check_stop,
                               .finish = vm_check_finish,
                               .end = vm_check_end};
