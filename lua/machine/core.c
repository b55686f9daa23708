/* Machines of one core: options, callbacks from a run into Lua, semaphores and registers. */
#include <string.h>

#include "machine.h"

/* ---- Callbacks ----------------------------------------------------------------------------- */
/* A Lua error must not jump over the VM's frames: each callback runs in a protected call, the
 * first error is kept in the core, the run is stopped, and run.c raises the error then. */

bool lb_call_protected(lb_core *core, lua_CFunction fn, void *arg) {
  lua_State *L = core->running;
  /* After the first error nothing is called any more. */
  if (core->failed || !lua_checkstack(L, 8)) return false;
  lua_pushcfunction(L, fn);
  /* The core itself, so that the function finds its user values. */
  lua_pushvalue(L, core->index);
  lua_pushlightuserdata(L, arg);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return true;
  /* The error's value goes where run.c looks for it. */
  lua_setiuservalue(L, core->index, LB_CORE_ERROR);
  core->failed = true;
  /* The machine stops at the next event it can stop at. */
  soma_machine_interrupt(core->m);
  return false;
}

/* Core and event: a table of the event for the option `events`. */
static int call_event(lua_State *L) {
  static const char *const kinds[] = {"?",    "instruction", "dma",     "semaphore", "notify",
                                      "wait", "table",       "trigger", "meeting"};
  const soma_event *e = lua_touserdata(L, 2);
  lua_getiuservalue(L, 1, LB_CORE_EVENT);
  lua_createtable(L, 0, 10);
  lb_set_text(L, "kind", kinds[e->kind <= SOMA_EV_MEET ? e->kind : 0]);
  /* A DMA engine has a number instead of a name. */
  const char *engine = soma_engine_name((soma_engine)e->engine);
  if (e->kind != SOMA_EV_DMA && engine != NULL) {
    lb_set_text(L, "engine", engine);
  } else if (e->kind == SOMA_EV_DMA) {
    lb_set_count(L, "dma_engine", e->engine);
    lb_set_count(L, "bytes", e->bytes);
  }
  /* Transfers can be followed by their number from trigger to end. */
  if (e->kind == SOMA_EV_TRIGGER) lb_set_count(L, "bytes", e->bytes);
  if (e->kind == SOMA_EV_TRIGGER || e->kind == SOMA_EV_DMA) lb_set_count(L, "transfer", e->part);
  lb_set_count(L, "core", e->core);
  if (e->kind == SOMA_EV_SEM) lb_set_count(L, "by_core", e->by_core);
  lb_set_count(L, "pc", e->pc);
  lb_set_count(L, "id", e->id);
  if (e->kind == SOMA_EV_SEM) lb_set_count(L, "value", e->value);
  lb_set_ns(L, "start_ns", e->start);
  lb_set_ns(L, "end_ns", e->end);
  /* Names live as long as the program, so only Lua's copy is made here. */
  lb_set_text(L, "name", e->name);
  if (e->file != NULL) {
    lb_set_text(L, "file", e->file);
    lb_set_count(L, "line", e->line);
  }
  lua_call(L, 1, 0);
  return 0;
}

static void on_event(void *ud, const soma_event *e) {
  lb_core *core = ud;
  if (core->trace != NULL) soma_recorder_event(core->trace, e);
  /* A recorder needs no Lua. */
  if (core->running == NULL) return;
  if (core->calls_events && !core->mute) lb_call_protected(core, call_event, (void *)(uintptr_t)e);
}

/* What the option `progress` is told. */
typedef struct progress {
  uint64_t instructions;
  soma_time time;
} progress;

/* Also the place where a pending debug hook, such as the interpreter's Ctrl-C, gets to run. */
static int call_progress(lua_State *L) {
  const lb_core *core = lua_touserdata(L, 1);
  const progress *p = lua_touserdata(L, 2);
  if (lua_getiuservalue(L, 1, LB_CORE_PROGRESS) == LUA_TNIL) return 0;
  lua_pushinteger(L, (lua_Integer)p->instructions);
  /* In the clock's femtoseconds times 1e-6: nanoseconds. */
  lua_pushnumber(L, (double)p->time * 1e-6);
  lua_pushnumber(L, lb_host_seconds() - core->started);
  lua_call(L, 3, 0);
  return 0;
}

static int on_progress(void *ud, uint64_t instructions, soma_time t) {
  lb_core *core = ud;
  progress p = {instructions, t};
  if (core->running == NULL) return 0;
  /* Other than 0 stops the run. */
  return !lb_call_protected(core, call_progress, &p);
}

typedef struct output {
  const char *text;
  size_t n;
  int to_stderr;
} output;

