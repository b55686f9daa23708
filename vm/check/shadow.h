/* The checks of the contents of bytes: whether something has written them, accumulation groups,
 * values, tiles that share bytes. */
#ifndef VM_CHECK_SHADOW_H
#define VM_CHECK_SHADOW_H

#include "impl.h"
#include "../op/walk.h"

/* shadow.c */
/* A shadow of so many bytes, that nothing has written; false: out of memory. */
bool vm_ck_shadow_open(vm_core *c, vm_ck_shadow *s, uint64_t bytes);
/* The shadow of the tensor that a view of HBM is of, and how far into it the view begins; NULL:
 * none exists. */
vm_ck_shadow *vm_ck_shadow_tensor(const vm_core *c, const vm_view *v, uint64_t *off);
/* Bytes of a shadow in a saved run. *reach: as vm_saver_pages has it. */
void vm_ck_shadow_walk(vm_saver *s, uint8_t *at, uint64_t bytes, uint64_t *reach);

/* uninit.c, psum.c, value.c, tile.c */
void vm_ck_uninit_execute(vm_core *c, unsigned e, const vm_flight *f);
/* Before a flight executes, or its sources are copied; and only before it executes. */
void vm_ck_uninit_reads(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_uninit_executed(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_uninit_access(vm_core *c, unsigned e, const vm_view *v, bool writes);
void vm_ck_uninit_host(vm_core *c, const vm_box *b);
void vm_ck_uninit_move(vm_core *c, const vm_share *s);
/* Elements first .. first + n - 1 of a view that a message has written. */
void vm_ck_uninit_pushed(vm_core *c, const vm_view *v, uint64_t first, uint64_t n);
void vm_ck_uninit_moved(vm_core *c, const vm_share *s);
/* The same view of the shadow, whose bytes are as they should be there; its `at` is NULL if the
 * memory has no shadow. */
vm_view vm_ck_shadow_of(const vm_core *c, const vm_view *v);
/* Bytes lo .. hi - 1 of partitions of SBUF's or PSUM's may be marked from here on. */
void vm_ck_shadow_touch(vm_ck_shadow *s, uint64_t lo, uint64_t hi);
/* Before bytes of a box are marked (NULL: none), some of which may be in no view: the bytes of all
 * shadows are as they should be. */
void vm_ck_shadow_settle(const vm_core *c, const vm_box *b);
/* The first of n bytes of a shadow that a read through `owner` (0: no tile that is `own`) must not
 * find there; NULL: all may be read. */
const uint8_t *vm_ck_wrong(const vm_core *c, const uint8_t *at, size_t n, uint8_t owner);
/* The first partition of a view with such a byte; -1: no partition has one. */
int64_t vm_ck_unwritten(const vm_core *c, const vm_view *v);
/* A walk over one side of a share in the shadow (-1: the destination, else a source), its base NULL
 * if that has none; and one over the side whose rows an index gives. False: no index does. */
bool vm_ck_share_walk(const vm_core *c, const vm_share *s, int side, vm_walk *w, vm_walk *guide);
/* The mark of a view's tile, 0 if it is not `own`; and the mark of what is written through the
 * view. */
static inline uint8_t vm_ck_owner(const vm_core *c, const vm_view *v) {
  return c->check->owners && v->tile ? c->check->owners[v->tile - 1] : 0;
}
static inline uint8_t vm_ck_mark_of(const vm_core *c, const vm_view *v) {
  uint8_t owner = vm_ck_owner(c, v);
  return owner ? owner : VM_CK_WRITTEN;
}

/* known.c */
/* Whether it is known of all of a view that it is written, with the mark `type` (0: with any), or,
 * as elements of that type, finite. */
bool vm_ck_is_known(const vm_core *c, unsigned kind, const vm_view *v, unsigned type);
/* All of a view is so, as long as nothing else is written there. */
void vm_ck_learn(const vm_core *c, unsigned kind, const vm_view *v, unsigned type);
/* All of a view is written, with that mark: a fact is all that is noted, and the shadow's own bytes
 * wait until something needs them (vm_ck_pay). False: no fact can say so. */
bool vm_ck_owe(const vm_core *c, const vm_view *v, unsigned mark);
/* The bytes of a shadow that facts owe it: of the columns that a view touches; all. */
void vm_ck_pay(const vm_core *c, const vm_view *v);
void vm_ck_pay_all(const vm_core *c);
/* Bytes are written: what was known of them is not true any more. */
void vm_ck_unlearn(const vm_core *c, unsigned kind, const vm_box *b);
void vm_ck_unlearn_view(const vm_core *c, unsigned kind, const vm_view *v);

/* part.c */
/* As vm_ck_each_operand, but with only the part of each operand that is read or written, if the
 * form fixes that part. */
void vm_ck_each_part(const vm_core *c, const vm_flight *f,
                     void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud);
/* For a view with AP_CHOSEN: the first partition of the destination that gets a wrong byte, or -1;
 * and that byte of the shadow. */
int64_t vm_ck_chosen_unwritten(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src,
                               uint8_t *wrong);
/* The marks of fillers that the destination's elements get from such a view: one for each. */
void vm_ck_chosen_marks(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src,
                        uint8_t *marks);
/* Whether an instruction writes only chosen elements of its destination; the second notes what a
 * flight of such an instruction, which is about to execute, will write. */
bool vm_ck_writes_chosen(unsigned op);
void vm_ck_mark_chosen(vm_core *c, unsigned e, const vm_flight *f);
bool vm_ck_psum_start(vm_core *c);
void vm_ck_psum_end(vm_core *c);
void vm_ck_psum_walk(vm_saver *s, vm_core *c); /* of c alone */
void vm_ck_psum_issue(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_psum_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_psum_reads(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_value_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_value_executed(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_values_walk(vm_saver *s, vm_core *c); /* of c alone */
/* Whether a kernel leaves out element i of partition p of a view. */
bool vm_ck_left_out(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i);
/* convert.c: before a copy executes; around the move of a share. */
void vm_ck_convert_execute(vm_core *c, unsigned e, const vm_flight *f);
void vm_ck_convert_move(vm_core *c, const vm_share *s);
void vm_ck_convert_moved(vm_core *c, const vm_share *s);
bool vm_ck_owners_start(vm_core *c); /* the marks of tiles that are `own` */
void vm_ck_tiles_issue(vm_core *c, unsigned e, const isa_insn *in, uint32_t pc);

#endif
