/* What the files of the Lua module share: argument checks, option tables, files, tensors.
 *
 * Every function here that takes a lua_State may raise a Lua error; memory that must survive one
 * sits in userdata. Positions in messages are those of the Lua caller (luaL_error, level 1). */
#ifndef LUA_BIND_H
#define LUA_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <stdarg.h>
#include <stdio.h>

#include "../isa/isa.h"
#include "../vm/api/soma.h"

LUAMOD_API int luaopen_soma(lua_State *L);

/* ---- Arguments (bind.c) -------------------------------------------------------------------- */

/* Checks that the value at arg is nil or a table whose keys are all in known; raises an error
 * that names the unknown one and the known ones. True when there is a table. */
bool lb_options(lua_State *L, int arg, const char *what, const char *const *known);
/* The named option of the table at arg (absent table: nil) is pushed; its type is returned. */
int lb_option(lua_State *L, int arg, const char *name);
/* Options by type; fallback when absent. Strings stay valid while the table holds them. */
const char *lb_string(lua_State *L, int arg, const char *what, const char *name);
bool lb_bool(lua_State *L, int arg, const char *what, const char *name, bool fallback);
double lb_number(lua_State *L, int arg, const char *what, const char *name, double fallback);
lua_Integer lb_integer(lua_State *L, int arg, const char *what, const char *name, lua_Integer lo,
                       lua_Integer hi, lua_Integer fallback);
/* An engine given by name; raises an argument error that lists them. */
int lb_engine(lua_State *L, int arg);
/* The engine of that name, or -1; the error says LB_NO_ENGINE of it. */
int lb_engine_named(const char *name);
#define LB_NO_ENGINE "'%s' is no engine; there are: tensor, vector, scalar, gpsimd, sync"
/* `name` when there is such a target (or NULL); else raises an error that lists them. */
const char *lb_target(lua_State *L, const char *what, const char *name);
/* The name nearest to `name` in the list, or NULL. */
const char *lb_nearest(const char *name, const char *const *known);
/* A dtype given by name; raises an argument error that suggests the nearest one. */
unsigned lb_dtype(lua_State *L, int arg);
/* The same of an optional argument or of the option "dtype"; fallback when absent. */
unsigned lb_dtype_or(lua_State *L, int arg, unsigned fallback);
unsigned lb_dtype_option(lua_State *L, int arg, const char *what, unsigned fallback);
/* What a message calls the value: its class, or its type. */
const char *lb_type_name(lua_State *L, int index);
/* Raises "what: text" for a failed call on m; the status text alone when m is NULL. */
int lb_fail(lua_State *L, const char *what, const soma_machine *m, soma_status s);

/* ---- Files (file.c) ------------------------------------------------------------------------ */

/* A file being written. It appears under its name, complete, at lb_file_commit; until then, and
 * after an error, what was there before is untouched. A userdata, collected on errors. */
typedef struct lb_file {
  FILE *f;
  char *name, *path; /* as given, and with links followed */
  char *temp;        /* NULL: the path is a device or a pipe, written in place */
  bool lent;         /* f belongs to someone else, see lb_forbid_files */
} lb_file;
/* Pushes a new file; NULL with nil and a message pushed when it cannot be opened. */
lb_file *lb_file_create(lua_State *L, const char *path);
/* Closes and renames. False with nil and a message pushed when that failed. */
bool lb_file_commit(lua_State *L, lb_file *f);
/* Takes a table from the top of the stack. From now on every function of the module that would open
 * a file by its name, or start a process, raises an error (lb_need_files), for scripts that are not
 * trusted; only names in the table may be written, to the open file that it has there, a
 * LUA_FILEHANDLE. */
