/* How much of SBUF and PSUM is in use over time, by tiles: a tile holds a value from the start of
 * the instruction that writes it to the end of the last read before the tile is written again. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* A value is written once or in parts, then read; the next write begins another one. */
typedef struct life { /* of a tile's current value */
  bool live, read;
  vm_time start, last;
} life;

typedef struct change {
  vm_time t;
  int64_t bytes;
  uint8_t memory; /* 0 SBUF, 1 PSUM */
} change;

typedef struct changes {
  change *v;
  uint32_t n, cap;
  bool failed;
} changes;

static void add_change(const vm_rec_view *t, changes *c, vm_time at, int64_t bytes, uint8_t mem) {
  if (c->n == c->cap && !isa_array_grow(&t->al, &c->v, c->n, &c->cap, sizeof *c->v))
    c->failed = true;
  else
    c->v[c->n++] = (change){at, bytes, mem};
}

/* The tile as a whole, also where a part of it was written. */
static void end_life(const vm_rec_view *t, changes *c, uint32_t tile, const life *l) {
  const isa_tile *row = &t->p->tiles[tile];
  int64_t bytes = (int64_t)row->bytes * row->shape[0];
  uint8_t mem = row->space == ISA_PSUM;
  add_change(t, c, l->start, bytes, mem);
  add_change(t, c, l->last, -bytes, mem);
}

/* A write that comes while the last read still runs does not end the value. */
static void use_tile(const vm_rec_view *t, changes *c, life *lives, uint32_t tile, bool writes,
                     const vm_rec_event *v) {
  life *l = &lives[tile];
  /* The value has been read and is over: another one begins. */
  if (writes && l->live && l->read && l->last <= v->start) {
    end_life(t, c, tile, l);
    l->live = false;
  }
  if (!l->live) *l = (life){.live = true, .start = v->start, .last = v->end};
  /* It is open again until somebody reads what was written. */
  l->read = !writes;
  l->last = v->end > l->last ? v->end : l->last;
}

/* An event's accesses to a core's tiles: reads first, as in the machine. */
static void use_event(const vm_rec_view *t, unsigned core, changes *c, life *lives,
                      const vm_rec_event *v) {
  vm_rec_access a[VM_REC_APS];
  uint32_t number;
  const isa_insn *in = vm_rec_insn(t, v, &number);
  if (!in || (v->kind != VM_EV_INSN && v->kind != VM_EV_DMA)) return;
  uint32_t n = vm_rec_accesses(t->p, v->by_core, in, a);
  /* Two rounds over the accesses: an instruction reads before it writes. */
  for (int writes = 0; writes < 2; writes++)
    for (uint32_t i = 0; i < n; i++)
      if (a[i].writes == (bool)writes && a[i].ap->space != ISA_HBM && a[i].ap->base &&
          /* A peer's access is to the other core's tiles. */
          a[i].ap->base <= t->p->ntiles && (v->by_core ^ a[i].ap->peer) == core)
        use_tile(t, c, lives, a[i].ap->base - 1, (bool)writes, v);
}

static int by_time(const void *a, const void *b) {
  const change *x = a, *y = b;
  if (x->t != y->t) return x->t < y->t ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* frees come first, so that no false peak
                                                            appears */
}

/* Changes in order of time give the use at each moment. */
static bool add_up(const vm_rec_view *t, changes *c, vm_rec_usage *out) {
  uint64_t now[2] = {0, 0};
  qsort(c->v, c->n, sizeof *c->v, by_time);
  for (uint32_t i = 0; i < c->n; i++) {
    unsigned m = c->v[i].memory;
    now[m] += (uint64_t)c->v[i].bytes;
    out->peak[m] = now[m] > out->peak[m] ? now[m] : out->peak[m];
    /* One point for each moment. */
    if (i + 1 < c->n && c->v[i + 1].t == c->v[i].t) continue;
    if (out->n == out->cap && !isa_array_grow(&t->al, &out->v, out->n, &out->cap, sizeof *out->v))
      return false;
    out->v[out->n++] = (vm_rec_usage_point){c->v[i].t, {now[0], now[1]}};
  }
  return true;
}

/* For one core: a tile has a place in each core's memory. */
bool vm_rec_usage_of(const vm_rec_view *t, const uint32_t *by_start, unsigned core,
                     vm_rec_usage *out) {
  size_t size = (size_t)t->p->ntiles * sizeof(life) + 1;
  life *lives = isa_zalloc(&t->al, size);
  changes c = {0};
  memset(out, 0, sizeof *out);
  for (uint32_t k = 0; lives && k < t->n; k++)
    use_event(t, core, &c, lives, vm_rec_at(t->r, by_start[k]));
  for (uint32_t i = 0; lives && i < t->p->ntiles; i++) /* What is still live at the end. */
    if (lives[i].live) end_life(t, &c, i, &lives[i]);
  bool ok = lives && !c.failed && (c.n == 0 || add_up(t, &c, out));
  isa_free(&t->al, lives, size);
  isa_free(&t->al, c.v, c.cap * sizeof *c.v);
  if (!ok) vm_rec_usage_free(t, out);
  return ok;
}

void vm_rec_usage_free(const vm_rec_view *t, vm_rec_usage *u) {
  isa_free(&t->al, u->v, u->cap * sizeof *u->v);
  memset(u, 0, sizeof *u);
}
