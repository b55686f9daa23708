/* What the sequencers and data paths offer to other rooms: events, semaphores, issue, resolved
 * operands, faults. Each group names its file. */
#ifndef VM_ENGINE_H
#define VM_ENGINE_H

#include "../../isa/bounds.h"
#include "../../isa/operand.h"
#include "../watch.h"

/* event.c */
/* The next event of a core, NULL if none is to come. */
static inline const vm_event *vm_next_event(const vm_core *c) {
  return c->events.n ? &c->events.v[c->events.first] : NULL;
}
/* Adds an event of a run being loaded, which must come after all that are there; false: it does
 * not. Its class follows from its kind. */
bool vm_post_restored(vm_core *c, const vm_event *restored);
/* Posts an event; if that fails, the run faults. */
void vm_post(vm_core *c, vm_event_kind kind, unsigned who, vm_time at, uint32_t value);
/* Moves the end of engine e's flight in that slot to `to`. The second call delays, by `by`, the
 * update that its instruction at pc makes at `read`, when its sources have been read. */
void vm_event_delay_done(vm_core *c, unsigned e, uint32_t slot, vm_time to);
void vm_event_delay_read(vm_core *c, unsigned e, uint32_t pc, vm_time read, vm_time by);
/* Posts an update by the instruction at `by`, to be seen at `at`. The value of a completion is
 * queue * ISA_NDMA + ring. */
void vm_post_sem(vm_core *c, vm_time at, const isa_update *u, vm_where by);

struct vm_message;
/* Posts the arrival of a message, which is in that slot of c's inbox. */
void vm_post_put(vm_core *c, const struct vm_message *m, uint32_t slot);

/* send.c: see also message.h */
/* A ring's share of a transfer of c is done that goes to a peer or signals one. offset: of its
 * pattern, as in vm_message; data: its elements, which become the message's; NULL: none. */
void vm_send_share(vm_core *c, const vm_share *s, vm_where by, int64_t offset, uint8_t *data);
/* A packet of so many bytes of it has left, and others follow. */
void vm_send_packet(vm_core *c, const vm_share *s, vm_where by, int64_t offset, uint64_t bytes);
/* put.c */
/* The message in that slot of c's inbox arrives. */
void vm_arrive(vm_core *c, uint32_t slot);
/* A run leaves its world: what has not arrived never will. */
void vm_inbox_free(vm_core *c);

/* sem.c */
/* Applies an update to a semaphore now and wakes the engines that wait for it. by: an
 * instruction, VM_BY_HOST or VM_BY_PEER. */
void vm_sem_apply(vm_core *c, const isa_update *u, vm_where by);
/* Posts an instruction's update to arrive SEM_SEEN after t. */
void vm_sem_post(vm_core *c, const isa_update *u, vm_time t, vm_where by);
/* The core of the semaphore that an instruction of c updates. */
vm_core *vm_sem_owner(vm_core *c, const isa_update *u);
bool vm_wait_holds(const vm_core *c, const vm_engine *e, const isa_wait *w);
/* What a waiting engine waits for: for a core_barrier that has updated the other core's semaphore,
 * its own wait. */
isa_wait vm_wait_of(const vm_core *c, const vm_engine *e);
/* Posts every engine whose wait on the semaphore holds now. */
void vm_wake(vm_core *c, unsigned sem);

/* seq.c */
/* Runs engine e from the current event on; by single instructions when `single`. */
void vm_seq_run(vm_core *c, unsigned e, bool single);
/* Whether the limit of instructions is reached: then the run has ended, and engine e continues at
 * its pc if the run is resumed without the limit. */
bool vm_at_limit(vm_core *c, unsigned e);
/* Whether engine e has to wait for w: then it waits, and tries its instruction again when it is
 * woken. */
bool vm_blocked(vm_core *c, unsigned e, const isa_wait *w);
/* Tries engine e's instruction again at that time: why says what delays it. VM_STALL. */
vm_verdict vm_stall(vm_core *c, unsigned e, vm_moment until, vm_why why);
/* An instruction in the form that the sequencer uses. */
vm_uop vm_uop_of(const isa_insn *in);

/* print.c: device_print's text, through the hook: a prefix of n bytes and elements; or a line of
 * text, with a value if it is not NULL. */
