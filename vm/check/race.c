/* Accesses to memory, and whether two that conflict are ordered. Each is kept (access.c) until a
 * later one that comes after it covers it, or until every engine knows of it. */
#include "check.h"
#include "judge.h"
#include "meet.h"
#include "../dma/dma.h"

#include <string.h>

/* Whether an access is complete for whoever has this clock. */
static bool known(const uint32_t *clock, const vm_ck_access *a) {
  /* Complete, or read by its own engine, which had to wait for it. */
  return clock[a->comp] >= a->epoch || (a->seen_epoch && clock[a->seen_comp] >= a->seen_epoch);
}

bool vm_ck_race_known(const uint32_t *clock, const vm_ck_access *x, const vm_ck_access *y) {
  /* The sequencer's own earlier steps are in order even if the clock does not say so. */
  bool own = y->logged && y->engine < VM_CK_ENGINES && x->comp == vm_ck_comp(y->engine, OF_SEQ);
  return known(clock, x) || (own && x->epoch <= y->seq);
}

/* The least that any engine that still runs knows of a component. */
static void clocks_floor(const vm_core *c, uint32_t *floor) {
  struct vm_check *k = c->check;
  /* All ones: an engine that has halted holds nothing back. */
  memset(floor, 0xff, k->ncomps * sizeof *floor);
  for (unsigned e = 0; e < k->nengines; e++)
    for (uint32_t i = 0; i < k->ncomps && vm_ck_goes_on(c, e); i++)
      if (k->clock[e][i] < floor[i]) floor[i] = k->clock[e][i];
}

/* Forgets what every engine knows of: no access to come can race with it, unless another rank may
 * make it. */
static void prune(vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t *floor = isa_zalloc(&c->al, k->ncomps * sizeof *floor);
  /* Without memory nothing is forgotten: it costs only time. */
  if (!floor) return;
  /* In a replay by the clocks of the judge. */
  if (k->view)
    vm_ck_judge_floor(c, floor);
  else
    clocks_floor(c, floor);
  for (uint32_t id = 0; id < k->naccesses; id++)
    if (k->accesses[id].alive && known(floor, &k->accesses[id]) &&
        !k->regions[k->accesses[id].region].pushed)
      vm_ck_access_forget(c, id);
  isa_free(&c->al, floor, k->ncomps * sizeof *floor);
  /* Doubled, so that pruning costs little however many stay. */
  k->prune_at = 2 * k->alive + VM_CK_PRUNE;
}

/* ---- Two accesses ------------------------------------------------------------------------- */

static bool same_bytes(const vm_ck_access *a, const vm_ck_access *b) {
  if (a->p0 != b->p0 || a->p1 != b->p1 || a->set.start != b->set.start ||
      a->set.run != b->set.run || a->set.n != b->set.n)
    return false;
  for (unsigned d = 0; d < a->set.n; d++)
    if (a->set.step[d] != b->set.step[d] || a->set.num[d] != b->set.num[d]) return false;
  return true;
}

static bool covers(const vm_ck_access *a, const vm_ck_access *b) {
  /* Only one run of bytes covers others; a set with holes does not. */
  return a->p0 <= b->p0 && a->p1 >= b->p1 && a->set.n == 0 && a->set.start <= b->set.start &&
         a->set.start + a->set.run >= b->set.start + b->set.span[0];
}

static bool boxes_meet(const vm_ck_access *a, const vm_ck_access *b) {
  return a->p0 < b->p1 && b->p0 < a->p1 && a->set.start < b->set.start + b->set.span[0] &&
         b->set.start < a->set.start + a->set.span[0];
}

bool vm_ck_race_ordered(const vm_core *c, const uint32_t *clock, const vm_ck_access *old,
                        const vm_ck_access *a) {
  /* One ring, one data path, one sequencer: its accesses are in order. */
  if (old->comp == a->comp) return true;
  uint32_t rings = c->check->rings;
  bool both = a->comp < rings && old->comp < rings;
  /* A data path and the sequencer of one engine: the hazards of the engine order them. */
  if (both && vm_ck_engine_of(old->comp) == a->engine) return true;
  return vm_ck_race_known(clock, old, a);
}

