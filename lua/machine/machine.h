/* Programs, machines, runs and devices as Lua objects.
 *
 * Every function here that takes a lua_State may raise a Lua error; memory that must survive one
 * is kept in userdata. */
#ifndef LUA_MACHINE_H
#define LUA_MACHINE_H

#include "../tensor/tensor.h"

/* ---- Programs, machines, runs -------------------------------------------------------------- */

#define LB_PROGRAM "soma.program"
#define LB_CORE "soma.core"
#define LB_RUN "soma.run"
#define LB_READABLE "soma.readable"      /* the metatable of tables that print as text */
#define LB_RUN_METHODS LB_RUN " methods" /* in the registry: the table of its methods */

typedef struct lb_program {
  soma_program *p;
  char *warnings; /* the assembler's, or NULL; from malloc */
  char *name;     /* of the text in LB_PROGRAM_TEXT, or NULL; from malloc */
  bool own;       /* made here: the files that it names may be opened */
  bool closed;    /* by the user; runs may still hold it */
} lb_program;
/* User values: the run's constants, see lb_drop_constants; the text that soma.assemble got, or nil.
 */
enum { LB_PROGRAM_CONSTANTS = 1, LB_PROGRAM_TEXT, LB_PROGRAM_SLOTS = LB_PROGRAM_TEXT };
lb_program *lb_check_program(lua_State *L, int arg);
/* Pushes one that has no handle yet. */
lb_program *lb_new_program(lua_State *L);
/* Index of the program's tensor of that name, -1 if none exists; fills info. */
int lb_program_tensor(const soma_program *p, const char *name, soma_tensor_info *info);
bool lb_program_tile(const soma_program *p, const char *name, soma_tile_info *info);

typedef struct lb_core {
  soma_machine *m; /* NULL after close */
  struct lb_run *current;
  lua_State *running;   /* the thread inside soma_run_until, else NULL */
  int index;            /* stack position of the core in that thread */
  soma_recorder *trace; /* where its events go, or NULL */
  double started;       /* host time at which this stretch of the run began */
  int device;           /* N of neuron:N; LB_CPU when it is not a device */
  bool traces, calls_events;
  soma_recorder_options record; /* of the recorders of its runs */
  lb_budget *budget;            /* of the option max_memory, or NULL */
  struct lb_world *world;       /* whose rank it is, or NULL */
  bool failed;                  /* a callback raised user value LB_CORE_ERROR */
  bool mute;                    /* `print` and `events` are not called */
  const soma_program *logged;   /* of the run whose log is lines of text; NULL: it is tables */
  struct {
    lua_Integer runs, programs;
    lua_Number ns;
  } arithmetic; /* what operators of its tensors have run, and assembled for it */
} lb_core;
/* User values of a core; LB_CORE_PROGRAM: of the run that started last; LB_CORE_INPUTS: a table of
 * the host tensors that its run may use in place, or nil. */
enum {
  LB_CORE_EVENT = 1,
  LB_CORE_PROGRESS,
  LB_CORE_PRINT,
  LB_CORE_ERROR,
  LB_CORE_PROGRAM,
  LB_CORE_INPUTS,
  LB_CORE_CUSTOM, /* a table of custom operators, or nil */
  LB_CORE_LOG,    /* what run:log was given, or nil */
  LB_CORE_SLOTS = LB_CORE_LOG
};
/* The names of soma.core's options; NULL after the last. */
enum { LB_CORE_OPTIONS = 21 };
extern const char *const lb_core_options[LB_CORE_OPTIONS + 1];
/* soma.core{...} */
int lb_new_core(lua_State *L);
/* An open core that is not running. */
lb_core *lb_check_core(lua_State *L, int arg);
/* `{core = 1}` at arg, which may be left out: which core of a pair a call is for. */
unsigned lb_core_number(lua_State *L, int arg, const char *what);
/* A callback of a run: calls fn with the core and arg, in protected mode, in the thread that runs
 * the core. False: it has failed, and the run stops. */
bool lb_call_protected(lb_core *core, lua_CFunction fn, void *arg);
/* core:custom(name, {...}) (custom.c) */
int lb_core_custom(lua_State *L);
/* core.sbuf and core.psum: pushes the memory of the core at index. */
void lb_push_memory(lua_State *L, int index, soma_memory which);
/* core.hbm (hbm.c). */
void lb_push_hbm(lua_State *L, int index);
void lb_open_hbm(lua_State *L);

