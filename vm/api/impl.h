/* What the handles of soma.h point to, for the files of this folder. */
#ifndef VM_SOMA_IMPL_H
#define VM_SOMA_IMPL_H

#include "../../isa/operand.h"
#include "../time/clock.h"
#include "../check/check.h"
#include "../dma/hbm.h"
#include "../save/save.h"
#include "../work/work.h"
#include "soma.h"
#include "../vm.h"

#include <stdatomic.h>

/* What a tensor of a program is bound to: host data, or a device tensor. A binding holds a
 * reference to the device tensor, and to the program. */
typedef struct soma_bound_tensor {
  soma_program *p;
  uint32_t tensor;
  bool shared;      /* data may be used in place */
  const void *data; /* NULL without device: only the first dimension is given */
  soma_tensor *device;
  int64_t rows; /* its first dimension */
} soma_bound_tensor;

/* A program whose constants stay on the device: it holds a reference to both. */
typedef struct soma_resident {
  soma_program *p;
  soma_tensor **consts; /* by tensor of p: NULL for those that are not const */
} soma_resident;

struct soma_tensor {
  soma_machine *m;          /* NULL once the machine is gone */
  soma_tensor *base;        /* of a view: the tensor that block is a part of, with a reference; else
                               NULL */
  soma_tensor *next, *prev; /* of the machine's */
  isa_alloc al;
  /* Its bytes, and their address in the machine's HBM; of a view: a part of the base's. */
  vm_block block;
  uint32_t ndim, refs; /* refs: the creator's handle, each binding, each run */
  int64_t shape[ISA_TENSOR_DIMS];
  soma_dtype dtype;
  char name[64]; /* in listings */
};

struct soma_program {
  isa_program *p;
  isa_alloc al;
  atomic_uint refs;     /* the creator's handle, each run, each binding */
  bool planned;         /* as one that has been checked, by the planner of a world */
  atomic_ullong pieces; /* that snapshots of its runs have copied: the last one's number */
};

typedef struct soma_custom_entry { /* an operator of the host */
  char *name;
  size_t n;
  soma_custom_op op;
} soma_custom_entry;

struct soma_machine {
  soma_options o;
  isa_alloc al;
  vm_kern kern;
  isa_target own_target;        /* target, of a hypothetical machine */
  const isa_target *target;     /* NULL until the first run if the options name no target */
  vm_memory mem[ISA_MAX_CORES]; /* core 1's from the first program of two cores on */
  /* Where addresses are taken and bandwidth is shared. */
  vm_stack own_stack, *stack; /* stack and hbm: its own, or of the rank that it shares them with */
  vm_work threads;
  vm_pool *pool; /* NULL if the caller gave an allocator: then freed memory goes back at once */
  vm_costs costs;
  soma_bound_tensor *bindings;
  /* In the order of the calls; each run uses up those of its program. */
  uint32_t nbindings, cap_bindings;
  soma_tensor *tensors;
  vm_hbm own_hbm, *hbm;     /* of trn2 until the target is known */
  struct soma_world *world; /* whose rank it is; NULL: it is no rank */
  soma_resident *residents;
  uint32_t nresidents, cap_residents;
  /* What soma_traffic says, beyond the life of runs. */
  uint64_t to_device, to_host; /* bytes copied since the machine was made */
  soma_run *run;               /* the one that has not been freed */
  soma_custom_entry *customs;  /* changed only while no run can continue */
  uint32_t ncustoms, cap_customs;
  bool calling; /* one of them */
  bool running; /* soma_run_until is running: callbacks come from it */
  bool away;    /* SBUF and PSUM are those of the process that has moved this rank of a world */
  atomic_int interrupted;
  char error[2048];
};

struct soma_run {
  soma_machine *m; /* NULL once the machine is gone or has another run */
  soma_program *p;
  isa_program *sized; /* p with the sizes of this run; NULL if p leaves none to the run */
  vm_run run;
  soma_tensor **device;  /* by tensor of p: what it is bound to; NULL if no tensor is bound */
  soma_result **results; /* by tensor of p: the result that got its memory; NULL if none exists */
  /* Bytes that this run has copied: part of its statistics. */
  uint64_t to_device, to_host;
  uint64_t fetched_late;  /* bytes to the host after the run had ended: not part of its saved
                             state */
  bool away;              /* its tensors but inputs and outputs, as the machine's memories */
  vm_schedules schedules; /* its text is empty until they are judged */
  isa_buf *found;         /* [VM_FINDINGS]: texts of findings; NULL: none was asked for */
  soma_log_fn log;        /* NULL: none */
  void *log_ud;
};

/* Frees the texts of findings that were asked for. */
void soma_drop_found(soma_run *r);
/* The text of finding i, without a newline at its end. */
const char *soma_found_text(const soma_run *r, uint32_t i);
/* Whether m and the pointers that follow are given: names has their names, separated by spaces. If
 * one is NULL, m's message says which. */
