/* Runs: starting one with named inputs, moving it on, its outputs and its fault. */
#include <string.h>

#include "machine.h"

lb_run *lb_check_run(lua_State *L, int arg) { return luaL_checkudata(L, arg, LB_RUN); }

soma_stats lb_run_stats(const lb_run *run) {
  soma_stats s = run->stats;
  if (run->r != NULL) soma_run_stats(run->r, &s, sizeof s);
  return s;
}

soma_stats lb_run_core_stats(const lb_run *run, unsigned core) {
  soma_stats s = run->core_stats[core];
  if (run->r != NULL) soma_core_stats(run->r, core, &s, sizeof s);
  return s;
}

void lb_run_detach(lb_run *run) {
  run->stats = lb_run_stats(run);
  for (unsigned k = 0; k < run->stats.cores; k++) run->core_stats[k] = lb_run_core_stats(run, k);
  /* What a run was stays readable when its machine goes on. */
  run->ended = run->r == NULL ? run->ended : soma_run_ended(run->r) != 0;
  soma_run_free(run->r);
  run->r = NULL;
  if (run->core != NULL) {
    run->core->current = NULL;
    run->core->trace = NULL;
  }
  run->core = NULL;
}

/* ---- Outputs ------------------------------------------------------------------------------- */

/* Pushes a copy of a tensor of the run's program as it is in HBM now. */
static void push_tensor(lua_State *L, const lb_run *run, const soma_tensor_info *info) {
  lt_tensor *t = lt_new(L, (unsigned)info->dtype, info->ndim, info->shape);
  soma_status s = soma_fetch(run->r, info->name, t->data, (size_t)info->bytes);
  if (s != SOMA_OK) lb_fail(L, "fetch", NULL, s);
}

static void free_result(lt_storage *s) { soma_result_free(s->owner); }

/* Pushes a tensor on the run's own memory of an output. */
static void push_output(lua_State *L, const lb_run *run, const soma_tensor_info *info) {
  soma_result *x;
  lt_storage *m = lt_push_storage(L);
  soma_status s = soma_take(run->r, info->name, &x);
  if (s != SOMA_OK) lb_fail(L, "run", NULL, s);
  *m = (lt_storage){
      .data = soma_result_data(x), .bytes = info->bytes, .owner = x, .release = free_result};
  lt_new_on(L, (unsigned)info->dtype, info->ndim, info->shape, lua_gettop(L), m->data);
  /* The tensor keeps its storage. */
  lua_remove(L, -2);
}

/* The table run.out of the run at index is filled with every output. */
static void fetch_outputs(lua_State *L, int index) {
  int top = lua_gettop(L);
  const lb_run *run = lb_check_run(L, index);
  soma_tensor_info info;
  bool on_device = lua_getiuservalue(L, index, LB_RUN_DEVICE_OUT) == LUA_TTABLE;
  if (!on_device) lua_newtable(L);
  for (uint32_t i = 0; !on_device && soma_run_tensor(run->r, i, &info) == SOMA_OK; i++) {
    /* Only outputs are given back without being asked for. */
    if (info.role != SOMA_OUTPUT) continue;
    push_output(L, run, &info);
    lua_setfield(L, -2, info.name);
  }
  lua_setiuservalue(L, index, LB_RUN_OUT);
  lua_settop(L, top);
}

/* run:fetch(name): a copy of any tensor of the program as it is now. */
static int run_fetch(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  const char *name = luaL_checkstring(L, 2);
  soma_tensor_info info;
  if (run->r == NULL) return luaL_error(L, "fetch: the core has started another run, or is closed");
  lua_getiuservalue(L, 1, LB_RUN_PROGRAM);
  const lb_program *p = lua_touserdata(L, -1);
  int i = lb_program_tensor(p->p, name, &info);
  if (i < 0) return luaL_error(L, "fetch: the program has no tensor '%s'", name);
  /* With its size in this run. */
  soma_run_tensor(run->r, (uint32_t)i, &info);
  push_tensor(L, run, &info);
  return 1;
}

/* ---- Starting ------------------------------------------------------------------------------ */

enum { IN_PLACE = 1 << 20 }; /* bytes of an input from which on core:run does not copy it */