void lb_forbid_files(lua_State *L);
bool lb_files_forbidden(lua_State *L);
void lb_need_files(lua_State *L, const char *path);
/* A path argument: a string, not a number, without zero bytes. */
const char *lb_path(lua_State *L, int arg);
/* Pushes a file opened for reading; NULL with nil and a message pushed when it cannot be. */
lb_file *lb_file_open(lua_State *L, const char *path);
/* Closes a file early; what was written to it is dropped. */
void lb_file_close(lb_file *f);
/* Pushes a whole file as a string. False with nil and a message pushed on failure. */
bool lb_read_file(lua_State *L, const char *path);
void lb_open_file(lua_State *L);

/* ---- Memory (budget.c) --------------------------------------------------------------------- */

/* Bytes that allocators of Lua states and of machines may take together. */
typedef struct lb_budget {
  size_t limit, used;       /* limit 0: none */
  struct lb_budget *parent; /* which has to have room as well, or NULL */
  bool dropped;             /* by its owner: goes with the last block */
} lb_budget;
/* A lua_Alloc and a soma_alloc_fn, with the budget as ud. */
void *lb_budget_alloc(void *ud, void *p, size_t old, size_t n);
/* A budget under that of the state's allocator, if it has one; NULL when memory is out. */
lb_budget *lb_budget_new(lua_State *L, size_t limit);
/* Frees b when nothing is charged to it any more; NULL does nothing. */
void lb_budget_drop(lb_budget *b);
/* Sets the allocator of a machine or a recorder to b or, when it is NULL, to the state's budget;
 * leaves it where neither has a limit. */
void lb_use_budget(lua_State *L, lb_budget *b, soma_alloc_fn *fn, void **ud);

/* ---- Programs, machines, runs -------------------------------------------------------------- */

#define LB_PROGRAM "soma.program"
#define LB_CORE "soma.core"
#define LB_RUN "soma.run"

typedef struct lb_program {
  soma_program *p;
  char *warnings; /* the assembler's, or NULL; from malloc */
  bool closed;    /* by the user; runs may still hold it */
} lb_program;
lb_program *lb_check_program(lua_State *L, int arg);
/* Pushes one that has no handle yet. */
lb_program *lb_new_program(lua_State *L);
/* Index of the program's tensor of that name, -1 when there is none; fills info. */
int lb_program_tensor(const soma_program *p, const char *name, soma_tensor_info *info);
bool lb_program_tile(const soma_program *p, const char *name, soma_tile_info *info);
/* Pushes a sequence of n dimensions. */
void lb_push_shape(lua_State *L, uint32_t n, const int64_t *shape);

typedef struct lb_core {
  soma_machine *m; /* NULL after close */
  struct lb_run *current;
  lua_State *running;   /* the thread inside soma_run_until, else NULL */
  int index;            /* stack position of the core in that thread */
  soma_recorder *trace; /* where its events go, or NULL */
  double started;       /* host time at which this stretch of the run began */
  int device;           /* N of neuron:N; LB_CPU when it is no device */
  bool traces, calls_events;
  soma_recorder_options record; /* of the recorders of its runs */
  lb_budget *budget;            /* of the option max_memory, or NULL */
  bool failed;                  /* a callback raised user value LB_CORE_ERROR */
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
  LB_CORE_SLOTS = LB_CORE_CUSTOM
};
enum { LB_CPU = -1 };
/* soma.core{...} */
int lb_new_core(lua_State *L);
/* An open core that is not running. */
lb_core *lb_check_core(lua_State *L, int arg);
/* Lets the collector know of n bytes that its own count misses. */
void lb_account(lua_State *L, uint64_t n);
/* core:custom(name, {...}) (custom.c) */
int lb_core_custom(lua_State *L);
/* core.sbuf and core.psum: pushes the memory of the core at index. */
void lb_push_memory(lua_State *L, int index, soma_memory which);
/* core.hbm (hbm.c). */
void lb_push_hbm(lua_State *L, int index);
void lb_open_hbm(lua_State *L);
double lb_host_seconds(void);

