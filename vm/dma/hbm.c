/* Addresses in a device's HBM. */
#include "hbm.h"

#include <string.h>

static void set_size(vm_hbm *h, const isa_target *t, uint64_t limit) {
  uint64_t all = (uint64_t)t->hbm_gib << 30;
  h->stacks = t->hbm_stacks;
  /* Stacks of one size, one after another in the address space. */
  h->stack_size = all / t->hbm_stacks;
  h->capacity = limit && limit < all ? limit : all;
}

void vm_hbm_init(vm_hbm *h, const isa_alloc *al, const isa_target *t, uint64_t limit) {
  memset(h, 0, sizeof *h);
  h->al = *al;
  isa_buf_init(&h->refused, al);
  set_size(h, t, limit);
}

bool vm_hbm_fit(vm_hbm *h, const isa_target *t, uint64_t limit) {
  vm_hbm as = *h;
  set_size(&as, t, limit);
  /* Ranges are ordered by address: the last one reaches furthest. */
  const vm_hbm_range *last = h->n ? &h->v[h->n - 1] : NULL;
  if (last && last->at + last->bytes > as.capacity) return false;
  *h = as;
  return true;
}

void vm_hbm_free(vm_hbm *h) {
  isa_free(&h->al, h->v, h->cap * sizeof *h->v);
  isa_buf_free(&h->refused);
  memset(h, 0, sizeof *h);
}

const char *vm_hbm_owner_name(unsigned owner) {
  static const char *const names[] = {"?", "tensor", "device tensor", "device const", "ring"};
  return names[owner <= VM_HBM_RING ? owner : 0];
}

/* ---- Gaps --------------------------------------------------------------------------------- */

/* Where the address space continues after range i. */
static uint64_t end_of(const vm_hbm *h, const vm_hbm_range *r) {
  /* A range takes whole units of VM_HBM_ALIGN. */
  uint64_t end = (r->at + r->bytes + VM_HBM_ALIGN - 1) / VM_HBM_ALIGN * VM_HBM_ALIGN;
  /* The last unit may be cut by a limit that is no multiple. */
  return end < h->capacity ? end : h->capacity;
}

/* The gap before range i (h->n: after the last). */
static void gap(const vm_hbm *h, uint32_t i, uint64_t *lo, uint64_t *hi) {
  *lo = i ? end_of(h, &h->v[i - 1]) : 0;
  *hi = i < h->n ? h->v[i].at : h->capacity;
}

/* Whether n bytes fit in lo .. hi - 1, in one stack if `one`; *at is the lowest such address. */
static bool fits(const vm_hbm *h, uint64_t lo, uint64_t hi, uint64_t n, bool one, uint64_t *at) {
  uint64_t next = (lo / h->stack_size + 1) * h->stack_size; /* where the next stack begins */
  /* From the next stack's beginning on, if what is left of this one is too small. */
  *at = lo;
  if (one && n > next - lo) {
    if (n > h->stack_size || next > hi) return false;
    *at = next;
  }
  return hi > *at && n <= hi - *at;
}

/* The first gap in which n bytes fit: *i is the range after it. */
/* Kept as `packed`: programs with many tensors fill from below, and the first gap would be sought
 * from 0 each time. */
static bool find(vm_hbm *h, uint64_t n, bool one, uint32_t *i, uint64_t *at) {
  uint64_t lo, hi;
  while (h->packed < h->n) {
    gap(h, h->packed, &lo, &hi);
    if (lo < hi) break;
    h->packed++;
  }
  for (*i = h->packed; *i <= h->n; ++*i) {
    gap(h, *i, &lo, &hi);
    if (fits(h, lo, hi, n, one, at)) return true;
  }
  return false;
}

vm_hbm_blocks vm_hbm_free_blocks(const vm_hbm *h) {
  vm_hbm_blocks b = {0};
  for (uint32_t i = 0; i <= h->n; i++) {
    uint64_t lo, hi;
    gap(h, i, &lo, &hi);
    if (lo >= hi) continue;
    b.n++;
    b.free += hi - lo;
    if (hi - lo > b.largest) b.largest = hi - lo;
  }
  return b;
}

/* ---- Exhausted ---------------------------------------------------------------------------- */

/* Whether range a comes before b in a list by decreasing size. */
static bool before(const vm_hbm_range *a, const vm_hbm_range *b) {
  return a->bytes != b->bytes ? a->bytes > b->bytes : a->at < b->at;
}

/* The largest range after `last` in such a list, NULL if none exists. */
static const vm_hbm_range *next_largest(const vm_hbm *h, const vm_hbm_range *last) {
  const vm_hbm_range *best = NULL;
  for (uint32_t i = 0; i < h->n; i++) {
    const vm_hbm_range *r = &h->v[i];
    if (last && !before(last, r)) continue;
    if (!best || before(r, best)) best = r;
  }
  return best;
}

