/* Values: inputs of activation functions outside their valid range, and infinities and NaNs that no
 * source had. */
#include "../engine/engine.h"
#include "check.h"
#include "shadow.h"

#include <string.h>

enum { PIECE = 256, HAS_INF = 1, HAS_NAN = 2, EXPONENT = 0x7f800000 };

static unsigned kinds_of(const float *x, size_t n) {
  unsigned kinds = 0;
  for (size_t i = 0; i < n; i++) {
    /* The sign does not matter. */
    uint32_t magnitude = isa_f32_bits(x[i]) & 0x7fffffff;
    if (magnitude == 0x7f800000) kinds |= HAS_INF;
    if (magnitude > 0x7f800000) kinds |= HAS_NAN;
  }
  return kinds;
}

/* An element of a view. */
typedef struct element {
  vm_view v; /* at NULL: none */
  uint32_t p;
  uint64_t i;
} element;

bool vm_ck_left_out(const vm_core *c, const vm_view *v, uint32_t p, uint64_t i) {
  return c->check->fillers.any && vm_ck_fill_at(c, v, p, i) != 0;
}

/* The same of n elements x from `at` on, without those that a kernel leaves out. *first: the number
 * of one with a kind that `had` has not. */
static unsigned kinds_of_known(const vm_core *c, const element *at, const float *x, size_t n,
                               unsigned had, size_t *first) {
  unsigned kinds = 0;
  for (size_t j = 0; j < n; j++) {
    unsigned one = kinds_of(&x[j], 1);
    /* Nothing special, or left out by the kernel. */
    if (!one || vm_ck_left_out(c, &at->v, at->p, at->i + j)) continue;
    if ((one & ~had) && !(kinds & ~had)) *first = j;
    kinds |= one;
  }
  return kinds;
}

/* Whether it is plain that a row has neither infinities nor NaNs; false may mean that it takes a
 * closer look. */
static bool row_finite(const vm_core *c, const vm_view *v, uint32_t p) {
  const uint8_t *row = vm_row_at(v, p, 0);
  uint32_t exponent = v->dtype == ISA_bfloat16  ? EXPONENT >> 16
                      : v->dtype == ISA_float16 ? 0x7c00
                                                : EXPONENT;
  /* Only types that a kernel can scan. */
  if (!row || (v->esize == 4 ? v->dtype != ISA_float32 : exponent == EXPONENT)) return false;
  return !c->eng[0].dp.k->special(row, (size_t)v->elems, v->esize, exponent);
}

/* What a view of a float type holds: infinities, NaNs; and the first element with a kind that `had`
 * has not. A view of a packed type may hold anything. */
static unsigned kinds_of_view(const vm_core *c, const vm_view *v, unsigned had, element *first) {
  float x[PIECE];
  unsigned kinds = 0, class = isa_dtypes[v->dtype].cls;
  if (!v->at || (class != ISA_FLOAT && class != ISA_PACK)) return 0;
  /* A packed element may be anything: nothing is found in its results. */
  if (class == ISA_PACK) return HAS_INF | HAS_NAN;
  /* Looked at before, and not written since. */
  if (vm_ck_is_known(c, VM_CK_IS_FINITE, v, v->dtype)) return 0;
  bool finite = true;
  for (uint32_t p = 0; p < v->num[0]; p++) {
    /* A quick scan: almost all rows are finite. */
    if (row_finite(c, v, p)) continue;
    for (uint64_t i = 0; i < v->elems && kinds != (HAS_INF | HAS_NAN); i += PIECE) {
      size_t n = v->elems - i < PIECE ? (size_t)(v->elems - i) : PIECE, at = 0;
      const float *in = vm_in(&c->eng[0].dp, x, v, p, i, n);
      /* The same for the converted piece. */
      if (!c->eng[0].dp.k->special(in, n, sizeof *in, EXPONENT)) continue;
      finite = false;
      kinds |= kinds_of_known(c, &(element){*v, p, i}, in, n, had, &at);
      if ((kinds & ~had) && !first->v.at) *first = (element){*v, p, i + at};
    }
  }
  /* Until it is written again. */
  if (finite) vm_ck_learn(c, VM_CK_IS_FINITE, v, v->dtype);
  return kinds;
}

struct scan {
  vm_core *c;
  unsigned kinds, flags;
  element first; /* with a kind that `had` has not */
  unsigned had;
};

static void forget_written(void *ud, const vm_view *v, unsigned flags) {
  if (flags & AP_W) vm_ck_unlearn_view(ud, VM_CK_IS_FINITE, v);
}

static void scan_operand(void *ud, const vm_view *v, unsigned flags) {
  struct scan *s = ud;
  if (!(flags & s->flags)) return;
  element first = {0};
  s->kinds |= kinds_of_view(s->c, v, s->had, &first);
  if (!s->first.v.at) s->first = first;
}

