/* How state is written to bytes and read back. One walk over it does both, so that the two cannot
 * disagree: a field is named once, and vm_saver says whether it is written or read. Whoever owns a
 * state has its walk: vm/save those of runs, vm/check that of checks, vm/world that of links.
 * Numbers are little endian and of fixed size; addresses are (tensor or memory, offset). What
 * follows from other fields (boxes, lists, masks of waiters) is computed again. What is read is not
 * trusted: see vm_saver_fail. (engine/saver.c) */
#ifndef VM_SAVER_H
#define VM_SAVER_H

#include "vm.h"
#include "../isa/bytes.h"

typedef struct vm_saver {
  isa_buf *out;            /* when it writes */
  const uint8_t *at, *end; /* when it reads: what is left */
  bool reads, failed;
  isa_error *err; /* the first failure */
  /* What takes or fills in memories in place of out and at, as vm_saver_pages does; NULL: they are
   * among the other bytes. */
  void (*pages)(void *ud, uint8_t *p, uint64_t n, uint64_t *reach);
  void *pages_ud;
} vm_saver;
/* A reader of n bytes. */
static inline vm_saver vm_saver_of(const void *p, size_t n, isa_error *err) {
  return (vm_saver){.at = p, .end = (const uint8_t *)p + n, .reads = true, .err = err};
}

/* Notes that what is read is not a state of a run; the first note counts. From then on every read
 * gives zeros, so that a walk needs no check until it uses what it has read. Returns false. */
bool vm_saver_fail(vm_saver *s, const char *fmt, ...) ISA_PRINTF(2, 3);
/* The same if ok is false and s reads: what a file says must be true. Returns ok. */
bool vm_saver_need(vm_saver *s, bool ok, const char *rule);
/* There is no memory for what is read or written. Returns false. */
bool vm_saver_no_memory(vm_saver *s);
/* n bytes out of or into p. */
void vm_saver_bytes(vm_saver *s, void *p, size_t n);
/* n words of 4 bytes (integers or floats); zeros in bulk take little room. */
void vm_saver_words(vm_saver *s, void *p, size_t n);
/* n bytes in pages, without those of only zeros: the reader's memory is zero already. All bytes
 * from *reach on are zeros; when it reads, *reach becomes large enough for that. NULL: not known.
 */
void vm_saver_pages(vm_saver *s, uint8_t *p, uint64_t n, uint64_t *reach);
/* A count of things in the file of at least `bytes` bytes each; it is at most `most`. */
void vm_saver_count(vm_saver *s, uint32_t *n, uint32_t most, size_t bytes, const char *what);
/* Room for element n of an array whose elements are read one by one; it is zero. False, and noted,
 * if there is no memory. */
bool vm_saver_room(vm_saver *s, const isa_alloc *al, void *array_ptr, uint32_t n, uint32_t *cap,
                   size_t size);
static inline size_t vm_saver_left(const vm_saver *s) { return (size_t)(s->end - s->at); }

static inline void vm_save_u8(vm_saver *s, uint8_t *v) { vm_saver_bytes(s, v, 1); }
static inline void vm_save_u16(vm_saver *s, uint16_t *v) {
  uint8_t b[2];
  isa_put16(b, *v);
  vm_saver_bytes(s, b, sizeof b);
  *v = isa_get16(b);
}
static inline void vm_save_u32(vm_saver *s, uint32_t *v) {
  uint8_t b[4];
  isa_put32(b, *v);
  vm_saver_bytes(s, b, sizeof b);
  *v = isa_get32(b);
}
static inline void vm_save_u64(vm_saver *s, uint64_t *v) {
  uint8_t b[8];
  isa_put64(b, *v);
  vm_saver_bytes(s, b, sizeof b);
  *v = isa_get64(b);
}
static inline void vm_save_i64(vm_saver *s, int64_t *v) {
  uint64_t bits = (uint64_t)*v;
  vm_save_u64(s, &bits);
  *v = (int64_t)bits;
}
/* A flag; a number below `limit`; and a time, which must be early enough that sums do not
 * overflow. */
void vm_save_bool(vm_saver *s, bool *v);
void vm_save_below(vm_saver *s, uint32_t *v, uint32_t limit, const char *what);
void vm_save_time(vm_saver *s, vm_time *t);
/* The number of a core of c's run. */
void vm_save_core(vm_saver *s, const vm_core *c, uint8_t *core);
/* An instruction of c's run: neither engine nor pc are checked. */
void vm_save_where(vm_saver *s, const vm_core *c, vm_where *at);
/* A node of the record of causes: the record has been loaded. */
void vm_save_node(vm_saver *s, const vm_core *c, uint32_t *node);
void vm_save_cause(vm_saver *s, const vm_core *c, vm_cause *v);

#endif
