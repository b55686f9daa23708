/* The planner: collectives whose sizes are known as the program runs.
 *
 * With has_rdispls a rank alone knows where it wants what comes. So it says to each peer where, and
 * by that, that it is ready:
 *
 *   dma qcc0, uint32@hbm[cc_places0,4][1][1].rank[2], metadata[3, 2]     $cc_ready0.rank[2]
 *   event_semaphore $cc_ready0>=15 $cc_ready0-=15                        three have said so
 *   tensor_load r3, cc_places0[2]                                        where rank 2 wants it
 *
 * A place is kept by the number of the rank that wants it, not by its place in a list: the next
 * time it says another one it has what this one sent. */
#include "plan_emit.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 1, FROM = 2, TO = 3 }; /* registers */

/* The pattern of an element of metadata, of this rank or at a peer. */
static bool metadata_at(cc_emitter *m, uint32_t peer, uint32_t row, uint32_t column, isa_ap *out) {
  uint32_t rank;
  const cc_call *x = cc_call_of(m, peer, &rank);
  isa_ap ap;
  /* Rows of a column for each rank. */
  if (!cc_pattern_of(m, rank, x, x->metadata, &ap)) return false;
  vm_plan_cut(&ap, (uint64_t)row * m->x->ranks_n + column, 1, out);
  return true;
}

static bool load_from(cc_emitter *m, unsigned reg, const isa_ap *ap) {
  isa_insn in = {.op = ISA_OP_tensor_load};
  in.u.TENSOR_LOAD.rd = (uint8_t)reg;
  in.u.TENSOR_LOAD.src = cc_pattern(m, ap, 0);
  return in.u.TENSOR_LOAD.src && cc_add(m, &in);
}

static bool load(cc_emitter *m, unsigned reg, uint32_t row, uint32_t column) {
  isa_ap ap;
  return metadata_at(m, VM_CC_NOBODY, row, column, &ap) && load_from(m, reg, &ap);
}

static bool add_copy(cc_emitter *m, unsigned queue, const isa_ap *dst, const isa_ap *src,
                     uint32_t slot) {
  isa_insn in = {.op = ISA_OP_dma_copy};
  in.u.DMA_COPY.dst = cc_pattern(m, dst, slot);
  in.u.DMA_COPY.src = cc_pattern(m, src, 0);
  in.u.DMA_COPY.queue = (uint8_t)queue;
  in.u.DMA_COPY.prio = m->x->prio;
  if (!in.u.DMA_COPY.dst || !in.u.DMA_COPY.src) return false;
  return isa_program_static(m->out, m->x->core, queue, &in) || cc_no_memory(m);
}

/* All elements of an operand as one run. */
static bool run_of(cc_emitter *m, uint32_t peer, unsigned buffer, isa_ap *out) {
  isa_ap ap;
  if (!cc_operand_of(m, peer, buffer, 0, &ap)) return false;
  uint64_t n = cc_elems(&ap);
  /* A count at run time can cut one dimension alone. */
  if (n <= UINT32_MAX && vm_plan_cut(&ap, 0, n, out) == n && out->ndim == 1 &&
      (out->dim[0].step == 1 || n == 1))
    return true;
  return isa_fail(m->e, ISA_UNBUILT, ISA_NOFIELD, "%s: an operand with gaps is not built",
                  isa_ops[m->x->op].name);
}

/* Where a rank is told the place that another one wants its elements at. */
static bool told_place(cc_emitter *m, uint32_t rank, isa_ap *out) {
  char name[24];
  /* All calls of the core share the tensor: a place for each rank. */
  snprintf(name, sizeof name, "cc_places%u", m->x->core);
  int have = isa_program_find_tensor(m->out, name, strlen(name));
  isa_tensor t = {.name = name, .dtype = ISA_uint32, .role = ISA_TEMP, .ndim = 1};
  t.bytes = 4 * (uint64_t)m->p->n;
  t.shape[0] = m->p->n;
  *out = (isa_ap){.dtype = ISA_uint32, .space = ISA_HBM, .ndim = 1, .offset = 4 * (int64_t)rank};
  out->dim[0] = (isa_dim){.step = 1, .num = 1};
  out->base = have >= 0 ? (uint32_t)have + 1 : isa_program_tensor(m->out, &t);
  return out->base || cc_no_memory(m);
}

