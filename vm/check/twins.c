/* Twins: transfers of the two cores that come from one line and write the same bytes to the same
 * places of HBM. In whatever order they end, memory has the same bytes, so nothing has to order
 * them. For example both programs of a kernel store one result, and each reads it back. So are
 * pushes of two ranks of one stack into a third, or of the two cores of a rank.
 *
 * A read needs no order with the other core's write if its own core's twin of that write comes
 * before it and nothing orders the twins: whatever else writes the bytes in between has no order
 * with one of the two, which is a race. */
#include "../dma/dma.h"
#include "../message.h"
#include "check.h"
#include "judge.h"

#include <stdlib.h>
#include <string.h>

enum { NEVER_ENDS = -1 };

/* Accesses that are looked at to find the twin of a write, in all: beyond that, what is left is a
 * race. It bounds the time that a loop of thousands of twins takes. */
enum { MOST_LOOKS = 1 << 27 };

/* ---- While the run goes on ---------------------------------------------------------------- */

/* One for each transfer of the log, in their order. */
void vm_ck_twins_transfer(vm_core *c, const vm_transfer *t, const vm_share *shares) {
  vm_ck_twins *w = &c->check->twins;
  bool wanted = c->check->log.on || c->check->legal;
  /* Numbers must follow each other: after a log has ended none are kept. */
  if (!vm_ck_has(c, VM_CHECK_TWINS) || c->run->n < 2 || !wanted || t->number != w->n + 1) return;
  if (w->n == w->cap && !isa_array_grow(&c->al, &w->v, w->n, &w->cap, sizeof *w->v)) {
    vm_ck_out_of_memory(c);
    return;
  }
  vm_ck_written *x = &w->v[w->n++];
  /* What cannot have a twin says so once. */
  *x = (vm_ck_written){.left = NEVER_ENDS};
  if (t->dst.space != ISA_HBM || t->put || t->accumulates ||
      (vm_dma_skips_rows(t) && !t->dst_indexed))
    return; /* what a missing row of a source leaves as it is, is not written */
  x->left = 0;
  for (const vm_share *s = shares; s; s = s->next) x->left += (int64_t)(s->e1 - s->e0);
}

static uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= UINT64_C(0x7fb5d329728ea185);
  x ^= x >> 27;
  x *= UINT64_C(0x81dadef4bc2dd44d);
  return x ^ x >> 33;
}

/* The hashes of n elements, as a sum, so that it does not depend on which ring moved which of them.
 * Places are counted from `home`, which a resumed run has elsewhere. */
static uint64_t sum_of(vm_walk *w, uint64_t n, uint64_t home) {
  uint64_t sum = 0;
  for (; n; n--) {
    uint64_t value = 0;
    memcpy(&value, w->at, w->esize);
    /* The place is part of the hash, so that the same values elsewhere differ. */
    if (!w->skipped) sum += mix(mix(((uint64_t)(uintptr_t)w->at - home) * 8 + w->esize) ^ value);
    vm_walk_advance(w, 1);
  }
  return sum;
}

void vm_ck_twins_moved(vm_core *c, const vm_share *s) {
  vm_ck_twins *w = &c->check->twins;
  /* Not noted, or of a time before the check. */
  vm_ck_written *x = s->t->number - 1 < w->n ? &w->v[s->t->number - 1] : NULL;
  if (!x || x->left == NEVER_ENDS || c->run->timing_only) return;
  vm_walk walk;
  /* Its bytes may not be there yet. */
  vm_batch_settle(c, &s->item);
  vm_dma_walk_dst(s->t, &walk);
  vm_walk_seek(&walk, s->e0);
  uint16_t region = vm_ck_race_region(c, &s->t->dst);
  /* Relative to the region, with the region's number: two tensors differ. */
  x->sum += sum_of(&walk, s->e1 - s->e0, c->check->regions[region].lo - ((uint64_t)region << 44));
  x->left -= (int64_t)(s->e1 - s->e0);
}

