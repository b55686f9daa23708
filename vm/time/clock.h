/* Costs in simulated time, and the record of what caused each moment. Each group names its file. */
#ifndef VM_CLOCK_H
#define VM_CLOCK_H

#include "../vm.h"

typedef enum vm_cost_id {
#define COST(name, g2, g3, g4, unit, t2, t3, t4, source) VM_##name,
#include "costs.def"
  VM_NCOSTS
} vm_cost_id;
typedef struct vm_cost_row {
  const char *name, *unit, *source;
  const char *tag[3]; /* of each generation's value: gen2, gen3, gen4 */
  uint32_t value[3];
} vm_cost_row;
extern const vm_cost_row vm_cost_rows[VM_NCOSTS];
/* The constants of each generation as a machine has them. */
typedef struct vm_costs {
  uint32_t v[3][VM_NCOSTS];
} vm_costs;
_Static_assert((int)VM_NCOSTS <= (int)VM_COST_ROOM, "a core has room for every constant");

/* clock.c: the times of a flight whose operands and boxes are known: start, done, streamed, read,
 * and what its engine can do next. Leaves its node in the record. */
void vm_clock(vm_core *c, unsigned e, vm_flight *f);

/* critical.c: the record of causes. */
typedef enum vm_node_kind { VM_N_INSN = 1, VM_N_SEQ, VM_N_SHARE, VM_N_TABLE } vm_node_kind;
typedef struct vm_node {
  vm_time start, end, bound; /* bound: when the cause took effect; after that the time is the
                                sequencer's */
  uint32_t cause, pc;
  uint8_t kind, who, by, why; /* who: engine or DMA engine; by: engine whose instruction it is */
  uint8_t sem, core;          /* sem: of VM_WHY_SEM */
  uint32_t peer; /* 1-based: the cause is a node of that rank's record; 0: of its own */
} vm_node;
typedef struct vm_path {
  vm_node *v;
  uint32_t n, cap, last; /* last: the node that ends last */
} vm_path;
/* Adds a node and returns its number, 0 if no record is kept. */
uint32_t vm_path_append(vm_core *c, vm_node_kind kind, vm_where by, vm_time start, vm_time end,
                        vm_cause cause);
static inline uint32_t vm_path_add(vm_core *c, vm_node_kind kind, vm_where by, vm_time start,
                                   vm_time end, vm_cause cause) {
  return c->path ? vm_path_append(c, kind, by, start, end, cause) : 0;
}
/* Now a message arrives that the instruction at `by` of rank `from` has sent, its node `cause`; 0
 * if no record is kept. */
uint32_t vm_path_peer(vm_core *c, uint32_t from, vm_where by, uint32_t cause);
/* Notes what let an engine's sequencer continue at that moment. */
static inline void vm_path_set_cause(vm_engine *en, vm_moment m, vm_why why) {
  en->cause = (vm_cause){.node = m.node, .why = (uint8_t)why, .time = m.time};
}
/* The event of node n now begins and ends later than when it was added. */
void vm_path_delay(vm_core *c, uint32_t n, vm_time start, vm_time end);
/* The path from the last node of c's run back to the run's start, as nodes cut at `until`; calls fn
 * for each segment, latest first. of: the run's core 0, or that of another rank of its world, from
 * which a message has come. gap: the time between the cause of n and its effect, so why n began
 * late. */
typedef void vm_path_fn(void *ud, const vm_core *of, const vm_node *n, vm_time from, vm_time until,
                        bool gap);
void vm_path_walk(const vm_core *c, vm_path_fn *fn, void *ud);
/* Begins the record of a run; false: out of memory. */
bool vm_path_start(vm_run *r);
void vm_path_free(vm_core *c);

/* jitter.c: another legal schedule. The factor for a span of time under the run's seed, in parts of
 * VM_PACE: 1 without a seed, else a quarter to four, by a hash of the seed and of how many spans
 * came before. */
enum { VM_PACE = 1024 };
uint32_t vm_jitter_pace(vm_core *c);
static inline vm_time vm_paced(vm_time span, uint32_t pace) {
  return pace == VM_PACE ? span : span / VM_PACE * pace + span % VM_PACE * pace / VM_PACE;
}
static inline vm_time vm_jitter(vm_core *c, vm_time span) {
  return c->run->jitter ? vm_paced(span, vm_jitter_pace(c)) : span;
}

/* costs.c */
void vm_costs_default(vm_costs *out);
/* Changes constants by lines `NAME value` or `NAME gen value`, where gen is gen2 to gen4 or a
 * target; without it for all generations. `;` and `#` begin a comment. On an error *out does not
 * change. */
bool vm_costs_read(vm_costs *out, const char *text, size_t n, isa_error *e);
/* Sets the constants in the name of a hypothetical machine. */
bool vm_costs_of_target(vm_costs *out, const isa_target *t, isa_error *e);
/* The table of generation gen (0 to 2) in the form that vm_costs_read takes. */
void vm_costs_print(const vm_costs *costs, unsigned gen, isa_buf *out);

/* Whether a constant may have that value. */
bool vm_cost_allows(vm_cost_id id, uint32_t value);

/* cost.c */
/* Whether an operand's inner step is so wide that its elements come at half the rate. */
bool vm_cost_far(const vm_view *v);
/* What an instruction with these operands takes on that engine, in its cycles; and cycles of an
 * engine in femtoseconds, rounded down. */
vm_cost_span vm_cost(const vm_core *c, unsigned engine, const isa_insn *in, const vm_operands *a);
vm_time vm_cost_time(const vm_core *c, unsigned engine, uint64_t cycles);
/* static.c: the same without a run. A model of a target with its constants, freed by its owner;
 * NULL if out of memory. */
typedef struct vm_cost_model vm_cost_model;
vm_cost_model *vm_cost_model_new(const isa_alloc *al, const isa_target *t, const vm_costs *costs);
void vm_cost_model_free(vm_cost_model *m);
/* The time from the start of an instruction of core 0 of p to that of the next one on that engine,
 * if nothing delays either of them; 0 if it does not run in a data path. Custom operators cost
 * nothing here. */
vm_time vm_cost_static(vm_cost_model *m, unsigned engine, const isa_program *p, const isa_insn *in);
/* vm_cost as times, with the bytes that the instruction moves and its flops. */
vm_effort vm_cost_effort(const vm_core *c, unsigned engine, const isa_insn *in,
                         const vm_operands *a);
/* What the array can do with 16-bit elements in a second: 2 * 128 * 128 * its clock. */
uint64_t vm_cost_peak_flops(const isa_target *t);

#endif