bool soma_given(soma_machine *m, const char *names, ...);
/* Leaves a message in the machine and returns the status. */
soma_status soma_fail(soma_machine *m, soma_status s, const char *fmt, ...) ISA_PRINTF(3, 4);
soma_status soma_out_of_memory(soma_machine *m);
/* Copies a text to the room that a caller's options have for it, if any; returns s. */
soma_status soma_tell(char *to, size_t size, soma_status s, const char *text);
/* A program's handle, which takes over ip even if it returns NULL: out of memory. */
soma_program *soma_program_of(const isa_alloc *al, isa_program *ip);
/* The same for a call on m, which then has the message. */
soma_status soma_wrap(soma_machine *m, isa_program *ip, soma_program **p);
/* One error as diagnostics; NULL if out of memory. */
soma_diagnostics *soma_diagnostics_of(const isa_alloc *al, const char *text);
/* *out is the binding of p's tensor of that name, made if none exists; SOMA_ARG with a message if
 * there is no such tensor, it is const, or its type or shape is different. */
soma_status soma_binding(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                         uint32_t ndim, const int64_t *shape, soma_bound_tensor **out);
/* The memories are made for a target at the first run if the options left it open. */
soma_status soma_fit_target(soma_machine *m, const isa_target *t);
/* soma_tensor_new with an owner and a name for listings; NULL: its type and shape. */
soma_status soma_tensor_place(soma_machine *m, soma_dtype dtype, uint32_t ndim,
                              const int64_t *shape, vm_hbm_owner owner, const char *name,
                              soma_tensor **out);
/* The constants of p that stay on m's device, by tensor; NULL if none do. */
soma_tensor *const *soma_residents(const soma_machine *m, const soma_program *p);
/* Sets written[i] of each tensor i that some instruction of p may write. */
void soma_mark_written(const isa_program *p, bool *written);
/* Starts r->run in mem, by core, of which those are made that are not there yet. given: as in
 * vm_host. On failure nothing is left but the memories. */
soma_status soma_start_cores(soma_machine *m, soma_run *r, const isa_program *p, vm_memory *mem,
                             const vm_block *given, unsigned cvt, isa_error *e);
void soma_seed_rounding(soma_run *r, uint64_t seed);
/* Whether p may run on m: the target, every rule of the machine, and the custom operators. */
soma_status soma_run_check(soma_machine *m, const soma_program *p);
/* Gives a run what the options say about its surroundings: callbacks, limits, interruption. */
void soma_run_options(soma_run *r);
/* *i is the tensor of that name, for a caller who wants its bytes; SOMA_ARG with a message if there
 * is no such tensor, SOMA_BUSY in a callback. */
soma_status soma_find_tensor(soma_run *r, const char *name, uint32_t *i);
/* n bytes of r have gone to the host. */
void soma_count_to_host(soma_run *r, uint64_t n);
/* Frees the references of r to what it has handed over. (result.c) */
void soma_drop_results(const isa_alloc *al, soma_run *r);
/* Gives back a run's addresses in HBM. */
void soma_release(soma_run *r);
/* Takes a run from its machine, which is about to be freed: the run has ended. */
void soma_run_leave(soma_run *r);

/* Fills the caller's struct of n bytes from this version's. */
soma_status soma_give(void *out, size_t n, const void *from, size_t size);

/* ---- rows.c ---- */

/* Makes r->sized from what p's tensors are bound to, if p leaves sizes to the run. */
soma_status soma_find_rows(soma_machine *m, const soma_program *p, soma_run *r);
/* The same from rows, by tensor. */
soma_status soma_size_run(soma_machine *m, const isa_program *p, const int64_t *rows, soma_run *r);
void soma_unsize_run(const isa_alloc *al, soma_run *r);
/* The program that r's cores run. */
static inline const isa_program *soma_sized(const soma_run *r, const isa_program *p) {
  return r->sized ? r->sized : p;
}
void soma_load_rows(soma_run *r); /* into the registers of a run that starts */
/* In the file of a saved run, after its program: u64 of each tensor of such a size. */
void soma_save_rows(vm_saver *s, const soma_run *r);
soma_status soma_read_rows(soma_machine *m, const isa_program *p, vm_saver *s, soma_run *r);

/* ---- save.c ---- */

/* The kinds of files, which begin alike. */
typedef struct soma_file_kind {
  const char *magic, *what; /* magic: 8 bytes */
  uint16_t layout;          /* raised whenever what it has is written differently */
} soma_file_kind;
extern const soma_file_kind soma_run_file, soma_world_file;
enum { SOMA_FILE_HEADER = 40 };
void soma_begin_file(isa_buf *b, const soma_file_kind *kind);
void soma_end_file(isa_buf *b);
/* Whether data is a whole file of that kind and of this version; else e says what is wrong. */
bool soma_check_file(const soma_file_kind *kind, const void *data, size_t n, isa_error *e);
/* In a file each tensor has bytes of its own, so two names for the same memory would become two:
 * then SOMA_ARG. */
