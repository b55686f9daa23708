/* Building a program: tables that grow, patterns and pool runs that are kept once. */
#include "program.h"

#include "bytes.h"
#include "target.h"

#include <stdio.h>
#include <string.h>

const char *isa_role_name(unsigned role) {
  static const char *const names[ISA_NROLES] = {"temp", "input", "output", "const", "remote"};
  return role < ISA_NROLES ? names[role] : "?";
}

/* p->target is a row of the table, or the program's own copy. */
isa_program *isa_program_new(const isa_alloc *al, const isa_target *target) {
  isa_program *p = isa_zalloc(al, sizeof *p);
  if (!p) return NULL;
  /* Names and data live in the arena, so they stay where they are as tables grow. */
  isa_arena_init(&p->arena, al);
  isa_buf_init(&p->pool, al);
  /* A hypothetical target is copied: it is the caller's. */
  p->target = isa_target_keep(target, &p->own_target);
  p->ncores = 1;
  return p;
}

/* The allocator is told the sizes, which are those of the capacity. */
static void free_core(const isa_alloc *al, isa_core *c) {
  for (unsigned e = 0; e < ISA_NSEQS; e++) {
    isa_free(al, c->code[e].insns, c->code[e].cap * sizeof(isa_insn));
    isa_free(al, c->code[e].lines, c->code[e].cap_lines * sizeof(isa_line));
  }
  for (unsigned q = 0; q < ISA_MAX_QUEUES; q++)
    isa_free(al, c->queues[q].statics, c->queues[q].cap_statics * sizeof(isa_insn));
  isa_free(al, c->aps, c->cap_aps * sizeof(isa_ap));
  isa_index_free(al, &c->ap_index);
}

/* Copied: the arena that holds it is freed on the way. */
void isa_program_free(isa_program *p) {
  if (!p) return;
  isa_alloc al = p->arena.al;
  for (unsigned c = 0; c < ISA_MAX_CORES; c++) free_core(&al, &p->cores[c]);
  isa_free(&al, p->tensors, p->cap_tensors * sizeof(isa_tensor));
  isa_free(&al, p->tiles, p->cap_tiles * sizeof(isa_tile));
  isa_free(&al, p->symbols, p->cap_symbols * sizeof(isa_symbol));
  isa_free(&al, p->groups, p->cap_groups * sizeof *p->groups);
  isa_free(&al, p->peers, p->cap_peers * sizeof *p->peers);
  isa_free(&al, p->files, p->cap_files * sizeof(char *));
  isa_free(&al, p->calls, p->cap_calls * sizeof *p->calls);
  isa_free(&al, p->pool_runs, p->cap_pool_runs * sizeof(isa_ref));
  isa_index_free(&al, &p->pool_index);
  isa_buf_free(&p->pool);
  isa_arena_free(&p->arena);
  isa_free(&al, p, sizeof *p);
}

/* Replaces a string by its copy in the arena; NULL stays. */
static bool own(isa_program *p, const char **s) {
  if (!*s) return true;
  *s = isa_arena_strn(&p->arena, *s, strlen(*s));
  return *s != NULL;
}

uint32_t isa_program_tensor(isa_program *p, const isa_tensor *t) {
  isa_tensor copy = *t;
  if (!isa_array_grow(&p->arena.al, &p->tensors, p->ntensors, &p->cap_tensors, sizeof copy) ||
      !own(p, &copy.name))
    return 0;
  if (t->data) {
    /* On a host of 32 bits. */
    if (t->bytes > SIZE_MAX) return 0;
    uint8_t *data = isa_arena_alloc(&p->arena, (size_t)t->bytes);
    if (!data) return 0;
    memcpy(data, t->data, (size_t)t->bytes);
    copy.data = data;
  }
  p->tensors[p->ntensors] = copy;
  return ++p->ntensors;
}

uint64_t isa_program_rows(const isa_program *p) {
  uint64_t regs = 0;
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensors[i].rows) regs |= UINT64_C(1) << (p->tensors[i].rows - 1);
  return regs;
}

