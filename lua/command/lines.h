/* What the command has for reading lines, and what the readers need of its signals. */
#ifndef LUA_SOMA_LINES_H
#define LUA_SOMA_LINES_H

#include "../module.h"

/* Makes the module soma.lines known: attend, and where there is libedit read. (lines.c) */
void soma_preload_lines(lua_State *L);
/* While somebody is attended, whose commands are read, an error of one ends no more than that. A
 * SIGTERM or SIGHUP then ends them all: it is an error in whatever runs next. Gives what was
 * before. (soma_main.c) */
bool soma_attend(bool on);
/* Whether a Ctrl-C came; a Ctrl-C before soma_listen does not count any more, and after a signal
 * that ends all it raises an error. (soma_main.c) */
bool soma_interrupted(void);
void soma_listen(lua_State *L);

#endif
