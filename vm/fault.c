/* Faults of the simulated program. */
#include "parts.h"

void vm_fault(vm_core *c, isa_status status, int engine, int dma, uint32_t pc, const char *fmt,
              ...) {
  vm_fault_record *f = &c->fault;
  if (f->status != ISA_OK) return; /* the first fault is the one to read */
  f->status = status;
  f->engine = engine;
  f->dma_engine = dma;
  f->pc = pc;
  f->time = c->now;
  f->has_pc = engine >= 0;
  if (engine >= 0 && pc < c->code->code[engine].n)
    isa_print_insn(c->prog, 0, (unsigned)engine, &c->code->code[engine].insns[pc], &f->insn);
  va_list ap;
  va_start(ap, fmt);
  isa_buf_vprintf(&f->text, fmt, ap);
  va_end(ap);
  if (status == ISA_LIMIT) vm_standing(c, &f->text);
  c->ended = true;
}
