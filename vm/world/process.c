/* A world that is spread over processes: each has all runs, but moves only those of a block of LPs.
 * Between two windows the processes agree on what has happened and how far they may go, and
 * messages go to the process of their receiver. Links are carried out alike in all of them, so
 * every process sees the heads of all messages between devices, but only one of them the bytes. */
#include "world.h"

#include <string.h>

/* ---- Blocks ------------------------------------------------------------------------------- */

static uint32_t first_lp(const vm_world *w, uint32_t process) {
  /* Blocks of nearly equal size, in the order of LPs. */
  return (uint32_t)((uint64_t)process * w->nlps / w->far->size);
}

static uint32_t process_of(const vm_world *w, uint32_t rank) {
  uint32_t lp = w->lp_of[rank], p = (uint32_t)((uint64_t)lp * w->far->size / w->nlps);
  /* The division may be one too low. */
  while (p + 1 < w->far->size && first_lp(w, p + 1) <= lp) p++;
  return p;
}

void vm_world_spread(vm_world *w, const vm_transport *far) {
  /* With one LP there is nothing to spread. */
  if (!far || far->size < 2 || w->alone || w->nlps < 2) return;
  w->far = far;
  w->lp0 = first_lp(w, far->rank);
  w->lp1 = first_lp(w, far->rank + 1);
}

/* ---- What has happened --------------------------------------------------------------------- */

enum { TEXT = 512 };

static bool lost(vm_world *w) {
  w->status = ISA_FAULT;
  w->report.len = 0;
  isa_buf_puts(&w->report, "another process of the world is lost");
  return false;
}

/* The processes' senders into *s; the block of each begins at the LP that it says. */
static void merge(vm_senders *s, const vm_senders *other) {
  if (other->next < s->next) s->next = other->next;
  if (other->first < s->first) {
    s->second = s->first < other->second ? s->first : other->second;
    s->first = other->first;
    s->who = other->who;
  } else if (other->first < s->second) {
    s->second = other->first;
  }
  s->waits |= other->waits;
  /* The earliest failure, then that of the lowest rank: the same in all processes. */
  bool earlier = other->failed_at < s->failed_at ||
                 (other->failed_at == s->failed_at && other->failed < s->failed);
  if (other->status != ISA_OK && (s->status == ISA_OK || earlier)) {
    s->status = other->status;
    s->failed = other->failed;
    s->failed_at = other->failed_at;
    s->by = other->by;
  }
}

/* The text of process `by`, which stops the world. */
static bool take_report(vm_world *w, uint32_t by) {
  char text[TEXT] = "", *all = isa_zalloc(&w->al, (size_t)w->far->size * TEXT);
  const char *mine = w->status == ISA_OK ? "" : isa_buf_str(&w->report);
  size_t n = strlen(mine);
  memcpy(text, mine, n < TEXT ? n : TEXT - 1);
  /* A text of fixed length, so that all share as much. */
  bool done = all && w->far->share(w->far->ud, text, TEXT, all);
  if (done && by != w->far->rank) {
    w->report.len = 0;
    isa_buf_puts(&w->report, all + (size_t)by * TEXT);
  }
  isa_free(&w->al, all, (size_t)w->far->size * TEXT);
  return done;
}

