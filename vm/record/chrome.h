/* What the files of a Chrome trace share. */
#ifndef VM_RECORD_CHROME_H
#define VM_RECORD_CHROME_H

#include "record.h"

/* Processes; those of core 1, and of each rank, have numbers of their own. */
enum { PID_ENGINES = 1, PID_DMA, PID_DMA_ENGINES, PID_SEMS, PID_MEMORY };
typedef struct chrome {
  vm_rec_view t;
  vm_rec_sink out;
  uint32_t *order, *from;
  uint8_t *lanes;
  vm_rec_transfers transfers;
  vm_time seen[2]; /* from the 4 bytes that a ring writes to the semaphore's new value; on the other
                      core */
  uint32_t used[VM_REC_TRACKS];
  bool waits[VM_REC_UNITS];
  uint8_t *transfer_lanes; /* by transfer */
  uint32_t queue_lanes[ISA_MAX_CORES * ISA_MAX_QUEUES];
  uint64_t arrows;
  vm_rec_over over;     /* of a world: arrows from rank to rank */
  uint32_t *came;       /* by event: an update of another rank, its number + 1 */
  uint32_t rank, flows; /* flows: transfers of the ranks before */
  bool first, of_ranks; /* of_ranks: a trace of a world */
} chrome;

/* Begins an event: comma, newline, brace. */
static inline isa_buf *begin(chrome *c) {
  isa_buf_puts(&c->out.b, c->first ? "\n{" : ",\n{");
  c->first = false;
  return &c->out.b;
}

static inline unsigned pid_of(const chrome *c, unsigned core, unsigned pid) {
  return (c->rank * ISA_MAX_CORES + core) * PID_MEMORY + pid;
}
/* chrome_counts.c: the counters of a core: bytes in use, pending transfers, throughput. False: out
 * of memory. */
bool vm_rec_chrome_counts(chrome *c, unsigned core);

#endif
