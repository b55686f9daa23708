/* The checks of a saved run: findings, clocks, accesses, shadows. What follows from the program is
 * made again by vm_check_start. Places in HBM are bytes of a tensor. */
#include "../../isa/bytes.h"
#include "../check/check.h"
#include "../check/impl.h"
#include "save.h"

#include <string.h>

static void save_i64(vm_saver *s, int64_t *v) {
  uint64_t bits = (uint64_t)*v;
  vm_save_u64(s, &bits);
  *v = (int64_t)bits;
}

/* An instruction that a report may name; 0 also if none exists. */
static void walk_pc(vm_saver *s, const vm_core *c, unsigned engine, uint32_t *pc) {
  vm_save_u32(s, pc);
  vm_saver_need(s, *pc == 0 || (engine < c->check->nengines && *pc < vm_ck_code(c, engine)->n),
                "a check names an instruction that does not exist");
}

static void walk_place(vm_saver *s, const vm_core *c, uint8_t *engine, uint32_t *pc) {
  uint32_t e = *engine;
  vm_save_below(s, &e, c->check->nengines, "engine");
  *engine = (uint8_t)e;
  walk_pc(s, c, e, pc);
}

/* ---- Findings ------------------------------------------------------------------------------ */

static void walk_text(vm_saver *s, isa_buf *b) {
  uint32_t n = (uint32_t)b->len;
  vm_saver_count(s, &n, UINT32_MAX, 1, "bytes of a finding");
  if (!s->reads && n) vm_saver_bytes(s, b->data, n);
  if (!s->reads) return;
  if (!vm_saver_need(s, s->failed || !memchr(s->at, 0, n), "the text of a finding is not valid"))
    return;
  isa_buf_add(b, s->at, n);
  s->at += n;
  if (b->failed) vm_saver_no_memory(s);
}

static void walk_finding(vm_saver *s, const vm_core *c, vm_finding *f) {
  vm_save_u8(s, &f->kind);
  walk_place(s, c, &f->engine, &f->pc);
  vm_save_u8(s, &f->other_engine);
  vm_save_u8(s, &f->rank);
  vm_save_u16(s, &f->sem);
  vm_save_u16(s, &f->memory);
  vm_save_u16(s, &f->part);
  vm_save_u64(s, &f->byte);
  vm_save_u32(s, &f->other_pc);
  vm_save_time(s, &f->time);
  vm_save_time(s, &f->other_time);
  vm_saver_need(s,
                f->kind < VM_NCHECKS && f->other_engine <= VM_NO_ENGINE &&
                    f->sem <= c->check->nsems && f->part < ISA_PMAX && f->byte >> 48 == 0,
                "a finding belongs to no check");
  vm_save_u32(s, &f->fix);
  vm_save_u32(s, &f->fix_end);
  walk_text(s, &f->text);
  vm_saver_need(s, f->fix <= f->fix_end && f->fix_end <= f->text.len,
                "the fix of a finding is not in its text");
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
  vm_saver_need(s, k->count == n || (k->count > n && n >= VM_FINDINGS),
                "more findings are counted than there are");
  walk_seen(s, k->seen);
}

/* ---- Clocks -------------------------------------------------------------------------------- */

/* Snapshots are shared: each is written where it occurs first, and has a number from then on. */
typedef struct clocks {
  vm_saver *s;
  vm_core *c;
  vm_ck_snapshot **v; /* when it reads */
  uint32_t n, cap;
} clocks;

static bool add_snapshot(clocks *w) {
  const isa_alloc *al = &w->c->al;
  if (!isa_array_grow(al, &w->v, w->n, &w->cap, sizeof *w->v) ||
      !(w->v[w->n] = vm_ck_new_snapshot(w->c))) {
    vm_saver_no_memory(w->s);
    return false;
  }
  w->n++;
  return true;
}

/* The number of a snapshot that is written, 0 for NULL. */
static uint32_t number_of(clocks *w, vm_ck_snapshot *p) {
  uint64_t saves = w->c->check->saves;
  if (!p) return 0;
  if (p->saved != saves) {
    p->saved = saves;
    p->number = w->n + 1;
  }
  return p->number;
}

