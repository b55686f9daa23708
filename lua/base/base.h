/* What the rooms of the Lua module share: argument checks, option tables, files, memory limits.
 *
 * Every function here that takes a lua_State may raise a Lua error; memory that must survive one
 * is kept in userdata. Positions in messages are those of the Lua caller (luaL_error, level 1). */
#ifndef LUA_BASE_H
#define LUA_BASE_H

#include <lauxlib.h>
#include <lua.h>
#include <stdarg.h>
#include <stdio.h>

#include "../../isa/target.h"
#include "../../vm/api/soma.h"

/* ---- Arguments (args.c) -------------------------------------------------------------------- */

/* Checks that the value at arg is nil or a table whose keys are all in known; raises an error
 * that names the unknown key and the known ones. True if there is a table. */
bool lb_options(lua_State *L, int arg, const char *what, const char *const *known);
/* The named option of the table at arg (absent table: nil) is pushed; its type is returned. */
int lb_option(lua_State *L, int arg, const char *name);
/* Options by type; fallback when absent. Strings stay valid while the table holds them. */
const char *lb_string(lua_State *L, int arg, const char *what, const char *name);
bool lb_bool(lua_State *L, int arg, const char *what, const char *name, bool fallback);
double lb_number(lua_State *L, int arg, const char *what, const char *name, double fallback);
lua_Integer lb_integer(lua_State *L, int arg, const char *what, const char *name, lua_Integer lo,
                       lua_Integer hi, lua_Integer fallback);
/* The argument as an integer from lo to hi; raises an error with its value for any other. What is
 * narrower than lua_Integer is taken by this alone. */
lua_Integer lb_within(lua_State *L, int arg, lua_Integer lo, lua_Integer hi);
static inline uint32_t lb_u32(lua_State *L, int arg) {
  return (uint32_t)lb_within(L, arg, 0, UINT32_MAX);
}
static inline int32_t lb_i32(lua_State *L, int arg) {
  return (int32_t)lb_within(L, arg, INT32_MIN, INT32_MAX);
}
/* An engine given by name; raises an argument error that lists them. */
int lb_engine(lua_State *L, int arg);
/* The engine of that name, or -1; the error says LB_NO_ENGINE of it. */
int lb_engine_named(const char *name);
#define LB_NO_ENGINE "'%s' is not an engine; there are: tensor, vector, scalar, gpsimd, sync"
/* The same of an engine or a CC sequencer, whose numbers follow. */
int lb_sequencer(lua_State *L, int arg);
int lb_sequencer_named(const char *name);
#define LB_NO_SEQUENCER LB_NO_ENGINE "; and of collectives cc0, cc1, cc2"
/* `name` if there is such a target (or NULL); else raises an error that lists them. */
const char *lb_target(lua_State *L, const char *what, const char *name);
/* The name nearest to `name` in the list, or NULL. */
const char *lb_nearest(const char *name, const char *const *known);
/* The same in Lua: nearest(name, a sequence of known names). */
int lb_nearest_named(lua_State *L);
/* A dtype given by name; raises an argument error that suggests the nearest one. */
unsigned lb_dtype(lua_State *L, int arg);
/* The same of an optional argument or of the option "dtype"; fallback when absent. */
unsigned lb_dtype_or(lua_State *L, int arg, unsigned fallback);
unsigned lb_dtype_option(lua_State *L, int arg, const char *what, unsigned fallback);
/* What a message calls the value: its class, or its type. */
const char *lb_type_name(lua_State *L, int index);
/* Raises "what: text" for a failed call on m; the status text alone when m is NULL. */
int lb_fail(lua_State *L, const char *what, const soma_machine *m, soma_status s);
/* Pushes a sequence of n dimensions. */
void lb_push_shape(lua_State *L, uint32_t n, const int64_t *shape);
/* A file in Lua that is a part of the module or of the command, and its lines. Lists of parts and
 * of lines end with NULL; the Makefile makes them (parts.inc). */
typedef struct lb_part {
  const char *name;
  const char *const *lines;
} lb_part;
/* Pushes the function that a part is, which messages call `chunk`; LUA_OK, or the error's status.
 */
int lb_load_part(lua_State *L, const lb_part *parts, const char *name, const char *chunk);
/* Calls it with the values at `module` and `host`; what it returns becomes the field of that name
 * of the table at `into`. */
void lb_run_part(lua_State *L, const lb_part *parts, const char *name, const char *chunk,
                 int module, int host, int into);
/* Takes a function from the top that loads functions and gives a table of them by name. `names`
 * lists them, separated by spaces. Until one of them is called, the table at `into` has a function
 * in its place that loads them first. */
void lb_load_later(lua_State *L, int into, const char *names);
/* Sets a field of the table on top: a time in nanoseconds, a count, a number, true or false, a text
 * (NULL: nil), a text unless it is NULL or empty. */
void lb_set_ns(lua_State *L, const char *key, soma_time t);
void lb_set_count(lua_State *L, const char *key, uint64_t v);
void lb_set_number(lua_State *L, const char *key, double v);
void lb_set_flag(lua_State *L, const char *key, bool v);
void lb_set_text(lua_State *L, const char *key, const char *v);
void lb_set_words(lua_State *L, const char *key, const char *v);
/* Registers a metatable of that name with these methods in __index; leaves nothing. meta and
 * methods may be NULL. */
