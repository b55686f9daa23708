/* A run in a file: what the files of this folder and api/save.c share. One walk over the state both
 * writes and reads it, so that the two cannot disagree: a field is named once, and vm_saver says
 * whether it is written or read. Numbers are little endian and of fixed size; addresses are (tensor
 * or memory, offset). What follows from other fields (boxes, lists, masks of waiters) is computed
 * again. A file is not trusted: see vm_saver_fail. */
#ifndef VM_SAVE_H
#define VM_SAVE_H

#include "../time/clock.h"
#include "../../isa/bytes.h"
#include "../dma/dma.h"

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

/* The options that a run was started with and continues with. */
typedef struct vm_save_options {
  uint32_t cvt; /* isa_cvt flags */
  bool timing_only, causes;
  uint64_t rounding_seed;
  uint32_t cost[VM_NCOSTS];
} vm_save_options;

/* io.c */

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

/* save.c */

/* The options of a run c; when it reads, before the run is started. */
void vm_save_options_walk(vm_saver *s, vm_save_options *o);
/* The state of a run. To read, vm_run_start must just have made it for the same program, with SBUF
 * and PSUM zero and the options and the record of causes in place. After a failure to load, the run
 * can only be given to vm_run_end. */
void vm_save_walk(vm_saver *s, vm_run *r);
/* SBUF and PSUM of a core, as vm_saver_pages. */
void vm_save_memories(vm_saver *s, vm_core *c);

/* check.c: the checks of a run and what they have seen; turns them on when it reads. */
void vm_save_check(vm_saver *s, vm_core *c);
/* check_log.c: the log of the race check; check.c: an access of it, or of the buckets. */
void vm_save_check_log(vm_saver *s, vm_core *c);
void vm_save_check_twins(vm_saver *s, vm_core *c);
void vm_save_check_weights(vm_saver *s, vm_core *c);
/* check_legal.c: what the judges of all schedules are told; check.c: a set of bytes of a region,
 * which is counted from the region's first byte. */
void vm_save_check_legal(vm_saver *s, vm_core *c);
void vm_save_check_set(vm_saver *s, const vm_core *c, uint16_t *region, isa_byteset *b);
struct vm_ck_access;
void vm_save_check_access(vm_saver *s, const vm_core *c, struct vm_ck_access *a);

/* cc.c: CC sequencers; whether a trigger may be on its way to sequencer e; whether each collective
 * is left to as many sequencers as have triggers, coming[e]: on their way; a message of that event,
 * which it adds when it reads; one to c, whose bytes are then the caller's. */
void vm_save_ccs(vm_saver *s, vm_core *c);
bool vm_save_trigger_fits(const vm_core *c, unsigned e, uint32_t slot);
void vm_save_check_ccs(vm_saver *s, const vm_core *c, const uint64_t *coming);
void vm_save_message(vm_saver *s, vm_core *c, const vm_event *v);
struct vm_parcel;
void vm_save_parcel(vm_saver *s, vm_core *c, struct vm_parcel *p);

/* flight.c: instructions that have issued. transfer.c: transfers that have started. */
void vm_save_flights(vm_saver *s, vm_core *c, unsigned e);
void vm_save_transfers(vm_saver *s, vm_core *c);
/* For a pair, after both cores' transfers: which of them belong to one sendrecv. */
void vm_save_swaps(vm_saver *s, vm_run *r);

#endif