/* A reference to a snapshot. */
static void walk_snapshot(clocks *w, vm_ck_snapshot **p) {
  vm_saver *s = w->s;
  uint32_t ncomps = w->c->check->ncomps, number = s->reads ? 0 : number_of(w, *p);
  vm_save_below(s, &number, w->n + 2, "clock");
  bool fresh = number > w->n;
  if (fresh && s->reads &&
      (!vm_saver_need(s, ncomps <= vm_saver_left(s) / 4, "a clock is cut off") || !add_snapshot(w)))
    return;
  if (fresh && !s->reads) w->n++;
  if (s->reads && number) {
    *p = w->v[number - 1];
    (*p)->refs++;
  }
  for (uint32_t i = 0; fresh && i < ncomps; i++) vm_save_u32(s, &(*p)->v[i]);
}

static void walk_release(clocks *w, vm_ck_release *r) {
  vm_saver *s = w->s;
  walk_snapshot(w, &r->base);
  for (unsigned i = 0; i < OF_ENGINE; i++) vm_save_u32(s, &r->own[i]);
  vm_save_u32(s, &r->share);
  vm_save_u32(s, &r->twin_share);
  vm_save_u16(s, &r->ring);
  vm_save_u16(s, &r->twin);
  vm_save_u8(s, &r->engine);
  if (r->logged > w->c->check->log.nupdates) r->logged = 0; /* the log has ended */
  vm_save_u32(s, &r->logged);
  vm_saver_need(s, r->logged <= w->c->check->log.nupdates, "an update is not in the log");
  vm_saver_need(s,
                r->base && r->engine < w->c->check->nengines && r->ring < w->c->check->ncomps &&
                    r->twin < w->c->check->ncomps,
                "an update releases nothing");
  walk_pc(s, w->c, s->failed ? 0 : r->engine, &r->pc);
}

static void walk_update(clocks *w, vm_ck_update *u) {
  vm_saver *s = w->s;
  walk_release(w, &u->r);
  save_i64(s, &u->delta);
  save_i64(s, &u->total);
  vm_save_u32(s, &u->epoch);
  vm_save_bool(s, &u->writes);
  vm_saver_need(s, u->delta >= -(int64_t)UINT32_MAX && u->delta <= UINT32_MAX,
                "an update adds too much");
}

/* The sums of an update that is read: those of its source and, until it has arrived, those of its
 * semaphore. */
static void add_up(vm_ck_sem_log *l, vm_ck_source *src, const vm_ck_update *u, bool arrived) {
  if (u->writes) return;
  *(u->delta < 0 ? &src->down : &src->up) += u->delta;
  if (!arrived) *(u->delta < 0 ? &l->down : &l->up) += u->delta;
}

static void walk_source(clocks *w, vm_ck_sem_log *l, vm_ck_source *src) {
  vm_saver *s = w->s;
  uint32_t n = src->n - src->head;
  vm_save_u16(s, &src->comp);
  vm_save_u32(s, &src->arrived);
  vm_saver_count(s, &n, UINT32_MAX / 2, 48, "updates of a semaphore");
  vm_saver_need(s, src->comp % VM_CK_BOTH < w->c->check->ncomps && src->arrived <= n,
                "updates of a semaphore have no source");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) {
      if (!isa_array_grow(&w->c->al, &src->v, src->n, &src->cap, sizeof *src->v)) {
        vm_saver_no_memory(s);
        return;
      }
      src->v[src->n++] = (vm_ck_update){0};
    }
    vm_ck_update *u = &src->v[src->head + i];
    walk_update(w, u);
    if (s->reads && !s->failed) add_up(l, src, u, i < src->arrived);
  }
}

static void walk_held(vm_saver *s, const vm_core *c, unsigned e, vm_ck_held *h) {
  vm_save_bool(s, &h->valid);
  vm_save_u8(s, &h->cond);
  vm_save_u32(s, &h->value);
  vm_save_u32(s, &h->epoch);
  vm_save_time(s, &h->time);
  walk_pc(s, c, e, &h->pc);
  vm_saver_need(s, h->cond < ISA_NCONDS, "the condition of a wait is not valid");
}