static bool ordered(const vm_core *c, unsigned e, const vm_ck_access *old, const vm_ck_access *a) {
  /* A push has its clock elsewhere. */
  const uint32_t *clock = e < VM_CK_ENGINES ? c->check->clock[e] : c->check->pushing;
  return vm_ck_race_ordered(c, c->check->view ? c->check->view : clock, old, a);
}

/* Whether what is ordered with `a` need not be compared with an access that a covers. What a twin
 * writes, and what is read of it, has no order with the other twin, nor needs one: then what came
 * before must be compared with that. */
static bool stands_for(const vm_core *c, const vm_ck_access *a, const vm_ck_access *old) {
  /* A read of a twin's bytes stands for nothing. */
  if (!c->check->regions[a->region].twins) return true;
  if (!a->writes) return false;
  uint32_t group = vm_ck_judge_twins(c, a);
  return !group || group == vm_ck_judge_twins(c, old);
}

/* An engine's read of what it wrote itself waits for the whole write: what comes after the read
 * comes after the write. */
static void note_own_read(vm_core *c, vm_ck_access *old, const vm_ck_access *a) {
  uint32_t rings = c->check->rings;
  if (a->comp >= rings || old->comp >= rings || a->writes || !old->writes) return;
  /* The first such read is the earliest proof. */
  if (vm_ck_engine_of(a->comp) != vm_ck_engine_of(old->comp) || old->seen_epoch) return;
  bool both_data = a->comp % OF_ENGINE != OF_SEQ && old->comp % OF_ENGINE != OF_SEQ;
  if (both_data && old->epoch >= a->epoch) return; /* in place: what it reads was there before */
  if (!isa_byteset_meet(&old->set, &a->set)) return;
  old->seen_comp = a->comp;
  old->seen_epoch = a->epoch;
  /* The log's copy must say the same to the judge. */
  if (!old->logged || old->logged > c->check->log.naccesses) return;
  c->check->log.accesses[old->logged - 1].seen_comp = a->comp;
  c->check->log.accesses[old->logged - 1].seen_epoch = a->epoch;
}

/* ---- One access --------------------------------------------------------------------------- */

/* While the run goes on it is a suspicion, as long as there is a log. */
static void found_pair(vm_core *c, const vm_ck_access *old, const vm_ck_access *a) {
  struct vm_check *k = c->check;
  /* With a log nothing is said before all of it is known. */
  if (k->log.on && !k->judge)
    k->suspect = true;
  else
    vm_ck_judge_pair(c, old, a);
}

/* Looks at accesses that overlap a, forgets those that it covers. The id of an equal access of the
 * same source is left in *again. */
static void compare(vm_core *c, unsigned e, const vm_ck_access *a, const vm_ck_bucket *b,
                    uint32_t *again) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < b->n; i++) {
    uint32_t id = b->ids[i];
    vm_ck_access *old = &k->accesses[id];
    /* In several buckets: seen already. */
    if (old->stamp == k->stamp) continue;
    old->stamp = k->stamp;
    bool conflict =
        /* Bytes that are handed over conflict only within their own engine. */
        (a->writes || old->writes) && (a->engine == old->engine || !(a->handed || old->handed));
    if ((!conflict && old->comp != a->comp) || !boxes_meet(old, a)) continue;
    note_own_read(c, old, a);
    if (old->comp == a->comp && old->writes == a->writes && old->handed == a->handed &&
        /* The same source, bytes and kind: the newer one replaces it. */
        same_bytes(old, a) && stands_for(c, a, old)) {
      *again = id;
    } else if (!ordered(c, e, old, a)) {
      /* Boxes may meet where bytes do not. */
      if (isa_byteset_meet(&old->set, &a->set)) found_pair(c, old, a);
    } else if ((a->writes || (!old->writes && old->comp == a->comp)) && covers(a, old) &&
               stands_for(c, a, old)) {
      i -= vm_ck_access_forget(c, id); /* another took its place */
    }
  }
}

