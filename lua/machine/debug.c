/* For those who watch a run: stops, what the engines do, snapshots, a log. */
#include <string.h>
#include <unistd.h>

#include "machine.h"

#define SNAPSHOT_CLASS "soma.snapshot"

/* All of these need the machine's run, which a later run replaces. */
static lb_run *check_open(lua_State *L, const char *what) {
  lb_run *run = lb_check_run(L, 1);
  if (run->r == NULL) luaL_error(L, "%s: the core has started another run, or is closed", what);
  if (run->core->running != NULL)
    luaL_error(L, "%s: the core is running: do not call this from its own callback", what);
  return run;
}

static const soma_program *program_of(lua_State *L) {
  lua_getiuservalue(L, 1, LB_RUN_PROGRAM);
  const lb_program *p = lua_touserdata(L, -1);
  lua_pop(L, 1); /* the run keeps it */
  const lb_run *run = lua_touserdata(L, 1);
  return run->planned != NULL ? run->planned : p->p; /* with the programs of CC sequencers */
}

/* ---- Stops --------------------------------------------------------------------------------- */

/* In the order of soma_stop_kind, from 1 on. */
static const char *const kinds[] = {"pc", "count", "done", "semaphore", "write", "read", NULL};

/* Options of add_stop are at 2. */
static uint32_t field(lua_State *L, const char *name, lua_Integer fallback) {
  return (uint32_t)lb_integer(L, 2, "add_stop", name, 0, UINT32_MAX, fallback);
}

/* The engine of option `engine`. */
static soma_engine engine_option(lua_State *L) {
  const char *name = lb_string(L, 2, "add_stop", "engine");
  if (name == NULL) luaL_error(L, "add_stop: option 'engine' is missing");
  /* Also CC sequencers, which a rank's program has. */
  int e = lb_sequencer_named(name);
  if (e < 0) luaL_error(L, "add_stop: " LB_NO_SEQUENCER, name);
  return (soma_engine)e;
}

static uint32_t semaphore_option(lua_State *L, const soma_program *p, unsigned core) {
  /* A number goes as it is, like a register's. */
  if (lb_option(L, 2, "semaphore") == LUA_TNUMBER) {
    lua_pop(L, 1);
    return field(L, "semaphore", 0);
  }
  lua_pop(L, 1);
  const char *name = lb_string(L, 2, "add_stop", "semaphore");
  int i = name != NULL ? soma_program_core_semaphore(p, core, name) : -1;
  /* The message of the second core names it, since its names are its own. */
  if (i < 0 && core)
    luaL_error(L, "add_stop: core %d has no semaphore '%s'", (int)core, name ? name : "");
  if (i < 0) luaL_error(L, "add_stop: the program has no semaphore '%s'", name ? name : "");
  return (uint32_t)i;
}

/* Bytes: a whole tile or tensor, or what the options say. */
static void bytes_options(lua_State *L, const soma_program *p, soma_stop *s) {
  soma_tile_info tile;
  /* A name fills in everything; the options below may then narrow it. */
  soma_tensor_info tensor;
  const char *name = lb_string(L, 2, "add_stop", "tile");
  s->partitions = 1;
  if (name != NULL) {
    if (!lb_program_tile(p, name, &tile))
      luaL_error(L, "add_stop: the program has no tile '%s'", name);
    s->memory = tile.memory;
    s->partition = tile.partition;
    s->partitions = tile.shape[0];
    s->offset = tile.offset;
    s->bytes = tile.bytes;
  }
  /* Tensors lie in HBM, which the machine places: it is asked by name. */
  s->tensor = lb_string(L, 2, "add_stop", "tensor");
  /* The whole tensor, unless the options say less. */
  if (s->tensor != NULL && lb_program_tensor(p, s->tensor, &tensor) >= 0) s->bytes = tensor.bytes;
  name = lb_string(L, 2, "add_stop", "memory");
  if (name != NULL && strcmp(name, "sbuf") != 0 && strcmp(name, "psum") != 0)
    luaL_error(L, "add_stop: option 'memory' must be \"sbuf\" or \"psum\", not \"%s\"", name);
  if (name != NULL) s->memory = strcmp(name, "sbuf") == 0 ? SOMA_SBUF : SOMA_PSUM;
  s->partition = field(L, "partition", s->partition);
  s->partitions = field(L, "partitions", s->partitions);
  /* 64 bits, since a tensor may be larger than 4 GiB. */
  s->offset =
      (uint64_t)lb_integer(L, 2, "add_stop", "offset", 0, INT64_MAX, (lua_Integer)s->offset);
  s->bytes = (uint64_t)lb_integer(L, 2, "add_stop", "bytes", 0, INT64_MAX, (lua_Integer)s->bytes);
}