typedef struct lb_run {
  soma_run *r;                          /* NULL if closed, or if the core has started another run */
  lb_core *core;                        /* kept alive by user value LB_RUN_CORE */
  soma_recorder *trace;                 /* its events, when the core was made with trace = true */
  soma_program *planned;                /* of a rank: what it ran; NULL: its program */
  soma_stats stats;                     /* of a run whose r is NULL */
  soma_stats core_stats[ISA_MAX_CORES]; /* the same of each core */
  bool ended, returns_faults;
  bool bounded; /* the recorder is to keep so many events and no more */
} lb_run;
/* LB_RUN_DEVICE_OUT: the table of output tensors that stay on the device, or nil. */
enum {
  LB_RUN_CORE = 1,
  LB_RUN_PROGRAM,
  LB_RUN_OUT,
  LB_RUN_FAULT,
  LB_RUN_DEVICE_OUT,
  LB_RUN_SLOTS = LB_RUN_DEVICE_OUT
};
lb_run *lb_check_run(lua_State *L, int arg);
/* ---- Worlds of ranks (world.c) ----------------------------------------------------------------
 */

#define LB_WORLD "soma.world"
#define LB_WORLD_METHODS LB_WORLD " methods" /* in the registry: their table */
typedef struct lb_world {
  soma_world *w; /* NULL after close */
  uint32_t ranks;
  lb_core **cores; /* by rank; kept alive by user value LB_WORLD_CORES */
  bool running;
} lb_world;
/* LB_WORLD_RUNS: the table of what runs, or nil. */
enum { LB_WORLD_CORES = 1, LB_WORLD_RUNS, LB_WORLD_SLOTS = LB_WORLD_RUNS };
lb_world *lb_check_world(lua_State *L, int arg);
int lb_world_fail(lua_State *L, const char *what, const lb_world *x);
/* Where a world shall stop; steps: soma_world_step, with all of it, else soma_world_until. */
typedef struct lb_world_goal {
  bool steps;
  soma_until what;
  uint32_t rank;
  unsigned core;
  soma_engine engine;
  soma_time time;
} lb_world_goal;
/* Moves the world at 1, whose table of runs it pushes; the options at 4 say what is done with a
 * fault. */
int lb_world_go(lua_State *L, const char *what, const lb_world_goal *g);
/* The runs in the table at 5 get what they have come to. */
void lb_world_finish(lua_State *L, lb_world *x);
/* world_debug.c */
/* Adds the stops of rank r that hold to the field `stopped` of the table at 5. */
void lb_add_stopped(lua_State *L, const lb_run *run, uint32_t r);
extern const luaL_Reg lb_world_debug_methods[];

/* ---- Tensors on a device (device_tensor.c) -----------------------------------------------------
 */

#define LB_DEVICE_TENSOR "soma.device_tensor"
#define LB_DEVICE_METHODS LB_DEVICE_TENSOR " methods" /* in the registry: their table */
typedef struct lb_device_tensor lb_device_tensor;
/* The tensor at arg when it is on a device, else NULL. */
lb_device_tensor *lb_test_device_tensor(lua_State *L, int arg);
/* Its handle, NULL when it is closed; and its core. */
soma_tensor *lb_device_tensor_handle(const lb_device_tensor *d);
lb_core *lb_device_tensor_core(const lb_device_tensor *d);
/* The size of its first dimension. */
int64_t lb_device_tensor_rows(const lb_device_tensor *d);
/* Whether its elements lie one after another, so that a run can take it. */
bool lb_device_tensor_dense(const lb_device_tensor *d);
/* The functions that arithmetic.lua needs. */
extern const luaL_Reg lb_arithmetic_functions[];
/* Pushes a new zeroed tensor in the HBM of the core at core_index; raises an error when HBM is
 * exhausted, with the sizes. */
lb_device_tensor *lb_new_device_tensor(lua_State *L, int core_index, const char *what,
                                       unsigned dtype, unsigned ndim, const int64_t *shape);

/* ---- Devices (device.c) -------------------------------------------------------------------- */

/* Pushes the core that is the device, made with default options if none exists. */
lb_core *lb_push_device(lua_State *L, int device);
/* prog:move_to_device(device or core), and prog:drop_from_device(device or core) (hbm.c). */
int lb_move_to_device(lua_State *L);
int lb_drop_from_device(lua_State *L);
/* Drops the constants of the program at 1 from every core. */
void lb_drop_constants(lua_State *L);
/* Makes the core at index the device; raises an error when another open core is. */
void lb_register_device(lua_State *L, int index, int device);
void lb_forget_device(lua_State *L, int device);

/* ---- Worlds (world.c) ---------------------------------------------------------------------- */

