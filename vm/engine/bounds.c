/* The message of an operand that a register or an element has moved out of what it lies in:
 *
 *   x[r0:+128] with r0 = 896 is rows 896..1023; x has rows 0..999 (round 8 of the loop at a.s:9) */
#include "engine.h"
#include "../../isa/flow.h"
#include "../../isa/slice.h"

/* "r0 = 896, r4 = 12": all that the pattern goes by. */
static void put_given(const vm_engine *e, const isa_ap *ap, const int64_t *moved,
                      const isa_program *p, isa_buf *out) {
  const char *between = " with ";
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    if (ap->dyn[i].kind == ISA_DYN_none) continue;
    isa_buf_puts(out, between);
    if (ap->dyn[i].kind == ISA_DYN_reg)
      isa_buf_printf(out, "r%u", ap->dyn[i].reg);
    else
      isa_print_operand(p, 0, ap->dyn[i].ap, out);
    isa_buf_printf(out, " = %lld", (long long)moved[i]);
    between = ", ";
  }
  if (ap->size_dim)
    isa_buf_printf(out, "%sr%u = %d", between, ap->size_reg, (int32_t)e->regs[ap->size_reg]);
}

/* Indices of a dimension, called what they are: rows and columns of a matrix. */
static void put_indices(const isa_slice *s, unsigned d, int64_t first, int64_t last, isa_buf *out) {
  if (s->ndim <= 2)
    isa_buf_printf(out, " %s%s",
                   s->ndim == 1 ? "element"
                   : d          ? "column"
                                : "row",
                   first == last ? "" : "s");
  isa_buf_printf(out, " %lld", (long long)first);
  if (first != last) isa_buf_printf(out, "..%lld", (long long)last);
}

/* The first dimension whose indices go past its own, -1: there is none. */
static int dimension_left(const isa_slice *s, const int64_t *moved, int64_t *first, int64_t *last) {
  for (unsigned d = s->first; d < s->ndim; d++) {
    const isa_slice_dim *k = &s->dim[d];
    if (k->dyn < 0) continue;
    if (__builtin_add_overflow(k->start, moved[k->dyn], first) ||
        __builtin_add_overflow(*first, k->kept ? (k->len - 1) * k->step : 0, last))
      return -1;
    if (*first < 0 || *last >= k->size) return (int)d;
  }
  return -1;
}

void vm_put_bounds(vm_resolver *r, uint32_t index, const isa_ap *ap, const int64_t *moved,
                   const vm_bounds *b) {
  const vm_core *c = r->c;
  isa_slice s;
  isa_buf text;
  int64_t first, last;
  isa_buf_init(&text, &c->al);
  isa_print_operand(c->prog, 0, index, &text);
  if (moved) put_given(r->e, &c->code->aps[index - 1], moved, c->prog, &text);
  int d = moved && isa_slice_of(c->prog, ap, &s) ? dimension_left(&s, moved, &first, &last) : -1;
  isa_buf_puts(&text, " is");
  if (d >= 0) {
    put_indices(&s, (unsigned)d, first, last, &text);
    if (s.ndim > 2) isa_buf_printf(&text, " in dimension %d", d);
    isa_buf_printf(&text, "; %s has", s.name);
    put_indices(&s, (unsigned)d, 0, s.dim[d].size - 1, &text);
  } else {
    isa_buf_printf(&text, " bytes %lld..%lld; %s has bytes %lld..%lld%s", (long long)b->first,
                   (long long)b->last - 1, b->name, (long long)b->lo, (long long)b->hi - 1,
                   ap->space == ISA_HBM ? "" : " of a partition");
  }
  if (!r->e->recall) vm_put_round(c, r->e->dp.engine, r->e->pc, &text);
  isa_fail(r->err, ISA_FAULT, ISA_NOFIELD, "%s", isa_buf_str(&text));
  isa_buf_free(&text);
}

/* ---- Loops -------------------------------------------------------------------------------- */

/* A loop is the code between a branch back and where it goes. */
typedef struct loop {
  uint32_t top;
  bool nested; /* in another */
} loop;

/* The innermost loop around pc. */
static bool loop_around(const isa_code *code, uint32_t pc, loop *l) {
  bool found = false;
  l->nested = false;
  for (uint32_t end = pc; end < code->n; end++) {
    int64_t top = isa_flow_target(&code->insns[end]);
    if (top < 0 || top > pc || code->insns[end].op == ISA_OP_call) continue;
    if (!found || (uint32_t)top > l->top) {
      l->nested = found;
      l->top = (uint32_t)top;
      found = true;
    } else if ((uint32_t)top < l->top) {
      l->nested = true;
    }
  }
  return found;
}

void vm_put_round(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  const vm_engine *en = &c->eng[e];
  loop l = {0};
  if (!en->ran || pc >= en->code->n || en->uops[pc].op != VM_U_STOP ||
      !loop_around(en->code, pc, &l))
    return;
  unsigned long long round = (unsigned long long)en->ran[pc] + 1;
  isa_buf_printf(out, " (round %llu%s of the loop at ", round, l.nested ? " in all" : "");
  vm_put_pc(c, e, l.top, out);
  isa_buf_puts(out, ")");
}