/* run:add_stop{kind=...}: its number. */
static int add_stop(lua_State *L) {
  static const char *const known[] = {"kind",      "quiet",  "engine", "pc",        "count",
                                      "semaphore", "value",  "tile",   "tensor",    "condition",
                                      "memory",    "offset", "bytes",  "partition", "partitions",
                                      "core",      NULL};
  lua_settop(L, 2);
  const lb_run *run = check_open(L, "add_stop");
  luaL_checktype(L, 2, LUA_TTABLE);
  lb_options(L, 2, "add_stop", known);
  const soma_program *p = program_of(L);
  /* A stop without a kind falls through to the message below. */
  const char *kind = lb_string(L, 2, "add_stop", "kind");
  soma_stop s = {.quiet = lb_bool(L, 2, "add_stop", "quiet", false),
                 .core = (unsigned)lb_integer(L, 2, "add_stop", "core", 0, ISA_MAX_CORES - 1, 0)};
  for (int i = 0; kind != NULL && kinds[i] != NULL; i++)
    if (strcmp(kind, kinds[i]) == 0) s.kind = (soma_stop_kind)(i + 1);
  switch (s.kind) {
  case SOMA_STOP_PC:
  case SOMA_STOP_COUNT:
  case SOMA_STOP_DONE:
    s.engine = engine_option(L);
    s.pc = field(L, "pc", 0);
    /* count: how many times it has to hold. */
    s.count = (uint64_t)lb_integer(L, 2, "add_stop", "count", 1, INT64_MAX, 1);
    break;
  case SOMA_STOP_SEMAPHORE:
    s.semaphore = semaphore_option(L, p, s.core);
    s.condition = lb_string(L, 2, "add_stop", "condition");
    /* What a wait usually asks for. */
    if (s.condition == NULL) s.condition = ">=";
    s.value = field(L, "value", 1);
    break;
  case SOMA_STOP_WRITE:
  case SOMA_STOP_READ: bytes_options(L, p, &s); break;
  default:
    return luaL_error(L,
                      /* Numbers are the run's own, and never used twice while it lasts. */
                      "add_stop: option 'kind' must be pc, count, done, semaphore, write or read");
  }
  uint32_t id;
  soma_status status = soma_run_stop_add(run->r, &s, sizeof s, &id);
  if (status != SOMA_OK) return lb_fail(L, "add_stop", run->core->m, status);
  lua_pushinteger(L, id);
  return 1;
}

/* run:remove_stop(number) */
static int remove_stop(lua_State *L) {
  const lb_run *run = check_open(L, "remove_stop");
  soma_status s = soma_run_stop_remove(run->r, lb_u32(L, 2));
  if (s != SOMA_OK) return lb_fail(L, "remove_stop", run->core->m, s);
  lua_settop(L, 1);
  return 1;
}