bool cc_tell_place(cc_emitter *m, const vm_cc_step *st, isa_update upd) {
  uint32_t first = m->out->cores[m->x->core].queues[m->pushes].nstatics;
  isa_ap place, there;
  return metadata_at(m, VM_CC_NOBODY, 3, st->peer, &place) && told_place(m, m->rank, &there) &&
         add_copy(m, m->pushes, &there, &place, upd.value) && cc_start(m, m->pushes, first, upd);
}

/* dst, the whole operand of a peer or of this rank, becomes what is written of it. */
static bool find_dst(cc_emitter *m, uint32_t peer, isa_ap *dst) {
  const cc_call *x = m->x;
  uint32_t part = dst->dim[0].num / x->ranks_n;
  isa_ap ap;
  if (x->placed) {
    /* It is known as the program runs: in TO, from the metadata or from what the peer has told. */
    dst->dyn[0] = (isa_dyn){.kind = ISA_DYN_reg, .reg = TO, .stride = 1};
    if (peer == VM_CC_NOBODY) return load(m, TO, 3, x->place);
    return told_place(m, cc_peer(x, peer), &ap) && load_from(m, TO, &ap);
  }
  if (part == 0)
    return isa_fail(m->e, ISA_ILLEGAL, ISA_NOFIELD, "%s: dst has fewer elements than ranks",
                    isa_ops[x->op].name);
  /* Without places each rank has an equal part of dst, in their order. */
  dst->offset += (int64_t)part * x->place * (int64_t)isa_dtype_bytes(dst->dtype);
  dst->dim[0].num = part;
  return true;
}

bool cc_move_counted(cc_emitter *m, const vm_cc_step *st, unsigned queue, isa_update upd) {
  const cc_call *x = m->x;
  bool push = st->kind == VM_STEP_PUSH;
  uint32_t peer = push ? st->peer : VM_CC_NOBODY, slot = push ? cc_slot_of(m, peer) : 0;
  /* all_gather_v sends the same to all, so its counts are in column 0. */
  uint32_t to = push ? peer : x->place, column = x->op == ISA_OP_all_gather_v ? 0 : to;
  uint32_t first = m->out->cores[x->core].queues[queue].nstatics;
  uint32_t rank;
  bool tells = cc_call_of(m, peer, &rank)->tells; /* whoever gets the elements wants their number */
  isa_ap src, dst, count, told;
  if ((push && !slot) || !run_of(m, peer, VM_CC_DST, &dst) ||
      !run_of(m, VM_CC_NOBODY, VM_CC_SRC, &src) || !find_dst(m, peer, &dst))
    return false;
  /* No more than either end has room for. */
  if (dst.dim[0].num > src.dim[0].num) dst.dim[0].num = src.dim[0].num;
  src.dim[0].num = dst.dim[0].num;
  /* Dimension 0 of the pattern is cut to COUNT elements. */
  dst.size_dim = src.size_dim = 2;
  dst.size_reg = src.size_reg = COUNT;
  src.dyn[0] = (isa_dyn){.kind = ISA_DYN_reg, .reg = FROM, .stride = 1};
  bool ok =
      load(m, COUNT, 0, column) && load(m, FROM, 1, column) && add_copy(m, queue, &dst, &src, slot);
  /* The receiver is told how many. */
  if (ok && tells)
    ok = metadata_at(m, VM_CC_NOBODY, 0, column, &count) &&
         metadata_at(m, peer, 2, x->place, &told) && add_copy(m, queue, &told, &count, slot);
  if (!push) m->moving += tells ? 2 : 1;
  return ok && cc_start(m, queue, first, upd);
}