/* The first rank of the sender's stack of HBM, which its neighbours there have too. */
static uint32_t stack_of(const vm_core *c, uint32_t rank) {
  vm_run *const *runs = c->run->peers->runs;
  /* Neighbours in rank share a stack: the first of them stands for it. */
  while (rank && runs[rank - 1]->stack == runs[rank]->stack) rank--;
  return rank;
}

static uint64_t hash_of(const char *text) {
  uint64_t h = 0;
  for (; *text; text++) h = mix(h ^ (uint8_t)*text);
  return h;
}

void vm_ck_twins_pushed(vm_core *c, const vm_message *m, const vm_view *v, vm_ck_access *a) {
  vm_ck_twins *w = &c->check->twins;
  const isa_program *from = c->run->peers->runs[m->src]->prog;
  const isa_code *code = &from->cores[m->core].code[m->engine];
  bool wanted = vm_ck_has(c, VM_CHECK_TWINS) && c->check->log.on && !c->run->timing_only;
  if (!wanted || v->space != ISA_HBM || !code->lines || !code->lines[m->pc].file) return;
  if (w->npushed == w->cap_pushed &&
      !isa_array_grow(&c->al, &w->pushed, w->npushed, &w->cap_pushed, sizeof *w->pushed)) {
    vm_ck_out_of_memory(c);
    return;
  }
  vm_walk walk;
  isa_line at = code->lines[m->pc];
  uint16_t region = vm_ck_race_region(c, v);
  vm_walk_open(&walk, v, NULL, 0);
  walk.from = 0;
  vm_walk_seek(&walk, m->first);
  /* As sum_of of a transfer. */
  uint64_t sum = sum_of(&walk, m->n, c->check->regions[region].lo - ((uint64_t)region << 44));
  /* The line of the sender's file: both programs have it. */
  uint64_t line = mix(hash_of(from->files[at.file - 1]) ^ at.line);
  w->pushed[w->npushed++] = sum ^ mix(line + stack_of(c, m->src));
  a->push = w->npushed;
}

void vm_ck_twins_end(vm_core *c) {
  vm_ck_twins *w = &c->check->twins;
  isa_free(&c->al, w->pushed, w->cap_pushed * sizeof *w->pushed);
  w->pushed = NULL;
  w->npushed = w->cap_pushed = 0;
  isa_free(&c->al, w->v, w->cap * sizeof *w->v);
  w->v = NULL;
  w->n = w->cap = 0;
}

static void walk_twins(vm_saver *s, vm_core *c) {
  vm_ck_twins *w = &c->check->twins;
  uint32_t n = w->n;
  if (!vm_ck_has(c, VM_CHECK_TWINS)) return;
  vm_save_u64(s, &w->pairs);
  vm_saver_count(s, &n, c->run->transfers, 16, "transfers of a check");
  for (uint32_t i = 0; i < n && !s->failed; i++) {
    if (!vm_saver_room(s, &c->al, &w->v, i, &w->cap, sizeof *w->v)) return;
    w->n += s->reads;
    vm_save_u64(s, &w->v[i].sum);
    vm_save_i64(s, &w->v[i].left);
  }
}

/* ---- When the log is judged --------------------------------------------------------------- */

/* A write of the log; those with equal keys have one line and write the same. */
typedef struct entry {
  uint64_t key;
  uint32_t logged;
} entry;
enum { RECENT = 16384 };
struct vm_ck_groups {
  entry *v;     /* by key, then in the order of the log */
  uint32_t *of; /* of an access of the log: the first of its group in v, + 1; 0: it has no twin */
  uint64_t *pairs; /* that were taken as twins: the numbers of their transfers */
  uint32_t n, nof, npairs, cap_pairs, looks;
  uint64_t recent[RECENT];                /* some of them, each where its hash is */
  uint32_t last[ISA_MAX_CORES][ISA_NDMA]; /* in v, what was found last for a read by that ring */
};

static const vm_ck_access *logged(const vm_core *c, uint32_t number) {
  return &c->check->log.accesses[number - 1];
}
static bool on_core_1(const vm_ck_access *a) { return a->engine >= ISA_NSEQS; }

