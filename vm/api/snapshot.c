/* States of a run that stay in memory: what a later one has not changed it shares with an earlier
 * one, so that many of a large run take little. */
#include "../save/save.h"
#include "impl.h"

#include <string.h>

enum { CHUNK = 1 << 16 }; /* bytes that are shared together */
typedef struct chunk {
  uint32_t refs, n;
  uint8_t data[];
} chunk;

/* A stretch of the run's memory, in the order of the walk. */
typedef struct region {
  uint64_t n;
  chunk **v; /* NULL: zeros */
} region;

struct soma_snapshot {
  isa_alloc al;
  soma_program *p;
  isa_buf state; /* all but the memories */
  region *regions;
  uint32_t n, cap;
};

typedef struct walk {
  soma_snapshot *s;
  const soma_snapshot *before; /* that it may share with; NULL: none */
  uint32_t i;                  /* of the next region */
  bool failed;
} walk;

static size_t chunks_of(uint64_t n) { return (size_t)((n + CHUNK - 1) / CHUNK); }
static size_t chunk_bytes(uint64_t n, size_t i) {
  return n - i * CHUNK < CHUNK ? (size_t)(n - i * CHUNK) : CHUNK;
}

static chunk *new_chunk(const isa_alloc *al, const uint8_t *p, size_t n) {
  chunk *c = al->fn(al->ud, NULL, 0, sizeof *c + n);
  if (!c) return NULL;
  c->refs = 1;
  c->n = (uint32_t)n;
  memcpy(c->data, p, n);
  return c;
}

/* One more holder of what `old` has when p is the same, else a chunk of p's bytes. */
static chunk *share(const isa_alloc *al, chunk *old, const uint8_t *p, size_t n) {
  if (!old || memcmp(old->data, p, n) != 0) return new_chunk(al, p, n);
  old->refs++;
  return old;
}

/* A vm_saver's pages: takes p's bytes. */
static void keep(void *ud, uint8_t *p, uint64_t n) {
  walk *w = ud;
  soma_snapshot *s = w->s;
  const soma_snapshot *b = w->before;
  const region *like = b && w->i < b->n && b->regions[w->i].n == n ? &b->regions[w->i] : NULL;
  w->i++;
  if (w->failed) return;
  if (s->n == s->cap && !isa_array_grow(&s->al, &s->regions, s->n, &s->cap, sizeof *s->regions)) {
    w->failed = true;
    return;
  }
  region *r = &s->regions[s->n];
  *r = (region){n, isa_zalloc(&s->al, (chunks_of(n) + 1) * sizeof(chunk *))};
  if (!r->v) {
    w->failed = true;
    return;
  }
  s->n++;
  for (size_t i = 0; i < chunks_of(n) && !w->failed; i++) {
    const uint8_t *at = p + i * CHUNK;
    size_t size = chunk_bytes(n, i);
    if (at[0] == 0 && memcmp(at, at + 1, size - 1) == 0) continue;
    r->v[i] = share(&s->al, like ? like->v[i] : NULL, at, size);
    w->failed = !r->v[i];
  }
}

/* Likewise: fills p, which holds zeros as it was made so. */
static void give(void *ud, uint8_t *p, uint64_t n) {
  walk *w = ud;
  const soma_snapshot *s = w->s;
  if (w->i >= s->n || s->regions[w->i].n != n) return; /* one program has one walk */
  const region *r = &s->regions[w->i++];
  for (size_t i = 0; i < chunks_of(n); i++)
    if (r->v[i]) memcpy(p + i * CHUNK, r->v[i]->data, r->v[i]->n);
}

void soma_snapshot_free(soma_snapshot *s) {
  if (!s) return;
  isa_alloc al = s->al;
  for (uint32_t k = 0; k < s->n; k++) {
    region *r = &s->regions[k];
    for (size_t i = 0; i < chunks_of(r->n); i++)
      if (r->v[i] && --r->v[i]->refs == 0) isa_free(&al, r->v[i], sizeof(chunk) + r->v[i]->n);
    isa_free(&al, r->v, (chunks_of(r->n) + 1) * sizeof(chunk *));
  }
  isa_free(&al, s->regions, s->cap * sizeof *s->regions);
  isa_buf_free(&s->state);
  soma_program_free(s->p);
  isa_free(&al, s, sizeof *s);
}

uint64_t soma_snapshot_bytes(const soma_snapshot *s) {
  uint64_t bytes = s ? s->state.len : 0;
  for (uint32_t k = 0; s && k < s->n; k++)
    for (size_t i = 0; i < chunks_of(s->regions[k].n); i++) {
      const chunk *c = s->regions[k].v[i];
      if (c) bytes += c->n / c->refs;
    }
  return bytes;
}

soma_status soma_run_snapshot(soma_run *r, const soma_snapshot *before, soma_snapshot **out) {
  if (!r || !r->m || !soma_given(r->m, "out", out)) return SOMA_ARG;
  *out = NULL;
  isa_alloc al = isa_alloc_default();
  soma_snapshot *s = isa_zalloc(&al, sizeof *s);
  if (!s) return soma_out_of_memory(r->m);
  s->al = al;
  s->p = r->p;
  s->p->refs++;
  isa_buf_init(&s->state, &al);
  walk w = {.s = s, .before = before && before->p == r->p ? before : NULL};
  vm_saver saver = {.out = &s->state, .pages = keep, .pages_ud = &w};
  soma_status status = soma_state_write(r, &saver);
  if (status == SOMA_OK && w.failed) status = soma_out_of_memory(r->m);
  if (status == SOMA_OK)
    *out = s;
  else
    soma_snapshot_free(s);
  return status;
}

soma_status soma_run_return(soma_run **r, const soma_snapshot *s) {
  if (!r || !*r || !(*r)->m || !soma_given((*r)->m, "snapshot", s)) return SOMA_ARG;
  if (s->p != (*r)->p)
    return soma_fail((*r)->m, SOMA_ARG, "the snapshot is of a run of another program");
  isa_error e = {.status = ISA_FORMAT};
  walk w = {.s = (soma_snapshot *)(uintptr_t)s};
  vm_saver saver = {.at = (const uint8_t *)s->state.data,
                    .end = (const uint8_t *)s->state.data + s->state.len,
                    .reads = true,
                    .err = &e,
                    .pages = give,
                    .pages_ud = &w};
  return soma_state_read(r, &saver);
}