/* Checks that the device tensor on the top, an input of that name, is on the core. */
static void check_device_input(lua_State *L, const lb_core *core, const char *name) {
  const lb_device_tensor *d = lb_test_device_tensor(L, -1);
  const lb_core *home = lb_device_tensor_core(d);
  if (lb_device_tensor_handle(d) == NULL)
    luaL_error(L, "run: input '%s' is a tensor that is closed", name);
  if (!lb_device_tensor_dense(d))
    luaL_error(L, "run: input '%s' is a view that is not dense: use %s:copy()", name, name);
  if (home == core) return;
  const char *there = lb_push_device_name(L, home->device);
  if (home->m == NULL)
    luaL_error(L, "run: input '%s' was on %s, whose core has been closed", name, there);
  if (core->device == LB_CPU)
    luaL_error(L,
               "run: input '%s' is on %s, but this core is not on a device: make it with "
               "soma.core{device = \"%s\"}",
               name, there, there);
  luaL_error(L, "run: input '%s' is on %s, but this core is %s", name, there,
             lb_push_device_name(L, core->device));
}

/* Pushes two tables of the inputs at index, by name: those on the host, dense, and those on the
 * device. */
static void check_inputs(lua_State *L, const lb_core *core, int index) {
  lua_newtable(L);
  lua_newtable(L);
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_istable(L, index) && lua_next(L, index) != 0;) {
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "run: inputs must be given by name, not by a %s", luaL_typename(L, -2));
    const char *name = lua_tostring(L, -2);
    bool on_device = lb_test_device_tensor(L, -1) != NULL;
    if (on_device)
      check_device_input(L, core, name);
    else if (lt_test(L, -1) != NULL)
      lt_make_dense(L, lua_gettop(L));
    else
      luaL_error(L, "run: input '%s' must be a tensor, not a %s", name, lb_type_name(L, -1));
    lua_setfield(L, on_device ? top : top - 1, name);
  }
  lua_settop(L, top);
}

static bool is_empty(lua_State *L, int table) {
  lua_pushnil(L);
  if (lua_next(L, table) == 0) return true;
  lua_pop(L, 2);
  return false;
}

/* First dimensions that the inputs and the option `rows` give, by the register that has them; 0:
 * not given. What is wrong with them is found when they are bound. */
typedef struct sizes {
  int64_t of[ISA_NREGS];
} sizes;

static sizes find_sizes(lua_State *L, const lb_program *p, const int tables[3]) {
  sizes s = {{0}};
  soma_tensor_info info;
  int top = lua_gettop(L);
  for (uint32_t i = 0; soma_program_tensor(p->p, i, &info) == SOMA_OK; i++) {
    int reg = soma_program_rows(p->p, i);
    for (unsigned k = 0; k < 3 && reg >= 0; k++) {
      int64_t n = 0;
      if (lua_istable(L, tables[k])) lua_getfield(L, tables[k], info.name);
      const lb_device_tensor *d = lb_test_device_tensor(L, -1);
      const lt_tensor *t = d == NULL ? lt_test(L, -1) : NULL;
      if (lua_isinteger(L, -1)) n = lua_tointeger(L, -1);
      if (d != NULL) n = lb_device_tensor_rows(d);
      if (t != NULL && t->ndim > 0) n = t->shape[0];
      /* A wrong size is refused where it is bound. */
      if (n > 0 && n <= info.shape[0]) s.of[reg] = n;
      lua_settop(L, top);
    }
  }
  return s;
}

/* Tensor i of the program with its size in the run; false past the last. */
static bool sized_tensor(const lb_program *p, uint32_t i, const sizes *s, soma_tensor_info *out) {
  if (soma_program_tensor(p->p, i, out) != SOMA_OK) return false;
  int reg = soma_program_rows(p->p, i);
  if (reg < 0 || s->of[reg] == 0 || s->of[reg] > out->shape[0]) return true;
  out->bytes = out->bytes / (uint64_t)out->shape[0] * (uint64_t)s->of[reg];
  out->shape[0] = s->of[reg];
  return true;
}

/* Outputs stay on the device when all inputs are there, and there are any: pushes a table of them
 * by name and binds them with the device inputs, else pushes nil. */
