/* Worlds of ranks: soma.world{...}, whose cores run programs together. */
#include <string.h>

#include "machine.h"

#define LB_RUNS "soma.runs" /* the metatable of what w:run gives */
enum { CORES = LB_WORLD_CORES, RUNS = LB_WORLD_RUNS, TARGET = 256 }; /* bytes of a name */

static lb_world *check_any(lua_State *L, int arg) { return luaL_checkudata(L, arg, LB_WORLD); }
lb_world *lb_check_world(lua_State *L, int arg) {
  lb_world *x = check_any(L, arg);
  luaL_argcheck(L, x->w != NULL, arg, "the world is closed");
  luaL_argcheck(L, !x->running, arg, "the world is running");
  return x;
}

int lb_world_fail(lua_State *L, const char *what, const lb_world *x) {
  return luaL_error(L, "%s: %s", what, soma_world_error(x->w));
}

/* ---- Making one ---------------------------------------------------------------------------- */

enum { OWN = 6 };
static const char *const own_options[OWN + 1] = {"ranks",     "lnc",       "instance", "threads",
                                                 "algorithm", "window_ns", NULL};

static bool is_own(const char *name) {
  for (unsigned i = 0; own_options[i] != NULL; i++)
    if (strcmp(own_options[i], name) == 0) return true;
  return false;
}

/* The names of the table at 1 must be options of a world, or of its ranks' cores. */
static void check_names(lua_State *L) {
  const char *known[OWN + LB_CORE_OPTIONS + 1];
  memcpy(known, own_options, OWN * sizeof *known);
  memcpy(known + OWN, lb_core_options, (LB_CORE_OPTIONS + 1) * sizeof *known);
  lb_options(L, 1, "world", known);
}

/* Pushes the table at 1 without the world's own options: those of each rank's core. */
static void push_core_options(lua_State *L) {
  lua_newtable(L);
  int to = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_settop(L, to + 1)) {
    if (lua_type(L, -2) == LUA_TSTRING && is_own(lua_tostring(L, -2))) continue;
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_settable(L, to);
  }
  lua_settop(L, to);
}

/* Fills x->cores with new cores of the options at index, and keeps them in a table. */
static void make_cores(lua_State *L, lb_world *x, int world, int options) {
  lua_createtable(L, (int)x->ranks, 0);
  for (uint32_t r = 0; r < x->ranks; r++) {
    lua_pushcfunction(L, lb_new_core);
    lua_pushvalue(L, options);
    lua_call(L, 1, 1);
    x->cores[r] = lua_touserdata(L, -1);
    lua_rawseti(L, -2, (lua_Integer)r);
  }
  lua_setiuservalue(L, world, CORES);
}

/* soma.world{ranks, lnc, instance, threads, algorithm, and options of soma.core for each rank} */
static int new_world(lua_State *L) {
  char why[512] = "";
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  check_names(L);
  soma_world_options o = {.size = sizeof o, .error = why, .error_size = sizeof why};
  o.ranks = (uint32_t)lb_integer(L, 1, "world", "ranks", 1, 4096, 0);
  if (o.ranks == 0) return luaL_error(L, "world: option 'ranks' is missing: it says how many");
  o.lnc = (uint32_t)lb_integer(L, 1, "world", "lnc", 1, 2, 1);
  o.threads = (unsigned)lb_integer(L, 1, "world", "threads", 0, 256, 0);
  o.window = (soma_time)lb_integer(L, 1, "world", "window_ns", 0, 1000000000, 0) * 1000000;
  o.instance = lb_string(L, 1, "world", "instance");
  o.algorithm = lb_string(L, 1, "world", "algorithm");
  lua_getfield(L, LUA_REGISTRYINDEX, LB_TRANSPORT);
  o.transport = lua_touserdata(L, -1); /* which lives as long as the process */
  lua_pop(L, 1);
  lb_world *x = lua_newuserdatauv(L, sizeof *x, LB_WORLD_SLOTS);
  *x = (lb_world){.ranks = o.ranks};
  /* Whatever fails from here on, the collector closes the world. */
  luaL_setmetatable(L, LB_WORLD);
  x->cores = lua_newuserdatauv(L, o.ranks * sizeof *x->cores, 0);
  soma_machine **m = lua_newuserdatauv(L, o.ranks * sizeof *m, 0);
  push_core_options(L); /* at 5 */
  make_cores(L, x, 2, 5);
  lua_getiuservalue(L, 2, CORES);
  lua_pushvalue(L, 3);
  lua_setfield(L, -2, "list"); /* so that it lives as long */
  for (uint32_t r = 0; r < o.ranks; r++) m[r] = x->cores[r]->m;
  o.machines = m;
  if (soma_world_new(&o, &x->w) != SOMA_OK) return luaL_error(L, "world: %s", why);
  for (uint32_t r = 0; r < o.ranks; r++) x->cores[r]->world = x;
  lua_settop(L, 2);
  return 1;
}