soma_status soma_check_own_bytes(soma_run *r);
/* Whether a run is between two events from which it can continue. */
soma_status soma_check_savable(soma_run *r);
/* Its length and its image. */
void soma_put_program(isa_buf *b, isa_program *p);
/* What a run is started with, and its state. read: r is all zero, mem empty, `given` NULL or blocks
 * for tensors; then soma_adopt gives the machine the run, which has that program, and its memories.
 * On failure soma_read_head leaves nothing; soma_read_walk a run that can only be freed. */
vm_save_options soma_save_options(const vm_run *r);
void soma_save_head(vm_saver *s, const soma_run *r);
soma_status soma_read_head(soma_machine *m, const isa_program *p, vm_saver *s, soma_run *r,
                           vm_memory *mem, vm_block *given);
soma_status soma_read_walk(vm_saver *s, soma_run *r);
/* Checks that a machine asks for must be those that the saved run began with. */
bool soma_has_checks(const soma_run *r, unsigned checks, isa_error *e);
void soma_adopt(soma_machine *m, soma_program *p, soma_run *r, const vm_memory *mem);
void soma_free_memories(soma_machine *m, vm_memory *mem);

/* What a saved run has after its program, to or from s. SOMA_ARG if r cannot be saved now. */
soma_status soma_state_write(soma_run *r, vm_saver *s);
/* *r becomes a run of that state and has the stops and the log of the old one, which is freed; on
 * failure it is as it was. `from`: the snapshot that s reads, NULL: it reads a file. */
soma_status soma_state_read(soma_run **r, vm_saver *s, const soma_snapshot *from);

/* ---- world.c ---- */

/* Whether each collective of a program that is about to run on m has a CC sequencer's block, and
 * its peers a world. */
bool soma_world_check(const soma_machine *m, const isa_program *p, isa_place *at, isa_error *e);
/* A run of w is about to be freed: the world cannot go on. */
void soma_world_leave(soma_world *w, const soma_run *r);
/* spread.c: SBUF and PSUM of a rank that another process has moved, and its temporary tensors, come
 * to all processes, which must all ask. */
soma_status soma_bring_memories(soma_machine *m);
soma_status soma_bring_tensor(soma_run *r, uint32_t tensor);
/* A machine of w is about to be freed. */
void soma_world_lose(soma_world *w, soma_machine *m);
/* From now on what is bound to tensors of p is bound to those of the same numbers of `to`. (run.c)
 */
void soma_rebind(soma_machine *m, soma_program *p, soma_program *to);
/* Turns on the checks that m's options ask for, for a run that has just started; of a world: when
 * all its ranks have. False: out of memory. (run.c) */
bool soma_start_checks(const soma_machine *m, vm_run *run);
/* What a machine's options ask for that is not built where CC sequencers run; NULL: nothing. */
const char *soma_not_for_ranks(const soma_options *o);

/* ---- snapshot.c ---- */

/* The blocks of r's own tensors, for a run that is to have the same program: by tensor, without
 * data where the block is not r's alone. Until soma_fill_blocks they stay r's and as they are. To
 * be freed by the caller; NULL: there are no tensors, or no memory. */
vm_block *soma_lend_blocks(const soma_run *r);
/* r, which has started in blocks of `old`, takes them over, with what the snapshot has. */
void soma_fill_blocks(soma_run *r, soma_run *old, const soma_snapshot *s);

/* ---- state.c ---- */

/* That core of m's run, for the host to look at or, with changes, to write to. */
soma_status soma_need_core(soma_machine *m, unsigned core, bool changes, vm_core **out);

/* ---- custom.c ---- */

/* SOMA_OK, or SOMA_BUSY with a message while an operator is being called. */
soma_status soma_not_calling(soma_machine *m);
/* SOMA_OK, or SOMA_BUSY with a message while soma_run_until is at work, from which a callback came.
 */
soma_status soma_not_running(soma_machine *m);
/* Whether every custom_op of the program is registered with such operands; else the place and the
 * error. The program has passed isa_check_program. */
bool soma_customs_check(const soma_machine *m, const isa_program *p, isa_place *at, isa_error *e);
void soma_customs_free(soma_machine *m);
/* The hooks of a run, ud: what an operator costs, and its call. */
uint64_t soma_custom_cycles(void *ud, const struct vm_CUSTOM *a);
vm_verdict soma_custom_run(void *ud, vm_dp *d, const struct vm_CUSTOM *a);

#endif