static void place_outputs(lua_State *L, const lb_program *p, int host, const sizes *s) {
  int device = host + 1;
  soma_tensor_info info;
  if (!is_empty(L, host) || is_empty(L, device)) {
    lua_pushnil(L);
    return;
  }
  lua_newtable(L);
  for (uint32_t i = 0; sized_tensor(p, i, s, &info); i++) {
    if (info.role != SOMA_OUTPUT) continue;
    /* An output that the caller gave is used as it is. */
    if (lua_getfield(L, device, info.name) == LUA_TNIL) {
      const char *what = lua_pushfstring(L, "run: output '%s'", info.name);
      const lb_device_tensor *d =
          lb_new_device_tensor(L, 1, what, (unsigned)info.dtype, info.ndim, info.shape);
      lua_replace(L, -3);
      lua_pop(L, 1);
      soma_tensor_name(lb_device_tensor_handle(d), info.name);
      lua_pushvalue(L, -1);
      lua_setfield(L, device, info.name);
    }
    lua_setfield(L, -2, info.name);
  }
}

/* Tells the collector what a run of p takes: it frees what earlier runs left. */
static void account(lua_State *L, const lb_program *p, const sizes *s) {
  soma_tensor_info info;
  uint64_t n = 0;
  for (uint32_t i = 0; sized_tensor(p, i, s, &info); i++)
    if (info.role != SOMA_INPUT) n += info.bytes; /* inputs are tensors already */
  lb_account(L, n);
}

/* The option `rows`, a table of first dimensions by name of tensor. */
static void check_rows(lua_State *L, int arg) {
  if (!lua_istable(L, arg) && !lua_isnil(L, arg))
    luaL_error(L, "run: option 'rows' must be a table, not %s", luaL_typename(L, arg));
  int top = lua_gettop(L);
  for (lua_pushnil(L); lua_istable(L, arg) && lua_next(L, arg) != 0; lua_settop(L, top + 1))
    if (lua_type(L, -2) != LUA_TSTRING || !lua_isinteger(L, -1))
      luaL_error(
          L, "run: option 'rows' must have whole numbers by the names of tensors, as in {y = 100}");
  lua_settop(L, top);
}

/* Starts a run of p with the tensors of two tables, and the first dimensions of a third; in_place:
 * large ones of the host need not be copied. Raises no Lua error, so that no binding is left behind
 * on a failure. */
static soma_status bind_and_start(lua_State *L, lb_core *core, lb_program *p, int host,
                                  bool in_place, soma_run **r) {
  int device = host + 1, rows = host + 2;
  int top = lua_gettop(L);
  soma_status s = SOMA_OK;
  for (lua_pushnil(L); s == SOMA_OK && lua_next(L, host) != 0; lua_pop(L, 1)) {
    const lt_tensor *t = lua_touserdata(L, -1);
    bool large = t->size * isa_dtype_bytes(t->dtype) >= IN_PLACE;
    s = (in_place && large ? soma_bind_shared : soma_bind)(
        core->m, p->p, lua_tostring(L, -2), (soma_dtype)t->dtype, t->ndim, t->shape, t->data);
  }
  lua_settop(L, top);
  for (lua_pushnil(L); s == SOMA_OK && lua_next(L, device) != 0; lua_pop(L, 1))
    s = soma_bind_tensor(core->m, p->p, lua_tostring(L, -2),
                         lb_device_tensor_handle(lua_touserdata(L, -1)));
  lua_settop(L, top);
  for (lua_pushnil(L); s == SOMA_OK && lua_istable(L, rows) && lua_next(L, rows) != 0;
       lua_pop(L, 1))
    s = soma_bind_rows(core->m, p->p, lua_tostring(L, -2), lua_tointeger(L, -1));
  lua_settop(L, top);
  /* A core has one run: the old one is read before. */
  if (s == SOMA_OK && core->current != NULL) lb_run_detach(core->current);
  if (s == SOMA_OK && core->world == NULL) s = soma_run_start(core->m, p->p, r);
  /* Nothing stays bound. */
  if (s != SOMA_OK) soma_unbind(core->m, p->p);
  return s;
}

static bool option_faults(lua_State *L, int arg) {
  static const char *const known[] = {"faults", "in_place", "rows", NULL};
  lb_options(L, arg, "run", known);
  const char *faults = lb_string(L, arg, "run", "faults");
  if (faults != NULL && strcmp(faults, "return") != 0 && strcmp(faults, "raise") != 0)
    luaL_error(L, "run: option 'faults' must be \"raise\" or \"return\", not \"%s\"", faults);
  return faults != NULL && strcmp(faults, "return") == 0;
}