static int world_close(lua_State *L) {
  lb_world *x = check_any(L, 1);
  if (x->w == NULL) return 0;
  luaL_argcheck(L, !x->running, 1, "the world is running");
  /* The runs keep what they have, and the cores can run alone again. */
  for (uint32_t r = 0; r < x->ranks; r++) {
    if (x->cores[r]->current != NULL) lb_run_detach(x->cores[r]->current);
    x->cores[r]->world = NULL;
  }
  soma_world_free(x->w);
  x->w = NULL;
  return 0;
}

/* ---- Running ------------------------------------------------------------------------------- */

/* Pushes what the value at index, one for all ranks or a table or a function by rank, gives rank r.
 */
static void push_for(lua_State *L, int index, uint32_t r, const char *what, bool shared) {
  lua_pushvalue(L, index);
  /* Caught only to name the rank: the same function is called for every one. */
  if (lua_isfunction(L, -1)) {
    lua_pushinteger(L, (lua_Integer)r);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
      if (lua_type(L, -1) == LUA_TSTRING)
        lua_pushfstring(L, "run: %s of rank %d: %s", what, (int)r, lua_tostring(L, -1));
      lua_error(L);
    }
  } else if (lua_istable(L, -1) && !shared) {
    lua_rawgeti(L, -1, (lua_Integer)r);
    lua_remove(L, -2);
  }
}

/* Whether a table has inputs by rank and not by name. */
static bool by_rank(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  /* Names of inputs are strings, ranks count from 0. */
  bool any = lua_rawgeti(L, index, 0) != LUA_TNIL;
  lua_pop(L, 1);
  return any;
}

/* The runs of all ranks, which do not have their handles yet, into the table at 5. */
static void prepare(lua_State *L, lb_world *x) {
  lua_getiuservalue(L, 1, CORES);
  int cores = lua_gettop(L);
  for (uint32_t r = 0; r < x->ranks; r++) {
    lua_pushcfunction(L, lb_run_prepare);
    lua_rawgeti(L, cores, (lua_Integer)r);
    push_for(L, 2, r, "the program", false);
    const lb_program *p = luaL_testudata(L, -1, LB_PROGRAM);
    if (p == NULL)
      luaL_error(L, "run: rank %d has %s, not a program; one for all, or a table by rank, from 0",
                 (int)r, luaL_typename(L, -1));
    push_for(L, 3, r, "the inputs", !by_rank(L, 3));
    if (!lua_isnil(L, -1) && !lua_istable(L, -1))
      luaL_error(L, "run: the inputs of rank %d are %s, not a table", (int)r, luaL_typename(L, -1));
    lua_pushvalue(L, 4);
    lua_call(L, 4, 1);
    lua_rawseti(L, 5, (lua_Integer)r);
    if (soma_world_load(x->w, r, p->p) != SOMA_OK) lb_world_fail(L, "run", x);
  }
  lua_settop(L, cores - 1);
}

/* Gives callbacks of all ranks the thread in which they run; pushes the cores. */
static void lend_thread(lua_State *L, lb_world *x) {
  luaL_checkstack(L, (int)x->ranks + LUA_MINSTACK, "too many ranks");
  lua_getiuservalue(L, 1, CORES);
  int cores = lua_gettop(L);
  for (uint32_t r = 0; r < x->ranks; r++) {
    lua_rawgeti(L, cores, (lua_Integer)r);
    lb_core *core = x->cores[r];
    core->running = L;
    core->index = lua_gettop(L);
    core->failed = false;
    core->started = lb_host_seconds();
  }
}

