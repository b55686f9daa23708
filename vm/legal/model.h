/* What the files of this room share: a run's steps with what they need of each other, and the state
 * of an execution of them. */
#ifndef VM_LEGAL_MODEL_H
#define VM_LEGAL_MODEL_H

#include "legal.h"

/* Something that is open from its start to its end: a flight, a share, a step that touches bytes,
 * or a trigger of a queue that several engines trigger. */
typedef struct vm_lg_item {
  uint32_t step;   /* of its engine, from 0 */
  uint32_t epoch;  /* within its line, from 1 on: flights, shares of the ring; for a step, step
                      + 1 */
  uint32_t hazard; /* flights of its own engine up to this one must have ended; 0: none */
  uint8_t engine, kind;
  int16_t ring;      /* among all rings, -1: none */
  uint32_t transfer; /* number of its trigger, from 1 on; 0: it has none */
} vm_lg_item;

/* An access ends when its component has reached its number. */
enum { LG_DONE, LG_READ, LG_WEIGHTS, LG_SEQ, LG_OF_ENGINE };
enum {
  LG_ENGINES = ISA_MAX_CORES * ISA_NSEQS,
  LG_SEMS = ISA_MAX_CORES * ISA_NSEMS,
  LG_QUEUES = ISA_MAX_CORES * ISA_MAX_QUEUES
};
enum { LG_FIRST_RING = LG_OF_ENGINE * LG_ENGINES };
/* Regions that are not memory: a queue that several engines trigger; a pipe of a core that several
 * engines use. */
enum {
  LG_PIPES = 256,
  LG_QUEUE_REGION = UINT16_MAX - LG_QUEUES,
  LG_PIPE_REGION = LG_QUEUE_REGION - ISA_MAX_CORES * LG_PIPES
};
typedef struct vm_lg_access {
  vm_legal_access a;
  uint32_t item, at; /* at: in the order of the run */
  uint32_t alike;    /* number in vm_legal.alike, from 1 on; 0: no other write is alike */
  uint16_t comp;
} vm_lg_access;

/* A write for which the other core has one with the same key. */
typedef struct vm_lg_alike {
  uint64_t key;
  uint32_t access;
} vm_lg_alike;

/* Accesses of one component to the same bytes, all reads or all writes, in order. */
typedef struct vm_lg_class {
  uint32_t first, n; /* in `sorted` */
} vm_lg_class;

typedef struct vm_lg_engine {
  vm_legal_step *steps;
  uint32_t nsteps, cap_steps;
  uint32_t *items; /* the first one of each step; UINT32_MAX: it has none */
  uint32_t cap_items;
  uint32_t *flights; /* items */
  uint32_t nflights, cap_flights;
  uint32_t *before; /* flights before each step; one more for the end */
  /* After each flight (0: before the first) the next that loads weights, the next that does not. */
  uint32_t *next_load, *next_main;
  uint32_t *open;     /* for each step, the item that is open while the engine is at it */
  uint32_t last_read; /* the last flight that updates when it has read, 0: none */
  bool touches;       /* has steps that are open by themselves */
} vm_lg_engine;

typedef struct vm_lg_queue {
  uint32_t *items; /* of each transfer, that of its first ring; the next rings' follow */
  uint32_t n, cap;
  uint8_t rings, engine; /* engine: that triggers it, LG_ENGINES: several do */
  uint16_t first;        /* number of its first ring */
} vm_lg_queue;

/* Updates of one component to one semaphore that does more than count. */
typedef struct vm_lg_update {
  uint32_t epoch, twin_epoch; /* twin: see vm_lg_flow */
  int64_t delta;
  bool writes;
  uint8_t engine;
  uint32_t step;
} vm_lg_update;
typedef struct vm_lg_flow {
  uint16_t comp, sem, twin; /* twin: the ring that must have reached its epoch too; 0: none */
  vm_lg_update *v;
  uint32_t n, cap;
} vm_lg_flow;

