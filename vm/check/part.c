/* Instructions that read or write a part of an operand, for what nobody wrote. Some have places
 * that their form fixes: the scales of MX, every sixteenth partition, a list laid over sixteen of
 * them. Others choose their elements by another operand: those are run once more on the shadows,
 * with the choosing operand as it is, so that the instruction itself tells what it chose. */
#include "../engine/engine.h"
#include "impl.h"

#include <string.h>

enum { CORE_PARTS = 16, GROUP_PARTS = 8 }; /* of gpsimd; partitions that share an MX scale */

/* ---- Fixed parts -------------------------------------------------------------------------- */

struct cut {
  const vm_flight *f;
  void (*fn)(void *ud, const vm_view *v, unsigned flags);
  void *ud;
};

/* The first n elements of one partition. */
static void emit_partition(const struct cut *t, const vm_view *v, unsigned flags, uint32_t p,
                           uint64_t n) {
  vm_view one = *v;
  if (p >= v->num[0] || n == 0) return;
  one.at += (int64_t)p * v->step[0];
  one.part = (uint16_t)(v->part + p);
  one.num[0] = 1;
  one.elems = n < v->elems ? n : v->elems;
  one.run = v->run < one.elems ? v->run : one.elems;
  t->fn(t->ud, &one, flags);
}

/* A list of n elements for each sixteen partitions: element i in partition i % 16, column i / 16.
 */
static void emit_wrapped_list(const struct cut *t, const vm_view *v, unsigned flags, uint64_t n) {
  for (uint32_t p = 0; p < v->num[0]; p++) {
    uint32_t q = p % CORE_PARTS;
    emit_partition(t, v, flags, p, n > q ? (n - q - 1) / CORE_PARTS + 1 : 0);
  }
}

/* The scales of the groups of an operand of `parts` partitions: four in a quadrant. */
static void emit_scales(const struct cut *t, const vm_view *v, unsigned flags, uint32_t parts) {
  for (uint32_t g = 0; g < parts / GROUP_PARTS; g++)
    emit_partition(t, v, flags, g / 4 * 32 + g % 4, v->elems);
}

static void cut_operand(void *ud, const vm_view *v, unsigned flags) {
  const struct cut *t = ud;
  const vm_operands *a = &t->f->a;
  switch (t->f->in->op) {
  case ISA_OP_matmul:
    if (v == &a->MATMUL.psum_zero) return; /* gives its bytes up for the next group */
    break;
  case ISA_OP_matmul_mx:
    if (v == &a->MATMUL_MX.psum_zero) return;
    if (v != &a->MATMUL_MX.scale) break;
    emit_scales(t, v, flags, a->MATMUL_MX.src.num[0]);
    return;
  case ISA_OP_ldweights_mx:
    if (v != &a->LDWEIGHTS_MX.scale) break;
    emit_scales(t, v, flags, a->LDWEIGHTS_MX.src.num[0]);
    return;
  case ISA_OP_quantize_mx:
    if (v != &a->QUANTIZE_MX.scale) break;
    emit_scales(t, v, flags, a->QUANTIZE_MX.dst.num[0]);
    return;
  case ISA_OP_nonzero_with_count:
    for (uint32_t p = 0; p < v->num[0]; p += CORE_PARTS) emit_partition(t, v, flags, p, v->elems);
    return;
  case ISA_OP_topk:
    emit_wrapped_list(t, v, flags, v == &a->TOPK.src ? a->TOPK.n : a->TOPK.val_dst.elems);
    return;
  case ISA_OP_local_gather:
    if (v != &a->LOCAL_GATHER.index || !a->LOCAL_GATHER.valid_indices) break;
    emit_wrapped_list(t, v, flags, a->LOCAL_GATHER.valid_indices);
    return;
  default: break;
  }
  t->fn(t->ud, v, flags);
}

void vm_ck_each_part(const vm_core *c, const vm_flight *f,
                     void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud) {
  struct cut t = {f, fn, ud};
  vm_ck_each_operand(c, f, cut_operand, &t);
}

/* ---- Parts that are chosen ---------------------------------------------------------------- */

typedef struct choice {
  vm_view *dst, *src; /* of the operands it was made for */
  vm_num *other;      /* what is put where nothing is chosen, NULL: there is none */
  vm_verdict verdict;
} choice;

/* The operands that choose and are chosen from; dst NULL: the instruction does not choose. With
 * `run` it runs on a. */
