/* The parts of the module that are written in Lua: their text, and what C gives them. */
#include <unistd.h>

#include "../isa/bytes.h"
#include "machine/machine.h"
#include "module.h"

static const lb_part parts[] = {
#include "parts.inc"
    {NULL, NULL}};

/* host.write(path, text): a whole file or none; true, or nil and a message.
 * Used by sweeps and plots, which write texts only. */
static int write_text(lua_State *L) {
  size_t n;
  const char *path = lb_path(L, 1), *s = luaL_checklstring(L, 2, &n);
  lb_file *f = lb_text_create(L, path);
  if (f == NULL) return 2;
  lb_text_write(f, s, n); /* an error is found at the commit */
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* host.seconds(): the host's clock. */
static int seconds(lua_State *L) {
  lua_pushnumber(L, lb_host_seconds());
  return 1;
}

/* host.hash(string): a number that hardly any other string has.
 * FNV, 64 bits: not against forgery, only against mistakes. */
static int hash(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  lua_pushinteger(L, (lua_Integer)isa_fnv(ISA_FNV_START, s, n));
  return 1;
}

/* host.watched(): whether standard error is a terminal; host.terminal(): whether standard input is
 * one; host.trusted(): whether files may be opened. */
static int watched(lua_State *L) {
  lua_pushboolean(L, isatty(STDERR_FILENO));
  return 1;
}
static int terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDIN_FILENO));
  return 1;
}
static int trusted(lua_State *L) {
  lua_pushboolean(L, !lb_files_forbidden(L));
  return 1;
}

/* Upvalues of the functions that load parts. */
enum { MODULE = 1, HOST };

/* Leaves what a part returns in the field of its name of the table at `into`.
 * The chunk's name is what the debugger's messages strip. */
static void run_part(lua_State *L, const char *name, int into) {
  char chunk[40];
  snprintf(chunk, sizeof chunk, "=soma.%s", name);
  lb_run_part(L, parts, name, chunk, MODULE, HOST, into);
}

/* Module and host are at 1 and 2 while parts are loaded. */
static void push_upvalues(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(MODULE));
  lua_pushvalue(L, lua_upvalueindex(HOST));
}

/* Gives {sweep}. */
static int load_sweep(lua_State *L) {
  push_upvalues(L);
  /* What the sweep gives goes into a table of its own, at 3. */
  lua_newtable(L);
  run_part(L, "wrong_options", HOST);
  run_part(L, "plot", HOST);
  run_part(L, "pool", HOST);
  run_part(L, "journal", HOST);
  /* Only a process of an MPI job shares its sweeps. */
  if (lua_getfield(L, LUA_REGISTRYINDEX, LB_JOB) == LUA_TTABLE) {
    lua_setfield(L, HOST, "job");
    run_part(L, "share", HOST);
    lua_getfield(L, HOST, "share");
    lua_getfield(L, -1, "before_world");
    lua_setfield(L, LUA_REGISTRYINDEX, LB_BEFORE_WORLD);
  }
  lua_settop(L, 3);
  run_part(L, "sweep", 3);
  return 1;
}

/* Gives {plan}. */
static int load_plan(lua_State *L) {
  push_upvalues(L);
  run_part(L, "wrong_options", HOST);
  run_part(L, "plan", HOST);
  lua_getfield(L, HOST, "plan");
  return 1;
}

/* Gives {debug, until_line}, methods of runs. */
static int load_debugger(lua_State *L) {
  /* Each part finds those before it in the host's table. */
  push_upvalues(L);
  luaL_setfuncs(L, lb_debug_functions, 0);
  run_part(L, "wrong_options", HOST);
  run_part(L, "place", HOST);
  run_part(L, "show", HOST);
  run_part(L, "replay", HOST);
  run_part(L, "stops", HOST);
  run_part(L, "ranks", HOST);
  run_part(L, "adapter", HOST);
  run_part(L, "session", HOST);
  lua_getfield(L, HOST, "session");
  return 1;
}