static void walk_sem_log(clocks *w, vm_ck_sem_log *l) {
  vm_saver *s = w->s;
  uint32_t n = l->nsrc;
  vm_saver_count(s, &n, w->c->check->ncomps, 10, "sources of a semaphore");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) {
      if (!isa_array_grow(&w->c->al, &l->src, l->nsrc, &l->cap, sizeof *l->src)) {
        vm_saver_no_memory(s);
        return;
      }
      l->src[l->nsrc++] = (vm_ck_source){0};
    }
    walk_source(w, l, &l->src[i]);
  }
  vm_save_bool(s, &l->was_written);
  vm_save_u32(s, &l->before);
  vm_save_u32(s, &l->set_to);
  walk_place(s, w->c, &l->writer, &l->written_pc);
  vm_save_time(s, &l->written_at);
  vm_save_u16(s, &l->write_comp);
  vm_save_u32(s, &l->write_epoch);
  vm_saver_need(s, l->write_comp < w->c->check->ncomps, "the value of a semaphore has no writer");
  if (l->was_written && !s->failed) walk_release(w, &l->write);
  for (unsigned e = 0; e < w->c->check->nengines; e++) {
    walk_held(s, w->c, e, &l->held[e]);
    vm_save_u16(s, &l->from[e]);
  }
}

static void walk_sem_logs(clocks *w) {
  struct vm_check *k = w->c->check;
  for (unsigned i = 0; i < k->nsems && !w->s->failed; i++) {
    bool kept = k->sems[i] != NULL;
    vm_save_bool(w->s, &kept);
    if (!kept) continue;
    if (w->s->reads && !(k->sems[i] = isa_zalloc(&w->c->al, sizeof *k->sems[i]))) {
      vm_saver_no_memory(w->s);
      return;
    }
    walk_sem_log(w, k->sems[i]);
  }
}

static void walk_queue(clocks *w, unsigned q) {
  vm_saver *s = w->s;
  struct vm_check *k = w->c->check;
  bool triggered = k->trigger[q] < VM_CK_ENGINES;
  for (unsigned r = 0; r < ISA_NDMA; r++) vm_save_u32(s, &k->shares[q * ISA_NDMA + r]);
  walk_snapshot(w, &k->queue_base[q]);
  vm_save_bool(s, &triggered);
  if (!triggered) return;
  walk_place(s, w->c, &k->trigger[q], &k->trigger_pc[q]);
  vm_save_u32(s, &k->trigger_epoch[q]);
  vm_save_time(s, &k->trigger_time[q]);
}

static void walk_clocks(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  clocks w = {.s = s, .c = c};
  k->saves++;
  vm_save_bool(s, &k->suspect);
  for (unsigned e = 0; e < k->nengines && !s->failed; e++) {
    for (uint32_t i = 0; i < k->ncomps; i++) vm_save_u32(s, &k->clock[e][i]);
    walk_snapshot(&w, &k->now[e]);
  }
  for (unsigned q = 0; q < k->nqueues && !s->failed; q++) walk_queue(&w, q);
  walk_sem_logs(&w);
  isa_free(&c->al, w.v, w.cap * sizeof *w.v);
}

/* ---- Accesses ------------------------------------------------------------------------------ */