void vm_print(vm_core *c, const char *prefix, size_t n, const vm_view *v, bool to_stderr);
void vm_print_line(vm_core *c, const char *text, size_t n, const int64_t *value, bool to_stderr);
/* The first element of a view that is 0, counted as device_assert_all does: element i of row p.
 * False if none exists. */
bool vm_first_zero(const vm_view *v, uint32_t *p, uint64_t *i);

/* memory.c */
/* Notes that bytes of a box of m's SBUF or PSUM are about to be written: a save looks at no byte of
 * a partition after the last one noted, and the tensor engine keeps what it reads later. */
void vm_memory_wrote(const vm_memory *m, const vm_box *box);
/* Whether the tensor of a box still has stale bytes: see vm_hbm_use. */
bool vm_hbm_is_stale(const vm_core *c, const vm_box *box);

/* batch.c: what has ended and is computed a little later */
/* NULL: out of memory. */
struct vm_batch *vm_batch_new(const isa_alloc *al);
void vm_batch_free(const isa_alloc *al, struct vm_batch *b);
/* Before events run, and after that. */
void vm_batch_begin(vm_run *r);
void vm_batch_end(vm_run *r);
/* The end of a flight of engine e has come: does what it does, now or later. If its handler fails,
 * the run faults. */
void vm_batch_flight(vm_core *c, unsigned e, const vm_flight *f);
/* The same for a share, whose memory in HBM is ready; true: its bytes move later, and then it is
 * released. */
bool vm_batch_share(vm_core *c, vm_share *s);
/* Does what waits, if `it` meets any of it, which is about to read and write; NULL: in any case.
 * Everything that sees memory calls it first. */
void vm_batch_settle(vm_core *c, const vm_item *it);

/* split.c: instructions by partitions */
typedef struct vm_lanes {
  uint32_t part, rows; /* partitions of its operands */
  uint32_t least;      /* a part has a multiple of that many */
  bool straight;       /* partition p of the results depends only on partition p of memory, and on
                          operands of one partition; and the handler cannot fail */
  bool rounds;         /* stochastically: it counts in rounding_count of its engine */
  uint64_t rounding_count; /* before it */
} vm_lanes;
typedef struct vm_lanes_row { /* see lanes.def; least 0: the instruction stays whole */
  uint8_t least;
  uint16_t ns;
} vm_lanes_row;
extern const vm_lanes_row vm_lanes_rows[ISA_NOPS]; /* by opcode */
/* For one of lanes.def: false if it cannot be cut. The caller fills in rounding_count. */
bool vm_lanes_of(const vm_core *c, const vm_flight *f, vm_lanes *l);
/* Runs the handler on n of its partitions, from its `first` on, in the workspace of the thread; the
 * engine lends its state. */
vm_verdict vm_run_lanes(vm_dp *d, const isa_insn *in, const vm_operands *a, const vm_lanes *l,
                        uint32_t first, uint32_t n, vm_workspace *w);

/* issue.c */
/* Runs the handler of a data-path instruction on resolved operands. */
vm_verdict vm_run_handler(vm_dp *d, unsigned op, const vm_operands *a);
/* Issues the data-path instruction at e's pc at time c->now. VM_STALL: the data path is too far
 * behind, or has yet to write an element that gives an offset; an event to try again is posted. */
vm_verdict vm_issue(vm_core *c, unsigned e, const isa_insn *in);
/* When the sequencer may run further ahead of its data path; time 0: now. */
vm_moment vm_too_far_ahead(const vm_core *c, const vm_engine *en);
/* Makes a flight of a run being loaded from its in and pc, its engine's registers and recall:
 * operands, boxes, the link. The caller fills in the times. On failure nothing is left. */
bool vm_issue_restored(vm_core *c, unsigned e, vm_flight *f, isa_error *err);
/* The end of a flight has come: executes what can be executed, in order. */
void vm_flight_done(vm_core *c, unsigned e, uint32_t slot);
/* Engine e's sequencer is about to read or write the elements of a view, now: what waits is done,
 * those who watch are told, and what has started and reads these bytes keeps them (vm_protect). And
 * before the host writes a box. All that is not the end of an item touches memory by these. */
