/* core.hbm: what is in a core's HBM; and programs' constants that stay there. */
#include "machine.h"

#define HBM_CLASS "soma.hbm"

/* It has no data of its own, only the core that it keeps. */
void lb_push_hbm(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_newuserdatauv(L, 0, 1);
  lua_pushvalue(L, index);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, HBM_CLASS);
}

/* The machine of the core that the object at 1 belongs to and keeps reachable. */
static const soma_machine *check_hbm(lua_State *L) {
  luaL_checkudata(L, 1, HBM_CLASS);
  lua_getiuservalue(L, 1, 1);
  const lb_core *core = lua_touserdata(L, -1);
  /* The object outlives a core that is closed. */
  if (core->m == NULL) luaL_error(L, "hbm: the core is closed");
  return core->m;
}

/* core.hbm:stats(): {capacity, used, free, largest_free, blocks, free_blocks, high_water, stacks =
 * {{capacity, used}, ...}}, sizes in bytes.
 * A snapshot of numbers: later allocations do not change the table. */
static int hbm_stats(lua_State *L) {
  soma_hbm_usage u;
  soma_hbm_stats(check_hbm(L), &u, sizeof u);
  lua_createtable(L, 0, 8);
  lb_set_count(L, "capacity", u.capacity);
  lb_set_count(L, "used", u.used);
  lb_set_count(L, "free", u.free);
  lb_set_count(L, "largest_free", u.largest_free);
  lb_set_count(L, "blocks", u.blocks);
  lb_set_count(L, "free_blocks", u.free_blocks);
  lb_set_count(L, "high_water", u.high_water);
  /* HBM is made of stacks, each with bounds of its own. */
  lua_createtable(L, (int)u.stacks, 0);
  for (uint32_t i = 0; i < u.stacks; i++) {
    lua_createtable(L, 0, 2);
    lb_set_count(L, "capacity", u.stack[i].capacity);
    lb_set_count(L, "used", u.stack[i].used);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "stacks");
  return 1;
}

/* core.hbm:list(): {name, owner, bytes, address, stack} of each allocation, by address.
 * In the order of the machine's owners; 0 is never one. */
static int hbm_list(lua_State *L) {
  static const char *const owners[] = {"?", "program", "tensor", "const", "ring"};
  const soma_machine *m = check_hbm(L);
  soma_hbm_block b;
  lua_newtable(L);
  /* Until the machine has no more of them. */
  for (uint32_t i = 0; soma_hbm_allocation(m, i, &b) == SOMA_OK; i++) {
    lua_createtable(L, 0, 5);
    lb_set_text(L, "name", b.name);
    lb_set_text(L, "owner", owners[b.owner <= SOMA_HBM_RING ? b.owner : 0]);
    lb_set_count(L, "bytes", b.bytes);
    lb_set_count(L, "address", b.address);
    lb_set_count(L, "stack", b.stack);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* ---- Constants ----------------------------------------------------------------------------- */

/* Leaves the core that argument 2 names or is on the top. */
static lb_core *device_argument(lua_State *L, const char *what) {
  lua_settop(L, 2);
  /* A core can be given as itself, device or not. */
  if (lua_type(L, 2) != LUA_TSTRING) {
    lua_pushvalue(L, 2);
    return lb_check_core(L, 2);
  }
  /* A name is looked up, and its core made if it is not there. */
  int device = lb_device(L, what, lua_tostring(L, 2));
  luaL_argcheck(L, device != LB_CPU, 2, "the host is not a device");
  return lb_push_device(L, device);
}

/* Pushes the table whose keys are the cores that hold constants of the program at 1. It is weak:
 * the constants go with the core. */
static void push_placements(lua_State *L) {
  if (lua_getiuservalue(L, 1, 1) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  /* Weak keys do not keep a core alive. */
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 1);
}

int lb_move_to_device(lua_State *L) {
  lb_program *p = lb_check_program(L, 1);
  lb_core *core = device_argument(L, "move_to_device");
  int at = lua_gettop(L);
  push_placements(L);
  /* Noted first: a failure leaves a core that has none.
   * The value is of no use; only the key counts. */
  lua_pushvalue(L, at);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  soma_status s = soma_move_to_device(core->m, p->p);
  /* Anything else is no lack of room. */
  if (s == SOMA_LIMIT) { /* what the program has dropped may still take HBM */
    lua_gc(L, LUA_GCCOLLECT);
    s = soma_move_to_device(core->m, p->p);
  }
  if (s != SOMA_OK) return lb_fail(L, "move_to_device", core->m, s);
  lua_settop(L, 1);
  return 1;
}

int lb_drop_from_device(lua_State *L) {
  const lb_program *p = lb_check_program(L, 1);
  /* A program that was never moved there is dropped without a word. */
  soma_drop_from_device(device_argument(L, "drop_from_device")->m, p->p);
  lua_settop(L, 1);
  return 1;
}

void lb_drop_constants(lua_State *L) {
  const lb_program *p = lua_touserdata(L, 1);
  lua_settop(L, 1);
  /* Also called by the collector, for programs that were never loaded. */
  if (p->p == NULL || lua_getiuservalue(L, 1, 1) != LUA_TTABLE) return;
  for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
    const lb_core *core = lua_touserdata(L, 3);
    /* A closed machine has dropped them. */
    if (core->m != NULL) soma_drop_from_device(core->m, p->p);
  }
}

void lb_open_hbm(lua_State *L) {
  static const luaL_Reg methods[] = {{"stats", hbm_stats}, {"list", hbm_list}, {NULL, NULL}};
  lb_class(L, HBM_CLASS, NULL, methods);
}