/* Twins are of two sides: the cores, and those of other ranks. */
static uint32_t side_of(const vm_core *c, const vm_ck_access *a) {
  if (a->engine != VM_CK_PEER) return on_core_1(a);
  const vm_ck_spoke *at = &c->check->peers.spoke[a->pc];
  return ISA_MAX_CORES * (at->rank + 1) + at->core;
}

bool vm_ck_twins_key(const vm_core *c, const vm_ck_access *a, uint64_t *key) {
  const struct vm_check *k = c->check;
  if (a->engine == VM_CK_PEER) {
    /* A push without a key has no twin. */
    if (a->push) *key = k->twins.pushed[a->push - 1];
    return a->push;
  }
  const isa_code *code = vm_ck_code(c, a->engine);
  /* Only writes to HBM that the run has counted. */
  if (!a->writes || !a->transfer || a->transfer > k->twins.n || !k->regions[a->region].tensor)
    return false;
  const vm_ck_written *w = &k->twins.v[a->transfer - 1];
  /* All its elements have moved, and its line is known. */
  if (w->left != 0 || !code->lines || a->pc >= code->n || !code->lines[a->pc].file) return false;
  *key = w->sum ^ mix((uint64_t)code->lines[a->pc].file << 32 | code->lines[a->pc].line);
  return true;
}

static int by_key(const void *x, const void *y) {
  const entry *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return a->logged < b->logged ? -1 : a->logged > b->logged;
}

/* Only groups that have writes of two sides. */
static void number_groups(vm_core *c, vm_ck_groups *g) {
  /* Groups follow one another, since they are sorted. */
  for (uint32_t i = 0, end; i < g->n; i = end) {
    uint32_t side = side_of(c, logged(c, g->v[i].logged));
    bool both = false;
    for (end = i; end < g->n && g->v[end].key == g->v[i].key; end++)
      both |= side_of(c, logged(c, g->v[end].logged)) != side;
    /* Writes of one side are in order or a race, but no twins. */
    if (!both) continue;
    for (uint32_t x = i; x < end; x++) {
      /* 1 + where its twins begin; 0: it has no twin. */
      g->of[g->v[x].logged - 1] = i + 1;
      c->check->regions[logged(c, g->v[x].logged)->region].twins = true;
    }
  }
}

vm_ck_groups *vm_ck_groups_new(vm_core *c) {
  const vm_ck_log *log = &c->check->log;
  vm_ck_groups *g = isa_zalloc(&c->al, sizeof *g);
  if (!g) return NULL;
  g->nof = log->naccesses + 1;
  g->of = isa_zalloc(&c->al, g->nof * sizeof *g->of);
  g->v = isa_zalloc(&c->al, g->nof * sizeof *g->v);
  if (!g->of || !g->v) {
    vm_ck_groups_free(c, g);
    return NULL;
  }
  /* From an earlier judge. */
  for (uint32_t i = 0; i < c->check->nregions; i++) c->check->regions[i].twins = false;
  bool any = c->check->twins.n || c->check->twins.npushed;
  for (uint32_t i = 1; i <= log->naccesses && any; i++) {
    g->v[g->n].logged = i;
    g->n += vm_ck_twins_key(c, logged(c, i), &g->v[g->n].key);
  }
  if (g->n) qsort(g->v, g->n, sizeof *g->v, by_key);
  number_groups(c, g);
  return g;
}

static int by_number(const void *x, const void *y) {
  const uint64_t *a = x, *b = y;
  return *a < *b ? -1 : *a > *b;
}

/* Each pair once. */
static void tidy(vm_ck_groups *g) {
  uint32_t n = 0;
  if (g->npairs) qsort(g->pairs, g->npairs, sizeof *g->pairs, by_number);
  for (uint32_t i = 0; i < g->npairs; i++)
    if (!n || g->pairs[i] != g->pairs[n - 1]) g->pairs[n++] = g->pairs[i];
  g->npairs = n;
}

