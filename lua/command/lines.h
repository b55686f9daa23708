/* What the command has for reading lines, and what the readers need of its signals. */
#ifndef LUA_SOMA_LINES_H
#define LUA_SOMA_LINES_H

#include "../module.h"

/* Makes the module soma.lines known where there is libedit. (lines.c) */
void soma_preload_lines(lua_State *L);
/* Whether a Ctrl-C came; a Ctrl-C before this does not count any more. (soma_main.c) */
bool soma_interrupted(void);
void soma_listen(lua_State *L);

#endif
