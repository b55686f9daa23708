/* The DMA: queues, rings, shares, and the elements they move. What other rooms call comes first,
 * then what the files of this room share. */
#ifndef VM_DMA_H
#define VM_DMA_H

#include "../engine/engine.h"
#include "../op/walk.h"

/* ---- What the rooms beside call (trigger.c, queue.c, copy.c) ------------------------------ */

vm_verdict vm_dma_trigger(vm_core *c, unsigned e, const isa_insn *in);
/* Starts the transfers of two sendrecvs that have met, at from[0] and from[1]. Sets from[] to when
 * each sequencer continues. False after a fault. */
bool vm_dma_swap(vm_run *r, const vm_where at[2], vm_time from[2]);
void vm_dma_event(vm_core *c, unsigned dma);
/* What a share that is done does with its elements e0 .. e1 - 1; then with those of the partitions
 * first .. end - 1 of SBUF, if it has lanes: elements follow one another from partition to
 * partition of SBUF on one side, and are in HBM on the other. (copy.c) */
void vm_dma_move_elements(const vm_core *c, const vm_share *s, uint64_t e0, uint64_t e1);
void vm_dma_move_lanes(const vm_core *c, const vm_share *s, uint32_t first, uint32_t end);
bool vm_dma_has_lanes(const vm_core *c, const vm_share *s);
/* Whether some row of an index is out of bounds. */
bool vm_dma_skips_rows(const vm_transfer *t);
/* Whether the elements of a share may move in any order. */
bool vm_dma_in_any_order(const vm_share *s);
/* Releases a share that vm_batch_share has kept. (queue.c) */
void vm_dma_release_late(vm_core *c, vm_share *s);
void vm_dma_free(vm_core *c); /* shares and transfers of a core that ends */
/* A zeroed transfer. NULL: out of memory. (queue.c) */
vm_transfer *vm_dma_new_transfer(vm_core *c);
/* For a run being loaded: adds a share of t's elements after the others of ring r of its queue,
 * without posting an event. NULL: out of memory. */
vm_share *vm_dma_restore_share(vm_core *c, vm_transfer *t, unsigned r);
/* Copies the sources of a share that has started, before someone overwrites them. (copy.c) */
void vm_dma_stage(vm_core *c, vm_share *s);
/* The elements of a share, whose bytes go to a peer, one after another; and n dense ones into those
 * of a view from `first` on. (copy.c) */
void vm_dma_pack(vm_core *c, vm_share *s, uint8_t *to);
void vm_dma_unpack(const vm_core *c, const vm_view *v, uint64_t first, uint64_t n, uint8_t *from);
/* The box of elements e0 .. e1 - 1 of a view. (make.c) */
void vm_dma_box_of(const vm_core *c, const vm_view *v, uint64_t e0, uint64_t e1, vm_box *out);
/* Takes addresses in HBM for the static descriptors of each queue. (static.c) */
isa_status vm_dma_place_rings(vm_core *c, isa_error *e);

/* ---- queue.c ------------------------------------------------------------------------------ */

/* Which DMA engine serves each ring: when a core's program is loaded. */
void vm_dma_assign_rings(vm_core *c);
/* The shares of a transfer, one for each ring of its queue, chained by `next`. NULL: out of memory.
 */
vm_share *vm_dma_new_shares(vm_core *c, vm_transfer *t, unsigned rings);
/* Puts a share that knows when it may begin into ring r of its queue; the ring's DMA engine will
 * process it. */
void vm_dma_enqueue(vm_core *c, vm_share *s, unsigned r);
/* Ends a transfer without shares in a ring. */
void vm_dma_release_transfer(vm_core *c, vm_transfer *t);
void vm_dma_release_share(vm_core *c, vm_share *s);

/* ---- copy.c ------------------------------------------------------------------------------- */

/* Opens the walks of a transfer whose views are known. */
void vm_dma_open_walks(vm_transfer *t);
/* Walks over the destination and over source k of a transfer. */
void vm_dma_walk_dst(const vm_transfer *t, vm_walk *w);
void vm_dma_walk_src(const vm_transfer *t, unsigned k, vm_walk *w);
/* Before the bytes of a share move: its memory in HBM. */
void vm_dma_use(vm_core *c, const vm_share *s);

/* ---- index.c ------------------------------------------------------------------------------ */

/* Indices of a `.gather` pattern whose view is v: as many as its indexed dimension has. */
uint64_t vm_dma_nrows(const isa_ap *ap, const vm_view *v);
/* Reads the index vector as it is now: rows[k] becomes the byte offset of index k, which lies in
 * partition k % P, column k / P of the vector. An index out of bounds is VM_NO_ROW with `skip`,
 * else an error with its place, value and limit; with `unique` a repeated index is an error too. */
bool vm_dma_read_rows(vm_resolver *r, const isa_ap *ap, bool skip, bool unique, int64_t *rows,
                      uint64_t n);
/* When engine e's own data path no longer writes what the trigger of a transfer reads: index
 * vectors and elements that give offsets. Time 0: now. */
vm_moment vm_dma_operand_hazard(vm_core *c, unsigned e, const isa_insn *in);

/* ---- make.c ------------------------------------------------------------------------------- */

/* The most transfers of one instruction: cut at fifteen places of one list and of the other. */
enum { VM_DMA_PIECES = 31 };

/* The operands of a DMA instruction, whatever its form. Patterns are 1-based indices. */
typedef struct vm_dma_ops {
  uint32_t dst, nsrc, src[16];
  uint8_t queue, oob, prio, op;
  bool accumulates;
  uint8_t pieces;          /* transfers that it makes: 1, of lists of buffers more */
  uint64_t elems, from[2]; /* of a piece of lists: as in vm_transfer; elems 0: all */
} vm_dma_ops;
/* Those of one transfer of the instruction; piece: its number, from 0. */
vm_dma_ops vm_dma_ops_of(const vm_core *c, const isa_insn *in, unsigned piece);

/* Fills in what a transfer moves (views, rows, rate, class) from engine e's registers and memory as
 * they are now; t is zero except for its piece. On failure frees what it took; err->field names the
 * operand. */
bool vm_dma_make(vm_core *c, const vm_engine *e, const isa_insn *in, vm_transfer *t,
                 isa_error *err);
/* Elements in dimension d of operand 0 (dst), 1 (src) ..., before a transpose exchanged them. */
uint32_t vm_dma_num(const vm_transfer *t, unsigned operand, unsigned d);
/* Frees the block of a transfer, but not the transfer. */
void vm_dma_unmake(vm_core *c, vm_transfer *t);
/* ---- lists.c ------------------------------------------------------------------------------ */

vm_dma_ops vm_dma_ops_of_piece(const vm_core *c, const isa_insn *in, unsigned piece);
/* Whether the destinations of a dma_copy_lists do not overlap after registers have moved them. */
bool vm_dma_lists_apart(vm_core *c, const vm_engine *e, const isa_insn *in, isa_error *err);

/* Finds which rings have elements in each of the n pieces: where the first elements of a ring are,
 * and how many rings have any. */
void vm_dma_open_rings(const vm_core *c, vm_transfer *const *t, unsigned n);

/* ---- make.c, shares ----------------------------------------------------------------------- */

/* Fills the item's boxes: what elements e0 .. e1 - 1 of the share may read and write. */
void vm_dma_boxes(const vm_core *c, vm_share *s);
/* Whether it reads bytes of one of n boxes, source by source. */
bool vm_dma_reads(const vm_core *c, const vm_share *s, const vm_box *v, unsigned n);

#endif