typedef struct lb_run {
  soma_run *r;          /* NULL when closed, or when the core has gone on to another run */
  lb_core *core;        /* kept alive by user value LB_RUN_CORE */
  soma_recorder *trace; /* its events, when the core was made with trace = true */
  soma_stats stats;     /* of a run whose r is NULL */
  bool ended, returns_faults;
  bool bounded; /* the recorder was told to keep so many events and no more */
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
/* ---- Devices (device.c) -------------------------------------------------------------------- */

/* N of "neuron:N", LB_CPU of "cpu" and of NULL; raises an error for anything else. */
int lb_device(lua_State *L, const char *what, const char *name);
/* The same of the option `device` of the table at arg. */
int lb_device_option(lua_State *L, int arg, const char *what);
const char *lb_push_device_name(lua_State *L, int device);
/* Pushes the core that is the device, made with default options when there is none. */
lb_core *lb_push_device(lua_State *L, int device);
/* prog:move_to_device(device or core), and prog:drop_from_device(device or core) (hbm.c). */
int lb_move_to_device(lua_State *L);
int lb_drop_from_device(lua_State *L);
/* Drops the constants of the program at 1 from every core. */
void lb_drop_constants(lua_State *L);
/* Makes the core at index the device; raises an error when another open core is. */
void lb_register_device(lua_State *L, int index, int device);
void lb_forget_device(lua_State *L, int device);
/* Moves the host tensor on the top to the device, if it is one. Returns 1. */
int lb_place(lua_State *L, int device, const char *what);

/* core:run, core:start and core:resume. */
int lb_core_run(lua_State *L);
int lb_core_start(lua_State *L);
int lb_core_resume(lua_State *L);
/* Lets go of the machine's run; its statistics are kept. */
void lb_run_detach(lb_run *run);
soma_stats lb_run_stats(const lb_run *run);

/* What a run has done, as a text and as a table (stats.c). */
int lb_run_summary(lua_State *L);
void lb_push_stats(lua_State *L, const lb_run *run);
/* Pushes the fault of a run as a table with a __tostring. */
void lb_push_fault(lua_State *L, const soma_run *r);
/* Pushes the list of what the checks of a run have found; r may be NULL. */
void lb_push_findings(lua_State *L, const soma_run *r);

/* Pictures of a recorded run (trace.c): run:save_trace, save_html, save_table, timeline. */
extern const luaL_Reg lb_trace_methods[];
/* The recorder of the run at 1, with the run's figures, and the program that ran; raises an error
 * that begins with what. */
soma_recorder *lb_recorded(lua_State *L, const char *what, const soma_program **p);
/* A soma_write_fn into the luaL_Buffer ud. */
int lb_to_buffer(void *ud, const char *p, size_t n);

/* Where the time went (profile.c): run:critical_path, idle_gaps, explain_time; soma.costs. */
extern const luaL_Reg lb_profile_methods[], lb_profile_functions[];
/* The option `trace` of core{...}: a boolean or a table of limits. True: record, as *out says. */
bool lb_trace_option(lua_State *L, int arg, soma_recorder_options *out);
/* The option `costs` of core{...} goes into m: a text, or a table of values by name. */
void lb_costs_option(lua_State *L, int arg, soma_machine *m);

/* Pushes soma.isa: the ISA's tables (isa.c). */
void lb_push_isa(lua_State *L);

extern const luaL_Reg lb_program_functions[], lb_core_functions[], lb_device_functions[];
void lb_open_program(lua_State *L);
void lb_open_core(lua_State *L);
void lb_open_device(lua_State *L);
void lb_open_memory(lua_State *L);
void lb_open_run(lua_State *L);
void lb_open_stats(lua_State *L);

/* Registers a metatable of that name with these methods in __index; leaves nothing. */
void lb_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods);

/* ---- Parts in Lua (parts.c, process.c) ------------------------------------------------------- */

/* soma.sweep, of the module on the top of the stack. */
void lb_open_parts(lua_State *L);
void lb_open_process(lua_State *L);
extern const luaL_Reg lb_process_functions[];

#endif