void vm_touch(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_touch_by_host(vm_core *c, const vm_box *box);
/* Before bytes of dst are overwritten now: copies the sources of items that have started, and notes
 * what of the memories changes. */
void vm_protect(vm_core *c, const vm_box *dst, unsigned n, const vm_item *self);
void vm_item_link(vm_core *c, vm_item *it);
/* Counts an item's boxes among the bytes that the run has touched. */
void vm_item_touch(vm_core *c, const vm_item *it);
void vm_item_unlink(vm_core *c, vm_item *it);
/* Where a source was before vm_item_copy_view pointed its view at `copy`: its `at` and `place`. */
uint8_t *vm_item_copied_from(const uint8_t *copy, const int64_t **place);
/* n zeroed bytes that live until the item is unlinked; NULL after a fault. */
uint8_t *vm_item_block(vm_core *c, vm_item *it, size_t n);
/* Copies a view's elements to a dense block owned by the item and points the view there. */
bool vm_item_copy_view(vm_core *c, vm_item *it, vm_view *v);
/* When engine e's own data path no longer writes the boxes that are to be read, nor touches those
 * that are to be written; time 0: that is so by `after`. */
typedef struct vm_boxes {
  const vm_box *v;
  unsigned n;
} vm_boxes;
vm_moment vm_own_hazard(const vm_core *c, unsigned e, vm_boxes reads, vm_boxes writes,
                        vm_time after);
/* The same for the engine's next instruction in the data path, which vector gives its results
 * earlier than to others (OWN_VECTOR). */
vm_moment vm_chain_hazard(const vm_core *c, unsigned e, vm_boxes reads, vm_boxes writes,
                          vm_time after);

/* keep.c: what issuing an instruction finds out and the next iteration can reuse. */
typedef enum vm_known { VM_KNOWN_NOTHING, VM_KNOWN_EFFORT, VM_KNOWN_ALL } vm_known;
/* Fills in f what is kept for the instruction at f->pc: its effort, or also operands and boxes. */
vm_known vm_keep_find(const vm_engine *en, vm_flight *f);
/* The slot of f is about to get other operands. */
void vm_keep_forget(const vm_engine *en, const vm_flight *f);
/* Keeps what would stay the same, if its instruction runs again, of a flight of engine e that is
 * about to issue. If out of memory nothing is kept. */
void vm_keep_note(vm_core *c, unsigned e, const vm_flight *f);
void vm_keep_free(vm_core *c, unsigned e);

/* resolve.c */
/* Turns operands into memory. Inputs: the engine with the registers, and the owner of blocks;
 * outputs: what was found on the way. There is one for all operands of an instruction. */
typedef struct vm_resolver {
  vm_core *c;
  const vm_engine *e;
  vm_item *item;  /* owns the places that an index gives; NULL: no operand has an index */
  isa_error *err; /* of a failure; may be NULL */
  /* When the engine's own data path no longer writes the elements that were read as offsets. Until
   * then no result counts, not even a failure. */
  vm_moment ready;
  bool moved; /* some operand has a dynamic offset */
  bool later; /* for a transfer: operands in HBM are not used at this moment */
} vm_resolver;
/* A pattern with the registers of r->e, checked against its tile, tensor or memory. */
bool vm_resolve_ap(vm_resolver *r, uint32_t ap, vm_view *out);
/* The view of a pattern of any program whose first element is at `at`, in c's memory. */
void vm_view_at(const vm_core *c, const isa_ap *ap, uint8_t *at, vm_view *out);
/* The pattern with the values of the registers that gave v: it has no dynamic parts any more. */
isa_ap vm_resolved_pattern(const vm_core *c, const isa_ap *ap, const vm_view *v);
/* Whether the place of a pattern is decided at run time, by dynamic offsets or an index; which
 * entry of r is about pattern `ap`, -1 if none is; and the host address of byte 0 of its tensor or
 * of its first partition. */
bool vm_ap_is_dynamic(const isa_ap *ap);
int vm_recall_of(const vm_core *c, const vm_recall *r, uint32_t ap);
uint8_t *vm_ap_base(const vm_core *c, const isa_ap *ap);
/* All operands of an instruction into a (its form's struct). */
bool vm_resolve(vm_resolver *r, const isa_insn *in, vm_operands *a);
/* Bytes of the resolved operands of an instruction. */
size_t vm_operands_size(unsigned op);
/* The resolved operand of field i of in's form. */
void *vm_operand_at(const isa_insn *in, vm_operands *a, unsigned field);
/* isa_each_operand with each operand's view, for an instruction of c whose operands are resolved in
 * a. */
typedef void vm_view_fn(void *ud, const isa_operand *o, vm_view *v);
void vm_each_view(const vm_core *c, const isa_insn *in, const vm_operands *a, vm_view_fn *fn,
                  void *ud);
/* The bytes that a view may touch; space 0 if it has no element. */
void vm_view_box(const vm_core *c, const vm_view *v, vm_box *out);
/* Fills run and run_step of a view. (view.c) */
void vm_view_runs(vm_view *v);

/* meet.c */
/* A sendrecv or sendrecv_gpsimd of engine e. VM_STALL: it waits for the other core's, or both have
 * met and an event continues it; then VM_RETIRE. */
vm_verdict vm_meet(vm_core *c, unsigned e, const isa_insn *in);
/* The same for a collective of both cores, whose sequencers begin when both have come to it. */
vm_verdict vm_meet_collective(vm_core *c, unsigned e, const isa_insn *in);
/* What two cores that meet have in common: the pipe of a sendrecv, the stream of a collective,
 * which is above all pipes; -1: it is neither. */
int vm_meet_key(const isa_insn *in);
/* A core_barrier. */
vm_verdict vm_barrier(vm_core *c, unsigned e, const isa_insn *in);
/* The operands of a sendrecv_gpsimd: its destination, and the source of the sendrecv that it has
 * met. */
bool vm_meet_operands(vm_resolver *r, vm_flight *f);

/* cc.c */
enum { VM_COLLECTIVES = 64 }; /* of a core at work or waiting; a power of 2 */
/* The CC sequencers that have a block for engine e's instruction at pc, a bit for each; and whether
 * no collective of the core is at work. */
unsigned vm_cc_servers(const vm_core *c, unsigned e, uint32_t pc);
bool vm_cc_rests(const vm_core *c);

/* bounds.c */
/* Fills r->err: pattern `index` of the core, moved by these dynamic offsets (NULL: not known),
 * leaves its bounds. */
void vm_put_bounds(vm_resolver *r, uint32_t index, const int64_t *moved, const isa_bounds *b);
/* " (round 8 of the loop at add.s:9)" for the instruction that engine e is at; nothing if it is not
 * in a loop. */
void vm_put_round(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out);

/* indirect.c */
typedef struct vm_reach { /* where an operand starts, and its limits in bytes of a partition */
  int64_t offset, lo, hi;
  const char *name;     /* of the tile or memory within which it stays */
  const uint8_t *given; /* in a saved run: the offsets, 4 bytes each, instead of the index */
} vm_reach;
/* Reads the places of v's elements from the index; they live as long as r->item. A timing_only run
 * reads no index: all offsets are 0. */
bool vm_indirect(vm_resolver *r, const vm_reach *in, const vm_view *index, vm_view *v);
/* What the verifier cannot check if an index gives places: dst's elements are distinct, and
 * each of the n sources either has the same places or shares no byte with it. names[i] is
 * source i's name. */
bool vm_check_scatter(const vm_core *c, const vm_view *dst, const vm_view *const *src,
                      const char *const *names, unsigned n, isa_error *err);

/* fault.c: ends the run with the first fault; later calls change nothing. */
void vm_fault(vm_core *c, isa_status status, vm_where at, const char *fmt, ...) ISA_PRINTF(4, 5);

/* "file.s:12" or "vector pc 12" for an instruction; "$name" or "$S[12]" for a semaphore. */
void vm_put_place(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out);
/* The same without the macro calls that the line came from, if the text already has them. */
void vm_put_site(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out);
/* The same if the text already names the engine: "file.s:12" or "pc 12". */
void vm_put_pc(const vm_core *c, unsigned engine, uint32_t pc, isa_buf *out);
void vm_put_sem(const vm_core *c, unsigned sem, isa_buf *out);

/* deadlock.c: the run faults, since no engine can move: which waits for what, why, and what could
 * still have changed it. */
void vm_put_deadlock(vm_run *r);
/* Each engine that waits, as in that report; nothing if none waits. */
void vm_put_waits(const vm_run *r, isa_buf *out);
/* For a run that a limit ends: engines that run only register instructions, and then those that
 * wait. Adds nothing if none exist. */
void vm_put_stuck(const vm_run *r, isa_buf *out);

/* trace.c: one event to the hash and to those who watch. */
void vm_trace(vm_core *c, const vm_trace_event *ev);
/* Tells an event of VM_EV_TRIGGER or VM_EV_MEET, which goes only to the hook. */
void vm_trace_beside(vm_core *c, const vm_trace_event *ev);

#endif