extern const luaL_Reg lb_world_functions[];
void lb_open_world(lua_State *L);
/* Push rows of a world (world_rows.c): collectives of all ranks, links, what checks have found. */
void lb_push_collectives(lua_State *L, const soma_world *w);
void lb_push_links(lua_State *L, const soma_world *w);
void lb_push_world_findings(lua_State *L, const soma_world *w);
/* core, program, inputs or nil, options or nil: binds them, and gives a run that has no handle. */
int lb_run_prepare(lua_State *L);
/* Pushes a run of the core and the program at these indices that comes from a file and has no
 * handle yet; the core's run before it is over. Then, with its handle, it is the core's. */
lb_run *lb_run_push(lua_State *L, int core, int program);
void lb_run_resumed(lua_State *L, int core, int program, int run);
/* The run at index has moved, with that status: its outputs if it has ended, its fault; raised
 * unless faults are returned. */
void lb_run_moved(lua_State *L, int index, soma_status s);

/* core:run, core:start and core:resume. */
int lb_core_run(lua_State *L);
int lb_core_start(lua_State *L);
int lb_core_resume(lua_State *L);
/* Frees the machine's run; its statistics are kept. */
void lb_run_detach(lb_run *run);
soma_stats lb_run_stats(const lb_run *run);
soma_stats lb_run_core_stats(const lb_run *run, unsigned core); /* core: below stats.cores */

/* A state of a run or of a world that one can go back to (debug.c); both NULL: closed. */
typedef struct lb_snapshot {
  soma_snapshot *of_run;
  soma_world_snapshot *of_world;
  soma_time time;
} lb_snapshot;
/* Pushes one that has no state yet. */
lb_snapshot *lb_new_snapshot(lua_State *L, soma_time time);
/* An open one of a world, or of a run. */
const lb_snapshot *lb_check_snapshot(lua_State *L, int arg, bool of_world);
/* Stops, snapshots, a log (debug.c); what made the run pause, as a sequence. */
extern const luaL_Reg lb_debug_methods[];
/* Other functions of a run that the debugger in Lua needs. */
extern const luaL_Reg lb_debug_functions[];
void lb_push_hits(lua_State *L, const lb_run *run);
void lb_open_debug(lua_State *L);
/* prog:instructions, prog:loop, prog:semaphores, prog:queues (map.c). */
int lb_program_instructions(lua_State *L);
int lb_program_loop(lua_State *L);
int lb_program_semaphores(lua_State *L);
int lb_program_queues(lua_State *L);

/* What a run has done, as a text and as a table (stats.c). */
int lb_run_summary(lua_State *L);
void lb_push_stats(lua_State *L, const lb_run *run);
/* What a run's status means for its fault: "limit", "deadlock" ... */
const char *lb_fault_kind(soma_status s);
/* Pushes the fault of a run as a table with a __tostring. */
void lb_push_fault(lua_State *L, const soma_run *r);
/* Pushes the list of what the checks of a run have found; r may be NULL. */
void lb_push_findings(lua_State *L, const soma_run *r);
void lb_push_schedules(lua_State *L, soma_run *r);

/* Pictures of a recorded run (trace.c): run:save_trace, save_html, save_table, timeline. */
extern const luaL_Reg lb_trace_methods[];
/* The recorder of the run at 1, with the run's figures, and the program that ran; raises an error
 * that begins with what. */
soma_recorder *lb_recorded(lua_State *L, const char *what, const soma_program **p);
/* Pushes soma.checks: {name, text, usual} of each. */
void lb_push_checks(lua_State *L);
/* runs:save_trace(path): of what a world's run gives, all ranks in one trace. */
int lb_save_trace_of_ranks(lua_State *L);
int lb_save_html_of_ranks(lua_State *L);
/* A soma_write_fn into the luaL_Buffer ud. */
int lb_to_buffer(void *ud, const char *p, size_t n);

/* Where the time went (profile.c): run:critical_path, idle_gaps, explain_time; soma.costs. */
extern const luaL_Reg lb_profile_methods[], lb_profile_functions[];
/* The option `trace` of core{...}: a boolean or a table of limits. True: record, as *out says. */
bool lb_trace_option(lua_State *L, int arg, soma_recorder_options *out);
/* The option `costs` of core{...} goes into m: a text, or a table of values by name. */
void lb_costs_option(lua_State *L, int arg, soma_machine *m);

extern const luaL_Reg lb_program_functions[], lb_core_functions[], lb_device_functions[];
/* t:to of host tensors, and the functions that lua/tensor needs of devices: for lt_open. */
extern const luaL_Reg lb_tensor_methods[];
extern const lt_devices lb_tensor_devices;
void lb_open_program(lua_State *L);
void lb_open_core(lua_State *L);
void lb_open_device(lua_State *L);
void lb_open_memory(lua_State *L);
void lb_open_run(lua_State *L);
void lb_open_stats(lua_State *L);

#endif
