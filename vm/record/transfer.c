/* Transfers: the shares and the trigger that belong together. A queue's transfers are numbered as
 * they are triggered, and events keep only the low bits of the number: this is enough, since a
 * ring's queue is far shorter than they can count. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

enum { QUEUES = ISA_MAX_CORES * ISA_MAX_QUEUES };

/* Continues the count of a queue: the number nearest to the last one that has these low bits. */
static int64_t unwrap(int64_t last, uint32_t part) {
  /* In 16 bits, so that the difference wraps as the counter did. */
  uint32_t ahead = (part - (uint32_t)last) & 0xffff;
  /* Half of the range is ahead of the last number, half behind it. */
  return ahead < 0x8000 ? last + ahead : last + ahead - 0x10000;
}

typedef struct counts {
  int64_t last[QUEUES], least[QUEUES], most[QUEUES];
  bool seen[QUEUES];
} counts;

static unsigned queue_of(const vm_rec_event *v) {
  return v->id < ISA_MAX_QUEUES ? vm_rec_queue(v->core, v->id) : QUEUES;
}

/* The number of v's transfer in its queue, from which later ones follow.
 * least and most may lie before and after the first one that was seen. */
static int64_t count_event(counts *c, const vm_rec_event *v, unsigned q) {
  int64_t n = c->seen[q] ? unwrap(c->last[q], v->part) : (int64_t)v->part;
  c->least[q] = c->seen[q] && c->least[q] < n ? c->least[q] : n;
  c->most[q] = c->seen[q] && c->most[q] > n ? c->most[q] : n;
  c->last[q] = n;
  c->seen[q] = true;
  return n;
}

static void add_event(vm_rec_transfer *x, const vm_rec_event *v, uint32_t i) {
  if (v->kind == VM_EV_TRIGGER) {
    x->trigger = i + 1;
    return;
  }
  x->start = x->shares && x->start < v->start ? x->start : v->start;
  x->end = x->shares && x->end > v->end ? x->end : v->end;
  x->bytes += v->bytes;
  /* The first share stands for the transfer's place. */
  if (!x->shares++) x->share = i + 1;
}

bool vm_rec_transfers_of(const vm_rec_view *t, vm_rec_transfers *out) {
  counts c = {.seen = {false}};
  int64_t before[QUEUES + 1] = {0}; /* transfers of the queues before */
  *out = (vm_rec_transfers){.of = vm_rec_new_array(t, sizeof *out->of)};
  if (!out->of) return false;
  /* First how many there are, then which: numbers begin at the least of each queue. */
  for (uint32_t i = 0; i < t->n; i++) {
    const vm_rec_event *v = vm_rec_at(t->r, i);
    if (vm_rec_moves(v) && queue_of(v) < QUEUES) count_event(&c, v, queue_of(v));
  }
  for (unsigned q = 0; q < QUEUES; q++)
    before[q + 1] = before[q] + (c.seen[q] ? c.most[q] - c.least[q] + 1 : 0);
  /* The same walk again gives the same numbers. */
  counts again = {.seen = {false}};
  if (before[QUEUES] >= UINT32_MAX) { /* events that no run produces */
    vm_rec_transfers_free(t, out);
    return false;
  }
  out->n = (uint32_t)before[QUEUES];
  out->v = isa_zalloc(&t->al, (size_t)out->n * sizeof *out->v + 1);
  for (uint32_t i = 0; out->v && i < t->n; i++) {
    const vm_rec_event *v = vm_rec_at(t->r, i);
    unsigned q = queue_of(v);
    if (!vm_rec_moves(v) || q >= QUEUES) continue;
    out->of[i] = (uint32_t)(before[q] + count_event(&again, v, q) - c.least[q]);
    add_event(&out->v[out->of[i]], v, i);
  }
  if (out->v) return true;
  vm_rec_transfers_free(t, out);
  return false;
}

/* Both arrays were made for all events. */
void vm_rec_transfers_free(const vm_rec_view *t, vm_rec_transfers *x) {
  isa_free(&t->al, x->v, (size_t)x->n * sizeof *x->v + 1);
  vm_rec_free_array(t, x->of, sizeof *x->of);
  memset(x, 0, sizeof *x);
}

/* ---- Over time ---------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
  const struct vm_rec_pending_point *x = a, *y = b;
  if (x->t != y->t) return x->t < y->t ? -1 : 1;
  /* Ends come before starts at one time, so that no moment counts both. */
  return x->n < y->n ? -1 : x->n > y->n;
}

bool vm_rec_pending_of(const vm_rec_view *t, const vm_rec_transfers *x, unsigned core,
                       vm_rec_pending *out) {
  /* At most a start and an end for each. */
  uint32_t n = 0;
  int64_t now = 0;
  *out = (vm_rec_pending){.room = 2 * (size_t)x->n * sizeof *out->v + 1};
  out->v = isa_zalloc(&t->al, out->room);
  if (!out->v) return false;
  for (uint32_t k = 0; k < x->n; k++) {
    const vm_rec_transfer *one = &x->v[k];
    const vm_rec_event *by = one->trigger ? vm_rec_at(t->r, one->trigger - 1) : NULL;
    if (!by || by->core != core || by->bytes == 0) continue;
    out->v[n++] = (struct vm_rec_pending_point){by->start, 1};
    /* A transfer of which shares were not recorded has no known end. */
    if (one->bytes == by->bytes) out->v[n++] = (struct vm_rec_pending_point){one->end, -1};
  }
  if (n) qsort(out->v, n, sizeof *out->v, by_time);
  for (uint32_t i = 0; i < n; i++) { /* one point for each time */
    now += out->v[i].n;
    if (i + 1 < n && out->v[i + 1].t == out->v[i].t) continue;
    out->v[out->n++] = (struct vm_rec_pending_point){out->v[i].t, now};
  }
  return true;
}

void vm_rec_pending_free(const vm_rec_view *t, vm_rec_pending *p) {
  isa_free(&t->al, p->v, p->room);
  memset(p, 0, sizeof *p);
}

/* A share's bytes go evenly over its time, cut at the borders of the slices. */
void vm_rec_moved(const vm_rec_view *t, unsigned core, vm_time width, uint32_t n, double *bytes) {
  for (uint32_t i = 0; i < t->n; i++) {
    const vm_rec_event *v = vm_rec_at(t->r, i);
    if (v->kind != VM_EV_DMA || v->core != core) continue;
    /* A share without length counts as one femtosecond. */
    double rate = (double)v->bytes / (double)(v->end > v->start ? v->end - v->start : 1);
    for (vm_time at = v->start, k = at / width; k < n && at < v->end; k++) {
      vm_time part = width - (at - k * width);
      part = part < v->end - at ? part : v->end - at;
      bytes[k] += rate * (double)part;
      at += part;
    }
  }
}