void lb_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods);
/* The same where fields are worked out: `index` is __index, and has the table of methods as its
 * upvalue. They are those of all lists, to NULL; others may be added to "NAME methods" in the
 * registry. */
void lb_object(lua_State *L, const char *name, const luaL_Reg *meta, lua_CFunction index,
               const luaL_Reg *const *lists);
/* Seconds of the host's clock, which only goes forward. */
double lb_host_seconds(void);

/* ---- Names of devices (args.c) ------------------------------------------------------------- */

enum { LB_CPU = -1, LB_DEVICES = 64 }; /* neuron:0 to neuron:63 */
/* N of "neuron:N", 0 of "neuron", LB_CPU of "cpu" and of NULL; raises an error for anything else.
 */
int lb_device(lua_State *L, const char *what, const char *name);
/* The same of the option `device` of the table at arg. */
int lb_device_option(lua_State *L, int arg, const char *what);
const char *lb_push_device_name(lua_State *L, int device);

/* ---- Files (file.c, gzip.c) ---------------------------------------------------------------- */

/* A file being written. It appears under its name, complete, at lb_file_commit; until then, and
 * after an error, what was there before is untouched. A userdata, collected on errors. */
typedef struct lb_file {
  FILE *f;
  char *name, *path;            /* as given, and with links followed */
  char *temp;                   /* NULL: the path is a device or a pipe, written in place */
  bool lent;                    /* f has another owner, see lb_forbid_files */
  struct lb_deflater *deflater; /* of lb_text_create; NULL: written as it is */
} lb_file;
/* Pushes a new file; NULL with nil and a message pushed when it cannot be opened. */
/* For the command, which ends at a second Ctrl-C: from lb_track_files on, files that are being
 * written are remembered, and lb_unlink_files, which a signal handler may call, removes what has
 * been written of them. */
void lb_track_files(void);
void lb_unlink_files(void);
/* In the registry, true: files are made, but nothing is written, since another process of the job
 * writes the same. */
#define LB_NO_OUTPUT "soma.no_output"
/* In the registry: the soma_transport of worlds, a light userdata, and what is called before one.
 */
#define LB_TRANSPORT "soma.transport"
#define LB_BEFORE_WORLD "soma.before_world"
lb_file *lb_file_create(lua_State *L, const char *path);
/* The same for a text: what lb_text_write writes goes out as gzip when the name ends in .gz; names
 * of other compressed files are refused. */
lb_file *lb_text_create(lua_State *L, const char *path);
int lb_text_write(void *file, const char *p, size_t n); /* a soma_write_fn, of an lb_file */
/* Frees what compresses; finish: after writing the end. lb_file_commit and lb_file_close do it. */
void lb_text_end(lb_file *f, bool finish);
/* The end of the name of a compressed file, ".gz" and so on; NULL of others. */
const char *lb_compressed(const char *path);
/* Whether a text, or data, may be written under that name: false with nil and a message pushed if
 * the name says that the file is compressed, but it would not be. */
bool lb_fits_name(lua_State *L, const char *path, bool text);
/* Closes and renames. False with nil and a message pushed when that failed. */
bool lb_file_commit(lua_State *L, lb_file *f);
/* Takes a table from the top of the stack. From now on every function of the module that would open
 * a file by its name, or start a process, raises an error (lb_need_files), for scripts that are not
 * trusted; only names in the table may be read and written: the open file that it has there, a
 * LUA_FILEHANDLE. */
void lb_forbid_files(lua_State *L);
bool lb_files_forbidden(lua_State *L);
void lb_need_files(lua_State *L, const char *path);
/* A path argument: a string, not a number, without zero bytes. */
const char *lb_path(lua_State *L, int arg);
/* Pushes a file opened for reading; NULL with nil and a message pushed when it cannot be. */
lb_file *lb_file_open(lua_State *L, const char *path);
/* Its length in bytes; -1 when it is not a plain file. */
int64_t lb_file_length(const lb_file *f);
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
  bool refused;             /* some block, for lack of room */
} lb_budget;
/* A lua_Alloc and a soma_alloc_fn, with the budget as ud. */
void *lb_budget_alloc(void *ud, void *p, size_t old, size_t n);
/* Tells the collector about n bytes that its own count misses: when many have been taken since the
 * last one, there is a full collection. (In generational mode a step would not free what has
 * survived two of them, such as the result of the run before the last.) */
void lb_account(lua_State *L, uint64_t n);
/* Whether the state's allocator has a limit: what is taken elsewhere would escape it. */
bool lb_is_limited(lua_State *L);
/* A budget under that of the state's allocator, if it has one; NULL if out of memory. */
lb_budget *lb_budget_new(lua_State *L, size_t limit);
/* Frees b as soon as nothing is charged to it any more; NULL does nothing. */
void lb_budget_drop(lb_budget *b);
/* Sets the allocator of a machine or a recorder to b or, when it is NULL, to the state's budget;
 * leaves it where neither has a limit. */
void lb_use_budget(lua_State *L, lb_budget *b, soma_alloc_fn *fn, void **ud);

#endif
