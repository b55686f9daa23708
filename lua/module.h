/* The module itself, and the parts of it that stand on no machine. */
#ifndef LUA_MODULE_H
#define LUA_MODULE_H

#include "base/base.h"

LUAMOD_API int luaopen_soma(lua_State *L);

/* Pushes soma.isa: the ISA's tables (isa.c). */
void lb_push_isa(lua_State *L);

/* ---- Parts in Lua (parts.c, process.c) ------------------------------------------------------- */

/* soma.sweep, of the module on the top of the stack. */
void lb_open_parts(lua_State *L);
void lb_open_process(lua_State *L);
extern const luaL_Reg lb_process_functions[];
extern const luaL_Reg lb_row_functions[]; /* rows.c */
/* In the registry: how the process speaks with the others of its MPI job; see command/job.h. */
#define LB_JOB "soma.mpi job"

#endif
