/* The data path of an engine: the instructions that have issued, and the promise that an
 * instruction reads at start and writes at done although it executes at done. */
#include "engine.h"
#include "../time/clock.h"
#include "../dma/dma.h"

#include <string.h>

/* ---- Items: what has issued and not executed ---------------------------------------------- */

static void touch(vm_core *c, const vm_box *b) {
  /* SBUF or PSUM: a run reports how much of each a program uses. */
  uint64_t *most = &c->touched[b->space == ISA_PSUM];
  if (b->space && b->space != ISA_HBM && b->core == c->number && b->hi > *most) *most = b->hi;
}

void vm_item_touch(vm_core *c, const vm_item *it) {
  for (unsigned i = 0; i < it->nsrc; i++) touch(c, &it->src[i]);
  for (unsigned i = 0; i < it->ndst; i++) touch(c, &it->dst[i]);
}

/* At the end of a ring of all items of the run: oldest first. */
void vm_item_link(vm_core *c, vm_item *it) {
  vm_item *head = &c->run->items;
  it->core = c->number;
  it->next = head;
  it->prev = head->prev;
  it->prev->next = it;
  head->prev = it;
}

/* A block of an item, with its bytes after this head: the next block, its size, and the source's
 * place if it holds a copy of a source. */
typedef struct vm_block_head {
  struct vm_block_head *next;
  size_t size;
  uint8_t *from;
  const int64_t *place;
} vm_block_head;

static void free_blocks(vm_core *c, vm_item *it) {
  while (it->copies) {
    vm_block_head *head = it->copies;
    it->copies = head->next;
    isa_free(&c->al, head, head->size);
  }
}

void vm_item_unlink(vm_core *c, vm_item *it) {
  it->prev->next = it->next;
  it->next->prev = it->prev;
  free_blocks(c, it);
}

uint8_t *vm_item_block(vm_core *c, vm_item *it, size_t n) {
  size_t size = sizeof *it->copies + n;
  vm_block_head *head = isa_zalloc(&c->al, size);
  if (!head) {
    vm_fault(c, ISA_NOMEM, VM_NOWHERE, "no memory for %zu bytes of an operand", n);
    return NULL;
  }
  head->next = it->copies;
  head->size = size;
  it->copies = head;
  return (uint8_t *)(head + 1);
}

uint8_t *vm_item_copied_from(const uint8_t *copy, const int64_t **place) {
  const vm_block_head *head = (const void *)(copy - sizeof *head); /* see vm_item_block */
  *place = head->place;
  return head->from;
}

bool vm_item_copy_view(vm_core *c, vm_item *it, vm_view *v) {
  uint8_t *block = vm_item_block(c, it, (size_t)v->num[0] * (size_t)v->elems * v->esize);
  if (!block) return false;
  /* Where the source was: a save notes that place, not the copy's. */
  it->copies->from = v->at;
  it->copies->place = v->place;
  vm_view dense;
  vm_view_dense(&dense, v, block);
  vm_copy_bits(&c->run->kern, &dense, v);
  *v = dense;
  return true;
}

struct snapshot {
  vm_core *c;
  vm_item *it;
};
static void snapshot_source(void *ud, const isa_operand *o, vm_view *v) {
  struct snapshot *s = ud;
  /* Only what is read, and has elements. */
  if ((o->flags & AP_R) && v->elems && v->num[0]) vm_item_copy_view(s->c, s->it, v);
}

static void stage(vm_core *c, vm_item *it) {
  struct snapshot s = {c, it};
  /* Told before: from here on the item's sources are copies. */
  vm_tell_stage(c, it);
  /* The bytes may not be computed yet. */
  vm_batch_settle(c, it);
  it->staged = true;
  if (it->is_share)
    vm_dma_stage(c, vm_share_of(it));
  else
    vm_each_view(c, ((vm_flight *)it)->in, &((vm_flight *)it)->a, snapshot_source, &s);
}

/* Whether an item reads bytes of one of n boxes. One box that covers several sources in HBM says
 * that it may: which tensors lie between them is the host's, and a saved run tells what is copied.
 */