void vm_save_check_set(vm_saver *s, const vm_core *c, uint16_t *region, isa_byteset *b) {
  const struct vm_check *k = c->check;
  vm_save_u16(s, region);
  if (!vm_saver_need(s, *region < k->nregions, "an access names no memory")) return;
  const vm_ck_region *r = &k->regions[*region];
  int64_t bytes = (int64_t)(r->hi - r->lo), at = b->start - (int64_t)r->lo;
  uint32_t n = b->n;
  save_i64(s, &at);
  save_i64(s, &b->run);
  vm_save_below(s, &n, ISA_MAX_DIMS + 1, "dimension");
  for (unsigned d = 0; d < n; d++) {
    save_i64(s, &b->step[d]);
    save_i64(s, &b->num[d]);
  }
  if (!s->reads || s->failed) return;
  bool ok = b->run > 0 && b->run <= bytes;
  b->n = n;
  b->span[n] = b->run;
  for (unsigned d = n; d-- > 0 && ok;) { /* each within the region, so that no sum overflows */
    int64_t inner = d + 1 < n ? b->step[d + 1] : b->run + 1;
    ok = b->num[d] > 1 && b->step[d] >= inner && b->step[d] <= bytes &&
         !__builtin_mul_overflow(b->step[d], b->num[d] - 1, &b->span[d]) && b->span[d] <= bytes;
    b->span[d] += ok ? b->span[d + 1] : 0;
  }
  ok = ok && at >= 0 && at <= bytes && b->span[0] <= bytes - at;
  if (vm_saver_need(s, ok, "an access is outside its memory")) b->start = at + (int64_t)r->lo;
}

void vm_save_check_access(vm_saver *s, const vm_core *c, vm_ck_access *a) {
  const struct vm_check *k = c->check;
  vm_save_check_set(s, c, &a->region, &a->set);
  vm_save_u16(s, &a->p0);
  vm_save_u16(s, &a->p1);
  vm_save_u16(s, &a->comp);
  vm_save_u32(s, &a->epoch);
  vm_save_u16(s, &a->seen_comp);
  vm_save_u32(s, &a->seen_epoch);
  vm_save_bool(s, &a->writes);
  vm_save_bool(s, &a->handed);
  vm_save_u8(s, &a->queue);
  vm_save_u8(s, &a->ring);
  vm_save_u32(s, &a->transfer);
  vm_save_time(s, &a->time);
  walk_place(s, c, &a->engine, &a->pc);
  vm_saver_need(s,
                a->p0 < a->p1 && a->p1 <= ISA_PMAX && a->comp < k->ncomps &&
                    a->seen_comp < k->ncomps && (a->queue < k->nqueues || a->queue == VM_CK_QUEUES),
                "an access belongs to no engine or queue");
  if (!s->reads || s->failed) return;
  const vm_ck_region *r = &k->regions[a->region];
  uint64_t lo = (uint64_t)a->set.start - r->lo;
  a->first = (uint32_t)(lo >> r->shift);
  a->last = (uint32_t)((lo + (uint64_t)a->set.span[0] - 1) >> r->shift);
}

/* Numbers of accesses, alive or free; none may come twice. Each is noted as seen. */
static void walk_id(vm_saver *s, struct vm_check *k, uint32_t *id, bool alive) {
  vm_save_below(s, id, k->naccesses, "access");
  if (!s->reads || s->failed) return;
  vm_ck_access *a = &k->accesses[*id];
  vm_saver_need(s, a->alive == alive && a->stamp != k->stamp,
                "an access is listed in a wrong place");
  a->stamp = k->stamp;
}

static void walk_free_ids(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = s->reads ? k->naccesses - k->alive : k->nfree;
  k->stamp += s->reads;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) {
      if (!isa_array_grow(&c->al, &k->free_ids, k->nfree, &k->cap_free, sizeof *k->free_ids)) {
        vm_saver_no_memory(s);
        return;
      }
      k->free_ids[k->nfree++] = 0;
    }
    walk_id(s, k, &k->free_ids[i], false);
  }
}

/* What a bucket holds, in its order: reports come in that order. Returns how many. */
static uint32_t walk_bucket(vm_saver *s, vm_core *c, uint32_t r, uint32_t number) {
  struct vm_check *k = c->check;
  vm_ck_bucket *b = &k->regions[r].buckets[number];
  uint32_t n = b->n;
  vm_saver_count(s, &n, k->naccesses, 4, "accesses");
  k->stamp += s->reads;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) {
      if (!isa_array_grow(&c->al, &b->ids, b->n, &b->cap, sizeof *b->ids)) {
        vm_saver_no_memory(s);
        return 0;
      }
      b->ids[b->n++] = 0;
    }
    walk_id(s, k, &b->ids[i], true);
    const vm_ck_access *a = &k->accesses[b->ids[i]];
    vm_saver_need(s, a->region == r && a->first <= number && number <= a->last,
                  "an access is listed in a wrong place");
  }
  return n;
}