static void put_largest(vm_hbm *h) {
  const vm_hbm_range *r = NULL;
  uint64_t listed = 0;
  for (uint32_t i = 0; i < VM_HBM_NAMED && (r = next_largest(h, r)) != NULL; i++) {
    /* Only in the report: n * VM_HBM_NAMED steps do not matter there. */
    isa_buf_printf(&h->refused, "\n  %llu bytes at 0x%llx: %s %.60s", (unsigned long long)r->bytes,
                   (unsigned long long)r->at, vm_hbm_owner_name(r->owner), r->name);
    listed += r->bytes;
  }
  if (h->n > VM_HBM_NAMED)
    isa_buf_printf(&h->refused, "\n  and %u more of %llu bytes", h->n - VM_HBM_NAMED,
                   (unsigned long long)(h->used - listed));
}

static isa_status refuse(vm_hbm *h, uint64_t bytes, vm_hbm_owner owner, const char *name) {
  vm_hbm_blocks b = vm_hbm_free_blocks(h);
  /* A report replaces the one before. */
  h->refused.len = 0;
  isa_buf_printf(&h->refused, "%s %.60s needs %llu bytes of HBM; %llu of %llu are taken",
                 vm_hbm_owner_name(owner), name, (unsigned long long)bytes,
                 (unsigned long long)h->used, (unsigned long long)h->capacity);
  if (b.n)
    isa_buf_printf(&h->refused, ", the largest of %u free block%s has %llu", b.n,
                   b.n == 1 ? "" : "s", (unsigned long long)b.largest);
  else
    isa_buf_printf(&h->refused, ", no block is free");
  put_largest(h);
  return ISA_LIMIT;
}

/* ---- Taking and giving -------------------------------------------------------------------- */

isa_status vm_hbm_alloc(vm_hbm *h, uint64_t bytes, vm_hbm_owner owner, const char *name,
                        const void *who, uint64_t *at) {
  /* In one stack if possible: the bandwidth of a stack is what the cost model shares (vm_stack). */
  uint32_t i;
  if (!find(h, bytes, true, &i, at) && !find(h, bytes, false, &i, at))
    return refuse(h, bytes, owner, name);
  /* Ordered by address, so that gaps are found in one pass. */
  if (h->n == h->cap && !isa_array_grow(&h->al, &h->v, h->n, &h->cap, sizeof *h->v))
    return ISA_NOMEM;
  memmove(&h->v[i + 1], &h->v[i], (h->n - i) * sizeof *h->v);
  h->v[i] =
      (vm_hbm_range){.at = *at, .bytes = bytes, .name = name, .who = who, .owner = (uint8_t)owner};
  h->n++;
  h->used += bytes;
  if (h->used > h->high_water) h->high_water = h->used;
  return ISA_OK;
}

void vm_hbm_release(vm_hbm *h, uint64_t at) {
  /* Binary search, by the order of addresses. */
  uint32_t lo = 0, hi = h->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (h->v[mid].at < at)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == h->n || h->v[lo].at != at) return;
  h->used -= h->v[lo].bytes;
  h->n--;
  memmove(&h->v[lo], &h->v[lo + 1], (h->n - lo) * sizeof *h->v);
  /* There is a gap before it now. */
  if (lo < h->packed) h->packed = lo;
}

void vm_hbm_release_all(vm_hbm *h, const void *who) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < h->n; i++) {
    if (h->v[i].who != who) {
      h->v[kept++] = h->v[i];
      continue;
    }
    h->used -= h->v[i].bytes;
    if (kept < h->packed) h->packed = kept;
  }
  h->n = kept;
}

/* ---- Stacks ------------------------------------------------------------------------------- */

/* Bytes of lo .. hi - 1 that lie in stack i. */
static uint64_t in_stack(const vm_hbm *h, uint32_t i, uint64_t lo, uint64_t hi) {
  uint64_t from = i * h->stack_size, to = from + h->stack_size;
  lo = lo > from ? lo : from;
  hi = hi < to ? hi : to;
  return lo < hi ? hi - lo : 0;
}

uint64_t vm_hbm_stack_capacity(const vm_hbm *h, uint32_t i) {
  return in_stack(h, i, 0, h->capacity);
}

uint64_t vm_hbm_stack_used(const vm_hbm *h, uint32_t i) {
  uint64_t n = 0;
  for (uint32_t k = 0; k < h->n; k++) n += in_stack(h, i, h->v[k].at, h->v[k].at + h->v[k].bytes);
  return n;
}