/* Such a program needs other ranks: a run alone refuses it. */
bool isa_program_is_world(const isa_program *p) {
  if (p->npeers) return true;
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensors[i].role == ISA_REMOTE) return true;
  for (uint32_t c = 0; c < p->ncores; c++) {
    for (uint32_t q = 0; q < p->cores[c].nqueues; q++)
      if (isa_queue_is_cc(&p->cores[c].queues[q])) return true;
    for (unsigned k = ISA_NENGINES; k < ISA_NSEQS; k++)
      if (p->cores[c].code[k].n) return true;
  }
  return false;
}

uint32_t isa_program_tile(isa_program *p, const isa_tile *t) {
  isa_tile copy = *t;
  const char *last = p->ntiles ? p->tiles[p->ntiles - 1].overlay : NULL;
  /* Tiles of one overlay mostly follow one another: one copy of its name is enough. */
  if (last && t->overlay && strcmp(last, t->overlay) == 0) copy.overlay = last;
  if (!isa_array_room(&p->arena.al, &p->tiles, p->ntiles, &p->cap_tiles, sizeof copy) ||
      !own(p, &copy.name) || (copy.overlay != last && !own(p, &copy.overlay)))
    return 0;
  p->tiles[p->ntiles] = copy;
  return ++p->ntiles;
}

const char *isa_iteration(const isa_tile *t, char *out, size_t n) {
  size_t at = 0;
  out[0] = 0;
  if (!t->line) return out;
  at += (size_t)snprintf(out, n, " (of line %u", (unsigned)t->line);
  if (t->iteration)
    at += (size_t)snprintf(out + at, n - at, ", %s%s %u", t->numbered ? "number" : "iteration",
                           t->iterations > 1 ? "s" : "", (unsigned)t->iteration);
  /* Loads of several iterations may be one: its tile is that of all of them. */
  if (t->iterations > 1)
    at +=
        (size_t)snprintf(out + at, n - at, " to %u", (unsigned)(t->iteration + t->iterations - 1));
  snprintf(out + at, n - at, ")");
  return out;
}

void isa_put_tile(const isa_tile *t, isa_buf *out) {
  char iteration[ISA_ITERATION];
  isa_buf_printf(out, "%s%s", t->name ? t->name : "?",
                 isa_iteration(t, iteration, sizeof iteration));
}

uint32_t isa_program_file(isa_program *p, const char *name) {
  if (!isa_array_grow(&p->arena.al, &p->files, p->nfiles, &p->cap_files, sizeof name) ||
      !own(p, &name))
    return 0;
  p->files[p->nfiles] = name;
  return ++p->nfiles;
}

uint32_t isa_program_call(isa_program *p, const isa_call *call) {
  isa_call copy = *call;
  if (!isa_array_grow(&p->arena.al, &p->calls, p->ncalls, &p->cap_calls, sizeof copy) ||
      !own(p, &copy.name))
    return 0;
  p->calls[p->ncalls] = copy;
  return ++p->ncalls;
}

/* n is at least 1 in a valid group. */
static const uint32_t *own_words(isa_program *p, const uint32_t *words, uint32_t n) {
  uint32_t *copy = isa_arena_alloc(&p->arena, n * sizeof *copy);
  if (copy) memcpy(copy, words, n * sizeof *copy);
  return copy;
}

/* Names do not count: two kernels may call the same groups differently. */
uint32_t isa_program_find_group(const isa_program *p, const isa_group *g, uint32_t from) {
  for (; from < p->ngroups; from++) {
    const isa_group *h = &p->groups[from];
    if (h->nlists == g->nlists && h->nranks == g->nranks &&
        memcmp(h->sizes, g->sizes, g->nlists * sizeof *g->sizes) == 0 &&
        memcmp(h->ranks, g->ranks, g->nranks * sizeof *g->ranks) == 0)
      break;
  }
  return from;
}

