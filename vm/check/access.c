/* The accesses that the race check keeps, each as an exact set of bytes, by the region of memory
 * and the bucket that they are in. */
#include "check.h"
#include "meet.h"

#include <string.h>

enum {
  SBUF_REGION,
  PSUM_REGION,
  HBM_REGIONS,
  HBM_BUCKETS = 1024 /* of a tensor at most */
};

/* ---- Regions ------------------------------------------------------------------------------ */

static bool open_region(vm_core *c, vm_ck_region *r, uint64_t lo, uint64_t bytes, unsigned shift) {
  r->lo = lo;
  r->hi = lo + bytes;
  r->shift = (uint8_t)shift;
  /* The last bucket may be shorter. */
  r->nbuckets = (uint32_t)((bytes + (1u << shift) - 1) >> shift);
  /* One more, so that memory without bytes has a bucket. */
  r->buckets = isa_zalloc(&c->al, (r->nbuckets + 1) * sizeof *r->buckets);
  return r->buckets != NULL;
}

/* SBUF and PSUM of a core. */
static bool open_chip(vm_core *c, vm_ck_region *r, unsigned core) {
  r[SBUF_REGION].space = ISA_SBUF;
  r[PSUM_REGION].space = ISA_PSUM;
  r[SBUF_REGION].core = r[PSUM_REGION].core = (uint8_t)core;
  /* Programs write them: only of tensors is it worth knowing that nothing does. */
  r[SBUF_REGION].written = r[PSUM_REGION].written = true;
  /* Buckets of 1 KiB in SBUF and of a bank in PSUM: most tiles lie in a few. */
  return open_region(c, &r[SBUF_REGION], 0, c->target->sbuf_bytes, 10) &&
         open_region(c, &r[PSUM_REGION], 0, ISA_PSUM_BYTES, 11);
}

static void note_written(void *ud, uint32_t tensor) {
  const vm_core *c = ud;
  c->check->regions[HBM_REGIONS + tensor].written = true;
}

/* Tensors that share their bytes (a device tensor that is bound twice) are written together. */
static void join_written(const vm_core *c, struct vm_check *k) {
  for (uint32_t i = 0; i < c->prog->ntensors; i++)
    for (uint32_t j = 0; j < c->prog->ntensors; j++)
      if (c->run->blocks[i].data == c->run->blocks[j].data && k->regions[HBM_REGIONS + j].written)
        k->regions[HBM_REGIONS + i].written = true;
}

static bool open_regions(vm_core *c) {
  struct vm_check *k = c->check;
  /* Neither of the two asks for regions. */
  if (!vm_ck_has(c, VM_CHECK_RACE) && !vm_ck_has(c, VM_CHECK_LEGAL)) return true;
  uint32_t n = c->prog->ntensors;
  k->prune_at = VM_CK_PRUNE;
  uint32_t pipes = vm_ck_find_pipes(c) ? c->prog->ncores : 0;
  /* Core 1's memories come after the tensors: numbers of the others do not depend on how many cores
   * there are. */
  k->nregions = HBM_REGIONS + n + HBM_REGIONS * (c->prog->ncores - 1) + pipes;
  k->regions = isa_zalloc(&c->al, k->nregions * sizeof *k->regions);
  if (!k->regions) {
    /* close_regions looks at nregions. */
    k->nregions = 0;
    return false;
  }
  vm_ck_region *r = k->regions;
  for (unsigned core = 0; core < c->prog->ncores; core++)
    if (!open_chip(c, r + (core ? HBM_REGIONS + n : 0), core)) return false;
  for (uint32_t i = 0; i < n; i++) {
    vm_ck_region *h = &r[HBM_REGIONS + i];
    unsigned shift = 12;
    h->space = ISA_HBM;
    h->tensor = i + 1;
    /* Buckets of 4 KiB, or larger ones if a tensor would have too many. */
    while (c->run->blocks[i].bytes >> shift > HBM_BUCKETS) shift++;
    if (!open_region(c, h, (uint64_t)(uintptr_t)c->run->blocks[i].data, c->run->blocks[i].bytes,
                     shift))
      return false;
  }
  for (uint32_t i = 0; i < pipes; i++) {
    vm_ck_region *p = &r[k->nregions - pipes + i];
    p->written = true;
    p->core = (uint8_t)i;
    if (!open_region(c, p, 0, VM_CK_PIPES, 4)) return false;
  }
  /* Reads of a tensor that nothing writes need not be kept. */
  vm_ck_each_tensor(c, AP_W, note_written, c);
  vm_ck_note_pushed(c);
  /* After all are known. */
  join_written(c, k);
  return true;
}

