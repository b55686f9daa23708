/* Devices by name, and tensors in their HBM.
 *
 * "neuron:N" (also "privateuseone:N") is the core that was made with soma.core{device =
 * "neuron:N"}; it is made with default options when a tensor asks for it first. A core that is a
 * device stays until it is closed. Nothing here moves bytes unless it is asked to: to() and the
 * constructors' option `device` do, and runs whose inputs or outputs are on the host. */
#include <string.h>

#include "machine.h"

#define DEVICE_TABLE "soma.devices"

struct lb_device_tensor {
  soma_tensor *t;   /* NULL after close */
  lb_core *core;    /* kept reachable by user value 1 */
  lt_tensor layout; /* without data */
};

/* ---- Cores as devices ---------------------------------------------------------------------- */

void lb_register_device(lua_State *L, int index, int device) {
  index = lua_absindex(L, index);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  if (lua_rawgeti(L, -1, device) != LUA_TNIL)
    luaL_error(L, "core: neuron:%d is another core, which is not closed", device);
  lua_pop(L, 1);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, device);
  lua_pop(L, 1);
}

void lb_forget_device(lua_State *L, int device) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  lua_pushnil(L);
  lua_rawseti(L, -2, device);
  lua_pop(L, 1);
}

lb_core *lb_push_device(lua_State *L, int device) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, DEVICE_TABLE);
  if (lua_rawgeti(L, -1, device) == LUA_TNIL) {
    lua_pop(L, 1);
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
 * or made with those options of soma.core when there is none. */
static int get_device(lua_State *L) {
  lua_settop(L, 1);
  bool options = lua_type(L, 1) == LUA_TTABLE;
  const char *name = options ? lb_string(L, 1, "device", "device") : luaL_checkstring(L, 1);
  int device = lb_device(L, "device", name != NULL ? name : "neuron:0");
  luaL_argcheck(L, device != LB_CPU, 1, "the host is not a core");
  bool more = false;
  if (options) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 1) != 0;) {
      more = more || lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "device") != 0;
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 2);
    }
    lb_push_device_name(L, device);
    lua_setfield(L, 2, "device");
  }
  if (!more) {
    lb_push_device(L, device);
    return 1;
  }
  lua_pushcfunction(L, lb_new_core);
  lua_insert(L, 2);
  lua_call(L, 1, 1);
  return 1;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

lb_device_tensor *lb_test_device_tensor(lua_State *L, int arg) {
  return luaL_testudata(L, arg, LB_DEVICE_TENSOR);
}

static lb_device_tensor *check(lua_State *L, int arg) {
  lb_device_tensor *d = luaL_checkudata(L, arg, LB_DEVICE_TENSOR);
  luaL_argcheck(L, d->t != NULL, arg, "the tensor is closed");
  return d;
}

soma_tensor *lb_device_tensor_handle(const lb_device_tensor *d) { return d->t; }
lb_core *lb_device_tensor_core(const lb_device_tensor *d) { return d->core; }

lb_device_tensor *lb_new_device_tensor(lua_State *L, int core_index, const char *what,
                                       unsigned dtype, unsigned ndim, const int64_t *shape) {
  core_index = lua_absindex(L, core_index);
  lb_core *core = lua_touserdata(L, core_index);
  lb_device_tensor *d = lua_newuserdatauv(L, sizeof *d, 1);
  *d = (lb_device_tensor){.core = core, .layout = {.dtype = dtype, .ndim = ndim}};
  if (ndim > 0) memcpy(d->layout.shape, shape, ndim * sizeof *shape);
  lt_layout(&d->layout);
  luaL_setmetatable(L, LB_DEVICE_TENSOR);
  lua_pushvalue(L, core_index);
  lua_setiuservalue(L, -2, 1);
  if (core->m == NULL) luaL_error(L, "%s: the core of neuron:%d is closed", what, core->device);
  soma_status s = soma_tensor_new(core->m, (soma_dtype)dtype, ndim, shape, &d->t);
  if (s == SOMA_LIMIT) { /* what the program has dropped may still take HBM */
    lua_gc(L, LUA_GCCOLLECT);
    s = soma_tensor_new(core->m, (soma_dtype)dtype, ndim, shape, &d->t);
  }
  if (s != SOMA_OK) lb_fail(L, what, core->m, s);
  lb_account(L, (uint64_t)d->layout.size * isa_dtype_bytes(dtype));
  return d;
}

