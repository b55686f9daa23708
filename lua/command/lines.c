/* The module soma.lines, which the debugger and the prompt ask for: lines from a terminal, edited,
 * with history and completion, and signals. Without libedit lines are read as they come. */
#include "lines.h"

/* attend(on): whether commands are read from now on; gives whether they were.
 * Attended: signals that end the command interrupt a read as well. */
static int attend(lua_State *L) {
  lua_pushboolean(L, soma_attend(lua_toboolean(L, 1)));
  return 1;
}

#ifdef SOMA_LIBEDIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <editline/readline.h>

/* libedit's functions have no argument for it. */
static lua_State *reader; /* the one that reads now; its completion function is on top */

/* The number-th word that may stand there; NULL past the last. From malloc, for libedit. */
static char *next_word(const char *text, int number) {
  /* Goes on from call to call, as libedit asks for one word after the other. */
  static lua_Integer n;
  char *word = NULL;
  (void)text;
  /* libedit asks from 0 on for each completion. */
  if (number == 0) n = 0;
  int top = lua_gettop(reader);
  lua_pushvalue(reader, -1);
  /* Only what stands before the cursor. */
  lua_pushlstring(reader, rl_line_buffer, (size_t)rl_point);
  if (lua_pcall(reader, 1, 1, 0) == LUA_OK && lua_istable(reader, -1) &&
      lua_geti(reader, -1, ++n) == LUA_TSTRING)
    word = strdup(lua_tostring(reader, -1));
  /* Whatever the completion gave is dropped. */
  lua_settop(reader, top);
  return word;
}

static char **complete(const char *text, int start, int end) {
  (void)start;
  (void)end;
  rl_attempted_completion_over = 1; /* files are not meant */
  return rl_completion_matches(text, next_word);
}

/* read(prompt, complete): a line without its newline; nil at the end. complete(line) gives the
 * words that the last one may become. A Ctrl-C drops the line. */
static int read_line(lua_State *L) {
  /* Where words end: commands have lists and names with colons. */
  static char breaks[] = " \t[],:";
  const char *prompt = luaL_checkstring(L, 1);
  char *line;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  /* What was printed before stands before the prompt. */
  fflush(stdout);
  /* Set for the time of the reading only. */
  reader = L;
  rl_readline_name = "soma";
  rl_basic_word_break_characters = breaks;
  rl_attempted_completion_function = complete;
  for (;;) {
    /* A Ctrl-C from before this line does not count. */
    soma_listen(L);
    line = readline(prompt);
    /* The prompt's line has no newline yet. */
    if (line == NULL) putchar('\n');
    if (line != NULL || !soma_interrupted()) break;
  }
  soma_listen(L);
  reader = NULL;
  if (line == NULL) {
    lua_pushnil(L);
    /* The end of the input: Ctrl-D. */
    return 1;
  }
  /* Empty lines are not worth going back to. */
  if (line[0] != '\0') add_history(line);
  lua_pushstring(L, line);
  free(line);
  return 1;
}

#endif

/* Without libedit there is no read, and callers read lines themselves. */
static int open_lines(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, attend);
  lua_setfield(L, -2, "attend");
#ifdef SOMA_LIBEDIT
  lua_pushcfunction(L, read_line);
  lua_setfield(L, -2, "read");
#endif
  return 1;
}

void soma_preload_lines(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_lines);
  lua_setfield(L, -2, "soma.lines");
  lua_pop(L, 1);
}