/* Fields that do not apply are left out. */
static void push_hit(lua_State *L, const soma_hit *h) {
  lua_createtable(L, 0, 10);
  lb_set_count(L, "stop", h->stop);
  /* A stop of bytes may be hit by a DMA engine, which has no pc. */
  if (h->engine >= 0) {
    lb_set_count(L, "core", h->core);
    lb_set_text(L, "engine", soma_engine_name((soma_engine)h->engine));
    lb_set_count(L, "pc", h->pc);
  }
  if (h->from_rank >= 0) lb_set_count(L, "from_rank", (uint64_t)h->from_rank);
  if (h->dma_engine >= 0) lb_set_count(L, "dma_engine", (uint64_t)h->dma_engine);
  lb_set_ns(L, "start_ns", h->start);
  lb_set_ns(L, "time_ns", h->time);
  lb_set_count(L, "value", h->value);
  /* Whether the instruction chooses parts of its operand, perhaps not these bytes. */
  lb_set_flag(L, "part", h->part);
}

/* run:stop_hits(number): how often it has held, and the last time. */
static int stop_hits(lua_State *L) {
  const lb_run *run = check_open(L, "stop_hits");
  uint64_t hits;
  soma_hit last;
  uint32_t id = lb_u32(L, 2);
  /* The machine may have no stop of that number any more. */
  if (soma_run_stop_last(run->r, id, &hits, &last, sizeof last) != SOMA_OK)
    return luaL_error(L, "stop_hits: the run has no stop %d", (int)id);
  lua_pushinteger(L, (lua_Integer)hits);
  /* Without a hit there is no last one. */
  if (hits == 0) return 1;
  push_hit(L, &last);
  return 2;
}