struct vm_legal {
  isa_alloc al;
  bool no_memory, ready;
  bool half; /* the last step is a sendrecv's, whose other one follows */
  uint8_t half_engine;
  const char *why;
  unsigned nengines;
  vm_lg_engine eng[LG_ENGINES];
  vm_lg_queue queues[LG_QUEUES];
  uint8_t ring_queue[LG_QUEUES * ISA_NDMA];
  uint32_t nrings;
  vm_lg_item *items;
  uint32_t nitems, cap_items;
  vm_lg_access *accesses;
  uint32_t naccesses, cap_accesses;
  uint32_t *sorted; /* accesses by class */
  vm_lg_class *classes;
  uint32_t nclasses, nsorted;
  vm_lg_flow *flows;
  uint32_t nflows, cap_flows;
  bool mixed[LG_SEMS], waited[LG_SEMS];      /* does more than count; someone waits for it */
  uint16_t sem_at[LG_SEMS], sem_of[LG_SEMS]; /* among the semaphores that are used */
  uint32_t nsems;
  uint32_t ntransfers;
  vm_legal_key *key;
  void *key_ud;
  vm_lg_alike *alike; /* by key, then in the order of the run */
  uint32_t nalike, cap_alike;
  void (*name)(void *ud, const vm_legal_step *s, isa_buf *out);
  void *name_ud;
};

/* model.c. Completes the model, once; false: out of memory. */
bool vm_lg_prepare(vm_legal *l);
/* Whether two accesses share bytes, in whatever direction. */
bool vm_lg_meet(const vm_legal_access *a, const vm_legal_access *b);
/* Calls fn for each two classes that share bytes, if at least one of them writes. */
void vm_lg_each_meeting(const vm_legal *l,
                        void (*fn)(void *ud, const vm_lg_class *a, const vm_lg_class *b), void *ud);
static inline const vm_lg_access *vm_lg_access_of(const vm_legal *l, const vm_lg_class *c,
                                                  uint32_t i) {
  return &l->accesses[l->sorted[c->first + i]];
}
static inline const vm_lg_item *vm_lg_item_of(const vm_legal *l, const vm_lg_access *a) {
  return &l->items[a->item];
}
/* Whether two components are one source: of the same engine, or one ring. */
static inline bool vm_lg_same_source(unsigned a, unsigned b) {
  return a == b || (a < LG_FIRST_RING && b < LG_FIRST_RING && a / LG_OF_ENGINE == b / LG_OF_ENGINE);
}
const vm_legal_step *vm_lg_step_of(const vm_legal *l, const vm_lg_item *it);

/* ---- alike.c ------------------------------------------------------------------------------- */

/* Finds the writes that are alike; false: out of memory. */
bool vm_lg_find_alike(vm_legal *l);
bool vm_lg_are_alike(const vm_legal *l, const vm_lg_access *a, const vm_lg_access *b);
/* How a judge knows that `mine`, which is alike with `write` and of the core of `read`, comes
 * before `read`, and neither write before the other. */
typedef struct vm_lg_excuse {
  bool (*saves)(void *ud, const vm_lg_access *mine, const vm_lg_access *write,
                const vm_lg_access *read);
  void *ud;
  uint32_t looks, last[ISA_MAX_CORES]; /* last: in `alike`, what saved a read of that core */
  bool any, tired; /* a pair was excused; there were too many to look at: nothing is decided */
} vm_lg_excuse;
/* Whether two accesses that can be open at once are no race. */
bool vm_lg_excused(const vm_legal *l, vm_lg_excuse *x, const vm_lg_access *a,
                   const vm_lg_access *b);
#define VM_LG_TIRED "the cores write the same bytes too often"

/* ---- machine.c: an execution --------------------------------------------------------------- */

/* A state is an array of vm_lg_words(l) numbers: for each engine how far its sequencer has come,
 * flights started, read, done, weights loaded; for each ring the shares done; for each flow the
 * updates that have arrived; the value of each semaphore. */