static void close_regions(vm_core *c) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < k->nregions; i++) {
    vm_ck_region *r = &k->regions[i];
    for (uint32_t b = 0; r->buckets && b < r->nbuckets; b++)
      isa_free(&c->al, r->buckets[b].ids, r->buckets[b].cap * sizeof(uint32_t));
    isa_free(&c->al, r->buckets, (r->nbuckets + 1) * sizeof *r->buckets);
  }
  isa_free(&c->al, k->regions, k->nregions * sizeof *k->regions);
  isa_free(&c->al, k->accesses, k->cap_accesses * sizeof *k->accesses);
  isa_free(&c->al, k->free_ids, k->cap_free * sizeof *k->free_ids);
}

/* The region of a view's first byte; of tensors that share bytes, the first. */
uint16_t vm_ck_race_region(const vm_core *c, const vm_view *v) {
  unsigned first = v->core ? HBM_REGIONS + c->prog->ntensors : 0;
  if (v->space != ISA_HBM)
    return (uint16_t)(first + (v->space == ISA_SBUF ? SBUF_REGION : PSUM_REGION));
  uint64_t at = (uint64_t)(uintptr_t)v->at;
  /* Tensors are few, and the usual one is near the front. */
  const vm_ck_region *r = c->check->regions;
  uint32_t i = HBM_REGIONS;
  /* The last one needs no comparison: every address of a view is in some tensor. */
  while (i < HBM_REGIONS + c->prog->ntensors - 1 && (at < r[i].lo || at >= r[i].hi)) i++;
  return (uint16_t)i;
}

/* ---- Buckets ------------------------------------------------------------------------------ */

static bool bucket_add(vm_core *c, vm_ck_bucket *b, uint32_t id) {
  if (b->n == b->cap && !isa_array_grow(&c->al, &b->ids, b->n, &b->cap, sizeof *b->ids))
    return false;
  b->ids[b->n++] = id;
  return true;
}

static void bucket_remove(vm_ck_bucket *b, uint32_t id) {
  for (uint32_t i = 0; i < b->n; i++)
    if (b->ids[i] == id) {
      /* Order does not matter in a bucket during a run; a file keeps it. */
      b->ids[i] = b->ids[--b->n];
      return;
    }
}

bool vm_ck_access_forget(vm_core *c, uint32_t id) {
  struct vm_check *k = c->check;
  vm_ck_access *a = &k->accesses[id];
  if (k->nfree == k->cap_free &&
      !isa_array_grow(&c->al, &k->free_ids, k->nfree, &k->cap_free, sizeof *k->free_ids))
    return false; /* it stays, which only costs time */
  for (uint32_t b = a->first; b <= a->last; b++)
    bucket_remove(&k->regions[a->region].buckets[b], id);
  a->alive = false;
  k->free_ids[k->nfree++] = id;
  k->alive--;
  return true;
}

void vm_ck_access_keep(vm_core *c, const vm_ck_access *a) {
  struct vm_check *k = c->check;
  uint32_t id;
  /* A number that has become free, or the next one. */
  if (k->nfree) {
    id = k->free_ids[--k->nfree];
  } else {
    if (k->naccesses == k->cap_accesses && !isa_array_grow(&c->al, &k->accesses, k->naccesses,
                                                           &k->cap_accesses, sizeof *k->accesses)) {
      vm_ck_out_of_memory(c);
      return;
    }
    id = k->naccesses++;
  }
  k->accesses[id] = *a;
  k->accesses[id].alive = true;
  k->alive++;
  /* In each bucket that it touches. */
  for (uint32_t b = a->first; b <= a->last; b++)
    if (!bucket_add(c, &k->regions[a->region].buckets[b], id)) {
      vm_ck_out_of_memory(c);
      return;
    }
}

void vm_ck_race_forget(vm_core *c) {
  struct vm_check *k = c->check;
  for (uint32_t i = 0; i < k->nregions; i++)
    for (uint32_t b = 0; b < k->regions[i].nbuckets; b++) k->regions[i].buckets[b].n = 0;
  k->naccesses = k->nfree = k->alive = 0;
}

/* ---- In a saved run ------------------------------------------------------------------------ */