static bool reads_any(const vm_core *c, const vm_item *it, const vm_box *b, unsigned n) {
  bool may = false;
  for (const vm_box *src = it->src; src < it->src + it->nsrc; src++)
    for (unsigned i = 0; i < n; i++) may |= vm_box_meet(&b[i], src);
  /* A share of many sources has covering boxes (cover_sources): only then is it asked source by
   * source. */
  const vm_share *s = may && it->is_share ? vm_share_of(it) : NULL;
  return s && s->t->nsrc > VM_BOXES ? vm_dma_reads(vm_core_at(c, it->core), s, b, n) : may;
}

/* Whether no share of a transfer reads bytes of the boxes, by what the whole transfer reads. */
static bool is_apart(const vm_transfer *t, const vm_box *b, unsigned n) {
  for (unsigned i = 0; i < n; i++)
    /* Several sources: not worth it, they are looked at one by one. */
    if (t->nsrc > 1 || vm_box_meet(&b[i], &t->all[1])) return false;
  return true;
}

/* Whether an instruction reads what self, the oldest of its engine's in flight, is about to write:
 * it has begun before self is done, as vector's own next instruction may. */
static bool follows(const vm_core *c, const vm_item *self, const vm_item *it) {
  /* Only a data path has this: a share is in nobody's order. */
  if (!self || self->is_share || it->is_share || it->core != c->number) return false;
  for (unsigned e = 0; e < ISA_NENGINES; e++) {
    const vm_flight *all = c->eng[e].flights;
    const vm_flight *a = (const vm_flight *)self, *b = (const vm_flight *)it;
    if (all && a >= all && a < all + VM_FLIGHTS) return b >= all && b < all + VM_FLIGHTS;
  }
  return false;
}

void vm_protect(vm_core *c, const vm_box *dst, unsigned n, const vm_item *self) {
  if (c->run->timing_only) return; /* no byte changes: nothing is to be cleared after the run */
  /* First what changes in memory itself, then who still wants to read the old bytes. */
  for (unsigned i = 0; i < n; i++) vm_memory_wrote(&vm_core_at(c, dst[i].core)->mem, &dst[i]);
  for (unsigned i = 0; c->run->watched && i < n; i++) vm_hbm_wrote(c, &dst[i]);
  const vm_item *head = &c->run->items;
  const vm_transfer *apart = NULL; /* most often the shares of one follow one another */
  for (vm_item *it = head->next; it != head; it = it->next) {
    if (it->is_share) {
      const vm_transfer *t = vm_share_of(it)->t;
      /* Shares of a transfer that reads elsewhere are passed without a look at their boxes. */
      if (t != apart && is_apart(t, dst, n)) apart = t;
      if (t == apart) continue;
    }
    /* It has its copies already, or has yet to start: then it reads what is written now. */
    if (it == self || it->staged || it->start > c->now) continue;
    if (reads_any(c, it, dst, n) && !follows(c, self, it)) stage(vm_core_at(c, it->core), it);
  }
}

void vm_touch(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  vm_box box;
  /* In this order: what waits is computed, then watchers see memory as it is. */
  vm_batch_settle(c, NULL);
  vm_tell_access(c, e, v, writes);
  if (!writes) return;
  vm_view_box(c, v, &box);
  vm_protect(c, &box, 1, NULL);
}

void vm_touch_by_host(vm_core *c, const vm_box *box) {
  vm_batch_settle(c, NULL);
  vm_protect(c, box, 1, NULL);
  vm_tell_host_wrote(c, box);
}

/* The first of n boxes that overlaps what an item writes or, if `writes` is set, what it reads; n:
 * none. */
static unsigned first_met(const vm_item *it, const vm_box *b, unsigned n, bool writes) {
  for (unsigned i = 0; i < n; i++) {
    for (unsigned k = 0; k < it->ndst; k++)
      if (vm_box_meet(&b[i], &it->dst[k])) return i;
    for (unsigned k = 0; writes && k < it->nsrc; k++)
      if (vm_box_meet(&b[i], &it->src[k])) return i;
  }
  return n;
}

/* By how much the engine's own next instruction can use the results of f before others can. */
/* The vector engine's next instruction may begin OWN_VECTOR after the last element, others
 * LAT_VECTOR; both in cycles. */
