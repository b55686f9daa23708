/* Host memory: a core's own memories, pages, and blocks of HBM tensors that wait for the next run.
 */
#include "engine.h"
#include "../op/pe.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Blocks from this size on come from the kernel, which gives pages when they are touched. */
enum { MAP_FROM = VM_STATE_LESS };
/* Tensors of this to that size may come in huge pages: the first touches of small ones take as long
 * as all that a program does with them. A larger one may be meant to stay mostly untouched. */
enum { HUGE_FROM = 4 << 20, HUGE_TO = 256 << 20 };
/* Added to the host bytes of a partition: a pitch that is a multiple of 4 KiB makes partitions
 * collide in the cache (measured: up to eight times slower on narrow tiles). */
enum { PITCH_PAD = 576 };

static bool is_mapped(const isa_alloc *al, uint64_t n) {
  /* A host's own allocator is asked for everything: it may count. */
  return n >= MAP_FROM && al->fn == isa_alloc_default().fn;
}

void *vm_pages_new(const isa_alloc *al, uint64_t n) {
  /* More than an address space. */
  if (n > SIZE_MAX / 2) return NULL;
  if (!is_mapped(al, n)) return isa_zalloc(al, n ? (size_t)n : 1);
  /* MAP_NORESERVE: a machine's memories are larger than what a program touches. */
  void *p = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* For memory that will mostly be touched from end to end: in fewer and larger pages. */
static void *tensor_new(const isa_alloc *al, uint64_t n) {
  void *p = vm_pages_new(al, n);
#ifdef MADV_HUGEPAGE
  /* A hint: without it everything works, more slowly. */
  if (p && is_mapped(al, n) && n >= HUGE_FROM && n <= HUGE_TO) madvise(p, (size_t)n, MADV_HUGEPAGE);
#endif
  return p;
}

void vm_pages_free(const isa_alloc *al, void *p, uint64_t n) {
  if (!p) return;
  if (is_mapped(al, n))
    munmap(p, (size_t)n);
  else
    isa_free(al, p, n ? (size_t)n : 1);
}

/* ---- Blocks of HBM tensors ---------------------------------------------------------------- */

/* The most that a pool keeps: as many bytes as the largest tensor in huge pages has. */
enum { POOL_BLOCKS = 32 };
/* Smaller blocks are made anew. From here on malloc may give them back to the kernel, and first
 * touches of pages take several times as long as zeroing what is there (a repeated call with a
 * result of 256 KiB: 0.15 ms of 1.1). */
enum { POOL_FROM = 1 << 16 };
#define POOL_BYTES ((uint64_t)HUGE_TO)
enum { ARRAY_FROM = 1 << 10 }; /* an array's first bytes */

typedef struct block {
  void *data;
  uint64_t bytes;
  bool zero; /* all of it */
} block;

struct vm_reserve {
  atomic_uint refs;
  atomic_ullong used;
  uint64_t bytes;
  uint8_t *data;
};

struct vm_pool {
  isa_alloc al;
  vm_reserve *reserve; /* NULL: none */
  atomic_uint refs;
  /* A spin lock: what it guards is a few loads, and holders never wait inside. */
  atomic_flag locked; /* for a few instructions at a time */
  bool closed;
  uint32_t n;
  uint64_t bytes;
  block v[POOL_BLOCKS]; /* the longest unused first */
};

static void lock(vm_pool *p) {
  while (atomic_flag_test_and_set_explicit(&p->locked, memory_order_acquire)) {
  }
}

static void unlock(vm_pool *p) { atomic_flag_clear_explicit(&p->locked, memory_order_release); }

vm_reserve *vm_reserve_new(uint64_t bytes) {
  const isa_alloc al = isa_alloc_default();
  enum { HUGE_PAGE = 2 << 20 };
  /* Whole huge pages, or the kernel gives none at the edges. */
  bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  /* Too little for huge pages to matter. */
  if (bytes < HUGE_FROM) return NULL;
  vm_reserve *r = isa_zalloc(&al, sizeof *r);
  if (!r) return NULL;
  atomic_init(&r->refs, 1);
  atomic_init(&r->used, 0);
  r->bytes = bytes;
  if ((r->data = vm_pages_new(&al, bytes))) {
#ifdef MADV_HUGEPAGE
    madvise(r->data, (size_t)bytes, MADV_HUGEPAGE);
#endif
    return r;
  }
  isa_free(&al, r, sizeof *r);
  return NULL;
}

void vm_reserve_drop(vm_reserve *r) {
  const isa_alloc al = isa_alloc_default();
  if (!r || atomic_fetch_sub(&r->refs, 1) > 1) return;
  vm_pages_free(&al, r->data, r->bytes);
  isa_free(&al, r, sizeof *r);
}

void vm_pool_lend(vm_pool *p, vm_reserve *r) {
  if (!p || !r || p->reserve) return;
  atomic_fetch_add(&r->refs, 1);
  p->reserve = r;
}

static void *take_reserve(vm_pool *p, uint64_t n) {
  /* A cache line for each: cores of different threads do not share one. */
  enum { LINE = 64 };
  vm_reserve *r = p ? p->reserve : NULL;
  n = (n + LINE - 1) / LINE * LINE;
  /* Another thread may take the rest in between: fetch_add decides, and what does not fit is lost
   * until the reserve ends. */
  if (!r || atomic_load(&r->used) + n > r->bytes) return NULL;
  uint64_t at = atomic_fetch_add(&r->used, n);
  return at + n <= r->bytes ? r->data + at : NULL;
}

/* What comes from a reserve stays there until all of it is freed. */
static void free_block(const vm_pool *p, block b) {
  const vm_reserve *r = p->reserve;
  uintptr_t at = (uintptr_t)b.data, from = r ? (uintptr_t)r->data : 0;
  if (!r || at < from || at >= from + r->bytes) vm_pages_free(&p->al, b.data, b.bytes);
}

vm_pool *vm_pool_new(const isa_alloc *al) {
  vm_pool *p = isa_zalloc(al, sizeof *p);
  if (!p) return NULL;
  p->al = *al;
  atomic_init(&p->refs, 1);
  atomic_flag_clear(&p->locked);
  return p;
}

void vm_pool_hold(vm_pool *p) {
  if (p) atomic_fetch_add(&p->refs, 1);
}

void vm_pool_drop(vm_pool *p) {
  /* The last holder frees the blocks, too. */
  if (!p || atomic_fetch_sub(&p->refs, 1) > 1) return;
  isa_alloc al = p->al;
  vm_pool_empty(p);
  vm_reserve_drop(p->reserve);
  isa_free(&al, p, sizeof *p);
}

/* Takes block i out. */
static block remove_block(vm_pool *p, uint32_t i) {
  block b = p->v[i];
  p->n--;
  p->bytes -= b.bytes;
  memmove(&p->v[i], &p->v[i + 1], (p->n - i) * sizeof *p->v);
  return b;
}

/* Gives the host the block that was unused for the longest time while there are more than these;
 * false if there are not. */
static bool evict(vm_pool *p, uint32_t blocks, uint64_t bytes) {
  /* Freed outside the lock: the host takes its time. */
  lock(p);
  bool any = p->n > blocks || p->bytes > bytes;
  block b = any ? remove_block(p, 0) : (block){0};
  unlock(p);
  free_block(p, b);
  return any;
}

void vm_pool_empty(vm_pool *p) {
  while (p && evict(p, 0, 0)) {
  }
}

void vm_pool_close(vm_pool *p) {
  if (!p) return;
  lock(p);
  p->closed = true;
  unlock(p);
  vm_pool_empty(p);
  vm_pool_drop(p);
}

/* A kept block of exactly n bytes, the most recently used one. */
static void *find(vm_pool *p, uint64_t n, bool zero) {
  void *data = NULL;
  if (!p) return NULL;
  lock(p);
  /* From the newest on: it is the most likely to be in the caches. */
  for (uint32_t i = p->n; i-- > 0 && !data;)
    if (p->v[i].bytes == n && (!zero || p->v[i].zero)) data = remove_block(p, i).data;
  unlock(p);
  return data;
}

void *vm_pool_find(vm_pool *p, uint64_t n) { return find(p, n, false); }

void *vm_pool_take_zeros(vm_pool *p, const isa_alloc *al, uint64_t n) {
  void *data = find(p, n, true);
  return data ? data : vm_pages_new(al, n);
}

void *vm_pool_take(vm_pool *p, const isa_alloc *al, uint64_t n, bool zeroed) {
  /* Old contents are cleared only for who asked for zeros. */
  void *data = vm_pool_find(p, n);
  if (data) return zeroed ? memset(data, 0, (size_t)n) : data;
  data = tensor_new(al, n);
  if (data || !p) return data;
  /* The host has no memory for more, but the pool may keep blocks of other sizes. */
  vm_pool_empty(p);
  return tensor_new(al, n);
}

void *vm_pool_take_state(vm_pool *p, const isa_alloc *al, uint64_t n, bool zeroed) {
  void *data = vm_pool_find(p, n);
  if (data) return zeroed ? memset(data, 0, (size_t)n) : data;
  if ((data = take_reserve(p, n))) return data; /* zeros, as it is new */
  return zeroed ? isa_zalloc(al, (size_t)n) : al->fn(al->ud, NULL, 0, (size_t)n);
}

static void give(vm_pool *p, const isa_alloc *al, void *data, uint64_t n, bool zero) {
  if (!data) return;
  /* Blocks that are too small or too large to be worth keeping, and all of a host's own allocator.
   */
  if (!p || n < POOL_FROM || n > POOL_BYTES || al->fn != isa_alloc_default().fn) {
    vm_pages_free(al, data, n);
    return;
  }
  /* Room for one more. */
  while (evict(p, POOL_BLOCKS - 1, POOL_BYTES - n)) {
  }
  lock(p);
  /* Another thread may have added one meanwhile. */
  bool kept = !p->closed && p->n < POOL_BLOCKS && p->bytes <= POOL_BYTES - n;
  if (kept) {
    p->v[p->n++] = (block){data, n, zero};
    p->bytes += n;
  }
  unlock(p);
  if (!kept) free_block(p, (block){data, n, zero});
}

void vm_pool_give(vm_pool *p, const isa_alloc *al, void *data, uint64_t n) {
  give(p, al, data, n, false);
}

void vm_pool_give_zeros(vm_pool *p, const isa_alloc *al, void *data, uint64_t n) {
  give(p, al, data, n, true);
}

/* Bytes of an array with room for n elements: few sizes, so that the pool's blocks fit again, and
 * huge pages as soon as there are many. */
static uint64_t array_bytes(uint64_t n, size_t size) {
  uint64_t bytes = ARRAY_FROM;
  while (bytes < n * size) bytes *= 2;
  /* Nothing between 512 KiB and 4 MiB: few sizes fit again, and huge pages begin there. */
  return bytes >= MAP_FROM && bytes < HUGE_FROM ? HUGE_FROM : bytes;
}

bool vm_pool_room(vm_pool *p, const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap,
                  size_t size) {
  /* n is the index of the element that is needed. */
  if (n < *cap) return true;
  uint64_t bytes = array_bytes(n + 1ull, size);
  /* Old elements are kept until the new array has them. */
  if (bytes / size > UINT32_MAX) return false;
  void *was, *now = vm_pool_take(p, al, bytes, false);
  if (!now) return false;
  memcpy(&was, array_ptr, sizeof was); /* array_ptr is the address of any type's pointer */
  if (was) memcpy(now, was, *cap * size);
  vm_pool_give_array(p, al, was, *cap, size);
  memcpy(array_ptr, &now, sizeof now);
  *cap = (uint32_t)(bytes / size);
  return true;
}

void vm_pool_give_array(vm_pool *p, const isa_alloc *al, void *data, uint32_t cap, size_t size) {
  vm_pool_give(p, al, data, array_bytes(cap, size));
}

/* ---- Stale bytes of tensors ---------------------------------------------------------------- */

/* Measured with a layernorm and a reader after it: from 8 MiB on it gains to write past the caches,
 * up to 4 MiB it costs. */
enum { LARGE = 8 << 20 };

bool vm_hbm_is_large(const vm_core *c, uint32_t tensor) {
  /* Only outputs: what a program reads again should be in the caches. */
  return c->prog->tensors[tensor].role == ISA_OUTPUT && c->run->blocks[tensor].bytes >= LARGE;
}

/* What comes before byte hi is set to zero; lo: from there to hi it is about to be overwritten.
 * Zeros in the caches would drive out what is about to be read. */
static void freshen(vm_core *c, uint32_t tensor, uint64_t lo, uint64_t hi) {
  vm_block *b = &c->run->blocks[tensor];
  uint64_t from = b->bytes - b->stale;
  /* All before `hi` is clean already. */
  if (hi <= from) return;
  if (lo > from && vm_hbm_is_large(c, tensor)) {
    vm_kern_stream_zeros(b->data + from, (size_t)(lo - from));
    vm_kern_streamed();
  } else if (lo > from) {
    memset(b->data + from, 0, (size_t)(lo - from));
  }
  /* Bytes are made clean from the front on; a piece further behind makes all before it clean. */
  b->stale = b->bytes - hi;
  if (b->stale == 0) c->run->stale--;
}

/* The tensor with stale bytes that holds the box; prog->ntensors: none does. */
static uint32_t stale_tensor(const vm_core *c, const vm_box *box) {
  uint32_t i = 0, n = c->prog->ntensors;
  /* Most runs have no stale tensors. */
  if (box->space != ISA_HBM || !c->run->stale) return n;
  for (; i < n; i++) {
    const vm_block *b = &c->run->blocks[i];
    uint64_t at = (uint64_t)(uintptr_t)b->data;
    if (b->stale && box->lo >= at && box->hi <= at + b->bytes) break;
  }
  return i;
}

bool vm_hbm_is_stale(const vm_core *c, const vm_box *box) {
  return stale_tensor(c, box) < c->prog->ntensors;
}

void vm_hbm_use(vm_core *c, const vm_box *box, bool overwrites) {
  uint32_t i = stale_tensor(c, box);
  if (i == c->prog->ntensors) return;
  uint64_t at = (uint64_t)(uintptr_t)c->run->blocks[i].data;
  /* What is overwritten needs no zeros; what is read does. */
  freshen(c, i, (overwrites ? box->lo : box->hi) - at, box->hi - at);
}

void vm_hbm_use_all(vm_core *c, uint32_t tensor) {
  vm_block *b = &c->run->blocks[tensor];
  if (b->stale) freshen(c, tensor, b->bytes, b->bytes);
}

/* ---- What has been written ----------------------------------------------------------------- */

bool vm_hbm_watch(vm_core *c, uint32_t tensor) {
  vm_block *b = &c->run->blocks[tensor];
  /* One more, so that a tensor of 0 bytes has an array as well. */
  if (!b->pieces) b->pieces = isa_zalloc(&c->al, (vm_pieces_of(b->bytes) + 1) * sizeof *b->pieces);
  if (b->pieces) c->run->watched = true;
  return b->pieces != NULL;
}

void vm_hbm_wrote(vm_core *c, const vm_box *box) {
  if (box->space != ISA_HBM || box->lo >= box->hi) return;
  for (uint32_t i = 0; i < c->prog->ntensors; i++) {
    vm_block *b = &c->run->blocks[i];
    uint64_t at = (uint64_t)(uintptr_t)b->data;
    if (!b->pieces || box->lo < at || box->lo >= at + b->bytes) continue;
    /* From the box only what lies in this tensor. */
    uint64_t last = (box->hi - 1 < at + b->bytes ? box->hi - 1 - at : b->bytes - 1) / VM_PIECE;
    for (uint64_t k = (box->lo - at) / VM_PIECE; k <= last; k++) b->pieces[k] = 0;
  }
}

void vm_memory_wrote(const vm_memory *m, const vm_box *box) {
  if (box->space != ISA_SBUF && box->space != ISA_PSUM) return;
  if (box->space == ISA_SBUF)
    /* Before the bytes change: the tensor engine copies what it still needs of them. */
    vm_pe_overwrite(&m->array->weights, m->sbuf, m->sbuf_pitch, box->lo, box->hi);
  uint64_t *reach = &m->reach[box->space == ISA_PSUM];
  if (box->hi > *reach) *reach = box->hi;
}

/* ---- Memories of a core ------------------------------------------------------------------- */

bool vm_memory_new(const isa_alloc *al, const isa_target *t, vm_memory *out) {
  memset(out, 0, sizeof *out);
  /* Partitions are not a multiple of 4 KiB apart (PITCH_PAD). */
  out->sbuf_pitch = t->sbuf_bytes + PITCH_PAD;
  out->psum_pitch = t->psum_bytes + PITCH_PAD;
  out->sbuf_size = ISA_PMAX * out->sbuf_pitch;
  out->psum_size = ISA_PMAX * out->psum_pitch;
  out->sbuf = vm_pages_new(al, out->sbuf_size);
  out->psum = vm_pages_new(al, out->psum_size);
  out->work = al->fn(al->ud, NULL, 0, sizeof *out->work);
  out->array = vm_pages_new(al, sizeof *out->array);
  out->reach = isa_zalloc(al, 2 * sizeof *out->reach);
  out->batch = vm_batch_new(al);
  /* All or none. */
  if (out->sbuf && out->psum && out->work && out->array && out->reach && out->batch) return true;
  vm_memory_free(al, out);
  return false;
}

void vm_memory_clear(vm_memory *m) {
  for (unsigned p = 0; p < ISA_PMAX; p++) {
    /* Only as far as something has been written. */
    memset(m->sbuf + p * m->sbuf_pitch, 0, (size_t)m->reach[0]);
    memset(m->psum + p * m->psum_pitch, 0, (size_t)m->reach[1]);
  }
  m->reach[0] = m->reach[1] = 0;
}

void vm_memory_free(const isa_alloc *al, vm_memory *m) {
  vm_pages_free(al, m->sbuf, m->sbuf_size);
  vm_pages_free(al, m->psum, m->psum_size);
  isa_free(al, m->work, sizeof *m->work);
  vm_pages_free(al, m->array, sizeof *m->array);
  isa_free(al, m->reach, 2 * sizeof *m->reach);
  vm_batch_free(al, m->batch);
  memset(m, 0, sizeof *m);
}
