/* Where the time of a run went: its critical path, idle gaps, the text that explains both; and the
 * constants of the clock. */
#include <string.h>

#include "machine.h"

/* Without an engine there is no field. */
static void set_engine(lua_State *L, const char *key, int engine) {
  if (engine >= 0) lb_set_words(L, key, soma_engine_name((soma_engine)engine));
}

/* A semaphore or queue: its name, or its number when it has none; nothing for -1.
 * A name is what users know; a number is what is left without one. */
static void set_named(lua_State *L, const char *key, const char *name, int number) {
  if (name != NULL)
    lb_set_words(L, key, name);
  else if (number >= 0)
    lb_set_count(L, key, (uint64_t)number);
}

static void set_place(lua_State *L, const char *file_key, const char *line_key, const char *file,
                      uint32_t line) {
  /* A line without a file says nothing. */
  lb_set_words(L, file_key, file);
  if (file != NULL) lb_set_count(L, line_key, line);
}

/* ---- Critical path ------------------------------------------------------------------------- */

static soma_run *run_with_causes(lua_State *L, const char *what) {
  const lb_run *run = lb_check_run(L, 1);
  uint32_t n;
  /* The record of causes is the machine's, so it ends with the run. */
  if (run->r == NULL) luaL_error(L, "%s: the core has started another run, or is closed", what);
  if (soma_critical_path(run->r, NULL, 0, &n) != SOMA_OK)
    luaL_error(L, "%s: the core was not made with causes = true", what);
  return run->r;
}

static void push_segment(lua_State *L, const soma_path_segment *s) {
  /* In the order of soma_path_segment's kinds, from 1 on. */
  static const char *const kinds[] = {"", "data", "sequencer", "transfer", "delay"};
  lua_createtable(L, 0, 13);
  lb_set_words(L, "kind", kinds[s->kind]);
  set_engine(L, "engine", s->engine);
  lb_set_count(L, "core", s->core);
  lb_set_words(L, "name", s->name);
  lb_set_words(L, "cause", s->cause);
  lb_set_count(L, "pc", s->pc);
  set_place(L, "file", "line", s->file, s->line);
  set_named(L, "queue", s->queue_name, s->queue);
  set_named(L, "semaphore", s->semaphore_name, s->semaphore);
  /* Only segments of another rank have one. */
  if (s->rank >= 0) lb_set_count(L, "rank", (uint64_t)s->rank);
  if (s->dma_engine >= 0) lb_set_count(L, "dma_engine", (uint64_t)s->dma_engine);
  lb_set_ns(L, "start_ns", s->start);
  lb_set_ns(L, "end_ns", s->end);
}