static void walk_buckets(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  uint64_t want = 0, have = 0;
  for (uint32_t id = 0; id < k->naccesses; id++)
    if (k->accesses[id].alive) want += k->accesses[id].last - k->accesses[id].first + 1;
  for (uint32_t r = 0; r < k->nregions; r++)
    for (uint32_t b = 0; b < k->regions[r].nbuckets && !s->failed; b++)
      have += walk_bucket(s, c, r, b);
  vm_saver_need(s, have == want, "an access is missing from a list");
}

static void walk_accesses(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = k->naccesses;
  vm_save_u32(s, &k->prune_at);
  vm_saver_count(s, &n, UINT32_MAX / 2, 5, "accesses");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (s->reads) {
      if (!isa_array_grow(&c->al, &k->accesses, i, &k->cap_accesses, sizeof *k->accesses)) {
        vm_saver_no_memory(s);
        return;
      }
      k->accesses[k->naccesses++] = (vm_ck_access){0};
    }
    vm_ck_access *a = &k->accesses[i];
    vm_save_bool(s, &a->alive);
    if (a->alive) vm_save_check_access(s, c, a);
    if (a->alive) vm_save_u32(s, &a->logged);
    if (s->reads) k->alive += a->alive;
  }
  if (!s->failed) walk_free_ids(s, c);
  if (!s->failed) walk_buckets(s, c);
}

/* ---- Shadows ------------------------------------------------------------------------------- */

enum { BLOCK = 8192, NOTHING = 0, EVERYTHING, SOME, MARKS };

/* Eight bytes at a time, because a save looks at all that was written. */
static const uint64_t ONES = VM_CK_WRITTEN * UINT64_C(0x0101010101010101);

/* How n bytes are saved, of which those from `reach` on are zero. */
static uint8_t kind_of(const uint8_t *at, size_t n, uint64_t reach) {
  uint64_t any = 0, all = reach < n ? 0 : ONES;
  size_t i = 0;
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
  if (any & ~ONES) return MARKS;
  return !any ? NOTHING : all == ONES ? EVERYTHING : SOME;
}

/* Bit i of the result is byte i of eight, each 0 or 1. */
static uint8_t pack(const uint8_t *at) {
  return (uint8_t)((isa_get64(at) * UINT64_C(0x0102040810204080)) >> 56);
}
static void unpack(uint8_t bits, uint8_t *at) {
  uint64_t each = bits * ONES & UINT64_C(0x8040201008040201); /* bit i in byte i */
  isa_put64(at, (each + 0x7f * ONES) >> 7 & ONES);
}

