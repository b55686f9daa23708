/* Pictures of a recorded run: a trace for Perfetto, a page, tables, a timeline in text. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static soma_recorder *recorded_at(lua_State *L, int at, const char *what, const soma_program **p) {
  const lb_run *run = lb_check_run(L, at);
  if (run->trace == NULL) luaL_error(L, "%s: the core was not made with trace = true", what);
  /* A recorder of so many events drops those beyond them on purpose; another has lost them. */
  if (soma_recorder_dropped(run->trace) && !run->bounded)
    luaL_error(L, "%s: memory ran out while recording", what);
  /* The figures of the run go into the trace, so they are fetched as they are now. */
  soma_stats stats = lb_run_stats(run);
  soma_recorder_stats(run->trace, &stats, sizeof stats);
  lua_getiuservalue(L, at, LB_RUN_PROGRAM);
  const lb_program *program = lua_touserdata(L, -1);
  if (program == NULL || program->p == NULL) luaL_error(L, "%s: the program is closed", what);
  /* A rank's program has those of its CC sequencers, whose events are in the trace as
   * well. */
  *p = run->planned != NULL ? run->planned : program->p;
  return run->trace;
}

soma_recorder *lb_recorded(lua_State *L, const char *what, const soma_program **p) {
  return recorded_at(L, 1, what, p);
}

/* Ends a file that a writer has filled: true, or nil and a message.
 * A writer that could not write has its message in the file. */
static int finish(lua_State *L, const char *what, lb_file *f, soma_status s) {
  if (s != SOMA_OK && s != SOMA_IO) return lb_fail(L, what, NULL, s);
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

/* run:save_trace(path): Chrome's trace event format, compressed when the path ends with .gz. nil
 * and a message when the file cannot be written; so do the next two. */
static int save_trace(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 3), 3,
                "save_trace takes no options; those of recording are the core's");
  const soma_program *p;
  const char *path = luaL_checkstring(L, 2);
  const soma_recorder *r = lb_recorded(L, "save_trace", &p);
  /* The file is made last, so that no error leaves an empty one. */
  lb_file *f = lb_text_create(L, path);
  return f == NULL ? 2 : finish(L, "save_trace", f, soma_write_chrome(r, p, lb_text_write, f));
}

/* What the ranks of the runs in the table at 1 have recorded. Pushes what holds the arrays. */
typedef struct ranks {
  uint32_t n;
  const soma_recorder **r;
  const soma_program **p;
  const soma_run **run;
} ranks;

static ranks ranks_of(lua_State *L, const char *what) {
  ranks x = {0};
  luaL_checktype(L, 1, LUA_TTABLE);
  /* First the number of ranks, then the arrays for them. */
  int top = lua_gettop(L);
  for (; lua_rawgeti(L, 1, (lua_Integer)x.n) != LUA_TNIL; x.n++) lua_settop(L, top);
  luaL_argcheck(L, x.n > 0, 1, "no runs of ranks");
  x.r = lua_newuserdatauv(L, x.n * sizeof *x.r, 0);
  x.p = lua_newuserdatauv(L, x.n * sizeof *x.p, 0);
  x.run = lua_newuserdatauv(L, x.n * sizeof *x.run, 0);
  top = lua_gettop(L);
  for (uint32_t i = 0; i < x.n; i++) {
    /* The runs stay in the table at 1, which keeps what these point to. */
    lua_rawgeti(L, 1, (lua_Integer)i);
    x.r[i] = recorded_at(L, top + 1, what, &x.p[i]);
    x.run[i] = lb_check_run(L, top + 1)->r;
    lua_settop(L, top);
  }
  return x;
}

/* The table of runs that a world gives, and a path. */
int lb_save_trace_of_ranks(lua_State *L) {
  const char *path = luaL_checkstring(L, 2);
  lua_settop(L, 2);
  ranks x = ranks_of(L, "save_trace");
  lb_file *f = lb_text_create(L, path);
  if (f == NULL) return 2;
  return finish(L, "save_trace", f, soma_write_world_chrome(x.r, x.p, x.n, lb_text_write, f));
}

/* Texts of a program's source files, for the page. No call of Lua: libsoma is between. */
typedef struct sources {
  const char *given; /* what soma.assemble got, NULL: nothing */
  size_t ngiven;
  const char *given_name;
  bool may_open;
  char *text; /* of the file read last; from malloc */
} sources;

enum { SOURCE_MOST = 16 << 20 }; /* bytes of a file */

/* One buffer, allocated at the most, as few files are read. */
static char *read_source(const char *name, size_t *n) {
  FILE *f = fopen(name, "rb");
  char *text = f != NULL ? malloc(SOURCE_MOST) : NULL;
  if (text != NULL) *n = fread(text, 1, SOURCE_MOST, f);
  /* One that fills the buffer may go on: a cut text would show wrong lines. */
  bool whole = text != NULL && *n < SOURCE_MOST && !ferror(f);
  if (f != NULL) fclose(f);
  if (whole) return text;
  free(text);
  return NULL;
}

/* Called by libsoma for each file that the page names. */
static const char *source_text(void *ud, const char *file, size_t *n) {
  sources *s = ud;
  free(s->text);
  s->text = NULL;
  /* What soma.assemble got is not in a file. */
  if (s->given != NULL && strcmp(file, s->given_name) == 0) {
    *n = s->ngiven;
    return s->given;
  }
  /* NULL: the page shows no text for it. */
  return s->may_open ? s->text = read_source(file, n) : NULL;
}