/* A collective names a group in one byte, which gives the limit. */
uint32_t isa_program_group(isa_program *p, const isa_group *g) {
  isa_group copy = *g;
  if (p->ngroups == ISA_MAX_GROUPS || !own(p, &copy.name) ||
      !isa_array_grow(&p->arena.al, &p->groups, p->ngroups, &p->cap_groups, sizeof copy))
    return 0;
  copy.sizes = own_words(p, g->sizes, g->nlists);
  copy.ranks = own_words(p, g->ranks, g->nranks);
  if (!copy.sizes || !copy.ranks) return 0;
  p->groups[p->ngroups] = copy;
  return ++p->ngroups;
}

/* Lists lie one after another; the ranks of one are found by adding sizes. */
const uint32_t *isa_group_list(const isa_group *g, uint32_t rank, uint32_t *n, uint32_t *place) {
  const uint32_t *list = g->ranks;
  for (uint32_t i = 0; i < g->nlists; list += g->sizes[i++])
    for (uint32_t k = 0; k < g->sizes[i]; k++)
      if (list[k] == rank) {
        *n = g->sizes[i];
        *place = k;
        return list;
      }
  return NULL;
}

/* Example: list 4 5 6 7 seen from 5: next is 6, prev 4, place 0 is 4, xor 2 is 7. */
uint32_t isa_peer_rank(const isa_program *p, const isa_peer *peer, uint32_t rank) {
  uint32_t n, place, at;
  if (peer->how == ISA_PEER_rank) return peer->value;
  const uint32_t *list = isa_group_list(&p->groups[peer->group - 1], rank, &n, &place);
  /* The rank is in no list of the group. */
  if (!list) return UINT32_MAX;
  switch (peer->how) {
  case ISA_PEER_next: at = place + 1 < n ? place + 1 : 0; break;
  case ISA_PEER_prev: at = place ? place - 1 : n - 1; break;
  case ISA_PEER_xor: at = place ^ peer->value; break;
  default: at = peer->value; break;
  }
  /* The list has no such place. */
  return at < n ? list[at] : UINT32_MAX;
}

uint32_t isa_program_peer(isa_program *p, const isa_peer *peer) {
  /* Equal peers have one number. */
  for (uint32_t i = 0; i < p->npeers; i++)
    if (p->peers[i].how == peer->how && p->peers[i].group == peer->group &&
        p->peers[i].value == peer->value)
      return i + 1;
  if (p->npeers == ISA_MAX_PEERS ||
      !isa_array_grow(&p->arena.al, &p->peers, p->npeers, &p->cap_peers, sizeof *peer))
    return 0;
  p->peers[p->npeers] = *peer;
  return ++p->npeers;
}

uint32_t isa_program_symbol(isa_program *p, const isa_symbol *s) {
  isa_symbol copy = *s;
  if (!isa_array_grow(&p->arena.al, &p->symbols, p->nsymbols, &p->cap_symbols, sizeof copy) ||
      !own(p, &copy.name))
    return 0;
  p->symbols[p->nsymbols] = copy;
  return ++p->nsymbols;
}

/* q is not in c yet: is there room for one more of its kind. */
unsigned isa_queue_limit(const isa_core *c, const isa_queue *q) {
  /* Queues of collectives have a limit of their own. */
  bool cc = isa_queue_is_cc(q);
  unsigned n = 0, most = cc ? ISA_MAX_QUEUES - ISA_ENGINE_QUEUES : ISA_ENGINE_QUEUES;
  for (uint32_t i = 0; i < c->nqueues; i++) n += isa_queue_is_cc(&c->queues[i]) == cc;
  return n < most ? 0 : most;
}

/* The last bound is the array's; the limits of the two kinds are the caller's question. */
uint32_t isa_program_queue(isa_program *p, unsigned core, const isa_queue *q) {
  isa_core *c = &p->cores[core];
  isa_queue copy = *q;
  /* They are added one by one: the caller's array is not the program's. */
  copy.statics = NULL;
  copy.nstatics = copy.cap_statics = 0;
  if (c->nqueues == ISA_MAX_QUEUES || !own(p, &copy.name)) return 0;
  c->queues[c->nqueues] = copy;
  return ++c->nqueues;
}

