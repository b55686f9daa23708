/* An engine or a CC sequencer: its sequencer, the instructions in its data path, and what they
 * take. */
#ifndef VM_SEQUENCER_H
#define VM_SEQUENCER_H

#include "op/walk.h"
#include "place.h"

typedef union vm_operands {
#define FORM(id) struct vm_##id id;
#include "../isa/forms.def"
} vm_operands;

/* Work of the tensor engine: 2 * M * N * K, and the same in the time of 16-bit elements. */
typedef struct vm_flops {
  uint64_t logical, adjusted;
} vm_flops;

typedef struct vm_cost_span { /* of an instruction: all in cycles of its engine */
  uint64_t stream, issue, latency;
} vm_cost_span;

/* The time that an instruction takes and the bytes that it moves. They depend only on its operands'
 * types and shapes, not on where they are. */
typedef struct vm_effort {
  vm_cost_span span;
  vm_time stream, issue, latency; /* the span by the engine's clock */
  vm_time overhead;               /* issue without stream */
  vm_time read;                   /* from the start until the sources have been read */
  uint64_t traffic[2][2];         /* bytes of SBUF, of PSUM: that it reads, and writes */
  uint64_t fast;                  /* elements that vector streams in fewer cycles; 0: it does not */
  vm_flops flops;
} vm_effort;

enum { VM_FLIGHTS = 32 };
/* Memory ports an instruction streams through: SBUF's, and one per PSUM bank. */
enum { VM_PORT_SBUF = 1, VM_PORT_PSUM = 0xff00 };
typedef struct vm_flight { /* an instruction between issue and execution */
  vm_item item;
  const isa_insn *in;
  uint32_t pc;
  uint32_t node;                   /* of the run's record, 0 if none exists */
  bool finished;                   /* its end has come; it executes when those before it have */
  uint16_t ports;                  /* VM_PORT_... */
  vm_time streamed;                /* the last element has gone in: the ports are free */
  vm_time table_from, table_until; /* the load of an activation table before it; 0, 0: none */
  vm_time read;                    /* the sources have been read: the time of an @read update */
  vm_where met;                    /* the sendrecv_gpsimd that a sendrecv_gpsimd has met */
  vm_effort effort;
  vm_operands a;
} vm_flight;

/* What the processing elements are doing. The array has 4 x 4 cells of 32 x 32 elements, cell 4 *
 * row + column; a matmul or ldweights takes the cells of its tile. On gen4 transposes run in
 * parallel with matmuls, so a cell has two lanes. */
enum { VM_CELLS = 16 };
typedef struct vm_pe_clock {
  vm_moment issue_free; /* the next matmul may issue */
  vm_moment started;    /* of the last instruction: instructions start in order */
  vm_time done;         /* of the last: matmuls finish in order, and after their weights */
  vm_moment load_free;  /* the weight loader */
  vm_moment free[2][VM_CELLS], loaded[VM_CELLS];
  vm_time pass; /* a float32 matmul with new weights, read far apart, may start: MIN_FP32 */
  /* The window of PE_WARMUP that the array is in: its start; twice the time that it has streamed
   * in it, as at the full rate, and 1 more if it does run at the full rate. */
  vm_time window, used;
} vm_pe_clock;

/* An instruction in the form that the sequencer uses. */
typedef struct vm_uop {
  uint8_t op; /* VM_U_OP for a register instruction, VM_U_STOP if it leaves the fast loop */
  uint8_t rd, ra;
  uint8_t reg_op; /* VM_U_OP also if a semaphore clause stops it */
  int32_t b;      /* immediate, or register number */
  uint32_t to;    /* branch target */
} vm_uop;
/* A register instruction, and whether its b is a register. */
#define VM_U_OP(op, in_register) (2 * (op) + (in_register))
enum { VM_U_STOP = 63 }; /* a semaphore, memory, data path, DMA */

/* What an instruction's operands were resolved with when it issued, in addition to its engine's
 * registers: a saved run supplies it instead of memory as it is now. */
enum { VM_RECALLS = 34 }; /* operands of an instruction, at most: two lists of 16 and others */
typedef struct vm_recall {
  uint32_t n;
  uint32_t ap[VM_RECALLS];            /* a pattern, 1-based */
  int64_t displaced[VM_RECALLS];      /* bytes that its dynamic offsets came to */
  const uint8_t *offsets[VM_RECALLS]; /* of an `.indirect` one: of its elements, 4 bytes each */
  uint32_t noffsets[VM_RECALLS];
  bool skipped;        /* a transfer that oob=skip left out */
  const uint8_t *rows; /* of an indexed transfer: its row offsets, 8 bytes each */
  uint64_t nrows;
} vm_recall;

typedef enum vm_state {
  VM_READY,    /* has an event pending, or is running */
  VM_WAITING,  /* on a semaphore */
  VM_RINGFULL, /* its DMA trigger waits for a place in a ring */
  VM_HALTED,
  VM_MEETING, /* at an instruction of both cores that the other one has not reached */
  VM_IDLE,    /* a CC sequencer: nothing triggers it */
  VM_LEAVING, /* at its `complete`, until what its transfers read has left */
  VM_CROWDED  /* at a collective, until an earlier one is complete */
} vm_state;

typedef struct vm_engine {
  uint32_t regs[ISA_NREGS];
  const vm_uop *uops;
  const isa_code *code;
  uint32_t pc, ring_queue; /* ring_queue: the queue that a VM_RINGFULL engine waits for */
  vm_state state;
  uint32_t *ran;      /* by pc: how often an instruction that leaves the fast loop has run */
  vm_time now;        /* the sequencer's own time */
  vm_time wait_since; /* of a waiting engine */
  bool wait_noted;    /* the wait's start has been noted for this instruction */
  bool waited;        /* its wait has held: after a stall it is not checked again */
  /* What the instruction at pc did before it stalled: the transfers that a dma_trigger has started;
   * 1 if a core_barrier has updated the other core's semaphore, or a sendrecv has met the other
   * core's. */
  uint32_t triggered;
  uint32_t moving; /* of a CC sequencer: transfers that it has triggered and that have not left */
  /* data path */
  vm_flight *flights; /* ring of VM_FLIGHTS */
  uint32_t first, nflights;
  struct vm_keep *keep;                      /* see keep.c; NULL: nothing is kept yet */
  vm_moment issue_free, last_done, dge_free; /* dge: the generator of descriptors */
  vm_pe_clock pe;                            /* tensor */
  int table;                                 /* scalar: function whose table is loaded, -1 none */
  uint64_t tables;                           /* scalar: how often one was loaded */
  vm_cause cause;                            /* what last let the sequencer continue, and when */
  vm_dp dp;
  const struct vm_recall *recall; /* while a saved run is loaded, else NULL */
  /* statistics */
  uint64_t instructions, data_instructions;
  uint64_t shared_at; /* instructions when it last touched shared state */
  vm_time busy, busy_until, waiting;
  uint64_t traffic[2][2]; /* bytes of SBUF, of PSUM: that instructions have read, and written */
  vm_time streaming;      /* taking in elements, times the share of the 128 partitions */
} vm_engine;

#endif