/* core, program, inputs or nil, options or nil: leaves a run that has started in position 5, of a
 * world's core one that the world will start.
 * in_place: it runs to its end before the caller can change an input; or the option says that the
 * caller will not. */
static void start(lua_State *L, bool in_place) {
  lua_settop(L, 4);
  lb_core *core = lb_check_core(L, 1);
  lb_program *p = lb_check_program(L, 2);
  bool returns_faults = option_faults(L, 4);
  in_place = lb_bool(L, 4, "run", "in_place", in_place);
  if (!lua_isnil(L, 3)) luaL_checktype(L, 3, LUA_TTABLE);
  lb_run *run = lua_newuserdatauv(L, sizeof *run, LB_RUN_SLOTS);
  *run = (lb_run){.returns_faults = returns_faults};
  luaL_setmetatable(L, LB_RUN);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 5, LB_RUN_CORE);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 5, LB_RUN_PROGRAM);
  if (core->traces && soma_recorder_new(&core->record, &run->trace) != SOMA_OK)
    luaL_error(L, "run: out of memory");
  run->bounded = core->record.max_events != 0;
  check_inputs(L, core, 3); /* to 6 and 7 */
  lb_option(L, 4, "rows");  /* to 8 */
  check_rows(L, 8);
  sizes s = find_sizes(L, p, (int[]){6, 7, 8});
  place_outputs(L, p, 6, &s);
  lua_setiuservalue(L, 5, LB_RUN_DEVICE_OUT);
  account(L, p, &s);
  soma_status status = bind_and_start(L, core, p, 6, in_place, &run->r);
  if (status == SOMA_LIMIT || status == SOMA_NOMEM) { /* what it has dropped may still take it */
    lua_gc(L, LUA_GCCOLLECT);
    status = bind_and_start(L, core, p, 6, in_place, &run->r);
  }
  if (status != SOMA_OK) lb_fail(L, "run", core->m, status);
  run->core = core;
  core->current = run;
  core->trace = run->trace;
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 1, LB_CORE_PROGRAM);
  lua_pushvalue(L, 6);
  lua_setiuservalue(L, 1, LB_CORE_INPUTS); /* until the next run: it may read them in place */
  lua_settop(L, 5);
}

/* ---- Saving and resuming ------------------------------------------------------------------- */

/* run:save(path): its state as a file for core:resume. true; nil and a message when the file
 * cannot be written. Raises when the run has faulted. */