/* Moves the host tensor on the top to a device. */
void lb_move_tensor(lua_State *L, int device, const char *what) {
  int at = lua_gettop(L);
  const lt_tensor *t = lt_make_dense(L, at);
  const lb_core *core = lb_push_device(L, device);
  const lb_device_tensor *d = lb_new_device_tensor(L, -1, what, t->dtype, t->ndim, t->shape);
  soma_status s = soma_tensor_write(d->t, t->data, (size_t)t->size * isa_dtype_bytes(t->dtype));
  if (s != SOMA_OK) lb_fail(L, what, core->m, s);
  lua_replace(L, at);
  lua_settop(L, at);
}

/* Replaces the device tensor on the top by a copy on the host. */
static void move_to_host(lua_State *L, const lb_device_tensor *d) {
  lt_tensor *t = lt_new(L, d->layout.dtype, d->layout.ndim, d->layout.shape);
  soma_status s = soma_tensor_read(d->t, t->data, (size_t)t->size * isa_dtype_bytes(t->dtype));
  if (s == SOMA_BUSY) lb_fail(L, "to", d->core->m, s);
  if (s != SOMA_OK) luaL_error(L, "to: the core of neuron:%d is closed", d->core->device);
  lua_replace(L, -2);
}

/* t:to(device): t itself when it is there, else a copy there. */
static int tensor_to(lua_State *L) {
  int device = lb_device(L, "to", luaL_checkstring(L, 2));
  lua_settop(L, 1);
  if (lb_test_device_tensor(L, 1) != NULL) {
    const lb_device_tensor *d = check(L, 1);
    if (device == d->core->device && d->core->m != NULL) return 1;
    move_to_host(L, d);
  } else {
    lt_check(L, 1);
  }
  return lt_place(L, device, "to");
}

/* t:close(): gives its HBM back when no run needs it; also by <close> and the collector. */
static int device_close(lua_State *L) {
  lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  soma_tensor_free(d->t);
  d->t = NULL;
  return 0;
}

static int device_tostring(lua_State *L) {
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  lua_pushfstring(L, "%s on neuron:%d%s", lt_push_type(L, &d->layout), d->core->device,
                  d->t == NULL         ? " (closed)"
                  : d->core->m == NULL ? " (which is closed)"
                                       : "");
  return 1;
}

static int device_index(lua_State *L) {
  const lb_device_tensor *d = luaL_checkudata(L, 1, LB_DEVICE_TENSOR);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "device") == 0) {
    lb_push_device_name(L, d->core->device);
    return 1;
  }
  if (lt_push_property(L, &d->layout, key)) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return luaL_error(L, "a tensor on a device has no field or method '%s'; t:to \"cpu\" has more",
                    luaL_tolstring(L, 2, NULL));
}

static int device_newindex(lua_State *L) {
  return luaL_error(L, "a tensor on a device cannot be written by elements: use t:to \"cpu\"");
}

const luaL_Reg lb_tensor_methods[] = {{"to", tensor_to}, {NULL, NULL}};
const luaL_Reg lb_device_functions[] = {{"device", get_device}, {NULL, NULL}};

void lb_open_device(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", device_close},
                                  {"__close", device_close},
                                  {"__tostring", device_tostring},
                                  {"__newindex", device_newindex},
                                  {NULL, NULL}};
  static const luaL_Reg methods[] = {{"to", tensor_to}, {"close", device_close}, {NULL, NULL}};
  lb_class(L, LB_DEVICE_TENSOR, meta, NULL);
  luaL_getmetatable(L, LB_DEVICE_TENSOR);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_pushcclosure(L, device_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "tensor on a device: use t:to \"cpu\"");
  lua_setfield(L, -2, "__name"); /* what messages about wrong arguments call it */
  lua_pop(L, 1);
}