static int call_print(lua_State *L) {
  const output *o = lua_touserdata(L, 2);
  /* Without the option the text goes where the program means it. */
  if (lua_getiuservalue(L, 1, LB_CORE_PRINT) == LUA_TNIL) {
    fwrite(o->text, 1, o->n, o->to_stderr ? stderr : stdout);
    return 0;
  }
  lua_pushlstring(L, o->text, o->n);
  lua_pushboolean(L, o->to_stderr);
  lua_call(L, 2, 0);
  return 0;
}

static void on_print(void *ud, int to_stderr, const char *text, size_t n) {
  lb_core *core = ud;
  output o = {text, n, to_stderr};
  if (core->running != NULL && !core->mute) lb_call_protected(core, call_print, &o);
}

/* ---- Making one ---------------------------------------------------------------------------- */

/* Also a closed one, for close and tostring. */
static lb_core *check_any(lua_State *L, int arg) { return luaL_checkudata(L, arg, LB_CORE); }

lb_core *lb_check_core(lua_State *L, int arg) {
  lb_core *core = check_any(L, arg);
  /* A closed core has no machine to ask. */
  luaL_argcheck(L, core->m != NULL, arg, "the core is closed");
  luaL_argcheck(L, core->running == NULL, arg,
                "the core is running: do not call this from its own callback");
  return core;
}

/* Also of an option that is not there: nil, so that nobody is called. */
static bool callback(lua_State *L, const char *name, int slot) {
  int type = lb_option(L, 1, name);
  if (type != LUA_TNIL && type != LUA_TFUNCTION)
    luaL_error(L, "core: option '%s' must be a function, not %s", name, luaL_typename(L, -1));
  /* The options are at 1, the core is at 2. */
  lua_setiuservalue(L, 2, slot);
  return type == LUA_TFUNCTION;
}

static double limit(lua_State *L, const char *name) {
  double v = lb_number(L, 1, "core", name, 0);
  if (v < 0) luaL_error(L, "core: option '%s' is negative: %f", name, v);
  return v;
}

/* A bit for each check, in the order of soma_check. */
static unsigned one_check(lua_State *L, const char *name, size_t n) {
  luaL_Buffer b;
  if (n == 3 && memcmp(name, "all", n) == 0) return SOMA_CHECK_ALL;
  if (n == 4 && memcmp(name, "none", n) == 0) return 0;
  for (unsigned i = 0; i < SOMA_CHECKS; i++) {
    const char *known = soma_check_name((soma_check)i);
    if (strlen(known) == n && memcmp(known, name, n) == 0) return 1u << i;
  }
  lua_pushlstring(L, name, n);
  /* The message names all that there are. */
  luaL_buffinit(L, &b);
  for (unsigned i = 0; i < SOMA_CHECKS; i++) {
    luaL_addstring(&b, soma_check_name((soma_check)i));
    luaL_addstring(&b, ", ");
  }
  luaL_pushresult(&b);
  luaL_error(L, "core: unknown check '%s'; there are: %sall, none", lua_tostring(L, -2),
             lua_tostring(L, -1));
  return 0;
}

