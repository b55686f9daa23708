/* A heap whose allocations fail one after another, and the driver of the tests of that. */
#ifndef TESTS_ALLOC_BED_H
#define TESTS_ALLOC_BED_H

#include "full.h"
#include "vm_bed.h"

#include <time.h>

/* ---- The heap ----------------------------------------------------------------------------- */

enum { HEAD = 16, BIG = 1 << 20, KEPT = 8 };

typedef struct heap {
  long fail_at; /* the call that fails, counted from 1; 0: none */
  bool on;      /* those after it fail too */
  long calls, alive;
  bool bad_size;
  /* Big blocks that were freed, to be given again: their pages are there already. */
  char *kept[KEPT];
  size_t kept_size[KEPT];
} heap;

static inline char *block_new(heap *h, size_t n) {
  for (int i = 0; i < KEPT; i++)
    if (h->kept[i] && h->kept_size[i] == n) {
      char *p = h->kept[i];
      h->kept[i] = NULL;
      return p;
    }
  return malloc(n);
}

static inline void block_free(heap *h, char *p, size_t n) {
  for (int i = 0; n >= BIG && i < KEPT; i++)
    if (!h->kept[i]) {
      h->kept[i] = p;
      h->kept_size[i] = n;
      return;
    }
  free(p);
}

/* A block has its size before it, which must be what the library says it is. */
static inline void *take(void *ud, void *p, size_t old, size_t n) {
  heap *h = ud;
  char *was = p ? (char *)p - HEAD : NULL, *q = NULL;
  size_t had = 0;
  if (was) memcpy(&had, was, sizeof had);
  if (had != (p ? old : 0)) h->bad_size = true;
  if (n > 0) {
    h->calls++;
    if (h->fail_at && (h->calls == h->fail_at || (h->on && h->calls > h->fail_at))) return NULL;
    q = block_new(h, n + HEAD);
    assert_non_null(q);
    memcpy(q, &n, sizeof n);
    if (was) memcpy(q + HEAD, p, had < n ? had : n);
    h->alive += (long)n;
  }
  if (was) {
    h->alive -= (long)had;
    block_free(h, was, had + HEAD);
  }
  return q ? q + HEAD : NULL;
}

static inline void heap_end(heap *h) {
  for (int i = 0; i < KEPT; i++) free(h->kept[i]);
}

/* ---- The driver --------------------------------------------------------------------------- */

typedef struct use {
  heap h;
  uint64_t digest; /* of what came out */
  soma_machine *m; /* kept from run to run by some scenarios, with a heap that does not fail yet */
  soma_recorder *rec;
  isa_buf image; /* the program of the scenario */
  const char *name;
  soma_status want; /* how it ends when nothing fails */
  bool any_end;     /* it may as well fault, find something, and so on */
  unsigned good;    /* ends without a fault */
} use;
typedef soma_status (*scenario)(use *u);

static inline void put(use *u, const void *p, size_t n) {
  const uint8_t *b = p;
  for (size_t i = 0; i < n; i++) u->digest = (u->digest ^ b[i]) * UINT64_C(0x100000001b3);
}
static inline void put_number(use *u, uint64_t v) { put(u, &v, sizeof v); }

static inline soma_status once(use *u, scenario fn, long fail_at, bool on) {
  u->digest = 1;
  u->h.calls = 0;
  u->h.fail_at = fail_at;
  u->h.on = on;
  soma_status s = fn(u);
  u->h.fail_at = 0;
  if (u->h.bad_size) fail_msg("%s: a block is given back with a wrong size", u->name);
  return s;
}

static inline long each_allocation(use *u, scenario fn) {
  once(u, fn, 0, false); /* what a machine keeps between runs has its room now */
  long alive = u->h.alive;
  soma_status want = once(u, fn, 0, false);
  if (u->any_end ? want == SOMA_NOMEM : u->want != want)
    fail_msg("%s: status %d (%s)", u->name, (int)want, soma_status_text(want));
  u->good += want == SOMA_OK || want == SOMA_CHECK;
  long calls = u->h.calls;
  uint64_t digest = u->digest;
  if (u->h.alive != alive) fail_msg("%s: leaves %ld bytes", u->name, u->h.alive - alive);
  /* Each alone and with those that follow; in short, one of the two in turn. */
  for (long i = 2; i < 2 * calls + 2; i += full_or(1, 3)) {
    bool on = i % 2;
    soma_status s = once(u, fn, i / 2, on);
    if (u->h.alive != alive)
      fail_msg("%s: allocation %ld failing%s leaves %ld bytes", u->name, i / 2,
               on ? " and all after it" : "", u->h.alive - alive);
    if (s != SOMA_NOMEM && (s != want || u->digest != digest))
      fail_msg("%s: allocation %ld failing%s gives status %d (%s), expected %d%s", u->name, i / 2,
               on ? " and all after it" : "", (int)s, soma_status_text(s), (int)want,
               s == want ? ", with other results" : "");
  }
  assert_true(calls > 0);
  return calls;
}

static inline void put_printed(void *ud, int to_stderr, const char *line, size_t n) {
  (void)to_stderr;
  put(ud, line, n);
}

static inline soma_options options(use *u) {
  soma_options o = SOMA_OPTIONS_INIT;
  o.print = put_printed;
  o.print_ud = u;
  o.alloc = take;
  o.alloc_ud = &u->h;
  o.target = "trn2";
  o.max_instructions = 60;
  o.max_time = UINT64_C(20000000000); /* 20 us */
  o.max_hbm_bytes = 64 << 20;
  return o;
}

#endif
