/* The message about an operand that a register or an element has moved out of its bounds:
 *
 *   x[r0:+128] with r0 = 896 is rows 896..1023; x has rows 0..999 (round 8 of the loop at a.s:9) */
#include "engine.h"
#include "../../isa/flow.h"

void vm_put_bounds(vm_resolver *r, uint32_t index, const int64_t *moved, const isa_bounds *b) {
  const vm_core *c = r->c;
  const isa_ap *ap = &c->code->aps[index - 1];
  isa_buf text;
  isa_buf_init(&text, &c->al);
  isa_put_bounds(c->prog, c->number, index, ap->size_dim ? r->e->regs[ap->size_reg] : 0, moved, b,
                 &text);
  if (!r->e->recall) vm_put_round(c, r->e->dp.engine, r->e->pc, &text);
  isa_fail(r->err, ISA_FAULT, ISA_NOFIELD, "%s", isa_buf_str(&text));
  isa_buf_free(&text);
}

void vm_put_round(const vm_core *c, unsigned e, uint32_t pc, isa_buf *out) {
  const vm_engine *en = &c->eng[e];
  isa_loop l;
  /* Only instructions that leave the fast loop are counted; and only in a loop does the round say
   * anything. */
  if (!en->ran || pc >= en->code->n || en->uops[pc].op != VM_U_STOP ||
      !isa_loop_around(en->code, pc, &l))
    return;
  /* The one that is about to run. */
  unsigned long long round = (unsigned long long)en->ran[pc] + 1;
  isa_buf_printf(out, " (round %llu%s of the loop at ", round, l.nested ? " in all" : "");
  if (en->code->lines && en->code->lines[l.head].file)
    vm_put_site(c, e, l.head, out); /* without macro calls: the message has them already */
  else
    vm_put_pc(c, e, l.head, out);
  isa_buf_puts(out, ")");
}
