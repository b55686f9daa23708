/* Devices by name.
 *
 * "neuron:N" (also "privateuseone:N") is the core that was made with soma.core{device =
 * "neuron:N"}; it is made with default options when a tensor asks for it first. A core that is a
 * device stays until it is closed. Nothing here moves bytes unless it is asked to: to() and the
 * constructors' option `device` do, and runs whose inputs or outputs are on the host. */
#include <string.h>

#include "machine.h"

#define DEVICE_TABLE "soma.devices"

/* ---- Cores as devices ---------------------------------------------------------------------- */

/* The registry is shared by all threads of this state. */
void lb_register_device(lua_State *L, int index, int device) {
  index = lua_absindex(L, index);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  /* A name is one core's at a time. */
  if (lua_rawgeti(L, -1, device) != LUA_TNIL)
    luaL_error(L, "core: neuron:%d is another core, which is not closed", device);
  lua_pop(L, 1);
  /* Strong: a device stays until it is closed, even if no variable has it. */
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, device);
  lua_pop(L, 1);
}

void lb_forget_device(lua_State *L, int device) {
  /* A device that is closed leaves its name free. */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  lua_pushnil(L);
  lua_rawseti(L, -2, device);
  lua_pop(L, 1);
}

/* Index -1 afterwards is the core. */
lb_core *lb_push_device(lua_State *L, int device) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  if (lua_rawgeti(L, -1, device) == LUA_TNIL) {
    /* The first use of the name makes it, with default options. */
    lua_pop(L, 1);
    /* As a script would make it, so that errors read alike. */
    lua_pushcfunction(L, lb_new_core);
    lua_createtable(L, 0, 1);
    lb_push_device_name(L, device);
    lua_setfield(L, -2, "device");
    lua_call(L, 1, 1);
  }
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

/* soma.device(name): the core that is the device. soma.device{device = "neuron:0", ...}: likewise,
 * or made with those options of soma.core when none exists. */
static int get_device(lua_State *L) {
  lua_settop(L, 1);
  bool options = lua_type(L, 1) == LUA_TTABLE;
  const char *name = options ? lb_string(L, 1, "device", "device") : luaL_checkstring(L, 1);
  /* The first device is what most programs mean. */
  int device = lb_device(L, "device", name != NULL ? name : "neuron:0");
  luaL_argcheck(L, device != LB_CPU, 1, "the host is not a core");
  bool more = false;
  /* The table is copied without its name, whose spelling may differ. */
  if (options) {
    lua_newtable(L);
    /* Options other than the name make a new core. */
    for (lua_pushnil(L); lua_next(L, 1) != 0;) {
      /* Any other key, also one that is no option: lb_new_core refuses it. */
      more = more || lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "device") != 0;
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 2);
    }
    /* The usual spelling, whichever was given. */
    lb_push_device_name(L, device);
    lua_setfield(L, 2, "device");
  }
  /* Only the name: what is there is given, else made. */
  if (!more) {
    lb_push_device(L, device);
    return 1;
  }
  /* An open core of that name makes this fail. */
  lua_pushcfunction(L, lb_new_core);
  lua_insert(L, 2);
  lua_call(L, 1, 1);
  return 1;
}

const luaL_Reg lb_device_functions[] = {{"device", get_device}, {NULL, NULL}};