static vm_time early(const vm_core *c, unsigned e, const vm_flight *f) {
  uint32_t all = c->cost[VM_LAT_VECTOR], own = c->cost[VM_OWN_VECTOR];
  if (e != ISA_ENG_vector || own >= all || f->item.done <= f->streamed) return 0;
  return (f->item.done - f->streamed) / all * (all - own);
}

static vm_moment hazard(const vm_core *c, unsigned e, vm_boxes reads, vm_boxes writes,
                        vm_time after, bool own) {
  const vm_engine *en = &c->eng[e];
  /* From the end of one until a dependent one may begin (HAZARD). */
  vm_time more = (vm_time)c->cost[VM_HAZARD] * VM_NS;
  vm_moment last = {.time = after};
  unsigned box = 0; /* that `last` is about: of boxes with the same time the first counts */
  for (uint32_t i = 0; i < en->nflights; i++) {
    const vm_flight *f = &en->flights[(en->first + i) % VM_FLIGHTS];
    vm_time at = f->item.done + more - (own ? early(c, e, f) : 0);
    /* Sooner than what is known already. */
    if (at < last.time || at <= after) continue;
    unsigned k = first_met(&f->item, reads.v, reads.n, false);
    /* Reads come first in the numbering: a tie goes to the operand that the program names first. */
    if (k == reads.n) k += first_met(&f->item, writes.v, writes.n, true);
    if (k == reads.n + writes.n || (at == last.time && k >= box)) continue;
    last = (vm_moment){at, f->node};
    box = k;
  }
  /* Nothing later than `after`: no wait. */
  return last.time > after ? last : (vm_moment){0};
}

vm_moment vm_own_hazard(const vm_core *c, unsigned e, vm_boxes reads, vm_boxes writes,
                        vm_time after) {
  return hazard(c, e, reads, writes, after, false);
}

vm_moment vm_chain_hazard(const vm_core *c, unsigned e, vm_boxes reads, vm_boxes writes,
                          vm_time after) {
  return hazard(c, e, reads, writes, after, true);
}

/* ---- Issue -------------------------------------------------------------------------------- */

/* Extends a box so that it also holds another box of the same memory. */
static void cover(vm_box *b, const vm_box *more) {
  /* The union of partitions is not worth computing: boxes that cover are rare. */
  b->p0 = 0;
  b->p1 = ISA_PMAX;
  b->lo = more->lo < b->lo ? more->lo : b->lo;
  b->hi = more->hi > b->hi ? more->hi : b->hi;
}

/* A source; if there are more sources than boxes, the last box covers the rest. */
static void add_source(vm_core *c, vm_item *it, const vm_view *v) {
  vm_box more;
  if (it->nsrc < VM_BOXES) {
    /* A view without elements gives a box without a space, which meets nothing. */
    vm_view_box(c, v, &it->src[it->nsrc++]);
    return;
  }
  vm_view_box(c, v, &more);
  cover(&it->src[VM_BOXES - 1], &more);
}

static void add_dst(vm_core *c, vm_item *it, const vm_view *v) {
  vm_box more, *last = &it->dst[1];
  vm_view_box(c, v, &more);
  if (!more.space) return;
  if (it->ndst < 2) {
    it->dst[it->ndst++] = more;
    return;
  }
  cover(last, &more); /* for custom_op only, which writes SBUF */
}

struct boxes {
  vm_core *c;
  vm_item *it;
};
static void add_box(void *ud, const isa_operand *o, vm_view *v) {
  struct boxes *b = ud;
  if (o->flags & AP_R) add_source(b->c, b->it, v);
  if (o->flags & AP_W) add_dst(b->c, b->it, v);
}

static void find_boxes(vm_core *c, vm_flight *f) {
  struct boxes b = {c, &f->item};
  vm_each_view(c, f->in, &f->a, add_box, &b);
}

enum { MOST_READ = 4, MOST_WRITTEN = 2 }; /* patterns of an instruction with `.indirect` */

struct scatter {
  const vm_view *src[MOST_READ], *dst[MOST_WRITTEN];
  const char *names[MOST_READ];
  uint8_t fields[MOST_WRITTEN];
  const isa_form *form;
  unsigned nsrc, ndst;
};
static void add_scatter(void *ud, const isa_operand *o, vm_view *v) {
  struct scatter *s = ud;
  /* What does not fit has no `.indirect` (MOST_READ, MOST_WRITTEN). */
  if ((o->flags & AP_W) && s->ndst < MOST_WRITTEN) {
    s->fields[s->ndst] = o->field;
    s->dst[s->ndst++] = v;
  } else if (!(o->flags & AP_W) && s->nsrc < MOST_READ) {
    s->names[s->nsrc] = s->form->fields[o->field].name;
    s->src[s->nsrc++] = v;
  }
}