/* One step of growth for a program whose size is known, not one for each half. */
bool isa_program_reserve(isa_program *p, unsigned core, unsigned engine, uint32_t n) {
  isa_code *c = &p->cores[core].code[engine];
  const isa_alloc *al = &p->arena.al;
  return isa_array_reserve(al, &c->insns, n, &c->cap, sizeof *c->insns) &&
         isa_array_reserve(al, &c->lines, n, &c->cap_lines, sizeof *c->lines);
}

/* Filled where it lies: instructions are large, and a copy of each costs. */
isa_insn *isa_program_next_insn(isa_program *p, unsigned core, unsigned engine, isa_line at) {
  isa_code *c = &p->cores[core].code[engine];
  const isa_alloc *al = &p->arena.al;
  bool lines = c->lines || c->n == 0; /* code that was read without a line table stays so */
  if (!isa_array_room(al, &c->insns, c->n, &c->cap, sizeof *c->insns) ||
      (lines && !isa_array_room(al, &c->lines, c->n, &c->cap_lines, sizeof at)))
    return NULL;
  if (lines) c->lines[c->n] = at;
  return &c->insns[c->n++];
}

bool isa_program_insn(isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                      isa_line at) {
  isa_insn *to = isa_program_next_insn(p, core, engine, at);
  if (to) *to = *in;
  return to != NULL;
}

bool isa_program_static(isa_program *p, unsigned core, unsigned queue, const isa_insn *in) {
  isa_queue *q = &p->cores[core].queues[queue];
  if (!isa_array_room(&p->arena.al, &q->statics, q->nstatics, &q->cap_statics, sizeof *in))
    return false;
  q->statics[q->nstatics++] = *in;
  return true;
}

int isa_program_find_tensor(const isa_program *p, const char *name, size_t n) {
  for (uint32_t i = 0; i < p->ntensors; i++)
    if (p->tensors[i].name && strlen(p->tensors[i].name) == n &&
        memcmp(p->tensors[i].name, name, n) == 0)
      return (int)i;
  return -1;
}

/* ---- Things kept once --------------------------------------------------------------------- */

/* The index looks at the low bits first. */
static uint32_t spread(uint64_t h) { return (uint32_t)(h ^ h >> 32); } /* sees all bits */

/* A multiplier with bits all over (2^64 by the golden ratio), then the high bits come
 * down. */
static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* A hash of what isa_ap_equal compares; equal patterns have equal hashes. */
static uint32_t ap_hash(const isa_ap *ap) {
  uint64_t h = mix(ap->dtype, (uint64_t)ap->base << 32 | ap->index);
  h = mix(h, (uint64_t)ap->space << 48 | (uint64_t)ap->part << 32 | (uint64_t)ap->nparts << 16 |
                 ap->ndim);
  h = mix(h, (uint64_t)ap->offset);
  for (unsigned d = 0; d < ap->ndim; d++)
    h = mix(mix(h, (uint64_t)ap->dim[d].step), ap->dim[d].num);
  h = mix(h, (uint64_t)ap->index_kind << 24 | (uint64_t)ap->index_dim << 16 |
                 (uint64_t)ap->size_dim << 8 | ap->size_reg);
  for (unsigned i = 0; i < ISA_MAX_DYN; i++)
    /* Only what is there: fields of an absent offset are not compared either. */
    if (ap->dyn[i].kind)
      h = mix(mix(h, (uint64_t)ap->dyn[i].reg << 32 | ap->dyn[i].ap), (uint64_t)ap->dyn[i].stride);
  /* Most patterns have no rank, and then cost nothing. */
  if (ap->rank) h = mix(h, ap->rank);
  return spread(h);
}

uint32_t isa_program_new_ap(isa_program *p, unsigned core, const isa_ap *ap) {
  isa_core *c = &p->cores[core];
  if (!isa_array_room(&p->arena.al, &c->aps, c->naps, &c->cap_aps, sizeof *ap)) return 0;
  isa_ap *copy = &c->aps[c->naps];
  *copy = *ap;
  /* Equal patterns must be equal bytes in a file, and callers leave anything there. */
  for (unsigned d = ap->ndim; d < ISA_MAX_DIMS; d++) copy->dim[d] = (isa_dim){0, 0};
  /* It counts as indexed, though it is not: isa_program_ap adds its own, and no other is to be
   * found. */
  c->ap_indexed += c->ap_indexed == c->naps;
  return ++c->naps;
}