static void look(vm_core *c, unsigned e, vm_ck_access *a) {
  struct vm_check *k = c->check;
  vm_ck_region *r = &k->regions[a->region];
  uint64_t lo = (uint64_t)a->set.start - r->lo, hi = lo + (uint64_t)a->set.span[0] - 1;
  a->first = (uint32_t)(lo >> r->shift);
  a->last = (uint32_t)(hi >> r->shift);
  uint32_t again = UINT32_MAX;
  a->stamp = ++k->stamp;
  for (uint32_t b = a->first; b <= a->last; b++) compare(c, e, a, &r->buckets[b], &again);
  /* It keeps its place in its buckets. */
  if (again != UINT32_MAX && k->accesses[again].alive) {
    vm_ck_access *old = &k->accesses[again];
    old->epoch = a->epoch;
    old->seen_epoch = 0;
    old->pc = a->pc;
    old->engine = a->engine;
    old->transfer = a->transfer;
    old->push = a->push;
    old->time = a->time;
    old->step = a->step;
    old->at = a->at;
    old->logged = a->logged;
    old->seq = a->seq;
    return;
  }
  vm_ck_access_keep(c, a);
  if (k->alive > k->prune_at) prune(c);
}

void vm_ck_race_look(vm_core *c, vm_ck_access *a) { look(c, a->engine, a); }

bool vm_ck_race_meet(const vm_ck_access *a, const vm_ck_access *b) {
  return a->region == b->region && boxes_meet(a, b) && isa_byteset_meet(&a->set, &b->set);
}

void vm_ck_race_record(vm_core *c, unsigned e, vm_ck_access *a) {
  /* Reads of memory that nothing writes can race with nothing. */
  if (!c->check->regions[a->region].written) return;
  if (c->check->recording) {
    vm_ck_legal_access(c, a);
    return;
  }
  if (!vm_ck_log_access(c, a)) a->logged = 0;
  /* The judge looks at it; until then it costs nothing. */
  else if (c->check->suspect)
    return;
  look(c, e, a);
}

void vm_ck_race_set(const vm_core *c, const vm_view *v, vm_ck_access *a) {
  isa_dim dims[VM_DIMS];
  unsigned n = 0;
  /* Dimensions of one element do not count. */
  for (unsigned d = 1; d < v->ndim; d++)
    if (v->num[d] > 1) dims[n++] = (isa_dim){v->step[d], v->num[d]};
  int64_t at = (int64_t)(uintptr_t)v->at;
  if (v->space != ISA_HBM) {
    bool sbuf = v->space == ISA_SBUF;
    at = (v->at - (sbuf ? vm_sbuf_of(c, v->core) : c->mem.psum)) %
         (int64_t)(sbuf ? c->mem.sbuf_pitch : c->mem.psum_pitch);
  }
  isa_byteset_make(at, v->esize, dims, n, &a->set);
  a->p0 = v->part;
  a->p1 = (uint16_t)(v->part + v->num[0]);
  a->region = vm_ck_race_region(c, v);
}

/* Elements by an index, where those that follow one another are taken together. */
static void check_indexed_view(vm_core *c, unsigned e, const vm_view *v, vm_ck_access *a) {
  vm_view run = *v;
  run.place = NULL;
  run.ndim = 2;
  run.step[1] = v->esize;
  for (uint64_t i = 0, n = 1; i < v->elems; i += n, n = 1) {
    while (i + n < v->elems && v->place[i + n] == v->place[i] + (int64_t)n * v->esize) n++;
    run.at = v->at + v->place[i];
    run.num[1] = (uint32_t)n;
    vm_ck_race_set(c, &run, a);
    vm_ck_race_record(c, e, a);
  }
}

static void check_view(vm_core *c, unsigned e, const vm_view *v, vm_ck_access *a) {
  if (!v->at || v->elems == 0 || v->num[0] == 0 || c->run->ended) return;
  if (v->place) {
    check_indexed_view(c, e, v, a);
    return;
  }
  vm_ck_race_set(c, v, a);
  vm_ck_race_record(c, e, a);
}

struct walk {
  vm_core *c;
  unsigned e;
  vm_ck_access a;
  unsigned read_comp, write_comp;
};

static void check_operand(void *ud, const vm_view *v, unsigned flags) {
  struct walk *w = ud;
  if (flags & AP_R) {
    w->a.writes = false;
    w->a.comp = (uint16_t)w->read_comp;
    check_view(w->c, w->e, v, &w->a);
  }
  if (flags & AP_W) {
    w->a.writes = true;
    w->a.comp = (uint16_t)w->write_comp;
    check_view(w->c, w->e, v, &w->a);
  }
}

