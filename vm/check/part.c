/* Instructions that read or write only a part of an operand, for bytes that nothing wrote: the
 * field's flags in forms.def say which part. Some parts are fixed: the scales of MX, every
 * sixteenth partition, a list laid over sixteen of them. Others are chosen by another operand: such
 * an instruction is run once more on the shadows, with the choosing operand as it is, and so shows
 * what it chose. */
#include "../engine/engine.h"
#include "shadow.h"

#include <string.h>

enum { GROUP_PARTS = 8 }; /* partitions that share an MX scale */

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
  /* The scales of groups that the operand does not have. */
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
    uint32_t q = p % ISA_GP_PARTS;
    /* Elements q, q + 16, q + 32 ... are in partition q. */
    emit_partition(t, v, flags, p, n > q ? (n - q - 1) / ISA_GP_PARTS + 1 : 0);
  }
}

/* The scales of the groups of an operand of `parts` partitions: four in a quadrant. */
static void emit_scales(const struct cut *t, const vm_view *v, unsigned flags, uint32_t parts) {
  for (uint32_t g = 0; g < parts / GROUP_PARTS; g++)
    /* As in op/mx.c: group g is in partition g / 4 * 32 + g % 4. */
    emit_partition(t, v, flags, g / 4 * 32 + g % 4, v->elems);
}

/* Partitions of the operand whose scales an instruction takes: of the operand that may be
 * packed. */
static uint32_t scaled_parts(const vm_flight *f) {
  const isa_form *form = isa_form_of(f->in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (form->fields[i].kind == ISA_K_AP && (form->fields[i].arg & AP_PACK))
      return ((const vm_view *)vm_operand_at(f->in, (vm_operands *)&f->a, i))->num[0];
  return 0;
}

static void cut_operand(void *ud, const vm_view *v, unsigned flags) {
  const struct cut *t = ud;
  uint64_t n = flags & AP_SNAKE ? vm_ck_snake(t->f, v, flags) : 0;
  /* Bytes that are given up are neither read nor written. */
  if (flags & AP_FREED) return;
  if (flags & AP_SCALES)
    emit_scales(t, v, flags, scaled_parts(t->f));
  else if (n && v->run != v->elems) /* an operand that is one run was cut already */
    emit_wrapped_list(t, v, flags, n);
  else
    t->fn(t->ud, v, flags);
}

void vm_ck_each_part(const vm_core *c, const vm_flight *f,
                     void (*fn)(void *ud, const vm_view *v, unsigned flags), void *ud) {
  struct cut t = {f, fn, ud};
  vm_ck_each_operand(c, f, cut_operand, &t);
}

/* ---- Parts that are chosen ---------------------------------------------------------------- */

typedef struct choice {
  vm_view *dst, *src; /* src NULL: the instruction does not choose */
  vm_num *other;      /* what is there where nothing is chosen; NULL: none exists */
  uint8_t *reduce;    /* a command for the accumulator, NULL: none exists */
} choice;

/* The operands in a that choose, and those that are chosen from. */
static choice choice_of(const isa_insn *in, vm_operands *a) {
  const isa_form *form = isa_form_of(in->op);
  choice r = {0};
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    void *at = vm_operand_at(in, a, i);
    if (f->kind == ISA_K_AP && (f->arg & AP_CHOSEN)) r.src = at;
    /* The first destination; a second one is made of the same choice. */
    if (f->kind == ISA_K_AP && (f->arg & AP_W) && !r.dst) r.dst = at;
    if (f->kind == ISA_K_NUM && (f->arg & AP_ELSE)) r.other = at;
    if (f->kind == ISA_K_ENUM && f->arg == ISA_SET_CMD) r.reduce = at;
  }
  return r;
}

/* Elements as an integer type of their size, so that their bits move as they are. */
static void as_bits(vm_view *v, unsigned esize) {
  v->esize = (uint8_t)esize;
  v->dtype = esize == 1 ? ISA_int8 : esize == 2 ? ISA_int16 : ISA_int32;
}

/* Runs the flight's instruction with these in place of dst and src, and with -1, whose bytes are
 * all nonzero, where nothing is chosen. */