/* Where the texts of the program at an index come from. Pushes one value. */
static sources sources_of(lua_State *L, int index) {
  const lb_program *program = lua_touserdata(L, index);
  sources from = {.given_name = program->name != NULL ? program->name : "",
                  /* A program that came from a file may name any path, so nothing is
                   * opened for it. */
                  .may_open = program->own && !lb_files_forbidden(L)};
  /* The string stays on the stack, so that the pointer lasts while the page is written. */
  if (lua_getiuservalue(L, index, LB_PROGRAM_TEXT) == LUA_TSTRING)
    from.given = lua_tolstring(L, -1, &from.ngiven);
  return from;
}

/* run:save_html(path, title): a page that needs no other file; with the critical path, fault and
 * findings while the core has the run. */
static int save_html(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 4), 4, "save_html takes a path and a title");
  const soma_program *p;
  const char *path = luaL_checkstring(L, 2), *title = luaL_optstring(L, 3, NULL);
  const soma_recorder *r = lb_recorded(L, "save_html", &p);
  const soma_run *run = lb_check_run(L, 1)->r;
  sources from = sources_of(L, lua_gettop(L)); /* lb_recorded has left it there */
  soma_page_options o = {sizeof o, title, source_text, &from};
  lb_file *f = lb_text_create(L, path);
  /* Nothing is written when the path is wrong. */
  if (f == NULL) return 2;
  soma_status s = soma_write_page(r, p, run, &o, lb_text_write, f);
  free(from.text);
  return finish(L, "save_html", f, s);
}

/* runs:save_html(path, title): of a world, all ranks on one page. The texts are those of rank 0's
 * program. */
int lb_save_html_of_ranks(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 4), 4, "save_html takes a path and a title");
  const char *path = luaL_checkstring(L, 2), *title = luaL_optstring(L, 3, NULL);
  lua_settop(L, 3);
  /* Each rank's recorder and program. */
  ranks x = ranks_of(L, "save_html");
  lua_rawgeti(L, 1, 0);
  const lb_run *first = lb_check_run(L, lua_gettop(L));
  const lb_world *w = first->core != NULL ? first->core->world : NULL;
  /* A run whose world has moved on has no figures for its page. */
  for (uint32_t i = 0; i < x.n; i++)
    if (x.run[i] == NULL || w == NULL)
      return luaL_error(L, "save_html: the world has started other runs, or is closed");
  lua_getiuservalue(L, -1, LB_RUN_PROGRAM);
  sources from = sources_of(L, lua_gettop(L));
  soma_page_options o = {sizeof o, title, source_text, &from};
  /* After all checks, so that a failure leaves no file. */
  lb_file *f = lb_text_create(L, path);
  if (f == NULL) return 2;
  soma_status s = soma_write_world_page(w->w, x.r, x.p, x.run, &o, lb_text_write, f);
  free(from.text);
  return finish(L, "save_html", f, s);
}

/* The table named at an argument, Instruction without one. */
static soma_table table_named(lua_State *L, int arg) {
  const char *name = luaL_optstring(L, arg, soma_table_name((soma_table)0));
  /* In the order of soma_table. */
  luaL_Buffer b;
  for (int t = 0; t < SOMA_TABLES; t++)
    if (strcmp(name, soma_table_name((soma_table)t)) == 0) return (soma_table)t;
  luaL_buffinit(L, &b);
  for (int t = 0; t < SOMA_TABLES; t++) {
    if (t > 0) luaL_addstring(&b, ", ");
    luaL_addstring(&b, soma_table_name((soma_table)t));
  }
  luaL_pushresult(&b);
  return (soma_table)luaL_error(L, "save_table: there is no table '%s'; there are: %s", name,
                                lua_tostring(L, -1));
}

/* run:save_table(path, table): CSV, or JSON lines when the path ends with .jsonl. */
static int save_table(lua_State *L) {
  luaL_argcheck(L, lua_isnoneornil(L, 4), 4, "save_table takes a path and a table's name");
  const soma_program *p;
  size_t n;
  const char *path = luaL_checklstring(L, 2, &n);
  soma_table table = table_named(L, 3);
  /* x.jsonl.gz has lines as well. */
  const char *suffix = lb_compressed(path);
  /* A suffix of compression is not part of the ending. */
  n -= suffix != NULL ? strlen(suffix) : 0;
  bool lines = n > 6 && memcmp(path + n - 6, ".jsonl", 6) == 0;
  const soma_recorder *r = lb_recorded(L, "save_table", &p);
  lb_file *f = lb_text_create(L, path);
  if (f == NULL) return 2;
  return finish(
      L, "save_table", f,
      soma_write_table(r, p, table, lines ? SOMA_JSON_LINES : SOMA_CSV, lb_text_write, f));
}

int lb_to_buffer(void *ud, const char *p, size_t n) {
  /* Cannot fail: Lua raises its own error when memory is out. */
  luaL_addlstring(ud, p, n);
  return 0;
}

/* run:timeline(width): ASCII, one row per engine and per queue; 80 columns unless given. */
static int timeline(lua_State *L) {
  const soma_program *p;
  lua_Integer width = luaL_optinteger(L, 2, 80);
  luaL_argcheck(L, width >= 40 && width <= 1000, 2, "expected a width of 40 to 1000 columns");
  const soma_recorder *r = lb_recorded(L, "timeline", &p);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  /* Wide characters are not used, so columns are bytes. */
  soma_status s = soma_write_timeline(r, p, (unsigned)width, lb_to_buffer, &b);
  luaL_pushresult(&b);
  return s == SOMA_OK ? 1 : lb_fail(L, "timeline", NULL, s);
}

const luaL_Reg lb_trace_methods[] = {{"save_trace", save_trace},
                                     {"save_html", save_html},
                                     {"save_table", save_table},
                                     {"timeline", timeline},
                                     {NULL, NULL}};