/* If an index gives places: the check that the verifier could not make. */
static bool check_scatters(vm_core *c, vm_flight *f, isa_error *err) {
  struct scatter s = {.form = isa_form_of(f->in->op)};
  vm_each_view(c, f->in, &f->a, add_scatter, &s);
  for (unsigned i = 0; i < s.ndst; i++)
    if (!vm_check_scatter(c, s.dst[i], s.src, s.names, s.nsrc, err)) {
      err->field = s.fields[i];
      return false;
    }
  return true;
}

/* Whether a destination may share bytes with a source. */
static bool boxes_meet(const vm_item *it) {
  for (unsigned d = 0; d < it->ndst; d++)
    for (unsigned s = 0; s < it->nsrc; s++)
      if (vm_box_meet(&it->dst[d], &it->src[s])) return true;
  return false;
}

struct moved {
  vm_core *c;
  vm_flight *f;
  const isa_ap *ap; /* of the destination */
  uint8_t core;
  isa_ap dst; /* as it is now */
  isa_error *err;
  bool ok;
};

static void check_source(void *ud, const isa_operand *o, vm_view *v) {
  struct moved *m = ud;
  const isa_ap *ap = o->ap;
  bool known = isa_ap_is_static(ap) && isa_ap_is_static(m->ap);
  /* The verifier has compared two that no register moves; an index has its own check. */
  if (!m->ok || (o->flags & AP_W) || ap->space != m->dst.space || v->core != m->core || known ||
      ap->index_kind)
    return;
  isa_ap src = vm_resolved_pattern(m->c, ap, v);
  /* 1: some elements coincide, but not all; 0 and 2 are allowed. */
  if (isa_ap_overlap(&m->dst, &src) != 1) return;
  m->ok = isa_fail(m->err, ISA_FAULT, ISA_NOFIELD,
                   "bytes %lld.. overlap %s, at bytes %lld..: a destination must have exactly the "
                   "elements of a source or share no byte with it",
                   (long long)m->dst.offset, isa_form_of(m->f->in->op)->fields[o->field].name,
                   (long long)src.offset);
}

static void check_destination(void *ud, const isa_operand *o, vm_view *v) {
  struct moved *m = ud;
  if (!m->ok || !(o->flags & AP_W) || o->ap->index_kind) return;
  m->ap = o->ap;
  m->core = v->core;
  m->dst = vm_resolved_pattern(m->c, o->ap, v);
  /* Each destination with each source. */
  vm_each_view(m->c, m->f->in, &m->f->a, check_source, m);
  if (!m->ok) m->err->field = o->field;
}

/* If registers move operands that overlap: the other check that the verifier could not make. */
static bool check_moved(vm_core *c, vm_flight *f, isa_error *err) {
  struct moved m = {.c = c, .f = f, .err = err, .ok = true};
  vm_each_view(c, f->in, &f->a, check_destination, &m);
  return m.ok;
}

/* Operands from the engine's state, with the checks that the verifier could not make. On failure
 * the item has no block. */
static bool resolve(vm_resolver *r, vm_flight *f) {
  vm_core *c = r->c;
  /* The slot's operands are about to change. */
  vm_keep_forget(r->e, f);
  memset(&f->item, 0, sizeof f->item);
  r->item = &f->item;
  bool ok =
      f->in->op == ISA_OP_sendrecv_gpsimd ? vm_meet_operands(r, f) : vm_resolve(r, f->in, &f->a);
  /* Until the offsets themselves are ready nothing counts, not even a failure. */
  bool ready = r->ready.time <= c->now;
  bool places = f->item.copies != NULL; /* an index has given some: they are in its blocks */
  if (ok && ready && places) ok = check_scatters(c, f, r->err);
  if (!ok || !ready) free_blocks(c, &f->item);
  return ok;
}