/* Runs of equal bytes: how many and which. */
static void walk_marks(vm_saver *s, uint8_t *at, size_t n) {
  for (size_t i = 0; i < n && !s->failed;) {
    uint32_t run = 1;
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
static void walk_shadow(vm_saver *s, uint8_t *at, uint64_t bytes, uint64_t *reach) {
  for (uint64_t i = 0; i < bytes && !s->failed; i += BLOCK) {
    size_t n = bytes - i < BLOCK ? (size_t)(bytes - i) : BLOCK;
    bool marked = walk_block(s, at + i, n, *reach > i ? *reach - i : 0);
    if (s->reads && marked && *reach < i + n) *reach = i + n;
  }
}

/* A tensor that was another's memory when the run began counts as written: it has no shadow. */
static void walk_tensor_shadow(vm_saver *s, vm_core *c, vm_ck_shadow *h) {
  bool kept = h->at != NULL;
  vm_save_bool(s, &kept);
  if (!vm_saver_need(s, !kept || h->at, "a shadow belongs to no tensor")) return;
  if (!kept && h->at) {
    vm_ck_shadow_free(&c->al, h);
  }
  if (!kept) return;
  uint64_t reach = h->bytes;
  vm_ck_output_fill(h);
  walk_shadow(s, h->at, h->bytes, &reach);
}

static void walk_outputs(vm_saver *s, vm_core *c) {
  for (uint32_t i = 0; c->check->hbm && i < c->prog->ntensors && !s->failed; i++)
    walk_tensor_shadow(s, c, &c->check->hbm[i]);
}

static void walk_uninit(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  vm_save_u16(s, &k->accumulators);
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u64(s, &k->registers[e]);
  for (unsigned core = 0; core < c->prog->ncores; core++) {
    uint64_t *reach = vm_ck_core(c, core)->mem.reach; /* marks are where something was written */
    for (unsigned p = 0; p < ISA_PMAX; p++) {
      walk_shadow(s, k->sbuf[core].at + p * c->mem.sbuf_pitch, c->target->sbuf_bytes, &reach[0]);
      walk_shadow(s, k->psum[core].at + p * c->mem.psum_pitch, c->target->psum_bytes, &reach[1]);
    }
  }
  walk_outputs(s, c);
}

/* ---- The whole ----------------------------------------------------------------------------- */

static void walk_psum(vm_saver *s, const vm_core *c) {
  vm_ck_banks *k = &c->check->banks[c->number];
  vm_saver_pages(s, k->slots, VM_PSUM_SLOTS, NULL);
  for (unsigned i = 0; i < 2; i++) vm_saver_pages(s, k->tiles[i], VM_PSUM_SLOTS, NULL);
  for (unsigned b = 0; b < ISA_PSUM_BYTES / ISA_PSUM_BANK; b++) {
    uint32_t e = k->reader[b];
    vm_save_below(s, &e, ISA_NENGINES, "engine");
    k->reader[b] = (uint8_t)e;
    walk_pc(s, c, vm_ck_unit(c, e), &k->reader_pc[b]);
    vm_save_time(s, &k->read_time[b]);
  }
}

static void walk_tiles(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < k->npairs * c->prog->ncores; i++) {
    vm_ck_tile_pair *p = &k->pairs[i];
    vm_save_u32(s, &p->written);
    walk_place(s, c, &p->by, &p->pc);
    vm_saver_need(s, !p->written || p->written == p->tile[0] || p->written == p->tile[1],
                  "a tile that was written does not exist");
  }
}

static void walk_state(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  walk_findings(s, c);
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u32(s, &k->issued[e]);
  for (unsigned e = 0; e < k->nengines; e++) vm_save_u32(s, &k->hazard[e]);
  if (k->legal && !s->failed) vm_save_check_legal(s, c);
  if (vm_ck_has(c, VM_CHECK_RACE) && !s->failed) vm_save_check_log(s, c);
  if (vm_ck_has(c, VM_CHECK_RACE) && !s->failed) walk_clocks(s, c);
  if (vm_ck_has(c, VM_CHECK_RACE) && !s->failed) walk_accesses(s, c);
  if (vm_ck_has(c, VM_CHECK_TWINS) && !s->failed) vm_save_check_twins(s, c);
  if (k->shadowed && !s->failed)
    walk_uninit(s, c);
  else if (vm_ck_has(c, VM_CHECK_OUTPUT) && !s->failed)
    walk_outputs(s, c);
  for (unsigned i = 0; i < c->run->n; i++) {
    vm_core *of = c->run->cores[i];
    if (vm_ck_has(c, VM_CHECK_PSUM) && !s->failed) walk_psum(s, of);
    if (vm_ck_has(c, VM_CHECK_RANGE)) vm_save_u32(s, &k->weights_had[of->number]);
  }
  if (k->fillers.any && k->shadowed && !s->failed) vm_save_check_weights(s, c);
  walk_tiles(s, c);
}

void vm_save_check(vm_saver *s, vm_core *c) {
  uint32_t mask = vm_check_mask(c);
  vm_save_below(s, &mask, 2u << VM_CHECK_TWINS, "mask of checks");
  if (!mask) return;
  if (s->reads && !vm_check_start(c, mask)) {
    vm_saver_no_memory(s);
    return;
  }
  if (s->reads) c->check->anyone = true; /* the host may have written before */
  if (vm_saver_need(s, vm_check_mask(c) == mask, "a run without values checks values"))
    walk_state(s, c);
}
