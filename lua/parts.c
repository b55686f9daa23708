/* The parts of the module that are written in Lua: their text, and what C gives them. */
#include <string.h>
#include <unistd.h>

#include "../isa/bytes.h"
#include "machine/machine.h"
#include "module.h"

/* Lines of the files in Lua, made by the Makefile. */
static const char *const sweep_lines[] = {
#include "sweep.inc"
};
static const char *const plan_lines[] = {
#include "plan.inc"
};
static const char *const plot_lines[] = {
#include "plot.inc"
};
static const char *const pool_lines[] = {
#include "pool.inc"
};
static const char *const journal_lines[] = {
#include "journal.inc"
};
static const char *const share_lines[] = {
#include "share.inc"
};

static const char *const tiling_lines[] = {
#include "tiling.inc"
};
static const char *const arithmetic_lines[] = {
#include "arithmetic.inc"
};
static const char *const readable_lines[] = {
#include "readable.inc"
};
static const char *const wrong_options_lines[] = {
#include "wrong_options.inc"
};
static const char *const place_lines[] = {
#include "place.inc"
};
static const char *const show_lines[] = {
#include "show.inc"
};
static const char *const ranks_lines[] = {
#include "ranks.inc"
};
static const char *const replay_lines[] = {
#include "replay.inc"
};
static const char *const stops_lines[] = {
#include "stops.inc"
};
static const char *const adapter_lines[] = {
#include "adapter.inc"
};
static const char *const session_lines[] = {
#include "session.inc"
};

/* host.nearest(word, names): the name that is nearest, or nil. */
static int nearest(lua_State *L) {
  const char *known[64];
  size_t n = 0;
  const char *word = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, 64, "nearest");
  while (n < 63 && lua_rawgeti(L, 2, (lua_Integer)n + 1) == LUA_TSTRING)
    known[n++] = lua_tostring(L, -1); /* the table keeps it */
  known[n] = NULL;
  lua_pushstring(L, lb_nearest(word, known));
  return 1;
}

/* host.write(path, text): a whole file or none; true, or nil and a message. */
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

/* host.hash(string): a number that hardly any other string has. */
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

/* Leaves what a part returns in that field of the table at index; of the functions that load parts,
 * which have the module and `host` as upvalues, at 1 and 2. */
#define PART(L, name, index, field)                                                          \
  (lb_run_lines(L, "=soma." #name, name##_lines, sizeof name##_lines / sizeof *name##_lines, \
                MODULE, HOST),                                                               \
   lua_setfield(L, index, field))
enum { MODULE = 1, HOST };

static void push_upvalues(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(MODULE));
  lua_pushvalue(L, lua_upvalueindex(HOST));
}

/* Gives {sweep}. */
static int load_sweep(lua_State *L) {
  push_upvalues(L);
  lua_newtable(L);
  PART(L, wrong_options, HOST, "wrong_options");
  PART(L, plot, HOST, "plot");
  PART(L, pool, HOST, "pool");
  PART(L, journal, HOST, "journal");
  if (lua_getfield(L, LUA_REGISTRYINDEX, LB_JOB) == LUA_TTABLE) {
    lua_setfield(L, HOST, "job");
    PART(L, share, HOST, "share");
    lua_getfield(L, HOST, "share");
    lua_getfield(L, -1, "before_world");
    lua_setfield(L, LUA_REGISTRYINDEX, LB_BEFORE_WORLD);
  }
  lua_settop(L, 3);
  PART(L, sweep, 3, "sweep");
  return 1;
}

/* Gives {plan}. */
static int load_plan(lua_State *L) {
  push_upvalues(L);
  PART(L, wrong_options, HOST, "wrong_options");
  PART(L, plan, HOST, "plan");
  lua_getfield(L, HOST, "plan");
  return 1;
}

/* Gives {debug, until_line}, methods of runs. */
static int load_debugger(lua_State *L) {
  push_upvalues(L);
  luaL_setfuncs(L, lb_debug_functions, 0);
  PART(L, wrong_options, HOST, "wrong_options");
  PART(L, place, HOST, "debug_place");
  PART(L, show, HOST, "debug_show");
  PART(L, replay, HOST, "debug_replay");
  PART(L, stops, HOST, "debug_stops");
  PART(L, ranks, HOST, "debug_ranks");
  PART(L, adapter, HOST, "debug_adapter");
  PART(L, session, HOST, "debug_session");
  lua_getfield(L, HOST, "debug_session");
  return 1;
}

/* Gives {debug}, a method of worlds. */
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
  if (lua_getfield(L, HOST, "arithmetic") == LUA_TTABLE) return 1;
  lua_settop(L, HOST);
  luaL_setfuncs(L, lb_arithmetic_functions, 0);
  PART(L, tiling, HOST, "tiling");
  PART(L, arithmetic, HOST, "arithmetic");
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

/* __index of the table of methods, which has those of C: one in Lua. Likewise. */
static int find_method(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "methods");
  lua_pushvalue(L, 2);
  lua_rawget(L, -2);
  return 1;
}

static void open_arithmetic(lua_State *L, int host) {
  lua_pushvalue(L, host - 1);
  lua_pushvalue(L, host);
  lua_pushcclosure(L, load_arithmetic, 2);
  int load = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LB_DEVICE_METHODS);
  lua_createtable(L, 0, 1);
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
  PART(L, readable, 3, "__tostring");
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
  static const luaL_Reg functions[] = {
      {"nearest", nearest}, {"write", write_text}, {"seconds", seconds}, {"terminal", terminal},
      {"trusted", trusted}, {"watched", watched},  {"hash", hash},       {NULL, NULL}};
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