static bool run_on(vm_core *c, unsigned e, const vm_flight *f, const vm_view *dst,
                   const vm_view *src) {
  vm_operands a = f->a;
  choice r = choice_of(f->in, &a);
  /* The operands are the flight's, but for these two. */
  *r.dst = *dst;
  *r.src = *src;
  /* Elements of one size: bits move, nothing is converted. */
  as_bits(r.dst, src->esize);
  as_bits(r.src, src->esize);
  if (r.other) *r.other = (vm_num){.given = true, .imm = -1.0f};
  /* The accumulators must not change. */
  if (r.reduce) *r.reduce = ISA_CMD_idle;
  return vm_run_handler(&c->eng[e].dp, f->in->op, &a) == VM_RETIRE;
}

int64_t vm_ck_chosen_unwritten(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src,
                               uint8_t *wrong) {
  vm_operands a = f->a;
  const vm_view *dst = choice_of(f->in, &a).dst;
  size_t row = (size_t)dst->elems * src->esize, bytes = row * dst->num[0];
  uint8_t *block = bytes ? isa_zalloc(&c->al, bytes) : NULL;
  vm_view shadowed = vm_ck_shadow_of(c, src), like = *dst, out;
  int64_t p = -1;
  if (!block) {
    if (bytes) vm_ck_out_of_memory(c);
    return -1;
  }
  /* Where nothing is chosen: as if it were written. */
  memset(block, vm_ck_mark_of(c, src), bytes);
  like.esize = src->esize;
  vm_view_dense(&out, &like, block);
  /* Shapes fit, since the flight itself will run; if not, nothing is reported. */
  if (run_on(c, e, f, &out, &shadowed)) {
    const uint8_t *hole = vm_ck_wrong(c, block, bytes, vm_ck_owner(c, src));
    /* The first wrong byte of the result says which row. */
    if (hole) {
      p = (hole - block) / (int64_t)row;
      *wrong = *hole;
    }
  }
  isa_free(&c->al, block, bytes);
  return p;
}

void vm_ck_chosen_marks(vm_core *c, unsigned e, const vm_flight *f, const vm_view *src,
                        uint8_t *marks) {
  vm_operands a = f->a;
  const vm_view *dst = choice_of(f->in, &a).dst;
  size_t n = (size_t)dst->elems * dst->num[0], bytes = n * src->esize;
  uint8_t *block = isa_zalloc(&c->al, bytes);
  vm_view shadowed = vm_ck_shadow_of(c, src), like = *dst, out;
  if (!block) {
    vm_ck_out_of_memory(c);
    return;
  }
  like.esize = src->esize;
  vm_view_dense(&out, &like, block);
  if (run_on(c, e, f, &out, &shadowed))
    for (size_t i = 0; i < n; i++)
      if (vm_ck_is_fill(block[i * src->esize])) marks[i] = block[i * src->esize];
  isa_free(&c->al, block, bytes);
}

bool vm_ck_writes_chosen(unsigned op) {
  const isa_form *form = isa_form_of(op);
  for (unsigned i = 0; i < form->nfields; i++)
    if (form->fields[i].kind == ISA_K_AP && (form->fields[i].arg & AP_KEEPS)) return true;
  return false;
}

void vm_ck_mark_chosen(vm_core *c, unsigned e, const vm_flight *f) {
  uint8_t one[8];
  if (!vm_ck_writes_chosen(f->in->op)) return;
  vm_operands a = f->a;
  const choice r = choice_of(f->in, &a);
  /* All of it is written, so nothing can change. */
  if (!c->check->owners && vm_ck_unwritten(c, r.dst) < 0) return;
  vm_ck_unlearn_view(c, VM_CK_IS_WRITTEN, r.dst);
  vm_view shadowed = vm_ck_shadow_of(c, r.dst), ones = *r.dst;
  /* A source of one row stands for all partitions. */
  if (r.src->at) ones.num[0] = r.src->num[0];
  memset(one, vm_ck_mark_of(c, r.dst), sizeof one);
  ones.at = one;
  ones.place = NULL;
  /* Steps of 0: one element for all. */
  memset(ones.step, 0, sizeof ones.step);
  vm_view_runs(&ones);
  run_on(c, e, f, &shadowed, &ones);
}
