/* The second core of a run: it is made with the first program of two cores; and the calls that
 * reach it. */
#include "impl.h"

vm_core *soma_core_of(soma_run *r, unsigned core) { return core ? r->second : &r->core; }

soma_status soma_pair_start(soma_machine *m, soma_run *r, vm_memory *second, isa_error *e) {
  const isa_program *p = r->core.prog;
  if (p->ncores < 2) return SOMA_OK;
  if (!second->sbuf && !vm_memory_new(&m->al, p->target, second)) return SOMA_NOMEM;
  r->second = vm_pages_new(&m->al, sizeof *r->second);
  if (!r->second) return SOMA_NOMEM;
  r->second->number = 1;
  r->second->peer = &r->core;
  vm_memory mem = *second;
  mem.hbm = &m->hbm;
  mem.threads = &m->threads;
  soma_status s =
      (soma_status)vm_core_start(r->second, &m->al, p, &mem, &m->kern, r->core.eng[0].dp.cvt, e);
  if (s == SOMA_OK) {
    r->core.peer = r->second;
    return s;
  }
  vm_pages_free(&m->al, r->second, sizeof *r->second);
  r->second = NULL;
  return s;
}

void soma_pair_end(soma_run *r) {
  if (!r->second) return;
  isa_alloc al = r->second->al;
  vm_core_end(r->second);
  vm_pages_free(&al, r->second, sizeof *r->second);
  r->second = NULL;
  r->core.peer = NULL;
}

soma_status soma_need_core(soma_machine *m, unsigned core, bool changes, vm_core **out) {
  *out = NULL;
  soma_status s = changes ? soma_not_running(m) : soma_not_calling(m);
  if (s != SOMA_OK) return s;
  if (!m->run) return soma_fail(m, SOMA_ARG, "the machine has no run");
  if (core >= m->run->core.prog->ncores)
    return soma_fail(m, SOMA_ARG, "core %u does not exist: the program of the run has %u", core,
                     m->run->core.prog->ncores);
  *out = soma_core_of(m->run, core);
  return SOMA_OK;
}

unsigned soma_program_cores(const soma_program *p) { return p ? p->p->ncores : 0; }