void lb_push_hits(lua_State *L, const lb_run *run) {
  soma_hit h;
  uint32_t n = run->r != NULL ? soma_run_hits(run->r) : 0;
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 0; i < n && soma_run_hit(run->r, i, &h, sizeof h) == SOMA_OK; i++) {
    /* From 1 on, as sequences are in Lua. */
    push_hit(L, &h);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* ---- What the engines do ------------------------------------------------------------------- */

/* Number and name of a semaphore; -1: it waits for no semaphore.
 * Numbers without a name show as they are. */
static void set_semaphore(lua_State *L, const soma_program *p, unsigned core, int semaphore) {
  if (semaphore < 0) return;
  lb_set_count(L, "semaphore", (uint64_t)semaphore);
  lb_set_text(L, "semaphore_name", soma_program_semaphore_name(p, core, (uint32_t)semaphore));
}

/* Instructions that have started and not ended, oldest first. */
static void push_flights(lua_State *L, const lb_run *run, unsigned core, soma_engine e) {
  soma_flight f;
  lua_newtable(L);
  for (uint32_t i = 0; soma_core_flight(run->r, core, e, i, &f, sizeof f) == SOMA_OK; i++) {
    lua_createtable(L, 0, 3);
    lb_set_count(L, "pc", f.pc);
    lb_set_ns(L, "start_ns", f.start);
    lb_set_ns(L, "end_ns", f.done);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* Raises the error of a program that has no such core. */
static unsigned core_of_program(lua_State *L, int arg, const char *what, const soma_program *p) {
  unsigned core = lb_core_number(L, arg, what);
  if (core >= soma_program_cores(p)) luaL_error(L, "%s: the program has one core", what);
  return core;
}

/* run:engine(name[, {core = 1}]): what it does. */
static int engine_state(lua_State *L) {
  /* In the order of the machine's states. */
  static const char *const status[] = {"ready",   "waiting", "ring",    "halted",
                                       "meeting", "idle",    "leaving", "crowded"};
  lua_settop(L, 3);
  const lb_run *run = check_open(L, "engine");
  soma_engine e = (soma_engine)lb_sequencer(L, 2);
  const soma_program *p = program_of(L);
  unsigned core = core_of_program(L, 3, "engine", p);
  soma_engine_state s;
  soma_core_engine(run->r, core, e, &s, sizeof s);
  /* Everything a debugger shows of an engine in one call. */
  lua_createtable(L, 0, 13);
  lb_set_text(L, "status", status[s.status]);
  lb_set_count(L, "pc", s.pc);
  lb_set_count(L, "instructions", s.instructions);
  lb_set_ns(L, "time_ns", s.time);
  set_semaphore(L, p, core, s.semaphore);
  if (s.semaphore >= 0) {
    lb_set_text(L, "condition", s.condition);
    lb_set_count(L, "want", s.want);
    lb_set_count(L, "have", s.have);
  }
  /* Only a waiting engine has a moment since which it waits. */
  if (s.status == SOMA_ENGINE_WAITING) lb_set_ns(L, "since_ns", s.since);
  if (s.queue >= 0) lb_set_text(L, "queue", soma_program_queue_name(p, core, (uint32_t)s.queue));
  /* Whether the run has paused at its next instruction and goes past it now. */
  lb_set_flag(L, "passes", s.passes);
  push_flights(L, run, core, e);
  lua_setfield(L, -2, "in_flight");
  return 1;
}

/* run:pass(engine[, {core = 1}]): the run does not pause at its next instruction if that can issue
 * now. */
static int pass(lua_State *L) {
  lua_settop(L, 3);
  const lb_run *run = check_open(L, "pass");
  soma_engine e = (soma_engine)lb_sequencer(L, 2);
  soma_status s = soma_core_pass(run->r, core_of_program(L, 3, "pass", program_of(L)), e);
  if (s != SOMA_OK) return lb_fail(L, "pass", run->core->m, s);
  lua_settop(L, 1);
  return 1;
}

/* run:transfers([{core = 1}]): those that are not complete.
 * A transfer without its bytes moved is there too. */
static int transfers(lua_State *L) {
  lua_settop(L, 2);
  const lb_run *run = check_open(L, "transfers");
  const soma_program *p = program_of(L);
  unsigned core = core_of_program(L, 2, "transfers", p);
  soma_transfer t;
  lua_newtable(L);
  for (uint32_t i = 0; soma_core_transfer(run->r, core, i, &t, sizeof t) == SOMA_OK; i++) {
    lua_createtable(L, 0, 8);
    lb_set_text(L, "engine", soma_engine_name(t.engine));
    lb_set_count(L, "pc", t.pc);
    lb_set_text(L, "queue", soma_program_queue_name(p, core, t.queue));
    lb_set_count(L, "shares", t.shares);
    lb_set_count(L, "bytes", t.bytes);
    lb_set_count(L, "moved", t.moved);
    set_semaphore(L, p, t.semaphore_core, t.semaphore);
    if (t.semaphore >= 0) lb_set_count(L, "semaphore_core", t.semaphore_core);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* run:waits(): who waits for what, and who can still change it; "" when nobody does.
 * A text, because a deadlock is a story rather than a table. */
static int waits(lua_State *L) {
  const lb_run *run = check_open(L, "waits");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  soma_status s = soma_write_waits(run->r, lb_to_buffer, &b);
  luaL_pushresult(&b);
  return s == SOMA_OK ? 1 : lb_fail(L, "waits", NULL, s);
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

static int snapshot_close(lua_State *L) {
  lb_snapshot *s = luaL_checkudata(L, 1, SNAPSHOT_CLASS);
  soma_snapshot_free(s->of_run);
  soma_world_snapshot_free(s->of_world);
  /* Zeroed, so that closing twice is fine. */
  *s = (lb_snapshot){0};
  return 0;
}

lb_snapshot *lb_new_snapshot(lua_State *L, soma_time time) {
  lb_snapshot *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (lb_snapshot){.time = time};
  luaL_setmetatable(L, SNAPSHOT_CLASS);
  return s;
}

const lb_snapshot *lb_check_snapshot(lua_State *L, int arg, bool of_world) {
  const lb_snapshot *s = luaL_checkudata(L, arg, SNAPSHOT_CLASS);
  luaL_argcheck(L, s->of_run != NULL || s->of_world != NULL, arg, "the snapshot is closed");
  luaL_argcheck(L, (s->of_world != NULL) == of_world, arg,
                of_world ? "the snapshot is of a run, not of a world"
                         : "the snapshot is of a world, not of a run");
  return s;
}

/* s.bytes, s.time_ns, s:close() */
static int snapshot_index(lua_State *L) {
  const lb_snapshot *s = luaL_checkudata(L, 1, SNAPSHOT_CLASS);
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "bytes") == 0)
    lua_pushinteger(
        L, (lua_Integer)(soma_snapshot_bytes(s->of_run) + soma_world_snapshot_bytes(s->of_world)));
  else if (strcmp(key, "time_ns") == 0)
    lua_pushnumber(L, (lua_Number)s->time * 1e-6);
  else if (strcmp(key, "close") == 0)
    lua_pushcfunction(L, snapshot_close);
  else
    return luaL_error(L, "a snapshot has no field '%s'", key);
  return 1;
}

/* run:snapshot([earlier]): its state, for run:restore; it shares memory with an earlier one. */
static int run_snapshot(lua_State *L) {
  lua_settop(L, 2);
  const lb_run *run = check_open(L, "snapshot");
  const lb_snapshot *before = lua_isnil(L, 2) ? NULL : lb_check_snapshot(L, 2, false);
  /* Pushed before it is filled, so that an error frees it. */
  lb_snapshot *s = lb_new_snapshot(L, lb_run_stats(run).time);
  soma_status status = soma_run_snapshot(run->r, before ? before->of_run : NULL, &s->of_run);
  if (status != SOMA_OK) return lb_fail(L, "snapshot", run->core->m, status);
  /* What is new in it, for the collector. */
  lb_account(L, soma_snapshot_bytes(s->of_run));
  return 1;
}

/* run:restore(snapshot): back to it, or forward. */
static int run_restore(lua_State *L) {
  lua_settop(L, 2);
  lb_run *run = check_open(L, "restore");
  const lb_snapshot *s = lb_check_snapshot(L, 2, false);
  /* Its trace would have the time twice. */
  if (run->trace != NULL) return luaL_error(L, "restore: a run that is recorded cannot go back");
  soma_status status = soma_run_return(&run->r, s->of_run);
  if (status != SOMA_OK) return lb_fail(L, "restore", run->core->m, status);
  /* A snapshot may be of the end. */
  run->ended = soma_run_ended(run->r) != 0;
  /* What was known of the end is not true any more. */
  lua_pushnil(L);
  lua_setiuservalue(L, 1, LB_RUN_FAULT);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, LB_RUN_OUT);
  lua_settop(L, 1);
  return 1;
}

/* ---- The log -------------------------------------------------------------------------------- */

/* As a line of text. */
static int call_log_lines(lua_State *L) {
  const lb_core *core = lua_touserdata(L, 1);
  /* The program by which lines are named was kept by set_log. */
  const soma_logged *l = lua_touserdata(L, 2);
  luaL_Buffer b;
  lua_getiuservalue(L, 1, LB_CORE_LOG);
  luaL_buffinit(L, &b);
  soma_status s = soma_write_logged(core->logged, l, sizeof *l, lb_to_buffer, &b);
  luaL_pushresult(&b);
  if (s != SOMA_OK) return lb_fail(L, "log_lines", NULL, s);
  lua_call(L, 1, 0);
  return 0;
}

/* Core and line: as a table. */
static int call_log(lua_State *L) {
  const soma_logged *l = lua_touserdata(L, 2);
  lua_getiuservalue(L, 1, LB_CORE_LOG);
  lua_createtable(L, 0, 12);
  lb_set_count(L, "core", l->core);
  lb_set_text(L, "engine", soma_engine_name(l->engine));
  lb_set_count(L, "pc", l->pc);
  lb_set_ns(L, "start_ns", l->start);
  lb_set_ns(L, "end_ns", l->end);
  lb_set_ns(L, "waited_ns", l->waited);
  /* Only instructions that set a register have one. */
  if (l->reg >= 0) {
    lb_set_count(L, "register", (uint64_t)l->reg);
    lua_pushinteger(L, (int32_t)l->value);
    lua_setfield(L, -2, "value");
  }
  /* Without elements there are no least and greatest. */
  if (l->elements > 0) {
    lb_set_count(L, "elements", l->elements);
    lb_set_count(L, "nans", l->nans);
    lb_set_number(L, "min", l->min);
    lb_set_number(L, "max", l->max);
  }
  lua_call(L, 1, 0);
  return 0;
}

static void on_log(void *ud, const soma_logged *l) {
  lb_core *core = ud;
  /* Nobody is told what happens again after a restore. */
  if (core->running == NULL || core->mute) return;
  lb_call_protected(core, core->logged ? call_log_lines : call_log, (void *)(uintptr_t)l);
}

static int set_log(lua_State *L, const char *what, bool lines) {
  lua_settop(L, 2);
  const lb_run *run = check_open(L, what);
  /* nil turns it off. */
  bool on = !lua_isnil(L, 2);
  if (on) luaL_checktype(L, 2, LUA_TFUNCTION);
  soma_status s = soma_run_log(run->r, on ? on_log : NULL, run->core);
  if (s != SOMA_OK) return lb_fail(L, what, run->core->m, s);
  /* Lines need the program for their text; tables do not. */
  run->core->logged = lines ? program_of(L) : NULL;
  lua_getiuservalue(L, 1, LB_RUN_CORE);
  lua_pushvalue(L, 2);
  /* The function lives as long as the core does. */
  lua_setiuservalue(L, -2, LB_CORE_LOG);
  lua_settop(L, 1);
  return 1;
}

/* run:log(function) or run:log(nil); run:log_lines(...) likewise, of lines of text. */
static int run_log(lua_State *L) { return set_log(L, "log", false); }
static int run_log_lines(lua_State *L) { return set_log(L, "log_lines", true); }

/* run:mute(boolean): whether what happens again is not told to the core's callbacks and the log. */
static int run_mute(lua_State *L) {
  luaL_checktype(L, 2, LUA_TBOOLEAN);
  /* Errors come before anything is changed. */
  check_open(L, "mute")->core->mute = lua_toboolean(L, 2);
  lua_settop(L, 1);
  return 1;
}

/* core_of(run), program_of(run), runs_of(world), nil before its start, and
 * return_faults(run, boolean), which gives what was before.
 * For the debugger in Lua, which no script sees. */
static int core_of(lua_State *L) {
  check_open(L, "debug");
  lua_getiuservalue(L, 1, LB_RUN_CORE);
  return 1;
}
static int program_of_run(lua_State *L) {
  check_open(L, "debug");
  lua_getiuservalue(L, 1, LB_RUN_PROGRAM);
  return 1;
}
static int runs_of(lua_State *L) {
  lb_check_world(L, 1);
  lua_getiuservalue(L, 1, LB_WORLD_RUNS);
  return 1;
}
static int return_faults(lua_State *L) {
  lb_run *run = lb_check_run(L, 1);
  lua_pushboolean(L, run->returns_faults);
  run->returns_faults = lua_toboolean(L, 2);
  return 1;
}
/* memory_bytes(): of the host. */
static int memory_bytes(lua_State *L) {
  /* 0: not known. */
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  lua_pushinteger(L, pages > 0 && size > 0 ? (lua_Integer)pages * size : 0);
  return 1;
}
const luaL_Reg lb_debug_functions[] = {
    {"core_of", core_of},           {"memory_bytes", memory_bytes},
    {"program_of", program_of_run}, {"return_faults", return_faults},
    {"runs_of", runs_of},           {NULL, NULL}};

const luaL_Reg lb_debug_methods[] = {{"add_stop", add_stop},
                                     {"remove_stop", remove_stop},
                                     {"stop_hits", stop_hits},
                                     {"engine", engine_state},
                                     {"pass", pass},
                                     {"transfers", transfers},
                                     {"waits", waits},
                                     {"snapshot", run_snapshot},
                                     {"restore", run_restore},
                                     {"log", run_log},
                                     {"log_lines", run_log_lines},
                                     {"mute", run_mute},
                                     {NULL, NULL}};

void lb_open_debug(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", snapshot_close},
                                  {"__close", snapshot_close},
                                  {"__index", snapshot_index},
                                  {NULL, NULL}};
  lb_class(L, SNAPSHOT_CLASS, meta, NULL);
}
