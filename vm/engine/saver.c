/* Numbers, pages and what must hold of a state that is read. */
#include "../saver.h"
#include "../time/clock.h"

#include <string.h>

enum { PAGE = 4096, BLOCK = 1024 /* words */ };
/* The latest time in a file, two and a half hours: adding the time of an event does not
 * overflow. */
#define LATEST (UINT64_C(1) << 63)

bool vm_saver_fail(vm_saver *s, const char *fmt, ...) {
  /* What follows from the first failure would only confuse. */
  if (s->failed) return false;
  s->failed = true;
  if (!s->err) return false;
  isa_buf b;
  va_list ap;
  /* By the default allocator: the caller's may be what failed. */
  isa_alloc al = isa_alloc_default();
  isa_buf_init(&b, &al);
  va_start(ap, fmt);
  isa_buf_vprintf(&b, fmt, ap);
  va_end(ap);
  isa_fail(s->err, ISA_FORMAT, ISA_NOFIELD, "%s", isa_buf_str(&b));
  isa_buf_free(&b);
  return false;
}

bool vm_saver_no_memory(vm_saver *s) {
  s->failed = true;
  if (s->err) s->err->status = ISA_NOMEM;
  if (!s->reads) s->out->failed = true;
  return false;
}

bool vm_saver_need(vm_saver *s, bool ok, const char *rule) {
  if (!ok && s->reads) vm_saver_fail(s, "%s", rule);
  return ok;
}

void vm_saver_bytes(vm_saver *s, void *p, size_t n) {
  if (!s->reads) {
    isa_buf_add(s->out, p, n);
    return;
  }
  /* The rule that the user reads; zeros from now on. */
  if (n > vm_saver_left(s)) vm_saver_fail(s, "it ends too early");
  if (s->failed) {
    memset(p, 0, n);
    return;
  }
  memcpy(p, s->at, n);
  s->at += n;
}

void vm_saver_words(vm_saver *s, void *p, size_t n) {
  uint8_t bytes[4 * BLOCK], *at = p;
  for (size_t k; n; n -= k, at += 4 * k) {
    k = n < BLOCK ? n : BLOCK;
    /* In blocks of 4 KiB: most state is zeros, or none of it is. */
    bool zero = at[0] == 0 && memcmp(at, at + 1, 4 * k - 1) == 0;
    vm_save_bool(s, &zero);
    if (zero) {
      if (s->reads) memset(at, 0, 4 * k);
      continue;
    }
    /* Little endian on every host. */
    for (size_t i = 0; i < k; i++) {
      uint32_t v;
      memcpy(&v, at + 4 * i, 4);
      isa_put32(bytes + 4 * i, v);
    }
    vm_saver_bytes(s, bytes, 4 * k);
    for (size_t i = 0; i < k; i++) {
      uint32_t v = isa_get32(bytes + 4 * i);
      memcpy(at + 4 * i, &v, 4);
    }
  }
}

static bool is_zero(const uint8_t *p, size_t n) {
  return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static size_t page_at(uint64_t at, uint64_t n) { return n - at < PAGE ? (size_t)(n - at) : PAGE; }

/* The number of bytes from `at` on in pages that are all zero, or that are not; those from `reach`
 * on are zero. */
static uint64_t stretch(const uint8_t *p, uint64_t at, uint64_t n, uint64_t reach, bool zero) {
  uint64_t from = at;
  while (at < n && (at >= reach || is_zero(p + at, page_at(at, n))) == zero) at += page_at(at, n);
  return at - from;
}

void vm_saver_pages(vm_saver *s, uint8_t *p, uint64_t n, uint64_t *reach) {
  uint64_t known = n;
  /* Without `reach` all of the memory may have been written. */
  if (!reach) reach = &known;
  /* A snapshot shares pages instead of copying them. */
  if (s->pages) {
    if (!s->failed) s->pages(s->pages_ud, p, n, reach);
    return;
  }
  /* Stretches of zero pages and of others alternate. */
  for (uint64_t at = 0; at < n && !s->failed;) {
    uint64_t skip = s->reads ? 0 : stretch(p, at, n, *reach, true), kept = 0;
    vm_save_u64(s, &skip);
    if (!vm_saver_need(s, skip <= n - at, "a stretch of memory is too long")) return;
    at += skip;
    if (!s->reads) kept = stretch(p, at, n, *reach, false);
    vm_save_u64(s, &kept);
    /* Both 0 would never end. */
    if (!vm_saver_need(s, kept <= n - at && skip + kept > 0, "a stretch of memory is too long"))
      return;
    vm_saver_bytes(s, p + at, (size_t)kept);
    at += kept;
    /* From here on the reader knows how far its memory was written. */
    if (s->reads && kept && at > *reach) *reach = at;
  }
}

void vm_saver_count(vm_saver *s, uint32_t *n, uint32_t most, size_t bytes, const char *what) {
  vm_save_u32(s, n);
  /* A count that the rest of the file cannot hold is refused before memory is taken for it. */
  if (!s->reads || (*n <= most && *n <= vm_saver_left(s) / bytes)) return;
  vm_saver_fail(s, "%u %s", *n, what);
  *n = 0;
}

bool vm_saver_room(vm_saver *s, const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap,
                   size_t size) {
  return !s->reads || isa_array_grow(al, array_ptr, n, cap, size) || vm_saver_no_memory(s);
}

void vm_save_bool(vm_saver *s, bool *v) {
  uint8_t b = *v;
  vm_save_u8(s, &b);
  vm_saver_need(s, b <= 1, "a flag is neither 0 nor 1");
  *v = b == 1;
}

void vm_save_below(vm_saver *s, uint32_t *v, uint32_t limit, const char *what) {
  vm_save_u32(s, v);
  if (!s->reads || *v < limit) return;
  vm_saver_fail(s, "%s %u: there are %u", what, *v, limit);
  /* A failed read leaves a number that is safe to index with. */
  *v = 0;
}

void vm_save_time(vm_saver *s, vm_time *t) {
  vm_save_u64(s, t);
  if (vm_saver_need(s, *t <= LATEST, "a time is too large")) return;
  /* Sums of two times must not overflow. */
  if (s->reads) *t = 0;
}

void vm_save_core(vm_saver *s, const vm_core *c, uint8_t *core) {
  vm_save_u8(s, core);
  if (!vm_saver_need(s, *core < c->run->n, "there is no such core")) *core = 0;
}

void vm_save_where(vm_saver *s, const vm_core *c, vm_where *at) {
  uint8_t engine = (uint8_t)at->engine;
  vm_save_u8(s, &engine);
  vm_save_core(s, c, &at->core);
  vm_save_u32(s, &at->pc);
  at->engine = engine;
  at->dma = -1;
}

void vm_save_node(vm_saver *s, const vm_core *c, uint32_t *node) {
  vm_save_below(s, node, (c->path ? c->path->n : 0) + 1, "node");
}

void vm_save_cause(vm_saver *s, const vm_core *c, vm_cause *v) {
  uint32_t why = v->why;
  vm_save_node(s, c, &v->node);
  vm_save_below(s, &why, VM_WHY_MEET + 1, "cause");
  v->why = (uint8_t)why;
  vm_save_u8(s, &v->sem);
  vm_save_time(s, &v->time);
}