bool vm_issue_restored(vm_core *c, unsigned e, vm_flight *f, isa_error *err) {
  /* As when it issued, with the registers and offsets that the file has. */
  vm_resolver r = {.c = c, .e = &c->eng[e], .err = err};
  if (!resolve(&r, f)) return false;
  find_boxes(c, f);
  f->effort = vm_cost_effort(c, e, f->in, &f->a);
  vm_item_touch(c, &f->item);
  vm_item_link(c, &f->item);
  return true;
}

vm_moment vm_too_far_ahead(const vm_core *c, const vm_engine *en) {
  /* The flight that is `depth` places before the next one: it must have started. */
  uint32_t depth = c->cost[VM_DEPTH], i = en->nflights - depth;
  const vm_flight *f = &en->flights[(en->first + i) % VM_FLIGHTS];
  if (depth && depth <= en->nflights && f->item.start > c->now) {
    for (; i > 0; i--) { /* to the first that is yet to start: they start in order */
      const vm_flight *before = &en->flights[(en->first + i - 1) % VM_FLIGHTS];
      if (before->item.start <= c->now) break;
      f = before;
    }
    return (vm_moment){f->item.start, f->node};
  }
  if (en->nflights < VM_FLIGHTS) return (vm_moment){0};
  /* The ring of flights is full: at least one time unit later, so that events at this moment come
   * first. */
  const vm_flight *oldest = &en->flights[en->first]; /* full: nothing to do before it is done */
  return (vm_moment){vm_time_later(oldest->item.done, c->now + 1), oldest->node};
}

/* Adds from .. until to the time that the data path has been at work; spans come in order of their
 * starts. */
static void add_busy(vm_engine *en, vm_time from, vm_time until) {
  /* All of it has been counted by an earlier instruction. */
  if (until <= en->busy_until) return;
  en->busy += until - vm_time_later(from, en->busy_until);
  en->busy_until = until;
}

static vm_verdict refuse(vm_core *c, unsigned e, const isa_error *err) {
  const vm_engine *en = &c->eng[e];
  const isa_form *form = isa_form_of(en->code->insns[en->pc].op);
  vm_fault(c, err->status, vm_at_pc(c, e, en->pc), "operand %s: %s",
           err->field >= 0 ? form->fields[err->field].name : "?", err->text);
  /* Blocks are freed by resolve. */
  return VM_FAULT;
}

/* Operands, boxes and effort of the flight that is to issue, if its last round gave none of them or
 * only the effort. */
static vm_verdict prepare(vm_core *c, unsigned e, vm_flight *f, vm_known known) {
  isa_error err = {0};
  vm_resolver r = {.c = c, .e = &c->eng[e], .err = &err};
  bool ok = resolve(&r, f);
  /* Before the failure: it may be due to an offset that is still being written. */
  if (r.ready.time > c->now) return vm_stall(c, e, r.ready, VM_WHY_HAZARD);
  if (!ok) return refuse(c, e, &err);
  find_boxes(c, f);
  /* Only operands that a register moves, and only if boxes meet: the exact comparison takes time.
   */
  if (r.moved && !c->run->timing_only && boxes_meet(&f->item) && !check_moved(c, f, &err)) {
    free_blocks(c, &f->item);
    return refuse(c, e, &err);
  }
  vm_item_touch(c, &f->item);
  /* The effort of the last round, since shapes have not changed. */
  if (known == VM_KNOWN_EFFORT) return VM_RETIRE;
  f->effort = vm_cost_effort(c, e, f->in, &f->a);
  vm_keep_note(c, e, f);
  return VM_RETIRE;
}