uint32_t isa_program_ap(isa_program *p, unsigned core, const isa_ap *ap) {
  isa_core *c = &p->cores[core];
  isa_index *t = &c->ap_index;
  uint32_t hash = ap_hash(ap), probe = 0, number;
  for (; c->ap_indexed < c->naps; c->ap_indexed++) /* those of a program that was read */
    if (!isa_index_add(&p->arena.al, t, ap_hash(&c->aps[c->ap_indexed]), c->ap_indexed + 1))
      return 0;
  while ((number = isa_index_next(t, hash, &probe)))
    if (isa_ap_equal(&c->aps[number - 1], ap)) return number;
  /* Room comes first, so that the index cannot fail once the pattern is added.
   * isa_program_new_ap has counted it as indexed, so it is added here itself. */
  if (!isa_index_room(&p->arena.al, t) || !isa_program_new_ap(p, core, ap)) return 0;
  return isa_index_add(&p->arena.al, t, hash, c->naps) ? c->naps : 0;
}

/* Patterns at the end were taken away, or were added without the index. */
void isa_program_index_anew(isa_program *p, unsigned core) {
  isa_index_clear(&p->cores[core].ap_index);
  p->cores[core].ap_indexed = 0;
}

static uint32_t run_hash(const isa_program *p, isa_ref run) {
  return spread(isa_fnv(ISA_FNV_START, p->pool.data + run.offset, run.count));
}

bool isa_program_pool(isa_program *p, const void *data, uint32_t count, unsigned size,
                      isa_ref *out) {
  /* Equal lists have one place in the pool: a program with a thousand equal lists of
   * steps keeps one. */
  uint64_t n = (uint64_t)count * size;
  *out = (isa_ref){0, count};
  if (n == 0) return true; /* the empty list is {0, 0} */
  isa_index *t = &p->pool_index;
  uint32_t hash = spread(isa_fnv(ISA_FNV_START, data, (size_t)n)), probe = 0, number;
  /* Offsets in the pool have 32 bits; 7: what comes before it, to begin at a multiple of 8. */
  if (p->pool.len + n + 7 > UINT32_MAX) return false;
  /* The runs of a program that was read: they are indexed when the first one is added. */
  while (t->n < p->npool_runs)
    if (!isa_index_add(&p->arena.al, t, run_hash(p, p->pool_runs[t->n]), t->n + 1)) return false;
  while ((number = isa_index_next(t, hash, &probe))) {
    isa_ref run = p->pool_runs[number - 1];
    out->offset = run.offset;
    if (run.count == n && memcmp(p->pool.data + run.offset, data, (size_t)n) == 0) return true;
  }
  size_t pad = (8 - p->pool.len % 8) % 8;
  if (!isa_array_grow(&p->arena.al, &p->pool_runs, p->npool_runs, &p->cap_pool_runs,
                      sizeof(isa_ref)))
    return false;
  char *to = isa_buf_grow(&p->pool, pad + (size_t)n);
  if (!to) return false;
  memset(to, 0, pad);
  memcpy(to + pad, data, (size_t)n);
  out->offset = (uint32_t)(p->pool.len - n);
  p->pool_runs[p->npool_runs++] = (isa_ref){out->offset, (uint32_t)n};
  return isa_index_add(&p->arena.al, t, hash, p->npool_runs);
}

const void *isa_program_list(const isa_program *p, isa_ref r, unsigned kind) {
  static const uint64_t empty = 0;
  if (kind >= ISA_NKINDS || isa_kind_elem[kind] == 0 || r.offset % 8 != 0) return NULL;
  if (r.count == 0) return &empty;
  if (r.offset + (uint64_t)r.count * isa_kind_elem[kind] > p->pool.len) return NULL;
  return p->pool.data + r.offset;
}