/* In a sendrecv each core touches its own bytes: it writes what it gets, and reads what it
 * sends. */
static void check_half(vm_core *c, const vm_flight *f, struct walk *w) {
  check_operand(w, &f->a.SENDRECV_GPSIMD.dst, AP_W);
  check_operand(w, &c->check->sent[c->number], AP_R);
}

void vm_ck_race_flight(vm_core *c, unsigned e, const vm_flight *f) {
  bool weights = isa_ops[f->in->op].cost == ISA_COST_LDW;
  struct walk w = {.c = c,
                   .e = e,
                   .a = {.epoch = c->check->issued[e],
                         .engine = (uint8_t)e,
                         .queue = VM_CK_QUEUES,
                         .pc = f->pc,
                         .time = f->item.start},
                   .read_comp = vm_ck_comp(e, weights ? OF_WEIGHTS : OF_READ),
                   .write_comp = vm_ck_comp(e, OF_DONE)};
  if (f->in->op == ISA_OP_sendrecv_gpsimd)
    check_half(c, f, &w);
  else
    vm_ck_each_operand(c, f, check_operand, &w);
  if ((c->check->tells_reads >> e & 1) && e != ISA_ENG_tensor && !c->check->recording)
    vm_ck_note_hazard(c, e);
}

static void check_own(vm_core *c, unsigned e, const vm_view *v, bool writes, bool handed) {
  uint32_t *clock = c->check->recording ? NULL : c->check->clock[e] + vm_ck_comp(e, OF_SEQ);
  vm_ck_access a = {.epoch = clock ? ++*clock : 0,
                    .comp = (uint16_t)vm_ck_comp(e, OF_SEQ),
                    .engine = (uint8_t)e,
                    .queue = VM_CK_QUEUES,
                    .pc = vm_ck_engine(c, e)->pc,
                    .writes = writes,
                    .handed = handed,
                    .time = c->now};
  check_view(c, e, v, &a);
}

/* A sequencer has waited for what its own data path still had to do with these bytes. */
static void know_touched(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  const vm_view none = {0}, touched[2] = {writes ? *v : none, writes ? none : *v};
  if (c->check->recording || v->space == ISA_HBM) return;
  uint32_t ended = vm_ck_last_touch(c, e, touched, c->check->clock[e][vm_ck_comp(e, OF_DONE)]);
  if (ended) vm_ck_data_path_known(c, e, ended);
}

void vm_ck_race_sequencer(vm_core *c, unsigned e, const vm_view *v, bool writes) {
  know_touched(c, e, v, writes);
  check_own(c, e, v, writes, false);
}

void vm_ck_race_handed(vm_core *c, unsigned e, const vm_view *v) {
  check_own(c, e, v, false, true);
}

/* ---- Shares ------------------------------------------------------------------------------- */

typedef struct share_side {
  vm_core *c;
  unsigned e;
  vm_ck_access *a;
  const vm_transfer *t;
  bool indexed, turned;
  unsigned row_dim; /* of an indexed share: the dimension of the rows */
} share_side;

/* Partitions are dimension 0 of a transposed block, as of any other. */
static void lead_partitions(const vm_core *c, vm_view *v) {
  int64_t pitch = (int64_t)c->mem.sbuf_pitch;
  if (v->space != ISA_SBUF) return;
  v->part = (uint16_t)((v->at - vm_sbuf_of(c, v->core)) / pitch);
  for (unsigned d = 1; d < v->ndim; d++)
    if (v->num[d] > 1 && v->step[d] >= pitch) {
      v->num[0] = v->num[d];
      v->step[0] = v->step[d];
      v->num[d] = 1;
    }
}

/* A block of the elements, whose dimension row_dim has the rows of the index vector. */
static void check_block(const share_side *s, const vm_view *block, uint64_t first_row) {
  vm_view row = *block;
  unsigned d = s->row_dim;
  if (s->turned) lead_partitions(s->c, &row);
  if (!s->indexed) {
    check_view(s->c, s->e, &row, s->a);
    return;
  }
  row.num[d] = 1;
  row.elems = block->num[d] ? block->elems / block->num[d] : 0;
  for (uint32_t i = 0; i < block->num[d]; i++) {
    int64_t at = s->t->rows[first_row + i];
    if (at == VM_NO_ROW) continue;
    row.at = block->at + at;
    check_view(s->c, s->e, &row, s->a);
  }
}

