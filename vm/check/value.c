/* Values: inputs of activation functions outside their valid range, and infinities and NaNs that no
 * source had. */
#include "../engine/engine.h"
#include "check.h"
#include "shadow.h"

enum { PIECE = 256, HAS_INF = 1, HAS_NAN = 2 };

/* Whether one of the exponents is all ones. In blocks, which compilers vectorise. */
static bool any_special(const float *x, size_t n) {
  enum { BLOCK = 16 };
  uint32_t carry[BLOCK] = {0}, all = 0;
  for (; n >= BLOCK; n -= BLOCK, x += BLOCK)
    for (size_t i = 0; i < BLOCK; i++) carry[i] |= (isa_f32_bits(x[i]) & 0x7fffffff) + 0x00800000;
  for (size_t i = 0; i < n; i++) carry[i] |= (isa_f32_bits(x[i]) & 0x7fffffff) + 0x00800000;
  for (size_t i = 0; i < BLOCK; i++) all |= carry[i];
  return all >> 31;
}

static unsigned kinds_of(const float *x, size_t n) {
  unsigned kinds = 0;
  if (!any_special(x, n)) return 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t magnitude = isa_f32_bits(x[i]) & 0x7fffffff;
    if (magnitude == 0x7f800000) kinds |= HAS_INF;
    if (magnitude > 0x7f800000) kinds |= HAS_NAN;
  }
  return kinds;
}

/* What a view of a float type holds: infinities, NaNs. A view of a packed type may hold
 * anything. */
static unsigned kinds_of_view(const vm_core *c, const vm_view *v) {
  float x[PIECE];
  unsigned kinds = 0, class = isa_dtypes[v->dtype].cls;
  if (!v->at || (class != ISA_FLOAT && class != ISA_PACK)) return 0;
  if (class == ISA_PACK) return HAS_INF | HAS_NAN;
  for (uint32_t p = 0; p < v->num[0]; p++)
    for (uint64_t i = 0; i < v->elems && kinds != (HAS_INF | HAS_NAN); i += PIECE) {
      size_t n = v->elems - i < PIECE ? (size_t)(v->elems - i) : PIECE;
      kinds |= kinds_of(vm_in(&c->eng[0].dp, x, v, p, i, n), n);
    }
  return kinds;
}

struct scan {
  vm_core *c;
  unsigned kinds, flags;
  const vm_view *first; /* with a kind that `had` has not */
  unsigned had;
};

static void scan_operand(void *ud, const vm_view *v, unsigned flags) {
  struct scan *s = ud;
  if (!(flags & s->flags)) return;
  unsigned kinds = kinds_of_view(s->c, v);
  s->kinds |= kinds;
  if (!s->first && (kinds & ~s->had)) s->first = v;
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
                         uint32_t p, uint64_t i) {
  const isa_actfn_row *row = &isa_actfns[fn];
  vm_finding *r = vm_ck_found(c, VM_CHECK_RANGE, vm_ck_unit(c, e), f->pc, VM_CK_ENGINES, 0);
  if (!r) return;
  vm_ck_put_place(c, vm_ck_unit(c, e), f->pc, &r->text);
  isa_buf_printf(
      &r->text, ": range: %s of %.9g (partition %u, element %llu); its valid %s are %.9g to %.9g",
      row->name, (double)x, p, (unsigned long long)i,
      fn == ISA_FN_reciprocal ? "magnitudes" : "inputs", (double)row->lo, (double)row->hi);
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
        if (outside(fn, x[j])) {
          report_range(c, e, f, fn, x[j], p, i + j);
          return;
        }
    }
}

/* ---- Before and after --------------------------------------------------------------------- */

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
}

/* range_select fills with the least fp32, which becomes an infinity in a narrower type, or a NaN if
 * the type has no infinity: this is documented. */
static unsigned filled_with(const vm_flight *f) {
  if (f->in->op != ISA_OP_range_select) return 0;
  return isa_dtype_bytes(f->a.RANGE_SELECT.dst.dtype) < 4 ? HAS_INF | HAS_NAN : 0;
}

static void report_value(vm_core *c, unsigned e, uint32_t pc, vm_time t, unsigned kinds,
                         const vm_view *v) {
  vm_finding *r = vm_ck_found(c, VM_CHECK_RANGE, vm_ck_unit(c, e), pc, VM_CK_ENGINES, kinds);
  if (!r) return;
  vm_ck_put_place(c, vm_ck_unit(c, e), pc, &r->text);
  isa_buf_printf(&r->text, ": range: the result has %s, and no operand had one",
                 kinds & HAS_NAN ? "a NaN" : "an infinity");
  vm_ck_put_insn(c, vm_ck_unit(c, e), pc, t, &r->text);
  isa_buf_puts(&r->text, "\n    writes ");
  vm_ck_put_view(c, v, &r->text);
}

void vm_ck_value_executed(vm_core *c, unsigned e, const vm_flight *f) {
  struct scan s = {.c = c, .flags = AP_W, .had = c->check->had};
  vm_ck_each_operand(c, f, scan_operand, &s);
  unsigned fresh = s.kinds & ~s.had & ~filled_with(f);
  if (fresh & HAS_NAN)
    report_value(c, e, f->pc, f->item.start, HAS_NAN, s.first);
  else if ((fresh & HAS_INF) && !(s.had & HAS_NAN))
    report_value(c, e, f->pc, f->item.start, HAS_INF, s.first);
}