static int run_save(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  const char *path = lb_path(L, 2);
  void *data;
  size_t n;
  if (run->r == NULL) return luaL_error(L, "save: the core has started another run, or is closed");
  lb_file *f = lb_fits_name(L, path, false) ? lb_file_create(L, path) : NULL;
  if (f == NULL) return 2;
  soma_status s = soma_run_save(run->r, &data, &n);
  if (s != SOMA_OK) {
    lb_file_close(f);
    return lb_fail(L, "save", run->core->m, s);
  }
  fwrite(data, 1, n, f->f);
  soma_bytes_free(data);
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

lb_run *lb_run_push(lua_State *L, int at, int program) {
  lb_core *core = lua_touserdata(L, at);
  lb_run *run = lua_newuserdatauv(L, sizeof *run, LB_RUN_SLOTS);
  *run = (lb_run){.returns_faults = true};
  luaL_setmetatable(L, LB_RUN);
  lua_pushvalue(L, at);
  lua_setiuservalue(L, -2, LB_RUN_CORE);
  lua_pushvalue(L, program);
  lua_setiuservalue(L, -2, LB_RUN_PROGRAM);
  if (core->traces && soma_recorder_new(&core->record, &run->trace) != SOMA_OK)
    luaL_error(L, "resume: out of memory");
  run->bounded = core->record.max_events != 0;
  if (core->current != NULL) lb_run_detach(core->current);
  return run;
}

void lb_run_resumed(lua_State *L, int at, int program, int index) {
  lb_core *core = lua_touserdata(L, at);
  lb_run *run = lua_touserdata(L, index);
  lb_program *p = lua_touserdata(L, program);
  run->core = core;
  core->current = run;
  core->trace = run->trace;
  lua_pushvalue(L, program);
  lua_setiuservalue(L, at, LB_CORE_PROGRAM);
  lua_pushnil(L);
  lua_setiuservalue(L, at, LB_CORE_INPUTS); /* it has its own */
  account(L, p, &(sizes){{0}});
  run->ended = soma_run_ended(run->r) != 0;
  if (run->ended) fetch_outputs(L, index);
}

/* core:resume(path, {faults}): the run that was saved there, and its program; nil and a message
 * when the file cannot be read. */
int lb_core_resume(lua_State *L) {
  size_t n;
  lua_settop(L, 3);
  lb_core *core = lb_check_core(L, 1);
  const char *path = lb_path(L, 2);
  bool returns_faults = option_faults(L, 3);
  if (!lb_read_file(L, path)) return 2;
  const char *data = lua_tolstring(L, -1, &n);
  lua_replace(L, 4); /* the string stays there */
  lua_settop(L, 4);
  lb_program *p = lb_new_program(L);
  lb_run *run = lb_run_push(L, 1, 5);
  run->returns_faults = returns_faults;
  soma_status s = soma_run_resume(core->m, data, n, &p->p, &run->r);
  if (s != SOMA_OK) return lb_fail(L, path, core->m, s);
  lb_run_resumed(L, 1, 5, 6);
  lua_pushvalue(L, 6);
  lua_pushvalue(L, 5);
  return 2;
}

/* ---- Moving on ----------------------------------------------------------------------------- */

/* Where a run shall stop: engine and core are of SOMA_ISSUE, time of SOMA_TIME. */
typedef struct goal {
  soma_until what;
  soma_engine engine;
  unsigned core;
  soma_time time;
} goal;

void lb_run_moved(lua_State *L, int index, soma_status s) {
  lb_run *run = lb_check_run(L, index);
  run->ended = soma_run_ended(run->r) != 0;
  if (run->ended) fetch_outputs(L, index);
  if (s == SOMA_OK) return;
  lb_push_fault(L, run->r);
  if (!run->returns_faults) lua_error(L);
  lua_setiuservalue(L, index, LB_RUN_FAULT);
}

/* Runs until the stop; the run is at stack position index of L. Raises the error of a callback,
 * and the run's fault unless faults are returned. */
static void move(lua_State *L, int index, const goal *to) {
  lb_run *run = lb_check_run(L, index);
  lb_core *core = run->core;
  if (run->r == NULL) luaL_error(L, "the core has started another run, or is closed");
  if (core->running != NULL)
    luaL_error(L, "the core is running: do not call this from its own callback");
  if (core->world != NULL)
    luaL_error(L, "the run is a rank of a world, which moves it: world:continue, world:step");
  lua_getiuservalue(L, index, LB_RUN_CORE);
  core->running = L;
  core->index = lua_gettop(L);
  core->failed = false;
  core->started = lb_host_seconds();
  soma_status s = to->core ? soma_core_issue(run->r, to->core, to->engine)
                           : soma_run_until(run->r, to->what, to->engine, to->time);
  core->running = NULL;
  if (core->failed) {
    lua_getiuservalue(L, core->index, LB_CORE_ERROR);
    lua_error(L);
  }
  lua_pop(L, 1);
  lb_run_moved(L, index, s);
}

int lb_run_prepare(lua_State *L) {
  start(L, true);
  return 1;
}

static void refuse_rank(lua_State *L, const char *what) {
  const lb_core *core = lb_check_core(L, 1);
  if (core->world != NULL)
    luaL_error(L, "%s: the core is a rank of a world, whose method run moves all ranks", what);
}

/* core:run(program, inputs, {faults, in_place, rows}): runs to the end. */
int lb_core_run(lua_State *L) {
  refuse_rank(L, "run");
  start(L, true);
  move(L, 5, &(goal){.what = SOMA_END});
  lua_settop(L, 5);
  return 1;
}

/* core:start(program, inputs, {faults, in_place, rows}): a run at time 0. */
int lb_core_start(lua_State *L) {
  refuse_rank(L, "start");
  start(L, false);
  return 1;
}

/* run:continue(): to the end, also after an interruption. */
static int run_continue(lua_State *L) {
  lua_settop(L, 1);
  move(L, 1, &(goal){.what = SOMA_END});
  return 1;
}

/* run:step(engine[, {core = 1}]): until that engine has issued one more instruction. */
static int run_step(lua_State *L) {
  lua_settop(L, 3);
  const lb_run *run = lb_check_run(L, 1);
  goal to = {.what = SOMA_ISSUE,
             .engine = (soma_engine)lb_engine(L, 2),
             .core = lb_core_number(L, 3, "step")};
  if (to.core >= lb_run_stats(run).cores) return luaL_error(L, "step: the program has one core");
  lua_settop(L, 2);
  move(L, 1, &to);
  lua_settop(L, 1);
  return 1;
}

/* run:step_event(): one event. */
static int run_step_event(lua_State *L) {
  lua_settop(L, 1);
  move(L, 1, &(goal){.what = SOMA_EVENT});
  return 1;
}

/* run:until_time(ns): every event up to that simulated time. */
static int run_until_time(lua_State *L) {
  lua_Number ns = luaL_checknumber(L, 2);
  luaL_argcheck(L, ns >= 0 && ns < 1e13, 2, "expected a time in nanoseconds, 0 to 1e13");
  lua_settop(L, 1);
  move(L, 1, &(goal){.what = SOMA_TIME, .time = (soma_time)(ns * 1e6)});
  return 1;
}

/* ---- The object ---------------------------------------------------------------------------- */

static int run_close(lua_State *L) {
  lb_run *run = lb_check_run(L, 1);
  if (run->core != NULL && run->core->running != NULL)
    return luaL_error(L, "the run cannot be closed from its own callback");
  if (run->core != NULL) { /* also if a world has not started it */
    lb_run_detach(run);
    lua_getiuservalue(L, 1, LB_RUN_CORE);
    lua_pushnil(L);
    lua_setiuservalue(L, -2, LB_CORE_INPUTS);
  }
  soma_recorder_free(run->trace);
  run->trace = NULL;
  soma_program_free(run->planned);
  run->planned = NULL;
  return 0;
}

static int run_tostring(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  soma_stats s = lb_run_stats(run);
  lua_pushfstring(L, "soma.run, %s at %f ns", run->ended ? "ended" : "stopped",
                  (lua_Number)s.time * 1e-6);
  return 1;
}

/* run.out: the outputs, as they were at the end (before it: empty). */
static void push_out(lua_State *L) {
  if (lua_getiuservalue(L, 1, LB_RUN_OUT) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
}

/* The table on the top, and those in it, print as text. */
static void make_readable(lua_State *L) {
  luaL_checkstack(L, 8, "stats");
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1))
    if (lua_istable(L, -1)) make_readable(L);
  luaL_setmetatable(L, LB_READABLE);
}