static choice choice_of(vm_dp *d, unsigned op, vm_operands *a, bool run) {
  choice r = {.verdict = VM_RETIRE};
  switch (op) {
  case ISA_OP_local_gather:
    r.dst = &a->LOCAL_GATHER.dst;
    r.src = &a->LOCAL_GATHER.src;
    if (run) r.verdict = vm_op_local_gather(d, &a->LOCAL_GATHER);
    break;
  case ISA_OP_n_gather:
    r.dst = &a->N_GATHER.dst;
    r.src = &a->N_GATHER.src;
    if (run) r.verdict = vm_op_n_gather(d, &a->N_GATHER);
    break;
  case ISA_OP_shuffle:
    r.dst = &a->UNARY.dst;
    r.src = &a->UNARY.src;
    if (run) r.verdict = vm_op_shuffle(d, &a->UNARY);
    break;
  case ISA_OP_copy_predicated:
    r.dst = &a->COPY_PREDICATED.dst;
    r.src = &a->COPY_PREDICATED.src;
    if (run) r.verdict = vm_op_copy_predicated(d, &a->COPY_PREDICATED);
    break;
  case ISA_OP_select_reduce:
    r.dst = &a->SELECT_REDUCE.dst;
    r.src = &a->SELECT_REDUCE.on_true;
    r.other = &a->SELECT_REDUCE.on_false;
    if (run) r.verdict = vm_op_select_reduce(d, &a->SELECT_REDUCE);
    break;
  case ISA_OP_range_select:
    r.dst = &a->RANGE_SELECT.dst;
    r.src = &a->RANGE_SELECT.on_true;
    r.other = &a->RANGE_SELECT.on_false;
    if (run) r.verdict = vm_op_range_select(d, &a->RANGE_SELECT);
    break;
  case ISA_OP_affine_select:
    r.dst = &a->AFFINE_SELECT.dst;
    r.src = &a->AFFINE_SELECT.src;
    r.other = &a->AFFINE_SELECT.fill;
    if (run) r.verdict = vm_op_affine_select(d, &a->AFFINE_SELECT);
    break;
  default: break;
  }
  return r;
}

bool vm_ck_chosen(const vm_flight *f, const vm_view *v) {
  vm_operands *a = (vm_operands *)&f->a;
  choice c = choice_of(NULL, f->in->op, a, false);
  return c.dst && v == c.src;
}

/* Elements of a size as an integer type, so that their bits move as they are. */
static void as_bits(vm_view *v, unsigned esize) {
  v->esize = (uint8_t)esize;
  v->dtype = esize == 1 ? ISA_int8 : esize == 2 ? ISA_int16 : ISA_int32;
}

/* Runs the flight's instruction with these in place of dst and src, and -1, every byte of it not
 * zero, for what is not chosen. */
static bool run_on(vm_core *c, unsigned e, const vm_flight *f, const vm_view *dst,
                   const vm_view *src) {
  vm_operands a = f->a;
  choice r = choice_of(&c->eng[e].dp, f->in->op, &a, false);
  *r.dst = *dst;
  *r.src = *src;
  as_bits(r.dst, src->esize);
  as_bits(r.src, src->esize);
  if (r.other) *r.other = (vm_num){.given = true, .imm = -1.0f};
  if (f->in->op == ISA_OP_select_reduce) a.SELECT_REDUCE.reduce = ISA_CMD_idle;
  if (f->in->op == ISA_OP_range_select) a.RANGE_SELECT.reduce = ISA_CMD_idle;
  return choice_of(&c->eng[e].dp, f->in->op, &a, true).verdict == VM_RETIRE;
}

int64_t vm_ck_chosen_unwritten(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src) {
  vm_operands a = f->a;
  const vm_view *dst = choice_of(NULL, f->in->op, &a, false).dst;
  size_t row = (size_t)dst->elems * src->esize, bytes = row * dst->num[0];
  uint8_t *block = bytes ? isa_zalloc(&c->al, bytes) : NULL;
  vm_view shadowed = vm_ck_shadow_of(c, src), like = *dst, out;
  int64_t p = -1;
  if (!block) {
    if (bytes) vm_ck_out_of_memory(c);
    return -1;
  }
  memset(block, 1, bytes);
  like.esize = src->esize;
  vm_view_dense(&out, &like, block);
  if (run_on(c, e, f, &out, &shadowed)) {
    const uint8_t *hole = memchr(block, 0, bytes);
    if (hole) p = (hole - block) / (int64_t)row;
  }
  isa_free(&c->al, block, bytes);
  return p;
}

bool vm_ck_writes_chosen(unsigned op) {
  return op == ISA_OP_copy_predicated || op == ISA_OP_shuffle;
}

void vm_ck_mark_chosen(vm_core *c, unsigned e, const vm_flight *f) {
  uint8_t one[8];
  if (!vm_ck_writes_chosen(f->in->op)) return;
  vm_operands a = f->a;
  const vm_view *dst = choice_of(NULL, f->in->op, &a, false).dst;
  if (vm_ck_unwritten(c, dst) < 0) return;
  vm_view shadowed = vm_ck_shadow_of(c, dst), ones = *dst;
  if (f->in->op == ISA_OP_shuffle) ones.num[0] = f->a.UNARY.src.num[0];
  memset(one, 1, sizeof one);
  ones.at = one;
  ones.place = NULL;
  memset(ones.step, 0, sizeof ones.step);
  vm_view_runs(&ones);
  run_on(c, e, f, &shadowed, &ones);
}
