/* When instructions would run, estimated: each engine takes its instructions and the transfers that
 * it triggers one after another, and one waits for what it reads and overwrites. */
#ifndef ASM_KERNEL_PACE_H
#define ASM_KERNEL_PACE_H

#include "simplify.h"

/* When a part of a buffer was last written and read, and by which engine; ISA_NENGINES: DMA. */
typedef struct as_k_touch {
  uint64_t written, read;
  uint8_t writer, reader;
} as_k_touch;

typedef struct as_k_pace {
  as_kernel *k;
  uint64_t busy[ISA_NENGINES]; /* so far */
  uint64_t free[ISA_NENGINES]; /* when each is free: later than that where ways made it wait */
  uint64_t way_free[ISA_NWAYS];
  uint8_t way_user[ISA_NWAYS];
  uint32_t *parts;               /* by buffer: its first of `touched`; one more ends the last */
  as_k_touch *touched;           /* by part */
  unsigned depth;                /* of loops at run time */
  uint64_t end;                  /* when all so far has run, and each transfer has begun */
  unsigned table;                /* that scalar has loaded, as in as_k_verdict */
  uint64_t dma;                  /* when all transfers so far are through the DMA engines */
  unsigned turn;                 /* of AS_KERNEL_ROUND_ROBIN */
  uint8_t barriers, collectives; /* 1 + the engine that all are on, 0: there was none yet */
} as_k_pace;

bool as_k_pace_open(as_k_pace *c, as_kernel *k);
/* Keeps the loads of the engines as figures. */
void as_k_pace_close(as_k_pace *c);
void as_k_pace_free(as_k_pace *c); /* without that */
/* From the beginning of the same list. */
void as_k_pace_restart(as_k_pace *c);
/* When what an item on e uses is there: what it reads is written, what it writes is read. e:
 * ISA_NENGINES for a transfer. */
uint64_t as_k_ready_at(const as_k_pace *c, unsigned e, const as_k_item *it);
/* When engine e would begin with an instruction that is ready then. */
uint64_t as_k_begin_at(const as_k_pace *c, unsigned e, const as_k_verdict *r, uint64_t ready);
/* When it could begin wherever it may run. ready[e]: of as_k_ready_at. */
uint64_t as_k_soonest(const as_k_pace *c, const as_k_item *it, const uint64_t *ready);
/* An item comes next: chooses its engine if that is open, and notes what it takes. */
void as_k_pace_take(as_k_pace *c, as_k_item *it);
bool as_k_goes_to_hbm(const as_kernel *k, const as_k_item *it);

/* ---- queue.c ---- */

/* The engine that triggers a transfer, and its kind of descriptors. */
unsigned as_k_trigger_engine(as_kernel *k, const as_k_item *it, bool in_loop, unsigned *dge);

/* ---- stores.c ---- */

/* The engine that begins collectives, ISA_NENGINES if there are none. */
unsigned as_k_collectives_engine(const as_kernel *k);
/* Chooses the engine that triggers the stores which leave it open. */
bool as_k_choose_store_engine(as_kernel *k);

/* ---- order.c ---- */

/* The engines, and another order of the list where the kernel's options ask for one. *order: the
 * old number of each item, of the old `n`; NULL: the list is as it was. */
bool as_k_schedule(as_kernel *k, uint32_t **order);
/* The same for a list that has its engines, where the tiles of the other did not fit: less runs
 * ahead. */
bool as_k_schedule_near(as_kernel *k, uint32_t **order);
/* The same once tiles have their places, which they keep, with the transfers that spill them. */
bool as_k_schedule_placed(as_kernel *k);

#endif