static unsigned immediates_of(const vm_flight *f) {
  const isa_form *form = isa_form_of(f->in->op);
  unsigned kinds = 0;
  for (unsigned i = 0; i < form->nfields; i++) {
    if (form->fields[i].kind != ISA_K_NUM) continue;
    const vm_num *n = vm_operand_at(f->in, (vm_operands *)&f->a, i);
    if (n->given && !n->v.at) kinds |= kinds_of(&n->imm, 1);
  }
  return kinds;
}

/* ---- Activation functions ----------------------------------------------------------------- */

static void report_range(vm_core *c, unsigned e, const vm_flight *f, unsigned fn, float x,
                         const element *at) {
  const isa_actfn_row *row = &isa_actfns[fn];
  vm_finding *r = vm_ck_found(c, VM_CHECK_RANGE, vm_ck_unit(c, e), f->pc, VM_CK_ENGINES, 0);
  if (!r) return;
  vm_ck_put_place(c, vm_ck_unit(c, e), f->pc, &r->text);
  isa_buf_printf(&r->text, ": range: %s of %.9g (", row->name, (double)x);
  vm_ck_put_element(c, &at->v, at->p, at->i, &r->text);
  isa_buf_printf(&r->text, "); its valid %s are %.9g to %.9g",
                 fn == ISA_FN_reciprocal ? "magnitudes" : "inputs", (double)row->lo,
                 (double)row->hi);
  vm_ck_put_insn(c, vm_ck_unit(c, e), f->pc, f->item.start, &r->text);
}

static bool outside(unsigned fn, float x) {
  const isa_actfn_row *row = &isa_actfns[fn];
  if (fn == ISA_FN_reciprocal && x < 0) x = -x;
  return x < row->lo || x > row->hi;
}

static bool has_range(unsigned fn) {
  return kinds_of(&isa_actfns[fn].lo, 1) == 0 || kinds_of(&isa_actfns[fn].hi, 1) == 0;
}

/* What the function is applied to: n elements of partition p from i on, in o or in place. */
static const float *inputs_of(const vm_dp *d, const vm_flight *f, const vm_view *src, uint32_t p,
                              uint64_t i, float *o, size_t n) {
  const float *x = vm_in(d, o, src, p, i, n);
  return f->in->op == ISA_OP_activate ? vm_act_inputs(d, &f->a.ACTIVATE, p, o, x, n)
                                      : vm_act2_inputs(d, &f->a.ACTIVATE2, p, o, x, n);
}

static void check_range(vm_core *c, unsigned e, const vm_flight *f, unsigned fn,
                        const vm_view *src) {
  float buf[PIECE];
  for (uint32_t p = 0; p < src->num[0]; p++)
    for (uint64_t i = 0; i < src->elems; i += PIECE) {
      size_t n = src->elems - i < PIECE ? (size_t)(src->elems - i) : PIECE;
      const float *x = inputs_of(&c->eng[e].dp, f, src, p, i, buf, n);
      for (size_t j = 0; j < n; j++)
        if (outside(fn, x[j]) && !vm_ck_left_out(c, src, p, i + j)) {
          report_range(c, e, f, fn, x[j], &(element){*src, p, i + j});
          return;
        }
    }
}

/* ---- Before and after --------------------------------------------------------------------- */

/* Sources that the destination overwrites are kept, so that a report can say what was there. */
static void keep_source(void *ud, const vm_view *v, unsigned flags) {
  struct scan *s = ud;
  struct vm_check *k = s->c->check;
  if (!(flags & AP_R) || k->kept || isa_dtypes[v->dtype].cls != ISA_FLOAT || !v->at) return;
  if (v->at != s->first.v.at) return;
  size_t row = (size_t)v->elems * v->esize;
  if (row * v->num[0] > k->room) {
    isa_free(&s->c->al, k->kept_in, k->room);
    k->room = row * v->num[0];
    k->kept_in = isa_zalloc(&s->c->al, k->room);
    if (!k->kept_in) k->room = 0;
  }
  k->kept = k->kept_in;
  k->nkept = v->num[0] * v->elems;
  k->kept_type = v->dtype;
  for (uint32_t p = 0; k->kept && p < v->num[0]; p++)
    vm_load_raw(k->kept + p * row, v, p, 0, (size_t)v->elems);
}
static void find_destination(void *ud, const vm_view *v, unsigned flags) {
  struct scan *s = ud;
  if ((flags & AP_W) && !s->first.v.at) s->first.v = *v;
}

