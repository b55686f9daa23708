/* For those who watch a world: all ranks stand at one moment, and go back to an earlier one. */

#include "machine.h"

void lb_add_stopped(lua_State *L, const lb_run *run, uint32_t r) {
  /* The runs of the world are in the table at 5. */
  lua_getfield(L, 5, "stopped");
  lb_push_hits(L, run);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1), have = (lua_Integer)lua_rawlen(L, -2);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    /* A stop's hit does not know its rank. */
    lb_set_count(L, "rank", r);
    lua_rawseti(L, -3, have + i);
  }
  lua_pop(L, 2);
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* w:step(rank, engine, {core, faults}): until that engine has issued one more instruction. */
static int world_step(lua_State *L) {
  /* The options come to 4, where lb_world_go looks for faults. */
  lua_settop(L, 4);
  const lb_world *x = lb_check_world(L, 1);
  lua_Integer r = luaL_checkinteger(L, 2);
  luaL_argcheck(L, r >= 0 && r < (lua_Integer)x->ranks, 2, "the world has no such rank");
  return lb_world_go(L, "step",
                     &(lb_world_goal){.steps = true,
                                      .what = SOMA_ISSUE,
                                      .rank = (uint32_t)r,
                                      .engine = (soma_engine)lb_sequencer(L, 3),
                                      .core = (unsigned)lb_integer(L, 4, "step", "core", 0,
                                                                   ISA_MAX_CORES - 1, 0)});
}

/* w:step_event({faults}): one event of the rank whose is next.
 * Nothing else is taken. */
static int world_step_event(lua_State *L) {
  lua_settop(L, 2);
  lua_settop(L, 4);
  lua_rotate(L, 2, 2); /* the options come to 4 */
  return lb_world_go(L, "step_event", &(lb_world_goal){.steps = true, .what = SOMA_EVENT});
}

/* w:until_time(ns, {faults}): every event up to that simulated time, or to a stop. */
static int world_until_time(lua_State *L) {
  lua_settop(L, 3);
  lua_Number ns = luaL_checknumber(L, 2);
  /* The bound keeps the product within the clock's range. */
  luaL_argcheck(L, ns >= 0 && ns < 1e13, 2, "expected a time in nanoseconds, 0 to 1e13");
  lua_settop(L, 4);
  lua_rotate(L, 3, 1);
  return lb_world_go(
      L, "until_time",
      &(lb_world_goal){.steps = true, .what = SOMA_TIME, .time = (soma_time)(ns * 1e6)});
}

/* ---- Snapshots ----------------------------------------------------------------------------- */

/* w:snapshot([earlier]): its state, for w:restore; it shares memory with an earlier one. */
static int world_snapshot(lua_State *L) {
  lua_settop(L, 2);
  lb_world *x = lb_check_world(L, 1);
  const lb_snapshot *before = lua_isnil(L, 2) ? NULL : lb_check_snapshot(L, 2, true);
  lb_snapshot *s = lb_new_snapshot(L, soma_world_time(x->w));
  if (soma_world_keep(x->w, before ? before->of_world : NULL, &s->of_world) != SOMA_OK)
    return lb_world_fail(L, "snapshot", x);
  lb_account(L, soma_world_snapshot_bytes(s->of_world));
  return 1;
}

/* The run at rank r of the table at 5 becomes that of the world, NULL: none. */
static void renew(lua_State *L, uint32_t r, soma_run *now) {
  /* The Lua object stays the same, so that scripts that hold it go on. */
  lua_rawgeti(L, 5, (lua_Integer)r);
  lb_run *run = lua_touserdata(L, -1);
  run->r = now;
  run->ended = false;
  /* How the run ended, and its outputs, were those of the moment that has been left. */
  lua_pushnil(L);
  lua_setiuservalue(L, -2, LB_RUN_FAULT);
  lua_pushnil(L);
  lua_setiuservalue(L, -2, LB_RUN_OUT);
  lua_pop(L, 1);
}

/* w:restore(snapshot): back to it, or forward; the table of runs. */
static int world_restore(lua_State *L) {
  lua_settop(L, 2);
  /* Neither a running world nor a closed one goes back. */
  lb_world *x = lb_check_world(L, 1);
  const lb_snapshot *s = lb_check_snapshot(L, 2, true);
  lua_settop(L, 4);
  if (lua_getiuservalue(L, 1, LB_WORLD_RUNS) != LUA_TTABLE)
    return luaL_error(L, "restore: the world has not been started");
  for (uint32_t r = 0; r < x->ranks; r++)
    /* A recorder cannot take back what it has written down. */
    if (x->cores[r]->traces)
      return luaL_error(L, "restore: a world that is recorded cannot go back");
  soma_status status = soma_world_return(x->w, s->of_world);
  /* Then the world stands where it stood, and so do its runs; other failures have broken it. */
  bool kept = status == SOMA_OK || status == SOMA_ARG || status == SOMA_BUSY;
  for (uint32_t r = 0; r < x->ranks && (status == SOMA_OK || !kept); r++)
    renew(L, r, soma_world_run(x->w, r));
  if (status != SOMA_OK) return lb_world_fail(L, "restore", x);
  lua_pushnil(L);
  lua_setfield(L, 5, "fault");
  lua_pushnil(L);
  lua_setfield(L, 5, "kind");
  /* Stops, collectives and links are those of the new moment. */
  lb_world_finish(L, x);
  lua_settop(L, 5);
  return 1;
}

const luaL_Reg lb_world_debug_methods[] = {{"step", world_step},
                                           {"step_event", world_step_event},
                                           {"until_time", world_until_time},
                                           {"snapshot", world_snapshot},
                                           {"restore", world_restore},
                                           {NULL, NULL}};