void vm_ck_walk_set(vm_saver *s, const vm_core *c, uint16_t *region, isa_byteset *b) {
  const struct vm_check *k = c->check;
  vm_save_u16(s, region);
  if (!vm_saver_need(s, *region < k->nregions, "an access names no memory")) return;
  const vm_ck_region *r = &k->regions[*region];
  /* Relative to the region: the next host has other addresses. */
  int64_t bytes = (int64_t)(r->hi - r->lo), at = b->start - (int64_t)r->lo;
  uint32_t n = b->n;
  vm_save_i64(s, &at);
  vm_save_i64(s, &b->run);
  vm_save_below(s, &n, ISA_MAX_DIMS + 1, "dimension");
  for (unsigned d = 0; d < n; d++) {
    vm_save_i64(s, &b->step[d]);
    vm_save_i64(s, &b->num[d]);
  }
  if (!s->reads || s->failed) return;
  bool ok = b->run > 0 && b->run <= bytes;
  b->n = n;
  /* Steps descend from the outermost dimension inwards, and each dimension has two elements at
   * least. */
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

void vm_ck_walk_access(vm_saver *s, const vm_core *c, vm_ck_access *a) {
  const struct vm_check *k = c->check;
  vm_ck_walk_set(s, c, &a->region, &a->set);
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
  vm_ck_walk_place(s, c, &a->engine, &a->pc);
  if (a->engine == VM_CK_PEER) {
    if (a->push > k->twins.npushed) a->push = 0; /* the log has ended */
    vm_save_below(s, &a->push, k->twins.npushed + 1, "push of another rank");
  }
  vm_saver_need(s,
                a->p0 < a->p1 && a->p1 <= ISA_PMAX && a->comp < k->ncomps &&
                    a->seen_comp < k->ncomps && (a->queue < k->nqueues || a->queue == VM_CK_QUEUES),
                "an access belongs to no engine or queue");
  if (!s->reads || s->failed) return;
  /* Buckets follow from the bytes. */
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
  /* Free numbers are all that are not alive. */
  uint32_t n = s->reads ? k->naccesses - k->alive : k->nfree;
  k->stamp += s->reads;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &k->free_ids, k->nfree, &k->cap_free, sizeof *k->free_ids))
      return;
    k->nfree += s->reads;
    walk_id(s, k, &k->free_ids[i], false);
  }
}

/* What a bucket holds, in its order: reports come in that order. Returns how many. */
static uint32_t walk_bucket(vm_saver *s, vm_core *c, uint32_t r, uint32_t number) {
  struct vm_check *k = c->check;
  vm_ck_bucket *b = &k->regions[r].buckets[number];
  uint32_t n = b->n;
  vm_saver_count(s, &n, k->naccesses, 4, "accesses");
  /* Numbers in this list, or in others before it: one stamp for each list. */
  k->stamp += s->reads;
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &b->ids, b->n, &b->cap, sizeof *b->ids)) return 0;
    b->n += s->reads;
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
    /* In each bucket once: what is missing or listed twice changes the sum. */
    if (k->accesses[id].alive) want += k->accesses[id].last - k->accesses[id].first + 1;
  for (uint32_t r = 0; r < k->nregions; r++)
    for (uint32_t b = 0; b < k->regions[r].nbuckets && !s->failed; b++)
      have += walk_bucket(s, c, r, b);
  vm_saver_need(s, have == want, "an access is missing from a list");
}

static void walk_accesses(vm_saver *s, vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = k->naccesses;
  if (!vm_ck_has(c, VM_CHECK_RACE)) return;
  vm_save_u32(s, &k->prune_at);
  vm_saver_count(s, &n, UINT32_MAX / 2, 5, "accesses");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &k->accesses, i, &k->cap_accesses, sizeof *k->accesses)) return;
    k->naccesses += s->reads;
    vm_ck_access *a = &k->accesses[i];
    vm_save_bool(s, &a->alive);
    if (a->alive) vm_ck_walk_access(s, c, a);
    if (a->alive) vm_save_u32(s, &a->logged);
    if (s->reads) k->alive += a->alive;
  }
  if (!s->failed) walk_free_ids(s, c);
  if (!s->failed) walk_buckets(s, c);
}

const vm_ck_part vm_ck_part_regions = {.start = open_regions, .end = close_regions};

const vm_ck_part vm_ck_part_accesses = {.walk = walk_accesses};
