/* The parts of the module that are written in Lua: their text, and what C gives them. */
#include <string.h>

#include "module.h"

/* Lines of sweep.lua and plot.lua, made by the Makefile. */
static const char *const sweep_lines[] = {
#include "sweep.inc"
};
static const char *const plot_lines[] = {
#include "plot.inc"
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

void lb_open_parts(lua_State *L) {
  static const luaL_Reg functions[] = {{"nearest", nearest}, {"write", write_text}, {NULL, NULL}};
  const size_t nplot = sizeof plot_lines / sizeof *plot_lines;
  const size_t nsweep = sizeof sweep_lines / sizeof *sweep_lines;
  int module = lua_gettop(L);
  lb_open_process(L);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, lb_process_functions, 0);
  lb_run_lines(L, "=soma.plot", plot_lines, nplot, module, module + 1);
  lua_setfield(L, module + 1, "plot");
  lb_run_lines(L, "=soma.sweep", sweep_lines, nsweep, module, module + 1);
  lua_setfield(L, module, "sweep");
  lua_settop(L, module);
}
