/* The findings of a run. */
#include "../check/check.h"
#include "impl.h"

const char *soma_check_name(soma_check c) { return vm_check_name((unsigned)c); }

uint64_t soma_run_findings(const soma_run *r) { return vm_check_count(&r->core); }

soma_status soma_run_finding(const soma_run *r, uint32_t i, soma_finding *out) {
  const vm_finding *f = vm_check_finding(&r->core, i);
  if (!f) return SOMA_ARG;
  const isa_code *code = &r->core.code->code[f->engine];
  *out = (soma_finding){.check = (soma_check)f->kind,
                        .engine = (soma_engine)f->engine,
                        .pc = f->pc,
                        .time = f->time,
                        .text = f->text.failed || !f->text.data ? "out of memory" : f->text.data};
  if (code->lines && f->pc < code->n && code->lines[f->pc].file) {
    out->line = code->lines[f->pc].line;
    out->file = r->p->p->files[code->lines[f->pc].file - 1];
  }
  return SOMA_OK;
}
