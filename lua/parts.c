/* The parts of the module that are written in Lua: their text, and what C gives them. */
#include <string.h>
#include <unistd.h>

#include "machine/machine.h"
#include "module.h"

/* Lines of sweep.lua, plot.lua and debug/, made by the Makefile. */
static const char *const sweep_lines[] = {
#include "sweep.inc"
};
static const char *const plot_lines[] = {
#include "plot.inc"
};

static const char *const place_lines[] = {
#include "place.inc"
};
static const char *const show_lines[] = {
#include "show.inc"
};
static const char *const replay_lines[] = {
#include "replay.inc"
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
  lb_file *f = lb_file_create(L, path);
  if (f == NULL) return 2;
  fwrite(s, 1, n, f->f); /* an error is found at the commit */
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* host.seconds(): the host's clock. */
static int seconds(lua_State *L) {
  lua_pushnumber(L, lb_host_seconds());
  return 1;
}

/* host.terminal(): whether standard input is one; host.trusted(): whether files may be opened. */
static int terminal(lua_State *L) {
  lua_pushboolean(L, isatty(STDIN_FILENO));
  return 1;
}
static int trusted(lua_State *L) {
  lua_pushboolean(L, !lb_files_forbidden(L));
  return 1;
}

/* Leaves what a part returns in that field of the table at index. */
#define PART(L, name, module, index, field)                                                  \
  (lb_run_lines(L, "=soma." #name, name##_lines, sizeof name##_lines / sizeof *name##_lines, \
                module, (module) + 1),                                                       \
   lua_setfield(L, index, field))

/* The debugger: run:debug and run:until_line. */
static void open_debugger(lua_State *L, int module) {
  luaL_setfuncs(L, lb_debug_functions, 0);
  PART(L, place, module, module + 1, "debug_place");
  PART(L, show, module, module + 1, "debug_show");
  PART(L, replay, module, module + 1, "debug_replay");
  lua_getfield(L, LUA_REGISTRYINDEX, LB_RUN_METHODS);
  lua_setfield(L, module + 1, "run_methods");
  PART(L, session, module, module + 1, "debug_session");
}

void lb_open_parts(lua_State *L) {
  static const luaL_Reg functions[] = {{"nearest", nearest}, {"write", write_text},
                                       {"seconds", seconds}, {"terminal", terminal},
                                       {"trusted", trusted}, {NULL, NULL}};
  int module = lua_gettop(L);
  lb_open_process(L);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, lb_process_functions, 0);
  PART(L, plot, module, module + 1, "plot");
  PART(L, sweep, module, module, "sweep");
  open_debugger(L, module);
  lua_settop(L, module);
}