vm_verdict vm_issue(vm_core *c, unsigned e, const isa_insn *in) {
  vm_engine *en = &c->eng[e];
  vm_moment again = vm_too_far_ahead(c, en);
  if (again.time) return vm_stall(c, e, again, VM_WHY_DEPTH);
  uint32_t slot = (en->first + en->nflights) % VM_FLIGHTS;
  vm_flight *f = &en->flights[slot];
  /* A slot keeps operands of its last use (vm_keep_find): only what issue sets is reset. */
  f->in = in;
  f->pc = en->pc;
  f->finished = false;
  f->table_from = f->table_until = 0;
  /* vm_clock gives ports to an instruction that streams. */
  f->ports = 0; /* the load of a table uses none */
  vm_known known = vm_keep_find(en, f);
  if (known != VM_KNOWN_ALL) {
    vm_verdict ready = prepare(c, e, f, known);
    if (ready != VM_RETIRE) return ready;
  }
  /* From here on it cannot be refused. */
  vm_clock(c, e, f);
  vm_tell_issue(c, e, f);
  en->nflights++;
  en->data_instructions++;
  /* Instructions finish out of order (a short one behind a long one on other bytes): the latest
   * counts. */
  en->last_done = vm_later((vm_moment){f->item.done, f->node}, en->last_done);
  /* The load of a table keeps the data path busy, before the instruction. */
  add_busy(en, f->table_from, f->table_until);
  add_busy(en, f->item.start, f->item.done);
  vm_item_link(c, &f->item);
  vm_post(c, VM_E_DONE, e, f->item.done, slot);
  c->cause = f->node;
  /* Updates at read time are posted now, since that time is known; those at the end are posted
   * then. */
  if (in->upd.kind != ISA_UPD_none && in->upd.at_read)
    vm_sem_post(c, &in->upd, f->read, vm_at_pc(c, e, f->pc));
  return VM_RETIRE;
}

/* ---- Execution ---------------------------------------------------------------------------- */

vm_verdict vm_run_handler(vm_dp *d, unsigned op, const vm_operands *a) {
  switch (op) {
#define CASE_DONE(name, form) \
  case ISA_OP_##name:         \
    return vm_op_##name(d, &a->form);
#define CASE_PLANNED(name, form)
#define INSN(name, number, eng, gen, form, rule, runs, cost, status, prof, text) \
  HANDLED_##runs(CASE_##status, name, form)
#include "../../isa/opcodes.def"
  default: return vm_dp_fault(d, "%s has no handler", isa_ops[op].name);
  }
}

static void count_work(vm_core *c, vm_engine *en, const vm_flight *f) {
  /* An instruction without destination streams nothing. */
  uint64_t partitions = f->item.ndst ? f->item.dst[0].p1 - f->item.dst[0].p0 : 0;
  /* Before the product: times of long runs would overflow. */
  en->streaming += (f->streamed - f->item.start) / ISA_PMAX * partitions;
  for (unsigned i = 0; i < 4; i++) en->traffic[i / 2][i % 2] += f->effort.traffic[i / 2][i % 2];
  c->flops += f->effort.flops.logical;
  c->adjusted_flops += f->effort.flops.adjusted;
  if (!isa_insn_turns(f->in)) return;
  c->transpose_flops += f->effort.flops.logical;
  c->adjusted_transpose_flops += f->effort.flops.adjusted;
}

static void execute(vm_core *c, unsigned e, vm_flight *f) {
  vm_engine *en = &c->eng[e];
  /* First the readers of the old bytes. */
  vm_protect(c, f->item.dst, f->item.ndst, &f->item);
  vm_tell_execute(c, e, f);
  if (!c->run->timing_only) vm_batch_flight(c, e, f);
  vm_tell_executed(c, e, f);
  count_work(c, en, f);
  vm_item_unlink(c, &f->item);
}

void vm_flight_done(vm_core *c, unsigned e, uint32_t slot) {
  vm_engine *en = &c->eng[e];
  vm_flight *f = &en->flights[slot];
  /* A later instruction may end first: it executes after those before it. */
  f->finished = true;
  if (f->table_until)
    vm_trace(c, &(vm_trace_event){.kind = VM_EV_TABLE,
                                  .where = vm_at_pc(c, e, f->pc),
                                  .start = f->table_from,
                                  .end = f->table_until});
  vm_trace(c, &(vm_trace_event){.kind = VM_EV_INSN,
                                .where = vm_at_pc(c, e, f->pc),
                                .start = f->item.start,
                                .end = f->item.done});
  c->cause = f->node;
  if (f->in->upd.kind != ISA_UPD_none && !f->in->upd.at_read)
    vm_sem_post(c, &f->in->upd, c->now, vm_at_pc(c, e, f->pc));
  /* In order of issue: what a handler sees is what program order promises. */
  while (en->nflights && en->flights[en->first].finished && !c->run->ended) {
    execute(c, e, &en->flights[en->first]);
    en->first = (en->first + 1) % VM_FLIGHTS;
    en->nflights--;
  }
}