void vm_ck_groups_free(vm_core *c, vm_ck_groups *g) {
  if (!g) return;
  tidy(g);
  c->check->twins.pairs = g->npairs;
  isa_free(&c->al, g->of, g->of ? g->nof * sizeof *g->of : 0);
  isa_free(&c->al, g->v, g->v ? g->nof * sizeof *g->v : 0);
  isa_free(&c->al, g->pairs, g->cap_pairs * sizeof *g->pairs);
  isa_free(&c->al, g, sizeof *g);
}

uint32_t vm_ck_twins_group(const vm_ck_groups *g, const vm_ck_access *a) {
  return g && a->logged && a->logged < g->nof ? g->of[a->logged - 1] : 0;
}

/* A transfer, or a push of another rank by its first ring. */
static uint32_t transfer_of(const vm_ck_access *a) {
  if (a->engine != VM_CK_PEER) return a->transfer;
  /* High bit: a number of its own for pushes. */
  return 1u << 31 | (uint32_t)(a->comp - a->ring) << 16 | (a->epoch & UINT16_MAX);
}

/* Notes the two transfers, of which many accesses meet. */
static bool note(vm_core *c, vm_ck_groups *g, const vm_ck_access *a, const vm_ck_access *b) {
  uint32_t x = transfer_of(a), y = transfer_of(b);
  uint64_t both = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
  uint64_t *recent = &g->recent[mix(both) % RECENT];
  /* Many accesses of two transfers meet: one note is enough. */
  if (*recent == both) return true;
  *recent = both;
  if (g->npairs == g->cap_pairs) {
    tidy(g);
    if (g->npairs >= g->cap_pairs / 2 &&
        /* Half of it were repetitions: there is room again. */
        !isa_array_grow(&c->al, &g->pairs, g->cap_pairs, &g->cap_pairs, sizeof *g->pairs)) {
      vm_ck_out_of_memory(c);
      return true;
    }
  }
  g->pairs[g->npairs++] = both;
  return true;
}

/* Whether the twin x of `write` comes before `read`, and neither twin before the other. */
static bool saves(vm_core *c, const vm_ck_access *x, const vm_ck_access *write,
                  const vm_ck_access *read) {
  /* A push's twin comes from another side; a core's own twin is on the reader's side. */
  bool own = write->engine == VM_CK_PEER ? side_of(c, x) != side_of(c, write)
                                         : on_core_1(x) == on_core_1(read);
  return own && vm_ck_race_meet(x, read) && vm_ck_race_meet(x, write) &&
         vm_ck_judge_before(c, x, read) && !vm_ck_judge_before(c, x, write) &&
         !vm_ck_judge_before(c, write, x);
}

bool vm_ck_twins_cover(vm_core *c, vm_ck_groups *g, const vm_ck_access *a, const vm_ck_access *b) {
  uint32_t group = vm_ck_twins_group(g, a);
  if (side_of(c, a) == side_of(c, b)) return false;
  if (a->writes && b->writes) return group && group == vm_ck_twins_group(g, b) && note(c, g, a, b);
  const vm_ck_access *write = a->writes ? a : b, *read = a->writes ? b : a;
  group = vm_ck_twins_group(g, write);
  if (!group || !read->logged || read->handed) return false;
  const uint64_t key = g->v[group - 1].key;
  uint32_t *last = &g->last[on_core_1(read)][read->ring];
  if (g->v[*last].key == key && saves(c, logged(c, g->v[*last].logged), write, read))
    return note(c, g, write, read);
  for (uint32_t i = group - 1; i < g->n && g->v[i].key == key; i++) {
    if (g->looks == MOST_LOOKS || g->v[i].logged > read->logged) return false;
    g->looks++;
    if (!saves(c, logged(c, g->v[i].logged), write, read)) continue;
    *last = i;
    return note(c, g, write, read);
  }
  return false;
}

const vm_ck_part vm_ck_part_twins = {.walk = walk_twins, .end = vm_ck_twins_end};