bool vm_world_meet(vm_world *w, vm_senders *s) {
  uint32_t size = w->far->size;
  vm_senders *all = isa_zalloc(&w->al, size * sizeof *all);
  s->by = w->far->rank;
  bool done = all && w->far->share(w->far->ud, s, sizeof *s, all);
  if (done) *s = all[0];
  for (uint32_t p = 1; done && p < size; p++) merge(s, &all[p]);
  isa_free(&w->al, all, size * sizeof *all);
  w->rounds++;
  if (!done) return lost(w);
  if (s->status == ISA_OK) return true;
  if (!take_report(w, s->by)) return lost(w);
  w->status = (isa_status)s->status;
  /* The same rank in all processes. */
  w->failed = s->failed;
  return false;
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* In a packet: the message, how many bytes follow, the bytes. */
static bool put(isa_buf *b, const vm_parcel *p, bool bytes) {
  uint64_t n = bytes ? p->bytes : 0;
  isa_buf_add(b, &p->m, sizeof p->m);
  isa_buf_add(b, &n, sizeof n);
  if (n) isa_buf_add(b, p->data, n);
  return !b->failed;
}

static bool pack(vm_world *w, const vm_parcel *p, isa_buf *to) {
  uint32_t dst = process_of(w, p->m.dst);
  bool linked =
      w->links.o.of && vm_links_device(&w->links, p->m.src) != vm_links_device(&w->links, p->m.dst);
  /* Between devices everybody gets the head, and the receiver's process the bytes. */
  for (uint32_t k = 0; k < w->far->size; k++)
    if (k != w->far->rank && (linked || k == dst) && !put(&to[k], p, k == dst)) return false;
  return true;
}

/* The messages of another process. */
static bool unpack(vm_world *w, const uint8_t *at, uint64_t n) {
  const uint8_t *end = at + n;
  while (at < end) {
    vm_parcel p = {.bytes = 0};
    memcpy(&p.m, at, sizeof p.m);
    memcpy(&p.bytes, at + sizeof p.m, sizeof p.bytes);
    at += sizeof p.m + sizeof p.bytes;
    if (p.bytes && !(p.data = w->al.fn(w->al.ud, NULL, 0, (size_t)p.bytes))) return false;
    if (p.bytes) memcpy(p.data, at, (size_t)p.bytes);
    at += p.bytes;
    /* In the order of processes; links order what comes by time. */
    vm_world_carry(w, &p);
  }
  return true;
}

/* This process's messages, to itself too. */
static bool give(vm_world *w, isa_buf *to) {
  bool good = true;
  for (uint32_t r = 0; r < w->nranks; r++) {
    vm_peers *x = &w->peers[r];
    for (uint32_t i = 0; i < x->nout; i++) {
      good = good && pack(w, &x->out[i], to);
      /* Its process has the bytes; here it only goes over the links. */
      if (process_of(w, x->out[i].m.dst) != w->far->rank) {
        vm_parcel_free(&w->al, &x->out[i]);
        x->out[i].data = NULL;
        x->out[i].known = NULL;
        x->out[i].bytes = 0;
      }
      vm_world_carry(w, &x->out[i]);
    }
    x->nout = 0;
  }
  return good;
}

bool vm_world_share(const isa_alloc *al, const vm_transport *far, isa_buf *to,
                    bool (*take)(void *ud, uint32_t process, const uint8_t *at, uint64_t n),
                    void *ud) {
  size_t room = far->size * (sizeof(void *) + 2 * sizeof(uint64_t));
  /* Three arrays in one block. */
  uint64_t *n = isa_zalloc(al, room);
  if (!n) return false;
  uint64_t *from = n + far->size;
  const void **out = (const void **)(from + far->size), *in;
  bool good = true;
  for (uint32_t p = 0; good && p < far->size; p++) {
    out[p] = to[p].data;
    n[p] = to[p].len;
    good = !to[p].failed;
  }
  good = good && far->exchange(far->ud, out, n, &in, from);
  const uint8_t *at = good ? in : NULL;
  for (uint32_t p = 0; good && p < far->size; p++) {
    good = take(ud, p, at, from[p]);
    at += from[p];
  }
  isa_free(al, n, room);
  return good;
}

static bool take_messages(void *ud, uint32_t process, const uint8_t *at, uint64_t n) {
  vm_world *w = ud;
  if (process != w->far->rank) w->came += n;
  return unpack(w, at, n);
}

void vm_world_exchange(vm_world *w) {
  uint32_t size = w->far->size;
  isa_buf *to = isa_zalloc(&w->al, size * sizeof *to);
  for (uint32_t p = 0; to && p < size; p++) isa_buf_init(&to[p], &w->al);
  if (!to || !give(w, to) || !vm_world_share(&w->al, w->far, to, take_messages, w)) lost(w);
  for (uint32_t p = 0; to && p < size; p++) isa_buf_free(&to[p]);
  isa_free(&w->al, to, size * sizeof *to);
  w->rounds++;
}