/* Fields: out, time_ns, stats, fault, findings, schedules, stopped, ended. */
static int run_index(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  lua_settop(L, 2);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "out") == 0)
    push_out(L);
  else if (strcmp(key, "time_ns") == 0)
    lua_pushnumber(L, (lua_Number)lb_run_stats(run).time * 1e-6);
  else if (strcmp(key, "stats") == 0)
    lb_push_stats(L, run);
  else if (strcmp(key, "fault") == 0)
    lua_getiuservalue(L, 1, LB_RUN_FAULT);
  else if (strcmp(key, "findings") == 0)
    lb_push_findings(L, run->r);
  else if (strcmp(key, "schedules") == 0)
    lb_push_schedules(L, run->r);
  else if (strcmp(key, "stopped") == 0)
    lb_push_hits(L, run);
  else if (strcmp(key, "ended") == 0)
    lua_pushboolean(L, run->ended);
  else {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
      return luaL_error(L, "a run has no field or method '%s'", luaL_tolstring(L, 2, NULL));
  }
  if (lua_istable(L, -1) && !lua_getmetatable(L, -1)) {
    make_readable(L);
    return 1;
  }
  lua_settop(L, 3);
  return 1;
}

void lb_open_run(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", run_close}, {"__close", run_close}, {"__tostring", run_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"step", run_step},          {"step_event", run_step_event}, {"until_time", run_until_time},
      {"continue", run_continue},  {"fetch", run_fetch},           {"save", run_save},
      {"summary", lb_run_summary}, {"close", run_close},           {NULL, NULL}};
  static const luaL_Reg *const lists[] = {methods, lb_trace_methods, lb_debug_methods,
                                          lb_profile_methods, NULL};
  lb_object(L, LB_RUN, meta, run_index, lists);
}