/* Gives {debug}, a method of worlds.
 * Loads all of the debugger; only the name of one function differs. */
static int load_world_debugger(lua_State *L) {
  load_debugger(L);
  lua_createtable(L, 0, 1);
  lua_getfield(L, -2, "debug_world");
  lua_setfield(L, -2, "debug");
  return 1;
}

/* Gives {methods, meta} of tensors on a device. */
static int load_arithmetic(lua_State *L) {
  push_upvalues(L);
  /* Loaded once, by whichever method is used first. */
  if (lua_getfield(L, HOST, "arithmetic") == LUA_TTABLE) return 1;
  lua_settop(L, HOST);
  luaL_setfuncs(L, lb_arithmetic_functions, 0);
  run_part(L, "tiling", HOST);
  run_part(L, "arithmetic", HOST);
  lua_getfield(L, HOST, "arithmetic");
  return 1;
}

/* Its upvalue is load_arithmetic. */
static int load_metamethods(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "meta");
  return 1;
}

/* __index of the table of methods, which has those of C: one in Lua. Likewise.
 * Called for a name that no method in C has. */
static int find_method(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "methods");
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

/* host - 1 is the module. */
static void open_arithmetic(lua_State *L, int host) {
  lua_pushvalue(L, host - 1);
  lua_pushvalue(L, host);
  lua_pushcclosure(L, load_arithmetic, 2);
  int load = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LB_DEVICE_METHODS);
  lua_createtable(L, 0, 1);
  /* Methods and metamethods share one loader. */
  lua_pushvalue(L, load);
  lua_pushcclosure(L, find_method, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  luaL_getmetatable(L, LB_DEVICE_TENSOR);
  lua_pushvalue(L, load);
  lua_pushcclosure(L, load_metamethods, 1);
  lb_load_later(L, -2,
                "__add __sub __mul __div __idiv __mod __pow __unm __band __bor __bxor __bnot "
                "__shl __shr");
  lua_settop(L, host);
}

/* Gives {__tostring} of results. */
static int load_readable(lua_State *L) {
  push_upvalues(L);
  lua_newtable(L);
  run_part(L, "readable", HOST);
  lua_getfield(L, HOST, "readable");
  lua_setfield(L, 3, "__tostring");
  return 1;
}

/* The names become functions of the table at into that load what they need when they are called. */
static void later(lua_State *L, int into, int host, lua_CFunction load, const char *names) {
  lua_pushvalue(L, host - 1);
  lua_pushvalue(L, host);
  lua_pushcclosure(L, load, 2);
  lb_load_later(L, into, names);
}

void lb_open_parts(lua_State *L) {
  static const luaL_Reg functions[] = {{"nearest", lb_nearest_named},
                                       {"write", write_text},
                                       {"seconds", seconds},
                                       {"terminal", terminal},
                                       {"trusted", trusted},
                                       {"watched", watched},
                                       {"hash", hash},
                                       {NULL, NULL}};
  int module = lua_gettop(L), host = module + 1;
  lb_open_process(L);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, lb_process_functions, 0);
  luaL_setfuncs(L, lb_row_functions, 0);
  later(L, module, host, load_sweep, "sweep");
  later(L, module, host, load_plan, "plan");
  open_arithmetic(L, host);
  luaL_newmetatable(L, LB_READABLE);
  lua_pushliteral(L, "protected");
  lua_setfield(L, -2, "__metatable");
  later(L, host + 1, host, load_readable, "__tostring");
  lua_settop(L, host);
  lua_getfield(L, LUA_REGISTRYINDEX, LB_RUN_METHODS);
  later(L, host + 1, host, load_debugger, "debug until_line");
  lua_settop(L, host);
  lua_getfield(L, LUA_REGISTRYINDEX, LB_WORLD_METHODS);
  later(L, host + 1, host, load_world_debugger, "debug");
  lua_settop(L, module);
}
