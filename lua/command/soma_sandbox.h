/* What the command's parts in Lua use to limit memory, and to run a script that is not trusted. */
#ifndef LUA_SOMA_SANDBOX_H
#define LUA_SOMA_SANDBOX_H

#include "../module.h"

/* host.bytes, limit_memory, memory_refused, check_source, check_output, save_output, forbid_files,
 * filter, confine. */
extern const luaL_Reg soma_sandbox_functions[];

/* host.confine (confine.c) */
int soma_confine(lua_State *L);

#endif