void lb_push_checks(lua_State *L) {
  lua_createtable(L, SOMA_CHECKS, 0);
  for (unsigned i = 0; i < SOMA_CHECKS; i++) {
    lua_createtable(L, 0, 3);
    lb_set_text(L, "name", soma_check_name((soma_check)i));
    lb_set_text(L, "text", soma_check_text((soma_check)i));
    /* The usual ones are those that a user should begin with. */
    lb_set_flag(L, "usual", soma_check_usual() >> i & 1);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* checks = "race,uninit" or "all". */
static unsigned checks_option(lua_State *L) {
  const char *checks = lb_string(L, 1, "core", "checks");
  unsigned mask = 0;
  while (checks != NULL && *checks) {
    size_t n = strcspn(checks, ",");
    mask |= one_check(L, checks, n);
    /* A comma ends the name, and another one may follow. */
    checks += n + (checks[n] == ',');
  }
  return mask;
}

/* schedule = "all", or a seed. */
static uint64_t schedule_option(lua_State *L) {
  /* "all" is a judge rather than a number. */
  if (lb_option(L, 1, "schedule") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "all") == 0) {
    lua_pop(L, 1);
    return SOMA_SCHEDULE_ALL;
  }
  lua_pop(L, 1);
  /* 0 is the usual order. */
  return (uint64_t)lb_integer(L, 1, "core", "schedule", 0, LUA_MAXINTEGER, 0);
}

/* max_memory: bytes of the host that the machine, its runs and what they record may take. */
static void memory_option(lua_State *L, lb_core *core, soma_options *o) {
  lua_Integer n = lb_integer(L, 1, "core", "max_memory", 0, PTRDIFF_MAX, 0);
  if (n > 0 && (core->budget = lb_budget_new(L, (size_t)n)) == NULL)
    luaL_error(L, "core: out of memory");
  /* The machine and the recorder take their memory from one budget. */
  lb_use_budget(L, core->budget, &o->alloc, &o->alloc_ud);
  core->record.alloc = o->alloc;
  core->record.alloc_ud = o->alloc_ud;
}

static soma_status new_machine(lua_State *L, const soma_options *o, soma_machine **m) {
  soma_status s = soma_machine_new(o, m);
  /* Only a lack of memory is worth a second try. */
  if (s != SOMA_NOMEM) return s;
  lua_gc(L, LUA_GCCOLLECT); /* what the script has dropped may still take memory */
  return soma_machine_new(o, m);
}

const char *const lb_core_options[LB_CORE_OPTIONS + 1] = {
    "device",   "target",      "checks",        "max_instructions",
    "max_time", "max_seconds", "max_hbm_bytes", "max_memory",
    "simd",     "saturate",    "trace",         "events",
    "progress", "print",       "schedule",      "timing_only",
    "costs",    "causes",      "threads",       "max_cpu_seconds",
    "twins",    NULL};

/* soma.core{device, target, max_instructions, max_time (ns), max_seconds, max_cpu_seconds,
 * max_hbm_bytes, max_memory, simd, saturate, timing_only, costs, causes, trace, events, progress,
 * print, checks, twins, schedule, threads}: a machine of one core. Each limit: 0 for none. */
int lb_new_core(lua_State *L) {
  /* The machine's message, which its options give back. */
  char why[256];
  soma_options o = SOMA_OPTIONS_INIT;
  lua_settop(L, 1);
  lb_options(L, 1, "core", lb_core_options);
  /* All options are read before the machine is made, so that a wrong one makes none. */
  o.checks = checks_option(L);
  o.schedule = schedule_option(L);
  o.target = lb_target(L, "core", lb_string(L, 1, "core", "target"));
  o.simd = lb_string(L, 1, "core", "simd");
  o.threads = (unsigned)lb_integer(L, 1, "core", "threads", 0, 256, 0);
  o.saturate = lb_bool(L, 1, "core", "saturate", false);
  o.timing_only = lb_bool(L, 1, "core", "timing_only", false);
  o.causes = lb_bool(L, 1, "core", "causes", false);
  o.no_twins = !lb_bool(L, 1, "core", "twins", true);
  o.max_instructions = (uint64_t)lb_integer(L, 1, "core", "max_instructions", 0, LUA_MAXINTEGER, 0);
  o.max_hbm_bytes = (uint64_t)lb_integer(L, 1, "core", "max_hbm_bytes", 0, LUA_MAXINTEGER, 0);
  double max_time = limit(L, "max_time") * 1e6;
  /* A limit beyond the clock's range is no limit. */
  o.max_time = max_time < 0x1p63 ? (soma_time)max_time : 0;
  o.max_seconds = limit(L, "max_seconds");
  o.max_cpu_seconds = limit(L, "max_cpu_seconds");
  o.error = why;
  o.error_size = sizeof why;
  int device = lb_device_option(L, 1, "core");
  /* From here on the collector would free it, machine or not. */
  lb_core *core = lua_newuserdatauv(L, sizeof *core, LB_CORE_SLOTS);
  *core = (lb_core){.device = LB_CPU};
  /* The class first: its __gc frees what an error leaves behind. */
  luaL_setmetatable(L, LB_CORE);
  core->traces = lb_trace_option(L, 1, &core->record);
  core->calls_events = callback(L, "events", LB_CORE_EVENT);
  callback(L, "progress", LB_CORE_PROGRESS);
  callback(L, "print", LB_CORE_PRINT);
  memory_option(L, core, &o);
  /* Nobody listens: events are not made.
   * Checked here and not in the machine: a recorder needs them as well. */
  if (core->calls_events || core->traces) o.event = on_event;
  /* Progress is always wanted: it is where an interrupt is noticed. */
  o.progress = on_progress;
  o.print = on_print;
  o.event_ud = o.progress_ud = o.print_ud = core;
  soma_status s = new_machine(L, &o, &core->m);
  if (s != SOMA_OK) return luaL_error(L, "core: %s", why);
  /* A guess at the machine's size, so that the collector hurries when many are made. */
  lb_account(L, 1 << 20);
  lb_costs_option(L, 1, core->m);
  /* Only now: an error before it leaves the name free. */
  if (device != LB_CPU) lb_register_device(L, 2, device);
  core->device = device;
  return 1;
}

/* core:close(): frees the machine and its run; also at collection and by <close>. */
static int core_close(lua_State *L) {
  /* Closing twice is fine. */
  lb_core *core = check_any(L, 1);
  luaL_argcheck(L, core->running == NULL, 1,
                "the core is running: do not call this from its own callback");
  /* Its run would be freed with the machine. */
  if (core->current != NULL) lb_run_detach(core->current);
  if (core->m != NULL && core->device != LB_CPU) lb_forget_device(L, core->device);
  soma_machine_free(core->m);
  core->m = NULL;
  lb_budget_drop(core->budget);
  core->budget = NULL;
  return 0;
}

static int core_tostring(lua_State *L) {
  const lb_core *core = check_any(L, 1);
  const char *target = core->m != NULL ? soma_target(core->m) : NULL;
  /* The target is that of the options, or of the program that ran. */
  if (core->m == NULL)
    lua_pushliteral(L, "soma.core (closed)");
  else if (target == NULL)
    lua_pushliteral(L, "soma.core");
  else
    lua_pushfstring(L, "soma.core of %s", target);
  return 1;
}

/* ---- State --------------------------------------------------------------------------------- */

unsigned lb_core_number(lua_State *L, int arg, const char *what) {
  static const char *const known[] = {"core", NULL};
  /* The first core of a pair, or the only one. */
  if (lua_isnoneornil(L, arg)) return 0;
  luaL_checktype(L, arg, LUA_TTABLE);
  lb_options(L, arg, what, known);
  return (unsigned)lb_integer(L, arg, what, "core", 0, ISA_MAX_CORES - 1, 0);
}

static uint32_t semaphore_id(lua_State *L, int arg, unsigned core) {
  /* Numbers go as they are; names need the program's table. */
  if (lua_type(L, arg) == LUA_TNUMBER) {
    lua_Integer id = luaL_checkinteger(L, arg);
    luaL_argcheck(L, id >= 0 && id < ISA_NSEMS, arg, "a semaphore must be 0 to 255");
    return (uint32_t)id;
  }
  const char *name = luaL_checkstring(L, arg);
  lua_getiuservalue(L, 1, LB_CORE_PROGRAM);
  /* The program of the run that started last. */
  const lb_program *p = lua_touserdata(L, -1);
  if (p == NULL || p->p == NULL) luaL_error(L, "semaphore '%s': the core has no program yet", name);
  int id = soma_program_core_semaphore(p->p, core, name);
  if (id < 0 && core)
    luaL_error(L, "core %d of the program has no semaphore '%s'", (int)core, name);
  if (id < 0) luaL_error(L, "the program has no semaphore '%s'", name);
  return (uint32_t)id;
}

/* core:semaphore(name or number[, {core = 1}]) */
static int core_semaphore(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  /* The machine refuses a second core that the program does not have. */
  uint32_t value = 0;
  unsigned k = lb_core_number(L, 3, "semaphore");
  soma_status s = soma_core_semaphore_get(core->m, k, semaphore_id(L, 2, k), &value);
  if (s != SOMA_OK) return lb_fail(L, "semaphore", core->m, s);
  lua_pushinteger(L, value);
  return 1;
}

/* core:set_semaphore(name or number, value[, {core = 1}]) */
static int core_set_semaphore(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  lua_Integer v = luaL_checkinteger(L, 3);
  /* As the hardware's semaphores, never below zero. */
  luaL_argcheck(L, v >= 0 && v <= ISA_SEM_MAX, 3, "a semaphore's value must be 0 to 2147483647");
  unsigned k = lb_core_number(L, 4, "set_semaphore");
  soma_status s = soma_core_semaphore_set(core->m, k, semaphore_id(L, 2, k), (uint32_t)v);
  return s == SOMA_OK ? 0 : lb_fail(L, "set_semaphore", core->m, s);
}

static uint32_t register_id(lua_State *L, int arg) {
  lua_Integer n = luaL_checkinteger(L, arg);
  luaL_argcheck(L, n >= 0 && n < ISA_NREGS, arg, "a register must be 0 to 63");
  return (uint32_t)n;
}

/* core:register(engine, number[, {core = 1}]): its value as a signed 32-bit integer. */
static int core_register(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  soma_engine e = (soma_engine)lb_sequencer(L, 2);
  uint32_t value = 0;
  unsigned k = lb_core_number(L, 4, "register");
  soma_status s = soma_core_register_get(core->m, k, e, register_id(L, 3), &value);
  if (s != SOMA_OK) return lb_fail(L, "register", core->m, s);
  /* 32 bits with a sign. */
  lua_pushinteger(L, value > INT32_MAX ? (lua_Integer)value - ((lua_Integer)1 << 32) : value);
  return 1;
}

/* core:set_register(engine, number, value[, {core = 1}]) */
static int core_set_register(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  /* Registers of CC sequencers can be read, but not set. */
  soma_engine e = (soma_engine)lb_engine(L, 2);
  lua_Integer v = luaL_checkinteger(L, 4);
  /* Both readings of 32 bits are taken. */
  luaL_argcheck(L, v >= INT32_MIN && v <= UINT32_MAX, 4, "a register's value has 32 bits");
  unsigned k = lb_core_number(L, 5, "set_register");
  soma_status s = soma_core_register_set(core->m, k, e, register_id(L, 3), (uint32_t)(uint64_t)v);
  return s == SOMA_OK ? 0 : lb_fail(L, "set_register", core->m, s);
}

/* core.host_to_device and core.device_to_host: bytes copied since the core was made;
 * core.hbm_bytes: what tensors on the device and the run in progress take. */
static bool push_count(lua_State *L, const lb_core *core, const char *key) {
  /* A closed core has counted nothing that could be asked for. */
  uint64_t in = 0, out = 0, used = 0;
  if (core->m != NULL) {
    soma_traffic(core->m, &in, &out);
    used = soma_hbm_used(core->m);
  }
  if (strcmp(key, "host_to_device") == 0)
    lua_pushinteger(L, (lua_Integer)in);
  else if (strcmp(key, "device_to_host") == 0)
    lua_pushinteger(L, (lua_Integer)out);
  else if (strcmp(key, "hbm_bytes") == 0)
    lua_pushinteger(L, (lua_Integer)used);
  else
    return false;
  return true;
}

/* core.arithmetic: {runs, programs, time_ns} of operators on its tensors.
 * Operators run programs of their own; here they are counted apart. */
static void push_arithmetic(lua_State *L, const lb_core *core) {
  lua_createtable(L, 0, 3);
  lb_set_count(L, "runs", (uint64_t)core->arithmetic.runs);
  lb_set_count(L, "programs", (uint64_t)core->arithmetic.programs);
  lb_set_number(L, "time_ns", core->arithmetic.ns);
}

/* core.sbuf, core.psum, core.hbm, core.arithmetic, core.target, core.device, a count, or a method.
 */
static int core_index(lua_State *L) {
  const lb_core *core = check_any(L, 1);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  /* Objects on the core, each of which keeps it reachable. */
  if (strcmp(key, "sbuf") == 0)
    lb_push_memory(L, 1, SOMA_SBUF);
  else if (strcmp(key, "psum") == 0)
    lb_push_memory(L, 1, SOMA_PSUM);
  else if (strcmp(key, "hbm") == 0)
    lb_push_hbm(L, 1);
  else if (strcmp(key, "arithmetic") == 0)
    push_arithmetic(L, core);
  else if (strcmp(key, "target") == 0)
    lua_pushstring(L, core->m != NULL ? soma_target(core->m) : NULL);
  else if (strcmp(key, "device") == 0) {
    /* A core that is no device has no name. */
    if (core->device == LB_CPU)
      lua_pushnil(L);
    else
      lb_push_device_name(L, core->device);
  } else if (!push_count(L, core, key)) {
    lua_pushvalue(L, 2);
    /* Methods are in a table of their own, the upvalue. */
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL)
      return luaL_error(L, "a core has no field or method '%s'", luaL_tolstring(L, 2, NULL));
  }
  return 1;
}

/* core:clear() */
static int core_clear(lua_State *L) {
  lb_core *core = lb_check_core(L, 1);
  soma_status s = soma_machine_clear(core->m);
  return s == SOMA_OK ? 0 : lb_fail(L, "clear", core->m, s);
}

const luaL_Reg lb_core_functions[] = {{"core", lb_new_core}, {NULL, NULL}};

void lb_open_core(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__gc", core_close}, {"__close", core_close}, {"__tostring", core_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"run", lb_core_run},
                                     {"start", lb_core_start},
                                     {"resume", lb_core_resume},
                                     {"close", core_close},
                                     {"clear", core_clear},
                                     {"custom", lb_core_custom},
                                     {"semaphore", core_semaphore},
                                     {"set_semaphore", core_set_semaphore},
                                     {"register", core_register},
                                     {"set_register", core_set_register},
                                     {NULL, NULL}};
  lb_object(L, LB_CORE, meta, core_index, (const luaL_Reg *const[]){methods, NULL});
}