/* Raises the error of a callback of the first rank that has one. */
static void take_thread(lua_State *L, lb_world *x) {
  const lb_core *failed = NULL;
  for (uint32_t r = 0; r < x->ranks; r++) {
    x->cores[r]->running = NULL;
    if (x->cores[r]->failed && failed == NULL) failed = x->cores[r];
  }
  if (failed == NULL) return;
  lua_getiuservalue(L, failed->index, LB_CORE_ERROR);
  lua_error(L);
}

void lb_world_finish(lua_State *L, lb_world *x) {
  lua_newtable(L);
  lua_setfield(L, 5, "stopped");
  for (uint32_t r = 0; r < x->ranks; r++) {
    soma_fault f;
    lua_rawgeti(L, 5, (lua_Integer)r);
    lb_run *run = lua_touserdata(L, -1);
    soma_run_fault(run->r, &f);
    /* What went over links is the world's, so that one recorder is enough for it. */
    if (run->trace && ((r == 0 && soma_recorder_links(run->trace, x->w) != SOMA_OK) ||
                       soma_recorder_collectives(run->trace, x->w, r) != SOMA_OK))
      luaL_error(L, "not enough memory for collectives and what went over links");
    lb_add_stopped(L, run, r);
    run->returns_faults = true; /* the world has raised it, if it is to be raised */
    lb_run_moved(L, lua_gettop(L), f.status);
    lua_pop(L, 1);
  }
  lb_push_collectives(L, x->w);
  lua_setfield(L, 5, "collectives");
  lb_push_world_findings(L, x->w);
  lua_setfield(L, 5, "findings");
  lb_push_links(L, x->w);
  lua_setfield(L, 5, "links");
  lb_set_ns(L, "time_ns", soma_world_time(x->w));
  lb_set_count(L, "hash", soma_world_hash(x->w));
  lb_set_count(L, "windows", soma_world_windows(x->w));
  uint64_t calls, bytes;
  soma_world_traffic(x->w, &calls, &bytes);
  /* A world of one process has no transport to tell of. */
  if (calls == 0) return;
  lua_createtable(L, 0, 2);
  lb_set_count(L, "calls", calls);
  lb_set_count(L, "bytes", bytes);
  lua_setfield(L, 5, "transport");
}

/* Starts what is at 2 with the inputs at 3 and options at 4: the runs come into the table at 5. */
static void start(lua_State *L, lb_world *x) {
  prepare(L, x);
  if (soma_world_start(x->w) != SOMA_OK) lb_world_fail(L, "run", x);
  for (uint32_t r = 0; r < x->ranks; r++) {
    x->cores[r]->current->r = soma_world_run(x->w, r);
    x->cores[r]->current->planned = soma_world_program(x->w, r);
  }
  lua_pushvalue(L, 5);
  lua_setiuservalue(L, 1, RUNS);
}

static void push_runs(lua_State *L, const lb_world *x) {
  lua_createtable(L, (int)x->ranks, 8);
  luaL_setmetatable(L, LB_RUNS);
}

/* Moves the runs in the table at 5 on. */
static soma_status move(lua_State *L, lb_world *x, const lb_world_goal *g) {
  lend_thread(L, x);
  x->running = true;
  soma_status s = g->steps ? soma_world_step(x->w, g->what, g->rank, g->core, g->engine, g->time)
                           : soma_world_until(x->w, g->time);
  x->running = false;
  take_thread(L, x);
  lua_settop(L, 5);
  return s;
}

/* What the options at 4 say about faults is done with the status; pushes the runs. */
static int moved(lua_State *L, lb_world *x, const char *what, soma_status s) {
  const char *faults = lb_string(L, 4, what, "faults");
  bool returns = faults != NULL && strcmp(faults, "return") == 0;
  if (s != SOMA_OK && !returns) return luaL_error(L, "%s", soma_world_error(x->w));
  lua_pushstring(L, s == SOMA_OK ? NULL : soma_world_error(x->w));
  lua_setfield(L, 5, "fault");
  lua_pushstring(L, s == SOMA_OK ? NULL : lb_fault_kind(s));
  lua_setfield(L, 5, "kind");
  lb_world_finish(L, x);
  lua_settop(L, 5);
  return 1;
}

/* Before processes move a world together: those that wait after a sweep are told. */
static void call_others(lua_State *L) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, LB_BEFORE_WORLD) == LUA_TFUNCTION &&
      lua_getfield(L, LUA_REGISTRYINDEX, LB_TRANSPORT) != LUA_TNIL) {
    lua_pop(L, 1);
    lua_call(L, 0, 0);
  }
  lua_settop(L, 4);
}