/* Cuts elements e0 .. e1 - 1 of a view, dimension d and on, into blocks that are views. row: index
 * of dimension row_dim so far. */
static void each_block(const share_side *s, const vm_view *v, unsigned d, uint64_t e0, uint64_t e1,
                       uint64_t row) {
  uint64_t each = 1;
  bool is_row = s->indexed && d == s->row_dim;
  int64_t step = is_row ? 0 : v->step[d];
  for (unsigned i = d + 1; i < v->ndim; i++) each *= v->num[i];
  if (e0 >= e1 || each == 0) return;
  uint64_t i0 = (e0 + each - 1) / each, i1 = e1 / each;
  vm_view part = *v;
  part.num[d] = 1;
  if (e0 % each || i0 > i1) { /* the end of a row, or a part in its middle */
    uint64_t i = e0 / each, end = e1 < (i + 1) * each ? e1 : (i + 1) * each;
    part.at = v->at + (int64_t)i * step;
    if (d == 0) part.part = (uint16_t)(v->part + i);
    each_block(s, &part, d + 1, e0 % each, end - i * each, is_row ? i : row);
  }
  if (i1 > i0) {
    vm_view block = *v;
    block.at += (int64_t)i0 * step;
    block.num[d] = (uint32_t)(i1 - i0);
    if (d == 0) block.part = (uint16_t)(v->part + i0);
    block.elems = (i1 - i0) * each;
    if (d == 0) block.elems = each;
    check_block(s, &block, is_row ? i0 : row);
  }
  if (i0 <= i1 && e1 % each) { /* the beginning of a row */
    part.at = v->at + (int64_t)i1 * step;
    if (d == 0) part.part = (uint16_t)(v->part + i1);
    each_block(s, &part, d + 1, 0, e1 % each, is_row ? i1 : row);
  }
}

/* The source of a transpose has no dimension for the partitions yet. */
static vm_view with_partitions(const vm_view *v) {
  vm_view out = *v;
  out.ndim = (uint8_t)(v->ndim + 1);
  out.num[0] = 1;
  out.step[0] = 0;
  for (unsigned d = 0; d < v->ndim; d++) {
    out.num[d + 1] = v->num[d];
    out.step[d + 1] = v->step[d];
  }
  return out;
}

static void check_side(share_side *s, const vm_share *share, const vm_view *v, bool indexed) {
  s->indexed = indexed;
  s->turned = s->t->permuted && v == &s->t->src;
  s->row_dim = s->t->row_dim + s->turned;
  vm_view turned;
  if (s->turned) {
    turned = with_partitions(v);
    v = &turned;
  }
  uint64_t from = s->t->from[v != &s->t->dst];
  each_block(s, v, 0, from + share->e0, from + share->e1, 0);
}

void vm_ck_race_share(vm_core *c, unsigned e, const vm_transfer *t, const vm_share *share,
                      unsigned ring) {
  unsigned queue = vm_ck_queue(c, t->queue), comp = vm_ck_ring_comp(c->check, queue, ring);
  vm_ck_access a = {.epoch = c->check->recording ? 0 : c->check->shares[comp - c->check->rings],
                    .comp = (uint16_t)comp,
                    .engine = (uint8_t)e,
                    .queue = (uint8_t)queue,
                    .ring = (uint8_t)ring,
                    .transfer = t->number,
                    .pc = vm_ck_engine(c, e)->pc,
                    .time = share->ready};
  share_side s = {.c = c, .e = e, .a = &a, .t = t};
  if (share->e0 >= share->e1) return;
  for (unsigned i = 0; i < t->nsrc; i++)
    check_side(&s, share, i ? &t->more[i - 1] : &t->src, t->src_indexed == (int)i);
  a.writes = true;
  if (!t->put) check_side(&s, share, &t->dst, t->dst_indexed);
}

void vm_ck_race_pushed(vm_core *c, const vm_view *v, uint64_t first, uint64_t n, vm_ck_access *a) {
  share_side s = {.c = c, .e = VM_CK_PEER, .a = a};
  each_block(&s, v, 0, first, first + n, 0);
}