/* run:critical_path(): a sequence of segments, earliest first. */
static int critical_path(lua_State *L) {
  /* First how many there are, then the segments. */
  soma_run *r = run_with_causes(L, "critical_path");
  uint32_t n;
  soma_critical_path(r, NULL, 0, &n);
  /* The + 1: a path may be empty. */
  soma_path_segment *s = lua_newuserdatauv(L, n * sizeof *s + 1, 0);
  soma_critical_path(r, s, n, &n);
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n; i++) {
    push_segment(L, &s[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* run:explain_time(): a text; with the idle gaps when the run was recorded.
 * Without a trace the text has the path alone. */
static int explain_time(lua_State *L) {
  const soma_run *r = run_with_causes(L, "explain_time");
  const soma_program *p;
  const soma_recorder *rec = NULL;
  if (lb_check_run(L, 1)->trace != NULL) rec = lb_recorded(L, "explain_time", &p);
  /* The buffer grows on the Lua stack, which nothing else may touch until it is done. */
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  soma_status s = soma_write_explanation(r, rec, lb_to_buffer, &b);
  luaL_pushresult(&b);
  return s == SOMA_OK ? 1 : lb_fail(L, "explain_time", NULL, s);
}

/* ---- Idle gaps ----------------------------------------------------------------------------- */

static void push_gap(lua_State *L, const soma_idle_gap *g) {
  /* In the order of the kinds, from 1 on. */
  static const char *const kinds[] = {"", "semaphore", "sequencer", "end", "meeting"};
  lua_createtable(L, 0, 18);
  lb_set_words(L, "kind", kinds[g->kind]);
  set_engine(L, "engine", (int)g->engine);
  lb_set_count(L, "core", g->core);
  lb_set_ns(L, "start_ns", g->start);
  lb_set_ns(L, "end_ns", g->end);
  /* Only these waited for somebody. */
  if (g->kind != SOMA_GAP_SEMAPHORE && g->kind != SOMA_GAP_MEETING) return;
  lb_set_ns(L, "waited_ns", g->waited);
  if (g->kind == SOMA_GAP_SEMAPHORE) {
    set_named(L, "semaphore", g->semaphore_name, g->semaphore);
    lb_set_words(L, "condition", g->condition);
    lb_set_count(L, "reached", g->reached);
  }
  lb_set_count(L, "pc", g->pc);
  set_place(L, "file", "line", g->file, g->line);
  /* The one that was waited for came late: who it was, where. */
  set_engine(L, "late_engine", g->late_engine);
  if (g->late_engine >= 0) lb_set_count(L, "late_core", g->late_core);
  set_named(L, "late_queue", g->queue_name, g->late_queue);
  lb_set_words(L, "late_name", g->late_name);
  set_place(L, "late_file", "late_line", g->late_file, g->late_line);
}

/* run:idle_gaps([most]): a sequence, the largest gap first. */
static int idle_gaps(lua_State *L) {
  const soma_program *p;
  uint32_t n;
  /* The default is beyond what a run can have. */
  lua_Integer most = luaL_optinteger(L, 2, UINT32_MAX);
  luaL_argcheck(L, most >= 0, 2, "expected a number of gaps");
  const soma_recorder *r = lb_recorded(L, "idle_gaps", &p);
  soma_status s = soma_idle_gaps(r, p, NULL, 0, &n);
  if (s != SOMA_OK) return lb_fail(L, "idle_gaps", NULL, s);
  /* As many as are asked for. */
  uint32_t room = most < (lua_Integer)n ? (uint32_t)most : n;
  soma_idle_gap *g = lua_newuserdatauv(L, room * sizeof *g + 1, 0);
  s = soma_idle_gaps(r, p, g, room, &n);
  if (s != SOMA_OK) return lb_fail(L, "idle_gaps", NULL, s);
  lua_createtable(L, (int)room, 0);
  for (uint32_t i = 0; i < room; i++) {
    push_gap(L, &g[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* ---- Options of a core --------------------------------------------------------------------- */

static soma_time time_option(lua_State *L, int t, const char *name) {
  double ns = lb_number(L, t, "core: trace", name, 0);
  /* Written so that a value that is not a number is refused. */
  if (!(ns >= 0 && ns < 1e13))
    luaL_error(L, "core: trace: option '%s' must be a time in nanoseconds, 0 to 1e13", name);
  return (soma_time)(ns * 1e6);
}

/* The sequence of engines' names at the option `engines` of the table on the top, as a mask. */
static uint32_t engines_option(lua_State *L) {
  uint32_t mask = 0;
  if (lb_option(L, lua_gettop(L), "engines") == LUA_TNIL) {
    lua_pop(L, 1);
    /* No engines named: 0, which records all of them. */
    return 0;
  }
  if (!lua_istable(L, -1)) luaL_error(L, "core: trace: option 'engines' must be a table of names");
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    /* Any value has a text, for the message. */
    const char *name = luaL_tolstring(L, -1, NULL);
    int e = lb_engine_named(name);
    if (e < 0) luaL_error(L, "core: trace: " LB_NO_ENGINE, name);
    mask |= 1u << e;
    lua_pop(L, 2);
  }
  lua_pop(L, 2);
  return mask;
}

bool lb_trace_option(lua_State *L, int arg, soma_recorder_options *out) {
  static const char *const known[] = {"limit", "last", "engines", "from_ns", "until_ns", NULL};
  /* What is not said stays as the recorder has it by default. */
  *out = (soma_recorder_options)SOMA_RECORDER_OPTIONS_INIT;
  int type = lb_option(L, arg, "trace");
  /* A table counts as true. */
  bool wanted = lua_toboolean(L, -1);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN && type != LUA_TTABLE)
    luaL_error(L, "core: option 'trace' must be a boolean or a table, not %s",
               luaL_typename(L, -1));
  if (type == LUA_TTABLE) {
    int t = lua_gettop(L);
    lb_options(L, t, "core: trace", known);
    lua_Integer limit = lb_integer(L, t, "core: trace", "limit", 1, UINT32_MAX - 1, 0);
    lua_Integer last = lb_integer(L, t, "core: trace", "last", 1, UINT32_MAX - 1, 0);
    /* Both would leave a gap in the middle, if anything. */
    if (limit && last) luaL_error(L, "core: trace: give either 'limit' or 'last'");
    /* One of the two, the other is 0. */
    out->max_events = (uint64_t)(limit + last);
    /* The last events are kept, not the first. */
    out->keep_last = last != 0;
    out->engines = engines_option(L);
    out->from = time_option(L, t, "from_ns");
    out->until = time_option(L, t, "until_ns");
    if (out->until != 0 && out->until <= out->from)
      luaL_error(L, "core: trace: option 'until_ns' must be more than 'from_ns'");
  }
  lua_pop(L, 1);
  return wanted;
}

/* Pushes the constants at index as the text that soma_costs_set reads. */
static void push_costs_text(lua_State *L, int index) {
  /* A text goes as it is. */
  luaL_Buffer b;
  if (lua_type(L, index) == LUA_TSTRING) {
    lua_pushvalue(L, index);
    return;
  }
  if (!lua_istable(L, index))
    luaL_error(L, "costs: expected a text or a table of values by name, not %s",
               luaL_typename(L, index));
  lua_newtable(L);
  lua_Integer n = 0;
  int lines = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    /* Other keys have no order that a text could keep.
     * The check needs the key's type before anything turns it into a string. */
    if (lua_type(L, -2) != LUA_TSTRING || !lua_isinteger(L, -1)) {
      const char *name = luaL_tolstring(L, -2, NULL);
      const char *value = luaL_tolstring(L, -2, NULL);
      luaL_error(L, "costs: %s = %s: expected a whole number by name", name, value);
    }
    /* One line each, in the form of a file of --cost. */
    lua_pushfstring(L, "%s %I\n", lua_tostring(L, -2), lua_tointeger(L, -1));
    lua_rawseti(L, lines, ++n);
  }
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, lines, i);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
}

static void set_costs(lua_State *L, int index, soma_machine *m) {
  size_t n;
  int top = lua_gettop(L);
  push_costs_text(L, index);
  const char *text = lua_tolstring(L, -1, &n);
  /* The message names the line or the constant. */
  if (soma_costs_set(m, text, n) != SOMA_OK) luaL_error(L, "%s", soma_error(m));
  lua_settop(L, top);
}

void lb_costs_option(lua_State *L, int arg, soma_machine *m) {
  if (lb_option(L, arg, "costs") != LUA_TNIL) set_costs(L, lua_gettop(L), m);
  lua_pop(L, 1);
}

/* ---- Constants of the clock ---------------------------------------------------------------- */

/* Adds a line of soma_costs_print to the table on the top. */
static void add_cost(lua_State *L, const char *line, size_t n) {
  /* Wide enough for the names and tags that the machine prints. */
  char name[32], unit[8], tag[8], text[256];
  unsigned value;
  int at = 0;
  snprintf(text, sizeof text, "%.*s", (int)(n < 255 ? n : 255), line);
  /* Only lines of constants have this form. */
  if (sscanf(text, "%31s %u # %7s %7s %n", name, &value, unit, tag, &at) != 4 || at == 0) return;
  lua_createtable(L, 0, 4);
  lb_set_count(L, "value", value);
  lb_set_words(L, "unit", unit);
  lb_set_words(L, "tag", tag);
  lb_set_words(L, "source", text + at);
  lua_setfield(L, -2, name);
}

static int machine_gc(lua_State *L) {
  /* Freed early where all goes well, and by the collector otherwise. */
  soma_machine **m = luaL_checkudata(L, 1, "soma.costs");
  soma_machine_free(*m);
  *m = NULL;
  return 0;
}

/* soma.costs([target [, changes]]): a table of {value, unit, tag, source} by name, and the text. */
static int costs(lua_State *L) {
  const char *target = lb_target(L, "costs", luaL_optstring(L, 1, "trn2"));
  /* No budget: the machine lives for this call only. */
  lua_settop(L, 2);
  soma_machine **m = lua_newuserdatauv(L, sizeof *m, 0);
  *m = NULL;
  if (luaL_newmetatable(L, "soma.costs")) {
    lua_pushcfunction(L, machine_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  soma_options o = SOMA_OPTIONS_INIT;
  lb_use_budget(L, NULL, &o.alloc, &o.alloc_ud);
  soma_status s = soma_machine_new(&o, m);
  if (s != SOMA_OK) return lb_fail(L, "costs", NULL, s);
  /* The changes first, so that the text shows them. */
  if (!lua_isnil(L, 2)) set_costs(L, 2, *m);
  char *text;
  size_t n;
  s = soma_costs_print(*m, target, &text, &n);
  if (s != SOMA_OK) return lb_fail(L, "costs", *m, s);
  lua_pushlstring(L, text, n);
  soma_bytes_free(text);
  lua_newtable(L);
  const char *line = lua_tostring(L, -2);
  /* Each line of the text that is a constant goes into the table. */
  for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
    add_cost(L, line, (size_t)(end - line));
  lua_insert(L, -2);
  return 2;
}

const luaL_Reg lb_profile_functions[] = {{"costs", costs}, {NULL, NULL}};
const luaL_Reg lb_profile_methods[] = {{"critical_path", critical_path},
                                       {"idle_gaps", idle_gaps},
                                       {"explain_time", explain_time},
                                       {NULL, NULL}};