/* w:run(program or programs by rank, inputs of rank r as function(r), as a table by rank, or the
 * same for all; {faults, in_place, rows}): a table of the runs by rank. */
static int world_run(lua_State *L) {
  lb_world *x = lb_check_world(L, 1);
  lua_settop(L, 4);
  lb_string(L, 4, "run", "faults"); /* a wrong one is told first */
  call_others(L);
  push_runs(L, x);
  start(L, x);
  const lb_world_goal to = {.time = SOMA_TIME_END};
  soma_status s = move(L, x, &to);
  /* It failed while it was spread over processes; once more, whole, for the full report. */
  if (soma_world_again(x->w)) {
    start(L, x);
    s = move(L, x, &to);
  }
  return moved(L, x, "run", s);
}

/* w:start(as run): the same at time 0. */
static int world_start(lua_State *L) {
  lb_world *x = lb_check_world(L, 1);
  lua_settop(L, 4);
  call_others(L);
  push_runs(L, x);
  start(L, x);
  lb_world_finish(L, x);
  return 1;
}

int lb_world_go(lua_State *L, const char *what, const lb_world_goal *g) {
  lb_world *x = lb_check_world(L, 1);
  if (lua_getiuservalue(L, 1, RUNS) != LUA_TTABLE)
    return luaL_error(L, "%s: the world has not been started", what);
  return moved(L, x, what, move(L, x, g));
}

/* w:continue{until_ns, faults}: what has been started goes on, to its end, to a stop or to that
 * time. */
static int world_continue(lua_State *L) {
  /* What else is given is dropped, and there is room for the options at 4. */
  lua_settop(L, 2);
  lua_settop(L, 4);
  lua_rotate(L, 2, 2); /* the options come to 4 */
  lua_Integer ns = lb_integer(L, 4, "continue", "until_ns", 0, 1000000000000, -1);
  soma_time time = ns < 0 ? SOMA_TIME_END : (soma_time)ns * 1000000;
  return lb_world_go(L, "continue", &(lb_world_goal){.time = time});
}

/* w:program(rank): what a rank ran, with the programs of its CC sequencers, as a new program. */
static int world_program(lua_State *L) {
  lb_world *x = lb_check_world(L, 1);
  lua_Integer r = luaL_checkinteger(L, 2);
  luaL_argcheck(L, r >= 0 && r < (lua_Integer)x->ranks, 2, "the world has no such rank");
  soma_program *from = soma_world_program(x->w, (uint32_t)r);
  soma_machine *m = x->cores[r]->m;
  void *data = NULL;
  size_t n = 0;
  luaL_argcheck(L, from != NULL, 1, "the world has not run");
  lb_program *p = lb_new_program(L);
  soma_status s = soma_program_save(m, from, &data, &n);
  if (s == SOMA_OK) s = soma_program_load(m, data, n, &p->p);
  soma_bytes_free(data);
  soma_program_free(from);
  return s == SOMA_OK ? 1 : luaL_error(L, "program: %s", soma_error(m));
}

/* ---- Files -------------------------------------------------------------------------------- */

/* Pushes true; false with nil and a message pushed when the file cannot be written. */
static bool write_world(lua_State *L, const char *path, const void *data, size_t n) {
  lb_file *f = lb_fits_name(L, path, false) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return false;
  fwrite(data, 1, n, f->f);
  if (!lb_file_commit(L, f)) return false;
  lua_pushboolean(L, true);
  return true;
}

/* Whether process 0, which writes for all of a job, has written; then all can read. Else nil and a
 * message are pushed where another process has them already. */
static bool all_written(lua_State *L, bool written) {
  enum { MESSAGE = 512 };
  lua_getfield(L, LUA_REGISTRYINDEX, LB_TRANSPORT);
  const soma_transport *t = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (t == NULL) return written;
  /* An empty message is success. */
  char mine[MESSAGE] = "", *all = lua_newuserdatauv(L, t->size * sizeof mine, 0);
  if (!written) snprintf(mine, sizeof mine, "%s", lua_tostring(L, -2));
  if (!t->share(t->ud, mine, sizeof mine, all)) luaL_error(L, "save: another process is lost");
  if (all[0] == 0) {
    lua_pop(L, 1);
    return written;
  }
  lua_pushnil(L);
  lua_pushstring(L, all);
  return false;
}

