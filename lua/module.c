/* The module's entry: what its rooms register. */
#include "module.h"

#include "kernel/kernel.h"
#include "machine/machine.h"
#include "tensor/file.h"

int luaopen_soma(lua_State *L) {
  luaL_checkversion(L);
  lua_newtable(L);
  luaL_setfuncs(L, lt_make_functions, 0);
  luaL_setfuncs(L, lt_op_functions, 0);
  luaL_setfuncs(L, lt_math_functions, 0);
  luaL_setfuncs(L, lt_reduce_functions, 0);
  luaL_setfuncs(L, lt_compare_functions, 0);
  luaL_setfuncs(L, lt_npy_functions, 0);
  luaL_setfuncs(L, lt_npz_functions, 0);
  luaL_setfuncs(L, lt_safetensors_functions, 0);
  luaL_setfuncs(L, lb_program_functions, 0);
  luaL_setfuncs(L, lb_core_functions, 0);
  luaL_setfuncs(L, lb_profile_functions, 0);
  luaL_setfuncs(L, lb_device_functions, 0);
  luaL_setfuncs(L, lb_world_functions, 0);
  lb_set_text(L, "version", SOMA_VERSION);
  lua_createtable(L, ISA_NDTYPES, 0);
  for (unsigned d = 1; d < ISA_NDTYPES; d++) {
    lua_pushstring(L, isa_dtypes[d].name);
    lua_rawseti(L, -2, d);
  }
  lua_setfield(L, -2, "dtypes");
  lb_push_isa(L);
  lua_setfield(L, -2, "isa");
  lb_push_checks(L);
  lua_setfield(L, -2, "checks");
  lb_open_file(L);
  lt_open(L, lb_tensor_methods, &lb_tensor_devices);
  lt_open_npz(L);
  lt_open_safetensors(L);
  lb_open_program(L);
  lb_open_core(L);
  lb_open_device(L);
  lb_open_memory(L);
  lb_open_hbm(L);
  lb_open_stats(L);
  lb_open_run(L);
  lb_open_world(L);
  lb_open_debug(L);
  lb_open_parts(L);
  lk_open(L);
  return 1;
}
