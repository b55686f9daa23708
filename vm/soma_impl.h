/* Behind the handles of soma.h; shared by soma.c and soma_run.c. */
#ifndef VM_SOMA_IMPL_H
#define VM_SOMA_IMPL_H

#include "soma.h"
#include "vm.h"

#include <stdatomic.h>

typedef struct binding { /* host data of an input; holds a reference to the program */
  soma_program *p;
  uint32_t tensor;
  const void *data;
} binding;

struct soma_program {
  isa_program *p;
  isa_alloc al;
  atomic_uint refs; /* the creator's handle, each run, each binding */
};

struct soma_machine {
  soma_options o;
  isa_alloc al;
  vm_kern kern;
  const isa_target *target; /* NULL until the first run when the options name none */
  vm_memory mem;
  vm_costs costs;
  binding *bindings;
  uint32_t nbindings, cap_bindings;
  soma_run *run; /* the one that has not been freed */
  atomic_int interrupted;
  char error[640];
};

struct soma_run {
  soma_machine *m; /* NULL once the machine is gone */
  soma_program *p;
  vm_core core;
  uint64_t to_device, to_host;
};

/* Leaves a message in the machine and gives the status. */
soma_status soma_fail(soma_machine *m, soma_status s, const char *fmt, ...) ISA_PRINTF(3, 4);
soma_status soma_out_of_memory(soma_machine *m);

#endif