/* w:save(path): its state, for soma.load_world. true; nil and a message when the file cannot be
 * written. */
static int world_save(lua_State *L) {
  lb_world *x = lb_check_world(L, 1);
  const char *path = lb_path(L, 2);
  void *data;
  size_t n;
  if (soma_world_save(x->w, &data, &n) != SOMA_OK) return lb_world_fail(L, "save", x);
  bool written = write_world(L, path, data, n);
  soma_bytes_free(data);
  return all_written(L, written) ? 1 : 2;
}

/* Pushes soma.world of the options at 2 and those of the saved world, whose target is that of its
 * ranks if the options have none. */
static lb_world *push_saved(lua_State *L, const soma_world_options *o, const char *target) {
  lua_pushcfunction(L, new_world);
  lua_newtable(L);
  /* The user's first: what the file says of the world's form replaces theirs. */
  for (lua_pushnil(L); lua_istable(L, 2) && lua_next(L, 2) != 0;) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_settable(L, -4);
  }
  lua_settop(L, 6); /* without options the loop leaves a nil */
  lb_set_count(L, "ranks", o->ranks);
  lb_set_count(L, "lnc", o->lnc);
  lua_pushstring(L, o->instance);
  lua_setfield(L, 6, "instance");
  lua_pushstring(L, o->algorithm);
  lua_setfield(L, 6, "algorithm");
  if (lua_getfield(L, 6, "target") == LUA_TNIL) {
    lua_pushstring(L, target);
    lua_setfield(L, 6, "target");
  }
  lua_pop(L, 1);
  lua_call(L, 1, 1);
  return lua_touserdata(L, -1);
}

/* The runs of a world at 5 that has come from a file, into the table at 6. */
static void take_runs(lua_State *L, lb_world *x) {
  lua_getiuservalue(L, 5, CORES);
  for (uint32_t r = 0; r < x->ranks; r++) {
    lua_rawgeti(L, 7, (lua_Integer)r);
    lb_new_program(L)->p = soma_world_program(x->w, r);
    lb_run *run = lb_run_push(L, 8, 9);
    run->r = soma_world_run(x->w, r);
    run->planned = soma_world_program(x->w, r);
    lb_run_resumed(L, 8, 9, 10);
    lua_rawseti(L, 6, (lua_Integer)r);
    lua_settop(L, 7);
  }
  lua_settop(L, 6);
}

/* The world at 1; its runs at 5. */
static int finish_loaded(lua_State *L) {
  lb_world_finish(L, lb_check_world(L, 1));
  return 0;
}

/* soma.load_world(path, {threads, window_ns, and options of soma.core}): the world that was saved
 * there, and the table of its runs; nil and a message when the file cannot be read. */