void vm_ck_value_execute(vm_core *c, unsigned e, const vm_flight *f) {
  struct vm_check *k = c->check;
  const vm_dp *d = &c->eng[e].dp;
  if (f->in->op == ISA_OP_activate && has_range(f->a.ACTIVATE.fn))
    check_range(c, e, f, f->a.ACTIVATE.fn, &f->a.ACTIVATE.src);
  if (f->in->op == ISA_OP_activate2 && has_range(f->a.ACTIVATE2.fn))
    check_range(c, e, f, f->a.ACTIVATE2.fn, &f->a.ACTIVATE2.src);
  struct scan s = {.c = c, .flags = AP_R | AP_W, .had = HAS_INF | HAS_NAN};
  vm_ck_each_operand(c, f, scan_operand, &s); /* a destination may be added to */
  k->had = s.kinds | immediates_of(f) | kinds_of(d->acc, ISA_PMAX);
  if (isa_ops[f->in->op].cost == ISA_COST_LDW) k->weights_had[c->number] |= k->had;
  if (isa_ops[f->in->op].cost == ISA_COST_MM) k->had |= k->weights_had[c->number];
  s.first = (element){0};
  k->kept = NULL;
  vm_ck_each_operand(c, f, find_destination, &s);
  vm_ck_each_operand(c, f, keep_source, &s);
}

/* range_select fills with the least fp32, which becomes an infinity in a narrower type, or a NaN if
 * the type has no infinity: this is documented. */
static unsigned filled_with(const vm_flight *f) {
  if (f->in->op != ISA_OP_range_select) return 0;
  return isa_dtype_bytes(f->a.RANGE_SELECT.dst.dtype) < 4 ? HAS_INF | HAS_NAN : 0;
}

/* The sources of an element of the result that have its shape, or one element a partition. */
struct sources {
  vm_core *c;
  const element *of;
  isa_buf *out;
  unsigned n;
};
static void put_source(void *ud, const vm_view *v, unsigned flags) {
  struct sources *s = ud;
  const vm_view *d = &s->of->v;
  const struct vm_check *k = s->c->check;
  const vm_kern *kern = s->c->eng[0].dp.k;
  uint64_t i = v->elems == d->elems ? s->of->i : 0;
  float x[1];
  unsigned class = isa_dtypes[v->dtype].cls;
  if (!(flags & AP_R) || !v->at || v->num[0] != d->num[0] || class == ISA_PACK || v->esize > 4 ||
      (v->elems != d->elems && v->elems != 1))
    return;
  const float *in = vm_in(&s->c->eng[0].dp, x, v, s->of->p, i, 1);
  float value = *in;
  uint64_t n = s->of->p * v->elems + i;
  if (v->at == d->at && k->kept && n < k->nkept)
    kern->load[k->kept_type](&value, k->kept + n * isa_dtype_bytes(k->kept_type), 1);
  isa_buf_printf(s->out, "%s%.9g (", s->n++ ? " and " : ", made of ", (double)value);
  vm_ck_put_element(s->c, v, s->of->p, i, s->out);
  isa_buf_printf(s->out, ", %s)", isa_dtypes[v->dtype].name);
}

static void report_value(vm_core *c, unsigned e, const vm_flight *f, unsigned kinds,
                         const element *at) {
  uint32_t pc = f->pc;
  vm_finding *r = vm_ck_found(c, VM_CHECK_RANGE, vm_ck_unit(c, e), pc, VM_CK_ENGINES, kinds);
  if (!r) return;
  vm_ck_put_place(c, vm_ck_unit(c, e), pc, &r->text);
  isa_buf_printf(&r->text, ": range: the result has %s, and no operand had one",
                 kinds & HAS_NAN ? "a NaN" : "an infinity");
  vm_ck_put_insn(c, vm_ck_unit(c, e), pc, f->item.start, &r->text);
  isa_buf_puts(&r->text, "\n    writes ");
  vm_ck_put_element(c, &at->v, at->p, at->i, &r->text);
  isa_buf_printf(&r->text, ", %s", isa_dtypes[at->v.dtype].name);
  struct sources s = {c, at, &r->text, 0};
  if (!f->item.staged && isa_ops[f->in->op].cost != ISA_COST_MM)
    vm_ck_each_operand(c, f, put_source, &s);
}

void vm_ck_value_executed(vm_core *c, unsigned e, const vm_flight *f) {
  struct scan s = {.c = c, .flags = AP_W, .had = c->check->had};
  vm_ck_each_operand(c, f, forget_written, c);
  vm_ck_each_operand(c, f, scan_operand, &s);
  unsigned fresh = s.kinds & ~s.had & ~filled_with(f);
  if ((fresh & HAS_NAN) && s.first.v.at)
    report_value(c, e, f, HAS_NAN, &s.first);
  else if ((fresh & HAS_INF) && !(s.had & HAS_NAN) && s.first.v.at)
    report_value(c, e, f, HAS_INF, &s.first);
}

static void end_values(vm_core *c) { isa_free(&c->al, c->check->kept_in, c->check->room); }

void vm_ck_values_walk(vm_saver *s, vm_core *c) {
  if (vm_ck_has(c, VM_CHECK_RANGE)) vm_save_u32(s, &c->check->weights_had[c->number]);
}

const vm_ck_part vm_ck_part_values = {.end = end_values};