enum { LG_POS, LG_S, LG_R, LG_D, LG_W, LG_WORDS };
static inline uint32_t vm_lg_words(const vm_legal *l) {
  return LG_WORDS * l->nengines + l->nrings + l->nflows + l->nsems;
}
static inline uint32_t vm_lg_ring_at(const vm_legal *l, uint32_t r) {
  return LG_WORDS * l->nengines + r;
}
static inline uint32_t vm_lg_flow_at(const vm_legal *l, uint32_t f) {
  return LG_WORDS * l->nengines + l->nrings + f;
}
static inline uint32_t vm_lg_value_at(const vm_legal *l, unsigned sem) {
  return LG_WORDS * l->nengines + l->nrings + l->nflows + l->sem_at[sem];
}

/* What can happen next. `who` is an engine, a ring or a flow. */
typedef enum vm_lg_what { LG_STEP, LG_END, LG_READ_END, LG_LOADED, LG_SHARE, LG_ARRIVE } vm_lg_what;
typedef struct vm_lg_move {
  uint8_t what;
  uint16_t who;
  uint32_t number; /* of the step, flight, share or update */
} vm_lg_move;

/* The move that is made together with m, whose number is known: the other half of a sendrecv. */
bool vm_lg_twin(const vm_legal *l, const vm_lg_move *m, vm_lg_move *twin);
/* The other step of the sendrecv that s belongs to; and the ring of the share that ends together
 * with one of ring r of a trigger: it must have reached *epoch. */
const vm_legal_step *vm_lg_partner(const vm_legal *l, const vm_legal_step *s);
uint32_t vm_lg_twin_ring(const vm_legal *l, const vm_legal_step *s, uint32_t r, uint32_t *epoch);
/* Fills in the number; false: the move cannot happen. */
bool vm_lg_can(const vm_legal *l, const uint32_t *v, vm_lg_move *m);
/* False: the semaphore would be below zero. */
bool vm_lg_do(const vm_legal *l, uint32_t *v, const vm_lg_move *m);
/* Starts the next flight of engine e, if it can: its item; UINT32_MAX: none. */
uint32_t vm_lg_start(const vm_legal *l, uint32_t *v, unsigned e);
/* The item that ring r has open, the step that engine e has open; UINT32_MAX: none. */
uint32_t vm_lg_open_share(const vm_legal *l, const uint32_t *v, uint32_t r);
uint32_t vm_lg_open_touch(const vm_legal *l, const uint32_t *v, unsigned e);
/* Whether an access has ended; whether its item has started. */
bool vm_lg_ended(const vm_legal *l, const uint32_t *v, const vm_lg_access *a);
bool vm_lg_started(const vm_legal *l, const uint32_t *v, const vm_lg_item *it);
bool vm_lg_halted(const vm_legal *l, const uint32_t *v);
/* The component whose number a move changes. */
unsigned vm_lg_comp_of(const vm_lg_move *m);

/* ---- order.c ------------------------------------------------------------------------------- */

/* An empty result. */
void vm_lg_clear_result(const vm_legal *l, vm_legal_result *out);
/* Moves in a row. */
typedef struct vm_lg_path {
  vm_lg_move *v;
  uint32_t n, cap;
  bool failed; /* out of memory */
} vm_lg_path;
void vm_lg_path_add(vm_legal *l, vm_lg_path *p, const vm_lg_move *m);
void vm_lg_path_free(vm_legal *l, vm_lg_path *p);
/* The state at the beginning; NULL if out of memory. Free it with vm_lg_words(l) numbers. */
uint32_t *vm_lg_new_state(const vm_legal *l);
void vm_lg_free_state(const vm_legal *l, uint32_t *v);
/* Whether an item is open: started, and the access of it not ended. */
bool vm_lg_open(const vm_legal *l, const uint32_t *v, const vm_lg_access *a);
/* Reports a race of two accesses that are both open after p: fills in places and orders. */
void vm_lg_report_race(vm_legal *l, vm_lg_path *p, const vm_lg_access *a, const vm_lg_access *b,
                       vm_legal_result *out);
vm_legal_place vm_lg_place_of(const vm_legal *l, const vm_lg_access *a);
/* Appends moves to text; if there are many, only the last. */
void vm_lg_put_order(const vm_legal *l, const vm_lg_move *v, uint32_t n, isa_buf *out);

#endif