static int load_world(lua_State *L) {
  char why[512] = "", target[TARGET];
  size_t n;
  soma_world_options o = {.size = sizeof o, .error = why, .error_size = sizeof why};
  lua_settop(L, 2);
  const char *path = lb_path(L, 1);
  if (!lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  if (!lb_read_file(L, path)) return 2;
  const char *data = lua_tolstring(L, -1, &n);
  lua_replace(L, 3); /* the string stays there */
  lua_settop(L, 4);
  if (soma_world_saved(data, n, &o) != SOMA_OK) return luaL_error(L, "%s: %s", path, why);
  if (soma_world_saved_target(data, n, target, sizeof target) != SOMA_OK) target[0] = 0;
  lb_world *x = push_saved(L, &o, target[0] ? target : NULL);
  lua_createtable(L, (int)x->ranks, 8);
  luaL_setmetatable(L, LB_RUNS);
  if (soma_world_resume(x->w, data, n) != SOMA_OK) return lb_world_fail(L, path, x);
  take_runs(L, x);
  lua_pushvalue(L, 6);
  lua_setiuservalue(L, 5, RUNS);
  /* lb_world_finish expects the world at 1 and the runs at 5. */
  lua_pushcfunction(L, finish_loaded);
  lua_pushvalue(L, 5);
  for (int i = 0; i < 3; i++) lua_pushnil(L);
  lua_pushvalue(L, 6);
  lua_call(L, 5, 0);
  return 2;
}

/* ---- What if ------------------------------------------------------------------------------- */

static int check_end(lua_State *L, int arg) {
  static const char *const names[] = {"efa", "switch", NULL};
  if (lua_type(L, arg) == LUA_TSTRING)
    return luaL_checkoption(L, arg, NULL, names) == 0 ? SOMA_EFA : SOMA_SWITCH;
  lua_Integer d = luaL_checkinteger(L, arg);
  luaL_argcheck(L, d >= 0 && d < 65536, arg, "a device is a number from 0 on");
  return (int)d;
}

/* A time in ns, by default 0. */
static soma_time check_ns(lua_State *L, int arg, bool needed) {
  double ns = needed ? luaL_checknumber(L, arg) : luaL_optnumber(L, arg, 0);
  luaL_argcheck(L, ns >= 0 && ns <= 1e12, arg, "a time is 0 to 1e12 ns");
  return (soma_time)(ns * 1e6 + 0.5);
}

/* w:slow_link(device, device, factor, from when in ns) */
static int world_slow_link(lua_State *L) {
  const lb_world *x = lb_check_world(L, 1);
  int a = check_end(L, 2), b = check_end(L, 3);
  double factor = luaL_checknumber(L, 4);
  if (soma_world_slow_link(x->w, a, b, factor, check_ns(L, 5, false)) != SOMA_OK)
    return lb_world_fail(L, "slow_link", x);
  return 0;
}

/* w:fail_link(device, device, from when in ns) */
static int world_fail_link(lua_State *L) {
  const lb_world *x = lb_check_world(L, 1);
  int a = check_end(L, 2), b = check_end(L, 3);
  if (soma_world_fail_link(x->w, a, b, check_ns(L, 4, false)) != SOMA_OK)
    return lb_world_fail(L, "fail_link", x);
  return 0;
}

/* w:delay_rank(rank, ns) */
static int world_delay_rank(lua_State *L) {
  const lb_world *x = lb_check_world(L, 1);
  lua_Integer r = luaL_checkinteger(L, 2);
  luaL_argcheck(L, r >= 0 && r < (lua_Integer)x->ranks, 2, "the world has no such rank");
  if (soma_world_delay_rank(x->w, (uint32_t)r, check_ns(L, 3, true)) != SOMA_OK)
    return lb_world_fail(L, "delay_rank", x);
  return 0;
}

/* ---- The object ---------------------------------------------------------------------------- */

/* w.ranks, w.instance, w.cores (by rank), or a method. */
static int world_index(lua_State *L) {
  const lb_world *x = check_any(L, 1);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "ranks") == 0)
    lua_pushinteger(L, (lua_Integer)x->ranks);
  else if (strcmp(key, "instance") == 0)
    lua_pushstring(L, soma_world_instance(x->w));
  else if (strcmp(key, "trust") == 0)
    lua_pushstring(L, soma_world_trust(x->w));
  else if (strcmp(key, "cores") == 0)
    lua_getiuservalue(L, 1, CORES);
  else {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
      return luaL_error(L, "a world has no field or method '%s'", luaL_tolstring(L, 2, NULL));
  }
  return 1;
}

static int world_tostring(lua_State *L) {
  const lb_world *x = check_any(L, 1);
  if (x->w == NULL)
    lua_pushliteral(L, "soma.world (closed)");
  else
    lua_pushfstring(L, "soma.world of %d ranks on %s", (int)x->ranks, soma_world_instance(x->w));
  return 1;
}

const luaL_Reg lb_world_functions[] = {
    {"world", new_world}, {"load_world", load_world}, {NULL, NULL}};

void lb_open_world(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", world_close},
                                  {"__close", world_close},
                                  {"__tostring", world_tostring},
                                  {NULL, NULL}};
  static const luaL_Reg methods[] = {{"run", world_run},
                                     {"start", world_start},
                                     {"continue", world_continue},
                                     {"save", world_save},
                                     {"program", world_program},
                                     {"slow_link", world_slow_link},
                                     {"fail_link", world_fail_link},
                                     {"delay_rank", world_delay_rank},
                                     {"close", world_close},
                                     {NULL, NULL}};
  static const luaL_Reg *const lists[] = {methods, lb_world_debug_methods, NULL};
  lb_object(L, LB_WORLD, meta, world_index, lists);
  static const luaL_Reg of_runs[] = {
      {"save_trace", lb_save_trace_of_ranks}, {"save_html", lb_save_html_of_ranks}, {NULL, NULL}};
  lb_class(L, LB_RUNS, NULL, of_runs);
}
